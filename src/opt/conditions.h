/* What the files of conditions share. */
#ifndef SINEW_OPT_CONDITIONS_H
#define SINEW_OPT_CONDITIONS_H

#include "ops/common.h"
#include "opt/rule.h"

/* Whether the affine of that letter is x * mul + add, as anyone may write the numbers. */
static inline bool affine_is(const rule_match *m, char letter, double mul, double add) {
  const attrs_affine *a = MATCH_ATTRS(m, letter, affine);
  const double near = 1e-7;
  return fabs(a->mul - mul) <= near * fabs(mul) && fabs(a->add - add) <= near * fabs(add);
}

/* The axes that a reduction is over, as bits; none listed are all. */
static inline unsigned reduced_axes(const sn_ints *axes, int rank) {
  unsigned mask = axes->n == 0 ? (1u << rank) - 1 : 0;
  for (int i = 0; i < axes->n; i++)
    mask |= 1u << resolve_axis(axes->v[i], rank);
  return mask;
}

#endif
