/* The Vulkan device's matmuls on the interpreter of SPIR-V, against a plain evaluation in doubles: drawn parts in
 * every way, with 32 and 64 bit indices, threads in any order; which way is chosen for which extents; sums of many
 * products. */
#include "device/vulkan/emit_matmul_sums.h"
#include "support/matmul_world.h"
#include "support/test.h"
#include "support/vm_step.h"

#include <math.h>
#include <stdlib.h>

/* --- drawn parts, in a way that the test gives --- */

static sn_status emit_way(emitter *e, const part *p, void *user) {
  matmul_way way = *(const matmul_way *)user;
  way.sorted = way.sorted && way.direct && sums_want_order(e, &p->u.matmul, 2);
  return emit_matmul_as(e, &p->u.matmul, &way, NULL, 0, 0);
}

static gpu_target target_of(uint32_t seed) {
  gpu_target t = vm_step_target(seed % 3 == 0 ? 4 : 132);
  t.f16 = t.bf16 = t.places = t.bf16_places = true;
  for (int i = 0; i < 3; i++)
    t.matrix[i] = 16;
  return t;
}

static void run_world(matmul_world *w, uint32_t seed, matmul_way *way) {
  sn_ctx *ctx = NULL;
  part parts[1] = {{.u.matmul = w->part}};
  step s = {.kind = STEP_MATMUL, .n_parts = 1, .parts = parts};
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  vm_step v = {.ctx = ctx, .program = &w->p, .addresses = w->address, .seed = seed};
  v.target = target_of(seed);
  v.wide = seed % 5 == 0;
  v.order = (vm_order)(seed % 3);
  if (way)
    way->sorted = seed % 2; /* where it can be */
  v.emit = way ? emit_way : NULL;
  v.user = way;
  if (!vm_step_run(&v, &s))
    FAIL("%s", v.finding);
  sn_ctx_destroy(ctx);
}

static void check_drawn(uint32_t first, uint32_t n, const int64_t *sizes, int n_sizes, int axes,
                        matmul_way *way) {
  for (uint32_t seed = first; seed < first + n && !test_failed(); seed++) {
    matmul_world *w = matmul_world_draw(seed, sizes, n_sizes, axes);
    gpu_target t = target_of(seed);
    if (matmul_world_work(w) < 3e5 &&
        (!way || !way->matrix || matrix_fits(way->matrix, &t, &w->part, way->products))) {
      matmul_world_evaluate(w);
      run_world(w, seed, way);
      if (test_failed() || !matmul_world_check(w))
        FAIL("seed %u", seed);
    }
    matmul_world_free(w);
  }
}

static void check_way(matmul_way way, uint32_t first, uint32_t n) {
  static const int64_t small[] = {0, 1, 2, 3, 4, 7, 8}, large[] = {13, 34, 1, 18, 40},
                       fourfold[] = {4, 8, 16, 36, 1};
  check_drawn(first, n, small, 7, 3, &way);
  check_drawn(first + 1000, n / 4, large, 5, 2, &way);
  check_drawn(first + 2000, n, fourfold, 5, 2, &way);
}

TEST(tiles_of_64) { check_way((matmul_way){&matmul_tiles[TILES_64], .splits = 1}, 1, 24); }
TEST(deep_tiles) { check_way((matmul_way){&matmul_tiles[TILES_DEEP], .splits = 1}, 10000, 24); }
TEST(tiles_of_32) { check_way((matmul_way){&matmul_tiles[TILES_32], .splits = 1}, 20000, 32); }
TEST(plain_tiles) { check_way((matmul_way){&matmul_tiles[TILES_PLAIN], .splits = 1}, 30000, 48); }
TEST(tiles_in_pieces) {
  check_way((matmul_way){&matmul_tiles[TILES_PLAIN], .splits = 3}, 40000, 48);
}

TEST(few_along_k) {
  for (int side = 0; side < 2; side++)
    for (int few = 1; few <= 8; few *= 2) {
      few_shape f = {side, few, few == 1 ? 1 : few == 2 ? 2 : 4, few == 4 ? 128 : 32, 128, true};
      check_way((matmul_way){.few = f, .splits = 1}, 50000 + 10 * (uint32_t)few, 8);
    }
}

TEST(few_along_points) {
  for (int side = 0; side < 2; side++)
    for (int few = 1; few <= 8; few *= 4) {
      few_shape f = {side, few, few == 1 ? 1 : 4, few == 4 ? 16 : 4, 128, false};
      check_way((matmul_way){.few = f, .splits = 1 + side}, 60000 + 10 * (uint32_t)few, 8);
    }
}

TEST(windows) {
  for (int i = 0; i <= TILE_SHAPES + MATRIX_SHAPES + DIRECT_SHAPES; i++)
    for (int64_t height = 3; height <= 6; height += 3) {
      few_shape few = {0, 8, 1, 4, 128, false};
      matmul_way way = {.splits = 1, .products = 3, .half = SN_F16, .few = few};
      way.tiles = i < TILE_SHAPES ? &matmul_tiles[i] : NULL;
      if (i > TILE_SHAPES + MATRIX_SHAPES)
        way.direct = &matmul_directs[i - TILE_SHAPES - MATRIX_SHAPES - 1];
      else if (i > TILE_SHAPES)
        way.matrix = &matmul_matrices[i - TILE_SHAPES - 1];
      matmul_world *w = matmul_world_convolve(7, height, 5);
      gpu_target t = target_of(1);
      if (way.matrix && !matrix_fits(way.matrix, &t, &w->part, 3)) {
        matmul_world_free(w);
        continue;
      }
      matmul_world_evaluate(w);
      run_world(w, 1, &way);
      CHECK(matmul_world_check(w));
      matmul_world_free(w);
    }
}

TEST(ways_that_are_chosen) {
  static const int64_t sizes[] = {0, 1, 2, 3, 5, 9, 16, 40};
  check_drawn(70000, 200, sizes, 8, 2, NULL);
}

/* Small integers are halves, and their products sums of f32 without an error. */
TEST(matrices) {
  for (int i = 0; i < MATRIX_SHAPES; i++) {
    matmul_way way = {.matrix = &matmul_matrices[i], .splits = 1, .products = 3, .half = SN_F16};
    check_way(way, 80000 + 5000 * (uint32_t)i, 6);
  }
  for (int i = 0; i < DIRECT_SHAPES; i++)
    for (int products = 1; products <= 3; products += 2) {
      matmul_way way = {.direct = &matmul_directs[i], .splits = products, .half = SN_F16};
      way.products = products;
      check_way(way, 300000 + 1000 * (uint32_t)i, 6);
    }
}

TEST(other_halves) {
  matmul_way way = {.matrix = &matmul_matrices[0], .splits = 1, .products = 3, .half = SN_BF16};
  check_way(way, 200000, 8);
  way.products = 1;
  check_way(way, 210000, 8);
  way.half = SN_F16;
  way.splits = 2;
  check_way(way, 220000, 8);
}
