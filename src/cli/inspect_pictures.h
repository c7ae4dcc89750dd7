/* Pictures of a plan for the HTML page of `sinew inspect`. */
#ifndef SINEW_CLI_INSPECT_PICTURES_H
#define SINEW_CLI_INSPECT_PICTURES_H

#include "cli/inspect.h"

/* Memory upwards, steps to the right; the line is what is alive, the dashes its maximum. */
void picture_arena(FILE *out, const sn_inspection *inspection);
/* Blocks are steps, frames what runs between two barriers. */
void picture_groups(FILE *out, const sn_inspection *inspection);
int picture_group_count(const sn_inspection *inspection);

#endif
