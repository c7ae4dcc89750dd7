/* The device interface: what runs programs. A device is a table of functions; the registry lists those of this build.
 *
 *   device_plan *dp;  d->lower(d, ctx, program, &options, &dp);       // once
 *   d->run(dp, &run);                                                // many times
 *   d->destroy(dp);
 *
 * A device may know steps and programs, nothing of graphs.
 *
 * The contract (docs/add-a-device.md has it at length):
 *   - The program was proved and outlives the plan; neither changes it. `lower` takes all memory, a run allocates none.
 *   - A plan belongs to one thread at a time: lower, run and destroy are called on the thread of ctx's owner, and the
 *     callbacks of a run are called on it too, whatever threads the device has of its own.
 *   - A run that fails changes no state. Only commit writes states, and nothing may fail once before_commit has returned:
 *     all that can go wrong is known, and main is done, before it is called.
 *   - The same program, inputs and options give the same bits, whatever the number of threads.
 */
#ifndef SINEW_DEVICE_DEVICE_H
#define SINEW_DEVICE_DEVICE_H

#include "plan/program.h"

typedef struct device device;
typedef struct device_plan device_plan;

typedef struct device_options {
  int threads; /* 0: as many as are good; never negative */
} device_options;

/* One step as it ran: for profiles and traces. */
typedef struct device_span {
  int step;
  int thread;
  double begin_s, end_s;
} device_span;

/* One run. Pointers are by index of the program's leaves; memory of the host. */
typedef struct device_run {
  const int64_t *sizes;
  const void *const *inputs;
  void *const *outputs;
  void *const *states;
  bool prepare; /* run the prepare steps first, and derive anew what the device keeps */
  /* Between main and commit; an error keeps the states as they are and is what run returns. May be NULL. */
  sn_status (*before_commit)(void *user);
  void *user;
  const sn_progress *progress;                       /* polled between steps of main; may be NULL */
  void (*span)(void *user, const device_span *span); /* NULL: not timed */
  void *span_user;
} device_run;

struct device {
  const char *name, *description;
  sn_status (*lower)(const device *d, sn_ctx *ctx, const program *p, const device_options *options,
                     device_plan **out) SN_MUST_USE;
  sn_status (*run)(device_plan *dp, const device_run *run) SN_MUST_USE;
  void (*destroy)(device_plan *dp);
  int (*threads)(const device_plan *dp); /* that runs use; NULL: one */
  /* What the device itself derives from states that the program does not assign and keeps from run to run (packed
   * weights): whether from this state, so that a run after it has changed must have `prepare` set; and its memory. NULL:
   * nothing. */
  bool (*keeps)(const device_plan *dp, int state);
  int64_t (*kept_bytes)(const device_plan *dp);
};

/* Devices of this build on this machine, the one that "auto" means first; NULL beyond the last. */
const device *device_at(int index);
/* By name; NULL or "auto": the first. NULL when there is none. */
const device *device_find(const char *name);

#endif
