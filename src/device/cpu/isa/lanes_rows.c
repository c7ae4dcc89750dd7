/* Loops for the chains that norms, softmax and losses are made of: all lanes of a row, with sums and numbers in registers from
 * the first lane to the last, where chains step by step keep them in memory. See lanes.h.
 *
 * A row of the table below is a chain's codes; its loop reads what they name of the steps. Order of sums: four vectors side by
 * side in f32, over ROW_RUN lanes; what comes of them in f64. */
#include "device/cpu/isa/alu_floats.h"
#include "device/cpu/isa/lanes_set.h"
#include "device/cpu/isa/lanes_stream.h"

enum { ROW_RUN = 16 * VEC, ROW_CODES = 12, ROW_BLOCK = 32, ROW_LEAST = 128 };

/* --- arguments --- */
#define LANES(k) l##k
#define ONE(k)   vec_all(*(const float *)s[k].with)
/* Addresses once: what is stored might be steps, for all that compilers know. */
#define AT(k)                          \
  const float *const l##k = s[k].with; \
  const int64_t ahead##k = s[k].ahead; \
  (void)ahead##k
#define X(i) vec_load(LANES(0) + (i))
/* What will be wanted of lanes soon, for a block of four vectors. */
#define ASK(k)                                     \
  if (ahead##k)                                    \
    for (int line = 0; line < 4 * VEC; line += 16) \
      __builtin_prefetch((const char *)(LANES(k) + i + line) + ahead##k, 0, 2);

VEC_INLINE double total_of(vec_f64 x) {
  double v[VEC_HALF];
  memcpy(v, &x, sizeof v);
  for (int half = VEC_HALF / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++)
      v[i] += v[i + half];
  return v[0];
}

/* --- sums: TERM(sum, i) adds the lanes from i on --- */
#define ROW_SUM(name, numbers, asks, TERM)               \
  static double name(const lane_step *s, int n) {        \
    numbers;                                             \
    vec_f64 low = {0}, high = {0};                       \
    for (int i = 0; i < n;) {                            \
      vec a = {0}, b = {0}, c = {0}, d = {0};            \
      const int end = n - i < ROW_RUN ? n : i + ROW_RUN; \
      for (; i + 4 * VEC <= end; i += 4 * VEC) {         \
        asks;                                            \
        TERM(a, i)                                       \
        TERM(b, i + VEC)                                 \
        TERM(c, i + 2 * VEC)                             \
        TERM(d, i + 3 * VEC)                             \
      }                                                  \
      for (; i < end; i += VEC)                          \
        TERM(a, i)                                       \
      a = (a + b) + (c + d);                             \
      low += vec_widen(a, 0);                            \
      high += vec_widen(a, 1);                           \
    }                                                    \
    return total_of(low + high);                         \
  }

#define PLAIN(sum, i)  sum += X(i);
#define SQUARE(sum, i) sum = vec_fma(X(i), X(i), sum);
#define SPREAD(sum, i)        \
  {                           \
    const vec x = X(i) - c1;  \
    sum = vec_fma(x, x, sum); \
  }
#define SPREAD_KEPT(sum, i)   \
  {                           \
    const vec x = X(i) - c1;  \
    if (past)                 \
      STREAM(to + (i), x);    \
    else                      \
      vec_store(to + (i), x); \
    sum = vec_fma(x, x, sum); \
  }
#define PRODUCT(sum, i) sum = vec_fma(X(i), vec_load(LANES(1) + (i)), sum);
#define SCALED(sum, i)  sum = vec_fma(X(i) * c1, vec_load(LANES(2) + (i)), sum);
#define MOVED(sum, i)   sum = vec_fma((X(i) - c1) * c2, vec_load(LANES(3) + (i)), sum);
#define POWER(sum, i)   sum += vec_exp(X(i) - c1);
#define POWER_KEPT(sum, i)            \
  {                                   \
    const vec x = vec_exp(X(i) - c1); \
    vec_store(to + (i), x);           \
    sum += x;                         \
  }
ROW_SUM(sum, AT(0), ASK(0), PLAIN)
ROW_SUM(sum_square, AT(0), ASK(0), SQUARE)
ROW_SUM(sum_spread, AT(0); const vec c1 = ONE(1), ASK(0), SPREAD)
ROW_SUM(sum_spread_kept, AT(0); float *const to = s[2].to; const vec c1 = ONE(1);
        const bool past = s[2].code == CHAIN_STREAM, ASK(0), SPREAD_KEPT)
ROW_SUM(sum_product, AT(0); AT(1), ASK(0) ASK(1), PRODUCT)
ROW_SUM(sum_scaled, AT(0); AT(2); const vec c1 = ONE(1), ASK(0) ASK(2), SCALED)
ROW_SUM(sum_moved, AT(0); AT(3); const vec c1 = ONE(1); const vec c2 = ONE(2), ASK(0) ASK(3), MOVED)
ROW_SUM(sum_power, AT(0); const vec c1 = ONE(1), ASK(0), POWER)
ROW_SUM(sum_power_kept, AT(0); float *const to = s[3].to; const vec c1 = ONE(1), ASK(0), POWER_KEPT)

/* --- the largest: NaN wins --- */
static double most(const lane_step *s, int n) {
  AT(0);
  vec m[4];
  float v[VEC];
  for (int k = 0; k < 4; k++)
    m[k] = vec_all(-INFINITY);
  int i = 0;
  for (; i + 4 * VEC <= n; i += 4 * VEC) {
    ASK(0);
    m[0] = max_of(m[0], X(i));
    m[1] = max_of(m[1], X(i + VEC));
    m[2] = max_of(m[2], X(i + 2 * VEC));
    m[3] = max_of(m[3], X(i + 3 * VEC));
  }
  for (; i < n; i += VEC)
    m[0] = max_of(m[0], X(i));
  m[0] = max_of(max_of(m[0], m[1]), max_of(m[2], m[3]));
  memcpy(v, &m[0], sizeof v);
  for (int k = 1; k < VEC; k++)
    v[0] = v[0] > v[k] || v[0] != v[0] ? v[0] : v[k];
  return (double)v[0];
}

/* --- results: VALUE(i) to what step `at` keeps --- */
#define ROW_MAP(name, at, numbers, asks, VALUE)                                                   \
  static double name(const lane_step *s, int n) {                                                 \
    numbers;                                                                                      \
    float *to = s[at].to;                                                                         \
    if (s[at].code == CHAIN_STREAM) {                                                             \
      for (int i = 0; i + 4 * VEC <= n; i += 4 * VEC) {                                           \
        asks;                                                                                     \
        STREAM(to + i, VALUE(i));                                                                 \
        STREAM(to + i + VEC, VALUE(i + VEC));                                                     \
        STREAM(to + i + 2 * VEC, VALUE(i + 2 * VEC));                                             \
        STREAM(to + i + 3 * VEC, VALUE(i + 3 * VEC));                                             \
      }                                                                                           \
      for (int i = n / (4 * VEC) * 4 * VEC; i < n; i += VEC)                                      \
        STREAM(to + i, VALUE(i));                                                                 \
      return 0;                                                                                   \
    }                                                                                             \
    for (int i = 0; i + 4 * VEC <= n; i += 4 * VEC) {                                             \
      asks;                                                                                       \
      const vec a = VALUE(i), b = VALUE(i + VEC), c = VALUE(i + 2 * VEC), d = VALUE(i + 3 * VEC); \
      vec_store(to + i, a);                                                                       \
      vec_store(to + i + VEC, b);                                                                 \
      vec_store(to + i + 2 * VEC, c);                                                             \
      vec_store(to + i + 3 * VEC, d);                                                             \
    }                                                                                             \
    for (int i = n / (4 * VEC) * 4 * VEC; i < n; i += VEC)                                        \
      vec_store(to + i, VALUE(i));                                                                \
    return 0;                                                                                     \
  }

#define NORMED(i)      (((X(i) - c1) * c2) * vec_load(LANES(3) + (i)) + vec_load(LANES(4) + (i)))
#define NORMED_BY(i)   ((X(i) * c1) * vec_load(LANES(2) + (i)))
#define TIMES(i)       (X(i) * vec_load(LANES(1) + (i)))
#define DIVIDED(i)     quotient_of(X(i), c1, by)
#define DIVIDED_ANY(i) (X(i) / c1)
ROW_MAP(normed, 5, AT(0); AT(3); AT(4); const vec c1 = ONE(1);
        const vec c2 = ONE(2), ASK(0), NORMED)
ROW_MAP(normed_by, 3, AT(0); AT(2); const vec c1 = ONE(1), ASK(0), NORMED_BY)
ROW_MAP(times, 2, AT(0); AT(1), ASK(0) ASK(1), TIMES)
ROW_MAP(divided_soon, 2, AT(0); const vec c1 = ONE(1); const vec by = 1 / c1, ASK(0), DIVIDED)
ROW_MAP(divided_any, 2, AT(0); const vec c1 = ONE(1), ASK(0), DIVIDED_ANY)
static double divided(const lane_step *s, int n) {
  return divides_by(*(const float *)s[1].with) ? divided_soon(s, n) : divided_any(s, n);
}

/* Gradients of norms: c (d g - x m) and what is moved by means. */
#define BACK_BY(i) ((vec_load(LANES(3) + (i)) - (X(i) * c1) * c2) * c4)
#define BACK(i)    (((vec_load(LANES(4) + (i)) - ((X(i) - c1) * c2) * c3) - c5) * c6)
ROW_MAP(norm_back_by, 5, AT(0); AT(3); const vec c1 = ONE(1); const vec c2 = ONE(2);
        const vec c4 = ONE(4), ASK(0) ASK(3), BACK_BY)
ROW_MAP(norm_back, 7, AT(0); AT(4); const vec c1 = ONE(1); const vec c2 = ONE(2);
        const vec c3 = ONE(3); const vec c5 = ONE(5); const vec c6 = ONE(6), ASK(0) ASK(4), BACK)

/* Gradients of softmax: shares of a total. */
#define SHARE(sum, i)     sum = vec_fma(DIVIDED(i), vec_load(LANES(2) + (i)), sum);
#define SHARE_ANY(sum, i) sum = vec_fma(DIVIDED_ANY(i), vec_load(LANES(2) + (i)), sum);
#define SHARED(i)         (DIVIDED(i) * vec_load(LANES(2) + (i)))
#define SHARED_ANY(i)     (DIVIDED_ANY(i) * vec_load(LANES(2) + (i)))
#define LESS(i)           (X(i) - c1)
ROW_SUM(sum_share_soon, AT(0); AT(2); const vec c1 = ONE(1);
        const vec by = 1 / c1, ASK(0) ASK(2), SHARE)
ROW_SUM(sum_share_any, AT(0); AT(2); const vec c1 = ONE(1), ASK(0) ASK(2), SHARE_ANY)
static double sum_share(const lane_step *s, int n) {
  return divides_by(*(const float *)s[1].with) ? sum_share_soon(s, n) : sum_share_any(s, n);
}
ROW_MAP(shared_soon, 3, AT(0); AT(2); const vec c1 = ONE(1);
        const vec by = 1 / c1, ASK(0) ASK(2), SHARED)
ROW_MAP(shared_any, 3, AT(0); AT(2); const vec c1 = ONE(1), ASK(0) ASK(2), SHARED_ANY)
static double shared(const lane_step *s, int n) {
  return divides_by(*(const float *)s[1].with) ? shared_soon(s, n) : shared_any(s, n);
}
ROW_MAP(less, 2, AT(0); const vec c1 = ONE(1), ASK(0), LESS)

/* --- gelu: h (erf(h c) p + q) --- */
/* Of n vectors at i; steps from `at` on are those from c on, and with a bias before them h is kept. */
VEC_INLINE void gelu_at(const lane_step *s, int at, int i, const int n) {
  const float *x = (const float *)s[0].with + i, *again = (const float *)s[at + 4].with + i;
  const vec c = ONE(at), p = ONE(at + 2), q = ONE(at + 3);
  float *to = (float *)s[at + 5].to + i;
  vec h[VECS], e[VECS];
  for (int k = 0; k < n; k++) {
    h[k] = vec_load(x + k * VEC);
    if (at > 1) {
      h[k] = h[k] + vec_load((const float *)s[1].with + i + k * VEC);
      vec_store((float *)s[2].to + i + k * VEC, h[k]);
    }
    e[k] = h[k] * c;
  }
  vecs_erf(e, n);
  for (int k = 0; k < n; k++) {
    e[k] = vec_load(again + k * VEC) * (e[k] * p + q);
    if (s[at + 5].code == CHAIN_STREAM)
      STREAM(to + k * VEC, e[k]);
    else
      vec_store(to + k * VEC, e[k]);
  }
}
VEC_INLINE double gelu_from(const lane_step *s, int at, int n) {
  AT(0);
  int i = 0;
  for (; i + 4 * VEC <= n; i += 4 * VEC) {
    ASK(0);
    gelu_at(s, at, i, 4);
  }
  for (; i < n; i += VEC)
    gelu_at(s, at, i, 1);
  return 0;
}
static double gelu(const lane_step *s, int n) { return gelu_from(s, 1, n); }
static double bias_gelu(const lane_step *s, int n) { return gelu_from(s, 3, n); }

/* --- which --- */
#define OF(name, how) (CHAIN_ALU + 8 * ALU_##name + CHAIN_##how)
static const struct known {
  lane_row run;
  int codes[ROW_CODES]; /* ended by -1; KEEP also stands for STREAM */
} known[] = {
    {sum, {CHAIN_READ, CHAIN_SUM, -1}},
    {most, {CHAIN_READ, CHAIN_MOST, -1}},
    {sum_square, {CHAIN_READ, OF(mul, SELF), CHAIN_SUM, -1}},
    {sum_spread, {CHAIN_READ, OF(sub, ONE), OF(mul, SELF), CHAIN_SUM, -1}},
    {sum_spread_kept, {CHAIN_READ, OF(sub, ONE), CHAIN_KEEP, OF(mul, SELF), CHAIN_SUM, -1}},
    {sum_product, {CHAIN_READ, OF(mul, LANES), CHAIN_SUM, -1}},
    {sum_scaled, {CHAIN_READ, OF(mul, ONE), OF(mul, LANES), CHAIN_SUM, -1}},
    {sum_moved, {CHAIN_READ, OF(sub, ONE), OF(mul, ONE), OF(mul, LANES), CHAIN_SUM, -1}},
    {sum_power, {CHAIN_READ, OF(sub, ONE), OF(exp, SELF), CHAIN_SUM, -1}},
    {sum_power_kept, {CHAIN_READ, OF(sub, ONE), OF(exp, SELF), CHAIN_KEEP, CHAIN_SUM, -1}},
    {normed,
     {CHAIN_READ, OF(sub, ONE), OF(mul, ONE), OF(mul, LANES), OF(add, LANES), CHAIN_KEEP, -1}},
    {normed_by, {CHAIN_READ, OF(mul, ONE), OF(mul, LANES), CHAIN_KEEP, -1}},
    {norm_back_by,
     {CHAIN_READ, OF(mul, ONE), OF(mul, ONE), OF(sub, LANES_FIRST), OF(mul, ONE), CHAIN_KEEP, -1}},
    {norm_back,
     {CHAIN_READ, OF(sub, ONE), OF(mul, ONE), OF(mul, ONE), OF(sub, LANES_FIRST), OF(sub, ONE),
      OF(mul, ONE), CHAIN_KEEP, -1}},
    {times, {CHAIN_READ, OF(mul, LANES), CHAIN_KEEP, -1}},
    {divided, {CHAIN_READ, OF(div, ONE), CHAIN_KEEP, -1}},
    {sum_share, {CHAIN_READ, OF(div, ONE), OF(mul, LANES), CHAIN_SUM, -1}},
    {shared, {CHAIN_READ, OF(div, ONE), OF(mul, LANES), CHAIN_KEEP, -1}},
    {less, {CHAIN_READ, OF(sub, ONE), CHAIN_KEEP, -1}},
    {gelu,
     {CHAIN_READ, OF(mul, ONE), OF(erf, SELF), OF(mul, ONE), OF(add, ONE), OF(mul, LANES_FIRST),
      CHAIN_KEEP, -1}},
    {bias_gelu,
     {CHAIN_READ, OF(add, LANES), CHAIN_KEEP, OF(mul, ONE), OF(erf, SELF), OF(mul, ONE),
      OF(add, ONE), OF(mul, LANES_FIRST), CHAIN_KEEP, -1}},
};

static bool matches(const struct known *k, const lane_step *s, int n_steps) {
  for (int i = 0; i < n_steps; i++) {
    int code = s[i].code == CHAIN_STREAM ? CHAIN_KEEP : s[i].code;
    if (i == ROW_CODES || k->codes[i] != code)
      return false;
  }
  return k->codes[n_steps] < 0;
}

lane_row ISA(lanes_find_row)(const lane_step *steps, int n_steps, int n) {
  if (n % ROW_BLOCK != 0 || n < ROW_LEAST || n_steps >= ROW_CODES)
    return NULL;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (matches(&known[i], steps, n_steps))
      return known[i].run;
  return NULL;
}

void ISA(lanes_add_row)(const lane_step *last, double v) {
  double *to = last->to;
  if (last->code == CHAIN_SUM)
    to[0] += v;
  else if (last->code == CHAIN_MOST)
    to[0] = to[0] > v || to[0] != to[0] ? to[0] : v;
}
