/* Runs of a compiled program on a device. Called by session.c with the stores locked.
 *
 * Leaves of the program are found by name: inputs among the session's, states in whichever store holds them at the time of
 * the run (the addresses go to the device with each run, so one program serves whatever the stores do). `prepare` runs
 * when one of the states that it reads is not the entry, or not of the version, that it was made from.
 *
 * On a device with memory of its own (`resident`) states are mirrors of the stores' entries, and outputs stay on the device
 * until they are read.
 *
 * Invariants: `prepared` is false while the prepared arena may hold something else than the states' `seen` say. Nothing is allocated
 * by a run whose outputs are not larger than those of the runs before. */
#include "run/session.h"

#include "compile/compile.h"
#include "ops/table.h"

#include <time.h>

/* A state of the program. */
typedef struct plan_state {
  const node *of; /* of the graph */
  store_entry *entry;
  store_mirror *mirror; /* resident plans */
  bool prepares;        /* prepare, or what the device keeps, reads it */
  /* What prepare made its values from. */
  const store_entry *seen;
  const void *seen_data;
  uint64_t seen_version;
} plan_state;

/* An assign of the graph. */
typedef struct plan_assign {
  store_entry *entry;
  int state; /* the program's, where it writes it; -1: it found that it stays as it is */
} plan_assign;

/* What each run hands to the device, by leaf of the program. */
typedef struct plan_handed {
  const void **inputs;
  bool *fresh; /* by input */
  void **outputs;
  void **states;
  device_memory **mirrors; /* by state */
} plan_handed;

typedef struct session_plan {
  compiled compiled;
  device_plan *lowered;
  void (*span)(void *user, const sn_span *span);
  void *span_user;
  int64_t *sizes;
  plan_handed handed;
  int *input_of, *output_of; /* by leaf of the program: index among the session's */
  int *leaf_of;              /* by output of the session: that of the program */
  plan_state *states;
  int found
      [2]; /* entries of the stores when those of states were looked up; they are only ever added */
  plan_assign *assigns;
  bool resident;
  bool any_prepares;
  bool prepared;
} session_plan;

/* --- making one --- */

static sn_status allocate(sn_session *s) {
  session_plan *p = s->plan;
  const program *prog = p->compiled.program;
  plan_handed *h = &p->handed;
  arena *a = &p->compiled.program->memory; /* lives as long */
  size_t n_states = (size_t)prog->n_states, n_inputs = (size_t)prog->n_inputs,
         n_outputs = (size_t)prog->n_outputs;
  p->sizes = arena_array(a, (size_t)program_sizes(prog), sizeof *p->sizes);
  h->inputs = arena_array(a, n_inputs, sizeof *h->inputs);
  h->fresh = arena_array(a, n_inputs, sizeof *h->fresh);
  h->outputs = arena_array(a, n_outputs, sizeof *h->outputs);
  h->states = arena_array(a, n_states, sizeof *h->states);
  h->mirrors = arena_array(a, n_states, sizeof *h->mirrors);
  p->input_of = arena_array(a, n_inputs, sizeof *p->input_of);
  p->output_of = arena_array(a, n_outputs, sizeof *p->output_of);
  p->leaf_of = arena_array(a, (size_t)s->n_outputs, sizeof *p->leaf_of);
  p->states = arena_array(a, n_states, sizeof *p->states);
  p->assigns = arena_array(a, (size_t)s->n_assigns, sizeof *p->assigns);
  bool all = p->sizes && h->inputs && h->fresh && h->outputs && h->states && h->mirrors &&
             p->input_of && p->output_of && p->leaf_of && p->states && p->assigns;
  return all ? SN_OK : SN_ERR_NO_MEMORY;
}

static sn_status no_leaf(sn_session *s, const char *kind, const char *name) {
  return diag_fail(s->ctx, SN_ERR_INTERNAL, "session: the plan has %s \"%s\", the graph has not",
                   kind, name);
}

static sn_status find_leaves(sn_session *s) {
  session_plan *p = s->plan;
  const program *prog = p->compiled.program;
  for (int i = 0; i < prog->n_inputs; i++)
    if ((p->input_of[i] = sn_session_find_input(s, prog->inputs[i].name)) < 0)
      return no_leaf(s, "input", prog->inputs[i].name);
  for (int i = 0; i < prog->n_outputs; i++) {
    if ((p->output_of[i] = sn_session_find_output(s, prog->outputs[i].name)) < 0)
      return no_leaf(s, "output", prog->outputs[i].name);
    p->leaf_of[p->output_of[i]] = i;
  }
  for (int i = 0; i < prog->n_states; i++) {
    sn_value leaf = graph_find_named(s->graph, OP_state, prog->states[i].name);
    if (!leaf.id)
      return no_leaf(s, "state", prog->states[i].name);
    p->states[i].of = graph_node(s->graph, leaf);
  }
  return SN_OK;
}

static int64_t kept_bytes(const sn_session *s) {
  return s->device->kept_bytes ? s->device->kept_bytes(s->plan->lowered) : 0;
}

static void find_prepares(sn_session *s) {
  session_plan *p = s->plan;
  const program *prog = p->compiled.program;
  p->any_prepares = prog->n_prepare > 0 || kept_bytes(s) > 0;
  for (int i = 0; i < prog->n_states; i++) {
    bool keeps = s->device->keeps && s->device->keeps(p->lowered, i);
    p->states[i].prepares = prog->states[i].prepares || keeps;
  }
}

static void count(sn_session *s) {
  const compiled *c = &s->plan->compiled;
  int (*threads)(const device_plan *) = s->device->threads;
  s->stats = (sn_session_stats){.compiles = 1,
                                .steps = c->report.steps,
                                .launches = c->report.launches,
                                .barriers = c->report.barriers,
                                .prepare_steps = c->program->n_prepare,
                                .arena_bytes = c->program->arena_bytes,
                                .prepare_bytes = c->program->prepared_bytes + kept_bytes(s),
                                .threads = threads ? threads(s->plan->lowered) : 1,
                                .compile_s = c->report.total_s,
                                .from_cache = c->report.from_cache};
  if (!s->device->count)
    return;
  device_counts d;
  s->device->count(s->plan->lowered, &d);
  s->stats.launches = d.launches;
  s->stats.barriers = d.barriers;
  s->stats.pipelines = d.pipelines;
  s->stats.device_bytes = d.bytes;
}

static sn_status make(sn_session *s, const sn_session_options *o, bool anew) {
  session_plan *p = s->plan = mem_alloc(s->ctx, sizeof *p);
  if (!p)
    return SN_ERR_NO_MEMORY;
  p->span = o->span;
  p->span_user = o->span_user;
  compile_options c = {.no_opt = o->no_optimizer,
                       .fast_math = o->fast_math,
                       .no_fusion = o->no_fusion,
                       .watched = o->finite_output,
                       .cache = o->plan_cache,
                       .anew = anew,
                       .device = s->device->name};
  if (s->device->channels_last)
    c.channels_last = s->device->channels_last(s->device, s->ctx, o->precision);
  SN_TRY(compile_graph(s->graph, &c, &p->compiled));
  compile_forget(&p->compiled);
  SN_TRY(allocate(s));
  SN_TRY(find_leaves(s));
  p->resident = s->device->mirrors != NULL;
  device_options d = {.threads = o->threads,
                      .precision = o->precision,
                      .resident = p->resident,
                      .spans = o->span != NULL};
  SN_TRY(s->device->lower(s->device, s->ctx, p->compiled.program, &d, &p->lowered));
  find_prepares(s);
  count(s);
  return SN_OK;
}

static void destroy(sn_session *s) {
  session_plan *p = s->plan;
  if (!p)
    return;
  if (p->lowered)
    s->device->destroy(p->lowered);
  compile_destroy(&p->compiled);
  mem_free(s->ctx, p, sizeof *p);
  s->plan = NULL;
}

void session_poison(sn_session *s) {
  if (s->plan && s->plan->lowered)
    s->device->poison(s->plan->lowered);
}

/* A plan of the cache that is proved may still be one that no device takes: it is made anew. */
static sn_status create(sn_session *s, const sn_session_options *o) {
  char message[sizeof s->ctx->message];
  memcpy(message, s->ctx->message, sizeof message);
  sn_status status = make(s, o, false);
  bool from_cache = s->plan && ((session_plan *)s->plan)->compiled.report.from_cache;
  if (status == SN_OK || !from_cache)
    return status;
  destroy(s);
  memcpy(s->ctx->message, message, sizeof message); /* why it was not taken is nobody's concern */
  return make(s, o, true);
}

/* --- running --- */

/* The program's state of that name, where it writes it. */
static int find_assigned(const program *prog, const char *name) {
  for (int i = 0; i < prog->n_states; i++)
    if (prog->states[i].assigned && strcmp(prog->states[i].name, name) == 0)
      return i;
  return -1;
}

/* Entries by name, and again when the stores have got more. */
static sn_status find_entries(sn_session *s) {
  session_plan *p = s->plan;
  const program *prog = p->compiled.program;
  const sn_graph *g = s->graph;
  int now[2] = {s->store ? s->store->n + 1 : 1, s->local ? s->local->n + 1 : 1};
  if (memcmp(now, p->found, sizeof now) == 0)
    return SN_OK;
  for (int i = 0; i < prog->n_states; i++) {
    sn_store *home = session_home(s, prog->states[i].name);
    SN_TRY(store_entry_of(home, s->ctx, g, p->states[i].of, &p->states[i].entry));
  }
  for (int i = 0; i < s->n_assigns; i++) {
    const char *name = graph_leaf_name(g, graph_node(g, g->assigns[i].state));
    p->assigns[i] =
        (plan_assign){store_find(session_home(s, name), name), find_assigned(prog, name)};
  }
  memcpy(p->found, now, sizeof now);
  return SN_OK;
}

static sn_status bind_states(sn_session *s) {
  session_plan *p = s->plan;
  SN_TRY(find_entries(s));
  for (int i = 0; i < p->compiled.program->n_states; i++) {
    plan_state *state = &p->states[i];
    if (!p->resident) {
      SN_TRY(store_pull(state->entry, s->ctx));
      p->handed.states[i] = state->entry->data;
      continue;
    }
    SN_TRY(store_push(state->entry, s->ctx, s->device, &state->mirror));
    p->handed.mirrors[i] = state->mirror->memory;
  }
  return SN_OK;
}

static sn_status bind_leaves(sn_session *s) {
  session_plan *p = s->plan;
  const program *prog = p->compiled.program;
  for (int i = 0; i < prog->n_inputs; i++) {
    p->handed.inputs[i] = s->inputs[p->input_of[i]].buffer.data;
    p->handed.fresh[i] = s->inputs[p->input_of[i]].fresh;
  }
  for (int i = 0; i < prog->n_outputs; i++)
    p->handed.outputs[i] = s->next[p->output_of[i]].buffer.data;
  return bind_states(s);
}

static bool is_stale(const session_plan *p) {
  const program *prog = p->compiled.program;
  bool stale = !p->prepared;
  for (int i = 0; i < prog->n_states && !stale; i++) {
    const plan_state *state = &p->states[i];
    const store_entry *e = state->entry;
    stale = state->prepares &&
            (state->seen != e || state->seen_data != e->data || state->seen_version != e->version);
  }
  return stale;
}

static void remember(session_plan *p) {
  for (int i = 0; i < p->compiled.program->n_states; i++) {
    plan_state *state = &p->states[i];
    state->seen = state->entry;
    state->seen_data = state->entry->data;
    state->seen_version = state->entry->version;
  }
  p->prepared = true;
}

static sn_status read_output(sn_session *s, int output, void *data, size_t size) {
  const session_plan *p = s->plan;
  return s->device->read_output(p->lowered, p->leaf_of[output], data, size);
}

static sn_status before_commit(void *user) {
  sn_session *s = user;
  session_output *o = &s->next[s->finite_output];
  if (s->plan->resident)
    SN_TRY(read_output(s, s->finite_output, o->buffer.data, o->size));
  return session_check_finite(s);
}

static void pass_span(void *user, const device_span *span) {
  const session_plan *p = user;
  p->span(p->span_user, &(sn_span){span->step, span->thread, span->begin_s, span->end_s});
}

/* Every state that the graph assigns, also one that the plan found to stay as it is. */
static void count_versions(sn_session *s) {
  session_plan *p = s->plan;
  for (int i = 0; i < s->n_assigns; i++) {
    const plan_assign *a = &p->assigns[i];
    if (a->entry && a->state < 0)
      store_kept(a->entry);
    else if (a->entry)
      store_changed(a->entry, p->resident ? p->states[a->state].mirror : NULL);
  }
}

static sn_status run_device(sn_session *s, bool prepare) {
  session_plan *p = s->plan;
  device_run r = {.sizes = p->sizes,
                  .inputs = p->handed.inputs,
                  .outputs = p->handed.outputs,
                  .states = p->handed.states,
                  .mirrors = p->handed.mirrors,
                  .fresh = p->handed.fresh,
                  .prepare = prepare,
                  .before_commit = s->finite_output < 0 ? NULL : before_commit,
                  .user = s,
                  .progress = s->progress.report ? &s->progress : NULL,
                  .span = p->span ? pass_span : NULL,
                  .span_user = p};
  return s->device->run(p->lowered, &r);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Of the clock, without what was spent waiting for the device. */
static double host_seconds(const sn_session *s) {
  return seconds() - (s->device->waited ? s->device->waited() : 0);
}

static sn_status run(sn_session *s) {
  session_plan *p = s->plan;
  double begin = host_seconds(s);
  SN_TRY(program_bind(p->compiled.program, s->ctx, s->bindings, p->sizes));
  SN_TRY(session_reserve_outputs(s, p->resident));
  SN_TRY(bind_leaves(s));
  bool prepare = p->any_prepares && is_stale(p);
  p->prepared = p->prepared && !prepare;
  SN_TRY(run_device(s, prepare));
  if (prepare)
    remember(p); /* before versions change: a graph never prepares what it assigns */
  s->stats.prepares += prepare;
  count_versions(s);
  s->stats.host_s = host_seconds(s) - begin;
  return SN_OK;
}

/* --- looking at it --- */

sn_step session_step_view(const program *p, int index) {
  const step *s = &p->steps[index];
  const char *phase = index < p->n_prepare               ? "prepare"
                      : index < p->n_prepare + p->n_main ? "main"
                                                         : "commit";
  return (sn_step){.name = s->name ? s->name : "",
                   .archetype = archetype_name(s->kind),
                   .phase = phase,
                   .parts = s->n_parts,
                   .launches = s->launches,
                   .barrier = s->barrier,
                   .flops = s->flops,
                   .bytes = s->bytes};
}

static sn_step view_step(const sn_session *s, int index) {
  return session_step_view(s->plan->compiled.program, index);
}

static sn_status read(sn_session *s, int output, void *data, size_t size) {
  if (s->plan->resident)
    return read_output(s, output, data, size);
  if (size)
    memcpy(data, s->outputs[output].buffer.data, size);
  return SN_OK;
}

const session_engine session_by_plan = {create, run, destroy, view_step, read};
