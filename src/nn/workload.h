/* A reference workload is a row of data and a builder. The public half is <sinew/workload.h>; the rows stand
 * one a file, workload_<name>.c, and workload.c lists them. Only the public API is used. */
#ifndef SINEW_NN_WORKLOAD_H
#define SINEW_NN_WORKLOAD_H

#include "nn/model.h"

#include <sinew/workload.h>

typedef struct workload_input {
  const char *name;
  sn_dtype dtype;             /* f32 or i32 */
  sn_shape full, latency;     /* rank 0: that form has no such input */
  double (*value)(int64_t i); /* of element i, row-major; representable in dtype */
  bool latency_zeros;         /* the latency form has zeros instead */
} workload_input;

enum { WORKLOAD_MAX_INPUTS = 4 };

struct sn_workload {
  const char *name, *summary;
  workload_input inputs[WORKLOAD_MAX_INPUTS]; /* name NULL behind the last */
  const char *not_trained;                    /* a parameter; NULL: none */
  /* What the arena formula leaves open. */
  float scale;
  const char *transposed[8]; /* ends of names: filled as [in, out] */
  const char *unit_norms;    /* begin of names: vectors of ones (weight) and zeros (bias) */
  /* in: one value an input, SN_NONE where the form has none. */
  sn_status (*build)(sn_graph *g, const sn_value *in, sn_workload_values *out);
};

extern const sn_workload workload_smollm2, workload_smolvla, workload_unet, workload_resnet50,
    workload_whisper;

/* Fills one parameter. */
void workload_fill_arena(const sn_workload *w, const char *name, const sn_shape *shape, float *out);
void workload_fill_live(const char *name, const sn_shape *shape, float *out);

/* --- layers that several of them share; weights are named prefix + name --- */
/* Attention without mask of q [B, T, heads·size] on keys and values [B, S, kv_heads·size]; [B, T, …]. */
sn_value workload_attend(const nn_build *b, sn_value q, sn_value k, sn_value v);
/* Mean of squares of all elements. */
sn_value workload_mean_square(sn_graph *g, sn_value x);
/* A square kernel in two dimensions, without bias, padded by kernel / 2. */
sn_value workload_conv(const nn_build *b, sn_value x, const char *prefix, const char *name,
                       int64_t channels, int64_t kernel, int64_t stride);

#endif
