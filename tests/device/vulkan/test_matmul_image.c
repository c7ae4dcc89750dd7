/* Convolutions of packed images (emit_matmul_image.h) on the interpreter of SPIR-V, beside the same parts by plain tiles: strides, gaps, windows
 * that turn around, one axis of pixels, pieces of k, infinities; and which parts these are. */
#include "device/vulkan/emit_matmul_image.h"
#include "device/vulkan/emit_matmul_rewrite.h"
#include "ops/table.h"
#include "support/case.h"
#include "support/plan_run.h"
#include "support/test.h"
#include "support/vm_step.h"

#include <math.h>
#include <stdlib.h>

#define WINDOW(stride, before, after, gaps) \
  " stride=" stride " pad_before=" before " pad_after=" after " dilation=" gaps " groups=1"
#define SAME WINDOW("[1, 1]", "[1, 1]", "[1, 1]", "[1, 1]")

static const char *const images[] = {
    "conv(f32[2, 32, 5, 6], f32[36, 32, 3, 3], none)" SAME,
    "conv(f32[1, 16, 9, 8], f32[20, 16, 3, 3], none)" WINDOW("[2, 2]", "[1, 1]", "[1, 1]",
                                                             "[1, 1]"),
    "conv(f32[2, 48, 7, 8], f32[8, 48, 3, 2], none)" WINDOW("[2, 1]", "[2, 0]", "[2, 1]", "[2, 1]"),
    "conv(f32[2, 80, 9], f32[33, 80, 3], none)" WINDOW("[2]", "[1]", "[1]", "[1]"),
    "conv_grad_input(f32[2, 32, 6, 5], f32[32, 16, 3, 3]) size=[6, 5]" SAME,
};
static const char *const others[] = {
    "conv(f32[1, 24, 5, 8], f32[36, 24, 3, 3], none)" SAME, /* channels that are no blocks */
    "conv(f32[2, 32, 4, 6], f32[36, 32, 1, 1], none)" WINDOW("[1, 1]", "[0, 0]", "[0, 0]",
                                                             "[1, 1]"),
    ("conv(f32[1, 32, 5, 6], f32[36, 16, 3, 3], none) stride=[1, 1] pad_before=[1, 1] "
     "pad_after=[1, 1] dilation=[1, 1] groups=2"),
};

/* The step of a case, and the numbers of all its values. */
typedef struct trial {
  sn_ctx *ctx;
  compiled made;
  const step *step;
  uint32_t n;
  float **numbers; /* by value */
  int found;       /* images among its parts */
} trial;

static sn_status emit_way(emitter *e, const part *p, void *user) {
  matmul_part m = p->u.matmul;
  matmul_batch_to_rows(&m);
  return emit_matmul_as(e, &m, user, NULL, 0, 0);
}

/* Counts images instead. */
static sn_status look(emitter *e, const part *p, void *user) {
  matmul_part m = p->u.matmul;
  matmul_batch_to_rows(&m);
  *(int *)user += image_fits(e, &m);
  return SN_ERR_UNSUPPORTED;
}

static vm_step machine(const trial *t) {
  vm_step v = {.ctx = t->ctx,
               .program = t->made.program,
               .addresses = (void *const *)t->numbers,
               .target = vm_step_target(132)};
  v.target.f16 = v.target.places = true;
  for (int i = 0; i < 3; i++)
    v.target.matrix[i] = 16;
  return v;
}

static void fill(trial *t, float odd) {
  const program *p = t->made.program;
  uint32_t state = 9;
  t->n = p->n_values;
  t->numbers = calloc(t->n, sizeof *t->numbers);
  for (uint32_t v = 1; t->numbers && v < t->n; v++) {
    size_t count = (size_t)p->values[v].count;
    t->numbers[v] = malloc(count * sizeof(float) + 4);
    for (size_t i = 0; t->numbers[v] && i < count; i++) {
      state = state * 1664525u + 1013904223u;
      t->numbers[v][i] = (float)(state >> 8) * 0x1p-23f - 1;
    }
    if (t->numbers[v] && odd != 0)
      t->numbers[v][count / 3] = odd;
  }
}

static bool open_trial(trial *t, const char *line, float odd) {
  op_test_case c;
  sn_graph *g = NULL;
  sn_value first;
  *t = (trial){0};
  if (!CHECK(sn_ctx_create(NULL, &t->ctx) == SN_OK) ||
      !CHECK(case_load(t->ctx, op_table_get(), line, &c) == SN_OK) ||
      !CHECK(case_graph(&c, &g, &first) == SN_OK) ||
      !CHECK(compile_graph(g, &(compile_options){0}, &t->made) == SN_OK))
    return false;
  sn_graph_destroy(g);
  case_free(&c);
  for (int i = 0; i < program_steps(t->made.program); i++)
    if (t->made.program->steps[i].kind == STEP_MATMUL)
      t->step = &t->made.program->steps[i];
  fill(t, odd);
  if (!CHECK(t->step != NULL))
    return false;
  vm_step v = machine(t);
  v.emit = look;
  v.user = &t->found;
  (void)vm_step_run(&v, t->step);
  return true;
}

static void close_trial(trial *t) {
  for (uint32_t v = 0; v < t->n; v++)
    free(t->numbers[v]);
  free(t->numbers);
  compile_destroy(&t->made);
  sn_ctx_destroy(t->ctx);
}

static uint32_t result_of(const trial *t) {
  const region *r = &t->step->parts[0].u.matmul.epilogue;
  for (int i = 0; i < r->n; i++)
    if (r->code[i].op == REGION_STORE)
      return r->code[i].at.value;
  return 0;
}

static bool run_way(trial *t, matmul_way way) {
  vm_step v = machine(t);
  v.emit = emit_way;
  v.user = &way;
  bool ok = vm_step_run(&v, t->step);
  if (!ok)
    FAIL("%s", v.finding);
  return ok;
}

static void compare(const float *want, const float *got, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (isfinite(want[i]) ? !(fabsf(want[i] - got[i]) <= 2e-5f)
        : isnan(want[i])  ? !isnan(got[i])
                          : want[i] != got[i]) {
      FAIL("element %d: expected %g, got %g", (int)i, (double)want[i], (double)got[i]);
      return;
    }
}

static void check_image(const char *line, float odd, int shape, int splits) {
  trial t;
  if (!open_trial(&t, line, odd))
    return;
  uint32_t out = result_of(&t);
  int64_t n = t.made.program->values[out].count;
  float *want = malloc((size_t)n * sizeof *want);
  CHECK_EQ_INT(t.found, 1);
  matmul_way plain = {.tiles = &matmul_tiles[TILES_PLAIN], .splits = 1};
  matmul_way packed = {
      .packed = &matmul_packed[shape], .splits = splits, .products = 3, .half = SN_F16};
  if (want && run_way(&t, plain)) {
    memcpy(want, t.numbers[out], (size_t)n * sizeof *want);
    memset(t.numbers[out], 0, (size_t)n * sizeof *want);
    if (run_way(&t, packed))
      compare(want, t.numbers[out], n);
  }
  free(want);
  close_trial(&t);
}

TEST_WALK(images) {
  for (int i = 0; i < (int)COUNT_OF(images); i++)
    for (int s = 0; s < PACKED_SHAPES; s++) {
      if (!test_begin("%d shape %d", i, s))
        continue;
      check_image(images[i], 0, s, s == PACKED_SMALL ? 2 : 1);
      test_end();
    }
}

TEST(infinities) {
  check_image(images[0], INFINITY, PACKED_SMALL, 1);
  check_image(images[1], NAN, PACKED_LARGE, 1);
}

TEST(what_is_none) {
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    trial t;
    if (open_trial(&t, others[i], 0)) {
      CHECK_EQ_INT(t.found, 0);
      close_trial(&t);
    }
  }
}
