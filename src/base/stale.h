/* Memory that holds nothing: what comes from it must not matter. Tests ask devices to fill such memory with bytes that are NaN
 * as floats and -1 as integers (device.poison), so that a result made of it is never right by luck.
 *
 * In a build with the memory sanitizer (SINEW_SANITIZE=memory, scripts/check_memory.sh) devices do so always, and who decides by
 * such memory, or hands on as a result what is made of it, is found out at once.
 */
#ifndef SINEW_BASE_STALE_H
#define SINEW_BASE_STALE_H

#include <stdint.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#define STALE_CHECKED 1
#include <sanitizer/msan_interface.h>
#endif
#endif
#ifndef STALE_CHECKED
#define STALE_CHECKED 0
#endif

enum { STALE_BYTE = 0xff };

/* From here on these bytes hold nothing. */
static inline void stale_fill(void *memory, size_t bytes) {
  if (bytes == 0)
    return;
  memset(memory, STALE_BYTE, bytes);
#if STALE_CHECKED
  __msan_allocated_memory(memory, bytes);
#endif
}

/* From here on these bytes count as written: for lanes that are computed though nobody wants them, where they may decide what
 * work is done, but not what comes of the others. */
static inline void stale_pass(void *memory, size_t bytes) {
#if STALE_CHECKED
  __msan_unpoison(memory, bytes);
#else
  (void)memory, (void)bytes;
#endif
}

/* The first of these bytes that is stale, or made of what is; -1: none, or the build cannot tell. */
static inline int64_t stale_find(const void *memory, size_t bytes) {
#if STALE_CHECKED
  return bytes > 0 ? (int64_t)__msan_test_shadow(memory, bytes) : -1;
#else
  (void)memory, (void)bytes;
  return -1;
#endif
}

#endif
