/* Elements of operands. See emit_matmul.h. */
#include "device/vulkan/emit_matmul.h"
#include "device/vulkan/emit_pairs.h"

static val sum_of(kernel *k, val a, val b) {
  return a && b ? k_add(k, a, b) : a ? a : b ? b : k_index(k, 0);
}

/* The terms along k of a list, or the others, as a sum. No value (0) where there are none. */
static val partial_sum(matmul *m, int n, const term *terms, bool of_k) {
  val sum = 0;
  for (int i = 0; i < n; i++)
    if ((terms[i].axis >= m->first_k) == of_k) {
      val one = emit_term(m->e, &terms[i]);
      sum = sum_of(m->e->k, sum, one);
    }
  return sum;
}

/* The same with what the sum begins with. */
static val sum_from(matmul *m, const sn_dim *base, int n, const term *terms) {
  val sum = partial_sum(m, n, terms, false);
  kernel *k = m->e->k;
  return *base == 0 && !k->ones ? sum : sum_of(k, k_size_of(k, base), sum);
}

/* A point below a size, moved to the last group of `width` if it is not. */
static val within(kernel *k, val flat, val size, int width) {
  return k_min(k, flat, plus(k, size, -width));
}

void operand_row(matmul *m, const operand *o, operand_rows *rows, int i, val flat) {
  kernel *k = m->e->k;
  bool several = o->width > 1 && !o->along_k, ones = k->ones;
  k->ones = true;
  matmul_point(m, o->side, within(k, flat, m->size[o->side], several ? o->width : 1));
  rows->at[i] = sum_from(m, &o->at->base, o->at->n_terms, o->at->terms);
  for (int c = 0; c < o->n_checks; c++) {
    const check *of = o->checks[c];
    rows->check[i][c] = sum_from(m, &of->offset, of->n_terms, of->terms);
  }
  k->ones = ones;
}

operand_k operand_at_k(matmul *m, const operand *o, val at_k, val size) {
  kernel *k = m->e->k;
  operand_k there = {.inside = k_lt(k, at_k, size)};
  bool several = o->width > 1 && o->along_k;
  matmul_k_point(m, o->product, within(k, at_k, size, several ? o->width : 1));
  there.at = partial_sum(m, o->at->n_terms, o->at->terms, true);
  for (int c = 0; c < o->n_checks; c++)
    there.check[c] = partial_sum(m, o->checks[c]->n_terms, o->checks[c]->terms, true);
  return there;
}

/* 0 <= sum < size, as one comparison of numbers without sign. */
static val check_passes(kernel *k, val row, val there, const sn_dim *size) {
  spirv_id bits = k->env->wide ? k->s.u64 : k->s.u32;
  val v = k_bits(k, sum_of(k, row, there), bits), end = k_bits(k, k_size_of(k, size), bits);
  return k_lt(k, v, end);
}

static void load_four(emitter *e, sn_dtype dtype, val address, val at, val *out) {
  kernel *k = e->k;
  spirv *s = &k->s;
  if (dtype == SN_F32) {
    val v = k_load(k, spirv_vector(s, s->f32, 4), k_address_plus(k, address, at, 4), k_index(k, 0));
    for (int i = 0; i < 4; i++)
      out[i] = k_part(k, v, i);
    return;
  }
  val v = k_load(k, spirv_vector(s, s->u32, 2), k_address_plus(k, address, at, 2), k_index(k, 0));
  for (int i = 0; i < 4; i++) {
    val two = k_part(k, v, i / 2);
    if (dtype == SN_F16)
      out[i] = emit_f16_widen(e, i % 2 ? k_shr(k, two, 16) : k_and(k, two, k_u32(k, 0xffff)));
    else
      out[i] = k_bits(k, i % 2 ? k_and(k, two, k_u32(k, 0xffff0000u)) : k_shl(k, two, 16), s->f32);
  }
}

static val operand_address(matmul *m, const operand *o) {
  return k_address_for(m->e->k, o->at->value, o->takes_pairs ? USE_OPERAND : USE_OTHER);
}

static void load_at(matmul *m, const operand *o, val at, val *out) {
  val address = operand_address(m, o);
  if (o->width == 4)
    load_four(m->e, o->dtype, address, at, out);
  else
    out[0] = emit_load_lane(m->e, o->dtype, address, at);
}

/* Loads under checks: where one fails and the value surely has elements, its first ones are read instead, since a
 * branch would keep loads from being on their way at the same time. */
static void load_checked(matmul *m, const operand *o, val ok, val at, val *out) {
  kernel *k = m->e->k;
  sn_dim count = m->e->env.program->values[o->at->value].count;
  if (o->zeros) {
    val there = k_address_plus(k, operand_address(m, o), at, sizeof(float));
    load_four(m->e, SN_F32, k_select(k, ok, there, k_zeros(k)), k_index(k, 0), out);
    return;
  }
  if (dim_is_number(count) && count >= o->width) {
    load_at(m, o, k_select(k, ok, at, k_index(k, 0)), out);
    return;
  }
  val zero = k_f32(k, 0), x[4];
  for (int i = 0; i < o->width; i++)
    x[i] = k_var(k, zero);
  k_if inside = k_if_begin(k, ok);
  load_at(m, o, at, out);
  for (int i = 0; i < o->width; i++)
    k_set(k, x[i], out[i]);
  k_if_end(k, &inside);
  for (int i = 0; i < o->width; i++)
    out[i] = k_get(k, x[i]);
}

val operand_load_any(matmul *m, const operand *o, const operand_rows *rows, int i,
                     const operand_k *there, val *out) {
  kernel *k = m->e->k;
  val ok = there->inside;
  for (int c = 0; c < o->n_checks; c++)
    ok = k_and(k, ok, check_passes(k, rows->check[i][c], there->check[c], &o->checks[c]->size));
  val at = sum_of(k, rows->at[i], there->at);
  if (o->n_checks > 0)
    load_checked(m, o, ok, at, out);
  else
    load_at(m, o, at, out);
  return ok;
}

void operand_load(matmul *m, const operand *o, const operand_rows *rows, int i,
                  const operand_k *there, val *out) {
  kernel *k = m->e->k;
  val ok = operand_load_any(m, o, rows, i, there, out), zero = k_f32(k, 0);
  for (int j = 0; j < o->width; j++)
    out[j] = k_select(k, ok, out[j], zero);
}

val operand_element(matmul *m, const operand *o, val row, val at_k, val size) {
  kernel *k = m->e->k;
  val inside = k_lt(k, at_k, size);
  bool ones = k->ones;
  k->ones = true;
  matmul_point(m, o->side, within(k, row, m->size[o->side], 1));
  matmul_k_point(m, o->product, within(k, at_k, size, 1));
  val x = emit_region(m->e, o->code);
  k->ones = ones;
  return k_select(k, inside, x, k_f32(k, 0));
}

bool operand_wants_table(const matmul *m, const operand *o) {
  int axes = 0;
  for (int d = 0; d < o->product->n_k; d++)
    axes += o->product->k[d] != 1;
  return o->plain && !o->along_k && axes > 1 && o->n_checks <= TABLE_CHECKS && !m->e->env.wide;
}

val matmul_sum_plainly(matmul *m, int acc, int depth, const val at[2]) {
  kernel *k = m->e->k;
  const matmul_acc *of = &m->part->accs[acc];
  val sum = k_var(k, k_f32(k, 0));
  unsigned char *uses = m->e->env.uses;
  for (int i = 0; i < of->n_products; i++) {
    const matmul_product *p = &of->products[i];
    val from, to, size = k_sizes(k, p->n_k, p->k), x[2];
    matmul_range(m, p, depth, &from, &to);
    m->e->env.uses = NULL; /* what happens seldom may read pairs element by element */
    k_loop l = k_loop_rolled(k, from, to, k_index(k, 1));
    for (int side = 0; side < 2; side++) {
      operand o;
      vk_operand_read(m->e, m->part, p, side, &o);
      x[side] = operand_element(m, &o, at[side], l.i, size);
    }
    m->e->env.uses = uses;
    k_set(k, sum, k_fma(k, x[0], x[1], k_get(k, sum)));
    k_loop_end(k, &l);
  }
  return k_get(k, sum);
}
