/* See plan_oracle.h. */
#include "support/plan_oracle.h"

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"
#include "support/case.h"

#include <math.h>
#include <stdio.h>

static const double NOISE = 8, SAYS_NOTHING = 1e-3;

double plan_number(const plan_numbers *n, const char *name, sn_dtype dtype, int64_t i) {
  if (n->fill)
    return n->fill(n->user, name, dtype, i);
  if (dtype_is_float(dtype))
    return case_weight(name, i);
  int64_t whole = (int64_t)floor(fabs(case_weight(name, i)) * 4);
  return (double)(dtype == SN_BOOL ? whole & 1 : whole);
}

/* --- runs --- */

typedef struct oracle_run {
  ref_machine m;
  bool noisy;
  bool spilled; /* a convolution met what is not finite */
  arena scratch;
} oracle_run;

/* Results are sums of many terms: another order of summation is another result. */
static bool sums(int op) {
  static const int ops[] = {OP_sum,
                            OP_mean,
                            OP_prod,
                            OP_matmul,
                            OP_conv,
                            OP_conv_grad_input,
                            OP_attention,
                            OP_attention_grad,
                            OP_conv_grad_weight,
                            OP_cumsum,
                            OP_cumprod,
                            OP_scatter_along_add,
                            OP_scatter_add,
                            OP_var,
                            OP_logsumexp,
                            OP_l2_norm,
                            OP_layer_norm,
                            OP_softmax};
  for (size_t i = 0; i < COUNT_OF(ops); i++)
    if (ops[i] == op)
      return true;
  return false;
}

/* Results are rounded, and never copied from an argument: a last bit of them may differ. */
static bool rounds(int op) {
  static const int ops[] = {
      OP_add,   OP_sub,  OP_mul,     OP_div,  OP_affine,   OP_sqr, OP_sqrt, OP_rsqrt,
      OP_recip, OP_exp,  OP_exp2,    OP_log,  OP_log2,     OP_sin, OP_cos,  OP_expm1,
      OP_log1p, OP_tanh, OP_sigmoid, OP_silu, OP_softplus, OP_erf, OP_gelu, OP_gelu_tanh,
      OP_mish,  OP_pow,  OP_powf,    OP_tan,  OP_atan,     OP_elu, OP_atan2};
  for (size_t i = 0; i < COUNT_OF(ops); i++)
    if (ops[i] == op)
      return true;
  return false;
}

static void fill_leaf(const sn_graph *g, const plan_numbers *n, const node *leaf, ref_tensor *t) {
  const char *name = leaf->op == OP_constant ? "" : graph_leaf_name(g, leaf);
  for (int64_t k = 0; k < t->count; k++)
    if (leaf->op == OP_constant)
      t->data[k] = dtype_load(t->dtype, ((const attrs_constant *)leaf->attrs)->data.data, k);
    else
      t->data[k] = dtype_round(t->dtype, plan_number(n, name, t->dtype, k));
}

static bool move_inputs(oracle_run *r, uint32_t node_index, ref_tensor *in, int n) {
  for (int i = 0; i < n; i++) {
    if (!in[i].data || !dtype_is_float(in[i].dtype))
      continue;
    char name[32];
    snprintf(name, sizeof name, "noise%u.%d", node_index, i);
    in[i].data = arena_copy(&r->scratch, in[i].data, (size_t)in[i].count * sizeof(double));
    if (!in[i].data)
      return false;
    for (int64_t k = 0; k < in[i].count; k++)
      in[i].data[k] *= 1 + 0x1p-22 * case_weight(name, k);
  }
  return true;
}

/* Up or down by half a last bit. */
static void move_results(uint32_t node_index, ref_tensor *out, int n) {
  for (int i = 0; i < n; i++) {
    char name[32];
    snprintf(name, sizeof name, "bit%u.%d", node_index, i);
    for (int64_t k = 0; dtype_is_float(out[i].dtype) && k < out[i].count; k++)
      out[i].data[k] *= case_weight(name, k) < 0 ? 1 - 0x1p-24 : 1 + 0x1p-24;
  }
}

static bool is_convolution(int op) {
  return op == OP_conv || op == OP_conv_transpose || op == OP_conv_grad_input ||
         op == OP_conv_grad_weight;
}

static bool all_finite(const ref_tensor *in, int n) {
  for (int i = 0; i < n; i++)
    for (int64_t k = 0; in[i].data && k < in[i].count; k++)
      if (!isfinite(in[i].data[k]))
        return false;
  return true;
}

static sn_status run_node(oracle_run *r, uint32_t i) {
  const sn_graph *g = r->m.graph;
  const node *n = &g->nodes[i];
  ref_tensor *in = arena_array(&r->scratch, (size_t)n->n_in, sizeof *in);
  if (!in)
    return SN_ERR_NO_MEMORY;
  for (int k = 0; k < n->n_in; k++)
    in[k] = r->m.tensors[n->in[k].id];
  r->spilled = r->spilled || (is_convolution(n->op) && !all_finite(in, n->n_in));
  if (r->noisy && sums(n->op) && !move_inputs(r, i, in, n->n_in))
    return SN_ERR_NO_MEMORY;
  for (int k = 0; k < n->n_out; k++) {
    ref_tensor *t = &r->m.tensors[n->first + (uint32_t)k];
    t->data = mem_array(g->ctx, (size_t)t->count, sizeof *t->data);
    if (!t->data)
      return SN_ERR_NO_MEMORY;
  }
  sn_status status = ref_node(g, r->m.bindings, r->m.mode, n, in, &r->m.tensors[n->first]);
  if (r->noisy && rounds(n->op))
    move_results(i, &r->m.tensors[n->first], n->n_out);
  arena_clear(&r->scratch);
  return status;
}

static sn_status run_graph(oracle_run *r, const sn_graph *g, const plan_numbers *n, ref_mode mode) {
  static const int64_t none[1] = {0};
  sn_status status = ref_start(&r->m, g, n->bindings ? n->bindings : none, mode);
  arena_init(&r->scratch, g->ctx);
  for (uint32_t i = 0; status == SN_OK && i < g->n_nodes; i++) {
    if (!r->m.live[i])
      continue;
    if (graph_op(g, &g->nodes[i])->impl->ref)
      status = run_node(r, i);
    else
      fill_leaf(g, n, &g->nodes[i], &r->m.tensors[g->nodes[i].first]);
  }
  arena_clear(&r->scratch);
  return status;
}

/* --- what is kept of them --- */

static const ref_tensor *find(const ref_machine *m, const oracle_tensor *t) {
  const sn_graph *g = m->graph;
  for (int i = 0; !t->assigned && i < g->n_outputs; i++)
    if (strcmp(g->outputs[i].name, t->name) == 0)
      return &m->tensors[g->outputs[i].value.id];
  for (int i = 0; t->assigned && i < g->n_assigns; i++)
    if (strcmp(graph_leaf_name(g, graph_node(g, g->assigns[i].state)), t->name) == 0)
      return &m->tensors[g->assigns[i].value.id];
  return NULL;
}

static sn_status keep_values(plan_oracle *o, const ref_machine *m) {
  const sn_graph *g = m->graph;
  o->n = g->n_outputs + g->n_assigns;
  o->tensors = arena_array(&o->memory, (size_t)o->n, sizeof *o->tensors);
  if (!o->tensors)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < o->n; i++) {
    oracle_tensor *t = &o->tensors[i];
    t->assigned = i >= g->n_outputs;
    t->name = t->assigned ? graph_leaf_name(g, graph_node(g, g->assigns[i - g->n_outputs].state))
                          : g->outputs[i].name;
    t->value = *find(m, t);
    t->value.data = arena_copy(&o->memory, t->value.data, (size_t)t->value.count * sizeof(double));
    if (!t->value.data)
      return SN_ERR_NO_MEMORY;
    for (int64_t k = 0; k < t->value.count; k++)
      if (isfinite(t->value.data[k]))
        t->most = fmax(t->most, fabs(t->value.data[k]));
  }
  return SN_OK;
}

static sn_status keep_other(plan_oracle *o, const ref_machine *m, int slot) {
  for (int i = 0; i < o->n; i++) {
    oracle_tensor *t = &o->tensors[i];
    const ref_tensor *from = find(m, t);
    if (!from || from->count != t->value.count)
      return diag_fail(m->graph->ctx, SN_ERR_INTERNAL, "lowered: \"%s\" is gone", t->name);
    t->others[slot] = arena_copy(&o->memory, from->data, (size_t)from->count * sizeof(double));
    if (!t->others[slot])
      return SN_ERR_NO_MEMORY;
  }
  return SN_OK;
}

static double distance(const double *a, const double *b, int64_t n) {
  double most = 0;
  for (int64_t k = 0; k < n; k++)
    if (isfinite(a[k]) && isfinite(b[k]))
      most = fmax(most, fabs(a[k] - b[k]));
  return most;
}

/* The runs: 0 f64 of the graph, 1 the same moved; 2 f32 of the lowered graph, 3 f64 of it, 4 the same moved. */
static void find_noise(oracle_tensor *t) {
  int64_t n = t->value.count;
  const double *const *other = t->others;
  if (!dtype_is_float(t->value.dtype))
    return;
  t->noise = fmax(distance(t->value.data, other[0], n), distance(other[0], other[1], n));
  if (other[2]) {
    t->noise = fmax(t->noise, distance(other[2], other[3], n));
    t->noise = fmax(t->noise, distance(other[3], other[4], n));
  }
}

sn_status plan_oracle_run(plan_oracle *o, const sn_graph *g, const sn_graph *lowered,
                          const plan_numbers *n) {
  *o = (plan_oracle){0};
  arena_init(&o->memory, g->ctx);
  oracle_run first = {0};
  sn_status status = run_graph(&first, g, n, REF_F32);
  if (status == SN_OK)
    status = keep_values(o, &first.m);
  for (int i = 0; status == SN_OK && i < o->n; i++)
    o->tensors[i].spilled = first.spilled;
  ref_end(&first.m);
  for (int k = 0; status == SN_OK && k < (lowered ? 5 : 2); k++) {
    oracle_run other = {.noisy = k == 1 || k == 4};
    status = run_graph(&other, k < 2 ? g : lowered, n, k == 2 ? REF_F32 : REF_F64);
    if (status == SN_OK)
      status = keep_other(o, &other.m, k);
    ref_end(&other.m);
  }
  for (int i = 0; status == SN_OK && i < o->n; i++)
    find_noise(&o->tensors[i]);
  return status;
}

void plan_oracle_end(plan_oracle *o) { arena_clear(&o->memory); }

/* --- judging --- */

bool oracle_unsure(const oracle_tensor *t) { return t->noise > SAYS_NOTHING * t->most; }

static double tolerance_of(const plan_numbers *n, sn_dtype dtype) {
  double given = n->tolerance > 0 ? n->tolerance : 1e-5;
  return dtype == SN_F16 ? fmax(given, 0x1p-9) : dtype == SN_BF16 ? fmax(given, 0x1p-6) : given;
}

static bool same_kind(double a, double b) {
  return isnan(a) ? isnan(b) : isinf(a) ? a == b : isfinite(b);
}

/* Whether all runs of the reference agree that this element is NaN, an infinity, or neither. */
static bool settled(const oracle_tensor *t, int64_t k) {
  for (size_t i = 0; i < COUNT_OF(t->others); i++)
    if (t->others[i] && !same_kind(t->value.data[k], t->others[i][k]))
      return false;
  return true;
}

static bool element_right(const oracle_tensor *t, double allowed, double got, int64_t k) {
  double expected = t->value.data[k];
  if (!dtype_is_float(t->value.dtype))
    return expected == got;
  if (!settled(t, k) || (t->spilled && !isfinite(got)))
    return true;
  if (!isfinite(expected) || !isfinite(got))
    return same_kind(expected, got);
  return fabs(expected - got) <= allowed;
}

bool oracle_accepts(const oracle_tensor *t, const plan_numbers *n, const void *data, char *why,
                    size_t size) {
  double allowed = tolerance_of(n, t->value.dtype) * t->most + NOISE * t->noise;
  if (oracle_unsure(t))
    return true;
  for (int64_t k = 0; k < t->value.count; k++) {
    double got = dtype_load(t->value.dtype, data, k);
    if (!element_right(t, allowed, got, k)) {
      snprintf(why, size,
               "%s \"%s\", element %lld of %lld: the reference says %.9g, the plan %.9g "
               "(largest %.3g, noise %.3g)",
               t->assigned ? "state" : "output", t->name, (long long)k, (long long)t->value.count,
               t->value.data[k], got, t->most, t->noise);
      return false;
    }
  }
  return true;
}
