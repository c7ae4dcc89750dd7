/* See reduce.h. */
#include "ops/reduce/reduce.h"

sn_status infer_reduced(infer_ctx *c, const sn_ints *axes, bool keepdims, sn_dtype dtype) {
  const sn_shape *x = &c->in[0].shape;
  bool chosen[SN_MAX_RANK];
  SN_TRY(infer_axes(c, axes, x->rank, chosen));
  c->out[0].dtype = dtype;
  for (int d = 0; d < x->rank; d++)
    if (keepdims || !chosen[d])
      c->out[0].shape.dim[c->out[0].shape.rank++] = chosen[d] ? 1 : x->dim[d];
  return SN_OK;
}

sn_status infer_reduced_nonempty(infer_ctx *c, const sn_ints *axes, bool keepdims, sn_dtype dtype) {
  const sn_shape *x = &c->in[0].shape;
  bool chosen[SN_MAX_RANK], nothing = false, maybe_no_result = false;
  SN_TRY(infer_axes(c, axes, x->rank, chosen));
  for (int d = 0; d < x->rank; d++) {
    nothing = nothing || (chosen[d] && x->dim[d] == 0);
    maybe_no_result =
        maybe_no_result || (!chosen[d] && (x->dim[d] == 0 || !dim_is_number(x->dim[d])));
  }
  if (nothing && !maybe_no_result)
    return infer_fail(c, "has no value over nothing: a reduced axis of %s has size 0",
                      infer_text(c, 0));
  return infer_reduced(c, axes, keepdims, dtype);
}

sn_status infer_scan(infer_ctx *c, int64_t axis) {
  int resolved;
  SN_TRY(infer_number(c, 0));
  SN_TRY(infer_axis(c, axis, c->in[0].shape.rank, &resolved));
  c->out[0] = c->in[0];
  return SN_OK;
}

void reduce_walk_start(reduce_walk *w, const ref_tensor *x, const sn_ints *axes) {
  *w = (reduce_walk){.x = x, .count = 1};
  bool chosen[SN_MAX_RANK];
  for (int d = 0; d < x->rank; d++)
    chosen[d] = axes->n == 0;
  for (int i = 0; i < axes->n; i++)
    chosen[resolve_axis(axes->v[i], x->rank)] = true;
  int64_t s = 1;
  for (int d = x->rank - 1; d >= 0; d--) {
    w->stride[d] = chosen[d] ? 0 : s;
    *(chosen[d] ? &w->count : &s) *= x->dim[d];
  }
}

int64_t reduce_walk_next(reduce_walk *w) {
  int64_t at = 0;
  for (int d = 0; d < w->x->rank; d++)
    at += w->index[d] * w->stride[d];
  ref_next(w->index, w->x->dim, w->x->rank);
  return at;
}

static double add_f(double acc, double x) { return acc + x; }
static int64_t add_i(int64_t acc, int64_t x) { return acc + x; }
static double multiply_f(double acc, double x) { return acc * x; }
static int64_t multiply_i(int64_t acc, int64_t x) { return acc * x; }
/* NaN wins. */
static double larger_f(double acc, double x) { return isnan(acc) || acc >= x ? acc : x; }
static double smaller_f(double acc, double x) { return isnan(acc) || acc <= x ? acc : x; }

const fold fold_add = {0, add_f, add_i};
const fold fold_multiply = {1, multiply_f, multiply_i};
const fold fold_larger = {-INFINITY, larger_f, NULL};
const fold fold_smaller = {INFINITY, smaller_f, NULL};

double fold_step(const fold *how, sn_dtype dtype, double acc, double x) {
  if (dtype_is_int(dtype) && how->i)
    return wrap_int(dtype, how->i((int64_t)acc, (int64_t)x));
  return how->f(acc, x);
}

void ref_fold(ref_ctx *c, const sn_ints *axes, const fold *how) {
  const ref_tensor *x = &c->in[0];
  ref_tensor *y = &c->out[0];
  reduce_walk w;
  reduce_walk_start(&w, x, axes);
  for (int64_t i = 0; i < y->count; i++)
    y->data[i] = how->start;
  for (int64_t i = 0; i < x->count; i++) {
    int64_t at = reduce_walk_next(&w);
    y->data[at] = fold_step(how, x->dtype, y->data[at], x->data[i]);
  }
}

void ref_scan(ref_ctx *c, int64_t axis, bool exclusive, bool reverse, const fold *how) {
  const ref_tensor *x = &c->in[0];
  axis_view v = ref_axis(x, axis);
  for (int64_t row = 0; row < v.outer * v.inner; row++) {
    int64_t start = row / v.inner * v.n * v.inner + row % v.inner;
    double acc = how->start;
    for (int64_t k = 0; k < v.n; k++) {
      int64_t at = start + (reverse ? v.n - 1 - k : k) * v.inner;
      double next = fold_step(how, x->dtype, acc, x->data[at]);
      c->out[0].data[at] = exclusive ? acc : next;
      acc = next;
    }
  }
}

sn_status ref_nonempty(ref_ctx *c, const sn_ints *axes) {
  reduce_walk w;
  reduce_walk_start(&w, &c->in[0], axes);
  if (w.count > 0 || c->out[0].count == 0)
    return SN_OK;
  return ref_fail(c, SN_ERR_INVALID,
                  "has no value over nothing: a reduced axis has size 0 under these symbol values");
}

/* --- grad and decompose --- */

static void choose_axes(sn_shape shape, sn_ints axes, bool *chosen) {
  for (int d = 0; d < shape.rank; d++)
    chosen[d] = axes.n == 0;
  for (int i = 0; i < axes.n && shape.rank; i++) /* an invalid value has no axes */
    chosen[resolve_axis(axes.v[i], shape.rank)] = true;
}

sn_dim build_reduced_count(build_ctx *c, sn_shape shape, sn_ints axes) {
  sn_shape reduced = {0};
  bool chosen[SN_MAX_RANK];
  choose_axes(shape, axes, chosen);
  for (int d = 0; d < shape.rank; d++)
    if (chosen[d])
      reduced.dim[reduced.rank++] = shape.dim[d];
  return dim_count(c->graph, reduced);
}

sn_value build_dropdims(build_ctx *c, sn_value kept, sn_ints axes, bool keepdims) {
  sn_shape shape = build_shape(c, kept), dropped = {0};
  bool chosen[SN_MAX_RANK];
  choose_axes(shape, axes, chosen);
  for (int d = 0; d < shape.rank; d++)
    if (!chosen[d])
      dropped.dim[dropped.rank++] = shape.dim[d];
  return keepdims ? kept : sn_reshape(c->graph, kept, dropped);
}

sn_value build_max_or_lowest(build_ctx *c, sn_value x, sn_ints axes) {
  sn_type t = sn_value_type(c->graph, x);
  sn_ints before = {.n = t.shape.rank}, after = {.n = t.shape.rank};
  bool chosen[SN_MAX_RANK], nothing = false, maybe = false;
  choose_axes(t.shape, axes, chosen);
  for (int d = 0; d < t.shape.rank; d++) {
    int64_t lo, hi;
    dim_range(c->graph, t.shape.dim[d], &lo, &hi);
    nothing = nothing || (chosen[d] && hi == 0);
    after.v[d] = chosen[d] && lo <= 0;
    maybe = maybe || after.v[d];
    t.shape.dim[d] = chosen[d] ? 1 : t.shape.dim[d];
  }
  if (nothing)
    return sn_full(c->graph, t.dtype, t.shape, -INFINITY);
  if (maybe) /* a symbol that may be 0: one more element that never wins */
    x = sn_pad(c->graph, x, before, after, SN_PAD_CONSTANT, -INFINITY);
  return sn_max(c->graph, x, axes, true);
}

shifted_logs build_shifted_logs(build_ctx *c, sn_value x, sn_ints axes) {
  sn_graph *g = c->graph;
  sn_value m = build_max_or_lowest(c, x, axes);
  shifted_logs s = {.by = sn_where(g, sn_isinf(g, m), sn_scalar(g, SN_F32, 0), m)};
  s.moved = sn_sub(g, x, s.by);
  s.log_sum = sn_log(g, sn_sum(g, sn_exp(g, s.moved), axes, true));
  return s;
}

/* --- element --- */

/* Sums and products wrap in i32, and what is left of them is the same modulo 2^8. */
static reg back_from_i32(elem_ctx *c, reg a, reduce_kind kind) {
  if (kind == REDUCE_SUM || kind == REDUCE_PROD)
    a = elem_int2(c, ALU_rem, a, elem_number_as(c, SN_I32, 256));
  return elem_alu1(c, ALU_cast, a);
}

uint16_t elem_fold(elem_ctx *c, const place *at, const sn_ints *axes, bool keepdims,
                   reduce_kind kind) {
  sn_shape shape = c->in[0].shape;
  sn_dtype dtype = c->in[0].dtype, in = dtype;
  bool chosen[SN_MAX_RANK];
  coord inner[SN_MAX_RANK];
  sn_dim extents[SN_MAX_RANK] = {0};
  int n = 0, next = 0, outer = 0;
  choose_axes(shape, *axes, chosen);
  for (int d = 0; d < shape.rank; d++)
    if (chosen[d])
      extents[n++] = shape.dim[d];
  elem_axes(c, n, extents, inner);
  place x = locate_start(at, shape.rank);
  for (int d = 0; d < shape.rank; d++) {
    x.c[d] = chosen[d] ? inner[next++] : at->c[outer];
    outer += keepdims || !chosen[d];
  }
  if (in == SN_U8)
    dtype = SN_I32;
  else if (elem_is_half(in))
    dtype = SN_F32;
  reg body = elem_input(c, 0, &x);
  if (dtype != in)
    body = elem_alu_as(c, ALU_cast, dtype, body, 0, 0, 0, 0);
  reg all = elem_reduce(c, kind, dtype, body);
  return in == SN_U8   ? back_from_i32(c, all, kind)
         : dtype != in ? elem_alu1(c, ALU_cast, all)
                       : all;
}

void elem_require_nonempty(elem_ctx *c, const sn_ints *axes) {
  sn_shape shape = c->in[0].shape, reduced = {0}, kept = {0};
  bool chosen[SN_MAX_RANK];
  choose_axes(shape, *axes, chosen);
  for (int d = 0; d < shape.rank; d++) {
    sn_shape *to = chosen[d] ? &reduced : &kept;
    to->dim[to->rank++] = shape.dim[d];
  }
  sn_dim results = dim_count(c->graph, kept);
  for (int d = 0; d < reduced.rank; d++)
    locate_require(
        c, sn_dim_sub(c->graph, reduced.dim[d], 1), results,
        "has no value over nothing: a reduced axis has size 0 under these symbol values");
}
