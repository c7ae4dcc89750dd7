/* Generation from ids. One graph: the new ids run through the model, the last row's logits are drawn from.
 * With a cache it sees only the ids that are new, SN_GENERATE_PIECE at the most in one run, so that memory for
 * intermediate values does not grow with the longest sequence; without one, the whole sequence every time. The weights
 * are the shared store's, read anew in each run; cache and random key are in a store of the generator's
 * own, so that generators do not disturb each other or a checkpoint.
 *
 * Every run draws, also that of a piece which is not the last: the key is put back behind it, so that a seed gives the
 * same draws whatever the pieces. Rows of the cache from `fed` on mean nothing. */
#include "base/null.h"

#include <sinew/compose.h>
#include <sinew/model.h>
#include <string.h>

struct sn_generator {
  sn_ctx *ctx;
  int64_t capacity, vocab;
  int64_t piece; /* most ids in a run */
  bool recompute;
  sn_graph *graph;
  sn_store *local;
  sn_session *session;
  int32_t *ids;       /* the sequence so far, capacity entries */
  int32_t *positions; /* of a piece, piece entries */
  int64_t n;
  int64_t fed; /* of them already in the cache */
  bool full;   /* the last id drawn had no room */
};

#define KEY "generator.key"

/* i32 [1] drawn from the last row. */
static sn_value draw(const sn_generator *gen, const sn_generate_options *o, sn_value last) {
  sn_graph *g = gen->graph;
  double penalty = o->repetition_penalty == 0 ? 1 : o->repetition_penalty;
  sn_value history = SN_NONE;
  if (penalty != 1)
    history = sn_input(g, "history", SN_I32, SN_SHAPE(1, sn_symbol(g, "seen", gen->capacity)));
  return sn_sample(g, last, sn_random_key(g, KEY), history, o->temperature, o->top_k,
                   o->top_p == 0 ? 1 : o->top_p, o->min_p, penalty, SN_AUTO);
}

static sn_status build(sn_generator *gen, const sn_model *model, const sn_generate_options *o) {
  sn_graph *g = gen->graph;
  sn_dim tokens = sn_symbol(g, "tokens", gen->piece);
  sn_model_inputs in = {.ids = sn_input(g, "ids", SN_I32, SN_SHAPE(1, tokens)),
                        .positions = sn_input(g, "positions", SN_I32, SN_SHAPE(tokens))};
  if (!gen->recompute) {
    in.batch = 1;
    in.capacity = gen->capacity;
    in.start = sn_input(g, "start", SN_I32, SN_SCALAR);
    in.kv_length = sn_input(g, "kv_length", SN_I32, SN_SHAPE(1));
  }
  sn_value logits = sn_model_logits(model, g, &in);
  sn_value last = sn_slice(g, logits, 1, sn_dim_sub(g, tokens, 1), tokens, 1);
  last = sn_reshape(g, last, SN_SHAPE(1, gen->vocab));
  sn_output(g, "logits", last);
  sn_output(g, "next", draw(gen, o, last));
  return sn_graph_status(g);
}

static bool is_local(const char *name) {
  return strncmp(name, "cache.", 6) == 0 || strcmp(name, KEY) == 0;
}

/* The generator's own states; what else the graph reads must be in the shared store. */
static sn_status add_local(sn_generator *gen, uint64_t seed) {
  int n = sn_graph_states(gen->graph, NULL, 0);
  size_t size = (size_t)n * sizeof(sn_value);
  sn_value *states = sn_ctx_alloc(gen->ctx, size);
  sn_status status = states ? SN_OK : SN_ERR_NO_MEMORY;
  if (states)
    sn_graph_states(gen->graph, states, n);
  for (int i = 0; i < n && status == SN_OK; i++) {
    const char *name = sn_value_name(gen->graph, states[i]);
    if (is_local(name))
      status = sn_store_add(gen->local, name, sn_value_type(gen->graph, states[i]), NULL);
  }
  sn_ctx_free(gen->ctx, states, size);
  int32_t key[3] = {(int32_t)(uint32_t)seed, (int32_t)(uint32_t)(seed >> 32), 0};
  if (status == SN_OK)
    status = sn_store_write(gen->local, KEY, key, sizeof key);
  return status;
}

static sn_status prepare(sn_generator *gen, const sn_model *model, sn_store *store,
                         const sn_generate_options *o) {
  SN_TRY(sn_graph_create(gen->ctx, &gen->graph));
  SN_TRY(sn_store_create(gen->ctx, &gen->local));
  SN_TRY(build(gen, model, o));
  SN_TRY(add_local(gen, o->seed));
  sn_session_options session = o->session ? *o->session : (sn_session_options){0};
  session.local = gen->local;
  if (o->device)
    session.device = o->device;
  return sn_session_create(gen->graph, store, &session, &gen->session);
}

static sn_status check_options(sn_ctx *ctx, const sn_generate_options *o, int64_t longest) {
  if (o->capacity < 0 || o->capacity > longest)
    return sn_ctx_fail(ctx, SN_ERR_INVALID, "generate: capacity must lie in 0 … %lld, got %lld",
                       (long long)longest, (long long)o->capacity);
  if (o->session && o->session->local)
    return sn_ctx_fail(ctx, SN_ERR_INVALID,
                       "generate: session.local must be NULL: a generator has its own");
  return SN_OK; /* sn_sample checks the others */
}

sn_status sn_generator_create(const sn_model *model, sn_store *store,
                              const sn_generate_options *options, sn_generator **out_generator) {
  CLEARS(out_generator);
  NEEDS(model);
  NEEDS_ARGUMENT(sn_model_ctx(model), store);
  NEEDS_ARGUMENT(sn_model_ctx(model), out_generator);
  const sn_model_config *config = sn_model_get_config(model);
  const sn_generate_options defaults = {0};
  sn_ctx *ctx = sn_model_ctx(model);
  if (!options)
    options = &defaults;
  SN_TRY(check_options(ctx, options, config->max_length));
  sn_generator *gen = sn_ctx_alloc(ctx, sizeof *gen);
  if (!gen)
    return SN_ERR_NO_MEMORY;
  gen->ctx = ctx;
  gen->capacity = options->capacity ? options->capacity : config->max_length;
  gen->vocab = config->vocab;
  gen->recompute = options->recompute;
  gen->piece = gen->capacity;
  if (!gen->recompute && gen->piece > SN_GENERATE_PIECE)
    gen->piece = SN_GENERATE_PIECE;
  gen->ids = sn_ctx_alloc(ctx, (size_t)gen->capacity * sizeof *gen->ids);
  gen->positions = sn_ctx_alloc(ctx, (size_t)gen->piece * sizeof *gen->positions);
  bool room = gen->ids && gen->positions;
  sn_status status = room ? prepare(gen, model, store, options) : SN_ERR_NO_MEMORY;
  if (status == SN_OK)
    *out_generator = gen;
  else
    sn_generator_destroy(gen);
  return status;
}

void sn_generator_destroy(sn_generator *gen) {
  if (!gen)
    return;
  sn_ctx *ctx = gen->ctx;
  sn_session_destroy(gen->session);
  sn_store_destroy(gen->local);
  sn_graph_destroy(gen->graph);
  sn_ctx_free(ctx, gen->ids, (size_t)gen->capacity * sizeof *gen->ids);
  sn_ctx_free(ctx, gen->positions, (size_t)gen->piece * sizeof *gen->positions);
  sn_ctx_free(ctx, gen, sizeof *gen);
}

static sn_status append(sn_generator *gen, const int32_t *ids, size_t n) {
  if (n > (size_t)(gen->capacity - gen->n))
    return sn_ctx_fail(gen->ctx, SN_ERR_INVALID,
                       "generate: %lld ids and %zu more exceed the room for %lld",
                       (long long)gen->n, n, (long long)gen->capacity);
  for (size_t i = 0; i < n; i++)
    if (ids[i] < 0 || ids[i] >= gen->vocab)
      return sn_ctx_fail(gen->ctx, SN_ERR_INVALID, "generate: id %d is outside of 0 … %lld", ids[i],
                         (long long)gen->vocab - 1);
  if (n)
    memcpy(gen->ids + gen->n, ids, n * sizeof *ids);
  gen->n += (int64_t)n;
  return SN_OK;
}

/* Runs rows from … end-1. */
static sn_status run_piece(sn_generator *gen, int64_t from, int64_t end) {
  sn_session *s = gen->session;
  int32_t start = (int32_t)from, length = (int32_t)end;
  size_t size = (size_t)(end - from) * sizeof(int32_t);
  for (int64_t i = from; i < end; i++)
    gen->positions[i - from] = (int32_t)i;
  SN_TRY(sn_session_bind(s, "tokens", end - from));
  SN_TRY(sn_session_write(s, "ids", gen->ids + from, size));
  SN_TRY(sn_session_write(s, "positions", gen->positions, size));
  if (!gen->recompute) {
    SN_TRY(sn_session_write(s, "start", &start, sizeof start));
    SN_TRY(sn_session_write(s, "kv_length", &length, sizeof length));
  }
  return sn_session_run(s);
}

/* All that the last id is drawn from, whichever piece runs. */
static sn_status write_history(sn_generator *gen) {
  sn_session *s = gen->session;
  if (sn_session_find_input(s, "history") < 0)
    return SN_OK;
  SN_TRY(sn_session_bind(s, "seen", gen->n));
  return sn_session_write(s, "history", gen->ids, (size_t)gen->n * sizeof *gen->ids);
}

/* Runs what is new, piece by piece. */
static sn_status feed(sn_generator *gen) {
  int64_t from = gen->recompute ? 0 : gen->fed;
  int32_t key[3];
  SN_TRY(write_history(gen));
  SN_TRY(sn_store_read(gen->local, KEY, key, sizeof key));
  for (; gen->n - from > gen->piece; from += gen->piece) {
    SN_TRY(run_piece(gen, from, from + gen->piece));
    SN_TRY(sn_store_write(gen->local, KEY, key, sizeof key));
  }
  return run_piece(gen, from, gen->n);
}

sn_status sn_generator_next(sn_generator *gen, const int32_t *ids, size_t n, int32_t *out_id) {
  NEEDS(gen);
  NEEDS_ARGUMENT(gen->ctx, out_id);
  NEEDS_ARGUMENT_IF(gen->ctx, n > 0, ids);
  int64_t before = gen->n;
  *out_id = -1;
  SN_TRY(append(gen, ids, n));
  if (gen->n == 0)
    return sn_ctx_fail(gen->ctx, SN_ERR_INVALID, "generate: the prompt is empty");
  if (gen->full)
    return sn_ctx_fail(gen->ctx, SN_ERR_INVALID, "generate: the room for %lld ids is used up",
                       (long long)gen->capacity);
  sn_status status = feed(gen);
  if (status == SN_OK)
    status = sn_session_read(gen->session, "next", out_id, sizeof *out_id);
  if (status != SN_OK) {
    gen->n = before;
    return status;
  }
  gen->fed = gen->recompute ? 0 : gen->n;
  gen->full = gen->n == gen->capacity;
  if (!gen->full)
    gen->ids[gen->n++] = *out_id;
  return SN_OK;
}

sn_status sn_generator_logits(sn_generator *gen, float *out_logits, size_t n) {
  NEEDS(gen);
  NEEDS_ARGUMENT_IF(gen->ctx, n > 0, out_logits);
  return sn_session_read(gen->session, "logits", out_logits, n * sizeof *out_logits);
}
