/* Loop parts: POINTWISE and ROW steps. Called by the device.
 *
 * A row part runs in one of two ways. By points: lanes are points of one row, row registers are computed for one lane and
 * spread. By rows: lanes are rows, and the points of all of them are visited one after another; this is the way of
 * short rows and of rows that are strided in memory where their neighbours are not. */
#include "device/cpu/walk.h"

/* What a tile costs beside its lanes, by op; what a row costs beside its tiles. In about ns. */
static const double OP_COST = 6, ROW_COST = 60;

static sn_status run_points(cpu_run *r, region_state *st) {
  axis_list axes = walk_merge(st, 0, st->n_axes);
  walk_choose_lanes(st, &axes);
  SN_TRY(region_finish(r, st, false));
  walk w;
  tile t;
  walk_begin(&w, st, &axes);
  while (walk_next(&w, &t))
    cpu_region_run(r, st, &t, NULL);
  return SN_OK;
}

/* --- rows --- */
typedef struct rows {
  cpu_run *r;
  region_state *st;
  axis_list outer, inner;
  bool empty;  /* rows of no points */
  walk points; /* of a row */
} rows;

static void begin_reductions(const region_state *st, const region_range *range, int n) {
  for (int i = range->from; i < range->to; i++)
    if (st->ops[i].i->op == REGION_REDUCE)
      reduce_begin(&st->ops[i], n);
}

static void end_reductions(const region_state *st, const region_range *range, int n) {
  for (int i = range->from; i < range->to; i++)
    if (st->ops[i].i->op == REGION_REDUCE) {
      reduce_end(&st->ops[i], n);
      if (!st->wide)
        region_spread(&st->ops[i]);
    }
}

/* One row at `at`, lanes along it. */
static void run_row(rows *x, const int64_t *at, tile *t) {
  for (int k = 0; k < x->st->n_ranges; k++) {
    region_range *range = &x->st->ranges[k];
    if (range->row) {
      tile_clear(t);
      tile_add(t, at, 1);
      region_run_range(x->r, x->st, range, t, NULL);
      continue;
    }
    begin_reductions(x->st, range, 1);
    if (!x->empty) {
      walk_restart(&x->points, at);
      while (walk_next(&x->points, t))
        region_run_range(x->r, x->st, range, t, NULL);
    }
    end_reductions(x->st, range, 1);
  }
}

static void run_by_points(rows *x) {
  int64_t at[REGION_AXES] = {0};
  tile t;
  t.axis = 0;
  if (!x->empty)
    walk_begin(&x->points, x->st, &x->inner);
  do
    run_row(x, at, &t);
  while (walk_step(x->st, &x->outer, at));
}

/* The points of all rows of a tile, one a row at a time. */
static void run_across(rows *x, region_range *range, tile *t) {
  int64_t at[REGION_AXES] = {0};
  do {
    for (int s = 0; s < t->n_segments; s++)
      for (int i = 0; i < x->inner.n; i++)
        t->segments[s].at[x->inner.axis[i]] = at[x->inner.axis[i]];
    region_run_range(x->r, x->st, range, t, NULL);
  } while (walk_step(x->st, &x->inner, at));
}

static void run_by_rows(rows *x) {
  walk w;
  tile t;
  walk_begin(&w, x->st, &x->outer);
  while (walk_next(&w, &t)) {
    int whole = (t.n + CPU_LANE_BLOCK - 1) / CPU_LANE_BLOCK * CPU_LANE_BLOCK;
    for (int k = 0; k < x->st->n_ranges; k++) {
      region_range *range = &x->st->ranges[k];
      if (range->row) {
        region_run_range(x->r, x->st, range, &t, NULL);
        continue;
      }
      begin_reductions(x->st, range, whole);
      if (!x->empty)
        run_across(x, range, &t);
      end_reductions(x->st, range, t.n);
    }
  }
}

static double lanes_of(const rows *x, const axis_list *axes) {
  return (double)min_i64(walk_points(x->st, axes), CPU_TILE);
}

static sn_status run_rows(cpu_run *r, region_state *st, int n_outer, bool empty) {
  rows x = {.r = r, .st = st, .empty = empty};
  if (!empty)
    x.inner = walk_merge(st, n_outer, st->n_axes);
  x.outer = walk_merge(st, 0, n_outer);
  double along = walk_choose_lanes(st, &x.inner), across = walk_choose_lanes(st, &x.outer);
  along += OP_COST * st->n / lanes_of(&x, &x.inner) + ROW_COST / (double)walk_points(st, &x.inner);
  across += OP_COST * st->n / lanes_of(&x, &x.outer);
  st->wide = across < along;
  SN_TRY(region_finish(r, st, true));
  if (st->wide)
    run_by_rows(&x);
  else
    run_by_points(&x);
  return SN_OK;
}

/* --- parts --- */
static sn_status run_part(cpu_run *r, const loop_part *p) {
  int64_t extents[REGION_AXES];
  bool no_rows = false, no_points = false;
  for (int i = 0; i < p->n_axes; i++) {
    extents[i] = cpu_size(r, p->extent[i]);
    if (extents[i] == 0)
      *(i < p->n_outer ? &no_rows : &no_points) = true;
  }
  bool by_rows = p->n_outer > 0 || p->n_phases > 1;
  for (int i = 0; i < p->code.n && !by_rows; i++)
    by_rows = p->code.code[i].row || p->code.code[i].op == REGION_REDUCE;
  if (no_rows || (no_points && !by_rows) || p->code.n == 0)
    return SN_OK;
  region_state *st;
  SN_TRY(region_resolve(r, &p->code, p->n_axes, extents, &st));
  return by_rows ? run_rows(r, st, p->n_outer, no_points) : run_points(r, st);
}

size_t cpu_need_loop(const program *p, const step *s) {
  (void)p;
  size_t most = 0;
  for (int i = 0; i < s->n_parts; i++) {
    size_t bytes = cpu_region_bytes(&s->parts[i].u.loop.code);
    most = bytes > most ? bytes : most;
  }
  return most;
}

sn_status cpu_run_loop(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    size_t used = r->scratch_used;
    SN_TRY(run_part(r, &s->parts[i].u.loop));
    r->scratch_used = used;
  }
  return SN_OK;
}
