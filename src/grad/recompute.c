/* Recomputation: nodes that lie before a boundary (sn_recompute) form that boundary's segment. When the
 * sweep enters a segment it clones the segment behind barriers that wait for the gradient arriving
 * there, and vjps see the clones; so the originals die after the forward pass. Leaves, boundaries and
 * what is used outside its segment are kept, not cloned.
 */
#include "grad/sweep.h"

/* Nodes before each boundary that no earlier boundary covers. */
static void mark_segments(sweep *s) {
  const sn_graph *g = s->g;
  for (uint32_t b = s->n_nodes; b-- > 0;) {
    s->kept[b] = g->nodes[b].n_in == 0 || g->nodes[b].boundary;
    if (s->reached[b] && g->nodes[b].boundary)
      s->segment[b] = b + 1;
  }
  for (uint32_t i = s->n_nodes; i-- > 0;)
    for (int k = 0; s->segment[i] && k < g->nodes[i].n_in; k++) {
      uint32_t v = g->nodes[i].in[k].id, from = g->values[v].node;
      bool covered = v == 0 || s->kept[from];
      if (!covered && (s->segment[from] == 0 || s->segment[from] > s->segment[i]))
        s->segment[from] = s->segment[i];
    }
}

/* What is used outside its segment has to live anyway. */
static void mark_kept(sweep *s) {
  const sn_graph *g = s->g;
  for (uint32_t i = 0; i < s->n_nodes; i++)
    for (int k = 0; s->reached[i] && k < g->nodes[i].n_in; k++) {
      uint32_t v = g->nodes[i].in[k].id, from = g->values[v].node;
      if (v && s->segment[from] != s->segment[i])
        s->kept[from] = true;
    }
}

sn_status recompute_mark(sweep *s) {
  s->segment = arena_array(s->memory, s->n_nodes, sizeof *s->segment);
  s->kept = arena_array(s->memory, s->n_nodes, sizeof *s->kept);
  s->cloned = arena_array(s->memory, s->n_nodes, sizeof *s->cloned);
  s->clone = arena_array(s->memory, s->n_values, sizeof *s->clone);
  s->held = arena_array(s->memory, s->n_values, sizeof *s->held);
  s->held_in = arena_array(s->memory, s->n_values, sizeof *s->held_in);
  if (!s->segment || !s->kept || !s->cloned || !s->clone || !s->held || !s->held_in)
    return SN_ERR_NO_MEMORY;
  mark_segments(s);
  mark_kept(s);
  return SN_OK;
}

sn_value recompute_seen(const sweep *s, sn_value v) {
  return s->clone && v.id && v.id < s->n_values && s->clone[v.id].id ? s->clone[v.id] : v;
}

/* A kept value as the clones of a segment see it: not before `after` has arrived. */
static sn_value hold(sweep *s, sn_value v, uint32_t segment, sn_value after) {
  if (s->held_in[v.id] != segment)
    s->held[v.id] = sn_barrier(s->g, v, after, SN_AUTO);
  s->held_in[v.id] = segment;
  return s->held[v.id];
}

static int64_t elements(const sn_graph *g, sn_value v) {
  sn_shape shape = sn_value_type(g, v).shape;
  int64_t n = 1;
  for (int d = 0; d < shape.rank; d++)
    if (!mul_fits(n, sn_dim_max(g, shape.dim[d]), &n))
      return INT64_MAX;
  return n;
}

/* Arguments of the clone of n: clones, leaves, and other kept values held back. A node on nothing but
 * leaves would be found to be the original, so its smallest argument is held back too. */
static void clone_arguments(sweep *s, const node *n, uint32_t segment, sn_value after,
                            sn_value *in) {
  const sn_graph *g = s->g;
  bool differs = false;
  int smallest = -1;
  for (int k = 0; k < n->n_in; k++) {
    uint32_t from = g->values[n->in[k].id].node;
    bool leaf = n->in[k].id == 0 || g->nodes[from].n_in == 0;
    in[k] = leaf            ? n->in[k]
            : s->kept[from] ? hold(s, n->in[k], segment, after)
                            : recompute_seen(s, n->in[k]);
    differs = differs || in[k].id != n->in[k].id;
    if (in[k].id && (smallest < 0 || elements(g, in[k]) < elements(g, in[smallest])))
      smallest = k;
  }
  if (!differs && smallest >= 0)
    in[smallest] = hold(s, in[smallest], segment, after);
}

sn_status recompute_segment(sweep *s, uint32_t boundary, sn_value after) {
  sn_graph *g = s->g;
  s->cloned[boundary] = true;
  for (uint32_t i = 0; i < boundary; i++) {
    if (s->segment[i] != boundary + 1 || s->kept[i])
      continue;
    node n = g->nodes[i];
    sn_value *in = arena_array(s->memory, (size_t)n.n_in, sizeof *in);
    if (!in)
      return SN_ERR_NO_MEMORY;
    clone_arguments(s, &n, boundary + 1, after, in);
    sn_value first = graph_add(g, n.op, in, n.n_in, n.attrs);
    SN_TRY(g->status);
    for (int k = 0; k < n.n_out; k++)
      s->clone[n.first + (uint32_t)k] = (sn_value){first.id + (uint32_t)k};
  }
  return SN_OK;
}
