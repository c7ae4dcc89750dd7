/* Fuzzes model.safetensors.index.json in a folder with shards: any bytes are refused with a message or give a model with the
 * tensors that the index names, each of which can be found and read. */
#include "io/safetensors.h"
#include "support/fuzz_files.h"

#include <stdlib.h>

#define INDEX "model.safetensors.index.json"

static void put_shard(sn_ctx *ctx, const char *name, const char *first, const char *second) {
  static const float numbers[6] = {1, 2, 3, 4, 5, 6};
  sn_safetensors_item items[] = {{first, {SN_F32, {.rank = 2, .dim = {2, 3}}}, numbers},
                                 {second, {SN_I32, {.rank = 1, .dim = {4}}}, numbers}};
  fuzz_demand(sn_safetensors_write(ctx, fuzz_path(name), items, 2, NULL, 0) == SN_OK);
}

/* Two good shards that have one name in common, and one that is none. */
static void put_shards(sn_ctx *ctx) {
  static bool there;
  if (there)
    return;
  there = true;
  put_shard(ctx, "a.safetensors", "x", "y");
  put_shard(ctx, "b.safetensors", "x", "z");
  fuzz_put("bad.safetensors", "\x08\0\0\0\0\0\0\0{\"x\":[]}", 16);
  fuzz_put("empty.safetensors", "", 0);
}

static void check_tensor(sn_safetensors *st, size_t index) {
  char room[64];
  const sn_safetensors_tensor *t = sn_safetensors_at(st, index);
  fuzz_demand(t->index == index && sn_safetensors_find(st, t->name) == t);
  fuzz_demand(t->size <= sizeof room && t->count >= 0);
  fuzz_demand(sn_safetensors_read_raw(st, index, room, (size_t)t->size) == SN_OK);
  fuzz_demand(sn_safetensors_read(st, index, t->dtype, room, t->count) == SN_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  sn_ctx *ctx;
  sn_safetensors *st;
  fuzz_demand(sn_ctx_create(NULL, &ctx) == SN_OK);
  put_shards(ctx);
  fuzz_put(INDEX, bytes, size);
  sn_status status = sn_safetensors_open_model(ctx, fuzz_folder(), &st);
  fuzz_demand((status == SN_OK) == (st != NULL));
  fuzz_demand(status == SN_OK || (status != SN_ERR_INTERNAL && *sn_ctx_message(ctx)));
  for (size_t i = 0; st && i < sn_safetensors_count(st); i++)
    check_tensor(st, i);
  if (st)
    (void)sn_safetensors_metadata(st, "format");
  sn_safetensors_close(st);
  sn_ctx_destroy(ctx);
  return 0;
}
