/* The Vulkan device for its own files: which GPU a device of the registry is, programs whose kernels are made by hand, and tests of
 * what GPUs compute. */
#ifndef SINEW_DEVICE_VULKAN_DEVICE_H
#define SINEW_DEVICE_VULKAN_DEVICE_H

#include "device/device.h"
#include "device/vulkan/gpu.h"

int vulkan_index(const device *d);

/* Makes the kernels of all parts in place of their archetypes: emit_env.by_hand. */
struct emitter;
typedef struct hand_made {
  sn_status (*make)(struct emitter *e, const part *p); /* NULL: the archetypes do */
  const void *of;
  bool chains; /* its launches may wait by themselves: that is what it tests, or it was tested */
} hand_made;
sn_status vulkan_lower(const device *d, sn_ctx *ctx, const program *p,
                       const device_options *options, const hand_made *hand,
                       device_plan **out) SN_MUST_USE;

/* Whether the GPU computes rightly, as far as a small program tells (self_test.c). */
bool vulkan_self_test(const device *d);
/* Takes from the target those of the GPU's matrices that compute wrongly, after a test that each has once (proof.c); and finds out about
 * the places of their elements. */
void vulkan_prove_matrices(const device *d, gpu *g, gpu_target *target);
/* The same of launches that wait by themselves (chain.c), once for each GPU that is opened. */
void vulkan_prove_chain(const device *d, gpu *g, gpu_target *target);
const char *vulkan_note(const device *d); /* device.note */
/* device.measure (peaks.c) */
sn_status vulkan_measure(const device *d, sn_ctx *ctx, sn_device_peaks *out) SN_MUST_USE;

#endif
