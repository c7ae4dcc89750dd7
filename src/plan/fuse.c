/* Fusion: visits the nodes of a lowered graph once, in order, and decides for each value whether it floats, joins a group or
 * gets one of its own. fuse.h says what these mean; fuse_steps.c makes the program of it. */
#include "ops/table.h"
#include "plan/fuse.h"

/* Of what a value may stand for and still float. Views cost nothing, but emission goes down through them. */
enum { MOST_LOADS = 64, MOST_DEPTH = 40, MOST_VIEWS = 160 };

/* Bytes that take as long to move as a multiplication, times four: an f32 there and back counts 40. */
static const double element_traffic = 40;

static void sum_up(fuse *f, const node *n) {
  fuse_value *v = &f->values[n->first];
  v->flops = fuse_facts(f, n->first)->flops;
  for (int k = 0; k < n->n_in; k++) {
    const fuse_value *in = &f->values[n->in[k].id];
    if (!fuse_reads(n, k))
      continue;
    int group = fuse_root(f, in->group);
    if (group >= 0 && (v->group < 0 || f->groups[group]->stage > f->groups[v->group]->stage))
      v->group = group;
    v->leafy = v->leafy || in->state == VALUE_LEAF || in->leafy;
    if (in->state != VALUE_FLOAT) {
      v->loads++;
      continue;
    }
    v->flops += in->flops;
    v->loads += in->loads;
    v->depth = in->depth + 1 > v->depth ? in->depth + 1 : v->depth;
  }
}

/* Whether computing it once and reading it pays, or must be. */
static bool wants_memory(const fuse *f, const node *n) {
  const fuse_value *v = &f->values[n->first];
  if (v->wanted || v->pinned)
    return true;
  if (fuse_facts(f, n->first)->view)
    return v->depth > MOST_VIEWS;
  if (f->options->no_fusion || v->loads > MOST_LOADS || v->depth > MOST_DEPTH)
    return true;
  bool widens = n->op == OP_cast && f->values[n->in[0].id].state == VALUE_LEAF;
  if (v->boundary && !widens && (v->flops >= 8 || (v->leafy && v->flops >= 1)))
    return true;
  double again = v->flops * v->readers;
  double stored = v->flops * v->elements + element_traffic * v->elements * (1 + v->uses);
  return v->uses > 1 && again > stored;
}

static sn_status visit_element(fuse *f, const node *n) {
  fuse_value *v = &f->values[n->first];
  v->state = VALUE_FLOAT;
  sum_up(f, n);
  v->wanted = wants_memory(f, n);
  if (n->op == OP_update_slice && v->wanted && !f->options->no_fusion)
    return fuse_update(f, n);
  if (fuse_waits(f, n))
    return SN_OK;
  bool joins = v->wanted || !fuse_facts(f, n->first)->view;
  if (joins && fuse_join(f, n))
    return SN_OK;
  if (f->status != SN_OK)
    return f->status;
  return v->wanted ? fuse_alone(f, n->first) : SN_OK;
}

static sn_status visit(fuse *f, const node *n) {
  for (int k = 0; k < n->n_out; k++)
    f->values[n->first + (uint32_t)k].group = -1;
  if (!graph_op(f->g, n)->impl->ref) {
    f->values[n->first].state = VALUE_LEAF;
    return SN_OK;
  }
  if (plan_is_contraction(n->op))
    return fuse_contraction(f, n);
  if (plan_is_core(n->op))
    return fuse_core(f, n);
  if (!fuse_facts(f, n->first)->reduces)
    return visit_element(f, n);
  SN_TRY(fuse_reduce(f, n));
  return fuse_end_wait(f, n);
}

static sn_status fuse_all(fuse *f) {
  SN_TRY(fuse_find_facts(f));
  if (f->options->channels_last)
    SN_TRY(fuse_find_layout(f));
  for (uint32_t i = 0; i < f->g->n_nodes; i++)
    if (f->nodes[i].live)
      SN_TRY(visit(f, &f->g->nodes[i]));
  SN_TRY(fuse_finish(f));
  return fuse_steps(f);
}

/* Without memory, or with a size out of bounds, fusion goes on where it can and may then stumble over something else. */
static sn_status first_cause(const fuse *f, sn_status status) {
  if (f->g->status != SN_OK)
    return graph_check(f->g, f->g->ctx);
  if (f->status == SN_ERR_NO_MEMORY && status != SN_ERR_NO_MEMORY)
    return diag_fail(f->g->ctx, SN_ERR_NO_MEMORY, "fuse: out of memory");
  return status;
}

sn_status plan_fuse(sn_graph *lowered, const plan_options *options, program **out_program) {
  static const plan_options defaults = {0};
  fuse f = {.g = lowered, .options = options ? options : &defaults};
  *out_program = NULL;
  SN_TRY(program_create(lowered->ctx, &f.out));
  arena_init(&f.memory, lowered->ctx);
  f.values = arena_array(&f.memory, lowered->n_values, sizeof *f.values);
  f.nodes = arena_array(&f.memory, lowered->n_nodes, sizeof *f.nodes);
  sn_status status = f.values && f.nodes ? fuse_all(&f) : SN_ERR_NO_MEMORY;
  status = first_cause(&f, status);
  arena_clear(&f.memory);
  if (status == SN_OK)
    *out_program = f.out;
  else
    program_destroy(f.out);
  return status;
}
