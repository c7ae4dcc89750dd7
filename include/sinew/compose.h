/* Short forms that are made of several ops. */
#ifndef SINEW_COMPOSE_H
#define SINEW_COMPOSE_H

#include <sinew/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* n equal parts along an axis, whose size must be a number that n divides. */
SN_API void sn_split(sn_graph *graph, sn_value x, int64_t axis, int n, sn_value *out_parts);
/* Indices that sort x along an axis, i32. */
SN_API sn_value sn_argsort(sn_graph *graph, sn_value x, int64_t axis, bool descending);
/* Mean over the spatial axes of [N, C, spatial…]; the axes stay with size 1. */
SN_API sn_value sn_global_avg_pool(sn_graph *graph, sn_value x);
/* Attention of packed qkv [B, S, (Hq + 2·Hk)·D]: q heads, then k heads, then v heads; [B, S, Hq·D]. */
SN_API sn_value sn_attention_packed(sn_graph *graph, sn_value qkv, int64_t heads, int64_t kv_heads,
                                    double scale, sn_causal causal, int64_t window);
/* A random key: state `name`, i32 [3] (seed low, seed high, counter), which every run counts up by one, so
 * that each run draws anew. Write the seed into the store before the first run; zeros otherwise. */
SN_API sn_value sn_random_key(sn_graph *graph, const char *name);

#ifdef __cplusplus
}
#endif

#endif
