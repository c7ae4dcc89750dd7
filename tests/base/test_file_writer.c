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
#include <sys/file.h>
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

/* Names as writers make them. */
#define DEAD   ".sinew-0123456789abcdef.tmp"
#define LIVING ".sinew-fedcba9876543210.tmp"

TEST(what_dead_writers_left_is_removed) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = files_new_folder("behind");
  /* Names that others may have made, and things that no writer makes. */
  static const char *const foreign[] = {".sinew-1-0.tmp",
                                        ".sinew-0123456789abcdef.unlocked.tmp",
                                        ".sinew-0123456789abcde.tmp",
                                        ".sinew-0123456789abcdef0.tmp",
                                        "sinew-0123456789abcdef.tmp",
                                        ".sinew-0123456789abcdeg.tmp",
                                        ".sinew-0123456789abcdef.tmp.safetensors"};
  for (size_t i = 0; i < COUNT_OF(foreign); i++)
    files_put(files_in(folder, foreign[i]), "left", 4);
  files_put(files_in(folder, DEAD), "dead", 4);
  CHECK_EQ_INT(chmod(files_in(folder, DEAD), 0400), 0);
  files_put(files_in(folder, LIVING), "living", 6);
  int living = open(files_in(folder, LIVING), O_RDONLY);
  CHECK_EQ_INT(flock(living, LOCK_EX), 0);
  CHECK_EQ_INT(mkdir(files_in(folder, ".sinew-00000000000000d1.tmp"), 0777), 0);
  CHECK_EQ_INT(mkfifo(files_in(folder, ".sinew-00000000000000d2.tmp"), 0600), 0);
  CHECK_EQ_INT(symlink(foreign[0], files_in(folder, ".sinew-00000000000000d3.tmp")), 0);
  int others = (int)COUNT_OF(foreign) + 3;
  CHECK_EQ_INT(write_new(ctx, files_in(folder, "file")), SN_OK);
  CHECK(access(files_in(folder, DEAD), F_OK) != 0);
  CHECK(files_hold(files_in(folder, LIVING), "living", 6));
  CHECK_EQ_INT(files_count(folder), others + 2);
  close(living);
  CHECK_EQ_INT(write_new(ctx, files_in(folder, "file")), SN_OK);
  CHECK_EQ_INT(files_count(folder), others + 1);
  for (size_t i = 0; i < COUNT_OF(foreign); i++)
    CHECK(files_hold(files_in(folder, foreign[i]), "left", 4));
  rmdir(files_in(folder, ".sinew-00000000000000d1.tmp"));
  files_remove_folder(folder);
  sn_ctx_destroy(ctx);
}

TEST(writers_of_one_folder_leave_each_other_alone) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = files_new_folder("together");
  file_writer *first, *second;
  REQUIRE(file_writer_create(ctx, files_in(folder, "file"), &first) == SN_OK);
  CHECK_EQ_INT(file_writer_write(first, "first", 5), SN_OK);
  REQUIRE(file_writer_create(ctx, files_in(folder, "file"), &second) == SN_OK);
  CHECK_EQ_INT(file_writer_write(second, "second", 6), SN_OK);
  CHECK_EQ_INT(write_new(ctx, files_in(folder, "file")), SN_OK);
  CHECK_EQ_INT(write_new(ctx, files_in(folder, "neighbour")), SN_OK);
  CHECK_EQ_INT(files_count(folder), 4);
  CHECK_EQ_INT(file_writer_end(second, SN_OK), SN_OK);
  CHECK(files_hold(files_in(folder, "file"), "second", 6));
  CHECK_EQ_INT(file_writer_end(first, SN_OK), SN_OK);
  CHECK(files_hold(files_in(folder, "file"), "first", 5));
  CHECK_EQ_INT(files_count(folder), 2);
  files_remove_folder(folder);
  sn_ctx_destroy(ctx);
}

/* Before the at-th operation of one writer a second one writes a whole file in the same folder. */
typedef struct meeting {
  sn_ctx *second;
  const char *path;
  int64_t at, count;
  sn_status status;
} meeting;

static int meet(void *user, io_op op) {
  meeting *m = user;
  (void)op;
  if (++m->count == m->at)
    m->status = write_new(m->second, m->path);
  return 0;
}

TEST(a_writer_may_come_between_any_two_steps_of_another) {
  sn_ctx *ctx, *second;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK && sn_ctx_create(NULL, &second) == SN_OK);
  const char *folder = files_new_folder("between");
  for (int same = 0; same < 2; same++) {
    char path[1024];
    snprintf(path, sizeof path, "%s", files_in(folder, same ? "file" : "neighbour"));
    meeting m = {second, path, 0, 1, SN_OK};
    for (m.at = 1; m.at <= m.count; m.at++) {
      files_put(files_in(folder, DEAD), "dead", 4);
      m.count = 0;
      m.status = SN_ERR_INTERNAL;
      ctx->io_fault = meet;
      ctx->io_fault_user = &m;
      CHECK_EQ_INT(write_new(ctx, files_in(folder, "file")), SN_OK);
      if (!CHECK_EQ_INT(m.status, m.at <= m.count ? SN_OK : SN_ERR_INTERNAL))
        FAIL("%s", sn_ctx_message(second));
      CHECK(files_hold(files_in(folder, "file"), new_content(), NEW_SIZE));
      CHECK_EQ_INT(files_count(folder), 2);
    }
    CHECK(m.count > 15);
  }
  files_remove_folder(folder);
  sn_ctx_destroy(second);
  sn_ctx_destroy(ctx);
}

/* Each operation fails once, in turn, with and without an old file. */
static void check_write_faults(bool old) {
  const char *folder = files_new_folder(old ? "faults" : "faults_new");
  const char *path = files_in(folder, "file");
  int descriptors = open_descriptors();
  bool done = false;
  for (int64_t at = 1; !done; at++) {
    if (old) {
      files_put(path, "old content", 11);
      files_put(files_in(folder, DEAD), "dead", 4);
      path = files_in(folder, "file");
    }
    fault_heap heap = {0};
    sn_ctx *ctx = fault_ctx(&heap);
    fault_io io = {.only = -1, .at = at, .error = ENOSPC};
    fault_io_install(ctx, &io);
    sn_status status = write_new(ctx, path);
    if (!io.failed) {
      CHECK_EQ_INT(status, SN_OK);
      done = true;
    } else if (status ==
               SN_OK) { /* cleaning up after others, locking, and closing what was written */
      CHECK(io.last == IO_OPEN || io.last == IO_LOCK || io.last == IO_UNLINK ||
            io.last == IO_CLOSE);
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
    files_remove(folder, DEAD); /* what could not be removed stays */
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
  const char *folder = files_new_folder("killed");
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  int code = 42, news = 0, left = 0;
  for (int64_t at = 1; code == 42 && CHECK(at < 100); at++) {
    files_put(files_in(folder, "file"), "old content", 11);
    files_put(files_in(folder, DEAD), "dead", 4);
    code = run_killed(files_in(folder, "file"), -1, at);
    CHECK(code == 42 || code == 0);
    bool is_new = files_hold(files_in(folder, "file"), new_content(), NEW_SIZE);
    CHECK(is_new || files_hold(files_in(folder, "file"), "old content", 11));
    CHECK(is_new || (news == 0 && code == 42)); /* from the rename on, and when it was not killed */
    news += is_new;
    left += files_count(folder) > 1;
    /* The next writer, of whatever file, leaves nothing of the dead one. */
    CHECK_EQ_INT(write_new(ctx, files_in(folder, "neighbour")), SN_OK);
    CHECK_EQ_INT(files_count(folder), 2);
  }
  CHECK(news > 1 && left >= 10);
  files_remove_folder(folder);
  sn_ctx_destroy(ctx);
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
