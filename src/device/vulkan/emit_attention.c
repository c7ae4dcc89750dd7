/* ATTENTION: a workgroup takes a block of query rows and passes over the keys that they see, tile by tile, with a running maximum and
 * sum a row; no matrix of scores is ever in memory. See emit_attention.h.
 *
 * Few queries against many keys (a model that writes): the keys are cut, each part is a workgroup's, and a second launch joins what the
 * parts came to. Which of the two forms it is depends on sizes alone. */
#include "device/vulkan/emit_attention_flash.h"
#include "device/vulkan/emit_attention_solo.h"

#include <math.h>

/* What a workgroup and a thread have at hand. */
typedef struct block {
  tiles t;
  val b, kv, part, start; /* start: its first column of results */
  val first, rows;        /* of the list of queries; all of them */
  val low, high;          /* keys */
  query q[4];
  val max[4], sum[4]; /* variables: running, the sum of this thread's columns */
  val out[4][ATTENTION_GROUPS];
  val flags;
} block;

val forward_base(emitter *e, val x) {
  kernel *k = e->k;
  val none = k_f32(k, -INFINITY), zero = k_f32(k, 0);
  return k_select(k, k_eq(k, x, none), zero, x);
}

/* --- where --- */

static void find_block(emitter *e, const forward *f, block *w) {
  kernel *k = e->k;
  const attending *a = &f->a;
  amount columns = amount_tiles(&f->columns, tiles_width(&w->t)), heads = amount_of(&a->hk);
  amount blocks = {2, w->t.rows, a->rows}, parts = amount_tiles(&a->skv, f->part);
  val one = k_index(k, 1), number, rest = k_divide(k, k->group, &columns, &number), block_number;
  w->start = k_mul(k, number, k_index(k, tiles_width(&w->t)));
  if (f->cut)
    rest = k_divide(k, rest, &parts, &w->part);
  rest = k_divide(k, rest, &blocks, &block_number);
  w->b = k_divide(k, rest, &heads, &w->kv);
  w->first = k_mul(k, block_number, k_index(k, w->t.rows));
  w->rows = k_sizes(k, 2, a->rows);
  val end = k_min(k, k_add(k, w->first, k_index(k, w->t.rows)), w->rows);
  queries_see(e, a, w->b, w->first, k_sub(k, end, one), &w->low, &w->high);
  if (f->cut) {
    val from = k_mul(k, w->part, k_index(k, f->part));
    w->low = k_max(k, w->low, from);
    w->high = k_min(k, w->high, k_add(k, from, k_index(k, f->part)));
  }
  for (int r = 0; r < 4; r++) {
    w->q[r] = query_at(e, a, w->b, w->kv, k_add(k, w->first, tile_row(e, &w->t, r)));
    if (f->cut) /* a tile may reach into the next part */
      w->q[r].high = k_min(k, w->q[r].high, w->high);
  }
  kernel_grid(k, f->cut ? 4 : 3,
              (amount[]){{2, 1, (sn_dim[]){a->b, a->hk}}, blocks, columns, parts});
}

static row_list keys_of(const block *w, const strided *of, sn_dim width, val first) {
  return (row_list){.of = of,
                    .width = width,
                    .b = w->b,
                    .head = w->kv,
                    .first = first,
                    .low = w->low,
                    .high = w->high};
}

static row_list queries_of(emitter *e, const block *w, const strided *of, sn_dim width) {
  return (row_list){.of = of,
                    .width = width,
                    .b = w->b,
                    .head = w->kv,
                    .packed = true,
                    .first = w->first,
                    .low = k_index(e->k, 0),
                    .high = w->rows};
}

/* --- the softmax --- */

static void start_rows(emitter *e, block *w) {
  kernel *k = e->k;
  val none = k_f32(k, -INFINITY), zero = k_f32(k, 0);
  for (int r = 0; r < 4; r++) {
    k_set(k, w->max[r], none);
    k_set(k, w->sum[r], zero);
  }
  tile_sums_clear(e, &w->t, w->out);
}

/* Scores become weights under the new maxima; what was summed so far is brought to them. */
static void weigh(emitter *e, block *w, val x[4][4]) {
  kernel *k = e->k;
  val most[4];
  for (int r = 0; r < 4; r++) {
    most[r] = x[r][0];
    for (int c = 1; c < 4; c++)
      most[r] = k_max(k, most[r], x[r][c]);
  }
  tile_rows_fold(e, &w->t, k_max, most);
  for (int r = 0; r < 4; r++) {
    val old = k_get(k, w->max[r]), max = k_max(k, old, most[r]), base = forward_base(e, max);
    val keep = emit_float1(e, ALU_exp, k_sub(k, old, base));
    val sum = k_mul(k, k_get(k, w->sum[r]), keep);
    for (int c = 0; c < 4; c++) {
      x[r][c] = emit_float1(e, ALU_exp, k_sub(k, x[r][c], base));
      sum = k_add(k, sum, x[r][c]);
    }
    k_set(k, w->max[r], max);
    k_set(k, w->sum[r], sum);
    val all = k_vector(k, 4, (val[]){keep, keep, keep, keep});
    for (int g = 0; g < w->t.groups; g++)
      k_set(k, w->out[r][g], k_mul(k, k_get(k, w->out[r][g]), all));
  }
}

/* All keys of the block. */
static void pass_keys(emitter *e, const forward *f, block *w, val careful) {
  kernel *k = e->k;
  const attending *a = &f->a;
  val x[4][4];
  k_loop j = k_loop_begin(k, w->low, w->high, k_index(k, w->t.columns));
  row_list q = queries_of(e, w, a->q, a->d), keys = keys_of(w, a->k, a->d, j.i);
  row_list values = keys_of(w, a->v, a->dv, j.i);
  tile_product(e, a, &w->t, &q, &keys, x);
  for (int i = 0; i < 16; i++) {
    val key = k_add(k, j.i, tile_column(e, &w->t, i % 4));
    x[i / 4][i % 4] = score_of(e, a, &w->q[i / 4], key, x[i / 4][i % 4], NULL);
  }
  weigh(e, w, x);
  tile_put(e, &w->t, x);
  k_barrier(k);
  tile_sum(e, a, &w->t, &values, w->start, careful, w->out);
  k_loop_end(k, &j);
}

/* --- results --- */

/* Numbers of a thread's columns of row r, one by one: is there, column. */
typedef void (*put_number)(emitter *e, const forward *f, const block *w, int r, val column, val x);
static void put_row(emitter *e, const forward *f, const block *w, int r, val scale,
                    put_number put) {
  kernel *k = e->k;
  val width = k_size(k, f->a.dv);
  for (int i = 0; i < 4 * w->t.groups; i++) {
    val place = k_add(k, w->t.tx, k_index(k, i / 4 * w->t.wide));
    val column = k_add(k, k_add(k, w->start, k_shl(k, place, 2)), k_index(k, i % 4));
    val inside = k_and(k, w->q[r].there, k_lt(k, column, width));
    k_if there = k_if_begin(k, inside);
    val x = k_part(k, k_get(k, w->out[r][i / 4]), i % 4);
    if (scale)
      x = k_mul(k, x, scale);
    put(e, f, w, r, column, x);
    k_if_end(k, &there);
  }
}

static void put_out(emitter *e, const forward *f, const block *w, int r, val column, val x) {
  val at[4] = {w->b, w->q[r].head, w->q[r].i, column};
  core_store(e, f->out, at, x);
}

val forward_part_at(emitter *e, const forward *f, val b, val kv, val row, val number) {
  kernel *k = e->k;
  amount parts = amount_tiles(&f->a.skv, f->part);
  val head = k_add(k, k_mul(k, b, k_size(k, f->a.hk)), kv);
  val list = k_add(k, k_mul(k, head, k_sizes(k, 2, f->a.rows)), row);
  return k_add(k, k_mul(k, list, k_amount(k, &parts)), number);
}

void forward_put_part(emitter *e, const forward *f, val number, val column, val x) {
  kernel *k = e->k;
  val at = k_add(k, k_mul(k, number, k_size(k, f->a.dv)), column);
  k_store(k, k_scratch(k, f->sums), at, x);
}

void forward_put_facts(emitter *e, const forward *f, val number, val max, val sum) {
  kernel *k = e->k;
  val at = k_shl(k, number, 1), address = k_scratch(k, f->facts);
  k_store(k, address, at, max);
  k_store(k, address, k_add(k, at, k_index(k, 1)), sum);
}

static val part_of_row(emitter *e, const forward *f, const block *w, int r) {
  val row = k_add(e->k, w->first, tile_row(e, &w->t, r));
  return forward_part_at(e, f, w->b, w->kv, row, w->part);
}

static void put_part(emitter *e, const forward *f, const block *w, int r, val column, val x) {
  forward_put_part(e, f, part_of_row(e, f, w, r), column, x);
}

row_end forward_end(emitter *e, const forward *f, const query *q, val max, val sum) {
  kernel *k = e->k;
  val zero = k_f32(k, 0), none = k_f32(k, -INFINITY), empty = k_eq(k, sum, zero), top = max, total;
  if (f->a.sinks->value) {
    k_if there = k_if_begin(k, q->there);
    val sink = core_load(e, f->a.sinks, (val[]){q->head});
    sink = k_if_value(k, &there, sink, none);
    top = forward_base(e, k_max(k, max, sink));
    val part_of_it = emit_float1(e, ALU_exp, k_sub(k, max, top));
    val more = emit_float1(e, ALU_exp, k_sub(k, sink, top));
    total = k_add(k, k_mul(k, sum, part_of_it), more);
    row_end end = {.scale = k_div(k, part_of_it, total)};
    end.scale = k_select(k, empty, zero, end.scale);
    end.lse = k_add(k, top, emit_float1(e, ALU_log, total));
    end.lse = k_select(k, k_eq(k, total, zero), none, end.lse);
    return end;
  }
  row_end end = {.scale = k_select(k, empty, zero, k_div(k, k_f32(k, 1), sum))};
  end.lse = k_select(k, empty, none, k_add(k, max, emit_float1(e, ALU_log, sum)));
  return end;
}

static void put_rows(emitter *e, const forward *f, block *w) {
  kernel *k = e->k;
  val sum[4], origin = k_index(k, 0), left = k_eq(k, w->t.tx, origin);
  val first = k_and(k, left, k_eq(k, w->start, origin));
  for (int r = 0; r < 4; r++)
    sum[r] = k_get(k, w->sum[r]);
  tile_rows_fold(e, &w->t, k_add, sum);
  for (int r = 0; r < 4; r++) {
    val max = k_get(k, w->max[r]);
    row_end end = {0};
    if (!f->cut)
      end = forward_end(e, f, &w->q[r], max, sum[r]);
    put_row(e, f, w, r, end.scale, f->cut ? put_part : put_out);
    k_if one = k_if_begin(k, k_and(k, first, w->q[r].there));
    val at[3] = {w->b, w->q[r].head, w->q[r].i};
    if (f->cut)
      forward_put_facts(e, f, part_of_row(e, f, w, r), max, sum[r]);
    else if (f->lse->value)
      core_store(e, f->lse, at, end.lse);
    k_if_end(k, &one);
  }
}

/* --- launches --- */

typedef struct pass_args {
  const forward *f;
  block *w;
} pass_args;
static void run_pass(emitter *e, void *user, val careful) {
  pass_args *p = user;
  start_rows(e, p->w);
  pass_keys(e, p->f, p->w, careful);
}

static void run_passes(emitter *e, const forward *f, block *w) {
  val nothing = k_f32(e->k, 0);
  for (int r = 0; r < 4; r++) {
    w->max[r] = k_var(e->k, nothing);
    w->sum[r] = k_var(e->k, nothing);
  }
  tile_sums_open(e, &w->t, w->out);
  tile_passes(e, &w->t, run_pass, &(pass_args){f, w}, 1, &(val(*)[ATTENTION_GROUPS]){w->out},
              w->flags);
}

sn_status forward_launch(emitter *e, const forward *f, bool after) {
  amount rows = {2, 1, f->a.rows};
  return emit_launch_when(e, after, &rows, f->least, f->most);
}

static sn_status attend(emitter *e, const forward *f) {
  if (f->brief) {
    SN_TRY(forward_few(e, f));
    return forward_launch(e, f, false);
  }
  if (f->solo || f->matrix) {
    SN_TRY(f->solo ? forward_solo(e, f) : forward_matrix(e, f));
    return forward_launch(e, f, false);
  }
  block w = {.t = tiles_for(e, f->few ? ATTENTION_ROWS_FEW : ATTENTION_ROWS,
                            size_most(&e->env, f->a.dv), ATTENTION_GROUPS)};
  kernel *k = emit_open(e, tiles_threads(&w.t));
  if (!k)
    return SN_ERR_NO_MEMORY;
  tiles_open(e, &w.t);
  w.flags = k_shared(k, k->s.u32, 2 * k->threads);
  find_block(e, f, &w);
  run_passes(e, f, &w);
  put_rows(e, f, &w);
  return forward_launch(e, f, false);
}

sn_status forward_all(emitter *e, forward *f, int64_t rows, attend_fn *make) {
  const attending *a = &f->a;
  if (!f->cut)
    return make(e, f);
  int64_t parts = (size_most(&e->env, a->skv) + f->part - 1) / f->part;
  int64_t all = size_most(&e->env, a->b) * size_most(&e->env, a->hk) * rows * parts;
  f->sums = scratch_take(&e->env, all * size_most(&e->env, a->dv) * 4);
  f->facts = scratch_take(&e->env, all * 2 * 4);
  SN_TRY(make(e, f));
  return forward_join(e, f);
}

/* Of the longest row ATTENTION_PARTS parts at most, each of `tile` keys or a multiple. */
static sn_status attend_few(emitter *e, forward *f, int64_t rows, int tile) {
  int64_t longest = size_most(&e->env, f->a.skv);
  f->part =
      (int)max_i64(tile, (longest + ATTENTION_PARTS * tile - 1) / (ATTENTION_PARTS * tile) * tile);
  f->cut = longest > 2 * tile;
  return forward_all(e, f, min_i64(f->most, rows), attend);
}

/* Parts where blocks of rows alone would not keep the device busy. */
static sn_status attend_many(emitter *e, forward *f, int64_t rows) {
  const attending *a = &f->a;
  int64_t heads = size_most(&e->env, a->b) * size_most(&e->env, a->hk);
  f->few = f->brief = false;
  f->part = attention_part(e, heads * ((rows + ATTENTION_ROWS - 1) / ATTENTION_ROWS),
                           size_most(&e->env, a->skv));
  f->cut = f->part > 0;
  return forward_all(e, f, rows, attend);
}

/* The same with matrices. Parts are larger, since they are soon done. */
static sn_status attend_matrices(emitter *e, forward *f, int64_t rows) {
  enum { LEAST = 384, EACH = 3 /* workgroups a unit */, TILE = 64 };
  const sn_dim heads[2] = {f->a.b, f->a.hk};
  int64_t keys = size_most(&e->env, f->a.skv), block_rows = forward_matrix_rows(e, f);
  int64_t groups = sizes_most(&e->env, 2, heads) * ((rows + block_rows - 1) / block_rows);
  int64_t parts = min_i64((EACH * e->env.target->units + groups - 1) / max_i64(groups, 1),
                          (keys + LEAST - 1) / LEAST);
  f->matrix = true;
  f->cut = parts > 1;
  f->part = (int)((keys + max_i64(parts, 1) * TILE - 1) / (max_i64(parts, 1) * TILE) * TILE);
  return forward_all(e, f, rows, attend);
}

/* By the number of rows: very few, few, many. */
sn_status emit_attention(emitter *e, const part *p) {
  const core_part *c = &p->u.core;
  forward f = {.a = attending_of(c), .out = &c->out[0], .lse = &c->out[1], .few = true};
  int64_t most = sizes_most(&e->env, 2, f.a.rows), least = dim_is_number(f.a.sq) ? most : 1;
  f.columns = max_i64(1, size_most(&e->env, f.a.dv));
  f.least = 1;
  if (least <= FORWARD_FEW && forward_fits(e, &f)) {
    f.most = FORWARD_FEW;
    f.brief = true;
    SN_TRY(attend_few(e, &f, most, 2 * ATTENTION_ROWS));
    f.brief = false;
    f.least = FORWARD_FEW + 1;
  }
  f.solo = most >= f.least && forward_solo_fits(e, &f);
  if (most >= f.least && !f.solo && forward_flash_fits(e, &f)) {
    f.most = INT64_MAX;
    return forward_flash(e, &f, most);
  }
  if (f.solo || (most >= f.least && forward_matrix_fits(e, &f))) {
    f.most = INT64_MAX;
    f.cut = false;
    return f.solo ? attend(e, &f) : attend_matrices(e, &f, most);
  }
  f.most = ATTENTION_FEW;
  if (least <= ATTENTION_FEW && most >= f.least)
    SN_TRY(attend_few(e, &f, most, ATTENTION_ROWS));
  f.least = ATTENTION_FEW + 1;
  f.most = INT64_MAX;
  return most <= ATTENTION_FEW ? SN_OK : attend_many(e, &f, most);
}
