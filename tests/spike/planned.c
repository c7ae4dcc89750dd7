/* See planned.h. */
#include "spike/planned.h"

#include "spike/execute.h"
#include "spike/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUTS = 64 };

static const oracle_tensor *find(const plan_oracle *o, const char *name) {
  for (int i = 0; i < o->n; i++)
    if (!o->tensors[i].assigned && strcmp(o->tensors[i].name, name) == 0)
      return &o->tensors[i];
  return NULL;
}

/* Outputs against the reference. */
static planned_verdict judge(const plan_run *r, const plan_numbers *n, void *const *outputs,
                             char *why, size_t size) {
  const program *p = r->c.program;
  plan_oracle o;
  planned_verdict verdict = PLANNED_RIGHT;
  if (plan_oracle_run(&o, r->g, r->c.lowered, n) != SN_OK)
    verdict = PLANNED_FAILS;
  for (int i = 0; i < p->n_outputs && verdict == PLANNED_RIGHT; i++) {
    const oracle_tensor *t = find(&o, p->outputs[i].name);
    if (t && !oracle_unsure(t) && !oracle_accepts(t, n, outputs[i], why, size))
      verdict = PLANNED_WRONG;
  }
  plan_oracle_end(&o);
  return verdict;
}

/* Runs the program with the leaves of a run on the cpu device, whose outputs it writes over. */
static planned_verdict run_device(const plan_run *r, const plan_numbers *n, plan_results *leaves,
                                  bool wide, char *why, size_t size) {
  execution x = {.program = r->c.program,
                 .sizes = leaves->sizes,
                 .inputs = leaves->inputs,
                 .outputs = leaves->outputs,
                 .states = leaves->states,
                 .wide = wide};
  if (!execute_program(trial_device(), &x)) {
    snprintf(why, size, "%s", x.why);
    return x.is_core ? PLANNED_CORE : PLANNED_WRONG;
  }
  if (x.failure[0]) {
    snprintf(why, size, "requirement %u failed", x.failure[0] - 1);
    return PLANNED_WRONG;
  }
  if (gpu_complaints(trial_device())) {
    snprintf(why, size, "validation: %s", gpu_complaint(trial_device()));
    return PLANNED_WRONG;
  }
  return judge(r, n, leaves->outputs, why, size);
}

planned_verdict planned_check(const sn_graph *g, const plan_numbers *n, bool wide, char *why,
                              size_t size) {
  plan_run r;
  plan_results leaves;
  planned_verdict verdict = PLANNED_FAILS;
  snprintf(why, size, "it does not compile or run on the cpu device");
  if (plan_run_start(&r, g, NULL) == SN_OK) {
    if (plan_run_once(&r, n, &leaves) == SN_OK)
      verdict = run_device(&r, n, &leaves, wide, why, size);
    plan_results_end(&leaves);
  }
  plan_run_end(&r);
  return verdict;
}
