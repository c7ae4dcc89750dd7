/* Gradients where finite differences cannot tell: at ties, at kinks, at the ends of intervals,
 * at places where a formula gives 0 * inf, and where an op stops gradients by intent. Each line
 * is a case with its results, the weights of the loss and the gradients that must come out,
 * worked out by hand. */
#include "ops/table.h"
#include "support/oracle.h"
#include "support/test.h"

static const char *const lines[] = {
    /* half to each at a tie, also when one side is broadcast */
    "maximum(f32[3]{1, 2, 3}, f32[3]{2, 2, 1}) => f32[3]{2, 2, 3} ; w f32[3]{1, 10, 100} ; "
    "grad f32[3]{0, 5, 100}, f32[3]{1, 5, 0}",
    "minimum(f32[3]{1, 2, 3}, f32[3]{2, 2, 1}) => f32[3]{1, 2, 1} ; w f32[3]{1, 10, 100} ; "
    "grad f32[3]{1, 5, 0}, f32[3]{0, 5, 100}",
    "maximum(f32[3]{1, 2, 3}, f32[]{2}) => f32[3]{2, 2, 3} ; w f32[3]{1, 10, 100} ; "
    "grad f32[3]{0, 5, 100}, f32[]{6}",
    "minimum(f32[2, 1]{1, 2}, f32[2]{2, 1}) => f32[2, 2]{1, 1, 2, 1} ; w f32[2, 2]{1, 10, 100, "
    "1000} "
    "; grad f32[2, 1]{6, 50}, f32[2]{50, 1005}",
    "maximum(f32[2]{0, -0.0}, f32[2]{-0.0, 0}) => f32[2]{0, 0} ; w f32[2]{2, 4} ; "
    "grad f32[2]{1, 2}, f32[2]{1, 2}",
    /* nothing passes where NaN won */
    "maximum(f32[2]{nan, 1}, f32[2]{1, nan}) => f32[2]{nan, nan} ; w f32[2]{2, 4} ; "
    "grad f32[2]{0, 0}, f32[2]{0, 0}",
    /* kinks of one argument */
    "relu(f32[4]{-1, 0, -0.0, 1}) => f32[4]{0, 0, 0, 1} ; w f32[4]{1, 2, 3, 4} ; "
    "grad f32[4]{0, 0, 0, 4}",
    "abs(f32[4]{-1, 0, -0.0, 1}) => f32[4]{1, 0, 0, 1} ; w f32[4]{1, 2, 3, 4} ; "
    "grad f32[4]{-1, 0, 0, 4}",
    "clamp(f32[5]{-2, -1, 0, 1, 2}) lo=-1 hi=1 => f32[5]{-1, -1, 0, 1, 1} ; "
    "w f32[5]{1, 2, 3, 4, 5} ; grad f32[5]{0, 2, 3, 4, 0}",
    "clamp(f32[3]{0, 1, 2}) lo=1 hi=1 => f32[3]{1, 1, 1} ; w f32[3]{1, 2, 3} ; grad f32[3]{0, 2, "
    "0}",
    "leaky_relu(f32[3]{-1, 0, 1}) slope=0.25 => f32[3]{-0.25, 0, 1} ; w f32[3]{1, 2, 4} ; "
    "grad f32[3]{0.25, 0.5, 4}",
    "elu(f32[2]{0, 1}) alpha=0.25 => f32[2]{0, 1} ; w f32[2]{2, 4} ; grad f32[2]{0.5, 4}",
    "hardswish(f32[5]{-4, -3, 0, 3, 4}) => f32[5]{0, 0, 0, 3, 4} ; w f32[5]{1, 2, 4, 8, 16} ; "
    "grad f32[5]{0, -1, 2, 12, 16}",
    /* steps */
    "sign(f32[3]{-1, 0, 1}) => f32[3]{-1, 0, 1} ; w f32[3]{1, 2, 3} ; grad f32[3]{0, 0, 0}",
    "floor(f32[2]{1, 1.5}) => f32[2]{1, 1} ; w f32[2]{1, 2} ; grad f32[2]{0, 0}",
    "ceil(f32[2]{1, 1.5}) => f32[2]{1, 2} ; w f32[2]{1, 2} ; grad f32[2]{0, 0}",
    "round(f32[2]{0.5, 1.5}) => f32[2]{0, 2} ; w f32[2]{1, 2} ; grad f32[2]{0, 0}",
    "floor_div(f32[2]{6, 7}, f32[2]{3, 3}) => f32[2]{2, 2} ; w f32[2]{1, 2} ; "
    "grad f32[2]{0, 0}, f32[2]{0, 0}",
    "rem(f32[2]{-6, 6}, f32[2]{4, 3}) => f32[2]{2, 0} ; w f32[2]{1, 2} ; "
    "grad f32[2]{1, 2}, f32[2]{2, -4}",
    "fmod(f32[2]{-6, 6}, f32[2]{4, 3}) => f32[2]{-2, 0} ; w f32[2]{1, 2} ; "
    "grad f32[2]{1, 2}, f32[2]{1, -4}",
    /* limits where the formula has 0 * inf */
    "pow(f32[4]{0, 0, 0, 2}, f32[4]{0, 1, 2, 0}) => f32[4]{1, 0, 0, 1} ; w f32[4]{1, 2, 4, 8} ; "
    "grad f32[4]{0, 2, 0, 0}, f32[4]{0, 0, 0, 5.54517744}",
    "powf(f32[2]{0, 3}) exponent=0 => f32[2]{1, 1} ; w f32[2]{1, 2} ; grad f32[2]{0, 0}",
    "powf(f32[2]{0, 3}) exponent=1 => f32[2]{0, 3} ; w f32[2]{1, 2} ; grad f32[2]{1, 2}",
    "sqrt(f32[2]{0, 4}) => f32[2]{0, 2} ; w f32[2]{1, 2} ; grad f32[2]{inf, 0.5}",
    /* what is not chosen gets nothing, not NaN */
    "where(bool[2]{1, 0}, f32[2]{1, nan}, f32[2]{inf, 2}) => f32[2]{1, 2} ; w f32[2]{3, 4} ; "
    "grad none, f32[2]{3, 0}, f32[2]{0, 4}",
    /* ends of the gradient */
    "stop_gradient(f32[2]{1, 2}) => f32[2]{1, 2} ; w f32[2]{3, 4} ; grad f32[2]{0, 0}",
    "barrier(f32[2]{1, 2}, f32[]{7}) => f32[2]{1, 2} ; w f32[2]{3, 4} ; grad f32[2]{3, 4}, "
    "f32[]{0}",
    "cast(f32[2]{1, 2}) dtype=f16 => f16[2]{1, 2} ; w f16[2]{3, 4} ; grad f32[2]{3, 4}",
    /* the gradient of equal values goes to the ones that were taken, lowest index first */
    "topk(f32[4]{2, 1, 2, 2}) k=2 axis=0 largest=true => f32[2]{2, 2}, i32[2]{0, 2} ; "
    "w f32[2]{3, 4}, none ; grad f32[4]{3, 0, 4, 0}",
    "sort(f32[3]{2, 1, 2}) axis=0 descending=true => f32[3]{2, 2, 1}, i32[3]{0, 2, 1} ; "
    "w f32[3]{3, 4, 5}, none ; grad f32[3]{3, 5, 4}",
    /* reductions share evenly between all that tie */
    "max(f32[4]{3, 1, 3, 3}) => f32[]{3} ; w f32[]{6} ; grad f32[4]{2, 0, 2, 2}",
    "min(f32[4]{3, 1, 1, 3}) => f32[]{1} ; w f32[]{6} ; grad f32[4]{0, 3, 3, 0}",
    "max(f32[2, 2]{3, 3, 5, 4}) axes=[1] => f32[2]{3, 5} ; w f32[2]{6, 8} ; "
    "grad f32[2, 2]{3, 3, 8, 0}",
    "l2_norm(f32[2]{0, 0}) => f32[]{0} ; w f32[]{6} ; grad f32[2]{0, 0}",
    "prod(f32[3]{0, 2, 3}) => f32[]{0} ; w f32[]{1} ; grad f32[3]{6, 0, 0}",
    "prod(f32[3]{0, 0, 3}) => f32[]{0} ; w f32[]{1} ; grad f32[3]{0, 0, 0}",
};

TEST_WALK(gradient_of) {
  for (size_t i = 0; i < COUNT_OF(lines); i++) {
    if (!test_begin("%zu %.*s", i, (int)strcspn(lines[i], "("), lines[i]))
      continue;
    sn_ctx *ctx;
    oracle_line line;
    oracle_counts counts = {0};
    if (CHECK(sn_ctx_create(NULL, &ctx) == SN_OK)) {
      if (oracle_load(ctx, op_table_get(), lines[i], &line) != SN_OK) {
        FAIL("%s: %s", lines[i], sn_ctx_message(ctx));
      } else {
        oracle_check(&line, lines[i], &counts);
        CHECK(counts.gradients > 0);
        oracle_free(&line);
      }
      sn_ctx_destroy(ctx);
    }
    test_end();
  }
}
