/* See cost.h. */
#include "opt/cost.h"

#include "ops/table.h"

#include <math.h>

opt_target cost_target(const opt_target *t) {
  opt_target filled = *t;
  if (!(filled.flops > 0))
    filled.flops = 1e12;
  if (!(filled.bytes > 0))
    filled.bytes = 1e11;
  if (!(filled.launch_s > 0))
    filled.launch_s = 3e-6;
  return filled;
}

static double seconds(const opt_target *t, const cost_facts *f, uint32_t reads, bool pinned) {
  /* A node is never quite free: of equal costs the shorter graph wins. */
  double moved = f->bytes / t->bytes, work = f->flops / t->flops, least = t->launch_s * 1e-3;
  if (t->count_nodes)
    return f->prepared || f->part || f->kind == OP_KIND_LEAF || f->kind == OP_KIND_FILL ||
                   f->kind == OP_KIND_VIEW
               ? 100 * least
               : t->launch_s;
  if (f->prepared || f->part || f->kind == OP_KIND_LEAF)
    return moved * reads + least;
  switch (f->kind) {
  case OP_KIND_FILL: return least;
  case OP_KIND_VIEW: return least + moved * (reads > 1 ? reads - 1 : 0);
  case OP_KIND_OTHER: return (work > moved ? work : moved) + t->launch_s + moved * reads + least;
  default: break;
  }
  double again = work * reads + f->in_bytes / t->bytes * (reads > 1 ? reads - 1 : 0);
  double stored = work + moved + t->launch_s + moved * reads;
  return least + (pinned || stored < again ? stored : again);
}

double cost_time(const opt_target *t, const cost_facts *f, uint32_t reads, bool pinned) {
  return reads || pinned ? floor(seconds(t, f, reads, pinned) / COST_UNIT_S + 0.5) : 0;
}

typedef struct tally {
  const sn_graph *g;
  bool *live, *pinned, *prepared;
  uint32_t *reads;
} tally;

static bool stream(const op_desc *d) {
  return d->n_attrs && d->attrs[d->n_attrs - 1].kind == ATTR_STREAM;
}

/* What depends on nothing but constants and states that stay. */
static void mark_prepared(tally *t) {
  const sn_graph *g = t->g;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const node *n = &g->nodes[i];
    op_kind kind = op_kind_of(n->op);
    bool ready = n->op == OP_state ? !t->prepared[n->first]
                                   : n->op == OP_constant || kind == OP_KIND_FILL || n->n_in > 0;
    for (int k = 0; k < n->n_in; k++)
      ready = ready && (!n->in[k].id || t->prepared[n->in[k].id]);
    for (int k = 0; k < n->n_out; k++)
      t->prepared[n->first + (uint32_t)k] = ready && !stream(graph_op(g, n));
  }
}

static void count_reads(tally *t, const sn_value *keep, int n_keep) {
  const sn_graph *g = t->g;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    for (int k = 0; t->live[i] && k < g->nodes[i].n_in; k++) {
      const sn_value *in = g->nodes[i].in;
      bool again = false;
      for (int j = 0; j < k; j++)
        again = again || in[j].id == in[k].id;
      t->reads[in[k].id] += !again;
    }
  for (int i = 0; i < g->n_outputs; i++)
    t->pinned[g->outputs[i].value.id] = true;
  for (int i = 0; i < g->n_assigns; i++)
    t->pinned[g->assigns[i].value.id] = true;
  for (int i = 0; i < n_keep; i++)
    t->pinned[keep[i].id] = true;
}

static double node_time(const tally *t, const opt_target *target, const node *n) {
  const sn_graph *g = t->g;
  sn_type few[MAX_INPUTS], out[MAX_RESULTS];
  int n_in = n->n_in < MAX_INPUTS ? n->n_in : MAX_INPUTS;
  for (int k = 0; k < n_in; k++)
    few[k] = n->in[k].id ? g->values[n->in[k].id].type : (sn_type){0};
  for (int k = 0; k < n->n_out; k++)
    out[k] = g->values[n->first + (uint32_t)k].type;
  cost_facts f = {.kind = op_kind_of(n->op), .prepared = t->prepared[n->first]};
  double all;
  op_cost(g, n->op, n->attrs, n_in, few, n->n_out, out, &f.flops, &all);
  f.bytes = type_bytes(g, &out[0]);
  f.in_bytes = n->n_out == 1 ? all - f.bytes : 0;
  if (n->n_out == 1)
    return cost_time(target, &f, t->reads[n->first], t->pinned[n->first]);
  double parts = 0;
  f.bytes = 0;
  for (int k = 0; k < n->n_out; k++) {
    cost_facts p = {.kind = f.kind, .part = true, .bytes = type_bytes(g, &out[k])};
    f.bytes += p.bytes;
    parts +=
        cost_time(target, &p, t->reads[n->first + (uint32_t)k], t->pinned[n->first + (uint32_t)k]);
  }
  return parts + cost_time(target, &f, 0, true);
}

sn_status opt_graph_cost(const sn_graph *g, const opt_target *target, double *out_s) {
  return opt_kept_cost(g, target, NULL, 0, out_s);
}

sn_status opt_kept_cost(const sn_graph *g, const opt_target *target, const sn_value *keep,
                        int n_keep, double *out_s) {
  arena memory;
  opt_target filled = cost_target(target);
  tally t = {.g = g};
  *out_s = 0;
  arena_init(&memory, g->ctx);
  t.live = arena_array(&memory, g->n_nodes, sizeof *t.live);
  t.pinned = arena_array(&memory, g->n_values, sizeof *t.pinned);
  t.prepared = arena_array(&memory, g->n_values, sizeof *t.prepared);
  t.reads = arena_array(&memory, g->n_values, sizeof *t.reads);
  bool ok = t.live && t.pinned && t.prepared && t.reads;
  if (ok) {
    for (int i = 0; i < g->n_assigns; i++)
      t.prepared[g->assigns[i].state.id] = true; /* read by mark_prepared: assigned */
    mark_prepared(&t);
    opt_mark_live(g, keep, n_keep, t.live);
    count_reads(&t, keep, n_keep);
    for (uint32_t i = 0; i < g->n_nodes; i++)
      if (t.live[i])
        *out_s += node_time(&t, &filled, &g->nodes[i]);
    *out_s *= COST_UNIT_S;
  }
  arena_clear(&memory);
  return ok ? SN_OK : SN_ERR_NO_MEMORY;
}
