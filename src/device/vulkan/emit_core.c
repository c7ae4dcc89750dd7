/* See emit_core.h. */
#include "device/vulkan/emit_core.h"

val core_load(emitter *e, const strided *s, const val *at) {
  val address = k_address(e->k, s->value);
  return emit_load_lane(e, (sn_dtype)s->dtype, address, emit_strided(e, s, at));
}

void core_store(emitter *e, const strided *s, const val *at, val lane) {
  if (!s->value)
    return;
  sn_dtype dtype = (sn_dtype)s->dtype;
  val address = k_address(e->k, s->value), rounded = emit_rounded(e, lane, dtype);
  emit_store_lane(e, dtype, address, emit_strided(e, s, at), rounded);
}

val core_pair(emitter *e, val high, val low) {
  return k_bits(e->k, k_vector(e->k, 2, (val[]){low, high}), e->k->s.u64);
}

static val half(emitter *e, val pair, int which) {
  spirv_id two = spirv_vector(&e->k->s, e->k->s.u32, 2);
  return k_part(e->k, k_bits(e->k, pair, two), which);
}
val core_low(emitter *e, val pair) { return half(e, pair, 0); }
val core_high(emitter *e, val pair) { return half(e, pair, 1); }

static val shifted(emitter *e, int op, val a, val by) {
  spirv *s = &e->k->s;
  return spirv_op(s, op, spirv_type_of(s, a), SPV_ARGS(a, by));
}
val core_shl(emitter *e, val a, val by) { return shifted(e, SPV_ShiftLeftLogical, a, by); }
val core_shr(emitter *e, val a, val by) { return shifted(e, SPV_ShiftRightLogical, a, by); }

static val combined(emitter *e, core_combine combine, const void *user, val a, val b) {
  return combine ? combine(e, user, a, b) : k_add(e->k, a, b);
}

/* By doubling distances, from one half of the array to the other. */
val core_scan_threads(emitter *e, val mine, val array, int lanes, core_combine combine,
                      const void *user, val *out_all) {
  kernel *k = e->k;
  int from = 0;
  k_shared_set(k, array, k->local, mine);
  for (int by = lanes; by < k->threads; by *= 2, from = !from) {
    k_barrier(k);
    val distance = k_index(k, by), there = k_ge(k, k->local, distance);
    k_if has = k_if_begin(k, there);
    val at = k_add(k, k->local, k_index(k, from * k->threads - by));
    val sum = combined(e, combine, user, k_shared_get(k, array, at), mine);
    mine = k_if_value(k, &has, sum, mine);
    at = k_add(k, k->local, k_index(k, !from * k->threads));
    k_shared_set(k, array, at, mine);
  }
  k_barrier(k);
  val last = k_and(k, k->local, k_index(k, lanes - 1));
  val at = k_add(k, last, k_index(k, from * k->threads + k->threads - lanes));
  *out_all = k_shared_get(k, array, at);
  k_barrier(k);
  return mine;
}
