/* Memory that holds nothing: what comes from it must not matter. Tests ask devices to fill such memory with bytes that are NaN
 * as floats and -1 as integers (device.poison), so that a result made of it is never right by luck.
 */
#ifndef SINEW_BASE_STALE_H
#define SINEW_BASE_STALE_H

#include <string.h>

enum { STALE_BYTE = 0xff };

/* From here on these bytes hold nothing. */
static inline void stale_fill(void *memory, size_t bytes) {
  if (bytes > 0)
    memset(memory, STALE_BYTE, bytes);
}

#endif
