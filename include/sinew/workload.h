/* The five reference workloads: SmolLM2-135M, SmolVLA, StableDiffusion (a small U-Net), ResNet-50 and
 * Whisper-tiny. Models, inputs and parameters are fixed by formulas, so that numbers and times can be
 * compared between engines without a download. docs/workloads.md tells what each one is.
 *
 *   const sn_workload *w = sn_workload_find("SmolLM2-135M");
 *   sn_workload_values v;
 *   sn_workload_build(w, graph, SN_WORKLOAD_FULL, &v);
 *   sn_workload_fill(w, graph, SN_WORKLOAD_LIVE, store);
 *   sn_output(graph, "loss", v.loss);
 *   sn_session_create(graph, store, NULL, &session);
 *   sn_workload_write(w, graph, SN_WORKLOAD_FULL, session);
 *
 * A workload is a constant; there is nothing to destroy.
 */
#ifndef SINEW_WORKLOAD_H
#define SINEW_WORKLOAD_H

#include <sinew/graph.h>
#include <sinew/session.h>
#include <sinew/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_workload sn_workload;

/* The whole batch with its loss; or the smallest input, for measuring latency: no loss. */
typedef enum sn_workload_form { SN_WORKLOAD_FULL, SN_WORKLOAD_LATENCY } sn_workload_form;

/* Parameter values: those of the public benchmark, which barely exercise the models, or values under which
 * every part of a model matters. */
typedef enum sn_workload_init { SN_WORKLOAD_ARENA, SN_WORKLOAD_LIVE } sn_workload_init;

/* All of them, by index (NULL beyond the last) and by name (NULL when there is none such). */
SN_API const sn_workload *sn_workload_at(int index);
SN_API const sn_workload *sn_workload_find(const char *name);
SN_API const char *sn_workload_name(const sn_workload *workload);
SN_API const char *sn_workload_summary(const sn_workload *workload);

typedef struct sn_workload_values {
  sn_value output;
  sn_value loss; /* f32 scalar; SN_NONE in the latency form */
} sn_workload_values;

/* Adds the model to a graph: its inputs, its parameters as states, its results. Nothing is made an output
 * yet. */
SN_MUST_USE SN_API sn_status sn_workload_build(const sn_workload *workload, sn_graph *graph,
                                               sn_workload_form form,
                                               sn_workload_values *out_values);
/* The states that are trained, of a graph that sn_workload_build made and that no other state was added
 * to; returns how many there are (capacity bounds what is written). */
SN_API int sn_workload_trainable(const sn_workload *workload, const sn_graph *graph,
                                 sn_value *out_states, int capacity);
/* Gives every parameter of such a graph its value in the store, adding the entries that are missing. */
SN_MUST_USE SN_API sn_status sn_workload_fill(const sn_workload *workload, const sn_graph *graph,
                                              sn_workload_init init, sn_store *store);
/* Writes the inputs of a session on a graph of this form. */
SN_MUST_USE SN_API sn_status sn_workload_write(const sn_workload *workload, const sn_graph *graph,
                                               sn_workload_form form, sn_session *session);

#ifdef __cplusplus
}
#endif

#endif
