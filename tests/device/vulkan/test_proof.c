/* What GPUs have to show before they are used, and what they can do. The products that test matrices are in test_spirv_matrix.c. */
#include "device/devices.h"
#include "device/vulkan/device.h"
#include "support/test.h"
#include "support/vulkan_case.h"

#include <stdlib.h>

TEST(self_test) {
  if (!vulkan_ready())
    return;
  CHECK(vulkan_self_test(vulkan_device()));
  vulkan_check();
}

/* Whom "auto" may mean: results of the fault "proof" are 1, a driver of software taken for hardware, and 2, which then fails. */
TEST(chosen_for_those_who_do_not_ask) {
  device_choice why;
  if (!vulkan_ready())
    return;
  gpu_fault_plant("proof", 1, 1);
  CHECK(vulkan_device_proved(&why) == vulkan_device());
  CHECK(why.has_hardware);
  CHECK_EQ_STR(why.why, "");
  gpu_fault_plant("proof", 1, 2);
  CHECK(vulkan_device_proved(&why) == NULL);
  CHECK(why.has_hardware);
  CHECK_STR_HAS(why.why, "failed its self-test");
  gpu_fault_plant(NULL, 0, 0);
  if (gpu_is_software(gpu_at(0)))
    CHECK(vulkan_device_proved(&why) == NULL && *why.why);
  vulkan_check();
}

/* The GPU as if it had matrices of 16, of which nothing is known. */
typedef struct pretence {
  sn_ctx *ctx;
  gpu *g;
  gpu_target had;
  uint32_t known;
} pretence;

static bool pretend(pretence *p) {
  if (!vulkan_ready() || !CHECK(sn_ctx_create(NULL, &p->ctx) == SN_OK) ||
      !CHECK(gpu_get(p->ctx, 0, &p->g) == SN_OK))
    return false;
  p->had = p->g->target;
  p->known = atomic_exchange(&p->g->matrices, 0);
  p->g->target.f16 = p->g->target.bf16 = true;
  for (int i = 0; i < 3; i++)
    p->g->target.matrix[i] = 16;
  return true;
}

static void pretend_no_more(pretence *p) {
  p->g->target = p->had;
  atomic_store(&p->g->matrices, p->known);
  gpu_fault_plant(NULL, 0, 0);
  gpu_put(p->g);
  sn_ctx_destroy(p->ctx);
  vulkan_check();
}

/* Matrices that compute wrongly are not used, are not tried again, and it is told. */
TEST(wrong_matrices) {
  pretence p;
  if (!pretend(&p))
    return;
  gpu *g = p.g;
  gpu_target t;
  gpu_matrix_note(g, SN_BF16, MATRIX_RIGHT);
  gpu_fault_plant("matrices", 1, 0);
  for (int again = 0; again < 2; again++) {
    t = g->target;
    vulkan_prove_matrices(vulkan_device(), g, &t);
    CHECK(!t.f16 && t.bf16);
    CHECK_EQ_INT(gpu_matrix_proof(g, SN_F16), MATRIX_WRONG);
  }
  CHECK_STR_HAS(vulkan_note(vulkan_device()),
                "of f16: computed wrongly in a test, not used; of bf16: tested");
  /* Nothing is known of matrices of another shape. */
  g->target.matrix[0] = 8;
  CHECK_EQ_INT(gpu_matrix_proof(g, SN_F16), MATRIX_UNTESTED);
  pretend_no_more(&p);
}

/* Places of elements count only where products are right; where they are others, matrices are used all the same. */
TEST(places_of_elements) {
  pretence p;
  if (!pretend(&p))
    return;
  gpu *g = p.g;
  gpu_target t;
  for (int halves = 0; halves < 2; halves++) {
    const sn_dtype half = halves ? SN_BF16 : SN_F16, other = halves ? SN_F16 : SN_BF16;
    for (int proof = MATRIX_RIGHT; proof <= MATRIX_WRONG; proof++)
      for (int places = MATRIX_RIGHT; places <= MATRIX_WRONG; places++) {
        const bool right = proof == MATRIX_RIGHT, found = right && places == MATRIX_RIGHT;
        atomic_store(&g->matrices, 0);
        gpu_matrix_note(g, half, (matrix_proof)proof);
        gpu_matrix_note(g, other, MATRIX_WRONG);
        gpu_fault_plant("places", 1, places);
        for (int again = 0; again < 2; again++) { /* not tried again */
          t = g->target;
          vulkan_prove_matrices(vulkan_device(), g, &t);
          CHECK(t.f16 == (!halves && right) && t.bf16 == (halves && right));
          CHECK(t.places == (!halves && found) && t.bf16_places == (halves && found));
        }
        CHECK_EQ_INT(gpu_places_proof(g, half), right ? places : MATRIX_UNTESTED);
        CHECK_EQ_INT(gpu_places_proof(g, other), MATRIX_UNTESTED);
        CHECK_EQ_INT(gpu_matrix_proof(g, half), proof);
        CHECK_EQ_INT(gpu_matrix_proof(g, other), MATRIX_WRONG);
      }
  }
  /* matrices of another shape have none */
  atomic_store(&g->matrices, 0);
  gpu_fault_plant(NULL, 0, 0);
  g->target.matrix[0] = 8;
  gpu_matrix_note(g, SN_F16, MATRIX_RIGHT);
  gpu_matrix_note(g, SN_BF16, MATRIX_RIGHT);
  t = g->target;
  vulkan_prove_matrices(vulkan_device(), g, &t);
  CHECK(t.f16 && t.bf16 && !t.places && !t.bf16_places);
  CHECK_EQ_INT(gpu_places_proof(g, SN_F16), MATRIX_WRONG);
  CHECK_EQ_INT(gpu_places_proof(g, SN_BF16), MATRIX_WRONG);
  pretend_no_more(&p);
}

/* Each kind has its own: elements of bf16 may be at other places than those of f16. */
TEST(places_of_bf16) {
  pretence p;
  if (!pretend(&p))
    return;
  gpu *g = p.g;
  for (int found = MATRIX_RIGHT; found <= MATRIX_WRONG; found++) {
    gpu_matrix_note(g, SN_F16, MATRIX_RIGHT);
    gpu_matrix_note(g, SN_BF16, MATRIX_RIGHT);
    gpu_places_note(g, SN_F16, found == MATRIX_RIGHT ? MATRIX_WRONG : MATRIX_RIGHT);
    gpu_places_note(g, SN_BF16, (matrix_proof)found);
    gpu_target t = g->target;
    vulkan_prove_matrices(vulkan_device(), g, &t);
    CHECK(t.bf16_places == (found == MATRIX_RIGHT) && t.places == (found == MATRIX_WRONG));
  }
  pretend_no_more(&p);
}

/* What was found is kept with what was compiled. */
TEST(proofs_are_kept) {
  sn_ctx *ctx;
  gpu *g;
  if (!vulkan_ready() || !CHECK(sn_ctx_create(NULL, &ctx) == SN_OK))
    return;
  gpu_close_unused();
  setenv("SINEW_CACHE", test_scratch("cache"), 1);
  for (int again = 0; again < 2; again++) {
    REQUIRE(gpu_get(ctx, 0, &g) == SN_OK);
    CHECK_EQ_INT(gpu_matrix_proof(g, SN_F16), again ? MATRIX_WRONG : MATRIX_UNTESTED);
    CHECK_EQ_INT(gpu_matrix_proof(g, SN_BF16), again ? MATRIX_RIGHT : MATRIX_UNTESTED);
    CHECK_EQ_INT(gpu_places_proof(g, SN_F16), again ? MATRIX_RIGHT : MATRIX_UNTESTED);
    CHECK_EQ_INT(gpu_places_proof(g, SN_BF16), again ? MATRIX_WRONG : MATRIX_UNTESTED);
    gpu_matrix_note(g, SN_F16, MATRIX_WRONG);
    gpu_matrix_note(g, SN_BF16, MATRIX_RIGHT);
    gpu_places_note(g, SN_F16, MATRIX_RIGHT);
    gpu_places_note(g, SN_BF16, MATRIX_WRONG);
    CHECK(vulkan_self_test(vulkan_device())); /* compiles something */
    gpu_put(g);
    gpu_close_unused();
  }
  setenv("SINEW_CACHE", "off", 1);
  sn_ctx_destroy(ctx);
  vulkan_check();
}

/* What every GPU can: rates above 0. */
TEST(peaks) {
  sn_ctx *ctx;
  sn_device_peaks p;
  if (!vulkan_ready())
    return;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (vulkan_measure(vulkan_device(), ctx, &p) != SN_OK)
    FAIL("%s", sn_ctx_message(ctx));
  CHECK(p.bytes > 1e6 && p.flops > 1e6 && p.matrix_flops >= 0);
  CHECK(p.launch_s > 0 && p.launch_s < 0.1);
  sn_ctx_destroy(ctx);
  vulkan_check();
}
