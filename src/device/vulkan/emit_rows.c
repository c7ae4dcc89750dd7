/* Rows: for each, phases of row instructions and of points, which end in reductions. See emit.h.
 *
 * A row is some lanes of one workgroup, so that all of it is one kernel. Where rows are few and long that leaves most of the device
 * idle; then the points of a row are cut into pieces, each phase is a kernel of its own, and what the pieces of a reduction came to
 * goes through scratch memory. Where a row fits into one workgroup, but what follows its reductions is much, several workgroups
 * have the same row: each reduces all of it, and does the last phase for a slice of its lanes. */
#include "device/vulkan/emit_rows.h"

bool row_overwrites(const emitter *e, const instr *load, const instr *store) {
  const program_value *values = e->env.program->values;
  return load->op == REGION_LOAD && store->op == REGION_STORE &&
         (load->at.value == store->at.value ||
          values[store->at.value].in_place_of == load->at.value);
}

/* The same of a load once a row. */
static bool is_overwritten(const emitter *e, const instr *load, const instr *store) {
  return load->row && row_overwrites(e, load, store);
}

/* Whether any of the row's loads is overwritten by this store, or this load by any of its stores. */
static bool overwrites(const emitter *e, const row *r, const instr *in) {
  const region *code = &r->part->code;
  for (int i = 0; i < code->n; i++)
    if (is_overwritten(e, &code->code[i], in) || is_overwritten(e, in, &code->code[i]))
      return true;
  return false;
}

/* Before instructions of a phase that overwrite what all lanes load: every lane must have it. */
static void wait_for_loads(emitter *e, const row *r, int phase, bool of_row) {
  const region *code = &r->part->code;
  for (int i = 0; i < code->n; i++) {
    const instr *in = &code->code[i];
    if (in->row == of_row && in->phase == phase && in->op == REGION_STORE && overwrites(e, r, in)) {
      if (r->threads.lanes > 1)
        k_barrier(e->k);
      return;
    }
  }
}

/* A thread without a row stands at the last one, and must not read what that one's threads overwrite. Wide rows overwrite
 * nothing. */
static void emit_row_instr(emitter *e, const row *r, int i) {
  const instr *in = &r->part->code.code[i];
  if (in->op != REGION_LOAD || !r->active || !overwrites(e, r, in)) {
    row_instr(e, r, i);
    return;
  }
  val zero = emit_number(e, (sn_dtype)in->dtype, 0);
  k_if active = k_if_begin(e->k, r->active);
  val lane = emit_instr(e, in);
  e->reg[i] = k_if_value(e->k, &active, lane, zero);
}

/* Whether this is the first lane of a row. */
static val is_first(emitter *e, const row *r) {
  val first = k_eq(e->k, r->threads.lane, k_index(e->k, 0));
  return r->active ? k_and(e->k, first, r->active) : first;
}

/* Row instructions of a phase. All lanes compute them; stores and requirements happen once, in the kernel of their phase. */
static void emit_row_phase(emitter *e, const row *r, int phase, bool stores) {
  kernel *k = e->k;
  const region *code = &r->part->code;
  bool waited = false;
  for (int i = 0; i < code->n; i++) {
    const instr *in = &code->code[i];
    if (!in->row || in->phase != phase)
      continue;
    if (stores && !waited && in->op == REGION_STORE && overwrites(e, r, in)) {
      wait_for_loads(e, r, phase, true);
      waited = true;
    }
    bool once = in->op == REGION_STORE || in->op == REGION_REQUIRE;
    for (int w = 0; w < r->shape.rows && once && !stores; w++)
      e->regs[w][i] = e->regs[w][in->a];
    if (!once)
      emit_row_instr(e, r, i);
    if (!once || !stores)
      continue;
    val first = is_first(e, r);
    if (r->piece)
      first = k_and(k, first, k_eq(k, r->piece, k_index(k, 0)));
    if (r->share)
      first = k_and(k, first, k_eq(k, r->share, k_index(k, 0)));
    k_if one = k_if_begin(k, first);
    row_instr(e, r, i);
    k_if_end(k, &one);
  }
}

bool row_reduces(const row *r, int i, int phase) {
  const instr *in = &r->part->code.code[i];
  return in->op == REGION_REDUCE && in->phase == phase;
}

int row_reductions(const row *r, int phase, int *from, struct row_reduction *out) {
  int n = 0, rows = r->shape.rows;
  for (; *from < r->part->code.n * rows && n < ROW_REDUCTIONS; ++*from) {
    const instr *in = &r->part->code.code[*from / rows];
    if (row_reduces(r, *from / rows, phase))
      out[n++] = (struct row_reduction){*from / rows, *from % rows, (reduce_kind)in->code,
                                        (sn_dtype)in->dtype};
  }
  return n;
}

static bool has_points(const row *r, int phase) {
  for (int i = 0; i < r->part->code.n; i++)
    if (!r->part->code.code[i].row && r->part->code.code[i].phase == phase)
      return true;
  return false;
}

static void emit_point_phase(emitter *e, row *r, int phase) {
  if (!has_points(r, phase))
    return;
  wait_for_loads(e, r, phase, false);
  if (r->one_by_one && phase == r->part->n_phases - 1)
    row_points_one_by_one(e, r, phase);
  else
    row_points(e, r, phase);
}

/* --- pieces --- */

/* In scratch memory a bool is a word. */
static sn_dtype kept_as(sn_dtype dtype) {
  return dtype == SN_BOOL || dtype == SN_U8 ? SN_I32 : dtype_is_float(dtype) ? SN_F32 : dtype;
}

/* Rows that are next to each other are so here, where their threads are. */
static val kept_at(emitter *e, const row *r, int w, val piece) {
  kernel *k = e->k;
  const loop_part *p = r->part;
  val number = w ? k_add(k, r->number, k_index(k, w)) : r->number;
  if (r->threads.columns)
    return k_add(k, k_mul(k, piece, k_sizes(k, p->n_outer, p->extent)), number);
  return k_add(k, k_mul(k, number, k_size_of(k, &r->pieces)), piece);
}

static void keep_pieces(emitter *e, const row *r, int phase) {
  kernel *k = e->k;
  k_if one = k_if_begin(k, is_first(e, r));
  for (int i = 0; i < r->part->code.n; i++)
    for (int w = 0; w < r->shape.rows && row_reduces(r, i, phase); w++) {
      sn_dtype dtype = (sn_dtype)r->part->code.code[i].dtype;
      val lane = emit_cast(e, e->regs[w][i], dtype, kept_as(dtype));
      emit_store_lane(e, kept_as(dtype), k_scratch(k, r->scratch[i]), kept_at(e, r, w, r->piece),
                      lane);
    }
  k_if_end(k, &one);
}

/* Reductions of an earlier kernel: their pieces, shared out to the lanes. */
static void take_some(emitter *e, row *r, int n, const struct row_reduction *of) {
  kernel *k = e->k;
  lanes_value values[ROW_REDUCTIONS];
  for (int i = 0; i < n; i++)
    values[i].mine = k_var(k, emit_neutral(e, of[i].kind, of[i].dtype));
  k_loop l =
      k_loop_begin(k, r->threads.lane, k_size_of(k, &r->pieces), k_index(k, r->threads.lanes));
  for (int i = 0; i < n; i++) {
    sn_dtype as = kept_as(of[i].dtype);
    val at = k_scratch(k, r->scratch[of[i].instr]), so_far = k_get(k, values[i].mine);
    val kept =
        emit_cast(e, emit_load_lane(e, as, at, kept_at(e, r, of[i].row, l.i)), as, of[i].dtype);
    k_set(k, values[i].mine, emit_combined(e, of[i].kind, of[i].dtype, so_far, kept));
  }
  k_loop_end(k, &l);
  for (int i = 0; i < n; i++)
    values[i] = (lanes_value){of[i].kind, of[i].dtype, k_get(k, values[i].mine)};
  emit_reduce_values(e, &r->threads, n, values);
  for (int i = 0; i < n; i++)
    e->regs[of[i].row][of[i].instr] = values[i].mine;
}

static void take_pieces(emitter *e, row *r, int phase, bool by_first) {
  struct row_reduction some[ROW_REDUCTIONS];
  r->threads.by_first = by_first;
  for (int from = 0, n; (n = row_reductions(r, phase, &from, some)) > 0;)
    take_some(e, r, n, some);
}

/* --- kernels --- */

/* Which row is this thread's, and where its points end. */
static void place_numbers(emitter *e, row *r, val group, val points) {
  kernel *k = e->k;
  const loop_part *p = r->part;
  int wide = r->shape.rows;
  r->active = 0;
  r->to = points;
  r->number = wide > 1 ? k_mul(k, group, k_index(k, wide)) : group;
  if (r->threads.rows == 1)
    return;
  val n = k_sizes(k, p->n_outer, p->extent);
  val number = k_mul(k, group, k_index(k, r->threads.rows));
  number = k_add(k, number, r->threads.row);
  if (wide > 1)
    number = k_mul(k, number, k_index(k, wide));
  r->active = k_lt(k, number, n);
  r->to = k_select(k, r->active, points, k_index(k, 0));
  r->number = k_min(k, number, k_sub(k, n, k_index(k, wide)));
}

/* Coordinates of the rows; wide ones end where the last axis does. */
static void place_axes(emitter *e, row *r) {
  const loop_part *p = r->part;
  memset(e->axis, 0, sizeof e->axis);
  emit_coordinates(e, r->number, 0, p->n_outer, p->extent);
  for (int w = 0; w < r->shape.rows; w++) {
    memcpy(r->axis[w], e->axis, sizeof e->axis);
    if (w > 0)
      r->axis[w][p->n_outer - 1] = k_add(e->k, e->axis[p->n_outer - 1], k_index(e->k, w));
  }
  e->code = p->code.code;
}

/* Which row and which of its points are this thread's. */
static void place_row(emitter *e, row *r, bool columns, int lanes, bool in_pieces) {
  kernel *k = e->k;
  const loop_part *p = r->part;
  r->threads = emit_row_threads(e, lanes, columns);
  for (int i = 0; i < p->code.n; i++)
    r->threads.own += r->shape.rows * (p->code.code[i].op == REGION_REDUCE);
  val group = k->group;
  val points = k_sizes(k, p->n_axes - p->n_outer, p->extent + p->n_outer), zero = k_index(k, 0);
  r->piece = r->share = 0;
  r->from = zero;
  if (in_pieces) {
    const amount pieces = {1, 1, &r->pieces};
    group = k_divide(k, group, &pieces, &r->piece);
    val up = k_sub(k, k_add(k, points, k_size_of(k, &r->pieces)), k_index(k, 1));
    val each = k_divide(k, up, &pieces, NULL);
    each = k_shl(k, k_shr(k, k_add(k, each, k_index(k, 3)), 2), 2); /* in fours */
    r->from = k_mul(k, r->piece, each);
    points = k_min(k, k_add(k, r->from, each), points);
  }
  if (r->sliced) {
    k->ones = true;
    group = k_divide(k, group, &(amount){1, 1, &r->slices}, &r->piece);
    if (r->one_by_one)
      group = k_divide(k, group, &(amount){1, 1, &r->shares}, &r->share);
    k->ones = false;
  }
  place_numbers(e, r, group, points);
  place_axes(e, r);
}

/* The last phase of a sliced row: for some of its lanes in each of its workgroups. */
static void emit_slice(emitter *e, row *r, int phase) {
  kernel *k = e->k;
  int shift = __builtin_ctz((unsigned)r->threads.lanes);
  k->ones = true;
  val slice = k_mul(k, r->threads.lane, k_size_of(k, &r->slices));
  k->ones = false;
  k_if mine = k_if_begin(k, k_eq(k, k_shr(k, slice, shift), r->piece));
  emit_point_phase(e, r, phase);
  k_if_end(k, &mine);
}

static sn_status emit_whole_rows(emitter *e, row *r, int threads, int lanes, bool columns) {
  const loop_part *p = r->part;
  kernel *k = emit_open(e, threads);
  if (!k)
    return SN_ERR_NO_MEMORY;
  place_row(e, r, columns, lanes, false);
  if (r->shape.kept)
    row_keep(e, r);
  for (int phase = 0; phase <= p->n_phases; phase++) {
    emit_row_phase(e, r, phase, true);
    if (phase == p->n_phases - 1 && r->sliced)
      emit_slice(e, r, phase);
    else if (phase < p->n_phases)
      emit_point_phase(e, r, phase);
  }
  amount grid[3] = {{p->n_outer, r->threads.rows * r->shape.rows, p->extent},
                    {1, 1, &r->slices},
                    {1, 1, &r->shares}};
  kernel_grid(k, !r->sliced ? 1 : r->one_by_one ? 3 : 2, grid);
  return emit_launch(e, false);
}

void row_compute(emitter *e, row *r, val number) {
  const loop_part *p = r->part;
  r->number = number;
  place_axes(e, r);
  row_keep(e, r);
  for (int phase = 0; phase < p->n_phases; phase++) {
    emit_row_phase(e, r, phase, false);
    row_points(e, r, phase);
  }
}

/* The kernel of one phase; behind the last, that of the row instructions that are left. */
static sn_status emit_phase(emitter *e, row *r, int phase, int threads, int lanes, bool columns) {
  const loop_part *p = r->part;
  bool points = phase < p->n_phases;
  kernel *k = emit_open(e, threads);
  if (!k)
    return SN_ERR_NO_MEMORY;
  place_row(e, r, columns, lanes, points);
  for (int before = 0; before < phase; before++) {
    emit_row_phase(e, r, before, false);
    take_pieces(e, r, before, !points);
  }
  emit_row_phase(e, r, phase, true);
  if (points) {
    emit_point_phase(e, r, phase);
    keep_pieces(e, r, phase);
  }
  amount grid[2] = {{p->n_outer, r->threads.rows * r->shape.rows, p->extent}, {1, 1, &r->pieces}};
  kernel_grid(k, points ? 2 : 1, grid);
  return emit_launch(e, phase > 0);
}

/* As many lanes as there are pieces, of a few columns. */
static void few_lanes(const row *r, int *threads, int *lanes) {
  int columns = *threads / *lanes;
  columns = columns < 4 ? columns : 4;
  for (*lanes = 64 / columns; *lanes < r->pieces && *lanes * columns * 2 <= *threads;)
    *lanes *= 2;
  *threads = *lanes * columns;
}

static sn_status emit_in_pieces(emitter *e, row *r, int threads, int lanes, bool columns) {
  const loop_part *p = r->part;
  int64_t rows = sizes_most(&e->env, p->n_outer, p->extent);
  for (int i = 0; i < p->code.n; i++)
    if (p->code.code[i].op == REGION_REDUCE)
      r->scratch[i] = scratch_take(&e->env, rows * r->pieces * 4);
  for (int phase = 0; phase <= p->n_phases; phase++) {
    bool any = false;
    for (int i = 0; i < p->code.n; i++)
      any = any || (p->code.code[i].phase == phase && (phase < p->n_phases || p->code.code[i].row));
    if (any && phase == p->n_phases && columns) /* pieces are its points */
      few_lanes(r, &threads, &lanes);
    if (any)
      SN_TRY(emit_phase(e, r, phase, threads, lanes, columns));
  }
  return SN_OK;
}

sn_status emit_rows(emitter *e, const loop_part *p) {
  row *r = mem_alloc(e->env.ctx, sizeof *r);
  if (!r)
    return SN_ERR_NO_MEMORY;
  row_deal d = row_deal_of(e, p);
  r->part = p;
  r->pieces = d.pieces;
  r->slices = d.slices;
  r->sliced = d.sliced;
  r->shares = d.shares;
  r->one_by_one = d.fours > 0;
  r->some = d.some;
  r->shape = d.fours > 0  ? row_fours_shape(d.fours)
             : d.some     ? row_fours_shape(1)
             : d.wide > 1 ? row_wide_shape(e, p, d.lanes, d.pieces)
                          : row_shape_of(e, p, d.lanes, d.columns);
  r->shape.kept = r->shape.kept && r->pieces == 1;
  r->moments = row_has_moments(e, p, &r->shape, d.lanes);
  sn_status status = r->pieces > 1 ? emit_in_pieces(e, r, d.threads, d.lanes, d.columns)
                                   : emit_whole_rows(e, r, d.threads, d.lanes, d.columns);
  mem_free(e->env.ctx, r, sizeof *r);
  return status;
}
