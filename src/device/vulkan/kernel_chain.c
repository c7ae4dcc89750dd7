/* Launches that wait for others by themselves, and tell others of their end. See launch.h for the words of their blocks, chain.c for who
 * does.
 *
 * The first thread of a workgroup looks at the counter of those before until all their workgroups have added to it; then what they wrote is made
 * visible, and the others go on. At its end all threads have come, what they wrote is made available, and the first one adds 1. The
 * memory that is read and written is ordered by these alone, which takes the memory model that has a scope for it.
 *
 * It cannot hang: who has looked in vain so many times says so and goes on; the run then fails. */
#include "device/vulkan/kernel.h"

enum {
  DEVICE_SCOPE = 1,
  ACQUIRE_BUFFERS = 0x2 | 0x40 | 0x4000,
  RELEASE_BUFFERS = 0x4 | 0x40 | 0x2000
};

void k_chain_open(kernel *k) {
  enum { DEVICE_MODEL = 5346 };
  spirv_vulkan_model(&k->s);
  spirv_capability(&k->s, DEVICE_MODEL);
}

static val address_in_head(kernel *k, int word) {
  const val halves[2] = {k_head(k, word, 0), k_head(k, word, 1)};
  return k_bits(k, k_vector(k, 2, halves), k->s.u64);
}

static val counter_in_head(kernel *k, int word) {
  spirv_id pointer = spirv_pointer(&k->s, SPV_PhysicalBuffer, k->s.u32);
  return spirv_op(&k->s, SPV_ConvertUToPtr, pointer, SPV_ARGS(address_in_head(k, word)));
}

static void fence(kernel *k, uint32_t order) {
  val scope = k_u32(k, DEVICE_SCOPE), semantics = k_u32(k, order);
  spirv_do(&k->s, SPV_MemoryBarrier, SPV_ARGS(scope, semantics));
}

/* To look without any order and to order once is much cheaper: each order throws away what the unit has cached, of its other workgroups, too. */
static void look(kernel *k, val number) {
  spirv *s = &k->s;
  val at = counter_in_head(k, BLOCK_AWAITED), seen = k_var(k, k_u32(k, 0));
  val scope = k_u32(k, DEVICE_SCOPE), relaxed = k_u32(k, 0);
  val most = k_to_index(k, k_head(k, BLOCK_NUMBER, 1));
  k_loop l = k_loop_rolled(k, k_index(k, 0), most, k_index(k, 1));
  k_set(k, seen, spirv_op(s, SPV_AtomicLoad, s->u32, SPV_ARGS(at, scope, relaxed)));
  k_loop_break(k, &l, k_ge(k, k_get(k, seen), number));
  k_loop_end(k, &l);
  k_if vain = k_if_begin(k, k_lt(k, k_get(k, seen), number));
  k_store(k, address_in_head(k, BLOCK_IN_VAIN), k_index(k, 0), k_u32(k, 1));
  k_if_end(k, &vain);
}

static k_if first_thread(kernel *k) { return k_if_begin(k, k_eq(k, k->local, k_index(k, 0))); }

void k_wait(kernel *k) {
  bool again = k->waited;
  k->waited = true;
  if (again || !k->env->target->chains)
    return;
  val number = k_head(k, BLOCK_NUMBER, 0);
  k_if waits = k_if_begin(k, k_ne(k, number, k_u32(k, 0)));
  k_if first = first_thread(k);
  look(k, number);
  fence(k, ACQUIRE_BUFFERS);
  k_if_end(k, &first);
  k_barrier(k);
  k_if_end(k, &waits);
}

void k_chain_raise(kernel *k) {
  spirv *s = &k->s;
  if (!k->waited)
    k->why = "it does not wait for others";
  val raises = k_or(k, k_head(k, BLOCK_RAISED, 0), k_head(k, BLOCK_RAISED, 1));
  k_if awaited = k_if_begin(k, k_ne(k, raises, k_u32(k, 0)));
  k_barrier(k);
  k_if first = first_thread(k);
  fence(k, RELEASE_BUFFERS);
  val at = counter_in_head(k, BLOCK_RAISED), one = k_u32(k, 1);
  val scope = k_u32(k, DEVICE_SCOPE), relaxed = k_u32(k, 0);
  spirv_op(s, SPV_AtomicIAdd, s->u32, SPV_ARGS(at, scope, relaxed, one));
  k_if_end(k, &first);
  k_if_end(k, &awaited);
}
