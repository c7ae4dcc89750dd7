/* Programs: sizes under bindings, what steps touch, the text form. */
#include "ir/dim.h"
#include "support/fault.h"
#include "support/program_make.h"
#include "support/test.h"

#include <stdio.h>

static sn_ctx *ctx;

/* --- sizes --- */

TEST(binds_sizes_and_checks_them) {
  sn_graph *g;
  program *p;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  REQUIRE(graph_create(ctx, NULL, &g) == SN_OK && program_create(ctx, &p) == SN_OK);
  CHECK_EQ_INT(program_sizes(p), 0);
  sn_dim n = sn_symbol(g, "n", 100), m = sn_symbol(g, "m", 10);
  sn_dim both = sn_dim_add(g, sn_dim_mul(g, n, m), 3), less = sn_dim_sub(g, n, m);
  CHECK_EQ_INT(program_copy_dims(p, g), SN_OK);
  CHECK_EQ_INT(program_copy_dims(p, g), SN_OK); /* the later one counts */
  sn_graph_destroy(g);
  program_requirement needs[] = {{less, "n must not be below m"}};
  p->requirements = needs;
  p->n_requirements = 1;
  int64_t sizes[16];
  REQUIRE(program_sizes(p) >= 4 && program_sizes(p) <= 16);
  CHECK_EQ_INT(program_bind(p, ctx, (int64_t[]){7, 5}, sizes), SN_OK);
  CHECK_EQ_INT(size_at(sizes, both), 38);
  CHECK_EQ_INT(size_at(sizes, less), 2);
  CHECK_EQ_INT(size_at(sizes, 12), 12);
  CHECK_EQ_INT(program_bind(p, ctx, (int64_t[]){5, 5}, sizes), SN_OK);
  CHECK_EQ_INT(program_bind(p, ctx, (int64_t[]){4, 5}, sizes), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(ctx), "n must not be below m");
  CHECK_EQ_INT(program_bind(p, ctx, (int64_t[]){7, 11}, sizes), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(ctx), "symbol \"m\": must be 0 to 10, is 11");
  CHECK_EQ_INT(program_bind(p, ctx, (int64_t[]){-1, 1}, sizes), SN_ERR_INVALID);
  program_destroy(p);
  program_destroy(NULL);
  sn_ctx_destroy(ctx);
}

/* --- what steps touch --- */

typedef struct seen {
  char text[512];
  size_t n;
  int stop_after; /* 0: never */
} seen;

static bool note(void *user, const step_use *use) {
  seen *s = user;
  s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "%s%d:%u%s",
                           use->store ? "!" : "", use->part, use->value,
                           use->core ? "c "
                           : use->at ? "a "
                                     : "? ");
  return --s->stop_after != 0;
}

#define LOAD(v)                                               \
  {                                                           \
    .op = REGION_LOAD, .dtype = SN_F32, .at = {.value = (v) } \
  }
#define STORE(v)                                               \
  {                                                            \
    .op = REGION_STORE, .dtype = SN_F32, .at = {.value = (v) } \
  }

static const instr loop_code[] = {
    LOAD(1), {.op = REGION_NUMBER}, LOAD(2), {.op = REGION_INDEX}, STORE(3)};
static const instr load_4[] = {LOAD(4)}, load_5[] = {LOAD(5), LOAD(5)}, load_6[] = {LOAD(6)};
static const instr after_code[] = {{.op = REGION_ACC}, LOAD(7), STORE(8), STORE(9)};
static const matmul_product products[] = {{.a = {1, load_4}, .b = {2, load_5}},
                                          {.a = {1, load_6}, .b = {1, load_4}}};
static const matmul_acc accs[] = {{1, products}, {2, products}};

TEST(visits_every_access_once) {
  part loops[2] = {{.u.loop = {.code = {5, loop_code}}}, {.u.loop = {.code = {1, load_6}}}};
  part matmul = {.u.matmul = {.n_accs = 2, .accs = accs, .epilogue = {4, after_code}}};
  part core = {.u.core = {.n_in = 3, .n_out = 2}};
  core.u.core.in[0].value = 1;
  core.u.core.in[2].value = 3;
  core.u.core.out[1].value = 4;
  const struct {
    step s;
    const char *uses;
  } rows[] = {
      {{.kind = STEP_POINTWISE, .n_parts = 2, .parts = loops}, "0:1a 0:2a !0:3a 1:6a "},
      {{.kind = STEP_ROW, .n_parts = 1, .parts = loops}, "0:1a 0:2a !0:3a "},
      {{.kind = STEP_MATMUL, .n_parts = 1, .parts = &matmul},
       "0:4a 0:5a 0:5a 0:4a 0:5a 0:5a 0:6a 0:4a 0:7a !0:8a !0:9a "},
      {{.kind = STEP_ATTENTION, .n_parts = 1, .parts = &core}, "0:1c 0:3c !0:4c "},
      {{.kind = STEP_PERMUTE, .n_parts = 1, .parts = &core}, "0:1c 0:3c !0:4c "},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    seen all = {.stop_after = 0}, one = {.stop_after = 1};
    CHECK(step_each_use(&rows[i].s, note, &all));
    CHECK_EQ_STR(all.text, rows[i].uses);
    CHECK(!step_each_use(&rows[i].s, note, &one));
    CHECK_EQ_MEM(one.text, rows[i].uses, 5);
  }
}

/* --- text --- */

static const char *const golden =
    "program: 4 values, 4 steps (1 prepare, 2 main, 1 commit), 1 barriers\n"
    "memory: arena 128 bytes, at least 64; prepared 0 bytes\n"
    "archetypes: 1 pointwise 1 row 1 matmul 1 sort\n"
    "input 0 \"x\" : f32[n, 3] = v1\n"
    "state 0 \"w\" : f32[3] = v2 assigned\n"
    "requires 0 <= n-1: n is 0\n"
    "site 0: index %d\n"
    "values:\n"
    "  v1 : f32[n, 3] input 0 steps -1 to 2\n"
    "  v2 : f32[3] state 0 steps 0 to 0\n"
    "  v3 : f32[3] arena 64+12 steps 0 to 0\n"
    "  v4 : f32[3] arena 64+12 steps 0 to 0 in place of v3\n"
    "prepare:\n"
    "  step 0 pointwise \"first\"\n"
    "    part 0: points [n, 3]\n"
    "      r0 = load v1[2 + (n)*(i0/8%4) + i1 + 3*r1<5>] where 0 <= -1 + i1 < 3, 0 <= (i0) / 2 < n "
    ": f32\n"
    "      r1 = number 0.5 : f32\n"
    "      r2 = mul r0 r1 : f32\n"
    "      r3 = bits_below r0 r1 (0.25, 0) : bool\n"
    "      r4 = index [i0/2] : i32\n"
    "      r5 = inside where 0 <= i1 < 3 : bool\n"
    "      r6 = size n : i32\n"
    "      r7 = word of stream 9 key r4 r5 r6 [i1%3] : i32\n"
    "      r8 = require r5 showing r4: site 0 : bool\n"
    "      r9 = store r2 v4[0] : f32\n"
    "main:\n"
    "  step 1 row \"second\" barrier after v3, v4\n"
    "    part 0: rows [n] points [3] phases 2\n"
    "      points of phase 0:\n"
    "        r0 = load v1[3*i0 + i1] : f32\n"
    "        r1 = max over row r0 : f32\n"
    "      row of phase 1:\n"
    "        r2 = store r1 v3[i0] : f32\n"
    "  step 2 matmul \"\"\n"
    "    part 0: batch [] m [n] n [3]\n"
    "      acc 0 += product 0 over k [5]\n"
    "        a:\n"
    "          r0 = load v1[3*i0 + i1] : f32\n"
    "        b:\n"
    "          r0 = load v1[3*i0 + i1] : f32\n"
    "      epilogue:\n"
    "        r0 = acc 0 : f32\n"
    "commit:\n"
    "  step 3 sort \"\"\n"
    "    part 0: ints 1 0 0 0 reals 0.5 0 0 0\n"
    "      in 0: v1 f32[n, 3] strides [3, 1] from 4\n"
    "      out 1: v2 i32[3] strides [1]\n";

#define ACCESS(v, t) \
  { .value = (v), .n_terms = (int)COUNT_OF(t), .terms = t }

static void print_small(sn_ctx *c, text *out) {
  sn_graph *g;
  program *p;
  if (program_create(c, &p) != SN_OK)
    return;
  if (graph_create(c, NULL, &g) != SN_OK) {
    program_destroy(p);
    return;
  }
  const sn_dim n = sn_symbol(g, "n", 100), less = sn_dim_sub(g, n, 1);
  sn_status copied = program_copy_dims(p, g);
  const sn_type wide = {SN_F32, {2, {n, 3}}}, flat = {SN_F32, {1, {3}}};
  const term i0_half = {.axis = 0, .stride = 1, .div = 2},
             plain_1 = {.axis = 1, .stride = 1, .div = 1};
  const term plain_0 = {.axis = 0, .stride = 1, .div = 1};
  const term all[] = {{.axis = 0, .stride = n, .div = 8, .mod = 4},
                      plain_1,
                      {.axis = TERM_REG, .from = 1, .stride = 3, .div = 1, .mod = 5}};
  const term half[] = {i0_half}, third[] = {{.axis = 1, .stride = 1, .div = 1, .mod = 3}};
  const term matrix[] = {{.axis = 0, .stride = 3, .div = 1}, plain_1};
  const check checks[] = {{1, &plain_1, -1, 3, 1}, {1, &plain_0, 0, n, 2}},
              inside = {1, &plain_1, 0, 3, 1};
  const instr first[] = {
      {.op = REGION_LOAD, .dtype = SN_F32, .at = {1, 2, 3, 2, all, checks}},
      {.op = REGION_NUMBER, .dtype = SN_F32, .x = 0.5},
      {.op = REGION_ALU, .code = ALU_mul, .dtype = SN_F32, .a = 0, .b = 1},
      {.op = REGION_ALU, .code = ALU_bits_below, .dtype = SN_BOOL, .a = 0, .b = 1, .x = 0.25},
      {.op = REGION_INDEX, .dtype = SN_I32, .at = ACCESS(0, half)},
      {.op = REGION_INSIDE, .dtype = SN_BOOL, .at = {.n_checks = 1, .checks = &inside}},
      {.op = REGION_SIZE, .dtype = SN_I32, .size = n},
      {.op = REGION_WORD, .dtype = SN_I32, .a = 4, .b = 5, .c = 6, .x = 9, .at = ACCESS(0, third)},
      {.op = REGION_REQUIRE, .dtype = SN_BOOL, .a = 5, .b = 4},
      {.op = REGION_STORE, .dtype = SN_F32, .a = 2, .at = {.value = 4}}};
  const instr row[] = {{.op = REGION_LOAD, .dtype = SN_F32, .at = ACCESS(1, matrix)},
                       {.op = REGION_REDUCE, .code = REDUCE_MAX, .dtype = SN_F32, .a = 0},
                       {.op = REGION_STORE,
                        .dtype = SN_F32,
                        .a = 1,
                        .row = true,
                        .phase = 1,
                        .at = {3, 0, 1, 0, &plain_0, NULL}}};
  const instr acc_0[] = {{.op = REGION_ACC, .dtype = SN_F32}};
  const matmul_product product = {1, {5}, {1, row}, {1, row}};
  const matmul_acc acc = {1, &product};
  const part parts[] = {{.u.loop = {2, 0, 1, {n, 3}, {(int)COUNT_OF(first), first}}},
                        {.u.loop = {2, 1, 2, {n, 3}, {(int)COUNT_OF(row), row}}},
                        {.u.matmul = {.n_m = 1,
                                      .n_n = 1,
                                      .extent = {n, 3},
                                      .n_accs = 1,
                                      .accs = &acc,
                                      .epilogue = {1, acc_0}}},
                        {.u.core = {.n_in = 1,
                                    .n_out = 2,
                                    .in = {{1, SN_F32, 2, {n, 3}, {3, 1}, 4}},
                                    .out = {{0}, {2, SN_I32, 1, {3}, {1}, 0}},
                                    .ints = {1},
                                    .reals = {0.5}}}};
  const uint32_t after[] = {3, 4};
  step steps[] = {{.kind = STEP_POINTWISE, .n_parts = 1, .parts = &parts[0], .name = "first"},
                  {.kind = STEP_ROW,
                   .barrier = true,
                   .n_parts = 1,
                   .parts = &parts[1],
                   .n_after = 2,
                   .after = after,
                   .name = "second"},
                  {.kind = STEP_MATMUL, .n_parts = 1, .parts = &parts[2]},
                  {.kind = STEP_SORT, .n_parts = 1, .parts = &parts[3]}};
  program_value values[] = {
      {.first = 0},
      {.type = wide, .home = HOME_INPUT, .first = -1, .last = 2},
      {.type = flat, .home = HOME_STATE},
      {.type = flat, .home = HOME_ARENA, .bytes = 12, .offset = 64},
      {.type = flat, .home = HOME_ARENA, .bytes = 12, .offset = 64, .in_place_of = 3}};
  program_leaf input = {"x", 1, wide, false, false}, state = {"w", 2, flat, true, false};
  program_requirement needs = {less, "n is 0"};
  program_site site = {"index %d", SN_ERR_INVALID};
  p->values = values;
  p->n_values = 5;
  p->steps = steps;
  p->n_prepare = p->n_commit = 1;
  p->n_main = 2;
  p->inputs = &input;
  p->states = &state;
  p->n_inputs = p->n_states = 1;
  p->requirements = &needs;
  p->n_requirements = 1;
  p->sites = &site;
  p->n_sites = 1;
  p->arena_bytes = 128;
  p->lower_bound = 64;
  if (copied == SN_OK && g->status == SN_OK)
    program_print(p, out);
  sn_graph_destroy(g);
  program_destroy(p);
}

TEST(prints_every_kind_of_line) {
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  text out;
  text_init(&out, ctx);
  print_small(ctx, &out);
  CHECK_EQ_INT(text_done(&out), SN_OK);
  CHECK_EQ_STR(out.data ? out.data : "", golden);
  text_free(&out);
  sn_ctx_destroy(ctx);
}

TEST(survives_every_failed_allocation) {
  fault_heap heap = {.fail_at = 0};
  do {
    fault_heap_start(&heap);
    sn_ctx *c = fault_ctx(&heap);
    if (c) {
      text out;
      text_init(&out, c);
      print_small(c, &out);
      CHECK(heap.failed || (text_done(&out) == SN_OK && out.size == strlen(golden)));
      text_free(&out);
    }
    sn_ctx_destroy(c);
  } while (fault_heap_end(&heap));
}
