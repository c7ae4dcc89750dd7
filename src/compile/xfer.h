/* Moving structs to bytes and back: one function for both directions, so that writer and reader cannot drift apart. For
 * program_bytes.c. Errors are sticky: after the first, reads give zeros and counts of 0.
 *
 * Invariants while reading: a count never exceeds the bytes that are left, and all memory together stays within a multiple
 * of the size of the input, so that few bytes cannot ask for much. */
#ifndef SINEW_COMPILE_XFER_H
#define SINEW_COMPILE_XFER_H

#include "plan/program.h"

/* Bytes of memory for each byte that is read, at most. */
enum { XFER_AMPLIFICATION = 512 };

typedef struct xfer {
  bool reading;
  const char *problem; /* the first; NULL: none */
  bool no_memory;
  text *out;                     /* writing */
  const unsigned char *at, *end; /* reading */
  size_t budget;                 /* of memory that may still be asked for */
  program *p;                    /* memory of what is read; its n_values bound ids */
  sn_dim *dims;                  /* reading: by handle of the bytes */
  int n_dims;
  int n_axes; /* of the region at hand */
} xfer;

void xfer_fail(xfer *x, const char *problem);
void xfer_unsigned(xfer *x, uint64_t *n);
void xfer_int64(xfer *x, int64_t *n);
void xfer_int(xfer *x, int *n);
void xfer_bool(xfer *x, bool *b);
void xfer_double(xfer *x, double *d);
void xfer_bytes(xfer *x, const void **bytes, size_t *size);
void xfer_string(xfer *x, const char **s);
/* A number in 0 … limit - 1; 0 … limit; the same of a byte. */
uint64_t xfer_below(xfer *x, uint64_t n, uint64_t limit, const char *problem);
void xfer_small(xfer *x, int *n, int limit, const char *problem);
void xfer_byte(xfer *x, uint8_t *n, unsigned limit, const char *problem);
/* How many elements follow (limit 0: any number); reading makes their array, of `each` bytes an element, and puts it into
 * the pointer that `array` points to. An element takes a byte at least. */
int xfer_count(xfer *x, int n, int limit, size_t each, void *array);
void xfer_dim(xfer *x, sn_dim *d);
void xfer_dims(xfer *x, sn_dim *dims, int n);
/* A value of the program, or 0. */
void xfer_value(xfer *x, uint32_t *v);

#endif
