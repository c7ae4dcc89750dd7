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
  p->there = k_var(k, k_u32(k, 0));
  for (int i = 0; i < p->units * 4; i++)
    p->kept[i] = k_var(k, k_f32(k, 0));
}

/* Elements that do not exist count as 0, but not at once: nothing may wait for a load before its number is used. Behind the last k
 * the last one is read again. Of a scaled product one zero is enough there: what it meets is an element of the same row or column
 * that is multiplied anyway (and a workgroup with infinities starts again). */
static bool needs_zeros(const half_panel *p) {
  return p->o.n_checks > 0 || p->o.side == 0 || !p->scaled;
}

/* The bit of `there` for an element; operands with checks. */
static val bit_of(kernel *k, const half_panel *p, int element) {
  return k_u32(k, 1u << element / p->o.width);
}

static void load_unit(matmul *m, half_panel *p, int unit, const operand_k *there) {
  kernel *k = m->e->k;
  const operand *o = &p->o;
  val x[4], zero = k_u32(k, 0);
  for (int j = 0; j < 4; j += o->width) {
    int row = o->along_k ? unit : j;
    val ok = operand_load_any(m, o, &p->at, row, &there[o->along_k ? j : 0], x + j);
    if (o->n_checks == 0)
      continue;
    val one = k_select(k, ok, bit_of(k, p, 4 * unit + j), zero);
    k_set(k, p->there, unit + j == 0 ? one : k_or(k, k_get(k, p->there), one));
  }
  for (int j = 0; j < 4; j++)
    k_set(k, p->kept[4 * unit + j], x[j]);
}

/* Whether an element of this thread is there. */
static val is_there(matmul *m, const half_panel *p, int element, val at_k, val size) {
  kernel *k = m->e->k;
  if (p->o.n_checks > 0) {
    val bit = k_and(k, k_get(k, p->there), bit_of(k, p, element));
    return k_ne(k, bit, k_u32(k, 0));
  }
  val in =
      p->o.along_k ? plus(k, p->inner, element % 4) : plus(k, p->line, element / 4 * unit_step(p));
  return k_lt(k, k_add(k, at_k, in), size);
}

void half_panel_settle(matmul *m, half_panel *p, val at_k, val size) {
  kernel *k = m->e->k;
  val ok[4] = {0}, zero = k_f32(k, 0);
  if (!p->o.plain || !needs_zeros(p))
    return;
  for (int i = 0; i < 4 * p->units; i++) {
    bool again = p->o.n_checks == 0 && (p->o.along_k ? i >= 4 : i % 4 > 0);
    if (i % p->o.width == 0 && !again)
      ok[i % 4] = is_there(m, p, i, at_k, size);
    int of = p->o.n_checks == 0 && !p->o.along_k ? 0 : i % 4 / p->o.width * p->o.width;
    k_set(k, p->kept[i], k_select(k, ok[of], k_get(k, p->kept[i]), zero));
  }
}

/* A line of the table for the panel at k: neighbouring panels have tables of their own, so that one is filled while another is
 * read. */
static val table_at(kernel *k, const half_panel *p, val at_k, val line) {
  val second = low_part(k, high_part(k, at_k, p->depth), 2);
  val at = k_add(k, times(k, second, 4 * p->depth), times(k, line, 4));
  return plus(k, at, p->table);
}

void half_panel_fill_table(matmul *m, half_panel *p, val at_k, val size) {
  kernel *k = m->e->k;
  if (p->table < 0)
    return;
  k_if mine = k_if_begin(k, k_lt(k, k->local, k_index(k, p->depth)));
  operand_k there = operand_at_k(m, &p->o, k_add(k, at_k, k->local), size);
  val at = table_at(k, p, at_k, k->local), zero = k_index(k, 0);
  for (int i = 0; i <= p->o.n_checks; i++) {
    val x = i ? there.check[i - 1] : there.at;
    k_shared_set(k, p->array, plus(k, at, i), k_bits(k, x ? x : zero, k->s.u32));
  }
  k_if_end(k, &mine);
}

/* What element `line` of the panel at k adds. */
static operand_k read_table(matmul *m, const half_panel *p, val at_k, val line, val size) {
  kernel *k = m->e->k;
  val at = table_at(k, p, at_k, line);
  operand_k there = {.at = k_bits(k, k_shared_get(k, p->array, at), k->index)};
  for (int c = 0; c < p->o.n_checks; c++) {
    val word = k_shared_get(k, p->array, plus(k, at, 1 + c));
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

/* Two bf16 in a word, the first in its lower part. How a conversion rounds is the driver's choice. */
static val pack(kernel *k, const val x[2]) {
  spirv *s = &k->s;
  spirv_id type = spirv_vector(s, spirv_type(s, SPV_TypeFloat, SPV_ARGS(16, 0)), 2);
  val both = k_vector(k, 2, x), halves = spirv_op(s, SPV_FConvert, type, SPV_ARGS(both));
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

void half_panel_words_of(kernel *k, const half_panel *p, val scale, const val x[2], val out[2]) {
  val half[2] = {x[0], x[1]}, rest[2];
  if (p->half == SN_F16) {
    for (int i = 0; i < 2 && p->scaled; i++)
      half[i] = k_mul(k, x[i], scale);
    k_two_halves(k, half, &out[0], p->rest ? &out[1] : NULL);
    return;
  }
  for (int i = 0; i < 2; i++)
    cut(k, x[i], &half[i], &rest[i]);
  out[0] = pack(k, half);
  if (p->rest)
    out[1] = pack(k, rest);
}

/* --- storing --- */

static val word_at(kernel *k, const half_panel *p, val line, val inner) {
  val at = k_mul(k, line, k_index(k, p->stride));
  at = k_add(k, at, high_part(k, inner, 2));
  return plus(k, at, p->first);
}
static val rest_at(kernel *k, const half_panel *p, val at) {
  return plus(k, at, p->lines * p->stride);
}

static void store_kept(matmul *m, half_panel *p, val scale) {
  kernel *k = m->e->k;
  val first = word_at(k, p, p->line, p->inner);
  for (int i = 0; i < p->units; i++) {
    val x[4], two[2], word[2][2];
    for (int j = 0; j < 4; j++)
      x[j] = k_get(k, p->kept[4 * i + j]);
    for (int j = 0; j < 2; j++) {
      half_panel_words_of(k, p, scale, x + 2 * j, two);
      word[0][j] = two[0];
      word[1][j] = two[1];
    }
    val at = plus(k, first, i * unit_step(p) * p->stride);
    for (int j = 0; j < 2; j++) {
      k_shared_set(k, p->array, plus(k, at, j), word[0][j]);
      if (p->rest)
        k_shared_set(k, p->array, plus(k, rest_at(k, p, at), j), word[1][j]);
    }
  }
}

/* A walk over the pairs of an operand that is a program: a thread has the same place in several lines. */
typedef struct pairs {
  k_loop l;
  val inner, at;
} pairs;

static pairs pairs_begin(kernel *k, const half_panel *p) {
  int words = length_of(p) / 2;
  pairs w = {.inner = times(k, low_part(k, k->local, words), 2)};
  val first = high_part(k, k->local, words), end = k_index(k, p->lines);
  w.l = k_loop_begin(k, first, end, k_index(k, p->threads / words));
  w.at = word_at(k, p, w.l.i, w.inner);
  return w;
}

static void compute_pair(matmul *m, const half_panel *p, const pairs *w, val at_k, val size,
                         val *out) {
  kernel *k = m->e->k;
  const operand *o = &p->o;
  for (int j = 0; j < 2; j++) {
    val along = plus(k, w->inner, j);
    val row = k_add(k, m->begin[o->side], o->along_k ? w->l.i : along);
    val there = k_add(k, at_k, o->along_k ? along : w->l.i);
    out[j] = operand_element(m, o, row, there, size);
  }
}

void half_panel_compute(matmul *m, half_panel *p, val at_k, val size) {
  kernel *k = m->e->k;
  val x[2];
  k_set(k, p->largest, k_f32(k, 0));
  pairs w = pairs_begin(k, p);
  compute_pair(m, p, &w, at_k, size, x);
  for (int j = 0; j < 2; j++) {
    val most = k_get(k, p->largest);
    k_set(k, p->largest, k_max(k, most, k_abs(k, x[j])));
    k_shared_set(k, p->array, j ? rest_at(k, p, w.at) : w.at, k_bits(k, x[j], k->s.u32));
  }
  k_loop_end(k, &w.l);
}

static void store_computed(matmul *m, half_panel *p, val scale, val at_k, val size) {
  kernel *k = m->e->k;
  val x[2], word[2];
  pairs w = pairs_begin(k, p);
  if (p->scaled)
    for (int j = 0; j < 2; j++)
      x[j] = k_bits(k, k_shared_get(k, p->array, j ? rest_at(k, p, w.at) : w.at), k->s.f32);
  else
    compute_pair(m, p, &w, at_k, size, x);
  half_panel_words_of(k, p, scale, x, word);
  k_shared_set(k, p->array, w.at, word[0]);
  if (p->rest)
    k_shared_set(k, p->array, rest_at(k, p, w.at), word[1]);
  k_loop_end(k, &w.l);
}

void half_panel_store(matmul *m, half_panel *p, val at_k, val size) {
  val scale = p->scaled ? scale_factor(m->e->k, p) : 0;
  if (p->o.plain)
    store_kept(m, p, scale);
  else
    store_computed(m, p, scale, at_k, size);
}
