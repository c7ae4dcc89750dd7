/* What a plan is made of, as one line, for tests of fusion:
 *
 *   static const plan_case cases[] = {
 *       {"bias and gelu", IN("1", "x", "f32", "[8, 4]") … "output \"y\" %4\n", "main matmul(1)"},
 *   };
 *
 * The line lists steps by section, then what values there are:
 *
 *   prepare STEP …; main STEP …; commit STEP …; arena N; prepared N; in place N; after N
 *
 * Sections and counts that are nothing are left out. A step is its parts, joined by `|`, equal ones as `part*n`. A part is
 *   pointwise            a loop without reductions
 *   row/3                one of three phases
 *   matmul(1+2)          two accumulators, the second a sum of two products
 *   attention, sort …    a core
 * arena: values in the arena; in place: values of states and outputs that take over memory (before plan_in_place); after: waits
 * that are not reads.
 */
#ifndef SINEW_TESTS_SUPPORT_PLAN_FACTS_H
#define SINEW_TESTS_SUPPORT_PLAN_FACTS_H

#include "plan/plan.h"

#define IN(id, name, dtype, shape) \
  "%" id " = input() name=\"" name "\" dtype=" dtype " shape=" shape "\n"
#define STATE(id, name, dtype, shape) \
  "%" id " = state() name=\"" name "\" dtype=" dtype " shape=" shape " init=zeros scale=0\n"

typedef struct plan_case {
  const char *name, *source;
  const char *facts;
  plan_options options;
  bool trains; /* output 0 is a loss: its gradients go into all f32 states, by plain descent */
} plan_case;

/* The line, in a buffer of the caller's. */
void plan_facts(const program *p, char *line, size_t size);
/* Plans the case and compares its facts; then all later passes must keep its sections, and the proof must hold. */
void plan_case_check(const plan_case *c);

#endif
