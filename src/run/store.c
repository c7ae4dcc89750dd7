/* Entries: adding, finding, reading, writing. Files are in checkpoint.c. See store.h. */
#include "base/null.h"

#include "run/store.h"

#include "base/memory.h"
#include "ir/dim.h"
#include "ir/dtype.h"
#include "base/philox.h"
#include "ops/table.h"

#include <math.h>
#include <stdio.h>

sn_status sn_store_create(sn_ctx *ctx, sn_store **out_store) {
  CLEARS(out_store);
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, out_store);
  sn_store *s = mem_alloc(ctx, sizeof *s);
  if (!s)
    return SN_ERR_NO_MEMORY;
  s->ctx = ctx;
  if (pthread_mutex_init(&s->lock, NULL) != 0) {
    mem_free(ctx, s, sizeof *s);
    return diag_fail(ctx, SN_ERR_NO_MEMORY, "store: the system has no room for another lock");
  }
  *out_store = s;
  return SN_OK;
}

static void free_entry(sn_ctx *ctx, store_entry *e) {
  if (!e)
    return;
  store_drop_mirrors(e);
  mem_free(ctx, e->data, e->size);
  mem_free_str(ctx, e->name);
  mem_free(ctx, e, sizeof *e);
}

void sn_store_destroy(sn_store *s) {
  if (!s)
    return;
  for (int i = 0; i < s->n; i++)
    free_entry(s->ctx, s->entries[i]);
  mem_free(s->ctx, s->entries, (size_t)s->cap * sizeof *s->entries);
  mem_free(s->ctx, s->buckets, (size_t)s->n_buckets * sizeof *s->buckets);
  pthread_mutex_destroy(&s->lock);
  mem_free(s->ctx, s, sizeof *s);
}

sn_ctx *sn_store_ctx(const sn_store *s) {
  NEEDS_OR(s, NULL);
  return s->ctx;
}
void store_lock(sn_store *s) { pthread_mutex_lock(&s->lock); }
void store_unlock(sn_store *s) { pthread_mutex_unlock(&s->lock); }

/* Slot of the name, or the free slot where it would go. */
static int slot_of(const sn_store *s, const char *name) {
  unsigned mask = (unsigned)s->n_buckets - 1;
  unsigned i = (unsigned)hash_string(HASH_SEED, name) & mask;
  while (s->buckets[i] && strcmp(s->entries[s->buckets[i] - 1]->name, name) != 0)
    i = (i + 1) & mask;
  return (int)i;
}

store_entry *store_find(const sn_store *s, const char *name) {
  int i = s->n_buckets ? s->buckets[slot_of(s, name)] : 0;
  return i ? s->entries[i - 1] : NULL;
}

/* Room for one more entry, and a table at most half full. */
static bool reserve(sn_store *s) {
  if (s->n < s->cap)
    return true;
  int cap = s->cap ? s->cap * 2 : 32, n_buckets = cap * 2;
  store_entry **entries = mem_array(s->ctx, (size_t)cap, sizeof(store_entry *));
  int *buckets = mem_array(s->ctx, (size_t)n_buckets, sizeof *buckets);
  if (!entries || !buckets) {
    mem_free(s->ctx, entries, (size_t)cap * sizeof(store_entry *));
    mem_free(s->ctx, buckets, (size_t)n_buckets * sizeof *buckets);
    return false;
  }
  if (s->n)
    memcpy(entries, s->entries, (size_t)s->n * sizeof(store_entry *));
  mem_free(s->ctx, s->entries, (size_t)s->cap * sizeof(store_entry *));
  mem_free(s->ctx, s->buckets, (size_t)s->n_buckets * sizeof *s->buckets);
  s->entries = entries;
  s->buckets = buckets;
  s->cap = cap;
  s->n_buckets = n_buckets;
  for (int i = 0; i < s->n; i++)
    s->buckets[slot_of(s, entries[i]->name)] = i + 1;
  return true;
}

static sn_status size_of(sn_ctx *ctx, const char *name, sn_type type, int64_t *count,
                         size_t *size) {
  *count = 1;
  if (!dtype_valid(type.dtype) || type.shape.rank < 0 || type.shape.rank > SN_MAX_RANK)
    return diag_fail(ctx, SN_ERR_INVALID, "store: entry \"%s\" has no valid type", name);
  for (int d = 0; d < type.shape.rank; d++)
    if (type.shape.dim[d] < 0 || !mul_fits(*count, type.shape.dim[d], count) || *count > DIM_LIMIT)
      return diag_fail(ctx, SN_ERR_INVALID, "store: entry \"%s\": dim %d is negative or too large",
                       name, d);
  *size = (size_t)*count * sn_dtype_size(type.dtype);
  sn_status status = memory_expect(ctx, "it", *size);
  return status == SN_OK ? SN_OK : diag_within(ctx, status, "store: entry \"%s\"", name);
}

sn_status store_add(sn_store *s, const char *name, sn_type type) {
  store_entry *e;
  if (!name || !*name)
    return diag_fail(s->ctx, SN_ERR_INVALID, "store: an entry's name must not be empty");
  if (store_find(s, name))
    return diag_fail(s->ctx, SN_ERR_INVALID, "store: there is an entry \"%s\" already", name);
  if (!reserve(s) || !(e = mem_alloc(s->ctx, sizeof *e)))
    return SN_ERR_NO_MEMORY;
  sn_status status = size_of(s->ctx, name, type, &e->count, &e->size);
  if (status == SN_OK) {
    e->type = type;
    e->version = e->held = 1;
    e->name = mem_strdup(s->ctx, name);
    e->data = mem_alloc(s->ctx, e->size);
    status = e->name && e->data ? SN_OK : SN_ERR_NO_MEMORY;
  }
  if (status != SN_OK) {
    free_entry(s->ctx, e);
    return status;
  }
  int slot = slot_of(s, name);
  s->entries[s->n++] = e;
  s->buckets[slot] = s->n;
  return SN_OK;
}

void store_truncate(sn_store *s, int n) {
  if (n == s->n)
    return;
  while (s->n > n)
    free_entry(s->ctx, s->entries[--s->n]);
  memset(s->buckets, 0, (size_t)s->n_buckets * sizeof *s->buckets);
  for (int i = 0; i < n; i++)
    s->buckets[slot_of(s, s->entries[i]->name)] = i + 1;
}

sn_status sn_store_add(sn_store *s, const char *name, sn_type type, const void *data) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, name);
  store_lock(s);
  sn_status status = store_add(s, name, type);
  store_entry *e = s->n ? s->entries[s->n - 1] : NULL;
  if (status == SN_OK && data && e->size)
    memcpy(e->data, data, e->size);
  store_unlock(s);
  return status;
}

const char *store_type_text(sn_type type, char out[STORE_TYPE_TEXT]) {
  size_t used = (size_t)snprintf(out, STORE_TYPE_TEXT, "%s[", sn_dtype_name(type.dtype));
  for (int d = 0; d < type.shape.rank; d++)
    used += (size_t)snprintf(out + used, STORE_TYPE_TEXT - used, "%s%lld", d ? ", " : "",
                             (long long)type.shape.dim[d]);
  memcpy(out + used, "]", 2);
  return out;
}

sn_status store_entry_of(const sn_store *s, sn_ctx *ctx, const sn_graph *g, const node *state,
                         store_entry **out_entry) {
  char want[STORE_TYPE_TEXT], have[STORE_TYPE_TEXT];
  const char *name = graph_leaf_name(g, state);
  sn_type type = g->values[state->first].type;
  store_entry *e = s ? store_find(s, name) : NULL;
  *out_entry = e;
  if (!s)
    return diag_fail(ctx, SN_ERR_NOT_FOUND, "state \"%s\": no store is given", name);
  if (!e)
    return diag_fail(ctx, SN_ERR_NOT_FOUND, "state \"%s\" is not in the store", name);
  if (!type_equal(e->type, type))
    return diag_fail(ctx, SN_ERR_INVALID, "state \"%s\": the graph has %s, the store has %s", name,
                     store_type_text(type, want), store_type_text(e->type, have));
  return SN_OK;
}

/* Philox keyed by the seed, its counter holding the element and a hash of the name. */
static void fill_random(store_entry *e, const attrs_state *a, uint64_t seed) {
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint64_t name = hash_string(HASH_SEED, a->name);
  for (int64_t i = 0; i < e->count; i++) {
    uint32_t r[4] = {(uint32_t)i, (uint32_t)((uint64_t)i >> 32), (uint32_t)name,
                     (uint32_t)(name >> 32)};
    philox(key, r);
    double u = ((double)r[0] + 0.5) / 4294967296.0, v = ((double)r[1] + 0.5) / 4294967296.0;
    double x =
        a->init == SN_INIT_NORMAL ? sqrt(-2 * log(u)) * cos(6.283185307179586 * v) : 2 * u - 1;
    dtype_store(e->type.dtype, e->data, i, x * a->scale);
  }
}

static sn_status init_one(sn_store *s, const sn_graph *g, const node *n, uint64_t seed) {
  const attrs_state *a = n->attrs;
  store_entry *e = store_find(s, a->name);
  if (e)
    return store_entry_of(s, s->ctx, g, n, &e);
  SN_TRY(store_add(s, a->name, (sn_type){a->dtype, a->shape}));
  e = store_find(s, a->name);
  if (a->init == SN_INIT_NORMAL || a->init == SN_INIT_UNIFORM)
    fill_random(e, a, seed);
  for (int64_t i = 0; a->init == SN_INIT_ONES && i < e->count; i++)
    dtype_store(e->type.dtype, e->data, i, 1);
  return SN_OK;
}

sn_status sn_store_init(sn_store *s, const sn_graph *g, uint64_t seed) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, g);
  SN_TRY(graph_check(g, s->ctx));
  store_lock(s);
  int before = s->n;
  sn_status status = SN_OK;
  for (uint32_t i = 0; i < g->n_nodes && status == SN_OK; i++)
    if (g->nodes[i].op == OP_state)
      status = init_one(s, g, &g->nodes[i], seed);
  if (status != SN_OK)
    store_truncate(s, before);
  store_unlock(s);
  return status;
}

int sn_store_count(const sn_store *s) {
  NEEDS_OR(s, 0);
  return s->n;
}
bool sn_store_has(const sn_store *s, const char *name) {
  NEEDS_OR(s, false);
  NEEDS_OR(name, false);
  return store_find(s, name) != NULL;
}

static sn_entry view(const store_entry *e) {
  return (sn_entry){e->name, e->type, e->size, e->version};
}

sn_status sn_store_at(const sn_store *s, int index, sn_entry *out_entry) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, out_entry);
  *out_entry = (sn_entry){0};
  if (index < 0 || index >= s->n)
    return diag_fail(s->ctx, SN_ERR_NOT_FOUND, "store: no entry %d of %d", index, s->n);
  sn_store *lockable = (sn_store *)(uintptr_t)s; /* a run elsewhere may count the version up */
  store_lock(lockable);
  *out_entry = view(s->entries[index]);
  store_unlock(lockable);
  return SN_OK;
}

static sn_status require(sn_store *s, const char *name, store_entry **out) {
  *out = store_find(s, name);
  return *out ? SN_OK : diag_fail(s->ctx, SN_ERR_NOT_FOUND, "store: no entry \"%s\"", name);
}

sn_status sn_store_find(sn_store *s, const char *name, sn_entry *out_entry) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, name);
  NEEDS_ARGUMENT(s->ctx, out_entry);
  store_entry *e;
  *out_entry = (sn_entry){0};
  store_lock(s);
  sn_status status = require(s, name, &e);
  if (status == SN_OK)
    *out_entry = view(e);
  store_unlock(s);
  return status;
}

static sn_status require_size(sn_store *s, const char *name, size_t size, store_entry **out) {
  SN_TRY(require(s, name, out));
  if (size == (*out)->size)
    return SN_OK;
  return diag_fail(s->ctx, SN_ERR_INVALID, "store: entry \"%s\" has %zu bytes, got %zu", name,
                   (*out)->size, size);
}

sn_status sn_store_read(sn_store *s, const char *name, void *data, size_t size) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, name);
  NEEDS_ARGUMENT_IF(s->ctx, size > 0, data);
  store_entry *e;
  store_lock(s);
  sn_status status = require_size(s, name, size, &e);
  if (status == SN_OK)
    status = store_pull(e, s->ctx);
  if (status == SN_OK && size)
    memcpy(data, e->data, size);
  store_unlock(s);
  return status;
}

sn_status sn_store_write(sn_store *s, const char *name, const void *data, size_t size) {
  NEEDS(s);
  NEEDS_ARGUMENT(s->ctx, name);
  NEEDS_ARGUMENT_IF(s->ctx, size > 0, data);
  store_entry *e;
  store_lock(s);
  sn_status status = require_size(s, name, size, &e);
  if (status == SN_OK && size)
    memcpy(e->data, data, size);
  if (status == SN_OK)
    store_changed(e, NULL);
  store_unlock(s);
  return status;
}
