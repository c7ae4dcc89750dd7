/* Tiles of the result from panels in shared memory. See emit_matmul.h.
 *
 * A thread's elements are groups of 4 by 4: rows 4 (y + q * threads along the rows) …, so that threads read
 * neighbouring vectors of a panel. While one panel is multiplied, the next one's loads are on their way: the loop
 * over k runs once more than there are panels, and first loads panel i, then multiplies panel i - 1. */
#include "device/vulkan/emit_matmul_panel.h"

enum { MOST_TOGETHER = 2 };

const tile_shape matmul_tiles[TILE_SHAPES] = {
    [TILES_64] = {64, 64, 16, 8, 4, 1, 8},
    [TILES_DEEP] = {64, 64, 32, 8, 4, 2, 8},
    [TILES_32] = {32, 32, 64, 4, 4, 4, 8},
    [TILES_PLAIN] = {32, 32, 16, 4, 4, 1, 4},
};

typedef struct tiles {
  matmul m;
  const tile_shape *shape;
  int threads_of[2]; /* along each side */
  val at[2], slice;  /* this thread */
  val shared;
  int tables;               /* where panels' tables begin, behind all panels */
  val sum[EMIT_ACCS][64];   /* variables, by row and column of the thread */
  val total[EMIT_ACCS][64]; /* of blocks; where no k is longer than a block, these are the same */
} tiles;

/* Accumulators whose products go along the same k and have an operand in common are made together. */
typedef struct together {
  int first, n;
  int n_panels;
  panel panels[1 + MOST_TOGETHER];
  int of[MOST_TOGETHER][2]; /* each accumulator's panels */
} together;

static int side_size(const tile_shape *s, int side) { return side ? s->columns : s->rows; }

static int panel_vectors(const tile_shape *s, int side) {
  return s->depth * panel_stride(side_size(s, side));
}

/* Sums that wait in shared memory to become results: one row (or column) of each thread. */
static int slab_lines(const tiles *t) { return t->threads_of[!t->m.columns_last]; }
static int slab_stride(const tiles *t) {
  return panel_stride(side_size(t->shape, t->m.columns_last)) + 1; /* lines in different banks */
}
static int slab_vectors(const tiles *t) { return slab_lines(t) * slab_stride(t); }

/* --- products of panels --- */

/* This thread's rows (or columns) of a panel at a k, `at` being the first four. */
static void read_fragment(tiles *t, int side, val at, val *out) {
  kernel *k = t->m.e->k;
  int n = side ? t->shape->thread_columns : t->shape->thread_rows;
  for (int q = 0; q < n / 4; q++) {
    val v = k_shared_get(k, t->shared, plus(k, at, q * t->threads_of[side]));
    for (int i = 0; i < 4; i++)
      out[4 * q + i] = k_part(k, v, i);
  }
}

/* An accumulator's products at a k: sums[row][column] += a * b. */
static void multiply_one(tiles *t, const val *a, const val *b, val *sums) {
  const tile_shape *s = t->shape;
  for (int r = 0; r < s->thread_rows; r++)
    for (int c = 0; c < s->thread_columns; c++) {
      val *sum = &sums[r * s->thread_columns + c];
      *sum = k_fma(t->m.e->k, a[r], b[c], *sum);
    }
}

/* Four neighbouring k from one on that is a multiple of 4; a panel's fragments serve all accumulators. */
static void multiply_four(tiles *t, const together *g, val at_k, val sums[][64]) {
  kernel *k = t->m.e->k;
  val turn = panel_turn(k, t->shape->depth, at_k), at[COUNT_OF(g->panels)];
  for (int i = 0; i < g->n_panels; i++) {
    const panel *p = &g->panels[i];
    val line = plus(k, k_mul(k, at_k, k_index(k, p->stride)), p->first);
    at[i] = k_add(k, line, k_xor(k, t->at[p->o.side], turn));
  }
  for (int u = 0; u < 4; u++) {
    val x[COUNT_OF(g->panels)][8];
    for (int i = 0; i < g->n_panels; i++)
      read_fragment(t, g->panels[i].o.side, plus(k, at[i], u * g->panels[i].stride), x[i]);
    for (int a = 0; a < g->n; a++)
      multiply_one(t, x[g->of[a][0]], x[g->of[a][1]], sums[a]);
  }
}

/* Two accumulators leave no registers for sums of chunks: these go to the sums of a block at once, and blocks are short. */
static bool has_chunks(const together *g) { return g->n == 1; }

/* Elements of k in a block, of all slices. */
static int block_of(const tiles *t, const together *g) {
  return has_chunks(g) ? 256 : 64 * t->shape->slices;
}

/* This thread's chunk of the panels. */
static void multiply(tiles *t, const together *g) {
  kernel *k = t->m.e->k;
  const tile_shape *s = t->shape;
  int n = s->thread_rows * s->thread_columns;
  val to[MOST_TOGETHER][64], x[MOST_TOGETHER][64], zero = k_f32(k, 0);
  for (int i = 0; i < g->n * n; i++)
    to[i / n][i % n] = has_chunks(g) ? k_var(k, zero) : t->sum[g->first + i / n][i % n];
  val from = times(k, t->slice, MATMUL_CHUNK);
  val end = plus(k, from, MATMUL_CHUNK), by = k_index(k, s->unroll);
  k_loop l = k_loop_begin(k, from, end, by);
  for (int i = 0; i < g->n * n; i++)
    x[i / n][i % n] = k_get(k, to[i / n][i % n]);
  for (int u = 0; u < s->unroll; u += 4)
    multiply_four(t, g, plus(k, l.i, u), x);
  for (int i = 0; i < g->n * n; i++)
    k_set(k, to[i / n][i % n], x[i / n][i % n]);
  k_loop_end(k, &l);
  for (int i = 0; i < n && has_chunks(g); i++) {
    val sum = t->sum[g->first][i], more = k_get(k, to[0][i]);
    k_set(k, sum, k_add(k, k_get(k, sum), more));
  }
}

/* Sums of a block to the totals. Without blocks the rounding of long sums would be several times as large. */
static void end_block(tiles *t, const together *g) {
  kernel *k = t->m.e->k;
  int n = t->shape->thread_rows * t->shape->thread_columns;
  val zero = k_f32(k, 0);
  for (int a = g->first; a < g->first + g->n; a++)
    for (int i = 0; i < n && t->total[a][i] != t->sum[a][i]; i++) {
      val more = k_get(k, t->sum[a][i]);
      k_set(k, t->total[a][i], k_add(k, k_get(k, t->total[a][i]), more));
      k_set(k, t->sum[a][i], zero);
    }
}

/* --- the loop over k --- */

static int add_panel(tiles *t, together *g, const matmul_product *product, int side) {
  operand o;
  vk_operand_read(t->m.e, t->m.part, product, side, &o);
  int first = 0;
  for (int i = 0; i < g->n_panels; i++) {
    const panel *p = &g->panels[i];
    if (p->o.side == side && region_same(p->o.code, o.code))
      return i;
    first += panel_vectors(t->shape, p->o.side);
  }
  panel *p = &g->panels[g->n_panels];
  *p = (panel){.o = o,
               .rows = side_size(t->shape, side),
               .depth = t->shape->depth,
               .threads = tile_threads(t->shape),
               .array = t->shared,
               .first = first,
               .stride = panel_stride(side_size(t->shape, side)),
               .table = -1};
  if (operand_wants_table(&t->m, &o))
    p->table = t->tables + g->n_panels * t->shape->depth;
  panel_open(&t->m, p);
  return g->n_panels++;
}

/* Tables of the first panels. */
static void fill_tables(tiles *t, together *g, val from, val size) {
  kernel *k = t->m.e->k;
  bool any = false;
  for (int i = 0; i < g->n_panels; i++)
    any = any || g->panels[i].table >= 0;
  if (!any)
    return;
  for (int i = 0; i < g->n_panels; i++)
    panel_fill_table(&t->m, &g->panels[i], from, size);
  k_barrier(k);
}

/* The products with one number, of all accumulators of a group. */
static void sum_product(tiles *t, together *g, int number) {
  kernel *k = t->m.e->k;
  const matmul_acc *accs = t->m.part->accs + g->first;
  const matmul_product *product = &accs[0].products[number];
  val from, to, size = k_sizes(k, product->n_k, product->k), depth = k_index(k, t->shape->depth);
  g->n_panels = 0;
  for (int a = 0; a < g->n; a++)
    for (int side = 0; side < 2; side++)
      g->of[a][side] = add_panel(t, g, &accs[a].products[number], side);
  matmul_range(&t->m, product, t->shape->depth, &from, &to);
  k_if some = k_if_begin(k, k_lt(k, from, to));
  fill_tables(t, g, from, size);
  k_loop l = k_loop_begin(k, from, k_add(k, to, depth), depth);
  val more = k_lt(k, l.i, to);
  for (int i = 0; i < g->n_panels; i++)
    panel_load(&t->m, &g->panels[i], l.i, size);
  k_if second = k_if_begin(k, k_lt(k, from, l.i));
  multiply(t, g);
  if (t->total[g->first][0] != t->sum[g->first][0]) {
    val done = k_sub(k, l.i, from), left = low_part(k, done, block_of(t, g)), zero = k_index(k, 0);
    k_if full = k_if_begin(k, k_eq(k, left, zero));
    end_block(t, g);
    k_if_end(k, &full);
  }
  k_if_end(k, &second);
  k_barrier(k);
  k_if stores = k_if_begin(k, more);
  for (int i = 0; i < g->n_panels; i++)
    panel_store(&t->m, &g->panels[i], l.i, size);
  val next = k_add(k, l.i, depth);
  for (int i = 0; i < g->n_panels; i++)
    panel_fill_table(&t->m, &g->panels[i], next, size);
  k_if_end(k, &stores);
  k_barrier(k);
  k_loop_end(k, &l);
  k_if_end(k, &some);
  end_block(t, g);
}

static void open_sums(tiles *t, const together *g, int a) {
  kernel *k = t->m.e->k;
  const matmul_acc *acc = &t->m.part->accs[a];
  bool blocks = false;
  for (int i = 0; i < acc->n_products; i++)
    blocks =
        blocks || sizes_most(k->env, acc->products[i].n_k, acc->products[i].k) > block_of(t, g);
  for (int i = 0; i < t->shape->thread_rows * t->shape->thread_columns; i++) {
    t->sum[a][i] = k_var(k, k_f32(k, 0));
    t->total[a][i] = blocks ? k_var(k, k_f32(k, 0)) : t->sum[a][i];
  }
}

static void sum_all(tiles *t, together *g) {
  const matmul_part *p = t->m.part;
  for (int a = 0; a < p->n_accs; a += g->n) {
    g->first = a;
    g->n = 1;
    while (g->n < MOST_TOGETHER && a + g->n < p->n_accs &&
           accs_share(&p->accs[a], &p->accs[a + g->n]))
      g->n++;
    for (int i = 0; i < g->n; i++)
      open_sums(t, g, a + i);
    for (int i = 0; i < p->accs[a].n_products; i++)
      sum_product(t, g, i);
  }
}

/* --- results --- */

/* Element `line` of each of this thread's rows (or columns), to shared memory. */
static void store_line(tiles *t, int line) {
  kernel *k = t->m.e->k;
  const tile_shape *s = t->shape;
  int last = t->m.columns_last, n = last ? s->thread_columns : s->thread_rows;
  val at = k_mul(k, t->at[!last], k_index(k, slab_stride(t)));
  at = k_add(k, at, t->at[last]);
  val skip = k_mul(k, t->slice, k_index(k, slab_vectors(t)));
  at = k_add(k, at, skip);
  for (int a = 0; a < t->m.part->n_accs; a++) {
    for (int q = 0; q < n / 4; q++) {
      val x[4];
      for (int i = 0; i < 4; i++) {
        int inner = 4 * q + i;
        x[i] = k_get(k, t->total[a][last ? line * s->thread_columns + inner
                                         : inner * s->thread_columns + line]);
      }
      val there = plus(k, at, a * s->slices * slab_vectors(t) + q * t->threads_of[last]);
      k_shared_set(k, t->shared, there, k_vector(k, 4, x));
    }
  }
}

/* The sums at four places. */
static void read_slab_four(tiles *t, val slow, val fast, val sums[][4]) {
  kernel *k = t->m.e->k;
  val at = k_add(k, k_mul(k, slow, k_index(k, slab_stride(t))), high_part(k, fast, 4));
  for (int a = 0; a < t->m.part->n_accs; a++) {
    val all = 0;
    for (int i = 0; i < t->shape->slices; i++) {
      val there = plus(k, at, (a * t->shape->slices + i) * slab_vectors(t));
      val x = k_shared_get(k, t->shared, there);
      all = i == 0 ? x : k_add(k, all, x);
    }
    for (int u = 0; u < 4; u++)
      sums[a][u] = k_part(k, all, u);
  }
}

/* The sums at a place of the slab, over all slices. */
static void read_slab(tiles *t, val slow, val fast, val *sums) {
  kernel *k = t->m.e->k;
  val at = k_add(k, k_mul(k, slow, k_index(k, 4 * slab_stride(t))), fast);
  int slab = 4 * slab_vectors(t);
  for (int a = 0; a < t->m.part->n_accs; a++)
    for (int i = 0; i < t->shape->slices; i++) {
      val x = shared_component(k, t->shared, plus(k, at, (a * t->shape->slices + i) * slab));
      sums[a] = i == 0 ? x : k_add(k, sums[a], x);
    }
}

static void use_slab(tiles *t, val pass) {
  kernel *k = t->m.e->k;
  int last = t->m.columns_last, points = matmul_points(t->m.part);
  int length = side_size(t->shape, last) / points;
  val end = k_index(k, (int64_t)slab_lines(t) * length), by = k_index(k, k->threads);
  k_loop l = k_loop_begin(k, k->local, end, by);
  val fast = times(k, low_part(k, l.i, length), points), slow = high_part(k, l.i, length);
  /* line `slow` holds rows 4 (group * threads + slow) + pass % 4, group being pass / 4 */
  val at[2], group = times(k, high_part(k, pass, 4), t->threads_of[!last]);
  at[!last] = times(k, k_add(k, group, slow), 4);
  at[!last] = k_add(k, at[!last], low_part(k, pass, 4));
  at[last] = fast;
  for (int side = 0; side < 2; side++)
    at[side] = k_add(k, at[side], t->m.begin[side]);
  val row_exists = k_lt(k, at[0], t->m.size[0]), column_exists = k_lt(k, at[1], t->m.size[1]);
  k_if inside = k_if_begin(k, k_and(k, row_exists, column_exists));
  val sums[EMIT_ACCS], four[EMIT_ACCS][4];
  if (points == 4) {
    read_slab_four(t, slow, fast, four);
    matmul_result_four(&t->m, at[0], at[1], four);
  } else {
    read_slab(t, slow, fast, sums);
    matmul_result(&t->m, at[0], at[1], sums);
  }
  k_if_end(k, &inside);
  k_loop_end(k, &l);
}

/* A thread's rows one after the other (or columns, if those are what memory has apart), so that the code of the
 * epilogue stands here once and neighbouring threads write neighbouring elements. */
static void store_results(tiles *t) {
  kernel *k = t->m.e->k;
  int n = t->m.columns_last ? t->shape->thread_rows : t->shape->thread_columns;
  val zero = k_index(k, 0), one = k_index(k, 1), end = k_index(k, n);
  k_loop pass = k_loop_begin(k, zero, end, one);
  for (int i = 0; i < n; i++) {
    k_if mine = k_if_begin(k, k_eq(k, pass.i, k_index(k, i)));
    store_line(t, i);
    k_if_end(k, &mine);
  }
  k_barrier(k);
  use_slab(t, pass.i);
  k_barrier(k);
  k_loop_end(k, &pass);
}

static void place_threads(tiles *t) {
  kernel *k = t->m.e->k;
  const tile_shape *s = t->shape;
  int rows = s->rows / s->thread_rows, columns = s->columns / s->thread_columns;
  t->threads_of[0] = rows;
  t->threads_of[1] = columns;
  val rest = high_part(k, k->local, columns);
  t->at[1] = low_part(k, k->local, columns);
  t->at[0] = low_part(k, rest, rows);
  t->slice = s->slices == 1 ? k_index(k, 0) : high_part(k, rest, rows);
}

/* Panels, then tables; sums that wait need neither any more. */
static int shared_vectors(tiles *t) {
  const matmul_part *p = t->m.part;
  int a = panel_vectors(t->shape, 0), b = panel_vectors(t->shape, 1);
  t->tables = a + b;
  for (int i = 0; i + 1 < p->n_accs; i++)
    if (accs_share(&p->accs[i], &p->accs[i + 1]))
      t->tables = a + b + (a > b ? a : b);
  int most = t->tables + (1 + MOST_TOGETHER) * t->shape->depth;
  int slabs = p->n_accs * t->shape->slices * slab_vectors(t);
  return slabs > most ? slabs : most;
}

sn_status emit_tiles(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                     const amount *of, int64_t least, int64_t most) {
  struct room {
    tiles t;
    together g;
  } *room = mem_alloc(e->env.ctx, sizeof *room);
  kernel *k = room ? emit_open(e, tile_threads(way->tiles)) : NULL;
  if (!k) {
    mem_free(e->env.ctx, room, room ? sizeof *room : 0);
    return SN_ERR_NO_MEMORY;
  }
  tiles *t = &room->t;
  *t = (tiles){.m = {.e = e, .part = p, .way = way, .scratch = scratch}, .shape = way->tiles};
  int each[2] = {way->tiles->rows, way->tiles->columns};
  vk_matmul_open(&t->m, each);
  place_threads(t);
  t->shared = k_shared(k, spirv_vector(&k->s, k->s.f32, 4), shared_vectors(t));
  sum_all(t, &room->g);
  store_results(t);
  mem_free(e->env.ctx, room, sizeof *room);
  return emit_launch_when(e, false, of, least, most);
}
