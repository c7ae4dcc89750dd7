/* Matmuls of few rows in the making, for emit_matmul_few.c (operands and products) and emit_matmul_few_sums.c (what the lanes have
 * of the sums, put together). */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_FEW_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_FEW_H

#include "device/vulkan/emit_matmul.h"

enum { MOST_SHUFFLED = 16 /* sums of a thread that are added by shuffles */ };

typedef struct few {
  matmul m;
  const few_shape *shape;
  int groups;                         /* of `lanes` threads each */
  val lane, group;                    /* this thread */
  val sum[EMIT_ACCS][MATMUL_FEW * 4]; /* variables, [few][many] */
  val rows;                           /* shared: rows that are computed here; 0: not yet, or none */
  int64_t points;                     /* of such a row */
} few;

/* Adds the lanes' sums and makes results of them. */
void few_results(few *f);

#endif
