/* The CPU device: lowers a program to memory and runs its steps on a team of threads.
 *
 * All memory of a plan (arena, what is prepared and kept, scratch, addresses) comes at lowering; a run allocates nothing. Each
 * thread has scratch as large as the neediest step says. Addresses of values that the host binds change from run to run,
 * the others never.
 *
 * All threads walk the steps side by side (cpu.h). They meet before a step that has a barrier or uses shared scratch, and there
 * agree on whether to go on; what only one may do (the host's callbacks, messages) thread 0 does between two meetings.
 *
 * A timed run is the same run: each thread notes when it began and ended its part of each step, and thread 0 hands that to the
 * host when all are done. */
#include "device/devices.h"

#include "base/memory.h"
#include "base/stale.h"
#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <time.h>

/* --- memory --- */
/* A block whose usable part starts at a multiple of PROGRAM_ALIGN. */
typedef struct block {
  void *raw;
  size_t size; /* of raw */
  char *data;
} block;

static sn_status block_create(sn_ctx *ctx, const char *what, size_t bytes, block *out) {
  size_t size;
  if (!size_add_fits(bytes, PROGRAM_ALIGN, &size))
    return diag_fail(ctx, SN_ERR_NO_MEMORY, "%s: its size does not fit in memory", what);
  void *raw = mem_resize(ctx, NULL, 0, size); /* not zeroed: all is written before it is read */
  if (!raw)
    return diag_within(ctx, SN_ERR_NO_MEMORY, "%s", what);
  uintptr_t address = (uintptr_t)raw;
  size_t skip = (PROGRAM_ALIGN - address % PROGRAM_ALIGN) % PROGRAM_ALIGN;
  *out = (block){raw, size, (char *)raw + skip};
  return SN_OK;
}

typedef struct wanted_block {
  const char *what;
  size_t bytes;
  block *to;
} wanted_block;

/* All of them, or an error before any when they need more than there is. */
static sn_status blocks_create(sn_ctx *ctx, const wanted_block *wanted, int n) {
  int64_t available = memory_available();
  size_t all = 0;
  for (int i = 0; i < n; i++) {
    SN_TRY(memory_check(ctx, wanted[i].what, wanted[i].bytes, available));
    all += wanted[i].bytes; /* both were below 2^63 */
    SN_TRY(memory_check(ctx, "the plan's memory", all, available));
  }
  for (int i = 0; i < n; i++)
    SN_TRY(block_create(ctx, wanted[i].what, wanted[i].bytes, wanted[i].to));
  return SN_OK;
}

static void block_destroy(sn_ctx *ctx, block *b) {
  if (b->raw)
    mem_free(ctx, b->raw, b->size);
}

/* What the device knows of a step beside the program. */
typedef struct lowered_step {
  bool meet;     /* a barrier, for whatever reason */
  size_t shared; /* bytes of shared scratch, at most */
  size_t kept;   /* bytes from kept_at on */
  size_t kept_at;
} lowered_step;

/* A step on one thread, in seconds of one clock. */
typedef struct step_time {
  double begin_s, end_s;
  bool ran, part; /* walked through; with a part in its work */
} step_time;

struct device_plan {
  sn_ctx *ctx;
  const program *program;
  const cpu_isa *isa;
  team *team;
  int threads;
  block arena, prepared, kept, shared, scratch;
  size_t scratch_each; /* of a thread */
  void **addresses;    /* by value id */
  lowered_step *steps;
  bool *keeps;      /* by state: kept memory is derived from it */
  step_time *times; /* by thread, by step; NULL: runs are not timed */
  bool poison;
  cpu_crew crew;
};

/* --- lowering --- */
static void most(size_t *so_far, size_t bytes) { *so_far = bytes > *so_far ? bytes : *so_far; }

/* What all steps need; shared and kept bytes in all. */
static void find_needs(device_plan *dp, size_t *shared, size_t *kept) {
  const program *p = dp->program;
  for (int i = 0; i < program_steps(p); i++) {
    const step *s = &p->steps[i];
    const cpu_archetype *a = &cpu_archetypes[s->kind];
    lowered_step *to = &dp->steps[i];
    to->shared = a->need_shared ? a->need_shared(p, s) : 0;
    most(&dp->scratch_each, cpu_take_bytes(a->need(p, s)));
    most(shared, to->shared);
    to->meet = s->barrier || to->shared > 0 || i == 0;
    to->kept_at = *kept;
    to->kept = a->kept ? cpu_take_bytes(a->kept(p, s, dp->keeps)) : 0;
    *kept += to->kept;
  }
}

/* Where values live that no run binds anew. */
static void bind_own(device_plan *dp) {
  const program *p = dp->program;
  for (uint32_t v = 1; v < p->n_values; v++) {
    const program_value *value = &p->values[v];
    if (value->home == HOME_ARENA)
      dp->addresses[v] = dp->arena.data + value->offset;
    else if (value->home == HOME_PREPARED)
      dp->addresses[v] = dp->prepared.data + value->offset;
    else if (value->home == HOME_CONSTANT) /* never written: a program stores to no constant */
      memcpy(&dp->addresses[v], &p->constants[value->index].data, sizeof(void *));
  }
}

static size_t times_bytes(const device_plan *dp) {
  return (size_t)dp->threads * (size_t)program_steps(dp->program) * sizeof(step_time);
}

static void destroy(device_plan *dp) {
  if (!dp)
    return;
  sn_ctx *ctx = dp->ctx;
  block_destroy(ctx, &dp->arena);
  block_destroy(ctx, &dp->prepared);
  block_destroy(ctx, &dp->kept);
  block_destroy(ctx, &dp->shared);
  block_destroy(ctx, &dp->scratch);
  const program *p = dp->program;
  if (dp->addresses)
    mem_free(ctx, dp->addresses, p->n_values * sizeof(void *));
  if (dp->steps)
    mem_free(ctx, dp->steps, (size_t)program_steps(p) * sizeof *dp->steps);
  if (dp->keeps)
    mem_free(ctx, dp->keeps, (size_t)p->n_states * sizeof *dp->keeps);
  if (dp->times)
    mem_free(ctx, dp->times, times_bytes(dp));
  mem_free(ctx, dp, sizeof *dp);
}

static sn_status allocate(device_plan *dp) {
  const program *p = dp->program;
  size_t shared = 0, kept = 0, all;
  dp->addresses = mem_array(dp->ctx, p->n_values, sizeof(void *));
  dp->steps = mem_array(dp->ctx, (size_t)program_steps(p), sizeof *dp->steps);
  dp->keeps = mem_array(dp->ctx, (size_t)p->n_states, sizeof *dp->keeps);
  if (!dp->addresses || !dp->steps || !dp->keeps)
    return SN_ERR_NO_MEMORY;
  find_needs(dp, &shared, &kept);
  if (!size_mul_fits(dp->scratch_each, (size_t)dp->threads, &all))
    return diag_fail(dp->ctx, SN_ERR_NO_MEMORY, "scratch memory: its size does not fit in memory");
  const wanted_block wanted[] = {{"the arena", (size_t)p->arena_bytes, &dp->arena},
                                 {"prepared values", (size_t)p->prepared_bytes, &dp->prepared},
                                 {"packed weights", kept, &dp->kept},
                                 {"shared scratch memory", shared, &dp->shared},
                                 {"scratch memory", all, &dp->scratch}};
  SN_TRY(blocks_create(dp->ctx, wanted, (int)COUNT_OF(wanted)));
  dp->crew.team = dp->team;
  dp->crew.shared = dp->shared.data;
  dp->crew.shared_bytes = shared;
  return SN_OK;
}

static sn_status choose_threads(device_plan *dp, int wanted) {
  dp->threads = wanted > 0 ? (int)min_i64(wanted, TEAM_MOST) : team_cores();
  SN_TRY(team_get(dp->ctx, dp->threads, &dp->team));
  return SN_OK;
}

static sn_status lower_into(device_plan *dp, const device_options *options) {
  SN_TRY(cpu_isa_find(dp->ctx, getenv("SINEW_CPU"), &dp->isa));
  SN_TRY(choose_threads(dp, options->threads));
  SN_TRY(allocate(dp));
  bind_own(dp);
  if (options->spans && !(dp->times = mem_alloc(dp->ctx, times_bytes(dp))))
    return SN_ERR_NO_MEMORY;
  return SN_OK;
}

static sn_status lower(const device *d, sn_ctx *ctx, const program *p,
                       const device_options *options, device_plan **out) {
  (void)d;
  *out = NULL;
  device_plan *dp = mem_alloc(ctx, sizeof *dp);
  if (!dp)
    return SN_ERR_NO_MEMORY;
  dp->ctx = ctx;
  dp->program = p;
  dp->poison = STALE_CHECKED;
  sn_status status = lower_into(dp, options);
  if (status != SN_OK) {
    destroy(dp);
    return status;
  }
  *out = dp;
  return SN_OK;
}

/* --- running --- */
static void bind_host(device_plan *dp, const device_run *run) {
  const program *p = dp->program;
  for (uint32_t v = 1; v < p->n_values; v++) {
    const program_value *value = &p->values[v];
    if (value->home == HOME_INPUT) /* only read */
      memcpy(&dp->addresses[v], &run->inputs[value->index], sizeof(void *));
    else if (value->home == HOME_OUTPUT)
      dp->addresses[v] = run->outputs[value->index];
    else if (value->home == HOME_STATE)
      dp->addresses[v] = run->states[value->index];
  }
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A run at work, as all threads see it. What is not atomic is written between two meetings, by thread 0. */
typedef struct plan_run {
  device_plan *dp;
  const device_run *run;
  int threads;
  step_time *times; /* NULL: not timed */
  sn_status status; /* SN_OK while it goes well */
  cpu_run *runs[TEAM_MOST];
} plan_run;

static sn_status fail_required(const cpu_run *r) {
  return diag_fail(r->ctx, r->program->sites[r->site].status, r->program->sites[r->site].format,
                   (int)r->shown);
}

static bool is_earlier(const cpu_run *a, const cpu_run *b) {
  return a->failed_step != b->failed_step ? a->failed_step < b->failed_step
                                          : a->failed_at < b->failed_at;
}

/* Thread 0, while all others wait: whether a requirement of the steps so far does not hold. Of several failures that of the
 * earliest step and iteration counts, whoever came upon it. */
static void find_failure(plan_run *x) {
  const cpu_run *first = NULL;
  for (int t = 0; t < x->threads; t++) {
    const cpu_run *r = x->runs[t];
    if (r->failed && (!first || is_earlier(r, first)))
      first = r;
  }
  if (first && x->status == SN_OK)
    x->status = fail_required(first);
}

/* All threads come here and all give the same answer: whether to go on. */
static bool meet(plan_run *x, cpu_run *r) {
  bool stop = r->stop || r->failed;
  if (r->threads > 1)
    stop = team_vote(r->crew->team, stop);
  if (stop && r->thread == 0)
    find_failure(x);
  if (stop)
    cpu_sync(r); /* it looks at the others' runs */
  return !stop;
}

static void note_status(plan_run *x, cpu_run *r, sn_status status) {
  if (status != SN_OK && r->thread == 0)
    x->status = status;
  r->stop = r->stop || status != SN_OK;
}

/* Thread 0: whether the host wants to go on, before step i of main. */
static void poll(plan_run *x, cpu_run *r, int i) {
  const sn_progress *progress = x->run->progress;
  int n = x->dp->program->n_main;
  if (r->stop || !progress || !progress->report || progress->report(progress->user, i, n, "steps"))
    return;
  note_status(
      x, r,
      diag_fail(r->ctx, SN_ERR_CANCELLED, "the run was cancelled before step %d of %d", i + 1, n));
}

static void run_archetype(plan_run *x, cpu_run *r, int index) {
  const step *s = &r->program->steps[index];
  const lowered_step *l = &x->dp->steps[index];
  const cpu_archetype *a = &cpu_archetypes[s->kind];
  r->scratch_used = r->shared_used = 0;
  r->step = index;
  r->iteration = 0;
  r->kept = l->kept ? x->dp->kept.data + l->kept_at : NULL;
  note_status(x, r, a->run(r, s));
}

/* All threads are here, and none uses what they share. */
static void poison_shared(plan_run *x, cpu_run *r, int index) {
  size_t bytes = x->dp->steps[index].shared;
  if (bytes == 0 || !r->poison)
    return;
  if (r->thread == 0)
    stale_fill(r->crew->shared, bytes);
  cpu_sync(r);
}

/* Before and behind a step that stands alone. */
static void begin_checks(cpu_run *r, int index) {
  if (!STALE_CHECKED)
    return;
  if (r->thread == 0)
    cpu_forget_results(r, index);
  cpu_sync(r);
}
static void end_checks(plan_run *x, cpu_run *r, int index) {
  if (!STALE_CHECKED)
    return;
  cpu_sync(r);
  if (r->thread == 0 && x->status == SN_OK)
    note_status(x, r, cpu_check_results(r, index));
}

static void time_archetype(plan_run *x, cpu_run *r, int index) {
  step_time *t = &x->times[(size_t)r->thread * (size_t)program_steps(r->program) + (size_t)index];
  t->begin_s = seconds();
  r->part = false;
  run_archetype(x, r, index);
  t->end_s = seconds();
  t->ran = true;
  t->part = r->part;
}

/* False: the run is over. A step that is checked stands alone between two meetings. */
static bool run_step(plan_run *x, cpu_run *r, int index) {
  if ((x->dp->steps[index].meet || STALE_CHECKED) && !meet(x, r))
    return false;
  poison_shared(x, r, index);
  begin_checks(r, index);
  if (x->times)
    time_archetype(x, r, index);
  else
    run_archetype(x, r, index);
  end_checks(x, r, index);
  return true;
}

static void report_span(const plan_run *x, int index, int thread, const step_time *t) {
  x->run->span(x->run->span_user, &(device_span){index, thread, t->begin_s, t->end_s});
}

/* When all threads are done. A step that had no work, or did not share it out, is thread 0's. */
static void report_spans(const plan_run *x) {
  size_t n = (size_t)program_steps(x->dp->program);
  for (size_t i = 0; i < n; i++) {
    bool any = false;
    for (int t = 0; t < x->threads; t++) {
      const step_time *time = &x->times[(size_t)t * n + i];
      if (time->part)
        report_span(x, (int)i, t, time);
      any = any || time->part;
    }
    if (!any && x->times[i].ran)
      report_span(x, (int)i, 0, &x->times[i]);
  }
}

static bool keep_all(plan_run *x, cpu_run *r) {
  const program *p = r->program;
  if (!meet(x, r)) /* what is prepared may be what is packed */
    return false;
  for (int i = 0; i < program_steps(p); i++) {
    const lowered_step *l = &x->dp->steps[i];
    if (l->kept == 0)
      continue;
    cpu_sync(r); /* shared scratch */
    poison_shared(x, r, i);
    r->scratch_used = r->shared_used = 0;
    r->kept = x->dp->kept.data + l->kept_at;
    note_status(x, r, cpu_archetypes[p->steps[i].kind].keep(r, &p->steps[i]));
  }
  return true;
}

static bool run_prepare(plan_run *x, cpu_run *r) {
  for (int i = 0; i < r->program->n_prepare; i++)
    if (!run_step(x, r, i))
      return false;
  return keep_all(x, r);
}

static bool run_main(plan_run *x, cpu_run *r) {
  const program *p = r->program;
  for (int i = 0; i < p->n_main; i++) {
    if (r->thread == 0)
      poll(x, r, i);
    if (!run_step(x, r, p->n_prepare + i))
      return false;
  }
  return meet(x, r);
}

/* Between main and commit the host has a say. */
static bool may_commit(plan_run *x, cpu_run *r) {
  if (r->thread == 0 && x->run->before_commit)
    note_status(x, r, x->run->before_commit(x->run->user));
  return meet(x, r);
}

static void run_sections(plan_run *x, cpu_run *r) {
  const program *p = r->program;
  if (x->run->prepare && !run_prepare(x, r))
    return;
  if (!run_main(x, r) || !may_commit(x, r))
    return;
  for (int i = 0; i < p->n_commit; i++)
    if (!run_step(x, r, p->n_prepare + p->n_main + i))
      return;
  (void)meet(x, r); /* a failure of the last steps */
}

static void run_thread(void *user, int thread) {
  plan_run *x = user;
  device_plan *dp = x->dp;
  cpu_run r = {.ctx = dp->ctx,
               .isa = dp->isa,
               .thread = thread,
               .threads = x->threads,
               .crew = &dp->crew,
               .program = dp->program,
               .sizes = x->run->sizes,
               .addresses = dp->addresses,
               .scratch = dp->scratch.data + (size_t)thread * dp->scratch_each,
               .scratch_bytes = dp->scratch_each,
               .poison = dp->poison};
  x->runs[thread] = &r;
  run_sections(x, &r);
}

static void clear_crew(cpu_crew *crew) {
  for (int i = 0; i < CPU_LOOPS; i++)
    atomic_store_explicit(&crew->loops[i].next, 0, memory_order_relaxed);
}

/* What no step has made yet. Scratch: scratch.c. */
static void poison_all(device_plan *dp, const device_run *run) {
  const program *p = dp->program;
  if (!dp->poison)
    return;
  stale_fill(dp->arena.data, (size_t)p->arena_bytes);
  for (uint32_t v = 1; v < p->n_values; v++)
    if (p->values[v].home == HOME_OUTPUT)
      stale_fill(dp->addresses[v], (size_t)size_at(run->sizes, p->values[v].count) *
                                       sn_dtype_size(p->values[v].type.dtype));
  if (!run->prepare)
    return;
  stale_fill(dp->prepared.data, (size_t)p->prepared_bytes);
  stale_fill(dp->kept.data, dp->kept.size - PROGRAM_ALIGN);
}

/* Within a run of the same team (a callback of the host runs another session) one thread does it all. */
static sn_status run_plan(device_plan *dp, const device_run *run) {
  plan_run x = {.dp = dp, .run = run, .status = SN_OK};
  bool busy = team_is_busy(dp->team);
  x.threads = busy ? 1 : (int)min_i64(dp->threads, team_size(dp->team));
  x.times = run->span ? dp->times : NULL;
  if (x.times)
    memset(x.times, 0, times_bytes(dp));
  bind_host(dp, run);
  clear_crew(&dp->crew);
  poison_all(dp, run);
  if (busy)
    run_thread(&x, 0);
  else
    team_run(dp->team, x.threads, run_thread, &x);
  if (x.times)
    report_spans(&x);
  return x.status;
}

static int threads(const device_plan *dp) { return dp->threads; }
static void poison(device_plan *dp) { dp->poison = true; }
static bool keeps(const device_plan *dp, int state) { return dp->keeps[state]; }
static int64_t kept_bytes(const device_plan *dp) { return (int64_t)dp->kept.size - PROGRAM_ALIGN; }

const device cpu_device = {.name = "cpu",
                           .description = "vectors and threads of the processor",
                           .lower = lower,
                           .run = run_plan,
                           .destroy = destroy,
                           .threads = threads,
                           .poison = poison,
                           .keeps = keeps,
                           .kept_bytes = kept_bytes};
