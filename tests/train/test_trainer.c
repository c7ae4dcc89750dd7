/* The trainer: loss scaling, accumulation, counters, and what a bad step leaves behind. The model is
 * loss = mean over rows of (x·w - y)², whose gradients are easy to say. */
#include "support/fixture.h"
#include "support/snapshot.h"
#include "support/test.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 3 };

typedef struct lesson {
  fixture f;
  sn_trainer *trainer;
  int rows;
} lesson;

static const sn_trainer_options plain = {.optimizer = {.kind = SN_SGD, .momentum = 0.9},
                                         .schedule = {.rate = 0.01}};
static const sn_trainer_options adam = {.optimizer = {.kind = SN_ADAMW, .weight_decay = 0.1},
                                        .schedule = {.rate = 0.01},
                                        .clip_norm = 1};

/* On a new store, or on `store` of another lesson. */
static bool start(lesson *l, int rows, const sn_trainer_options *o, const lesson *other) {
  *l = (lesson){.rows = rows};
  fixture *f = &l->f;
  if (!fixture_start(f))
    return false;
  sn_graph *g = f->g;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(rows, WIDTH));
  sn_value y = sn_input(g, "y", SN_F32, SN_SHAPE(rows, 1));
  sn_param w = {.state = sn_state(g, "w", SN_F32, SN_SHAPE(WIDTH, 1), SN_INIT_NORMAL, 1)};
  sn_value error = sn_sub(g, sn_matmul(g, x, w.state, false, false), y);
  sn_value loss = sn_mean(g, sn_sqr(g, error), SN_ALL_AXES, false);
  sn_store *store = other ? other->f.store : f->store;
  sn_status status = sn_trainer_create(g, loss, &w, 1, store, o, &l->trainer);
  return status == SN_OK || FAIL("%s", sn_ctx_message(f->ctx));
}

static void end(lesson *l) {
  sn_trainer_destroy(l->trainer);
  fixture_end(&l->f);
}

/* Row r of all data; its rows repeat after 16. */
static void fill(float *x, float *y, int64_t row, float scale) {
  for (int i = 0; i < WIDTH; i++)
    x[i] = scale * (float)sin((double)(row % 16 * WIDTH + i));
  *y = scale * (float)cos((double)(row % 16));
}

static sn_status step(lesson *l, int64_t first_row, float scale, float *loss) {
  float x[16 * WIDTH], y[16];
  for (int r = 0; r < l->rows; r++)
    fill(x + r * WIDTH, y + r, first_row + r, scale);
  sn_session *s = sn_trainer_session(l->trainer);
  CHECK(sn_session_write(s, "x", x, (size_t)l->rows * WIDTH * sizeof *x) == SN_OK);
  CHECK(sn_session_write(s, "y", y, (size_t)l->rows * sizeof *y) == SN_OK);
  return sn_trainer_step(l->trainer, loss);
}

/* Micro-batches that follow the trainer's own count. */
static bool learn(lesson *l, int n) {
  for (int i = 0; i < n; i++) {
    float loss;
    if (!CHECK(step(l, sn_trainer_batches(l->trainer) * l->rows, 1, &loss) == SN_OK) ||
        !CHECK(isfinite(loss)))
      return false;
  }
  return true;
}

static bool same(const lesson *a, const lesson *b, const char *name, size_t size) {
  unsigned char x[64], y[64];
  return CHECK(sn_store_read(a->f.store, name, x, size) == SN_OK) &&
         CHECK(sn_store_read(b->f.store, name, y, size) == SN_OK) && memcmp(x, y, size) == 0;
}

static bool all_same(const lesson *a, const lesson *b) {
  snapshot x = snapshot_take(a->f.store, false), y = snapshot_take(b->f.store, false);
  bool equal = snapshot_equal(&x, &y);
  snapshot_free(&x);
  snapshot_free(&y);
  return equal;
}

static int32_t count_of(const lesson *l, const char *name) {
  int32_t n = -1;
  CHECK(sn_store_read(l->f.store, name, &n, sizeof n) == SN_OK);
  return n;
}

static float scale_of(const lesson *l) {
  float x = 0;
  CHECK(sn_store_read(l->f.store, "train.scale", &x, sizeof x) == SN_OK);
  return x;
}

TEST(learns) {
  lesson l;
  float first, last;
  sn_trainer_options o = plain;
  o.schedule.rate = 0.05;
  if (!start(&l, 16, &o, NULL))
    return;
  CHECK(step(&l, 0, 1, &first) == SN_OK);
  learn(&l, 200);
  CHECK(step(&l, 0, 1, &last) == SN_OK);
  CHECK(last < 0.9f * first);
  CHECK_EQ_INT(sn_trainer_steps(l.trainer), 202);
  CHECK_EQ_INT(sn_trainer_batches(l.trainer), 202);
  end(&l);
}

/* A scale that is a power of two leaves no trace in the result. */
TEST(scaled_gradients_are_unscaled) {
  lesson a, b;
  sn_trainer_options scaled = plain;
  scaled.loss_scale = 1024;
  if (!start(&a, 4, &plain, NULL) || !start(&b, 4, &scaled, NULL))
    return;
  learn(&a, 5);
  learn(&b, 5);
  CHECK(same(&a, &b, "w", WIDTH * sizeof(float)));
  CHECK(same(&a, &b, "train.m.w", WIDTH * sizeof(float)));
  CHECK_EQ_INT(scale_of(&b), 1024);
  CHECK_EQ_INT(count_of(&b, "train.good"), 5);
  end(&a);
  end(&b);
}

/* An update that overflows is left out: weights and moments stay, the scale halves, and Adam's correction
 * does not count it. */
TEST(overflow_is_left_out) {
  lesson a, b;
  sn_trainer_options scaled = adam;
  float loss;
  scaled.loss_scale = 0x1p100;
  if (!start(&a, 4, &adam, NULL) || !start(&b, 4, &scaled, NULL))
    return;
  learn(&a, 2);
  CHECK(step(&b, 0, 1, &loss) == SN_OK);
  CHECK(step(&b, 4, 1, &loss) == SN_OK);
  CHECK(same(&a, &b, "w", WIDTH * sizeof(float)));
  CHECK(step(&b, 8, 0x1p30f, &loss) == SN_OK);
  CHECK(isfinite(loss));
  CHECK(same(&a, &b, "w", WIDTH * sizeof(float)));
  CHECK(same(&a, &b, "train.m.w", WIDTH * sizeof(float)));
  CHECK(same(&a, &b, "train.v.w", WIDTH * sizeof(float)));
  CHECK(scale_of(&b) == 0x1p99f);
  CHECK_EQ_INT(count_of(&b, "train.good"), 0);
  CHECK_EQ_INT(count_of(&b, "train.skipped"), 1);
  learn(&a, 3);
  for (int i = 2; i < 5; i++)
    CHECK(step(&b, 4 * i, 1, &loss) == SN_OK);
  CHECK(same(&a, &b, "w", WIDTH * sizeof(float)));
  CHECK(same(&a, &b, "train.v.w", WIDTH * sizeof(float)));
  CHECK_EQ_INT(sn_trainer_steps(b.trainer), 6);
  end(&a);
  end(&b);
}

static void check_growth(float scale, int32_t good, float expected_scale, int32_t expected_good) {
  lesson l;
  sn_trainer_options scaled = plain;
  scaled.loss_scale = (double)scale;
  if (!start(&l, 4, &scaled, NULL))
    return;
  CHECK(sn_store_write(l.f.store, "train.good", &good, sizeof good) == SN_OK);
  learn(&l, 1);
  CHECK(scale_of(&l) == expected_scale);
  CHECK_EQ_INT(count_of(&l, "train.good"), expected_good);
  end(&l);
}

TEST(scale_doubles_after_2000_good_updates) {
  check_growth(8, 1997, 8, 1998);
  check_growth(8, 1998, 8, 1999);
  check_growth(8, 1999, 16, 0);
}

/* Without a bound, a scale of infinity would never come down again. */
TEST(scale_stays_finite) {
  lesson l;
  sn_trainer_options scaled = plain;
  scaled.loss_scale = 0x1p126;
  if (!start(&l, 1, &scaled, NULL))
    return;
  int32_t good = 1999;
  float x[WIDTH] = {0}, y = 0, loss;
  CHECK(sn_store_write(l.f.store, "train.good", &good, sizeof good) == SN_OK);
  CHECK(sn_session_write(sn_trainer_session(l.trainer), "x", x, sizeof x) == SN_OK);
  CHECK(sn_session_write(sn_trainer_session(l.trainer), "y", &y, sizeof y) == SN_OK);
  CHECK(sn_trainer_step(l.trainer, &loss) == SN_OK);
  CHECK(scale_of(&l) == 0x1p126f);
  end(&l);
}

/* A checkpoint's scale stays; the option is for a fresh store. */
TEST(scale_is_kept_by_the_store) {
  lesson a, b;
  sn_trainer_options scaled = plain;
  scaled.loss_scale = 1024;
  if (!start(&a, 4, &scaled, NULL))
    return;
  scaled.loss_scale = 4;
  if (start(&b, 4, &scaled, &a))
    CHECK_EQ_INT(scale_of(&a), 1024);
  end(&b);
  end(&a);
}

static void check_accumulation(const sn_trainer_options *base) {
  lesson whole, parts;
  sn_trainer_options o = *base;
  o.accumulate = 4;
  if (!start(&whole, 8, base, NULL) || !start(&parts, 2, &o, NULL))
    return;
  learn(&whole, 5);
  learn(&parts, 20);
  float a[WIDTH], b[WIDTH];
  CHECK(sn_store_read(whole.f.store, "w", a, sizeof a) == SN_OK);
  CHECK(sn_store_read(parts.f.store, "w", b, sizeof b) == SN_OK);
  for (int i = 0; i < WIDTH; i++)
    CHECK_NEAR(a[i], b[i], 1e-6);
  CHECK_EQ_INT(sn_trainer_steps(parts.trainer), 5);
  CHECK_EQ_INT(sn_trainer_batches(parts.trainer), 20);
  float sum[WIDTH], none[WIDTH] = {0};
  CHECK(sn_store_read(parts.f.store, "train.g.w", sum, sizeof sum) == SN_OK);
  CHECK_EQ_MEM(sum, none, sizeof sum);
  end(&whole);
  end(&parts);
}

TEST(accumulation_equals_one_large_batch) {
  sn_trainer_options scaled = adam;
  scaled.loss_scale = 512;
  check_accumulation(&plain);
  check_accumulation(&adam);
  check_accumulation(&scaled);
}

/* An overflow in one of the parts leaves the whole update out and does not reach the next one. */
TEST(overflow_in_an_accumulation) {
  lesson a, b;
  sn_trainer_options o = adam;
  float loss;
  o.accumulate = 2;
  o.loss_scale = 0x1p100;
  if (!start(&a, 2, &o, NULL) || !start(&b, 2, &o, NULL))
    return;
  CHECK(step(&b, 0, 0x1p30f, &loss) == SN_OK);
  CHECK(step(&b, 2, 1, &loss) == SN_OK);
  CHECK(scale_of(&b) == 0x1p99f);
  for (int i = 0; i < 2; i++) {
    CHECK(step(&a, 2 * i, 1, &loss) == SN_OK);
    CHECK(step(&b, 2 * i, 1, &loss) == SN_OK);
  }
  CHECK(same(&a, &b, "w", WIDTH * sizeof(float)));
  CHECK(same(&a, &b, "train.m.w", WIDTH * sizeof(float)));
  end(&a);
  end(&b);
}

/* An update that was due when the process ended is the first thing that the next one does. */
TEST(due_update_is_made_first) {
  lesson a, b, c;
  sn_trainer_options two = adam, three = adam;
  two.accumulate = 2;
  three.accumulate = 3;
  if (!start(&a, 2, &two, NULL) || !start(&b, 2, &three, NULL))
    return;
  learn(&a, 3);
  learn(&b, 2);
  CHECK_EQ_INT(count_of(&b, "train.pending"), 2);
  if (start(&c, 2, &two, &b)) {
    CHECK_EQ_INT(sn_trainer_steps(c.trainer), 0);
    learn(&c, 1);
    CHECK_EQ_INT(sn_trainer_steps(c.trainer), 1);
    CHECK(all_same(&a, &b));
  }
  end(&c);
  end(&b);
  end(&a);
}

/* Another number of micro-batches on the same store makes no updates from nothing. */
TEST(accumulation_may_change) {
  lesson a, b;
  sn_trainer_options four = adam, two = adam;
  four.accumulate = 4;
  two.accumulate = 2;
  if (!start(&a, 2, &four, NULL))
    return;
  learn(&a, 12);
  CHECK_EQ_INT(sn_trainer_steps(a.trainer), 3);
  if (start(&b, 2, &two, &a)) {
    learn(&b, 1);
    CHECK_EQ_INT(sn_trainer_steps(b.trainer), 3);
    learn(&b, 1);
    CHECK_EQ_INT(sn_trainer_steps(b.trainer), 4);
    learn(&b, 2);
    CHECK_EQ_INT(sn_trainer_steps(b.trainer), 5);
  }
  end(&b);
  end(&a);
}

TEST(rate_follows_the_schedule) {
  lesson a, b;
  sn_trainer_options o = plain, half = plain;
  o.schedule = (sn_schedule){SN_SCHEDULE_LINEAR, 0.02, 0, 0, 4};
  half.schedule.rate = 0.02;
  if (!start(&a, 4, &o, NULL) || !start(&b, 4, &half, NULL))
    return;
  for (int i = 0; i < 4; i++) {
    learn(&a, 1);
    learn(&b, 1);
    CHECK(same(&a, &b, "w", WIDTH * sizeof(float)) == true);
    sn_schedule next = {.rate = 0.02 * (3 - i) / 4};
    sn_trainer_set_schedule(b.trainer, &next);
  }
  snapshot before = snapshot_take(a.f.store, false);
  learn(&a, 1); /* past the total: the rate is 0 */
  CHECK(same(&a, &b, "w", WIDTH * sizeof(float)));
  snapshot_free(&before);
  end(&a);
  end(&b);
}

TEST(loss_not_finite_changes_nothing) {
  for (int k = 0; k < 2; k++) {
    lesson l;
    sn_trainer_options o = adam;
    float loss = 0;
    o.accumulate = k ? 3 : 1;
    if (!start(&l, 4, &o, NULL))
      return;
    learn(&l, 2);
    snapshot before = snapshot_take(l.f.store, true);
    CHECK_EQ_INT(step(&l, 0, 0x1p100f, &loss), SN_ERR_NUMERIC);
    CHECK_STR_HAS(sn_ctx_message(l.f.ctx), "loss");
    CHECK(isnan(loss));
    CHECK(snapshot_unchanged(&before, l.f.store));
    learn(&l, 2);
    end(&l);
  }
}

/* --- checkpoints --- */

/* A schedule that was replaced on the way goes on in the run that resumes. */
TEST(checkpoint_keeps_the_schedule) {
  lesson a, b;
  const char *path = test_scratch("run.safetensors");
  static const sn_safetensors_pair note = {"note", "kept"};
  sn_schedule planned = {SN_SCHEDULE_COSINE, 0.1 / 3, 1e-300, 2, 9};
  sn_safetensors *file;
  if (!start(&a, 4, &adam, NULL) || !start(&b, 4, &adam, NULL))
    return;
  learn(&a, 2);
  sn_trainer_set_schedule(a.trainer, &planned);
  learn(&a, 1);
  CHECK(sn_trainer_save(a.trainer, path, &note, 1) == SN_OK);
  learn(&a, 3);
  CHECK(sn_trainer_load(b.trainer, path) == SN_OK);
  const sn_schedule *s = sn_trainer_schedule(b.trainer);
  CHECK(s->kind == planned.kind && s->rate == planned.rate && s->final_rate == planned.final_rate);
  CHECK(s->warmup == planned.warmup && s->total == planned.total);
  learn(&b, 3);
  CHECK(all_same(&a, &b));
  if (CHECK(sn_safetensors_open(a.f.ctx, path, &file) == SN_OK)) {
    CHECK_EQ_STR(sn_safetensors_metadata(file, "note"), "kept");
    sn_safetensors_close(file);
  }
  end(&a);
  end(&b);
}

/* Whatever a trainer can have, it can have again. */
TEST(checkpoint_of_the_longest_schedule) {
  lesson a, b;
  const char *path = test_scratch("longest.safetensors");
  sn_trainer_options o = adam;
  o.schedule = (sn_schedule){SN_SCHEDULE_LINEAR, 1, 0.5, INT64_MAX, INT64_MAX};
  if (!start(&a, 4, &o, NULL) || !start(&b, 4, &adam, NULL))
    return;
  CHECK(sn_trainer_save(a.trainer, path, NULL, 0) == SN_OK);
  if (!CHECK(sn_trainer_load(b.trainer, path) == SN_OK))
    FAIL("%s", sn_ctx_message(b.f.ctx));
  CHECK(sn_trainer_schedule(b.trainer)->total == INT64_MAX);
  CHECK(sn_trainer_schedule(b.trainer)->warmup == INT64_MAX);
  end(&a);
  end(&b);
}

static void check_load_refused(lesson *l, const char *path, sn_status status, const char *part) {
  snapshot before = snapshot_take(l->f.store, true);
  sn_schedule kept = *sn_trainer_schedule(l->trainer);
  CHECK_EQ_INT(sn_trainer_load(l->trainer, path), status);
  CHECK_STR_HAS(sn_ctx_message(l->f.ctx), part);
  CHECK_STR_HAS(sn_ctx_message(l->f.ctx), path);
  CHECK(snapshot_unchanged(&before, l->f.store));
  CHECK(sn_trainer_schedule(l->trainer)->rate == kept.rate);
  CHECK_EQ_INT(sn_trainer_schedule(l->trainer)->kind, kept.kind);
}

/* Counters that cannot be, and a scale by which nothing would ever be learned. */
TEST(checkpoints_of_impossible_counts) {
  static const char *const counters[] = {"train.step", "train.batch", "train.pending", "train.good",
                                         "train.skipped"};
  static const float scales[] = {0, -1, NAN, INFINITY};
  const char *path = test_scratch("impossible.safetensors");
  const int32_t below = -1, zero = 0;
  sn_trainer_options o = adam;
  lesson l, other;
  o.loss_scale = 4;
  o.accumulate = 2;
  if (!start(&l, 4, &o, NULL) || !start(&other, 4, &o, NULL))
    return;
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
    CHECK(sn_store_write(l.f.store, counters[i], &below, sizeof below) == SN_OK);
    CHECK(sn_trainer_save(l.trainer, path, NULL, 0) == SN_OK);
    check_load_refused(&other, path, SN_ERR_FORMAT, counters[i]);
    CHECK(sn_store_write(l.f.store, counters[i], &zero, sizeof zero) == SN_OK);
  }
  for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
    CHECK(sn_store_write(l.f.store, "train.scale", &scales[i], sizeof scales[i]) == SN_OK);
    CHECK(sn_trainer_save(l.trainer, path, NULL, 0) == SN_OK);
    check_load_refused(&other, path, SN_ERR_FORMAT, "train.scale");
  }
  end(&l);
  end(&other);
}

/* Files that do not fit change neither the store nor the schedule. */
TEST(checkpoints_that_do_not_fit) {
  static const char *const schedules[] = {
      "",
      "2 3fb9999999999999 0000000000000000 1",
      "7 3fb9999999999999 0000000000000000 1 9",
      "-1 3fb9999999999999 0000000000000000 1 9",
      "2 7ff8000000000000 0000000000000000 1 9",
      "2 3fb9999999999999 7ff0000000000000 1 9",
      "two 3fb9999999999999 0000000000000000 1 9",
      "2 bfb9999999999999 0000000000000000 1 9",
      "2 3fb9999999999999 bfb9999999999999 1 9",
      "2 3fb9999999999999 0000000000000000 -1 9",
      "2 3fb9999999999999 0000000000000000 1 -9",
      "2 3fb9999999999999 0000000000000000 1 9 9",
      "2 3fb9999999999999 0x00000000000000 1 9",
      "2 3fb9999999999999 0000000000000000 1 99999999999999999999"};
  const char *path = test_scratch("odd.safetensors");
  lesson l, scaled;
  sn_trainer_options o = adam;
  o.loss_scale = 4;
  o.schedule.rate = 0.5;
  if (!start(&l, 4, &adam, NULL) || !start(&scaled, 4, &o, NULL))
    return;
  check_load_refused(&l, test_scratch("nowhere"), SN_ERR_NOT_FOUND, "nowhere");
  CHECK(sn_store_save(l.f.store, path, NULL, 0) == SN_OK);
  check_load_refused(&l, path, SN_ERR_FORMAT, "no schedule");
  for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
    sn_safetensors_pair pair = {"sinew.schedule", schedules[i]};
    CHECK(sn_store_save(l.f.store, path, &pair, 1) == SN_OK);
    check_load_refused(&l, path, SN_ERR_FORMAT, "no schedule");
  }
  CHECK(sn_trainer_save(l.trainer, path, NULL, 0) == SN_OK);
  check_load_refused(&scaled, path, SN_ERR_NOT_FOUND, "train.");
  sn_safetensors_pair many[40];
  for (int i = 0; i < 40; i++)
    many[i] = (sn_safetensors_pair){"k", "v"};
  CHECK_EQ_INT(sn_trainer_save(l.trainer, path, many, 40), SN_ERR_INVALID);
  end(&l);
  end(&scaled);
}

/* --- the graph --- */

/* A convolution whose weights can have what is behind it. */
static sn_value normed(sn_graph *g, sn_param *w) {
  sn_ints one = SN_INTS(1, 1);
  sn_shape each = SN_SHAPE(4);
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(2, 3, 8, 8));
  w->state = sn_state(g, "w", SN_F32, SN_SHAPE(4, 3, 3, 3), SN_INIT_NORMAL, 1);
  sn_value y = sn_conv(g, x, w->state, SN_NONE, one, one, one, one, 1);
  sn_value weight = sn_state(g, "g", SN_F32, each, SN_INIT_ONES, 0);
  sn_value bias = sn_state(g, "b", SN_F32, each, SN_INIT_ZEROS, 0);
  y = sn_batch_norm(g, y, weight, bias, sn_full(g, SN_F32, each, 0), sn_full(g, SN_F32, each, 1),
                    1e-5);
  return sn_mean(g, sn_sqr(g, sn_relu(g, y)), SN_ALL_AXES, false);
}

/* Counters that no training has: they came from elsewhere than a save. */
TEST(counters_that_no_training_has) {
  static const char *const names[] = {"train.step", "train.skipped", "train.batch", "train.good",
                                      "train.scale"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *path = test_scratch("counters.safetensors");
    sn_trainer_options o = plain;
    lesson a, b;
    int32_t below = -1;
    float scale = -2;
    o.loss_scale = 8;
    REQUIRE(start(&a, 4, &o, NULL) && start(&b, 4, &o, NULL));
    learn(&a, 1);
    learn(&b, 2);
    CHECK(sn_store_write(a.f.store, names[i], i == 4 ? (void *)&scale : &below, 4) == SN_OK);
    CHECK(sn_trainer_save(a.trainer, path, NULL, 0) == SN_OK);
    snapshot before = snapshot_take(b.f.store, true);
    CHECK_EQ_INT(sn_trainer_load(b.trainer, path), SN_ERR_FORMAT);
    CHECK_STR_HAS(sn_ctx_message(b.f.ctx), names[i]);
    CHECK_STR_HAS(sn_ctx_message(b.f.ctx), path);
    CHECK(snapshot_unchanged(&before, b.f.store));
    end(&a);
    end(&b);
  }
}

/* The trainer takes gradients of the graph as recognised, and leaves the caller's alone: that may go. */
TEST(the_graph_is_recognised_and_stays) {
  fixture f;
  sn_trainer *t = NULL, *by_hand = NULL;
  sn_graph *recognised = NULL;
  sn_param w = {.rate = 2};
  float x[2 * 3 * 8 * 8] = {1, -2, 3, 0.5f}, loss = 0;
  char *before = NULL, *after = NULL;
  REQUIRE(fixture_start(&f));
  sn_value mean = normed(f.g, &w), keep[] = {w.state, mean}, kept[2];
  CHECK(sn_graph_print(f.g, &before) == SN_OK);
  CHECK(sn_trainer_create(f.g, mean, &w, 1, f.store, &plain, &t) == SN_OK);
  CHECK(sn_graph_print(f.g, &after) == SN_OK);
  if (before && after)
    CHECK_EQ_STR(after, before);
  CHECK(sn_graph_recognise(f.g, keep, 2, kept, &recognised) == SN_OK);
  sn_graph_destroy(f.g);
  f.g = NULL;
  w.state = kept[0];
  CHECK(sn_trainer_create(recognised, kept[1], &w, 1, f.store, &plain, &by_hand) == SN_OK);
  CHECK(sn_session_write(sn_trainer_session(t), "x", x, sizeof x) == SN_OK);
  CHECK(sn_trainer_step(t, &loss) == SN_OK && loss > 0);
  CHECK_EQ_INT(sn_session_get_stats(sn_trainer_session(t)).steps,
               sn_session_get_stats(sn_trainer_session(by_hand)).steps);
  sn_text_free(f.ctx, before);
  sn_text_free(f.ctx, after);
  sn_trainer_destroy(t);
  sn_trainer_destroy(by_hand);
  sn_graph_destroy(recognised);
  fixture_end(&f);
}

/* --- what create refuses --- */

static void check_refused(const sn_trainer_options *o, sn_dtype dtype, bool state,
                          const char *part) {
  fixture f;
  sn_trainer *t;
  if (!fixture_start(&f))
    return;
  sn_graph *g = f.g;
  sn_value w = state ? sn_state(g, "w", dtype, SN_SHAPE(2), SN_INIT_ZEROS, 0)
                     : sn_input(g, "w", dtype, SN_SHAPE(2));
  sn_param p = {.state = w};
  sn_value loss = sn_mean(g, sn_sqr(g, sn_cast(g, w, SN_F32)), SN_ALL_AXES, false);
  CHECK_EQ_INT(sn_trainer_create(g, loss, &p, 1, f.store, o, &t), SN_ERR_INVALID);
  CHECK(t == NULL);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), part);
  fixture_end(&f);
}

TEST(refusals) {
  sn_trainer_options o = {.accumulate = -1}, c = {.clip_norm = NAN}, s = {.loss_scale = INFINITY};
  sn_trainer_options two = {.accumulate = 2};
  check_refused(NULL, SN_F32, true, "options are missing");
  sn_trainer_options r = {.schedule = {.rate = -0.1}}, n = {.schedule = {.rate = NAN}};
  sn_trainer_options w = {.schedule = {.rate = 1, .warmup = -1}};
  check_refused(&r, SN_F32, true, "schedule: rates");
  check_refused(&n, SN_F32, true, "schedule: rates");
  check_refused(&w, SN_F32, true, "warm-up");
  check_refused(&o, SN_F32, true, "accumulate");
  check_refused(&c, SN_F32, true, "clip_norm");
  check_refused(&s, SN_F32, true, "loss_scale");
  check_refused(&plain, SN_F16, true, "parameter 0 must be an f32 state, got a state of f16");
  check_refused(&plain, SN_F32, false,
                "parameter 0 must be an f32 state, got another value of f32");
  check_refused(&two, SN_F32, false, "parameter 0 must be an f32 state, got another value of f32");
}

TEST(refuses_a_loss_that_is_no_scalar) {
  fixture f;
  sn_trainer *t;
  if (!fixture_start(&f))
    return;
  sn_param p = {.state = sn_state(f.g, "w", SN_F32, SN_SHAPE(2), SN_INIT_ZEROS, 0)};
  CHECK_EQ_INT(sn_trainer_create(f.g, p.state, &p, 1, f.store, &plain, &t), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "the loss must be an f32 scalar, got f32 of rank 1");
  CHECK_EQ_INT(sn_trainer_create(f.g, p.state, &p, 0, f.store, &plain, &t), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "expected at least one parameter, got 0");
  CHECK_EQ_INT(sn_trainer_create(f.g, SN_NONE, &p, 1, f.store, &plain, &t), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "the loss must be an f32 scalar");
  fixture_end(&f);
}

/* --- options of its sessions --- */

static void count_span(void *user, const sn_span *span) {
  (void)span;
  ++*(int *)user;
}

TEST(session_options_are_passed_on) {
  lesson l;
  int spans = 0;
  float loss;
  sn_session_options session = {.span = count_span, .span_user = &spans};
  sn_trainer_options o = plain;
  o.session = &session;
  o.accumulate = 2;
  REQUIRE(start(&l, 4, &o, NULL));
  session = (sn_session_options){.device = "abacus"}; /* no longer of any interest */
  CHECK_EQ_INT(step(&l, 0, 1, &loss), SN_OK);
  int first = spans;
  CHECK_EQ_INT(step(&l, 4, 1, &loss), SN_OK);
  CHECK(first > 0 && spans > 2 * first); /* the second step had an update too */
  end(&l);
}

TEST(session_options_are_checked) {
  static const struct {
    sn_session_options session;
    const char *device;
    sn_status status;
    const char *part;
  } rows[] = {{{.threads = -2}, NULL, SN_ERR_INVALID, "threads"},
              {{.finite_output = "loss"}, NULL, SN_ERR_INVALID, "finite_output"},
              {{.plan_cache = "/no/such"}, NULL, SN_ERR_NOT_FOUND, "/no/such"},
              {{.device = "abacus"}, NULL, SN_ERR_NOT_FOUND, "abacus"},
              {{.device = "abacus"}, "auto", SN_OK, ""}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture f;
    sn_trainer *t;
    sn_trainer_options o = plain;
    o.session = &rows[i].session;
    o.device = rows[i].device;
    REQUIRE(fixture_start(&f));
    sn_param w = {.state = sn_state(f.g, "w", SN_F32, SN_SHAPE(WIDTH), SN_INIT_NORMAL, 1)};
    sn_value loss = sn_mean(f.g, sn_sqr(f.g, w.state), SN_ALL_AXES, false);
    CHECK_EQ_INT(sn_trainer_create(f.g, loss, &w, 1, f.store, &o, &t), rows[i].status);
    CHECK_STR_HAS(sn_ctx_message(f.ctx), rows[i].part);
    sn_trainer_destroy(t);
    fixture_end(&f);
  }
}
