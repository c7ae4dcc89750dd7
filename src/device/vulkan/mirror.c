/* Memory that stores keep on a GPU: mirrors of their entries. Small ones share chunks, which are freed when the last mirror in
 * them is. Mirrors outlive plans, and belong to no context: their memory is malloc's. */
#include "base/memory.h"
#include "device/vulkan/device.h"
#include "device/vulkan/plan.h"

#include <stdlib.h>

enum { CHUNK_LEAST = 1 << 20, CHUNK_MOST = 64 << 20, CHUNK_SHARE = 32 };

typedef struct mirror_chunk {
  gpu_block block;
  int64_t used;
  int mirrors;
  struct mirror_chunk *next;
} mirror_chunk;

static int64_t aligned(int64_t bytes) { return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN; }

static sn_status no_memory(sn_ctx *ctx, size_t size) {
  return diag_fail(ctx, SN_ERR_NO_MEMORY, "out of memory: asked for %zu bytes", size);
}

/* One with so much left, or a new one: a small part of all there are, so that what stays empty in the end is little of it. */
static sn_status find_chunk(gpu *g, sn_ctx *ctx, int64_t bytes, mirror_chunk **out) {
  int64_t all = 0;
  for (mirror_chunk *c = g->chunks; c; c = c->next) {
    all += c->block.bytes;
    if (c->block.bytes - c->used >= bytes) {
      *out = c;
      return SN_OK;
    }
  }
  mirror_chunk *c = calloc(1, sizeof *c);
  if (!c)
    return no_memory(ctx, sizeof *c);
  int64_t size = max_i64(CHUNK_LEAST, min_i64(all / CHUNK_SHARE, CHUNK_MOST));
  sn_status status = gpu_block_create(g, ctx, MEMORY_DEVICE, "a state on the GPU",
                                      max_i64(size, bytes), &c->block);
  if (status != SN_OK) {
    free(c);
    return status;
  }
  c->next = g->chunks;
  *out = g->chunks = c;
  return SN_OK;
}

static void drop_chunk(gpu *g, mirror_chunk *c) {
  mirror_chunk **at = &g->chunks;
  while (*at != c)
    at = &(*at)->next;
  *at = c->next;
  gpu_block_destroy(g, &c->block);
  free(c);
}

static sn_status create(const device *d, sn_ctx *ctx, size_t size, device_memory **out) {
  gpu *g;
  int64_t bytes = aligned((int64_t)max_i64((int64_t)size, 1));
  *out = NULL;
  device_memory *m = calloc(1, sizeof *m);
  if (!m)
    return no_memory(ctx, sizeof *m);
  sn_status status = gpu_get(ctx, vulkan_index(d), &g);
  if (status != SN_OK) {
    free(m);
    return status;
  }
  pthread_mutex_lock(&g->chunks_lock);
  status = find_chunk(g, ctx, bytes, &m->chunk);
  if (status == SN_OK) {
    *m = (device_memory){g, m->chunk, &m->chunk->block, m->chunk->used, (int64_t)size};
    m->chunk->used += bytes;
    m->chunk->mirrors++;
  }
  pthread_mutex_unlock(&g->chunks_lock);
  if (status == SN_OK) {
    *out = m;
    return SN_OK;
  }
  gpu_put(g);
  free(m);
  return status;
}

static void destroy(device_memory *m) {
  if (!m)
    return;
  gpu *g = m->gpu;
  if (atomic_load(&g->lost)) /* something may still run */
    gpu_idle(g);
  pthread_mutex_lock(&g->chunks_lock);
  if (--m->chunk->mirrors == 0)
    drop_chunk(g, m->chunk);
  pthread_mutex_unlock(&g->chunks_lock);
  gpu_put(g);
  free(m);
}

static bool is_alive(const device_memory *m) { return !atomic_load(&m->gpu->lost); }

static sn_status write(device_memory *m, sn_ctx *ctx, const void *from) {
  return gpu_write(m->gpu, ctx, m->block, m->at, from, m->bytes);
}

static sn_status read(device_memory *m, sn_ctx *ctx, void *to) {
  return gpu_read(m->gpu, ctx, m->block, m->at, to, m->bytes);
}

const device_mirrors vulkan_mirrors = {create, destroy, is_alive, write, read};
