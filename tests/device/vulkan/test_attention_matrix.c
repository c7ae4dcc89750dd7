/* Attention and its gradients by cooperative matrices, on the interpreter of SPIR-V, against the reference: with `fast` and `half`,
 * matrices of several shapes, sizes that fill tiles and that do not, numbers of any magnitude, and such as are not finite. Races, reads
 * of what nobody wrote and steps beside a value are found on the way. */
#include "device/cpu/extreme_attention.h"
#include "support/vm_step.h"

typedef struct machine_kind {
  const char *name;
  int units, subgroup, threads, shared, matrix[3];
  bool wide;
  vm_order order;
  bool places;
} machine_kind;
static const machine_kind machines[] = {
    {"large", 132, 32, 1024, 48 << 10, {16, 16, 16}, false, VM_FORWARD, false},
    {"places", 132, 32, 1024, 48 << 10, {16, 16, 16}, false, VM_RANDOM, true},
    {"few with places", 1, 32, 256, 40 << 10, {16, 16, 16}, true, VM_FORWARD, true},
    {"few units", 4, 32, 256, 48 << 10, {16, 16, 16}, false, VM_RANDOM, false},
    {"wide", 8, 64, 256, 32 << 10, {16, 16, 16}, true, VM_REVERSE, false},
    {"flat", 8, 32, 256, 40 << 10, {8, 16, 16}, false, VM_REVERSE, false},
    {"small", 132, 8, 128, 48 << 10, {8, 8, 8}, false, VM_RANDOM, false},
};

typedef struct trial {
  const char *source;
  core_change *change;
  sn_precision precision;
  const machine_kind *machine;
  int64_t *sizes;
  bool plain;      /* no kernel with matrices is expected */
  unsigned spared; /* results that nobody needs, a bit each */
} trial;

/* Errors, relative to the largest number of the result; what f16 and bf16 round away comes on top. */
static double bound_of(const trial *t, sn_dtype dtype) {
  double fast = t->machine->places ? 4e-5 : 4e-6, half = t->machine->places ? 3e-2 : 4e-3;
  double matrices = t->precision == SN_PRECISION_FAST ? fast : half;
  return matrices + (dtype == SN_F16 ? 1e-3 : dtype == SN_BF16 ? 8e-3 : 0);
}

static void compare(const core_case *k, int i, const case_tensor *want, const trial *t) {
  uint32_t v = k->core.out[i].value;
  sn_dtype dtype = want->type.dtype;
  double largest = 0;
  for (int64_t n = 0; n < want->count; n++)
    largest = isfinite(want->data[n]) ? fmax(largest, fabs(want->data[n])) : largest;
  for (int64_t n = 0; n < want->count; n++) {
    double x = want->data[n], y = dtype_load(dtype, k->address[v], n), error = fabs(x - y);
    bool same = x == y || (isnan(x) && isnan(y)) || error <= bound_of(t, dtype) * largest;
    if (!same) {
      FAIL("%s (%s, %d): result %d, element %lld: expected %.9g, got %.9g; largest %.9g", t->source,
           t->machine->name, t->precision, i, (long long)n, x, y, largest);
      return;
    }
  }
}

static void run_on(core_case *k, op_run *r, const trial *t) {
  const machine_kind *m = t->machine;
  part parts[1] = {{.u.core = k->core}};
  for (int i = 0; i < k->core.n_out; i++)
    if (t->spared >> i & 1)
      parts[0].u.core.out[i].value = 0;
  step s = {.kind = k->kind, .n_parts = 1, .parts = parts};
  core_clear(k, false);
  vm_step v = {.ctx = r->ctx,
               .program = &k->p,
               .sizes = t->sizes,
               .addresses = k->address,
               .target = vm_step_target(m->units),
               .precision = t->precision,
               .wide = m->wide,
               .order = m->order,
               .seed = 7};
  v.target.subgroup = m->subgroup;
  v.target.max_threads = m->threads;
  v.target.shared_bytes = m->shared;
  v.target.f16 = true;
  v.target.bf16 = v.target.places = v.target.bf16_places = m->places;
  memcpy(v.target.matrix, m->matrix, sizeof m->matrix);
  if (!vm_step_run(&v, &s))
    FAIL("%s (%s): %s", t->source, m->name, v.finding);
  else if ((v.matrix_shaders > 0) == t->plain && m->subgroup > 8) /* those have little room */
    FAIL("%s (%s): %d kernels with matrices", t->source, m->name, v.matrix_shaders);
  else
    for (int i = 0; i < k->core.n_out; i++)
      if (parts[0].u.core.out[i].value)
        compare(k, i, &r->out[i], t);
}

static void run_case(core_case *k, op_run *r, sn_graph *g, void *user) {
  trial t = *(const trial *)user;
  (void)g;
  for (int p = SN_PRECISION_FAST; p <= SN_PRECISION_HALF; p++)
    for (size_t m = 0; m < COUNT_OF(machines); m++) {
      t.precision = (sn_precision)p;
      t.machine = &machines[m];
      run_on(k, r, &t);
    }
}

static void check_trial(trial t) { core_case_with(t.source, t.change, run_case, &t); }
static void check_core(const char *source) { check_trial((trial){.source = source}); }
static void check_changed(const char *source, core_change *change) {
  check_trial((trial){.source = source, .change = change});
}

#define NONE4 "none, none, none, none"

TEST(attentions) {
  check_core("attention(f32[1, 2, 70, 16], f32[1, 1, 130, 16], f32[1, 1, 130, 32], " NONE4
             ") scale=0.3 causal=end");
  check_core("attention(f32[1, 1, 65, 64], f32[1, 1, 97, 64], f32[1, 1, 97, 64], " NONE4
             ") scale=0.125");
  check_core("attention(f32[2, 3, 9, 19], f32[2, 1, 40, 19], f32[2, 1, 40, 35], " NONE4
             ") scale=0.3 causal=start");
  check_core("attention(f32[1, 1, 20, 128], f32[1, 1, 35, 128], f32[1, 1, 35, 128], " NONE4
             ") scale=0.1");
  check_core("attention(f32[1, 6, 33, 64], f32[1, 2, 33, 64], f32[1, 2, 33, 64], " NONE4
             ") scale=0.125 causal=end");
  check_core("attention(f32[1, 2, 30, 1], f32[1, 2, 3, 1], f32[1, 2, 3, 1], " NONE4 ") scale=2");
  check_core("attention(bf16[1, 33, 4, 32], bf16[1, 70, 2, 32], bf16[1, 70, 2, 48], " NONE4
             ") scale=0.2 layout=bshd window=20");
  check_core("attention(f32[1, 1, 80, 8], f32[1, 1, 900, 8], f32[1, 1, 900, 8], none, none, none, "
             "f32[1]) scale=0.3 causal=end window=700"); /* parts of keys */
}

/* Many columns: operands packed before, in steps of 64. */
TEST(many_columns) {
  check_core("attention(f32[1, 2, 270, 64], f32[1, 2, 270, 64], f32[1, 2, 270, 64], " NONE4
             ") scale=0.125"); /* all packed at once */
  check_core("attention(f32[1, 2, 130, 64], f32[1, 1, 300, 64], f32[1, 1, 300, 64], " NONE4
             ") scale=0.125");
  check_core("attention(f32[2, 2, 70, 40], f32[2, 2, 310, 40], f32[2, 2, 310, 100], none, none, "
             "i32[2]{70, 310}, f32[2]) scale=0.2 causal=end window=200");
  check_core("attention(bf16[1, 80, 2, 64], bf16[1, 290, 2, 64], bf16[1, 290, 2, 6], " NONE4
             ") scale=-0.2 layout=bshd");
}

/* A few rows, without matrices: one key, teams of threads, parts of keys. */
TEST(few_queries) {
  static const char *const sources[] = {
      "attention(f32[1, 9, 1, 64], f32[1, 3, 1, 64], f32[1, 3, 1, 64], " NONE4 ") scale=0.125",
      "attention(f32[2, 2, 4, 20], f32[2, 1, 90, 20], f32[2, 1, 90, 33], " NONE4
      ") scale=0.3 causal=end window=70",
      "attention(f32[1, 1, 3, 128], f32[1, 1, 700, 128], f32[1, 1, 700, 96], none, none, none, "
      "f32[1]) scale=0.1 causal=end",
      "attention(bf16[1, 2, 2, 4], bf16[1, 2, 9, 4], bf16[1, 2, 9, 0], " NONE4 ") scale=0.5",
  };
  for (size_t i = 0; i < COUNT_OF(sources); i++)
    check_trial((trial){.source = sources[i], .plain = true});
}

#define GRADIENT(q, k, v, options, lse, out, rest)                                           \
  check_core("attention_grad(" q ", " k ", " v ", " options ", " lse "(3, 5), " out ", " out \
             ", none) " rest)

TEST(gradients) {
  GRADIENT("f32[1, 2, 70, 16]", "f32[1, 1, 80, 16]", "f32[1, 1, 80, 32]", NONE4, "f32[1, 2, 70]",
           "f32[1, 2, 70, 32]", "scale=0.5 causal=end");
  GRADIENT("f32[1, 1, 33, 64]", "f32[1, 1, 50, 64]", "f32[1, 1, 50, 64]", NONE4, "f32[1, 1, 33]",
           "f32[1, 1, 33, 64]", "scale=0.125");
  GRADIENT("f32[1, 6, 33, 64]", "f32[1, 2, 33, 64]", "f32[1, 2, 33, 64]", NONE4, "f32[1, 6, 33]",
           "f32[1, 6, 33, 64]", "scale=0.125 causal=end window=30");
  GRADIENT("f32[1, 1, 270, 4]", "f32[1, 1, 300, 4]", "f32[1, 1, 300, 5]", NONE4, "f32[1, 1, 270]",
           "f32[1, 1, 270, 5]", "scale=0.5 causal=end window=200"); /* in parts */
  GRADIENT("bf16[1, 40, 2, 8]", "bf16[1, 40, 2, 8]", "bf16[1, 40, 2, 100]", NONE4, "f32[1, 2, 40]",
           "bf16[1, 40, 2, 100]", "scale=0.5 softcap=1.5 window=20 layout=bshd");
  GRADIENT("f32[2, 2, 5, 4]", "f32[2, 1, 70, 4]", "f32[2, 1, 70, 4]",
           "bool[2, 1, 5, 70](0, 2), f32[2, 1, 1, 70], i32[2]{0, 69}, f32[2]", "f32[2, 2, 5]",
           "f32[2, 2, 5, 4]", "scale=0.5");
}

TEST(many_gradients) {
  GRADIENT("f32[1, 2, 150, 16]", "f32[1, 2, 150, 16]", "f32[1, 2, 150, 64]", NONE4,
           "f32[1, 2, 150]", "f32[1, 2, 150, 64]", "scale=0.25");
  GRADIENT("f32[1, 2, 200, 64]", "f32[1, 1, 210, 64]", "f32[1, 1, 210, 64]", NONE4,
           "f32[1, 2, 200]", "f32[1, 2, 200, 64]", "scale=0.125");
  GRADIENT("f32[2, 2, 140, 40]", "f32[2, 1, 300, 40]", "f32[2, 1, 300, 100]",
           "none, none, i32[2]{90, 300}, f32[2]", "f32[2, 2, 140]", "f32[2, 2, 140, 100]",
           "scale=-0.2 causal=end window=100");
  GRADIENT("bf16[2, 270, 2, 30]", "bf16[2, 80, 2, 30]", "bf16[2, 80, 2, 64]",
           "none, none, i32[2]{30, 80}, none", "f32[2, 2, 270]", "bf16[2, 270, 2, 64]",
           "scale=0.2 layout=bshd");
}

TEST(masks_and_more) {
  check_core("attention(f16[2, 4, 20, 7], f16[2, 2, 90, 7], f16[2, 2, 90, 80], bool[2, 1, 20, "
             "90](0, 2), f16[4, 1, 90], i32[2]{70, 90}, f16[4]) scale=0.4 softcap=2");
  check_core("attention(f32[2, 2, 20, 24], f32[2, 1, 60, 24], f32[2, 1, 60, 16], none, none, "
             "i32[2]{0, 13}, none) scale=0.4 causal=end"); /* rows that see nothing */
  check_core("attention(f32[1, 1, 12, 8], f32[1, 1, 0, 8], f32[1, 1, 0, 8], " NONE4 ") scale=1");
}

/* Each result alone; gradients of biases and sinks are sums, without matrices. */
static void check_alone(const char *source, int results, bool plain) {
  for (int i = 0; i < results; i++)
    check_trial((trial){.source = source, .plain = plain || i > 2, .spared = ~(1U << i)});
}

TEST(results_that_nobody_needs) {
  check_alone("attention(f32[1, 1, 3, 4], f32[1, 1, 9, 4], f32[1, 1, 9, 5], " NONE4 ") scale=0.5",
              2, true);
  check_alone("attention(f32[1, 1, 3, 4], f32[1, 1, 140, 4], f32[1, 1, 140, 3], " NONE4
              ") scale=0.5",
              2, true);
  check_alone("attention(f32[1, 1, 17, 4], f32[1, 1, 20, 4], f32[1, 1, 20, 5], " NONE4
              ") scale=0.3 causal=end",
              2, false);
  check_alone("attention(f16[1, 1, 33, 4], f16[1, 1, 70, 4], f16[1, 1, 70, 4], none, none, none, "
              "f16[1]) scale=0.3",
              2, false);
  check_alone("attention_grad(f32[1, 2, 9, 4], f32[1, 1, 20, 4], f32[1, 1, 20, 3], none, "
              "f32[1, 2, 1, 20], none, f32[2], f32[1, 2, 9](3, 5), f32[1, 2, 9, 3], "
              "f32[1, 2, 9, 3], none) scale=0.5",
              5, false);
}

/* Numbers of any magnitude: rows and columns by other powers of two, keys whose values are larger the later they come. */
static void make_wild(case_tensor *in) {
  for (int t = 0; t < 3; t++) {
    if (in[9].data && t == 2) /* a gradient: not all differences */
      continue;
    int64_t width = in[t].type.shape.dim[3], rows = in[t].count / width;
    for (int64_t n = 0; n < in[t].count; n++) {
      int64_t row = n / width % rows;
      int power = t == 0 ? -60 : t == 1 ? 60 : (int)(row * 14 / rows) - 7;
      in[t].data[n] = (float)ldexp(in[t].data[n], power);
    }
  }
}
static void make_large(case_tensor *in) {
  for (int t = 0; t < 3; t++)
    for (int64_t n = 0; n < in[t].count; n++)
      in[t].data[n] = (float)(in[t].data[n] * (t < 2 ? 1 : 1e33));
}
static void make_small(case_tensor *in) {
  for (int t = 0; t < 3; t++)
    for (int64_t n = 0; n < in[t].count; n++)
      in[t].data[n] = (float)(in[t].data[n] * (t == 1 ? 1e30 : 1e-30));
}
static void make_zero(case_tensor *in) {
  for (int t = 0; t < 3; t++)
    for (int64_t n = 0; n < in[t].count; n++)
      in[t].data[n] = 0;
}

/* Scores that are larger the later their key comes, by more than exponents of f32 tell apart. Few bits, so that products are exact. */
static void make_growing(case_tensor *in) {
  for (int t = 0; t < 2; t++) {
    int64_t width = in[t].type.shape.dim[3], rows = in[t].count / width;
    for (int64_t n = 0; n < in[t].count; n++) {
      double few = round(in[t].data[n] * 4) / 4;
      in[t].data[n] = (float)ldexp(few, t == 0 ? 0 : (int)(n / width * 7 / rows));
    }
  }
}

TEST(growing_scores) {
  check_changed("attention(f32[1, 1, 40, 24], f32[1, 1, 500, 24], f32[1, 1, 500, 16], " NONE4
                ") scale=0.5",
                make_growing);
  check_changed("attention(f32[1, 1, 40, 24], f32[1, 1, 500, 24], f32[1, 1, 500, 16], " NONE4
                ") scale=-0.5 causal=end",
                make_growing);
}

TEST(magnitudes) {
  static core_change *const changes[] = {make_wild, make_large, make_small, make_zero};
  for (size_t i = 0; i < COUNT_OF(changes); i++)
    check_changed("attention(f32[1, 2, 20, 24], f32[1, 1, 140, 24], f32[1, 1, 140, 16], " NONE4
                  ") scale=0.5",
                  changes[i]);
  for (size_t i = 0; i < COUNT_OF(changes); i++)
    check_changed("attention_grad(f32[1, 2, 20, 24], f32[1, 1, 140, 24], f32[1, 1, 140, 16], " NONE4
                  ", f32[1, 2, 20](3, 5), f32[1, 2, 20, 16], f32[1, 2, 20, 16], none) scale=0.5",
                  changes[i]);
}

/* Where a unit in the last place of scores is more than exp can take, the largest weighs 1 all the same. */
static void huge_scores(case_tensor *in) { extreme_set_scores(in, 0x1.2p60); }
static void huge_others(case_tensor *in) { extreme_set_scores(in, 0x1.4p60); }
TEST(extreme_scores) {
  static core_change *const scores[] = {huge_scores, huge_others, extreme_huger, extreme_below};
  static core_change *const biases[] = {extreme_huge_bias, extreme_huger_bias, extreme_no_bias};
  for (size_t i = 0; i < COUNT_OF(scores); i++)
    check_changed("attention(f32[1, 1, 130, 16], f32[1, 1, 40, 16], f32[1, 1, 40, 16], " NONE4
                  ") scale=0.25",
                  scores[i]);
  for (size_t i = 0; i < COUNT_OF(biases); i++)
    check_changed("attention(f32[1, 1, 17, 16], f32[1, 1, 33, 16], f32[1, 1, 33, 16], none, "
                  "f32[17, 33], none, none) scale=0.25",
                  biases[i]);
}

TEST(what_is_masked_counts_nothing) {
  check_changed("attention(f32[1, 1, 70, 5], f32[1, 1, 70, 5], f32[1, 1, 70, 6], " NONE4
                ") scale=0.5 causal=end window=20",
                core_spoil);
  check_changed("attention(f32[1, 1, 70, 5], f32[1, 1, 300, 5], f32[1, 1, 300, 6], " NONE4
                ") scale=0.5 causal=start window=20",
                core_spoil);
  check_changed("attention_grad(f32[1, 1, 70, 5], f32[1, 1, 70, 5], f32[1, 1, 70, 6], " NONE4
                ", f32[1, 1, 70](3, 5), f32[1, 1, 70, 6], f32[1, 1, 70, 6], none) scale=0.5 "
                "causal=end window=20",
                core_spoil);
  check_changed("attention_grad(f32[1, 1, 270, 5], f32[1, 1, 800, 5], f32[1, 1, 800, 6], " NONE4
                ", f32[1, 1, 270](3, 5), f32[1, 1, 270, 6], f32[1, 1, 270, 6], none) scale=0.5 "
                "causal=start window=20",
                core_spoil);
}
