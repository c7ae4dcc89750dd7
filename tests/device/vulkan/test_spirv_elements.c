/* Matrices from registers and sums to registers, where places of elements are known (kernel_matrix.h), on the interpreter of SPIR-V. */
#include "base/half.h"
#include "device/vulkan/kernel_matrix.h"
#include "support/test.h"
#include "support/vm_stage.h"

#include <math.h>

enum { SIDE = 16, SUBGROUP = 32, SUMS = SIDE * SIDE };

/* What kernels are made of. */
static sn_dtype half;

/* --- numbers: no two rows or columns are alike, all products are exact --- */

static float a_at(int row, int k) { return (float)((row * 7 + k * 5 + 3) % 31 - 15); }
static float b_at(int k, int column) { return (float)((k * 11 + column * 3 + 1) % 29 - 14); }

static float product_at(int row, int column) {
  float sum = 2;
  for (int k = 0; k < SIDE; k++)
    sum += a_at(row, k) * b_at(k, column);
  return sum;
}

/* The same in a kernel. */
static val number_at(kernel *k, val x, val y, const int by[4]) {
  val sum = k_add(k, k_mul(k, x, k_index(k, by[0])), k_mul(k, y, k_index(k, by[1])));
  val rest = k_rem(k, k_add(k, sum, k_index(k, by[2])), k_index(k, by[3]));
  return k_to_f32(k, k_sub(k, rest, k_index(k, by[3] / 2)));
}

static val a_number(kernel *k, val row, val at) {
  return number_at(k, row, at, (const int[]){7, 5, 3, 31});
}
static val b_number(kernel *k, val at, val column) {
  return number_at(k, at, column, (const int[]){11, 3, 1, 29});
}

/* --- kernels --- */

typedef struct scene {
  kernel *k;
  spirv_id type[3];
  val g, t, group; /* thread 4 g + t of a subgroup, and that one's number */
  k_if only;       /* the first workgroup */
} scene;

static scene begin(kernel *k) {
  static const int size[3] = {SIDE, SIDE, SIDE};
  scene s = {.k = k};
  k_use_matrices(k, size, half, s.type);
  val lane = k_subgroup_lane(k), four = k_index(k, 4);
  s.group = k_subgroup_number(k);
  s.g = k_div(k, lane, four);
  s.t = k_rem(k, lane, four);
  s.only = k_if_begin(k, k_eq(k, k->group, k_index(k, 0)));
  return s;
}

/* Of element i: the line that is one of two, and the number in it; of a, sums: row and column. Permuted: k is numbered so that
 * four neighbours are a thread's. */
static val line_of(const scene *s, int i) { return k_add(s->k, s->g, k_index(s->k, i / 4 * 8)); }
static val inside_of(const scene *s, int i, bool permuted) {
  kernel *k = s->k;
  int first = permuted ? i % 4 : i % 4 / 2 * 8 + i % 2;
  return k_add(k, k_mul(k, s->t, k_index(k, permuted ? 4 : 2)), k_index(k, first));
}

/* As halves, and what those leave; NULL: that is not asked for. */
static val halves(kernel *k, val x, val y, val *out_rest) {
  val out;
  if (half == SN_BF16)
    k_two_bf16(k, (const val[]){x, y}, &out, out_rest);
  else
    k_two_halves(k, (const val[]){x, y}, &out, out_rest);
  return out;
}

static void make_words(const scene *s, int use, bool permuted, val out[4]) {
  kernel *k = s->k;
  for (int i = 0; i < MATRIX_ELEMENTS; i += 2) {
    val x[2];
    for (int j = 0; j < 2; j++) {
      val line = line_of(s, i + j), inside = inside_of(s, i + j, permuted);
      x[j] = use == MATRIX_A ? a_number(k, line, inside) : b_number(k, inside, line);
    }
    out[i / 2] = halves(k, x[0], x[1], NULL);
  }
}

static val make(const scene *s, int use, bool permuted) {
  val words[4];
  make_words(s, use, permuted, words);
  return k_matrix_make(s->k, s->type[use], words);
}

static val multiply(const scene *s, val a, val b, float first) {
  val sum = k_matrix_of(s->k, s->type[MATRIX_SUM], first);
  return k_matrix_multiply_add(s->k, s->type[MATRIX_SUM], a, b, sum);
}

static void store_at(const scene *s, val i, val x) {
  kernel *k = s->k;
  val first = k_add(k, k_mul(k, s->group, k_index(k, SUMS)), k_index(k, STAGE_DEFINED));
  k_store(k, stage_buffer(k), k_add(k, first, i), x);
}

/* Row by row, every subgroup's behind those before. */
static void finish(scene *s, val sums) {
  kernel *k = s->k;
  val x[MATRIX_ELEMENTS];
  k_matrix_sums(k, sums, x);
  for (int i = 0; i < MATRIX_ELEMENTS; i++)
    store_at(s, k_add(k, k_mul(k, line_of(s, i), k_index(k, SIDE)), inside_of(s, i, false)), x[i]);
  k_if_end(k, &s->only);
}

static void product(kernel *k) {
  scene s = begin(k);
  finish(&s, multiply(&s, make(&s, MATRIX_A, false), make(&s, MATRIX_B, false), 2));
}

static void permuted(kernel *k) {
  scene s = begin(k);
  finish(&s, multiply(&s, make(&s, MATRIX_A, true), make(&s, MATRIX_B, true), 2));
}

/* (a b + 2) / 16, which two halves have, times b: sums become operands as they stand. */
static void twice(kernel *k) {
  scene s = begin(k);
  val b = make(&s, MATRIX_B, false), x[MATRIX_ELEMENTS], words[4], rest[4];
  k_matrix_sums(k, multiply(&s, make(&s, MATRIX_A, false), b, 2), x);
  for (int i = 0; i < MATRIX_ELEMENTS; i++)
    x[i] = k_mul(k, x[i], k_f32(k, 0x1p-4f));
  for (int i = 0; i < 4; i++)
    words[i] = halves(k, x[2 * i], x[2 * i + 1], &rest[i]);
  val sum = multiply(&s, k_matrix_make(k, s.type[MATRIX_A], words), b, 0);
  val with = k_matrix_make(k, s.type[MATRIX_A], rest);
  finish(&s, k_matrix_multiply_add(k, s.type[MATRIX_SUM], with, b, sum));
}

/* b comes from shared memory, as other kernels have it. */
static void mixed(kernel *k) {
  scene s = begin(k);
  val all = k_shared(k, k->s.u32, 2 * SUMS / 2), zero = k_mul(k, s.group, k_index(k, SUMS / 2));
  val words[4];
  make_words(&s, MATRIX_B, false, words);
  for (int i = 0; i < 4; i++) { /* by columns */
    val at = k_add(k, k_mul(k, line_of(&s, 2 * i), k_index(k, SIDE)), inside_of(&s, 2 * i, false));
    k_shared_set(k, all, k_add(k, zero, k_shr(k, at, 1)), words[i]);
  }
  k_barrier_subgroup(k);
  val b = k_matrix_load(k, s.type[MATRIX_B], all, zero, MATRIX_COLUMNS, SIDE / 2);
  finish(&s, multiply(&s, make(&s, MATRIX_A, false), b, 2));
}

/* --- mistakes --- */

/* Rows and columns of b are taken for each other. */
static void b_like_a(kernel *k) {
  scene s = begin(k);
  val words[4];
  for (int i = 0; i < 4; i++) {
    val at[2] = {inside_of(&s, 2 * i, false), inside_of(&s, 2 * i + 1, false)};
    val line = line_of(&s, 2 * i);
    words[i] = halves(k, b_number(k, line, at[0]), b_number(k, line, at[1]), NULL);
  }
  val b = k_matrix_make(k, s.type[MATRIX_B], words);
  finish(&s, multiply(&s, make(&s, MATRIX_A, false), b, 2));
}

/* k is another one in b than in a. */
static void half_permuted(kernel *k) {
  scene s = begin(k);
  finish(&s, multiply(&s, make(&s, MATRIX_A, true), make(&s, MATRIX_B, false), 2));
}

/* A matrix of which elements are written up to `end`, each as `type`. */
static val written(const scene *s, spirv_id type, int end) {
  spirv *v = &s->k->s;
  val held = spirv_local(v, s->type[MATRIX_SUM]), zero = k_f32(s->k, 0);
  for (int i = 0; i < end; i++) {
    val number = k_u32(s->k, (uint32_t)i);
    val at = spirv_op(v, SPV_AccessChain, spirv_pointer(v, SPV_InFunction, type),
                      SPV_ARGS(held, number));
    spirv_do(v, SPV_Store, SPV_ARGS(at, zero));
  }
  return held;
}

static void not_all_written(kernel *k) {
  scene s = begin(k);
  finish(&s, k_get(k, written(&s, k->s.f32, MATRIX_ELEMENTS - 1)));
}

/* Of an operand, whose elements are halves. */
static void not_all_halves(kernel *k) {
  scene s = begin(k);
  val words[4], b = make(&s, MATRIX_B, false);
  make_words(&s, MATRIX_A, false, words);
  spirv_id two = spirv_vector(&k->s, k->half, 2),
           at = spirv_pointer(&k->s, SPV_InFunction, k->half);
  val held = spirv_local(&k->s, s.type[MATRIX_A]);
  for (int i = 0; i < MATRIX_ELEMENTS - 1; i++) {
    val both = spirv_op(&k->s, SPV_Bitcast, two, SPV_ARGS(words[i / 2])),
        number = k_u32(k, (uint32_t)i);
    val place = spirv_op(&k->s, SPV_AccessChain, at, SPV_ARGS(held, number)),
        x = k_part(k, both, i & 1);
    spirv_do(&k->s, SPV_Store, SPV_ARGS(place, x));
  }
  finish(&s, multiply(&s, k_get(k, held), b, 2));
}

static void one_too_many(kernel *k) {
  scene s = begin(k);
  finish(&s, k_get(k, written(&s, k->s.f32, MATRIX_ELEMENTS + 1)));
}

static void of_another_type(kernel *k) {
  scene s = begin(k);
  finish(&s, k_get(k, written(&s, k->s.u32, MATRIX_ELEMENTS)));
}

static void words_of_another_size(kernel *k) {
  scene s = begin(k);
  spirv_id four = spirv_vector(&k->s, k->half, 4);
  val word = k_u32(k, 1), x = spirv_op(&k->s, SPV_Bitcast, four, SPV_ARGS(word));
  store_at(&s, k_index(k, 0), k_part(k, x, 0));
  k_if_end(k, &s.only);
}

/* Its elements a thread may write alone; a product it may not make alone. */
static void product_of_some(kernel *k) {
  scene s = begin(k);
  val a = make(&s, MATRIX_A, false), b = make(&s, MATRIX_B, false);
  k_if some = k_if_begin(k, k_lt(k, s.g, k_index(k, 4)));
  val sum = multiply(&s, a, b, 2);
  k_if_end(k, &some);
  (void)sum;
  k_if_end(k, &s.only);
}

/* --- tests --- */

typedef float expect(int row, int column);

static float twice_at(int row, int column) {
  float sum = 0;
  for (int k = 0; k < SIDE; k++)
    sum += product_at(row, k) / 16 * b_at(k, column);
  return sum;
}

static int wrong_sums(const vm_stage *s, expect *right) {
  int wrong = 0;
  for (int i = 0; i < 2 * SUMS; i++) {
    uint32_t bits = stage_result(s, i);
    float x, y = right(i % SUMS / SIDE, i % SIDE);
    memcpy(&x, &bits, sizeof x);
    wrong += x != y;
  }
  return wrong;
}

static const struct {
  const char *name;
  void (*body)(kernel *k);
  expect *right;
  bool wrong; /* results are */
  const char *finding;
} cases[] = {
    {"product", product, product_at, false, NULL},
    {"permuted", permuted, product_at, false, NULL},
    {"twice", twice, twice_at, false, NULL},
    {"mixed", mixed, product_at, false, NULL},
    {"b_like_a", b_like_a, product_at, true, NULL},
    {"half_permuted", half_permuted, product_at, true, NULL},
    {"not_all_written", not_all_written, NULL, false, "a variable that nothing has written"},
    {"not_all_halves", not_all_halves, NULL, false, "a variable that nothing has written"},
    {"one_too_many", one_too_many, NULL, false, "index 8 of 8 elements"},
    {"of_another_type", of_another_type, NULL, false, "the result's type is another one"},
    {"words_of_another_size", words_of_another_size, NULL, false, "types of different bits"},
    {"product_of_some", product_of_some, NULL, false, "threads of the subgroup reach this"},
};

static void set_half(size_t i) { half = i & 1 ? SN_BF16 : SN_F16; }

TEST_WALK(elements) {
  for (size_t i = 0; i < 2 * COUNT_OF(cases); i++) {
    vm_stage s;
    set_half(i);
    if (!test_begin("%s %s", cases[i / 2].name, half == SN_BF16 ? "bf16" : "f16"))
      continue;
    if (stage_open(&s, SUBGROUP, cases[i / 2].body))
      for (int order = VM_FORWARD; order <= VM_RANDOM; order++) {
        const char *found = stage_run(&s, (vm_order)order);
        if (cases[i / 2].finding ? !strstr(found, cases[i / 2].finding) : *found)
          FAIL("order %d: \"%s\"", order, found);
        else if (cases[i / 2].right)
          CHECK((wrong_sums(&s, cases[i / 2].right) > 0) == cases[i / 2].wrong);
      }
    stage_close(&s);
    test_end();
  }
}

/* A driver that has elements at other places: what comes of registers is wrong, and the interpreter shows it. */
TEST(other_places) {
  for (size_t i = 0; i < 2 * COUNT_OF(cases); i++) {
    vm_stage s;
    set_half(i);
    if (cases[i / 2].finding || cases[i / 2].wrong)
      continue;
    if (stage_open(&s, SUBGROUP, cases[i / 2].body))
      for (int order = VM_FORWARD; order <= VM_RANDOM; order++) {
        s.hides_places = true;
        CHECK_EQ_STR(stage_run(&s, (vm_order)order), "");
        CHECK(wrong_sums(&s, cases[i / 2].right) > 0);
      }
    stage_close(&s);
  }
}

/* --- two bf16 for a number --- */

/* Of five kinds: any bits; half of the last place behind bf16's; up to infinity and beyond; small; NaN whose bits are nearly all set. */
enum { KINDS = 5, OF_A_KIND = 96, NUMBERS = KINDS * OF_A_KIND };

static const struct number_kind {
  uint32_t keep, set;
} kinds[KINDS] = {{UINT32_MAX, 0},
                  {0xffff0000, 0x8000},
                  {0x80ffffff, 0x7f000000},
                  {0x81ffffff, 0},
                  {0x80007fff, 0x7fff8000}};

static uint32_t bits_at(int i) {
  const struct number_kind *kind = &kinds[i / OF_A_KIND];
  return ((uint32_t)(i + 1) * 0x9e3779b1 & kind->keep) | kind->set;
}

/* Threads of the first workgroup have two of each kind, side by side. */
static void two_of_each(kernel *k) {
  val first_group = k_eq(k, k->group, k_index(k, 0));
  val some = k_lt(k, k->local, k_index(k, OF_A_KIND / 2));
  k_if only = k_if_begin(k, k_and(k, first_group, some));
  for (int of = 0; of < KINDS; of++) {
    val x[2], word[2], first = k_mul(k, k->local, k_index(k, 2));
    val at = k_add(k, first, k_index(k, of * OF_A_KIND));
    for (int i = 0; i < 2; i++) {
      val number = k_to_u32(k, k_add(k, at, k_index(k, i + 1)));
      val bits = k_and(k, k_mul(k, number, k_u32(k, 0x9e3779b1)), k_u32(k, kinds[of].keep));
      x[i] = k_bits(k, k_or(k, bits, k_u32(k, kinds[of].set)), k->s.f32);
    }
    k_two_bf16(k, x, &word[0], &word[1]);
    for (int i = 0; i < 2; i++)
      k_store(k, stage_buffer(k), k_add(k, at, k_index(k, STAGE_DEFINED + i)), word[i]);
  }
  k_if_end(k, &only);
}

/* The first to the nearest, halves of a unit away from zero; the rest cut off when it was made a little larger. An infinity or NaN is none any more in the
 * sum of both. */
static void check_number(uint32_t bits, uint16_t first, uint16_t rest) {
  float x = f32_from_bits(bits), near = f32_from_bits((bits + 0x8000) & 0xffff0000);
  volatile float left = x - near;
  float sum = bf16_to_f32(first) + bf16_to_f32(rest);
  if (isnan(left)) {
    CHECK(isnan(sum));
    return;
  }
  volatile float larger = left * (1 + 0x1.6p-9f);
  if (first != f32_bits(near) >> 16 || rest != f32_bits(larger) >> 16)
    FAIL("%a: %04x %04x", (double)x, first, rest);
  double error = fabs((double)x - (double)bf16_to_f32(first) - (double)bf16_to_f32(rest));
  if (fabsf(x) > 0x1p-100f)
    CHECK(error <= 0x1p-16 * fabs((double)x));
}

TEST(two_bf16_for_a_number) {
  vm_stage s;
  if (stage_open(&s, SUBGROUP, two_of_each)) {
    CHECK_EQ_STR(stage_run(&s, VM_RANDOM), "");
    for (int i = 0; i < NUMBERS; i++) {
      uint32_t first = stage_result(&s, i & ~1), rest = stage_result(&s, i | 1);
      int shift = i & 1 ? 16 : 0;
      check_number(bits_at(i), (uint16_t)(first >> shift), (uint16_t)(rest >> shift));
    }
  }
  stage_close(&s);
}
