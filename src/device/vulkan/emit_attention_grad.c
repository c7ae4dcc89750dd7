/* ATTENTION_GRAD: first what a row's gradients have in common; then a workgroup passes over the keys that a block of queries sees
 * for dq, and one over the queries that see a block of keys for dk and dv, heads of a group in their order. Scores are
 * computed again. Where that would be too few workgroups, each passes over a part, and a further launch adds the parts up
 * in their order. See emit_attention_grad.h. */
#include "device/vulkan/emit_attention_grad.h"

#include <math.h>

enum { ROWS = 64, GROUPS = 2, DOT_LANES = 16 };

/* --- rows --- */

static val common_at(emitter *e, const backward *g, val b, val head, val i) {
  kernel *k = e->k;
  val row = k_add(k, k_mul(k, b, k_size(k, g->a.hq)), head);
  return k_add(k, k_mul(k, row, k_size(k, g->a.sq)), i);
}

/* d_lse - d_out·out of every query. */
static sn_status find_common(emitter *e, const backward *g) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  sn_dim all[3] = {g->a.b, g->a.hq, g->a.sq};
  amount sq = amount_of(&all[2]), hq = amount_of(&all[1]);
  row_threads t = emit_row_threads(e, DOT_LANES, false);
  val number = k_add(k, k_mul(k, k->group, k_index(k, t.rows)), t.row), at[4];
  val inside = k_lt(k, number, k_sizes(k, 3, all)), sum = k_var(k, k_f32(k, 0));
  val rest = k_divide(k, number, &sq, &at[2]);
  at[0] = k_divide(k, rest, &hq, &at[1]);
  k_if there = k_if_begin(k, inside);
  k_loop d = k_loop_begin(k, t.lane, k_size(k, g->a.dv), k_index(k, DOT_LANES));
  at[3] = d.i;
  val x = core_load(e, g->out, at), y = core_load(e, g->d_out, at);
  k_set(k, sum, k_fma(k, x, y, k_get(k, sum)));
  k_loop_end(k, &d);
  k_if_end(k, &there);
  val dot = emit_reduce_lanes(e, &t, REDUCE_SUM, SN_F32, k_get(k, sum));
  k_if writes = k_if_begin(k, k_and(k, inside, k_eq(k, t.lane, k_index(k, 0))));
  val common = g->d_lse->value ? k_sub(k, core_load(e, g->d_lse, at), dot) : k_neg(k, dot);
  k_store(k, k_scratch(k, g->common), number, common);
  k_if_end(k, &writes);
  kernel_grid(k, 1, &(amount){3, t.rows, all});
  return emit_launch(e, false);
}

grad_query grad_query_of(emitter *e, const backward *g, query q) {
  kernel *k = e->k;
  grad_query x = {.q = q};
  val none = k_f32(k, -INFINITY), zero = k_f32(k, 0), lse = k_var(k, none), common = k_var(k, zero);
  k_if there = k_if_begin(k, q.there);
  k_set(k, lse, core_load(e, g->lse, (val[]){q.b, q.head, q.i}));
  val at = common_at(e, g, q.b, q.head, q.i);
  k_set(k, common, k_load(k, k->s.f32, k_scratch(k, g->common), at));
  k_if_end(k, &there);
  x.lse = k_get(k, lse);
  x.common = k_get(k, common);
  return x;
}

void grad_weights(emitter *e, const backward *g, const grad_query *q, val j, val product,
                  val arrives, val *p, val *ds, val *dx) {
  kernel *k = e->k;
  val slope, score = score_of(e, &g->a, &q->q, j, product, dx ? &slope : NULL);
  val none = k_f32(k, -INFINITY), zero = k_f32(k, 0), masked = k_eq(k, score, none);
  masked = k_or(k, masked, k_eq(k, q->lse, none));
  val weight = emit_float1(e, ALU_exp, k_sub(k, score, q->lse));
  weight = k_select(k, masked, zero, weight);
  val change = k_mul(k, weight, k_add(k, arrives, q->common));
  if (p)
    *p = weight;
  if (ds)
    *ds = k_select(k, masked, zero, change);
  if (dx)
    *dx = k_select(k, masked, zero, k_mul(k, change, slope));
}

/* --- blocks --- */

typedef struct grad_block {
  tiles t;
  grad_cut c;
  val part, from, to; /* from … to-1: what the workgroup passes over */
  int64_t
      bytes[2]; /* of scratch, where it is cut: sums of the parts, f32 [parts] and as the result */
  val b, kv, first, start; /* start: its first column of results */
  val rows, keys;          /* of the list of queries; keys that there are */
  val low, high;           /* dq: the keys that the queries see */
  grad_query q[4];
  val sum[4][ATTENTION_GROUPS], other[4][ATTENTION_GROUPS];
  val flags;
} grad_block;

/* Workgroups: entries and kv heads, blocks of queries or keys, parts, columns of results. */
static kernel *open_block(emitter *e, const backward *g, const amount *list, sn_dim width,
                          grad_block *w) {
  w->t = tiles_for(e, ROWS, width, GROUPS);
  kernel *k = emit_open(e, tiles_threads(&w->t));
  if (!k)
    return NULL;
  tiles_open(e, &w->t);
  w->flags = k_shared(k, k->s.u32, 2 * k->threads);
  amount columns = amount_tiles(&width, tiles_width(&w->t)), heads = amount_of(&g->a.hk);
  amount blocks = {list->n, w->t.rows, list->dims}, parts = grad_parts(&w->c);
  val number, rest = k_divide(k, k->group, &columns, &number), block_number;
  w->start = k_mul(k, number, k_index(k, tiles_width(&w->t)));
  rest = grad_range(k, &w->c, rest, &w->part, &w->from, &w->to);
  rest = k_divide(k, rest, &blocks, &block_number);
  w->b = k_divide(k, rest, &heads, &w->kv);
  w->first = k_mul(k, block_number, k_index(k, w->t.rows));
  w->rows = k_sizes(k, 2, g->a.rows);
  w->keys = k_size(k, g->a.skv);
  kernel_grid(k, 4, (amount[]){{2, 1, (sn_dim[]){g->a.b, g->a.hk}}, blocks, columns, parts});
  return k;
}

/* What a workgroup passes over, cut where its list alone has too few blocks. */
static grad_cut cut_of(const emitter *e, const backward *g, const amount *list, amount over) {
  const sn_dim heads[2] = {g->a.b, g->a.hk};
  int64_t blocks = (sizes_most(&e->env, list->n, list->dims) + ROWS - 1) / ROWS;
  int64_t groups = sizes_most(&e->env, 2, heads) * blocks;
  return (grad_cut){over, attention_part(e, groups, sizes_most(&e->env, over.n, over.dims))};
}

static row_list list_of(emitter *e, const grad_block *w, const strided *of, sn_dim width, bool keys,
                        val first) {
  return (row_list){.of = of,
                    .width = width,
                    .b = w->b,
                    .head = w->kv,
                    .packed = !keys,
                    .first = first,
                    .low = k_index(e->k, 0),
                    .high = keys ? w->keys : w->rows};
}

/* A result's columns of a thread. */
static void put_sums(emitter *e, const grad_block *w, const strided *to, int which, int r,
                     const val *at, val there) {
  kernel *k = e->k;
  val width = k_size(k, to->dim[3]), (*sum)[ATTENTION_GROUPS];
  sum = (val(*)[ATTENTION_GROUPS])(which ? w->other : w->sum);
  for (int i = 0; i < 4 * w->t.groups; i++) {
    val place = k_add(k, w->t.tx, k_index(k, i / 4 * w->t.wide));
    val column = k_add(k, k_add(k, w->start, k_shl(k, place, 2)), k_index(k, i % 4));
    k_if inside = k_if_begin(k, k_and(k, there, k_lt(k, column, width)));
    val x = k_part(k, k_get(k, sum[r][i / 4]), i % 4), all[4] = {at[0], at[1], at[2], column};
    grad_put(e, &w->c, to, w->bytes[which], w->part, all, x);
    k_if_end(k, &inside);
  }
}

typedef void (*run_block)(emitter *e, const backward *g, grad_block *w, val careful);
typedef struct pass_args {
  const backward *g;
  grad_block *w;
  run_block run;
} pass_args;
static void run_pass(emitter *e, void *user, val careful) {
  pass_args *p = user;
  tile_sums_clear(e, &p->w->t, p->w->sum);
  tile_sums_clear(e, &p->w->t, p->w->other);
  p->run(e, p->g, p->w, careful);
}

static void run_passes(emitter *e, const backward *g, grad_block *w, run_block run, int n) {
  val(*const sums[])[ATTENTION_GROUPS] = {w->sum, w->other};
  tile_sums_open(e, &w->t, w->sum);
  tile_sums_open(e, &w->t, w->other);
  tile_passes(e, &w->t, run_pass, &(pass_args){g, w, run}, n, sums, w->flags);
}

/* --- dq --- */

static void pass_keys(emitter *e, const backward *g, grad_block *w, val careful) {
  kernel *k = e->k;
  const attending *a = &g->a;
  val x[4][4], y[4][4];
  k_loop j = k_loop_begin(k, w->low, w->high, k_index(k, w->t.columns));
  row_list q = list_of(e, w, a->q, a->d, false, w->first),
           keys = list_of(e, w, a->k, a->d, true, j.i);
  row_list d_out = list_of(e, w, g->d_out, a->dv, false, w->first);
  row_list values = list_of(e, w, a->v, a->dv, true, j.i);
  keys.high = values.high = w->high; /* behind it may be anything */
  tile_product(e, a, &w->t, &q, &keys, x);
  tile_product(e, a, &w->t, &d_out, &values, y);
  for (int i = 0; i < 16; i++) {
    val key = k_add(k, j.i, tile_column(e, &w->t, i % 4)), dx;
    grad_weights(e, g, &w->q[i / 4], key, x[i / 4][i % 4], y[i / 4][i % 4], NULL, NULL, &dx);
    x[i / 4][i % 4] = dx;
  }
  tile_put(e, &w->t, x);
  k_barrier(k);
  tile_sum(e, a, &w->t, &keys, w->start, careful, w->sum);
  k_loop_end(k, &j);
}

static sn_status grad_queries(emitter *e, const backward *g, grad_rest *rest) {
  const attending *a = &g->a;
  sn_dim width = size_most(&e->env, a->d);
  amount list = {2, 1, a->rows};
  grad_block w = {.c = cut_of(e, g, &list, amount_of(&a->skv))};
  w.bytes[0] = grad_take_parts(e, &w.c, &g->to[DQ]);
  kernel *k = open_block(e, g, &list, width, &w);
  if (!k)
    return SN_ERR_NO_MEMORY;
  val end = k_min(k, k_add(k, w.first, k_index(k, w.t.rows)), w.rows);
  queries_see(e, a, w.b, w.first, k_sub(k, end, k_index(k, 1)), &w.low, &w.high);
  w.low = k_max(k, w.low, w.from);
  w.high = k_min(k, w.high, w.to);
  for (int r = 0; r < 4; r++) {
    val number = k_add(k, w.first, tile_row(e, &w.t, r));
    w.q[r] = grad_query_of(e, g, query_at(e, a, w.b, w.kv, number));
    w.q[r].q.high = k_min(k, w.q[r].q.high, w.high); /* a tile may reach into the next part */
  }
  run_passes(e, g, &w, pass_keys, 1);
  for (int r = 0; r < 4; r++) {
    const query *q = &w.q[r].q;
    put_sums(e, &w, &g->to[DQ], 0, r, (val[]){w.b, q->head, q->i}, q->there);
  }
  grad_add_later(rest, &w.c, &g->to[DQ], w.bytes[0]);
  return emit_launch(e, true);
}

/* --- dk, dv --- */

/* Queries first … of the list against the block's keys. */
static void pass_tile(emitter *e, const backward *g, grad_block *w, val first, val careful) {
  kernel *k = e->k;
  const attending *a = &g->a;
  val x[4][4], y[4][4];
  row_list q = list_of(e, w, a->q, a->d, false, first),
           keys = list_of(e, w, a->k, a->d, true, w->first);
  row_list d_out = list_of(e, w, g->d_out, a->dv, false, first);
  row_list values = list_of(e, w, a->v, a->dv, true, w->first);
  for (int c = 0; c < 4; c++) {
    val number = k_add(k, first, tile_column(e, &w->t, c));
    w->q[c] = grad_query_of(e, g, query_at(e, a, w->b, w->kv, number));
  }
  tile_product(e, a, &w->t, &keys, &q, x);
  tile_product(e, a, &w->t, &values, &d_out, y);
  for (int i = 0; i < 16; i++) {
    val key = k_add(k, w->first, tile_row(e, &w->t, i / 4)), p, dx;
    grad_weights(e, g, &w->q[i % 4], key, x[i / 4][i % 4], y[i / 4][i % 4], &p, NULL, &dx);
    x[i / 4][i % 4] = p;
    y[i / 4][i % 4] = dx;
  }
  tile_put(e, &w->t, x);
  k_barrier(k);
  tile_sum(e, a, &w->t, &d_out, w->start, careful, w->other);
  tile_put(e, &w->t, y);
  k_barrier(k);
  tile_sum(e, a, &w->t, &q, w->start, careful, w->sum);
}

static void pass_queries(emitter *e, const backward *g, grad_block *w, val careful) {
  kernel *k = e->k;
  val size = k_index(k, w->t.columns), one = k_index(k, 1), low, high;
  k_loop i = k_loop_begin(k, w->from, w->to, size);
  val last = k_sub(k, k_min(k, k_add(k, i.i, size), w->rows), one);
  queries_see(e, &g->a, w->b, i.i, last, &low, &high);
  val end = k_add(k, w->first, k_index(k, w->t.rows));
  val before = k_lt(k, low, end), behind = k_lt(k, w->first, high);
  k_if seen = k_if_begin(k, k_and(k, before, behind));
  pass_tile(e, g, w, i.i, careful);
  k_if_end(k, &seen);
  k_loop_end(k, &i);
}

static sn_status grad_keys(emitter *e, const backward *g, bool after, grad_rest *rest) {
  const attending *a = &g->a;
  sn_dim width = max_i64(size_most(&e->env, a->d), size_most(&e->env, a->dv));
  amount list = amount_of(&a->skv);
  grad_block w = {.c = cut_of(e, g, &list, (amount){2, 1, a->rows})};
  for (int i = 0; i < 2; i++)
    w.bytes[i] = grad_take_parts(e, &w.c, &g->to[DK + i]);
  kernel *k = open_block(e, g, &list, width, &w);
  if (!k)
    return SN_ERR_NO_MEMORY;
  run_passes(e, g, &w, pass_queries, 2);
  for (int r = 0; r < 4; r++) {
    val key = k_add(k, w.first, tile_row(e, &w.t, r)), there = k_lt(k, key, w.keys);
    for (int i = 0; i < 2; i++)
      if (g->to[DK + i].value)
        put_sums(e, &w, &g->to[DK + i], i, r, (val[]){w.b, w.kv, key}, there);
  }
  for (int i = 0; i < 2; i++)
    grad_add_later(rest, &w.c, &g->to[DK + i], w.bytes[i]);
  return emit_launch(e, after);
}

/* dq, dk and dv by the kernels for few rows. */
static sn_status grad_few(emitter *e, const backward *g) {
  for (int which = DQ; which <= DV; which++)
    if (g->to[which].value)
      SN_TRY(grad_solo(e, g, which));
  return SN_OK;
}

/* dk and dv wait for nothing that dq makes: both run side by side. */
static sn_status grad_many(emitter *e, const backward *g) {
  bool matrix = grad_matrix_fits(e, g), keys = g->to[DK].value || g->to[DV].value;
  bool queries = g->to[DQ].value != 0, flash = grad_flash_fits(e, g);
  grad_rest rest = {0};
  if (flash)
    SN_TRY(grad_flash(e, g, &rest));
  if (queries && !flash)
    SN_TRY(matrix ? grad_matrix(e, g, false, true, &rest) : grad_queries(e, g, &rest));
  if (keys && !flash)
    SN_TRY(matrix ? grad_matrix(e, g, true, !queries, &rest) : grad_keys(e, g, !queries, &rest));
  return grad_add_all(e, &rest);
}

sn_status emit_attention_grad(emitter *e, const part *p) {
  const core_part *c = &p->u.core;
  backward g = {.a = attending_of(c),
                .lse = &c->in[7],
                .out = &c->in[8],
                .d_out = &c->in[9],
                .d_lse = &c->in[10],
                .to = c->out};
  bool few = grad_solo_fits(e, &g), bias = g.a.bias->value && c->out[DBIAS].value;
  bool sinks = g.a.sinks->value && c->out[DSINKS].value;
  sn_dim rows[3] = {g.a.b, g.a.hq, g.a.sq};
  if ((!few && !grad_flash_fits(e, &g)) || bias || sinks) {
    g.common = scratch_take(&e->env, sizes_most(&e->env, 3, rows) * 4);
    SN_TRY(find_common(e, &g));
  }
  SN_TRY(few ? grad_few(e, &g) : grad_many(e, &g));
  if (bias)
    SN_TRY(grad_bias(e, &g));
  return sinks ? grad_sinks(e, &g) : SN_OK;
}
