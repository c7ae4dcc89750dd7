/* Division of indices by sizes that are known when a plan runs (k_divide, slot_inverse): every kind of divisor and of number, on the host
 * and in the interpreter of SPIR-V; with 64-bit indices around 2^32, too. */
#include "ir/dim.h"
#include "support/test.h"
#include "support/vm_stage.h"

static const int64_t divisors[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   5,
                                   6,
                                   7,
                                   8,
                                   9,
                                   10,
                                   31,
                                   32,
                                   33,
                                   63,
                                   64,
                                   65,
                                   100,
                                   127,
                                   128,
                                   129,
                                   255,
                                   256,
                                   257,
                                   576,
                                   641,
                                   1000,
                                   1023,
                                   1024,
                                   1025,
                                   4095,
                                   4097,
                                   32767,
                                   65535,
                                   65536,
                                   65537,
                                   100000,
                                   1000003,
                                   16777215,
                                   16777216,
                                   16777217,
                                   (1 << 30) - 1,
                                   1 << 30,
                                   (1 << 30) + 1,
                                   1431655765,
                                   2147483629,
                                   INT32_MAX - 1,
                                   INT32_MAX};

/* Only with 64-bit indices. */
static const int64_t wide_divisors[] = {
    INT64_C(1) << 31,       (INT64_C(1) << 31) + 1, (INT64_C(1) << 32) - 1, INT64_C(1) << 32,
    (INT64_C(1) << 32) + 1, INT64_C(3) << 40,       INT64_C(1) << 50};

static int64_t at_least_one(int64_t divisor) { return divisor < 1 ? 1 : divisor; }

/* --- on the host, as shaders compute it --- */

static uint32_t divided(uint32_t x, uint64_t inverse) {
  uint32_t high = (uint32_t)((uint64_t)x * (uint32_t)inverse >> 32);
  return (high + x) >> (inverse >> 32);
}

static void check_number(int64_t divisor, int64_t x) {
  int64_t expected = x / at_least_one(divisor);
  if (x >= 0 && x <= INT32_MAX && divided((uint32_t)x, slot_inverse(divisor)) != expected)
    FAIL("%lld / %lld", (long long)x, (long long)divisor);
}

/* Around each power of two, multiples of the divisor, and evenly over all. */
static void check_divisor(int64_t divisor) {
  enum { EVENLY = 5000, STEP = 429503, MULTIPLES = 500 };
  int64_t by = at_least_one(divisor), most = INT32_MAX / by;
  for (int power = 0; power < 32; power++)
    for (int64_t by_one = -2; by_one <= 2; by_one++)
      check_number(divisor, (INT64_C(1) << power) + by_one);
  for (int64_t i = 0; i <= MULTIPLES; i++)
    for (int64_t by_one = -1; by_one <= 1; by_one++) {
      check_number(divisor, i * by + by_one);
      check_number(divisor, (most - i) * by + by_one);
    }
  for (int64_t i = 0; i < EVENLY; i++)
    check_number(divisor, i * STEP);
}

TEST(on_the_host) {
  for (size_t i = 0; i < COUNT_OF(divisors) && !test_failed(); i++)
    check_divisor(divisors[i]);
  for (int64_t divisor = 0; divisor < 3000 && !test_failed(); divisor++)
    check_divisor(divisor);
}

/* --- in shaders --- */

static const int64_t numbers[] = {
    0, 1, 2, 3, 7, 63, 64, 65, 99999, 65535, 65536, 16777217, 1 << 30, INT32_MAX - 1, INT32_MAX};
static const int64_t wide_numbers[] = {0,
                                       1,
                                       65537,
                                       INT32_MAX,
                                       INT64_C(1) << 31,
                                       UINT32_MAX,
                                       INT64_C(1) << 32,
                                       (INT64_C(1) << 32) + 1,
                                       INT64_C(0x123456789ab)};

/* Quotients, remainders, and both again by a product of three sizes and by tiles of one, each as two words. */
enum { RESULTS = 8, SIZES = 3 };
static const sn_dim sizes_of[SIZES] = {DIM_HANDLES, DIM_HANDLES - 1, DIM_HANDLES - 2};

static void put(kernel *k, int at, val x) {
  val low = k_to_u32(k, x), high = k_u32(k, 0);
  if (k->env->wide)
    high = k_part(k, k_bits(k, x, spirv_vector(&k->s, k->s.u32, 2)), 1);
  k_store(k, stage_buffer(k), k_index(k, STAGE_DEFINED + at), low);
  k_store(k, stage_buffer(k), k_index(k, STAGE_DEFINED + at + 1), high);
}

static void divide_all(kernel *k, const int64_t *x, int n) {
  static const amount by[] = {{1, 1, sizes_of}, {SIZES, 5, sizes_of}};
  val first = k_and(k, k_eq(k, k->local, k_index(k, 0)), k_eq(k, k->group, k_index(k, 0)));
  k_if one = k_if_begin(k, first);
  for (int i = 0; i < n; i++)
    for (int b = 0; b < 2; b++) {
      val rest, q = k_divide(k, k_index(k, x[i]), &by[b], &rest);
      put(k, i * RESULTS + 4 * b, q);
      put(k, i * RESULTS + 4 * b + 2, rest);
    }
  k_if_end(k, &one);
}

static void divide_numbers(kernel *k) { divide_all(k, numbers, (int)COUNT_OF(numbers)); }
static void divide_wide(kernel *k) { divide_all(k, wide_numbers, (int)COUNT_OF(wide_numbers)); }

static int64_t result(const vm_stage *s, int at) {
  return (int64_t)(stage_result(s, at) | (uint64_t)stage_result(s, at + 1) << 32);
}

static void check_divided(vm_stage *s, const int64_t *x, int n, int64_t divisor) {
  const int64_t sizes[SIZES] = {divisor, 3, 2};
  s->sizes = sizes;
  CHECK_EQ_STR(stage_run(s, VM_FORWARD), "");
  for (int i = 0; i < n && !test_failed(); i++)
    for (int b = 0; b < 2; b++) {
      int64_t by = at_least_one(b ? (divisor * 6 + 4) / 5 : divisor), q = x[i] / by;
      int at = i * RESULTS + 4 * b;
      bool fits = by <= INT32_MAX || s->env.wide;
      if (fits && (result(s, at) != q || result(s, at + 2) != x[i] - (divisor ? q * by : 0)))
        FAIL("%lld / %lld is %lld, rest %lld", (long long)x[i], (long long)by,
             (long long)result(s, at), (long long)result(s, at + 2));
    }
  s->sizes = NULL;
}

TEST(in_shaders) {
  vm_stage s;
  if (stage_open(&s, 32, divide_numbers))
    for (size_t i = 0; i < COUNT_OF(divisors) && !test_failed(); i++)
      check_divided(&s, numbers, (int)COUNT_OF(numbers), divisors[i]);
  stage_close(&s);
}

TEST(in_shaders_of_wide_indices) {
  vm_stage s;
  const int n = (int)COUNT_OF(wide_numbers);
  if (stage_open_wide(&s, 32, divide_wide)) {
    for (size_t i = 0; i < COUNT_OF(divisors) && !test_failed(); i++)
      check_divided(&s, wide_numbers, n, divisors[i]);
    for (size_t i = 0; i < COUNT_OF(wide_divisors) && !test_failed(); i++)
      check_divided(&s, wide_numbers, n, wide_divisors[i]);
  }
  stage_close(&s);
}
