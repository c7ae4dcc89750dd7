/* Training graphs of transformers, through the public API: forward, cross-entropy, sn_grad, AdamW with
 * clipping. What the compiler is measured and tested on. */
#ifndef SINEW_TESTS_SUPPORT_TRAIN_GRAPH_H
#define SINEW_TESTS_SUPPORT_TRAIN_GRAPH_H

#include <sinew/sinew.h>

typedef struct train_graph_options {
  sn_model_family family;
  int64_t layers, hidden, heads, kv_heads, inner, vocab, batch, tokens;
  bool symbolic_batch; /* the batch is a symbol "batch" of that maximum */
  bool recompute;      /* marks at the layers */
  double dropout;
  bool forward_only;
} train_graph_options;

/* A model of a few numbers for runs through the reference; SmolLM2-135M's sizes for measuring. */
train_graph_options train_graph_tiny(sn_model_family family, int64_t layers);
train_graph_options train_graph_smollm2(int64_t layers);

/* Inputs "ids", "labels" [batch, tokens], "positions" [tokens], "rate"; output "loss". */
sn_status train_graph_build(sn_ctx *ctx, const train_graph_options *o, sn_graph **out_graph);

#endif
