/* Packing of direct operands by lines: see matmul_operand.h and isa/pack.h. */
#include "device/cpu/isa/matmul.h"
#include "device/cpu/isa/pack.h"
#include "device/cpu/matmul.h"

enum {
  ENTRIES = 512,   /* of the other index at a time */
  PIECE_LEAST = 32 /* of an index, that are worth going by themselves */
};

typedef struct packing {
  struct pack_room *room;
  const pack_kernels *kernels;
  const operand_plan *plan;
  const plan_group *along, *across; /* of lines; of the others */
  pack_source from;
  int64_t base, checks[ACCESS_CHECKS]; /* of the batch entry */
} packing;

/* --- the other index --- */

/* Some entries: element numbers (without base) and classes. */
typedef struct entry_table {
  int n, n_classes;
  int64_t at[ENTRIES];
  uint8_t class_of[ENTRIES];
  bool has[PLAN_CLASSES]; /* some entry is of it */
  int64_t checks[PLAN_CLASSES][ACCESS_CHECKS];
} entry_table;

enum { RECIPES = 3 * PLAN_CLASSES }; /* of several squares */

/* What one packing needs: scratch of the thread, too large for its stack. */
typedef struct pack_room {
  entry_table t;
  pack_recipe recipes[RECIPES];
} pack_room;

size_t plan_pack_bytes(void) { return cpu_take_bytes(sizeof(pack_room)); }

/* A number for the coordinates of checked axes. */
static int64_t class_at(const plan_group *g, const int64_t *coords) {
  int64_t id = 0;
  for (int a = 0; a < g->n; a++)
    id = g->axes[a].is_checked ? id * g->axes[a].extent + coords[a] : id;
  return id;
}

/* Entries from … from+n-1. With too many classes each entry is one, and n is at most PLAN_CLASSES. */
static void fill_entries(const packing *w, int64_t from, int n, entry_table *t) {
  const plan_group *g = w->across;
  bool own = g->classes > PLAN_CLASSES;
  const plan_axis *last = g->n > 0 ? &g->axes[g->n - 1] : NULL;
  int64_t coords[PLAN_AXES];
  memset(t->has, 0, sizeof t->has);
  plan_coords(g, from, coords);
  for (int i = 0; i < n;) {
    int run = last ? (int)min_i64(n - i, last->extent - coords[g->n - 1]) : 1;
    int64_t at = plan_at(g, coords), id = own ? 0 : class_at(g, coords);
    int64_t by = last ? last->at : 0;
    bool moves = last && last->is_checked;
    for (int j = 0; j < run; j++) {
      int id_j = own ? i + j : (int)id + (moves ? j : 0);
      t->at[i + j] = at + j * by;
      t->class_of[i + j] = (uint8_t)id_j;
      if (!t->has[id_j]) {
        t->has[id_j] = true;
        plan_checks(g, coords, w->plan->n_checks, t->checks[id_j]);
      }
      if (last)
        coords[g->n - 1]++;
    }
    plan_carry(g, coords);
    i += run;
  }
  t->n = n;
  t->n_classes = own ? n : (int)g->classes;
}

/* --- lines --- */

/* The lanes of a line, cut where its last axis begins anew. */
typedef struct line_cut {
  int n;
  struct line_segment {
    int lane, n;
    int64_t at, checks[ACCESS_CHECKS];
  } segments[PACK_LANES];
} line_cut;

static void cut_line(const packing *w, int64_t from, int lanes, line_cut *out) {
  const plan_group *g = w->along;
  int64_t coords[PLAN_AXES];
  out->n = 0;
  plan_coords(g, from, coords);
  for (int l = 0; l < lanes;) {
    int run = g->n > 0 ? (int)min_i64(lanes - l, g->axes[g->n - 1].extent - coords[g->n - 1]) : 1;
    struct line_segment *s = &out->segments[out->n++];
    s->lane = l;
    s->n = run;
    s->at = w->base + plan_at(g, coords);
    plan_checks(g, coords, w->plan->n_checks, s->checks);
    for (int c = 0; c < w->plan->n_checks; c++)
      s->checks[c] += w->checks[c];
    l += run;
    if (g->n > 0)
      coords[g->n - 1] += run;
    plan_carry(g, coords);
  }
}

static void make_recipe(const packing *w, const line_cut *cut, const int64_t *checks,
                        pack_recipe *out) {
  const plan_group *g = w->along;
  const plan_axis *last = g->n > 0 ? &g->axes[g->n - 1] : NULL;
  out->n = 0;
  out->runs[0] = (pack_run){0};
  for (int s = 0; s < cut->n; s++) {
    const struct line_segment *x = &cut->segments[s];
    int64_t lo = 0, hi = x->n;
    for (int c = 0; c < w->plan->n_checks; c++)
      plan_narrow(x->checks[c] + checks[c], last ? last->checks[c] : 0, w->plan->checks[c].size,
                  &lo, &hi);
    if (lo >= hi)
      continue;
    int64_t at = x->at - x->lane * w->from.by;
    pack_run *before = out->n > 0 ? &out->runs[out->n - 1] : NULL;
    uint32_t mask = (uint32_t)(((UINT64_C(1) << (hi - lo)) - 1) << (x->lane + lo));
    if (before && before->at == at && before->lane + before->n == x->lane + lo) {
      before->n = (int16_t)(before->n + (hi - lo));
      before->mask |= mask;
    } else {
      out->runs[out->n++] = (pack_run){at, mask, (int16_t)(x->lane + lo), (int16_t)(hi - lo)};
    }
  }
}

/* The recipes of all classes that the table has. */
static void make_recipes(const packing *w, const entry_table *t, int64_t from, int lanes,
                         pack_recipe *out) {
  line_cut cut;
  cut_line(w, from, lanes, &cut);
  for (int c = 0; c < t->n_classes; c++)
    if (t->has[c])
      make_recipe(w, &cut, t->checks[c], &out[c]);
    else
      out[c].n = 0; /* nobody's */
}

/* --- lines as they are --- */

/* Entry (j of the lines, q of the others) goes to to + j / width * panel + q * step + j % width; lanes up to whole panels
 * become 0. */
static void pack_as_lines(const packing *w, int64_t j0, int64_t n_j, int64_t q0, int64_t n_q,
                          const panel_layout *to) {
  entry_table *t = &w->room->t;
  pack_recipe *recipes = w->room->recipes;
  int64_t once = w->across->classes > PLAN_CLASSES ? PLAN_CLASSES : ENTRIES;
  for (int64_t q = 0; q < n_q; q += once) {
    fill_entries(w, q0 + q, (int)min_i64(once, n_q - q), t);
    for (int64_t j = 0; j < n_j; j += to->width)
      for (int64_t l = 0; l < to->width; l += PACK_LANES) {
        int lanes = (int)min_i64(PACK_LANES, to->width - l);
        int filled = (int)max_i64(0, min_i64(lanes, n_j - j - l));
        make_recipes(w, t, j0 + j + l, filled, recipes);
        w->kernels->lines(&w->from,
                          &(pack_lines){.n = t->n,
                                        .at = t->at,
                                        .class_of = t->class_of,
                                        .recipes = recipes,
                                        .classes = t->n_classes,
                                        .to = to->to + j / to->width * to->panel + q * to->step + l,
                                        .step = to->step,
                                        .lanes = lanes});
      }
  }
}

/* --- lines that become columns --- */

/* Some steps along the lines, for all entries of the table, which are those from q on of n_q. Lines are followed for a while
 * before the next ones are: so memory is read in order. */
static void turn_strip(const packing *w, const entry_table *t, const pack_recipe *recipes,
                       int steps, int64_t q, int64_t n_q, float *to, const panel_layout *layout) {
  int64_t end = q + t->n == n_q ? (n_q + layout->width - 1) / layout->width * layout->width : n_q;
  for (int64_t i = 0; q + i < end && (i < t->n || q + t->n == n_q);) {
    int64_t at = (q + i) % layout->width;
    int lanes = (int)min_i64(PACK_SQUARE, layout->width - at);
    w->kernels->columns(&w->from,
                        &(pack_columns){.n = (int)max_i64(0, min_i64(lanes, t->n - i)),
                                        .lanes = lanes,
                                        .steps = steps,
                                        .at = t->at + i,
                                        .class_of = t->class_of + i,
                                        .recipes = recipes,
                                        .classes = t->n_classes,
                                        .to = to + (q + i) / layout->width * layout->panel + at,
                                        .step = layout->step});
    i += lanes;
  }
}

/* How many squares lines are followed at a time: as far as they go on in memory. */
static int64_t squares_to_follow(const packing *w, int classes) {
  enum { FAR = 16 };
  const plan_group *g = w->along;
  int a = g->n - 1;
  int64_t run = a >= 0 ? g->axes[a].extent : 1;
  for (; a > 0 && g->axes[a - 1].at == g->axes[a].at * g->axes[a].extent; a--)
    run *= g->axes[a - 1].extent;
  return max_i64(1, min_i64(min_i64(FAR, RECIPES / classes), run / PACK_SQUARE));
}

/* Entry (j, q) at to + q / width * panel + j * step + q % width; q up to whole panels becomes 0. */
static void pack_as_columns(const packing *w, int64_t j0, int64_t n_j, int64_t q0, int64_t n_q,
                            const panel_layout *to) {
  entry_table *t = &w->room->t;
  pack_recipe *recipes = w->room->recipes;
  int64_t once = w->across->classes > PLAN_CLASSES ? PLAN_CLASSES : ENTRIES;
  once = to->width < once ? once / to->width * to->width : once;
  for (int64_t q = 0; q < n_q; q += once) {
    fill_entries(w, q0 + q, (int)min_i64(once, n_q - q), t);
    int64_t follow = squares_to_follow(w, t->n_classes) * PACK_SQUARE;
    for (int64_t j = 0; j < n_j; j += follow) {
      int steps = (int)min_i64(follow, n_j - j);
      for (int s = 0; s < steps; s += PACK_SQUARE)
        make_recipes(w, t, j0 + j + s, (int)min_i64(PACK_SQUARE, steps - s),
                     recipes + s / PACK_SQUARE * t->n_classes);
      turn_strip(w, t, recipes, steps, q, n_q, to->to + j * to->step, to);
    }
  }
}

/* --- operands --- */

static pack_dtype dtype_of(const direct_access *d) {
  return d->dtype == SN_F32 ? PACK_F32 : d->dtype == SN_F16 ? PACK_F16 : PACK_BF16;
}

static packing open_packing(const matmul_work *w, const matmul_operand *o, bool along_k) {
  const operand_plan *p = &o->plan;
  packing out = {.kernels = w->r->isa->pack,
                 .plan = p,
                 .along = along_k ? &p->k : &p->rows,
                 .across = along_k ? &p->rows : &p->k,
                 .from = {.data = o->direct.data, .dtype = dtype_of(&o->direct)}};
  int64_t checks[ACCESS_CHECKS];
  direct_batch(&o->direct, w->part->n_batch, w->coords, &out.base, checks);
  for (int c = 0; c < p->n_checks; c++)
    out.checks[c] = checks[p->checks[c].of];
  out.from.by = out.along->n > 0 ? out.along->axes[out.along->n - 1].at : 0;
  return out;
}

/* Whether entries from … from+n-1 of a group are evenly spaced. */
static bool is_even(const plan_group *g, int64_t from, int64_t n, int64_t *out_at,
                    int64_t *out_step) {
  int64_t coords[PLAN_AXES];
  if (g->n == 0) {
    *out_at = *out_step = 0;
    return true;
  }
  plan_coords(g, from, coords);
  *out_at = plan_at(g, coords);
  *out_step = g->axes[g->n - 1].at;
  return coords[g->n - 1] + n <= g->axes[g->n - 1].extent;
}

bool plan_is_strided(const matmul_work *w, const matmul_operand *o, int64_t row, int64_t n_rows,
                     int64_t k, int64_t n_k, const float **out_at, int64_t *out_row,
                     int64_t *out_k) {
  int64_t base, checks[ACCESS_CHECKS], at_row, at_k;
  if (!o->plan.fits || o->plan.n_checks > 0 || o->direct.dtype != SN_F32 ||
      !is_even(&o->plan.rows, row, n_rows, &at_row, out_row) ||
      !is_even(&o->plan.k, k, n_k, &at_k, out_k))
    return false;
  direct_batch(&o->direct, w->part->n_batch, w->coords, &base, checks);
  *out_at = (const float *)(const void *)o->direct.data + base + at_row + at_k;
  return true;
}

/* Panel by panel where k is dense: few rows are then read at a time, each in order. */
static void pack_matrix(const matmul_work *w, const float *from, int64_t row, int64_t k,
                        int64_t n_rows, int64_t n_k, const panel_layout *to) {
  int64_t once = k == 1 ? to->width : n_rows;
  for (int64_t i = 0; i < n_rows; i += once)
    w->r->isa->matmul->pack(from + i * row, row, k, min_i64(once, n_rows - i), n_k, (int)to->width,
                            to->to + i / to->width * to->panel, to->panel);
}

/* How far entries from number i on go evenly, of n at most. */
static int64_t even_run(const plan_group *g, int64_t i, int64_t n) {
  int64_t coords[PLAN_AXES];
  plan_coords(g, i, coords);
  return min_i64(n, g->axes[g->n - 1].extent - coords[g->n - 1]);
}

/* Whether a group is a few long runs, one after the other in memory each: images of a batch. */
static bool has_pieces(const plan_group *g) {
  return g->n > 1 && g->axes[g->n - 1].at == 1 && g->axes[g->n - 1].extent >= PIECE_LEAST;
}

/* Pieces of k, each of which is dense. */
static bool pack_k_pieces(const matmul_work *w, const matmul_operand *o, int64_t row,
                          int64_t n_rows, int64_t k, int64_t n_k, const panel_layout *to) {
  const float *from;
  int64_t run, row_step, k_step;
  if (!has_pieces(&o->plan.k))
    return false;
  for (int64_t p = 0; p < n_k; p += run) {
    panel_layout piece = *to;
    run = even_run(&o->plan.k, k + p, n_k - p);
    if (!plan_is_strided(w, o, row, n_rows, k + p, run, &from, &row_step, &k_step))
      return false;
    piece.to += p * to->width;
    pack_matrix(w, from, row_step, k_step, n_rows, run, &piece);
  }
  return true;
}

/* Pieces of rows, each of which is dense. */
static bool pack_row_pieces(const matmul_work *w, const matmul_operand *o, int64_t row,
                            int64_t n_rows, int64_t k, int64_t n_k, const panel_layout *to) {
  const float *from;
  int64_t run, row_step, k_step;
  if (!has_pieces(&o->plan.rows))
    return false;
  for (int64_t i = 0; i < n_rows; i += run) {
    run = even_run(&o->plan.rows, row + i, n_rows - i);
    if (!plan_is_strided(w, o, row + i, run, k, n_k, &from, &row_step, &k_step))
      return false;
    w->r->isa->matmul->pack_rows(from, k_step, run, n_k, (int)to->width, (int)(i % to->width),
                                 to->to + i / to->width * to->panel, to->panel);
  }
  for (int64_t p = 0; n_rows % to->width != 0 && p < n_k; p++)
    for (int64_t i = n_rows; i % to->width != 0; i++)
      *panel_element(to, i, p) = 0;
  return true;
}

void plan_pack(const matmul_work *w, const matmul_operand *o, int64_t row, int64_t n_rows,
               int64_t k, int64_t n_k, const panel_layout *to) {
  const float *from;
  int64_t row_step, k_step;
  if (to->step == to->width &&
      plan_is_strided(w, o, row, n_rows, k, n_k, &from, &row_step, &k_step) &&
      (row_step == 1 || k_step == 1)) {
    pack_matrix(w, from, row_step, k_step, n_rows, n_k, to);
    return;
  }
  if (to->step == to->width && (pack_k_pieces(w, o, row, n_rows, k, n_k, to) ||
                                pack_row_pieces(w, o, row, n_rows, k, n_k, to)))
    return;
  bool k_lines = to->width == 1 && to->step == 1; /* each row's k's lie one after the other */
  bool along_k = o->plan.along_k;
  packing p = open_packing(w, o, along_k);
  p.room = w->pack_room;
  panel_layout by_k = {to->to, n_k, 0, to->panel};
  if (along_k && k_lines)
    pack_as_lines(&p, k, n_k, row, n_rows, &by_k);
  else if (along_k)
    pack_as_columns(&p, k, n_k, row, n_rows, to);
  else if (k_lines)
    pack_as_columns(&p, row, n_rows, k, n_k, &by_k);
  else
    pack_as_lines(&p, row, n_rows, k, n_k, to);
}
