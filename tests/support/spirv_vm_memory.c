/* Memory that threads share: bounds, definedness, races. See spirv_vm_inner.h.
 *
 * Times are drawn from one clock, at every barrier, workgroup and dispatch. What was done in a buffer before
 * `beside_from` is done and visible; from there on to `group_from` other workgroups did it, which may run at the same
 * time; from then on this workgroup did, and what was not done `now` lies before a barrier. Shared memory has a `now`
 * of its own, since barriers may order only one of them. Barriers of a subgroup order its own threads only: these
 * count those that they have passed. */
#include "support/spirv_vm_inner.h"

#include <stdlib.h>

enum { ADDRESS_SHIFT = 40, ADDRESS_OFFSET = 0x1040 }; /* a multiple of 64 and of no more */

void vm_memory_create(vm_memory *m, size_t bytes) {
  *m = (vm_memory){.bytes = bytes};
  m->data = calloc(bytes + 1, 1);
  m->defined = calloc(bytes + 1, 1);
  m->touches = calloc(bytes + 1, sizeof *m->touches);
  if (!m->data || !m->defined || !m->touches)
    abort();
}

void vm_memory_destroy(vm_memory *m) {
  free(m->data);
  free(m->defined);
  free(m->touches);
  *m = (vm_memory){0};
}

void vm_memory_define(vm_memory *m, size_t first, size_t bytes, bool defined) {
  memset(m->defined + first, defined, bytes);
}

uint64_t vm_map(vm *v, vm_memory *m, size_t first, size_t bytes, int access) {
  PUSH(v->maps, (vm_mapping){m, first, bytes, access});
  return ((uint64_t)v->maps.n << ADDRESS_SHIFT) + ADDRESS_OFFSET;
}

void vm_allow(vm *v, uint64_t address, int access) {
  v->maps.at[(address >> ADDRESS_SHIFT) - 1].access = access;
}

void vm_unmap_all(vm *v) { v->maps.n = 0; }

/* --- races --- */

typedef struct span {
  uint32_t now, beside_from;
} span;

static inline uint32_t subgroup_of(const vm *v, uint32_t who) {
  return who < BY_SUBGROUP ? who / (uint32_t)v->subgroup : who - BY_SUBGROUP;
}

/* Whether what `who` did at a time may run beside what thread t does now. */
static inline bool beside(const vm *v, const vm_thread *t, uint32_t time, uint32_t who,
                          uint32_t passed, span when, bool atomic) {
  if (atomic && who == BY_ATOMIC)
    return false;
  if (time < when.now) /* another workgroup, or before a barrier */
    return time >= when.beside_from && time < v->group_from;
  if (who == t->number && who < BY_SUBGROUP)
    return false;
  if (who >= BY_GROUPS)
    return true;
  return subgroup_of(v, who) != t->subgroup || passed == t->passed;
}

/* Notes one access; false: it races. */
static inline bool note_write(const vm *v, const vm_thread *t, vm_touch *x, span when,
                              bool atomic) {
  bool bad = beside(v, t, x->wrote, x->writer, x->wrote_sub, when, atomic) ||
             beside(v, t, x->read, x->reader, x->read_sub, when, false) ||
             (x->reader == BY_GROUPS && x->read >= when.beside_from);
  x->wrote = when.now;
  x->writer = atomic ? BY_ATOMIC : t->number;
  x->wrote_sub = t->passed;
  return !bad;
}

static inline bool note_read(const vm *v, const vm_thread *t, vm_touch *x, span when) {
  bool bad = beside(v, t, x->wrote, x->writer, x->wrote_sub, when, false);
  if (x->read >= when.beside_from && (x->reader == BY_GROUPS || x->read < v->group_from))
    x->reader = BY_GROUPS;
  else if (x->read != when.now)
    x->reader = t->number;
  else if (x->reader != t->number && x->reader != BY_SEVERAL) {
    bool same = subgroup_of(v, x->reader) == t->subgroup;
    if (same && x->read_sub != t->passed) /* it was before a barrier */
      x->reader = t->number;
    else
      x->reader = (uint16_t)(same ? BY_SUBGROUP + t->subgroup : BY_SEVERAL);
  }
  x->read = when.now;
  x->read_sub = t->passed;
  return !bad;
}

static const char *word_of(int access) { return access & VM_WRITE ? "write" : "read"; }

/* --- buffers --- */

static unsigned char *find_bytes(vm *v, const vm_thread *t, const vm_op *o, word address,
                                 uint32_t bytes, int access, size_t *out_at, vm_memory **out) {
  word number = (address >> ADDRESS_SHIFT) - 1;
  word at = (address & (((word)1 << ADDRESS_SHIFT) - 1)) - ADDRESS_OFFSET;
  if (number >= v->maps.n) {
    vm_fault(v, t, o, "a %s of %u bytes at %#lx, which is in no buffer", word_of(access), bytes,
             (unsigned long)address);
    return NULL;
  }
  const vm_mapping *map = &v->maps.at[number];
  if (at > map->bytes || bytes > map->bytes - at) {
    vm_fault(v, t, o, "a %s of %u bytes at byte %ld of buffer %lu, which has %zu", word_of(access),
             bytes, (long)at, (unsigned long)number, map->bytes);
    return NULL;
  }
  if ((map->access & access) != access) {
    vm_fault(v, t, o, "a %s at byte %ld of buffer %lu, where none is expected", word_of(access),
             (long)at, (unsigned long)number);
    return NULL;
  }
  *out_at = map->first + at;
  *out = map->memory;
  return map->memory->data + *out_at;
}

unsigned char *vm_touch_buffer(vm *v, const vm_thread *t, const vm_op *o, word address,
                               uint32_t bytes, int access, bool atomic) {
  size_t at;
  vm_memory *m;
  unsigned char *data = find_bytes(v, t, o, address, bytes, access, &at, &m);
  if (!data)
    return NULL;
  bool races = false, defined = true;
  span when = {v->now, v->beside_from};
  for (uint32_t i = 0; i < bytes; i++) {
    vm_touch *x = &m->touches[at + i];
    defined = defined && (m->defined[at + i] || !(access & VM_READ));
    races |= access & VM_WRITE ? !note_write(v, t, x, when, atomic) : !note_read(v, t, x, when);
    if (access & VM_WRITE)
      m->defined[at + i] = 1;
  }
  if (!defined)
    vm_fault(v, t, o, "a read of bytes that nothing has written, at %#lx", (unsigned long)address);
  if (races)
    vm_fault(v, t, o, "a race: a %s of a buffer's bytes, at %#lx, that another thread touches",
             word_of(access), (unsigned long)address);
  return v->failed ? NULL : data;
}

static inline word get_bytes(const unsigned char *from, uint32_t bytes) {
  word x = 0;
  memcpy(&x, from, bytes); /* hosts are little-endian, as SPIR-V is here */
  return x;
}

static bool aligned(vm *v, const vm_thread *t, const vm_op *o, word address, uint32_t to) {
  return address % to == 0 ||
         vm_fault(v, t, o, "address %#lx is no multiple of %u", (unsigned long)address, to);
}

bool vm_load_buffer(vm *v, vm_thread *t, const vm_op *o) {
  word address = *vm_at(v->m, t, o->a), *to = t->frame + o->dst;
  if (!aligned(v, t, o, address, o->b))
    return false;
  const unsigned char *from =
      vm_touch_buffer(v, t, o, address, (uint32_t)o->n * o->m, VM_READ, false);
  for (uint32_t i = 0; from && i < o->n; i++)
    to[i] = get_bytes(from + i * o->m, o->m);
  return from != NULL;
}

bool vm_store_buffer(vm *v, vm_thread *t, const vm_op *o) {
  word address = *vm_at(v->m, t, o->a), *from = vm_at(v->m, t, o->dst);
  if (!aligned(v, t, o, address, o->b))
    return false;
  unsigned char *to = vm_touch_buffer(v, t, o, address, (uint32_t)o->n * o->m, VM_WRITE, false);
  for (uint32_t i = 0; to && i < o->n; i++)
    memcpy(to + i * o->m, &from[i], o->m);
  return to != NULL;
}

bool vm_load_block(vm *v, vm_thread *t, const vm_op *o) {
  word at = *vm_at(v->m, t, o->a), *to = t->frame + o->dst;
  size_t bytes = (size_t)o->n * o->m;
  if (at > v->job->block_bytes || bytes > v->job->block_bytes - at)
    return vm_fault(v, t, o, "a read at byte %lu of the block, which has %zu", (unsigned long)at,
                    v->job->block_bytes);
  for (uint32_t i = 0; i < o->n; i++)
    to[i] = get_bytes((const unsigned char *)v->job->block + at + i * o->m, o->m);
  return true;
}

/* --- shared memory --- */

bool vm_touch_shared(vm *v, const vm_thread *t, const vm_op *o, word at, uint32_t n, int access,
                     bool atomic) {
  if (at > v->m->n_shared || n > v->m->n_shared - at)
    return vm_fault(v, t, o, "a %s outside of shared memory", word_of(access));
  span when = {v->shared_now, v->group_from}; /* no other workgroup has it */
  for (word i = at; i < at + n; i++) {
    vm_touch *x = &v->shared_touches[i];
    if (access & VM_READ && !v->shared_defined[i])
      return vm_fault(v, t, o, "a read of shared memory that nothing has written (scalar %lu)",
                      (unsigned long)i);
    bool races = access & VM_WRITE ? !note_write(v, t, x, when, atomic) : !note_read(v, t, x, when);
    if (races)
      return vm_fault(v, t, o, "a race: a %s of shared memory (scalar %lu) that thread %u touches",
                      word_of(access), (unsigned long)i, (unsigned)x->writer);
    if (access & VM_WRITE)
      v->shared_defined[i] = 1;
  }
  return true;
}

bool vm_load_shared(vm *v, vm_thread *t, const vm_op *o) {
  word at = *vm_at(v->m, t, o->a);
  if (!vm_touch_shared(v, t, o, at, o->n, VM_READ, false))
    return false;
  memcpy(t->frame + o->dst, v->shared + at, o->n * sizeof(word));
  return true;
}

bool vm_store_shared(vm *v, vm_thread *t, const vm_op *o) {
  word at = *vm_at(v->m, t, o->a);
  if (!vm_touch_shared(v, t, o, at, o->n, VM_WRITE, false))
    return false;
  memcpy(v->shared + at, vm_at(v->m, t, o->dst), o->n * sizeof(word));
  return true;
}

/* --- atomics --- */

static word changed(const vm_op *o, word old, word x, word compared) {
  int64_t a = vm_signed(old, o->shift), b = vm_signed(x, o->shift);
  switch (o->d) {
  case VM_AtomicStore:
  case VM_AtomicExchange: return x;
  case VM_AtomicCompareExchange: return old == compared ? x : old;
  case VM_AtomicIIncrement: return vm_cut(old + 1, o->shift);
  case VM_AtomicIAdd: return vm_cut(old + x, o->shift);
  case VM_AtomicISub: return vm_cut(old - x, o->shift);
  case VM_AtomicSMin: return a < b ? old : x;
  case VM_AtomicUMin: return old < x ? old : x;
  case VM_AtomicSMax: return a > b ? old : x;
  case VM_AtomicUMax: return old > x ? old : x;
  case VM_AtomicAnd: return old & x;
  case VM_AtomicOr: return old | x;
  case VM_AtomicXor: return old ^ x;
  default: return old; /* AtomicLoad */
  }
}

bool vm_atomic(vm *v, vm_thread *t, const vm_op *o) {
  word at = *vm_at(v->m, t, o->a), x = o->b ? *vm_at(v->m, t, o->b) : 0;
  word compared = o->c ? *vm_at(v->m, t, o->c) : 0, old;
  int access = o->d == VM_AtomicStore ? VM_WRITE : VM_READ | VM_WRITE;
  if (o->code == VM_AtomicShared) {
    if (!vm_touch_shared(v, t, o, at, 1, access, true))
      return false;
    old = v->shared[at];
    v->shared[at] = changed(o, old, x, compared);
  } else {
    unsigned char *bytes = NULL;
    if (aligned(v, t, o, at, o->m))
      bytes = vm_touch_buffer(v, t, o, at, o->m, access, true);
    if (!bytes)
      return false;
    old = get_bytes(bytes, o->m);
    word next = changed(o, old, x, compared);
    memcpy(bytes, &next, o->m);
  }
  if (o->d != VM_AtomicStore)
    t->frame[o->dst] = old;
  return true;
}
