/* A graph into an e-graph. */
#ifndef SINEW_OPT_INTAKE_H
#define SINEW_OPT_INTAKE_H

#include "opt/egraph.h"

/* of[value id] becomes the class of each live value; `of` has n_values entries, zeroed. */
sn_status opt_intake(egraph *e, const sn_graph *g, const bool *live, class_id *of) SN_MUST_USE;

#endif
