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

void ref_fold(ref_ctx *c, const sn_ints *axes, double start, double (*f)(double, double)) {
  ref_tensor *y = &c->out[0];
  reduce_walk w;
  reduce_walk_start(&w, &c->in[0], axes);
  for (int64_t i = 0; i < y->count; i++)
    y->data[i] = start;
  for (int64_t i = 0; i < c->in[0].count; i++) {
    int64_t at = reduce_walk_next(&w);
    y->data[at] = f(y->data[at], c->in[0].data[i]);
  }
}
