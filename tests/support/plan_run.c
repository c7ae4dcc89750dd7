/* See plan_run.h. */
#include "support/plan_run.h"

#include "device/cpu/isa.h"

#include "ir/dtype.h"
#include "ops/table.h"
#include "support/chosen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* With the address sanitizer nothing stands behind a buffer, so that reads beyond it are seen too. */
#ifdef __SANITIZE_ADDRESS__
enum { GUARD = 0 };
#else
enum { GUARD = 64 };
#endif
enum { GUARD_BYTE = 0xa5 };

/* --- compiling --- */

static sn_status by_hand(plan_run *r) {
  opt_options o = OPT_OPTIONS_INIT;
  plan_options p = {.no_fusion = r->options.no_fusion, .channels_last = r->options.channels_last};
  if (!r->options.no_opt)
    SN_TRY(opt_run(r->g, &o, &r->c.optimised, NULL));
  SN_TRY(plan_lower(r->c.optimised ? r->c.optimised : r->g, &r->c.lowered));
  SN_TRY(plan_fuse(r->c.lowered, &p, &r->c.program));
  SN_TRY(plan_order(r->c.program, r->ctx));
  SN_TRY(plan_in_place(r->c.program, r->ctx));
  SN_TRY(plan_place(r->c.program, r->ctx));
  return plan_barriers(r->c.program, r->ctx);
}

static const device *device_used(void) { return device_find(chosen_device()); }

/* One more plan; set: as SINEW_CPU has it, NULL: whatever that says. */
static sn_status lower(plan_run *r, const device *d, int threads, const char *set) {
  if (set)
    setenv("SINEW_CPU", set, 1);
  device_options o = {.threads = threads, .precision = chosen_precision()};
  sn_status status = d->lower(d, r->ctx, r->c.program, &o, &r->lowered[r->n_lowered]);
  if (set)
    unsetenv("SINEW_CPU");
  if (status == SN_OK)
    d->poison(r->lowered[r->n_lowered++]);
  return status;
}

static sn_status start(plan_run *r, bool proved) {
  const device *d = device_used();
  if (!d)
    return diag_fail(r->ctx, SN_ERR_NOT_FOUND, "SINEW_TEST_DEVICE: no such device compiles");
  if (r->options.channels_last == 0 && d->channels_last)
    r->options.channels_last = d->channels_last(d, r->ctx, chosen_precision());
  SN_TRY(proved ? compile_graph(r->g, &r->options, &r->c) : by_hand(r));
  SN_TRY(lower(r, d, 1, NULL));
  int several = 2 + (int)(r->c.program->n_values % 3);
  SN_TRY(lower(r, d, several, NULL));
  bool sets = strcmp(d->name, "cpu") == 0 && !getenv("SINEW_CPU");
  for (int i = 1; sets && cpu_isa_at(i); i++)
    SN_TRY(lower(r, d, several, cpu_isa_at(i)->name));
  return SN_OK;
}

sn_status plan_run_start(plan_run *r, const sn_graph *g, const compile_options *options) {
  *r = (plan_run){.ctx = g->ctx, .g = g};
  if (options)
    r->options = *options;
  return start(r, true);
}

void plan_run_end(plan_run *r) {
  for (int i = 0; i < r->n_lowered; i++)
    device_used()->destroy(r->lowered[i]);
  r->n_lowered = 0;
  compile_destroy(&r->c);
}

/* --- the host's buffers --- */

static size_t leaf_bytes(const plan_results *res, const program_leaf *leaf, int64_t *out_count) {
  *out_count = 1;
  for (int d = 0; d < leaf->type.shape.rank; d++)
    *out_count *= size_at(res->sizes, leaf->type.shape.dim[d]);
  return (size_t)*out_count * sn_dtype_size(leaf->type.dtype);
}

/* Of exactly that size, for the sanitizer's sake, and a multiple of the alignment. */
static void *new_buffer(plan_results *res, size_t bytes, bool stale) {
  void *data = NULL;
  if (res->n_blocks == res->cap_blocks ||
      posix_memalign(&data, PROGRAM_ALIGN, bytes + GUARD ? bytes + GUARD : 1) != 0)
    return NULL;
  memset(data, stale ? 0xff : 0, bytes);
  memset((char *)data + bytes, GUARD_BYTE, GUARD);
  res->blocks[res->n_blocks++] = (plan_block){data, bytes};
  return data;
}

static void *filled(plan_results *res, const plan_numbers *n, const program_leaf *leaf) {
  int64_t count;
  size_t bytes = leaf_bytes(res, leaf, &count);
  void *data = new_buffer(res, bytes, false);
  for (int64_t i = 0; data && i < count; i++)
    dtype_store(leaf->type.dtype, data, i, plan_number(n, leaf->name, leaf->type.dtype, i));
  return data;
}

static sn_status make_buffers(const program *p, const plan_numbers *n, plan_results *res) {
  arena *a = &res->memory;
  int64_t count;
  res->inputs = arena_array(a, (size_t)p->n_inputs, sizeof *res->inputs);
  res->outputs = arena_array(a, (size_t)p->n_outputs, sizeof *res->outputs);
  res->states = arena_array(a, (size_t)p->n_states, sizeof *res->states);
  res->cap_blocks = p->n_inputs + p->n_outputs + p->n_states;
  res->blocks = arena_array(a, (size_t)res->cap_blocks, sizeof *res->blocks);
  bool ok = res->inputs && res->outputs && res->states && res->blocks;
  for (int i = 0; ok && i < p->n_inputs; i++)
    ok = (res->inputs[i] = filled(res, n, &p->inputs[i])) != NULL;
  for (int i = 0; ok && i < p->n_states; i++)
    ok = (res->states[i] = filled(res, n, &p->states[i])) != NULL;
  for (int i = 0; ok && i < p->n_outputs; i++)
    ok = (res->outputs[i] = new_buffer(res, leaf_bytes(res, &p->outputs[i], &count), true)) != NULL;
  return ok ? SN_OK : SN_ERR_NO_MEMORY;
}

static bool untouched(const plan_results *res, const plan_numbers *n, const program_leaf *leaf,
                      const void *data) {
  int64_t count;
  (void)leaf_bytes(res, leaf, &count);
  for (int64_t i = 0; i < count; i++) {
    _Alignas(16) char expected[16];
    dtype_store(leaf->type.dtype, expected, 0, plan_number(n, leaf->name, leaf->type.dtype, i));
    size_t each = sn_dtype_size(leaf->type.dtype);
    if (memcmp(expected, (const char *)data + (size_t)i * each, each) != 0)
      return false;
  }
  return true;
}

static bool guards_hold(const plan_results *res) {
  for (int i = 0; i < res->n_blocks; i++)
    for (int k = 0; k < GUARD; k++)
      if (((const unsigned char *)res->blocks[i].data)[res->blocks[i].bytes + (size_t)k] !=
          GUARD_BYTE)
        return false;
  return true;
}

static sn_status check_buffers(plan_run *r, const plan_numbers *n, const plan_results *res,
                               bool failed) {
  const program *p = r->c.program;
  if (!guards_hold(res))
    return diag_fail(r->ctx, SN_ERR_INTERNAL, "the plan wrote behind a buffer of the host");
  for (int i = 0; i < p->n_inputs; i++)
    if (!untouched(res, n, &p->inputs[i], res->inputs[i]))
      return diag_fail(r->ctx, SN_ERR_INTERNAL, "the plan changed input \"%s\"", p->inputs[i].name);
  for (int i = 0; i < p->n_states; i++)
    if ((failed || !p->states[i].assigned) && !untouched(res, n, &p->states[i], res->states[i]))
      return diag_fail(r->ctx, SN_ERR_INTERNAL, "%s changed state \"%s\"",
                       failed ? "a failed run" : "the plan", p->states[i].name);
  return SN_OK;
}

/* --- running --- */

sn_status plan_run_once(plan_run *r, const plan_numbers *n, plan_results *res) {
  static const int64_t none[1] = {0};
  const program *p = r->c.program;
  *res = (plan_results){0};
  arena_init(&res->memory, r->ctx);
  res->sizes = arena_array(&res->memory, (size_t)program_sizes(p), sizeof *res->sizes);
  if (!res->sizes)
    return SN_ERR_NO_MEMORY;
  SN_TRY(program_bind(p, r->ctx, n->bindings ? n->bindings : none, res->sizes));
  SN_TRY(make_buffers(p, n, res));
  device_run run = {.sizes = res->sizes,
                    .inputs = res->inputs,
                    .outputs = res->outputs,
                    .states = res->states,
                    .prepare = !r->prepared[r->which]};
  sn_status status = device_used()->run(r->lowered[r->which], &run);
  r->prepared[r->which] = r->prepared[r->which] || status == SN_OK;
  sn_status buffers = check_buffers(r, n, res, status != SN_OK);
  return buffers != SN_OK ? buffers : status;
}

void plan_results_end(plan_results *res) {
  for (int i = 0; i < res->n_blocks; i++)
    free(res->blocks[i].data);
  arena_clear(&res->memory);
}

/* --- comparing --- */

static int find_leaf(const program_leaf *leaves, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(leaves[i].name, name) == 0)
      return i;
  return -1;
}

static bool accept(plan_run *r, const plan_oracle *o, const plan_numbers *n,
                   const plan_results *res, char *why, size_t size) {
  const program *p = r->c.program;
  for (int i = 0; i < o->n; i++) {
    const oracle_tensor *t = &o->tensors[i];
    int at = t->assigned ? find_leaf(p->states, p->n_states, t->name)
                         : find_leaf(p->outputs, p->n_outputs, t->name);
    if (at < 0) {
      snprintf(why, size, "the plan has no \"%s\"", t->name);
      return false;
    }
    r->tally.compared += !oracle_unsure(t);
    r->tally.passed_over += oracle_unsure(t);
    if (!oracle_accepts(t, n, t->assigned ? res->states[at] : res->outputs[at], why, size))
      return false;
  }
  return true;
}

static bool same_bits(const plan_results *a, const plan_results *b) {
  for (int i = 0; i < a->n_blocks; i++)
    if (memcmp(a->blocks[i].data, b->blocks[i].data, a->blocks[i].bytes) != 0)
      return false;
  return true;
}

/* Another run gives the bits of the first. */
static bool repeats(plan_run *r, const plan_numbers *n, const plan_results *first, int which,
                    char *why, size_t size) {
  plan_results again;
  const char *name = which ? "a run on several threads" : "the second run";
  r->which = which;
  sn_status status = plan_run_once(r, n, &again);
  bool same = status == SN_OK && same_bits(first, &again);
  if (status != SN_OK)
    snprintf(why, size, "%s fails: %s", name, sn_ctx_message(r->ctx));
  else if (!same)
    snprintf(why, size, "%s differs from the first", name);
  plan_results_end(&again);
  return same;
}

static bool right(plan_run *r, const plan_oracle *o, const plan_numbers *n, int which, char *why,
                  size_t size) {
  plan_results once;
  bool ok = false;
  char which_text[16] = "", said[300] = "";
  r->which = which;
  if (which)
    snprintf(which_text, sizeof which_text, "%s: ", cpu_isa_at(which - 1)->name);
  if (plan_run_once(r, n, &once) != SN_OK)
    snprintf(why, size, "%sthe run fails: %s", which_text, sn_ctx_message(r->ctx));
  else if (accept(r, o, n, &once, said, sizeof said))
    ok = which > 0 || (repeats(r, n, &once, 0, why, size) && repeats(r, n, &once, 1, why, size));
  else
    snprintf(why, size, "%s%s", which_text, said);
  plan_results_end(&once);
  return ok;
}

static bool all_right(plan_run *r, const plan_oracle *o, const plan_numbers *n, char *why,
                      size_t size) {
  bool ok = right(r, o, n, 0, why, size);
  for (int which = 2; which < r->n_lowered && ok; which++)
    ok = right(r, o, n, which, why, size);
  r->which = 0;
  return ok;
}

/* The message does not depend on threads either. */
static bool fails_well(plan_run *r, const plan_numbers *n, char *why, size_t size) {
  char expected[300];
  plan_results res;
  snprintf(expected, sizeof expected, "%s", sn_ctx_message(r->ctx));
  sn_status status = plan_run_once(r, n, &res);
  bool ok = status == SN_ERR_INVALID || status == SN_ERR_NUMERIC;
  plan_results_end(&res);
  if (status == SN_OK)
    snprintf(why, size, "the reference fails (%s), the plan does not", expected);
  else
    snprintf(why, size, "%s", sn_ctx_message(r->ctx));
  r->which = 1;
  bool same = plan_run_once(r, n, &res) == status &&
              (status == SN_OK || strncmp(why, sn_ctx_message(r->ctx), size - 1) == 0);
  r->which = 0;
  plan_results_end(&res);
  if (ok && !same)
    snprintf(why, size, "on several threads it fails otherwise: %s", sn_ctx_message(r->ctx));
  return ok && same && *why;
}

plan_verdict plan_run_compare(plan_run *r, const plan_numbers *n, char *why, size_t size) {
  plan_oracle o;
  plan_numbers mine = *n;
  mine.tolerance = fmax(n->tolerance, precision_tolerance(chosen_precision()));
  *why = '\0';
  sn_status status = plan_oracle_run(&o, r->g, r->c.lowered, n);
  plan_verdict verdict = PLAN_WRONG;
  if (status == SN_OK)
    verdict = all_right(r, &o, &mine, why, size) ? PLAN_RIGHT : PLAN_WRONG;
  else if (status == SN_ERR_INVALID || status == SN_ERR_NUMERIC)
    verdict = fails_well(r, n, why, size) ? PLAN_FAILS : PLAN_WRONG;
  else
    snprintf(why, size, "the reference: %s", sn_ctx_message(r->ctx));
  plan_oracle_end(&o);
  return verdict;
}

/* --- all ways --- */

static plan_verdict check_all(plan_run *r, const plan_numbers *n, int n_numbers, char *why,
                              size_t size) {
  plan_verdict all = PLAN_RIGHT;
  for (int i = 0; i < n_numbers; i++) {
    plan_verdict one = plan_run_compare(r, &n[i], why, size);
    if (one == PLAN_WRONG)
      return one;
    all = one == PLAN_FAILS ? one : all;
  }
  return all;
}

/* A plan that could not be proved: is it the plan or the proof? */
static void explain(plan_run *r, const plan_numbers *n, int n_numbers, char *why, size_t size) {
  char more[300] = "";
  const char *found = "its results are wrong, too: ";
  snprintf(why, size, "does not compile: %s", sn_ctx_message(r->ctx));
  plan_run_end(r);
  r->c = (compiled){0};
  if (start(r, false) != SN_OK)
    snprintf(more, sizeof more, "%s", sn_ctx_message(r->ctx));
  else if (check_all(r, n, n_numbers, more, sizeof more) != PLAN_WRONG)
    found = "unproved, its results are right";
  size_t used = strlen(why);
  snprintf(why + used, size - used, " (%s%s)", found, *found == 'i' ? more : "");
}

/* Those of PLAN_MODES in the environment, where it names any of them: a device that is slow to compile for need not see all. */
static int modes_wanted(int modes) {
  const char *asked = getenv("PLAN_MODES");
  int some = asked ? modes & atoi(asked) : modes;
  return some ? some : modes;
}

plan_verdict plan_check(const sn_graph *g, int modes, const plan_numbers *n, int n_numbers,
                        plan_tally *tally, char *why, size_t size) {
  static const char *const names[] = {"fused", "unfused", "fused, not optimised",
                                      "unfused, not optimised"};
  plan_verdict all = PLAN_RIGHT;
  for (int mode = 0; mode < 4 && all != PLAN_WRONG; mode++) {
    if (!(modes_wanted(modes) & 1 << mode))
      continue;
    plan_run r;
    char said[700] = "";
    compile_options o = {.no_fusion = mode & 1,
                         .no_opt = mode & 2,
                         .channels_last = mode & 2 ? 1 : 0,
                         .cut_all = mode & 2};
    plan_verdict one = PLAN_WRONG;
    if (plan_run_start(&r, g, &o) == SN_OK)
      one = check_all(&r, n, n_numbers, said, sizeof said);
    else
      explain(&r, n, n_numbers, said, sizeof said);
    if (tally) {
      tally->compared += r.tally.compared;
      tally->passed_over += r.tally.passed_over;
    }
    plan_run_end(&r);
    snprintf(why, size, "%s: %s", names[mode], said);
    all = one == PLAN_RIGHT ? all : one;
  }
  return all;
}
