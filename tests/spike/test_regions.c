/* Regions as SPIR-V, on the software Vulkan driver, against the same regions in C and against the reference
 * (docs/decisions/0010-regions-as-spirv.md). Emitted code is checked by spirv-val and the validation layer where these
 * are installed. */
#include "base/half.h"
#include "spike/code.h"
#include "spike/emit.h"
#include "spike/trial.h"
#include "support/test.h"

#include <math.h>
#include <sinew/sinew.h>
#include <stdlib.h>
#include <string.h>

#define AXIS(a, stride) ((term){(a), 0, (stride), 1, 0})
#define TERMS(...) \
  (int)(sizeof((term[]){__VA_ARGS__}) / sizeof(term)), (const term[]) { __VA_ARGS__ }
#define LOOP(c, axes, ...) \
  (loop_part) { .n_axes = (axes), .n_phases = 1, .extent = {__VA_ARGS__}, .code = code_region(c) }

/* --- every instruction --- */

static const float odd_floats[] = {
    0.0f,  -0.0f,      1.0f,   -1.0f,    0.5f,       -0.5f,  1.5f,     2.5f,     -2.5f,
    3.0f,  -3.0f,      7.25f,  -7.25f,   0.1f,       -0.1f,  1e-3f,    -1e-3f,   1e-6f,
    20.0f, -20.0f,     88.0f,  -88.0f,   255.0f,     256.0f, -5.0f,    1e5f,     3e9f,
    -3e9f, 1e30f,      -1e30f, INFINITY, -INFINITY,  NAN,    65504.0f, 65520.0f, 0.3333f,
    2.0f,  2147483520, 254.5f, 6.0f,     -2147483648};
static const int32_t odd_ints[] = {0,  1,   -1,  2,    -2,  3,     -3,        7,         -7,
                                   10, 255, 256, -256, 100, 65536, INT32_MAX, INT32_MIN, 12345};
enum {
  N_FLOATS = sizeof odd_floats / sizeof *odd_floats,
  N_INTS = sizeof odd_ints / sizeof *odd_ints
};

/* Numbers within what the driver's functions promise to take; all others see all of them. */
static bool tame(alu op, float x) {
  switch (op) {
  case ALU_sin:
  case ALU_cos:
  case ALU_tan: return fabsf(x) <= 20;
  case ALU_exp:
  case ALU_exp2:
  case ALU_expm1: return !(fabsf(x) > 80) || isinf(x);
  case ALU_rem:
  case ALU_fmod: return isinf(x) || (fabsf(x) <= 300 && fabsf(x) >= 0.5f && floorf(4 * x) == 4 * x);
  case ALU_floor_div: return fabsf(x) <= 300 && fabsf(x) >= 0.5f && floorf(4 * x) == 4 * x;
  case ALU_pow: return !(fabsf(x) > 8) && !(x == 0 && signbit(x));
  case ALU_log1p: return x >= -0.5f && x < 1e6f;
  case ALU_log:
  case ALU_log2:
  case ALU_sqrt:
  case ALU_rsqrt: return x > 0 && x < 1e30f;
  case ALU_atan2: return fabsf(x) < 1e6f && !signbit(x);
  case ALU_erf:
  case ALU_tanh:
  case ALU_sigmoid:
  case ALU_softplus: return fabsf(x) <= 88;
  case ALU_recip:
  case ALU_div: return x != 0 && fabsf(x) < 1e30f;
  default: return true;
  }
}

static double tolerance_of(alu op) {
  switch (op) {
  case ALU_neg:
  case ALU_abs:
  case ALU_sign:
  case ALU_add:
  case ALU_sub:
  case ALU_mul:
  case ALU_max:
  case ALU_min:
  case ALU_floor:
  case ALU_ceil:
  case ALU_round:
  case ALU_select:
  case ALU_cast: return 0;
  case ALU_pow:
  case ALU_tan:
  case ALU_exp:
  case ALU_exp2:
  case ALU_expm1:
  case ALU_gauss: return 2e-5;
  default: return 4e-6;
  }
}

/* Pairs of all odd numbers: x[i], y[i] for the points i of one axis. */
static int64_t fill_pairs(trial *t, alu op, sn_dtype in, uint32_t *x, uint32_t *y) {
  int count = in == SN_F32 ? N_FLOATS : N_INTS, n = 0;
  *x = trial_value(t, in, count * count);
  *y = trial_value(t, in, count * count);
  for (int i = 0; i < count; i++)
    for (int j = 0; j < count; j++)
      if (in == SN_I32) {
        trial_ints(t, *x)[n] = odd_ints[i];
        trial_ints(t, *y)[n++] = odd_ints[j];
      } else if (tame(op, odd_floats[i]) && tame(op, odd_floats[j])) {
        trial_floats(t, *x)[n] = odd_floats[i];
        trial_floats(t, *y)[n++] = odd_floats[j];
      }
  return n;
}

/* out = op(x, y, y < x or y) in `dtype`; arguments are `in`, cast to `work` first. */
static void check_alu(alu op, sn_dtype in, sn_dtype work, sn_dtype out, double number_x,
                      double number_y) {
  trial t = {.indices = 32,
             .tolerance = work == SN_F16    ? 0.01
                          : work == SN_BF16 ? 0.05
                                            : tolerance_of(op)};
  uint32_t x, y;
  code c = {0};
  int64_t n = fill_pairs(&t, op, in, &x, &y);
  uint32_t z = trial_value(&t, out, n);
  reg a = code_load(&c, in, x, TERMS(AXIS(0, 1))), b = code_load(&c, in, y, TERMS(AXIS(0, 1)));
  reg less = code_alu2(&c, ALU_lt, SN_BOOL, a, b), third = b;
  if (work != in) {
    a = code_alu1(&c, ALU_cast, work, a);
    b = third = code_alu1(&c, ALU_cast, work, b);
  }
  if (op == ALU_select) {
    third = b;
    b = a;
    a = less;
  } else if (op == ALU_gauss) {
    third = less;
  }
  instr i = {.op = REGION_ALU,
             .code = (uint8_t)op,
             .dtype = (uint8_t)out,
             .a = a,
             .b = b,
             .c = third,
             .x = number_x,
             .y = number_y};
  code_store(&c, code_add(&c, &i), z, TERMS(AXIS(0, 1)));
  trial_loop(&t, &LOOP(&c, 1, n));
  trial_end(&t);
}

/* From one dtype to all of them. */
static void check_casts(sn_dtype from) {
  bool whole = from == SN_I32 || from == SN_U8;
  trial t = {.indices = 32};
  uint32_t x, y;
  code c = {0};
  int64_t n = fill_pairs(&t, ALU_cast, whole ? SN_I32 : SN_F32, &x, &y);
  reg a = code_load(&c, whole ? SN_I32 : SN_F32, x, TERMS(AXIS(0, 1)));
  a = code_alu1(&c, ALU_cast, from, a);
  for (int to = SN_F32; to <= SN_BOOL; to++)
    code_store(&c, code_alu1(&c, ALU_cast, (sn_dtype)to, a), trial_value(&t, (sn_dtype)to, n),
               TERMS(AXIS(0, 1)));
  trial_loop(&t, &LOOP(&c, 1, n));
  trial_end(&t);
}

/* The dtypes that an instruction is tried with: arguments and result. */
static void check_kinds(alu op) {
  bool compares = op >= ALU_eq && op <= ALU_ge;
  if (op == ALU_isnan || op == ALU_isinf) {
    check_alu(op, SN_F32, SN_F32, SN_BOOL, 0, 0);
  } else if (op == ALU_not || op == ALU_and || op == ALU_or || op == ALU_xor) {
    check_alu(op, SN_F32, SN_BOOL, SN_BOOL, 0, 0);
  } else if (op == ALU_unit || op == ALU_gauss) {
    check_alu(op, SN_I32, SN_I32, SN_F32, 0, 0);
  } else if (op == ALU_range_int) {
    check_alu(op, SN_I32, SN_I32, SN_I32, -5, 4000000000.0);
    check_alu(op, SN_I32, SN_I32, SN_I32, INT32_MIN, 0x1p32);
  } else if (op == ALU_bits_below) {
    check_alu(op, SN_I32, SN_I32, SN_BOOL, 300, 0);
  } else if (compares) {
    check_alu(op, SN_F32, SN_F32, SN_BOOL, 0, 0);
    check_alu(op, SN_I32, SN_I32, SN_BOOL, 0, 0);
    check_alu(op, SN_F32, SN_BOOL, SN_BOOL, 0, 0);
  } else if (op == ALU_cast) {
    for (int from = SN_F32; from <= SN_BOOL; from++)
      check_casts((sn_dtype)from);
  } else {
    check_alu(op, SN_F32, SN_F32, SN_F32, 0, 0);
    if (op == ALU_add || op == ALU_mul || op == ALU_exp || op == ALU_select) {
      check_alu(op, SN_F32, SN_BF16, SN_BF16, 0, 0);
      check_alu(op, SN_F32, SN_F16, SN_F16, 0, 0);
    }
  }
  bool whole = op == ALU_neg || op == ALU_abs || op == ALU_sign || op == ALU_select ||
               (op >= ALU_add && op <= ALU_fmod) || op == ALU_max || op == ALU_min;
  if (whole) {
    check_alu(op, SN_I32, SN_I32, SN_I32, 0, 0);
    check_alu(op, SN_I32, SN_U8, SN_U8, 0, 0);
  }
}

TEST_WALK(alu) {
  for (int op = ALU_none + 1; op < ALU_COUNT; op++) {
    if (!test_begin("%s", alu_table[op].name))
      continue;
    if (trial_possible())
      check_kinds((alu)op);
    test_end();
  }
}

/* --- dtypes in memory --- */

/* Every f16 and bf16 there is, through f32 and back; f32 of all sizes to them. */
TEST(halves) {
  static const sn_dtype kinds[] = {SN_F16, SN_BF16};
  if (!trial_possible())
    return;
  for (int k = 0; k < 2; k++) {
    trial t = {0};
    code c = {0};
    uint32_t bits = trial_value(&t, kinds[k], 65536), wide = trial_value(&t, SN_F32, 65536);
    uint32_t back = trial_value(&t, kinds[k], 65536), from = trial_value(&t, SN_F32, 65536);
    uint32_t to = trial_value(&t, kinds[k], 65536);
    for (uint32_t i = 0; i < 65536; i++) {
      ((uint16_t *)t.data[bits])[i] = (uint16_t)i;
      trial_floats(&t, from)[i] = f32_from_bits(i << 16 | (i * 40503u & 0xffff));
    }
    for (uint32_t i = 0; i < 4096; i++) /* ties, subnormal f16 and the way to infinity among them */
      trial_floats(&t, from)[i] = f32_from_bits(0x32000000 + i * 0x2d000u);
    reg x = code_load(&c, kinds[k], bits, TERMS(AXIS(0, 1)));
    code_store(&c, x, wide, TERMS(AXIS(0, 1)));
    code_store(&c, x, back, TERMS(AXIS(0, 1)));
    code_store(&c, code_load(&c, SN_F32, from, TERMS(AXIS(0, 1))), to, TERMS(AXIS(0, 1)));
    trial_loop(&t, &LOOP(&c, 1, 65536));
    trial_end(&t);
  }
}

/* Arithmetic with numbers in the code, which a driver likes to fold: NaN, infinity and -0 stay what they are. */
TEST(numbers_that_tempt) {
  static const struct {
    alu op;
    double number; /* NAN: the value itself */
  } rows[] = {{ALU_mul, 0},   {ALU_mul, -0.0}, {ALU_add, 0},
              {ALU_sub, NAN}, {ALU_div, NAN},  {ALU_mul, 1}};
  static const float values[] = {NAN, INFINITY, -0.0f, 1e-30f};
  if (!trial_possible())
    return;
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    trial t = {.indices = 32};
    code c = {0};
    uint32_t x = trial_value(&t, SN_F32, 4), y = trial_value(&t, SN_F32, 4);
    memcpy(t.data[x], values, sizeof values);
    reg v = code_load(&c, SN_F32, x, TERMS(AXIS(0, 1)));
    reg n = isnan(rows[k].number) ? v : code_number(&c, SN_F32, rows[k].number);
    code_store(&c, code_alu2(&c, rows[k].op, SN_F32, v, n), y, TERMS(AXIS(0, 1)));
    trial_loop(&t, &LOOP(&c, 1, 4));
    trial_end(&t);
  }
}

/* --- places --- */

enum { ROWS, COLUMNS, ALL, PADDED_ROWS, PADDED, BEFORE }; /* sizes by handle */

/* y = x transposed, both seen as lists, so that the place is made of a quotient and a remainder. */
static void check_transposed(int64_t rows, int64_t columns) {
  trial t = {.sizes = {rows, columns, rows * columns}};
  code c = {0};
  sn_dim r = trial_size(ROWS), n = trial_size(COLUMNS);
  uint32_t x = trial_drawn(&t, SN_F32, rows * columns, 0);
  uint32_t y = trial_value(&t, SN_F32, rows * columns);
  reg v = code_load(&c, SN_F32, x, TERMS({0, 0, n, 1, r}, {0, 0, 1, r, 0}));
  code_store(&c, v, y, TERMS(AXIS(0, 1)));
  trial_loop(&t, &LOOP(&c, 1, trial_size(ALL)));
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++)
      CHECK_NEAR(trial_floats(&t, y)[j * rows + i], trial_floats(&t, x)[i * columns + j], 0);
  trial_end(&t);
}

/* y = x with a border of zeros. */
static void check_padded(int64_t rows, int64_t columns) {
  trial t = {.sizes = {rows, columns, 0, rows + 2, columns + 2, -columns - 1}};
  code c = {0};
  uint32_t x = trial_drawn(&t, SN_F32, rows * columns, 0);
  uint32_t y = trial_drawn(&t, SN_F32, (rows + 2) * (columns + 2), 0);
  reg v = code_load(&c, SN_F32, x, TERMS(AXIS(0, trial_size(COLUMNS)), AXIS(1, 1)));
  code_base(&c, trial_size(BEFORE));
  code_check(&c, AXIS(0, 1), -1, trial_size(ROWS), 1);
  code_check(&c, AXIS(1, 1), -1, trial_size(COLUMNS), 1);
  code_store(&c, v, y, TERMS(AXIS(0, trial_size(PADDED)), AXIS(1, 1)));
  trial_loop(&t, &LOOP(&c, 2, trial_size(PADDED_ROWS), trial_size(PADDED)));
  CHECK_NEAR(trial_floats(&t, y)[0], 0, 0);
  if (rows && columns)
    CHECK_NEAR(trial_floats(&t, y)[columns + 3], trial_floats(&t, x)[0], 0);
  trial_end(&t);
}

static void check_views(int64_t rows, int64_t columns) {
  check_transposed(rows, columns);
  check_padded(rows, columns);
}

TEST(views_of_every_size) {
  if (!trial_possible())
    return;
  check_views(0, 5);
  check_views(5, 0);
  check_views(1, 1);
  check_views(3, 7);
  check_views(37, 29);
}

/* Every second element, as the gradient of a strided window has them: 0 between. */
TEST(divisors) {
  trial t = {0};
  code c = {0};
  if (!trial_possible())
    return;
  uint32_t x = trial_drawn(&t, SN_F32, 5, 0), y = trial_value(&t, SN_F32, 15);
  reg v = code_load(&c, SN_F32, x, TERMS({0, 0, 1, 3, 0}));
  code_check(&c, AXIS(0, 1), -3, 4, 3);
  code_store(&c, v, y, TERMS(AXIS(0, 1)));
  trial_loop(&t, &LOOP(&c, 1, 15));
  CHECK_NEAR(trial_floats(&t, y)[3], trial_floats(&t, x)[1], 0);
  CHECK_NEAR(trial_floats(&t, y)[4] + trial_floats(&t, y)[0], 0, 0);
  trial_end(&t);
}

/* y[i, :] = table[ids[i], :]; an id that is out of range fails the run and reads nothing outside, also where the table
 * is empty. */
static void check_gather(int32_t entries, int32_t bad, uint32_t site) {
  trial t = {.sizes = {entries}};
  code c = {0};
  uint32_t table = trial_drawn(&t, SN_BF16, entries * 6, 0), ids = trial_drawn(&t, SN_I32, 9, 11);
  uint32_t y = trial_value(&t, SN_F32, 9 * 6);
  trial_ints(&t, ids)[4] = bad;
  reg id = code_load(&c, SN_I32, ids, TERMS(AXIS(0, 1)));
  instr count = {.op = REGION_SIZE, .dtype = SN_I32, .size = trial_size(0)};
  reg size = code_add(&c, &count);
  reg low = code_alu2(&c, ALU_ge, SN_BOOL, id, code_number(&c, SN_I32, 0));
  reg high = code_alu2(&c, ALU_lt, SN_BOOL, id, size);
  instr require = {.op = REGION_REQUIRE,
                   .dtype = SN_BOOL,
                   .a = code_alu2(&c, ALU_and, SN_BOOL, low, high),
                   .b = id,
                   .index = 2};
  code_add(&c, &require);
  reg v = code_load(&c, SN_BF16, table, TERMS({TERM_REG, id, 6, 1, trial_size(0)}, AXIS(1, 1)));
  code_store(&c, v, y, TERMS(AXIS(0, 6), AXIS(1, 1)));
  trial_loop(&t, &LOOP(&c, 2, 9, 6));
  CHECK_EQ_UINT(t.failure[0], site);
  if (site && entries)
    CHECK_EQ_INT((int32_t)t.failure[1], bad);
  for (int i = 0; i < 9 * 6 && !entries; i++)
    CHECK_NEAR(trial_floats(&t, y)[i], 0, 0);
  trial_end(&t);
}

TEST(registers_as_coordinates) {
  if (!trial_possible())
    return;
  check_gather(11, 3, 0);
  check_gather(11, 11, 3);
  check_gather(11, -7, 3);
  check_gather(0, 0, 3);
}

/* --- random numbers: words are equal, bit by bit --- */

TEST(random_words) {
  trial t = {.tolerance = 2e-5};
  code c = {0};
  reg key[3];
  if (!trial_possible())
    return;
  uint32_t k = trial_value(&t, SN_I32, 3), words = trial_value(&t, SN_I32, 1000);
  uint32_t normal = trial_value(&t, SN_F32, 1000), dropped = trial_value(&t, SN_BOOL, 1000);
  memcpy(t.data[k], (int32_t[]){-1234567, 891011, 42}, 12);
  for (int i = 0; i < 3; i++) {
    key[i] = code_load(&c, SN_I32, k, 0, NULL);
    code_base(&c, i);
  }
  reg w = code_word(&c, key, 17, TERMS(AXIS(0, 1)));
  reg pair = code_word(&c, key, 18, TERMS({0, 0, 2, 2, 0}));
  reg other = code_word(&c, key, 18, TERMS({0, 0, 2, 2, 0}));
  code_base(&c, 1);
  reg half = code_index(&c, TERMS({0, 0, 1, 1, 2}));
  reg second = code_alu1(&c, ALU_cast, SN_BOOL, half);
  code_store(&c, w, words, TERMS(AXIS(0, 1)));
  code_store(&c, code_alu3(&c, ALU_gauss, SN_F32, pair, other, second), normal, TERMS(AXIS(0, 1)));
  instr below = {.op = REGION_ALU, .code = ALU_bits_below, .dtype = SN_BOOL, .a = w, .x = 1 << 22};
  code_store(&c, code_add(&c, &below), dropped, TERMS(AXIS(0, 1)));
  trial_loop(&t, &LOOP(&c, 1, 1000));
  int n = 0;
  for (int i = 0; i < 1000; i++)
    n += ((uint8_t *)t.data[dropped])[i];
  CHECK(n > 200 && n < 300);
  trial_end(&t);
}

/* The number of a word has 64 bits: words whose block lies above 2^32. */
TEST(words_far_away) {
  trial t = {.indices = 64};
  code c = {0};
  reg key[3];
  if (!trial_possible())
    return;
  uint32_t words = trial_value(&t, SN_I32, 8);
  for (int i = 0; i < 3; i++)
    key[i] = code_number(&c, SN_I32, 5 + i);
  reg w = code_word(&c, key, 1, TERMS(AXIS(0, 1)));
  code_base(&c, INT64_C(1) << 36);
  code_store(&c, w, words, TERMS(AXIS(0, 1)));
  trial_loop(&t, &LOOP(&c, 1, 8));
  trial_end(&t);
}

/* --- what cannot be said yet is refused, not guessed --- */

TEST(refusals) {
  trial t = {0};
  code c = {0}, e = {0}, a = {0};
  uint32_t x = trial_value(&t, SN_F32, 4);
  emit_env env = {t.dtype, t.n_values, false};
  code_add(&c, &(instr){.op = REGION_INDEX, .dtype = SN_I32, .row = true});
  c.at[0].at = (access){.n_terms = 1, .terms = &(const term){1, 0, 1, 1, 0}};
  shader s = emit_loop(&(loop_part){2, 1, 1, {2, 4}, code_region(&c)}, &env);
  CHECK(s.words == NULL); /* a row knows no place within itself */
  CHECK_STR_HAS(s.why, "a coordinate that it does not have");
  free(s.words);
  code_load(&a, SN_F32, x, TERMS(AXIS(1, 1))); /* operand a does not have axis n */
  instr acc = {.op = REGION_ACC, .dtype = SN_F32};
  code_store(&e, code_add(&e, &acc), x, TERMS(AXIS(0, 2), AXIS(1, 1)));
  matmul_product product = {1, {2}, code_region(&a), code_region(&a)};
  matmul_acc accs = {1, &product};
  matmul_part p = {0, 1, 1, {2, 2}, 1, &accs, code_region(&e)};
  s = emit_matmul(&p, &env);
  CHECK(s.words == NULL);
  CHECK_STR_HAS(s.why, "a coordinate that it does not have");
  free(s.words);
  a = e = (code){0};
  code_load(&a, SN_F32, x, 0, NULL);
  code_add(&e, &acc);
  code_add(&e, &(instr){.op = REGION_REDUCE, .dtype = SN_F32});
  product.a = product.b = code_region(&a);
  p.epilogue = code_region(&e);
  s = emit_matmul(&p, &env);
  CHECK(s.words == NULL);
  CHECK_STR_HAS(s.why, "a reduction outside of a row");
  free(s.words);
  trial_end(&t);
}
