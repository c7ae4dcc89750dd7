/* Replays a fuzzer's kept corpus as an ordinary test, with any compiler: each input whole, and cut
 * short at a few places. Linked with one tests/fuzz/fuzz_<name>.c; FUZZ_NAME says which. */
#include "support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Copies the input to a block of just its size, so that a sanitizer sees a read past its end. */
static void feed(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size ? size : 1);
  REQUIRE(copy != NULL);
  if (size)
    memcpy(copy, data, size);
  CHECK_EQ_INT(LLVMFuzzerTestOneInput(copy, size), 0);
  free(copy);
}

static void replay(const char *path) {
  static uint8_t data[1 << 20];
  FILE *file = fopen(path, "rb");
  REQUIRE(file != NULL);
  size_t size = fread(data, 1, sizeof data, file);
  CHECK(feof(file));
  fclose(file);
  feed(data, size);
  for (int eighth = 0; eighth < 8; eighth++)
    feed(data, size * (size_t)eighth / 8);
}

TEST(empty_input) { feed(NULL, 0); }

TEST_WALK(corpus) {
  const char *folder_path = test_source("tests/fuzz/corpus/" FUZZ_NAME);
  DIR *folder = opendir(folder_path);
  if (!folder)
    SKIP("no corpus is kept for this fuzzer");
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.' || !test_begin("%s", entry->d_name))
      continue;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder_path, entry->d_name);
    replay(path);
    test_end();
  }
  closedir(folder);
}
