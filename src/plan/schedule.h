/* Orders of one section of a program (prepare, main or commit): the steps, what must stand before what, and the blocks of
 * memory that they keep alive. Filled by order.c; schedule.c finds orders. Knows neither programs nor values.
 *
 * A block is alive from the first step that touches it to the last; from before the section, or to after it, where others
 * need it there. Everything that a step touches is alive while it runs. So time can run backwards: the same scheduler serves
 * both ways.
 */
#ifndef SINEW_PLAN_SCHEDULE_H
#define SINEW_PLAN_SCHEDULE_H

#include "base/arena.h"

/* Lists by row: those of row i are list[start[i]] … list[start[i + 1] - 1]. */
typedef struct rows {
  int *start, *list;
} rows;

typedef struct section {
  int n; /* steps, 0 … n-1, numbered in the order that was given, which is a valid one */
  /* Nodes: steps, then events. An event costs nothing and happens when all before it is done: it says that many stand before
   * many without an edge for each pair. */
  int n_nodes;
  rows after, before; /* edges, by node */
  int n_blocks;
  int64_t *weight;            /* bytes, by block; their sum does not overflow */
  bool *from_start, *to_end;  /* alive before the first step; after the last */
  rows blocks_of, touched_by; /* by step; by block */
} section;

/* Largest sum of blocks alive at once. */
int64_t schedule_peak(const section *s, const int *order, arena *scratch, bool *out_ok);

/* Makes `order` (a valid one) one with a small peak, never above the peak it had, with steps that do not depend on each
 * other side by side. */
sn_status schedule_improve(const section *s, int *order, arena *scratch) SN_MUST_USE;

#endif
