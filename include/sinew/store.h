/* The store: named state that outlives runs. Parameters, optimiser moments, KV caches, counters and
 * random keys are entries; graphs read them with sn_state and commit new values with sn_assign.
 *
 *   sn_store *store;  sn_store_create(ctx, &store);
 *   sn_store_init(store, graph, seed);            // entries that the graph names and that are missing
 *   ...
 *   sn_store_save(store, "run.safetensors", NULL, 0);
 *
 * Several sessions may share a store; runs on it are serialised, and reads and writes wait for a run
 * to end. The sessions may belong to other contexts and threads; whatever else is done with a store is up
 * to the thread of its own context. Values are row-major. A run that fails leaves the store as it was.
 * Each entry has a version that goes up whenever its value may have changed.
 */
#ifndef SINEW_STORE_H
#define SINEW_STORE_H

#include <sinew/graph.h>
#include <sinew/safetensors.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_store sn_store;

typedef struct sn_entry {
  const char *name;
  sn_type type; /* the shape is numbers */
  size_t size;  /* bytes */
  uint64_t version;
} sn_entry;

SN_MUST_USE SN_API sn_status sn_store_create(sn_ctx *ctx, sn_store **out_store);
SN_API void sn_store_destroy(sn_store *store); /* after the sessions on it */

SN_API sn_ctx *sn_store_ctx(const sn_store *store);

/* Adds an entry; data NULL: zeros. An entry of that name must not be there. */
SN_MUST_USE SN_API sn_status sn_store_add(sn_store *store, const char *name, sn_type type,
                                          const void *data);
/* Adds every state that the graph reads and the store lacks, with the initial value that its sn_state
 * asked for. What is there must have the graph's type and stays as it is. Random values depend on the
 * seed and the entry's name only, not on the order. All or nothing. */
SN_MUST_USE SN_API sn_status sn_store_init(sn_store *store, const sn_graph *graph, uint64_t seed);

SN_API int sn_store_count(const sn_store *store);
/* Entries in the order they were added. */
SN_MUST_USE SN_API sn_status sn_store_at(const sn_store *store, int index, sn_entry *out_entry);
SN_API bool sn_store_has(const sn_store *store, const char *name);
SN_MUST_USE SN_API sn_status sn_store_find(sn_store *store, const char *name, sn_entry *out_entry);
/* size must be the entry's. */
SN_MUST_USE SN_API sn_status sn_store_read(sn_store *store, const char *name, void *data,
                                           size_t size);
SN_MUST_USE SN_API sn_status sn_store_write(sn_store *store, const char *name, const void *data,
                                            size_t size);

/* A checkpoint: all entries in one safetensors file, written atomically, with pairs of text beside
 * them. */
SN_MUST_USE SN_API sn_status sn_store_save(sn_store *store, const char *path,
                                           const sn_safetensors_pair *metadata, size_t n_metadata);
/* Only the entries named: the weights of a model, without moments and counters. */
SN_MUST_USE SN_API sn_status sn_store_save_weights(sn_store *store, const char *const *names,
                                                   size_t n_names, const char *path);
/* Loading. Names, types, sizes and what there is of memory are checked before anything changes, and a file that does not fit
 * changes nothing. Then tensors are read where they belong, without a second copy in memory. When reading fails on the way
 * (the disk, a file that shrinks meanwhile), no entry has been added; of those that were there, the ones that were begun have
 * lost their values and give SN_ERR_STATE to whoever reads, saves or runs on them, until they are loaded or written again;
 * the others are as they were. So no store is ever taken for whole that is half of one file and half of another. */

/* Restores a checkpoint: the file must hold every entry of the store, with its type; entries that only
 * the file has are added. */
SN_MUST_USE SN_API sn_status sn_store_load(sn_store *store, const char *path);
/* The same from an open file, for whoever has looked into it before: the path may lead to a newer one by now. */
SN_MUST_USE SN_API sn_status sn_store_load_file(sn_store *store, sn_safetensors *file);
/* Weights only: the entries named, which must be in the store, come from `file` (in any float dtype that
 * converts to theirs); other tensors of the file are ignored. */
SN_MUST_USE SN_API sn_status sn_store_load_weights(sn_store *store, const char *const *names,
                                                   size_t n_names, sn_safetensors *file);

/* An entry and the tensor of a file that it comes from. */
typedef struct sn_store_source {
  const char *name;
  sn_type type;  /* of the entry; the tensor has its shape and a dtype that converts to its own */
  size_t tensor; /* index in the file */
} sn_store_source;

/* The same for tensors that have other names than their entries. Entries that are missing are added; those that are there
 * must have the type that is given. */
SN_MUST_USE SN_API sn_status sn_store_load_tensors(sn_store *store, const sn_store_source *sources,
                                                   size_t n_sources, sn_safetensors *file);

#ifdef __cplusplus
}
#endif

#endif
