/* The devices of this build. Called by whoever picks one by name. A new device is a row here. */
#include "device/devices.h"

static const device *const devices[] = {&cpu_device};

const device *device_at(int index) {
  return index >= 0 && (size_t)index < COUNT_OF(devices) ? devices[index] : NULL;
}

const device *device_find(const char *name) {
  bool any = !name || strcmp(name, "auto") == 0;
  for (size_t i = 0; i < COUNT_OF(devices); i++)
    if (any || strcmp(devices[i]->name, name) == 0)
      return devices[i];
  return NULL;
}
