/* Convolutions of what is not finite, as docs/ops.md promises: one infinity or NaN among the arguments. Where the reference makes of
 * it what is not finite, so does a plan; every finite result of a plan is right; and of conv, other results than those of its
 * image (an element of x) or its channel (of w) are finite. With every instruction set, in all ways that sizes lead to. */
#include "ir/dtype.h"
#include "support/plan_run.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

typedef struct shape {
  int64_t n, ci, size, co, kernel, stride, pad, dilation, groups;
} shape;

typedef struct draw {
  const char *name; /* whose element it is */
  int64_t at;
  double is;
} draw;

static double number(void *user, const char *name, sn_dtype dtype, int64_t i) {
  const draw *d = user;
  (void)dtype;
  if (strcmp(name, d->name) == 0 && i == d->at)
    return d->is;
  return (double)(hash_bytes(hash_string(HASH_SEED, name), &i, sizeof i) >> 20 & 7) - 3;
}

/* Outputs: conv, and its gradients for x and for w. Gives the windows of an image. */
static int64_t build(sn_graph *g, const shape *s, bool kept) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(s->n, s->ci, s->size, s->size));
  sn_shape ws = SN_SHAPE(s->co, s->ci / s->groups, s->kernel, s->kernel);
  sn_value w =
      kept ? sn_state(g, "w", SN_F32, ws, SN_INIT_NORMAL, 1) : sn_input(g, "w", SN_F32, ws);
  sn_ints stride = SN_INTS(s->stride, s->stride), pad = SN_INTS(s->pad, s->pad),
          dilation = SN_INTS(s->dilation, s->dilation);
  sn_value y = sn_conv(g, x, w, SN_NONE, stride, pad, pad, dilation, s->groups);
  sn_type t = sn_value_type(g, y);
  sn_value dy = sn_input(g, "dy", SN_F32, t.shape);
  sn_output(g, "0", y);
  sn_output(g, "1",
            sn_conv_grad_input(g, dy, w, SN_SHAPE(s->size, s->size), stride, pad, pad, dilation,
                               s->groups));
  sn_output(g, "2",
            sn_conv_grad_weight(g, x, dy, SN_INTS(s->kernel, s->kernel), stride, pad, pad, dilation,
                                s->groups));
  return t.shape.dim[2] * t.shape.dim[3];
}

/* Whether result i of conv may be made of the element. */
static bool may_touch(const shape *s, const draw *d, int64_t windows, int64_t i) {
  int64_t image = i / (s->co * windows), channel = i / windows % s->co;
  if (*d->name == 'x')
    return image == d->at / (s->ci * s->size * s->size);
  return *d->name == 'w' && channel == d->at / (s->ci / s->groups * s->kernel * s->kernel);
}

static void compare(const shape *s, const draw *d, int64_t windows, const oracle_tensor *t,
                    const float *got, const char *what) {
  bool is_conv = *t->name == '0';
  for (int64_t i = 0; i < t->value.count && !test_failed(); i++) {
    double want = t->value.data[i], is = (double)got[i];
    bool near = !is_conv || may_touch(s, d, windows, i);
    bool right = isfinite(is) ? isfinite(want) && fabs(is - want) <= 1e-4 * fmax(1, fabs(want))
                              : !isfinite(want) || near;
    if (!right)
      FAIL("%s: output %s, element %lld: the reference says %g, the plan %g (%g at %s[%lld])", what,
           t->name, (long long)i, want, is, d->is, d->name, (long long)d->at);
  }
}

static void check_draw(plan_run *run, const shape *s, const draw *d, int64_t windows) {
  plan_oracle o;
  plan_numbers n = {.fill = number, .user = (void *)(uintptr_t)d};
  if (CHECK(plan_oracle_run(&o, run->g, NULL, &n) == SN_OK))
    for (run->which = 0; run->which < run->n_lowered && !test_failed(); run->which++) {
      plan_results res;
      char what[100];
      snprintf(what, sizeof what, "plan %d, %lld channels, stride %lld", run->which,
               (long long)s->ci, (long long)s->stride);
      run->prepared[run->which] = false; /* the state is another */
      if (!CHECK(plan_run_once(run, &n, &res) == SN_OK))
        FAIL("%s: %s", what, sn_ctx_message(run->ctx));
      for (int i = 0; i < o.n && !test_failed(); i++) {
        CHECK_EQ_STR(run->c.program->outputs[i].name, o.tensors[i].name);
        compare(s, d, windows, &o.tensors[i], res.outputs[i], what);
      }
      plan_results_end(&res);
    }
  plan_oracle_end(&o);
}

static void check_shape(const shape *s, bool kept) {
  static const double odd[] = {INFINITY, -INFINITY, NAN};
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL;
  plan_run run;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  REQUIRE(sn_graph_create(ctx, &g) == SN_OK);
  int64_t windows = build(g, s, kept);
  int64_t x = s->n * s->ci * s->size * s->size,
          w = s->co * s->ci / s->groups * s->kernel * s->kernel;
  if (!CHECK(plan_run_start(&run, g, NULL) == SN_OK))
    FAIL("%s", sn_ctx_message(ctx));
  for (int i = 0; i < 6 && !test_failed(); i++) {
    draw d = i % 2 ? (draw){"x", x * i / 6, odd[i % 3]} : (draw){"w", w * i / 5, odd[i % 3]};
    check_draw(&run, s, &d, windows);
  }
  plan_run_end(&run);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

TEST_WALK(conv) {
  static const shape shapes[] = {{2, 3, 6, 2, 3, 1, 1, 1, 1},    {2, 3, 7, 2, 3, 2, 1, 1, 1},
                                 {1, 4, 5, 5, 1, 1, 0, 1, 1},    {2, 16, 9, 16, 3, 1, 1, 1, 1},
                                 {2, 33, 12, 20, 3, 1, 1, 1, 1}, {1, 8, 9, 8, 5, 1, 2, 1, 1},
                                 {2, 8, 8, 8, 3, 1, 1, 1, 8},    {2, 4, 9, 6, 3, 1, 2, 2, 2},
                                 {1, 6, 8, 4, 2, 2, 1, 1, 1},    {1, 64, 14, 64, 3, 1, 1, 1, 1}};
  for (size_t i = 0; i < COUNT_OF(shapes); i++)
    for (int kept = 0; kept < 2; kept++)
      if (test_begin("%d%s", (int)i, kept ? " kept" : "")) {
        check_shape(&shapes[i], kept);
        test_end();
      }
}
