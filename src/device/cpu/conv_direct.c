/* Convolutions with few channels a group (depthwise ones above all), summed where their images lie: see conv.h.
 *
 * A line of pixels is the sum of as many shifted lines of the image as the kernel has places, each with its weight. Pixels
 * near an edge, where some places lie outside, go one by one over those that do not. */
#include "device/cpu/conv.h"
#include "device/cpu/isa/pack.h"
#include "device/cpu/matmul.h"

enum { PLACES = 64 }; /* of the kernel, over all channels of the group */

/* One product at work, on the lines of a unit. */
typedef struct direct_sums {
  const operand_plan *plan;
  const pack_kernels *kernels;
  pack_sums s; /* all but the columns, places and results of a call */
  int64_t base, checks[ACCESS_CHECKS];
  int n;
  int64_t at[PLACES], place_checks[PLACES][ACCESS_CHECKS]; /* of each place */
  int64_t lo[PLACES],
      hi[PLACES]; /* pixels of a whole line that it reaches, checks across lines aside */
  bool alike;     /* lo and hi hold */
  float weights[PACK_SUMS][PLACES];
} direct_sums;

/* The places that a line has, and the pixels lo … hi-1 that each reaches. */
typedef struct line_places {
  int n;
  int which[PLACES];
  int64_t lo[PLACES], hi[PLACES];
} line_places;

static bool product_fits(const matmul_work *w, const struct matmul_term *t) {
  const matmul_operand *o = t->of[COLS];
  return t->k.count <= PLACES && o->is_direct && o->plan.fits && o->direct.dtype == SN_F32 &&
         !o->plan.along_k && o->plan.rows.n > 0 && w->side[ROWS].count <= PACK_SUMS;
}

bool conv_is_direct(const matmul_work *w) {
  bool fits = w->n_products > 0;
  for (int i = 0; i < w->n_products && fits; i++)
    fits = product_fits(w, &w->products[i]);
  return fits;
}

static void open_sums(matmul_work *w, const struct matmul_term *t, int64_t row, int64_t n_rows,
                      direct_sums *d) {
  const matmul_operand *o = t->of[COLS];
  int64_t coords[PLAN_AXES], checks[ACCESS_CHECKS];
  d->plan = &o->plan;
  d->kernels = w->r->isa->pack;
  d->n = (int)t->k.count;
  direct_batch(&o->direct, w->part->n_batch, w->coords, &d->base, checks);
  for (int c = 0; c < d->plan->n_checks; c++)
    d->checks[c] = checks[d->plan->checks[c].of];
  const plan_group *g = &d->plan->k;
  memset(coords, 0, sizeof coords);
  for (int k = 0; k < d->n; k++) {
    d->at[k] = plan_at(g, coords);
    plan_checks(g, coords, d->plan->n_checks, d->place_checks[k]);
    coords[max_i64(0, g->n - 1)]++;
    plan_carry(g, coords);
  }
  operand_read(w, t->of[ROWS], row, n_rows, 0, d->n, true, d->weights[0], PLACES);
  d->s = (pack_sums){.x = (const float *)(const void *)o->direct.data,
                     .rows = (int)n_rows,
                     .by = d->plan->rows.axes[d->plan->rows.n - 1].at,
                     .weights_row = PLACES};
}

/* Pixels of a line that place k reaches; checks that move along it, or those that do not. */
static void reach(const direct_sums *d, const int64_t *checks, int k, bool moving, int64_t *lo,
                  int64_t *hi) {
  const plan_axis *last = &d->plan->rows.axes[d->plan->rows.n - 1];
  for (int c = 0; c < d->plan->n_checks && *lo < *hi; c++)
    if ((last->checks[c] != 0) == moving)
      plan_narrow(checks[c] + d->place_checks[k][c], last->checks[c], d->plan->checks[c].size, lo,
                  hi);
}

/* Whether what moves along a line is the same for all lines. */
static bool lines_are_alike(const operand_plan *p) {
  const plan_group *g = &p->rows;
  bool alike = true;
  for (int c = 0; c < p->n_checks; c++)
    for (int a = 0; a < g->n - 1; a++)
      alike = alike && (g->axes[g->n - 1].checks[c] == 0 || g->axes[a].checks[c] == 0);
  return alike;
}

static void find_reaches(direct_sums *d) {
  for (int k = 0; k < d->n; k++) {
    d->lo[k] = 0;
    d->hi[k] = d->plan->rows.axes[d->plan->rows.n - 1].extent;
    reach(d, d->checks, k, true, &d->lo[k], &d->hi[k]);
  }
}

/* Of n pixels of a line from the one that `first` counts. */
static void find_places(const direct_sums *d, const int64_t *checks, int64_t first, int64_t n,
                        line_places *out) {
  out->n = 0;
  for (int k = 0; k < d->n; k++) {
    int64_t lo = d->alike ? max_i64(0, d->lo[k] - first) : 0;
    int64_t hi = d->alike ? min_i64(n, d->hi[k] - first) : n;
    reach(d, checks, k, false, &lo, &hi);
    if (!d->alike)
      reach(d, checks, k, true, &lo, &hi);
    if (lo >= hi)
      continue;
    out->which[out->n] = k;
    out->lo[out->n] = lo;
    out->hi[out->n++] = hi;
  }
}

/* Pixels from … from+n-1 of a line that begins at element `at`, over the places that reach all of them. */
static void sum_pixels(const direct_sums *d, const line_places *p, int64_t at, int64_t from,
                       int64_t n, float *c) {
  int64_t elements[PLACES];
  float weights[PACK_SUMS][PLACES];
  pack_sums s = d->s;
  s.n = 0;
  for (int i = 0; i < p->n; i++) {
    if (from < p->lo[i] || from + n > p->hi[i])
      continue;
    elements[s.n] = at + d->at[p->which[i]] + from * s.by;
    for (int r = 0; r < s.rows; r++)
      weights[r][s.n] = d->weights[r][p->which[i]];
    s.n++;
  }
  s.at = elements;
  s.weights = weights[0];
  s.columns = n;
  s.c = c + from;
  d->kernels->sums(&s);
}

/* n pixels of one line. */
static void sum_line(const direct_sums *d, const int64_t *coords, int64_t n, float *c) {
  line_places p;
  int64_t checks[ACCESS_CHECKS], lo = 0, hi = n, at = d->base + plan_at(&d->plan->rows, coords);
  plan_checks(&d->plan->rows, coords, d->plan->n_checks, checks);
  for (int i = 0; i < d->plan->n_checks; i++)
    checks[i] += d->checks[i];
  find_places(d, checks, coords[d->plan->rows.n - 1], n, &p);
  for (int i = 0; i < p.n; i++) {
    lo = max_i64(lo, p.lo[i]);
    hi = min_i64(hi, p.hi[i]);
  }
  hi = max_i64(lo, hi);
  for (int64_t j = 0; j < n; j++)
    if (j == lo && lo < hi) {
      sum_pixels(d, &p, at, lo, hi - lo, c);
      j = hi - 1;
    } else {
      sum_pixels(d, &p, at, j, 1, c);
    }
}

/* All columns of a unit, line by line. */
static void sum_product(matmul_work *w, const struct matmul_term *t, const int64_t at[SIDES],
                        const int64_t n[SIDES], float *c, int64_t c_row) {
  direct_sums d;
  const plan_group *g = &t->of[COLS]->plan.rows;
  const plan_axis *last = &g->axes[g->n - 1];
  int64_t coords[PLAN_AXES];
  open_sums(w, t, at[ROWS], n[ROWS], &d);
  d.alike = lines_are_alike(d.plan);
  find_reaches(&d);
  d.s.c_row = c_row;
  d.s.add = !t->first;
  plan_coords(g, at[COLS], coords);
  for (int64_t j = 0, run; j < n[COLS]; j += run) {
    run = min_i64(n[COLS] - j, last->extent - coords[g->n - 1]);
    sum_line(&d, coords, run, c + j);
    coords[g->n - 1] += run;
    plan_carry(g, coords);
  }
}

void conv_sum_direct(matmul_work *w, const int64_t at[SIDES], const int64_t n[SIDES], float *c,
                     int64_t c_row) {
  for (int i = 0; i < w->n_products; i++) {
    const struct matmul_term *t = &w->products[i];
    sum_product(w, t, at, n, c + t->acc * w->sums_size, c_row);
  }
}
