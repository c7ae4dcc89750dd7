/* plan_barriers on random programs, against a look at every pair of steps: no two steps of a group conflict, and every flag is
 * needed. */
#include "support/fault.h"
#include "support/program_make.h"
#include "support/test.h"

static sn_ctx *ctx;

static bool same_bytes(const program_value *x, const program_value *y) {
  if (x->home != y->home || x->home == HOME_INPUT || x->home == HOME_CONSTANT)
    return false;
  if (x->home == HOME_STATE || x->home == HOME_OUTPUT)
    return x->index == y->index && x->bytes > 0;
  return x->bytes > 0 && y->bytes > 0 && x->offset < y->offset + y->bytes &&
         y->offset < x->offset + x->bytes;
}

static bool conflict(const program *p, const step *a, const step *b) {
  for (uint32_t v = 1; v < p->n_values; v++) {
    bool a_reads = made_reads(a, v), a_writes = made_writes(a, v);
    if (!a_reads && !a_writes)
      continue;
    for (uint32_t u = 1; u < p->n_values; u++) {
      if (!same_bytes(&p->values[v], &p->values[u]))
        continue;
      bool b_reads = made_reads(b, u), b_writes = made_writes(b, u);
      if ((a_writes && b_reads) || (a_reads && b_writes) || (a_writes && b_writes && u != v))
        return true;
    }
  }
  return false;
}

/* Whether a step conflicts with one since the last barrier before it. */
static bool conflicts_with_group(const program *p, int s) {
  for (int i = s - 1; i >= 0; i--) {
    if (conflict(p, &p->steps[i], &p->steps[s]))
      return true;
    if (p->steps[i].barrier)
      return false;
  }
  return false;
}

static void check_barriers(const program *p) {
  for (int s = 0; s < program_steps(p); s++) {
    bool begins = s > 0 && (s == p->n_prepare || s == p->n_prepare + p->n_main);
    bool needed = begins || conflicts_with_group(p, s);
    if (needed != p->steps[s].barrier)
      FAIL("step %d: %s", s, needed ? "has no barrier and needs one" : "has a barrier for nothing");
  }
}

TEST(flags_stand_where_they_must_and_nowhere_else) {
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  int without = 0;
  for (uint64_t seed = 1; seed <= 100 && !test_failed(); seed++) {
    random_program how = {.seed = seed, .steps = 3 + (int)seed % 50, .largest = 1024};
    program *p = make_random_program(ctx, &how);
    REQUIRE(p);
    if (seed % 2)
      CHECK_EQ_INT(plan_order(p, ctx), SN_OK);
    CHECK_EQ_INT(plan_in_place(p, ctx), SN_OK);
    CHECK_EQ_INT(plan_place(p, ctx), SN_OK);
    CHECK_EQ_INT(plan_barriers(p, ctx), SN_OK);
    check_barriers(p);
    for (int s = 1; s < program_steps(p); s++)
      without += !p->steps[s].barrier;
    if (test_failed())
      FAIL("seed %d", (int)seed);
    program_destroy(p);
  }
  CHECK(without > 100);
  sn_ctx_destroy(ctx);
}

/* Places that the planner would not choose: anything may lie over anything. (But no pieces: what one step writes never
 * overlaps, and they rely on it.) */
TEST(sees_every_overlap) {
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (uint64_t seed = 1; seed <= 60 && !test_failed(); seed++) {
    random_program how = {.seed = seed, .steps = 40, .largest = 256, .plain = true};
    program *p = make_random_program(ctx, &how);
    REQUIRE(p);
    uint64_t state = seed;
    for (uint32_t v = 1; v < p->n_values; v++)
      p->values[v].offset = 64 * make_draw(&state, 400);
    CHECK_EQ_INT(plan_barriers(p, ctx), SN_OK);
    check_barriers(p);
    program_destroy(p);
  }
  sn_ctx_destroy(ctx);
}

TEST(pieces_of_a_value_need_none_and_readers_do) {
  program_make m;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program_make_start(&m, ctx);
  uint32_t v = make_value(&m, HOME_ARENA, 128), out = make_value(&m, HOME_OUTPUT, 128);
  make_step(&m, (uint32_t[]){0}, (uint32_t[]){v, 0});
  make_step(&m, (uint32_t[]){0}, (uint32_t[]){v, 0});
  make_step(&m, (uint32_t[]){v, 0}, (uint32_t[]){out, 0});
  program *p = program_make_end(&m, 0, 0);
  REQUIRE(p);
  CHECK_EQ_INT(plan_place(p, ctx), SN_OK);
  CHECK_EQ_INT(plan_barriers(p, ctx), SN_OK);
  CHECK(!p->steps[0].barrier && !p->steps[1].barrier && p->steps[2].barrier);
  program_destroy(p);
  sn_ctx_destroy(ctx);
}

TEST(sections_wait_for_each_other) {
  program_make m;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  program_make_start(&m, ctx);
  for (int i = 0; i < 6; i++) {
    uint32_t v = make_value(&m, i < 2 ? HOME_PREPARED : i < 4 ? HOME_ARENA : HOME_STATE, 128);
    make_step(&m, (uint32_t[]){0}, (uint32_t[]){v, 0});
    if (!m.failed)
      m.p->values[v].offset = 128 * i;
  }
  program *p = program_make_end(&m, 2, 2);
  REQUIRE(p);
  CHECK_EQ_INT(plan_barriers(p, ctx), SN_OK);
  for (int s = 0; s < 6; s++)
    CHECK_EQ_INT(p->steps[s].barrier, s == 2 || s == 4);
  p->n_prepare = 0;
  p->n_main = 0;
  p->n_commit = 6;
  CHECK_EQ_INT(plan_barriers(p, ctx), SN_OK);
  for (int s = 0; s < 6; s++)
    CHECK(!p->steps[s].barrier);
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
      sn_status status = plan_barriers(p, c);
      CHECK(status == (heap.failed ? SN_ERR_NO_MEMORY : SN_OK));
    }
    program_destroy(p);
    sn_ctx_destroy(c);
  } while (fault_heap_end(&heap));
}
