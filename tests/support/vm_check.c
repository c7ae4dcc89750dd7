/* Graphs on the interpreter of SPIR-V, against the reference. See vm_program.h. */
#include "support/vm_program.h"

#include "ir/dtype.h"
#include "support/chosen.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct leaves {
  arena memory;
  int64_t *sizes;
  void **inputs, **outputs, **states;
} leaves;

static void *filled(leaves *l, const plan_numbers *n, const program_leaf *leaf, bool numbers) {
  int64_t count = 1;
  for (int d = 0; d < leaf->type.shape.rank; d++)
    count *= size_at(l->sizes, leaf->type.shape.dim[d]);
  void *data = arena_alloc(&l->memory, (size_t)count * sn_dtype_size(leaf->type.dtype) + 1);
  for (int64_t i = 0; data && numbers && i < count; i++)
    dtype_store(leaf->type.dtype, data, i, plan_number(n, leaf->name, leaf->type.dtype, i));
  return data;
}

static void **fill_all(leaves *l, const plan_numbers *n, const program_leaf *leaf, int count,
                       bool numbers) {
  void **out = arena_array(&l->memory, (size_t)count + 1, sizeof *out);
  if (!out)
    abort();
  for (int i = 0; i < count; i++)
    if (!(out[i] = filled(l, n, &leaf[i], numbers)))
      abort();
  return out;
}

static sn_status make_leaves(leaves *l, sn_ctx *ctx, const program *p, const plan_numbers *n) {
  static const int64_t none[1] = {0};
  arena_init(&l->memory, ctx);
  l->sizes = arena_array(&l->memory, (size_t)program_sizes(p) + 1, sizeof *l->sizes);
  if (!l->sizes)
    return SN_ERR_NO_MEMORY;
  SN_TRY(program_bind(p, ctx, n->bindings ? n->bindings : none, l->sizes));
  l->inputs = fill_all(l, n, p->inputs, p->n_inputs, true);
  l->outputs = fill_all(l, n, p->outputs, p->n_outputs, false);
  l->states = fill_all(l, n, p->states, p->n_states, true);
  return SN_OK;
}

static const void *find_result(const program *p, const leaves *l, const oracle_tensor *t) {
  const program_leaf *leaf = t->assigned ? p->states : p->outputs;
  int n = t->assigned ? p->n_states : p->n_outputs;
  for (int i = 0; i < n; i++)
    if (strcmp(leaf[i].name, t->name) == 0)
      return t->assigned ? l->states[i] : l->outputs[i];
  return NULL;
}

static bool accept(const plan_oracle *o, const program *p, const leaves *l, const plan_numbers *n,
                   char *why, size_t size) {
  for (int i = 0; i < o->n; i++) {
    const void *data = find_result(p, l, &o->tensors[i]);
    if (!data) {
      snprintf(why, size, "the program has no \"%s\"", o->tensors[i].name);
      return false;
    }
    if (!oracle_accepts(&o->tensors[i], n, data, why, size))
      return false;
  }
  return true;
}

typedef struct check_run {
  sn_ctx *ctx;
  const program *program;
  const plan_numbers *n;
  const plan_oracle *oracle;
  bool fails; /* it must */
  vm_check_options options;
  vm_tally *tally;
} check_run;

static bool run_one(const check_run *c, int subgroup, vm_order order, char *why, size_t size) {
  leaves l = {0};
  bool ok = false;
  char said[600] = "";
  sn_status status = make_leaves(&l, c->ctx, c->program, c->n);
  vm_execution x = {.ctx = c->ctx,
                    .program = c->program,
                    .target = vm_target(subgroup),
                    .wide = c->options.wide,
                    .precision = c->options.precision,
                    .order = order,
                    .by_step = c->options.by_step,
                    .without = c->options.without,
                    .seed = c->program->n_values * 7 + 3,
                    .sizes = l.sizes,
                    .inputs = (const void *const *)l.inputs,
                    .outputs = l.outputs,
                    .states = l.states};
  if (c->options.precision != SN_PRECISION_EXACT) {
    x.target.f16 = x.target.bf16 = true;
    x.target.places = subgroup == 32;
    x.target.bf16_places = subgroup == 32 && (c->options.bf16 || c->program->n_values % 4);
    /* 8 x 8 x 8 on CPUs (Mesa's llvmpipe), 8 x 8 x 16 on Intel's GPUs */
    bool small = subgroup < 32;
    for (int i = 0; i < 3; i++)
      x.target.matrix[i] = small && (subgroup == 8 || i < 2) ? 8 : 16;
    if (subgroup == 16)
      x.target.max_threads = 512, x.target.shared_bytes = 48 << 10;
  }
  if (status == SN_OK)
    status = vm_execute(&x);
  if (status == SN_OK && !c->fails)
    ok = accept(c->oracle, c->program, &l, c->n, said, sizeof said);
  else if (status == SN_OK)
    snprintf(said, sizeof said, "the reference fails, the program does not");
  else
    snprintf(said, sizeof said, "%s", sn_ctx_message(c->ctx));
  if (c->fails)
    ok = status == SN_ERR_INVALID || status == SN_ERR_NUMERIC;
  if (c->tally) {
    c->tally->runs++;
    c->tally->launches += x.launches;
    c->tally->shaders += x.shaders;
    c->tally->matrix_shaders += x.matrix_shaders;
    c->tally->instructions += x.instructions;
  }
  if (!ok)
    snprintf(why, size, "subgroups of %d: %s", subgroup, said);
  arena_clear(&l.memory);
  return ok;
}

static plan_verdict run_sizes(check_run *r, const sn_graph *g, const sn_graph *lowered, char *why,
                              size_t size) {
  static const int subgroups[] = {8, 32, 64, 16};
  size_t sizes =
      r->program->n_values % 4 ? 3 : 4; /* 16, which Intel's GPUs have, some of them only */
  plan_oracle o;
  sn_status status = plan_oracle_run(&o, g, lowered, r->n);
  bool ok = status == SN_OK || status == SN_ERR_INVALID || status == SN_ERR_NUMERIC;
  r->oracle = &o;
  r->fails = status != SN_OK;
  if (!ok)
    snprintf(why, size, "the reference: %s", sn_ctx_message(g->ctx));
  for (size_t i = 0; i < sizes && ok; i++)
    ok = run_one(r, subgroups[i], (vm_order)(i % 3), why, size);
  plan_oracle_end(&o);
  return !ok ? PLAN_WRONG : r->fails ? PLAN_FAILS : PLAN_RIGHT;
}

plan_verdict vm_check(const sn_graph *g, const plan_numbers *n, int n_numbers,
                      const vm_check_options *options, vm_tally *tally, char *why, size_t size) {
  compiled c;
  plan_verdict all = PLAN_RIGHT;
  *why = '\0';
  if (compile_graph(g, options ? &options->compile : NULL, &c) != SN_OK) {
    snprintf(why, size, "it does not compile: %s", sn_ctx_message(g->ctx));
    return PLAN_WRONG;
  }
  check_run r = {.ctx = g->ctx, .program = c.program, .tally = tally};
  if (options)
    r.options = *options;
  if (r.options.change)
    r.options.change(r.options.change_user, c.program);
  for (int i = 0; i < n_numbers && all != PLAN_WRONG; i++) {
    plan_numbers mine = n[i];
    if (r.options.precision != SN_PRECISION_EXACT)
      mine.tolerance = precision_tolerance(r.options.precision);
    r.n = &mine;
    plan_verdict one = run_sizes(&r, g, c.lowered, why, size);
    all = one == PLAN_RIGHT ? all : one;
  }
  compile_destroy(&c);
  return all;
}

void vm_check_launches(const sn_graph *g, int launches) {
  char why[1000];
  vm_tally tally = {0};
  if (vm_check(g, &(plan_numbers){0}, 1, NULL, &tally, why, sizeof why) != PLAN_RIGHT)
    FAIL("%s", why);
  if (launches && tally.launches != launches * tally.runs)
    FAIL("%d launches in %d runs, %d a run wanted", tally.launches, tally.runs, launches);
}
