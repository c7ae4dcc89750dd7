/* Gradients of attention's bias and sinks, which may be sums over everything: a workgroup takes what is one tile of the result, and
 * passes over all that is broadcast to it. See emit_attention_grad.h. */
#include "device/vulkan/emit_attention_grad.h"

#include <math.h>

enum { ROWS = 64 };

/* --- sinks --- */

sn_status grad_sinks(emitter *e, const backward *g) {
  kernel *k = emit_open(e, core_threads(e));
  if (!k)
    return SN_ERR_NO_MEMORY;
  const attending *a = &g->a;
  sn_dim rows[2] = {a->b, a->sq};
  amount sq = amount_of(&rows[1]), hq = amount_of(&a->hq);
  row_threads t = emit_row_threads(e, k->threads, false);
  val head = k->group, at[1] = {head}, sink = core_load(e, a->sinks, at);
  val sum = k_var(k, k_f32(k, 0)), none = k_f32(k, -INFINITY);
  k_loop n = k_loop_begin(k, k->local, k_sizes(k, 2, rows), k_index(k, k->threads));
  val i, b = k_divide(k, n.i, &sq, &i);
  grad_query q = grad_query_of(e, g, query_of_head(e, a, b, head, i));
  k_if there = k_if_begin(k, k_ne(k, q.lse, none));
  val weight = emit_float1(e, ALU_exp, k_sub(k, sink, q.lse));
  k_set(k, sum, k_fma(k, weight, q.common, k_get(k, sum)));
  k_if_end(k, &there);
  k_loop_end(k, &n);
  val all = emit_reduce_lanes(e, &t, REDUCE_SUM, SN_F32, k_get(k, sum));
  k_if one = k_if_begin(k, k_eq(k, k->local, k_index(k, 0)));
  core_store(e, &g->to[DSINKS], at, all);
  k_if_end(k, &one);
  kernel_grid(k, 1, &hq);
  return emit_launch(e, true);
}

/* --- bias --- */

/* Along each axis of [B,Hq,Sq,Skv] a range from … to-1 in steps: all of it where the bias is broadcast. */
typedef struct bias_block {
  tiles t;
  val from[4], to[4], step[4];
  val sum[4][4];
} bias_block;

static bool is_broadcast(const backward *g, int d) { return g->to[DBIAS].stride[d] == 0; }

static void find_block(emitter *e, const backward *g, bias_block *w) {
  kernel *k = e->k;
  const sn_dim *dim = g->to[DBIAS].dim;
  const int tile[4] = {1, 1, w->t.rows, w->t.columns};
  amount grid[4];
  val rest = k->group;
  for (int d = 3; d >= 0; d--) {
    val number;
    w->step[d] = k_index(k, tile[d]);
    grid[d] = (amount){.n = 0, .tile = 1};
    w->from[d] = k_index(k, 0);
    w->to[d] = k_size(k, dim[d]);
    if (is_broadcast(g, d))
      continue;
    grid[d] = amount_tiles(&dim[d], tile[d]);
    rest = k_divide(k, rest, &grid[d], &number);
    w->from[d] = k_mul(k, number, w->step[d]);
    w->to[d] = k_min(k, k_add(k, w->from[d], w->step[d]), w->to[d]);
  }
  kernel_grid(k, 4, grid);
}

/* One tile of scores of a head: at is where it begins. */
static void add_tile(emitter *e, const backward *g, bias_block *w, const val at[4]) {
  kernel *k = e->k;
  const attending *a = &g->a;
  amount group = amount_of(&a->rows[0]);
  val kv = k_divide(k, at[1], &group, NULL), zero = k_index(k, 0), x[4][4], y[4][4];
  val rows = k_size(k, a->sq), keys = k_size(k, a->skv);
  row_list q = {.of = a->q, .width = a->d, .b = at[0], .head = at[1], .first = at[2], .low = zero};
  q.high = rows;
  row_list d_out = q, key = q, value;
  d_out.of = g->d_out;
  d_out.width = a->dv;
  key.of = a->k;
  key.head = kv;
  key.first = at[3];
  key.high = keys;
  value = key;
  value.of = a->v;
  value.width = a->dv;
  tile_product(e, a, &w->t, &q, &key, x);
  tile_product(e, a, &w->t, &d_out, &value, y);
  for (int r = 0; r < 4; r++) {
    val i = k_add(k, at[2], tile_row(e, &w->t, r));
    grad_query row = grad_query_of(e, g, query_of_head(e, a, at[0], at[1], i));
    for (int c = 0; c < 4; c++) {
      val j = k_add(k, at[3], tile_column(e, &w->t, c)), ds;
      grad_weights(e, g, &row, j, x[r][c], y[r][c], NULL, &ds, NULL);
      k_set(k, w->sum[r][c], k_add(k, k_get(k, w->sum[r][c]), ds));
    }
  }
}

/* --- what is stored --- */

static void put_bias(emitter *e, const backward *g, const val at[4], val x) {
  kernel *k = e->k;
  val all = k_bool(k, true);
  for (int d = 2; d < 4; d++)
    if (!is_broadcast(g, d))
      all = k_and(k, all, k_lt(k, at[d], k_size(k, g->to[DBIAS].dim[d])));
  k_if there = k_if_begin(k, all);
  core_store(e, &g->to[DBIAS], at, x);
  k_if_end(k, &there);
}

static void put_each(emitter *e, const backward *g, const bias_block *w) {
  kernel *k = e->k;
  for (int r = 0; r < 4; r++)
    for (int c = 0; c < 4; c++) {
      val at[4] = {w->from[0], w->from[1], 0, 0};
      at[2] = k_add(k, w->from[2], tile_row(e, &w->t, r));
      at[3] = k_add(k, w->from[3], tile_column(e, &w->t, c));
      put_bias(e, g, at, k_get(k, w->sum[r][c]));
    }
}

static val score_at(emitter *e, const tiles *t, val row, val quad) {
  kernel *k = e->k;
  val at = k_add(k, k_mul(k, row, k_index(k, t->wide + 1)), quad);
  return k_shared_get(k, t->pool, k_add(k, at, k_index(k, t->scores)));
}

/* Sums over rows, columns or both, of the tile in shared memory: a vector, the four columns of a quad. */
static val sum_tile(emitter *e, const tiles *t, val row0, val row1, val quad0, val quad1) {
  kernel *k = e->k;
  val zero = k_f32(k, 0), one = k_index(k, 1);
  val sum = k_var(k, k_vector(k, 4, (val[]){zero, zero, zero, zero}));
  k_loop r = k_loop_begin(k, row0, row1, one);
  k_loop q = k_loop_begin(k, quad0, quad1, one);
  val more = score_at(e, t, r.i, q.i);
  k_set(k, sum, k_add(k, k_get(k, sum), more));
  k_loop_end(k, &q);
  k_loop_end(k, &r);
  return k_get(k, sum);
}

/* A thread a row, a thread a quad, or one for all. */
static void put_sums(emitter *e, const backward *g, const bias_block *w) {
  kernel *k = e->k;
  const tiles *t = &w->t;
  bool rows = is_broadcast(g, 2), columns = is_broadcast(g, 3);
  val x[4][4], zero = k_index(k, 0), one = k_index(k, 1), n_rows = k_index(k, t->rows);
  val n_quads = k_index(k, t->wide), next = k_add(k, k->local, one);
  for (int i = 0; i < 16; i++)
    x[i / 4][i % 4] = k_get(k, w->sum[i / 4][i % 4]);
  tile_put(e, t, x);
  k_barrier(k);
  k_if mine = k_if_begin(k, k_lt(k, k->local, rows && columns ? one : rows ? n_quads : n_rows));
  val sum = sum_tile(e, t, rows ? zero : k->local, rows ? n_rows : next, columns ? zero : k->local,
                     columns ? n_quads : next);
  val at[4] = {w->from[0], w->from[1], zero, zero};
  if (columns) {
    val total = k_part(k, sum, 0);
    for (int c = 1; c < 4; c++)
      total = k_add(k, total, k_part(k, sum, c));
    if (!rows)
      at[2] = k_add(k, w->from[2], k->local);
    put_bias(e, g, at, total);
  }
  for (int c = 0; c < 4 && !columns; c++) {
    at[3] = k_add(k, k_add(k, w->from[3], k->local), k_index(k, c * t->wide));
    put_bias(e, g, at, k_part(k, sum, c));
  }
  k_if_end(k, &mine);
}

sn_status grad_bias(emitter *e, const backward *g) {
  bias_block w = {.t = tiles_for(e, ROWS, 1, 1)};
  kernel *k = emit_open(e, tiles_threads(&w.t));
  if (!k)
    return SN_ERR_NO_MEMORY;
  tiles_open(e, &w.t);
  find_block(e, g, &w);
  val zero = k_f32(k, 0), at[4];
  for (int i = 0; i < 16; i++)
    w.sum[i / 4][i % 4] = k_var(k, zero);
  k_loop l[4];
  for (int d = 0; d < 4; d++) {
    l[d] = k_loop_begin(k, w.from[d], w.to[d], w.step[d]);
    at[d] = l[d].i;
  }
  add_tile(e, g, &w, at);
  for (int d = 3; d >= 0; d--)
    k_loop_end(k, &l[d]);
  if (is_broadcast(g, 2) || is_broadcast(g, 3))
    put_sums(e, g, &w);
  else
    put_each(e, g, &w);
  return emit_launch(e, true);
}
