/* Regions written by hand, for tests:
 *
 *   code c = {0};
 *   reg x = code_load(&c, SN_F32, X, 2, (term[]){{0, 0, 8, 1, 0}, {1, 0, 1, 1, 0}});   // x[8 i + j]
 *   code_store(&c, code_alu1(&c, ALU_exp, SN_F32, x), Y, …);
 *   loop_part p = {.n_axes = 2, .n_phases = 1, .extent = {4, 8}, .code = code_region(&c)};
 */
#ifndef SINEW_TESTS_SPIKE_CODE_H
#define SINEW_TESTS_SPIKE_CODE_H

#include "step/step.h"

enum { CODE_MAX = 48, CODE_PLACES = 96, CODE_CHECKS = 8 };

typedef struct code {
  instr at[CODE_MAX];
  term terms[CODE_PLACES];
  check checks[CODE_CHECKS];
  int n, n_terms, n_checks;
} code;

reg code_add(code *c, const instr *i);
/* n terms are copied; those of a term are {axis, register, stride, div, mod}. */
reg code_load(code *c, sn_dtype dtype, uint32_t value, int n, const term *terms);
/* Gives the last load or INSIDE one check more, of one term. */
void code_check(code *c, term t, sn_dim offset, sn_dim size, sn_dim divisor);
void code_store(code *c, reg a, uint32_t value, int n, const term *terms);
/* Base of the last load, store or index. */
void code_base(code *c, sn_dim base);
reg code_index(code *c, int n, const term *terms);
reg code_word(code *c, const reg key[3], int stream, int n, const term *terms);
reg code_number(code *c, sn_dtype dtype, double x);
reg code_alu1(code *c, alu op, sn_dtype dtype, reg a);
reg code_alu2(code *c, alu op, sn_dtype dtype, reg a, reg b);
reg code_alu3(code *c, alu op, sn_dtype dtype, reg a, reg b, reg d);
region code_region(const code *c);

#endif
