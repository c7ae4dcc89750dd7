/* The forms in which `sinew inspect` shows an inspection. */
#ifndef SINEW_CLI_INSPECT_H
#define SINEW_CLI_INSPECT_H

#include "cli/subject.h"

typedef struct inspect_report {
  const char *subject, *purpose; /* "SmolLM2-135M", "training" */
  const sn_inspection *i;
} inspect_report;

void inspect_text(FILE *out, const inspect_report *r);
void inspect_json(FILE *out, const inspect_report *r);
void inspect_html(FILE *out, const inspect_report *r);

/* Indices of the steps of a run, the costliest first: by their share of all arithmetic or of all traffic, whichever is
 * larger. Returns how many were written. */
int inspect_costliest(const sn_inspection *i, int *out, int capacity);

#endif
