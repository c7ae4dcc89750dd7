/* plan_order on random programs: dependencies hold, the peak never rises, small programs come close to the best order that there
 * is, independent steps come to stand side by side. */
#include "support/fault.h"
#include "support/program_make.h"
#include "support/test.h"

#include <time.h>

static sn_ctx *ctx;

static bool waits_for(const step *s, uint32_t v) {
  for (int i = 0; i < s->n_after; i++)
    if (s->after[i] == v)
      return true;
  return false;
}

/* Whether b, which stood after a, must stay after it. */
static bool depends(const program *p, const step *a, const step *b) {
  for (uint32_t v = 1; v < p->n_values; v++) {
    bool a_reads = made_reads(a, v), a_writes = made_writes(a, v);
    if (a_writes && (made_reads(b, v) || waits_for(b, v)))
      return true;
    if (a_reads && made_writes(b, v))
      return true;
    if (!a_reads && !a_writes)
      continue;
    for (uint32_t u = 1; u < p->n_values; u++) {
      const program_value *x = &p->values[v], *y = &p->values[u];
      bool same_state =
          u != v && x->home == HOME_STATE && y->home == HOME_STATE && x->index == y->index;
      if ((y->in_place_of == v || (same_state && a_reads)) && made_writes(b, u))
        return true;
      if (same_state && a_writes && (made_reads(b, u) || made_writes(b, u)))
        return true;
    }
  }
  return false;
}

static int section_of(const program *p, int number) {
  return (number >= p->n_prepare) + (number >= p->n_prepare + p->n_main);
}

/* made[i]: the steps as they were made. */
static void check_order(const program *p, const step *made) {
  int n = program_steps(p), now[512];
  for (int i = 0; i < n; i++)
    now[i] = -1;
  for (int i = 0; i < n; i++) {
    int number = (int)p->steps[i].flops;
    if (!CHECK(number >= 0 && number < n && now[number] < 0))
      return;
    now[number] = i;
    CHECK_EQ_INT(section_of(p, i), section_of(p, number));
  }
  for (int a = 0; a < n; a++)
    for (int b = a + 1; b < n; b++)
      if (now[b] < now[a] && depends(p, &made[a], &made[b]))
        FAIL("step %d came after %d and stands before it", b, a);
}

static step *copy_steps(program *p) {
  return arena_copy(&p->memory, p->steps, (size_t)program_steps(p) * sizeof *p->steps);
}

TEST(keeps_dependencies_and_never_raises_the_peak) {
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  int lowered = 0;
  for (uint64_t seed = 1; seed <= 150 && !test_failed(); seed++) {
    random_program how = {.seed = seed, .steps = 5 + (int)seed % 60, .largest = 4096};
    how.plain = seed % 5 == 0;
    program *p = make_random_program(ctx, &how);
    REQUIRE(p);
    step *made = copy_steps(p);
    int64_t before = made_peak(p);
    CHECK_EQ_INT(plan_order(p, ctx), SN_OK);
    check_order(p, made);
    int64_t after = made_peak(p);
    CHECK(after <= before);
    lowered += after < before;
    if (test_failed())
      FAIL("seed %d: peak %lld was %lld", (int)seed, (long long)after, (long long)before);
    program_destroy(p);
  }
  CHECK(lowered > 100); /* random orders are seldom good ones */
  sn_ctx_destroy(ctx);
}

/* --- the best order, by trying all --- */

typedef struct trial {
  program *p;
  const step *made;
  int n;
  bool before[10][10];
  int64_t best;
} trial;

static void try_all(trial *t, int placed, unsigned used) {
  if (placed == t->n) {
    int64_t peak = made_peak(t->p);
    t->best = t->best < 0 ? peak : min_i64(t->best, peak);
    return;
  }
  for (int i = 0; i < t->n; i++) {
    bool ready = !(used >> i & 1);
    for (int k = 0; k < t->n && ready; k++)
      ready = !t->before[k][i] || (used >> k & 1);
    if (!ready)
      continue;
    t->p->steps[placed] = t->made[i];
    try_all(t, placed + 1, used | 1u << i);
  }
}

TEST(small_programs_come_close_to_the_best_order) {
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  double worst = 1, sum = 0;
  int n = 0, best = 0;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    random_program how = {.seed = 1000 + seed, .steps = 7, .largest = 4096, .plain = true};
    program *p = make_random_program(ctx, &how);
    REQUIRE(p);
    step *made = copy_steps(p);
    CHECK_EQ_INT(plan_order(p, ctx), SN_OK);
    int64_t found = made_peak(p);
    trial t = {.p = p, .made = made, .n = program_steps(p), .best = -1};
    for (int a = 0; a < t.n; a++)
      for (int b = a + 1; b < t.n; b++)
        t.before[a][b] = depends(p, &made[a], &made[b]);
    try_all(&t, 0, 0);
    CHECK(t.best <= found);
    if (t.best > 0) {
      double ratio = (double)found / (double)t.best;
      worst = ratio > worst ? ratio : worst;
      sum += ratio;
      best += found == t.best;
      n++;
    }
    program_destroy(p);
  }
  if (!CHECK(n > 40) || !CHECK(sum / n < 1.01) || !CHECK(best * 10 >= n * 9))
    FAIL("mean %.4f, worst %.4f, the best in %d of %d", sum / n, worst, best, n);
  sn_ctx_destroy(ctx);
}

/* --- by hand --- */

/* Wide values that are all made first and used one by one: each should be made just before its use. */
TEST(sinks_what_is_used_late) {
  enum { N = 20 };
  program_make m;
  uint32_t wide[N], narrow = 0;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program_make_start(&m, ctx);
  uint32_t x = make_value(&m, HOME_INPUT, 64);
  for (int i = 0; i < N; i++) {
    wide[i] = make_value(&m, HOME_ARENA, 6400);
    make_step(&m, (uint32_t[]){x, 0}, (uint32_t[]){wide[i], 0});
  }
  for (int i = 0; i < N; i++) {
    uint32_t sum = make_value(&m, HOME_ARENA, 64);
    make_step(&m, (uint32_t[]){wide[i], narrow, 0}, (uint32_t[]){sum, 0});
    narrow = sum;
  }
  program *p = program_make_end(&m, 0, 0);
  REQUIRE(p);
  CHECK_EQ_INT(plan_order(p, ctx), SN_OK);
  CHECK_EQ_INT(made_peak(p), 6400 + 128);
  program_destroy(p);
  sn_ctx_destroy(ctx);
}

/* Two chains one after the other, with room for both at once: they should run side by side. What follows would rise above the
 * peak if it were drawn forward: by itself (r beside p), or for those that it overtakes (c before big). */
TEST(draws_independent_steps_together_as_far_as_there_is_room) {
  enum { N = 6 };
  program_make m;
  uint32_t last[2];
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program_make_start(&m, ctx);
  uint32_t x = make_value(&m, HOME_INPUT, 64);
  for (int c = 0; c < 2; c++) {
    last[c] = x;
    for (int i = 0; i < N; i++) {
      uint32_t next = make_value(&m, HOME_ARENA, 64);
      make_step(&m, (uint32_t[]){last[c], 0}, (uint32_t[]){next, 0});
      last[c] = next;
    }
  }
  uint32_t wide = make_value(&m, HOME_ARENA, 1024); /* makes room */
  make_step(&m, (uint32_t[]){last[0], last[1], 0}, (uint32_t[]){wide, 0});
  uint32_t p1 = make_value(&m, HOME_ARENA, 1024), q = make_value(&m, HOME_ARENA, 64);
  uint32_t r = make_value(&m, HOME_ARENA, 1024), s = make_value(&m, HOME_ARENA, 64);
  make_step(&m, (uint32_t[]){x, 0}, (uint32_t[]){p1, 0});
  make_step(&m, (uint32_t[]){p1, 0}, (uint32_t[]){q, 0});
  make_step(&m, (uint32_t[]){x, 0}, (uint32_t[]){r, 0});
  make_step(&m, (uint32_t[]){q, r, 0}, (uint32_t[]){s, 0});
  uint32_t a0 = make_value(&m, HOME_ARENA, 64), big = make_value(&m, HOME_ARENA, 1024 - 64);
  uint32_t e = make_value(&m, HOME_ARENA, 64), c = make_value(&m, HOME_ARENA, 512);
  make_step(&m, (uint32_t[]){s, 0}, (uint32_t[]){a0, 0});
  make_step(&m, (uint32_t[]){a0, 0}, (uint32_t[]){big, 0});
  make_step(&m, (uint32_t[]){big, 0}, (uint32_t[]){e, 0});
  make_step(&m, (uint32_t[]){x, 0}, (uint32_t[]){c, 0});
  make_step(&m, (uint32_t[]){e, c, 0}, (uint32_t[]){0});
  program *p = program_make_end(&m, 0, 0);
  REQUIRE(p);
  CHECK_EQ_INT(plan_order(p, ctx), SN_OK);
  CHECK_EQ_INT(made_peak(p), 1024 + 128);
  CHECK_EQ_INT(plan_place(p, ctx), SN_OK);
  CHECK_EQ_INT(plan_barriers(p, ctx), SN_OK);
  int barriers = 0;
  for (int i = 0; i < program_steps(p); i++)
    barriers += p->steps[i].barrier && p->steps[i].flops <= 2 * N;
  CHECK_EQ_INT(barriers, N);
  program_destroy(p);
  sn_ctx_destroy(ctx);
}

/* The old value of a state must be read before the new one is written, even if the other way round takes less memory. */
TEST(a_state_is_read_before_it_is_written) {
  program_make m;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program_make_start(&m, ctx);
  uint32_t old = make_value(&m, HOME_STATE, 64), fresh = make_value(&m, HOME_STATE, 64);
  uint32_t t = make_value(&m, HOME_ARENA, 6400), u = make_value(&m, HOME_ARENA, 6400);
  uint32_t w = make_value(&m, HOME_ARENA, 64), other = make_value(&m, HOME_STATE, 64);
  make_step(&m, (uint32_t[]){old, 0}, (uint32_t[]){t, 0});
  make_step(&m, (uint32_t[]){0}, (uint32_t[]){u, 0});
  make_step(&m, (uint32_t[]){u, 0}, (uint32_t[]){fresh, w, 0});
  make_step(&m, (uint32_t[]){t, w, 0}, (uint32_t[]){other, 0});
  program *p = program_make_end(&m, 0, 4);
  REQUIRE(p);
  p->values[fresh].index = p->values[old].index;
  step *made = copy_steps(p);
  CHECK_EQ_INT(plan_order(p, ctx), SN_OK);
  check_order(p, made);
  p->values[fresh].index = 1; /* another state: now it is free */
  CHECK_EQ_INT(plan_order(p, ctx), SN_OK);
  CHECK_EQ_INT(made_peak(p), 6400 + 64);
  program_destroy(p);
  sn_ctx_destroy(ctx);
}

TEST(is_the_same_every_time) {
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (uint64_t seed = 1; seed <= 10; seed++) {
    random_program how = {.seed = seed, .steps = 80, .largest = 2048};
    program *a = make_random_program(ctx, &how), *b = make_random_program(ctx, &how);
    REQUIRE(a && b);
    CHECK(plan_order(a, ctx) == SN_OK && plan_order(b, ctx) == SN_OK);
    for (int i = 0; i < program_steps(a); i++)
      CHECK(a->steps[i].flops == b->steps[i].flops);
    program_destroy(a);
    program_destroy(b);
  }
  sn_ctx_destroy(ctx);
}

TEST(refuses_steps_on_values_that_are_not_there) {
  program_make m;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program_make_start(&m, ctx);
  uint32_t x = make_value(&m, HOME_ARENA, 64);
  make_step(&m, (uint32_t[]){0}, (uint32_t[]){x, 0});
  make_step(&m, (uint32_t[]){x + 7, 0}, (uint32_t[]){x, 0});
  program *p = program_make_end(&m, 0, 0);
  REQUIRE(p);
  CHECK_EQ_INT(plan_order(p, ctx), SN_ERR_INTERNAL);
  CHECK_STR_HAS(sn_ctx_message(ctx), "step 1 names value 8 of 2");
  program_destroy(p);
  sn_ctx_destroy(ctx);
}

/* Near-linear: a quadratic pass would take minutes on this. */
TEST(orders_20000_steps_quickly) {
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program *p = make_training_program(ctx, 1, 1430);
  REQUIRE(p);
  CHECK(program_steps(p) > 20000);
  clock_t begin = clock();
  CHECK_EQ_INT(plan_order(p, ctx), SN_OK);
  double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
  if (!CHECK(seconds < 3))
    FAIL("%d steps took %.3f s", program_steps(p), seconds);
  program_destroy(p);
  sn_ctx_destroy(ctx);
}

TEST(survives_every_failed_allocation) {
  fault_heap heap = {.fail_at = 0};
  do {
    fault_heap_start(&heap);
    sn_ctx *c = fault_ctx(&heap);
    random_program how = {.seed = 3, .steps = 40, .largest = 4096};
    program *p = c ? make_random_program(c, &how) : NULL;
    if (p) {
      sn_status status = plan_order(p, c);
      CHECK(status == (heap.failed ? SN_ERR_NO_MEMORY : SN_OK));
    }
    program_destroy(p);
    sn_ctx_destroy(c);
  } while (fault_heap_end(&heap));
}
