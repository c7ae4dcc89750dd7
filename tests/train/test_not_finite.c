/* What a trainer refuses: parameters that no gradient reaches, options that say nothing, and steps whose loss is finite while
 * what they would commit is not.
 *
 * The model: loss = sum(sqrt(w · y)) + sum(v · x). At y = 0 the loss is as good as ever, and the gradient for w is 0 / 0; at
 * x = 0 the gradient for v is 0. */
#include "support/fixture.h"
#include "support/snapshot.h"
#include "support/test.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 5 };

typedef struct lesson {
  fixture f;
  sn_trainer *trainer;
} lesson;

static const sn_trainer_options plain = {.schedule = {.rate = 0.01}};

static bool start(lesson *l, const sn_trainer_options *o) {
  *l = (lesson){0};
  sn_trainer_options here = *o;
  here.device = fixture_device;
  if (!fixture_start(&l->f))
    return false;
  sn_graph *g = l->f.g;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(WIDTH));
  sn_value y = sn_input(g, "y", SN_F32, SN_SHAPE(WIDTH));
  sn_param params[] = {{.state = sn_state(g, "w", SN_F32, SN_SHAPE(WIDTH), SN_INIT_ONES, 0)},
                       {.state = sn_state(g, "v", SN_F32, SN_SHAPE(WIDTH), SN_INIT_ONES, 0)}};
  sn_value root = sn_sqrt(g, sn_mul(g, params[0].state, y));
  sn_value loss = sn_add(g, sn_sum(g, root, SN_ALL_AXES, false),
                         sn_sum(g, sn_mul(g, params[1].state, x), SN_ALL_AXES, false));
  sn_status status = sn_trainer_create(g, loss, params, 2, l->f.store, &here, &l->trainer);
  return status == SN_OK || FAIL("%s", sn_ctx_message(l->f.ctx));
}

static void end(lesson *l) {
  sn_trainer_destroy(l->trainer);
  fixture_end(&l->f);
}

static sn_status step(lesson *l, float first_x, float first_y, float *loss) {
  float x[WIDTH] = {first_x, 1, 2, 3, 4}, y[WIDTH] = {first_y, 1, 2, 3, 4};
  CHECK(sn_session_write(sn_trainer_session(l->trainer), "y", y, sizeof y) == SN_OK);
  CHECK(sn_session_write(sn_trainer_session(l->trainer), "x", x, sizeof x) == SN_OK);
  return sn_trainer_step(l->trainer, loss);
}

static bool is_finite(lesson *l, const char *name) {
  float w[WIDTH];
  bool finite = CHECK(sn_store_read(l->f.store, name, w, sizeof w) == SN_OK);
  for (int i = 0; i < WIDTH; i++)
    finite = finite && isfinite(w[i]);
  return finite;
}

/* Two good steps, a bad one, and a good one again. */
static void check_bad_gradient(const sn_trainer_options *o) {
  lesson l;
  float loss;
  if (!start(&l, o))
    return;
  CHECK_EQ_INT(step(&l, 1, 1, &loss), SN_OK);
  CHECK_EQ_INT(step(&l, 1, 1, &loss), SN_OK);
  snapshot before = snapshot_take(l.f.store, true);
  CHECK_EQ_INT(step(&l, 1, 0, &loss), SN_ERR_NUMERIC);
  CHECK_STR_HAS(sn_ctx_message(l.f.ctx), "gradient norm");
  CHECK_STR_HAS(sn_ctx_message(l.f.ctx), "nan");
  CHECK_STR_HAS(sn_ctx_message(l.f.ctx), "nothing was committed");
  CHECK(snapshot_unchanged(&before, l.f.store));
  CHECK_EQ_INT(step(&l, 1, 1, &loss), SN_OK);
  CHECK(isfinite(loss) && is_finite(&l, "w") && is_finite(&l, "v"));
  CHECK_EQ_INT(sn_trainer_batches(l.trainer), 3);
  end(&l);
}

TEST_ON_DEVICES(a_gradient_that_is_not_finite) {
  for (int kind = SN_SGD; kind <= SN_ADAMW; kind++)
    for (int clip = 0; clip < 2; clip++)
      for (int accumulate = 1; accumulate < 3; accumulate++) {
        sn_trainer_options o = plain;
        o.optimizer.kind = (sn_optimizer_kind)kind;
        o.optimizer.momentum = kind == SN_SGD && clip ? 0.9 : 0;
        o.clip_norm = clip;
        o.accumulate = accumulate;
        check_bad_gradient(&o);
      }
}

/* With a loss scale such an update is left out, and the scale halves. */
TEST_ON_DEVICES(a_loss_scale_leaves_it_out) {
  for (int accumulate = 1; accumulate < 3; accumulate++) {
    sn_trainer_options o = plain;
    lesson l;
    float loss, scale = 0, w[WIDTH];
    o.loss_scale = 64;
    o.accumulate = accumulate;
    if (!start(&l, &o))
      return;
    for (int i = 0; i < accumulate; i++)
      CHECK_EQ_INT(step(&l, 1, 0, &loss), SN_OK);
    CHECK(sn_store_read(l.f.store, "train.scale", &scale, sizeof scale) == SN_OK);
    CHECK(sn_store_read(l.f.store, "w", w, sizeof w) == SN_OK);
    CHECK(scale == 32 && w[0] == 1 && w[1] == 1);
    for (int i = 0; i < accumulate; i++)
      CHECK_EQ_INT(step(&l, 1, 1, &loss), SN_OK);
    CHECK(is_finite(&l, "w") && is_finite(&l, "v"));
    end(&l);
  }
}

/* Gradients may be finite and what they make of a parameter not: 0 / 0 without eps, decay that is too large. */
TEST_ON_DEVICES(a_parameter_that_would_not_be_finite) {
  for (int k = 0; k < 4; k++) {
    sn_trainer_options o = plain;
    lesson l;
    float loss, two[WIDTH] = {2, 2, 2, 2, 2};
    o.optimizer.kind = k % 2 ? SN_SGD : SN_ADAM;
    o.optimizer.eps = k % 2 ? 0 : SN_ZERO;
    o.optimizer.weight_decay = k % 2 ? 3e38 : 0;
    o.schedule.rate = 1;
    o.loss_scale = k < 2 ? 0 : 1;
    if (!start(&l, &o))
      return;
    CHECK(sn_store_write(l.f.store, "v", two, sizeof two) == SN_OK);
    snapshot before = snapshot_take(l.f.store, true);
    CHECK_EQ_INT(step(&l, k % 2 ? 1.0f : 0.0f, 1, &loss), SN_ERR_NUMERIC);
    CHECK_STR_HAS(sn_ctx_message(l.f.ctx), "largest next parameter");
    CHECK(snapshot_unchanged(&before, l.f.store));
    end(&l);
  }
}

/* A schedule that was replaced on the way may not do what the trainer does not look for. */
TEST(rates_that_are_not_looked_for) {
  static const sn_schedule rows[] = {{.rate = NAN}, {.rate = -1}, {.rate = 1e10}, {.rate = 20}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    sn_trainer_options o = plain;
    lesson l;
    float loss;
    o.optimizer.weight_decay = 0.1;
    if (!start(&l, &o))
      return;
    snapshot before = snapshot_take(l.f.store, true);
    sn_trainer_set_schedule(l.trainer, &rows[i]);
    CHECK_EQ_INT(step(&l, 1, 1, &loss), SN_ERR_INVALID);
    CHECK_STR_HAS(sn_ctx_message(l.f.ctx), "the schedule's rate must lie in 0 … 10 ");
    CHECK(snapshot_unchanged(&before, l.f.store));
    sn_trainer_set_schedule(l.trainer, &plain.schedule);
    CHECK_EQ_INT(step(&l, 1, 1, &loss), SN_OK);
    end(&l);
  }
}

/* --- parameters that would never be trained --- */

static void check_refused(int k, const char *part, sn_status want) {
  fixture f;
  sn_trainer *t;
  REQUIRE(fixture_start(&f));
  sn_graph *g = f.g;
  sn_shape shape = SN_SHAPE(WIDTH);
  sn_param p[] = {{.state = sn_state(g, "used", SN_F32, shape, SN_INIT_ONES, 0)},
                  {.state = sn_state(g, "other", SN_F32, shape, SN_INIT_ONES, 0)}};
  sn_value loss = sn_sum(g, sn_sqr(g, p[0].state), SN_ALL_AXES, false), other = SN_NONE;
  if (k == 1)
    other = sn_stop_gradient(g, sn_exp(g, p[1].state));
  else if (k == 2)
    other = sn_cast(g, sn_gt(g, p[1].state, sn_scalar(g, SN_F32, 0)), SN_F32);
  else if (k == 3)
    p[1] = p[0];
  else if (k == 4)
    other = sn_sqr(g, p[1].state), p[1].rate = -2;
  if (other.id)
    loss = sn_add(g, loss, sn_sum(g, other, SN_ALL_AXES, false));
  CHECK_EQ_INT(sn_trainer_create(g, loss, p, 2, f.store, &plain, &t), want);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), part);
  CHECK(t == NULL && sn_store_count(f.store) == 0);
  fixture_end(&f);
}

TEST(parameters_that_would_never_be_trained) {
  check_refused(0, "\"other\" would never be trained: the loss does not use it", SN_ERR_INVALID);
  check_refused(1, "\"other\" would never be trained: the loss uses it behind stop_gradient only",
                SN_ERR_INVALID);
  check_refused(2, "gt is not differentiable", SN_ERR_UNSUPPORTED);
  check_refused(3, "parameters 0 and 1 are both \"used\"", SN_ERR_INVALID);
  check_refused(4, "parameter 1: its rate", SN_ERR_INVALID);
}

TEST(optimizers_that_say_nothing) {
  static const sn_optimizer rows[] = {{.kind = (sn_optimizer_kind)7},
                                      {.momentum = NAN},
                                      {.weight_decay = INFINITY},
                                      {.beta1 = 1},
                                      {.beta2 = -0.5},
                                      {.eps = NAN},
                                      {.beta1 = -1e-9}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture f;
    sn_trainer *t;
    sn_trainer_options o = plain;
    o.optimizer = rows[i];
    REQUIRE(fixture_start(&f));
    sn_param p = {.state = sn_state(f.g, "w", SN_F32, SN_SHAPE(WIDTH), SN_INIT_ONES, 0)};
    sn_value loss = sn_sum(f.g, sn_sqr(f.g, p.state), SN_ALL_AXES, false);
    CHECK_EQ_INT(sn_trainer_create(f.g, loss, &p, 1, f.store, &o, &t), SN_ERR_INVALID);
    CHECK_STR_HAS(sn_ctx_message(f.ctx), "optimizer: ");
    fixture_end(&f);
  }
}
