/* A product whose result is nothing but the first operand of the next one, in one launch with that.
 *
 * A workgroup makes 32 rows of the first result, all columns of them, by slices of k. They go through the first epilogue into shared memory, as pairs
 * of halves (emit_pairs.h), and the same subgroups make the 32 rows of the second result from them, a band of columns after the other. Both are
 * direct kernels otherwise (emit_matmul_direct.h). The first result is stored nowhere, and between the two nobody waits for more than the own
 * workgroup.
 *
 * Which steps: emit_absorb.c. The first result has few columns, the second has more, so none is first and second. Of rows there are so many
 * that all units have several workgroups, but not so many that larger tiles would be faster. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_RELAY_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_RELAY_H

#include "device/vulkan/emit_matmul.h"

enum { RELAY_ROWS = 32 };

/* What is handed on: fours of columns as pairs, [row][column / 4]. Every other four rows have the fours of neighbouring places exchanged, so that
 * threads which read at the same time read other banks. */
typedef struct handed {
  uint32_t value;
  int columns; /* 64 or 128 */
  val array;
} handed;

/* The words (vector) of a four of columns of a row; indices. */
val handed_four(kernel *k, const handed *h, val row, val four);
/* The number at a row and a column. */
val handed_number(kernel *k, const handed *h, val row, val column);
/* Words of the four that begins with this element of the value. */
void handed_store(kernel *k, const handed *h, val element, const val words[4]);

/* Whether the step's only part takes the result of `first` so; *out_value: that. */
bool relay_fits(const emitter *e, const matmul_part *first, const step *s, uint32_t *out_value);
/* All launches of both parts. */
sn_status emit_relay(emitter *e, const matmul_part *first, const matmul_part *second) SN_MUST_USE;

#endif
