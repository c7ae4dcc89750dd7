/* Operands of matmuls: see matmul.h. */
#include "device/cpu/matmul.h"

#include "base/half.h"

/* --- direct accesses --- */

static bool open_sum(const cpu_run *r, sn_dim base, const term *terms, int n, direct_sum *out) {
  out->base = cpu_size(r, base);
  out->n = n;
  for (int i = 0; i < n; i++) {
    if (terms[i].axis == TERM_REG)
      return false;
    out->terms[i] = (direct_term){.axis = terms[i].axis,
                                  .stride = cpu_size(r, terms[i].stride),
                                  .div = cpu_size(r, terms[i].div),
                                  .mod = cpu_size(r, terms[i].mod)};
  }
  return true;
}

bool direct_open(const cpu_run *r, const access *at, sn_dtype dtype, direct_access *out) {
  out->data = cpu_address(r, at->value);
  out->dtype = dtype;
  out->n_checks = at->n_checks;
  bool direct = open_sum(r, at->base, at->terms, at->n_terms, &out->at);
  for (int c = 0; c < at->n_checks && direct; c++) {
    const check *k = &at->checks[c];
    direct = open_sum(r, k->offset, k->terms, k->n_terms, &out->checks[c].at);
    out->checks[c].size = cpu_size(r, k->size);
    out->checks[c].divisor = max_i64(1, cpu_size(r, k->divisor));
  }
  return direct;
}

static int64_t term_value(const direct_term *t, int64_t i) {
  int64_t x = t->div > 1 ? i / t->div : i;
  return t->stride * (t->mod > 0 ? x % t->mod : x);
}

/* The part of a sum that axes first … first+n-1 make. */
static int64_t sum_over(const direct_sum *s, int first, int n, const int64_t *coords) {
  int64_t sum = 0;
  for (int t = 0; t < s->n; t++)
    if (s->terms[t].axis >= first && s->terms[t].axis < first + n)
      sum += term_value(&s->terms[t], coords[s->terms[t].axis]);
  return sum;
}

/* Whether along an axis the sum is its value at 0 plus a multiple of the coordinate; and that multiple. */
static bool sum_is_affine(const direct_sum *s, int axis, int64_t *out_by) {
  bool affine = true;
  *out_by = 0;
  for (int t = 0; t < s->n; t++)
    if (s->terms[t].axis == axis) {
      affine = affine && s->terms[t].div <= 1 && s->terms[t].mod == 0;
      *out_by += s->terms[t].stride;
    }
  return affine;
}

bool direct_is_affine(const direct_access *d, int axis, int64_t *out_by) {
  return sum_is_affine(&d->at, axis, out_by);
}

/* Entries from … from+n-1 of a group; runs along its last axis at a time. */
static void fill_sum(const direct_sum *s, const axis_group *g, const int64_t *extent, int64_t from,
                     int64_t n, int64_t *out) {
  int last = g->first + g->n - 1;
  int64_t coords[REGION_AXES], by, i = 0;
  bool affine = g->n > 0 && sum_is_affine(s, last, &by);
  while (i < n) {
    group_coords(g, extent, from + i, coords);
    int64_t run = affine ? min_i64(n - i, extent[last] - coords[last]) : 1;
    int64_t at = sum_over(s, g->first, g->n, coords);
    for (int64_t j = 0; j < run; j++)
      out[i + j] = affine ? at + j * by : at;
    i += run;
  }
}

void direct_fill(const direct_access *d, const axis_group *g, const int64_t *extent, int64_t from,
                 int64_t n, direct_table *out) {
  fill_sum(&d->at, g, extent, from, n, out->at);
  for (int c = 0; c < d->n_checks; c++)
    fill_sum(&d->checks[c].at, g, extent, from, n, out->checks[c]);
}

void direct_batch(const direct_access *d, int n_batch, const int64_t *coords, int64_t *at,
                  int64_t checks[ACCESS_CHECKS]) {
  *at = d->at.base + sum_over(&d->at, 0, n_batch, coords);
  for (int c = 0; c < d->n_checks; c++)
    checks[c] = d->checks[c].at.base + sum_over(&d->checks[c].at, 0, n_batch, coords);
}

bool direct_is_run(const int64_t *at, int64_t n) {
  bool run = true;
  for (int64_t i = 1; i < n && run; i++)
    run = at[i] == at[0] + i;
  return run;
}

/* --- opening --- */

static bool is_float_load(const instr *i) { return i->op == REGION_LOAD && instr_is_float(i); }

static bool is_direct(const cpu_run *r, const region *code, direct_access *out) {
  const instr *load = &code->code[0], *last = &code->code[code->n - 1];
  if (code->n > 2 || !is_float_load(load))
    return false;
  if (code->n == 2 &&
      !(last->op == REGION_ALU && last->code == ALU_cast && last->a == 0 && last->dtype == SN_F32))
    return false;
  return direct_open(r, &load->at, (sn_dtype)load->dtype, out);
}

/* The axis along which the first load is dense, of those that the operand has; else its last. */
static int find_run_axis(const cpu_run *r, const matmul_operand *o) {
  int last = o->k.n > 0 ? o->k.first + o->k.n - 1 : o->rows.first + o->rows.n - 1;
  int row = o->rows.n > 0 ? o->rows.first + o->rows.n - 1 : last;
  for (int i = 0; i < o->code->n; i++) {
    const instr *c = &o->code->code[i];
    for (int t = 0; c->op == REGION_LOAD && t < c->at.n_terms; t++)
      if (c->at.terms[t].axis == row && cpu_size(r, c->at.terms[t].stride) == 1)
        return row;
  }
  return last > 0 ? last : 0;
}

sn_status operand_open(matmul_operand *o, cpu_run *r, const region *code, const int64_t *extent,
                       int n_axes, axis_group rows, axis_group k) {
  o->code = code;
  o->extent = extent;
  o->n_axes = n_axes;
  o->rows = rows;
  o->k = k;
  o->is_direct = is_direct(r, code, &o->direct);
  o->run_axis = find_run_axis(r, o);
  if (o->is_direct)
    plan_open(&o->plan, &o->direct, &o->rows, &o->k, extent);
  return o->is_direct ? SN_OK : cpu_region_open(r, code, n_axes, extent, &o->state);
}

bool operand_runs_along_k(const matmul_operand *o) {
  if (o->is_direct && o->plan.fits)
    return o->plan.k_inner;
  return o->k.n > 0 && o->run_axis == o->k.first + o->k.n - 1;
}

/* --- fetching: direct, by tables --- */

static float read_element(const direct_access *d, int64_t at) {
  if (d->dtype == SN_F32)
    return ((const float *)(const void *)d->data)[at];
  uint16_t half = ((const uint16_t *)(const void *)d->data)[at];
  return d->dtype == SN_BF16 ? bf16_to_f32(half) : half_to_f32(half);
}

static bool passes(int64_t v, int64_t size, int64_t divisor) {
  return v >= 0 && v % divisor == 0 && v / divisor < size;
}

/* What an index adds, of rows or k. */
static void index_sums(const matmul_operand *o, const axis_group *g, int64_t i, int64_t *at,
                       int64_t *checks) {
  int64_t coords[REGION_AXES];
  group_coords(g, o->extent, i, coords);
  *at = sum_over(&o->direct.at, g->first, g->n, coords);
  for (int c = 0; c < o->direct.n_checks; c++)
    checks[c] = sum_over(&o->direct.checks[c].at, g->first, g->n, coords);
}

enum { TABLE = 64 };
/* Rows or k's at a time. */
typedef struct sum_table {
  int64_t at[TABLE], checks[TABLE][ACCESS_CHECKS];
} sum_table;

static void fill_table(const matmul_operand *o, const axis_group *g, int64_t from, int64_t n,
                       sum_table *t) {
  for (int64_t i = 0; i < n; i++)
    index_sums(o, g, from + i, &t->at[i], t->checks[i]);
}

static float read_checked(const direct_access *d, int64_t at, const int64_t *checks,
                          const int64_t *row, const int64_t *k) {
  bool inside = true;
  for (int c = 0; c < d->n_checks && inside; c++)
    inside = passes(checks[c] + row[c] + k[c], d->checks[c].size, d->checks[c].divisor);
  return inside ? read_element(d, at) : 0;
}

static void fetch_tables(const matmul_work *w, const matmul_operand *o, int64_t row, int64_t n_rows,
                         int64_t k, int64_t n_k, const panel_layout *to) {
  int64_t base, checks[ACCESS_CHECKS];
  sum_table rows, ks;
  direct_batch(&o->direct, w->part->n_batch, w->coords, &base, checks);
  for (int64_t i0 = 0; i0 < n_rows; i0 += TABLE) {
    int64_t n_i = min_i64(TABLE, n_rows - i0);
    fill_table(o, &o->rows, row + i0, n_i, &rows);
    for (int64_t p0 = 0; p0 < n_k; p0 += TABLE) {
      int64_t n_p = min_i64(TABLE, n_k - p0);
      fill_table(o, &o->k, k + p0, n_p, &ks);
      for (int64_t p = 0; p < n_p; p++)
        for (int64_t i = 0; i < n_i; i++)
          *panel_element(to, i0 + i, p0 + p) = read_checked(
              &o->direct, base + rows.at[i] + ks.at[p], checks, rows.checks[i], ks.checks[p]);
    }
  }
}

/* --- fetching: regions --- */

/* A tile of points and where each of its segments goes: element (row, k), and on along the group that runs. */
typedef struct fetch_tile {
  matmul_work *w;
  matmul_operand *of;
  const panel_layout *to;
  bool k_runs;
  tile t;
  int64_t row[CPU_SEGMENTS], k[CPU_SEGMENTS];
} fetch_tile;

static void flush(fetch_tile *f) {
  if (f->t.n == 0)
    return;
  cpu_region_run(f->w->r, f->of->state, &f->t, NULL);
  const float *lanes = cpu_region_f32(f->of->state, f->of->code->n - 1);
  for (int s = 0; s < f->t.n_segments; s++) {
    const segment *g = &f->t.segments[s];
    for (int i = 0; i < g->n; i++)
      *panel_element(f->to, f->row[s] + (f->k_runs ? 0 : i), f->k[s] + (f->k_runs ? i : 0)) =
          lanes[g->lane + i];
  }
  tile_clear(&f->t);
}

/* Entries from … from+n-1 of the group that runs (counted from its index `start`), `fixed` being the other's. */
static void add_points(fetch_tile *f, int64_t *coords, const axis_group *runs, int64_t start,
                       int64_t from, int64_t n, int64_t fixed) {
  int last = runs->first + runs->n - 1;
  while (n > 0) {
    group_coords(runs, f->of->extent, start + from, coords);
    int64_t run = runs->n > 0 ? min_i64(n, f->of->extent[last] - coords[last]) : 1;
    if (!tile_has_room(&f->t, (int)run))
      flush(f);
    f->k[f->t.n_segments] = f->k_runs ? from : fixed;
    f->row[f->t.n_segments] = f->k_runs ? fixed : from;
    tile_add(&f->t, coords, (int)run);
    from += run;
    n -= run;
  }
}

static void fetch_region(matmul_work *w, matmul_operand *o, int64_t row, int64_t n_rows, int64_t k,
                         int64_t n_k, const panel_layout *to) {
  bool k_runs = o->k.n > 0 && o->run_axis == o->k.first + o->k.n - 1;
  const axis_group *runs = k_runs ? &o->k : &o->rows, *stands = k_runs ? &o->rows : &o->k;
  int64_t runs0 = k_runs ? k : row, n_runs = k_runs ? n_k : n_rows;
  int64_t stands0 = k_runs ? row : k, n_stands = k_runs ? n_rows : n_k;
  fetch_tile f = {.w = w, .of = o, .to = to, .k_runs = k_runs};
  f.t.axis = runs->n > 0 ? runs->first + runs->n - 1 : 0;
  int64_t coords[REGION_AXES] = {0};
  memcpy(coords, w->coords, (size_t)w->part->n_batch * sizeof *coords);
  for (int64_t i = 0; i < n_runs; i += CPU_TILE)
    for (int64_t s = 0; s < n_stands; s++) {
      group_coords(stands, o->extent, stands0 + s, coords);
      add_points(&f, coords, runs, runs0, i, min_i64(CPU_TILE, n_runs - i), s);
    }
  flush(&f);
}

/* --- fetching --- */

static void clear_padding(int64_t n_rows, int64_t n_k, const panel_layout *to) {
  for (int64_t i = n_rows; i % to->width != 0; i++)
    for (int64_t p = 0; p < n_k; p++)
      *panel_element(to, i, p) = 0;
}

static void fetch(matmul_work *w, matmul_operand *o, int64_t row, int64_t n_rows, int64_t k,
                  int64_t n_k, const panel_layout *to) {
  if (n_rows == 0 || n_k == 0)
    return;
  if (o->is_direct && o->plan.fits) {
    plan_pack(w, o, row, n_rows, k, n_k, to);
    return;
  }
  if (o->is_direct)
    fetch_tables(w, o, row, n_rows, k, n_k, to);
  else
    fetch_region(w, o, row, n_rows, k, n_k, to);
  clear_padding(n_rows, n_k, to);
}

void operand_pack(matmul_work *w, matmul_operand *o, int64_t row, int64_t n_rows, int64_t k,
                  int64_t n_k, int width, float *to, int64_t panel) {
  fetch(w, o, row, n_rows, k, n_k, &(panel_layout){to, width, panel, width});
}

void operand_read(matmul_work *w, matmul_operand *o, int64_t row, int64_t n_rows, int64_t k,
                  int64_t n_k, bool k_inner, float *to, int64_t line) {
  fetch(w, o, row, n_rows, k, n_k,
        &(panel_layout){to, k_inner ? 1 : n_rows, k_inner ? line : 0, k_inner ? 1 : line});
}

bool operand_is_strided(matmul_work *w, const matmul_operand *o, int64_t row, int64_t n_rows,
                        const float **out_at, int64_t *out_row, int64_t *out_k) {
  return o->is_direct && plan_is_strided(w, o, row, n_rows, 0, o->k.count, out_at, out_row, out_k);
}
