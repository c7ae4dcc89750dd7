/* Parts with as few axes and checks as they can have: axes of one point are left out, and neighbouring axes that all
 * accesses count through (14 y + x) become one, since each axis costs a division at every point and every k. Of images
 * that are stored channels last, channels are the last axis of their group: neighbours in memory. See
 * emit_matmul_rewrite.h.
 *
 * All regions are copied first and then changed where they stand. */
#include "device/vulkan/emit_matmul_rewrite.h"

/* Regions that have an axis in common: all of a part, or a product's two. */
typedef struct regions {
  int n;
  region *const *at;
} regions;

static int part_axes(const matmul_part *p) { return p->n_batch + p->n_m + p->n_n; }
static term *own(const term *t) { return (term *)t; }

/* --- sums of terms --- */

static void leave_out(int *n, const term *terms, int axis) {
  int kept = 0;
  for (int i = 0; i < *n; i++) {
    term t = terms[i];
    if (t.axis == axis)
      continue;
    if (t.axis != TERM_REG && t.axis > axis)
      t.axis--;
    own(terms)[kept++] = t;
  }
  *n = kept;
}

/* The one term of an axis; *out_n: how many it has. */
static const term *term_of(int n, const term *terms, int axis, int *out_n) {
  const term *found = NULL;
  *out_n = 0;
  for (int i = 0; i < n; i++)
    if (terms[i].axis == axis) {
      found = &terms[i];
      ++*out_n;
    }
  return found;
}

/* Whether a sum counts through an axis and the next, of so many points. */
static bool counts_through(int n, const term *terms, int axis, int64_t inner) {
  int n_outer, n_inner;
  const term *o = term_of(n, terms, axis, &n_outer), *i = term_of(n, terms, axis + 1, &n_inner);
  if (n_outer == 0 && n_inner == 0)
    return true;
  int64_t stride;
  return n_outer == 1 && n_inner == 1 && term_is_plain(o) && term_is_plain(i) &&
         dim_is_number(o->stride) && dim_is_number(i->stride) &&
         mul_fits(i->stride, inner, &stride) && o->stride == stride;
}

/* --- axes --- */

static void leave_out_all(regions r, int axis) {
  for (int k = 0; k < r.n; k++)
    for (int i = 0; i < r.at[k]->n; i++) {
      access *at = (access *)&r.at[k]->code[i].at;
      leave_out(&at->n_terms, at->terms, axis);
      for (int c = 0; c < at->n_checks; c++) {
        check *one = (check *)&at->checks[c];
        leave_out(&one->n_terms, one->terms, axis);
      }
    }
}

static bool all_count_through(regions r, int axis, int64_t inner) {
  for (int k = 0; k < r.n; k++)
    for (int i = 0; i < r.at[k]->n; i++) {
      const access *at = &r.at[k]->code[i].at;
      if (!counts_through(at->n_terms, at->terms, axis, inner))
        return false;
      for (int c = 0; c < at->n_checks; c++)
        if (!counts_through(at->checks[c].n_terms, at->checks[c].terms, axis, inner))
          return false;
    }
  return true;
}

/* --- channels last --- */

/* The axis from `first` on along which an image's channels run; -1: there is none. */
static int channel_axis(const emit_env *env, const region *r, int first, int n) {
  for (int i = 0; i < r->n; i++) {
    const access *at = &r->code[i].at;
    if (r->code[i].op != REGION_LOAD || env->program->values[at->value].channels == 0)
      continue;
    for (int t = 0; t < at->n_terms; t++)
      if (at->terms[t].axis >= first && at->terms[t].axis < first + n && at->terms[t].stride == 1 &&
          term_is_plain(&at->terms[t]))
        return at->terms[t].axis;
  }
  return -1;
}

static void turn_terms(int n, const term *terms, int axis, int last) {
  for (int i = 0; i < n; i++) {
    term *t = own(&terms[i]);
    if (t->axis == axis)
      t->axis = (uint8_t)last;
    else if (t->axis != TERM_REG && t->axis > axis && t->axis <= last)
      t->axis--;
  }
}

/* An axis behind those that come after it in its group. */
static void turn_group(regions r, int axis, int first, int n, sn_dim *extent) {
  int last = first + n - 1;
  if (axis < 0 || axis == last)
    return;
  sn_dim moved = extent[axis - first];
  memmove(extent + axis - first, extent + axis - first + 1, (size_t)(last - axis) * sizeof moved);
  extent[n - 1] = moved;
  for (int k = 0; k < r.n; k++)
    for (int i = 0; i < r.at[k]->n; i++) {
      const access *at = &r.at[k]->code[i].at;
      turn_terms(at->n_terms, at->terms, axis, last);
      for (int c = 0; c < at->n_checks; c++)
        turn_terms(at->checks[c].n_terms, at->checks[c].terms, axis, last);
    }
}

/* A group of `n` axes from `first` on, extents at `extent`; how many are left. `rest`: extents behind the group. */
static int fold_group(regions r, int first, int n, sn_dim *extent, int rest) {
  for (int d = n - 1; d >= 0; d--) {
    bool whole = d + 1 < n && dim_is_number(extent[d]) && dim_is_number(extent[d + 1]) &&
                 extent[d + 1] > 0 && all_count_through(r, first + d, extent[d + 1]);
    if (extent[d] != 1 && !(whole && mul_fits(extent[d], extent[d + 1], &extent[d + 1])))
      continue;
    leave_out_all(r, first + d);
    memmove(extent + d, extent + d + 1, (size_t)(n - d - 1 + rest) * sizeof *extent);
    n--;
  }
  return n;
}

/* --- checks --- */

/* Whether 0 <= offset + terms < size at every point. */
static bool always_passes(const check *c, const sn_dim *extent) {
  int64_t lo = c->offset, hi = c->offset;
  if (!dim_is_number(c->offset) || !dim_is_number(c->size) || c->divisor != 1)
    return false;
  for (int i = 0; i < c->n_terms; i++) {
    const term *t = &c->terms[i];
    int64_t most;
    if (t->axis == TERM_REG || !term_is_plain(t) || !dim_is_number(t->stride) ||
        !dim_is_number(extent[t->axis]) ||
        !mul_fits(max_i64(0, extent[t->axis] - 1), t->stride, &most) ||
        !add_fits(most > 0 ? hi : lo, most, most > 0 ? &hi : &lo))
      return false;
  }
  return lo >= 0 && hi < c->size;
}

static void drop_checks(region *r, const sn_dim *extent) {
  for (int i = 0; i < r->n; i++) {
    access *at = (access *)&r->code[i].at;
    check *checks = (check *)at->checks;
    int kept = 0;
    for (int c = 0; c < at->n_checks; c++)
      if (!always_passes(&checks[c], extent))
        checks[kept++] = checks[c];
    at->n_checks = kept;
  }
}

/* --- terms --- */

/* In the order of their axes: the same sum in another order would be another shader. */
static void sort_terms(int n, const term *terms) {
  for (int i = 1; i < n; i++)
    for (int k = i; k > 0 && terms[k - 1].axis > terms[k].axis; k--) {
      term t = terms[k];
      own(terms)[k] = terms[k - 1];
      own(terms)[k - 1] = t;
    }
}

static void sort_all(regions r) {
  for (int k = 0; k < r.n; k++)
    for (int i = 0; i < r.at[k]->n; i++) {
      const access *at = &r.at[k]->code[i].at;
      sort_terms(at->n_terms, at->terms);
      for (int c = 0; c < at->n_checks; c++)
        sort_terms(at->checks[c].n_terms, at->checks[c].terms);
    }
}

/* --- directions --- */

/* Whether an axis can be counted from its end in a sum; *back: it is counted downwards. */
static bool may_turn(sn_dim base, int n, const term *terms, int axis, bool *back) {
  for (int i = 0; i < n; i++) {
    if (terms[i].axis != axis)
      continue;
    if (!term_is_plain(&terms[i]) || !dim_is_number(terms[i].stride) || !dim_is_number(base))
      return false;
    *back = *back || terms[i].stride < 0;
  }
  return true;
}

static void count_back(sn_dim *base, int n, const term *terms, int axis, int64_t extent) {
  for (int i = 0; i < n; i++)
    if (terms[i].axis == axis) {
      *base += terms[i].stride * (extent - 1);
      own(terms)[i].stride = -terms[i].stride;
    }
}

/* An axis of k along which operand a is read downwards, as gradients read windows, is counted from its end: then they are
 * read as convolutions read them. */
static void turn_axis(regions r, int axis, int64_t extent) {
  bool back = false, other = false;
  for (int k = 0; k < r.n; k++)
    for (int i = 0; i < r.at[k]->n; i++) {
      const access *at = &r.at[k]->code[i].at;
      if (!may_turn(at->base, at->n_terms, at->terms, axis, k == 0 ? &back : &other))
        return;
      for (int c = 0; c < at->n_checks; c++)
        if (at->checks[c].divisor != 1 || !may_turn(at->checks[c].offset, at->checks[c].n_terms,
                                                    at->checks[c].terms, axis, &other))
          return;
    }
  for (int k = 0; k < r.n && back; k++)
    for (int i = 0; i < r.at[k]->n; i++) {
      access *at = (access *)&r.at[k]->code[i].at;
      count_back(&at->base, at->n_terms, at->terms, axis, extent);
      for (int c = 0; c < at->n_checks; c++) {
        check *one = (check *)&at->checks[c];
        count_back(&one->offset, one->n_terms, one->terms, axis, extent);
      }
    }
}

/* --- parts --- */

/* Without checks that always pass; extent NULL: with them. */
static sn_status copy_region(emit_env *env, const sn_dim *extent, region *r) {
  axis_map same = axes_unchanged();
  SN_TRY(region_map(env, r, &same, r));
  if (extent)
    drop_checks(r, extent);
  return SN_OK;
}

/* With its k, whose axes are behind all others. Phases keep the axes and checks that another of them needs. */
static sn_status copy_product(emit_env *env, const matmul_part *p, matmul_product *x) {
  sn_dim extent[REGION_AXES];
  region *both[2] = {&x->a, &x->b};
  memcpy(extent, p->extent, sizeof extent);
  for (int d = 0; d < x->n_k && part_axes(p) + d < REGION_AXES; d++)
    extent[part_axes(p) + d] = x->k[d];
  for (int i = 0; i < 2; i++)
    SN_TRY(copy_region(env, p->phase ? NULL : extent, both[i]));
  int channel = channel_axis(env, &x->a, part_axes(p), x->n_k);
  if (channel < 0)
    channel = channel_axis(env, &x->b, part_axes(p), x->n_k);
  turn_group((regions){2, both}, channel, part_axes(p), x->n_k, x->k);
  for (int d = 0; d < x->n_k; d++)
    if (dim_is_number(x->k[d]) && x->k[d] > 0)
      turn_axis((regions){2, both}, part_axes(p) + d, x->k[d]);
  if (!p->phase)
    x->n_k = fold_group((regions){2, both}, part_axes(p), x->n_k, x->k, 0);
  return SN_OK;
}

/* Copies all that is changed; the regions in `all`. */
static sn_status copy_part(emit_env *env, matmul_part *p, region **all, int *n) {
  matmul_acc *accs = arena_copy(env->memory, p->accs, (size_t)p->n_accs * sizeof *accs);
  if (!accs)
    return SN_ERR_NO_MEMORY;
  p->accs = accs;
  all[(*n)++] = &p->epilogue;
  SN_TRY(copy_region(env, p->extent, &p->epilogue));
  for (int a = 0; a < p->n_accs; a++) {
    size_t bytes = (size_t)accs[a].n_products * sizeof *accs[a].products;
    matmul_product *products = arena_copy(env->memory, accs[a].products, bytes);
    if (!products)
      return SN_ERR_NO_MEMORY;
    accs[a].products = products;
    for (int i = 0; i < accs[a].n_products; i++) {
      SN_TRY(copy_product(env, p, &products[i]));
      all[(*n)++] = &products[i].a;
      all[(*n)++] = &products[i].b;
    }
  }
  return SN_OK;
}

sn_status matmul_fold(emit_env *env, matmul_part *p) {
  int n_regions = 1, n = 0;
  for (int a = 0; a < p->n_accs; a++)
    n_regions += 2 * p->accs[a].n_products;
  region **list = arena_array(env->memory, (size_t)n_regions, sizeof *list);
  if (!list)
    return SN_ERR_NO_MEMORY;
  SN_TRY(copy_part(env, p, list, &n));
  regions all = {n, list};
  int first = p->n_batch + p->n_m;
  for (int a = 0; a < p->n_accs && p->accs[a].n_products > 0; a++) {
    const matmul_product *x = &p->accs[a].products[0];
    int rows = channel_axis(env, &x->a, p->n_batch, p->n_m);
    turn_group(all, rows, p->n_batch, p->n_m, p->extent + p->n_batch);
    turn_group(all, channel_axis(env, &x->b, first, p->n_n), first, p->n_n, p->extent + first);
  }
  p->n_n = fold_group(all, first, p->n_n, p->extent + first, 0);
  if (!p->phase)
    p->n_m = fold_group(all, p->n_batch, p->n_m, p->extent + p->n_batch, p->n_n);
  p->n_batch = fold_group(all, 0, p->n_batch, p->extent, p->n_m + p->n_n);
  sort_all(all);
  return SN_OK;
}

const matmul_part *matmul_fold_result(emit_env *env, const matmul_part *p) {
  matmul_part *made = arena_copy(env->memory, p, sizeof *p);
  if (!made || copy_region(env, p->extent, &made->epilogue) != SN_OK)
    return NULL;
  region *only[] = {&made->epilogue};
  regions all = {1, only};
  int first = p->n_batch + p->n_m;
  made->n_n = fold_group(all, first, p->n_n, made->extent + first, 0);
  made->n_m = fold_group(all, p->n_batch, p->n_m, made->extent + p->n_batch, made->n_n);
  return made;
}
