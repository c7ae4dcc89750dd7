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

#include <sinew/session.h>

typedef struct device device;
typedef struct device_plan device_plan;

/* Memory of a device that has its own: a mirror of bytes of the host. Belongs to no context; whoever uses it sees to it that
 * only one thread does at a time. */
typedef struct device_memory device_memory;

typedef struct device_options {
  int threads; /* 0: as many as are good; never negative */
  sn_precision precision;
  /* Devices with memory of their own: states come as mirrors, inputs are looked at only when they are fresh, and outputs stay
   * on the device until they are read. Otherwise every run copies from and to the host. */
  bool resident;
  bool spans; /* runs may be timed: room for the spans is taken at lowering */
} device_options;

/* One step as one thread ran it: for profiles and traces. */
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
  device_memory *const *mirrors; /* resident plans: in place of the states */
  const bool *
      fresh; /* resident plans: inputs that changed since the last good run of this plan; others are not read */
  bool prepare; /* run the prepare steps first, and derive anew what the device keeps */
  /* Between main and commit; an error keeps the states as they are and is what run returns. May be NULL. */
  sn_status (*before_commit)(void *user);
  void *user;
  const sn_progress *progress; /* polled between steps of main; may be NULL */
  /* At the latest when the run ends, good or not; see sn_session_options. NULL, or lowered without `spans`: not timed. */
  void (*span)(void *user, const device_span *span);
  void *span_user;
} device_run;

/* What became of a program. */
typedef struct device_counts {
  int launches, barriers; /* of one run, prepare aside */
  int pipelines;          /* kernels that differ */
  int64_t bytes;          /* of the device's memory, states aside */
} device_counts;

typedef struct device_mirrors {
  sn_status (*create)(const device *d, sn_ctx *ctx, size_t bytes, device_memory **out) SN_MUST_USE;
  void (*destroy)(device_memory *m);
  bool (*is_alive)(const device_memory *m); /* the device still holds it */
  /* All of it. */
  sn_status (*write)(device_memory *m, sn_ctx *ctx, const void *from) SN_MUST_USE;
  sn_status (*read)(device_memory *m, sn_ctx *ctx, void *to) SN_MUST_USE;
} device_mirrors;

struct device {
  const char *name, *description;
  /* What a look at the device itself tells, for people: which of its units were tested, and how that went. Opens it; the same text from
   * then on. NULL: nothing. */
  const char *(*note)(const device *d);
  /* What it asks of plans: plan_options.channels_last. NULL: 0. */
  int (*channels_last)(const device *d, sn_ctx *ctx, sn_precision precision);
  sn_status (*lower)(const device *d, sn_ctx *ctx, const program *p, const device_options *options,
                     device_plan **out) SN_MUST_USE;
  sn_status (*run)(device_plan *dp, const device_run *run) SN_MUST_USE;
  void (*destroy)(device_plan *dp);
  /* For tests: from now on what no step has made yet is filled with STALE_BYTE (base/stale.h) before each run: the arena, scratch,
   * outputs, and before `prepare` what that makes. */
  void (*poison)(device_plan *dp);
  int (*threads)(const device_plan *dp); /* that runs use; NULL: one */
  /* NULL: the program's own numbers stand. */
  void (*count)(const device_plan *dp, device_counts *out);
  /* Seconds that the calling thread has waited for the device in runs so far. NULL: it never does. */
  double (*waited)(void);
  /* What it can do a second, as a short measurement finds. NULL: not known. */
  sn_status (*measure)(const device *d, sn_ctx *ctx, sn_device_peaks *out) SN_MUST_USE;
  /* What the device itself derives from states that the program does not assign and keeps from run to run (packed
   * weights): whether from this state, so that a run after it has changed must have `prepare` set; and its memory. NULL:
   * nothing. */
  bool (*keeps)(const device_plan *dp, int state);
  int64_t (*kept_bytes)(const device_plan *dp);
  /* Memory of its own; all NULL where the device works in the host's. Mirrors outlive plans. What a mirror holds is lost with
   * the device: then reads fail, and so do runs with it. */
  const device_mirrors *mirrors;
  /* Resident plans: output `output` of the last good run, or, while before_commit is called, of the run under way. */
  sn_status (*read_output)(device_plan *dp, int output, void *to, size_t bytes) SN_MUST_USE;
};

/* Devices of this build on this machine: the CPU, then GPUs; NULL beyond the last. */
const device *device_at(int index);
/* By name; NULL when there is none. NULL or "auto": a GPU if there is a good one, else the CPU. */
const device *device_find(const char *name);

/* Why "auto" means the CPU. */
typedef struct device_choice {
  char why[300];     /* "" where it means a GPU */
  bool has_hardware; /* the machine seems to have a GPU, which could not be used */
} device_choice;
const device_choice *device_why_auto(void);

#endif
