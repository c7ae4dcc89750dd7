/* Sessions: a graph compiled once and run many times, on a store.
 *
 *   sn_session *s;
 *   sn_session_create(graph, store, NULL, &s);
 *   sn_session_bind(s, "batch", 32);
 *   sn_session_write(s, "x", pixels, sizeof pixels);
 *   sn_session_run(s);
 *   sn_session_read(s, "loss", &loss, sizeof loss);
 *
 * Creating a session compiles the graph and proves the plan; all memory is taken then, for the symbols' maxima. Other
 * values of symbols, other inputs and other contents of the store need no new session.
 *
 * A run reads the state as it is at its start, computes the outputs, and at its end commits all assigns
 * at once. When a run fails, nothing is committed. The graph must outlive the session and must not be
 * changed while it lives. Every state that the graph reads must be in the store (sn_store_init,
 * sn_model_load); store may be NULL for a graph without state.
 *
 * A session belongs to the thread of its graph's context, which also gives its memory and keeps its messages. Its store
 * may be shared with sessions on other threads: runs on one store wait for each other.
 */
#ifndef SINEW_SESSION_H
#define SINEW_SESSION_H

#include <sinew/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_session sn_session;

/* A step as one thread ran it; times are seconds of one clock. What is between two spans of a thread it spent waiting for
 * others, or without a part in a step. What a step waits for within itself belongs to it. */
typedef struct sn_span {
  int step;   /* sn_session_step tells what it is */
  int thread; /* 0 is the thread that called sn_session_run, and the only one of a GPU */
  double begin_s, end_s;
} sn_span;

/* How matmuls and what is like them multiply floats; everything else, and all sums, are f32 or better in any case.
 * SN_PRECISION_FAST: where the device has units for matrices of halves, an f32 product is the sum of three products of halves: 16 to
 * 21 bits of each factor. SN_PRECISION_HALF: one product, 8 to 11 bits of each factor. A device without such units computes
 * SN_PRECISION_EXACT: f32 factors. */
typedef enum sn_precision { SN_PRECISION_EXACT, SN_PRECISION_FAST, SN_PRECISION_HALF } sn_precision;

enum { SN_MAX_THREADS = 255 };

typedef struct sn_session_options {
  /* "auto" or a name that sn_device_name lists; NULL is "auto". "ref" runs the graph as it is, without compiling it:
   * the options below that are about the compiler, steps and threads then mean nothing. */
  const char *device;
  /* A run whose output of this name is not finite fails (SN_ERR_NUMERIC) and commits nothing; NULL: no
   * such check. */
  const char *finite_output;
  /* States that this store has are read from and committed to it instead: what belongs to one session,
   * such as its KV cache; may be NULL. */
  sn_store *local;
  /* Called while a run goes on; it must not use the session or its stores. A run can be cancelled until it begins to commit: to
   * its end, or with finite_output until that is known. */
  sn_progress progress;
  int threads; /* 0: as many as are good; at most SN_MAX_THREADS. The bits of results do not depend on it */
  sn_precision precision;
  /* What the compiler may do. fast_math allows rewrites that are wrong for infinities, NaN and cancellation (x - x = 0,
   * x / x = 1, 0 * x = 0); without it results stay within rounding of the graph as written. The other two are for finding
   * out what is at fault. */
  bool fast_math, no_optimizer, no_fusion;
  /* A folder where plans are kept for the next time, or NULL; SN_ERR_NOT_FOUND when there is no such folder. Files in it are
   * checked and proved like fresh plans, so what is in them can cost time but not change a result. One that cannot be read
   * or written is no error. */
  const char *plan_cache;
  /* Called on the thread that runs the session, at the latest when the run ends, good or not: for each step that ran, once
   * for each thread that had a part in it. Spans of one thread come in order and do not overlap. Room for all of them is
   * taken when the session is made. NULL: steps are not timed. It must not use the session or its stores. */
  void (*span)(void *user, const sn_span *span);
  void *span_user;
} sn_session_options;

SN_MUST_USE SN_API sn_status sn_session_create(const sn_graph *graph, sn_store *store,
                                               const sn_session_options *options,
                                               sn_session **out_session);
SN_API void sn_session_destroy(sn_session *session);

/* Gives a symbol its value for the runs that follow: 0 … its maximum. */
SN_MUST_USE SN_API sn_status sn_session_bind(sn_session *session, const char *symbol,
                                             int64_t value);

/* Inputs and outputs by name, or by a handle that is looked up once: -1 when there is none. */
SN_API int sn_session_find_input(const sn_session *session, const char *name);
SN_API int sn_session_find_output(const sn_session *session, const char *name);
/* Copies an input's value; it stays for later runs. Its size is checked against the symbols when the run
 * starts. Every input must have been written before the first run. */
SN_MUST_USE SN_API sn_status sn_session_write(sn_session *session, const char *name,
                                              const void *data, size_t size);
SN_MUST_USE SN_API sn_status sn_session_write_at(sn_session *session, int input, const void *data,
                                                 size_t size);
SN_MUST_USE SN_API sn_status sn_session_run(sn_session *session);
/* An output of the last run that succeeded; size must be its size. */
SN_MUST_USE SN_API sn_status sn_session_read(sn_session *session, const char *name, void *data,
                                             size_t size);
SN_MUST_USE SN_API sn_status sn_session_read_at(sn_session *session, int output, void *data,
                                                size_t size);
/* Type of an output in that run, in numbers. */
SN_MUST_USE SN_API sn_status sn_session_output_type(sn_session *session, int output,
                                                    sn_type *out_type);

/* --- what a session is made of and has done; on the reference all but `runs` and `threads` are
 * zeros, and there are no steps --- */

typedef struct sn_session_stats {
  int64_t compiles, prepares, runs; /* since it was made; good runs only */
  int64_t steps, launches,
      barriers; /* of one run, prepare aside; barriers: how often some wait for those before */
  int64_t prepare_steps; /* first steps of the plan, run when a state that they read has changed */
  int64_t arena_bytes, prepare_bytes; /* beside states, inputs and outputs */
  int64_t pipelines;                  /* a GPU's kernels that differ; 0 elsewhere */
  int64_t device_bytes; /* of a GPU's memory: all that the session holds, states aside */
  int threads;          /* that runs use */
  double compile_s;
  double host_s;   /* of the last good run: seconds that were not spent waiting for a GPU */
  bool from_cache; /* the plan was found in plan_cache, and proved */
} sn_session_stats;

SN_API sn_session_stats sn_session_get_stats(const sn_session *session);

/* A step of the plan; strings live as long as the session (or what else it came from). */
typedef struct sn_step {
  const char *name;      /* where in the model and which ops */
  const char *archetype; /* "matmul", "row", … */
  const char *phase;     /* "prepare", "main" or "commit" */
  int parts, launches;
  bool barrier;        /* waits for what came before */
  double flops, bytes; /* at the symbols' maxima */
} sn_step;

/* Steps in order, those of prepare first; SN_ERR_NOT_FOUND beyond the last. */
SN_MUST_USE SN_API sn_status sn_session_step(sn_session *session, int index, sn_step *out_step);

/* Devices of this build on this machine: "cpu", "ref", then GPUs, the best first; NULL beyond the last. To list GPUs loads their
 * drivers. Constants, for any thread:
 *
 *   for (int i = 0; sn_device_name(i); i++)
 *     printf("%s: %s\n", sn_device_name(i), sn_device_description(i)); */
SN_API const char *sn_device_name(int index);
SN_API const char *sn_device_description(int index);
/* What a look at the device itself tells: which of its units were tested, and how that went; "" where there is nothing to tell. It opens
 * the device and may test it, once; the text stays. */
SN_API const char *sn_device_note(int index);
/* The index of the device that a name (or NULL, "auto") means: "vulkan:0" is the first GPU, listed as "vulkan". -1: none. */
SN_API int sn_device_find(const char *name);
/* What a device can do a second at best. */
typedef struct sn_device_peaks {
  double bytes;        /* of its memory, read and written */
  double flops;        /* f32 operations; a multiply-add is two */
  double matrix_flops; /* of products of halves by its units for matrices; 0: it has none */
  double
      launch_s; /* from the begin of a step that does nothing to that of the next, which waits for it */
} sn_device_peaks;
/* Measures it, for some tenths of a second. SN_ERR_UNSUPPORTED for devices that do not know how. */
SN_MUST_USE SN_API sn_status sn_device_measure(sn_ctx *ctx, int index, sn_device_peaks *out_peaks);

/* Why a name means no device, where more can be said than that: "no Vulkan driver: …"; "" otherwise. Of "auto": why it means
 * the CPU; NULL means the same, but is "" as well where the machine has no GPU that could have been used. */
SN_API const char *sn_device_why_not(const char *name);

#ifdef __cplusplus
}
#endif

#endif
