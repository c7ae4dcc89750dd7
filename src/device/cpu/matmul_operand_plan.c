/* Plans of operands: see matmul_operand.h. */
#include "device/cpu/matmul.h"

/* --- checks that never fail --- */

/* The range of a sum over all coordinates, or one around it. */
static void sum_range(const direct_sum *s, const int64_t *extent, int64_t *lo, int64_t *hi) {
  *lo = *hi = s->base;
  for (int t = 0; t < s->n; t++) {
    const direct_term *x = &s->terms[t];
    int64_t most = max_i64(0, extent[x->axis] - 1) / max_i64(1, x->div);
    if (x->mod > 0)
      most = min_i64(most, x->mod - 1);
    *(x->stride < 0 ? lo : hi) += x->stride * most;
  }
}

static bool keep_checks(operand_plan *p, const direct_access *d, const int64_t *extent) {
  bool plain = true;
  p->n_checks = 0;
  for (int c = 0; c < d->n_checks; c++) {
    int64_t lo, hi;
    plain = plain && d->checks[c].divisor == 1;
    sum_range(&d->checks[c].at, extent, &lo, &hi);
    if (lo < 0 || hi >= d->checks[c].size)
      p->checks[p->n_checks++] = (struct plan_check){c, d->checks[c].size};
  }
  return plain;
}

/* --- axes --- */

enum { CUTS = 2 * ACCESS_TERMS * (1 + ACCESS_CHECKS) + 1 };

static void add_cut(int64_t *cuts, int *n, int64_t at, int64_t extent) {
  int i = *n;
  if (at <= 1 || at >= extent)
    return;
  for (; i > 0 && cuts[i - 1] >= at; i--)
    if (cuts[i - 1] == at)
      return;
  memmove(cuts + i + 1, cuts + i, (size_t)(*n - i) * sizeof *cuts);
  cuts[i] = at;
  (*n)++;
}

static void add_cuts(const direct_sum *s, int axis, int64_t extent, int64_t *cuts, int *n) {
  for (int t = 0; t < s->n; t++) {
    const direct_term *x = &s->terms[t];
    int64_t div = max_i64(1, x->div);
    if (x->axis != axis || div >= extent)
      continue;
    add_cut(cuts, n, div, extent);
    if (x->mod > 0 && x->mod < extent)
      add_cut(cuts, n, div * x->mod, extent);
  }
}

/* What one step of the digit with that place value adds. */
static int64_t sum_step(const direct_sum *s, int axis, int64_t place) {
  int64_t moved = 0;
  for (int t = 0; t < s->n; t++) {
    const direct_term *x = &s->terms[t];
    int64_t div = max_i64(1, x->div);
    if (x->axis == axis && place >= div && (x->mod == 0 || place / div < x->mod))
      moved += x->stride * (place / div);
  }
  return moved;
}

/* Whether b, within a, goes on where a's next entry begins. */
static bool may_merge(const operand_plan *p, const plan_axis *a, const plan_axis *b) {
  bool same = a->at == b->at * b->extent;
  for (int c = 0; c < p->n_checks; c++)
    same = same && a->checks[c] == b->checks[c] * b->extent;
  return same;
}

static bool add_axis(const operand_plan *p, plan_group *g, const plan_axis *x) {
  if (x->extent == 1)
    return true;
  if (g->n > 0 && may_merge(p, &g->axes[g->n - 1], x)) {
    int64_t extent = g->axes[g->n - 1].extent * x->extent;
    g->axes[g->n - 1] = *x;
    g->axes[g->n - 1].extent = extent;
    return true;
  }
  if (g->n == PLAN_AXES)
    return false;
  g->axes[g->n++] = *x;
  return true;
}

/* An axis with divisions and remainders becomes several, one a digit. */
static bool split_axis(const operand_plan *p, const direct_access *d, int axis, int64_t extent,
                       plan_group *g) {
  int64_t cuts[CUTS + 1] = {1};
  int n = 1;
  add_cuts(&d->at, axis, extent, cuts, &n);
  for (int c = 0; c < p->n_checks; c++)
    add_cuts(&d->checks[p->checks[c].of].at, axis, extent, cuts, &n);
  bool fits = true;
  cuts[n] = extent;
  for (int i = n - 1; i >= 0 && fits; i--) {
    plan_axis x = {.extent = cuts[i + 1] / cuts[i], .at = sum_step(&d->at, axis, cuts[i])};
    for (int c = 0; c < p->n_checks; c++) {
      x.checks[c] = sum_step(&d->checks[p->checks[c].of].at, axis, cuts[i]);
      x.is_checked = x.is_checked || x.checks[c] != 0;
    }
    fits = cuts[i + 1] % cuts[i] == 0 && add_axis(p, g, &x);
  }
  return fits;
}

static bool open_group(const operand_plan *p, const direct_access *d, const axis_group *from,
                       const int64_t *extent, plan_group *g) {
  bool fits = true;
  g->n = 0;
  g->count = from->count;
  g->classes = 1;
  for (int i = 0; i < from->n && fits && g->count > 0; i++)
    fits = split_axis(p, d, from->first + i, extent[from->first + i], g);
  for (int i = 0; i < g->n; i++)
    g->classes *= g->axes[i].is_checked ? g->axes[i].extent : 1;
  return fits;
}

/* About how many instructions a vector of a group's lines takes to load. */
static double line_cost(const direct_access *d, const plan_group *lines, const plan_group *others) {
  const plan_axis *last = lines->n > 0 ? &lines->axes[lines->n - 1] : NULL;
  double cost = 16;
  if (last && last->at == 1)
    cost = 1 + 16.0 / (double)last->extent;
  else if (last && last->at == 2 && d->dtype == SN_F32)
    cost = 3 + 16.0 / (double)last->extent;
  return cost + (others->classes > PLAN_CLASSES ? 16 : 0);
}

void plan_open(operand_plan *p, const direct_access *d, const axis_group *rows, const axis_group *k,
               const int64_t *extent) {
  enum { TURN = 4 }; /* instructions to turn a vector */
  p->fits = keep_checks(p, d, extent) && open_group(p, d, rows, extent, &p->rows) &&
            open_group(p, d, k, extent, &p->k);
  double by_rows = p->fits ? line_cost(d, &p->rows, &p->k) : 0;
  double by_k = p->fits ? line_cost(d, &p->k, &p->rows) : 0;
  p->along_k = by_k + TURN < by_rows;
  p->k_inner = by_k <= by_rows;
}
