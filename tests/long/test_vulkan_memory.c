/* Sessions on a GPU and their runs, over and over, leave nothing behind; see device/vulkan/test_memory.c. Without the validation layer,
 * which keeps records of its own. */
#include "support/test.h"
#include "support/vulkan_leaks.h"

#include <stdlib.h>

TEST(sessions_leave_nothing) {
  setenv("SINEW_VULKAN_VALIDATE", "0", 1);
  vulkan_leaks_of_sessions(100);
}

TEST(runs_leave_nothing) {
  setenv("SINEW_VULKAN_VALIDATE", "0", 1);
  vulkan_leaks_of_runs(100000);
}
