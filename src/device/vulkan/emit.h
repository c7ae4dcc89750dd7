/* Steps as launches. Each archetype has one function, which looks at one part and leaves the launches that compute it:
 *
 *   sn_status emit_scan(emitter *e, const part *p);
 *
 * It opens kernels (kernel.h), writes them, and closes them with emit_launch. Launches of the parts of a step whose kernels are equal
 * become one launch.
 *
 * Regions (emit_region) are emitted inline at a point whose coordinates the caller has set: e->axis by axis of the region's index
 * space, e->acc by accumulator.
 */
#ifndef SINEW_DEVICE_VULKAN_EMIT_H
#define SINEW_DEVICE_VULKAN_EMIT_H

#include "device/vulkan/kernel.h"
#include "ir/dtype.h"
#include "step/step.h"

enum {
  EMIT_ACCS = 8,
  EMIT_UNROLL = 12 /* points that a thread has at once, at most */,
  EMIT_WINDOW = 9 /* those of windows */,
  EMIT_WIDE = 4 /* neighbouring rows of a thread, with the points of a window each */,
  EMIT_REGS = EMIT_WIDE * EMIT_WINDOW,
  EMIT_RECENT = 256,
  EMIT_LOADS = 64
};

typedef struct emitter {
  emit_env env;
  const step *step;
  kernel *k;             /* the one that is being written */
  val axis[REGION_AXES]; /* coordinates of the point; 0: not known here */
  val acc[EMIT_ACCS];
  val *reg;                /* registers of the point at hand: one of these */
  val (*regs)[REGION_MAX]; /* EMIT_REGS of them */
  const instr *code;       /* of the region that is being emitted */
  int part, level;         /* of the step; how many kernels the part has had */
  const loop_part
      *absorbed; /* a row that this step computes itself, before it reads it; NULL: none */
  struct made_kernel {
    kernel_made made;
    int level;
    bool after, taken, kept;
  } * made;
  int n_made, room_made;
  const bool *merges;  /* by kernel, in the order in which they are made; NULL: none */
  struct made_linear { /* numbers that were made of coordinates lately: see emit_index.c */
    spirv_id block;
    sn_dim base, size, divisor; /* size -1: no check, but base + terms */
    int n;
    const term *terms;
    val of[ACCESS_TERMS]; /* what the terms are of */
    val made;             /* 0: nothing */
  } recent[EMIT_RECENT];
  int n_recent;
  struct made_load {
    spirv_id block;
    uint32_t value;
    val at, lane;
    bool four; /* a vector of it and the three behind it */
  } loads[EMIT_LOADS];
  int n_loads;
  const sn_dim *extent; /* of the axes; NULL: not known */
  struct known_number {
    val made;
    int64_t x;
  } known[2 * EMIT_UNROLL]; /* coordinates that are numbers: see emit_known */
  int n_known;
  bool
      remembers; /* loops do; parts of matmuls would differ where their numbers happen to be equal */
} emitter;

/* All launches of a step, in `memory`. `shaders` is kept over the steps of a program. */
sn_status emit_step(const emit_env *env, const step *s, step_launches *out) SN_MUST_USE;

/* Whether the next step computes this one for itself, and so this one has no launches: see emit_absorb.c. `e` is any. */
bool emit_is_absorbed(const emitter *e, const step *s);
/* The row that this step computes for itself; NULL: none. */
const loop_part *emit_absorbed(const emitter *e, const step *s);

/* --- for archetypes --- */
/* A kernel for the part at hand. NULL: no memory. */
kernel *emit_open(emitter *e, int threads);
/* The same, for kernels that do something before they wait for other launches (k_wait). */
kernel *emit_open_early(emitter *e, int threads);
/* Closes e->k and adds its launch; `after`: it needs what the launches before it have made. The n-th kernels of the parts
 * run together, before all n+1st. */
sn_status emit_launch(emitter *e, bool after) SN_MUST_USE;
/* The same for a kernel that makes kept memory (kernel.h): its launch is part of `prepare`. */
sn_status emit_launch_kept(emitter *e) SN_MUST_USE;
/* The same, run only where least <= of <= most. */
sn_status emit_launch_when(emitter *e, bool after, const amount *of, int64_t least,
                           int64_t most) SN_MUST_USE;

sn_status emit_loop(emitter *e, const part *p) SN_MUST_USE; /* pointwise and row */
sn_status emit_rows(emitter *e, const loop_part *p) SN_MUST_USE;
/* The same, its points counted in the order in which memory has them; NULL: no memory. */
const loop_part *emit_order_axes(emitter *e, const loop_part *p);
/* The same with fewer axes, where that can be; NULL: no memory. */
const loop_part *emit_few_axes(emitter *e, const loop_part *p);
sn_status emit_matmul(emitter *e, const part *p) SN_MUST_USE;
sn_status emit_attention(emitter *e, const part *p) SN_MUST_USE;
sn_status emit_attention_grad(emitter *e, const part *p) SN_MUST_USE;
sn_status emit_scatter(emitter *e, const part *p) SN_MUST_USE;
sn_status emit_scan(emitter *e, const part *p) SN_MUST_USE;
sn_status emit_sort(emitter *e, const part *p) SN_MUST_USE;
sn_status emit_sample(emitter *e, const part *p) SN_MUST_USE;
sn_status emit_permute(emitter *e, const part *p) SN_MUST_USE;

/* --- regions (emit_region.c, emit_index.c) --- */
/* All of a region; the register of its last instruction. */
val emit_region(emitter *e, const region *r);
val emit_instr(emitter *e, const instr *i);
/* A number as a coordinate: what divides it is a number, too. */
val emit_known(emitter *e, int64_t x);
val emit_linear(emitter *e, sn_dim base, int n_terms, const term *terms);
val emit_term(emitter *e, const term *t); /* one of them */
val emit_inside(emitter *e, const access *at);
/* Whether two accesses are of the same element at every point. */
bool access_same(const access *a, const access *b);
/* Coordinates of axes first … first + n from a number that counts their points. */
void emit_coordinates(emitter *e, val flat, int first, int n, const sn_dim *extents);
val emit_load(emitter *e, const instr *i);
void emit_store(emitter *e, const instr *i);
/* Element `i` of a value as a lane, and a lane to it; any dtype. */
val emit_load_lane(emitter *e, sn_dtype dtype, val address, val i);
void emit_store_lane(emitter *e, sn_dtype dtype, val address, val i, val lane);
/* The element of an operand of a core at coordinates (indices), by its strides. */
val emit_strided(emitter *e, const strided *s, const val *at);

/* --- arithmetic (emit_alu.c, emit_math.c) --- */
spirv_id emit_lane_type(emitter *e, sn_dtype dtype); /* f32, bool or i32 */
val emit_number(emitter *e, sn_dtype dtype, double x);
val emit_cast(emitter *e, val a, sn_dtype from, sn_dtype to);
/* A lane rounded to f16, bf16, or wrapped to u8, where that is its dtype. */
val emit_rounded(emitter *e, val a, sn_dtype dtype);
val emit_alu(emitter *e, const instr *i);
/* Functions of one float by the polynomials of step/math.h: ALU_exp, ALU_log, ALU_tanh, … */
val emit_float1(emitter *e, alu code, val a);
/* Of two: ALU_max and ALU_min (NaN wins), ALU_pow, … */
val emit_float2(emitter *e, alu code, val a, val b);
/* One of the two normal numbers of two random words: the second where the bool says so. */
val emit_gauss(emitter *e, val a, val b, val second);
val emit_combined(emitter *e, reduce_kind kind, sn_dtype dtype, val a, val b);
val emit_neutral(emitter *e, reduce_kind kind, sn_dtype dtype);
/* --- reductions over threads (emit_reduce.c) --- */
/* How a workgroup's threads are dealt out to rows: `lanes` of them to each of `rows` rows, both powers of two. Neighbouring threads are
 * lanes of one row, or, by columns, rows next to each other. */
typedef struct row_threads {
  int lanes, rows;
  bool columns;
  val lane, row; /* of this thread; indices */
  /* How many reductions each have places of their own in shared memory, and how many had them so far; 0: all have the same
   * ones, so that there is another wait behind each. */
  int own, taken;
  val shared;    /* u32, made when needed */
  bool by_first; /* only the first lanes of rows need the result */
} row_threads;
row_threads emit_row_threads(emitter *e, int lanes, bool columns);
/* All lanes' values of a row made one; every lane gets it. All threads of the workgroup must get here. */
val emit_reduce_lanes(emitter *e, row_threads *t, reduce_kind kind, sn_dtype dtype, val mine);
/* The same of several values, in place, with one wait for all. There is room for them: t->own. */
enum { EMIT_TOGETHER = 16 };
typedef struct lanes_value {
  reduce_kind kind;
  sn_dtype dtype;
  val mine;
} lanes_value;
void emit_reduce_values(emitter *e, row_threads *t, int n, lanes_value *values);
/* A row's sum, and the sum of the squares of what its numbers differ from their mean by, of those that lanes have of n numbers each;
 * in place, with one wait. There is room for two: t->own. */
void emit_reduce_moments(emitter *e, row_threads *t, int n, val *sum, val *squares);
/* Threads of a workgroup that suit the device: 256, or 64 on one without many units. */
int emit_threads(const emitter *e);
/* The f32 of an f16's bits (u32), and back, to nearest even. */
val emit_f16_widen(emitter *e, val bits);
val emit_f16_narrow(emitter *e, val x);
/* Word `index` (index type, or u64) of random stream `stream` under key[0], key[1] and counter key[2] (i32 or u32): u32. */
val emit_random(emitter *e, const val key[3], uint32_t stream, val index);

#endif
