/* See emit_matmul_matrix.h. The loop over k is that of emit_matmul_tiles.c: while one panel is multiplied, the next one's loads
 * are on their way into registers. */
#include "device/vulkan/emit_matmul_matrix.h"

int matrix_threads(const matrix_shape *s, const gpu_target *t) {
  return matrix_subgroups(s) * t->subgroup;
}

static int panel_words(const matrix_shape *s, int side, bool along_k, int products) {
  int rows = matrix_side(s, side);
  int words = along_k ? rows * half_stride(s->depth) : s->depth * half_stride(rows);
  return words * (products == 3 ? 2 : 1);
}

static int most_words(const matrix_shape *s, int side, int products) {
  int along = panel_words(s, side, true, products), across = panel_words(s, side, false, products);
  return along > across ? along : across;
}

/* Words of the panel that a second accumulator needs beside those of the first. */
static int second_words(const matrix_shape *s, const matmul_acc *a, const matmul_acc *b,
                        int products) {
  int most = 0;
  for (int i = 0; i < a->n_products; i++) {
    bool same = region_same(&a->products[i].a, &b->products[i].a);
    int words = most_words(s, same, products);
    most = words > most ? words : most;
  }
  return most;
}

/* Words of all panels' tables, where k has several axes; see operand_wants_table. */
static int table_words(const matrix_shape *s, const matmul_part *p) {
  int most = 0;
  for (int a = 0; a < p->n_accs; a++)
    for (int i = 0; i < p->accs[a].n_products; i++) {
      const matmul_product *x = &p->accs[a].products[i];
      int axes = 0;
      for (int d = 0; d < x->n_k; d++)
        axes += x->k[d] != 1;
      most = axes > most ? axes : most;
    }
  return most > 1 ? (1 + MATRIX_TOGETHER) * MATRIX_TABLE * s->depth : 0;
}

/* Panels, their tables and maxima; *out_tables: words of the panels. */
static int words_for(const matrix_shape *s, const matmul_part *p, int products, int *out_tables) {
  int second = 0;
  for (int i = 0; i + 1 < p->n_accs; i++)
    if (accs_share(&p->accs[i], &p->accs[i + 1])) {
      int words = second_words(s, &p->accs[i], &p->accs[i + 1], products);
      second = words > second ? words : second;
    }
  *out_tables = most_words(s, 0, products) + most_words(s, 1, products) + second;
  int rest = table_words(s, p) + (1 + MATRIX_TOGETHER) * matrix_subgroups(s);
  return *out_tables + rest;
}

static int shared_words(matrices *t) {
  const matmul_part *p = t->m.part;
  int bands = fragments_words(t), panels = words_for(t->shape, p, t->products, &t->tables);
  t->maxima = t->tables + table_words(t->shape, p);
  return panels > bands ? panels : bands;
}

static void set_shape(matrices *t, const matrix_shape *s, const gpu_target *target, int products) {
  t->shape = s;
  t->products = products;
  for (int i = 0; i < 3; i++)
    t->size[i] = target->matrix[i];
  for (int side = 0; side < 2; side++)
    t->fragments[side] = matrix_side(s, side) / (s->subgroups[side] * t->size[side]);
}

bool matrix_fits(const matrix_shape *s, const gpu_target *target, const matmul_part *p,
                 int products) {
  for (int side = 0; side < 2; side++)
    if (target->matrix[side] <= 0 ||
        matrix_side(s, side) % (s->subgroups[side] * target->matrix[side]) != 0)
      return false;
  matrices t = {.m = {.part = p, .columns_last = matmul_columns_last(p)}};
  int threads = matrix_threads(s, target), least = s->rows < s->columns ? s->rows : s->columns;
  int most = s->rows + s->columns - least;
  set_shape(&t, s, target, products);
  int fragments = t.fragments[0] * t.fragments[1], area = t.size[0] * t.size[1];
  return target->matrix[2] > 0 && s->depth % (s->slices * target->matrix[2]) == 0 &&
         fragments <= MATRIX_FRAGMENTS && fragments * area <= MATRIX_POINTS &&
         threads <= target->max_threads && s->depth <= threads && threads * 4 <= s->depth * least &&
         s->depth * most <= 32 * threads && 4 * shared_words(&t) <= target->shared_bytes;
}

/* --- the loop over k --- */

static int add_panel(matrices *t, const matmul_product *product, int side) {
  operand o;
  vk_operand_read(t->m.e, t->m.part, product, side, &o);
  int first = 0;
  for (int i = 0; i < t->n_panels; i++) {
    const half_panel *p = &t->panels[i];
    if (p->o.side == side && region_same(p->o.code, o.code))
      return i;
    first += half_panel_words(p);
  }
  half_panel *p = &t->panels[t->n_panels];
  *p = (half_panel){.o = o,
                    .rows = matrix_side(t->shape, side),
                    .depth = t->shape->depth,
                    .threads = matrix_threads(t->shape, t->m.e->env.target),
                    .rest = t->products == 3,
                    .scaled = t->scaled,
                    .half = t->m.way->half,
                    .array = t->shared,
                    .first = first,
                    .table = -1};
  if (operand_wants_table(&t->m, &o))
    p->table = t->tables + t->n_panels * MATRIX_TABLE * t->shape->depth;
  half_panel_open(&t->m, p);
  if (t->scaled)
    scale_open(&t->m, p, t->maxima + t->n_panels * matrix_subgroups(t->shape));
  return t->n_panels++;
}

/* Of a product's loop. */
typedef struct range {
  val from, to, size;
} range;

static void load_panels(matrices *t, const range *r, val at_k) {
  for (int i = 0; i < t->n_panels; i++)
    half_panel_load(&t->m, &t->panels[i], at_k, r->size);
}

static void fill_tables(matrices *t, const range *r, val at_k) {
  for (int i = 0; i < t->n_panels; i++)
    half_panel_fill_table(&t->m, &t->panels[i], at_k, r->size);
}

/* Scales for the panels that are stored next. */
static void choose_scales(matrices *t) {
  kernel *k = t->m.e->k;
  val most[1 + MATRIX_TOGETHER], changes[1 + MATRIX_TOGETHER];
  val grows = k_bool(k, false), wild = k_get(k, t->wild);
  for (int i = 0; i < t->n_panels; i++) {
    most[i] = scale_largest(&t->m, &t->panels[i]);
    grows = k_or(k, grows, scale_exceeds(k, k_get(k, t->panels[i].exponent), most[i]));
    wild = k_or(k, wild, k_eq(k, most[i], k_i32(k, 255)));
  }
  k_set(k, t->wild, wild);
  k_if grow = k_if_begin(k, grows);
  for (int i = 0; i < t->n_panels; i++)
    changes[i] = scale_set(k, &t->panels[i], most[i]);
  fragments_rescale(t, changes);
  k_if_end(k, &grow);
}

/* What must be known of the panels that are stored behind the next barrier. */
static void publish(matrices *t, const range *r, val some, val at_k) {
  kernel *k = t->m.e->k;
  k_if stores = k_if_begin(k, some);
  for (int i = 0; i < t->n_panels; i++) {
    half_panel_settle(&t->m, &t->panels[i], at_k, r->size);
    if (t->scaled)
      scale_publish(&t->m, &t->panels[i]);
  }
  k_if_end(k, &stores);
}

/* Programs are run when the panel's memory is free. */
static void compute_panels(matrices *t, const range *r, val some, val at_k) {
  kernel *k = t->m.e->k;
  bool any = false;
  for (int i = 0; i < t->n_panels; i++)
    any = any || !t->panels[i].o.plain;
  if (any && t->scaled) {
    k_barrier_shared(k);
    k_if stores = k_if_begin(k, some);
    for (int i = 0; i < t->n_panels; i++)
      if (!t->panels[i].o.plain)
        half_panel_compute(&t->m, &t->panels[i], at_k, r->size);
    k_if_end(k, &stores);
  }
  publish(t, r, some, at_k);
}

/* Loads the panels at k, multiplies those in shared memory, stores those that were loaded. Behind the last panels others are loaded, for nobody: a condition
 * would have registers copied where its ways meet, and copies wait. */
static void stage(matrices *t, const range *r, val at_k) {
  kernel *k = t->m.e->k;
  val some = k_lt(k, at_k, r->to);
  load_panels(t, r, at_k);
  fill_tables(t, r, plus(k, at_k, t->shape->depth));
  k_if multiplies = k_if_begin(k, k_lt(k, r->from, at_k));
  fragments_multiply(t);
  k_if_end(k, &multiplies);
  compute_panels(t, r, some, at_k);
  k_barrier_shared(k);
  k_if stores = k_if_begin(k, some);
  if (t->scaled)
    choose_scales(t);
  for (int i = 0; i < t->n_panels; i++)
    half_panel_store(&t->m, &t->panels[i], at_k, r->size);
  k_if_end(k, &stores);
  k_barrier_shared(k);
}

/* Loops, with a flush behind each block of stages. */
static void run_stages(matrices *t, const range *r) {
  kernel *k = t->m.e->k;
  int by = t->shape->depth;
  val begin = r->from, end = plus(k, r->to, by), all = end;
  k_loop blocks;
  if (t->blocks) {
    blocks = k_loop_begin(k, begin, end, k_index(k, MATRIX_BLOCK));
    begin = blocks.i;
    end = k_min(k, plus(k, begin, MATRIX_BLOCK), all);
  }
  k_loop l = k_loop_begin(k, begin, end, k_index(k, by));
  stage(t, r, l.i);
  k_loop_end(k, &l);
  if (t->scaled)
    fragments_flush(t);
  if (t->blocks)
    k_loop_end(k, &blocks);
}

static void sum_product(matrices *t, int number) {
  kernel *k = t->m.e->k;
  const matmul_acc *accs = t->m.part->accs + t->first;
  const matmul_product *product = &accs[0].products[number];
  range r = {.size = k_sizes(k, product->n_k, product->k)};
  t->n_panels = 0;
  for (int a = 0; a < t->n; a++)
    for (int side = 0; side < 2; side++)
      t->of[a][side] = add_panel(t, &accs[a].products[number], side);
  matmul_range(&t->m, product, t->shape->depth, &r.from, &r.to);
  k_if some = k_if_begin(k, k_lt(k, r.from, r.to));
  fill_tables(t, &r, r.from);
  k_barrier_shared(k);
  run_stages(t, &r);
  k_if_end(k, &some);
}

static void sum_all(matrices *t) {
  const matmul_part *p = t->m.part;
  for (int a = 0; a < p->n_accs; a += t->n) {
    t->first = a;
    t->n = 1;
    while (t->n < MATRIX_TOGETHER && a + t->n < p->n_accs &&
           accs_share(&p->accs[a], &p->accs[a + t->n]))
      t->n++;
    for (int i = 0; i < p->accs[a].n_products; i++)
      sum_product(t, i);
  }
}

/* --- the kernel --- */

static void emit_body(matrices *t) {
  kernel *k = t->m.e->k;
  int each[2] = {t->shape->rows, t->shape->columns};
  vk_matmul_open(&t->m, each);
  k_use_matrices(k, t->size, t->m.way->half, t->type);
  t->shared = k_shared(k, k->s.u32, shared_words(t));
  fragments_open(t);
  sum_all(t);
  fragments_store(t);
}

/* Whether sums are long, or of several products, whose scales have nothing in common. */
static bool wants_blocks(const matrices *t) {
  bool some = false;
  for (int a = 0; a < t->m.part->n_accs; a++) {
    const matmul_acc *acc = &t->m.part->accs[a];
    int64_t k =
        acc->n_products ? sizes_most(&t->m.e->env, acc->products[0].n_k, acc->products[0].k) : 0;
    some = some || acc->n_products > 1 || k / t->shape->slices / t->m.way->splits > MATRIX_LONG;
  }
  return some;
}

sn_status emit_matrices(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                        const amount *of, int64_t least, int64_t most) {
  const gpu_target *target = e->env.target;
  matrices *t = mem_alloc(e->env.ctx, sizeof *t);
  if (!t || !emit_open(e, matrix_threads(way->matrix, target))) {
    mem_free(e->env.ctx, t, t ? sizeof *t : 0);
    return SN_ERR_NO_MEMORY;
  }
  t->m = (matmul){.e = e, .part = p, .way = way, .scratch = scratch};
  set_shape(t, way->matrix, target, way->products);
  t->scaled = way->products == 3 && way->half == SN_F16;
  t->blocks = t->scaled && wants_blocks(t);
  emit_body(t);
  mem_free(e->env.ctx, t, sizeof *t);
  return emit_launch_when(e, false, of, least, most);
}
