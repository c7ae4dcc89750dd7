/* The plan cache: a plan is found again, and whatever lies in its place that is not that plan changes nothing. */
#include "compile/cache.h"
#include "support/test.h"

#include <sinew/ops.h>
#include <stdio.h>
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
