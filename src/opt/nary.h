/* Sums and products in one form, instead of rules for associativity and commutativity. */
#ifndef SINEW_OPT_NARY_H
#define SINEW_OPT_NARY_H

#include "opt/egraph.h"

/* Adds the canonical form of every maximal sum and product of the input, equal to what is there. */
sn_status opt_normalise(egraph *e, const bool *live, const class_id *of,
                        bool fast_math) SN_MUST_USE;

#endif
