/* As run/test_save_kills.c, a thousand times. */
#include "support/save_kills.h"
#include "support/test.h"

TEST(killed_saves_leave_whole_files_and_no_others) { save_kills_check(1000); }
