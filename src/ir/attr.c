/* Attributes in canonical form: equal attributes are equal bytes, whatever the caller's struct held in
 * padding and in the unused tail of lists. */
#include "ir/dim.h"
#include "ir/dtype.h"

const attr_desc *attr_find(const op_desc *op, const char *name) {
  for (int i = 0; i < op->n_attrs; i++)
    if (strcmp(op->attrs[i].name, name) == 0)
      return &op->attrs[i];
  return NULL;
}

static bool bad(sn_graph *g, const op_desc *op, const attr_desc *a, const char *why) {
  (void)graph_fail(g, SN_ERR_INVALID, "%s: attribute %s: %s", op->name, a->name, why);
  return false;
}

static bool copy_ints(sn_graph *g, const op_desc *op, const attr_desc *a, const sn_ints *from,
                      sn_ints *to) {
  if (from->n < 0 || from->n > SN_MAX_RANK)
    return bad(g, op, a, "a list must have 0 to 8 numbers");
  to->n = from->n;
  for (int i = 0; i < from->n; i++)
    to->v[i] = from->v[i];
  return true;
}

static bool copy_shape(sn_graph *g, const op_desc *op, const attr_desc *a, const sn_shape *from,
                       sn_shape *to) {
  if (from->rank < 0 || from->rank > SN_MAX_RANK)
    return bad(g, op, a, "a shape must have 0 to 8 dims");
  to->rank = from->rank;
  for (int i = 0; i < from->rank; i++) {
    if (!dim_valid(g, from->dim[i]))
      return bad(g, op, a, "a dim is too large or belongs to another graph");
    to->dim[i] = from->dim[i];
  }
  return true;
}

static bool copy_bytes(sn_graph *g, const op_desc *op, const attr_desc *a, const sn_bytes *from,
                       sn_bytes *to) {
  if (!from->data && from->size)
    return bad(g, op, a, "no bytes are given");
  to->size = from->size;
  to->data = arena_copy(&g->memory, from->data ? from->data : "", from->size);
  if (!to->data)
    (void)graph_fail(g, SN_ERR_NO_MEMORY, "out of memory for a constant of %zu bytes", from->size);
  return to->data != NULL;
}

static bool copy_string(sn_graph *g, const op_desc *op, const attr_desc *a, const char *from,
                        const char **to) {
  if (!from || !*from)
    return bad(g, op, a, "a name must not be empty");
  if (strlen(from) > MAX_NAME)
    return bad(g, op, a, "a name must not be longer than 512 bytes");
  *to = graph_intern(g, from);
  if (!*to)
    (void)graph_fail(g, SN_ERR_NO_MEMORY, "out of memory for a name");
  return *to != NULL;
}

static bool copy_enum(sn_graph *g, const op_desc *op, const attr_desc *a, const int *from,
                      int *to) {
  int n = 0;
  while (a->words[n])
    n++;
  if (*from < 0 || *from >= n)
    return bad(g, op, a, "no such choice");
  *to = *from;
  return true;
}

static bool copy_stream(sn_graph *g, const op_desc *op, const attr_desc *a, const int64_t *from,
                        int64_t *to) {
  if (*from < -1 || *from > INT32_MAX)
    return bad(g, op, a, "an identity must lie in 0 … 2^31-1, or be -1 for the next free one");
  *to = *from < 0 ? g->next_stream : *from;
  if (*to > INT32_MAX)
    return bad(g, op, a, "no identity is free");
  if (*to >= g->next_stream)
    g->next_stream = *to + 1;
  return true;
}

static bool copy_one(sn_graph *g, const op_desc *op, const attr_desc *a, const void *from,
                     void *to) {
  switch (a->kind) {
  case ATTR_INT: *(int64_t *)to = *(const int64_t *)from; return true;
  case ATTR_REAL: *(double *)to = *(const double *)from; return true;
  case ATTR_FLAG: *(bool *)to = *(const bool *)from; return true;
  case ATTR_DIM:
    *(sn_dim *)to = *(const sn_dim *)from;
    return dim_valid(g, *(sn_dim *)to) || bad(g, op, a, "too large or of another graph");
  case ATTR_DTYPE:
    *(sn_dtype *)to = *(const sn_dtype *)from;
    return dtype_valid(*(sn_dtype *)to) || bad(g, op, a, "no such dtype");
  case ATTR_INTS: return copy_ints(g, op, a, from, to);
  case ATTR_SHAPE: return copy_shape(g, op, a, from, to);
  case ATTR_STR: return copy_string(g, op, a, *(const char *const *)from, to);
  case ATTR_BYTES: return copy_bytes(g, op, a, from, to);
  case ATTR_ENUM: return copy_enum(g, op, a, from, to);
  case ATTR_STREAM: return copy_stream(g, op, a, from, to);
  }
  return false;
}

bool attr_canonical(sn_graph *g, const op_desc *op, const void *src, void *dst) {
  for (int i = 0; i < op->n_attrs; i++)
    if (!copy_one(g, op, &op->attrs[i], attr_at(src, &op->attrs[i]), attr_at(dst, &op->attrs[i])))
      return false;
  return true;
}
