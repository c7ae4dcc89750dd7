/* Instructions on memory and on matrices, in the form that runs. See spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

enum { ALIGNED = 2 };

static uint32_t ref_of(const vm_module *m, uint32_t id) { return m->ids[id].ref; }

static bool has_layout(uint32_t storage) {
  return storage == STORE_BUFFER || storage == STORE_UNIFORM || storage == STORE_PUSH;
}

static const vm_type *pointer_of(vm_module *m, uint32_t at, uint32_t id) {
  const vm_type *t = vm_type_of(m, id);
  if (t && t->kind == KIND_POINTER)
    return t;
  vm_wrong(m, at, "%%%u is no pointer", id);
  return NULL;
}

/* The alignment that memory operands from word `i` on promise; 1: none. */
static bool read_alignment(vm_module *m, uint32_t at, uint32_t i, uint32_t *out) {
  uint32_t n = vm_length(m, at), mask = i < n ? m->words[at + i] : 0;
  *out = 1;
  if (mask & ALIGNED) {
    *out = i + 1 < n ? m->words[at + i + 1] : 0;
    if (*out == 0 || (*out & (*out - 1)))
      return vm_wrong(m, at, "an alignment of %u", *out);
  }
  return true;
}

/* --- loads and stores --- */

static uint16_t access_code(uint32_t storage, bool load) {
  switch (storage) {
  case STORE_BUFFER: return load ? VM_LoadBuffer : VM_StoreBuffer;
  case STORE_WORKGROUP: return load ? VM_LoadShared : VM_StoreShared;
  case STORE_UNIFORM:
  case STORE_PUSH: return load ? VM_LoadBlock : 0;
  case STORE_INPUT: return load ? VM_LoadPrivate : 0;
  default: return load ? VM_LoadPrivate : VM_StorePrivate;
  }
}

static bool write_access(vm_module *m, uint32_t at, bool load, vm_op *o) {
  const uint32_t *w = m->words + at;
  uint32_t pointer = load ? w[3] : w[1], value_type = load ? w[1] : m->ids[w[2]].type;
  const vm_type *p = pointer_of(m, at, pointer), *t = vm_type_at(m, value_type);
  if (!p)
    return false;
  if (p->of != value_type)
    return vm_wrong(m, at, "the pointer is to another type");
  o->code = access_code(p->storage, load);
  if (!o->code)
    return vm_wrong(m, at, "this storage cannot be written");
  if (t->words == 0 || t->words > UINT16_MAX)
    return vm_wrong(m, at, "a value that cannot be loaded or stored");
  o->a = ref_of(m, pointer);
  o->n = (uint16_t)t->words;
  if (!load)
    o->dst = ref_of(m, w[2]);
  if (!read_alignment(m, at, load ? 4 : 3, &o->b))
    return false;
  if (!has_layout(p->storage))
    return true;
  if (t->bytes == 0 || t->kind == KIND_ARRAY || t->kind == KIND_STRUCT || t->kind == KIND_MATRIX)
    return vm_wrong(m, at, "a value without bytes");
  o->m = (uint16_t)(t->width / 8);
  if (p->storage == STORE_BUFFER && o->b < o->m)
    return vm_wrong(m, at, "an alignment of %u bytes for scalars of %u", o->b, o->m);
  return true;
}

/* --- pointers --- */

typedef struct chain {
  vm_module *m;
  uint32_t at;
  bool layout;
  uint32_t fixed, steps;
  const vm_type *t;
} chain;

static bool add_index(chain *c, uint32_t index, uint32_t each, uint32_t limit) {
  vm_module *m = c->m;
  const vm_type *t = vm_type_of(m, index);
  if (!t || t->kind != KIND_INT)
    return vm_wrong(m, c->at, "index %%%u is no integer", index);
  if (each == 0)
    return vm_wrong(m, c->at, "a type without a layout");
  if (m->ids[index].what == ID_CONSTANT) {
    word x = m->constants.at[ref_of(m, index) & ~VM_CONSTANT];
    c->fixed += (uint32_t)x * each;
    return x < limit || vm_wrong(m, c->at, "index %lu of %u elements", (unsigned long)x, limit);
  }
  PUSH(m->extra, ref_of(m, index));
  PUSH(m->extra, each);
  PUSH(m->extra, limit);
  PUSH(m->extra, (uint32_t)(64 - t->width));
  c->steps++;
  return true;
}

static bool add_member(chain *c, uint32_t index) {
  vm_module *m = c->m;
  const vm_type *t = c->t;
  uint32_t k;
  if (!vm_constant_at(m, c->at, index, &k))
    return false;
  if (k >= t->n || (c->layout && t->offset[k] == UINT32_MAX))
    return vm_wrong(m, c->at, "member %u of %u, or without an offset", k, t->n);
  if (c->layout)
    c->fixed += t->offset[k];
  for (uint32_t i = 0; i < k && !c->layout; i++)
    c->fixed += vm_type_at(m, t->member[i])->words;
  c->t = vm_type_at(m, t->member[k]);
  return true;
}

static bool add_step(chain *c, uint32_t index) {
  const vm_type *t = c->t, *of = t->of ? vm_type_at(c->m, t->of) : NULL;
  switch (t->kind) {
  case KIND_STRUCT: return add_member(c, index);
  case KIND_VECTOR:
  case KIND_MATRIX: c->t = of; return add_index(c, index, c->layout ? of->bytes : of->words, t->n);
  case KIND_ARRAY:
  case KIND_RUNTIME_ARRAY:
    c->t = of;
    return add_index(c, index, c->layout ? t->stride : of->words,
                     t->kind == KIND_ARRAY ? t->n : UINT32_MAX);
  default: return vm_wrong(c->m, c->at, "an index into a scalar");
  }
}

static bool write_chain(vm_module *m, int code, uint32_t at, vm_op *o) {
  const uint32_t *w = m->words + at;
  const vm_type *p = pointer_of(m, at, w[3]), *result = vm_type_at(m, w[1]);
  if (!p)
    return false;
  chain c = {m, at, has_layout(p->storage), 0, 0, vm_type_at(m, p->of)};
  o->code = VM_AccessChain;
  o->a = ref_of(m, w[3]);
  o->b = m->extra.n;
  for (uint32_t i = 4; i < vm_length(m, at); i++) {
    bool element = code == VM_PtrAccessChain && i == 4;
    if (element && !c.layout)
      return vm_wrong(m, at, "elements behind a pointer without a layout");
    if (!(element ? add_index(&c, w[i], p->stride, UINT32_MAX) : add_step(&c, w[i])))
      return false;
  }
  o->c = c.fixed;
  o->m = (uint16_t)c.steps;
  return (result->kind == KIND_POINTER && result->storage == p->storage && result->of == c.t->id) ||
         vm_wrong(m, at, "the result's type is another one");
}

static bool write_address(vm_module *m, int code, uint32_t at, vm_op *o) {
  const uint32_t *w = m->words + at;
  const vm_type *from = vm_type_of(m, w[3]), *to = vm_type_at(m, w[1]);
  const vm_type *p = code == VM_ConvertUToPtr ? to : from,
                *n = code == VM_ConvertUToPtr ? from : to;
  o->code = VM_Copy;
  o->a = ref_of(m, w[3]);
  return (p->kind == KIND_POINTER && p->storage == STORE_BUFFER && n->kind == KIND_INT &&
          n->width == 64) ||
         vm_wrong(m, at, "not between addresses of 64 bits and pointers into buffers");
}

/* --- atomics --- */

static bool write_atomic(vm_module *m, int code, uint32_t at, vm_op *o) {
  const uint32_t *w = m->words + at;
  uint32_t pointer = code == VM_AtomicStore ? w[1] : w[3];
  const vm_type *p = pointer_of(m, at, pointer), *t;
  if (!p)
    return false;
  t = vm_type_at(m, p->of);
  if (t->kind != KIND_INT || (t->width != 32 && t->width != 64) ||
      (code != VM_AtomicStore && t->id != w[1]))
    return vm_wrong(m, at, "not of an integer of 32 or 64 bits");
  if (p->storage != STORE_BUFFER && p->storage != STORE_WORKGROUP)
    return vm_wrong(m, at, "not on memory that threads share");
  o->code = p->storage == STORE_BUFFER ? VM_AtomicBuffer : VM_AtomicShared;
  o->a = ref_of(m, pointer);
  o->m = (uint16_t)(t->width / 8);
  o->shift = (uint8_t)(64 - t->width);
  o->d = (uint32_t)code;
  uint32_t value = code == VM_AtomicStore ? w[4] : 0, compared = 0;
  if (code == VM_AtomicCompareExchange) {
    value = w[7];
    compared = w[8];
  } else if (code != VM_AtomicLoad && code != VM_AtomicIIncrement && code != VM_AtomicStore) {
    value = w[6];
  }
  if ((value && m->ids[value].type != t->id) || (compared && m->ids[compared].type != t->id))
    return vm_wrong(m, at, "a value of another type");
  o->b = value ? ref_of(m, value) : 0;
  o->c = compared ? ref_of(m, compared) : 0;
  return true;
}

bool vm_write_memory(vm_module *m, int code, uint32_t at, vm_op *o) {
  const uint32_t *w = m->words + at;
  switch (code) {
  case VM_Variable:
    o->a = ref_of(m, w[2]);
    o->n = (uint16_t)vm_type_at(m, vm_type_at(m, w[1])->of)->words;
    o->code = vm_length(m, at) > 4 ? VM_StorePrivate : VM_Undefine;
    o->dst = vm_length(m, at) > 4 ? ref_of(m, w[4]) : 0;
    return vm_length(m, at) == 4 || m->ids[w[4]].type == vm_type_at(m, w[1])->of ||
           vm_wrong(m, at, "the initial value has another type");
  case VM_Load: return write_access(m, at, true, o);
  case VM_Store: return write_access(m, at, false, o);
  case VM_AccessChain:
  case VM_InBoundsAccessChain:
  case VM_PtrAccessChain: return write_chain(m, code, at, o);
  case VM_ConvertPtrToU:
  case VM_ConvertUToPtr: return write_address(m, code, at, o);
  default:
    return code >= VM_AtomicLoad ? write_atomic(m, code, at, o)
                                 : vm_wrong(m, at, "the interpreter does not know what to do");
  }
}

/* --- matrices: a: pointer or A, b: stride or B, c: layout or C, d: what `extra` has (below) --- */

static bool write_matrix_access(vm_module *m, uint32_t at, bool load, vm_op *o) {
  const uint32_t *w = m->words + at + (load ? 2 : 0);
  uint32_t pointer = w[1], layout = load ? w[2] : w[3], stride = load ? w[3] : w[4], alignment;
  const vm_type *p = pointer_of(m, at, pointer);
  const vm_type *t = load ? vm_type_at(m, w[-1]) : vm_type_of(m, w[2]);
  if (!p)
    return false;
  if (vm_length(m, at) < (load ? 6u : 5u))
    return vm_wrong(m, at, "no stride");
  const vm_type *of = vm_type_at(m, p->of), *scalar = vm_type_scalar(m, of);
  if (t->kind != KIND_MATRIX || (of->kind != KIND_VECTOR && of->kind > KIND_FLOAT) ||
      scalar->bytes == 0 || (p->storage != STORE_BUFFER && p->storage != STORE_WORKGROUP))
    return vm_wrong(m, at, "no matrix, or no pointer to scalars or vectors in memory");
  if (!vm_constant_at(m, at, layout, &o->c) || !read_alignment(m, at, load ? 6 : 5, &alignment))
    return false;
  if (o->c > 1 || vm_type_of(m, stride)->kind != KIND_INT)
    return vm_wrong(m, at, "a layout or stride that is none");
  if (p->storage == STORE_BUFFER && alignment < scalar->bytes)
    return vm_wrong(m, at, "an alignment of %u bytes for scalars of %u", alignment, scalar->bytes);
  o->n = (uint16_t)t->words;
  if (!load)
    o->dst = ref_of(m, w[2]);
  o->a = ref_of(m, pointer);
  o->b = ref_of(m, stride);
  o->d = m->extra.n;
  PUSH(m->extra, t->id);
  PUSH(m->extra, p->storage);
  PUSH(m->extra, alignment);
  PUSH(m->extra, of->words);
  PUSH(m->extra, scalar->bytes);
  return true;
}

static bool write_product(vm_module *m, uint32_t at, vm_op *o) {
  const uint32_t *w = m->words + at;
  const vm_type *a = vm_type_of(m, w[3]), *b = vm_type_of(m, w[4]), *c = vm_type_of(m, w[5]);
  if (a->kind != KIND_MATRIX || b->kind != KIND_MATRIX || c->kind != KIND_MATRIX || c->id != w[1] ||
      a->use != 0 || b->use != 1 || c->use != 2)
    return vm_wrong(m, at, "no matrices A, B and C, or a result of another type");
  if (a->rows != c->rows || a->columns != b->rows || b->columns != c->columns || a->of != b->of)
    return vm_wrong(m, at, "matrices that do not fit");
  if (vm_type_at(m, a->of)->kind != KIND_FLOAT || vm_type_at(m, c->of)->kind != KIND_FLOAT)
    return vm_wrong(m, at, "matrices of integers");
  o->a = ref_of(m, w[3]);
  o->b = ref_of(m, w[4]);
  o->c = ref_of(m, w[5]);
  o->d = m->extra.n;
  PUSH(m->extra, a->id);
  PUSH(m->extra, b->id);
  PUSH(m->extra, c->id);
  return true;
}

bool vm_write_matrix(vm_module *m, int code, uint32_t at, vm_op *o) {
  switch (code) {
  case VM_CooperativeMatrixLoadKHR: return write_matrix_access(m, at, true, o);
  case VM_CooperativeMatrixStoreKHR: return write_matrix_access(m, at, false, o);
  case VM_CooperativeMatrixMulAddKHR: return write_product(m, at, o);
  default: {
    const vm_type *t = vm_type_at(m, m->words[at + 3]);
    o->code = VM_Copy;
    o->a = vm_new_constant(m, 1);
    m->constants.at[m->constants.n - 1] = t->words;
    return t->kind == KIND_MATRIX || vm_wrong(m, at, "no type of matrices");
  }
  }
}
