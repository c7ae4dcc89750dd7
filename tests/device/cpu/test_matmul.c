/* The CPU's matmuls against a plain evaluation of their regions on drawn parts (support/matmul_world.h): sizes 0, 1, odd and
 * beyond a block. */
#include "support/cpu_case.h"
#include "support/matmul_world.h"
#include "support/test.h"

/* The number of threads and the instruction set follow the seed. */
static void run_part(matmul_world *w, uint32_t seed) {
  sn_ctx *ctx = NULL;
  int sets = 0;
  while (cpu_isa_at(sets))
    sets++;
  part parts[1] = {{.u.matmul = w->part}};
  step s = {.kind = STEP_MATMUL, .n_parts = 1, .parts = parts};
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  cpu_case r = {.ctx = ctx, .program = &w->p, .addresses = w->address};
  r.threads = 1 + (int)(seed % 4);
  r.isa = cpu_isa_at((int)(seed / 4) % sets);
  CHECK_EQ_INT(cpu_case_run(&r, &s), SN_OK);
  CHECK_EQ_STR(sn_ctx_message(ctx), "");
  CHECK_EQ_INT((int64_t)r.scratch_used, 0);
  CHECK(!r.failed);
  sn_ctx_destroy(ctx);
}

static void check_drawn(uint32_t first, uint32_t n, const int64_t *sizes, int n_sizes, int axes) {
  for (uint32_t seed = first; seed < first + n; seed++) {
    matmul_world *w = matmul_world_draw(seed, sizes, n_sizes, axes);
    if (matmul_world_work(w) < 5e6) {
      matmul_world_evaluate(w);
      run_part(w, seed);
      if (!matmul_world_check(w))
        FAIL("seed %u", seed);
    }
    matmul_world_free(w);
    if (test_failed())
      return;
  }
}

TEST(small_parts) {
  static const int64_t sizes[] = {0, 1, 2, 3, 4, 7};
  check_drawn(1, 3000, sizes, 6, 3);
}

TEST(vectors) {
  static const int64_t sizes[] = {1, 1, 3, 4, 70};
  check_drawn(10000, 600, sizes, 5, 1);
}

TEST(parts_of_many_tiles) {
  static const int64_t sizes[] = {13, 34, 1, 18};
  check_drawn(20000, 60, sizes, 4, 2);
}

TEST(parts_beyond_a_block) {
  static const int64_t sizes[] = {391, 20, 530, 3, 1};
  check_drawn(30000, 40, sizes, 5, 1);
}

TEST(long_vectors) {
  static const int64_t sizes[] = {2, 300, 4100};
  check_drawn(40000, 20, sizes, 3, 1);
}

/* Lines of k that are longer than what a thread takes at a time. */
TEST(one_long_line) {
  static const int64_t sizes[] = {1, 2, 70001};
  check_drawn(50000, 60, sizes, 3, 1);
}
