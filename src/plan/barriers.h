/* Which steps could run side by side, for passes that want to leave it so. */
#ifndef SINEW_PLAN_BARRIERS_H
#define SINEW_PLAN_BARRIERS_H

#include "plan/program.h"

/* Numbers, from 0 on, the groups of steps that need no barrier between them if no block of memory is ever used for another
 * (roots: touches_roots). `group` has room for one number a step. */
sn_status barriers_groups(const program *p, const uint32_t *roots, arena *scratch,
                          int *group) SN_MUST_USE;

#endif
