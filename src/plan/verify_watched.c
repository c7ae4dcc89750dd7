/* See plan.h: an output that must be seen before anything is committed is not made by a step of `commit`. */
#include "plan/plan.h"

typedef struct search {
  const program *p;
  uint32_t output;
  bool found;
} search;

static bool note(void *user, const step_use *use) {
  search *s = user;
  const program_value *v = &s->p->values[use->value];
  s->found = s->found || (use->store && v->home == HOME_OUTPUT && v->index == s->output);
  return true;
}

sn_status plan_verify_watched(const program *p, sn_ctx *ctx, const char *name) {
  search s = {.p = p};
  for (int k = 0; k < p->n_outputs && name; k++) {
    s.output = (uint32_t)k;
    for (int q = p->n_prepare + p->n_main;
         strcmp(p->outputs[k].name, name) == 0 && q < program_steps(p); q++)
      (void)step_each_use(&p->steps[q], note, &s);
  }
  return s.found ? diag_fail(ctx, SN_ERR_INTERNAL,
                             "plan: output \"%s\" is made in commit, but must be seen before", name)
                 : SN_OK;
}
