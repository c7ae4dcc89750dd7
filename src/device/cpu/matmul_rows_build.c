/* Chains of epilogues as they are run, and where their lanes go: see matmul_rows.h. */
#include "device/cpu/matmul_rows.h"

/* --- results in the place of what they are made of --- */

/* Whether a load is read by chains alone, by steps before `end`. */
static bool is_read_before(const struct row_epilogue *e, int load, int end) {
  bool before = true;
  for (int i = 0; i < e->n && before; i++) {
    const row_op *op = &e->ops[i];
    const int arguments[] = {op->a, op->b, op->c};
    for (int k = 0; k < op->arguments && before; k++)
      before = arguments[k] != load || op->chain >= 0;
  }
  for (int k = end; k < e->n_steps && before; k++)
    before = e->steps[k].with != load && e->steps[k].other != load;
  return before;
}

/* The step that keeps what op i makes; -1: none. */
static int find_keep(const struct row_epilogue *e, int i) {
  for (int k = 0; k < e->n_steps; k++)
    if (e->steps[k].to == i)
      return k;
  return -1;
}

/* Whether what is in the place of a store is read before its value is kept there, and nothing else is stored there. */
static bool may_replace(const struct row_epilogue *e, const row_op *store, int keep) {
  bool may = keep >= 0;
  for (int i = 0; i < e->n && may; i++) {
    const row_op *op = &e->ops[i];
    if (op == store || !op->at || !rows_overlap(op->at, store->at))
      continue;
    may = op->i->op == REGION_LOAD && !op->one && op->at->size == 4 && is_read_before(e, i, keep);
  }
  return may;
}

static void release(struct row_epilogue *e, row_op *store) {
  for (int i = 0; i < e->n; i++)
    if (e->ops[i].at && rows_overlap(e->ops[i].at, store->at))
      e->ops[i].at->copied = e->ops[i].at->shared = false;
}

void rows_place(struct row_epilogue *e) {
  for (int i = 0; i < e->n && e->cheap; i++) {
    row_op *store = &e->ops[i], *made = &e->ops[store->a];
    if (store->i->op != REGION_STORE || !store->at->shared || store->chain >= 0 ||
        store->at->dtype != SN_F32 || store->at->by != 1 || made->i->op != REGION_ALU ||
        made->i->dtype != SN_F32 || made->one || made->into >= 0 ||
        !may_replace(e, store, find_keep(e, store->a)))
      continue;
    release(e, store);
    made->into = i;
  }
}

/* --- steps --- */

static void add_move(struct row_epilogue *e, row_op *head, row_move m) {
  e->moves[head->moves + head->n_moves++] = m;
}

/* An argument of a step: its lanes stand still where they are one number. */
static void set_argument(struct row_epilogue *e, row_op *head, int op, const void **at) {
  if (op < 0)
    return;
  if (e->ops[op].one)
    *at = e->ops[op].own;
  else
    add_move(e, head, (row_move){.at = at, .op = op});
}

static void build_chain(struct row_epilogue *e, row_op *head) {
  for (int k = head->from; k < head->to; k++) {
    const row_step *from = &e->steps[k];
    lane_step *to = &head->built[k - head->from];
    *to = (lane_step){.code = from->code};
    set_argument(e, head, from->with, &to->with);
    set_argument(e, head, from->other, &to->other);
    set_argument(e, head, from->below, &to->below);
    if (from->to >= 0)
      add_move(e, head, (row_move){.to = &to->to, .op = from->to});
  }
}

/* Whether all lanes are memory, or the sums. */
static bool is_direct(const struct row_epilogue *e) {
  bool direct = e->cheap;
  for (int i = 0; i < e->n && direct; i++) {
    const row_op *op = &e->ops[i];
    if (op->i->op == REGION_LOAD && !op->one)
      direct = op->at->by == 1 && op->at->size == 4 && !op->at->copied;
    else if (op->i->op == REGION_STORE)
      direct = op->chain >= 0 || e->ops[op->a].into == i;
  }
  for (int k = 0; k < e->n_steps && direct; k++) {
    int to = e->steps[k].to;
    direct = to < 0 || e->ops[to].i->op == REGION_STORE || e->ops[to].into >= 0;
  }
  return direct;
}

void rows_build(struct row_epilogue *e, struct lane_step *built) {
  int moves = 0;
  for (int i = 0; i < e->n; i++) {
    row_op *op = &e->ops[i];
    if (op->chain != i)
      continue;
    op->built = built;
    op->moves = moves;
    build_chain(e, op);
    built += op->to - op->from + 1; /* one more, as kernels ask */
    moves += op->n_moves;
  }
  e->direct = is_direct(e);
}
