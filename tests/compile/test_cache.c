/* The plan cache: a plan is found again, and whatever lies in its place that is not that plan changes nothing. */
#include "compile/cache.h"
#include "support/files.h"
#include "support/test.h"

#include <sinew/ops.h>
#include <sinew/session.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* softmax(x · w) for n rows, times a number that makes graphs differ. */
static sn_graph *build(sn_ctx *ctx, double factor) {
  sn_graph *g;
  if (!CHECK(sn_graph_create(ctx, &g) == SN_OK))
    return NULL;
  sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(sn_symbol(g, "n", 8), 3));
  sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(3, 4), SN_INIT_NORMAL, 1);
  sn_value y = sn_softmax(g, sn_affine(g, sn_matmul(g, x, w, false, false), factor, 0), 1);
  sn_output(g, "y", y);
  sn_assign(g, w, sn_affine(g, w, factor, 0));
  return g;
}

static const char *folder(void) {
  const char *path = test_scratch("plans");
  (void)mkdir(path, 0777);
  return path;
}

static char *compile_text(const sn_graph *g, const compile_options *o, bool *out_from_cache) {
  compiled c;
  char *shown = NULL;
  *out_from_cache = false;
  if (compile_graph(g, o, &c) != SN_OK) {
    FAIL("%s", sn_ctx_message(g->ctx));
    return NULL;
  }
  text t;
  text_init(&t, g->ctx);
  program_print(c.program, &t);
  *out_from_cache = c.report.from_cache;
  shown = mem_strdup(g->ctx, t.data ? t.data : "");
  text_free(&t);
  compile_destroy(&c);
  return shown;
}

static void path_of(const sn_graph *g, const compile_options *o, char *out, size_t size) {
  char name[CACHE_NAME];
  CHECK_EQ_INT(cache_name(g, o, name), SN_OK);
  snprintf(out, size, "%s/%s", folder(), name);
}

/* Compiles and compares with the plan that is expected. */
static void check_compiles(const sn_graph *g, const compile_options *o, const char *want,
                           bool from_cache) {
  bool cached;
  char *got = compile_text(g, o, &cached);
  CHECK(cached == from_cache);
  if (got)
    CHECK_EQ_STR(got, want);
  mem_free_str(g->ctx, got);
}

/* Keeps the first n bytes of a file; n < 0: all but the last -n. */
static void cut(const char *path, long n) {
  static char bytes[1 << 20];
  FILE *f = fopen(path, "rb");
  REQUIRE(f != NULL);
  long size = (long)fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  size_t kept = (size_t)(n < 0 ? size + n : n);
  REQUIRE((f = fopen(path, "wb")) != NULL);
  CHECK_EQ_UINT(fwrite(bytes, 1, kept, f), kept);
  fclose(f);
}

TEST(found_again_and_never_trusted) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  sn_graph *a = build(ctx, 2), *b = build(ctx, 3);
  compile_options o = {.cache = folder()}, off = {0};
  char path_a[1024], path_b[1024];
  bool cached;
  char *plan_a = compile_text(a, &off, &cached), *plan_b = compile_text(b, &off, &cached);
  REQUIRE(plan_a && plan_b);
  path_of(a, &o, path_a, sizeof path_a);
  path_of(b, &o, path_b, sizeof path_b);
  CHECK(strcmp(path_a, path_b) != 0);
  check_compiles(a, &o, plan_a, false);
  check_compiles(a, &o, plan_a, true);
  check_compiles(b, &o, plan_b, false);
  /* Other options are another plan. */
  compile_options plain = {.cache = folder(), .no_fusion = true};
  char path_c[1024];
  path_of(a, &plain, path_c, sizeof path_c);
  CHECK(strcmp(path_a, path_c) != 0);
  /* The plan of another graph, whole and sound in itself: the proof finds it. */
  CHECK_EQ_INT(rename(path_b, path_a), 0);
  check_compiles(a, &o, plan_a, false);
  check_compiles(a, &o, plan_a, true);
  /* Cut off, empty, another kind of thing. */
  cut(path_a, -1);
  check_compiles(a, &o, plan_a, false);
  cut(path_a, 0);
  check_compiles(a, &o, plan_a, false);
  CHECK(remove(path_a) == 0 && mkdir(path_a, 0777) == 0);
  CHECK_EQ_INT(sn_ctx_fail(ctx, SN_ERR_IO, "before"), SN_ERR_IO);
  check_compiles(a, &o, plan_a,
                 false); /* can be neither read nor kept, which is nobody's concern */
  CHECK_EQ_STR(sn_ctx_message(ctx), "before");
  CHECK_EQ_INT(remove(path_a), 0);
  mem_free_str(ctx, plan_a);
  mem_free_str(ctx, plan_b);
  sn_graph_destroy(a);
  sn_graph_destroy(b);
  sn_ctx_destroy(ctx);
}

/* A mistake of the caller, said before anything is compiled. */
TEST(a_folder_that_is_none) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  sn_graph *g = build(ctx, 2);
  const char *file = test_scratch("no folder");
  FILE *f = fopen(file, "w");
  REQUIRE(f != NULL);
  fclose(f);
  const char *const paths[] = {"/no/such/folder", "", file};
  for (size_t i = 0; i < COUNT_OF(paths); i++) {
    compile_options o = {.cache = paths[i]};
    compiled c;
    CHECK_EQ_INT(compile_graph(g, &o, &c), SN_ERR_NOT_FOUND);
    CHECK(c.program == NULL);
    CHECK_STR_HAS(sn_ctx_message(ctx), paths[i]);
  }
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

/* --- sessions on files that are not what they should be --- */

/* A session of the graph with a plan in a folder of its own. */
typedef struct kept {
  sn_ctx *ctx;
  sn_graph *g;
  sn_store *store;
  char path[1024];     /* of the plan */
  unsigned char *plan; /* its bytes as they should be */
  size_t size;
  sn_session_options options;
} kept;

static const float x_values[2][3] = {{1, -2, 3}, {0.5f, 4, -1}};

/* Makes a session, and whether it gives what is right; *out_from_cache: it took the file. */
static bool session_works(kept *k, bool *out_from_cache) {
  sn_session *session;
  float y[2][4], sum[2] = {0};
  *out_from_cache = false;
  if (sn_session_create(k->g, k->store, &k->options, &session) != SN_OK)
    return test_fail_(TEST_AT_, "no session: %s", sn_ctx_message(k->ctx));
  *out_from_cache = sn_session_get_stats(session).from_cache;
  bool ok = CHECK(sn_session_bind(session, "n", 2) == SN_OK &&
                  sn_session_write(session, "x", x_values, sizeof x_values) == SN_OK &&
                  sn_session_run(session) == SN_OK &&
                  sn_session_read(session, "y", y, sizeof y) == SN_OK);
  for (int i = 0; ok && i < 8; i++)
    sum[i / 4] += y[i / 4][i % 4];
  sn_session_destroy(session);
  return ok && CHECK_NEAR(sum[0], 1, 1e-5) && CHECK_NEAR(sum[1], 1, 1e-5);
}

static bool file_is_right(const kept *k) { return files_hold(k->path, k->plan, k->size); }

static bool kept_start(kept *k) {
  static char bytes[1 << 16], shm[32];
  bool from_cache;
  char name[CACHE_NAME];
  strcpy(shm, "/dev/shm/sinew-test-XXXXXX");
  *k = (kept){.options = {.device = "cpu", .threads = 1}};
  /* In memory where there is such a place: each plan that is written is synced. */
  (void)!mkdtemp(shm);
  k->options.plan_cache = files_count(shm) == 0 ? shm : files_new_folder("kept");
  if (!CHECK(sn_ctx_create(NULL, &k->ctx) == SN_OK && (k->g = build(k->ctx, -1)) != NULL &&
             sn_store_create(k->ctx, &k->store) == SN_OK &&
             sn_store_init(k->store, k->g, 1) == SN_OK && session_works(k, &from_cache)))
    return false;
  CHECK(!from_cache && session_works(k, &from_cache) && from_cache);
  CHECK_EQ_INT(files_count(k->options.plan_cache), 1);
  CHECK_EQ_INT(cache_name(k->g, &(compile_options){.device = "cpu"}, name), SN_OK);
  snprintf(k->path, sizeof k->path, "%s/%s", k->options.plan_cache, name);
  FILE *f = fopen(k->path, "rb");
  if (!CHECK(f != NULL))
    return false;
  k->size = fread(bytes, 1, sizeof bytes, f);
  k->plan = (unsigned char *)bytes;
  fclose(f);
  return CHECK(k->size > 100 && k->size < sizeof bytes);
}

static void kept_end(kept *k) {
  sn_store_destroy(k->store);
  sn_graph_destroy(k->g);
  sn_ctx_destroy(k->ctx);
  files_remove_folder(k->options.plan_cache);
}

/* With these bytes in the file: a session works, and leaves a file that the next one takes. What was read of a broken plan may
 * leave expressions in the graph, so that the new file has other bytes for the same plan. */
static bool check_bytes(kept *k, const void *bytes, size_t size, bool *out_from_cache) {
  bool again;
  files_put(k->path, bytes, size);
  return session_works(k, out_from_cache) &&
         (*out_from_cache || file_is_right(k) || (session_works(k, &again) && CHECK(again)));
}

/* The hash of what follows the header, set right. */
static void rehash(unsigned char *bytes, size_t size) {
  uint64_t hash = hash_bytes(HASH_SEED, bytes + 24, size - 24);
  for (unsigned i = 0; i < 8; i++)
    bytes[16 + i] = (unsigned char)(hash >> (8 * i));
}

TEST(every_byte_may_be_damaged) {
  static const unsigned char flips[] = {0x01, 0x80, 0xff};
  kept k;
  bool from_cache;
  if (!kept_start(&k))
    return;
  unsigned char *bytes = malloc(k.size);
  REQUIRE(bytes != NULL);
  for (size_t at = 0; at < k.size && !test_failed(); at++) {
    memcpy(bytes, k.plan, k.size);
    bytes[at] ^= flips[at % COUNT_OF(flips)];
    if (at < 24 || at % 4 == 0) /* behind the header the hash finds them all alike */
      CHECK(check_bytes(&k, bytes, k.size, &from_cache) && !from_cache);
    if (at < 24)
      continue;
    /* Forged: the hash fits. */
    rehash(bytes, k.size);
    (void)check_bytes(&k, bytes, k.size, &from_cache);
    if (test_failed())
      FAIL("with byte %zu of %zu changed by 0x%02x", at, k.size, flips[at % COUNT_OF(flips)]);
  }
  for (size_t n = 0; n < k.size && !test_failed(); n += n < 32 ? 1 : 13)
    CHECK(check_bytes(&k, k.plan, n, &from_cache) && !from_cache);
  memcpy(bytes, k.plan, k.size);
  free(bytes);
  CHECK(session_works(&k, &from_cache) && from_cache);
  kept_end(&k);
}

/* Sizes that a proof of what runs do has no reason to refuse. */
static void forge_arena(program *p) { p->arena_bytes = INT64_C(1) << 50; }
static void forge_prepared(program *p) { p->prepared_bytes = INT64_C(1) << 50; }
static void forge_negative(program *p) { p->prepared_bytes = INT64_MIN; }
static void forge_most(program *p) { p->arena_bytes = p->prepared_bytes = INT64_MAX; }
static void forge_offset(program *p) {
  for (uint32_t v = 1; v < p->n_values; v++)
    if (p->values[v].home == HOME_ARENA)
      p->values[v].offset += INT64_C(1) << 45;
  p->arena_bytes += INT64_C(1) << 45;
}
static void forge_room(program *p) {
  for (uint32_t v = 1; v < p->n_values; v++)
    p->values[v].bytes += INT64_C(1) << 45;
  p->arena_bytes += INT64_C(1) << 50;
}

TEST_WALK(forged_sizes_are_not_asked_for) {
  static const struct {
    const char *name;
    void (*forge)(program *p);
  } cases[] = {{"arena", forge_arena}, {"prepared", forge_prepared}, {"negative", forge_negative},
               {"most", forge_most},   {"offset", forge_offset},     {"room", forge_room}};
  kept k;
  if (!kept_start(&k))
    return;
  const char *name = strrchr(k.path, '/') + 1;
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    compiled c;
    bool from_cache;
    if (!test_begin("%s", cases[i].name))
      continue;
    if (CHECK_EQ_INT(compile_graph(k.g, &(compile_options){.device = "cpu"}, &c), SN_OK)) {
      cases[i].forge(c.program);
      CHECK_EQ_INT(cache_save(k.options.plan_cache, name, c.program, k.ctx), SN_OK);
      CHECK(!file_is_right(&k));
      CHECK(session_works(&k, &from_cache) && !from_cache);
      CHECK(file_is_right(&k));
      compile_destroy(&c);
    }
    test_end();
  }
  kept_end(&k);
}

/* An allocator that has nothing for whoever asks for much. */
static void *resize_small(void *user, void *ptr, size_t old_size, size_t new_size) {
  (void)user, (void)old_size;
  if (new_size > 4 << 20)
    return NULL;
  if (new_size)
    return realloc(ptr, new_size);
  free(ptr);
  return NULL;
}

/* A file of 200 MB, with the right length in its header, on a system that has less: no error, and not the session's. */
TEST(a_file_larger_than_memory_counts_as_broken) {
  kept k;
  bool from_cache;
  if (!kept_start(&k))
    return;
  sn_allocator own = k.ctx->allocator;
  unsigned char header[24];
  const uint64_t length = 200000000;
  memcpy(header, k.plan, sizeof header);
  for (unsigned i = 0; i < 8; i++)
    header[8 + i] = (unsigned char)(length >> (8 * i));
  files_put(k.path, header, sizeof header);
  files_extend(k.path, sizeof header + length);
  k.ctx->allocator = (sn_allocator){resize_small, NULL};
  CHECK(session_works(&k, &from_cache) && !from_cache);
  k.ctx->allocator = own;
  CHECK(file_is_right(&k));
  kept_end(&k);
}

TEST(what_is_no_file_is_not_waited_for) {
  kept k;
  bool from_cache;
  if (!kept_start(&k))
    return;
  CHECK(remove(k.path) == 0 && mkfifo(k.path, 0600) == 0);
  CHECK(session_works(&k, &from_cache) && !from_cache);
  CHECK(remove(k.path) == 0 && mkdir(k.path, 0700) == 0);
  CHECK(session_works(&k, &from_cache) && !from_cache);
  CHECK_EQ_INT(remove(k.path), 0);
  files_link("/dev/zero", k.path);
  CHECK(session_works(&k, &from_cache) && !from_cache);
  CHECK_EQ_INT(remove(k.path), 0);
  files_link(k.path, k.path);
  CHECK(session_works(&k, &from_cache) && !from_cache);
  CHECK_EQ_INT(remove(k.path), 0);
  files_put(k.path, k.plan, k.size);
  CHECK_EQ_INT(chmod(k.path, 0), 0); /* root reads it all the same */
  CHECK(session_works(&k, &from_cache) && (from_cache || file_is_right(&k)));
  CHECK_EQ_INT(chmod(k.path, 0600), 0);
  CHECK(session_works(&k, &from_cache) && from_cache);
  CHECK_EQ_INT(files_count(k.options.plan_cache), 1);
  kept_end(&k);
}
