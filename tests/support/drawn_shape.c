/* How drawn graphs make ops that move elements: see drawn_graph.h. */
#include "support/drawn_graph.h"

#include "ir/dim.h"
#include "ir/dtype.h"

sn_value draw_triangle(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'a', 2, 4);
  return drawn_add(d, op, &x, 1, &(attrs_tril){.diagonal = (int64_t)drawn(d, 5) - 2});
}

sn_value draw_reshape(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'a', 0, 5);
  sn_shape s = drawn_shape_of(d, x), to = {0};
  switch (drawn(d, 4)) {
  case 0: to = SN_SHAPE(-1); break;
  case 1: /* two axes become one, or a 1 comes before all */
    if (s.rank > 1) {
      to = s;
      to.dim[1] = sn_dim_mul(d->g, s.dim[0], s.dim[1]);
      for (int k = 1; k < s.rank; k++)
        to.dim[k - 1] = to.dim[k];
      to.rank--;
      break;
    } /* fall through */
  case 2:
    to.rank = s.rank + 1;
    to.dim[0] = 1;
    for (int k = 0; k < s.rank; k++)
      to.dim[k + 1] = s.dim[k];
    break;
  default: /* the axes turned round: other rows */
    to.rank = s.rank;
    for (int k = 0; k < s.rank; k++)
      to.dim[k] = s.dim[s.rank - 1 - k];
  }
  return drawn_add(d, op, &x, 1, &(attrs_reshape){.shape = to});
}

sn_value draw_transpose(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'a', 1, 5);
  int n = drawn_shape_of(d, x).rank;
  sn_ints perm = {.n = n};
  for (int k = 0; k < n; k++)
    perm.v[k] = k;
  for (int k = n - 1; k > 0; k--) {
    int with = (int)drawn(d, (uint32_t)k + 1);
    int64_t was = perm.v[k];
    perm.v[k] = perm.v[with];
    perm.v[with] = was;
  }
  return drawn_add(d, op, &x, 1, &(attrs_transpose){.perm = perm});
}

sn_value draw_slice(drawn_graph *d, int op) {
  static const int64_t steps[] = {1, 1, 2, -1, 3, -2};
  sn_value x = drawn_any(d, 'a', 1, 5);
  sn_shape s = drawn_shape_of(d, x);
  attrs_slice a = {.axis = drawn_axis(d, s), .step = DRAWN_OF(d, steps)};
  sn_dim size = s.rank ? s.dim[a.axis < 0 ? a.axis + s.rank : a.axis] : 1;
  int64_t n = drawn_at(d, size), one = (int64_t)drawn(d, (uint32_t)n + 1),
          other = (int64_t)drawn(d, (uint32_t)n + 1);
  a.start = one < other ? one : other;
  a.stop = drawn(d, 3) ? (one < other ? other : one) : SN_END;
  if (!dim_is_number(size)) { /* clamping would hide what a run finds */
    a.start = 0;
    a.stop = drawn(d, 2) ? SN_END : sn_dim_div(d->g, size, 2);
    a.step = a.step < 0 ? -a.step : a.step;
  } else if (a.step < 0) {
    int64_t start = a.stop == SN_END ? n - 1 : a.stop - 1;
    a.stop = drawn(d, 2) ? SN_END : a.start;
    a.start = start;
  }
  return drawn_add(d, op, &x, 1, &a);
}

sn_value draw_concat(drawn_graph *d, int op) {
  sn_value in[4] = {drawn_any(d, 'a', op == OP_stack ? 0 : 1, 4)};
  sn_type t = drawn_type(d, in[0]);
  int n = 1 + (int)drawn(d, 4);
  sn_shape one_more = t.shape;
  one_more.rank++;
  int64_t axis = drawn_axis(d, op == OP_stack ? one_more : t.shape);
  int at = (int)(axis < 0 ? axis + t.shape.rank : axis);
  for (int i = 1; i < n; i++) {
    sn_shape s = t.shape;
    if (op == OP_concat && drawn(d, 2))
      s.dim[at] = drawn_dim(d);
    in[i] = drawn_one_in(d, 4) ? in[0] : drawn_like(d, t.dtype, s);
  }
  return drawn_add(d, op, in, n, &(attrs_concat){.axis = axis});
}

sn_value draw_expand(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'a', 0, 4);
  sn_shape s = drawn_shape_of(d, x), to = s;
  bool more = drawn(d, 2) || s.rank == 0;
  to.rank = s.rank + more;
  for (int k = 0; k < s.rank; k++)
    to.dim[k + more] = s.dim[k] == 1 ? drawn_dim(d) : drawn(d, 3) ? s.dim[k] : -1;
  if (more)
    to.dim[0] = drawn_dim(d);
  return drawn_add(d, op, &x, 1, &(attrs_expand){.shape = to});
}

sn_value draw_tile(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'a', 1, 4);
  sn_ints repeats = {.n = drawn_shape_of(d, x).rank};
  for (int k = 0; k < repeats.n; k++)
    repeats.v[k] = drawn(d, 2) ? 1 : (int64_t)drawn(d, 4);
  return drawn_add(d, op, &x, 1, &(attrs_tile){.repeats = repeats});
}

sn_value draw_flip(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'a', 0, 4);
  sn_shape s = drawn_shape_of(d, x);
  sn_ints axes = {0};
  if (s.rank && drawn(d, 3)) {
    axes.n = 1;
    axes.v[0] = drawn_axis(d, s);
  }
  return drawn_add(d, op, &x, 1, &(attrs_flip){.axes = axes});
}

sn_value draw_pad(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'a', 1, 4);
  sn_type t = drawn_type(d, x);
  attrs_pad a = {.mode = (sn_pad_mode)drawn(d, 3)};
  a.before.n = a.after.n = t.shape.rank;
  for (int k = 0; k < t.shape.rank; k++) {
    uint32_t most = a.mode == SN_PAD_REFLECT ? (uint32_t)drawn_at(d, t.shape.dim[k]) : 4;
    a.before.v[k] = drawn(d, 2) ? 0 : (int64_t)drawn(d, most);
    a.after.v[k] = drawn(d, 2) ? 0 : (int64_t)drawn(d, most);
  }
  if (a.mode == SN_PAD_CONSTANT)
    a.value = t.dtype == SN_BOOL ? drawn(d, 2) : (double)drawn(d, 3);
  return drawn_add(d, op, &x, 1, &a);
}

/* --- by index --- */

/* The shape of an index along an axis of a table: as the table's with another size there. */
static sn_shape along(drawn_graph *d, sn_shape table, int axis) {
  table.dim[axis] = drawn_dim(d);
  return table;
}

static sn_shape rows_of(sn_shape table, sn_shape index) {
  sn_shape s = index;
  for (int k = 1; k < table.rank; k++)
    s.dim[s.rank++] = table.dim[k];
  return s;
}

sn_value draw_gather(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'a', 1, 4);
  sn_shape s = drawn_shape_of(d, x);
  if (s.rank == 0)
    return SN_NONE;
  int64_t axis = op == OP_gather ? 0 : drawn_axis(d, s);
  int at = (int)(axis < 0 ? axis + s.rank : axis);
  sn_shape index = op == OP_gather_along   ? along(d, s, at)
                   : op == OP_index_select ? drawn_shape(d, 1, 1)
                                           : drawn_shape(d, 0, 2);
  sn_value in[2] = {x, drawn_index(d, index, drawn_at(d, s.dim[at]))};
  return drawn_add(d, op, in, 2, &(attrs_gather_along){.axis = axis});
}

sn_value draw_scatter(drawn_graph *d, int op) {
  bool by_axis = op == OP_scatter_along_set || op == OP_scatter_along_add;
  sn_value base = drawn_any(d, drawn_op_row(op)->takes[0], 1, 4);
  sn_type t = drawn_type(d, base);
  if (t.shape.rank == 0)
    return SN_NONE;
  int64_t axis = by_axis ? drawn_axis(d, t.shape) : 0;
  int at = (int)(axis < 0 ? axis + t.shape.rank : axis);
  sn_shape index = by_axis ? along(d, t.shape, at) : drawn_shape(d, 0, 2);
  sn_shape value = by_axis ? index : rows_of(t.shape, index);
  sn_value in[3] = {base, drawn_index(d, index, drawn_at(d, t.shape.dim[at])),
                    drawn_like(d, t.dtype, value)};
  return drawn_add(d, op, in, 3, &(attrs_scatter_along_set){.axis = axis});
}

sn_value draw_one_hot(drawn_graph *d, int op) {
  sn_dim n = drawn_dim(d);
  sn_value index = drawn_index(d, drawn_shape(d, 0, 3), drawn_at(d, n));
  return drawn_add(d, op, &index, 1, &(attrs_one_hot){.n = n, .dtype = drawn_dtype(d, 'a')});
}

/* A part of an axis: its size, with a start that leaves room. */
static sn_value start_for(drawn_graph *d, sn_dim axis, sn_dim size) {
  return drawn_index(d, SN_SCALAR, drawn_at(d, axis) - drawn_at(d, size) + 1);
}

static sn_dim part_of(drawn_graph *d, sn_dim axis) {
  int64_t most = dim_is_number(axis) ? axis : 0;
  return most > 0 && drawn(d, 4) ? (int64_t)drawn(d, (uint32_t)most) + 1 : axis;
}

sn_value draw_update_slice(drawn_graph *d, int op) {
  sn_value base = drawn_any(d, 'a', 1, 4);
  sn_type t = drawn_type(d, base);
  if (t.shape.rank == 0)
    return SN_NONE;
  int64_t axis = drawn_axis(d, t.shape);
  int at = (int)(axis < 0 ? axis + t.shape.rank : axis);
  sn_dim whole = t.shape.dim[at];
  t.shape.dim[at] = part_of(d, whole);
  sn_value in[3] = {base, drawn_like(d, t.dtype, t.shape), start_for(d, whole, t.shape.dim[at])};
  return drawn_add(d, op, in, 3, &(attrs_update_slice){.axis = axis});
}

sn_value draw_slice_at(drawn_graph *d, int op) {
  sn_value x = drawn_any(d, 'a', 1, 4);
  sn_shape s = drawn_shape_of(d, x);
  if (s.rank == 0)
    return SN_NONE;
  int64_t axis = drawn_axis(d, s);
  sn_dim whole = s.dim[axis < 0 ? axis + s.rank : axis], size = part_of(d, whole);
  sn_value in[2] = {x, start_for(d, whole, size)};
  return drawn_add(d, op, in, 2, &(attrs_slice_at){.axis = axis, .size = size});
}

/* --- images --- */

static sn_shape image(drawn_graph *d, int spatial) {
  sn_shape s = {.rank = 2 + spatial, .dim = {drawn(d, 4) ? 1 + drawn(d, 2) : d->symbols[0]}};
  s.dim[1] = 1 + drawn(d, 3);
  for (int k = 0; k < spatial; k++)
    s.dim[2 + k] = 1 + drawn(d, 6);
  return s;
}

sn_value draw_upsample(drawn_graph *d, int op) {
  static const double scales[] = {0, 0, 2, 1.5, 0.5};
  int spatial = 1 + (int)drawn(d, 2);
  sn_dtype dtype = drawn_dtype(d, drawn_op_row(op)->takes[0]);
  sn_value x = drawn_like(d, dtype, image(d, spatial));
  sn_shape size = {.rank = spatial};
  for (int k = 0; k < spatial; k++)
    size.dim[k] = 1 + drawn(d, 9);
  double h = spatial == 2 ? DRAWN_OF(d, scales) : 0, w = DRAWN_OF(d, scales);
  if (op == OP_upsample_nearest)
    return drawn_add(d, op, &x, 1,
                     &(attrs_upsample_nearest){.size = size, .scale_h = h, .scale_w = w});
  return drawn_add(d, op, &x, 1,
                   &(attrs_upsample_linear){
                       .size = size, .align_corners = drawn(d, 2), .scale_h = h, .scale_w = w});
}

sn_value draw_im2col(drawn_graph *d, int op) {
  int spatial = 1 + (int)drawn(d, 3);
  sn_value x = drawn_like(d, drawn_dtype(d, 'a'), image(d, spatial));
  attrs_im2col a = {0};
  a.kernel.n = a.stride.n = a.pad_before.n = a.pad_after.n = a.dilation.n = spatial;
  for (int k = 0; k < spatial; k++) {
    a.kernel.v[k] = 1 + drawn(d, 3);
    a.stride.v[k] = 1 + drawn(d, 2);
    a.pad_before.v[k] = drawn(d, 3);
    a.pad_after.v[k] = drawn(d, 3);
    a.dilation.v[k] = 1 + drawn(d, 2);
  }
  return drawn_add(d, op, &x, 1, &a);
}
