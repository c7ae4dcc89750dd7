/* Loop parts: POINTWISE and ROW steps. Called by the device.
 *
 * A row part runs in one of two ways. By points: lanes are points of one row,
 * row registers are computed for one lane. By rows: lanes are rows, and the
 * points of all of them are visited one after another; this is the way of short
 * rows and of rows that are strided in memory where their neighbours are not.
 *
 * Threads are handed units of parts: runs of tiles or rows. How many units a
 * part has, extents decide; the units of all parts of a step are one loop, so a
 * thread opens only the parts that it meets. Few and long rows: loop_split.c.
 */
#include "device/cpu/loop.h"

#include "device/cpu/pool.h"

/* What a tile costs beside its lanes, by op; what a row costs beside its tiles.
 * In about ns. */
static const double OP_COST = 6, ROW_COST = 60;
/* Results from here on go past the caches, in bytes. */
enum { STREAM_BYTES = 16 << 20 };
/* Points of a batch of rows, and rows, at most. */
enum { BATCH_POINTS = 4096, BATCH_MOST = 16 };

/* --- extents --- */
/* Whether there is something of a row, be it without points: not so where points happen to share what they compute. */
static bool makes_rows(const loop_part *p) {
  bool rows = p->n_outer > 0 || p->n_phases > 1;
  for (int i = 0; i < p->code.n && !rows; i++)
    rows = p->code.code[i].op == REGION_REDUCE;
  return rows;
}

static bool has_rows(const loop_part *p) {
  bool rows = makes_rows(p);
  for (int i = 0; i < p->code.n && !rows; i++)
    rows = p->code.code[i].row;
  return rows;
}

loop_extents loop_measure(const loop_part *p, int64_t (*size)(const void *of, sn_dim d),
                          const void *of) {
  loop_extents x = {.rows = 1, .points = 1, .by_rows = has_rows(p), .makes_rows = makes_rows(p)};
  for (int i = 0; i < p->n_axes; i++) {
    int64_t *count = i < p->n_outer ? &x.rows : &x.points;
    x.extent[i] = size(of, p->extent[i]);
    if (__builtin_mul_overflow(*count, x.extent[i], count))
      *count = INT64_MAX; /* at the largest sizes, which nothing may have room for */
  }
  return x;
}

static int64_t size_in_run(const void *run, sn_dim d) { return cpu_size(run, d); }
static int64_t size_most(const void *of, sn_dim d) { return cpu_size_max(of, d); }

static loop_extents measure(const cpu_run *r, const loop_part *p) {
  return loop_measure(p, size_in_run, r);
}

/* No more than keep all threads busy to the end: memory is fastest where each goes on and on. */
int64_t loop_units(const cpu_run *r, double work) {
  double units = work / UNIT_WORK, most = (double)UNITS_EACH * r->threads;
  return units < 1 ? 1 : (int64_t)(units < most ? units : most);
}

static int64_t units_of(const cpu_run *r, const loop_part *p, const loop_extents *x) {
  return loop_is_nothing(p, x) ? 0 : loop_units(r, loop_work(p, x));
}

/* --- opening --- */
/* Most arithmetic of floats is in chains, and needs no registers. Tiles of what is likely one chain may be long. */
int loop_lanes_of(const region *code) {
  int n = 0, chained = 0, loads = 0, others = 0, stores = 0;
  for (int i = 0; i < code->n; i++) {
    const instr *in = &code->code[i];
    bool arithmetic = in->op == REGION_ALU && in->dtype == SN_F32;
    chained += arithmetic;
    loads += in->op == REGION_LOAD;
    n += !arithmetic && in->op != REGION_LOAD && in->op != REGION_NUMBER;
    stores += in->op == REGION_STORE;
    others += !in->row && (in->op == REGION_INDEX || in->op == REGION_INSIDE ||
                           in->op == REGION_WORD || (in->op == REGION_ALU && !arithmetic));
  }
  n += chained / 3 + loads / 2;
  return others == 0 && stores <= 1 ? REGION_LANES_MOST
         : n <= 18                  ? REGION_LANES
         : n <= 36                  ? REGION_LANES / 2
         : n <= 80                  ? CPU_TILE
                                    : CPU_TILE / 2;
}

/* Stores of what is too large to be found in a cache again, unless it is there
 * because it was loaded. */
static void choose_streams(region_state *st) {
  for (int i = 0; i < st->n; i++) {
    index_access *a = st->ops[i].at;
    if (st->ops[i].i->op != REGION_STORE || sn_dtype_size(a->dtype) != 4)
      continue;
    a->streams = a->count * 4 >= STREAM_BYTES && !st->ops[i].i->row;
    for (int k = 0; k < st->n && a->streams; k++)
      if (st->ops[k].i->op == REGION_LOAD)
        a->streams = !region_overlap(&st->ops[k], &st->ops[i]);
  }
}

static double lanes_of(const region_state *st, const axis_list *axes) {
  return (double)min_i64(walk_points(st, axes), st->lanes);
}

static void choose_rows(loop_open *x, int n_outer) {
  region_state *st = x->st;
  if (!x->empty)
    x->inner = walk_merge(st, n_outer, st->n_axes);
  x->outer = walk_merge(st, 0, n_outer);
  double points = (double)walk_points(st, &x->inner);
  double along = walk_choose_lanes(st, &x->inner, 0),
         across = walk_choose_lanes(st, &x->outer, 1 / points);
  along += OP_COST * st->n / lanes_of(st, &x->inner) + ROW_COST / points;
  across += OP_COST * st->n / lanes_of(st, &x->outer);
  st->wide = across < along;
  if (st->wide) /* sums of rows are wider */
    st->lanes = (int)min_i64(st->lanes, REGION_LANES);
}

/* Rows of a batch lie along the last of the outer axes. */
static int64_t last_outer(const loop_open *x) {
  return x->st->extent[x->outer.axis[x->outer.n - 1]];
}
static int64_t batches_of(const loop_open *x) {
  return (last_outer(x) + x->st->batch - 1) / x->st->batch;
}

/* Short rows in batches, as many as stay near from phase to phase; not of few rows, which may be cut in pieces. */
static void choose_batch(loop_open *x) {
  region_state *st = x->st;
  int64_t points = walk_points(st, &x->inner), rows = min_i64(BATCH_MOST, BATCH_POINTS / points);
  if (x->inner.n != 1 || x->outer.n < 1 || rows < 2 || last_outer(x) < rows ||
      walk_points(st, &x->outer) < 2 * rows * ROWS_ENOUGH)
    return;
  chain_choose_batch(st, (int)rows);
}

/* Few points may still be many tiles: a tile is a box of two axes. */
static bool is_one_tile(const region_state *st, const axis_list *axes) {
  walk w;
  walk_begin(&w, st, axes);
  return walk_points(st, axes) <= st->lanes && walk_tiles(&w) == 1;
}

sn_status loop_begin(cpu_run *r, const loop_part *p, const loop_extents *e, loop_open *x) {
  *x = (loop_open){.r = r, .rows = e->by_rows, .empty = e->points == 0};
  SN_TRY(region_resolve(r, &p->code, p->n_axes, e->extent, loop_lanes_of(&p->code), &x->st));
  region_state *st = x->st;
  choose_streams(st);
  if (!x->empty)
    walk_split(st, p->n_outer);
  if (x->rows) {
    choose_rows(x, p->n_outer);
  } else {
    x->inner = walk_merge(st, 0, st->n_axes);
    if ((x->n = loop_find_move(st, &x->inner, &x->move)) > 0)
      return SN_OK;
    walk_choose_lanes(st, &x->inner, 1);
  }
  st->whole_rows = x->rows && !st->wide && !x->empty && is_one_tile(st, &x->inner);
  if (st->whole_rows && !region_find_same(st))
    choose_batch(x);
  SN_TRY(region_finish(r, st, x->rows));
  if (!x->empty)
    walk_begin(&x->points, st, &x->inner);
  if (st->wide)
    walk_begin(&x->across, st, &x->outer);
  x->n = !x->rows    ? walk_tiles(&x->points)
         : st->wide  ? walk_tiles(&x->across)
         : st->batch ? walk_points(st, &x->outer) / last_outer(x) * batches_of(x)
                     : walk_points(st, &x->outer);
  return SN_OK;
}

/* --- rows --- */
static const int64_t origin[REGION_AXES];

void loop_begin_reductions(const region_state *st, const region_range *range, int n) {
  for (int i = range->from; i < range->to; i++)
    if (st->ops[i].i->op == REGION_REDUCE)
      reduce_begin(st, &st->ops[i], n);
}

void loop_end_reductions(const region_state *st, const region_range *range, int n) {
  for (int i = range->from; i < range->to; i++)
    if (st->ops[i].i->op == REGION_REDUCE)
      reduce_end(st, &st->ops[i], n);
}

/* Number i of the batches. */
static void batch_tile(const loop_open *x, int64_t i, tile *t) {
  int64_t at[REGION_AXES] = {0}, batches = batches_of(x), extent = last_outer(x);
  int axis = x->outer.axis[x->outer.n - 1];
  walk_point(x->st, &x->outer, i / batches * extent + i % batches * x->st->batch, at);
  t->axis = axis;
  tile_clear(t);
  tile_add(t, at, (int)min_i64(x->st->batch, extent - at[axis]));
}

void loop_row_tile(loop_open *x, int64_t i, tile *t) {
  if (x->st->batch) {
    batch_tile(x, i, t);
    return;
  }
  if (x->st->wide) {
    walk_seek(&x->across, origin, i, 1);
    (void)walk_next(&x->across, t);
    return;
  }
  int64_t at[REGION_AXES] = {0};
  walk_point(x->st, &x->outer, i, at);
  t->axis = 0;
  tile_clear(t);
  tile_add(t, at, 1);
}

int64_t loop_points(const loop_open *x) {
  return x->empty ? 0 : x->st->wide ? walk_points(x->st, &x->inner) : walk_tiles(&x->points);
}

/* The points of all rows of a tile, one a row at a time. */
static void run_across(loop_open *x, region_range *range, tile *t, int64_t from, int64_t to) {
  int64_t at[REGION_AXES] = {0};
  walk_point(x->st, &x->inner, from, at);
  for (int64_t k = from; k < to; k++) {
    for (int s = 0; s < t->n_segments; s++)
      for (int i = 0; i < x->inner.n; i++)
        t->segments[s].at[x->inner.axis[i]] = at[x->inner.axis[i]];
    if (k > from && loop_steps_across(x, t)) {
      loop_run_across(x, range, t, to - k);
      return;
    }
    region_run_range(x->r, x->st, range, t, NULL);
    if (!x->tried_list)
      loop_list_rows(x);
    (void)walk_step(x->st, &x->inner, at);
  }
}

void loop_run_points(loop_open *x, region_range *range, tile *rows, int64_t from, int64_t to) {
  if (x->st->wide) {
    run_across(x, range, rows, from, to);
    return;
  }
  if (x->st->whole_rows && x->inner.n == 1) { /* the row's tile, made as long as that */
    segment *g = &rows->segments[0];
    int axis = rows->axis;
    rows->axis = x->inner.axis[0];
    rows->n = g->n = (int)x->st->extent[rows->axis];
    region_run_range(x->r, x->st, range, rows, NULL);
    rows->axis = axis;
    rows->n = g->n = 1;
    return;
  }
  tile t;
  walk_seek(&x->points, rows->segments[0].at, from, to - from);
  while (walk_next(&x->points, &t))
    region_run_range(x->r, x->st, range, &t, NULL);
}

/* The points of the rows of a batch, row by row: its tile, one row further each time, and as long as that. */
static void run_batch_points(loop_open *x, region_range *range, tile *t) {
  region_state *st = x->st;
  segment *g = &t->segments[0];
  const int axis = t->axis, rows = t->n;
  t->axis = x->inner.axis[0];
  t->n = g->n = (int)st->extent[t->axis];
  for (st->row = 0; st->row < rows; st->row++, g->at[axis]++) {
    loop_begin_reductions(st, range, CPU_LANE_BLOCK);
    region_run_range(x->r, st, range, t, NULL);
    loop_end_reductions(st, range, 1);
  }
  st->row = 0;
  t->axis = axis;
  t->n = g->n = rows;
  g->at[axis] -= rows;
}

static void run_row(loop_open *x, int64_t i) {
  tile t;
  int64_t points = loop_points(x);
  loop_row_tile(x, i, &t);
  for (int k = 0; k < x->st->n_ranges; k++) {
    region_range *range = &x->st->ranges[k];
    if (range->row) {
      region_run_range(x->r, x->st, range, &t, NULL);
      continue;
    }
    if (x->st->batch) {
      run_batch_points(x, range, &t);
      continue;
    }
    loop_begin_reductions(x->st, range, loop_lanes(&t));
    loop_run_points(x, range, &t, 0, points);
    loop_end_reductions(x->st, range, t.n);
  }
}

void loop_run(loop_open *x, int64_t from, int64_t to) {
  if (x->move.n > 0) {
    loop_run_move(&x->move, x->st->kernels, from, to);
    return;
  }
  if (!x->rows) {
    tile t;
    walk_seek(&x->points, origin, from, to - from);
    while (walk_next(&x->points, &t))
      region_run_range(x->r, x->st, &x->st->ranges[0], &t, NULL);
    return;
  }
  for (; from < to && (x->st->wide || !x->list); from++) {
    run_row(x, from);
    if (!x->tried_list)
      loop_list_rows(x);
  }
  if (from < to)
    loop_run_listed(x, from, to);
}

/* --- steps --- */
size_t cpu_need_loop(const program *p, const step *s) {
  (void)p;
  size_t most = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const region *code = &s->parts[i].u.loop.code;
    pool_part pool;
    size_t bytes = pool_find(&s->parts[i].u.loop, &pool)
                       ? pool_need(&pool)
                       : region_bytes(code, loop_lanes_of(code)) + loop_list_bytes();
    most = bytes > most ? bytes : most;
  }
  return most;
}

size_t cpu_need_shared_loop(const program *p, const step *s) {
  size_t most = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const loop_part *q = &s->parts[i].u.loop;
    if (!has_rows(q))
      continue;
    loop_extents x = loop_measure(q, size_most, p);
    size_t bytes = loop_may_split(q, &x) ? loop_split_bytes(q) : 0;
    most = bytes > most ? bytes : most;
  }
  return most;
}

/* Units of all parts that are not cut, in one loop. */
static sn_status run_units(cpu_run *r, const step *s, int64_t total) {
  int at = -1, open = -1;
  pool_part pool;
  int64_t first = 0, units = 0; /* of part `at` */
  size_t used = r->scratch_used;
  loop_open x;
  loop_extents e = {0};
  cpu_begin(r);
  for (int64_t i; cpu_next(r, total, &i);) {
    while (i >= first + units) {
      first += units;
      const loop_part *p = &s->parts[++at].u.loop;
      e = measure(r, p);
      units = pool_find(p, &pool) || loop_may_split(p, &e) ? 0 : units_of(r, p, &e);
    }
    if (open != at) {
      r->scratch_used = used;
      SN_TRY(loop_begin(r, &s->parts[at].u.loop, &e, &x));
      open = at;
    }
    loop_run(&x, x.n * (i - first) / units, x.n * (i - first + 1) / units);
  }
  r->scratch_used = used;
  return SN_OK;
}

sn_status cpu_run_loop(cpu_run *r, const step *s) {
  size_t used = r->scratch_used, shared = r->shared_used;
  int64_t total = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const loop_part *p = &s->parts[i].u.loop;
    loop_extents e = measure(r, p);
    pool_part pool;
    if (pool_find(p, &pool)) {
      SN_TRY(pool_run(r, &pool));
      r->scratch_used = used;
      continue;
    }
    if (!loop_may_split(p, &e)) {
      total += units_of(r, p, &e);
      continue;
    }
    loop_open x;
    SN_TRY(loop_begin(r, p, &e, &x));
    SN_TRY(loop_run_split(&x, p, loop_work(p, &e)));
    r->scratch_used = used;
    r->shared_used = shared;
  }
  SN_TRY(run_units(r, s, total));
  r->isa->lanes->fence(); /* behind stores past the caches */
  return SN_OK;
}
