/* See kernel_matrix.h. */
#include "device/vulkan/kernel_matrix.h"

/* Times this, a number loses nothing on average when what a bf16 has no room for is cut off. */
#define BF16_CUT (1 + 0x1.6p-9f)

/* --- the module --- */

static spirv_id bf16_type(spirv *s) {
  enum { BF16 = 5116, ENCODING = 0 };
  spirv_capability(s, BF16);
  spirv_extension(s, "SPV_KHR_bfloat16");
  return spirv_type(s, SPV_TypeFloat, SPV_ARGS(16, ENCODING));
}

static spirv_id half_type(spirv *s, sn_dtype half) {
  enum { F16 = 9, BF16_MATRIX = 5118 };
  if (half == SN_F16) {
    spirv_capability(s, F16);
    return spirv_type(s, SPV_TypeFloat, SPV_ARGS(16));
  }
  spirv_capability(s, BF16_MATRIX);
  return bf16_type(s);
}

void k_use_matrices(kernel *k, const int size[3], sn_dtype half, spirv_id out_types[3]) {
  enum { MATRIX = 6022, SUBGROUP = 3 };
  spirv *s = &k->s;
  if (k->accesses && !s->vulkan)
    k->why = "memory was used before matrices were asked for";
  spirv_vulkan_model(s);
  spirv_capability(s, MATRIX);
  spirv_extension(s, "SPV_KHR_cooperative_matrix");
  k->subgroups = true;
  spirv_id of = k->half = half_type(s, half);
  val scope = k_u32(k, SUBGROUP), m = k_u32(k, (uint32_t)size[0]), n = k_u32(k, (uint32_t)size[1]),
      depth = k_u32(k, (uint32_t)size[2]);
  const val rows[3] = {m, depth, m}, columns[3] = {depth, n, n};
  for (int use = MATRIX_A; use <= MATRIX_SUM; use++) {
    val role = k_u32(k, (uint32_t)use);
    out_types[use] =
        spirv_type(s, SPV_TypeCooperativeMatrixKHR,
                   SPV_ARGS(use == MATRIX_SUM ? s->f32 : of, scope, rows[use], columns[use], role));
  }
}

/* A number that the subgroup has, or its threads. */
static val subgroup_input(kernel *k, uint32_t which) {
  enum { BUILT_IN = 11, NON_UNIFORM = 61 };
  spirv *s = &k->s;
  spirv_id v = spirv_global(s, SPV_Input, s->u32);
  spirv_capability(s, NON_UNIFORM);
  spirv_decorate(s, v, SPV_ARGS(BUILT_IN, which));
  if (k->n_interface == (int)COUNT_OF(k->interface))
    k->why = "too many variables";
  else
    k->interface[k->n_interface++] = v;
  k->subgroups = true;
  return k_to_index(k, spirv_op(s, SPV_Load, s->u32, SPV_ARGS(v)));
}

val k_subgroup_number(kernel *k) { return subgroup_input(k, 40); }
val k_subgroup_lane(kernel *k) { return subgroup_input(k, 41); }

val k_subgroup_max(kernel *k, val x) {
  enum { SUBGROUP = 3, REDUCE = 0, NON_UNIFORM = 61, ARITHMETIC = 63 };
  spirv_capability(&k->s, NON_UNIFORM);
  spirv_capability(&k->s, ARITHMETIC);
  k->subgroups = true;
  val scope = k_u32(k, SUBGROUP);
  return spirv_op(&k->s, SPV_GroupNonUniformUMax, k->s.u32, SPV_ARGS(scope, REDUCE, x));
}

/* --- matrices --- */

val k_matrix_of(kernel *k, spirv_id type, float x) {
  val each = k_f32(k, x);
  return spirv_op(&k->s, SPV_CompositeConstruct, type, SPV_ARGS(each));
}

val k_matrix_load(kernel *k, spirv_id type, val words, val at, int order, int stride) {
  spirv_id word;
  val there = k_shared_at(k, words, at, &word), layout = k_u32(k, (uint32_t)order);
  val apart = k_u32(k, (uint32_t)stride);
  return spirv_op(&k->s, SPV_CooperativeMatrixLoadKHR, type,
                  SPV_ARGS(there, layout, apart, SPV_NON_PRIVATE));
}

void k_matrix_store(kernel *k, val words, val at, val matrix, int order, int stride) {
  spirv_id word;
  val there = k_shared_at(k, words, at, &word), layout = k_u32(k, (uint32_t)order);
  val apart = k_u32(k, (uint32_t)stride);
  spirv_do(&k->s, SPV_CooperativeMatrixStoreKHR,
           SPV_ARGS(there, matrix, layout, apart, SPV_NON_PRIVATE));
}

val k_matrix_multiply_add(kernel *k, spirv_id type, val a, val b, val sum) {
  return spirv_op(&k->s, SPV_CooperativeMatrixMulAddKHR, type, SPV_ARGS(a, b, sum));
}

val k_matrix_times(kernel *k, spirv_id type, val matrix, val factor) {
  return spirv_op(&k->s, SPV_MatrixTimesScalar, type, SPV_ARGS(matrix, factor));
}

/* --- halves --- */

/* The first 11 bits. The bits behind them are cut off as of an integer: a driver may take what is packed and unpacked again for the number
 * itself, which leaves no rest. */
static val cut(kernel *k, val x) {
  val bits = k_and(k, k_bits(k, x, k->s.u32), k_u32(k, 0xffffe000));
  return k_bits(k, bits, k->s.f32);
}

static val pack(kernel *k, const val x[2]) {
  enum { PACK_HALF_2X16 = 58 };
  val both = k_vector(k, 2, x);
  return spirv_glsl(&k->s, PACK_HALF_2X16, k->s.u32, SPV_ARGS(both));
}

void k_two_halves(kernel *k, const val x[2], val *out_halves, val *out_rest) {
  val half[2], rest[2];
  for (int i = 0; i < 2; i++) {
    half[i] = out_rest ? cut(k, x[i]) : x[i];
    rest[i] = out_rest ? k_sub(k, x[i], half[i]) : 0;
  }
  *out_halves = pack(k, half);
  if (out_rest)
    *out_rest = pack(k, rest);
}

/* As components of vectors, which a driver makes one instruction of. */
val k_join_halves(kernel *k, const val words[2], int which) {
  spirv *s = &k->s;
  spirv_id type = bf16_type(s), two = spirv_vector(s, type, 2);
  val halves[2];
  for (int i = 0; i < 2; i++)
    halves[i] = k_part(k, spirv_op(s, SPV_Bitcast, two, SPV_ARGS(words[i])), which);
  return spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(k_vector(k, 2, halves)));
}

/* As the driver converts: some cut off. */
static val pack_bf16(kernel *k, const val x[2]) {
  spirv *s = &k->s;
  spirv_id type = spirv_vector(s, bf16_type(s), 2);
  val both = k_vector(k, 2, x), halves = spirv_op(s, SPV_FConvert, type, SPV_ARGS(both));
  return spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(halves));
}

/* The first is rounded as an integer: if it were cut off, rests would be of one sign, twice as large, and so would be the product of rests that nobody computes.
 * (A NaN may become anything by that.) The rest is cut off, after it was made larger by what is cut off on average: as good as rounded, and a NaN, which an
 * infinity leaves, too, stays one whatever its bits are. */
void k_two_bf16(kernel *k, const val x[2], val *out_halves, val *out_rest) {
  if (!out_rest) {
    *out_halves = pack_bf16(k, x);
    return;
  }
  val half[2], rest[2], more = k_f32(k, BF16_CUT);
  for (int i = 0; i < 2; i++) {
    half[i] = k_add(k, k_bits(k, x[i], k->s.u32), k_u32(k, 0x8000));
    val number = k_bits(k, k_and(k, half[i], k_u32(k, 0xffff0000)), k->s.f32);
    rest[i] = k_bits(k, k_mul(k, k_sub(k, x[i], number), more), k->s.u32);
  }
  *out_halves = k_join_halves(k, half, 1); /* a bf16 is the upper half of an f32 */
  *out_rest = k_join_halves(k, rest, 1);
}

/* --- elements --- */

static val element_at(kernel *k, val variable, spirv_id type, int i) {
  val number = k_u32(k, (uint32_t)i);
  spirv_id pointer = spirv_pointer(&k->s, SPV_InFunction, type);
  return spirv_op(&k->s, SPV_AccessChain, pointer, SPV_ARGS(variable, number));
}

val k_matrix_make(kernel *k, spirv_id type, const val words[4]) {
  spirv *s = &k->s;
  spirv_id half = k->half, two = spirv_vector(s, half, 2);
  val held = spirv_local(s, type);
  for (int i = 0; i < MATRIX_ELEMENTS; i++) {
    val both = spirv_op(s, SPV_Bitcast, two, SPV_ARGS(words[i / 2]));
    val at = element_at(k, held, half, i), x = k_part(k, both, i & 1);
    spirv_do(s, SPV_Store, SPV_ARGS(at, x));
  }
  return k_get(k, held);
}

void k_matrix_sums(kernel *k, val sums, val out[MATRIX_ELEMENTS]) {
  val held = k_var(k, sums);
  for (int i = 0; i < MATRIX_ELEMENTS; i++) {
    val at = element_at(k, held, k->s.f32, i);
    out[i] = spirv_op(&k->s, SPV_Load, k->s.f32, SPV_ARGS(at));
  }
}
