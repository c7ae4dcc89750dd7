/* The verifier on values that are written in part and read again in the same expression: checks of which nobody knows whether they
 * pass, within each other, and indices that are divided under them. The programs pass; with any instruction of them wrong
 * they do not. */
#include "ir/dim.h"
#include "plan/plan.h"
#include "support/test.h"

typedef struct planned {
  sn_ctx *ctx;
  sn_graph *lowered;
  program *p;
} planned;

static sn_status make(const char *source, planned *x) {
  sn_graph *g = NULL;
  plan_options o = {0};
  sn_status status = sn_graph_parse(x->ctx, source, &g);
  if (status == SN_OK)
    status = plan_lower(g, &x->lowered);
  sn_graph_destroy(g);
  SN_TRY(status);
  SN_TRY(plan_fuse(x->lowered, &o, &x->p));
  SN_TRY(plan_order(x->p, x->ctx));
  SN_TRY(plan_in_place(x->p, x->ctx));
  SN_TRY(plan_place(x->p, x->ctx));
  SN_TRY(plan_barriers(x->p, x->ctx));
  return plan_verify(x->p, x->lowered);
}

static bool start(const char *source, planned *x) {
  *x = (planned){0};
  if (!CHECK(sn_ctx_create(NULL, &x->ctx) == SN_OK))
    return false;
  return make(source, x) == SN_OK || FAIL("%s", sn_ctx_message(x->ctx));
}

static void end(planned *x) {
  program_destroy(x->p);
  sn_graph_destroy(x->lowered);
  sn_ctx_destroy(x->ctx);
}

/* --- faults --- */

static int planted;

static void check_found(const planned *x, instr *at, instr wrong, const char *what, int k) {
  instr was = *at;
  *at = wrong;
  planted++;
  if (plan_verify(x->p, x->lowered) == SN_OK)
    FAIL("%s %d of %d(%d, %d, %d): not noticed", what, k, was.op, was.a, was.b, was.c);
  *at = was;
}

/* Of a coordinate or an index: each stride, and what registers are clamped to. */
static void check_terms(const planned *x, instr *at, term *terms, int n) {
  for (int k = 0; k < n; k++) {
    term was = terms[k];
    if (was.mod == 1) /* always 0 */
      continue;
    terms[k].stride = dim_is_number(was.stride) ? was.stride + 1 : 1;
    check_found(x, at, *at, "stride", k);
    terms[k] = was;
    if (was.axis != TERM_REG || !dim_is_number(was.mod))
      continue;
    terms[k].mod--;
    check_found(x, at, *at, "clamp", k);
    terms[k] = was;
  }
}

static void check_checks(const planned *x, instr *at) {
  for (int k = 0; k < at->at.n_checks; k++) {
    check *c = (check *)(uintptr_t)&at->at.checks[k], was = *c;
    c->offset++;
    check_found(x, at, *at, "offset of check", k);
    *c = was;
    c->size = dim_is_number(was.size) ? was.size - 1 : 1;
    check_found(x, at, *at, "size of check", k);
    c->size = dim_is_number(was.size) ? was.size + 1 : 1;
    if (at->op == REGION_INSIDE) /* what is loaded is masked again */
      check_found(x, at, *at, "larger size of check", k);
    *c = was;
    check_terms(x, at, (term *)(uintptr_t)c->terms, c->n_terms);
  }
  instr wrong = *at;
  wrong.at.n_checks--;
  if (at->op == REGION_INSIDE) /* the same */
    check_found(x, at, wrong, "lost check", at->at.n_checks);
}

static void check_access(const planned *x, instr *at) {
  instr wrong = *at;
  wrong.at.base = dim_is_number(at->at.base) ? at->at.base + 1 : 0;
  if (at->op == REGION_LOAD || at->op == REGION_INDEX)
    check_found(x, at, wrong, "base", 0);
  if (at->op == REGION_LOAD || at->op == REGION_INDEX)
    check_terms(x, at, (term *)(uintptr_t)at->at.terms, at->at.n_terms);
  check_checks(x, at);
}

/* Another condition, and what is chosen exchanged. */
static void check_choice(const planned *x, const region *r, instr *at) {
  instr wrong = *at;
  wrong.b = at->c;
  wrong.c = at->b;
  check_found(x, at, wrong, "choice", 0);
  for (int k = 0; k < (int)(at - r->code); k++) {
    bool asks = r->code[k].dtype == SN_BOOL && r->code[k].op != REGION_STORE;
    wrong = *at;
    wrong.a = (reg)k;
    if (asks && k != at->a && r->code[k].row <= at->row && r->code[k].phase <= at->phase &&
        (r->code[k].row || r->code[k].phase == at->phase))
      check_found(x, at, wrong, "condition", k);
  }
}

static void check_division(const planned *x, instr *at) {
  instr wrong = *at;
  wrong.code = at->code == ALU_rem ? ALU_floor_div : ALU_rem;
  check_found(x, at, wrong, "division", 0);
}

static void check_region(const planned *x, const region *r) {
  for (int i = 0; i < r->n; i++) {
    instr *at = (instr *)(uintptr_t)&r->code[i];
    if (at->op == REGION_LOAD || at->op == REGION_INDEX || at->op == REGION_INSIDE)
      check_access(x, at);
    else if (at->op == REGION_ALU && at->code == ALU_select)
      check_choice(x, r, at);
    else if (at->op == REGION_ALU && (at->code == ALU_floor_div || at->code == ALU_rem))
      check_division(x, at);
  }
}

/* Parts that require something are the same in all programs: test_verify.c. */
static bool requires(const region *r) {
  for (int i = 0; i < r->n; i++)
    if (r->code[i].op == REGION_REQUIRE)
      return true;
  return false;
}

static void check_text(const char *source, int least) {
  planned x;
  planted = 0;
  if (start(source, &x)) {
    for (int s = 0; s < program_steps(x.p); s++)
      for (int k = 0; x.p->steps[s].kind < STEP_MATMUL && k < x.p->steps[s].n_parts; k++)
        if (!requires(&x.p->steps[s].parts[k].u.loop.code))
          check_region(&x, &x.p->steps[s].parts[k].u.loop.code);
    CHECK(planted >= least);
    CHECK(plan_verify(x.p, x.lowered) == SN_OK);
  }
  end(&x);
}

TEST(an_update_by_a_sum_of_its_base) {
  check_text("%1 = input() name=\"x\" dtype=f32 shape=[8, 4]\n"
             "%2 = logsumexp(%1) axes=[0, 1] keepdims=true\n"
             "%3 = expand(%2) shape=[8, 4]\n"
             "%4 = slice(%3) axis=0 start=0 stop=3 step=1\n"
             "%5 = input() name=\"st\" dtype=i32 shape=[]\n"
             "%6 = neg(%4)\n"
             "%7 = update_slice(%3, %6, %5) axis=0\n"
             "%8 = relu(%7)\n"
             "output \"y\" %8\n",
             8);
}

TEST(an_update_of_an_update_by_a_slice_of_it) {
  check_text("%1 = input() name=\"x\" dtype=f32 shape=[5, 4]\n"
             "%2 = input() name=\"v\" dtype=f32 shape=[5, 2]\n"
             "%3 = input() name=\"a\" dtype=i32 shape=[]\n"
             "%4 = update_slice(%1, %2, %3) axis=1\n"
             "%5 = tanh(%4)\n"
             "%6 = input() name=\"b\" dtype=i32 shape=[]\n"
             "%7 = slice(%5) axis=1 start=0 stop=3 step=1\n"
             "%8 = update_slice(%5, %7, %6) axis=1\n"
             "%9 = add(%8, %5)\n"
             "output \"y\" %9\n",
             20);
}

TEST(an_update_of_what_is_reshaped) {
  check_text("symbol n 7\n"
             "%1 = input() name=\"x\" dtype=f32 shape=[n, 6]\n"
             "%2 = reshape(%1) shape=[6, n]\n"
             "%3 = input() name=\"st\" dtype=i32 shape=[]\n"
             "%4 = slice(%2) axis=1 start=0 stop=1 step=1\n"
             "%5 = update_slice(%2, %4, %3) axis=1\n"
             "%6 = sum(%5) axes=[1] keepdims=false\n"
             "output \"y\" %6\n",
             15);
}

TEST(an_update_within_what_is_reshaped) {
  check_text("%1 = input() name=\"x\" dtype=f32 shape=[2, 4, 8]\n"
             "%2 = input() name=\"st\" dtype=i32 shape=[]\n"
             "%3 = slice(%1) axis=1 start=0 stop=2 step=1\n"
             "%4 = update_slice(%1, %3, %2) axis=1\n"
             "%5 = reshape(%4) shape=[8, 4, 2]\n"
             "%6 = tanh(%5)\n"
             "output \"y\" %6\n",
             10);
}

/* The flip is a view, but in memory for the scatter; the sum reads both. */
TEST(an_update_of_a_view_and_of_what_it_shows) {
  check_text("%1 = input() name=\"x\" dtype=f32 shape=[2, 4, 3]\n"
             "%2 = input() name=\"i\" dtype=i32 shape=[2, 4, 2]\n"
             "%3 = input() name=\"v\" dtype=f32 shape=[2, 4, 2]\n"
             "%4 = flip(%3) axes=[1]\n"
             "%5 = scatter_along_set(%1, %2, %4) axis=2\n"
             "%6 = add(%3, %4)\n"
             "%7 = input() name=\"st\" dtype=i32 shape=[]\n"
             "%8 = slice(%6) axis=2 start=0 stop=1 step=1\n"
             "%9 = update_slice(%6, %8, %7) axis=2\n"
             "%10 = add(%6, %9)\n"
             "output \"z\" %5\n"
             "output \"y\" %10\n",
             20);
}

/* --- sizes --- */

/* Of n rows, which may be none: then nothing is read, and the run fails. */
static const char rows_of_few[] = "symbol n 7\n"
                                  "%1 = full() dtype=i32 shape=[2] value=0\n"
                                  "%2 = input() name=\"x\" dtype=f32 shape=[n, 4]\n"
                                  "%3 = gather(%2, %1)\n"
                                  "%4 = input() name=\"i\" dtype=i32 shape=[2]\n"
                                  "%5 = gather(%2, %4)\n"
                                  "%6 = sub(%3, %5)\n"
                                  "output \"y\" %6\n";

TEST(rows_that_there_may_be_none_of) {
  planned x;
  planted = 0;
  if (start(rows_of_few, &x)) {
    for (int s = 0; s < program_steps(x.p); s++)
      for (int k = 0; k < x.p->steps[s].n_parts; k++) {
        const region *r = &x.p->steps[s].parts[k].u.loop.code;
        for (int i = 0; i < r->n; i++)
          for (int t = 0; r->code[i].op == REGION_LOAD && t < r->code[i].at.n_terms; t++) {
            term *at = (term *)(uintptr_t)&r->code[i].at.terms[t], was = *at;
            if (at->axis != TERM_REG)
              continue;
            for (at->mod = 0; at->mod <= 7;
                 at->mod += 7) /* 0: reads nothing, also where rows are */
              check_found(&x, (instr *)(uintptr_t)&r->code[i], r->code[i], "clamp", t);
            *at = was;
          }
      }
    CHECK(planted >= 4);
    CHECK(plan_verify(x.p, x.lowered) == SN_OK);
  }
  end(&x);
}

/* At most 4 * 3 * 7 elements, though 3 m n - 3 n reaches more when its terms are looked at alone. */
TEST(room_for_products_of_differences) {
  planned x;
  if (start("symbol n 7\n"
            "symbol m 5\n"
            "%1 = input() name=\"x\" dtype=f32 shape=[m-1, 3, n]\n"
            "%2 = exp(%1)\n"
            "%3 = cumsum(%2) axis=1 exclusive=false reverse=false\n"
            "output \"y\" %3\n",
            &x)) {
    int found = 0;
    for (uint32_t v = 1; v < x.p->n_values; v++) {
      program_value *value = &x.p->values[v];
      value->bytes--;
      found += plan_verify(x.p, x.lowered) != SN_OK;
      value->bytes++;
    }
    CHECK_EQ_INT(found, x.p->n_values - 1);
    int n = x.p->n_requirements;
    x.p->n_requirements = 0; /* a negative size times another */
    CHECK(plan_verify(x.p, x.lowered) != SN_OK);
    x.p->n_requirements = n;
    CHECK(plan_verify(x.p, x.lowered) == SN_OK);
  }
  end(&x);
}
