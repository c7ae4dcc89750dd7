/* A growing string. Errors are sticky: after a failed allocation appends do nothing and text_done
 * reports it, so that printers need no checks on the way. */
#ifndef SINEW_BASE_TEXT_H
#define SINEW_BASE_TEXT_H

#include "base/base.h"

typedef struct text {
  sn_ctx *ctx;
  char *data; /* NUL-terminated once anything was added; may be NULL */
  size_t size, capacity;
  bool failed;
} text;

void text_init(text *t, sn_ctx *ctx);
void text_free(text *t);
void text_add(text *t, const char *bytes, size_t size);
void text_puts(text *t, const char *string);
void text_printf(text *t, const char *format, ...) PRINTF_LIKE(2, 3);
/* SN_ERR_NO_MEMORY when any append failed. */
sn_status text_done(const text *t) SN_MUST_USE;

#endif
