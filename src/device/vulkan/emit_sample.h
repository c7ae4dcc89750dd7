/* What the files of SAMPLE share. The op's stages and their order: src/ops/choose/sample.c.
 *
 * Weights are summed as integers, in units of 2^-40 of the largest, so every order gives the same sum, and a draw never falls behind
 * the last id. Rows are cut into tiles: what each comes to, then the tile in which the running sum passes a limit, then
 * the place in it. That finds where top-p ends (in the order of logits) and what the draw falls on (in the order of
 * ids). */
#ifndef SINEW_DEVICE_VULKAN_EMIT_SAMPLE_H
#define SINEW_DEVICE_VULKAN_EMIT_SAMPLE_H

#include "device/vulkan/emit_order.h"

typedef struct sampling {
  const strided *logits, *key, *history, *out;
  sn_dim rows, n;
  int64_t top_k;
  uint32_t stream;
  float temperature, min_p, penalty;
  double top_p;
  int tile;         /* ids */
  sn_dim tiles;     /* of the longest row */
  int64_t changed;  /* byte of scratch: logits behind the penalty, [rows][longest]; -1: none */
  int64_t best;     /* the first item in order of each tile, u64 [rows][tiles] */
  int64_t sums;     /* of the weights of each tile, u64 [rows][tiles] */
  bool ordered;     /* top-k or top-p */
  order_list order; /* of its first ids */
  int64_t cutoff;   /* the last item that top-p keeps, u64 [rows]; -1: top-k's */
} sampling;

/* The logit of an id, behind the penalty. */
val sample_logit(emitter *e, const sampling *s, val row, val i);
/* The first item in order of the row: a NaN, or the largest logit. All threads; array: u64 [2 * threads]. */
val sample_best(emitter *e, const sampling *s, val row, val array);

/* In which order weights are summed. */
typedef enum sample_by { SAMPLE_BY_LOGIT, SAMPLE_BY_ID } sample_by;
sn_status sample_add_tiles(emitter *e, const sampling *s, sample_by by) SN_MUST_USE;
/* Finds the place: the cutoff of top-p, or the result. */
sn_status sample_find(emitter *e, const sampling *s, sample_by by) SN_MUST_USE;

#endif
