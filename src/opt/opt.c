/* The optimiser's pipeline: intake, saturate, extract, emit, and the guard that the result costs no more. */
#include "opt/opt.h"

#include "ir/dim.h"
#include "opt/emit.h"
#include "opt/intake.h"
#include "opt/nary.h"
#include "opt/saturate.h"

#include <time.h>

const char *opt_stop_name(opt_stop stop) {
  static const char *const names[] = {"fixpoint", "node budget", "match budget"};
  return names[stop];
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct run {
  const sn_graph *in;
  opt_options o;
  opt_report *report;
  sn_graph *out;
  egraph e;
  rule_set rules;
  extraction x;
  bool *live;
  class_id *of;
  sn_value *to;   /* where each value of the input went */
  sn_value *kept; /* where those to keep went */
} run;

void opt_mark_live(const sn_graph *g, const sn_value *keep, int n_keep, bool *live) {
  graph_mark_live(g, live);
  for (int i = 0; i < n_keep; i++)
    live[g->values[keep[i].id].node] = true;
  for (uint32_t i = n_keep ? g->n_nodes : 0; i-- > 0;)
    for (int k = 0; live[i] && k < g->nodes[i].n_in; k++)
      if (g->nodes[i].in[k].id)
        live[g->values[g->nodes[i].in[k].id].node] = true;
}

static sn_status build(run *r) {
  const sn_graph *g = r->in;
  double start = now();
  r->live = arena_array(&r->e.memory, g->n_nodes, sizeof *r->live);
  r->of = arena_array(&r->e.memory, g->n_values, sizeof *r->of);
  r->to = arena_array(&r->e.memory, g->n_values, sizeof *r->to);
  r->kept = arena_array(&r->e.memory, (size_t)r->o.n_keep + 1, sizeof *r->kept);
  if (!r->live || !r->of || !r->to || !r->kept)
    return SN_ERR_NO_MEMORY;
  opt_mark_live(g, r->o.keep, r->o.n_keep, r->live);
  for (uint32_t i = 0; i < g->n_nodes; i++)
    r->report->nodes_before += r->live[i];
  SN_TRY(rule_set_init(&r->rules, g->ctx, &r->e.memory, g->table, &r->o, -1));
  SN_TRY(opt_intake(&r->e, g, r->live, r->of));
  SN_TRY(opt_normalise(&r->e, r->live, r->of, r->o.fast_math));
  if (!r->o.max_nodes)
    r->o.max_nodes = 4 * r->report->nodes_before + 10000;
  if (!r->o.max_matches)
    r->o.max_matches = 40 * r->report->nodes_before + 100000;
  r->e.max_nodes = r->e.n_nodes + (uint32_t)min_i64(r->o.max_nodes, UINT32_MAX / 2);
  r->report->build_s = now() - start;
  return SN_OK;
}

static sn_status saturate(run *r) {
  double start = now();
  SN_TRY(opt_saturate(&r->e, &r->rules, &r->o, r->report));
  r->report->enodes = r->e.n_nodes;
  for (class_id c = 1; c < r->e.n_classes; c++)
    r->report->classes += egraph_find(&r->e, c) == c;
  r->report->saturate_s = now() - start;
  return SN_OK;
}

static sn_status fresh_graph(const sn_graph *like, sn_graph **out) {
  SN_TRY(graph_create(like->ctx, like->table, out));
  if (dim_copy_all(*out, like))
    return SN_OK;
  sn_graph_destroy(*out);
  *out = NULL;
  return SN_ERR_NO_MEMORY;
}

/* What the result costs, with the values that are kept. */
static sn_status cost_after(run *r) {
  for (int i = 0; i < r->o.n_keep; i++)
    r->kept[i] = r->to[r->o.keep[i].id];
  return opt_kept_cost(r->out, &r->o.target, r->kept, r->o.n_keep, &r->report->cost_after);
}

static sn_status keep_input(run *r) {
  sn_graph_destroy(r->out);
  r->out = NULL;
  r->report->kept_input = true;
  SN_TRY(fresh_graph(r->in, &r->out));
  SN_TRY(opt_copy(r->in, r->live, r->out, r->to));
  return cost_after(r);
}

static sn_status count_live(run *r, int64_t *out_n) {
  const sn_graph *g = r->out;
  bool *live = mem_array(g->ctx, g->n_nodes, sizeof *live);
  if (!live)
    return SN_ERR_NO_MEMORY;
  opt_mark_live(g, r->kept, r->o.n_keep, live);
  for (uint32_t i = 0; i < g->n_nodes; i++)
    *out_n += live[i];
  mem_free(g->ctx, live, g->n_nodes * sizeof *live);
  return SN_OK;
}

static sn_status extract(run *r) {
  double start = now();
  SN_TRY(extract_start(&r->x, &r->e, r->of, &r->o));
  SN_TRY(extract_improve(&r->x));
  SN_TRY(opt_emit(&r->x, r->of, r->out, r->to));
  SN_TRY(opt_kept_cost(r->in, &r->o.target, r->o.keep, r->o.n_keep, &r->report->cost_before));
  SN_TRY(cost_after(r));
  if (r->report->cost_after > r->report->cost_before)
    SN_TRY(keep_input(r));
  SN_TRY(count_live(r, &r->report->nodes_after));
  if (r->o.out_values)
    memcpy(r->o.out_values, r->to, r->in->n_values * sizeof *r->to);
  r->report->extract_s = now() - start;
  return SN_OK;
}

static void start_report(opt_report *report) {
  *report = (opt_report){.n_rules = rule_count()};
  for (int i = 0; i < rule_count(); i++)
    report->rule[i].name = rule_text(i)->name;
}

sn_status opt_run(const sn_graph *in, const opt_options *options, sn_graph **out_graph,
                  opt_report *report) {
  opt_report own;
  run r = {.in = in, .o = *options, .report = report ? report : &own};
  *out_graph = NULL;
  r.o.target.count_nodes = r.o.recognise_only;
  start_report(r.report);
  if (in->status != SN_OK)
    return diag_fail(in->ctx, in->status, "%s", in->message);
  for (int i = 0; i < r.o.n_keep; i++)
    if (!sn_value_valid(in, r.o.keep[i]))
      return diag_fail(in->ctx, SN_ERR_INVALID, "opt: a value to keep is not one of the graph");
  SN_TRY(fresh_graph(in, &r.out));
  sn_status status = egraph_init(&r.e, r.out, in->table);
  if (status == SN_OK)
    status = build(&r);
  if (status == SN_OK)
    status = saturate(&r);
  if (status == SN_OK)
    status = extract(&r);
  egraph_end(&r.e);
  if (status == SN_OK)
    *out_graph = r.out;
  else
    sn_graph_destroy(r.out);
  return status;
}

sn_status opt_recognise(const sn_graph *in, const opt_options *options, sn_graph **out_graph,
                        opt_report *report) {
  opt_options o = options ? *options : OPT_OPTIONS_INIT;
  o.recognise_only = true;
  return opt_run(in, &o, out_graph, report);
}
