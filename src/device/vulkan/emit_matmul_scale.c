/* Scales of panels. See emit_matmul_matrix.h. */
#include "device/vulkan/emit_matmul_matrix.h"

/* Panels may grow by 2^ROOM, near the largest f16, before a scale must change. */
enum { ROOM = 2, BIAS = 127, MANTISSA = 23 };

val scale_exponent(kernel *k, val bits) { return k_bits(k, k_shr(k, bits, MANTISSA), k->s.i32); }

val scale_power(kernel *k, val biased) { return k_bits(k, k_shl(k, biased, MANTISSA), k->s.f32); }

val scale_of(kernel *k, val exponent) {
  val most = k_i32(k, 2 * BIAS + SCALE_TARGET), end = k_i32(k, SCALE_INFINITE - 1);
  return scale_power(k, k_sub(k, most, k_min(k, exponent, end)));
}

void scale_undo_both(kernel *k, val a, val b, val out[2]) {
  val sum = k_add(k, a, b), half = k_shr(k, sum, 1), target = k_i32(k, SCALE_TARGET);
  out[0] = scale_power(k, k_sub(k, half, target));
  out[1] = scale_power(k, k_sub(k, k_sub(k, sum, half), target));
}

/* --- panels --- */

void scale_open(matmul *m, half_panel *p, int most) {
  kernel *k = m->e->k;
  p->most = most;
  p->exponent = k_var(k, k_i32(k, SCALE_LEAST));
  p->largest = p->o.plain ? 0 : k_var(k, k_f32(k, 0));
}

void scale_publish(matmul *m, const half_panel *p) {
  kernel *k = m->e->k;
  int threads = m->e->env.target->subgroup;
  val most = p->o.plain ? k_f32(k, 0) : k_get(k, p->largest);
  for (int i = 0; p->o.plain && i < 4 * p->units; i++)
    most = k_max(k, most, k_abs(k, k_get(k, p->kept[i])));
  val all = k_subgroup_max(k, k_bits(k, most, k->s.u32));
  val lane = low_part(k, k->local, threads), number = high_part(k, k->local, threads);
  k_if first = k_if_begin(k, k_eq(k, lane, k_index(k, 0)));
  k_shared_set(k, p->array, plus(k, number, p->most), all);
  k_if_end(k, &first);
}

val scale_largest(matmul *m, const half_panel *p) {
  kernel *k = m->e->k;
  int threads = m->e->env.target->subgroup, n = p->threads / threads;
  int at_once = n < threads ? n : threads;
  val most = 0;
  for (int i = 0; i < n; i += at_once) {
    val at = plus(k, low_part(k, k->local, at_once), p->most + i);
    val one = k_shared_get(k, p->array, at);
    most = i == 0 ? one : k_max(k, most, one);
  }
  most = k_subgroup_max(k, most);
  return scale_exponent(k, most);
}

val scale_factor(kernel *k, const half_panel *p) { return scale_of(k, k_get(k, p->exponent)); }

void scale_undo(kernel *k, const half_panel *a, const half_panel *b, val out[2]) {
  val first = k_get(k, a->exponent);
  scale_undo_both(k, first, k_get(k, b->exponent), out);
}

val scale_exceeds(kernel *k, val now, val exponent) {
  return k_lt(k, k_add(k, now, k_i32(k, ROOM)), exponent);
}

val scale_set(kernel *k, const half_panel *p, val exponent) {
  val old = k_get(k, p->exponent), most = k_i32(k, SCALE_INFINITE - 1);
  val now = k_max(k, old, k_min(k, exponent, most));
  k_set(k, p->exponent, now);
  return k_sub(k, now, old);
}

void scale_change(kernel *k, val change, val out[2]) {
  val half = k_shr(k, change, 1), bias = k_i32(k, BIAS), least = k_i32(k, 1);
  val rest = k_sub(k, change, half);
  out[0] = scale_power(k, k_max(k, k_sub(k, bias, half), least));
  out[1] = scale_power(k, k_max(k, k_sub(k, bias, rest), least));
}
