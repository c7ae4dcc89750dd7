/* Training: optimisers that build graph, rate schedules, batches of tokens, and a trainer that ties them
 * to a store.
 *
 *   sn_trainer *t;
 *   sn_trainer_create(graph, loss, params, n, store, &options, &t);
 *   while (sn_trainer_steps(t) < 1000) {
 *     sn_session *s = sn_trainer_session(t);
 *     … sn_session_write(s, "ids", …) for micro-batch sn_trainer_batches(t) …
 *     sn_trainer_step(t, &loss);
 *   }
 *
 * All that a run needs to go on later is in the store: weights, moments, accumulated gradients, the
 * counters of steps and micro-batches, the random key, the loss scale. Data order and learning rate are
 * functions of those counters. So a checkpoint of the store resumes bit for bit, even in the middle of
 * an accumulation.
 */
#ifndef SINEW_TRAIN_H
#define SINEW_TRAIN_H

#include <sinew/ops.h>
#include <sinew/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- optimisers --- */

typedef enum sn_optimizer_kind { SN_SGD, SN_ADAM, SN_ADAMW } sn_optimizer_kind;

typedef struct sn_optimizer {
  sn_optimizer_kind kind;
  double momentum; /* SGD */
  bool nesterov;
  double weight_decay; /* added to the gradient (SGD, Adam) or taken off the weight (AdamW) */
  /* Adam; 0: 0.9, 0.999, 1e-8, and SN_ZERO: 0. Betas lie below 1. Without eps, a gradient that was always 0 gives NaN. */
  double beta1, beta2, eps;
} sn_optimizer;

/* One trainable state and how it is treated beside the others. */
typedef struct sn_param {
  sn_value state;
  double rate; /* times the learning rate; 0: 1, and SN_ZERO: 0, so that the value stays */
  bool no_decay;
} sn_param;

/* Assigns every parameter its next value. rate: f32 scalar; step: i32 scalar, updates done before this one;
 * apply: bool scalar, or SN_NONE; where it is false everything stays as it was. Moments are states
 * "train.m.<name>" and "train.v.<name>". */
SN_API void sn_optimizer_build(sn_graph *graph, const sn_optimizer *optimizer, sn_value rate,
                               sn_value step, const sn_param *params, const sn_value *grads, int n,
                               sn_value apply);
/* The root of the sum of squares of all values; f32 scalar. */
SN_API sn_value sn_global_norm(sn_graph *graph, const sn_value *values, int n);
/* Scales all by min(1, max_norm / (norm + 1e-6)). */
SN_API void sn_clip_by_norm(sn_graph *graph, sn_value norm, double max_norm, sn_value *values,
                            int n);

/* --- schedules --- */

typedef enum sn_schedule_kind {
  SN_SCHEDULE_CONSTANT,
  SN_SCHEDULE_LINEAR,
  SN_SCHEDULE_COSINE
} sn_schedule_kind;

typedef struct sn_schedule {
  sn_schedule_kind kind;
  double rate;       /* after warm-up; at most 2^32 */
  double final_rate; /* at `total` and later, for linear and cosine */
  int64_t warmup;    /* steps from rate/warmup up to rate */
  int64_t total;     /* 0: stays at rate */
} sn_schedule;

SN_API double sn_schedule_rate(const sn_schedule *schedule, int64_t step);

/* --- batches of tokens --- */

/* Windows of `context` ids and their successors as labels, in an order shuffled anew each epoch. */
typedef struct sn_token_data {
  const int32_t *tokens;
  int64_t n;
  int64_t context, batch;
  uint64_t seed;
} sn_token_data;

/* Micro-batches in an epoch; 0 when there are too few tokens for one window. */
SN_API int64_t sn_token_epoch(const sn_token_data *data);
/* Fills ids and labels, [batch, context] each, of micro-batch `index` (any number: epochs follow each
 * other). A pure function: the position in the data is the index alone. */
SN_API void sn_token_batch(const sn_token_data *data, int64_t index, int32_t *ids, int32_t *labels);

/* --- the trainer --- */

typedef struct sn_trainer_options {
  sn_optimizer optimizer;
  sn_schedule schedule;
  double clip_norm;   /* of the gradients of all parameters together; 0: off */
  int64_t accumulate; /* micro-batches an update is made from; 0 counts as 1 */
  double loss_scale; /* initial scale; it halves, and the update is left out, when a gradient is not
                         finite, and doubles after 2000 good updates; 0: no scaling */
  const char *device; /* as in sn_session_options */
  /* How runs are done otherwise: threads, plan_cache, progress, spans, …; NULL: as by default. Read while the trainer is
   * made, for its one session or, with accumulation, for both. `device` above, where it is not NULL, goes before the one
   * here; `local` and `finite_output` must be NULL: the trainer watches the loss itself. */
  const sn_session_options *session;
} sn_trainer_options;

typedef struct sn_trainer sn_trainer;

/* graph holds the model and its inputs. It stays as it is, and is not needed afterwards: the trainer recognises it
 * (sn_graph_recognise), adds gradients, updates and outputs ("loss", and one that it watches) to that, and initialises what
 * the store lacks. Loss and parameters are f32 (compute in 16 bits by casts in the graph). Each parameter is named once and
 * reaches the loss on a way that sn_grad_paths calls open; one that does not would never be trained, and is an error that names it.
 * Options are required: the schedule's rate has no default. */
SN_MUST_USE SN_API sn_status sn_trainer_create(const sn_graph *graph, sn_value loss,
                                               const sn_param *params, int n, sn_store *store,
                                               const sn_trainer_options *options,
                                               sn_trainer **out_trainer);
SN_API void sn_trainer_destroy(sn_trainer *trainer);
/* For writing inputs. */
SN_API sn_session *sn_trainer_session(sn_trainer *trainer);
/* Replaces the schedule, from the next update on: for plans that are made under way. */
SN_API void sn_trainer_set_schedule(sn_trainer *trainer, const sn_schedule *schedule);
SN_API const sn_schedule *sn_trainer_schedule(const sn_trainer *trainer);
SN_API sn_store *sn_trainer_store(const sn_trainer *trainer);
/* Runs one micro-batch and, when one is due, the update. What is not finite is not committed: where the loss or the f32 norm
 * of the gradients is none, or a parameter's next value (looked at where options let finite gradients make one: eps of
 * 0, momentum of 1, rate times decay above 1), the step is an error (SN_ERR_NUMERIC) that says which, and the
 * store stays as it was. With accumulation that holds for the micro-batch and for the update, each by itself: an update that
 * fails stays due. With loss_scale, gradients that are not finite are no error: the update is left out. */
SN_MUST_USE SN_API sn_status sn_trainer_step(sn_trainer *trainer, float *out_loss);
/* Updates due so far (made, or left out by loss scaling), and micro-batches consumed; from the store. */
SN_API int64_t sn_trainer_steps(const sn_trainer *trainer);
SN_API int64_t sn_trainer_batches(const sn_trainer *trainer);

/* A checkpoint: the store and, beside it, the schedule and pairs of the caller's. Written atomically. */
SN_MUST_USE SN_API sn_status sn_trainer_save(const sn_trainer *trainer, const char *path,
                                             const sn_safetensors_pair *metadata,
                                             size_t n_metadata);
/* Restores both; nothing changes unless all of it fits. What a read that fails leaves is said at sn_store_load. */
SN_MUST_USE SN_API sn_status sn_trainer_load(sn_trainer *trainer, const char *path);

#ifdef __cplusplus
}
#endif

#endif
