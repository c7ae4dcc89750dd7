/* Which values stand with their channels last in memory ([N, pixels, C]): images that convolutions read and make, so that a
 * kernel finds the channels of each place of a window side by side; and what other ops make of them, so that loops run
 * through all that they touch in one order.
 *
 * Decided from the graph alone, before anything is emitted; whether a value is stored at all shows later. Left as they are:
 * what is seen from outside or kept, operands and results of cores, slices that are updated in place, and what is read
 * where other values say. */
#include "ops/table.h"
#include "plan/fuse.h"

typedef struct form {
  int64_t n, channels, pixels;
} form;

typedef struct layout {
  fuse *f;
  uint32_t *set; /* by value: one that it belongs together with, in the end itself */
  bool *wanted;  /* by value that stands for its set: a convolution reads or makes one of it */
  bool *fixed;   /* by value: row-major it stays */
  form *forms;   /* by value: the image that its elements are; 0 channels: of none */
} layout;

static uint32_t find_set(const layout *l, uint32_t value) {
  while (l->set[value] != value) {
    l->set[value] = l->set[l->set[value]];
    value = l->set[value];
  }
  return value;
}

/* [N, C, …] */
static bool is_image(sn_shape s, sn_dim n, sn_dim channels) {
  return s.rank >= 3 && s.dim[0] == n && s.dim[1] == channels;
}

static bool is_element(const fuse *f, const node *n) {
  return graph_op(f->g, n)->impl->element && !plan_is_contraction(n->op) && !plan_is_core(n->op);
}

/* Whether axes of a node's result are those of its arguments. */
static bool keeps_order(const fuse *f, const node *n) {
  return n->op != OP_transpose && is_element(f, n);
}

static void join_arguments(const layout *l, const node *n) {
  sn_shape s = fuse_shape(l->f, n->first);
  for (int k = 0; k < n->n_in && s.rank >= 3; k++)
    if (n->in[k].id && is_image(fuse_shape(l->f, n->in[k].id), s.dim[0], s.dim[1]))
      l->set[find_set(l, n->in[k].id)] = find_set(l, n->first);
}

/* What a convolution reads or makes, but for weights and their gradients; behind views, what they show. */
static void want(const layout *l, uint32_t value) {
  sn_shape s = fuse_shape(l->f, value);
  while (is_image(fuse_shape(l->f, value), s.dim[0], s.dim[1])) {
    const node *n = fuse_node(l->f, value);
    l->wanted[value] = true;
    if (!fuse_facts(l->f, value)->view || n->op == OP_transpose)
      return;
    value = n->in[0].id;
  }
}

static void want_images(const layout *l, const node *n) {
  switch (n->op) {
  case OP_conv:
  case OP_conv_grad_input:
    want(l, n->in[0].id);
    want(l, n->first);
    break;
  case OP_conv_grad_weight:
    want(l, n->in[0].id);
    want(l, n->in[1].id);
    break;
  default: break;
  }
}

static void fix_operands(const layout *l, const node *n) {
  const fuse *f = l->f;
  for (int k = 0; k < n->n_in; k++) {
    uint32_t v = n->in[k].id;
    for (; v && fuse_facts(f, v)->view; v = fuse_node(f, v)->in[0].id)
      l->fixed[v] = true;
    l->fixed[v] = true;
  }
  for (int k = 0; k < n->n_out; k++)
    l->fixed[n->first + (uint32_t)k] = true;
}

/* From the last node back: what is computed in place is read where its reader reads. */
static void find_by_data(const layout *l, bool *by_data) {
  const fuse *f = l->f;
  for (uint32_t i = f->g->n_nodes; i-- > 0;) {
    const node *n = &f->g->nodes[i];
    const node_facts *facts = &f->nodes[i];
    bool in_place = is_element(f, n) && !facts->reduces;
    if (!facts->live || !(facts->by_data || (in_place && by_data[n->first])))
      continue;
    for (int k = 0; k < n->n_in; k++)
      by_data[n->in[k].id] = l->fixed[n->in[k].id] = true;
  }
}

/* What a matmul reads with channels and pixels as one axis should be dense along it. */
static void fix_flattened(const layout *l, const node *n) {
  for (int k = 0; k < n->n_in; k++) {
    uint32_t v = n->in[k].id;
    bool flat = false;
    while (v && fuse_facts(l->f, v)->view) {
      uint32_t shown = fuse_node(l->f, v)->in[0].id;
      sn_shape s = fuse_shape(l->f, shown);
      flat = flat || (fuse_node(l->f, v)->op == OP_reshape && s.rank >= 3 &&
                      !is_image(fuse_shape(l->f, v), s.dim[0], s.dim[1]));
      v = shown;
    }
    l->fixed[v] = l->fixed[v] || flat;
  }
}

static void visit(const layout *l, const node *n) {
  if (plan_is_core(n->op) || n->op == OP_update_slice)
    fix_operands(l, n);
  else if (n->op == OP_matmul)
    fix_flattened(l, n);
  else if (plan_is_contraction(n->op))
    want_images(l, n);
  else if (keeps_order(l->f, n))
    join_arguments(l, n);
}

/* A shape of rank 3 and more as [n, channels, pixels]; zeros where it is too large or has symbols. */
static form own_form(sn_shape s) {
  form own = {.pixels = 1};
  int64_t all = 1;
  for (int d = 0; d < s.rank; d++)
    if (!dim_is_number(s.dim[d]) || s.dim[d] < 1 || !mul_fits(all, s.dim[d], &all))
      return (form){0};
  for (int d = 2; d < s.rank; d++)
    own.pixels *= s.dim[d];
  own.n = s.dim[0];
  own.channels = s.dim[1];
  return own;
}

static bool has_elements_of(sn_shape s, const form *of) {
  form own = own_form(s);
  return own.n == of->n && own.channels * own.pixels == of->channels * of->pixels;
}

/* An image's form is its own; that of what has another shape ([N, groups, …] of a norm), that of an argument with the same
 * elements. */
static void find_form(const layout *l, uint32_t value) {
  const fuse *f = l->f;
  const node *n = fuse_node(f, value);
  sn_shape s = fuse_shape(f, value);
  if (l->wanted[find_set(l, value)]) {
    l->forms[value] = own_form(s);
    return;
  }
  for (int k = 0; k < n->n_in && keeps_order(f, n) && s.rank >= 3; k++) {
    const form *in = &l->forms[n->in[k].id];
    if (in->channels && !l->forms[value].channels && has_elements_of(s, in))
      l->forms[value] = *in;
  }
}

static bool may_turn(const layout *l, uint32_t value) {
  const fuse_value *v = &l->f->values[value];
  const form *of = &l->forms[value];
  return !l->fixed[value] && !v->pinned && !v->prepared && !v->assigned &&
         l->f->g->values[value].type.dtype == SN_F32 &&
         graph_op(l->f->g, fuse_node(l->f, value))->impl->ref && of->channels > 1 &&
         of->pixels > 1 && of->channels % l->f->options->channels_last == 0;
}

static void find_sets(const layout *l) {
  const sn_graph *g = l->f->g;
  for (uint32_t v = 0; v < g->n_values; v++)
    l->set[v] = v;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (l->f->nodes[i].live)
      visit(l, &g->nodes[i]);
  for (uint32_t v = 1; v < g->n_values; v++)
    if (l->wanted[v])
      l->wanted[find_set(l, v)] = true;
}

sn_status fuse_find_layout(fuse *f) {
  uint32_t n = f->g->n_values;
  layout l = {.f = f};
  l.set = arena_array(&f->memory, n, sizeof *l.set);
  l.wanted = arena_array(&f->memory, n, sizeof *l.wanted);
  l.fixed = arena_array(&f->memory, n, sizeof *l.fixed);
  l.forms = arena_array(&f->memory, n, sizeof *l.forms);
  bool *by_data = arena_array(&f->memory, n, sizeof *by_data);
  if (!l.set || !l.wanted || !l.fixed || !l.forms || !by_data)
    return SN_ERR_NO_MEMORY;
  find_sets(&l);
  find_by_data(&l, by_data);
  for (uint32_t v = 1; v < n; v++) {
    find_form(&l, v);
    if (may_turn(&l, v)) {
      f->values[v].channels = l.forms[v].channels;
      f->values[v].pixels = l.forms[v].pixels;
    }
  }
  return SN_OK;
}

bool fuse_is_image(const fuse_value *v, sn_shape shape) {
  form own = shape.rank >= 3 ? own_form(shape) : (form){0};
  return own.channels == v->channels && own.pixels == v->pixels;
}

bool fuse_access(fuse *f, elem_ctx *c, const sn_dim *axis_extents, uint32_t value, sn_shape shape,
                 const place *at, access_room *room, access *out) {
  const fuse_value *v = &f->values[value];
  place of_image;
  if (v->channels && !fuse_is_image(v, shape)) {
    int64_t n = dim_count(f->g, shape) / (v->channels * v->pixels);
    sn_shape image = SN_SHAPE(n, v->channels, v->pixels);
    if (!place_reshape(c, f->g, axis_extents, shape, at, image, &of_image))
      return false;
    at = &of_image;
    shape = image;
  }
  return dag_access(f->g, at, shape, v->channels > 0, value, room, out);
}
