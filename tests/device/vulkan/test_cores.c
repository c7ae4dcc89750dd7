/* Cores of the Vulkan device on the interpreter of SPIR-V, against the reference: every case of their ops, sizes that reach every way
 * of computing them, targets of several sizes. Races, reads of what nobody wrote and steps beside a value are found on
 * the way. */
#include "device/cpu/extreme_attention.h"
#include "support/vm_step.h"

/* What cases run on. */
typedef struct machine_kind {
  const char *name;
  int units, subgroup, threads, shared;
  bool wide;
  vm_order order;
} machine_kind;
static const machine_kind machines[] = {{"large", 132, 32, 1024, 48 << 10, false, VM_FORWARD},
                                        {"small", 4, 8, 128, 16 << 10, false, VM_RANDOM},
                                        {"wide", 60, 64, 256, 32 << 10, true, VM_REVERSE}};

/* A case and what is done to it. */
typedef struct trial {
  const char *source;
  core_change *change; /* or NULL */
  int64_t number; /* 0, or a number whose multiples become those of a symbol that may be larger */
  int64_t *sizes;
} trial;

static void run_on(core_case *k, sn_ctx *ctx, const machine_kind *m, bool in_place,
                   const trial *t) {
  part parts[1] = {{.u.core = k->core}};
  core_part *c = &parts[0].u.core;
  step s = {.kind = k->kind, .n_parts = 1, .parts = parts};
  if (k->kind == STEP_SCATTER && c->ints[1] == -1)
    c->in[1].rank = 1; /* as the planner has them */
  if (k->kind == STEP_SAMPLE)
    c->out[0].rank = 1;
  core_clear(k, in_place);
  if (in_place)
    c->in[0].value = k->core.out[0].value;
  vm_step v = {.ctx = ctx,
               .program = &k->p,
               .sizes = t->sizes,
               .addresses = k->address,
               .target = vm_step_target(m->units),
               .wide = m->wide,
               .order = m->order,
               .seed = 7};
  v.target.subgroup = m->subgroup;
  v.target.max_threads = m->threads;
  v.target.shared_bytes = m->shared;
  if (!vm_step_run(&v, &s))
    FAIL("%s (%s): %s", t->source, m->name, v.finding);
}

static void run_kinds(core_case *k, op_run *r, const trial *t) {
  for (size_t m = 0; m < COUNT_OF(machines); m++)
    for (int in_place = 0; in_place <= (k->kind == STEP_SCATTER); in_place++) {
      run_on(k, r->ctx, &machines[m], in_place, t);
      for (int i = 0; i < k->core.n_out; i++)
        core_compare(k, i, &r->out[i], t->source);
    }
}

static void make_symbolic(sn_graph *g, strided *s, int n, int64_t number, sn_dim symbol) {
  for (int i = 0; i < n; i++)
    for (int d = 0; d < s[i].rank; d++) {
      sn_dim *at[] = {&s[i].dim[d], &s[i].stride[d]};
      for (int a = 0; a < 2; a++)
        if (*at[a] > 0 && *at[a] % number == 0)
          *at[a] = sn_dim_mul(g, symbol, *at[a] / number);
    }
}

/* Sizes that are multiples of the number become symbolic; scratch and guards are then for a maximum. */
static void use_symbol(core_case *k, op_run *r, sn_graph *g, trial *t) {
  enum { TIMES = 5 };
  sn_dim symbol = sn_symbol(g, "n", TIMES * t->number);
  make_symbolic(g, k->core.in, k->core.n_in, t->number, symbol);
  make_symbolic(g, k->core.out, k->core.n_out, t->number, symbol);
  k->p.dims = g;
  t->sizes = calloc((size_t)program_sizes(&k->p) + 1, sizeof *t->sizes);
  CHECK_EQ_INT(program_bind(&k->p, r->ctx, &t->number, t->sizes), SN_OK);
}

static void run_case(core_case *k, op_run *r, sn_graph *g, void *user) {
  trial *t = user;
  if (t->number)
    use_symbol(k, r, g, t);
  run_kinds(k, r, t);
  free(t->sizes);
}

static void check_trial(trial t) { core_case_with(t.source, t.change, run_case, &t); }
static void check_core(const char *source) { check_trial((trial){.source = source}); }
static void check_core_changed(const char *source, core_change *change) {
  check_trial((trial){.source = source, .change = change});
}
static void check_core_symbolic(const char *source, int64_t number) {
  check_trial((trial){.source = source, .number = number});
}

TEST_WALK(every_case) { core_walk(check_core); }

/* --- orders --- */

static void put_odd(case_tensor *in) { core_put_odd(in, 61); }

/* In one block, merged from blocks, the first few of many; ties, NaN. */
TEST(orders) {
  check_core("sort(f32[2, 150, 2]) axis=1 descending=true");
  check_core("sort(i32[300](-3, 4)) axis=0 descending=false");
  check_core_changed("sort(f32[5000]) axis=0 descending=true", put_odd);
  check_core("sort(u8[2, 2100](0, 9)) axis=1 descending=false");
  check_core("topk(bf16[3, 70]) k=9 axis=1 largest=true");
  check_core_changed("topk(f32[5000]) k=7 axis=0 largest=false", put_odd);
  check_core("topk(i32[2, 4200](-99, 99)) k=600 axis=1 largest=true");
  check_core("permutation(i32[3]{5, 6, 7}) n=300 stream=9");
  check_core("permutation(i32[3]{5, 6, 7}) n=2500 stream=9");
}

/* --- scans --- */

TEST(scans) {
  check_core("cumsum(f32[3, 70]) axis=1 reverse=true");
  check_core("cumsum(f32[2, 70, 9]) axis=1 exclusive=true");
  check_core("cumprod(bf16[2, 3, 70]) axis=0");
  check_core("cumsum(f32[17000]) axis=0 exclusive=true reverse=true");
  check_core("cumsum(i32[2, 17000](-99, 99)) axis=1");
  check_core("cumsum(u8[1100, 9]) axis=0");
  check_core("cumsum(f16[1, 1100, 40]) axis=1 reverse=true");
}

/* --- scatters --- */

TEST(scatters) {
  check_core("scatter_add(f32[20, 33], i32[50](0, 20), f32[50, 33])");
  check_core("scatter_add(f32[20, 3], i32[300](0, 20), f32[300, 3])");
  check_core("scatter_add(bf16[4, 3], i32[300](0, 4), bf16[300, 3])");
  check_core("scatter_set(i32[40, 3], i32[300](0, 40), i32[300, 3])");
  check_core("scatter_set(f32[700], i32[2500](0, 700), f32[2500])");
  check_core("scatter_add(f32[3, 2], i32[1000](0, 2), f32[1000, 2])"); /* long runs */
  check_core("scatter_add(i32[900], i32[700](0, 900), i32[700](-9, 9))");
  check_core("scatter_along_add(f16[3, 7, 5], i32[3, 20, 5](0, 7), f16[3, 20, 5]) axis=1");
  check_core("scatter_along_add(f32[2, 7, 3], i32[2, 200, 3](0, 7), f32[2, 200, 3]) axis=1");
  check_core("scatter_along_set(f32[2, 9], i32[2, 200](0, 9), f32[2, 200]) axis=1");
}

/* --- samples --- */

#define SAMPLE(logits, history, rest) \
  check_core("sample(" logits ", i32[3]{3, 1, 4}, " history ") " rest " stream=2")

TEST(samples) {
  SAMPLE("f32[2, 5000]", "none", "temperature=0 top_k=0 top_p=1 min_p=0 repetition_penalty=1");
  SAMPLE("f32[3, 900]", "none", "temperature=0.8 top_k=0 top_p=1 min_p=0 repetition_penalty=1");
  SAMPLE("f32[2, 5000]", "none", "temperature=1 top_k=0 top_p=1 min_p=0.1 repetition_penalty=1");
  SAMPLE("f32[2, 5000]", "none", "temperature=1 top_k=40 top_p=0.9 min_p=0 repetition_penalty=1");
  SAMPLE("f32[2, 900]", "none", "temperature=1 top_k=700 top_p=1 min_p=0 repetition_penalty=1");
  SAMPLE("f32[2, 3000]", "none", "temperature=1 top_k=0 top_p=0.8 min_p=0.02 repetition_penalty=1");
  SAMPLE("bf16[2, 300]", "i32[2, 5](0, 300)",
         "temperature=0.7 top_k=20 top_p=1 min_p=0 repetition_penalty=1.5");
}

/* --- attention --- */

#define NONE4 "none, none, none, none"

TEST(attentions) {
  check_core("attention(f32[1, 2, 70, 19], f32[1, 1, 130, 19], f32[1, 1, 130, 35], " NONE4
             ") scale=0.3 causal=end");
  check_core(
      "attention(f32[1, 3, 1, 8], f32[1, 3, 600, 8], f32[1, 3, 600, 12], none, none, i32[1]{500}, "
      "none) scale=0.3 causal=end window=300");
  check_core("attention(f32[1, 3, 1, 8], f32[1, 1, 200, 8], f32[1, 1, 200, 70], " NONE4
             ") scale=2"); /* two tiles of keys */
  check_core("attention(bf16[1, 4, 2, 32], bf16[1, 300, 2, 32], bf16[1, 300, 2, 32], " NONE4
             ") scale=0.2 layout=bshd");
  check_core(
      "attention(f16[2, 4, 20, 7], f16[2, 2, 90, 7], f16[2, 2, 90, 80], bool[2, 1, 20, 90](0, 2), "
      "f16[4, 1, 90], i32[2]{70, 90}, f16[4]) scale=0.4 softcap=2");
  check_core("attention(f32[1, 2, 70, 8], f32[1, 1, 300, 8], f32[1, 1, 300, 8], none, none, none, "
             "f32[2]) scale=0.3 causal=end window=200"); /* parts of keys where units are many */
  check_core("attention(f32[1, 1, 2, 200], f32[1, 1, 70, 200], f32[1, 1, 70, 300], " NONE4
             ") scale=0.1");
}

#define GRADIENT(q, k, v, options, lse, out, rest)                                           \
  check_core("attention_grad(" q ", " k ", " v ", " options ", " lse "(3, 5), " out ", " out \
             ", none) " rest)

TEST(attention_gradients) {
  GRADIENT("f32[1, 2, 70, 9]", "f32[1, 1, 80, 9]", "f32[1, 1, 80, 6]", NONE4, "f32[1, 2, 70]",
           "f32[1, 2, 70, 6]", "scale=0.5 causal=end");
  GRADIENT("f32[1, 1, 270, 4]", "f32[1, 1, 300, 4]", "f32[1, 1, 300, 5]", NONE4, "f32[1, 1, 270]",
           "f32[1, 1, 270, 5]", "scale=0.5 causal=end window=200"); /* in parts */
  GRADIENT("bf16[1, 70, 2, 8]", "bf16[1, 70, 2, 8]", "bf16[1, 70, 2, 140]", NONE4, "f32[1, 2, 70]",
           "bf16[1, 70, 2, 140]", "scale=0.5 softcap=1.5 window=20 layout=bshd");
  GRADIENT("f32[2, 2, 5, 4]", "f32[2, 1, 70, 4]", "f32[2, 1, 70, 4]",
           "none, f32[2, 1, 1, 70], none, f32[2]", "f32[2, 2, 5]", "f32[2, 2, 5, 4]", "scale=0.5");
  GRADIENT("f32[2, 2, 70, 4]", "f32[2, 1, 5, 4]", "f32[2, 1, 5, 4]",
           "none, f32[2, 70, 1], none, none", "f32[2, 2, 70]", "f32[2, 2, 70, 4]", "scale=0.5");
  GRADIENT("f32[2, 2, 5, 4]", "f32[2, 1, 7, 4]", "f32[2, 1, 7, 4]", "none, f32[1, 1], none, none",
           "f32[2, 2, 5]", "f32[2, 2, 5, 4]", "scale=0.5");
}

TEST(what_is_masked_counts_nothing) {
  check_core_changed("attention(f32[1, 1, 70, 5], f32[1, 1, 70, 5], f32[1, 1, 70, 6], " NONE4
                     ") scale=0.5 causal=end window=20",
                     core_spoil);
  check_core_changed("attention_grad(f32[1, 1, 70, 5], f32[1, 1, 70, 5], f32[1, 1, 70, 6], " NONE4
                     ", f32[1, 1, 70](3, 5), f32[1, 1, 70, 6], f32[1, 1, 70, 6], none) scale=0.5 "
                     "causal=end window=20",
                     core_spoil);
}

TEST(extreme_scores) {
  extreme_each(&(extreme_shape){2, 1, 1, 7, 4}, check_core_changed);
  extreme_each(&(extreme_shape){1, 1, 9, 33, 4}, check_core_changed);
}

/* Sizes that may be larger than they are: scratch for the most, guards that choose by what is. */
TEST(symbolic_sizes) {
  check_core_symbolic("cumsum(f32[2, 97]) axis=1", 97);
  check_core_symbolic("cumsum(f32[3, 1009]) axis=1 exclusive=true", 1009);
  check_core_symbolic("sort(f32[2, 1009]) axis=1 descending=true", 1009);
  check_core_symbolic("topk(f32[2, 1009]) k=7 axis=1 largest=true", 1009);
  check_core_symbolic("permutation(i32[3]{5, 6, 7}) n=1009 stream=9", 1009);
  check_core_symbolic("scatter_add(f32[20, 3], i32[97](0, 20), f32[97, 3])", 97);
  check_core_symbolic("scatter_add(f32[20, 3], i32[307](0, 20), f32[307, 3])", 307);
  check_core_symbolic("scatter_set(f32[20, 3], i32[307](0, 20), f32[307, 3])", 307);
  check_core_symbolic("attention(f32[1, 2, 23, 8], f32[1, 1, 90, 8], f32[1, 1, 90, 8], " NONE4
                      ") scale=0.3 causal=end",
                      23);
  check_core_symbolic("attention(f32[1, 2, 53, 8], f32[1, 1, 53, 8], f32[1, 1, 53, 8], " NONE4
                      ") scale=0.3 causal=end",
                      53);
  check_core_symbolic("attention_grad(f32[1, 2, 53, 8], f32[1, 1, 53, 8], f32[1, 1, 53, 8], " NONE4
                      ", f32[1, 2, 53](3, 5), f32[1, 2, 53, 8], f32[1, 2, 53, 8], none) scale=0.3 "
                      "causal=end",
                      53);
}
