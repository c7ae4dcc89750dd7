/* Files that commands write: beside the place where they belong, then renamed, so that whoever looks there never sees half
 * of one and a failure leaves what was there before. What is no regular file (a pipe, /dev/stdout) is written directly.
 * See cli.h. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct output {
  const char *path;
  char *temporary; /* NULL: written directly */
  int file;        /* descriptor */
} output;

static sn_status cannot(sn_ctx *ctx, const char *path) {
  return sn_ctx_fail(ctx, SN_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
}

/* path.NUMBER.tmp, with a number that hardly anybody has had, since what killed commands left stays there; *out is NULL after
 * a failure. */
static int create_beside(const char *path, char **out) {
  enum { TRIES = 100 };
  size_t size = strlen(path) + 40;
  int file = -1;
  *out = malloc(size);
  for (int i = 0; *out && file < 0 && i < TRIES; i++) {
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    snprintf(*out, size, "%s.%lld%09ld.tmp", path, (long long)now.tv_sec, now.tv_nsec);
    file = open(*out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno != EEXIST)
      break;
  }
  if (file < 0) {
    int error = errno;
    free(*out);
    *out = NULL;
    errno = error;
  }
  return file;
}

static sn_status open_output(sn_ctx *ctx, const char *path, output *out) {
  struct stat info;
  bool there = stat(path, &info) == 0;
  *out = (output){.path = path};
  if (there && !S_ISREG(info.st_mode)) {
    out->file = open(path, O_WRONLY | O_CLOEXEC);
  } else {
    out->file = create_beside(path, &out->temporary);
    if (out->file >= 0 && there)
      (void)!fchmod(out->file, info.st_mode & 07777);
  }
  return out->file >= 0 ? SN_OK : cannot(ctx, path);
}

/* Puts it into its place when all went well, removes it otherwise. */
static sn_status finish(sn_ctx *ctx, output *out, sn_status status, int error) {
  errno = error;
  if (status == SN_OK && (error || (out->temporary && rename(out->temporary, out->path) != 0)))
    status = cannot(ctx, out->path);
  if (status != SN_OK && out->temporary)
    (void)unlink(out->temporary);
  free(out->temporary);
  return status;
}

sn_status cli_check_output(sn_ctx *ctx, const char *path) {
  struct stat info;
  output out;
  if (!path)
    return SN_OK;
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) { /* opening a pipe may wait for ever */
    errno = EISDIR;
    return !S_ISDIR(info.st_mode) && access(path, W_OK) == 0 ? SN_OK : cannot(ctx, path);
  }
  SN_TRY(open_output(ctx, path, &out));
  (void)close(out.file);
  (void)unlink(out.temporary);
  free(out.temporary);
  return SN_OK;
}

sn_status cli_write_output(sn_ctx *ctx, const char *path, sn_status (*write)(FILE *out, void *user),
                           void *user) {
  output out;
  sn_status status;
  int error = 0;
  SN_TRY(open_output(ctx, path, &out));
  FILE *file = fdopen(out.file, "w");
  if (!file) {
    status = cannot(ctx, path);
    (void)close(out.file);
    return finish(ctx, &out, status, 0);
  }
  status = write(file, user);
  errno = EIO;
  if (fflush(file) != 0 || ferror(file))
    error = errno;
  if (fclose(file) != 0 && !error)
    error = errno;
  return finish(ctx, &out, status, error);
}
