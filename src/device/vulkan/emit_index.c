/* Coordinates and elements of values. See emit.h. */
#include "device/vulkan/emit.h"

/* An i32 register as an index, clamped to 0 … size-1. */
static val clamped(emitter *e, const term *t) {
  kernel *k = e->k;
  val i = k_to_index(k, e->reg[t->from]), one = k_index(k, 1), zero = k_index(k, 0);
  val last = k_sub(k, k_size_of(k, &t->mod), one);
  return k_max(k, k_min(k, i, last), zero);
}

static val emit_term(emitter *e, const term *t) {
  kernel *k = e->k;
  val i;
  if (t->axis == TERM_REG) {
    i = clamped(e, t);
  } else {
    i = e->axis[t->axis];
    if (!i) {
      k->why = "a region reads a coordinate that it does not have";
      return k_index(k, 0);
    }
    if (t->div != 1)
      i = k_divide(k, i, &(amount){1, 1, &t->div}, NULL);
    if (t->mod != 0)
      k_divide(k, i, &(amount){1, 1, &t->mod}, &i);
  }
  return t->stride == 1 ? i : k_mul(k, i, k_size_of(k, &t->stride));
}

val emit_linear(emitter *e, sn_dim base, int n_terms, const term *terms) {
  val sum = base == 0 && n_terms > 0 ? 0 : k_size(e->k, base);
  for (int i = 0; i < n_terms; i++) {
    val t = emit_term(e, &terms[i]);
    sum = sum ? k_add(e->k, sum, t) : t;
  }
  return sum;
}

/* 0 <= v / divisor < size, and divisor divides v. Division is of numbers >= 0, so a negative v is made 0 first. */
static val passes(emitter *e, const check *c) {
  kernel *k = e->k;
  val v = emit_linear(e, c->offset, c->n_terms, c->terms), zero = k_index(k, 0);
  val ok = k_ge(k, v, zero);
  if (c->divisor != 1) {
    val rest;
    v = k_divide(k, k_max(k, v, zero), &(amount){1, 1, &c->divisor}, &rest);
    ok = k_and(k, ok, k_eq(k, rest, zero));
  }
  return k_and(k, ok, k_lt(k, v, k_size_of(k, &c->size)));
}

val emit_inside(emitter *e, const access *at) {
  val all = 0;
  for (int i = 0; i < at->n_checks; i++) {
    val one = passes(e, &at->checks[i]);
    all = all ? k_and(e->k, all, one) : one;
  }
  return all ? all : k_bool(e->k, true);
}

void emit_coordinates(emitter *e, val flat, int first, int n, const sn_dim *extents) {
  for (int i = n - 1; i >= 0; i--) {
    if (i == 0)
      e->axis[first] = flat;
    else
      flat = k_divide(e->k, flat, &(amount){1, 1, &extents[first + i]}, &e->axis[first + i]);
  }
}

/* --- elements --- */

static spirv_id memory_type(const spirv *s, sn_dtype dtype) {
  switch (dtype) {
  case SN_F32: return s->f32;
  case SN_I32: return s->i32;
  case SN_F16:
  case SN_BF16: return s->u16;
  default: return s->u8;
  }
}

val emit_load_lane(emitter *e, sn_dtype dtype, val address, val i) {
  kernel *k = e->k;
  val raw = k_load(k, memory_type(&k->s, dtype), address, i);
  if (dtype == SN_F32 || dtype == SN_I32)
    return raw;
  if (dtype == SN_U8)
    return k_to_i32(k, raw);
  val bits = k_to_u32(k, raw);
  if (dtype == SN_BOOL)
    return k_ne(k, bits, k_u32(k, 0));
  return dtype == SN_F16 ? emit_f16_widen(e, bits) : k_bits(k, k_shl(k, bits, 16), k->s.f32);
}

void emit_store_lane(emitter *e, sn_dtype dtype, val address, val i, val lane) {
  kernel *k = e->k;
  if (dtype != SN_F32 && dtype != SN_I32) {
    val bits = dtype == SN_BOOL  ? k_select(k, lane, k_u32(k, 1), k_u32(k, 0))
               : dtype == SN_F16 ? emit_f16_narrow(e, lane)
                                 : k_bits(k, lane, k->s.u32);
    if (dtype == SN_BF16) /* rounded already: the lower half is 0 */
      bits = k_shr(k, bits, 16);
    lane = spirv_op(&k->s, SPV_UConvert, memory_type(&k->s, dtype), SPV_ARGS(bits));
  }
  k_store(k, address, i, lane);
}

/* Whether a load may touch memory: its checks pass, and no axis that a register counts along is without elements; 0:
 * always. */
static val may_load(emitter *e, const access *at) {
  kernel *k = e->k;
  val all = at->n_checks > 0 ? emit_inside(e, at) : 0;
  for (int i = 0; i < at->n_terms; i++) {
    sn_dim size = at->terms[i].mod;
    if (at->terms[i].axis != TERM_REG || (dim_is_number(size) && size > 0))
      continue;
    val zero = k_index(k, 0), any = k_lt(k, zero, k_size_of(k, &at->terms[i].mod));
    all = all ? k_and(k, all, any) : any;
  }
  return all;
}

static sn_dtype dtype_of(const emitter *e, uint32_t value) {
  return e->env.program->values[value].type.dtype;
}

typedef struct writes {
  const program_value *values;
  uint32_t value;
  bool any;
} writes;

static bool see_write(void *user, const step_use *use) {
  writes *w = user;
  bool same = use->value == w->value || w->values[use->value].in_place_of == w->value;
  w->any = w->any || (use->store && same);
  return true;
}

/* Whether element 0 can be read instead of one that is not there: there is one, and nobody writes it meanwhile. Loads without a
 * condition around them overlap. */
static bool has_spare(const emitter *e, const access *at) {
  const program_value *v = &e->env.program->values[at->value];
  writes w = {e->env.program->values, at->value, false};
  int64_t lo, hi;
  for (int d = 0; d < v->type.shape.rank; d++) {
    dim_range(e->env.program->dims, v->type.shape.dim[d], &lo, &hi);
    if (lo < 1)
      return false;
  }
  step_each_use(e->step, see_write, &w);
  return !w.any;
}

val emit_load(emitter *e, const instr *i) {
  kernel *k = e->k;
  sn_dtype dtype = dtype_of(e, i->at.value);
  val zero = emit_number(e, dtype, 0), address = k_address(k, i->at.value);
  val allowed = may_load(e, &i->at);
  if (!allowed || has_spare(e, &i->at)) {
    val at = emit_linear(e, i->at.base, i->at.n_terms, i->at.terms);
    if (allowed)
      at = k_select(k, allowed, at, k_index(k, 0));
    val lane = emit_load_lane(e, dtype, address, at);
    return allowed ? k_select(k, allowed, lane, zero) : lane;
  }
  k_if inside = k_if_begin(k, allowed);
  val at = emit_linear(e, i->at.base, i->at.n_terms, i->at.terms);
  val lane = emit_load_lane(e, dtype, address, at);
  return k_if_value(k, &inside, lane, zero);
}

void emit_store(emitter *e, const instr *i) {
  sn_dtype from = (sn_dtype)e->code[i->a].dtype, to = dtype_of(e, i->at.value);
  val lane = emit_rounded(e, emit_cast(e, e->reg[i->a], from, to), to);
  val at = emit_linear(e, i->at.base, i->at.n_terms, i->at.terms);
  emit_store_lane(e, to, k_address(e->k, i->at.value), at, lane);
}

val emit_strided(emitter *e, const strided *s, const val *at) {
  kernel *k = e->k;
  val sum = s->base == 0 && s->rank > 0 ? 0 : k_size(k, s->base);
  for (int d = 0; d < s->rank; d++) {
    if (s->stride[d] == 0)
      continue;
    val t = s->stride[d] == 1 ? at[d] : k_mul(k, at[d], k_size(k, s->stride[d]));
    sum = sum ? k_add(k, sum, t) : t;
  }
  return sum ? sum : k_index(k, 0);
}
