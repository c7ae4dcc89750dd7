/* The atomic writer; see file.h.
 *
 * All steps are relative to the folder's descriptor, opened first: after the rename only the sync
 * of the folder can fail, so an error of any earlier step leaves the old file as it was.
 */
#include "base/file.h"

#include "base/file_os.h"
#include "base/file_temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_SIZE = 1 << 16 };

struct file_writer {
  sn_ctx *ctx;
  char *path;       /* as the caller gave it, for messages */
  const char *base; /* its last part, within path */
  int folder;       /* a descriptor; -1 when closed */
  bool replaces;    /* there is an old file */
  mode_t mode;      /* its permissions */
  temporary made;
  sn_status failed; /* the first error */
  size_t used;
  char *buffer; /* BUFFER_SIZE bytes */
};

static void destroy(file_writer *w) {
  sn_ctx *ctx = w->ctx;
  temporary_destroy(ctx, w->folder, &w->made);
  if (w->folder >= 0)
    (void)os_close(ctx, w->folder);
  mem_free(ctx, w->buffer, BUFFER_SIZE);
  mem_free_str(ctx, w->path);
  mem_free(ctx, w, sizeof *w);
}

static sn_status open_folder(file_writer *w) {
  const char *slash = strrchr(w->path, '/');
  w->base = slash ? slash + 1 : w->path;
  if (!w->base[0])
    return diag_fail(w->ctx, SN_ERR_INVALID, "%s: expected the path of a file, got a folder",
                     w->path[0] ? w->path : "\"\"");
  size_t size = slash ? (size_t)(slash - w->path) + 1 : 0; /* with the slash: "/" stays "/" */
  char *folder = mem_alloc(w->ctx, size + 2);
  if (!folder)
    return SN_ERR_NO_MEMORY;
  memcpy(folder, slash ? w->path : ".", slash ? size : 1);
  w->folder = os_open_at(w->ctx, AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
  int error = errno;
  mem_free(w->ctx, folder, size + 2);
  return w->folder < 0 ? os_fail(w->ctx, w->path, "open the folder", error) : SN_OK;
}

static sn_status look_at_old(file_writer *w) {
  struct stat info;
  if (fstatat(w->folder, w->base, &info, 0) < 0) {
    if (errno == ENOENT)
      return SN_OK;
    return os_fail(w->ctx, w->path, "stat", errno);
  }
  if (!S_ISREG(info.st_mode))
    return diag_fail(w->ctx, SN_ERR_INVALID, "%s: cannot replace it: it is a %s", w->path,
                     S_ISDIR(info.st_mode) ? "folder" : "device or pipe");
  w->replaces = true;
  w->mode = info.st_mode & 07777;
  return SN_OK;
}

static sn_status open_writer(file_writer *w, const char *path) {
  w->path = mem_strdup(w->ctx, path);
  w->buffer = w->path ? mem_alloc(w->ctx, BUFFER_SIZE) : NULL;
  if (!w->buffer)
    return SN_ERR_NO_MEMORY;
  SN_TRY(open_folder(w));
  SN_TRY(look_at_old(w));
  temporary_sweep(w->ctx, w->folder); /* first: what it removes makes room */
  if (temporary_create(w->ctx, w->folder, w->replaces ? 0600 : 0666, &w->made) < 0)
    return os_fail(w->ctx, path, "create a temporary file beside it", errno);
  return SN_OK;
}

sn_status file_writer_create(sn_ctx *ctx, const char *path, file_writer **out_writer) {
  *out_writer = NULL;
  file_writer *w = mem_alloc(ctx, sizeof *w);
  if (!w)
    return SN_ERR_NO_MEMORY;
  *w = (file_writer){.ctx = ctx, .folder = -1, .made = TEMPORARY_NONE};
  sn_status status = open_writer(w, path);
  if (status != SN_OK) {
    destroy(w);
    return status;
  }
  *out_writer = w;
  return SN_OK;
}

static sn_status write_through(file_writer *w, const char *bytes, size_t size) {
  while (size) {
    ssize_t n = os_write(w->ctx, w->made.fd, bytes, size);
    if (n <= 0)
      return os_fail(w->ctx, w->path, "write", n < 0 ? errno : EIO);
    bytes += n;
    size -= (size_t)n;
  }
  return SN_OK;
}

static sn_status flush(file_writer *w) {
  size_t used = w->used;
  w->used = 0;
  return write_through(w, w->buffer, used);
}

static sn_status write_bytes(file_writer *w, const void *bytes, size_t size) {
  if (size > BUFFER_SIZE - w->used)
    SN_TRY(flush(w));
  if (size >= BUFFER_SIZE)
    return write_through(w, bytes, size);
  if (size)
    memcpy(w->buffer + w->used, bytes, size);
  w->used += size;
  return SN_OK;
}

sn_status file_writer_write(file_writer *w, const void *bytes, size_t size) {
  if (w->failed == SN_OK)
    w->failed = write_bytes(w, bytes, size);
  return w->failed;
}

/* Some file systems cannot sync a folder and say so with EINVAL; there is no more to be had. */
static sn_status sync_folder(file_writer *w) {
  if (os_fsync(w->ctx, w->folder) == 0 || errno == EINVAL)
    return SN_OK;
  return os_fail(w->ctx, w->path, "sync its folder (the new content is in place)", errno);
}

/* The lock is kept until the end (destroy): whoever finds the temporary's name before the rename finds it locked. */
static sn_status commit(file_writer *w) {
  SN_TRY(flush(w));
  if (w->replaces && fchmod(w->made.fd, w->mode) < 0)
    return os_fail(w->ctx, w->path, "set the permissions of its temporary file", errno);
  if (os_fsync(w->ctx, w->made.fd) < 0)
    return os_fail(w->ctx, w->path, "sync", errno);
  int fd = w->made.fd;
  w->made.fd = -1;
  if (os_close(w->ctx, fd) < 0)
    return os_fail(w->ctx, w->path, "close", errno);
  if (os_rename_at(w->ctx, w->folder, w->made.name, w->base) < 0)
    return os_fail(w->ctx, w->path, "rename a temporary file to it", errno);
  w->made.name[0] = '\0';
  return sync_folder(w);
}

sn_status file_writer_end(file_writer *w, sn_status status) {
  if (w->failed != SN_OK)
    status = w->failed;
  if (status == SN_OK)
    status = commit(w);
  destroy(w);
  return status;
}

void file_writer_abort(file_writer *w) {
  if (w)
    destroy(w);
}
