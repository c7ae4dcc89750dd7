/* Weights from a folder's safetensors: which tensor each comes from. What an error leaves of the store is said in
 * sinew/store.h.
 *
 * Files of a bare model, without its head, leave out the prefix of the names ("h.0.…" for
 * "transformer.h.0.…"): the ones that OpenAI's GPT-2 came in. */
#include "nn/model.h"

#include <stdio.h>
#include <string.h>

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

static sn_status locate(sn_ctx *ctx, const sn_safetensors *file, sn_store_source *w) {
  char expected[200], got[200];
  const sn_safetensors_tensor *t = find(file, w->name);
  if (!t)
    return sn_ctx_fail(ctx, SN_ERR_NOT_FOUND, "tensor \"%s\" is missing in the files", w->name);
  if (!shape_equal(&t->shape, &w->type.shape))
    return sn_ctx_fail(ctx, SN_ERR_INVALID, "tensor \"%s\": expected %s, the files have %s",
                       w->name, shape_text(&w->type.shape, expected, sizeof expected),
                       shape_text(&t->shape, got, sizeof got));
  w->tensor = t->index;
  return SN_OK;
}

sn_status nn_load(sn_ctx *ctx, sn_store *store, sn_safetensors *file, const sn_graph *g) {
  size_t n = (size_t)sn_graph_states(g, NULL, 0);
  sn_value *states = sn_ctx_alloc(ctx, n * sizeof *states);
  sn_store_source *weights = states ? sn_ctx_alloc(ctx, n * sizeof *weights) : NULL;
  sn_status status = weights ? SN_OK : SN_ERR_NO_MEMORY;
  if (weights)
    sn_graph_states(g, states, (int)n);
  for (size_t i = 0; i < n && status == SN_OK; i++) {
    weights[i] =
        (sn_store_source){.name = sn_value_name(g, states[i]), .type = sn_value_type(g, states[i])};
    status = locate(ctx, file, &weights[i]);
  }
  if (status == SN_OK)
    status = sn_store_load_tensors(store, weights, n, file);
  sn_ctx_free(ctx, weights, n * sizeof *weights);
  sn_ctx_free(ctx, states, n * sizeof *states);
  return status;
}
