/* Sizes, coordinates and elements of values. See emitter.h. */
#include "spike/emitter.h"

/* The pointer to byte `offset` (u64) behind an address. */
static spirv_id pointer_to(emitter *e, spirv_id address, spirv_id offset, spirv_id type) {
  spirv *s = &e->s;
  spirv_id at = spirv_op(s, SPV_IAdd, s->u64, SPV_ARGS(address, offset));
  return spirv_op(s, SPV_ConvertUToPtr, spirv_pointer(s, SPV_PhysicalBuffer, type), SPV_ARGS(at));
}

enum { ALIGNED = 2 };

spirv_id emit_parameter(emitter *e, uint32_t i) {
  spirv *s = &e->s;
  for (int k = 0; k < e->n_loaded; k++)
    if (e->loaded[k].word == i)
      return e->loaded[k].id;
  if (e->n_loaded == 256) {
    e->why = "too many sizes and values";
    return e->loaded[0].id;
  }
  spirv_section now = s->now;
  s->now = SPV_PROLOGUE;
  spirv_id offset = spirv_constant(s, SPV_Constant, s->u64, SPV_ARGS(8 * i, 0));
  spirv_id at = pointer_to(e, e->parameters, offset, s->u64);
  spirv_id id = spirv_op(s, SPV_Load, s->u64, SPV_ARGS(at, ALIGNED, 8));
  s->now = now;
  e->loaded[e->n_loaded].word = i;
  e->loaded[e->n_loaded++].id = id;
  return id;
}

spirv_id emit_index_number(emitter *e, int64_t n) {
  return e->env->wide ? spirv_i64(&e->s, n) : spirv_i32(&e->s, (int32_t)n);
}

/* A 64-bit number as an index; 32 bits of it where indices have those. */
static spirv_id narrow(emitter *e, spirv_id wide) {
  spirv *s = &e->s;
  return e->env->wide ? spirv_op(s, SPV_Bitcast, s->i64, SPV_ARGS(wide))
                      : spirv_op(s, SPV_SConvert, s->i32, SPV_ARGS(wide));
}

spirv_id emit_size(emitter *e, sn_dim d) {
  if (dim_is_number(d))
    return emit_index_number(e, d);
  return narrow(e, emit_parameter(e, 1 + e->env->n_values + (uint32_t)(DIM_HANDLES - d)));
}

spirv_id emit_index_op(emitter *e, int op, spirv_id a, spirv_id b) {
  return spirv_op(&e->s, op, e->index, SPV_ARGS(a, b));
}

/* An i32 register as an index, clamped to 0 … size-1. */
static spirv_id clamped(emitter *e, const term *t) {
  spirv *s = &e->s;
  spirv_id i = e->reg[t->from], one = emit_index_number(e, 1), zero = emit_index_number(e, 0);
  if (e->env->wide)
    i = spirv_op(s, SPV_SConvert, s->i64, SPV_ARGS(i));
  spirv_id last = emit_index_op(e, SPV_ISub, emit_size(e, t->mod), one);
  i = spirv_glsl(s, GLSL_SMin, e->index, SPV_ARGS(i, last));
  return spirv_glsl(s, GLSL_SMax, e->index, SPV_ARGS(i, zero));
}

static spirv_id emit_term(emitter *e, const term *t) {
  spirv_id i;
  if (t->axis == TERM_REG) {
    i = clamped(e, t);
  } else {
    i = e->axis[t->axis];
    if (!i) {
      e->why = "a region reads a coordinate that it does not have";
      return emit_index_number(e, 0);
    }
    if (t->div != 1)
      i = emit_index_op(e, SPV_SDiv, i, emit_size(e, t->div));
    if (t->mod != 0)
      i = emit_index_op(e, SPV_SRem, i, emit_size(e, t->mod));
  }
  return t->stride == 1 ? i : emit_index_op(e, SPV_IMul, i, emit_size(e, t->stride));
}

spirv_id emit_linear(emitter *e, sn_dim base, int n_terms, const term *terms) {
  spirv_id sum = base == 0 && n_terms > 0 ? 0 : emit_size(e, base);
  for (int k = 0; k < n_terms; k++) {
    spirv_id t = emit_term(e, &terms[k]);
    sum = sum ? emit_index_op(e, SPV_IAdd, sum, t) : t;
  }
  return sum;
}

/* 0 <= v / divisor < size, and divisor divides v. */
static spirv_id passes(emitter *e, const check *c) {
  spirv *s = &e->s;
  spirv_id v = emit_linear(e, c->offset, c->n_terms, c->terms), zero = emit_index_number(e, 0);
  spirv_id ok = spirv_op(s, SPV_SGreaterThanEqual, s->boolean, SPV_ARGS(v, zero));
  if (c->divisor != 1) {
    spirv_id by = emit_size(e, c->divisor), rest = emit_index_op(e, SPV_SRem, v, by);
    spirv_id even = spirv_op(s, SPV_IEqual, s->boolean, SPV_ARGS(rest, zero));
    ok = spirv_op(s, SPV_LogicalAnd, s->boolean, SPV_ARGS(ok, even));
    v = emit_index_op(e, SPV_SDiv, v, by);
  }
  spirv_id below = spirv_op(s, SPV_SLessThan, s->boolean, SPV_ARGS(v, emit_size(e, c->size)));
  return spirv_op(s, SPV_LogicalAnd, s->boolean, SPV_ARGS(ok, below));
}

spirv_id emit_inside(emitter *e, const access *at) {
  spirv_id all = 0;
  for (int k = 0; k < at->n_checks; k++) {
    spirv_id one = passes(e, &at->checks[k]);
    all = all ? spirv_op(&e->s, SPV_LogicalAnd, e->s.boolean, SPV_ARGS(all, one)) : one;
  }
  return all ? all : spirv_bool(&e->s, true);
}

spirv_id emit_extent(emitter *e, int n, const sn_dim *extents) {
  spirv_id all = n ? emit_size(e, extents[0]) : emit_index_number(e, 1);
  for (int k = 1; k < n; k++)
    all = emit_index_op(e, SPV_IMul, all, emit_size(e, extents[k]));
  return all;
}

void emit_coordinates(emitter *e, spirv_id flat, int first, int n, const sn_dim *extents) {
  for (int k = n - 1; k >= 0; k--) {
    sn_dim extent = extents[first + k];
    if (k == 0) {
      e->axis[first] = flat;
    } else if (extent == 1) {
      e->axis[first + k] = emit_index_number(e, 0);
    } else {
      e->axis[first + k] = emit_index_op(e, SPV_SRem, flat, emit_size(e, extent));
      flat = emit_index_op(e, SPV_SDiv, flat, emit_size(e, extent));
    }
  }
}

/* --- elements --- */

typedef struct element {
  spirv_id pointer, type;
  uint32_t size;
} element;

static element element_of(emitter *e, const access *at) {
  spirv *s = &e->s;
  sn_dtype dtype = (sn_dtype)e->env->dtypes[at->value];
  element x = {.size = dtype == SN_F32 || dtype == SN_I32    ? 4
                       : dtype == SN_F16 || dtype == SN_BF16 ? 2
                                                             : 1};
  x.type = dtype == SN_F32 ? s->f32 : dtype == SN_I32 ? s->i32 : x.size == 2 ? s->u16 : s->u8;
  spirv_id i = emit_linear(e, at->base, at->n_terms, at->terms);
  if (!e->env->wide)
    i = spirv_op(s, SPV_SConvert, s->i64, SPV_ARGS(i));
  spirv_id offset = spirv_op(s, SPV_IMul, s->u64, SPV_ARGS(i, spirv_i64(s, x.size)));
  x.pointer = pointer_to(e, emit_parameter(e, 1 + at->value), offset, x.type);
  return x;
}

/* The lane of what is in memory. */
static spirv_id widen(emitter *e, spirv_id raw, sn_dtype dtype) {
  spirv *s = &e->s;
  if (dtype == SN_F32 || dtype == SN_I32)
    return raw;
  spirv_id bits = spirv_op(s, SPV_UConvert, s->u32, SPV_ARGS(raw));
  if (dtype == SN_U8)
    return spirv_op(s, SPV_Bitcast, s->i32, SPV_ARGS(bits));
  if (dtype == SN_BOOL)
    return spirv_op(s, SPV_INotEqual, s->boolean, SPV_ARGS(bits, spirv_u32(s, 0)));
  if (dtype == SN_F16)
    return emit_call(e, HELPER_F16_WIDEN, SPV_ARGS(bits));
  bits = spirv_op(s, SPV_ShiftLeftLogical, s->u32, SPV_ARGS(bits, spirv_u32(s, 16)));
  return spirv_op(s, SPV_Bitcast, s->f32, SPV_ARGS(bits));
}

/* Whether a load may touch memory: its checks pass, and no axis that a register counts along is without elements; 0:
 * always. */
static spirv_id may_load(emitter *e, const access *at) {
  spirv *s = &e->s;
  spirv_id all = at->n_checks > 0 ? emit_inside(e, at) : 0;
  for (int k = 0; k < at->n_terms; k++) {
    sn_dim size = at->terms[k].mod;
    if (at->terms[k].axis != TERM_REG || (dim_is_number(size) && size > 0))
      continue;
    spirv_id any = spirv_op(s, SPV_SGreaterThan, s->boolean,
                            SPV_ARGS(emit_size(e, size), emit_index_number(e, 0)));
    all = all ? spirv_op(s, SPV_LogicalAnd, s->boolean, SPV_ARGS(all, any)) : any;
  }
  return all;
}

spirv_id emit_load(emitter *e, const instr *i) {
  spirv *s = &e->s;
  sn_dtype dtype = (sn_dtype)e->env->dtypes[i->at.value];
  spirv_id zero = emit_number(e, dtype, 0);
  spirv_id allowed = may_load(e, &i->at);
  spirv_if inside = {0, 0};
  if (allowed)
    inside = spirv_if_begin(s, allowed);
  element x = element_of(e, &i->at);
  spirv_id raw = spirv_op(s, SPV_Load, x.type, SPV_ARGS(x.pointer, ALIGNED, x.size));
  spirv_id lane = widen(e, raw, dtype);
  if (!allowed)
    return lane;
  return spirv_if_value(s, &inside, emit_lane_type(e, dtype), lane, zero);
}

/* What memory holds of a lane. */
static spirv_id to_memory(emitter *e, spirv_id lane, sn_dtype dtype, spirv_id type) {
  spirv *s = &e->s;
  spirv_id bits = lane;
  if (dtype == SN_F32 || dtype == SN_I32)
    return lane;
  if (dtype == SN_BOOL)
    bits = spirv_op(s, SPV_Select, s->u32, SPV_ARGS(lane, spirv_u32(s, 1), spirv_u32(s, 0)));
  else if (dtype == SN_F16)
    bits = emit_call(e, HELPER_F16_NARROW, SPV_ARGS(lane));
  else
    bits = spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(lane));
  if (dtype == SN_BF16) /* rounded already: the lower half is 0 */
    bits = spirv_op(s, SPV_ShiftRightLogical, s->u32, SPV_ARGS(bits, spirv_u32(s, 16)));
  return spirv_op(s, SPV_UConvert, type, SPV_ARGS(bits));
}

void emit_store(emitter *e, const instr *i) {
  sn_dtype from = (sn_dtype)e->code[i->a].dtype, to = (sn_dtype)e->env->dtypes[i->at.value];
  spirv_id lane = emit_rounded(e, emit_cast(e, e->reg[i->a], from, to), to);
  element x = element_of(e, &i->at);
  spirv_id raw = to_memory(e, lane, to, x.type);
  spirv_do(&e->s, SPV_Store, SPV_ARGS(x.pointer, raw, ALIGNED, x.size));
}
