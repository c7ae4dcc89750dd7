/* The region machine at work: executes open regions tile by tile. Called by
 * loops, and by matmul for operands and epilogues; cpu.h is the manual,
 * region_open.c makes what runs here. */
#include "device/cpu/machine.h"

#include "base/half.h"

#include <assert.h>

void tile_add(tile *t, const int64_t *at, int n) {
  assert(tile_has_room(t, n));
  segment *g = &t->segments[t->n_segments++];
  memcpy(g->at, at, sizeof g->at);
  g->lane = t->n;
  g->n = n;
  t->n += n;
}

void region_spread(const region_state *st, region_op_state *op) {
  const lane_block all = {.n = st->lanes, .rows = 1, .by = 0};
  uint32_t v;
  memcpy(&v, op->lanes, sizeof v);
  st->kernels->read(SN_I32, op->own, &v, &all);
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
  lane_words w = {.numbers = st->numbers,
                  .low = st->ops[op->a].lanes,
                  .high = st->ops[op->b].lanes,
                  .counter = st->ops[op->c].lanes,
                  .stream = (uint32_t)(int64_t)op->i->x};
  access_numbers(st, op->at, t);
  st->kernels->words(op->own, &w, t->n);
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

/* A register that is only stored is made where it goes. */
static void run_alu(region_state *st, region_op_state *op, const tile *t) {
  const void *b = op->arguments > 1 ? st->ops[op->b].lanes : NULL;
  const void *c = op->arguments > 2 ? st->ops[op->c].lanes : NULL;
  void *memory = op->store < 0 ? NULL : access_dense(st, &st->ops[op->store], t);
  void *out = memory ? memory : op->own;
  op->kernel(out, st->ops[op->a].lanes, b, c, op->i->x, op->i->y, t->n);
  op->lanes = out;
  if (op->i->dtype != SN_F32 && op->i->dtype != SN_I32)
    st->kernels->round((sn_dtype)op->i->dtype, out, t->n);
}

static void run_op(cpu_run *r, region_state *st, region_op_state *op, const tile *t,
                   const float *const *acc) {
  switch ((region_op)op->i->op) {
  case REGION_LOAD: access_load(st, op, t); break;
  case REGION_STORE: access_store(st, op, t); break;
  case REGION_INDEX:
  case REGION_INSIDE: access_index(st, op, t); break;
  case REGION_NUMBER: fill_number(op, op->i->x, t->n); break;
  case REGION_SIZE: fill_number(op, (double)cpu_size(r, op->i->size), t->n); break;
  case REGION_ALU: run_alu(st, op, t); break;
  case REGION_WORD: run_word(st, op, t); break;
  case REGION_REDUCE: reduce_tile(st, op, st->ops[op->a].lanes, t->n); break;
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
  if (moves != MOVES_ALWAYS) /* what moved now has as many lanes as this tile */
    range->valid = t->n;
  range->fresh = false;
  range->single = single;
  range->axis = t->axis;
  range->n = t->n;
  for (int i = 0; i < st->n_axes; i++)
    range->at[i] = t->segments[0].at[i];
  return moves;
}

static const tile_shape single_shape = {true, -1};

/* The axis along which segment s is the next after the one before; -1: none is.
 */
static int next_along(const region_state *st, const tile *t, int s) {
  const segment *before = &t->segments[s - 1], *g = &t->segments[s];
  int axis = -1;
  for (int i = 0; i < st->n_axes; i++) {
    if (g->at[i] == before->at[i])
      continue;
    if (axis >= 0 || g->at[i] != before->at[i] + 1)
      return -1;
    axis = i;
  }
  return axis;
}

static tile_shape shape_of(const region_state *st, const tile *t) {
  int axis = next_along(st, t, 1);
  bool regular = axis >= 0 && axis != t->axis;
  for (int s = 1; s < t->n_segments && regular; s++)
    regular = t->segments[s].n == t->segments[0].n && (s == 1 || next_along(st, t, s) == axis);
  return (tile_shape){regular, axis};
}

void region_run_range(cpu_run *r, region_state *st, region_range *range, const tile *t,
                      const float *const *acc) {
  uint32_t moves = moved(st, range, t);
  const tile_shape shape = t->n_segments == 1 ? single_shape : shape_of(st, t);
  st->shape = shape;
  for (int i = range->from; i < range->to; i++) {
    region_op_state *op = &st->ops[i];
    if (!(op->moves & moves) || op->member >= 0)
      continue;
    if (op->moves == MOVES_FIRST) {
      st->shape = single_shape;
      run_op(r, st, op, &st->one, acc);
      st->shape = shape;
    } else if (op->n_steps) {
      chain_run(st, op, t);
    } else {
      run_op(r, st, op, t, acc);
    }
    if (op->spread && op->i->op != REGION_REDUCE)
      region_spread(st, op);
  }
}

/* Whether segment b is what comes after a, along axes first … axis as one. */
static bool follows(const region_state *st, const segment *a, const segment *b, int first,
                    int axis) {
  int64_t from = 0, to = 0;
  for (int i = 0; i < st->n_axes; i++)
    if (i < first || i > axis) {
      if (a->at[i] != b->at[i])
        return false;
    } else {
      from = from * st->extent[i] + a->at[i];
      to = to * st->extent[i] + b->at[i];
    }
  return to == from + a->n;
}

/* Segments that end where an axis does though no access notices it: pixels of a picture. */
static const tile *join_segments(region_state *st, const tile *t) {
  tile *out = &st->joined;
  int first = t->axis;
  while (st->joins >> first & 1)
    first--;
  out->axis = t->axis;
  tile_clear(out);
  for (int s = 0; s < t->n_segments; s++) {
    segment *last = out->n_segments ? &out->segments[out->n_segments - 1] : NULL;
    if (last && follows(st, last, &t->segments[s], first, t->axis)) {
      last->n += t->segments[s].n;
      out->n += t->segments[s].n;
    } else {
      tile_add(out, t->segments[s].at, t->segments[s].n);
    }
  }
  return out;
}

void cpu_region_run(cpu_run *r, region_state *st, const tile *t, const float *const *acc) {
  if (st->n_ranges == 0)
    return;
  if (t->n_segments > 1 && st->joins >> t->axis & 1)
    t = join_segments(st, t);
  region_run_range(r, st, &st->ranges[0], t, acc);
}

static const void *lanes_of(const region_state *st, int instruction) {
  return st->ops[region_root(st, (reg)instruction)].lanes;
}
const float *cpu_region_f32(const region_state *st, int instruction) {
  return lanes_of(st, instruction);
}
const int32_t *cpu_region_i32(const region_state *st, int instruction) {
  return lanes_of(st, instruction);
}
