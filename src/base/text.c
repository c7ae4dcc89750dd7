/* See text.h. */
#include "base/text.h"

#include <stdio.h>

void text_init(text *t, sn_ctx *ctx) { *t = (text){.ctx = ctx}; }

void text_free(text *t) {
  mem_free(t->ctx, t->data, t->capacity);
  text_init(t, t->ctx);
}

/* Room for `more` bytes and a NUL. */
static bool reserve(text *t, size_t more) {
  if (t->failed)
    return false;
  if (t->capacity - t->size > more)
    return true;
  size_t capacity = t->capacity ? t->capacity * 2 : 128;
  while (capacity - t->size <= more)
    capacity *= 2;
  char *data = mem_resize(t->ctx, t->data, t->capacity, capacity);
  if (!data) {
    t->failed = true;
    return false;
  }
  t->data = data;
  t->capacity = capacity;
  return true;
}

void text_add(text *t, const char *bytes, size_t size) {
  if (!reserve(t, size))
    return;
  if (size)
    memcpy(t->data + t->size, bytes, size);
  t->size += size;
  t->data[t->size] = '\0';
}

void text_puts(text *t, const char *string) { text_add(t, string, strlen(string)); }

void text_printf(text *t, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  if (n >= 0 && reserve(t, (size_t)n)) {
    vsnprintf(t->data + t->size, (size_t)n + 1, format, again);
    t->size += (size_t)n;
  }
  va_end(again);
  va_end(args);
}

sn_status text_done(const text *t) { return t->failed ? SN_ERR_NO_MEMORY : SN_OK; }
