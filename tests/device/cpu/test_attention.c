/* Attention on the CPU against the reference, at sizes beyond a block of rows or keys, with each rule of what a row sees; the
 * cases of the ops themselves are in test_cores.c. */
#include "device/cpu/core_case.h"

#define NONE4 "none, none, none, none"

TEST(long_rows) {
  core_case_check("attention(f32[1, 2, 100, 19], f32[1, 1, 250, 19], f32[1, 1, 250, 35], " NONE4
                  ") scale=0.3");
  core_case_check("attention(f32[2, 3, 97, 16], f32[2, 3, 97, 16], f32[2, 3, 97, 16], " NONE4
                  ") scale=0.25 causal=start");
  core_case_check("attention(f32[1, 4, 131, 8], f32[1, 2, 301, 8], f32[1, 2, 301, 3], " NONE4
                  ") scale=0.5 causal=end");
  core_case_check("attention(f32[1, 300, 2, 8], f32[1, 200, 2, 8], f32[1, 200, 2, 9], " NONE4
                  ") scale=0.5 causal=end layout=bshd");
}

TEST(windows_and_lengths) {
  core_case_check("attention(f32[1, 1, 130, 5], f32[1, 1, 500, 5], f32[1, 1, 500, 5], " NONE4
                  ") scale=0.5 window=37");
  core_case_check("attention(f32[1, 1, 300, 5], f32[1, 1, 300, 5], f32[1, 1, 300, 5], " NONE4
                  ") scale=0.5 causal=start window=250");
  core_case_check("attention(f32[3, 2, 120, 5], f32[3, 2, 260, 5], f32[3, 2, 260, 4], none, none, "
                  "i32[3]{0, 100, 259}, f32[2]) scale=0.5 causal=end");
  core_case_check("attention(f32[2, 2, 110, 5], f32[2, 2, 260, 5], f32[2, 2, 260, 4], none, none, "
                  "i32[2]{50, 241}, none) scale=0.5 softcap=1.5 causal=start window=60");
}

TEST(masks_biases_sinks) {
  core_case_check("attention(f32[2, 4, 101, 7], f32[2, 2, 250, 7], f32[2, 2, 250, 6], bool[2, 1, "
                  "101, 250](0, 2), f32[4, 101, 250], none, f32[4]) scale=0.4 softcap=2");
  core_case_check("attention(f32[2, 4, 20, 7], f32[2, 2, 250, 7], f32[2, 2, 250, 6], bool[1, 250]"
                  "(0, 2), f32[2, 1, 1, 1], none, none) scale=0.4");
  core_case_check("attention(bf16[1, 2, 100, 8], bf16[1, 2, 250, 8], bf16[1, 2, 250, 8], none, "
                  "bf16[100, 1], none, bf16[2]) scale=0.3 causal=end");
}

/* Generation: rows so few that nothing is packed. */
TEST(few_rows) {
  core_case_check("attention(f32[2, 6, 1, 33], f32[2, 2, 700, 33], f32[2, 2, 700, 17], none, none, "
                  "i32[2]{700, 481}, none) scale=0.3 causal=end");
  core_case_check("attention(f16[1, 2, 3, 33], f16[1, 2, 300, 33], f16[1, 2, 300, 17], " NONE4
                  ") scale=0.3 causal=end");
  core_case_check("attention(f32[1, 1, 2, 5], f32[1, 300, 1, 5], f32[1, 300, 1, 4], " NONE4
                  ") scale=0.3 layout=bshd");
}

#define GRAD(q, k, v, options, lse, out, dlse, rest)                                              \
  core_case_check("attention_grad(" q ", " k ", " v ", " options ", " lse "(3, 5), " out ", " out \
                  ", " dlse ") " rest)

/* lse and out are taken as given, so they need not belong to the rest. */
TEST(gradients) {
  GRAD("f32[1, 2, 100, 19]", "f32[1, 1, 250, 19]", "f32[1, 1, 250, 35]", NONE4, "f32[1, 2, 100]",
       "f32[1, 2, 100, 35]", "none", "scale=0.3");
  GRAD("f32[2, 4, 97, 8]", "f32[2, 2, 257, 8]", "f32[2, 2, 257, 5]",
       "bool[97, 257](0, 2), f32[4, 1, 257], i32[2]{241, 100}, f32[4]", "f32[2, 4, 97]",
       "f32[2, 4, 97, 5]", "f32[2, 4, 97]", "scale=0.3 softcap=2 causal=end");
  GRAD("f32[1, 120, 2, 8]", "f32[1, 300, 2, 8]", "f32[1, 300, 2, 5]", NONE4, "f32[1, 2, 120]",
       "f32[1, 120, 2, 5]", "f32[1, 2, 120]", "scale=0.3 causal=end window=90 layout=bshd");
  GRAD("bf16[1, 2, 100, 8]", "bf16[1, 2, 250, 8]", "bf16[1, 2, 250, 8]",
       "none, bf16[2, 100, 1], none, bf16[2]", "f32[1, 2, 100]", "bf16[1, 2, 100, 8]", "none",
       "scale=0.3 causal=start");
}

/* Numbers that are not finite, where only some rows look: in k and v of key 120, in q and d_out of row 60. */
static void spoil_keys(case_tensor *in) {
  int64_t d = in[1].type.shape.dim[3], dv = in[2].type.shape.dim[3];
  in[1].data[120 * d] = NAN;
  in[2].data[120 * dv] = NAN;
  in[2].data[150 * dv + 1] = INFINITY;
}
static void spoil_values(case_tensor *in) {
  int64_t dv = in[2].type.shape.dim[3];
  in[2].data[120 * dv] = NAN;
  in[2].data[150 * dv + 1] = -INFINITY;
}
static void spoil_rows(case_tensor *in) {
  in[0].data[60 * in[0].type.shape.dim[3]] = NAN;
  if (in[9].data)
    in[9].data[60 * in[9].type.shape.dim[3]] = INFINITY;
}

TEST(what_is_masked_counts_nothing) {
  static const char forward[] =
      "attention(f32[1, 1, 200, 5], f32[1, 1, 200, 5], f32[1, 1, 200, 6], " NONE4
      ") scale=0.5 causal=end window=20";
  static const char gradient[] =
      "attention_grad(f32[1, 1, 200, 5], f32[1, 1, 200, 5], f32[1, 1, 200, 6], " NONE4
      ", f32[1, 1, 200](3, 5), f32[1, 1, 200, 6], f32[1, 1, 200, 6], none) scale=0.5 causal=end "
      "window=20";
  static void (*const spoil[])(case_tensor *) = {spoil_keys, spoil_values, spoil_rows};
  for (size_t i = 0; i < COUNT_OF(spoil); i++) {
    core_case_changed(forward, spoil[i]);
    core_case_changed(gradient, spoil[i]);
  }
}
