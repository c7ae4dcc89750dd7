/* Epilogues of matmuls by whole rows, on drawn ones: scales, residuals, activations, picks, several stores, in place. Sums are of small
 * integers and so exact; the epilogue is evaluated point by point in f32 beside it, so that results must be equal to the last bit: on
 * every instruction set, on 1 and 3 threads, with caches of any size. */
#include "base/caches.h"
#include "support/cpu_case.h"
#include "support/test.h"

#include <stdlib.h>

enum { AXES = 4, MAX_VALUES = 32, MAX_CODE = 40 };
enum { IMAGE, HEIGHT, WIDTH, CHANNEL }; /* m has three axes, n one; k is the fifth */

typedef struct world {
  uint32_t seed;
  program p;
  program_value values[MAX_VALUES];
  float *address[MAX_VALUES], *before[MAX_VALUES], *expected[MAX_VALUES];
  term terms[MAX_VALUES][AXES];
  access places[MAX_VALUES];
  int64_t extent[AXES], k;
  instr a, b, code[MAX_CODE];
  int n;
  matmul_product product;
  matmul_acc acc;
  part part;
} world;

static uint32_t draw(world *w, uint32_t below) {
  w->seed = w->seed * 1664525u + 1013904223u;
  return (w->seed >> 8) % below;
}

static float *copy_of(const float *from, int64_t count) {
  float *x = malloc((size_t)count * sizeof *x + 1);
  if (!x)
    abort();
  memcpy(x, from, (size_t)count * sizeof *x);
  return x;
}

static uint32_t add_value(world *w, int64_t count) {
  uint32_t v = w->p.n_values++;
  w->values[v] = (program_value){.type = {.dtype = SN_F32}, .count = count};
  w->address[v] = malloc((size_t)count * sizeof(float) + 1);
  if (!w->address[v])
    abort();
  for (int64_t i = 0; i < count; i++)
    w->address[v][i] = (float)draw(w, 7) - 3;
  w->before[v] = copy_of(w->address[v], count);
  w->expected[v] = copy_of(w->address[v], count);
  return v;
}

/* A value over some axes, dense in the order given. */
static access place(world *w, const int *axes, int n) {
  int64_t count = 1;
  term *t = w->terms[w->p.n_values];
  for (int i = n - 1; i >= 0; i--) {
    t[i] = (term){.axis = (uint8_t)axes[i], .stride = count, .div = 1};
    count *= w->extent[axes[i]];
  }
  uint32_t v = add_value(w, count);
  return w->places[v] = (access){.value = v, .n_terms = n, .terms = t};
}

/* As results are: images, channels, pixels; or channels last. */
static access whole_place(world *w, bool last) {
  return last ? place(w, (const int[]){IMAGE, HEIGHT, WIDTH, CHANNEL}, 4)
              : place(w, (const int[]){IMAGE, CHANNEL, HEIGHT, WIDTH}, 4);
}

static reg add_instr(world *w, instr i) {
  w->code[w->n] = i;
  return (reg)w->n++;
}

static reg add_load(world *w, access at) {
  return add_instr(w, (instr){.op = REGION_LOAD, .dtype = SN_F32, .at = at});
}

/* Something to go on with: a number, a channel's, an image's, all its own, or an earlier register. */
static reg draw_other(world *w, bool last) {
  switch (draw(w, 7)) {
  case 0: return add_instr(w, (instr){.op = REGION_NUMBER, .dtype = SN_F32, .x = draw(w, 3)});
  case 1:
  case 2: return add_load(w, place(w, (const int[]){CHANNEL}, 1));
  case 3: return add_load(w, place(w, (const int[]){IMAGE, CHANNEL}, 2));
  case 4: return add_load(w, place(w, (const int[]){IMAGE}, 1));
  case 5: return 0;
  default: return add_load(w, whole_place(w, last));
  }
}

static reg draw_step(world *w, reg held, bool last) {
  static const alu codes[] = {ALU_add, ALU_sub, ALU_mul, ALU_max, ALU_min, ALU_neg, ALU_select};
  alu code = codes[draw(w, 7)];
  if (code == ALU_neg)
    return add_instr(w, (instr){.op = REGION_ALU, .code = ALU_neg, .dtype = SN_F32, .a = held});
  reg other = draw_other(w, last);
  if (code == ALU_select) { /* by another value, or by what is held: then that is picked */
    reg with = add_load(w, whole_place(w, last)), by = draw(w, 2) ? with : held;
    reg is = add_instr(
        w, (instr){.op = REGION_ALU, .code = ALU_gt, .dtype = SN_BOOL, .a = by, .b = other});
    bool first = draw(w, 3) > 0;
    held = by == held ? with : held;
    return add_instr(w, (instr){.op = REGION_ALU,
                                .code = ALU_select,
                                .dtype = SN_F32,
                                .a = is,
                                .b = first ? held : other,
                                .c = first ? other : held});
  }
  bool turned = draw(w, 3) == 0;
  return add_instr(w, (instr){.op = REGION_ALU,
                              .code = (uint8_t)code,
                              .dtype = SN_F32,
                              .a = turned ? other : held,
                              .b = turned ? held : other});
}

static void draw_epilogue(world *w, bool last) {
  reg held = add_instr(w, (instr){.op = REGION_ACC, .dtype = SN_F32});
  bool in_place = draw(w, 4) == 0;
  access own = {0};
  for (int steps = 1 + (int)draw(w, 5); steps > 0; steps--) {
    held = draw_step(w, held, last);
    if (draw(w, 4) == 0)
      held = add_instr(
          w, (instr){.op = REGION_STORE, .dtype = SN_F32, .a = held, .at = whole_place(w, last)});
  }
  reg with = held;
  if (in_place) { /* a residual that the result takes the place of */
    own = whole_place(w, last);
    with = add_load(w, own);
    held = add_instr(
        w, (instr){.op = REGION_ALU, .code = ALU_add, .dtype = SN_F32, .a = held, .b = with});
  }
  (void)add_instr(w, (instr){.op = REGION_STORE,
                             .dtype = SN_F32,
                             .a = held,
                             .at = in_place ? own : whole_place(w, last)});
  if (!in_place || draw(w, 2)) /* and that is wanted again */
    return;
  reg more = add_instr(
      w, (instr){.op = REGION_ALU, .code = ALU_sub, .dtype = SN_F32, .a = held, .b = with});
  (void)add_instr(
      w, (instr){.op = REGION_STORE, .dtype = SN_F32, .a = more, .at = whole_place(w, last)});
}

static world *draw_world(uint32_t seed) {
  static const int64_t ks[] = {40, 256, 300, 520}, widths[] = {1, 7, 13, 16, 33};
  world *w = calloc(1, sizeof *w);
  if (!w)
    abort();
  w->seed = seed * 2654435761u;
  w->p.values = w->values;
  w->p.n_values = 1;
  w->k = ks[draw(w, 4)];
  w->extent[IMAGE] = 1 + draw(w, 3);
  w->extent[HEIGHT] = 1 + draw(w, 12);
  w->extent[WIDTH] = widths[draw(w, 5)];
  w->extent[CHANNEL] = 1 + draw(w, 120);
  int64_t m = w->extent[0] * w->extent[1] * w->extent[2], n = w->extent[CHANNEL];
  term *ta = w->terms[w->p.n_values];
  for (int d = 0, by = (int)w->k; d < 3; d++) {
    ta[2 - d] = (term){.axis = (uint8_t)(2 - d), .stride = by, .div = 1};
    by *= (int)w->extent[2 - d];
  }
  ta[3] = (term){.axis = AXES, .stride = 1, .div = 1};
  w->a = (instr){.op = REGION_LOAD, .dtype = SN_F32};
  w->a.at = (access){.value = add_value(w, m * w->k), .n_terms = 4, .terms = ta};
  term *tb = w->terms[w->p.n_values];
  tb[0] = (term){.axis = CHANNEL, .stride = w->k, .div = 1};
  tb[1] = (term){.axis = AXES, .stride = 1, .div = 1};
  w->b = (instr){.op = REGION_LOAD, .dtype = SN_F32};
  w->b.at = (access){.value = add_value(w, n * w->k), .n_terms = 2, .terms = tb};
  draw_epilogue(w, draw(w, 3) == 0);
  w->product = (matmul_product){.n_k = 1, .k = {w->k}, .a = {1, &w->a}, .b = {1, &w->b}};
  w->acc = (matmul_acc){.n_products = 1, .products = &w->product};
  w->part.u.matmul = (matmul_part){.n_m = 3,
                                   .n_n = 1,
                                   .extent = {w->extent[0], w->extent[1], w->extent[2], n},
                                   .n_accs = 1,
                                   .accs = &w->acc,
                                   .epilogue = {w->n, w->code}};
  return w;
}

static void free_world(world *w) {
  for (uint32_t v = 1; v < w->p.n_values; v++) {
    free(w->address[v]);
    free(w->before[v]);
    free(w->expected[v]);
  }
  free(w);
}

/* --- what is expected --- */

static int64_t element(const access *at, const int64_t *coords) {
  int64_t i = at->base;
  for (int t = 0; t < at->n_terms; t++)
    i += at->terms[t].stride * coords[at->terms[t].axis];
  return i;
}

static float evaluate(const instr *i, const float *r) {
  float a = r[i->a], b = r[i->b], c = r[i->c];
  switch ((alu)i->code) {
  case ALU_add: return a + b;
  case ALU_sub: return a - b;
  case ALU_mul: return a * b;
  case ALU_max: return b < a ? a : b;
  case ALU_min: return a < b ? a : b;
  case ALU_neg: return -a;
  case ALU_gt: return a > b;
  default: return a != 0 ? b : c;
  }
}

static void expect_point(world *w, const int64_t *coords) {
  float r[MAX_CODE] = {0};
  int64_t with_k[AXES + 1];
  memcpy(with_k, coords, AXES * sizeof *coords);
  for (with_k[AXES] = 0; with_k[AXES] < w->k; with_k[AXES]++)
    r[0] += w->before[w->a.at.value][element(&w->a.at, with_k)] *
            w->before[w->b.at.value][element(&w->b.at, with_k)];
  for (int i = 1; i < w->n; i++) {
    const instr *x = &w->code[i];
    if (x->op == REGION_LOAD)
      r[i] = w->expected[x->at.value][element(&x->at, coords)];
    else if (x->op == REGION_NUMBER)
      r[i] = (float)x->x;
    else if (x->op == REGION_ALU)
      r[i] = evaluate(x, r);
    else
      r[i] = w->expected[x->at.value][element(&x->at, coords)] = r[x->a];
  }
}

static void expect_all(world *w) {
  int64_t c[AXES];
  for (c[0] = 0; c[0] < w->extent[0]; c[0]++)
    for (c[1] = 0; c[1] < w->extent[1]; c[1]++)
      for (c[2] = 0; c[2] < w->extent[2]; c[2]++)
        for (c[3] = 0; c[3] < w->extent[3]; c[3]++)
          expect_point(w, c);
}

/* --- */

static void run_world(world *w, int threads, const cpu_isa *isa) {
  sn_ctx *ctx = NULL;
  step s = {.kind = STEP_MATMUL, .n_parts = 1, .parts = &w->part};
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (uint32_t v = 1; v < w->p.n_values; v++)
    memcpy(w->address[v], w->before[v], (size_t)w->values[v].count * sizeof(float));
  cpu_case r = {.ctx = ctx,
                .program = &w->p,
                .addresses = (void *const *)(void *)w->address,
                .threads = threads,
                .isa = isa};
  CHECK_EQ_INT(cpu_case_run(&r, &s), SN_OK);
  CHECK_EQ_STR(sn_ctx_message(ctx), "");
  sn_ctx_destroy(ctx);
}

static void check_world(const world *w, uint32_t seed, int threads, int isa) {
  for (uint32_t v = 1; v < w->p.n_values && !test_failed(); v++)
    for (int64_t i = 0; i < w->values[v].count && !test_failed(); i++)
      if (memcmp(&w->address[v][i], &w->expected[v][i], sizeof(float)) != 0)
        FAIL("seed %u, %d threads, set %d, value %u, element %lld: expected %.9g, got %.9g", seed,
             threads, isa, v, (long long)i, (double)w->expected[v][i], (double)w->address[v][i]);
}

static void check_seeds(uint32_t from, uint32_t to) {
  for (uint32_t seed = from; seed < to && !test_failed(); seed++) {
    world *w = draw_world(seed);
    expect_all(w);
    for (int isa = 0; cpu_isa_at(isa) && !test_failed(); isa++)
      for (int threads = 1; threads <= 3; threads += 2) {
        run_world(w, threads, cpu_isa_at(isa));
        check_world(w, seed, threads, isa);
      }
    free_world(w);
  }
}

TEST(drawn_epilogues) { check_seeds(0, 150); }
TEST(drawn_epilogues_with_small_caches) {
  caches_pretend((cache_sizes){128 << 10, 512 << 10});
  check_seeds(150, 220);
  caches_pretend((cache_sizes){0});
}
TEST(drawn_epilogues_with_large_caches) {
  caches_pretend((cache_sizes){4 << 20, 64 << 20});
  check_seeds(220, 290);
  caches_pretend((cache_sizes){0});
}

TEST(caches_have_sizes) {
  cache_sizes c = caches_get(), again = caches_get();
  CHECK(c.second >= 128 << 10);
  CHECK(c.third >= c.second);
  CHECK_EQ_INT(c.second, again.second);
  CHECK_EQ_INT(c.third, again.third);
}
