/* A product by cooperative matrices that a GPU must compute rightly before any other is: see self_test_matrix.c. Apart from who runs
 * it, so that tests can run it on the interpreter and plant mistakes. */
#ifndef SINEW_DEVICE_VULKAN_SELF_TEST_MATRIX_H
#define SINEW_DEVICE_VULKAN_SELF_TEST_MATRIX_H

#include "device/vulkan/emit.h"

/* Layouts of a and b, two each. Sides of a matrix: at most 64. */
enum {
  TRIAL_LAYOUTS = 4,
  TRIAL_SIDE = 64,
  TRIAL_GROUPS = 2,
  TRIAL_STEPS = 2,
  TRIAL_X = 1,
  TRIAL_Y
};

typedef struct matrix_trial {
  int size[3]; /* m, n, k */
  sn_dtype half;
  int subgroup;
  program program;
  program_value values[3];
  program_leaf input, output;
  step step;
  part part;
  int n_words, n_sums; /* of x, of y */
  uint32_t *x;         /* halves in pairs; of products: a, b, and both transposed */
  float *y;            /* sums; of products: by layout */
} matrix_trial;

/* false: no memory, or matrices that it is not made for. Free in any case. */
bool matrix_trial_create(matrix_trial *t, sn_ctx *ctx, const gpu_target *target, sn_dtype half);
void matrix_trial_free(matrix_trial *t, sn_ctx *ctx);
/* As emit_env.by_hand; `hand` is the trial. */
sn_status matrix_trial_emit(emitter *e, const part *p) SN_MUST_USE;
bool matrix_trial_is_right(const matrix_trial *t);

/* --- the same for places of elements (kernel_matrix.h): see self_test_places.c. Freed like the other one --- */
bool places_trial_create(matrix_trial *t, sn_ctx *ctx, const gpu_target *target, sn_dtype half);
sn_status places_trial_emit(emitter *e, const part *p) SN_MUST_USE;
bool places_trial_is_right(const matrix_trial *t);

/* --- and for launches that wait by themselves: see self_test_chain.c --- */
bool chain_trial_create(matrix_trial *t, sn_ctx *ctx, const gpu_target *target, int seed);
sn_status chain_trial_emit(emitter *e, const part *p) SN_MUST_USE;
bool chain_trial_is_right(const matrix_trial *t);

/* Memory of n_words and n_sums, all 0, and the program; for the three. */
bool matrix_trial_build(matrix_trial *t, sn_ctx *ctx);

#endif
