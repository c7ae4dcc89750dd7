/* Gradients of strided convolutions for their input as ordinary convolutions. See emit_matmul_rewrite.h.
 *
 * Such a part asks of each pixel x and place y in the kernel whether stride s divides v = x + before - y * dilation;
 * most do not, and their product is 0. Pixels of one phase (x mod s) have the same y's with a product, evenly
 * spaced. So there is a part for each phase of pixels, over those y's alone: x is s * x' + phase, y is y0 + t * y',
 * and v / s is a sum of x' and y'. A phase without any y has no product. */
#include "device/vulkan/emit_matmul_rewrite.h"

/* A check with a divisor. Axes -1: none, as where an image has one row. */
typedef struct divided {
  int pixel, kernel;
  int64_t offset, divisor, by_pixel, by_kernel;
} divided;

/* The load that an operand is, perhaps behind a cast; NULL: it is none. */
static const instr *load_of(const region *r) {
  const instr *last = r->n > 0 ? &r->code[r->n - 1] : NULL;
  if (last && last->op == REGION_ALU && last->code == ALU_cast && last->dtype == SN_F32)
    last = &r->code[last->a];
  return last && last->op == REGION_LOAD ? last : NULL;
}

static bool has_divisor(const region *r) {
  const instr *load = load_of(r);
  for (int c = 0; load && c < load->at.n_checks; c++)
    if (load->at.checks[c].divisor != 1)
      return true;
  return false;
}

/* Over at most one axis of the result, and one of k; all numbers. */
static bool read_check(const check *c, int n_axes, divided *out) {
  *out = (divided){.pixel = -1, .kernel = -1, .offset = c->offset, .divisor = c->divisor};
  if (!dim_is_number(c->offset) || !dim_is_number(c->divisor) || c->divisor < 1)
    return false;
  for (int i = 0; i < c->n_terms; i++) {
    const term *t = &c->terms[i];
    bool pixel = t->axis < n_axes;
    int *axis = pixel ? &out->pixel : &out->kernel;
    if (t->axis == TERM_REG || *axis >= 0 || !term_is_plain(t) || !dim_is_number(t->stride))
      return false;
    *axis = t->axis;
    *(pixel ? &out->by_pixel : &out->by_kernel) = t->stride;
  }
  return true;
}

static bool same_sum(const access *at, const check *c) {
  bool same = at->base == c->offset && at->n_terms == c->n_terms;
  for (int i = 0; same && i < c->n_terms; i++)
    same = at->terms[i].axis == c->terms[i].axis && at->terms[i].stride == c->terms[i].stride &&
           term_is_plain(&at->terms[i]) && term_is_plain(&c->terms[i]);
  return same;
}

/* The check that holds where the register of term t is v / divisor without a remainder; -1: it is no such register. */
static int check_of(const region *r, const access *at, const term *t) {
  const instr *div = &r->code[t->from];
  if (div->op != REGION_ALU || div->code != ALU_floor_div)
    return -1;
  const instr *sum = &r->code[div->a], *by = &r->code[div->b];
  for (int c = 0; c < at->n_checks && sum->op == REGION_INDEX && by->op == REGION_NUMBER; c++)
    if (dim_is_number(at->checks[c].divisor) && (double)at->checks[c].divisor == by->x &&
        at->checks[c].size == t->mod && same_sum(&sum->at, &at->checks[c]))
      return c;
  return -1;
}

/* --- finding --- */

/* Notes the divisors of an operand's pixels as steps of the map; false: it has not this form. */
static bool find_divisors(const region *r, int n_axes, axis_map *m) {
  if (!has_divisor(r))
    return true;
  const access *at = &load_of(r)->at;
  bool taken[REGION_AXES] = {false};
  for (int i = 0; i < at->n_terms; i++)
    if (at->terms[i].axis == TERM_REG &&
        (check_of(r, at, &at->terms[i]) < 0 || !dim_is_number(at->terms[i].stride)))
      return false;
  for (int c = 0; c < at->n_checks; c++) {
    divided d;
    if (at->checks[c].divisor == 1)
      continue;
    if (!read_check(&at->checks[c], n_axes, &d) || (d.kernel >= 0 && taken[d.kernel]))
      return false;
    if (d.pixel >= 0 && m->by[d.pixel] != 1 && m->by[d.pixel] != d.divisor)
      return false;
    if (d.pixel >= 0)
      m->by[d.pixel] = d.divisor;
    if (d.kernel >= 0)
      taken[d.kernel] = true;
  }
  return dim_is_number(at->base);
}

/* Whether both operands can go through the map of every phase, where one of them has divisors; m: the steps of
 * pixels. */
static bool product_fits(const matmul_product *p, int n_axes, axis_map m) {
  const region *with = has_divisor(&p->a) ? &p->a : &p->b;
  const instr *load = has_divisor(with) ? load_of(with) : NULL;
  for (int c = 0; load && c < load->at.n_checks; c++) {
    divided d;
    if (load->at.checks[c].divisor == 1 || !read_check(&load->at.checks[c], n_axes, &d) ||
        d.kernel < 0)
      continue;
    if (!dim_is_number(p->k[d.kernel - n_axes]))
      return false;
    m.from[d.kernel] = 1;
  }
  region alone = {1, load}; /* what is left of it */
  return axes_fit(load && with == &p->a ? &alone : &p->a, &m) &&
         axes_fit(load && with == &p->b ? &alone : &p->b, &m);
}

/* Whether a part can be cut, and the steps of its pixels. */
static bool find_steps(const matmul_part *p, axis_map *m) {
  int n_axes = p->n_batch + p->n_m + p->n_n;
  int64_t phases = 1;
  bool any = false;
  *m = axes_unchanged();
  for (int a = 0; a < p->n_accs; a++)
    for (int i = 0; i < p->accs[a].n_products; i++) {
      const matmul_product *x = &p->accs[a].products[i];
      if (has_divisor(&x->a) && has_divisor(&x->b))
        return false;
      if (!find_divisors(&x->a, n_axes, m) || !find_divisors(&x->b, n_axes, m))
        return false;
      any = any || has_divisor(&x->a) || has_divisor(&x->b);
    }
  for (int i = 0; i < n_axes && phases <= MATMUL_PHASES; i++) {
    phases *= m->by[i];
    if (m->by[i] > 1 && !dim_is_number(p->extent[i]))
      return false;
  }
  for (int a = 0; a < p->n_accs; a++)
    for (int i = 0; i < p->accs[a].n_products; i++)
      if (!product_fits(&p->accs[a].products[i], n_axes, *m))
        return false;
  return any && phases <= MATMUL_PHASES && axes_fit(&p->epilogue, m);
}

/* --- one phase --- */

static int64_t remainder_of(int64_t x, int64_t by) { return (x % by + by) % by; }
static int64_t places(int64_t extent, int64_t from, int64_t by) {
  return extent > from ? (extent - from + by - 1) / by : 0;
}

/* The places of the kernel that a check leaves to a pixel of phase `from`: *y0 + *t * j; false: none. */
static bool find_places(const divided *d, int64_t from, int64_t *y0, int64_t *t) {
  int64_t v = d->offset + d->by_pixel * from;
  *y0 = 0;
  *t = 1;
  if (d->kernel < 0)
    return remainder_of(v, d->divisor) == 0;
  while (*y0 < d->divisor && remainder_of(v + d->by_kernel * *y0, d->divisor) != 0)
    ++*y0;
  if (*y0 == d->divisor)
    return false;
  while (remainder_of(d->by_kernel * *t, d->divisor) != 0)
    ++*t;
  return true;
}

/* The map of a product's k axes, their extents; false: it has no place. */
static bool map_kernel(const region *r, int n_axes, axis_map *m, sn_dim *k) {
  const instr *load = has_divisor(r) ? load_of(r) : NULL;
  for (int c = 0; load && c < load->at.n_checks; c++) {
    divided d;
    int64_t y0, t;
    if (load->at.checks[c].divisor == 1 || !read_check(&load->at.checks[c], n_axes, &d))
      continue;
    if (!find_places(&d, d.pixel < 0 ? 0 : m->from[d.pixel], &y0, &t))
      return false;
    if (d.kernel < 0)
      continue;
    sn_dim *extent = &k[d.kernel - n_axes];
    m->from[d.kernel] = y0;
    m->by[d.kernel] = t;
    *extent = places(*extent, y0, t);
    if (*extent == 0)
      return false;
  }
  return true;
}

/* The checks of a mapped load, v / divisor in place of v. */
static void divide_checks(access *at) {
  for (int c = 0; c < at->n_checks; c++) {
    check *k = (check *)&at->checks[c]; /* access_map made it */
    sn_dim by = k->divisor;
    if (by == 1)
      continue;
    k->offset /= by;
    for (int i = 0; i < k->n_terms; i++)
      ((term *)k->terms)[i].stride /= by;
    k->divisor = 1;
  }
}

/* The terms of a load, registers by the sums of their checks. */
static sn_status replace_registers(emit_env *env, const region *of, const access *old, access *at) {
  term *to = arena_array(env->memory, ACCESS_TERMS, sizeof *to);
  int n = 0;
  if (!to)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < at->n_terms; i++) {
    const term *t = &at->terms[i];
    const check *c = t->axis == TERM_REG ? &at->checks[check_of(of, old, t)] : NULL;
    if (n + (c ? c->n_terms : 1) > ACCESS_TERMS)
      return diag_fail(env->ctx, SN_ERR_UNSUPPORTED, "matmul: an operand with too many axes");
    if (!c) {
      to[n++] = *t;
      continue;
    }
    at->base += t->stride * c->offset;
    for (int j = 0; j < c->n_terms; j++, n++) {
      to[n] = c->terms[j];
      to[n].stride *= t->stride;
    }
  }
  at->terms = to;
  at->n_terms = n;
  return SN_OK;
}

/* An operand with divisors is its load alone, and a cast. */
static sn_status map_operand(emit_env *env, const region *of, const axis_map *m, region *out) {
  if (!has_divisor(of))
    return region_map(env, of, m, out);
  const instr *load = load_of(of), *last = &of->code[of->n - 1];
  instr *code = arena_array(env->memory, 2, sizeof *code);
  if (!code)
    return SN_ERR_NO_MEMORY;
  code[0] = *load;
  code[1] = *last;
  code[1].a = 0;
  *out = (region){last == load ? 1 : 2, code};
  SN_TRY(access_map(env, m, &code[0].at));
  divide_checks(&code[0].at);
  return replace_registers(env, of, &load->at, &code[0].at);
}

static sn_status make_acc(emit_env *env, const matmul_acc *of, int n_axes, const axis_map *m,
                          matmul_acc *out) {
  matmul_product *products = arena_array(env->memory, (size_t)of->n_products + 1, sizeof *products);
  if (!products)
    return SN_ERR_NO_MEMORY;
  *out = (matmul_acc){0, products};
  for (int i = 0; i < of->n_products; i++) {
    const matmul_product *from = &of->products[i];
    matmul_product *to = &products[out->n_products];
    axis_map all = *m;
    *to = *from;
    if (!map_kernel(&from->a, n_axes, &all, to->k) || !map_kernel(&from->b, n_axes, &all, to->k))
      continue;
    SN_TRY(map_operand(env, &from->a, &all, &to->a));
    SN_TRY(map_operand(env, &from->b, &all, &to->b));
    out->n_products++;
  }
  return SN_OK;
}

static sn_status make_phase(emit_env *env, const matmul_part *of, const axis_map *m,
                            matmul_part *out) {
  int n_axes = of->n_batch + of->n_m + of->n_n;
  matmul_acc *accs = arena_array(env->memory, (size_t)of->n_accs + 1, sizeof *accs);
  if (!accs)
    return SN_ERR_NO_MEMORY;
  *out = *of;
  out->accs = accs;
  for (int i = 0; i < n_axes; i++)
    if (m->by[i] != 1)
      out->extent[i] = places(of->extent[i], m->from[i], m->by[i]);
  for (int a = 0; a < of->n_accs; a++)
    SN_TRY(make_acc(env, &of->accs[a], n_axes, m, &accs[a]));
  return region_map(env, &of->epilogue, m, &out->epilogue);
}

/* --- all of them --- */

typedef struct cutter {
  emit_env *env;
  const matmul_part *of;
  axis_map steps; /* `by` of all axes that are cut */
  axis_map map;   /* of the phase at hand */
  matmul_part *made;
  int n;
} cutter;

static sn_status cut_from(cutter *c, int axis) {
  int n_axes = c->of->n_batch + c->of->n_m + c->of->n_n;
  if (axis == n_axes)
    return make_phase(c->env, c->of, &c->map, &c->made[c->n++]);
  int64_t by = c->steps.by[axis];
  c->map.by[axis] = by;
  for (int64_t i = by - 1; i >= 0; i--) {
    c->map.from[axis] = i;
    if (by == 1 || c->of->extent[axis] > i)
      SN_TRY(cut_from(c, axis + 1));
  }
  c->map.by[axis] = 1;
  c->map.from[axis] = 0;
  return SN_OK;
}

sn_status matmul_cut(emit_env *env, const matmul_part *of, const matmul_part **out, int *out_n) {
  cutter c = {.env = env, .of = of, .map = axes_unchanged()};
  *out = of;
  *out_n = 1;
  if (!find_steps(of, &c.steps))
    return SN_OK;
  c.made = arena_array(env->memory, MATMUL_PHASES, sizeof *c.made);
  if (!c.made)
    return SN_ERR_NO_MEMORY;
  SN_TRY(cut_from(&c, 0));
  if (c.n > 0) { /* otherwise there is no pixel */
    *out = c.made;
    *out_n = c.n;
  }
  return SN_OK;
}

static bool have_products(const matmul_part *parts, int n) {
  for (int i = 0; i < n; i++)
    for (int a = 0; a < parts[i].n_accs; a++)
      if (parts[i].accs[a].n_products == 0)
        return false;
  return true;
}

/* Phases of windows are one shader and one launch: where a phase has one place along an axis, an axis of one point and a check that always passes
 * stay, which cost it less than another launch. Where most phases have no product, the others have no window. */
static sn_status add_parts(emit_env *env, const matmul_part *of, part *parts, int *n) {
  const matmul_part *cut;
  int n_cut;
  SN_TRY(matmul_cut(env, of, &cut, &n_cut));
  bool alike = n_cut > 1 && have_products(cut, n_cut);
  for (int i = 0; i < n_cut; i++) {
    matmul_part *p = &parts[*n].u.matmul;
    *p = cut[i];
    p->phase = alike ? i + 1 : 0;
    SN_TRY(matmul_fold(env, p));
    ++*n;
  }
  return SN_OK;
}

static int most_parts(const step *s) {
  axis_map m;
  int n = 0;
  for (int i = 0; i < s->n_parts; i++)
    n += find_steps(&s->parts[i].u.matmul, &m) ? MATMUL_PHASES : 1;
  return n;
}

sn_status matmul_rewrite(emit_env *env, const step *s, const step **out) {
  step *made = arena_copy(env->memory, s, sizeof *s);
  part *parts = arena_array(env->memory, (size_t)most_parts(s) + 1, sizeof *parts);
  if (!made || !parts)
    return SN_ERR_NO_MEMORY;
  made->parts = parts;
  made->n_parts = 0;
  for (int i = 0; i < s->n_parts; i++)
    SN_TRY(add_parts(env, &s->parts[i].u.matmul, parts, &made->n_parts));
  *out = made;
  return SN_OK;
}
