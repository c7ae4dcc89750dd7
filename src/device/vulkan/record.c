/* The commands of a plan, recorded once: prepare, main, commit; and main in parts. See plan.h.
 *
 * Launches go by phases (phases.c). There is a barrier where one begins that does not wait by itself (chain.c), and one at the begin of each
 * section, behind what was copied or committed before. With timestamps every step stands alone, in the plan's order. */
#include "device/vulkan/plan.h"

/* --- room for them --- */

static int command_count(const device_plan *dp) { return dp->commands.n_parts + 5; }

static sn_status create_set(device_plan *dp) {
  gpu *g = dp->gpu;
  plan_commands *c = &dp->commands;
  vk_pool_size size = {VK_UNIFORM_DYNAMIC, 1};
  vk_set_pool_create_info pool = {
      .type = VK_DESCRIPTOR_POOL_CREATE_INFO, .sets = 1, .n = 1, .sizes = &size};
  int result = VK_CALL(g, CreateDescriptorPool, g->device, &pool, NULL, &c->sets);
  if (result != 0) {
    c->sets = 0;
    return gpu_fail(g, dp->ctx, result, "making room for parameters");
  }
  vk_handle layout = gpu_set_layout(g);
  vk_set_allocate_info info = {
      .type = VK_DESCRIPTOR_SET_ALLOCATE_INFO, .pool = c->sets, .n = 1, .layouts = &layout};
  result = VK_CALL(g, AllocateDescriptorSets, g->device, &info, &c->set);
  if (result != 0)
    return gpu_fail(g, dp->ctx, result, "making room for parameters");
  vk_set_buffer buffer = {dp->params.block.buffer, 0, (uint64_t)g->target.block_bytes};
  vk_set_write write = {.type = VK_WRITE_DESCRIPTOR_SET,
                        .set = c->set,
                        .n = 1,
                        .kind = VK_UNIFORM_DYNAMIC,
                        .buffers = &buffer};
  g->vk.UpdateDescriptorSets(g->device, 1, &write, 0, NULL);
  return SN_OK;
}

sn_status plan_commands_create(device_plan *dp) {
  gpu *g = dp->gpu;
  plan_commands *c = &dp->commands;
  c->n_parts = dp->program->n_main / RECORD_STEPS + 1;
  c->list = arena_array(&dp->memory, (size_t)command_count(dp), sizeof *c->list);
  if (!c->list)
    return SN_ERR_NO_MEMORY;
  SN_TRY(create_set(dp));
  vk_pool_create_info pool = {
      .type = VK_COMMAND_POOL_CREATE_INFO, .flags = VK_POOL_RESET_EACH, .family = g->family};
  int result = VK_CALL(g, CreateCommandPool, g->device, &pool, NULL, &c->pool);
  if (result != 0) {
    c->pool = 0;
    return gpu_fail(g, dp->ctx, result, "making room for commands");
  }
  vk_commands_allocate_info info = {
      .type = VK_COMMAND_BUFFER_ALLOCATE_INFO, .pool = c->pool, .n = (uint32_t)command_count(dp)};
  result = VK_CALL(g, AllocateCommandBuffers, g->device, &info, c->list);
  if (result != 0)
    return gpu_fail(g, dp->ctx, result, "making room for commands");
  SN_TRY(gpu_semaphore(g, dp->ctx, &c->semaphore));
  return plan_record(dp, false);
}

void plan_commands_destroy(device_plan *dp) {
  gpu *g = dp->gpu;
  plan_commands *c = &dp->commands;
  if (c->pool)
    g->vk.DestroyCommandPool(g->device, c->pool, NULL);
  if (c->sets)
    g->vk.DestroyDescriptorPool(g->device, c->sets, NULL);
  if (c->semaphore)
    g->vk.DestroySemaphore(g->device, c->semaphore, NULL);
  if (c->queries)
    g->vk.DestroyQueryPool(g->device, c->queries, NULL);
}

/* --- recording --- */

typedef struct recording {
  device_plan *dp;
  vk_handle to;
  vk_handle bound; /* the pipeline */
  bool fresh;      /* nothing was launched since the last barrier */
} recording;

static void barrier(const recording *r, uint32_t from_stage, uint32_t from, uint32_t to_stage,
                    uint32_t to) {
  vk_memory_barrier b = {VK_MEMORY_BARRIER, NULL, from, to};
  r->dp->gpu->vk.CmdPipelineBarrier(r->to, from_stage, to_stage, 0, 1, &b, 0, NULL, 0, NULL);
}

static void compute_barrier(recording *r) {
  barrier(r, VK_PIPELINE_STAGE_COMPUTE, VK_ACCESS_SHADER_WRITE, VK_PIPELINE_STAGE_COMPUTE,
          VK_ACCESS_SHADER_READ | VK_ACCESS_SHADER_WRITE);
  r->fresh = true;
}

static void record_launch(recording *r, const lowered_launch *l, bool waits) {
  const vk_device_calls *vk = &r->dp->gpu->vk;
  if (!launch_runs(l))
    return;
  if (waits && !r->fresh)
    compute_barrier(r);
  r->fresh = false;
  if (r->bound != l->pipeline)
    vk->CmdBindPipeline(r->to, VK_BIND_COMPUTE, l->pipeline);
  r->bound = l->pipeline;
  vk->CmdBindDescriptorSets(r->to, VK_BIND_COMPUTE, gpu_layout(r->dp->gpu), 0, 1,
                            &r->dp->commands.set, 1, &l->block);
  if (l->varies)
    vk->CmdDispatchIndirect(r->to, r->dp->params.block.buffer, l->counts);
  else
    vk->CmdDispatch(r->to, l->groups[0], l->groups[1], l->groups[2]);
}

static void stamp(const recording *r, int query) {
  const device_plan *dp = r->dp;
  dp->gpu->vk.CmdWriteTimestamp(r->to, VK_PIPELINE_STAGE_BOTTOM, dp->commands.queries,
                                (uint32_t)query);
}

/* With timestamps: it stands alone. */
static void record_step(recording *r, int index, bool first) {
  const device_plan *dp = r->dp;
  const lowered_step *s = &dp->steps[index];
  if (!first)
    compute_barrier(r);
  bool waits = false; /* also behind a launch that does nothing */
  stamp(r, plan_query(index));
  for (int i = 0; i < s->n; i++) {
    const lowered_launch *l = &dp->launches[s->first + i];
    waits = waits || l->of->after;
    if (l->of->kept || !launch_runs(l))
      continue;
    record_launch(r, l, waits);
    waits = false;
  }
  stamp(r, plan_query(index) + 1);
}

static sn_status begin(recording *r) {
  gpu *g = r->dp->gpu;
  vk_begin_info info = {.type = VK_COMMAND_BUFFER_BEGIN_INFO};
  int result = VK_CALL(g, BeginCommandBuffer, r->to, &info);
  return result == 0 ? SN_OK : gpu_fail(g, r->dp->ctx, result, "recording a plan");
}

static sn_status end(recording *r) {
  gpu *g = r->dp->gpu;
  int result = VK_CALL(g, EndCommandBuffer, r->to);
  return result == 0 ? SN_OK : gpu_fail(g, r->dp->ctx, result, "recording a plan");
}

/* Behind the steps of `prepare`: what is kept. */
static void record_kept(recording *r) {
  const device_plan *dp = r->dp;
  compute_barrier(r);
  for (int i = 0; i < dp->n_launches; i++)
    if (dp->launches[i].of->kept)
      record_launch(r, &dp->launches[i], false);
}

static void record_launches(recording *r, const plan_section *section, int i, int parts) {
  const device_plan *dp = r->dp;
  int end = section->first + plan_part_at(section->n, i + 1, parts);
  for (int k = section->first + plan_part_at(section->n, i, parts); k < end; k++) {
    const lowered_launch *l = &dp->launches[dp->order[k]];
    record_launch(r, l, l->behind && !l->chained);
  }
}

static void record_timed(recording *r, int section, int i, int parts) {
  int first, n = plan_section_steps(r->dp, section, &first);
  int from = plan_part_at(n, i, parts), to = plan_part_at(n, i + 1, parts);
  if (to > from)
    r->dp->gpu->vk.CmdResetQueryPool(r->to, r->dp->commands.queries,
                                     (uint32_t)plan_query(first + from),
                                     (uint32_t)plan_query(to - from));
  for (int k = from; k < to; k++)
    record_step(r, first + k, k == 0);
}

/* The i-th of so many parts of a section. */
static sn_status record_part(device_plan *dp, vk_handle to, int section, int i, int parts) {
  recording r = {.dp = dp, .to = to};
  SN_TRY(begin(&r));
  if (dp->counters.bytes > 0 && section == PLAN_MAIN && i == 0)
    dp->gpu->vk.CmdFillBuffer(to, dp->counters.block->buffer, (uint64_t)dp->counters.at,
                              (uint64_t)dp->counters.bytes, 0);
  if (i == 0)
    barrier(&r, VK_PIPELINE_STAGE_COMPUTE | VK_PIPELINE_STAGE_TRANSFER,
            VK_ACCESS_SHADER_WRITE | VK_ACCESS_TRANSFER_WRITE, VK_PIPELINE_STAGE_COMPUTE,
            VK_ACCESS_SHADER_READ | VK_ACCESS_SHADER_WRITE);
  if (dp->commands.timed)
    record_timed(&r, section, i, parts);
  else
    record_launches(&r, &dp->sections[section], i, parts);
  if (section == PLAN_PREPARE)
    record_kept(&r);
  if (i + 1 == parts)
    barrier(&r, VK_PIPELINE_STAGE_COMPUTE, VK_ACCESS_SHADER_WRITE, VK_PIPELINE_STAGE_HOST,
            VK_ACCESS_HOST_READ);
  return end(&r);
}

static sn_status record_collect(device_plan *dp, vk_handle to, int set) {
  recording r = {.dp = dp, .to = to};
  const plan_room *from = &dp->small[set], *into = &dp->collected;
  vk_buffer_copy range = {(uint64_t)from->at, (uint64_t)into->at, (uint64_t)into->bytes};
  SN_TRY(begin(&r));
  if (dp->collects) {
    barrier(&r, VK_PIPELINE_STAGE_COMPUTE, VK_ACCESS_SHADER_WRITE, VK_PIPELINE_STAGE_TRANSFER,
            VK_ACCESS_TRANSFER_READ);
    dp->gpu->vk.CmdCopyBuffer(to, from->block->buffer, into->block->buffer, 1, &range);
    barrier(&r, VK_PIPELINE_STAGE_TRANSFER, VK_ACCESS_TRANSFER_WRITE, VK_PIPELINE_STAGE_HOST,
            VK_ACCESS_HOST_READ);
  }
  return end(&r);
}

static sn_status create_queries(device_plan *dp) {
  gpu *g = dp->gpu;
  int n = plan_query(program_steps(dp->program));
  vk_query_pool_create_info info = {
      .type = VK_QUERY_POOL_CREATE_INFO, .kind = VK_QUERY_TIMESTAMP, .n = (uint32_t)(n ? n : 1)};
  if (dp->commands.queries)
    return SN_OK;
  dp->ticks = arena_array(&dp->memory, (size_t)n, sizeof *dp->ticks);
  if (!dp->ticks)
    return SN_ERR_NO_MEMORY;
  int result = VK_CALL(g, CreateQueryPool, g->device, &info, NULL, &dp->commands.queries);
  dp->commands.queries = result == 0 ? dp->commands.queries : 0;
  return result == 0 ? SN_OK : gpu_fail(g, dp->ctx, result, "making room for timestamps");
}

sn_status plan_record(device_plan *dp, bool timed) {
  const vk_handle to[PLAN_SECTIONS] = {plan_prepare(dp), plan_main(dp), plan_commit(dp)};
  plan_commands *c = &dp->commands;
  if (timed)
    SN_TRY(create_queries(dp));
  c->recorded = c->parted = false;
  c->timed = timed;
  SN_TRY(plan_chain(dp, timed));
  for (int i = 0; i < PLAN_SECTIONS; i++)
    SN_TRY(record_part(dp, to[i], i, 0, 1));
  for (int set = 0; set < 2; set++)
    SN_TRY(record_collect(dp, c->list[2 + set], set));
  c->recorded = true;
  return SN_OK;
}

sn_status plan_record_parts(device_plan *dp) {
  plan_commands *c = &dp->commands;
  for (int i = 0; i < c->n_parts && !c->parted; i++)
    SN_TRY(record_part(dp, plan_part(dp, i), PLAN_MAIN, i, c->n_parts));
  c->parted = true;
  return SN_OK;
}
