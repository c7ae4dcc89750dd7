/* Masks that are known: what a class of the e-graph hides of the scores of attention, before anything runs. */
#ifndef SINEW_OPT_MASKS_H
#define SINEW_OPT_MASKS_H

#include "opt/egraph.h"

/* Scores are hidden by a bias of this or less: none that softmax can tell from its neighbours is as low. */
#define MASK_LOW (-1e9)

/* Queries and keys of the scores. */
typedef struct mask_scores {
  egraph *e;
  sn_dim sq, skv;
} mask_scores;

/* Whether a mask is known to show key j to row i exactly where j <= i + *out. */
bool mask_offset(const mask_scores *s, class_id mask, int64_t *out);
/* The same of a bias: 0 where a key is seen, low where it is hidden. */
bool mask_bias_offset(const mask_scores *s, class_id bias, int64_t *out);
/* Whether a mask is known to show something to every row. */
bool mask_leaves_rows(const mask_scores *s, class_id mask);

#endif
