/* Between the files of loops: one part of a POINTWISE or ROW step, open. */
#ifndef SINEW_DEVICE_CPU_LOOP_H
#define SINEW_DEVICE_CPU_LOOP_H

#include "device/cpu/walk.h"

enum {
  /* Points times instructions that are worth being handed out as one: about 10
     µs. */
  UNIT_WORK = 150000,
  UNITS_EACH = 32, /* of a part, for each thread, at most */
  /* Rows (or tiles of rows) that are enough to keep all threads busy; fewer are
     cut in pieces if there is work enough. */
  ROWS_ENOUGH = 64,
  /* Rows times pieces, at most. */
  PIECES_MOST = 2 * ROWS_ENOUGH
};

/* A part that only moves: blocks along axes, the last of which are that of runs of what is loaded and that beside it. */
typedef struct loop_move {
  const float *from;
  float *to;
  bool turned; /* results are dense along the last but one */
  bool past;   /* the caches */
  int n;       /* 0: not such a part */
  struct move_axis {
    int64_t extent, by, tiles, load, store; /* by: of a block */
  } axis[REGION_AXES];
} loop_move;

typedef struct row_list row_list; /* loop_rows.c */

typedef struct loop_open {
  cpu_run *r;
  region_state *st;
  bool rows;  /* has rows; else only points */
  bool empty; /* rows of no points */
  axis_list outer, inner;
  walk points; /* of a row, or all */
  walk across; /* tiles of rows: only where lanes are rows (st->wide) */
  int64_t n;   /* tiles of points; or rows; or tiles of rows; or blocks of a move */
  loop_move move;
  row_list *list; /* of chains, for rows beyond the first; NULL: none */
  bool tried_list;
} loop_open;

/* What extents alone say of a part. */
typedef struct loop_extents {
  int64_t extent[REGION_AXES];
  int64_t rows, points; /* points of a row */
  bool by_rows;         /* has rows, perhaps one */
  bool makes_rows;      /* which are made without points too */
} loop_extents;
loop_extents loop_measure(const loop_part *p, int64_t (*size)(const void *of, sn_dim d),
                          const void *of);
/* Nothing is to be done. */
static inline bool loop_is_nothing(const loop_part *p, const loop_extents *x) {
  return p->code.n == 0 || x->rows == 0 || (x->points == 0 && !x->makes_rows);
}
static inline double loop_work(const loop_part *p, const loop_extents *x) {
  return (double)x->rows * (double)x->points * p->code.n;
}

/* How many units so much work is handed out in. */
int64_t loop_units(const cpu_run *r, double work);
sn_status loop_begin(cpu_run *r, const loop_part *p, const loop_extents *x,
                     loop_open *out) SN_MUST_USE;
/* Tiles of points, rows or tiles of rows: from … to-1 of x->n. */
void loop_run(loop_open *x, int64_t from, int64_t to);

/* The tile of row (or of a tile of rows) number i. */
void loop_row_tile(loop_open *x, int64_t i, tile *t);
void loop_begin_reductions(const region_state *st, const region_range *range, int n);
void loop_end_reductions(const region_state *st, const region_range *range, int n);
/* Points from … to-1 of the rows of a tile, which are counted in tiles, or one
 * by one where lanes are rows. */
int64_t loop_points(const loop_open *x);
void loop_run_points(loop_open *x, region_range *range, tile *rows, int64_t from, int64_t to);
/* Lanes of registers of a region: as many as let those that are alive together stay in the nearest cache. */
int loop_lanes_of(const region *code);
/* Lanes of a tile of rows that reductions fill. */
static inline int loop_lanes(const tile *t) {
  return (t->n + CPU_LANE_BLOCK - 1) / CPU_LANE_BLOCK * CPU_LANE_BLOCK;
}

/* --- loop_move.c --- */
/* Whether a part only moves, and how; gives its blocks, 0 if not. */
int64_t loop_find_move(const region_state *st, const axis_list *axes, loop_move *m);
void loop_run_move(const loop_move *m, const lane_kernels *kernels, int64_t from, int64_t to);

/* --- loop_rows.c: rows that a tile holds whole --- */
/* Scratch for it. */
size_t loop_list_bytes(void);
/* Behind the first row (or batch of rows): makes x->list if the part is such a one. */
void loop_list_rows(loop_open *x);
/* Rows (or batches) from … to-1 by the list. */
void loop_run_listed(loop_open *x, int64_t from, int64_t to);

/* Where lanes are rows: whether the points of a tile of rows run by the list; n of them, from the one that it stands at. */
bool loop_steps_across(const loop_open *x, const tile *t);
void loop_run_across(loop_open *x, region_range *range, const tile *t, int64_t n);

/* --- loop_split.c: few rows that are long --- */
/* Whether extents say that a part may be cut so; all threads then run it
 * together. */
bool loop_may_split(const loop_part *p, const loop_extents *x);
/* Shared scratch for it, at most. */
size_t loop_split_bytes(const loop_part *p);
sn_status loop_run_split(loop_open *x, const loop_part *p, double work) SN_MUST_USE;

#endif
