/* Whether threads have those elements of matrices that kernel_matrix.h says, shown by what kernels do with them: elements are written
 * and those of sums are read. Every thread has a number for each of its elements, which no other in the workgroup has; in each of
 * two subgroups
 *
 *   y[AS_A] = a · 1, of a from the threads' numbers, stored by rows: which element came to which place
 *   y[AS_B] = 1 · b, likewise
 *   y[AS_SUMS] = by thread, its elements of n · 1, where n has the numbers of its places
 *   y[ALL] = by thread, its elements of a · b + FIRST, of a and b from the threads' words in x
 *   y[SPLIT] = by thread, words of its floats as two halves each, of which a compiler might think that the second is 0
 *
 * All numbers are exact in f16, in bf16 (integers up to 256) and in f32. Where one is another than expected, elements are somewhere
 * else: then kernels move matrices through shared memory, as self_test_matrix.c has tried it. */
#include "base/half.h"
#include "device/vulkan/kernel_matrix.h"
#include "device/vulkan/self_test_matrix.h"

enum { AS_A, AS_B, AS_SUMS, ALL, SPLIT, RESULTS };
enum {
  SIDE = 16,
  SUBGROUP = 32,
  PLACES = SIDE * SIDE,
  WORDS = MATRIX_ELEMENTS / 2, /* of a matrix, of a thread */
  FIRST = 3,
  /* x: two matrices by rows, which lie four words more apart than they are long; by thread, three lists of words and floats */
  STRIDE = SIDE / 2 + 4,
  UNIT = 0,
  NUMBERS = SIDE * STRIDE,
  LOADED = 2 * SIDE * STRIDE,
  FLOATS = 3 * WORDS,
  OWN = FLOATS + MATRIX_ELEMENTS,
  SUM_STRIDE = SIDE + 4
};

/* --- numbers --- */

/* Row and column of a thread's element of a and of sums; of b they are column and row. */
static int row_of(int lane, int i) { return lane / 4 + i / 4 * 8; }
static int column_of(int lane, int i) { return lane % 4 * 2 + i % 4 / 2 * 8 + i % 2; }

static float a_at(int row, int k) { return (float)((row * 37 + k * 101 + 5) % 255 - 127); }
static float b_at(int k, int column) { return (float)((k * 59 + column * 83 + 7) % 255 - 127); }

static float product_at(int row, int column) {
  float sum = FIRST;
  for (int k = 0; k < SIDE; k++)
    sum += a_at(row, k) * b_at(k, column);
  return sum;
}

/* A thread's number for element i of its own: those of the second subgroup are below 0. */
static float own_at(int thread, int i) {
  int number = thread % SUBGROUP * MATRIX_ELEMENTS + i + 1;
  return (float)(thread < SUBGROUP ? number : -number);
}

/* Of more bits than a half has, of no more than two have, whichever way it is rounded. */
static float long_at(int thread, int i) {
  int number = thread % SUBGROUP * MATRIX_ELEMENTS + i + 1, x = 4097 + 238 * number;
  return (float)(thread < SUBGROUP ? x : -x);
}

static void put_half(const matrix_trial *t, uint32_t *words, int i, float x) {
  uint32_t bits = t->half == SN_BF16 ? bf16_from_f32(x) : half_from_f32(x);
  words[i / 2] |= bits << (i & 1 ? 16 : 0);
}

static void fill(matrix_trial *t) {
  for (int i = 0; i < PLACES; i++) {
    int row = i / SIDE, column = i % SIDE;
    put_half(t, t->x + UNIT + row * STRIDE, column, row == column);
    put_half(t, t->x + NUMBERS + row * STRIDE, column, (float)i);
  }
  for (int thread = 0; thread < TRIAL_GROUPS * SUBGROUP; thread++)
    for (int i = 0; i < MATRIX_ELEMENTS; i++) {
      uint32_t *own = t->x + LOADED + thread * OWN;
      int row = row_of(thread % SUBGROUP, i), column = column_of(thread % SUBGROUP, i);
      put_half(t, own, i, own_at(thread, i));
      put_half(t, own + WORDS, i, a_at(row, column));
      put_half(t, own + 2 * WORDS, i, b_at(column, row));
      own[FLOATS + i] = f32_bits(long_at(thread, i));
    }
}

/* The result that a thread's element has its place or its number in. */
static bool element_is_right(const float *y, int thread, int i) {
  int lane = thread % SUBGROUP, row = row_of(lane, i), column = column_of(lane, i),
      number = lane * MATRIX_ELEMENTS + i;
  float own = own_at(thread, i);
  return y[AS_A * PLACES + row * SIDE + column] == own &&
         y[AS_B * PLACES + column * SIDE + row] == own &&
         y[AS_SUMS * PLACES + number] == (float)(row * SIDE + column) &&
         y[ALL * PLACES + number] == product_at(row, column);
}

/* Words come before those of what is left. */
static bool split_is_right(const matrix_trial *t, const float *y, int thread, int i) {
  const float *own = y + SPLIT * PLACES + thread % SUBGROUP * MATRIX_ELEMENTS;
  float sum = 0;
  for (int of = 0; of < 2; of++) {
    uint16_t bits = (uint16_t)(f32_bits(own[of * WORDS + i / 2]) >> (i & 1 ? 16 : 0));
    float x = t->half == SN_BF16 ? bf16_to_f32(bits) : half_to_f32(bits);
    if (of == 1 && !(x > -256 && x < 256))
      return false;
    sum += x;
  }
  return sum == long_at(thread, i);
}

bool places_trial_is_right(const matrix_trial *t) {
  for (int thread = 0; thread < TRIAL_GROUPS * SUBGROUP; thread++)
    for (int i = 0; i < MATRIX_ELEMENTS; i++) {
      const float *y = t->y + thread / SUBGROUP * RESULTS * PLACES;
      if (!element_is_right(y, thread, i) || !split_is_right(t, y, thread, i))
        return false;
    }
  return true;
}

bool places_trial_create(matrix_trial *t, sn_ctx *ctx, const gpu_target *target, sn_dtype half) {
  *t = (matrix_trial){.half = half, .subgroup = target->subgroup};
  for (int i = 0; i < 3; i++) {
    t->size[i] = target->matrix[i];
    if (t->size[i] != SIDE)
      return false;
  }
  t->n_words = LOADED + TRIAL_GROUPS * SUBGROUP * OWN;
  t->n_sums = TRIAL_GROUPS * RESULTS * PLACES;
  if (target->subgroup != SUBGROUP || !matrix_trial_build(t, ctx))
    return false;
  fill(t);
  return true;
}

/* --- the kernel --- */

typedef struct writing {
  kernel *k;
  spirv_id type[3];
  val words, group, lane;
} writing;

static void copy_in(writing *w) {
  kernel *k = w->k;
  val end = k_index(k, LOADED), by = k_index(k, k->threads);
  k_loop l = k_loop_begin(k, k->local, end, by);
  k_shared_set(k, w->words, l.i, k_load(k, k->s.u32, k_address(k, TRIAL_X), l.i));
  k_loop_end(k, &l);
  k_barrier_shared(k);
}

static val load(writing *w, int use, int at) {
  kernel *k = w->k;
  return k_matrix_load(k, w->type[use], w->words, k_index(k, at), MATRIX_ROWS, STRIDE);
}

/* Number i of what the thread has in x. */
static val own(writing *w, spirv_id type, int i) {
  kernel *k = w->k;
  val thread = k_add(k, k_mul(k, w->group, k_index(k, SUBGROUP)), w->lane);
  val first = k_add(k, k_mul(k, thread, k_index(k, OWN)), k_index(k, LOADED + i));
  return k_load(k, type, k_address(k, TRIAL_X), first);
}

/* Of the thread's list of words. */
static val make(writing *w, int use, int list) {
  kernel *k = w->k;
  val words[WORDS];
  for (int i = 0; i < WORDS; i++)
    words[i] = own(w, k->s.u32, list * WORDS + i);
  return k_matrix_make(k, w->type[use], words);
}

static val multiply(writing *w, val a, val b, float first) {
  val sum = k_matrix_of(w->k, w->type[MATRIX_SUM], first);
  return k_matrix_multiply_add(w->k, w->type[MATRIX_SUM], a, b, sum);
}

/* Number i of a thread's in a result. */
static void put(writing *w, int result, int i, val x) {
  kernel *k = w->k;
  val of = k_add(k, k_mul(k, w->group, k_index(k, RESULTS)), k_index(k, result));
  val at = k_add(k, k_mul(k, of, k_index(k, PLACES)), k_index(k, i));
  at = k_add(k, at, k_mul(k, w->lane, k_index(k, MATRIX_ELEMENTS)));
  k_store(k, k_address(k, TRIAL_Y), at, x);
}

static void put_elements(writing *w, int result, val sums) {
  val x[MATRIX_ELEMENTS];
  k_matrix_sums(w->k, sums, x);
  for (int i = 0; i < MATRIX_ELEMENTS; i++)
    put(w, result, i, x[i]);
}

static void split(writing *w, sn_dtype half) {
  kernel *k = w->k;
  for (int i = 0; i < WORDS; i++) {
    val x[2], word[2];
    for (int j = 0; j < 2; j++)
      x[j] = own(w, k->s.f32, FLOATS + 2 * i + j);
    if (half == SN_BF16)
      k_two_bf16(k, x, &word[0], &word[1]);
    else
      k_two_halves(k, x, &word[0], &word[1]);
    for (int j = 0; j < 2; j++)
      put(w, SPLIT, j * WORDS + i, k_bits(k, word[j], k->s.f32));
  }
}

/* By way of the subgroup's part of shared memory: a thread takes half a row. */
static void put_rows(writing *w, int result, val sums) {
  kernel *k = w->k;
  val each = k_index(k, SIDE * SUM_STRIDE);
  val first = k_add(k, k_index(k, LOADED), k_mul(k, w->group, each));
  k_matrix_store(k, w->words, first, sums, MATRIX_ROWS, SUM_STRIDE);
  k_barrier_subgroup(k);
  val two = k_index(k, 2), row = k_div(k, w->lane, two), half = k_rem(k, w->lane, two);
  val at = k_add(k, first, k_mul(k, row, k_index(k, SUM_STRIDE)));
  at = k_add(k, at, k_mul(k, half, k_index(k, SIDE / 2)));
  for (int i = 0; i < MATRIX_ELEMENTS; i++) {
    val bits = k_shared_get(k, w->words, k_add(k, at, k_index(k, i)));
    put(w, result, i, k_bits(k, bits, k->s.f32));
  }
  k_barrier_subgroup(k);
}

sn_status places_trial_emit(emitter *e, const part *p) {
  static const sn_dim one = 1;
  const matrix_trial *t = e->env.hand;
  kernel *k = emit_open(e, TRIAL_GROUPS * SUBGROUP);
  (void)p;
  if (!k)
    return SN_ERR_NO_MEMORY;
  writing w = {.k = k};
  k_use_matrices(k, t->size, t->half, w.type);
  w.group = k_subgroup_number(k);
  w.lane = k_subgroup_lane(k);
  w.words = k_shared(k, k->s.u32, LOADED + TRIAL_GROUPS * SIDE * SUM_STRIDE);
  copy_in(&w);
  val unit_a = load(&w, MATRIX_A, UNIT), unit_b = load(&w, MATRIX_B, UNIT);
  put_rows(&w, AS_A, multiply(&w, make(&w, MATRIX_A, 0), unit_b, 0));
  put_rows(&w, AS_B, multiply(&w, unit_a, make(&w, MATRIX_B, 0), 0));
  put_elements(&w, AS_SUMS, multiply(&w, load(&w, MATRIX_A, NUMBERS), unit_b, 0));
  put_elements(&w, ALL, multiply(&w, make(&w, MATRIX_A, 1), make(&w, MATRIX_B, 2), FIRST));
  split(&w, t->half);
  kernel_grid(k, 1, &(amount){1, 1, &one});
  return emit_launch(e, false);
}
