/* The table of drawn_ops.def. */
#ifndef SINEW_TESTS_SUPPORT_DRAWN_OPS_H
#define SINEW_TESTS_SUPPORT_DRAWN_OPS_H

#include "ops/table.h"
#include "support/drawn_exact.h"

struct drawn_graph;

typedef sn_value drawn_how(struct drawn_graph *d, int op);

typedef struct drawn_row {
  const char *takes;
  drawn_how *draw; /* its result 0, or SN_NONE */
  exact_kind exact;
} drawn_row;

/* NULL: the op has no row. */
const drawn_row *drawn_op_row(int op);

drawn_how draw_leaf, draw_unary, draw_barrier, draw_binary, draw_where, draw_reduction, draw_scan,
    draw_made, draw_triangle, draw_reshape, draw_transpose, draw_slice, draw_concat, draw_expand,
    draw_tile, draw_flip, draw_pad, draw_gather, draw_scatter, draw_one_hot, draw_update_slice,
    draw_slice_at, draw_upsample, draw_im2col, draw_matmul, draw_norm, draw_channel_norm,
    draw_cross_entropy, draw_loss, draw_attention, draw_rope, draw_conv, draw_pool, draw_sort,
    draw_sample, draw_random;

#endif
