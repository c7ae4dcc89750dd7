/* How the results of a part are cut into units: see matmul_cut in matmul.h.
 *
 * An operand is packed either once for all units (by all threads together into shared scratch, or by each thread for itself
 * where it is small), or by each unit that needs it. The smaller operand is made ready so; the larger side is then cut finely,
 * each unit packing its own part of it, which no other needs. In a batch each entry has operands of its own: there units pack all they need.
 */
#include "device/cpu/matmul.h"

enum {
  OWN_MOST = 384,           /* rows or columns of a unit that packs them */
  SIDE_MOST = MATMUL_TABLE, /* rows or columns of any unit */
  SUMS_MOST = 96 * 1024,    /* floats: the sums of a unit stay in the second cache */
  SHARED_MOST = 8 << 20,    /* floats: what is ready stays in the third */
  NEAR_FLOATS =
      288 * 1024,        /* that each thread packs for itself: lines from other cores cost more */
  SLAB_LEAST = 8,        /* panels, if there are as many */
  UNITS_EACH = 4,        /* that a thread gets, where there is work enough */
  LONG_FLOATS = 1 << 20, /* of one side: more are better not made ready where results are few */
  LONG_LEAST = 96 /* rows or columns of a unit then: the other side is packed again for each */
};
static const double UNIT_FLOPS = 4e6; /* more are worth a cut */

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }

static int64_t panels_of(const matmul_shape *s, int side) {
  return max_i64(1, up(s->extent[side], s->width[side]));
}

static double flops_of(const matmul_shape *s) {
  return 2.0 * (double)s->extent[ROWS] * (double)s->extent[COLS] * (double)s->k;
}

/* Tiles of a unit, at most. */
static int64_t tiles_of(const matmul_shape *s) {
  return max_i64(1, SUMS_MOST / s->accs / (s->width[ROWS] * s->width[COLS]));
}

/* Panels of a unit, at most `most`, so that all units are about as large. */
static int64_t even_panels(int64_t panels, int64_t most) {
  return up(panels, up(panels, max_i64(1, most)));
}

/* Panels a unit along a side, with `others` units along the other: few units that are large, but as many as keep all
 * threads at work to the end. */
static int64_t share_panels(const matmul_shape *s, int side, int64_t others, int64_t most) {
  int64_t panels = panels_of(s, side), best = 0;
  double least = 0;
  for (int64_t p = min_i64(most, panels); p > 0; p--) {
    int64_t units = up(panels, p) * others, rounds = up(units, s->threads);
    bool large = flops_of(s) > UNIT_FLOPS * (double)units;
    double time = (double)(rounds * p) + 0.02 * (double)rounds;
    if (large && p > 1 && s->threads > 1 && units < (int64_t)UNITS_EACH * s->threads)
      continue;
    if (best == 0 || time < least) {
      least = time;
      best = p;
    }
    if (!large)
      break;
  }
  return best;
}

/* Units pack all they need. */
static void cut_alone(const matmul_shape *s, matmul_cut *c) {
  int64_t tiles = tiles_of(s);
  int64_t cols = even_panels(panels_of(s, COLS), min_i64(OWN_MOST / 2 / s->width[COLS], tiles));
  int64_t rows = even_panels(panels_of(s, ROWS), min_i64(OWN_MOST / s->width[ROWS], tiles / cols));
  c->unit[COLS] = cols * s->width[COLS];
  c->unit[ROWS] = rows * s->width[ROWS];
}

/* Long sums of few results, as in gradients of weights: panels of all of k would go through memory and back. Rather each thread
 * packs both sides of a large unit, a block of k at a time. */
static bool cut_long(const matmul_shape *s, int along, int other, matmul_cut *c) {
  int64_t all = panels_of(s, along), whole = panels_of(s, other);
  int64_t unit = up(all, s->threads);
  if (whole * s->width[other] * s->k < LONG_FLOATS || unit * s->width[along] > OWN_MOST ||
      whole * s->width[other] > OWN_MOST || unit * whole > tiles_of(s) ||
      unit * s->width[along] < LONG_LEAST)
    return false;
  c->unit[along] = unit * s->width[along];
  c->unit[other] = whole * s->width[other];
  return true;
}

matmul_cut matmul_cut_for(const matmul_shape *s) {
  int along = s->extent[ROWS] > s->extent[COLS] ? ROWS : COLS, other = along == ROWS ? COLS : ROWS;
  int64_t all = panels_of(s, other), slab = all;
  bool near = !s->kept[other] && all * s->width[other] * s->k <= NEAR_FLOATS;
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
  int64_t tiles = tiles_of(s), least = along == COLS ? 2 : 4; /* panels of a unit along */
  int64_t unit = even_panels(slab, min_i64(SIDE_MOST / s->width[other], max_i64(1, tiles / least)));
  int64_t most = s->kept[along] ? SIDE_MOST : OWN_MOST;
  most = min_i64(most / s->width[along], max_i64(1, tiles / unit));
  c.ready[other] = true;
  c.near[other] = near;
  c.slab[other] = slab * s->width[other];
  c.unit[other] = unit * s->width[other];
  c.unit[along] = share_panels(s, along, up(slab, unit), most) * s->width[along];
  return c;
}

int64_t matmul_own_most(const matmul_shape *s, int side) {
  return min_i64(OWN_MOST, panels_of(s, side) * s->width[side]) * min_i64(MATMUL_K, s->k);
}

int64_t matmul_near_most(const matmul_shape *s) {
  int64_t most = min_i64(panels_of(s, ROWS) * s->width[ROWS], panels_of(s, COLS) * s->width[COLS]);
  return flops_of(s) < 2 * UNIT_FLOPS ? 0 : min_i64(NEAR_FLOATS, most * s->k);
}

int64_t matmul_sums_most(const matmul_shape *s) {
  int64_t all = panels_of(s, ROWS) * s->width[ROWS] * panels_of(s, COLS) * s->width[COLS];
  return s->accs * (min_i64(all, SUMS_MOST / s->accs) + CPU_LANE_BLOCK);
}

int64_t matmul_shared_most(const matmul_shape *s) {
  int64_t most = min_i64(panels_of(s, ROWS) * s->width[ROWS], panels_of(s, COLS) * s->width[COLS]);
  bool none = flops_of(s) < 2 * UNIT_FLOPS || most * s->k <= NEAR_FLOATS;
  return none ? 0 : min_i64(SHARED_MOST, most * s->k);
}
