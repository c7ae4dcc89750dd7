/* The points of a row. See emit_rows.h.
 *
 * Rows are all latency: what a lane loads, one load behind the other, and what lanes wait for each other. So a lane has several
 * points at once, instruction by instruction, and loads overlap. Where the row is short these are all that it has: they
 * stay in registers from phase to phase, and what any phase will load is asked for before the first reduction, so that the
 * weights of a norm come while the row is summed, and the row is not read twice. */
#include "device/vulkan/emit_four.h"
#include "device/vulkan/emit_rows.h"

enum { LOADS_AT_ONCE = 40, INSTRUCTIONS_AT_ONCE = 240 };

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

static bool is_overwritten(const emitter *e, const loop_part *p, const instr *load) {
  for (int i = 0; i < p->code.n; i++)
    if (row_overwrites(e, load, &p->code.code[i]))
      return true;
  return false;
}

/* Loads of points at places that nothing must be computed for, of what no earlier phase has changed. */
static bool is_ready(const emitter *e, const loop_part *p, int i) {
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

/* The first load of the same element, if that is ready too; otherwise i. */
static int same_load(const emitter *e, const loop_part *p, int i) {
  for (int j = 0; j < i; j++)
    if (is_ready(e, p, j) && p->code.code[j].dtype == p->code.code[i].dtype &&
        access_same(&p->code.code[j].at, &p->code.code[i].at))
      return j;
  return i;
}

/* --- how many --- */

static int64_t points_least(const emitter *e, const loop_part *p) {
  int64_t product = 1;
  for (int d = p->n_outer; d < p->n_axes; d++) {
    int64_t lo, hi;
    dim_range(e->env.program->dims, p->extent[d], &lo, &hi);
    product = min_i64(INT32_MAX, product * max_i64(0, min_i64(lo, INT32_MAX)));
  }
  return product;
}

static four_axes inner_axes(const loop_part *p) {
  return (four_axes){p->n_outer, p->n_axes - p->n_outer, p->extent};
}

static four_kind four_of(const emitter *e, const loop_part *p, const instr *in) {
  four_axes inner = inner_axes(p);
  return in->op == REGION_LOAD || in->op == REGION_STORE ? emit_four_kind(e, in, &inner)
                                                         : FOUR_APART;
}

static bool by_vector(const emitter *e, const loop_part *p, const instr *in) {
  return four_of(e, p, in) == FOUR_NEXT;
}

bool row_has_fours(const emitter *e, const loop_part *p) {
  int64_t points = 1;
  for (int d = p->n_outer; d < p->n_axes; d++)
    if (!dim_is_number(p->extent[d]) || !mul_fits(points, p->extent[d], &points))
      return false;
  bool any = false;
  for (int i = 0; i < p->code.n; i++)
    any = any || (!p->code.code[i].row && by_vector(e, p, &p->code.code[i]));
  return any && points % 4 == 0;
}

/* Lengths are few, so that there is not a shader for every one; windows have 9 points. */
row_shape row_shape_of(const emitter *e, const loop_part *p, int lanes, bool columns) {
  int64_t points = sizes_most(&e->env, p->n_axes - p->n_outer, p->extent + p->n_outer);
  int loads = 0, code = 0;
  for (int i = 0; i < p->code.n; i++) {
    const instr *in = &p->code.code[i];
    if (in->op == REGION_REQUIRE)
      return (row_shape){.unroll = 1};
    loads += in->op == REGION_LOAD && !in->row && !(is_ready(e, p, i) && same_load(e, p, i) < i);
    code += !in->row;
  }
  int64_t all = max_i64(1, (points + lanes - 1) / lanes), most = EMIT_UNROLL;
  most = min_i64(most, LOADS_AT_ONCE / max_i64(1, loads));
  most = min_i64(most, INSTRUCTIONS_AT_ONCE / max_i64(1, code));
  row_shape s = {.four = !columns && lanes > 1 && most >= 4 && points >= 2 * lanes &&
                         row_has_fours(e, p)};
  if (s.four)
    all = all <= 4 ? 4 : all <= 8 ? 8 : all <= EMIT_UNROLL ? EMIT_UNROLL : INT64_MAX;
  else
    all = all == 3                        ? 4
          : all > 4 && all <= EMIT_WINDOW ? EMIT_WINDOW
          : all > 4 && all <= EMIT_UNROLL ? EMIT_UNROLL
                                          : all;
  s.kept = points_least(e, p) > 0 && all <= most;
  int some = s.four ? (most >= 8 ? 8 : 4) : most >= 8 ? 4 : most >= 4 ? 2 : 1;
  s.unroll = s.kept ? (int)all : some;
  return s;
}

/* --- points --- */

/* Coordinates of point u of a row whose points are all one lane's: numbers. False: extents are not. */
static bool number_coordinates(emitter *e, const loop_part *p, int u) {
  for (int d = p->n_axes - 1; d >= p->n_outer; d--) {
    if (!dim_is_number(p->extent[d]))
      return false;
    e->axis[d] = emit_known(e, u % p->extent[d]);
    u /= (int)p->extent[d];
  }
  return true;
}

/* The lane's points from `first` on, of those below `end`; past it they are the last ones. */
static void place_points(emitter *e, row *r, val first, val end, int64_t least) {
  kernel *k = e->k;
  const loop_part *p = r->part;
  int n_inner = p->n_axes - p->n_outer, lanes = r->threads.lanes, wide = r->shape.four ? 4 : 1;
  val last = k_sub(k, end, k_index(k, wide));
  bool whole = lanes == 1 && r->shape.unroll <= least;
  for (int u = 0; u < r->shape.unroll; u++) {
    struct row_point *at = &r->point[u];
    if (u % wide == 0) {
      val i = u ? k_add(k, first, k_index(k, (int64_t)u * lanes)) : first;
      at->exists = whole ? 0 : k_lt(k, i, end);
      at->flat = whole ? i : k_min(k, i, last);
    } else {
      at->exists = at[-1].exists;
      at->flat = k_add(k, at[-1].flat, k_index(k, 1));
    }
    at->mine = r->active && at->exists ? k_and(k, r->active, at->exists)
               : r->active             ? r->active
                                       : at->exists;
    if (!whole || first != k_index(k, 0) || !number_coordinates(e, p, u))
      emit_coordinates(e, at->flat, p->n_outer, n_inner, p->extent);
    memcpy(at->axis, e->axis, sizeof e->axis);
  }
  for (int d = 0; d < n_inner; d++) /* unknown to row instructions */
    e->axis[p->n_outer + d] = 0;
}

/* A vector of four points from u on, loaded only where it is theirs. */
static void load_points(emitter *e, const row *r, int i, int u, bool guarded) {
  kernel *k = e->k;
  const instr *in = &r->part->code.code[i];
  val v;
  if (guarded && r->point[u].mine) {
    val zero = k_f32(k, 0), zeros = k_vector(k, 4, (val[]){zero, zero, zero, zero});
    k_if mine = k_if_begin(k, r->point[u].mine);
    v = emit_load_four(e, in);
    v = k_if_value(k, &mine, v, zeros);
  } else {
    v = emit_load_four(e, in);
  }
  for (int j = 0; j < 4; j++)
    e->regs[u + j][i] = k_part(k, v, j);
}

static void store_points(emitter *e, const row *r, int i, int u) {
  const instr *in = &r->part->code.code[i];
  k_if mine = {0};
  if (r->point[u].mine)
    mine = k_if_begin(e->k, r->point[u].mine);
  emit_store_four(e, in, i, u);
  if (r->point[u].mine)
    k_if_end(e->k, &mine);
}

static void emit_at_point(emitter *e, const row *r, int i, int u, bool guarded) {
  kernel *k = e->k;
  const instr *in = &r->part->code.code[i];
  const struct row_point *at = &r->point[u];
  bool load = in->op == REGION_LOAD;
  if (!guarded || !at->mine) {
    e->reg[i] = emit_instr(e, in);
    return;
  }
  val zero = load ? emit_number(e, (sn_dtype)in->dtype, 0) : 0;
  k_if mine = k_if_begin(k, at->mine);
  val lane = emit_instr(e, in);
  if (!load)
    k_if_end(k, &mine);
  e->reg[i] = load ? k_if_value(k, &mine, lane, zero) : lane;
}

/* Instruction i at the lane's points. Stores, and loads of what is stored to, are only for whose it is. */
static void emit_at_points(emitter *e, const row *r, int i) {
  const instr *in = &r->part->code.code[i];
  bool load = in->op == REGION_LOAD;
  four_kind kind = r->shape.four ? four_of(e, r->part, in) : FOUR_APART;
  bool vector = kind == FOUR_NEXT;
  bool guarded = in->op == REGION_STORE || in->op == REGION_REQUIRE ||
                 (load && is_overwritten(e, r->part, in));
  val before[REGION_AXES];
  memcpy(before, e->axis, sizeof before);
  for (int u = 0; u < r->shape.unroll; u += vector ? 4 : 1) {
    memcpy(e->axis, r->point[u].axis, sizeof e->axis);
    e->reg = e->regs[u];
    if (load && kind == FOUR_SAME && u % 4 > 0)
      e->reg[i] = e->regs[u - 1][i];
    else if (!vector)
      emit_at_point(e, r, i, u, guarded);
    else if (load)
      load_points(e, r, i, u, guarded);
    else
      store_points(e, r, i, u);
  }
  memcpy(e->axis, before, sizeof before);
  e->reg = e->regs[0];
}

/* The lane's first point, of those from `from` on. */
static val first_point(emitter *e, const row *r, val from) {
  val lane = r->shape.four ? k_shl(e->k, r->threads.lane, 2) : r->threads.lane;
  return from ? k_add(e->k, from, lane) : lane;
}

void row_keep(emitter *e, row *r) {
  kernel *k = e->k;
  const loop_part *p = r->part;
  val size = k_sizes(k, p->n_axes - p->n_outer, p->extent + p->n_outer);
  place_points(e, r, first_point(e, r, 0), size, points_least(e, p));
  e->code = p->code.code;
  for (int i = 0; i < p->code.n; i++) {
    r->loaded[i] = is_ready(e, p, i);
    int same = r->loaded[i] ? same_load(e, p, i) : i;
    if (r->loaded[i] && same == i)
      emit_at_points(e, r, i);
    for (int u = 0; u < r->shape.unroll && same != i; u++)
      e->regs[u][i] = e->regs[u][same];
  }
}

/* --- phases --- */

/* Row registers are the same at all points. */
static void spread(emitter *e, const row *r, int phase) {
  for (int i = 0; i < r->part->code.n; i++) {
    const instr *in = &r->part->code.code[i];
    bool known = in->row ? in->phase <= phase : in->op == REGION_REDUCE && in->phase < phase;
    for (int u = 1; u < r->shape.unroll && known; u++)
      e->regs[u][i] = e->regs[0][i];
  }
}

static void emit_phase(emitter *e, const row *r, int phase) {
  const region *code = &r->part->code;
  for (int i = 0; i < code->n; i++) {
    const instr *in = &code->code[i];
    if (in->row || in->phase != phase || in->op == REGION_REDUCE || r->loaded[i])
      continue;
    for (int u = 0; u < r->shape.unroll && r->quiet && in->op == REGION_STORE; u++)
      e->regs[u][i] = e->regs[u][in->a];
    if (!r->quiet || in->op != REGION_STORE)
      emit_at_points(e, r, i);
  }
}

/* The lane's points of a reduction, made one. */
static val reduce_points(emitter *e, const row *r, const instr *in) {
  reduce_kind kind = (reduce_kind)in->code;
  sn_dtype dtype = (sn_dtype)in->dtype;
  val neutral = emit_neutral(e, kind, dtype), all = 0;
  for (int u = 0; u < r->shape.unroll; u++) {
    val x = e->regs[u][in->a];
    if (r->point[u].exists)
      x = k_select(e->k, r->point[u].exists, x, neutral);
    all = all ? emit_combined(e, kind, dtype, all, x) : x;
  }
  return all;
}

/* All of the lane's points, some at once; what reductions have of them so far is in variables. */
static void loop_points(emitter *e, row *r, int phase, const val *sums) {
  kernel *k = e->k;
  const region *code = &r->part->code;
  val first = first_point(e, r, r->from);
  k_loop l = k_loop_begin(k, first, r->to, k_index(k, (int64_t)r->threads.lanes * r->shape.unroll));
  place_points(e, r, l.i, r->to, 0);
  for (int u = 0; u < r->shape.unroll; u++) { /* no first one, no turn; nor where the row is none */
    if (u < (r->shape.four ? 4 : 1))
      r->point[u].exists = 0;
    r->point[u].mine = r->point[u].exists;
  }
  emit_phase(e, r, phase);
  for (int i = 0; i < code->n; i++)
    if (row_reduces(r, i, phase)) {
      const instr *in = &code->code[i];
      val mine = reduce_points(e, r, in), so_far = k_get(k, sums[i]);
      k_set(k, sums[i], emit_combined(e, (reduce_kind)in->code, (sn_dtype)in->dtype, so_far, mine));
    }
  k_loop_end(k, &l);
}

void row_points(emitter *e, row *r, int phase) {
  kernel *k = e->k;
  const region *code = &r->part->code;
  val *sums = r->sum;
  spread(e, r, phase);
  for (int i = 0; i < code->n && !r->shape.kept; i++)
    if (row_reduces(r, i, phase)) {
      const instr *in = &code->code[i];
      sums[i] = k_var(k, emit_neutral(e, (reduce_kind)in->code, (sn_dtype)in->dtype));
    }
  if (r->shape.kept)
    emit_phase(e, r, phase);
  else
    loop_points(e, r, phase, sums);
  for (int i = 0; i < code->n; i++)
    if (row_reduces(r, i, phase)) {
      const instr *in = &code->code[i];
      val mine = r->shape.kept ? reduce_points(e, r, in) : k_get(k, sums[i]);
      e->regs[0][i] =
          emit_reduce_lanes(e, &r->threads, (reduce_kind)in->code, (sn_dtype)in->dtype, mine);
    }
}
