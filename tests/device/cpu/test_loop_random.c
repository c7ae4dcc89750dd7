/* Random loop parts against the naive interpreter: axes of all extents, accesses of all forms, phases, in place. */
#include "base/philox.h"
#include "support/region_case.h"
#include "support/test.h"

typedef struct maker {
  region_case *c;
  uint64_t seed, drawn;
  int n_axes, n_outer;
  sn_dim extent[REGION_AXES];
  reg floats[REGION_MAX], ints[REGION_MAX]; /* that the phase at hand may read */
  int n_floats, n_ints;
} maker;

static int draw(maker *m, int below) {
  uint32_t x[4] = {(uint32_t)m->drawn++, 0, 0, 0};
  philox((const uint32_t[2]){(uint32_t)m->seed, 77}, x);
  return (int)(x[0] % (uint32_t)below);
}

static void keep(maker *m, reg a) {
  if (instr_is_float(&m->c->code[a]))
    m->floats[m->n_floats++] = a;
  else
    m->ints[m->n_ints++] = a;
}
static reg any(maker *m, bool of_float) {
  return of_float ? m->floats[draw(m, m->n_floats)] : m->ints[draw(m, m->n_ints)];
}

enum { ROOM = 1500 };

/* Terms over the first n axes whose sum stays within 0 … ROOM-1. */
static int random_terms(maker *m, int n, term *terms) {
  int n_terms = 0;
  for (int axis = 0; axis < n; axis++) {
    term t = {.axis = (uint8_t)axis, .div = 1, .stride = draw(m, 4)};
    if (draw(m, 5) == 0)
      t.div = 1 + draw(m, 4), t.mod = draw(m, 5);
    if (t.stride && draw(m, 6))
      terms[n_terms++] = t;
  }
  if (m->n_ints && draw(m, 5) == 0)
    terms[n_terms++] = (term){.axis = TERM_REG,
                              .from = any(m, false),
                              .stride = 1 + draw(m, 3),
                              .div = 1,
                              .mod = 1 + draw(m, 30)};
  return n_terms;
}

/* Row-major over the first n axes, so that merging has something to do. */
static int dense_terms(maker *m, int n, term *terms) {
  sn_dim stride = 1;
  for (int axis = n - 1; axis >= 0; axis--) {
    terms[axis] = (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
    stride *= m->extent[axis];
  }
  return n;
}

static access random_access(maker *m, uint32_t value, int n) {
  term terms[ACCESS_TERMS];
  int n_terms = draw(m, 2) ? dense_terms(m, n, terms) : random_terms(m, n, terms);
  access a = region_access(m->c, value, draw(m, 3), n_terms, terms);
  for (int k = draw(m, 4) ? 0 : 1 + draw(m, 2); k > 0; k--) {
    n_terms = random_terms(m, n, terms);
    region_add_check(m->c, &a,
                     (check){n_terms, terms, draw(m, 9) - 4, 1 + draw(m, 12), draw(m, 4) ? 1 : 2});
  }
  return a;
}

/* One instruction at the point or the row, over n axes. */
static void random_instr(maker *m, const uint32_t *values, int n) {
  static const alu float_codes[] = {ALU_add, ALU_sub, ALU_max, ALU_min, ALU_neg};
  static const alu int_codes[] = {ALU_add, ALU_sub, ALU_mul, ALU_max, ALU_rem};
  instr i = {.dtype = SN_I32};
  switch (draw(m, 7)) {
  case 0:
  case 1: {
    uint32_t value = values[draw(m, 3)];
    i.op = REGION_LOAD, i.dtype = (uint8_t)m->c->values[value].type.dtype;
    i.at = random_access(m, value, n);
    break;
  }
  case 2: i.op = REGION_INDEX, i.at = random_access(m, 0, n); break;
  case 3: i.op = REGION_INSIDE, i.dtype = SN_BOOL, i.at = random_access(m, 0, n); break;
  case 4:
    i.op = REGION_ALU, i.code = (uint8_t)int_codes[draw(m, 5)];
    i.a = any(m, false), i.b = any(m, false);
    break;
  case 5:
    i.op = REGION_ALU, i.dtype = SN_F32, i.code = ALU_select;
    i.a = any(m, false), i.b = any(m, true), i.c = any(m, true);
    break;
  default:
    i.op = REGION_ALU, i.dtype = SN_F32, i.code = (uint8_t)float_codes[draw(m, 5)];
    i.a = any(m, true), i.b = any(m, true);
    break;
  }
  keep(m, region_emit(m->c, i));
}

static void store(maker *m, int n) {
  term terms[ACCESS_TERMS];
  int64_t count = 1;
  for (int i = 0; i < n; i++)
    count *= m->extent[i];
  reg a = any(m, draw(m, 2));
  uint32_t value = region_value(m->c, (sn_dtype)m->c->code[a].dtype, count, NULL);
  access at = region_access(m->c, value, 0, dense_terms(m, n, terms), terms);
  keep(m, region_emit(m->c,
                      (instr){.op = REGION_STORE, .dtype = m->c->code[a].dtype, .a = a, .at = at}));
}

static void random_phase(maker *m, const uint32_t *values, int phase) {
  region_case *c = m->c;
  c->phase = phase, c->row = true;
  for (int k = phase ? draw(m, 4) : 0; k > 0 && m->n_outer; k--)
    random_instr(m, values, m->n_outer);
  if (m->n_outer && phase && draw(m, 2))
    store(m, m->n_outer);
  if (phase == c->part.n_phases)
    return;
  int floats = m->n_floats, ints = m->n_ints;
  c->row = false;
  for (int k = 3 + draw(m, 8); k > 0; k--)
    random_instr(m, values, m->n_axes);
  if (draw(m, 3))
    store(m, m->n_axes);
  reg sum = 0, most = 0;
  if (m->n_outer) {
    sum = region_reduce(c, REDUCE_SUM, SN_F32, any(m, true));
    most = region_reduce(c, REDUCE_MAX, SN_I32, any(m, false));
  }
  m->n_floats = floats, m->n_ints = ints; /* what rows hold lives on */
  if (m->n_outer)
    keep(m, sum), keep(m, most);
}

static void check_seed(uint64_t seed) {
  maker m = {.c = region_case_create(), .seed = seed};
  region_case *c = m.c;
  static const int extents[] = {1, 2, 3, 5, 7, 1, 33, 70, 300, 0};
  int64_t points = 1;
  m.n_axes = draw(&m, 5);
  for (int i = 0; i < m.n_axes; i++) {
    sn_dim n = extents[draw(&m, points > 60 ? 5 : draw(&m, 8) ? 9 : 10)];
    m.extent[i] = n;
    points *= n;
  }
  m.n_outer = c->part.n_outer = draw(&m, 3) ? draw(&m, m.n_axes + 1) : 0;
  c->part.n_phases = m.n_outer ? 1 + draw(&m, 3) : 1;
  double small[ROOM];
  for (int i = 0; i < ROOM; i++)
    small[i] = draw(&m, 40) * 0.25 - 5;
  /* Larger than any access reaches: sums of strides up to 3 over the largest extents, or dense. */
  int64_t room = points + 4 * ROOM;
  double *all = mem_array(c->ctx, (size_t)room, sizeof *all);
  for (int64_t i = 0; i < room; i++)
    all[i] = small[i % ROOM];
  uint32_t values[3] = {region_value(c, SN_F32, room, all), region_value(c, SN_I32, room, all),
                        region_value(c, SN_F32, room, all)};
  mem_free(c->ctx, all, (size_t)room * sizeof *all);
  c->row = m.n_outer > 0;
  keep(&m, region_number(c, SN_F32, 1.5));
  keep(&m, region_number(c, SN_I32, 3));
  for (int phase = 0; phase <= c->part.n_phases; phase++)
    random_phase(&m, values, phase);
  CHECK(region_case_run(c, m.n_axes, m.extent) == SN_OK);
  if (!region_case_check(c, 1e-4))
    FAIL("seed %llu", (unsigned long long)seed);
  region_case_destroy(c);
}

TEST(random_parts) {
  for (uint64_t seed = 0; seed < 1500 && !test_failed(); seed++)
    check_seed(seed);
}
