/* Finds parts that bring the shares of windows to their pixels: see pool.h. */
#include "device/cpu/pool.h"

/* What q and a of each axis multiply, of rows [q, a, q', a']. */
bool pool_split_phases(const pool_part *p, const term *t, int n, int64_t q[PLANE],
                       int64_t a[PLANE]) {
  q[0] = q[1] = a[0] = a[1] = 0;
  for (int i = 0; i < n; i++) {
    int d = t[i].axis - p->first;
    if (d < 0)
      continue;
    if (d >= 2 * PLANE || t[i].div > 1 || t[i].mod != 0)
      return false;
    *(d % 2 ? &a[d / 2] : &q[d / 2]) += t[i].stride;
  }
  return true;
}

/* A load of windows, dense along their lines; the checks say which windows there are. */
static bool find_window_load(pool_part *p, reg r, pool_window *out) {
  const access *inside = NULL;
  r = pool_strip(p, r, 0, &inside);
  const instr *load = pool_code(p, r);
  const loop_part *l = p->of;
  int q = l->n_outer - 2 * PLANE;
  if (load->op != REGION_LOAD || load->dtype != SN_F32 || load->at.n_checks != PLANE ||
      (inside && !pool_same_checks(inside, &load->at)))
    return false;
  int64_t by[2 * PLANE] = {0}, tap[PLANE] = {0};
  for (int t = 0; t < load->at.n_terms; t++) {
    const term *x = &load->at.terms[t];
    int d = x->axis >= l->n_outer ? pool_tap_axis(p, x) : x->axis - q;
    if (x->axis < q)
      continue;
    if (d < 0 || d >= 2 * PLANE || (x->axis < l->n_outer && (x->div > 1 || x->mod != 0)))
      return false;
    *(x->axis >= l->n_outer ? &tap[d] : &by[d]) += x->stride;
  }
  *out = (pool_window){&load->at, load->at.base, by[0]};
  for (int d = 0; d < PLANE; d++)
    out->base -= p->axis[d].shift * by[2 * d];
  return by[1] == 0 && by[3] == 0 && by[2] == 1 && tap[0] == by[0] && tap[1] == 1;
}

/* Axes of rows [q, a, q', a'] and of taps, from the checks of a load of windows. */
static bool find_taps(pool_part *p, const access *at) {
  const loop_part *l = p->of;
  int q = l->n_outer - 2 * PLANE;
  if (at->n_checks != PLANE || l->n_axes != l->n_outer + 1)
    return false;
  p->first = q;
  for (int t = 0; t < at->checks[1].n_terms; t++)
    if (at->checks[1].terms[t].axis == l->n_outer)
      p->axis[1].kernel = at->checks[1].terms[t].mod;
  if (p->axis[1].kernel < 1 || l->extent[l->n_outer] % p->axis[1].kernel != 0)
    return false;
  p->axis[0].kernel = l->extent[l->n_outer] / p->axis[1].kernel;
  for (int d = 0; d < PLANE; d++) {
    const check *c = &at->checks[d];
    bool pixel = false, tap = false;
    for (int t = 0; t < c->n_terms; t++) {
      const term *x = &c->terms[t];
      bool is_tap = x->axis == l->n_outer;
      if (x->stride != 1 ||
          (is_tap ? pool_tap_axis(p, x) != d : x->axis != q + 2 * d || x->div > 1 || x->mod != 0))
        return false;
      *(is_tap ? &tap : &pixel) = true;
    }
    if (!pixel || !tap || c->n_terms != 2)
      return false;
    p->axis[d].stride = l->extent[q + 2 * d + 1];
    p->axis[d].size = l->extent[q + 2 * d] * p->axis[d].stride;
    p->axis[d].windows = c->size;
    p->axis[d].shift = c->offset;
  }
  return true;
}

/* A table by phases and taps. */
static bool is_table(const pool_part *p, const instr *load) {
  bool fits = load->op == REGION_LOAD && load->dtype == SN_BOOL && load->at.n_checks == 0;
  for (int t = 0; t < load->at.n_terms && fits; t++) {
    const term *x = &load->at.terms[t];
    fits = (x->axis == p->first + 1 || x->axis == p->first + 3 || x->axis == p->of->n_outer) &&
           x->div <= 1 && x->mod == 0;
  }
  return fits;
}

/* x of shares is often padded: then what is inside is an image by itself. */
static void find_inner(pool_part *p) {
  const instr *top = pool_code(p, p->x);
  const access *inside = NULL;
  if (!pool_is_alu(p, p->x, ALU_select) || pool_code(p, top->c)->op != REGION_NUMBER)
    return;
  reg x = pool_strip(p, p->x, pool_code(p, top->c)->x, &inside);
  bool fits = inside != NULL;
  for (int d = 0; d < PLANE && fits; d++) {
    const check *c = &inside->checks[d];
    int64_t q[PLANE], a[PLANE];
    fits = pool_split_phases(p, c->terms, c->n_terms, q, a) && a[d] == 1 && a[1 - d] == 0 &&
           q[d] == p->axis[d].stride && q[1 - d] == 0 && c->n_terms == 2;
    p->axis[d].inner = c->size;
    p->axis[d].inner_shift = c->offset;
  }
  p->by_pixels = fits && pool_is_image(p, x, inside);
  p->outside = (float)pool_code(p, top->c)->x;
  p->x = p->by_pixels ? x : p->x;
}

/* Whether all that rows read and write goes through q and a as if they were one axis. */
static bool phases_run_on(const pool_part *p, const term *t, int n) {
  int64_t q[PLANE], a[PLANE];
  return pool_split_phases(p, t, n, q, a) && q[0] == a[0] * p->axis[0].stride &&
         q[1] == a[1] * p->axis[1].stride;
}
static bool rows_run_on(const pool_part *p) {
  bool on = p->axis[0].stride > 1 && p->axis[1].stride > 1;
  for (int i = 0; i < p->of->code.n && on; i++) {
    const instr *c = pool_code(p, (reg)i);
    on = !c->row || phases_run_on(p, c->at.terms, c->at.n_terms);
    for (int k = 0; k < c->at.n_checks && on && c->row; k++)
      on = phases_run_on(p, c->at.checks[k].terms, c->at.checks[k].n_terms);
  }
  return on;
}

static const access *first_checks(const pool_part *p, reg r) {
  const access *inside = NULL;
  return &pool_code(p, pool_strip(p, r, 0, &inside))->at;
}

bool pool_find_shares(pool_part *p, const instr *reduce) {
  reg x, y, all = reduce->a;
  if (reduce->code != REDUCE_SUM || p->of->n_outer < 2 * PLANE ||
      !pool_is_alu(p, all, ALU_select) || !pool_is_number(p, pool_code(p, all)->c, 0) ||
      !pool_is_alu(p, pool_code(p, all)->a, ALU_and))
    return false;
  const instr *both = pool_code(p, pool_code(p, all)->a);
  bool turned = pool_is_alu(p, both->b, ALU_or);
  const instr *holds = pool_code(p, turned ? both->a : both->b);
  if (!pool_is_same(p, turned ? both->b : both->a, &x, &y))
    return false;
  p->kind = POOL_SHARES;
  p->x = pool_code(p, x)->row ? x : y;
  y = pool_code(p, x)->row ? y : x;
  p->holds = &holds->at;
  bool found = pool_code(p, p->x)->row && !pool_code(p, y)->row &&
               find_taps(p, first_checks(p, y)) && is_table(p, holds) &&
               find_window_load(p, y, &p->values) &&
               find_window_load(p, pool_code(p, all)->b, &p->shares) &&
               pool_same_checks(p->values.at, p->shares.at) && rows_run_on(p);
  if (found)
    find_inner(p);
  return found;
}
