/* Are the tests of ops any good? Plants one fault at a time into the op table (a vjp that is 0.1 % off, has
 * the wrong sign or forgets an argument; a shape rule with a wrong size, rank or dtype, or that accepts
 * everything; a definition that is wrong in one element) and runs the op's own walk on that table. Every
 * fault must be caught, and the run says by which check. A mutant runs in a child process, since a wrong
 * shape may well crash; that counts as caught. */
#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"
#include "support/op_walk.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum fault_site { SITE_GRAD, SITE_DECOMPOSE, SITE_INFER, SITE_REF } fault_site;

typedef struct fault {
  const char *name;
  fault_site site;
  int variant;
  int of; /* argument or result that it hits */
} fault;

/* The mutant of this process: one op, one fault. */
static struct {
  const op_impl *sound;
  fault fault;
  int n_results;
} mutant;

/* --- vjps --- */

enum { GRAD_SCALED, GRAD_NEGATED, GRAD_FORGOTTEN };

static void faulty_grad(build_ctx *c) {
  mutant.sound->grad(c);
  int i = mutant.fault.of;
  if (i >= c->n_in || !c->din[i].id)
    return;
  if (mutant.fault.variant == GRAD_FORGOTTEN)
    c->din[i] = SN_NONE;
  else
    c->din[i] = sn_affine(c->graph, c->din[i], mutant.fault.variant == GRAD_SCALED ? 1.001 : -1, 0);
}

static void faulty_decompose(build_ctx *c) {
  mutant.sound->decompose(c);
  sn_value *out = &c->out[mutant.fault.of];
  sn_dtype dtype = sn_value_type(c->graph, *out).dtype;
  if (dtype == SN_BOOL)
    *out = sn_logical_not(c->graph, *out);
  else if (dtype_is_float(dtype))
    *out = sn_affine(c->graph, *out, 1.001, 0);
  else
    *out = sn_add(c->graph, *out, sn_scalar(c->graph, dtype, 1));
}

/* --- shape rules --- */

enum { INFER_SIZE, INFER_RANK, INFER_DTYPE, INFER_ACCEPTS };

static void accept_anything(infer_ctx *c) {
  c->graph->status = SN_OK;
  for (int k = 0; k < c->op->n_results; k++)
    c->out[k] = c->n_in && c->in[0].dtype ? c->in[0] : (sn_type){SN_F32, {0}};
}

static sn_status faulty_infer(infer_ctx *c) {
  sn_status status = mutant.sound->infer(c);
  sn_type *t = &c->out[mutant.fault.of];
  if (mutant.fault.variant == INFER_ACCEPTS) {
    if (status != SN_OK)
      accept_anything(c);
    return SN_OK;
  }
  if (status != SN_OK)
    return status;
  sn_dim *last = t->shape.rank ? &t->shape.dim[t->shape.rank - 1] : NULL;
  if (mutant.fault.variant == INFER_SIZE && last && dim_is_number(*last))
    *last += 1;
  else if (mutant.fault.variant == INFER_RANK && t->shape.rank < SN_MAX_RANK)
    t->shape.dim[t->shape.rank++] = 1;
  else if (mutant.fault.variant == INFER_DTYPE)
    t->dtype = t->dtype == SN_F32 ? SN_BF16 : t->dtype == SN_I32 ? SN_U8 : SN_I32;
  return SN_OK;
}

/* --- definitions --- */

enum { REF_FIRST, REF_LAST, REF_SCALED };

static double disturbed(const ref_tensor *t, double x) {
  if (t->dtype == SN_BOOL)
    return x == 0;
  if (!dtype_is_float(t->dtype))
    return x + 1;
  return isfinite(x) ? x + 1e-3 * fmax(1, fabs(x)) : 0;
}

static sn_status faulty_ref(ref_ctx *c) {
  sn_status status = mutant.sound->ref(c);
  ref_tensor *t = &c->out[mutant.fault.of];
  if (status != SN_OK || t->count == 0)
    return status;
  if (mutant.fault.variant == REF_FIRST)
    t->data[0] = disturbed(t, t->data[0]);
  if (mutant.fault.variant == REF_LAST)
    t->data[t->count - 1] = disturbed(t, t->data[t->count - 1]);
  for (int64_t i = 0; mutant.fault.variant == REF_SCALED && i < t->count; i++)
    t->data[i] = dtype_is_float(t->dtype) ? t->data[i] * 1.001 : disturbed(t, t->data[i]);
  return SN_OK;
}

/* --- running one --- */

typedef struct planted {
  op_desc ops[OP_COUNT];
  op_impl impl;
  op_table table;
  int op;
} planted;

static void plant(planted *p, int op, fault f) {
  const op_table *table = op_table_get();
  memcpy(p->ops, table->ops, sizeof p->ops);
  mutant.sound = table->ops[op].impl;
  mutant.fault = f;
  p->impl = *mutant.sound;
  p->ops[op].impl = &p->impl;
  p->table = (op_table){p->ops, table->n};
  p->op = op;
  switch (f.site) {
  case SITE_GRAD: p->impl.grad = faulty_grad; break;
  case SITE_DECOMPOSE: p->impl.decompose = faulty_decompose; break;
  case SITE_INFER: p->impl.infer = faulty_infer; break;
  case SITE_REF: p->impl.ref = faulty_ref; break;
  }
}

static void walk_planted(void *arg) {
  planted *p = arg;
  op_walk_counts counts = {0};
  op_walk(&p->table, p->op, &counts);
}

/* What the child found: the first failed check, or "" when the mutant survived. */
static void child(int op, fault f, int out) {
  static planted p;
  plant(&p, op, f);
  test_result r = test_probe(walk_planted, &p);
  const char *found = r.failed ? r.failed_check : "";
  ssize_t written = write(out, found, strlen(found) < 400 ? strlen(found) : 400);
  _exit(written < 0);
}

static bool run_mutant(int op, fault f, char *found, size_t size) {
  int ends[2], status = 0;
  if (!CHECK(pipe(ends) == 0))
    return false;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(120);
    child(op, f, ends[1]);
  }
  close(ends[1]);
  ssize_t n = pid > 0 ? read(ends[0], found, size - 1) : -1;
  found[n > 0 ? n : 0] = '\0';
  close(ends[0]);
  if (!CHECK(pid > 0 && waitpid(pid, &status, 0) == pid))
    return false;
  if (WIFSIGNALED(status))
    snprintf(found, size, "the walk died with signal %d", WTERMSIG(status));
  return *found != '\0';
}

/* --- all of them --- */

static struct { int planted, caught; } totals;

static void try_fault(const char *op, int id, fault f) {
  char found[512];
  totals.planted++;
  if (run_mutant(id, f, found, sizeof found)) {
    totals.caught++;
    printf("caught  %s: %s of %d: %.120s\n", op, f.name, f.of, found);
  } else {
    FAIL("%s: %s of %d survives", op, f.name, f.of);
  }
}

/* Rules that refuse nothing: what they get has passed the checks of every op, and any type will do. */
static bool refuses_nothing(const char *op) {
  static const char *const names[] = {"cast", "stop_gradient", "barrier"};
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (strcmp(names[i], op) == 0)
      return true;
  return false;
}

/* Whether a case gives argument i as a float, so that its gradient is ever asked for. */
static bool float_argument(const op_desc *d, int i) {
  for (int k = 0; k < d->impl->n_cases; k++) {
    sn_ctx *ctx;
    op_test_case c;
    bool is_float = false;
    if (d->impl->cases[k].error || sn_ctx_create(NULL, &ctx) != SN_OK)
      continue;
    if (case_load(ctx, op_table_get(), d->impl->cases[k].text, &c) == SN_OK) {
      is_float = i < c.n_in && c.in[i].count > 0 && dtype_is_float(c.in[i].type.dtype);
      case_free(&c);
    }
    sn_ctx_destroy(ctx);
    if (is_float)
      return true;
  }
  return false;
}

/* A gradient that is zero by definition cannot be scaled, and forgetting it changes nothing. */
static bool zero_gradient(const char *op, int argument) {
  static const struct {
    const char *op;
    int argument; /* -1: all */
  } zero[] = {{"sign", -1},      {"floor", -1},         {"ceil", -1},  {"round", -1},
              {"floor_div", -1}, {"stop_gradient", -1}, {"barrier", 1}};
  for (size_t i = 0; i < COUNT_OF(zero); i++)
    if (strcmp(zero[i].op, op) == 0 && (zero[i].argument < 0 || zero[i].argument == argument))
      return true;
  return false;
}

static void try_gradients(const op_desc *d, int id) {
  static const fault kinds[] = {{"vjp 0.1 % off", SITE_GRAD, GRAD_SCALED, 0},
                                {"vjp of the wrong sign", SITE_GRAD, GRAD_NEGATED, 0},
                                {"vjp forgotten", SITE_GRAD, GRAD_FORGOTTEN, 0}};
  if (!d->impl->grad)
    return;
  for (int i = 0; i < (d->on_list ? 2 : d->n_inputs); i++)
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
      if (!float_argument(d, i) || zero_gradient(d->name, i))
        continue;
      fault f = kinds[k];
      f.of = i;
      try_fault(d->name, id, f);
    }
}

static void try_results(const op_desc *d, int id) {
  static const fault kinds[] = {{"decomposition off", SITE_DECOMPOSE, 0, 0},
                                {"size off by one", SITE_INFER, INFER_SIZE, 0},
                                {"one axis too many", SITE_INFER, INFER_RANK, 0},
                                {"wrong dtype", SITE_INFER, INFER_DTYPE, 0},
                                {"first element wrong", SITE_REF, REF_FIRST, 0},
                                {"last element wrong", SITE_REF, REF_LAST, 0},
                                {"all elements off", SITE_REF, REF_SCALED, 0}};
  for (int r = 0; r < d->n_results; r++)
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
      fault f = kinds[k];
      f.of = r;
      bool there = f.site == SITE_DECOMPOSE ? d->impl->decompose != NULL
                   : f.site == SITE_REF     ? d->impl->ref != NULL
                                            : true;
      if (there)
        try_fault(d->name, id, f);
    }
}

TEST_WALK(mutants) {
  const op_table *table = op_table_get();
  for (int i = 1; i < table->n; i++) {
    const op_desc *d = &table->ops[i];
    if (!test_begin("%s", d->name))
      continue;
    try_gradients(d, i);
    try_results(d, i);
    if (!refuses_nothing(d->name))
      try_fault(d->name, i, (fault){"accepts everything", SITE_INFER, INFER_ACCEPTS, 0});
    test_end();
  }
  printf("mutants: %d planted, %d caught\n", totals.planted, totals.caught);
}
