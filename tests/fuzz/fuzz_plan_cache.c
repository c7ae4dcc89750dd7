/* Fuzzes the files of the plan cache, by what they are for: whatever lies in the place of a plan, the session is made and computes
 * what it computes without a cache.
 *
 * The first byte of an input says what the rest is: 'r' the file itself; 'e' edits (support/fuzz_files.h) to the file that a session
 * has just kept; 'm' edits to what follows that file's header, which is then made to fit again. */
#include "base/base.h"
#include "support/fuzz_files.h"

#include <dirent.h>
#include <sinew/sinew.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 24, ROWS = 3, RESULTS = ROWS * 4 };

typedef struct plan_file {
  char name[128];
  uint8_t *bytes;
  size_t size;
  float results[RESULTS];
} plan_file;

/* softmax(x · w) of n rows, and w that changes. */
static sn_graph *build(sn_ctx *ctx) {
  sn_graph *g;
  fuzz_demand(sn_graph_create(ctx, &g) == SN_OK);
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(sn_symbol(g, "n", 8), 3));
  sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(3, 4), SN_INIT_NORMAL, 1);
  sn_output(g, "y", sn_softmax(g, sn_matmul(g, x, w, false, false), 1));
  sn_assign(g, w, sn_affine(g, w, 0.5, 0));
  return g;
}

/* Two runs: the second sees the state that the first has left. */
static void run(sn_session *s, float results[RESULTS]) {
  float x[ROWS * 3];
  for (int i = 0; i < ROWS * 3; i++)
    x[i] = (float)(i % 5) - 2;
  fuzz_demand(sn_session_bind(s, "n", ROWS) == SN_OK);
  fuzz_demand(sn_session_write(s, "x", x, sizeof x) == SN_OK);
  for (int i = 0; i < 2; i++)
    fuzz_demand(sn_session_run(s) == SN_OK);
  fuzz_demand(sn_session_read(s, "y", results, RESULTS * sizeof *results) == SN_OK);
}

static void run_fresh(const char *cache, float results[RESULTS]) {
  sn_ctx *ctx;
  sn_store *store;
  sn_session *session;
  sn_session_options o = {.device = "cpu", .threads = 1, .no_optimizer = true, .plan_cache = cache};
  fuzz_demand(sn_ctx_create(NULL, &ctx) == SN_OK);
  fuzz_demand(sn_store_create(ctx, &store) == SN_OK);
  sn_graph *g = build(ctx);
  fuzz_demand(sn_store_init(store, g, 1) == SN_OK);
  fuzz_demand(sn_session_create(g, store, &o, &session) == SN_OK);
  run(session, results);
  sn_session_destroy(session);
  sn_graph_destroy(g);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
}

/* The file that a session keeps, once; the process has it until it ends. */
static const plan_file *kept(void) {
  static plan_file f;
  if (f.bytes)
    return &f;
  float results[RESULTS];
  run_fresh(NULL, f.results);
  run_fresh(fuzz_folder(), results);
  fuzz_demand(memcmp(results, f.results, sizeof results) == 0);
  DIR *d = opendir(fuzz_folder());
  fuzz_demand(d != NULL);
  for (struct dirent *entry; (entry = readdir(d));)
    if (strstr(entry->d_name, ".plan") && strlen(entry->d_name) < sizeof f.name)
      strcpy(f.name, entry->d_name);
  closedir(d);
  fuzz_demand(*f.name);
  f.bytes = fuzz_get(f.name, &f.size);
  fuzz_demand(f.size > HEADER);
  return &f;
}

static void put_number(uint8_t *at, uint64_t n) {
  for (int i = 0; i < 8; i++)
    at[i] = (uint8_t)(n >> 8 * i);
}

static void put_mended(const plan_file *f, const uint8_t *edits, size_t size) {
  size_t n;
  uint8_t *body = fuzz_edit(f->bytes + HEADER, f->size - HEADER, edits, size, &n);
  uint8_t *file = malloc(HEADER + n);
  fuzz_demand(file != NULL);
  memcpy(file, f->bytes, 8);
  put_number(file + 8, n);
  put_number(file + 16, hash_bytes(HASH_SEED, body, n));
  memcpy(file + HEADER, body, n);
  fuzz_put(f->name, file, HEADER + n);
  free(file);
  free(body);
}

static void put_edited(const plan_file *f, const uint8_t *edits, size_t size) {
  size_t n;
  uint8_t *file = fuzz_edit(f->bytes, f->size, edits, size, &n);
  fuzz_put(f->name, file, n);
  free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  const plan_file *f = kept();
  float results[RESULTS];
  if (size == 0)
    return 0;
  if (bytes[0] == 'm')
    put_mended(f, bytes + 1, size - 1);
  else if (bytes[0] == 'e')
    put_edited(f, bytes + 1, size - 1);
  else
    fuzz_put(f->name, bytes + 1, size - 1);
  run_fresh(fuzz_folder(), results);
  fuzz_demand(memcmp(results, f->results, sizeof results) == 0);
  return 0;
}
