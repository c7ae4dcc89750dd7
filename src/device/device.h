/* The device interface: what runs programs. A device is a table of functions; the registry lists those of this build.
 *
 *   device_plan *dp;  d->lower(d, ctx, program, &options, &dp);       // once
 *   d->run(dp, &run);                                                // many times
 *   d->destroy(dp);
 *
 * A device may know steps and programs, nothing of graphs.
 */
#ifndef SINEW_DEVICE_DEVICE_H
#define SINEW_DEVICE_DEVICE_H

#include "plan/program.h"

typedef struct device device;
typedef struct device_plan device_plan;

typedef struct device_options {
  int threads; /* 0: as many as there are cores */
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
  bool prepare; /* run the prepare steps first */
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
};

/* Devices of this build on this machine, the one that "auto" means first; NULL beyond the last. */
const device *device_at(int index);
/* By name; NULL or "auto": the first. NULL with a message in ctx when there is none. */
const device *device_find(sn_ctx *ctx, const char *name);

#endif
