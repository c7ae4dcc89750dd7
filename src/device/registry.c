/* The devices of this build on this machine. Called by whoever picks one by name. The CPU is always there; GPUs are found when
 * they are first asked for, since that loads their drivers. */
#include "device/devices.h"

#include <pthread.h>

/* What "auto" means, once for the process: a GPU that has shown that it computes rightly, else the CPU. Software drivers,
 * which are slower than the CPU device, are never meant. */
static struct {
  pthread_once_t once;
  const device *is;
} chosen = {.once = PTHREAD_ONCE_INIT};

static void choose(void) {
  const device *gpu = vulkan_device_proved();
  chosen.is = gpu ? gpu : &cpu_device;
}

static const device *chosen_device(void) {
  pthread_once(&chosen.once, choose);
  return chosen.is;
}

/* The CPU, then GPUs. */
static const device *plain_at(int index) {
  return index == 0 ? &cpu_device : vulkan_device_at(index - 1);
}

/* The chosen one first, then the others. */
const device *device_at(int index) {
  const device *first = chosen_device();
  int place = 0;
  if (index <= 0 || first == &cpu_device)
    return index < 0 ? NULL : index == 0 ? first : plain_at(index);
  while (plain_at(place) != first)
    place++;
  return plain_at(index <= place ? index - 1 : index);
}

const device *device_find(const char *name) {
  if (!name || strcmp(name, "auto") == 0)
    return chosen_device();
  return strcmp(name, cpu_device.name) == 0 ? &cpu_device : vulkan_device_find(name);
}
