/* Writing npy files, of version 1. See sinew/npy.h. */
#include "base/null.h"

#include "base/text.h"
#include "io/npy.h"
#include "ir/dtype.h"

/* The elements begin at a multiple of this, as numpy's do. */
enum { ALIGN = 64, PREAMBLE = 10 };

static const char *descr_of(sn_dtype dtype) {
  switch (dtype) {
  case SN_F32:
  case SN_BF16: return "<f4";
  case SN_F16: return "<f2";
  case SN_I32: return "<i4";
  case SN_U8: return "|u1";
  case SN_BOOL: return "|b1";
  case SN_NO_DTYPE:
  case SN_DTYPE_COUNT: break;
  }
  return NULL;
}

static sn_status count_elements(sn_ctx *ctx, sn_type type, int64_t *out_count) {
  int64_t product = 1, bytes;
  *out_count = 0;
  if (!descr_of(type.dtype) || type.shape.rank < 0 || type.shape.rank > SN_MAX_RANK)
    return diag_fail(ctx, SN_ERR_INVALID, "expected a dtype and a shape of at most %d axes",
                     SN_MAX_RANK);
  for (int d = 0; d < type.shape.rank; d++)
    if (type.shape.dim[d] < 0 || !mul_fits(product, type.shape.dim[d], &product))
      return diag_fail(ctx, SN_ERR_INVALID, "shape[%d]: expected a number that fits", d);
  if (!mul_fits(product, (int64_t)sizeof(float), &bytes))
    return diag_fail(ctx, SN_ERR_INVALID, "the number of bytes overflows");
  *out_count = product;
  return SN_OK;
}

static sn_status build_header(text *t, sn_type type) {
  text_printf(t, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr_of(type.dtype));
  for (int d = 0; d < type.shape.rank; d++)
    text_printf(t, "%s%lld", d ? ", " : "", (long long)type.shape.dim[d]);
  text_puts(t, type.shape.rank == 1 ? ",), }" : "), }");
  while (!t->failed && (PREAMBLE + t->size + 1) % ALIGN)
    text_puts(t, " ");
  text_puts(t, "\n");
  return text_done(t);
}

static sn_status write_widened(file_writer *w, const void *data, int64_t count) {
  float piece[1024];
  const int64_t step = (int64_t)COUNT_OF(piece);
  for (int64_t i = 0; i < count; i += step) {
    int64_t now = min_i64(step, count - i);
    for (int64_t k = 0; k < now; k++)
      piece[k] = (float)dtype_load(SN_BF16, data, i + k);
    SN_TRY(file_writer_write(w, piece, (size_t)now * sizeof *piece));
  }
  return SN_OK;
}

static sn_status write_parts(file_writer *w, const text *header, sn_type type, int64_t count,
                             const void *data) {
  const unsigned char preamble[PREAMBLE] = {0x93,
                                            'N',
                                            'U',
                                            'M',
                                            'P',
                                            'Y',
                                            1,
                                            0,
                                            (unsigned char)(header->size & 255),
                                            (unsigned char)(header->size >> 8)};
  SN_TRY(file_writer_write(w, preamble, sizeof preamble));
  SN_TRY(file_writer_write(w, header->data, header->size));
  if (type.dtype == SN_BF16)
    return write_widened(w, data, count);
  return file_writer_write(w, data, (size_t)count * sn_dtype_size(type.dtype));
}

static sn_status write_file(sn_ctx *ctx, const char *path, const text *header, sn_type type,
                            int64_t count, const void *data) {
  file_writer *w;
  SN_TRY(file_writer_create(ctx, path, &w));
  return file_writer_end(w, write_parts(w, header, type, count, data));
}

sn_status sn_npy_write(sn_ctx *ctx, const char *path, sn_type type, const void *data) {
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, path);
  text header;
  int64_t count;
  text_init(&header, ctx);
  sn_status status = count_elements(ctx, type, &count);
  NEEDS_ARGUMENT_IF(ctx, status == SN_OK && count > 0, data);
  if (status == SN_OK)
    status = build_header(&header, type);
  if (status != SN_OK)
    status = diag_within(ctx, status, "%s: cannot write", path);
  else
    status = write_file(ctx, path, &header, type, count, data);
  text_free(&header);
  return status;
}
