/* Results of matmuls: the epilogue on a block of sums; plain stores without the region machine. See matmul.h. */
#include "device/cpu/matmul.h"

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
    return diag_fail(w->r->ctx, SN_ERR_INTERNAL, "a matmul of %d accumulators, expected at most %d",
                     w->part->n_accs, MATMUL_ACCS);
  w->plain_store = open_plain(w);
  w->staged = cpu_take(w->r, (size_t)w->part->n_accs * CPU_TILE * sizeof *w->staged);
  if (!w->staged)
    return SN_ERR_INTERNAL;
  return w->plain_store ? SN_OK
                        : cpu_region_open(w->r, &w->part->epilogue, w->n.first + w->n.n, w->extent,
                                          &w->epilogue);
}

/* --- plain --- */

static void store_line(float *to, const int64_t *at, const float *sums, int64_t column, int64_t n,
                       bool is_run) {
  if (is_run && column == 1)
    memcpy(to + at[0], sums, (size_t)n * sizeof *to);
  else
    for (int64_t j = 0; j < n; j++)
      to[at[j]] = sums[j * column];
}

/* The inner index is that along which sums are dense. */
static void store_plain(matmul_work *w, int64_t m, int64_t n_m, int64_t n, int64_t n_n,
                        const float *sums, int64_t row, int64_t column) {
  int64_t base, checks[ACCESS_CHECKS];
  direct_batch(&w->store, w->part->n_batch, w->coords, &base, checks);
  direct_fill(&w->store, &w->m, w->extent, m, n_m, &w->outer);
  direct_fill(&w->store, &w->n, w->extent, n, n_n, &w->inner);
  float *to = (float *)(void *)w->store.data + base;
  bool is_run = direct_is_run(w->inner.at, n_n);
  sums += w->plain_acc * w->sums_size;
  if (column != 1) {
    is_run = direct_is_run(w->outer.at, n_m);
    for (int64_t j = 0; j < n_n; j++)
      store_line(to + w->inner.at[j], w->outer.at, sums + j * column, row, n_m, is_run);
    return;
  }
  for (int64_t i = 0; i < n_m; i++)
    store_line(to + w->outer.at[i], w->inner.at, sums + i * row, column, n_n, is_run);
}

/* --- through the epilogue --- */

typedef struct store_tile {
  matmul_work *w;
  tile t;
} store_tile;

static void flush(store_tile *s) {
  const float *lanes[MATMUL_ACCS];
  matmul_work *w = s->w;
  if (s->t.n == 0)
    return;
  for (int c = 0; c < w->part->n_accs; c++)
    lanes[c] = w->staged + c * CPU_TILE;
  cpu_region_run(w->r, w->epilogue, &s->t, lanes);
  tile_clear(&s->t);
}

/* n points along the tile's axis; their sums lie `apart`. */
static void add_points(store_tile *s, const int64_t *coords, int64_t n, const float *sums,
                       int64_t apart) {
  matmul_work *w = s->w;
  if (!tile_has_room(&s->t, (int)n))
    flush(s);
  for (int c = 0; c < w->part->n_accs; c++)
    for (int64_t i = 0; i < n; i++)
      w->staged[c * CPU_TILE + s->t.n + i] = sums[c * w->sums_size + i * apart];
  tile_add(&s->t, coords, (int)n);
}

/* Entries from … of the group that runs, for one entry of the other. */
static void add_line(store_tile *s, int64_t *coords, const axis_group *runs, int64_t from,
                     int64_t n, const float *sums, int64_t apart) {
  int last = runs->first + runs->n - 1;
  for (int64_t i = 0; i < n;) {
    group_coords(runs, s->w->extent, from + i, coords);
    int64_t run = runs->n > 0 ? s->w->extent[last] - coords[last] : 1;
    run = min_i64(min_i64(run, n - i), CPU_TILE);
    add_points(s, coords, run, sums + i * apart, apart);
    i += run;
  }
}

void store_block(matmul_work *w, int64_t m, int64_t n_m, int64_t n, int64_t n_n, const float *sums,
                 int64_t row, int64_t column) {
  if (w->plain_store) {
    store_plain(w, m, n_m, n, n_n, sums, row, column);
    return;
  }
  bool rows_run = column != 1 && w->m.n > 0;
  const axis_group *runs = rows_run ? &w->m : &w->n, *stands = rows_run ? &w->n : &w->m;
  int64_t from = rows_run ? m : n, n_runs = rows_run ? n_m : n_n;
  int64_t first = rows_run ? n : m, n_stands = rows_run ? n_n : n_m;
  int64_t apart = rows_run ? row : column, next = rows_run ? column : row;
  store_tile s = {.w = w, .t = {.axis = runs->n > 0 ? runs->first + runs->n - 1 : 0}};
  int64_t coords[REGION_AXES];
  memcpy(coords, w->coords, sizeof coords);
  for (int64_t i = 0; i < n_stands; i++) {
    group_coords(stands, w->extent, first + i, coords);
    add_line(&s, coords, runs, from, n_runs, sums + i * next, apart);
  }
  flush(&s);
}
