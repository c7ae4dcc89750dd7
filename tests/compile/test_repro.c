/* Graphs that once went wrong, tests/fixtures/repro/<what>.txt in the text form: each through the compiler in all modes, on the
 * device of chosen.h and, on the cpu, with every instruction set, against the reference. Symbols are 0, 1, 2 and their most. A new
 * file is a new test. */
#include "ir/dim.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "support/chosen.h"
#include "support/plan_run.h"
#include "support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_FILES = 100, MOST_TEXT = 1 << 16, MOST_SYMBOLS = 8, DRAWS = 3, BOUND = 4 };

/* Numbers that differ from draw to draw, with both signs. */
static double number(void *user, const char *name, sn_dtype dtype, int64_t i) {
  const uint64_t *draw = user;
  uint64_t h = hash_bytes(hash_string(HASH_SEED + *draw, name), &i, sizeof i) >> 20;
  if (dtype == SN_BOOL)
    return (double)(h % 2);
  return dtype_is_float(dtype) ? ((double)(h % 257) - 128) / 64 + 1.0 / 256 : (double)(h % 4);
}

static char *read_text(const char *path) {
  FILE *f = fopen(path, "r");
  char *source = calloc(1, MOST_TEXT);
  if (CHECK(f && source) && f)
    CHECK(fread(source, 1, MOST_TEXT - 1, f) > 0);
  if (f)
    fclose(f);
  return source;
}

static int64_t bound(const sn_graph *g, int symbol, int which) {
  int64_t most = dim_symbol_max(g, symbol), at[BOUND] = {most, 0, 1, 2};
  return min_i64(at[which], most);
}

static void check_graph(const sn_graph *g) {
  int64_t bindings[BOUND][MOST_SYMBOLS] = {{0}};
  uint64_t draws[DRAWS];
  plan_numbers numbers[DRAWS * BOUND];
  char why[1000] = "";
  int n = 0, n_symbols = dim_symbol_count(g);
  REQUIRE(n_symbols <= MOST_SYMBOLS);
  for (int b = 0; b < (n_symbols ? BOUND : 1); b++) {
    for (int s = 0; s < n_symbols; s++)
      bindings[b][s] = bound(g, s, b);
    for (int d = 0; d < DRAWS; d++) {
      draws[d] = (uint64_t)d;
      numbers[n++] = (plan_numbers){.bindings = bindings[b], .fill = number, .user = &draws[d]};
    }
  }
  int modes = PLAN_FUSED | PLAN_UNFUSED | PLAN_PLAIN_FUSED | PLAN_PLAIN_UNFUSED;
  if (plan_check(g, modes, numbers, n, NULL, why, sizeof why) != PLAN_RIGHT)
    FAIL("%s", why);
}

static void check_file(const char *path) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL;
  char *source = read_text(path);
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_graph_parse(ctx, source, &g) == SN_OK))
    check_graph(g);
  else
    FAIL("%s", sn_ctx_message(ctx));
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
  free(source);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

TEST_WALK(graph) {
  const char *folder = test_source("tests/fixtures/repro");
  char *names[MOST_FILES], path[600];
  int n = 0;
  DIR *dir = opendir(folder);
  REQUIRE(dir);
  for (const struct dirent *e; (e = readdir(dir)) && n < MOST_FILES;)
    if (strstr(e->d_name, ".txt"))
      names[n++] = strdup(e->d_name);
  closedir(dir);
  qsort(names, (size_t)n, sizeof *names, by_name);
  for (int i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    if (test_begin("%.*s", (int)strlen(names[i]) - 4, names[i])) {
      check_file(path);
      test_end();
    }
    free(names[i]);
  }
}
