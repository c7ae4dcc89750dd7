/* The order in which a GPU gets the launches of a program (src/device/vulkan/phases.c), without a GPU. */
#ifndef SINEW_TESTS_SUPPORT_LAUNCH_ORDER_H
#define SINEW_TESTS_SUPPORT_LAUNCH_ORDER_H

#include "device/vulkan/emit.h"

enum { ORDER_SECTIONS = 3 };

typedef struct ordered_launch {
  int step;
  const launch *of;
  bool begins; /* a phase: what was launched before must be done */
  int64_t scratch_at;
} ordered_launch;

typedef struct launch_order {
  int n[ORDER_SECTIONS]; /* of prepare, main, commit */
  ordered_launch *at[ORDER_SECTIONS];
  int64_t scratch_bytes;
} launch_order;

/* Of the launches that steps of a program became; in `memory`. */
sn_status launch_order_find(arena *memory, const program *p, const step_launches *made,
                            launch_order *out) SN_MUST_USE;

#endif
