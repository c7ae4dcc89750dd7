/* Which accesses have four neighbouring points in one vector (emit_four.h), and which results are made four at a time. That what
 * is emitted for them is right, test_kernels.c and test_matmul.c see. */
#include "device/vulkan/emit_four.h"
#include "device/vulkan/emit_matmul.h"
#include "support/test.h"

static term along(int axis, int64_t stride) {
  return (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
}

/* Of axes [4, 8, 12], the four along the last `n` of them. */
static four_kind kind_of(int64_t base, int n_terms, const term *terms, int n) {
  static const sn_dim extent[REGION_AXES] = {4, 8, 12};
  access at = {.value = 1, .base = base, .n_terms = n_terms, .terms = terms};
  return access_four(&at, &(four_axes){3 - n, n, extent});
}

TEST(kinds) {
  term next[] = {along(0, 96), along(1, 12), along(2, 1)};
  CHECK_EQ_INT(kind_of(0, 3, next, 1), FOUR_NEXT);
  CHECK_EQ_INT(kind_of(0, 3, next, 2), FOUR_NEXT);
  CHECK_EQ_INT(kind_of(4, 3, next, 1), FOUR_NEXT);
  CHECK_EQ_INT(kind_of(2, 3, next, 1), FOUR_APART);
  term odd[] = {along(0, 96), along(1, 13), along(2, 1)};
  CHECK_EQ_INT(kind_of(0, 3, odd, 1), FOUR_APART);
  term twice[] = {along(0, 192), along(1, 24), along(2, 2)};
  CHECK_EQ_INT(kind_of(0, 3, twice, 1), FOUR_APART);
  term channel[] = {along(0, 1)};
  CHECK_EQ_INT(kind_of(3, 1, channel, 2), FOUR_SAME);
  CHECK_EQ_INT(kind_of(3, 1, next + 1, 1), FOUR_SAME);
  term through = {.axis = TERM_REG, .stride = 1, .mod = 4};
  CHECK_EQ_INT(kind_of(0, 1, &through, 1), FOUR_APART);
}

/* A load of dtype, cut along the last axis. */
static four_kind cut_kind(sn_dtype dtype, int64_t base, int n_terms, const term *terms) {
  static const sn_dim extent[REGION_AXES] = {4, 8, 12};
  static emitter e;
  program_value values[2] = {{.home = HOME_ARENA}, {.type = {.dtype = dtype}}};
  program of = {.values = values, .n_values = 2};
  e.env.program = &of;
  instr load = {.op = REGION_LOAD, .at = {1, base, n_terms, 0, terms, NULL}};
  return emit_four_kind(&e, &(region){1, &load}, 0, &(four_axes){0, 3, extent});
}

TEST(cut_axes) {
  term rest[] = {along(1, 12), {.axis = 2, .stride = 1, .div = 1, .mod = 4}};
  CHECK_EQ_INT(cut_kind(SN_F32, 0, 2, rest), FOUR_NEXT);
  CHECK_EQ_INT(cut_kind(SN_F16, 0, 2, rest), FOUR_APART);
  CHECK_EQ_INT(cut_kind(SN_F32, 2, 2, rest), FOUR_APART);
  rest[1].mod = 6;
  CHECK_EQ_INT(cut_kind(SN_F32, 0, 2, rest), FOUR_APART);
  term swapped[] = {along(1, 12),
                    {.axis = 2, .stride = -8, .div = 8},
                    {.axis = 2, .stride = 1, .div = 1, .mod = 8}};
  CHECK_EQ_INT(cut_kind(SN_F32, 8, 3, swapped), FOUR_NEXT);
  swapped[1].div = 2;
  CHECK_EQ_INT(cut_kind(SN_F32, 8, 3, swapped), FOUR_APART);
  term fourths[] = {along(0, 3), {.axis = 2, .stride = 1, .div = 4}};
  CHECK_EQ_INT(cut_kind(SN_F32, 1, 2, fourths), FOUR_SAME);
  CHECK_EQ_INT(cut_kind(SN_F16, 1, 2, fourths), FOUR_SAME);
  fourths[1].div = 3;
  CHECK_EQ_INT(cut_kind(SN_F32, 1, 2, fourths), FOUR_APART);
}

/* Results [rows, columns], rows of memory first or columns. */
static int points_of(int64_t rows, int64_t columns, bool columns_last) {
  term t[2] = {along(0, columns_last ? columns : 1), along(1, columns_last ? 1 : rows)};
  instr code[2] = {
      {.op = REGION_ACC, .dtype = SN_F32},
      {.op = REGION_STORE, .dtype = SN_F32, .at = {.value = 1, .n_terms = 2, .terms = t}}};
  matmul_part p = {.n_m = 1, .n_n = 1, .extent = {rows, columns}, .epilogue = {2, code}};
  CHECK(matmul_columns_last(&p) == columns_last);
  return matmul_points(&p);
}

TEST(points) {
  CHECK_EQ_INT(points_of(7, 8, true), 4);
  CHECK_EQ_INT(points_of(8, 7, true), 1);
  CHECK_EQ_INT(points_of(8, 7, false), 4);
  CHECK_EQ_INT(points_of(7, 8, false), 1);
}

/* Every second pixel of planes: neighbours in memory are rows, though nothing stands next to each other. */
TEST(pixels_apart_come_last) {
  term t[2] = {along(0, 2), along(1, 128)};
  instr store = {.op = REGION_STORE, .dtype = SN_F32, .at = {.value = 1, .n_terms = 2, .terms = t}};
  matmul_part p = {.n_m = 1, .n_n = 1, .extent = {64, 32}, .epilogue = {1, &store}};
  CHECK(!matmul_columns_last(&p));
  CHECK_EQ_INT(matmul_points(&p), 1);
}

/* An image [6, 6, channels] under windows of 3 x 3: pixels by [3, 3, channels] elements of k, of which checks read the first two axes. */
static int window_width(int64_t channels) {
  static emitter e;
  program_value values[2] = {{.home = HOME_ARENA}, {.type = {.dtype = SN_F32}}};
  program of = {.values = values, .n_values = 2};
  e.env.program = &of;
  const term at[] = {along(0, 6 * channels), along(1, channels), along(3, 6 * channels),
                     along(4, channels), along(5, 1)};
  const term y[] = {along(0, 1), along(3, 1)}, x[] = {along(1, 1), along(4, 1)};
  const check checks[] = {{2, y, -1, 6, 1}, {2, x, -1, 6, 1}};
  instr load = {.op = REGION_LOAD, .dtype = SN_F32, .at = {1, -7 * channels, 5, 2, at, checks}};
  matmul_product product = {.n_k = 3, .k = {3, 3, channels}, .a = {1, &load}};
  matmul_part p = {.n_m = 2, .n_n = 1, .extent = {6, 6, 8}};
  operand o;
  vk_operand_read(&e, &p, &product, 0, &o);
  CHECK(o.plain && o.along_k);
  return o.width;
}

TEST(windows_are_loaded_in_fours) {
  CHECK_EQ_INT(window_width(16), 4);
  CHECK_EQ_INT(window_width(4), 4);
  CHECK_EQ_INT(window_width(3), 1);
}
