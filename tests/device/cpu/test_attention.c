/* Attention on the CPU against the reference, at sizes beyond a block of rows or keys, with each rule of what a row sees, with
 * every instruction set and on 1 to 4 threads; the cases of the ops themselves are in test_cores.c. */
#include "device/cpu/extreme_attention.h"

#include <stdio.h>

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

/* Rows of several heads in one block, and blocks that end within a vector. */
TEST(short_heads) {
  core_case_check("attention(f32[2, 6, 11, 24], f32[2, 2, 17, 24], f32[2, 2, 17, 20], " NONE4
                  ") scale=0.3 causal=end");
  core_case_check("attention(f32[1, 15, 50, 16], f32[1, 5, 50, 16], f32[1, 5, 50, 16], none, "
                  "f32[15, 50, 50], none, f32[15]) scale=0.3");
  core_case_check("attention(f32[2, 20, 9, 12], f32[2, 40, 3, 12], f32[2, 40, 3, 12], bool[2, 1, "
                  "1, 40](0, 2), none, none, none) scale=0.3 window=7 layout=bshd");
  core_case_check("attention(f16[1, 4, 63, 9], f16[1, 1, 63, 9], f16[1, 1, 63, 7], " NONE4
                  ") scale=0.3 causal=start");
}

/* Few blocks of rows: the keys are cut in parts, some of which a row does not see. */
TEST(keys_in_parts) {
  core_case_check("attention(f32[1, 2, 70, 16], f32[1, 1, 1100, 16], f32[1, 1, 1100, 24], none, "
                  "none, none, f32[2]) scale=0.3 causal=end");
  core_case_check("attention(f32[2, 3, 1, 8], f32[2, 3, 1500, 8], f32[2, 3, 1500, 16], none, "
                  "none, i32[2]{0, 1000}, none) scale=0.3 causal=end window=300");
  core_case_check("attention(bf16[1, 4, 2, 32], bf16[1, 1000, 2, 32], bf16[1, 1000, 2, 32], " NONE4
                  ") scale=0.3 causal=end layout=bshd");
  core_case_check("attention(f32[1, 2, 20, 8], f32[1, 2, 1000, 8], f32[1, 2, 1000, 8], bool[1, 2, "
                  "20, 1000](0, 2), f32[1, 1000], none, none) scale=0.3 softcap=2");
}

/* k and v of other types, or far apart, are copied once where several blocks read them. */
TEST(shared_keys) {
  core_case_check("attention(bf16[2, 2, 150, 8], bf16[2, 1, 210, 8], bf16[2, 1, 210, 12], none, "
                  "none, i32[2]{210, 33}, none) scale=0.3 causal=end");
  core_case_check("attention(f32[2, 140, 4, 8], f32[2, 140, 2, 8], f32[2, 140, 2, 12], " NONE4
                  ") scale=0.3 causal=end window=50 layout=bshd");
  core_case_check("attention(f16[1, 700, 1, 8], f16[1, 700, 1, 8], f16[1, 700, 1, 8], " NONE4
                  ") scale=0.3 layout=bshd");
}

/* Generation: rows so few that they stay rows. */
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

/* Few heads: the keys are cut in parts, and dq is the sum of what they give. */
TEST(gradients_in_parts) {
  GRAD("f32[1, 2, 130, 8]", "f32[1, 1, 500, 8]", "f32[1, 1, 500, 17]", NONE4, "f32[1, 2, 130]",
       "f32[1, 2, 130, 17]", "none", "scale=0.3 causal=end");
  GRAD("f32[1, 1, 70, 4]", "f32[1, 1, 1300, 4]", "f32[1, 1, 1300, 3]", NONE4, "f32[1, 1, 70]",
       "f32[1, 1, 70, 3]", "none", "scale=0.3");
  GRAD("f32[2, 2, 70, 8]", "f32[2, 2, 400, 8]", "f32[2, 2, 400, 8]",
       "bool[1, 400](0, 2), none, i32[2]{399, 30}, none", "f32[2, 2, 70]", "f32[2, 2, 70, 8]",
       "f32[2, 2, 70]", "scale=0.3 causal=end window=100 softcap=3");
  GRAD("bf16[1, 210, 3, 16]", "bf16[1, 210, 3, 16]", "bf16[1, 210, 3, 16]", NONE4, "f32[1, 3, 210]",
       "bf16[1, 210, 3, 16]", "none", "scale=0.3 causal=end layout=bshd");
  GRAD("f32[5, 12, 20, 8]", "f32[5, 4, 20, 8]", "f32[5, 4, 20, 8]", NONE4, "f32[5, 12, 20]",
       "f32[5, 12, 20, 8]", "none", "scale=-0.3 causal=start");
}

/* Each way in which a bias can be broadcast. */
TEST(gradients_of_biases) {
  static const char *const biases[] = {"2, 3, 70, 65", "1, 3, 70, 65", "2, 1, 70, 65",
                                       "2, 3, 1, 65",  "2, 3, 70, 1",  "3, 1, 1",
                                       "70, 1",        "1, 65",        "1, 1"};
  for (size_t i = 0; i < COUNT_OF(biases); i++) {
    char source[512];
    snprintf(source, sizeof source,
             "attention_grad(f32[2, 3, 70, 4], f32[2, 3, 65, 4], f32[2, 3, 65, 4], none, f32[%s], "
             "none, f32[3], f32[2, 3, 70](3, 5), f32[2, 3, 70, 4], f32[2, 3, 70, 4], none) "
             "scale=0.3 causal=start",
             biases[i]);
    core_case_check(source);
  }
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

static void spoil_sinks(case_tensor *in) {
  in[6].data[0] = INFINITY;
  in[6].data[1] = NAN;
}
static void spoil_scores(case_tensor *in) {
  int64_t d = in[0].type.shape.dim[3];
  in[0].data[0] = INFINITY;
  in[1].data[3 * d] = -INFINITY;
}

/* Rows that see no key, of a sink that is not a number; infinite scores. */
TEST(infinite_logits) {
  static const char source[] =
      "attention(f32[1, 2, 30, 5], f32[1, 1, 20, 5], f32[1, 1, 20, 6], none, none, none, f32[2]) "
      "scale=0.5 causal=end";
  core_case_changed(source, spoil_sinks);
  core_case_changed(source, spoil_scores);
}

/* Few rows, rows in lanes, keys in parts. */
TEST(extreme_scores) {
  static const extreme_shape shapes[] = {
      {2, 2, 1, 7, 4}, {2, 2, 1, 300, 4}, {1, 2, 70, 230, 4}, {1, 1, 2, 1300, 4}};
  for (size_t i = 0; i < COUNT_OF(shapes); i++)
    extreme_each(&shapes[i], core_case_changed);
}

TEST(what_is_masked_counts_nothing) {
  static const char forward[] =
      "attention(f32[1, 1, 200, 5], f32[1, 1, 200, 5], f32[1, 1, 200, 6], " NONE4
      ") scale=0.5 causal=end window=20";
  static const char gradient[] =
      "attention_grad(f32[1, 1, 200, 5], f32[1, 1, 200, 5], f32[1, 1, 200, 6], " NONE4
      ", f32[1, 1, 200](3, 5), f32[1, 1, 200, 6], f32[1, 1, 200, 6], none) scale=0.5 causal=end "
      "window=20";
  static const char in_parts[] =
      "attention_grad(f32[1, 1, 200, 5], f32[1, 1, 300, 5], f32[1, 1, 300, 6], " NONE4
      ", f32[1, 1, 200](3, 5), f32[1, 1, 200, 6], f32[1, 1, 200, 6], none) scale=0.5 causal=end";
  static const char few[] =
      "attention(f32[1, 1, 61, 5], f32[1, 1, 200, 5], f32[1, 1, 200, 6], " NONE4
      ") scale=0.5 causal=start window=20";
  static void (*const spoil[])(case_tensor *) = {spoil_keys, spoil_values, spoil_rows};
  for (size_t i = 0; i < COUNT_OF(spoil); i++) {
    core_case_changed(forward, spoil[i]);
    core_case_changed(gradient, spoil[i]);
    core_case_changed(in_parts, spoil[i]);
    core_case_changed(few, spoil[i]);
  }
}
