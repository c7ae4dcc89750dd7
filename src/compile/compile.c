/* The pipeline, pass by pass. Each pass takes what the one before left in `run` and fails with a message of its own;
 * nothing outlives a failure. See compile.h for who calls it and plan.h for what each pass requires and keeps. */
#include "base/stack.h"
#include "compile/cache.h"

#include <time.h>

typedef struct run {
  sn_ctx *ctx;
  const sn_graph *given;
  const compile_options *options;
  compiled *out;         /* program, lowered and report grow here */
  bool recall;           /* look into the cache */
  char name[CACHE_NAME]; /* there */
} run;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- passes --- */

static sn_status check_given(run *r) {
  SN_TRY(sn_graph_verify(r->given));
  if (!r->options->cache)
    return SN_OK;
  SN_TRY(cache_check(r->options->cache, r->ctx));
  return cache_name(r->given, r->options, r->name);
}

static sn_status optimise(run *r) {
  if (r->options->no_opt)
    return SN_OK;
  opt_options o = OPT_OPTIONS_INIT;
  o.fast_math = r->options->fast_math;
  o.target = r->options->target;
  return opt_run(r->given, &o, &r->out->optimised, &r->out->report.opt);
}

static sn_status lower(run *r) {
  const sn_graph *g = r->out->optimised ? r->out->optimised : r->given;
  return plan_lower(g, &r->out->lowered);
}

/* Finds a program in the cache, or makes one: values and steps, in some order. */
static sn_status fuse(run *r) {
  if (r->recall) {
    SN_TRY(cache_load(r->options->cache, r->name, r->out->lowered, &r->out->program));
    r->out->report.from_cache = r->out->program != NULL;
  }
  if (r->out->program)
    return SN_OK;
  plan_options o = {.no_fusion = r->options->no_fusion,
                    .channels_last = r->options->channels_last,
                    .watched = r->options->watched};
  SN_TRY(plan_fuse(r->out->lowered, &o, &r->out->program));
  return plan_cut(r->out->program, r->ctx, r->options->cut_all);
}

static sn_status order(run *r) {
  return r->out->report.from_cache ? SN_OK : plan_order(r->out->program, r->ctx);
}

static sn_status place(run *r) {
  if (r->out->report.from_cache)
    return SN_OK;
  SN_TRY(plan_in_place(r->out->program, r->ctx));
  SN_TRY(plan_place(r->out->program, r->ctx));
  return plan_barriers(r->out->program, r->ctx);
}

static sn_status prove(run *r) {
  SN_TRY(plan_verify(r->out->program, r->out->lowered));
  return plan_verify_watched(r->out->program, r->ctx, r->options->watched);
}

/* A program of the cache that is not the graph's, or cannot be proved to be for want of memory, is made anew. */
static sn_status verify(run *r) {
  sn_status status = prove(r);
  if (status == SN_OK || !r->out->report.from_cache)
    return status;
  program_destroy(r->out->program);
  r->out->program = NULL;
  r->recall = r->out->report.from_cache = false;
  SN_TRY(fuse(r));
  SN_TRY(order(r));
  SN_TRY(place(r));
  return prove(r);
}

/* A plan that cannot be kept is still good; without memory nothing goes on. */
static sn_status keep(run *r) {
  if (!r->options->cache || r->out->report.from_cache)
    return SN_OK;
  sn_status status = cache_save(r->options->cache, r->name, r->out->program, r->ctx);
  return status == SN_ERR_NO_MEMORY ? status : SN_OK;
}

/* The pipeline. */
static const struct {
  sn_status (*pass)(run *r);
  size_t seconds; /* where its time goes in the report */
} passes[] = {{check_given, offsetof(compile_report, phase_s.check)},
              {optimise, offsetof(compile_report, phase_s.opt)},
              {lower, offsetof(compile_report, phase_s.lower)},
              {fuse, offsetof(compile_report, phase_s.fuse)},
              {order, offsetof(compile_report, phase_s.order)},
              {place, offsetof(compile_report, phase_s.place)},
              {verify, offsetof(compile_report, phase_s.verify)},
              {keep, offsetof(compile_report, phase_s.keep)}};

/* --- report --- */

static sn_status count_live(const sn_graph *g, int64_t *out_n) {
  bool *live = mem_array(g->ctx, g->n_nodes, sizeof *live);
  if (!live)
    return SN_ERR_NO_MEMORY;
  graph_mark_live(g, live);
  for (uint32_t i = 0; i < g->n_nodes; i++)
    *out_n += live[i];
  mem_free(g->ctx, live, g->n_nodes * sizeof *live);
  return SN_OK;
}

/* Steps of prepare are not counted: they do not run with every run. */
static sn_status fill_report(run *r) {
  compile_report *report = &r->out->report;
  const program *p = r->out->program;
  for (int i = p->n_prepare; i < program_steps(p); i++) {
    report->steps++;
    report->launches += p->steps[i].launches;
    report->barriers += p->steps[i].barrier;
  }
  SN_TRY(count_live(r->given, &report->nodes_before));
  return count_live(r->out->lowered, &report->nodes_after);
}

static sn_status run_passes(void *user) {
  run *r = user;
  double before = now();
  for (size_t i = 0; i < COUNT_OF(passes); i++) {
    SN_TRY(passes[i].pass(r));
    double after = now();
    *(double *)((char *)&r->out->report + passes[i].seconds) = after - before;
    before = after;
  }
  return SN_OK;
}

sn_status compile_graph(const sn_graph *graph, const compile_options *options, compiled *out) {
  static const compile_options defaults = {0};
  *out = (compiled){0};
  run r = {.ctx = graph->ctx,
           .given = graph,
           .options = options ? options : &defaults,
           .out = out,
           .recall = options && options->cache && !options->anew};
  char message[sizeof r.ctx->message];
  memcpy(message, r.ctx->message, sizeof message);
  double start = now();
  sn_status status = stack_run_deep(r.ctx, run_passes, &r);
  out->report.total_s = now() - start;
  if (status == SN_OK)
    status = fill_report(&r);
  if (status != SN_OK)
    compile_destroy(out);
  else /* what a plan of the cache was refused for, or why none was kept, is nobody's concern */
    memcpy(r.ctx->message, message, sizeof message);
  return status;
}

void compile_forget(compiled *c) {
  sn_graph_destroy(c->optimised);
  sn_graph_destroy(c->lowered);
  c->optimised = c->lowered = NULL;
}

void compile_destroy(compiled *c) {
  compile_forget(c);
  if (c->program)
    program_destroy(c->program);
  *c = (compiled){0};
}
