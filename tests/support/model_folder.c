/* See model_folder.h. */
#include "support/model_folder.h"

#include "support/files.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

const config_key config_llama[] = {{"model_type", "\"llama\""},
                                   {"vocab_size", "29"},
                                   {"hidden_size", "16"},
                                   {"num_hidden_layers", "2"},
                                   {"num_attention_heads", "4"},
                                   {"num_key_value_heads", "2"},
                                   {"intermediate_size", "24"},
                                   {"max_position_embeddings", "32"},
                                   {"rms_norm_eps", "1e-5"},
                                   {"hidden_act", "\"silu\""},
                                   {"rope_theta", "10000.0"},
                                   {"tie_word_embeddings", "true"},
                                   {NULL, NULL}};

const config_key config_gpt2[] = {{"model_type", "\"gpt2\""},
                                  {"vocab_size", "29"},
                                  {"n_embd", "16"},
                                  {"n_layer", "2"},
                                  {"n_head", "4"},
                                  {"n_inner", "24"},
                                  {"n_positions", "32"},
                                  {"layer_norm_epsilon", "1e-5"},
                                  {"activation_function", "\"gelu_new\""},
                                  {NULL, NULL}};

static const config_key *find(const config_key *keys, const char *key) {
  for (; keys && keys->key; keys++)
    if (strcmp(keys->key, key) == 0)
      return keys;
  return NULL;
}

static void put(FILE *f, const config_key *k, int *n) {
  if (k->value)
    fprintf(f, "%s  \"%s\": %s", (*n)++ ? ",\n" : "", k->key, k->value);
}

void config_write(const char *folder, const config_key *base, const config_key *changes) {
  FILE *f = fopen(files_in(folder, "config.json"), "w");
  int n = 0;
  REQUIRE(f != NULL);
  fprintf(f, "{\n");
  for (const config_key *k = base; k->key; k++)
    put(f, find(changes, k->key) ? find(changes, k->key) : k, &n);
  for (const config_key *k = changes; k && k->key; k++)
    if (!find(base, k->key))
      put(f, k, &n);
  fprintf(f, "\n}\n");
  CHECK_EQ_INT(fclose(f), 0);
}

void weights_write(const char *folder, sn_store *store, const char *const *names, size_t n) {
  CHECK(sn_store_save_weights(store, names, n, files_in(folder, "model.safetensors")) == SN_OK);
}
