/* Units of matmuls: panels are packed, multiplied and the results stored. See matmul.h.
 *
 * A unit is summed over all products and blocks of k, in the order of each accumulator's products and of k; so the bits depend
 * neither on how the results are cut nor on who packs what. Then the epilogue runs on its sums, which are still at hand. */
#include "device/cpu/conv.h"
#include "device/cpu/matmul.h"

enum { PACK_FLOATS = 32 * 1024 }; /* that a thread makes ready at a time */

/* --- what is ready --- */

static float *take_ready(matmul_work *w, int side, int64_t k) {
  size_t bytes = (size_t)(w->cut.slab[side] * k) * sizeof(float);
  return w->cut.near[side] ? cpu_take(w->r, bytes) : cpu_take_shared(w->r, bytes);
}

/* Memory for it; shared, the same places in every thread and every time. */
static sn_status place_ready(matmul_work *w) {
  for (int i = 0; i < w->n_products; i++)
    for (int side = 0; side < SIDES; side++) {
      struct matmul_term *t = &w->products[i];
      t->ready[side] = w->shape.kept[side] ? t->kept[side] : w->products[t->same[side]].ready[side];
      if (!w->cut.ready[side] || w->shape.kept[side] || t->same[side] != i)
        continue;
      t->ready[side] = take_ready(w, side, t->k.count);
      if (!t->ready[side])
        return SN_ERR_INTERNAL;
    }
  return SN_OK;
}

/* All of k of rows from …: some panels and blocks of k at a time. */
static void fill_panels(matmul_work *w, const struct matmul_term *t, int side, int64_t from,
                        int64_t n, float *to) {
  int width = w->shape.width[side];
  int64_t k = t->k.count,
          n_k = min_i64(max_i64(1, k), max_i64(MATMUL_K, PACK_FLOATS / (4 * width)));
  int64_t rows = max_i64(1, PACK_FLOATS / (width * n_k)) * width, steps = up(k, n_k);
  cpu_begin(w->r);
  for (int64_t i; cpu_next(w->r, up(n, rows) * steps, &i);) {
    int64_t row = i / steps * rows, p = i % steps * n_k;
    operand_pack(w, t->of[side], from + row, min_i64(rows, n - row), p, min_i64(n_k, k - p), width,
                 to + row * k + p * width, k * width);
  }
}

static bool is_shared(const matmul_work *w, int side) {
  return w->cut.ready[side] && !w->cut.near[side] && !w->shape.kept[side];
}

sn_status matmul_make_ready(matmul_work *w, const int64_t from[SIDES]) {
  SN_TRY(place_ready(w));
  for (int i = 0; i < w->n_products; i++)
    for (int side = 0; side < SIDES; side++) {
      const struct matmul_term *t = &w->products[i];
      int64_t n = min_i64(w->cut.slab[side], w->side[side].count - from[side]);
      if (is_shared(w, side) && t->same[side] == i)
        fill_panels(w, t, side, from[side], n, t->ready[side]);
    }
  return SN_OK;
}

/* What each thread packs for itself. */
static void fill_near(matmul_work *w) {
  for (int i = 0; i < w->n_products; i++)
    for (int side = 0; side < SIDES; side++) {
      const struct matmul_term *t = &w->products[i];
      int width = w->shape.width[side];
      if (w->cut.near[side] && t->same[side] == i)
        operand_pack(w, t->of[side], 0, w->side[side].count, 0, t->k.count, width, t->ready[side],
                     t->k.count * width);
    }
}

void matmul_fill_kept(matmul_work *w) {
  for (int i = 0; i < w->n_products; i++)
    for (int side = 0; side < SIDES; side++) {
      const struct matmul_term *t = &w->products[i];
      if (t->kept[side])
        fill_panels(w, t, side, 0, w->side[side].count, t->kept[side]);
    }
}

/* --- units --- */

typedef struct unit {
  int64_t at[SIDES], n[SIDES];
  int64_t slab[SIDES]; /* where the slab at hand begins */
  float *c;            /* of accumulator 0 */
  int64_t c_row;
  const matmul_operand *held[SIDES]; /* what the unit's own panels are of, from k = held_k on */
  int64_t held_k;
} unit;

/* One side of a block of k: ready, or packed now. */
static const float *side_of(matmul_work *w, unit *u, const struct matmul_term *t, int side,
                            int64_t k, int64_t n_k, int64_t *panel) {
  int width = w->shape.width[side];
  matmul_operand *o = w->products[t->same[side]].of[side];
  if (w->cut.ready[side]) {
    *panel = t->k.count * width;
    return t->ready[side] + (u->at[side] - u->slab[side]) * t->k.count + k * width;
  }
  *panel = n_k * width;
  if (u->held[side] != o || u->held_k != k)
    operand_pack(w, o, u->at[side], u->n[side], k, n_k, width, w->own[side], *panel);
  u->held[side] = o;
  return w->own[side];
}

static panel_block open_block(matmul_work *w, unit *u, const struct matmul_term *t, int64_t k) {
  panel_block b = {.m = u->n[ROWS],
                   .n = u->n[COLS],
                   .k = min_i64(MATMUL_K, t->k.count - k),
                   .c = u->c + t->acc * w->sums_size,
                   .c_row = u->c_row,
                   .add = k > 0 || !t->first};
  b.a = side_of(w, u, t, ROWS, k, b.k, &b.a_panel);
  b.b = side_of(w, u, t, COLS, k, b.k, &b.b_panel);
  u->held_k = k;
  return b;
}

static void add_block(matmul_work *w, unit *u, const struct matmul_term *t, int64_t k) {
  panel_block b = open_block(w, u, t, k);
  b.more = w->cut.ready[COLS] && b.n <= w->shape.width[COLS];
  w->r->isa->matmul->multiply(&b);
}

/* Neighbouring products of different accumulators that share an operand which units pack: they go block by block together. */
static int products_together(const matmul_work *w, int from) {
  int n = 1;
  for (; from + n < w->n_products && w->products[from + n].first; n++) {
    const struct matmul_term *t = &w->products[from + n];
    if (!(t->same[ROWS] == from && !w->cut.ready[ROWS]) &&
        !(t->same[COLS] == from && !w->cut.ready[COLS]))
      break;
  }
  return n;
}

/* Whether a unit is better summed a column panel at a time, over all of k: then b passes by in the order of memory, where it comes
 * from afar, while all of a stays in the second cache. */
static bool goes_by_panels(const matmul_work *w, const unit *u) {
  int64_t k = 0, most = w->shape.caches.second / (int64_t)sizeof(float) / 5 * 4;
  for (int i = 0; i < w->n_products; i++)
    k = max_i64(k, w->products[i].k.count);
  return w->cut.ready[ROWS] && w->cut.ready[COLS] && u->n[ROWS] * k <= most;
}

static void sum_panels(matmul_work *w, const unit *u) {
  int width = w->shape.width[COLS];
  for (int i = 0; i < w->n_products; i++)
    for (int64_t j = 0; j < u->n[COLS]; j += width) {
      unit panel = *u;
      panel.at[COLS] += j;
      panel.n[COLS] = min_i64(width, u->n[COLS] - j);
      panel.c += j;
      for (int64_t k = 0; k < w->products[i].k.count || k == 0; k += MATMUL_K)
        add_block(w, &panel, &w->products[i], k);
    }
}

static void sum_unit(matmul_work *w, unit *u) {
  if (goes_by_panels(w, u)) {
    sum_panels(w, u);
    return;
  }
  for (int i = 0, n; i < w->n_products; i += n) {
    n = products_together(w, i);
    for (int64_t k = 0; k < w->products[i].k.count || k == 0; k += MATMUL_K)
      for (int j = i; j < i + n; j++)
        add_block(w, u, &w->products[j], k);
    u->held[ROWS] = u->held[COLS] = NULL;
  }
}

/* --- strips --- */

/* Whether the last block of k goes a strip of rows after the other, each stored at once: what it adds to and what it is stored with is then
 * near, and memory is asked for while others are multiplied. */
static bool goes_by_strips(const matmul_work *w, const unit *u) {
  return w->rows && w->part->n_accs == 1 && !goes_by_panels(w, u);
}

/* A strip of the last block, its columns a panel at a time: what they are stored with is asked for meanwhile. */
static void add_strip(matmul_work *w, const panel_block *block, const int64_t at[SIDES]) {
  int width = w->shape.width[COLS];
  for (int64_t j = 0; j < block->n; j += width) {
    panel_block b = *block;
    b.n = min_i64(width, block->n - j);
    b.b += j / width * block->b_panel;
    b.c += j;
    rows_ask(w, (int64_t[]){at[ROWS], at[COLS] + j}, (int64_t[]){b.m, b.n});
    w->r->isa->matmul->multiply(&b);
  }
}

static void run_strips(matmul_work *w, unit *u) {
  const struct matmul_term *last = &w->products[w->n_products - 1];
  int64_t k = max_i64(0, (last->k.count - 1) / MATMUL_K * MATMUL_K), rows = w->shape.width[ROWS];
  float *sums = w->sums;
  for (int i = 0; i < w->n_products; i++)
    for (int64_t p = 0; p < w->products[i].k.count || p == 0; p += MATMUL_K)
      if (&w->products[i] != last || p < k)
        add_block(w, u, &w->products[i], p);
  panel_block b = open_block(w, u, last, k);
  for (int64_t i = 0; i < u->n[ROWS]; i += rows) {
    panel_block strip = b;
    const int64_t at[SIDES] = {u->at[ROWS] + i, u->at[COLS]};
    const int64_t n[SIDES] = {min_i64(rows, u->n[ROWS] - i), u->n[COLS]};
    strip.m = n[ROWS];
    strip.a += i / rows * b.a_panel;
    strip.c += b.add ? i * b.c_row : 0;
    add_strip(w, &strip, at);
    w->sums = strip.c;
    store_block(w, at, n);
  }
  w->sums = sums;
}

/* The distance of rows of sums: whole lines, but never beyond the panels, which is what memory is taken for. */
static int64_t row_of_sums(const matmul_work *w, int64_t columns) {
  int64_t line = min_i64(MATMUL_LINE, w->shape.width[COLS]);
  return up(columns, line) * line;
}

static void run_unit(matmul_work *w, unit *u) {
  bool in_place = store_in_place(w, u->at, u->n, &u->c, &u->c_row);
  if (!in_place) {
    w->sums_row = u->c_row = row_of_sums(w, u->n[COLS]);
    w->sums_size = u->n[ROWS] * u->c_row + CPU_LANE_BLOCK;
    u->c = w->sums;
  }
  if (conv_is_direct(w)) {
    conv_sum_direct(w, u->at, u->n, u->c, u->c_row);
  } else if (!in_place && goes_by_strips(w, u)) {
    run_strips(w, u);
    return;
  } else {
    sum_unit(w, u);
  }
  if (!in_place)
    store_block(w, u->at, u->n);
}

static sn_status take_own(matmul_work *w) {
  bool all = true;
  for (int side = 0; side < SIDES; side++) {
    size_t floats = (size_t)matmul_own_most(&w->shape, side);
    w->own[side] = w->cut.ready[side] ? NULL : cpu_take(w->r, floats * sizeof(float));
    all = all && (w->cut.ready[side] || w->own[side]);
  }
  w->sums = cpu_take(w->r, (size_t)matmul_sums_most(&w->shape) * sizeof(float));
  return all && w->sums ? SN_OK : SN_ERR_INTERNAL;
}

sn_status matmul_run_units(matmul_work *w, const int64_t from[SIDES]) {
  int64_t n[SIDES], pieces[SIDES];
  SN_TRY(place_ready(w));
  SN_TRY(take_own(w));
  for (int side = 0; side < SIDES; side++) {
    n[side] = min_i64(w->cut.slab[side], w->side[side].count - from[side]);
    pieces[side] = up(n[side], w->cut.unit[side]);
  }
  bool filled = false;
  cpu_begin(w->r);
  for (int64_t i; cpu_next(w->r, w->batch.count * pieces[ROWS] * pieces[COLS], &i);) {
    if (!filled)
      fill_near(w);
    filled = true;
    int64_t piece[SIDES] = {i % pieces[ROWS], i / pieces[ROWS] % pieces[COLS]};
    unit u = {.slab = {from[ROWS], from[COLS]}};
    group_coords(&w->batch, w->extent, i / pieces[ROWS] / pieces[COLS], w->coords);
    for (int side = 0; side < SIDES; side++) {
      int64_t panels = up(n[side], w->shape.width[side]), width = w->shape.width[side];
      int64_t at = piece[side] * panels / pieces[side] * width;
      u.at[side] = from[side] + at;
      u.n[side] = min_i64((piece[side] + 1) * panels / pieces[side] * width, n[side]) - at;
    }
    run_unit(w, &u);
  }
  return SN_OK;
}
