/* What the passes over a finished list of steps (order, in_place, place, barriers) look at: which values each step touches, and
 * which values share one block of memory. */
#ifndef SINEW_PLAN_TOUCHES_H
#define SINEW_PLAN_TOUCHES_H

#include "plan/program.h"

enum {
  TOUCH_READ = 1,
  TOUCH_WRITE = 2,
  TOUCH_AFTER = 4, /* only waits for it: its memory is not looked at */
};

/* Each value once a step. */
typedef struct touch {
  uint32_t value;
  unsigned how;
} touch;

/* Those of step s are list[start[s]] … list[start[s + 1] - 1], in the order of the code. */
typedef struct touches {
  int *start;
  touch *list;
} touches;

/* Both in `memory`. SN_ERR_INTERNAL when a step names a value that there is not, or in_place_of goes in circles. */
sn_status touches_find(const program *p, arena *memory, touches *out) SN_MUST_USE;
/* By value: the one at the end of its chain of in_place_of, whose memory it has; itself when it is in place of none. */
sn_status touches_roots(const program *p, arena *memory, uint32_t **out_roots) SN_MUST_USE;

/* Whether a value has an offset. */
static inline bool value_is_placed(const program_value *v) {
  return v->home == HOME_ARENA || v->home == HOME_PREPARED;
}

#endif
