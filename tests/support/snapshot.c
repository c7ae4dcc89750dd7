/* See snapshot.h. */
#include "support/snapshot.h"

#include "support/test.h"

#include <stdlib.h>
#include <string.h>

static char *grow(snapshot *s, size_t more) {
  char *wider = realloc(s->bytes, s->size + more + 1);
  if (!wider)
    abort();
  s->bytes = wider;
  s->size += more;
  return s->bytes + s->size - more;
}

static void put(snapshot *s, const void *bytes, size_t size) { memcpy(grow(s, size), bytes, size); }

snapshot snapshot_take(sn_store *store, bool versions) {
  snapshot s = {0};
  for (int i = 0; i < sn_store_count(store); i++) {
    sn_entry e;
    if (!CHECK(sn_store_at(store, i, &e) == SN_OK))
      break;
    put(&s, e.name, strlen(e.name) + 1);
    put(&s, &e.type.dtype, sizeof e.type.dtype);
    put(&s, &e.type.shape.rank, sizeof e.type.shape.rank);
    put(&s, e.type.shape.dim, (size_t)e.type.shape.rank * sizeof e.type.shape.dim[0]);
    if (versions)
      put(&s, &e.version, sizeof e.version);
    CHECK(sn_store_read(store, e.name, grow(&s, e.size), e.size) == SN_OK);
  }
  return s;
}

bool snapshot_equal(const snapshot *a, const snapshot *b) {
  return a->size == b->size && (a->size == 0 || memcmp(a->bytes, b->bytes, a->size) == 0);
}

void snapshot_free(snapshot *s) {
  free(s->bytes);
  *s = (snapshot){0};
}

bool snapshot_unchanged(snapshot *before, sn_store *store) {
  snapshot now = snapshot_take(store, true);
  bool same = snapshot_equal(before, &now);
  snapshot_free(&now);
  snapshot_free(before);
  return same;
}
