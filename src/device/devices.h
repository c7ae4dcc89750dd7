/* The devices by name, for the registry: each is defined in its folder. */
#ifndef SINEW_DEVICE_DEVICES_H
#define SINEW_DEVICE_DEVICES_H

#include "device/device.h"

extern const device cpu_device;

/* GPUs, the best first; asking opens Vulkan's loader. NULL beyond the last. */
const device *vulkan_device_at(int index);
/* "vulkan" is the first, "vulkan:N" the N-th. */
const device *vulkan_device_find(const char *name);
/* The best GPU that is not software, after a test of it; NULL and why: there is none, or it failed. Loads no driver on machines that
 * have no GPU. */
const device *vulkan_device_proved(device_choice *out_why);
/* Why there is none. */
const char *vulkan_why_none(void);

#endif
