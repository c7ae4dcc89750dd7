/* Finds the parts that pool.h speaks of. */
#include "device/cpu/pool.h"

#include <math.h>

/* --- numbers only --- */

static bool terms_are_numbers(const term *t, int n) {
  bool all = true;
  for (int i = 0; i < n && all; i++)
    all = t[i].axis != TERM_REG && dim_is_number(t[i].stride) && dim_is_number(t[i].div) &&
          dim_is_number(t[i].mod);
  return all;
}

static bool access_is_numbers(const access *a) {
  bool all = dim_is_number(a->base) && terms_are_numbers(a->terms, a->n_terms);
  for (int c = 0; c < a->n_checks && all; c++)
    all = dim_is_number(a->checks[c].offset) && dim_is_number(a->checks[c].size) &&
          a->checks[c].divisor == 1 && terms_are_numbers(a->checks[c].terms, a->checks[c].n_terms);
  return all;
}

/* Whether the code is plain enough: one reduction of one phase, no demands, stores of rows only. */
static bool is_plain(const loop_part *p) {
  int reductions = 0;
  bool plain = p->n_phases == 1 && p->n_outer >= PLANE && p->code.n <= POOL_CODE;
  for (int a = 0; a < p->n_axes && plain; a++)
    plain = dim_is_number(p->extent[a]) && p->extent[a] > 0;
  for (int i = 0; i < p->code.n && plain; i++) {
    const instr *c = &p->code.code[i];
    reductions += c->op == REGION_REDUCE;
    plain = c->op != REGION_REQUIRE && c->op != REGION_WORD && c->op != REGION_ACC &&
            (c->op != REGION_STORE || c->row) && access_is_numbers(&c->at);
  }
  return plain && reductions == 1;
}

/* --- reading the code --- */

static bool same_check(const check *a, const check *b) {
  bool same = a->n_terms == b->n_terms && a->offset == b->offset && a->size == b->size;
  for (int t = 0; t < a->n_terms && same; t++)
    same = a->terms[t].axis == b->terms[t].axis && a->terms[t].stride == b->terms[t].stride &&
           a->terms[t].div == b->terms[t].div && a->terms[t].mod == b->terms[t].mod;
  return same;
}

/* Whether two accesses have the same checks, one for each axis of the plane. */
bool pool_same_checks(const access *a, const access *b) {
  return a->n_checks == PLANE && b->n_checks == PLANE && same_check(&a->checks[0], &b->checks[0]) &&
         same_check(&a->checks[1], &b->checks[1]);
}

/* What select(inside, v, outside), perhaps several times, is inside: v. The checks are those of *inside, which is set where it is NULL. */
reg pool_strip(const pool_part *p, reg r, double outside, const access **inside) {
  while (pool_is_alu(p, r, ALU_select) && pool_code(p, pool_code(p, r)->a)->op == REGION_INSIDE &&
         pool_is_number(p, pool_code(p, r)->c, outside)) {
    const access *at = &pool_code(p, pool_code(p, r)->a)->at;
    *inside = *inside ? *inside : at;
    if (!pool_same_checks(*inside, at))
      return r;
    r = pool_code(p, r)->b;
  }
  return r;
}

/* r = (a == b) or (isnan a and isnan b), in any order. */
bool pool_is_same(const pool_part *p, reg r, reg *a, reg *b) {
  if (!pool_is_alu(p, r, ALU_or))
    return false;
  const instr *either = pool_code(p, r);
  bool turned = pool_is_alu(p, either->b, ALU_eq);
  reg equal = turned ? either->b : either->a, nans = turned ? either->a : either->b;
  if (!pool_is_alu(p, equal, ALU_eq) || !pool_is_alu(p, nans, ALU_and))
    return false;
  const instr *both = pool_code(p, nans);
  if (!pool_is_alu(p, both->a, ALU_isnan) || !pool_is_alu(p, both->b, ALU_isnan))
    return false;
  *a = pool_code(p, equal)->a;
  *b = pool_code(p, equal)->b;
  reg x = pool_code(p, both->a)->a, y = pool_code(p, both->b)->a;
  return (x == *a && y == *b) || (x == *b && y == *a);
}

/* --- windows --- */

/* Which axis of the plane a term of the points counts; -1: none alone. Points are the elements of a window, as two axes or as
 * one, row-major. */
int pool_tap_axis(const pool_part *p, const term *t) {
  const loop_part *l = p->of;
  int first = l->n_outer;
  if (l->n_axes == first + PLANE)
    return t->div <= 1 && t->mod == 0 ? t->axis - first : -1;
  int64_t width = p->axis[1].kernel;
  if (t->div == width && (t->mod == 0 || t->mod * width >= l->extent[first]))
    return 0;
  return t->div <= 1 && t->mod == width ? 1 : -1;
}

/* What rows and points of each axis of the plane multiply; false: some term is of another form. */
static bool split_terms(const pool_part *p, const term *t, int n, int64_t row[PLANE],
                        int64_t tap[PLANE], bool *others) {
  row[0] = row[1] = tap[0] = tap[1] = 0;
  *others = false;
  for (int i = 0; i < n; i++) {
    int d = t[i].axis >= p->of->n_outer ? pool_tap_axis(p, &t[i]) : t[i].axis - p->first;
    bool is_tap = t[i].axis >= p->of->n_outer;
    if (!is_tap && d < 0) {
      *others = true;
      continue;
    }
    if (d < 0 || d >= PLANE || (!is_tap && (t[i].div > 1 || t[i].mod != 0)))
      return false;
    *(is_tap ? &tap[d] : &row[d]) += t[i].stride;
  }
  return true;
}

/* The plane's axes from the two checks of what windows see. */
static bool find_windows(pool_part *p, const access *inside) {
  const loop_part *l = p->of;
  p->first = l->n_outer - PLANE;
  if (l->n_axes == l->n_outer + PLANE) {
    p->axis[0].kernel = l->extent[l->n_outer];
    p->axis[1].kernel = l->extent[l->n_outer + 1];
  } else if (l->n_axes == l->n_outer + 1) { /* the width is that of the remainder */
    const check *c = &inside->checks[1];
    for (int t = 0; t < c->n_terms; t++)
      p->axis[1].kernel = c->terms[t].axis == l->n_outer ? c->terms[t].mod : p->axis[1].kernel;
    if (p->axis[1].kernel < 1 || l->extent[l->n_outer] % p->axis[1].kernel != 0)
      return false;
    p->axis[0].kernel = l->extent[l->n_outer] / p->axis[1].kernel;
  } else {
    return false;
  }
  for (int d = 0; d < PLANE; d++) {
    const check *c = &inside->checks[d];
    int64_t row[PLANE], tap[PLANE];
    bool others;
    if (!split_terms(p, c->terms, c->n_terms, row, tap, &others) || others || tap[d] != 1 ||
        row[d] < 1 || tap[1 - d] != 0 || row[1 - d] != 0)
      return false;
    p->axis[d].size = c->size;
    p->axis[d].windows = l->extent[p->first + d];
    p->axis[d].stride = row[d];
    p->axis[d].shift = c->offset;
  }
  return true;
}

bool pool_by_pixels(const pool_part *p, const access *from, term *terms, access *out) {
  int64_t by[PLANE], pixel[PLANE];
  bool others, shares = p->kind == POOL_SHARES;
  *out = *from;
  out->n_terms = out->n_checks = 0;
  out->terms = terms;
  if (shares ? !pool_split_phases(p, from->terms, from->n_terms, by, pixel)
             : !split_terms(p, from->terms, from->n_terms, by, pixel, &others))
    return false;
  for (int t = 0; t < from->n_terms; t++)
    if (from->terms[t].axis < p->first)
      terms[out->n_terms++] = from->terms[t];
  for (int d = 0; d < PLANE; d++) {
    const pool_axis *x = &p->axis[d];
    if (by[d] != x->stride * pixel[d])
      return false;
    out->base -= (shares ? x->inner_shift : x->shift) * pixel[d];
    terms[out->n_terms++] =
        (term){.axis = (uint8_t)pool_pixel_axis(p, d), .stride = pixel[d], .div = 1};
  }
  return true;
}

/* Whether a register can be computed by pixels: all that it needs can. */
bool pool_is_image(const pool_part *p, reg root, const access *inside) {
  bool needed[POOL_CODE] = {false}, fits = true;
  needed[root] = true;
  for (int i = root; i >= 0 && fits; i--) {
    const instr *c = pool_code(p, (reg)i);
    access at;
    term terms[ACCESS_TERMS + PLANE];
    if (!needed[i])
      continue;
    if (c->op == REGION_LOAD)
      fits = (c->at.n_checks == 0 || pool_same_checks(&c->at, inside)) &&
             pool_by_pixels(p, &c->at, terms, &at);
    else if (c->op == REGION_INSIDE)
      fits = pool_same_checks(&c->at, inside);
    else
      fits = c->op == REGION_NUMBER || c->op == REGION_SIZE || c->op == REGION_ALU;
    int n = instr_arguments(c);
    const reg args[] = {c->a, c->b, c->c};
    for (int k = 0; k < n; k++)
      needed[args[k]] = true;
  }
  return fits;
}

static bool find_largest(pool_part *p, const instr *reduce) {
  const access *inside = NULL;
  bool max = reduce->code == REDUCE_MAX;
  if (!max && reduce->code != REDUCE_MIN)
    return false;
  p->kind = max ? POOL_LARGEST : POOL_SMALLEST;
  p->x = pool_strip(p, reduce->a, max ? -INFINITY : INFINITY, &inside);
  p->by_pixels = true;
  return inside && find_windows(p, inside) && pool_is_image(p, p->x, inside);
}

/* same(x, y) in either order, x of points and y of rows. */
static bool find_ties(pool_part *p, const instr *reduce) {
  const access *inside = NULL;
  if (reduce->code != REDUCE_SUM || !pool_is_alu(p, reduce->a, ALU_mul))
    return false;
  const instr *product = pool_code(p, reduce->a);
  bool turned = pool_is_alu(p, product->b, ALU_cast);
  reg cast = turned ? product->b : product->a, mask = turned ? product->a : product->b, x, y;
  if (!pool_is_alu(p, cast, ALU_cast) || !pool_is_same(p, pool_code(p, cast)->a, &x, &y) ||
      !pool_is_number(p, pool_strip(p, mask, 0, &inside), 1) || !inside)
    return false;
  p->kind = POOL_TIES;
  p->by_pixels = true;
  p->y = pool_code(p, x)->row ? x : y;
  p->x = pool_strip(p, pool_code(p, x)->row ? y : x, 0, &inside);
  return pool_code(p, p->y)->row && !pool_code(p, p->x)->row && find_windows(p, inside) &&
         pool_is_image(p, p->x, inside);
}

/* --- all --- */

/* Images that are neither small, so that what is done once for each shows, nor too large for the caches. */
static bool is_worth(const pool_part *p) {
  enum { LEAST = 256, MOST = 1 << 17 };
  int64_t pixels = p->axis[0].size * p->axis[1].size;
  return pixels >= LEAST && pixels <= MOST && p->axis[0].windows * p->axis[1].windows <= MOST;
}

bool pool_find(const loop_part *l, pool_part *out) {
  if (!is_plain(l))
    return false;
  int i = 0;
  while (l->code.code[i].op != REGION_REDUCE)
    i++;
  const instr *reduce = &l->code.code[i];
  if (reduce->dtype != SN_F32)
    return false;
  bool (*const kinds[])(pool_part * p, const instr *reduce) = {find_largest, find_ties,
                                                               pool_find_shares};
  for (int k = 0; k < (int)COUNT_OF(kinds); k++) {
    *out = (pool_part){.of = l, .reduce = i};
    if (kinds[k](out, reduce))
      return is_worth(out);
  }
  return false;
}
