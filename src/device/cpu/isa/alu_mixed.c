/* Casts, rounding to narrow dtypes, floats of random words. */
#include "device/cpu/isa/alu_floats.h"
#include "device/cpu/isa/alu_set.h"
#include "device/cpu/isa/lanes_half.h"

/* --- casts --- */
VECTOR_1(same_float, p)
BLOCKS_1(same_integer, int32_t, int32_t, p)
KERNEL(float_of_integer) {
  UNUSED_ARGUMENTS;
  for (int i = 0; i < n; i += VEC) {
    vec_i32 a;
    memcpy(&a, (const int32_t *)pa + i, sizeof a);
    vec_store((float *)out + i, vec_of_ints(a));
  }
}
/* Rounded once: by way of f32 it would be twice. */
LANES_2(f16_of_integer, float, int32_t, half_to_f32(half_from_f64(p)))
LANES_2(bf16_of_integer, float, int32_t, bf16_to_f32(bf16_from_f64(p)))
static int32_t truncated(float p, float least, float beyond, int32_t most) {
  return p != p ? 0 : p >= beyond ? most : p <= least ? (int32_t)least : (int32_t)p;
}
LANES_2(i32_of_float, int32_t, float, truncated(p, -0x1p31f, 0x1p31f, INT32_MAX))
LANES_2(u8_of_float, int32_t, float, truncated(p, 0, 256, 255))
BLOCKS_1(bool_of_float, int32_t, float, p != 0)
BLOCKS_1(u8_of_integer, int32_t, int32_t, p<0 ? 0 : p> 255 ? 255 : p)
BLOCKS_1(bool_of_integer, int32_t, int32_t, p != 0)

lane_alu ISA(alu_cast)(sn_dtype result, sn_dtype from) {
  bool of_float = dtype_is_float(from);
  switch (result) {
  case SN_F32: return of_float ? same_float : float_of_integer;
  case SN_F16: return of_float ? same_float : f16_of_integer;
  case SN_BF16: return of_float ? same_float : bf16_of_integer;
  case SN_I32: return of_float ? i32_of_float : same_integer;
  case SN_U8: return of_float ? u8_of_float : u8_of_integer;
  case SN_BOOL: return of_float ? bool_of_float : bool_of_integer;
  default: return NULL;
  }
}

void ISA(lanes_round)(sn_dtype dtype, void *lanes, int n) {
  uint16_t half[VEC];
  float *f = lanes;
  uint32_t *u = lanes;
  if (dtype == SN_F16)
    for (int i = 0; i < n; i += VEC) {
      vec_store_f16(half, vec_load(f + i));
      vec_store(f + i, vec_load_f16(half));
    }
  else if (dtype == SN_BF16)
    for (int i = 0; i < n; i += VEC) {
      vec_store_bf16(half, vec_load(f + i));
      vec_store(f + i, vec_load_bf16(half));
    }
  else if (dtype == SN_U8)
    for (int i = 0; i < n; i++)
      u[i] &= 255;
}

/* --- random words --- */
BLOCKS_1(unit, float, int32_t, (float)((uint32_t)p >> 8) * 0x1p-24f)

/* The upper 24 bits of words, whole numbers. */
VEC_INLINE vec_i32 top_bits(const int32_t *words) {
  vec_u32 x;
  memcpy(&x, words, sizeof x);
  return (vec_i32)(x >> 8);
}
/* A radius and the sine or cosine of a turn of t / 2^24, which is brought to an eighth of a turn exactly, before it meets pi. */
KERNEL(gauss) {
  (void)x, (void)y;
  const int32_t *a = pa, *b = pb, *c = pc;
  for (int i = 0; i < n; i += VEC) {
    vec u = (vec_of_ints(top_bits(a + i)) + 1) * 0x1p-24f;
    vec_i32 t = top_bits(b + i), quarter = (t + (1 << 21)) >> 22, second;
    memcpy(&second, c + i, sizeof second);
    vec r = vec_of_ints(t - (quarter << 22)) * (MATH_HALF_PI * 0x1p-22f);
    vec v = vec_sine(r, quarter + 1 + (second != 0));
    vec_store((float *)out + i, root_of(vec_log(u) * -2) * v);
  }
}

lane_alu ISA(alu_random)(alu code) {
  return code == ALU_unit ? unit : code == ALU_gauss ? gauss : NULL;
}
