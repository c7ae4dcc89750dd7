/* A team of threads that run one function together, and meet at barriers in it.
 *
 *   team *t;  team_get(ctx, 4, &t);          // of the context: made when first asked for, grown when more are
 *   team_run(t, 4, work, &job);              // work(&job, 0) here, work(&job, 1 … 3) on the others; back when all are done
 *   … in work: team_barrier(t);              // all of them, or none
 *
 * Threads that wait spin for a while, then sleep; between runs they sleep. A team belongs to the thread of its context.
 * Nothing is allocated by a run. What a run computes must not depend on how many threads take part.
 */
#ifndef SINEW_BASE_TEAM_H
#define SINEW_BASE_TEAM_H

#include "base/base.h"

enum { TEAM_MOST = 255 };

typedef struct team team;

/* The context's team with at least `threads` members (the caller is one), or as many as the system gives; it lives as long
 * as the context. threads is 1 … TEAM_MOST. */
sn_status team_get(sn_ctx *ctx, int threads, team **out) SN_MUST_USE;
int team_size(const team *t);
/* For sn_ctx_destroy. NULL is fine. */
void team_destroy(team *t);

typedef void (*team_work)(void *user, int thread);
/* threads is at most team_size. Not from within a run of the same team: see team_is_busy. */
void team_run(team *t, int threads, team_work work, void *user);
/* A run is under way: this call comes from within it. */
bool team_is_busy(const team *t);
void team_barrier(team *t);
/* A barrier that tells every thread whether any of them came with yes. */
bool team_vote(team *t, bool yes);

/* Threads that this process can run at once at full speed: cores (not their hardware threads) that it may use, within
 * the limits of its control group. At least 1. */
int team_cores(void);

#endif
