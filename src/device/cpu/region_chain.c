/* Chains: arithmetic of a region that runs as one, what an instruction leaves going to the next in vector registers. Called by
 * region_open.c, which forms them, and by region.c, which runs them.
 *
 * A chain goes from an op to the first op that reads it, and so on. It runs where its last op stands, so all other arguments
 * are there; and what others read of it must be read behind that. Only those lanes are kept. Chained ops
 * stand in one range and move with the same axes. */
#include "device/cpu/machine.h"

enum { CHAIN_OPS = 24, CHAIN_STEPS = 3 * CHAIN_OPS };

size_t chain_bytes(int n) { return cpu_take_bytes((size_t)n * 3 * sizeof(chain_step)); }

/* --- which ops --- */
static void note_first(region_state *st, int reader, reg a) {
  region_op_state *op = &st->ops[a];
  if (st->ops[reader].dropped)
    return;
  if (op->first < 0)
    op->first = reader;
  else if (op->second < 0 && op->first != reader)
    op->second = reader;
}

static bool is_reduction(const region_state *st, const region_op_state *op) {
  reduce_kind kind = (reduce_kind)op->i->code;
  return op->i->op == REGION_REDUCE && instr_is_float(op->i) && instr_is_float(st->ops[op->a].i) &&
         (kind == REDUCE_SUM || (!st->wide && (kind == REDUCE_MAX || kind == REDUCE_MIN)));
}

static bool can_chain(const region_state *st, const region_op_state *op) {
  if (op->dropped)
    return false;
  if (is_reduction(st, op))
    return true;
  return op->i->op == REGION_ALU && op->i->dtype == SN_F32 && !op->one &&
         instr_is_float(st->ops[op->i->code == ALU_select ? op->b : op->a].i) &&
         st->kernels->in_chain((alu)op->i->code);
}

/* Whether op j, the first that reads op i, goes on with it. */
static bool goes_on(const region_state *st, int i, int j) {
  const region_op_state *op = &st->ops[i], *next = &st->ops[j];
  if (op->i->op == REGION_REDUCE || next->range != op->range || next->tail != j ||
      next->head != j || ((next->moves ^ op->moves) & ~MOVES_ALWAYS) || !can_chain(st, next))
    return false;
  return next->i->op == REGION_REDUCE || next->i->code != ALU_select || next->a != i;
}

/* --- steps --- */
static chain_step *add_step(region_state *st, int code) {
  chain_step *s = &st->steps[st->n_steps++];
  *s = (chain_step){.code = (int16_t)code, .with = -1, .other = -1, .to = -1};
  return s;
}

/* Whether an op reads but one number of a register. */
static bool reads_row(const region_state *st, const region_op_state *op, reg a) {
  return st->ops[a].by_row && !st->ranges[op->range].row;
}
static bool reads_one(const region_state *st, const region_op_state *op, reg a) {
  return st->ops[a].one || reads_row(st, op, a);
}

static void add_with(region_state *st, const region_op_state *op, int code, reg a) {
  chain_step *s = add_step(st, code + reads_one(st, op, a));
  s->with = (int16_t)a;
  s->with_row = reads_row(st, op, a);
}

static void add_select(region_state *st, const region_op_state *op, int held) {
  bool is_b = op->b == held;
  reg other = is_b ? op->c : op->b;
  if (other == held)
    return;
  chain_step *s = add_step(st, (is_b ? CHAIN_PICK : CHAIN_PICK_NOT) + reads_one(st, op, other));
  s->with = (int16_t)op->a;
  s->other = (int16_t)other;
  s->other_row = reads_row(st, op, other);
}

static void add_alu(region_state *st, const region_op_state *op, int held) {
  int code = CHAIN_ALU + 8 * op->i->code;
  if (op->i->code == ALU_select)
    add_select(st, op, held);
  else if (op->arguments == 1 || (op->a == held && op->b == held))
    add_step(st, code + CHAIN_SELF);
  else if (op->a == held)
    add_with(st, op, code + CHAIN_LANES, op->b);
  else
    add_with(st, op, code + CHAIN_LANES_FIRST, op->a);
}

static int reduction_code(const region_state *st, const region_op_state *op) {
  return st->wide                    ? CHAIN_SUM_WIDE
         : op->i->code == REDUCE_SUM ? CHAIN_SUM
         : op->i->code == REDUCE_MAX ? CHAIN_MOST
                                     : CHAIN_LEAST;
}

/* The steps of a chain, which is linked up; its first op reads one of its arguments. */
static void add_steps(region_state *st, int head) {
  const region_op_state *op = &st->ops[head];
  region_op_state *tail = &st->ops[op->tail];
  int held = op->i->op == REGION_ALU && op->i->code == ALU_select ? op->b : op->a;
  tail->steps = st->n_steps;
  add_with(st, op, CHAIN_READ, (reg)held);
  for (int i = head; i >= 0; held = i, i = op->member) {
    op = &st->ops[i];
    if (op->i->op == REGION_REDUCE) {
      add_step(st, reduction_code(st, op))->to = (int16_t)i;
      continue;
    }
    add_alu(st, op, held);
    if (op->member < 0 || op->second >= 0)
      add_step(st, CHAIN_KEEP)->to = (int16_t)i;
  }
  tail->n_steps = st->n_steps - tail->steps;
}

/* --- forming --- */
static int least_of(int a, int b) { return b >= 0 && b < a ? b : a; }

/* All of a chain do when one does, and run where the last stands. */
static void link_up(region_state *st, int head, int tail) {
  uint32_t always = 0;
  for (int i = head; i >= 0; i = st->ops[i].member)
    always |= st->ops[i].moves & MOVES_ALWAYS;
  for (int i = head; i >= 0; i = st->ops[i].member) {
    st->ops[i].moves |= always;
    st->ops[i].tail = tail;
    st->ops[i].head = head;
  }
}

static bool is_streamed(const region_state *st, int i) {
  int by = st->ops[i].first;
  return by >= 0 && st->ops[by].i->op == REGION_STORE && st->ops[by].at->streams;
}

/* Chains also ask for memory ahead. */
static bool reads_memory(const region_state *st, const region_op_state *op) {
  return st->ops[op->a].i->op == REGION_LOAD ||
         (op->arguments > 1 && st->ops[op->b].i->op == REGION_LOAD);
}

static bool is_worth(const region_state *st, int head, int tail) {
  const region_op_state *op = &st->ops[head];
  return tail != head || op->i->op == REGION_REDUCE || st->batch || is_streamed(st, head) ||
         reads_memory(st, op);
}

static void form_from(region_state *st, int head) {
  int tail = head, limit = least_of(st->n, st->ops[head].second);
  for (int n = 1; n < CHAIN_OPS; n++) {
    int j = st->ops[tail].first;
    if (j < 0 || j > limit || !goes_on(st, tail, j))
      break;
    bool last =
        j ==
        limit; /* it reads what the chain has kept, and who is next to read that is not known */
    st->ops[tail].member = j;
    limit = least_of(limit, st->ops[j].second);
    tail = j;
    if (last)
      break;
  }
  if (!is_worth(st, head, tail))
    return;
  link_up(st, head, tail);
  add_steps(st, head);
  st->ranges[st->ops[head].range].chains++;
}

/* A load that only chains of its range read, and not to pick by, need not be lanes where it stands still along them. */
static void note_flat(region_state *st, int reader, reg a) {
  region_op_state *op = &st->ops[a];
  const region_op_state *by = &st->ops[reader];
  if (by->dropped)
    return;
  bool picks = by->i->op == REGION_ALU && by->i->code == ALU_select && by->a == a;
  if (!st->ops[by->tail].n_steps || by->range != op->range || picks)
    op->flat_ok = false;
}

/* Memory comes near in the first phase that loads it; the next row is asked for in the last, which has the most time. */
static void choose_leads(region_state *st) {
  for (int i = 0; i < st->n; i++) {
    region_op_state *op = &st->ops[i];
    op->leads = op->i->op == REGION_LOAD && !op->dropped;
    for (int k = 0; k < i && op->leads; k++) {
      region_op_state *before = &st->ops[k];
      if (before->i->op != REGION_LOAD || !before->leads || !region_same_place(before->at, op->at))
        continue;
      op->leads = st->whole_rows;
      before->leads = !st->whole_rows;
    }
  }
}

void chain_form(region_state *st) {
  for (int i = 0; i < st->n; i++) {
    region_op_state *op = &st->ops[i];
    op->head = op->tail = i;
    op->member = op->first = op->second = -1;
    region_each_read(st, i, note_first);
  }
  for (int i = 0; i < st->n; i++)
    if (st->ops[i].head == i && st->ops[i].tail == i && can_chain(st, &st->ops[i]))
      form_from(st, i);
  for (int i = 0; i < st->n; i++)
    st->ops[i].flat_ok =
        st->ops[i].i->op == REGION_LOAD && st->ops[i].first >= 0 && !st->ops[i].one;
  for (int i = 0; i < st->n; i++)
    region_each_read(st, i, note_flat);
  choose_leads(st);
}

/* --- batches of rows --- */
static void note_row_reader(region_state *st, int reader, reg a) {
  const instr *by = st->ops[reader].i, *of = st->ops[a].i;
  if (by->row || !(of->row || of->op == REGION_REDUCE))
    return;
  bool chained = by->op == REGION_ALU && by->dtype == SN_F32 && instr_is_float(of) &&
                 st->kernels->in_chain((alu)by->code);
  st->batch = chained ? st->batch : 0;
}

/* Points that read rows' registers must be in chains, which can take one lane of many. */
void chain_choose_batch(region_state *st, int rows) {
  st->batch = rows;
  for (int i = 0; i < st->n && st->batch; i++) {
    const region_op_state *op = &st->ops[i];
    const reg arguments[] = {op->i->a, op->i->b, op->i->c};
    for (int k = 0; k < instr_arguments(op->i); k++)
      note_row_reader(st, i, region_root(st, arguments[k]));
    if (op->at && op->at->at.by_register)
      st->batch = 0;
    for (int k = 0; op->at && k < op->at->n_checks; k++)
      if (op->at->checks[k].v.by_register)
        st->batch = 0;
    if (op->i->op == REGION_REQUIRE)
      st->batch = 0;
  }
}

/* --- running --- */
static bool is_aligned(const void *p) { return (uintptr_t)p % LANE_ALIGN == 0; }

/* Where lanes that are kept go: to the memory that they are stored to, if that is possible. */
static void keep(region_state *st, region_op_state *op, const tile *t, lane_step *s) {
  const region_op_state *store = op->store < 0 ? NULL : &st->ops[op->store];
  void *memory = store ? access_dense(st, store, t) : NULL;
  bool past = memory && store->at->streams;
  s->to = memory && (!past || is_aligned(memory)) ? memory : op->own;
  s->code = past && s->to == memory ? CHAIN_STREAM : CHAIN_KEEP;
  op->lanes = s->to;
}

void chain_run(region_state *st, const region_op_state *tail, const tile *t) {
  lane_step steps[CHAIN_STEPS + 1];
  const chain_step *from = &st->steps[tail->steps];
  for (int k = 0; k < tail->n_steps; k++) {
    const chain_step *c = &from[k];
    lane_step *s = &steps[k];
    *s = (lane_step){.code = c->code};
    if (c->other >= 0) {
      const region_op_state *other = &st->ops[c->other];
      s->other = (const char *)other->lanes + (c->other_row ? 4 * st->row : 0);
      s->code += other->flat;
    }
    if (c->with >= 0) {
      region_op_state *with = &st->ops[c->with];
      s->with = (const char *)with->lanes + (c->with_row ? 4 * st->row : 0);
      s->ahead = with->ahead;
      with->ahead = 0; /* once is enough */
      s->code += with->flat;
    }
    if (c->to >= 0) {
      region_op_state *to = &st->ops[c->to];
      if (c->code == CHAIN_KEEP)
        keep(st, to, t, s);
      else
        s->to = to->acc;
    }
  }
  st->kernels->chain(steps, tail->n_steps, t->n);
}
