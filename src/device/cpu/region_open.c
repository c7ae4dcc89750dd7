/* Opening of regions: a program and the sizes of a run become a list of ops.
 * Called by loops, and by matmul for operands and epilogues; cpu.h is the
 * manual, machine.h says what an open region is.
 *
 * Invariants of an open region:
 *   - an op's `moves` covers those of its arguments, so what is skipped reads
 * nothing that was computed again;
 *   - two registers share memory only if they and all their readers move
 * together and stand in one range: whenever one of them is computed, so are all
 * of these, in order;
 *   - lanes may be the memory of a value where no store of the region changes
 * it before their last reader; that reader may be the op that writes this
 * memory, lane for lane. */
#include "device/cpu/machine.h"

static size_t lanes_bytes(int lanes) { return (size_t)lanes * 4; } /* floats or integers */

/* --- opening: accesses --- */
static bool has_access(const instr *i) {
  return i->op == REGION_LOAD || i->op == REGION_STORE || i->op == REGION_INDEX ||
         i->op == REGION_INSIDE || i->op == REGION_WORD;
}

size_t region_bytes(const region *code, int lanes) {
  size_t n = (size_t)code->n, each = (size_t)lanes,
         bytes = cpu_take_bytes(sizeof(region_state)) + /* numbers, inside, spare */
                 each * 8 + each + lanes_bytes(lanes) + 4 * PROGRAM_ALIGN;
  bytes += chain_bytes(code->n) + cpu_take_bytes(n * sizeof(region_op_state)) +
           cpu_take_bytes(n * sizeof(region_range));
  for (int i = 0; i < code->n; i++) {
    bytes += lanes_bytes(lanes);
    if (has_access(&code->code[i]))
      bytes += access_bytes(&code->code[i].at);
    if (code->code[i].op == REGION_REDUCE)
      bytes += each * sizeof(double);
  }
  return bytes;
}

size_t cpu_region_bytes(const region *code) { return region_bytes(code, CPU_TILE); }

sn_status region_resolve(cpu_run *r, const region *code, int n_axes, const int64_t *extents,
                         int lanes, region_state **out) {
  region_state *st = cpu_take(r, sizeof *st);
  region_op_state *ops = cpu_take(r, (size_t)code->n * sizeof *ops);
  region_range *ranges = cpu_take(r, (size_t)code->n * sizeof *ranges);
  int64_t *numbers = cpu_take(r, (size_t)lanes * sizeof *numbers);
  uint8_t *inside = cpu_take(r, (size_t)lanes);
  void *spare = cpu_take(r, lanes_bytes(lanes));
  chain_step *steps = cpu_take(r, chain_bytes(code->n));
  if (!st || !ops || !ranges || !numbers || !inside || !spare || !steps)
    return SN_ERR_INTERNAL;
  memset(st, 0, offsetof(region_state, joined)); /* tiles are large */
  st->one.axis = 0;
  tile_clear(&st->one);
  st->n = code->n, st->n_axes = n_axes;
  st->kernels = r->isa->lanes;
  st->lanes = lanes;
  st->ops = ops, st->ranges = ranges, st->steps = steps;
  st->numbers = numbers, st->inside = inside, st->spare = spare;
  for (int i = 0; i < n_axes; i++)
    st->extent[i] = extents[i];
  tile_add(&st->one, (const int64_t[REGION_AXES]){0}, 1);
  for (int i = 0; i < code->n; i++) {
    ops[i] =
        (region_op_state){.i = &code->code[i], .same = -1, .store = -1, .last = -1, .next = -1};
    if (has_access(ops[i].i))
      SN_TRY(access_resolve(r, &ops[i].i->at, n_axes, extents, &ops[i].at));
  }
  *out = st;
  return SN_OK;
}

/* --- opening: what moves an op --- */
static const char *end_of(const region_op_state *op) {
  return op->at->data + op->at->count * (int64_t)sn_dtype_size(op->at->dtype);
}
bool region_overlap(const region_op_state *a, const region_op_state *b) {
  return a->at->data < end_of(b) && b->at->data < end_of(a);
}

static bool is_stored_to(const region_state *st, const region_op_state *load) {
  for (int i = 0; i < st->n; i++)
    if (st->ops[i].i->op == REGION_STORE && region_overlap(&st->ops[i], load))
      return true;
  return false;
}

reg region_root(const region_state *st, reg a) {
  const region_op_state *op = &st->ops[a];
  bool passes = op->i->op == REGION_STORE || op->i->op == REGION_REQUIRE;
  return passes ? region_root(st, op->i->a) : op->same >= 0 ? (reg)op->same : a;
}

static void root_indices(const region_state *st, index_sum *s) {
  for (int k = 0; k < s->n_odd; k++)
    if (s->odd[k].axis == TERM_REG)
      s->odd[k].from = region_root(st, s->odd[k].from);
}

static void set_moves(region_state *st, region_op_state *op) {
  int n = instr_arguments(op->i);
  uint32_t moves = MOVES_FIRST;
  op->a = n > 0 ? region_root(st, op->i->a) : 0;
  op->b = n > 1 ? region_root(st, op->i->b) : 0;
  op->c = n > 2 ? region_root(st, op->i->c) : 0;
  const reg arguments[] = {op->a, op->b, op->c};
  for (int k = 0; k < n; k++)
    moves |= st->ops[arguments[k]].moves;
  if (op->i->op == REGION_LOAD)
    op->at->aliased = op->at->copied = is_stored_to(st, op);
  if (op->at) {
    root_indices(st, &op->at->at);
    for (int k = 0; k < op->at->n_checks; k++)
      root_indices(st, &op->at->checks[k].v);
    moves |= access_moves(st, op->at);
  }
  bool acts = op->i->op == REGION_STORE || op->i->op == REGION_REQUIRE;
  if (op->i->op == REGION_ACC || op->i->op == REGION_REDUCE || (acts && moves == MOVES_FIRST))
    moves |= MOVES_ALWAYS;
  op->moves = moves;
  /* Rows hand numbers to points: one for all, unless lanes are rows. */
  bool of_row = st->ranges[op->range].row || op->i->op == REGION_REDUCE;
  op->one = moves == MOVES_FIRST || (of_row && !st->wide && !st->batch);
  op->by_row = of_row && st->batch && !op->one;
}

/* --- opening: arithmetic --- */
static void spread_argument(region_state *st, reg a) { st->ops[a].spread |= st->ops[a].one; }

/* A kernel that takes one number for all lanes where an argument is that;
 * without such a kernel the argument is spread. */
static lane_alu find_kernel(region_state *st, region_op_state *op, alu code, sn_dtype result) {
  const reg arguments[] = {op->a, op->b, op->c};
  reg typed = code == ALU_select ? op->b : op->a;
  sn_dtype from = (sn_dtype)st->ops[typed].i->dtype;
  unsigned ones = 0;
  for (int k = 0; k < op->arguments && !op->one; k++)
    ones |= st->ops[arguments[k]].one ? 1u << k : 0;
  lane_alu kernel = ones ? st->kernels->alu(code, result, from, ones) : NULL;
  if (kernel)
    return kernel;
  for (int k = 0; k < op->arguments && !op->one; k++)
    spread_argument(st, arguments[k]);
  return st->kernels->alu(code, result, from, 0);
}

static sn_status set_kernel(cpu_run *r, region_state *st, region_op_state *op) {
  sn_dtype result = (sn_dtype)op->i->dtype;
  op->arguments = instr_arguments(op->i);
  if (op->i->op == REGION_STORE) {
    sn_dtype to = op->at->dtype, from = (sn_dtype)st->ops[op->a].i->dtype;
    if (to != from && !(dtype_is_float(to) && dtype_is_float(from)))
      op->kernel = st->kernels->alu(ALU_cast, to, from, 0);
  }
  if (op->i->op != REGION_ALU) {
    const reg arguments[] = {op->a, op->b, op->c};
    bool alone = op->one && op->i->op != REGION_REDUCE; /* what a row sums it reads at points */
    for (int k = 0; k < op->arguments && !alone; k++)
      spread_argument(st, arguments[k]);
    return SN_OK;
  }
  op->kernel = find_kernel(st, op, (alu)op->i->code, result);
  if (op->kernel)
    return SN_OK;
  reg typed = op->i->code == ALU_select ? op->b : op->a;
  return diag_fail(r->ctx, SN_ERR_INTERNAL, "cpu: no %s that gives %s of %s",
                   alu_table[op->i->code].name, sn_dtype_name(result),
                   sn_dtype_name((sn_dtype)st->ops[typed].i->dtype));
}

/* --- opening: ranges and registers --- */
static void set_ranges(region_state *st, bool by_phase) {
  for (int i = 0; i < st->n; i++) {
    const instr *in = st->ops[i].i;
    region_range *last = st->n_ranges ? &st->ranges[st->n_ranges - 1] : NULL;
    if (!last || (by_phase && (last->phase != in->phase || last->row != in->row)))
      st->ranges[st->n_ranges++] = (region_range){
          .from = i, .row = by_phase && in->row, .phase = by_phase ? in->phase : 0, .fresh = true};
    st->ranges[st->n_ranges - 1].to = i + 1;
    st->ops[i].range = st->n_ranges - 1;
  }
}

static void note_reader(region_state *st, int reader, reg a) {
  region_op_state *op = &st->ops[a], *by = &st->ops[reader];
  op->shares = (op->last < 0 || op->shares) && by->moves == op->moves && by->range == op->range &&
               !op->flat_ok; /* lane 0 of it is read to the end */
  op->last = reader;
}

/* Calls f on every register that op i uses as an index. */
static void each_index(region_state *st, int i, void (*f)(region_state *st, int reader, reg a)) {
  const index_access *at = st->ops[i].at;
  for (int c = -1; c < at->n_checks; c++) {
    const index_sum *s = c < 0 ? &at->at : &at->checks[c].v;
    for (int k = 0; k < s->n_odd; k++)
      if (s->odd[k].axis == TERM_REG)
        f(st, i, s->odd[k].from);
  }
}

void region_each_read(region_state *st, int i, void (*f)(region_state *st, int reader, reg a)) {
  const region_op_state *op = &st->ops[i];
  const reg arguments[] = {op->a, op->b, op->c};
  for (int k = 0; k < instr_arguments(op->i); k++)
    f(st, i, arguments[k]);
  if (!op->at)
    return;
  each_index(st, i, f);
}

/* Puts a register that dies with this reader on the list of those whose memory
 * can be shared. */
static void free_dead(region_state *st, int reader, reg a) {
  region_op_state *op = &st->ops[a];
  if (op->last != reader || !op->shares || !op->own)
    return;
  op->last = -1; /* once, though it may be read twice */
  op->next = st->free;
  st->free = a;
}

static void *reuse(region_state *st, const region_op_state *op) {
  for (int *at = &st->free; *at >= 0; at = &st->ops[*at].next) {
    region_op_state *dead = &st->ops[*at];
    if (dead->moves == op->moves && dead->range == op->range) {
      *at = dead->next;
      return dead->own;
    }
  }
  return NULL;
}

static void spread_index(region_state *st, int reader, reg a) {
  if (!st->ops[reader].one)
    spread_argument(st, a);
}

/* --- opening: memory as registers --- */
bool region_same_place(const index_access *a, const index_access *b) {
  return a->data == b->data && a->at.base == b->at.base && a->at.n_odd == 0 && b->at.n_odd == 0 &&
         memcmp(a->at.stride, b->at.stride, sizeof a->at.stride) == 0;
}

/* Whether all registers that an access takes indices from stand before an op. */
static bool is_placed_before(const index_access *a, reg op) {
  for (int i = 0; i < a->at.n_odd; i++)
    if (a->at.odd[i].axis == TERM_REG && a->at.odd[i].from >= op)
      return false;
  return true;
}

/* Past the caches go chains only, and what nobody reads again. */
static bool is_only_streamed(const region_state *st, const region_op_state *op) {
  return st->ops[op->tail].n_steps && op->second < 0;
}

/* Where the register that a store writes is made by the op that may as well
 * write it. The place must be known by then, and nothing may load that memory
 * between the two, nor another store write it. */
static void set_direct(region_state *st, int store) {
  region_op_state *s = &st->ops[store], *p = &st->ops[s->a];
  if (p->i->op != REGION_ALU || p->i->dtype != SN_F32 || s->at->dtype != SN_F32 ||
      p->range != s->range || ((p->moves ^ s->moves) & ~MOVES_ALWAYS) || p->store >= 0 ||
      (s->at->streams && !is_only_streamed(st, p)) || !is_placed_before(s->at, s->a))
    return;
  for (int i = 0; i < st->n; i++) {
    const region_op_state *op = &st->ops[i];
    if (i == store || !op->at || !op->at->data || !region_overlap(op, s))
      continue;
    if (op->i->op == REGION_STORE || (i > s->a && i < store && op->range == s->range))
      return;
  }
  p->store = store;
}

/* Ops in the order in which they run: chains where their last op stands. */
static int when(const region_state *st, int op) { return st->ops[op].tail * REGION_MAX + op; }

/* Whether all of a load's readers are done when the region stores to its
 * memory. */
static bool is_read_before(const region_state *st, int load) {
  const region_op_state *l = &st->ops[load];
  if (l->one || l->last < 0)
    return false;
  for (int i = 0; i < st->n; i++) {
    const region_op_state *s = &st->ops[i];
    if (s->i->op != REGION_STORE || s->range != l->range || !region_overlap(s, l))
      continue; /* registers of points do not live as long as other ranges */
    int writes = when(st, st->ops[s->a].store == i ? s->a : i);
    if (!region_same_place(s->at, l->at) || when(st, l->last) > writes || when(st, load) > writes ||
        sn_dtype_size(s->at->dtype) != sn_dtype_size(l->at->dtype))
      return false;
  }
  return true;
}

static bool leaves_range(const region_state *st, int load) {
  const region_op_state *l = &st->ops[load];
  return l->last >= st->ranges[l->range].to;
}

static void set_memory(region_state *st) {
  for (int i = 0; i < st->n; i++)
    if (st->ops[i].i->op == REGION_STORE)
      set_direct(st, i);
  for (int i = 0; i < st->n; i++) {
    region_op_state *op = &st->ops[i];
    if (op->i->op == REGION_LOAD && op->at->aliased)
      op->at->copied = leaves_range(st, i) || !is_read_before(st, i);
  }
}

/* --- opening: registers --- */
/* Calls f on all ops in the order in which they run. */
static sn_status in_order(cpu_run *r, region_state *st,
                          sn_status (*f)(cpu_run *r, region_state *st, int i)) {
  for (int tail = 0; tail < st->n; tail++)
    for (int i = st->ops[tail].tail == tail ? st->ops[tail].head : -1; i >= 0;
         i = st->ops[i].member)
      SN_TRY(f(r, st, i));
  return SN_OK;
}

static sn_status note_readers(cpu_run *r, region_state *st, int i) {
  region_op_state *op = &st->ops[i];
  region_each_read(st, i, note_reader);
  if (op->at)
    each_index(st, i, spread_index);
  if (op->i->op == REGION_REDUCE) {
    op->acc = cpu_take(r, (size_t)st->lanes * sizeof(double));
    op->acc_int = (int32_t *)op->acc;
    if (!op->acc)
      return SN_ERR_INTERNAL;
  }
  return SN_OK;
}

/* Whether an op has lanes of its own. */
static bool is_kept(const region_op_state *op) {
  bool passes = op->i->op == REGION_STORE || op->i->op == REGION_REQUIRE || op->i->op == REGION_ACC;
  return !passes && (op->member < 0 || op->second >= 0);
}

static sn_status give_register(cpu_run *r, region_state *st, int i) {
  region_op_state *op = &st->ops[i];
  /* What a batch's rows sum up must last while points of its other rows are computed. */
  bool lasts = op->by_row && op->i->op == REGION_REDUCE;
  if (is_kept(op) && (lasts || !(op->own = reuse(st, op))) &&
      !(op->own = cpu_take(r, lanes_bytes(st->lanes))))
    return SN_ERR_INTERNAL;
  op->lanes = op->own;
  region_each_read(st, i, free_dead);
  return SN_OK;
}

static sn_status set_registers(cpu_run *r, region_state *st) {
  st->free = -1;
  SN_TRY(in_order(r, st, note_readers));
  set_memory(st);
  return in_order(r, st, give_register);
}

bool region_joins(const region_state *st, int a, int b) {
  uint32_t both = UINT32_C(1) << a | UINT32_C(1) << b;
  for (int i = 0; i < st->n; i++) {
    const index_access *at = st->ops[i].at;
    for (int c = -1; at && c < at->n_checks; c++) {
      const index_sum *s = c < 0 ? &at->at : &at->checks[c].v;
      if (s->odd_axes & both || s->stride[a] != st->extent[b] * s->stride[b])
        return false;
    }
  }
  return true;
}

sn_status region_finish(cpu_run *r, region_state *st, bool by_phase) {
  set_ranges(st, by_phase);
  for (int i = 0; i < st->n; i++) {
    set_moves(st, &st->ops[i]);
    SN_TRY(set_kernel(r, st, &st->ops[i]));
    st->ops[i].moves = st->ops[i].dropped ? 0 : st->ops[i].moves;
  }
  chain_form(st);
  return set_registers(r, st);
}

sn_status cpu_region_open(cpu_run *r, const region *code, int n_axes, const int64_t *extents,
                          region_state **out) {
  SN_TRY(region_resolve(r, code, n_axes, extents, CPU_TILE, out));
  for (int a = 1; a < n_axes; a++)
    (*out)->joins |= (uint32_t)region_joins(*out, a - 1, a) << a;
  SN_TRY(region_finish(r, *out, false));
  for (int i = 0; i < code->n; i++) /* operands, which others look at */
    if ((*out)->ops[i].last < 0)
      spread_argument(*out, region_root(*out, (reg)i));
  return SN_OK;
}
