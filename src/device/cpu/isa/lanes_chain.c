/* Chains of instructions: what one leaves stays in vector registers for the next. See lanes.h.
 *
 * A block of some vectors goes through all steps, then the next block. A step is a function that has the vectors as
 * parameters, which are registers, and ends with the call of the next, which compilers make a jump. So a step costs a jump a
 * block, and memory is touched only for what others read. Order of sums: four vectors by halves in f32, what comes
 * of them in f64. */
#include "device/cpu/isa/alu_floats.h"
#include "device/cpu/isa/lanes_set.h"
#include "device/cpu/isa/lanes_stream.h"

/* --- reductions of one row --- */
/* VEC partial results, in f64. */
typedef double any_f64 __attribute__((vector_size(8 * VEC_HALF), aligned(8), may_alias));
VEC_INLINE void add_wide(double *to, vec v) {
  any_f64 *s = (any_f64 *)to;
  s[0] += vec_widen(v, 0);
  s[1] += vec_widen(v, 1);
}

/* NaN wins. */
#if defined(ISA_avx512)
VEC_INLINE void most_wide(double *to, vec v) {
  for (int k = 0; k < 2; k++) {
    __m512d s = _mm512_loadu_pd(to + k * VEC_HALF), p = (__m512d)vec_widen(v, k);
    _mm512_storeu_pd(to + k * VEC_HALF,
                     _mm512_mask_max_pd(s, _mm512_cmp_pd_mask(s, s, _CMP_ORD_Q), s, p));
  }
}
#else
VEC_INLINE void most_wide(double *to, vec v) {
  for (int k = 0; k < VEC; k++) {
    double p = (double)v[k];
    to[k] = to[k] > p || to[k] != to[k] ? to[k] : p;
  }
}
#endif
VEC_INLINE void least_wide(double *to, vec v) {
  for (int k = 0; k < VEC; k++) {
    double p = (double)v[k];
    to[k] = to[k] < p || to[k] != to[k] ? to[k] : p;
  }
}
/* NaN wins. */
VEC_INLINE vec_f64 larger_of(vec_f64 a, vec_f64 b) {
  vec_i64 m = (vec_i64)(a > b) | (vec_i64)(a != a);
  return (vec_f64)(((vec_i64)a & m) | ((vec_i64)b & ~m));
}

double ISA(lanes_total)(reduce_kind kind, const double *sums) {
  const any_f64 *s = (const any_f64 *)sums;
  double sign = kind == REDUCE_MIN ? -1 : 1, v[VEC_HALF];
  vec_f64 x = (s[0] + s[1]) + (s[2] + s[3]);
  if (kind != REDUCE_SUM)
    x = larger_of(larger_of(s[0] * sign, s[1] * sign), larger_of(s[2] * sign, s[3] * sign));
  memcpy(v, &x, sizeof v);
  for (int half = VEC_HALF / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) {
      double p = v[i], q = v[i + half];
      v[i] = kind == REDUCE_SUM ? p + q : p > q || p != p ? p : q;
    }
  return v[0] * sign;
}

/* The first n lanes of x, `none` behind them. */
VEC_INLINE vec first_lanes(vec x, int n, vec none) {
  vec_i32 at;
  for (int i = 0; i < VEC; i++)
    at[i] = i;
  return vec_pick(vec_less(vec_of_ints(at), vec_all((float)n)), x, none);
}

/* --- steps, for vector k of a block --- */
/* Memory in the order of addresses, which compilers do not care for but processors that look ahead do. */
#define IN_ORDER __asm__ volatile("" ::: "memory")
#define READ_LANES(k, unused) \
  IN_ORDER;                   \
  a##k = vec_load(b + k * VEC);
#define SAME(k, one)          a##k = one;
#define KEEP(k, unused)       vec_store(to + k * VEC, a##k);
#define STREAM_OUT(k, unused) STREAM(to + k * VEC, a##k);
#define ADD_WIDE(k, unused)   add_wide(to + k * VEC, a##k);
#define PICK(k, other)                                                     \
  {                                                                        \
    vec_i32 m;                                                             \
    memcpy(&m, b + k * VEC, sizeof m);                                     \
    a##k = vec_pick(vec_same(vec_of_ints(m), vec_all(0)), other(k), a##k); \
  }
#define PICK_NOT(k, other)                                                 \
  {                                                                        \
    vec_i32 m;                                                             \
    memcpy(&m, b + k * VEC, sizeof m);                                     \
    a##k = vec_pick(vec_same(vec_of_ints(m), vec_all(0)), a##k, other(k)); \
  }
#define KEPT(k, unused)      \
  const vec whole##k = a##k; \
  a##k = first_lanes(a##k, (int)(r->n - i) - k * VEC, none);
#define PUT_BACK(k, unused) a##k = whole##k;

#define WITH_SELF(k, expression) \
  {                              \
    const vec p = a##k, q = p;   \
    (void)q;                     \
    a##k = expression;           \
  }
#define WITH_LANES(k, expression)                  \
  {                                                \
    IN_ORDER;                                      \
    const vec p = a##k, q = vec_load(b + k * VEC); \
    a##k = expression;                             \
  }
#define WITH_LANES_FIRST(k, expression)            \
  {                                                \
    IN_ORDER;                                      \
    const vec q = a##k, p = vec_load(b + k * VEC); \
    a##k = expression;                             \
  }
#define WITH_ONE(k, expression)  \
  {                              \
    const vec p = a##k, q = one; \
    a##k = expression;           \
  }
#define WITH_ONE_FIRST(k, expression) \
  {                                   \
    const vec q = a##k, p = one;      \
    a##k = expression;                \
  }
#define CODE(name, how) (CHAIN_ALU + 8 * ALU_##name + (how))
/* What `with` is; what will be wanted of it soon. */
#define LANES_OF_STEP                              \
  const float *b = (const float *)s->with + i;     \
  if (s->ahead)                                    \
    for (int k = 0; k < CHAIN_VECS * VEC; k += 16) \
      __builtin_prefetch((const char *)(b + k) + s->ahead, 0, 2);
#define ONE_OF_STEP const vec one = vec_all(*(const float *)s->with);

/* --- blocks --- */
#define EACH_2(S, e) S(0, e) S(1, e)
#define EACH_4(S, e) EACH_2(S, e) S(2, e) S(3, e)
#define EACH_8(S, e) EACH_4(S, e) S(4, e) S(5, e) S(6, e) S(7, e)
#define TREE_2(f)    f(a0, a1)
#define TREE_4(f)    f(f(a0, a1), f(a2, a3))
#define TREE_8(f)    f(f(f(a0, a1), f(a2, a3)), f(f(a4, a5), f(a6, a7)))
#define TOGETHER_2(f, i, j)   \
  {                           \
    vec v[] = {a##i, a##j};   \
    f(v, 2);                  \
    a##i = v[0], a##j = v[1]; \
  }
#define TOGETHER_4(f, i, j, k, l)                       \
  {                                                     \
    vec v[] = {a##i, a##j, a##k, a##l};                 \
    f(v, 4);                                            \
    a##i = v[0], a##j = v[1], a##k = v[2], a##l = v[3]; \
  }
#define NOTHING(statements)
#define THESE(statements) statements

/* What all steps of a call know. */
typedef struct lane_run {
  intptr_t n;
} lane_run;

#define CHAIN(name) VEC_JOIN(whole, name)
#define CHAIN_TAIL  NOTHING
#if defined(ISA_avx512)
#define CHAIN_VECS        8
#define CHAIN_EACH        EACH_8
#define CHAIN_TREE        TREE_8
#define CHAIN_TOGETHER(f) TOGETHER_4(f, 0, 1, 2, 3) TOGETHER_4(f, 4, 5, 6, 7)
#define CHAIN_ADD                      \
  add_wide(to, (a0 + a1) + (a2 + a3)); \
  add_wide(to + VEC, (a4 + a5) + (a6 + a7));
#define CHAIN_TAKE vec a0, vec a1, vec a2, vec a3, vec a4, vec a5, vec a6, vec a7
#define CHAIN_GIVE a0, a1, a2, a3, a4, a5, a6, a7
enum { WHOLE = 8 * VEC };
#else
#define CHAIN_VECS        4
#define CHAIN_EACH        EACH_4
#define CHAIN_TREE        TREE_4
#define CHAIN_TOGETHER(f) TOGETHER_4(f, 0, 1, 2, 3)
#define CHAIN_ADD         add_wide(to + (i / WHOLE & 1) * VEC, (a0 + a1) + (a2 + a3));
#define CHAIN_TAKE        vec a0, vec a1, vec a2, vec a3
#define CHAIN_GIVE        a0, a1, a2, a3
enum { WHOLE = 4 * VEC };
#endif
#include "device/cpu/isa/lanes_chain.def"

#define CHAIN(name)       VEC_JOIN(rest, name)
#define CHAIN_TAIL        THESE
#define CHAIN_VECS        2
#define CHAIN_EACH        EACH_2
#define CHAIN_TREE        TREE_2
#define CHAIN_TOGETHER(f) TOGETHER_2(f, 0, 1)
#define CHAIN_ADD         add_wide(to, a0 + a1);
#define CHAIN_TAKE        vec a0, vec a1
#define CHAIN_GIVE        a0, a1
#include "device/cpu/isa/lanes_chain.def"

void ISA(lanes_chain)(lane_step *steps, int n_steps, int n) {
  lane_row row = ISA(lanes_find_row)(steps, n_steps, n);
  if (row) {
    ISA(lanes_add_row)(&steps[n_steps - 1], row(steps, n));
    return;
  }
  int whole = n / WHOLE * WHOLE;
  if (whole > 0)
    whole_run(steps, n_steps, 0, whole, n);
  if (whole < n)
    rest_run(steps, n_steps, whole, n, n);
}

bool ISA(lanes_in_chain)(alu code) {
  return code == ALU_select || whole_find(CODE(none, CHAIN_SELF) + 8 * (int)code) != NULL;
}
