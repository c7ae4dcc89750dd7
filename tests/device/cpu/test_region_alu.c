/* Every ALU instruction of the CPU's regions against double arithmetic, on numbers where rules differ: signs, zeros,
 * halves, infinities, NaN, limits of integers. */
#include "support/alu_kinds.h"
#include "support/element_machine.h"
#include "support/region_case.h"
#include "support/test.h"

#include <math.h>

static const double floats[] = {0,        -0.0, 1,        -1,        0.5,   1.5,   2.5,
                                -2.5,     3.25, -7.5,     1e-20,     1e-40, 65520, 1e30,
                                -1e30,    88,   INFINITY, -INFINITY, NAN,   0.3,   -0.7,
                                16777217, 1e-3, -17,      255.5,     3e9,   12.125};
static const double ints[] = {0,  1,   -1,  2,          -2,           7,     -7,  255,      256,
                              -5, 100, 300, 2147483647, -2147483648., 65537, 1e9, 16777217, 3};
enum { FLOATS = COUNT_OF(floats), INTS = COUNT_OF(ints) };

/* All pairs of a set of numbers as two (or three) arguments of one dtype. */
static void check_alu(alu code, sn_dtype result, sn_dtype from, double x, double y) {
  const double *set = dtype_is_float(from) ? floats : ints;
  int n = from == SN_BOOL ? 2 : dtype_is_float(from) ? FLOATS : INTS;
  double a[FLOATS * FLOATS], b[FLOATS * FLOATS], chosen[FLOATS * FLOATS];
  for (int i = 0; i < n * n; i++) {
    a[i] = set[i / n], b[i] = set[i % n];
    chosen[i] = i % 3 == 1;
  }
  region_case *c = region_case_create();
  int64_t count = n * n;
  uint32_t va = region_value(c, from, count, a), vb = region_value(c, from, count, b);
  uint32_t vc = region_value(c, SN_BOOL, count, chosen), out = region_value(c, result, count, NULL);
  const sn_dim one = 1;
  reg p = region_load(c, va, 0, 1, &one), q = region_load(c, vb, 0, 1, &one);
  reg r = region_load(c, vc, 0, 1, &one);
  instr i = {.op = REGION_ALU, .code = (uint8_t)code, .dtype = (uint8_t)result, .x = x, .y = y};
  i.a = p, i.b = q, i.c = r;
  if (code == ALU_select)
    i.a = r, i.b = p, i.c = q;
  region_store(c, out, region_emit(c, i), 0, 1, &one);
  CHECK(region_case_run(c, 1, (sn_dim[]){count}) == SN_OK);
  double tolerance = result == SN_F16 ? 1e-3 : result == SN_BF16 ? 8e-3 : 5e-7;
  region_case_check(c, tolerance);
  region_case_destroy(c);
}

static void check_code(alu code) {
  static const sn_dtype dtypes[] = {SN_F32, SN_F16, SN_BF16, SN_I32, SN_U8, SN_BOOL};
  for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
    sn_dtype from = dtypes[d];
    if (!alu_takes((alu)code, from))
      continue;
    if (code == ALU_cast)
      for (size_t to = 0; to < COUNT_OF(dtypes); to++)
        check_alu(code, dtypes[to], from, 0, 0);
    else
      check_alu(code, alu_gives_bool(code) ? SN_BOOL : from, from, 0, 0);
  }
}

TEST_WALK(every_alu) {
  for (int code = 1; code < ALU_COUNT; code++) {
    if (alu_is_random((alu)code) || !test_begin("%s", alu_table[code].name))
      continue;
    check_code((alu)code);
    test_end();
  }
}

TEST(random_words) {
  check_alu(ALU_unit, SN_F32, SN_I32, 0, 0);
  check_alu(ALU_gauss, SN_F32, SN_I32, 0, 0);
  check_alu(ALU_bits_below, SN_BOOL, SN_I32, 5000, 0);
  check_alu(ALU_range_int, SN_I32, SN_I32, -3, 7);
  check_alu(ALU_range_int, SN_I32, SN_I32, -2147483648., 4294967295.);
}

/* The second of a pair at an exact quarter turn is exactly the radius, the first exactly 0. */
TEST(gauss_is_exact_at_quarters) {
  region_case *c = region_case_create();
  uint32_t word = region_value(c, SN_I32, 2, (double[]){0x40000000, -1073741824});
  uint32_t out = region_value(c, SN_F32, 2, NULL);
  const sn_dim one = 1;
  reg a = region_load(c, word, 0, 1, &one), no = region_number(c, SN_BOOL, 0);
  region_store(c, out, region_alu(c, ALU_gauss, SN_F32, a, a, no), 0, 1, &one);
  CHECK(region_case_run(c, 1, (sn_dim[]){2}) == SN_OK);
  CHECK(((float *)c->data[out])[0] == 0 && ((float *)c->data[out])[1] == 0);
  region_case_destroy(c);
}
