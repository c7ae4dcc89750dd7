/* Writing safetensors files. See sinew/safetensors.h. */
#include "base/null.h"

#include "io/safetensors.h"

#include "base/text.h"
#include "io/sort.h"

/* Header and data lie at multiples of this. */
enum { HEADER_ALIGN = 8 };

static bool is_empty(const sn_shape *shape) {
  for (int i = 0; i < shape->rank; i++)
    if (shape->dim[i] == 0)
      return true;
  return false;
}

/* Bytes of an item, checked as the reader does. */
static sn_status item_size(sn_ctx *ctx, const sn_safetensors_item *item, int64_t *out_size) {
  const sn_shape *shape = &item->type.shape;
  int64_t size = (int64_t)sn_dtype_size(item->type.dtype);
  if (!safetensors_dtype_of(item->type.dtype))
    return diag_fail(ctx, SN_ERR_INVALID, "cannot write dtype %s", sn_dtype_name(item->type.dtype));
  if (shape->rank < 0 || shape->rank > SN_MAX_RANK)
    return diag_fail(ctx, SN_ERR_INVALID, "rank: expected 0 to %d, got %d", SN_MAX_RANK,
                     shape->rank);
  for (int i = 0; i < shape->rank; i++) {
    if (shape->dim[i] < 0)
      return diag_fail(ctx, SN_ERR_INVALID, "dim %d: expected a plain size", i);
    if (shape->dim[i] && !mul_fits(size, shape->dim[i], &size))
      return diag_fail(ctx, SN_ERR_INVALID, "the number of bytes overflows");
  }
  *out_size = is_empty(shape) ? 0 : size;
  if (*out_size && !item->data)
    return diag_fail(ctx, SN_ERR_INVALID, "no data");
  return SN_OK;
}

static sn_status check_text(sn_ctx *ctx, const char *what, const char *string) {
  if (!string || !json_utf8_valid(string, strlen(string)))
    return diag_fail(ctx, SN_ERR_INVALID, "%s: expected UTF-8 text", what);
  return SN_OK;
}

/* --- unique names ----------------------------------------------------------------------------- */

static bool name_less(const void *user, uint32_t a, uint32_t b) {
  const char *const *names = user;
  return strcmp(names[a], names[b]) < 0;
}

/* names has n elements, order 2 * n. */
static sn_status check_unique(sn_ctx *ctx, const char **names, uint32_t *order, size_t n) {
  sort_indices(order, order + n, n, name_less, names);
  for (size_t i = 1; i < n; i++)
    if (strcmp(names[order[i - 1]], names[order[i]]) == 0)
      return diag_fail(ctx, SN_ERR_INVALID, "the name \"%.200s\" occurs twice", names[order[i]]);
  return SN_OK;
}

static sn_status check_items(sn_ctx *ctx, arena *a, const sn_safetensors_item *items, size_t n) {
  const char **names = arena_array(a, n, sizeof *names);
  uint32_t *order = arena_array(a, 2 * n, sizeof *order);
  if (!names || !order)
    return SN_ERR_NO_MEMORY;
  for (size_t i = 0; i < n; i++) {
    SN_TRY(check_text(ctx, "name of a tensor", items[i].name));
    if (strcmp(items[i].name, SAFETENSORS_METADATA) == 0)
      return diag_fail(ctx, SN_ERR_INVALID, "a tensor cannot have the name %s",
                       SAFETENSORS_METADATA);
    names[i] = items[i].name;
  }
  return check_unique(ctx, names, order, n);
}

static sn_status check_pairs(sn_ctx *ctx, arena *a, const sn_safetensors_pair *pairs, size_t n) {
  const char **names = arena_array(a, n, sizeof *names);
  uint32_t *order = arena_array(a, 2 * n, sizeof *order);
  if (!names || !order)
    return SN_ERR_NO_MEMORY;
  for (size_t i = 0; i < n; i++) {
    SN_TRY(check_text(ctx, "key of the metadata", pairs[i].key));
    SN_TRY(check_text(ctx, "value of the metadata", pairs[i].value));
    names[i] = pairs[i].key;
  }
  return check_unique(ctx, names, order, n);
}

static sn_status check_all(sn_ctx *ctx, const sn_safetensors_item *items, size_t n_items,
                           const sn_safetensors_pair *pairs, size_t n_pairs) {
  if (n_items > UINT32_MAX / 2 || n_pairs > UINT32_MAX / 2)
    return diag_fail(ctx, SN_ERR_INVALID, "too many tensors or metadata");
  arena a;
  arena_init(&a, ctx);
  sn_status status = check_items(ctx, &a, items, n_items);
  if (status == SN_OK)
    status = check_pairs(ctx, &a, pairs, n_pairs);
  arena_clear(&a);
  return status;
}

/* --- the header ------------------------------------------------------------------------------- */

static void put_string(text *t, const char *string) {
  json_write_string(t, string, strlen(string));
}

static void put_metadata(text *t, const sn_safetensors_pair *pairs, size_t n) {
  put_string(t, SAFETENSORS_METADATA);
  text_puts(t, ":{");
  for (size_t i = 0; i < n; i++) {
    text_puts(t, i ? "," : "");
    put_string(t, pairs[i].key);
    text_puts(t, ":");
    put_string(t, pairs[i].value);
  }
  text_puts(t, "}");
}

static void put_item(text *t, const sn_safetensors_item *item, int64_t begin, int64_t end) {
  const sn_shape *shape = &item->type.shape;
  put_string(t, item->name);
  text_printf(t, ":{\"dtype\":\"%s\",\"shape\":[", safetensors_dtype_of(item->type.dtype)->name);
  for (int i = 0; i < shape->rank; i++)
    text_printf(t, "%s%lld", i ? "," : "", (long long)shape->dim[i]);
  text_printf(t, "],\"data_offsets\":[%lld,%lld]}", (long long)begin, (long long)end);
}

static sn_status build_header(sn_ctx *ctx, text *t, const sn_safetensors_item *items,
                              size_t n_items, const sn_safetensors_pair *pairs, size_t n_pairs) {
  int64_t begin = 0, end = 0, size;
  text_puts(t, "{");
  if (n_pairs)
    put_metadata(t, pairs, n_pairs);
  for (size_t i = 0; i < n_items; i++, begin = end) {
    sn_status status = item_size(ctx, &items[i], &size);
    if (status == SN_OK && !add_fits(begin, size, &end))
      status = diag_fail(ctx, SN_ERR_INVALID, "the number of bytes overflows");
    if (status != SN_OK)
      return diag_within(ctx, status, "tensor \"%.200s\"", items[i].name);
    text_puts(t, i || n_pairs ? "," : "");
    put_item(t, &items[i], begin, end);
  }
  text_puts(t, "}");
  while (t->size % HEADER_ALIGN && !t->failed)
    text_puts(t, " ");
  SN_TRY(text_done(t));
  if (t->size > SAFETENSORS_MAX_HEADER)
    return diag_fail(ctx, SN_ERR_INVALID, "header: expected at most %d bytes, got %zu",
                     SAFETENSORS_MAX_HEADER, t->size);
  return SN_OK;
}

/* --- the file --------------------------------------------------------------------------------- */

static sn_status write_parts(sn_ctx *ctx, file_writer *w, const text *header,
                             const sn_safetensors_item *items, size_t n) {
  uint64_t length = header->size;
  int64_t size;
  SN_TRY(file_writer_write(w, &length, sizeof length));
  SN_TRY(file_writer_write(w, header->data, header->size));
  for (size_t i = 0; i < n; i++) {
    SN_TRY(item_size(ctx, &items[i], &size));
    SN_TRY(file_writer_write(w, items[i].data, (size_t)size));
  }
  return SN_OK;
}

static sn_status write_file(sn_ctx *ctx, const char *path, const text *header,
                            const sn_safetensors_item *items, size_t n) {
  file_writer *w;
  SN_TRY(file_writer_create(ctx, path, &w));
  return file_writer_end(w, write_parts(ctx, w, header, items, n));
}

sn_status sn_safetensors_write(sn_ctx *ctx, const char *path, const sn_safetensors_item *items,
                               size_t n_items, const sn_safetensors_pair *metadata,
                               size_t n_metadata) {
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, path);
  NEEDS_ARGUMENT_IF(ctx, n_items > 0, items);
  NEEDS_ARGUMENT_IF(ctx, n_metadata > 0, metadata);
  text header;
  text_init(&header, ctx);
  sn_status status = check_all(ctx, items, n_items, metadata, n_metadata);
  if (status == SN_OK)
    status = build_header(ctx, &header, items, n_items, metadata, n_metadata);
  if (status != SN_OK)
    status = diag_within(ctx, status, "%s: cannot write", path);
  else
    status = write_file(ctx, path, &header, items, n_items);
  text_free(&header);
  return status;
}
