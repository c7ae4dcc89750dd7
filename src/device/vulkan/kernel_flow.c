/* Control flow, variables and memory of kernels. See kernel.h. */
#include "device/vulkan/kernel.h"

k_if k_if_begin(kernel *k, val condition) {
  spirv *s = &k->s;
  k_if i = {.from = s->block, .merge = spirv_label(s), .otherwise = spirv_label(s)};
  spirv_id inside = spirv_label(s);
  spirv_do(s, SPV_SelectionMerge, SPV_ARGS(i.merge, 0));
  spirv_do(s, SPV_BranchConditional, SPV_ARGS(condition, inside, i.otherwise));
  spirv_begin(s, inside);
  return i;
}

void k_if_else(kernel *k, k_if *i) {
  spirv_go(&k->s, i->merge);
  spirv_begin(&k->s, i->otherwise);
  i->otherwise = 0;
}

void k_if_end(kernel *k, const k_if *i) {
  spirv_go(&k->s, i->merge);
  if (i->otherwise) {
    spirv_begin(&k->s, i->otherwise);
    spirv_go(&k->s, i->merge);
  }
  spirv_begin(&k->s, i->merge);
}

val k_if_value(kernel *k, const k_if *i, val value, val other) {
  spirv_id last = k->s.block, type = spirv_type_of(&k->s, value);
  k_if_end(k, i);
  return spirv_op(&k->s, SPV_Phi, type, SPV_ARGS(value, last, other, i->otherwise));
}

static k_loop loop_begin(kernel *k, val from, val to, val by, uint32_t control) {
  spirv *s = &k->s;
  k_loop l = {.step = by, .head = spirv_label(s), .next = spirv_label(s), .merge = spirv_label(s)};
  spirv_id test = spirv_label(s), body = spirv_label(s);
  l.variable = k_var(k, from);
  spirv_go(s, l.head);
  spirv_begin(s, l.head);
  spirv_do(s, SPV_LoopMerge, SPV_ARGS(l.merge, l.next, control));
  spirv_go(s, test);
  spirv_begin(s, test);
  l.i = k_get(k, l.variable);
  val goes_on = k_lt(k, l.i, to);
  spirv_do(s, SPV_BranchConditional, SPV_ARGS(goes_on, body, l.merge));
  spirv_begin(s, body);
  return l;
}

k_loop k_loop_begin(kernel *k, val from, val to, val by) { return loop_begin(k, from, to, by, 0); }

k_loop k_loop_rolled(kernel *k, val from, val to, val by) {
  enum { DO_NOT_UNROLL = 2 };
  return loop_begin(k, from, to, by, DO_NOT_UNROLL);
}

void k_loop_break(kernel *k, const k_loop *l, val condition) {
  spirv_id on = spirv_label(&k->s);
  spirv_do(&k->s, SPV_BranchConditional, SPV_ARGS(condition, l->merge, on));
  spirv_begin(&k->s, on);
}

void k_loop_end(kernel *k, const k_loop *l) {
  spirv *s = &k->s;
  spirv_go(s, l->next);
  spirv_begin(s, l->next);
  k_set(k, l->variable, k_add(k, l->i, l->step));
  spirv_go(s, l->head);
  spirv_begin(s, l->merge);
}

/* --- variables and shared memory --- */

val k_var(kernel *k, val initial) {
  val v = spirv_local(&k->s, spirv_type_of(&k->s, initial));
  k_set(k, v, initial);
  return v;
}

static spirv_id pointee(const kernel *k, val pointer) {
  return spirv_held(&k->s, spirv_type_of(&k->s, pointer));
}

val k_get(kernel *k, val variable) {
  spirv_id type = pointee(k, variable);
  return spirv_op(&k->s, SPV_Load, type, SPV_ARGS(variable));
}

void k_set(kernel *k, val variable, val x) { spirv_do(&k->s, SPV_Store, SPV_ARGS(variable, x)); }

static int bytes_of(const kernel *k, spirv_id type) {
  const spirv *s = &k->s;
  int n = spirv_components(s, type);
  if (n > 1)
    return n * bytes_of(k, spirv_held(s, type));
  return type == s->u64 || type == s->i64 ? 8 : type == s->u16 ? 2 : type == s->u8 ? 1 : 4;
}

val k_shared(kernel *k, spirv_id type, int n) {
  spirv *s = &k->s;
  spirv_id array = spirv_type(s, SPV_TypeArray, SPV_ARGS(type, spirv_u32(s, (uint32_t)n)));
  spirv_id v = spirv_global(s, SPV_Workgroup, array);
  k->shared_bytes += n * bytes_of(k, type);
  if (k->n_interface == (int)COUNT_OF(k->interface) ||
      k->shared_bytes > k->env->target->shared_bytes)
    k->why = "too much shared memory";
  else
    k->interface[k->n_interface++] = v;
  return v;
}

/* The pointer to an element, and its type. */
val k_shared_at(kernel *k, val array, val i, spirv_id *out_type) {
  spirv *s = &k->s;
  *out_type = spirv_held(s, pointee(k, array));
  return spirv_op(s, SPV_AccessChain, spirv_pointer(s, SPV_Workgroup, *out_type),
                  SPV_ARGS(array, i));
}

/* In Vulkan's memory model an access is the thread's own unless it says that others see it. */
static uint32_t seen(kernel *k) {
  k->accesses = true;
  return k->s.vulkan ? SPV_NON_PRIVATE : 0;
}

val k_shared_read(kernel *k, val at) {
  spirv_id type = pointee(k, at);
  return spirv_op(&k->s, SPV_Load, type, SPV_ARGS(at, seen(k)));
}

void k_shared_write(kernel *k, val at, val x) {
  spirv_do(&k->s, SPV_Store, SPV_ARGS(at, x, seen(k)));
}

val k_shared_get(kernel *k, val array, val i) {
  spirv_id type;
  return k_shared_read(k, k_shared_at(k, array, i, &type));
}

void k_shared_set(kernel *k, val array, val i, val x) {
  spirv_id type;
  k_shared_write(k, k_shared_at(k, array, i, &type), x);
}

static void barrier(kernel *k, uint32_t scope, uint32_t memory) {
  enum { ACQUIRE_RELEASE = 8, AVAILABLE_AND_VISIBLE = 0x6000 };
  uint32_t model = k->s.vulkan ? AVAILABLE_AND_VISIBLE : 0;
  val of = k_u32(k, scope), order = k_u32(k, ACQUIRE_RELEASE | model | memory);
  spirv_do(&k->s, SPV_ControlBarrier, SPV_ARGS(of, of, order));
}

enum { WORKGROUP = 2, SUBGROUP, MEMORY_OF_BUFFERS = 0x40, MEMORY_OF_WORKGROUP = 0x100 };

void k_barrier(kernel *k) { barrier(k, WORKGROUP, MEMORY_OF_BUFFERS | MEMORY_OF_WORKGROUP); }
void k_barrier_shared(kernel *k) { barrier(k, WORKGROUP, MEMORY_OF_WORKGROUP); }
void k_barrier_subgroup(kernel *k) { barrier(k, SUBGROUP, MEMORY_OF_WORKGROUP); }

/* --- memory --- */

enum { ALIGNED = 2 };

val k_address_plus(kernel *k, val address, val i, int size) {
  spirv *s = &k->s;
  if (!k->env->wide)
    i = spirv_op(s, SPV_SConvert, s->i64, SPV_ARGS(i));
  if (size > 1)
    i = k_shl(k, i, __builtin_ctz((unsigned)size));
  return k_add(k, address, k_bits(k, i, s->u64));
}

static val pointer_to(kernel *k, spirv_id type, val address, val i) {
  spirv *s = &k->s;
  val at = k_address_plus(k, address, i, bytes_of(k, type));
  return spirv_op(s, SPV_ConvertUToPtr, spirv_pointer(s, SPV_PhysicalBuffer, type), SPV_ARGS(at));
}

val k_load(kernel *k, spirv_id type, val address, val i) {
  val at = pointer_to(k, type, address, i);
  return spirv_op(&k->s, SPV_Load, type,
                  SPV_ARGS(at, ALIGNED | seen(k), (uint32_t)bytes_of(k, type)));
}

void k_store(kernel *k, val address, val i, val x) {
  spirv_id type = spirv_type_of(&k->s, x);
  val at = pointer_to(k, type, address, i);
  spirv_do(&k->s, SPV_Store, SPV_ARGS(at, x, ALIGNED | seen(k), (uint32_t)bytes_of(k, type)));
}
