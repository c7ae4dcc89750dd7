/* Coordinates and elements of values. See emit.h. */
#include "device/vulkan/emit_four.h"
#include "device/vulkan/emit_pairs.h"

/* An i32 register as an index, clamped to 0 … size-1. */
static val clamped(emitter *e, const term *t) {
  kernel *k = e->k;
  val i = k_to_index(k, e->reg[t->from]), one = k_index(k, 1), zero = k_index(k, 0);
  val last = k_sub(k, k_size_of(k, &t->mod), one);
  return k_max(k, k_min(k, i, last), zero);
}

val emit_known(emitter *e, int64_t x) {
  val made = k_index(e->k, x);
  for (int i = 0; i < e->n_known; i++)
    if (e->known[i].made == made)
      return made;
  if (e->n_known < (int)COUNT_OF(e->known))
    e->known[e->n_known++] = (struct known_number){made, x};
  return made;
}

/* A coordinate that is a known number, divided; 0: it is not one. */
static val known_term(emitter *e, const term *t) {
  for (int i = 0; i < e->n_known; i++)
    if (e->known[i].made == e->axis[t->axis] && dim_is_number(t->div) && t->div > 0 &&
        dim_is_number(t->mod)) {
      int64_t x = e->known[i].x / t->div;
      return emit_known(e, t->mod > 0 ? x % t->mod : x);
    }
  return 0;
}

val emit_term(emitter *e, const term *t) {
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
    val known = known_term(e, t);
    if (known == k_index(k, 0))
      return known;
    if (known)
      i = known;
    else if (t->div != 1)
      i = k_divide(k, i, &(amount){1, 1, &t->div}, NULL);
    if (!known && t->mod != 0)
      k_divide(k, i, &(amount){1, 1, &t->mod}, &i);
  }
  return t->stride == 1 && !k->ones ? i : k_mul(k, i, k_size_of(k, &t->stride));
}

/* --- what was made before ---
 * Instructions of a region often read the same place: several values, or one place and its checks. Drivers do not see that, as
 * each has slots of its own. So what was made in this block of the kernel is taken again. */

static bool is_recent(const emitter *e, const struct made_linear *m,
                      const struct made_linear *want) {
  if (m->made == 0 || m->block != e->k->s.block || m->base != want->base || m->size != want->size ||
      m->divisor != want->divisor || m->n != want->n)
    return false;
  for (int i = 0; i < m->n; i++)
    if (m->of[i] != want->of[i] || m->terms[i].stride != want->terms[i].stride ||
        m->terms[i].div != want->terms[i].div || m->terms[i].mod != want->terms[i].mod ||
        (m->terms[i].axis == TERM_REG) != (want->terms[i].axis == TERM_REG))
      return false;
  return true;
}

/* 0: it was not made. */
static val recent(const emitter *e, const struct made_linear *want) {
  for (int i = 0; i < EMIT_RECENT && i < e->n_recent; i++)
    if (is_recent(e, &e->recent[i], want))
      return e->recent[i].made;
  return 0;
}

static val remember(emitter *e, struct made_linear *of, val made) {
  of->made = made;
  of->block = e->k->s.block;
  e->recent[e->n_recent++ % EMIT_RECENT] = *of;
  return made;
}

static struct made_linear wanted(const emitter *e, sn_dim base, int n_terms, const term *terms) {
  struct made_linear m = {.base = base, .n = n_terms, .size = -1, .terms = terms};
  for (int i = 0; i < n_terms; i++)
    m.of[i] = terms[i].axis == TERM_REG ? e->reg[terms[i].from] : e->axis[terms[i].axis];
  return m;
}

static val make_linear(emitter *e, sn_dim base, int n_terms, const term *terms) {
  val sum = base == 0 && n_terms > 0 && !e->k->ones ? 0 : k_size(e->k, base);
  for (int i = 0; i < n_terms; i++) {
    val t = emit_term(e, &terms[i]);
    if (!sum)
      sum = t;
    else if (t != k_index(e->k, 0))
      sum = k_add(e->k, sum, t);
  }
  return sum;
}

val emit_linear(emitter *e, sn_dim base, int n_terms, const term *terms) {
  if (!e->remembers)
    return make_linear(e, base, n_terms, terms);
  struct made_linear want = wanted(e, base, n_terms, terms);
  val made = recent(e, &want);
  return made ? made : remember(e, &want, make_linear(e, base, n_terms, terms));
}

/* 0 <= v / divisor < size, and divisor divides v. Division is of numbers >= 0, so a negative v is made 0 first. */
static val make_check(emitter *e, const check *c) {
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

static val passes(emitter *e, const check *c) {
  if (!e->remembers)
    return make_check(e, c);
  struct made_linear want = wanted(e, c->offset, c->n_terms, c->terms);
  want.size = c->size;
  want.divisor = c->divisor;
  val made = recent(e, &want);
  return made ? made : remember(e, &want, make_check(e, c));
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

static bool is_written(const emitter *e, uint32_t value) {
  writes w = {e->env.program->values, value, false};
  step_each_use(e->step, see_write, &w);
  return w.any;
}

/* Whether element 0 can be read instead of one that is not there: there is one, and nobody writes it meanwhile. Loads without a
 * condition around them overlap. */
static bool has_spare(const emitter *e, const access *at) {
  const program_value *v = &e->env.program->values[at->value];
  int64_t lo, hi;
  for (int d = 0; d < v->type.shape.rank; d++) {
    dim_range(e->env.program->dims, v->type.shape.dim[d], &lo, &hi);
    if (lo < 1)
      return false;
  }
  return !is_written(e, at->value);
}

/* Whether the element is one of the value's at every point, those where a check fails among them. */
static bool is_within(const emitter *e, const access *at) {
  sn_dim count = e->env.program->values[at->value].count;
  int64_t most = at->base, reach;
  if (!e->extent || !dim_is_number(count) || !dim_is_number(at->base) || at->base < 0)
    return false;
  for (int i = 0; i < at->n_terms; i++) {
    const term *t = &at->terms[i];
    sn_dim extent = t->axis == TERM_REG ? -1 : e->extent[t->axis];
    if (!dim_is_number(extent) || extent < 1 || !dim_is_number(t->stride) || t->stride < 0 ||
        t->div != 1 || t->mod != 0 || !mul_fits(extent - 1, t->stride, &reach) ||
        !add_fits(most, reach, &most))
      return false;
  }
  return most < count;
}

static val load_lanes(emitter *e, uint32_t value, val at, bool four) {
  kernel *k = e->k;
  if (is_paired(&e->env, value) && !four)
    return pairs_load(k, value, at);
  val address = k_address(k, value);
  if (!four)
    return emit_load_lane(e, dtype_of(e, value), address, at);
  return k_load(k, spirv_vector(&k->s, k->s.f32, 4), address, k_shr(k, at, 2));
}

/* What nobody writes is loaded once in a block. */
static val load_once(emitter *e, uint32_t value, val at, bool four) {
  kernel *k = e->k;
  int n = e->n_loads < EMIT_LOADS ? e->n_loads : EMIT_LOADS;
  for (int i = 0; i < n; i++)
    if (e->loads[i].block == k->s.block && e->loads[i].value == value && e->loads[i].at == at &&
        e->loads[i].four == four)
      return e->loads[i].lane;
  val lane = load_lanes(e, value, at, four);
  if (e->remembers && !is_written(e, value))
    e->loads[e->n_loads++ % EMIT_LOADS] = (struct made_load){k->s.block, value, at, lane, four};
  return lane;
}

static val select_lanes(emitter *e, val condition, val lanes, val zero, bool four) {
  kernel *k = e->k;
  if (!four)
    return k_select(k, condition, lanes, zero);
  val own[4];
  for (int u = 0; u < 4; u++)
    own[u] = k_select(k, condition, k_part(k, lanes, u), zero);
  return k_vector(k, 4, own);
}

static val load(emitter *e, const instr *i, bool four) {
  kernel *k = e->k;
  const program_value *v = &e->env.program->values[i->at.value];
  val zero = emit_number(e, v->type.dtype, 0), allowed = may_load(e, &i->at);
  bool spare = has_spare(e, &i->at) && (!four || (dim_is_number(v->count) && v->count >= 4));
  if (!allowed || spare) {
    val at = emit_linear(e, i->at.base, i->at.n_terms, i->at.terms);
    if (allowed && !is_within(e, &i->at))
      at = k_select(k, allowed, at, k_index(k, 0));
    val lanes = load_once(e, i->at.value, at, four);
    return allowed ? select_lanes(e, allowed, lanes, zero, four) : lanes;
  }
  val none = four ? k_vector(k, 4, (val[]){zero, zero, zero, zero}) : zero;
  k_address_for(k, i->at.value, is_paired(&e->env, i->at.value) ? USE_OPERAND : USE_OTHER);
  k_if inside = k_if_begin(k, allowed);
  val at = emit_linear(e, i->at.base, i->at.n_terms, i->at.terms);
  val lanes = load_lanes(e, i->at.value, at, four);
  return k_if_value(k, &inside, lanes, none);
}

val emit_load(emitter *e, const instr *i) { return load(e, i, false); }
val emit_load_four(emitter *e, const instr *i) { return load(e, i, true); }

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
