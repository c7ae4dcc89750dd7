/* See repro.h. */
#include "support/repro.h"

#include "ir/dim.h"
#include "ir/dtype.h"
#include "support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_FILES = 100, MOST_TEXT = 1 << 16 };

double repro_number(void *draw, const char *name, sn_dtype dtype, int64_t i) {
  uint64_t h = hash_bytes(hash_string(HASH_SEED + *(uint64_t *)draw, name), &i, sizeof i) >> 20;
  if (dtype == SN_BOOL)
    return (double)(h % 2);
  return dtype_is_float(dtype) ? ((double)(h % 257) - 128) / 64 + 1.0 / 256 : (double)(h % 4);
}

int repro_bindings(const sn_graph *g, int64_t bindings[REPRO_BINDINGS][REPRO_SYMBOLS]) {
  int n = dim_symbol_count(g);
  if (!CHECK(n <= REPRO_SYMBOLS))
    return 0;
  for (int s = 0; s < n; s++) {
    int64_t most = dim_symbol_max(g, s), at[REPRO_BINDINGS] = {most, 0, 1, 2};
    for (int b = 0; b < REPRO_BINDINGS; b++)
      bindings[b][s] = min_i64(at[b], most);
  }
  return n ? REPRO_BINDINGS : 1;
}

static void check_file(const char *path, void (*check)(const sn_graph *g)) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL;
  FILE *f = fopen(path, "r");
  char *source = calloc(1, MOST_TEXT);
  if (CHECK(f && source && fread(source, 1, MOST_TEXT - 1, f) > 0) &&
      CHECK(sn_ctx_create(NULL, &ctx) == SN_OK)) {
    if (sn_graph_parse(ctx, source, &g) == SN_OK)
      check(g);
    else
      FAIL("%s", sn_ctx_message(ctx));
    sn_graph_destroy(g);
  }
  sn_ctx_destroy(ctx);
  free(source);
  if (f)
    fclose(f);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

void repro_each(void (*check)(const sn_graph *g)) {
  const char *folder = test_source("tests/fixtures/repro");
  char *names[MOST_FILES], path[600];
  int n = 0;
  DIR *dir = opendir(folder);
  if (!CHECK(dir))
    return;
  for (const struct dirent *e; (e = readdir(dir)) && n < MOST_FILES;)
    if (strstr(e->d_name, ".txt"))
      names[n++] = strdup(e->d_name);
  closedir(dir);
  qsort(names, (size_t)n, sizeof *names, by_name);
  for (int i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    if (test_begin("%.*s", (int)strlen(names[i]) - 4, names[i])) {
      check_file(path, check);
      test_end();
    }
    free(names[i]);
  }
}
