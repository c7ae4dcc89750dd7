/* The inside of the region machine, for region.c, access.c, alu.c, reduce.c and loop.c; others use cpu.h.
 *
 * An open region is a list of ops, one an instruction, with numbers for sizes and functions for arithmetic. Every op has
 * the mask of the axes that move its register; an op is skipped where none of them has moved since it was last
 * computed. Ops without any are computed once, on the first tile, for one point that all lanes then share.
 */
#ifndef SINEW_DEVICE_CPU_MACHINE_H
#define SINEW_DEVICE_CPU_MACHINE_H

#include "device/cpu/cpu.h"

/* out = f(a, b, c; x, y), lane by lane; may compute up to the next multiple of CPU_LANE_BLOCK. out overlaps no
 * argument. */
typedef void (*alu_kernel)(void *restrict out, const void *a, const void *b, const void *c,
                           double x, double y, int n);
/* NULL: no such instruction. `from` is the dtype of argument a (of b for select). */
alu_kernel cpu_alu_kernel(alu code, sn_dtype result, sn_dtype from);
/* Brings n lanes to what a dtype can hold: f16 and bf16 are rounded, u8 wraps. Whole blocks of lanes. */
void cpu_alu_round(sn_dtype dtype, void *lanes, int n);

/* One number that varies over the points: base + stride[axis] * i + odd terms. */
typedef struct odd_term {
  uint8_t axis; /* or TERM_REG */
  reg from;
  int64_t stride, div, mod;
} odd_term;
typedef struct index_sum {
  int64_t base, stride[REGION_AXES];
  uint32_t odd_axes; /* that odd terms name */
  bool by_register;
  uint32_t
      register_moves; /* of the registers that odd terms name; known once the region is finished */
  int n_odd;
  odd_term *odd;
} index_sum;
typedef struct index_check {
  index_sum v;
  int64_t size, divisor;
} index_check;
/* A resolved access. */
typedef struct index_access {
  char *data;
  sn_dtype dtype;
  bool nothing; /* a register picks from an axis of size 0: loads give 0 */
  bool aliased; /* a load from memory that this region stores to: never by pointer, always anew */
  index_sum at;
  int n_checks;
  index_check *checks;
} index_access;

/* Masks: bits 0 … REGION_AXES-1 are axes. */
#define MOVES_ALWAYS \
  (UINT32_C(1) << 31) /* accumulators, reductions, memory that the region stores to */
#define MOVES_FIRST (UINT32_C(1) << 30) /* every op: the first tile of its range */

typedef struct region_op_state {
  const instr *i;
  uint32_t moves;
  reg a, b, c; /* arguments; those that name a STORE or REQUIRE name what it passes on instead */
  bool spread; /* once computed for one lane, fill all: what rows hand to points */

  alu_kernel kernel;
  index_access *at;
  void *own;         /* CPU_TILE lanes; NULL for what passes on another's */
  const void *lanes; /* where the register is: own, or memory */
  double *acc;       /* REDUCE of floats: CPU_TILE partial results */
  int32_t *acc_int;  /* of others */
  /* Sharing of memory between registers that are not alive together. */
  int range, last; /* of the op; of the last op that reads it, -1: none */
  bool shares;     /* all its readers move with it */
  int next;        /* in the list of free ones */
} region_op_state;

/* Ops that run together: all of them, or those of one phase of rows or points. */
typedef struct region_range {
  int from, to;
  bool row;
  int phase;
  bool fresh; /* nothing is computed yet */
  bool single;
  int axis, n,
      valid; /* of the last tile; lanes that registers hold that the lane axis does not move */
  int64_t at[REGION_AXES];
} region_range;

struct region_state {
  int n, n_axes, n_ranges;
  bool wide; /* lanes are rows: see reduce_tile */
  int64_t extent[REGION_AXES];
  region_op_state *ops;
  region_range *ranges;
  int64_t *numbers; /* CPU_TILE: indices of one access */
  uint8_t *inside;  /* CPU_TILE: lanes whose checks pass */
  void *spare;      /* CPU_TILE lanes */
  int free;         /* the first op whose memory can be shared, linked by next; -1: none */
  tile one;         /* a single point, for what moves with nothing */
};

/* Opening in two steps, so that loops can merge axes in between: accesses as numbers; then masks, registers and kernels.
 * by_phase: ranges by (phase, row) instead of one. */
sn_status region_resolve(cpu_run *r, const region *code, int n_axes, const int64_t *extents,
                         region_state **out) SN_MUST_USE;
sn_status region_finish(cpu_run *r, region_state *st, bool by_phase) SN_MUST_USE;
void region_run_range(cpu_run *r, region_state *st, region_range *range, const tile *t,
                      const float *const *acc);
/* Fills all lanes with lane 0. */
void region_spread(region_op_state *op);

/* --- access.c --- */
/* Scratch for the resolved form. */
size_t access_bytes(const access *a);
sn_status access_resolve(cpu_run *r, const access *a, int n_axes, const int64_t *extents,
                         index_access **out) SN_MUST_USE;
/* The axes that the numbers of an access move with; registers are ops of st. Notes theirs in the sums. */
uint32_t access_moves(const region_state *st, index_access *a);
void access_load(region_state *st, region_op_state *op, const tile *t);
void access_store(region_state *st, region_op_state *op, const tile *t);
/* Fill st->numbers and st->inside for all lanes. */
void access_numbers(region_state *st, const index_access *a, const tile *t);
void access_inside(region_state *st, const index_access *a, const tile *t);

/* --- reduce.c: lanes into op->acc --- */
/* wide: every lane is a row of its own; otherwise all lanes are points of one row, combined into acc[0]. */
void reduce_begin(region_op_state *op, int rows);
void reduce_tile(region_op_state *op, const void *lanes, int n, bool wide);
/* acc to the register, for `rows` lanes. */
void reduce_end(region_op_state *op, int rows);

#endif
