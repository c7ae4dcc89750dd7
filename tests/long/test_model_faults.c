/* Every single allocation of loading, training, saving and generating made to fail; see
 * support/model_faults.h. */
#include "support/model_faults.h"
#include "support/test.h"

TEST(memory_while_loading) { faults_while_loading(1); }
TEST(memory_while_training) { faults_while_training(1); }
TEST(memory_while_saving) { faults_while_saving(1); }
TEST(memory_while_generating) { faults_while_generating(1); }
