/* The trainer: gradients into one graph, which is the caller's as recognised, updates into the same graph or, with
 * accumulation, into a second one that runs every so many micro-batches. Every counter is state, so the store alone says where
 * training stands; an update that is due but not made (the process failed in between) is made first.
 *
 * Counters: train.step, updates due so far, those that loss scaling left out among them (the schedule
 * follows it); train.skipped, those left out; train.batch, micro-batches seen (the data follows it);
 * train.pending, micro-batches summed up since the last update. */
#include "base/null.h"

#include "train/optimizer.h"
#include "train/schedule.h"

#include <math.h>
#include <stdio.h>

struct sn_trainer {
  sn_ctx *ctx;
  sn_store *store;
  sn_trainer_options options;
  int64_t accumulate;
  sn_graph *step_graph, *update_graph;   /* the latter NULL when the step's graph updates too */
  const char *watch_step, *watch_update; /* outputs, static text; NULL: none */
  double most_rate;                      /* with which no parameter can overflow: see optimizer.h */
  bool may_overflow;                     /* they can, and are watched */
  sn_session *step, *update;
};

typedef struct trainer_build {
  sn_trainer *t;
  sn_graph *g;
  sn_param *params;
  sn_value *grads;
  int n;
  /* What must be finite before anything is committed; SN_NONE: not asked for. */
  sn_value loss, norm, largest;
} trainer_build;

enum { GOOD_UPDATES = 2000 }; /* before the loss scale doubles */
static const double LEAST_SCALE = 0x1p-126, MOST_SCALE = 0x1p126;

static sn_value counter(sn_graph *g, const char *name) {
  return sn_state(g, name, SN_I32, SN_SCALAR, SN_INIT_ZEROS, 0);
}

static void count_up(sn_graph *g, sn_value state) {
  sn_assign(g, state, sn_add(g, state, sn_scalar(g, SN_I32, 1)));
}

static sn_value scale_state(sn_graph *g) {
  return sn_state(g, "train.scale", SN_F32, SN_SCALAR, SN_INIT_ZEROS, 0);
}

/* Undoes the loss scale and watches it. Yields whether the gradients, of that norm then, are finite. */
static sn_value unscale(const trainer_build *b, sn_value *norm) {
  sn_graph *g = b->g;
  sn_value scale = scale_state(g), good = counter(g, "train.good");
  for (int i = 0; i < b->n; i++)
    b->grads[i] = sn_div(g, b->grads[i], scale);
  *norm = sn_global_norm(g, b->grads, b->n);
  sn_value finite = sn_logical_not(g, sn_logical_or(g, sn_isnan(g, *norm), sn_isinf(g, *norm)));
  sn_value next_good = sn_add(g, good, sn_scalar(g, SN_I32, 1));
  sn_value grow =
      sn_logical_and(g, finite, sn_ge(g, next_good, sn_scalar(g, SN_I32, GOOD_UPDATES)));
  sn_value zero = sn_scalar(g, SN_I32, 0);
  sn_assign(g, good,
            sn_where(g, sn_logical_and(g, finite, sn_logical_not(g, grow)), next_good, zero));
  sn_value kept = sn_where(g, grow, sn_affine(g, scale, 2, 0), scale);
  sn_value next = sn_where(g, finite, kept, sn_affine(g, scale, 0.5, 0));
  sn_assign(g, scale, sn_clamp(g, next, LEAST_SCALE, MOST_SCALE));
  return finite;
}

/* The update from b->grads: unscale, clip, step. */
static void build_update(trainer_build *b) {
  sn_graph *g = b->g;
  const sn_trainer_options *o = &b->t->options;
  sn_value rate = sn_input(g, "train.rate", SN_F32, SN_SCALAR), step = counter(g, "train.step");
  sn_value apply = SN_NONE, made = step, norm;
  if (o->loss_scale > 0) { /* what is not finite is left out */
    sn_value skipped = counter(g, "train.skipped");
    apply = unscale(b, &norm);
    sn_assign(g, skipped, sn_add(g, skipped, sn_cast(g, sn_logical_not(g, apply), SN_I32)));
    made = sn_sub(g, step, skipped);
  } else {
    b->norm = norm = sn_global_norm(g, b->grads, b->n);
  }
  if (o->clip_norm > 0)
    sn_clip_by_norm(g, norm, o->clip_norm, b->grads, b->n);
  sn_value largest =
      optimizer_build(g, &o->optimizer, rate, made, b->params, b->grads, b->n, apply);
  if (b->t->may_overflow)
    b->largest = largest;
  count_up(g, step);
}

static sn_value accumulator(sn_graph *g, sn_value param) {
  char name[640];
  sn_type t = sn_value_type(g, param);
  snprintf(name, sizeof name, "train.g.%s", sn_value_name(g, param));
  return sn_state(g, name, t.dtype, t.shape, SN_INIT_ZEROS, 0);
}

/* Step graph with accumulation: g ← g + grad. With a loss scale sums may overflow: the update finds out. */
static void build_accumulation(trainer_build *b) {
  for (int i = 0; i < b->n; i++) {
    sn_value sum = accumulator(b->g, b->params[i].state);
    sn_assign(b->g, sum, sn_add(b->g, sum, b->grads[i]));
  }
  if (!(b->t->options.loss_scale > 0))
    b->norm = sn_global_norm(b->g, b->grads, b->n);
  count_up(b->g, counter(b->g, "train.pending"));
}

/* The output that the session looks at before it commits: a number for each thing that must be finite. Its name says what
 * they are, so that a message with name and numbers tells which. */
static const char *watch(const trainer_build *b) {
  static const char *const names[] = {NULL,
                                      "[loss]",
                                      "[gradient norm]",
                                      "[loss, gradient norm]",
                                      "[largest next parameter]",
                                      "[loss, largest next parameter]",
                                      "[gradient norm, largest next parameter]",
                                      "[loss, gradient norm, largest next parameter]"};
  const sn_value all[] = {b->loss, b->norm, b->largest};
  sn_value rows[3];
  int n = 0, which = 0;
  for (int i = 0; i < 3; i++)
    if (all[i].id) {
      which |= 1 << i;
      rows[n++] = sn_reshape(b->g, all[i], SN_SHAPE(1));
    }
  if (which == 0)
    return NULL;
  sn_output(b->g, names[which], n == 1 ? rows[0] : sn_concat(b->g, rows, n, 0));
  return names[which];
}

/* Update graph: the mean of the gradients summed up since the last update, which it clears. Dividing by
 * how many there were keeps it a mean when `accumulate` is changed on the way. Parameters and gradients are those of
 * this graph afterwards. */
static sn_status build_update_graph(trainer_build *b) {
  sn_trainer *t = b->t;
  sn_status status = sn_graph_create(t->ctx, &t->update_graph);
  if (status != SN_OK)
    return status;
  sn_graph *g = t->update_graph;
  sn_value pending = counter(g, "train.pending"), count = sn_cast(g, pending, SN_F32);
  sn_assign(g, pending, sn_scalar(g, SN_I32, 0));
  for (int i = 0; i < b->n; i++) {
    sn_value trained = b->params[i].state;
    sn_type type = sn_value_type(b->g, trained);
    b->params[i].state =
        sn_state(g, sn_value_name(b->g, trained), type.dtype, type.shape, SN_INIT_ZEROS, 0);
    sn_value sum = accumulator(g, b->params[i].state);
    b->grads[i] = sn_div(g, sum, count);
    sn_assign(g, sum, sn_full(g, type.dtype, type.shape, 0));
  }
  trainer_build u = {t, g, b->params, b->grads, b->n, SN_NONE, SN_NONE, SN_NONE};
  build_update(&u);
  t->watch_update = watch(&u);
  return sn_graph_status(g);
}

/* The step's graph from the caller's, before gradients are taken. values: parameters, and the loss behind them. */
static sn_status recognise(trainer_build *b, const sn_graph *g, sn_value *values) {
  SN_TRY(sn_graph_recognise(g, values, b->n + 1, values, &b->t->step_graph));
  b->g = b->t->step_graph;
  for (int i = 0; i < b->n; i++)
    b->params[i].state = values[i];
  return SN_OK;
}

static sn_status build_graphs(trainer_build *b, const sn_value *values) {
  sn_graph *g = b->g;
  sn_trainer *t = b->t;
  sn_value loss = b->loss = values[b->n];
  sn_output(g, "loss", loss);
  sn_value scaled = loss;
  if (t->options.loss_scale > 0)
    scaled = sn_mul(g, loss, scale_state(g));
  sn_status status = sn_graph_status(g);
  if (status == SN_OK)
    status = sn_grad(g, scaled, values, b->n, b->grads);
  if (status != SN_OK)
    return status;
  count_up(g, counter(g, "train.batch"));
  if (t->accumulate == 1)
    build_update(b);
  else
    build_accumulation(b);
  t->watch_step = watch(b);
  status = sn_graph_status(g);
  if (t->accumulate == 1)
    return status;
  return status == SN_OK ? build_update_graph(b) : status;
}

/* What the store lacks; a fresh loss scale starts as asked. */
static sn_status init_store(sn_trainer *t, uint64_t seed) {
  bool fresh = !sn_store_has(t->store, "train.scale");
  float scale = (float)t->options.loss_scale;
  sn_status status = sn_store_init(t->store, t->step_graph, seed);
  if (status == SN_OK && t->update_graph)
    status = sn_store_init(t->store, t->update_graph, seed);
  if (status == SN_OK && fresh && scale > 0)
    status = sn_store_write(t->store, "train.scale", &scale, sizeof scale);
  return status;
}

static sn_status make_sessions(sn_trainer *t) {
  sn_session_options o = t->options.session ? *t->options.session : (sn_session_options){0};
  if (t->options.device)
    o.device = t->options.device;
  o.finite_output = t->watch_step;
  SN_TRY(sn_session_create(t->step_graph, t->store, &o, &t->step));
  o.finite_output = t->watch_update;
  return t->update_graph ? sn_session_create(t->update_graph, t->store, &o, &t->update) : SN_OK;
}

static sn_status build_all(trainer_build *b, const sn_graph *g, sn_value *values) {
  SN_TRY(recognise(b, g, values));
  SN_TRY(build_graphs(b, values));
  SN_TRY(init_store(b->t, 0));
  return make_sessions(b->t);
}

static sn_status build(sn_trainer *t, const sn_graph *g, sn_value loss, const sn_param *params,
                       int n) {
  size_t own = (size_t)n * sizeof(sn_param), size = ((size_t)n + 1) * sizeof(sn_value);
  trainer_build b = {
      .t = t, .params = sn_ctx_alloc(t->ctx, own), .grads = sn_ctx_alloc(t->ctx, size), .n = n};
  sn_value *values = sn_ctx_alloc(t->ctx, size);
  sn_status status = SN_ERR_NO_MEMORY;
  if (b.params && b.grads && values) {
    for (int i = 0; i < n; i++) {
      b.params[i] = params[i];
      values[i] = params[i].state;
    }
    values[n] = loss;
    status = build_all(&b, g, values);
  }
  sn_ctx_free(t->ctx, b.params, own);
  sn_ctx_free(t->ctx, b.grads, size);
  sn_ctx_free(t->ctx, values, size);
  return status;
}

static bool is_listed(sn_value v, const sn_value *list, int n) {
  bool found = false;
  for (int i = 0; i < n && !found; i++)
    found = list[i].id == v.id;
  return found;
}

static sn_status check_params(const sn_graph *g, const sn_param *params, int n) {
  sn_ctx *ctx = sn_graph_ctx(g);
  int n_states = sn_graph_states(g, NULL, 0);
  size_t size = (size_t)n_states * sizeof(sn_value);
  sn_value *states = sn_ctx_alloc(ctx, size);
  sn_status status = states ? SN_OK : SN_ERR_NO_MEMORY;
  if (states)
    sn_graph_states(g, states, n_states);
  for (int i = 0; i < n && status == SN_OK; i++) {
    sn_dtype dtype = sn_value_type(g, params[i].state).dtype;
    bool state = is_listed(params[i].state, states, n_states);
    for (int k = 0; k < i && status == SN_OK; k++)
      if (params[k].state.id == params[i].state.id)
        status = sn_ctx_fail(ctx, SN_ERR_INVALID, "trainer: parameters %d and %d are both \"%s\"",
                             k, i, sn_value_name(g, params[i].state));
    if (status == SN_OK && (!state || dtype != SN_F32))
      status =
          sn_ctx_fail(ctx, SN_ERR_INVALID, "trainer: parameter %d must be an f32 state, got %s%s",
                      i, state ? "a state of " : "another value of ", sn_dtype_name(dtype));
  }
  sn_ctx_free(ctx, states, size);
  return status;
}

/* A parameter that no gradient can reach would never be trained. What blocked ones are blocked by sn_grad says. */
static sn_status check_paths(const sn_graph *g, sn_value loss, const sn_param *params, int n) {
  sn_ctx *ctx = sn_graph_ctx(g);
  size_t size = (size_t)n * sizeof(sn_value), paths_size = (size_t)n * sizeof(sn_grad_path);
  sn_value *states = sn_ctx_alloc(ctx, size);
  sn_grad_path *paths = sn_ctx_alloc(ctx, paths_size);
  sn_status status = SN_ERR_NO_MEMORY;
  for (int i = 0; i < n && states; i++)
    states[i] = params[i].state;
  if (states && paths)
    status = sn_grad_paths(g, loss, states, n, paths);
  for (int i = 0; i < n && status == SN_OK; i++)
    if (paths[i] == SN_GRAD_UNUSED || paths[i] == SN_GRAD_STOPPED)
      status = sn_ctx_fail(
          ctx, SN_ERR_INVALID, "trainer: parameter \"%s\" would never be trained: the loss %s",
          sn_value_name(g, states[i]),
          paths[i] == SN_GRAD_UNUSED ? "does not use it" : "uses it behind stop_gradient only");
  sn_ctx_free(ctx, states, size);
  sn_ctx_free(ctx, paths, paths_size);
  return status;
}

static sn_status check(const sn_graph *g, sn_value loss, int n, const sn_trainer_options *o) {
  sn_ctx *ctx = sn_graph_ctx(g);
  sn_type t = sn_value_type(g, loss);
  if (!o)
    return sn_ctx_fail(ctx, SN_ERR_INVALID, "trainer: options are missing: a rate has no default");
  if (sn_graph_status(g) != SN_OK)
    return sn_ctx_fail(ctx, sn_graph_status(g), "%s", sn_graph_message(g));
  if (n < 1)
    return sn_ctx_fail(ctx, SN_ERR_INVALID, "trainer: expected at least one parameter, got %d", n);
  if (!schedule_is_usable(&o->schedule))
    return sn_ctx_fail(
        ctx, SN_ERR_INVALID,
        "trainer: schedule: rates must lie in 0 … 2^32, warm-up and total must not be negative");
  if (o->accumulate < 0 || !(o->clip_norm >= 0) ||
      !(o->loss_scale >= 0 && o->loss_scale <= MOST_SCALE))
    return sn_ctx_fail(ctx, SN_ERR_INVALID,
                       "trainer: accumulate, clip_norm and loss_scale must not be negative, nor "
                       "loss_scale above 2^126");
  if (o->session && (o->session->local || o->session->finite_output))
    return sn_ctx_fail(ctx, SN_ERR_INVALID,
                       "trainer: session.local and session.finite_output must be NULL");
  if (t.dtype != SN_F32 || t.shape.rank != 0)
    return sn_ctx_fail(ctx, SN_ERR_INVALID,
                       "trainer: the loss must be an f32 scalar, got %s of rank %d",
                       sn_dtype_name(t.dtype), t.shape.rank);
  return SN_OK;
}

sn_status sn_trainer_create(const sn_graph *g, sn_value loss, const sn_param *params, int n,
                            sn_store *store, const sn_trainer_options *options,
                            sn_trainer **out_trainer) {
  CLEARS(out_trainer);
  NEEDS(g);
  NEEDS_ARGUMENT(sn_graph_ctx(g), params);
  NEEDS_ARGUMENT(sn_graph_ctx(g), store);
  NEEDS_ARGUMENT(sn_graph_ctx(g), out_trainer);
  sn_ctx *ctx = sn_graph_ctx(g);
  SN_TRY(check(g, loss, n, options));
  SN_TRY(check_params(g, params, n));
  SN_TRY(optimizer_check(ctx, &options->optimizer, params, n));
  SN_TRY(check_paths(g, loss, params, n));
  sn_trainer *t = sn_ctx_alloc(ctx, sizeof *t);
  if (!t)
    return SN_ERR_NO_MEMORY;
  t->ctx = ctx;
  t->store = store;
  t->options = *options;
  t->accumulate = options->accumulate ? options->accumulate : 1;
  t->most_rate = optimizer_most_rate(&options->optimizer, params, n);
  t->may_overflow = fmax(options->schedule.rate, options->schedule.final_rate) > t->most_rate;
  sn_status status = build(t, g, loss, params, n);
  t->options.session = NULL; /* the caller's, and read */
  if (status == SN_OK)
    *out_trainer = t;
  else
    sn_trainer_destroy(t);
  return status;
}

void sn_trainer_destroy(sn_trainer *t) {
  if (!t)
    return;
  sn_session_destroy(t->step);
  sn_session_destroy(t->update);
  sn_graph_destroy(t->step_graph);
  sn_graph_destroy(t->update_graph);
  sn_ctx_free(t->ctx, t, sizeof *t);
}

sn_session *sn_trainer_session(sn_trainer *t) {
  NEEDS_OR(t, NULL);
  return t->step;
}
sn_store *sn_trainer_store(const sn_trainer *t) {
  NEEDS_OR(t, NULL);
  return t->store;
}
const sn_schedule *sn_trainer_schedule(const sn_trainer *t) {
  NEEDS_OR(t, NULL);
  return &t->options.schedule;
}

void sn_trainer_set_schedule(sn_trainer *t, const sn_schedule *schedule) {
  NEEDS_OR(t, );
  NEEDS_OR(schedule, );
  t->options.schedule = *schedule;
}

static int64_t read_counter(const sn_trainer *t, const char *name) {
  int32_t n = 0;
  return sn_store_read(t->store, name, &n, sizeof n) == SN_OK ? n : 0;
}

int64_t sn_trainer_steps(const sn_trainer *t) {
  NEEDS_OR(t, 0);
  return read_counter(t, "train.step");
}
int64_t sn_trainer_batches(const sn_trainer *t) {
  NEEDS_OR(t, 0);
  return read_counter(t, "train.batch");
}

/* The schedule may be another one by now. */
static sn_status write_rate(sn_trainer *t, sn_session *s) {
  double wanted = sn_schedule_rate(&t->options.schedule, sn_trainer_steps(t));
  float rate = (float)wanted;
  if (!(wanted >= 0 && wanted <= OPTIMIZER_MOST_RATE) ||
      (wanted > t->most_rate && !t->may_overflow))
    return sn_ctx_fail(t->ctx, SN_ERR_INVALID,
                       "trainer: the schedule's rate must lie in 0 … %g with these options, got %g",
                       t->may_overflow ? OPTIMIZER_MOST_RATE : t->most_rate, wanted);
  return sn_session_write(s, "train.rate", &rate, sizeof rate);
}

static bool update_due(const sn_trainer *t) {
  return t->update && read_counter(t, "train.pending") >= t->accumulate;
}

static sn_status run_update(sn_trainer *t) {
  SN_TRY(write_rate(t, t->update));
  return sn_session_run(t->update);
}

sn_status sn_trainer_step(sn_trainer *t, float *out_loss) {
  NEEDS(t);
  NEEDS_ARGUMENT(t->ctx, out_loss);
  *out_loss = NAN;
  if (update_due(t))
    SN_TRY(run_update(t));
  if (!t->update)
    SN_TRY(write_rate(t, t->step));
  SN_TRY(sn_session_run(t->step));
  SN_TRY(sn_session_read(t->step, "loss", out_loss, sizeof *out_loss));
  return update_due(t) ? run_update(t) : SN_OK;
}
