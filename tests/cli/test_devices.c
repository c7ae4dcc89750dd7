/* Devices by name on the command line; a GPU that is not there, and why. */
#include "support/command.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#define SINEW(...) command_run(command_sinew(), __VA_ARGS__, (char *)NULL)

static void check_without(const char *name, const char *says) {
  command_result r = SINEW("check", "dir", "golden.json", "--device", name);
  CHECK_EQ_INT(r.code, 2);
  CHECK_STR_HAS(r.err, name);
  CHECK_STR_HAS(r.err, says);
  command_free(&r);
}

TEST(no_driver) {
  setenv("VK_ICD_FILENAMES", "/no/such/file", 1);
  setenv("VK_DRIVER_FILES", "/no/such/file", 1);
  check_without("vulkan", "no Vulkan");
  check_without("vulkan:0", "no Vulkan");
  command_result r = SINEW("devices");
  CHECK_EQ_INT(r.code, 0);
  CHECK(strstr(r.out, "vulkan") == NULL);
  CHECK_STR_HAS(r.out, "cpu");
  command_free(&r);
  unsetenv("VK_ICD_FILENAMES");
  unsetenv("VK_DRIVER_FILES");
}

static void check_on_cpu(const char *device, const char *says) {
  command_result r = device
                         ? SINEW("bench", "ops", "--quick", "--filter", "add", "--device", device)
                         : SINEW("bench", "ops", "--quick", "--filter", "add");
  CHECK_EQ_INT(r.code, 0);
  if (*says) {
    CHECK_STR_HAS(r.err, "on the CPU");
    CHECK_STR_HAS(r.err, says);
  } else
    CHECK(strstr(r.err, "on the CPU") == NULL);
  command_free(&r);
}

/* It means the CPU where no GPU is good, and says why. */
TEST(auto_says_why_it_is_the_cpu) {
  setenv("VK_ICD_FILENAMES", "/no/such/file", 1);
  setenv("VK_DRIVER_FILES", "/no/such/file", 1);
  check_on_cpu("auto", "no Vulkan");
  check_on_cpu("cpu", "");
  check_on_cpu("ref", "");
  unsetenv("VK_ICD_FILENAMES");
  unsetenv("VK_DRIVER_FILES");
}

TEST(no_such_device) {
  check_without("vulkan:99", "`sinew devices` lists them");
  check_without("vulkans", "`sinew devices` lists them");
}
