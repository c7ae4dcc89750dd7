/* The context: diagnostics and memory through the caller's allocator. See base.h. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/null.h"

#include "base/base.h"

#include "base/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static const char *const status_names[] = {"ok",          "invalid argument",   "not found",
                                           "bad format",  "input/output error", "no memory",
                                           "unsupported", "numeric error",      "wrong state",
                                           "cancelled",   "internal error"};

const char *sn_status_name(sn_status status) {
  size_t i = (size_t)status;
  return i < COUNT_OF(status_names) ? status_names[i] : "unknown status";
}

const char *sn_version(void) { return SN_VERSION; }

/* Weights and arenas are read from end to end: with pages of 4 KiB the look-up of addresses takes a quarter of the
 * time that memory needs. */
static void want_large_pages(void *ptr, size_t size) {
#if defined(MADV_HUGEPAGE)
  enum { LARGE = 4 << 20, PAGE = 4096 };
  uintptr_t from = ((uintptr_t)ptr + PAGE - 1) / PAGE * PAGE, to = (uintptr_t)ptr + size;
  if (size >= LARGE)
    (void)madvise((char *)ptr + (from - (uintptr_t)ptr), (to - from) / PAGE * PAGE, MADV_HUGEPAGE);
#else
  (void)ptr, (void)size;
#endif
}

static void *libc_resize(void *user, void *ptr, size_t old_size, size_t new_size) {
  (void)user;
  (void)old_size;
  if (new_size == 0) {
    free(ptr);
    return NULL;
  }
  void *p = realloc(ptr, new_size);
  if (p)
    want_large_pages(p, new_size);
  return p;
}

sn_status sn_ctx_create(const sn_allocator *allocator, sn_ctx **out_ctx) {
  CLEARS(out_ctx);
  NEEDS(out_ctx);
  sn_allocator a = allocator ? *allocator : (sn_allocator){libc_resize, NULL};
  sn_ctx *ctx = a.resize(a.user, NULL, 0, sizeof *ctx);
  if (!ctx)
    return SN_ERR_NO_MEMORY;
  memset(ctx, 0, sizeof *ctx);
  ctx->allocator = a;
  *out_ctx = ctx;
  return SN_OK;
}

void sn_ctx_destroy(sn_ctx *ctx) {
  if (!ctx)
    return;
  team_destroy(ctx->team);
  sn_allocator a = ctx->allocator;
  a.resize(a.user, ctx, sizeof *ctx, 0);
}

const char *sn_ctx_message(const sn_ctx *ctx) { return ctx ? ctx->message : ""; }

sn_status diag_failv(sn_ctx *ctx, sn_status status, const char *format, va_list args) {
  if (ctx)
    vsnprintf(ctx->message, sizeof ctx->message, format, args);
  return status;
}

sn_status sn_ctx_fail(sn_ctx *ctx, sn_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  status = diag_failv(ctx, status, format, args);
  va_end(args);
  return status;
}

sn_status sn_ctx_within(sn_ctx *ctx, sn_status status, const char *format, ...) {
  if (!ctx)
    return status;
  char inner[sizeof ctx->message];
  memcpy(inner, ctx->message, sizeof inner);
  va_list args;
  va_start(args, format);
  int n = vsnprintf(ctx->message, sizeof ctx->message, format, args);
  va_end(args);
  size_t used = n < 0 ? 0 : (size_t)n;
  if (used + 2 < sizeof ctx->message) {
    size_t room = sizeof ctx->message - used - 3; /* ": " and the NUL */
    size_t size = strlen(inner) < room ? strlen(inner) : room;
    memcpy(ctx->message + used, ": ", 2);
    memcpy(ctx->message + used + 2, inner, size);
    ctx->message[used + 2 + size] = '\0';
  }
  return status;
}

void *sn_ctx_alloc(sn_ctx *ctx, size_t size) {
  NEEDS_OR(ctx, NULL);
  return mem_alloc(ctx, size);
}
void sn_ctx_free(sn_ctx *ctx, void *ptr, size_t size) {
  if (ctx)
    mem_free(ctx, ptr, size);
}

/* 0 bytes are asked for as 1, so that NULL always means failure. */
static size_t at_least_one(size_t size) { return size ? size : 1; }

static void *no_memory(sn_ctx *ctx, size_t size) {
  (void)!diag_fail(ctx, SN_ERR_NO_MEMORY, "out of memory: asked for %zu bytes", size);
  return NULL;
}

void *mem_alloc(sn_ctx *ctx, size_t size) {
  void *p = ctx->allocator.resize(ctx->allocator.user, NULL, 0, at_least_one(size));
  if (!p)
    return no_memory(ctx, size);
  return memset(p, 0, at_least_one(size));
}

void *mem_array(sn_ctx *ctx, size_t n, size_t each) {
  size_t size;
  if (!size_mul_fits(n, each, &size))
    return no_memory(ctx, SIZE_MAX);
  return mem_alloc(ctx, size);
}

void *mem_resize(sn_ctx *ctx, void *ptr, size_t old_size, size_t new_size) {
  void *p = ctx->allocator.resize(ctx->allocator.user, ptr, ptr ? at_least_one(old_size) : 0,
                                  at_least_one(new_size));
  return p ? p : no_memory(ctx, new_size);
}

void mem_free(sn_ctx *ctx, void *ptr, size_t size) {
  if (ptr)
    ctx->allocator.resize(ctx->allocator.user, ptr, at_least_one(size), 0);
}

char *mem_strdup(sn_ctx *ctx, const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = mem_alloc(ctx, size);
  if (copy)
    memcpy(copy, text, size);
  return copy;
}

void mem_free_str(sn_ctx *ctx, char *text) {
  if (text)
    mem_free(ctx, text, strlen(text) + 1);
}

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t size) {
  const unsigned char *p = bytes;
  for (size_t i = 0; i < size; i++)
    seed = (seed ^ p[i]) * UINT64_C(0x100000001b3);
  return seed;
}

static uint64_t mixed(uint64_t h, uint64_t word) {
  h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 32;
}

uint64_t hash_long(uint64_t seed, const void *bytes, size_t size) {
  const unsigned char *p = bytes;
  uint64_t word;
  seed ^= size;
  for (; size >= sizeof word; size -= sizeof word, p += sizeof word) {
    memcpy(&word, p, sizeof word);
    seed = mixed(seed, word);
  }
  word = 0;
  if (size)
    memcpy(&word, p, size);
  return size ? mixed(seed, word) : seed;
}

uint64_t hash_string(uint64_t seed, const char *text) {
  return hash_bytes(seed, text, strlen(text));
}
