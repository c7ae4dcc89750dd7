/* The region machine: opens region programs and executes them tile by tile. Called by loops, and by matmul for operands
 * and epilogues; cpu.h is the manual.
 *
 * Invariants of an open region:
 *   - an op's `moves` covers those of its arguments, so what is skipped reads nothing that was computed again;
 *   - two registers share memory only if they and all their readers move together and stand in one range: whenever one of
 *     them is computed, so are all of these, in order;
 *   - lanes of loads may be the memory itself, but never where the region stores. */
#include "device/cpu/machine.h"

#include "base/half.h"
#include "base/philox.h"

#include <assert.h>

enum { LANES_BYTES = CPU_TILE * 4 };

/* --- opening: accesses --- */
static bool has_access(const instr *i) {
  return i->op == REGION_LOAD || i->op == REGION_STORE || i->op == REGION_INDEX ||
         i->op == REGION_INSIDE || i->op == REGION_WORD;
}

size_t cpu_region_bytes(const region *code) {
  size_t n = (size_t)code->n,
         bytes = cpu_take_bytes(sizeof(region_state)) + /* numbers, inside, spare */
                 CPU_TILE * 8 + CPU_TILE + LANES_BYTES + 4 * PROGRAM_ALIGN;
  bytes += cpu_take_bytes(n * sizeof(region_op_state)) + cpu_take_bytes(n * sizeof(region_range));
  for (int i = 0; i < code->n; i++) {
    bytes += LANES_BYTES;
    if (has_access(&code->code[i]))
      bytes += access_bytes(&code->code[i].at);
    if (code->code[i].op == REGION_REDUCE)
      bytes += CPU_TILE * sizeof(double);
  }
  return bytes;
}

sn_status region_resolve(cpu_run *r, const region *code, int n_axes, const int64_t *extents,
                         region_state **out) {
  region_state *st = cpu_take(r, sizeof *st);
  region_op_state *ops = cpu_take(r, (size_t)code->n * sizeof *ops);
  region_range *ranges = cpu_take(r, (size_t)code->n * sizeof *ranges);
  int64_t *numbers = cpu_take(r, CPU_TILE * sizeof *numbers);
  uint8_t *inside = cpu_take(r, CPU_TILE);
  void *spare = cpu_take(r, LANES_BYTES);
  if (!st || !ops || !ranges || !numbers || !inside || !spare)
    return SN_ERR_INTERNAL;
  memset(st, 0, offsetof(region_state, one)); /* `one` is large, and has its own way to be empty */
  st->one.axis = 0;
  tile_clear(&st->one);
  st->n = code->n, st->n_axes = n_axes;
  st->ops = ops, st->ranges = ranges;
  st->numbers = numbers, st->inside = inside, st->spare = spare;
  for (int i = 0; i < n_axes; i++)
    st->extent[i] = extents[i];
  tile_add(&st->one, (const int64_t[REGION_AXES]){0}, 1);
  for (int i = 0; i < code->n; i++) {
    ops[i] = (region_op_state){.i = &code->code[i], .last = -1, .next = -1};
    if (has_access(ops[i].i))
      SN_TRY(access_resolve(r, &ops[i].i->at, n_axes, extents, &ops[i].at));
  }
  *out = st;
  return SN_OK;
}

/* --- opening: what moves an op --- */
static const char *end_of(const cpu_run *r, const region_op_state *op) {
  int64_t count = cpu_size(r, r->program->values[op->i->at.value].count);
  return op->at->data + count * (int64_t)sn_dtype_size(op->at->dtype);
}

static bool is_stored_to(const cpu_run *r, const region_state *st, const region_op_state *load) {
  for (int i = 0; i < st->n; i++) {
    const region_op_state *op = &st->ops[i];
    if (op->i->op == REGION_STORE && op->at->data < end_of(r, load) &&
        load->at->data < end_of(r, op))
      return true;
  }
  return false;
}

static reg root(const region_state *st, reg a) {
  const region_op_state *op = &st->ops[a];
  return op->i->op == REGION_STORE || op->i->op == REGION_REQUIRE ? op->a : a;
}

static void root_indices(const region_state *st, index_sum *s) {
  for (int k = 0; k < s->n_odd; k++)
    if (s->odd[k].axis == TERM_REG)
      s->odd[k].from = root(st, s->odd[k].from);
}

static void set_moves(const cpu_run *r, region_state *st, region_op_state *op) {
  int n = instr_arguments(op->i);
  uint32_t moves = MOVES_FIRST;
  op->a = n > 0 ? root(st, op->i->a) : 0;
  op->b = n > 1 ? root(st, op->i->b) : 0;
  op->c = n > 2 ? root(st, op->i->c) : 0;
  const reg arguments[] = {op->a, op->b, op->c};
  for (int k = 0; k < n; k++)
    moves |= st->ops[arguments[k]].moves;
  if (op->i->op == REGION_LOAD)
    op->at->aliased = is_stored_to(r, st, op);
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
}

/* --- opening: arithmetic --- */
static sn_status set_kernel(cpu_run *r, region_state *st, region_op_state *op) {
  sn_dtype result = (sn_dtype)op->i->dtype;
  if (op->i->op == REGION_STORE) {
    sn_dtype to = op->at->dtype, from = (sn_dtype)st->ops[op->a].i->dtype;
    if (to != from && !(dtype_is_float(to) && dtype_is_float(from)))
      op->kernel = cpu_alu_kernel(ALU_cast, to, from);
    return SN_OK;
  }
  if (op->i->op != REGION_ALU)
    return SN_OK;
  reg typed = op->i->code == ALU_select ? op->b : op->a;
  op->kernel = cpu_alu_kernel((alu)op->i->code, result, (sn_dtype)st->ops[typed].i->dtype);
  if (op->kernel)
    return SN_OK;
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
  op->shares = (op->last < 0 || op->shares) && by->moves == op->moves && by->range == op->range;
  op->spread |= st->ranges[op->range].row && !st->ranges[by->range].row;
  op->last = reader;
}

/* Calls f on every register that op i reads, also through indices. */
static void each_read(region_state *st, int i, void (*f)(region_state *st, int reader, reg a)) {
  const region_op_state *op = &st->ops[i];
  const reg arguments[] = {op->a, op->b, op->c};
  for (int k = 0; k < instr_arguments(op->i); k++)
    f(st, i, arguments[k]);
  if (!op->at)
    return;
  for (int c = -1; c < op->at->n_checks; c++) {
    const index_sum *s = c < 0 ? &op->at->at : &op->at->checks[c].v;
    for (int k = 0; k < s->n_odd; k++)
      if (s->odd[k].axis == TERM_REG)
        f(st, i, s->odd[k].from);
  }
}

/* Puts a register that dies with this reader on the list of those whose memory can be shared. */
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

static sn_status set_registers(cpu_run *r, region_state *st) {
  st->free = -1;
  for (int i = 0; i < st->n; i++) {
    region_op_state *op = &st->ops[i];
    each_read(st, i, note_reader);
    if (op->i->op == REGION_REDUCE) {
      op->acc = cpu_take(r, CPU_TILE * sizeof(double));
      op->acc_int = (int32_t *)op->acc;
      op->spread = true;
      if (!op->acc)
        return SN_ERR_INTERNAL;
    }
  }
  for (int i = 0; i < st->n; i++) {
    region_op_state *op = &st->ops[i];
    bool passes =
        op->i->op == REGION_STORE || op->i->op == REGION_REQUIRE || op->i->op == REGION_ACC;
    if (!passes && !(op->own = reuse(st, op)) && !(op->own = cpu_take(r, LANES_BYTES)))
      return SN_ERR_INTERNAL;
    op->lanes = op->own;
    each_read(st, i, free_dead);
  }
  return SN_OK;
}

sn_status region_finish(cpu_run *r, region_state *st, bool by_phase) {
  set_ranges(st, by_phase);
  for (int i = 0; i < st->n; i++) {
    set_moves(r, st, &st->ops[i]);
    SN_TRY(set_kernel(r, st, &st->ops[i]));
  }
  return set_registers(r, st);
}

sn_status cpu_region_open(cpu_run *r, const region *code, int n_axes, const int64_t *extents,
                          region_state **out) {
  SN_TRY(region_resolve(r, code, n_axes, extents, out));
  return region_finish(r, *out, false);
}

/* --- running --- */
void tile_add(tile *t, const int64_t *at, int n) {
  assert(tile_has_room(t, n));
  segment *g = &t->segments[t->n_segments++];
  memcpy(g->at, at, sizeof g->at);
  g->lane = t->n;
  g->n = n;
  t->n += n;
}

void region_spread(region_op_state *op) {
  uint32_t *lanes = op->own, v = lanes[0];
  if (op->lanes != op->own) /* one lane of memory */
    memcpy(&v, op->lanes, sizeof v);
  for (int i = 0; i < CPU_TILE; i++)
    lanes[i] = v;
  op->lanes = op->own;
}

static void fill_number(region_op_state *op, double x, int n) {
  sn_dtype dtype = (sn_dtype)op->i->dtype;
  x = dtype_round(dtype, x);
  if (dtype_is_float(dtype))
    for (int i = 0; i < n; i++)
      ((float *)op->own)[i] = (float)x;
  else
    for (int i = 0; i < n; i++)
      ((int32_t *)op->own)[i] = (int32_t)x;
}

static void run_word(region_state *st, region_op_state *op, const tile *t) {
  const uint32_t *low = st->ops[op->a].lanes, *high = st->ops[op->b].lanes,
                 *counter = st->ops[op->c].lanes;
  uint32_t *out = op->own, stream = (uint32_t)(int64_t)op->i->x, words[4] = {0};
  uint64_t block = UINT64_MAX; /* of `words`, for the lane before */
  access_numbers(st, op->at, t);
  for (int i = 0; i < t->n; i++) {
    uint64_t number = (uint64_t)st->numbers[i];
    if (number / 4 != block || low[i] != low[i - 1] || high[i] != high[i - 1] ||
        counter[i] != counter[i - 1]) {
      block = number / 4;
      words[0] = (uint32_t)block, words[1] = (uint32_t)(block >> 32);
      words[2] = counter[i], words[3] = stream;
      philox((const uint32_t[2]){low[i], high[i]}, words);
    }
    out[i] = words[number % 4];
  }
}

static void run_index(region_state *st, region_op_state *op, const tile *t) {
  int32_t *out = op->own;
  if (op->i->op == REGION_INDEX)
    access_numbers(st, op->at, t);
  else
    access_inside(st, op->at, t);
  for (int i = 0; i < t->n; i++)
    out[i] = op->i->op == REGION_INDEX ? (int32_t)st->numbers[i] : st->inside[i];
}

static void run_require(cpu_run *r, region_state *st, const region_op_state *op, int n) {
  const int32_t *holds = st->ops[op->a].lanes, *shown = st->ops[op->b].lanes;
  for (int i = 0; i < n && !r->failed; i++)
    if (!holds[i]) {
      r->failed = true;
      r->failed_step = r->step;
      r->failed_at = r->iteration;
      r->site = op->i->index;
      r->shown = shown[i];
    }
}

static void run_alu(region_state *st, region_op_state *op, int n) {
  int arguments = alu_table[op->i->code].arguments;
  const void *b = arguments > 1 ? st->ops[op->b].lanes : NULL;
  const void *c = arguments > 2 ? st->ops[op->c].lanes : NULL;
  op->kernel(op->own, st->ops[op->a].lanes, b, c, op->i->x, op->i->y, n);
  if (op->i->dtype != SN_F32 && op->i->dtype != SN_I32)
    cpu_alu_round((sn_dtype)op->i->dtype, op->own, n);
}

static void run_op(cpu_run *r, region_state *st, region_op_state *op, const tile *t,
                   const float *const *acc) {
  switch ((region_op)op->i->op) {
  case REGION_LOAD: access_load(st, op, t); break;
  case REGION_STORE: access_store(st, op, t); break;
  case REGION_INDEX:
  case REGION_INSIDE: run_index(st, op, t); break;
  case REGION_NUMBER: fill_number(op, op->i->x, t->n); break;
  case REGION_SIZE: fill_number(op, (double)cpu_size(r, op->i->size), t->n); break;
  case REGION_ALU: run_alu(st, op, t->n); break;
  case REGION_WORD: run_word(st, op, t); break;
  case REGION_REDUCE: reduce_tile(op, st->ops[op->a].lanes, t->n, st->wide); break;
  case REGION_ACC: op->lanes = acc[op->i->index]; break;
  case REGION_REQUIRE: run_require(r, st, op, t->n); break;
  }
}

/* The axes that moved between the last tile of a range and this one. */
static uint32_t moved(const region_state *st, region_range *range, const tile *t) {
  bool single = t->n_segments == 1;
  uint32_t moves = 0;
  if (range->fresh)
    moves = UINT32_MAX;
  else if (!single || !range->single || range->axis != t->axis || t->n > range->valid)
    moves = ~MOVES_FIRST;
  else {
    moves = MOVES_ALWAYS | (uint32_t)(t->n != range->n) << t->axis;
    for (int i = 0; i < st->n_axes; i++)
      moves |= (uint32_t)(t->segments[0].at[i] != range->at[i]) << i;
  }
  range->valid = moves & MOVES_FIRST || moves == ~MOVES_FIRST ? t->n : range->valid;
  range->fresh = false;
  range->single = single;
  range->axis = t->axis;
  range->n = t->n;
  memcpy(range->at, t->segments[0].at, sizeof range->at);
  return moves;
}

void region_run_range(cpu_run *r, region_state *st, region_range *range, const tile *t,
                      const float *const *acc) {
  uint32_t moves = moved(st, range, t);
  for (int i = range->from; i < range->to; i++) {
    region_op_state *op = &st->ops[i];
    if (!(op->moves & moves))
      continue;
    if (op->moves == MOVES_FIRST) {
      run_op(r, st, op, &st->one, acc);
      region_spread(op);
      continue;
    }
    run_op(r, st, op, t, acc);
    if (op->spread && t->n == 1 && op->i->op != REGION_REDUCE)
      region_spread(op);
  }
}

void cpu_region_run(cpu_run *r, region_state *st, const tile *t, const float *const *acc) {
  if (st->n_ranges)
    region_run_range(r, st, &st->ranges[0], t, acc);
}

static const void *lanes_of(const region_state *st, int instruction) {
  return st->ops[root(st, (reg)instruction)].lanes;
}
const float *cpu_region_f32(const region_state *st, int instruction) {
  return lanes_of(st, instruction);
}
const int32_t *cpu_region_i32(const region_state *st, int instruction) {
  return lanes_of(st, instruction);
}
