/* Names: strings that live with the graph, each once, and the leaf of each op that carries one. Both are
 * found by hash, so that a graph of thousands of states is built in linear time. */
#include "ir/graph.h"

enum { FIRST_BUCKETS = 256 };

/* An op whose leaf has the name; few ops have names, so few hang on one string. */
typedef struct leaf_link {
  struct leaf_link *next;
  int op;
  sn_value leaf;
} leaf_link;

typedef struct string_link {
  struct string_link *next;
  leaf_link *leaves;
  uint64_t hash;
  char text[];
} string_link;

struct interned {
  string_link **buckets;
  uint32_t n, n_buckets; /* n_buckets is a power of two */
};

bool names_create(sn_graph *g) {
  g->strings = arena_alloc(&g->memory, sizeof *g->strings);
  if (!g->strings)
    return false;
  g->strings->n_buckets = FIRST_BUCKETS;
  g->strings->buckets = arena_array(&g->memory, FIRST_BUCKETS, sizeof(string_link *));
  return g->strings->buckets != NULL;
}

static string_link **bucket_of(const interned *t, uint64_t hash) {
  return &t->buckets[hash & (t->n_buckets - 1)];
}

static string_link *find(const interned *t, uint64_t hash, const char *string) {
  string_link *s = *bucket_of(t, hash);
  while (s && (s->hash != hash || strcmp(s->text, string) != 0))
    s = s->next;
  return s;
}

/* A table at most full before one more goes in. */
static bool grow(sn_graph *g, interned *t) {
  if (t->n < t->n_buckets)
    return true;
  interned wider = {.n = t->n, .n_buckets = t->n_buckets * 4};
  wider.buckets = arena_array(&g->memory, wider.n_buckets, sizeof(string_link *));
  if (!wider.buckets)
    return false;
  for (uint32_t i = 0; i < t->n_buckets; i++)
    for (string_link *s = t->buckets[i], *next; s; s = next) {
      next = s->next;
      s->next = *bucket_of(&wider, s->hash);
      *bucket_of(&wider, s->hash) = s;
    }
  *t = wider;
  return true;
}

static string_link *add(sn_graph *g, const char *string) {
  interned *t = g->strings;
  uint64_t hash = hash_string(HASH_SEED, string);
  string_link *s = find(t, hash, string);
  if (s)
    return s;
  size_t size = strlen(string) + 1;
  s = arena_alloc(&g->memory, sizeof *s + size);
  if (!s || !grow(g, t))
    return NULL;
  memcpy(s->text, string, size);
  s->hash = hash;
  t->n++;
  s->next = *bucket_of(t, hash);
  *bucket_of(t, hash) = s;
  return s;
}

const char *graph_intern(sn_graph *g, const char *string) {
  const string_link *s = add(g, string);
  return s ? s->text : NULL;
}

bool names_set_leaf(sn_graph *g, int op, const char *name, sn_value leaf) {
  string_link *s = add(g, name);
  leaf_link *l = s ? arena_alloc(&g->memory, sizeof *l) : NULL;
  if (!l)
    return false;
  *l = (leaf_link){s->leaves, op, leaf};
  s->leaves = l;
  return true;
}

sn_value graph_find_named(const sn_graph *g, int op, const char *name) {
  const string_link *s = find(g->strings, hash_string(HASH_SEED, name), name);
  for (const leaf_link *l = s ? s->leaves : NULL; l; l = l->next)
    if (l->op == op)
      return l->leaf;
  return SN_NONE;
}
