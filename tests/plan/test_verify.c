/* The verifier on what the planner makes: programs of all op cases, random graphs and models pass; with faults planted in them
 * they do not, and the message is of the right sort. Hand-built programs: test_verify_by_hand.c. */
#include "ops/table.h"
#include "plan/plan.h"
#include "support/case.h"
#include "support/program_faults.h"
#include "support/random_graph.h"
#include "support/test.h"
#include "support/train_graph.h"

#include <stdio.h>

typedef struct planned {
  sn_graph *lowered;
  program *p;
} planned;

/* All passes but the proof. */
static sn_status plan(sn_ctx *ctx, const sn_graph *g, bool no_fusion, planned *out) {
  plan_options o = {.no_fusion = no_fusion};
  *out = (planned){0};
  SN_TRY(plan_lower(g, &out->lowered));
  SN_TRY(plan_fuse(out->lowered, &o, &out->p));
  SN_TRY(plan_order(out->p, ctx));
  SN_TRY(plan_in_place(out->p, ctx));
  SN_TRY(plan_place(out->p, ctx));
  return plan_barriers(out->p, ctx);
}

static void forget(planned *x) {
  program_destroy(x->p);
  sn_graph_destroy(x->lowered);
}

static void check_graph(sn_ctx *ctx, const sn_graph *g, const char *what) {
  for (int no_fusion = 0; no_fusion < 2; no_fusion++) {
    planned x;
    if (plan(ctx, g, no_fusion, &x) != SN_OK)
      FAIL("%s: planning: %s", what, sn_ctx_message(ctx));
    else if (plan_verify(x.p, x.lowered) != SN_OK)
      FAIL("%s%s: %s", what, no_fusion ? " without fusion" : "", sn_ctx_message(ctx));
    forget(&x);
  }
}

TEST_WALK(programs_of_all_cases_pass) {
  const op_table *table = op_table_get();
  for (int i = 1; i < table->n; i++) {
    const op_desc *op = &table->ops[i];
    if (!test_begin("%s", op->name))
      continue;
    for (int k = 0; k < op->impl->n_cases; k++) {
      sn_ctx *ctx;
      op_test_case c;
      sn_graph *g = NULL;
      sn_value first;
      REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
      if (!op->impl->cases[k].error &&
          CHECK(case_load(ctx, table, op->impl->cases[k].text, &c) == SN_OK)) {
        if (case_graph(&c, &g, &first) == SN_OK)
          check_graph(ctx, g, op->impl->cases[k].text);
        sn_graph_destroy(g);
        case_free(&c);
      }
      sn_ctx_destroy(ctx);
    }
    test_end();
  }
}

TEST(programs_of_random_graphs_pass) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    sn_ctx *ctx;
    random_graph r;
    char what[32];
    REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
    snprintf(what, sizeof what, "seed %d", (int)seed);
    if (random_graph_make(&r, ctx, seed, 20) == SN_OK)
      check_graph(ctx, r.g, what);
    random_graph_end(&r);
    sn_ctx_destroy(ctx);
  }
}

/* What is right but not easily seen to be: registers that cancel, guards within guards, sizes of 1 and of 0. */
static const struct {
  const char *name, *text;
} subtle[] = {{"a slice of an update at the same start",
               "symbol n 7\n"
               "%1 = state() name=\"cache\" dtype=f32 shape=[16, 6] init=zeros scale=0\n"
               "%2 = input() name=\"start\" dtype=i32 shape=[]\n"
               "%3 = input() name=\"fresh\" dtype=f32 shape=[n, 6]\n"
               "%4 = update_slice(%1, %3, %2) axis=0\n"
               "%5 = slice_at(%4, %2) axis=0 size=n\n"
               "output \"y\" %5\n"},
              {"two checks, one through a register",
               "%1 = input() name=\"fresh\" dtype=f32 shape=[7]\n"
               "%2 = state() name=\"cache\" dtype=f32 shape=[16] init=zeros scale=0\n"
               "%3 = state() name=\"start\" dtype=i32 shape=[] init=zeros scale=0\n"
               "%4 = update_slice(%2, %1, %3) axis=0\n"
               "%5 = concat(%4, %2) axis=0\n"
               "output \"y\" %5\n"},
              {"a check of a divided axis",
               "symbol n 7\n"
               "%1 = state() name=\"cache\" dtype=f32 shape=[16, 6] init=zeros scale=0\n"
               "%2 = input() name=\"start\" dtype=i32 shape=[]\n"
               "%3 = input() name=\"fresh\" dtype=f32 shape=[n, 6]\n"
               "%4 = update_slice(%1, %3, %2) axis=0\n"
               "%5 = reshape(%4) shape=[-1]\n"
               "output \"y\" %5\n"},
              {"masks in a mask", "symbol n 7\n"
                                  "%1 = input() name=\"start\" dtype=i32 shape=[]\n"
                                  "%2 = input() name=\"a\" dtype=f32 shape=[n, 6]\n"
                                  "%3 = input() name=\"b\" dtype=f32 shape=[n, 6]\n"
                                  "%4 = add(%2, %3)\n"
                                  "%5 = add(%4, %3)\n"
                                  "%6 = full() dtype=f32 shape=[16, 6] value=0\n"
                                  "%7 = update_slice(%6, %5, %1) axis=0\n"
                                  "%8 = input() name=\"c\" dtype=f32 shape=[16, 6]\n"
                                  "%9 = add(%8, %7)\n"
                                  "output \"y\" %9\n"},
              {"a choice in a mask",
               "symbol n 7\n"
               "%1 = input() name=\"a\" dtype=f32 shape=[n, 6]\n"
               "%2 = input() name=\"b\" dtype=f32 shape=[n, 6]\n"
               "%3 = input() name=\"which\" dtype=bool shape=[n, 6]\n"
               "%4 = where(%3, %1, %2)\n"
               "%5 = state() name=\"cache\" dtype=f32 shape=[16, 6] init=zeros scale=0\n"
               "%6 = state() name=\"start\" dtype=i32 shape=[] init=zeros scale=0\n"
               "%7 = update_slice(%5, %4, %6) axis=0\n"
               "%8 = concat(%5, %7) axis=0\n"
               "output \"y\" %8\n"},
              {"random words in a mask",
               "symbol n 7\n"
               "%1 = input() name=\"a\" dtype=f32 shape=[n, 6]\n"
               "%2 = state() name=\"key\" dtype=i32 shape=[3] init=zeros scale=0\n"
               "%3 = uniform(%2) dtype=f32 shape=[n, 6] lo=-1 hi=1 stream=0\n"
               "%4 = add(%1, %3)\n"
               "%5 = state() name=\"cache\" dtype=f32 shape=[16, 6] init=zeros scale=0\n"
               "%6 = state() name=\"start\" dtype=i32 shape=[] init=zeros scale=0\n"
               "%7 = update_slice(%5, %4, %6) axis=0\n"
               "%8 = add(%5, %7)\n"
               "output \"y\" %8\n"},
              {"a slice within an update",
               "symbol n 7\n"
               "%1 = state() name=\"first\" dtype=f32 shape=[16, 6] init=zeros scale=0\n"
               "%2 = input() name=\"start\" dtype=i32 shape=[]\n"
               "%3 = input() name=\"fresh\" dtype=f32 shape=[n, 6]\n"
               "%4 = update_slice(%1, %3, %2) axis=0\n"
               "%5 = slice_at(%4, %2) axis=0 size=n\n"
               "%6 = state() name=\"second\" dtype=f32 shape=[16, 6] init=zeros scale=0\n"
               "%7 = input() name=\"other\" dtype=i32 shape=[]\n"
               "%8 = update_slice(%6, %5, %7) axis=0\n"
               "%9 = add(%6, %8)\n"
               "output \"y\" %9\n"},
              {"an update by nothing", "%1 = input() name=\"start\" dtype=i32 shape=[]\n"
                                       "%2 = input() name=\"a\" dtype=f32 shape=[2, 1]\n"
                                       "%3 = expand(%2) shape=[2, 0]\n"
                                       "%4 = full() dtype=f32 shape=[2, 3] value=0\n"
                                       "%5 = update_slice(%4, %3, %1) axis=1\n"
                                       "%6 = input() name=\"b\" dtype=f32 shape=[2, 3]\n"
                                       "%7 = add(%6, %5)\n"
                                       "output \"y\" %7\n"},
              {"windows of a gather of what is reshaped",
               "%1 = input() name=\"x\" dtype=f32 shape=[2, 4, 5, 6]\n"
               "%2 = input() name=\"at\" dtype=i32 shape=[3]\n"
               "%3 = reshape(%1) shape=[2, 4, 30]\n"
               "%4 = tanh(%3)\n"
               "%5 = reshape(%4) shape=[2, 4, 5, 6]\n"
               "%6 = index_select(%5, %2) axis=2\n"
               "%7 = pool(%6) kind=max kernel=[3, 2] stride=[2, 1] pad_before=[1, 0] "
               "pad_after=[0, 1] dilation=[1, 1] ceil_mode=false count_include_pad=false\n"
               "output \"y\" %7\n"},
              {"windows of two gathers of what is reshaped",
               "%1 = input() name=\"x\" dtype=f32 shape=[7, 5, 6]\n"
               "%2 = input() name=\"row\" dtype=i32 shape=[3]\n"
               "%3 = input() name=\"column\" dtype=i32 shape=[4]\n"
               "%4 = reshape(%1) shape=[210]\n"
               "%5 = tanh(%4)\n"
               "%6 = reshape(%5) shape=[7, 5, 6]\n"
               "%7 = index_select(%6, %2) axis=0\n"
               "%8 = index_select(%7, %3) axis=1\n"
               "%9 = reshape(%8) shape=[1, 3, 4, 6]\n"
               "%10 = pool(%9) kind=max kernel=[3, 2] stride=[2, 1] pad_before=[1, 1] "
               "pad_after=[0, 1] dilation=[1, 1] ceil_mode=false count_include_pad=false\n"
               "output \"y\" %10\n"}};

TEST(subtle_programs_pass) {
  for (size_t k = 0; k < COUNT_OF(subtle); k++) {
    sn_ctx *ctx;
    sn_graph *g = NULL;
    REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
    if (sn_graph_parse(ctx, subtle[k].text, &g) == SN_OK)
      check_graph(ctx, g, subtle[k].name);
    else
      FAIL("%s: %s", subtle[k].name, sn_ctx_message(ctx));
    sn_graph_destroy(g);
    sn_ctx_destroy(ctx);
  }
}

/* --- planted faults --- */

enum { OPPORTUNITIES = 12, MOST_KINDS = 128 };

/* How often each kind was planted, over all programs. */
typedef struct tally {
  int planted[MOST_KINDS];
} tally;

static bool has_word(const char *message, const char *const *words) {
  for (; *words; words++)
    if (strstr(message, *words))
      return true;
  return false;
}

static void plant_all(sn_ctx *ctx, planned *x, const char *what, tally *t) {
  fault_undo undo;
  for (int kind = 0; kind < program_fault_kinds(); kind++)
    for (int n = 0; n < OPPORTUNITIES && program_fault_plant(x->p, kind, n, &undo); n++) {
      sn_status status = plan_verify(x->p, x->lowered);
      program_fault_restore(&undo);
      t->planted[kind]++;
      if (status == SN_OK)
        FAIL("%s: %s, opportunity %d: not noticed", what, program_fault_name(kind), n);
      else if (status != SN_ERR_INTERNAL ||
               !has_word(sn_ctx_message(ctx), program_fault_words(kind)))
        FAIL("%s: %s, opportunity %d: %s", what, program_fault_name(kind), n, sn_ctx_message(ctx));
    }
  if (plan_verify(x->p, x->lowered) != SN_OK)
    FAIL("%s: restored: %s", what, sn_ctx_message(ctx));
}

typedef struct subject {
  const char *name;
  sn_status (*build)(sn_ctx *ctx, sn_graph **out);
} subject;

static sn_status build_training(sn_ctx *ctx, sn_graph **out) {
  train_graph_options o = train_graph_tiny(SN_MODEL_LLAMA, 1);
  return train_graph_build(ctx, &o, out);
}

/* Pieces, checks, a core, a gather with its check, prepared weights, two assigned states. */
static sn_status build_mixture(sn_ctx *ctx, sn_graph **out) {
  SN_TRY(sn_graph_create(ctx, out));
  sn_graph *g = *out;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(6, 10));
  sn_value index = sn_input(g, "index", SN_I32, SN_SHAPE(7));
  sn_value table = sn_state(g, "table", SN_F32, SN_SHAPE(5, 10), SN_INIT_NORMAL, 1);
  sn_value moment = sn_state(g, "moment", SN_F32, SN_SHAPE(5, 10), SN_INIT_ZEROS, 0);
  sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(10, 12), SN_INIT_NORMAL, 1);
  sn_value rows = sn_gather(g, table, index);
  sn_value scaled = sn_exp(g, sn_transpose(g, w, SN_INTS(1, 0)));
  sn_value y = sn_matmul(g, sn_tanh(g, x), scaled, false, true);
  sn_value smooth = sn_softmax(g, sn_sub(g, y, sn_affine(g, y, 0.5, 3)), -1);
  sn_value padded = sn_pad(g, smooth, SN_INTS(1, 2), SN_INTS(0, 1), SN_PAD_CONSTANT, 0);
  const sn_value both[] = {rows, x};
  sn_value joined = sn_concat(g, both, 2, 0);
  sn_value change = sn_div(g, sn_slice(g, joined, 0, 4, 9, 1), sn_affine(g, moment, 1, 2));
  sn_output(g, "padded", padded);
  sn_output(g, "scan", sn_cumsum(g, sn_sub(g, joined, sn_sqr(g, joined)), 0, false, false));
  sn_assign(g, table, sn_sub(g, table, change));
  sn_assign(g, moment, sn_add(g, moment, change));
  return sn_graph_status(g);
}

static sn_status build_symbolic(sn_ctx *ctx, sn_graph **out) {
  SN_TRY(sn_graph_create(ctx, out));
  sn_graph *g = *out;
  sn_dim n = sn_symbol(g, "n", 50);
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(n, 16));
  sn_value b = sn_state(g, "b", SN_F32, SN_SHAPE(16), SN_INIT_NORMAL, 1);
  sn_value y = sn_layer_norm(g, x, b, SN_NONE, 1, 1e-5);
  sn_output(g, "top", sn_max(g, y, SN_INTS(0), false));
  sn_output(g, "some", sn_slice(g, sn_relu(g, y), 0, 2, sn_dim_sub(g, n, 1), 1));
  return sn_graph_status(g);
}

/* A slice written into a state in place, a scatter, attention on what was written. */
static sn_status build_cache(sn_ctx *ctx, sn_graph **out) {
  SN_TRY(sn_graph_create(ctx, out));
  sn_graph *g = *out;
  sn_value q = sn_input(g, "q", SN_F32, SN_SHAPE(1, 2, 3, 4));
  sn_value fresh = sn_input(g, "fresh", SN_F32, SN_SHAPE(1, 2, 3, 4));
  sn_value start = sn_input(g, "start", SN_I32, (sn_shape){0});
  sn_value index = sn_input(g, "index", SN_I32, SN_SHAPE(3));
  sn_value cache = sn_state(g, "cache", SN_F32, SN_SHAPE(1, 2, 16, 4), SN_INIT_ZEROS, 0);
  sn_value counts = sn_state(g, "counts", SN_F32, SN_SHAPE(9), SN_INIT_ZEROS, 0);
  sn_value keys = sn_update_slice(g, cache, sn_sub(g, fresh, q), start, 2);
  sn_value seen = sn_attention(g, q, keys, keys, SN_NONE, SN_NONE, SN_NONE, SN_NONE, 0.5, 0,
                               SN_CAUSAL_END, 0, SN_LAYOUT_BHSD);
  sn_value ones = sn_full(g, SN_F32, SN_SHAPE(3), 1);
  sn_output(g, "seen", sn_affine(g, seen, 2, 1));
  sn_assign(g, cache, keys);
  sn_assign(g, counts, sn_scatter_add(g, counts, index, ones));
  return sn_graph_status(g);
}

/* Updates of updates (by what is made of them: test_verify_chains.c), a scatter over one of them and one over a slice, and a pool beside what it pools. */
static sn_status build_chains(sn_ctx *ctx, sn_graph **out) {
  return sn_graph_parse(ctx,
                        "%1 = state() name=\"x\" dtype=f32 shape=[8, 6] init=zeros scale=0\n"
                        "%2 = input() name=\"v\" dtype=f32 shape=[8, 2]\n"
                        "%3 = input() name=\"a\" dtype=i32 shape=[]\n"
                        "%4 = update_slice(%1, %2, %3) axis=1\n"
                        "%5 = sub(%4, %1)\n"
                        "%6 = input() name=\"b\" dtype=i32 shape=[]\n"
                        "%7 = input() name=\"u\" dtype=f32 shape=[8, 3]\n"
                        "%8 = update_slice(%5, %7, %6) axis=1\n"
                        "%9 = sub(%8, %5)\n"
                        "%10 = input() name=\"i\" dtype=i32 shape=[3]\n"
                        "%11 = input() name=\"w\" dtype=f32 shape=[3, 6]\n"
                        "%12 = scatter_add(%4, %10, %11)\n"
                        "%13 = slice(%9) axis=0 start=2 stop=7 step=1\n"
                        "%14 = scatter_set(%13, %10, %11)\n"
                        "%15 = reshape(%9) shape=[1, 8, 6]\n"
                        "%16 = pool(%15) kind=max kernel=[5] stride=[5] pad_before=[0] "
                        "pad_after=[0] dilation=[1] ceil_mode=false count_include_pad=false\n"
                        "%17 = sub(%16, %15)\n"
                        "output \"y\" %9\n"
                        "output \"added\" %12\n"
                        "output \"set\" %14\n"
                        "output \"pooled\" %17\n"
                        "assign %1 %4\n",
                        out);
}

/* Rows picked along an axis that is empty under some bindings, of a value that is not, into a base that may be empty. */
static sn_status build_picks(sn_ctx *ctx, sn_graph **out) {
  return sn_graph_parse(ctx,
                        "symbol m 4\n"
                        "%1 = input() name=\"x\" dtype=f32 shape=[4, 3]\n"
                        "%2 = slice(%1) axis=0 start=0 stop=((m)/2) step=1\n"
                        "%3 = exp(%2)\n"
                        "%4 = input() name=\"i\" dtype=i32 shape=[3]\n"
                        "%5 = gather(%3, %4)\n"
                        "%6 = input() name=\"base\" dtype=f32 shape=[m, 3]\n"
                        "%7 = scatter_add(%6, %4, %5)\n"
                        "output \"picked\" %5\n"
                        "output \"added\" %7\n",
                        out);
}

static const subject subjects[] = {{"chains", build_chains},     {"picks", build_picks},
                                   {"training", build_training}, {"mixture", build_mixture},
                                   {"symbolic", build_symbolic}, {"cache", build_cache}};

TEST(planted_faults_are_found) {
  tally t = {0};
  for (size_t k = 0; k < COUNT_OF(subjects); k++)
    for (int no_fusion = 0; no_fusion < 2; no_fusion++) {
      sn_ctx *ctx;
      sn_graph *g = NULL;
      planned x = {0};
      REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
      if (subjects[k].build(ctx, &g) != SN_OK || plan(ctx, g, no_fusion, &x) != SN_OK ||
          plan_verify(x.p, x.lowered) != SN_OK)
        FAIL("%s: %s", subjects[k].name, sn_ctx_message(ctx));
      else
        plant_all(ctx, &x, subjects[k].name, &t);
      forget(&x);
      sn_graph_destroy(g);
      sn_ctx_destroy(ctx);
    }
  for (int kind = 0; kind < program_fault_kinds(); kind++)
    if (!t.planted[kind])
      FAIL("%s: never planted", program_fault_name(kind));
}

/* Windows that a program reads through quotients and remainders of registers. */
static sn_status build_windows(sn_ctx *ctx, sn_graph **out) {
  return sn_graph_parse(ctx,
                        "%1 = input() name=\"x\" dtype=f32 shape=[5, 6]\n"
                        "%2 = input() name=\"at\" dtype=i32 shape=[3]\n"
                        "%3 = reshape(%1) shape=[30]\n"
                        "%4 = tanh(%3)\n"
                        "%5 = reshape(%4) shape=[5, 6]\n"
                        "%6 = index_select(%5, %2) axis=0\n"
                        "%7 = reshape(%6) shape=[1, 1, 3, 6]\n"
                        "%8 = pool(%7) kind=max kernel=[2, 2] stride=[1, 1] pad_before=[0, 0] "
                        "pad_after=[1, 1] dilation=[1, 1] ceil_mode=false "
                        "count_include_pad=false\n"
                        "output \"y\" %8\n",
                        out);
}

static void check_found(const planned *x, instr *at, instr wrong, const char *what) {
  instr was = *at;
  *at = wrong;
  if (plan_verify(x->p, x->lowered) == SN_OK)
    FAIL("%s of register %d: not noticed", what, (int)was.a);
  *at = was;
}

/* Its number, and the strides and clamps of its registers. */
static void check_place(const planned *x, instr *at) {
  instr wrong = *at;
  wrong.at.base++;
  check_found(x, at, wrong, "base");
  for (int k = 0; k < at->at.n_terms; k++) {
    term terms[ACCESS_TERMS];
    memcpy(terms, at->at.terms, (size_t)at->at.n_terms * sizeof *terms);
    wrong = *at;
    wrong.at.terms = terms;
    if (terms[k].axis != TERM_REG)
      continue;
    terms[k].mod--;
    check_found(x, at, wrong, "clamp");
    terms[k].mod++;
    terms[k].stride--;
    check_found(x, at, wrong, "stride");
  }
}

/* Whether it is a division; other ones are not what the graph says. */
static bool check_division(const planned *x, instr *code, instr *at) {
  if (at->op != REGION_ALU || (at->code != ALU_floor_div && at->code != ALU_rem))
    return false;
  instr wrong = *at, *by = &code[at->b], other = *by;
  wrong.code = at->code == ALU_rem ? ALU_floor_div : ALU_rem;
  check_found(x, at, wrong, "division");
  other.x--;
  check_found(x, by, other, "divisor");
  other.x *= 2;
  check_found(x, by, other, "divisor");
  return true;
}

TEST(wrong_divisions_are_found) {
  sn_ctx *ctx;
  sn_graph *g = NULL;
  planned x = {0};
  int n = 0;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(build_windows(ctx, &g) == SN_OK) && CHECK(plan(ctx, g, false, &x) == SN_OK) &&
      CHECK(plan_verify(x.p, x.lowered) == SN_OK)) {
    const region *r = &x.p->steps[program_steps(x.p) - 1].parts[0].u.loop.code;
    instr *code = (instr *)(uintptr_t)r->code;
    for (int i = 0; i < r->n; i++) {
      n += check_division(&x, code, &code[i]);
      if (code[i].op == REGION_INDEX || code[i].op == REGION_LOAD)
        check_place(&x, &code[i]);
    }
    CHECK_EQ_INT(n, 2);
    CHECK(plan_verify(x.p, x.lowered) == SN_OK);
  }
  forget(&x);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

/* Cores have no element to say what they require of sizes. */
TEST(sizes_that_cores_require_are_demanded) {
  static const char *const texts[] = {
      "symbol n 7\n%1 = input() name=\"x\" dtype=f32 shape=[n]\n"
      "%2 = topk(%1) k=3 axis=0 largest=true\noutput \"y\" %2\n",
      "symbol n 7\n%1 = input() name=\"x\" dtype=f32 shape=[2, n]\n"
      "%2 = input() name=\"key\" dtype=i32 shape=[3]\n"
      "%3 = sample(%1, %2, none) temperature=1 top_k=0 top_p=1 min_p=0 repetition_penalty=1 "
      "stream=0\noutput \"y\" %3\n"};
  for (size_t k = 0; k < COUNT_OF(texts); k++) {
    sn_ctx *ctx;
    sn_graph *g = NULL;
    planned x = {0};
    REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
    if (CHECK(sn_graph_parse(ctx, texts[k], &g) == SN_OK) &&
        CHECK(plan(ctx, g, false, &x) == SN_OK) && CHECK(plan_verify(x.p, x.lowered) == SN_OK)) {
      CHECK_EQ_INT(x.p->n_requirements, 1);
      x.p->n_requirements = 0;
      CHECK(plan_verify(x.p, x.lowered) != SN_OK);
      CHECK_STR_HAS(sn_ctx_message(ctx), "nothing refuses");
      x.p->n_requirements = 1;
    }
    forget(&x);
    sn_graph_destroy(g);
    sn_ctx_destroy(ctx);
  }
}
