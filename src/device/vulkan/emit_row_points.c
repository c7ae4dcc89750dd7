/* The points of a row. See emit_rows.h.
 *
 * Rows are all latency: what a lane loads, one load behind the other, and what lanes wait for each other. So a lane has several
 * points at once, instruction by instruction, and loads overlap. Where the row is short these are all that it has: they
 * stay in registers from phase to phase, and what any phase will load is asked for before the first reduction, so that the
 * weights of a norm come while the row is summed, and the row is not read twice. */
#include "device/vulkan/emit_rows.h"

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

/* The lane's point u from `first` on, of those below `end`; past it it is the last one. Of wide rows each has it. */
static void place_point(emitter *e, row *r, int u, val first, val end, bool whole) {
  kernel *k = e->k;
  struct row_point *at = &r->point[r->first + u];
  int rows = r->shape.rows, wide = r->shape.four ? 4 : 1;
  int64_t before = (int64_t)(u / rows) * r->threads.lanes;
  if (u % rows > 0) {
    *at = at[-1];
  } else if (u % wide > 0) {
    at->exists = at[-1].exists;
    at->flat = k_add(k, at[-1].flat, k_index(k, 1));
  } else {
    val i = u ? k_add(k, first, k_index(k, before)) : first;
    at->exists = whole ? 0 : k_lt(k, i, end);
    at->flat = whole ? i : k_min(k, i, k_sub(k, end, k_index(k, wide)));
  }
  at->mine = r->active && at->exists ? k_and(k, r->active, at->exists)
             : r->active             ? r->active
                                     : at->exists;
}

/* The lane's points, and their coordinates. Whole: all of them exist. */
static void place_points(emitter *e, row *r, val first, val end, bool whole) {
  const loop_part *p = r->part;
  int n_inner = p->n_axes - p->n_outer, rows = r->shape.rows;
  for (int u = 0; u < r->shape.unroll; u++) {
    struct row_point *at = &r->point[r->first + u];
    place_point(e, r, u, first, end, whole);
    if (u % rows > 0) {
      at->axis[p->n_outer - 1] = r->axis[u % rows][p->n_outer - 1];
      continue;
    }
    if (r->shape.four && u % 4 > 0 && p->extent[p->n_axes - 1] % 4 == 0) {
      memcpy(at->axis, at[-1].axis, sizeof at->axis); /* fours end where the last axis does */
      at->axis[p->n_axes - 1] = k_add(e->k, at->axis[p->n_axes - 1], k_index(e->k, 1));
      continue;
    }
    memcpy(e->axis, r->axis[0], sizeof e->axis);
    if (!whole || first != k_index(e->k, 0) || !number_coordinates(e, p, u / rows))
      emit_coordinates(e, at->flat, p->n_outer, n_inner, p->extent);
    memcpy(at->axis, e->axis, sizeof e->axis);
  }
  row_stand(e, r, 0); /* points are unknown to row instructions */
}

void row_stand(emitter *e, const row *r, int w) {
  memcpy(e->axis, r->axis[w], sizeof e->axis);
  e->reg = e->regs[w];
}

void row_instr(emitter *e, const row *r, int i) {
  const instr *in = &r->part->code.code[i];
  four_axes outer = row_outer_axes(r->part);
  four_kind kind = r->shape.rows > 1 ? emit_four_kind(e, &r->part->code, i, &outer) : FOUR_APART;
  val vector = kind == FOUR_NEXT && in->op == REGION_LOAD ? emit_load_four(e, in) : 0;
  if (kind == FOUR_NEXT && in->op == REGION_STORE) {
    emit_store_four(e, in, i, 0);
    return;
  }
  for (int w = 0; w < r->shape.rows; w++) {
    row_stand(e, r, w);
    e->reg[i] = vector ? k_part(e->k, vector, w) : emit_instr(e, in);
  }
  row_stand(e, r, 0);
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
  four_axes axes = r->shape.rows > 1 ? row_outer_axes(r->part) : row_inner_axes(r->part);
  bool fours = r->shape.four || r->shape.rows > 1;
  four_kind kind = fours ? emit_four_kind(e, &r->part->code, i, &axes) : FOUR_APART;
  bool vector = kind == FOUR_NEXT;
  bool guarded = in->op == REGION_STORE || in->op == REGION_REQUIRE ||
                 (load && row_is_overwritten(e, r->part, in));
  val before[REGION_AXES];
  memcpy(before, e->axis, sizeof before);
  for (int u = r->first; u < r->first + r->shape.unroll; u += vector ? 4 : 1) {
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

/* --- fours that go one by one --- */

/* Whether instruction i loads what the last phase alone reads, of the four of now. */
static bool is_of_four(const emitter *e, const row *r, int i) {
  const loop_part *p = r->part;
  return r->one_by_one && r->loaded[i] && p->code.code[i].phase == p->n_phases - 1 &&
         p->code.code[row_same_load(e, p, i)].phase == p->n_phases - 1;
}

/* Between these the four of now are the points. */
static int begin_four(row *r) {
  int kept = r->shape.unroll;
  r->first = kept;
  r->shape.unroll = 4;
  return kept;
}

static void end_four(row *r, int kept) {
  r->first = 0;
  r->shape.unroll = kept;
}

/* What is of four `number` of the lane's alone; to registers behind those that are kept. */
static void load_four(emitter *e, row *r, val number) {
  kernel *k = e->k;
  int kept = begin_four(r);
  val before = k_mul(k, number, k_index(k, (int64_t)r->threads.lanes * 4));
  place_points(e, r, first_point(e, r, before), 0, true);
  for (int i = 0; i < r->part->code.n; i++) {
    int same = is_of_four(e, r, i) ? row_same_load(e, r->part, i) : i;
    if (is_of_four(e, r, i) && same == i)
      emit_at_points(e, r, i);
    for (int u = kept; u < kept + 4 && same != i; u++)
      e->regs[u][i] = e->regs[u][same];
  }
  end_four(r, kept);
}

void row_keep(emitter *e, row *r) {
  kernel *k = e->k;
  const loop_part *p = r->part;
  val size = k_sizes(k, p->n_axes - p->n_outer, p->extent + p->n_outer);
  int64_t points = sizes_most(&e->env, p->n_axes - p->n_outer, p->extent + p->n_outer);
  int64_t places = (int64_t)r->threads.lanes * (r->shape.unroll / r->shape.rows);
  bool all = r->threads.lanes == 1 || (places == points && !r->some);
  bool whole = all && places <= row_points_least(e, p);
  place_points(e, r, first_point(e, r, 0), size, whole);
  e->code = p->code.code;
  for (int i = 0; i < p->code.n; i++) {
    r->loaded[i] = row_is_ready(e, p, i);
    int same = r->loaded[i] ? row_same_load(e, p, i) : i;
    if (r->loaded[i] && same == i && !is_of_four(e, r, i))
      emit_at_points(e, r, i);
    for (int u = 0; u < r->shape.unroll && same != i; u++)
      e->regs[u][i] = e->regs[u][same];
  }
  if (r->one_by_one)
    load_four(e, r, r->share ? r->share : k_index(k, 0));
}

/* --- phases --- */

/* Row registers are the same at all points. */
static void spread(emitter *e, const row *r, int phase) {
  for (int i = 0; i < r->part->code.n; i++) {
    const instr *in = &r->part->code.code[i];
    bool known = in->row ? in->phase <= phase : in->op == REGION_REDUCE && in->phase < phase;
    for (int u = 0; u < r->shape.unroll && known; u++)
      e->regs[r->first + u][i] = e->regs[u % r->shape.rows][i];
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

/* The lane's points of a reduction, made one for row w. */
static val reduce_points(emitter *e, const row *r, const instr *in, int w) {
  reduce_kind kind = (reduce_kind)in->code;
  sn_dtype dtype = (sn_dtype)in->dtype;
  val neutral = emit_neutral(e, kind, dtype), all = 0;
  for (int u = w; u < r->shape.unroll; u += r->shape.rows) {
    val x = e->regs[u][in->a];
    if (r->point[u].exists)
      x = k_select(e->k, r->point[u].exists, x, neutral);
    all = all ? emit_combined(e, kind, dtype, all, x) : x;
  }
  return all;
}

/* The same, put to what the lane had before. */
static void add_points(emitter *e, row *r, int i, int w) {
  kernel *k = e->k;
  const instr *in = &r->part->code.code[i];
  val mine = reduce_points(e, r, in, w), so_far = k_get(k, r->sum[w][i]);
  k_set(k, r->sum[w][i],
        emit_combined(e, (reduce_kind)in->code, (sn_dtype)in->dtype, so_far, mine));
}

/* All of the lane's points, some at once; what reductions have of them so far is in variables. */
static void loop_points(emitter *e, row *r, int phase) {
  kernel *k = e->k;
  int at_once = r->shape.unroll / r->shape.rows;
  val first = first_point(e, r, r->from);
  k_loop l = k_loop_begin(k, first, r->to, k_index(k, (int64_t)r->threads.lanes * at_once));
  place_points(e, r, l.i, r->to, false);
  for (int u = 0; u < r->shape.unroll; u++) { /* no first one, no turn; nor where the row is none */
    if (u < (r->shape.four ? 4 : r->shape.rows))
      r->point[u].exists = 0;
    r->point[u].mine = r->point[u].exists;
  }
  emit_phase(e, r, phase);
  for (int i = 0; i < r->part->code.n; i++)
    for (int w = 0; w < r->shape.rows && row_reduces(r, i, phase); w++)
      add_points(e, r, i, w);
  k_loop_end(k, &l);
}

/* What lanes have of the phase's reductions becomes the row's, some at once. */
static void reduce_rows(emitter *e, row *r, int phase) {
  struct row_reduction some[ROW_REDUCTIONS];
  lanes_value values[ROW_REDUCTIONS];
  r->threads.by_first = phase == r->part->n_phases - 1; /* no points behind it */
  if (r->moments && phase < 2) {
    row_reduce_moments(e, r, phase);
    return;
  }
  for (int from = 0, n; (n = row_reductions(r, phase, &from, some)) > 0;) {
    for (int i = 0; i < n; i++) {
      const instr *in = &r->part->code.code[some[i].instr];
      int w = some[i].row;
      val mine = r->shape.kept ? reduce_points(e, r, in, w) : k_get(e->k, r->sum[w][some[i].instr]);
      values[i] = (lanes_value){some[i].kind, some[i].dtype, mine};
    }
    emit_reduce_values(e, &r->threads, n, values);
    for (int i = 0; i < n; i++)
      e->regs[some[i].row][some[i].instr] = values[i].mine;
  }
}

void row_points(emitter *e, row *r, int phase) {
  const region *code = &r->part->code;
  spread(e, r, phase);
  for (int i = 0; i < code->n && !r->shape.kept; i++)
    for (int w = 0; w < r->shape.rows && row_reduces(r, i, phase); w++) {
      const instr *in = &code->code[i];
      r->sum[w][i] = k_var(e->k, emit_neutral(e, (reduce_kind)in->code, (sn_dtype)in->dtype));
    }
  if (r->shape.kept)
    emit_phase(e, r, phase);
  else
    loop_points(e, r, phase);
  reduce_rows(e, r, phase);
}

/* What the four of now has loaded: of those that are kept by its number, and what is its alone. That of the workgroup's first was
 * asked for before the reductions, that of others is now. */
static void take_four(emitter *e, row *r, int phase, val number, val first) {
  kernel *k = e->k;
  int n = r->part->code.n, kept = r->shape.unroll;
  val ahead[REGION_MAX][4] = {{0}};
  for (int i = 0; i < n; i++)
    for (int j = 0; j < 4 && is_of_four(e, r, i); j++)
      ahead[i][j] = k_var(k, e->regs[kept + j][i]);
  k_if other = k_if_begin(k, k_ne(k, number, first));
  load_four(e, r, number);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < 4 && is_of_four(e, r, i); j++)
      k_set(k, ahead[i][j], e->regs[kept + j][i]);
  k_if_end(k, &other);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < 4 && r->loaded[i] && r->part->code.code[i].phase == phase; j++) {
      val x = e->regs[j][i];
      for (int u = 4; u < kept && !is_of_four(e, r, i); u += 4)
        x = k_select(k, k_eq(k, number, k_index(k, u / 4)), e->regs[u + j][i], x);
      e->regs[kept + j][i] = is_of_four(e, r, i) ? k_get(k, ahead[i][j]) : x;
    }
}

void row_points_one_by_one(emitter *e, row *r, int phase) {
  kernel *k = e->k;
  val first = r->share ? r->share : k_index(k, 0), by = k_index(k, 1);
  if (r->share) {
    k->ones = true;
    by = k_size_of(k, &r->shares);
    k->ones = false;
  }
  k_loop l = k_loop_begin(k, first, k_index(k, r->shape.unroll / 4), by);
  take_four(e, r, phase, l.i, first);
  int kept = begin_four(r);
  val before = k_mul(k, l.i, k_index(k, (int64_t)r->threads.lanes * 4));
  place_points(e, r, first_point(e, r, before), 0, true);
  spread(e, r, phase);
  emit_phase(e, r, phase);
  end_four(r, kept);
  k_loop_end(k, &l);
}
