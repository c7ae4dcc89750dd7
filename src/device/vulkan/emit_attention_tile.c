/* Products of rows and weighted sums of rows in tiles. See emit_attention.h. */
#include "device/vulkan/emit_attention.h"

/* --- sizes --- */

/* Rows of operands in the pool are one vector longer than they need: no two of neighbours are in the same bank. */
static int operand_vectors(const tiles *t) { return (t->rows + t->columns) * (t->piece + 1); }
static int score_vectors(const tiles *t) { return t->rows * (t->wide + 1); }

tiles tiles_for(const emitter *e, int rows, int64_t width, int groups_most) {
  enum { FLAGS = 2048 + 64 };
  int bytes = e->env.target->shared_bytes - FLAGS;
  tiles t = {.rows = rows, .columns = 64, .piece = rows < 64 ? 16 : 8};
  if (e->env.target->max_threads < 256 || bytes < (128 * 5 + 64 * 17) * 16)
    t.columns = 32;
  t.rows = t.rows > t.columns ? t.columns : t.rows;
  t.wide = t.columns / 4;
  while (t.piece > 4 && (operand_vectors(&t) + score_vectors(&t)) * 16 > bytes)
    t.piece /= 2;
  t.groups = 1;
  while (t.groups < groups_most && tiles_width(&t) < width)
    t.groups *= 2;
  return t;
}

int attention_part(const emitter *e, int64_t groups, int64_t rows) {
  enum { MANY_UNITS = 32, EACH = 4 /* workgroups a unit */, LEAST = 64 };
  int64_t units = e->env.target->units, wanted = units * EACH;
  if (units < MANY_UNITS || groups < 1 || groups >= wanted || rows < 2 * LEAST)
    return 0;
  int64_t parts = min_i64((wanted + groups - 1) / groups, rows / LEAST);
  int64_t tile = 64, part_rows = ((rows + parts - 1) / parts + tile - 1) / tile * tile;
  return parts < 2 ? 0 : (int)part_rows;
}

int tiles_threads(const tiles *t) { return t->rows / 4 * t->wide; }

void tiles_open(emitter *e, tiles *t) {
  kernel *k = e->k;
  t->scores = operand_vectors(t);
  t->pool = k_shared(k, spirv_vector(&k->s, k->s.f32, 4), t->scores + score_vectors(t));
  t->tx = k_and(k, k->local, k_index(k, t->wide - 1));
  t->ty = k_shr(k, k->local, __builtin_ctz((unsigned)t->wide));
}

val tile_row(emitter *e, const tiles *t, int r) {
  return k_add(e->k, k_shl(e->k, t->ty, 2), k_index(e->k, r));
}
val tile_column(emitter *e, const tiles *t, int c) {
  return k_add(e->k, t->tx, k_index(e->k, c * t->wide));
}

/* --- vectors --- */

static val splat(emitter *e, val x) { return k_vector(e->k, 4, (val[]){x, x, x, x}); }
static val zeros(emitter *e) { return splat(e, k_f32(e->k, 0)); }

/* A piece of rows: from `column` on, to the pool from `where` on. */
typedef struct piece_place {
  const tiles *t;
  const row_list *l;
  val column;
  int where;
} piece_place;
static tile_vector find_piece(emitter *e, const void *user, val p) {
  const piece_place *u = user;
  kernel *k = e->k;
  val row = k_shr(k, p, __builtin_ctz((unsigned)u->t->piece));
  val c = k_and(k, p, k_index(k, u->t->piece - 1));
  tile_vector v = {.number = k_add(k, u->l->first, row)};
  v.column = k_add(k, u->column, k_shl(k, c, 2));
  v.at = k_add(k, k_mul(k, row, k_index(k, u->t->piece + 1)), c);
  v.at = k_add(k, v.at, k_index(k, u->where));
  return v;
}

static void load_piece(emitter *e, const attending *a, const tiles *t, const row_list *l, int n,
                       val column, int where) {
  tile_load(e, a, t, l, n * t->piece, find_piece, &(piece_place){t, l, column, where});
}

/* --- products --- */

/* Places are a base and a number that the code knows, which costs nothing to add. */
static void multiply_piece(emitter *e, const tiles *t, val sum[4][4]) {
  kernel *k = e->k;
  int pitch = t->piece + 1;
  val one = k_index(k, 1), zero = k_index(k, 0), x[4], y[4];
  val row = k_mul(k, t->ty, k_index(k, 4 * pitch)), column = k_mul(k, t->tx, k_index(k, pitch));
  k_loop c = k_loop_begin(k, zero, k_index(k, t->piece), one);
  val left_at = k_add(k, row, c.i), right_at = k_add(k, column, c.i);
  for (int i = 0; i < 4; i++) {
    x[i] = k_shared_get(k, t->pool, k_add(k, left_at, k_index(k, i * pitch)));
    val to = k_add(k, right_at, k_index(k, (t->rows + i * t->wide) * pitch));
    y[i] = k_shared_get(k, t->pool, to);
  }
  for (int r = 0; r < 4; r++)
    for (int i = 0; i < 4; i++) {
      val s = k_get(k, sum[r][i]);
      for (int n = 0; n < 4; n++) {
        val left = k_part(k, x[r], n), right = k_part(k, y[i], n);
        s = k_fma(k, left, right, s);
      }
      k_set(k, sum[r][i], s);
    }
  k_loop_end(k, &c);
}

void tile_product(emitter *e, const attending *a, const tiles *t, const row_list *rows,
                  const row_list *columns, val acc[4][4]) {
  kernel *k = e->k;
  val sum[4][4], zero = k_f32(k, 0);
  for (int i = 0; i < 16; i++)
    sum[i / 4][i % 4] = k_var(k, zero);
  k_loop piece = k_loop_begin(k, k_index(k, 0), k_size(k, rows->width), k_index(k, t->piece * 4));
  load_piece(e, a, t, rows, t->rows, piece.i, 0);
  load_piece(e, a, t, columns, t->columns, piece.i, t->rows * (t->piece + 1));
  k_barrier(k);
  multiply_piece(e, t, sum);
  k_barrier(k);
  k_loop_end(k, &piece);
  for (int i = 0; i < 16; i++)
    acc[i / 4][i % 4] = k_get(k, sum[i / 4][i % 4]);
}

/* --- weighted sums --- */

/* Row r of a thread, quad `quad` of the scores. */
static val score_at(emitter *e, const tiles *t, int r, val quad) {
  kernel *k = e->k;
  val at = k_add(k, k_mul(k, t->ty, k_index(k, 4 * (t->wide + 1))), quad);
  return k_add(k, at, k_index(k, t->scores + r * (t->wide + 1)));
}

void tile_put(emitter *e, const tiles *t, val x[4][4]) {
  for (int r = 0; r < 4; r++) {
    val at = score_at(e, t, r, t->tx);
    k_shared_set(e->k, t->pool, at, k_vector(e->k, 4, x[r]));
  }
}

/* Quads of columns whose rows the pool holds at once. */
static int quads_of(const tiles *t) {
  int quads = t->wide, row = t->groups * t->wide;
  while (quads > 1 && quads * 4 * row > t->scores)
    quads /= 2;
  return quads;
}

/* Rows of the list for some quads from `first` on: row 4 q + c of the pool is column first + q + c * wide. */
typedef struct quads_place {
  const tiles *t;
  const row_list *l;
  val first, start;
} quads_place;
static tile_vector find_quads(emitter *e, const void *user, val p) {
  const quads_place *u = user;
  kernel *k = e->k;
  int row = u->t->groups * u->t->wide;
  val of = k_shr(k, p, __builtin_ctz((unsigned)row)), c = k_and(k, p, k_index(k, row - 1));
  val quad = k_add(k, u->first, k_shr(k, of, 2)), which = k_and(k, of, k_index(k, 3));
  val column = k_add(k, quad, k_mul(k, which, k_index(k, u->t->wide)));
  tile_vector v = {.number = k_add(k, u->l->first, column), .at = p};
  v.column = k_add(k, u->start, k_shl(k, c, 2));
  return v;
}

static void load_quads(emitter *e, const attending *a, const tiles *t, const row_list *l, val first,
                       val start) {
  int n = quads_of(t) * 4 * t->groups * t->wide;
  tile_load(e, a, t, l, n, find_quads, &(quads_place){t, l, first, start});
}

static void add_weighted(emitter *e, val sum, val weight, val x) {
  val so_far = k_get(e->k, sum);
  k_set(e->k, sum, k_fma(e->k, splat(e, weight), x, so_far));
}

/* The vector, or zeros. */
static val where(emitter *e, val condition, val x) {
  val zero = k_f32(e->k, 0), kept[4];
  for (int i = 0; i < 4; i++)
    kept[i] = k_select(e->k, condition, k_part(e->k, x, i), zero);
  return k_vector(e->k, 4, kept);
}

/* One quad: weights w by row, the rows of its columns from `at` on in the pool. */
static void add_quad(emitter *e, const tiles *t, const val w[4], val at, bool careful,
                     val sum[4][ATTENTION_GROUPS]) {
  kernel *k = e->k;
  for (int c = 0; c < 4; c++)
    for (int g = 0; g < t->groups; g++) {
      val place = k_add(k, at, k_index(k, (c * t->groups + g) * t->wide));
      val x = k_shared_get(k, t->pool, place);
      for (int r = 0; r < 4; r++) {
        val weight = k_part(k, w[r], c);
        if (!careful) {
          add_weighted(e, sum[r][g], weight, x);
          continue;
        }
        add_weighted(e, sum[r][g], weight, where(e, k_ne(k, weight, k_f32(k, 0)), x));
      }
    }
}

void tile_sum(emitter *e, const attending *a, const tiles *t, const row_list *rows, val start,
              val careful, val sum[4][ATTENTION_GROUPS]) {
  kernel *k = e->k;
  int quads = quads_of(t);
  val zero = k_index(k, 0), one = k_index(k, 1), w[4];
  k_loop first = k_loop_begin(k, zero, k_index(k, t->wide), k_index(k, quads));
  load_quads(e, a, t, rows, first.i, start);
  k_barrier(k);
  k_loop q = k_loop_begin(k, zero, k_index(k, quads), one);
  val quad = k_add(k, first.i, q.i);
  for (int r = 0; r < 4; r++)
    w[r] = k_shared_get(k, t->pool, score_at(e, t, r, quad));
  val at = k_add(k, k_mul(k, q.i, k_index(k, 4 * t->groups * t->wide)), t->tx);
  if (careful == k_bool(k, true) || careful == k_bool(k, false)) {
    add_quad(e, t, w, at, careful == k_bool(k, true), sum);
  } else {
    k_if how = k_if_begin(k, careful);
    add_quad(e, t, w, at, true, sum);
    k_if_else(k, &how);
    add_quad(e, t, w, at, false, sum);
    k_if_end(k, &how);
  }
  k_loop_end(k, &q);
  k_barrier(k);
  k_loop_end(k, &first);
}

void tile_sums_open(emitter *e, const tiles *t, val sum[4][ATTENTION_GROUPS]) {
  val zero = zeros(e);
  for (int r = 0; r < 4; r++)
    for (int g = 0; g < t->groups; g++)
      sum[r][g] = k_var(e->k, zero);
}

void tile_sums_clear(emitter *e, const tiles *t, val sum[4][ATTENTION_GROUPS]) {
  val zero = zeros(e);
  for (int r = 0; r < 4; r++)
    for (int g = 0; g < t->groups; g++)
      k_set(e->k, sum[r][g], zero);
}

static val either(emitter *e, const void *user, val a, val b) {
  (void)user;
  return k_or(e->k, a, b);
}

/* Whether any of them, of any thread, is not finite (bool, the same for all). */
static val tile_sums_odd(emitter *e, const tiles *t, val sum[4][ATTENTION_GROUPS], val flags) {
  kernel *k = e->k;
  val any = k_bool(k, false), odd = k_u32(k, 0x7f800000u), one = k_u32(k, 1), zero = k_u32(k, 0),
      all;
  for (int i = 0; i < 16 * t->groups; i++) {
    val x = k_get(k, sum[i / 4 % 4][i / 16]);
    val bits = k_and(k, k_bits(k, k_part(k, x, i % 4), k->s.u32), odd);
    any = k_or(k, any, k_eq(k, bits, odd));
  }
  core_scan_threads(e, k_select(k, any, one, zero), flags, 1, either, NULL, &all);
  return k_ne(k, all, zero);
}

/* Twice in the code where kernels are worth it: a branch in the inner loop costs an eighth. Software compiles once. */
void tile_passes(emitter *e, const tiles *t, tile_pass pass, void *user, int n,
                 val (*const sums[])[ATTENTION_GROUPS], val flags) {
  enum { MANY_UNITS = 32 };
  kernel *k = e->k;
  bool twice = e->env.target->units >= MANY_UNITS;
  val zero = k_index(k, 0), one = k_index(k, 1), odd = 0;
  k_loop passes = {0};
  if (!twice)
    passes = k_loop_begin(k, zero, k_index(k, 2), one);
  pass(e, user, twice ? k_bool(k, false) : k_eq(k, passes.i, one));
  for (int i = 0; i < n; i++) {
    val more = tile_sums_odd(e, t, sums[i], flags);
    odd = odd ? k_or(k, odd, more) : more;
  }
  if (twice) {
    k_if again = k_if_begin(k, odd);
    pass(e, user, k_bool(k, true));
    k_if_end(k, &again);
  } else {
    k_loop_break(k, &passes, k_not(k, odd));
    k_loop_end(k, &passes);
  }
}

/* --- over the columns --- */

void tile_rows_fold(emitter *e, const tiles *t, tile_fold fold, val x[4]) {
  kernel *k = e->k;
  val first = k_shl(k, t->ty, __builtin_ctz((unsigned)t->wide)), all = 0;
  k_shared_set(k, t->pool, k->local, k_vector(k, 4, x));
  k_barrier(k);
  for (int i = 0; i < t->wide; i++) {
    val other = k_shared_get(k, t->pool, k_add(k, first, k_index(k, i)));
    all = all ? fold(k, all, other) : other;
  }
  k_barrier(k);
  for (int r = 0; r < 4; r++)
    x[r] = k_part(k, all, r);
}
