/* Frequencies of rope: how far a pair of elements turns for each step of position.
 *
 * Pair i of dims / 2 turns by theta_i = base^(-2i / dims) radians a step. The kinds of scaling
 * stretch that to longer texts than a model was trained on:
 *   default   theta
 *   linear    theta / factor
 *   dynamic   theta of a larger base: base * (factor * L / original_length - (factor - 1)) ^
 *             (dims / (dims - 2)), L the larger of original_length and the highest position + 1
 *   llama3    theta for pairs that turn more than `high` times within original_length, theta /
 *             factor for those that turn less than `low` times, in between linear in the number
 *             of turns
 *   yarn      theta for pairs below the one that turns `high` (beta_fast) times within
 *             original_length, theta / factor above the one that turns `low` (beta_slow) times, in
 *             between linear in i; both pairs rounded outwards to whole numbers
 * Where `rounding` is f16 or bf16 the result is rounded to it (not in dynamic scaling).
 * All but dynamic are theta * (keep + (1 - keep) / factor), with keep from 0 to 1 a pair. */
#ifndef SINEW_OPS_ATTENTION_ROPE_H
#define SINEW_OPS_ATTENTION_ROPE_H

#include "ops/common.h"

/* What cos and sin are multiplied with: attention_factor; 0 stands for yarn's 0.1 ln(factor) + 1 (1
 * when factor <= 1), and for 1 in the other kinds. */
double rope_magnitude(const attrs_rope *a);
/* keep = clamp(mul * x + add, 0, 1) where x is the pair's number or its theta. */
typedef struct rope_ramp {
  double mul, add;
  bool of_index;
} rope_ramp;
rope_ramp rope_keep(const attrs_rope *a);
/* Turn of pair i for each step; last: the highest position (dynamic). */
double rope_frequency(const attrs_rope *a, int64_t i, double last);

/* rope in simpler ops (rope_composed.c). */
void rope_decompose(build_ctx *c);

#endif
