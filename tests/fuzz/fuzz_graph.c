/* Fuzzes the text form of graphs: any text parses or is refused with a message; what parses is sound,
 * prints, and what is printed parses to a graph that prints the same. */
#include <sinew/graph.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void demand(bool holds) {
  if (!holds)
    abort();
}

static void check_again(sn_ctx *ctx, const sn_graph *graph) {
  char *once, *twice;
  sn_graph *again;
  demand(sn_graph_verify(graph) == SN_OK);
  demand(sn_graph_print(graph, &once) == SN_OK);
  demand(sn_graph_parse(ctx, once, &again) == SN_OK);
  demand(sn_graph_verify(again) == SN_OK);
  demand(sn_graph_print(again, &twice) == SN_OK);
  demand(strcmp(once, twice) == 0);
  sn_text_free(ctx, once);
  sn_text_free(ctx, twice);
  sn_graph_destroy(again);
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
  sn_status status = sn_graph_parse(ctx, source, &graph);
  demand((status == SN_OK) == (graph != NULL));
  if (status == SN_OK)
    check_again(ctx, graph);
  else
    demand(status != SN_ERR_INTERNAL && *sn_ctx_message(ctx));
  sn_graph_destroy(graph);
  sn_ctx_destroy(ctx);
  free(source);
  return 0;
}
