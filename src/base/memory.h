/* How much memory there is. The system promises memory that it does not have and ends the process when it is used, so what
 * is large is compared with what is available before it is asked for. */
#ifndef SINEW_BASE_MEMORY_H
#define SINEW_BASE_MEMORY_H

#include "base/base.h"

/* Bytes that this process could use beyond those that it has: of the machine's memory, within the limits of its control
 * groups and of its address space. INT64_MAX where the system does not tell. */
int64_t memory_available(void);
/* The same of a system whose files lie in the folder `root`. For tests. */
int64_t memory_available_under(const char *root);

/* Whether bytes fit into what is available; else an error with both numbers: "the arena needs 6.40 TB (6400000000000 bytes),
 * 20.1 GB (20100000000 bytes) are available". */
sn_status memory_check(sn_ctx *ctx, const char *what, size_t bytes, int64_t available) SN_MUST_USE;
/* The same against memory_available(), which is asked only when the bytes are many. */
sn_status memory_expect(sn_ctx *ctx, const char *what, size_t bytes) SN_MUST_USE;

#endif
