/* Few rows that are long (a sum over all elements, norms of few groups, sums
 * over the outer axis): each is cut in pieces, by extents alone, and threads
 * are handed pieces. Called by loop.c on all threads.
 *
 * Phase by phase. Pieces of a row leave partial results of its reductions in
 * shared memory. When all are done, one thread a row combines them in order,
 * executes the row's instructions and leaves its registers in shared memory,
 * where the pieces of the next phase find them. */
#include "device/cpu/loop.h"

/* --- what is shared --- */
/* Registers of rows that outlive the range they are made in; reductions first
 * of all do. */
static bool outlives(const region_state *st, const region_op_state *op) {
  if (op->i->op == REGION_REDUCE)
    return true;
  return st->ranges[op->range].row && op->own && op->last >= st->ranges[op->range].to;
}

typedef struct sharing {
  loop_open *x;
  int64_t rows, pieces;
  int lanes; /* of a register of rows: 1, or the rows of a tile */
  int n_registers, n_sums;
  uint32_t *registers; /* [rows][n_registers][lanes] */
  double *sums;        /* [rows][pieces][n_sums][lanes] */
} sharing;

static uint32_t *registers_of(const sharing *h, int64_t row) {
  return h->registers + row * h->n_registers * h->lanes;
}
static double *sums_of(const sharing *h, int64_t row, int64_t piece) {
  return h->sums + (row * h->pieces + piece) * h->n_sums * h->lanes;
}

static void save(const sharing *h, int64_t row, int n) {
  const region_state *st = h->x->st;
  uint32_t *to = registers_of(h, row);
  for (int i = 0; i < st->n; i++)
    if (outlives(st, &st->ops[i])) {
      memcpy(to, st->ops[i].lanes, (size_t)n * sizeof *to);
      to += h->lanes;
    }
}

/* Everything is then computed anew: what a range computed before belonged to
 * another row, perhaps. */
static void restore(const sharing *h, int64_t row, int n) {
  region_state *st = h->x->st;
  const uint32_t *from = registers_of(h, row);
  for (int i = 0; i < st->n; i++) {
    region_op_state *op = &st->ops[i];
    if (!outlives(st, op))
      continue;
    memcpy(op->own, from, (size_t)n * sizeof *from);
    op->lanes = op->own;
    if (op->spread)
      region_spread(st, op);
    from += h->lanes;
  }
  for (int i = 0; i < st->n_ranges; i++)
    st->ranges[i].fresh = true;
}

/* --- pieces --- */
static void save_sums(const sharing *h, const region_range *range, int64_t row, int64_t piece) {
  const region_state *st = h->x->st;
  double *to = sums_of(h, row, piece);
  for (int i = range->from; i < range->to; i++) {
    region_op_state *op = &st->ops[i];
    if (op->i->op != REGION_REDUCE)
      continue;
    reduce_fold(st, op);
    memcpy(to, op->acc, (size_t)h->lanes * sizeof *to);
    to += h->lanes;
  }
}

static void run_pieces(const sharing *h, region_range *range) {
  loop_open *x = h->x;
  int64_t points = loop_points(x), done = -1;
  tile t;
  cpu_begin(x->r);
  for (int64_t i; cpu_next(x->r, h->rows * h->pieces, &i);) {
    int64_t row = i / h->pieces, piece = i % h->pieces;
    loop_row_tile(x, row, &t);
    if (row != done)
      restore(h, row, t.n);
    done = row;
    loop_begin_reductions(x->st, range, h->lanes);
    loop_run_points(x, range, &t, points * piece / h->pieces, points * (piece + 1) / h->pieces);
    save_sums(h, range, row, piece);
  }
}

/* --- rows --- */
static void combine_pieces(const sharing *h, const region_range *range, int64_t row, int n) {
  const region_state *st = h->x->st;
  loop_begin_reductions(st, range, h->lanes);
  for (int64_t piece = 0; piece < h->pieces; piece++) {
    const double *from = sums_of(h, row, piece);
    for (int i = range->from; i < range->to; i++)
      if (st->ops[i].i->op == REGION_REDUCE) {
        reduce_combine(&st->ops[i], from, h->lanes);
        from += h->lanes;
      }
  }
  loop_end_reductions(st, range, n);
}

/* points: the range before, whose sums are to be combined; row: that of the
 * rows, to be run. Either may be NULL. */
static void run_rows(const sharing *h, const region_range *points, region_range *row_range) {
  loop_open *x = h->x;
  int64_t from, to;
  tile t;
  cpu_share(x->r, h->rows, 1, &from, &to);
  for (int64_t row = from; row < to; row++) {
    loop_row_tile(x, row, &t);
    restore(h, row, t.n);
    if (points)
      combine_pieces(h, points, row, t.n);
    if (row_range)
      region_run_range(x->r, x->st, row_range, &t, NULL);
    save(h, row, t.n);
  }
}

static void run_phases(const sharing *h) {
  region_state *st = h->x->st;
  region_range *points = NULL;
  for (int k = 0; k < st->n_ranges; k++) {
    region_range *range = &st->ranges[k];
    if (range->row) {
      run_rows(h, points, range);
      points = NULL;
    } else {
      if (points) {
        run_rows(h, points, NULL);
        cpu_sync(h->x->r);
      }
      run_pieces(h, range);
      points = range;
    }
    cpu_sync(h->x->r);
  }
}

/* --- entry --- */
static int count_reductions(const region *code) {
  int n = 0;
  for (int i = 0; i < code->n; i++)
    n += code->code[i].op == REGION_REDUCE;
  return n;
}

bool loop_may_split(const loop_part *p, const loop_extents *x) {
  if (!x->by_rows || loop_is_nothing(p, x) || x->rows > ROWS_ENOUGH * REGION_LANES ||
      loop_work(p, x) < 8.0 * UNIT_WORK)
    return false;
  for (int i = 0; i < p->code.n; i++) /* which of them fails first, units say */
    if (p->code.code[i].op == REGION_REQUIRE)
      return false;
  return true;
}

size_t loop_split_bytes(const loop_part *p) {
  size_t lanes = (size_t)min_i64(loop_lanes_of(&p->code), REGION_LANES), n = (size_t)p->code.n,
         sums = (size_t)count_reductions(&p->code);
  return cpu_take_bytes(ROWS_ENOUGH * n * lanes * sizeof(uint32_t)) +
         cpu_take_bytes(PIECES_MOST * sums * lanes * sizeof(double));
}

/* Rows are enough: threads are handed these. */
static void run_whole(loop_open *x, double work) {
  int64_t units = max_i64(1, min_i64(x->n, loop_units(x->r, work)));
  cpu_begin(x->r);
  for (int64_t i; cpu_next(x->r, units, &i);)
    loop_run(x, x->n * i / units, x->n * (i + 1) / units);
}

sn_status loop_run_split(loop_open *x, const loop_part *p, double work) {
  const region_state *st = x->st;
  sharing h = {.x = x, .rows = x->n, .lanes = st->wide ? st->lanes : 1};
  int64_t worth = (int64_t)(work / UNIT_WORK) / x->n, most = loop_points(x);
  h.pieces = min_i64(min_i64(worth, most), (ROWS_ENOUGH + x->n - 1) / x->n);
  if (x->n >= ROWS_ENOUGH || h.pieces < 2) {
    run_whole(x, work);
    return SN_OK;
  }
  h.n_sums = count_reductions(&p->code);
  for (int i = 0; i < st->n; i++)
    h.n_registers += outlives(st, &st->ops[i]);
  h.registers =
      cpu_take_shared(x->r, (size_t)(h.rows * h.n_registers * h.lanes) * sizeof(uint32_t));
  h.sums = cpu_take_shared(x->r, (size_t)(h.rows * h.pieces * h.n_sums * h.lanes) * sizeof(double));
  if (!h.registers || !h.sums)
    return SN_ERR_INTERNAL;
  cpu_sync(x->r); /* of an earlier part, some may still use this memory */
  run_phases(&h);
  return SN_OK;
}
