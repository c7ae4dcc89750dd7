/* The operating system's file calls as the files beside it use them: each asks ctx->io_fault
 * first, repeats when interrupted, and leaves its error in errno. */
#ifndef SINEW_BASE_FILE_OS_H
#define SINEW_BASE_FILE_OS_H

#include "base/base.h"

#include <sys/types.h>

/* The most bytes handed to one read or write; some systems refuse more than INT_MAX. */
#define OS_MAX_TRANSFER ((size_t)1 << 30)

int os_open_at(sn_ctx *ctx, int folder, const char *name, int flags, mode_t mode);
ssize_t os_read(sn_ctx *ctx, int fd, void *buffer, size_t size);
ssize_t os_pread(sn_ctx *ctx, int fd, void *buffer, size_t size, off_t offset);
ssize_t os_write(sn_ctx *ctx, int fd, const void *bytes, size_t size);
int os_fsync(sn_ctx *ctx, int fd);
int os_rename_at(sn_ctx *ctx, int folder, const char *from, const char *to);
/* Takes the file's one lock, which ends with the last descriptor of this opening, so also when the process is killed. Does not
 * wait: EWOULDBLOCK says that another opening has it. */
int os_lock(sn_ctx *ctx, int fd);
int os_unlink_at(sn_ctx *ctx, int folder, const char *name);
/* Closes in any case, also when it reports an error. */
int os_close(sn_ctx *ctx, int fd);

/* "path: cannot <verb>: <reason of error>" with the status that fits it. */
sn_status os_fail(sn_ctx *ctx, const char *path, const char *verb, int error) SN_MUST_USE;

#endif
