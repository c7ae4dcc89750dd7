/* Inspections: a compilation kept with its graphs, and the views of it that the public struct shows. Called by users (the
 * command among them); nothing else in the library depends on it.
 *
 * All views lie in one arena that goes with the inspection. */
#include "base/null.h"

#include <sinew/inspect.h>

#include "compile/compile.h"
#include "ir/dtype.h"
#include "ops/table.h"
#include "run/session.h"

typedef struct inspection {
  sn_inspection view; /* first: the public pointer is this one */
  sn_ctx *ctx;
  const sn_graph *given;
  compiled compiled;
  arena memory;
} inspection;

/* --- the graph --- */

/* The length of a scope up to its first part that is a number (model.layers.3); 0 without one. The name of a step will do
 * as well: it begins with the scope and a colon. */
static size_t layer_length(const char *scope) {
  for (const char *p = scope; *p;) {
    size_t n = strcspn(p, "./:");
    if (n && strspn(p, "0123456789") == n)
      return (size_t)(p - scope) + n;
    p += n + (p[n] != '\0');
  }
  return 0;
}

static int64_t count_layers(const sn_graph *g, const char **seen) {
  int64_t n = 0;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const char *scope = g->nodes[i].scope;
    size_t length = layer_length(scope);
    bool known = length == 0;
    /* The last ones first: a layer's nodes stand together. */
    for (int64_t k = n; k-- > 0 && !known;)
      known = layer_length(seen[k]) == length && strncmp(seen[k], scope, length) == 0;
    if (!known)
      seen[n++] = scope;
  }
  return n;
}

static sn_status count_ops(inspection *in, const sn_graph *g, int64_t *counts) {
  bool *live = arena_array(&in->memory, g->n_nodes, sizeof *live);
  if (!live)
    return SN_ERR_NO_MEMORY;
  graph_mark_live(g, live);
  for (uint32_t i = 0; i < g->n_nodes; i++)
    counts[g->nodes[i].op] += live[i];
  return SN_OK;
}

static sn_status view_graph(inspection *in) {
  const sn_graph *g = in->given;
  const compiled *c = &in->compiled;
  size_t n = (size_t)g->table->n;
  const char **seen = arena_array(&in->memory, g->n_nodes, sizeof *seen);
  int64_t *counts = arena_array(&in->memory, 3 * n, sizeof *counts);
  sn_op_count *ops = arena_array(&in->memory, n, sizeof *ops);
  if (!seen || !counts || !ops)
    return SN_ERR_NO_MEMORY;
  in->view.layers = count_layers(g, seen);
  SN_TRY(count_ops(in, g, counts));
  SN_TRY(count_ops(in, c->optimised ? c->optimised : g, counts + n));
  SN_TRY(count_ops(in, c->lowered, counts + 2 * n));
  for (size_t i = 0; i < n; i++) {
    sn_op_count row = {g->table->ops[i].name, counts[i], counts[n + i], counts[2 * n + i]};
    if (row.given || row.optimised || row.lowered)
      ops[in->view.n_ops++] = row;
    in->view.nodes_optimised += row.optimised;
  }
  in->view.ops = ops;
  in->view.nodes_before = c->report.nodes_before;
  in->view.nodes_after = c->report.nodes_after;
  return SN_OK;
}

/* --- the compiler --- */

static sn_status view_passes(inspection *in) {
  const compile_report *r = &in->compiled.report;
  const sn_named_number phases[] = {{"check", r->phase_s.check},  {"opt", r->phase_s.opt},
                                    {"lower", r->phase_s.lower},  {"fuse", r->phase_s.fuse},
                                    {"order", r->phase_s.order},  {"place", r->phase_s.place},
                                    {"verify", r->phase_s.verify}};
  sn_named_number *rules = arena_array(&in->memory, (size_t)r->opt.n_rules, sizeof *rules);
  in->view.phases = arena_copy(&in->memory, phases, sizeof phases);
  if (!rules || !in->view.phases)
    return SN_ERR_NO_MEMORY;
  in->view.n_phases = COUNT_OF(phases);
  for (int i = 0; i < r->opt.n_rules; i++)
    rules[i] = (sn_named_number){r->opt.rule[i].name, (double)r->opt.rule[i].hits};
  in->view.rules = rules;
  in->view.n_rules = r->opt.n_rules;
  in->view.compile_s = r->total_s;
  in->view.egraph.classes = r->opt.classes;
  in->view.egraph.nodes = r->opt.enodes;
  in->view.egraph.iterations = r->opt.iterations;
  in->view.egraph.matches = r->opt.matches;
  in->view.egraph.stop = opt_stop_name(r->opt.stop);
  in->view.egraph.seconds = r->opt.build_s + r->opt.saturate_s + r->opt.extract_s;
  in->view.egraph.cost_before = r->opt.cost_before;
  in->view.egraph.cost_after = r->opt.cost_after;
  in->view.egraph.kept_input = r->opt.kept_input;
  return SN_OK;
}

/* --- steps --- */

static sn_status view_archetypes(inspection *in) {
  const program *p = in->compiled.program;
  sn_named_number *list = arena_array(&in->memory, STEP_ARCHETYPES, sizeof *list);
  if (!list)
    return SN_ERR_NO_MEMORY;
  for (int a = 0; a < STEP_ARCHETYPES; a++) {
    sn_named_number row = {archetype_name((archetype)a), 0};
    for (int i = p->n_prepare; i < program_steps(p); i++)
      row.value += (int)p->steps[i].kind == a;
    if (row.value > 0)
      list[in->view.n_archetypes++] = row;
  }
  in->view.archetypes = list;
  return SN_OK;
}

static void count_in_layers(sn_inspection *view) {
  int64_t steps = 0, launches = 0;
  for (int i = view->prepare_steps; i < view->n_listed; i++)
    if (layer_length(view->step_list[i].name)) {
      steps++;
      launches += view->step_list[i].launches;
    }
  if (view->layers) {
    view->steps_per_layer = (double)steps / (double)view->layers;
    view->launches_per_layer = (double)launches / (double)view->layers;
  }
}

static sn_status view_steps(inspection *in) {
  const program *p = in->compiled.program;
  int n = program_steps(p);
  sn_step *steps = arena_array(&in->memory, (size_t)n, sizeof *steps);
  if (!steps)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < n; i++) {
    steps[i] = session_step_view(p, i);
    if (i < p->n_prepare)
      continue;
    in->view.flops += steps[i].flops;
    in->view.bytes += steps[i].bytes;
  }
  in->view.step_list = steps;
  in->view.n_listed = n;
  in->view.prepare_steps = p->n_prepare;
  in->view.steps = n - p->n_prepare;
  count_in_layers(&in->view);
  in->view.launches = in->compiled.report.launches;
  in->view.barriers = in->compiled.report.barriers;
  return view_archetypes(in);
}

/* --- memory --- */

static const char *name_of(inspection *in, uint32_t source) {
  const sn_graph *g = in->compiled.lowered;
  if (!source || source >= g->n_values)
    return "";
  const value_info *v = &g->values[source];
  const node *n = &g->nodes[v->node];
  if (v->label)
    return arena_strdup(&in->memory, v->label);
  return arena_printf(&in->memory, "%s%s%s", n->scope, *n->scope ? "/" : "", graph_op(g, n)->name);
}

/* The value whose memory this one has in the end. */
static uint32_t root_of(const program *p, uint32_t v) {
  while (p->values[v].in_place_of)
    v = p->values[v].in_place_of;
  return v;
}

static void widen(sn_lifetime *life, const program_value *v) {
  life->bytes = max_i64(life->bytes, v->bytes);
  life->first = v->first < life->first ? v->first : life->first;
  life->last = v->last > life->last ? v->last : life->last;
}

static sn_status view_lifetimes(inspection *in) {
  const program *p = in->compiled.program;
  sn_lifetime *list = arena_array(&in->memory, p->n_values, sizeof *list);
  int *at = arena_array(&in->memory, p->n_values, sizeof *at); /* by root: its place + 1 */
  if (!list || !at)
    return SN_ERR_NO_MEMORY;
  for (uint32_t v = 1; v < p->n_values; v++) {
    const program_value *value = &p->values[v];
    uint32_t root = root_of(p, v);
    if (value->home != HOME_ARENA || p->values[root].home != HOME_ARENA)
      continue;
    if (!at[root]) {
      const program_value *r = &p->values[root];
      const char *name = name_of(in, r->source);
      if (!name)
        return SN_ERR_NO_MEMORY;
      list[in->view.n_lifetimes++] =
          (sn_lifetime){root, name, r->bytes, r->offset, r->first, r->last};
      at[root] = in->view.n_lifetimes;
    }
    widen(&list[at[root] - 1], value);
  }
  in->view.lifetimes = list;
  return SN_OK;
}

static int64_t value_bytes(const sn_graph *g, sn_type type) {
  int64_t bytes = (int64_t)sn_dtype_size(type.dtype);
  for (int d = 0; d < type.shape.rank; d++)
    bytes *= sn_dim_max(g, type.shape.dim[d]);
  return bytes;
}

static sn_status view_memory(inspection *in) {
  const program *p = in->compiled.program;
  const sn_graph *g = in->given;
  in->view.peak_bytes = p->arena_bytes;
  in->view.lower_bound_bytes = p->lower_bound;
  in->view.prepare_bytes = p->prepared_bytes;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    int64_t bytes = value_bytes(g, g->values[g->nodes[i].first].type);
    in->view.state_bytes += g->nodes[i].op == OP_state ? bytes : 0;
    in->view.input_bytes += g->nodes[i].op == OP_input ? bytes : 0;
  }
  for (int i = 0; i < g->n_outputs; i++)
    in->view.output_bytes += value_bytes(g, g->values[g->outputs[i].value.id].type);
  for (int i = 0; i < p->n_constants; i++)
    in->view.constant_bytes += (int64_t)p->constants[i].size;
  return view_lifetimes(in);
}

/* --- the object --- */

static sn_status fill(inspection *in, const sn_inspect_options *o) {
  const session_engine *engine;
  const device *device_used;
  SN_TRY(session_choose(in->ctx, o->device, &engine, &device_used));
  if (!device_used) /* the reference compiles nothing: show what would run */
    device_used = device_find(NULL);
  in->view.device = device_used ? device_used->name : "";
  compile_options c = {.no_opt = o->no_optimizer,
                       .fast_math = o->fast_math,
                       .no_fusion = o->no_fusion,
                       .watched = o->finite_output};
  SN_TRY(compile_graph(in->given, &c, &in->compiled));
  SN_TRY(view_graph(in));
  SN_TRY(view_passes(in));
  SN_TRY(view_steps(in));
  return view_memory(in);
}

sn_status sn_inspect(const sn_graph *graph, const sn_inspect_options *options,
                     sn_inspection **out_inspection) {
  CLEARS(out_inspection);
  NEEDS(graph);
  NEEDS_ARGUMENT(graph->ctx, out_inspection);
  static const sn_inspect_options defaults = {0};
  SN_TRY(graph_check(graph, graph->ctx));
  inspection *in = mem_alloc(graph->ctx, sizeof *in);
  if (!in)
    return SN_ERR_NO_MEMORY;
  in->ctx = graph->ctx;
  in->given = graph;
  arena_init(&in->memory, in->ctx);
  sn_status status = fill(in, options ? options : &defaults);
  if (status == SN_OK)
    *out_inspection = &in->view;
  else
    sn_inspection_destroy(&in->view);
  return status;
}

void sn_inspection_destroy(sn_inspection *view) {
  inspection *in = (inspection *)view;
  if (!in)
    return;
  compile_destroy(&in->compiled);
  arena_clear(&in->memory);
  mem_free(in->ctx, in, sizeof *in);
}

sn_status sn_inspection_print(const sn_inspection *view, sn_inspect_text what, char **out_text) {
  CLEARS(out_text);
  NEEDS(view);
  NEEDS(out_text);
  const inspection *in = (const inspection *)view;
  if (what == SN_INSPECT_GRAPH)
    return sn_graph_print(in->compiled.optimised ? in->compiled.optimised : in->given, out_text);
  text t;
  text_init(&t, in->ctx);
  program_print(in->compiled.program, &t);
  sn_status status = text_done(&t);
  if (status == SN_OK) {
    *out_text = mem_strdup(in->ctx, t.data ? t.data : "");
    status = *out_text ? SN_OK : SN_ERR_NO_MEMORY;
  }
  text_free(&t);
  return status;
}
