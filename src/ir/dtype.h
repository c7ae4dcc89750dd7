/* Facts about dtypes, and one element to and from a double (exact for every dtype on the way in,
 * rounded to nearest even, truncated and saturated on the way out). */
#ifndef SINEW_IR_DTYPE_H
#define SINEW_IR_DTYPE_H

#include "base/base.h"

enum { DTYPE_FLOAT = 1, DTYPE_INT = 2 };

typedef struct dtype_info {
  const char *name;
  uint16_t block_elements, block_bytes;
  unsigned flags;
} dtype_info;

bool dtype_valid(sn_dtype d);
bool dtype_is_float(sn_dtype d);
bool dtype_is_int(sn_dtype d);                        /* bool is neither */
sn_dtype dtype_find(const char *name, size_t length); /* SN_NO_DTYPE: none of that name */
double dtype_round(sn_dtype dtype, double x);
double dtype_load(sn_dtype dtype, const void *data, int64_t i);
void dtype_store(sn_dtype dtype, void *data, int64_t i, double x);

#endif
