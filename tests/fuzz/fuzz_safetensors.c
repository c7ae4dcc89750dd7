/* Fuzzes the safetensors reader: any bytes are opened or refused with a message; what is opened has
 * consistent tensors that can be found by name and read. */
#include "io/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void demand(bool holds) {
  if (!holds)
    abort();
}

static void check_tensor(sn_safetensors *st, size_t index, size_t file_bytes) {
  const sn_safetensors_tensor *t = sn_safetensors_at(st, index);
  demand(t->index == index && sn_safetensors_find(st, t->name) == t);
  demand(t->size <= file_bytes && t->count >= 0 && t->shape.rank <= SN_MAX_RANK);
  void *raw = malloc(t->size + 1);
  demand(raw != NULL);
  demand(sn_safetensors_read_raw(st, index, raw, (size_t)t->size) == SN_OK);
  free(raw);
  if (!safetensors_dtype_by_name(t->dtype_name))
    return; /* any count goes with an unknown dtype */
  demand((uint64_t)t->count <= t->size);
  float *wide = malloc((size_t)t->count * sizeof *wide + 1);
  demand(wide != NULL);
  sn_status status = sn_safetensors_read(st, index, SN_F32, wide, t->count);
  demand(status == SN_OK || status == SN_ERR_UNSUPPORTED);
  demand(status == SN_OK || (t->dtype != SN_F32 && t->dtype != SN_F16 && t->dtype != SN_BF16));
  free(wide);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  sn_ctx *ctx;
  sn_safetensors *st;
  demand(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (safetensors_open_bytes(ctx, bytes, size, &st) == SN_OK) {
    for (size_t i = 0; i < sn_safetensors_count(st); i++)
      check_tensor(st, i, size);
    (void)sn_safetensors_metadata(st, "format");
  } else {
    demand(st == NULL && sn_ctx_message(ctx)[0]);
  }
  sn_safetensors_close(st);
  sn_ctx_destroy(ctx);
  return 0;
}
