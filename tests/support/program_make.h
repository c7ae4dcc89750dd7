/* Programs made by hand or at random, without graphs: for tests of the passes on programs. Steps are pointwise, one part, a load of
 * element i0 for each value read and a store of it for each value written; values are vectors of f32.
 *
 *   program_make m;
 *   program_make_start(&m, ctx);
 *   uint32_t a = make_value(&m, HOME_INPUT, 256), b = make_value(&m, HOME_ARENA, 256);
 *   make_step(&m, (uint32_t[]){a, 0}, (uint32_t[]){b, 0});
 *   program *p = program_make_end(&m, 0, 0);          // NULL when memory ran out on the way
 */
#ifndef SINEW_TESTS_SUPPORT_PROGRAM_MAKE_H
#define SINEW_TESTS_SUPPORT_PROGRAM_MAKE_H

#include "plan/plan.h"

typedef struct program_make {
  program *p;
  uint32_t cap_values;
  int n_steps, cap_steps;
  int next_index[HOME_CONSTANT + 1];
  bool failed;
} program_make;

void program_make_start(program_make *m, sn_ctx *ctx);
/* bytes: a multiple of 4. Inputs, outputs and states get the next index of their kind. */
uint32_t make_value(program_make *m, value_home home, int64_t bytes);
/* Lists end with 0. The step's `flops` become its number, by which tests know it again. */
void make_step(program_make *m, const uint32_t *reads, const uint32_t *writes);
/* Adds values to wait for to the last step. */
void make_after(program_make *m, const uint32_t *values);
/* The program; its first n_prepare steps are prepare, its last n_commit commit. */
program *program_make_end(program_make *m, int n_prepare, int n_commit);

/* A fixed sequence by seed; 0 … n-1. */
int make_draw(uint64_t *state, int n);

/* At random: pieces, values in place of others, `after`, states that commit writes, prepared values. */
typedef struct random_program {
  uint64_t seed;
  int steps;
  int64_t largest; /* bytes of a value */
  bool plain;      /* none of the above: a graph of arena values */
} random_program;
program *make_random_program(sn_ctx *ctx, const random_program *how);
/* Like training: layers forwards whose results stay until their turn backwards, and short-lived values in between. */
program *make_training_program(sn_ctx *ctx, uint64_t seed, int layers);

/* --- told apart from the passes' own code --- */

/* Whether a step reads (or writes) a value. */
bool made_reads(const step *s, uint32_t value);
bool made_writes(const step *s, uint32_t value);
/* The value at the end of the chain of in_place_of. */
uint32_t made_root(const program *p, uint32_t value);
/* First and last step that reads or writes a value of a block; false when none does. */
bool made_life(const program *p, uint32_t root, int *first, int *last);
/* Largest sum of arena blocks alive at once, in bytes rounded up to PROGRAM_ALIGN. */
int64_t made_peak(const program *p);

#endif
