/* Coordinate algebra: chains of transposes, flips, slices, expansions and reshapes, composed as places and compared with index arithmetic
 * at every point, with numbers and with symbols under several bindings; and what must stay plain terms. */
#include "ops/table.h"
#include "step/coord_sum.h"
#include "support/element_machine.h"
#include "support/test.h"

#include <stdio.h>

enum { FACTORS = 12, STEPS = 6, REGISTERS = 512, RANK = 6 };

/* A shape whose dims are products of factors: a reshape groups the factors anew. */
typedef struct view {
  int rank;
  int n[RANK];
  sn_dim factor[RANK][FACTORS];
} view;

typedef enum step_kind { TRANSPOSE, FLIP, SLICE, EXPAND, RESHAPE, STEP_KINDS } step_kind;
typedef struct move {
  step_kind kind;
  int axis, perm[RANK];
  int64_t start, step;
  sn_shape before, after;
} move;

typedef struct chain {
  sn_graph *g;
  uint32_t seed;
  view v;
  int n;
  move moves[STEPS];
} chain;

static int draw(chain *c, int below) {
  c->seed = c->seed * 1664525u + 1013904223u;
  return (int)((c->seed >> 8) % (uint32_t)below);
}

static sn_shape shape_of(sn_graph *g, const view *v) {
  sn_shape s = {.rank = v->rank};
  for (int d = 0; d < v->rank; d++) {
    s.dim[d] = 1;
    for (int k = 0; k < v->n[d]; k++)
      s.dim[d] = sn_dim_mul(g, s.dim[d], v->factor[d][k]);
  }
  return s;
}

/* --- drawing chains --- */

static int flatten(const view *v, sn_dim *out) {
  int n = 0;
  for (int d = 0; d < v->rank; d++)
    for (int k = 0; k < v->n[d]; k++)
      out[n++] = v->factor[d][k];
  return n;
}

/* Groups factors into dims anew; now and then they change places, which no plain terms can follow in general. */
static void draw_groups(chain *c, const sn_dim *factors, int n) {
  c->v = (view){.rank = 1 + draw(c, RANK - 1)};
  int d = 0;
  for (int k = 0; k < n; k++) {
    while (d < c->v.rank - 1 && draw(c, 2))
      d++;
    c->v.factor[d][c->v.n[d]++] = factors[k];
  }
}

static void draw_reshape(chain *c) {
  sn_dim f[RANK * FACTORS];
  int n = flatten(&c->v, f);
  if (n > 1 && draw(c, 4) == 0) {
    int a = draw(c, n), b = draw(c, n);
    sn_dim kept = f[a];
    f[a] = f[b];
    f[b] = kept;
  }
  draw_groups(c, f, n);
}

static void draw_transpose(chain *c, move *m) {
  view was = c->v;
  for (int d = 0; d < was.rank; d++)
    m->perm[d] = d;
  for (int d = was.rank - 1; d > 0; d--) {
    int e = draw(c, d + 1), kept = m->perm[d];
    m->perm[d] = m->perm[e];
    m->perm[e] = kept;
  }
  for (int d = 0; d < was.rank; d++) {
    c->v.n[d] = was.n[m->perm[d]];
    memcpy(c->v.factor[d], was.factor[m->perm[d]], sizeof was.factor[0]);
  }
}

static bool draw_slice(chain *c, move *m) {
  sn_dim size = m->before.dim[m->axis];
  if (!dim_is_number(size))
    return false;
  m->step = 1 + draw(c, 2);
  m->start = draw(c, (int)size);
  int64_t most = (size - m->start + m->step - 1) / m->step;
  c->v.n[m->axis] = 1;
  c->v.factor[m->axis][0] = 1 + draw(c, (int)most);
  return true;
}

static bool draw_expand(chain *c, move *m) {
  if (c->v.rank == RANK)
    return false;
  for (int d = c->v.rank++; d > m->axis; d--) {
    c->v.n[d] = c->v.n[d - 1];
    memcpy(c->v.factor[d], c->v.factor[d - 1], sizeof c->v.factor[d]);
  }
  c->v.n[m->axis] = 1;
  c->v.factor[m->axis][0] = 1 + draw(c, 3);
  return true;
}

static void draw_move(chain *c) {
  move *m = &c->moves[c->n];
  *m = (move){.before = shape_of(c->g, &c->v), .axis = draw(c, c->v.rank)};
  m->kind = draw(c, 2) ? RESHAPE : (step_kind)draw(c, STEP_KINDS);
  if (m->kind == RESHAPE)
    draw_reshape(c);
  else if (m->kind == TRANSPOSE)
    draw_transpose(c, m);
  else if ((m->kind == SLICE && !draw_slice(c, m)) || (m->kind == EXPAND && !draw_expand(c, m)))
    return;
  m->after = shape_of(c->g, &c->v);
  c->n++;
}

/* --- backwards, by numbers --- */

typedef struct binding {
  const sn_graph *g;
  const int64_t *symbols;
} binding;

static int64_t value_of(binding b, sn_dim d) {
  int64_t v = -1;
  CHECK(dim_eval(b.g, d, b.symbols, &v));
  return v;
}

static int64_t number_of(binding b, sn_shape s, const int64_t *index) {
  int64_t n = 0;
  for (int d = 0; d < s.rank; d++)
    n = n * value_of(b, s.dim[d]) + index[d];
  return n;
}

static void step_back(binding b, const move *m, int64_t *index) {
  int64_t was[RANK] = {0};
  memcpy(was, index, sizeof was);
  if (m->kind == TRANSPOSE) {
    for (int d = 0; d < m->after.rank; d++)
      index[m->perm[d]] = was[d];
  } else if (m->kind == FLIP) {
    index[m->axis] = value_of(b, m->before.dim[m->axis]) - 1 - was[m->axis];
  } else if (m->kind == SLICE) {
    index[m->axis] = m->start + m->step * was[m->axis];
  } else if (m->kind == EXPAND) {
    for (int d = m->axis; d < m->before.rank; d++)
      index[d] = was[d + 1];
  } else {
    int64_t n = number_of(b, m->after, was);
    for (int d = m->before.rank - 1; d >= 0; d--) {
      int64_t size = value_of(b, m->before.dim[d]);
      index[d] = n % size;
      n /= size;
    }
  }
}

/* --- backwards, by places --- */

/* Registers that reshapes made, and what they are at a point. */
typedef struct registers {
  elem_ctx c;
  int n;
  instr code[REGISTERS];
  term terms[REGISTERS][ACCESS_TERMS];
  double value[REGISTERS];
} registers;

static reg add(elem_ctx *c, const instr *i) {
  registers *r = (registers *)c;
  if (!CHECK(r->n < REGISTERS))
    return 0;
  r->code[r->n] = *i;
  if (i->at.n_terms)
    memcpy(r->terms[r->n], i->at.terms, (size_t)i->at.n_terms * sizeof(term));
  r->code[r->n].at.terms = r->terms[r->n];
  return (reg)r->n++;
}
static const elem_services services = {.add = add};

static int64_t sum_at(binding b, const registers *r, const int64_t *point, sn_dim offset,
                      const term *terms, int n) {
  int64_t sum = value_of(b, offset);
  for (int k = 0; k < n; k++) {
    int64_t mod = value_of(b, terms[k].mod), v;
    if (terms[k].axis == TERM_REG) {
      v = (int64_t)r->value[terms[k].from];
      CHECK(v >= 0 && v < mod);
    } else {
      v = point[terms[k].axis] / value_of(b, terms[k].div);
      v = mod ? v % mod : v;
    }
    sum += value_of(b, terms[k].stride) * v;
  }
  return sum;
}

static void execute(binding b, registers *r, const int64_t *point) {
  for (int k = 0; k < r->n; k++) {
    const instr *i = &r->code[k];
    r->value[k] =
        i->op == REGION_INDEX ? (double)sum_at(b, r, point, i->at.base, i->at.terms, i->at.n_terms)
        : i->op == REGION_NUMBER ? i->x
        : i->op == REGION_SIZE   ? (double)value_of(b, i->size)
                                 : element_alu(i, r->value[i->a], r->value[i->b], r->value[i->c]);
  }
}

static void place_back(sn_graph *g, registers *r, const sn_dim *extents, const move *m, place *at) {
  place was = *at;
  at->rank = m->before.rank;
  if (m->kind == TRANSPOSE) {
    for (int d = 0; d < m->after.rank; d++)
      at->c[m->perm[d]] = was.c[d];
  } else if (m->kind == FLIP) {
    coord flipped = coord_scale(g, &was.c[m->axis], -1);
    at->c[m->axis] = coord_shift(g, &flipped, sn_dim_sub(g, m->before.dim[m->axis], 1));
  } else if (m->kind == SLICE) {
    coord scaled = coord_scale(g, &was.c[m->axis], m->step);
    at->c[m->axis] = coord_shift(g, &scaled, m->start);
  } else if (m->kind == EXPAND) {
    for (int d = m->axis; d < m->before.rank; d++)
      at->c[d] = was.c[d + 1];
  } else {
    CHECK(place_reshape(&r->c, g, extents, m->after, &was, m->before, at));
  }
}

static place start_at(sn_shape s) {
  place at = {.rank = s.rank};
  for (int d = 0; d < s.rank; d++)
    at.c[d] = coord_axis(d);
  return at;
}

/* --- comparing --- */

static bool next_point(binding b, sn_shape s, int64_t *point) {
  for (int d = s.rank - 1; d >= 0; d--) {
    if (++point[d] < value_of(b, s.dim[d]))
      return true;
    point[d] = 0;
  }
  return false;
}

static bool compare_at(binding b, const chain *c, registers *r, const place *at,
                       const int64_t *point) {
  int64_t index[RANK] = {0};
  memcpy(index, point, sizeof index);
  for (int k = c->n - 1; k >= 0; k--)
    step_back(b, &c->moves[k], index);
  execute(b, r, point);
  for (int d = 0; d < at->rank; d++)
    if (sum_at(b, r, point, at->c[d].offset, at->c[d].terms, at->c[d].n) != index[d])
      return false;
  return true;
}

static void compare(const chain *c, registers *r, const place *at, const int64_t *symbols) {
  binding b = {c->g, symbols};
  sn_shape s = c->moves[c->n - 1].after;
  int64_t point[RANK] = {0};
  for (int d = 0; d < s.rank; d++)
    if (value_of(b, s.dim[d]) < 1)
      return;
  do {
    if (!compare_at(b, c, r, at, point)) {
      FAIL("seed %u: a place differs after %d moves", c->seed, c->n);
      return;
    }
  } while (next_point(b, s, point));
}

typedef struct tally {
  int chains, reshapes, with_registers;
} tally;

static void run_chain(sn_graph *g, uint32_t seed, const sn_dim *factors, int n, tally *t) {
  static const int64_t symbols[][2] = {{1, 2}, {3, 4}, {5, 1}};
  static registers r;
  chain c = {.g = g, .seed = seed * 2654435761u};
  draw_groups(&c, factors, n);
  for (int k = 0; k < STEPS; k++)
    draw_move(&c);
  if (c.n == 0)
    return;
  const sn_shape last = c.moves[c.n - 1].after;
  r.n = 0;
  r.c = (elem_ctx){.services = &services, .graph = g, .axis_extents = last.dim};
  place at = start_at(last);
  for (int k = c.n - 1; k >= 0; k--) {
    int before = r.n;
    place_back(g, &r, last.dim, &c.moves[k], &at);
    t->reshapes += c.moves[k].kind == RESHAPE;
    t->with_registers += r.n > before;
  }
  for (size_t k = 0; k < COUNT_OF(symbols); k++)
    compare(&c, &r, &at, symbols[k]);
  CHECK(g->status == SN_OK);
  t->chains++;
}

typedef struct bench {
  sn_ctx *ctx;
  sn_graph *g;
  sn_dim s, t;
} bench;

static bool begin(bench *b) {
  *b = (bench){0};
  if (!CHECK(sn_ctx_create(NULL, &b->ctx) == SN_OK) ||
      !CHECK(graph_create(b->ctx, op_table_get(), &b->g) == SN_OK))
    return false;
  b->s = sn_symbol(b->g, "S", 100);
  b->t = sn_symbol(b->g, "T", 1000);
  return true;
}

static void end(bench *b) {
  CHECK(b->g->status == SN_OK);
  sn_graph_destroy(b->g);
  sn_ctx_destroy(b->ctx);
}

static void print_tally(const char *what, const tally *t) {
  printf("%s: %d chains, %d reshapes, %d of them with registers\n", what, t->chains, t->reshapes,
         t->with_registers);
}

TEST(chains_of_numbers) {
  static const sn_dim factors[] = {2, 2, 2, 3, 5, 1};
  bench b;
  tally t = {0};
  if (begin(&b))
    for (uint32_t seed = 1; seed <= 1500 && !test_failed(); seed++)
      run_chain(b.g, seed, factors + seed % 3, 6 - (int)(seed % 3), &t);
  print_tally("numbers", &t);
  CHECK(t.with_registers > 0 && t.with_registers < t.reshapes / 2);
  end(&b);
}

TEST(chains_of_symbols) {
  bench b;
  tally t = {0};
  if (begin(&b)) {
    const sn_dim factors[] = {b.s, 2, b.t, 3, 2, sn_dim_add(b.g, b.s, 1)};
    for (uint32_t seed = 1; seed <= 600 && !test_failed(); seed++)
      run_chain(b.g, seed, factors, 5 + (int)(seed % 2), &t);
  }
  print_tally("symbols", &t);
  CHECK(t.with_registers > 0 && t.with_registers < t.reshapes / 2);
  end(&b);
}

/* --- what terms must say without registers, and in which form --- */

static bool reshapes(bench *b, sn_shape to, sn_shape from, place *out) {
  place at = start_at(to);
  return place_reshape(NULL, b->g, to.dim, to, &at, from, out);
}

static coord axis_part(int axis, sn_dim stride, sn_dim div, sn_dim mod) {
  coord c = coord_axis(axis);
  c.terms[0].stride = stride;
  c.terms[0].div = div;
  c.terms[0].mod = mod;
  return c;
}

static void check_coord(const coord *got, coord expected) { CHECK(coord_equal(got, &expected)); }

TEST(splits_and_merges) {
  bench b;
  place p;
  if (!begin(&b))
    return;
  sn_dim tokens = b.t, wide = sn_dim_mul(b.g, b.t, 64);
  /* [S, T, 64] of [S, 64 T]: 64 t + d */
  if (CHECK(reshapes(&b, SN_SHAPE(b.s, tokens, 64), SN_SHAPE(b.s, wide), &p))) {
    check_coord(&p.c[0], coord_axis(0));
    coord sum, a = axis_part(1, 64, 1, 0), d = coord_axis(2);
    CHECK(coord_add(b.g, &a, &d, &sum) && coord_equal(&p.c[1], &sum));
  }
  /* and back */
  if (CHECK(reshapes(&b, SN_SHAPE(b.s, wide), SN_SHAPE(b.s, tokens, 64), &p))) {
    check_coord(&p.c[1], axis_part(1, 1, 64, 0));
    check_coord(&p.c[2], axis_part(1, 1, 1, 64));
  }
  /* [S * T] of [S, T], with sizes of 1 around */
  if (CHECK(reshapes(&b, SN_SHAPE(1, sn_dim_mul(b.g, b.s, b.t)), SN_SHAPE(b.s, 1, b.t, 1), &p))) {
    check_coord(&p.c[0], axis_part(1, 1, b.t, 0));
    check_coord(&p.c[1], coord_number(0));
    check_coord(&p.c[2], axis_part(1, 1, 1, b.t));
    check_coord(&p.c[3], coord_number(0));
  }
  /* [4, 6] and [8, 3] share a factor */
  CHECK(reshapes(&b, SN_SHAPE(4, 6), SN_SHAPE(8, 3), &p));
  CHECK(!reshapes(&b, SN_SHAPE(4, 9), SN_SHAPE(6, 6), &p));
  /* no elements, no question */
  CHECK(reshapes(&b, SN_SHAPE(0, 9), SN_SHAPE(7, 0, 2), &p) && p.rank == 3);
  CHECK(reshapes(&b, SN_SHAPE(1), (sn_shape){.rank = 0}, &p) && p.rank == 0);
  end(&b);
}

/* A round trip gives back the coordinates themselves. */
TEST(round_trips_vanish) {
  bench b;
  place there, back;
  if (!begin(&b))
    return;
  sn_shape rows = SN_SHAPE(b.s, b.t, 12), parts = SN_SHAPE(sn_dim_mul(b.g, b.s, b.t), 3, 4);
  place at = start_at(rows);
  if (CHECK(place_reshape(NULL, b.g, rows.dim, rows, &at, parts, &there)) &&
      CHECK(place_reshape(NULL, b.g, rows.dim, parts, &there, rows, &back)))
    CHECK(place_equal(&at, &back));
  end(&b);
}

/* A coordinate under a check (a convolution's padding) has terms that go outside; where it is read it lies inside. So of
 * [C, W] seen as [G, C / G * W], for channel c and column w - 1: [c / 4, 32 (c % 4) + w - 1]. */
TEST(checked_coordinates_divide) {
  bench b;
  place p, at = {.rank = 2, .n_checks = 1};
  coord sum, inner = axis_part(0, 32, 1, 4);
  sn_dim extents[] = {64, 34};
  if (!begin(&b))
    return;
  at.c[0] = coord_axis(0);
  coord column = coord_axis(1);
  at.c[1] = at.checks[0].of = coord_shift(b.g, &column, -1);
  at.checks[0].size = 32;
  at.checks[0].divisor = 1;
  if (CHECK(place_reshape(NULL, b.g, extents, SN_SHAPE(64, 32), &at, SN_SHAPE(16, 128), &p))) {
    check_coord(&p.c[0], axis_part(0, 1, 4, 0));
    CHECK(coord_add(b.g, &inner, &at.c[1], &sum) && coord_equal(&p.c[1], &sum));
    CHECK_EQ_INT(p.n_checks, 1);
  }
  /* 48 columns straddle the rows of 32: no terms can say that */
  CHECK(!place_reshape(NULL, b.g, extents, SN_SHAPE(63, 32), &at, SN_SHAPE(42, 48), &p));
  end(&b);
}

TEST(flips_divide) {
  bench b;
  coord q, r;
  if (!begin(&b))
    return;
  sn_dim n = sn_dim_mul(b.g, b.t, 4), extents[] = {n, 7};
  coord a = axis_part(0, -1, 1, 0);
  a.offset = sn_dim_sub(b.g, n, 1); /* 4 T - 1 - i */
  if (CHECK(coord_divide(b.g, extents, &a, 4, n, &q, &r))) {
    coord expected = axis_part(0, -1, 4, 0);
    expected.offset = sn_dim_sub(b.g, b.t, 1);
    CHECK(coord_equal(&q, &expected));
    expected = axis_part(0, -1, 1, 4);
    expected.offset = 3;
    CHECK(coord_equal(&r, &expected));
  }
  if (CHECK(coord_divide(b.g, extents, &a, b.t, n, &q, &r)))
    check_coord(&q, (coord){.n = 1, .terms = {{.stride = -1, .div = b.t}}, .offset = 3});
  /* 3 + i over 7 crosses a multiple of 4 */
  coord shifted = coord_axis(1);
  shifted.offset = 3;
  CHECK(!coord_divide(b.g, extents, &shifted, 4, 10, &q, &r));
  end(&b);
}

TEST(sums_recombine) {
  bench b;
  coord sum;
  if (!begin(&b))
    return;
  coord high = axis_part(2, 12, 4, 5), low = axis_part(2, 3, 1, 4);
  CHECK(coord_add(b.g, &high, &low, &sum) && sum.n == 1);
  check_coord(&sum, axis_part(2, 3, 1, 20));
  coord minus = coord_scale(b.g, &sum, -1);
  CHECK(coord_add(b.g, &sum, &minus, &sum) && sum.n == 0);
  coord many = coord_number(0);
  for (int k = 0; k < COORD_TERMS; k++) {
    coord one = coord_axis(k);
    CHECK(coord_add(b.g, &many, &one, &many));
  }
  coord one = coord_axis(COORD_TERMS), kept = many;
  CHECK(!coord_add(b.g, &many, &one, &many) && coord_equal(&many, &kept));
  end(&b);
}

/* Axes 4 d … 4 d + 3 are the bits of coordinate d. */
static place bits_place(sn_graph *g, int rank) {
  place at = {.rank = rank};
  for (int k = 0; k < 4 * rank; k++) {
    coord bit = axis_part(k, 8 >> k % 4, 1, 0);
    CHECK(coord_add(g, &at.c[k / 4], &bit, &at.c[k / 4]));
  }
  return at;
}

/* Numbers of more terms than a coordinate or an access holds. */
TEST(long_sums_take_a_register) {
  static registers r;
  sn_dim extents[20];
  int64_t point[20], expected = 0;
  bench b;
  if (!begin(&b))
    return;
  for (int k = 0; k < 20; k++) {
    extents[k] = 2;
    point[k] = k % 3 == 0 || k % 5 == 0;
    expected = expected * 2 + point[k];
  }
  sn_shape shape = SN_SHAPE(16, 16, 16, 16, 16), flat = SN_SHAPE(1 << 20);
  place at = bits_place(b.g, 5), whole;
  r.n = 0;
  r.c = (elem_ctx){.services = &services, .graph = b.g, .axis_extents = extents};
  coord linear = elem_linear(&r.c, &at, shape);
  CHECK(!place_linear(b.g, &at, shape, &linear) && linear.terms[0].axis == TERM_REG);
  CHECK(!place_reshape(NULL, b.g, extents, shape, &at, flat, &whole));
  CHECK(place_reshape(&r.c, b.g, extents, shape, &at, flat, &whole));
  binding numbers = {b.g, NULL};
  execute(numbers, &r, point);
  CHECK_EQ_INT(sum_at(numbers, &r, point, linear.offset, linear.terms, linear.n), expected);
  CHECK_EQ_INT(sum_at(numbers, &r, point, 0, whole.c[0].terms, whole.c[0].n), expected);
  end(&b);
}

/* A product of more symbols than an expression holds: registers count, and the graph stays well. */
TEST(sizes_beyond_expressions) {
  static registers r;
  bench b;
  if (!begin(&b))
    return;
  const int64_t symbols[] = {3, 2}, point[] = {2, 1, 0, 1, 2, 1};
  sn_shape shape = SN_SHAPE(b.s, b.t, b.s, b.t, b.s, b.t);
  place at = start_at(shape);
  r.n = 0;
  r.c = (elem_ctx){.services = &services, .graph = b.g, .axis_extents = shape.dim};
  coord linear = elem_linear(&r.c, &at, shape);
  binding bound = {b.g, symbols};
  execute(bound, &r, point);
  CHECK_EQ_INT(sum_at(bound, &r, point, linear.offset, linear.terms, linear.n),
               number_of(bound, shape, point));
  end(&b);
}

TEST(tables) {
  for (int k = 1; k < ALU_COUNT; k++) {
    instr i = {.op = REGION_ALU, .code = (uint8_t)k};
    CHECK(alu_table[k].name && alu_table[k].meaning);
    CHECK(instr_arguments(&i) >= 1 && instr_arguments(&i) <= 3);
  }
  CHECK_EQ_STR(alu_table[ALU_select].name, "select");
  CHECK_EQ_INT(instr_arguments(&(instr){.op = REGION_WORD}), 3);
  CHECK_EQ_INT(instr_arguments(&(instr){.op = REGION_LOAD}), 0);
  CHECK_EQ_INT(instr_arguments(&(instr){.op = REGION_REQUIRE}), 2);
}

/* A place in [.., wide] whose last coordinate is `stride` times axis 0 and `dilation` times axis 1, of `n` and `k` points. */
static bool windows_cover(sn_graph *g, sn_dim wide, sn_dim n, sn_dim k, sn_dim stride,
                          sn_dim dilation, sn_dim offset) {
  const sn_dim extents[] = {n, k, 1};
  place at = {.rank = 2};
  at.c[1] = (coord){.n = 2,
                    .offset = offset,
                    .terms = {{.axis = 0, .stride = stride, .div = 1},
                              {.axis = 1, .stride = dilation, .div = 1}}};
  return place_covers(g, extents, 3, SN_SHAPE(1, wide), &at);
}

TEST(what_windows_cover) {
  sn_ctx *ctx;
  sn_graph *g;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(sn_graph_create(ctx, &g) == SN_OK)) {
    sn_dim m = sn_symbol(g, "m", 7);
    CHECK(windows_cover(g, 6, 2, 3, 3, 1, 0));
    CHECK(windows_cover(g, 4, 2, 2, 1, 2, 0)); /* beside each other, dilated */
    CHECK(windows_cover(g, sn_dim_mul(g, m, 3), m, 3, 3, 1, 0));
    CHECK(windows_cover(g, m, m, 1, 1, 1, 0));
    CHECK(!windows_cover(g, 7, 2, 3, 3, 1, 0)); /* the last is left out */
    CHECK(!windows_cover(g, 4, 1, 3, 3, 1, 0));
    CHECK(!windows_cover(g, 6, 2, 3, 2, 1, 0)); /* overlap, though as many points as elements */
    CHECK(!windows_cover(g, m, m, 3, 1, 1, 0));
    CHECK(!windows_cover(g, 6, 2, 3, 3, 1, -1));
    /* an axis that the place does not name; a check; a quotient; a register */
    const sn_dim extents[] = {4, 5};
    place at = {.rank = 1};
    at.c[0] = coord_axis(0);
    CHECK(place_covers(g, extents, 1, SN_SHAPE(4), &at));
    CHECK(!place_covers(g, extents, 2, SN_SHAPE(4), &at));
    at.n_checks = 1;
    CHECK(!place_covers(g, extents, 1, SN_SHAPE(4), &at));
    at.n_checks = 0;
    at.c[0].terms[0].div = 2;
    CHECK(!place_covers(g, extents, 1, SN_SHAPE(2), &at));
    at.c[0] = elem_at(0, 4);
    CHECK(!place_covers(g, extents, 0, SN_SHAPE(4), &at));
    sn_graph_destroy(g);
  }
  sn_ctx_destroy(ctx);
}
