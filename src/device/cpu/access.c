/* Accesses of regions: where in memory the lanes of a load or store are, as numbers for one run's sizes.
 *
 * Along the lane axis most accesses are linear: a start and a stride for each segment, and a check is then an interval
 * of lanes. What is not (divided coordinates, registers as indices, checks with a divisor) is computed lane by lane into
 * st->numbers and st->inside first.
 *
 * Invariants: a stride of an axis with at most one point is 0; odd terms have div >= 1, and a mod of 0 or above 1. */
#include "device/cpu/lanes.h"
#include "device/cpu/machine.h"

#include <assert.h>

/* --- resolving --- */
static size_t sum_bytes(int n_terms) { return cpu_take_bytes((size_t)n_terms * sizeof(odd_term)); }

size_t access_bytes(const access *a) {
  size_t bytes = cpu_take_bytes(sizeof(index_access)) + sum_bytes(a->n_terms) +
                 cpu_take_bytes((size_t)a->n_checks * sizeof(index_check));
  for (int i = 0; i < a->n_checks; i++)
    bytes += sum_bytes(a->checks[i].n_terms);
  return bytes;
}

static void add_odd(index_sum *s, odd_term t) {
  s->odd[s->n_odd++] = t;
  if (t.axis == TERM_REG)
    s->by_register = true;
  else
    s->odd_axes |= UINT32_C(1) << t.axis;
}

static void add_term(cpu_run *r, index_sum *s, const term *t, const int64_t *extents) {
  odd_term odd = {t->axis, t->from, cpu_size(r, t->stride), cpu_size(r, t->div),
                  cpu_size(r, t->mod)};
  if (odd.stride == 0)
    return;
  if (odd.axis == TERM_REG) {
    add_odd(s, odd);
    return;
  }
  int64_t extent = extents[odd.axis];
  odd.div = odd.div < 1 ? 1 : odd.div;
  if (odd.mod == 1 || odd.div >= extent || extent <= 1)
    return; /* always 0 */
  if (odd.mod > (extent - 1) / odd.div)
    odd.mod = 0;
  if (odd.div == 1 && odd.mod == 0)
    s->stride[odd.axis] += odd.stride;
  else
    add_odd(s, odd);
}

static bool sum_resolve(cpu_run *r, sn_dim base, int n_terms, const term *terms,
                        const int64_t *extents, index_sum *out) {
  *out = (index_sum){.base = cpu_size(r, base)};
  out->odd = cpu_take(r, (size_t)n_terms * sizeof(odd_term));
  if (!out->odd)
    return false;
  for (int i = 0; i < n_terms; i++)
    add_term(r, out, &terms[i], extents);
  return true;
}

static bool picks_from_nothing(const index_sum *s) {
  for (int i = 0; i < s->n_odd; i++)
    if (s->odd[i].axis == TERM_REG && s->odd[i].mod <= 0)
      return true;
  return false;
}

sn_status access_resolve(cpu_run *r, const access *a, int n_axes, const int64_t *extents,
                         index_access **out) {
  (void)n_axes;
  index_access *x = cpu_take(r, sizeof *x);
  index_check *checks = cpu_take(r, (size_t)a->n_checks * sizeof *checks);
  if (!x || !checks)
    return SN_ERR_INTERNAL;
  *x = (index_access){.n_checks = a->n_checks, .checks = checks};
  if (a->value) {
    x->data = cpu_address(r, a->value);
    x->dtype = r->program->values[a->value].type.dtype;
  }
  bool ok = sum_resolve(r, a->base, a->n_terms, a->terms, extents, &x->at);
  for (int i = 0; ok && i < a->n_checks; i++) {
    const check *c = &a->checks[i];
    checks[i].size = cpu_size(r, c->size);
    checks[i].divisor = max_i64(cpu_size(r, c->divisor), 1);
    ok = sum_resolve(r, c->offset, c->n_terms, c->terms, extents, &checks[i].v);
  }
  x->nothing = ok && a->value && picks_from_nothing(&x->at);
  *out = x;
  return ok ? SN_OK : SN_ERR_INTERNAL;
}

static uint32_t sum_moves(const region_state *st, index_sum *s) {
  uint32_t moves = s->odd_axes;
  for (int axis = 0; axis < st->n_axes; axis++)
    moves |= (uint32_t)(s->stride[axis] != 0) << axis;
  s->register_moves = 0;
  for (int i = 0; i < s->n_odd; i++)
    if (s->odd[i].axis == TERM_REG)
      s->register_moves |= st->ops[s->odd[i].from].moves;
  return moves | s->register_moves;
}

uint32_t access_moves(const region_state *st, index_access *a) {
  uint32_t moves = sum_moves(st, &a->at) | (a->aliased ? MOVES_ALWAYS : 0);
  for (int i = 0; i < a->n_checks; i++)
    moves |= sum_moves(st, &a->checks[i].v);
  return moves;
}

/* --- numbers --- */
/* Whether registers that serve as indices are the same all along a segment. (MOVES_ALWAYS says nothing about axes.) */
static bool registers_stand(const index_sum *s, int axis) {
  return !(s->register_moves & (MOVES_ALWAYS | UINT32_C(1) << axis));
}

static bool sum_is_linear(const index_sum *s, int axis) {
  return registers_stand(s, axis) && !(s->odd_axes >> axis & 1);
}

static int64_t clamped(const odd_term *t, int64_t index) {
  if (t->mod <= 0)
    return index;
  return index < 0 ? 0 : index >= t->mod ? t->mod - 1 : index;
}

/* At the first point of a segment, without what is not linear along its axis. */
static int64_t sum_start(const region_state *st, const index_sum *s, const segment *g, int axis) {
  int64_t v = s->base;
  for (int i = 0; i < st->n_axes; i++)
    v += s->stride[i] * g->at[i];
  for (int i = 0; i < s->n_odd; i++) {
    const odd_term *t = &s->odd[i];
    if (t->axis == TERM_REG) {
      if (registers_stand(s, axis))
        v += t->stride * clamped(t, ((const int32_t *)st->ops[t->from].lanes)[g->lane]);
      continue;
    }
    if (t->axis == axis)
      continue;
    int64_t q = g->at[t->axis] / t->div;
    v += t->stride * (t->mod ? q % t->mod : q);
  }
  return v;
}

static void add_divided(const odd_term *t, int64_t at, int64_t *v, int n) {
  int64_t q = at / t->div, left = t->div - at % t->div;
  q = t->mod ? q % t->mod : q;
  for (int i = 0; i < n; i++) {
    v[i] += t->stride * q;
    if (--left == 0) {
      left = t->div;
      q = q + 1 == t->mod ? 0 : q + 1;
    }
  }
}

static void add_register(const odd_term *t, const int32_t *lanes, int64_t *v, int n) {
  for (int i = 0; i < n; i++)
    v[i] += t->stride * clamped(t, lanes[i]);
}

static void sum_numbers(const region_state *st, const index_sum *s, const segment *g, int axis,
                        int64_t *v) {
  int64_t start = sum_start(st, s, g, axis), by = s->stride[axis];
  for (int i = 0; i < g->n; i++)
    v[i] = start + by * i;
  for (int i = 0; i < s->n_odd; i++) {
    const odd_term *t = &s->odd[i];
    if (t->axis == TERM_REG && !registers_stand(s, axis))
      add_register(t, (const int32_t *)st->ops[t->from].lanes + g->lane, v, g->n);
    else if (t->axis == axis)
      add_divided(t, g->at[axis], v, g->n);
  }
}

void access_numbers(region_state *st, const index_access *a, const tile *t) {
  for (int i = 0; i < t->n_segments; i++) {
    const segment *g = &t->segments[i];
    sum_numbers(st, &a->at, g, t->axis, st->numbers + g->lane);
  }
}

void access_inside(region_state *st, const index_access *a, const tile *t) {
  memset(st->inside, 1, (size_t)t->n);
  for (int c = 0; c < a->n_checks; c++) {
    const index_check *k = &a->checks[c];
    for (int s = 0; s < t->n_segments; s++) {
      const segment *g = &t->segments[s];
      int64_t *v = st->numbers + g->lane;
      uint8_t *inside = st->inside + g->lane;
      sum_numbers(st, &k->v, g, t->axis, v);
      if (k->divisor == 1)
        for (int i = 0; i < g->n; i++)
          inside[i] &= v[i] >= 0 && v[i] < k->size;
      else
        for (int i = 0; i < g->n; i++)
          inside[i] &= v[i] >= 0 && v[i] % k->divisor == 0 && v[i] / k->divisor < k->size;
    }
  }
}

/* --- memory to lanes and back --- */
/* Whole blocks first: a fixed count becomes vector code. */
#define RUN(n, statement)                           \
  do {                                              \
    int i = 0;                                      \
    for (; i + CPU_LANE_BLOCK <= (n);) {            \
      int end = i + CPU_LANE_BLOCK;                 \
      for (int j = 0; j < CPU_LANE_BLOCK; j++, i++) \
        statement;                                  \
      i = end;                                      \
    }                                               \
    for (; i < (n); i++)                            \
      statement;                                    \
  } while (0)

#define READ(name, MEMORY, LANE, convert)                                                \
  static void read_##name(LANE *restrict out, const MEMORY *p, int64_t by, int n) {      \
    if (by == 0) {                                                                       \
      LANE v = convert(*p);                                                              \
      RUN(n, out[i] = v);                                                                \
    } else if (by == 1) {                                                                \
      RUN(n, out[i] = convert(p[i]));                                                    \
    } else {                                                                             \
      for (int i = 0; i < n; i++)                                                        \
        out[i] = convert(p[i * by]);                                                     \
    }                                                                                    \
  }                                                                                      \
  static void gather_##name(LANE *restrict out, const MEMORY *p, const int64_t *numbers, \
                            const uint8_t *inside, int n) {                              \
    for (int i = 0; i < n; i++)                                                          \
      out[i] = !inside || inside[i] ? convert(p[numbers[i]]) : 0;                        \
  }
#define SAME(v) (v)
READ(f32, float, float, SAME)
READ(f16, uint16_t, float, lane_from_f16)
READ(bf16, uint16_t, float, bf16_to_f32)
READ(i32, int32_t, int32_t, SAME)
READ(u8, uint8_t, int32_t, SAME)

#define WRITE(name, MEMORY, LANE, convert)                                                       \
  static void write_##name(MEMORY *p, const LANE *restrict v, int64_t by, int n) {               \
    if (by == 1) {                                                                               \
      RUN(n, p[i] = convert(v[i]));                                                              \
    } else {                                                                                     \
      for (int i = 0; i < n; i++)                                                                \
        p[i * by] = convert(v[i]);                                                               \
    }                                                                                            \
  }                                                                                              \
  static void scatter_##name(MEMORY *p, const LANE *restrict v, const int64_t *numbers, int n) { \
    for (int i = 0; i < n; i++)                                                                  \
      p[numbers[i]] = convert(v[i]);                                                             \
  }
#define TO_U8(v)   ((uint8_t)(v))
#define TO_BOOL(v) ((v) != 0)
WRITE(f32, float, float, SAME)
WRITE(f16, uint16_t, float, lane_to_f16)
WRITE(bf16, uint16_t, float, lane_to_bf16)
WRITE(i32, int32_t, int32_t, SAME)
WRITE(u8, uint8_t, int32_t, TO_U8)
WRITE(bool, uint8_t, int32_t, TO_BOOL)

/* By dtype. Data are those of the value, `start` its element. */
static void read_run(const index_access *a, int64_t start, int64_t by, void *out, int n) {
  const void *p = a->data + start * (int64_t)sn_dtype_size(a->dtype);
  switch (a->dtype) {
  case SN_F32: read_f32(out, p, by, n); break;
  case SN_F16: read_f16(out, p, by, n); break;
  case SN_BF16: read_bf16(out, p, by, n); break;
  case SN_I32: read_i32(out, p, by, n); break;
  default: read_u8(out, p, by, n); break;
  }
}
static void gather(const index_access *a, const int64_t *numbers, const uint8_t *inside, void *out,
                   int n) {
  const void *p = a->data;
  switch (a->dtype) {
  case SN_F32: gather_f32(out, p, numbers, inside, n); break;
  case SN_F16: gather_f16(out, p, numbers, inside, n); break;
  case SN_BF16: gather_bf16(out, p, numbers, inside, n); break;
  case SN_I32: gather_i32(out, p, numbers, inside, n); break;
  default: gather_u8(out, p, numbers, inside, n); break;
  }
}
static void write_run(const index_access *a, int64_t start, int64_t by, const void *v, int n) {
  void *p = a->data + start * (int64_t)sn_dtype_size(a->dtype);
  switch (a->dtype) {
  case SN_F32: write_f32(p, v, by, n); break;
  case SN_F16: write_f16(p, v, by, n); break;
  case SN_BF16: write_bf16(p, v, by, n); break;
  case SN_I32: write_i32(p, v, by, n); break;
  case SN_BOOL: write_bool(p, v, by, n); break;
  default: write_u8(p, v, by, n); break;
  }
}
static void scatter(const index_access *a, const int64_t *numbers, const void *v, int n) {
  void *p = a->data;
  switch (a->dtype) {
  case SN_F32: scatter_f32(p, v, numbers, n); break;
  case SN_F16: scatter_f16(p, v, numbers, n); break;
  case SN_BF16: scatter_bf16(p, v, numbers, n); break;
  case SN_I32: scatter_i32(p, v, numbers, n); break;
  case SN_BOOL: scatter_bool(p, v, numbers, n); break;
  default: scatter_u8(p, v, numbers, n); break;
  }
}

/* --- loads --- */
static int64_t divide_up(int64_t a, int64_t b) { /* b > 0 */
  return a > 0 ? (a + b - 1) / b : -(-a / b);
}

/* Narrows lo … hi-1 to the points i of a segment where 0 <= start + by * i < size. */
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
  bool linear = sum_is_linear(&a->at, axis);
  for (int i = 0; i < a->n_checks; i++)
    linear &= sum_is_linear(&a->checks[i].v, axis) && a->checks[i].divisor == 1;
  return linear;
}

static void load_segment(const region_state *st, const index_access *a, const segment *g, int axis,
                         void *lanes) {
  int64_t lo = 0, hi = g->n;
  for (int i = 0; i < a->n_checks; i++) {
    const index_check *c = &a->checks[i];
    narrow(sum_start(st, &c->v, g, axis), c->v.stride[axis], c->size, &lo, &hi);
  }
  lo = min_i64(lo, g->n);
  hi = max_i64(lo, min_i64(hi, g->n));
  char *out = (char *)lanes + (size_t)g->lane * 4; /* lanes of all kinds are 4 bytes */
  memset(out, 0, (size_t)lo * 4);
  memset(out + hi * 4, 0, (size_t)(g->n - hi) * 4);
  if (lo == hi)
    return;
  int64_t by = a->at.stride[axis];
  read_run(a, sum_start(st, &a->at, g, axis) + by * lo, by, out + lo * 4, (int)(hi - lo));
}

void access_load(region_state *st, region_op_state *op, const tile *t) {
  const index_access *a = op->at;
  op->lanes = op->own;
  if (a->nothing) {
    memset(op->own, 0, (size_t)t->n * 4);
    return;
  }
  if (!is_linear(a, t->axis)) {
    if (a->n_checks)
      access_inside(st, a, t);
    access_numbers(st, a, t);
    gather(a, st->numbers, a->n_checks ? st->inside : NULL, op->own, t->n);
    return;
  }
  /* Memory that looks like a register is one. */
  if (t->n_segments == 1 && t->n % CPU_LANE_BLOCK == 0 && a->at.stride[t->axis] == 1 &&
      a->n_checks == 0 && !a->aliased && (a->dtype == SN_F32 || a->dtype == SN_I32)) {
    op->lanes = a->data + 4 * sum_start(st, &a->at, &t->segments[0], t->axis);
    return;
  }
  for (int i = 0; i < t->n_segments; i++)
    load_segment(st, a, &t->segments[i], t->axis, op->own);
}

/* --- stores --- */
void access_store(region_state *st, region_op_state *op, const tile *t) {
  const index_access *a = op->at;
  const char *lanes = st->ops[op->a].lanes;
  if (op->kernel) { /* the register is of another kind than the memory */
    op->kernel(st->spare, lanes, NULL, NULL, 0, 0, t->n);
    lanes = st->spare;
  }
  if (!sum_is_linear(&a->at, t->axis)) {
    access_numbers(st, a, t);
    scatter(a, st->numbers, lanes, t->n);
    return;
  }
  for (int i = 0; i < t->n_segments; i++) {
    const segment *g = &t->segments[i];
    write_run(a, sum_start(st, &a->at, g, t->axis), a->at.stride[t->axis], lanes + g->lane * 4,
              g->n);
  }
}
