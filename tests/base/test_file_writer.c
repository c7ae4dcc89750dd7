/* Tests of the atomic writer of base/file.h: replacing, refusing, faults at every step, kills. */
#include "base/file.h"
#include "support/fault.h"
#include "support/files.h"
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_descriptors(void) {
  int n = 0;
  for (int fd = 0; fd < 256; fd++)
    n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

/* The new content: larger than the writer's buffer, written in uneven parts. */
enum { NEW_SIZE = 150000 };

static const char *new_content(void) {
  static char bytes[NEW_SIZE];
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (char)(i * 7 + i / 256);
  return bytes;
}

static sn_status write_new(sn_ctx *ctx, const char *path) {
  static const size_t parts[] = {0, 1, 1000, 65535, 65536, 1, 17000, 927};
  const char *bytes = new_content();
  file_writer *w;
  size_t done = 0;
  SN_TRY(file_writer_create(ctx, path, &w));
  sn_status status = SN_OK;
  for (size_t i = 0; i < COUNT_OF(parts) && status == SN_OK; done += parts[i++])
    status = file_writer_write(w, bytes + done, parts[i]);
  return file_writer_end(w, status);
}

TEST(writes_new_and_replaces_old_files) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = files_new_folder("write");
  const char *path = files_in(folder, "file");
  CHECK_EQ_INT(write_new(ctx, path), SN_OK);
  CHECK(files_hold(path, new_content(), NEW_SIZE));
  files_put(path, "old", 3);
  CHECK_EQ_INT(chmod(path, 0640), 0);
  CHECK_EQ_INT(write_new(ctx, path), SN_OK);
  CHECK(files_hold(path, new_content(), NEW_SIZE));
  struct stat info;
  CHECK_EQ_INT(stat(path, &info), 0);
  CHECK_EQ_INT(info.st_mode & 0777, 0640);
  CHECK_EQ_INT(files_count(folder), 1);
  file_writer *w;
  REQUIRE(file_writer_create(ctx, path, &w) == SN_OK);
  CHECK_EQ_INT(file_writer_write(w, "half", 4), SN_OK);
  CHECK_EQ_INT(files_count(folder), 2);
  file_writer_abort(w);
  file_writer_abort(NULL);
  REQUIRE(file_writer_create(ctx, path, &w) == SN_OK);
  CHECK_EQ_INT(file_writer_end(w, SN_ERR_CANCELLED), SN_ERR_CANCELLED);
  CHECK(files_hold(path, new_content(), NEW_SIZE));
  CHECK_EQ_INT(files_count(folder), 1);
  unlink(path);
  rmdir(folder);
  sn_ctx_destroy(ctx);
}

TEST(writes_relative_paths) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = files_new_folder("relative");
  char *before = getcwd(NULL, 0);
  REQUIRE(before && chdir(folder) == 0);
  CHECK_EQ_INT(write_new(ctx, "plain"), SN_OK);
  CHECK(files_hold("plain", new_content(), NEW_SIZE));
  unlink("plain");
  CHECK_EQ_INT(chdir(before), 0);
  free(before);
  CHECK_EQ_INT(rmdir(folder), 0);
  sn_ctx_destroy(ctx);
}

TEST(refuses_what_is_not_a_file) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  file_writer *w;
  const char *folder = files_new_folder("refuse");
  CHECK_EQ_INT(file_writer_create(ctx, "", &w), SN_ERR_INVALID);
  CHECK_EQ_INT(file_writer_create(ctx, folder, &w), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(ctx), "it is a folder");
  CHECK_EQ_INT(file_writer_create(ctx, files_in(folder, ""), &w), SN_ERR_INVALID);
  CHECK_EQ_INT(file_writer_create(ctx, "/dev/null", &w), SN_ERR_INVALID);
  CHECK_EQ_INT(file_writer_create(ctx, files_in(folder, "no/file"), &w), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(ctx), "no/file: cannot open the folder");
  char name[400];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  CHECK_EQ_INT(file_writer_create(ctx, files_in(folder, name), &w), SN_ERR_IO);
  CHECK(w == NULL);
  CHECK_EQ_INT(files_count(folder), 0);
  rmdir(folder);
  sn_ctx_destroy(ctx);
}

TEST(names_left_behind_are_passed_over) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = files_new_folder("behind");
  char left[64];
  for (int i = 0; i < 3; i++) {
    snprintf(left, sizeof left, ".sinew-%ld-%d.tmp", (long)getpid(), i);
    files_put(files_in(folder, left), "left", 4);
  }
  CHECK_EQ_INT(write_new(ctx, files_in(folder, "file")), SN_OK);
  CHECK_EQ_INT(files_count(folder), 4);
  CHECK(files_hold(files_in(folder, left), "left", 4));
  files_remove(folder, ".sinew-");
  unlink(files_in(folder, "file"));
  rmdir(folder);
  sn_ctx_destroy(ctx);
}

/* Each operation fails once, in turn, with and without an old file. */
static void check_write_faults(bool old) {
  const char *folder = files_new_folder(old ? "faults" : "faults_new");
  const char *path = files_in(folder, "file");
  int descriptors = open_descriptors();
  bool done = false;
  for (int64_t at = 1; !done; at++) {
    if (old)
      files_put(path, "old content", 11);
    fault_heap heap = {0};
    sn_ctx *ctx = fault_ctx(&heap);
    fault_io io = {.only = -1, .at = at, .error = ENOSPC};
    fault_io_install(ctx, &io);
    sn_status status = write_new(ctx, path);
    bool renamed = io.failed && io.count == at && io.last == IO_CLOSE;
    if (!io.failed) {
      CHECK_EQ_INT(status, SN_OK);
      done = true;
    } else if (status == SN_OK) { /* only closing the folder, the last operation, may be ignored */
      CHECK(renamed);
    } else {
      CHECK_EQ_INT(status, SN_ERR_IO);
      CHECK_STR_HAS(sn_ctx_message(ctx), "file: cannot ");
      CHECK_STR_HAS(sn_ctx_message(ctx), "No space left");
    }
    bool in_place = strstr(sn_ctx_message(ctx), "the new content is in place") != NULL;
    if (status == SN_OK || in_place)
      CHECK(files_hold(path, new_content(), NEW_SIZE));
    else if (old)
      CHECK(files_hold(path, "old content", 11));
    CHECK_EQ_INT(files_count(folder), old || status == SN_OK || in_place);
    unlink(path);
    sn_ctx_destroy(ctx);
    CHECK_EQ_INT(heap.blocks, 0);
    CHECK_EQ_INT(heap.bad_sizes, 0);
    if (!CHECK(at < 100))
      break;
  }
  CHECK_EQ_INT(open_descriptors(), descriptors);
  rmdir(folder);
}

TEST(failed_writes_leave_the_old_file_whole) {
  check_write_faults(true);
  check_write_faults(false);
}

TEST(failed_allocations_leave_the_old_file_whole) {
  const char *folder = files_new_folder("memory");
  const char *path = files_in(folder, "file");
  files_put(path, "old", 3);
  fault_heap heap = {0};
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    if (!ctx)
      continue;
    sn_status status = write_new(ctx, path);
    CHECK_EQ_INT(status, heap.failed ? SN_ERR_NO_MEMORY : SN_OK);
    if (heap.failed)
      CHECK(files_hold(path, "old", 3));
    CHECK_EQ_INT(files_count(folder), 1);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
  CHECK(heap.fail_at > 3);
  unlink(path);
  rmdir(folder);
}

/* A child writes and dies before the at-th operation of a kind; 42 when it did die there. */
static int run_killed(const char *path, int op, int64_t at) {
  pid_t child = fork();
  if (child == 0) {
    sn_ctx *ctx;
    if (sn_ctx_create(NULL, &ctx) != SN_OK)
      _exit(2);
    fault_io io = {.only = op, .at = at, .kill = true};
    fault_io_install(ctx, &io);
    _exit(write_new(ctx, path) == SN_OK ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                               : -1;
}

TEST(killed_writers_leave_the_old_file_whole) {
  static const int ops[] = {IO_OPEN, IO_WRITE, IO_FSYNC, IO_CLOSE, IO_RENAME};
  const char *folder = files_new_folder("killed");
  const char *path = files_in(folder, "file");
  int kills = 0;
  for (size_t i = 0; i < COUNT_OF(ops); i++) {
    for (int64_t at = 1;; at++) {
      files_put(path, "old content", 11);
      int code = run_killed(path, ops[i], at);
      bool renamed = at > 1 && (ops[i] == IO_FSYNC || ops[i] == IO_CLOSE);
      if (code == 42 && !renamed)
        CHECK(files_hold(path, "old content", 11));
      else
        CHECK(files_hold(path, new_content(), NEW_SIZE));
      if (code != 42) {
        CHECK_EQ_INT(code, 0);
        break;
      }
      kills++;
    }
  }
  CHECK(kills >= 10);
  files_remove(folder, ".sinew-");
  CHECK_EQ_INT(files_count(folder), 1);
  unlink(path);
  rmdir(folder);
}

/* A limit on file sizes makes write() first short, then fail, as a full disk does; here within the
 * last write, so that a writer which takes short for done would commit. */
TEST(a_short_write_is_continued_and_then_fails) {
  const char *folder = files_new_folder("short");
  const char *path = files_in(folder, "file");
  files_put(path, "old", 3);
  pid_t child = fork();
  if (child == 0) {
    sn_ctx *ctx;
    struct rlimit limit = {NEW_SIZE - 1000, NEW_SIZE - 1000};
    signal(SIGXFSZ, SIG_IGN);
    if (sn_ctx_create(NULL, &ctx) != SN_OK || setrlimit(RLIMIT_FSIZE, &limit) != 0)
      _exit(2);
    sn_status status = write_new(ctx, path);
    bool told = strstr(sn_ctx_message(ctx), "file: cannot write: File too large") != NULL;
    _exit(status == SN_ERR_IO && told ? 0 : 1);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK_EQ_INT(status, 0);
  CHECK(files_hold(path, "old", 3));
  CHECK_EQ_INT(files_count(folder), 1);
  unlink(path);
  rmdir(folder);
}

TEST(interrupted_writes_are_repeated) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *path = test_scratch("interrupted");
  static const int ops[] = {IO_OPEN, IO_WRITE, IO_FSYNC};
  for (size_t i = 0; i < COUNT_OF(ops); i++) {
    fault_io io = {.only = ops[i], .at = 2, .error = EINTR};
    fault_io_install(ctx, &io);
    CHECK_EQ_INT(write_new(ctx, path), SN_OK);
    CHECK_EQ_INT(io.failed, 1);
    CHECK(files_hold(path, new_content(), NEW_SIZE));
  }
  sn_ctx_destroy(ctx);
}

TEST(write_errors_are_sticky) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = files_new_folder("sticky");
  file_writer *w;
  fault_io io = {.only = IO_WRITE, .at = 1, .error = ENOSPC};
  fault_io_install(ctx, &io);
  REQUIRE(file_writer_create(ctx, files_in(folder, "file"), &w) == SN_OK);
  CHECK_EQ_INT(file_writer_write(w, new_content(), NEW_SIZE), SN_ERR_IO);
  CHECK_EQ_INT(file_writer_write(w, "x", 1), SN_ERR_IO);
  CHECK_EQ_INT(file_writer_end(w, SN_OK), SN_ERR_IO);
  CHECK_EQ_INT(io.count, 1);
  CHECK_EQ_INT(files_count(folder), 0);
  rmdir(folder);
  sn_ctx_destroy(ctx);
}
