/* How many points of a row a lane has at once. See emit_rows.h. */
#include "device/vulkan/emit_rows.h"

/* By whether points come in fours, which need fewer instructions. */
static const int loads_at_once[2] = {40, 48}, instructions_at_once[2] = {240, 480};

/* --- what can be loaded at once --- */

static bool reads_register(int n, const term *terms) {
  for (int i = 0; i < n; i++)
    if (terms[i].axis == TERM_REG)
      return true;
  return false;
}

static bool needs_register(const access *at) {
  bool any = reads_register(at->n_terms, at->terms);
  for (int c = 0; c < at->n_checks; c++)
    any = any || reads_register(at->checks[c].n_terms, at->checks[c].terms);
  return any;
}

bool row_is_overwritten(const emitter *e, const loop_part *p, const instr *load) {
  for (int i = 0; i < p->code.n; i++)
    if (row_overwrites(e, load, &p->code.code[i]))
      return true;
  return false;
}

bool row_is_ready(const emitter *e, const loop_part *p, int i) {
  const instr *in = &p->code.code[i];
  if (in->op != REGION_LOAD || in->row || needs_register(&in->at))
    return false;
  for (int s = 0; s < p->code.n; s++) {
    const instr *store = &p->code.code[s];
    if (row_overwrites(e, in, store) &&
        (store->phase < in->phase || (store->phase == in->phase && store->row)))
      return false;
  }
  return true;
}

int row_same_load(const emitter *e, const loop_part *p, int i) {
  for (int j = 0; j < i; j++)
    if (row_is_ready(e, p, j) && p->code.code[j].dtype == p->code.code[i].dtype &&
        access_same(&p->code.code[j].at, &p->code.code[i].at))
      return j;
  return i;
}

/* --- how many --- */

int64_t row_points_least(const emitter *e, const loop_part *p) {
  int64_t product = 1;
  for (int d = p->n_outer; d < p->n_axes; d++) {
    int64_t lo, hi;
    dim_range(e->env.program->dims, p->extent[d], &lo, &hi);
    product = min_i64(INT32_MAX, product * max_i64(0, min_i64(lo, INT32_MAX)));
  }
  return product;
}

four_axes row_inner_axes(const loop_part *p) {
  return (four_axes){p->n_outer, p->n_axes - p->n_outer, p->extent};
}

four_axes row_outer_axes(const loop_part *p) { return (four_axes){0, p->n_outer, p->extent}; }

static bool by_vector(const emitter *e, const loop_part *p, int i) {
  four_axes inner = row_inner_axes(p);
  return emit_four_kind(e, &p->code, i, &inner) == FOUR_NEXT;
}

bool row_has_fours(const emitter *e, const loop_part *p) {
  int64_t points = 1;
  for (int d = p->n_outer; d < p->n_axes; d++)
    if (!dim_is_number(p->extent[d]) || !mul_fits(points, p->extent[d], &points))
      return false;
  bool any = false;
  for (int i = 0; i < p->code.n; i++)
    any = any || (!p->code.code[i].row && by_vector(e, p, i));
  return any && points % 4 == 0;
}

int row_may_be_wide(const emitter *e, const loop_part *p) {
  four_axes outer = row_outer_axes(p);
  int loads = 0, vectors = 0, reductions = 0;
  for (int i = 0; i < p->code.n; i++) {
    const instr *in = &p->code.code[i];
    if (in->op == REGION_REQUIRE || row_is_overwritten(e, p, in))
      return 0;
    reductions += in->op == REGION_REDUCE;
    if (in->op != REGION_LOAD || in->row)
      continue;
    four_kind kind = emit_four_kind(e, &p->code, i, &outer);
    loads += kind != FOUR_SAME;
    vectors += kind == FOUR_NEXT;
  }
  enum { REDUCTIONS = 3 /* that shared memory has room for */ };
  const sn_dim last = p->n_outer > 0 ? p->extent[p->n_outer - 1] : 0;
  bool may =
      vectors == loads && reductions <= REDUCTIONS && dim_is_number(last) && last % EMIT_WIDE == 0;
  return may ? vectors : 0;
}

/* Loads that points make, each of one place once, and their instructions; false: they must be one at a time. */
static bool count_code(const emitter *e, const loop_part *p, int *loads, int *code) {
  *loads = *code = 0;
  for (int i = 0; i < p->code.n; i++) {
    const instr *in = &p->code.code[i];
    if (in->op == REGION_REQUIRE)
      return false;
    *loads +=
        in->op == REGION_LOAD && !in->row && !(row_is_ready(e, p, i) && row_same_load(e, p, i) < i);
    *code += !in->row;
  }
  return true;
}

/* Lengths are few, so that there is not a shader for every one; windows have 9 points. */
row_shape row_shape_of(const emitter *e, const loop_part *p, int lanes, bool columns) {
  int64_t points = sizes_most(&e->env, p->n_axes - p->n_outer, p->extent + p->n_outer);
  int loads, code;
  if (!count_code(e, p, &loads, &code))
    return (row_shape){.rows = 1, .unroll = 1};
  bool four = !columns && lanes > 1 && points >= 2 * lanes && row_has_fours(e, p);
  int64_t all = max_i64(1, (points + lanes - 1) / lanes), most = EMIT_UNROLL;
  most = min_i64(most, loads_at_once[four] / max_i64(1, loads));
  most = min_i64(most, instructions_at_once[four] / max_i64(1, code));
  row_shape s = {.rows = 1, .four = four && most >= 4};
  if (s.four)
    all = all <= 4 ? 4 : all <= 8 ? 8 : all <= EMIT_UNROLL ? EMIT_UNROLL : INT64_MAX;
  else
    all = all == 3                        ? 4
          : all > 4 && all <= EMIT_WINDOW ? EMIT_WINDOW
          : all > 4 && all <= EMIT_UNROLL ? EMIT_UNROLL
                                          : all;
  s.kept = row_points_least(e, p) > 0 && all <= most;
  int some = s.four ? (most >= 8 ? 8 : 4) : most >= 8 ? 4 : most >= 4 ? 2 : 1;
  s.unroll = s.kept ? (int)all : some;
  return s;
}

/* Windows at once, whatever they do: their coordinates are numbers. Of other points so many that there are some sixteen vectors
 * on their way; half of that in pieces, where many workgroups are, and where a few lanes have no more. */
row_shape row_wide_shape(const emitter *e, const loop_part *p, int lanes, int pieces) {
  int64_t points = sizes_most(&e->env, p->n_axes - p->n_outer, p->extent + p->n_outer);
  int loads, code;
  count_code(e, p, &loads, &code);
  int64_t all = max_i64(1, (points + lanes - 1) / lanes);
  bool few = lanes < 64 && all <= 4;
  int some = code > 80 ? 1 : code > 40 ? 2 : loads > 2 || pieces > 1 || few ? 4 : 8;
  row_shape s = {.rows = EMIT_WIDE};
  bool again = lanes == 1 || p->n_phases > 1; /* otherwise a loop of one turn does as well */
  s.kept = again && row_points_least(e, p) > 0 && all <= (lanes == 1 ? EMIT_WINDOW : some);
  s.unroll = EMIT_WIDE * (s.kept ? (int)all : some);
  return s;
}

row_shape row_fours_shape(int fours) {
  return (row_shape){.rows = 1, .unroll = 4 * fours, .kept = true, .four = true};
}
