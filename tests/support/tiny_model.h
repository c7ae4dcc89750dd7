/* Small language models for tests: configurations of each family, one step of training, folders on disk. */
#ifndef SINEW_TESTS_SUPPORT_TINY_MODEL_H
#define SINEW_TESTS_SUPPORT_TINY_MODEL_H

#include <sinew/sinew.h>

enum { TINY_VOCAB = 29, TINY_LENGTH = 32 };

/* Two layers of width 16: "gpt2", "llama" (grouped heads, tied), "mistral" (window of 3), "qwen2" (biases),
 * "qwen3" (norms of q and k, heads wider than the model), "gemma3" (all its own, one layer slides), "partial" (half of each head rotated). */
typedef struct tiny_family {
  const char *name;
  void (*configure)(sn_model_config *config);
} tiny_family;
extern const tiny_family tiny_families[]; /* ended by a NULL name */
sn_model_config tiny_config(const char *name);

/* A model with fresh weights in a store. All are NULL after a failure, which is a failed check. */
typedef struct tiny_model {
  sn_ctx *ctx;
  sn_model *model;
  sn_store *store;
} tiny_model;

bool tiny_start(tiny_model *t, const sn_model_config *config);
void tiny_end(tiny_model *t);

/* A trainer of such a model: batches of [2, 6] from tokens that a simple rule makes. */
typedef struct tiny_lesson {
  sn_graph *graph;
  sn_trainer *trainer;
  sn_token_data data;
} tiny_lesson;

enum { TINY_BATCH = 2, TINY_CONTEXT = 6, TINY_TOKENS = 200 };

/* Messages stay in the context of the model. Ended by tiny_lesson_end also after a failure. */
sn_status tiny_lesson_start(tiny_lesson *l, const sn_model *model, sn_store *store,
                            const sn_trainer_options *options);
/* The next micro-batch, as the counters in the store tell. */
sn_status tiny_lesson_step(tiny_lesson *l, float *out_loss);
void tiny_lesson_end(tiny_lesson *l);

#endif
