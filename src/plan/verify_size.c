/* See verify.h: under bindings, that sizes are such as devices may compute with: extents are not negative and points can be counted,
 * divisors and remainders are not negative, no summand of an index leaves the range of sizes, so that sums of them cannot
 * overflow. The other files and devices rely on it.
 *
 * And that no part works for nothing: where points or accumulators do not matter for what a part stores or requires, nothing else
 * would say how many there may be.
 */
#include "plan/verify.h"

/* A region, its place and its extents in numbers. */
typedef struct sized {
  const verifier *v;
  int step;
  int n;
  int64_t extents[VERIFY_AXES];
} sized;

static bool is_size(int64_t x) { return x < DIM_LIMIT && x > -DIM_LIMIT; }

static bool fits(int64_t a, int64_t b) {
  int64_t product;
  return mul_fits(a, b, &product) && is_size(product);
}

/* --- what matters --- */

static void mark(const region *r, int i, bool *matters) {
  const instr *x = &r->code[i];
  const reg from[3] = {x->a, x->b, x->c};
  for (int k = 0; k < instr_arguments(x); k++)
    matters[from[k]] = true;
  for (int k = 0; k < x->at.n_terms; k++)
    if (x->at.terms[k].axis == TERM_REG)
      matters[x->at.terms[k].from] = true;
  for (int c = 0; c < x->at.n_checks; c++)
    for (int k = 0; k < x->at.checks[c].n_terms; k++)
      if (x->at.checks[c].terms[k].axis == TERM_REG)
        matters[x->at.checks[c].terms[k].from] = true;
}

static bool acts(const instr *i) { return i->op == REGION_STORE || i->op == REGION_REQUIRE; }

static void find_matters(const region *r, bool *matters) {
  memset(matters, 0, (size_t)r->n * sizeof *matters);
  for (int i = r->n - 1; i >= 0; i--)
    if (matters[i] || acts(&r->code[i])) {
      matters[i] = true;
      mark(r, i, matters);
    }
}

/* Whether a part's inner points make a difference to what it stores and requires. */
static bool inner_matters(const loop_part *l) {
  bool matters[REGION_MAX];
  for (int i = 0; i < l->code.n; i++)
    if (acts(&l->code.code[i]) && !l->code.code[i].row)
      return true;
  find_matters(&l->code, matters);
  for (int i = 0; i < l->code.n; i++)
    if (matters[i] && l->code.code[i].op == REGION_REDUCE)
      return true;
  return false;
}

static sn_status check_work(const verifier *v, int s, const part *p) {
  bool matters[REGION_MAX], some = false, loop = verify_is_loop(&v->p->steps[s]);
  const region *r = loop ? &p->u.loop.code : &p->u.matmul.epilogue;
  uint64_t accs = 0;
  find_matters(r, matters);
  for (int i = 0; i < r->n; i++) {
    some |= acts(&r->code[i]);
    if (matters[i] && r->code[i].op == REGION_ACC)
      accs |= UINT64_C(1) << r->code[i].index;
  }
  if (!some)
    return verify_fail(v, s, 0, "has a part that works for nothing");
  for (int a = 0; !loop && a < p->u.matmul.n_accs; a++)
    if (!(accs >> a & 1))
      return verify_fail(v, s, 0, "has an accumulator that nothing reads");
  return SN_OK;
}

sn_status verify_work(const verifier *v) {
  for (int s = 0; s < program_steps(v->p); s++)
    for (int k = 0; k < v->p->steps[s].n_parts && v->p->steps[s].kind <= STEP_MATMUL; k++)
      SN_TRY(check_work(v, s, &v->p->steps[s].parts[k]));
  return SN_OK;
}

/* --- sizes --- */

/* One more axis, or all of a list. */
static sn_status add_extents(sized *z, const sn_dim *dims, int n) {
  for (int d = 0; d < n; d++) {
    int64_t x = verify_size(z->v, dims[d]);
    if (x < 0 || !is_size(x))
      return verify_fail(z->v, z->step, 0, "has an axis of %lld points", (long long)x);
    z->extents[z->n++] = x;
  }
  return SN_OK;
}

static sn_status check_points(const sized *z) {
  int64_t points = 1;
  for (int d = 0; d < z->n; d++)
    if (!mul_fits(points, z->extents[d] > 0 ? z->extents[d] : 1, &points) || !is_size(points))
      return verify_fail(z->v, z->step, 0, "has more points than can be counted");
  return SN_OK;
}

static sn_status check_sum(const sized *z, sn_dim base, const term *terms, int n) {
  bool ok = is_size(verify_size(z->v, base));
  for (int k = 0; k < n && ok; k++) {
    const term *t = &terms[k];
    int64_t mod = verify_size(z->v, t->mod), div = verify_size(z->v, t->div);
    int64_t top = t->axis == TERM_REG ? mod : z->extents[t->axis];
    ok = mod >= 0 && div >= 0 && is_size(mod) && is_size(div) &&
         fits(verify_size(z->v, t->stride), top > 0 ? top : 1);
  }
  return ok ? SN_OK : verify_fail(z->v, z->step, 0, "has an index that leaves the range of sizes");
}

static sn_status check_region(const sized *z, const region *r) {
  for (int i = 0; i < r->n; i++) {
    const access *a = &r->code[i].at;
    SN_TRY(check_sum(z, a->base, a->terms, a->n_terms));
    for (int k = 0; k < a->n_checks; k++) {
      const check *c = &a->checks[k];
      SN_TRY(check_sum(z, c->offset, c->terms, c->n_terms));
      if (!is_size(verify_size(z->v, c->size)) || verify_size(z->v, c->divisor) < 0)
        return verify_fail(z->v, z->step, 0, "has a check against no size");
    }
  }
  return SN_OK;
}

static sn_status check_matmul(const verifier *v, int s, const matmul_part *m) {
  sized result = {.v = v, .step = s};
  SN_TRY(add_extents(&result, m->extent, m->n_batch + m->n_m + m->n_n));
  SN_TRY(check_points(&result));
  for (int a = 0; a < m->n_accs; a++)
    for (int k = 0; k < m->accs[a].n_products; k++) {
      const matmul_product *p = &m->accs[a].products[k];
      sized z = result;
      SN_TRY(add_extents(&z, p->k, p->n_k));
      SN_TRY(check_points(&z));
      SN_TRY(check_region(&z, &p->a));
      SN_TRY(check_region(&z, &p->b));
    }
  return check_region(&result, &m->epilogue);
}

static sn_status check_operand(const verifier *v, int s, const strided *x) {
  sized z = {.v = v, .step = s};
  if (!x->value)
    return SN_OK;
  SN_TRY(add_extents(&z, x->dim, x->rank));
  SN_TRY(check_points(&z));
  bool ok = is_size(verify_size(v, x->base));
  for (int d = 0; d < x->rank; d++)
    ok = ok && fits(verify_size(v, x->stride[d]), max_i64(z.extents[d], 1));
  return ok ? SN_OK : verify_fail(v, s, x->value, "has strides that leave the range of sizes");
}

/* Points that make no difference (they say whether there are any) are at most as many as elements of a value. */
static sn_status check_idle(const sized *z, const loop_part *l) {
  int64_t points = 1, most = 1;
  if (inner_matters(l))
    return SN_OK;
  for (int d = 0; d < z->n; d++)
    points *= z->extents[d];
  for (uint32_t i = 1; i < z->v->g->n_values && points > most; i++)
    most = max_i64(most, expect_count(z->v, i));
  return points <= most
             ? SN_OK
             : verify_fail(z->v, z->step, 0, "has %lld points for nothing", (long long)points);
}

static sn_status check_loop(const verifier *v, int s, const loop_part *l) {
  sized z = {.v = v, .step = s};
  SN_TRY(add_extents(&z, l->extent, l->n_axes));
  SN_TRY(check_points(&z));
  SN_TRY(check_region(&z, &l->code));
  return check_idle(&z, l);
}

sn_status verify_sizes(const verifier *v) {
  for (int s = 0; s < program_steps(v->p); s++)
    for (int k = 0; k < v->p->steps[s].n_parts; k++) {
      const step *st = &v->p->steps[s];
      const part *p = &st->parts[k];
      if (verify_is_loop(st))
        SN_TRY(check_loop(v, s, &p->u.loop));
      else if (st->kind == STEP_MATMUL)
        SN_TRY(check_matmul(v, s, &p->u.matmul));
      else {
        for (int i = 0; i < p->u.core.n_in; i++)
          SN_TRY(check_operand(v, s, &p->u.core.in[i]));
        for (int i = 0; i < p->u.core.n_out; i++)
          SN_TRY(check_operand(v, s, &p->u.core.out[i]));
      }
    }
  return SN_OK;
}
