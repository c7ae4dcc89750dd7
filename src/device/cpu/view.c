/* See view.h. */
#include "device/cpu/view.h"

view view_of(const cpu_run *r, const strided *s) {
  view v = {.data = s->value ? cpu_address(r, s->value) : NULL,
            .dtype = (sn_dtype)s->dtype,
            .base = s->value ? cpu_size(r, s->base) : 0};
  for (int d = 0; s->value && d < s->rank; d++) {
    v.dim[d] = cpu_size(r, s->dim[d]);
    v.stride[d] = cpu_size(r, s->stride[d]);
  }
  return v;
}

void view_read(const view *v, int64_t at, int64_t stride, int64_t n, float *to) {
  if (v->dtype == SN_F32 && stride == 1)
    memcpy(to, (const float *)(const void *)v->data + at, (size_t)n * sizeof *to);
  else
    for (int64_t i = 0; i < n; i++)
      to[i] = view_load(v, at + i * stride);
}

void view_write(const view *v, int64_t at, int64_t stride, int64_t n, const float *from) {
  if (v->dtype == SN_F32 && stride == 1)
    memcpy((float *)(void *)v->data + at, from, (size_t)n * sizeof *from);
  else
    for (int64_t i = 0; i < n; i++)
      view_store(v, at + i * stride, from[i]);
}
