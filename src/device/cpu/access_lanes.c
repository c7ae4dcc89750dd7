/* Lanes of accesses: which points pass their checks, loads, stores, numbers as registers. Called by the region machine.
 *
 * A tile that is one block of memory (runs that lie evenly) is moved by one kernel; otherwise segment by segment, or by numbers. */
#include "device/cpu/machine.h"

#include <stdlib.h>

enum {
  /* Elements that chains ask for before their turn, where memory goes on and there is one chain; and where it is a long one. */
  AHEAD = 256,
  LONG_AHEAD = 1024,
  LONG_CHAIN = 5, /* steps */
  ROWS_AHEAD = 3  /* points, where lanes are rows */
};

/* --- checks --- */
static int64_t divide_up(int64_t a, int64_t b) { /* b > 0 */
  return a > 0 ? (a + b - 1) / b : -(-a / b);
}

/* Narrows lo … hi-1 to the points i of a segment where 0 <= start + by * i <
 * size. */
static void narrow(int64_t start, int64_t by, int64_t size, int64_t *lo, int64_t *hi) {
  if (by == 0) {
    if (start < 0 || start >= size)
      *hi = *lo;
    return;
  }
  if (by < 0) { /* mirrored: 0 <= size-1 - v < size */
    start = size - 1 - start;
    by = -by;
  }
  *lo = max_i64(*lo, divide_up(-start, by));
  *hi = max_i64(*lo, min_i64(*hi, divide_up(size - start, by)));
}

static bool is_linear(const index_access *a, int axis) {
  if (a->simple)
    return true;
  bool linear = sum_is_linear(&a->at, axis);
  for (int i = 0; i < a->n_checks; i++)
    linear &= sum_is_linear(&a->checks[i].v, axis) && a->checks[i].divisor == 1;
  return linear;
}

/* The points lo … hi-1 of a segment that pass all checks, which are linear. */
static void find_inside(const region_state *st, const index_access *a, const segment *g, int axis,
                        int64_t *lo, int64_t *hi) {
  *lo = 0, *hi = g->n;
  for (int i = 0; i < a->n_checks; i++) {
    const index_check *c = &a->checks[i];
    narrow(sum_start(st, &c->v, g, axis), c->v.stride[axis], c->size, lo, hi);
  }
  *lo = min_i64(*lo, g->n);
  *hi = max_i64(*lo, min_i64(*hi, g->n));
}

/* Whether a check of lanes that are not linear passes, lane by lane. */
static void check_lanes(region_state *st, const index_check *k, const segment *g, int axis,
                        int64_t lo, int64_t hi) {
  int64_t *v = st->numbers + g->lane;
  uint8_t *inside = st->inside + g->lane;
  sum_numbers(st, &k->v, g, axis, v);
  if (k->divisor == 1)
    st->kernels->within(inside + lo, v + lo, k->size, (int)(hi - lo));
  else
    for (int64_t i = lo; i < hi; i++)
      inside[i] &= v[i] >= 0 && v[i] % k->divisor == 0 && v[i] / k->divisor < k->size;
}

static bool passes(const index_check *k, int64_t v) {
  return v >= 0 && v % k->divisor == 0 && v / k->divisor < k->size;
}

/* Of one segment. What stands still along it is looked at once, what is linear leaves an interval; the rest, within that, lane by
 * lane. False: no point passes. */
static bool inside_segment(region_state *st, const index_access *a, const segment *g, int axis) {
  int64_t lo = 0, hi = g->n;
  uint32_t by_lane = 0;
  for (int c = 0; c < a->n_checks && lo < hi; c++) {
    const index_check *k = &a->checks[c];
    bool linear = sum_is_linear(&k->v, axis);
    if (linear && k->divisor == 1)
      narrow(sum_start(st, &k->v, g, axis), k->v.stride[axis], k->size, &lo, &hi);
    else if (linear && k->v.stride[axis] == 0)
      hi = passes(k, sum_start(st, &k->v, g, axis)) ? hi : lo;
    else
      by_lane |= UINT32_C(1) << c;
    lo = min_i64(lo, g->n);
    hi = max_i64(lo, min_i64(hi, g->n));
  }
  memset(st->inside + g->lane, 0, (size_t)g->n);
  memset(st->inside + g->lane + lo, 1, (size_t)(hi - lo));
  for (int c = 0; c < a->n_checks && lo < hi; c++)
    if (by_lane >> c & 1)
      check_lanes(st, &a->checks[c], g, axis, lo, hi);
  return lo < hi;
}

/* Fills st->inside; false: no point of the tile passes. */
static bool inside_lanes(region_state *st, const index_access *a, const tile *t) {
  bool any = false;
  for (int s = 0; s < t->n_segments; s++)
    any |= inside_segment(st, a, &t->segments[s], t->axis);
  return any;
}

static char *element(const index_access *a, int64_t at) { return a->data + at * a->size; }

static void load_segment(const region_state *st, const index_access *a, const segment *g, int axis,
                         void *lanes) {
  int64_t lo, hi;
  find_inside(st, a, g, axis, &lo, &hi);
  char *out = (char *)lanes + (size_t)g->lane * 4; /* lanes of all kinds are 4 bytes */
  if (lo > 0)
    memset(out, 0, (size_t)lo * 4);
  if (hi < g->n)
    memset(out + hi * 4, 0, (size_t)(g->n - hi) * 4);
  if (lo == hi)
    return;
  int64_t by = a->at.stride[axis];
  lane_block b = {.n = (int)(hi - lo), .rows = 1, .by = by};
  st->kernels->read(a->dtype, out + lo * 4, element(a, sum_start(st, &a->at, g, axis) + by * lo),
                    &b);
}

/* Whether a sum steps evenly from segment to segment of a regular tile. */
static bool is_even(const region_state *st, const index_sum *s) {
  return st->shape.axis < 0 ||
         (!(s->odd_axes >> st->shape.axis & 1) &&
          (!s->by_register ||
           !(s->register_moves & (MOVES_ALWAYS | UINT32_C(1) << st->shape.axis))));
}

/* The tile as one block of memory, if it is one; all its sums are linear. */
static bool as_block(const region_state *st, const index_access *a, const tile *t,
                     lane_block *out) {
  if (!st->shape.regular || !is_even(st, &a->at))
    return false;
  *out = (lane_block){.n = t->segments[0].n, .rows = t->n_segments, .by = a->at.stride[t->axis]};
  out->row_by = st->shape.axis < 0 ? 0 : a->at.stride[st->shape.axis];
  return true;
}

/* Whether all points of a regular tile pass: what is linear does so where its
 * ends do. */
static bool all_inside(const region_state *st, const index_access *a, const tile *t) {
  const segment *ends[] = {&t->segments[0], &t->segments[t->n_segments - 1]};
  for (int i = 0; i < a->n_checks; i++)
    if (!is_even(st, &a->checks[i].v))
      return false;
  for (int i = 0; i < 2; i++) {
    int64_t lo, hi;
    find_inside(st, a, ends[i], t->axis, &lo, &hi);
    if (lo > 0 || hi < ends[i]->n)
      return false;
  }
  return true;
}

static bool is_dense(const lane_block *b) {
  return b->by == 1 && (b->rows == 1 || b->row_by == b->n);
}

static int64_t whole(int n) { return (n + CPU_LANE_BLOCK - 1) / CPU_LANE_BLOCK * CPU_LANE_BLOCK; }

/* Asks for what the next block will be if it lies as far from this one as this from the last: by the time that its turn comes,
 * it has come nearer. Long runs that go on in memory the processor follows by itself. */
static void ask_ahead(index_access *a, int64_t start, const lane_block *b) {
  const int64_t size = a->size, line = 64;
  bool turned = b->row_by == 1 && b->by > 1;
  int64_t runs = turned ? b->n : b->rows, apart = turned ? b->by : b->row_by,
          run = turned ? b->rows : b->n;
  int64_t next = start + (start - a->before), span = (runs - 1) * apart + run;
  bool goes_on = next == start + b->n && b->rows == 1 && b->n > CPU_TILE;
  a->before = start;
  if (goes_on || (b->by != 1 && !turned) || apart < 0 || next == start || next < 0 ||
      next + span > a->count)
    return;
  for (int64_t r = 0; r < runs; r++)
    for (int64_t i = 0; i < run * size; i += line)
      __builtin_prefetch(element(a, next + r * apart) + i);
}

/* The same for memory that chains read as it is: they ask for it while they work. Of rows that are at hand as a whole it is the
 * next; what goes on is followed by the processor, and only better so if it is not asked for from too far. */
static int find_ahead(const region_state *st, const region_op_state *op, int64_t start, int n) {
  index_access *a = op->at;
  int64_t by = start - a->before;
  if (st->batch)
    by *= st->batch;
  else if (st->wide)
    by *= ROWS_AHEAD;
  else if (by == n && !st->whole_rows && st->ranges[op->range].chains == 1)
    by = st->n_ranges <= 2 && st->n_steps >= LONG_CHAIN ? LONG_AHEAD : AHEAD; /* of one phase */
  a->before = start;
  bool inside = start + by >= 0 && start + by + n <= a->count && llabs(by) < INT32_MAX / 4;
  return inside ? (int)by * 4 : 0;
}

static void load_block(const region_state *st, region_op_state *op, const tile *t,
                       const lane_block *b) {
  index_access *a = op->at;
  int64_t start = sum_start(st, &a->at, &t->segments[0], t->axis);
  /* Memory that looks like a register is one, up to the lanes that kernels may
   * read. */
  bool room = t->n % CPU_LANE_BLOCK == 0 || (!a->aliased && start + whole(t->n) <= a->reach);
  if (op->flat_ok && b->by == 0 && (b->rows == 1 || b->row_by == 0)) {
    st->kernels->read(a->dtype, op->own, element(a, start), &(lane_block){.n = 1, .rows = 1});
    op->flat = true;
    return;
  }
  if (is_dense(b) && !a->copied && a->size == 4 && room) {
    op->lanes = element(a, start);
    op->ahead = op->leads ? find_ahead(st, op, start, t->n) : 0;
    return;
  }
  ask_ahead(a, start, b);
  st->kernels->read(a->dtype, op->own, element(a, start), b);
}

void access_load(region_state *st, region_op_state *op, const tile *t) {
  const index_access *a = op->at;
  lane_block b;
  op->lanes = op->own;
  op->flat = false;
  op->ahead = 0;
  if (a->nothing) {
    memset(op->own, 0, (size_t)t->n * 4);
    return;
  }
  if (!is_linear(a, t->axis)) {
    if (a->n_checks && !inside_lanes(st, a, t)) {
      memset(op->own, 0, (size_t)t->n * 4);
      return;
    }
    access_numbers(st, a, t);
    st->kernels->gather(a->dtype, op->own, a->data, st->numbers, a->n_checks ? st->inside : NULL,
                        t->n);
    return;
  }
  if (as_block(st, a, t, &b) && (a->n_checks == 0 || all_inside(st, a, t))) {
    load_block(st, op, t, &b);
    return;
  }
  for (int i = 0; i < t->n_segments; i++)
    load_segment(st, a, &t->segments[i], t->axis, op->own);
}

/* --- numbers as registers --- */
void access_index(region_state *st, region_op_state *op, const tile *t) {
  const index_access *a = op->at;
  int32_t *out = op->own;
  op->lanes = op->own;
  if (op->i->op == REGION_INSIDE) {
    const lane_block all = {.n = t->n, .rows = 1, .by = 1};
    (void)inside_lanes(st, a, t);
    st->kernels->read(SN_BOOL, out, st->inside, &all);
    return;
  }
  if (!sum_is_linear(&a->at, t->axis)) {
    access_numbers(st, a, t);
    for (int i = 0; i < t->n; i++)
      out[i] = (int32_t)st->numbers[i];
    return;
  }
  for (int s = 0; s < t->n_segments; s++) {
    const segment *g = &t->segments[s];
    st->kernels->ramp(out + g->lane, (int32_t)sum_start(st, &a->at, g, t->axis),
                      (int32_t)a->at.stride[t->axis], g->n);
  }
}

/* --- stores --- */
void *access_dense(const region_state *st, const region_op_state *store, const tile *t) {
  const index_access *a = store->at;
  lane_block b;
  if (t->n % CPU_LANE_BLOCK != 0 || !sum_is_linear(&a->at, t->axis) || !as_block(st, a, t, &b) ||
      !is_dense(&b))
    return NULL;
  return element(a, sum_start(st, &a->at, &t->segments[0], t->axis));
}

static void store_segments(const region_state *st, const index_access *a, const tile *t,
                           const char *lanes) {
  lane_block b = {.rows = 1, .by = a->at.stride[t->axis]};
  for (int i = 0; i < t->n_segments; i++) {
    const segment *g = &t->segments[i];
    b.n = g->n;
    st->kernels->write(a->dtype, element(a, sum_start(st, &a->at, g, t->axis)), lanes + g->lane * 4,
                       &b);
  }
}

void access_store(region_state *st, region_op_state *op, const tile *t) {
  const index_access *a = op->at;
  const char *lanes = st->ops[op->a].lanes;
  lane_block b;
  if (op->kernel) { /* the register is of another kind than the memory */
    op->kernel(st->spare, lanes, NULL, NULL, 0, 0, t->n);
    lanes = st->spare;
  }
  if (!sum_is_linear(&a->at, t->axis)) {
    access_numbers(st, a, t);
    st->kernels->scatter(a->dtype, a->data, lanes, st->numbers, t->n);
    return;
  }
  if (!as_block(st, a, t, &b)) {
    store_segments(st, a, t, lanes);
    return;
  }
  char *to = element(a, sum_start(st, &a->at, &t->segments[0], t->axis));
  if (to == lanes) /* it is there already: see run_alu, chain_run */
    return;
  if (a->streams && b.by == 1)
    st->kernels->stream(to, lanes, &b);
  else
    st->kernels->write(a->dtype, to, lanes, &b);
}
