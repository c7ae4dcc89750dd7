/* What each k adds to places and checks, in shared memory. See emit_matmul_direct.h.
 *
 * Words of a k: the place in the operand that has checks, its checks, the place in the other operand. */
#include "device/vulkan/emit_matmul_direct.h"

enum { WORDS = 4, CHECKS = 2, OTHER = 3 };

static bool counts_k(const operand *o) {
  return o->plain && (!o->along_k || o->width == 1) && o->product->n_k > 1;
}

/* One product whose operands have no k inside, of which at most one has checks. */
bool direct_has_table(const emitter *e, const matmul_part *p, int64_t length) {
  operand o[2];
  if (p->n_accs != 1 || p->accs[0].n_products != 1 || e->env.wide || length > DIRECT_TABLE)
    return false;
  for (int side = 0; side < 2; side++)
    vk_operand_read(e, p, &p->accs[0].products[0], side, &o[side]);
  return counts_k(&o[0]) && counts_k(&o[1]) && o[0].n_checks <= CHECKS && o[1].n_checks == 0;
}

void direct_fill_table(direct *d, val from, val to, val size) {
  kernel *k = d->m.e->k;
  d->table_first = from;
  k_loop l = k_loop_rolled(k, k_add(k, from, k->local), to, k_index(k, k->threads));
  k->ones = true; /* strides of 1 are strides like others: one shader */
  val words[WORDS];
  for (int i = 0; i < WORDS; i++)
    words[i] = k_u32(k, 0);
  for (int i = 0; i < 2; i++) {
    operand_k there = operand_at_k(&d->m, &d->sides[i].o, l.i, size);
    if (there.at)
      words[d->sides[i].o.side ? OTHER : 0] = k_bits(k, there.at, k->s.u32);
    for (int c = 0; c < d->sides[i].o.n_checks; c++)
      if (there.check[c])
        words[1 + c] = k_bits(k, there.check[c], k->s.u32);
  }
  k->ones = false;
  k_shared_set(k, d->vectors, k_sub(k, l.i, from), k_vector(k, WORDS, words));
  k_loop_end(k, &l);
  k_barrier_shared(k);
}

operand_k direct_table_at(direct *d, const direct_side *s, val at_k, val size) {
  kernel *k = d->m.e->k;
  operand_k there = {.inside = k_lt(k, at_k, size)};
  val at = k_min(k, at_k, plus(k, size, -1));
  val words = k_shared_get(k, d->vectors, k_sub(k, at, d->table_first));
  there.at = k_bits(k, k_part(k, words, s->o.side ? OTHER : 0), k->index);
  for (int c = 0; c < s->o.n_checks; c++)
    there.check[c] = k_bits(k, k_part(k, words, 1 + c), k->index);
  return there;
}
