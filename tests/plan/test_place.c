/* plan_place on random and training-like programs: no two values that live at once overlap, lives and the lower bound are what
 * counting gives, the arena comes close to the bound. */
#include "plan/pack.h"
#include "support/fault.h"
#include "support/program_make.h"
#include "support/test.h"

#include <time.h>

static sn_ctx *ctx;

static bool overlap(int64_t a, int64_t a_size, int64_t b, int64_t b_size) {
  return a_size > 0 && b_size > 0 && a < b + b_size && b < a + a_size;
}

/* The steps during which a block's memory is its own; prepared values that a run reads are kept for ever. */
static bool life_of(const program *p, uint32_t root, int *first, int *last) {
  if (!made_life(p, root, first, last))
    return false;
  if (p->values[root].home == HOME_PREPARED && *last >= p->n_prepare)
    *last = program_steps(p);
  return true;
}

static void check_pair(const program *p, uint32_t a, uint32_t b) {
  const program_value *x = &p->values[a], *y = &p->values[b];
  int x_first, x_last, y_first, y_last;
  if (x->home != y->home || made_root(p, a) == made_root(p, b) ||
      !overlap(x->offset, x->bytes, y->offset, y->bytes) ||
      !life_of(p, made_root(p, a), &x_first, &x_last) ||
      !life_of(p, made_root(p, b), &y_first, &y_last))
    return;
  if (x_first <= y_last && y_first <= x_last)
    FAIL("v%u (%lld+%lld, steps %d to %d) overlaps v%u (%lld+%lld, steps %d to %d)", a,
         (long long)x->offset, (long long)x->bytes, x_first, x_last, b, (long long)y->offset,
         (long long)y->bytes, y_first, y_last);
}

static void check_value(const program *p, uint32_t v) {
  const program_value *x = &p->values[v];
  int first = -1, last = -1;
  for (int s = 0; s < program_steps(p); s++) {
    bool writes = made_writes(&p->steps[s], v);
    first = writes && first < 0 ? s : first;
    last = writes || made_reads(&p->steps[s], v) ? s : last;
  }
  CHECK_EQ_INT(x->first, first);
  CHECK_EQ_INT(x->last, last);
  if (x->home > HOME_PREPARED)
    return;
  CHECK_EQ_INT(x->offset % PROGRAM_ALIGN, 0);
  CHECK(x->offset >= 0);
  CHECK(x->offset + x->bytes <= (x->home == HOME_ARENA ? p->arena_bytes : p->prepared_bytes));
  CHECK_EQ_INT(x->offset, p->values[made_root(p, v)].offset);
}

static void check_places(const program *p) {
  for (uint32_t v = 1; v < p->n_values; v++) {
    check_value(p, v);
    for (uint32_t u = 1; u < v && p->values[v].home <= HOME_PREPARED; u++)
      check_pair(p, u, v);
  }
  CHECK_EQ_INT(p->lower_bound, made_peak(p));
  CHECK(p->arena_bytes >= p->lower_bound);
}

static double ratio_of(const program *p) {
  return p->lower_bound ? (double)p->arena_bytes / (double)p->lower_bound : 1;
}

TEST(no_two_live_values_overlap) {
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  double sum = 0;
  int n = 0;
  for (uint64_t seed = 1; seed <= 120 && !test_failed(); seed++, n++) {
    random_program how = {.seed = seed, .steps = 3 + (int)seed % 60, .largest = 4096};
    program *p = make_random_program(ctx, &how);
    REQUIRE(p);
    if (seed % 2)
      CHECK_EQ_INT(plan_order(p, ctx), SN_OK);
    if (seed % 3)
      CHECK_EQ_INT(plan_in_place(p, ctx), SN_OK);
    CHECK_EQ_INT(plan_place(p, ctx), SN_OK);
    check_places(p);
    sum += ratio_of(p);
    if (test_failed())
      FAIL("seed %d", (int)seed);
    program_destroy(p);
  }
  if (!CHECK(sum / n < 1.02))
    FAIL("mean ratio %.4f", sum / n);
  sn_ctx_destroy(ctx);
}

TEST_WALK(training_comes_close_to_the_bound) {
  static const int layers[] = {1, 4, 12, 40, 140};
  for (size_t i = 0; i < COUNT_OF(layers); i++) {
    if (!test_begin("%d_layers", layers[i]))
      continue;
    for (uint64_t seed = 1; seed <= 5; seed++) {
      if (!CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
        break;
      program *p = make_training_program(ctx, seed, layers[i]);
      CHECK(p && plan_order(p, ctx) == SN_OK && plan_in_place(p, ctx) == SN_OK);
      CHECK(p && plan_place(p, ctx) == SN_OK);
      if (p && !CHECK(ratio_of(p) <= 1.05))
        FAIL("ratio %.4f", ratio_of(p));
      if (p && layers[i] <= 4)
        check_places(p);
      program_destroy(p);
      sn_ctx_destroy(ctx);
    }
    test_end();
  }
}

/* Near-linear: a quadratic pass would take minutes on this. */
TEST(places_20000_values_quickly) {
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program *p = make_training_program(ctx, 1, 1430);
  REQUIRE(p);
  CHECK(p->n_values > 20000);
  clock_t begin = clock();
  CHECK_EQ_INT(plan_in_place(p, ctx), SN_OK);
  CHECK_EQ_INT(plan_place(p, ctx), SN_OK);
  CHECK_EQ_INT(plan_barriers(p, ctx), SN_OK);
  double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
  if (!CHECK(seconds < 3) || !CHECK(ratio_of(p) <= 1.05))
    FAIL("%u values took %.3f s, ratio %.4f", p->n_values, seconds, ratio_of(p));
  program_destroy(p);
  sn_ctx_destroy(ctx);
}

/* Blocks at random, many of them, where no list is as tall as its bound: time is bounded by counted work. */
TEST(packs_random_lives_within_its_work) {
  enum { N = 20000 };
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  arena memory;
  arena_init(&memory, ctx);
  pack_block *b = arena_array(&memory, N, sizeof *b);
  int64_t *alive = arena_array(&memory, N + 1, sizeof *alive), now = 0, bound = 0, height;
  REQUIRE(b && alive);
  uint64_t state = 5;
  for (int i = 0; i < N; i++) {
    b[i].size = 1 + make_draw(&state, 1000);
    b[i].first = make_draw(&state, N);
    b[i].last = (int)min_i64(N - 1, b[i].first + make_draw(&state, N / 10));
    alive[b[i].first] += b[i].size;
    alive[b[i].last + 1] -= b[i].size;
  }
  for (int t = 0; t < N; t++)
    bound = max_i64(bound, now += alive[t]);
  clock_t begin = clock();
  CHECK_EQ_INT(pack_blocks(b, N, N, bound, &memory, &height), SN_OK);
  double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
  double ratio = (double)height / (double)bound;
  if (!CHECK(seconds < 3) || !CHECK(ratio < 1.06))
    FAIL("%.3f s, ratio %.4f", seconds, ratio);
  arena_clear(&memory);
  sn_ctx_destroy(ctx);
}

static int64_t bound_of(const pack_block *b, int n, int n_times) {
  int64_t bound = 0;
  for (int t = 0; t < n_times; t++) {
    int64_t alive = 0;
    for (int i = 0; i < n; i++)
      alive += b[i].first <= t && t <= b[i].last ? b[i].size : 0;
    bound = max_i64(bound, alive);
  }
  return bound;
}

/* Where skylines leave gaps, the search must close most of them. */
TEST(packs_few_blocks_tightly) {
  enum { N = 60, RUNS = 60 };
  double sum = 0;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (uint64_t seed = 1; seed <= RUNS; seed++) {
    pack_block b[N];
    uint64_t state = seed;
    for (int i = 0; i < N; i++) {
      int first = make_draw(&state, N), last = first + make_draw(&state, N / 3);
      b[i] = (pack_block){1 + make_draw(&state, 50), first, last < N ? last : N - 1, 0};
    }
    arena memory;
    arena_init(&memory, ctx);
    int64_t bound = bound_of(b, N, N), height;
    CHECK_EQ_INT(pack_blocks(b, N, N, bound, &memory, &height), SN_OK);
    arena_clear(&memory);
    for (int i = 0; i < N; i++)
      for (int k = 0; k < i; k++)
        CHECK(b[i].first > b[k].last || b[k].first > b[i].last ||
              !overlap(b[i].offset, b[i].size, b[k].offset, b[k].size));
    sum += (double)height / (double)bound;
  }
  if (!CHECK(sum / RUNS < 1.008))
    FAIL("mean ratio %.4f", sum / RUNS);
  sn_ctx_destroy(ctx);
}

/* --- by hand --- */

TEST(shares_memory_in_place_and_keeps_what_is_prepared) {
  program_make m;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program_make_start(&m, ctx);
  uint32_t state = make_value(&m, HOME_STATE, 640);
  uint32_t brief = make_value(&m, HOME_PREPARED, 640), kept = make_value(&m, HOME_PREPARED, 64);
  uint32_t late = make_value(&m, HOME_PREPARED, 640);
  uint32_t a = make_value(&m, HOME_ARENA, 640), b = make_value(&m, HOME_ARENA, 640);
  uint32_t none = make_value(&m, HOME_ARENA, 0);
  make_step(&m, (uint32_t[]){state, 0}, (uint32_t[]){brief, 0});
  make_step(&m, (uint32_t[]){brief, 0}, (uint32_t[]){kept, 0});
  make_step(&m, (uint32_t[]){kept, 0}, (uint32_t[]){late, 0});
  make_step(&m, (uint32_t[]){late, 0}, (uint32_t[]){a, none, 0});
  make_step(&m, (uint32_t[]){a, 0}, (uint32_t[]){b, 0});
  make_step(&m, (uint32_t[]){b, kept, none, 0}, (uint32_t[]){0});
  program *p = program_make_end(&m, 3, 0);
  REQUIRE(p);
  p->values[b].in_place_of = a;
  CHECK_EQ_INT(plan_place(p, ctx), SN_OK);
  check_places(p);
  CHECK_EQ_INT(p->arena_bytes, 640);
  CHECK_EQ_INT(p->prepared_bytes, 704);
  CHECK_EQ_INT(p->values[late].offset, p->values[brief].offset);
  CHECK_EQ_INT(p->values[state].first, -1);
  program_destroy(p);
  sn_ctx_destroy(ctx);
}

TEST(leaves_memory_alone_within_a_group_where_there_is_room) {
  program_make m;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program_make_start(&m, ctx);
  uint32_t x = make_value(&m, HOME_INPUT, 64), v[7];
  for (int i = 0; i < 7; i++)
    v[i] = make_value(&m, HOME_ARENA, i == 4 || i == 6 ? 1024 : 64);
  make_step(&m, (uint32_t[]){x, 0}, (uint32_t[]){v[0], 0});
  make_step(&m, (uint32_t[]){x, 0}, (uint32_t[]){v[1], 0});
  make_step(&m, (uint32_t[]){v[0], 0}, (uint32_t[]){v[2], 0}); /* v0 dies; v3 must not lie there */
  make_step(&m, (uint32_t[]){v[1], 0}, (uint32_t[]){v[3], 0});
  make_step(&m, (uint32_t[]){v[2], v[3], 0}, (uint32_t[]){v[4], 0});
  make_step(&m, (uint32_t[]){v[4], 0}, (uint32_t[]){v[5], 0});
  make_step(&m, (uint32_t[]){x, 0},
            (uint32_t[]){v[6], 0}); /* no room: v6 must lie on v4 and wait */
  make_step(&m, (uint32_t[]){v[5], v[6], 0}, (uint32_t[]){0});
  program *p = program_make_end(&m, 0, 0);
  REQUIRE(p);
  CHECK_EQ_INT(plan_place(p, ctx), SN_OK);
  check_places(p);
  CHECK(p->values[v[3]].offset != p->values[v[0]].offset);
  CHECK_EQ_INT(p->arena_bytes, p->lower_bound);
  CHECK_EQ_INT(plan_barriers(p, ctx), SN_OK);
  static const bool expected[] = {false, false, true, false, true, true, true, true};
  for (int s = 0; s < program_steps(p); s++)
    CHECK_EQ_INT(p->steps[s].barrier, expected[s]);
  program_destroy(p);
  sn_ctx_destroy(ctx);
}

TEST(an_empty_program_takes_nothing) {
  program_make m;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program_make_start(&m, ctx);
  program *p = program_make_end(&m, 0, 0);
  REQUIRE(p);
  CHECK(plan_order(p, ctx) == SN_OK && plan_in_place(p, ctx) == SN_OK);
  CHECK(plan_place(p, ctx) == SN_OK && plan_barriers(p, ctx) == SN_OK);
  CHECK_EQ_INT(p->arena_bytes, 0);
  CHECK_EQ_INT(p->prepared_bytes, 0);
  program_destroy(p);
  sn_ctx_destroy(ctx);
}

TEST(says_so_when_memory_cannot_be_counted) {
  program_make m;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program_make_start(&m, ctx);
  uint32_t a = make_value(&m, HOME_ARENA, INT64_MAX - 63), b = make_value(&m, HOME_ARENA, 4096);
  make_step(&m, (uint32_t[]){0}, (uint32_t[]){a, 0});
  make_step(&m, (uint32_t[]){0}, (uint32_t[]){b, 0});
  make_step(&m, (uint32_t[]){a, b, 0}, (uint32_t[]){0});
  program *p = program_make_end(&m, 0, 0);
  REQUIRE(p);
  CHECK_EQ_INT(plan_order(p, ctx), SN_OK);
  CHECK_EQ_INT(plan_place(p, ctx), SN_ERR_NO_MEMORY);
  CHECK_STR_HAS(sn_ctx_message(ctx), "value 2 of 4096 bytes");
  p->values[a].bytes = 4;
  p->values[b].in_place_of = a;
  p->values[a].in_place_of = b;
  CHECK_EQ_INT(plan_place(p, ctx), SN_ERR_INTERNAL);
  p->values[a].in_place_of = 0;
  p->values[a].home = HOME_STATE;
  CHECK_EQ_INT(plan_place(p, ctx), SN_ERR_INTERNAL);
  CHECK_STR_HAS(sn_ctx_message(ctx), "lives elsewhere");
  program_destroy(p);
  sn_ctx_destroy(ctx);
}

TEST(is_the_same_every_time) {
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (uint64_t seed = 1; seed <= 10; seed++) {
    random_program how = {.seed = seed, .steps = 120, .largest = 8192};
    program *a = make_random_program(ctx, &how), *b = make_random_program(ctx, &how);
    REQUIRE(a && b);
    CHECK(plan_place(a, ctx) == SN_OK && plan_place(b, ctx) == SN_OK);
    CHECK(plan_place(b, ctx) == SN_OK); /* what it found before is not looked at */
    for (uint32_t v = 1; v < a->n_values; v++)
      CHECK_EQ_INT(a->values[v].offset, b->values[v].offset);
    program_destroy(a);
    program_destroy(b);
  }
  sn_ctx_destroy(ctx);
}

TEST(survives_every_failed_allocation) {
  fault_heap heap = {.fail_at = 0};
  do {
    fault_heap_start(&heap);
    sn_ctx *c = fault_ctx(&heap);
    random_program how = {.seed = 12, .steps = 200, .largest = 4096};
    program *p = c ? make_random_program(c, &how) : NULL;
    if (p) {
      sn_status status = plan_in_place(p, c);
      status = status == SN_OK ? plan_place(p, c) : status;
      CHECK(status == (heap.failed ? SN_ERR_NO_MEMORY : SN_OK));
    }
    program_destroy(p);
    sn_ctx_destroy(c);
  } while (fault_heap_end(&heap));
}
