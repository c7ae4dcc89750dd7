/* Chains of epilogues that go by rows: see matmul_rows.h, isa/lanes.h.
 *
 * A chain goes from an instruction to the next that reads it, as long as all else that this needs is there before the chain; it runs
 * where its first one stands. What others read of it is kept as lanes, in the memory that it is stored to if there is one. */
#include "device/cpu/matmul_rows.h"

#include <math.h>

static bool may_chain(const struct row_epilogue *e, int i) {
  const row_op *op = &e->ops[i];
  if (op->i->op != REGION_ALU || op->one || op->chain >= 0 || op->i->dtype != SN_F32)
    return false;
  bool picks = op->i->code == ALU_select;
  return e->ops[picks ? op->b : op->a].i->dtype == SN_F32 && !(picks && e->ops[op->a].one) &&
         e->kernels->in_chain((alu)op->i->code);
}

/* Whether an argument is there when a chain from op `head` on runs. */
static bool is_before(const struct row_epilogue *e, int a, int head) {
  const row_op *op = &e->ops[a];
  return op->one || rows_is_early(op) || (op->chain < 0 ? a : op->chain) < head;
}

/* Whether op i goes on with what op `held` left. */
static bool goes_on(const struct row_epilogue *e, int i, int held, int head) {
  const row_op *op = &e->ops[i];
  const int arguments[] = {op->a, op->b, op->c};
  bool reads = false, there = true;
  for (int k = 0; k < op->arguments; k++) {
    bool is = arguments[k] == held && !(k == 0 && op->i->code == ALU_select);
    reads = reads || is;
    there = there && (is || is_before(e, arguments[k], head));
  }
  return reads && there && may_chain(e, i);
}

static void add_step(struct row_epilogue *e, row_step s) { e->steps[e->n_steps++] = s; }

/* x - 0 and x * 1. */
static bool is_nothing(const struct row_epilogue *e, const row_op *op, int held) {
  const instr *b = op->arguments == 2 ? e->ops[op->b].i : NULL;
  return b && b->op == REGION_NUMBER && op->a == held &&
         ((op->i->code == ALU_sub && b->x == 0 && !signbit(b->x)) ||
          (op->i->code == ALU_mul && b->x == 1));
}

static void add_alu(struct row_epilogue *e, const row_op *op, int held) {
  int code = CHAIN_ALU + 8 * op->i->code;
  if (is_nothing(e, op, held))
    return;
  if (op->i->code == ALU_select) {
    bool is_b = op->b == held;
    int other = is_b ? op->c : op->b;
    if (other != held)
      add_step(e, (row_step){(is_b ? CHAIN_PICK : CHAIN_PICK_NOT) + e->ops[other].one, op->a, other,
                             -1});
  } else if (op->arguments == 1 || op->a == op->b) {
    add_step(e, (row_step){code + CHAIN_SELF, -1, -1, -1});
  } else {
    bool first = op->a != held; /* the other one is */
    int with = first ? op->a : op->b;
    code += (first ? CHAIN_LANES_FIRST : CHAIN_LANES) + e->ops[with].one;
    add_step(e, (row_step){code, with, -1, -1});
  }
}

/* The op behind `held` that goes on with it; -1: none. */
static int find_next(const struct row_epilogue *e, int held, int head) {
  for (int i = held + 1; i < e->n; i++)
    if (goes_on(e, i, held, head))
      return i;
  return -1;
}

static void form_from(struct row_epilogue *e, int head) {
  row_op *op = &e->ops[head];
  int held = op->i->code == ALU_select ? op->b : op->a;
  op->from = e->n_steps;
  add_step(e, (row_step){e->ops[held].one ? CHAIN_READ_ONE : CHAIN_READ, held, -1, -1});
  for (int i = head, next; i >= 0; held = i, i = next) {
    add_alu(e, &e->ops[i], held);
    e->ops[i].chain = head;
    next = find_next(e, i, head);
    if (next < 0 || e->ops[i].readers > 1)
      add_step(e, (row_step){CHAIN_KEEP, -1, -1, i});
  }
  op->to = e->n_steps;
  op->cheap = true;
  for (int i = op->from; i < op->to; i++)
    op->cheap = op->cheap && e->matmul->in_chain(e->steps[i].code);
}

void rows_chain(struct row_epilogue *e) {
  for (int i = 0; i < e->n; i++)
    if (may_chain(e, i))
      form_from(e, i);
}
