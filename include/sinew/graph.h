/* Graphs: what is to be computed. Built op by op (ops.h), differentiated (sn_grad), printed, parsed,
 * and run by a session (session.h).
 *
 *   sn_graph *g;  sn_graph_create(ctx, &g);
 *   sn_value x = sn_input(g, "x", SN_F32, SN_SHAPE(sn_symbol(g, "batch", 64), 784));
 *   sn_value w = sn_state(g, "w", SN_F32, SN_SHAPE(784, 10), SN_INIT_NORMAL, 0.02);
 *   sn_output(g, "logits", sn_matmul(g, x, w, false, false));
 *   if (sn_graph_status(g) != SN_OK) puts(sn_graph_message(g));
 *
 * Builder errors are sticky: an op whose arguments do not fit yields an invalid value, ops on
 * invalid values yield invalid values, and the first error is kept in the graph. So model code needs
 * no checks until the graph is used. Values are hash-consed: the same op on the same arguments is
 * the same value, except where an op has an identity of its own (inputs, states, random streams).
 */
#ifndef SINEW_GRAPH_H
#define SINEW_GRAPH_H

#include <sinew/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_graph sn_graph;

/* One result of one op in a graph. Plain data, cheap to copy; means something in its graph only. */
typedef struct sn_value {
  uint32_t id; /* 0: no value (an optional argument left out); UINT32_MAX: invalid */
} sn_value;

#ifdef __cplusplus
#define SN_NONE \
  sn_value { 0 }
#else
#define SN_NONE ((sn_value){0})
#endif

SN_MUST_USE SN_API sn_status sn_graph_create(sn_ctx *ctx, sn_graph **out_graph);
SN_API void sn_graph_destroy(sn_graph *graph);
/* The first error of the builders, or SN_OK; and its message. */
SN_MUST_USE SN_API sn_status sn_graph_status(const sn_graph *graph);
SN_API const char *sn_graph_message(const sn_graph *graph);
SN_API sn_ctx *sn_graph_ctx(const sn_graph *graph);

/* --- Sizes. A symbol stands for 0 … max and is bound at each run. Expressions are canonical: equal
 * expressions are equal handles, so dims compare with ==. --- */
SN_API sn_dim sn_symbol(sn_graph *graph, const char *name, int64_t max);
SN_API sn_dim sn_dim_add(sn_graph *graph, sn_dim a, sn_dim b);
SN_API sn_dim sn_dim_sub(sn_graph *graph, sn_dim a, sn_dim b);
SN_API sn_dim sn_dim_mul(sn_graph *graph, sn_dim a, sn_dim b);
SN_API sn_dim sn_dim_div(sn_graph *graph, sn_dim a, int64_t divisor); /* floor; divisor > 0 */
/* The largest value that a dim can take: itself when it is a number. */
SN_API int64_t sn_dim_max(const sn_graph *graph, sn_dim dim);
/* Symbols in the order they were made: name and maximum of number `index`; NULL beyond the last. out_max may be
 * NULL. */
SN_API const char *sn_graph_symbol(const sn_graph *graph, int index, int64_t *out_max);
/* What a dim is where symbol number i is values[i]: 0 … its maximum. */
SN_MUST_USE SN_API sn_status sn_dim_value(const sn_graph *graph, sn_dim dim, const int64_t *values,
                                          int64_t *out_value);

/* --- Values. --- */
/* A valid value's type; dtype SN_NO_DTYPE for SN_NONE and invalid values. */
SN_API sn_type sn_value_type(const sn_graph *graph, sn_value value);
SN_API bool sn_value_valid(const sn_graph *graph, sn_value value);
/* Result k of the op that yields `first` (its result 0); invalid when there is no such result. */
SN_API sn_value sn_value_result(sn_graph *graph, sn_value first, int k);
/* The name of an input or a state; NULL for other values. */
SN_API const char *sn_value_name(const sn_graph *graph, sn_value value);
/* The states that the graph reads, in order; returns how many there are (capacity bounds what is
 * written). */
SN_API int sn_graph_states(const sn_graph *graph, sn_value *out_states, int capacity);
/* The inputs likewise. */
SN_API int sn_graph_inputs(const sn_graph *graph, sn_value *out_inputs, int capacity);
/* Names a value for messages and reports; the first label stays. Returns the value. */
SN_API sn_value sn_label(sn_graph *graph, sn_value value, const char *label);
/* Prefixes labels and the names in error messages: sn_scope_push(g, "layers.0"). */
SN_API void sn_scope_push(sn_graph *graph, const char *name);
SN_API void sn_scope_pop(sn_graph *graph);

/* --- Results. --- */
/* Makes a value readable after a run under `name`. */
SN_API void sn_output(sn_graph *graph, const char *name, sn_value value);
/* Outputs in the order they were made: name and value of number `index`; NULL beyond the last. out_value may be NULL. */
SN_API const char *sn_graph_output(const sn_graph *graph, int index, sn_value *out_value);
/* Commits `value` to the state that `state` reads, at the end of each run; once per state. */
SN_API void sn_assign(sn_graph *graph, sn_value state, sn_value value);
/* What a state is assigned; SN_NONE when nothing is. */
SN_API sn_value sn_graph_assigned(const sn_graph *graph, sn_value state);

/* --- Constants. --- */
/* From bytes in row-major order (copied); the shape must be numbers. */
SN_API sn_value sn_constant_bytes(sn_graph *graph, sn_dtype dtype, sn_shape shape,
                                  const void *data);
/* A scalar of any dtype. */
SN_API sn_value sn_scalar(sn_graph *graph, sn_dtype dtype, double value);

/* --- Gradients. out_grads[i] = d loss / d wrt[i]; loss must be a float scalar. It is zeros where the loss does not depend
 * on wrt[i], and where it does so through sn_stop_gradient only. Fails, naming the op and the path, where a float op on the way
 * has no gradient, and where wrt[i] reaches the loss only through integers or bools (argmax, comparisons, sample, a
 * cast to i32): zeros would be no derivative there. Beside a way of floats, such as in where(x > 0, x, 0), these are no error,
 * and nothing is passed through them. --- */
SN_MUST_USE SN_API sn_status sn_grad(sn_graph *graph, sn_value loss, const sn_value *wrt, int n,
                                     sn_value *out_grads);
/* How values reach a loss; of several ways the best, and this is their order. */
typedef enum sn_grad_path {
  SN_GRAD_UNUSED,  /* not at all, or not a value of the graph */
  SN_GRAD_BLOCKED, /* only through integers or bools: sn_grad fails */
  SN_GRAD_STOPPED, /* no better than through sn_stop_gradient: the gradient is zeros */
  SN_GRAD_OPEN     /* through floats all the way */
} sn_grad_path;
/* Looks at what depends on what, and builds nothing. */
SN_MUST_USE SN_API sn_status sn_grad_paths(const sn_graph *graph, sn_value loss,
                                           const sn_value *values, int n, sn_grad_path *out_paths);
/* Marks a value as a boundary of recomputation: what lies between marked values (and before the
 * first) is not kept for the backward pass but computed again from the marked values. */
SN_API sn_value sn_recompute(sn_graph *graph, sn_value value);

/* --- Recognition: a graph in the form of which gradients need the least time and memory, so recognise before sn_grad.
 * What is written in small ops becomes composites, which have gradients of their own: softmax, norms, activations,
 * attention, cross-entropy. (Sessions find these in what they run, too; only gradients are taken before.) And a batch_norm
 * goes into the weights of the convolution that it stands behind, in f32, where these are not many for the
 * result. The trainer does it by itself.
 *
 *   sn_value keep[] = {loss, w}, kept[2];
 *   sn_graph_recognise(graph, keep, 2, kept, &better);
 *   sn_grad(better, kept[0], &kept[1], 1, &grad);
 *
 * The new graph computes the same within rounding and has the same gradients. It keeps inputs and states (all of
 * them), outputs, assigns, symbols, random streams, recomputation marks and labels of values that are still there, and the
 * values in keep, which out_kept gives in the new graph (it may be keep). What nothing needs is gone. The graph given
 * stays as it is; the new one is the caller's. --- */
SN_MUST_USE SN_API sn_status sn_graph_recognise(const sn_graph *graph, const sn_value *keep,
                                                int n_keep, sn_value *out_kept,
                                                sn_graph **out_graph);

/* --- Text form. Printing and parsing give back the same graph. --- */
/* *out_text is NUL-terminated; release it with sn_text_free. */
SN_MUST_USE SN_API sn_status sn_graph_print(const sn_graph *graph, char **out_text);
SN_MUST_USE SN_API sn_status sn_graph_parse(sn_ctx *ctx, const char *text, sn_graph **out_graph);
/* The text in a regular file of at most SN_GRAPH_MAX_TEXT bytes; messages begin with the path. */
#define SN_GRAPH_MAX_TEXT (256 << 20)
SN_MUST_USE SN_API sn_status sn_graph_parse_file(sn_ctx *ctx, const char *path,
                                                 sn_graph **out_graph);
SN_API void sn_text_free(sn_ctx *ctx, char *text);
/* Checks every invariant of the graph anew, from the op table. */
SN_MUST_USE SN_API sn_status sn_graph_verify(const sn_graph *graph);

#ifdef __cplusplus
}
#endif

#endif
