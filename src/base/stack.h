/* Work that recurses deeply, on any stack. The compiler walks graphs by recursion within bounds of its own, which take more
 * than the stack of a small thread; callers of the library need not know. */
#ifndef SINEW_BASE_STACK_H
#define SINEW_BASE_STACK_H

#include "base/base.h"

/* What deep work may use, and what everything else may: the latter is what a caller's thread needs (docs/c-api.md). */
enum { STACK_DEEP = 4 << 20, STACK_CALLER = 128 << 10 };

typedef sn_status (*stack_work)(void *user);
/* work(user): here where there is room for STACK_DEEP, else on a thread with that much, which this one waits for. */
sn_status stack_run_deep(sn_ctx *ctx, stack_work work, void *user) SN_MUST_USE;

#endif
