/* Loops on several threads: rows that are few and long, steps of many parts, turned and split axes, results past the caches. That
 * bits do not depend on threads, region_case_run and run_parts check. */
#include "support/region_case.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

static uint32_t waves(region_case *c, int64_t count) {
  double *values = malloc((size_t)count * sizeof *values + 1);
  for (int64_t i = 0; i < count; i++)
    values[i] = sin((double)i * 0.7) * 2 + 0.25;
  uint32_t v = region_value(c, SN_F32, count, values);
  free(values);
  return v;
}

static void at(region_case *c, int phase, bool row) { c->phase = phase, c->row = row; }

/* Mean, variance about it and the normalised x: every phase of `rows` rows of `columns` points at the given strides. */
static void check_norm(sn_dim rows, sn_dim columns, sn_dim by_row, sn_dim by_column) {
  region_case *c = region_case_create();
  c->part.n_outer = 1, c->part.n_phases = 3;
  sn_dim in[] = {by_row, by_column};
  uint32_t x = waves(c, rows * columns), y = region_value(c, SN_F32, rows * columns, NULL),
           f = region_value(c, SN_F32, rows, NULL), most = region_value(c, SN_F32, rows, NULL);
  at(c, 0, true);
  reg n = region_number(c, SN_F32, (double)columns);
  at(c, 0, false);
  reg a = region_load(c, x, 0, 2, in), sum = region_reduce(c, REDUCE_SUM, SN_F32, a);
  reg largest = region_reduce(c, REDUCE_MAX, SN_F32, a);
  at(c, 1, true);
  reg mean = region_alu(c, ALU_div, SN_F32, sum, n, 0);
  region_store(c, most, largest, 0, 1, (sn_dim[]){1});
  at(c, 1, false);
  reg d = region_alu(c, ALU_sub, SN_F32, region_load(c, x, 0, 2, in), mean, 0);
  reg squares = region_reduce(c, REDUCE_SUM, SN_F32, region_alu(c, ALU_mul, SN_F32, d, d, 0));
  at(c, 2, true);
  reg r = region_alu(c, ALU_rsqrt, SN_F32, region_alu(c, ALU_div, SN_F32, squares, n, 0), 0, 0);
  region_store(c, f, r, 0, 1, (sn_dim[]){1});
  at(c, 2, false);
  d = region_alu(c, ALU_sub, SN_F32, region_load(c, x, 0, 2, in), mean, 0);
  region_store(c, y, region_alu(c, ALU_mul, SN_F32, d, r, 0), 0, 2, in);
  CHECK(region_case_run(c, 2, (sn_dim[]){rows, columns}) == SN_OK);
  region_case_check(c, 1e-5);
  region_case_destroy(c);
}
TEST(few_long_rows) {
  check_norm(1, 150001, 150001, 1);
  check_norm(3, 70000, 70000, 1);
  check_norm(60, 5000, 5000, 1);
}
TEST(few_long_rows_across_memory) {
  check_norm(7, 30000, 1, 7);
  check_norm(300, 1500, 1, 300);
  check_norm(1100, 300, 1, 1100);
}

/* Sums of integers, products and bools over rows that are cut. */
TEST(pieces_of_every_kind) {
  static const reduce_kind kinds[] = {REDUCE_SUM, REDUCE_PROD, REDUCE_MAX,
                                      REDUCE_MIN, REDUCE_ANY,  REDUCE_ALL};
  enum { COUNT = 400000 };
  for (size_t k = 0; k < COUNT_OF(kinds); k++) {
    region_case *c = region_case_create();
    double *values = malloc(COUNT * sizeof *values);
    for (int i = 0; i < COUNT; i++)
      values[i] = kinds[k] == REDUCE_ALL ? 1 : (i * 31 + 7) % 19 - 9;
    uint32_t x = region_value(c, SN_I32, COUNT, values), y = region_value(c, SN_I32, 2, NULL);
    free(values);
    c->part.n_outer = 1;
    at(c, 0, false);
    reg a = region_load(c, x, 0, 2, (sn_dim[]){COUNT / 2, 1});
    for (int i = 0; i < 5; i++) /* work enough to be cut */
      a = region_alu(c, ALU_max, SN_I32, a, a, 0);
    reg made = region_reduce(c, kinds[k], SN_I32, a);
    at(c, 1, true);
    region_store(c, y, made, 0, 1, (sn_dim[]){1});
    CHECK(region_case_run(c, 2, (sn_dim[]){2, COUNT / 2}) == SN_OK);
    region_case_check(c, 0);
    region_case_destroy(c);
  }
}

/* A phase right behind another, without an instruction of rows between them. */
TEST(phases_side_by_side) {
  enum { COUNT = 300000 };
  region_case *c = region_case_create();
  c->part.n_phases = 2;
  uint32_t x = waves(c, COUNT), y = region_value(c, SN_F32, COUNT, NULL),
           z = region_value(c, SN_F32, 1, NULL);
  const sn_dim one = 1;
  at(c, 0, false);
  reg most = region_reduce(c, REDUCE_MAX, SN_F32, region_load(c, x, 0, 1, &one));
  at(c, 1, false);
  reg e = region_alu(c, ALU_sub, SN_F32, region_load(c, x, 0, 1, &one), most, 0);
  e = region_alu(c, ALU_exp, SN_F32, e, 0, 0);
  region_store(c, y, e, 0, 1, &one);
  reg sum = region_reduce(c, REDUCE_SUM, SN_F32, e);
  at(c, 2, true);
  region_store(c, z, sum, 0, 0, NULL);
  CHECK(region_case_run(c, 1, (sn_dim[]){COUNT}) == SN_OK);
  region_case_check(c, 1e-5);
  region_case_destroy(c);
}

/* --- turned and split axes --- */
static void check_turn(sn_dim outer, sn_dim rows, sn_dim columns, sn_dtype dtype) {
  region_case *c = region_case_create();
  int64_t count = outer * rows * columns;
  double *values = malloc((size_t)count * sizeof *values + 1);
  for (int64_t i = 0; i < count; i++)
    values[i] = (double)(i % 120);
  uint32_t x = region_value(c, dtype, count, values), y = region_value(c, dtype, count, NULL);
  free(values);
  reg a = region_load(c, x, 0, 3, (sn_dim[]){rows * columns, 1, rows});
  region_store(c, y, a, 0, 3, (sn_dim[]){rows * columns, columns, 1});
  CHECK(region_case_run(c, 3, (sn_dim[]){outer, rows, columns}) == SN_OK);
  region_case_check(c, 0);
  region_case_destroy(c);
}
TEST(turned) {
  static const sn_dim sizes[] = {1, 3, 15, 16, 17, 33, 64, 130, 257};
  for (size_t i = 0; i < COUNT_OF(sizes); i++)
    for (size_t k = 0; k < COUNT_OF(sizes); k++)
      check_turn(2, sizes[i], sizes[k], SN_F32);
  check_turn(1, 100, 70, SN_I32);
  check_turn(3, 40, 50, SN_F16);
  check_turn(3, 40, 50, SN_U8);
}

/* Rotations of halves: coordinates of one axis divided and taken modulo. */
static void check_halves(sn_dim heads, sn_dim length, sn_dim half) {
  region_case *c = region_case_create();
  sn_dim width = 2 * half;
  uint32_t x = waves(c, heads * length * width), w = waves(c, length * half),
           y = region_value(c, SN_F32, heads * length * width, NULL);
  term halves[] = {{.axis = 1, .stride = half, .div = 1},
                   {.axis = 2, .stride = 1, .div = 1, .mod = half}};
  term other[] = {{.axis = 0, .stride = width, .div = 1},
                  {.axis = 1, .stride = heads * width, .div = 1},
                  {.axis = 2, .stride = -half, .div = half},
                  {.axis = 2, .stride = 1, .div = 1, .mod = half}};
  reg a = region_load(c, x, 0, 3, (sn_dim[]){width, heads * width, 1});
  reg b = region_emit(
      c, (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = region_access(c, w, 0, 2, halves)});
  reg d = region_emit(
      c, (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = region_access(c, x, half, 4, other)});
  reg sum = region_alu(c, ALU_sub, SN_F32, region_alu(c, ALU_mul, SN_F32, a, b, 0), d, 0);
  region_store(c, y, sum, 0, 3, (sn_dim[]){length * width, width, 1});
  CHECK(region_case_run(c, 3, (sn_dim[]){heads, length, width}) == SN_OK);
  region_case_check(c, 1e-6);
  region_case_destroy(c);
}
TEST(halves_of_an_axis) {
  check_halves(3, 20, 32);
  check_halves(1, 7, 8);
  check_halves(5, 130, 5);
  check_halves(2, 3, 100);
}

/* --- large results --- */
TEST(results_past_the_caches) {
  enum { ROWS = 2100, COLUMNS = 2003 }; /* above the size from which stores stream; odd rows */
  for (int turned = 0; turned < 2; turned++) {
    region_case *c = region_case_create();
    uint32_t x = waves(c, (int64_t)ROWS * COLUMNS),
             y = region_value(c, SN_F32, (int64_t)ROWS * COLUMNS, NULL);
    sn_dim in[] = {turned ? 1 : COLUMNS, turned ? ROWS : 1}, out[] = {COLUMNS, 1};
    reg a = region_load(c, x, 0, 2, in);
    region_store(c, y, region_alu(c, ALU_add, SN_F32, a, a, 0), 0, 2, out);
    CHECK(region_case_run(c, 2, (sn_dim[]){ROWS, COLUMNS}) == SN_OK);
    region_case_check(c, 0);
    region_case_destroy(c);
  }
}

/* --- steps of many parts --- */
enum { PARTS = 40 };

/* Part i adds 1 to i elements of its own in place, those of every seventh to many; one part sums what no other writes. */
static int64_t size_of(int i) { return i % 7 ? i * 3 : 40000 + i; }

static void run_parts(region_case *c, part *parts, float *got, int64_t n, int threads,
                      const cpu_isa *isa) {
  cpu_case run = {.ctx = c->ctx,
                  .program = &c->program,
                  .sizes = c->sizes,
                  .addresses = c->data,
                  .threads = threads,
                  .isa = isa};
  step s = {.kind = STEP_ROW, .n_parts = PARTS + 1, .parts = parts};
  float *x = c->data[1];
  for (int64_t i = 0; i < n; i++)
    x[i] = (float)(i % 50);
  CHECK(cpu_case_run(&run, &s) == SN_OK);
  memcpy(got, x, (size_t)n * sizeof *got);
  for (int64_t i = 0; i < n; i++)
    if (!CHECK(got[i] == (float)(i % 50) + 1))
      return;
}

TEST(many_parts) {
  region_case *c = region_case_create();
  part parts[PARTS + 1] = {0};
  const sn_dim one = 1;
  int64_t n = 0;
  for (int i = 0; i < PARTS; i++)
    n += size_of(i);
  uint32_t x = region_value(c, SN_F32, n, NULL), same = region_value_at(c, x);
  uint32_t w = waves(c, 500000), y = region_value(c, SN_F32, 1, NULL);
  int64_t from = 0;
  for (int i = 0; i < PARTS; i++) {
    int first = c->part.code.n;
    region_load(c, x, from, 1, &one);
    region_emit(c, (instr){.op = REGION_NUMBER, .dtype = SN_F32, .x = 1});
    region_emit(c, (instr){.op = REGION_ALU, .code = ALU_add, .dtype = SN_F32, .a = 0, .b = 1});
    region_store(c, same, 0, from, 1, &one);
    c->code[c->part.code.n - 1].a = 2;
    parts[i].u.loop = (loop_part){.n_axes = 1, .n_phases = 1, .extent = {size_of(i)}};
    parts[i].u.loop.code = (region){4, &c->code[first]};
    from += size_of(i);
  }
  int first = c->part.code.n;
  region_load(c, w, 0, 1, &one);
  c->code[first].phase = 0;
  region_emit(c, (instr){.op = REGION_REDUCE, .code = REDUCE_SUM, .dtype = SN_F32, .a = 0});
  c->phase = 1, c->row = true;
  region_store(c, y, 0, 0, 0, NULL);
  c->code[c->part.code.n - 1].a = 1;
  parts[PARTS].u.loop = (loop_part){.n_axes = 1, .n_phases = 1, .extent = {500000}};
  parts[PARTS].u.loop.code = (region){3, &c->code[first]};
  float *got = malloc((size_t)n * sizeof *got);
  for (int i = 0; cpu_isa_at(i); i++) {
    float sum = 0;
    for (int threads = 1; threads <= 4; threads++) {
      run_parts(c, parts, got, n, threads, cpu_isa_at(i));
      float here = ((float *)c->data[y])[0];
      CHECK(threads == 1 || here == sum);
      sum = here;
    }
    CHECK_NEAR(sum, 125000, 10);
  }
  free(got);
  region_case_destroy(c);
}
