/* Opening of epilogues that go by rows: see matmul_rows.h. */
#include "device/cpu/matmul_rows.h"

size_t rows_bytes(const region *code) {
  size_t n = (size_t)code->n;
  if (n > ROWS_OPS)
    return 0;
  return cpu_take_bytes(sizeof(struct row_epilogue)) + cpu_take_bytes(n * sizeof(row_op)) +
         cpu_take_bytes(n * sizeof(row_place)) + cpu_take_bytes(3 * n * sizeof(row_step)) +
         cpu_take_bytes(rows_built_most(n) * sizeof(lane_step)) +
         cpu_take_bytes(rows_moves_most(n) * sizeof(row_move)) +
         cpu_take_bytes(2 * n * sizeof(int)) + (n + 1) * cpu_take_bytes(ROWS_LANES * sizeof(float));
}

/* --- places --- */

static bool is_known(const instr *i) {
  return i->op == REGION_LOAD || i->op == REGION_STORE || i->op == REGION_NUMBER ||
         i->op == REGION_SIZE || i->op == REGION_ALU || i->op == REGION_ACC;
}

static bool open_place(matmul_work *w, const instr *i, row_place *p) {
  direct_access d;
  const program_value *v = &w->r->program->values[i->at.value];
  if (i->at.n_checks > 0 || i->at.value == 0 || !direct_open(w->r, &i->at, v->type.dtype, &d))
    return false;
  *p = (row_place){.data = d.data,
                   .dtype = d.dtype,
                   .size = (int64_t)sn_dtype_size(d.dtype),
                   .count = cpu_size(w->r, v->count),
                   .base = d.at.base};
  bool even = true;
  for (int a = 0; a < w->n.first + w->n.n; a++)
    even = even && direct_is_affine(&d, a, &p->stride[a]);
  return even;
}

static bool open_places(matmul_work *w, struct row_epilogue *e, const region *code) {
  bool fits = true;
  e->n = code->n;
  for (int i = 0; i < code->n && fits; i++) {
    row_op *op = &e->ops[i];
    *op = (row_op){.i = &code->code[i], .last = -1, .into = -1, .chain = -1};
    fits = is_known(op->i);
    if (fits && (op->i->op == REGION_LOAD || op->i->op == REGION_STORE)) {
      op->at = &e->places[e->n_places++];
      fits = open_place(w, op->i, op->at);
    }
  }
  return fits;
}

static bool is_same_place(const row_place *a, const row_place *b) {
  return a->data == b->data && a->size == b->size && a->base == b->base &&
         memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

/* Loads from where the epilogue stores, and stores to one place, must be lane for lane. */
static bool check_overlaps(struct row_epilogue *e) {
  bool fits = true;
  for (int i = 0; i < e->n; i++)
    for (int j = 0; j < e->n && e->ops[i].at; j++) {
      row_op *x = &e->ops[i], *y = &e->ops[j];
      if (i == j || !y->at || y->i->op != REGION_STORE || !rows_overlap(x->at, y->at))
        continue;
      fits = fits && is_same_place(x->at, y->at) && x->at->by != 0;
      x->at->copied = x->at->shared = y->at->shared = true;
    }
  return fits;
}

/* --- runs --- */

static bool joins(const struct row_epilogue *e, int axis, int64_t extent) {
  bool all = true;
  for (int i = 0; i < e->n_places && extent > 1; i++)
    all = all && e->places[i].stride[axis] == e->places[i].by * e->run;
  return all;
}

/* How far columns run on evenly. */
static void find_run(const matmul_work *w, struct row_epilogue *e) {
  const axis_group *g = &w->side[COLS];
  int a = g->first + g->n - 1;
  while (a > g->first && w->extent[a] == 1)
    a--;
  e->run = g->n > 0 ? w->extent[a] : 1;
  for (int i = 0; i < e->n_places; i++)
    e->places[i].by = g->n > 0 && e->run > 1 ? e->places[i].stride[a] : 0;
  for (a = g->n > 0 ? a : g->first; a > g->first && joins(e, a - 1, w->extent[a - 1]); a--)
    e->run *= w->extent[a - 1];
  e->first = a;
}

/* --- instructions --- */

/* What a register that names a STORE stands for. */
static int root_of(const struct row_epilogue *e, int a) {
  return e->ops[a].i->op == REGION_STORE ? e->ops[a].a : a;
}

static void set_arguments(struct row_epilogue *e, row_op *op) {
  op->arguments = instr_arguments(op->i);
  op->a = op->arguments > 0 ? root_of(e, op->i->a) : 0;
  op->b = op->arguments > 1 ? root_of(e, op->i->b) : 0;
  op->c = op->arguments > 2 ? root_of(e, op->i->c) : 0;
  const int arguments[] = {op->a, op->b, op->c};
  op->one = op->i->op != REGION_ACC && op->i->op != REGION_STORE;
  for (int k = 0; k < op->arguments; k++) {
    row_op *of = &e->ops[arguments[k]];
    op->one = op->one && of->one;
    of->last = (int)(op - e->ops);
    of->readers++;
  }
  if (op->i->op == REGION_LOAD)
    op->one = op->at->by == 0;
}

static void spread_arguments(struct row_epilogue *e, const row_op *op) {
  const int arguments[] = {op->a, op->b, op->c};
  for (int k = 0; k < op->arguments; k++)
    e->ops[arguments[k]].spread |= e->ops[arguments[k]].one;
}

static bool set_alu(struct row_epilogue *e, row_op *op) {
  const int arguments[] = {op->a, op->b, op->c};
  sn_dtype from = (sn_dtype)e->ops[op->i->code == ALU_select ? op->b : op->a].i->dtype;
  sn_dtype to = (sn_dtype)op->i->dtype;
  unsigned ones = 0;
  for (int k = 0; k < op->arguments && !op->one; k++)
    ones |= e->ops[arguments[k]].one ? 1u << k : 0;
  op->kernel = ones ? e->kernels->alu((alu)op->i->code, to, from, ones) : NULL;
  if (!op->kernel) {
    op->kernel = e->kernels->alu((alu)op->i->code, to, from, 0);
    op->all_lanes = !op->one;
  }
  op->rounds = to != SN_F32 && to != SN_I32;
  return op->kernel;
}

static bool set_store(struct row_epilogue *e, row_op *op) {
  sn_dtype to = op->at->dtype, from = (sn_dtype)e->ops[op->a].i->dtype;
  bool casts = to != from && !(dtype_is_float(to) && dtype_is_float(from));
  row_op *made = &e->ops[op->a];
  op->all_lanes = true;
  if (casts)
    op->kernel = e->kernels->alu(ALU_cast, to, from, 0);
  if (to == SN_F32 && from == SN_F32 && made->i->op == REGION_ALU && !made->one && made->into < 0 &&
      !op->at->shared && op->at->by == 1)
    made->into = (int)(op - e->ops);
  return (!casts || op->kernel) && (op->at->by != 0 || e->run == 1);
}

static bool set_ops(struct row_epilogue *e) {
  bool fits = true;
  for (int i = 0; i < e->n && fits; i++) {
    row_op *op = &e->ops[i];
    set_arguments(e, op);
    if (op->i->op == REGION_ALU)
      fits = set_alu(e, op);
    if (op->i->op == REGION_STORE)
      fits = set_store(e, op);
  }
  return fits;
}

/* Chains take one number as it is. */
static void spread_ones(struct row_epilogue *e) {
  for (int i = 0; i < e->n; i++)
    if (e->ops[i].all_lanes && e->ops[i].chain < 0)
      spread_arguments(e, &e->ops[i]);
}

static bool is_cheap(const struct row_epilogue *e) {
  bool cheap = true;
  for (int i = 0; i < e->n; i++) {
    const row_op *op = &e->ops[i];
    if (op->i->op == REGION_ALU && !op->one)
      cheap = cheap && op->chain >= 0 && e->ops[op->chain].cheap;
  }
  return cheap;
}

/* In the order in which they run. */
static void list_ops(struct row_epilogue *e) {
  for (int i = 0; i < e->n; i++)
    if (rows_is_early(&e->ops[i]))
      e->lanes[e->n_lanes++] = i;
  for (int i = 0; i < e->n; i++) {
    const row_op *op = &e->ops[i];
    if (op->one && op->i->op != REGION_NUMBER && op->i->op != REGION_SIZE)
      e->ones[e->n_ones++] = i;
    if (!op->one && !rows_is_early(op) && (op->chain < 0 || op->chain == i))
      e->lanes[e->n_lanes++] = i;
  }
}

/* --- registers --- */

/* Registers that nobody reads any more lend their memory, but not to what runs out of turn. */
static void *take_lanes(struct row_epilogue *e, cpu_run *r, int op) {
  const row_op *to = &e->ops[op];
  bool in_turn = !to->one && to->chain < 0 && !rows_is_early(to);
  for (int i = 0; i < op && in_turn; i++) {
    row_op *dead = &e->ops[i];
    if (!dead->one && !dead->lent && dead->own && dead->last < op && dead->chain < 0) {
      dead->lent = true;
      return dead->own;
    }
  }
  return cpu_take(r, ROWS_LANES * sizeof(float));
}

static void fill_number(const cpu_run *r, row_op *op) {
  const instr *i = op->i;
  double x =
      dtype_round((sn_dtype)i->dtype, i->op == REGION_SIZE ? (double)cpu_size(r, i->size) : i->x);
  for (int lane = 0; lane < ROWS_LANES; lane++)
    if (instr_is_float(i))
      ((float *)op->own)[lane] = (float)x;
    else
      ((int32_t *)op->own)[lane] = (int32_t)x;
}

static bool set_registers(cpu_run *r, struct row_epilogue *e) {
  bool all = true;
  for (int i = 0; i < e->n && all; i++) {
    row_op *op = &e->ops[i];
    if (op->i->op == REGION_STORE || op->i->op == REGION_ACC)
      continue;
    op->lanes = op->own = take_lanes(e, r, i);
    all = op->own;
    if (all && (op->i->op == REGION_NUMBER || op->i->op == REGION_SIZE))
      fill_number(r, op);
  }
  e->spare = cpu_take(r, ROWS_LANES * sizeof(float));
  return all && e->spare;
}

static sn_status take_epilogue(matmul_work *w, size_t n) {
  struct row_epilogue *e = w->rows = cpu_take(w->r, sizeof *e);
  if (!e)
    return SN_ERR_INTERNAL;
  *e = (struct row_epilogue){.kernels = w->r->isa->lanes, .matmul = w->r->isa->matmul};
  e->ops = cpu_take(w->r, n * sizeof *e->ops);
  e->places = cpu_take(w->r, n * sizeof *e->places);
  e->steps = cpu_take(w->r, 3 * n * sizeof *e->steps);
  e->moves = cpu_take(w->r, rows_moves_most(n) * sizeof *e->moves);
  e->ones = cpu_take(w->r, 2 * n * sizeof *e->ones);
  e->lanes = e->ones ? e->ones + n : NULL;
  return e->ops && e->places && e->steps && e->moves && e->ones ? SN_OK : SN_ERR_INTERNAL;
}

sn_status rows_open(matmul_work *w, bool *out_fits) {
  const region *code = &w->part->epilogue;
  size_t used = w->r->scratch_used;
  *out_fits = false;
  if (code->n > ROWS_OPS)
    return SN_OK;
  SN_TRY(take_epilogue(w, (size_t)code->n));
  struct row_epilogue *e = w->rows;
  *out_fits = open_places(w, e, code);
  if (*out_fits) {
    find_run(w, e);
    *out_fits = check_overlaps(e) && set_ops(e);
  }
  if (!*out_fits) {
    w->r->scratch_used = used;
    w->rows = NULL;
    return SN_OK;
  }
  rows_chain(e);
  spread_ones(e);
  e->cheap = is_cheap(e);
  rows_place(e);
  list_ops(e);
  lane_step *built = cpu_take(w->r, rows_built_most((size_t)code->n) * sizeof *built);
  if (!built || !set_registers(w->r, e))
    return SN_ERR_INTERNAL;
  rows_build(e, built);
  return SN_OK;
}
