/* Rows that a tile holds whole, whose points are all in chains over dense lanes (norms, softmax): what region.c would find out
 * again for every row is found out once, so that a row costs little beside its arithmetic. Called by loop.c.
 *
 * The first row (or batch) of an open part runs the ordinary way; behind it registers hold all that does not move from row to
 * row, and loads know how they lie. From then on a chain is a list of steps whose addresses step from row to row, and what is
 * done once a row a list of kernels on one lane. All phases of a row run before the next row: memory comes in while it is at work.
 * Where rows do more than arithmetic (requirements, indices), these run for all of a batch at once, phase by phase. */
#include "device/cpu/loop.h"

#include <math.h>

enum {
  LIST_CHAINS = 12,
  LIST_STEPS = 64,
  LIST_ROW_OPS = 24,
  LIST_RANGES = 16,
  LIST_OPS = 128,
  AHEAD_BYTES = 16384 /* how far before its turn memory is asked for, in whole rows */
};

/* An address: at the first row of a batch, and from row to row. */
typedef struct source {
  char *base;
  int64_t by;                /* bytes */
  const index_access *at;    /* of what lies in a value; NULL: */
  const region_op_state *op; /* a register's */
  bool leads;                /* asks for what comes next */
} source;

typedef struct list_chain {
  int first, n; /* steps */
  lane_row run; /* NULL: step by step */
  region_op_state *reduces;
} list_chain;

/* What is done once a row, with single floats: arithmetic, loads and stores. */
typedef struct row_op {
  int code;    /* an alu; ROW_LOAD, ROW_STORE */
  source a, b; /* b: of two arguments */
  source to;
} row_op;
enum { ROW_LOAD = ALU_COUNT, ROW_STORE };

struct row_list {
  int n_chains, n_steps, points, ahead;
  bool by_row; /* all phases of a row before the next */
  row_op row_ops[LIST_ROW_OPS];
  float slots[LIST_ROW_OPS]; /* of row ops whose register has no lanes */
  int n_row_ops;
  int chains_to[LIST_RANGES], row_ops_to[LIST_RANGES]; /* behind those of a range */
  list_chain chains[LIST_CHAINS];
  lane_step steps[LIST_STEPS];
  source with[LIST_STEPS], other[LIST_STEPS], to[LIST_STEPS];
};

size_t loop_list_bytes(void) { return cpu_take_bytes(sizeof(struct row_list)); }

/* --- which parts --- */
static bool stands(const region_op_state *op) { return op->moves == MOVES_FIRST; }

static bool is_dense(const index_access *a, int axis) {
  return a->simple && a->dtype == SN_F32 && !a->copied && a->at.stride[axis] == 1;
}

/* The axis of lanes; the one along which addresses step, whose points run one after the other: rows, or (lanes are rows) the
 * points of these. */
static int lane_axis(const loop_open *x) {
  return x->st->wide ? x->outer.axis[x->outer.n - 1] : x->inner.axis[0];
}
static int step_axis(const loop_open *x) {
  return x->st->wide ? x->inner.axis[0] : x->outer.axis[x->outer.n - 1];
}

static bool is_listed(const loop_open *x, int i) {
  const region_state *st = x->st;
  const region_op_state *op = &st->ops[i];
  const int axis = lane_axis(x);
  bool chained = st->ops[op->tail].n_steps > 0;
  if (op->dropped || stands(op))
    return true;
  switch ((region_op)op->i->op) {
  case REGION_LOAD:
    return is_dense(op->at, axis) || (op->flat_ok && op->flat && op->at->simple &&
                                      op->at->dtype == SN_F32 && !op->at->copied);
  case REGION_STORE: return st->ops[op->a].store == i && is_dense(op->at, axis);
  case REGION_ALU: return chained && op->i->dtype == SN_F32;
  case REGION_REDUCE: return chained && op->i->dtype == SN_F32 && !op->spread;
  default: return false;
  }
}

static bool may_list(const loop_open *x) {
  const region_state *st = x->st;
  if (st->n > LIST_OPS || st->n_ranges > LIST_RANGES || x->inner.n != 1 || x->outer.n < 1)
    return false;
  if (!st->wide && (!st->whole_rows || st->extent[lane_axis(x)] % CPU_LANE_BLOCK != 0))
    return false;
  for (int k = 0; k < st->n_ranges; k++)
    for (int i = st->ranges[k].from; i < st->ranges[k].to && !st->ranges[k].row; i++)
      if (!is_listed(x, i))
        return false;
  return true;
}

/* --- the list --- */
static source in_memory(const loop_open *x, const index_access *at, bool leads) {
  return (source){.at = at, .by = at->at.stride[step_axis(x)] * (int64_t)at->size, .leads = leads};
}

/* Where the lanes of an op are. */
static source lanes_of(const loop_open *x, int i, bool of_row) {
  const region_op_state *op = &x->st->ops[i];
  if (op->i->op == REGION_LOAD && !op->i->row && !stands(op))
    return in_memory(x, op->at, op->leads);
  if (op->store >= 0)
    return in_memory(x, x->st->ops[op->store].at, false);
  return (source){.op = op, .by = of_row ? 4 : 0};
}

static bool add_step(const loop_open *x, row_list *l, const chain_step *c) {
  const region_state *st = x->st;
  int k = l->n_steps++;
  lane_step *s = &l->steps[k];
  bool simple = c->code <= CHAIN_SUM_WIDE || c->code >= CHAIN_ALU;
  *s = (lane_step){.code = c->code};
  if (!simple || c->other >= 0)
    return false;
  if (c->with >= 0) {
    l->with[k] = lanes_of(x, c->with, c->with_row);
    s->code += st->ops[c->with].flat;
  }
  if (c->to >= 0 && c->code == CHAIN_KEEP)
    l->to[k] = lanes_of(x, c->to, false);
  else if (c->to >= 0)
    l->to[k] = (source){.base = (char *)st->ops[c->to].acc};
  return true;
}

static bool add_chain(const loop_open *x, row_list *l, int tail) {
  const region_state *st = x->st;
  const region_op_state *op = &st->ops[tail];
  list_chain *c = &l->chains[l->n_chains];
  if (l->n_chains == LIST_CHAINS || l->n_steps + op->n_steps + 1 > LIST_STEPS)
    return false;
  *c = (list_chain){.first = l->n_steps, .n = op->n_steps};
  for (int k = 0; k < op->n_steps; k++)
    if (!add_step(x, l, &st->steps[op->steps + k]))
      return false;
  l->n_steps++; /* the kernel's own */
  c->run = st->kernels->find_row(&l->steps[c->first], c->n, l->points);
  c->reduces = op->i->op == REGION_REDUCE && !st->wide ? &st->ops[tail] : NULL;
  l->n_chains++;
  return true;
}

/* Whether something of a chain changes from step to step. */
static bool is_moved(const loop_open *x, const region_op_state *op) {
  uint32_t steps = MOVES_ALWAYS | UINT32_C(1) << step_axis(x);
  for (int k = 0; k < x->outer.n && !x->st->wide; k++)
    steps |= UINT32_C(1) << x->outer.axis[k];
  return op->moves & steps;
}

/* --- what is done once a row --- */
/* What vectors and single floats round alike. */
static bool is_scalar(const instr *i) {
  if (i->op != REGION_ALU || i->dtype != SN_F32)
    return false;
  switch ((alu)i->code) {
  case ALU_add:
  case ALU_sub:
  case ALU_mul:
  case ALU_neg:
  case ALU_recip:
  case ALU_sqrt:
  case ALU_rsqrt: return true;
  default: return false;
  }
}

static float scalar(int code, float a, float b) {
  switch (code) {
  case ALU_add: return a + b;
  case ALU_sub: return a - b;
  case ALU_mul: return a * b;
  case ALU_neg: return -a;
  case ALU_recip: return 1 / a;
  case ALU_sqrt: return sqrtf(a);
  case ALU_rsqrt: return 1 / sqrtf(a);
  default: return a; /* loads and stores */
  }
}

/* Where a row's register is: in lanes, or in the slot of the op that makes it. */
static source row_lanes_of(const loop_open *x, row_list *l, const int8_t *slot, reg a) {
  const region_op_state *op = &x->st->ops[a];
  if (slot[a] >= 0 && !op->own)
    return (source){.base = (char *)&l->slots[slot[a]]};
  return (source){.op = op, .by = op->by_row ? 4 : 0};
}

static bool add_row_op(const loop_open *x, row_list *l, int8_t *slot, int i) {
  const region_op_state *op = &x->st->ops[i];
  bool loads = op->i->op == REGION_LOAD, stores = op->i->op == REGION_STORE;
  bool moves = (loads || stores) && op->at->simple && op->at->dtype == SN_F32 && !op->at->aliased;
  if (stores)
    moves = moves && x->st->ops[op->a].i->dtype == SN_F32;
  if ((!moves && !is_scalar(op->i)) || op->spread || l->n_row_ops == LIST_ROW_OPS)
    return false;
  row_op *r = &l->row_ops[l->n_row_ops];
  *r = (row_op){.code = loads ? ROW_LOAD : stores ? ROW_STORE : op->i->code};
  r->a = loads ? in_memory(x, op->at, false) : row_lanes_of(x, l, slot, op->a);
  r->b = r->a;
  if (!moves && op->arguments > 1)
    r->b = row_lanes_of(x, l, slot, op->b);
  slot[i] = (int8_t)l->n_row_ops++;
  r->to = stores ? in_memory(x, op->at, false) : row_lanes_of(x, l, slot, (reg)i);
  return true;
}

static bool list_row_ops(const loop_open *x, row_list *l) {
  const region_state *st = x->st;
  int8_t slot[LIST_OPS];
  memset(slot, -1, sizeof slot);
  for (int k = 0; k < st->n_ranges; k++) {
    for (int i = st->ranges[k].from; i < st->ranges[k].to && st->ranges[k].row; i++)
      if (!stands(&st->ops[i]) && !st->ops[i].dropped && !add_row_op(x, l, slot, i))
        return false;
    l->row_ops_to[k] = l->n_row_ops;
  }
  for (int i = 0; i < st->n; i++) /* from now on, registers of rows are in lanes of their own */
    if (slot[i] >= 0 && st->ops[i].own)
      st->ops[i].lanes = st->ops[i].own;
  return true;
}

/* One row after the other needs no lanes side by side, also where rows could be in batches. */
static void take_lane_0(row_list *l) {
  for (int k = 0; k < l->n_steps; k++)
    l->with[k].by = l->with[k].op ? 0 : l->with[k].by;
  for (int k = 0; k < l->n_row_ops; k++) {
    row_op *r = &l->row_ops[k];
    r->a.by = r->a.op ? 0 : r->a.by;
    r->b.by = r->b.op ? 0 : r->b.by;
    r->to.by = r->to.op ? 0 : r->to.by;
  }
}

void loop_list_rows(loop_open *x) {
  region_state *st = x->st;
  row_list *l = may_list(x) ? cpu_take(x->r, sizeof *l) : NULL;
  x->tried_list = true;
  if (!l)
    return;
  memset(l, 0, sizeof *l);
  l->points = (int)min_i64(st->extent[lane_axis(x)], st->lanes);
  l->ahead = (int)max_i64(1, AHEAD_BYTES / 4 / l->points);
  for (int k = 0; k < st->n_ranges; k++) {
    for (int i = st->ranges[k].from; i < st->ranges[k].to && !st->ranges[k].row; i++)
      if (st->ops[i].n_steps && is_moved(x, &st->ops[i]) && !add_chain(x, l, i))
        return;
    l->chains_to[k] = l->n_chains;
  }
  l->by_row = !st->wide && list_row_ops(x, l);
  if (l->by_row)
    take_lane_0(l);
  x->list = l;
}

/* --- running --- */
static void place(const loop_open *x, source *s, const tile *t) {
  if (s->at)
    s->base = s->at->data + sum_start(x->st, &s->at->at, &t->segments[0], t->axis) * s->at->size;
  else if (s->op)
    s->base = (char *)(uintptr_t)s->op->lanes;
}

static char *at_row(const source *s, int row) { return s->base + s->by * row; }

static int ahead_of(const row_list *l, const source *s, const char *now) {
  int64_t by = s->by * l->ahead;
  const char *end = s->at->data + s->at->count * s->at->size;
  bool inside = by > 0 && by < INT32_MAX && end - now >= by + (int64_t)l->points * 4;
  return inside ? (int)by : 0;
}

static void set_step(const row_list *l, lane_step *s, int k, int row) {
  if (l->with[k].base) {
    s->with = at_row(&l->with[k], row);
    s->ahead = l->with[k].leads ? ahead_of(l, &l->with[k], s->with) : 0;
  }
  if (!l->to[k].base)
    return;
  s->to = at_row(&l->to[k], row);
  if (s->code == CHAIN_KEEP || s->code == CHAIN_STREAM)
    s->code = l->to[k].at && l->to[k].at->streams && (uintptr_t)s->to % LANE_ALIGN == 0
                  ? CHAIN_STREAM
                  : CHAIN_KEEP;
}

static void run_chain(const loop_open *x, row_list *l, const list_chain *c, int row) {
  region_state *st = x->st;
  lane_step *steps = &l->steps[c->first];
  for (int k = 0; k < c->n; k++)
    set_step(l, &steps[k], c->first + k, row);
  if (c->run) {
    double v = c->run(steps, l->points);
    if (c->reduces)
      ((float *)c->reduces->own)[st->row] = (float)v;
    return;
  }
  if (c->reduces)
    reduce_begin(st, c->reduces, CPU_LANE_BLOCK);
  st->kernels->chain(steps, c->n, l->points);
  if (c->reduces)
    reduce_end(st, c->reduces, 1);
}

static float *float_at(const source *s, int row) { return (float *)(void *)at_row(s, row); }

/* A range, for a row: number `row` behind the one that addresses were made for. */
static void run_range(const loop_open *x, int range, int row) {
  row_list *l = x->list;
  for (int c = range ? l->chains_to[range - 1] : 0; c < l->chains_to[range]; c++)
    run_chain(x, l, &l->chains[c], row);
  for (int k = range ? l->row_ops_to[range - 1] : 0; l->by_row && k < l->row_ops_to[range]; k++) {
    const row_op *r = &l->row_ops[k];
    *float_at(&r->to, row) = scalar(r->code, *float_at(&r->a, row), *float_at(&r->b, row));
  }
}

static void place_all(const loop_open *x, const tile *t) {
  row_list *l = x->list;
  for (int k = 0; k < l->n_steps; k++) {
    place(x, &l->with[k], t);
    place(x, &l->to[k], t);
  }
  for (int k = 0; k < l->n_row_ops && l->by_row; k++) {
    place(x, &l->row_ops[k].a, t);
    place(x, &l->row_ops[k].b, t);
    place(x, &l->row_ops[k].to, t);
  }
}

/* Phase by phase, all rows of the batch. */
static void run_batch(loop_open *x, tile *t) {
  region_state *st = x->st;
  for (int k = 0; k < st->n_ranges; k++) {
    if (st->ranges[k].row) {
      region_run_range(x->r, st, &st->ranges[k], t, NULL);
      continue;
    }
    place_all(x, t); /* registers of rows may be elsewhere now */
    for (st->row = 0; st->row < t->n; st->row++)
      run_range(x, k, st->row);
    st->row = 0;
  }
}

/* Rows that follow the first of a tile along its axis, of units i … to-1 at most: all for which addresses step evenly. */
static int64_t rows_from(const loop_open *x, int64_t units, const tile *t) {
  const region_state *st = x->st;
  int axis = step_axis(x);
  int64_t each = st->batch ? st->batch : 1, left = st->extent[axis] - t->segments[0].at[axis];
  return min_i64(units * each, left);
}

void loop_run_listed(loop_open *x, int64_t from, int64_t to) {
  const region_state *st = x->st;
  const int64_t each = st->batch ? st->batch : 1;
  tile t;
  while (from < to) {
    loop_row_tile(x, from, &t);
    if (!x->list->by_row) {
      run_batch(x, &t);
      from++;
      continue;
    }
    place_all(x, &t);
    int rows = (int)min_i64(rows_from(x, to - from, &t), INT32_MAX);
    for (int row = 0; row < rows; row++)
      for (int k = 0; k < st->n_ranges; k++)
        run_range(x, k, row);
    from += (rows + each - 1) / each;
  }
}

bool loop_steps_across(const loop_open *x, const tile *t) {
  return x->list && t->n_segments == 1 && t->n % CPU_LANE_BLOCK == 0 && t->n <= x->list->points;
}

void loop_run_across(loop_open *x, region_range *range, const tile *t, int64_t n) {
  row_list *l = x->list;
  const int points = l->points;
  l->points = t->n;
  place_all(x, t);
  for (int64_t k = 0; k < n; k++)
    run_range(x, (int)(range - x->st->ranges), (int)k);
  l->points = points;
  range->fresh = true; /* registers are those of another point than it knows of */
}
