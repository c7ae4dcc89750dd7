/* How the results of a part are cut into units: see matmul_cut in matmul.h.
 *
 * An operand is packed either once for all units (by all threads together into shared scratch, or by each thread for itself
 * where it is small), or by each unit that needs it. The smaller operand is made ready so; the larger side is then cut finely,
 * each unit packing its own part of it, which no other needs. In a batch each entry has operands of its own: there units pack all they need.
 */
#include "device/cpu/matmul.h"

enum {
  SIDE_MOST = MATMUL_TABLE, /* rows or columns of any unit */
  ONE_MOST =
      384 *
      1024, /* floats: sums of a unit where all of k is one block: most are stored as soon as they are summed */
  SLAB_LEAST = 8,        /* panels, if there are as many */
  UNITS_EACH = 2,        /* that a thread gets, where there is work enough */
  OWN_EACH = 8,          /* panels a thread, of a side that is cut though it is the shorter */
  LONG_FLOATS = 1 << 20, /* of one side: more are better not made ready where results are few */
  LONG_LEAST = 96 /* rows or columns of a unit then: the other side is packed again for each */
};
static const double UNIT_FLOPS = 4e6; /* more are worth a cut */
static const double UNIT_COST =
    0.15; /* of a unit, in panels: the other side comes from afar again */

static int64_t panels_of(const matmul_shape *s, int side) {
  return max_i64(1, up(s->extent[side], s->width[side]));
}

static double flops_of(const matmul_shape *s) {
  return 2.0 * (double)s->extent[ROWS] * (double)s->extent[COLS] * (double)s->k;
}

/* --- what stays in caches, in floats --- */

static int64_t second_cache(const matmul_shape *s) {
  return s->caches.second / (int64_t)sizeof(float);
}
/* What a unit packs of a block of k, on one side. */
static int64_t own_floats(const matmul_shape *s) { return second_cache(s) * 3 / 8; }
/* Sums of a unit. */
static int64_t sums_floats(const matmul_shape *s) { return second_cache(s) * 3 / 8; }
/* What each thread packs for itself: lines from other cores cost more. */
static int64_t near_floats(const matmul_shape *s) { return second_cache(s) * 9 / 8; }
/* What is ready for all. */
static int64_t shared_floats(const matmul_shape *s) {
  return s->caches.third / (int64_t)sizeof(float);
}

/* --- units --- */

/* Tiles of a unit, at most. */
static int64_t tiles_of(const matmul_shape *s) {
  int64_t most = s->accs == 1 && s->k <= MATMUL_K ? ONE_MOST : sums_floats(s);
  return max_i64(1, most / s->accs / (s->width[ROWS] * s->width[COLS]));
}

/* Rows or columns of a unit that packs them, at most. */
static int64_t own_most(const matmul_shape *s) {
  return min_i64(SIDE_MOST, own_floats(s) / max_i64(1, min_i64(MATMUL_K, s->k)));
}

/* Panels of a unit, at most `most`, so that all units are about as large. */
static int64_t even_panels(int64_t panels, int64_t most) {
  return up(panels, up(panels, max_i64(1, most)));
}

/* Panels of a unit along a side, with `others` units along the other: few units that are large, but as many as keep all threads
 * at work to the end. Units differ by one panel at most. */
static int64_t share_panels(const matmul_shape *s, int side, int64_t others, int64_t most) {
  int64_t panels = panels_of(s, side), best = 0, worth = (int64_t)(flops_of(s) / UNIT_FLOPS);
  int64_t fewest = s->threads > 1 ? min_i64((int64_t)UNITS_EACH * s->threads, worth) : 1;
  double least = 0;
  for (int64_t p = min_i64(most, panels); p > 0; p--) {
    int64_t pieces = up(panels, p), units = pieces * others, rounds = up(units, s->threads);
    double time = (double)rounds * ((double)panels / (double)pieces + UNIT_COST);
    if (p > 1 && units < fewest)
      continue;
    if (best == 0 || time < least) {
      least = time;
      best = p;
    }
    if (units >= worth)
      break;
  }
  return up(panels, up(panels, best));
}

/* The side that units cut: the longer, or that which is not kept, so that what a thread packs is its own. */
static int side_to_cut(const matmul_shape *s) {
  int longer = s->extent[ROWS] > s->extent[COLS] ? ROWS : COLS, own = s->kept[ROWS] ? COLS : ROWS;
  bool pays = s->kept[ROWS] != s->kept[COLS] && panels_of(s, own) >= (int64_t)OWN_EACH * s->threads;
  return pays ? own : longer;
}

/* Units pack all they need. */
static void cut_alone(const matmul_shape *s, matmul_cut *c) {
  int64_t tiles = tiles_of(s), most = own_floats(s) / MATMUL_K;
  int64_t cols = even_panels(panels_of(s, COLS), min_i64(most / 2 / s->width[COLS], tiles));
  int64_t rows = even_panels(panels_of(s, ROWS), min_i64(most / s->width[ROWS], tiles / cols));
  c->unit[COLS] = cols * s->width[COLS];
  c->unit[ROWS] = rows * s->width[ROWS];
}

/* Long sums of few results, as in gradients of weights: panels of all of k would go through memory and back. Rather each thread
 * packs both sides of a large unit, a block of k at a time. */
static bool cut_long(const matmul_shape *s, int along, int other, matmul_cut *c) {
  int64_t all = panels_of(s, along), whole = panels_of(s, other);
  int64_t unit = up(all, s->threads), most = own_floats(s) / MATMUL_K;
  if (whole * s->width[other] * s->k < LONG_FLOATS || unit * s->width[along] > most ||
      whole * s->width[other] > most || unit * whole > tiles_of(s) ||
      unit * s->width[along] < LONG_LEAST)
    return false;
  c->unit[along] = unit * s->width[along];
  c->unit[other] = whole * s->width[other];
  return true;
}

matmul_cut matmul_cut_for(const matmul_shape *s) {
  int along = side_to_cut(s), other = along == ROWS ? COLS : ROWS;
  int64_t all = panels_of(s, other), slab = all;
  bool near = !s->kept[other] && all * s->width[other] * s->k <= near_floats(s);
  if (!s->kept[other] && !near)
    slab = min_i64(all, s->room / max_i64(1, s->k * s->width[other]));
  matmul_cut c = {.ready = {s->kept[ROWS], s->kept[COLS]}};
  for (int i = 0; i < SIDES; i++)
    c.slab[i] = panels_of(s, i) * s->width[i];
  if (s->batch > 1 || flops_of(s) < 2 * UNIT_FLOPS || slab < min_i64(all, SLAB_LEAST)) {
    cut_alone(s, &c);
    return c;
  }
  if (!s->kept[other] && !near && cut_long(s, along, other, &c))
    return c;
  int64_t tiles = tiles_of(s), least = 4; /* panels of a unit along, if there is room */
  int64_t unit = even_panels(slab, min_i64(SIDE_MOST / s->width[other], max_i64(1, tiles / least)));
  int64_t most = s->kept[along] ? SIDE_MOST : own_most(s);
  most = min_i64(most / s->width[along], max_i64(1, tiles / unit));
  c.ready[other] = true;
  c.near[other] = near;
  c.slab[other] = slab * s->width[other];
  c.unit[other] = unit * s->width[other];
  c.unit[along] = share_panels(s, along, up(slab, unit), most) * s->width[along];
  return c;
}

int64_t matmul_own_most(const matmul_shape *s, int side) {
  int64_t all = panels_of(s, side) * s->width[side] * min_i64(MATMUL_K, s->k);
  return min_i64(max_i64(own_floats(s), s->width[side] * MATMUL_K), all);
}

int64_t matmul_near_most(const matmul_shape *s) {
  int64_t most = min_i64(panels_of(s, ROWS) * s->width[ROWS], panels_of(s, COLS) * s->width[COLS]);
  return flops_of(s) < 2 * UNIT_FLOPS ? 0 : min_i64(near_floats(s), most * s->k);
}

int64_t matmul_sums_most(const matmul_shape *s) {
  int64_t all = panels_of(s, ROWS) * s->width[ROWS] * panels_of(s, COLS) * s->width[COLS];
  return s->accs * (min_i64(all, max_i64(ONE_MOST, sums_floats(s)) / s->accs) + CPU_LANE_BLOCK);
}

int64_t matmul_shared_most(const matmul_shape *s) {
  int64_t most = min_i64(panels_of(s, ROWS) * s->width[ROWS], panels_of(s, COLS) * s->width[COLS]);
  bool none = flops_of(s) < 2 * UNIT_FLOPS || most * s->k <= near_floats(s);
  return none ? 0 : min_i64(shared_floats(s), most * s->k);
}
