/* Fuzzes the npy reader: any bytes are opened or refused with a message; what is opened has a consistent shape and is
 * read as every dtype or refused. */
#include "io/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void demand(bool holds) {
  if (!holds)
    abort();
}

static void check_read(sn_npy *npy, sn_dtype dtype) {
  const sn_npy_array *array = sn_npy_get(npy);
  unsigned char *data = malloc((size_t)array->count * sn_dtype_size(dtype) + 1);
  demand(data != NULL);
  sn_status status = sn_npy_read(npy, dtype, data, array->count);
  demand(status == SN_OK || status == SN_ERR_INVALID || status == SN_ERR_UNSUPPORTED);
  demand(status != SN_ERR_UNSUPPORTED || dtype != array->dtype);
  for (int64_t i = 0; status == SN_OK && dtype == SN_BOOL && i < array->count; i++)
    demand(data[i] <= 1);
  free(data);
}

static void check_array(sn_npy *npy, size_t file_bytes) {
  const sn_npy_array *array = sn_npy_get(npy);
  int64_t product = 1;
  demand(array->shape.rank >= 0 && array->shape.rank <= SN_MAX_RANK);
  for (int d = 0; d < array->shape.rank; d++) {
    demand(array->shape.dim[d] >= 0);
    product = array->count ? product * array->shape.dim[d] : 0;
  }
  demand(array->count == product && (uint64_t)array->count <= file_bytes);
  for (int dtype = 1; dtype < SN_DTYPE_COUNT; dtype++)
    check_read(npy, (sn_dtype)dtype);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  sn_ctx *ctx;
  sn_npy *npy;
  demand(sn_ctx_create(NULL, &ctx) == SN_OK);
  sn_status status = npy_open_bytes(ctx, bytes, size, &npy);
  demand((status == SN_OK) == (npy != NULL));
  if (status == SN_OK)
    check_array(npy, size);
  else
    demand((status == SN_ERR_FORMAT || status == SN_ERR_UNSUPPORTED) && *sn_ctx_message(ctx));
  sn_npy_close(npy);
  sn_ctx_destroy(ctx);
  return 0;
}
