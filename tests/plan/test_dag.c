/* Regions under construction (plan/dag.h): equal instructions are one, what is taken back is gone, and code that is laid out
 * stores what the graph of instructions says. Random graphs are run by two interpreters: one on nodes, which knows no phases,
 * one on code, which knows nothing but the order of step.h and forgets points' registers between phases. */
#include "plan/dag.h"
#include "support/test.h"

#include <math.h>

enum { OUTER = 3, INNER = 4, ELEMENTS = 64, MOST = 96 };

typedef struct scene {
  sn_ctx *ctx;
  arena memory;
  uint64_t seed;
} scene;

static bool start(scene *s, uint64_t seed) {
  *s = (scene){.seed = seed};
  if (!CHECK(sn_ctx_create(NULL, &s->ctx) == SN_OK))
    return false;
  arena_init(&s->memory, s->ctx);
  return true;
}

static void end(scene *s) {
  arena_clear(&s->memory);
  sn_ctx_destroy(s->ctx);
}

static int draw(scene *s, int below) {
  s->seed = s->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((s->seed >> 33) % (uint64_t)below);
}

/* --- one of each --- */

static instr number(double x) { return (instr){.op = REGION_NUMBER, .dtype = SN_F32, .x = x}; }

TEST(equal_instructions_are_one) {
  scene s;
  dag d;
  REQUIRE(start(&s, 1));
  dag_init(&d, &s.memory, 0);
  term t = {.axis = 1, .stride = 4, .div = 1}, same = t;
  check c = {.n_terms = 1, .terms = &t, .size = 3, .divisor = 1}, also = c;
  also.terms = &same;
  instr load = {.op = REGION_LOAD, .dtype = SN_F32, .at = {.value = 7, .n_terms = 1, .terms = &t}};
  load.at.n_checks = 1;
  load.at.checks = &c;
  instr again = load;
  again.at.terms = &same;
  again.at.checks = &also;
  reg a = dag_add(&d, &load);
  CHECK_EQ_INT(dag_add(&d, &again), a);
  t.stride = 99; /* what was added is a copy */
  CHECK_EQ_INT(d.nodes[a].i.at.terms[0].stride, 4);
  CHECK_EQ_INT(d.nodes[a].i.at.checks[0].terms[0].stride, 4);
  instr zero = number(0), minus = number(-0.0), none = number(NAN), other = number(0);
  other.dtype = SN_I32;
  reg z = dag_add(&d, &zero);
  CHECK(dag_add(&d, &minus) != z);
  CHECK(dag_add(&d, &other) != z);
  CHECK_EQ_INT(dag_add(&d, &none), dag_add(&d, &none));
  CHECK_EQ_INT(d.n, 5);
  end(&s);
}

/* Changes one field; false when there is no such. */
static bool change(instr *i, term *t, check *c, int field) {
  switch (field) {
  case 0: i->op = REGION_INSIDE; return true;
  case 1: i->code++; return true;
  case 2: i->dtype++; return true;
  case 3: i->a++; return true;
  case 4: i->b++; return true;
  case 5: i->c++; return true;
  case 6: i->index++; return true;
  case 7: i->size++; return true;
  case 8: i->x++; return true;
  case 9: i->y++; return true;
  case 10: i->at.value++; return true;
  case 11: i->at.base++; return true;
  case 12: i->at.n_terms--; return true;
  case 13: i->at.n_checks--; return true;
  case 14: t->axis++; return true;
  case 15: t->from++; return true;
  case 16: t->stride++; return true;
  case 17: t->div++; return true;
  case 18: t->mod++; return true;
  case 19: c->offset++; return true;
  case 20: c->size++; return true;
  case 21: c->divisor++; return true;
  case 22: c->n_terms--; return true;
  default: return false;
  }
}

TEST(every_field_tells_apart) {
  for (int field = 0;; field++) {
    scene s;
    dag d;
    REQUIRE(start(&s, 1));
    dag_init(&d, &s.memory, 0);
    for (int k = 0; k < 3; k++) {
      instr filler = number(k);
      (void)dag_add(&d, &filler);
    }
    term t = {.axis = 1, .stride = 4, .div = 1}, u = {.axis = 2, .stride = 1, .div = 1};
    check c = {.n_terms = 1, .terms = &u, .size = 3, .divisor = 1};
    instr i = {.op = REGION_INDEX,
               .dtype = SN_I32,
               .at = {.n_terms = 1, .terms = &t, .n_checks = 1, .checks = &c}};
    reg first = dag_add(&d, &i);
    bool more = change(&i, &t, &c, field),
         once = field == 0 || field == 12 || field == 13 || field == 22;
    /* Often, so that some fall into one bucket. */
    for (int k = 0, n = d.n; more && k < (once ? 1 : 90) && !test_failed(); k++, n++) {
      if (dag_add(&d, &i) == first || d.n != n + 1)
        FAIL("field %d", field);
      if (!once)
        (void)change(&i, &t, &c, field);
    }
    end(&s);
    if (!more)
      break;
  }
}

TEST(a_full_region_says_so_and_recovers) {
  scene s;
  dag d;
  REQUIRE(start(&s, 1));
  dag_init(&d, &s.memory, 0);
  for (int k = 0; k < d.limit + 1; k++) {
    instr i = number(k);
    CHECK_EQ_INT(d.full, false);
    reg r = dag_add(&d, &i);
    CHECK_EQ_INT(r, k < d.limit ? k : 0);
  }
  CHECK(d.full && !d.no_memory);
  CHECK(d.n == d.limit && d.limit <= REGION_MAX);
  dag_truncate(&d, d.limit - 2);
  CHECK(!d.full);
  instr i = number(-5), known = number(7);
  CHECK_EQ_INT(dag_add(&d, &known), 7);
  CHECK_EQ_INT(dag_add(&d, &i), d.limit - 2);
  end(&s);
}

/* --- taking back --- */

/* Few different ones, so that many are found. */
static instr some_instr(scene *s, int n) {
  instr i = number(draw(s, 24));
  if (n && draw(s, 3) == 0)
    i = (instr){.op = REGION_ALU,
                .code = ALU_add,
                .dtype = SN_F32,
                .a = (reg)draw(s, n),
                .b = (reg)draw(s, n)};
  return i;
}

static bool same(const instr *a, const instr *b) {
  return a->op == b->op && a->a == b->a && a->b == b->b && a->x == b->x;
}

/* Against a list that is searched from the front. */
TEST(what_is_taken_back_is_gone) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    scene s;
    dag d;
    static instr list[REGION_MAX];
    int n = 0;
    REQUIRE(start(&s, seed));
    dag_init(&d, &s.memory, 0);
    for (int k = 0; k < 600; k++) {
      if (draw(&s, 12) == 0) {
        n = draw(&s, n + 1);
        dag_truncate(&d, n);
        CHECK_EQ_INT(d.n, n);
        continue;
      }
      instr i = some_instr(&s, n);
      int at = 0;
      while (at < n && !same(&list[at], &i))
        at++;
      CHECK_EQ_INT(dag_add(&d, &i), at);
      if (at == n)
        list[n++] = i;
      CHECK_EQ_INT(d.n, n);
    }
    end(&s);
  }
}

/* --- interpreters --- */

typedef struct memory_of {
  double in[2][ELEMENTS], out[4][ELEMENTS];
} memory_of;

static const int64_t *coords(int row, int point) {
  static int64_t c[2];
  c[0] = row;
  c[1] = point;
  return c;
}

static int64_t element(const access *a, const int64_t *at, const double *registers) {
  int64_t e = a->base;
  for (int k = 0; k < a->n_terms; k++) {
    const term *t = &a->terms[k];
    int64_t i = t->axis == TERM_REG ? (int64_t)registers[t->from] : at[t->axis] / t->div;
    if (t->axis == TERM_REG)
      i = i < 0 ? 0 : i >= t->mod ? t->mod - 1 : i;
    else if (t->mod)
      i %= t->mod;
    e += t->stride * i;
  }
  return e;
}

static double compute(const instr *i, const double *r, const int64_t *at, memory_of *m) {
  switch ((region_op)i->op) {
  case REGION_LOAD: return m->in[i->at.value - 1][element(&i->at, at, r)];
  case REGION_STORE: return m->out[i->at.value - 3][element(&i->at, at, r)] = r[i->a];
  case REGION_INDEX: return (double)element(&i->at, at, r);
  case REGION_NUMBER: return i->x;
  case REGION_ALU: return i->code == ALU_add ? r[i->a] + r[i->b] : fmax(r[i->a], r[i->b]) - 1;
  default: return NAN;
  }
}

static double combine(const instr *i, double sum, double x) {
  return i->code == REDUCE_SUM ? sum + x : fmax(sum, x);
}

static double neutral(const instr *i) { return i->code == REDUCE_SUM ? 0 : -INFINITY; }

/* Node by node over a whole row. */
static void run_nodes(const dag *d, memory_of *m) {
  static double r[INNER][REGION_MAX];
  for (int row = 0; row < OUTER; row++)
    for (int k = 0; k < d->n; k++) {
      const instr *i = &d->nodes[k].i;
      double sum = neutral(i);
      for (int p = 0; p < INNER; p++)
        if (i->op == REGION_REDUCE)
          sum = combine(i, sum, r[p][i->a]);
        else
          r[p][k] = compute(i, r[p], coords(row, p), m);
      for (int p = 0; p < INNER && i->op == REGION_REDUCE; p++)
        r[p][k] = sum;
    }
}

/* The order of step.h. Registers of points are NaN outside of their phase. */
static void run_code(const region *code, int phases, memory_of *m) {
  static double r[REGION_MAX], sums[REGION_MAX];
  for (int row = 0; row < OUTER; row++) {
    for (int k = 0; k < code->n; k++)
      r[k] = NAN;
    for (int phase = 0; phase <= phases; phase++) {
      for (int k = 0; k < code->n; k++)
        if (code->code[k].phase == phase && code->code[k].row)
          r[k] = compute(&code->code[k], r, coords(row, 0), m);
        else if (code->code[k].phase == phase)
          sums[k] = neutral(&code->code[k]);
      for (int p = 0; p < INNER; p++)
        for (int k = 0; k < code->n; k++) {
          const instr *i = &code->code[k];
          if (i->phase != phase || i->row)
            continue;
          if (i->op == REGION_REDUCE)
            sums[k] = combine(i, sums[k], r[i->a]);
          else
            r[k] = compute(i, r, coords(row, p), m);
        }
      for (int k = 0; k < code->n; k++)
        if (code->code[k].phase == phase && !code->code[k].row)
          r[k] = code->code[k].op == REGION_REDUCE ? sums[k] : NAN;
    }
  }
}

/* --- random graphs of instructions --- */

static instr some_access(scene *s, region_op op, uint32_t value, term *t) {
  int n = 0;
  if (draw(s, 3))
    t[n++] = (term){.axis = 0, .stride = INNER, .div = 1};
  if (draw(s, 3))
    t[n++] = (term){.axis = 1, .stride = 1, .div = 1 + draw(s, 2), .mod = draw(s, 2) ? 2 : 0};
  return (instr){.op = (uint8_t)op,
                 .dtype = op == REGION_INDEX ? SN_I32 : SN_F32,
                 .at = {.value = value, .base = draw(s, 3), .n_terms = n, .terms = t}};
}

static void add_some(scene *s, dag *d) {
  term t[3];
  instr i;
  switch (d->n ? draw(s, 8) : 0) {
  case 0: i = some_access(s, REGION_LOAD, 1 + (uint32_t)draw(s, 2), t); break;
  case 1: i = some_access(s, REGION_INDEX, 0, t); break;
  case 2: i = number(draw(s, 9)); break;
  case 3:
    i = (instr){.op = REGION_REDUCE,
                .code = (uint8_t)(draw(s, 2) ? REDUCE_SUM : REDUCE_MAX),
                .dtype = SN_F32,
                .a = (reg)draw(s, d->n)};
    break;
  case 4: /* an element that a register chooses */
    i = some_access(s, REGION_LOAD, 1, t);
    t[i.at.n_terms++] =
        (term){.axis = TERM_REG, .from = (reg)draw(s, d->n), .stride = 2, .div = 1, .mod = 5};
    break;
  default:
    i = (instr){.op = REGION_ALU,
                .code = (uint8_t)(draw(s, 2) ? ALU_add : ALU_max),
                .dtype = SN_F32,
                .a = (reg)draw(s, d->n),
                .b = (reg)draw(s, d->n)};
  }
  (void)dag_add(d, &i);
}

static void fill(memory_of *m) {
  for (int k = 0; k < ELEMENTS; k++) {
    m->in[0][k] = (k * 7) % 11 - 3;
    m->in[1][k] = (k * 5) % 13 - 6;
    for (int o = 0; o < 4; o++)
      m->out[o][k] = -1000;
  }
}

/* What is of a row is stored once a row, what is of a point once a point. */
static void add_sinks(scene *s, dag *d, bool *sink) {
  int n = d->n;
  for (int o = 0; o < 4; o++) {
    reg from = (reg)draw(s, n);
    bool row = d->nodes[from].row;
    const term t[] = {{.axis = 0, .stride = INNER, .div = 1}, {.axis = 1, .stride = 1, .div = 1}};
    instr store = {.op = REGION_STORE,
                   .dtype = SN_F32,
                   .a = from,
                   .at = {.value = 3 + (uint32_t)o, .n_terms = row ? 1 : 2, .terms = t}};
    sink[dag_add(d, &store)] = true;
  }
}

static void check_order(const region *code, int phases) {
  int before = -1;
  for (int k = 0; k < code->n; k++) {
    const instr *i = &code->code[k];
    int now = 2 * i->phase + !i->row;
    CHECK(now >= before && i->phase <= phases && (i->row || i->phase < phases));
    before = now;
  }
}

static void note_use(const term *t, int n, bool *used) {
  for (int k = 0; k < n; k++)
    if (t[k].axis == TERM_REG)
      used[t[k].from] = true;
}

/* Nothing is computed for nothing. */
static void check_used(const region *code) {
  static bool used[REGION_MAX];
  memset(used, 0, sizeof used);
  for (int k = 0; k < code->n; k++) {
    const instr *i = &code->code[k];
    const reg args[] = {i->a, i->b, i->c};
    for (int a = 0; a < instr_arguments(i); a++)
      used[args[a]] = true;
    note_use(i->at.terms, i->at.n_terms, used);
  }
  for (int k = 0; k < code->n; k++)
    CHECK(used[k] || code->code[k].op == REGION_STORE);
}

TEST(laid_out_code_stores_what_the_graph_says) {
  int most_phases = 0;
  for (uint64_t seed = 1; seed <= 400 && !test_failed(); seed++) {
    scene s;
    dag d;
    region code;
    int phases = 0;
    bool sink[MOST] = {false};
    static memory_of by_node, by_code;
    REQUIRE(start(&s, seed));
    dag_init(&d, &s.memory, 1);
    for (int k = 0; k < 60; k++)
      add_some(&s, &d);
    add_sinks(&s, &d, sink);
    REQUIRE(dag_layout(&d, sink, false, &s.memory, &code, &phases) == SN_OK);
    check_order(&code, phases);
    check_used(&code);
    fill(&by_node);
    fill(&by_code);
    run_nodes(&d, &by_node);
    run_code(&code, phases, &by_code);
    if (!CHECK_EQ_MEM(by_node.out, by_code.out, sizeof by_node.out))
      FAIL("seed %d, %d phases", (int)seed, phases);
    most_phases = phases > most_phases ? phases : most_phases;
    end(&s);
  }
  CHECK(most_phases >= 4);
}

TEST(flattened_code_ends_with_its_sink) {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    scene s;
    dag d;
    region code;
    bool sink[MOST] = {false}, needed[MOST] = {false};
    static memory_of m;
    static double by_node[REGION_MAX], by_code[REGION_MAX];
    int n = 0;
    REQUIRE(start(&s, seed));
    dag_init(&d, &s.memory, 0);
    while (d.n < 40)
      add_some(&s, &d);
    int root = draw(&s, d.n);
    sink[root] = true;
    dag_mark(&d, sink, needed);
    REQUIRE(dag_flatten(&d, sink, &s.memory, &code) == SN_OK);
    for (int k = 0; k < d.n; k++)
      n += needed[k];
    CHECK_EQ_INT(code.n, n);
    fill(&m);
    for (int k = 0; k < d.n; k++)
      by_node[k] = compute(&d.nodes[k].i, by_node, coords(2, 3), &m);
    for (int k = 0; k < code.n; k++)
      by_code[k] = compute(&code.code[k], by_code, coords(2, 3), &m);
    double a = by_node[root], b = by_code[code.n - 1];
    CHECK(a == b || (isnan(a) && isnan(b)));
    end(&s);
  }
}

TEST(appended_nodes_are_the_same) {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    scene s;
    dag a, b;
    static memory_of m;
    static double in_a[REGION_MAX], in_b[REGION_MAX];
    reg where[MOST];
    REQUIRE(start(&s, seed));
    dag_init(&a, &s.memory, 0);
    dag_init(&b, &s.memory, 0);
    while (a.n < 30)
      add_some(&s, &a);
    while (b.n < 30)
      add_some(&s, &b);
    instr acc = {.op = REGION_ACC, .dtype = SN_F32, .index = 1};
    reg third = dag_add(&b, &acc);
    REQUIRE(dag_append(&a, &b, 2, where));
    CHECK_EQ_INT(a.nodes[where[third]].i.index, 3);
    int n = a.n;
    REQUIRE(dag_append(&a, &b, 2, where)); /* all are found */
    CHECK_EQ_INT(a.n, n);
    fill(&m);
    for (int k = 0; k < a.n; k++)
      in_a[k] = compute(&a.nodes[k].i, in_a, coords(1, 2), &m);
    for (int k = 0; k < b.n; k++) {
      in_b[k] = compute(&b.nodes[k].i, in_b, coords(1, 2), &m);
      CHECK(in_b[k] == in_a[where[k]] || (isnan(in_b[k]) && isnan(in_a[where[k]])));
    }
    end(&s);
  }
}

/* --- accesses --- */

/* A coordinate below 3 and one below 4 of axes of 12 or 24 points, split in some way. */
static void split_place(scene *s, place *at) {
  *at = (place){.rank = 2};
  at->c[0] = (coord){.n = 1, .terms = {{.axis = 0, .stride = 1, .div = 4, .mod = 0}}};
  at->c[1] = (coord){.n = 1, .terms = {{.axis = 0, .stride = 1, .div = 1, .mod = 4}}};
  if (draw(s, 2))
    at->c[0] = (coord){.n = 1, .terms = {{.axis = 1, .stride = 1, .div = 4, .mod = 3}}};
  if (draw(s, 2))
    at->c[1] = (coord){.n = 1, .terms = {{.axis = 1, .stride = 1, .div = 1, .mod = 4}}};
  if (draw(s, 2))
    at->c[1] = (coord){.n = 2,
                       .terms = {{.axis = 1, .stride = 2, .div = 6, .mod = 2},
                                 {.axis = 1, .stride = 1, .div = 1, .mod = 2}}};
  if (draw(s, 3) == 0)
    at->c[0] = coord_number(draw(s, 3));
}

static int64_t at_point(const coord *c, const int64_t *point) {
  access a = {.base = c->offset, .n_terms = c->n, .terms = c->terms};
  return element(&a, point, NULL);
}

TEST(accesses_are_row_major_numbers) {
  scene s;
  sn_graph *g = NULL;
  REQUIRE(start(&s, 3));
  REQUIRE(sn_graph_create(s.ctx, &g) == SN_OK);
  for (int k = 0; k < 200; k++) {
    place at;
    access_room room;
    access a;
    split_place(&s, &at);
    sn_shape shape = SN_SHAPE(3, 4);
    REQUIRE(dag_access(g, &at, shape, false, 5, &room, &a));
    CHECK_EQ_INT(a.value, 5);
    for (int64_t i = 0; i < 12 * 24; i++) {
      const int64_t point[] = {i / 24, i % 24};
      CHECK_EQ_INT(element(&a, point, NULL),
                   at_point(&at.c[0], point) * 4 + at_point(&at.c[1], point));
    }
  }
  place whole = {.rank = 2};
  whole.c[0] = (coord){.n = 1, .terms = {{.axis = 0, .stride = 1, .div = 4, .mod = 0}}};
  whole.c[1] = (coord){.n = 1, .terms = {{.axis = 0, .stride = 1, .div = 1, .mod = 4}}};
  access_room room;
  access a;
  CHECK(dag_access(g, &whole, SN_SHAPE(3, 4), false, 1, &room, &a));
  CHECK_EQ_INT(a.n_terms, 1); /* i / 4 * 4 + i % 4 is i */
  CHECK_EQ_INT(a.terms[0].div, 1);
  CHECK_EQ_INT(a.terms[0].mod, 0);
  sn_graph_destroy(g);
  end(&s);
}

TEST(one_map_or_not) {
  const term t = {.axis = 0, .stride = 1, .div = 1}, back = {.axis = 0, .stride = -1, .div = 1};
  const check c = {.size = 4, .divisor = 1};
  access a = {.value = 1, .n_terms = 1, .terms = &t}, b = a;
  b.value = 2;
  CHECK(access_same_map(&a, &b));
  b.base = 3;
  CHECK(!access_same_map(&a, &b));
  b = (access){.value = 2, .n_terms = 1, .terms = &back};
  CHECK(!access_same_map(&a, &b));
  b = (access){.value = 2, .n_terms = 1, .terms = &t, .n_checks = 1, .checks = &c};
  CHECK(!access_same_map(&a, &b));
}
