/* The devices by name, for the registry: each is defined in its folder. */
#ifndef SINEW_DEVICE_DEVICES_H
#define SINEW_DEVICE_DEVICES_H

#include "device/device.h"

extern const device cpu_device;

#endif
