/* Reading and checking the header of one safetensors file. See safetensors.h.
 *
 * Nothing in the header is believed: each entry must be consistent in itself (shape, dtype, range),
 * and sorted by offset the ranges must follow each other from 0 to the end of the data.
 */
#include "io/safetensors.h"

#include "io/sort.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are read as they lie in files");

static const safetensors_dtype dtypes[] = {
    {"F32", 4, SN_F32},          {"F16", 2, SN_F16},         {"BF16", 2, SN_BF16},
    {"I32", 4, SN_I32},          {"U8", 1, SN_U8},           {"BOOL", 1, SN_BOOL},
    {"F64", 8, SN_NO_DTYPE},     {"I64", 8, SN_NO_DTYPE},    {"I16", 2, SN_NO_DTYPE},
    {"I8", 1, SN_NO_DTYPE},      {"U64", 8, SN_NO_DTYPE},    {"U32", 4, SN_NO_DTYPE},
    {"U16", 2, SN_NO_DTYPE},     {"C64", 8, SN_NO_DTYPE},    {"F8_E4M3", 1, SN_NO_DTYPE},
    {"F8_E5M2", 1, SN_NO_DTYPE}, {"F8_E8M0", 1, SN_NO_DTYPE}};

const safetensors_dtype *safetensors_dtype_by_name(const char *name) {
  for (size_t i = 0; i < COUNT_OF(dtypes); i++)
    if (strcmp(dtypes[i].name, name) == 0)
      return &dtypes[i];
  return NULL;
}

const safetensors_dtype *safetensors_dtype_of(sn_dtype dtype) {
  for (size_t i = 0; i < COUNT_OF(dtypes) && dtype != SN_NO_DTYPE; i++)
    if (dtypes[i].dtype == dtype)
      return &dtypes[i];
  return NULL;
}

/* --- one entry -------------------------------------------------------------------------------- */

static sn_status wrong_type(sn_ctx *ctx, const char *key, const char *want, const sn_json *got) {
  return diag_fail(ctx, SN_ERR_FORMAT, "%s: expected %s, got %s", key, want,
                   sn_json_type_name(sn_json_type(got)));
}

static sn_status parse_dtype(sn_ctx *ctx, const sn_json *entry, sn_safetensors_tensor *t,
                             size_t *out_size) {
  const sn_json *value = sn_json_get(entry, "dtype");
  t->dtype_name = sn_json_string(value, NULL);
  if (!t->dtype_name)
    return wrong_type(ctx, "dtype", "the name of a dtype", value);
  const safetensors_dtype *known = safetensors_dtype_by_name(t->dtype_name);
  t->dtype = known ? known->dtype : SN_NO_DTYPE;
  *out_size = known ? known->size : 0;
  return SN_OK;
}

/* The product is checked with empty axes left out, so that strides cannot overflow either. */
static sn_status parse_shape(sn_ctx *ctx, const sn_json *entry, sn_safetensors_tensor *t) {
  const sn_json *value = sn_json_get(entry, "shape");
  if (sn_json_type(value) != SN_JSON_ARRAY)
    return wrong_type(ctx, "shape", "an array of sizes", value);
  size_t rank = sn_json_size(value);
  if (rank > SN_MAX_RANK)
    return diag_fail(ctx, SN_ERR_UNSUPPORTED, "shape: rank %zu is above the highest supported, %d",
                     rank, SN_MAX_RANK);
  t->shape.rank = (int)rank;
  int64_t product = 1;
  bool empty = false;
  for (size_t i = 0; i < rank; i++) {
    int64_t *dim = &t->shape.dim[i];
    if (!sn_json_int(sn_json_at(value, i), dim) || *dim < 0)
      return diag_fail(ctx, SN_ERR_FORMAT, "shape[%zu]: expected a size, 0 or larger", i);
    empty |= *dim == 0;
    if (*dim && !mul_fits(product, *dim, &product))
      return diag_fail(ctx, SN_ERR_FORMAT, "shape: the number of elements overflows");
  }
  t->count = empty ? 0 : product;
  return SN_OK;
}

/* The range of bytes, within data_size. */
static sn_status parse_offsets(sn_ctx *ctx, const sn_json *entry, uint64_t data_size,
                               uint64_t *out_begin, uint64_t *out_size) {
  const sn_json *value = sn_json_get(entry, "data_offsets");
  int64_t begin = -1, end = -1;
  if (sn_json_size(value) != 2 || !sn_json_int(sn_json_at(value, 0), &begin) ||
      !sn_json_int(sn_json_at(value, 1), &end) || begin < 0)
    return diag_fail(ctx, SN_ERR_FORMAT, "data_offsets: expected an array of two offsets");
  if (end < begin || (uint64_t)end > data_size)
    return diag_fail(ctx, SN_ERR_FORMAT,
                     "data_offsets: expected a range within %llu bytes, got [%lld, %lld]",
                     (unsigned long long)data_size, (long long)begin, (long long)end);
  *out_begin = (uint64_t)begin;
  *out_size = (uint64_t)(end - begin);
  return SN_OK;
}

/* Of an unknown dtype only the range is checked. */
static sn_status parse_entry(sn_ctx *ctx, const sn_json *entry, uint64_t data_size,
                             safetensors_tensor *t) {
  size_t element = 0;
  int64_t size;
  if (sn_json_type(entry) != SN_JSON_OBJECT)
    return diag_fail(ctx, SN_ERR_FORMAT, "expected an object, got %s",
                     sn_json_type_name(sn_json_type(entry)));
  SN_TRY(parse_dtype(ctx, entry, &t->view, &element));
  SN_TRY(parse_shape(ctx, entry, &t->view));
  SN_TRY(parse_offsets(ctx, entry, data_size, &t->offset, &t->view.size));
  if (!element)
    return SN_OK;
  if (!mul_fits(t->view.count, (int64_t)element, &size))
    return diag_fail(ctx, SN_ERR_FORMAT, "shape: the number of bytes overflows");
  if ((uint64_t)size != t->view.size)
    return diag_fail(ctx, SN_ERR_FORMAT,
                     "data_offsets: %lld elements of %s are %lld bytes, got a range of %llu",
                     (long long)t->view.count, t->view.dtype_name, (long long)size,
                     (unsigned long long)t->view.size);
  return SN_OK;
}

/* --- the whole header ------------------------------------------------------------------------- */

static sn_status check_metadata(sn_ctx *ctx, const sn_json *metadata) {
  if (sn_json_type(metadata) != SN_JSON_OBJECT)
    return wrong_type(ctx, SAFETENSORS_METADATA, "an object of strings", metadata);
  for (size_t i = 0; i < sn_json_size(metadata); i++) {
    const sn_json *value = sn_json_at(metadata, i);
    size_t size;
    if (sn_json_type(value) != SN_JSON_STRING)
      return wrong_type(ctx, SAFETENSORS_METADATA, "only strings", value);
    if (!sn_json_key(value, NULL) || !sn_json_string(value, NULL))
      return diag_fail(ctx, SN_ERR_FORMAT, "%s: \"%.100s\" contains a NUL", SAFETENSORS_METADATA,
                       sn_json_key(value, &size));
  }
  return SN_OK;
}

static sn_status parse_entries(sn_safetensors *st, safetensors_shard *shard, uint64_t data_size) {
  const sn_json *root = sn_json_root(shard->header);
  shard->tensors = arena_array(&st->arena, sn_json_size(root), sizeof *shard->tensors);
  if (!shard->tensors)
    return SN_ERR_NO_MEMORY;
  for (size_t i = 0; i < sn_json_size(root); i++) {
    const sn_json *entry = sn_json_at(root, i);
    if (entry == shard->metadata)
      continue;
    safetensors_tensor *t = &shard->tensors[shard->n];
    t->view.name = sn_json_key(entry, NULL);
    if (!t->view.name)
      return diag_fail(st->ctx, SN_ERR_FORMAT, "tensor %zu: its name contains a NUL", shard->n);
    sn_status status = parse_entry(st->ctx, entry, data_size, t);
    if (status != SN_OK)
      return diag_within(st->ctx, status, "tensor \"%.200s\"", t->view.name);
    t->view.index = shard->n++;
    t->file = shard->file;
  }
  return SN_OK;
}

static bool lies_before(const void *user, uint32_t a, uint32_t b) {
  const safetensors_tensor *x = (const safetensors_tensor *)user + a;
  const safetensors_tensor *y = (const safetensors_tensor *)user + b;
  return x->offset != y->offset ? x->offset < y->offset : x->view.size < y->view.size;
}

static sn_status check_order(sn_ctx *ctx, const safetensors_shard *shard, const uint32_t *order,
                             uint64_t data_size) {
  uint64_t end = 0;
  for (size_t i = 0; i < shard->n; i++) {
    const safetensors_tensor *t = &shard->tensors[order[i]];
    if (t->offset != end)
      return diag_fail(ctx, SN_ERR_FORMAT, "tensor \"%.200s\": %s: begins at %llu, expected %llu",
                       t->view.name, t->offset < end ? "overlaps another" : "has a hole before it",
                       (unsigned long long)t->offset, (unsigned long long)end);
    end += t->view.size;
  }
  if (end != data_size)
    return diag_fail(ctx, SN_ERR_FORMAT, "tensors end at %llu, but there are %llu bytes of data",
                     (unsigned long long)end, (unsigned long long)data_size);
  return SN_OK;
}

static sn_status check_cover(sn_ctx *ctx, const safetensors_shard *shard, uint64_t data_size) {
  size_t n = shard->n;
  uint32_t *order = mem_array(ctx, 2 * n, sizeof *order);
  if (!order)
    return SN_ERR_NO_MEMORY;
  sort_indices(order, order + n, n, lies_before, shard->tensors);
  sn_status status = check_order(ctx, shard, order, data_size);
  mem_free(ctx, order, 2 * n * sizeof *order);
  return status;
}

/* The JSON behind the length; *out_data is where the data begin. */
static sn_status parse_header(sn_ctx *ctx, safetensors_shard *shard, uint64_t *out_data) {
  uint64_t length, size = file_size(shard->file);
  if (size < sizeof length)
    return diag_fail(ctx, SN_ERR_FORMAT, "not a safetensors file: %llu bytes are too short",
                     (unsigned long long)size);
  SN_TRY(file_read_at(shard->file, 0, &length, sizeof length));
  if (length > SAFETENSORS_MAX_HEADER || length > size - sizeof length)
    return diag_fail(ctx, SN_ERR_FORMAT,
                     "header length: expected at most %d and within the file of %llu bytes, "
                     "got %llu",
                     SAFETENSORS_MAX_HEADER, (unsigned long long)size, (unsigned long long)length);
  char *bytes = mem_alloc(ctx, (size_t)length);
  if (!bytes)
    return SN_ERR_NO_MEMORY;
  sn_status status = file_read_at(shard->file, sizeof length, bytes, (size_t)length);
  if (status == SN_OK && (length == 0 || bytes[0] != '{'))
    status = diag_fail(ctx, SN_ERR_FORMAT, "header: expected '{' as its first byte");
  if (status == SN_OK)
    status = sn_json_parse(ctx, bytes, (size_t)length, &shard->header);
  mem_free(ctx, bytes, (size_t)length);
  *out_data = sizeof length + length;
  return status;
}

static sn_status load_header(sn_safetensors *st, safetensors_shard *shard) {
  uint64_t data = 0;
  SN_TRY(parse_header(st->ctx, shard, &data));
  uint64_t data_size = file_size(shard->file) - data;
  shard->metadata = sn_json_get(sn_json_root(shard->header), SAFETENSORS_METADATA);
  if (shard->metadata)
    SN_TRY(check_metadata(st->ctx, shard->metadata));
  SN_TRY(parse_entries(st, shard, data_size));
  SN_TRY(check_cover(st->ctx, shard, data_size));
  for (size_t i = 0; i < shard->n; i++)
    shard->tensors[i].offset += data;
  return SN_OK;
}

sn_status safetensors_load_header(sn_safetensors *st, safetensors_shard *shard) {
  sn_status status = load_header(st, shard);
  return status == SN_OK ? SN_OK : diag_within(st->ctx, status, "%s", file_path(shard->file));
}

safetensors_tensor *safetensors_shard_find(const safetensors_shard *shard, const char *name,
                                           size_t size) {
  const sn_json *root = sn_json_root(shard->header), *entry = json_get(root, name, size);
  if (!entry || entry == shard->metadata)
    return NULL;
  size_t position = json_position(root, entry);
  if (shard->metadata && json_position(root, shard->metadata) < position)
    position--;
  return &shard->tensors[position];
}
