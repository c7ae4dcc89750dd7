/* Graphs from files, and what a run of them needs. See replay.h. */
#include "cli/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool replay_ends_in(const char *path, const char *ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n >= m && strcmp(path + n - m, ending) == 0;
}

bool replay_is_graph(const char *path) { return replay_ends_in(path, ".txt"); }

/* --- opening --- */

static sn_status list_leaves(replay *r) {
  int n_states = sn_graph_states(r->graph, NULL, 0);
  r->n_inputs = sn_graph_inputs(r->graph, NULL, 0);
  r->n_leaves = r->n_inputs + n_states;
  sn_value *values = calloc((size_t)r->n_leaves + 1, sizeof *values);
  r->leaves = calloc((size_t)r->n_leaves + 1, sizeof *r->leaves);
  bool done = values && r->leaves;
  if (done) {
    sn_graph_inputs(r->graph, values, r->n_inputs);
    sn_graph_states(r->graph, values + r->n_inputs, n_states);
  }
  for (int i = 0; done && i < r->n_leaves; i++)
    r->leaves[i] = (replay_leaf){.value = values[i],
                                 .name = sn_value_name(r->graph, values[i]),
                                 .is_state = i >= r->n_inputs};
  free(values);
  return done ? SN_OK : sn_ctx_fail(r->ctx, SN_ERR_NO_MEMORY, "out of memory");
}

static sn_status list_symbols(replay *r) {
  while (sn_graph_symbol(r->graph, r->n_symbols, NULL))
    r->n_symbols++;
  r->symbols = calloc((size_t)r->n_symbols + 1, sizeof *r->symbols);
  r->values = calloc((size_t)r->n_symbols + 1, sizeof *r->values);
  if (!r->symbols || !r->values)
    return sn_ctx_fail(r->ctx, SN_ERR_NO_MEMORY, "out of memory");
  for (int i = 0; i < r->n_symbols; i++)
    r->symbols[i].name = sn_graph_symbol(r->graph, i, &r->symbols[i].max);
  return SN_OK;
}

static bool has_results(const replay *r) {
  bool has = sn_graph_output(r->graph, 0, NULL) != NULL;
  for (int i = r->n_inputs; i < r->n_leaves; i++)
    has = has || sn_graph_assigned(r->graph, r->leaves[i].value).id;
  return has;
}

sn_status replay_open(sn_ctx *ctx, const char *path, replay *out) {
  *out = (replay){.ctx = ctx, .path = path};
  SN_TRY(sn_graph_parse_file(ctx, path, &out->graph));
  SN_TRY(list_leaves(out));
  SN_TRY(list_symbols(out));
  if (!has_results(out))
    return sn_ctx_fail(ctx, SN_ERR_INVALID, "%s: the graph has no outputs and assigns nothing",
                       path);
  return SN_OK;
}

void replay_close(replay *r) {
  for (int i = 0; r->leaves && i < r->n_leaves; i++)
    sn_ctx_free(r->ctx, r->leaves[i].data, r->leaves[i].size);
  free(r->leaves);
  free(r->symbols);
  free(r->values);
  sn_graph_destroy(r->graph);
  *r = (replay){0};
}

/* --- symbols --- */

sn_status replay_bind(replay *r, const char *text) {
  const char *equals = strchr(text, '=');
  char *end;
  int s = 0;
  errno = 0;
  long long value = equals ? strtoll(equals + 1, &end, 10) : 0;
  if (!equals || end == equals + 1 || *end || errno)
    return sn_ctx_fail(r->ctx, SN_ERR_INVALID,
                       "--bind: expected SYMBOL=N, a whole number, got \"%s\"", text);
  size_t n = (size_t)(equals - text);
  while (s < r->n_symbols &&
         (strlen(r->symbols[s].name) != n || memcmp(r->symbols[s].name, text, n) != 0))
    s++;
  if (s == r->n_symbols)
    return sn_ctx_fail(r->ctx, SN_ERR_NOT_FOUND, "--bind: the graph has no symbol \"%.*s\"", (int)n,
                       text);
  replay_symbol *symbol = &r->symbols[s];
  if (value < 0 || value > symbol->max)
    return sn_ctx_fail(r->ctx, SN_ERR_INVALID, "--bind: symbol %s: expected 0 … %lld, got %lld",
                       symbol->name, (long long)symbol->max, value);
  if (symbol->origin)
    return sn_ctx_fail(r->ctx, SN_ERR_INVALID, "--bind: symbol %s is given twice", symbol->name);
  symbol->origin = REPLAY_GIVEN;
  r->values[s] = value;
  return SN_OK;
}

/* A dim where one symbol that is not known has this value, all others like it have none (false) or their maxima. */
static bool dim_where(replay *r, sn_dim dim, int symbol, int64_t value, bool others_max,
                      int64_t *out) {
  for (int s = 0; s < r->n_symbols; s++)
    if (!r->symbols[s].origin)
      r->values[s] = s == symbol ? value : others_max ? r->symbols[s].max : 0;
  return sn_dim_value(r->graph, dim, r->values, out) == SN_OK;
}

/* The value of a symbol under which a dim, that is a line in it, is `size` whatever the other unknown symbols are. */
static bool solve(replay *r, sn_dim dim, int s, int64_t size, int64_t *out) {
  int64_t at0, at1, check;
  if (r->symbols[s].max < 1 || !dim_where(r, dim, s, 0, false, &at0) ||
      !dim_where(r, dim, s, 1, false, &at1) || at0 == at1)
    return false;
  *out = (size - at0) / (at1 - at0);
  return *out >= 0 && *out <= r->symbols[s].max && dim_where(r, dim, s, *out, true, &check) &&
         check == size;
}

/* One symbol more that is known from the shape of a given input; false when there is none. */
static bool learn_symbol(replay *r) {
  for (int i = 0; i < r->n_inputs; i++) {
    const replay_leaf *leaf = &r->leaves[i];
    sn_shape shape = sn_value_type(r->graph, leaf->value).shape;
    if (!leaf->file || leaf->given.rank != shape.rank)
      continue;
    for (int d = 0; d < shape.rank; d++)
      for (int s = 0; s < r->n_symbols; s++) {
        int64_t value;
        if (r->symbols[s].origin || !solve(r, shape.dim[d], s, leaf->given.dim[d], &value))
          continue;
        r->values[s] = value;
        r->symbols[s].origin = REPLAY_SHAPE;
        r->symbols[s].input = leaf->name;
        return true;
      }
  }
  return false;
}

static void settle_symbols(replay *r) {
  while (learn_symbol(r))
    continue;
  for (int s = 0; s < r->n_symbols; s++)
    if (!r->symbols[s].origin) {
      r->values[s] = r->symbols[s].max;
      r->symbols[s].origin = REPLAY_MAXIMUM;
    }
}

/* --- types and values --- */

sn_status replay_reserve(replay *r, replay_leaf *leaf, sn_dtype dtype, sn_shape shape) {
  int64_t bytes = (int64_t)sn_dtype_size(dtype);
  for (int d = 0; d < shape.rank; d++)
    if (__builtin_mul_overflow(bytes, shape.dim[d], &bytes))
      return sn_ctx_fail(r->ctx, SN_ERR_NO_MEMORY, "%s: too many bytes", leaf->name);
  leaf->data = sn_ctx_alloc(r->ctx, (size_t)bytes);
  if (!leaf->data)
    return sn_ctx_within(r->ctx, SN_ERR_NO_MEMORY, "%s", leaf->name);
  leaf->size = (size_t)bytes;
  return SN_OK;
}

static bool same_shape(sn_shape a, sn_shape b) {
  return a.rank == b.rank && memcmp(a.dim, b.dim, (size_t)a.rank * sizeof *a.dim) == 0;
}

static sn_status settle_leaf(replay *r, replay_leaf *leaf, const replay_drawing *drawing) {
  char want[REPLAY_TYPE], got[REPLAY_TYPE];
  sn_type type = sn_value_type(r->graph, leaf->value);
  for (int d = 0; d < type.shape.rank; d++) {
    SN_TRY(sn_dim_value(r->graph, type.shape.dim[d], r->values, &type.shape.dim[d]));
    if (type.shape.dim[d] < 0)
      return sn_ctx_fail(r->ctx, SN_ERR_INVALID,
                         "%s: size %d is %lld under these symbols: bind them with --bind",
                         leaf->name, d, (long long)type.shape.dim[d]);
  }
  leaf->type = type;
  if (leaf->file && !same_shape(type.shape, leaf->given))
    return sn_ctx_fail(r->ctx, SN_ERR_INVALID, "%s: %s: expected %s, got %s", leaf->file,
                       leaf->name, replay_type_text(type, want),
                       replay_type_text((sn_type){type.dtype, leaf->given}, got));
  if (leaf->file || leaf->is_state)
    return SN_OK;
  SN_TRY(replay_reserve(r, leaf, type.dtype, type.shape));
  replay_draw(leaf, drawing);
  return SN_OK;
}

sn_status replay_settle(replay *r, const replay_drawing *drawing) {
  settle_symbols(r);
  for (int i = 0; i < r->n_leaves; i++)
    SN_TRY(settle_leaf(r, &r->leaves[i], drawing));
  return SN_OK;
}

/* --- starting --- */

static sn_status fill_store(const replay *r, uint64_t seed, sn_store *store) {
  for (int i = r->n_inputs; i < r->n_leaves; i++)
    if (r->leaves[i].data)
      SN_TRY(sn_store_add(store, r->leaves[i].name, r->leaves[i].type, r->leaves[i].data));
  return sn_store_init(store, r->graph, seed);
}

static sn_status fill_session(const replay *r, sn_session *session) {
  for (int s = 0; s < r->n_symbols; s++)
    SN_TRY(sn_session_bind(session, r->symbols[s].name, r->values[s]));
  for (int i = 0; i < r->n_inputs; i++)
    SN_TRY(sn_session_write(session, r->leaves[i].name, r->leaves[i].data, r->leaves[i].size));
  return SN_OK;
}

sn_status replay_start(const replay *r, uint64_t seed, const sn_session_options *options,
                       sn_store **out_store, sn_session **out_session) {
  *out_session = NULL;
  SN_TRY(sn_store_create(r->ctx, out_store));
  sn_status status = fill_store(r, seed, *out_store);
  if (status == SN_OK)
    status = sn_session_create(r->graph, *out_store, options, out_session);
  if (status == SN_OK)
    status = fill_session(r, *out_session);
  if (status != SN_OK) {
    sn_session_destroy(*out_session);
    sn_store_destroy(*out_store);
    *out_session = NULL;
    *out_store = NULL;
  }
  return status;
}
