/* Runs the kept corpora through the fuzzers' entry points, so that they hold without a fuzzer. */
#define LLVMFuzzerTestOneInput fuzz_json
#define demand                 demand_json
#include "fuzz/fuzz_json.c"
#undef LLVMFuzzerTestOneInput
#undef demand
#define LLVMFuzzerTestOneInput fuzz_safetensors
#define demand                 demand_safetensors
#include "fuzz/fuzz_safetensors.c"
#undef LLVMFuzzerTestOneInput

#include "base/file.h"
#include "support/test.h"

#include <dirent.h>

static void run_file(const char *folder, const char *name,
                     int (*entry)(const uint8_t *bytes, size_t size)) {
  char path[1024];
  sn_ctx *ctx;
  void *data;
  size_t size;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK_EQ_INT(file_read_all(ctx, path, 1 << 20, &data, &size), SN_OK)) {
    CHECK_EQ_INT(entry(data, size), 0);
    mem_free(ctx, data, size);
  }
  sn_ctx_destroy(ctx);
}

/* Returns how many files there are. */
static int run_folder(const char *relative, int (*entry)(const uint8_t *bytes, size_t size)) {
  const char *folder = test_source(relative);
  DIR *dir = opendir(folder);
  int n = 0;
  if (!CHECK(dir != NULL))
    return 0;
  for (struct dirent *e; (e = readdir(dir));) {
    if (e->d_name[0] == '.')
      continue;
    n++;
    if (!test_begin("%s", e->d_name))
      continue;
    run_file(folder, e->d_name, entry);
    test_end();
  }
  closedir(dir);
  return n;
}

TEST_WALK(json) { CHECK(run_folder("tests/fuzz/corpus/json", fuzz_json) >= 24); }

TEST_WALK(safetensors) {
  CHECK(run_folder("tests/fuzz/corpus/safetensors", fuzz_safetensors) >= 24);
}
