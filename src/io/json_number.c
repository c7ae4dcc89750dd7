/* Decimal to double, correctly rounded. strtod would depend on the process's locale, switching
 * locales per thread allocates behind the caller's allocator and may fail, so this is our own:
 * short numbers by one exact operation, all others by exact integer division of big numbers. The
 * digits after the first MAX_DIGITS matter only by being zero or not, because no midpoint of two
 * doubles has more than 768 significant digits; so the big numbers have a fixed size.
 */
#include "io/json.h"

#include <float.h>

enum { MAX_DIGITS = 800, LIMBS = 128 };

/* value = digits * 10^exponent, digits without leading zeros, as values 0..9. */
typedef struct decimal {
  unsigned char digit[MAX_DIGITS + 1];
  int n;
  int64_t exponent;
} decimal;

/* Little-endian limbs; n has no leading zeros. */
typedef struct big {
  uint32_t limb[LIMBS];
  int n;
} big;

/* --- scanning --------------------------------------------------------------------------------- */

static const char *scan_exponent(const char *p, const char *end, int64_t *out) {
  const int64_t enough = INT64_C(1000000000000); /* beyond what any count of digits can offset */
  bool negative = *p == '-';
  if (*p == '-' || *p == '+')
    p++;
  int64_t e = 0;
  for (; p < end; p++)
    e = e < enough ? e * 10 + (*p - '0') : e;
  *out = negative ? -e : e;
  return p;
}

static void scan(const char *p, const char *end, decimal *d) {
  bool fraction = false, dropped = false;
  d->n = 0;
  d->exponent = 0;
  for (; p < end && *p != 'e' && *p != 'E'; p++) {
    if (*p == '.') {
      fraction = true;
      continue;
    }
    bool kept = d->n < MAX_DIGITS;
    if (kept && (d->n || *p != '0'))
      d->digit[d->n++] = (unsigned char)(*p - '0');
    dropped |= !kept && *p != '0';
    d->exponent += (kept ? 0 : 1) - (fraction ? 1 : 0);
  }
  if (dropped) { /* something, less than a unit of the last digit, follows */
    d->digit[d->n++] = 1;
    d->exponent--;
  }
  int64_t e = 0;
  if (p < end)
    scan_exponent(p + 1, end, &e);
  d->exponent += e;
}

/* --- big numbers ------------------------------------------------------------------------------ */

static void mul_add(big *b, uint32_t factor, uint32_t add) {
  uint64_t carry = add;
  for (int i = 0; i < b->n; i++) {
    carry += (uint64_t)b->limb[i] * factor;
    b->limb[i] = (uint32_t)carry;
    carry >>= 32;
  }
  if (carry)
    b->limb[b->n++] = (uint32_t)carry;
}

static void mul_pow10(big *b, int64_t e) {
  for (; e >= 9; e -= 9)
    mul_add(b, 1000000000, 0);
  for (; e > 0; e--)
    mul_add(b, 10, 0);
}

static int bit_length(const big *b) {
  return b->n ? 32 * b->n - __builtin_clz(b->limb[b->n - 1]) : 0;
}

static void shift_left(big *b, int bits) {
  int limbs = bits / 32, rest = bits % 32;
  uint32_t carry = 0;
  for (int i = 0; i < b->n && rest; i++) {
    uint32_t x = b->limb[i];
    b->limb[i] = x << rest | carry;
    carry = x >> (32 - rest);
  }
  if (carry)
    b->limb[b->n++] = carry;
  if (b->n && limbs) {
    memmove(b->limb + limbs, b->limb, (size_t)b->n * sizeof *b->limb);
    memset(b->limb, 0, (size_t)limbs * sizeof *b->limb);
    b->n += limbs;
  }
}

static bool less(const big *a, const big *b) {
  if (a->n != b->n)
    return a->n < b->n;
  for (int i = a->n - 1; i >= 0; i--)
    if (a->limb[i] != b->limb[i])
      return a->limb[i] < b->limb[i];
  return false;
}

/* a -= b, where a >= b. */
static void subtract(big *a, const big *b) {
  uint64_t borrow = 0;
  for (int i = 0; i < a->n; i++) {
    uint64_t x = (uint64_t)a->limb[i] - (i < b->n ? b->limb[i] : 0) - borrow;
    a->limb[i] = (uint32_t)x;
    borrow = x >> 63;
  }
  while (a->n && !a->limb[a->n - 1])
    a->n--;
}

/* --- rounding --------------------------------------------------------------------------------- */

/* The double nearest to q * 2^exponent, where q >= 2^63 and `sticky` tells of something below q. */
static uint64_t round_to_f64(uint64_t q, int exponent, bool sticky) {
  int top = exponent + 63; /* the value lies in [2^top, 2^(top+1)) */
  int drop = top >= -1022 ? 11 : 11 - 1022 - top;
  if (top > 1023)
    return UINT64_C(0x7ff) << 52;
  if (drop > 64)
    return 0;
  uint64_t kept = drop < 64 ? q >> drop : 0;
  uint64_t rest = drop < 64 ? q & ((UINT64_C(1) << drop) - 1) : q;
  uint64_t half = UINT64_C(1) << (drop - 1);
  if (rest > half || (rest == half && (sticky || kept & 1)))
    kept++;
  /* The leading bit of a normal number's significand adds the missing 1 to its exponent. */
  return kept + (top >= -1022 ? (uint64_t)(top + 1022) << 52 : 0);
}

/* Exact: num / den by 64 steps of binary long division. */
static uint64_t divide(const decimal *d) {
  big num = {.n = 0}, den = {.limb = {1}, .n = 1};
  for (int i = 0; i < d->n; i++)
    mul_add(&num, 10, d->digit[i]);
  mul_pow10(&num, d->exponent);
  mul_pow10(&den, -d->exponent);
  int shift = bit_length(&num) - bit_length(&den);
  shift_left(shift > 0 ? &den : &num, shift > 0 ? shift : -shift);
  uint64_t q = 0; /* num / den lies in (1/2, 2), so at least 63 bits of q are used */
  for (int i = 0; i < 64; i++) {
    bool one = !less(&num, &den);
    if (one)
      subtract(&num, &den);
    q = q << 1 | one;
    shift_left(&num, 1);
  }
  int lead = __builtin_clzll(q);
  return round_to_f64(q << lead, shift - 63 - lead, num.n != 0);
}

/* Numbers of few digits: one operation on exact operands is correctly rounded by itself. */
static bool quick(const decimal *d, double *out) {
#if FLT_EVAL_METHOD == 0
  static const double pow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  if (d->n > 15 || d->exponent > 22 || d->exponent < -22)
    return false;
  double m = 0;
  for (int i = 0; i < d->n; i++)
    m = m * 10 + d->digit[i];
  *out = d->exponent < 0 ? m / pow10[-d->exponent] : m * pow10[d->exponent];
  return true;
#else
  (void)d;
  (void)out;
  return false;
#endif
}

bool json_decimal_to_f64(const char *bytes, size_t size, double *out) {
  bool negative = size && bytes[0] == '-';
  decimal d;
  scan(bytes + negative, bytes + size, &d);
  uint64_t bits = 0;
  if (d.n && quick(&d, out)) {
    memcpy(&bits, out, sizeof bits);
  } else if (d.n && d.n + d.exponent > 310) {
    bits = UINT64_C(0x7ff) << 52;
  } else if (d.n && d.n + d.exponent > -330) { /* all else is zero, or rounds to it */
    bits = divide(&d);
  }
  bits |= (uint64_t)negative << 63;
  memcpy(out, &bits, sizeof bits);
  return bits << 1 < UINT64_C(0x7ff) << 53;
}
