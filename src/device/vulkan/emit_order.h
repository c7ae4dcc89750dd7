/* Putting rows of items in order, for sort, top-k, permutation, sample and scatter. An item is a u64: its key in the upper half,
 * where it stood in the lower, so no two of a row are equal and every way of sorting is a stable one.
 *
 * Blocks are sorted in shared memory, by a bitonic network. The whole of a longer row is merged from its blocks, four at a time: an
 * item's new place is its place in its own run and the number of lesser items in the other three, which halving finds. The
 * first few of a long row are the first few of the first few of its blocks. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_ORDER_H
#define SINEW_DEVICE_VULKAN_EMIT_ORDER_H

#include "device/vulkan/emit_borders.h"
#include "device/vulkan/emit_core.h"

/* Rows to put in order; smallest first. */
typedef struct order_job {
  int n_rows;
  sn_dim rows[2]; /* so many rows: their product */
  sn_dim n;       /* items of a row */
  int64_t first;  /* how many are wanted; 0: all. emit_order_sort: at most ORDER_FEW otherwise */
  /* Item i of a row. */
  val (*item)(emitter *e, void *user, val row, val i);
  void *user;
  bool after;  /* items need what launches before have made */
  amount when; /* as in launch_part; n 0: always */
  int64_t least, most;
} order_job;

/* Items in order in scratch memory: [rows][pitch]. */
typedef struct order_list {
  int64_t byte;
  sn_dim pitch;
} order_list;

/* Adds launches. Behind them the list holds the rows in order; of `first` items, where there are fewer, the last are
 * ORDER_NONE. */
#define ORDER_NONE UINT64_MAX
sn_status emit_order_sort(emitter *e, const order_job *j, order_list *out) SN_MUST_USE;
/* Item i of a row of a list (u64). */
val emit_order_item(emitter *e, const order_list *l, val row, val i);
/* Where a row is one block: one launch, which hands the items to `put` instead, in order: those with i < n, or < first. */
bool emit_order_is_short(const emitter *e, sn_dim n);
sn_status emit_order_short(emitter *e, const order_job *j,
                           void (*put)(emitter *e, void *user, val row, val i,
                                       val item)) SN_MUST_USE;

/* Adds e->k as a launch under the job's condition. */
sn_status emit_order_add(emitter *e, const order_job *j, bool after) SN_MUST_USE;
/* A key (u32) whose order as an unsigned number is that of a lane of the dtype: NaN is the largest, zeros are equal. */
val emit_order_key(emitter *e, sn_dtype dtype, val lane);

#endif
