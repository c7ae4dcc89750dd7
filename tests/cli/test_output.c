/* Files that commands write and read: names of temporaries, and what is no text. */
#include "cli/cli.h"
#include "support/files.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sn_status write_word(FILE *out, void *user) {
  fputs(user, out);
  return SN_OK;
}

/* Commands of one process number, killed again and again, as in containers. */
TEST(names_left_behind_do_not_run_out) {
  sn_ctx *ctx;
  char path[1024], name[1024], word[] = "word";
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = files_new_folder("output");
  for (int i = 0; i < 100; i++) {
    snprintf(name, sizeof name, "out.%ld.tmp", (long)getpid() + i);
    files_put_text(files_in(folder, name), "left");
  }
  snprintf(path, sizeof path, "%s", files_in(folder, "out"));
  CHECK_EQ_INT(cli_check_output(ctx, path), SN_OK);
  CHECK_EQ_INT(cli_write_output(ctx, path, write_word, word), SN_OK);
  CHECK(files_hold(path, "word", 4));
  CHECK_EQ_INT(files_count(folder), 101);
  files_remove_folder(folder);
  sn_ctx_destroy(ctx);
}

TEST(texts_are_read_whole_or_refused) {
  sn_ctx *ctx;
  char *text;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *path = test_scratch("text");
  static char bytes[10000];
  memset(bytes, 'a', sizeof bytes);
  for (size_t n = 0; n <= sizeof bytes; n += n ? n : 1) {
    files_put(path, bytes, n);
    if (CHECK_EQ_INT(cli_read_text(ctx, path, n, &text), SN_OK)) {
      CHECK_EQ_UINT(strlen(text), n);
      free(text);
    }
    if (n)
      CHECK_EQ_INT(cli_read_text(ctx, path, n - 1, &text), SN_ERR_FORMAT);
  }
  CHECK_EQ_INT(cli_read_text(ctx, "/dev/zero", sizeof bytes, &text), SN_ERR_FORMAT);
  CHECK(text == NULL);
  char lines[] = "one\n\nthree", *rest = lines;
  CHECK_EQ_STR(cli_next_line(&rest), "one");
  CHECK_EQ_STR(cli_next_line(&rest), "");
  CHECK_EQ_STR(cli_next_line(&rest), "three");
  CHECK(cli_next_line(&rest) == NULL);
  sn_ctx_destroy(ctx);
}
