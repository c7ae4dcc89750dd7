/* Rows with reductions as SPIR-V: a workgroup a row; against the same in C and against the reference. See
 * test_regions.c. */
#include "spike/code.h"
#include "spike/trial.h"
#include "support/test.h"

#include <math.h>
#include <sinew/sinew.h>
#include <string.h>

#define AXIS(a, stride) ((term){(a), 0, (stride), 1, 0})
#define TERMS(...) \
  (int)(sizeof((term[]){__VA_ARGS__}) / sizeof(term)), (const term[]) { __VA_ARGS__ }

enum { ROWS, COLUMNS }; /* sizes by handle */

/* Instructions from `from` on are of this phase, once a row or once a point. */
static void in_phase(code *c, int from, int phase, bool row) {
  for (int k = from; k < c->n; k++) {
    c->at[k].phase = (uint8_t)phase;
    c->at[k].row = row;
  }
}

static reg reduce(code *c, reduce_kind kind, sn_dtype dtype, reg a) {
  instr i = {.op = REGION_REDUCE, .code = (uint8_t)kind, .dtype = (uint8_t)dtype, .a = a};
  return code_add(c, &i);
}

/* softmax along rows in three phases: largest, sum, quotient. The row is loaded anew in each. */
static void softmax(code *c, uint32_t x, uint32_t y, uint32_t sums) {
  sn_dim n = trial_size(COLUMNS);
  reg v = code_load(c, SN_F32, x, TERMS(AXIS(0, n), AXIS(1, 1)));
  reg most = reduce(c, REDUCE_MAX, SN_F32, v);
  in_phase(c, 0, 0, false);
  int from = c->n;
  v = code_load(c, SN_F32, x, TERMS(AXIS(0, n), AXIS(1, 1)));
  v = code_alu1(c, ALU_exp, SN_F32, code_alu2(c, ALU_sub, SN_F32, v, most));
  reg sum = reduce(c, REDUCE_SUM, SN_F32, v);
  in_phase(c, from, 1, false);
  from = c->n;
  reg scale = code_alu1(c, ALU_recip, SN_F32, sum);
  code_store(c, sum, sums, TERMS(AXIS(0, 1)));
  in_phase(c, from, 2, true);
  from = c->n;
  v = code_load(c, SN_F32, x, TERMS(AXIS(0, n), AXIS(1, 1)));
  v = code_alu1(c, ALU_exp, SN_F32, code_alu2(c, ALU_sub, SN_F32, v, most));
  code_store(c, code_alu2(c, ALU_mul, SN_F32, v, scale), y, TERMS(AXIS(0, n), AXIS(1, 1)));
  in_phase(c, from, 2, false);
}

static void check_reference(const trial *t, int64_t rows, int64_t columns, uint32_t x, uint32_t y) {
  static float expected[4096];
  size_t size = (size_t)(rows * columns) * sizeof(float);
  sn_ctx *ctx;
  sn_graph *g = NULL;
  sn_store *store = NULL;
  sn_session *s = NULL;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK && sn_graph_create(ctx, &g) == SN_OK);
  sn_output(g, "y", sn_softmax(g, sn_input(g, "x", SN_F32, SN_SHAPE(rows, columns)), -1));
  if (CHECK(sn_store_create(ctx, &store) == SN_OK) &&
      CHECK(sn_session_create(g, store, &(sn_session_options){.device = "ref"}, &s) == SN_OK) &&
      CHECK(sn_session_write(s, "x", t->data[x], size) == SN_OK) &&
      CHECK(sn_session_run(s) == SN_OK) && CHECK(sn_session_read(s, "y", expected, size) == SN_OK))
    for (int64_t i = 0; i < rows * columns; i++)
      if (!CHECK_NEAR(trial_floats(t, y)[i], expected[i], 1e-6))
        break;
  sn_session_destroy(s);
  sn_store_destroy(store);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}

static void check_softmax(int64_t rows, int64_t columns) {
  trial t = {.tolerance = 1e-5, .sizes = {rows, columns}};
  code c = {0};
  uint32_t x = trial_drawn(&t, SN_F32, rows * columns, 0);
  uint32_t y = trial_value(&t, SN_F32, rows * columns), sums = trial_value(&t, SN_F32, rows);
  softmax(&c, x, y, sums);
  loop_part p = {2, 1, 3, {trial_size(ROWS), trial_size(COLUMNS)}, code_region(&c)};
  trial_loop(&t, &p);
  if (rows * columns > 0)
    check_reference(&t, rows, columns, x, y);
  trial_end(&t);
}

TEST(softmax_at_every_size) {
  if (!trial_possible())
    return;
  check_softmax(1, 1);
  check_softmax(3, 63);
  check_softmax(10, 64);
  check_softmax(17, 201);
  check_softmax(0, 5);
  check_softmax(5, 0); /* sums over nothing are stored all the same */
}

/* Every kind, of every lane; rows of two axes, the outer one read backwards. */
TEST(kinds) {
  enum { OUTER = 9, A = 5, B = 7 };
  static const sn_dtype lanes[] = {SN_F32, SN_I32, SN_BOOL};
  if (!trial_possible())
    return;
  for (int l = 0; l < 3; l++) {
    trial t = {.tolerance = 1e-5};
    code c = {0};
    reg r[6];
    uint32_t x = trial_drawn(&t, lanes[l], OUTER * A * B, l == 1 ? 50 : 2), out[6];
    if (l == 0)
      trial_floats(&t, x)[40] = NAN;
    if (l == 2)
      memset(t.data[x], 1, A * B); /* one row of all ones, one of zeros */
    if (l == 2)
      memset((char *)t.data[x] + A * B, 0, A * B);
    reg v = code_load(&c, lanes[l], x, TERMS(AXIS(0, A * B), AXIS(1, B), AXIS(2, 1)));
    int first = l == 2 ? REDUCE_ANY : REDUCE_SUM, last = l == 2 ? REDUCE_ALL : REDUCE_MIN;
    for (int k = first; k <= last; k++)
      r[k] = reduce(&c, (reduce_kind)k, lanes[l], v);
    in_phase(&c, 0, 0, false);
    int from = c.n;
    for (int k = first; k <= last; k++) {
      out[k] = trial_value(&t, lanes[l], OUTER);
      code_store(&c, r[k], out[k], TERMS(AXIS(0, -1)));
      code_base(&c, OUTER - 1);
    }
    in_phase(&c, from, 1, true);
    trial_loop(&t, &(loop_part){3, 1, 1, {OUTER, A, B}, code_region(&c)});
    trial_end(&t);
  }
}

/* No outer axes: the whole is one row. */
TEST(one_row) {
  trial t = {.tolerance = 1e-5};
  code c = {0};
  if (!trial_possible())
    return;
  uint32_t x = trial_drawn(&t, SN_BF16, 1000, 0), y = trial_value(&t, SN_F32, 1);
  reg v = code_load(&c, SN_BF16, x, TERMS(AXIS(0, 1)));
  reg sum = reduce(&c, REDUCE_SUM, SN_F32, code_alu2(&c, ALU_mul, SN_F32, v, v));
  in_phase(&c, 0, 0, false);
  int from = c.n;
  code_store(&c, code_alu1(&c, ALU_sqrt, SN_F32, sum), y, 0, NULL);
  in_phase(&c, from, 1, true);
  trial_loop(&t, &(loop_part){1, 0, 1, {1000}, code_region(&c)});
  trial_end(&t);
}
