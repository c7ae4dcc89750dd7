/* Files through the context. Only regular files are read: whatever else a path may lead to (a pipe, a
 * device, a folder) is refused before a byte is asked of it, and nothing waits. Readers never trust a size: a file that ends early or shrinks while it
 * is read gives an error (which is why large files are read with pread and not mapped). The writer
 * replaces a file atomically: after a failure or a crash the old content is whole.
 *
 * Every message names the path and the reason. A missing file is SN_ERR_NOT_FOUND, what else the
 * operating system refuses SN_ERR_IO. Interrupted calls are repeated. ctx->io_fault, where set, is
 * asked before each open, read, write, fsync, rename, close, lock and unlink.
 */
#ifndef SINEW_BASE_FILE_H
#define SINEW_BASE_FILE_H

#include "base/base.h"

/* Reads a whole file of at most max_size bytes (SN_ERR_FORMAT when it is longer).
 * Free with mem_free(ctx, data, size). */
sn_status file_read_all(sn_ctx *ctx, const char *path, size_t max_size, void **out_data,
                        size_t *out_size) SN_MUST_USE;

/* A regular file open for reading at any position. */
typedef struct file_reader file_reader;

sn_status file_open(sn_ctx *ctx, const char *path, file_reader **out_file) SN_MUST_USE;
/* The same over bytes in memory, which are borrowed until file_close. */
sn_status file_open_bytes(sn_ctx *ctx, const char *name, const void *bytes, size_t size,
                          file_reader **out_file) SN_MUST_USE;
void file_close(file_reader *file);
/* The size when it was opened. */
uint64_t file_size(const file_reader *file);
const char *file_path(const file_reader *file);
/* Reads exactly `size` bytes at `offset`. */
sn_status file_read_at(file_reader *file, uint64_t offset, void *buffer, size_t size) SN_MUST_USE;

/* Writes a file atomically:
 *
 *   SN_TRY(file_writer_create(ctx, path, &writer));
 *   sn_status status = write_parts(writer);     // any number of file_writer_write
 *   return file_writer_end(writer, status);     // commits when status is SN_OK
 *
 * Bytes go to a temporary file in the same folder; the end flushes and syncs it, renames it over
 * `path`, and syncs the folder. The permissions of an existing file are kept; a symbolic link is
 * replaced, not followed; what is not a regular file is refused. What killed writers left in the
 * folder is removed at the start, and what living ones write there is left alone
 * (file_temporary.h). */
typedef struct file_writer file_writer;

sn_status file_writer_create(sn_ctx *ctx, const char *path, file_writer **out_writer) SN_MUST_USE;
/* Errors are sticky: after one, writes do nothing and return its status. */
sn_status file_writer_write(file_writer *writer, const void *bytes, size_t size) SN_MUST_USE;
/* Commits when `status` is SN_OK and no write failed, aborts otherwise; destroys the writer in any
 * case. Returns the first error. Only when the last step fails (syncing the folder after the
 * rename) is the new content in place despite an error; the message says so. */
sn_status file_writer_end(file_writer *writer, sn_status status) SN_MUST_USE;
/* file_writer_end with nothing to commit. NULL is fine. */
void file_writer_abort(file_writer *writer);

#endif
