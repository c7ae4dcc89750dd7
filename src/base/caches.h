/* How large the processor's caches are, for those who cut work into pieces that stay in them. No result may depend on it. */
#ifndef SINEW_BASE_CACHES_H
#define SINEW_BASE_CACHES_H

#include "base/base.h"

/* Bytes. What the system does not tell, or tells beyond belief, is of a usual size. */
typedef struct cache_sizes {
  int64_t second; /* of one core: its share, where several have it together */
  int64_t third;  /* of all that share it */
} cache_sizes;

/* Looked up once a process. */
cache_sizes caches_get(void);
/* For tests: sizes to go by from now on; a second of 0: those of the processor again. Not while a session runs. */
void caches_pretend(cache_sizes sizes);

#endif
