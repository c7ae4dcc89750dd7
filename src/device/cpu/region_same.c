/* What a row's phases compute again: points of a later phase often need what an earlier one had (a softmax its exponentials).
 * Where a tile holds a whole row, the register of the earlier one still has it. Called by loops, between resolving a region and
 * finishing it. */
#include "device/cpu/machine.h"

/* More instructions than these are not looked through: it takes time by their square. */
enum { SAME_MOST = 96 };

/* Dearer to compute than to keep. */
static bool is_dear(const instr *i) {
  if (i->op != REGION_ALU)
    return false;
  switch ((alu)i->code) {
  case ALU_exp:
  case ALU_exp2:
  case ALU_expm1:
  case ALU_log:
  case ALU_log2:
  case ALU_log1p:
  case ALU_sin:
  case ALU_cos:
  case ALU_tan:
  case ALU_tanh:
  case ALU_sigmoid:
  case ALU_softplus:
  case ALU_erf:
  case ALU_pow: return true;
  default: return false;
  }
}

static bool is_stored(const region_state *st, const region_op_state *load) {
  for (int i = 0; i < st->n; i++)
    if (st->ops[i].i->op == REGION_STORE && region_overlap(&st->ops[i], load))
      return true;
  return false;
}

/* Arguments by the first op that computes the same. */
static bool are_same(const region_state *st, const int *first, int a, int b) {
  const instr *p = st->ops[a].i, *q = st->ops[b].i;
  if (p->op != q->op || p->code != q->code || p->dtype != q->dtype || p->x != q->x || p->y != q->y)
    return false;
  if (p->op == REGION_LOAD)
    return st->ops[a].at->simple && region_same_place(st->ops[a].at, st->ops[b].at) &&
           !is_stored(st, &st->ops[a]);
  const reg of_p[] = {p->a, p->b, p->c}, of_q[] = {q->a, q->b, q->c};
  for (int k = 0; k < instr_arguments(p); k++)
    if (first[region_root(st, of_p[k])] != first[region_root(st, of_q[k])])
      return false;
  return p->op == REGION_ALU;
}

static bool acts(const instr *i) {
  return i->op == REGION_STORE || i->op == REGION_REQUIRE || i->op == REGION_REDUCE || i->row;
}

/* Ops that nothing needs any more. */
static void drop_dead(region_state *st, const bool *dear) {
  bool needed[SAME_MOST] = {false};
  for (int i = st->n - 1; i >= 0; i--) {
    const instr *in = st->ops[i].i;
    const reg arguments[] = {in->a, in->b, in->c};
    needed[i] = !dear[i] && (needed[i] || acts(in));
    st->ops[i].dropped = !needed[i];
    for (int k = 0; k < instr_arguments(in) && needed[i]; k++)
      needed[region_root(st, arguments[k])] = true;
  }
}

static bool has_registers(const region_state *st) {
  for (int i = 0; i < st->n; i++)
    if (st->ops[i].at && st->ops[i].at->at.by_register)
      return true;
  return false;
}

bool region_find_same(region_state *st) {
  int first[SAME_MOST];
  bool gone[SAME_MOST] = {false}, any = false;
  if (st->n > SAME_MOST || has_registers(st))
    return false;
  for (int i = 0; i < st->n; i++) {
    const instr *in = st->ops[i].i;
    first[i] = i;
    for (int k = 0; k < i && first[i] == i && !in->row; k++)
      if (first[k] == k && !st->ops[k].i->row && are_same(st, first, k, i))
        first[i] = k;
    if (first[i] == i || !is_dear(in) || st->ops[first[i]].i->phase == in->phase)
      continue;
    st->ops[i].same = first[i];
    gone[i] = any = true;
  }
  if (any)
    drop_dead(st, gone);
  return any;
}
