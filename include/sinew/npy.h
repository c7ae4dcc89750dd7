/* npy files: one array each, as numpy.save writes them. Reading and writing.
 *
 *   sn_npy *file;
 *   if (sn_npy_open(ctx, "x.npy", &file) != SN_OK) ...
 *   const sn_npy_array *x = sn_npy_get(file);
 *   if (sn_npy_read(file, SN_F32, buffer, x->count) != SN_OK) ...
 *   sn_npy_close(file);
 *
 * Opening reads and checks the header only (versions 1 to 3). Files are not trusted: every size is checked before it
 * is used, the elements must fill the file exactly, and a file that changes while it is read gives an error. Only
 * little-endian numbers are read: f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 u8, b1; in C or Fortran order.
 */
#ifndef SINEW_NPY_H
#define SINEW_NPY_H

#include <sinew/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open file. Belongs to the context's thread. */
typedef struct sn_npy sn_npy;

typedef struct sn_npy_array {
  const char *dtype_name; /* as the file has it: "<f4", "|u1" */
  sn_dtype dtype;         /* SN_NO_DTYPE when Sinew has no such dtype: reading converts it */
  sn_shape shape;
  int64_t count; /* elements: the product of the shape */
} sn_npy_array;

SN_MUST_USE SN_API sn_status sn_npy_open(sn_ctx *ctx, const char *path, sn_npy **out_file);
SN_API void sn_npy_close(sn_npy *file);
/* Lives as long as the file is open. */
SN_API const sn_npy_array *sn_npy_get(const sn_npy *file);

/* Reads all elements in row-major order as `dtype`; `count` is how many there is room for and must be the array's.
 * Floats are read as any float dtype and rounded to nearest; whole numbers and bools as any of i32, u8 and bool. A
 * number that lies outside of the dtype's range is an error (SN_ERR_INVALID). */
SN_MUST_USE SN_API sn_status sn_npy_read(sn_npy *file, sn_dtype dtype, void *buffer, int64_t count);

/* Writes one array, row-major, atomically: after an error the old file, if any, is whole. The shape must be numbers.
 * The format has no bf16: it is written as f4, which loses nothing. */
SN_MUST_USE SN_API sn_status sn_npy_write(sn_ctx *ctx, const char *path, sn_type type,
                                          const void *data);

#ifdef __cplusplus
}
#endif

#endif
