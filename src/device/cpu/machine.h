/* The inside of the region machine, for region.c, access.c, alu.c, reduce.c and
 * loop.c; others use cpu.h.
 *
 * An open region is a list of ops, one an instruction, with numbers for sizes
 * and functions for arithmetic. Every op has the mask of the axes that move its
 * register; an op is skipped where none of them has moved since it was last
 * computed. Ops without any are computed once, on the first tile, for one point
 * that all lanes then share.
 */
#ifndef SINEW_DEVICE_CPU_MACHINE_H
#define SINEW_DEVICE_CPU_MACHINE_H

#include "device/cpu/cpu.h"
#include "device/cpu/isa/lanes.h"

/* One number that varies over the points: base + stride[axis] * i + odd terms.
 */
typedef struct odd_term {
  uint8_t axis; /* or TERM_REG */
  reg from;
  int64_t stride, div, mod;
} odd_term;
typedef struct index_sum {
  int64_t base, stride[REGION_AXES];
  uint32_t odd_axes; /* that odd terms name */
  bool by_register;
  uint32_t register_moves; /* of the registers that odd terms name; known once
                              the region is finished */
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
  int size;       /* bytes of an element */
  bool simple;    /* linear along every axis, without checks */
  bool nothing;   /* a register picks from an axis of size 0: loads give 0 */
  int64_t count;  /* elements of the value */
  int64_t reach;  /* behind the last element that the access touches; 0: not known */
  bool aliased;   /* a load from memory that this region stores to: always anew */
  bool copied;    /* and its lanes may not be that memory: it changes while they
                   are read */
  bool streams;   /* a store past the caches */
  int64_t before; /* where the last block was loaded from */
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
  reg a, b, c;  /* arguments; those that name a STORE or REQUIRE name what it
                  passes on instead */
  int same;     /* the op of an earlier phase that stands for this one; -1: none */
  bool dropped; /* nothing needs it */
  bool one;     /* the same for all points: lane 0 is all that is computed */
  bool by_row;  /* lanes are the rows of a batch: points read the lane of theirs */
  bool spread;  /* though one, all lanes hold it: some reader wants them */
  int store;    /* ALU: the STORE whose memory it may write right away; -1: none */

  /* Chains. Every op is one of its own at first. */
  int head, tail;     /* the first and the last of it */
  int member;         /* the next; -1: this is the last */
  int first, second;  /* ops that read this one, in order; -1: none */
  int steps, n_steps; /* of the last: in st->steps */
  bool flat, flat_ok; /* a load: lane 0 stands for all; that may be so */
  int ahead;          /* a load: bytes to what will be loaded next; 0: not known */
  bool leads;         /* of loads of the same in several phases, the one that asks for that */

  lane_alu kernel;
  int arguments; /* of the kernel */
  index_access *at;
  void *own;         /* NULL for what passes on another's */
  const void *lanes; /* where the register is: own, or memory */
  double *acc;       /* REDUCE of floats: partial results, of lanes of a row or of rows */
  int32_t *acc_int;  /* of others */
  /* Sharing of memory between registers that are not alive together. */
  int range, last; /* of the op; of the last op that reads it, -1: none */
  bool shares;     /* all its readers move with it */
  int next;        /* in the list of free ones */
} region_op_state;

/* A step of a chain: a lane_step whose addresses are those of ops. */
typedef struct chain_step {
  int16_t code, with, other, to;
  bool with_row, other_row; /* the lane of the row at work */
} chain_step;

/* Ops that run together: all of them, or those of one phase of rows or points.
 */
typedef struct region_range {
  int from, to;
  bool row;
  int phase;
  int chains; /* how many there are in it */
  bool fresh; /* nothing is computed yet */
  bool single;
  int axis, n, valid; /* of the last tile; lanes that registers hold that the
                         lane axis does not move */
  int64_t at[REGION_AXES];
} region_range;

/* How the segments of a tile lie: one; or all of one length, a step along
 * `axis` apart; or anyhow. */
typedef struct tile_shape {
  bool regular;
  int axis; /* -1: one segment */
} tile_shape;

/* Lanes of registers, at most; those of other users of regions have CPU_TILE. */
enum { REGION_LANES = 1024, REGION_LANES_MOST = 4096 };

struct region_state {
  const lane_kernels *kernels;
  int lanes; /* of a register: room for a tile */
  int n, n_axes, n_ranges;
  bool wide;       /* lanes are rows: see reduce_tile */
  bool whole_rows; /* a tile holds a row, so that it is at hand in all its phases */
  int batch; /* rows whose row registers are lanes side by side, while points run row by row; 0: not so */
  int row; /* of the batch: at work */
  int64_t extent[REGION_AXES];
  region_op_state *ops;
  region_range *ranges;
  int64_t *numbers; /* indices of one access */
  uint8_t *inside;  /* lanes whose checks pass */
  void *spare;      /* a register */
  int free;         /* the first op whose memory can be shared, linked by next; -1: none
             */
  chain_step *steps;
  int n_steps;
  tile_shape shape; /* of the tile at work */
  uint32_t joins;   /* bit a: every access walks through axes a-1 and a as if they were one */
  tile joined;      /* a tile whose segments were joined so */
  tile one;         /* a single point, for what moves with nothing */
};

/* --- region_open.c --- */
/* Opening in two steps, so that loops can merge axes in between: accesses as
 * numbers; then masks, registers and kernels. by_phase: ranges by (phase, row)
 * instead of one. */
sn_status region_resolve(cpu_run *r, const region *code, int n_axes, const int64_t *extents,
                         int lanes, region_state **out) SN_MUST_USE;
/* Scratch that this takes, at most. */
size_t region_bytes(const region *code, int lanes);
sn_status region_finish(cpu_run *r, region_state *st, bool by_phase) SN_MUST_USE;
/* Whether every access walks through axes a and b, in this order, as if they were one. */
bool region_joins(const region_state *st, int a, int b);
/* What an argument stands for: that names a STORE or REQUIRE, or what an earlier phase has. */
reg region_root(const region_state *st, reg a);
/* Whether two loads or stores are of the same memory, in part. */
bool region_overlap(const region_op_state *a, const region_op_state *b);

/* Whether two accesses are of the same element at every point. */
bool region_same_place(const index_access *a, const index_access *b);
/* Calls f on every register that op i reads, also through indices. */
void region_each_read(region_state *st, int i, void (*f)(region_state *st, int reader, reg a));

/* --- region_same.c --- */
/* Of rows that a tile holds whole: lets later phases take what earlier ones computed. Whether there is such. */
bool region_find_same(region_state *st);

/* --- region_chain.c --- */
size_t chain_bytes(int n); /* scratch for the steps of n ops */
/* Sets st->batch, to so many rows or to none; before the region is finished. */
void chain_choose_batch(region_state *st, int rows);
/* Before registers are given out. */
void chain_form(region_state *st);
/* Of the op that ends a chain. */
void chain_run(region_state *st, const region_op_state *tail, const tile *t);

/* --- region.c --- */
void region_run_range(cpu_run *r, region_state *st, region_range *range, const tile *t,
                      const float *const *acc);
/* For a reader that wants all lanes of what is the same for all points. */
void region_spread(const region_state *st, region_op_state *op);

/* --- access.c, access_lanes.c --- */
/* Scratch for the resolved form. */
size_t access_bytes(const access *a);
sn_status access_resolve(cpu_run *r, const access *a, int n_axes, const int64_t *extents,
                         index_access **out) SN_MUST_USE;
/* The axes that the numbers of an access move with; registers are ops of st.
 * Notes theirs in the sums. */
uint32_t access_moves(const region_state *st, index_access *a);
void access_load(region_state *st, region_op_state *op, const tile *t);
void access_store(region_state *st, region_op_state *op, const tile *t);
/* Where a store of the tile is dense f32, and so may be written as a register:
 * its memory; else NULL. */
void *access_dense(const region_state *st, const region_op_state *store, const tile *t);
/* INDEX and INSIDE. */
void access_index(region_state *st, region_op_state *op, const tile *t);
/* Fills st->numbers for all lanes. */
void access_numbers(region_state *st, const index_access *a, const tile *t);

/* Whether a sum is a start and a stride along a segment on this axis; the start of a segment, without what is not linear; all
 * numbers of one. */
bool sum_is_linear(const index_sum *s, int axis);
int64_t sum_start(const region_state *st, const index_sum *s, const segment *g, int axis);
void sum_numbers(const region_state *st, const index_sum *s, const segment *g, int axis,
                 int64_t *v);

/* --- reduce.c: lanes into op->acc --- */
/* wide: every lane is a row of its own; otherwise all lanes are points of one
 * row. */
void reduce_begin(const region_state *st, region_op_state *op, int rows);
void reduce_tile(const region_state *st, region_op_state *op, const void *lanes, int n);
/* The partial results of one row become one, in acc[0]. Not of wide ones, which
 * are one a row. */
void reduce_fold(const region_state *st, region_op_state *op);
/* n results of another reduction of the same kind (f64, or i32) into acc. */
void reduce_combine(region_op_state *op, const void *from, int n);
/* acc to the register, for `rows` lanes. */
void reduce_end(const region_state *st, region_op_state *op, int rows);

#endif
