/* See fault.h. Each block has its size in front of it. */
#include "support/fault.h"

#include "support/test.h"

#include <stdlib.h>
#include <unistd.h>

enum { HEAD = 16 };

static void forget(fault_heap *heap, size_t size, size_t stated) {
  heap->bad_sizes += size != stated;
  heap->blocks--;
  heap->bytes -= size;
}

static void *resize(void *user, void *ptr, size_t old_size, size_t new_size) {
  fault_heap *heap = user;
  char *block = ptr ? (char *)ptr - HEAD : NULL;
  size_t size = 0;
  if (block)
    memcpy(&size, block, sizeof size);
  else
    heap->bad_sizes += old_size != 0;
  if (new_size == 0) {
    if (block)
      forget(heap, size, old_size);
    free(block);
    return NULL;
  }
  heap->count++;
  bool fails = heap->persistent ? heap->fail_at && heap->count >= heap->fail_at
                                : heap->count == heap->fail_at;
  /* Always a new place, so that stale pointers to the old one are found by the sanitizers. */
  char *fresh = fails || new_size > SIZE_MAX - HEAD ? NULL : malloc(new_size + HEAD);
  heap->failed += fails;
  if (!fresh)
    return NULL;
  memcpy(fresh, &new_size, sizeof new_size);
  memset(fresh + HEAD, 0xa5, new_size);
  if (block) {
    memcpy(fresh + HEAD, ptr, size < new_size ? size : new_size);
    forget(heap, size, old_size);
    free(block);
  }
  heap->blocks++;
  heap->bytes += new_size;
  heap->peak = heap->bytes > heap->peak ? heap->bytes : heap->peak;
  return fresh + HEAD;
}

sn_allocator fault_allocator(fault_heap *heap) { return (sn_allocator){resize, heap}; }

sn_ctx *fault_ctx(fault_heap *heap) {
  sn_allocator allocator = fault_allocator(heap);
  sn_ctx *ctx;
  return sn_ctx_create(&allocator, &ctx) == SN_OK ? ctx : NULL;
}

void fault_heap_start(fault_heap *heap) {
  *heap = (fault_heap){.fail_at = heap->fail_at + 1, .persistent = heap->persistent};
}

bool fault_heap_end(fault_heap *heap) {
  bool clean = CHECK_EQ_INT(heap->blocks, 0);
  clean &= CHECK_EQ_UINT(heap->bytes, 0);
  clean &= CHECK_EQ_INT(heap->bad_sizes, 0);
  if (!clean)
    FAIL("with allocation %lld failing", (long long)heap->fail_at);
  return clean && heap->failed;
}

static int io_fault(void *user, io_op op) {
  fault_io *io = user;
  if (io->only >= 0 && op != (io_op)io->only)
    return 0;
  if (++io->count != io->at)
    return 0;
  io->last = op;
  io->failed++;
  if (io->kill)
    _exit(42);
  return io->error;
}

void fault_io_install(sn_ctx *ctx, fault_io *io) {
  ctx->io_fault = io_fault;
  ctx->io_fault_user = io;
}
