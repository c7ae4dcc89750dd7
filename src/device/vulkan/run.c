/* A run of a plan on its GPU. See plan.h and, for what callers rely on, device.h.
 *
 * Where nothing can fail between main and commit (the program requires nothing, the host has no say), both are one submission;
 * otherwise the host waits for main, looks at the table of failures, and only then submits commit. Outputs may be made by
 * either: they are final only in the end. */
#include "device/vulkan/plan.h"

#include <math.h>
#include <time.h>

static int64_t leaf_bytes(const program_leaf *leaf, const int64_t *sizes) {
  int64_t bytes = (int64_t)sn_dtype_size(leaf->type.dtype);
  for (int d = 0; d < leaf->type.shape.rank; d++)
    bytes *= size_at(sizes, leaf->type.shape.dim[d]);
  return bytes;
}

/* --- before --- */

static sn_status bind_values(device_plan *dp, const device_run *run) {
  const program *p = dp->program;
  for (int i = 0; i < dp->n_bound; i++) {
    uint32_t v = dp->bound[i], index = p->values[v].index;
    if (p->values[v].home == HOME_OUTPUT)
      dp->addresses[v] = room_address(&dp->outputs[dp->set][index]);
    else if (!dp->resident)
      dp->addresses[v] = room_address(&dp->states[index]);
    else {
      const device_memory *m = run->mirrors[index];
      if (m->gpu != dp->gpu)
        return diag_fail(dp->ctx, SN_ERR_STATE, "%s: a state lies on a GPU that was lost",
                         dp->gpu->info->name);
      dp->addresses[v] = m->block->address + (uint64_t)m->at;
    }
  }
  return SN_OK;
}

static sn_status write_room(device_plan *dp, const plan_room *r, const void *from, int64_t bytes) {
  return r->bytes ? gpu_write(dp->gpu, dp->ctx, r->block, r->at, from, bytes) : SN_OK;
}

static sn_status read_room(device_plan *dp, const plan_room *r, void *to, int64_t bytes) {
  return r->bytes ? gpu_read(dp->gpu, dp->ctx, r->block, r->at, to, bytes) : SN_OK;
}

/* An output of the set that was written last, from where it is nearest. `collected` is that of the last run to end, good or not. */
static sn_status read_output(device_plan *dp, int i, void *to, int64_t bytes) {
  const plan_room *r = &dp->outputs[dp->set][i], *small = &dp->small[dp->set];
  bool inside = dp->collects && r->block == small->block && r->at >= small->at &&
                r->at < small->at + small->bytes;
  if (!inside || dp->collected_set != dp->set)
    return read_room(dp, r, to, bytes);
  SN_TRY(gpu_check(dp->gpu, dp->ctx));
  memcpy(to, dp->collected.block->data + dp->collected.at + (r->at - small->at), (size_t)bytes);
  return SN_OK;
}

static sn_status upload(device_plan *dp, const device_run *run) {
  const program *p = dp->program;
  for (int i = 0; i < p->n_inputs; i++)
    if (!dp->resident || !run->fresh || run->fresh[i])
      SN_TRY(write_room(dp, &dp->inputs[i], run->inputs[i], leaf_bytes(&p->inputs[i], run->sizes)));
  for (int i = 0; i < p->n_states && !dp->resident; i++)
    SN_TRY(write_room(dp, &dp->states[i], run->states[i], leaf_bytes(&p->states[i], run->sizes)));
  return SN_OK;
}

static sn_status download_outputs(device_plan *dp, const device_run *run) {
  const program *p = dp->program;
  for (int i = 0; i < p->n_outputs && !dp->resident; i++)
    SN_TRY(read_output(dp, i, run->outputs[i], leaf_bytes(&p->outputs[i], run->sizes)));
  return SN_OK;
}

static sn_status download_states(device_plan *dp, const device_run *run) {
  const program *p = dp->program;
  for (int i = 0; i < p->n_states && !dp->resident; i++)
    if (p->states[i].assigned)
      SN_TRY(read_room(dp, &dp->states[i], run->states[i], leaf_bytes(&p->states[i], run->sizes)));
  return SN_OK;
}

/* --- failures --- */

/* A launch that went on without those before it has left nothing that can be relied on. */
static sn_status check_order(device_plan *dp) {
  const uint32_t *in_vain = (void *)(dp->failures.block->data + dp->failures.at + plan_in_vain(dp));
  if (*in_vain == 0)
    return SN_OK;
  if (!dp->trial)
    atomic_store(&dp->gpu->lost, true);
  return diag_fail(
      dp->ctx, SN_ERR_STATE,
      "%s: a launch waited in vain for those before it (SINEW_VULKAN_CHAIN=0 has none wait); "
      "sessions on the GPU must be made anew",
      dp->gpu->info->name);
}

static sn_status find_failure(device_plan *dp) {
  const program *p = dp->program;
  const uint32_t *table = (void *)(dp->failures.block->data + dp->failures.at);
  SN_TRY(check_order(dp));
  for (int i = 0; i < p->n_sites; i++)
    if (table[2 * i] != 0)
      return diag_fail(dp->ctx, p->sites[i].status, p->sites[i].format, (int)table[2 * i + 1]);
  return SN_OK;
}

/* --- spans --- */

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Steps first … first + n, of which the last has just ended: that is where the GPU's clock and the host's meet. */
static sn_status report_spans(device_plan *dp, const device_run *run, int first, int n) {
  gpu *g = dp->gpu;
  double now = seconds(), tick = 1e-9 * g->limits.timestamp_ns, end = 0;
  if (n == 0 || !dp->commands.timed)
    return SN_OK;
  uint64_t *t = dp->ticks + plan_query(first);
  uint32_t queries = (uint32_t)plan_query(n);
  int result =
      VK_CALL(g, GetQueryPoolResults, g->device, dp->commands.queries, (uint32_t)plan_query(first),
              queries, queries * sizeof *t, t, sizeof *t, VK_QUERY_64_WAIT);
  if (result != 0)
    return gpu_fail(g, dp->ctx, result, "reading timestamps");
  for (int i = 0; i < n; i++) {
    double ago[2];
    for (int k = 0; k < 2; k++)
      ago[k] = tick * (double)((t[queries - 1] - t[plan_query(i) + k]) & g->limits.timestamp_mask);
    device_span span = {.step = first + i, .begin_s = fmax(end, now - ago[0])};
    end = span.end_s = fmax(span.begin_s, now - ago[1]);
    run->span(run->span_user, &span);
  }
  return SN_OK;
}

/* --- running --- */

static sn_status submit(device_plan *dp, const vk_handle *list, int n) {
  plan_commands *c = &dp->commands;
  SN_TRY(gpu_submit(dp->gpu, dp->ctx, n, list, c->semaphore, c->ticks + 1));
  c->ticks++;
  return SN_OK;
}

static sn_status wait(device_plan *dp) {
  return gpu_wait(dp->gpu, dp->ctx, dp->commands.semaphore, dp->commands.ticks);
}

static sn_status poll(device_plan *dp, const sn_progress *progress, int i, int n) {
  if (progress->report(progress->user, i, n, "steps"))
    return SN_OK;
  return diag_fail(dp->ctx, SN_ERR_CANCELLED, "the run was cancelled before step %d of %d", i + 1,
                   n);
}

/* Part by part, at most two of them on the GPU, so that the host can stop the run on the way. Parts are of launches by phases: how many
 * steps are done is about right. */
static sn_status submit_watched(device_plan *dp, const device_run *run) {
  plan_commands *c = &dp->commands;
  SN_TRY(plan_record_parts(dp));
  sn_status status = run->prepare ? submit(dp, c->list, 1) : SN_OK;
  for (int i = 0; i < c->n_parts && status == SN_OK; i++) {
    vk_handle commands = plan_part(dp, i);
    int n = dp->program->n_main;
    status = poll(dp, run->progress, plan_part_at(n, i, c->n_parts), n);
    if (status == SN_OK)
      status = submit(dp, &commands, 1);
    if (status == SN_OK && i > 0)
      status = gpu_wait(dp->gpu, dp->ctx, c->semaphore, c->ticks - 1);
  }
  vk_handle collect = plan_collect(dp);
  return status == SN_OK && dp->collects ? submit(dp, &collect, 1) : status;
}

/* `all`: commit was submitted with it. */
static sn_status finish_main(device_plan *dp, const device_run *run, bool all) {
  const program *p = dp->program;
  int first = run->prepare ? 0 : p->n_prepare;
  int end = p->n_prepare + p->n_main + (all ? p->n_commit : 0);
  SN_TRY(wait(dp));
  SN_TRY(report_spans(dp, run, first, end - first));
  SN_TRY(find_failure(dp));
  return download_outputs(dp, run);
}

/* prepare and main, and commit too where `all`, at once: between two submissions a GPU stands still for microseconds. */
static sn_status submit_main(device_plan *dp, const device_run *run, bool all) {
  vk_handle list[4];
  int n = 0;
  if (run->prepare)
    list[n++] = plan_prepare(dp);
  list[n++] = plan_main(dp);
  if (all)
    list[n++] = plan_commit(dp);
  if (dp->collects)
    list[n++] = plan_collect(dp);
  return submit(dp, list, n);
}

static sn_status execute(device_plan *dp, const device_run *run) {
  const program *p = dp->program;
  bool watched = run->progress && run->progress->report;
  bool all = p->n_commit > 0 && p->n_sites == 0 && !run->before_commit && !watched;
  dp->collected_set = dp->set;
  SN_TRY(watched ? submit_watched(dp, run) : submit_main(dp, run, all));
  SN_TRY(finish_main(dp, run, all));
  if (run->before_commit)
    SN_TRY(run->before_commit(run->user));
  if (p->n_commit == 0 || all)
    return download_states(dp, run);
  vk_handle last[] = {plan_commit(dp), plan_collect(dp)};
  SN_TRY(submit(dp, last, dp->collects ? 2 : 1));
  SN_TRY(wait(dp));
  SN_TRY(report_spans(dp, run, p->n_prepare + p->n_main, p->n_commit));
  SN_TRY(download_outputs(dp, run)); /* commit makes some of them, too */
  return download_states(dp, run);
}

static sn_status prepare(device_plan *dp, const device_run *run) {
  bool timed = run->span != NULL && dp->gpu->limits.timestamp_ns > 0;
  SN_TRY(gpu_check(dp->gpu, dp->ctx));
  if (!dp->commands.recorded || timed != dp->commands.timed)
    SN_TRY(plan_record(dp, timed));
  SN_TRY(bind_values(dp, run));
  SN_TRY(plan_params_fill(dp, run->sizes));
  SN_TRY(plan_poison(dp, run->prepare));
  return upload(dp, run);
}

/* Nothing of a failed run goes on, or is seen by the next. */
static void give_up(device_plan *dp) {
  dp->set ^= 1;
  if (!atomic_load(&dp->gpu->lost))
    (void)!wait(dp);
  memset(dp->failures.block->data + dp->failures.at, 0, (size_t)dp->failures.bytes);
}

sn_status plan_run(device_plan *dp, const device_run *run) {
  dp->set ^= 1; /* what the last run left stays readable if this one fails */
  sn_status status = prepare(dp, run);
  if (status == SN_OK)
    status = execute(dp, run);
  if (status != SN_OK)
    give_up(dp);
  return status;
}

sn_status plan_read_output(device_plan *dp, int output, void *to, size_t bytes) {
  return read_output(dp, output, to, (int64_t)bytes);
}
