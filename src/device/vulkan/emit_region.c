/* Regions at a point. See emit.h. */
#include "device/vulkan/emit.h"

#include <math.h>

/* Fails the run: notes that the site failed; whoever is first writes the number to show. */
static void emit_require(emitter *e, const instr *i) {
  kernel *k = e->k;
  spirv *s = &k->s;
  spirv_id word = spirv_pointer(s, SPV_PhysicalBuffer, s->u32);
  val zero = k_u32(k, 0), one = k_u32(k, 1);
  val bits = k_bits(k, e->reg[i->b], s->u32), table = k_failures(k);
  val site = k_add(k, table, spirv_u64(s, 8 * (uint64_t)i->index));
  val behind = k_index(k, 1);
  k_if failed = k_if_begin(k, k_not(k, e->reg[i->a]));
  val at = spirv_op(s, SPV_ConvertUToPtr, word, SPV_ARGS(site));
  val before = spirv_op(s, SPV_AtomicCompareExchange, s->u32,
                        SPV_ARGS(at, one, zero, zero, one, zero)); /* scope: the device */
  k_if first = k_if_begin(k, k_eq(k, before, zero));
  k_store(k, site, behind, bits);
  k_if_end(k, &first);
  k_if_end(k, &failed);
}

/* A zero that the driver cannot see: Mesa 22.3 makes 0 of NaN * 0, whatever decorations and modes say. Numbers of workgroups
 * are below 2^31, so the uppermost bit of one is a zero that nobody knows of. */
static val hidden_zero(emitter *e, double x) {
  kernel *k = e->k;
  val u = k_to_u32(k, k->group), top = k_shr(k, u, 31);
  val zero = k_bits(k, top, k->s.f32);
  return signbit(x) ? k_neg(k, zero) : zero;
}

static val emit_size_lane(emitter *e, const instr *i) {
  val n = k_size_of(e->k, &i->size);
  return instr_is_float(i) ? k_to_f32(e->k, n) : k_to_i32(e->k, n);
}

static val emit_word(emitter *e, const instr *i) {
  val index = emit_linear(e, i->at.base, i->at.n_terms, i->at.terms);
  val key[3] = {e->reg[i->a], e->reg[i->b], e->reg[i->c]};
  return k_bits(e->k, emit_random(e, key, (uint32_t)(int64_t)i->x, index), e->k->s.i32);
}

/* One over a number of elements, as means have it: a size, in a way, and no shader for each. */
static bool is_share(const instr *i) {
  double n = nearbyint(1 / i->x);
  return i->dtype == SN_F32 && n >= 16 && n <= INT32_MAX && (float)(1 / n) == (float)i->x;
}

static val emit_constant(emitter *e, const instr *i) {
  if (instr_is_float(i) && i->x == 0)
    return hidden_zero(e, i->x);
  if (is_share(i))
    return k_number(e->k, (float)i->x, (uint32_t)(i - e->code));
  return emit_number(e, (sn_dtype)i->dtype, i->x);
}

val emit_instr(emitter *e, const instr *i) {
  kernel *k = e->k;
  switch ((region_op)i->op) {
  case REGION_LOAD: return emit_load(e, i);
  case REGION_STORE: emit_store(e, i); return e->reg[i->a];
  case REGION_INDEX: return k_to_i32(k, emit_linear(e, i->at.base, i->at.n_terms, i->at.terms));
  case REGION_INSIDE: return emit_inside(e, &i->at);
  case REGION_NUMBER: return emit_constant(e, i);
  case REGION_SIZE: return emit_size_lane(e, i);
  case REGION_ALU: return emit_alu(e, i);
  case REGION_WORD: return emit_word(e, i);
  case REGION_ACC: return e->acc[i->index];
  case REGION_REQUIRE: emit_require(e, i); return e->reg[i->a];
  case REGION_REDUCE: break;
  }
  k->why = "a reduction outside of a row";
  return emit_number(e, (sn_dtype)i->dtype, 0);
}

val emit_region(emitter *e, const region *r) {
  val last = 0;
  e->code = r->code;
  for (int i = 0; i < r->n; i++)
    last = e->reg[i] = emit_instr(e, &r->code[i]);
  return last;
}
