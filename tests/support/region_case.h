/* Loop parts built by hand, for tests of the CPU device: values with memory, a region of instructions, a run through
 * cpu_run_loop with exactly the scratch that it asks for; and a naive interpreter of the same part, point by point in
 * doubles, to compare with.
 *
 *   region_case *c = region_case_create();
 *   uint32_t x = region_value(c, SN_F32, 12, values), y = region_value(c, SN_F32, 12, NULL);
 *   reg a = region_load(c, x, 0, 2, (sn_dim[]){4, 1});
 *   region_store(c, y, region_alu(c, ALU_exp, SN_F32, a, 0, 0), 0, 2, (sn_dim[]){4, 1});
 *   CHECK(region_case_run(c, 2, (sn_dim[]){3, 4}) == SN_OK);
 *   region_case_check(c, 1e-6);                                   // all values against the interpreter
 *   region_case_destroy(c);
 */
#ifndef SINEW_TESTS_SUPPORT_REGION_CASE_H
#define SINEW_TESTS_SUPPORT_REGION_CASE_H

#include "support/cpu_case.h"

enum { CASE_VALUES = 32, CASE_TERMS = 2048, CASE_CHECKS = 256, CASE_SIZES = 16, CASE_ISAS = 4 };

typedef struct region_case {
  sn_ctx *ctx;
  program program;
  program_value values[CASE_VALUES];
  void *data[CASE_VALUES];       /* exactly as large as the value */
  double *expected[CASE_VALUES]; /* before the run, then what the interpreter makes of it */
  int64_t sizes[CASE_SIZES];     /* of handles; set them freely */
  instr code[REGION_MAX];
  term terms[CASE_TERMS];
  check checks[CASE_CHECKS];
  int n_terms, n_checks;
  loop_part part; /* n_outer, n_phases: 0 and 1 unless set */
  int phase;      /* that instructions are given */
  bool row;
  bool failed;  /* of the interpreter: a require did not hold */
  cpu_case run; /* as it was left */
  void *of_isa[CASE_ISAS]
              [CASE_VALUES]; /* what the data are on other instruction sets than the best */
} region_case;

region_case *region_case_create(void);
void region_case_destroy(region_case *c);
/* A size whose value stands in a table. */
sn_dim region_size(region_case *c, int handle, int64_t value);
/* values are rounded to the dtype; NULL: all 99. */
uint32_t region_value(region_case *c, sn_dtype dtype, int64_t count, const double *values);
/* Another value on the same memory. */
uint32_t region_value_at(region_case *c, uint32_t of);

reg region_emit(region_case *c, instr i);
access region_access(region_case *c, uint32_t value, sn_dim base, int n_terms, const term *terms);
void region_add_check(region_case *c, access *a, check k);
/* With plain strides, by axis; 0 strides make no term. */
reg region_load(region_case *c, uint32_t value, sn_dim base, int n, const sn_dim *strides);
reg region_store(region_case *c, uint32_t value, reg a, sn_dim base, int n, const sn_dim *strides);
reg region_alu(region_case *c, alu code, sn_dtype dtype, reg a, reg b, reg d);
reg region_number(region_case *c, sn_dtype dtype, double x);
reg region_reduce(region_case *c, reduce_kind kind, sn_dtype dtype, reg a);

/* On every instruction set and on 1 to 4 threads, which must give the same bits. */
sn_status region_case_run(region_case *c, int n_axes, const sn_dim *extents);
/* Runs the interpreter on what values were, and compares all of them, of all instruction sets: relative to the larger of 1 and the
 * value. */
bool region_case_check(region_case *c, double tolerance);

#endif
