/* See vulkan_case.h. */
#include "support/vulkan_case.h"

#include "device/devices.h"
#include "support/test.h"

#include <stdlib.h>

/* The layer has threads of its own, in which the thread sanitizer finds what is not ours. */
#ifdef __SANITIZE_THREAD__
static const char VALIDATE[] = "0";
#else
static const char VALIDATE[] = "1";
#endif

bool vulkan_ready(void) {
  setenv("SINEW_VULKAN_VALIDATE", VALIDATE, 0);
  setenv("SINEW_CACHE", "off", 0);
  if (gpu_count() > 0) {
    CHECK(gpu_validates() || strcmp(getenv("SINEW_VULKAN_VALIDATE"), "0") == 0);
    return true;
  }
  test_skip("no Vulkan: %s", gpu_why_none());
  return false;
}

void vulkan_check(void) {
  gpu_close_unused();
  if (gpu_complaints() > 0)
    FAIL("the validation layer: %s", gpu_complaint());
  gpu_forget_complaints();
}

const struct device *vulkan_device(void) { return vulkan_device_at(0); }
