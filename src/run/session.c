/* Sessions on the reference interpreter, which is the one device of this build. A run: check inputs, take
 * the locks of the stores, bind leaves, execute, make room for the outputs, then commit outputs and
 * states, which cannot fail.
 *
 * Memory and messages are those of the graph's context: a store may be another thread's, so nothing here
 * uses its context. */
#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"
#include "ref/ref.h"
#include "run/store.h"

#include <math.h>
#include <sinew/session.h>

typedef struct session_input {
  sn_value leaf;
  const char *name;
  void *data; /* NULL until written */
  size_t size;
} session_input;

typedef struct session_output {
  const char *name;
  sn_type type; /* in numbers, of the last run */
  void *data;
  size_t size;
} session_output;

struct sn_session {
  sn_ctx *ctx;
  const sn_graph *graph;
  sn_store *store, *local; /* either may be NULL */
  sn_progress progress;
  int finite_output; /* -1: none */
  int64_t *bindings; /* -1 until bound */
  session_input *inputs;
  int n_inputs;
  session_output *outputs;
  int n_outputs;
  int n_symbols, n_assigns;
  uint32_t n_nodes; /* of the graph, when the session was made */
  bool ran;
};

/* --- devices --- */

static const struct {
  const char *name, *description;
} devices[] = {{"ref", "reference interpreter: f32 storage, f64 accumulation, one thread"}};

const char *sn_device_name(int i) {
  return i >= 0 && (size_t)i < COUNT_OF(devices) ? devices[i].name : NULL;
}

const char *sn_device_description(int i) {
  return i >= 0 && (size_t)i < COUNT_OF(devices) ? devices[i].description : NULL;
}

static sn_status check_device(sn_ctx *ctx, const char *name) {
  if (!name || strcmp(name, "auto") == 0)
    return SN_OK;
  for (size_t i = 0; i < COUNT_OF(devices); i++)
    if (strcmp(devices[i].name, name) == 0)
      return SN_OK;
  return diag_fail(ctx, SN_ERR_NOT_FOUND, "no device \"%s\": this build has \"%s\"", name,
                   devices[0].name);
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

/* The store that holds a state for this session. */
static sn_store *home_of(const sn_session *s, const node *state) {
  bool own = s->local && store_find(s->local, graph_leaf_name(s->graph, state));
  return own ? s->local : s->store;
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
    store_entry *e;
    if (g->nodes[i].op == OP_state)
      SN_TRY(store_entry_of(home_of(s, &g->nodes[i]), s->ctx, g, &g->nodes[i], &e));
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
  s->bindings = mem_array(s->ctx, (size_t)s->n_symbols, sizeof *s->bindings);
  return s->inputs && s->outputs && s->bindings ? SN_OK : SN_ERR_NO_MEMORY;
}

static sn_status fill(sn_session *s, const sn_session_options *o) {
  SN_TRY(allocate(s));
  collect_inputs(s);
  for (int i = 0; i < s->n_outputs; i++)
    s->outputs[i].name = s->graph->outputs[i].name;
  for (int i = 0; i < s->n_symbols; i++)
    s->bindings[i] = -1;
  SN_TRY(check_device(s->ctx, o->device));
  if (o->finite_output && (s->finite_output = sn_session_find_output(s, o->finite_output)) < 0)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: no output \"%s\" to watch",
                     o->finite_output);
  lock(s);
  sn_status status = check_states(s);
  unlock(s);
  return status;
}

sn_status sn_session_create(const sn_graph *graph, sn_store *store,
                            const sn_session_options *options, sn_session **out_session) {
  static const sn_session_options defaults = {0};
  *out_session = NULL;
  SN_TRY(sn_graph_verify(graph));
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

void sn_session_destroy(sn_session *s) {
  if (!s)
    return;
  for (int i = 0; s->inputs && i < s->n_inputs; i++)
    mem_free(s->ctx, s->inputs[i].data, s->inputs[i].size);
  for (int i = 0; s->outputs && i < s->n_outputs; i++)
    mem_free(s->ctx, s->outputs[i].data, s->outputs[i].size);
  mem_free(s->ctx, s->inputs, (size_t)s->n_inputs * sizeof *s->inputs);
  mem_free(s->ctx, s->outputs, (size_t)s->n_outputs * sizeof *s->outputs);
  mem_free(s->ctx, s->bindings, (size_t)s->n_symbols * sizeof *s->bindings);
  mem_free(s->ctx, s, sizeof *s);
}

/* --- inputs --- */

sn_status sn_session_bind(sn_session *s, const char *symbol, int64_t value) {
  int i = dim_find_symbol(s->graph, symbol);
  if (i < 0 || i >= s->n_symbols)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: the graph has no symbol \"%s\"", symbol);
  if (value < 0 || value > dim_symbol_max(s->graph, i))
    return diag_fail(s->ctx, SN_ERR_INVALID, "symbol %s: expected 0 … %lld, got %lld", symbol,
                     (long long)dim_symbol_max(s->graph, i), (long long)value);
  s->bindings[i] = value;
  return SN_OK;
}

int sn_session_find_input(const sn_session *s, const char *name) {
  for (int i = 0; i < s->n_inputs; i++)
    if (strcmp(s->inputs[i].name, name) == 0)
      return i;
  return -1;
}

int sn_session_find_output(const sn_session *s, const char *name) {
  for (int i = 0; i < s->n_outputs; i++)
    if (strcmp(s->outputs[i].name, name) == 0)
      return i;
  return -1;
}

sn_status sn_session_write_at(sn_session *s, int input, const void *data, size_t size) {
  if (input < 0 || input >= s->n_inputs)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: no input %d", input);
  session_input *in = &s->inputs[input];
  if (!in->data || in->size != size) {
    void *room = mem_alloc(s->ctx, size);
    if (!room)
      return SN_ERR_NO_MEMORY;
    mem_free(s->ctx, in->data, in->size);
    in->data = room;
    in->size = size;
  }
  if (size)
    memcpy(in->data, data, size);
  return SN_OK;
}

sn_status sn_session_write(sn_session *s, const char *name, const void *data, size_t size) {
  int i = sn_session_find_input(s, name);
  if (i < 0)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: the graph has no input \"%s\"", name);
  return sn_session_write_at(s, i, data, size);
}

/* --- running --- */

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
    if (!s->inputs[i].data)
      return diag_fail(s->ctx, SN_ERR_STATE, "run: input \"%s\" was never written",
                       s->inputs[i].name);
  return SN_OK;
}

static void load_tensor(ref_tensor *t, const void *bytes) {
  for (int64_t i = 0; i < t->count; i++)
    t->data[i] = dtype_load(t->dtype, bytes, i);
}

static sn_type run_type(const ref_tensor *t) {
  sn_type type = {t->dtype, {.rank = t->rank}};
  memcpy(type.shape.dim, t->dim, sizeof t->dim);
  return type;
}

static sn_status bind_inputs(sn_session *s, ref_machine *m) {
  char type[STORE_TYPE_TEXT];
  for (int i = 0; i < s->n_inputs; i++) {
    const session_input *in = &s->inputs[i];
    ref_tensor *t = &m->tensors[in->leaf.id];
    size_t want = (size_t)t->count * sn_dtype_size(t->dtype);
    if (want != in->size)
      return diag_fail(s->ctx, SN_ERR_INVALID,
                       "input \"%s\": expected %s, %zu bytes, got %zu bytes", in->name,
                       store_type_text(run_type(t), type), want, in->size);
    if (t->data) /* something needs it */
      load_tensor(t, in->data);
  }
  return SN_OK;
}

static sn_status bind_leaves(sn_session *s, ref_machine *m) {
  const sn_graph *g = s->graph;
  SN_TRY(bind_inputs(s, m));
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const node *n = &g->nodes[i];
    store_entry *e;
    ref_tensor *t = &m->tensors[n->first];
    if (!m->live[i])
      continue;
    if (n->op == OP_constant)
      load_tensor(t, ((const attrs_constant *)n->attrs)->data.data);
    if (n->op != OP_state)
      continue;
    SN_TRY(store_entry_of(home_of(s, n), s->ctx, g, n, &e));
    load_tensor(t, e->data);
  }
  return SN_OK;
}

static void store_tensor(const ref_tensor *t, void *bytes) {
  for (int64_t i = 0; i < t->count; i++)
    dtype_store(t->dtype, bytes, i, t->data[i]);
}

static sn_status check_finite(const sn_session *s, const ref_machine *m) {
  if (s->finite_output < 0)
    return SN_OK;
  const ref_tensor *t = &m->tensors[s->graph->outputs[s->finite_output].value.id];
  for (int64_t i = 0; i < t->count; i++)
    if (!isfinite(t->data[i]))
      return diag_fail(s->ctx, SN_ERR_NUMERIC, "run: output \"%s\" is %g; nothing was committed",
                       s->outputs[s->finite_output].name, t->data[i]);
  return SN_OK;
}

/* Room for the outputs of a run beside those of the last one, which stay until this one is done. */
static sn_status make_room(sn_session *s, const ref_machine *m, session_output *fresh) {
  for (int i = 0; i < s->n_outputs; i++) {
    const ref_tensor *t = &m->tensors[s->graph->outputs[i].value.id];
    fresh[i] = (session_output){.name = s->outputs[i].name, .type = run_type(t)};
    fresh[i].size = (size_t)t->count * sn_dtype_size(t->dtype);
    fresh[i].data = mem_alloc(s->ctx, fresh[i].size);
    if (!fresh[i].data)
      return SN_ERR_NO_MEMORY;
  }
  return SN_OK;
}

/* Cannot fail. */
static void commit(sn_session *s, const ref_machine *m, session_output *fresh) {
  const sn_graph *g = s->graph;
  for (int i = 0; i < s->n_outputs; i++) {
    session_output old = s->outputs[i];
    store_tensor(&m->tensors[g->outputs[i].value.id], fresh[i].data);
    s->outputs[i] = fresh[i];
    fresh[i] = old;
  }
  for (int i = 0; i < g->n_assigns; i++) {
    const node *state = graph_node(g, g->assigns[i].state);
    store_entry *e = store_find(home_of(s, state), graph_leaf_name(g, state));
    store_tensor(&m->tensors[g->assigns[i].value.id], e->data);
    e->version++;
  }
  s->ran = true;
}

static sn_status execute(sn_session *s, ref_machine *m, session_output *fresh) {
  SN_TRY(bind_leaves(s, m));
  SN_TRY(ref_execute(m, &s->progress));
  SN_TRY(check_finite(s, m));
  SN_TRY(make_room(s, m, fresh));
  commit(s, m, fresh);
  return SN_OK;
}

static sn_status run_locked(sn_session *s) {
  ref_machine m;
  SN_TRY(ref_start(&m, s->graph, s->bindings, REF_F32));
  session_output *fresh = mem_array(s->ctx, (size_t)s->n_outputs, sizeof *fresh);
  sn_status status = fresh ? execute(s, &m, fresh) : SN_ERR_NO_MEMORY;
  for (int i = 0; fresh && i < s->n_outputs; i++)
    mem_free(s->ctx, fresh[i].data, fresh[i].size);
  mem_free(s->ctx, fresh, (size_t)s->n_outputs * sizeof *fresh);
  ref_end(&m);
  return status;
}

sn_status sn_session_run(sn_session *s) {
  SN_TRY(check_ready(s));
  lock(s);
  sn_status status = run_locked(s);
  unlock(s);
  return status;
}

/* --- outputs --- */

static sn_status find_output(sn_session *s, int output) {
  if (output < 0 || output >= s->n_outputs)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: no output %d", output);
  if (!s->ran)
    return diag_fail(s->ctx, SN_ERR_STATE, "output \"%s\": nothing has run yet",
                     s->outputs[output].name);
  return SN_OK;
}

sn_status sn_session_output_type(sn_session *s, int output, sn_type *out_type) {
  *out_type = (sn_type){0};
  SN_TRY(find_output(s, output));
  *out_type = s->outputs[output].type;
  return SN_OK;
}

sn_status sn_session_read_at(sn_session *s, int output, void *data, size_t size) {
  SN_TRY(find_output(s, output));
  const session_output *o = &s->outputs[output];
  if (size != o->size)
    return diag_fail(s->ctx, SN_ERR_INVALID, "output \"%s\" has %zu bytes, got room for %zu",
                     o->name, o->size, size);
  if (size)
    memcpy(data, o->data, size);
  return SN_OK;
}

sn_status sn_session_read(sn_session *s, const char *name, void *data, size_t size) {
  int i = sn_session_find_output(s, name);
  if (i < 0)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "session: the graph has no output \"%s\"", name);
  return sn_session_read_at(s, i, data, size);
}
