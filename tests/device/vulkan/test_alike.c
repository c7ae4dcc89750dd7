/* Steps that serve for others like them (emit_alike.h): equal layers are emitted once, and whatever differs, all launches are those that
 * emitting each step makes. That the launches compute the right thing, is seen here for a network, and by test_kernels.c for random graphs;
 * test_workloads.c compares the workloads'. */
#include "compile/compile.h"
#include "device/vulkan/emit_pairs.h"
#include "support/fault.h"
#include "support/launches_same.h"
#include "support/test.h"
#include "support/vm_program.h"
#include "support/vm_step.h"

#include <stdio.h>

enum { ROWS = 64, WIDTH = 64, LAYERS = 4, MOST_STEPS = 64 };

/* What one layer, the last but where it is said, has that the others have not. */
typedef enum variant {
  NO_OTHER,
  OTHER_NUMBER,
  OTHER_WIDTH,
  OTHER_DTYPE,
  OTHER_USE,   /* what others store as pairs is read by somebody else as well */
  SAME_STATE,  /* the weights of the layer before */
  EARLY_STATE, /* the same of the second layer */
  WRITTEN_STATE,
  VARIANTS
} variant;

static sn_value weight(sn_graph *g, const char *name, int layer, sn_dtype dtype, int rows,
                       int columns) {
  char full[32];
  snprintf(full, sizeof full, "%s%d", name, layer);
  sn_value w = sn_state(g, full, dtype, SN_SHAPE(rows, columns), SN_INIT_NORMAL, 0.1);
  return dtype == SN_F32 ? w : sn_cast(g, w, SN_F32);
}

static sn_value layer(sn_graph *g, sn_value x, int i, variant v) {
  v = i == (v == EARLY_STATE ? 1 : LAYERS - 1) ? v : NO_OTHER;
  int of = v == SAME_STATE || v == EARLY_STATE ? i - 1 : i,
      width = v == OTHER_WIDTH ? 2 * WIDTH : WIDTH;
  sn_dtype dtype = v == OTHER_DTYPE ? SN_F16 : SN_F32;
  sn_value a = weight(g, "a", of, dtype, WIDTH, width), b = weight(g, "b", of, dtype, width, WIDTH);
  sn_value mean = sn_mean(g, sn_mul(g, x, x), SN_INTS(-1), true);
  sn_value scale = sn_rsqrt(g, sn_affine(g, mean, 1, v == OTHER_NUMBER ? 0.5 : 0.25));
  sn_value hidden = sn_relu(g, sn_matmul(g, sn_mul(g, x, scale), a, false, false));
  if (v == OTHER_USE)
    sn_output(g, "used", sn_sum(g, hidden, SN_INTS(-1), false));
  if (v == WRITTEN_STATE)
    sn_assign(g, a, sn_affine(g, a, 0.5, 0));
  return sn_add(g, x, sn_matmul(g, hidden, b, false, false));
}

static sn_graph *build(sn_ctx *ctx, variant v) {
  sn_graph *g;
  if (!CHECK(sn_graph_create(ctx, &g) == SN_OK))
    return NULL;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(ROWS, WIDTH));
  for (int i = 0; i < LAYERS; i++)
    x = layer(g, x, i, v);
  sn_output(g, "y", x);
  return g;
}

static gpu_target target(void) {
  gpu_target t = vm_step_target(132);
  t.bf16 = t.places = t.bf16_places = true;
  for (int i = 0; i < 3; i++)
    t.matrix[i] = 16;
  return t;
}

/* How many steps others served for; -1: launches are not the same. */
static int compare(sn_ctx *ctx, const program *p, sn_precision precision) {
  step_launches made[2][MOST_STEPS];
  gpu_target t = target();
  emit_env env[2] = {{.target = &t, .precision = precision},
                     {.target = &t, .precision = precision}};
  int reused = 0, n = program_steps(p);
  bool same = CHECK(n <= MOST_STEPS);
  arena memory;
  arena_init(&memory, ctx);
  for (int alike = 0; alike < 2 && same; alike++)
    same = launches_emit(&env[alike], ctx, &memory, p, alike, made[alike], &reused) == SN_OK ||
           FAIL("%s", sn_ctx_message(ctx));
  for (int i = 0; i < n && same; i++)
    same = launches_same(&made[0][i], &made[1][i]) || FAIL("step %d of %d differs", i, n);
  for (uint32_t v = 1; v < p->n_values && same; v++)
    same = CHECK(is_paired(&env[0], v) == is_paired(&env[1], v));
  same = same && CHECK_EQ_INT(env[0].shaders->n, env[1].shaders->n) &&
         CHECK_EQ_INT(env[0].kept->bytes, env[1].kept->bytes);
  arena_clear(&memory);
  return same ? reused : -1;
}

static int compare_variant(sn_ctx *ctx, variant v, sn_precision precision) {
  sn_graph *g = build(ctx, v);
  compiled c;
  int reused = -1;
  if (g && CHECK(compile_graph(g, &(compile_options){0}, &c) == SN_OK)) {
    reused = compare(ctx, c.program, precision);
    compile_destroy(&c);
  }
  sn_graph_destroy(g);
  return reused;
}

/* Layers are three steps each. Two of the first read an input, the last step makes an output, and the two steps of the second that read the
 * first's result are the first of their kind. Weights are packed, and values are pairs, with `fast` alone. */
TEST(launches_are_the_same) {
  static const struct {
    int exact, fast;
  } reused[VARIANTS] = {[NO_OTHER] = {6, 6},    [OTHER_NUMBER] = {5, 5}, [OTHER_WIDTH] = {5, 5},
                        [OTHER_DTYPE] = {5, 5}, [OTHER_USE] = {6, 5},    [SAME_STATE] = {6, 5},
                        [EARLY_STATE] = {6, 4}, [WRITTEN_STATE] = {5, 5}};
  sn_ctx *ctx;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  for (int v = 0; v < VARIANTS; v++) {
    CHECK_EQ_INT(compare_variant(ctx, (variant)v, SN_PRECISION_EXACT), reused[v].exact);
    CHECK_EQ_INT(compare_variant(ctx, (variant)v, SN_PRECISION_FAST), reused[v].fast);
  }
  sn_ctx_destroy(ctx);
}

TEST(without_memory_it_fails) {
  step_launches made[MOST_STEPS];
  gpu_target t = target();
  fault_heap heap = {.fail_at = 0};
  sn_ctx *own;
  compiled c;
  if (!CHECK(sn_ctx_create(NULL, &own) == SN_OK))
    return;
  sn_graph *g = build(own, NO_OTHER);
  if (!g || !CHECK(compile_graph(g, &(compile_options){0}, &c) == SN_OK))
    return;
  REQUIRE(program_steps(c.program) <= MOST_STEPS);
  sn_status status;
  do {
    emit_env env = {.target = &t, .precision = SN_PRECISION_FAST};
    arena memory;
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    status = SN_ERR_NO_MEMORY;
    if (ctx) {
      arena_init(&memory, ctx);
      status = launches_emit(&env, ctx, &memory, c.program, true, made, NULL);
      arena_clear(&memory);
    }
    if (status != (heap.failed ? SN_ERR_NO_MEMORY : SN_OK))
      FAIL("allocation %lld: status %d", (long long)heap.fail_at, (int)status);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
  compile_destroy(&c);
  sn_graph_destroy(g);
  sn_ctx_destroy(own);
}

TEST(results_are_right) {
  sn_ctx *ctx;
  char why[1000];
  int64_t none = 0;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  for (int v = 0; v < VARIANTS; v++) {
    sn_graph *g = build(ctx, (variant)v);
    plan_numbers bindings = {.bindings = &none};
    vm_check_options o = {.precision = SN_PRECISION_FAST};
    if (g && vm_check(g, &bindings, 1, &o, NULL, why, sizeof why) != PLAN_RIGHT)
      FAIL("variant %d: %s", v, why);
    sn_graph_destroy(g);
  }
  sn_ctx_destroy(ctx);
}
