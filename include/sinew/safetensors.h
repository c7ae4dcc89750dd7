/* Safetensors files: named tensors behind a JSON header. Reading (one file, or a model folder with
 * several shards) and writing.
 *
 *   sn_safetensors *weights;
 *   if (sn_safetensors_open_model(ctx, "models/tiny", &weights) != SN_OK) ...
 *   const sn_safetensors_tensor *t = sn_safetensors_find(weights, "lm_head.weight");
 *   if (t && sn_safetensors_read(weights, t->index, SN_F32, buffer, count) != SN_OK) ...
 *   sn_safetensors_close(weights);
 *
 * Opening reads and checks the headers only. Files are not trusted: header length, JSON, shapes and
 * offsets are checked, tensors must cover the data exactly, without overlap or hole; a file that
 * changes while it is read gives an error. Numbers are little-endian in the file, as on all hosts
 * that Sinew knows.
 */
#ifndef SINEW_SAFETENSORS_H
#define SINEW_SAFETENSORS_H

#include <sinew/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open file or model. Belongs to the context's thread; reads do not disturb each other. */
typedef struct sn_safetensors sn_safetensors;

typedef struct sn_safetensors_tensor {
  size_t index; /* among the tensors of the file or model */
  const char *name;
  const char *dtype_name; /* as the file has it: "F32", "I64", "F8_E4M3", also unknown ones */
  sn_dtype dtype;         /* SN_NO_DTYPE when Sinew has no such dtype; then only read_raw works */
  sn_shape shape;
  int64_t count; /* elements: the product of the shape */
  uint64_t size; /* bytes in the file */
} sn_safetensors_tensor;

SN_MUST_USE SN_API sn_status sn_safetensors_open(sn_ctx *ctx, const char *path,
                                                 sn_safetensors **out_file);
/* Opens folder/model.safetensors or, where that is missing, the shards that
 * folder/model.safetensors.index.json lists: its weight_map tells which tensors there are and in
 * which shard, by the name of an entry of the folder itself, never by a path. Entries that are
 * symbolic links are followed. */
SN_MUST_USE SN_API sn_status sn_safetensors_open_model(sn_ctx *ctx, const char *folder,
                                                       sn_safetensors **out_model);
SN_API void sn_safetensors_close(sn_safetensors *file);

/* Tensors in the order of the header, or of the index. Views live as long as the file is open. */
SN_API size_t sn_safetensors_count(const sn_safetensors *file);
SN_API const sn_safetensors_tensor *sn_safetensors_at(const sn_safetensors *file, size_t index);
/* NULL when there is none of that name. */
SN_API const sn_safetensors_tensor *sn_safetensors_find(const sn_safetensors *file,
                                                        const char *name);
/* A value of __metadata__ (of the first shard that has it); NULL when there is none. */
SN_API const char *sn_safetensors_metadata(const sn_safetensors *file, const char *key);

/* Reads a whole tensor as `dtype`: its own dtype, or SN_F32 from any of F32, F16, BF16 and F64 (F64
 * rounds to nearest). `count` is the number of elements in the buffer and must be the tensor's. */
SN_MUST_USE SN_API sn_status sn_safetensors_read(sn_safetensors *file, size_t index, sn_dtype dtype,
                                                 void *buffer, int64_t count);
/* Whether sn_safetensors_read would take the tensor as `dtype`: all that can be known without keeping its numbers, which are
 * read only of bools. */
SN_MUST_USE SN_API sn_status sn_safetensors_check(sn_safetensors *file, size_t index,
                                                  sn_dtype dtype);
/* Reads the bytes as they are, whatever the dtype. `size` must be the tensor's. */
SN_MUST_USE SN_API sn_status sn_safetensors_read_raw(sn_safetensors *file, size_t index,
                                                     void *buffer, size_t size);

/* --- writing --- */

typedef struct sn_safetensors_item {
  const char *name;
  sn_type type;
  const void *data; /* row-major; may be NULL when there are no elements */
} sn_safetensors_item;

typedef struct sn_safetensors_pair {
  const char *key, *value;
} sn_safetensors_pair;

/* Writes one file, atomically: after an error the old file, if any, is whole. Tensors lie in the
 * order given; readers that map the file like wide dtypes first. Names must be unique and UTF-8.
 * The same arguments give the same bytes. */
SN_MUST_USE SN_API sn_status sn_safetensors_write(sn_ctx *ctx, const char *path,
                                                  const sn_safetensors_item *items, size_t n_items,
                                                  const sn_safetensors_pair *metadata,
                                                  size_t n_metadata);

#ifdef __cplusplus
}
#endif

#endif
