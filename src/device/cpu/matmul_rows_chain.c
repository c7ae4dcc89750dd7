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

/* The select that op i, a comparison of f32 with one number, decides on and nothing else; -1: it is none. Both are one step: a gate. */
static int find_gate(const struct row_epilogue *e, int i) {
  const row_op *op = &e->ops[i];
  if (op->i->op != REGION_ALU || op->i->code != ALU_gt || op->one || op->readers != 1 ||
      op->chain >= 0 || e->ops[op->a].i->dtype != SN_F32 || e->ops[op->a].one || !e->ops[op->b].one)
    return -1;
  const row_op *pick = &e->ops[op->last];
  bool is = pick->i->op == REGION_ALU && pick->i->code == ALU_select && pick->a == i &&
            pick->chain < 0 && pick->i->dtype == SN_F32 && e->ops[pick->b].i->dtype == SN_F32 &&
            pick->b != op->a && e->ops[pick->c].one;
  return is ? op->last : -1;
}

/* Whether op i is one that reads what op `held` left, and all that its select needs is there. */
static bool is_gate_of(const struct row_epilogue *e, int i, int held, int head) {
  int pick = find_gate(e, i);
  return pick >= 0 && e->ops[i].a == held && is_before(e, e->ops[pick].b, head);
}

/* Whether op i goes on with what op `held` left. */
static bool goes_on(const struct row_epilogue *e, int i, int held, int head) {
  const row_op *op = &e->ops[i];
  const int arguments[] = {op->a, op->b, op->c};
  bool reads = false, there = true;
  if (is_gate_of(e, i, held, head))
    return true;
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
                             -1, -1});
  } else if (op->arguments == 1 || op->a == op->b) {
    add_step(e, (row_step){code + CHAIN_SELF, -1, -1, -1, -1});
  } else {
    bool first = op->a != held; /* the other one is */
    int with = first ? op->a : op->b;
    code += (first ? CHAIN_LANES_FIRST : CHAIN_LANES) + e->ops[with].one;
    add_step(e, (row_step){code, with, -1, -1, -1});
  }
}

/* The op behind `held` that goes on with it; -1: none. */
static int find_next(const struct row_epilogue *e, int held, int head) {
  for (int i = held + 1; i < e->n; i++)
    if (goes_on(e, i, held, head))
      return i;
  return -1;
}

/* A comparison and the select behind it; that. */
static int add_gate(struct row_epilogue *e, int i) {
  const row_op *op = &e->ops[i], *pick = &e->ops[op->last];
  int code = e->ops[pick->b].one ? CHAIN_GATE_ONE : CHAIN_GATE;
  add_step(e, (row_step){code, op->b, pick->b, pick->c, -1});
  return op->last;
}

/* Sums that a chain begins with and that are stored too: it does that on the way. */
static void keep_sums(struct row_epilogue *e, int head) {
  row_step *first = &e->steps[e->ops[head].from];
  const row_op *sums = &e->ops[first->with];
  for (int i = 0; i < e->n; i++) {
    row_op *op = &e->ops[i];
    if (sums->i->op != REGION_ACC || sums->i->dtype != SN_F32 || op->i->op != REGION_STORE ||
        op->a != first->with || op->chain >= 0 || op->at->dtype != SN_F32 || op->at->by != 1 ||
        op->at->shared)
      continue;
    memmove(first + 2, first + 1, (size_t)(e->steps + e->n_steps++ - first - 1) * sizeof *first);
    first[1] = (row_step){CHAIN_KEEP, -1, -1, -1, i};
    op->chain = head;
  }
}

static void form_from(struct row_epilogue *e, int head) {
  row_op *op = &e->ops[head];
  int held = op->i->code == ALU_select ? op->b : op->a;
  op->from = e->n_steps;
  add_step(e, (row_step){e->ops[held].one ? CHAIN_READ_ONE : CHAIN_READ, held, -1, -1, -1});
  for (int i = head, next; i >= 0; held = i, i = next) {
    bool gate = find_gate(e, i) >= 0;
    e->ops[i].chain = head;
    if (gate)
      i = add_gate(e, i);
    else
      add_alu(e, &e->ops[i], held);
    e->ops[i].chain = head;
    next = find_next(e, i, head);
    if (next < 0 || e->ops[i].readers > 1)
      add_step(e, (row_step){CHAIN_KEEP, -1, -1, -1, i});
  }
  op->cheap = true;
  for (int i = op->from; i < e->n_steps; i++)
    op->cheap = op->cheap && e->matmul->in_chain(e->steps[i].code);
  if (op->cheap)
    keep_sums(e, head);
  op->to = e->n_steps;
}

void rows_chain(struct row_epilogue *e) {
  for (int i = 0; i < e->n; i++)
    if (may_chain(e, i) || (find_gate(e, i) >= 0 && is_gate_of(e, i, e->ops[i].a, i)))
      form_from(e, i);
}
