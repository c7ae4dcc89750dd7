/* Reading files; see file.h. */
#include "base/file.h"

#include "base/file_os.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* O_NONBLOCK: opening a pipe must not wait for a writer; regular files do not care. Closes again what it refuses. */
static sn_status open_regular(sn_ctx *ctx, const char *path, int *out_fd, uint64_t *out_size) {
  struct stat info;
  *out_fd = -1;
  int fd = os_open_at(ctx, AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
  if (fd < 0)
    return os_fail(ctx, path, "open", errno);
  sn_status status = SN_OK;
  if (fstat(fd, &info) < 0)
    status = os_fail(ctx, path, "stat", errno);
  else if (!S_ISREG(info.st_mode) || info.st_size < 0)
    status = diag_fail(ctx, SN_ERR_IO, "%s: expected a regular file, got a %s", path,
                       S_ISDIR(info.st_mode) ? "folder" : "device or pipe");
  if (status != SN_OK) {
    (void)os_close(ctx, fd);
    return status;
  }
  *out_fd = fd;
  *out_size = (uint64_t)info.st_size;
  return SN_OK;
}

/* --- whole files ------------------------------------------------------------------------------ */

enum { FIRST_READ = 4096 };

/* A growing block; its size is always what it was asked with. */
typedef struct block {
  char *data;
  size_t size, capacity;
} block;

static sn_status too_long(sn_ctx *ctx, const char *path, size_t max_size) {
  return diag_fail(ctx, SN_ERR_FORMAT, "%s: too long: at most %zu bytes expected", path, max_size);
}

/* Room for more than b->size bytes, up to max_size + 1: the last byte only detects excess. */
static sn_status grow(sn_ctx *ctx, block *b, size_t max_size) {
  size_t capacity = b->capacity > max_size / 2 ? max_size + 1 : b->capacity * 2;
  void *data = mem_resize(ctx, b->data, b->capacity, capacity);
  if (!data)
    return SN_ERR_NO_MEMORY;
  b->data = data;
  b->capacity = capacity;
  return SN_OK;
}

static sn_status read_to_end(sn_ctx *ctx, int fd, const char *path, size_t max_size, block *b) {
  for (;;) {
    if (b->size == b->capacity)
      SN_TRY(grow(ctx, b, max_size));
    ssize_t n = os_read(ctx, fd, b->data + b->size, b->capacity - b->size);
    if (n < 0)
      return os_fail(ctx, path, "read", errno);
    if (n == 0)
      return SN_OK;
    b->size += (size_t)n;
    if (b->size > max_size)
      return too_long(ctx, path, max_size);
  }
}

/* The size that the system states is only a hint for the first block: files of /proc state 0. */
static sn_status read_open_file(sn_ctx *ctx, int fd, uint64_t hint, const char *path,
                                size_t max_size, block *b) {
  if (hint > max_size)
    return too_long(ctx, path, max_size);
  size_t first = hint ? (size_t)hint : FIRST_READ;
  b->capacity = (first < max_size ? first : max_size) + 1;
  b->data = mem_resize(ctx, NULL, 0, b->capacity);
  if (!b->data) {
    b->capacity = 0;
    return SN_ERR_NO_MEMORY;
  }
  SN_TRY(read_to_end(ctx, fd, path, max_size, b));
  void *exact = mem_resize(ctx, b->data, b->capacity, b->size);
  if (!exact)
    return SN_ERR_NO_MEMORY;
  b->data = exact;
  b->capacity = b->size;
  return SN_OK;
}

sn_status file_read_all(sn_ctx *ctx, const char *path, size_t max_size, void **out_data,
                        size_t *out_size) {
  *out_data = NULL;
  *out_size = 0;
  if (max_size > SIZE_MAX / 2)
    max_size = SIZE_MAX / 2;
  int fd;
  uint64_t hint;
  SN_TRY(open_regular(ctx, path, &fd, &hint));
  block b = {0};
  sn_status status = read_open_file(ctx, fd, hint, path, max_size, &b);
  (void)os_close(ctx, fd); /* nothing was written: nothing can be lost */
  if (status != SN_OK) {
    mem_free(ctx, b.data, b.capacity);
    return status;
  }
  *out_data = b.data;
  *out_size = b.size;
  return SN_OK;
}

/* --- positioned reads ------------------------------------------------------------------------- */

struct file_reader {
  sn_ctx *ctx;
  char *path;
  int fd;                     /* -1: bytes in memory */
  const unsigned char *bytes; /* where fd is -1 */
  uint64_t size;
};

static sn_status create_reader(sn_ctx *ctx, const char *path, file_reader **out_file) {
  file_reader *file = mem_alloc(ctx, sizeof *file);
  char *copy = file ? mem_strdup(ctx, path) : NULL;
  if (!copy) {
    mem_free(ctx, file, sizeof *file);
    return SN_ERR_NO_MEMORY;
  }
  *file = (file_reader){.ctx = ctx, .path = copy, .fd = -1};
  *out_file = file;
  return SN_OK;
}

sn_status file_open(sn_ctx *ctx, const char *path, file_reader **out_file) {
  *out_file = NULL;
  file_reader *file;
  SN_TRY(create_reader(ctx, path, &file));
  sn_status status = open_regular(ctx, path, &file->fd, &file->size);
  if (status != SN_OK) {
    file_close(file);
    return status;
  }
  *out_file = file;
  return SN_OK;
}

sn_status file_open_bytes(sn_ctx *ctx, const char *name, const void *bytes, size_t size,
                          file_reader **out_file) {
  *out_file = NULL;
  SN_TRY(create_reader(ctx, name, out_file));
  (*out_file)->bytes = bytes;
  (*out_file)->size = size;
  return SN_OK;
}

void file_close(file_reader *file) {
  if (!file)
    return;
  if (file->fd >= 0)
    (void)os_close(file->ctx, file->fd);
  mem_free_str(file->ctx, file->path);
  mem_free(file->ctx, file, sizeof *file);
}

uint64_t file_size(const file_reader *file) { return file->size; }

const char *file_path(const file_reader *file) { return file->path; }

sn_status file_read_at(file_reader *file, uint64_t offset, void *buffer, size_t size) {
  if (offset > file->size || size > file->size - offset)
    return diag_fail(file->ctx, SN_ERR_FORMAT,
                     "%s: cannot read %zu bytes at %llu: the file has %llu bytes", file->path, size,
                     (unsigned long long)offset, (unsigned long long)file->size);
  if (file->fd < 0) {
    if (size)
      memcpy(buffer, file->bytes + offset, size);
    return SN_OK;
  }
  for (size_t done = 0; done < size;) {
    ssize_t n =
        os_pread(file->ctx, file->fd, (char *)buffer + done, size - done, (off_t)(offset + done));
    if (n < 0)
      return os_fail(file->ctx, file->path, "read", errno);
    if (n == 0)
      return diag_fail(
          file->ctx, SN_ERR_IO, "%s: the file ended at %llu while it was read: it had %llu bytes",
          file->path, (unsigned long long)(offset + done), (unsigned long long)file->size);
    done += (size_t)n;
  }
  return SN_OK;
}
