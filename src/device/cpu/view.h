/* Operands of cores for one run: a value's memory with strides as numbers. */
#ifndef SINEW_DEVICE_CPU_VIEW_H
#define SINEW_DEVICE_CPU_VIEW_H

#include "base/half.h"
#include "device/cpu/cpu.h"

typedef struct view {
  char *data; /* of the value, before `base`; NULL: left out */
  int64_t base;
  sn_dtype dtype;
  int64_t dim[SN_MAX_RANK], stride[SN_MAX_RANK];
} view;

view view_of(const cpu_run *r, const strided *s);

/* Element numbers below count from the start of the value: base + sum of i_d * stride[d]. */
static inline int64_t view_at(const view *v, int n, const int64_t *index) {
  int64_t at = v->base;
  for (int d = 0; d < n; d++)
    at += index[d] * v->stride[d];
  return at;
}
static inline float view_load(const view *v, int64_t at) {
  if (v->dtype == SN_F32)
    return ((const float *)(const void *)v->data)[at];
  uint16_t half = ((const uint16_t *)(const void *)v->data)[at];
  return v->dtype == SN_F16 ? half_to_f32(half) : bf16_to_f32(half);
}
static inline void view_store(const view *v, int64_t at, float x) {
  if (v->dtype == SN_F32)
    ((float *)(void *)v->data)[at] = x;
  else
    ((uint16_t *)(void *)v->data)[at] = v->dtype == SN_F16 ? half_from_f32(x) : bf16_from_f32(x);
}
static inline int32_t view_i32(const view *v, int64_t at) {
  return ((const int32_t *)(const void *)v->data)[at];
}
/* n elements of a float view from `at` on, `stride` apart. */
void view_read(const view *v, int64_t at, int64_t stride, int64_t n, float *to);
void view_write(const view *v, int64_t at, int64_t stride, int64_t n, const float *from);

#endif
