/* Values stored as pairs of halves (emit_pairs.h): which ones are, and that numbers come back from them. That kernels which read and write them agree,
 * is seen here for one network, and by test_channels_last.c and test_kernels.c for others. */
#include "base/half.h"
#include "compile/compile.h"
#include "device/vulkan/emit_pairs.h"
#include "support/test.h"
#include "support/vm_program.h"
#include "support/vm_step.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* --- numbers --- */

enum { X = 1, WORDS, BACK, VALUES, N = 16 };

static const float numbers[N] = {0,        -0.0f,     1,          -1.0f / 3,  3.14159274f, -1e-30f,
                                 1e-5f,    65504,     123456.79f, -3.3e38f,   FLT_MAX,     -FLT_MAX,
                                 INFINITY, -INFINITY, NAN,        0.99999994f};

/* Each thread has a four: to words and back. */
static sn_status emit_there_and_back(emitter *e, const part *p, void *user) {
  (void)p;
  (void)user;
  kernel *k = emit_open(e, N / 4);
  if (!k)
    return SN_ERR_NO_MEMORY;
  val from = k_load(k, spirv_vector(&k->s, k->s.f32, 4), k_address(k, X), k->local), x[4], w[4];
  for (int i = 0; i < 4; i++)
    x[i] = k_part(k, from, i);
  pairs_words(k, x, w);
  k_store(k, k_address(k, WORDS), k->local, k_vector(k, 4, w));
  k_barrier(k);
  val first = k_shl(k, k->local, 2);
  for (int i = 0; i < 4; i++) {
    val at = k_add(k, first, k_index(k, i));
    k_store(k, k_address(k, BACK), at, pairs_load(k, k_address(k, WORDS), at));
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
  x[N - 1] = f32_from_bits(0x7fffffff); /* as NVIDIA's GPUs make NaN */
  program p = {.values = values, .n_values = VALUES};
  part parts[1] = {{.u.loop = {.n_axes = 0}}};
  vm_step s = {.ctx = ctx,
               .program = &p,
               .addresses = at,
               .target = vm_step_target(8),
               .emit = emit_there_and_back};
  if (!vm_step_run(&s, &(step){.kind = STEP_POINTWISE, .n_parts = 1, .parts = parts}))
    FAIL("%s", s.finding);
  for (int i = 0; i < N; i++)
    if (!comes_back(x[i], back[i]))
      FAIL("%g became %g", (double)x[i], (double)back[i]);
  sn_ctx_destroy(ctx);
}

/* --- which values --- */

enum { ROWS = 64, WIDTH = 64 };

/* Two matmuls with a relu between them; twice: what is between is read by a sum, too. */
static sn_graph *build(sn_ctx *ctx, bool twice) {
  sn_graph *g;
  if (!CHECK(sn_graph_create(ctx, &g) == SN_OK))
    return NULL;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(ROWS, WIDTH));
  sn_value a = sn_state(g, "a", SN_F32, SN_SHAPE(WIDTH, WIDTH), SN_INIT_NORMAL, 0.1);
  sn_value b = sn_state(g, "b", SN_F32, SN_SHAPE(WIDTH, WIDTH), SN_INIT_NORMAL, 0.1);
  sn_value hidden = sn_relu(g, sn_matmul(g, x, a, false, false));
  sn_output(g, "y", sn_matmul(g, hidden, b, false, false));
  if (twice)
    sn_output(g, "sum", sn_sum(g, hidden, SN_INTS(-1), false));
  return g;
}

static int count_pairs(sn_ctx *ctx, sn_graph *g, sn_precision precision) {
  compiled c;
  arena memory;
  if (!CHECK(compile_graph(g, &(compile_options){0}, &c) == SN_OK))
    return -1;
  arena_init(&memory, ctx);
  gpu_target target = vm_step_target(132);
  target.bf16 = target.places = target.bf16_places = true;
  for (int i = 0; i < 3; i++)
    target.matrix[i] = 16;
  struct kept_table kept = {0};
  emit_env env = {.ctx = ctx,
                  .memory = &memory,
                  .program = c.program,
                  .target = &target,
                  .precision = precision,
                  .kept = &kept};
  int n = 0;
  if (CHECK(pairs_choose(&env) == SN_OK))
    for (uint32_t v = 1; v < c.program->n_values; v++)
      n += is_paired(&env, v);
  CHECK_EQ_INT(kept.bytes, 0);
  arena_clear(&memory);
  compile_destroy(&c);
  return n;
}

TEST(operands_alone_are_pairs) {
  sn_ctx *ctx;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  sn_graph *once = build(ctx, false), *twice = build(ctx, true);
  if (once && twice) {
    CHECK_EQ_INT(count_pairs(ctx, once, SN_PRECISION_FAST), 1);
    CHECK_EQ_INT(count_pairs(ctx, once, SN_PRECISION_EXACT), 0);
    CHECK_EQ_INT(count_pairs(ctx, once, SN_PRECISION_HALF), 0);
    CHECK_EQ_INT(count_pairs(ctx, twice, SN_PRECISION_FAST), 0);
    int64_t none = 0;
    char why[1000];
    plan_numbers bindings = {.bindings = &none};
    vm_check_options o = {.precision = SN_PRECISION_FAST};
    if (vm_check(once, &bindings, 1, &o, NULL, why, sizeof why) != PLAN_RIGHT)
      FAIL("%s", why);
  }
  sn_graph_destroy(twice);
  sn_graph_destroy(once);
  sn_ctx_destroy(ctx);
}
