/* The dtype table: names and sizes. Block dtypes (quantised weights) fit by block elements > 1. */
#include "ir/dtype.h"

#include "base/half.h"

#include <math.h>

static const dtype_info infos[SN_DTYPE_COUNT] = {
    [SN_NO_DTYPE] = {"none", 0, 0, 0},     [SN_F32] = {"f32", 1, 4, DTYPE_FLOAT},
    [SN_F16] = {"f16", 1, 2, DTYPE_FLOAT}, [SN_BF16] = {"bf16", 1, 2, DTYPE_FLOAT},
    [SN_I32] = {"i32", 1, 4, DTYPE_INT},   [SN_U8] = {"u8", 1, 1, DTYPE_INT},
    [SN_BOOL] = {"bool", 1, 1, 0},
};

static const dtype_info *info(sn_dtype dtype) {
  return &infos[(unsigned)dtype < SN_DTYPE_COUNT ? dtype : SN_NO_DTYPE];
}

const char *sn_dtype_name(sn_dtype dtype) { return info(dtype)->name; }
size_t sn_dtype_size(sn_dtype dtype) { return info(dtype)->block_bytes; }
bool dtype_valid(sn_dtype d) { return (unsigned)d < SN_DTYPE_COUNT && d != SN_NO_DTYPE; }
bool dtype_is_float(sn_dtype d) { return info(d)->flags & DTYPE_FLOAT; }
bool dtype_is_int(sn_dtype d) { return info(d)->flags & DTYPE_INT; }

sn_dtype dtype_find(const char *name, size_t length) {
  for (int d = 1; d < SN_DTYPE_COUNT; d++)
    if (strlen(infos[d].name) == length && memcmp(infos[d].name, name, length) == 0)
      return (sn_dtype)d;
  return SN_NO_DTYPE;
}

double dtype_round(sn_dtype dtype, double x) {
  switch (dtype) {
  case SN_F32: return (float)x;
  case SN_F16: return half_to_f32(half_from_f64(x));
  case SN_BF16: return bf16_to_f32(bf16_from_f64(x));
  case SN_I32: return isnan(x) ? 0 : trunc(fmin(fmax(x, INT32_MIN), INT32_MAX));
  case SN_U8: return isnan(x) ? 0 : trunc(fmin(fmax(x, 0), UINT8_MAX));
  case SN_BOOL: return x != 0;
  default: return x;
  }
}

double dtype_load(sn_dtype dtype, const void *data, int64_t i) {
  switch (dtype) {
  case SN_F32: return ((const float *)data)[i];
  case SN_F16: return half_to_f32(((const uint16_t *)data)[i]);
  case SN_BF16: return bf16_to_f32(((const uint16_t *)data)[i]);
  case SN_I32: return ((const int32_t *)data)[i];
  default: return ((const uint8_t *)data)[i];
  }
}

void dtype_store(sn_dtype dtype, void *data, int64_t i, double x) {
  switch (dtype) {
  case SN_F32: ((float *)data)[i] = (float)x; break;
  case SN_F16: ((uint16_t *)data)[i] = half_from_f64(x); break;
  case SN_BF16: ((uint16_t *)data)[i] = bf16_from_f64(x); break;
  case SN_I32: ((int32_t *)data)[i] = (int32_t)dtype_round(dtype, x); break;
  default: ((uint8_t *)data)[i] = (uint8_t)dtype_round(dtype, x); break;
  }
}
