/* Optimisers against PyTorch's numbers and against a loop in double written here; clipping; updates that
 * `apply` leaves out. */
#include "support/fixture.h"
#include "support/snapshot.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_A = 5, N_B = 3, N = N_A + N_B, STEPS = 6 };

typedef struct settings {
  char name[40];
  int kind;
  double rate, momentum;
  int nesterov;
  double decay, beta1, beta2, eps, clip;
} settings;

/* --- the definition, in double: parameter a with twice the rate, b without decay --- */

typedef struct plain {
  double w[N], m[N], v[N];
} plain;

static void plain_clip(const settings *s, double *g) {
  double sum = 0;
  for (int i = 0; i < N; i++)
    sum += g[i] * g[i];
  double scale = s->clip / (sqrt(sum) + 1e-6);
  for (int i = 0; i < N && s->clip > 0 && scale < 1; i++)
    g[i] *= scale;
}

static void plain_step(const settings *s, plain *p, const double *grads, int step) {
  double g[N];
  memcpy(g, grads, sizeof g);
  plain_clip(s, g);
  for (int i = 0; i < N; i++) {
    double rate = i < N_A ? 2 * s->rate : s->rate, decay = i < N_A ? s->decay : 0;
    double d = g[i] + (s->kind == SN_ADAMW ? 0 : decay * p->w[i]);
    if (s->kind == SN_ADAMW)
      p->w[i] -= rate * decay * p->w[i];
    if (s->kind == SN_SGD) {
      p->m[i] = s->momentum * p->m[i] + d;
      d = s->nesterov ? d + s->momentum * p->m[i] : p->m[i];
    } else {
      p->m[i] = s->beta1 * p->m[i] + (1 - s->beta1) * d;
      p->v[i] = s->beta2 * p->v[i] + (1 - s->beta2) * d * d;
      double m = p->m[i] / (1 - pow(s->beta1, step + 1)),
             v = p->v[i] / (1 - pow(s->beta2, step + 1));
      d = m / (sqrt(v) + s->eps);
    }
    p->w[i] -= rate * d;
  }
}

/* --- ours --- */

/* What says that number: 0 alone would say the default. */
static double said(double x) { return x == 0 ? SN_ZERO : x; }

static sn_optimizer optimizer_of(const settings *s) {
  return (sn_optimizer){.kind = (sn_optimizer_kind)s->kind,
                        .momentum = s->momentum,
                        .nesterov = s->nesterov != 0,
                        .weight_decay = s->decay,
                        .beta1 = said(s->beta1),
                        .beta2 = said(s->beta2),
                        .eps = said(s->eps)};
}

/* A graph of states a and b with their gradients as inputs, one update a run. */
static bool start_as(fixture *f, const settings *s, sn_optimizer o, double rate_a,
                     bool with_apply) {
  if (!fixture_start(f))
    return false;
  sn_graph *g = f->g;
  sn_param params[] = {
      {.state = sn_state(g, "a", SN_F32, SN_SHAPE(N_A), SN_INIT_ZEROS, 0), .rate = rate_a},
      {.state = sn_state(g, "b", SN_F32, SN_SHAPE(1, N_B), SN_INIT_ZEROS, 0), .no_decay = true}};
  sn_value grads[] = {sn_input(g, "ga", SN_F32, SN_SHAPE(N_A)),
                      sn_input(g, "gb", SN_F32, SN_SHAPE(1, N_B))};
  sn_value step = sn_state(g, "step", SN_I32, SN_SCALAR, SN_INIT_ZEROS, 0);
  sn_value apply = with_apply ? sn_input(g, "apply", SN_BOOL, SN_SCALAR) : SN_NONE;
  sn_value norm = sn_global_norm(g, grads, 2);
  sn_output(g, "norm", norm);
  if (s->clip > 0)
    sn_clip_by_norm(g, norm, s->clip, grads, 2);
  sn_optimizer_build(g, &o, sn_input(g, "rate", SN_F32, SN_SCALAR), step, params, grads, 2, apply);
  sn_value next = sn_add(g, step, sn_scalar(g, SN_I32, 1));
  sn_assign(g, step, with_apply ? sn_where(g, apply, next, step) : next);
  float rate = (float)s->rate;
  return fixture_ready(f, NULL) &&
         CHECK(sn_session_write(f->session, "rate", &rate, sizeof rate) == SN_OK);
}

static bool start(fixture *f, const settings *s, bool with_apply) {
  return start_as(f, s, optimizer_of(s), 2, with_apply);
}

static void put_weights(fixture *f, const double *w) {
  float x[N];
  for (int i = 0; i < N; i++)
    x[i] = (float)w[i];
  CHECK(sn_store_write(f->store, "a", x, N_A * sizeof *x) == SN_OK);
  CHECK(sn_store_write(f->store, "b", x + N_A, N_B * sizeof *x) == SN_OK);
}

static bool run(fixture *f, const double *grads, const bool *apply) {
  float x[N];
  for (int i = 0; i < N; i++)
    x[i] = (float)grads[i];
  return CHECK(sn_session_write(f->session, "ga", x, N_A * sizeof *x) == SN_OK) &&
         CHECK(sn_session_write(f->session, "gb", x + N_A, N_B * sizeof *x) == SN_OK) &&
         (!apply || CHECK(sn_session_write(f->session, "apply", apply, 1) == SN_OK)) &&
         fixture_run(f);
}

static void check_near(fixture *f, const double *expected, const char *whose, int step) {
  float x[N];
  CHECK(sn_store_read(f->store, "a", x, N_A * sizeof *x) == SN_OK);
  CHECK(sn_store_read(f->store, "b", x + N_A, N_B * sizeof *x) == SN_OK);
  for (int i = 0; i < N; i++)
    if (!(fabs((double)x[i] - expected[i]) <= 1e-6 * fmax(1, fabs(expected[i]))))
      FAIL("step %d, element %d: %s says %.9g, got %.9g", step, i, whose, expected[i],
           (double)x[i]);
}

/* --- against PyTorch and the loop --- */

static bool read_numbers(FILE *file, double *out) {
  for (int i = 0; i < N; i++)
    if (fscanf(file, "%lf", &out[i]) != 1)
      return FAIL("the fixture ends early");
  return true;
}

static void check_case(FILE *file, const settings *s) {
  fixture f;
  plain p = {0};
  double grads[N], expected[N];
  if (!read_numbers(file, p.w) || !start(&f, s, false))
    return;
  put_weights(&f, p.w);
  for (int step = 0; step < STEPS; step++) {
    if (!read_numbers(file, grads) || !read_numbers(file, expected) || !run(&f, grads, NULL))
      break;
    plain_step(s, &p, grads, step);
    check_near(&f, expected, "PyTorch", step);
    check_near(&f, p.w, "the definition", step);
  }
  fixture_end(&f);
}

TEST_WALK(against_pytorch) {
  FILE *file = fopen(test_source("tests/fixtures/optimizer.txt"), "r");
  REQUIRE(file != NULL);
  settings s;
  int n = 0;
  while (fscanf(file, "%39s %d %lf %lf %d %lf %lf %lf %lf %lf", s.name, &s.kind, &s.rate,
                &s.momentum, &s.nesterov, &s.decay, &s.beta1, &s.beta2, &s.eps, &s.clip) == 10) {
    n++;
    bool wanted = test_begin("%s", s.name);
    double skipped[N];
    if (wanted)
      check_case(file, &s);
    else
      for (int i = 0; i < 1 + 2 * STEPS; i++)
        (void)read_numbers(file, skipped);
    if (wanted)
      test_end();
  }
  fclose(file);
  CHECK_EQ_INT(n, 9);
}

static const settings kinds[] = {{"sgd", SN_SGD, 0.1, 0.9, 1, 0.1, 0.9, 0.999, 1e-8, 1},
                                 {"adam", SN_ADAM, 0.1, 0, 0, 0.1, 0.9, 0.999, 1e-8, 1},
                                 {"adamw", SN_ADAMW, 0.1, 0, 0, 0.1, 0.9, 0.999, 1e-8, 1}};

/* What a run with apply = false may change is nothing, even where a gradient is NaN or infinite. */
TEST(apply_false_leaves_every_bit) {
  static const double good[N] = {1, -2, 3, -4, 5, -6, 7, -8};
  static const double bad[N] = {NAN, INFINITY, 3, -4, 5, -6, -INFINITY, -8};
  bool yes = true, no = false;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    fixture f;
    if (!start(&f, &kinds[k], true))
      return;
    put_weights(&f, good);
    run(&f, good, &yes);
    snapshot before = snapshot_take(f.store, false);
    run(&f, bad, &no);
    run(&f, good, &no);
    snapshot after = snapshot_take(f.store, false);
    CHECK(snapshot_equal(&before, &after));
    snapshot_free(&after);
    run(&f, good, &yes);
    after = snapshot_take(f.store, false);
    CHECK(!snapshot_equal(&before, &after));
    snapshot_free(&before);
    snapshot_free(&after);
    fixture_end(&f);
  }
}

/* beta1, beta2 and eps left 0 are 0.9, 0.999, 1e-8; a rate left 0 is 1. */
TEST(defaults) {
  static const double w[N] = {1, -2, 3, -4, 5, -6, 7, -8};
  snapshot taken[2];
  for (int k = 0; k < 2; k++) {
    settings s = {"adam", SN_ADAM, 0.1, 0, 0, 0, 0.9, 0.999, 1e-8, 0};
    sn_optimizer zeroed = {.kind = SN_ADAM};
    fixture f;
    if (!start_as(&f, &s, k ? zeroed : optimizer_of(&s), 2, false))
      return;
    put_weights(&f, w);
    for (int i = 0; i < 3; i++)
      run(&f, w, NULL);
    taken[k] = snapshot_take(f.store, false);
    fixture_end(&f);
  }
  CHECK(snapshot_equal(&taken[0], &taken[1]));
  snapshot_free(&taken[0]);
  snapshot_free(&taken[1]);
}

/* Zeros that are said are zeros: betas and eps as in the definition, and a rate that leaves the value alone. */
TEST(zeros_can_be_said) {
  static const double w[N] = {1, -2, 3, -4, 5, -6, 7, -8};
  static const settings rows[] = {{"beta1", SN_ADAM, 0.1, 0, 0, 0.1, 0, 0.999, 1e-8, 0},
                                  {"beta2", SN_ADAMW, 0.1, 0, 0, 0.1, 0.9, 0, 1e-8, 0},
                                  {"eps", SN_ADAM, 0.1, 0, 0, 0, 0.9, 0.999, 0, 0},
                                  {"all", SN_ADAM, 0.1, 0, 0, 0, 0, 0, 0, 0}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    fixture f;
    plain p = {0};
    if (!start(&f, &rows[k], false))
      return;
    put_weights(&f, w);
    memcpy(p.w, w, sizeof w);
    for (int step = 0; step < 3; step++) {
      double grads[N];
      for (int i = 0; i < N; i++)
        grads[i] = cos(i + 8 * step);
      run(&f, grads, NULL);
      plain_step(&rows[k], &p, grads, step);
      check_near(&f, p.w, rows[k].name, step);
    }
    fixture_end(&f);
  }
}

TEST(a_rate_of_zero_freezes) {
  static const double w[N] = {1, -2, 3, -4, 5, -6, 7, -8};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    fixture f;
    float x[N];
    if (!start_as(&f, &kinds[k], optimizer_of(&kinds[k]), SN_ZERO, false))
      return;
    put_weights(&f, w);
    run(&f, w, NULL);
    CHECK(sn_store_read(f.store, "a", x, N_A * sizeof *x) == SN_OK);
    CHECK(sn_store_read(f.store, "b", x + N_A, N_B * sizeof *x) == SN_OK);
    for (int i = 0; i < N; i++)
      CHECK((x[i] == (float)w[i]) == (i < N_A));
    fixture_end(&f);
  }
}

TEST(norm_over_all_parameters) {
  static const double grads[N] = {3, 0, 0, 0, 0, 0, -4, 0};
  fixture f;
  float norm = 0;
  if (!start(&f, &kinds[0], false))
    return;
  run(&f, grads, NULL);
  CHECK(sn_session_read(f.session, "norm", &norm, sizeof norm) == SN_OK);
  CHECK_NEAR(norm, 5, 1e-6);
  fixture_end(&f);
}

/* The 1e-6 that PyTorch adds to the norm shows at tiny norms only. */
TEST(clipping_adds_to_the_norm) {
  fixture f;
  float x[2] = {3e-7f, 4e-7f}, y[2];
  if (!fixture_start(&f))
    return;
  sn_value g = sn_input(f.g, "g", SN_F32, SN_SHAPE(2));
  sn_clip_by_norm(f.g, sn_global_norm(f.g, &g, 1), 3e-7, &g, 1);
  sn_output(f.g, "clipped", g);
  if (fixture_ready(&f, NULL) && CHECK(sn_session_write(f.session, "g", x, sizeof x) == SN_OK) &&
      fixture_run(&f) && CHECK(sn_session_read(f.session, "clipped", y, sizeof y) == SN_OK)) {
    CHECK_NEAR(y[0], 3e-7 * 3e-7 / (5e-7 + 1e-6), 1e-13);
    CHECK_NEAR(y[1], 4e-7 * 3e-7 / (5e-7 + 1e-6), 1e-13);
  }
  fixture_end(&f);
}
