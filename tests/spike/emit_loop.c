/* Loop parts. Without rows a thread takes every n-th point. With rows a workgroup takes a row at a time: row instructions
 * are computed by all its threads alike, points are shared out, and a reduction ends in a tree in shared memory. See
 * emit.h. */
#include "spike/emitter.h"

void emit_barrier(emitter *e) {
  spirv_id workgroup = spirv_u32(&e->s, 2), order = spirv_u32(&e->s, 0x108);
  spirv_do(&e->s, SPV_ControlBarrier, SPV_ARGS(workgroup, workgroup, order));
}

static shader emit_points(const loop_part *p, const emit_env *env) {
  emitter *e = emit_start(env);
  threads t = emit_main_begin(e, 0, 0);
  spirv_id size = emit_index_number(e, EMIT_THREADS);
  spirv_id first = emit_index_op(e, SPV_IAdd, emit_index_op(e, SPV_IMul, t.group, size), t.local);
  spirv_id stride = emit_index_op(e, SPV_IMul, t.groups, size);
  spirv_loop points =
      spirv_loop_begin(&e->s, e->index, first, emit_extent(e, p->n_axes, p->extent), stride);
  emit_coordinates(e, points.index, 0, p->n_axes, p->extent);
  emit_region(e, &p->code);
  spirv_loop_end(&e->s, &points);
  return emit_main_end(e);
}

/* --- rows --- */

typedef struct row {
  const loop_part *part;
  threads where;
  spirv_id shared;          /* u32 [EMIT_THREADS] */
  spirv_id sum[REGION_MAX]; /* by instruction: a thread's part of a reduction */
} row;

static spirv_id to_bits(emitter *e, sn_dtype dtype, spirv_id x) {
  spirv *s = &e->s;
  if (dtype == SN_BOOL)
    return spirv_op(s, SPV_Select, s->u32, SPV_ARGS(x, spirv_u32(s, 1), spirv_u32(s, 0)));
  return spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(x));
}

static spirv_id from_bits(emitter *e, sn_dtype dtype, spirv_id x) {
  spirv *s = &e->s;
  if (dtype == SN_BOOL)
    return spirv_op(s, SPV_INotEqual, s->boolean, SPV_ARGS(x, spirv_u32(s, 0)));
  return spirv_op(s, SPV_Bitcast, emit_lane_type(e, dtype), SPV_ARGS(x));
}

static spirv_id shared_at(emitter *e, const row *r, spirv_id index) {
  spirv_id pointer = spirv_pointer(&e->s, SPV_Workgroup, e->s.u32);
  return spirv_op(&e->s, SPV_AccessChain, pointer, SPV_ARGS(r->shared, index));
}

static spirv_id shared_load(emitter *e, const row *r, sn_dtype dtype, spirv_id index) {
  spirv_id bits = spirv_op(&e->s, SPV_Load, e->s.u32, SPV_ARGS(shared_at(e, r, index)));
  return from_bits(e, dtype, bits);
}

static void shared_store(emitter *e, const row *r, sn_dtype dtype, spirv_id index, spirv_id x) {
  spirv_id bits = to_bits(e, dtype, x);
  spirv_do(&e->s, SPV_Store, SPV_ARGS(shared_at(e, r, index), bits));
}

/* The threads' parts of one reduction, combined in a tree; every thread gets the result. */
static spirv_id combine_threads(emitter *e, const row *r, const instr *i, spirv_id mine) {
  spirv *s = &e->s;
  sn_dtype dtype = (sn_dtype)i->dtype;
  spirv_id local = r->where.local;
  shared_store(e, r, dtype, local, mine);
  emit_barrier(e);
  for (int half = EMIT_THREADS / 2; half > 0; half /= 2) {
    spirv_id limit = emit_index_number(e, half);
    spirv_if active =
        spirv_if_begin(s, spirv_op(s, SPV_SLessThan, s->boolean, SPV_ARGS(local, limit)));
    spirv_id a = shared_load(e, r, dtype, local);
    spirv_id b = shared_load(e, r, dtype, emit_index_op(e, SPV_IAdd, local, limit));
    shared_store(e, r, dtype, local, emit_combined(e, (reduce_kind)i->code, dtype, a, b));
    spirv_if_end(s, &active);
    emit_barrier(e);
  }
  spirv_id all = shared_load(e, r, dtype, emit_index_number(e, 0));
  emit_barrier(e);
  return all;
}

/* Row instructions of a phase. Stores happen once, so one thread does them. */
static void emit_row_phase(emitter *e, const row *r, int phase) {
  spirv *s = &e->s;
  const region *code = &r->part->code;
  for (int k = 0; k < code->n; k++) {
    const instr *i = &code->code[k];
    if (!i->row || i->phase != phase)
      continue;
    if (i->op != REGION_STORE) {
      e->reg[k] = emit_instr(e, i);
      continue;
    }
    spirv_id zero = emit_index_number(e, 0);
    spirv_if one =
        spirv_if_begin(s, spirv_op(s, SPV_IEqual, s->boolean, SPV_ARGS(r->where.local, zero)));
    e->reg[k] = emit_instr(e, i);
    spirv_if_end(s, &one);
  }
}

static void reduce_point(emitter *e, const row *r, int k) {
  spirv *s = &e->s;
  const instr *i = &r->part->code.code[k];
  spirv_id type = emit_lane_type(e, (sn_dtype)i->dtype);
  spirv_id so_far = spirv_op(s, SPV_Load, type, SPV_ARGS(r->sum[k]));
  spirv_id sum = emit_combined(e, (reduce_kind)i->code, (sn_dtype)i->dtype, so_far, e->reg[i->a]);
  spirv_do(s, SPV_Store, SPV_ARGS(r->sum[k], sum));
}

static bool reduces(const row *r, int k, int phase) {
  const instr *i = &r->part->code.code[k];
  return i->op == REGION_REDUCE && i->phase == phase;
}

static void emit_point_phase(emitter *e, row *r, int phase) {
  spirv *s = &e->s;
  const loop_part *p = r->part;
  int n_inner = p->n_axes - p->n_outer;
  for (int k = 0; k < p->code.n; k++)
    if (reduces(r, k, phase)) {
      const instr *i = &p->code.code[k];
      r->sum[k] = spirv_local(s, emit_lane_type(e, (sn_dtype)i->dtype));
      spirv_id neutral = emit_neutral(e, (reduce_kind)i->code, (sn_dtype)i->dtype);
      spirv_do(s, SPV_Store, SPV_ARGS(r->sum[k], neutral));
    }
  spirv_loop points =
      spirv_loop_begin(s, e->index, r->where.local, emit_extent(e, n_inner, p->extent + p->n_outer),
                       emit_index_number(e, EMIT_THREADS));
  emit_coordinates(e, points.index, p->n_outer, n_inner, p->extent);
  for (int k = 0; k < p->code.n; k++)
    if (reduces(r, k, phase))
      reduce_point(e, r, k);
    else if (!p->code.code[k].row && p->code.code[k].phase == phase)
      e->reg[k] = emit_instr(e, &p->code.code[k]);
  spirv_loop_end(s, &points);
  for (int d = 0; d < n_inner; d++) /* unknown to row instructions */
    e->axis[p->n_outer + d] = 0;
  for (int k = 0; k < p->code.n; k++)
    if (reduces(r, k, phase)) {
      spirv_id type = emit_lane_type(e, (sn_dtype)p->code.code[k].dtype);
      spirv_id mine = spirv_op(s, SPV_Load, type, SPV_ARGS(r->sum[k]));
      e->reg[k] = combine_threads(e, r, &p->code.code[k], mine);
    }
}

static shader emit_rows(const loop_part *p, const emit_env *env) {
  emitter *e = emit_start(env);
  spirv *s = &e->s;
  row r = {.part = p};
  spirv_id type = spirv_type(s, SPV_TypeArray, SPV_ARGS(s->u32, spirv_u32(s, EMIT_THREADS)));
  r.shared = spirv_global(s, SPV_Workgroup, type);
  r.where = emit_main_begin(e, r.shared, 0);
  spirv_loop rows = spirv_loop_begin(s, e->index, r.where.group,
                                     emit_extent(e, p->n_outer, p->extent), r.where.groups);
  emit_coordinates(e, rows.index, 0, p->n_outer, p->extent);
  e->code = p->code.code;
  for (int phase = 0; phase <= p->n_phases; phase++) {
    emit_row_phase(e, &r, phase);
    if (phase < p->n_phases)
      emit_point_phase(e, &r, phase);
  }
  spirv_loop_end(s, &rows);
  return emit_main_end(e);
}

shader emit_loop(const loop_part *p, const emit_env *env) {
  bool rows = p->n_outer > 0 || p->n_phases > 1;
  for (int k = 0; k < p->code.n; k++)
    rows = rows || p->code.code[k].op == REGION_REDUCE;
  return rows ? emit_rows(p, env) : emit_points(p, env);
}
