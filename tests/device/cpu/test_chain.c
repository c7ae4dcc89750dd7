/* Chains: every step against the kernel of its instruction, reductions and moves of blocks against plain loops, on every
 * instruction set; and regions whose arithmetic meets, parts and is stored on the way. */
#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/matmul.h"
#include "support/region_case.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 320, ROOM = LANES + 32 };

static float number_at(int i) {
  static const float odd[] = {0, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, 1e-40f, 3e38f, 0.5f};
  return i % 7 == 3 ? odd[i / 7 % (int)COUNT_OF(odd)] : (float)sin(i * 0.7) * 9;
}

static void fill(float *v, int from) {
  for (int i = 0; i < ROOM; i++)
    v[i] = number_at(from + i);
}

static bool same_bits(const float *a, const float *b, int n) {
  for (int i = 0; i < n; i++)
    if (!(isnan(a[i]) && isnan(b[i])) && memcmp(&a[i], &b[i], 4) != 0)
      return false;
  return true;
}

/* --- steps --- */
static lane_step read_of(const float *v) { return (lane_step){.code = CHAIN_READ, .with = v}; }
static lane_step keep_to(float *v) { return (lane_step){.code = CHAIN_KEEP, .to = v}; }

static void check_way(const lane_kernels *k, alu code, int way, int n) {
  float a[ROOM], b[ROOM], got[ROOM], want[ROOM];
  bool one = way == CHAIN_ONE || way == CHAIN_ONE_FIRST;
  bool first = way == CHAIN_LANES_FIRST || way == CHAIN_ONE_FIRST;
  fill(a, n), fill(b, 5 * n + 1);
  const float *with = one ? b + 40 : b;
  for (int i = 0; i < ROOM && one; i++)
    b[i] = b[40];
  lane_step steps[4] = {
      read_of(a), {.code = CHAIN_ALU + 8 * (int)code + way, .with = with}, keep_to(got)};
  k->chain(steps, 3, n);
  const float *q = way == CHAIN_SELF ? a : b;
  k->alu(code, SN_F32, SN_F32, 0)(want, first ? q : a, first ? a : q, NULL, 0, 0, n);
  if (!same_bits(got, want, n))
    FAIL("%s, way %d, %d lanes", alu_table[code].name, way, n);
}

TEST(steps_do_what_kernels_do) {
  const cpu_isa *isa;
  for (int at = 0; (isa = cpu_isa_at(at)); at++)
    for (int code = ALU_none + 1; code < ALU_COUNT; code++) {
      if (!isa->lanes->in_chain((alu)code) || code == ALU_select)
        continue;
      int ways = alu_table[code].arguments == 1 ? CHAIN_SELF : CHAIN_LANES;
      for (int way = ways; way <= CHAIN_SELF; way++)
        for (int n = 1; n < LANES; n += 37)
          check_way(isa->lanes, (alu)code, way, n);
    }
}

TEST(picks) {
  const cpu_isa *isa;
  for (int at = 0; (isa = cpu_isa_at(at)); at++)
    for (int way = 0; way < 4; way++)
      for (int n = 1; n < LANES; n += 41) {
        float a[ROOM], b[ROOM], got[ROOM], want[ROOM];
        int32_t chosen[ROOM];
        bool one = way % 2, inverse = way >= 2;
        fill(a, n), fill(b, 3 * n);
        for (int i = 0; i < ROOM; i++) {
          chosen[i] = i % 3 == 1;
          float other = b[one ? 2 : i];
          want[i] = (chosen[i] != 0) != inverse ? a[i] : other;
        }
        lane_step steps[4] = {read_of(a),
                              {.code = CHAIN_PICK + way, .with = chosen, .other = one ? b + 2 : b},
                              keep_to(got)};
        isa->lanes->chain(steps, 3, n);
        CHECK(same_bits(got, want, n));
      }
}

/* Both kinds of chains. */
TEST(gates) {
  const cpu_isa *isa;
  for (int at = 0; (isa = cpu_isa_at(at)); at++)
    for (int way = 0; way < 4; way++)
      for (int n = 1; n < LANES; n += 41) {
        float a[ROOM], b[ROOM], got[ROOM], want[ROOM], above = 0.25f, below = -7;
        bool one = way % 2;
        fill(a, n), fill(b, 3 * n);
        a[n / 2] = NAN;
        a[n / 3] = above;
        for (int i = 0; i < ROOM; i++)
          want[i] = a[i] > above ? b[one ? 2 : i] : below;
        lane_step steps[4] = {
            read_of(a),
            {.code = CHAIN_GATE + one, .with = &above, .other = one ? b + 2 : b, .below = &below},
            keep_to(got)};
        CHECK(isa->matmul->in_chain(steps[1].code));
        if (way < 2)
          isa->lanes->chain(steps, 3, n);
        else
          isa->matmul->chain(steps, 3, n);
        CHECK(same_bits(got, want, n));
      }
}

/* What is stored past the caches, read from lanes and from one number; what others read of a chain on the way. */
TEST(keeps) {
  const cpu_isa *isa;
  float *to = aligned_alloc(LANE_ALIGN, ROOM * sizeof(float) / LANE_ALIGN * LANE_ALIGN);
  for (int at = 0; (isa = cpu_isa_at(at)); at++) {
    float a[ROOM], middle[ROOM], one = 3;
    fill(a, 1);
    lane_step steps[6] = {{.code = CHAIN_READ_ONE, .with = &one},
                          {.code = CHAIN_ALU + 8 * ALU_add + CHAIN_LANES, .with = a, .ahead = 64},
                          keep_to(middle),
                          {.code = CHAIN_ALU + 8 * ALU_mul + CHAIN_LANES_FIRST, .with = middle},
                          {.code = CHAIN_STREAM, .to = to}};
    isa->lanes->chain(steps, 5, LANES);
    isa->lanes->fence();
    for (int i = 0; i < LANES; i++) {
      float sum = 3 + a[i];
      CHECK(same_bits(&sum, &middle[i], 1) && same_bits(&(float){sum * sum}, &to[i], 1));
    }
  }
  free(to);
}

/* --- reductions --- */
static void check_reductions(const lane_kernels *k, int n, int nan_at) {
  double sums[3][2 * LANE_SUMS], sum = 0, most = -INFINITY, least = INFINITY, acc[ROOM] = {0};
  float a[ROOM], after[ROOM];
  for (int i = 0; i < ROOM; i++) /* beyond the last lane: what would be seen */
    a[i] = i >= n ? 1e9f : i == nan_at ? NAN : (float)cos(i * 1.3) * 5;
  for (int i = 0; i < n; i++) {
    sum += (double)a[i];
    most = fmax(most, (double)a[i]), least = fmin(least, (double)a[i]);
  }
  for (int i = 0; i < 2 * LANE_SUMS; i++)
    sums[0][i] = 0, sums[1][i] = -INFINITY, sums[2][i] = INFINITY;
  lane_step steps[7] = {read_of(a),
                        {.code = CHAIN_SUM, .to = sums[0]},
                        {.code = CHAIN_MOST, .to = sums[1]},
                        {.code = CHAIN_LEAST, .to = sums[2]},
                        {.code = CHAIN_SUM_WIDE, .to = acc},
                        keep_to(after)};
  k->chain(steps, 6, n);
  double got[] = {k->total(REDUCE_SUM, sums[0]), k->total(REDUCE_MAX, sums[1]),
                  k->total(REDUCE_MIN, sums[2])};
  CHECK(same_bits(after, a, n));
  for (int i = 0; i < n; i++)
    CHECK(isnan(a[i]) ? isnan(acc[i]) : acc[i] == (double)a[i]);
  if (nan_at < n) {
    CHECK(isnan(got[0]) && isnan(got[1]) && isnan(got[2]));
    return;
  }
  CHECK_NEAR(got[0], sum, 1e-5);
  CHECK(got[1] == most && got[2] == least);
}

TEST(reductions_in_chains) {
  const cpu_isa *isa;
  for (int at = 0; (isa = cpu_isa_at(at)); at++)
    for (int n = 1; n <= LANES; n += n < 40 ? 1 : 23) {
      check_reductions(isa->lanes, n, n);
      check_reductions(isa->lanes, n, n / 2);
      check_reductions(isa->lanes, n, n - 1);
    }
}

/* --- loops for whole chains --- */
enum { ROW = 288, PIECE = 96 /* too short for one */ };
#define OF(name, how) (CHAIN_ALU + 8 * ALU_##name + CHAIN_##how)
static const int row_chains[][10] = {
    {CHAIN_READ, CHAIN_SUM, -1},
    {CHAIN_READ, CHAIN_MOST, -1},
    {CHAIN_READ, OF(mul, SELF), CHAIN_SUM, -1},
    {CHAIN_READ, OF(sub, ONE), OF(mul, SELF), CHAIN_SUM, -1},
    {CHAIN_READ, OF(sub, ONE), CHAIN_KEEP, OF(mul, SELF), CHAIN_SUM, -1},
    {CHAIN_READ, OF(mul, LANES), CHAIN_SUM, -1},
    {CHAIN_READ, OF(mul, ONE), OF(mul, LANES), CHAIN_SUM, -1},
    {CHAIN_READ, OF(sub, ONE), OF(mul, ONE), OF(mul, LANES), CHAIN_SUM, -1},
    {CHAIN_READ, OF(sub, ONE), OF(exp, SELF), CHAIN_SUM, -1},
    {CHAIN_READ, OF(sub, ONE), OF(exp, SELF), CHAIN_KEEP, CHAIN_SUM, -1},
    {CHAIN_READ, OF(sub, ONE), OF(mul, ONE), OF(mul, LANES), OF(add, LANES), CHAIN_KEEP, -1},
    {CHAIN_READ, OF(mul, ONE), OF(mul, LANES), CHAIN_KEEP, -1},
    {CHAIN_READ, OF(mul, ONE), OF(mul, ONE), OF(sub, LANES_FIRST), OF(mul, ONE), CHAIN_KEEP, -1},
    {CHAIN_READ, OF(sub, ONE), OF(mul, ONE), OF(mul, ONE), OF(sub, LANES_FIRST), OF(sub, ONE),
     OF(mul, ONE), CHAIN_KEEP, -1},
    {CHAIN_READ, OF(mul, LANES), CHAIN_KEEP, -1},
    {CHAIN_READ, OF(div, ONE), CHAIN_KEEP, -1},
    {CHAIN_READ, OF(div, ONE), OF(mul, LANES), CHAIN_SUM, -1},
    {CHAIN_READ, OF(div, ONE), OF(mul, LANES), CHAIN_KEEP, -1},
    {CHAIN_READ, OF(sub, ONE), CHAIN_KEEP, -1},
    {CHAIN_READ, OF(mul, ONE), OF(erf, SELF), OF(mul, ONE), OF(add, ONE), OF(mul, LANES_FIRST),
     CHAIN_KEEP, -1},
    {CHAIN_READ, OF(add, LANES), CHAIN_KEEP, OF(mul, ONE), OF(erf, SELF), OF(mul, ONE),
     OF(add, ONE), OF(mul, LANES_FIRST), CHAIN_KEEP, -1},
};

typedef struct row_case {
  float lanes[10][ROW], kept[ROW] __attribute__((aligned(LANE_ALIGN)));
  double sums[64];
} row_case;

/* The steps of a chain, for the lanes from `at` on. Every step has lanes of its own, of which the first is its number. */
static int row_steps(row_case *c, const int *codes, bool past, int at, lane_step *steps) {
  int n = 0;
  for (; codes[n] >= 0; n++) {
    bool is_alu = codes[n] >= CHAIN_ALU, one = is_alu && (codes[n] - CHAIN_ALU) % 8 == CHAIN_ONE;
    bool keep = codes[n] == CHAIN_KEEP;
    steps[n] = (lane_step){.code = keep && past ? CHAIN_STREAM : codes[n],
                           .with = c->lanes[n] + (one ? 0 : at),
                           .to = keep ? (void *)(c->kept + at) : (void *)c->sums};
  }
  return n;
}

static void begin_row(row_case *c, const int *codes, int n) {
  for (int i = 0; i < 64; i++)
    c->sums[i] = codes[n - 1] == CHAIN_MOST ? -INFINITY : 0;
}

static void check_row(const lane_kernels *k, const int *codes, bool past, int odd) {
  static row_case whole, pieces;
  lane_step steps[11];
  for (int s = 0; s < 10; s++)
    for (int i = 0; i < ROW; i++)
      whole.lanes[s][i] = (float)sin(0.37 * i + 3 * s) + 1.5f;
  whole.lanes[0][odd] = odd == 7 ? NAN : 4;
  memcpy(pieces.lanes, whole.lanes, sizeof whole.lanes);
  int n = row_steps(&whole, codes, past, 0, steps);
  CHECK(k->find_row(steps, n, ROW) && !k->find_row(steps, n, PIECE) &&
        !k->find_row(steps, n, ROW - 1));
  begin_row(&whole, codes, n), begin_row(&pieces, codes, n);
  k->chain(steps, n, ROW);
  for (int at = 0; at < ROW; at += PIECE)
    k->chain(steps, row_steps(&pieces, codes, false, at, steps), PIECE);
  k->fence();
  if (!same_bits(whole.kept, pieces.kept, ROW))
    FAIL("%s: lanes of a chain that begins with %d", past ? "past" : "kept", codes[1]);
  reduce_kind kind = codes[n - 1] == CHAIN_MOST ? REDUCE_MAX : REDUCE_SUM;
  double got = k->total(kind, whole.sums), want = k->total(kind, pieces.sums);
  if (isnan(got) != isnan(want) || fabs(got - want) > 1e-6 * fabs(want))
    FAIL("a sum of a chain that begins with %d: %g, expected %g", codes[1], got, want);
}

TEST(rows_are_what_their_steps_are) {
  for (int at = 0; cpu_isa_at(at); at++)
    for (size_t i = 0; i < COUNT_OF(row_chains); i++)
      for (int way = 0; way < 4; way++)
        check_row(cpu_isa_at(at)->lanes, row_chains[i], way % 2, way < 2 ? 7 : 280);
}
#undef OF

/* --- blocks --- */
static void check_block(const lane_kernels *k, bool turned, lane_move m, int64_t shift) {
  enum { MOST = 96 * 96 };
  float *from = aligned_alloc(64, MOST * sizeof(float)),
        *to = aligned_alloc(64, MOST * sizeof(float));
  for (int i = 0; i < MOST; i++)
    from[i] = (float)i, to[i] = -1;
  (turned ? k->turn : k->copy)(to + shift, from + shift, &m);
  k->fence();
  int written = 0;
  for (int r = 0; r < m.rows; r++)
    for (int i = 0; i < m.n; i++) {
      int64_t at = shift + (turned ? i * m.to_by + r : r * m.to_by + i);
      CHECK(to[at] == from[shift + r * m.from_by + i]);
    }
  for (int i = 0; i < MOST; i++)
    written += to[i] >= 0;
  CHECK_EQ_INT(written, m.rows * m.n);
  free(from);
  free(to);
}

TEST(blocks_are_copied_and_turned) {
  static const int sides[] = {1, 3, 16, 17, 32, 45, 80};
  const cpu_isa *isa;
  for (int at = 0; (isa = cpu_isa_at(at)); at++)
    for (size_t i = 0; i < COUNT_OF(sides); i++)
      for (size_t j = 0; j < COUNT_OF(sides); j++)
        for (int way = 0; way < 8; way++) {
          lane_move m = {.n = sides[i], .rows = sides[j], .from_by = 83, .past = way & 1};
          m.to_by = way & 2 ? 96 : 91;
          check_block(isa->lanes, way & 4, m, way & 2 ? 0 : 5);
        }
}

/* --- regions --- */
static uint32_t numbers(region_case *c, int64_t count) {
  double *v = malloc((size_t)count * sizeof *v);
  for (int64_t i = 0; i < count; i++)
    v[i] = sin((double)i * 0.37) * 2;
  uint32_t value = region_value(c, SN_F32, count, v);
  free(v);
  return value;
}

/* y = (x + b) * (erf((x + b) * s) + 1), the sum also stored; over x where `same`. b is along one axis, s one number. */
static void check_diamond(sn_dim rows, sn_dim columns, bool same) {
  region_case *c = region_case_create();
  sn_dim along[] = {columns, 1}, across[] = {0, 1};
  uint32_t x = numbers(c, rows * columns), b = numbers(c, columns);
  uint32_t y = same ? region_value_at(c, x) : region_value(c, SN_F32, rows * columns, NULL);
  uint32_t middle = region_value(c, SN_F32, rows * columns, NULL);
  reg one = region_number(c, SN_F32, 1), s = region_number(c, SN_F32, 0.7);
  reg sum = region_alu(c, ALU_add, SN_F32, region_load(c, x, 0, 2, along),
                       region_load(c, b, 0, 2, across), 0);
  reg e = region_alu(c, ALU_erf, SN_F32, region_alu(c, ALU_mul, SN_F32, sum, s, 0), 0, 0);
  reg made = region_alu(c, ALU_mul, SN_F32, sum, region_alu(c, ALU_add, SN_F32, e, one, 0), 0);
  region_store(c, y, made, 0, 2, along);
  region_store(c, middle, region_alu(c, ALU_sub, SN_F32, one, sum, 0), 0, 2, along);
  CHECK(region_case_run(c, 2, (sn_dim[]){rows, columns}) == SN_OK);
  region_case_check(c, 1e-6);
  region_case_destroy(c);
}

TEST(arithmetic_that_meets) {
  for (int same = 0; same < 2; same++) {
    check_diamond(3, 5, same);
    check_diamond(40, 64, same);
    check_diamond(7, 1500, same);
    check_diamond(1, 9001, same);
  }
}

/* A state that is updated in place, by what it was and what another becomes, as optimisers do. */
TEST(updates_in_place) {
  for (int64_t n = 30; n < 10000; n = n * 5 + 7) {
    region_case *c = region_case_create();
    const sn_dim dense = 1;
    uint32_t g = numbers(c, n), m = numbers(c, n), p = numbers(c, n);
    uint32_t new_m = region_value_at(c, m), new_p = region_value_at(c, p);
    reg keep = region_number(c, SN_F32, 0.9), take = region_number(c, SN_F32, 0.1);
    reg grad = region_load(c, g, 0, 1, &dense), before = region_load(c, m, 0, 1, &dense);
    reg after = region_alu(c, ALU_add, SN_F32, region_alu(c, ALU_mul, SN_F32, grad, take, 0),
                           region_alu(c, ALU_mul, SN_F32, before, keep, 0), 0);
    region_store(c, new_m, after, 0, 1, &dense);
    reg by =
        region_alu(c, ALU_mul, SN_F32, region_alu(c, ALU_tanh, SN_F32, after, 0, 0), before, 0);
    reg old = region_load(c, p, 0, 1, &dense);
    region_store(c, new_p, region_alu(c, ALU_sub, SN_F32, old, by, 0), 0, 1, &dense);
    CHECK(region_case_run(c, 1, (sn_dim[]){n}) == SN_OK);
    region_case_check(c, 1e-6);
    region_case_destroy(c);
  }
}

/* Axes in another order: [a, b, c] from strides of any order, whole blocks and what is left of them. */
static void check_permuted(const sn_dim *extent, const int *order) {
  region_case *c = region_case_create();
  sn_dim in[3], out[3] = {extent[1] * extent[2], extent[2], 1}, by = 1;
  int64_t n = extent[0] * extent[1] * extent[2];
  for (int k = 2; k >= 0; k--) {
    in[order[k]] = by;
    by *= extent[order[k]];
  }
  uint32_t x = numbers(c, n), y = region_value(c, SN_F32, n, NULL);
  region_store(c, y, region_load(c, x, 0, 3, in), 0, 3, out);
  CHECK(region_case_run(c, 3, extent) == SN_OK);
  region_case_check(c, 0);
  region_case_destroy(c);
}

TEST(moves) {
  static const sn_dim extents[][3] = {
      {2, 40, 50}, {33, 3, 70}, {17, 130, 16}, {5, 4, 3}, {1, 600, 70}};
  static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (size_t i = 0; i < COUNT_OF(extents); i++)
    for (size_t k = 0; k < COUNT_OF(orders); k++)
      check_permuted(extents[i], orders[k]);
}
