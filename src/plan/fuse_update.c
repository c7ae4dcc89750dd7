/* update_slice in place: the new rows are stored over the base's memory, the rest stays where it is. The group is a loop over
 * the rows that are written; its result is read by others from memory only. Which memory that is (a state's own, a dying
 * value's, a copy) is decided when the program is assembled (steps_take_base). */
#include "ops/table.h"
#include "plan/fuse.h"

/* i32: start + the coordinate along the axis. */
static reg written_row(emission *e, const node *n, const coord *along) {
  place scalar = {.rank = 0};
  instr index = {.op = REGION_INDEX,
                 .dtype = SN_I32,
                 .at = {.base = along->offset, .n_terms = along->n, .terms = along->terms}};
  instr sum = {.op = REGION_ALU, .code = ALU_add, .dtype = SN_I32};
  sum.a = emit_value(e, n->in[2].id, &scalar, 1);
  sum.b = emit_add(e, &index);
  return emit_add(e, &sum);
}

static bool emit_update(fuse *f, const node *n, int group) {
  fuse_group *g = f->groups[group];
  const attrs_update_slice *attrs = n->attrs;
  place at;
  access_room room;
  int axis = (int)(attrs->axis < 0 ? attrs->axis + fuse_shape(f, n->first).rank : attrs->axis);
  sn_shape base = fuse_shape(f, n->first);
  g->n_axes = place_of_axes(fuse_shape(f, n->in[1].id), 0, &at, g->extent);
  emission e = {.f = f, .group = group, .into = &g->d, .fresh = true};
  f->failed = false;
  instr store = {.op = REGION_STORE, .dtype = (uint8_t)f->g->values[n->first].type.dtype};
  store.a = emit_value(&e, n->in[1].id, &at, 1);
  at.c[axis] = elem_at(written_row(&e, n, &at.c[axis]), base.dim[axis]);
  const fuse_value *b = &f->values[n->in[0].id];
  int home = fuse_root(f, b->group);
  if (home >= 0 && g->stage <= f->groups[home]->stage)
    g->stage = f->groups[home]->stage + 1;
  if (home >= 0)
    f->groups[home]->read = true;
  if (f->failed || f->status != SN_OK ||
      !dag_access(f->g, &at, base, false, n->first, &room, &store.at))
    return false;
  g->update_store = emit_add(&e, &store);
  return !f->failed;
}

sn_status fuse_update(fuse *f, const node *n) {
  if (f->values[n->in[0].id].state == VALUE_FLOAT)
    SN_TRY(fuse_alone(f, n->in[0].id));
  int group = fuse_add_group(f, GROUP_LOOP, n);
  if (group < 0)
    return f->status;
  f->groups[group]->updates = n->in[0].id;
  f->groups[group]->prepared = false;
  f->groups[group]->stage = 0;
  if (!emit_update(f, n, group)) {
    f->n_groups--;
    return f->status != SN_OK ? f->status : fuse_alone(f, n->first);
  }
  return fuse_add_member(f, group, n->first, 0, NULL) ? SN_OK : f->status;
}
