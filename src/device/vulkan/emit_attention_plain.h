/* The ends of kernels with matrices (emit_attention_matrix.h): a block done again in plain f32, element by element, where something is
 * not finite; and results from shared memory to where they belong. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_ATTENTION_PLAIN_H
#define SINEW_DEVICE_VULKAN_EMIT_ATTENTION_PLAIN_H

#include "device/vulkan/emit_attention_matrix.h"

/* Of a row and a column of the grid: base and sum of its weights; what its sums are multiplied with. */
enum { PLAIN_FACTS = 3 };

typedef struct plain_block {
  val b, kv, part;
  val first, rows; /* of the list of queries; all of them */
  val low, high;   /* keys */
  int facts;       /* where facts begin: [columns of the grid][rows][PLAIN_FACTS] */
  val power;       /* variable: i32; sums in shared memory are 2^power too large */
} plain_block;

/* The workgroup's block of so many rows, but for `facts` and `power`; the kernel's grid. */
void plain_find(emitter *e, const forward *f, int rows, plain_block *b);
/* For workgroups without planes of their own: shared memory for one of `rows` by `columns`, scores of as many keys, and facts. */
crew plain_open(emitter *e, const attending *a, int rows, int columns, plain_block *b);
/* The block again, into the first plane of sums (from word 0 on) and its facts. All threads get here. */
void plain_forward(crew *c, const forward *f, plain_block *b, int width);
/* Results from the planes. */
void plain_put(crew *c, const forward *f, const plain_block *b, int width);

/* --- for both directions --- */
/* A shared f32. */
val plain_get(const crew *c, val at);
void plain_set(const crew *c, val at, val x);
/* Elements of rows by columns, shared out to the threads: a loop to be ended. */
typedef struct plain_elements {
  k_loop l;
  val row, column;
} plain_elements;
plain_elements plain_each(const crew *c, int rows, int columns);
/* Row · row of two operands: entry, head, number. */
val plain_dot(const crew *c, const strided *x, const strided *y, sn_dim width, const val at_x[3],
              const val at_y[3]);

#endif
