/* Models under failing memory and files; see support/model_faults.h. Training takes every 7th allocation here
 * and all of them in tests/long. */
#include "support/model_faults.h"
#include "support/test.h"

TEST(memory_while_loading) { faults_while_loading(1); }
TEST(memory_while_training) { faults_while_training(7); }
TEST(memory_while_saving) { faults_while_saving(1); }
TEST(memory_while_generating) { faults_while_generating(1); }
TEST(files_while_loading) { io_faults_while_loading(); }
TEST(files_while_saving) { io_faults_while_saving(); }
