/* See cache.h. A file: magic, format, length and hash of the bytes that follow. The hash tells damage from bad planning;
 * it is no protection and need not be one. */
#include "compile/cache.h"

#include "base/file.h"
#include "compile/program_bytes.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum { MOST_BYTES = 1 << 28, HEADER = 24 };
static const char magic[8] = "SNPLAN\0";

sn_status cache_check(const char *folder, sn_ctx *ctx) {
  struct stat info;
  errno = ENOTDIR;
  if (stat(folder, &info) == 0 && S_ISDIR(info.st_mode))
    return SN_OK;
  return diag_fail(ctx, SN_ERR_NOT_FOUND, "plan cache: %s: %s", folder, strerror(errno));
}

/* What must be the same for a plan to serve again. */
sn_status cache_name(const sn_graph *graph, const compile_options *o, char out[CACHE_NAME]) {
  char *form;
  char extra[160];
  out[0] = '\0';
  SN_TRY(sn_graph_print(graph, &form));
  snprintf(extra, sizeof extra, "%s %d %d%d%d%d%d %a %a %a", SN_VERSION, PROGRAM_BYTES_FORMAT,
           o->no_opt, o->fast_math, o->no_fusion, o->channels_last, o->cut_all, o->target.flops,
           o->target.bytes, o->target.launch_s);
  uint64_t a = hash_string(hash_string(HASH_SEED, form), extra);
  uint64_t b = hash_string(hash_string(~HASH_SEED, extra), form);
  a = hash_string(a, o->watched ? o->watched : "");
  b = hash_string(b, o->device ? o->device : "");
  snprintf(out, CACHE_NAME, "%016llx%016llx.plan", (unsigned long long)a, (unsigned long long)b);
  sn_text_free(graph->ctx, form);
  return SN_OK;
}

static char *path_of(sn_ctx *ctx, const char *folder, const char *name) {
  size_t size = strlen(folder) + strlen(name) + 2;
  char *path = mem_alloc(ctx, size);
  if (path)
    snprintf(path, size, "%s/%s", folder, name);
  return path;
}

/* --- numbers of the header, lowest byte first --- */

static void put(unsigned char *at, uint64_t n) {
  for (unsigned i = 0; i < 8; i++)
    at[i] = (unsigned char)(n >> (8 * i));
}

static uint64_t get(const unsigned char *at) {
  uint64_t n = 0;
  for (unsigned i = 0; i < 8; i++)
    n |= (uint64_t)at[i] << (8 * i);
  return n;
}

/* --- reading --- */

static bool is_whole(const unsigned char *bytes, size_t size) {
  return size >= HEADER && memcmp(bytes, magic, sizeof magic) == 0 &&
         get(bytes + 8) == size - HEADER &&
         get(bytes + 16) == hash_bytes(HASH_SEED, bytes + HEADER, size - HEADER);
}

sn_status cache_load(const char *folder, const char *name, sn_graph *lowered,
                     program **out_program) {
  sn_ctx *ctx = lowered->ctx;
  void *bytes = NULL;
  size_t size = 0;
  *out_program = NULL;
  char *path = path_of(ctx, folder, name);
  if (!path)
    return SN_ERR_NO_MEMORY;
  sn_status status = file_read_all(ctx, path, MOST_BYTES, &bytes, &size);
  mem_free_str(ctx, path);
  if (status != SN_OK)
    return status == SN_ERR_NO_MEMORY ? status : SN_OK;
  if (is_whole(bytes, size))
    status = program_read((unsigned char *)bytes + HEADER, size - HEADER, lowered, out_program);
  mem_free(ctx, bytes, size);
  return status == SN_ERR_NO_MEMORY ? status : SN_OK;
}

/* --- writing --- */

static sn_status write_file(sn_ctx *ctx, const char *path, const text *body) {
  unsigned char header[HEADER];
  file_writer *writer;
  memcpy(header, magic, sizeof magic);
  put(header + 8, body->size);
  put(header + 16, hash_bytes(HASH_SEED, body->data, body->size));
  SN_TRY(file_writer_create(ctx, path, &writer));
  sn_status status = file_writer_write(writer, header, sizeof header);
  if (status == SN_OK)
    status = file_writer_write(writer, body->data, body->size);
  return file_writer_end(writer, status);
}

sn_status cache_save(const char *folder, const char *name, const program *p, sn_ctx *ctx) {
  text body;
  text_init(&body, ctx);
  sn_status status = program_write(p, &body);
  char *path = status == SN_OK ? path_of(ctx, folder, name) : NULL;
  if (status == SN_OK)
    status = path ? write_file(ctx, path, &body) : SN_ERR_NO_MEMORY;
  mem_free_str(ctx, path);
  text_free(&body);
  return status;
}
