/* Graphs of convolutions with what stands between them in models: norms, pools, skips, gradients; and with what keeps values
 * row-major. What plans with channels last are tested on. */
#ifndef SINEW_TESTS_SUPPORT_IMAGE_GRAPHS_H
#define SINEW_TESTS_SUPPORT_IMAGE_GRAPHS_H

#include <sinew/sinew.h>

typedef struct image_graph {
  const char *name;
  /* The result of a model; trains: outputs are the gradients of its weights. channels: a multiple of 4. */
  sn_value (*build)(sn_graph *g, int64_t channels);
  bool trains;
  int least; /* values with their channels last, at the least, where they may be; -1: none at all */
} image_graph;

/* NULL beyond the last. */
const image_graph *image_graph_at(int k);
/* Outputs, gradients among them, of a fresh graph. */
sn_status image_graph_build(const image_graph *of, sn_graph *g, int64_t channels);
/* Ops on images drawn from a list, some of them convolutions; gradients in every second. (image_random.c) */
sn_status image_graph_random(sn_graph *g, uint64_t seed, int n_ops);

#endif
