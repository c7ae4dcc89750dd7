/* Submitting to a GPU, waiting for it, and what its results mean. See gpu.h. */
#include "device/vulkan/gpu.h"

#include <stdlib.h>
#include <time.h>

/* --- errors --- */

static const char *result_name(int result) {
  switch (result) {
  case VK_TIMEOUT: return "it took too long";
  case VK_NO_HOST_MEMORY: return "the driver has no memory of the host";
  case VK_NO_DEVICE_MEMORY: return "the GPU has no memory left";
  case VK_LOST: return "the GPU was lost";
  case VK_NO_EXTENSION: return "an extension is missing";
  case VK_NO_FEATURE: return "a feature is missing";
  default: return "the driver failed";
  }
}

sn_status gpu_fail(gpu *g, sn_ctx *ctx, int result, const char *doing) {
  sn_status status = result == VK_NO_HOST_MEMORY || result == VK_NO_DEVICE_MEMORY ? SN_ERR_NO_MEMORY
                     : result == VK_NO_EXTENSION || result == VK_NO_FEATURE ? SN_ERR_UNSUPPORTED
                                                                            : SN_ERR_STATE;
  if (result == VK_LOST || result == VK_TIMEOUT)
    atomic_store(&g->lost, true);
  return diag_fail(ctx, status, "%s: %s: %s (%d)", g->info->name, doing, result_name(result),
                   result);
}

/* With the validation layer on, what it found wrong is an error, wherever it came from. */
static sn_status check_complaints(sn_ctx *ctx) {
  return gpu_complaints() == 0 ? SN_OK
                               : diag_fail(ctx, SN_ERR_INTERNAL,
                                           "Vulkan's validation layer: %.800s", gpu_complaint());
}

sn_status gpu_check(gpu *g, sn_ctx *ctx) {
  if (!atomic_load_explicit(&g->lost, memory_order_relaxed))
    return SN_OK;
  return diag_fail(
      ctx, SN_ERR_STATE,
      "%s: the GPU was lost, and with it all that it held; sessions on it must be made anew",
      g->info->name);
}

/* --- submitting --- */

sn_status gpu_semaphore(gpu *g, sn_ctx *ctx, vk_handle *out) {
  vk_semaphore_type kind = {.type = VK_SEMAPHORE_TYPE_CREATE_INFO, .kind = VK_SEMAPHORE_TIMELINE};
  vk_semaphore_create_info info = {.type = VK_SEMAPHORE_CREATE_INFO, .next = &kind};
  int result = VK_CALL(g, CreateSemaphore, g->device, &info, NULL, out);
  if (result == 0)
    return SN_OK;
  *out = 0;
  return gpu_fail(g, ctx, result, "making a semaphore");
}

sn_status gpu_submit(gpu *g, sn_ctx *ctx, int n, const vk_handle *commands, vk_handle semaphore,
                     uint64_t value) {
  SN_TRY(gpu_check(g, ctx));
  vk_timeline_submit timeline = {
      .type = VK_TIMELINE_SUBMIT_INFO, .n_signals = 1, .signals = &value};
  vk_submit_info info = {.type = VK_SUBMIT_INFO,
                         .next = &timeline,
                         .n_commands = (uint32_t)n,
                         .commands = commands,
                         .n_signals = 1,
                         .signals = &semaphore};
  pthread_mutex_lock(&g->submit);
  int result = VK_CALL(g, QueueSubmit, g->queue, 1, &info, 0);
  pthread_mutex_unlock(&g->submit);
  return result == 0 ? SN_OK : gpu_fail(g, ctx, result, "submitting work");
}

/* --- waiting --- */

/* SINEW_VULKAN_TIMEOUT, in seconds. */
static double timeout(void) {
  const char *asked = getenv("SINEW_VULKAN_TIMEOUT");
  double s = asked ? strtod(asked, NULL) : 0;
  return s > 0 ? s : 600;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Whether it has this value. Of a lost GPU it has the largest there is. */
static bool reached(gpu *g, vk_handle semaphore, uint64_t value) {
  uint64_t now = 0;
  return g->vk.GetSemaphoreCounterValue(g->device, semaphore, &now) == 0 && now != UINT64_MAX &&
         now >= value;
}

/* A short wait is over sooner when one keeps looking: waking a thread costs as much as a small plan. */
static bool looked(gpu *g, vk_handle semaphore, uint64_t value) {
  const double patience = 20e-3;
  double end = seconds() + patience;
  do {
    for (int i = 0; i < 8; i++)
      if (reached(g, semaphore, value))
        return true;
  } while (seconds() < end);
  return false;
}

static _Thread_local double waited_s;

double gpu_waited(void) { return waited_s; }

static sn_status wait(gpu *g, sn_ctx *ctx, vk_handle semaphore, uint64_t value) {
  vk_wait_info info = {
      .type = VK_SEMAPHORE_WAIT_INFO, .n = 1, .semaphores = &semaphore, .values = &value};
  if (gpu_fault("WaitSemaphores"))
    return gpu_fail(g, ctx, gpu_fault_result(), "waiting for the GPU");
  if (g->info->kind != VK_TYPE_CPU && looked(g, semaphore, value))
    return gpu_check(g, ctx);
  for (double end = seconds() + timeout();;) {
    int result = g->vk.WaitSemaphores(g->device, &info, UINT64_C(100000000));
    if (result == 0 && !reached(g, semaphore, value))
      result = VK_LOST; /* waiting for a GPU that was lost may end well */
    if (result == 0)
      return gpu_check(g, ctx);
    if (result != VK_TIMEOUT)
      return gpu_fail(g, ctx, result, "waiting for the GPU");
    if (seconds() > end)
      return gpu_fail(g, ctx, VK_TIMEOUT, "waiting for the GPU");
  }
}

sn_status gpu_wait(gpu *g, sn_ctx *ctx, vk_handle semaphore, uint64_t value) {
  double begin = seconds();
  sn_status status = wait(g, ctx, semaphore, value);
  if (status == SN_OK)
    status = check_complaints(ctx);
  waited_s += seconds() - begin;
  return status;
}

void gpu_idle(gpu *g) {
  pthread_mutex_lock(&g->submit);
  g->vk.DeviceWaitIdle(g->device);
  pthread_mutex_unlock(&g->submit);
}
