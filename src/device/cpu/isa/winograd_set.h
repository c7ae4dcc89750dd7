/* What the files of one instruction set's transforms share. */
#ifndef SINEW_DEVICE_CPU_ISA_WINOGRAD_SET_H
#define SINEW_DEVICE_CPU_ISA_WINOGRAD_SET_H

#include "device/cpu/isa/matmul_set.h"
#include "device/cpu/isa/winograd.h"

/* Lanes lo … hi-1 of a vector: those that are loaded. */
typedef struct lane_range {
  int lo, hi;
} lane_range;

VEC_INLINE vec load_lanes(const float *from, lane_range r) {
#if defined(ISA_avx512)
  return _mm512_maskz_loadu_ps((__mmask16)(((1u << r.hi) - 1) & ~((1u << r.lo) - 1)), from);
#else
  vec x = {0};
  if (r.hi - r.lo == VEC)
    return vec_load(from);
  for (int i = r.lo; i < r.hi; i++)
    x[i] = from[i];
  return x;
#endif
}

/* Those of columns column … that are among lo … hi-1. */
VEC_INLINE lane_range lanes_among(int64_t lo, int64_t hi, int64_t column) {
  lo = lo < column ? 0 : lo - column > VEC ? VEC : lo - column;
  hi = hi - column < lo ? lo : hi - column > VEC ? VEC : hi - column;
  return (lane_range){(int)lo, (int)hi};
}

/* The address of a column, which perhaps is not there. */
VEC_INLINE const float *column_at(const float *row, int64_t column) {
  return (const float *)((uintptr_t)row + (uintptr_t)column * sizeof *row);
}

void ISA(winograd_turn_images)(const winograd_turned *w);
void ISA(winograd_turn_results)(const winograd_turned *w);
void ISA(winograd_taps)(const winograd_sums *w);

#endif
