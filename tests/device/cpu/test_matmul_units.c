/* Matmuls that are large enough to be cut among threads, with operands made ready for all and without: results are right, and bit
 * for bit the same on 1, 2, 3 and 4 threads, on every instruction set. */
#include "support/cpu_case.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_PARTS = 3, MAX_ACCS = 2, VALUES = 1 + 4 * MAX_PARTS * MAX_ACCS };

/* Plain matrices: every accumulator has an operand b of its own, a is the part's. */
typedef struct shape {
  int64_t batch, m, n, k;
  int accs;
  bool a_by_k, b_by_n, c_by_n; /* dense so, else along the other index */
} shape;

typedef struct world {
  program p;
  program_value values[VALUES];
  float *address[VALUES];
  part parts[MAX_PARTS];
  matmul_acc accs[MAX_PARTS][MAX_ACCS];
  matmul_product products[MAX_PARTS][MAX_ACCS];
  instr code[3 * MAX_PARTS * MAX_ACCS + 6 * MAX_PARTS];
  term terms[VALUES][3];
  int n_code, n_parts;
  uint32_t c[MAX_PARTS], a[MAX_PARTS], b[MAX_PARTS][MAX_ACCS];
} world;

static uint32_t add_value(world *w, int64_t count) {
  static uint32_t seed = 1;
  uint32_t v = w->p.n_values++;
  w->values[v] = (program_value){.type = {.dtype = SN_F32}, .count = count};
  w->address[v] = malloc((size_t)count * sizeof(float));
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    w->address[v][i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
  }
  return v;
}

/* [batch][x][y] or [batch][y][x]; the axes' numbers. */
static access matrix(world *w, uint32_t v, int x, int64_t n_x, int y, int64_t n_y, bool by_y) {
  term *t = w->terms[v];
  t[0] = (term){.axis = 0, .stride = n_x * n_y, .div = 1};
  t[1] = (term){.axis = (uint8_t)x, .stride = by_y ? n_y : 1, .div = 1};
  t[2] = (term){.axis = (uint8_t)y, .stride = by_y ? 1 : n_x, .div = 1};
  return (access){.value = v, .n_terms = 3, .terms = t};
}

static region load(world *w, access at) {
  instr *i = &w->code[w->n_code++];
  *i = (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = at};
  return (region){.n = 1, .code = i};
}

/* The sum of all accumulators; one alone is only stored. */
static region epilogue(world *w, int accs, access at) {
  instr *first = &w->code[w->n_code], *i = first;
  for (int c = 0; c < accs; c++)
    *i++ = (instr){.op = REGION_ACC, .dtype = SN_F32, .index = (uint32_t)c};
  if (accs == 2)
    *i++ = (instr){.op = REGION_ALU, .code = ALU_add, .dtype = SN_F32, .a = 0, .b = 1};
  *i = (instr){.op = REGION_STORE, .dtype = SN_F32, .a = (reg)(i - first - 1), .at = at};
  w->n_code += (int)(i - first) + 1;
  return (region){.n = (int)(i - first) + 1, .code = first};
}

static void add_part(world *w, const shape *s) {
  int i = w->n_parts++;
  matmul_part *t = &w->parts[i].u.matmul;
  *t = (matmul_part){.n_batch = 1,
                     .n_m = 1,
                     .n_n = 1,
                     .extent = {s->batch, s->m, s->n},
                     .n_accs = s->accs,
                     .accs = w->accs[i]};
  w->a[i] = add_value(w, s->batch * s->m * s->k);
  w->c[i] = add_value(w, s->batch * s->m * s->n);
  access a = matrix(w, w->a[i], 1, s->m, 3, s->k, s->a_by_k);
  for (int c = 0; c < s->accs; c++) {
    w->b[i][c] = add_value(w, s->batch * s->k * s->n);
    access b = matrix(w, w->b[i][c], 3, s->k, 2, s->n, s->b_by_n);
    w->products[i][c] = (matmul_product){.n_k = 1, .k = {s->k}, .a = load(w, a), .b = load(w, b)};
    w->accs[i][c] = (matmul_acc){.n_products = 1, .products = &w->products[i][c]};
  }
  t->epilogue = epilogue(w, s->accs, matrix(w, w->c[i], 1, s->m, 2, s->n, s->c_by_n));
}

static world *make_world(const shape *shapes, int n) {
  world *w = calloc(1, sizeof *w);
  if (!w)
    abort();
  w->p.values = w->values;
  w->p.n_values = 1;
  for (int i = 0; i < n; i++)
    add_part(w, &shapes[i]);
  return w;
}

static void free_world(world *w) {
  for (uint32_t v = 1; v < w->p.n_values; v++)
    free(w->address[v]);
  free(w);
}

static void run_world(world *w, int threads, const cpu_isa *isa) {
  sn_ctx *ctx = NULL;
  step s = {.kind = STEP_MATMUL, .n_parts = w->n_parts, .parts = w->parts};
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (int i = 0; i < w->n_parts; i++)
    for (int64_t j = 0; j < w->values[w->c[i]].count; j++)
      w->address[w->c[i]][j] = NAN;
  cpu_case r = {.ctx = ctx,
                .program = &w->p,
                .addresses = (void *const *)(void *)w->address,
                .threads = threads,
                .isa = isa};
  CHECK_EQ_INT(cpu_case_run(&r, &s), SN_OK);
  CHECK_EQ_STR(sn_ctx_message(ctx), "");
  sn_ctx_destroy(ctx);
}

static int64_t at(int64_t e, int64_t x, int64_t n_x, int64_t y, int64_t n_y, bool by_y) {
  return e * n_x * n_y + (by_y ? x * n_y + y : y * n_x + x);
}

/* Some results, in doubles. */
static void check_some(const world *w, int i, const shape *s) {
  for (int64_t q = 0; q < 200 && !test_failed(); q++) {
    int64_t e = q % s->batch, m = q * 7919 % s->m, n = q * 104729 % s->n;
    if (q < 4) { /* corners */
      m = q & 1 ? s->m - 1 : 0;
      n = q & 2 ? s->n - 1 : 0;
    }
    double sum = 0;
    for (int c = 0; c < s->accs; c++)
      for (int64_t k = 0; k < s->k; k++)
        sum += (double)w->address[w->a[i]][at(e, m, s->m, k, s->k, s->a_by_k)] *
               (double)w->address[w->b[i][c]][at(e, k, s->k, n, s->n, s->b_by_n)];
    double got = (double)w->address[w->c[i]][at(e, m, s->m, n, s->n, s->c_by_n)];
    if (!(fabs(got - sum) <= 2e-6 * sqrt((double)(s->k * s->accs))))
      FAIL("part %d, (%lld, %lld, %lld): expected %.9g, got %.9g", i, (long long)e, (long long)m,
           (long long)n, sum, got);
  }
}

static float *copy_results(const world *w, int i) {
  size_t bytes = (size_t)w->values[w->c[i]].count * sizeof(float);
  float *x = malloc(bytes);
  if (!x)
    abort();
  memcpy(x, w->address[w->c[i]], bytes);
  return x;
}

static void check_threads(world *w, const shape *shapes, const cpu_isa *isa) {
  float *first[MAX_PARTS];
  run_world(w, 1, isa);
  for (int i = 0; i < w->n_parts; i++) {
    check_some(w, i, &shapes[i]);
    first[i] = copy_results(w, i);
  }
  for (int threads = 2; threads <= 4; threads++) {
    run_world(w, threads, isa);
    for (int i = 0; i < w->n_parts; i++)
      CHECK(memcmp(first[i], w->address[w->c[i]],
                   (size_t)w->values[w->c[i]].count * sizeof(float)) == 0);
  }
  for (int i = 0; i < w->n_parts; i++)
    free(first[i]);
}

/* kept: operands b never change, so that their panels are kept. */
static void check_shapes_with(const shape *shapes, int n, bool kept) {
  world *w = make_world(shapes, n);
  for (int i = 0; i < n && kept; i++)
    for (int c = 0; c < shapes[i].accs; c++)
      w->values[w->b[i][c]].home = HOME_CONSTANT;
  if (kept) {
    step s = {.kind = STEP_MATMUL, .n_parts = w->n_parts, .parts = w->parts};
    CHECK(cpu_archetypes[STEP_MATMUL].kept(&w->p, &s, NULL) > 0);
  }
  for (int i = 0; cpu_isa_at(i) && !test_failed(); i++)
    check_threads(w, shapes, cpu_isa_at(i));
  free_world(w);
}

static void check_shapes(const shape *shapes, int n) { check_shapes_with(shapes, n, false); }

TEST(a_wide_matrix) { check_shapes(&(shape){1, 70, 500, 300, 1, true, false, true}, 1); }
TEST(a_tall_matrix) { check_shapes(&(shape){1, 1501, 64, 129, 1, false, true, true}, 1); }
TEST(results_along_m) { check_shapes(&(shape){1, 400, 100, 270, 1, false, false, false}, 1); }
TEST(two_accumulators) { check_shapes(&(shape){1, 90, 200, 257, 2, true, false, true}, 1); }
TEST(a_batch) { check_shapes(&(shape){5, 100, 90, 110, 1, true, true, true}, 1); }
TEST(a_batch_of_two_accumulators) {
  check_shapes(&(shape){3, 50, 40, 300, 2, true, false, false}, 1);
}
TEST(few_rows) { check_shapes(&(shape){1, 3, 3000, 520, 2, true, false, true}, 1); }
TEST(few_columns) { check_shapes(&(shape){2, 2500, 2, 200, 1, true, true, true}, 1); }
TEST(several_parts) {
  static const shape shapes[] = {{1, 128, 192, 576, 1, true, false, true},
                                 {1, 3, 64, 70, 1, true, false, true},
                                 {1, 128, 96, 576, 1, true, false, true}};
  check_shapes(shapes, 3);
}

TEST(kept_columns) { check_shapes_with(&(shape){1, 130, 500, 300, 2, true, false, true}, 1, true); }
TEST(kept_rows) { check_shapes_with(&(shape){1, 700, 100, 270, 1, false, false, false}, 1, true); }
TEST(kept_small) { check_shapes_with(&(shape){1, 20, 30, 40, 1, true, true, true}, 1, true); }
TEST(kept_and_large) {
  check_shapes_with(&(shape){1, 900, 1000, 400, 1, true, false, true}, 1, true);
}
TEST(some_parts_are_kept) {
  static const shape shapes[] = {{1, 128, 192, 576, 2, true, false, true},
                                 {1, 3, 64, 70, 1, true, false, true},
                                 {1, 128, 96, 576, 1, true, false, true}};
  check_shapes_with(shapes, 3, true);
}
TEST(long_sums_of_few_results) {
  check_shapes(&(shape){1, 120, 200, 9000, 1, true, false, true}, 1);
}
TEST(operands_in_slabs) { check_shapes(&(shape){1, 200, 230, 50000, 1, true, true, true}, 1); }
