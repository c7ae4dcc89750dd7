/* See drawn_ops.h. */
#include "support/drawn_ops.h"

static const drawn_row rows[OP_COUNT] = {
#define DRAWN(op, takes, how, exact) [OP_##op] = {takes, draw_##how, EXACT_##exact},
#include "support/drawn_ops.def"
};

const drawn_row *drawn_op_row(int op) {
  return op > 0 && op < OP_COUNT && rows[op].draw ? &rows[op] : NULL;
}
