/* Fuzzes the planner: the text of a graph, where it parses and is small, becomes a program that its verifier proves, with and
 * without fusion; or is refused with a message, and never with one of a bug in Sinew. */
#include "compile/compile.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { MOST_NODES = 64, MOST_OPTIMISED = 24, MOST_ELEMENTS = 1 << 12 };

static bool is_small(const sn_graph *g) {
  for (uint32_t v = 1; v < g->n_values; v++) {
    int64_t n = 1;
    const sn_shape *s = &g->values[v].type.shape;
    for (int d = 0; d < s->rank; d++)
      if (!mul_fits(n, sn_dim_max(g, s->dim[d]), &n) || n > MOST_ELEMENTS)
        return false;
  }
  return g->n_nodes <= MOST_NODES;
}

static void check_compile(sn_ctx *ctx, const sn_graph *g, bool no_opt, bool no_fusion) {
  compile_options o = {.no_opt = no_opt, .no_fusion = no_fusion};
  compiled c;
  sn_status status = compile_graph(g, &o, &c);
  if ((status == SN_OK) == (c.program != NULL) && status != SN_ERR_INTERNAL &&
      (status == SN_OK || *sn_ctx_message(ctx))) {
    compile_destroy(&c);
    return;
  }
  fprintf(stderr, "%s%s: %s\n", no_opt ? "" : "optimised ", no_fusion ? "without fusion" : "fused",
          sn_ctx_message(ctx));
  abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  sn_ctx *ctx;
  sn_graph *graph;
  char *source = malloc(size + 1);
  if (!source || sn_ctx_create(NULL, &ctx) != SN_OK) {
    free(source);
    return 0;
  }
  if (size)
    memcpy(source, bytes, size);
  source[size] = '\0';
  if (sn_graph_parse(ctx, source, &graph) == SN_OK && is_small(graph)) {
    check_compile(ctx, graph, true, false);
    check_compile(ctx, graph, true, true);
    if (graph->n_nodes <= MOST_OPTIMISED)
      check_compile(ctx, graph, false, false);
  }
  sn_graph_destroy(graph);
  sn_ctx_destroy(ctx);
  free(source);
  return 0;
}
