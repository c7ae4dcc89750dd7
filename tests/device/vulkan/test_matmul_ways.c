/* What the Vulkan device sees in operands (whether neighbours lie along k or along the rows, four of them at a
 * time), which way it chooses for which extents, numbers of rows that only a run knows, parts that become one
 * launch, and how exact sums are. */
#include "device/vulkan/emit_matmul.h"
#include "support/test.h"
#include "support/vm_step.h"

#include <math.h>
#include <stdlib.h>

enum { A = 1, B = 2, C = 3, VALUES = 12 };

/* Parts c = a b of plain matrices, rows m by k and n by k, all of one step. */
typedef struct world {
  sn_ctx *ctx;
  program *p;
  program_value values[VALUES];
  float *numbers[VALUES];
  int n_parts;
  part parts[3];
  matmul_product products[3];
  matmul_acc accs[3];
  term terms[3][6];
  instr code[3][4];
} world;

static void open_world(world *w) {
  *w = (world){0};
  REQUIRE(sn_ctx_create(NULL, &w->ctx) == SN_OK);
  REQUIRE(program_create(w->ctx, &w->p) == SN_OK);
  w->p->values = w->values;
  w->p->n_values = 1;
}

static void close_world(world *w) {
  for (int i = 0; i < VALUES; i++)
    free(w->numbers[i]);
  w->p->values = NULL;
  program_destroy(w->p);
  sn_ctx_destroy(w->ctx);
}

/* `room`: elements of memory; count: a size, which may be known only at the run. */
static uint32_t add_value(world *w, sn_dim count, int64_t room) {
  uint32_t v = w->p->n_values++, state = 77 + v;
  w->values[v] = (program_value){.type = {.dtype = SN_F32}, .count = count, .bytes = 4 * room};
  w->numbers[v] = malloc(4 * (size_t)room + 4);
  if (!w->numbers[v])
    abort();
  for (int64_t i = 0; i < room; i++) {
    state = state * 1664525u + 1013904223u;
    w->numbers[v][i] = (float)(state >> 8) * 0x1p-23f - 1;
  }
  return v;
}

static sn_dim product_of(world *w, sn_dim a, sn_dim b) {
  return dim_is_number(a) && dim_is_number(b) ? a * b : sn_dim_mul(w->p->dims, a, b);
}

/* At most `most` rows; 0: without memory, for who only looks. */
static void add_part(world *w, sn_dim m, int64_t most, int64_t n, int64_t k) {
  int i = w->n_parts++;
  instr *code = w->code[i];
  term *t = w->terms[i];
  uint32_t a = i == 0 ? add_value(w, product_of(w, m, k), most * k) : A;
  uint32_t b = add_value(w, n * k, most ? n * k : 0),
           c = add_value(w, product_of(w, m, n), most * n);
  t[0] = (term){.axis = 0, .stride = k, .div = 1};
  t[1] = t[3] = (term){.axis = 2, .stride = 1, .div = 1};
  t[2] = (term){.axis = 1, .stride = k, .div = 1};
  t[4] = (term){.axis = 0, .stride = n, .div = 1};
  t[5] = (term){.axis = 1, .stride = 1, .div = 1};
  code[0] = (instr){.op = REGION_LOAD, .at = {.value = a, .n_terms = 2, .terms = t}};
  code[1] = (instr){.op = REGION_LOAD, .at = {.value = b, .n_terms = 2, .terms = t + 2}};
  code[2] = (instr){.op = REGION_ACC};
  code[3] = (instr){.op = REGION_STORE, .at = {.value = c, .n_terms = 2, .terms = t + 4}};
  for (int j = 0; j < 4; j++)
    code[j].dtype = SN_F32;
  w->products[i] = (matmul_product){.n_k = 1, .k = {k}, .a = {1, code}, .b = {1, code + 1}};
  w->accs[i] = (matmul_acc){1, &w->products[i]};
  w->parts[i].u.matmul = (matmul_part){.n_m = 1,
                                       .n_n = 1,
                                       .extent = {m, n},
                                       .n_accs = 1,
                                       .accs = &w->accs[i],
                                       .epilogue = {2, code + 2}};
}

/* The largest error of a part's results, as a share of the largest result. */
static double error_of(const world *w, int i, int64_t m) {
  const matmul_part *p = &w->parts[i].u.matmul;
  const float *a = w->numbers[A], *b = w->numbers[w->code[i][1].at.value],
              *c = w->numbers[w->code[i][3].at.value];
  int64_t n = p->extent[1], k = w->products[i].k[0];
  double worst = 0, largest = 1e-30;
  for (int64_t x = 0; x < m; x++)
    for (int64_t y = 0; y < n; y++) {
      double sum = 0;
      for (int64_t z = 0; z < k; z++)
        sum += (double)a[x * k + z] * b[y * k + z];
      worst = fmax(worst, fabs(sum - c[x * n + y]));
      largest = fmax(largest, fabs(sum));
    }
  return worst / largest;
}

static gpu_target with_matrices(int units) {
  gpu_target t = vm_step_target(units);
  t.f16 = t.bf16 = t.places = t.bf16_places = true;
  for (int i = 0; i < 3; i++)
    t.matrix[i] = 16;
  return t;
}

static bool run_step(world *w, vm_step *v) {
  step s = {.kind = STEP_MATMUL, .n_parts = w->n_parts, .parts = w->parts};
  v->ctx = w->ctx;
  v->program = w->p;
  v->addresses = (void *const *)w->numbers;
  if (v->target.subgroup == 0)
    v->target = with_matrices(132);
  bool ok = vm_step_run(v, &s);
  if (!ok)
    FAIL("%s", v->finding);
  return ok;
}

/* --- sums --- */

static sn_status emit_way(emitter *e, const part *p, void *user) {
  return emit_matmul_as(e, &p->u.matmul, user, NULL, 0, 0);
}

static double error_in(matmul_way way, int64_t k) {
  world w;
  open_world(&w);
  add_part(&w, 9, 9, 11, k);
  vm_step v = {.emit = emit_way, .user = &way};
  double error = run_step(&w, &v) ? error_of(&w, 0, 9) : 1;
  close_world(&w);
  return error;
}

/* Sums of chunks: less than what one chain of 2,000 sums of f32 loses. Halves: 8 bits, or 16 with what the first
 * leaves, or 22 with f16. */
TEST(sums) {
  for (int i = 0; i < TILE_SHAPES; i++)
    CHECK(error_in((matmul_way){.tiles = &matmul_tiles[i], .splits = 1}, 2000) < 5e-7);
  few_shape few = {0, 8, 2, 32, 128, true};
  CHECK(error_in((matmul_way){.few = few, .splits = 1}, 2000) < 5e-7);
  matmul_way way = {.matrix = &matmul_matrices[0], .splits = 1, .half = SN_BF16};
  way.products = 3;
  CHECK(error_in(way, 200) < 8e-6);
  way.half = SN_F16;
  for (int i = 0; i < MATRIX_SHAPES; i++) {
    way.matrix = &matmul_matrices[i];
    CHECK(error_in(way, 2000) < 1e-6);
  }
  way.matrix = NULL;
  for (int i = 0; i < DIRECT_SHAPES; i++) {
    way.direct = &matmul_directs[i];
    CHECK(error_in(way, 2000) < 8e-6);
  }
  way = (matmul_way){.matrix = &matmul_matrices[0], .splits = 1, .half = SN_BF16};
  way.products = 1;
  double error = error_in(way, 200);
  CHECK(error > 1e-4 && error < 8e-3);
}

/* --- rows that a run knows --- */

/* Registers for any number of rows. */
static sn_status emit_direct_rows(emitter *e, const part *p, void *user) {
  const matmul_part *m = &p->u.matmul;
  matmul_way way = {
      .direct = &matmul_directs[DIRECT_SMALL], .splits = 1, .products = 3, .half = SN_BF16};
  amount rows = {m->n_m, 1, m->extent};
  (void)user;
  return emit_matmul_as(e, m, &way, &rows, 1, 100);
}

/* units 0: from registers. */
static void check_rows(int64_t rows, int units) {
  world w;
  int64_t sizes[64];
  open_world(&w);
  sn_graph *g = NULL;
  REQUIRE(sn_graph_create(w.ctx, &g) == SN_OK);
  sn_dim n = sn_symbol(g, "n", 100);
  (void)sn_dim_mul(g, n, 36), (void)sn_dim_mul(g, n, 20);
  REQUIRE(program_copy_dims(w.p, g) == SN_OK);
  sn_graph_destroy(g);
  add_part(&w, n, 100, 20, 36);
  REQUIRE(program_sizes(w.p) <= 64);
  REQUIRE(program_bind(w.p, w.ctx, &rows, sizes) == SN_OK);
  vm_step v = {.sizes = sizes, .target = vm_step_target(units)};
  if (units == 0) {
    v.emit = emit_direct_rows;
    v.target = with_matrices(132);
  }
  if (run_step(&w, &v)) {
    CHECK(error_of(&w, 0, rows) < (units ? 1e-6 : 8e-6));
    CHECK_EQ_INT(v.launches, rows > 0); /* one way, whatever the number */
    CHECK(v.n_shaders > (units > 0));
  }
  close_world(&w);
}

TEST(any_number_of_rows) {
  static const int64_t rows[] = {0, 1, 2, 4, 5, 8, 9, 33, 64, 65, 100};
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    check_rows(rows[i], 132);
    check_rows(rows[i], 4);
    check_rows(rows[i], 0);
  }
}

/* --- parts --- */

TEST(parts_of_one_form_are_one_launch) {
  world w;
  open_world(&w);
  add_part(&w, 20, 20, 36, 36);
  add_part(&w, 20, 20, 12, 36);
  add_part(&w, 20, 20, 72, 36);
  vm_step v = {0};
  if (run_step(&w, &v)) {
    CHECK_EQ_INT(v.launches, 1);
    CHECK_EQ_INT(v.n_shaders, 1);
    for (int i = 0; i < 3; i++)
      CHECK(error_of(&w, i, 20) < 1e-6);
  }
  close_world(&w);
}

/* Three accumulators with a in common: more than the large tiles have room for. */
/* Two of them at once, with more than a block of k. */
TEST(many_accumulators) {
  world w;
  open_world(&w);
  for (int i = 0; i < 3; i++)
    add_part(&w, 20, 20, 12, 100);
  instr code[6] = {{.op = REGION_ACC},
                   {.op = REGION_ACC, .index = 1},
                   {.op = REGION_ALU, .code = ALU_add, .a = 0, .b = 1},
                   {.op = REGION_ACC, .index = 2},
                   {.op = REGION_ALU, .code = ALU_add, .a = 2, .b = 3},
                   w.code[0][3]};
  for (int i = 0; i < 6; i++)
    code[i].dtype = SN_F32;
  code[5].a = 4;
  w.parts[0].u.matmul.n_accs = 3;
  w.parts[0].u.matmul.epilogue = (region){6, code};
  w.n_parts = 1;
  vm_step v = {0};
  if (run_step(&w, &v))
    for (int64_t i = 0; i < 20 * 12; i++) {
      double sum = 0;
      for (int a = 0; a < 3; a++)
        for (int64_t k = 0; k < 100; k++)
          sum += (double)w.numbers[A][i / 12 * 100 + k] * w.numbers[B + 2 * a][i % 12 * 100 + k];
      CHECK_NEAR(w.numbers[C][i], sum, 1e-5);
    }
  close_world(&w);
}

/* --- operands --- */

static term along(int axis, int64_t stride) {
  return (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
}

/* Operand a of a part with m [4, 14, 14], n [8] (axis 3) and k [16, 3, 3] (axes 4 to 6), or k of one axis. */
static operand read_a(int64_t base, int n, const term *terms, const check *only, int n_k, int64_t k,
                      int64_t height) {
  static program_value values[2];
  const program p = {.values = values, .n_values = 2};
  values[1] = (program_value){.type = {.dtype = SN_F32}, .count = 1 << 20};
  instr load = {.op = REGION_LOAD, .dtype = SN_F32, .at = {1, base, n, 0, terms, only}};
  load.at.n_checks = only != NULL;
  matmul_product product = {.n_k = n_k, .k = {k, 3, 3}, .a = {1, &load}};
  matmul_acc acc = {1, &product};
  matmul_part m = {.n_m = 3, .n_n = 1, .extent = {4, height, height, 8}, .n_accs = 1, .accs = &acc};
  emitter *e = calloc(1, sizeof *e);
  operand o;
  if (!e)
    abort();
  e->env.program = &p;
  vk_operand_read(e, &m, &product, 0, &o);
  free(e);
  return o;
}

TEST(operands) {
  /* pixels next to each other: 14 by 14 is a multiple of 4, though 14 is not; 7 by 7 is none */
  term pixels[] = {along(0, 3136), along(1, 14), along(2, 1), along(4, 196)};
  operand o = read_a(0, 4, pixels, NULL, 1, 16, 14);
  CHECK(o.plain && !o.along_k && o.width == 4);
  CHECK_EQ_INT(read_a(2, 4, pixels, NULL, 1, 16, 14).width, 1);
  term odd[] = {along(0, 3136), along(1, 14), along(2, 1), along(4, 197)};
  CHECK_EQ_INT(read_a(0, 4, odd, NULL, 1, 16, 14).width, 1);
  term seven[] = {along(0, 784), along(1, 7), along(2, 1), along(4, 49)};
  o = read_a(0, 4, seven, NULL, 1, 16, 7);
  CHECK(o.plain && !o.along_k && o.width == 1);
  /* k next to each other, cut at 8 or at 6 */
  term heads[] = {along(0, 64), along(4, 1), along(4, 1024)};
  heads[1].mod = heads[2].div = 8;
  o = read_a(0, 3, heads, NULL, 1, 16, 14);
  CHECK(o.plain && o.along_k && o.width == 4);
  heads[1].mod = heads[2].div = 6;
  CHECK_EQ_INT(read_a(0, 3, heads, NULL, 1, 12, 14).width, 1);
  /* windows: a check that can fail stays, and no four are read at once where it counts along them */
  term window[] = {along(0, 3136), along(1, 14), along(2, 1),
                   along(4, 196),  along(5, 14), along(6, 1)};
  term inner[] = {along(2, 1), along(6, 1)};
  check c = {2, inner, -1, 14, 1};
  o = read_a(-15, 6, window, &c, 3, 16, 14);
  CHECK(o.plain && !o.along_k && o.width == 1 && o.n_checks == 1);
  /* one that cannot is gone */
  check sure = {1, inner, 0, 14, 1};
  o = read_a(0, 4, pixels, &sure, 1, 16, 14);
  CHECK(o.plain && o.n_checks == 0 && o.width == 4);
}

/* --- ways --- */

static matmul_way choose_way(const world *w, sn_precision precision) {
  gpu_target target = with_matrices(132);
  step s = {.kind = STEP_MATMUL, .n_parts = 1, .parts = w->parts};
  emitter *e = calloc(1, sizeof *e);
  if (!e)
    abort();
  e->env = (emit_env){.program = w->p, .target = &target, .precision = precision};
  e->step = &s;
  matmul_way way = matmul_choose(e, &w->parts[0].u.matmul);
  free(e);
  return way;
}

static matmul_way way_of(int64_t m, int64_t n, int64_t k, sn_precision precision) {
  world w;
  open_world(&w);
  add_part(&w, m, 0, n, k);
  matmul_way way = choose_way(&w, precision);
  close_world(&w);
  return way;
}

TEST(ways) {
  CHECK(way_of(4096, 4096, 4096, SN_PRECISION_EXACT).tiles == &matmul_tiles[TILES_64]);
  CHECK(way_of(128, 576, 576, SN_PRECISION_EXACT).tiles == &matmul_tiles[TILES_32]);
  matmul_way deep = way_of(64, 64, 100000, SN_PRECISION_EXACT);
  CHECK(deep.tiles && deep.splits > 8);
  matmul_way one = way_of(1, 4096, 4096, SN_PRECISION_EXACT);
  CHECK(!one.tiles && !one.matrix && one.few.side == 0 && one.few.few == 1);
  matmul_way narrow = way_of(4096, 3, 4096, SN_PRECISION_EXACT);
  CHECK(!narrow.tiles && narrow.few.side == 1 && narrow.few.few == 4);
  matmul_way fast = way_of(4096, 4096, 4096, SN_PRECISION_FAST);
  CHECK(fast.direct && fast.products == 3);
  matmul_way small = way_of(128, 576, 576, SN_PRECISION_FAST);
  CHECK(small.direct == &matmul_directs[DIRECT_SMALL] && small.splits == 1);
  matmul_way half = way_of(4096, 4096, 4096, SN_PRECISION_HALF);
  CHECK(half.direct && half.products == 1 && half.half == SN_BF16);
}

/* A product among others. packed: its weights are constant; image: it reads one; paired: what it reads is stored as halves. */
typedef struct among {
  int64_t m, n, k;
  int steps, parts; /* alike */
  bool gradient, image, packed, paired;
} among;

static matmul_way way_among(const among *c) {
  world w;
  open_world(&w);
  for (int i = 0; i < c->parts; i++)
    add_part(&w, c->m, 0, c->n, c->k);
  if (c->image) {
    w.values[A].channels = c->k;
    w.values[A].pixels = c->m;
  }
  if (c->packed)
    w.values[B].home = HOME_CONSTANT;
  w.parts[0].u.matmul.gradient = c->gradient;
  gpu_target target = with_matrices(132);
  struct kept_table kept = {0};
  const unsigned char pairs[VALUES] = {[A] = c->paired};
  step *list = calloc((size_t)c->steps, sizeof *list);
  emitter *e = calloc(1, sizeof *e);
  if (!e || !list)
    abort();
  for (int i = 0; i < c->steps; i++)
    list[i] = (step){.kind = STEP_MATMUL, .n_parts = c->parts, .parts = w.parts};
  w.p->steps = list;
  w.p->n_main = c->steps;
  e->env = (emit_env){.program = w.p,
                      .target = &target,
                      .precision = SN_PRECISION_FAST,
                      .kept = &kept,
                      .pairs = pairs};
  e->step = list;
  matmul_way way = matmul_choose(e, &w.parts[0].u.matmul);
  CHECK(way.direct && way.products == 3);
  w.p->steps = NULL;
  w.p->n_main = 0;
  free(list);
  free(e);
  close_world(&w);
  return way;
}

/* The number of the shape. */
static int shape_among(among c) { return (int)(way_among(&c).direct - matmul_directs); }

TEST(packed_weights_have_shapes_of_more_subgroups) {
  among row = {868, 2048, 128, .steps = 1, .parts = 1, .packed = true};
  among column = {445, 512, 1024, .steps = 1, .parts = 1, .packed = true};
  among square = {445, 2048, 128, .steps = 1, .parts = 1, .packed = true, .paired = true};
  CHECK_EQ_INT(shape_among(row), DIRECT_ROW);
  CHECK_EQ_INT(shape_among(column), DIRECT_COLUMN);
  CHECK_EQ_INT(shape_among(square), DIRECT_SQUARE);
  square.paired = false;
  CHECK(shape_among(square) < DIRECT_ROW);
  /* Not where weights are not packed, nor beside other parts, nor of f16. */
  for (int i = 0; i < 3; i++) {
    among c = i == 0 ? row : i == 1 ? column : square, other = c;
    c.paired = other.paired = true;
    other.packed = false;
    CHECK(shape_among(other) < DIRECT_ROW);
    other = c;
    other.parts = 2;
    CHECK(shape_among(other) < DIRECT_ROW);
    other = c;
    other.image = true;
    other.steps = 110;
    CHECK_EQ_INT(way_among(&other).half, SN_F16);
    CHECK(shape_among(other) < DIRECT_ROW);
  }
}

/* The way of a gradient of weights [columns, channels, 3, 3], whose rows are channels of one place of the window. */
static matmul_way way_of_window(int64_t channels, int64_t columns, int64_t k) {
  world w;
  open_world(&w);
  add_part(&w, 9 * channels, 0, columns, k);
  term a[] = {along(0, channels), along(1, 1), along(3, 9 * channels)};
  term b[] = {along(2, 1), along(3, columns)};
  term c[] = {along(0, 1), along(1, 9), along(2, 9 * channels)};
  const term *terms[] = {a, b, NULL, c};
  for (int i = 0; i < 4; i++)
    if (terms[i]) {
      w.code[0][i].at.terms = terms[i];
      w.code[0][i].at.n_terms = i == 1 ? 2 : 3;
    }
  matmul_part *p = &w.parts[0].u.matmul;
  p->n_m = 2;
  p->extent[0] = 9;
  p->extent[1] = channels;
  p->extent[2] = columns;
  matmul_way way = choose_way(&w, SN_PRECISION_FAST);
  close_world(&w);
  return way;
}

TEST(many_results_apart_are_sorted) {
  matmul_way few = way_of_window(32, 32, 64), many = way_of_window(256, 256, 784);
  CHECK(few.direct && few.splits == 1 && !few.sorted);
  CHECK(many.direct && many.sorted);
  CHECK(!way_of(2304, 256, 784, SN_PRECISION_FAST).sorted); /* one line of memory */
}

TEST(deep_networks_have_more_bits) {
  among c = {4096, 64, 256, .steps = 43, .parts = 1, .image = true};
  CHECK_EQ_INT(way_among(&c).half, SN_BF16);
  c.steps = 110;
  CHECK_EQ_INT(way_among(&c).half, SN_F16);
  c.gradient = true;
  CHECK_EQ_INT(way_among(&c).half, SN_BF16);
}
