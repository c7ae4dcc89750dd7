/* pad: an axis of n grows to before + n + after. Outside of the old elements stands a number (constant),
 * the axis mirrored at its first or last element, which is not repeated (reflect: needs pads below n),
 * or that element again (edge: needs n > 0). */
#include "ops/shape/locate.h"
#include "ops/shape/shape.h"

static sn_status infer_pad(infer_ctx *c) {
  const attrs_pad *a = ATTRS(pad);
  const sn_shape *x = &c->in[0].shape;
  if (a->before.n != x->rank || a->after.n != x->rank)
    return infer_fail(c, "before and after must have one number an axis (%d), got %d and %d",
                      x->rank, a->before.n, a->after.n);
  if (a->mode == SN_PAD_CONSTANT)
    SN_TRY(infer_holds(c, c->in[0].dtype, a->value));
  c->out[0] = c->in[0];
  for (int d = 0; d < x->rank; d++) {
    int64_t before = a->before.v[d], after = a->after.v[d], least = max_i64(before, after);
    if (before < 0 || after < 0 || least >= DIM_LIMIT)
      return infer_fail(c, "pads must lie in 0 … 2^56, got %lld and %lld for axis %d (slice cuts)",
                        (long long)before, (long long)after, d);
    bool number = dim_is_number(x->dim[d]);
    if (number && a->mode == SN_PAD_REFLECT && least > 0 && least >= x->dim[d])
      return infer_fail(c,
                        "reflect needs pads below the size: axis %d of %s has pads %lld and %lld",
                        d, infer_text(c, 0), (long long)before, (long long)after);
    if (number && a->mode == SN_PAD_EDGE && least > 0 && x->dim[d] == 0)
      return infer_fail(c, "an axis of size 0 has no edge: axis %d of %s", d, infer_text(c, 0));
    c->out[0].shape.dim[d] = sn_dim_add(c->graph, x->dim[d], before + after);
  }
  return c->graph->status;
}

/* Where result position i comes from on an axis of n; -1: from nowhere. */
static int64_t source(sn_pad_mode mode, int64_t i, int64_t before, int64_t n) {
  int64_t at = i - before;
  if (at >= 0 && at < n)
    return at;
  if (mode == SN_PAD_CONSTANT)
    return -1;
  if (mode == SN_PAD_EDGE)
    return at < 0 ? 0 : n - 1;
  return at < 0 ? -at : 2 * (n - 1) - at;
}

/* Symbolic sizes are known only now. */
static sn_status check_sizes(ref_ctx *c) {
  const attrs_pad *a = ATTRS(pad);
  for (int d = 0; d < c->in[0].rank; d++) {
    int64_t most = max_i64(a->before.v[d], a->after.v[d]), n = c->in[0].dim[d];
    if ((a->mode == SN_PAD_REFLECT && most > 0 && most >= n) ||
        (a->mode == SN_PAD_EDGE && most > 0 && n == 0))
      return ref_fail(c, SN_ERR_INVALID, "axis %d has only %lld elements for a pad of %lld", d,
                      (long long)n, (long long)most);
  }
  return SN_OK;
}

static sn_status ref_pad(ref_ctx *c) {
  const attrs_pad *a = ATTRS(pad);
  const ref_tensor *x = &c->in[0];
  ref_tensor *y = &c->out[0];
  int64_t stride[SN_MAX_RANK], index[SN_MAX_RANK] = {0};
  SN_TRY(check_sizes(c));
  ref_strides(x, stride);
  for (int64_t k = 0; k < y->count; k++) {
    int64_t offset = 0;
    bool inside = true;
    for (int d = 0; d < y->rank; d++) {
      int64_t at = source(a->mode, index[d], a->before.v[d], x->dim[d]);
      inside = inside && at >= 0;
      offset += at * stride[d];
    }
    y->data[k] = inside ? x->data[offset] : a->value;
    ref_next(index, y->dim, y->rank);
  }
  return SN_OK;
}

/* What the margin `part` of size m gives to its source elements, as a value of size n along the axis.
 * Left margins mirror onto elements 1 … m, right ones onto n-1-m … n-2; edges onto the first or last. */
static sn_value fold_margin(build_ctx *c, sn_value part, int axis, sn_dim n, int64_t m, bool left) {
  sn_graph *g = c->graph;
  bool mirror = ATTRS(pad)->mode == SN_PAD_REFLECT;
  sn_value there = mirror ? sn_flip(g, part, SN_INTS(axis)) : sn_sum(g, part, SN_INTS(axis), true);
  int64_t gap = mirror ? 1 : 0;
  sn_dim rest = sn_dim_sub(g, n, gap + (mirror ? m : 1));
  return build_zeros_around(c, there, axis, left ? gap : rest, left ? rest : gap);
}

static void grad_pad(build_ctx *c) {
  const attrs_pad *a = ATTRS(pad);
  sn_graph *g = c->graph;
  sn_shape x = build_shape(c, c->in[0]);
  sn_value dx = c->dout[0];
  for (int d = 0; d < x.rank; d++) {
    int64_t before = a->before.v[d], after = a->after.v[d];
    if (before == 0 && after == 0)
      continue;
    sn_dim n = x.dim[d], end = sn_dim_add(g, n, before);
    sn_value all = dx;
    dx = sn_slice(g, all, d, before, end, 1);
    if (a->mode == SN_PAD_CONSTANT)
      continue;
    sn_value left = sn_slice(g, all, d, 0, before, 1);
    sn_value right = sn_slice(g, all, d, end, sn_dim_add(g, end, after), 1);
    if (before > 0)
      dx = sn_add(g, dx, fold_margin(c, left, d, n, before, true));
    if (after > 0)
      dx = sn_add(g, dx, fold_margin(c, right, d, n, after, false));
  }
  build_din(c, 0, dx);
}

/* The source of position `at` of an axis of n in registers: clamped, or mirrored at both ends. */
static coord source_of(elem_ctx *c, sn_pad_mode mode, const coord *at, sn_dim n) {
  reg i = elem_coord(c, at), last = elem_size(c, SN_I32, sn_dim_sub(c->graph, n, 1));
  if (mode == SN_PAD_EDGE) {
    i = elem_int2(c, ALU_max, i, elem_number_as(c, SN_I32, 0));
    return elem_at(elem_int2(c, ALU_min, i, last), n);
  }
  i = elem_alu_as(c, ALU_abs, SN_I32, i, 0, 0, 0, 0);
  i = elem_alu_as(c, ALU_abs, SN_I32, elem_int2(c, ALU_sub, last, i), 0, 0, 0, 0);
  return elem_at(elem_int2(c, ALU_sub, last, i), n);
}

static uint16_t element_pad(elem_ctx *c, const place *at) {
  const attrs_pad *a = ATTRS(pad);
  guard x = guard_start(at, at->rank);
  for (int d = 0; d < at->rank; d++) {
    int64_t before = a->before.v[d], most = max_i64(before, a->after.v[d]);
    sn_dim n = c->in[0].shape.dim[d];
    x.at.c[d] = coord_shift(c->graph, &at->c[d], -before);
    coord from = x.at.c[d];
    if (most == 0)
      continue;
    if (a->mode == SN_PAD_CONSTANT) {
      guard_axis(c, &x, d, &from, &from, n, 1);
      continue;
    }
    locate_require(c, sn_dim_sub(c->graph, n, a->mode == SN_PAD_REFLECT ? most + 1 : 1), 1,
                   "an axis has fewer elements than its padding mirrors");
    x.at.c[d] = source_of(c, a->mode, &from, n);
  }
  return guard_read(c, &x, 0, dtype_round(c->out[0].dtype, a->value));
}

static const op_case cases[] = {
    {"pad(f32[2, 3]) before=[1, 0] after=[0, 2] mode=constant value=0", NULL},
    {"pad(f32[2, 3]) before=[0, 1] after=[3, 1] mode=constant value=1.5", NULL},
    {"pad(f32[0, 3]) before=[1, 0] after=[0, 1] mode=constant value=7 => f32[1, 4]{7, 7, 7, 7}",
     NULL},
    {"pad(f32[3, 0]) before=[1, 0] after=[1, 0] mode=reflect value=0", NULL},
    {"pad(f32[3, 0]) before=[1, 0] after=[1, 0] mode=edge value=0", NULL},
    {"pad(f32[]) before=[] after=[] mode=constant value=3", NULL},
    {"pad(i32[2, 2]{1, 2, 3, 4}) before=[0, 1] after=[1, 0] mode=constant value=-9 => "
     "i32[3, 3]{-9, 1, 2, -9, 3, 4, -9, -9, -9}",
     NULL},
    {"pad(i32[4]{1, 2, 3, 4}) before=[3] after=[2] mode=reflect value=0 => "
     "i32[9]{4, 3, 2, 1, 2, 3, 4, 3, 2}",
     NULL},
    {"pad(i32[3]{1, 2, 3}) before=[2] after=[4] mode=edge value=0 => i32[9]{1, 1, 1, 2, 3, 3, 3, "
     "3, 3}",
     NULL},
    {"pad(i32[2, 3]{1, 2, 3, 4, 5, 6}) before=[1, 1] after=[0, 2] mode=reflect value=0 => "
     "i32[3, 6]{5, 4, 5, 6, 5, 4, 2, 1, 2, 3, 2, 1, 5, 4, 5, 6, 5, 4}",
     NULL},
    {"pad(u8[1]{7}) before=[2] after=[1] mode=edge value=0 => u8[4]{7, 7, 7, 7}", NULL},
    {"pad(u8[1]{7}) before=[1] after=[1] mode=constant value=255 => u8[3]{255, 7, 255}", NULL},
    {"pad(bool[2]{1, 0}) before=[1] after=[1] mode=constant value=1 => bool[4]{1, 1, 0, 1}", NULL},
    {"pad(f16[2]{1, 2}) before=[1] after=[0] mode=constant value=inf => f16[3]{inf, 1, 2} @kink",
     NULL},
    {"pad(f32[1]{2}) before=[1] after=[0] mode=constant value=nan => f32[2]{nan, 2} @kink", NULL},
    {"pad(bf16[3]) before=[2] after=[2] mode=reflect value=0", NULL},
    {"pad(f32[5]) before=[4] after=[3] mode=reflect value=0", NULL},
    {"pad(f32[2, 3, 2]) before=[1, 0, 1] after=[1, 2, 0] mode=reflect value=0", NULL},
    {"pad(f32[2, 3]) before=[2, 0] after=[0, 3] mode=edge value=0", NULL},
    {"pad(f32[1, 3]) before=[3, 1] after=[2, 1] mode=edge value=0", NULL},
    {"pad(f32[2, 3]) before=[1] after=[0, 1] mode=constant value=0", "one number an axis"},
    {"pad(f32[2]) before=[-1] after=[0] mode=constant value=0", "pads must lie in 0"},
    {"pad(f32[2]) before=[0] after=[-1] mode=constant value=0", "pads must lie in 0"},
    {"pad(f32[2]) before=[0] after=[72057594037927936] mode=edge value=0", "pads must lie in 0"},
    {"pad(f32[3]) before=[3] after=[0] mode=reflect value=0", "reflect needs pads below the size"},
    {"pad(f32[3]) before=[0] after=[3] mode=reflect value=0", "reflect needs pads below the size"},
    {"pad(f32[0]) before=[0] after=[1] mode=edge value=0", "has no edge"},
    {"pad(i32[3]) before=[1] after=[0] mode=constant value=0.5", "is not a value of i32"},
    {"pad(bool[3]) before=[1] after=[0] mode=constant value=2", "is not a value of bool"},
};

const op_impl op_impl_pad = {
    .infer = infer_pad, .ref = ref_pad, .grad = grad_pad, .element = element_pad, CASES(cases)};
