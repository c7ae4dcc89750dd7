/* Matmul parts over other axes (emit_matmul_rewrite.h): gradients of strided convolutions, convolutions and their
 * transposes of drawn sizes on the interpreter of SPIR-V against the reference; that phases hold every pixel once
 * and no product too many; which axes and checks are gone. */
#include "device/vulkan/emit_matmul_rewrite.h"
#include "support/case.h"
#include "support/plan_run.h"
#include "support/test.h"
#include "support/vm_case.h"

#include "ops/table.h"

#include <stdio.h>
#include <string.h>

/* --- drawn convolutions --- */

typedef struct drawn {
  uint32_t seed;
  int dims;
  int64_t n, ci, co, groups; /* of the convolution; channels a group */
  int64_t size[2], windows[2], kernel[2], stride[2], before[2], after[2], dilation[2];
} drawn;

static int64_t draw(drawn *d, int64_t below) {
  d->seed = d->seed * 1664525u + 1013904223u;
  return (int64_t)(d->seed >> 8) % below;
}

static drawn draw_conv(uint32_t seed) {
  drawn d = {.seed = seed * 2654435761u + 99};
  d.dims = 1 + (draw(&d, 3) > 0);
  d.n = 1 + draw(&d, 2);
  d.groups = draw(&d, 4) ? 1 : 2;
  d.ci = 1 + draw(&d, 4);
  d.co = draw(&d, 12) ? 1 + draw(&d, 4) : 0;
  for (int i = 0; i < d.dims; i++) {
    d.stride[i] = 1 + draw(&d, 3) + draw(&d, 2);
    d.dilation[i] = draw(&d, 3) ? 1 : 2 + draw(&d, 2);
    d.kernel[i] = 1 + draw(&d, 4);
    d.before[i] = draw(&d, 3);
    d.after[i] = draw(&d, 3);
    int64_t reach = d.dilation[i] * (d.kernel[i] - 1) + 1;
    d.size[i] = max_i64(1, reach - d.before[i] - d.after[i]) + draw(&d, 7);
    d.windows[i] = (d.size[i] + d.before[i] + d.after[i] - reach) / d.stride[i] + 1;
  }
  return d;
}

static const char *list(char *to, size_t size, int n, const int64_t *x) {
  if (n == 1)
    snprintf(to, size, "%lld", (long long)x[0]);
  else
    snprintf(to, size, "%lld, %lld", (long long)x[0], (long long)x[1]);
  return to;
}

/* The gradient for the input, or for the weight, or the convolution itself. */
static void write_line(const drawn *d, int kind, char *out, size_t size) {
  char s[7][64], channels[2][64];
  const int64_t *const of[7] = {d->size,   d->windows, d->kernel,  d->stride,
                                d->before, d->after,   d->dilation};
  for (int i = 0; i < 7; i++)
    list(s[i], sizeof s[i], d->dims, of[i]);
  snprintf(channels[0], 64, "%lld, %lld", (long long)d->n, (long long)(d->ci * d->groups));
  snprintf(channels[1], 64, "%lld, %lld", (long long)d->n, (long long)(d->co * d->groups));
  char weight[200], rest[400];
  snprintf(weight, sizeof weight, "f32[%lld, %lld, %s]", (long long)(d->co * d->groups),
           (long long)d->ci, s[2]);
  snprintf(rest, sizeof rest,
           "stride=[%s] pad_before=[%s] pad_after=[%s] dilation=[%s] groups=%lld", s[3], s[4], s[5],
           s[6], (long long)d->groups);
  if (kind == 0)
    snprintf(out, size, "conv_grad_input(f32[%s, %s], %s) size=[%s] %s", channels[1], s[1], weight,
             s[0], rest);
  else if (kind == 1)
    snprintf(out, size, "conv_grad_weight(f32[%s, %s], f32[%s, %s]) kernel=[%s] %s", channels[0],
             s[0], channels[1], s[1], s[2], rest);
  else
    snprintf(out, size, "conv(f32[%s, %s], %s, none) %s", channels[0], s[0], weight, rest);
}

#ifdef __SANITIZE_ADDRESS__
enum { DRAWN = 12 };
#else
enum { DRAWN = 60 };
#endif

TEST_WALK(drawn_convolutions) {
  static const char *const names[] = {"gradient of the input", "gradient of the weight", "forward"};
  for (int kind = 0; kind < 3; kind++) {
    if (!test_begin("%s", names[kind]))
      continue;
    for (uint32_t seed = 1; seed <= DRAWN && !test_failed(); seed++) {
      drawn d = draw_conv(seed);
      char line[1000];
      write_line(&d, kind, line, sizeof line);
      vm_case(line, &(vm_check_options){.wide = seed % 5 == 0}, NULL);
    }
    test_end();
  }
}

/* --- what becomes of a part --- */

/* The matmul steps of a case, rewritten. */
typedef struct rewritten {
  sn_ctx *ctx;
  arena memory;
  compiled c;
  int n;
  const step *steps[8];
} rewritten;

static bool rewrite_case(const char *line, rewritten *r) {
  op_test_case c;
  sn_graph *g = NULL;
  sn_value first;
  *r = (rewritten){0};
  if (!CHECK(sn_ctx_create(NULL, &r->ctx) == SN_OK))
    return false;
  arena_init(&r->memory, r->ctx);
  if (!CHECK(case_load(r->ctx, op_table_get(), line, &c) == SN_OK))
    return false;
  bool ok = CHECK(case_graph(&c, &g, &first) == SN_OK) &&
            CHECK(compile_graph(g, &(compile_options){0}, &r->c) == SN_OK);
  emit_env env = {.ctx = r->ctx, .memory = &r->memory, .program = r->c.program};
  for (int i = 0; ok && i < program_steps(r->c.program) && r->n < 8; i++)
    if (r->c.program->steps[i].kind == STEP_MATMUL)
      ok = CHECK(matmul_rewrite(&env, &r->c.program->steps[i], &r->steps[r->n++]) == SN_OK);
  sn_graph_destroy(g);
  case_free(&c);
  return ok;
}

static void end_rewritten(rewritten *r) {
  compile_destroy(&r->c);
  arena_clear(&r->memory);
  sn_ctx_destroy(r->ctx);
}

static int64_t product_of(int n, const sn_dim *dims) {
  int64_t all = 1;
  for (int i = 0; i < n; i++)
    all *= dims[i];
  return all;
}

static int divisors_of(const region *r) {
  int n = 0;
  for (int i = 0; i < r->n; i++)
    for (int c = 0; c < r->code[i].at.n_checks; c++)
      n += r->code[i].at.checks[c].divisor != 1;
  return n;
}

/* Points of all parts, multiplications, checks with a divisor. */
static void count(const step *s, int64_t *points, int64_t *products, int *divisors) {
  *points = *products = *divisors = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const matmul_part *p = &s->parts[i].u.matmul;
    int64_t own = product_of(p->n_batch + p->n_m + p->n_n, p->extent);
    *points += own;
    for (int x = 0; x < p->accs[0].n_products; x++) {
      const matmul_product *of = &p->accs[0].products[x];
      *products += own * product_of(of->n_k, of->k);
      *divisors += divisors_of(&of->a) + divisors_of(&of->b);
    }
  }
}

/* Every pixel is in one phase, and its products are few: those of strides, no more. */
TEST(strided_gradients_are_cut) {
  int seen = 0;
  for (uint32_t seed = 1; seed <= 200; seed++) {
    drawn d = draw_conv(seed);
    rewritten r;
    char line[1000];
    int64_t points, products, all = d.n * d.ci * d.groups, most = all * d.co;
    int divisors;
    write_line(&d, 0, line, sizeof line);
    if (rewrite_case(line, &r) && r.n == 1) {
      count(r.steps[0], &points, &products, &divisors);
      for (int i = 0; i < d.dims; i++) {
        all *= d.size[i];
        most *= (d.size[i] / d.stride[i] + 1) * d.kernel[i];
      }
      seen += r.steps[0]->n_parts > 1;
      if (points != all || products > most || divisors != 0)
        FAIL("%s: %lld points, %lld products, %d divisors", line, (long long)points,
             (long long)products, divisors);
    }
    end_rewritten(&r);
  }
  CHECK(seen > 100);
}

static const matmul_part *only_part(const rewritten *r) {
  return CHECK_EQ_INT(r->n, 1) && CHECK_EQ_INT(r->steps[0]->n_parts, 1)
             ? &r->steps[0]->parts[0].u.matmul
             : NULL;
}

/* 3 by 3 at stride 2: phases of 4, 2, 2 and 1 places, all with the axes and checks of the first. 1 by 1: one of four has a product. */
TEST(phases_of_a_gradient) {
  rewritten r;
  static const int64_t places[] = {4, 2, 2, 1};
  if (rewrite_case("conv_grad_input(f32[1, 4, 3, 3], f32[4, 2, 3, 3]) size=[6, 6] stride=[2, 2] "
                   "pad_before=[1, 1] pad_after=[1, 1] dilation=[1, 1] groups=1",
                   &r) &&
      CHECK_EQ_INT(r.steps[0]->n_parts, 4))
    for (int i = 0; i < 4; i++) {
      const matmul_part *p = &r.steps[0]->parts[i].u.matmul;
      const matmul_product *x = &p->accs[0].products[0];
      CHECK_EQ_INT(product_of(x->n_k, x->k), 4 * places[i]);
      CHECK(p->phase == i + 1 && p->n_m == 2 && x->n_k == 3 && x->a.code[0].at.n_checks == 2);
    }
  end_rewritten(&r);
  if (rewrite_case("conv_grad_input(f32[1, 4, 3, 3], f32[4, 2, 1, 1]) size=[6, 6] stride=[2, 2] "
                   "pad_before=[0, 0] pad_after=[0, 0] dilation=[1, 1] groups=1",
                   &r) &&
      CHECK_EQ_INT(r.steps[0]->n_parts, 4))
    for (int i = 0; i < 4; i++)
      CHECK(r.steps[0]->parts[i].u.matmul.accs[0].n_products == (i == 3) &&
            r.steps[0]->parts[i].u.matmul.phase == 0);
  end_rewritten(&r);
}

/* Pixels of a 1 by 1 convolution are one axis beside the images, and nothing is checked; those of a 3 by 3 are two. */
TEST(axes_and_checks_that_go) {
  rewritten r;
  const matmul_part *p;
  if (rewrite_case("conv(f32[2, 8, 6, 5], f32[4, 8, 1, 1], none) stride=[1, 1] pad_before=[0, 0] "
                   "pad_after=[0, 0] dilation=[1, 1] groups=1",
                   &r) &&
      (p = only_part(&r))) {
    CHECK(p->n_batch == 0 && p->n_m == 2 && p->n_n == 1 && p->extent[1] == 30);
    CHECK_EQ_INT(p->accs[0].products[0].n_k, 1);
    CHECK_EQ_INT(p->accs[0].products[0].a.code[0].at.n_checks, 0);
  }
  end_rewritten(&r);
  if (rewrite_case("conv(f32[2, 8, 6, 5], f32[4, 8, 3, 3], none) stride=[1, 1] pad_before=[1, 0] "
                   "pad_after=[1, 0] dilation=[1, 1] groups=1",
                   &r) &&
      (p = only_part(&r))) {
    CHECK(p->n_m == 3 && p->n_n == 1);
    CHECK_EQ_INT(p->accs[0].products[0].n_k, 3);
    CHECK_EQ_INT(p->accs[0].products[0].a.code[0].at.n_checks, 1);
  }
  end_rewritten(&r);
}

static bool counts_down(const region *r) {
  for (int i = 0; i < r->n; i++)
    for (int t = 0; t < r->code[i].at.n_terms; t++)
      if (r->code[i].at.terms[t].stride < 0)
        return true;
  return false;
}

/* A gradient reads its window from the last place on, so that images are read upwards, as by a convolution. */
TEST(windows_are_read_upwards) {
  rewritten r;
  const matmul_part *p;
  if (rewrite_case("conv_grad_input(f32[1, 4, 6, 6], f32[4, 2, 3, 3]) size=[6, 6] stride=[1, 1] "
                   "pad_before=[1, 1] pad_after=[1, 1] dilation=[1, 1] groups=1",
                   &r) &&
      (p = only_part(&r))) {
    CHECK(!counts_down(&p->accs[0].products[0].a));
    CHECK(counts_down(&p->accs[0].products[0].b));
  }
  end_rewritten(&r);
}

/* Of an image that is stored channels last, channels go behind the places of a window, wherever they are counted: in k (a convolution), in rows
 * (its gradient for the weight). */
TEST(channels_go_last) {
  enum { N = 2, C = 16, H = 5, W = 6 };
  program_value values[4];
  memset(values, 0, sizeof values);
  values[1].channels = C;
  values[1].pixels = H * W;
  program p = {.values = values, .n_values = 4};
  sn_ctx *ctx = NULL;
  arena memory;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  arena_init(&memory, ctx);
  emit_env env = {.ctx = ctx, .program = &p, .memory = &memory};
  const term image[] = {{0, 0, C * H * W, 1, 0}, {1, 0, W * C, 1, 0}, {2, 0, C, 1, 0},
                        {4, 0, 1, 1, 0},         {5, 0, W * C, 1, 0}, {6, 0, C, 1, 0}};
  const term weight[] = {{3, 0, 9 * C, 1, 0}, {4, 0, 9, 1, 0}, {5, 0, 3, 1, 0}, {6, 0, 1, 1, 0}};
  const term rows[] = {{1, 0, 1, 1, 0}, {5, 0, 1, 1, 0}},
             columns[] = {{2, 0, 1, 1, 0}, {6, 0, 1, 1, 0}};
  const check checks[] = {{2, rows, -1, H, 1}, {2, columns, -1, W, 1}};
  const instr a = {.op = REGION_LOAD, .at = {1, -(W + 1) * C, 6, 2, image, checks}},
              b = {.op = REGION_LOAD, .at = {2, 0, 4, 0, weight, NULL}};
  const matmul_product product = {3, {C, 3, 3}, {1, &a}, {1, &b}};
  const matmul_acc acc = {1, &product};
  matmul_part part_of = {.n_m = 3, .n_n = 1, .extent = {N, H, W, 8}, .n_accs = 1, .accs = &acc};
  CHECK(matmul_fold(&env, &part_of) == SN_OK);
  const matmul_product *x = &part_of.accs[0].products[0];
  REQUIRE(x->n_k == 3);
  CHECK(x->k[0] == 3 && x->k[1] == 3 && x->k[2] == C);
  for (int i = 0; i < x->a.code[0].at.n_terms; i++)
    if (x->a.code[0].at.terms[i].stride == 1)
      CHECK_EQ_INT(x->a.code[0].at.terms[i].axis, 6);
  for (int i = 0; i < x->b.code[0].at.n_terms; i++)
    if (x->b.code[0].at.terms[i].stride == 9)
      CHECK_EQ_INT(x->b.code[0].at.terms[i].axis, 6);
  arena_clear(&memory);
  sn_ctx_destroy(ctx);
}
