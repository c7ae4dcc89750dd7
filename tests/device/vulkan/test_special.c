/* Arithmetic at points where rules differ: zeros of both signs, halves, subnormal numbers, infinities, NaN, quotients just beside whole
 * numbers. To the last bit, on the interpreter of SPIR-V and on a driver where there is one, which may take subnormal numbers for 0. */
#include "ir/dtype.h"
#include "support/plan_run.h"
#include "support/test.h"
#include "support/vm_program.h"
#include "support/vulkan_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const float points[] = {
    0,     -0.0F,     0.5F,   -0.5F,      1,        -1,        1.5F, 2.5F,    -2.5F,    3,
    -7,    0x1p-126F, 3e-45F, -0x1p-130F, 1e-40F,   0.1F,      0.3F, 0.7F,    -0.3F,    1e-20F,
    1e10F, -1e30F,    3e38F,  65504,      INFINITY, -INFINITY, NAN,  8388607, 16777215, -0x1p31F};
enum { POINTS = COUNT_OF(points), QUOTIENTS = 700, ALL = POINTS * POINTS + QUOTIENTS };

/* Behind all pairs: small multiples of numbers, and what is next to them. */
static float point(bool first, int64_t i) {
  if (i < POINTS * POINTS)
    return points[first ? i / POINTS : i % POINTS];
  int64_t n = i - POINTS * POINTS;
  float b = 0.1F + (float)(n % 37) * 0.37F, a = b * (float)(1 + n % 11);
  a = n % 3 ? nextafterf(a, n % 3 == 1 ? 0 : 1e9F) : a;
  return !first && n % 2 ? -b : first ? a : b;
}

static double number(void *user, const char *name, sn_dtype dtype, int64_t i) {
  (void)user, (void)dtype;
  return point(*name == 'a', i);
}

static double of_add(double a, double b) { return a + b; }
static double of_mul(double a, double b) { return a * b; }
static double of_div(double a, double b) { return a / b; }
static double of_floor_div(double a, double b) { return floor(a / b); }
static double of_rem(double a, double b) {
  float r = (float)fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + (float)b : r;
}
static double of_max(double a, double b) { return isnan(a) || a > b ? a : b; }
static double of_min(double a, double b) { return isnan(a) || a < b ? a : b; }
static double of_abs(double a, double b) { return (void)b, fabs(a); }
static double of_neg(double a, double b) { return (void)b, -a; }
static double of_floor(double a, double b) { return (void)b, floor(a); }
static double of_ceil(double a, double b) { return (void)b, ceil(a); }
static double of_round(double a, double b) { return (void)b, rint(a); }
static double of_sqrt(double a, double b) { return (void)b, sqrt(a); }
static double of_sign(double a, double b) { return (void)b, isnan(a) ? a : (a > 0) - (a < 0); }
static double of_i32(double a, double b) { return (void)b, dtype_round(SN_I32, a); }
static double of_u8(double a, double b) { return (void)b, dtype_round(SN_U8, a); }

typedef struct row {
  const char *text;
  double (*of)(double a, double b);
  double error;     /* as a share of the result; 0: none */
  bool either_zero; /* the sign of a zero is open */
} row;
static const row rows[] = {
    {"add(%1, %2)", of_add, 0, false},      {"mul(%1, %2)", of_mul, 0, false},
    {"div(%1, %2)", of_div, 0, false},      {"floor_div(%1, %2)", of_floor_div, 0, false},
    {"rem(%1, %2)", of_rem, 0, true},       {"fmod(%1, %2)", fmod, 0, false},
    {"atan2(%1, %2)", atan2, 1e-6, false},  {"pow(%1, %2)", pow, 2e-6, false},
    {"maximum(%1, %2)", of_max, 0, true},   {"minimum(%1, %2)", of_min, 0, true},
    {"abs(%1)", of_abs, 0, false},          {"neg(%1)", of_neg, 0, false},
    {"floor(%1)", of_floor, 0, false},      {"ceil(%1)", of_ceil, 0, false},
    {"round(%1)", of_round, 0, false},      {"sqrt(%1)", of_sqrt, 0x1p-23, false},
    {"sign(%1)", of_sign, 0, true},         {"cast(%1) dtype=i32", of_i32, 0, false},
    {"cast(%1) dtype=u8", of_u8, 0, false},
};

static bool is_subnormal(double x) { return x != 0 && fabs(x) < 0x1p-126; }

static bool is_right(const row *r, double want, double got, bool is_float) {
  if (isnan(want) || isnan(got))
    return isnan(want) && isnan(got);
  if (want == got)
    return want != 0 || r->either_zero || !is_float || !signbit(want) == !signbit(got);
  /* A whole number that f32 has no room for may be rounded twice. */
  double error = r->of == of_floor_div && fabs(want) >= 0x1p24 ? 0x1p-23 : r->error;
  return error > 0 && isfinite(want) && fabs(want - got) <= error * fabs(want) + 3e-45;
}

static void compare(const row *r, sn_dtype dtype, const void *results, bool flushes,
                    const char *where) {
  for (int64_t i = 0; i < ALL; i++) {
    float a = point(true, i), b = point(false, i);
    double exact = r->of(a, b), want = dtype_is_float(dtype) ? (double)(float)exact : exact;
    bool open = flushes && (is_subnormal(a) || is_subnormal(b) || is_subnormal(want));
    double got = dtype_load(dtype, results, i);
    if (!open && !is_right(r, want, got, dtype_is_float(dtype))) {
      FAIL("%s, %s: a = %.9g, b = %.9g: %.9g is right, got %.9g", r->text, where, (double)a,
           (double)b, want, got);
      return;
    }
  }
}

static void interpret(const row *r, const sn_graph *g, sn_dtype dtype) {
  static float a[ALL], b[ALL], y[ALL];
  compiled c;
  for (int64_t i = 0; i < ALL; i++) {
    a[i] = point(true, i);
    b[i] = point(false, i);
  }
  if (!CHECK(compile_graph(g, NULL, &c) == SN_OK))
    return;
  const void *inputs[2] = {a, b};
  void *outputs[1] = {y};
  vm_execution x = {.ctx = g->ctx,
                    .program = c.program,
                    .target = vm_target(32),
                    .inputs = inputs,
                    .outputs = outputs};
  if (vm_execute(&x) == SN_OK)
    compare(r, dtype, y, false, "interpreted");
  else
    FAIL("%s: %s", r->text, sn_ctx_message(g->ctx));
  compile_destroy(&c);
}

static void drive(const row *r, const sn_graph *g, sn_dtype dtype) {
  plan_run run;
  plan_results res;
  plan_numbers n = {.fill = number};
  if (!vulkan_ready())
    return;
  setenv("SINEW_TEST_DEVICE", "vulkan", 1);
  if (CHECK(plan_run_start(&run, g, NULL) == SN_OK)) {
    if (CHECK(plan_run_once(&run, &n, &res) == SN_OK))
      compare(r, dtype, res.outputs[0], true, "on a driver");
    plan_results_end(&res);
  }
  plan_run_end(&run);
}

static void check_row(const row *r, void (*on)(const row *r, const sn_graph *g, sn_dtype dtype)) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL;
  char source[400];
  snprintf(source, sizeof source,
           "%%1 = input() name=\"a\" dtype=f32 shape=[%d]\n%%2 = input() name=\"b\" dtype=f32 "
           "shape=[%d]\n%%3 = %s\noutput \"y\" %%3\n",
           ALL, ALL, r->text);
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (sn_graph_parse(ctx, source, &g) == SN_OK)
    on(r, g, g->values[g->outputs[0].value.id].type.dtype);
  else
    FAIL("%s: %s", r->text, sn_ctx_message(ctx));
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

static void walk(void (*on)(const row *r, const sn_graph *g, sn_dtype dtype)) {
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (test_begin("%s", rows[i].text)) {
      check_row(&rows[i], on);
      test_end();
    }
}

TEST_WALK(interpreted) { walk(interpret); }
TEST_WALK(driven) { walk(drive); }
