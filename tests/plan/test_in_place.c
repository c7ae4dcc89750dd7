/* plan_in_place: where a result may take over an argument's memory and, case by case, where it may not; and random programs, run
 * point by point in the arena and beside it. */
#include "support/fault.h"
#include "support/program_make.h"
#include "support/test.h"

static sn_ctx *ctx;

/* The program of all cases: x is an input; a = f(x); b = g(a, a); c = h(b). Vectors of 16. */
typedef struct three {
  program *p;
  uint32_t x, a, b, c;
} three;

static bool three_start(three *t) {
  program_make m;
  if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return false;
  program_make_start(&m, ctx);
  t->x = make_value(&m, HOME_INPUT, 64);
  t->a = make_value(&m, HOME_ARENA, 64);
  t->b = make_value(&m, HOME_ARENA, 64);
  t->c = make_value(&m, HOME_OUTPUT, 64);
  make_step(&m, (uint32_t[]){t->x, 0}, (uint32_t[]){t->a, 0});
  make_step(&m, (uint32_t[]){t->a, t->a, 0}, (uint32_t[]){t->b, 0});
  make_step(&m, (uint32_t[]){t->b, 0}, (uint32_t[]){t->c, 0});
  t->p = program_make_end(&m, 0, 0);
  return CHECK(t->p != NULL);
}

static loop_part *loop_of(three *t, int s) {
  return (loop_part *)(uintptr_t)&t->p->steps[s].parts[0].u.loop;
}
static instr *code_of(three *t, int s) { return (instr *)(uintptr_t)loop_of(t, s)->code.code; }
static term *term_of(three *t, int s, int i) {
  return (term *)(uintptr_t)code_of(t, s)[i].at.terms;
}

/* --- one change each to step 1, whose code is load a, load a, store b --- */

static void nothing(three *t) { (void)t; }
static void both_are_prepared(three *t) {
  t->p->values[t->a].home = t->p->values[t->b].home = HOME_PREPARED;
}
static void a_load_has_a_check(three *t) {
  static const check c = {.size = 8, .divisor = 1};
  code_of(t, 1)[0].at.checks = &c;
  code_of(t, 1)[0].at.n_checks = 1;
}
static void the_map_is_another_for_both(three *t) {
  for (int i = 0; i < 3; i++)
    *term_of(t, 1, i) = (term){.stride = 1, .div = 2, .mod = 8};
}
static void rows_store_what_rows_load(three *t) {
  t->p->steps[1].kind = STEP_ROW;
  loop_of(t, 1)->n_axes = 2;
  loop_of(t, 1)->n_outer = 1;
  loop_of(t, 1)->extent[1] = 5;
  for (int i = 0; i < 3; i++)
    code_of(t, 1)[i].row = true;
}
static void sizes_differ(three *t) { t->p->values[t->a].bytes = 128; }
static void widths_differ(three *t) { t->p->values[t->a].type.dtype = SN_F16; }
static void homes_differ(three *t) { t->p->values[t->a].home = HOME_PREPARED; }
static void the_result_is_an_output(three *t) { t->p->values[t->b].home = HOME_OUTPUT; }
static void the_argument_is_an_input(three *t) { t->p->values[t->a].home = HOME_INPUT; }
static void one_load_starts_elsewhere(three *t) { code_of(t, 1)[1].at.base = 1; }
static void one_load_has_another_stride(three *t) { term_of(t, 1, 0)->stride = 2; }
static void one_load_is_divided(three *t) { term_of(t, 1, 0)->div = 2; }
static void one_load_wraps(three *t) { term_of(t, 1, 0)->mod = 4; }
static void one_load_has_no_terms(three *t) { code_of(t, 1)[0].at.n_terms = 0; }
static void all_go_through_a_register(three *t) {
  for (int i = 0; i < 3; i++)
    term_of(t, 1, i)->axis = TERM_REG;
}
static void a_load_comes_after_the_store(three *t) {
  instr *code = code_of(t, 1), kept = code[1];
  code[1] = code[2];
  code[2] = kept;
}
static void it_is_read_later(three *t) { code_of(t, 2)[0].at.value = t->a; }
static void it_is_written_here_too(three *t) { code_of(t, 2)[1].at.value = t->b; }
static void points_share_an_element(three *t) { loop_of(t, 1)->extent[0] = 32; }
static void points_load_what_rows_store(three *t) {
  rows_store_what_rows_load(t);
  code_of(t, 1)[0].row = false;
}
static void another_part_reads_it(three *t) {
  part *parts = arena_array(&t->p->memory, 2, sizeof *parts);
  if (!CHECK(parts != NULL))
    return;
  parts[0] = t->p->steps[1].parts[0];
  parts[1] = t->p->steps[2].parts[0];
  instr *code = arena_copy(&t->p->memory, parts[1].u.loop.code.code, 2 * sizeof *code);
  if (!CHECK(code != NULL))
    return;
  code[0].at.value = t->a;
  code[1].at.value = t->c;
  parts[1].u.loop.code.code = code;
  t->p->steps[1].parts = parts;
  t->p->steps[1].n_parts = 2;
}
/* Step 1 as the epilogue of a matmul; operands read x, or a. */
static void as_matmul(three *t, uint32_t operand) {
  region store = loop_of(t, 1)->code;
  part *one = arena_alloc(&t->p->memory, sizeof *one);
  matmul_acc *acc = arena_alloc(&t->p->memory, sizeof *acc);
  matmul_product *product = arena_alloc(&t->p->memory, sizeof *product);
  instr *load = arena_copy(&t->p->memory, &code_of(t, 0)[0], sizeof *load);
  if (!CHECK(one && acc && product && load))
    return;
  load->at.value = operand;
  *product = (matmul_product){.a = {1, load}, .b = {1, load}};
  *acc = (matmul_acc){1, product};
  one->u.matmul =
      (matmul_part){.n_m = 1, .extent = {16}, .n_accs = 1, .accs = acc, .epilogue = store};
  t->p->steps[1].kind = STEP_MATMUL;
  t->p->steps[1].parts = one;
}
static void in_an_epilogue(three *t) { as_matmul(t, t->x); }
static void in_an_epilogue_and_an_operand(three *t) { as_matmul(t, t->a); }

static const struct {
  const char *name;
  void (*change)(three *t);
  bool taken;
} cases[] = {
#define CASE(name, taken) \
  { #name, name, taken }
    CASE(nothing, true),
    CASE(both_are_prepared, true),
    CASE(a_load_has_a_check, true),
    CASE(the_map_is_another_for_both, true),
    CASE(rows_store_what_rows_load, true),
    CASE(in_an_epilogue, true),
    CASE(sizes_differ, false),
    CASE(widths_differ, false),
    CASE(homes_differ, false),
    CASE(the_result_is_an_output, false),
    CASE(the_argument_is_an_input, false),
    CASE(one_load_starts_elsewhere, false),
    CASE(one_load_has_another_stride, false),
    CASE(one_load_is_divided, false),
    CASE(one_load_wraps, false),
    CASE(one_load_has_no_terms, false),
    CASE(all_go_through_a_register, false),
    CASE(a_load_comes_after_the_store, false),
    CASE(it_is_read_later, false),
    CASE(it_is_written_here_too, false),
    CASE(points_share_an_element, false),
    CASE(points_load_what_rows_store, false),
    CASE(another_part_reads_it, false),
    CASE(in_an_epilogue_and_an_operand, false),
#undef CASE
};

TEST_WALK(cases_one_by_one) {
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    three t;
    if (!test_begin("%s", cases[i].name))
      continue;
    if (three_start(&t)) {
      cases[i].change(&t);
      CHECK_EQ_INT(plan_in_place(t.p, ctx), SN_OK);
      CHECK_EQ_UINT(t.p->values[t.b].in_place_of, cases[i].taken ? t.a : 0);
      program_destroy(t.p);
    }
    sn_ctx_destroy(ctx);
    test_end();
  }
}

TEST(takes_each_argument_once_and_keeps_what_was_decided) {
  program_make m;
  uint32_t v[6];
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program_make_start(&m, ctx);
  for (int i = 0; i < 6; i++)
    v[i] = make_value(&m, HOME_ARENA, 64);
  make_step(&m, (uint32_t[]){0}, (uint32_t[]){v[0], v[1], 0});
  make_step(&m, (uint32_t[]){v[0], v[1], 0}, (uint32_t[]){v[2], v[3], v[4], 0});
  make_step(&m, (uint32_t[]){v[2], 0}, (uint32_t[]){v[5], 0});
  make_step(&m, (uint32_t[]){v[3], v[4], v[5], 0}, (uint32_t[]){0});
  program *p = program_make_end(&m, 0, 0);
  REQUIRE(p);
  p->values[v[4]].in_place_of = v[0];
  CHECK_EQ_INT(plan_in_place(p, ctx), SN_OK);
  CHECK_EQ_UINT(p->values[v[4]].in_place_of, v[0]);
  CHECK_EQ_UINT(p->values[v[2]].in_place_of, v[1]);
  CHECK_EQ_UINT(p->values[v[3]].in_place_of, 0);
  CHECK_EQ_UINT(p->values[v[5]].in_place_of, v[2]);
  program_destroy(p);
  sn_ctx_destroy(ctx);
}

/* b and c are both made of a, side by side: c takes a over only where memory is short, since it must then wait for b. */
static uint32_t argument_of_c(int64_t bytes_of_d, uint32_t *out_a) {
  program_make m;
  program_make_start(&m, ctx);
  uint32_t a = make_value(&m, HOME_ARENA, 64), b = make_value(&m, HOME_ARENA, 64);
  uint32_t c = make_value(&m, HOME_ARENA, 64), d = make_value(&m, HOME_ARENA, bytes_of_d);
  make_step(&m, (uint32_t[]){0}, (uint32_t[]){a, 0});
  make_step(&m, (uint32_t[]){a, 0}, (uint32_t[]){b, 0});
  make_step(&m, (uint32_t[]){a, 0}, (uint32_t[]){c, 0});
  make_step(&m, (uint32_t[]){b, c, 0}, (uint32_t[]){d, 0});
  program *p = program_make_end(&m, 0, 0);
  if (!CHECK(p != NULL))
    return 0;
  CHECK_EQ_INT(plan_in_place(p, ctx), SN_OK);
  uint32_t taken = p->values[c].in_place_of;
  program_destroy(p);
  *out_a = a;
  return taken;
}

TEST(does_not_make_steps_wait_where_there_is_room) {
  uint32_t a = 0;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  CHECK_EQ_UINT(argument_of_c(1024, &a), 0);
  CHECK_EQ_UINT(argument_of_c(64, &a), a);
  sn_ctx_destroy(ctx);
}

/* --- random programs, run --- */

typedef struct machine {
  const program *p;
  uint32_t *arena, *beside; /* beside: every value by itself, WIDTH elements each */
} machine;
enum { WIDTH = 8, ROOM = 4096 };

static uint32_t *element(const machine *w, uint32_t v, int64_t i, bool beside) {
  const program_value *x = &w->p->values[v];
  if (i >= x->count)
    return NULL;
  return x->home == HOME_ARENA && !beside ? &w->arena[x->offset / 4 + i]
                                          : &w->beside[v * WIDTH + i];
}

/* One point: the loads must find what they find beside the arena. */
static bool run_point(const machine *w, const region *r, int64_t i, uint32_t salt) {
  uint32_t sum = salt;
  for (int k = 0; k < r->n; k++) {
    uint32_t v = r->code[k].at.value;
    uint32_t *mine = v ? element(w, v, i, false) : NULL, *right = v ? element(w, v, i, true) : NULL;
    if (!mine)
      continue;
    if (r->code[k].op == REGION_STORE)
      *mine = *right = sum * 7 + (uint32_t)k;
    else if (*mine != *right)
      return FAIL("step %u reads a wrong element %d of v%u", salt, (int)i, v), false;
    else
      sum += *mine;
  }
  return true;
}

TEST(random_programs_find_what_was_written) {
  static uint32_t memory[ROOM], beside[ROOM * 4];
  int taken = 0;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (uint64_t seed = 1; seed <= 100 && !test_failed(); seed++) {
    random_program how = {.seed = seed, .steps = 40, .largest = 4 * WIDTH, .plain = true};
    program *p = make_random_program(ctx, &how);
    REQUIRE(p);
    for (uint32_t v = 1; v < p->n_values; v++) /* states are longer */
      p->values[v].count = min_i64(p->values[v].count, WIDTH);
    CHECK(plan_order(p, ctx) == SN_OK && plan_in_place(p, ctx) == SN_OK);
    CHECK(plan_place(p, ctx) == SN_OK);
    REQUIRE(p->arena_bytes <= (int64_t)sizeof memory && p->n_values * WIDTH <= ROOM * 4);
    memset(beside, 0, sizeof beside);
    machine w = {p, memory, beside};
    for (int s = 0; s < program_steps(p) && !test_failed(); s++)
      for (int64_t i = 0; i < WIDTH; i++)
        run_point(&w, &p->steps[s].parts[0].u.loop.code, i, (uint32_t)p->steps[s].flops);
    for (uint32_t v = 1; v < p->n_values; v++)
      taken += p->values[v].in_place_of != 0;
    program_destroy(p);
  }
  CHECK(taken > 200);
  sn_ctx_destroy(ctx);
}
