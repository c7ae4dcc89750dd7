/* NULL where a public function does not allow one: the first lines of its body. Without an object there is no context to leave
 * a message in. */
#ifndef SINEW_BASE_NULL_H
#define SINEW_BASE_NULL_H

#include <sinew/base.h>

/* Returns `value` (a status, or what stands for nothing) where one of the things that the function works on is missing. */
#define NEEDS_OR(pointer, value) \
  do {                           \
    if (!(pointer))              \
      return value;              \
  } while (0)
#define NEEDS(pointer) NEEDS_OR(pointer, SN_ERR_INVALID)
/* Results are nothing before anything else is looked at. */
#define CLEARS(out_pointer)  \
  do {                       \
    if (out_pointer)         \
      *(out_pointer) = NULL; \
  } while (0)
/* An argument beside it; `of` is its context. */
#define NEEDS_ARGUMENT(of, pointer) NEEDS_ARGUMENT_IF(of, true, pointer)
/* One that must be there only where there is something to read or write. */
#define NEEDS_ARGUMENT_IF(of, some, pointer)                                                 \
  do {                                                                                       \
    if ((some) && !(pointer))                                                                \
      return sn_ctx_fail(of, SN_ERR_INVALID, "%s: %s must not be NULL", __func__, #pointer); \
  } while (0)

#endif
