/* Convolutions from images in shared memory (emit_matmul_window.h): on the interpreter of SPIR-V against the reference, with
 * and without pieces of k, forward and as gradients; which parts go this way, and their grids. */
#include "device/vulkan/emit_matmul_rewrite.h"
#include "device/vulkan/emit_matmul_window.h"
#include "ops/table.h"
#include "support/case.h"
#include "support/plan_run.h"
#include "support/test.h"
#include "support/vm_case.h"

#include <math.h>
#include <stdlib.h>

#define SAME " stride=[1, 1] pad_before=[1, 1] pad_after=[1, 1] dilation=[1, 1] groups=1"

static const char *const cases[] = {
    "conv(f32[2, 32, 5, 6], f32[32, 32, 3, 3], none)" SAME,
    "conv(f32[1, 16, 9, 17], f32[36, 16, 3, 3], none)" SAME,
    "conv(f32[1, 96, 4, 4], f32[32, 96, 3, 3], none)" SAME, /* pieces of k */
    "conv(f32[1, 32, 7, 5], f32[32, 32, 2, 3], none) stride=[1, 1] pad_before=[0, 2] pad_after=[1, "
    "0] dilation=[1, 1] groups=1",
    "conv(f32[2, 16, 8, 8], f32[32, 16, 3, 2], none) stride=[1, 1] pad_before=[2, 0] pad_after=[2, "
    "1] dilation=[2, 1] groups=1",
    "conv_grad_input(f32[2, 32, 6, 5], f32[32, 32, 3, 3]) size=[6, 5]" SAME,
    "conv_grad_input(f32[2, 32, 4, 4], f32[32, 32, 3, 3]) size=[8, 8] stride=[2, 2] pad_before=[1, "
    "1] pad_after=[1, 1] dilation=[1, 1] groups=1",
    "conv_grad_input(f32[1, 16, 4, 3], f32[16, 32, 3, 3]) size=[7, 6] stride=[2, 2] pad_before=[1, "
    "1] pad_after=[1, 1] dilation=[1, 1] groups=1",
};

TEST_WALK(cases) {
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    for (int p = SN_PRECISION_FAST; p <= SN_PRECISION_HALF; p++) {
      if (!test_begin("%zu %s", i, p == SN_PRECISION_FAST ? "fast" : "half"))
        continue;
      vm_case(cases[i], &(vm_check_options){.precision = (sn_precision)p}, NULL);
      test_end();
    }
}

/* Numbers from 0 to 1, and one infinity among the pixels, or a few numbers that are too large for an f16. */
static double some_number(void *user, const char *name, sn_dtype dtype, int64_t i) {
  (void)dtype;
  uint32_t x = (uint32_t)i * 2654435761u;
  double small = (double)(x >> 8) * 0x1p-24;
  bool image = strcmp(name, "in0") == 0;
  if (user)
    return image && i == 77 ? INFINITY : small;
  return image && i % 50 == 7 ? small * 1e20 : image ? small * 1e-10 : small;
}

static void check_numbers(void *user) {
  sn_ctx *ctx;
  op_test_case c;
  sn_graph *g = NULL;
  sn_value first;
  char why[1000];
  plan_numbers n = {.fill = some_number, .user = user};
  vm_check_options o = {.precision = SN_PRECISION_FAST};
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(case_load(ctx, op_table_get(), cases[0], &c) == SN_OK)) {
    if (CHECK(case_graph(&c, &g, &first) == SN_OK) &&
        vm_check(g, &n, 1, &o, NULL, why, sizeof why) != PLAN_RIGHT)
      FAIL("%s", why);
    sn_graph_destroy(g);
    case_free(&c);
  }
  sn_ctx_destroy(ctx);
}

TEST(an_infinity) { check_numbers(&(int){0}); }
TEST(large_numbers) { check_numbers(NULL); }

/* --- which parts --- */

/* How many parts of a case go this way; the last one's numbers. */
static int windows_of(const char *line, sn_precision precision, conv_window *out) {
  op_test_case c;
  sn_ctx *ctx;
  sn_graph *g = NULL;
  sn_value first;
  compiled made;
  arena memory;
  int n = 0;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK) ||
      !CHECK(case_load(ctx, op_table_get(), line, &c) == SN_OK))
    return -1;
  if (CHECK(case_graph(&c, &g, &first) == SN_OK) &&
      CHECK(compile_graph(g, &(compile_options){0}, &made) == SN_OK)) {
    arena_init(&memory, ctx);
    gpu_target target = vm_target(32);
    target.f16 = target.bf16 = true;
    for (int i = 0; i < 3; i++)
      target.matrix[i] = 16;
    emitter *e = calloc(1, sizeof *e);
    if (!e)
      abort();
    e->env = (emit_env){.ctx = ctx,
                        .memory = &memory,
                        .program = made.program,
                        .target = &target,
                        .precision = precision};
    for (int i = 0; i < program_steps(made.program); i++) {
      const step *s = &made.program->steps[i];
      if (s->kind != STEP_MATMUL || !CHECK(matmul_rewrite(&e->env, s, &s) == SN_OK))
        continue;
      e->step = s;
      for (int k = 0; k < s->n_parts; k++)
        if (window_fits(e, &s->parts[k].u.matmul))
          n += window_find(e, &s->parts[k].u.matmul, out);
    }
    free(e);
    arena_clear(&memory);
    compile_destroy(&made);
  }
  sn_graph_destroy(g);
  case_free(&c);
  sn_ctx_destroy(ctx);
  return n;
}

TEST(parts_that_go_this_way) {
  conv_window w;
  if (CHECK_EQ_INT(windows_of(cases[0], SN_PRECISION_FAST, &w), 1)) {
    /* one empty column behind the rows, one empty row behind the images */
    CHECK(w.grid[0] == 2 && w.grid[1] == 6 && w.grid[2] == 7);
    CHECK_EQ_INT(w.lowest, -8);
    CHECK_EQ_INT(window_shift(&w, 4), 8);
    CHECK_EQ_INT(window_shift(&w, 8), 16);
    CHECK_EQ_INT(w.rows, 192);
  }
  CHECK_EQ_INT(windows_of(cases[0], SN_PRECISION_EXACT, &w), 0);
  CHECK_EQ_INT(windows_of(cases[5], SN_PRECISION_FAST, &w), 1); /* a gradient, from its end */
  CHECK(w.axis[0].step == 1 && w.axis[1].step == 1 && w.lowest == -7);
  CHECK_EQ_INT(windows_of(cases[6], SN_PRECISION_FAST, &w), 0); /* phases are parts of one step */
  CHECK_EQ_INT(windows_of("conv(f32[2, 32, 5, 6], f32[32, 32, 1, 1], none) stride=[1, 1] "
                          "pad_before=[0, 0] pad_after=[0, 0] dilation=[1, 1] groups=1",
                          SN_PRECISION_FAST, &w),
               0);
  CHECK_EQ_INT(windows_of("conv(f32[2, 32, 9, 9], f32[32, 32, 3, 3], none) stride=[2, 2] "
                          "pad_before=[1, 1] pad_after=[1, 1] dilation=[1, 1] groups=1",
                          SN_PRECISION_FAST, &w),
               0);
}
