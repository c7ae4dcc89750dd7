/* The loop that runs one thread. See spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

#include "base/half.h"

#include <math.h>

/* Most floats have 32 bits. */
static inline float get_float(word x, int kind) {
  return kind == FLOAT_32 ? f32_from_bits((uint32_t)x) : vm_float_of(x, kind);
}
static inline word put_float(float x, int kind) {
  return kind == FLOAT_32 ? f32_bits(x) : vm_float_bits(x, kind);
}

/* Most values have one word. */
static inline void copy(word *to, const word *from, uint32_t n) {
  if (n == 1)
    *to = *from;
  else
    memcpy(to, from, n * sizeof(word));
}

/* Takes a way: phis get their values, all at once. The next instruction. */
static inline const vm_op *follow(const vm_module *m, vm_thread *t, uint32_t number) {
  const vm_edge *e = &m->edges.at[number];
  const uint32_t *copy = m->extra.at + e->first;
  if (e->n == 1) {
    memmove(t->frame + copy[0], vm_at(m, t, copy[1]), copy[2] * sizeof(word));
  } else if (e->n > 1) {
    word kept[VM_PHI_WORDS];
    uint32_t used = 0;
    for (uint32_t i = 0; i < e->n; used += copy[3 * i++ + 2])
      memcpy(kept + used, vm_at(m, t, copy[3 * i + 1]), copy[3 * i + 2] * sizeof(word));
    used = 0;
    for (uint32_t i = 0; i < e->n; used += copy[3 * i++ + 2])
      memcpy(t->frame + copy[3 * i], kept + used, copy[3 * i + 2] * sizeof(word));
  }
  t->budget--;
  return m->ops.at + e->pc;
}

static const vm_op *choose(const vm_module *m, vm_thread *t, const vm_op *o) {
  word x = *vm_at(m, t, o->a);
  for (uint32_t i = 0; i < o->m; i++)
    if (m->extra.at[o->c + 2 * i] == x)
      return follow(m, t, m->extra.at[o->c + 2 * i + 1]);
  return follow(m, t, o->b);
}

static const vm_op *call(vm *v, vm_thread *t, const vm_op *o) {
  const vm_module *m = v->m;
  const vm_function *f = &m->functions.at[o->a];
  if (t->depth == VM_CALLS) {
    vm_fault(v, t, o, "calls are nested too deep");
    return o;
  }
  t->back[t->depth++] = (uint32_t)(o - m->ops.at);
  word *to = t->frame + f->parameter;
  for (uint32_t i = 0; i < o->m; i++) {
    const uint32_t *argument = m->extra.at + o->b + 2 * i;
    copy(to, vm_at(m, t, argument[0]), argument[1]);
    to += argument[1];
  }
  return m->ops.at + m->blocks.at[f->first_block].pc;
}

/* NULL: the thread has ended. */
static const vm_op *go_back(const vm_module *m, vm_thread *t, const vm_op *o) {
  if (t->depth == 0)
    return NULL;
  const vm_op *from = m->ops.at + t->back[--t->depth];
  copy(t->frame + from->dst, vm_at(m, t, o->a), o->n);
  return from + 1;
}

static void multiply_add(const vm_module *m, vm_thread *t, const vm_op *o) {
  const word *a = vm_at(m, t, o->a), *b = vm_at(m, t, o->b), *c = vm_at(m, t, o->c);
  for (uint32_t i = 0; i < o->n; i++) {
    float x = get_float(a[i], o->kind), y = get_float(b[i], o->kind), z = get_float(c[i], o->kind);
    t->frame[o->dst + i] = put_float(fmaf(x, y, z), o->kind);
  }
}

static bool chain(vm *v, vm_thread *t, const vm_op *o) {
  const uint32_t *step = v->m->extra.at + o->b;
  word p = *vm_at(v->m, t, o->a) + o->c;
  for (uint32_t i = 0; i < o->m; i++, step += 4) {
    int64_t x = vm_signed(*vm_at(v->m, t, step[0]), (int)step[3]);
    if (step[2] != UINT32_MAX && (word)x >= step[2])
      return vm_fault(v, t, o, "index %ld of %u elements", (long)x, step[2]);
    p += (word)x * step[1];
  }
  t->frame[o->dst] = p;
  return true;
}

static bool load_private(vm *v, vm_thread *t, const vm_op *o) {
  word at = *vm_at(v->m, t, o->a), *to = t->frame + o->dst;
  for (uint32_t i = 0; i < o->n; i++) {
    if (!t->defined[at + i])
      return vm_fault(v, t, o, "a read of a variable that nothing has written");
    to[i] = t->memory[at + i];
  }
  return true;
}

static void store_private(const vm *v, vm_thread *t, const vm_op *o) {
  word at = *vm_at(v->m, t, o->a), *from = vm_at(v->m, t, o->dst);
  copy(t->memory + at, from, o->n);
  for (uint32_t i = 0; i < o->n; i++)
    t->defined[at + i] = 1;
}

/* Instructions that are neither branches nor by component. False: a fault. */
static bool run_other(vm *v, vm_thread *t, const vm_op *o) {
  word *to = t->frame + o->dst;
  switch (o->code) {
  case VM_LoadBuffer: return vm_load_buffer(v, t, o);
  case VM_LoadShared: return vm_load_shared(v, t, o);
  case VM_LoadBlock: return vm_load_block(v, t, o);
  case VM_StoreBuffer: return vm_store_buffer(v, t, o);
  case VM_StoreShared: return vm_store_shared(v, t, o);
  case VM_AtomicShared:
  case VM_AtomicBuffer: return vm_atomic(v, t, o);
  case VM_AccessChain: return chain(v, t, o);
  case VM_Gather:
    for (uint32_t i = 0; i < o->n; i++)
      to[i] = *vm_at(v->m, t, v->m->extra.at[o->a + i]);
    return true;
  case VM_Select: {
    const word *condition = vm_at(v->m, t, o->a);
    const word *yes = vm_at(v->m, t, o->b), *no = vm_at(v->m, t, o->c);
    for (uint32_t i = 0; i < o->n; i++)
      to[i] = condition[o->m == 1 ? 0 : i] ? yes[i] : no[i];
    return true;
  }
  case VM_Undefine: memset(t->defined + *vm_at(v->m, t, o->a), 0, o->n); return true;
  case VM_MemoryBarrier: return true;
  default: return o->code > VM_OPS ? vm_glsl(v, t, o) : vm_arithmetic(v, t, o);
  }
}

static bool is_meeting(const vm_op *o) {
  return (o->code >= VM_GroupNonUniformElect && o->code <= VM_GroupNonUniformLogicalOr) ||
         (o->code >= VM_CooperativeMatrixLoadKHR && o->code <= VM_CooperativeMatrixMulAddKHR);
}

#define BY_COMPONENT(name, type, get, put) \
  case VM_##name: {                        \
    const word *a = vm_at(m, t, o->a);     \
    word *to = t->frame + o->dst;          \
    for (uint32_t i = 0; i < o->n; i++) {  \
      type x = get(a[i]);                  \
      to[i] = put;                         \
    }                                      \
    break;                                 \
  }
#define BY_COMPONENTS(name, type, get, put) \
  case VM_##name: {                         \
    const word *a = vm_at(m, t, o->a);      \
    const word *b = vm_at(m, t, o->b);      \
    word *to = t->frame + o->dst;           \
    for (uint32_t i = 0; i < o->n; i++) {   \
      type x = get(a[i]), y = get(b[i]);    \
      to[i] = put;                          \
    }                                       \
    break;                                  \
  }
#define AS_WORD(x)            (x)
#define AS_SIGNED(x)          vm_signed(x, o->shift)
#define AS_FLOAT(x)           get_float(x, o->kind)
#define CUT(x)                vm_cut((word)(x), o->shift)
#define WORDS1(name, result)  BY_COMPONENT(name, word, AS_WORD, CUT(result))
#define WORDS2(name, result)  BY_COMPONENTS(name, word, AS_WORD, CUT(result))
#define SIGNED2(name, result) BY_COMPONENTS(name, int64_t, AS_SIGNED, CUT(result))
#define FLOAT1(name, result)  BY_COMPONENT(name, float, AS_FLOAT, put_float(result, o->kind))
#define FLOAT2(name, result)  BY_COMPONENTS(name, float, AS_FLOAT, put_float(result, o->kind))
#define TEST1(name, result)   BY_COMPONENT(name, float, AS_FLOAT, (word)((result) ? 1 : 0))
#define TEST2(name, result)   BY_COMPONENTS(name, float, AS_FLOAT, (word)((result) ? 1 : 0))

static const vm_op *branch(const vm_module *m, vm_thread *t, const vm_op *o) {
  if (o->code == VM_Switch)
    return choose(m, t, o);
  bool first = o->code == VM_Branch;
  return follow(m, t, first ? o->a : *vm_at(m, t, o->a) ? o->b : o->c);
}

/* Runs up to where the thread cannot go on by itself; that instruction. */
static const vm_op *run(vm *v, vm_thread *t) {
  const vm_module *m = v->m;
  const vm_op *o = m->ops.at + t->pc, *next;
  for (;; o = next) {
    next = o + 1;
    v->steps++;
    switch (o->code) {
#include "support/spirv_vm_alu.def"
    case VM_GLSL_Fma: multiply_add(m, t, o); break;
    case VM_Copy: copy(t->frame + o->dst, vm_at(m, t, o->a), o->n); break;
    case VM_LoadPrivate:
      if (!load_private(v, t, o))
        return o;
      break;
    case VM_StorePrivate: store_private(v, t, o); break;
    case VM_Branch:
    case VM_BranchConditional:
    case VM_Switch:
      next = branch(m, t, o);
      if (t->budget <= 0) {
        vm_fault(v, t, o, "it does not end");
        return o;
      }
      break;
    case VM_FunctionCall:
      next = call(v, t, o);
      if (v->failed)
        return o;
      break;
    case VM_Return:
    case VM_ReturnValue:
      next = go_back(m, t, o);
      if (!next) {
        t->state = THREAD_ENDED;
        return o;
      }
      break;
    case VM_ControlBarrier: t->state = o->a == 2 ? THREAD_WAITS : THREAD_MEETS; return o;
    default:
      if (is_meeting(o)) {
        t->state = THREAD_MEETS;
        return o;
      }
      if (!run_other(v, t, o))
        return o;
    }
  }
}

void vm_thread_run(vm *v, vm_thread *t) { t->pc = (uint32_t)(run(v, t) - v->m->ops.at); }
