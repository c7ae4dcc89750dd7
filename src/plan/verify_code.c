/* See verify.h: each step is well formed. Registers are read where they live (points within their phase, rows from then on,
 * reductions from the next row phase), axes exist, operands of matmuls read no axis that they do not have, stores are unchecked,
 * `commit` requires nothing, `prepare` does not depend on symbols. The other files rely on this.
 */
#include "plan/verify.h"

#include "ir/dtype.h"

enum { MOST_PHASES = 255, MOST_ACCS = 64 };

/* A region and where it stands. */
typedef struct room {
  const verifier *v;
  int step;
  const region *code;
  use_place place;
  int n_axes, n_outer, n_phases, n_accs;
  int skip_from, skip_to; /* axes that an operand does not have */
  bool rows;
} room;

static sn_status fail_at(const room *r, int i, const char *what) {
  return verify_fail(r->v, r->step, 0, "instruction %d %s", i, what);
}

/* Whether instruction i may read register `from`. */
static const char *why_unreadable(const room *r, int i, reg from) {
  if (from >= i)
    return "reads a register that is not there yet";
  const instr *by = &r->code->code[i], *of = &r->code->code[from];
  if (of->op == REGION_REDUCE)
    return by->phase > of->phase ? NULL : "reads a reduction in the phase that makes it";
  if (of->row)
    return NULL;
  if (by->row)
    return "of a row reads a register of a point";
  return by->phase == of->phase ? NULL : "reads a point's register of another phase";
}

static sn_status check_terms(const room *r, int i, const term *terms, int n) {
  bool row = r->code->code[i].row;
  if (n < 0 || n > ACCESS_TERMS)
    return fail_at(r, i, "has a number of terms that there cannot be");
  for (int k = 0; k < n; k++) {
    const term *t = &terms[k];
    if (t->axis == TERM_REG) {
      const char *why = why_unreadable(r, i, t->from);
      if (why)
        return fail_at(r, i, why);
      if (instr_is_float(&r->code->code[t->from]))
        return fail_at(r, i, "takes a float as an index");
      continue;
    }
    if (t->axis >= (row ? r->n_outer : r->n_axes))
      return fail_at(r, i, "names an axis that is not there");
    if (t->axis >= r->skip_from && t->axis < r->skip_to && t->stride != 0)
      return fail_at(r, i, "of an operand reads an axis that the operand does not have");
  }
  return SN_OK;
}

static sn_status check_access(const room *r, int i) {
  const instr *x = &r->code->code[i];
  SN_TRY(check_terms(r, i, x->at.terms, x->at.n_terms));
  if (x->at.n_checks < 0 || x->at.n_checks > ACCESS_CHECKS)
    return fail_at(r, i, "has too many checks");
  for (int k = 0; k < x->at.n_checks; k++)
    SN_TRY(check_terms(r, i, x->at.checks[k].terms, x->at.checks[k].n_terms));
  if (x->op != REGION_LOAD && x->op != REGION_STORE)
    return SN_OK;
  if (!x->at.value || x->at.value >= r->v->p->n_values)
    return fail_at(r, i, "names a value that is not there");
  if (x->op == REGION_STORE)
    return x->at.n_checks ? fail_at(r, i, "is a store with checks")
           : x->dtype != r->code->code[x->a].dtype
               ? fail_at(r, i, "stores a register of another dtype")
               : SN_OK;
  if (x->dtype != r->v->p->values[x->at.value].type.dtype)
    return fail_at(r, i, "loads a value of another dtype");
  return SN_OK;
}

static const char *why_misplaced(const room *r, const instr *x) {
  bool commit = r->step >= r->v->p->n_prepare + r->v->p->n_main;
  switch ((region_op)x->op) {
  case REGION_STORE: return r->place == USE_OPERAND ? "stores from an operand of a matmul" : NULL;
  case REGION_ALU: return x->code == ALU_none || x->code >= ALU_COUNT ? "is no arithmetic" : NULL;
  case REGION_REDUCE:
    return !r->rows || x->row     ? "reduces where there are no rows"
           : x->code > REDUCE_ALL ? "is no reduction"
                                  : NULL;
  case REGION_ACC:
    return r->place == USE_EPILOGUE && x->index < (uint32_t)r->n_accs
               ? NULL
               : "reads an accumulator that is not there";
  case REGION_REQUIRE:
    return commit ? "requires something in commit, which cannot fail"
           : x->index >= (uint32_t)r->v->p->n_sites ? "requires something without a message"
                                                    : NULL;
  default: return x->op > REGION_REQUIRE ? "is no instruction" : NULL;
  }
}

static sn_status check_instr(const room *r, int i) {
  const instr *x = &r->code->code[i], *before = i ? x - 1 : x;
  const reg from[3] = {x->a, x->b, x->c};
  const char *why = why_misplaced(r, x);
  if (why)
    return fail_at(r, i, why);
  if (x->dtype == SN_NO_DTYPE || x->dtype >= SN_DTYPE_COUNT)
    return fail_at(r, i, "has no dtype");
  if (x->row ? r->place != USE_LOOP || x->phase > r->n_phases : x->phase >= r->n_phases)
    return fail_at(r, i, "stands in a phase that is not there");
  if (x->phase < before->phase || (x->phase == before->phase && x->row && !before->row))
    return fail_at(r, i, "stands behind a later phase");
  for (int k = 0; k < instr_arguments(x); k++)
    if ((why = why_unreadable(r, i, from[k])))
      return fail_at(r, i, why);
  return check_access(r, i);
}

static sn_status check_region(const room *r) {
  if (r->code->n < 0 || r->code->n > REGION_MAX || r->n_axes > VERIFY_AXES)
    return verify_fail(r->v, r->step, 0, "has a region of %d instructions over %d axes", r->code->n,
                       r->n_axes);
  for (int i = 0; i < r->code->n; i++)
    SN_TRY(check_instr(r, i));
  return SN_OK;
}

/* --- parts --- */

static sn_status check_loop(const verifier *v, int s, const loop_part *l) {
  bool rows = v->p->steps[s].kind == STEP_ROW;
  room r = {.v = v,
            .step = s,
            .code = &l->code,
            .place = USE_LOOP,
            .n_axes = l->n_axes,
            .n_outer = l->n_outer,
            .n_phases = l->n_phases,
            .rows = rows};
  if (l->n_phases > MOST_PHASES || l->n_axes < 0 || l->n_axes > REGION_AXES || l->n_outer < 0 ||
      l->n_outer > l->n_axes || l->n_phases < 1 || (!rows && (l->n_outer || l->n_phases != 1)))
    return verify_fail(v, s, 0, "is a loop over %d axes, %d outer, in %d phases", l->n_axes,
                       l->n_outer, l->n_phases);
  return check_region(&r);
}

static sn_status check_product(const verifier *v, int s, const matmul_part *m,
                               const matmul_product *p) {
  int n = m->n_batch + m->n_m;
  if (p->n_k < 0 || p->n_k > SN_MAX_RANK || p->a.n < 1 || p->b.n < 1)
    return verify_fail(v, s, 0, "has a product without operands");
  room r = {.v = v, .step = s, .place = USE_OPERAND, .n_axes = n + m->n_n + p->n_k, .n_phases = 1};
  room a = r, b = r;
  a.code = &p->a;
  a.skip_from = n;
  a.skip_to = n + m->n_n;
  b.code = &p->b;
  b.skip_from = m->n_batch;
  b.skip_to = n;
  SN_TRY(check_region(&a));
  return check_region(&b);
}

static sn_status check_matmul(const verifier *v, int s, const matmul_part *m) {
  room r = {.v = v,
            .step = s,
            .code = &m->epilogue,
            .place = USE_EPILOGUE,
            .n_axes = m->n_batch + m->n_m + m->n_n,
            .n_phases = 1,
            .n_accs = m->n_accs};
  if (m->n_batch < 0 || m->n_m < 0 || m->n_n < 0 || r.n_axes > REGION_AXES || m->n_accs < 0 ||
      m->n_accs > MOST_ACCS)
    return verify_fail(v, s, 0, "is a matmul over %d axes", r.n_axes);
  for (int a = 0; a < m->n_accs; a++) {
    if (m->accs[a].n_products < 1)
      return verify_fail(v, s, 0, "has an accumulator without products");
    for (int k = 0; k < m->accs[a].n_products; k++)
      SN_TRY(check_product(v, s, m, &m->accs[a].products[k]));
  }
  return check_region(&r);
}

static sn_status check_operands(const verifier *v, int s, const strided *list, int n, int max) {
  if (n < 0 || n > max)
    return verify_fail(v, s, 0, "has %d operands", n);
  for (int k = 0; k < n; k++)
    if (list[k].value >= v->p->n_values || list[k].rank < 0 || list[k].rank > SN_MAX_RANK)
      return verify_fail(v, s, 0, "has an operand that is not there");
    else if (list[k].value && list[k].dtype != v->p->values[list[k].value].type.dtype)
      return verify_fail(v, s, list[k].value, "is an operand of another dtype");
  return SN_OK;
}

/* --- sizes --- */

static bool dims_fixed(const sn_dim *dims, int n) {
  for (int k = 0; k < n; k++)
    if (!dim_is_number(dims[k]))
      return false;
  return true;
}

static bool terms_fixed(const term *terms, int n) {
  for (int k = 0; k < n; k++)
    if (!dim_is_number(terms[k].stride) || !dim_is_number(terms[k].div) ||
        !dim_is_number(terms[k].mod))
      return false;
  return true;
}

static bool access_fixed(const verifier *v, const access *a) {
  if (!dim_is_number(a->base) || !terms_fixed(a->terms, a->n_terms) ||
      !dim_is_number(v->p->values[a->value].count))
    return false;
  for (int k = 0; k < a->n_checks; k++) {
    const check *c = &a->checks[k];
    if (!dim_is_number(c->offset) || !dim_is_number(c->size) || !dim_is_number(c->divisor) ||
        !terms_fixed(c->terms, c->n_terms))
      return false;
  }
  return true;
}

static bool region_fixed(const verifier *v, const region *r) {
  for (int i = 0; i < r->n; i++)
    if (!dim_is_number(r->code[i].size) || !access_fixed(v, &r->code[i].at))
      return false;
  return true;
}

static bool matmul_fixed(const verifier *v, const matmul_part *m) {
  for (int a = 0; a < m->n_accs; a++)
    for (int k = 0; k < m->accs[a].n_products; k++) {
      const matmul_product *p = &m->accs[a].products[k];
      if (!dims_fixed(p->k, p->n_k) || !region_fixed(v, &p->a) || !region_fixed(v, &p->b))
        return false;
    }
  return dims_fixed(m->extent, m->n_batch + m->n_m + m->n_n) && region_fixed(v, &m->epilogue);
}

static bool operands_fixed(const strided *list, int n) {
  for (int k = 0; k < n; k++)
    if (list[k].value &&
        (!dims_fixed(list[k].dim, list[k].rank) || !dims_fixed(list[k].stride, list[k].rank) ||
         !dim_is_number(list[k].base)))
      return false;
  return true;
}

bool verify_fixed(const verifier *v, const step *s, const part *p) {
  if (verify_is_loop(s))
    return dims_fixed(p->u.loop.extent, p->u.loop.n_axes) && region_fixed(v, &p->u.loop.code);
  if (s->kind == STEP_MATMUL)
    return matmul_fixed(v, &p->u.matmul);
  return operands_fixed(p->u.core.in, p->u.core.n_in) &&
         operands_fixed(p->u.core.out, p->u.core.n_out);
}

/* What does not depend on the archetype. */
static sn_status check_step(const verifier *v, int s, const step *st) {
  if ((unsigned)st->kind >= STEP_ARCHETYPES)
    return verify_fail(v, s, 0, "has no archetype");
  if (st->n_parts < 1)
    return verify_fail(v, s, 0, "has no parts");
  if (st->n_after < 0 || st->launches < 0 || !(st->flops >= 0) || !(st->bytes >= 0))
    return verify_fail(v, s, 0, "has counts that cannot be");
  return SN_OK;
}

static sn_status check_part(const verifier *v, int s, const part *p) {
  const step *st = &v->p->steps[s];
  if (verify_is_loop(st))
    SN_TRY(check_loop(v, s, &p->u.loop));
  else if (st->kind == STEP_MATMUL)
    SN_TRY(check_matmul(v, s, &p->u.matmul));
  else {
    SN_TRY(check_operands(v, s, p->u.core.in, p->u.core.n_in, CORE_INS));
    SN_TRY(check_operands(v, s, p->u.core.out, p->u.core.n_out, CORE_OUTS));
  }
  if (s < v->p->n_prepare && !verify_fixed(v, st, p))
    return verify_fail(v, s, 0, "is a prepare step, but depends on the sizes of a run");
  return SN_OK;
}

sn_status verify_code(const verifier *v) {
  const program *p = v->p;
  if (p->n_prepare < 0 || p->n_main < 0 || p->n_commit < 0)
    return verify_fail(v, -1, 0, "the program has sections that cannot be");
  for (int s = 0; s < program_steps(p); s++) {
    SN_TRY(check_step(v, s, &p->steps[s]));
    for (int k = 0; k < p->steps[s].n_parts; k++)
      SN_TRY(check_part(v, s, &p->steps[s].parts[k]));
  }
  return SN_OK;
}
