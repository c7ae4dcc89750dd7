/* How much memory there is: from files of a system made up here, from the real one, and what is said when it is not enough. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "base/memory.h"
#include "support/fixture.h"
#include "support/test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define GB INT64_C(1000000000)

/* A file below the made-up root, with the folders on the way. */
static void put(const char *root, const char *path, const char *text) {
  char full[1024];
  snprintf(full, sizeof full, "%s%s", root, path);
  for (char *c = full + strlen(root) + 1; *c; c++)
    if (*c == '/') {
      *c = '\0';
      mkdir(full, 0777);
      *c = '/';
    }
  FILE *f = fopen(full, "w");
  if (CHECK(f != NULL)) {
    fputs(text, f);
    fclose(f);
  }
}

static const char *new_root(const char *name) {
  const char *root = test_scratch(name);
  mkdir(root, 0777);
  return root;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
  (void)st;
  (void)kind;
  (void)at;
  return remove(path);
}
static void remove_root(const char *root) { nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

TEST(of_the_machine) {
  const char *root = new_root("machine");
  CHECK_EQ_INT(memory_available_under(root), INT64_MAX); /* nothing is told */
  put(root, "/proc/meminfo", "MemTotal:  9000 kB\nMemFree: 100 kB\nMemAvailable:   2000 kB\n");
  CHECK_EQ_INT(memory_available_under(root), 2000 * 1024);
  put(root, "/proc/meminfo", "MemAvailable:   2000 kB\nHugePages_Total:  0\nSwapFree:  500 kB\n");
  CHECK_EQ_INT(memory_available_under(root), 2500 * 1024);
  put(root, "/proc/meminfo", "MemTotal: 4000 kB\nSwapFree: 1 kB\n"); /* an old system */
  CHECK_EQ_INT(memory_available_under(root), INT64_MAX);
  remove_root(root);
}

TEST(of_control_groups) {
  const char *root = new_root("groups");
  put(root, "/proc/meminfo", "MemAvailable:   9000000 kB\n");
  put(root, "/proc/self/cgroup", "0::/outer/inner\n");
  put(root, "/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  put(root, "/sys/fs/cgroup/outer/memory.max", "7000\n");
  put(root, "/sys/fs/cgroup/outer/memory.current", "1500\n");
  put(root, "/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  put(root, "/sys/fs/cgroup/outer/inner/memory.current", "1000\n");
  CHECK_EQ_INT(memory_available_under(root), 5500);
  put(root, "/sys/fs/cgroup/outer/inner/memory.max", "4000\n");
  CHECK_EQ_INT(memory_available_under(root), 3000);
  put(root, "/sys/fs/cgroup/outer/inner/memory.stat", "anon 100\nfile 600\nkernel 7\n");
  CHECK_EQ_INT(memory_available_under(root), 3600);
  put(root, "/sys/fs/cgroup/outer/inner/memory.max", "500\n"); /* lowered under its feet */
  put(root, "/sys/fs/cgroup/outer/inner/memory.stat", "");
  CHECK_EQ_INT(memory_available_under(root), 0);
  remove_root(root);
}

TEST(of_control_groups_of_version_1) {
  const char *root = new_root("groups1");
  put(root, "/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/a/b\n3:mem:/c\n");
  put(root, "/sys/fs/cgroup/memory/cgroup.procs", "1\n");
  put(root, "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "8000\n");
  put(root, "/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "5000\n");
  put(root, "/sys/fs/cgroup/memory/a/b/memory.stat", "cache 1\ntotal_cache 2000\n");
  CHECK_EQ_INT(memory_available_under(root), 5000);
  put(root, "/proc/self/cgroup", "4:memory:/not/seen/from/here\n");
  put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "900\n");
  put(root, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n");
  CHECK_EQ_INT(memory_available_under(root), 800);
  remove_root(root);
}

TEST(of_this_system) {
  int64_t n = memory_available();
  CHECK(n > 1 << 20);
  CHECK(n == INT64_MAX || n < INT64_C(1) << 50);
}

TEST(messages_have_both_numbers) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  CHECK_EQ_INT(memory_check(ctx, "the arena", 1000, 1000), SN_OK);
  CHECK_EQ_INT(memory_check(ctx, "the arena", 0, 0), SN_OK);
  CHECK_EQ_INT(memory_check(ctx, "the arena", SIZE_MAX / 2, INT64_MAX), SN_OK);
  CHECK_EQ_INT(memory_check(ctx, "the arena", 1001, 1000), SN_ERR_NO_MEMORY);
  CHECK_EQ_STR(sn_ctx_message(ctx),
               "the arena needs 1.00 kB (1001 bytes), 1.00 kB (1000 bytes) are available");
  CHECK_EQ_INT(memory_check(ctx, "it", (size_t)(6400 * GB), 20123456789), SN_ERR_NO_MEMORY);
  CHECK_EQ_STR(sn_ctx_message(ctx), "it needs 6.40 TB (6400000000000 bytes), 20.1 GB (20123456789 "
                                    "bytes) are available");
  CHECK_EQ_INT(memory_check(ctx, "it", SIZE_MAX, 0), SN_ERR_NO_MEMORY);
  CHECK_EQ_STR(sn_ctx_message(ctx),
               "it needs 18.4 EB (18446744073709551615 bytes), 0.00 B (0 bytes) are available");
  CHECK_EQ_INT(memory_expect(ctx, "it", SIZE_MAX), SN_ERR_NO_MEMORY);
  CHECK_EQ_INT(memory_expect(ctx, "it", 5), SN_OK);
  sn_ctx_destroy(ctx);
}

/* --- through sessions: sizes that no machine has --- */

static void check_refused(fixture *f, const char *what, const char *bytes) {
  sn_session *s = NULL;
  CHECK_EQ_INT(sn_session_create(f->g, f->store, &(sn_session_options){.threads = 1}, &s),
               SN_ERR_NO_MEMORY);
  CHECK(s == NULL);
  CHECK_STR_HAS(sn_ctx_message(f->ctx), what);
  CHECK_STR_HAS(sn_ctx_message(f->ctx), bytes);
  CHECK_STR_HAS(sn_ctx_message(f->ctx), "are available");
}

/* A million rows of a million, which a sort needs as they are: 4 TB. */
TEST(a_graph_too_large_for_any_machine) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_value x = sn_input(f.g, "x", SN_F32, SN_SHAPE(1000000, 8));
  sn_value y = sn_sort(f.g, sn_matmul(f.g, x, x, false, true), 1, false);
  sn_output(f.g, "y", sn_sum(f.g, y, SN_ALL_AXES, false));
  check_refused(&f, "the arena needs ", " TB (");
  fixture_end(&f);
}

TEST(a_state_too_large_for_any_machine) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_type type = {SN_F32, SN_SHAPE(1000000, 1000000)};
  CHECK_EQ_INT(sn_store_add(f.store, "w", type, NULL), SN_ERR_NO_MEMORY);
  CHECK_STR_HAS(sn_ctx_message(f.ctx),
                "store: entry \"w\": it needs 4.00 TB (4000000000000 bytes), ");
  fixture_end(&f);
}

TEST(an_output_too_large_for_any_machine) {
  fixture f;
  REQUIRE(fixture_start(&f));
  sn_value x = sn_input(f.g, "x", SN_F32, SN_SHAPE(1000000, 1));
  float *zeros = calloc(1000000, sizeof *zeros);
  sn_output(f.g, "y", sn_matmul(f.g, x, x, false, true));
  REQUIRE(fixture_ready(&f, NULL));
  CHECK_EQ_INT(sn_session_write(f.session, "x", zeros, 1000000 * sizeof *zeros), SN_OK);
  CHECK_EQ_INT(sn_session_run(f.session), SN_ERR_NO_MEMORY);
  CHECK_STR_HAS(sn_ctx_message(f.ctx), "output \"y\": a buffer needs 4.00 TB (4000000");
  free(zeros);
  fixture_end(&f);
}
