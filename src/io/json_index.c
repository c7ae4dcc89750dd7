/* Members of JSON objects: finding duplicate keys, and lookup. Large objects (a vocabulary) are
 * sorted by (hash, key): even keys chosen to collide cost n log n, never n². See json.h.
 */
#include "io/json.h"

#include "io/sort.h"

static bool has_key(const sn_json *member, const char *key, size_t size) {
  return member->key_size == size && memcmp(member->key, key, size) == 0;
}

static int compare_keys(const char *a, size_t a_size, const char *b, size_t b_size) {
  int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
  return order ? order : (a_size > b_size) - (a_size < b_size);
}

static uint64_t hash_key(const char *key, size_t size) { return hash_bytes(HASH_SEED, key, size); }

static bool member_less(const void *user, uint32_t a, uint32_t b) {
  const json_object *o = user;
  if (o->hashes[a] != o->hashes[b])
    return o->hashes[a] < o->hashes[b];
  const sn_json *x = o->members + a, *y = o->members + b;
  return compare_keys(x->key, x->key_size, y->key, y->key_size) < 0;
}

static const sn_json *find_small_twin(const sn_json *members, uint32_t n) {
  for (uint32_t i = 1; i < n; i++)
    for (uint32_t k = 0; k < i; k++)
      if (has_key(members + k, members[i].key, members[i].key_size))
        return members + i;
  return NULL;
}

/* The sort is stable, so the later of two equal keys comes second. */
static const sn_json *find_sorted_twin(const json_object *o, uint32_t n) {
  for (uint32_t i = 1; i < n; i++) {
    const sn_json *a = o->members + o->order[i - 1], *b = o->members + o->order[i];
    if (has_key(a, b->key, b->key_size))
      return b;
  }
  return NULL;
}

static sn_status build_index(arena *a, json_object *o, uint32_t n) {
  uint64_t *hashes = arena_array(a, n, sizeof *hashes);
  uint32_t *order = arena_array(a, n, sizeof *order);
  uint32_t *scratch = hashes && order ? mem_array(a->ctx, n, sizeof *scratch) : NULL;
  if (!scratch)
    return SN_ERR_NO_MEMORY;
  for (uint32_t i = 0; i < n; i++)
    hashes[i] = hash_key(o->members[i].key, o->members[i].key_size);
  o->hashes = hashes;
  sort_indices(order, scratch, n, member_less, o);
  o->order = order;
  mem_free(a->ctx, scratch, n * sizeof *scratch);
  return SN_OK;
}

sn_status json_object_build(arena *a, const sn_json *members, uint32_t n, sn_json *out,
                            const sn_json **out_duplicate) {
  *out_duplicate = NULL;
  json_object *o = arena_alloc(a, sizeof *o);
  if (!o)
    return SN_ERR_NO_MEMORY;
  o->members = arena_copy(a, members, n * sizeof *members);
  if (!o->members)
    return SN_ERR_NO_MEMORY;
  if (n > JSON_INDEX_ABOVE)
    SN_TRY(build_index(a, o, n));
  *out_duplicate = o->order ? find_sorted_twin(o, n) : find_small_twin(o->members, n);
  out->kind = SN_JSON_OBJECT;
  out->size = n;
  out->as.object = o;
  return SN_OK;
}

static const sn_json *find_sorted(const json_object *o, uint32_t n, const char *key, size_t size) {
  uint64_t hash = hash_key(key, size);
  uint32_t lo = 0, hi = n;
  while (lo < hi) { /* the first member not below (hash, key) */
    uint32_t mid = lo + (hi - lo) / 2, i = o->order[mid];
    const sn_json *m = o->members + i;
    bool below = o->hashes[i] != hash ? o->hashes[i] < hash
                                      : compare_keys(m->key, m->key_size, key, size) < 0;
    if (below)
      lo = mid + 1;
    else
      hi = mid;
  }
  const sn_json *found = lo < n ? o->members + o->order[lo] : NULL;
  return found && has_key(found, key, size) ? found : NULL;
}

const sn_json *json_get(const sn_json *object, const char *key, size_t size) {
  if (sn_json_type(object) != SN_JSON_OBJECT)
    return NULL;
  const json_object *o = object->as.object;
  if (o->order)
    return find_sorted(o, object->size, key, size);
  for (uint32_t i = 0; i < object->size; i++)
    if (has_key(o->members + i, key, size))
      return o->members + i;
  return NULL;
}
