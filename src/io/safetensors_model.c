/* Models in folders: one file, or shards listed by model.safetensors.index.json. The index is the
 * authority: the model has the tensors of its weight_map, each from the shard named there. See
 * sinew/safetensors.h.
 */
#include "base/null.h"

#include "io/safetensors.h"

#include "io/sort.h"

#define MODEL_FILE "model.safetensors"
#define INDEX_FILE "model.safetensors.index.json"

/* A shard is a plain name in the folder; nothing in an index may lead out of it. */
static sn_status check_shard_name(sn_ctx *ctx, const sn_json *entry) {
  const char *name = sn_json_string(entry, NULL);
  size_t size;
  if (!sn_json_key(entry, NULL))
    return diag_fail(ctx, SN_ERR_FORMAT, "weight_map: a name contains a NUL");
  if (!name || !name[0] || strpbrk(name, "/\\") || !strcmp(name, ".") || !strcmp(name, ".."))
    return diag_fail(ctx, SN_ERR_FORMAT,
                     "weight_map: \"%.200s\": expected the name of a file in the same folder, "
                     "got %s%.200s",
                     sn_json_key(entry, &size), name ? "the path " : "no plain text",
                     name ? name : "");
  return SN_OK;
}

static sn_status check_map(sn_ctx *ctx, const sn_json *map) {
  if (sn_json_type(map) != SN_JSON_OBJECT)
    return diag_fail(ctx, SN_ERR_FORMAT, "weight_map: expected an object, got %s",
                     sn_json_type_name(sn_json_type(map)));
  for (size_t i = 0; i < sn_json_size(map); i++)
    SN_TRY(check_shard_name(ctx, sn_json_at(map, i)));
  return SN_OK;
}

static const char *shard_name(const sn_json *map, size_t i) {
  return sn_json_string(sn_json_at(map, i), NULL);
}

static bool shard_less(const void *user, uint32_t a, uint32_t b) {
  return strcmp(shard_name(user, a), shard_name(user, b)) < 0;
}

static bool begins_shard(const sn_json *map, const uint32_t *order, size_t i) {
  return i == 0 || strcmp(shard_name(map, order[i - 1]), shard_name(map, order[i])) != 0;
}

static sn_status open_shard(sn_safetensors *st, safetensors_shard *shard, const char *folder,
                            const char *name) {
  char *path = arena_printf(&st->arena, "%s/%s", folder, name);
  if (!path)
    return SN_ERR_NO_MEMORY;
  SN_TRY(file_open(st->ctx, path, &shard->file));
  return safetensors_load_header(st, shard);
}

static sn_status take_tensor(sn_safetensors *st, const safetensors_shard *shard,
                             const sn_json *entry, size_t index) {
  size_t size;
  const char *name = sn_json_key(entry, &size);
  const safetensors_tensor *t = safetensors_shard_find(shard, name, size);
  if (!t)
    return diag_fail(st->ctx, SN_ERR_FORMAT, "weight_map: \"%.200s\": not found in %s", name,
                     file_path(shard->file));
  st->tensors[index] = *t;
  st->tensors[index].view.index = index;
  return SN_OK;
}

/* `order` sorts the entries of the map by shard. */
static sn_status load_shards(sn_safetensors *st, const char *folder, const sn_json *map,
                             const uint32_t *order) {
  st->n = sn_json_size(map);
  st->tensors = arena_array(&st->arena, st->n, sizeof *st->tensors);
  if (!st->tensors)
    return SN_ERR_NO_MEMORY;
  safetensors_shard *shard = st->shards;
  for (size_t i = 0; i < st->n; i++) {
    if (begins_shard(map, order, i)) {
      shard += i > 0;
      SN_TRY(open_shard(st, shard, folder, shard_name(map, order[i])));
    }
    SN_TRY(take_tensor(st, shard, sn_json_at(map, order[i]), order[i]));
  }
  return SN_OK;
}

/* Takes over `index` where it succeeds. */
static sn_status load_model(sn_ctx *ctx, const char *folder, sn_json_doc *index, uint32_t *order,
                            sn_safetensors **out_model) {
  const sn_json *map = sn_json_get(sn_json_root(index), "weight_map");
  size_t n = sn_json_size(map), n_shards = 0;
  sort_indices(order, order + n, n, shard_less, map);
  for (size_t i = 0; i < n; i++)
    n_shards += begins_shard(map, order, i);
  sn_safetensors *st;
  SN_TRY(safetensors_create(ctx, n_shards, &st));
  sn_status status = load_shards(st, folder, map, order);
  if (status != SN_OK) {
    sn_safetensors_close(st);
    return status;
  }
  st->index = index;
  *out_model = st;
  return SN_OK;
}

static sn_status open_indexed(sn_ctx *ctx, const char *folder, sn_json_doc *index,
                              sn_safetensors **out_model) {
  const sn_json *map = sn_json_get(sn_json_root(index), "weight_map");
  SN_TRY(check_map(ctx, map));
  size_t n = sn_json_size(map);
  uint32_t *order = mem_array(ctx, 2 * n, sizeof *order);
  if (!order)
    return SN_ERR_NO_MEMORY;
  sn_status status = load_model(ctx, folder, index, order, out_model);
  mem_free(ctx, order, 2 * n * sizeof *order);
  return status;
}

static sn_status open_index(sn_ctx *ctx, const char *folder, const char *path,
                            sn_safetensors **out_model) {
  sn_json_doc *index;
  SN_TRY(sn_json_parse_file(ctx, path, &index));
  sn_status status = open_indexed(ctx, folder, index, out_model);
  if (status == SN_OK)
    return SN_OK;
  sn_json_destroy(index);
  return diag_within(ctx, status == SN_ERR_NOT_FOUND ? SN_ERR_FORMAT : status, "%s", path);
}

static sn_status open_either(sn_ctx *ctx, arena *a, const char *folder,
                             sn_safetensors **out_model) {
  char *single = arena_printf(a, "%s/%s", folder, MODEL_FILE);
  char *index = single ? arena_printf(a, "%s/%s", folder, INDEX_FILE) : NULL;
  if (!index)
    return SN_ERR_NO_MEMORY;
  sn_status status = sn_safetensors_open(ctx, single, out_model);
  if (status != SN_ERR_NOT_FOUND)
    return status;
  status = open_index(ctx, folder, index, out_model);
  if (status != SN_ERR_NOT_FOUND)
    return status;
  return diag_fail(ctx, SN_ERR_NOT_FOUND, "%s: expected %s or %s in it, found neither", folder,
                   MODEL_FILE, INDEX_FILE);
}

sn_status sn_safetensors_open_model(sn_ctx *ctx, const char *folder, sn_safetensors **out_model) {
  CLEARS(out_model);
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, folder);
  NEEDS_ARGUMENT(ctx, out_model);
  arena a;
  arena_init(&a, ctx);
  sn_status status = open_either(ctx, &a, folder, out_model);
  arena_clear(&a);
  return status;
}
