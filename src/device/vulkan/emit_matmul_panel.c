/* See emit_matmul_panel.h. Threads share the elements out so that neighbouring threads read neighbouring memory:
 * along the rows (a thread then has one row, or four, and several k) or along k (one k, or four, and several rows). */
#include "device/vulkan/emit_matmul_panel.h"

static val component_pointer(kernel *k, val array, val at) {
  spirv *s = &k->s;
  spirv_id type = spirv_pointer(s, SPV_Workgroup, s->f32);
  val vector = high_part(k, at, 4), component = low_part(k, at, 4);
  return spirv_op(s, SPV_AccessChain, type, SPV_ARGS(array, vector, component));
}

val shared_component(kernel *k, val array, val at) {
  return k_shared_read(k, component_pointer(k, array, at));
}

void shared_set_component(kernel *k, val array, val at, val x) {
  k_shared_write(k, component_pointer(k, array, at), x);
}

/* Rows, or k, from load to load of a thread. */
static int load_step(const panel *p) {
  int groups = (p->o.along_k ? p->depth : p->rows) / p->o.width;
  return p->threads / groups;
}

void panel_open(matmul *m, panel *p) {
  kernel *k = m->e->k;
  const operand *o = &p->o;
  if (!o->plain)
    return;
  int groups = (o->along_k ? p->depth : p->rows) / o->width;
  val inner = times(k, low_part(k, k->local, groups), o->width);
  val outer = high_part(k, k->local, groups);
  p->loads = p->rows * p->depth / o->width / p->threads;
  p->row = o->along_k ? outer : inner;
  p->k = o->along_k ? inner : outer;
  p->at.n = o->along_k ? p->loads : 1;
  for (int i = 0; i < p->at.n; i++) {
    val row = plus(k, p->row, i * load_step(p));
    operand_row(m, o, &p->at, i, k_add(k, m->begin[o->side], row));
  }
}

/* --- tables --- */

static val as_float(kernel *k, val x) { return k_bits(k, x ? x : k_index(k, 0), k->s.f32); }

void panel_fill_table(matmul *m, panel *p, val at_k, val size) {
  kernel *k = m->e->k;
  if (p->table < 0)
    return;
  k_if mine = k_if_begin(k, k_lt(k, k->local, k_index(k, p->depth)));
  operand_k there = operand_at_k(m, &p->o, k_add(k, at_k, k->local), size);
  val x[4];
  x[0] = as_float(k, there.at);
  for (int c = 0; c < TABLE_CHECKS; c++)
    x[1 + c] = as_float(k, c < p->o.n_checks ? there.check[c] : 0);
  k_shared_set(k, p->array, plus(k, k->local, p->table), k_vector(k, 4, x));
  k_if_end(k, &mine);
}

/* What element `depth` of the panel at k adds. */
static operand_k read_table(matmul *m, const panel *p, val at_k, val depth, val size) {
  kernel *k = m->e->k;
  val v = k_shared_get(k, p->array, plus(k, depth, p->table));
  operand_k there = {.at = k_bits(k, k_part(k, v, 0), k->index)};
  for (int c = 0; c < p->o.n_checks; c++)
    there.check[c] = k_bits(k, k_part(k, v, 1 + c), k->index);
  there.inside = k_lt(k, k_add(k, at_k, depth), size);
  return there;
}

/* --- loading and storing --- */

/* Nothing here asks what came, and nothing is a variable: to ask, or to copy, is to wait, and there is a panel to multiply first. */
void panel_load(matmul *m, panel *p, val at_k, val size) {
  kernel *k = m->e->k;
  const operand *o = &p->o;
  operand_k there;
  for (int i = 0; o->plain && i < p->loads; i++) {
    val depth = o->along_k ? p->k : plus(k, p->k, i * load_step(p));
    if (p->table >= 0)
      there = read_table(m, p, at_k, depth, size);
    else if (i == 0 || !o->along_k)
      there = operand_at_k(m, o, k_add(k, at_k, depth), size);
    p->there[i] =
        operand_load_any(m, o, &p->at, o->along_k ? i : 0, &there, &p->kept[i * o->width]);
  }
}

val panel_turn(kernel *k, int depth, val at_k) {
  val turn = high_part(k, at_k, 4);
  return low_part(k, depth == 16 ? times(k, turn, 2) : turn, 8);
}

/* Where element [k][row] of a panel is, in components. */
static val place(kernel *k, const panel *p, val at_k, val row) {
  val line = k_mul(k, at_k, k_index(k, 4 * p->stride)), turn = panel_turn(k, p->depth, at_k);
  val turned = k_xor(k, row, times(k, turn, 4));
  return plus(k, k_add(k, line, turned), 4 * p->first);
}

static void store_kept(matmul *m, panel *p) {
  kernel *k = m->e->k;
  val zero = k_f32(k, 0);
  const operand *o = &p->o;
  for (int i = 0; i < p->loads; i++) {
    val row = p->row, at_k = p->k, x[4];
    if (o->along_k)
      row = plus(k, row, i * load_step(p));
    else
      at_k = plus(k, at_k, i * load_step(p));
    val at = place(k, p, at_k, row);
    for (int j = 0; j < o->width; j++)
      x[j] = k_select(k, p->there[i], p->kept[i * o->width + j], zero);
    if (o->width == 4 && !o->along_k)
      k_shared_set(k, p->array, high_part(k, at, 4), k_vector(k, 4, x));
    else
      for (int j = 0; j < o->width; j++)
        shared_set_component(k, p->array, plus(k, at, j * 4 * p->stride), x[j]);
  }
}

/* Elements of an operand that is a program, one after the other. A thread stays at its row, or at its k, so that
 * what depends on that alone is the same in all turns of the loop. */
static void store_computed(matmul *m, panel *p, val at_k, val size) {
  kernel *k = m->e->k;
  const operand *o = &p->o;
  int inner = o->along_k ? p->depth : p->rows, outer = o->along_k ? p->rows : p->depth;
  val stays = low_part(k, k->local, inner), first = high_part(k, k->local, inner);
  val end = k_index(k, outer), by = k_index(k, p->threads / inner);
  k_loop l = k_loop_begin(k, first, end, by);
  val row = o->along_k ? l.i : stays, depth = o->along_k ? stays : l.i;
  val flat = k_add(k, m->begin[o->side], row), there = k_add(k, at_k, depth);
  val x = operand_element(m, o, flat, there, size);
  shared_set_component(k, p->array, place(k, p, depth, row), x);
  k_loop_end(k, &l);
}

void panel_store(matmul *m, panel *p, val at_k, val size) {
  if (p->o.plain)
    store_kept(m, p);
  else
    store_computed(m, p, at_k, size);
}
