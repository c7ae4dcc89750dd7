/* Gradients of strided convolutions for their input, as smaller matmuls.
 *
 * Such a part asks of each pixel x and place y in the kernel whether stride s divides v = x + before - y * dilation; most do
 * not, and the product is 0. Pixels of one phase (x mod s) have the same y's with a product, evenly spaced. So the part
 * is cut into one part for each phase of pixels (of all spatial axes together), over the y's of that phase alone: pixel x
 * becomes s * x' + phase, y becomes y0 + t * y', and v / s grows evenly with both: what is left is an ordinary convolution.
 */
#ifndef SINEW_DEVICE_CPU_CONV_H
#define SINEW_DEVICE_CPU_CONV_H

#include "device/cpu/cpu.h"

/* A matmul step with such parts cut; s itself where it has none. What is new stands in the thread's scratch. out_rest: what
 * is to be done behind it (conv_rest.c), or NULL. */
sn_status conv_split(cpu_run *r, const step *s, const step **out,
                     const step **out_rest) SN_MUST_USE;
/* Scratch that this takes, at most. */
size_t conv_split_bytes(const step *s);
/* Waits until the phases are done, and does the rest; NULL is fine. */
sn_status conv_run_rest(cpu_run *r, const step *rest) SN_MUST_USE;
/* Scratch that this takes, at most; s: the step as it was lowered. */
size_t conv_rest_need(const step *s);

/* conv_direct.c: whether all products of an open part are convolutions of so few channels that they are summed where images lie;
 * and that, for rows at[0] … and columns at[1] … (matmul.h: ROWS, COLS). Accumulator a is at c + a * w->sums_size. */
struct matmul_work;
bool conv_is_direct(const struct matmul_work *w);
void conv_sum_direct(struct matmul_work *w, const int64_t at[2], const int64_t n[2], float *c,
                     int64_t c_row);

/* --- inside --- */

enum { CONV_PHASES = 64 }; /* of a part, at most; one with more stays whole */

/* What a part's axes become: coordinate i is from[i] + by[i] * i'. */
typedef struct conv_map {
  int64_t from[REGION_AXES], by[REGION_AXES];
} conv_map;

/* A check with a divisor of an operand that is one load through floor_div registers. */
typedef struct conv_check {
  const check *of;
  int pixel, kernel; /* axes; -1: none */
  int64_t divisor, by_pixel, by_kernel;
} conv_check;

static inline int conv_axes(const matmul_part *t) { return t->n_batch + t->n_m + t->n_n; }
/* Memory for what is made: up to end. */
typedef struct conv_maker {
  const cpu_run *r;
  char *at, *end;
} conv_maker;
void *conv_make(conv_maker *k, size_t bytes);

/* conv_find.c */
/* The load that an operand is, perhaps behind a cast; NULL: it is none. */
const instr *conv_load(const region *code);
bool conv_has_divisor(const region *code);
bool conv_any_divisor(const matmul_part *t);
bool conv_open_check(const cpu_run *r, const check *k, int n_axes, conv_check *out);
/* The check of an access that holds where the register of term x is v / divisor without a remainder; NULL: it is no such register. */
const check *conv_find_check(const cpu_run *r, const region *code, const access *at, const term *x);
/* Whether the accesses of a region can go through a map. */
bool conv_region_fits(const cpu_run *r, const region *code, const conv_map *m);
/* The phases of a part, and by how much pixels step in them; 1: it stays whole. */
int64_t conv_find_phases(const cpu_run *r, const matmul_part *t, conv_map *m);

/* conv_rest.c */
/* Memory of a maker for the rest of a part, at most. */
size_t conv_rest_bytes(const matmul_part *t);
/* A part that is to be cut without its epilogue, and that as a loop; false: it cannot be parted from it, or memory is too small. */
bool conv_make_rest(conv_maker *k, const matmul_part *t, matmul_part *out_bare, loop_part *out);

/* conv_phase.c */
/* One phase of a part; false: it cannot be, or memory is too small. */
bool conv_make_phase(conv_maker *k, const matmul_part *from, const conv_map *m, matmul_part *out);

#endif
