/* What the files of attention's gradient by matrices share: a block in the making, and its plain ends. See
 * emit_attention_grad_matrix.c. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_ATTENTION_GRAD_MATRIX_H
#define SINEW_DEVICE_VULKAN_EMIT_ATTENTION_GRAD_MATRIX_H

#include "device/vulkan/emit_attention_grad.h"
#include "device/vulkan/emit_attention_matrix.h"

enum { GRAD_NOTES = 4, GRAD_FACTS = 4 /* of a query: lse, common, low, high */ };

typedef struct matrix_grad {
  crew c;
  const backward *g;
  bool keys; /* rows are keys, columns are queries; otherwise the other way round */
  grad_cut cut;
  int64_t bytes[2];           /* of scratch, where it is cut */
  val b, kv, part, first;     /* first: row */
  val rows, columns;          /* of the lists */
  val from, to;               /* columns that the workgroup passes over */
  grad_query q, simple;       /* of the thread's row, where rows are queries; see simple_query */
  crew_tile own[2], other[2]; /* q and d_out, or k and v */
  crew_rows_of rows_of[2];
  crew_sums sums[2];     /* dq; or dk and dv */
  val power[2], lost[2]; /* variables, i32: of the row's weights; what sums have to fall by */
  int facts, powers; /* where facts of columns begin, and powers: [2][columns of the grid][rows] */
} matrix_grad;

/* --- emit_attention_grad_weights.c --- */
/* Where scores are simple: lse as what is subtracted from a power of two, inf where nothing is seen; common times the scale. */
grad_query grad_simple_query(matrix_grad *w, grad_query q);
/* What is known of the queries of a tile of columns, to shared memory. */
void grad_put_facts(matrix_grad *w, val first);
/* p and ds * slope of the thread's pairs, from the products in both areas. */
void grad_find_weights(matrix_grad *w, val first, val p[][2], val dx[][2]);

/* --- emit_attention_grad_plain.c --- */
/* Result `which` of the block again, into the first plane of sums (from word 0 on), in plain f32. All threads get here. */
void plain_grad(matrix_grad *w, int which);
/* A result from the planes. */
void plain_grad_put(matrix_grad *w, int which, const strided *to, int64_t byte);

#endif
