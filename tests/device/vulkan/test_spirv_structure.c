/* Modules of wrong structure: sound ones with a word changed, which the interpreter must refuse, and say why. */
#include "support/test.h"
#include "support/vm_stage.h"

#include <stdlib.h>

/* --- a module with a loop, a condition, a phi --- */

static void sound(kernel *k) {
  val i = k_add(k, k_mul(k, k->group, k_index(k, STAGE_THREADS)), k->local);
  val sum = k_var(k, k_u32(k, 0));
  k_loop l = k_loop_begin(k, k_index(k, 0), k_index(k, 3), k_index(k, 1));
  val x = k_load(k, k->s.u32, stage_buffer(k), k_add(k, i, l.i));
  k_set(k, sum, k_add(k, k_get(k, sum), x));
  k_loop_end(k, &l);
  k_if even = k_if_begin(k, k_eq(k, k_and(k, i, k_index(k, 1)), k_index(k, 0)));
  val doubled = k_shl(k, k_get(k, sum), 1);
  val y = k_if_value(k, &even, doubled, k_u32(k, 7));
  val f = k_mul(k, k_to_f32(k, y), k_f32(k, 0.5f));
  k_store(k, stage_buffer(k), k_add(k, i, k_index(k, STAGE_DEFINED)), k_bits(k, f, k->s.u32));
}

/* --- changes --- */

typedef struct module {
  uint32_t *words;
  size_t n;
} module;

/* The n-th instruction of that kind, counted from 0; from the end where n is negative. */
static uint32_t *find(module *m, uint32_t op, int n) {
  uint32_t *at[512];
  int found = 0;
  for (size_t i = 5; i < m->n && found < 512; i += m->words[i] >> 16)
    if ((m->words[i] & 0xffff) == op)
      at[found++] = &m->words[i];
  int which = n < 0 ? found + n : n;
  if (which < 0 || which >= found)
    abort();
  return at[which];
}

static void set_op(uint32_t *at, uint32_t op) { *at = (*at & 0xffff0000) | op; }

static void no_module(module *m) { m->words[0]++; }
static void cut_short(module *m) { m->n--; }
static void no_length(module *m) { *find(m, SPV_IAdd, 0) &= 0xffff; }
static void unknown(module *m) { set_op(find(m, SPV_IAdd, 0), 499); }
static void unknown_function(module *m) {
  set_op(find(m, SPV_ShiftLeftLogical, 0), SPV_ExtInst); /* set and number are its arguments */
}
static void defined_twice(module *m) { find(m, SPV_IAdd, 1)[2] = find(m, SPV_IAdd, 0)[2]; }
static void used_early(module *m) { find(m, SPV_IAdd, 0)[3] = find(m, SPV_FMul, 0)[2]; }
static void beyond_bound(module *m) { find(m, SPV_IAdd, 0)[3] = m->words[3]; }
static void no_type(module *m) { find(m, SPV_IAdd, 0)[1] = find(m, SPV_IAdd, 0)[3]; }
/* What the condition's block computes is used behind it. */
static void not_on_every_way(module *m) { find(m, SPV_ConvertUToF, 0)[3] = find(m, SPV_Phi, 0)[3]; }
static void no_merge(module *m) {
  uint32_t *at = find(m, SPV_SelectionMerge, -1);
  for (int i = 0; i < 3; i++)
    at[i] = 1u << 16; /* OpNop */
}
static void no_loop_merge(module *m) {
  uint32_t *at = find(m, SPV_LoopMerge, 0);
  for (int i = 0; i < 4; i++)
    at[i] = 1u << 16;
}
static void wrong_merge(module *m) {
  find(m, SPV_SelectionMerge, -1)[1] = find(m, SPV_Label, 0)[1];
}
static void merge_of_another(module *m) {
  find(m, SPV_SelectionMerge, -1)[1] = find(m, SPV_SelectionMerge, 0)[1];
}
static void branch_to_value(module *m) { find(m, SPV_Branch, -1)[1] = find(m, SPV_IAdd, 0)[2]; }
static void branch_to_start(module *m) { find(m, SPV_Branch, 0)[1] = find(m, SPV_Label, 0)[1]; }
static void phi_of_another_way(module *m) { find(m, SPV_Phi, 0)[4] = find(m, SPV_Label, 0)[1]; }
static void phi_of_another_type(module *m) {
  const uint32_t type = find(m, SPV_FMul, 0)[1];
  for (int i = 0;; i++) {
    const uint32_t *constant = find(m, SPV_Constant, i);
    if (constant[1] != type)
      continue;
    find(m, SPV_Phi, 0)[5] = constant[2];
    return;
  }
}
static void no_end(module *m) { set_op(find(m, SPV_Return, 0), 0); }
static void float_of_integers(module *m) { set_op(find(m, SPV_IAdd, 0), SPV_FAdd); }
static void integer_of_floats(module *m) { set_op(find(m, SPV_FMul, 0), SPV_IMul); }
static void compares_to_integer(module *m) { find(m, SPV_IEqual, 0)[1] = find(m, SPV_IAdd, 0)[1]; }
static void condition_no_bool(module *m) {
  find(m, SPV_BranchConditional, -1)[1] = find(m, SPV_IAdd, 0)[2];
}
static void loads_another_type(module *m) { find(m, SPV_Load, -1)[1] = find(m, SPV_FMul, 0)[1]; }
static void stores_another_type(module *m) { find(m, SPV_Store, -1)[2] = find(m, SPV_FMul, 0)[2]; }
static void stores_to_input(module *m) {
  uint32_t *load = find(m, SPV_Load, 2), *store = find(m, SPV_Store, 0); /* the thread's number */
  store[1] = load[3];
  store[2] = load[2];
}
static void little_alignment(module *m) { find(m, SPV_Store, -1)[4] = 2; }
static void no_thread(module *m) { find(m, SPV_ExecutionMode, 0)[3] = 0; }
static void no_entry(module *m) { set_op(find(m, SPV_EntryPoint, 0), 5 /* OpName */); }
static void member_beyond(module *m) { find(m, SPV_CompositeExtract, 0)[4] = 3; }

static const struct {
  const char *name;
  void (*change)(module *m);
  const char *finding;
} cases[] = {
    {"no_module", no_module, "no module of SPIR-V"},
    {"cut_short", cut_short, "the last function has no end"},
    {"no_length", no_length, "an instruction of 0 words"},
    {"unknown", unknown, "instruction 499 is not known"},
    {"unknown_function", unknown_function, "is not known [word"},
    {"defined_twice", defined_twice, "is defined twice [word"},
    {"used_early", used_early, "is used before its definition"},
    {"beyond_bound", beyond_bound, "is no id of the module"},
    {"no_type", no_type, "is no type"},
    {"not_on_every_way", not_on_every_way, "is not known on every way to its use"},
    {"no_merge", no_merge, "a condition without a merge"},
    {"no_loop_merge", no_loop_merge, "a way back to a block that heads no loop"},
    {"wrong_merge", wrong_merge, "the merge block is reached in other ways"},
    {"merge_of_another", merge_of_another, "merge block"},
    {"branch_to_value", branch_to_value, "is no block of the function"},
    {"branch_to_start", branch_to_start, "a branch to the first block"},
    {"phi_of_another_way", phi_of_another_way, "nothing is given for the way from"},
    {"phi_of_another_type", phi_of_another_type, "has another type"},
    {"no_end", no_end, "the last block has no end"},
    {"float_of_integers", float_of_integers, "its type is of another kind"},
    {"integer_of_floats", integer_of_floats, "its type is of another kind"},
    {"compares_to_integer", compares_to_integer, "the result is no bool"},
    {"condition_no_bool", condition_no_bool, "the condition is no bool"},
    {"loads_another_type", loads_another_type, "the pointer is to another type"},
    {"stores_another_type", stores_another_type, "the pointer is to another type"},
    {"stores_to_input", stores_to_input, "this storage cannot be written"},
    {"little_alignment", little_alignment, "an alignment of 2 bytes for scalars of 4"},
    {"no_thread", no_thread, "no size of a workgroup"},
    {"no_entry", no_entry, "no entry point"},
    {"member_beyond", member_beyond, "member 3 of a type of 3"},
};

TEST_WALK(refused) {
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    vm_stage s;
    if (!test_begin("%s", cases[i].name))
      continue;
    if (stage_open(&s, 32, sound)) {
      const shader *code = s.made.code;
      module m = {malloc(code->n_words * sizeof(uint32_t)), code->n_words};
      if (!m.words)
        abort();
      memcpy(m.words, code->words, m.n * sizeof *m.words);
      cases[i].change(&m);
      const char *found = stage_run_words(&s, VM_FORWARD, m.words, m.n);
      if (!strstr(found, cases[i].finding))
        FAIL("\"%s\"", found);
      free(m.words);
    }
    stage_close(&s);
    test_end();
  }
}

/* Not one of them is refused for another reason. */
TEST(sound_one_runs) {
  vm_stage s;
  if (stage_open(&s, 32, sound)) {
    CHECK_EQ_STR(stage_run(&s, VM_RANDOM), "");
    float x;
    uint32_t bits = stage_result(&s, 4);
    memcpy(&x, &bits, sizeof x);
    CHECK_EQ_INT(x, 4 + 5 + 6);
  }
  stage_close(&s);
}

/* Whatever words are changed, it neither crashes nor runs on for ever. */
TEST(changed_at_random) {
  vm_stage s;
  uint32_t draw = 12345, found = 0;
  if (stage_open(&s, 8, sound)) {
    const shader *code = s.made.code;
    module m = {malloc(code->n_words * sizeof(uint32_t)), code->n_words};
    if (!m.words)
      abort();
    for (int i = 0; i < 20000; i++) {
      memcpy(m.words, code->words, m.n * sizeof *m.words);
      for (int k = 0; k < 1 + i % 3; k++) {
        draw = draw * 1664525 + 1013904223;
        uint32_t at = (draw >> 8) % (uint32_t)m.n;
        draw = draw * 1664525 + 1013904223;
        m.words[at] = i % 2 ? draw >> 8 & 127 : m.words[(draw >> 8) % m.n];
      }
      found += *stage_run_words(&s, VM_FORWARD, m.words, m.n) != '\0';
    }
    free(m.words);
    CHECK(found > 13000);
  }
  stage_close(&s);
}
