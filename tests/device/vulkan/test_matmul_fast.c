/* How exact products of halves are, of scaled f16 (emit_matmul_matrix.h) and of bf16 (emit_matmul_direct.h): numbers of all magnitudes, edges,
 * zeros, infinities and NaN, on the interpreter of SPIR-V. */
#include "device/vulkan/emit_matmul.h"
#include "support/test.h"
#include "support/vm_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { A = 1, B, C, VALUES };

/* c = a b, or c + a b if `adds`: a is [m, k], or [k, m] if `ta`; b is [n, k], or [k, n] if `tb`. */
typedef struct trial {
  int64_t m, n, k;
  bool ta, tb, computed, adds; /* computed: a is a program, |a| */
  float *x[VALUES];
} trial;

static float a_at(const trial *t, int64_t m, int64_t k) {
  float x = t->x[A][t->ta ? k * t->m + m : m * t->k + k];
  return t->computed ? fabsf(x) : x;
}
static float b_at(const trial *t, int64_t n, int64_t k) {
  return t->x[B][t->tb ? k * t->n + n : n * t->k + k];
}

static uint32_t state;
static float draw(void) {
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) * 0x1p-23f - 1;
}

static trial trial_open(int64_t m, int64_t n, int64_t k, int form) {
  trial t = {.m = m, .n = n, .k = k, .ta = form & 1, .tb = form & 2, .computed = form & 4};
  int64_t counts[VALUES] = {0, m * k, n * k, m * n};
  state = 5;
  for (int v = A; v < VALUES; v++) {
    t.x[v] = malloc((size_t)counts[v] * 4 + 4);
    if (!t.x[v])
      abort();
    for (int64_t i = 0; i < counts[v]; i++)
      t.x[v][i] = draw();
  }
  return t;
}

static void trial_close(trial *t) {
  for (int v = A; v < VALUES; v++)
    free(t->x[v]);
}

static sn_status emit_way(emitter *e, const part *p, void *user) {
  return emit_matmul_as(e, &p->u.matmul, user, NULL, 0, 0);
}

static term along(int axis, int64_t stride) {
  return (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
}

/* All ways of matrices; those from registers, of f16 and of bf16; those with b packed once; and these in a program that has both kinds. */
enum {
  FIRST_BF16 = MATRIX_SHAPES + DIRECT_SHAPES,
  KEPT = FIRST_BF16 + DIRECT_SHAPES,
  KEPT_BF16 = KEPT + DIRECT_SHAPES,
  DEEP = KEPT_BF16 + DIRECT_SHAPES,
  DEEP_BF16 = DEEP + DIRECT_SHAPES,
  WAYS = DEEP_BF16 + DIRECT_SHAPES
};
static bool is_bf16(int way) {
  return (way >= FIRST_BF16 && way < KEPT) || (way >= KEPT_BF16 && way < DEEP) || way >= DEEP_BF16;
}

static matmul_way way_at(int i) {
  matmul_way way = {.splits = 1, .products = 3, .half = is_bf16(i) ? SN_BF16 : SN_F16};
  if (i < MATRIX_SHAPES)
    way.matrix = &matmul_matrices[i];
  else
    way.direct = &matmul_directs[(i - MATRIX_SHAPES) % DIRECT_SHAPES];
  return way;
}

static bool run_parts(const program *p, void *const *numbers, const part *parts, int number,
                      int splits) {
  step s = {.kind = STEP_MATMUL, .n_parts = 1, .parts = parts};
  matmul_way way = way_at(number);
  way.splits = splits;
  sn_ctx *ctx = NULL;
  if (sn_ctx_create(NULL, &ctx) != SN_OK)
    abort();
  vm_step v = {.ctx = ctx,
               .program = p,
               .addresses = numbers,
               .emit = emit_way,
               .user = &way,
               .precision = SN_PRECISION_FAST,
               .target = vm_step_target(132)};
  v.target.f16 = v.target.bf16 = v.target.places = v.target.bf16_places = true;
  for (int i = 0; i < 3; i++)
    v.target.matrix[i] = 16;
  bool ok = vm_step_run(&v, &s);
  if (!ok)
    FAIL("way %d: %s", number, v.finding);
  sn_ctx_destroy(ctx);
  return ok;
}

static bool run_trial(trial *t, int number, int splits) {
  program_value values[VALUES];
  memset(values, 0, sizeof values);
  int64_t counts[VALUES] = {0, t->m * t->k, t->n * t->k, t->m * t->n};
  for (int v = A; v < VALUES; v++)
    values[v] =
        (program_value){.type = {.dtype = SN_F32}, .count = counts[v], .bytes = 4 * counts[v]};
  if (number >= KEPT)
    values[B].home = HOME_CONSTANT;
  program p = {.values = values, .n_values = VALUES};
  term terms[6] = {along(0, t->ta ? 1 : t->k),
                   along(2, t->ta ? t->m : 1),
                   along(1, t->tb ? 1 : t->k),
                   along(2, t->tb ? t->n : 1),
                   along(0, t->n),
                   along(1, 1)};
  access to = {.value = C, .n_terms = 2, .terms = terms + 4};
  instr adding[4] = {{.op = REGION_ACC},
                     {.op = REGION_LOAD, .at = to},
                     {.op = REGION_ALU, .code = ALU_add, .a = 0, .b = 1},
                     {.op = REGION_STORE, .a = 2, .at = to}};
  instr code[5] = {{.op = REGION_LOAD, .at = {.value = A, .n_terms = 2, .terms = terms}},
                   {.op = REGION_ALU, .code = ALU_abs, .a = 0},
                   {.op = REGION_LOAD, .at = {.value = B, .n_terms = 2, .terms = terms + 2}},
                   {.op = REGION_ACC},
                   {.op = REGION_STORE, .at = to}};
  for (int i = 0; i < 5; i++)
    code[i].dtype = SN_F32;
  for (int i = 0; i < 4; i++)
    adding[i].dtype = SN_F32;
  matmul_product product = {
      .n_k = 1, .k = {t->k}, .a = {t->computed ? 2 : 1, code}, .b = {1, code + 2}};
  matmul_acc acc = {1, &product};
  part parts[1] = {{.u.matmul = {.n_m = 1,
                                 .n_n = 1,
                                 .extent = {t->m, t->n},
                                 .n_accs = 1,
                                 .accs = &acc,
                                 .epilogue = {t->adds ? 4 : 2, t->adds ? adding : code + 3}}}};
  step many[100];
  for (int i = 0; i < (int)COUNT_OF(many); i++)
    many[i] = (step){.kind = STEP_MATMUL, .n_parts = 1, .parts = parts};
  if (number >= DEEP) {
    values[A].channels = 1;
    p.steps = many;
    p.n_main = COUNT_OF(many);
  }
  return run_parts(&p, (void *const *)t->x, parts, number, splits);
}

/* --- finite numbers --- */

/* The bounds of emit_matmul_matrix.h and emit_matmul_direct.h, with what f32 sums may lose. */
static void check_bound(const trial *t, int way, const char *what) {
  double most[2] = {0, 0};
  for (int64_t i = 0; i < t->m * t->k; i++)
    most[0] = fmax(most[0], fabs((double)t->x[A][i]));
  for (int64_t i = 0; i < t->n * t->k; i++)
    most[1] = fmax(most[1], fabs((double)t->x[B][i]));
  for (int64_t i = 0; i < t->m; i++)
    for (int64_t j = 0; j < t->n; j++) {
      double sum = 0, all = 0, sizes = 0;
      for (int64_t k = 0; k < t->k; k++) {
        double x = (double)a_at(t, i, k) * b_at(t, j, k);
        sum += x;
        all += fabs(x);
        sizes += fabs((double)a_at(t, i, k)) + fabs((double)b_at(t, j, k));
      }
      double error = fabs(sum - t->x[C][i * t->n + j]);
      double bound = !is_bf16(way) ? 0x1p-19 * all + 0x1p-36 * (double)t->k * most[0] * most[1]
                                   : 0x1p-13 * all + 0x1p-126 * sizes;
      if (all < 3e38 && !(error <= bound + 0x1p-140)) { /* more is too much for an f32 */
        FAIL("%s: %d %d: error %g, at most %g", what, (int)i, (int)j, error, bound);
        return;
      }
    }
}

static void check_edges(const int64_t sizes[5]) {
  for (int i = 0; i < WAYS; i++)
    for (int s = 0; s < 10; s++) {
      trial t = trial_open(sizes[s % 5], sizes[(s + s / 5) % 5], sizes[(2 * s + i) % 5], s + i);
      if (run_trial(&t, i, 1 + (s == 4)))
        check_bound(&t, i, "edges");
      trial_close(&t);
    }
}

TEST(edges) { check_edges((const int64_t[]){1, 15, 17, 33, 65}); }
/* Results in fours, and in eights. */
TEST(edges_of_fours) { check_edges((const int64_t[]){4, 40, 12, 24, 72}); }

/* How the numbers of a trial are spoiled, by their place along k. */
static float factor(int kind, int64_t row, int64_t k) {
  switch (kind) {
  case 0: return 1e-30f;
  case 1: return 1e30f;
  case 2: return ldexpf(1, (int)(k / 8) % 60 - 30);       /* up and down along k */
  case 3: return k < 140 ? 0 : 1e20f;                     /* nothing at first */
  case 4: return k < 140 ? 1e15f : 1e-15f;                /* large numbers first */
  case 5: return ldexpf(1, (int)(row * 7 + k) % 40 - 20); /* anything beside anything */
  default: return 1e-38f;                                 /* at the least numbers */
  }
}

TEST(magnitudes) {
  for (int i = 0; i < WAYS; i++)
    for (int kind = 0; kind < 14; kind++) {
      trial t = trial_open(20, 18, 300, kind);
      for (int64_t m = 0; m < t.m; m++)
        for (int64_t k = 0; k < t.k; k++)
          t.x[A][t.ta ? k * t.m + m : m * t.k + k] *= factor(kind % 7, m, k);
      for (int64_t n = 0; n < t.n; n++)
        for (int64_t k = 0; k < t.k; k++)
          t.x[B][t.tb ? k * t.n + n : n * t.k + k] *= kind < 7 ? 1 : factor(13 - kind, n, k);
      if (run_trial(&t, i, 1))
        check_bound(&t, i, "magnitudes");
      trial_close(&t);
    }
}

/* Long sums are flushed: the interpreter rounds, so that this finds sums that are lost or counted twice. */
TEST(long_sums) {
  for (int i = 0; i < WAYS; i++) {
    trial t = trial_open(3, 5, 5000, i);
    if (run_trial(&t, i, 1))
      check_bound(&t, i, "long sums");
    trial_close(&t);
  }
}

/* --- others --- */

/* Where nothing is infinite results are right, too. old: what was added to; NULL: nothing. */
static void check_plain(const trial *t, int way, const float *old) {
  for (int64_t i = 0; i < t->m; i++)
    for (int64_t j = 0; j < t->n; j++) {
      float sum = old ? old[i * t->n + j] : 0, got = t->x[C][i * t->n + j], all = 1;
      for (int64_t k = 0; k < t->k; k++) {
        sum += a_at(t, i, k) * b_at(t, j, k);
        all += fabsf(a_at(t, i, k) * b_at(t, j, k));
      }
      bool right = isinf(sum) ? got == sum : fabsf(got - sum) <= 0x1p-13f * all;
      if (isnan(sum) ? !isnan(got) : !right) {
        FAIL("way %d, %d %d: expected %g, got %g", way, (int)i, (int)j, (double)sum, (double)got);
        return;
      }
    }
}

static void whole_b(trial *t) { /* exact halves, and zeros */
  for (int64_t n = 0; n < t->n * t->k; n++)
    t->x[B][n] = (float)(int)(3 * t->x[B][n]);
}

static void check_infinities(int64_t columns) {
  static const float special[] = {INFINITY, -INFINITY, NAN};
  for (int i = 0; i < WAYS; i++)
    for (int s = 0; s < 12; s++) {
      trial t = trial_open(33, columns, 40, s);
      whole_b(&t);
      t.x[s < 6 ? A : B][s < 6 ? 333 : 77] = special[s % 3];
      if (s % 2)
        t.x[A][500] = INFINITY;
      if (run_trial(&t, i, 1 + (s == 3)))
        check_plain(&t, i, NULL);
      trial_close(&t);
    }
}

TEST(infinities) { check_infinities(17); }
TEST(infinities_in_fours) {
  check_infinities(12);
  check_infinities(24);
}

/* Each four of results goes through its epilogue once, also where sums of its neighbours are made again: what is added to was in its place. */
TEST(infinities_in_place) {
  static const int64_t rows[] = {33, 5, 70, 17}, columns[] = {12, 24, 17, 72};
  for (int i = 0; i < WAYS; i++)
    for (int s = 0; s < 8; s++) {
      trial t = trial_open(rows[s % 4], columns[(s + s / 4) % 4], 40, 0);
      t.adds = true;
      whole_b(&t);
      if (s % 2)
        t.x[A][2 * t.k + 3] = INFINITY;
      if (s == 5)
        t.x[B][5 * t.k + 7] = INFINITY;
      float *old = malloc((size_t)(t.m * t.n) * sizeof *old);
      if (!old)
        abort();
      memcpy(old, t.x[C], (size_t)(t.m * t.n) * sizeof *old);
      if (run_trial(&t, i, 1))
        check_plain(&t, i, old);
      free(old);
      trial_close(&t);
    }
}

TEST(zeros) {
  trial t = trial_open(17, 33, 65, 0);
  memset(t.x[A], 0, (size_t)(t.m * t.k) * sizeof(float));
  for (int i = 0; i < WAYS; i++)
    if (run_trial(&t, i, 1))
      for (int64_t j = 0; j < t.m * t.n; j++)
        CHECK(t.x[C][j] == 0);
  trial_close(&t);
}

/* --- batches, accumulators --- */

enum { M = 35, N = 33, K = 70, BATCH = 2 };

/* d[b, m, n] = sum a[b, m, k] e[n, k] + sum a[b, m, k] f[b, n, k]: two accumulators with an operand in common, one of the others the same
 * for all batches. */
static void check_batches(int number) {
  enum { E = 2, F, D, ALL };
  static float a[BATCH * M * K], e[N * K], f[BATCH * N * K], d[BATCH * M * N];
  float *const at[ALL] = {NULL, a, e, f, d};
  const int64_t counts[ALL] = {0, BATCH * M * K, N * K, BATCH * N * K, BATCH * M * N};
  program_value values[ALL];
  memset(values, 0, sizeof values);
  for (int v = 1; v < ALL; v++) {
    values[v] =
        (program_value){.type = {.dtype = SN_F32}, .count = counts[v], .bytes = 4 * counts[v]};
    for (int64_t i = 0; i < counts[v]; i++)
      at[v][i] = draw();
  }
  if (number >= KEPT)
    values[E].home = HOME_CONSTANT;
  program p = {.values = values, .n_values = ALL};
  const term terms[] = {along(0, M * K), along(1, K),     along(3, 1), along(2, K),
                        along(3, 1),     along(0, N * K), along(2, K), along(3, 1),
                        along(0, M * N), along(1, N),     along(2, 1)};
  instr code[7] = {
      {.op = REGION_LOAD, .at = {.value = A, .n_terms = 3, .terms = terms}},
      {.op = REGION_LOAD, .at = {.value = E, .n_terms = 2, .terms = terms + 3}},
      {.op = REGION_LOAD, .at = {.value = F, .n_terms = 3, .terms = terms + 5}},
      {.op = REGION_ACC},
      {.op = REGION_ACC, .index = 1},
      {.op = REGION_ALU, .code = ALU_add, .a = 0, .b = 1},
      {.op = REGION_STORE, .a = 2, .at = {.value = D, .n_terms = 3, .terms = terms + 8}}};
  for (int i = 0; i < 7; i++)
    code[i].dtype = SN_F32;
  const matmul_product products[2] = {{.n_k = 1, .k = {K}, .a = {1, code}, .b = {1, code + 1}},
                                      {.n_k = 1, .k = {K}, .a = {1, code}, .b = {1, code + 2}}};
  const matmul_acc accs[2] = {{1, &products[0]}, {1, &products[1]}};
  part parts[1] = {{.u.matmul = {.n_batch = 1,
                                 .n_m = 1,
                                 .n_n = 1,
                                 .extent = {BATCH, M, N},
                                 .n_accs = 2,
                                 .accs = accs,
                                 .epilogue = {4, code + 3}}}};
  if (!run_parts(&p, (void *const *)at, parts, number, 1))
    return;
  for (int64_t i = 0; i < BATCH * M * N; i++) {
    int64_t b = i / (M * N), row = i / N % M, column = i % N;
    double sum = 0;
    for (int64_t k = 0; k < K; k++)
      sum += (double)a[(b * M + row) * K + k] *
             ((double)e[column * K + k] + f[(b * N + column) * K + k]);
    CHECK_NEAR(d[i], sum, 1e-4);
  }
}

TEST(batches) {
  for (int i = MATRIX_SHAPES; i < WAYS; i++)
    check_batches(i);
}
