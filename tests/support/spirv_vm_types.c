/* Types, constants and variables outside of functions. See spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

#include <stdlib.h>

enum { DECORATION_ARRAY_STRIDE = 6, DECORATION_BUILTIN = 11, DECORATION_OFFSET = 35 };

const vm_type *vm_type_at(const vm_module *m, uint32_t id) {
  return id < m->bound && m->ids[id].what == ID_TYPE ? &m->types.at[m->ids[id].type] : NULL;
}

const vm_type *vm_type_of(const vm_module *m, uint32_t value) {
  bool is =
      value < m->bound && (m->ids[value].what == ID_VALUE || m->ids[value].what == ID_CONSTANT);
  return is ? vm_type_at(m, m->ids[value].type) : NULL;
}

/* Types but structures and arrays must not be declared twice, so ids tell. */
bool vm_type_same(const vm_type *a, const vm_type *b) { return a && b && a->id == b->id; }

const vm_type *vm_type_scalar(const vm_module *m, const vm_type *t) {
  return t->kind == KIND_VECTOR || t->kind == KIND_MATRIX ? vm_type_at(m, t->of) : t;
}

uint32_t vm_decoration_of(const vm_module *m, uint32_t id, uint32_t member, uint32_t what,
                          uint32_t otherwise) {
  for (uint32_t i = 0; i < m->decorations.n; i++) {
    const vm_decoration *d = &m->decorations.at[i];
    if (d->id == id && d->member == member && d->what == what)
      return d->value;
  }
  return otherwise;
}

uint32_t vm_new_constant(vm_module *m, uint32_t words) {
  uint32_t first = m->constants.n;
  for (uint32_t i = 0; i < words; i++)
    PUSH(m->constants, 0);
  return first | VM_CONSTANT;
}

bool vm_constant_at(vm_module *m, uint32_t at, uint32_t id, uint32_t *out) {
  const vm_type *t = vm_type_of(m, id);
  if (!t || m->ids[id].what != ID_CONSTANT || t->kind != KIND_INT)
    return vm_wrong(m, at, "%%%u is no integer constant", id);
  *out = (uint32_t)m->constants.at[m->ids[id].ref & ~VM_CONSTANT];
  return true;
}

/* --- types --- */

static bool declare_scalar(vm_module *m, int code, uint32_t at, vm_type *t) {
  const uint32_t *w = m->words + at;
  if (code == VM_TypeBool) {
    t->kind = KIND_BOOL;
    t->width = 1;
    t->words = 1;
    return true;
  }
  t->kind = code == VM_TypeInt ? KIND_INT : KIND_FLOAT;
  t->width = (int)w[2];
  t->words = 1;
  t->bytes = w[2] / 8;
  if (code == VM_TypeInt)
    return w[2] == 8 || w[2] == 16 || w[2] == 32 || w[2] == 64 ||
           vm_wrong(m, at, "integers of %u bits", w[2]);
  bool bf16 = vm_length(m, at) > 3;
  t->encoding = w[2] == 32 ? FLOAT_32 : bf16 ? FLOAT_B16 : FLOAT_16;
  if (bf16 && (w[3] != 0 || w[2] != 16))
    return vm_wrong(m, at, "floats of an unknown encoding");
  if (bf16 && !m->has_bf16)
    return vm_wrong(m, at, "bf16 without its capability");
  return w[2] == 16 || w[2] == 32 || vm_wrong(m, at, "floats of %u bits", w[2]);
}

static bool declare_list(vm_module *m, int code, uint32_t at, vm_type *t) {
  const uint32_t *w = m->words + at;
  const vm_type *of = vm_type_at(m, w[2]);
  t->kind = code == VM_TypeVector  ? KIND_VECTOR
            : code == VM_TypeArray ? KIND_ARRAY
                                   : KIND_RUNTIME_ARRAY;
  t->of = w[2];
  t->width = of->width;
  t->encoding = of->encoding;
  if (code == VM_TypeVector) {
    t->n = w[3];
    t->bytes = t->n * of->bytes;
    if (of->kind > KIND_FLOAT || of->kind == KIND_VOID || t->n < 2 || t->n > 4)
      return vm_wrong(m, at, "no vector type");
  } else {
    if (code == VM_TypeArray && !vm_constant_at(m, at, w[3], &t->n))
      return false;
    if (code == VM_TypeArray && t->n == 0)
      return vm_wrong(m, at, "an array without elements");
    t->stride = vm_decoration_of(m, t->id, UINT32_MAX, DECORATION_ARRAY_STRIDE, 0);
    t->bytes = t->stride * t->n;
    if (t->stride && t->stride < of->bytes)
      return vm_wrong(m, at, "the stride is less than the element");
  }
  if ((uint64_t)t->n * of->words > 1u << 20)
    return vm_wrong(m, at, "a type of too many words");
  t->words = t->n * of->words;
  return true;
}

static bool declare_struct(vm_module *m, uint32_t at, vm_type *t) {
  t->kind = KIND_STRUCT;
  t->n = vm_length(m, at) - 2;
  t->member = m->words + at + 2;
  t->offset = calloc(t->n + 1, sizeof *t->offset);
  if (!t->offset)
    abort();
  for (uint32_t i = 0; i < t->n; i++) {
    const vm_type *of = vm_type_at(m, t->member[i]);
    t->words += of->words;
    t->offset[i] = vm_decoration_of(m, t->id, i, DECORATION_OFFSET, UINT32_MAX);
    if (t->offset[i] != UINT32_MAX && t->offset[i] + of->bytes > t->bytes)
      t->bytes = t->offset[i] + of->bytes;
  }
  return true;
}

static bool declare_matrix(vm_module *m, uint32_t at, vm_type *t) {
  const uint32_t *w = m->words + at;
  const vm_type *of = vm_type_at(m, w[2]);
  uint32_t scope, sub = (uint32_t)m->v->subgroup;
  if (!vm_constant_at(m, at, w[3], &scope) || !vm_constant_at(m, at, w[4], &t->rows) ||
      !vm_constant_at(m, at, w[5], &t->columns) || !vm_constant_at(m, at, w[6], &t->use))
    return false;
  if (scope != 3 || (of->kind != KIND_FLOAT && of->kind != KIND_INT) || t->use > 2 ||
      t->rows > 256 || t->columns > 256 || t->rows * t->columns == 0)
    return vm_wrong(m, at, "no matrix type of subgroups");
  t->kind = KIND_MATRIX;
  t->of = w[2];
  t->width = of->width;
  t->encoding = of->encoding;
  t->n = t->words = (t->rows * t->columns + sub - 1) / sub;
  return true;
}

bool vm_declare_type(vm_module *m, int code, uint32_t at) {
  const uint32_t *w = m->words + at;
  vm_type t = {.id = w[1]};
  bool ok = true;
  switch (code) {
  case VM_TypeVoid: t.kind = KIND_VOID; break;
  case VM_TypeBool:
  case VM_TypeInt:
  case VM_TypeFloat: ok = declare_scalar(m, code, at, &t); break;
  case VM_TypeVector:
  case VM_TypeArray:
  case VM_TypeRuntimeArray: ok = declare_list(m, code, at, &t); break;
  case VM_TypeStruct: ok = declare_struct(m, at, &t); break;
  case VM_TypeCooperativeMatrixKHR: ok = declare_matrix(m, at, &t); break;
  case VM_TypePointer:
    t.kind = KIND_POINTER;
    t.storage = w[2];
    t.of = w[3];
    t.words = 1;
    t.width = 64;
    t.bytes = w[2] == STORE_BUFFER ? 8 : 0;
    t.stride = vm_decoration_of(m, w[1], UINT32_MAX, DECORATION_ARRAY_STRIDE, 0);
    break;
  default: /* VM_TypeFunction */
    t.kind = KIND_FUNCTION;
    t.of = w[2];
    t.n = vm_length(m, at) - 3;
    t.member = w + 3;
  }
  m->ids[w[1]].what = ID_TYPE;
  m->ids[w[1]].type = m->types.n;
  PUSH(m->types, t);
  return ok;
}

/* --- constants --- */

static bool composite(vm_module *m, uint32_t at, const vm_type *t, uint32_t ref) {
  const uint32_t *w = m->words + at;
  uint32_t n = vm_length(m, at) - 3, place = ref & ~VM_CONSTANT;
  if (t->kind == KIND_MATRIX && n == 1) {
    for (uint32_t i = 0; i < t->words; i++)
      m->constants.at[place + i] = m->constants.at[m->ids[w[3]].ref & ~VM_CONSTANT];
    return true;
  }
  if (n != t->n || (t->kind != KIND_VECTOR && t->kind != KIND_ARRAY && t->kind != KIND_STRUCT))
    return vm_wrong(m, at, "the type has %u members", t->n);
  for (uint32_t i = 0; i < n; i++) {
    const vm_type *of = vm_type_of(m, w[3 + i]);
    if (!of || of->id != (t->kind == KIND_STRUCT ? t->member[i] : t->of) ||
        m->ids[w[3 + i]].what != ID_CONSTANT)
      return vm_wrong(m, at, "member %u has another type", i);
    memcpy(m->constants.at + place, m->constants.at + (m->ids[w[3 + i]].ref & ~VM_CONSTANT),
           of->words * sizeof(word));
    place += of->words;
  }
  return true;
}

bool vm_declare_constant(vm_module *m, int code, uint32_t at) {
  const uint32_t *w = m->words + at;
  const vm_type *t = vm_type_at(m, w[1]);
  vm_id *id = &m->ids[w[2]];
  if (!t->words)
    return vm_wrong(m, at, "a constant of that type");
  *id = (vm_id){ID_CONSTANT, w[1], vm_new_constant(m, t->words), at, UINT32_MAX};
  word *x = m->constants.at + (id->ref & ~VM_CONSTANT);
  if (code == VM_ConstantComposite)
    return composite(m, at, t, id->ref);
  if (code == VM_ConstantNull)
    return true;
  if (code != VM_Constant) {
    *x = code == VM_ConstantTrue;
    return t->kind == KIND_BOOL || vm_wrong(m, at, "not of type bool");
  }
  if ((t->kind != KIND_INT && t->kind != KIND_FLOAT) ||
      vm_length(m, at) != (t->width == 64 ? 5u : 4u))
    return vm_wrong(m, at, "its words do not fit its type");
  *x = vm_cut(t->width == 64 ? w[3] | (word)w[4] << 32 : w[3], 64 - t->width);
  return true;
}

/* --- variables --- */

bool vm_declare_global(vm_module *m, uint32_t at) {
  const uint32_t *w = m->words + at;
  const vm_type *t = vm_type_at(m, w[1]),
                *of = t->kind == KIND_POINTER ? vm_type_at(m, t->of) : NULL;
  uint32_t place = 0, storage = w[3];
  if (!of || t->storage != storage)
    return vm_wrong(m, at, "the type is no pointer to this storage");
  if (vm_length(m, at) > 4)
    return vm_wrong(m, at, "an initial value outside of functions");
  switch (storage) {
  case STORE_WORKGROUP:
    place = m->n_shared;
    m->n_shared += of->words;
    PUSH(m->shared, (vm_input){0, place, of->words});
    break;
  case STORE_INPUT:
    place = m->n_private;
    m->n_private += of->words;
    PUSH(m->inputs, (vm_input){vm_decoration_of(m, w[2], UINT32_MAX, DECORATION_BUILTIN, 0), place,
                               of->words});
    break;
  case STORE_PRIVATE:
    place = m->n_private;
    m->n_private += of->words;
    break;
  case STORE_UNIFORM:
  case STORE_PUSH: break; /* there is one block */
  default: return vm_wrong(m, at, "a variable of storage class %u", storage);
  }
  m->ids[w[2]] = (vm_id){ID_CONSTANT, w[1], vm_new_constant(m, 1), at, UINT32_MAX};
  m->constants.at[m->constants.n - 1] = place;
  return true;
}
