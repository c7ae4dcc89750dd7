/* Open npy files: life, and reading of the elements as another dtype and in another order. See sinew/npy.h. */
#include "base/null.h"

#include "io/npy.h"

#include "ir/dtype.h"

#include <math.h>

/* Takes over `file`. */
static sn_status open_file(sn_ctx *ctx, file_reader *file, sn_npy **out_file) {
  sn_npy *npy = mem_alloc(ctx, sizeof *npy);
  if (!npy) {
    file_close(file);
    return SN_ERR_NO_MEMORY;
  }
  npy->ctx = ctx;
  npy->file = file;
  npy->view.dtype_name = npy->descr;
  sn_status status = npy_load_header(npy);
  if (status != SN_OK) {
    sn_npy_close(npy);
    return status;
  }
  *out_file = npy;
  return SN_OK;
}

sn_status sn_npy_open(sn_ctx *ctx, const char *path, sn_npy **out_file) {
  CLEARS(out_file);
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, path);
  NEEDS_ARGUMENT(ctx, out_file);
  file_reader *file;
  SN_TRY(file_open(ctx, path, &file));
  return open_file(ctx, file, out_file);
}

sn_status npy_open_bytes(sn_ctx *ctx, const void *bytes, size_t size, sn_npy **out_file) {
  file_reader *file;
  *out_file = NULL;
  SN_TRY(file_open_bytes(ctx, "(memory)", bytes, size, &file));
  return open_file(ctx, file, out_file);
}

void sn_npy_close(sn_npy *npy) {
  if (!npy)
    return;
  file_close(npy->file);
  mem_free(npy->ctx, npy, sizeof *npy);
}

const sn_npy_array *sn_npy_get(const sn_npy *npy) {
  NEEDS_OR(npy, NULL);
  return &npy->view;
}

/* --- elements --------------------------------------------------------------------------------- */

/* Element i of a piece: a float, or a whole number; the latter false when 63 bits do not hold it. */
static double load_float(npy_element e, const void *piece, size_t i) {
  if (e.size == sizeof(double))
    return ((const double *)piece)[i];
  return dtype_load(e.size == 2 ? SN_F16 : SN_F32, piece, (int64_t)i);
}

static bool load_whole(npy_element e, const void *piece, size_t i, int64_t *out) {
  uint64_t bits = 0;
  memcpy(&bits, (const char *)piece + i * e.size, e.size); /* little-endian, as all hosts are */
  unsigned above = 64 - 8 * (unsigned)e.size;
  if (e.kind == 'i' && above && bits >> (63 - above) & 1)
    bits |= ~UINT64_C(0) << (64 - above);
  if (e.kind != 'i' && bits > INT64_MAX)
    return false;
  memcpy(out, &bits, sizeof bits);
  return true;
}

/* What a whole number must lie between to be of this dtype. */
static bool fits(sn_dtype dtype, int64_t x) {
  int64_t low = dtype == SN_I32 ? INT32_MIN : 0;
  int64_t high = dtype == SN_I32 ? INT32_MAX : dtype == SN_U8 ? UINT8_MAX : 1;
  return x >= low && x <= high;
}

/* Puts element i of a piece where element `to` of the result lies; false when it is out of range. */
static bool convert(const sn_npy *npy, const void *piece, size_t i, sn_dtype dtype, void *buffer,
                    int64_t to) {
  size_t size = sn_dtype_size(dtype);
  int64_t whole;
  if (npy->element.kind == 'f') {
    if (dtype == npy->view.dtype) { /* the bits, also those of NaNs */
      memcpy((char *)buffer + (size_t)to * size, (const char *)piece + i * size, size);
      return true;
    }
    double x = load_float(npy->element, piece, i);
    dtype_store(dtype, buffer, to, x);
    return !isfinite(x) || isfinite(dtype_load(dtype, buffer, to));
  }
  if (!load_whole(npy->element, piece, i, &whole) || !fits(dtype, whole) ||
      (npy->element.kind == 'b' && !fits(SN_BOOL, whole)))
    return false;
  dtype_store(dtype, buffer, to, (double)whole);
  return true;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Where in row-major order the elements of the file go, one after the other. */
typedef struct walk {
  const sn_npy *npy;
  int64_t at[SN_MAX_RANK], stride[SN_MAX_RANK];
  int64_t place;
} walk;

static walk walk_begin(const sn_npy *npy) {
  walk w = {.npy = npy};
  int64_t stride = 1;
  for (int d = npy->view.shape.rank; d-- > 0; stride *= npy->view.shape.dim[d])
    w.stride[d] = stride;
  return w;
}

static void walk_on(walk *w) {
  const sn_shape *shape = &w->npy->view.shape;
  if (!w->npy->fortran) {
    w->place++;
    return;
  }
  for (int d = 0; d < shape->rank; d++) {
    w->place += w->stride[d];
    if (++w->at[d] < shape->dim[d])
      return;
    w->place -= w->stride[d] * shape->dim[d];
    w->at[d] = 0;
  }
}

static sn_status check_read(const sn_npy *npy, sn_dtype dtype, int64_t count) {
  bool to_float = dtype_is_float(dtype), from_float = npy->element.kind == 'f';
  if (count != npy->view.count)
    return diag_fail(npy->ctx, SN_ERR_INVALID, "%s: expected a buffer of %lld elements, got %lld",
                     file_path(npy->file), (long long)npy->view.count, (long long)count);
  if (!dtype_valid(dtype) || to_float != from_float)
    return diag_fail(npy->ctx, SN_ERR_UNSUPPORTED, "%s: cannot read dtype %s as %s",
                     file_path(npy->file), npy->descr, sn_dtype_name(dtype));
  return SN_OK;
}

sn_status sn_npy_read(sn_npy *npy, sn_dtype dtype, void *buffer, int64_t count) {
  NEEDS(npy);
  double piece[512];
  size_t element = npy->element.size, step = sizeof piece / element, n = (size_t)npy->view.count;
  SN_TRY(check_read(npy, dtype, count));
  NEEDS_ARGUMENT_IF(npy->ctx, n > 0, buffer);
  walk w = walk_begin(npy);
  for (size_t i = 0; i < n; i += step) {
    size_t now = n - i < step ? n - i : step;
    SN_TRY(file_read_at(npy->file, npy->data + i * element, piece, now * element));
    for (size_t k = 0; k < now; k++, walk_on(&w))
      if (!convert(npy, piece, k, dtype, buffer, w.place))
        return diag_fail(npy->ctx, SN_ERR_INVALID, "%s: element %lld is out of the range of %s",
                         file_path(npy->file), (long long)w.place, sn_dtype_name(dtype));
  }
  return SN_OK;
}
