/* See verify.h: the parts of steps, executed at sampled points.
 *
 * A loop part is executed row by row: lanes are the points of the row at which reductions are compared (for parts without
 * rows, sampled points of the whole space). A matmul part is executed at sampled points of its result, each accumulator from its
 * operands at sampled k.
 */
#include "plan/verify_region.h"

enum {
  SAMPLED_ROWS = 4,
  SAMPLED_ROWS_AGAIN = 2,
  FEW_POINTS = 8,
  MAX_NUMBERS = 4,
  ALL_OF_A_ROW = 8
};

/* --- points --- */

static uint64_t next_random(uint64_t *state) {
  *state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t z = (*state ^ (*state >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  return z ^ (z >> 31);
}

static int64_t points_of(const int64_t *extents, int n) {
  int64_t total = 1;
  for (int d = 0; d < n; d++)
    if (!mul_fits(total, extents[d], &total))
      return INT64_MAX;
  return total;
}

static void point_of(const int64_t *extents, int n, int64_t number, int64_t *out) {
  for (int d = n - 1; d >= 0; d--) {
    out[d] = number % extents[d];
    number /= extents[d];
  }
}

int pick_points(const verifier *v, const int64_t *extents, int n_axes, const int64_t *numbers,
                int n_numbers, int64_t (*out)[VERIFY_AXES]) {
  int64_t total = points_of(extents, n_axes);
  uint64_t random = (uint64_t)total;
  int n = 0;
  if (total <= (v->again ? FEW_POINTS : VERIFY_LANES)) {
    for (; n < total; n++)
      point_of(extents, n_axes, n, out[n]);
    return n;
  }
  int corners = n_axes > 1 && !v->again ? 3 : 2;
  for (; n < corners; n++) /* the first, the last, even axes at their ends */
    for (int d = 0; d < n_axes; d++)
      out[n][d] = n == 0 ? 0 : n == 1 || d % 2 == n - 2 ? extents[d] - 1 : 0;
  /* on both sides of each number, along even or odd axes, and anywhere along the others */
  for (int k = 0; k < 4 * n_numbers && !v->again; k++, n++)
    for (int d = 0; d < n_axes; d++)
      out[n][d] = (d ^ k) % 2 ? (int64_t)(next_random(&random) % (uint64_t)extents[d])
                              : max_i64(0, min_i64(numbers[k / 4] - k / 2 % 2, extents[d] - 1));
  for (int d = 0; d < n_axes; d++)
    out[n][d] = (int64_t)(next_random(&random) % (uint64_t)extents[d]);
  return n + 1;
}

/* Numbers of a region at whose sides something changes: bounds of pieces, of pads. */
static int telling_numbers(const verifier *v, const region *r, int64_t *out) {
  int n = 0;
  for (int i = 0; i < r->n; i++) {
    const instr *code = &r->code[i];
    int64_t found[2] = {0, 0};
    if (code->op == REGION_NUMBER && !instr_is_float(code) && code->x > 0 && code->x < 1e15)
      found[0] = (int64_t)code->x;
    else if (code->at.n_checks > 0) {
      found[0] = -verify_size(v, code->at.checks[0].offset);
      found[1] = found[0] + verify_size(v, code->at.checks[0].size);
    }
    for (int k = 0; k < 2; k++)
      if (found[k] > 0 && n < MAX_NUMBERS && (n == 0 || out[n - 1] != found[k]))
        out[n++] = found[k];
  }
  return n;
}

static sn_status room(verifier *v, sym **lanes, size_t *cap, size_t need) {
  if (need <= *cap)
    return SN_OK;
  *lanes = arena_array(&v->memory, need * 2, sizeof **lanes);
  *cap = *lanes ? need * 2 : 0;
  return *lanes ? SN_OK : SN_ERR_NO_MEMORY;
}

/* --- loop parts --- */

/* Lanes of one row: the points that reductions need, or all of them. */
static void row_lanes(frame *f, const int64_t *extents, int n_outer, int n_axes, const int64_t *row,
                      int64_t (*at)[VERIFY_AXES]) {
  int64_t samples[VERIFY_SAMPLES];
  int n = reduce_samples(f->inner, samples);
  bool all = f->inner <= ALL_OF_A_ROW;
  f->n_lanes = all ? (int)f->inner : n;
  f->empty = f->inner == 0;
  if (f->empty)
    f->n_lanes = 1;
  for (int lane = 0; lane < f->n_lanes; lane++) {
    memset(at[lane], 0, sizeof at[lane]);
    memcpy(at[lane], row, (size_t)n_outer * sizeof *row);
    if (!f->empty)
      point_of(extents + n_outer, n_axes - n_outer, all ? lane : samples[lane], at[lane] + n_outer);
  }
  for (int k = 0; k < n; k++)
    f->sample_lane[k] = all ? (int)samples[k] : k;
}

static sn_status verify_rows(frame *f, const loop_part *l, const int64_t *extents,
                             const int64_t *numbers, int n_numbers) {
  int64_t rows[VERIFY_LANES][VERIFY_AXES];
  int n = pick_points(f->v, extents, l->n_outer, numbers, n_numbers, rows);
  int most = f->v->again ? SAMPLED_ROWS_AGAIN : SAMPLED_ROWS;
  bool all = n == points_of(extents, l->n_outer);
  int among = n;
  if ((f->inner > VERIFY_LANES || f->inner * n > VERIFY_LANES) && n > most)
    n = most;
  for (int r = 0; r < n; r++) {
    /* picked points begin with corners; the first of all points would be neighbours */
    int at = all && n > 1 ? r * (among - 1) / (n - 1) : r;
    row_lanes(f, extents, l->n_outer, l->n_axes, rows[at], f->at);
    SN_TRY(frame_execute(f));
  }
  return SN_OK;
}

static void mark_loads(verifier *v, const region *r) {
  for (int i = 0; i < r->n; i++)
    if (r->code[i].op == REGION_LOAD)
      expect_loads(v, v->p->values[r->code[i].at.value].source);
}

static sn_status verify_loop(verifier *v, int at_step, const loop_part *l) {
  int64_t extents[VERIFY_AXES], numbers[MAX_NUMBERS], at[VERIFY_LANES][VERIFY_AXES];
  frame f = {.v = v,
             .step = at_step,
             .code = &l->code,
             .at = at,
             .extents = extents,
             .n_axes = l->n_axes,
             .n_outer = l->n_outer};
  expect_open_part(v);
  mark_loads(v, &l->code);
  expect_see_through(v);
  for (int d = 0; d < l->n_axes; d++)
    extents[d] = verify_size(v, l->extent[d]);
  int n_numbers = telling_numbers(v, &l->code, numbers);
  SN_TRY(room(v, &v->lanes, &v->cap_lanes, (size_t)l->code.n * VERIFY_LANES));
  f.regs = v->lanes;
  f.inner = points_of(extents + l->n_outer, l->n_axes - l->n_outer);
  if (v->p->steps[at_step].kind == STEP_ROW)
    return verify_rows(&f, l, extents, numbers, n_numbers);
  f.n_lanes = pick_points(v, extents, l->n_axes, numbers, n_numbers, at);
  return f.n_lanes ? frame_execute(&f) : SN_OK;
}

/* --- matmul parts --- */

typedef struct product_run {
  verifier *v;
  int step, n_axes; /* of the result */
} product_run;

static sn_status operand(const product_run *run, const region *r, int n, int64_t (*at)[VERIFY_AXES],
                         sym *out) {
  verifier *v = run->v;
  SN_TRY(room(v, &v->operand_lanes, &v->cap_operand_lanes, (size_t)r->n * VERIFY_SAMPLES));
  frame f = {.v = v,
             .step = run->step,
             .code = r,
             .regs = v->operand_lanes,
             .n_lanes = n,
             .at = at,
             .inner = 1};
  SN_TRY(frame_execute(&f));
  for (int lane = 0; lane < n; lane++)
    out[lane] = sym_cast(SN_F32, frame_register(&f, (reg)(r->n - 1), lane));
  return SN_OK;
}

/* One product at one point of the result. */
static sn_status product_at(const product_run *run, const matmul_product *p, const int64_t *point,
                            sym *out) {
  int64_t k[SN_MAX_RANK], samples[VERIFY_SAMPLES], at[VERIFY_SAMPLES][VERIFY_AXES];
  sym a[VERIFY_SAMPLES], b[VERIFY_SAMPLES], bodies[VERIFY_SAMPLES] = {{0}};
  for (int d = 0; d < p->n_k; d++)
    k[d] = verify_size(run->v, p->k[d]);
  int64_t count = points_of(k, p->n_k);
  int n = reduce_samples(count, samples);
  for (int lane = 0; lane < n; lane++) {
    memset(at[lane], 0, sizeof at[lane]);
    memcpy(at[lane], point, (size_t)run->n_axes * sizeof *point);
    point_of(k, p->n_k, samples[lane], at[lane] + run->n_axes);
  }
  if (n) {
    SN_TRY(operand(run, &p->a, n, at, a));
    SN_TRY(operand(run, &p->b, n, at, b));
  }
  for (int lane = 0; lane < n; lane++) {
    sym in[3] = {a[lane], b[lane]};
    bodies[lane] = sym_alu(ALU_mul, SN_F32, in, 0, 0);
  }
  *out = sym_reduce(REDUCE_SUM, SN_F32, count, bodies);
  return SN_OK;
}

static sn_status acc_at(const product_run *run, const matmul_acc *acc, const int64_t *point,
                        sym *out) {
  for (int k = 0; k < acc->n_products; k++) {
    sym in[3] = {*out};
    SN_TRY(product_at(run, &acc->products[k], point, &in[1]));
    *out = k ? sym_alu(ALU_add, SN_F32, in, 0, 0) : in[1];
  }
  return SN_OK;
}

static void mark_matmul_loads(verifier *v, const matmul_part *m) {
  for (int a = 0; a < m->n_accs; a++)
    for (int k = 0; k < m->accs[a].n_products; k++) {
      mark_loads(v, &m->accs[a].products[k].a);
      mark_loads(v, &m->accs[a].products[k].b);
    }
  mark_loads(v, &m->epilogue);
}

static sn_status verify_matmul(verifier *v, int at_step, const matmul_part *m) {
  int64_t extents[VERIFY_AXES], numbers[MAX_NUMBERS], at[VERIFY_LANES][VERIFY_AXES];
  product_run run = {v, at_step, m->n_batch + m->n_m + m->n_n};
  frame f = {.v = v, .step = at_step, .code = &m->epilogue, .at = at, .inner = 1};
  expect_open_part(v);
  mark_matmul_loads(v, m);
  expect_see_through(v);
  for (int d = 0; d < run.n_axes; d++)
    extents[d] = verify_size(v, m->extent[d]);
  int n_numbers = telling_numbers(v, &m->epilogue, numbers);
  f.n_lanes = pick_points(v, extents, run.n_axes, numbers, n_numbers, at);
  SN_TRY(room(v, &v->lanes, &v->cap_lanes, (size_t)(m->epilogue.n + m->n_accs) * VERIFY_LANES));
  sym *accs = v->lanes + (size_t)m->epilogue.n * (size_t)f.n_lanes;
  for (int a = 0; a < m->n_accs; a++)
    for (int lane = 0; lane < f.n_lanes; lane++)
      SN_TRY(acc_at(&run, &m->accs[a], at[lane], &accs[a * f.n_lanes + lane]));
  f.regs = v->lanes;
  f.accs = accs;
  return f.n_lanes ? frame_execute(&f) : SN_OK;
}

/* A part that requires something meets demands under each of the bindings. */
static bool has_requires(const step *s, const part *p) {
  const region *r = verify_is_loop(s) ? &p->u.loop.code : &p->u.matmul.epilogue;
  for (int i = 0; s->kind <= STEP_MATMUL && i < r->n; i++)
    if (r->code[i].op == REGION_REQUIRE)
      return true;
  return false;
}

static sn_status verify_part(verifier *v, int at_step, const part *of) {
  const step *st = &v->p->steps[at_step];
  cases_start(&v->cases);
  do {
    SN_TRY(verify_is_loop(st)        ? verify_loop(v, at_step, &of->u.loop)
           : st->kind == STEP_MATMUL ? verify_matmul(v, at_step, &of->u.matmul)
                                     : verify_core(v, at_step, &of->u.core));
    requires_settle(v);
    SN_TRY(v->status);
  } while (cases_next(&v->cases, v->again));
  requires_close_part(v, v->cases.n);
  return SN_OK;
}

sn_status verify_regions(verifier *v) {
  for (int s = 0; s < program_steps(v->p); s++) {
    const step *st = &v->p->steps[s];
    for (int k = 0; k < st->n_parts; k++) {
      const part *of = &st->parts[k];
      if (v->again && !has_requires(st, of) && verify_fixed(v, st, of))
        continue;
      SN_TRY(verify_part(v, s, of));
    }
  }
  return SN_OK;
}
