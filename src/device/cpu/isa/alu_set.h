/* Between the files of the region machine's arithmetic: kernels by kind of lanes, and macros that make them. The meaning of
 * each instruction is step/alu.def. */
#ifndef SINEW_DEVICE_CPU_ISA_ALU_SET_H
#define SINEW_DEVICE_CPU_ISA_ALU_SET_H

#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/math.h"

/* NULL: there is none. */
lane_alu ISA(alu_floats)(alu code, unsigned ones);   /* floats of floats */
lane_alu ISA(alu_integers)(alu code, unsigned ones); /* integers of integers */
lane_alu ISA(alu_compare)(alu code, unsigned ones);  /* bools of floats */
lane_alu ISA(alu_random)(alu code);                  /* floats of integers */
lane_alu ISA(alu_cast)(sn_dtype result, sn_dtype from);
void ISA(lanes_round)(sn_dtype dtype, void *lanes, int n);

#define KERNEL(name)                                                                              \
  static void name(void *out, const void *pa, const void *pb, const void *pc, double x, double y, \
                   int n)
#define UNUSED_ARGUMENTS (void)pa, (void)pb, (void)pc, (void)x, (void)y

/* --- vectors --- */
/* A kernel of `expression` over p (lanes of a). */
#define VECTOR_1(name, expression)     \
  KERNEL(name) {                       \
    UNUSED_ARGUMENTS;                  \
    float *o = out;                    \
    const float *a = pa;               \
    for (int i = 0; i < n; i += VEC) { \
      vec p = vec_load(a + i);         \
      vec_store(o + i, expression);    \
    }                                  \
  }
/* Over p and q; three kernels: of lanes, with one a, with one b. */
#define VECTOR_2_WITH(name, P, Q, expression)     \
  KERNEL(name) {                                  \
    UNUSED_ARGUMENTS;                             \
    float *o = out;                               \
    const float *a = pa, *b = pb;                 \
    const vec a0 = vec_all(*a), b0 = vec_all(*b); \
    (void)a0, (void)b0;                           \
    for (int i = 0; i < n; i += VEC) {            \
      vec p = P, q = Q;                           \
      vec_store(o + i, expression);               \
    }                                             \
  }
#define VECTOR_2(name, expression)                                          \
  VECTOR_2_WITH(name##_lanes, vec_load(a + i), vec_load(b + i), expression) \
  VECTOR_2_WITH(name##_one_a, a0, vec_load(b + i), expression)              \
  VECTOR_2_WITH(name##_one_b, vec_load(a + i), b0, expression)

/* --- lane by lane, exactly n: what calls a library, or branches --- */
#define LANES_2(name, OUT, IN, expression) \
  KERNEL(name) {                           \
    UNUSED_ARGUMENTS;                      \
    OUT *o = out;                          \
    const IN *a = pa, *b = pb ? pb : pa;   \
    for (int i = 0; i < n; i++) {          \
      IN p = a[i], q = b[i];               \
      (void)q;                             \
      o[i] = (OUT)(expression);            \
    }                                      \
  }

/* --- blocks of a fixed count, which compilers turn into vector code --- */
#define BLOCKS_WITH(name, OUT, IN, P, Q, expression)       \
  KERNEL(name) {                                           \
    UNUSED_ARGUMENTS;                                      \
    OUT *restrict o = out;                                 \
    const IN *a = pa, *b = pb ? pb : pa, a0 = *a, b0 = *b; \
    (void)a0, (void)b0;                                    \
    for (int block = 0; block < n; block += LANES_BLOCK)   \
      for (int i = block; i < block + LANES_BLOCK; i++) {  \
        IN p = P, q = Q;                                   \
        (void)q;                                           \
        o[i] = (OUT)(expression);                          \
      }                                                    \
  }
#define BLOCKS_1(name, OUT, IN, expression) BLOCKS_WITH(name, OUT, IN, a[i], a[i], expression)
#define BLOCKS_2(name, OUT, IN, expression)                  \
  BLOCKS_WITH(name##_lanes, OUT, IN, a[i], b[i], expression) \
  BLOCKS_WITH(name##_one_a, OUT, IN, a0, b[i], expression)   \
  BLOCKS_WITH(name##_one_b, OUT, IN, a[i], b0, expression)
enum { LANES_BLOCK = 32 };

/* The kernels of one instruction, by which arguments are one. */
typedef struct alu_row {
  lane_alu lanes, one_a, one_b;
} alu_row;
#define ALU_ROW(name) \
  { name##_lanes, name##_one_a, name##_one_b }
static inline lane_alu alu_row_find(const alu_row *row, unsigned ones) {
  return ones == 0            ? row->lanes
         : ones == LANE_ONE_A ? row->one_a
         : ones == LANE_ONE_B ? row->one_b
                              : NULL;
}

#endif
