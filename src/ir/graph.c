/* Building: append or find nodes, keep the first error. See graph.h for the invariants. */
#include "base/null.h"

#include "ir/graph.h"

#include "ir/dim.h"
#include "ir/dtype.h"

#include <stdio.h>

enum { FIRST_BUCKETS = 256 };

typedef struct scope_link {
  struct scope_link *outer;
  const char *scope;
} scope_link;

sn_value graph_invalid(void) { return (sn_value){UINT32_MAX}; }

/* Room for `more` elements in a growing array; old arrays stay in the arena until the graph ends, so
 * growth by doubling costs at most as much again. */
static bool reserve(sn_graph *g, void **array, uint32_t n, uint32_t more, uint32_t *cap,
                    size_t each) {
  if (n + more <= *cap)
    return true;
  uint32_t wider = *cap ? *cap : 64;
  while (wider < n + more)
    wider *= 2;
  void *grown = arena_array(&g->memory, wider, each);
  if (!grown)
    return false;
  if (n)
    memcpy(grown, *array, n * each);
  *array = grown;
  *cap = wider;
  return true;
}

sn_status graph_create(sn_ctx *ctx, const op_table *table, sn_graph **out_graph) {
  *out_graph = NULL;
  sn_graph *g = mem_alloc(ctx, sizeof *g);
  if (!g)
    return SN_ERR_NO_MEMORY;
  arena_init(&g->memory, ctx);
  g->ctx = ctx;
  g->table = table;
  g->scope = "";
  g->message = "";
  g->n_buckets = FIRST_BUCKETS;
  g->buckets = arena_array(&g->memory, g->n_buckets, sizeof *g->buckets);
  bool ok =
      names_create(g) && reserve(g, (void **)&g->values, 0, 1, &g->cap_values, sizeof(value_info));
  if (!ok || !g->buckets) {
    sn_graph_destroy(g);
    return SN_ERR_NO_MEMORY;
  }
  g->n_values = 1;
  *out_graph = g;
  return SN_OK;
}

void sn_graph_destroy(sn_graph *g) {
  if (!g)
    return;
  sn_ctx *ctx = g->ctx;
  arena_clear(&g->memory);
  mem_free(ctx, g, sizeof *g);
}

sn_status sn_graph_status(const sn_graph *g) {
  NEEDS(g);
  return g->status;
}
const char *sn_graph_message(const sn_graph *g) {
  NEEDS_OR(g, "");
  return g->message;
}
sn_ctx *sn_graph_ctx(const sn_graph *g) {
  NEEDS_OR(g, NULL);
  return g->ctx;
}

sn_status graph_check(const sn_graph *g, sn_ctx *ctx) {
  return g->status == SN_OK ? SN_OK : diag_fail(ctx, g->status, "%s", g->message);
}

sn_value graph_fail(sn_graph *g, sn_status status, const char *format, ...) {
  if (g->status != SN_OK)
    return graph_invalid();
  g->status = status;
  va_list args;
  va_start(args, format);
  (void)!diag_failv(g->ctx, status, format, args);
  va_end(args);
  if (*g->scope)
    (void)!diag_within(g->ctx, status, "%s", g->scope);
  char *kept = arena_strdup(&g->memory, g->ctx->message);
  g->message = kept ? kept : sn_status_name(status);
  return graph_invalid();
}

static sn_value no_memory(sn_graph *g) {
  return graph_fail(g, SN_ERR_NO_MEMORY, "out of memory while building a graph of %u nodes",
                    g->n_nodes);
}

/* Attributes are equal when their bytes are, but for a BYTES attribute, which always stands last and is
 * compared by content. */
static const sn_bytes *trailing_bytes(const op_desc *op, const void *attrs) {
  const attr_desc *last = op->n_attrs ? &op->attrs[op->n_attrs - 1] : NULL;
  return last && last->kind == ATTR_BYTES ? attr_at(attrs, last) : NULL;
}

static uint64_t hash_node(const op_desc *op, int id, const sn_value *in, int n_in,
                          const void *attrs) {
  uint64_t h = hash_bytes(HASH_SEED, &id, sizeof id);
  h = hash_bytes(h, in, (size_t)n_in * sizeof *in);
  const sn_bytes *data = trailing_bytes(op, attrs);
  h = hash_bytes(h, attrs,
                 data ? (size_t)((const char *)data - (const char *)attrs) : op->attrs_size);
  return data ? hash_bytes(h, data->data, data->size) : h;
}

static bool same_attrs(const op_desc *op, const void *x, const void *y) {
  const sn_bytes *b = trailing_bytes(op, x), *c = trailing_bytes(op, y);
  if (!b)
    return memcmp(x, y, op->attrs_size) == 0;
  return memcmp(x, y, (size_t)((const char *)b - (const char *)x)) == 0 && b->size == c->size &&
         memcmp(b->data, c->data, b->size) == 0;
}

static const node *find_node(const sn_graph *g, uint64_t hash, int op, const sn_value *in, int n_in,
                             const void *attrs) {
  uint32_t i = g->buckets[hash & (g->n_buckets - 1)];
  for (; i; i = g->nodes[i - 1].next_hashed) {
    const node *n = &g->nodes[i - 1];
    if (n->op == op && n->n_in == n_in &&
        (n_in == 0 || memcmp(n->in, in, (size_t)n_in * sizeof *in) == 0) &&
        same_attrs(&g->table->ops[op], n->attrs, attrs))
      return n;
  }
  return NULL;
}

bool graph_finds(const sn_graph *g, const node *n) {
  uint64_t hash = hash_node(graph_op(g, n), n->op, n->in, n->n_in, n->attrs);
  return find_node(g, hash, n->op, n->in, n->n_in, n->attrs) == n;
}

static void link_node(sn_graph *g, uint32_t index, uint64_t hash) {
  uint32_t *bucket = &g->buckets[hash & (g->n_buckets - 1)];
  g->nodes[index].next_hashed = *bucket;
  *bucket = index + 1;
}

/* Doubles the table when it is full; staying small is only slower, so no memory is no error. */
static void grow_buckets(sn_graph *g) {
  if (g->n_nodes < g->n_buckets)
    return;
  uint32_t *wider = arena_array(&g->memory, (size_t)g->n_buckets * 4, sizeof *wider);
  if (!wider)
    return;
  g->buckets = wider;
  g->n_buckets *= 4;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const node *n = &g->nodes[i];
    link_node(g, i, hash_node(graph_op(g, n), n->op, n->in, n->n_in, n->attrs));
  }
}

static bool check_inputs(sn_graph *g, const op_desc *op, const sn_value *in, int n_in) {
  if (op->on_list ? n_in < 1 : n_in != op->n_inputs) {
    (void)graph_fail(g, SN_ERR_INVALID, "%s: expected %s%d arguments, got %d", op->name,
                     op->on_list ? "at least " : "", op->on_list ? 1 : op->n_inputs, n_in);
    return false;
  }
  if (!in && n_in > 0) {
    (void)graph_fail(g, SN_ERR_INVALID, "%s: its %d arguments are NULL", op->name, n_in);
    return false;
  }
  for (int i = 0; i < n_in; i++) {
    const char *name = op->on_list ? "argument" : op->inputs[i].name;
    if (in[i].id == 0 && (op->on_list || !op->inputs[i].optional)) {
      (void)graph_fail(g, SN_ERR_INVALID, "%s: %s is missing", op->name, name);
      return false;
    }
    if (in[i].id >= g->n_values) {
      (void)graph_fail(g, SN_ERR_INVALID, "%s: %s is not a value of this graph", op->name, name);
      return false;
    }
  }
  return true;
}

/* Result types from infer, checked: sizes in bounds, never negative as numbers. */
static bool infer(sn_graph *g, const op_desc *op, const sn_value *in, int n_in, const void *attrs,
                  sn_type *out) {
  sn_type few[MAX_INPUTS] = {0}, *types = few;
  if (n_in > MAX_INPUTS)
    types = arena_array(&g->memory, (size_t)n_in, sizeof *types);
  if (!types) {
    (void)no_memory(g);
    return false;
  }
  for (int i = 0; i < n_in; i++)
    types[i] = sn_value_type(g, in[i]);
  infer_ctx c = {g, op, attrs, n_in, types, out};
  if (!op->impl || op->impl->infer(&c) != SN_OK || g->status != SN_OK) {
    (void)graph_fail(g, SN_ERR_INTERNAL, "%s: failed without a message", op->name);
    return false;
  }
  for (int k = 0; k < op->n_results; k++) {
    int64_t bytes = (int64_t)sn_dtype_size(out[k].dtype);
    for (int d = 0; d < out[k].shape.rank; d++) {
      int64_t lo, hi;
      dim_range(g, out[k].shape.dim[d], &lo, &hi);
      if (hi < 0 || (lo < 0 && dim_is_number(out[k].shape.dim[d])) ||
          !mul_fits(bytes, max_i64(hi, 1), &bytes) || bytes >= DIM_LIMIT) {
        (void)graph_fail(g, SN_ERR_INVALID, "%s: result would have the impossible size %s",
                         op->name, graph_shape_text(g, out[k].shape));
        return false;
      }
    }
  }
  return true;
}

static const char *leaf_name(const op_desc *op, const void *attrs) {
  return *(const char **)attr_at(attrs, &op->attrs[0]);
}

static sn_value append(sn_graph *g, int op, const sn_value *in, int n_in, const void *attrs,
                       const sn_type *types, uint64_t hash) {
  const op_desc *d = &g->table->ops[op];
  sn_value *kept = arena_copy(&g->memory, in, (size_t)n_in * sizeof *in);
  if (!kept || !reserve(g, (void **)&g->nodes, g->n_nodes, 1, &g->cap_nodes, sizeof(node)) ||
      !reserve(g, (void **)&g->values, g->n_values, (uint32_t)d->n_results, &g->cap_values,
               sizeof(value_info)) ||
      (op_has_name(d) && !names_set_leaf(g, op, leaf_name(d, attrs), (sn_value){g->n_values})))
    return no_memory(g);
  uint32_t index = g->n_nodes++;
  g->nodes[index] = (node){.op = (uint16_t)op,
                           .n_in = n_in,
                           .n_out = d->n_results,
                           .first = g->n_values,
                           .in = kept,
                           .attrs = attrs,
                           .scope = g->scope};
  for (int k = 0; k < d->n_results; k++)
    g->values[g->n_values++] = (value_info){types[k], index, NULL};
  link_node(g, index, hash);
  grow_buckets(g);
  return (sn_value){g->nodes[index].first};
}

/* Leaves with a name: a state may be read twice, an input is declared once. */
static bool name_clashes(sn_graph *g, int op, const void *attrs) {
  const op_desc *d = &g->table->ops[op];
  if (!op_has_name(d) || graph_find_named(g, op, leaf_name(d, attrs)).id == 0)
    return false;
  (void)graph_fail(g, SN_ERR_INVALID, "%s: \"%s\" is declared twice with different attributes",
                   d->name, leaf_name(d, attrs));
  return true;
}

sn_value graph_add(sn_graph *g, int op, const sn_value *in, int n_in, const void *attrs) {
  NEEDS_OR(g, graph_invalid());
  const op_desc *d = &g->table->ops[op];
  if (g->status != SN_OK || !check_inputs(g, d, in, n_in))
    return graph_invalid();
  void *canonical = arena_alloc(&g->memory, d->attrs_size);
  if (!canonical)
    return no_memory(g);
  if (!attr_canonical(g, d, attrs, canonical))
    return graph_invalid();
  uint64_t hash = hash_node(d, op, in, n_in, canonical);
  const node *same = find_node(g, hash, op, in, n_in, canonical);
  if (same)
    return node_result(same, 0);
  sn_type types[MAX_RESULTS] = {0};
  if (name_clashes(g, op, canonical) || !infer(g, d, in, n_in, canonical, types))
    return graph_invalid();
  return append(g, op, in, n_in, canonical, types, hash);
}

const char *graph_leaf_name(const sn_graph *g, const node *n) {
  return leaf_name(graph_op(g, n), n->attrs);
}

int graph_find_op(const sn_graph *g, const char *name) {
  for (int i = 1; i < g->table->n; i++)
    if (strcmp(g->table->ops[i].name, name) == 0)
      return i;
  return 0;
}

bool sn_value_valid(const sn_graph *g, sn_value v) {
  NEEDS_OR(g, false);
  return v.id > 0 && v.id < g->n_values;
}

sn_type sn_value_type(const sn_graph *g, sn_value v) {
  NEEDS_OR(g, (sn_type){0});
  return sn_value_valid(g, v) ? g->values[v.id].type : (sn_type){0};
}

sn_value sn_value_result(sn_graph *g, sn_value first, int k) {
  NEEDS_OR(g, graph_invalid());
  if (g->status != SN_OK)
    return graph_invalid();
  if (!sn_value_valid(g, first))
    return graph_fail(g, SN_ERR_INVALID, "result %d of a value that is not there", k);
  const node *n = graph_node(g, first);
  if (k < 0 || k >= n->n_out)
    return graph_fail(g, SN_ERR_INVALID, "%s: has results 0 … %d, not %d", graph_op(g, n)->name,
                      n->n_out - 1, k);
  return node_result(n, k);
}

sn_value sn_label(sn_graph *g, sn_value v, const char *label) {
  NEEDS_OR(g, v);
  if (!sn_value_valid(g, v) || !label || g->values[v.id].label)
    return v;
  if (strlen(g->scope) + strlen(label) >= MAX_NAME)
    return graph_fail(g, SN_ERR_INVALID, "a label must be shorter than %d bytes", MAX_NAME);
  const char *full = *g->scope ? arena_printf(&g->memory, "%s.%s", g->scope, label) : label;
  const char *kept = full ? graph_intern(g, full) : NULL;
  if (!kept)
    return no_memory(g);
  g->values[v.id].label = kept;
  return v;
}

void sn_scope_push(sn_graph *g, const char *name) {
  NEEDS_OR(g, );
  if (name && strlen(g->scope) + strlen(name) >= MAX_NAME) {
    (void)graph_fail(g, SN_ERR_INVALID, "a scope must be shorter than %d bytes", MAX_NAME);
    name = "…";
  }
  scope_link *link = arena_alloc(&g->memory, sizeof *link);
  const char *scope =
      arena_printf(&g->memory, "%s%s%s", g->scope, *g->scope ? "." : "", name ? name : "");
  if (!link || !scope) {
    (void)no_memory(g);
    return;
  }
  *link = (scope_link){g->scopes, g->scope};
  g->scopes = link;
  g->scope = scope;
}

void sn_scope_pop(sn_graph *g) {
  NEEDS_OR(g, );
  if (!g->scopes)
    return;
  g->scope = g->scopes->scope;
  g->scopes = g->scopes->outer;
}

sn_value sn_recompute(sn_graph *g, sn_value v) {
  NEEDS_OR(g, v);
  if (sn_value_valid(g, v))
    g->nodes[g->values[v.id].node].boundary = true;
  return v;
}

void sn_output(sn_graph *g, const char *name, sn_value v) {
  NEEDS_OR(g, );
  if (g->status != SN_OK)
    return;
  const char *kept = name && *name ? graph_intern(g, name) : NULL;
  uint32_t cap = (uint32_t)g->cap_outputs;
  if (!name || !*name || strlen(name) > MAX_NAME || !sn_value_valid(g, v)) {
    (void)graph_fail(g, SN_ERR_INVALID, "output \"%s\": %s", name ? name : "",
                     sn_value_valid(g, v) ? "a name must have 1 to 512 bytes"
                                          : "not a value of this graph");
    return;
  }
  for (int i = 0; i < g->n_outputs; i++)
    if (g->outputs[i].name == kept) {
      (void)graph_fail(g, SN_ERR_INVALID, "output \"%s\" is declared twice", name);
      return;
    }
  if (!kept ||
      !reserve(g, (void **)&g->outputs, (uint32_t)g->n_outputs, 1, &cap, sizeof(named_value))) {
    (void)no_memory(g);
    return;
  }
  g->cap_outputs = (int)cap;
  g->outputs[g->n_outputs++] = (named_value){kept, v};
}

static bool assign_fits(sn_graph *g, sn_value state, sn_value value) {
  if (!sn_value_valid(g, state) || !sn_value_valid(g, value) ||
      strcmp(graph_op(g, graph_node(g, state))->name, "state") != 0) {
    (void)graph_fail(g, SN_ERR_INVALID, "assign: needs a state and a value of this graph");
    return false;
  }
  const char *name = graph_leaf_name(g, graph_node(g, state));
  sn_type a = sn_value_type(g, state), b = sn_value_type(g, value);
  if (!type_equal(a, b)) {
    (void)graph_fail(g, SN_ERR_INVALID, "assign: state \"%s\" is %s, the new value is %s", name,
                     graph_type_text(g, a), graph_type_text(g, b));
    return false;
  }
  if (graph_node(g, state)->assigned) {
    (void)graph_fail(g, SN_ERR_INVALID, "assign: state \"%s\" is assigned twice", name);
    return false;
  }
  return true;
}

void sn_assign(sn_graph *g, sn_value state, sn_value value) {
  NEEDS_OR(g, );
  if (g->status != SN_OK || !assign_fits(g, state, value))
    return;
  uint32_t cap = (uint32_t)g->cap_assigns;
  if (!reserve(g, (void **)&g->assigns, (uint32_t)g->n_assigns, 1, &cap, sizeof(assignment))) {
    (void)no_memory(g);
    return;
  }
  g->cap_assigns = (int)cap;
  g->assigns[g->n_assigns++] = (assignment){state, value};
  g->nodes[g->values[state.id].node].assigned = true;
}

void sn_text_free(sn_ctx *ctx, char *string) {
  NEEDS_OR(ctx, );
  mem_free_str(ctx, string);
}
