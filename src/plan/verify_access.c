/* See verify.h: that accesses stay in their values, by the least and largest index over the whole index space. That stores cover
 * values is verify_cover.c.
 *
 * A load under checks is bounded by them: where the coordinate of a check, times a number, is part of the index, its range is that
 * of the check.
 */
#include "plan/verify.h"

enum { ENUMERATED = 1 << 16, WALKED = 1 << 20, MOST_CHECKS = 24 };

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

static variable variable_of(const verifier *v, const int64_t *extents, const term *t) {
  bool by_reg = t->axis == TERM_REG;
  variable x = {.axis = t->axis,
                .from = by_reg ? t->from : (reg)0,
                .div = by_reg ? 1 : max_i64(1, verify_size(v, t->div)),
                .mod = verify_size(v, t->mod),
                .stride = verify_size(v, t->stride)};
  if (!by_reg && x.mod > (extents[x.axis] - 1) / x.div) /* changes nothing */
    x.mod = 0;
  return x;
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

/* The range of one variable's summand. */
static void add_reach(const index_form *f, const variable *x, bound *b) {
  int64_t reach = x->stride * top_of(f, x);
  b->lo += min_i64(reach, 0);
  b->hi += max_i64(reach, 0);
}

static bound range_of(const index_form *f) {
  bound b = {f->base + f->lo, f->base + f->hi};
  for (int k = 0; k < f->n; k++)
    add_reach(f, &f->of[k], &b);
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
    if (!walk)
      add_reach(f, x, &b);
    if (!walk || seen)
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

/* Splits i / e into q * (i / (e q)) + i / e % q where that leads to what a check speaks of. */
static bool split_once(index_form *f, const variable *x) {
  for (int k = 0; k < f->n; k++) {
    variable *of = &f->of[k];
    bool low = x->div == of->div && x->mod > 0;
    int64_t q = low ? x->mod : x->div / of->div;
    if (of->axis != x->axis || x->div % of->div || q < 2 || of->mod % q)
      continue;
    int64_t rest = of->mod / q;
    if (!low && x->mod != rest && (x->mod < 1 || rest % x->mod))
      continue;
    f->of[f->n++] = (variable){x->axis, x->from, of->div * q, rest, of->stride * q};
    of->mod = q;
    return true;
  }
  return false;
}

static void split_for(index_form *f, const variable *x) {
  while (x->axis != TERM_REG && !find_variable(f, x) && f->n < (int)COUNT_OF(f->of) &&
         split_once(f, x)) {
  }
}

/* Whether a coordinate is part of the index as a whole, so many times. */
static bool is_part(const verifier *v, index_form *f, const check *c, int64_t times) {
  for (int k = 0; k < c->n_terms; k++) {
    variable x = variable_of(v, f->extents, &c->terms[k]);
    const variable *in = find_variable(f, &x);
    if (!in || in->stride != times * x.stride)
      return false;
  }
  return true;
}

/* Takes a check's coordinate out of the index, where its first term is in it; with `whole`, only where all of it is: what else
 * is taken out stays to be added. */
static void use_check(const verifier *v, index_form *f, const check *c, bool whole) {
  if (!c->n_terms || verify_size(v, c->divisor) > 1 || f->n + c->n_terms > (int)COUNT_OF(f->of) - 1)
    return;
  for (int k = 0; k < c->n_terms; k++) {
    variable x = variable_of(v, f->extents, &c->terms[k]);
    split_for(f, &x);
  }
  variable lead = variable_of(v, f->extents, &c->terms[0]);
  const variable *same = find_variable(f, &lead);
  if (!same || !lead.stride || !same->stride || same->stride % lead.stride)
    return;
  int64_t times = same->stride / lead.stride;
  if (whole && !is_part(v, f, c, times))
    return;
  for (int k = 0; k < c->n_terms; k++) {
    variable x = variable_of(v, f->extents, &c->terms[k]);
    variable *in = find_variable(f, &x);
    if (!in) {
      in = &f->of[f->n++];
      *in = x;
      in->stride = 0;
    }
    in->stride -= times * x.stride;
  }
  int64_t reach = times * (verify_size(v, c->size) - 1);
  f->base -= times * verify_size(v, c->offset);
  f->lo += min_i64(reach, 0);
  f->hi += max_i64(reach, 0);
}

static index_form form_of(const verifier *v, const access *a, const int64_t *extents) {
  index_form f = {.base = verify_size(v, a->base), .extents = extents};
  for (int k = 0; k < a->n_terms; k++) {
    variable x = variable_of(v, extents, &a->terms[k]);
    variable *same = find_variable(&f, &x);
    if (same)
      same->stride += x.stride;
    else
      f.of[f.n++] = x;
  }
  return f;
}

static bool within(bound b, int64_t count) { return b.lo >= 0 && b.hi < count; }

/* A coordinate at a point, but for what registers add. */
static int64_t number_at(const verifier *v, sn_dim base, const term *terms, int n,
                         const int64_t *at) {
  int64_t x = verify_size(v, base);
  for (int k = 0; k < n; k++) {
    if (terms[k].axis == TERM_REG)
      continue;
    int64_t i = at[terms[k].axis] / max_i64(1, verify_size(v, terms[k].div));
    int64_t mod = verify_size(v, terms[k].mod);
    x += verify_size(v, terms[k].stride) * (mod > 0 ? i % mod : i);
  }
  return x;
}

/* What registers add. */
static bound registers_range(const verifier *v, const access *a) {
  bound b = {0, 0};
  for (int k = 0; k < a->n_terms; k++)
    if (a->terms[k].axis == TERM_REG) {
      int64_t reach = verify_size(v, a->terms[k].stride) * (verify_size(v, a->terms[k].mod) - 1);
      b.lo += min_i64(reach, 0);
      b.hi += max_i64(reach, 0);
    }
  return b;
}

static bool names_register(const term *terms, int n) {
  for (int k = 0; k < n; k++)
    if (terms[k].axis == TERM_REG)
      return true;
  return false;
}

/* Checks that do not fit into an access are made beforehand: "not inside", as a number, must be 0. */
static const access *made_before(const verifier *v, const region *r, const check *c) {
  if (c->n_terms != 1 || c->terms[0].axis != TERM_REG || verify_size(v, c->terms[0].stride) != 1 ||
      verify_size(v, c->offset) != 0 || verify_size(v, c->size) != 1 ||
      verify_size(v, c->terms[0].mod) < 2)
    return NULL;
  const instr *cast = &r->code[c->terms[0].from], *not = &r->code[cast->a];
  if (cast->op != REGION_ALU || cast->code != ALU_cast || not ->op != REGION_ALU ||
      not ->code != ALU_not || r->code[not ->a].op != REGION_INSIDE)
    return NULL;
  return &r->code[not ->a].at;
}

/* All that checks say; returns how many there are. */
static int all_checks(const verifier *v, const region *r, const access *a,
                      const check *out[MOST_CHECKS]) {
  int n = 0;
  for (int k = 0; k < a->n_checks; k++) {
    const access *before = made_before(v, r, &a->checks[k]);
    out[n++] = &a->checks[k];
    for (int j = 0; before && j < before->n_checks && n < MOST_CHECKS; j++)
      out[n++] = &before->checks[j];
  }
  return n;
}

/* Whether no check fails at a point; those that depend on a register may pass. */
static bool checks_pass(const verifier *v, const check *const *checks, int n, const int64_t *at) {
  for (int k = 0; k < n; k++) {
    const check *c = checks[k];
    if (names_register(c->terms, c->n_terms))
      continue;
    int64_t x = number_at(v, c->offset, c->terms, c->n_terms, at);
    int64_t divisor = max_i64(1, verify_size(v, c->divisor));
    if (x < 0 || x % divisor || x / divisor >= verify_size(v, c->size))
      return false;
  }
  return true;
}

/* The axes that checks name. Returns how many points these have, at most WALKED + 1. */
static int64_t checked_points(const check *const *checks, int n_checks, const int64_t *extents,
                              int n, bool *checked) {
  int64_t total = 1;
  memset(checked, 0, VERIFY_AXES * sizeof *checked);
  for (int c = 0; c < n_checks; c++)
    for (int k = 0; k < checks[c]->n_terms; k++)
      if (checks[c]->terms[k].axis != TERM_REG)
        checked[checks[c]->terms[k].axis] = true;
  for (int d = 0; d < n; d++)
    if (checked[d] && (!mul_fits(total, extents[d], &total) || total > WALKED))
      return WALKED + 1;
  return total;
}

/* What the axes add that no check names. */
static bound unchecked_range(const verifier *v, const access *a, const int64_t *extents,
                             const bool *checked) {
  index_form f = form_of(v, a, extents);
  int n = 0;
  for (int k = 0; k < f.n; k++)
    if (f.of[k].axis != TERM_REG && !checked[f.of[k].axis])
      f.of[n++] = f.of[k];
  f.n = n;
  f.base = 0;
  return exact_range(&f);
}

/* Point by point of the axes that checks name, where there are not too many. */
static bool proved_by_points(const verifier *v, const region *r, const access *a, int64_t count,
                             const int64_t *extents, int n) {
  const check *checks[MOST_CHECKS + ACCESS_CHECKS];
  int64_t at[VERIFY_AXES] = {0};
  bool checked[VERIFY_AXES];
  int n_checks = all_checks(v, r, a, checks);
  int64_t total = checked_points(checks, n_checks, extents, n, checked);
  if (total > WALKED)
    return false;
  bound more = registers_range(v, a), rest_of = unchecked_range(v, a, extents, checked);
  more = (bound){more.lo + rest_of.lo, more.hi + rest_of.hi};
  for (int64_t k = 0; k < total; k++) {
    int64_t rest = k;
    for (int d = n - 1; d >= 0; d--)
      if (checked[d]) {
        at[d] = rest % extents[d];
        rest /= extents[d];
      }
    int64_t x = number_at(v, a->base, a->terms, a->n_terms, at);
    if (!within((bound){x + more.lo, x + more.hi}, count) && checks_pass(v, checks, n_checks, at))
      return false;
  }
  return true;
}

/* A check of a plain axis leaves only its first points. */
static void narrow_axis(const verifier *v, const check *c, int64_t *extents) {
  const term *t = c->terms;
  if (c->n_terms == 1 && t->axis != TERM_REG && verify_size(v, t->stride) == 1 &&
      verify_size(v, t->div) <= 1 && verify_size(v, t->mod) <= 0 && verify_size(v, c->divisor) <= 1)
    extents[t->axis] =
        min_i64(extents[t->axis], verify_size(v, c->size) - verify_size(v, c->offset));
}

/* Whether the index stays below `count` when these two checks are used first, then the others. */
static bool proved_in_order(const verifier *v, const int64_t *extents, const access *a,
                            const check *const *checks, int n, const int order[2], bool whole,
                            int64_t count) {
  index_form f = form_of(v, a, extents);
  for (int k = 0; k < 2; k++)
    use_check(v, &f, checks[order[k]], whole);
  for (int k = 0; k < n; k++)
    if (k != order[0] && k != order[1])
      use_check(v, &f, checks[k], whole);
  return within(range_of(&f), count) || within(exact_range(&f), count);
}

/* What one check takes out of the index another may need: any two in turn are the first to be used. */
static bool proved_by_checks(const verifier *v, const int64_t *extents, const region *r,
                             const access *a, int64_t count) {
  const check *checks[MOST_CHECKS + ACCESS_CHECKS];
  int64_t narrow[VERIFY_AXES];
  int n = all_checks(v, r, a, checks);
  memcpy(narrow, extents, sizeof narrow);
  for (int k = 0; k < n; k++)
    narrow_axis(v, checks[k], narrow);
  for (int d = 0; d < VERIFY_AXES; d++)
    if (narrow[d] <= 0 && extents[d] > 0) /* some check never passes */
      return true;
  for (int k = 0; k < 2 * n * n; k++) {
    const int order[] = {k / n % n, k % n};
    if (proved_in_order(v, narrow, a, checks, n, order, k < n * n, count))
      return true;
  }
  return false;
}

/* A part over nothing touches nothing; nor does a load under a check that never passes, or at a register along an axis without
 * elements. */
static bool touches_nothing(const verifier *v, const use *u, const int64_t *extents, int n) {
  const access *a = &u->code->at;
  for (int d = 0; d < n; d++)
    if (extents[d] <= 0)
      return true;
  for (int k = 0; k < a->n_checks; k++) {
    const check *c = &a->checks[k];
    if (verify_size(v, c->size) <= 0 ||
        (!c->n_terms && !check_passes(verify_size(v, c->offset), verify_size(v, c->size),
                                      verify_size(v, c->divisor))))
      return true;
  }
  for (int k = 0; k < a->n_terms && !u->store; k++)
    if (a->terms[k].axis == TERM_REG && verify_size(v, a->terms[k].mod) == 0)
      return true;
  return false;
}

/* The region that a use stands in. */
static const region *region_of(const verifier *v, int s, const use *u) {
  const part *of = &v->p->steps[s].parts[u->part];
  if (u->place == USE_LOOP)
    return &of->u.loop.code;
  if (u->place == USE_EPILOGUE)
    return &of->u.matmul.epilogue;
  return u->code == u->product->a.code + u->at ? &u->product->a : &u->product->b;
}

static sn_status check_use(const verifier *v, int s, const use *u) {
  sn_dim dims[VERIFY_AXES];
  int64_t extents[VERIFY_AXES] = {0};
  int n = use_axes(v, s, u, dims);
  /* without rows, a part over no points does nothing at all */
  if (v->p->steps[s].kind == STEP_POINTWISE)
    n = v->p->steps[s].parts[u->part].u.loop.n_axes;
  int64_t count = verify_size(v, v->p->values[u->value].count);
  for (int d = 0; d < n; d++)
    extents[d] = verify_size(v, dims[d]);
  const access *a = &u->code->at;
  if (touches_nothing(v, u, extents, n))
    return SN_OK;
  for (int k = 0; k < a->n_terms; k++)
    if (a->terms[k].axis == TERM_REG && verify_size(v, a->terms[k].mod) <= 0)
      return verify_fail(v, s, u->value, "is indexed by a register that nothing bounds");
  index_form f = form_of(v, a, extents);
  bound b = range_of(&f);
  if (within(b, count))
    return SN_OK;
  b = exact_range(&f);
  if (within(b, count) || proved_by_checks(v, extents, region_of(v, s, u), a, count) ||
      (a->n_checks && proved_by_points(v, region_of(v, s, u), a, count, extents, n)))
    return SN_OK;
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
