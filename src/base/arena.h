/* A bump allocator: many small blocks that all die together (a graph, one parse, one run).
 * Blocks are zeroed and aligned to 16. Nothing is freed before arena_clear. */
#ifndef SINEW_BASE_ARENA_H
#define SINEW_BASE_ARENA_H

#include "base/base.h"

typedef struct arena {
  sn_ctx *ctx;
  struct arena_chunk *chunks; /* the one in use first */
} arena;

void arena_init(arena *a, sn_ctx *ctx);
void arena_clear(arena *a); /* frees all; the arena can be used again */
void *arena_alloc(arena *a, size_t size);
void *arena_array(arena *a, size_t n, size_t each);
void *arena_copy(arena *a, const void *bytes, size_t size);
char *arena_strdup(arena *a, const char *text);
char *arena_printf(arena *a, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
