/* Learning rates as a function of the step. */
#include "base/null.h"

#include "train/optimizer.h"
#include "train/schedule.h"

#include <math.h>

bool schedule_is_usable(const sn_schedule *s) {
  return s->rate >= 0 && s->rate <= OPTIMIZER_MOST_RATE && s->final_rate >= 0 &&
         s->final_rate <= OPTIMIZER_MOST_RATE && s->warmup >= 0 && s->total >= 0;
}

double sn_schedule_rate(const sn_schedule *s, int64_t step) {
  NEEDS_OR(s, 0);
  bool falls = s->kind != SN_SCHEDULE_CONSTANT && s->total > 0;
  if (falls && step >= s->total)
    return s->final_rate;
  if (step < s->warmup)
    return s->rate * (double)(step + 1) / (double)s->warmup;
  if (!falls)
    return s->rate;
  double done = (double)(step - s->warmup) / (double)(s->total - s->warmup);
  double share =
      s->kind == SN_SCHEDULE_COSINE ? (1 + cos(3.14159265358979323846 * done)) / 2 : 1 - done;
  return s->final_rate + (s->rate - s->final_rate) * share;
}
