/* The verifier on a program written by hand, so that nothing of the planner has a part in it: a chain of steps that share the
 * arena, a softmax as a row part, a matmul with its bias in the epilogue, a commit in place. It passes; with any fault
 * planted, or with memory that runs out, it does not. */
#include "plan/plan.h"
#include "support/fault.h"
#include "support/program_faults.h"
#include "support/test.h"

typedef struct by_hand {
  sn_graph *g;
  program *p;
} by_hand;

/* Graph values, as build_graph makes them; program values have the same numbers in another order. */
enum { A = 1, B, C, T, U, Y, X, W, BIAS, SOFT, PRODUCT, W_NEXT, VALUES };

/* --- the graph --- */

typedef struct sources {
  sn_value of[VALUES];
} sources;

static sn_status build_graph(sn_ctx *ctx, sn_graph **out, sources *s) {
  SN_TRY(sn_graph_create(ctx, out));
  sn_graph *g = *out;
  sn_shape wide = SN_SHAPE(6, 20);
  s->of[A] = sn_input(g, "a", SN_F32, wide);
  s->of[B] = sn_input(g, "b", SN_F32, wide);
  s->of[C] = sn_input(g, "c", SN_F32, wide);
  s->of[X] = sn_input(g, "x", SN_F32, SN_SHAPE(5, 12));
  s->of[BIAS] = sn_input(g, "bias", SN_F32, SN_SHAPE(7));
  s->of[W] = sn_state(g, "w", SN_F32, SN_SHAPE(12, 7), SN_INIT_NORMAL, 1);
  s->of[T] = sn_mul(g, s->of[B], s->of[C]);
  s->of[U] = sn_sub(g, s->of[T], s->of[A]);
  s->of[Y] = sn_add(g, s->of[U], s->of[T]);
  sn_value e = sn_exp(g, sn_sub(g, s->of[X], sn_max(g, s->of[X], SN_INTS(-1), true)));
  s->of[SOFT] = sn_div(g, e, sn_sum(g, e, SN_INTS(-1), true));
  s->of[PRODUCT] = sn_add(g, sn_matmul(g, s->of[X], s->of[W], false, false), s->of[BIAS]);
  s->of[W_NEXT] = sn_affine(g, s->of[W], 0.5, 3);
  sn_output(g, "y", s->of[Y]);
  sn_output(g, "soft", s->of[SOFT]);
  sn_output(g, "product", s->of[PRODUCT]);
  sn_assign(g, s->of[W], s->of[W_NEXT]);
  return sn_graph_status(g);
}

/* --- the program --- */

/* Code is written into memory of the program, so that faults can change it. */
typedef struct writer {
  program *p;
  instr *code;
  int n, cap;
  bool failed;
} writer;

static void begin(writer *w, int cap) {
  w->code = arena_array(&w->p->memory, (size_t)cap, sizeof *w->code);
  w->n = 0;
  w->cap = w->code ? cap : 0;
  w->failed |= !w->code;
}

static reg emit(writer *w, instr i) {
  if (w->n >= w->cap)
    return 0;
  w->code[w->n] = i;
  return (reg)w->n++;
}

/* base + strides of two axes from `first` on. */
static access at2(writer *w, uint32_t value, int first, sn_dim s0, sn_dim s1) {
  term *t = arena_array(&w->p->memory, 2, sizeof *t);
  access a = {.value = value};
  w->failed |= !t;
  if (!t)
    return a;
  if (s0)
    t[a.n_terms++] = (term){.axis = (uint8_t)first, .stride = s0, .div = 1};
  if (s1)
    t[a.n_terms++] = (term){.axis = (uint8_t)(first + 1), .stride = s1, .div = 1};
  a.terms = t;
  return a;
}

static reg load(writer *w, int phase, access at) {
  return emit(w, (instr){.op = REGION_LOAD, .dtype = SN_F32, .phase = (uint8_t)phase, .at = at});
}
static reg store(writer *w, int phase, reg a, access at) {
  return emit(
      w, (instr){.op = REGION_STORE, .dtype = SN_F32, .phase = (uint8_t)phase, .a = a, .at = at});
}
static reg arith(writer *w, int phase, alu code, reg a, reg b) {
  return emit(w, (instr){.op = REGION_ALU,
                         .code = (uint8_t)code,
                         .dtype = SN_F32,
                         .phase = (uint8_t)phase,
                         .a = a,
                         .b = b});
}
static reg reduced(writer *w, int phase, reduce_kind kind, reg a) {
  return emit(w, (instr){.op = REGION_REDUCE,
                         .code = (uint8_t)kind,
                         .dtype = SN_F32,
                         .phase = (uint8_t)phase,
                         .a = a});
}
static reg number(writer *w, double x) {
  return emit(w, (instr){.op = REGION_NUMBER, .dtype = SN_F32, .x = x});
}

static part *add_step(writer *w, int s, archetype kind, bool barrier, const char *name) {
  part *of = arena_alloc(&w->p->memory, sizeof *of);
  w->failed |= !of;
  w->p->steps[s] =
      (step){.kind = kind, .barrier = barrier, .n_parts = 1, .parts = of, .name = name};
  return of;
}

static void loop_over(writer *w, part *of, int n_outer, int n_phases, sn_dim d0, sn_dim d1) {
  if (of)
    of->u.loop = (loop_part){.n_axes = 2,
                             .n_outer = n_outer,
                             .n_phases = n_phases,
                             .extent = {d0, d1},
                             .code = {w->n, w->code}};
}

/* to = code(from, with), all [6, 20]. */
static void write_pair(writer *w, int s, alu code, uint32_t from, uint32_t with, uint32_t to) {
  part *of = add_step(w, s, STEP_POINTWISE, s > 0, alu_table[code].name);
  begin(w, 4);
  reg a = load(w, 0, at2(w, from, 0, 20, 1));
  reg b = load(w, 0, at2(w, with, 0, 20, 1));
  (void)store(w, 0, arith(w, 0, code, a, b), at2(w, to, 0, 20, 1));
  loop_over(w, of, 0, 1, 6, 20);
}

static void write_softmax(writer *w, int s) {
  part *of = add_step(w, s, STEP_ROW, false, "softmax");
  begin(w, 12);
  reg top = reduced(w, 0, REDUCE_MAX, load(w, 0, at2(w, X, 0, 12, 1)));
  reg again = load(w, 1, at2(w, X, 0, 12, 1));
  reg e = arith(w, 1, ALU_exp, arith(w, 1, ALU_sub, again, top), 0);
  reg sum = reduced(w, 1, REDUCE_SUM, e);
  reg last = load(w, 2, at2(w, X, 0, 12, 1));
  reg f = arith(w, 2, ALU_exp, arith(w, 2, ALU_sub, last, top), 0);
  (void)store(w, 2, arith(w, 2, ALU_div, f, sum), at2(w, SOFT, 0, 12, 1));
  loop_over(w, of, 1, 3, 5, 12);
}

static void write_matmul(writer *w, int s) {
  part *of = add_step(w, s, STEP_MATMUL, false, "matmul");
  matmul_product *product = arena_alloc(&w->p->memory, sizeof *product);
  matmul_acc *acc = arena_alloc(&w->p->memory, sizeof *acc);
  w->failed |= !product || !acc;
  if (!of || !product || !acc)
    return;
  *product = (matmul_product){.n_k = 1, .k = {12}};
  *acc = (matmul_acc){1, product};
  begin(w, 1); /* axes: m 0, n 1, k 2 */
  access a = at2(w, X, 0, 12, 0), b = at2(w, W, 1, 1, 7);
  access k = at2(w, X, 1, 0, 1);
  term *both = arena_array(&w->p->memory, 2, sizeof *both);
  w->failed |= !both || !a.terms || !k.terms;
  if (w->failed)
    return;
  both[0] = a.terms[0];
  both[1] = k.terms[0];
  a.terms = both;
  a.n_terms = 2;
  (void)load(w, 0, a);
  product->a = (region){w->n, w->code};
  begin(w, 1);
  (void)load(w, 0, b);
  product->b = (region){w->n, w->code};
  begin(w, 4);
  reg sum = emit(w, (instr){.op = REGION_ACC, .dtype = SN_F32});
  reg bias = load(w, 0, at2(w, BIAS, 0, 0, 1));
  (void)store(w, 0, arith(w, 0, ALU_add, sum, bias), at2(w, PRODUCT, 0, 7, 1));
  of->u.matmul = (matmul_part){
      .n_m = 1, .n_n = 1, .extent = {5, 7}, .n_accs = 1, .accs = acc, .epilogue = {w->n, w->code}};
}

static void write_commit(writer *w, int s) {
  part *of = add_step(w, s, STEP_POINTWISE, true, "update");
  begin(w, 6);
  reg half = number(w, 0.5), three = number(w, 3);
  reg now = load(w, 0, at2(w, W, 0, 7, 1));
  reg next = arith(w, 0, ALU_add, arith(w, 0, ALU_mul, now, half), three);
  (void)store(w, 0, next, at2(w, W_NEXT, 0, 7, 1));
  loop_over(w, of, 0, 1, 12, 7);
}

static const struct {
  value_home home;
  uint32_t index;
  int64_t offset;
  uint32_t in_place_of;
  int first, last;
} homes[VALUES] = {
    [A] = {HOME_INPUT, 0, 0, 0, -1, 1},       [B] = {HOME_INPUT, 1, 0, 0, -1, 0},
    [C] = {HOME_INPUT, 2, 0, 0, -1, 0},       [X] = {HOME_INPUT, 3, 0, 0, -1, 4},
    [BIAS] = {HOME_INPUT, 4, 0, 0, -1, 4},    [W] = {HOME_STATE, 0, 0, 0, -1, 5},
    [T] = {HOME_ARENA, 0, 0, 0, 0, 2},        [U] = {HOME_ARENA, 0, 512, 0, 1, 2},
    [Y] = {HOME_OUTPUT, 0, 0, 0, 2, 2},       [SOFT] = {HOME_OUTPUT, 1, 0, 0, 3, 3},
    [PRODUCT] = {HOME_OUTPUT, 2, 0, 0, 4, 4}, [W_NEXT] = {HOME_STATE, 0, 0, W, 5, 5},
};

static void write_values(program *p, const sn_graph *g, const sources *s) {
  for (uint32_t v = 1; v < VALUES; v++) {
    sn_type type = sn_value_type(g, s->of[v]);
    int64_t count = 1;
    for (int d = 0; d < type.shape.rank; d++)
      count *= type.shape.dim[d];
    p->values[v] = (program_value){.type = type,
                                   .count = count,
                                   .bytes = count * 4,
                                   .home = homes[v].home,
                                   .index = homes[v].index,
                                   .offset = homes[v].offset,
                                   .in_place_of = homes[v].in_place_of,
                                   .first = homes[v].first,
                                   .last = homes[v].last,
                                   .source = s->of[v].id};
  }
}

static bool write_leaves(program *p) {
  static const struct {
    const char *name;
    uint32_t value;
  } inputs[] = {{"a", A}, {"b", B}, {"c", C}, {"x", X}, {"bias", BIAS}},
    outputs[] = {{"y", Y}, {"soft", SOFT}, {"product", PRODUCT}};
  p->n_inputs = (int)COUNT_OF(inputs);
  p->n_outputs = (int)COUNT_OF(outputs);
  p->n_states = 1;
  p->inputs = arena_array(&p->memory, COUNT_OF(inputs), sizeof *p->inputs);
  p->outputs = arena_array(&p->memory, COUNT_OF(outputs), sizeof *p->outputs);
  p->states = arena_array(&p->memory, 1, sizeof *p->states);
  if (!p->inputs || !p->outputs || !p->states)
    return false;
  for (size_t i = 0; i < COUNT_OF(inputs); i++)
    p->inputs[i] = (program_leaf){
        .name = inputs[i].name, .value = inputs[i].value, .type = p->values[inputs[i].value].type};
  for (size_t i = 0; i < COUNT_OF(outputs); i++)
    p->outputs[i] = (program_leaf){.name = outputs[i].name,
                                   .value = outputs[i].value,
                                   .type = p->values[outputs[i].value].type};
  p->states[0] =
      (program_leaf){.name = "w", .value = W, .assigned = true, .type = p->values[W].type};
  return true;
}

static sn_status build_program(by_hand *h, const sources *s) {
  SN_TRY(program_create(h->g->ctx, &h->p));
  program *p = h->p;
  writer w = {.p = p};
  SN_TRY(program_copy_dims(p, h->g));
  p->n_values = VALUES;
  p->values = arena_array(&p->memory, VALUES, sizeof *p->values);
  p->steps = arena_array(&p->memory, 6, sizeof *p->steps);
  if (!p->values || !p->steps)
    return SN_ERR_NO_MEMORY;
  write_values(p, h->g, s);
  if (!write_leaves(p))
    return SN_ERR_NO_MEMORY;
  p->n_main = 5;
  p->n_commit = 1;
  p->arena_bytes = 1024;
  write_pair(&w, 0, ALU_mul, B, C, T);
  write_pair(&w, 1, ALU_sub, T, A, U);
  write_pair(&w, 2, ALU_add, U, T, Y);
  write_softmax(&w, 3);
  write_matmul(&w, 4);
  write_commit(&w, 5);
  return w.failed ? SN_ERR_NO_MEMORY : SN_OK;
}

static sn_status start(sn_ctx *ctx, by_hand *h) {
  sources s = {0};
  *h = (by_hand){0};
  SN_TRY(build_graph(ctx, &h->g, &s));
  return build_program(h, &s);
}

static void end(by_hand *h) {
  program_destroy(h->p);
  sn_graph_destroy(h->g);
}

/* --- the tests --- */

static bool has_word(const char *message, const char *const *words) {
  for (; *words; words++)
    if (strstr(message, *words))
      return true;
  return false;
}

TEST(a_program_by_hand_passes) {
  sn_ctx *ctx;
  by_hand h;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (start(ctx, &h) != SN_OK || plan_verify(h.p, h.g) != SN_OK)
    FAIL("%s", sn_ctx_message(ctx));
  end(&h);
  sn_ctx_destroy(ctx);
}

TEST(each_fault_in_it_is_found) {
  sn_ctx *ctx;
  by_hand h;
  fault_undo undo;
  int planted = 0;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(start(ctx, &h) == SN_OK))
    for (int kind = 0; kind < program_fault_kinds(); kind++)
      for (int n = 0; program_fault_plant(h.p, kind, n, &undo); n++, planted++) {
        sn_status status = plan_verify(h.p, h.g);
        program_fault_restore(&undo);
        if (status != SN_ERR_INTERNAL)
          FAIL("%s, opportunity %d: not noticed", program_fault_name(kind), n);
        else if (!has_word(sn_ctx_message(ctx), program_fault_words(kind)))
          FAIL("%s, opportunity %d: %s", program_fault_name(kind), n, sn_ctx_message(ctx));
      }
  CHECK(planted > 100);
  CHECK(plan_verify(h.p, h.g) == SN_OK);
  end(&h);
  sn_ctx_destroy(ctx);
}

/* Faults that only this program has. */
static void check_message(by_hand *h, const char *part_of_it) {
  CHECK_EQ_INT(plan_verify(h->p, h->g), SN_ERR_INTERNAL);
  CHECK_STR_HAS(sn_ctx_message(h->g->ctx), part_of_it);
}

TEST(messages_name_what_is_wrong) {
  sn_ctx *ctx;
  by_hand h;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(start(ctx, &h) == SN_OK)) {
    program *p = h.p;
    p->values[U].offset = 0;
    check_message(&h, "step 2 (add): value 4 (mul, graph value 7) is read after its bytes were");
    p->values[U].offset = 512;
    p->steps[2].barrier = false;
    check_message(&h, "step 2 (add): value 5");
    CHECK_STR_HAS(sn_ctx_message(ctx), "without a barrier between");
    p->steps[2].barrier = true;
    p->values[T].first = 1;
    check_message(&h, "value 4 (mul, graph value 7) is said to last from step 1 to 2");
    p->values[T].first = 0;
    const uint32_t waits[] = {Y};
    p->steps[1].n_after = 1;
    p->steps[1].after = waits;
    check_message(&h, "must be made before, but is not");
    p->steps[1].n_after = 0;
    p->outputs[0].name = "z";
    check_message(&h, "is not output \"y\" of the graph");
    p->outputs[0].name = "y";
    p->states[0].assigned = false;
    check_message(&h, "state \"w\" is not marked as assigned");
    p->states[0].assigned = true;
  }
  end(&h);
  sn_ctx_destroy(ctx);
}

TEST(memory_may_run_out) {
  fault_heap heap = {.fail_at = 0};
  do {
    by_hand h = {0};
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    sn_status status = ctx ? start(ctx, &h) : SN_ERR_NO_MEMORY;
    if (status == SN_OK)
      status = plan_verify(h.p, h.g);
    CHECK(status == (heap.failed ? SN_ERR_NO_MEMORY : SN_OK));
    end(&h);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
}
