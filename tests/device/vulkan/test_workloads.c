/* The reference workloads as launches, without a GPU: pipelines are few, all shaders are valid, AMD's compiler takes them with registers for all that they hold, and launches
 * that may not run at once do not. Their results are tests/long's. */
#include "cli/subject.h"
#include "compile/compile.h"
#include "support/launches_same.h"
#include "support/phases_check.h"
#include "support/radv.h"
#include "support/test.h"
#include "support/vm_validate.h"

#include <stdio.h>
#include <string.h>

enum { MOST_PIPELINES = 48, MOST_SHADERS = 256 };

/* Gradients come in more forms than that yet: what is reached, which should become less, not more. (Norms in weights of
 * convolutions, decision 21, took 16 more: products and sums over weights of many sizes.) */
static const struct {
  const char *workload, *target;
  int most;
} reached_in_training[] = {{"ResNet-50", "fast", 88},   {"ResNet-50", "small", 92},
                           {"ResNet-50", "amd", 101},   {"ResNet-50", "least", 93},
                           {"SmolLM2-135M", "amd", 54}, {"StableDiffusion", "amd", 59}};

/* A large GPU with matrices, and a small one without; as RADV says of Navi 21; the least that Vulkan asks of a GPU. */
static const struct {
  const char *name;
  sn_precision precision;
  gpu_target target;
  bool compiled; /* by AMD's compiler, where it is installed */
} targets[] = {{"fast", SN_PRECISION_FAST, LARGE_GPU, false},
               {"small",
                SN_PRECISION_EXACT,
                {.subgroup = 8,
                 .max_threads = 256,
                 .shared_bytes = 32 << 10,
                 .block_bytes = 16 << 10,
                 .units = 4},
                false},
               {"amd",
                SN_PRECISION_EXACT,
                {.subgroup = 64,
                 .max_threads = 1024,
                 .shared_bytes = 64 << 10,
                 .block_bytes = 64 << 10,
                 .units = 32},
                true},
               {"least",
                SN_PRECISION_EXACT,
                {.subgroup = 16,
                 .max_threads = 128,
                 .shared_bytes = 16 << 10,
                 .block_bytes = 16 << 10,
                 .units = 32},
                false}};

/* NULL: it is not installed. */
static struct radv *amd(void) {
  static char why[300];
  static struct radv *found;
  static bool asked;
  if (!asked)
    found = radv_open(why, sizeof why);
  if (!asked && !found)
    printf("%s\n", why);
  asked = true;
  return found;
}

/* Registers of one kernel that has no room for all make it slower than a smaller tile would. */
static void compile_for_amd(const shader *s, int subgroup, const char *from) {
  radv_code code;
  if (!radv_compile(amd(), s, subgroup, &code)) {
    FAIL("%s: AMD's compiler refuses a shader of %zu words", from, s->n_words);
    return;
  }
  CHECK(code.registers > 0 && code.bytes > 0);
  if (code.spilled != 0)
    FAIL("%s: a shader of %zu words needs %d registers and %d more", from, s->n_words,
         code.registers, code.spilled);
}

TEST(amds_compiler_is_there) {
  if (!amd())
    test_skip("no RADV: the driver of Mesa for AMD's GPUs, or Vulkan's loader, is not installed");
}

static const struct {
  const char *name;
  subject_form form;
} forms[] = {
    {"inference", SUBJECT_INFERENCE}, {"latency", SUBJECT_LATENCY}, {"training", SUBJECT_BACKWARD}};

typedef struct tally {
  int steps, reused, launches, pipelines;
  phases_tally order;
} tally;

/* Only what a step has several of is merged, and each of these has several parts; noted in `used` is which shaders there are. */
static void check_launches(const step_launches *made, const struct shader_table *shaders,
                           bool *used) {
  for (int i = 0; i < made->n; i++) {
    const launch *l = &made->launches[i];
    int parts = 0;
    for (int k = 0; k < made->n; k++)
      parts += made->launches[k].code == l->code ? made->launches[k].n_parts : 0;
    CHECK(l->code->merged ? parts > 1 : l->n_parts == 1);
    for (int k = 0; k < shaders->n; k++)
      used[k] = used[k] || shaders->at[k] == l->code;
  }
}

/* Once with all steps emitted, once with those that are alike emitted once: the launches are the same. */
static bool emit_twice(sn_ctx *ctx, arena *memory, const program *p, int target, emit_env *env,
                       step_launches *made[2], int *out_reused) {
  for (int alike = 0; alike < 2; alike++) {
    *env = (emit_env){.target = &targets[target].target, .precision = targets[target].precision};
    made[alike] = arena_array(memory, (size_t)program_steps(p), sizeof *made[alike]);
    if (!CHECK(made[alike]))
      return false;
    if (launches_emit(env, ctx, memory, p, alike, made[alike], out_reused) != SN_OK)
      return FAIL("%s", sn_ctx_message(ctx));
  }
  for (int i = 0; i < program_steps(p); i++)
    if (!launches_same(&made[0][i], &made[1][i]))
      return FAIL("step %d (%s) is taken for one that it is not", i, p->steps[i].name);
  return true;
}

static bool emit_all(sn_ctx *ctx, const program *p, int target, const char *from, tally *out) {
  emit_env env;
  step_launches *made[2];
  bool used[MOST_SHADERS] = {false};
  arena memory;
  arena_init(&memory, ctx);
  *out = (tally){.steps = program_steps(p)};
  bool ok = emit_twice(ctx, &memory, p, target, &env, made, &out->reused) &&
            CHECK(env.shaders->n <= MOST_SHADERS);
  for (int i = 0; i < program_steps(p) && ok; i++) {
    for (int k = 0; k < made[1][i].n; k++)
      out->launches += !made[1][i].launches[k].kept;
    check_launches(&made[1][i], env.shaders, used);
  }
  for (int i = 0; ok && i < env.shaders->n; i++) {
    CHECK(used[i]); /* none is there for nothing */
    CHECK(env.shaders->at[i]->threads <= targets[target].target.max_threads);
    vm_validate(env.shaders->at[i], from);
    if (targets[target].compiled && amd())
      compile_for_amd(env.shaders->at[i], targets[target].target.subgroup, from);
  }
  out->pipelines = ok ? env.shaders->n : 0;
  if (ok)
    out->order = phases_check(ctx, p, made[1]);
  arena_clear(&memory);
  return ok;
}

static int most_pipelines(const sn_workload *w, int form, int target) {
  for (size_t i = 0; forms[form].form == SUBJECT_BACKWARD && i < COUNT_OF(reached_in_training); i++)
    if (strcmp(sn_workload_name(w), reached_in_training[i].workload) == 0 &&
        strcmp(targets[target].name, reached_in_training[i].target) == 0)
      return reached_in_training[i].most;
  return MOST_PIPELINES;
}

static void check_program(sn_ctx *ctx, const sn_workload *w, int form, int target,
                          const program *p) {
  tally t;
  if (!emit_all(ctx, p, target, sn_workload_name(w), &t))
    return;
  printf("%s, %s, %s: %d steps, %d of them like others, %d launches in %d phases, %d pipelines\n",
         sn_workload_name(w), forms[form].name, targets[target].name, t.steps, t.reused, t.launches,
         t.order.phases, t.pipelines);
  CHECK(t.order.phases <= t.order.barriers);
  int most = most_pipelines(w, form, target);
  if (t.pipelines > most)
    FAIL("%s: %d pipelines, at most %d (the aim is %d)", targets[target].name, t.pipelines, most,
         MOST_PIPELINES);
}

static void check_form(sn_ctx *ctx, const sn_workload *w, int form, int target) {
  enum { CHANNELS_LAST = 16 }; /* as the device asks for it */
  const compile_options options = {.channels_last =
                                       targets[target].target.bf16_places ? CHANNELS_LAST : 0};
  sn_graph *g;
  compiled c;
  if (!CHECK(subject_build(ctx, w, NULL, forms[form].form, &g) == SN_OK))
    return;
  if (compile_graph(g, &options, &c) == SN_OK) {
    check_program(ctx, w, form, target, c.program);
    compile_destroy(&c);
  } else
    FAIL("%s", sn_ctx_message(ctx));
  sn_graph_destroy(g);
}

TEST_WALK(pipelines) {
  for (int i = 0; sn_workload_at(i); i++)
    for (int form = 0; form < (int)COUNT_OF(forms); form++) {
      const sn_workload *w = sn_workload_at(i);
      sn_ctx *ctx;
      if (!test_begin("%s/%s", sn_workload_name(w), forms[form].name))
        continue;
      if (CHECK(sn_ctx_create(NULL, &ctx) == SN_OK)) {
        for (int target = 0; target < (int)COUNT_OF(targets); target++)
          check_form(ctx, w, form, target);
        sn_ctx_destroy(ctx);
      }
      test_end();
    }
}
