/* See file_os.h. */
#include "base/file_os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == 8, "files are larger than 2 GiB: build with 64-bit file offsets");

/* True when a fault was planted here; errno tells which. */
static bool fault(sn_ctx *ctx, io_op op) {
  int error = ctx->io_fault ? ctx->io_fault(ctx->io_fault_user, op) : 0;
  if (error)
    errno = error;
  return error != 0;
}

static size_t at_most(size_t size) { return size < OS_MAX_TRANSFER ? size : OS_MAX_TRANSFER; }

int os_open_at(sn_ctx *ctx, int folder, const char *name, int flags, mode_t mode) {
  int fd;
  do
    fd = fault(ctx, IO_OPEN) ? -1 : openat(folder, name, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

ssize_t os_read(sn_ctx *ctx, int fd, void *buffer, size_t size) {
  ssize_t n;
  do
    n = fault(ctx, IO_READ) ? -1 : read(fd, buffer, at_most(size));
  while (n < 0 && errno == EINTR);
  return n;
}

ssize_t os_pread(sn_ctx *ctx, int fd, void *buffer, size_t size, off_t offset) {
  ssize_t n;
  do
    n = fault(ctx, IO_READ) ? -1 : pread(fd, buffer, at_most(size), offset);
  while (n < 0 && errno == EINTR);
  return n;
}

ssize_t os_write(sn_ctx *ctx, int fd, const void *bytes, size_t size) {
  ssize_t n;
  do
    n = fault(ctx, IO_WRITE) ? -1 : write(fd, bytes, at_most(size));
  while (n < 0 && errno == EINTR);
  return n;
}

int os_fsync(sn_ctx *ctx, int fd) {
  int result;
  do
    result = fault(ctx, IO_FSYNC) ? -1 : fsync(fd);
  while (result < 0 && errno == EINTR);
  return result;
}

int os_rename_at(sn_ctx *ctx, int folder, const char *from, const char *to) {
  return fault(ctx, IO_RENAME) ? -1 : renameat(folder, from, folder, to);
}

int os_lock(sn_ctx *ctx, int fd) {
  int result;
  do
    result = fault(ctx, IO_LOCK) ? -1 : flock(fd, LOCK_EX | LOCK_NB);
  while (result < 0 && errno == EINTR);
  return result;
}

int os_unlink_at(sn_ctx *ctx, int folder, const char *name) {
  return fault(ctx, IO_UNLINK) ? -1 : unlinkat(folder, name, 0);
}

/* Never repeated: after EINTR the descriptor is gone on Linux, and may belong to someone else. */
int os_close(sn_ctx *ctx, int fd) {
  bool planted = fault(ctx, IO_CLOSE);
  int error = errno;
  int result = close(fd);
  if (!planted)
    return result < 0 && errno != EINTR ? -1 : 0;
  errno = error;
  return -1;
}

sn_status os_fail(sn_ctx *ctx, const char *path, const char *verb, int error) {
  char reason[128];
  if (strerror_r(error, reason, sizeof reason) != 0)
    snprintf(reason, sizeof reason, "error %d", error);
  sn_status status = error == ENOENT || error == ENOTDIR ? SN_ERR_NOT_FOUND : SN_ERR_IO;
  return diag_fail(ctx, status, "%s: cannot %s: %s", path, verb, reason);
}
