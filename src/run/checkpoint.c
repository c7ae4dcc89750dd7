/* The store and files: checkpoints and weights. Loading checks all that can be checked, then reads into the entries
 * themselves; see sinew/store.h for what an error leaves. */
#include "base/null.h"

#include "run/store.h"

#include "base/memory.h"
#include "ir/dtype.h"

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
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, path);
  NEEDS_ARGUMENT_IF(s->ctx, n_metadata > 0, metadata);
  store_lock(s);
  sn_status status = save(s, NULL, (size_t)s->n, path, metadata, n_metadata);
  store_unlock(s);
  return status;
}

sn_status sn_store_save_weights(sn_store *s, const char *const *names, size_t n_names,
                                const char *path) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, path);
  NEEDS_ARGUMENT_IF(s->ctx, n_names > 0, names);
  static const char *const no_names[1];
  static const sn_safetensors_pair format = {"format", "pt"};
  store_lock(s);
  sn_status status = save(s, names ? names : no_names, n_names, path, &format, 1);
  store_unlock(s);
  return status;
}

/* --- loading --- */

/* A tensor on its way to an entry. */
typedef struct incoming {
  const char *name;
  sn_type type;
  const sn_safetensors_tensor *from;
  bool fresh; /* the store lacked the entry */
} incoming;

typedef struct loading {
  sn_store *s;
  sn_safetensors *file;
  incoming *list;
  size_t n;
} loading;

static sn_status misfit(sn_ctx *ctx, const sn_safetensors_tensor *t, sn_type want) {
  char expected[STORE_TYPE_TEXT], shape[STORE_TYPE_TEXT];
  store_type_text((sn_type){want.dtype, t->shape}, shape);
  return diag_fail(ctx, SN_ERR_INVALID, "tensor \"%s\": expected %s, the file has %s%s", t->name,
                   store_type_text(want, expected), t->dtype_name, strchr(shape, '['));
}

static sn_status check_entry(const loading *l, const incoming *in) {
  char expected[STORE_TYPE_TEXT], got[STORE_TYPE_TEXT];
  const store_entry *e = store_find(l->s, in->name);
  if (!e || type_equal(e->type, in->type))
    return SN_OK;
  return diag_fail(l->s->ctx, SN_ERR_INVALID, "entry \"%s\": expected %s, the store has %s",
                   in->name, store_type_text(in->type, expected), store_type_text(e->type, got));
}

/* What entries that are not there yet will take, all together. */
static sn_status check_room(const loading *l) {
  size_t all = 0, bytes;
  for (size_t i = 0; i < l->n; i++) {
    const incoming *in = &l->list[i];
    if (in->fresh &&
        (!size_mul_fits((size_t)in->from->count, sn_dtype_size(in->type.dtype), &bytes) ||
         !size_add_fits(all, bytes, &all)))
      all = SIZE_MAX;
  }
  return memory_expect(l->s->ctx, "loading", all);
}

static sn_status check_all(loading *l) {
  for (size_t i = 0; i < l->n; i++) {
    incoming *in = &l->list[i];
    if (!shape_equal(in->from->shape, in->type.shape))
      return misfit(l->s->ctx, in->from, in->type);
    SN_TRY(check_entry(l, in));
    SN_TRY(sn_safetensors_check(l->file, in->from->index, in->type.dtype));
    in->fresh = !store_find(l->s, in->name);
  }
  return check_room(l);
}

/* What is begun has no value until all is read. */
static sn_status fill(loading *l) {
  for (size_t i = 0; i < l->n; i++) {
    const incoming *in = &l->list[i];
    if (!store_find(l->s, in->name))
      SN_TRY(store_add(l->s, in->name, in->type));
    SN_TRY(check_entry(l, in)); /* a name may be there twice */
  }
  for (size_t i = 0; i < l->n; i++) {
    const incoming *in = &l->list[i];
    store_entry *e = store_find(l->s, in->name);
    store_lose(e);
    SN_TRY(sn_safetensors_read(l->file, in->from->index, in->type.dtype, e->data, e->count));
  }
  return SN_OK;
}

/* Takes a list whose tensors are found and whose types are those that entries have or shall have. */
static sn_status load(loading *l) {
  int before = l->s->n;
  SN_TRY(check_all(l));
  sn_status status = fill(l);
  for (size_t i = 0; i < l->n && status == SN_OK; i++)
    store_regain(store_find(l->s, l->list[i].name));
  if (status != SN_OK)
    store_truncate(l->s, before);
  return status;
}

/* Room for n, filled by `find`; with the store locked. */
static sn_status load_found(sn_store *s, sn_safetensors *file, size_t n,
                            sn_status (*find)(loading *l, const void *user), const void *user) {
  loading l = {s, file, mem_array(s->ctx, n, sizeof(incoming)), n};
  if (!l.list)
    return SN_ERR_NO_MEMORY;
  store_lock(s);
  sn_status status = find(&l, user);
  if (status == SN_OK)
    status = load(&l);
  store_unlock(s);
  mem_free(s->ctx, l.list, n * sizeof *l.list);
  return status;
}

/* Every tensor of the file, which must have every entry of the store. */
static sn_status find_all(loading *l, const void *user) {
  sn_store *s = l->s;
  (void)user;
  for (int i = 0; i < s->n; i++)
    if (!sn_safetensors_find(l->file, s->entries[i]->name))
      return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "entry \"%s\" of the store is missing in the file",
                       s->entries[i]->name);
  for (size_t i = 0; i < l->n; i++) {
    const sn_safetensors_tensor *t = sn_safetensors_at(l->file, i);
    const store_entry *e = store_find(s, t->name);
    if (t->dtype == SN_NO_DTYPE)
      return diag_fail(s->ctx, SN_ERR_UNSUPPORTED, "tensor \"%s\" has dtype %s", t->name,
                       t->dtype_name);
    if (e && e->type.dtype != t->dtype)
      return misfit(s->ctx, t, e->type);
    l->list[i] =
        (incoming){.name = t->name, .type = e ? e->type : (sn_type){t->dtype, t->shape}, .from = t};
  }
  return SN_OK;
}

sn_status sn_store_load_file(sn_store *s, sn_safetensors *file) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, file);
  return load_found(s, file, sn_safetensors_count(file), find_all, NULL);
}

sn_status sn_store_load(sn_store *s, const char *path) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, path);
  sn_safetensors *file;
  SN_TRY(sn_safetensors_open(s->ctx, path, &file));
  sn_status status = sn_store_load_file(s, file);
  sn_safetensors_close(file);
  return status == SN_OK ? SN_OK : diag_within(s->ctx, status, "%s", path);
}

static sn_status find_named(loading *l, const void *user) {
  const char *const *names = user;
  for (size_t i = 0; i < l->n; i++) {
    const store_entry *e = store_find(l->s, names[i]);
    if (!e)
      return missing(l->s, names[i]);
    l->list[i] =
        (incoming){.name = e->name, .type = e->type, .from = sn_safetensors_find(l->file, e->name)};
    if (!l->list[i].from)
      return diag_fail(l->s->ctx, SN_ERR_NOT_FOUND, "tensor \"%s\" is missing in the file",
                       e->name);
  }
  return SN_OK;
}

sn_status sn_store_load_weights(sn_store *s, const char *const *names, size_t n_names,
                                sn_safetensors *file) {
  NEEDS(s);
  NEEDS_ARGUMENT_IF(s->ctx, n_names > 0, names);
  NEEDS_ARGUMENT(s->ctx, file);
  return load_found(s, file, n_names, find_named, names);
}

static sn_status find_given(loading *l, const void *user) {
  const sn_store_source *sources = user;
  for (size_t i = 0; i < l->n; i++) {
    const sn_store_source *from = &sources[i];
    if (!from->name || !dtype_valid(from->type.dtype) || from->type.shape.rank < 0 ||
        from->type.shape.rank > SN_MAX_RANK)
      return diag_fail(l->s->ctx, SN_ERR_INVALID, "store: source %zu has no name or no valid type",
                       i);
    l->list[i] = (incoming){
        .name = from->name, .type = from->type, .from = sn_safetensors_at(l->file, from->tensor)};
    if (!l->list[i].from)
      return diag_fail(l->s->ctx, SN_ERR_INVALID, "entry \"%s\": the file has no tensor %zu",
                       from->name, from->tensor);
  }
  return SN_OK;
}

sn_status sn_store_load_tensors(sn_store *s, const sn_store_source *sources, size_t n_sources,
                                sn_safetensors *file) {
  NEEDS(s);
  NEEDS_ARGUMENT_IF(s->ctx, n_sources > 0, sources);
  NEEDS_ARGUMENT(s->ctx, file);
  return load_found(s, file, n_sources, find_given, sources);
#include "base/null.h"
}
