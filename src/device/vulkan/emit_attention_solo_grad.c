/* ATTENTION_GRAD where there are few rows: a kernel for each of dq, dk and dv, which need nothing of each other and run side by side. A
 * subgroup has 16 rows (queries for dq, keys for the others) and every n-th 16 columns. d_out·out comes along with d_out·v.
 * See emit_attention_solo.h and emit_attention_grad.h. */
#include "device/vulkan/emit_attention_grad.h"
#include "device/vulkan/emit_attention_solo.h"
#include "device/vulkan/emit_matmul.h"

#include <math.h>

typedef struct solo_grad {
  solo s;
  const backward *g;
  const strided *result;
  int which;              /* DQ, DK, DV */
  bool keys;              /* rows are keys, columns are queries; otherwise the other way round */
  val b, kv, first, rows; /* of the list of rows */
  val columns, from, to;  /* of the other one; those that the workgroup passes over */
  solo_rows own[2], other[2], out, spread; /* q and d_out, or k and v; what the weights are for */
  grad_query q[4];                         /* of the thread's rows, or of its columns */
} solo_grad;

/* --- sizes --- */

static int share_of(const emitter *e, const attending *a, int which) {
  const sn_dim heads[2] = {a->b, a->hk};
  int64_t queries = sizes_most(&e->env, 2, a->rows), keys = size_most(&e->env, a->skv);
  int64_t rows = which == DQ ? queries : keys, blocks = (rows + SOLO_ROWS - 1) / SOLO_ROWS;
  return solo_share(e, blocks * sizes_most(&e->env, 2, heads), which == DQ ? keys : queries,
                    which == DV ? a->dv : a->d);
}

bool grad_solo_fits(const emitter *e, const backward *g) {
  enum { TILES = 6 /* of a subgroup */ };
  const attending *a = &g->a;
  int64_t queries = sizes_most(&e->env, 2, a->rows), keys = size_most(&e->env, a->skv);
  bool fits = solo_fits(e, a);
  for (int which = DQ; which <= DV && fits; which++)
    fits = (which == DQ ? keys : queries) <= (int64_t)TILES * SOLO_ROWS * share_of(e, a, which);
  return fits;
}

/* --- where --- */

static void find_block(solo_grad *w) {
  emitter *e = w->s.e;
  kernel *k = e->k;
  const attending *a = w->s.a;
  amount heads = amount_of(&a->hk);
  amount blocks = {w->keys ? 1 : 2, SOLO_ROWS, w->keys ? &a->skv : a->rows};
  val number, rest = k_divide(k, k->group, &blocks, &number), size = k_index(k, SOLO_ROWS);
  w->b = k_divide(k, rest, &heads, &w->kv);
  w->first = k_mul(k, number, size);
  val queries = k_sizes(k, 2, a->rows), keys = k_size(k, a->skv);
  w->rows = w->keys ? keys : queries;
  w->columns = w->to = w->keys ? queries : keys;
  w->from = k_index(k, 0);
  if (!w->keys) {
    val end = k_min(k, k_add(k, w->first, size), w->rows);
    queries_see(e, a, w->b, w->first, plus(k, end, -1), &w->from, &w->to);
  }
  kernel_grid(k, 2, (amount[]){{2, 1, (sn_dim[]){a->b, a->hk}}, blocks});
}

static row_list list_of(const solo_grad *w, bool keys, const strided *of, sn_dim width) {
  row_list l = {.of = of, .width = width, .b = w->b, .head = w->kv, .packed = !keys};
  bool own = keys == w->keys;
  l.low = own ? k_index(w->s.e->k, 0) : w->from;
  l.high = own ? w->rows : w->to;
  return l;
}

static void open_rows(solo_grad *w) {
  solo *s = &w->s;
  const attending *a = s->a;
  const backward *g = w->g;
  const row_list keys[2] = {list_of(w, true, a->k, a->d), list_of(w, true, a->v, a->dv)};
  const row_list queries[2] = {list_of(w, false, a->q, a->d), list_of(w, false, g->d_out, a->dv)};
  for (int i = 0; i < 2; i++) {
    w->own[i] = solo_rows_of(s, w->keys ? keys[i] : queries[i], true);
    w->other[i] = solo_rows_of(s, w->keys ? queries[i] : keys[i], true);
    solo_rows_at(s, &w->own[i], w->first);
  }
  w->out = solo_rows_of(s, list_of(w, false, g->out, a->dv), true);
  w->spread = solo_rows_of(s, w->which == DQ ? keys[0] : queries[w->which == DV], false);
  if (!w->keys)
    solo_rows_at(s, &w->out, w->first);
}

/* Query `number` of the list; one that is not there sees nothing. */
static grad_query query_of(solo_grad *w, val number) {
  emitter *e = w->s.e;
  kernel *k = e->k;
  val all = k_sizes(k, 2, w->s.a->rows), zero = k_index(k, 0);
  query q = query_at(e, w->s.a, w->b, w->kv, k_min(k, number, plus(k, all, -1)));
  q.high = k_select(k, k_lt(k, number, all), q.high, zero);
  if (!w->keys)
    q.high = k_min(k, q.high, w->to);
  grad_query x = {.q = q, .lse = core_load(e, w->g->lse, (val[]){q.b, q.head, q.i})};
  if (w->g->d_lse->value && w->which != DV)
    x.common = core_load(e, w->g->d_lse, (val[]){q.b, q.head, q.i});
  return x;
}

/* --- weights --- */

static val shuffled(kernel *k, val x, val lane) {
  enum { SHUFFLE = 345, SUBGROUP = 3 };
  val scope = k_u32(k, SUBGROUP), from = k_to_u32(k, lane);
  return spirv_op(&k->s, SHUFFLE, k->s.f32, SPV_ARGS(scope, x, from));
}

/* d_lse - d_out·out of the queries, from the second, which threads of row g have of rows g and g + 8 of the tile of queries. */
static void find_common(solo_grad *w, const val dot[2], val common[4]) {
  kernel *k = w->s.e->k;
  val lane = k_shl(k, w->s.t, 3);
  for (int i = 0; i < (w->keys ? 4 : 2); i++) {
    val x = w->keys ? shuffled(k, dot[i / 2], plus(k, lane, 4 * (i & 1))) : dot[i];
    common[i] = w->q[i].common ? k_sub(k, w->q[i].common, x) : k_neg(k, x);
  }
}

/* lse in units of log 2, inf where nothing is seen. */
static val base_of(kernel *k, val lse) {
  val none = k_eq(k, lse, k_f32(k, -INFINITY)), all = k_f32(k, INFINITY);
  return k_select(k, none, all, k_mul(k, lse, k_f32(k, CREW_LOG2E)));
}

/* p, or ds * slope, of a query and a key from q·k and d_out·v + common. */
static val simple_weight(solo_grad *w, const grad_query *q, val key, val x, val y) {
  kernel *k = w->s.e->k;
  const attending *a = w->s.a;
  val base = k_neg(k, base_of(k, q->lse)), none = k_f32(k, -INFINITY);
  val score = k_fma(k, x, k_f32(k, a->scale * CREW_LOG2E), base), seen = k_lt(k, key, q->q.high);
  if (a->window > 0)
    seen = k_and(k, seen, k_le(k, q->q.low, key));
  val p = crew_exp2(k, k_select(k, seen, score, none));
  return y ? k_mul(k, k_mul(k, p, k_f32(k, a->scale)), y) : p;
}

static val full_weight(solo_grad *w, const grad_query *q, val key, val x, val y) {
  emitter *e = w->s.e;
  kernel *k = e->k;
  val slope, score = score_of(e, w->s.a, &q->q, key, x, &slope), none = k_f32(k, -INFINITY);
  val masked = k_eq(k, score, none), zero = k_f32(k, 0);
  masked = k_or(k, masked, k_eq(k, q->lse, none));
  val p = crew_exp(k, k_sub(k, score, q->lse));
  if (y)
    p = k_mul(k, k_mul(k, p, slope), y);
  return k_select(k, masked, zero, p);
}

static void find_weights(solo_grad *w, val first, const val dot[2], val x[MATRIX_ELEMENTS],
                         const val y[MATRIX_ELEMENTS]) {
  solo *s = &w->s;
  kernel *k = s->e->k;
  bool simple = crew_is_simple(s->a), needs = w->which != DV;
  val common[4] = {0};
  if (needs)
    find_common(w, dot, common);
  for (int i = 0; i < MATRIX_ELEMENTS; i++) {
    int at = w->keys ? i % 4 : i / 4;
    val row = k_add(k, w->first, plus(k, s->g, 8 * (i / 4)));
    val key = w->keys ? row : k_add(k, first, solo_column(s, i % 4));
    val arrives = needs ? k_add(k, y[i], common[at]) : 0;
    x[i] = simple ? simple_weight(w, &w->q[at], key, x[i], arrives)
                  : full_weight(w, &w->q[at], key, x[i], arrives);
  }
}

/* --- the columns --- */

static void fetch(solo_grad *w, val first) {
  solo *s = &w->s;
  int n = w->which == DV ? 1 : 2;
  for (int i = 0; i < n; i++)
    solo_rows_at(s, &w->other[i], first);
  if (w->keys && n == 2)
    solo_rows_at(s, &w->out, first);
  solo_rows_at(s, &w->spread, first);
  solo_fetch(s, &w->spread);
}

/* q·k, and d_out·v: in one loop where they are equally wide, which hides the one's waits behind the other's. */
static void use_tile(solo_grad *w, val first) {
  solo *s = &w->s;
  kernel *k = s->e->k;
  val weights[2];
  fetch(w, first);
  for (int i = 0; i < 4 && w->keys; i++)
    w->q[i] = query_of(w, k_add(k, first, solo_column(s, i)));
  solo_product x = {.a = &w->own[0], .b = &w->other[0]}, y = {.a = &w->own[1], .b = &w->other[1]};
  y.also = &w->out;
  y.with = w->keys ? y.b : y.a;
  solo_product *const both[2] = {&x, &y};
  if (w->which != DV && s->a->d == s->a->dv)
    solo_products(s, 2, both);
  else
    for (int i = 0; i < (w->which == DV ? 1 : 2); i++)
      solo_products(s, 1, both + i);
  find_weights(w, first, y.dot, x.out, y.out);
  solo_make(s, MATRIX_A, x.out, weights);
  solo_add(s, weights, &w->spread, NULL);
}

/* Whether a query of the tile sees any of the block's keys (bool, the same for the subgroup). */
static val tile_counts(solo_grad *w, val first) {
  kernel *k = w->s.e->k;
  val size = k_index(k, SOLO_ROWS), low, high;
  val end = k_min(k, k_add(k, first, size), w->columns);
  queries_see(w->s.e, w->s.a, w->b, first, plus(k, end, -1), &low, &high);
  val last = k_add(k, w->first, size);
  return k_and(k, k_lt(k, w->first, high), k_lt(k, low, last));
}

static void pass_columns(solo_grad *w) {
  solo *s = &w->s;
  kernel *k = s->e->k;
  val first = k_add(k, w->from, k_shl(k, s->number, 4));
  for (int r = 0; r < 2 && !w->keys; r++)
    w->q[r] = query_of(w, k_add(k, w->first, plus(k, s->g, 8 * r)));
  k_loop l = k_loop_rolled(k, first, w->to, k_index(k, s->share * SOLO_ROWS));
  bool skips = w->keys && s->a->causal;
  k_if seen = {0};
  if (skips)
    seen = k_if_begin(k, tile_counts(w, l.i));
  use_tile(w, l.i);
  if (skips)
    k_if_end(k, &seen);
  k_loop_end(k, &l);
  solo_put(s);
}

/* --- results --- */

/* Where row `row` of the block belongs. */
static void result_at(solo_grad *w, val row, val at[3]) {
  val number = k_add(w->s.e->k, w->first, row);
  grad_result_at(w->s.e, w->s.a, w->keys, w->b, w->kv, number, at);
}

static void put_rows(solo_grad *w) {
  const solo *s = &w->s;
  kernel *k = s->e->k;
  val at[3], x[4], row = solo_own_row(s);
  k_if there = k_if_begin(k, k_lt(k, k_add(k, w->first, row), w->rows));
  result_at(w, row, at);
  val first = solo_own_vector(s);
  k_loop l = k_loop_rolled(k, first, k_index(k, s->columns / 4), k_index(k, solo_each(s)));
  solo_join(s, row, l.i, NULL, x);
  solo_store(s->e, w->result, at, k_shl(k, l.i, 2), x);
  k_loop_end(k, &l);
  k_if_end(k, &there);
}

/* --- what is not finite: element by element, in plain f32 --- */

static void put_plainly(solo_grad *w) {
  emitter *e = w->s.e;
  kernel *k = e->k;
  crew c = {.e = e};
  plain_elements x = plain_each(&c, SOLO_ROWS, w->s.columns);
  val row = k_add(k, w->first, x.row), at[4], inside = k_lt(k, row, w->rows);
  k_if there = k_if_begin(k, k_and(k, inside, k_lt(k, x.column, k_size(k, w->result->dim[3]))));
  val sum = grad_plain_sum(e, w->g, w->which, (val[]){w->b, w->kv, row, x.column}, w->from, w->to);
  result_at(w, x.row, at);
  at[3] = x.column;
  core_store(e, w->result, at, sum);
  k_if_end(k, &there);
  k_loop_end(k, &x.l);
}

/* --- the kernel --- */

static void emit_body(solo_grad *w) {
  kernel *k = w->s.e->k;
  find_block(w);
  open_rows(w);
  pass_columns(w);
  k_if again = k_if_begin(k, solo_all_odd(&w->s));
  put_plainly(w);
  k_if_else(k, &again);
  put_rows(w);
  k_if_end(k, &again);
}

sn_status grad_solo(emitter *e, const backward *g, int which) {
  int share = share_of(e, &g->a, which);
  solo_grad *w = mem_alloc(e->env.ctx, sizeof *w);
  kernel *k = w ? emit_open(e, share * e->env.target->subgroup) : NULL;
  if (k) {
    *w = (solo_grad){.g = g, .result = &g->to[which], .which = which, .keys = which != DQ};
    solo_open(&w->s, e, &g->a, share, w->result->dim[3], 0);
    emit_body(w);
  }
  mem_free(e->env.ctx, w, w ? sizeof *w : 0);
  return k ? emit_launch(e, false) : SN_ERR_NO_MEMORY;
}
