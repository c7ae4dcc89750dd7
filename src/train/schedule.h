/* What a schedule must be: for trainers that are made and for checkpoints that are read. */
#ifndef SINEW_TRAIN_SCHEDULE_H
#define SINEW_TRAIN_SCHEDULE_H

#include <sinew/train.h>

/* Whether rates lie in 0 … OPTIMIZER_MOST_RATE, and warm-up and total are not negative. */
bool schedule_is_usable(const sn_schedule *s);

#endif
