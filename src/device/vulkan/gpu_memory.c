/* Which of a GPU's types of memory are used for what. See gpu.h. */
#include "device/vulkan/gpu.h"

#include <stdlib.h>

uint32_t gpu_usage(memory_kind kind) {
  uint32_t all =
      VK_USAGE_TRANSFER_FROM | VK_USAGE_TRANSFER_TO | VK_USAGE_STORAGE | VK_USAGE_ADDRESS;
  return kind == MEMORY_SHARED ? all | VK_USAGE_UNIFORM | VK_USAGE_INDIRECT : all;
}

/* What a kind of memory must have, would better have, and would better not have. */
typedef struct wish {
  uint32_t want, like, avoid;
} wish;
enum {
  LOCAL = VK_MEMORY_DEVICE_LOCAL,
  SEEN = VK_MEMORY_VISIBLE | VK_MEMORY_COHERENT,
  CACHED = VK_MEMORY_CACHED
};
static const wish wishes[MEMORY_KINDS] = {[MEMORY_DEVICE] = {LOCAL, CACHED, 0},
                                          [MEMORY_SHARED] = {SEEN, LOCAL, CACHED},
                                          [MEMORY_HOST] = {SEEN, CACHED, LOCAL}};

/* The best of the types that are in `of`; of equal ones the first, as the specification has them ordered. -1: none has what is wanted. */
static int find_type(const vk_memory_properties *m, uint32_t of, const wish *w) {
  int best = -1, best_score = 0;
  for (uint32_t i = 0; i < m->n_types; i++) {
    uint32_t flags = m->types[i].flags;
    bool vendors = flags >> 4; /* lazily allocated, protected and the vendors' own */
    if (!(of >> i & 1) || (flags & w->want) != w->want || vendors)
      continue;
    int score = 2 * __builtin_popcount(flags & w->like) - __builtin_popcount(flags & w->avoid);
    if (best < 0 || score > best_score)
      best = (int)i, best_score = score;
  }
  return best;
}

memory_kind gpu_choose_memory(const vk_memory_properties *m, const uint32_t of[MEMORY_KINDS],
                              uint32_t out[MEMORY_KINDS]) {
  int kind = 0;
  for (; kind < MEMORY_KINDS; kind++) {
    int type = find_type(m, of[kind], &wishes[kind]);
    if (type < 0)
      break;
    out[kind] = (uint32_t)type;
  }
  return (memory_kind)kind;
}

/* The types that buffers of a kind can have: the same for all of them. */
static sn_status buffer_types(gpu *g, sn_ctx *ctx, memory_kind kind, uint32_t *out) {
  vk_requirements needs;
  vk_handle buffer;
  vk_buffer_create_info info = {
      .type = VK_BUFFER_CREATE_INFO, .size = 16, .usage = gpu_usage(kind)};
  int result = VK_CALL(g, CreateBuffer, g->device, &info, NULL, &buffer);
  if (result != 0)
    return gpu_fail(g, ctx, result, "making a buffer");
  g->vk.GetBufferMemoryRequirements(g->device, buffer, &needs);
  g->vk.DestroyBuffer(g->device, buffer, NULL);
  *out = needs.types;
  return SN_OK;
}

sn_status gpu_find_memory(gpu *g, sn_ctx *ctx) {
  static const char *const lacking[] = {"memory of its own", "memory that the host can write",
                                        "memory that the host can write"};
  vk_memory_properties2 all = {.type = VK_MEMORY_PROPERTIES_2};
  uint32_t of[MEMORY_KINDS];
  const char *discrete =
      getenv("SINEW_VULKAN_DISCRETE"); /* for tests: a GPU that the host cannot reach */
  loader_calls()->GetPhysicalDeviceMemoryProperties2(g->physical, &all);
  for (int k = 0; k < MEMORY_KINDS; k++)
    SN_TRY(buffer_types(g, ctx, (memory_kind)k, &of[k]));
  memory_kind without = gpu_choose_memory(&all.core, of, g->memory_type);
  if (without != MEMORY_KINDS)
    return diag_fail(ctx, SN_ERR_UNSUPPORTED, "%s (%s): the driver lacks %s", g->info->name,
                     g->info->description, lacking[without]);
  for (int k = 0; k < MEMORY_KINDS; k++) {
    g->memory_flags[k] = all.core.types[g->memory_type[k]].flags;
    g->memory_heap[k] = all.core.types[g->memory_type[k]].heap;
  }
  if ((g->memory_flags[MEMORY_DEVICE] & (SEEN | CACHED)) != (SEEN | CACHED) ||
      (discrete && *discrete == '1'))
    g->memory_flags[MEMORY_DEVICE] &= ~(uint32_t)VK_MEMORY_VISIBLE;
  for (uint32_t i = 0; i < all.core.n_heaps; i++)
    g->heap_bytes[i] = all.core.heaps[i].size;
  return SN_OK;
}
