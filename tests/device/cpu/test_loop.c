/* Row parts of the CPU device: norms, softmax, reductions of every kind along and across memory, rows of nothing. */
#include "support/region_case.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

static uint32_t spread_values(region_case *c, sn_dtype dtype, int64_t count) {
  double *values = malloc((size_t)count * sizeof *values + 1);
  for (int64_t i = 0; i < count; i++)
    values[i] = dtype_is_float(dtype) ? sin((double)i * 1.7) * 3 : (double)((i * 31 + 7) % 19 - 9);
  uint32_t v = region_value(c, dtype, count, values);
  free(values);
  return v;
}

static void at_row(region_case *c, int phase) { c->phase = phase, c->row = true; }
static void at_points(region_case *c, int phase) { c->phase = phase, c->row = false; }

/* rows x columns, with the given strides of x; results are dense. */
typedef struct matrix {
  sn_dim rows, columns, by_row, by_column;
} matrix;

static region_case *open_rows(int phases) {
  region_case *c = region_case_create();
  c->part.n_outer = 1;
  c->part.n_phases = phases;
  return c;
}

static void finish(region_case *c, matrix m, double tolerance) {
  CHECK(region_case_run(c, 2, (sn_dim[]){m.rows, m.columns}) == SN_OK);
  region_case_check(c, tolerance);
  region_case_destroy(c);
}

/* y = x / sqrt(mean(x^2) + eps) * w, and the factor of each row. */
static void check_rms_norm(matrix m) {
  region_case *c = open_rows(2);
  sn_dim in[] = {m.by_row, m.by_column}, out[] = {m.columns, 1};
  uint32_t x = spread_values(c, SN_F32, m.rows * m.columns),
           w = spread_values(c, SN_F32, m.columns);
  uint32_t y = region_value(c, SN_F32, m.rows * m.columns, NULL),
           f = region_value(c, SN_F32, m.rows, NULL);
  at_points(c, 0);
  reg a = region_load(c, x, 0, 2, in);
  reg sum = region_reduce(c, REDUCE_SUM, SN_F32, region_alu(c, ALU_mul, SN_F32, a, a, 0));
  at_row(c, 1);
  bool divides = m.rows % 2; /* or multiplies: single floats can do that */
  double count = (double)m.columns;
  reg by = region_number(c, SN_F32, divides ? count : 1 / count);
  reg mean = region_alu(c, divides ? ALU_div : ALU_mul, SN_F32, sum, by, 0);
  reg factor =
      region_alu(c, ALU_rsqrt, SN_F32,
                 region_alu(c, ALU_add, SN_F32, mean, region_number(c, SN_F32, 1e-5), 0), 0, 0);
  region_store(c, f, factor, 0, 1, (sn_dim[]){1});
  at_points(c, 1);
  reg again = region_load(c, x, 0, 2, in), weight = region_load(c, w, 0, 2, (sn_dim[]){0, 1});
  reg scaled = region_alu(c, ALU_mul, SN_F32, again, factor, 0);
  region_store(c, y, region_alu(c, ALU_mul, SN_F32, scaled, weight, 0), 0, 2, out);
  finish(c, m, 1e-5);
}

/* exp(x - max) / sum, in place where `same`. */
static void check_softmax(matrix m, bool same) {
  region_case *c = open_rows(3);
  sn_dim in[] = {m.by_row, m.by_column};
  uint32_t x = spread_values(c, SN_F32, m.rows * m.columns);
  uint32_t y = same ? region_value_at(c, x) : region_value(c, SN_F32, m.rows * m.columns, NULL);
  at_points(c, 0);
  reg most = region_reduce(c, REDUCE_MAX, SN_F32, region_load(c, x, 0, 2, in));
  at_points(c, 1);
  reg e = region_alu(c, ALU_sub, SN_F32, region_load(c, x, 0, 2, in), most, 0);
  reg sum = region_reduce(c, REDUCE_SUM, SN_F32, region_alu(c, ALU_exp, SN_F32, e, 0, 0));
  at_row(c, 2);
  reg factor = region_alu(c, ALU_recip, SN_F32, sum, 0, 0);
  at_points(c, 2);
  reg again = region_alu(c, ALU_sub, SN_F32, region_load(c, x, 0, 2, in), most, 0);
  reg made = region_alu(c, ALU_mul, SN_F32, region_alu(c, ALU_exp, SN_F32, again, 0, 0), factor, 0);
  region_store(c, y, made, 0, 2, in);
  finish(c, m, 1e-5);
}

/* Mean, then variance about it, then (x - mean) * r: a row phase of its own before each. */
static void check_layer_norm(matrix m) {
  region_case *c = open_rows(3);
  sn_dim in[] = {m.by_row, m.by_column}, out[] = {m.columns, 1};
  uint32_t x = spread_values(c, SN_BF16, m.rows * m.columns);
  uint32_t y = region_value(c, SN_F16, m.rows * m.columns, NULL);
  at_row(c, 0);
  reg n = region_number(c, SN_F32, (double)m.columns);
  at_points(c, 0);
  reg a = region_alu(c, ALU_cast, SN_F32, region_load(c, x, 0, 2, in), 0, 0);
  reg sum = region_reduce(c, REDUCE_SUM, SN_F32, a);
  at_row(c, 1);
  reg mean = region_alu(c, ALU_div, SN_F32, sum, n, 0);
  at_points(c, 1);
  a = region_alu(c, ALU_cast, SN_F32, region_load(c, x, 0, 2, in), 0, 0);
  reg d = region_alu(c, ALU_sub, SN_F32, a, mean, 0);
  reg squares = region_reduce(c, REDUCE_SUM, SN_F32, region_alu(c, ALU_mul, SN_F32, d, d, 0));
  at_row(c, 2);
  reg v = region_alu(c, ALU_div, SN_F32, squares, n, 0);
  reg r = region_alu(c, ALU_rsqrt, SN_F32,
                     region_alu(c, ALU_add, SN_F32, v, region_number(c, SN_F32, 1e-3), 0), 0, 0);
  at_points(c, 2);
  a = region_alu(c, ALU_cast, SN_F32, region_load(c, x, 0, 2, in), 0, 0);
  d = region_alu(c, ALU_mul, SN_F32, region_alu(c, ALU_sub, SN_F32, a, mean, 0), r, 0);
  region_store(c, y, d, 0, 2, out);
  finish(c, m, 1e-3);
}

/* y = x - sum(w (x - w)^2), in place: registers of points whose memory sums of rows could take. */
static void check_distance(matrix m) {
  region_case *c = open_rows(2);
  sn_dim in[] = {m.by_row, m.by_column}, along[] = {0, 1};
  uint32_t x = spread_values(c, SN_F32, m.rows * m.columns),
           w = spread_values(c, SN_F32, m.columns), y = region_value_at(c, x);
  at_points(c, 0);
  reg weight = region_load(c, w, 0, 2, along);
  reg d = region_alu(c, ALU_sub, SN_F32, region_load(c, x, 0, 2, in), weight, 0);
  reg first = region_alu(c, ALU_mul, SN_F32, d, weight, 0);
  reg sum = region_reduce(c, REDUCE_SUM, SN_F32, region_alu(c, ALU_mul, SN_F32, first, d, 0));
  at_points(c, 1);
  reg made = region_alu(c, ALU_sub, SN_F32, region_load(c, x, 0, 2, in), sum, 0);
  region_store(c, y, made, 0, 2, in);
  finish(c, m, 1e-4);
}

static void check_reduce(reduce_kind kind, sn_dtype dtype, matrix m) {
  region_case *c = open_rows(1);
  uint32_t x = spread_values(c, dtype, m.rows * m.columns),
           y = region_value(c, dtype, m.rows, NULL);
  at_points(c, 0);
  reg a = region_load(c, x, 0, 2, (sn_dim[]){m.by_row, m.by_column});
  a = region_reduce(c, kind, dtype, a);
  at_row(c, 1);
  region_store(c, y, a, 0, 1, (sn_dim[]){1});
  finish(c, m, dtype == SN_F16 || dtype == SN_BF16 ? 2e-2 : 2e-5);
}

static const sn_dim shapes[][2] = {{1, 1},    {1, 700}, {5, 3},   {300, 2}, {3, 65},
                                   {40, 130}, {600, 1}, {9, 256}, {37, 160}};

/* Both ways that x may lie in memory. */
#define EACH_MATRIX(m)                                 \
  for (size_t s_ = 0; s_ < 2 * COUNT_OF(shapes); s_++) \
    for (matrix m = lie(s_ / 2, s_ % 2), *once_ = &m; once_; once_ = NULL)
static matrix lie(size_t shape, size_t across) {
  sn_dim rows = shapes[shape][0], columns = shapes[shape][1];
  return across ? (matrix){rows, columns, 1, rows} : (matrix){rows, columns, columns, 1};
}

TEST(rms_norm) { EACH_MATRIX(m) check_rms_norm(m); }
TEST(softmax) {
  EACH_MATRIX(m) {
    check_softmax(m, false);
    check_softmax(m, true);
  }
}
TEST(layer_norm) { EACH_MATRIX(m) check_layer_norm(m); }
/* So many that registers of rows are computed for several at once, and what remains is not a whole batch. */
TEST(many_rows) {
  const matrix m = {2501, 70, 70, 1};
  check_rms_norm(m);
  check_softmax(m, false);
  check_softmax(m, true);
  check_layer_norm(m);
  check_distance(m);
  const matrix even = {1100, 576, 576, 1};
  check_rms_norm(even);
  check_softmax(even, true);
  check_layer_norm(even);
}
TEST(reductions) {
  EACH_MATRIX(m) {
    for (reduce_kind kind = REDUCE_SUM; kind <= REDUCE_MIN; kind++) {
      check_reduce(kind, SN_F32, m);
      check_reduce(kind, SN_BF16, m);
      check_reduce(kind, SN_I32, m);
    }
    check_reduce(REDUCE_ANY, SN_BOOL, m);
    check_reduce(REDUCE_ALL, SN_BOOL, m);
  }
}

TEST(rows_of_nothing) {
  for (reduce_kind kind = REDUCE_SUM; kind <= REDUCE_MIN; kind++)
    for (sn_dim rows = 0; rows < 400; rows += 130) {
      check_reduce(kind, SN_F32, (matrix){rows, 0, 0, 1});
      check_reduce(kind, SN_I32, (matrix){rows, 0, 0, 1});
    }
  check_reduce(REDUCE_ALL, SN_BOOL, (matrix){3, 0, 0, 1});
  check_softmax((matrix){5, 0, 0, 1}, false);
  check_rms_norm((matrix){0, 7, 7, 1});
}

TEST(nan_wins) {
  for (int across = 0; across < 2; across++)
    for (int at = 0; at < 80; at += 13) {
      region_case *c = open_rows(1);
      double values[320];
      for (int i = 0; i < 320; i++)
        values[i] = i == at ? (double)NAN : i % 7;
      uint32_t x = region_value(c, SN_F32, 320, values), lo = region_value(c, SN_F32, 4, NULL),
               hi = region_value(c, SN_F32, 4, NULL);
      sn_dim along[] = {80, 1}, transposed[] = {1, 4};
      reg a = region_load(c, x, 0, 2, across ? transposed : along);
      reg most = region_reduce(c, REDUCE_MAX, SN_F32, a),
          least = region_reduce(c, REDUCE_MIN, SN_F32, a);
      at_row(c, 1);
      region_store(c, hi, most, 0, 1, (sn_dim[]){1});
      region_store(c, lo, least, 0, 1, (sn_dim[]){1});
      finish(c, (matrix){4, 80, 0, 0}, 0);
    }
}

/* A million times 0.1, to the last bits of f32. */
TEST(long_sums_are_accurate) {
  region_case *c = region_case_create();
  uint32_t x = region_value(c, SN_F32, 1, (double[]){0.1}), y = region_value(c, SN_F32, 1, NULL);
  reg a = region_reduce(c, REDUCE_SUM, SN_F32, region_load(c, x, 0, 0, NULL));
  at_row(c, 1);
  region_store(c, y, a, 0, 0, NULL);
  CHECK(region_case_run(c, 1, (sn_dim[]){1000000}) == SN_OK);
  CHECK_NEAR(((float *)c->data[y])[0], 1e6 * (double)0.1f, 0.01);
  region_case_destroy(c);
}

/* Three inner axes that do not merge, two outer ones: the mean of x [2, 5, 3, 4, 6] over axes 0, 2, 4. */
TEST(axes_in_any_order) {
  region_case *c = region_case_create();
  c->part.n_outer = 2;
  uint32_t x = spread_values(c, SN_F32, 720), y = region_value(c, SN_F32, 20, NULL);
  /* axes: 1, 3; 0, 2, 4 */
  reg a =
      region_reduce(c, REDUCE_SUM, SN_F32, region_load(c, x, 0, 5, (sn_dim[]){72, 6, 360, 24, 1}));
  at_row(c, 1);
  region_store(c, y, a, 0, 2, (sn_dim[]){4, 1});
  CHECK(region_case_run(c, 5, (sn_dim[]){5, 4, 2, 3, 6}) == SN_OK);
  region_case_check(c, 1e-5);
  region_case_destroy(c);
}

/* Rows of few points, but of axes that do not merge, so that no tile holds one: exponentials are computed again in the second phase. */
static void check_exp_twice(const sn_dim *extent, const sn_dim *by_a, const sn_dim *by_b) {
  region_case *c = open_rows(2);
  int64_t points = extent[1] * extent[2] * extent[3];
  sn_dim out[] = {points, extent[2] * extent[3], extent[3], 1};
  uint32_t a = spread_values(c, SN_F32, points), b = spread_values(c, SN_F32, points),
           y = region_value(c, SN_F32, extent[0] * points, NULL);
  reg sum = 0;
  for (int phase = 0; phase < 2; phase++) {
    at_points(c, phase);
    reg power = region_alu(c, ALU_exp, SN_F32, region_load(c, b, 0, 4, by_b), 0, 0);
    reg product = region_alu(c, ALU_mul, SN_F32, power, region_load(c, a, 0, 4, by_a), 0);
    if (phase == 0)
      sum = region_reduce(c, REDUCE_SUM, SN_F32, product);
    else
      region_store(c, y, region_alu(c, ALU_add, SN_F32, product, sum, 0), 0, 4, out);
  }
  CHECK(region_case_run(c, 4, extent) == SN_OK);
  region_case_check(c, 1e-4);
  region_case_destroy(c);
}

TEST(rows_of_several_tiles) {
  check_exp_twice((sn_dim[]){3, 2, 5, 4}, (sn_dim[]){0, 4, 0, 1}, (sn_dim[]){0, 20, 4, 1});
  check_exp_twice((sn_dim[]){2, 3, 1, 64}, (sn_dim[]){0, 0, 0, 1}, (sn_dim[]){0, 64, 64, 1});
  check_exp_twice((sn_dim[]){2, 1, 40, 3}, (sn_dim[]){0, 0, 0, 1}, (sn_dim[]){0, 0, 3, 1});
}
