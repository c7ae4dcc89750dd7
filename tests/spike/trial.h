/* One part on the device and in C, compared. Tests fill values and sizes, then call trial_loop or trial_matmul: the
 * part is emitted with 32-bit and with 64-bit indices, checked by spirv-val where that is installed, run, and every value
 * compared with what evaluate.h makes of it. */
#ifndef SINEW_TESTS_SPIKE_TRIAL_H
#define SINEW_TESTS_SPIKE_TRIAL_H

#include "step/step.h"

enum { TRIAL_VALUES = 12, TRIAL_SIZES = 16 };

typedef struct trial {
  uint8_t dtype[TRIAL_VALUES]; /* by value; 0 is unused */
  int64_t count[TRIAL_VALUES];
  void *data[TRIAL_VALUES]; /* before; after a trial what evaluation made of it. Owned. */
  uint32_t n_values;
  int64_t sizes[TRIAL_SIZES]; /* by handle */
  int indices;                /* 32 or 64: only of this width; 0: both */
  double tolerance;           /* of floats: |error| <= tolerance * (1 + |expected|) */
  uint32_t failure[2];        /* of the last run, as the device says */
} trial;

/* The handle of size i. */
static inline sn_dim trial_size(int i) { return DIM_HANDLES - i; }

/* A value of n elements, all 0. Returns its number. */
uint32_t trial_value(trial *t, sn_dtype dtype, int64_t n);
/* The same, with numbers that a simple rule draws: floats in -2 … 2, integers in 0 … high-1. */
uint32_t trial_drawn(trial *t, sn_dtype dtype, int64_t n, int high);
float *trial_floats(const trial *t, uint32_t value);
int32_t *trial_ints(const trial *t, uint32_t value);
void trial_end(trial *t);

/* false, and the running test is skipped with the reason, where there is no device. */
bool trial_possible(void);
struct gpu *trial_device(void); /* after trial_possible */
void trial_loop(trial *t, const loop_part *p);
void trial_matmul(trial *t, const matmul_part *p);

#endif
