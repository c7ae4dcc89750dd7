/* Kernels of the Vulkan device on the interpreter of SPIR-V, at the three sizes of subgroups: every case of every op,
 * random graphs and a step of training, against the reference, without a finding. tests/long/test_kernels.c does more
 * of them. */
#include "ops/table.h"
#include "support/test.h"
#include "support/train_graph.h"
#include "support/vm_case.h"
#include "support/vm_graphs.h"

#include <stdio.h>

/* Graphs; every n-th case of the ops. Sanitizers make all of it several times slower. */
#ifdef __SANITIZE_ADDRESS__
enum { GRAPHS = 20, CASES = 9 };
#else
enum { GRAPHS = 100, CASES = 1 };
#endif

static void print(const vm_tally *t) {
  printf("%d runs, %d launches, %.0f million instructions\n", t->runs, t->launches,
         (double)t->instructions * 1e-6);
}

/* Most with 32-bit indices, fused and exact, some not. */
TEST_WALK(every_op) {
  const op_table *table = op_table_get();
  vm_tally tally = {0};
  int number = 0;
  for (int i = 1; i < table->n; i++) {
    const op_impl *impl = table->ops[i].impl;
    if (!impl->ref || !test_begin("%s", table->ops[i].name))
      continue;
    for (int k = 0; k < impl->n_cases; k++, number++)
      if (!impl->cases[k].error && number % CASES == 0) {
        vm_check_options o = {.wide = number % 5 == 0,
                              .compile = {.no_fusion = number % 7 == 0},
                              .precision =
                                  number % 4 == 1 ? SN_PRECISION_FAST : SN_PRECISION_EXACT};
        vm_case(impl->cases[k].text, &o, &tally);
      }
    test_end();
  }
  print(&tally);
}

/* Sizes at which work is shared out otherwise than in the ops' own cases: several tiles, rows of more points than a
 * workgroup has threads, results too few for a GPU. */
static const char *const larger[] = {
    "sum(f32[2, 5000]) axes=[1]",
    "max(f32[700, 9]) axes=[1]", /* windows: a row is one thread's */
    "rms_norm(f32[3, 576], f32[576], none) axes=1 eps=1e-5",
    "softmax(f32[6, 300]) axis=-1",
    "softmax(f32[6, 301]) axis=-1",
    "add(f32[130, 128], f32[128])", /* more points than there are threads: in fours, or not */
    "add(f32[131, 127], f32[127])",
    "mul(f32[130, 128], f32[130, 1])",
    "max(f32[3, 2500]) axes=[1]",
    "argmax(f32[3, 2500]) axis=1",
    "softmax(f32[2, 3000]) axis=-1",
    "layer_norm(f32[3, 2100], f32[2100], f32[2100]) axes=1 eps=1e-5",
    "cross_entropy(f32[5, 2100], i32[5](0, 2100)) ignore_index=-100 reduction=mean",
    "cumsum(f32[2, 2500, 3]) axis=1",
    "cumprod(f32[1500](0.9, 1.1)) axis=0",
    "sort(f32[2500]) axis=0 descending=false",
    "topk(f32[2, 2000]) k=7 axis=1 largest=true",
    "permutation(i32[3]{7, -2, 3}) n=1300 stream=4",
    "gather(f32[90, 8], i32[300](0, 90))",
    "scatter_add(f32[50, 3], i32[700](0, 50), f32[700, 3])",
    "sample(f32[2, 3000], i32[3]{1, 2, 3}, none) temperature=0.8 top_k=50 top_p=0.9 min_p=0 "
    "repetition_penalty=1 stream=0",
    "matmul(f32[70, 130], f32[130, 90])",
    "matmul(f32[31, 15], f32[15, 100])",
    "matmul(f32[65, 33], f32[33, 17])",
    "matmul(f32[3, 600], f32[600, 40])",
    "matmul(f32[9, 5000], f32[5000, 8])",
    "conv(f32[1, 20, 12, 11], f32[36, 20, 3, 3], none) stride=[1, 1] pad_before=[1, 1] "
    "pad_after=[1, 1] dilation=[1, 1] groups=1",
    "attention(f32[1, 4, 70, 32], f32[1, 2, 90, 32], f32[1, 2, 90, 24], none, none, none, none) "
    "scale=0.2",
    "attention(f32[2, 2, 1, 16], f32[2, 2, 600, 16], f32[2, 2, 600, 16], none, none, i32[2]{600, "
    "317}, none) scale=0.3",
};

TEST_WALK(larger_sizes) {
  static const char *const names[] = {"exact", "fast", "half"};
  for (size_t i = 0; i < COUNT_OF(larger); i++)
    for (int p = SN_PRECISION_EXACT; p <= SN_PRECISION_HALF; p++) {
      int name = (int)strcspn(larger[i], "(");
      bool matrices = strncmp(larger[i], "matmul", 6) == 0 || strncmp(larger[i], "conv", 4) == 0 ||
                      strncmp(larger[i], "attention", 9) == 0;
      if ((!matrices && p > 0) || !test_begin("%.*s %zu %s", name, larger[i], i, names[p]))
        continue;
      vm_tally tally = {0};
      vm_case(larger[i], &(vm_check_options){.precision = (sn_precision)p}, &tally);
      CHECK((tally.matrix_shaders > 0) == (p > 0));
      test_end();
    }
}

/* Kernels of another size of the step run although this one is 0; with 64-bit indices by a plain division. */
TEST(nothing_is_divided_by_no_rows) {
  vm_check_options o = {.wide = true, .precision = SN_PRECISION_FAST};
  vm_case("attention(f32[1, 1, 0, 3], f32[1, 1, 2, 3], f32[1, 1, 2, 3], none, none, none, none) "
          "scale=1 causal=end",
          &o, NULL);
}

TEST_WALK(random_graphs) {
  vm_tally tally = {0};
  for (uint64_t i = 0; i <= GRAPHS; i++) {
    uint64_t seed = i ? i : 1332; /* a scatter whose base lies elsewhere than its result */
    if (test_begin("%d", (int)seed)) {
      vm_random_graph(seed, &tally);
      test_end();
    }
  }
  print(&tally);
}

/* --- a step of training --- */

typedef struct barrier_fault {
  int wanted;  /* the barrier to leave out */
  bool beyond; /* there are fewer */
  char step[100];
} barrier_fault;

/* The first step of a section begins it: what it stands behind is done in any case. */
static void leave_out(void *user, program *p) {
  barrier_fault *f = user;
  int number = 0;
  for (int i = 0; i < program_steps(p); i++) {
    bool begins = i == 0 || i == p->n_prepare || i == p->n_prepare + p->n_main;
    if (!p->steps[i].barrier || begins || number++ != f->wanted)
      continue;
    p->steps[i].barrier = false;
    snprintf(f->step, sizeof f->step, "%s", p->steps[i].name ? p->steps[i].name : "");
    return;
  }
  f->beyond = true;
}

/* As other devices have it, and this one with timestamps: a plan without one of its barriers is found out, but where the step's own launches wait for each other before they
 * touch what the barrier is for. */
TEST(missing_barriers) {
  sn_ctx *ctx;
  sn_graph *g;
  char why[1000];
  int found = 0;
  barrier_fault f = {0};
  train_graph_options o = train_graph_tiny(SN_MODEL_GPT2, 1);
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(train_graph_build(ctx, &o, &g) == SN_OK)) {
    for (; !f.beyond; f.wanted++) {
      vm_check_options c = {.change = leave_out, .change_user = &f, .by_step = true};
      plan_verdict v = vm_check(g, &(plan_numbers){0}, 1, &c, NULL, why, sizeof why);
      found += v == PLAN_WRONG;
      if (v == PLAN_WRONG && (f.beyond || !strstr(why, "a race")))
        FAIL("barrier %d, before \"%s\": %s", f.wanted, f.step, why);
    }
    CHECK(found > 10 && found >= f.wanted - 3);
    sn_graph_destroy(g);
  }
  sn_ctx_destroy(ctx);
}

/* No phase begins for nothing. */
TEST(missing_phases) {
  enum { MANY = 20 };
  sn_ctx *ctx;
  sn_graph *g;
  char why[1000];
  train_graph_options o = train_graph_tiny(SN_MODEL_GPT2, 1);
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(train_graph_build(ctx, &o, &g) == SN_OK)) {
    for (int i = 1; i <= MANY; i++) {
      vm_check_options c = {.without = i};
      plan_verdict v = vm_check(g, &(plan_numbers){0}, 1, &c, NULL, why, sizeof why);
      if (v != PLAN_WRONG || !strstr(why, "a race"))
        FAIL("without phase %d: %s", i, v == PLAN_WRONG ? why : "no finding");
    }
    sn_graph_destroy(g);
  }
  sn_ctx_destroy(ctx);
}

/* Forward, backward, the clipped norm of all gradients, the updates of all weights. */
TEST(training_step) {
  sn_ctx *ctx;
  sn_graph *g;
  char why[1000];
  vm_tally tally = {0};
  train_graph_options o = train_graph_tiny(SN_MODEL_LLAMA, 2);
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(train_graph_build(ctx, &o, &g) == SN_OK)) {
    if (vm_check(g, &(plan_numbers){0}, 1, NULL, &tally, why, sizeof why) != PLAN_RIGHT)
      FAIL("%s", why);
    sn_graph_destroy(g);
  }
  sn_ctx_destroy(ctx);
  print(&tally);
}
