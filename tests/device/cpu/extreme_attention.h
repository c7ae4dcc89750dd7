/* Attention whose scores are so large that a unit in their last place is more than exp can take, or infinite, or the least
 * numbers that there are: extreme_each(shape, each). What is largest weighs 1 all the same. */
#ifndef SINEW_TESTS_DEVICE_CPU_EXTREME_ATTENTION_H
#define SINEW_TESTS_DEVICE_CPU_EXTREME_ATTENTION_H

#include "device/cpu/core_case.h"

#include <stdio.h>

typedef struct extreme_shape {
  int batch, heads, rows, keys, width;
} extreme_shape;

/* Rows of q and k have one number other than 0, which is a power of 2 in k: products are exact. */
static inline void extreme_set_scores(case_tensor *in, double to) {
  int64_t d = in[0].type.shape.dim[3];
  for (int t = 0; t < 2; t++)
    for (int64_t i = 0; i < in[t].count; i++)
      in[t].data[i] = i % d != 1 ? 0 : t == 0 ? to : ldexp(1, (int)(i / d * 7 % 5));
}
static inline void extreme_huge(case_tensor *in) { extreme_set_scores(in, 0x1.8p60); }
static inline void extreme_huger(case_tensor *in) { extreme_set_scores(in, 0x1.8p100); }
static inline void extreme_below(case_tensor *in) { extreme_set_scores(in, -0x1.8p60); }

static inline void extreme_set_bias(case_tensor *in, const double points[5]) {
  for (int64_t i = 0; i < in[4].count; i++)
    in[4].data[i] = points[i % 5];
}
static inline void extreme_huge_bias(case_tensor *in) {
  extreme_set_bias(in, (double[]){0x1.8p60, -0x1.8p60, 0, 0x1.8p59, 0x1.8p58});
}
static inline void extreme_huger_bias(case_tensor *in) {
  extreme_set_bias(in, (double[]){0x1.8p100, -0x1.8p100, -INFINITY, 0x1.8p100, 0x1.8p98});
}
/* What some take for minus infinity is a number: rows that have nothing else see all keys alike. */
static inline void extreme_least_bias(case_tensor *in) {
  const double least = -0x1.fffffep127;
  extreme_set_bias(in, (double[]){least, least, least, least, least});
}
static inline void extreme_no_bias(case_tensor *in) {
  extreme_set_bias(in, (double[]){-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY});
}
static inline void extreme_above(case_tensor *in) {
  extreme_set_bias(in, (double[]){0, INFINITY, 0, 1, -1e30});
}

/* With and without a bias, lengths (of which one is 0), sinks, a window. */
static inline void extreme_check(const extreme_shape *n, int way, core_change *change, bool bias,
                                 void (*each)(const char *source, core_change *change)) {
  char source[400], of_bias[60] = "none", of_sinks[20] = "none";
  const char *length = !(way & 2) ? "none" : n->batch == 1 ? "i32[1]{0}" : "i32[2]{5, 0}";
  if (bias)
    snprintf(of_bias, sizeof of_bias, "f32[%d, %d]", n->rows, n->keys);
  if (way & 4)
    snprintf(of_sinks, sizeof of_sinks, "f32[%d]", n->heads);
  snprintf(source, sizeof source,
           "attention(f32[%d, %d, %d, %d], f32[%d, 1, %d, %d], f32[%d, 1, %d, %d], none, %s, %s, "
           "%s) scale=0.25%s",
           n->batch, n->heads, n->rows, n->width, n->batch, n->keys, n->width, n->batch, n->keys,
           n->width + 1, of_bias, length, of_sinks, way & 1 ? " causal=end window=3" : "");
  each(source, change);
}

static inline void extreme_each(const extreme_shape *n,
                                void (*each)(const char *source, core_change *change)) {
  static core_change *const scores[] = {extreme_huge, extreme_huger, extreme_below};
  static core_change *const biases[] = {extreme_huge_bias, extreme_huger_bias, extreme_least_bias,
                                        extreme_no_bias, extreme_above};
  for (int way = 0; way < 8; way++) {
    for (size_t i = 0; i < COUNT_OF(scores); i++)
      extreme_check(n, way, scores[i], false, each);
    for (size_t i = 0; i < COUNT_OF(biases); i++)
      extreme_check(n, way, biases[i], true, each);
  }
}

#endif
