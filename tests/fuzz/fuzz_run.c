/* Fuzzes what is compiled by running it: bytes become a graph (support/drawn_graph.h), which runs on the cpu and is compared with
 * the reference (support/drawn_check.h). The text of a graph that is wrong is printed. */
#include "support/drawn_check.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { MOST_BYTES = 400 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char why[1200], *text = NULL;
  if (size > MOST_BYTES || drawn_check_bytes(bytes, size, 0, NULL, why, sizeof why, &text))
    return 0;
  fprintf(stderr, "%s\n%s\n", why, text ? text : "");
  abort();
}
