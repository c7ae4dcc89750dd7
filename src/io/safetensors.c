/* Open safetensors files and models: life, lookup, reading of tensors. See sinew/safetensors.h. */
#include "base/null.h"

#include "io/safetensors.h"

#include "base/half.h"

sn_status safetensors_create(sn_ctx *ctx, size_t n_shards, sn_safetensors **out) {
  *out = NULL;
  sn_safetensors *st = mem_alloc(ctx, sizeof *st);
  if (!st)
    return SN_ERR_NO_MEMORY;
  st->ctx = ctx;
  arena_init(&st->arena, ctx);
  st->shards = arena_array(&st->arena, n_shards, sizeof *st->shards);
  if (!st->shards) {
    sn_safetensors_close(st);
    return SN_ERR_NO_MEMORY;
  }
  st->n_shards = n_shards;
  *out = st;
  return SN_OK;
}

void sn_safetensors_close(sn_safetensors *st) {
  if (!st)
    return;
  for (size_t i = 0; i < st->n_shards; i++) {
    sn_json_destroy(st->shards[i].header);
    file_close(st->shards[i].file);
  }
  sn_json_destroy(st->index);
  arena_clear(&st->arena);
  mem_free(st->ctx, st, sizeof *st);
}

/* Takes over `file`. */
static sn_status open_single(sn_ctx *ctx, file_reader *file, sn_safetensors **out_file) {
  sn_safetensors *st;
  sn_status status = safetensors_create(ctx, 1, &st);
  if (status != SN_OK) {
    file_close(file);
    return status;
  }
  safetensors_shard *shard = &st->shards[0];
  shard->file = file;
  status = safetensors_load_header(st, shard);
  if (status != SN_OK) {
    sn_safetensors_close(st);
    return status;
  }
  st->tensors = shard->tensors;
  st->n = shard->n;
  *out_file = st;
  return SN_OK;
}

sn_status sn_safetensors_open(sn_ctx *ctx, const char *path, sn_safetensors **out_file) {
  CLEARS(out_file);
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, path);
  NEEDS_ARGUMENT(ctx, out_file);
  file_reader *file;
  SN_TRY(file_open(ctx, path, &file));
  return open_single(ctx, file, out_file);
}

sn_status safetensors_open_bytes(sn_ctx *ctx, const void *bytes, size_t size,
                                 sn_safetensors **out_file) {
  file_reader *file;
  *out_file = NULL;
  SN_TRY(file_open_bytes(ctx, "(memory)", bytes, size, &file));
  return open_single(ctx, file, out_file);
}

/* --- lookup ----------------------------------------------------------------------------------- */

size_t sn_safetensors_count(const sn_safetensors *st) {
  NEEDS_OR(st, 0);
  return st->n;
}

const sn_safetensors_tensor *sn_safetensors_at(const sn_safetensors *st, size_t index) {
  NEEDS_OR(st, NULL);
  return index < st->n ? &st->tensors[index].view : NULL;
}

const sn_safetensors_tensor *sn_safetensors_find(const sn_safetensors *st, const char *name) {
  NEEDS_OR(st, NULL);
  NEEDS_OR(name, NULL);
  size_t size = strlen(name);
  if (!st->index) {
    const safetensors_tensor *t = safetensors_shard_find(&st->shards[0], name, size);
    return t ? &t->view : NULL;
  }
  const sn_json *map = sn_json_get(sn_json_root(st->index), "weight_map");
  const sn_json *entry = json_get(map, name, size);
  return entry ? &st->tensors[json_position(map, entry)].view : NULL;
}

const char *sn_safetensors_metadata(const sn_safetensors *st, const char *key) {
  NEEDS_OR(st, NULL);
  NEEDS_OR(key, NULL);
  const char *found = NULL;
  for (size_t i = 0; i < st->n_shards && !found; i++)
    found = sn_json_string(sn_json_get(st->shards[i].metadata, key), NULL);
  return found;
}

/* --- reading ---------------------------------------------------------------------------------- */

static sn_status tensor_at(sn_safetensors *st, size_t index, const safetensors_tensor **out) {
  *out = NULL;
  if (index >= st->n)
    return diag_fail(st->ctx, SN_ERR_INVALID, "safetensors: no tensor %zu: there are %zu", index,
                     st->n);
  *out = &st->tensors[index];
  return SN_OK;
}

sn_status sn_safetensors_read_raw(sn_safetensors *st, size_t index, void *buffer, size_t size) {
  NEEDS(st);
  NEEDS_ARGUMENT_IF(st->ctx, size > 0, buffer);
  const safetensors_tensor *t = NULL;
  SN_TRY(tensor_at(st, index, &t));
  if (size != t->view.size)
    return diag_fail(st->ctx, SN_ERR_INVALID,
                     "%s: tensor \"%.200s\": expected a buffer of %llu bytes, got %zu",
                     file_path(t->file), t->view.name, (unsigned long long)t->view.size, size);
  return file_read_at(t->file, t->offset, buffer, size);
}

/* Convert n elements to f32. */
typedef void (*widen)(const void *from, float *to, size_t n);

static void widen_f16(const void *from, float *to, size_t n) {
  const uint16_t *x = from;
  for (size_t i = 0; i < n; i++)
    to[i] = half_to_f32(x[i]);
}

static void widen_bf16(const void *from, float *to, size_t n) {
  const uint16_t *x = from;
  for (size_t i = 0; i < n; i++)
    to[i] = bf16_to_f32(x[i]);
}

static void widen_f64(const void *from, float *to, size_t n) {
  const double *x = from;
  for (size_t i = 0; i < n; i++)
    to[i] = (float)x[i];
}

/* In pieces that stay in the cache. */
static sn_status read_widened(const safetensors_tensor *t, widen convert, size_t element,
                              float *to) {
  double piece[1024];
  size_t step = sizeof piece / element, n = (size_t)t->view.count;
  for (size_t i = 0; i < n; i += step) {
    size_t now = n - i < step ? n - i : step;
    SN_TRY(file_read_at(t->file, t->offset + i * element, piece, now * element));
    convert(piece, to + i, now);
  }
  return SN_OK;
}

static sn_status bad_bool(sn_ctx *ctx, const safetensors_tensor *t, int64_t at, int got) {
  return diag_fail(ctx, SN_ERR_FORMAT,
                   "%s: tensor \"%.200s\": element %lld: expected 0 or 1, got %d",
                   file_path(t->file), t->view.name, (long long)at, got);
}

/* Elsewhere bools are taken to be 0 or 1; files may hold anything. */
static sn_status check_bools(sn_ctx *ctx, const safetensors_tensor *t, const unsigned char *x,
                             int64_t first, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (x[i] > 1)
      return bad_bool(ctx, t, first + i, x[i]);
  return SN_OK;
}

static sn_status check_bools_of_file(sn_ctx *ctx, const safetensors_tensor *t) {
  unsigned char piece[8192];
  int64_t step = sizeof piece, n = t->view.count;
  for (int64_t i = 0; i < n; i += step) {
    int64_t now = min_i64(n - i, step);
    SN_TRY(file_read_at(t->file, t->offset + (uint64_t)i, piece, (size_t)now));
    SN_TRY(check_bools(ctx, t, piece, i, now));
  }
  return SN_OK;
}

static sn_status read_same(sn_safetensors *st, const safetensors_tensor *t, void *buffer) {
  SN_TRY(file_read_at(t->file, t->offset, buffer, (size_t)t->view.size));
  return t->view.dtype == SN_BOOL ? check_bools(st->ctx, t, buffer, 0, t->view.count) : SN_OK;
}

/* How a tensor becomes f32; NULL: not at all. */
static widen widening(const safetensors_tensor *t, size_t *element) {
  *element = t->view.dtype == SN_NO_DTYPE ? 8 : 2;
  return t->view.dtype == SN_F16                  ? widen_f16
         : t->view.dtype == SN_BF16               ? widen_bf16
         : strcmp(t->view.dtype_name, "F64") == 0 ? widen_f64
                                                  : NULL;
}

static sn_status check_convertible(sn_safetensors *st, const safetensors_tensor *t,
                                   sn_dtype dtype) {
  size_t element;
  if (dtype != SN_NO_DTYPE &&
      (dtype == t->view.dtype || (dtype == SN_F32 && widening(t, &element))))
    return SN_OK;
  return diag_fail(st->ctx, SN_ERR_UNSUPPORTED,
                   "%s: tensor \"%.200s\": cannot read dtype %.40s as %s", file_path(t->file),
                   t->view.name, t->view.dtype_name, sn_dtype_name(dtype));
}

sn_status sn_safetensors_check(sn_safetensors *st, size_t index, sn_dtype dtype) {
  NEEDS(st);
  const safetensors_tensor *t = NULL;
  SN_TRY(tensor_at(st, index, &t));
  SN_TRY(check_convertible(st, t, dtype));
  return dtype == SN_BOOL ? check_bools_of_file(st->ctx, t) : SN_OK;
}

sn_status sn_safetensors_read(sn_safetensors *st, size_t index, sn_dtype dtype, void *buffer,
                              int64_t count) {
  NEEDS(st);
  NEEDS_ARGUMENT_IF(st->ctx, count > 0, buffer);
  const safetensors_tensor *t = NULL;
  size_t element;
  SN_TRY(tensor_at(st, index, &t));
  if (count != t->view.count)
    return diag_fail(st->ctx, SN_ERR_INVALID,
                     "%s: tensor \"%.200s\": expected a buffer of %lld elements, got %lld",
                     file_path(t->file), t->view.name, (long long)t->view.count, (long long)count);
  SN_TRY(check_convertible(st, t, dtype));
  if (dtype == t->view.dtype)
    return read_same(st, t, buffer);
  widen convert = widening(t, &element);
  return read_widened(t, convert, element, buffer);
}
