/* Tests of src/base: context, memory, arena, text, hash, half. */
#include "base/arena.h"
#include "base/half.h"
#include "base/text.h"
#include "support/fault.h"
#include "support/test.h"

#include <math.h>

TEST(status_names_are_there) {
  for (int i = SN_OK; i <= SN_ERR_INTERNAL; i++)
    CHECK(sn_status_name((sn_status)i)[0]);
  CHECK_EQ_STR(sn_status_name(SN_ERR_NO_MEMORY), "no memory");
  CHECK_EQ_STR(sn_status_name((sn_status)1000), "unknown status");
  CHECK_EQ_STR(sn_version(), SN_VERSION);
}

TEST(context_keeps_the_last_message) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  CHECK_EQ_STR(sn_ctx_message(ctx), "");
  CHECK_EQ_INT(diag_fail(ctx, SN_ERR_FORMAT, "line %d", 7), SN_ERR_FORMAT);
  CHECK_EQ_INT(diag_within(ctx, SN_ERR_FORMAT, "file %s", "a"), SN_ERR_FORMAT);
  CHECK_EQ_STR(sn_ctx_message(ctx), "file a: line 7");
  sn_ctx_destroy(ctx);
  sn_ctx_destroy(NULL);
  CHECK_EQ_STR(sn_ctx_message(NULL), "");
}

TEST(long_messages_are_cut) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  char lots[3000];
  memset(lots, 'x', sizeof lots - 1);
  lots[sizeof lots - 1] = '\0';
  CHECK_EQ_INT(diag_fail(ctx, SN_ERR_INVALID, "%s", lots), SN_ERR_INVALID);
  CHECK(strlen(sn_ctx_message(ctx)) < sizeof lots);
  CHECK_EQ_INT(diag_within(ctx, SN_ERR_INVALID, "%s", "prefix"), SN_ERR_INVALID);
  CHECK_STR_HAS(sn_ctx_message(ctx), "prefix: xxx");
  CHECK_EQ_INT(diag_within(ctx, SN_ERR_INVALID, "%s", lots), SN_ERR_INVALID);
  size_t room = sizeof ctx->message;
  CHECK_EQ_UINT(strlen(sn_ctx_message(ctx)), room - 1);
  for (size_t n = room - 8; n < room + 2; n++) { /* around the end of the buffer */
    CHECK_EQ_INT(diag_fail(ctx, SN_ERR_INVALID, "inner"), SN_ERR_INVALID);
    CHECK_EQ_INT(diag_within(ctx, SN_ERR_INVALID, "%.*s", (int)n, lots), SN_ERR_INVALID);
    CHECK(strlen(sn_ctx_message(ctx)) < room);
  }
  sn_ctx_destroy(ctx);
}

TEST(memory_goes_through_the_allocator) {
  fault_heap heap = {0};
  sn_ctx *ctx = fault_ctx(&heap);
  REQUIRE(ctx != NULL);
  unsigned char *p = mem_alloc(ctx, 100);
  REQUIRE(p != NULL);
  for (int i = 0; i < 100; i++)
    CHECK_EQ_INT(p[i], 0);
  p[99] = 7;
  p = mem_resize(ctx, p, 100, 1000);
  REQUIRE(p != NULL);
  CHECK_EQ_INT(p[99], 7);
  mem_free(ctx, p, 1000);
  void *none = mem_alloc(ctx, 0);
  CHECK(none != NULL);
  mem_free(ctx, none, 0);
  char *copy = mem_strdup(ctx, "text");
  CHECK_EQ_STR(copy, "text");
  mem_free_str(ctx, copy);
  mem_free(ctx, NULL, 5);
  mem_free_str(ctx, NULL);
  CHECK(mem_array(ctx, SIZE_MAX / 2, 3) == NULL);
  CHECK_STR_HAS(sn_ctx_message(ctx), "out of memory");
  sn_ctx_destroy(ctx);
  CHECK_EQ_INT(heap.blocks, 0);
  CHECK_EQ_INT(heap.bad_sizes, 0);
}

TEST(the_faulty_heap_notices_wrong_sizes_and_leaks) {
  fault_heap heap = {0};
  sn_ctx *ctx = fault_ctx(&heap);
  REQUIRE(ctx != NULL);
  void *p = mem_alloc(ctx, 10), *q = mem_alloc(ctx, 20);
  mem_free(ctx, p, 11);
  CHECK_EQ_INT(heap.bad_sizes, 1);
  CHECK_EQ_INT(heap.blocks, 2);
  CHECK_EQ_UINT(heap.bytes, sizeof *ctx + 20);
  q = mem_resize(ctx, q, 21, 40);
  CHECK_EQ_INT(heap.bad_sizes, 2);
  heap.fail_at = heap.count + 2;
  heap.persistent = true;
  p = mem_alloc(ctx, 1);
  CHECK(p != NULL);
  CHECK(mem_alloc(ctx, 1) == NULL && mem_alloc(ctx, 1) == NULL);
  CHECK(mem_resize(ctx, q, 40, 80) == NULL);
  CHECK_EQ_INT(heap.failed, 3);
  mem_free(ctx, q, 40);
  mem_free(ctx, p, 1);
  sn_ctx_destroy(ctx);
  CHECK_EQ_INT(heap.blocks, 0);
}

TEST(a_large_block_leaves_the_chunk_in_use) {
  fault_heap heap = {0};
  sn_ctx *ctx = fault_ctx(&heap);
  arena a;
  arena_init(&a, ctx);
  const char *small = arena_alloc(&a, 16);
  for (int i = 0; i < 3; i++) {
    CHECK(arena_alloc(&a, (size_t)2 << 20) != NULL);
    const char *next = arena_alloc(&a, 16);
    CHECK(next == small + 16);
    small = next;
  }
  arena_clear(&a);
  sn_ctx_destroy(ctx);
  CHECK_EQ_INT(heap.blocks, 0);
}

TEST(arena_blocks_are_zeroed_aligned_and_apart) {
  fault_heap heap = {0};
  sn_ctx *ctx = fault_ctx(&heap);
  arena a;
  arena_init(&a, ctx);
  unsigned char *blocks[600];
  for (size_t i = 0; i < COUNT_OF(blocks); i++) {
    blocks[i] = arena_alloc(&a, i * 7);
    REQUIRE(blocks[i] != NULL);
    CHECK_EQ_UINT((uintptr_t)blocks[i] % 16, 0);
    for (size_t k = 0; k < i * 7; k++)
      if (blocks[i][k])
        FAIL("block %zu is not zeroed", i);
    memset(blocks[i], (int)(i & 255), i * 7);
  }
  for (size_t i = 0; i < COUNT_OF(blocks); i++)
    for (size_t k = 0; k < i * 7; k++)
      if (blocks[i][k] != (i & 255))
        FAIL("block %zu was overwritten", i);
  CHECK(arena_alloc(&a, (size_t)3 << 20) != NULL); /* larger than any chunk */
  CHECK_EQ_STR(arena_strdup(&a, "word"), "word");
  CHECK_EQ_STR(arena_printf(&a, "%d-%s", 42, "x"), "42-x");
  CHECK(arena_array(&a, SIZE_MAX / 2, 3) == NULL);
  CHECK(arena_alloc(&a, SIZE_MAX) == NULL);
  CHECK(arena_alloc(&a, SIZE_MAX - 40) == NULL);
  arena_clear(&a);
  CHECK(arena_alloc(&a, 1) != NULL);
  arena_clear(&a);
  sn_ctx_destroy(ctx);
  CHECK_EQ_INT(heap.blocks, 0);
  CHECK_EQ_INT(heap.bad_sizes, 0);
}

static bool write_text(sn_ctx *ctx) {
  text t;
  text_init(&t, ctx);
  for (int i = 0; i < 100; i++) {
    text_puts(&t, "abc");
    text_printf(&t, "%d", i);
    text_add(&t, "\0", 1);
  }
  bool ok = text_done(&t) == SN_OK;
  if (ok)
    CHECK_EQ_UINT(t.size, 100 * 4 + 190);
  if (ok)
    CHECK_EQ_MEM(t.data + t.size - 6, "abc99\0", 7);
  text_free(&t);
  CHECK(t.data == NULL);
  return ok;
}

TEST(text_grows_and_keeps_its_error) {
  fault_heap heap = {0};
  bool ok;
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    ok = ctx && write_text(ctx);
    CHECK_EQ_INT(ok, !heap.failed);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
  CHECK(ok && heap.fail_at > 3);
}

TEST(hash_is_fnv1a) {
  CHECK_EQ_UINT(hash_bytes(HASH_SEED, "", 0), HASH_SEED);
  CHECK_EQ_UINT(hash_string(HASH_SEED, "a"), UINT64_C(0xaf63dc4c8601ec8c));
  CHECK_EQ_UINT(hash_string(HASH_SEED, "foobar"), UINT64_C(0x85944171f73967e8));
  CHECK_EQ_UINT(hash_string(hash_string(HASH_SEED, "foo"), "bar"),
                hash_string(HASH_SEED, "foobar"));
  /* of any length, each byte and the length count */
  unsigned char bytes[24] = {0};
  for (size_t n = 1; n <= sizeof bytes; n++) {
    uint64_t h = hash_long(HASH_SEED, bytes, n);
    CHECK(h == hash_long(HASH_SEED, bytes, n) && h != hash_long(HASH_SEED, bytes, n - 1));
    for (size_t i = 0; i < n; i++) {
      bytes[i] = 1;
      CHECK(hash_long(HASH_SEED, bytes, n) != h);
      bytes[i] = 0;
    }
  }
}

TEST(checked_arithmetic) {
  int64_t i;
  size_t s;
  CHECK(add_fits(INT64_MAX - 1, 1, &i) && i == INT64_MAX);
  CHECK(!add_fits(INT64_MAX, 1, &i));
  CHECK(!mul_fits(INT64_MAX / 2 + 1, 2, &i));
  CHECK(mul_fits(-3, 5, &i) && i == -15);
  CHECK(!size_mul_fits(SIZE_MAX, 2, &s));
  CHECK(!size_add_fits(SIZE_MAX, 1, &s));
  CHECK(min_i64(-1, 1) == -1 && max_i64(-1, 1) == 1);
}

/* --- half --- */

/* The value of 16 bits from the definition of the formats. */
static double value_of(uint16_t bits, int exponent_bits) {
  int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  int fraction = bits & ((1 << fraction_bits) - 1);
  double x = exponent ? ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits)
                      : ldexp(fraction, 1 - bias - fraction_bits);
  if (exponent == (1 << exponent_bits) - 1)
    x = fraction ? (double)NAN : (double)INFINITY;
  return bits & 0x8000 ? -x : x;
}

/* All 65536 values are what the format says and come back; NaNs come back quiet. */
TEST(half_values_round_trip) {
  for (uint32_t i = 0; i < 65536; i++) {
    uint16_t bits = (uint16_t)i;
    double h = value_of(bits, 5), b = value_of(bits, 8);
    bool h_nan = isnan(h), b_nan = isnan(b);
    uint16_t h_want = h_nan ? bits | 0x200 : bits, b_want = b_nan ? bits | 0x40 : bits;
    bool ok = h_nan ? isnan(half_to_f32(bits)) : (double)half_to_f32(bits) == h;
    ok &= b_nan ? isnan(bf16_to_f32(bits)) : (double)bf16_to_f32(bits) == b;
    ok &= half_from_f32(half_to_f32(bits)) == h_want && bf16_from_f32(bf16_to_f32(bits)) == b_want;
    ok &= half_from_f64((double)half_to_f32(bits)) == h_want;
    ok &= bf16_from_f64((double)bf16_to_f32(bits)) == b_want;
    ok &= !signbit(half_to_f32(bits)) == !(bits & 0x8000);
    if (!ok)
      FAIL("bits 0x%04x", i);
  }
}

/* Between every two neighbours: below the middle, the middle (to even), above it. The step towards
 * the middle is far too small for f32, so rounding twice would show. */
static void check_ties(int exponent_bits, uint16_t infinity, uint16_t (*from_f64)(double),
                       uint16_t (*from_f32)(float)) {
  for (uint16_t low = 0; low < infinity; low++) {
    uint16_t high = (uint16_t)(low + 1), even = low & 1 ? high : low;
    double x = value_of(low, exponent_bits);
    double y = high == infinity ? 2 * x - value_of((uint16_t)(low - 1), exponent_bits)
                                : value_of(high, exponent_bits);
    double middle = (x + y) / 2;
    bool ok = from_f64(middle) == even && from_f64(-middle) == (even | 0x8000);
    ok &= from_f64(nextafter(middle, 0)) == low && from_f64(nextafter(middle, 1e300)) == high;
    ok &= from_f64(-nextafter(middle, 1e300)) == (high | 0x8000);
    float single = (float)middle;
    if ((double)single == middle) {
      ok &= from_f32(single) == even && from_f32(nextafterf(single, 0)) == low;
      ok &= from_f32(nextafterf(single, INFINITY)) == high;
    }
    if (!ok)
      FAIL("around 0x%04x", low);
  }
}

TEST(half_ties_go_to_even_without_double_rounding) {
  check_ties(5, 0x7c00, half_from_f64, half_from_f32);
  check_ties(8, 0x7f80, bf16_from_f64, bf16_from_f32);
}

TEST(half_extremes) {
  CHECK_EQ_INT(half_from_f64(1e300), 0x7c00);
  CHECK_EQ_INT(half_from_f64(-1e300), 0xfc00);
  CHECK_EQ_INT(half_from_f64(-5e-324), 0x8000);
  CHECK_EQ_INT(half_from_f32(-INFINITY), 0xfc00);
  CHECK_EQ_INT(half_from_f64((double)INFINITY), 0x7c00);
  CHECK_EQ_INT(bf16_from_f64((double)-INFINITY), 0xff80);
  CHECK_EQ_INT(bf16_from_f64(1e39), 0x7f80);
  CHECK_EQ_INT(bf16_from_f64(1e-300), 0);
  CHECK_EQ_INT(half_from_f64((double)NAN) & 0x7fff, 0x7e00);
  CHECK_EQ_INT(bf16_from_f32(f32_from_bits(0x7f800001)), 0x7fc0); /* payload below the top bits */
  CHECK_EQ_INT(half_from_f32(f32_from_bits(0xff800001)), 0xfe00);
}
