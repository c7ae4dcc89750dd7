/* The list of workloads, the formulas of parameters and inputs. See <sinew/workload.h>. */
#include "base/null.h"

#include "nn/workload.h"

#include <math.h>
#include <string.h>

static const sn_workload *const workloads[] = {&workload_smollm2, &workload_smolvla, &workload_unet,
                                               &workload_resnet50, &workload_whisper};

enum { COUNT = sizeof workloads / sizeof *workloads };

const sn_workload *sn_workload_at(int index) {
  return index >= 0 && index < COUNT ? workloads[index] : NULL;
}

const sn_workload *sn_workload_find(const char *name) {
  NEEDS_OR(name, NULL);
  for (int i = 0; i < COUNT; i++)
    if (strcmp(workloads[i]->name, name) == 0)
      return workloads[i];
  return NULL;
}

const char *sn_workload_name(const sn_workload *w) {
  NEEDS_OR(w, NULL);
  return w->name;
}
const char *sn_workload_summary(const sn_workload *w) {
  NEEDS_OR(w, NULL);
  return w->summary;
}

/* --- parameters. Products and sums below are rounded one by one to f32: the build forbids contraction. --- */

static uint32_t hash(const char *name) {
  uint32_t h = 0;
  for (const char *c = name; *c; c++)
    h = h * 31 + (unsigned char)*c;
  return h;
}

static bool begins_with(const char *s, const char *begin) {
  return strncmp(s, begin, strlen(begin)) == 0;
}

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && strcmp(s + n - m, end) == 0;
}

static int64_t count_of(const sn_shape *s) {
  int64_t n = 1;
  for (int d = 0; d < s->rank; d++)
    n *= s->dim[d];
  return n;
}

static bool is_transposed(const sn_workload *w, const char *name) {
  for (size_t i = 0; i < sizeof w->transposed / sizeof *w->transposed && w->transposed[i]; i++)
    if (ends_with(name, w->transposed[i]))
      return true;
  return false;
}

void workload_fill_arena(const sn_workload *w, const char *name, const sn_shape *s, float *out) {
  int64_t n = count_of(s), rows = 1, columns = n; /* as filled: [rows, columns] */
  float offset = (float)(hash(name) % 10000);
  if (s->rank == 1 && w->unit_norms && begins_with(name, w->unit_norms)) {
    for (int64_t j = 0; j < n; j++)
      out[j] = ends_with(name, "weight") ? 1 : 0;
    return;
  }
  if (is_transposed(w, name)) {
    rows = s->dim[1];
    columns = s->dim[0];
  }
  for (int64_t j = 0; j < n; j++)
    out[j % columns * rows + j / columns] = sinf((float)j * 0.01f + offset) * w->scale;
}

/* Uniform in [-1, 1): a multiple of 2^-23. */
static float mixed(uint32_t h, int64_t j) {
  uint32_t x = (uint32_t)((uint64_t)j * 2654435761u) ^ h;
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  x ^= x >> 16;
  return (float)(x >> 8) * 0x1p-23f - 1;
}

void workload_fill_live(const char *name, const sn_shape *s, float *out) {
  int64_t n = count_of(s);
  uint32_t h = hash(name);
  float scale = 0.1f, shift = ends_with(name, "weight") ? 1 : 0;
  if (s->rank >= 2) {
    scale = (float)sqrt(3.0 / (double)(n / s->dim[0]));
    shift = 0;
  }
  for (int64_t j = 0; j < n; j++)
    out[j] = scale * mixed(h, j) + shift;
}

static sn_status fill_one(const sn_workload *w, sn_workload_init init, const char *name,
                          sn_type type, sn_ctx *ctx, sn_store *store) {
  size_t size = (size_t)count_of(&type.shape) * sizeof(float);
  float *data = sn_ctx_alloc(ctx, size);
  if (!data)
    return SN_ERR_NO_MEMORY;
  if (init == SN_WORKLOAD_ARENA)
    workload_fill_arena(w, name, &type.shape, data);
  else
    workload_fill_live(name, &type.shape, data);
  sn_status status = sn_store_has(store, name) ? sn_store_write(store, name, data, size)
                                               : sn_store_add(store, name, type, data);
  sn_ctx_free(ctx, data, size);
  return status;
}

sn_status sn_workload_fill(const sn_workload *w, const sn_graph *g, sn_workload_init init,
                           sn_store *store) {
  NEEDS(w);
  NEEDS(g);
  NEEDS(store);
  sn_ctx *ctx = sn_graph_ctx(g);
  int n = sn_graph_states(g, NULL, 0);
  size_t size = (size_t)n * sizeof(sn_value);
  sn_value *states = sn_ctx_alloc(ctx, size);
  if (!states)
    return SN_ERR_NO_MEMORY;
  sn_graph_states(g, states, n);
  sn_status status = SN_OK;
  for (int i = 0; i < n && status == SN_OK; i++)
    status =
        fill_one(w, init, sn_value_name(g, states[i]), sn_value_type(g, states[i]), ctx, store);
  sn_ctx_free(ctx, states, size);
  return status;
}

int sn_workload_trainable(const sn_workload *w, const sn_graph *g, sn_value *out, int capacity) {
  NEEDS_OR(w, 0);
  NEEDS_OR(g, 0);
  int n = sn_graph_states(g, out, capacity), kept = 0;
  int written = n < capacity ? n : capacity;
  if (!w->not_trained)
    return n;
  for (int i = 0; i < written; i++)
    if (strcmp(sn_value_name(g, out[i]), w->not_trained) != 0)
      out[kept++] = out[i];
  return n - 1;
}

/* --- graph and inputs --- */

static const sn_shape *shape_in(const workload_input *in, sn_workload_form form) {
  return form == SN_WORKLOAD_FULL ? &in->full : &in->latency;
}

sn_status sn_workload_build(const sn_workload *w, sn_graph *g, sn_workload_form form,
                            sn_workload_values *out) {
  NEEDS(w);
  NEEDS(g);
  NEEDS_ARGUMENT(sn_graph_ctx(g), out);
  sn_value in[WORKLOAD_MAX_INPUTS];
  *out = (sn_workload_values){SN_NONE, SN_NONE};
  for (int i = 0; i < WORKLOAD_MAX_INPUTS; i++) {
    const workload_input *row = &w->inputs[i];
    const sn_shape *shape = shape_in(row, form);
    in[i] = row->name && shape->rank ? sn_input(g, row->name, row->dtype, *shape) : SN_NONE;
  }
  SN_TRY(w->build(g, in, out));
  if (form == SN_WORKLOAD_LATENCY)
    out->loss = SN_NONE;
  return sn_graph_status(g);
}

static void fill_input(const workload_input *in, bool zeros, int64_t n, void *data) {
  for (int64_t i = 0; i < n; i++) {
    double x = zeros ? 0 : in->value(i);
    if (in->dtype == SN_I32)
      ((int32_t *)data)[i] = (int32_t)x;
    else
      ((float *)data)[i] = (float)x;
  }
}

static sn_status write_input(const workload_input *in, sn_ctx *ctx, sn_workload_form form,
                             sn_session *session) {
  int64_t n = count_of(shape_in(in, form));
  size_t size = (size_t)n * sn_dtype_size(in->dtype);
  void *data = sn_ctx_alloc(ctx, size);
  if (!data)
    return SN_ERR_NO_MEMORY;
  fill_input(in, in->latency_zeros && form == SN_WORKLOAD_LATENCY, n, data);
  sn_status status = sn_session_write(session, in->name, data, size);
  sn_ctx_free(ctx, data, size);
  return status;
}

sn_status sn_workload_write(const sn_workload *w, const sn_graph *g, sn_workload_form form,
                            sn_session *session) {
  NEEDS(w);
  NEEDS(g);
  NEEDS(session);
  for (int i = 0; i < WORKLOAD_MAX_INPUTS && w->inputs[i].name; i++)
    if (shape_in(&w->inputs[i], form)->rank)
      SN_TRY(write_input(&w->inputs[i], sn_graph_ctx(g), form, session));
  return SN_OK;
}
