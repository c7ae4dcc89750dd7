/* All that a store shows, taken at one moment: to check that something left it alone, bit by bit, or
 * that two stores hold the same. */
#ifndef SINEW_TESTS_SUPPORT_SNAPSHOT_H
#define SINEW_TESTS_SUPPORT_SNAPSHOT_H

#include <sinew/store.h>

typedef struct snapshot {
  char *bytes; /* names, types, versions and values, one entry behind the other */
  size_t size;
} snapshot;

/* versions false: leaves them out. */
snapshot snapshot_take(sn_store *store, bool versions);
bool snapshot_equal(const snapshot *a, const snapshot *b);
void snapshot_free(snapshot *s);
/* Takes one with versions, compares it with `before` and frees both. */
bool snapshot_unchanged(snapshot *before, sn_store *store);

#endif
