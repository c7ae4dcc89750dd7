/* Continues a sequence of token ids with a language model: one of a folder (config.json and safetensors), or,
 * without arguments, a small one with random weights.
 *
 *   cc generate.c $(pkg-config --cflags --libs sinew) -o generate && ./generate FOLDER 1 2 3
 */
#include <sinew/sinew.h>

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 256, NEW = 16 };

static sn_status open_model(sn_ctx *ctx, const char *folder, sn_store *store,
                            sn_model **out_model) {
  static const sn_model_config tiny = {.family = SN_MODEL_LLAMA,
                                       .vocab = 100,
                                       .hidden = 32,
                                       .layers = 2,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .max_length = MOST};
  sn_status status =
      folder ? sn_model_open(ctx, folder, out_model) : sn_model_create(ctx, &tiny, out_model);
  if (status != SN_OK)
    return status;
  return folder ? sn_model_load(*out_model, store, folder) : sn_model_init(*out_model, store, 1);
}

/* The first call gives the whole prompt; later ones only ask for the next id. */
static sn_status generate(sn_generator *generator, const int32_t *prompt, size_t n, int32_t *out) {
  sn_status status = SN_OK;
  for (int i = 0; i < NEW && status == SN_OK; i++)
    status = sn_generator_next(generator, prompt, i == 0 ? n : 0, &out[i]);
  return status;
}

int main(int argc, char **argv) {
  int32_t prompt[MOST] = {1, 2, 3}, out[NEW] = {0};
  size_t n = argc > 2 ? 0 : 3;
  for (int i = 2; i < argc && n < MOST; i++)
    prompt[n++] = (int32_t)strtol(argv[i], NULL, 10);

  sn_ctx *ctx = NULL;
  sn_store *store = NULL;
  sn_model *model = NULL;
  sn_generator *generator = NULL;
  sn_generate_options options = {.temperature = 0.8, .top_k = 40, .seed = 1};
  bool ok = sn_ctx_create(NULL, &ctx) == SN_OK && sn_store_create(ctx, &store) == SN_OK &&
            open_model(ctx, argc > 1 ? argv[1] : NULL, store, &model) == SN_OK &&
            sn_generator_create(model, store, &options, &generator) == SN_OK &&
            generate(generator, prompt, n, out) == SN_OK;
  for (int i = 0; ok && i < NEW; i++)
    printf("%d%c", out[i], i + 1 < NEW ? ' ' : '\n');
  if (!ok)
    fprintf(stderr, "generate: %s\n", ctx ? sn_ctx_message(ctx) : "no memory");

  sn_generator_destroy(generator);
  sn_model_destroy(model);
  sn_store_destroy(store);
  sn_ctx_destroy(ctx);
  return ok ? 0 : 1;
}
