/* See cache.h. A file: magic, length and hash of the bytes that follow. The hash tells damage from bad planning; it is no
 * protection and need not be one. A file that is not right in any way, or needs more memory than there is, counts as not
 * there. */
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

/* The size behind a header that fits the file; 0: it does not, and nothing was asked of memory. */
static size_t body_size(file_reader *file) {
  unsigned char header[HEADER];
  uint64_t size = file_size(file);
  if (size <= HEADER || size > MOST_BYTES || file_read_at(file, 0, header, HEADER) != SN_OK ||
      memcmp(header, magic, sizeof magic) != 0 || get(header + 8) != size - HEADER)
    return 0;
  return (size_t)(size - HEADER);
}

/* The bytes behind the header, whole; NULL: not to be had. */
static void *read_body(sn_ctx *ctx, file_reader *file, size_t size) {
  unsigned char hash[8];
  void *bytes = size ? mem_alloc(ctx, size) : NULL;
  if (!bytes)
    return NULL;
  if (file_read_at(file, 16, hash, sizeof hash) == SN_OK &&
      file_read_at(file, HEADER, bytes, size) == SN_OK &&
      get(hash) == hash_bytes(HASH_SEED, bytes, size))
    return bytes;
  mem_free(ctx, bytes, size);
  return NULL;
}

/* The proof finds values that have too little room. Here: none has more than it needs, and no arena more than its values one
 * behind the other, so that a file cannot make a session ask for memory that its graph does not need. */
static bool takes_what_it_needs(const program *p) {
  int64_t most[2] = {0, 0};
  for (uint32_t v = 1; v < p->n_values; v++) {
    const program_value *x = &p->values[v];
    int64_t low, high, need, room;
    dim_range(p->dims, x->count, &low, &high);
    if (!mul_fits(high, (int64_t)sn_dtype_size(x->type.dtype), &need) || x->bytes > need)
      return false;
    int64_t *of = x->home == HOME_ARENA ? &most[0] : x->home == HOME_PREPARED ? &most[1] : NULL;
    if (of && (!add_fits(max_i64(0, x->bytes), PROGRAM_ALIGN - 1, &room) ||
               !add_fits(*of, room / PROGRAM_ALIGN * PROGRAM_ALIGN, of)))
      return false;
  }
  return p->arena_bytes <= most[0] && p->prepared_bytes <= most[1];
}

static sn_status load(const char *path, sn_graph *lowered, program **out_program) {
  sn_ctx *ctx = lowered->ctx;
  file_reader *file;
  SN_TRY(file_open(ctx, path, &file));
  size_t size = body_size(file);
  void *bytes = read_body(ctx, file, size);
  file_close(file);
  if (!bytes)
    return SN_ERR_FORMAT;
  sn_status status = program_read(bytes, size, lowered, out_program);
  mem_free(ctx, bytes, size);
  return status;
}

sn_status cache_load(const char *folder, const char *name, sn_graph *lowered,
                     program **out_program) {
  sn_ctx *ctx = lowered->ctx;
  *out_program = NULL;
  char *path = path_of(ctx, folder, name);
  if (!path)
    return SN_ERR_NO_MEMORY;
  sn_status status = load(path, lowered, out_program);
  mem_free_str(ctx, path);
  if (status != SN_OK || takes_what_it_needs(*out_program))
    return SN_OK;
  program_destroy(*out_program);
  *out_program = NULL;
  return SN_OK;
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
