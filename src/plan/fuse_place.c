/* Where in a group's space values stand: what joins a group must have a place there. */
#include "ops/table.h"
#include "plan/fuse.h"

/* Where the view n of what stands at `below` stands. */
static bool view_place(fuse *f, int group, const node *n, const place *below, place *out) {
  sn_shape from = fuse_shape(f, n->in[0].id), to = fuse_shape(f, n->first);
  if (n->op == OP_reshape)
    return place_reshape(NULL, f->g, f->groups[group]->extent, from, below, to, out);
  const sn_ints *perm = &((const attrs_transpose *)n->attrs)->perm;
  *out = (place){.rank = to.rank};
  for (int d = 0; d < to.rank; d++) {
    int64_t axis = perm->n ? perm->v[d] : to.rank - 1 - d;
    out->c[d] = below->c[axis < 0 ? axis + to.rank : axis];
  }
  return true;
}

/* A member stands where it was put, a view of what has a place has one, and an op of elements stands where an argument of its shape
 * does: a norm that is read twice floats, and what is made of it joins the norm's group all the same. */
static bool find(fuse *f, int group, uint32_t value, int *left, place *out) {
  const fuse_value *v = &f->values[value];
  const node *n = fuse_node(f, value);
  place below;
  if (v->state == VALUE_MEMBER) {
    bool here = fuse_root(f, v->group) == group && v->at;
    if (here)
      *out = *v->at;
    return here;
  }
  if (v->state != VALUE_FLOAT || --*left < 0)
    return false;
  if (n->op == OP_reshape || n->op == OP_transpose)
    return find(f, group, n->in[0].id, left, &below) && view_place(f, group, n, &below, out);
  for (int k = 0; k < n->n_in; k++)
    if (n->in[k].id && shape_equal(fuse_shape(f, n->in[k].id), fuse_shape(f, value)) &&
        find(f, group, n->in[k].id, left, out))
      return true;
  return false;
}

bool fuse_find_place(fuse *f, int group, uint32_t value, place *out) {
  int left = 64; /* values to look at */
  return find(f, group, value, &left, out);
}
