/* What is known of a class from its nodes: constants, values that are one number everywhere, and what can be made
 * before the run because it depends on nothing but constants and states that are not assigned. */
#include "ir/dtype.h"
#include "opt/egraph.h"

static bool all_equal(const attrs_constant *a, int64_t n, double *value) {
  size_t each = sn_dtype_size(a->dtype);
  const char *data = a->data.data;
  if (n < 1)
    return false;
  for (int64_t i = 1; i < n; i++)
    if (memcmp(data, data + (size_t)i * each, each) != 0)
      return false;
  *value = dtype_load(a->dtype, data, 0);
  return true;
}

static bool inputs_prepared(egraph *e, const enode *n) {
  bool prepared = n->n_in > 0;
  for (int i = 0; i < n->n_in; i++)
    prepared = prepared && (!n->in[i] || egraph_class(e, n->in[i])->prepared);
  return prepared;
}

/* Ops with an identity (random streams, barriers) are not made ahead of the run. */
static bool has_stream(const egraph *e, int op) {
  const op_desc *d = op == OP_PROJECT ? NULL : &e->table->ops[op];
  return d && d->n_attrs && d->attrs[d->n_attrs - 1].kind == ATTR_STREAM;
}

void egraph_note(egraph *e, eclass *c, enode *n) {
  if (n->op == OP_full) {
    const attrs_full *a = n->attrs;
    c->constant = n;
    c->uniform = true;
    c->value = dtype_round(a->dtype, a->value);
  } else if (n->op == OP_constant) {
    const attrs_constant *a = n->attrs;
    c->constant = n;
    c->uniform = all_equal(a, (int64_t)(a->data.size / sn_dtype_size(a->dtype)), &c->value);
  }
  if (n->op == OP_full || n->op == OP_constant || n->op == OP_arange || n->op == OP_eye ||
      (inputs_prepared(e, n) && !has_stream(e, n->op)))
    c->prepared = true;
}
