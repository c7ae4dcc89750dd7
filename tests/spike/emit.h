/* Region programs as compute shaders: loop parts, and matmul parts with their operand regions and epilogue. A spike: it asks whether the vocabulary of step/region.h can be said in SPIR-V, not how fast.
 *
 * A shader's block of parameters is an array of 64-bit words: the address of the failure record, then by value its
 * address (word 1 + value; that of value 0 is 0), then the sizes by handle. The failure record is two 32-bit words that
 * begin as 0: 1 + the site of a requirement that did not hold, and the number to show.
 */
#ifndef SINEW_TESTS_SPIKE_EMIT_H
#define SINEW_TESTS_SPIKE_EMIT_H

#include "step/step.h"

enum { EMIT_THREADS = 64 }; /* of a workgroup */

typedef struct emit_env {
  const uint8_t *dtypes; /* by value */
  uint32_t n_values;     /* value 0 included */
  bool wide;             /* indices of 64 bits; otherwise of 32, and all sizes must fit */
} emit_env;

typedef struct shader {
  uint32_t *words;
  size_t n;
  int instructions; /* in its functions */
  char why[96];     /* words NULL: what cannot be said */
} shader;

/* The caller frees the words. */
shader emit_loop(const loop_part *p, const emit_env *env);
shader emit_matmul(const matmul_part *p, const emit_env *env);

static inline size_t emit_parameter_words(const emit_env *env, size_t n_sizes) {
  return 1 + env->n_values + n_sizes;
}

#endif
