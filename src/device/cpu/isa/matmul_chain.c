/* Chains of cheap instructions, for epilogues of matmuls: see matmul.h, and lanes.h for what a step is.
 *
 * So few kinds of steps that what a chain holds stays in registers from step to step: CHAIN_VECS vectors at a time. Of a block at the
 * end only the lanes that there are are read and written. */
#include "device/cpu/isa/alu_floats.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/matmul_set.h"

enum { CHAIN_VECS = 4 };
#define EACH_HELD(S) S(0) S(1) S(2) S(3)

VEC_INLINE int clamp_lanes(int n) { return n < 0 ? 0 : n < VEC ? n : VEC; }

VEC_INLINE vec read_lanes(const float *from, int n, bool whole) {
  return whole ? vec_load(from) : vec_load_some(from, n);
}
VEC_INLINE void keep_lanes(float *to, vec x, int n, bool whole) {
  if (whole)
    vec_store(to, x);
  else
    vec_store_some(to, x, n);
}
/* Lanes of integers that are not 0. */
VEC_INLINE vec_mask is_set(vec x) {
  vec_i32 m = (vec_i32)x;
#if defined(ISA_avx512)
  return _mm512_test_epi32_mask((__m512i)m, (__m512i)m);
#else
  return (vec_mask)(m != 0);
#endif
}

#define LANES_OF(pointer, k) read_lanes((const float *)(pointer) + i + (k)*VEC, n##k, whole)
#define ONE_OF(pointer)      vec_all(*(const float *)(pointer))
#define CODE(name, how)      (CHAIN_ALU + 8 * ALU_##name + (how))

#define COUNT(k)      const int n##k = whole ? VEC : clamp_lanes(n - i - (k)*VEC);
#define HOLD(k)       vec a##k = {0};
#define READ(k)       a##k = LANES_OF(s->with, k);
#define SAME(k)       a##k = one;
#define KEEP(k)       keep_lanes((float *)s->to + i + (k)*VEC, a##k, n##k, whole);
#define ADD(k)        a##k += LANES_OF(s->with, k);
#define ADD_1(k)      a##k += one;
#define SUB(k)        a##k -= LANES_OF(s->with, k);
#define SUB_1(k)      a##k -= one;
#define BUS(k)        a##k = LANES_OF(s->with, k) - a##k;
#define BUS_1(k)      a##k = one - a##k;
#define MUL(k)        a##k *= LANES_OF(s->with, k);
#define MUL_1(k)      a##k *= one;
#define SQUARE(k)     a##k *= a##k;
#define MAX(k)        a##k = max_of(a##k, LANES_OF(s->with, k));
#define MAX_1(k)      a##k = max_of(a##k, one);
#define XAM(k)        a##k = max_of(LANES_OF(s->with, k), a##k);
#define XAM_1(k)      a##k = max_of(one, a##k);
#define MIN(k)        a##k = min_of(a##k, LANES_OF(s->with, k));
#define MIN_1(k)      a##k = min_of(a##k, one);
#define PICK(k)       a##k = vec_pick(is_set(LANES_OF(s->with, k)), a##k, LANES_OF(s->other, k));
#define PICK_1(k)     a##k = vec_pick(is_set(LANES_OF(s->with, k)), a##k, one);
#define PICK_NOT(k)   a##k = vec_pick(is_set(LANES_OF(s->with, k)), LANES_OF(s->other, k), a##k);
#define PICK_NOT_1(k) a##k = vec_pick(is_set(LANES_OF(s->with, k)), one, a##k);

#define GATE(k)   a##k = vec_pick(vec_less(above, a##k), LANES_OF(s->other, k), below);
#define GATE_1(k) a##k = vec_pick(vec_less(above, a##k), ONE_OF(s->other), below);

#define STEP(code, S) \
  case code: {        \
    EACH_HELD(S)      \
    break;            \
  }
#define STEP_ONE(code, from, S)      \
  case code: {                       \
    const vec one = ONE_OF(s->from); \
    EACH_HELD(S)                     \
    break;                           \
  }

#define STEP_GATE(code, S)                                       \
  case code: {                                                   \
    const vec above = ONE_OF(s->with), below = ONE_OF(s->below); \
    EACH_HELD(S)                                                 \
    break;                                                       \
  }

/* Lanes i … of n. */
VEC_INLINE void run_block(const lane_step *steps, int n_steps, int i, int n, bool whole) {
  EACH_HELD(COUNT)
  EACH_HELD(HOLD)
  for (const lane_step *s = steps; s < steps + n_steps; s++)
    switch (s->code) {
      STEP(CHAIN_READ, READ)
      STEP_ONE(CHAIN_READ_ONE, with, SAME)
      STEP(CHAIN_KEEP, KEEP)
      STEP(CODE(add, CHAIN_LANES), ADD)
      STEP(CODE(add, CHAIN_LANES_FIRST), ADD)
      STEP_ONE(CODE(add, CHAIN_ONE), with, ADD_1)
      STEP_ONE(CODE(add, CHAIN_ONE_FIRST), with, ADD_1)
      STEP(CODE(sub, CHAIN_LANES), SUB)
      STEP(CODE(sub, CHAIN_LANES_FIRST), BUS)
      STEP_ONE(CODE(sub, CHAIN_ONE), with, SUB_1)
      STEP_ONE(CODE(sub, CHAIN_ONE_FIRST), with, BUS_1)
      STEP(CODE(mul, CHAIN_LANES), MUL)
      STEP(CODE(mul, CHAIN_LANES_FIRST), MUL)
      STEP_ONE(CODE(mul, CHAIN_ONE), with, MUL_1)
      STEP_ONE(CODE(mul, CHAIN_ONE_FIRST), with, MUL_1)
      STEP(CODE(mul, CHAIN_SELF), SQUARE)
      STEP(CODE(max, CHAIN_LANES), MAX)
      STEP(CODE(max, CHAIN_LANES_FIRST), XAM)
      STEP_ONE(CODE(max, CHAIN_ONE), with, MAX_1)
      STEP_ONE(CODE(max, CHAIN_ONE_FIRST), with, XAM_1)
      STEP(CODE(min, CHAIN_LANES), MIN)
      STEP_ONE(CODE(min, CHAIN_ONE), with, MIN_1)
      STEP(CHAIN_PICK, PICK)
      STEP_ONE(CHAIN_PICK_ONE, other, PICK_1)
      STEP(CHAIN_PICK_NOT, PICK_NOT)
      STEP_ONE(CHAIN_PICK_NOT_ONE, other, PICK_NOT_1)
      STEP_GATE(CHAIN_GATE, GATE)
      STEP_GATE(CHAIN_GATE_ONE, GATE_1)
    default: break;
    }
}

bool ISA(matmul_in_chain)(int code) {
  switch (code) {
  case CHAIN_READ:
  case CHAIN_READ_ONE:
  case CHAIN_KEEP:
  case CHAIN_PICK:
  case CHAIN_PICK_ONE:
  case CHAIN_PICK_NOT:
  case CHAIN_PICK_NOT_ONE:
  case CHAIN_GATE:
  case CHAIN_GATE_ONE:
  case CODE(mul, CHAIN_SELF): return true;
  default: break;
  }
  int how = code % 8;
  switch ((code - CHAIN_ALU) / 8) {
  case ALU_add:
  case ALU_sub:
  case ALU_mul:
  case ALU_max: return code >= CHAIN_ALU && how != CHAIN_SELF;
  case ALU_min: return code >= CHAIN_ALU && (how == CHAIN_LANES || how == CHAIN_ONE);
  default: return false;
  }
}

void ISA(matmul_chain)(const lane_step *steps, int n_steps, int n) {
  int i = 0;
  for (; i + CHAIN_VECS * VEC <= n; i += CHAIN_VECS * VEC)
    run_block(steps, n_steps, i, n, true);
  if (i < n)
    run_block(steps, n_steps, i, n, false);
}
