/* The order in which loop parts count their points. See emit.h.
 *
 * The plan counts channels before pixels wherever they lie in memory. Here the axis along which most of memory moves least comes
 * last, so that neighbouring threads read neighbours; rows are ordered among themselves, and so are the points of a row. Axes
 * that a reshape has made one, and which memory has in another order, are taken apart first. */
#include "device/vulkan/emit.h"

/* --- axes that are two --- */

/* One axis becomes two, or all of them others. */
typedef struct cut {
  int axis;
  int64_t extent, at; /* the axis is [extent / at, at] */
  const int *place;   /* not NULL: nothing is cut, but axis d is place[d] */
} cut;

/* What one term becomes, of axes `axis` and `axis` + 1: one or two; 0: it cannot be said. */
static int cut_term(const cut *c, const term *t, term out[2]) {
  int64_t div = t->div, mod = t->mod, far;
  if (!dim_is_number(div) || !dim_is_number(mod) || div < 1 || mod < 0)
    return 0;
  out[0] = out[1] = *t;
  out[1].axis++;
  if (div % c->at == 0) {
    out[0].div = div / c->at;
    return 1;
  }
  if (c->at % div != 0)
    return 0;
  int64_t inner = c->at / div; /* what is left of the second axis */
  if (mod > 0 && inner % mod == 0) {
    out[0] = out[1];
    out[0].mod = mod == inner ? 0 : mod;
    return 1;
  }
  if (mod % inner != 0 || !dim_is_number(t->stride) || !mul_fits(t->stride, inner, &far))
    return 0;
  out[0].stride = far;
  out[0].div = 1;
  out[0].mod = mod / inner;
  out[1].mod = 0;
  return 2;
}

/* -1: it cannot be said. `to` has room for ACCESS_TERMS. */
static int cut_terms(const cut *c, int n, const term *from, term *to) {
  int made = 0;
  for (int i = 0; i < n; i++) {
    term two[2] = {from[i], from[i]};
    int own = 1;
    if (from[i].axis != TERM_REG && c->place)
      two[0].axis = (uint8_t)c->place[from[i].axis];
    else if (from[i].axis == c->axis)
      own = cut_term(c, &from[i], two);
    else if (from[i].axis != TERM_REG && from[i].axis > c->axis)
      two[0].axis++;
    if (own == 0 || made + own > ACCESS_TERMS)
      return -1;
    for (int k = 0; k < own; k++)
      to[made++] = two[k];
  }
  return made;
}

/* A copy of a list of terms, cut; false: no memory or it cannot be said. */
static bool cut_list(emit_env *env, const cut *c, int *n, const term **terms) {
  term made[ACCESS_TERMS];
  int count = cut_terms(c, *n, *terms, made);
  if (count < 0)
    return false;
  term *own = count ? arena_copy(env->memory, made, (size_t)count * sizeof *own) : NULL;
  *n = count;
  *terms = own;
  return own || count == 0;
}

static bool cut_access(emit_env *env, const cut *c, access *at) {
  if (!cut_list(env, c, &at->n_terms, &at->terms))
    return false;
  if (at->n_checks == 0)
    return true;
  check *checks = arena_copy(env->memory, at->checks, (size_t)at->n_checks * sizeof *checks);
  for (int i = 0; checks && i < at->n_checks; i++)
    if (!cut_list(env, c, &checks[i].n_terms, &checks[i].terms))
      return false;
  at->checks = checks;
  return checks != NULL;
}

/* A copy of the code, cut; NULL: no memory or it cannot be said. */
static const instr *cut_code(emit_env *env, const region *r, const cut *c) {
  instr *code = arena_copy(env->memory, r->code, (size_t)r->n * sizeof *code);
  for (int i = 0; code && i < r->n; i++)
    if (!cut_access(env, c, &code[i].at))
      return NULL;
  return code;
}

static bool cut_axis(emit_env *env, loop_part *p, const cut *c) {
  const instr *code = p->n_axes < REGION_AXES ? cut_code(env, &p->code, c) : NULL;
  if (!code)
    return false;
  sn_dim *x = &p->extent[c->axis];
  memmove(x + 2, x + 1, (size_t)(p->n_axes - c->axis - 1) * sizeof *x);
  x[0] = c->extent / c->at;
  x[1] = c->at;
  p->n_outer += c->axis < p->n_outer;
  p->n_axes++;
  p->code.code = code;
  return true;
}

/* Where a term's remainder cuts its axis in two; false: nowhere. */
static bool cut_of(const loop_part *p, const term *t, cut *out) {
  if (t->axis == TERM_REG || !dim_is_number(t->mod) || !dim_is_number(t->div) || t->mod < 1 ||
      !dim_is_number(p->extent[t->axis]))
    return false;
  *out = (cut){.axis = t->axis, .extent = p->extent[t->axis]};
  return mul_fits(t->div, t->mod, &out->at) && out->at > 1 && out->at < out->extent &&
         out->extent % out->at == 0;
}

/* All axes that loads and stores cut are taken apart, where that can be. */
static void cut_axes(emit_env *env, loop_part *p) {
  for (int i = 0; i < p->code.n; i++) {
    bool memory = p->code.code[i].op == REGION_LOAD || p->code.code[i].op == REGION_STORE;
    for (int t = 0; memory && t < p->code.code[i].at.n_terms; t++) {
      cut c;
      if (cut_of(p, &p->code.code[i].at.terms[t], &c) && cut_axis(env, p, &c))
        t = -1; /* terms are others now */
    }
  }
}

/* --- the order --- */

/* How far an access moves with an axis; 0: not at all. */
static double pace(const access *at, int axis) {
  double least = 0;
  for (int i = 0; i < at->n_terms; i++) {
    const term *t = &at->terms[i];
    if (t->axis != axis || t->stride == 0)
      continue;
    double by = dim_is_number(t->stride) ? (double)t->stride : 1e18;
    by = (by < 0 ? -by : by) / (dim_is_number(t->div) && t->div > 0 ? (double)t->div : 1);
    least = least == 0 || by < least ? by : least;
  }
  return least;
}

static double elements(const emitter *e, const loop_part *p, const access *at) {
  double n = 1;
  for (int d = 0; d < p->n_axes; d++)
    if (pace(at, d) > 0)
      n *= (double)sizes_most(&e->env, 1, &p->extent[d]);
  return n;
}

static bool is_again(const loop_part *p, int i) {
  for (int j = 0; j < i; j++)
    if (p->code.code[j].op == p->code.code[i].op &&
        access_same(&p->code.code[j].at, &p->code.code[i].at))
      return true;
  return false;
}

/* Whether more of memory moves farther with the second axis than with the first. */
static bool is_before(const emitter *e, const loop_part *p, int second, int first) {
  double votes = 0;
  for (int i = 0; i < p->code.n; i++) {
    const instr *in = &p->code.code[i];
    if ((in->op != REGION_LOAD && in->op != REGION_STORE) || is_again(p, i))
      continue;
    double a = pace(&in->at, first), b = pace(&in->at, second);
    if (a > 0 && b > 0 && a != b)
      votes += b > a ? elements(e, p, &in->at) : -elements(e, p, &in->at);
  }
  return votes > 0;
}

/* order[new] = old, of axes first … first + n. True: it is another one. */
static bool order_axes(const emitter *e, const loop_part *p, int first, int n, int *order) {
  bool moved = false;
  for (int d = 0; d < n; d++) {
    int at = first + d, own = at;
    for (; at > first && is_before(e, p, own, order[at - 1]); at--)
      order[at] = order[at - 1];
    order[at] = own;
    moved = moved || at != own;
  }
  return moved;
}

static bool reorder(emit_env *env, loop_part *p, const int *order) {
  sn_dim old[REGION_AXES];
  int place[REGION_AXES];
  memcpy(old, p->extent, sizeof old);
  for (int d = 0; d < p->n_axes; d++) {
    p->extent[d] = old[order[d]];
    place[order[d]] = d;
  }
  const instr *code = cut_code(env, &p->code, &(cut){.place = place});
  if (code)
    p->code.code = code;
  return code != NULL;
}

const loop_part *emit_order_axes(emitter *e, const loop_part *from) {
  int order[REGION_AXES];
  loop_part *p = arena_copy(e->env.memory, from, sizeof *from);
  if (!p)
    return NULL;
  cut_axes(&e->env, p);
  bool rows = order_axes(e, p, 0, p->n_outer, order);
  bool points = order_axes(e, p, p->n_outer, p->n_axes - p->n_outer, order);
  if (!rows && !points)
    return from;
  return reorder(&e->env, p, order) ? p : NULL;
}
