/* Splitting and merging of axes, choice of the lane axis, and the walk over
 * tiles. Called by loops before and during a part.
 *
 * Tiles are single segments where the lane axis is long, so that loads can be
 * pointers and what does not move is kept; along a short one they hold several
 * whole runs of it, and squares where some access is turned. */
#include "device/cpu/walk.h"

#include <math.h>
#include <stdlib.h>

enum {
  LONG_RUN = 96, /* from here on a tile is one segment */
  SQUARE = 16,   /* side of a tile where some access is turned; or twice as much */
  BLOCKED = 4,   /* such tiles along the side of a square of them */
  SPLIT_LEAST = 8,
  FAR = 16 /* elements: a stride of a cache line */
};

/* Of an access, beside its lanes; in about ns. */
static const double SEGMENT_COST = 10;

/* --- sums of a region --- */
/* Calls f on every sum; false when f says so of one. */
static bool each_sum(const region_state *st, bool (*f)(index_sum *s, void *user), void *user) {
  for (int i = 0; i < st->n; i++) {
    index_access *at = st->ops[i].at;
    for (int c = -1; at && c < at->n_checks; c++)
      if (!f(c < 0 ? &at->at : &at->checks[c].v, user))
        return false;
  }
  return true;
}

/* --- splitting: axis = inner * quotient + remainder --- */
typedef struct split {
  int axis, to; /* that becomes the quotient; of the remainder */
  int64_t by;
} split;

static bool find_divisor(index_sum *s, void *user) {
  split *x = user;
  for (int i = 0; i < s->n_odd; i++) {
    const odd_term *t = &s->odd[i];
    if (t->axis == x->axis)
      x->by = x->by ? x->by : t->div > 1 ? t->div : t->mod;
  }
  return true;
}

/* Whether a sum divides the axis just so: by the divisor, or with it as the
 * modulus. */
static bool divides_so(index_sum *s, void *user) {
  const split *x = user;
  for (int i = 0; i < s->n_odd; i++) {
    const odd_term *t = &s->odd[i];
    if (t->axis == x->axis && !(t->div == x->by || (t->div == 1 && t->mod == x->by)))
      return false;
  }
  return true;
}

static bool runs_dense(index_sum *s, void *user) {
  const split *x = user;
  return llabs(s->stride[x->axis]) != 1; /* stops at the first that does */
}

static bool split_sum(index_sum *s, void *user) {
  const split *x = user;
  int kept = 0;
  s->stride[x->to] = s->stride[x->axis];
  s->stride[x->axis] *= x->by;
  for (int i = 0; i < s->n_odd; i++) {
    odd_term t = s->odd[i];
    if (t.axis != x->axis)
      s->odd[kept++] = t;
    else if (t.div == 1)
      s->stride[x->to] += t.stride;
    else if (t.mod == 0)
      s->stride[x->axis] += t.stride;
    else {
      t.div = 1;
      s->odd[kept++] = t;
    }
  }
  s->n_odd = kept;
  s->odd_axes = 0;
  for (int i = 0; i < kept; i++)
    if (s->odd[i].axis != TERM_REG)
      s->odd_axes |= UINT32_C(1) << s->odd[i].axis;
  return true;
}

void walk_split(region_state *st, int first) {
  for (int axis = first, end = st->n_axes; axis < end && st->n_axes < REGION_AXES; axis++) {
    split x = {.axis = axis, .to = st->n_axes};
    (void)each_sum(st, find_divisor, &x);
    if (x.by < SPLIT_LEAST || st->extent[axis] % x.by != 0 || st->extent[axis] <= x.by ||
        !each_sum(st, divides_so, &x) || each_sum(st, runs_dense, &x))
      continue;
    (void)each_sum(st, split_sum, &x);
    st->extent[st->n_axes++] = x.by;
    st->extent[axis] /= x.by;
  }
}

/* --- merging --- */
static void join(region_state *st, int a, int b) {
  for (int i = 0; i < st->n; i++) {
    index_access *at = st->ops[i].at;
    for (int c = -1; at && c < at->n_checks; c++)
      (c < 0 ? &at->at : &at->checks[c].v)->stride[a] = 0;
  }
  st->extent[b] *= st->extent[a];
  st->extent[a] = 1;
}

axis_list walk_merge(region_state *st, int first, int end) {
  axis_list list = {0};
  for (int axis = first; axis < end; axis++) {
    if (st->extent[axis] == 1)
      continue;
    int before = list.n ? list.axis[list.n - 1] : -1;
    if (before >= 0 && region_joins(st, before, axis)) {
      join(st, before, axis);
      list.n--;
    }
    list.axis[list.n++] = axis;
  }
  return list;
}

int64_t walk_points(const region_state *st, const axis_list *axes) {
  int64_t n = 1;
  for (int i = 0; i < axes->n; i++)
    n *= st->extent[axes->axis[i]];
  return n;
}

/* --- the lane axis --- */
static double sum_cost(const index_sum *s, int axis, bool memory) {
  if (s->by_register || s->odd_axes >> axis & 1)
    return 4;
  int64_t stride = llabs(s->stride[axis]);
  return stride == 0 || !memory ? 0.1 : stride == 1 ? 0.2 : stride < FAR ? 1 : 2;
}

static double access_cost(const index_access *a, int axis) {
  double cost = sum_cost(&a->at, axis, a->data != NULL);
  for (int c = 0; c < a->n_checks; c++)
    cost += sum_cost(&a->checks[c].v, axis, false);
  return cost;
}

/* Per point, with lanes along an axis; -1: with one lane. Accesses of rows count by `rows`. */
static double lanes_cost(const region_state *st, int axis, double rows) {
  double cost = 0, accesses = 0;
  for (int i = 0; i < st->n; i++) {
    const region_op_state *op = &st->ops[i];
    double count = op->i->row ? rows : 1;
    if (!op->at)
      continue;
    accesses += count;
    cost += axis < 0 ? 0 : count * access_cost(op->at, axis);
  }
  int64_t lanes = axis < 0 ? 1 : min_i64(st->extent[axis], st->lanes);
  return cost + SEGMENT_COST * accesses / (double)lanes;
}

double walk_choose_lanes(const region_state *st, axis_list *axes, double rows) {
  double best = INFINITY;
  int at = 0;
  for (int i = 0; i < axes->n; i++) {
    double cost = lanes_cost(st, axes->axis[i], rows);
    if (cost <= best) {
      best = cost;
      at = i;
    }
  }
  if (axes->n == 0)
    return lanes_cost(st, -1, rows);
  int axis = axes->axis[at];
  for (int i = at; i + 1 < axes->n; i++)
    axes->axis[i] = axes->axis[i + 1];
  axes->axis[axes->n - 1] = axis;
  return best;
}

/* The axis along which some access is near though it runs far along the lanes:
 * with squares of both, the lines of memory that a tile touches are used whole.
 * -1: none. */
static int turned_axis(const region_state *st, const axis_list *axes, int lane_axis) {
  for (int i = 0; i < st->n; i++) {
    const index_access *a = st->ops[i].at;
    if (!a || !a->data || llabs(a->at.stride[lane_axis]) < FAR)
      continue;
    for (int k = 0; k < axes->n; k++)
      if (llabs(a->at.stride[axes->axis[k]]) == 1)
        return axes->axis[k];
  }
  return -1;
}

/* --- the walk --- */
static int longest_axis(const region_state *st, const axis_list *axes) {
  int best = -1;
  for (int i = 0; i < axes->n; i++)
    if (best < 0 || st->extent[axes->axis[i]] >= st->extent[best])
      best = axes->axis[i];
  return best;
}

/* Points of a tile along the lane axis and, where that leaves room, along another. */
static void choose_box(walk *w, const axis_list *others, int64_t lane_extent) {
  const region_state *st = w->st;
  int64_t lanes = st->lanes;
  int turned = turned_axis(st, others, w->lane_axis),
      side = lanes >= 4 * SQUARE * SQUARE ? 2 * SQUARE : SQUARE;
  w->row_axis = -1, w->rows = 1;
  if (lane_extent >= SQUARE && turned >= 0 && st->extent[turned] >= SQUARE) {
    w->row_axis = turned;
    w->chunk = w->rows = side;
    w->square = true;
    return;
  }
  if (lane_extent < LONG_RUN) {
    w->chunk = (int)lane_extent;
    w->row_axis = longest_axis(st, others);
    if (w->row_axis >= 0)
      w->rows = (int)min_i64(min_i64(CPU_SEGMENTS, lanes / lane_extent), st->extent[w->row_axis]);
    return;
  }
  /* Chunks of about equal size, in whole blocks. */
  int64_t chunks = (lane_extent + lanes - 1) / lanes, each = (lane_extent + chunks - 1) / chunks;
  w->chunk = (int)((each + CPU_LANE_BLOCK - 1) / CPU_LANE_BLOCK * CPU_LANE_BLOCK);
}

static void add_digit(walk *w, int axis, int by, int64_t count) {
  w->digits[w->n_digits++] = (struct walk_digit){axis, by, count, 0};
}
static void add_axis(walk *w, int axis, int by) {
  add_digit(w, axis, by, (w->st->extent[axis] + by - 1) / by);
}

void walk_begin(walk *w, const region_state *st, const axis_list *axes) {
  axis_list others = *axes;
  *w = (walk){.st = st, .row_axis = -1, .chunk = 1, .rows = 1};
  w->lane_axis = axes->n ? axes->axis[--others.n] : 0;
  if (axes->n)
    choose_box(w, &others, st->extent[w->lane_axis]);
  for (int i = 0; i < others.n; i++)
    if (!w->square || others.axis[i] != w->row_axis)
      add_axis(w, others.axis[i], others.axis[i] == w->row_axis ? w->rows : 1);
  if (!axes->n)
    return;
  if (!w->square) {
    add_axis(w, w->lane_axis, w->chunk);
    return;
  }
  /* Squares of squares: both sides run on along their lines and stay within few pages. */
  add_axis(w, w->row_axis, w->rows * BLOCKED);
  add_axis(w, w->lane_axis, w->chunk * BLOCKED);
  add_digit(w, w->row_axis, w->rows, BLOCKED);
  add_digit(w, w->lane_axis, w->chunk, BLOCKED);
}

int64_t walk_tiles(const walk *w) {
  int64_t n = 1;
  for (int i = 0; i < w->n_digits; i++)
    n *= w->digits[i].count;
  return n;
}

void walk_seek(walk *w, const int64_t *at, int64_t first, int64_t count) {
  memcpy(w->at, at, sizeof w->at);
  w->left = count;
  for (int i = w->n_digits - 1; i >= 0; i--)
    w->at[w->digits[i].axis] = 0;
  for (int i = w->n_digits - 1; i >= 0; i--) {
    struct walk_digit *d = &w->digits[i];
    d->value = first % d->count;
    w->at[d->axis] += d->value * d->by;
    first /= d->count;
  }
}

static void count_on(walk *w) {
  for (int i = w->n_digits - 1; i >= 0; i--) {
    struct walk_digit *d = &w->digits[i];
    w->at[d->axis] += d->by;
    if (++d->value < d->count)
      return;
    w->at[d->axis] -= d->count * d->by;
    d->value = 0;
  }
}

static void add_segment(tile *t, const int64_t *at, int n_axes, int n) {
  segment *g = &t->segments[t->n_segments++];
  memcpy(g->at, at, (size_t)n_axes * sizeof *at);
  g->lane = t->n;
  g->n = n;
  t->n += n;
}

/* The tile at hand; of no lanes where it is beyond the edge of a square of squares. */
static void make_tile(walk *w, tile *t) {
  const int64_t *extent = w->st->extent;
  int64_t n = w->n_digits ? min_i64(w->chunk, extent[w->lane_axis] - w->at[w->lane_axis]) : 1;
  t->axis = w->lane_axis;
  tile_clear(t);
  if (n <= 0)
    return;
  if (w->row_axis < 0) {
    add_segment(t, w->at, w->st->n_axes, (int)n);
    return;
  }
  int64_t from = w->at[w->row_axis], to = min_i64(extent[w->row_axis], from + w->rows);
  for (; w->at[w->row_axis] < to; w->at[w->row_axis]++)
    add_segment(t, w->at, w->st->n_axes, (int)n);
  w->at[w->row_axis] = from;
}

bool walk_next(walk *w, tile *t) {
  t->n = 0;
  while (t->n == 0) {
    if (w->left-- <= 0)
      return false;
    make_tile(w, t);
    count_on(w);
  }
  return true;
}

void walk_point(const region_state *st, const axis_list *axes, int64_t index, int64_t *at) {
  for (int i = axes->n - 1; i >= 0; i--) {
    int axis = axes->axis[i];
    at[axis] = index % st->extent[axis];
    index /= st->extent[axis];
  }
}

bool walk_step(const region_state *st, const axis_list *axes, int64_t *at) {
  for (int i = axes->n - 1; i >= 0; i--) {
    int axis = axes->axis[i];
    if (++at[axis] < st->extent[axis])
      return true;
    at[axis] = 0;
  }
  return false;
}
