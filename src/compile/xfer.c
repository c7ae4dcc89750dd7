/* See xfer.h. */
#include "compile/xfer.h"

void xfer_fail(xfer *x, const char *problem) {
  if (!x->problem)
    x->problem = problem;
  x->at = x->end;
}

/* --- primitives --- */

static void put_byte(xfer *x, unsigned byte) {
  char c = (char)byte;
  text_add(x->out, &c, 1);
}

static unsigned take_byte(xfer *x) {
  if (x->at == x->end) {
    xfer_fail(x, "it ends early");
    return 0;
  }
  return *x->at++;
}

void xfer_unsigned(xfer *x, uint64_t *n) {
  if (!x->reading) {
    uint64_t rest = *n;
    for (; rest >= 128; rest >>= 7)
      put_byte(x, (unsigned)(rest & 127) | 128);
    put_byte(x, (unsigned)rest);
    return;
  }
  *n = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    unsigned byte = take_byte(x);
    *n |= (uint64_t)(byte & 127) << shift;
    if (!(byte & 128))
      return;
  }
  xfer_fail(x, "a number is too long");
}

void xfer_int64(xfer *x, int64_t *n) {
  uint64_t folded = ((uint64_t)*n << 1) ^ (*n < 0 ? UINT64_MAX : 0);
  xfer_unsigned(x, &folded);
  if (x->reading)
    *n = (int64_t)(folded >> 1) ^ -(int64_t)(folded & 1);
}

/* A number in 0 … limit - 1. */
uint64_t xfer_below(xfer *x, uint64_t n, uint64_t limit, const char *what) {
  xfer_unsigned(x, &n);
  if (x->reading && n >= limit) {
    xfer_fail(x, what);
    return 0;
  }
  return n;
}

void xfer_int(xfer *x, int *n) {
  int64_t wide = *n;
  xfer_int64(x, &wide);
  if (x->reading && (wide < INT32_MIN || wide > INT32_MAX)) {
    xfer_fail(x, "a number is too large");
    wide = 0;
  }
  *n = (int)wide;
}

void xfer_bool(xfer *x, bool *b) { *b = xfer_below(x, *b, 2, "a flag is neither 0 nor 1"); }

void xfer_double(xfer *x, double *d) {
  uint64_t bits;
  memcpy(&bits, d, sizeof bits);
  for (unsigned i = 0; i < 8; i++) {
    if (x->reading)
      bits = i ? bits | (uint64_t)take_byte(x) << (8 * i) : take_byte(x);
    else
      put_byte(x, (unsigned)(bits >> (8 * i)) & 255);
  }
  memcpy(d, &bits, sizeof bits);
}

/* Memory for n elements that were counted; NULL after a failure and for none. */
static void *make_room(xfer *x, size_t n, size_t each) {
  size_t size;
  if (x->problem || n == 0)
    return NULL;
  if (!size_mul_fits(n, each, &size) || size > x->budget) {
    xfer_fail(x, "it asks for more memory than it can need");
    return NULL;
  }
  void *room = arena_alloc(&x->p->memory, size);
  x->budget -= size;
  x->no_memory = x->no_memory || !room;
  if (!room)
    xfer_fail(x, "no memory");
  return room;
}

/* How many elements follow; makes their array when reading. An element takes a byte at least. */
int xfer_count(xfer *x, int n, int limit, size_t each, void *array) {
  uint64_t most = x->reading ? (uint64_t)(x->end - x->at) + 1 : UINT64_MAX;
  uint64_t count =
      xfer_below(x, (uint64_t)n, most < INT32_MAX ? most : INT32_MAX, "a count is too large");
  if (x->reading && limit && count > (uint64_t)limit)
    xfer_fail(x, "a count is too large");
  if (!x->reading)
    return n;
  void *room = make_room(x, (size_t)count, each);
  memcpy(array, &room, sizeof room);
  return room ? (int)count : 0;
}

/* A run of bytes of a length that is given first; what it returns when reading has room for a zero behind them. */
static const void *xfer_block(xfer *x, const void *bytes, size_t *size) {
  uint64_t length = *size;
  xfer_unsigned(x, &length);
  if (x->reading && length > (uint64_t)(x->end - x->at)) { /* behind the length itself */
    xfer_fail(x, "it ends early");
    length = 0;
  }
  *size = (size_t)length;
  if (!x->reading) {
    text_add(x->out, *size ? bytes : "", *size);
    return bytes;
  }
  char *room = make_room(x, *size + 1, 1);
  if (!room) {
    *size = 0;
    return "";
  }
  memcpy(room, x->at, *size);
  x->at += *size;
  return room;
}

void xfer_bytes(xfer *x, const void **bytes, size_t *size) { *bytes = xfer_block(x, *bytes, size); }

void xfer_string(xfer *x, const char **s) {
  size_t size = !x->reading && *s ? strlen(*s) : 0;
  *s = xfer_block(x, *s ? *s : "", &size);
  if (x->reading && strlen(*s) != size)
    xfer_fail(x, "a name has a zero in it");
}

void xfer_dim(xfer *x, sn_dim *d) {
  bool number = dim_is_number(*d);
  xfer_bool(x, &number);
  if (number) {
    xfer_int64(x, d);
    if (x->reading && !(dim_is_number(*d) && dim_valid(x->p->dims, *d)))
      xfer_fail(x, "a size is too large");
    return;
  }
  uint64_t handle = x->reading ? 0 : (uint64_t)(DIM_HANDLES - *d);
  handle = xfer_below(x, handle, (uint64_t)x->n_dims, "a size that is not there");
  if (x->reading)
    *d = x->problem ? 0 : x->dims[handle];
}

void xfer_dims(xfer *x, sn_dim *dims, int n) {
  for (int i = 0; i < n; i++)
    xfer_dim(x, &dims[i]);
}

void xfer_small(xfer *x, int *n, int limit, const char *what) {
  *n = (int)xfer_below(x, (uint64_t)*n, (uint64_t)limit + 1, what);
}

void xfer_byte(xfer *x, uint8_t *n, unsigned limit, const char *what) {
  *n = (uint8_t)xfer_below(x, *n, limit, what);
}

void xfer_value(xfer *x, uint32_t *v) {
  *v =
      (uint32_t)xfer_below(x, *v, x->p->n_values ? x->p->n_values : 1, "a value that is not there");
}
