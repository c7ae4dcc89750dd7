/* See verify.h: that accesses stay in their values, by the least and largest index over the whole index space. That stores cover
 * values is verify_cover.c.
 *
 * A load under checks is bounded by them: where the coordinate of a check, times a number, is part of the index, its range is that
 * of the check.
 */
#include "plan/verify.h"

enum { ENUMERATED = 1 << 16, TRIED = 1024 };

/* A term in numbers; coefficients of the same variable add up. */
typedef struct variable {
  uint8_t axis;
  reg from;
  int64_t div, mod, stride;
} variable;

typedef struct index_form {
  int n;
  variable of[ACCESS_TERMS * 2];
  int64_t base;
  const int64_t *extents;
  int64_t lo, hi; /* of what checks bound */
} index_form;

typedef struct bound {
  int64_t lo, hi;
} bound;

static variable variable_of(const verifier *v, const term *t) {
  bool by_reg = t->axis == TERM_REG;
  return (variable){.axis = t->axis,
                    .from = by_reg ? t->from : (reg)0,
                    .div = by_reg ? 1 : max_i64(1, verify_size(v, t->div)),
                    .mod = verify_size(v, t->mod),
                    .stride = verify_size(v, t->stride)};
}

static variable *find_variable(index_form *f, const variable *x) {
  for (int k = 0; k < f->n; k++)
    if (f->of[k].axis == x->axis && f->of[k].from == x->from && f->of[k].div == x->div &&
        f->of[k].mod == x->mod)
      return &f->of[k];
  return NULL;
}

/* Largest digit of a variable. */
static int64_t top_of(const index_form *f, const variable *x) {
  if (x->axis == TERM_REG)
    return x->mod - 1;
  int64_t top = (f->extents[x->axis] - 1) / x->div;
  return x->mod > 0 ? min_i64(top, x->mod - 1) : top;
}

static bound range_of(const index_form *f) {
  bound b = {f->base + f->lo, f->base + f->hi};
  for (int k = 0; k < f->n; k++) {
    int64_t reach = f->of[k].stride * top_of(f, &f->of[k]);
    b.lo += min_i64(reach, 0);
    b.hi += max_i64(reach, 0);
  }
  return b;
}

/* The same, exact where several variables stand on one axis that can be walked. */
static bound exact_range(const index_form *f) {
  bound b = {f->base + f->lo, f->base + f->hi};
  for (int k = 0; k < f->n; k++) {
    const variable *x = &f->of[k];
    bool walk = x->axis != TERM_REG && f->extents[x->axis] <= ENUMERATED, seen = false;
    for (int j = 0; j < k; j++)
      seen |= f->of[j].axis == x->axis;
    if (!walk) {
      b.lo += min_i64(x->stride * top_of(f, x), 0);
      b.hi += max_i64(x->stride * top_of(f, x), 0);
      continue;
    }
    if (seen)
      continue;
    int64_t lo = INT64_MAX, hi = INT64_MIN;
    for (int64_t i = 0; i < f->extents[x->axis]; i++) {
      int64_t sum = 0;
      for (int j = k; j < f->n; j++)
        if (f->of[j].axis == x->axis)
          sum += f->of[j].stride *
                 (f->of[j].mod > 0 ? i / f->of[j].div % f->of[j].mod : i / f->of[j].div);
      lo = min_i64(lo, sum);
      hi = max_i64(hi, sum);
    }
    b.lo += lo;
    b.hi += hi;
  }
  return b;
}

/* Takes a check's coordinate out of the index, where it is part of it as a whole. */
static void use_check(const verifier *v, index_form *f, const check *c) {
  if (!c->n_terms || c->n_terms > ACCESS_TERMS || verify_size(v, c->divisor) > 1)
    return;
  variable lead = variable_of(v, &c->terms[0]);
  const variable *same = find_variable(f, &lead);
  if (!same || !lead.stride || !same->stride || same->stride % lead.stride)
    return;
  int64_t times = same->stride / lead.stride;
  for (int k = 0; k < c->n_terms; k++) {
    variable x = variable_of(v, &c->terms[k]);
    const variable *in = find_variable(f, &x);
    if (!in || in->stride != times * x.stride)
      return;
  }
  for (int k = 0; k < c->n_terms; k++) {
    variable x = variable_of(v, &c->terms[k]);
    find_variable(f, &x)->stride = 0;
  }
  int64_t reach = times * (verify_size(v, c->size) - 1);
  f->base -= times * verify_size(v, c->offset);
  f->lo += min_i64(reach, 0);
  f->hi += max_i64(reach, 0);
}

static index_form form_of(const verifier *v, const access *a, const int64_t *extents) {
  index_form f = {.base = verify_size(v, a->base), .extents = extents};
  for (int k = 0; k < a->n_terms; k++) {
    variable x = variable_of(v, &a->terms[k]);
    variable *same = find_variable(&f, &x);
    if (same)
      same->stride += x.stride;
    else
      f.of[f.n++] = x;
  }
  return f;
}

static bool within(bound b, int64_t count) { return b.lo >= 0 && b.hi < count; }

/* A coordinate at a point, registers taken as 0; false where it depends on one. */
static bool number_at(const verifier *v, sn_dim base, const term *terms, int n, const int64_t *at,
                      int64_t *out) {
  bool known = true;
  *out = verify_size(v, base);
  for (int k = 0; k < n; k++) {
    variable x = variable_of(v, &terms[k]);
    if (x.axis == TERM_REG) {
      known = false;
      continue;
    }
    int64_t i = at[x.axis] / x.div;
    *out += x.stride * (x.mod > 0 ? i % x.mod : i);
  }
  return known;
}

/* Whether no check is known to fail at a point. */
static bool checks_pass(const verifier *v, const access *a, const int64_t *at) {
  for (int k = 0; k < a->n_checks; k++) {
    const check *c = &a->checks[k];
    int64_t x, divisor = max_i64(1, verify_size(v, c->divisor));
    if (number_at(v, c->offset, c->terms, c->n_terms, at, &x) &&
        (x < 0 || x % divisor || x / divisor >= verify_size(v, c->size)))
      return false;
  }
  return true;
}

/* All points of a small space, else some that are spread over it. */
static sn_status try_points(const verifier *v, int s, const use *u, const int64_t *extents, int n) {
  int64_t total = 1, count = verify_size(v, v->p->values[u->value].count), at[VERIFY_AXES], x;
  for (int d = 0; d < n; d++)
    if (!mul_fits(total, extents[d], &total))
      total = INT64_MAX / 2;
  int64_t tried = min_i64(total, TRIED);
  for (int64_t k = 0; k < tried; k++) {
    int64_t rest = total <= TRIED ? k
                   : k < 2        ? k * (total - 1)
                           : (int64_t)(hash_mix((uint64_t)k, (uint64_t)total) % (uint64_t)total);
    for (int d = n - 1; d >= 0; d--) {
      at[d] = rest % extents[d];
      rest /= extents[d];
    }
    bool known = number_at(v, u->code->at.base, u->code->at.terms, u->code->at.n_terms, at, &x);
    if (checks_pass(v, &u->code->at, at) && (x < 0 ? known : x >= count))
      return verify_fail(v, s, u->value, "reads elements up to %lld, but it has %lld", (long long)x,
                         (long long)count);
  }
  return SN_OK;
}

static sn_status check_use(const verifier *v, int s, const use *u) {
  sn_dim dims[VERIFY_AXES];
  int64_t extents[VERIFY_AXES];
  int n = use_axes(v, s, u, dims);
  /* without rows, a part over no points does nothing at all */
  if (v->p->steps[s].kind == STEP_POINTWISE)
    n = v->p->steps[s].parts[u->part].u.loop.n_axes;
  int64_t count = verify_size(v, v->p->values[u->value].count);
  for (int d = 0; d < n; d++)
    if ((extents[d] = verify_size(v, dims[d])) <= 0)
      return SN_OK;
  const access *a = &u->code->at;
  for (int k = 0; k < a->n_checks; k++)
    if (verify_size(v, a->checks[k].size) <= 0) /* never passes */
      return SN_OK;
  for (int k = 0; k < a->n_terms; k++)
    if (a->terms[k].axis == TERM_REG && verify_size(v, a->terms[k].mod) <= 0)
      return verify_fail(v, s, u->value, "is indexed by a register that nothing bounds");
  index_form f = form_of(v, a, extents);
  if (within(range_of(&f), count))
    return SN_OK;
  for (int k = 0; k < a->n_checks; k++)
    use_check(v, &f, &a->checks[k]);
  bound b = range_of(&f);
  if (!within(b, count))
    b = exact_range(&f);
  if (within(b, count))
    return SN_OK;
  if (a->n_checks) /* what cannot be proved is tried */
    return try_points(v, s, u, extents, n);
  return verify_fail(v, s, u->value, "%s elements %lld to %lld, but it has %lld",
                     u->store ? "writes" : "reads", (long long)b.lo, (long long)b.hi,
                     (long long)count);
}

static sn_status check_strided(const verifier *v, int s, const use *u) {
  const strided *x = u->core;
  int64_t lo = verify_size(v, x->base), hi = lo;
  for (int d = 0; d < x->rank; d++) {
    int64_t n = verify_size(v, x->dim[d]);
    if (n <= 0)
      return SN_OK;
    int64_t reach = (n - 1) * verify_size(v, x->stride[d]);
    lo += min_i64(reach, 0);
    hi += max_i64(reach, 0);
  }
  int64_t count = verify_size(v, v->p->values[u->value].count);
  if (within((bound){lo, hi}, count))
    return SN_OK;
  return verify_fail(v, s, u->value, "%s elements %lld to %lld, but it has %lld",
                     u->store ? "writes" : "reads", (long long)lo, (long long)hi, (long long)count);
}

sn_status verify_accesses(verifier *v) {
  for (int k = 0; k < v->n_uses; k++) {
    const use *u = &v->uses[k];
    SN_TRY(u->core ? check_strided(v, v->step_of[k], u) : check_use(v, v->step_of[k], u));
  }
  return SN_OK;
}
