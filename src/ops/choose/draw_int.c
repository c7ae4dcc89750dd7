/* bernoulli, randint, permutation: bools and integers, the same on every device (choose.h says
 * how). */
#include "ops/choose/choose.h"

static const char NO_GRADIENT[] = "its result is an integer or a bool";

/* --- bernoulli --- */
static sn_status infer_bernoulli(infer_ctx *c) {
  SN_TRY(infer_probability(c, "p", ATTRS(bernoulli)->p));
  return infer_random(c, SN_BOOL, ATTRS(bernoulli)->shape);
}

static sn_status ref_bernoulli(ref_ctx *c) {
  rng r = rng_of(&c->in[0], ATTRS(bernoulli)->stream);
  for (int64_t i = 0; i < c->out[0].count; i++)
    c->out[0].data[i] = rng_below(&r, (uint64_t)i, ATTRS(bernoulli)->p);
  return SN_OK;
}

static reg element_bernoulli(elem_ctx *c, const place *at) {
  return element_below(c, 0, at, ATTRS(bernoulli)->p, ATTRS(bernoulli)->stream);
}

static const op_case bernoulli_cases[] = {
    {"bernoulli(i32[3]{0, 0, 0}) shape=[7] p=0.5 stream=0 => bool[7]{1, 0, 0, 0, 0, 1, 0}", NULL},
    {"bernoulli(i32[3]{7, -2, 3}) shape=[7, 1] p=0.3 stream=4 => bool[7, 1]{0, 1, 0, 1, 1, 0, 0}",
     NULL},
    /* u of the first word is 6694888 / 2^24: not below itself, below anything more */
    {"bernoulli(i32[3]{0, 0, 0}) shape=[1] p=0.3990464210510254 stream=0 => bool[1]{0}", NULL},
    {"bernoulli(i32[3]{0, 0, 0}) shape=[1] p=0.3990464508533478 stream=0 => bool[1]{1}", NULL},
    {"bernoulli(i32[3]) shape=[3] p=0 => bool[3]{0, 0, 0}", NULL},
    {"bernoulli(i32[3]) shape=[3] p=1 => bool[3]{1, 1, 1}", NULL},
    {"bernoulli(i32[3]) shape=[0, 3] p=0.5", NULL},
    {"bernoulli(i32[3]) shape=[2] p=1.5", "p must lie in 0 … 1"},
    {"bernoulli(i32[3]) shape=[2] p=nan", "p must lie in 0 … 1"},
    {"bernoulli(i32[3]) shape=[-2] p=0.5", "negative"},
    {"bernoulli(i32[]) shape=[2] p=0.5", "key must be [3]"},
};

const op_impl op_impl_bernoulli = {.infer = infer_bernoulli,
                                   .ref = ref_bernoulli,
                                   .no_grad = NO_GRADIENT,
                                   .element = element_bernoulli,
                                   CASES(bernoulli_cases)};

/* --- randint --- */
static sn_status infer_randint(infer_ctx *c) {
  int64_t lo = ATTRS(randint)->lo, hi = ATTRS(randint)->hi;
  if (lo >= hi || lo < INT32_MIN || hi > INT64_C(0x80000000))
    return infer_fail(c, "lo must be below hi and lo … hi-1 fit i32, got %lld and %lld",
                      (long long)lo, (long long)hi);
  return infer_random(c, SN_I32, ATTRS(randint)->shape);
}

static sn_status ref_randint(ref_ctx *c) {
  const attrs_randint *a = ATTRS(randint);
  rng r = rng_of(&c->in[0], a->stream);
  uint64_t n = (uint64_t)(a->hi - a->lo);
  for (int64_t i = 0; i < c->out[0].count; i++) {
    uint64_t high = rng_word(&r, 2 * (uint64_t)i), low = rng_word(&r, 2 * (uint64_t)i + 1);
    /* n is at most 2^32, so neither product nor sum overflows */
    c->out[0].data[i] = (double)(a->lo + (int64_t)((high * n + (low * n >> 32)) >> 32));
  }
  return SN_OK;
}

static reg element_randint(elem_ctx *c, const place *at) {
  const attrs_randint *a = ATTRS(randint);
  coord index = elem_linear(c, at, c->out[0].shape);
  coord high = coord_scale(c->graph, &index, 2), low = coord_shift(c->graph, &high, 1);
  reg x = element_word(c, 0, a->stream, &high), y = element_word(c, 0, a->stream, &low);
  return elem_alu_as(c, ALU_range_int, SN_I32, x, y, 0, (double)a->lo, (double)(a->hi - a->lo));
}

static const op_case randint_cases[] = {
    {"randint(i32[3]{0, 0, 0}) shape=[5] lo=0 hi=10 stream=0 => i32[5]{3, 7, 9, 6, 0}", NULL},
    {"randint(i32[3]{7, -2, 3}) shape=[3] lo=-2147483648 hi=2147483648 stream=4 => "
     "i32[3]{47661010, 722011229, -1023024462}",
     NULL},
    {"randint(i32[3]{7, -2, 3}) shape=[3, 1] lo=-5 hi=6 stream=4 => i32[3, 1]{0, 2, -3}", NULL},
    {"randint(i32[3]) shape=[3] lo=7 hi=8 => i32[3]{7, 7, 7}", NULL},
    {"randint(i32[3]) shape=[0, 3] lo=0 hi=2", NULL},
    {"randint(i32[3]) shape=[2] lo=3 hi=3", "lo must be below hi"},
    {"randint(i32[3]) shape=[2] lo=0 hi=2147483649", "fit i32"},
    {"randint(i32[3]) shape=[2] lo=-2147483649 hi=0", "fit i32"},
    {"randint(i32[3]) shape=[-2] lo=0 hi=2", "negative"},
    {"randint(i32[3, 1]) shape=[2] lo=0 hi=2", "key must be [3]"},
};

const op_impl op_impl_randint = {.infer = infer_randint,
                                 .ref = ref_randint,
                                 .no_grad = NO_GRADIENT,
                                 .element = element_randint,
                                 CASES(randint_cases)};

/* --- permutation --- */
static sn_status infer_permutation(infer_ctx *c) {
  sn_dim n = ATTRS(permutation)->n;
  if (sn_dim_max(c->graph, n) > INT32_MAX)
    return infer_fail(c, "n must fit i32");
  return infer_random(c, SN_I32, SN_SHAPE(n));
}

static sn_status ref_permutation(ref_ctx *c) {
  rng r = rng_of(&c->in[0], ATTRS(permutation)->stream);
  int64_t n = c->out[0].count;
  sort_item *items = arena_array(c->scratch, (size_t)n, 2 * sizeof *items);
  if (!items)
    return SN_ERR_NO_MEMORY;
  for (int64_t i = 0; i < n; i++)
    items[i] = (sort_item){rng_word(&r, (uint64_t)i), i};
  sort_items(items, items + n, n, false);
  for (int64_t i = 0; i < n; i++)
    c->out[0].data[i] = (double)items[i].at;
  return SN_OK;
}

static const op_case permutation_cases[] = {
    {"permutation(i32[3]{0, 0, 0}) n=7 stream=0 => i32[7]{5, 0, 3, 6, 2, 1, 4}", NULL},
    {"permutation(i32[3]{7, -2, 3}) n=5 stream=4 => i32[5]{3, 1, 4, 0, 2}", NULL},
    {"permutation(i32[3]) n=1 => i32[1]{0}", NULL},
    {"permutation(i32[3]) n=0", NULL},
    {"permutation(i32[3]) n=-1", "negative"},
    {"permutation(i32[3]) n=2147483648", "n must fit i32"},
    {"permutation(u8[3]) n=5", "key must be i32"},
};

const op_impl op_impl_permutation = {.infer = infer_permutation,
                                     .ref = ref_permutation,
                                     .no_grad = NO_GRADIENT,
                                     CASES(permutation_cases)};
