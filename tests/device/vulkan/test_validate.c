/* The check that all shaders of tests go through (vm_validate.h) finds what is planted in sound ones, with and without matrices. */
#include "device/vulkan/kernel_matrix.h"
#include "support/test.h"
#include "support/vm_stage.h"
#include "support/vm_validate.h"

#include <stdlib.h>

/* --- sound shaders --- */

static void plain(kernel *k) {
  val i = k_add(k, k_mul(k, k->group, k_index(k, STAGE_THREADS)), k->local);
  val x = k_var(k, k_load(k, k->s.f32, stage_buffer(k), i));
  k_if positive = k_if_begin(k, k_gt(k, k_get(k, x), k_f32(k, 0)));
  k_set(k, x, k_mul(k, k_get(k, x), k_f32(k, 0.5f)));
  k_if_end(k, &positive);
  k_store(k, stage_buffer(k), k_add(k, i, k_index(k, STAGE_DEFINED)), k_get(k, x));
}

/* Packed, by kernels that have no matrices. */
static void to_bf16(kernel *k) {
  val x = k_load(k, k->s.f32, stage_buffer(k), k->local), word[2];
  k_two_bf16(k, (const val[]){x, x}, &word[0], &word[1]);
  val at = k_add(k, k_mul(k, k->local, k_index(k, 2)), k_index(k, STAGE_DEFINED));
  for (int i = 0; i < 2; i++)
    k_store(k, stage_buffer(k), k_add(k, at, k_index(k, i)), word[i]);
}

/* One operand comes from shared memory, the other and the sums are in registers. */
static void by_elements(kernel *k, sn_dtype half) {
  static const int size[3] = {16, 16, 16};
  spirv_id type[3];
  k_use_matrices(k, size, half, type);
  val words = k_shared(k, k->s.u32, 16 * 8), zero = k_index(k, 0);
  k_shared_set(k, words, k->local, k_u32(k, 0));
  k_barrier_shared(k);
  val b = k_matrix_load(k, type[MATRIX_B], words, zero, MATRIX_COLUMNS, 8), x[MATRIX_ELEMENTS];
  const val one[2] = {k_f32(k, 1), k_f32(k, 1)};
  val half_of, rest;
  if (half == SN_F16)
    k_two_halves(k, one, &half_of, &rest);
  else
    k_two_bf16(k, one, &half_of, &rest);
  val a = k_matrix_make(k, type[MATRIX_A], (const val[]){half_of, rest, half_of, rest});
  val sum = k_matrix_of(k, type[MATRIX_SUM], 1);
  k_matrix_sums(k, k_matrix_multiply_add(k, type[MATRIX_SUM], a, b, sum), x);
  val at = k_add(k, k_mul(k, k->local, k_index(k, MATRIX_ELEMENTS)), k_index(k, STAGE_DEFINED));
  for (int i = 0; i < MATRIX_ELEMENTS; i++)
    k_store(k, stage_buffer(k), k_add(k, at, k_index(k, i)), x[i]);
}

static void of_f16(kernel *k) { by_elements(k, SN_F16); }
static void of_bf16(kernel *k) { by_elements(k, SN_BF16); }

/* --- mistakes --- */

typedef struct module {
  uint32_t *words;
  size_t n;
} module;

/* The n-th instruction of that kind. */
static uint32_t *find(module *m, uint32_t op, int n) {
  for (size_t i = 5; i < m->n; i += m->words[i] >> 16)
    if ((m->words[i] & 0xffff) == op && n-- == 0)
      return &m->words[i];
  abort();
}

/* The n-th access chain of a pointer that is in functions: those are of elements. */
static uint32_t *find_element(module *m, int n) {
  for (int i = 0;; i++) {
    uint32_t *chain = find(m, SPV_AccessChain, i);
    for (int k = 0;; k++) {
      const uint32_t *type = find(m, SPV_TypePointer, k);
      if (type[1] == chain[1]) {
        if (type[2] == SPV_InFunction && n-- == 0)
          return chain;
        break;
      }
    }
  }
}

static void nothing(module *m) { (void)m; }
static void of_another_type(module *m) { find(m, SPV_FMul, 0)[1] = find(m, SPV_TypeBool, 0)[1]; }
static void no_merge(module *m) {
  uint32_t *at = find(m, SPV_SelectionMerge, 0);
  for (int i = 0; i < 3; i++)
    at[i] = 1u << 16; /* OpNop */
}
static void drop_capability(module *m, uint32_t which) {
  enum { SHADER = 1 };
  for (int i = 0;; i++) {
    uint32_t *at = find(m, SPV_Capability, i);
    if (at[1] == which) {
      at[1] = SHADER;
      return;
    }
  }
}
static void no_capability(module *m) { drop_capability(m, 11); } /* integers of 64 bits */
static void no_halves(module *m) { drop_capability(m, 9); }
static void no_bf16(module *m) { drop_capability(m, 5116); }
/* The pointer to an element of a becomes one to sums'. */
static void element_of_another_type(module *m) {
  find_element(m, 0)[1] = find_element(m, MATRIX_ELEMENTS)[1];
}
static void element_beyond(module *m) {
  /* the elements' numbers are constants: 7 becomes 8 */
  uint32_t id = find_element(m, MATRIX_ELEMENTS - 1)[4];
  for (int i = 0;; i++)
    if (find(m, SPV_Constant, i)[2] == id) {
      find(m, SPV_Constant, i)[3] = MATRIX_ELEMENTS;
      return;
    }
}
/* Three indices lead nowhere: an element has no parts. */
static void element_of_element(module *m) {
  uint32_t *at = find_element(m, 1);
  at[3] = find_element(m, 0)[2];
}
static void operands_changed(module *m) {
  uint32_t *at = find(m, SPV_CooperativeMatrixMulAddKHR, 0), a = at[3];
  at[3] = at[4];
  at[4] = a;
}
static void sum_as_operand(module *m) {
  uint32_t *at = find(m, SPV_CooperativeMatrixMulAddKHR, 0);
  at[1] = find(m, SPV_TypeCooperativeMatrixKHR, MATRIX_A)[1];
}

enum { BY_BOTH, BY_VAL, BY_INTERPRETER, BY_NONE };

static const struct {
  const char *name;
  void (*body)(kernel *k), (*change)(module *m);
  int found;
} cases[] = {
    {"plain", plain, nothing, BY_NONE},
    {"of_f16", of_f16, nothing, BY_NONE},
    {"of_bf16", of_bf16, nothing, BY_NONE},
    {"to_bf16", to_bf16, nothing, BY_NONE},
    {"of_another_type", plain, of_another_type, BY_VAL}, /* the interpreter does not get it */
    {"no_merge", plain, no_merge, BY_VAL},
    {"no_capability", plain, no_capability, BY_VAL},
    {"no_halves", of_f16, no_halves, BY_VAL},
    {"no_bf16", of_bf16, no_bf16, BY_BOTH},
    {"no_merge_of_matrices", of_f16, no_merge, BY_BOTH},
    {"element_of_another_type", of_f16, element_of_another_type, BY_BOTH},
    {"element_of_bf16_of_another_type", of_bf16, element_of_another_type, BY_BOTH},
    {"element_beyond", of_f16, element_beyond, BY_INTERPRETER}, /* how many there are, is open */
    {"element_of_element", of_f16, element_of_element, BY_BOTH},
    {"operands_changed", of_f16, operands_changed, BY_INTERPRETER}, /* no uses in the older form */
    {"sum_as_operand", of_f16, sum_as_operand, BY_BOTH},
};

/* What vm_validate finds in a changed shader. */
static bool found(const shader *from, void (*change)(module *m), int number, char *out,
                  size_t size) {
  module m = {malloc(from->n_words * sizeof *m.words), from->n_words};
  if (!m.words)
    abort();
  memcpy(m.words, from->words, m.n * sizeof *m.words);
  change(&m);
  shader s = *from;
  s.words = m.words;
  s.hash += (uint64_t)number;
  vm_validate(&s, "a test");
  bool there = vm_validate_take(out, size);
  free(m.words);
  return there;
}

static void check_found(int by, const char *said, bool there) {
  bool validator = strstr(said, "spirv-val, of"), interpreter = strstr(said, "the interpreter, of");
  if (interpreter != (by == BY_BOTH || by == BY_INTERPRETER) ||
      (there && validator != (by == BY_BOTH || by == BY_VAL)))
    FAIL("\"%s\"", said);
  else if (!there)
    test_skip("no spirv-val");
}

TEST_WALK(planted) {
  for (int i = 0; i < (int)COUNT_OF(cases); i++) {
    vm_stage s;
    char said[1200];
    if (!test_begin("%s", cases[i].name))
      continue;
    if (stage_open(&s, 32, cases[i].body)) {
      bool there = found(s.made.code, cases[i].change, i, said, sizeof said);
      check_found(cases[i].found, said, there);
    }
    stage_close(&s);
    test_end();
  }
}
