/* Fuzzes the lines of `sinew bench ops --shapes`: each is refused with words, or becomes a graph or an error with a message; what
 * is to be filled with numbers is then an input of the graph. */
#include "cli/bench_ops.h"
#include "support/fuzz_files.h"

#include <stdlib.h>
#include <string.h>

/* What is measured, of a case that could be built. */
static void check_case(const ops_case *c) {
  fuzz_demand(c->n_inputs >= 0 && c->n_inputs <= OPS_INPUTS);
  fuzz_demand(c->flops >= 0 && c->read >= 0 && c->write >= 0);
  for (int i = 0; i < c->n_inputs; i++) {
    int64_t n = 1;
    sn_shape shape = c->inputs[i].type.shape;
    for (int d = 0; d < shape.rank; d++) {
      fuzz_demand(shape.dim[d] >= 0 && (shape.dim[d] == 0 || n <= INT64_MAX / shape.dim[d]));
      n *= shape.dim[d];
    }
  }
}

static void check_line(sn_ctx *ctx, const char *line) {
  char problem[OPS_PROBLEM] = "";
  ops_case c;
  if (!ops_parse(line, &c, problem)) {
    fuzz_demand(*problem && strlen(problem) < OPS_PROBLEM);
    return;
  }
  sn_status status = ops_build(ctx, &c);
  fuzz_demand(status == SN_OK || (status != SN_ERR_INTERNAL && *sn_ctx_message(ctx)));
  if (status == SN_OK)
    check_case(&c);
  sn_graph_destroy(c.graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  sn_ctx *ctx;
  char *lines = malloc(size + 1);
  fuzz_demand(lines && sn_ctx_create(NULL, &ctx) == SN_OK);
  if (size)
    memcpy(lines, bytes, size);
  lines[size] = '\0';
  for (char *at = lines, *end; at; at = end) {
    end = strchr(at, '\n');
    if (end)
      *end++ = '\0';
    check_line(ctx, at);
  }
  sn_ctx_destroy(ctx);
  free(lines);
  return 0;
}
