/* Some kills in the midst of saves; tests/long has many. */
#include "support/save_kills.h"
#include "support/test.h"

TEST(killed_saves_leave_whole_files_and_no_others) { save_kills_check(30); }
