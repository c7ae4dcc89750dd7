/* Devices by name on the command line; a GPU that is not there, and why. */
#include "support/command.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#define SINEW(...) command_run(command_sinew(), __VA_ARGS__, (char *)NULL)

/* As on a machine without a GPU; NULL: as it is. */
static void use_drivers(const char *file) {
  const char *names[] = {"VK_ICD_FILENAMES", "VK_DRIVER_FILES"};
  for (int i = 0; i < 2; i++)
    if (file)
      setenv(names[i], file, 1);
    else
      unsetenv(names[i]);
}

static void check_without(const char *name, const char *says) {
  command_result r = SINEW("check", "dir", "golden.json", "--device", name);
  CHECK_EQ_INT(r.code, 2);
  CHECK_STR_HAS(r.err, name);
  CHECK_STR_HAS(r.err, says);
  command_free(&r);
}

TEST(no_driver) {
  use_drivers("/no/such/file");
  check_without("vulkan", "no Vulkan");
  check_without("vulkan:0", "no Vulkan");
  command_result r = SINEW("devices");
  CHECK_EQ_INT(r.code, 0);
  CHECK(strstr(r.out, "vulkan") == NULL);
  CHECK_STR_HAS(r.out, "cpu");
  command_free(&r);
  use_drivers(NULL);
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
  use_drivers("/no/such/file");
  check_on_cpu("auto", "no Vulkan");
  check_on_cpu("cpu", "");
  check_on_cpu("ref", "");
  use_drivers(NULL);
}

TEST(no_such_device) {
  check_without("vulkan:99", "`sinew devices` lists them");
  check_without("vulkans", "`sinew devices` lists them");
}
