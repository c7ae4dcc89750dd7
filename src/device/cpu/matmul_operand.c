/* Operands of matmuls: see matmul.h. */
#include "device/cpu/matmul.h"

#include "base/half.h"
#include "device/cpu/vectors.h"

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
  return o->is_direct ? SN_OK : cpu_region_open(r, code, n_axes, extent, &o->state);
}

bool operand_runs_along_k(const matmul_operand *o) {
  int64_t by;
  int k = o->k.first + o->k.n - 1;
  if (!o->is_direct)
    return o->k.n > 0 && o->run_axis == k;
  return o->k.n > 0 && sum_is_affine(&o->direct.at, k, &by) && by == 1;
}

/* --- fetching: direct --- */

VECTORS static void widen_bf16(const uint16_t *from, int64_t n, float *to) {
  for (int64_t i = 0; i < n; i++)
    to[i] = bf16_to_f32(from[i]);
}

static void read_line(const direct_access *d, int64_t at, const int64_t *index, int64_t n,
                      bool is_run, float *to) {
  const float *f32 = (const float *)(const void *)d->data;
  const uint16_t *half = (const uint16_t *)(const void *)d->data;
  if (d->dtype == SN_F32 && is_run)
    memcpy(to, f32 + at + index[0], (size_t)n * sizeof *to);
  else if (d->dtype == SN_F32)
    for (int64_t i = 0; i < n; i++)
      to[i] = f32[at + index[i]];
  else if (d->dtype == SN_BF16 && is_run)
    widen_bf16(half + at + index[0], n, to);
  else if (d->dtype == SN_BF16)
    for (int64_t i = 0; i < n; i++)
      to[i] = bf16_to_f32(half[at + index[i]]);
  else
    for (int64_t i = 0; i < n; i++)
      to[i] = half_to_f32(half[at + index[i]]);
}

static bool passes(int64_t v, int64_t size, int64_t divisor) {
  return v >= 0 && v % divisor == 0 && v / divisor < size;
}

/* One entry after the other, where some check may fail. */
static void read_checked(const direct_access *d, int64_t at, const int64_t *starts,
                         const direct_table *inner, int64_t i0, int64_t n, float *to) {
  for (int64_t i = 0; i < n; i++) {
    bool inside = true;
    for (int c = 0; c < d->n_checks && inside; c++)
      inside =
          passes(starts[c] + inner->checks[c][i0 + i], d->checks[c].size, d->checks[c].divisor);
    to[i] = 0;
    if (inside)
      read_line(d, at, inner->at + i0 + i, 1, false, to + i);
  }
}

/* The smallest and largest of each check over one line's entries. */
typedef struct line_range {
  int64_t lo[ACCESS_CHECKS], hi[ACCESS_CHECKS];
} line_range;

static line_range range_of(const direct_access *d, const direct_table *inner, int64_t i0,
                           int64_t n) {
  line_range range;
  for (int c = 0; c < d->n_checks; c++) {
    range.lo[c] = range.hi[c] = inner->checks[c][i0];
    for (int64_t i = 1; i < n; i++) {
      range.lo[c] = min_i64(range.lo[c], inner->checks[c][i0 + i]);
      range.hi[c] = max_i64(range.hi[c], inner->checks[c][i0 + i]);
    }
  }
  return range;
}

/* Whether all entries pass, by the extremes alone. */
static bool all_pass(const direct_access *d, const line_range *range, const int64_t *starts) {
  bool pass = true;
  for (int c = 0; c < d->n_checks && pass; c++)
    pass = d->checks[c].divisor == 1 && starts[c] + range->lo[c] >= 0 &&
           starts[c] + range->hi[c] < d->checks[c].size;
  return pass;
}

/* Sixteen inner entries for every outer one. */
static void fetch_chunk(const direct_access *d, const direct_table *outer, int64_t n_outer,
                        const direct_table *inner, int64_t i0, int64_t n, int64_t base,
                        const int64_t *base_checks, float *to, int64_t line) {
  line_range range = range_of(d, inner, i0, n);
  bool is_run = direct_is_run(inner->at + i0, n);
  int64_t starts[ACCESS_CHECKS] = {0};
  for (int64_t o = 0; o < n_outer; o++, to += line) {
    for (int c = 0; c < d->n_checks; c++)
      starts[c] = base_checks[c] + outer->checks[c][o];
    int64_t at = base + outer->at[o];
    if (!all_pass(d, &range, starts))
      read_checked(d, at, starts, inner, i0, n, to);
    else if (n == MATMUL_LINE && is_run && d->dtype == SN_F32)
      memcpy(to, (const float *)(const void *)d->data + at + inner->at[i0],
             MATMUL_LINE * sizeof *to);
    else
      read_line(d, at, inner->at + i0, n, is_run, to);
    for (int64_t i = n; i < MATMUL_LINE; i++)
      to[i] = 0;
  }
}

/* b's panels from rows of k: whole panels at a time. */
static bool fetch_transposed(const direct_access *d, const direct_table *outer, int64_t n_outer,
                             const direct_table *inner, int64_t n_inner, int64_t base,
                             block_layout to) {
  int64_t by = n_inner > 1 ? inner->at[1] - inner->at[0] : 0;
  bool fits = d->dtype == SN_F32 && d->n_checks == 0 && to.line == KERNEL_COLS &&
              to.chunk == n_outer * KERNEL_COLS && n_outer > 1 && n_inner > 1 &&
              direct_is_run(outer->at, n_outer);
  for (int64_t i = 1; i < n_inner && fits; i++)
    fits = inner->at[i] == inner->at[0] + i * by;
  if (fits)
    kernel_pack_transposed((const float *)(const void *)d->data + base + outer->at[0] +
                               inner->at[0],
                           by, n_outer, n_inner, to.to);
  return fits;
}

/* Where the inner index is dense in the block too: a line at a time, not sixteen entries. */
static bool fetch_lines(const direct_access *d, const direct_table *outer, int64_t n_outer,
                        const direct_table *inner, int64_t n_inner, int64_t base, block_layout to) {
  bool fits = d->n_checks == 0 && to.chunk == MATMUL_LINE && direct_is_run(inner->at, n_inner);
  for (int64_t o = 0; fits && o < n_outer; o++) {
    float *line = to.to + o * to.line;
    read_line(d, base + outer->at[o], inner->at, n_inner, true, line);
    for (int64_t i = n_inner; i % MATMUL_LINE != 0; i++)
      line[i] = 0;
  }
  return fits;
}

static void fetch_direct(matmul_work *w, const matmul_operand *o, const axis_group *outer,
                         int64_t o0, int64_t n_outer, const axis_group *inner, int64_t i0,
                         int64_t n_inner, block_layout to) {
  const direct_access *d = &o->direct;
  int64_t base, checks[ACCESS_CHECKS];
  direct_batch(d, w->part->n_batch, w->coords, &base, checks);
  direct_fill(d, outer, o->extent, o0, n_outer, &w->outer);
  direct_fill(d, inner, o->extent, i0, n_inner, &w->inner);
  if (n_inner > 0 && (fetch_lines(d, &w->outer, n_outer, &w->inner, n_inner, base, to) ||
                      fetch_transposed(d, &w->outer, n_outer, &w->inner, n_inner, base, to)))
    return;
  for (int64_t i = 0; i < n_inner; i += MATMUL_LINE)
    fetch_chunk(d, &w->outer, n_outer, &w->inner, i, min_i64(MATMUL_LINE, n_inner - i), base,
                checks, to.to + i / MATMUL_LINE * to.chunk, to.line);
}

/* --- fetching: regions --- */

/* A tile of points and where each of its segments goes: entry (outer, inner), and on along the group that runs. */
typedef struct fetch_tile {
  matmul_work *w;
  matmul_operand *of;
  block_layout to;
  bool outer_runs;
  tile t;
  int64_t outer[CPU_SEGMENTS], inner[CPU_SEGMENTS];
} fetch_tile;

static void flush(fetch_tile *f) {
  if (f->t.n == 0)
    return;
  cpu_region_run(f->w->r, f->of->state, &f->t, NULL);
  const float *lanes = cpu_region_f32(f->of->state, f->of->code->n - 1);
  for (int s = 0; s < f->t.n_segments; s++) {
    const segment *g = &f->t.segments[s];
    for (int i = 0; i < g->n; i++) {
      int64_t at = f->inner[s] + (f->outer_runs ? 0 : i), on = f->outer[s] + i - (at - f->inner[s]);
      f->to.to[on * f->to.line + at / MATMUL_LINE * f->to.chunk + at % MATMUL_LINE] =
          lanes[g->lane + i];
    }
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
    f->outer[f->t.n_segments] = f->outer_runs ? from : fixed;
    f->inner[f->t.n_segments] = f->outer_runs ? fixed : from;
    tile_add(&f->t, coords, (int)run);
    from += run;
    n -= run;
  }
}

static void fetch_region(matmul_work *w, matmul_operand *o, const axis_group *outer, int64_t o0,
                         int64_t n_outer, const axis_group *inner, int64_t i0, int64_t n_inner,
                         block_layout to) {
  bool outer_runs = outer->n > 0 && o->run_axis == outer->first + outer->n - 1;
  const axis_group *runs = outer_runs ? outer : inner, *stands = outer_runs ? inner : outer;
  int64_t runs0 = outer_runs ? o0 : i0, n_runs = outer_runs ? n_outer : n_inner;
  int64_t stands0 = outer_runs ? i0 : o0, n_stands = outer_runs ? n_inner : n_outer;
  fetch_tile f = {.w = w, .of = o, .to = to, .outer_runs = outer_runs};
  f.t.axis = runs->n > 0 ? runs->first + runs->n - 1 : 0;
  int64_t coords[REGION_AXES] = {0};
  memcpy(coords, w->coords, (size_t)w->part->n_batch * sizeof *coords);
  for (int64_t i = 0; i < n_runs; i += CPU_TILE)
    for (int64_t k = 0; k < n_stands; k++) {
      group_coords(stands, o->extent, stands0 + k, coords);
      add_points(&f, coords, runs, runs0, i, min_i64(CPU_TILE, n_runs - i), k);
    }
  flush(&f);
  for (int64_t k = 0; k < n_outer; k++)
    for (int64_t i = n_inner; i % MATMUL_LINE != 0; i++)
      to.to[i / MATMUL_LINE * to.chunk + i % MATMUL_LINE + k * to.line] = 0;
}

void operand_fetch(matmul_work *w, matmul_operand *o, int64_t row, int64_t n_rows, int64_t k,
                   int64_t n_k, bool k_inner, block_layout to) {
  const axis_group *outer = k_inner ? &o->rows : &o->k, *inner = k_inner ? &o->k : &o->rows;
  int64_t o0 = k_inner ? row : k, n_outer = k_inner ? n_rows : n_k;
  int64_t i0 = k_inner ? k : row, n_inner = k_inner ? n_k : n_rows;
  if (o->is_direct)
    fetch_direct(w, o, outer, o0, n_outer, inner, i0, n_inner, to);
  else
    fetch_region(w, o, outer, o0, n_outer, inner, i0, n_inner, to);
}
