/* Arithmetic that is rare or may fault, and functions of GLSL.std.450. See spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

#include "base/half.h"

#include <math.h>

float vm_float_of(word x, int kind) {
  return kind == FLOAT_32   ? f32_from_bits((uint32_t)x)
         : kind == FLOAT_16 ? half_to_f32((uint16_t)x)
                            : bf16_to_f32((uint16_t)x);
}

word vm_float_bits(float x, int kind) {
  return kind == FLOAT_32 ? f32_bits(x) : kind == FLOAT_16 ? half_from_f32(x) : bf16_from_f32(x);
}

/* --- integers --- */

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

static bool divide(vm *v, const vm_thread *t, const vm_op *o, word a, word b, word *out) {
  int64_t x = vm_signed(a, o->shift), y = vm_signed(b, o->shift);
  bool with_sign = o->code == VM_SDiv || o->code == VM_SRem || o->code == VM_SMod;
  if (b == 0)
    return vm_fault(v, t, o, "a division by 0");
  if (with_sign && y == -1 && x == vm_signed((word)1 << (63 - o->shift), o->shift))
    return vm_fault(v, t, o, "a division of the least number by -1");
  switch (o->code) {
  case VM_UDiv: *out = a / b; break;
  case VM_UMod: *out = a % b; break;
  case VM_SDiv: *out = (word)(x / y); break;
  case VM_SRem: *out = (word)(x % y); break;
  default: *out = (word)(x % y + (x % y != 0 && (x % y < 0) != (y < 0) ? y : 0));
  }
  return true;
}

static bool shift(vm *v, const vm_thread *t, const vm_op *o, word a, word by, word *out) {
  if (by >= 64u - o->shift)
    return vm_fault(v, t, o, "a shift of %d bits by %lu", 64 - o->shift, (unsigned long)by);
  *out = o->code == VM_ShiftLeftLogical    ? a << by
         : o->code == VM_ShiftRightLogical ? a >> by
                                           : (word)(vm_signed(a, o->shift) >> by);
  return true;
}

/* a: the base, b: the bits to insert, or the offset. */
static bool bit_field(vm *v, const vm_thread *t, const vm_op *o, const word *x, word *out) {
  bool inserts = o->code == VM_BitFieldInsert;
  word offset = inserts ? x[2] : x[1], count = inserts ? x[3] : x[2], width = 64u - o->shift;
  if (offset > width || count > width - offset)
    return vm_fault(v, t, o, "bits %lu … %lu of %lu", (unsigned long)offset,
                    (unsigned long)(offset + count), (unsigned long)width);
  word mask = count == 64 ? ~(word)0 : ((word)1 << count) - 1;
  if (inserts)
    *out = count == 0 ? x[0] : (x[0] & ~(mask << offset)) | (x[1] & mask) << offset;
  else
    *out = count == 0 ? 0 : x[0] >> offset & mask;
  if (o->code == VM_BitFieldSExtract && count > 0)
    *out = (word)vm_signed(*out, (int)(64 - count));
  return true;
}

/* Two results, the second behind all of the first. */
static void extended(const vm_op *o, word a, word b, word *low, word *high) {
  int width = 64 - o->shift;
  if (o->code == VM_IAddCarry) {
    *low = vm_cut(a + b, o->shift);
    *high = *low < a;
  } else if (o->code == VM_ISubBorrow) {
    *low = vm_cut(a - b, o->shift);
    *high = a < b;
  } else if (o->code == VM_UMulExtended) {
    u128 p = (u128)a * b;
    *low = vm_cut((word)p, o->shift);
    *high = vm_cut((word)(p >> width), o->shift);
  } else {
    i128 p = (i128)vm_signed(a, o->shift) * vm_signed(b, o->shift);
    *low = vm_cut((word)p, o->shift);
    *high = vm_cut((word)(p >> width), o->shift);
  }
}

/* --- conversions --- */

static bool to_integer(vm *v, const vm_thread *t, const vm_op *o, word a, word *out) {
  double x = trunc((double)vm_float_of(a, o->kind));
  int width = 64 - o->shift;
  bool with_sign = o->code == VM_ConvertFToS;
  double least = with_sign ? -ldexp(1, width - 1) : 0;
  double limit = ldexp(1, with_sign ? width - 1 : width);
  if (!(x >= least && x < limit))
    return vm_fault(v, t, o, "a conversion of %g to an integer of %d bits", x, width);
  *out = with_sign ? (word)(int64_t)x : (word)x;
  return true;
}

/* The same bits as scalars of another width. */
static void cast(const vm_op *o, const word *from, word *to) {
  unsigned char bytes[64] = {0};
  uint32_t to_bytes = o->m, from_bytes = (64u - o->shift) / 8, n = o->n * to_bytes / from_bytes;
  for (uint32_t i = 0; i < n && i < 8; i++)
    memcpy(bytes + i * from_bytes, &from[i], from_bytes);
  for (uint32_t i = 0; i < o->n; i++) {
    to[i] = 0;
    memcpy(&to[i], bytes + i * to_bytes, to_bytes);
  }
}

/* --- by component --- */

static bool one(vm *v, const vm_thread *t, const vm_op *o, const word *x, word *out) {
  switch (o->code) {
  case VM_UDiv:
  case VM_UMod:
  case VM_SDiv:
  case VM_SRem:
  case VM_SMod: return divide(v, t, o, x[0], x[1], out);
  case VM_ShiftLeftLogical:
  case VM_ShiftRightLogical:
  case VM_ShiftRightArithmetic: return shift(v, t, o, x[0], x[1], out);
  case VM_BitFieldInsert:
  case VM_BitFieldSExtract:
  case VM_BitFieldUExtract: return bit_field(v, t, o, x, out);
  case VM_BitCount: *out = (word)__builtin_popcountll(x[0]); return true;
  case VM_BitReverse:
    *out = 0;
    for (int i = 0; i < 64 - o->shift; i++)
      *out |= (x[0] >> i & 1) << (63 - o->shift - i);
    return true;
  case VM_ConvertFToU:
  case VM_ConvertFToS: return to_integer(v, t, o, x[0], out);
  case VM_ConvertSToF: *out = vm_float_bits((float)vm_signed(x[0], o->m), o->kind); return true;
  case VM_ConvertUToF: *out = vm_float_bits((float)x[0], o->kind); return true;
  case VM_UConvert: *out = x[0]; return true;
  case VM_SConvert: *out = (word)vm_signed(x[0], o->m); return true;
  case VM_FConvert: *out = vm_float_bits(vm_float_of(x[0], o->kind), o->m); return true;
  case VM_FRem:
  case VM_FMod: {
    float a = vm_float_of(x[0], o->kind), b = vm_float_of(x[1], o->kind), r = fmodf(a, b);
    if (o->code == VM_FMod && r != 0 && (r < 0) != (b < 0))
      r += b;
    *out = vm_float_bits(r, o->kind);
    return true;
  }
  default: return vm_fault(v, t, o, "the interpreter does not know what to do");
  }
}

static bool pick(vm *v, const vm_thread *t, const vm_op *o, word *to) {
  const word *a = vm_at(v->m, t, o->a);
  bool extract = o->code == VM_VectorExtractDynamic;
  word i = *vm_at(v->m, t, extract ? o->b : o->c), n = extract ? o->m : o->n;
  if (i >= n)
    return vm_fault(v, t, o, "component %lu of %lu", (unsigned long)i, (unsigned long)n);
  if (extract) {
    to[0] = a[i];
  } else {
    word x = *vm_at(v->m, t, o->b);
    memcpy(to, a, o->n * sizeof(word));
    to[i] = x;
  }
  return true;
}

static void fold(const vm *v, const vm_thread *t, const vm_op *o, word *to) {
  const word *a = vm_at(v->m, t, o->a), *b = vm_at(v->m, t, o->b);
  float sum = 0;
  word any = 0, all = 1;
  for (uint32_t i = 0; i < o->m; i++) {
    any |= a[i];
    all &= a[i];
    if (o->code == VM_Dot)
      sum += vm_float_of(a[i], o->kind) * vm_float_of(b[i], o->kind);
  }
  *to = o->code == VM_Any ? any : o->code == VM_All ? all : vm_float_bits(sum, o->kind);
}

bool vm_arithmetic(vm *v, const vm_thread *t, const vm_op *o) {
  word *to = t->frame + o->dst;
  const word *from[4] = {vm_at(v->m, t, o->a), vm_at(v->m, t, o->b), vm_at(v->m, t, o->c),
                         vm_at(v->m, t, o->d)};
  switch (o->code) {
  case VM_IAddCarry:
  case VM_ISubBorrow:
  case VM_UMulExtended:
  case VM_SMulExtended:
    for (uint32_t i = 0; i < o->n; i++)
      extended(o, from[0][i], from[1][i], &to[i], &to[o->n + i]);
    return true;
  case VM_Bitcast: cast(o, from[0], to); return true;
  case VM_VectorExtractDynamic:
  case VM_VectorInsertDynamic: return pick(v, t, o, to);
  case VM_Any:
  case VM_All:
  case VM_Dot: fold(v, t, o, to); return true;
  case VM_VectorTimesScalar:
  case VM_MatrixTimesScalar:
    for (uint32_t i = 0; i < o->n; i++)
      to[i] =
          vm_float_bits(vm_float_of(from[0][i], o->kind) * vm_float_of(*from[1], o->kind), o->kind);
    return true;
  default: break;
  }
  bool field = o->code >= VM_BitFieldInsert && o->code <= VM_BitFieldUExtract;
  for (uint32_t i = 0; i < o->n; i++) {
    word x[4] = {from[0][i], o->b ? from[1][field && o->code != VM_BitFieldInsert ? 0 : i] : 0,
                 o->c ? from[2][0] : 0, o->d ? from[3][0] : 0};
    if (!one(v, t, o, x, &to[i]))
      return false;
    to[i] = vm_cut(to[i], o->shift);
  }
  return true;
}

/* --- functions --- */

/* If one is NaN, either may come: which does, differs with the order of threads. */
static float least(const vm *v, float x, float y) {
  if (x != x || y != y)
    return (v->job->order == VM_FORWARD) == (x != x) ? y : x;
  return y < x ? y : x;
}

static float float_function(const vm *v, const vm_op *o, float x, float y, float z) {
  switch (o->code) {
  case VM_GLSL_Round: return roundf(x);
  case VM_GLSL_RoundEven: return nearbyintf(x);
  case VM_GLSL_Trunc: return truncf(x);
  case VM_GLSL_FAbs: return fabsf(x);
  case VM_GLSL_FSign: return x > 0 ? 1 : x < 0 ? -1 : x;
  case VM_GLSL_Floor: return floorf(x);
  case VM_GLSL_Ceil: return ceilf(x);
  case VM_GLSL_Fract: return x - floorf(x);
  case VM_GLSL_Sin: return sinf(x);
  case VM_GLSL_Cos: return cosf(x);
  case VM_GLSL_Tan: return tanf(x);
  case VM_GLSL_Asin: return asinf(x);
  case VM_GLSL_Acos: return acosf(x);
  case VM_GLSL_Atan: return atanf(x);
  case VM_GLSL_Sinh: return sinhf(x);
  case VM_GLSL_Cosh: return coshf(x);
  case VM_GLSL_Tanh: return tanhf(x);
  case VM_GLSL_Atan2: return atan2f(x, y);
  case VM_GLSL_Pow: return powf(x, y);
  case VM_GLSL_Exp: return expf(x);
  case VM_GLSL_Log: return logf(x);
  case VM_GLSL_Exp2: return exp2f(x);
  case VM_GLSL_Log2: return log2f(x);
  case VM_GLSL_Sqrt: return sqrtf(x);
  case VM_GLSL_InverseSqrt: return 1 / sqrtf(x);
  case VM_GLSL_FMin: return least(v, x, y);
  case VM_GLSL_FMax: return -least(v, -x, -y);
  case VM_GLSL_FClamp: return least(v, -least(v, -x, -y), z);
  case VM_GLSL_NMin: return fminf(x, y);
  default: return fmaxf(x, y); /* VM_GLSL_NMax */
  }
}

static bool integer_function(const vm_op *o, word x, word y, word z, word *out) {
  int64_t a = vm_signed(x, o->shift), b = vm_signed(y, o->shift), c = vm_signed(z, o->shift);
  switch (o->code) {
  case VM_GLSL_SAbs: *out = a < 0 ? 0 - x : x; return true;
  case VM_GLSL_SSign: *out = a > 0 ? 1 : a < 0 ? ~(word)0 : 0; return true;
  case VM_GLSL_UMin: *out = x < y ? x : y; return true;
  case VM_GLSL_UMax: *out = x > y ? x : y; return true;
  case VM_GLSL_SMin: *out = a < b ? x : y; return true;
  case VM_GLSL_SMax: *out = a > b ? x : y; return true;
  case VM_GLSL_UClamp: *out = x < y ? y : x > z ? z : x; return true;
  case VM_GLSL_SClamp: *out = a < b ? y : a > c ? z : x; return true;
  case VM_GLSL_FindILsb: *out = x ? (word)__builtin_ctzll(x) : ~(word)0; return true;
  case VM_GLSL_FindUMsb: *out = x ? (word)(63 - __builtin_clzll(x)) : ~(word)0; return true;
  case VM_GLSL_FindSMsb:
    x = a < 0 ? vm_cut(~x, o->shift) : x;
    *out = x ? (word)(63 - __builtin_clzll(x)) : ~(word)0;
    return true;
  default: return false;
  }
}

bool vm_glsl(vm *v, const vm_thread *t, const vm_op *o) {
  word *to = t->frame + o->dst;
  const word *a = vm_at(v->m, t, o->a), *b = vm_at(v->m, t, o->b), *c = vm_at(v->m, t, o->c);
  if (o->code == VM_GLSL_PackHalf2x16) {
    *to = (word)half_from_f32(f32_from_bits((uint32_t)a[0])) |
          (word)half_from_f32(f32_from_bits((uint32_t)a[1])) << 16;
    return true;
  }
  if (o->code == VM_GLSL_UnpackHalf2x16) {
    word x = *a;
    to[0] = f32_bits(half_to_f32((uint16_t)x));
    to[1] = f32_bits(half_to_f32((uint16_t)(x >> 16)));
    return true;
  }
  for (uint32_t i = 0; i < o->n; i++) {
    word y = o->b ? b[i] : 0, z = o->c ? c[i] : 0;
    if (o->code == VM_GLSL_Ldexp)
      to[i] = vm_float_bits(ldexpf(vm_float_of(a[i], o->kind), (int32_t)y), o->kind);
    else if (!integer_function(o, a[i], y, z, &to[i]))
      to[i] = vm_float_bits(float_function(v, o, vm_float_of(a[i], o->kind),
                                           vm_float_of(y, o->kind), vm_float_of(z, o->kind)),
                            o->kind);
    to[i] = vm_cut(to[i], o->shift);
  }
  return true;
}
