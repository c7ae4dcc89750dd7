/* Between pipelines.c and pipeline_cache.c. */
#ifndef SINEW_DEVICE_VULKAN_PIPELINES_H
#define SINEW_DEVICE_VULKAN_PIPELINES_H

#include "device/vulkan/gpu.h"

typedef struct gpu_pipelines {
  pthread_mutex_t lock;
  vk_handle set_layout, layout, cache;
  gpu_pipeline *list; /* the newest first */
  int made, saved;    /* since the GPU was opened; of these when the file was written */
  struct {            /* what the file has, as far as known: bytes of the driver's, gpu.matrices */
    size_t bytes;
    uint32_t matrices;
  } file;
} gpu_pipelines;

/* Makes the driver's cache, from the file of this GPU and driver where there is a good one. Only a driver that refuses is an
 * error. */
sn_status pipeline_cache_load(gpu *g, sn_ctx *ctx) SN_MUST_USE;
/* Writes the file, if there is something new. What goes wrong costs the next start some time, nothing more. */
void pipeline_cache_save(gpu *g);

#endif
