/* Accesses, numbers, random words and requires of the CPU's regions, against the naive interpreter. */
#include "base/half.h"
#include "support/region_case.h"
#include "support/test.h"

static double counted(int64_t i) { return (double)((i * 7 + 3) % 101) - 40; }

static uint32_t numbered(region_case *c, sn_dtype dtype, int64_t count) {
  double values[20000];
  for (int64_t i = 0; i < count; i++)
    values[i] = dtype == SN_BOOL ? (double)(i % 3 == 0)
                : dtype == SN_U8 ? (double)(i % 250)
                                 : counted(i);
  return region_value(c, dtype, count, values);
}

/* x[i, j] at base + 3 terms to y[i, j], over [rows, columns]. */
static void check_access(sn_dtype dtype, sn_dim rows, sn_dim columns, sn_dim base, int n_terms,
                         const term *terms, int64_t room) {
  region_case *c = region_case_create();
  uint32_t x = numbered(c, dtype, room), y = region_value(c, dtype, rows * columns, NULL);
  reg a = region_emit(c, (instr){.op = REGION_LOAD,
                                 .dtype = (uint8_t)dtype,
                                 .at = region_access(c, x, base, n_terms, terms)});
  region_store(c, y, a, 0, 2, (sn_dim[]){columns, 1});
  CHECK(region_case_run(c, 2, (sn_dim[]){rows, columns}) == SN_OK);
  region_case_check(c, 0);
  region_case_destroy(c);
}

TEST(strides_of_every_kind_and_dtype) {
  static const sn_dim shapes[][2] = {{1, 1}, {3, 7}, {7, 3}, {5, 64}, {2, 300}, {300, 2}, {70, 96}};
  for (sn_dtype d = SN_F32; d <= SN_BOOL; d++)
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
      sn_dim m = shapes[s][0], n = shapes[s][1];
      term rows = {.axis = 0, .stride = n, .div = 1}, columns = {.axis = 1, .stride = 1, .div = 1};
      check_access(d, m, n, 0, 2, (term[]){rows, columns}, m * n);
      check_access(d, m, n, 2, 1, (term[]){columns}, n + 2);
      check_access(d, m, n, 0, 1, (term[]){{.axis = 0, .stride = 1, .div = 1}}, m);
      check_access(d, m, n, 1, 0, NULL, 2);
      rows.stride = 1, columns.stride = m;
      check_access(d, m, n, 0, 2, (term[]){rows, columns}, m * n);
      rows.stride = -n, columns.stride = -1; /* flipped */
      check_access(d, m, n, m * n - 1, 2, (term[]){rows, columns}, m * n);
      rows.stride = 2 * n, columns.stride = 2;
      check_access(d, m, n, 1, 2, (term[]){columns, rows}, 2 * m * n);
    }
}

TEST(divided_coordinates) {
  for (int64_t div = 1; div < 6; div++)
    for (int64_t mod = 0; mod < 5; mod++) {
      term t[] = {{.axis = 1, .stride = 3, .div = div, .mod = mod},
                  {.axis = 0, .stride = 1, .div = 2, .mod = mod},
                  {.axis = 1, .stride = 5, .div = 1}};
      check_access(SN_F32, 4, 70, 0, 3, t, 2000);
      check_access(SN_I32, 5, 6, 0, 3, t, 2000);
    }
}

TEST(symbolic_sizes) {
  region_case *c = region_case_create();
  sn_dim n = region_size(c, 3, 5), m = region_size(c, 4, 90), none = region_size(c, 5, 0);
  uint32_t x = numbered(c, SN_F32, 450), y = region_value(c, SN_F32, 450, NULL);
  uint32_t z = region_value(c, SN_I32, 450, NULL);
  reg a = region_load(c, x, none, 2, (sn_dim[]){m, 1});
  reg size = region_emit(c, (instr){.op = REGION_SIZE, .dtype = SN_F32, .size = m});
  region_store(c, y, region_alu(c, ALU_mul, SN_F32, a, size, 0), 0, 2, (sn_dim[]){m, 1});
  access at = region_access(c, 0, n, 1, (term[]){{.axis = 1, .stride = m, .div = 1, .mod = n}});
  reg number = region_emit(c, (instr){.op = REGION_INDEX, .dtype = SN_I32, .at = at});
  region_store(c, z, number, 0, 2, (sn_dim[]){m, 1});
  CHECK(region_case_run(c, 2, (sn_dim[]){n, m}) == SN_OK);
  region_case_check(c, 0);
  region_case_destroy(c);
}

/* A window that hangs over every edge of x [6, 9]: as pads and convolutions read. */
static void check_padded(sn_dim rows, sn_dim columns, int64_t by_row, int64_t by_column,
                         int64_t divisor) {
  region_case *c = region_case_create();
  uint32_t x = numbered(c, SN_F32, 54), y = region_value(c, SN_F32, rows * columns, NULL);
  uint32_t inside = region_value(c, SN_BOOL, rows * columns, NULL);
  term i = {.axis = 0, .stride = by_row, .div = 1}, j = {.axis = 1, .stride = by_column, .div = 1};
  term at[] = {{.axis = 0, .stride = 9 * by_row / divisor, .div = divisor},
               {.axis = 1, .stride = by_column / divisor, .div = 1}};
  int64_t up = by_row < 0 ? 6 : -2, left = by_column < 0 ? 10 : -3;
  access a = region_access(c, x, up / divisor * 9 + left / divisor, 2, at);
  region_add_check(c, &a, (check){1, &i, up, 6, divisor});
  region_add_check(c, &a, (check){1, &j, left, 9, divisor});
  if (divisor == 1)
    region_store(c, y, region_emit(c, (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = a}), 0, 2,
                 (sn_dim[]){columns, 1});
  a.value = 0;
  region_store(c, inside, region_emit(c, (instr){.op = REGION_INSIDE, .dtype = SN_BOOL, .at = a}),
               0, 2, (sn_dim[]){columns, 1});
  CHECK(region_case_run(c, 2, (sn_dim[]){rows, columns}) == SN_OK);
  region_case_check(c, 0);
  region_case_destroy(c);
}

TEST(checks) {
  static const int64_t steps[] = {1, 2, -1, -2, 3};
  for (size_t i = 0; i < COUNT_OF(steps); i++)
    for (size_t j = 0; j < COUNT_OF(steps); j++) {
      check_padded(11, 15, steps[i], steps[j], 1);
      check_padded(3, 130, steps[i], steps[j], 1);
      check_padded(11, 15, steps[i], steps[j], 2);
    }
}

/* y[i, j] = x[index[i], j] and z[i, j] = x[j % 4, index[i]]; indices out of range read anything in range. */
TEST(registers_as_indices) {
  region_case *c = region_case_create();
  uint32_t x = numbered(c, SN_F32, 12 * 80);
  uint32_t index = region_value(c, SN_I32, 6, (double[]){3, 0, 11, -5, 99, 7});
  uint32_t y = region_value(c, SN_F32, 480, NULL), z = region_value(c, SN_F32, 480, NULL);
  reg k = region_load(c, index, 0, 1, (sn_dim[]){1});
  term row = {.axis = TERM_REG, .from = k, .stride = 80, .div = 1, .mod = 12};
  term column = {.axis = 1, .stride = 1, .div = 1};
  access at = region_access(c, x, 0, 2, (term[]){row, column});
  region_store(c, y, region_emit(c, (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = at}), 0, 2,
               (sn_dim[]){80, 1});
  row.stride = 1, column.stride = 80, column.mod = 4;
  at = region_access(c, x, 0, 2, (term[]){row, column});
  region_store(c, z, region_emit(c, (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = at}), 0, 2,
               (sn_dim[]){80, 1});
  CHECK(region_case_run(c, 2, (sn_dim[]){6, 80}) == SN_OK);
  region_case_check(c, 0);
  region_case_destroy(c);
}

/* y[index, j] = -x[j], where the index is made behind what is stored: it must be known when that is written. */
TEST(store_by_a_later_index) {
  region_case *c = region_case_create();
  uint32_t x = numbered(c, SN_F32, 32), index = region_value(c, SN_I32, 1, (double[]){5});
  uint32_t y = region_value(c, SN_F32, 12 * 32, NULL);
  reg a = region_load(c, x, 0, 2, (sn_dim[]){0, 1});
  reg minus = region_alu(c, ALU_neg, SN_F32, a, 0, 0);
  reg k = region_load(c, index, 0, 0, NULL);
  term row = {.axis = TERM_REG, .from = k, .stride = 32, .div = 1, .mod = 12};
  term column = {.axis = 1, .stride = 1, .div = 1};
  access at = region_access(c, y, 0, 2, (term[]){row, column});
  region_emit(c, (instr){.op = REGION_STORE, .dtype = SN_F32, .a = minus, .at = at});
  CHECK(region_case_run(c, 2, (sn_dim[]){1, 32}) == SN_OK);
  region_case_check(c, 0);
  region_case_destroy(c);
}

/* Picking from an axis of size 0 reads nothing. */
TEST(index_into_nothing) {
  region_case *c = region_case_create();
  uint32_t x = region_value(c, SN_F32, 0, NULL), y = region_value(c, SN_F32, 4, NULL);
  reg k = region_number(c, SN_I32, 2);
  access at =
      region_access(c, x, 0, 1, (term[]){{.axis = TERM_REG, .from = k, .stride = 1, .div = 1}});
  region_store(c, y, region_emit(c, (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = at}), 0, 1,
               (sn_dim[]){1});
  CHECK(region_case_run(c, 1, (sn_dim[]){4}) == SN_OK);
  for (int i = 0; i < 4; i++)
    CHECK(((float *)c->data[y])[i] == 0);
  region_case_destroy(c);
}

TEST(words_of_a_stream) {
  region_case *c = region_case_create();
  uint32_t key = region_value(c, SN_I32, 3, (double[]){12345, -77, 9});
  uint32_t y = region_value(c, SN_I32, 3 * 301, NULL);
  reg k[3];
  for (int i = 0; i < 3; i++)
    k[i] = region_load(c, key, i, 0, NULL);
  access at = region_access(
      c, 0, (INT64_C(1) << 34) - 7, 2,
      (term[]){{.axis = 0, .stride = 301, .div = 1}, {.axis = 1, .stride = 1, .div = 1}});
  reg word = region_emit(
      c,
      (instr){
          .op = REGION_WORD, .dtype = SN_I32, .a = k[0], .b = k[1], .c = k[2], .x = 5, .at = at});
  region_store(c, y, word, 0, 2, (sn_dim[]){301, 1});
  CHECK(region_case_run(c, 2, (sn_dim[]){3, 301}) == SN_OK);
  region_case_check(c, 0);
  region_case_destroy(c);
}

/* Loads see what was there before, also where a later store of the same element comes before a use of the load. */
TEST(in_place) {
  for (sn_dim n = 1; n < 600; n += 131) {
    region_case *c = region_case_create();
    uint32_t x = numbered(c, SN_F32, n), same = region_value_at(c, x),
             y = region_value(c, SN_F32, n, NULL);
    const sn_dim one = 1;
    reg a = region_load(c, x, 0, 1, &one);
    reg b = region_store(c, same, region_alu(c, ALU_add, SN_F32, a, a, 0), 0, 1, &one);
    region_store(c, y, region_alu(c, ALU_sub, SN_F32, b, a, 0), 0, 1, &one);
    CHECK(region_case_run(c, 1, &n) == SN_OK);
    region_case_check(c, 0);
    region_case_destroy(c);
  }
}

static void check_require(double worst, bool fails) {
  region_case *c = region_case_create();
  double values[500] = {0};
  values[333] = worst;
  uint32_t x = region_value(c, SN_I32, 500, values);
  reg a = region_load(c, x, 0, 1, (sn_dim[]){1});
  reg holds = region_alu(c, ALU_lt, SN_BOOL, a, region_number(c, SN_I32, 10), 0);
  region_emit(c, (instr){.op = REGION_REQUIRE, .dtype = SN_BOOL, .a = holds, .b = a, .index = 4});
  CHECK(region_case_run(c, 1, (sn_dim[]){500}) == SN_OK);
  CHECK(c->run.failed == fails);
  if (fails) {
    CHECK_EQ_INT(c->run.site, 4);
    CHECK_EQ_INT(c->run.shown, (int)worst);
  }
  region_case_destroy(c);
}
TEST(require) {
  check_require(9, false);
  check_require(10, true);
}

TEST(no_points_touch_nothing) {
  region_case *c = region_case_create();
  uint32_t x = region_value(c, SN_F32, 0, NULL), y = region_value(c, SN_F32, 0, NULL);
  reg a = region_load(c, x, 0, 1, (sn_dim[]){1});
  region_store(c, y, region_alu(c, ALU_exp, SN_F32, a, 0, 0), 0, 1, (sn_dim[]){1});
  CHECK(region_case_run(c, 2, (sn_dim[]){region_size(c, 2, 0), 7}) == SN_OK);
  region_case_destroy(c);
}

TEST(a_scalar_has_one_point) {
  region_case *c = region_case_create();
  uint32_t x = numbered(c, SN_F32, 1), y = region_value(c, SN_F16, 1, NULL);
  reg a = region_load(c, x, 0, 0, NULL);
  region_store(c, y, region_alu(c, ALU_add, SN_F32, a, region_number(c, SN_F32, 0.1), 0), 0, 0,
               NULL);
  CHECK(region_case_run(c, 0, NULL) == SN_OK);
  region_case_check(c, 0);
  region_case_destroy(c);
}

TEST(every_f16) {
  region_case *c = region_case_create();
  uint32_t x = region_value(c, SN_F16, 65536, NULL), y = region_value(c, SN_F32, 65536, NULL);
  for (uint32_t i = 0; i < 65536; i++)
    ((uint16_t *)c->data[x])[i] = (uint16_t)i;
  reg a = region_load(c, x, 0, 1, (sn_dim[]){1});
  region_store(c, y, region_alu(c, ALU_cast, SN_F32, a, 0, 0), 0, 1, (sn_dim[]){1});
  CHECK(region_case_run(c, 1, (sn_dim[]){65536}) == SN_OK);
  for (uint32_t i = 0; i < 65536; i++)
    if (!CHECK(f32_bits(((float *)c->data[y])[i]) == f32_bits(half_to_f32((uint16_t)i))))
      break;
  region_case_destroy(c);
}

/* Stores of f32 to f16 and bf16: patterns around every boundary, and from all over. */
TEST(f32_to_halves) {
  enum { COUNT = 200000 };
  region_case *c = region_case_create();
  uint32_t x = region_value(c, SN_F32, COUNT, NULL), h = region_value(c, SN_F16, COUNT, NULL),
           b = region_value(c, SN_BF16, COUNT, NULL);
  uint32_t *bits = c->data[x];
  for (uint32_t i = 0; i < COUNT; i++)
    bits[i] =
        i % 2 ? i * 21475u : f32_bits(half_to_f32((uint16_t)(i / 2))) + i % 5 * 0x400u - 0x400u;
  reg a = region_load(c, x, 0, 1, (sn_dim[]){1});
  region_store(c, h, a, 0, 1, (sn_dim[]){1});
  region_store(c, b, a, 0, 1, (sn_dim[]){1});
  CHECK(region_case_run(c, 1, (sn_dim[]){COUNT}) == SN_OK);
  for (int i = 0; i < COUNT; i++) {
    float f = f32_from_bits(bits[i]);
    if (!CHECK_EQ_INT(((uint16_t *)c->data[h])[i], half_from_f32(f)) ||
        !CHECK_EQ_INT(((uint16_t *)c->data[b])[i], bf16_from_f32(f)))
      break;
  }
  region_case_destroy(c);
}

/* An open region and memory for it. */
typedef struct opened {
  cpu_run r;
  void *memory;
  size_t bytes;
  region_state *st;
} opened;

static bool open_region(region_case *c, int n_axes, const int64_t *extents, opened *out) {
  out->bytes = cpu_region_bytes(&c->part.code) + PROGRAM_ALIGN;
  out->memory = mem_alloc(c->ctx, out->bytes);
  size_t skip = (PROGRAM_ALIGN - (uintptr_t)out->memory % PROGRAM_ALIGN) % PROGRAM_ALIGN;
  out->r = cpu_case_alone(c->ctx, &c->program, c->sizes, c->data, (char *)out->memory + skip,
                          out->bytes - PROGRAM_ALIGN);
  return CHECK(cpu_region_open(&out->r, &c->part.code, n_axes, extents, &out->st) == SN_OK);
}

/* What does not move must still reach the lanes that a longer tile has more. */
TEST(tiles_of_growing_length) {
  region_case *c = region_case_create();
  uint32_t x = numbered(c, SN_F32, 8);
  reg a = region_load(c, x, 0, 2, (sn_dim[]){1, 0});
  region_alu(c, ALU_neg, SN_F32, a, 0, 0);
  opened o;
  if (open_region(c, 2, (int64_t[]){8, 200}, &o))
    for (int n = 1; n <= 200; n += 33) {
      tile t = {.axis = 1};
      tile_add(&t, (int64_t[REGION_AXES]){5, 0}, n);
      cpu_region_run(&o.r, o.st, &t, NULL);
      for (int i = 0; i < n; i++)
        CHECK(cpu_region_f32(o.st, 1)[i] == -(float)counted(5));
    }
  mem_free(c->ctx, o.memory, o.bytes);
  region_case_destroy(c);
}

/* What a packer does: a [k, n] panel in one tile, from x [k, n] and through a row vector that does not move. */
/* What a tile of fewer lanes computed anew has no more lanes than that. */
TEST(tiles_of_fewer_lanes) {
  static const struct {
    int64_t at;
    int n;
  } tiles[] = {{5, 200}, {6, 70}, {6, 130}, {6, 130}, {6, 40}, {6, 200}, {2, 199}, {2, 200}};
  region_case *c = region_case_create();
  uint32_t x = numbered(c, SN_F32, 8);
  reg a = region_load(c, x, 0, 2, (sn_dim[]){1, 0});
  region_alu(c, ALU_neg, SN_F32, a, 0, 0);
  opened o;
  if (open_region(c, 2, (int64_t[]){8, 200}, &o))
    for (size_t k = 0; k < COUNT_OF(tiles); k++) {
      tile t = {.axis = 1};
      tile_add(&t, (int64_t[REGION_AXES]){tiles[k].at, 0}, tiles[k].n);
      cpu_region_run(&o.r, o.st, &t, NULL);
      for (int i = 0; i < tiles[k].n; i++)
        CHECK(cpu_region_f32(o.st, 1)[i] == -(float)counted(tiles[k].at));
    }
  mem_free(c->ctx, o.memory, o.bytes);
  region_case_destroy(c);
}

TEST(tile_of_segments) {
  region_case *c = region_case_create();
  uint32_t x = numbered(c, SN_BF16, 20 * 50), scale = numbered(c, SN_F32, 50);
  reg a = region_load(c, x, 0, 2, (sn_dim[]){50, 1}),
      s = region_load(c, scale, 0, 2, (sn_dim[]){0, 1});
  reg cast = region_alu(c, ALU_cast, SN_F32, a, 0, 0);
  region_alu(c, ALU_mul, SN_F32, cast, s, 0);
  opened o;
  REQUIRE(open_region(c, 2, (int64_t[]){20, 50}, &o));
  for (int n0 = 0; n0 + 16 <= 50; n0 += 16) {
    tile t = {.axis = 1};
    for (int k = 0; k < 16; k++)
      tile_add(&t, (int64_t[REGION_AXES]){k + 2, n0}, 16);
    cpu_region_run(&o.r, o.st, &t, NULL);
    const float *lanes = cpu_region_f32(o.st, c->part.code.n - 1);
    for (int i = 0; i < 256; i++)
      CHECK(lanes[i] == (float)(c->expected[x][(i / 16 + 2) * 50 + n0 + i % 16] *
                                c->expected[scale][n0 + i % 16]));
  }
  mem_free(c->ctx, o.memory, o.bytes);
  region_case_destroy(c);
}
