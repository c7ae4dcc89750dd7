/* Values that wait for rows: a concat of images that a norm reads first and a convolution later. It has to be in memory for the
 * convolution, but needs no step of its own: the norm's rows read its pieces and store it. */
#include "ops/table.h"
#include "plan/fuse.h"

enum { MOST_VIEWS = 4, MOST_LOADS = 8 };

/* Whether the first that reads a value, through reshapes, reduces it. */
static bool is_reduced_first(const fuse *f, const node *n) {
  uint32_t seen[MOST_VIEWS] = {n->first};
  int n_seen = 1;
  for (uint32_t i = (uint32_t)(n - f->g->nodes) + 1; i < f->g->n_nodes; i++) {
    const node *by = &f->g->nodes[i];
    bool reads = false;
    for (int k = 0; f->nodes[i].live && k < by->n_in; k++)
      for (int s = 0; s < n_seen; s++)
        reads = reads || by->in[k].id == seen[s];
    if (!reads)
      continue;
    if (by->op != OP_reshape)
      return f->nodes[i].reduces && by->n_in == 1;
    if (n_seen == MOST_VIEWS)
      return false;
    seen[n_seen++] = by->first;
  }
  return false;
}

bool fuse_waits(fuse *f, const node *n) {
  fuse_value *v = &f->values[n->first];
  v->waits = n->op == OP_concat && v->channels && v->wanted && v->loads <= MOST_LOADS &&
             !f->options->no_fusion && is_reduced_first(f, n);
  return v->waits;
}

sn_status fuse_end_wait(fuse *f, const node *n) {
  uint32_t value = n->in[0].id;
  int group = fuse_root(f, f->values[n->first].group);
  while (f->values[value].state == VALUE_FLOAT && fuse_node(f, value)->op == OP_reshape)
    value = fuse_node(f, value)->in[0].id;
  if (f->values[value].state != VALUE_FLOAT || !f->values[value].waits)
    return SN_OK;
  f->values[value].waits = false;
  if (!fuse_adopt(f, group, value, n->in[0].id) && f->status == SN_OK)
    SN_TRY(fuse_alone(f, value));
  for (uint32_t view = n->in[0].id; view != value; view = fuse_node(f, view)->in[0].id)
    f->values[view].group = f->values[value].group;
  return f->status;
}
