/* See arena.h. Chunks double in size up to a bound, large blocks get a chunk of their own. */
#include "base/arena.h"

#include <stdio.h>

enum { ALIGN = 16, FIRST_CHUNK = 4096, LARGEST_CHUNK = 1 << 20 };

typedef struct arena_chunk {
  struct arena_chunk *next;
  size_t size; /* of the whole block, this header included */
  size_t used; /* header included */
} arena_chunk;

static size_t round_up(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

void arena_init(arena *a, sn_ctx *ctx) { *a = (arena){ctx, NULL}; }

void arena_clear(arena *a) {
  for (arena_chunk *c = a->chunks, *next; c; c = next) {
    next = c->next;
    mem_free(a->ctx, c, c->size);
  }
  a->chunks = NULL;
}

/* A block that fills its chunk stands behind the newest one, whose room stays in use. */
static arena_chunk *add_chunk(arena *a, size_t payload) {
  size_t head = round_up(sizeof(arena_chunk));
  size_t size = a->chunks ? a->chunks->size * 2 : FIRST_CHUNK;
  if (size > LARGEST_CHUNK)
    size = LARGEST_CHUNK;
  bool own = payload > size - head;
  if (own && !size_add_fits(payload, head, &size))
    return NULL;
  arena_chunk *c = mem_alloc(a->ctx, size);
  if (!c)
    return NULL;
  arena_chunk **link = own && a->chunks ? &a->chunks->next : &a->chunks;
  *c = (arena_chunk){*link, size, head};
  *link = c;
  return c;
}

void *arena_alloc(arena *a, size_t size) {
  if (size > SIZE_MAX - 2 * ALIGN)
    return NULL;
  size = round_up(size ? size : 1);
  arena_chunk *c = a->chunks;
  if (!c || c->size - c->used < size)
    c = add_chunk(a, size);
  if (!c)
    return NULL;
  void *p = (char *)c + c->used;
  c->used += size;
  return p;
}

void *arena_array(arena *a, size_t n, size_t each) {
  size_t size;
  return size_mul_fits(n, each, &size) ? arena_alloc(a, size) : NULL;
}

void *arena_copy(arena *a, const void *bytes, size_t size) {
  void *p = arena_alloc(a, size);
  if (p && size)
    memcpy(p, bytes, size);
  return p;
}

char *arena_strdup(arena *a, const char *text) { return arena_copy(a, text, strlen(text) + 1); }

char *arena_printf(arena *a, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  char *text = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
  if (text)
    vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  va_end(args);
  return text;
}
