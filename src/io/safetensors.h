/* What the safetensors reader's files share. See sinew/safetensors.h for the meaning.
 *
 * Layout of a file: u64 length of the header, the header (a JSON object: name -> dtype, shape,
 * data_offsets; __metadata__ -> strings), the data that the offsets count from.
 *
 * Invariants of an open file: every tensor's range lies in its file; the header trees stay alive,
 * because names and lookups are theirs: a tensor's index follows from the position of its key.
 */
#ifndef SINEW_IO_SAFETENSORS_H
#define SINEW_IO_SAFETENSORS_H

#include <sinew/safetensors.h>

#include "base/arena.h"
#include "base/file.h"
#include "io/json.h"

#define SAFETENSORS_MAX_HEADER 100000000
#define SAFETENSORS_METADATA   "__metadata__"

typedef struct safetensors_tensor {
  sn_safetensors_tensor view;
  file_reader *file;
  uint64_t offset; /* in the file */
} safetensors_tensor;

typedef struct safetensors_shard {
  file_reader *file;
  sn_json_doc *header;
  const sn_json *metadata;     /* NULL when absent */
  safetensors_tensor *tensors; /* in the order of the header */
  size_t n;
} safetensors_shard;

struct sn_safetensors {
  sn_ctx *ctx;
  arena arena;
  safetensors_shard *shards;
  size_t n_shards;
  sn_json_doc *index; /* NULL for a single file */
  safetensors_tensor *tensors;
  size_t n;
};

typedef struct safetensors_dtype {
  const char *name;
  size_t size;
  sn_dtype dtype; /* SN_NO_DTYPE: only raw reads */
} safetensors_dtype;

/* NULL for names that are not known. */
const safetensors_dtype *safetensors_dtype_by_name(const char *name);
/* NULL when the format has none for it. */
const safetensors_dtype *safetensors_dtype_of(sn_dtype dtype);

/* The format from memory, which is borrowed until close: for tests and fuzzing. */
sn_status safetensors_open_bytes(sn_ctx *ctx, const void *bytes, size_t size,
                                 sn_safetensors **out_file) SN_MUST_USE;

/* An empty one with room for n shards. */
sn_status safetensors_create(sn_ctx *ctx, size_t n_shards, sn_safetensors **out) SN_MUST_USE;
/* Reads and checks a header. shard->file is set; what was made is released by close in any case. */
sn_status safetensors_load_header(sn_safetensors *st, safetensors_shard *shard) SN_MUST_USE;
/* The tensor of that name; NULL when there is none. */
safetensors_tensor *safetensors_shard_find(const safetensors_shard *shard, const char *name,
                                           size_t size);

#endif
