/* Fuzzes config.json: any JSON is refused with a message or gives a configuration that is whole, and of which a model is made or
 * refused with a message. */
#include "nn/model.h"
#include "support/fuzz_files.h"

#include <stdlib.h>
#include <string.h>

/* More layers take longer and find nothing more. */
enum { MOST_LAYERS = 12 };

/* What is whole stays as it is. */
static void check_whole(sn_ctx *ctx, const sn_model_config *config) {
  sn_model_config *again = malloc(sizeof *again);
  fuzz_demand(again != NULL);
  memcpy(again, config, sizeof *again);
  fuzz_demand(nn_config_finish(ctx, again) == SN_OK);
  fuzz_demand(memcmp(again, config, sizeof *again) == 0);
  free(again);
}

static void check_model(sn_ctx *ctx, const sn_model_config *config) {
  sn_model *model;
  sn_status status = sn_model_create(ctx, config, &model);
  fuzz_demand((status == SN_OK) == (model != NULL));
  fuzz_demand(status == SN_OK || (status != SN_ERR_INTERNAL && *sn_ctx_message(ctx)));
  for (size_t i = 0; model && i < sn_model_weight_count(model); i++)
    fuzz_demand(*sn_model_weight_names(model)[i] != '\0');
  sn_model_destroy(model);
}

static void check_config(sn_ctx *ctx, const sn_json *root) {
  sn_model_config *config = malloc(sizeof *config);
  fuzz_demand(config != NULL);
  sn_status status = nn_config_read(ctx, root, config);
  fuzz_demand(status == SN_OK || (status != SN_ERR_INTERNAL && *sn_ctx_message(ctx)));
  if (status == SN_OK) {
    check_whole(ctx, config);
    if (config->layers <= MOST_LAYERS)
      check_model(ctx, config);
  }
  free(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  sn_ctx *ctx;
  sn_json_doc *doc;
  fuzz_demand(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (sn_json_parse(ctx, (const char *)bytes, size, &doc) == SN_OK)
    check_config(ctx, sn_json_root(doc));
  sn_json_destroy(doc);
  sn_ctx_destroy(ctx);
  return 0;
}
