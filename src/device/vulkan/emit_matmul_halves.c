/* Panels of halves. See emit_matmul_matrix.h. */
#include "device/vulkan/emit_matmul_matrix.h"

int half_panel_words(const half_panel *p) { return p->lines * p->stride * (p->rest ? 2 : 1); }

static int length_of(const half_panel *p) { return p->o.along_k ? p->depth : p->rows; }
/* Lines from unit to unit of a thread. */
static int unit_step(const half_panel *p) { return p->threads / (length_of(p) / 4); }

void half_panel_open(matmul *m, half_panel *p) {
  kernel *k = m->e->k;
  const operand *o = &p->o;
  p->lines = o->along_k ? p->rows : p->depth;
  p->stride = half_stride(length_of(p));
  if (!o->plain)
    return;
  int groups = length_of(p) / 4;
  p->units = p->rows * p->depth / 4 / p->threads;
  p->inner = times(k, low_part(k, k->local, groups), 4);
  p->line = high_part(k, k->local, groups);
  p->at.n = o->along_k ? p->units : o->width == 4 ? 1 : 4;
  for (int i = 0; i < p->at.n; i++) {
    val row = o->along_k ? plus(k, p->line, i * unit_step(p)) : plus(k, p->inner, i);
    operand_row(m, o, &p->at, i, k_add(k, m->begin[o->side], row));
  }
  for (int i = 0; i < p->units * 4; i++)
    p->kept[i] = k_var(k, k_f32(k, 0));
}

static void load_unit(matmul *m, half_panel *p, int unit, const operand_k *there) {
  const operand *o = &p->o;
  val x[4];
  for (int j = 0; j < 4; j += o->width) {
    int row = o->along_k ? unit : j;
    operand_load(m, o, &p->at, row, &there[o->along_k ? j : 0], x + j);
  }
  for (int j = 0; j < 4; j++)
    k_set(m->e->k, p->kept[4 * unit + j], x[j]);
}

void half_panel_fill_table(matmul *m, half_panel *p, val at_k, val size) {
  kernel *k = m->e->k;
  if (p->table < 0)
    return;
  k_if mine = k_if_begin(k, k_lt(k, k->local, k_index(k, p->depth)));
  operand_k there = operand_at_k(m, &p->o, k_add(k, at_k, k->local), size);
  val at = plus(k, times(k, k->local, 4), p->table), zero = k_index(k, 0);
  for (int i = 0; i <= p->o.n_checks; i++) {
    val x = i ? there.check[i - 1] : there.at;
    matrix_shared_set(k, p->array, plus(k, at, i), k_bits(k, x ? x : zero, k->s.u32));
  }
  k_if_end(k, &mine);
}

/* What element `line` of the panel at k adds. */
static operand_k read_table(matmul *m, const half_panel *p, val at_k, val line, val size) {
  kernel *k = m->e->k;
  val at = plus(k, times(k, line, 4), p->table);
  operand_k there = {.at = k_bits(k, matrix_shared_get(k, p->array, at), k->index)};
  for (int c = 0; c < p->o.n_checks; c++) {
    val word = matrix_shared_get(k, p->array, plus(k, at, 1 + c));
    there.check[c] = k_bits(k, word, k->index);
  }
  there.inside = k_lt(k, k_add(k, at_k, line), size);
  return there;
}

void half_panel_load(matmul *m, half_panel *p, val at_k, val size) {
  kernel *k = m->e->k;
  const operand *o = &p->o;
  operand_k there[4];
  for (int i = 0; o->plain && i < p->units; i++) {
    if (o->along_k && i == 0) {
      val first = k_add(k, at_k, p->inner);
      for (int j = 0; j < 4; j += o->width)
        there[j] = operand_at_k(m, o, plus(k, first, j), size);
    } else if (!o->along_k) {
      val line = plus(k, p->line, i * unit_step(p));
      there[0] = p->table >= 0 ? read_table(m, p, at_k, line, size)
                               : operand_at_k(m, o, k_add(k, at_k, line), size);
    }
    load_unit(m, p, i, there);
  }
}

/* --- halves of numbers --- */

enum { PACK_HALF_2X16 = 58 };

/* Two halves in a word, the first in its lower part. How a conversion to bf16 rounds is the driver's choice. */
static val pack(kernel *k, sn_dtype half, const val x[2]) {
  spirv *s = &k->s;
  val both = k_vector(k, 2, x);
  if (half == SN_F16)
    return spirv_glsl(s, PACK_HALF_2X16, s->u32, SPV_ARGS(both));
  spirv_id type = spirv_vector(s, spirv_type(s, SPV_TypeFloat, SPV_ARGS(16, 0)), 2);
  val halves = spirv_op(s, SPV_FConvert, type, SPV_ARGS(both));
  return spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(halves));
}

/* x as the nearest number of 8 bits (a bf16) and what that leaves: x (2^16 + 1) less what it has above x. What is
 * too large for that stays whole, and so do infinities. */
static void cut(kernel *k, val x, val *out_half, val *out_rest) {
  val zero = k_f32(k, 0), most = k_f32(k, 0x1p110f), factor = k_f32(k, 65537);
  val much = k_mul(k, x, factor), above = k_sub(k, much, x);
  val half = k_sub(k, much, above), small = k_lt(k, k_abs(k, x), most);
  *out_half = k_select(k, small, half, x);
  *out_rest = k_select(k, small, k_sub(k, x, half), zero);
}

/* Two neighbours to word `at`. */
static void store_two(matmul *m, const half_panel *p, val at, const val *x) {
  kernel *k = m->e->k;
  val half[2] = {x[0], x[1]}, rest[2];
  for (int i = 0; i < 2 && p->half == SN_BF16; i++)
    cut(k, x[i], &half[i], &rest[i]);
  matrix_shared_set(k, p->array, at, pack(k, p->half, half));
  val there = plus(k, at, p->rest ? p->lines * p->stride : 0);
  if (p->rest)
    matrix_shared_set(k, p->array, there, pack(k, p->half, rest));
}

/* --- storing --- */

static val word_at(kernel *k, const half_panel *p, val line, val inner) {
  val at = k_mul(k, line, k_index(k, p->stride));
  at = k_add(k, at, high_part(k, inner, 2));
  return plus(k, at, p->first);
}

static void store_kept(matmul *m, half_panel *p) {
  kernel *k = m->e->k;
  val first = word_at(k, p, p->line, p->inner);
  for (int i = 0; i < p->units; i++)
    for (int j = 0; j < 4; j += 2) {
      val x[2] = {k_get(k, p->kept[4 * i + j])};
      x[1] = k_get(k, p->kept[4 * i + j + 1]);
      store_two(m, p, plus(k, first, i * unit_step(p) * p->stride + j / 2), x);
    }
}

static void store_computed(matmul *m, half_panel *p, val at_k, val size) {
  kernel *k = m->e->k;
  const operand *o = &p->o;
  int words = length_of(p) / 2;
  val inner = times(k, low_part(k, k->local, words), 2), first = high_part(k, k->local, words);
  val end = k_index(k, p->lines), by = k_index(k, p->threads / words), x[2];
  k_loop l = k_loop_begin(k, first, end, by);
  for (int j = 0; j < 2; j++) {
    val along = plus(k, inner, j);
    val row = k_add(k, m->begin[o->side], o->along_k ? l.i : along);
    val there = k_add(k, at_k, o->along_k ? along : l.i);
    x[j] = operand_element(m, o, row, there, size);
  }
  store_two(m, p, word_at(k, p, l.i, inner), x);
  k_loop_end(k, &l);
}

void half_panel_store(matmul *m, half_panel *p, val at_k, val size) {
  if (p->o.plain)
    store_kept(m, p);
  else
    store_computed(m, p, at_k, size);
}
