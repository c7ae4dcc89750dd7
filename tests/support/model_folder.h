/* Model folders on disk for tests: config.json from keys and values, safetensors from a store. */
#ifndef SINEW_TESTS_SUPPORT_MODEL_FOLDER_H
#define SINEW_TESTS_SUPPORT_MODEL_FOLDER_H

#include <sinew/sinew.h>

/* A key and its value as JSON text; value NULL: without the key. */
typedef struct config_key {
  const char *key, *value;
} config_key;

/* config.json that describes tiny_config("llama") or tiny_config("gpt2"), NULL keys at the end. */
extern const config_key config_llama[], config_gpt2[];

/* Writes folder/config.json: `base`, with the keys of `changes` (up to NULL; may be NULL) replaced, added
 * or left out. */
void config_write(const char *folder, const config_key *base, const config_key *changes);
/* Writes folder/model.safetensors with these entries of the store. */
void weights_write(const char *folder, sn_store *store, const char *const *names, size_t n);

#endif
