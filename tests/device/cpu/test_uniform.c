/* Every instruction of alu.def behind a product, on values that are computed and the same for all points: as each of its arguments, as
 * some of them and as all, of every dtype, with every instruction set, in blocks of whole and of broken lanes; by rows, and (a
 * load with a check) in the region machine. Against the meaning of the instructions, point by point. */
#include "support/alu_kinds.h"
#include "support/cpu_case.h"
#include "support/element_machine.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CODE = 24, K = 2 };
enum { VALUE_A = 1, VALUE_B, VALUE_S, VALUE_U, VALUE_OUT, VALUES };

typedef struct world {
  int64_t m, n;
  bool by_region;
  program p;
  program_value values[VALUES];
  void *address[VALUES];
  term of_a[2], of_b[2], of_out[2], column;
  check inside;
  instr code[CODE], a, b;
  int length;
  matmul_product product;
  matmul_acc acc;
  part part;
} world;

static float number_of(uint32_t value, int64_t i) {
  return value == VALUE_S ? 1 : value == VALUE_U ? 2 : (float)((i * 7 + value) % 4);
}

static void add_value(world *w, uint32_t v, int64_t count) {
  w->values[v] = (program_value){.type = {.dtype = SN_F32}, .count = count};
  float *data = malloc((size_t)count * sizeof *data);
  if (!data)
    abort();
  for (int64_t i = 0; i < count; i++)
    data[i] = number_of(v, i);
  w->address[v] = data;
}

static term along(int axis, int64_t stride) {
  return (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
}

static world *make_world(int64_t m, int64_t n, bool by_region) {
  world *w = calloc(1, sizeof *w);
  if (!w)
    abort();
  w->m = m, w->n = n, w->by_region = by_region;
  w->p = (program){.values = w->values, .n_values = VALUES};
  add_value(w, VALUE_A, m * K);
  add_value(w, VALUE_B, K * n);
  add_value(w, VALUE_S, 1);
  add_value(w, VALUE_U, 1);
  add_value(w, VALUE_OUT, m * n);
  w->of_a[0] = along(0, K), w->of_a[1] = along(2, 1);
  w->of_b[0] = along(1, 1), w->of_b[1] = along(2, n);
  w->of_out[0] = along(0, n), w->of_out[1] = along(1, 1);
  w->column = along(1, 1);
  w->inside = (check){.n_terms = 1, .terms = &w->column, .size = n, .divisor = 1};
  w->a = (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = {VALUE_A, 0, 2, 0, w->of_a, NULL}};
  w->b = (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = {VALUE_B, 0, 2, 0, w->of_b, NULL}};
  w->product = (matmul_product){.n_k = 1, .k = {K}, .a = {1, &w->a}, .b = {1, &w->b}};
  w->acc = (matmul_acc){1, &w->product};
  return w;
}

static void free_world(world *w) {
  for (int v = 1; v < VALUES; v++)
    free(w->address[v]);
  free(w);
}

/* --- the epilogue --- */

static reg add(world *w, instr i) {
  w->code[w->length] = i;
  return (reg)w->length++;
}
static reg alu_of(world *w, alu code, sn_dtype dtype, reg a, reg b) {
  return add(
      w, (instr){.op = REGION_ALU, .code = (uint8_t)code, .dtype = (uint8_t)dtype, .a = a, .b = b});
}
static reg load_one(world *w, uint32_t value) {
  return add(w, (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = {.value = value}});
}
static reg load_last(world *w) {
  access at = {VALUE_B, 0, 1, w->by_region, &w->column, &w->inside};
  return add(w, (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = at});
}

typedef struct arguments {
  reg sums, one, sums_flag, one_flag; /* of the dtype; bools */
} arguments;

/* What varies is made of sums and of what is loaded; what does not, of the two numbers. */
static arguments make_arguments(world *w, sn_dtype from) {
  reg sums = add(w, (instr){.op = REGION_ACC, .dtype = SN_F32});
  sums = alu_of(w, ALU_add, SN_F32, sums, load_last(w));
  reg s = load_one(w, VALUE_S), u = load_one(w, VALUE_U);
  reg one = alu_of(w, ALU_add, SN_F32, s, u);
  reg more = add(w, (instr){.op = REGION_NUMBER, .dtype = SN_F32, .x = 4});
  arguments x = {sums, one, alu_of(w, ALU_gt, SN_BOOL, sums, more),
                 alu_of(w, ALU_lt, SN_BOOL, s, u)};
  if (from == SN_BOOL)
    x.sums = x.sums_flag, x.one = x.one_flag;
  else if (from != SN_F32)
    x.sums = alu_of(w, ALU_cast, from, sums, 0), x.one = alu_of(w, ALU_cast, from, one, 0);
  return x;
}

/* Bit k of `ones`: argument k is the same for all points. */
static void make_code(world *w, alu code, sn_dtype result, sn_dtype from, unsigned ones) {
  w->length = 0;
  arguments x = make_arguments(w, from);
  bool flag_first = code == ALU_select, flag_last = code == ALU_gauss;
  instr i = {.op = REGION_ALU, .code = (uint8_t)code, .dtype = (uint8_t)result, .x = -3, .y = 7};
  i.x = code == ALU_bits_below ? 1 : i.x;
  i.a = ones & 1 ? (flag_first ? x.one_flag : x.one) : flag_first ? x.sums_flag : x.sums;
  i.b = ones & 2 ? x.one : x.sums;
  i.c = ones & 4 ? (flag_last ? x.one_flag : x.one) : flag_last ? x.sums_flag : x.sums;
  reg y = add(w, i);
  if (result != SN_F32)
    y = alu_of(w, ALU_cast, SN_F32, y, 0);
  y = alu_of(w, ALU_add, SN_F32, y, 0);
  access at = {VALUE_OUT, 0, 2, 0, w->of_out, NULL};
  (void)add(w, (instr){.op = REGION_STORE, .dtype = SN_F32, .a = y, .at = at});
}

/* --- what is expected --- */

static double in_dtype(const instr *i, double y) {
  bool wraps = i->dtype == SN_U8 && i->code != ALU_cast;
  return wraps ? (double)((int64_t)y & 255) : dtype_round((sn_dtype)i->dtype, y);
}

static double expected(const world *w, int64_t row, int64_t column) {
  double r[CODE] = {0};
  for (int i = 0; i < w->length; i++) {
    const instr *x = &w->code[i];
    uint32_t v = x->at.value;
    switch (x->op) {
    case REGION_ACC:
      for (int64_t k = 0; k < K; k++)
        r[i] += (double)(number_of(VALUE_A, row * K + k) * number_of(VALUE_B, k * w->n + column));
      break;
    case REGION_LOAD: r[i] = (double)number_of(v, x->at.n_terms ? column : 0); break;
    case REGION_NUMBER: r[i] = x->x; break;
    case REGION_STORE: return r[x->a];
    default: r[i] = in_dtype(x, element_alu(x, r[x->a], r[x->b], r[x->c]));
    }
  }
  return NAN;
}

static void compare(const world *w, const char *what) {
  const float *out = w->address[VALUE_OUT];
  for (int64_t i = 0; i < w->m * w->n && !test_failed(); i++) {
    double want = expected(w, i / w->n, i % w->n), got = (double)out[i];
    bool same = want == got || (isnan(want) && isnan(got)) ||
                fabs(want - got) <= 1e-2 * fmin(1, fabs(want)) + 1e-6 * fabs(want);
    if (!same)
      FAIL("%s, %lld x %lld%s, element %lld: expected %.9g, got %.9g", what, (long long)w->m,
           (long long)w->n, w->by_region ? " by the region machine" : "", (long long)i, want, got);
  }
}

/* --- running --- */

static void run_world(world *w, const cpu_isa *isa, const char *what) {
  sn_ctx *ctx = NULL;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  w->part.u.matmul = (matmul_part){.n_m = 1,
                                   .n_n = 1,
                                   .extent = {w->m, w->n},
                                   .n_accs = 1,
                                   .accs = &w->acc,
                                   .epilogue = {w->length, w->code}};
  step s = {.kind = STEP_MATMUL, .n_parts = 1, .parts = &w->part};
  cpu_case r = {.ctx = ctx, .program = &w->p, .addresses = w->address, .isa = isa};
  CHECK_EQ_INT(cpu_case_run(&r, &s), SN_OK);
  CHECK_EQ_STR(sn_ctx_message(ctx), "");
  compare(w, what);
  sn_ctx_destroy(ctx);
}

static void check_on(world *w, alu code, sn_dtype result, sn_dtype from) {
  int n = instr_arguments(&(instr){.op = REGION_ALU, .code = (uint8_t)code});
  char what[100];
  for (unsigned ones = 1; ones < 1u << n; ones++) {
    make_code(w, code, result, from, ones);
    for (int isa = 0; cpu_isa_at(isa) && !test_failed(); isa++) {
      snprintf(what, sizeof what, "%s: %s of %s, arguments %u, %s", alu_table[code].name,
               sn_dtype_name(result), sn_dtype_name(from), ones, cpu_isa_at(isa)->name);
      run_world(w, cpu_isa_at(isa), what);
    }
  }
}

static void check_dtypes(world *w, alu code) {
  static const sn_dtype dtypes[] = {SN_F32, SN_F16, SN_BF16, SN_I32, SN_U8, SN_BOOL};
  if (alu_is_random(code)) {
    bool of_floats = code == ALU_unit || code == ALU_gauss;
    check_on(w, code, of_floats ? SN_F32 : code == ALU_range_int ? SN_I32 : SN_BOOL, SN_I32);
    return;
  }
  for (size_t d = 0; d < COUNT_OF(dtypes); d++)
    for (size_t to = 0; to < COUNT_OF(dtypes) && alu_takes(code, dtypes[d]); to++)
      if (code == ALU_cast)
        check_on(w, code, dtypes[to], dtypes[d]);
      else if (to == d)
        check_on(w, code, alu_gives_bool(code) ? SN_BOOL : dtypes[d], dtypes[d]);
}

TEST_WALK(behind_a_product) {
  static const int64_t shapes[][2] = {{1, 1}, {1, 40}, {3, 5}, {2, 33}, {5, 64}, {2, 300}};
  for (int code = 1; code < ALU_COUNT; code++) {
    if (!test_begin("%s", alu_table[code].name))
      continue;
    for (size_t i = 0; i < 2 * COUNT_OF(shapes) && !test_failed(); i++) {
      world *w = make_world(shapes[i / 2][0], shapes[i / 2][1], i % 2);
      check_dtypes(w, (alu)code);
      free_world(w);
    }
    test_end();
  }
}
