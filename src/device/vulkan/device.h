/* The Vulkan device for its own files: which GPU a device of the registry is. */
#ifndef SINEW_DEVICE_VULKAN_DEVICE_H
#define SINEW_DEVICE_VULKAN_DEVICE_H

#include "device/device.h"

int vulkan_index(const device *d);
/* Whether the GPU computes rightly, as far as a small program tells (self_test.c). */
bool vulkan_self_test(const device *d);

#endif
