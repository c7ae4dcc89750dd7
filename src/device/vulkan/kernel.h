/* Kernels as code: typed values, variables, loops, conditions, memory, shared arrays, barriers, slots of the parameter block, on
 * top of spirv.h. One kernel serves one part of a step.
 *
 *   kernel *k = kernel_open(env, THREADS, false);
 *   val n = k_size(k, part->extent[0]), i = k_add(k, k_mul(k, k->group, k_index(k, THREADS)), k->local);
 *   k_if inside = k_if_begin(k, k_lt(k, i, n));
 *   val x = k_load(k, k->s.f32, k_address(k, value), i);
 *   k_store(k, k_address(k, out), i, k_mul(k, x, x));
 *   k_if_end(k, &inside);
 *   kernel_grid(k, 1, &(amount){.n = 1, .tile = THREADS, .dims = part->extent});
 *   kernel_close(k, &out);
 *
 * Values are SSA ids. Operations go by the type of their first argument: + of floats is FAdd with NoContraction, of integers IAdd;
 * comparisons of i32 and i64 are signed, of u32 and u64 unsigned. Arguments of one operation have one type. Indices have the type
 * k->index: i32, or i64 where the program has values of 2^31 elements or more (env->wide).
 *
 * Arguments may be calls that emit. C leaves their order open, so two compilers may number a shader's values differently.
 * Variables (k_var) live in registers once the driver has compiled the shader. A value made inside of a loop or condition is not
 * known outside: carry it by a variable or k_if_value.
 */
#ifndef SINEW_DEVICE_VULKAN_KERNEL_H
#define SINEW_DEVICE_VULKAN_KERNEL_H

#include "base/arena.h"
#include "device/vulkan/launch.h"
#include "device/vulkan/spirv.h"

#include <sinew/session.h>

typedef spirv_id val;
struct emitter;

/* Where kernels are made. Everything that they leave behind (words, slots, grids) is memory of `memory`. */
typedef struct emit_env {
  sn_ctx *ctx;
  arena *memory;
  const program *program;
  const gpu_target *target;
  bool wide; /* 64-bit indices */
  sn_precision precision;
  /* Makes the kernels of a part in place of its archetype; NULL: the archetype does. `hand` is for it alone. */
  sn_status (*by_hand)(struct emitter *e, const part *p);
  const void *hand;
  int64_t scratch; /* bytes that the step's kernels have taken so far */
  uint32_t aside;  /* for now this value is scratch memory, from byte `aside_at` on; 0: none is */
  int64_t aside_at;
  struct kept_table { /* memory that is made from states and kept; NULL: there is none */
    int64_t bytes;
    struct kept_entry {
      uint32_t value;
      const void *key;
      size_t size;
      int64_t at, bytes;
    } * list;
    int n, room;
  } * kept;
  /* Values stored as pairs of halves: emit_pairs.h. By value: whether it is stored so, NULL: none is; what
   * the kernels made so far do with them, value_use, NULL: nobody asks. */
  const unsigned char *pairs;
  unsigned char *uses;
  struct alike_table
      *alike; /* steps made so far, which serve for others: emit_alike.h. NULL: for none */
  struct shader_table { /* shaders made so far, each once */
    const shader **at;
    int n, room;
  } * shaders;
} emit_env;

enum { KERNEL_SLOTS = 1024 };

typedef struct kernel {
  spirv s;
  emit_env *env;
  spirv_id index; /* the type of indices */
  val group;      /* this workgroup's number within the part, index */
  val local;      /* this thread's number in the workgroup, index */
  int threads;
  bool merged, waited; /* k_wait was called */
  bool accesses;       /* of memory that others see have been emitted */
  /* 0 and 1 are slots as well: for now, where that makes two shaders one and is not computed in a loop */
  bool ones;
  bool subgroups; /* operations of subgroups are used: their size must be the target's */
  spirv_id half;  /* the type of elements of matrices a and b; 0: there are none */
  int n_slots;
  slot slots[KERNEL_SLOTS];
  struct slot_vals {
    val half[2], word, index; /* u32, u64, index or f32; 0: not made yet */
    const sn_dim *from;       /* where the amount stood that it was made for */
  } slot_vals[KERNEL_SLOTS];
  spirv_id block,
      base; /* the parameter block; the vector of it at which the part's slots begin (u32) */
  spirv_id interface[16]; /* variables that main uses */
  int n_interface, shared_bytes;
  int n_grid;
  amount grid[LAUNCH_GRID];
  spirv_id helper[16]; /* functions beside main; see emit_helper.c */
  spirv_id main;
  struct k_if {
    spirv_id from, merge, otherwise;
  } guard;         /* around the body: a workgroup beyond the last does nothing */
  const char *why; /* what cannot be said; NULL: nothing so far */
} kernel;

/* What a kernel leaves: one shader and one part of a launch. */
typedef struct kernel_made {
  const shader *code;
  launch_part part;
} kernel_made;

/* NULL without memory. Merged: launches of the same shader become one. */
kernel *kernel_open(emit_env *env, int threads, bool merged);
/* Before anything is read that other launches write, or written: where they are to be done. All threads of the workgroup. Once: the
 * first call counts. */
void k_wait(kernel *k);
/* Workgroups: the product of these amounts (at most LAUNCH_GRID). Copied. */
void kernel_grid(kernel *k, int n, const amount *of);
/* Ends main, makes or finds the shader; destroys the kernel in any case. */
sn_status kernel_close(kernel *k, kernel_made *out) SN_MUST_USE;

/* --- between kernel.c and kernel_chain.c --- */
/* A half of a word of the parameter block's head, u32. */
val k_head(kernel *k, int word, int half);
/* Launches that wait for others (gpu_target.chains): before anything else, and behind all. All threads of the workgroup. */
void k_chain_open(kernel *k);
void k_chain_raise(kernel *k);

/* --- numbers --- */
val k_f32(kernel *k, float x);
val k_i32(kernel *k, int32_t x);
val k_u32(kernel *k, uint32_t x);
val k_index(kernel *k, int64_t x);
val k_bool(kernel *k, bool x);

/* --- slots: loaded once, before the body. Numbers are slots too, but for 0 and 1. Two uses share a slot where they name the same
 * place in the program (amount.dims), or the same symbols; not because two numbers happen to be equal, so that shaders do not
 * depend on that. --- */
val k_amount(kernel *k, const amount *of); /* index */
/* The same, with a slot that no use of k_amount shares: where the tile is a number that may happen to be another's. */
val k_amount_apart(kernel *k, const amount *of);
val k_size(kernel *k, sn_dim d);           /* index; a slot of its own where d is a number */
val k_size_of(kernel *k, const sn_dim *d); /* index; shared with other uses of *d */
val k_sizes(kernel *k, int n, const sn_dim *dims); /* their product, index */
val k_address(kernel *k, uint32_t value);          /* u64 */
/* The same for who can use the value as pairs. */
typedef enum value_use { USE_OPERAND = 1, USE_STORE = 2, USE_OTHER = 4 } value_use;
val k_address_for(kernel *k, uint32_t value, value_use use);
val k_failures(kernel *k); /* u64 */
val k_zeros(kernel *k);    /* u64: of 16 bytes that are 0 */
/* f32; equal numbers share a slot where `which` is the same. */
val k_number(kernel *k, float x, uint32_t which);
/* Takes `bytes` more of the step's scratch memory (aligned to 256): where they begin, for k_scratch in this and later kernels
 * of the step. At the symbols' maxima: scratch_most gives those. */
int64_t scratch_take(emit_env *env, int64_t bytes);
val k_scratch(kernel *k, int64_t byte); /* u64 */
/* Kept memory (emit_launch_kept): bytes for what `key` says is made from a value, and where they begin; from the same of both the same
 * again. False in *out_new: somebody has made a launch for it already. */
sn_status kept_take(emit_env *env, uint32_t value, const void *key, size_t size, int64_t bytes,
                    int64_t *out_at, bool *out_new) SN_MUST_USE;
/* Its entry; -1: nobody has taken it. */
int kept_find(const emit_env *env, uint32_t value, const void *key, size_t size);
val k_kept(kernel *k, int64_t byte); /* u64 */
/* Whether a value stays as it is from run to run until the host changes a state; and so that kept memory may be made from it. */
bool value_stays(const emit_env *env, uint32_t value);
bool kept_may_read(const emit_env *env, uint32_t value);
/* The greatest value of a size, product, amount under the symbols' maxima. */
int64_t size_most(const emit_env *env, sn_dim d);
int64_t sizes_most(const emit_env *env, int n, const sn_dim *dims);

/* --- arithmetic --- */
val k_add(kernel *k, val a, val b);
val k_sub(kernel *k, val a, val b);
val k_mul(kernel *k, val a, val b);
val k_div(kernel *k, val a,
          val b); /* integers: of numbers >= 0 by numbers >= 1 that are not sizes */
val k_rem(kernel *k, val a, val b);
val k_fma(kernel *k, val a, val b, val c);
val k_neg(kernel *k, val a);
val k_abs(kernel *k, val a);
val k_min(kernel *k, val a,
          val b); /* floats: if one is NaN, which comes is open: emit.h has those of regions */
val k_max(kernel *k, val a, val b);
/* x / by and x % by of an index x >= 0 by a size (at least 1): by multiplication. *rem may be NULL. */
val k_divide(kernel *k, val x, const amount *by, val *rem);
val k_and(kernel *k, val a, val b); /* bools, or bits of integers */
val k_or(kernel *k, val a, val b);
val k_xor(kernel *k, val a, val b);
val k_not(kernel *k, val a);
val k_shl(kernel *k, val a, int by);
val k_shr(kernel *k, val a, int by); /* logical */
val k_eq(kernel *k, val a, val b);
val k_ne(kernel *k, val a, val b); /* floats: true where one is NaN; the others are false there */
val k_lt(kernel *k, val a, val b);
val k_le(kernel *k, val a, val b);
val k_gt(kernel *k, val a, val b);
val k_ge(kernel *k, val a, val b);
val k_select(kernel *k, val condition, val yes, val no);
val k_glsl(kernel *k, int function, val a);  /* of the type of a */
val k_bits(kernel *k, val a, spirv_id type); /* the same bits as another type of the same width */
val k_to_f32(kernel *k, val a);
val k_to_i32(kernel *k, val a); /* from indices, u32; floats truncate and must be in range */
val k_to_u32(kernel *k, val a);
val k_to_index(kernel *k, val a); /* from i32, u32 */

/* --- control flow --- */
typedef struct k_if k_if;
k_if k_if_begin(kernel *k, val condition);
void k_if_else(kernel *k, k_if *i);
void k_if_end(kernel *k, const k_if *i);
/* The value computed at the end of an if's block (without else), or `other` where it was not entered. */
val k_if_value(kernel *k, const k_if *i, val value, val other);
/* for (i = from; i < to; i += by) { … }, of signed integers. */
typedef struct k_loop {
  val i;
  spirv_id variable, step, head, next, merge;
} k_loop;
k_loop k_loop_begin(kernel *k, val from, val to, val by);
/* The same, for large or rare bodies, which the driver is asked not to unroll. */
k_loop k_loop_rolled(kernel *k, val from, val to, val by);
void k_loop_break(kernel *k, const k_loop *l,
                  val condition); /* leaves the loop where the condition holds */
void k_loop_end(kernel *k, const k_loop *l);

/* --- variables, shared memory, memory --- */
val k_var(kernel *k, val initial); /* a variable of the value's type */
val k_get(kernel *k, val variable);
void k_set(kernel *k, val variable, val x);
/* An array of `n` elements that the workgroup shares. */
val k_shared(kernel *k, spirv_id type, int n);
/* The pointer to an element, and its type. */
val k_shared_at(kernel *k, val array, val i, spirv_id *out_type);
val k_shared_read(kernel *k, val at); /* by such a pointer */
void k_shared_write(kernel *k, val at, val x);
val k_shared_get(kernel *k, val array, val i);
void k_shared_set(kernel *k, val array, val i, val x);
/* All threads of the workgroup: shared memory and memory written before it can be read behind it. */
void k_barrier(kernel *k);
/* The same of shared memory alone. */
void k_barrier_shared(kernel *k);
void k_barrier_subgroup(kernel *k); /* among the threads of a subgroup */
/* The address (u64) of element i (index) behind an address, elements of `size` bytes, a power of two. */
val k_address_plus(kernel *k, val address, val i, int size);
/* Element i (index) of type `type` behind an address (u64). Types: f32, i32, u32, u16, u8, vectors of two or four f32 or u32,
 * whose address must be a multiple of their size. */
val k_load(kernel *k, spirv_id type, val address, val i);
void k_store(kernel *k, val address, val i, val x);
val k_part(kernel *k, val vector, int component);
val k_vector(kernel *k, int n, const val *components);
spirv_id k_component_type(kernel *k, spirv_id vector);

/* --- subgroups: the threads that run in step. Every thread of the subgroup must get here. --- */
/* The value of the thread whose number in the subgroup differs in the bits of `mask`. */
val k_shuffle_xor(kernel *k, val x, int mask);

#endif
