/* The body of a session, for the files that make it up: session.c (making, inputs, outputs, locks), session_ref.c (runs on
 * the reference interpreter) and session_plan.c (runs a compiled program on a device).
 *
 * Invariants: `outputs[i].data` belongs to the last run that succeeded and is touched by nothing but the end of the next
 * one. Memory and messages are those of the graph's context: a store may be another thread's, so nothing here uses its
 * context. Stores are read and written between session_lock and session_unlock only. */
#ifndef SINEW_RUN_SESSION_H
#define SINEW_RUN_SESSION_H

#include "device/device.h"
#include "run/store.h"

#include <sinew/session.h>

/* Memory that grows and stays; `data` is aligned to SESSION_ALIGN. */
enum { SESSION_ALIGN = 64 };
typedef struct session_buffer {
  void *data; /* NULL: none */
  void *block;
  size_t room;
} session_buffer;

typedef struct session_input {
  sn_value leaf;
  const char *name;
  session_buffer buffer; /* data NULL until written */
  size_t size;
  bool fresh; /* written since the last good run */
} session_input;

typedef struct session_output {
  const char *name;
  sn_type type; /* in numbers, of the last run */
  session_buffer buffer;
  size_t size;
} session_output;

/* How runs are done. All may be called after a failed `create`. */
typedef struct session_engine {
  /* Once, before the first run; the graph has no builder error. */
  sn_status (*create)(sn_session *s, const sn_session_options *options) SN_MUST_USE;
  /* One run: all is bound and written, the stores are locked. Fills s->next with outputs, commits states, counts their
   * versions up. An error leaves states and versions as they were. */
  sn_status (*run)(sn_session *s) SN_MUST_USE;
  void (*destroy)(sn_session *s);
  /* Step `index`, which is there: below the steps that s->stats counts. */
  sn_step (*step)(const sn_session *s, int index);
  /* An output of the last good run; NULL: it stands in s->outputs. */
  sn_status (*read)(sn_session *s, int output, void *data, size_t size);
} session_engine;

struct sn_session {
  sn_ctx *ctx;
  const sn_graph *graph;
  sn_store *store, *local; /* either may be NULL */
  sn_progress progress;
  int finite_output; /* -1: none */
  int64_t *bindings; /* -1 until bound */
  session_input *inputs;
  int n_inputs;
  session_output *outputs, *next; /* of the last good run; of the one that goes on */
  int n_outputs;
  int n_symbols, n_assigns;
  uint32_t n_nodes; /* of the graph, when the session was made */
  bool ran;
  sn_session_stats stats;
  const session_engine *engine;
  const device *device;      /* NULL on the reference */
  struct session_plan *plan; /* of session_plan.c */
};

extern const session_engine session_by_ref, session_by_plan;

/* Room for `size` bytes; what was in it is lost when it has to grow. false without memory: the old room stays. */
bool session_buffer_reserve(sn_ctx *ctx, session_buffer *b, size_t size) SN_MUST_USE;
void session_buffer_free(sn_ctx *ctx, session_buffer *b);

/* The type of a value of the graph under the bound symbols, in numbers, and its bytes. `what` and `name` say whose it is
 * where that fails. */
sn_status session_value_type(sn_session *s, sn_value v, const char *what, const char *name,
                             sn_type *out_type, size_t *out_size) SN_MUST_USE;
/* Types of s->next, and room for its outputs; with `watched` only for the one to watch. */
sn_status session_reserve_outputs(sn_session *s, bool watched) SN_MUST_USE;
/* The store that holds a state for this session. */
sn_store *session_home(const sn_session *s, const char *state);
/* Fails where the output to watch, as it stands in s->next, is not finite. */
sn_status session_check_finite(const sn_session *s) SN_MUST_USE;

/* Who runs sessions on the device of that name: *out_device is NULL for the reference. */
sn_status session_choose(sn_ctx *ctx, const char *name, const session_engine **out_engine,
                         const device **out_device) SN_MUST_USE;
/* For tests: its memory that holds nothing is made stale before each run (device.h); of the reference nothing is. */
void session_poison(sn_session *s);
/* A step of a program, for people. */
sn_step session_step_view(const program *p, int index);

#endif
