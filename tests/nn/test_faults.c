/* Models under failing memory and files; see support/model_faults.h. The strides share no factor, so that over
 * the sweeps all kinds of allocation come up; tests/long takes every one. */
#include "support/model_faults.h"
#include "support/test.h"

TEST(memory_while_loading) { faults_while_loading(3); }
TEST(memory_while_training) { faults_while_training(29); }
TEST(memory_while_saving) { faults_while_saving(3); }
TEST(memory_while_generating) { faults_while_generating(17); }
TEST(files_while_loading) { io_faults_while_loading(); }
TEST(files_while_saving) { io_faults_while_saving(); }
