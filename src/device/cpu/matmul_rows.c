/* Epilogues by whole rows at work: see matmul_rows.h. */
#include "device/cpu/matmul_rows.h"

enum { ROWS_LINE = 64 }; /* bytes of a cache line */

static char *element(const row_place *p, int64_t at) { return p->data + at * p->size; }

static int64_t whole(int n) { return (n + CPU_LANE_BLOCK - 1) / CPU_LANE_BLOCK * CPU_LANE_BLOCK; }

/* --- instructions, for columns from … from+n-1 of the run at hand --- */

static void load(const struct row_epilogue *e, row_op *op, int64_t from, int n) {
  const row_place *p = op->at;
  int64_t at = p->at + from * p->by;
  int64_t read = e->cheap ? n : whole(n);
  if (p->by == 1 && p->size == 4 && !p->copied && at + read <= p->count) {
    op->lanes = element(p, at);
    return;
  }
  e->kernels->read(p->dtype, op->own, element(p, at),
                   &(lane_block){.n = n, .rows = 1, .by = p->by});
  op->lanes = op->own;
}

static void store(const struct row_epilogue *e, const row_op *op, int64_t from, int n) {
  const row_place *p = op->at;
  const void *lanes = e->ops[op->a].lanes;
  char *to = element(p, p->at + from * p->by);
  if (op->kernel) {
    op->kernel(e->spare, lanes, NULL, NULL, 0, 0, n);
    lanes = e->spare;
  }
  if (to != lanes)
    e->kernels->write(p->dtype, to, lanes, &(lane_block){.n = n, .rows = 1, .by = p->by});
}

/* Where lanes that an op makes go: to the memory that they are stored to, if neither its kernel nor those that read them touch more
 * than n: n is whole blocks, or all of the epilogue is cheap. */
static void *place_lanes(const struct row_epilogue *e, row_op *op, int64_t from, bool exact) {
  const row_place *to = op->into >= 0 && exact ? e->ops[op->into].at : NULL;
  void *lanes = to ? (void *)element(to, to->at + from) : op->own;
  op->lanes = lanes;
  return lanes;
}

static void compute(const struct row_epilogue *e, row_op *op, int64_t from, int n) {
  const void *a = e->ops[op->a].lanes;
  const void *b = op->arguments > 1 ? e->ops[op->b].lanes : NULL;
  const void *c = op->arguments > 2 ? e->ops[op->c].lanes : NULL;
  void *out = place_lanes(e, op, from, n % CPU_LANE_BLOCK == 0);
  op->kernel(out, a, b, c, op->i->x, op->i->y, n);
  if (op->rounds)
    e->kernels->round((sn_dtype)op->i->dtype, out, n);
}

static void run_chain(const struct row_epilogue *e, const row_op *op, int64_t from, int n) {
  bool exact = e->cheap || n % CPU_LANE_BLOCK == 0;
  for (const row_move *m = e->moves + op->moves; m < e->moves + op->moves + op->n_moves; m++) {
    row_op *of = &e->ops[m->op];
    if (m->at)
      *m->at = of->lanes;
    else if (of->i->op == REGION_STORE)
      *m->to = element(of->at, of->at->at + from);
    else
      *m->to = place_lanes(e, of, from, exact);
  }
  if (op->cheap)
    e->matmul->chain(op->built, op->to - op->from, n);
  else
    e->kernels->chain(op->built, op->to - op->from, n);
}

/* Lane 0 to all of them. */
static void spread(const struct row_epilogue *e, const row_op *op) {
  uint32_t v;
  memcpy(&v, op->own, sizeof v);
  e->kernels->read(SN_I32, op->own, &v, &(lane_block){.n = ROWS_LANES, .rows = 1, .by = 0});
}

/* What is the same all along a run: lane 0, which is all that its arguments are sure to have, and the others where they are read. */
static void run_ones(const struct row_epilogue *e) {
  for (int k = 0; k < e->n_ones; k++) {
    row_op *op = &e->ops[e->ones[k]];
    if (op->i->op != REGION_LOAD)
      compute(e, op, 0, 1);
    else if (op->at->size == 4)
      memcpy(op->own, element(op->at, op->at->at), 4);
    else
      e->kernels->read(op->at->dtype, op->own, element(op->at, op->at->at),
                       &(lane_block){.n = 1, .rows = 1, .by = 0});
    if (op->spread)
      spread(e, op);
  }
}

/* sums: of accumulator 0, at the run's begin. */
static void run_lanes(const matmul_work *w, const float *sums, int64_t from, int n) {
  const struct row_epilogue *e = w->rows;
  for (int k = 0; k < e->n_lanes; k++) {
    row_op *op = &e->ops[e->lanes[k]];
    switch ((region_op)op->i->op) {
    case REGION_LOAD: load(e, op, from, n); break;
    case REGION_STORE: store(e, op, from, n); break;
    case REGION_ACC: op->lanes = sums + op->i->index * w->sums_size + from; break;
    default:
      if (op->chain >= 0)
        run_chain(e, op, from, n);
      else
        compute(e, op, from, n);
    }
  }
}

/* Whole blocks, which can be made in place, and what is left. */
static void run_columns(const matmul_work *w, const float *sums, int64_t n) {
  const struct row_epilogue *e = w->rows;
  for (int64_t from = 0, run; from < n; from += run) {
    run = e->direct ? n : min_i64(ROWS_LANES, n - from);
    if (!e->cheap && run > CPU_LANE_BLOCK)
      run = run / CPU_LANE_BLOCK * CPU_LANE_BLOCK;
    run_lanes(w, sums, from, (int)run);
  }
}

/* --- places --- */

/* The coordinates of a column, of axes that are no run. */
static void outer_coords(const matmul_work *w, int64_t column, int64_t *coords) {
  const axis_group *g = &w->side[COLS];
  const axis_group outer = {.first = g->first, .n = g->n > 0 ? w->rows->first - g->first : 0};
  group_coords(&outer, w->extent, column / w->rows->run, coords);
}

/* The element of a row and a column. */
static int64_t place_at(const matmul_work *w, const row_place *p, int64_t column,
                        const int64_t *coords) {
  const axis_group *rows = &w->side[ROWS];
  int64_t at = p->base + column % w->rows->run * p->by;
  for (int a = 0; a < w->batch.n; a++)
    at += coords[a] * p->stride[a];
  for (int a = rows->first; a < rows->first + rows->n; a++)
    at += coords[a] * p->stride[a];
  for (int a = w->side[COLS].first; a < w->rows->first; a++)
    at += coords[a] * p->stride[a];
  return at;
}

/* --- blocks --- */

/* Columns of one run, of all rows. */
static void store_run(matmul_work *w, const int64_t at[SIDES], const int64_t n[SIDES],
                      const float *sums) {
  struct row_epilogue *e = w->rows;
  const axis_group *rows = &w->side[ROWS];
  int64_t coords[REGION_AXES];
  memcpy(coords, w->coords, sizeof coords);
  outer_coords(w, at[COLS], coords);
  for (int64_t i = 0; i < n[ROWS]; i++) {
    bool next = rows->n == 1 && i > 0;
    if (!next)
      group_coords(rows, w->extent, at[ROWS] + i, coords);
    for (int k = 0; k < e->n_places; k++) {
      row_place *p = &e->places[k];
      p->at = next ? p->at + p->stride[rows->first] : place_at(w, p, at[COLS], coords);
    }
    run_ones(e);
    run_columns(w, sums + i * w->sums_row, n[COLS]);
  }
}

void rows_store(matmul_work *w, const int64_t at[SIDES], const int64_t n[SIDES]) {
  for (int64_t j = 0, run; j < n[COLS]; j += run) {
    int64_t column = at[COLS] + j;
    run = min_i64(n[COLS] - j, w->rows->run - column % w->rows->run);
    store_run(w, (int64_t[]){at[ROWS], column}, (int64_t[]){n[ROWS], run}, w->sums + j);
  }
}

/* Where rows are one axis. */
void rows_ask(const matmul_work *w, const int64_t at[SIDES], const int64_t n[SIDES]) {
  const struct row_epilogue *e = w->rows;
  const axis_group *rows = &w->side[ROWS];
  int64_t coords[REGION_AXES];
  if (rows->n != 1)
    return;
  memcpy(coords, w->coords, sizeof coords);
  coords[rows->first] = at[ROWS];
  outer_coords(w, at[COLS], coords);
  for (int i = 0; i < e->n_places; i++) {
    const row_place *p = &e->places[i];
    int64_t first = place_at(w, p, at[COLS], coords), by = p->stride[rows->first];
    if (p->by != 1 || by < 0 || first + (n[ROWS] - 1) * by + n[COLS] > p->count)
      continue;
    for (int64_t row = 0; row < n[ROWS]; row++)
      for (int64_t b = 0; b < n[COLS] * p->size; b += ROWS_LINE)
        __builtin_prefetch(element(p, first + row * by) + b, 0, 2);
  }
}
