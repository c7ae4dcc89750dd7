/* See fold.h. Uniform values fold whatever their size: a pointwise op of such is computed on one element, a
 * view of such is the same value in another shape. */
#include "opt/fold.h"

#include "ir/dim.h"
#include "ir/dtype.h"

enum { MOST_ELEMENTS = 1024 };

/* A tensor of that type, zeroed; false when its size is symbolic or too large. */
static bool tensor_of(const sn_type *t, arena *memory, ref_tensor *out) {
  *out = (ref_tensor){.dtype = t->dtype, .rank = t->shape.rank, .count = 1};
  for (int d = 0; d < out->rank; d++) {
    if (!dim_is_number(t->shape.dim[d]))
      return false;
    out->dim[d] = t->shape.dim[d];
    if (!mul_fits(out->count, out->dim[d], &out->count) || out->count > MOST_ELEMENTS)
      return false;
  }
  out->data = arena_array(memory, (size_t)out->count, sizeof *out->data);
  return out->data != NULL;
}

static void load(const eclass *c, ref_tensor *t) {
  for (int64_t i = 0; i < t->count; i++)
    t->data[i] =
        c->uniform
            ? c->value
            : dtype_load(t->dtype, ((const attrs_constant *)c->constant->attrs)->data.data, i);
}

static bool evaluate(egraph *e, const enode *n, ref_tensor *in, ref_tensor *out, arena *memory) {
  int64_t *bindings = arena_array(memory, (size_t)dim_symbol_count(e->dims) + 1, sizeof *bindings);
  if (!bindings)
    return false;
  ref_ctx c = {.ctx = e->dims->ctx,
               .scratch = memory,
               .graph = e->dims,
               .bindings = bindings,
               .op = &e->table->ops[n->op],
               .attrs = n->attrs,
               .n_in = n->n_in,
               .n_out = 1,
               .in = in,
               .out = out};
  if (c.op->impl->ref(&c) != SN_OK)
    return false; /* it fails when it runs, as before */
  for (int64_t i = 0; i < out->count; i++)
    out->data[i] = dtype_round(out->dtype, out->data[i]);
  return true;
}

static class_id add_constant(egraph *e, const sn_type *type, const ref_tensor *t) {
  attrs_constant *a = arena_alloc(&e->memory, sizeof *a);
  size_t bytes = (size_t)t->count * sn_dtype_size(t->dtype);
  void *data = a ? arena_alloc(&e->memory, bytes) : NULL;
  if (!data)
    return 0;
  for (int64_t i = 0; i < t->count; i++)
    dtype_store(t->dtype, data, i, t->data[i]);
  a->dtype = type->dtype;
  a->shape.rank = type->shape.rank;
  memcpy(a->shape.dim, type->shape.dim, (size_t)type->shape.rank * sizeof a->shape.dim[0]);
  a->data = (sn_bytes){data, bytes};
  return egraph_add(e, OP_constant, NULL, 0, a, type, false);
}

static bool same_everywhere(const ref_tensor *t) {
  for (int64_t i = 1; i < t->count; i++)
    if (memcmp(&t->data[i], &t->data[0], sizeof t->data[0]) != 0)
      return false;
  return t->count > 0;
}

static class_id fold_elements(egraph *e, const enode *n, const sn_type *type, arena *memory) {
  ref_tensor in[MAX_INPUTS] = {0}, out;
  for (int i = 0; i < n->n_in; i++) {
    if (!n->in[i])
      continue;
    const eclass *c = egraph_class(e, n->in[i]);
    if (!tensor_of(&c->type, memory, &in[i]))
      return 0;
    load(c, &in[i]);
  }
  if (!tensor_of(type, memory, &out) || !evaluate(e, n, in, &out, memory))
    return 0;
  return same_everywhere(&out) ? egraph_uniform(e, type, out.data[0]) : add_constant(e, type, &out);
}

static class_id fold_uniform(egraph *e, const enode *n, const sn_type *type, arena *memory) {
  ref_tensor in[MAX_INPUTS] = {0}, out;
  sn_type one = {type->dtype, {0}};
  for (int i = 0; i < n->n_in; i++) {
    const eclass *c = egraph_class(e, n->in[i]);
    sn_type scalar = {c->type.dtype, {0}};
    if (!tensor_of(&scalar, memory, &in[i]))
      return 0;
    in[i].data[0] = c->value;
  }
  if (!tensor_of(&one, memory, &out) || !evaluate(e, n, in, &out, memory))
    return 0;
  return egraph_uniform(e, type, out.data[0]);
}

/* All arguments are constants; *uniform: each is one number everywhere. */
static bool constant_arguments(egraph *e, const enode *n, bool *uniform) {
  *uniform = true;
  for (int i = 0; i < n->n_in; i++) {
    const eclass *c = n->in[i] ? egraph_class(e, n->in[i]) : NULL;
    *uniform = *uniform && c && c->uniform;
    if (c && !c->uniform && !c->constant)
      return false;
  }
  return n->n_in > 0 && n->n_in <= MAX_INPUTS;
}

static bool foldable(const egraph *e, const enode *n) {
  if (n->dead || n->op == OP_PROJECT || n->op == OP_barrier)
    return false;
  const op_desc *d = &e->table->ops[n->op];
  bool random = d->n_attrs && d->attrs[d->n_attrs - 1].kind == ATTR_STREAM;
  return d->impl->ref && d->n_results == 1 && !random;
}

static class_id fold_node(egraph *e, const enode *n, const sn_type *type, arena *memory) {
  bool uniform;
  if (!foldable(e, n) || !constant_arguments(e, n, &uniform))
    return 0;
  op_kind kind = op_kind_of(n->op);
  if (uniform && (kind == OP_KIND_VIEW || kind == OP_KIND_MOVE))
    return egraph_uniform(e, type, egraph_class(e, n->in[0])->value);
  bool point = kind == OP_KIND_UNARY || kind == OP_KIND_BINARY || n->op == OP_where;
  return uniform && point ? fold_uniform(e, n, type, memory) : fold_elements(e, n, type, memory);
}

void opt_fold(egraph *e, class_id id) {
  class_id leader = egraph_find(e, id);
  eclass *c = e->classes[leader];
  if (c->constant || c->uniform || c->type.dtype == SN_NO_DTYPE)
    return;
  arena memory;
  arena_init(&memory, e->dims->ctx);
  sn_type type = c->type;
  for (const enode *n = c->first; n; n = n->next) {
    class_id folded = fold_node(e, n, &type, &memory);
    if (folded) {
      (void)egraph_merge(e, leader, folded);
      break;
    }
  }
  arena_clear(&memory);
}
