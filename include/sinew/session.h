/* Sessions: a graph made ready to run, many times, on a store.
 *
 *   sn_session *s;
 *   sn_session_create(graph, store, NULL, &s);
 *   sn_session_bind(s, "batch", 32);
 *   sn_session_write(s, "x", pixels, sizeof pixels);
 *   sn_session_run(s);
 *   sn_session_read(s, "loss", &loss, sizeof loss);
 *
 * A run reads the state as it is at its start, computes the outputs, and at its end commits all assigns
 * at once. When a run fails, nothing is committed. The graph must outlive the session and must not be
 * changed while it lives. Every state that the graph reads must be in the store (sn_store_init,
 * sn_model_load); store may be NULL for a graph without state.
 */
#ifndef SINEW_SESSION_H
#define SINEW_SESSION_H

#include <sinew/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_session sn_session;

typedef struct sn_session_options {
  /* "auto" or a name that sn_device_name lists; NULL is "auto". */
  const char *device;
  /* A run whose output of this name is not finite fails (SN_ERR_NUMERIC) and commits nothing; NULL: no
   * such check. */
  const char *finite_output;
  /* States that this store has are read from and committed to it instead: what belongs to one session,
   * such as its KV cache; may be NULL. */
  sn_store *local;
  /* Called while a run goes on; it must not use the session or its stores. */
  sn_progress progress;
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

/* Devices of this build on this machine, the one that "auto" chooses first; NULL beyond the last. */
SN_API const char *sn_device_name(int index);
SN_API const char *sn_device_description(int index);

#ifdef __cplusplus
}
#endif

#endif
