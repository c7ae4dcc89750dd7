/* How rows are dealt out to threads and workgroups. See emit_rows.h. */
#include "device/vulkan/emit_rows.h"

/* Whether most loads of points are of neighbouring elements for neighbouring rows, not for neighbouring points. */
static bool by_columns(const loop_part *p) {
  int rows = 0, points = 0;
  for (int i = 0; i < p->code.n; i++) {
    const instr *in = &p->code.code[i];
    if (in->op != REGION_LOAD || in->row)
      continue;
    for (int t = 0; t < in->at.n_terms; t++) {
      const term *at = &in->at.terms[t];
      if (at->axis == TERM_REG || at->stride != 1)
        continue;
      rows += at->axis == p->n_outer - 1;
      points += at->axis >= p->n_outer;
    }
  }
  return rows > points;
}

/* Few columns: 32 of them next to each other are a line of memory, 8 still read all that they fetch. Lanes have four points each,
 * which are loaded at once. */
static row_deal deal_few_columns(const emitter *e, int64_t rows, int64_t points) {
  const gpu_target *target = e->env.target;
  int columns = 32, most = target->max_threads < 1024 ? target->max_threads : 1024, lanes = 1;
  while (columns > 8 && rows / columns < target->units)
    columns /= 2;
  while (columns > 1 && columns / 2 >= rows)
    columns /= 2;
  while (columns * lanes < most && ((int64_t)lanes * 4 < points || columns * lanes < 64))
    lanes *= 2;
  return (row_deal){.columns = true, .wide = 1, .threads = columns * lanes, .lanes = lanes};
}

/* Wide ones, of which each thread has four: a few of them, for all of the points, where that keeps enough of the device busy. Long
 * ones are read in pieces, 256 bytes of a line at once, which all but the narrowest have, so that they are one shader; those of all but
 * few points have as many lanes, too, though some have no point then. */
static row_deal deal_wide_columns(const emitter *e, int64_t rows, int64_t points, int loads) {
  enum {
    LONG = 10000 /* vectors of a column: about what another launch takes to read */,
    FEW = 128
  };
  const gpu_target *target = e->env.target;
  int most = target->subgroup < 32 ? 256 : 512, lanes = 1;
  most = target->max_threads < most ? target->max_threads : most;
  bool in_pieces = points > LONG / loads && rows < (int64_t)target->units * 2;
  int columns = in_pieces ? 16 : 8;
  while (columns > 2 && !in_pieces && rows / columns < target->units)
    columns /= 2;
  while (columns > 1 && columns / 2 >= rows)
    columns /= 2;
  while (columns * lanes < most && (points > FEW || lanes * 4 < points || columns * lanes < 64))
    lanes *= 2;
  int64_t groups = (rows + columns - 1) / columns, pieces = 1;
  if (in_pieces)
    pieces = min_i64(target->units * 2 / max_i64(1, groups), points / (lanes * 4));
  return (row_deal){.columns = true,
                    .wide = EMIT_WIDE,
                    .threads = columns * lanes,
                    .lanes = lanes,
                    .pieces = (int)max_i64(1, pieces)};
}

/* Long rows have more threads where the device can have that many at once. */
static int threads_of(const emitter *e, int64_t rows, int64_t points) {
  const gpu_target *target = e->env.target;
  int threads = emit_threads(e), most = threads < 256 ? threads : 1024;
  most = most < target->max_threads ? most : target->max_threads;
  while (threads < most && (int64_t)threads * 4 < points &&
         (points >= 8192 ? rows * 1024 < (int64_t)target->units * 4096
                         : rows * threads * 2 <= (int64_t)target->units * 1024))
    threads *= 2;
  return threads;
}

/* About four points a lane; more lanes where there are too few rows to keep the device busy. */
static row_deal deal(const emitter *e, const loop_part *p, int64_t rows, int64_t points) {
  const gpu_target *target = e->env.target;
  bool columns = p->n_outer > 0 && by_columns(p);
  int loads = columns && emit_threads(e) >= 256 ? row_may_be_wide(e, p) : 0;
  int wide = loads ? EMIT_WIDE : 1;
  rows /= wide;
  bool few = rows < (int64_t)target->units * 64;
  bool window = points <= EMIT_WINDOW && rows >= (int64_t)target->units * (wide > 1 ? 16 : 64);
  if (columns && few && !window && emit_threads(e) >= 256)
    return loads ? deal_wide_columns(e, rows, points, loads) : deal_few_columns(e, rows, points);
  int threads = columns ? emit_threads(e) : threads_of(e, rows, points);
  int most = columns && rows > 32 ? threads / 32 : threads;
  if (window) /* neighbours are other rows' */
    return (row_deal){.wide = wide, .threads = threads / 2, .lanes = 1};
  int each = few && (columns || points < 128 || !row_has_fours(e, p)) ? 1 : 4;
  int lanes = 1;
  while (lanes < most && (int64_t)lanes * each < points)
    lanes *= 2;
  return (row_deal){.columns = columns, .wide = wide, .threads = threads, .lanes = lanes};
}

/* --- pieces and slices --- */

/* Whether anything that is loaded is overwritten; `of_row`: once a row. */
static bool overwrites_loads(const emitter *e, const loop_part *p, bool of_row) {
  for (int i = 0; i < p->code.n; i++)
    for (int s = 0; s < p->code.n; s++)
      if ((p->code.code[i].row || !of_row) && row_overwrites(e, &p->code.code[i], &p->code.code[s]))
        return true;
  return false;
}

/* So many that every unit has a workgroup or more, where there is enough to do for another two launches or more to pay. Later
 * kernels compute row registers again, so nothing that a row loads may be overwritten in between. */
static int pieces_of(const emitter *e, const loop_part *p, const row_deal *d, int64_t rows,
                     int64_t points) {
  int64_t groups = (rows * d->lanes + d->threads - 1) / d->threads, units = e->env.target->units;
  int pieces = 1;
  if (d->wide > 1)
    return d->pieces > 1 ? d->pieces : 1;
  if (rows < 1 || groups * 2 > units || points < 64 * 1024 / rows || points < 16 * d->lanes ||
      overwrites_loads(e, p, true))
    return 1;
  while (pieces < 256 && groups * pieces < units && points > (int64_t)pieces * d->lanes * 8)
    pieces *= 2;
  return pieces;
}

/* Whether all that points store is of the last phase, which reduces nothing. */
static bool ends_with_stores(const loop_part *p) {
  bool any = false;
  for (int i = 0; i < p->code.n; i++) {
    const instr *in = &p->code.code[i];
    bool last = in->phase == p->n_phases - 1, store = in->op == REGION_STORE && !in->row;
    if (in->op == REGION_REQUIRE || (store && !last) || (last && in->op == REGION_REDUCE))
      return false;
    any = any || store;
  }
  return any && p->n_phases > 1;
}

/* As many as keep the device busy, with a subgroup or more of lanes each. */
static int slices_of(const emitter *e, const loop_part *p, const row_deal *d, int64_t rows,
                     int64_t points) {
  const gpu_target *target = e->env.target;
  int slices = 1;
  if (d->columns || d->pieces > 1 || d->lanes < d->threads || rows < 1 || points < 1024 ||
      !ends_with_stores(p) || overwrites_loads(e, p, true))
    return 1;
  while (rows * slices * 2 <= target->units && d->lanes >= slices * 2 * target->subgroup)
    slices *= 2;
  return slices;
}

/* Norms whose rows are a workgroup's: as few threads as have the row in a few fours each. Putting together what threads have costs the
 * same for each of them, so there are few; the last phase takes one four after the other, so that its code, which a launch must
 * fetch first, is that of one. */
static void deal_fours(const emitter *e, const loop_part *p, int64_t points, row_deal *d) {
  enum { FOURS = 4 };
  int threads = d->threads, least = emit_threads(e);
  if (least < 256 || d->columns || d->pieces > 1 || d->lanes < d->threads || !ends_with_stores(p) ||
      !row_has_fours(e, p))
    return;
  while (threads / 2 >= least && points % (threads * 2) == 0 && points / (threads * 2) <= FOURS)
    threads /= 2;
  int64_t fours = points / (threads * 4);
  if (fours < 2 || fours > FOURS || points % (threads * 4) != 0)
    return;
  row_shape shape = row_fours_shape((int)fours);
  if (!row_has_moments(e, p, &shape, threads))
    return;
  d->threads = d->lanes = threads;
  d->fours = (int)fours;
}

/* A few rows that a workgroup has at once, one four a lane: gradients of norms. Those of all lengths have the threads of the longest, so that they are
 * one shader, and the device has room for them. */
static void deal_alike(const emitter *e, const loop_part *p, int64_t rows, int64_t points,
                       row_deal *d) {
  enum { THREADS = 1024, LEAST = 512 };
  const gpu_target *target = e->env.target;
  if (emit_threads(e) < 256 || target->max_threads < THREADS || rows * 4 > target->units ||
      points < LEAST || points > THREADS * 4 || d->columns || d->wide > 1 || d->pieces > 1 ||
      d->fours > 0 || p->n_phases != 2 || !ends_with_stores(p) || !row_has_fours(e, p))
    return;
  row_shape shape = row_shape_of(e, p, (int)(points / 4), false);
  if (!shape.kept || !shape.four || shape.unroll != 4)
    return;
  d->threads = d->lanes = THREADS;
  d->some = true;
}

/* Workgroups share fours first, all lanes of them, then lanes. */
static void share_fours(row_deal *d) {
  d->shares = 1;
  while (d->fours > 0 && d->slices % 2 == 0 && d->fours % (d->shares * 2) == 0) {
    d->shares *= 2;
    d->slices /= 2;
  }
}

row_deal row_deal_of(const emitter *e, const loop_part *p) {
  int64_t rows = min_i64(INT32_MAX, sizes_most(&e->env, p->n_outer, p->extent));
  int64_t points = sizes_most(&e->env, p->n_axes - p->n_outer, p->extent + p->n_outer);
  points = min_i64(INT32_MAX, points);
  row_deal d = deal(e, p, rows, points);
  d.pieces = pieces_of(e, p, &d, rows, points);
  deal_fours(e, p, points, &d);
  deal_alike(e, p, rows, points, &d);
  d.slices = slices_of(e, p, &d, rows, points);
  d.sliced = d.slices > 1 || d.some;
  bool few = d.some && points <= 2 * d.lanes; /* most lanes have no points */
  if (few || overwrites_loads(e, p, false))   /* one slice, of the same kernel */
    d.slices = 1;
  share_fours(&d);
  return d;
}
