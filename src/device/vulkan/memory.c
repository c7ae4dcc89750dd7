/* Memory of a GPU: blocks, how much there is, and copies from and to the host. See gpu.h. */
#include "base/memory.h"
#include "device/vulkan/gpu.h"

#include <stdlib.h>

/* --- how much there is --- */

int64_t gpu_available(gpu *g) {
  uint32_t heap = g->memory_heap[MEMORY_DEVICE];
  int64_t left = (int64_t)(g->heap_bytes[heap] / 10 * 9) - atomic_load(&g->used);
  if (g->has_budget) {
    vk_memory_budget budget = {.type = VK_MEMORY_BUDGET_PROPERTIES};
    vk_memory_properties2 all = {.type = VK_MEMORY_PROPERTIES_2, .next = &budget};
    loader_calls()->GetPhysicalDeviceMemoryProperties2(g->physical, &all);
    left = (int64_t)(budget.budget[heap] - budget.usage[heap]);
  }
  if (gpu_is_software(g->info)) /* its memory is the host's */
    left = min_i64(left, memory_available());
  return max_i64(0, left);
}

/* --- blocks --- */

static sn_status bind(gpu *g, sn_ctx *ctx, memory_kind kind, gpu_block *b) {
  vk_requirements needs;
  g->vk.GetBufferMemoryRequirements(g->device, b->buffer, &needs);
  if (!(needs.types >> g->memory_type[kind] & 1))
    return diag_fail(ctx, SN_ERR_UNSUPPORTED, "%s: buffers cannot have this memory", g->info->name);
  vk_allocate_flags flags = {.type = VK_MEMORY_ALLOCATE_FLAGS_INFO, .flags = VK_ALLOCATE_ADDRESS};
  vk_allocate_info info = {.type = VK_MEMORY_ALLOCATE_INFO,
                           .next = &flags,
                           .size = needs.size,
                           .memory_type = g->memory_type[kind]};
  int result = VK_CALL(g, AllocateMemory, g->device, &info, NULL, &b->memory);
  if (result != 0) {
    b->memory = 0;
    return gpu_fail(g, ctx, result, "taking memory");
  }
  b->kind = kind;
  b->held = (int64_t)needs.size;
  if (gpu_is_own(g, kind))
    atomic_fetch_add(&g->used, b->held);
  result = VK_CALL(g, BindBufferMemory, g->device, b->buffer, b->memory, 0);
  void *data = NULL;
  if (result == 0 && g->memory_flags[kind] & VK_MEMORY_VISIBLE)
    result = VK_CALL(g, MapMemory, g->device, b->memory, 0, UINT64_MAX, 0, &data);
  b->data = data;
  return result == 0 ? SN_OK : gpu_fail(g, ctx, result, "taking memory");
}

static sn_status create(gpu *g, sn_ctx *ctx, memory_kind kind, int64_t bytes, gpu_block *out) {
  vk_buffer_create_info info = {.type = VK_BUFFER_CREATE_INFO,
                                .size = (uint64_t)max_i64(bytes, 16),
                                .usage = gpu_usage(kind)};
  int result = VK_CALL(g, CreateBuffer, g->device, &info, NULL, &out->buffer);
  if (result != 0) {
    out->buffer = 0;
    return gpu_fail(g, ctx, result, "making a buffer");
  }
  SN_TRY(bind(g, ctx, kind, out));
  vk_address_info address = {.type = VK_BUFFER_DEVICE_ADDRESS_INFO, .buffer = out->buffer};
  out->address = g->vk.GetBufferDeviceAddress(g->device, &address);
  return SN_OK;
}

sn_status gpu_block_create(gpu *g, sn_ctx *ctx, memory_kind kind, const char *what, int64_t bytes,
                           gpu_block *out) {
  enum { MANY = 1 << 20 };
  *out = (gpu_block){0};
  SN_TRY(gpu_check(g, ctx));
  if (bytes > MANY && kind == MEMORY_DEVICE)
    SN_TRY(memory_check(ctx, what, (size_t)bytes, gpu_available(g)));
  if (bytes > g->limits.buffer_bytes)
    return diag_fail(ctx, SN_ERR_NO_MEMORY,
                     "%s needs %lld bytes in one piece, the driver gives %lld", what,
                     (long long)bytes, (long long)g->limits.buffer_bytes);
  sn_status status = create(g, ctx, kind, bytes, out);
  if (status != SN_OK) {
    gpu_block_destroy(g, out);
    return diag_within(ctx, status, "%s, %lld bytes", what, (long long)bytes);
  }
  out->bytes = bytes;
  return SN_OK;
}

void gpu_block_destroy(gpu *g, gpu_block *b) {
  if (b->buffer)
    g->vk.DestroyBuffer(g->device, b->buffer, NULL);
  if (b->memory)
    g->vk.FreeMemory(g->device, b->memory, NULL);
  if (b->held && gpu_is_own(g, b->kind))
    atomic_fetch_sub(&g->used, b->held);
  *b = (gpu_block){0};
}

/* --- transfers: one at a time, through staging memory --- */

enum { STAGING = 8 << 20 };

typedef struct gpu_transfers {
  pthread_mutex_t lock;
  gpu_block staging; /* made when first needed */
  vk_handle pool, commands, semaphore;
  uint64_t ticks;
} gpu_transfers;

sn_status gpu_transfers_create(gpu *g, sn_ctx *ctx) {
  gpu_transfers *t = g->transfers = calloc(1, sizeof *t);
  if (!t)
    return diag_fail(ctx, SN_ERR_NO_MEMORY, "out of memory: asked for %zu bytes", sizeof *t);
  pthread_mutex_init(&t->lock, NULL);
  vk_pool_create_info pool = {
      .type = VK_COMMAND_POOL_CREATE_INFO, .flags = VK_POOL_RESET_EACH, .family = g->family};
  int result = VK_CALL(g, CreateCommandPool, g->device, &pool, NULL, &t->pool);
  if (result != 0) {
    t->pool = 0;
    return gpu_fail(g, ctx, result, "making room for commands");
  }
  vk_commands_allocate_info commands = {
      .type = VK_COMMAND_BUFFER_ALLOCATE_INFO, .pool = t->pool, .n = 1};
  result = VK_CALL(g, AllocateCommandBuffers, g->device, &commands, &t->commands);
  if (result != 0)
    return gpu_fail(g, ctx, result, "making room for commands");
  return gpu_semaphore(g, ctx, &t->semaphore);
}

void gpu_transfers_destroy(gpu *g) {
  gpu_transfers *t = g->transfers;
  if (!t)
    return;
  gpu_block_destroy(g, &t->staging);
  if (t->pool)
    g->vk.DestroyCommandPool(g->device, t->pool, NULL);
  if (t->semaphore)
    g->vk.DestroySemaphore(g->device, t->semaphore, NULL);
  pthread_mutex_destroy(&t->lock);
  free(t);
  g->transfers = NULL;
}

/* Copies between two buffers; what runs have written is seen, and what is written is seen by those that follow. */
static sn_status copy(gpu *g, sn_ctx *ctx, vk_handle from, vk_handle to, vk_buffer_copy range) {
  gpu_transfers *t = g->transfers;
  vk_begin_info begin = {.type = VK_COMMAND_BUFFER_BEGIN_INFO};
  vk_memory_barrier before = {VK_MEMORY_BARRIER, NULL,
                              VK_ACCESS_SHADER_WRITE | VK_ACCESS_TRANSFER_WRITE,
                              VK_ACCESS_TRANSFER_READ | VK_ACCESS_TRANSFER_WRITE};
  vk_memory_barrier after = {VK_MEMORY_BARRIER, NULL, VK_ACCESS_TRANSFER_WRITE,
                             VK_ACCESS_HOST_READ};
  int result = VK_CALL(g, BeginCommandBuffer, t->commands, &begin);
  if (result == 0) {
    g->vk.CmdPipelineBarrier(t->commands, VK_PIPELINE_STAGE_COMPUTE | VK_PIPELINE_STAGE_TRANSFER,
                             VK_PIPELINE_STAGE_TRANSFER, 0, 1, &before, 0, NULL, 0, NULL);
    g->vk.CmdCopyBuffer(t->commands, from, to, 1, &range);
    g->vk.CmdPipelineBarrier(t->commands, VK_PIPELINE_STAGE_TRANSFER, VK_PIPELINE_STAGE_HOST, 0, 1,
                             &after, 0, NULL, 0, NULL);
    result = VK_CALL(g, EndCommandBuffer, t->commands);
  }
  if (result != 0)
    return gpu_fail(g, ctx, result, "recording a copy");
  SN_TRY(gpu_submit(g, ctx, 1, &t->commands, t->semaphore, ++t->ticks));
  return gpu_wait(g, ctx, t->semaphore, t->ticks);
}

static sn_status stage(gpu *g, sn_ctx *ctx) {
  gpu_transfers *t = g->transfers;
  return t->staging.buffer
             ? SN_OK
             : gpu_block_create(g, ctx, MEMORY_HOST, "staging memory", STAGING, &t->staging);
}

static sn_status staged_write(gpu *g, sn_ctx *ctx, const gpu_block *b, int64_t at, const char *from,
                              int64_t bytes) {
  SN_TRY(stage(g, ctx));
  for (int64_t done = 0, n; done < bytes; done += n) {
    n = min_i64(bytes - done, STAGING);
    memcpy(g->transfers->staging.data, from + done, (size_t)n);
    vk_buffer_copy range = {0, (uint64_t)(at + done), (uint64_t)n};
    SN_TRY(copy(g, ctx, g->transfers->staging.buffer, b->buffer, range));
  }
  return SN_OK;
}

static sn_status staged_read(gpu *g, sn_ctx *ctx, const gpu_block *b, int64_t at, char *to,
                             int64_t bytes) {
  SN_TRY(stage(g, ctx));
  for (int64_t done = 0, n; done < bytes; done += n) {
    n = min_i64(bytes - done, STAGING);
    vk_buffer_copy range = {(uint64_t)(at + done), 0, (uint64_t)n};
    SN_TRY(copy(g, ctx, b->buffer, g->transfers->staging.buffer, range));
    memcpy(to + done, g->transfers->staging.data, (size_t)n);
  }
  return SN_OK;
}

sn_status gpu_write(gpu *g, sn_ctx *ctx, const gpu_block *b, int64_t at, const void *from,
                    int64_t bytes) {
  SN_TRY(gpu_check(g, ctx));
  if (bytes == 0)
    return SN_OK;
  if (b->data) {
    memcpy(b->data + at, from, (size_t)bytes);
    return SN_OK;
  }
  pthread_mutex_lock(&g->transfers->lock);
  sn_status status = staged_write(g, ctx, b, at, from, bytes);
  pthread_mutex_unlock(&g->transfers->lock);
  return status;
}

/* Memory behind the window is not cached: to read it word by word would take longer than a copy. */
sn_status gpu_read(gpu *g, sn_ctx *ctx, const gpu_block *b, int64_t at, void *to, int64_t bytes) {
  SN_TRY(gpu_check(g, ctx));
  if (bytes == 0)
    return SN_OK;
  if (b->data && g->memory_flags[b->kind] & VK_MEMORY_CACHED) {
    memcpy(to, b->data + at, (size_t)bytes);
    return SN_OK;
  }
  pthread_mutex_lock(&g->transfers->lock);
  sn_status status = staged_read(g, ctx, b, at, to, bytes);
  pthread_mutex_unlock(&g->transfers->lock);
  return status;
}
