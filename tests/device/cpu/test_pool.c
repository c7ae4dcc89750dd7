/* Pooling with windows that overlap, and its gradients, in surroundings that fuse into it: against plain loops, on one and
 * several threads (the same bits) and every instruction set; and that such parts are found for what they are. */
#include "device/cpu/pool.h"
#include "support/plan_run.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

typedef struct world {
  uint32_t seed;
  bool special; /* NaN and infinities among the numbers */
  bool bounds;  /* windows see min(max(x, b), 5), b by channel */
  bool min, product;
  int64_t n, c, size[2], windows[2];
  sn_ints kernel, stride, before, after;
} world;

static int64_t draw(world *w, int64_t below) {
  w->seed = w->seed * 1664525u + 1013904223u;
  return (int64_t)(w->seed >> 8) % below;
}

/* Few numbers, so that there are ties. */
static double fill(void *user, const char *name, sn_dtype dtype, int64_t i) {
  const world *w = user;
  uint32_t x = (uint32_t)i * 2654435761u + w->seed + (uint32_t)name[0] * 40503u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  (void)dtype;
  if (w->special && name[0] == 'x' && x % 61 < 2)
    return x % 61 == 0 ? NAN : x & 64 ? INFINITY : -INFINITY;
  return (double)(x % 13) - 6;
}

static void draw_world(world *w) {
  w->bounds = draw(w, 2);
  w->min = draw(w, 3) == 0;
  w->product = draw(w, 2);
  w->n = 1 + draw(w, 2);
  w->c = 1 + draw(w, 3);
  w->kernel.n = w->stride.n = w->before.n = w->after.n = 2;
  for (int d = 0; d < 2; d++) {
    w->size[d] = 16 + draw(w, 20);
    w->stride.v[d] = 2 + draw(w, 2);
    w->kernel.v[d] = w->stride.v[d] + (d == 0 || draw(w, 2)) + draw(w, 2);
    w->before.v[d] = min_i64(1 + draw(w, 2), w->kernel.v[d] - 1);
    w->after.v[d] = draw(w, w->kernel.v[d]);
  }
}

/* pool(f(x)), or its gradient for x. */
static void build(sn_graph *g, world *w, bool gradient) {
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(w->n, w->c, w->size[0], w->size[1])), h = x;
  if (w->bounds) {
    sn_value b = sn_input(g, "b", SN_F32, SN_SHAPE(w->c, 1, 1));
    h = sn_minimum(g, sn_maximum(g, x, b), sn_scalar(g, SN_F32, 5));
  }
  sn_value y = sn_pool(g, h, w->min ? SN_POOL_MIN : SN_POOL_MAX, w->kernel, w->stride, w->before,
                       w->after, SN_INTS(1, 1), false, false);
  sn_shape shape = sn_value_type(g, y).shape;
  w->windows[0] = shape.dim[2];
  w->windows[1] = shape.dim[3];
  if (!gradient) {
    sn_output(g, "y", w->product ? sn_mul(g, y, sn_input(g, "dy", SN_F32, shape)) : y);
    return;
  }
  sn_value dy = sn_input(g, "dy", SN_F32, shape), dh;
  sn_value loss = sn_sum(g, sn_mul(g, y, dy), SN_ALL_AXES, false);
  if (CHECK(sn_grad(g, loss, &h, 1, &dh) == SN_OK))
    sn_output(g, "dh", w->product ? sn_mul(g, dh, h) : dh);
}

/* --- what is expected --- */

static double larger(double a, double b) { return isnan(a) || a > b ? a : b; }
static double smaller(double a, double b) { return isnan(a) || a < b ? a : b; }

/* What windows see at pixel i. */
static double seen(world *w, int64_t i) {
  double x = fill(w, "x", SN_F32, i);
  int64_t channel = i / (w->size[0] * w->size[1]) % w->c;
  return w->bounds ? smaller(larger(x, fill(w, "b", SN_F32, channel)), 5) : x;
}

/* The pixels of window o: their numbers to `at`. */
static int window_pixels(const world *w, int64_t o, int64_t *at) {
  int64_t x = o % w->windows[1], y = o / w->windows[1] % w->windows[0];
  int64_t plane = o / (w->windows[0] * w->windows[1]);
  int n = 0;
  for (int64_t k = 0; k < w->kernel.v[0]; k++)
    for (int64_t l = 0; l < w->kernel.v[1]; l++) {
      int64_t i = y * w->stride.v[0] - w->before.v[0] + k;
      int64_t j = x * w->stride.v[1] - w->before.v[1] + l;
      if (i >= 0 && i < w->size[0] && j >= 0 && j < w->size[1])
        at[n++] = (plane * w->size[0] + i) * w->size[1] + j;
    }
  return n;
}

/* The result of window o; what it gives to each pixel, where dh is not NULL. */
static double pool_window_of(world *w, int64_t o, double *dh) {
  int64_t at[64] = {0};
  int n = window_pixels(w, o, at), ties = 0;
  double y = seen(w, at[0]), dy = fill(w, "dy", SN_F32, o);
  for (int i = 1; i < n; i++)
    y = w->min ? smaller(y, seen(w, at[i])) : larger(y, seen(w, at[i]));
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < n && dh; i++) {
      double x = seen(w, at[i]);
      bool same = x == y || (isnan(x) && isnan(y));
      if (pass)
        dh[at[i]] += same ? dy / ties : 0;
      else
        ties += same;
    }
  return !dh && w->product ? y * dy : y;
}

static double *expect(world *w, bool gradient, int64_t *out_n) {
  int64_t windows = w->n * w->c * w->windows[0] * w->windows[1];
  int64_t pixels = w->n * w->c * w->size[0] * w->size[1];
  *out_n = gradient ? pixels : windows;
  double *to = calloc((size_t)*out_n, sizeof *to);
  for (int64_t o = 0; o < windows; o++) {
    double y = pool_window_of(w, o, gradient ? to : NULL);
    to[gradient ? 0 : o] += gradient ? 0 : y;
  }
  for (int64_t i = 0; i < pixels && gradient && w->product; i++)
    to[i] *= seen(w, i);
  return to;
}

/* --- checking --- */

static bool is_near(double a, double b) {
  return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-5 * (1 + fabs(b));
}

static void check_runs(world *w, plan_run *r, bool gradient) {
  int64_t n;
  double *want = expect(w, gradient, &n);
  float *first = malloc((size_t)n * sizeof *first);
  plan_numbers numbers = {.fill = fill, .user = w};
  for (r->which = 0; r->which < r->n_lowered && !test_failed(); r->which++) {
    plan_results out;
    CHECK(plan_run_once(r, &numbers, &out) == SN_OK);
    const float *got = out.outputs[0];
    for (int64_t i = 0; i < n && !test_failed(); i++)
      if (!is_near((double)got[i], want[i]))
        FAIL("plan %d: element %lld is %g, expected %g", r->which, (long long)i, (double)got[i],
             want[i]);
    if (r->which == 0)
      memcpy(first, got, (size_t)n * sizeof *first);
    CHECK(r->which != 1 || memcmp(first, got, (size_t)n * sizeof *first) == 0);
    plan_results_end(&out);
  }
  free(first);
  free(want);
}

static void count_kinds(const program *p, int *kinds) {
  for (int i = 0; i < program_steps(p); i++)
    for (int k = 0; k < p->steps[i].n_parts && p->steps[i].kind == STEP_ROW; k++) {
      pool_part found;
      if (pool_find(&p->steps[i].parts[k].u.loop, &found))
        kinds[found.kind]++;
    }
}

static void check_world(uint32_t seed, bool gradient, int *kinds) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL;
  world w = {.seed = seed * 2654435761u + 7, .special = seed % 4 == 0};
  plan_run r;
  CHECK(sn_ctx_create(NULL, &ctx) == SN_OK && sn_graph_create(ctx, &g) == SN_OK);
  draw_world(&w);
  build(g, &w, gradient);
  if (CHECK(plan_run_start(&r, g, NULL) == SN_OK)) {
    count_kinds(r.c.program, kinds);
    check_runs(&w, &r, gradient);
    if (test_failed())
      FAIL("seed %u", seed);
  }
  plan_run_end(&r);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

enum { WORLDS = 80 };

TEST(results_are_right) {
  int kinds[POOL_SHARES + 1] = {0};
  for (uint32_t seed = 1; seed <= WORLDS && !test_failed(); seed++)
    check_world(seed, false, kinds);
  CHECK_EQ_INT(kinds[POOL_LARGEST] + kinds[POOL_SMALLEST], WORLDS);
  CHECK(kinds[POOL_SMALLEST] > WORLDS / 8);
}

TEST(gradients_are_right) {
  int kinds[POOL_SHARES + 1] = {0};
  for (uint32_t seed = 1; seed <= WORLDS && !test_failed(); seed++)
    check_world(seed, true, kinds);
  CHECK_EQ_INT(kinds[POOL_TIES], WORLDS);
  CHECK(kinds[POOL_SHARES] > WORLDS / 2);
}
