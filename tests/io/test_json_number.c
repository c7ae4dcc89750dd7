/* Tests of JSON numbers: exact integers, correctly rounded decimals. */
#include "io/json.h"
#include "support/test.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static sn_ctx *new_ctx(void) {
  sn_ctx *ctx;
  CHECK_EQ_INT(sn_ctx_create(NULL, &ctx), SN_OK);
  return ctx;
}

static sn_json_doc *parse(sn_ctx *ctx, const char *string) {
  sn_json_doc *doc;
  if (sn_json_parse(ctx, string, strlen(string), &doc) != SN_OK)
    FAIL("%.60s: %s", string, sn_ctx_message(ctx));
  return doc;
}

TEST(integers_are_exact) {
  static const struct {
    const char *literal;
    bool exact;
    int64_t value;
  } rows[] = {{"0", true, 0},
              {"-0", true, 0},
              {"9223372036854775807", true, INT64_MAX},
              {"-9223372036854775808", true, INT64_MIN},
              {"9223372036854775808", false, 0},
              {"-9223372036854775809", false, 0},
              {"9007199254740993", true, 9007199254740993},
              {"1.0", true, 1},
              {"25e2", true, 2500},
              {"-1.5e1", true, -15},
              {"9007199254740992.0", true, 9007199254740992},
              {"9007199254740994.0", false, 0},
              {"0.5", false, 0},
              {"1e300", false, 0},
              {"123456789012345678901234567890", false, 0}};
  sn_ctx *ctx = new_ctx();
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    sn_json_doc *doc = parse(ctx, rows[i].literal);
    int64_t value = 0;
    if (!CHECK_EQ_INT(sn_json_int(sn_json_root(doc), &value), rows[i].exact) ||
        !CHECK_EQ_INT(value, rows[i].value))
      FAIL("%s", rows[i].literal);
    sn_json_destroy(doc);
  }
  double x = 1;
  sn_json_doc *doc = parse(ctx, "-0");
  CHECK(sn_json_number(sn_json_root(doc), &x) && x == 0 && signbit(x));
  sn_json_destroy(doc);
  sn_ctx_destroy(ctx);
}

static void check_decimal(const char *literal) {
  double got = 0, want = strtod(literal, NULL);
  bool finite = json_decimal_to_f64(literal, strlen(literal), &got);
  if (finite != (bool)isfinite(want) || memcmp(&got, &want, sizeof got) != 0)
    FAIL("%.80s: %a, expected %a", literal, got, want);
}

/* strtod of the C locale is the oracle. */
TEST(decimals_are_correctly_rounded) {
  static const char *const rows[] = {
      "0.1",
      "0.3",
      "1e22",
      "1e23",
      "-1e23",
      "123456789012345e22",
      "8.5e-23",
      "0.0",
      "-0.0",
      "0e9",
      "9007199254740993",
      "9007199254740993.0000000000000000000000000000000000001",
      "9007199254740992.9999999999999999999999999999",
      "179769313486231570814527423731704356798070e267",
      "1.7976931348623157e308",
      "1.7976931348623158e308",
      "1.7976931348623159e308",
      "1e309",
      "1e310",
      "2.2250738585072011e-308",
      "2.2250738585072014e-308",
      "2.225073858507201e-308",
      "5e-324",
      "4.9e-324",
      "2.4703282292062327e-324",
      "2.4703282292062328e-324",
      "2.5e-324",
      "1e-324",
      "1e-330",
      "1e-1000",
      "1e99999999999999999999",
      "1e-99999999999999999999",
      "0.000000000000000000000000000000000000000000000000000000000000001e63",
      "6.9294956446009195e15",
      "3.237883913302901e-319",
      "1.8446744073709551616e19",
      "100000000000000016777215",
      "100000000000000016777216",
      "2.0e-308",
      "7.2057594037927933e16",
      "22250738585072012e-324"};
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    check_decimal(rows[i]);
  uint64_t s = 1;
  char literal[1200];
  for (int i = 0; i < 20000; i++) {
    s = s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t bits = s ^ s >> 29;
    double x;
    memcpy(&x, &bits, sizeof x);
    if (!isfinite(x))
      continue;
    snprintf(literal, sizeof literal, "%.*e", (int)(s >> 33) % 25, x);
    check_decimal(literal);
    /* The middle between two neighbours, exactly, and a little above: up to 770 digits. */
    if (i % 50 == 0 && fabs(x) < DBL_MAX / 2 && fabs(x) > 1e-290) {
      long double middle = ((long double)x + (long double)nextafter(x, 1e308)) / 2;
      snprintf(literal, sizeof literal, "%.780Le", middle);
      check_decimal(literal);
      char *e = strchr(literal, 'e');
      memmove(e + 60, e, strlen(e) + 1);
      memset(e, '0', 60);
      e[59] = '1';
      check_decimal(literal);
    }
  }
}

/* Halfway to the least subnormal and between subnormals: the longest exact midpoints. */
TEST(subnormal_midpoints) {
  char literal[1400];
  for (int odd = 1; odd < 12; odd += 2) {
    snprintf(literal, sizeof literal, "%.1100f", ldexp((double)odd, -1074)); /* exact */
    double whole, got;
    CHECK(json_decimal_to_f64(literal, strlen(literal), &got));
    CHECK_EQ_INT(got == ldexp((double)odd, -1074), 1);
    /* odd * 2^-1075, as exact digits: half of the above, by long division of the digits. */
    int carry = 0;
    for (char *p = literal; *p; p++) {
      if (*p == '.')
        continue;
      int digit = carry * 10 + (*p - '0');
      *p = (char)('0' + digit / 2);
      carry = digit % 2;
    }
    check_decimal(literal);
    CHECK(json_decimal_to_f64(literal, strlen(literal), &whole));
    double even = (odd / 2) % 2 ? odd / 2 + 1 : odd / 2;
    CHECK_EQ_INT(whole == ldexp(even, -1074), 1);
    strcat(literal, "00000001"); /* just above: rounds up */
    CHECK(json_decimal_to_f64(literal, strlen(literal), &whole));
    CHECK_EQ_INT(whole == ldexp((double)(odd / 2 + 1), -1074), 1);
  }
}

TEST(numbers_do_not_depend_on_the_locale) {
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
  const char *found = NULL;
  for (size_t i = 0; i < COUNT_OF(names) && !found; i++)
    found = setlocale(LC_ALL, names[i]);
  double x = 0;
  CHECK(json_decimal_to_f64("1234567890.12345678901", 22, &x));
  setlocale(LC_ALL, "C");
  CHECK(x == 1234567890.12345678901);
}
