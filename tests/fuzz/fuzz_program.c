/* Fuzzes programs as bytes, which the plan cache reads from files: any bytes are refused with a message or give a program that
 * can be walked and printed, and whose bytes give the same program again. */
#include "compile/program_bytes.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void demand(bool holds) {
  if (!holds)
    abort();
}

static sn_graph *graph_for(sn_ctx *ctx) {
  sn_graph *g;
  demand(sn_graph_create(ctx, &g) == SN_OK);
  (void)sn_symbol(g, "n", 8);
  return g;
}

static void print(const program *p, text *out) {
  text_init(out, p->memory.ctx);
  program_print(p, out);
  demand(text_done(out) == SN_OK);
}

static void check_again(sn_ctx *ctx, const program *p) {
  sn_graph *g = graph_for(ctx);
  text bytes, once, twice;
  program *again;
  text_init(&bytes, ctx);
  demand(program_write(p, &bytes) == SN_OK);
  demand(program_read(bytes.data, bytes.size, g, &again) == SN_OK);
  print(p, &once);
  print(again, &twice);
  demand(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
  text_free(&bytes);
  text_free(&once);
  text_free(&twice);
  program_destroy(again);
  sn_graph_destroy(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  sn_ctx *ctx;
  program *p;
  if (sn_ctx_create(NULL, &ctx) != SN_OK)
    return 0;
  sn_graph *g = graph_for(ctx);
  sn_status status = program_read(bytes, size, g, &p);
  demand((status == SN_OK) == (p != NULL));
  if (status == SN_OK)
    check_again(ctx, p);
  else
    demand((status == SN_ERR_FORMAT || status == SN_ERR_NO_MEMORY) && *sn_ctx_message(ctx));
  program_destroy(p);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
  return 0;
}
