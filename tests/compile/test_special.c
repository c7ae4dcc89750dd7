/* Pointwise ops at the points where rules differ: both zeros, halves, subnormal numbers, the largest, infinities, NaN, and all
 * pairs of them. What a plan gives is what the reference gives, the signs of zeros included, on every instruction set, with and
 * without the optimiser. */
#include "ir/dtype.h"
#include "support/plan_run.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

static const double points[] = {0,         -0.0,     1,     -1,    0.5,    -0.5,      1.5,
                                -1.5,      2.5,      -2.5,  3,     -7,     1e-40,     -1e-40,
                                1e-45,     0x1p-126, 1e30,  -1e30, 1e10,   3.4028e38, INFINITY,
                                -INFINITY, NAN,      65504, 1e-20, -1e-20, 88.5,      -103.5};
enum { POINTS = COUNT_OF(points), PAIRS = POINTS * POINTS };

typedef struct row {
  const char *text; /* what is made of %1 and %2; its last line is compared */
  double error;     /* as a share of the result; 0: exact */
  bool either_zero; /* the sign of a zero is open */
  bool several;     /* ops, or one that stands for others */
} row;

static double number(void *user, const char *name, sn_dtype dtype, int64_t i) {
  (void)user;
  return dtype_round(dtype, points[*name == 'a' ? i / POINTS : i % POINTS]);
}

static bool is_same(const row *r, sn_dtype dtype, double want, double got) {
  static const double last_bit[] = {[SN_F32] = 0, [SN_F16] = 1e-3, [SN_BF16] = 8e-3};
  double error = r->error > 0 ? r->error + last_bit[dtype] : 0;
  if (isnan(want) || isnan(got))
    return isnan(want) && isnan(got);
  if (want == got)
    return want != 0 || r->either_zero || !dtype_is_float(dtype) || !signbit(want) == !signbit(got);
  /* Results that are subnormal have fewer bits. */
  return r->error > 0 && fabs(want - got) <= error * fabs(want) + 3e-45 &&
         isfinite(want) == isfinite(got);
}

static void compare(const row *r, const plan_oracle *o, const plan_results *res, const char *set) {
  const oracle_tensor *t = &o->tensors[0];
  sn_dtype dtype = (sn_dtype)t->value.dtype;
  for (int64_t i = 0; i < PAIRS && !test_failed(); i++) {
    double want = dtype_round(dtype, t->value.data[i]), got = dtype_load(dtype, res->outputs[0], i);
    if (!is_same(r, dtype, want, got))
      FAIL("%s, %s, %s: a = %g, b = %g: the reference says %.9g, the plan %.9g", r->text,
           sn_dtype_name(dtype), set, points[i / POINTS], points[i % POINTS], want, got);
  }
}

static void check_graph(const row *r, const sn_graph *g, bool no_opt) {
  plan_run run;
  plan_oracle o;
  plan_numbers n = {.fill = number};
  compile_options options = {.no_opt = no_opt};
  if (!CHECK(plan_run_start(&run, g, &options) == SN_OK))
    FAIL("%s: %s", r->text, sn_ctx_message(g->ctx));
  else if (CHECK(plan_oracle_run(&o, g, NULL, &n) == SN_OK)) {
    for (run.which = 0; run.which < run.n_lowered; run.which++) {
      plan_results res;
      char set[40];
      snprintf(set, sizeof set, "plan %d%s", run.which, no_opt ? ", not optimised" : "");
      if (CHECK(plan_run_once(&run, &n, &res) == SN_OK))
        compare(r, &o, &res, set);
      plan_results_end(&res);
    }
    plan_oracle_end(&o);
  }
  plan_run_end(&run);
}

static size_t count_lines(const char *of) {
  size_t n = 0;
  for (; *of; of++)
    n += *of == '\n';
  return n;
}

/* DT stands for the dtype. */
static void write_lines(const char *of, const char *dtype, char *out, size_t size) {
  const char *at = strstr(of, "DT");
  if (at)
    snprintf(out, size, "%.*s%s%s", (int)(at - of), of, dtype, at + 2);
  else
    snprintf(out, size, "%s", of);
}

static void check_row(const row *r, sn_dtype dtype) {
  sn_ctx *ctx = NULL;
  sn_graph *g = NULL;
  char source[500];
  const char *name = sn_dtype_name(dtype);
  char lines[300];
  write_lines(r->text, name, lines, sizeof lines);
  snprintf(source, sizeof source,
           "%%1 = input() name=\"a\" dtype=%s shape=[%d]\n"
           "%%2 = input() name=\"b\" dtype=%s shape=[%d]\n%%3 = %s\noutput \"y\" %%%d\n",
           name, PAIRS, name, PAIRS, lines, 3 + (int)count_lines(r->text));
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (sn_graph_parse(ctx, source, &g) != SN_OK)
    FAIL("%s: %s", r->text, sn_ctx_message(ctx));
  /* The optimiser keeps no sign of a zero and no infinity on the way (opt.h): of several ops it makes others. */
  for (int no_opt = r->several; no_opt < 2 && !test_failed(); no_opt++)
    check_graph(r, g, no_opt);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

static const row rows[] = {
#define UNARY(name, error) \
  { #name "(%1)", error, false, false }
#define BINARY(name, error, either) \
  { #name "(%1, %2)", error, either, false }
    UNARY(neg, 0),
    UNARY(abs, 0),
    UNARY(sign, 0),
    UNARY(recip, 0),
    UNARY(sqrt, 0),
    UNARY(rsqrt, 2e-7),
    UNARY(sqr, 0),
    UNARY(exp, 1e-6),
    UNARY(exp2, 1e-6),
    UNARY(expm1, 1e-6),
    UNARY(log, 1e-6),
    UNARY(log2, 1e-6),
    UNARY(log1p, 1e-6),
    UNARY(sin, 1e-6),
    UNARY(cos, 1e-6),
    UNARY(tan, 2e-6),
    UNARY(atan, 1e-6),
    UNARY(tanh, 1e-6),
    UNARY(sigmoid, 1e-6),
    UNARY(erf, 1e-6),
    UNARY(floor, 0),
    UNARY(ceil, 0),
    UNARY(round, 0),
    UNARY(isnan, 0),
    UNARY(isinf, 0),
    UNARY(softplus, 1e-6),
    UNARY(relu, 0),
    BINARY(add, 0, false),
    BINARY(sub, 0, false),
    BINARY(mul, 0, false),
    BINARY(div, 0, false),
    BINARY(floor_div, 0, false),
    BINARY(rem, 0, false),
    BINARY(fmod, 0, false),
    BINARY(pow, 2e-6, false),
    BINARY(maximum, 0, true),
    BINARY(minimum, 0, true),
    BINARY(atan2, 1e-6, false),
    BINARY(eq, 0, false),
    BINARY(ne, 0, false),
    BINARY(lt, 0, false),
    BINARY(le, 0, false),
    BINARY(gt, 0, false),
    BINARY(ge, 0, false),
#define OF_ONE(of, error, either) \
  { "reshape(%1) shape=[784, 1]\n%4 = " of, error, either, true }
    {"clamp(%1) lo=-0.5 hi=0.5", 0, true, false},
    {"clamp(%1) lo=-inf hi=0.0", 0, true, false},
    {"affine(%1) mul=-1.0 add=0.0", 0, true, true},
    {"affine(%1) mul=2.0 add=-0.0", 0, false, true},
    {"leaky_relu(%1) slope=0.25", 0, false, false},
    {"elu(%1) alpha=1.0", 1e-6, false, false},
    {"hardswish(%1)", 1e-6, false, false},
    {"softcap(%1) cap=2.0", 1e-6, false, false},
    {"powf(%1) exponent=2.0", 1e-6, false, false},
    {"powf(%1) exponent=0.5", 1e-6, false, false},
    {"powf(%1) exponent=-1.0", 1e-6, false, false},
    {"powf(%1) exponent=3.0", 1e-6, false, false},
    {"powf(%1) exponent=0.0", 1e-6, false, false},
    {"powf(%1) exponent=1.5", 2e-6, false, false},
    OF_ONE("sum(%3) axes=[1] keepdims=false", 0, true),
    OF_ONE("mean(%3) axes=[1] keepdims=false", 0, true),
    OF_ONE("max(%3) axes=[1] keepdims=false", 0, false),
    OF_ONE("min(%3) axes=[1] keepdims=false", 0, false),
    OF_ONE("prod(%3) axes=[1] keepdims=false", 0, false),
    OF_ONE("logsumexp(%3) axes=[1] keepdims=false", 1e-6, false),
    OF_ONE("cumsum(%3) axis=1 exclusive=false reverse=false\n%5 = reshape(%4) shape=[784]", 0,
           true),
    {"full() dtype=DT shape=[] value=-0.0\n%4 = add(%1, %3)", 0, false, true},
    {"full() dtype=DT shape=[] value=-0.0\n%4 = mul(%1, %3)", 0, false, true},
    {"full() dtype=DT shape=[] value=-0.0\n%4 = sub(%1, %3)", 0, false, true},
    {"full() dtype=DT shape=[] value=-0.0\n%4 = atan2(%3, %1)", 1e-6, false, false},
    {"full() dtype=DT shape=[] value=0.0\n%4 = sub(%3, %1)", 0, false, true},
    {"full() dtype=DT shape=[] value=0.0\n%4 = mul(%1, %3)", 0, false, true},
    {"full() dtype=DT shape=[] value=0.0\n%4 = add(%1, %3)", 0, false, true},
    {"neg(%1)\n%4 = atan2(%3, %2)", 1e-6, false, false},
    {"sub(%1, %1)\n%4 = atan2(%3, %2)", 1e-6, false, false},
    {"round(%1)\n%4 = atan2(%3, %2)", 1e-6, false, false},
    {"ceil(%1)\n%4 = atan2(%3, %2)", 1e-6, false, false},
    {"mul(%1, %2)\n%4 = recip(%3)", 0, false, true},
    {"gt(%1, %2)\n%4 = where(%3, %1, %2)", 0, false, true},
    {"le(%1, %2)\n%4 = where(%3, %2, %1)", 0, false, true},
    {"recip(%1)\n%4 = recip(%3)", 0, false, true},
    {"neg(%1)\n%4 = sub(%2, %3)", 0, false, true},
    {"sub(%1, %2)\n%4 = neg(%3)", 0, false, true},
    {"sqr(%1)\n%4 = sqrt(%3)", 0, false, true},
    {"exp(%1)\n%4 = log(%3)", 1e-5, false, true},
    {"abs(%1)\n%4 = neg(%3)", 0, false, true},
    {"sign(%1)\n%4 = mul(%3, %2)", 0, false, true},
    {"cast(%1) dtype=i32", 0, false, false},
    {"cast(%1) dtype=u8", 0, false, false},
    {"cast(%1) dtype=bool", 0, false, false},
    {"cast(%1) dtype=f16", 0, false, false},
    {"cast(%1) dtype=bf16", 0, false, false},
    {"cast(%1) dtype=f32", 0, false, false},
};

TEST_WALK(points) {
  static const sn_dtype dtypes[] = {SN_F32, SN_F16, SN_BF16};
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    for (size_t d = 0; d < COUNT_OF(dtypes); d++)
      if (test_begin("%d %.*s %s", (int)i, (int)strcspn(rows[i].text, "\n"), rows[i].text,
                     sn_dtype_name(dtypes[d]))) {
        check_row(&rows[i], dtypes[d]);
        test_end();
      }
}
