/* See drawn_pairs.h. */
#include "support/drawn_pairs.h"

#include "ir/dim.h"
#include "ir/dtype.h"

#include <stdio.h>
#include <stdlib.h>

enum { ATTEMPTS = 48, PAIR_BYTES = 160 };

static int arguments_of(int op) {
  const drawn_row *row = drawn_op_row(op);
  return row ? (int)strlen(row->takes) : 0;
}

static int64_t arguments_of_all(void) {
  int64_t n = 0;
  for (int op = 1; op < OP_COUNT; op++)
    n += arguments_of(op);
  return n;
}

int64_t op_pair_count(void) { return (OP_COUNT - 1) * arguments_of_all() * PAIR_BETWEENS; }

op_pair op_pair_at(int64_t i) {
  op_pair p = {.between = (pair_between)(i % PAIR_BETWEENS)};
  int64_t each = arguments_of_all(), rest = i / PAIR_BETWEENS;
  p.from = 1 + (int)(rest / each);
  p.argument = (int)(rest % each);
  for (p.to = 1; p.argument >= arguments_of(p.to); p.to++)
    p.argument -= arguments_of(p.to);
  return p;
}

/* What is not exact gets so: nothing can be told of what a step makes of it. */
static sn_value made_exact(drawn_graph *d, sn_value v) {
  const exact_value *known = drawn_known(d, v);
  if (!known || known->err == 0 || !dtype_is_float(known->t.dtype))
    return v;
  sn_value x = drawn_add(d, OP_affine, &v, 1, &(attrs_affine){.mul = 4, .add = 0.25});
  return drawn_add(d, OP_floor, &x, 1, &(attrs_floor){0});
}

static sn_value cut_one(drawn_graph *d, sn_value v, bool always) {
  sn_shape s = drawn_shape_of(d, v);
  int64_t n = s.rank ? drawn_at(d, s.dim[0]) : 0;
  if (n < 1 || (!always && !dim_is_number(s.dim[0])))
    return SN_NONE;
  attrs_slice a = {.stop = n > 1 && !always ? n - 1 : 1, .step = 1};
  return drawn_add(d, OP_slice, &v, 1, &a);
}

static sn_value between(drawn_graph *d, sn_value v, pair_between how) {
  if (how == PAIR_DIRECT || !v.id)
    return v;
  if (how == PAIR_SCALAR)
    return drawn_first(d, v);
  if (drawn_shape_of(d, v).rank == 0)
    v = drawn_reshaped(d, v, SN_SHAPE(1));
  if (how == PAIR_SLICE)
    return cut_one(d, v, false);
  sn_value one = cut_one(d, v, true);
  sn_type t = drawn_type(d, one);
  if (!one.id)
    return one;
  sn_value in[3] = {
      v, drawn_leaf_of(d, t, 0, 0),
      drawn_leaf_of(d, (sn_type){SN_I32, SN_SCALAR}, 0, drawn_at(d, drawn_shape_of(d, v).dim[0]))};
  return drawn_add(d, OP_update_slice, in, 3, &(attrs_update_slice){0});
}

/* Whether v is made of w. */
static bool made_of(const drawn_graph *d, sn_value v, sn_value w) {
  if (v.id == w.id || v.id < w.id)
    return v.id == w.id;
  const node *n = graph_node(d->g, v);
  for (int k = 0; k < n->n_in; k++)
    if (n->in[k].id && made_of(d, n->in[k], w))
      return true;
  return false;
}

/* Two ops and what is between them; false where the argument is not made of the first. */
static bool draw_pair(drawn_graph *d, op_pair p, int attempt) {
  sn_value v = drawn_op_row(p.from)->draw(d, p.from);
  if (!v.id || graph_node(d->g, v)->op != p.from)
    return false;
  if (attempt % 3 == 2 || attempt > 6)
    v = made_exact(d, v);
  d->given = between(d, v, p.between);
  d->given_at = attempt % 2 ? attempt / 2 % 12 : p.argument;
  if (!d->given.id)
    return false;
  v = drawn_op_row(p.to)->draw(d, p.to);
  if (!v.id || graph_node(d->g, v)->op != p.to)
    return false;
  const node *n = graph_node(d->g, v);
  sn_value argument = p.argument < n->n_in ? n->in[p.argument] : SN_NONE;
  return argument.id && made_of(d, argument, d->given) && n->n_in > p.argument;
}

bool op_pair_check(op_pair p, drawn_tally *tally, bool *made, char *why, size_t size,
                   char **out_text) {
  bool ok = true;
  sn_ctx *ctx = NULL;
  *made = false;
  *out_text = NULL;
  if (sn_ctx_create(NULL, &ctx) != SN_OK)
    return true;
  for (int attempt = 0; attempt < ATTEMPTS && !*made; attempt++) {
    uint8_t bytes[PAIR_BYTES];
    drawn_graph d = {0};
    uint64_t seed = (uint64_t)p.from << 24 ^ (uint64_t)p.to << 16 ^ (uint64_t)p.argument << 8 ^
                    (uint64_t)p.between << 4 ^ (uint64_t)attempt << 40;
    (void)drawn_bytes(seed, bytes, sizeof bytes);
    if (drawn_graph_start(&d, ctx, bytes, sizeof bytes) == SN_OK && draw_pair(&d, p, attempt) &&
        drawn_graph_finish(&d) == SN_OK) {
      *made = true;
      ok = drawn_check(&d, tally, why, size);
      if (!ok)
        *out_text = drawn_report(&d, why);
    }
    drawn_graph_end(&d);
  }
  sn_ctx_destroy(ctx);
  return ok;
}
