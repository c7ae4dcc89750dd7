/* The kernel. See emit_matmul_window.h; halves and their scales are those of emit_matmul_matrix.h, but every 16 channels have
 * scales of their own, and their sums go to totals of f32.
 *
 * In shared memory a pixel, and a weight's column at a place of the window, is a line of 16 channels: halves, two in a word,
 * then the second halves; four words more keep lines in different banks. */
#include "device/vulkan/emit_matmul_window.h"

static int stride_of(bool rest) { return WINDOW_PAIRS * (rest ? 2 : 1) + 4; }
static bool three(const emitter *e) { return e->env.precision == SN_PRECISION_FAST; }

bool window_fits(const emitter *e, const matmul_part *p) {
  const gpu_target *t = e->env.target;
  conv_window w;
  int threads = WINDOW_SUBGROUPS * t->subgroup;
  if (e->env.precision == SN_PRECISION_EXACT || !(t->bf16 || t->f16) || e->env.wide ||
      t->matrix[0] != WINDOW_MATRIX || t->matrix[1] != WINDOW_MATRIX ||
      t->matrix[2] != WINDOW_MATRIX || threads < 128 || threads > 256 || threads > t->max_threads)
    return false;
  for (int i = 0; i < p->epilogue.n; i++)
    if (p->epilogue.code[i].op == REGION_REQUIRE)
      return false;
  /* Beside other parts of a step, such as the gradient of the weights, it was slower than ordinary tiles on an H200. */
  return e->step->n_parts == 1 && window_find(e, p, &w) && w.columns >= WINDOW_COLUMNS &&
         !matmul_columns_last(p) && window_words(&w, stride_of(three(e))) * 4 <= t->shared_bytes;
}

/* --- products --- */

static val load_matrix(windows *t, int use, val at, bool rest) {
  return k_matrix_load(t->m.e->k, t->type[use], t->words,
                       plus(t->m.e->k, at, rest ? WINDOW_PAIRS : 0),
                       use == MATRIX_A ? MATRIX_ROWS : MATRIX_COLUMNS, t->stride);
}

/* One place of the window; small products first. */
static void multiply_place(windows *t, int place, val sums[WINDOW_FRAGMENTS][WINDOW_FRAGMENTS]) {
  kernel *k = t->m.e->k;
  val b[WINDOW_FRAGMENTS][2] = {{0}}, shift = k_size(k, window_shift(&t->w, place));
  val first = k_add(k, times(k, t->subgroup, WINDOW_FRAGMENTS * WINDOW_MATRIX), shift);
  for (int j = 0; j < WINDOW_FRAGMENTS; j++)
    for (int h = 0; h <= t->panel[0].rest; h++) {
      int at = t->weights + place * window_plane(t->stride) + j * WINDOW_MATRIX * t->stride;
      b[j][h] = load_matrix(t, MATRIX_B, k_index(k, at), h);
    }
  for (int i = 0; i < WINDOW_FRAGMENTS; i++) {
    val a[2] = {0}, at = k_mul(k, plus(k, first, i * WINDOW_MATRIX), k_index(k, t->stride));
    for (int h = 0; h <= t->panel[0].rest; h++)
      a[h] = load_matrix(t, MATRIX_A, at, h);
    for (int j = 0; j < WINDOW_FRAGMENTS; j++) {
      val sum = sums[i][j];
      if (t->panel[0].rest) {
        sum = k_matrix_multiply_add(k, t->type[MATRIX_SUM], a[0], b[j][1], sum);
        sum = k_matrix_multiply_add(k, t->type[MATRIX_SUM], a[1], b[j][0], sum);
      }
      sums[i][j] = k_matrix_multiply_add(k, t->type[MATRIX_SUM], a[0], b[j][0], sum);
    }
  }
}

/* A fragment's sums without their scales. */
static val unscaled(windows *t, val sum) {
  enum { MATRIX_TIMES_SCALAR = 143 };
  val undo[2];
  if (!t->panel[0].scaled)
    return sum;
  scale_undo(t->m.e->k, &t->panel[0], &t->panel[1], undo);
  for (int i = 0; i < 2; i++)
    sum = spirv_op(&t->m.e->k->s, MATRIX_TIMES_SCALAR, t->type[MATRIX_SUM], SPV_ARGS(sum, undo[i]));
  return sum;
}

/* All places of the window, to the totals. */
static void multiply(windows *t) {
  kernel *k = t->m.e->k;
  val sums[WINDOW_FRAGMENTS][WINDOW_FRAGMENTS], zero = k_matrix_of(k, t->type[MATRIX_SUM], 0);
  for (int i = 0; i < WINDOW_FRAGMENTS * WINDOW_FRAGMENTS; i++)
    sums[i / WINDOW_FRAGMENTS][i % WINDOW_FRAGMENTS] = zero;
  for (int place = 0; place < window_places(&t->w); place++)
    multiply_place(t, place, sums);
  for (int i = 0; i < WINDOW_FRAGMENTS * WINDOW_FRAGMENTS; i++) {
    val total = t->total[i / WINDOW_FRAGMENTS][i % WINDOW_FRAGMENTS];
    val more = unscaled(t, sums[i / WINDOW_FRAGMENTS][i % WINDOW_FRAGMENTS]);
    k_set(k, total, k_add(k, k_get(k, total), more));
  }
}

/* The channels of this workgroup's piece of k. */
static void find_channels(windows *t) {
  kernel *k = t->m.e->k;
  int splits = t->m.way->splits;
  t->from = k_index(k, 0);
  t->to = k_size_of(k, &t->w.channels);
  if (splits == 1)
    return;
  val length = k_amount(k, &(amount){1, WINDOW_CHANNELS * splits, &t->w.channels});
  length = times(k, length, WINDOW_CHANNELS);
  t->from = k_mul(k, t->m.split, length);
  t->to = k_min(k, t->to, k_add(k, t->from, length));
}

static void sum_all(windows *t) {
  kernel *k = t->m.e->k;
  k_if any = k_if_begin(k, k_lt(k, t->from, t->to));
  window_load(t, t->from);
  k_if_end(k, &any);
  val by = k_index(k, WINDOW_CHANNELS);
  k_loop l = k_loop_begin(k, t->from, t->to, by);
  val next = k_add(k, l.i, by);
  window_settle(t);
  k_barrier_shared(k);
  if (t->panel[0].scaled)
    window_choose_scales(t);
  window_store(t);
  k_barrier_shared(k);
  k_if more = k_if_begin(k, k_lt(k, next, t->to));
  window_load(t, next); /* while this is multiplied */
  k_if_end(k, &more);
  multiply(t);
  k_loop_end(k, &l);
  k_barrier_shared(k);
}

/* --- results --- */

static void store_sums(windows *t) {
  kernel *k = t->m.e->k;
  val first = times(k, t->subgroup, WINDOW_FRAGMENTS * WINDOW_MATRIX);
  for (int i = 0; i < WINDOW_FRAGMENTS; i++)
    for (int j = 0; j < WINDOW_FRAGMENTS; j++) {
      val at = plus(k, first, i * WINDOW_MATRIX + j * WINDOW_MATRIX * WINDOW_BLOCK);
      k_matrix_store(k, t->words, at, k_get(k, t->total[i][j]), MATRIX_COLUMNS, WINDOW_BLOCK);
    }
  k_barrier_shared(k);
}

/* What four columns are without halves. */
static void sum_plainly(windows *t, val row, val column, val sums[4]) {
  kernel *k = t->m.e->k;
  const matmul_product *p = &t->m.part->accs[0].products[0];
  operand o[2];
  for (int side = 0; side < 2; side++)
    vk_operand_read(t->m.e, t->m.part, p, side, &o[side]);
  val places = k_index(k, window_places(&t->w)), size = k_sizes(k, p->n_k, p->k);
  val from = k_mul(k, t->from, places), to = k_mul(k, t->to, places);
  k_loop l = k_loop_begin(k, from, to, k_index(k, 1));
  val image = operand_element(&t->m, &o[0], row, l.i, size);
  for (int u = 0; u < 4; u++) {
    val weight = operand_element(&t->m, &o[1], plus(k, column, u), l.i, size);
    k_set(k, sums[u], k_fma(k, image, weight, k_get(k, sums[u])));
  }
  k_loop_end(k, &l);
}

/* Four columns' sums from shared memory, or anew. */
static void find_sums(windows *t, val at, val row, val column, val sums[4]) {
  kernel *k = t->m.e->k;
  val made[4], zero = k_f32(k, 0);
  for (int u = 0; u < 4; u++)
    sums[u] = k_bits(k, k_shared_get(k, t->words, plus(k, at, u * WINDOW_BLOCK)), k->s.f32);
  if (!t->panel[0].scaled)
    return;
  for (int u = 0; u < 4; u++)
    made[u] = k_var(k, sums[u]);
  k_if wild = k_if_begin(k, k_get(k, t->wild));
  for (int u = 0; u < 4; u++)
    k_set(k, made[u], zero);
  sum_plainly(t, row, column, made);
  k_if_end(k, &wild);
  for (int u = 0; u < 4; u++)
    sums[u] = k_get(k, made[u]);
}

/* A thread has one place of the grid, and four columns at a time. */
static void use_sums(windows *t) {
  kernel *k = t->m.e->k;
  val mine = low_part(k, k->local, WINDOW_ROWS), place[3];
  val ok = window_place(t, k_add(k, t->m.begin[0], mine), true, place);
  val row = k_add(k, k_mul(k, place[0], k_size_of(k, &t->w.axis[0].out)), place[1]);
  row = k_add(k, k_mul(k, row, k_size_of(k, &t->w.axis[1].out)), place[2]);
  k_if exists = k_if_begin(k, ok);
  val from = times(k, high_part(k, k->local, WINDOW_ROWS), 4), end = k_index(k, WINDOW_COLUMNS);
  k_loop l = k_loop_begin(k, from, end, k_index(k, t->threads / WINDOW_ROWS * 4));
  val column = k_add(k, t->m.begin[1], l.i), sums[1][4];
  k_if inside = k_if_begin(k, k_lt(k, column, t->m.size[1]));
  val at = k_add(k, k_mul(k, l.i, k_index(k, WINDOW_BLOCK)), mine);
  find_sums(t, at, row, column, sums[0]);
  matmul_result_columns(&t->m, row, column, sums);
  k_if_end(k, &inside);
  k_loop_end(k, &l);
  k_if_end(k, &exists);
}

/* --- the launches --- */

static int64_t tiles_of(const conv_window *w) {
  int64_t places = w->grid[0] * w->grid[1] * w->grid[2];
  return (places + WINDOW_ROWS - 1) / WINDOW_ROWS *
         ((w->columns + WINDOW_COLUMNS - 1) / WINDOW_COLUMNS);
}

/* Pieces of k, by cycles as an H200 takes them: of 16 channels where a unit has one workgroup, and where it has several;
 * a second launch and its way through memory. */
static int choose_splits(const emitter *e, const matmul_part *p, const conv_window *w,
                         int64_t *out_cost) {
  enum { ALONE = 3900, SHARED = 3900, LAUNCH = 6000, BYTES_A_CYCLE = 1200, MOST = 16 };
  int64_t steps = w->channels / WINDOW_CHANNELS, units = e->env.target->units;
  int64_t result = sizes_most(&e->env, p->n_m + p->n_n, p->extent);
  int splits = 1;
  for (int n = 1; n <= MOST && n * 2 <= max_i64(steps, 2); n++) {
    int64_t turns = (tiles_of(w) * n + units - 1) / units;
    int64_t cost = (steps + n - 1) / n * max_i64(ALONE, turns * SHARED);
    cost += n > 1 ? LAUNCH + 8 * result * n / BYTES_A_CYCLE : 0;
    if (n == 1 || cost < *out_cost) {
      *out_cost = cost;
      splits = n;
    }
  }
  return splits;
}

double window_cost(const emitter *e, const matmul_part *p) {
  conv_window w;
  int64_t cost = 0;
  if (window_find(e, p, &w))
    (void)choose_splits(e, p, &w, &cost);
  return (double)cost;
}

static void open_panels(windows *t) {
  kernel *k = t->m.e->k;
  int maxima = window_words(&t->w, t->stride) - 2 * WINDOW_SUBGROUPS;
  for (int side = 0; side < 2; side++) {
    half_panel *p = &t->panel[side];
    int n = 2 * (side ? window_weight_lines(t) : window_image_lines(t));
    *p = (half_panel){.o = {.plain = true, .side = side},
                      .threads = t->threads,
                      .rest = t->m.way->products == 3,
                      .half = t->m.way->half,
                      .array = t->words,
                      .units = n / 4};
    p->scaled = p->rest && p->half == SN_F16;
    for (int i = 0; i < n; i++)
      p->kept[i] = k_var(k, k_f32(k, 0));
    if (p->scaled)
      scale_open(&t->m, p, maxima + side * WINDOW_SUBGROUPS);
    p->largest = p->scaled ? k_get(k, p->exponent) : 0; /* where every scale begins */
  }
  t->wild = k_var(k, k_bool(k, false));
}

static void emit_body(windows *t) {
  kernel *k = t->m.e->k;
  amount tiles[2] = {{3, WINDOW_ROWS, t->w.grid}, {1, WINDOW_COLUMNS, &t->w.columns}};
  const int each[2] = {WINDOW_ROWS, WINDOW_COLUMNS};
  k_use_matrices(k, t->m.e->env.target->matrix, t->m.way->half, t->type);
  matmul_open_tiles(&t->m, tiles, each);
  t->subgroup = k_subgroup_number(k);
  t->words = k_shared(k, k->s.u32, window_words(&t->w, t->stride));
  window_place_images(t);
  window_place_weights(t);
  for (int i = 0; i < WINDOW_FRAGMENTS * WINDOW_FRAGMENTS; i++)
    t->total[i / WINDOW_FRAGMENTS][i % WINDOW_FRAGMENTS] =
        k_var(k, k_matrix_of(k, t->type[MATRIX_SUM], 0));
  open_panels(t);
  find_channels(t);
  sum_all(t);
  store_sums(t);
  use_sums(t);
}

sn_status emit_window(emitter *e, const matmul_part *p) {
  windows *t = arena_alloc(e->env.memory, sizeof *t);
  const gpu_target *target = e->env.target;
  int threads = WINDOW_SUBGROUPS * target->subgroup;
  if (!t || !window_find(e, p, &t->w) || !emit_open(e, threads))
    return SN_ERR_NO_MEMORY;
  bool f16 = three(e) ? target->f16 : !target->bf16;
  int64_t cost = 0;
  matmul_way way = {.products = three(e) ? 3 : 1,
                    .half = f16 ? SN_F16 : SN_BF16,
                    .splits = choose_splits(e, p, &t->w, &cost)};
  int64_t scratch = 0, result = sizes_most(&e->env, p->n_m + p->n_n, p->extent);
  if (way.splits > 1)
    scratch = scratch_take(&e->env, 4 * way.splits * result);
  t->m = (matmul){.e = e, .part = p, .way = &way, .scratch = scratch};
  t->threads = threads;
  t->stride = stride_of(three(e));
  t->weights = t->w.rows * t->stride;
  emit_body(t);
  SN_TRY(emit_launch(e, false));
  return way.splits > 1 ? matmul_join(e, p, &way, scratch, NULL, 0, 0) : SN_OK;
}
