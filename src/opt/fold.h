/* Constant folding: what depends on nothing but constants is computed, through the op's own definition. */
#ifndef SINEW_OPT_FOLD_H
#define SINEW_OPT_FOLD_H

#include "opt/egraph.h"

/* Adds the value of the class as a constant where that is known, small, and not there yet. */
void opt_fold(egraph *e, class_id c);

#endif
