/* Regions computed point by point in plain C: what the shaders are compared with. Lanes are f32 and i32; functions are
 * those of libm in double, rounded once. */
#ifndef SINEW_TESTS_SPIKE_EVALUATE_H
#define SINEW_TESTS_SPIKE_EVALUATE_H

#include "step/step.h"

typedef struct eval_env {
  const uint8_t *dtypes; /* by value */
  void *const *data;     /* by value */
  const int64_t *sizes;  /* by handle */
  uint32_t *failure;     /* [2]: as in emit.h; the first failure in order of points stays */
} eval_env;

void eval_loop(const loop_part *p, const eval_env *env);
void eval_matmul(const matmul_part *p, const eval_env *env);

#endif
