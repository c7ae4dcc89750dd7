/* What reductions over axes share. */
#ifndef SINEW_OPS_REDUCE_H
#define SINEW_OPS_REDUCE_H

#include "ops/common.h"

/* out[0]: input 0 without the chosen axes (size 1 with keepdims), of the dtype. */
sn_status infer_reduced(infer_ctx *c, const sn_ints *axes, bool keepdims,
                        sn_dtype dtype) SN_MUST_USE;
/* For each result element, folds f over its elements in row-major order, starting from `start`. */
void ref_fold(ref_ctx *c, const sn_ints *axes, double start, double (*f)(double acc, double x));
/* Visits every input element with the index of the result element that it belongs to. */
typedef struct reduce_walk {
  const ref_tensor *x;
  int64_t stride[SN_MAX_RANK]; /* of the result along each input axis; 0 along reduced ones */
  int64_t index[SN_MAX_RANK];
  int64_t count; /* elements a result element has */
} reduce_walk;
void reduce_walk_start(reduce_walk *w, const ref_tensor *x, const sn_ints *axes);
/* The result element of the current input element; then steps on. */
int64_t reduce_walk_next(reduce_walk *w);

#endif
