/* Values stored as pairs of halves (emit_pairs.h): which ones are, and that numbers come back from them. That kernels which read
 * and write them agree, is seen here for few networks, and by test_channels_last.c and test_kernels.c for others. */
#include "base/half.h"
#include "compile/compile.h"
#include "device/vulkan/emit_pairs.h"
#include "support/test.h"
#include "support/vm_program.h"
#include "support/vm_step.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- numbers --- */

enum { X = 1, WORDS, BACK, VALUES, N = 16 };

static const float numbers[N] = {0,        -0.0f,     1,          -1.0f / 3,  3.14159274f, -1e-30f,
                                 1e-5f,    65504,     123456.79f, -3.3e38f,   FLT_MAX,     -FLT_MAX,
                                 INFINITY, -INFINITY, NAN,        0.99999994f};

/* Each thread has a four: to words and back. */
static sn_status emit_there_and_back(emitter *e, const part *p, void *user) {
  (void)p;
  e->env.pairs = user;
  kernel *k = emit_open(e, N / 4);
  if (!k)
    return SN_ERR_NO_MEMORY;
  val from = k_load(k, spirv_vector(&k->s, k->s.f32, 4), k_address(k, X), k->local), x[4], w[4];
  for (int i = 0; i < 4; i++)
    x[i] = k_part(k, from, i);
  pairs_words(k, x, w);
  val first = k_shl(k, k->local, 2);
  k_store(k, k_address_for(k, WORDS, USE_STORE), k->local, k_vector(k, 4, w));
  k_barrier(k);
  for (int i = 0; i < 4; i++) {
    val at = k_add(k, first, k_index(k, i));
    k_store(k, k_address(k, BACK), at, pairs_load(k, WORDS, at));
  }
  static const sn_dim one = 1;
  kernel_grid(k, 1, &(amount){1, 1, &one});
  return emit_launch(e, false);
}

static bool comes_back(float x, float y) {
  if (isnan(x) || isinf(x))
    return isnan(x) ? isnan(y) : x == y;
  bool large = fabsf(x) > 3.38e38f; /* what would be rounded to an infinity is cut off */
  return fabs((double)y - x) <= fabs((double)x) * (large ? 0x1p-15 : 0x1p-16);
}

TEST(numbers_come_back) {
  float x[N], words[N], back[N];
  void *const at[VALUES] = {NULL, x, words, back};
  program_value values[VALUES];
  sn_ctx *ctx;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  memset(values, 0, sizeof values);
  for (int v = 1; v < VALUES; v++)
    values[v] = (program_value){.type = {.dtype = SN_F32}, .count = N, .bytes = 4 * N};
  memcpy(x, numbers, sizeof x);
  unsigned char pairs[VALUES] = {[WORDS] = 1};
  x[N - 1] = f32_from_bits(0x7fffffff); /* as NVIDIA's GPUs make NaN */
  program p = {.values = values, .n_values = VALUES};
  part parts[1] = {{.u.loop = {.n_axes = 0}}};
  vm_step s = {.ctx = ctx,
               .program = &p,
               .addresses = at,
               .target = vm_step_target(8),
               .emit = emit_there_and_back,
               .user = pairs};
  if (!vm_step_run(&s, &(step){.kind = STEP_POINTWISE, .n_parts = 1, .parts = parts}))
    FAIL("%s", s.finding);
  for (int i = 0; i < N; i++)
    if (!comes_back(x[i], back[i]))
      FAIL("%g became %g", (double)x[i], (double)back[i]);
  sn_ctx_destroy(ctx);
}

/* --- which values --- */

/* What the device would do with a graph. */
typedef struct chosen {
  compiled c;
  arena memory;
  emit_env env;
  gpu_target target;
  struct kept_table kept;
  int n; /* values that are stored as pairs */
} chosen;

static bool choose(chosen *x, sn_ctx *ctx, sn_graph *g, sn_precision precision, bool wide) {
  *x = (chosen){.target = vm_step_target(132)};
  if (!g || !CHECK(compile_graph(g, &(compile_options){0}, &x->c) == SN_OK))
    return false;
  arena_init(&x->memory, ctx);
  x->target.bf16 = x->target.places = x->target.bf16_places = true;
  for (int i = 0; i < 3; i++)
    x->target.matrix[i] = 16;
  x->env = (emit_env){.ctx = ctx,
                      .memory = &x->memory,
                      .program = x->c.program,
                      .target = &x->target,
                      .wide = wide,
                      .precision = precision,
                      .kept = &x->kept};
  CHECK(pairs_choose(&x->env) == SN_OK);
  CHECK_EQ_INT(x->kept.bytes, 0);
  for (uint32_t v = 1; v < x->c.program->n_values; v++)
    x->n += is_paired(&x->env, v);
  return true;
}

static void forget(chosen *x) {
  arena_clear(&x->memory);
  compile_destroy(&x->c);
}

enum { ROWS = 64, WIDTH = 64 };

/* Two matmuls with a relu between them. */
static sn_graph *build(sn_ctx *ctx, int rows, int width, sn_value *out_hidden) {
  sn_graph *g;
  if (!CHECK(sn_graph_create(ctx, &g) == SN_OK))
    return NULL;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(rows, WIDTH));
  sn_value a = sn_state(g, "a", SN_F32, SN_SHAPE(WIDTH, width), SN_INIT_NORMAL, 0.1);
  sn_value b = sn_state(g, "b", SN_F32, SN_SHAPE(width, WIDTH), SN_INIT_NORMAL, 0.1);
  *out_hidden = sn_relu(g, sn_matmul(g, x, a, false, false));
  sn_output(g, "y", sn_matmul(g, *out_hidden, b, false, false));
  return g;
}

/* The hidden value is read along k by one matmul, across by another: one loads neighbours of k, the other those of its points. */
static sn_graph *build_across(sn_ctx *ctx, int rows, int width) {
  sn_value hidden;
  sn_graph *g = build(ctx, rows, width, &hidden);
  if (g) {
    sn_value z = sn_input(g, "z", SN_F32, SN_SHAPE(rows, WIDTH));
    sn_output(g, "across", sn_matmul(g, hidden, z, true, false));
  }
  return g;
}

static int count_pairs(sn_ctx *ctx, sn_graph *g, sn_precision precision) {
  chosen x;
  if (!choose(&x, ctx, g, precision, false))
    return -1;
  forget(&x);
  return x.n;
}

static void check_right(const sn_graph *g, const vm_check_options *o, const plan_numbers *n) {
  char why[1000];
  if (vm_check(g, n, 1, o, NULL, why, sizeof why) != PLAN_RIGHT)
    FAIL("%s", why);
}

static const vm_check_options fast = {.precision = SN_PRECISION_FAST, .bf16 = true};

TEST(operands_alone_are_pairs) {
  sn_ctx *ctx;
  sn_value hidden;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  sn_graph *once = build(ctx, ROWS, WIDTH, &hidden), *twice = build(ctx, ROWS, WIDTH, &hidden);
  if (once && twice) {
    sn_output(twice, "sum", sn_sum(twice, hidden, SN_INTS(-1), false));
    CHECK_EQ_INT(count_pairs(ctx, once, SN_PRECISION_FAST), 1);
    CHECK_EQ_INT(count_pairs(ctx, once, SN_PRECISION_EXACT), 0);
    CHECK_EQ_INT(count_pairs(ctx, once, SN_PRECISION_HALF), 0);
    CHECK_EQ_INT(count_pairs(ctx, twice, SN_PRECISION_FAST), 0);
    check_right(once, &fast, &(plan_numbers){0});
  }
  sn_graph_destroy(twice);
  sn_graph_destroy(once);
  sn_ctx_destroy(ctx);
}

TEST(operands_across_are_pairs) {
  static const int sizes[][2] = {{64, 64}, {33, 40}, {70, 96}};
  sn_ctx *ctx;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  for (size_t i = 0; i < COUNT_OF(sizes); i++)
    for (int wide = 0; wide < 2; wide++) {
      sn_graph *g = build_across(ctx, sizes[i][0], sizes[i][1]);
      vm_check_options o = fast;
      o.wide = wide;
      if (!g)
        continue;
      CHECK_EQ_INT(count_pairs(ctx, g, SN_PRECISION_FAST), 1);
      check_right(g, &o, &(plan_numbers){0});
      sn_graph_destroy(g);
    }
  sn_ctx_destroy(ctx);
}

TEST(programs_agree_on_pairs) {
  static const int sizes[][2] = {{33, 32}, {33, 40}, {50, 96}, {70, 64}};
  sn_ctx *ctx;
  sn_value hidden;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  for (size_t i = 0; i < COUNT_OF(sizes); i++)
    for (int wide = 0; wide < 2; wide++) {
      sn_graph *g = build(ctx, sizes[i][0], sizes[i][1], &hidden);
      CHECK_EQ_INT(count_pairs(ctx, g, SN_PRECISION_FAST), 1);
      vm_check_options o = fast;
      o.wide = wide;
      check_right(g, &o, &(plan_numbers){0});
      sn_graph_destroy(g);
    }
  sn_ctx_destroy(ctx);
}

/* One infinity in the hidden value: sums with it are made again from single elements, and have the signs of b. */
static double with_infinity(void *user, const char *name, sn_dtype dtype, int64_t i) {
  (void)user;
  if (name[0] == 'x' && i / WIDTH == 21 && i % WIDTH == 3)
    return INFINITY;
  if (name[0] == 'a' && i / WIDTH == 3)
    return i % WIDTH == 37 ? 1 : -1;
  return plan_number(&(plan_numbers){0}, name, dtype, i);
}

TEST(single_elements_are_found) {
  sn_ctx *ctx;
  sn_value hidden;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  for (int across = 0; across < 2; across++) {
    sn_graph *g = across ? build_across(ctx, ROWS, WIDTH) : build(ctx, ROWS, WIDTH, &hidden);
    if (g)
      check_right(g, &fast, &(plan_numbers){.fill = with_infinity});
    sn_graph_destroy(g);
  }
  sn_ctx_destroy(ctx);
}

/* A hidden value in place of what is added to it: nobody may store where another has not read yet. */
TEST(in_place_of_what_is_added) {
  sn_ctx *ctx;
  sn_graph *g;
  chosen c;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  if (CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
    sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(ROWS, WIDTH));
    sn_value a = sn_state(g, "a", SN_F32, SN_SHAPE(WIDTH, WIDTH), SN_INIT_NORMAL, 0.1);
    sn_value b = sn_state(g, "b", SN_F32, SN_SHAPE(WIDTH, WIDTH), SN_INIT_NORMAL, 0.1);
    sn_value last = sn_state(g, "c", SN_F32, SN_SHAPE(WIDTH, WIDTH), SN_INIT_NORMAL, 0.1);
    sn_value added = sn_softmax(g, x, -1);
    sn_value first =
        sn_matmul(g, sn_relu(g, sn_matmul(g, added, a, false, false)), b, false, false);
    sn_value sum = sn_relu(g, sn_add(g, first, added));
    sn_output(g, "y", sn_matmul(g, sum, last, false, false));
    if (choose(&c, ctx, g, SN_PRECISION_FAST, false)) {
      int in_place = 0;
      for (uint32_t v = 1; v < c.c.program->n_values; v++)
        in_place += is_paired(&c.env, v) && c.c.program->values[v].in_place_of;
      CHECK_EQ_INT(in_place, 1);
      forget(&c);
      check_right(g, &fast, &(plan_numbers){0});
    }
    sn_graph_destroy(g);
  }
  sn_ctx_destroy(ctx);
}
