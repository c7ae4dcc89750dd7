/* Weights from a folder's safetensors. Files are untrusted: every tensor is found and its shape compared
 * before the store grows by a byte, and all are read before any entry changes.
 *
 * Files of a bare model, without its head, leave out the prefix of the names ("h.0.…" for
 * "transformer.h.0.…"): the ones that OpenAI's GPT-2 came in. */
#include "nn/model.h"

#include <stdio.h>
#include <string.h>

typedef struct weight {
  const char *name;
  sn_type type;
  size_t tensor; /* in the file */
  int64_t count;
  void *data;
} weight;

typedef struct loading {
  sn_ctx *ctx;
  sn_store *store;
  sn_safetensors *file;
  weight *weights;
  size_t n;
} loading;

static const sn_safetensors_tensor *find(const sn_safetensors *file, const char *name) {
  static const char *const prefixes[] = {"transformer.", "model."};
  const sn_safetensors_tensor *t = sn_safetensors_find(file, name);
  for (int i = 0; i < 2 && !t; i++)
    if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
      t = sn_safetensors_find(file, name + strlen(prefixes[i]));
  return t;
}

static const char *shape_text(const sn_shape *s, char *out, size_t size) {
  size_t used = (size_t)snprintf(out, size, "[");
  for (int d = 0; d < s->rank && used < size; d++)
    used +=
        (size_t)snprintf(out + used, size - used, "%s%lld", d ? ", " : "", (long long)s->dim[d]);
  if (used < size)
    snprintf(out + used, size - used, "]");
  return out;
}

static bool shape_equal(const sn_shape *a, const sn_shape *b) {
  bool equal = a->rank == b->rank;
  for (int d = 0; equal && d < a->rank; d++)
    equal = a->dim[d] == b->dim[d];
  return equal;
}

/* An entry that is there already must have the weight's type. */
static sn_status check_entry(const loading *l, const weight *w) {
  char expected[200], got[200];
  sn_entry e;
  if (!sn_store_has(l->store, w->name))
    return SN_OK;
  SN_TRY(sn_store_find(l->store, w->name, &e));
  if (e.type.dtype == w->type.dtype && shape_equal(&e.type.shape, &w->type.shape))
    return SN_OK;
  return sn_ctx_fail(l->ctx, SN_ERR_INVALID, "entry \"%s\": expected %s%s, the store has %s%s",
                     w->name, sn_dtype_name(w->type.dtype),
                     shape_text(&w->type.shape, expected, sizeof expected),
                     sn_dtype_name(e.type.dtype), shape_text(&e.type.shape, got, sizeof got));
}

static sn_status locate(loading *l, weight *w) {
  char expected[200], got[200];
  const sn_safetensors_tensor *t = find(l->file, w->name);
  if (!t)
    return sn_ctx_fail(l->ctx, SN_ERR_NOT_FOUND, "tensor \"%s\" is missing in the files", w->name);
  if (!shape_equal(&t->shape, &w->type.shape))
    return sn_ctx_fail(l->ctx, SN_ERR_INVALID, "tensor \"%s\": expected %s, the files have %s",
                       w->name, shape_text(&w->type.shape, expected, sizeof expected),
                       shape_text(&t->shape, got, sizeof got));
  w->tensor = t->index;
  w->count = t->count;
  return check_entry(l, w);
}

static size_t bytes_of(const weight *w) { return (size_t)w->count * sn_dtype_size(w->type.dtype); }

static sn_status read_weights(loading *l) {
  for (size_t i = 0; i < l->n; i++)
    SN_TRY(locate(l, &l->weights[i]));
  for (size_t i = 0; i < l->n; i++) {
    weight *w = &l->weights[i];
    w->data = sn_ctx_alloc(l->ctx, bytes_of(w));
    if (!w->data)
      return SN_ERR_NO_MEMORY;
    SN_TRY(sn_safetensors_read(l->file, w->tensor, w->type.dtype, w->data, w->count));
  }
  return SN_OK;
}

static sn_status fill_store(const loading *l) {
  for (size_t i = 0; i < l->n; i++) {
    const weight *w = &l->weights[i];
    if (sn_store_has(l->store, w->name))
      SN_TRY(sn_store_write(l->store, w->name, w->data, bytes_of(w)));
    else
      SN_TRY(sn_store_add(l->store, w->name, w->type, w->data));
  }
  return SN_OK;
}

/* g: a graph whose states are the weights. */
static sn_status load(loading *l, const sn_graph *g, const sn_value *states) {
  for (size_t i = 0; i < l->n; i++)
    l->weights[i] =
        (weight){.name = sn_value_name(g, states[i]), .type = sn_value_type(g, states[i])};
  SN_TRY(read_weights(l));
  return fill_store(l);
}

sn_status nn_load(sn_ctx *ctx, sn_store *store, sn_safetensors *file, const sn_graph *g) {
  loading l = {.ctx = ctx, .store = store, .file = file, .n = (size_t)sn_graph_states(g, NULL, 0)};
  size_t size = l.n * sizeof *l.weights, states_size = l.n * sizeof(sn_value);
  sn_value *states = sn_ctx_alloc(ctx, states_size);
  l.weights = states ? sn_ctx_alloc(ctx, size) : NULL;
  sn_status status = SN_ERR_NO_MEMORY;
  if (l.weights) {
    sn_graph_states(g, states, (int)l.n);
    status = load(&l, g, states);
  }
  for (size_t i = 0; l.weights && i < l.n; i++)
    sn_ctx_free(ctx, l.weights[i].data, bytes_of(&l.weights[i]));
  sn_ctx_free(ctx, l.weights, size);
  sn_ctx_free(ctx, states, states_size);
  return status;
}
