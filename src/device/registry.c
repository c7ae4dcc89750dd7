/* The devices of this build. Called by whoever picks one by name. A new device is a row here. */
#include "device/devices.h"

static const device *const devices[] = {&cpu_device};

const device *device_at(int index) {
  return index >= 0 && (size_t)index < COUNT_OF(devices) ? devices[index] : NULL;
}

const device *device_find(sn_ctx *ctx, const char *name) {
  if (!name || strcmp(name, "auto") == 0)
    return devices[0];
  for (size_t i = 0; i < COUNT_OF(devices); i++)
    if (strcmp(devices[i]->name, name) == 0)
      return devices[i];
  (void)!diag_fail(ctx, SN_ERR_NOT_FOUND, "there is no device \"%s\" in this build; %s is one",
                   name, devices[0]->name);
  return NULL;
}
