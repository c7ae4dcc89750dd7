/* Every single allocation of training made to fail; see support/model_faults.h. */
#include "support/model_faults.h"
#include "support/test.h"

TEST(memory_while_training) { faults_while_training(1); }
