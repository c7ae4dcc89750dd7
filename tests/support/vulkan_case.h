/* For tests of the Vulkan device: whether there is one, with the validation layer on, and that nothing was wrong in the end.
 *
 *   TEST(thing) {
 *     if (!vulkan_ready())
 *       return;                // skipped, with the reason
 *     …
 *     vulkan_check();          // no message of the layer; nothing left behind when the GPU is closed
 *   }
 *
 * It turns the layer on for the process, unless SINEW_VULKAN_VALIDATE is 0, and the cache of pipelines off. */
#ifndef SINEW_TESTS_SUPPORT_VULKAN_CASE_H
#define SINEW_TESTS_SUPPORT_VULKAN_CASE_H

#include "device/vulkan/gpu.h"

bool vulkan_ready(void);
void vulkan_check(void);
const struct device *vulkan_device(void);

#endif
