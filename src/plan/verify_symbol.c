/* See verify.h: expressions as hashes. What is the same however it is written becomes the same hash: integer arithmetic on known
 * numbers is done, commutative arguments are sorted, casts that change nothing fall away, arithmetic in a narrow dtype is f32
 * arithmetic that is rounded then, sums of clamped registers are divided term by term and are clamped only where that
 * changes them. Nothing else is equal.
 *
 * Called by verify_region.c for what a program computes and by verify_graph.c for what it should.
 */
#include "plan/verify.h"

#include "ir/dtype.h"

#include <math.h>

enum { TAG_NUMBER = 1, TAG_LOAD, TAG_INDEX, TAG_ALU, TAG_WORD, TAG_REDUCE, TAG_CHECK, TAG_TERM };

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

static sym unknown(uint64_t hash, sn_dtype dtype) {
  return (sym){.hash = hash, .dtype = (uint8_t)dtype};
}

sym sym_load(uint32_t source, sn_dtype dtype, spot at) {
  uint64_t h = hash_mix(start(TAG_LOAD), source);
  return unknown(hash_mix(hash_mix(h, (uint64_t)at.number), at.regs), dtype);
}

/* Odd, so that no multiple below 2^63 is 0. */
static uint64_t term_hash(sym index, int64_t size) {
  return hash_mix(hash_mix(start(TAG_TERM), (uint64_t)size), index.hash) | 1;
}

/* Linear in the stride, so that terms of one register add up and those that cancel are gone. */
static void add_term(spot *s, uint64_t of, int64_t stride, int64_t size) {
  s->regs += (uint64_t)stride * of;
  for (int k = 0; k < s->n; k++)
    if (s->terms[k].of == of) {
      s->terms[k].stride += stride;
      return;
    }
  if (s->n == SPOT_TERMS) {
    s->more = true;
    return;
  }
  s->terms[s->n].of = of;
  s->terms[s->n].stride = stride;
  s->terms[s->n++].size = size;
}

/* From where to where something may lie. */
typedef struct span {
  int64_t low, high;
} span;

static void span_add(span *s, int64_t stride, int64_t size) {
  int64_t far = stride * (size - 1);
  s->low += min_i64(far, 0);
  s->high += max_i64(far, 0);
}

static bool lies_below(span s, int64_t size) { return s.low >= 0 && s.high < size; }

static span sum_span(const index_sum *s) {
  span all = {s->number, s->number};
  for (int k = 0; k < s->n; k++)
    span_add(&all, s->terms[k].stride, s->terms[k].size);
  return all;
}

void spot_add(spot *s, sym index, int64_t stride, int64_t size) {
  if (index.known) {
    int64_t at = (int64_t)index.number;
    if (size > 0)
      at = at < 0 ? 0 : min_i64(at, size - 1);
    s->number += stride * at;
    return;
  }
  if (size == 1) /* clamped to 0 */
    return;
  if (!index.sum.n || !lies_below(sum_span(&index.sum), size)) {
    add_term(s, term_hash(index, size), stride, size);
    return;
  }
  /* a clamp does nothing to it */
  s->number += stride * index.sum.number;
  for (int k = 0; k < index.sum.n; k++)
    add_term(s, index.sum.terms[k].of, stride * index.sum.terms[k].stride, index.sum.terms[k].size);
}

int64_t spot_factor(uint64_t lead, sym index, int64_t stride, int64_t size) {
  spot s = {0};
  spot_add(&s, index, stride, size);
  for (int k = 0; k < s.n; k++)
    if (s.terms[k].of == lead)
      return s.terms[k].stride;
  return 0;
}

static bool is_small(int64_t x) { return x > -INT32_MAX && x < INT32_MAX; }

/* The sum that an index is; n 0 where it has terms that are not clamped, too many, or may wrap. */
static index_sum sum_of(const spot *at) {
  const index_sum none = {0};
  index_sum s = {.number = (int32_t)at->number};
  if (at->more || !is_small(at->number))
    return none;
  for (int k = 0; k < at->n; k++) {
    int64_t stride = at->terms[k].stride, size = at->terms[k].size;
    if (stride == 0)
      continue;
    if (s.n == INDEX_TERMS || size < 1 || !is_small(size) || !is_small(stride))
      return none;
    s.terms[s.n].of = at->terms[k].of;
    s.terms[s.n].stride = (int32_t)stride;
    s.terms[s.n++].size = (int32_t)size;
  }
  span all = sum_span(&s);
  return is_small(all.low) && is_small(all.high) ? s : none;
}

sym sym_index(sn_dtype dtype, spot at) {
  if (!at.regs)
    return sym_number(dtype, (double)at.number);
  sym is = unknown(hash_mix(hash_mix(start(TAG_INDEX), (uint64_t)at.number), at.regs), dtype);
  if (dtype == SN_I32)
    is.sum = sum_of(&at);
  return is;
}

/* What it is where its guard holds. */
static sym bare_of(sym a) {
  return (sym){.hash = a.bare, .number = a.number, .known = a.bare_known, .dtype = a.dtype};
}

static sym other_of(sym a) {
  return (sym){.hash = a.other, .number = a.other_number, .known = a.other_known, .dtype = a.dtype};
}

static sym guarded(sym is, uint64_t guard, sym bare) {
  if (is.known)
    return is;
  is.has_other = false;
  is.guard = guard;
  is.bare = bare.hash;
  is.bare_known = bare.known;
  is.number = bare.number;
  return is;
}

/* --- checks --- */

spot outcome_spot(outcome o, spot at, int64_t times) {
  if (!o.zero.lead_stride || times % o.zero.lead_stride)
    return at;
  times /= o.zero.lead_stride;
  at.number -= times * o.zero.number;
  at.regs -= (uint64_t)times * o.zero.regs;
  at.more = true; /* the terms are still those with it */
  return at;
}

void outcome_add(outcome *o, spot at, int64_t size, int64_t divisor) {
  if (divisor < 1)
    divisor = 1;
  for (int k = 0; o->zero.regs && k < at.n; k++)
    if (at.terms[k].of == o->zero.lead) {
      at = outcome_spot(*o, at, at.terms[k].stride);
      break;
    }
  if (!at.regs || size <= 0) {
    o->fails |= size <= 0 || at.number < 0 || at.number % divisor || at.number / divisor >= size;
    return;
  }
  uint64_t h = hash_mix(hash_mix(start(TAG_CHECK), (uint64_t)size), (uint64_t)divisor);
  h = hash_mix(hash_mix(h, (uint64_t)at.number), at.regs);
  for (int k = 0; k < o->n_seen; k++)
    if (o->seen[k] == h) /* asked twice is asked once */
      return;
  if (o->n_seen < OUTCOME_CHECKS)
    o->seen[o->n_seen++] = h;
  o->unknown += h;
  if (size != 1 || o->zero.regs)
    return;
  for (int k = 0; k < at.n; k++)
    if (at.terms[k].stride && at.terms[k].of > o->zero.lead) {
      o->zero.lead = at.terms[k].of;
      o->zero.lead_stride = at.terms[k].stride;
    }
  o->zero.number = at.number;
  o->zero.regs = at.regs;
}

sym outcome_sym(outcome o) {
  if (o.fails || !o.unknown)
    return sym_number(SN_BOOL, !o.fails);
  return unknown(hash_mix(start(TAG_CHECK), o.unknown), SN_BOOL);
}

sym outcome_guard(outcome o, sym x) {
  if (!o.fails && !o.unknown)
    return x;
  sym in[3] = {outcome_sym(o), x, sym_number((sn_dtype)x.dtype, 0)};
  return sym_alu(ALU_select, (sn_dtype)x.dtype, in, 0, 0);
}

sym outcome_either(outcome o, sym where, sym anywhere) {
  return guarded(anywhere, outcome_sym(o).hash, where);
}

/* --- arithmetic --- */

static bool is_float(sym a) { return dtype_is_float((sn_dtype)a.dtype); }
static double wrapped(int64_t x) { return (int32_t)(uint32_t)(uint64_t)x; }

static sym cast_plain(sn_dtype dtype, sym a) {
  if (a.dtype == dtype)
    return a;
  if (a.known)
    return sym_number(dtype, a.number);
  if (dtype == SN_F32 && is_float(a)) /* every half is an f32 */
    return a;
  if (dtype == SN_I32 && !is_float(a))
    return a;
  return unknown(hash_mix(hash_mix(start(TAG_ALU), ALU_cast), (uint64_t)dtype) + a.hash * 3, dtype);
}

sym sym_cast(sn_dtype dtype, sym a) {
  sym is = cast_plain(dtype, a);
  return a.guard && !is.guard ? guarded(is, a.guard, cast_plain(dtype, bare_of(a))) : is;
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
  if (code == ALU_select && in[1].hash == in[2].hash) {
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

/* floor_div and rem of a sum by a number: multiples of it are the quotient if the rest lies in 0 … by-1. A coordinate that may
 * lie outside, under a check, is divided by registers in a program; on the graph's side, where it is a number, by terms. */
static bool divide_sum(alu code, sn_dtype dtype, const sym *in, sym *out) {
  const index_sum *a = &in[0].sum;
  if ((code != ALU_floor_div && code != ALU_rem) || dtype != SN_I32 || !a->n || !in[1].known ||
      is_float(in[1]) || in[1].number < 1)
    return false;
  int64_t by = (int64_t)in[1].number, quotient = floor_divide(a->number, by);
  spot q = {.number = quotient}, r = {.number = a->number - quotient * by};
  span rest = {r.number, r.number};
  for (int k = 0; k < a->n; k++) {
    int64_t stride = a->terms[k].stride, size = a->terms[k].size;
    if (stride % by == 0) {
      add_term(&q, a->terms[k].of, stride / by, size);
    } else {
      add_term(&r, a->terms[k].of, stride, size);
      span_add(&rest, stride, size);
    }
  }
  *out = sym_index(SN_I32, code == ALU_rem ? r : q);
  return lies_below(rest, by);
}

/* Without a look at guards. */
static sym alu_plain(alu code, sn_dtype dtype, const sym *in, double x, double y) {
  sym folded;
  int n = alu_table[code].arguments;
  if (code == ALU_cast)
    return cast_plain(dtype, in[0]);
  if (fold(code, dtype, in, &folded))
    return cast_plain(dtype, folded);
  if (divide_sum(code, dtype, in, &folded))
    return folded;
  if (code == ALU_bits_below) /* b is not read */
    n = 1;
  uint64_t h = hash_mix(hash_mix(start(TAG_ALU), code), dtype == SN_U8 ? 2 : dtype_is_float(dtype));
  h = hash_real(hash_real(h, x), y);
  bool swap = n == 2 && commutes(code) && in[1].hash < in[0].hash;
  for (int k = 0; k < n; k++)
    h = hash_mix(h, in[swap ? 1 - k : k].hash);
  bool narrow = (dtype == SN_F16 || dtype == SN_BF16) && code != ALU_select;
  sym wide = unknown(h, narrow ? SN_F32 : dtype);
  return narrow ? cast_plain(dtype, wide) : wide;
}

/* A guard of the arguments; 0: none. */
static uint64_t guard_among(const sym *in, int n) {
  for (int k = 0; k < n; k++)
    if (in[k].guard)
      return in[k].guard;
  return 0;
}

static sym chosen(sym is, uint64_t guard, sym bare, sym other) {
  is = guarded(is, guard, bare);
  if (is.known)
    return is;
  is.has_other = true;
  is.other = other.hash;
  is.other_known = other.known;
  is.other_number = other.number;
  return is;
}

/* `is`, an instruction on `own`, with what it is on either side of a guard among them. */
static sym on_both_sides(sym is, uint64_t guard, alu code, sn_dtype dtype, const sym *own, double x,
                         double y) {
  int n = alu_table[code].arguments;
  sym bare[3] = {{0}}, other[3] = {{0}};
  bool both = true; /* sides are known */
  for (int k = 0; k < n; k++) {
    bool split = own[k].guard == guard;
    bare[k] = split ? bare_of(own[k]) : own[k];
    other[k] = split ? other_of(own[k]) : own[k];
    both = both && (!split || own[k].has_other);
  }
  sym where = alu_plain(code, dtype, bare, x, y);
  return both ? chosen(is, guard, where, alu_plain(code, dtype, other, x, y))
              : guarded(is, guard, where);
}

sym sym_alu(alu code, sn_dtype dtype, const sym *in, double x, double y) {
  int n = alu_table[code].arguments;
  bool choice = code == ALU_select && !in[0].known;
  sym own[3] = {{0}};
  memcpy(own, in, (size_t)n * sizeof *own);
  if (choice && in[1].guard == in[0].hash)
    own[1] = bare_of(in[1]);
  if (choice && in[2].guard == in[0].hash && in[2].has_other)
    own[2] = other_of(in[2]);
  bool zero = choice && own[2].known && own[2].number == 0;
  sym is = alu_plain(code, dtype, own, x, y);
  uint64_t guard = zero ? in[0].guard : guard_among(own, n);
  if (is.guard || (!guard && !choice))
    return is;
  if (!guard || (choice && guard == in[0].hash)) /* where it is chosen it is what is chosen */
    return chosen(is, in[0].hash, cast_plain(dtype, own[1]), cast_plain(dtype, own[2]));
  return on_both_sides(is, guard, code, dtype, own, x, y);
}

sym sym_word(double stream, const sym *in, spot at) {
  uint64_t h = hash_real(start(TAG_WORD), stream);
  for (int k = 0; k < 3; k++)
    h = hash_mix(h, in[k].hash);
  return unknown(hash_mix(hash_mix(h, (uint64_t)at.number), at.regs), SN_I32);
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
  uint64_t h = hash_mix(hash_mix(start(TAG_REDUCE), kind), dtype_is_float(dtype));
  h = hash_mix(h, (uint64_t)count);
  for (int k = 0; k < n; k++)
    h = hash_mix(h, bodies[k].hash);
  bool narrow = dtype == SN_F16 || dtype == SN_BF16;
  sym wide = unknown(h, narrow ? SN_F32 : dtype);
  return narrow ? sym_cast(dtype, wide) : wide;
}
