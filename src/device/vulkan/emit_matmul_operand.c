/* What an operand's region is, seen before anything is emitted: whether it is one load, along which axis its
 * elements are neighbours, how many one load can read; and its elements. See emit_matmul.h. */
#include "device/vulkan/emit_four.h"
#include "device/vulkan/emit_matmul.h"

/* --- comparing --- */

static bool terms_same(int n, const term *a, int m, const term *b) {
  if (n != m)
    return false;
  for (int i = 0; i < n; i++)
    if (a[i].axis != b[i].axis || a[i].stride != b[i].stride || a[i].div != b[i].div ||
        a[i].mod != b[i].mod || (a[i].axis == TERM_REG && a[i].from != b[i].from))
      return false;
  return true;
}

bool access_same(const access *a, const access *b) {
  if (a->value != b->value || a->base != b->base || a->n_checks != b->n_checks ||
      !terms_same(a->n_terms, a->terms, b->n_terms, b->terms))
    return false;
  for (int i = 0; i < a->n_checks; i++) {
    const check *c = &a->checks[i], *d = &b->checks[i];
    if (c->offset != d->offset || c->size != d->size || c->divisor != d->divisor ||
        !terms_same(c->n_terms, c->terms, d->n_terms, d->terms))
      return false;
  }
  return true;
}

bool region_same(const region *a, const region *b) {
  if (a->n != b->n)
    return false;
  for (int i = 0; i < a->n; i++) {
    const instr *x = &a->code[i], *y = &b->code[i];
    int n = instr_arguments(x);
    if (x->op != y->op || x->code != y->code || x->dtype != y->dtype || x->index != y->index ||
        x->size != y->size || memcmp(&x->x, &y->x, sizeof x->x) != 0 ||
        memcmp(&x->y, &y->y, sizeof x->y) != 0 || (n > 0 && x->a != y->a) ||
        (n > 1 && x->b != y->b) || (n > 2 && x->c != y->c) || !access_same(&x->at, &y->at))
      return false;
  }
  return true;
}

static bool same_k(const matmul_product *a, const matmul_product *b) {
  return a->n_k == b->n_k && memcmp(a->k, b->k, (size_t)a->n_k * sizeof *a->k) == 0;
}

bool accs_share(const matmul_acc *a, const matmul_acc *b) {
  if (a->n_products != b->n_products)
    return false;
  for (int i = 0; i < a->n_products; i++)
    if (!same_k(&a->products[i], &b->products[i]) ||
        !(region_same(&a->products[i].a, &b->products[i].a) ||
          region_same(&a->products[i].b, &b->products[i].b)))
      return false;
  return true;
}

/* --- reading --- */

/* The axes of an operand and their extents. */
typedef struct axes {
  int first[2], n[2]; /* rows, k */
  sn_dim extent[REGION_AXES];
  bool phase; /* all checks count */
} axes;

static axes axes_of(const matmul_part *p, const matmul_product *product, int side) {
  axes a = {.phase = p->phase > 0};
  int columns = p->n_batch + p->n_m, k = columns + p->n_n;
  a.first[0] = side ? columns : p->n_batch;
  a.n[0] = side ? p->n_n : p->n_m;
  a.first[1] = k;
  a.n[1] = product->n_k;
  memcpy(a.extent, p->extent, (size_t)k * sizeof *a.extent);
  for (int d = 0; d < product->n_k && k + d < REGION_AXES; d++)
    a.extent[k + d] = product->k[d];
  return a;
}

/* Bounds of a sum of terms; false where sizes are no numbers or registers count. */
static bool terms_range(const axes *a, sn_dim base, int n, const term *terms, int64_t *lo,
                        int64_t *hi) {
  if (!dim_is_number(base))
    return false;
  *lo = *hi = base;
  for (int i = 0; i < n; i++) {
    const term *t = &terms[i];
    int64_t most;
    if (t->axis == TERM_REG || !dim_is_number(t->stride) || !dim_is_number(t->div) ||
        !dim_is_number(t->mod) || !dim_is_number(a->extent[t->axis]) || t->div < 1)
      return false;
    most = max_i64(0, a->extent[t->axis] - 1) / t->div;
    if (t->mod > 0)
      most = min_i64(most, t->mod - 1);
    if (!mul_fits(most, t->stride, &most) ||
        !add_fits(most > 0 ? *hi : *lo, most, most > 0 ? hi : lo))
      return false;
  }
  return true;
}

static bool always_passes(const axes *a, const check *c) {
  int64_t lo, hi;
  return c->divisor == 1 && dim_is_number(c->size) &&
         terms_range(a, c->offset, c->n_terms, c->terms, &lo, &hi) && lo >= 0 && hi < c->size;
}

static bool only_axes(int n, const term *terms) {
  for (int i = 0; i < n; i++)
    if (terms[i].axis == TERM_REG)
      return false;
  return true;
}

/* One load, perhaps widened. */
static bool is_plain(const axes *a, const region *r, operand *o) {
  const instr *load = &r->code[0];
  if (r->n < 1 || load->op != REGION_LOAD || !dtype_is_float((sn_dtype)load->dtype) ||
      !only_axes(load->at.n_terms, load->at.terms))
    return false;
  if (r->n > 2 || (r->n == 2 && (r->code[1].op != REGION_ALU || r->code[1].code != ALU_cast ||
                                 r->code[1].dtype != SN_F32 || r->code[1].a != 0)))
    return false;
  for (int i = 0; i < load->at.n_checks; i++) {
    const check *c = &load->at.checks[i];
    if (!a->phase && always_passes(a, c))
      continue;
    if (c->divisor != 1 || !only_axes(c->n_terms, c->terms))
      return false;
    o->checks[o->n_checks++] = c;
  }
  return true;
}

const term *access_only_term(const access *at, int axis) {
  const term *found = NULL;
  for (int i = 0; i < at->n_terms; i++)
    if (at->terms[i].axis == axis) {
      if (found)
        return NULL;
      found = &at->terms[i];
    }
  return found;
}

/* How many elements along a group of axes, counted from the last, stand next to each other; *from: the first axis
 * of those. Where an axis is cut (i / 64 and i % 64) it is the length of the cut. A size that is no number counts
 * as 64. */
static int64_t run_along(const axes *a, int group, const access *at, int *from) {
  int64_t run = 1;
  for (int d = a->first[group] + a->n[group] - 1; d >= a->first[group]; d--) {
    int64_t extent = dim_is_number(a->extent[d]) ? a->extent[d] : 64;
    if (extent == 1)
      continue;
    const term *t = access_only_term(at, d);
    if (t && t->stride == run && t->div == 1 && t->mod == 0) {
      run *= extent;
      *from = d;
      continue;
    }
    for (int i = 0; run == 1 && !t && i < at->n_terms; i++) {
      const term *cut = &at->terms[i];
      if (cut->axis == d && cut->stride == 1 && cut->div == 1 && dim_is_number(cut->mod) &&
          cut->mod > 1) {
        *from = d;
        return cut->mod;
      }
    }
    break;
  }
  return run;
}

static bool fourfold(sn_dim d) { return dim_is_number(d) && d % 4 == 0; }

/* Whether groups of 4 neighbouring points along axes `from` … last are 4 neighbouring elements at a multiple of 4. */
static bool loads_four(const access *at, const axes *a, int from, int last) {
  int64_t inner = 1;
  bool whole = false; /* some group of the last axes is a multiple of 4 long */
  for (int d = last; d >= from; d--) {
    if (!dim_is_number(a->extent[d]))
      return false;
    inner *= a->extent[d];
    whole = inner % 4 == 0;
  }
  if (!whole || !fourfold(at->base))
    return false;
  for (int i = 0; i < at->n_terms; i++) {
    const term *t = &at->terms[i];
    bool inside = t->axis >= from && t->axis <= last;
    bool unit = inside && t->div == 1 && (t->mod == 0 || fourfold(t->mod));
    if (a->extent[t->axis] == 1 || (unit && from != last) || (unit && t->stride == 1))
      continue;
    if (!fourfold(t->stride) || (inside && !fourfold(t->div)))
      return false;
  }
  return true;
}

/* Of axes from ... last along which elements are neighbours: the first of those that make groups of 4. A window's checks may read the others. */
static int first_of_four(const axes *a, int from, int last) {
  int64_t inner = 1;
  for (int d = last; d > from; d--) {
    inner = dim_is_number(a->extent[d]) ? inner * a->extent[d] % 4 : 1;
    if (inner == 0)
      return d;
  }
  return from;
}

static bool checks_read(const operand *o, int from, int last) {
  for (int i = 0; i < o->n_checks; i++)
    for (int j = 0; j < o->checks[i]->n_terms; j++) {
      const term *t = &o->checks[i]->terms[j];
      if (t->axis >= from && t->axis <= last && t->stride != 0)
        return true;
    }
  return false;
}

four_kind access_four(const access *at, const four_axes *of) {
  axes a = {.first = {of->first}, .n = {of->n}};
  int from = 0, last = of->first + of->n - 1;
  bool same = true;
  if (at->n_checks > 0 || !only_axes(at->n_terms, at->terms))
    return FOUR_APART;
  memcpy(a.extent, of->extent, sizeof a.extent);
  for (int i = 0; i < at->n_terms; i++)
    same = same && (at->terms[i].axis < of->first || at->terms[i].axis > last);
  if (same)
    return FOUR_SAME;
  bool next = run_along(&a, 0, at, &from) >= 4 && loads_four(at, &a, from, last);
  return next ? FOUR_NEXT : FOUR_APART;
}

/* The load that says where elements are neighbours: the last one whose address moves with k. */
static const access *leading_load(const axes *a, const region *r) {
  for (int i = r->n - 1; i >= 0; i--) {
    const access *at = &r->code[i].at;
    if (r->code[i].op != REGION_LOAD)
      continue;
    for (int j = 0; j < at->n_terms; j++)
      if (at->terms[j].axis >= a->first[1] && at->terms[j].axis != TERM_REG)
        return at;
  }
  return NULL;
}

void vk_operand_read(const emitter *e, const matmul_part *p, const matmul_product *product,
                     int side, operand *out) {
  axes a = axes_of(p, product, side);
  *out = (operand){.code = side ? &product->b : &product->a,
                   .product = product,
                   .side = side,
                   .width = 1,
                   .along_k = true};
  out->plain = is_plain(&a, out->code, out);
  out->at = out->plain ? &out->code->code[0].at : leading_load(&a, out->code);
  if (!out->at)
    return;
  int from[2] = {0, 0};
  int64_t run[2];
  for (int g = 0; g < 2; g++)
    run[g] = run_along(&a, g, out->at, &from[g]);
  out->along_k = run[1] >= run[0];
  int g = out->along_k;
  if (!out->plain)
    return;
  out->dtype = e->env.program->values[out->at->value].type.dtype;
  int last = a.first[g] + a.n[g] - 1, first = first_of_four(&a, from[g], last);
  if (run[g] >= 4 && loads_four(out->at, &a, first, last) && !checks_read(out, first, last))
    out->width = 4;
}

/* How far the next point along a group of axes is. */
static int64_t nearest(const axes *a, int group, const access *at) {
  for (int d = a->first[group] + a->n[group] - 1; d >= a->first[group]; d--) {
    const term *t = access_only_term(at, d);
    if (a->extent[d] != 1)
      return t && dim_is_number(t->stride) ? t->stride : INT64_MAX;
  }
  return INT64_MAX;
}

bool matmul_columns_last(const matmul_part *p) {
  axes a = {.first = {p->n_batch, p->n_batch + p->n_m}, .n = {p->n_m, p->n_n}};
  int from;
  memcpy(a.extent, p->extent, sizeof a.extent);
  for (int i = 0; i < p->epilogue.n; i++) {
    const access *at = &p->epilogue.code[i].at;
    if (p->epilogue.code[i].op != REGION_STORE)
      continue;
    int64_t rows = run_along(&a, 0, at, &from), columns = run_along(&a, 1, at, &from);
    return rows == columns ? nearest(&a, 1, at) <= nearest(&a, 0, at) : columns > rows;
  }
  return true;
}
