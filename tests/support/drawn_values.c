/* Leaves of drawn graphs and their numbers, and values made to fit a type: see drawn_graph.h. */
#include "support/drawn_graph.h"

#include "ir/dim.h"
#include "ir/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  SPECIALS = 5,
  FLOAT_STYLES = 9,
  MOST_DEPTH = 3,
  MOST_ELEMENTS = 1 << 12,
  MOST_AT_LARGEST = 1 << 18
};

/* --- numbers --- */

static uint32_t mixed(uint32_t seed, int64_t i) {
  uint64_t x = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) + seed;
  x = (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
  return (uint32_t)(x >> 29 ^ x >> 40);
}

static double float_number(const drawn_leaf *l, uint32_t h, int64_t i) {
  static const double specials[] = {INFINITY, -INFINITY, NAN, -0.0};
  switch (l->style) {
  case 1: return (h % 17 - 8.0) / 2;
  case 2: return ldexp(h & 8 ? -1 : 1, (int)(h % 7) - 3);
  case 3: return h & 1;
  case 4: return h % 3 - 1.0;
  case SPECIALS: return h % 16 < 4 ? specials[h % 4] : (h >> 8) % 9 - 4.0;
  case 6: return l->seed % 9 - 4.0;
  case 7: return (double)((i * 7 + l->seed) % 64) - 32;
  case 8: return (h % 255 - 127.0) / 8;
  default: return h % 9 - 4.0;
  }
}

static double integer_number(const drawn_leaf *l, sn_dtype dtype, uint32_t h) {
  static const double edges[] = {0, 1, -1, INT32_MAX, INT32_MIN, 65536, 1 << 24, (1 << 24) + 1};
  if (l->lo < l->hi)
    return (double)(l->lo + (int64_t)(h % (uint64_t)(l->hi - l->lo)));
  if (dtype == SN_BOOL)
    return l->style % 4 == 3 ? l->seed & 1 : h & 1;
  if (dtype == SN_U8)
    return l->style % 2 ? h % 256 : h % 5;
  switch (l->style % 4) {
  case 0: return h % 4;
  case 1: return h % 17 - 8.0;
  case 2: return edges[h % COUNT_OF(edges)];
  default: return 1 + h % 5;
  }
}

double drawn_fill(void *user, const char *name, sn_dtype dtype, int64_t i) {
  const drawn_graph *d = user;
  const drawn_leaf *l = NULL;
  for (int k = 0; k < d->n_leaves && !l; k++)
    if (strcmp(d->leaves[k].name, name) == 0)
      l = &d->leaves[k];
  if (!l)
    return 0;
  if (l->given)
    return i < l->n_given ? l->given[i] : 0;
  uint32_t h = mixed(l->seed, i);
  double x = dtype_is_float(dtype) ? float_number(l, h, i) : integer_number(l, dtype, h);
  return dtype_round(dtype, x);
}

/* --- leaves --- */

static bool fixed(sn_shape s) {
  for (int k = 0; k < s.rank; k++)
    if (!dim_is_number(s.dim[k]))
      return false;
  return true;
}

static int64_t count_at(const drawn_graph *d, sn_shape s) {
  int64_t n = 1;
  for (int k = 0; k < s.rank; k++)
    if (!mul_fits(n, drawn_at(d, s.dim[k]), &n))
      return INT64_MAX;
  return n;
}

/* At the largest sizes that symbols take. */
static bool too_large(const drawn_graph *d, sn_shape s) {
  int64_t n = 1;
  for (int k = 0; k < s.rank; k++)
    if (!mul_fits(n, sn_dim_max(d->g, s.dim[k]), &n) || n > MOST_AT_LARGEST)
      return true;
  return false;
}

static int style_of(drawn_graph *d) {
  int style = (int)drawn(d, FLOAT_STYLES);
  return style == SPECIALS && (d->plain || drawn(d, 2)) ? 0 : style;
}

static sn_value constant_of(drawn_graph *d, sn_type type, const drawn_leaf *l) {
  int64_t n = count_at(d, type.shape);
  size_t each = sn_dtype_size(type.dtype);
  char *data = arena_array(&d->memory, (size_t)n, each);
  for (int64_t i = 0; data && i < n; i++)
    dtype_store(type.dtype, data, i, drawn_fill(d, l->name, type.dtype, i));
  if (!data)
    return SN_NONE;
  attrs_constant a = {.dtype = type.dtype, .shape = type.shape, .data = {data, (size_t)n * each}};
  return drawn_add(d, OP_constant, NULL, 0, &a);
}

sn_value drawn_leaf_of(drawn_graph *d, sn_type type, int64_t lo, int64_t hi) {
  if (d->n_leaves == DRAWN_LEAVES || count_at(d, type.shape) > EXACT_MOST_ELEMENTS)
    return SN_NONE;
  drawn_leaf *l = &d->leaves[d->n_leaves++];
  uint32_t what = drawn(d, 8);
  *l = (drawn_leaf){.style = style_of(d), .seed = drawn(d, 1 << 16), .lo = lo, .hi = hi};
  snprintf(l->name, sizeof l->name, "x%d", d->n_leaves - 1);
  int op = d->leaf_op ? d->leaf_op : what == 7 ? OP_constant : what >= 5 ? OP_state : OP_input;
  bool numbers = fixed(type.shape);
  if (op == OP_constant && numbers && count_at(d, type.shape) <= 64)
    return constant_of(d, type, l);
  if (op != OP_input && numbers) {
    attrs_state a = {.name = l->name, .dtype = type.dtype, .shape = type.shape};
    return drawn_add(d, OP_state, NULL, 0, &a);
  }
  attrs_input a = {.name = l->name, .dtype = type.dtype, .shape = type.shape};
  return drawn_add(d, OP_input, NULL, 0, &a);
}

sn_dim drawn_dim(drawn_graph *d) {
  static const int64_t small[] = {3, 2, 1, 4, 5, 8, 7, 6, 2, 3};
  static const int64_t border[] = {16, 17, 31, 32, 33, 63, 65, 128, 129, 257, 1025};
  uint32_t what = drawn(d, 32);
  if (what < 19)
    return DRAWN_OF(d, small);
  if (what < 22)
    return DRAWN_OF(d, border);
  if (what == 22)
    return 0;
  sn_dim n = d->symbols[what % 2];
  return what < 29    ? n
         : what == 29 ? sn_dim_add(d->g, n, 1)
         : what == 30 ? sn_dim_mul(d->g, n, 2)
                      : sn_dim_add(d->g, d->symbols[0], d->symbols[1]);
}

sn_shape drawn_shape(drawn_graph *d, int low, int high) {
  static const int ranks[] = {2, 1, 2, 3, 0, 4, 2, 3};
  sn_shape s = {.rank = DRAWN_OF(d, ranks)};
  s.rank = s.rank < low ? low : s.rank > high ? high : s.rank;
  for (int k = 0; k < s.rank; k++) {
    s.dim[k] = drawn_dim(d);
    sn_shape before = s;
    before.rank = k + 1;
    if (count_at(d, before) > MOST_ELEMENTS || too_large(d, before))
      s.dim[k] = 2;
  }
  return s;
}

int64_t drawn_axis(drawn_graph *d, sn_shape s) {
  int64_t axis = (int64_t)drawn(d, (uint32_t)(s.rank ? s.rank : 1));
  return drawn_one_in(d, 4) ? axis - s.rank : axis;
}

/* --- values that are there --- */

/* From a drawn place downwards, the first that is right. */
static sn_value find(drawn_graph *d, char letter, int low, int high, const sn_type *type) {
  uint32_t n = d->g->n_values - 1, back = n < 6 || drawn(d, 2) ? n : 6;
  uint32_t at = n ? n - 1 - drawn(d, back) : 0;
  for (uint32_t k = 0; k < n; k++) {
    sn_value v = {1 + (at + n - k) % n};
    sn_type t = drawn_type(d, v);
    bool right =
        type ? type_equal(t, *type)
             : drawn_fits_letter(letter, t.dtype) && t.shape.rank >= low && t.shape.rank <= high;
    if (right && drawn_usable(d, v) && drawn_known(d, v)->t.count <= MOST_ELEMENTS)
      return v;
  }
  return SN_NONE;
}

/* Whether this is the argument that is to be made of the given value. */
static bool is_given(drawn_graph *d) {
  return d->given.id && d->depth == 0 && d->asked++ == d->given_at;
}

static sn_value given_any(drawn_graph *d, char letter, int low, int high) {
  sn_value v = d->given;
  if (!drawn_fits_letter(letter, drawn_type(d, v).dtype))
    v = drawn_cast(d, v, drawn_dtype(d, letter));
  sn_shape s = drawn_shape_of(d, v);
  if (s.rank > high)
    return drawn_reshaped(d, v, high > 0 ? SN_SHAPE(-1) : SN_SCALAR);
  if (s.rank >= low)
    return v;
  sn_shape to = {.rank = low};
  for (int k = 0; k < low; k++)
    to.dim[k] = k < low - s.rank ? 1 : s.dim[k - (low - s.rank)];
  return drawn_reshaped(d, v, to);
}

sn_value drawn_any(drawn_graph *d, char letter, int low, int high) {
  if (is_given(d))
    return given_any(d, letter, low, high);
  sn_value v = drawn(d, 5) ? find(d, letter, low, high, NULL) : SN_NONE;
  if (v.id)
    return v;
  sn_type type = {drawn_dtype(d, letter), drawn_shape(d, low, high)};
  return drawn_leaf_of(d, type, 0, 0);
}

/* --- values made to fit --- */

sn_value drawn_cast(drawn_graph *d, sn_value v, sn_dtype dtype) {
  if (!v.id || drawn_type(d, v).dtype == dtype)
    return v;
  return drawn_add(d, OP_cast, &v, 1, &(attrs_cast){.dtype = dtype});
}

sn_value drawn_reshaped(drawn_graph *d, sn_value v, sn_shape shape) {
  if (!v.id || shape_equal(drawn_shape_of(d, v), shape))
    return v;
  return drawn_add(d, OP_reshape, &v, 1, &(attrs_reshape){.shape = shape});
}

static sn_value expanded(drawn_graph *d, sn_value v, sn_shape shape) {
  if (!v.id || shape_equal(drawn_shape_of(d, v), shape))
    return v;
  return drawn_add(d, OP_expand, &v, 1, &(attrs_expand){.shape = shape});
}

static sn_value cut(drawn_graph *d, sn_value v, int axis, sn_dim size) {
  sn_dim has = drawn_shape_of(d, v).dim[axis];
  int64_t spare = dim_is_number(has) && dim_is_number(size) ? has - size : 0;
  int64_t start = spare > 0 ? (int64_t)drawn(d, (uint32_t)spare + 1) : 0;
  sn_dim stop = start ? start + size : size;
  return drawn_add(d, OP_slice, &v, 1,
                   &(attrs_slice){.axis = axis, .start = start, .stop = stop, .step = 1});
}

/* By slices, reshapes and expands; SN_NONE where these do not do. */
static sn_value fitted(drawn_graph *d, sn_value v, sn_shape want) {
  sn_shape has = drawn_shape_of(d, v);
  if (fixed(has) && fixed(want) && count_at(d, has) == count_at(d, want))
    return drawn_reshaped(d, v, want);
  while (v.id && has.rank > want.rank) {
    if (drawn_at(d, has.dim[0]) < 1)
      return SN_NONE;
    v = cut(d, v, 0, 1);
    for (int k = 1; k < has.rank; k++)
      has.dim[k - 1] = has.dim[k];
    has.rank--;
    v = drawn_reshaped(d, v, has);
  }
  int lead = want.rank - has.rank;
  for (int k = 0; v.id && k < has.rank; k++) {
    sn_dim from = has.dim[k], to = want.dim[lead + k];
    if (from == to || (from == 1 && dim_is_number(from)))
      continue;
    if (drawn_at(d, from) < 1)
      return SN_NONE;
    bool smaller = dim_is_number(from) && sn_dim_max(d->g, to) <= from;
    v = cut(d, v, k, smaller ? to : 1);
  }
  return v.id ? expanded(d, v, want) : v;
}

sn_value drawn_first(drawn_graph *d, sn_value v) {
  sn_shape s = drawn_shape_of(d, v);
  for (int k = 0; v.id && k < s.rank; k++)
    v = drawn_at(d, s.dim[k]) > 0 ? cut(d, v, k, 1) : SN_NONE;
  return v.id ? drawn_reshaped(d, v, SN_SCALAR) : v;
}

/* Of two scalars. */
static sn_value computed(drawn_graph *d, sn_dtype dtype) {
  static const int flags[] = {OP_gt, OP_lt, OP_ge, OP_le, OP_eq, OP_ne};
  static const int numbers[] = {OP_mul, OP_add, OP_sub, OP_maximum, OP_minimum};
  sn_dtype of = dtype == SN_BOOL ? drawn_dtype(d, 'n') : dtype;
  sn_value in[2];
  for (int i = 0; i < 2; i++)
    in[i] = drawn_scalar(d, of);
  int op = dtype == SN_BOOL ? DRAWN_OF(d, flags) : DRAWN_OF(d, numbers);
  return drawn_add(d, op, in, 2, &(attrs_add){0});
}

/* A value of the dtype that holds one: of one that is there, of several, or of what is made of a larger one. */
sn_value drawn_scalar(drawn_graph *d, sn_dtype dtype) {
  sn_type scalar = {dtype, SN_SCALAR};
  sn_value v = SN_NONE;
  uint32_t how = d->depth > MOST_DEPTH ? 0 : drawn(d, 8);
  d->depth++;
  if (how <= 1)
    v = find(d, 0, 0, 0, &scalar);
  else if (how == 2)
    v = drawn_cast(d, drawn_any(d, 'a', 0, 0), dtype);
  else if (how == 3)
    v = drawn_cast(d, drawn_first(d, drawn_any(d, 'a', 1, 4)), dtype);
  else if (how == 4 && (v = drawn_any(d, 'n', 1, 4)).id)
    v = drawn_cast(d, drawn_add(d, drawn(d, 2) ? OP_sum : OP_max, &v, 1, &(attrs_sum){0}), dtype);
  else if (how == 5 || how == 6)
    v = computed(d, dtype);
  d->depth--;
  return v.id ? v : drawn_leaf_of(d, scalar, 0, 0);
}

sn_value drawn_like(drawn_graph *d, sn_dtype dtype, sn_shape shape) {
  sn_type type = {dtype, shape};
  sn_value v = SN_NONE;
  if (is_given(d)) {
    v = fitted(d, drawn_cast(d, d->given, dtype), shape);
    return v.id && type_equal(drawn_type(d, v), type) ? v : SN_NONE;
  }
  uint32_t how = d->depth > MOST_DEPTH ? 0 : drawn(d, 8);
  d->depth++;
  if (how == 1 || how == 2 || how == 3)
    v = find(d, 0, 0, 0, &type);
  else if (how == 4)
    v = expanded(d, drawn_scalar(d, dtype), shape);
  else if (how == 5 && (v = find(d, 'a', 0, 8, NULL)).id)
    v = drawn_cast(d, fitted(d, v, shape), dtype);
  else if (how == 6 && (v = find(d, 'a', 0, 8, NULL)).id)
    v = fitted(d, drawn_cast(d, v, dtype), shape);
  d->depth--;
  return v.id && type_equal(drawn_type(d, v), type) ? v : drawn_leaf_of(d, type, 0, 0);
}

/* A value that is there and broadcasts with the shape, either way. */
static sn_value broadcasting(drawn_graph *d, sn_dtype dtype, sn_shape shape) {
  uint32_t n = d->g->n_values - 1, at = n ? drawn(d, n) : 0;
  for (uint32_t k = 0; k < n; k++) {
    sn_value v = {1 + (at + n - k) % n};
    sn_type t = drawn_type(d, v);
    bool fits = t.dtype == dtype && t.shape.rank > 0 && drawn_usable(d, v);
    for (int a = t.shape.rank - 1, b = shape.rank - 1; fits && a >= 0 && b >= 0; a--, b--)
      fits = t.shape.dim[a] == shape.dim[b] || t.shape.dim[a] == 1 || shape.dim[b] == 1;
    if (fits)
      return v;
  }
  return SN_NONE;
}

sn_value drawn_beside(drawn_graph *d, sn_dtype dtype, sn_shape shape) {
  uint32_t how = drawn(d, 7);
  bool given = d->given.id && d->depth == 0 && d->asked == d->given_at;
  sn_value there = how >= 5 && !given ? broadcasting(d, dtype, shape) : SN_NONE;
  if (there.id) {
    d->asked += d->depth == 0;
    return there;
  }
  if (given && drawn_shape_of(d, d->given).rank == 0)
    shape = SN_SCALAR;
  if (how <= 1 || given)
    return drawn_like(d, dtype, shape);
  if (how == 2) {
    d->asked += d->depth == 0;
    return drawn_scalar(d, dtype);
  }
  int lead = shape.rank ? (int)drawn(d, (uint32_t)shape.rank) : 0;
  sn_shape s = {.rank = shape.rank - lead};
  for (int k = 0; k < s.rank; k++)
    s.dim[k] = drawn(d, 3) ? shape.dim[lead + k] : 1;
  return drawn_like(d, dtype, s);
}

sn_value drawn_index(drawn_graph *d, sn_shape shape, int64_t n) {
  int64_t most = n > 0 ? n : 1;
  bool given = d->given.id && d->depth == 0 && d->asked == d->given_at;
  if (d->may_fail && drawn_one_in(d, 4))
    most += 2;
  if (!given && drawn(d, 3)) {
    d->asked += d->depth == 0;
    return drawn_leaf_of(d, (sn_type){SN_I32, shape}, 0, most);
  }
  sn_value v = drawn_like(d, SN_I32, shape);
  return drawn_add(d, OP_clamp, &v, 1, &(attrs_clamp){.lo = 0, .hi = (double)(most - 1)});
}
