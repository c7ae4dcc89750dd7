/* Lowering: composite ops into those that the plan knows (an element, a contraction, a core), by their own
 * decompositions. Each pass copies the live part of a graph and replaces what is left of composites by one level of
 * decomposition; decompositions are a few levels deep, so a few passes end it.
 *
 * requires: a sound graph. keeps: leaves (dead ones too), outputs, assigns, symbols, scopes, labels, streams. breaks: value ids. */
#include "ops/table.h"
#include "plan/plan.h"

bool plan_is_contraction(int op) {
  return op == OP_matmul || op == OP_conv || op == OP_conv_grad_input || op == OP_conv_grad_weight;
}

bool plan_is_core(int op) {
  switch (op) {
  case OP_attention:
  case OP_attention_grad:
  case OP_scatter_set:
  case OP_scatter_add:
  case OP_scatter_along_set:
  case OP_scatter_along_add:
  case OP_cumsum:
  case OP_cumprod:
  case OP_sort:
  case OP_topk:
  case OP_sample:
  case OP_permutation: return true;
  default: return false;
  }
}

/* `least` times a number of rows, where there may be none; left as it is where that could not be written down. */
static sn_dim of_rows(sn_graph *g, sn_dim least, const sn_type *rows) {
  for (int d = 0; d < rows->shape.rank; d++) {
    sn_dim times = rows->shape.dim[d];
    int64_t lo, hi, most = max_i64(1, sn_dim_max(g, times)), product;
    dim_range(g, least, &lo, &hi);
    if (mul_fits(max_i64(hi, lo > -DIM_LIMIT ? -lo : DIM_LIMIT), most, &product) &&
        product < DIM_LIMIT)
      least = sn_dim_mul(g, least, times);
  }
  return least;
}

bool plan_size_required(sn_graph *g, const node *n, sn_dim *out_least, const char **out_what) {
  const sn_shape *x = n->n_in > 0 ? &g->values[n->in[0].id].type.shape : NULL;
  if (n->op == OP_topk) {
    const attrs_topk *a = n->attrs;
    *out_least = sn_dim_sub(g, x->dim[a->axis < 0 ? a->axis + x->rank : a->axis], a->k);
    *out_what = "k is more than the axis has entries";
    return true;
  }
  if (n->op == OP_sample) {
    *out_least = of_rows(g, sn_dim_sub(g, x->dim[x->rank - 1], 1), &g->values[n->first].type);
    *out_what = "there are no ids to draw from";
    return true;
  }
  if (n->op == OP_update_slice || n->op == OP_slice_at) {
    bool updates = n->op == OP_update_slice;
    int64_t axis = updates ? ((const attrs_update_slice *)n->attrs)->axis
                           : ((const attrs_slice_at *)n->attrs)->axis;
    const sn_shape *run = &g->values[updates ? n->in[1].id : n->first].type.shape;
    axis = axis < 0 ? axis + x->rank : axis;
    *out_least = sn_dim_sub(g, x->dim[axis], run->dim[axis]);
    *out_what = "more entries than the axis has";
    return true;
  }
  return false;
}

typedef struct lowering {
  const sn_graph *in;
  sn_graph *out;
  arena memory;
  sn_value *value; /* by value of `in` */
  bool *live;
  int composites; /* met in this pass */
} lowering;

static bool is_primitive(const sn_graph *g, const node *n) {
  const op_impl *impl = graph_op(g, n)->impl;
  return plan_is_core(n->op) || impl->element || !impl->ref;
}

static bool is_leaf(const node *n) { return n->op == OP_input || n->op == OP_state; }

/* A concat of more than a region can choose from becomes one of concats; `in` is overwritten. Returns how many are left. */
static int split_concat(lowering *l, const node *n, sn_value *in) {
  enum { MOST = 64 };
  int left = n->n_in;
  while (n->op == OP_concat && left > MOST) {
    int made = 0;
    for (int k = 0; k < left; k += MOST)
      in[made++] =
          graph_add(l->out, n->op, in + k, (int)min_i64(MOST, (int64_t)left - k), n->attrs);
    left = made;
  }
  return left;
}

static sn_status copy_node(lowering *l, const node *n, sn_value *in) {
  int n_in = split_concat(l, n, in);
  sn_value first = graph_add(l->out, n->op, in, n_in, n->attrs);
  for (int k = 0; k < n->n_out; k++)
    l->value[n->first + (uint32_t)k] = (sn_value){first.id + (uint32_t)k};
  return l->out->status;
}

static sn_status decompose_node(lowering *l, const node *n, const sn_value *in) {
  const op_desc *op = graph_op(l->in, n);
  sn_value out[MAX_RESULTS] = {{0}};
  if (!op->impl->decompose)
    return diag_fail(l->in->ctx, SN_ERR_INTERNAL, "lower: %s has no element and no decomposition",
                     op->name);
  build_ctx c = {
      .graph = l->out, .attrs = n->attrs, .n_in = n->n_in, .n_out = n->n_out, .in = in, .out = out};
  op->impl->decompose(&c);
  for (int k = 0; k < n->n_out; k++)
    l->value[n->first + (uint32_t)k] = out[k];
  l->composites++;
  return l->out->status;
}

/* A list of values that is too long for one expression, in pieces: concat of concats (stack: of stacks). */
enum { LONGEST_LIST = 24 };

static sn_status copy_list(lowering *l, const node *n, sn_value *in) {
  int64_t axis = n->op == OP_concat ? ((const attrs_concat *)n->attrs)->axis
                                    : ((const attrs_stack *)n->attrs)->axis;
  bool stack = n->op == OP_stack;
  int n_in = n->n_in;
  while (n_in > LONGEST_LIST || stack) {
    int n_out = 0;
    for (int k = 0; k < n_in; k += LONGEST_LIST) {
      int some = n_in - k < LONGEST_LIST ? n_in - k : LONGEST_LIST;
      in[n_out++] =
          stack ? sn_stack(l->out, in + k, some, axis) : sn_concat(l->out, in + k, some, axis);
    }
    n_in = n_out;
    stack = false;
  }
  l->value[n->first] = n_in == 1 ? in[0] : sn_concat(l->out, in, n_in, axis);
  return l->out->status;
}

/* Parts of a composite stand in its own scope: reports and messages then say what the user wrote. */
static const char *scope_of(lowering *l, const node *n, bool composite) {
  if (!composite)
    return *n->scope ? graph_intern(l->out, n->scope) : "";
  const char *name = graph_op(l->in, n)->name, *scope = n->scope;
  bool dot = *scope && scope[strlen(scope) - 1] != '.';
  char *joined = arena_printf(&l->memory, "%s%s%s", scope, dot ? "." : "", name);
  return joined ? graph_intern(l->out, joined) : NULL;
}

static sn_status copy_labels(lowering *l, const node *n) {
  for (int k = 0; k < n->n_out; k++) {
    const char *label = l->in->values[n->first + (uint32_t)k].label;
    if (label)
      (void)sn_label(l->out, l->value[n->first + (uint32_t)k], label);
  }
  return l->out->status;
}

static sn_status lower_node(lowering *l, const node *n) {
  sn_value few[MAX_INPUTS], *in = few;
  bool composite = !is_primitive(l->in, n);
  if (n->n_in > MAX_INPUTS)
    in = arena_array(&l->memory, (size_t)n->n_in, sizeof *in);
  const char *scope = scope_of(l, n, composite);
  if (!in || !scope)
    return SN_ERR_NO_MEMORY;
  for (int k = 0; k < n->n_in; k++)
    in[k] = n->in[k].id ? l->value[n->in[k].id] : SN_NONE;
  l->out->scope = scope;
  bool list = (n->op == OP_concat || n->op == OP_stack) && n->n_in > LONGEST_LIST;
  sn_status status = composite ? decompose_node(l, n, in)
                     : list    ? copy_list(l, n, in)
                               : copy_node(l, n, in);
  l->out->scope = "";
  return status == SN_OK ? copy_labels(l, n) : status;
}

static sn_status lower_ends(lowering *l) {
  const sn_graph *g = l->in;
  for (int i = 0; i < g->n_outputs; i++)
    sn_output(l->out, g->outputs[i].name, l->value[g->outputs[i].value.id]);
  for (int i = 0; i < g->n_assigns; i++)
    sn_assign(l->out, l->value[g->assigns[i].state.id], l->value[g->assigns[i].value.id]);
  if (l->out->next_stream < g->next_stream)
    l->out->next_stream = g->next_stream;
  return l->out->status;
}

static sn_status lower_all(lowering *l) {
  const sn_graph *g = l->in;
  if (!l->value || !l->live || !dim_copy_all(l->out, g))
    return SN_ERR_NO_MEMORY;
  graph_mark_live(g, l->live);
  l->out->next_stream = g->next_stream;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (l->live[i] || is_leaf(&g->nodes[i]))
      SN_TRY(lower_node(l, &g->nodes[i]));
  return lower_ends(l);
}

/* One pass. */
static sn_status lower_once(const sn_graph *g, sn_graph **out, int *out_composites) {
  lowering l = {.in = g};
  *out = NULL;
  SN_TRY(graph_create(g->ctx, g->table, &l.out));
  arena_init(&l.memory, g->ctx);
  l.value = arena_array(&l.memory, g->n_values, sizeof *l.value);
  l.live = arena_array(&l.memory, g->n_nodes, sizeof *l.live);
  sn_status status = lower_all(&l);
  if (status != SN_OK && l.out->status == status)
    status = graph_check(l.out, g->ctx);
  arena_clear(&l.memory);
  *out_composites = l.composites;
  if (status == SN_OK)
    *out = l.out;
  else
    sn_graph_destroy(l.out);
  return status;
}

sn_status plan_lower(const sn_graph *g, sn_graph **out_lowered) {
  enum { MAX_LEVELS = 12 };
  sn_graph *now = NULL;
  int composites = 1;
  *out_lowered = NULL;
  for (int level = 0; composites > 0; level++) {
    sn_graph *next = NULL;
    sn_status status = level < MAX_LEVELS ? lower_once(now ? now : g, &next, &composites)
                                          : diag_fail(g->ctx, SN_ERR_INTERNAL,
                                                      "lower: a decomposition does not end");
    sn_graph_destroy(now);
    if (status != SN_OK)
      return status;
    now = next;
  }
  *out_lowered = now;
  return SN_OK;
}
