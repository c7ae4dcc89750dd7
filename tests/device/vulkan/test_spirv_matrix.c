/* Cooperative matrices on the interpreter of SPIR-V: products of f16 and bf16 at every size of subgroups, and faults
 * that it must find. */
#include "base/half.h"
#include "device/vulkan/self_test_matrix.h"
#include "support/test.h"
#include "support/vm_stage.h"
#include "support/vm_step.h"

#include <math.h>

enum { SIDE = 16, PAIRS = SIDE * SIDE / 2, USE_A = 0, USE_B = 1, USE_SUM = 2 };

static int subgroup; /* of the kernel that is being made */
static bool bf16;

static spirv_id matrix_type(kernel *k, spirv_id of, uint32_t use) {
  spirv *s = &k->s;
  val scope = k_u32(k, 3), side = k_u32(k, SIDE), u = k_u32(k, use);
  return spirv_type(s, SPV_TypeCooperativeMatrixKHR, SPV_ARGS(of, scope, side, side, u));
}

static spirv_id half_type(kernel *k) {
  if (bf16)
    spirv_capability(&k->s, 5116);
  return bf16 ? spirv_type(&k->s, SPV_TypeFloat, SPV_ARGS(16, 0))
              : spirv_type(&k->s, SPV_TypeFloat, SPV_ARGS(16));
}

static val shared_at(kernel *k, val array, spirv_id type, val i) {
  spirv_id pointer = spirv_pointer(&k->s, SPV_Workgroup, type);
  return spirv_op(&k->s, SPV_AccessChain, pointer, SPV_ARGS(array, i));
}

static val load_matrix(kernel *k, spirv_id type, val at, uint32_t layout, uint32_t stride) {
  val l = k_u32(k, layout), n = k_u32(k, stride);
  return spirv_op(&k->s, SPV_CooperativeMatrixLoadKHR, type, SPV_ARGS(at, l, n));
}

static void store_matrix(kernel *k, val at, val matrix, uint32_t stride) {
  val l = k_u32(k, 0), n = k_u32(k, stride);
  spirv_do(&k->s, SPV_CooperativeMatrixStoreKHR, SPV_ARGS(at, matrix, l, n));
}

/* Both numbers of a pair of an operand: row + 2 * column, column even. */
static uint32_t pair_bits(uint32_t i) {
  float row = (float)(i / (SIDE / 2)), column = (float)(2 * (i % (SIDE / 2)));
  uint32_t a = bf16 ? bf16_from_f32(row + 2 * column) : half_from_f32(row + 2 * column);
  uint32_t b = bf16 ? bf16_from_f32(row + 2 * column + 2) : half_from_f32(row + 2 * column + 2);
  return a | b << 16;
}

/* Thread by thread, since numbers stand in the code. */
static void fill(kernel *k, val array) {
  val x = k_u32(k, 0);
  for (int by = 0; by < PAIRS; by += STAGE_THREADS) {
    for (int i = 0; i < STAGE_THREADS; i++)
      x = k_select(k, k_eq(k, k->local, k_index(k, i)), k_u32(k, pair_bits((uint32_t)(by + i))), x);
    val at = k_add(k, k->local, k_index(k, by));
    k_shared_set(k, array, at, x);
  }
}

typedef struct scene {
  val operand, sums;
  k_if first; /* the first subgroup only */
} scene;

static scene begin(kernel *k, bool barrier) {
  scene c = {.operand = k_shared(k, k->s.u32, PAIRS), .sums = k_shared(k, k->s.f32, SIDE * SIDE)};
  fill(k, c.operand);
  if (barrier)
    k_barrier(k);
  c.first = k_if_begin(k, k_lt(k, k->local, k_index(k, subgroup)));
  return c;
}

/* a times the transpose of itself, or itself, plus 1. */
static val product(kernel *k, const scene *c, bool transposed) {
  spirv_id a = matrix_type(k, half_type(k), USE_A), b = matrix_type(k, half_type(k), USE_B);
  spirv_id sum = matrix_type(k, k->s.f32, USE_SUM);
  val one = k_f32(k, 1), zero = k_index(k, 0);
  val at = shared_at(k, c->operand, k->s.u32, zero);
  val x = load_matrix(k, a, at, 0, SIDE / 2), y = load_matrix(k, b, at, transposed, SIDE / 2);
  val ones = spirv_op(&k->s, SPV_CompositeConstruct, sum, SPV_ARGS(one));
  return spirv_op(&k->s, SPV_CooperativeMatrixMulAddKHR, sum, SPV_ARGS(x, y, ones));
}

static void finish(kernel *k, const scene *c) {
  k_if_end(k, &c->first);
  k_barrier(k);
  val i = k_add(k, k_mul(k, k->group, k_index(k, STAGE_THREADS)), k->local);
  val x = k_shared_get(k, c->sums, i);
  k_store(k, stage_buffer(k), k_add(k, i, k_index(k, STAGE_DEFINED)), x);
}

static void multiply(kernel *k, bool transposed) {
  scene c = begin(k, true);
  val sum = product(k, &c, transposed);
  store_matrix(k, shared_at(k, c.sums, k->s.f32, k_index(k, 0)), sum, SIDE);
  finish(k, &c);
}

static void sound_product(kernel *k) { multiply(k, false); }
static void sound_transposed(kernel *k) { multiply(k, true); }

static void without_barrier(kernel *k) {
  scene c = begin(k, false);
  val sum = product(k, &c, false);
  store_matrix(k, shared_at(k, c.sums, k->s.f32, k_index(k, 0)), sum, SIDE);
  finish(k, &c);
}

static void stores_beyond(kernel *k) {
  scene c = begin(k, true);
  val sum = product(k, &c, false);
  store_matrix(k, shared_at(k, c.sums, k->s.f32, k_index(k, 4)), sum, SIDE);
  finish(k, &c);
}

static void stores_unaligned(kernel *k) {
  scene c = begin(k, true);
  val sum = product(k, &c, false);
  store_matrix(k, shared_at(k, c.sums, k->s.f32, k_index(k, 2)), sum, SIDE);
  finish(k, &c);
}

static void not_all_threads(kernel *k) {
  scene c = begin(k, true);
  k_if some = k_if_begin(k, k_ne(k, k->local, k_index(k, 3)));
  val sum = product(k, &c, false);
  store_matrix(k, shared_at(k, c.sums, k->s.f32, k_index(k, 0)), sum, SIDE);
  k_if_end(k, &some);
  finish(k, &c);
}

static void threads_disagree(kernel *k) {
  scene c = begin(k, true);
  val sum = product(k, &c, false);
  store_matrix(k, shared_at(k, c.sums, k->s.f32, k->local), sum, SIDE);
  finish(k, &c);
}

/* The sums go into the buffer, of which there are 512 words behind the defined ones: rows of 16 words, 32 apart. */
static void store_to_buffer(kernel *k, int64_t word) {
  scene c = begin(k, true);
  spirv *s = &k->s;
  val sum = product(k, &c, false);
  spirv_id pointer = spirv_pointer(s, SPV_PhysicalBuffer, s->f32);
  k_if one = k_if_begin(k, k_eq(k, k->group, k_index(k, 0)));
  val at = k_add(k, stage_buffer(k), spirv_u64(s, (uint64_t)(4 * word)));
  val p = spirv_op(s, SPV_ConvertUToPtr, pointer, SPV_ARGS(at));
  val l = k_u32(k, 0), n = k_u32(k, 32);
  spirv_do(s, SPV_CooperativeMatrixStoreKHR, SPV_ARGS(p, sum, l, n, 2, 16));
  k_if_end(k, &one);
  k_if_end(k, &c.first);
}

static void sound_buffer(kernel *k) { store_to_buffer(k, STAGE_DEFINED); }
static void buffer_beyond(kernel *k) { store_to_buffer(k, STAGE_DEFINED + 20); }
static void buffer_unaligned(kernel *k) { store_to_buffer(k, STAGE_DEFINED - 2); }

static void sum_as_operand(kernel *k) {
  scene c = begin(k, true);
  spirv_id sum = matrix_type(k, k->s.f32, USE_SUM);
  val x = product(k, &c, false);
  spirv_op(&k->s, SPV_CooperativeMatrixMulAddKHR, sum, SPV_ARGS(x, x, x));
  finish(k, &c);
}

/* How many elements a thread has; the first of them is changed in every thread. */
static void elements(kernel *k) {
  scene c = begin(k, true);
  spirv *s = &k->s;
  spirv_id type = matrix_type(k, s->f32, USE_SUM);
  val sum = product(k, &c, false);
  val n = spirv_op(s, SPV_CooperativeMatrixLengthKHR, s->u32, SPV_ARGS(type));
  val first = spirv_op(s, SPV_CompositeExtract, s->f32, SPV_ARGS(sum, 0));
  first = k_add(k, k_sub(k, first, first), k_to_f32(k, n));
  sum = spirv_op(s, 82 /* CompositeInsert */, type, SPV_ARGS(first, sum, 0));
  store_matrix(k, shared_at(k, c.sums, s->f32, k_index(k, 0)), sum, SIDE);
  finish(k, &c);
}

static const struct {
  const char *name;
  void (*body)(kernel *k);
  const char *finding; /* a part of it; NULL: sound */
} cases[] = {
    {"product", sound_product, NULL},
    {"transposed", sound_transposed, NULL},
    {"elements", elements, NULL},
    {"buffer", sound_buffer, NULL},
    {"without_barrier", without_barrier, "a race: a read of shared memory"},
    {"stores_beyond", stores_beyond, "outside of shared memory"},
    {"stores_unaligned", stores_unaligned, "no multiples of 16"},
    {"not_all_threads", not_all_threads, "threads of the subgroup reach this"},
    {"threads_disagree", threads_disagree, "differ within the subgroup"},
    {"buffer_beyond", buffer_beyond, "of buffer 0, which has 4096"},
    {"buffer_unaligned", buffer_unaligned, "is no multiple of 16"},
    {"sum_as_operand", sum_as_operand, "no matrices A, B and C"},
};

static float operand_at(int row, int column) { return (float)(row + 2 * column); }

static float expected(int i, bool transposed) {
  float sum = 1;
  for (int n = 0; n < SIDE; n++)
    sum +=
        operand_at(i / SIDE, n) * (transposed ? operand_at(i % SIDE, n) : operand_at(n, i % SIDE));
  return sum;
}

static void check_numbers(const vm_stage *s, void (*body)(kernel *k)) {
  if (body == sound_product || body == sound_transposed)
    for (int i = 0; i < STAGE_GROUPS * STAGE_THREADS; i++)
      CHECK_EQ_INT(f32_from_bits(stage_result(s, i)), expected(i, body == sound_transposed));
  if (body == elements) {
    int changed = 0;
    for (int i = 0; i < STAGE_GROUPS * STAGE_THREADS; i++)
      changed += f32_from_bits(stage_result(s, i)) == (float)(SIDE * SIDE / subgroup);
    CHECK_EQ_INT(changed, subgroup);
  }
}

TEST_WALK(matrices) {
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    for (subgroup = 8; subgroup <= 64; subgroup *= subgroup == 8 ? 4 : 2)
      for (int way = 0; way < 2; way++) {
        vm_stage s;
        bf16 = way;
        if (!test_begin("%s %d %s", cases[i].name, subgroup, bf16 ? "bf16" : "f16"))
          continue;
        if (stage_open(&s, subgroup, cases[i].body))
          for (int order = VM_FORWARD; order <= VM_RANDOM; order++) {
            const char *found = stage_run(&s, (vm_order)order);
            if (cases[i].finding ? !strstr(found, cases[i].finding) : *found)
              FAIL("order %d: \"%s\"", order, found);
            else
              check_numbers(&s, cases[i].body);
          }
        stage_close(&s);
        test_end();
      }
}

/* --- what the device tests them with --- */

typedef sn_status emit_trial(emitter *e, const part *p);

typedef struct trial_way {
  matrix_trial *t;
  emit_trial *emit;
} trial_way;

static sn_status emit_trial_by(emitter *e, const part *p, void *user) {
  const trial_way *way = user;
  e->env.hand = way->t;
  return way->emit(e, p);
}

static gpu_target trial_target(int threads, bool places) {
  gpu_target target = vm_step_target(4);
  target.subgroup = threads;
  target.places = target.bf16_places = places;
  for (int i = 0; i < 3; i++)
    target.matrix[i] = SIDE;
  return target;
}

/* The trial on the interpreter. */
static void run_trial(matrix_trial *t, sn_ctx *ctx, const gpu_target *target, emit_trial *emit,
                      vm_order order) {
  void *memory[] = {NULL, t->x, t->y};
  trial_way way = {t, emit};
  vm_step v = {.ctx = ctx,
               .program = &t->program,
               .addresses = memory,
               .target = *target,
               .emit = emit_trial_by,
               .user = &way,
               .order = order,
               .seed = 5};
  if (!vm_step_run(&v, &t->step))
    FAIL("%s", v.finding);
}

/* Every kind of mistake is noticed, in every n-th number. */
static void check_notices(matrix_trial *t, bool (*is_right)(const matrix_trial *t), int every) {
  CHECK(is_right(t));
  for (int i = 0; i < t->n_sums; i += every) {
    float right = t->y[i], other = t->y[(i + 1) % t->n_sums];
    const float wrong[] = {2 * right, right + 1, other, 0, -right, NAN};
    for (size_t k = 0; k < COUNT_OF(wrong); k++) {
      t->y[i] = wrong[k];
      CHECK(wrong[k] == right || !is_right(t));
    }
    t->y[i] = right;
  }
  CHECK(is_right(t));
}

static void try_products(int threads, sn_dtype half) {
  sn_ctx *ctx;
  matrix_trial t;
  gpu_target target = trial_target(threads, threads == 32);
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  if (CHECK(matrix_trial_create(&t, ctx, &target, half))) {
    run_trial(&t, ctx, &target, matrix_trial_emit, VM_FORWARD);
    check_notices(&t, matrix_trial_is_right, 97);
  }
  matrix_trial_free(&t, ctx);
  sn_ctx_destroy(ctx);
}

TEST(trials) {
  for (int threads = 8; threads <= 64; threads *= 2) {
    try_products(threads, SN_F16);
    try_products(threads, SN_BF16);
  }
}

/* Elements at their places, or at others, which is found out; products are right in any case. */
static void try_places(sn_dtype half) {
  for (int known = 0; known < 2; known++)
    for (int order = VM_FORWARD; order <= VM_RANDOM; order++) {
      sn_ctx *ctx;
      matrix_trial t;
      gpu_target target = trial_target(32, known);
      REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
      if (CHECK(places_trial_create(&t, ctx, &target, half))) {
        run_trial(&t, ctx, &target, places_trial_emit, (vm_order)order);
        if (known)
          check_notices(&t, places_trial_is_right, 1);
        else
          CHECK(!places_trial_is_right(&t));
      }
      matrix_trial_free(&t, ctx);
      if (CHECK(matrix_trial_create(&t, ctx, &target, half))) {
        run_trial(&t, ctx, &target, matrix_trial_emit, (vm_order)order);
        CHECK(matrix_trial_is_right(&t));
      }
      matrix_trial_free(&t, ctx);
      sn_ctx_destroy(ctx);
    }
}

TEST(trials_of_places) {
  try_places(SN_F16);
  try_places(SN_BF16);
}

/* Shapes that it cannot test are refused, not believed. */
TEST(trials_of_odd_shapes) {
  sn_ctx *ctx;
  matrix_trial t;
  gpu_target target = vm_step_target(4);
  static const int sizes[][3] = {{0, 16, 16}, {16, 12, 16}, {16, 16, 128}, {64, 64, 64}};
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    memcpy(target.matrix, sizes[i], sizeof sizes[i]);
    CHECK(!matrix_trial_create(&t, ctx, &target, SN_F16));
    matrix_trial_free(&t, ctx);
    CHECK(!places_trial_create(&t, ctx, &target, SN_F16));
    matrix_trial_free(&t, ctx);
  }
  sn_ctx_destroy(ctx);
}

/* Places are known for subgroups of 32 only. */
TEST(places_of_other_subgroups) {
  sn_ctx *ctx;
  matrix_trial t;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (int threads = 8; threads <= 64; threads *= 2) {
    gpu_target target = trial_target(threads, true);
    CHECK(places_trial_create(&t, ctx, &target, SN_BF16) == (threads == 32));
    matrix_trial_free(&t, ctx);
  }
  sn_ctx_destroy(ctx);
}
