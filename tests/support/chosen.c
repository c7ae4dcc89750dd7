/* See chosen.h. */
#include "support/chosen.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *chosen_device(void) {
  const char *name = getenv("SINEW_TEST_DEVICE");
  return name ? name : "cpu";
}

sn_precision chosen_precision(void) {
  static const struct {
    const char *name;
    sn_precision precision;
  } names[] = {
      {"exact", SN_PRECISION_EXACT}, {"fast", SN_PRECISION_FAST}, {"half", SN_PRECISION_HALF}};
  const char *asked = getenv("SINEW_TEST_PRECISION");
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (!asked || strcmp(asked, names[i].name) == 0)
      return names[i].precision;
  fprintf(stderr, "SINEW_TEST_PRECISION: \"%s\" is none of exact, fast and half\n", asked);
  exit(2);
}

double precision_tolerance(sn_precision precision) {
  return precision == SN_PRECISION_EXACT ? 0 : precision == SN_PRECISION_FAST ? 1e-4 : 2e-2;
}
