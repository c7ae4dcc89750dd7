/* Rows in the making, for emit_rows.c (row steps) and emit_row_points.c (the points of a row, several of a lane at once). */
#ifndef SINEW_DEVICE_VULKAN_EMIT_ROWS_H
#define SINEW_DEVICE_VULKAN_EMIT_ROWS_H

#include "device/vulkan/emit_four.h"

/* Points that a lane has at once, those of other lanes in between. Wide: of EMIT_WIDE rows next to each other, point after point,
 * so that vectors read what is next to each other from row to row; otherwise of one. */
typedef struct row_shape {
  int rows;   /* EMIT_WIDE or 1 */
  int unroll; /* points of all of them */
  bool kept;  /* they are all that it has, from phase to phase */
  bool four;  /* they are fours of neighbours, which vectors read */
} row_shape;

typedef struct row {
  const loop_part *part;
  row_threads threads;
  sn_dim pieces; /* 1: all of a row in one kernel; how many otherwise is a slot */
  bool sliced;   /* workgroups share the last phase of a row: */
  sn_dim slices; /* so many share its lanes, a power of two, 1 among them; a slot */
  sn_dim shares; /* so many the fours of lanes, where these go one by one; a slot */
  val active;    /* bool: this thread's row is one; 0: always */
  val number;    /* of the row (the first of wide ones), index; the last one's where it is none */
  val piece;     /* or slice; index */
  val share;     /* of its fours; index */
  val from, to;  /* points of the piece; none where the row is none */
  val axis[EMIT_WIDE][REGION_AXES]; /* of rows */
  /* by row, instruction: a variable with what a lane has of a reduction so far */
  val sum[EMIT_WIDE][REGION_MAX];
  int64_t scratch
      [REGION_MAX]; /* by instruction: where the results of a reduction's pieces begin, by row and piece */
  row_shape shape;
  bool one_by_one; /* fours in the last phase: they are more than 1, and all exist */
  bool some;       /* lanes may have no points, though all have some here */
  int first;       /* point of those at hand; behind those that are kept: the four of now */
  struct row_point {
    val flat;   /* its number in the row, or another's where there is none */
    val exists; /* bool: there is such a point; 0: always */
    val mine;   /* bool: and it is of a row that is one; 0: always */
    val axis[REGION_AXES];
  } point[EMIT_WIDE * EMIT_WINDOW];
  bool loaded[REGION_MAX]; /* by instruction: before the first phase */
  bool moments; /* the reductions of phases 0 and 1 are row_has_moments's, made together */
  val squares;  /* the second of them */
  bool quiet; /* stores nothing: what would be stored at the kept points stays in their registers */
} row;

/* How threads are dealt out to rows. */
typedef struct row_deal {
  bool columns;
  int wide; /* rows of a thread */
  int threads, lanes;
  int pieces, slices, shares;
  bool sliced; /* the kernel is for any number of slices */
  int fours;   /* of a lane, one by one in the last phase; 0: not so */
  bool some;   /* the kernel is for any number of lanes that have points */
} row_deal;
row_deal row_deal_of(const emitter *e, const loop_part *p);

/* Whether a part is three sums of wide columns, and two parts with two of them each; *out_common: what both store. See emit_row_cut.c. */
bool row_cut_sums(emitter *e, const loop_part *p, loop_part out[2], uint32_t *out_common);

/* Whether the second instruction stores to memory that the first loads. */
bool row_overwrites(const emitter *e, const instr *load, const instr *store);
bool row_reduces(const row *r, int i, int phase);
/* The reductions of a phase, for each of the thread's rows: the next ones, *from 0 to begin with; 0: there are no more. */
enum { ROW_REDUCTIONS = EMIT_TOGETHER };
struct row_reduction {
  int instr, row;
  reduce_kind kind;
  sn_dtype dtype;
};
int row_reductions(const row *r, int phase, int *from, struct row_reduction *out);

/* Whether the part stores to memory that an instruction loads. */
bool row_is_overwritten(const emitter *e, const loop_part *p, const instr *load);
/* Whether instruction i loads, for points, from places that nothing must be computed for, what no earlier phase has changed. */
bool row_is_ready(const emitter *e, const loop_part *p, int i);
/* The first load of the same element, if that is ready too; otherwise i. */
int row_same_load(const emitter *e, const loop_part *p, int i);
int64_t row_points_least(const emitter *e, const loop_part *p);
four_axes row_inner_axes(const loop_part *p);
four_axes row_outer_axes(const loop_part *p);

/* Whether points come in fours of neighbours, and something is gained from that. */
bool row_has_fours(const emitter *e, const loop_part *p);
/* Whether fours of rows are next to each other in all that points load, so that wide rows pay: how many vectors a point loads. */
int row_may_be_wide(const emitter *e, const loop_part *p);
/* Of rows with so many lanes, neighbouring threads or, by columns, not. */
row_shape row_shape_of(const emitter *e, const loop_part *p, int lanes, bool columns);
row_shape row_wide_shape(const emitter *e, const loop_part *p, int lanes, int pieces);
/* Whether phase 0 sums numbers and phase 1 the squares of what they differ from their mean by, and every lane has so many of the
 * points: as norms do. See emit_row_moments.c. */
bool row_has_moments(const emitter *e, const loop_part *p, const row_shape *s, int lanes);
/* Behind phase 0: what lanes have of both at their points, made the row's; behind phase 1: it is there. */
void row_reduce_moments(emitter *e, row *r, int phase);

/* So many fours of a lane, kept, and one by one in the last phase. */
row_shape row_fours_shape(int fours);

/* Stands at row w of the thread's. */
void row_stand(emitter *e, const row *r, int w);
/* Instruction i of rows, at all of the thread's. */
void row_instr(emitter *e, const row *r, int i);
/* Where points are kept: their coordinates, and all that can be loaded at once. The row's own coordinates are set. */
void row_keep(emitter *e, row *r);
/* All of row `number` in registers, kept and quiet. */
void row_compute(emitter *e, row *r, val number);
/* The points of a phase, to their reductions. */
void row_points(emitter *e, row *r, int phase);
/* The last phase of fours that go one by one: those of the workgroup's share. */
void row_points_one_by_one(emitter *e, row *r, int phase);

#endif
