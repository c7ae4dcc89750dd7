/* See random_graph.h. */
#include "support/random_graph.h"

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Ops left out: those that jump, where a last bit decides the result, and leaves. */
static const char *const jumping[] = {
    "input",  "state",     "constant", "floor",     "ceil",    "round",   "sign",          "eq",
    "ne",     "lt",        "le",       "gt",        "ge",      "rem",     "fmod",          "argmax",
    "argmin", "floor_div", "topk",     "sort",      "sample",  "cast",    "isnan",         "isinf",
    "max",    "min",       "pool",     "pool_grad", "maximum", "minimum", "attention_grad"};

uint32_t random_draw(random_graph *r, uint32_t n) {
  r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return n ? (uint32_t)(r->state >> 33) % n : 0; /* of nothing: of an invalid value */
}

static bool left_out(const char *op) {
  for (size_t i = 0; i < COUNT_OF(jumping); i++)
    if (strcmp(jumping[i], op) == 0)
      return true;
  return false;
}

sn_value random_leaf(random_graph *r, sn_type type, const double *data, int64_t count) {
  char name[16];
  if (r->n_leaves == RANDOM_GRAPH_LEAVES)
    return SN_NONE;
  snprintf(name, sizeof name, "in%d", r->n_leaves);
  r->data[r->n_leaves] = data ? arena_copy(&r->memory, data, (size_t)count * sizeof *data) : NULL;
  r->count[r->n_leaves++] = count;
  bool fixed = true;
  for (int d = 0; d < type.shape.rank; d++)
    fixed = fixed && dim_is_number(type.shape.dim[d]);
  if (!data && fixed && random_draw(r, 3) == 0)
    return sn_state(r->g, name, type.dtype, type.shape, SN_INIT_ZEROS, 0);
  return sn_input(r->g, name, type.dtype, type.shape);
}

/* A value of that type, or of any float type where type is NULL; SN_NONE: there is none. */
static sn_value pick(random_graph *r, const sn_type *type) {
  uint32_t n = r->g->n_values - 1;
  for (uint32_t k = 0, v = n ? random_draw(r, n) : 0; k < n && k < 40; k++, v = (v + n - 1) % n) {
    const sn_type *t = &r->g->values[v + 1].type;
    if (type ? type_equal(*t, *type) : t->dtype == SN_F32)
      return (sn_value){v + 1};
  }
  return SN_NONE;
}

sn_value random_any(random_graph *r, const sn_type *type) {
  const sn_type usual[] = {{SN_F32, {2, {4, 6}}},
                           {SN_F32, {2, {6, 4}}},
                           {SN_F32, {1, {6}}},
                           {SN_F32, {0, {0}}},
                           {SN_F32, {2, {sn_symbol(r->g, "n", RANDOM_GRAPH_SYMBOL), 6}}}};
  sn_value v = random_draw(r, 8) ? pick(r, type) : SN_NONE;
  if (v.id)
    return v;
  sn_type fresh = type                       ? *type
                  : r->kind != RANDOM_NARROW ? random_wide_type(r)
                                             : usual[random_draw(r, COUNT_OF(usual))];
  return random_leaf(r, fresh, NULL, 0);
}

/* One op as one of its cases has it, on values of the graph where their types fit. */
static void add_case(random_graph *r) {
  const op_table *table = op_table_get();
  const op_desc *op = &table->ops[1 + random_draw(r, (uint32_t)table->n - 1)];
  const op_case *chosen = &op->impl->cases[random_draw(r, (uint32_t)op->impl->n_cases)];
  op_test_case c;
  sn_graph *own = NULL;
  sn_value first, in[CASE_MAX_INPUTS] = {{0}};
  bool jumps = left_out(op->name), on_leaves = r->kind != RANDOM_NARROW && op->impl->ref;
  if ((jumps && !on_leaves) || chosen->error || case_load(r->ctx, table, chosen->text, &c) != SN_OK)
    return;
  if (c.n_in < CASE_MAX_INPUTS && case_graph(&c, &own, &first) == SN_OK) {
    const node *n = graph_node(own, first);
    for (int i = 0; i < c.n_in; i++) {
      const sn_type *t = &c.in[i].type;
      bool free_to_choose = !jumps && t->dtype == SN_F32 && random_draw(r, 4);
      in[i] = free_to_choose && t->dtype ? pick(r, t) : SN_NONE;
      if (t->dtype && !in[i].id)
        in[i] = random_leaf(r, *t, c.in[i].data, c.in[i].count);
    }
    (void)graph_add(r->g, n->op, in, n->n_in, n->attrs);
  }
  sn_graph_destroy(own);
  case_free(&c);
}

static void add_view(random_graph *r) {
  sn_value x = random_any(r, NULL);
  sn_shape s = sn_value_type(r->g, x).shape;
  sn_ints perm = {.n = s.rank};
  for (int d = 0; d < s.rank; d++)
    perm.v[d] = s.rank - 1 - d;
  int axis = s.rank ? (int)random_draw(r, (uint32_t)s.rank) : 0;
  sn_shape more = {.rank = s.rank + 1, .dim = {2}};
  switch (random_draw(r, 5)) {
  case 0: (void)sn_transpose(r->g, x, perm); break;
  case 1: (void)sn_reshape(r->g, x, SN_SHAPE(-1)); break;
  case 2:
    if (s.rank && dim_is_number(s.dim[axis]))
      (void)sn_slice(r->g, x, axis, 0, s.dim[axis] / 2 + 1, 1);
    break;
  case 3:
    if (s.rank == 1 && dim_is_number(s.dim[0]) && s.dim[0] % 2 == 0)
      (void)sn_reshape(r->g, x, SN_SHAPE(2, -1));
    break;
  default:
    for (int d = 0; d < s.rank && s.rank < 3; d++)
      more.dim[d + 1] = s.dim[d];
    if (s.rank < 3)
      (void)sn_expand(r->g, x, more);
  }
}

static void add_unary(random_graph *r) {
  static const int ops[] = {OP_neg,  OP_abs,      OP_sqr, OP_exp,  OP_tanh,  OP_sigmoid, OP_relu,
                            OP_silu, OP_softplus, OP_erf, OP_sqrt, OP_recip, OP_log,     OP_rsqrt};
  sn_value x = random_any(r, NULL);
  _Alignas(16) char none[16] = {0};
  (void)graph_add(r->g, ops[random_draw(r, COUNT_OF(ops))], &x, 1, none);
}

static void add_binary(random_graph *r) {
  static const int ops[] = {OP_add, OP_sub, OP_mul, OP_div, OP_add, OP_mul};
  sn_value in[2] = {random_any(r, NULL), SN_NONE};
  sn_type t = sn_value_type(r->g, in[0]);
  in[1] = random_any(r, &t);
  _Alignas(16) char none[16] = {0};
  (void)graph_add(r->g, ops[random_draw(r, COUNT_OF(ops))], in, 2, none);
}

static void add_number(random_graph *r) {
  static const double numbers[] = {0, 1, -1, 2, 0.5, 3};
  sn_value x = random_any(r, NULL),
           c = sn_scalar(r->g, SN_F32, numbers[random_draw(r, COUNT_OF(numbers))]);
  switch (random_draw(r, 4)) {
  case 0: (void)sn_add(r->g, c, x); break;
  case 1: (void)sn_mul(r->g, x, c); break;
  case 2: (void)sn_sub(r->g, x, c); break;
  default: (void)sn_affine(r->g, x, numbers[random_draw(r, 6)], numbers[random_draw(r, 6)]);
  }
}

static void add_reduction(random_graph *r) {
  sn_value x = random_any(r, NULL);
  sn_ints axes = random_draw(r, 2) ? SN_INTS(-1) : SN_ALL_AXES;
  if (sn_value_type(r->g, x).shape.rank == 0)
    return;
  if (random_draw(r, 2))
    (void)sn_sum(r->g, x, axes, random_draw(r, 2));
  else
    (void)sn_mean(r->g, x, axes, random_draw(r, 2));
}

static void add_matmul(random_graph *r) {
  sn_value a = random_any(r, &(sn_type){SN_F32, {2, {4, 6}}}),
           b = random_any(r, &(sn_type){SN_F32, {2, {6, 4}}});
  if (random_draw(r, 2))
    (void)sn_matmul(r->g, a, b, false, false);
  else
    (void)sn_matmul(r->g, a, sn_transpose(r->g, b, SN_INTS(1, 0)), false, true);
}

static void add_one(random_graph *r) {
  if (r->kind == RANDOM_CHAINS) {
    random_chain_op(r);
    return;
  }
  if (r->kind == RANDOM_WIDE && random_draw(r, 2)) {
    random_wide_op(r);
    return;
  }
  switch (random_draw(r, 12)) {
  case 0:
  case 1:
  case 2: add_case(r); break;
  case 3:
  case 4: add_view(r); break;
  case 5:
  case 6: add_unary(r); break;
  case 7: add_number(r); break;
  case 8: add_reduction(r); break;
  case 9: add_matmul(r); break;
  default: add_binary(r);
  }
}

/* Values that nothing reads are outputs. */
static void add_outputs(sn_graph *g, bool *read) {
  char name[16];
  for (uint32_t i = 0; i < g->n_nodes; i++)
    for (int k = 0; k < g->nodes[i].n_in; k++)
      read[g->nodes[i].in[k].id] = true;
  for (uint32_t v = 1; v < g->n_values; v++)
    if (!read[v]) {
      snprintf(name, sizeof name, "out%u", v);
      sn_output(g, name, (sn_value){v});
    }
}

/* Some states get the next value of their type. */
static void add_assigns(random_graph *r) {
  sn_value states[RANDOM_GRAPH_LEAVES];
  int n = sn_graph_states(r->g, states, RANDOM_GRAPH_LEAVES);
  for (int i = 0; i < n; i++) {
    sn_type t = sn_value_type(r->g, states[i]);
    sn_value v = random_draw(r, 2) ? pick(r, &t) : SN_NONE;
    if (v.id && !graph_node(r->g, states[i])->assigned)
      sn_assign(r->g, states[i], v);
  }
}

/* Gradients of the mean of all that nothing reads, for the f32 leaves. An op on the way may have none. */
static void add_gradients(random_graph *r, const bool *read) {
  sn_graph *g = r->g;
  sn_value loss = sn_scalar(g, SN_F32, 0), wrt[RANDOM_GRAPH_LEAVES], grads[RANDOM_GRAPH_LEAVES];
  uint32_t n_values = g->n_values;
  int n = 0;
  for (uint32_t v = 1; v < n_values; v++) {
    bool leaf = graph_node(g, (sn_value){v})->n_in == 0;
    if (g->values[v].type.dtype == SN_F32 && !read[v] && !leaf)
      loss = sn_add(g, loss, sn_mean(g, (sn_value){v}, SN_ALL_AXES, false));
    if (g->values[v].type.dtype == SN_F32 && leaf && sn_value_name(g, (sn_value){v}) && n < 8)
      wrt[n++] = (sn_value){v};
  }
  if (n && sn_grad(g, loss, wrt, n, grads) == SN_OK)
    for (int i = 0; i < n; i++) {
      char name[16];
      snprintf(name, sizeof name, "grad%d", i);
      sn_output(g, name, grads[i]);
    }
}

static sn_status make(random_graph *r, sn_ctx *ctx, uint64_t seed, int n_ops,
                      random_graph_kind kind, bool gradients) {
  *r = (random_graph){.ctx = ctx, .state = seed * 7919 + 1, .kind = kind};
  arena_init(&r->memory, ctx);
  SN_TRY(graph_create(ctx, op_table_get(), &r->g));
  if (kind != RANDOM_NARROW) {
    (void)sn_symbol(r->g, "n", RANDOM_GRAPH_SYMBOL);
    (void)sn_symbol(r->g, "m", RANDOM_GRAPH_SYMBOL_M);
  }
  for (int i = 0; i < n_ops; i++)
    add_one(r);
  bool *read = arena_array(&r->memory, r->g->n_values, sizeof *read);
  if (!read)
    return SN_ERR_NO_MEMORY;
  add_outputs(r->g, read);
  add_assigns(r);
  if (gradients)
    add_gradients(r, read);
  return r->g->status;
}

/* With gradients if there are any. */
static sn_status make_or_without(random_graph *r, sn_ctx *ctx, uint64_t seed, int n_ops,
                                 random_graph_kind kind, bool gradients) {
  sn_status status = make(r, ctx, seed, n_ops, kind, gradients);
  if (status != SN_ERR_UNSUPPORTED && status != SN_ERR_INVALID)
    return status;
  random_graph_end(r);
  return make(r, ctx, seed, n_ops, kind, false);
}

sn_status random_graph_make(random_graph *r, sn_ctx *ctx, uint64_t seed, int n_ops) {
  return make_or_without(r, ctx, seed, n_ops, RANDOM_NARROW, seed % 3 == 0);
}

sn_status random_graph_make_wide(random_graph *r, sn_ctx *ctx, uint64_t seed, int n_ops) {
  return make_or_without(r, ctx, seed, n_ops, RANDOM_WIDE, seed % 2 == 0);
}

sn_status random_graph_make_chains(random_graph *r, sn_ctx *ctx, uint64_t seed, int n_ops) {
  return make_or_without(r, ctx, seed, n_ops, RANDOM_CHAINS, seed % 5 == 0);
}

void random_graph_end(random_graph *r) {
  sn_graph_destroy(r->g);
  arena_clear(&r->memory);
}

double random_graph_fill(void *user, const char *name, sn_dtype dtype, int64_t i) {
  const random_graph *r = user;
  int k = strncmp(name, "in", 2) == 0 ? atoi(name + 2) : RANDOM_GRAPH_LEAVES;
  if (k < r->n_leaves && r->data[k])
    return r->data[k][i];
  double x = case_weight(name, i);
  return dtype_is_float(dtype) ? 0.6 + 0.5 * x : floor(fabs(x) * 4);
}

/* --- shrinking --- */

typedef struct cuts {
  bool *node;   /* an input in its place */
  bool *output; /* left out */
} cuts;

static void mark_needed(const sn_graph *g, const cuts *c, bool *needed) {
  for (int i = 0; i < g->n_outputs; i++)
    if (!c->output[i])
      needed[g->values[g->outputs[i].value.id].node] = true;
  for (uint32_t i = g->n_nodes; i-- > 0;)
    for (int k = 0; needed[i] && !c->node[i] && k < g->nodes[i].n_in; k++)
      if (g->nodes[i].in[k].id)
        needed[g->values[g->nodes[i].in[k].id].node] = true;
}

static void copy_node(const sn_graph *g, const node *n, bool cut, sn_graph *out, sn_value *to) {
  sn_value in[64] = {{0}};
  for (int k = 0; k < n->n_in && k < 64; k++)
    in[k] = to[n->in[k].id];
  sn_value first = cut ? SN_NONE : graph_add(out, n->op, in, n->n_in, n->attrs);
  for (int k = 0; k < n->n_out; k++) {
    uint32_t v = n->first + (uint32_t)k;
    char name[24];
    snprintf(name, sizeof name, "cut%u", v);
    sn_type t = g->values[v].type;
    to[v] = cut ? sn_input(out, name, t.dtype, t.shape) : (sn_value){first.id + (uint32_t)k};
  }
}

static sn_graph *with_cuts(const random_graph *r, const sn_graph *g, const cuts *c) {
  sn_graph *out = NULL;
  sn_value *to = calloc(g->n_values, sizeof *to);
  bool *needed = calloc(g->n_nodes, sizeof *needed);
  if (to && needed && graph_create(r->ctx, g->table, &out) == SN_OK && dim_copy_all(out, g)) {
    mark_needed(g, c, needed);
    for (uint32_t i = 0; i < g->n_nodes; i++)
      if (needed[i])
        copy_node(g, &g->nodes[i], c->node[i], out, to);
    for (int i = 0; i < g->n_outputs; i++)
      if (!c->output[i])
        sn_output(out, g->outputs[i].name, to[g->outputs[i].value.id]);
    for (int i = 0; i < g->n_assigns; i++)
      if (to[g->assigns[i].state.id].id && to[g->assigns[i].value.id].id)
        sn_assign(out, to[g->assigns[i].state.id], to[g->assigns[i].value.id]);
  }
  free(to);
  free(needed);
  if (!out || out->status == SN_OK)
    return out;
  sn_graph_destroy(out);
  return NULL;
}

static bool still_fails(random_graph *r, const cuts *c, bool (*fails)(void *, const random_graph *),
                        void *user) {
  sn_graph *whole = r->g;
  sn_graph *small = with_cuts(r, whole, c);
  if (!small)
    return false;
  r->g = small;
  bool still = fails(user, r);
  r->g = whole;
  sn_graph_destroy(small);
  return still;
}

void random_graph_shrink(random_graph *r, bool (*fails)(void *user, const random_graph *r),
                         void *user) {
  sn_graph *g = r->g;
  cuts c = {calloc(g->n_nodes, sizeof *c.node), calloc((size_t)g->n_outputs + 1, sizeof *c.output)};
  for (int i = 0; c.node && c.output && i < g->n_outputs; i++) {
    c.output[i] = true;
    c.output[i] = still_fails(r, &c, fails, user);
  }
  for (uint32_t i = c.node && c.output ? g->n_nodes : 0; i-- > 0;) {
    c.node[i] = g->nodes[i].n_in > 0;
    c.node[i] = c.node[i] && still_fails(r, &c, fails, user);
  }
  sn_graph *small = c.node && c.output ? with_cuts(r, g, &c) : NULL;
  if (small) {
    sn_graph_destroy(g);
    r->g = small;
    (void)fails(user, r); /* so that it speaks of this one */
  }
  free(c.node);
  free(c.output);
}
