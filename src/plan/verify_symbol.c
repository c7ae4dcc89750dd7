/* See verify.h: expressions as hashes. What is the same however it is written becomes the same hash: integer arithmetic on known
 * numbers is done, commutative arguments are sorted, casts that change nothing fall away, arithmetic in a narrow dtype is f32
 * arithmetic that is rounded then. Nothing else is equal.
 *
 * Integers that are not known but say where something is are taken to be numbers, other ones in each case: small ones, so that
 * slices begin in several places and checks pass and fail, and large ones, which are clamped.
 *
 * Called by verify_region.c for what a program computes and by verify_graph.c for what it should.
 */
#include "plan/verify.h"

#include "ir/dtype.h"

#include <math.h>

enum { TAG_NUMBER = 1, TAG_LOAD, TAG_ALU, TAG_WORD, TAG_REDUCE, TAG_NOTHING };

static uint64_t start(unsigned tag) { return hash_mix(UINT64_C(0x51e77e3d2f1c0b97), tag); }

uint64_t hash_real(uint64_t h, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return hash_mix(h, bits);
}

sym sym_number(sn_dtype dtype, double x) {
  double rounded = dtype_round(dtype, x);
  uint64_t h = hash_real(hash_mix(start(TAG_NUMBER), dtype_is_float(dtype)), rounded + 0.0);
  return (sym){.hash = h, .number = rounded, .known = true, .dtype = (uint8_t)dtype};
}

sym sym_nothing(sn_dtype dtype) {
  return (sym){.hash = start(TAG_NOTHING), .nothing = true, .dtype = (uint8_t)dtype};
}

static bool any_nothing(const sym *in, int n) {
  for (int k = 0; k < n; k++)
    if (in[k].nothing)
      return true;
  return false;
}

/* --- cases --- */

enum { CASES = 18, FEW_CASES = 6 };

static int32_t taken_in(int at, uint64_t hash) {
  static const uint32_t below[CASES] = {1, 2, 3, 4, 3,  8,  3,  2,   3,
                                        4, 5, 6, 7, 12, 17, 40, 300, INT32_MAX};
  uint64_t h = hash_mix(hash, (uint64_t)at) >> 20;
  if (at == 1) /* each is 1 */
    return 1;
  return (int32_t)(h % below[at]);
}

void cases_start(verify_cases *c) { *c = (verify_cases){.n = 1}; }

bool cases_next(verify_cases *c, bool few) {
  if (c->asked)
    c->n = few ? FEW_CASES : CASES;
  return ++c->at < c->n;
}

static int64_t taken(const sym *a) { return a->known ? (int64_t)a->number : a->taken; }

int64_t cases_index(verify_cases *c, sym index, int64_t size) {
  int64_t at = taken(&index);
  c->asked = c->asked || (!index.known && size != 1);
  return size > 0 ? max_i64(0, min_i64(at, size - 1)) : 0;
}

/* in_case: 1 + the case. */
static sym unknown(uint64_t hash, sn_dtype dtype, uint8_t in_case) {
  return (sym){.hash = hash,
               .dtype = (uint8_t)dtype,
               .in_case = in_case,
               .taken = in_case ? taken_in(in_case - 1, hash) : 0};
}

static uint8_t case_among(const sym *in, int n) {
  uint8_t found = 0;
  for (int k = 0; k < n; k++)
    found = in[k].in_case > found ? in[k].in_case : found;
  return found;
}

sym sym_load(const verify_cases *c, uint32_t source, sn_dtype dtype, int64_t at) {
  uint64_t h = hash_mix(hash_mix(start(TAG_LOAD), source), (uint64_t)at);
  return unknown(h, dtype, (uint8_t)(c->at + 1));
}

/* --- arithmetic --- */

static bool is_float(sym a) { return dtype_is_float((sn_dtype)a.dtype); }
static double wrapped(int64_t x) { return (int32_t)(uint32_t)(uint64_t)x; }

sym sym_cast(sn_dtype dtype, sym a) {
  if (a.dtype == dtype)
    return a;
  if (a.known)
    return sym_number(dtype, a.number);
  if (a.nothing)
    return sym_nothing(dtype);
  if (dtype == SN_F32 && is_float(a)) /* every half is an f32 */
    return a;
  if (dtype == SN_I32 && !is_float(a))
    return a;
  return unknown(hash_mix(hash_mix(start(TAG_ALU), ALU_cast), (uint64_t)dtype) + a.hash * 3, dtype,
                 a.in_case);
}

static int64_t floor_divide(int64_t a, int64_t b) {
  return b ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0;
}

/* An instruction on two known integers; false where it is not one of these. */
static bool fold_integers(alu code, int64_t a, int64_t b, double *out) {
  switch (code) {
  case ALU_neg: *out = wrapped(-a); return true;
  case ALU_abs: *out = wrapped(a < 0 ? -a : a); return true;
  case ALU_sign: *out = (a > 0) - (a < 0); return true;
  case ALU_not: *out = !a; return true;
  case ALU_add: *out = wrapped(a + b); return true;
  case ALU_sub: *out = wrapped(a - b); return true;
  case ALU_mul: *out = wrapped(a * b); return true;
  case ALU_div: *out = wrapped(b ? a / b : 0); return true;
  case ALU_floor_div: *out = wrapped(floor_divide(a, b)); return true;
  case ALU_rem: *out = wrapped(b ? a - floor_divide(a, b) * b : 0); return true;
  case ALU_fmod: *out = wrapped(b ? a % b : 0); return true;
  case ALU_max: *out = (double)max_i64(a, b); return true;
  case ALU_min: *out = (double)min_i64(a, b); return true;
  case ALU_eq: *out = a == b; return true;
  case ALU_ne: *out = a != b; return true;
  case ALU_lt: *out = a < b; return true;
  case ALU_le: *out = a <= b; return true;
  case ALU_gt: *out = a > b; return true;
  case ALU_ge: *out = a >= b; return true;
  case ALU_and: *out = a && b; return true;
  case ALU_or: *out = a || b; return true;
  case ALU_xor: *out = !a != !b; return true;
  default: return false;
  }
}

/* The other argument where a known bool, or a zero that is added, leaves only that; -1: none. */
static int neutral(alu code, const sym *in) {
  for (int k = 0; k < 2; k++)
    if (in[k].known &&
        ((code == ALU_and && in[k].number != 0) || (code == ALU_or && in[k].number == 0) ||
         (code == ALU_add && is_float(in[k]) &&
          in[k].number == 0))) /* but for the sign of a zero */
      return 1 - k;
  return -1;
}

static bool decided(alu code, const sym *in) {
  for (int k = 0; k < 2; k++)
    if (in[k].known &&
        ((code == ALU_and && in[k].number == 0) || (code == ALU_or && in[k].number != 0)))
      return true;
  return false;
}

static bool commutes(alu code) {
  switch (code) {
  case ALU_add:
  case ALU_mul:
  case ALU_max:
  case ALU_min:
  case ALU_eq:
  case ALU_ne:
  case ALU_and:
  case ALU_or:
  case ALU_xor: return true;
  default: return false;
  }
}

static bool fold(alu code, sn_dtype dtype, const sym *in, sym *out) {
  int n = alu_table[code].arguments, kept;
  double x;
  if (code == ALU_select && in[0].known) {
    *out = in[in[0].number != 0 ? 1 : 2];
    return true;
  }
  if (code == ALU_select && in[1].hash == in[2].hash && !in[0].nothing) {
    *out = in[1];
    return true;
  }
  if ((code == ALU_and || code == ALU_or) && decided(code, in)) {
    *out = sym_number(SN_BOOL, code == ALU_or);
    return true;
  }
  if (n == 2 && (kept = neutral(code, in)) >= 0) {
    *out = in[kept];
    return true;
  }
  for (int k = 0; k < n; k++)
    if (!in[k].known || is_float(in[k]))
      return false;
  if (n > 2 || !fold_integers(code, (int64_t)in[0].number, n > 1 ? (int64_t)in[1].number : 0, &x))
    return false;
  *out = sym_number(SN_I32, dtype == SN_U8 ? (double)(uint8_t)(int64_t)x : x);
  return true;
}

/* What an instruction on integers is taken to be. */
static void take(alu code, sn_dtype dtype, const sym *in, sym *is) {
  int n = alu_table[code].arguments;
  double x;
  for (int k = 0; k < n; k++)
    if (is_float(in[k]))
      return;
  if (code == ALU_select)
    is->taken = (int32_t)taken(&in[taken(&in[0]) != 0 ? 1 : 2]);
  else if (n > 0 && n < 3 && fold_integers(code, taken(&in[0]), n > 1 ? taken(&in[1]) : 0, &x))
    is->taken = dtype == SN_U8 ? (uint8_t)(int64_t)x : (int32_t)x;
}

sym sym_alu(alu code, sn_dtype dtype, const sym *in, double x, double y) {
  sym folded;
  int n = alu_table[code].arguments;
  if (code == ALU_cast)
    return sym_cast(dtype, in[0]);
  if (fold(code, dtype, in, &folded))
    return sym_cast(dtype, folded);
  if (code == ALU_bits_below) /* b is not read */
    n = 1;
  if (any_nothing(in, n))
    return sym_nothing(dtype);
  uint64_t h = hash_mix(hash_mix(start(TAG_ALU), code), dtype == SN_U8 ? 2 : dtype_is_float(dtype));
  h = hash_real(hash_real(h, x), y);
  bool swap = n == 2 && commutes(code) && in[1].hash < in[0].hash;
  for (int k = 0; k < n; k++)
    h = hash_mix(h, in[swap ? 1 - k : k].hash);
  bool narrow = (dtype == SN_F16 || dtype == SN_BF16) && code != ALU_select;
  sym wide = unknown(h, narrow ? SN_F32 : dtype, case_among(in, n));
  if (!is_float(wide))
    take(code, dtype, in, &wide);
  return narrow ? sym_cast(dtype, wide) : wide;
}

sym sym_word(double stream, const sym *in, int64_t at) {
  uint64_t h = hash_real(start(TAG_WORD), stream);
  if (any_nothing(in, 3))
    return sym_nothing(SN_I32);
  for (int k = 0; k < 3; k++)
    h = hash_mix(h, in[k].hash);
  return unknown(hash_mix(h, (uint64_t)at), SN_I32, case_among(in, 3));
}

/* --- reductions --- */

int reduce_samples(int64_t count, int64_t out[VERIFY_SAMPLES]) {
  if (count <= VERIFY_SAMPLES) {
    for (int k = 0; k < count; k++)
      out[k] = k;
    return (int)count;
  }
  uint64_t h = hash_mix(start(TAG_REDUCE), (uint64_t)count);
  out[0] = 0;
  out[1] = count - 1;
  out[2] = 1 + (int64_t)(h % (uint64_t)(count - 2));
  out[3] = 1 + (int64_t)((h >> 17) % (uint64_t)(count - 2));
  return VERIFY_SAMPLES;
}

sym sym_reduce(reduce_kind kind, sn_dtype dtype, int64_t count, const sym *bodies) {
  int64_t at[VERIFY_SAMPLES];
  int n = reduce_samples(count, at);
  if (count == 1)
    return sym_cast(dtype, bodies[0]);
  if (any_nothing(bodies, n))
    return sym_nothing(dtype);
  uint64_t h = hash_mix(hash_mix(start(TAG_REDUCE), kind), dtype_is_float(dtype));
  h = hash_mix(h, (uint64_t)count);
  for (int k = 0; k < n; k++)
    h = hash_mix(h, bodies[k].hash);
  bool narrow = dtype == SN_F16 || dtype == SN_BF16;
  sym wide = unknown(h, narrow ? SN_F32 : dtype, case_among(bodies, n));
  return narrow ? sym_cast(dtype, wide) : wide;
}
