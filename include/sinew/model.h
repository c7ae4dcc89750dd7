/* Language models: the Llama family, Gemma 3 and GPT-2, from a configuration or from a Hugging Face folder.
 *
 *   sn_model *m;  sn_model_open(ctx, "path/to/folder", &m);       // reads config.json
 *   sn_store *store;  sn_store_create(ctx, &store);
 *   sn_model_load(m, store, "path/to/folder");                     // reads the safetensors
 *   sn_value logits = sn_model_logits(m, graph, &(sn_model_inputs){.ids = ids, .positions = pos});
 *
 * A model is a description; its weights are entries of a store, under the names of the Hugging Face
 * files, so that one store serves training, evaluation and generation.
 */
#ifndef SINEW_MODEL_H
#define SINEW_MODEL_H

#include <sinew/ops.h>
#include <sinew/session.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SN_MAX_LAYERS = 512 };

typedef enum sn_model_family { SN_MODEL_LLAMA, SN_MODEL_GPT2 } sn_model_family;
typedef enum sn_activation {
  SN_ACT_SILU,
  SN_ACT_GELU,
  SN_ACT_GELU_TANH,
  SN_ACT_RELU
} sn_activation;

typedef struct sn_rope_options {
  double base;
  sn_rope_scaling scaling;
  double factor, low, high, attention_factor;
  int64_t original_length;
  sn_dtype
      rounding; /* of the frequencies: f32 for none; 16 bits where a model was cast as a whole */
} sn_rope_options;

typedef struct sn_model_config {
  sn_model_family family;
  int64_t vocab, hidden, layers, heads, kv_heads, head_size, inner, max_length;
  double norm_eps;
  sn_activation activation;
  bool tied;                               /* the output matrix is the embedding */
  bool qkv_bias, out_bias, mlp_bias;       /* Llama family */
  bool qk_norm;                            /* RMS norm of each head's q and k, as in Qwen3 */
  bool norm_offset;                        /* RMS norms multiply by 1 + weight, as in Gemma */
  bool sandwich_norms;                     /* norms behind attention and MLP too, as in Gemma */
  double embed_scale;                      /* of the embedded ids, rounded to file_dtype; 0: 1 */
  double attention_scale;                  /* of q·k; 0: 1 / sqrt(head_size) */
  double attention_softcap, logit_softcap; /* 0: none */
  int64_t window; /* sliding window, for the layers marked below; 0: none */
  bool sliding[SN_MAX_LAYERS];
  int64_t rotary; /* rotated part of the head; head_size when all */
  sn_rope_options rope;
  sn_rope_options rope_sliding; /* of the layers that slide; base 0: as the others */
  double dropout;               /* of embeddings, attention output and MLP output, in training */
  sn_dtype file_dtype;          /* of the weights in the files, as config.json says */
  double init_scale;            /* standard deviation of fresh weights */
  int64_t bos, eos;             /* -1: none */
} sn_model_config;

typedef struct sn_model sn_model;

/* vocab, hidden, layers, heads and max_length are the caller's. What else is left 0 becomes: kv_heads = heads,
 * head_size = hidden / heads, inner = 4 · hidden, rotary = head_size, norm_eps 1e-5, init_scale 0.02 (SN_ZERO: 0, for
 * these two), rope base 10000, without scaling, embed_scale 1, attention_scale 1 / sqrt(head_size), rope_sliding = rope. Mind that bos and
 * eos are token 0 then. */
SN_MUST_USE SN_API sn_status sn_model_create(sn_ctx *ctx, const sn_model_config *config,
                                             sn_model **out_model);
/* From folder/config.json, with the keys of old and new transformers versions. */
SN_MUST_USE SN_API sn_status sn_model_open(sn_ctx *ctx, const char *folder, sn_model **out_model);
SN_API void sn_model_destroy(sn_model *model);
SN_API sn_ctx *sn_model_ctx(const sn_model *model);
SN_API const sn_model_config *sn_model_get_config(const sn_model *model);

/* Names of the weights, as entries of a store and as tensors of the files. */
SN_API size_t sn_model_weight_count(const sn_model *model);
SN_API const char *const *sn_model_weight_names(const sn_model *model);
/* Adds the weights to the store: fresh from the seed, or from the folder's safetensors (where the names may
 * lack the prefix "model." or "transformer.", as in files of a bare model). Loading changes no entry
 * unless all tensors are there and fit, and takes the bytes once; what a read that fails leaves is said at sn_store_load. */
SN_MUST_USE SN_API sn_status sn_model_init(const sn_model *model, sn_store *store, uint64_t seed);
SN_MUST_USE SN_API sn_status sn_model_load(const sn_model *model, sn_store *store,
                                           const char *folder);

typedef struct sn_model_inputs {
  sn_value ids;       /* i32 [B, T] */
  sn_value positions; /* i32 [T] */
  /* With a cache (capacity > 0): T new rows are written from row `start` (i32 scalar) on, and rows below
   * `kv_length` (i32 [B], start + T) are seen. The cache is state "cache.k.<layer>" and "cache.v.…". */
  int64_t batch, capacity;
  sn_value start, kv_length;
  sn_value key;        /* random key for dropout; SN_NONE: none */
  bool mark_recompute; /* keep only the layers' results for the backward pass */
} sn_model_inputs;

/* Logits f32 [B, T, vocab]. */
SN_API sn_value sn_model_logits(const sn_model *model, sn_graph *graph,
                                const sn_model_inputs *inputs);

/* --- generation --- */

typedef struct sn_generator sn_generator;

/* A prompt is fed in pieces of at most so many ids: memory for what a run computes is that of a piece. */
enum { SN_GENERATE_PIECE = 512 };

typedef struct sn_generate_options {
  double temperature; /* 0: greedy */
  int64_t top_k;      /* 0: off */
  double top_p;       /* 0 or 1: off */
  double min_p;
  double repetition_penalty; /* 0 or 1: off */
  uint64_t seed;
  int64_t capacity;   /* longest sequence, prompt included; 0: the model's own. The cache for it is
                         taken at once: give what you need of a model with a long context */
  bool recompute;     /* run the whole sequence for each token, without a cache */
  const char *device; /* as in sn_session_options */
  /* How runs are done otherwise: threads, plan_cache, progress, spans, …; NULL: as by default. Read while the generator is
   * made. `device` above, where it is not NULL, goes before the one here; `local` must be NULL. */
  const sn_session_options *session;
} sn_generate_options;

/* The store must hold the weights, which are read anew for each token; the cache and the random key are the
 * generator's own. options may be NULL: greedy, up to the model's own length. */
SN_MUST_USE SN_API sn_status sn_generator_create(const sn_model *model, sn_store *store,
                                                 const sn_generate_options *options,
                                                 sn_generator **out_generator);
SN_API void sn_generator_destroy(sn_generator *generator);
/* Appends ids (the prompt, or more of it) and yields the next one. With n = 0: continues. It does not stop
 * at the model's eos: compare *out_id with it. */
SN_MUST_USE SN_API sn_status sn_generator_next(sn_generator *generator, const int32_t *ids,
                                               size_t n, int32_t *out_id);
/* The logits that the last id was drawn from: f32 [vocab]. */
SN_MUST_USE SN_API sn_status sn_generator_logits(sn_generator *generator, float *out_logits,
                                                 size_t n);

#ifdef __cplusplus
}
#endif

#endif
