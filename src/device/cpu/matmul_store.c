/* Results of matmuls: the epilogue on the sums of a unit; plain stores without the region machine. See matmul.h. */
#include "device/cpu/matmul.h"

/* Rows that lie a multiple of this apart push each other out of the caches: sums are then better kept elsewhere. */
enum { ROW_APART = 1024 };

/* acc; store it in f32, through no register. */
static bool open_plain(matmul_work *w) {
  const region *e = &w->part->epilogue;
  const instr *acc = &e->code[0], *store = &e->code[e->n - 1];
  if (e->n != 2 || acc->op != REGION_ACC || store->op != REGION_STORE || store->a != 0 ||
      acc->dtype != SN_F32 || store->dtype != SN_F32 || store->at.n_checks > 0 ||
      w->r->program->values[store->at.value].type.dtype != SN_F32)
    return false;
  w->plain_acc = (int)acc->index;
  return direct_open(w->r, &store->at, SN_F32, &w->store);
}

sn_status store_open(matmul_work *w) {
  if (w->part->n_accs > MATMUL_ACCS)
    return cpu_fail(w->r, "a matmul of too many accumulators");
  w->plain_store = open_plain(w);
  w->staged = cpu_take(w->r, (size_t)w->part->n_accs * CPU_TILE * sizeof *w->staged);
  if (!w->staged)
    return SN_ERR_INTERNAL;
  bool fits = w->plain_store;
  if (!fits)
    SN_TRY(rows_open(w, &fits));
  return fits ? SN_OK
              : cpu_region_open(w->r, &w->part->epilogue, w->n.first + w->n.n, w->extent,
                                &w->epilogue);
}

/* The least distance in memory of neighbours along an axis; 0: they are the same element. One that is no number counts as
 * far, so that the answer is the same in all runs. */
static int64_t distance_along(const access *at, int axis) {
  int64_t least = 0;
  for (int t = 0; t < at->n_terms; t++) {
    int64_t stride = dim_is_number(at->terms[t].stride) ? at->terms[t].stride : INT64_MAX;
    int64_t by = at->terms[t].axis == axis ? stride : 0;
    by = by < 0 ? -by : by;
    least = by != 0 && (least == 0 || by < least) ? by : least;
  }
  return least;
}

bool store_is_along_m(const matmul_part *t) {
  int last_m = t->n_batch + t->n_m - 1, last_n = last_m + t->n_n;
  for (int i = 0; i < t->epilogue.n; i++) {
    const instr *c = &t->epilogue.code[i];
    if (c->op != REGION_STORE)
      continue;
    int64_t m = t->n_m > 0 ? distance_along(&c->at, last_m) : 0;
    int64_t n = t->n_n > 0 ? distance_along(&c->at, last_n) : 0;
    if (m != n)
      return m != 0 && (n == 0 || m < n);
  }
  return false;
}

/* --- plain --- */

/* Tables of where rows (outer) and columns (inner) stand; the place of both at 0. */
static float *fill_tables(matmul_work *w, const int64_t at[SIDES], const int64_t n[SIDES]) {
  int64_t base, checks[ACCESS_CHECKS];
  direct_batch(&w->store, w->part->n_batch, w->coords, &base, checks);
  direct_fill(&w->store, &w->side[ROWS], w->extent, at[ROWS], n[ROWS], &w->outer);
  direct_fill(&w->store, &w->side[COLS], w->extent, at[COLS], n[COLS], &w->inner);
  return (float *)(void *)w->store.data + base;
}

bool store_in_place(matmul_work *w, const int64_t at[SIDES], const int64_t n[SIDES], float **out,
                    int64_t *out_row) {
  if (!w->plain_store || w->part->n_accs > 1)
    return false;
  float *to = fill_tables(w, at, n);
  const int64_t *rows = w->outer.at;
  bool fits = direct_is_run(w->inner.at, n[COLS]);
  *out = to + rows[0] + w->inner.at[0];
  *out_row = n[ROWS] > 1 ? rows[1] - rows[0] : 0;
  for (int64_t i = 1; i < n[ROWS] && fits; i++)
    fits = rows[i] - rows[i - 1] == *out_row;
  return fits && (w->shape.k <= MATMUL_K || *out_row % ROW_APART != 0);
}

/* Columns from … from+n-1 of all rows; they lie `by` apart. */
static void store_run(const matmul_work *w, float *to, const float *sums, int64_t from, int64_t n,
                      int64_t by, int64_t n_rows) {
  for (int64_t i = 0; i < n_rows; i++) {
    float *line = to + w->outer.at[i] + w->inner.at[from];
    const float *x = sums + i * w->sums_row + from;
    if (by == 1)
      memcpy(line, x, (size_t)n * sizeof *line);
    else
      for (int64_t j = 0; j < n; j++)
        line[j * by] = x[j];
  }
}

static void store_plain(matmul_work *w, const int64_t at[SIDES], const int64_t n[SIDES]) {
  float *to = fill_tables(w, at, n);
  const float *sums = w->sums + w->plain_acc * w->sums_size;
  const int64_t *cols = w->inner.at;
  for (int64_t j = 0, run; j < n[COLS]; j += run) {
    int64_t by = j + 1 < n[COLS] ? cols[j + 1] - cols[j] : 1;
    for (run = 1; j + run < n[COLS] && cols[j + run] == cols[j] + run * by;)
      run++;
    store_run(w, to, sums, j, run, by, n[ROWS]);
  }
}

/* --- through the epilogue --- */

/* Lanes are the sums themselves as long as those of a tile lie one after the other; else copies. */
typedef struct store_tile {
  matmul_work *w;
  const float *from; /* of the first lane, accumulator 0 */
  bool copies;
  tile t;
} store_tile;

static void flush(store_tile *s) {
  const float *lanes[MATMUL_ACCS];
  matmul_work *w = s->w;
  if (s->t.n == 0)
    return;
  for (int c = 0; c < w->part->n_accs; c++)
    lanes[c] = s->copies ? w->staged + c * CPU_TILE : s->from + c * w->sums_size;
  cpu_region_run(w->r, w->epilogue, &s->t, lanes);
  tile_clear(&s->t);
}

/* n points along the tile's axis. */
static void add_points(store_tile *s, const int64_t *coords, int64_t n, const float *sums) {
  matmul_work *w = s->w;
  bool follows = s->t.n == 0 || s->copies || sums == s->from + s->t.n;
  if (!follows || !tile_has_room(&s->t, (int)n))
    flush(s);
  if (s->t.n == 0)
    s->from = sums;
  for (int c = 0; s->copies && c < w->part->n_accs; c++)
    memcpy(w->staged + c * CPU_TILE + s->t.n, sums + c * w->sums_size, (size_t)n * sizeof *sums);
  tile_add(&s->t, coords, (int)n);
}

/* A row of columns, in pieces that end where the last axis or a tile does. */
static void add_row(store_tile *s, int64_t *coords, int64_t from, int64_t n, const float *sums) {
  const axis_group *g = &s->w->side[COLS];
  int last = g->first + g->n - 1;
  for (int64_t i = 0; i < n;) {
    group_coords(g, s->w->extent, from + i, coords);
    int64_t run = g->n > 0 ? s->w->extent[last] - coords[last] : 1, room = CPU_TILE - s->t.n;
    run = min_i64(min_i64(run, n - i), room > 0 ? room : CPU_TILE);
    add_points(s, coords, run, sums + i);
    i += run;
  }
}

void store_block(matmul_work *w, const int64_t at[SIDES], const int64_t n[SIDES]) {
  if (w->plain_store) {
    store_plain(w, at, n);
    return;
  }
  if (w->rows) {
    rows_store(w, at, n);
    return;
  }
  const axis_group *cols = &w->side[COLS];
  store_tile s = {.w = w, .copies = w->sums_row != n[COLS] && n[COLS] < CPU_TILE / 2};
  s.t.axis = cols->n > 0 ? cols->first + cols->n - 1 : 0;
  int64_t coords[REGION_AXES];
  memcpy(coords, w->coords, sizeof coords);
  for (int64_t i = 0; i < n[ROWS]; i++) {
    group_coords(&w->side[ROWS], w->extent, at[ROWS] + i, coords);
    add_row(&s, coords, at[COLS], n[COLS], w->sums + i * w->sums_row);
  }
  flush(&s);
}
