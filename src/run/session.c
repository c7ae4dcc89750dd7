/* Sessions: making them, symbols, inputs, outputs, and the frame of a run: check that all is there, take the locks of the
 * stores, let the engine (session_ref.c, session_plan.c) compute and commit, and only then show its outputs. */
#include "base/null.h"

#include "run/session.h"

#include "base/memory.h"
#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"

#include <math.h>
#include <stdio.h>

/* --- buffers --- */

bool session_buffer_reserve(sn_ctx *ctx, session_buffer *b, size_t size) {
  size_t room;
  if (b->data && size <= b->room)
    return true;
  if (!size_add_fits(size, SESSION_ALIGN, &room)) {
    (void)!diag_fail(ctx, SN_ERR_NO_MEMORY, "out of memory: asked for %zu bytes", size);
    return false;
  }
  void *block = memory_expect(ctx, "a buffer", room) == SN_OK ? mem_alloc(ctx, room) : NULL;
  if (!block)
    return false;
  session_buffer_free(ctx, b);
  size_t past = (uintptr_t)block % SESSION_ALIGN;
  *b = (session_buffer){(char *)block + (past ? SESSION_ALIGN - past : 0), block, size};
  return true;
}

void session_buffer_free(sn_ctx *ctx, session_buffer *b) {
  mem_free(ctx, b->block, b->room + SESSION_ALIGN);
  *b = (session_buffer){0};
}

/* --- making one --- */

static int count_inputs(const sn_graph *g) {
  int n = 0;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    n += g->nodes[i].op == OP_input;
  return n;
}

static void collect_inputs(sn_session *s) {
  const sn_graph *g = s->graph;
  int n = 0;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (g->nodes[i].op == OP_input)
      s->inputs[n++] = (session_input){.leaf = node_result(&g->nodes[i], 0),
                                       .name = graph_leaf_name(g, &g->nodes[i])};
}

sn_store *session_home(const sn_session *s, const char *state) {
  return s->local && store_find(s->local, state) ? s->local : s->store;
}

/* In the order of their addresses, so that sessions which share two stores cannot wait for each other. */
static void lock(const sn_session *s) {
  bool local_first = (uintptr_t)s->local < (uintptr_t)s->store;
  sn_store *first = local_first ? s->local : s->store, *second = local_first ? s->store : s->local;
  if (first)
    store_lock(first);
  if (second)
    store_lock(second);
}

static void unlock(const sn_session *s) {
  if (s->store)
    store_unlock(s->store);
  if (s->local)
    store_unlock(s->local);
}

static sn_status check_states(const sn_session *s) {
  const sn_graph *g = s->graph;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const node *n = &g->nodes[i];
    store_entry *e;
    if (n->op == OP_state)
      SN_TRY(store_entry_of(session_home(s, graph_leaf_name(g, n)), s->ctx, g, n, &e));
  }
  return SN_OK;
}

static sn_status allocate(sn_session *s) {
  const sn_graph *g = s->graph;
  s->n_inputs = count_inputs(g);
  s->n_outputs = g->n_outputs;
  s->n_assigns = g->n_assigns;
  s->n_symbols = dim_symbol_count(g);
  s->n_nodes = g->n_nodes;
  s->inputs = mem_array(s->ctx, (size_t)s->n_inputs, sizeof *s->inputs);
  s->outputs = mem_array(s->ctx, (size_t)s->n_outputs, sizeof *s->outputs);
  s->next = mem_array(s->ctx, (size_t)s->n_outputs, sizeof *s->next);
  s->bindings = mem_array(s->ctx, (size_t)s->n_symbols, sizeof *s->bindings);
  return s->inputs && s->outputs && s->next && s->bindings ? SN_OK : SN_ERR_NO_MEMORY;
}

static sn_status fill(sn_session *s, const sn_session_options *o) {
  SN_TRY(allocate(s));
  collect_inputs(s);
  for (int i = 0; i < s->n_outputs; i++)
    s->outputs[i].name = s->next[i].name = s->graph->outputs[i].name;
  for (int i = 0; i < s->n_symbols; i++)
    s->bindings[i] = -1;
  if (o->threads < 0 || o->threads > SN_MAX_THREADS)
    return diag_fail(s->ctx, SN_ERR_INVALID, "session: threads must lie in 0 … %d, got %d",
                     SN_MAX_THREADS, o->threads);
  if (o->precision < SN_PRECISION_EXACT || o->precision > SN_PRECISION_HALF)
    return diag_fail(s->ctx, SN_ERR_INVALID, "session: unknown precision %d", (int)o->precision);
  SN_TRY(session_choose(s->ctx, o->device, &s->engine, &s->device));
  if (o->finite_output && (s->finite_output = sn_session_find_output(s, o->finite_output)) < 0)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: no output \"%s\" to watch",
                     o->finite_output);
  lock(s);
  sn_status status = check_states(s);
  unlock(s);
  return status == SN_OK ? s->engine->create(s, o) : status;
}

sn_status sn_session_create(const sn_graph *graph, sn_store *store,
                            const sn_session_options *options, sn_session **out_session) {
  CLEARS(out_session);
  NEEDS(graph);
  NEEDS_ARGUMENT(graph->ctx, out_session);
  static const sn_session_options defaults = {0};
  SN_TRY(graph_check(graph, graph->ctx));
  sn_session *s = mem_alloc(graph->ctx, sizeof *s);
  if (!s)
    return SN_ERR_NO_MEMORY;
  *s = (sn_session){.ctx = graph->ctx, .graph = graph, .store = store, .finite_output = -1};
  const sn_session_options *o = options ? options : &defaults;
  s->progress = o->progress;
  s->local = o->local == store ? NULL : o->local;
  sn_status status = fill(s, o);
  if (status == SN_OK)
    *out_session = s;
  else
    sn_session_destroy(s);
  return status;
}

static void free_outputs(sn_session *s, session_output *outputs) {
  for (int i = 0; outputs && i < s->n_outputs; i++)
    session_buffer_free(s->ctx, &outputs[i].buffer);
  mem_free(s->ctx, outputs, (size_t)s->n_outputs * sizeof *outputs);
}

void sn_session_destroy(sn_session *s) {
  if (!s)
    return;
  if (s->engine)
    s->engine->destroy(s);
  for (int i = 0; s->inputs && i < s->n_inputs; i++)
    session_buffer_free(s->ctx, &s->inputs[i].buffer);
  mem_free(s->ctx, s->inputs, (size_t)s->n_inputs * sizeof *s->inputs);
  free_outputs(s, s->outputs);
  free_outputs(s, s->next);
  mem_free(s->ctx, s->bindings, (size_t)s->n_symbols * sizeof *s->bindings);
  mem_free(s->ctx, s, sizeof *s);
}

/* --- running --- */

sn_status session_value_type(sn_session *s, sn_value v, const char *what, const char *name,
                             sn_type *out_type, size_t *out_size) {
  const sn_graph *g = s->graph;
  sn_type type = g->values[v.id].type;
  int64_t bytes = (int64_t)sn_dtype_size(type.dtype);
  for (int d = 0; d < type.shape.rank; d++) {
    sn_dim *dim = &type.shape.dim[d];
    bool fits = dim_eval(g, *dim, s->bindings, dim);
    if (!fits || *dim < 0)
      return diag_fail(s->ctx, SN_ERR_INVALID,
                       "%s \"%s\": dim %d is %lld under these symbol values", what, name, d,
                       (long long)*dim);
    if (!mul_fits(bytes, *dim, &bytes))
      return diag_fail(s->ctx, SN_ERR_NO_MEMORY, "%s \"%s\" is too large", what, name);
  }
  *out_type = type;
  *out_size = (size_t)bytes;
  return SN_OK;
}

sn_status session_reserve_outputs(sn_session *s, bool watched) {
  for (int i = 0; i < s->n_outputs; i++) {
    session_output *o = &s->next[i];
    SN_TRY(
        session_value_type(s, s->graph->outputs[i].value, "output", o->name, &o->type, &o->size));
    bool wanted = !watched || i == s->finite_output;
    if (wanted && !session_buffer_reserve(s->ctx, &o->buffer, o->size))
      return diag_within(s->ctx, SN_ERR_NO_MEMORY, "output \"%s\"", o->name);
  }
  return SN_OK;
}

/* An output that was found not to be finite at `at`: all of it where that is little, which tells what else is not. */
static sn_status fail_not_finite(const sn_session *s, const session_output *o, int64_t count,
                                 int64_t at) {
  enum { FEW = 8, ROOM = 160 };
  bool few = count <= FEW;
  char shown[ROOM];
  int used = 0;
  for (int64_t i = few ? 0 : at; i < (few ? count : at + 1); i++)
    used += snprintf(shown + used, (size_t)(ROOM - used), "%s%g", used ? ", " : "",
                     dtype_load(o->type.dtype, o->buffer.data, i));
  return diag_fail(s->ctx, SN_ERR_NUMERIC, "run: output \"%s\" is %s; nothing was committed",
                   o->name, shown);
}

sn_status session_check_finite(const sn_session *s) {
  if (s->finite_output < 0)
    return SN_OK;
  const session_output *o = &s->next[s->finite_output];
  int64_t count = (int64_t)(o->size / sn_dtype_size(o->type.dtype));
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(dtype_load(o->type.dtype, o->buffer.data, i)))
      return fail_not_finite(s, o, count, i);
  return SN_OK;
}

static sn_status check_ready(const sn_session *s) {
  const sn_graph *g = s->graph;
  if (g->n_nodes != s->n_nodes || g->n_outputs != s->n_outputs || g->n_assigns != s->n_assigns ||
      dim_symbol_count(g) != s->n_symbols)
    return diag_fail(s->ctx, SN_ERR_STATE, "run: the graph was changed after the session was made");
  for (int i = 0; i < s->n_symbols; i++)
    if (s->bindings[i] < 0)
      return diag_fail(s->ctx, SN_ERR_STATE, "run: symbol %s is not bound",
                       dim_symbol_name(s->graph, i));
  for (int i = 0; i < s->n_inputs; i++)
    if (!s->inputs[i].buffer.data)
      return diag_fail(s->ctx, SN_ERR_STATE, "run: input \"%s\" was never written",
                       s->inputs[i].name);
  return SN_OK;
}

static sn_status check_inputs(sn_session *s) {
  char shown[STORE_TYPE_TEXT];
  for (int i = 0; i < s->n_inputs; i++) {
    const session_input *in = &s->inputs[i];
    sn_type type;
    size_t want;
    SN_TRY(session_value_type(s, in->leaf, "input", in->name, &type, &want));
    if (want != in->size)
      return diag_fail(s->ctx, SN_ERR_INVALID,
                       "input \"%s\": expected %s, %zu bytes, got %zu bytes", in->name,
                       store_type_text(type, shown), want, in->size);
  }
  return SN_OK;
}

sn_status sn_session_run(sn_session *s) {
  NEEDS(s);
  SN_TRY(check_ready(s));
  SN_TRY(check_inputs(s));
  lock(s);
  sn_status status = s->engine->run(s);
  unlock(s);
  if (status != SN_OK)
    return status;
  for (int i = 0; i < s->n_inputs; i++)
    s->inputs[i].fresh = false;
  session_output *last = s->outputs;
  s->outputs = s->next;
  s->next = last;
  s->ran = true;
  s->stats.runs++;
  return SN_OK;
}
