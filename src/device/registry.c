/* The devices of this build on this machine. Called by whoever picks one by name. The CPU is always there; GPUs are found when
 * they are first asked for, since that loads their drivers. */
#include "device/devices.h"

#include <pthread.h>

const device *device_at(int index) {
  return index < 0 ? NULL : index == 0 ? &cpu_device : vulkan_device_at(index - 1);
}

/* What "auto" means, once for the process: a GPU that has shown that it computes rightly, else the CPU. Software drivers,
 * which are slower than the CPU device, are never meant. */
static struct {
  pthread_once_t once;
  const device *is;
  device_choice why;
} chosen = {.once = PTHREAD_ONCE_INIT};

static void choose(void) {
  const device *gpu = vulkan_device_proved(&chosen.why);
  chosen.is = gpu ? gpu : &cpu_device;
}

const device_choice *device_why_auto(void) {
  pthread_once(&chosen.once, choose);
  return &chosen.why;
}

const device *device_find(const char *name) {
  if (name && strcmp(name, "auto") != 0)
    return strcmp(name, cpu_device.name) == 0 ? &cpu_device : vulkan_device_find(name);
  (void)device_why_auto();
  return chosen.is;
}
