/* Running a graph on one device, and writing what comes of it. See run.h. */
#include "cli/run.h"

#include <stdlib.h>
#include <string.h>

static int count_results(const replay *r) {
  int n = 0;
  while (sn_graph_output(r->graph, n, NULL))
    n++;
  for (int i = r->n_inputs; i < r->n_leaves; i++)
    n += sn_graph_assigned(r->graph, r->leaves[i].value).id != 0;
  return n;
}

static sn_status take_output(sn_ctx *ctx, sn_session *session, run_result *out) {
  int at = sn_session_find_output(session, out->name);
  SN_TRY(sn_session_output_type(session, at, &out->type));
  size_t size = (size_t)replay_count(out->type.shape) * sn_dtype_size(out->type.dtype);
  out->data = sn_ctx_alloc(ctx, size);
  if (!out->data)
    return SN_ERR_NO_MEMORY;
  out->size = size;
  return sn_session_read_at(session, at, out->data, size);
}

static sn_status take_state(sn_ctx *ctx, sn_store *store, run_result *out) {
  sn_entry entry;
  out->is_state = true;
  SN_TRY(sn_store_find(store, out->name, &entry));
  out->type = entry.type;
  out->data = sn_ctx_alloc(ctx, entry.size);
  if (!out->data)
    return SN_ERR_NO_MEMORY;
  out->size = entry.size;
  return sn_store_read(store, out->name, out->data, entry.size);
}

static sn_status take_results(const replay *r, sn_store *store, sn_session *session,
                              run_side *side) {
  for (int i = 0; sn_graph_output(r->graph, i, NULL); i++) {
    run_result *result = &side->results[side->n++];
    result->name = sn_graph_output(r->graph, i, NULL);
    SN_TRY(take_output(r->ctx, session, result));
  }
  for (int i = r->n_inputs; i < r->n_leaves; i++) {
    if (!sn_graph_assigned(r->graph, r->leaves[i].value).id)
      continue;
    run_result *result = &side->results[side->n++];
    result->name = r->leaves[i].name;
    SN_TRY(take_state(r->ctx, store, result));
  }
  return SN_OK;
}

static sn_status run_often(sn_session *session, int64_t runs) {
  for (int64_t i = 0; i < runs; i++)
    SN_TRY(sn_session_run(session));
  return SN_OK;
}

sn_status run_side_make(const replay *r, const sn_session_options *options, uint64_t seed,
                        int64_t runs, run_side *out) {
  sn_store *store;
  sn_session *session;
  int device = sn_device_find(options->device);
  *out = (run_side){.device = device < 0 ? options->device : sn_device_name(device)};
  out->results = calloc((size_t)count_results(r) + 1, sizeof *out->results);
  if (!out->results)
    return sn_ctx_fail(r->ctx, SN_ERR_NO_MEMORY, "out of memory");
  sn_status status = replay_start(r, seed, options, &store, &session);
  if (status != SN_OK)
    return sn_ctx_within(r->ctx, status, "%s: on %s", r->path, out->device);
  status = run_often(session, runs);
  if (status == SN_OK)
    status = take_results(r, store, session, out);
  if (status != SN_OK)
    status = sn_ctx_within(r->ctx, status, "%s: on %s", r->path, out->device);
  sn_session_destroy(session);
  sn_store_destroy(store);
  return status;
}

void run_side_free(sn_ctx *ctx, run_side *side) {
  for (int i = 0; i < side->n; i++)
    sn_ctx_free(ctx, side->results[i].data, side->results[i].size);
  free(side->results);
  *side = (run_side){0};
}

/* --- writing --- */

static sn_status write_safetensors(sn_ctx *ctx, const char *path, const run_side *side) {
  sn_safetensors_item *items = calloc((size_t)side->n + 1, sizeof *items);
  size_t n = 0;
  if (!items)
    return sn_ctx_fail(ctx, SN_ERR_NO_MEMORY, "out of memory");
  for (size_t width = 4; width > 0; width /= 2) /* wide dtypes first, so that all are aligned */
    for (int i = 0; i < side->n; i++) {
      const run_result *x = &side->results[i];
      if (sn_dtype_size(x->type.dtype) == width)
        items[n++] = (sn_safetensors_item){x->name, x->type, x->data};
    }
  sn_status status = sn_safetensors_write(ctx, path, items, n, NULL, 0);
  free(items);
  return status;
}

sn_status run_write(sn_ctx *ctx, const char *path, const run_side *side) {
  const run_result *first = &side->results[0];
  if (!replay_ends_in(path, ".npy"))
    SN_TRY(write_safetensors(ctx, path, side));
  else if (first->is_state)
    return sn_ctx_fail(ctx, SN_ERR_INVALID, "--out: %s: the graph has no output", path);
  else
    SN_TRY(sn_npy_write(ctx, path, first->type, first->data));
  fprintf(stderr, "wrote %s\n", path);
  return SN_OK;
}
