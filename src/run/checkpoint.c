/* The store and files: checkpoints and weights. Loading is all or nothing: every tensor is read into
 * memory of its own first, and only then does the store change. */
#include "run/store.h"

static sn_status missing(sn_store *s, const char *name) {
  return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "store: no entry \"%s\"", name);
}

/* names NULL: every entry. Wide dtypes come first, so that every tensor is aligned in the file. */
static sn_status collect(sn_store *s, const char *const *names, size_t n,
                         sn_safetensors_item *items) {
  size_t used = 0;
  for (size_t width = 4; width; width /= 2)
    for (size_t i = 0; i < n; i++) {
      store_entry *e = names ? store_find(s, names[i]) : s->entries[i];
      if (!e)
        return missing(s, names[i]);
      if (sn_dtype_size(e->type.dtype) != width)
        continue;
      SN_TRY(store_pull(e, s->ctx));
      items[used++] = (sn_safetensors_item){e->name, e->type, e->data};
    }
  return SN_OK;
}

static sn_status save(sn_store *s, const char *const *names, size_t n, const char *path,
                      const sn_safetensors_pair *metadata, size_t n_metadata) {
  sn_safetensors_item *items = mem_array(s->ctx, n, sizeof *items);
  sn_status status = items ? collect(s, names, n, items) : SN_ERR_NO_MEMORY;
  if (status == SN_OK)
    status = sn_safetensors_write(s->ctx, path, items, n, metadata, n_metadata);
  mem_free(s->ctx, items, n * sizeof *items);
  return status;
}

sn_status sn_store_save(sn_store *s, const char *path, const sn_safetensors_pair *metadata,
                        size_t n_metadata) {
  store_lock(s);
  sn_status status = save(s, NULL, (size_t)s->n, path, metadata, n_metadata);
  store_unlock(s);
  return status;
}

sn_status sn_store_save_weights(sn_store *s, const char *const *names, size_t n_names,
                                const char *path) {
  static const char *const no_names[1];
  static const sn_safetensors_pair format = {"format", "pt"};
  store_lock(s);
  sn_status status = save(s, names ? names : no_names, n_names, path, &format, 1);
  store_unlock(s);
  return status;
}

/* A value read from a file that waits to become an entry's. */
typedef struct incoming {
  const char *name;
  sn_type type;
  size_t size;
  void *data;
} incoming;

static void free_incoming(sn_ctx *ctx, incoming *list, size_t n) {
  for (size_t i = 0; list && i < n; i++)
    mem_free(ctx, list[i].data, list[i].size);
  mem_free(ctx, list, n * sizeof *list);
}

static sn_status misfit(sn_ctx *ctx, const sn_safetensors_tensor *t, sn_type want) {
  char expected[STORE_TYPE_TEXT], shape[STORE_TYPE_TEXT];
  store_type_text((sn_type){want.dtype, t->shape}, shape);
  return diag_fail(ctx, SN_ERR_INVALID, "tensor \"%s\": expected %s, the file has %s%s", t->name,
                   store_type_text(want, expected), t->dtype_name, strchr(shape, '['));
}

static sn_status read_one(sn_ctx *ctx, sn_safetensors *file, const char *name, sn_type type,
                          incoming *in) {
  const sn_safetensors_tensor *t = sn_safetensors_find(file, name);
  if (!t)
    return diag_fail(ctx, SN_ERR_NOT_FOUND, "tensor \"%s\" is missing in the file", name);
  if (!shape_equal(t->shape, type.shape))
    return misfit(ctx, t, type);
  *in = (incoming){name, type, (size_t)t->count * sn_dtype_size(type.dtype), NULL};
  in->data = mem_alloc(ctx, in->size);
  if (!in->data)
    return SN_ERR_NO_MEMORY;
  return sn_safetensors_read(file, t->index, type.dtype, in->data, t->count);
}

/* Gives every incoming value to its entry, which is there and has its type: cannot fail. */
static void accept(sn_store *s, incoming *list, size_t n) {
  for (size_t i = 0; i < n; i++) {
    store_entry *e = store_find(s, list[i].name);
    void *old = e->data;
    e->data = list[i].data;
    list[i].data = old;
    store_changed(e, NULL);
  }
}

/* Every tensor of the file, with the type that its entry has or will have. */
static sn_status read_all(sn_store *s, sn_safetensors *file, incoming *list) {
  for (size_t i = 0; i < sn_safetensors_count(file); i++) {
    const sn_safetensors_tensor *t = sn_safetensors_at(file, i);
    const store_entry *e = store_find(s, t->name);
    if (t->dtype == SN_NO_DTYPE)
      return diag_fail(s->ctx, SN_ERR_UNSUPPORTED, "tensor \"%s\" has dtype %s", t->name,
                       t->dtype_name);
    if (e && e->type.dtype != t->dtype)
      return misfit(s->ctx, t, e->type);
    sn_type type = e ? e->type : (sn_type){t->dtype, t->shape};
    SN_TRY(read_one(s->ctx, file, t->name, type, &list[i]));
  }
  return SN_OK;
}

static sn_status load(sn_store *s, sn_safetensors *file) {
  size_t n = sn_safetensors_count(file);
  int before = s->n;
  for (int i = 0; i < s->n; i++)
    if (!sn_safetensors_find(file, s->entries[i]->name))
      return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "entry \"%s\" of the store is missing in the file",
                       s->entries[i]->name);
  incoming *list = mem_array(s->ctx, n, sizeof *list);
  sn_status status = list ? read_all(s, file, list) : SN_ERR_NO_MEMORY;
  for (size_t i = 0; i < n && status == SN_OK; i++)
    if (!store_find(s, list[i].name))
      status = store_add(s, list[i].name, list[i].type);
  if (status == SN_OK)
    accept(s, list, n);
  else
    store_truncate(s, before);
  free_incoming(s->ctx, list, n);
  return status;
}

sn_status sn_store_load(sn_store *s, const char *path) {
  sn_safetensors *file;
  SN_TRY(sn_safetensors_open(s->ctx, path, &file));
  store_lock(s);
  sn_status status = load(s, file);
  store_unlock(s);
  sn_safetensors_close(file);
  return status == SN_OK ? SN_OK : diag_within(s->ctx, status, "%s", path);
}

static sn_status read_named(sn_store *s, const char *const *names, size_t n, sn_safetensors *file,
                            incoming *list) {
  for (size_t i = 0; i < n; i++) {
    const store_entry *e = store_find(s, names[i]);
    if (!e)
      return missing(s, names[i]);
    SN_TRY(read_one(s->ctx, file, e->name, e->type, &list[i]));
  }
  return SN_OK;
}

sn_status sn_store_load_weights(sn_store *s, const char *const *names, size_t n_names,
                                sn_safetensors *file) {
  incoming *list = mem_array(s->ctx, n_names, sizeof *list);
  if (!list)
    return SN_ERR_NO_MEMORY;
  store_lock(s);
  sn_status status = read_named(s, names, n_names, file, list);
  if (status == SN_OK)
    accept(s, list, n_names);
  store_unlock(s);
  free_incoming(s->ctx, list, n_names);
  return status;
}
