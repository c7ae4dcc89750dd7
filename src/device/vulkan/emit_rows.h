/* Rows in the making, for emit_rows.c (row steps) and emit_row_points.c (the points of a row, several of a lane at once). */
#ifndef SINEW_DEVICE_VULKAN_EMIT_ROWS_H
#define SINEW_DEVICE_VULKAN_EMIT_ROWS_H

#include "device/vulkan/emit.h"

/* Points that a lane has at once, those of other lanes in between. */
typedef struct row_shape {
  int unroll;
  bool kept; /* they are all that it has, from phase to phase */
  bool four; /* they are fours of neighbours, which vectors read */
} row_shape;

typedef struct row {
  const loop_part *part;
  row_threads threads;
  int pieces;          /* a power of two; 1: all of a row in one kernel */
  int slices;          /* a power of two: workgroups that share the last phase of a row */
  val active;          /* bool: this thread's row is one; 0: always */
  val number;          /* of the row, index; the last one's where it is none */
  val piece;           /* or slice; index */
  val from, to;        /* points of the piece; none where the row is none */
  val sum[REGION_MAX]; /* by instruction: a variable with what a lane has of a reduction so far */
  int64_t scratch
      [REGION_MAX]; /* by instruction: where the results of a reduction's pieces begin, by row and piece */
  row_shape shape;
  struct row_point {
    val flat;   /* its number in the row, or another's where there is none */
    val exists; /* bool: there is such a point; 0: always */
    val mine;   /* bool: and it is of a row that is one; 0: always */
    val axis[REGION_AXES];
  } point[EMIT_UNROLL];
  bool loaded[REGION_MAX]; /* by instruction: before the first phase */
  bool quiet; /* stores nothing: what would be stored at the kept points stays in their registers */
} row;

/* How threads are dealt out to rows. */
typedef struct row_deal {
  bool columns;
  int threads, lanes;
  int pieces, slices;
} row_deal;
row_deal row_deal_of(const emitter *e, const loop_part *p);

/* Whether the second instruction stores to memory that the first loads. */
bool row_overwrites(const emitter *e, const instr *load, const instr *store);
bool row_reduces(const row *r, int i, int phase);

/* Whether points come in fours of neighbours, and something is gained from that. */
bool row_has_fours(const emitter *e, const loop_part *p);
/* Of rows with so many lanes, neighbouring threads or, by columns, not. */
row_shape row_shape_of(const emitter *e, const loop_part *p, int lanes, bool columns);
/* Where points are kept: their coordinates, and all that can be loaded at once. The row's own coordinates are set. */
void row_keep(emitter *e, row *r);
/* All of row `number` in registers, kept and quiet. */
void row_compute(emitter *e, row *r, val number);
/* The points of a phase, to their reductions. */
void row_points(emitter *e, row *r, int phase);

#endif
