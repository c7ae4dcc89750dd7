/* ATTENTION_GRAD by matrices. One kernel has queries as rows and keys as columns, and makes dq; another has it the other way round, and
 * makes dk and dv. Products of q and k, and of d_out and v, become weights p and ds by the row's threads; those times the
 * columns' rows are the gradients. Weights have a power of two of their row. See emit_attention_matrix.h and
 * emit_attention_grad.h. */
#include "device/vulkan/emit_attention_grad_matrix.h"

#include "device/vulkan/emit_matmul.h"

#include <math.h>

enum { LARGEST = 0x7fffffff, NOT_FINITE = 0x7f800000, TOP = 127 + 11, HEADROOM = 3, POWER = 126 };

/* --- sizes --- */

static const crew_shape shapes[] = {{4, 1, 32}, {2, 2, 16}, {2, 1, 16}, {1, 1, 16}};
static const crew_shape small_shapes[] = {{2, 2, 16}, {1, 2, 16}, {1, 1, 16}};

static int widest(const emitter *e, const attending *a) {
  return crew_width(max_i64(size_most(&e->env, a->d), size_most(&e->env, a->dv)));
}

static crew crew_for(const emitter *e, const attending *a, crew_shape s, int *out_words) {
  int width = widest(e, a);
  emitter *any = (emitter *)(uintptr_t)e;
  crew c = crew_of(any, a, s, 0, 2, GRAD_NOTES, 0, out_words);
  int columns = crew_columns(&c), rows = crew_rows(&c);
  int others = 2 * crew_tile_words(&c, columns, width), own = crew_tile_words(&c, rows, width);
  int planes = s.columns * crew_plane_words(&c, width), words = others > own ? others : own;
  words = words > planes ? words : planes;
  return crew_of(any, a, s, words, 2, GRAD_NOTES, GRAD_FACTS * columns + 2 * s.columns * rows,
                 out_words);
}

static bool shape_fits(const emitter *e, const attending *a, crew_shape s) {
  const gpu_target *t = e->env.target;
  int words, width = widest(e, a);
  crew c = crew_for(e, a, s, &words);
  int most = crew_rows(&c) > crew_columns(&c) ? crew_rows(&c) : crew_columns(&c);
  return crew_has_room(e, words) && crew_threads(&s, t) <= t->max_threads &&
         most * width / 4 <= CREW_VECTORS * crew_threads(&s, t);
}

/* The first that fits; rows 0: none. `rows`: of the list, of all heads and entries. */
static crew_shape shape_for(const emitter *e, const attending *a, int64_t rows) {
  const gpu_target *t = e->env.target;
  bool many = rows / (4 * t->matrix[0]) >= t->units / 2;
  int n = many ? (int)COUNT_OF(shapes) : (int)COUNT_OF(small_shapes);
  for (int i = 0; i < n; i++) {
    crew_shape s = many ? shapes[i] : small_shapes[i];
    if (shape_fits(e, a, s))
      return s;
  }
  return (crew_shape){0};
}

static int64_t rows_of(const emitter *e, const attending *a, bool keys) {
  const sn_dim heads[2] = {a->b, a->hk};
  int64_t each = keys ? size_most(&e->env, a->skv) : sizes_most(&e->env, 2, a->rows);
  return sizes_most(&e->env, 2, heads) * each;
}

bool grad_matrix_fits(const emitter *e, const backward *g) {
  return crew_fits(e, &g->a) && shape_for(e, &g->a, INT32_MAX).rows > 0 &&
         shape_for(e, &g->a, 0).rows > 0;
}

/* Parts of what is passed over, where there are too few blocks. */
static grad_cut cut_of(const emitter *e, const attending *a, bool keys, int block_rows,
                       amount over) {
  enum { EACH = 3 /* workgroups a unit */, LEAST = 64, TILE = 64 };
  int64_t all = sizes_most(&e->env, over.n, over.dims), units = e->env.target->units;
  int64_t groups = max_i64(1, rows_of(e, a, keys) / block_rows);
  int64_t parts = min_i64((EACH * units + groups - 1) / groups, all / LEAST);
  if (parts < 2 || units < 32)
    return (grad_cut){over, 0};
  return (grad_cut){over, (int)((all + parts * TILE - 1) / (parts * TILE) * TILE)};
}

/* --- where --- */

static void find_block(matrix_grad *w) {
  const crew *c = &w->c;
  emitter *e = c->e;
  kernel *k = e->k;
  const attending *a = c->a;
  amount heads = amount_of(&a->hk), parts = grad_parts(&w->cut);
  amount blocks = {w->keys ? 1 : 2, crew_rows(c), w->keys ? &a->skv : a->rows};
  val number, one = k_index(k, 1);
  val rest = grad_range(k, &w->cut, k->group, &w->part, &w->from, &w->to);
  rest = k_divide(k, rest, &blocks, &number);
  w->b = k_divide(k, rest, &heads, &w->kv);
  w->first = k_mul(k, number, k_index(k, crew_rows(c)));
  w->rows = w->keys ? k_size(k, a->skv) : k_sizes(k, 2, a->rows);
  w->columns = w->keys ? k_sizes(k, 2, a->rows) : k_size(k, a->skv);
  if (!w->keys) {
    val low, high, end = k_min(k, k_add(k, w->first, k_index(k, crew_rows(c))), w->rows);
    queries_see(e, a, w->b, w->first, k_sub(k, end, one), &low, &high);
    w->from = k_max(k, low, w->from);
    w->to = k_min(k, high, w->to);
  }
  kernel_grid(k, 3, (amount[]){{2, 1, (sn_dim[]){a->b, a->hk}}, blocks, parts});
}

/* The two operands of queries (q, d_out) or of keys (k, v). */
static row_list list_of(matrix_grad *w, bool keys, int which) {
  const attending *a = w->c.a;
  kernel *k = w->c.e->k;
  row_list l = {.b = w->b, .head = w->kv, .packed = !keys, .first = w->first};
  l.of = keys ? (which ? a->v : a->k) : (which ? w->g->d_out : a->q);
  l.width = which ? a->dv : a->d;
  l.low = k_index(k, 0);
  l.high = keys == w->keys ? w->rows : w->columns;
  if (!w->keys && keys)
    l.high = w->to; /* behind it may be anything */
  return l;
}

static void open_tiles(matrix_grad *w) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  int width[2] = {crew_width(size_most(&c->e->env, c->a->d)),
                  crew_width(size_most(&c->e->env, c->a->dv))};
  for (int i = 0; i < 2; i++) {
    w->own[i] = (crew_tile){.l = list_of(w, w->keys, i), .rows = crew_rows(c), .note = i};
    w->other[i] = (crew_tile){.l = list_of(w, !w->keys, i), .rows = crew_columns(c), .note = 2 + i};
    w->own[i].width = w->other[i].width = width[i];
  }
  w->other[1].at = crew_tile_words(c, crew_columns(c), width[0]);
  for (int i = 0; i < 2; i++) {
    crew_tile_open(c, &w->own[i]);
    crew_tile_open(c, &w->other[i]);
    w->power[i] = k_var(k, k_i32(k, POWER));
    w->lost[i] = k_var(k, k_i32(k, 0));
    crew_rows_open(c, &w->rows_of[i], width[i]);
    if (i == 0 || w->keys)
      crew_sums_open(c, &w->sums[i], width[i]);
  }
}

/* --- weights --- */

/* Weights as halves under the power of their row, which falls where it must: with it the sums so far. */
static void put_weights(matrix_grad *w, int which, val x[][2]) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  val most = k_u32(k, 0), size = k_u32(k, LARGEST), old = k_get(k, w->power[which]);
  for (int i = 0; i < 2 * crew_pairs(c); i++) {
    val bits = k_and(k, k_bits(k, x[i / 2][i % 2], k->s.u32), size);
    most = k_max(k, most, bits);
  }
  most = crew_row_max(c, most);
  val is_odd = k_le(k, k_u32(k, NOT_FINITE), most);
  k_set(k, c->odd, k_select(k, is_odd, k_u32(k, 1), k_get(k, c->odd)));
  val wanted = k_sub(k, k_i32(k, TOP), k_bits(k, k_shr(k, most, 23), k->s.i32));
  val falls = k_lt(k, k_add(k, wanted, k_i32(k, HEADROOM)), old);
  val now = k_select(k, falls, wanted, old), none = k_i32(k, 0);
  val change = k_add(k, k_sub(k, now, old), k_get(k, w->lost[which]));
  val some = crew_any(c, k_ne(k, change, none));
  k_if changes = k_if_begin(k, some);
  crew_put_factor(c, which, crew_power(k, k_max(k, change, k_i32(k, -126))));
  k_set(k, w->power[which], now);
  k_set(k, w->lost[which], none);
  k_if_end(k, &changes);
  crew_meet(c);
  k_if scales = k_if_begin(k, some);
  crew_scale_rows(c, which, &w->sums[which]);
  k_if_end(k, &scales);
  crew_meet(c);
  val by = crew_power(k, now);
  for (int i = 0; i < crew_pairs(c); i++) {
    for (int j = 0; j < 2; j++)
      x[i][j] = k_mul(k, x[i][j], by);
    crew_put_pair(c, which, i, x[i]);
  }
}

static void use_tile(matrix_grad *w, val first) {
  enum { MOST_PAIRS = 16 };
  crew *c = &w->c;
  val p[MOST_PAIRS][2], dx[MOST_PAIRS][2];
  for (int i = 0; i < 2; i++)
    crew_products(c, &w->rows_of[i], &w->other[i], i);
  crew_meet(c);
  grad_find_weights(w, first, p, dx);
  crew_meet(c);
  put_weights(w, 0, dx);
  if (w->keys)
    put_weights(w, 1, p);
  crew_meet(c);
  for (int i = 0; i <= w->keys; i++)
    crew_add(c, i, &w->other[i], &w->sums[i]);
}

/* --- the columns --- */

/* Whether any of the block's keys is seen by a query of the tile (bool, the same for all threads). */
static val tile_counts(matrix_grad *w, val first) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  val inside = k_lt(k, first, w->to), one = k_index(k, 1), low, high;
  if (!w->keys || !c->a->causal)
    return inside;
  val end = k_min(k, k_add(k, first, k_index(k, crew_columns(c))), w->columns);
  queries_see(c->e, c->a, w->b, k_min(k, first, k_sub(k, w->columns, one)), k_sub(k, end, one),
              &low, &high);
  val last = k_add(k, w->first, k_index(k, crew_rows(c)));
  return k_and(k, inside, k_and(k, k_lt(k, w->first, high), k_lt(k, low, last)));
}

/* They use the memory of tiles, one after the other. */
static void take_own(matrix_grad *w) {
  crew *c = &w->c;
  for (int i = 0; i < 2; i++)
    crew_tile_load(c, &w->own[i]);
  for (int i = 0; i < 2; i++) {
    crew_tile_fill(c, &w->own[i]);
    crew_take_rows(c, &w->own[i], &w->rows_of[i]);
    k_barrier_shared(c->e->k);
  }
}

/* The tile that is on its way, to shared memory. */
static void settle(matrix_grad *w, val first) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  for (int i = 0; i < 2; i++)
    crew_tile_note(c, &w->other[i]);
  k_barrier_shared(k);
  for (int i = 0; i < 2; i++) {
    val lost = crew_tile_power(c, &w->other[i]);
    k_set(k, w->lost[i], k_add(k, k_get(k, w->lost[i]), lost));
    crew_tile_store(c, &w->other[i]);
  }
  if (w->keys)
    grad_put_facts(w, first);
  k_barrier_shared(k);
}

static void pass_columns(matrix_grad *w) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  val size = k_index(k, crew_columns(c)), zero = k_u32(k, 0), one = k_u32(k, 1);
  val loaded = k_var(k, zero);
  k_loop l = k_loop_begin(k, w->from, k_add(k, w->to, size), size);
  val more = tile_counts(w, l.i);
  w->other[0].l.first = w->other[1].l.first = l.i;
  k_if loads = k_if_begin(k, more);
  for (int i = 0; i < 2; i++)
    crew_tile_load(c, &w->other[i]);
  k_if_end(k, &loads);
  k_if start = k_if_begin(k, k_eq(k, l.i, w->from));
  take_own(w);
  k_if_end(k, &start);
  k_if second = k_if_begin(k, k_ne(k, k_get(k, loaded), zero));
  use_tile(w, k_sub(k, l.i, size));
  k_if_end(k, &second);
  k_if stores = k_if_begin(k, more);
  settle(w, l.i);
  k_if_end(k, &stores);
  k_set(k, loaded, k_select(k, more, one, zero));
  k_loop_end(k, &l);
}

/* --- results --- */

static void put_powers(matrix_grad *w, int which) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  val row = k_add(k, k_mul(k, c->at_row, k_index(k, c->rows)), c->row);
  val plane = k_mul(k, c->at_column, k_index(k, crew_rows(c)));
  val power = k_add(k, k_get(k, w->power[which]), k_get(k, w->other[which].power));
  k_if one = k_if_begin(k, k_eq(k, c->place, k_index(k, 0)));
  k_shared_set(k, c->words, plus(k, k_add(k, plane, row), w->powers), k_bits(k, power, k->s.u32));
  k_if_end(k, &one);
}

static void put_results(matrix_grad *w, val odd) {
  crew *c = &w->c;
  kernel *k = c->e->k;
  for (int i = 0; i <= w->keys; i++) {
    int number = w->keys ? DK + i : DQ;
    if (!w->g->to[number].value)
      continue;
    k_barrier_shared(k);
    crew_sums_put(c, &w->sums[i], 0, w->other[i].width);
    put_powers(w, i);
    k_barrier_shared(k);
    k_if again = k_if_begin(k, odd);
    plain_grad(w, i);
    k_if_end(k, &again);
    plain_grad_put(w, i, &w->g->to[number], w->bytes[i]);
  }
}

static void emit_body(matrix_grad *w, int words) {
  crew *c = &w->c;
  emitter *e = c->e;
  kernel *k = e->k;
  crew_open(c, words);
  find_block(w);
  int subgroups = c->shape.rows * c->shape.columns;
  w->facts = c->notes + GRAD_NOTES * subgroups;
  w->powers = w->facts + GRAD_FACTS * crew_columns(c);
  open_tiles(w);
  val row = k_add(k, k_mul(k, c->at_row, k_index(k, c->rows)), c->row);
  if (!w->keys) {
    query q = query_at(e, c->a, w->b, w->kv, k_add(k, w->first, row));
    w->q = grad_query_of(e, w->g, q);
    w->q.q.high = k_min(k, w->q.q.high, w->to); /* a tile may reach into the next part */
    w->simple = grad_simple_query(w, w->q);
  }
  pass_columns(w);
  put_results(w, crew_all_odd(c, 0));
}

sn_status grad_matrix(emitter *e, const backward *g, bool keys, bool after, grad_rest *rest) {
  int words;
  const attending *a = &g->a;
  matrix_grad *w = mem_alloc(e->env.ctx, sizeof *w);
  if (!w)
    return SN_ERR_NO_MEMORY;
  crew_shape shape = shape_for(e, a, rows_of(e, a, keys));
  w->g = g;
  w->keys = keys;
  w->cut = cut_of(e, a, keys, shape.rows * e->env.target->matrix[0],
                  keys ? (amount){2, 1, a->rows} : amount_of(&a->skv));
  for (int i = 0; i <= keys; i++)
    w->bytes[i] = grad_take_parts(e, &w->cut, &g->to[keys ? DK + i : DQ]);
  sn_status status = SN_ERR_NO_MEMORY;
  if (emit_open(e, crew_threads(&shape, e->env.target))) {
    w->c = crew_for(e, a, shape, &words);
    emit_body(w, words);
    status = emit_launch(e, after);
  }
  for (int i = 0; i <= keys; i++)
    grad_add_later(rest, &w->cut, &g->to[keys ? DK + i : DQ], w->bytes[i]);
  mem_free(e->env.ctx, w, sizeof *w);
  return status;
}
