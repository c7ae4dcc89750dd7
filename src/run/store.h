/* The store's body, for sessions. Whoever touches entries holds the lock.
 *
 * Invariants: entries are only ever added; an entry's data has exactly `size` bytes; a change of value
 * counts the version up, all under the lock. Memory is the store's context's, and only the thread that
 * owns that context adds entries; sessions of other contexts overwrite data in place.
 *
 * A device with memory of its own keeps mirrors of entries, shared by all sessions on it (store_mirror.c). The value of an entry is
 * where a version stands that equals the entry's: in `data`, in mirrors, or in both. Where it stands nowhere (the device was
 * lost, or a load ended half-way), the entry cannot be used until it is written again. */
#ifndef SINEW_RUN_STORE_H
#define SINEW_RUN_STORE_H

#include "device/device.h"
#include "ir/graph.h"

#include <pthread.h>
#include <sinew/store.h>

typedef struct store_mirror {
  const device *on; /* NULL: none */
  device_memory *memory;
  uint64_t version; /* that it holds */
} store_mirror;

enum { STORE_MIRRORS = 4 };
typedef struct store_entry {
  char *name;
  sn_type type;
  int64_t count;
  size_t size;
  uint64_t version;
  void *data;
  uint64_t held; /* the version that data holds */
  store_mirror mirrors[STORE_MIRRORS];
} store_entry;

struct sn_store {
  sn_ctx *ctx;
  pthread_mutex_t lock;
  store_entry **entries;
  int n, cap;
  int *buckets; /* index + 1, open addressing; n_buckets is a power of two */
  int n_buckets;
};

/* NULL when there is none. */
store_entry *store_find(const sn_store *store, const char *name);
/* The entry that a state node reads, checked against its type. Messages go to ctx, since a store may
 * belong to another thread's context. */
sn_status store_entry_of(const sn_store *store, sn_ctx *ctx, const sn_graph *g, const node *state,
                         store_entry **out_entry) SN_MUST_USE;
/* "f32[2, 3]" of a type in numbers. */
enum { STORE_TYPE_TEXT = 256 };
const char *store_type_text(sn_type type, char out[STORE_TYPE_TEXT]);
/* Under the lock: adds a zeroed entry; takes back the entries from index n on. */
sn_status store_add(sn_store *store, const char *name, sn_type type) SN_MUST_USE;
void store_truncate(sn_store *store, int n);
/* Makes an entry's data its value; whoever reads data calls it first. */
sn_status store_pull(store_entry *e, sn_ctx *ctx) SN_MUST_USE;
/* The entry's mirror on a device, made where there is none, holding its value. */
sn_status store_push(store_entry *e, sn_ctx *ctx, const device *on,
                     store_mirror **out_mirror) SN_MUST_USE;
/* The value has changed: in data (mirror NULL), or in a mirror. */
void store_changed(store_entry *e, store_mirror *mirror);
/* The value is gone, wherever it stood; and after that: data holds the new one. */
void store_lose(store_entry *e);
void store_regain(store_entry *e);
/* The version goes up, the value stays as it is. */
void store_kept(store_entry *e);
void store_drop_mirrors(store_entry *e);
void store_lock(sn_store *store);
void store_unlock(sn_store *store);

#endif
