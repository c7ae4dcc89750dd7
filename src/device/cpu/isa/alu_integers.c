/* Arithmetic on integers and bools, comparisons. Integers wrap: they are computed as unsigned. */
#include "device/cpu/isa/alu_set.h"

#define WRAP(p, op, q) (int32_t)((uint32_t)(p)op(uint32_t)(q))
BLOCKS_1(neg, int32_t, int32_t, WRAP(0, -, p))
BLOCKS_1(abs_value, int32_t, int32_t, p < 0 ? WRAP(0, -, p) : p)
BLOCKS_1(sign, int32_t, int32_t, (p > 0) - (p < 0))
BLOCKS_1(same, int32_t, int32_t, p)
BLOCKS_1(not, int32_t, int32_t, p == 0)
BLOCKS_2(add, int32_t, int32_t, WRAP(p, +, q))
BLOCKS_2(sub, int32_t, int32_t, WRAP(p, -, q))
BLOCKS_2(mul, int32_t, int32_t, WRAP(p, *, q))
BLOCKS_2(larger, int32_t, int32_t, p > q ? p : q)
BLOCKS_2(smaller, int32_t, int32_t, p < q ? p : q)
BLOCKS_2(eq, int32_t, int32_t, p == q)
BLOCKS_2(ne, int32_t, int32_t, p != q)
BLOCKS_2(lt, int32_t, int32_t, p < q)
BLOCKS_2(le, int32_t, int32_t, p <= q)
BLOCKS_2(gt, int32_t, int32_t, p > q)
BLOCKS_2(ge, int32_t, int32_t, p >= q)
BLOCKS_2(both, int32_t, int32_t, (p != 0) & (q != 0))
BLOCKS_2(either, int32_t, int32_t, (p != 0) | (q != 0))
BLOCKS_2(differ, int32_t, int32_t, (p != 0) != (q != 0))

/* In 64 bits, so that INT32_MIN / -1 wraps when it is narrowed. */
static int64_t div_of(int64_t p, int64_t q) { return q == 0 ? 0 : p / q; }
static int64_t fmod_of(int64_t p, int64_t q) { return q == 0 ? 0 : p % q; }
static int64_t floor_div_of(int64_t p, int64_t q) {
  return q == 0 ? 0 : p / q - (p % q != 0 && (p < 0) != (q < 0));
}
static int64_t rem_of(int64_t p, int64_t q) {
  int64_t r = fmod_of(p, q);
  return r != 0 && (r < 0) != (q < 0) ? r + q : r;
}
static int32_t pow_of(int32_t p, int32_t q) {
  uint32_t result = 1, base = (uint32_t)p;
  if (q < 0)
    return p == 1 ? 1 : p == -1 ? (q % 2 ? -1 : 1) : 0;
  for (; q; q >>= 1, base *= base)
    result *= q & 1 ? base : 1;
  return (int32_t)result;
}
LANES_2(divide, int32_t, int32_t, div_of(p, q))
LANES_2(floor_divide_lanes, int32_t, int32_t, floor_div_of(p, q))
LANES_2(rem_lanes, int32_t, int32_t, rem_of(p, q))
LANES_2(fmods, int32_t, int32_t, fmod_of(p, q))
LANES_2(power, int32_t, int32_t, pow_of(p, q))

/* By one number that is a power of two, which windows of convolutions and pools often are. */
#define BY_ONE(name, by_power, by_any)                     \
  KERNEL(name##_one_b) {                                   \
    UNUSED_ARGUMENTS;                                      \
    const int32_t *a = pa, q = *(const int32_t *)pb;       \
    int32_t *restrict o = out;                             \
    if (q > 0 && (q & (q - 1)) == 0) {                     \
      int shift = __builtin_ctz((unsigned)q);              \
      (void)shift;                                         \
      for (int block = 0; block < n; block += LANES_BLOCK) \
        for (int i = block; i < block + LANES_BLOCK; i++)  \
          o[i] = by_power;                                 \
      return;                                              \
    }                                                      \
    for (int i = 0; i < n; i++)                            \
      o[i] = (int32_t)by_any(a[i], q);                     \
  }
BY_ONE(floor_divide, a[i] >> shift, floor_div_of)
BY_ONE(rem, a[i] & (q - 1), rem_of)

static int32_t range_of(int32_t a, int32_t b, double lo, double count) {
  uint64_t n = (uint64_t)count;
  uint64_t offset = ((uint32_t)a * n + ((uint32_t)b * n >> 32)) >> 32;
  return (int32_t)(uint32_t)((uint64_t)(int64_t)lo + offset);
}
LANES_2(range_int, int32_t, int32_t, range_of(p, q, x, y))
LANES_2(bits_below, int32_t, int32_t, (double)((uint32_t)p >> 8) < x)

KERNEL(select) {
  (void)x, (void)y;
  int32_t *restrict o = out;
  const int32_t *a = pa, *b = pb, *c = pc;
  for (int block = 0; block < n; block += LANES_BLOCK)
    for (int i = block; i < block + LANES_BLOCK; i++) {
      int32_t yes = b[i], no = c[i];
      o[i] = a[i] ? yes : no;
    }
}

static const alu_row rows[ALU_COUNT] = {
    [ALU_neg] = {.lanes = neg},
    [ALU_abs] = {.lanes = abs_value},
    [ALU_sign] = {.lanes = sign},
    [ALU_floor] = {.lanes = same},
    [ALU_ceil] = {.lanes = same},
    [ALU_round] = {.lanes = same},
    [ALU_not] = {.lanes = not },
    [ALU_add] = ALU_ROW(add),
    [ALU_sub] = ALU_ROW(sub),
    [ALU_mul] = ALU_ROW(mul),
    [ALU_div] = {.lanes = divide},
    [ALU_floor_div] = {.lanes = floor_divide_lanes, .one_b = floor_divide_one_b},
    [ALU_rem] = {.lanes = rem_lanes, .one_b = rem_one_b},
    [ALU_fmod] = {.lanes = fmods},
    [ALU_pow] = {.lanes = power},
    [ALU_max] = ALU_ROW(larger),
    [ALU_min] = ALU_ROW(smaller),
    [ALU_eq] = ALU_ROW(eq),
    [ALU_ne] = ALU_ROW(ne),
    [ALU_lt] = ALU_ROW(lt),
    [ALU_le] = ALU_ROW(le),
    [ALU_gt] = ALU_ROW(gt),
    [ALU_ge] = ALU_ROW(ge),
    [ALU_and] = ALU_ROW(both),
    [ALU_or] = ALU_ROW(either),
    [ALU_xor] = ALU_ROW(differ),
    [ALU_range_int] = {.lanes = range_int},
    [ALU_bits_below] = {.lanes = bits_below},
    [ALU_select] = {.lanes = select},
};

lane_alu ISA(alu_integers)(alu code, unsigned ones) { return alu_row_find(&rows[code], ones); }

/* --- bools of floats --- */
BLOCKS_1(is_nan, int32_t, float, p != p)
BLOCKS_1(is_inf, int32_t, float, fabsf(p) == INFINITY)
BLOCKS_2(eq_f, int32_t, float, p == q)
BLOCKS_2(ne_f, int32_t, float, p != q)
BLOCKS_2(lt_f, int32_t, float, p < q)
BLOCKS_2(le_f, int32_t, float, p <= q)
BLOCKS_2(gt_f, int32_t, float, p > q)
BLOCKS_2(ge_f, int32_t, float, p >= q)
static const alu_row compare_rows[ALU_COUNT] = {
    [ALU_isnan] = {.lanes = is_nan}, [ALU_isinf] = {.lanes = is_inf}, [ALU_eq] = ALU_ROW(eq_f),
    [ALU_ne] = ALU_ROW(ne_f),        [ALU_lt] = ALU_ROW(lt_f),        [ALU_le] = ALU_ROW(le_f),
    [ALU_gt] = ALU_ROW(gt_f),        [ALU_ge] = ALU_ROW(ge_f),
};
lane_alu ISA(alu_compare)(alu code, unsigned ones) {
  return alu_row_find(&compare_rows[code], ones);
}
