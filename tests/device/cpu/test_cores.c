/* Cores of the CPU against the reference: every case of the ops that they are for, and sizes that reach the paths for
 * long rows. */
#include "device/cpu/core_case.h"

TEST_WALK(every_case) { core_walk(core_case_check); }

static void put_odd(case_tensor *in) { core_put_odd(in, 611); }

TEST(long_sorts) {
  core_case_check("sort(f32[3, 1000, 2]) axis=1 descending=true");
  core_case_check("sort(f32[1000]) axis=0 descending=false");
  core_case_check("sort(i32[2, 500](-3, 4)) axis=1 descending=true");
  core_case_check("sort(i32[2, 500](-100000, 100000)) axis=1 descending=false");
  core_case_check("sort(f16[300]) axis=0 descending=true");
  core_case_check("sort(u8[2, 300](0, 9)) axis=-1 descending=false");
  core_case_check("topk(f32[2, 700]) k=11 axis=1 largest=true");
  core_case_check("topk(bf16[64, 70]) k=64 axis=0 largest=false");
  core_case_check("permutation(i32[3]{5, 6, 7}) n=1003 stream=9");
}

TEST(wide_scans_and_scatters) {
  core_case_check("cumsum(f32[3, 5, 130]) axis=1 exclusive=true");
  core_case_check("cumsum(i32[3, 70, 2](-9, 9)) axis=1 reverse=true");
  core_case_check("cumprod(bf16[2, 3, 70]) axis=0");
  core_case_check("scatter_add(f32[20, 33], i32[50](0, 20), f32[50, 33])");
  core_case_check("scatter_add(bf16[4, 3], i32[50](0, 4), bf16[50, 3])");
  core_case_check("scatter_along_add(f16[3, 7, 5], i32[3, 20, 5](0, 7), f16[3, 20, 5]) axis=1");
  core_case_check("scatter_along_set(f32[3, 7, 5], i32[3, 20, 5](0, 7), f32[3, 20, 5]) axis=1");
}

/* Found without sorting all; with many ties, and NaN. One long slice is sorted by all threads together. */
TEST(few_of_many) {
  core_case_check("topk(f32[3, 5000]) k=7 axis=1 largest=true");
  core_case_check("topk(f32[3, 5000]) k=600 axis=1 largest=false");
  core_case_check("topk(f32[5000, 3]) k=1 axis=0 largest=true");
  core_case_check("topk(i32[2, 9000](-3, 4)) k=40 axis=1 largest=true");
  core_case_check("topk(i32[9000](-3, 4)) k=1125 axis=0 largest=false");
  core_case_check("topk(bf16[2, 9000]) k=50 axis=1 largest=true");
  core_case_check("topk(u8[4000](0, 9)) k=5 axis=0 largest=true");
  core_case_changed("topk(f32[2, 5000]) k=5 axis=1 largest=true", put_odd);
  core_case_changed("topk(f32[2, 5000]) k=5 axis=1 largest=false", put_odd);
}

TEST(one_long_slice) {
  core_case_check("sort(f32[40000]) axis=0 descending=true");
  core_case_check("sort(i32[40000](-100, 100)) axis=0 descending=false");
  core_case_check("sort(i32[2, 33000](-1000000000, 1000000000)) axis=1 descending=true");
  core_case_changed("sort(f32[33000]) axis=0 descending=false", put_odd);
  core_case_check("topk(f32[33000]) k=20000 axis=0 largest=true");
  core_case_check("permutation(i32[3]{5, 6, 7}) n=40003 stream=9");
}

/* Large enough to be cut into columns, into ranges of rows, into outer indices. */
TEST(scatters_in_pieces) {
  core_case_check("scatter_add(f32[90, 700], i32[130](0, 90), f32[130, 700])");
  core_case_check("scatter_set(f32[90, 700], i32[130](0, 90), f32[130, 700])");
  core_case_check("scatter_add(bf16[90, 700], i32[130](0, 90), bf16[130, 700])");
  core_case_check("scatter_add(f32[700, 3], i32[30000](0, 700), f32[30000, 3])");
  core_case_check("scatter_add(f16[700, 3], i32[30000](0, 700), f16[30000, 3])");
  core_case_check("scatter_set(i32[700, 3], i32[30000](0, 700), i32[30000, 3])");
  core_case_check("scatter_add(i32[3000], i32[70000](0, 3000), i32[70000])");
  core_case_check("scatter_along_add(f32[500], i32[40000](0, 500), f32[40000]) axis=0");
  core_case_check("scatter_along_add(bf16[500], i32[40000](0, 500), bf16[40000]) axis=0");
  core_case_check("scatter_along_add(f32[4, 50, 150], i32[4, 90, 150](0, 50), f32[4, 90, 150]) "
                  "axis=1");
  core_case_check("scatter_along_set(f32[150, 90], i32[150, 200](0, 90), f32[150, 200]) axis=1");
}

/* Cut into blocks, forwards and backwards; many slices of any layout. */
TEST(long_scans) {
  core_case_check("cumsum(f32[30000]) axis=0");
  core_case_check("cumsum(f32[20480]) axis=0 exclusive=true reverse=true");
  core_case_check("cumsum(f32[3, 9000]) axis=1 reverse=true");
  core_case_check("cumsum(f32[9000, 3]) axis=0 exclusive=true");
  core_case_check("cumsum(f16[2, 8200]) axis=1");
  core_case_check("cumsum(i32[40000](-99, 99)) axis=0 exclusive=true");
  core_case_check("cumprod(f32[9000](0.999, 1.001)) axis=0");
  core_case_check("cumprod(i32[9000](-9, 9)) axis=0 reverse=true");
  core_case_check("cumsum(f32[70, 500]) axis=1");
  core_case_check("cumsum(f32[500, 70]) axis=0 reverse=true");
  core_case_check("cumsum(bf16[50, 300, 3]) axis=1");
  core_case_check("cumsum(u8[50, 300, 3]) axis=1");
  core_case_check("cumsum(f32[0, 9000]) axis=1");
}

#define SAMPLE(logits, rest)                                        \
  core_case_check("sample(" logits ", i32[3]{3, 1, 4}, none) " rest \
                  " repetition_penalty=1 stream=2")

TEST(long_samples) {
  SAMPLE("f32[40, 300]", "temperature=0.7 top_k=0 top_p=1 min_p=0");
  SAMPLE("f32[40, 300]", "temperature=0.7 top_k=20 top_p=0.8 min_p=0");
  SAMPLE("f32[40, 300]", "temperature=1.5 top_k=0 top_p=0.5 min_p=0.3");
  SAMPLE("bf16[40, 300]", "temperature=1 top_k=7 top_p=1 min_p=0.6");
  core_case_check("sample(f32[30, 100], i32[3]{3, 1, 4}, i32[30, 60](-2, 100)) temperature=0.5 "
                  "top_k=9 top_p=0.9 min_p=0 repetition_penalty=1.3 stream=2");
  core_case_check("sample(f32[30, 100], i32[3]{3, 1, 4}, i32[30, 60](-2, 100)) temperature=0 "
                  "top_k=0 top_p=1 min_p=0 repetition_penalty=1.7 stream=2");
}

TEST(samples_of_a_vocabulary) {
  SAMPLE("f32[3, 5000]", "temperature=0 top_k=0 top_p=1 min_p=0");
  SAMPLE("f32[9, 5000]", "temperature=0.9 top_k=40 top_p=1 min_p=0");
  SAMPLE("bf16[9, 5000]", "temperature=0.9 top_k=600 top_p=0.7 min_p=0.01");
  SAMPLE("f32[9, 5000]", "temperature=1.2 top_k=0 top_p=1 min_p=0.4");
  SAMPLE("f32[3, 5000]", "temperature=1.2 top_k=0 top_p=0.9 min_p=0.1");
  SAMPLE("f32[3, 5000]", "temperature=1.2 top_k=4000 top_p=0.9 min_p=0");
  core_case_changed("sample(f32[3, 5000], i32[3]{3, 1, 4}, none) temperature=1 top_k=5 top_p=1 "
                    "min_p=0 repetition_penalty=1 stream=2",
                    put_odd);
}

/* Neighbouring floats whose thirds are one float, but not one double: the larger must come first. */
TEST(samples_of_close_logits) {
  core_case_check(
      "sample(f32[4, 4]{1.5, 1.50000012, 1.50000024, 1.50000036, 1.50000012, 1.50000024, "
      "1.50000036, 1.50000048, 1.50000024, 1.50000036, 1.50000048, 1.5000006, 1.50000036, "
      "1.50000048, 1.5000006, 1.50000072}, i32[3]{3, 1, 4}, i32[4, 4]{0, 1, 2, 3, 0, 1, 2, 3, 0, "
      "1, "
      "2, 3, 0, 1, 2, 3}) temperature=1 top_k=1 top_p=1 min_p=0 repetition_penalty=3 stream=2");
}
