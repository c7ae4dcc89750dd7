/* Tests of src/base/file.h: reading, positioned reading, the atomic writer under faults and kills. */
#include "base/file.h"
#include "support/fault.h"
#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- helpers, on plain stdio --- */

static void put_file(const char *path, const void *bytes, size_t size) {
  FILE *f = fopen(path, "wb");
  REQUIRE(f != NULL);
  CHECK_EQ_UINT(fwrite(bytes, 1, size, f), size);
  fclose(f);
}

/* Whether the file has exactly these bytes. */
static bool has_content(const char *path, const void *bytes, size_t size) {
  static char got[1 << 18];
  FILE *f = fopen(path, "rb");
  if (!f)
    return false;
  size_t n = fread(got, 1, sizeof got, f);
  fclose(f);
  return n == size && memcmp(got, bytes, size) == 0;
}

/* A fresh folder; its path with a file's name behind it. */
static const char *new_folder(const char *name) {
  const char *path = test_scratch(name);
  CHECK_EQ_INT(mkdir(path, 0777), 0);
  return path;
}

static const char *in_folder(const char *folder, const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int entries(const char *folder) {
  DIR *dir = opendir(folder);
  int n = 0;
  if (!dir)
    return -1;
  for (struct dirent *e; (e = readdir(dir));)
    n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
  closedir(dir);
  return n;
}

static void remove_temporaries(const char *folder) {
  DIR *dir = opendir(folder);
  REQUIRE(dir != NULL);
  for (struct dirent *e; (e = readdir(dir));)
    if (strncmp(e->d_name, ".sinew-", 7) == 0)
      unlinkat(dirfd(dir), e->d_name, 0);
  closedir(dir);
}

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

/* --- reading --- */

TEST(reads_whole_files) {
  fault_heap heap = {0};
  sn_ctx *ctx = fault_ctx(&heap);
  const char *path = test_scratch("whole");
  static char bytes[70000];
  memset(bytes, 'q', sizeof bytes);
  static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 70000};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    void *data;
    size_t size;
    put_file(path, bytes, sizes[i]);
    if (!CHECK_EQ_INT(file_read_all(ctx, path, sizes[i], &data, &size), SN_OK))
      continue;
    CHECK_EQ_UINT(size, sizes[i]);
    CHECK_EQ_MEM(data, bytes, size);
    mem_free(ctx, data, size);
    if (!sizes[i])
      continue;
    CHECK_EQ_INT(file_read_all(ctx, path, sizes[i] - 1, &data, &size), SN_ERR_FORMAT);
    CHECK(data == NULL && size == 0);
    CHECK_STR_HAS(sn_ctx_message(ctx), "too long");
  }
  sn_ctx_destroy(ctx);
  CHECK_EQ_INT(heap.blocks, 0);
  CHECK_EQ_INT(heap.bad_sizes, 0);
}

TEST(reads_streams_of_unknown_size) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  char path[64], bytes[20000];
  memset(bytes, 'p', sizeof bytes);
  snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
  CHECK_EQ_INT(write(ends[1], bytes, sizeof bytes), sizeof bytes);
  close(ends[1]);
  fault_heap heap = {0};
  sn_ctx *ctx = fault_ctx(&heap);
  void *data;
  size_t size;
  if (CHECK_EQ_INT(file_read_all(ctx, path, SIZE_MAX, &data, &size), SN_OK)) {
    CHECK_EQ_UINT(size, sizeof bytes);
    CHECK_EQ_MEM(data, bytes, sizeof bytes);
    mem_free(ctx, data, size);
  }
  close(ends[0]);
  REQUIRE(pipe(ends) == 0);
  snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
  CHECK_EQ_INT(write(ends[1], bytes, sizeof bytes), sizeof bytes);
  close(ends[1]);
  CHECK_EQ_INT(file_read_all(ctx, path, 19999, &data, &size), SN_ERR_FORMAT);
  close(ends[0]);
  sn_ctx_destroy(ctx);
  CHECK_EQ_INT(heap.blocks, 0);
  CHECK_EQ_INT(heap.bad_sizes, 0);
}

TEST(missing_and_odd_files_are_errors) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  void *data;
  size_t size;
  file_reader *file;
  const char *folder = new_folder("odd");
  CHECK_EQ_INT(file_read_all(ctx, in_folder(folder, "none"), 10, &data, &size), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(ctx), "odd/none: cannot open: No such file");
  CHECK_EQ_INT(file_read_all(ctx, folder, 10, &data, &size), SN_ERR_IO);
  CHECK_EQ_INT(file_open(ctx, folder, &file), SN_ERR_IO);
  CHECK_STR_HAS(sn_ctx_message(ctx), "expected a regular file, got a folder");
  CHECK(file == NULL);
  const char *fifo = in_folder(folder, "fifo");
  CHECK_EQ_INT(mkfifo(fifo, 0600), 0);
  CHECK_EQ_INT(file_open(ctx, fifo, &file), SN_ERR_IO); /* and does not wait for a writer */
  CHECK_STR_HAS(sn_ctx_message(ctx), "pipe");
  CHECK_EQ_INT(file_open(ctx, "", &file), SN_ERR_NOT_FOUND);
  unlink(fifo);
  rmdir(folder);
  sn_ctx_destroy(ctx);
}

TEST(positioned_reads_are_bounded) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *path = test_scratch("positioned");
  put_file(path, "0123456789", 10);
  file_reader *readers[2];
  REQUIRE(file_open(ctx, path, &readers[0]) == SN_OK);
  REQUIRE(file_open_bytes(ctx, path, "0123456789", 10, &readers[1]) == SN_OK);
  for (int i = 0; i < 2; i++) {
    char got[10] = {0};
    CHECK_EQ_UINT(file_size(readers[i]), 10);
    CHECK_EQ_STR(file_path(readers[i]), path);
    CHECK_EQ_INT(file_read_at(readers[i], 3, got, 4), SN_OK);
    CHECK_EQ_MEM(got, "3456", 4);
    CHECK_EQ_INT(file_read_at(readers[i], 10, got, 0), SN_OK);
    CHECK_EQ_INT(file_read_at(readers[i], 7, got, 4), SN_ERR_FORMAT);
    CHECK_EQ_INT(file_read_at(readers[i], 11, got, 0), SN_ERR_FORMAT);
    CHECK_EQ_INT(file_read_at(readers[i], UINT64_MAX, got, 4), SN_ERR_FORMAT);
    CHECK_STR_HAS(sn_ctx_message(ctx), "the file has 10 bytes");
    CHECK_EQ_INT(file_read_at(readers[i], 0, got, SIZE_MAX), SN_ERR_FORMAT);
  }
  CHECK_EQ_INT(truncate(path, 5), 0); /* shrinks under us */
  char got[10];
  CHECK_EQ_INT(file_read_at(readers[0], 2, got, 8), SN_ERR_IO);
  CHECK_STR_HAS(sn_ctx_message(ctx), "ended at 5");
  file_close(readers[0]);
  file_close(readers[1]);
  file_close(NULL);
  sn_ctx_destroy(ctx);
}

TEST(interrupted_calls_are_repeated) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *path = test_scratch("interrupted");
  for (int op = IO_OPEN; op <= IO_FSYNC; op++) {
    fault_io io = {.only = op, .at = 1, .error = EINTR};
    fault_io_install(ctx, &io);
    CHECK_EQ_INT(write_new(ctx, path), SN_OK);
    CHECK_EQ_INT(io.failed, op != IO_READ);
    CHECK(has_content(path, new_content(), NEW_SIZE));
    io = (fault_io){.only = op, .at = 1, .error = EINTR};
    void *data;
    size_t size;
    if (CHECK_EQ_INT(file_read_all(ctx, path, NEW_SIZE, &data, &size), SN_OK))
      mem_free(ctx, data, size);
    io = (fault_io){.only = op, .at = 1, .error = EINTR};
    file_reader *file;
    char byte;
    if (CHECK_EQ_INT(file_open(ctx, path, &file), SN_OK))
      CHECK_EQ_INT(file_read_at(file, 0, &byte, 1), SN_OK);
    file_close(file);
  }
  sn_ctx_destroy(ctx);
}

/* Every operation failing once, and every allocation: an error, no leak, no descriptor left open. */
TEST(failed_reads_release_everything) {
  const char *path = test_scratch("failing");
  put_file(path, new_content(), NEW_SIZE);
  int descriptors = open_descriptors();
  fault_heap heap = {0};
  fault_io io;
  sn_status status = SN_OK;
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    io = (fault_io){.only = -1};
    if (ctx)
      fault_io_install(ctx, &io);
    void *data = NULL;
    size_t size = 0;
    status = ctx ? file_read_all(ctx, path, NEW_SIZE, &data, &size) : SN_ERR_NO_MEMORY;
    if (status == SN_OK)
      mem_free(ctx, data, size);
    CHECK_EQ_INT(status, heap.failed ? SN_ERR_NO_MEMORY : SN_OK);
    file_reader *file = NULL;
    if (ctx && file_open(ctx, path, &file) == SN_OK)
      file_close(file);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
  for (int64_t at = 1; at <= 4; at++) {
    heap = (fault_heap){0};
    sn_ctx *ctx = fault_ctx(&heap);
    io = (fault_io){.only = -1, .at = at, .error = EIO};
    fault_io_install(ctx, &io);
    void *data;
    size_t size;
    status = file_read_all(ctx, path, NEW_SIZE, &data, &size);
    CHECK_EQ_INT(status, io.last == IO_CLOSE ? SN_OK : SN_ERR_IO);
    CHECK_EQ_INT(io.failed, 1);
    if (status == SN_OK)
      mem_free(ctx, data, size);
    sn_ctx_destroy(ctx);
    CHECK_EQ_INT(heap.blocks, 0);
  }
  CHECK_EQ_INT(open_descriptors(), descriptors);
}

/* --- writing --- */

TEST(writes_new_and_replaces_old_files) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = new_folder("write");
  const char *path = in_folder(folder, "file");
  CHECK_EQ_INT(write_new(ctx, path), SN_OK);
  CHECK(has_content(path, new_content(), NEW_SIZE));
  put_file(path, "old", 3);
  CHECK_EQ_INT(chmod(path, 0640), 0);
  CHECK_EQ_INT(write_new(ctx, path), SN_OK);
  CHECK(has_content(path, new_content(), NEW_SIZE));
  struct stat info;
  CHECK_EQ_INT(stat(path, &info), 0);
  CHECK_EQ_INT(info.st_mode & 0777, 0640);
  CHECK_EQ_INT(entries(folder), 1);
  file_writer *w;
  REQUIRE(file_writer_create(ctx, path, &w) == SN_OK);
  CHECK_EQ_INT(file_writer_write(w, "half", 4), SN_OK);
  CHECK_EQ_INT(entries(folder), 2);
  file_writer_abort(w);
  file_writer_abort(NULL);
  REQUIRE(file_writer_create(ctx, path, &w) == SN_OK);
  CHECK_EQ_INT(file_writer_end(w, SN_ERR_CANCELLED), SN_ERR_CANCELLED);
  CHECK(has_content(path, new_content(), NEW_SIZE));
  CHECK_EQ_INT(entries(folder), 1);
  unlink(path);
  rmdir(folder);
  sn_ctx_destroy(ctx);
}

TEST(writes_relative_paths) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = new_folder("relative");
  char *before = getcwd(NULL, 0);
  REQUIRE(before && chdir(folder) == 0);
  CHECK_EQ_INT(write_new(ctx, "plain"), SN_OK);
  CHECK(has_content("plain", new_content(), NEW_SIZE));
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
  const char *folder = new_folder("refuse");
  CHECK_EQ_INT(file_writer_create(ctx, "", &w), SN_ERR_INVALID);
  CHECK_EQ_INT(file_writer_create(ctx, folder, &w), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(ctx), "it is a folder");
  CHECK_EQ_INT(file_writer_create(ctx, in_folder(folder, ""), &w), SN_ERR_INVALID);
  CHECK_EQ_INT(file_writer_create(ctx, "/dev/null", &w), SN_ERR_INVALID);
  CHECK_EQ_INT(file_writer_create(ctx, in_folder(folder, "no/file"), &w), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(ctx), "no/file: cannot open the folder");
  char name[400];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  CHECK_EQ_INT(file_writer_create(ctx, in_folder(folder, name), &w), SN_ERR_IO);
  CHECK(w == NULL);
  CHECK_EQ_INT(entries(folder), 0);
  rmdir(folder);
  sn_ctx_destroy(ctx);
}

TEST(names_left_behind_are_passed_over) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = new_folder("behind");
  char left[64];
  for (int i = 0; i < 3; i++) {
    snprintf(left, sizeof left, ".sinew-%ld-%d.tmp", (long)getpid(), i);
    put_file(in_folder(folder, left), "left", 4);
  }
  CHECK_EQ_INT(write_new(ctx, in_folder(folder, "file")), SN_OK);
  CHECK_EQ_INT(entries(folder), 4);
  CHECK(has_content(in_folder(folder, left), "left", 4));
  remove_temporaries(folder);
  unlink(in_folder(folder, "file"));
  rmdir(folder);
  sn_ctx_destroy(ctx);
}

/* Each operation fails once, in turn, with and without an old file. */
static void check_write_faults(bool old) {
  const char *folder = new_folder(old ? "faults" : "faults_new");
  const char *path = in_folder(folder, "file");
  int descriptors = open_descriptors();
  bool done = false;
  for (int64_t at = 1; !done; at++) {
    if (old)
      put_file(path, "old content", 11);
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
      CHECK(has_content(path, new_content(), NEW_SIZE));
    else if (old)
      CHECK(has_content(path, "old content", 11));
    CHECK_EQ_INT(entries(folder), old || status == SN_OK || in_place);
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
  const char *folder = new_folder("memory");
  const char *path = in_folder(folder, "file");
  put_file(path, "old", 3);
  fault_heap heap = {0};
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    if (!ctx)
      continue;
    sn_status status = write_new(ctx, path);
    CHECK_EQ_INT(status, heap.failed ? SN_ERR_NO_MEMORY : SN_OK);
    if (heap.failed)
      CHECK(has_content(path, "old", 3));
    CHECK_EQ_INT(entries(folder), 1);
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
  const char *folder = new_folder("killed");
  const char *path = in_folder(folder, "file");
  int kills = 0;
  for (size_t i = 0; i < COUNT_OF(ops); i++) {
    for (int64_t at = 1;; at++) {
      put_file(path, "old content", 11);
      int code = run_killed(path, ops[i], at);
      bool renamed = at > 1 && (ops[i] == IO_FSYNC || ops[i] == IO_CLOSE);
      if (code == 42 && !renamed)
        CHECK(has_content(path, "old content", 11));
      else
        CHECK(has_content(path, new_content(), NEW_SIZE));
      if (code != 42) {
        CHECK_EQ_INT(code, 0);
        break;
      }
      kills++;
    }
  }
  CHECK(kills >= 10);
  remove_temporaries(folder);
  CHECK_EQ_INT(entries(folder), 1);
  unlink(path);
  rmdir(folder);
}

/* A limit on file sizes makes write() first short, then fail, as a full disk does. */
TEST(a_short_write_is_continued_and_then_fails) {
  const char *folder = new_folder("short");
  const char *path = in_folder(folder, "file");
  put_file(path, "old", 3);
  pid_t child = fork();
  if (child == 0) {
    sn_ctx *ctx;
    struct rlimit limit = {100001, 100001};
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
  CHECK(has_content(path, "old", 3));
  CHECK_EQ_INT(entries(folder), 1);
  unlink(path);
  rmdir(folder);
}

TEST(write_errors_are_sticky) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = new_folder("sticky");
  file_writer *w;
  fault_io io = {.only = IO_WRITE, .at = 1, .error = ENOSPC};
  fault_io_install(ctx, &io);
  REQUIRE(file_writer_create(ctx, in_folder(folder, "file"), &w) == SN_OK);
  CHECK_EQ_INT(file_writer_write(w, new_content(), NEW_SIZE), SN_ERR_IO);
  CHECK_EQ_INT(file_writer_write(w, "x", 1), SN_ERR_IO);
  CHECK_EQ_INT(file_writer_end(w, SN_OK), SN_ERR_IO);
  CHECK_EQ_INT(io.count, 1);
  CHECK_EQ_INT(entries(folder), 0);
  rmdir(folder);
  sn_ctx_destroy(ctx);
}
