/* Planted faults: an allocator that fails on demand and checks how it is used, and failing file
 * operations.
 *
 *   fault_heap heap = {.fail_at = 0};
 *   do {
 *     fault_heap_start(&heap);                         // fails one allocation later than before
 *     sn_ctx *ctx = fault_ctx(&heap);
 *     status = ctx ? thing_under_test(ctx) : SN_ERR_NO_MEMORY;
 *     sn_ctx_destroy(ctx);
 *   } while (fault_heap_end(&heap));                   // until none failed; checks for leaks
 */
#ifndef SINEW_TESTS_SUPPORT_FAULT_H
#define SINEW_TESTS_SUPPORT_FAULT_H

#include "base/base.h"

typedef struct fault_heap {
  int64_t fail_at;   /* the allocation to fail, counted from 1; 0: none */
  bool persistent;   /* all from that one on fail */
  int64_t count;     /* allocations so far (grows count too) */
  int64_t failed;    /* how many of them were made to fail */
  int64_t blocks;    /* live */
  size_t bytes;      /* live */
  size_t peak;       /* most bytes live at once */
  int64_t bad_sizes; /* frees and grows whose old size was not what was asked for */
} fault_heap;

sn_allocator fault_allocator(fault_heap *heap);
/* A context on the heap; NULL when its own allocation was the one to fail. */
sn_ctx *fault_ctx(fault_heap *heap);

/* Sweeps. start: resets the counters and moves fail_at on by one. end: checks (with CHECK) that
 * nothing leaked and that all sizes were right; true while there is more to do: an allocation was
 * made to fail this time. Stops after `failed` = 0, or when a check fails. */
void fault_heap_start(fault_heap *heap);
bool fault_heap_end(fault_heap *heap);

/* Fails the n-th file operation, of any kind or of one. */
typedef struct fault_io {
  int only;       /* an io_op, or -1 for all */
  int64_t at;     /* counted from 1; 0: none */
  int error;      /* the errno */
  bool kill;      /* end the process instead, as a crash would */
  int64_t count;  /* operations so far (of that kind) */
  io_op last;     /* the operation that failed */
  int64_t failed; /* how many */
} fault_io;

void fault_io_install(sn_ctx *ctx, fault_io *io);

#endif
