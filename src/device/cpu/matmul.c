/* Matmul steps: contractions and convolutions, several accumulators of several products each. See matmul.h.
 *
 * The parts of a step do not depend on each other, so what several of them want ready is packed before any of them is
 * summed, as far as shared scratch goes: the threads then meet once for all. */
#include "device/cpu/conv.h"
#include "device/cpu/conv_winograd.h"
#include "device/cpu/matmul.h"

/* --- need --- */

static int64_t count_max(const program *p, const sn_dim *dims, int n) {
  int64_t count = 1;
  for (int d = 0; d < n; d++)
    count *= cpu_size_max(p, dims[d]);
  return count;
}

int matmul_products(const matmul_part *t) {
  int n = 0;
  for (int c = 0; c < t->n_accs; c++)
    n += t->accs[c].n_products;
  return n;
}

/* The largest shape in any run, but for the widths of panels. */
static matmul_shape shape_max(const program *p, const matmul_part *t) {
  const sn_dim *m = t->extent + t->n_batch, *n = m + t->n_m;
  matmul_shape s = {.accs = t->n_accs, .batch = 1, .threads = 1, .caches = caches_get()};
  s.extent[ROWS] = count_max(p, m, t->n_m);
  s.extent[COLS] = count_max(p, n, t->n_n);
  for (int c = 0; c < t->n_accs; c++)
    for (int i = 0; i < t->accs[c].n_products; i++)
      s.k += count_max(p, t->accs[c].products[i].k, t->accs[c].products[i].n_k);
  return s;
}

/* The most floats over all instruction sets and both ways of counting rows and columns. */
static int64_t most_floats(matmul_shape s, int64_t (*floats)(const matmul_shape *s)) {
  int64_t most = 0;
  for (int i = 0; cpu_isa_at(i); i++)
    for (int turn = 0; turn < 2; turn++) {
      const matmul_kernels *kernels = cpu_isa_at(i)->matmul;
      s.width[turn] = kernels->rows;
      s.width[!turn] = kernels->cols;
      most = max_i64(most, floats(&s));
    }
  return most;
}

static int64_t unit_floats(const matmul_shape *s) {
  return matmul_own_most(s, ROWS) + matmul_own_most(s, COLS) + matmul_near_most(s) +
         matmul_sums_most(s);
}

/* Whether a run may have so few rows or columns that they go as vectors. */
static bool may_be_few(const sn_dim *dims, int n) {
  int64_t count = 1;
  for (int d = 0; d < n; d++) {
    if (!dim_is_number(dims[d]))
      return true;
    count *= dims[d];
  }
  return count <= MATMUL_FEW;
}

static size_t need_part(const program *p, const matmul_part *t) {
  matmul_shape s = shape_max(p, t);
  int n_products = matmul_products(t);
  size_t bytes = cpu_region_bytes(&t->epilogue) + rows_bytes(&t->epilogue), units, vectors = 0;
  for (int c = 0; c < t->n_accs; c++)
    for (int i = 0; i < t->accs[c].n_products; i++)
      bytes +=
          cpu_region_bytes(&t->accs[c].products[i].a) + cpu_region_bytes(&t->accs[c].products[i].b);
  bytes += plan_pack_bytes() + cpu_take_bytes((size_t)n_products * sizeof(struct matmul_term));
  bytes += 2 * (ACCESS_CHECKS + 1) * cpu_take_bytes(MATMUL_TABLE * sizeof(int64_t));
  bytes += cpu_take_bytes((size_t)t->n_accs * CPU_TILE * sizeof(float));
  units = (size_t)most_floats(s, unit_floats) * sizeof(float) +
          (size_t)(3 + n_products) * PROGRAM_ALIGN;
  if (may_be_few(t->extent + t->n_batch, t->n_m) || conv_any_divisor(t) ||
      may_be_few(t->extent + t->n_batch + t->n_m, t->n_n))
    vectors = matmul_need_vector(t->n_accs, s.k + (int64_t)n_products * MATMUL_K);
  units = units > vectors ? units : vectors;
  size_t transformed = winograd_need(p, t) + winograd_grad_need(p, t); /* one of them */
  size_t sliced = matmul_slices_need(t);
  units = units > sliced ? units : sliced;
  return bytes + (units > transformed ? units : transformed);
}

size_t cpu_need_matmul(const program *p, const step *s) {
  size_t most = 0;
  for (int i = 0; i < s->n_parts; i++) {
    size_t bytes = need_part(p, &s->parts[i].u.matmul);
    most = bytes > most ? bytes : most;
  }
  size_t rest = conv_rest_need(s);
  return (most > rest ? most : rest) + conv_split_bytes(s);
}

size_t cpu_need_shared_matmul(const program *p, const step *s) {
  size_t bytes = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const matmul_part *t = &s->parts[i].u.matmul;
    size_t floats = (size_t)most_floats(shape_max(p, t), matmul_shared_most);
    size_t ready = floats * sizeof(float) + (size_t)matmul_products(t) * PROGRAM_ALIGN;
    size_t made = winograd_made(p, t) + winograd_grad_shared(p, t); /* at most one of them */
    ready = floats > 0 ? ready : 0;
    bytes += matmul_slices_bytes(t) + (ready > made ? ready : made);
  }
  return bytes < MATMUL_SHARED ? bytes : MATMUL_SHARED;
}

/* --- running --- */

/* Shared scratch that a part takes at a time, at most. */
static size_t ready_bytes(const matmul_work *w) {
  size_t bytes = 0;
  if (w->slices > 0)
    return matmul_slices_bytes(w->part);
  if (w->made)
    return winograd_made(w->r->program, w->part);
  for (int side = 0; side < SIDES; side++)
    if (w->cut.ready[side] && !w->cut.near[side] && !w->shape.kept[side])
      bytes += (size_t)(w->cut.slab[side] * w->shape.k) * sizeof(float) +
               (size_t)matmul_products(w->part) * PROGRAM_ALIGN;
  return bytes;
}

typedef sn_status (*phase)(matmul_work *w, const int64_t from[SIDES]);

static sn_status run_phase(matmul_work *w, phase run, const int64_t from[SIDES]) {
  size_t used = w->r->scratch_used;
  SN_TRY(matmul_open(w));
  if (w->winograd)
    SN_TRY(run == matmul_make_ready ? winograd_make(w) : winograd_run(w));
  else if (w->slices > 0)
    SN_TRY(run == matmul_make_ready ? matmul_sum_slices(w) : matmul_store_slices(w));
  else
    SN_TRY(w->few ? matmul_run_vector(w) : run(w, from));
  w->r->scratch_used = used;
  return SN_OK;
}

/* One part whose operands are made ready a slab after the other. */
static sn_status run_slabs(matmul_work *w) {
  cpu_run *r = w->r;
  int64_t from[SIDES] = {0};
  for (; from[ROWS] < w->side[ROWS].count; from[ROWS] += w->cut.slab[ROWS])
    for (from[COLS] = 0; from[COLS] < w->side[COLS].count; from[COLS] += w->cut.slab[COLS]) {
      matmul_work at = *w;
      r->shared_used = 0;
      SN_TRY(run_phase(&at, matmul_make_ready, from));
      cpu_sync(r);
      at = *w;
      r->shared_used = 0;
      SN_TRY(run_phase(&at, matmul_run_units, from));
      cpu_sync(r);
    }
  return SN_OK;
}

static sn_status run_grad(matmul_work *w) {
  size_t used = w->r->scratch_used;
  w->r->shared_used = 0;
  SN_TRY(winograd_grad_run(w));
  w->r->scratch_used = used;
  cpu_sync(w->r);
  return SN_OK;
}

static bool has_slabs(const matmul_work *w) {
  return w->slices == 0 && !w->grad &&
         (w->cut.slab[ROWS] < w->side[ROWS].count || w->cut.slab[COLS] < w->side[COLS].count);
}

static sn_status run_parts(cpu_run *r, const step *of, const step *s, int from, int to,
                           bool make_ready) {
  matmul_work w;
  r->shared_used = 0;
  for (int i = from; i < to; i++) {
    if (!matmul_size(&w, r, of, &s->parts[i].u.matmul))
      continue;
    if (!make_ready || (ready_bytes(&w) > 0 && !w.few))
      SN_TRY(run_phase(&w, make_ready ? matmul_make_ready : matmul_run_units, (int64_t[SIDES]){0}));
  }
  return SN_OK;
}

/* Parts from … whose panels fit in shared scratch together; those panels' bytes. */
static int find_together(cpu_run *r, const step *of, const step *s, int from, size_t *bytes) {
  int to = from;
  matmul_work w;
  *bytes = 0;
  for (; to < s->n_parts; to++) {
    bool some = matmul_size(&w, r, of, &s->parts[to].u.matmul) && !w.few;
    size_t more = some ? ready_bytes(&w) : 0;
    if (some && (w.grad || has_slabs(&w) || *bytes + more > r->crew->shared_bytes))
      break;
    *bytes += more;
  }
  return to;
}

static sn_status run_all(cpu_run *r, const step *of, const step *s) {
  for (int from = 0, to; from < s->n_parts; from = to) {
    size_t bytes;
    matmul_work w;
    to = find_together(r, of, s, from, &bytes);
    if (to == from) {
      to = from + 1;
      if (matmul_size(&w, r, of, &s->parts[from].u.matmul))
        SN_TRY(w.grad ? run_grad(&w) : run_slabs(&w));
      continue;
    }
    if (bytes > 0) {
      SN_TRY(run_parts(r, of, s, from, to, true));
      cpu_sync(r);
    }
    SN_TRY(run_parts(r, of, s, from, to, false));
    if (bytes > 0 && to < s->n_parts)
      cpu_sync(r);
  }
  return SN_OK;
}

sn_status cpu_run_matmul(cpu_run *r, const step *s) {
  size_t used = r->scratch_used;
  const step *of = s, *rest;
  SN_TRY(conv_split(r, s, &s, &rest));
  SN_TRY(run_all(r, of, s));
  SN_TRY(conv_run_rest(r, rest));
  r->scratch_used = used;
  return SN_OK;
}
