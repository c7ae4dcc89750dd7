/* Fuzzes golden files, as `sinew check` reads them, for a model of four tokens and two weights: any JSON is refused with a message,
 * or every number that the check will ask for is there. */
#include "cli/golden_file.h"
#include "support/fuzz_files.h"

#include <math.h>

enum { VOCAB = 4 };
static const char *const weights[] = {"w", "model.norm.weight"};

static void check_row(const sn_json *row) {
  fuzz_demand(sn_json_size(row) == VOCAB);
  for (int64_t v = 0; v < VOCAB; v++)
    fuzz_demand(isfinite(golden_file_number(row, v)));
}

static void check_golden(const golden_file *g) {
  int64_t n = (int64_t)sn_json_size(g->greedy);
  fuzz_demand(g->batch > 0 && g->length > GOLDEN_MID && n > GOLDEN_PROMPT);
  for (int64_t i = 0; i < g->batch * g->length; i++) {
    fuzz_demand(g->ids[i] >= 0 && g->ids[i] < VOCAB);
    fuzz_demand(g->labels[i] >= 0 && g->labels[i] < VOCAB);
  }
  for (int64_t b = 0; b < g->batch; b++)
    check_row(sn_json_at(g->last, (size_t)b));
  check_row(g->mid);
  for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
    fuzz_demand(sn_json_get(g->grads, weights[i]) != NULL);
  for (int64_t i = 0; i < n; i++) {
    fuzz_demand(golden_file_id(g->greedy, i) >= 0 && golden_file_id(g->greedy, i) < VOCAB);
    fuzz_demand(i >= GOLDEN_PROMPT || golden_file_id(g->greedy, i) == g->ids[i]);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  const golden_file_model model = {VOCAB, weights, sizeof weights / sizeof *weights};
  sn_ctx *ctx;
  sn_json_doc *doc;
  fuzz_demand(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (sn_json_parse(ctx, (const char *)bytes, size, &doc) == SN_OK) {
    golden_file g;
    sn_status status = golden_file_read(ctx, "golden.json", sn_json_root(doc), &model, &g);
    fuzz_demand(status == SN_OK || (status == SN_ERR_FORMAT && *sn_ctx_message(ctx)));
    if (status == SN_OK)
      check_golden(&g);
    golden_file_free(&g);
  }
  sn_json_destroy(doc);
  sn_ctx_destroy(ctx);
  return 0;
}
