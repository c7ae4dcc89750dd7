/* Values of inputs and states from files: npy has one array, safetensors has some by name. See replay.h. */
#include "cli/replay.h"

#include <stdlib.h>
#include <string.h>

static replay_leaf *find_leaf(replay *r, const char *name, size_t size) {
  for (int i = 0; i < r->n_leaves; i++)
    if (strlen(r->leaves[i].name) == size && memcmp(r->leaves[i].name, name, size) == 0)
      return &r->leaves[i];
  return NULL;
}

/* From now on the value of this leaf comes from that file. */
static sn_status claim(replay *r, replay_leaf *leaf, const char *file, sn_shape shape) {
  if (leaf->file)
    return sn_ctx_fail(r->ctx, SN_ERR_INVALID, "--in: %s is given twice: by %s and by %s",
                       leaf->name, leaf->file, file);
  leaf->file = file;
  leaf->given = shape;
  return replay_reserve(r, leaf, sn_value_type(r->graph, leaf->value).dtype, shape);
}

/* --- npy --- */

/* Without a name: that of the file without folder and ending, or else the only input that is not given yet. */
static replay_leaf *leaf_of_file(replay *r, const char *path) {
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  replay_leaf *only = NULL, *named = find_leaf(r, base, strlen(base) - strlen(".npy"));
  if (named)
    return named;
  for (int i = 0; i < r->n_inputs; i++) {
    if (r->leaves[i].file)
      continue;
    if (only)
      return NULL;
    only = &r->leaves[i];
  }
  return only;
}

static sn_status give_npy(replay *r, replay_leaf *leaf, const char *path) {
  sn_npy *npy;
  SN_TRY(sn_npy_open(r->ctx, path, &npy));
  const sn_npy_array *array = sn_npy_get(npy);
  sn_status status = claim(r, leaf, path, array->shape);
  if (status == SN_OK)
    status = sn_npy_read(npy, sn_value_type(r->graph, leaf->value).dtype, leaf->data, array->count);
  sn_npy_close(npy);
  return status;
}

/* --- safetensors --- */

/* 64-bit whole numbers, which are what PyTorch keeps ids in, as i32. */
static sn_status read_i64(replay *r, replay_leaf *leaf, sn_safetensors *file,
                          const sn_safetensors_tensor *t) {
  int64_t *wide = sn_ctx_alloc(r->ctx, (size_t)t->size);
  if (!wide)
    return SN_ERR_NO_MEMORY;
  sn_status status = sn_safetensors_read_raw(file, t->index, wide, (size_t)t->size);
  for (int64_t i = 0; status == SN_OK && i < t->count; i++)
    if (wide[i] < INT32_MIN || wide[i] > INT32_MAX)
      status = sn_ctx_fail(r->ctx, SN_ERR_INVALID,
                           "%s: tensor \"%s\": element %lld is out of the range of i32", leaf->file,
                           t->name, (long long)i);
    else
      ((int32_t *)leaf->data)[i] = (int32_t)wide[i];
  sn_ctx_free(r->ctx, wide, (size_t)t->size);
  return status;
}

static sn_status give_tensor(replay *r, replay_leaf *leaf, const char *path, sn_safetensors *file,
                             const sn_safetensors_tensor *t) {
  sn_dtype dtype = sn_value_type(r->graph, leaf->value).dtype;
  SN_TRY(claim(r, leaf, path, t->shape));
  if (dtype == SN_I32 && strcmp(t->dtype_name, "I64") == 0)
    return read_i64(r, leaf, file, t);
  return sn_safetensors_read(file, t->index, dtype, leaf->data, t->count);
}

/* All tensors that have the name of an input or a state; there must be one. */
static sn_status give_all(replay *r, const char *path, sn_safetensors *file) {
  size_t n = sn_safetensors_count(file), used = 0;
  for (size_t i = 0; i < n; i++) {
    const sn_safetensors_tensor *t = sn_safetensors_at(file, i);
    replay_leaf *leaf = find_leaf(r, t->name, strlen(t->name));
    if (!leaf)
      continue;
    SN_TRY(give_tensor(r, leaf, path, file, t));
    used++;
  }
  if (used == 0)
    return sn_ctx_fail(r->ctx, SN_ERR_NOT_FOUND,
                       "%s: no tensor has the name of an input or a state", path);
  if (used < n)
    fprintf(stderr, "%s: %zu of %zu tensors have no input or state of their name\n", path, n - used,
            n);
  return SN_OK;
}

/* The tensor of that name, or the only one. */
static sn_status give_one(replay *r, replay_leaf *leaf, const char *path, sn_safetensors *file) {
  const sn_safetensors_tensor *t = sn_safetensors_find(file, leaf->name);
  if (!t && sn_safetensors_count(file) == 1)
    t = sn_safetensors_at(file, 0);
  if (!t)
    return sn_ctx_fail(r->ctx, SN_ERR_NOT_FOUND, "%s: no tensor \"%s\"", path, leaf->name);
  return give_tensor(r, leaf, path, file, t);
}

static sn_status give_safetensors(replay *r, replay_leaf *leaf, const char *path) {
  sn_safetensors *file;
  SN_TRY(sn_safetensors_open(r->ctx, path, &file));
  sn_status status = leaf ? give_one(r, leaf, path, file) : give_all(r, path, file);
  sn_safetensors_close(file);
  return status;
}

sn_status replay_give(replay *r, const char *text) {
  const char *equals = strchr(text, '='), *path = equals ? equals + 1 : text;
  bool npy = replay_ends_in(path, ".npy");
  replay_leaf *leaf = NULL;
  if (equals && !(leaf = find_leaf(r, text, (size_t)(equals - text))))
    return sn_ctx_fail(r->ctx, SN_ERR_NOT_FOUND, "--in: the graph has no input or state \"%.*s\"",
                       (int)(equals - text), text);
  if (!npy)
    return give_safetensors(r, leaf, path);
  if (!leaf && !(leaf = leaf_of_file(r, path)))
    return sn_ctx_fail(r->ctx, SN_ERR_NOT_FOUND,
                       "--in: no input or state has the name of the file %s: give NAME=FILE", path);
  return give_npy(r, leaf, path);
}
