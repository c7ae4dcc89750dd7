/* Tests of the readers of base/file.h. */
#include "base/file.h"
#include "support/fault.h"
#include "support/files.h"
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char content[150000];

static int open_descriptors(void) {
  int n = 0;
  for (int fd = 0; fd < 256; fd++)
    n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

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
    files_put(path, bytes, sizes[i]);
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

/* Files of /proc state a size of 0. */
TEST(reads_files_that_state_no_size) {
  fault_heap heap = {0};
  sn_ctx *ctx = fault_ctx(&heap);
  void *data;
  size_t size;
  if (CHECK_EQ_INT(file_read_all(ctx, "/proc/self/smaps", SIZE_MAX, &data, &size), SN_OK)) {
    CHECK(size > 4096);
    mem_free(ctx, data, size);
  }
  CHECK_EQ_INT(file_read_all(ctx, "/proc/self/smaps", 4097, &data, &size), SN_ERR_FORMAT);
  sn_ctx_destroy(ctx);
  CHECK_EQ_INT(heap.blocks, 0);
  CHECK_EQ_INT(heap.bad_sizes, 0);
}

/* None of them is read, and none is waited for. */
TEST(what_is_no_regular_file_is_refused_by_both_readers) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *folder = files_new_folder("odd");
  char fifo[1024], piped[64];
  int ends[2];
  snprintf(fifo, sizeof fifo, "%s", files_in(folder, "fifo"));
  REQUIRE(mkfifo(fifo, 0600) == 0 && pipe(ends) == 0);
  snprintf(piped, sizeof piped, "/dev/fd/%d", ends[0]);
  const char *const paths[] = {fifo, piped, folder, "/dev/zero", "/dev/null"};
  for (size_t i = 0; i < COUNT_OF(paths); i++) {
    void *data;
    size_t size;
    file_reader *file;
    CHECK_EQ_INT(file_read_all(ctx, paths[i], 100, &data, &size), SN_ERR_IO);
    CHECK_STR_HAS(sn_ctx_message(ctx), "expected a regular file");
    CHECK(data == NULL && size == 0);
    CHECK_EQ_INT(file_open(ctx, paths[i], &file), SN_ERR_IO);
    CHECK_STR_HAS(sn_ctx_message(ctx), paths[i]);
    CHECK(file == NULL);
  }
  close(ends[0]);
  close(ends[1]);
  files_remove_folder(folder);
  sn_ctx_destroy(ctx);
}

TEST(missing_and_odd_files_are_errors) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  void *data;
  size_t size;
  file_reader *file;
  const char *folder = files_new_folder("odd");
  CHECK_EQ_INT(file_read_all(ctx, files_in(folder, "none"), 10, &data, &size), SN_ERR_NOT_FOUND);
  CHECK_STR_HAS(sn_ctx_message(ctx), "odd/none: cannot open: No such file");
  CHECK_EQ_INT(file_read_all(ctx, folder, 10, &data, &size), SN_ERR_IO);
  CHECK_EQ_INT(file_open(ctx, folder, &file), SN_ERR_IO);
  CHECK_STR_HAS(sn_ctx_message(ctx), "expected a regular file, got a folder");
  CHECK(file == NULL);
  const char *fifo = files_in(folder, "fifo");
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
  files_put(path, "0123456789", 10);
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

TEST(interrupted_reads_are_repeated) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  const char *path = test_scratch("interrupted");
  files_put(path, content, sizeof content);
  for (int op = IO_OPEN; op <= IO_READ; op++) {
    fault_io io = {.only = op, .at = 1, .error = EINTR};
    fault_io_install(ctx, &io);
    void *data;
    size_t size;
    if (CHECK_EQ_INT(file_read_all(ctx, path, sizeof content, &data, &size), SN_OK))
      mem_free(ctx, data, size);
    CHECK_EQ_INT(io.failed, 1);
    io = (fault_io){.only = op, .at = 1, .error = EINTR};
    file_reader *file;
    char byte;
    if (CHECK_EQ_INT(file_open(ctx, path, &file), SN_OK))
      CHECK_EQ_INT(file_read_at(file, 0, &byte, 1), SN_OK);
    CHECK_EQ_INT(io.failed, 1);
    file_close(file);
  }
  sn_ctx_destroy(ctx);
}

/* Every operation and every allocation failing once: an error, no leak, no descriptor left. */
TEST(failed_reads_release_everything) {
  const char *path = test_scratch("failing");
  files_put(path, content, sizeof content);
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
    status = ctx ? file_read_all(ctx, path, sizeof content, &data, &size) : SN_ERR_NO_MEMORY;
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
    status = file_read_all(ctx, path, sizeof content, &data, &size);
    CHECK_EQ_INT(status, io.last == IO_CLOSE ? SN_OK : SN_ERR_IO);
    CHECK_EQ_INT(io.failed, 1);
    if (status == SN_OK)
      mem_free(ctx, data, size);
    sn_ctx_destroy(ctx);
    CHECK_EQ_INT(heap.blocks, 0);
  }
  CHECK_EQ_INT(open_descriptors(), descriptors);
}
