/* Products by cooperative matrices, with numbers for which every sum is exact in any order but not in f16, and for which no two rows,
 * columns, steps or layouts can be taken for each other:
 *
 *   for each layout l:  y[l] = a · b + 3 + l        a [2 m, 2 k], b [2 k, n]; two subgroups, each with m rows, in two steps of k
 *
 * a and b come to shared memory as they are in x, by rows and by columns each, in lines that lie four words more apart than they are long:
 * as the kernels for matmuls have them. Of the sums, too, those of every second layout are stored by columns. Which rows a subgroup
 * has follows once from its number and once from the largest number of its threads, so that this is tested, too. */
#include "device/vulkan/self_test_matrix.h"

#include "base/half.h"
#include "device/vulkan/kernel_matrix.h"

enum { A_ROWS, A_COLUMNS, B_ROWS, B_COLUMNS, BLOCKS, APART = 4 /* words more */ };

/* Lines of halves in shared memory; places and lengths are in words. */
typedef struct block {
  int at, lines, length;
} block;

static int rows_of(const matrix_trial *t) { return TRIAL_GROUPS * t->size[0]; }
static int depth_of(const matrix_trial *t) { return TRIAL_STEPS * t->size[2]; }
static int block_stride(const block *b) { return b->length + APART; }
static int block_words(const block *b) { return b->lines * block_stride(b); }

/* Words that sums take, by rows or by columns. */
static int sum_words(const matrix_trial *t) {
  int rows = rows_of(t), columns = t->size[1];
  int by_rows = rows * (columns + APART), by_columns = columns * (rows + APART);
  return by_rows > by_columns ? by_rows : by_columns;
}

static void find_blocks(const matrix_trial *t, block out[BLOCKS]) {
  int rows = rows_of(t), depth = depth_of(t), columns = t->size[1];
  out[A_ROWS] = (block){.lines = rows, .length = depth / 2};
  out[A_COLUMNS] = (block){.lines = depth, .length = rows / 2};
  out[B_ROWS] = (block){.lines = depth, .length = columns / 2};
  out[B_COLUMNS] = (block){.lines = columns, .length = depth / 2};
  for (int i = 1; i < BLOCKS; i++)
    out[i].at = out[i - 1].at + block_words(&out[i - 1]);
}

/* --- numbers --- */

static float a_at(int row, int k) { return (float)((row * 37 + k * 101 + 5) % 255 - 127); }
static float b_at(int k, int column) { return (float)((k * 59 + column * 83 + 7) % 255 - 127); }
static float first_of(int layout) { return (float)(3 + layout); }

static float number_at(int of, int line, int i) {
  switch (of) {
  case A_ROWS: return a_at(line, i);
  case A_COLUMNS: return a_at(i, line);
  case B_ROWS: return b_at(line, i);
  default: return b_at(i, line);
  }
}

static void fill(matrix_trial *t) {
  block blocks[BLOCKS];
  find_blocks(t, blocks);
  for (int of = 0; of < BLOCKS; of++)
    for (int line = 0; line < blocks[of].lines; line++)
      for (int i = 0; i < 2 * blocks[of].length; i++) {
        float x = number_at(of, line, i);
        uint32_t bits = t->half == SN_BF16 ? bf16_from_f32(x) : half_from_f32(x);
        t->x[blocks[of].at + line * block_stride(&blocks[of]) + i / 2] |= bits << (i & 1 ? 16 : 0);
      }
}

bool matrix_trial_is_right(const matrix_trial *t) {
  int rows = rows_of(t), columns = t->size[1];
  for (int i = 0; i < t->n_sums; i++) {
    int layout = i / (rows * columns), row = i / columns % rows, column = i % columns;
    float sum = first_of(layout);
    for (int k = 0; k < depth_of(t); k++)
      sum += a_at(row, k) * b_at(k, column);
    if (t->y[i] != sum)
      return false;
  }
  return true;
}

/* --- the program --- */

bool matrix_trial_build(matrix_trial *t, sn_ctx *ctx) {
  t->x = mem_array(ctx, (size_t)t->n_words, sizeof *t->x);
  t->y = mem_array(ctx, (size_t)t->n_sums, sizeof *t->y);
  if (!t->x || !t->y)
    return false;
  const sn_type x = {SN_I32, {1, {t->n_words}}}, y = {SN_F32, {1, {t->n_sums}}};
  t->values[TRIAL_X] = (program_value){
      .type = x, .count = t->n_words, .bytes = INT64_C(4) * t->n_words, .home = HOME_INPUT};
  t->values[TRIAL_Y] = (program_value){
      .type = y, .count = t->n_sums, .bytes = INT64_C(4) * t->n_sums, .home = HOME_OUTPUT};
  t->input = (program_leaf){.name = "x", .value = TRIAL_X, .type = x};
  t->output = (program_leaf){.name = "y", .value = TRIAL_Y, .type = y};
  t->step = (step){.kind = STEP_MATMUL, .n_parts = 1, .parts = &t->part, .name = "self-test"};
  t->program = (program){.values = t->values,
                         .n_values = COUNT_OF(t->values),
                         .steps = &t->step,
                         .n_main = 1,
                         .inputs = &t->input,
                         .n_inputs = 1,
                         .outputs = &t->output,
                         .n_outputs = 1};
  return true;
}

bool matrix_trial_create(matrix_trial *t, sn_ctx *ctx, const gpu_target *target, sn_dtype half) {
  block blocks[BLOCKS];
  *t = (matrix_trial){.half = half, .subgroup = target->subgroup};
  for (int i = 0; i < 3; i++) {
    t->size[i] = target->matrix[i];
    if (t->size[i] <= 0 || t->size[i] > TRIAL_SIDE || t->size[i] % 8)
      return false;
  }
  find_blocks(t, blocks);
  t->n_words = blocks[BLOCKS - 1].at + block_words(&blocks[BLOCKS - 1]);
  t->n_sums = TRIAL_LAYOUTS * rows_of(t) * t->size[1];
  if (4 * (t->n_words + sum_words(t)) > target->shared_bytes || !matrix_trial_build(t, ctx))
    return false;
  fill(t);
  return true;
}

void matrix_trial_free(matrix_trial *t, sn_ctx *ctx) {
  mem_free(ctx, t->x, (size_t)t->n_words * sizeof *t->x);
  mem_free(ctx, t->y, (size_t)t->n_sums * sizeof *t->y);
}

/* --- the kernel --- */

typedef struct writing {
  const matrix_trial *t;
  kernel *k;
  block blocks[BLOCKS];
  spirv_id type[3];
  val words, group, rows_from; /* the subgroup, as it is called and as its threads have it */
} writing;

static void copy_in(writing *w) {
  kernel *k = w->k;
  val end = k_index(k, w->t->n_words), by = k_index(k, k->threads);
  k_loop l = k_loop_begin(k, k->local, end, by);
  k_shared_set(k, w->words, l.i, k_load(k, k->s.u32, k_address(k, TRIAL_X), l.i));
  k_loop_end(k, &l);
  k_barrier_shared(k);
}

/* A matrix whose first line and first word in it are these; a's rows are further on by those of the subgroups before. */
static val load(writing *w, int of, int line, int word) {
  kernel *k = w->k;
  const block *b = &w->blocks[of];
  int stride = block_stride(b), rows = w->t->size[0];
  val at = k_index(k, b->at + line * stride + word);
  if (of == A_ROWS || of == A_COLUMNS) {
    val each = k_index(k, of == A_ROWS ? rows * stride : rows / 2);
    at = k_add(k, at, k_mul(k, w->rows_from, each));
  }
  return k_matrix_load(k, w->type[of < B_ROWS ? MATRIX_A : MATRIX_B], w->words, at,
                       of == A_ROWS || of == B_ROWS ? MATRIX_ROWS : MATRIX_COLUMNS, stride);
}

static val multiply(writing *w, int layout) {
  const matrix_trial *t = w->t;
  int a = layout & 1 ? A_COLUMNS : A_ROWS, b = layout & 2 ? B_COLUMNS : B_ROWS;
  val sum = k_matrix_of(w->k, w->type[MATRIX_SUM], first_of(layout));
  for (int i = 0; i < TRIAL_STEPS; i++) {
    int from = i * t->size[2];
    val x = a == A_ROWS ? load(w, a, 0, from / 2) : load(w, a, from, 0);
    val y = b == B_ROWS ? load(w, b, from, 0) : load(w, b, 0, from / 2);
    sum = k_matrix_multiply_add(w->k, w->type[MATRIX_SUM], x, y, sum);
  }
  return sum;
}

/* By rows or by columns, behind what came in; then to y, by rows. */
static void copy_out(writing *w, int layout, val sum) {
  kernel *k = w->k;
  const matrix_trial *t = w->t;
  int rows = rows_of(t), columns = t->size[1];
  bool by_rows = layout % 2 == 0;
  int stride = (by_rows ? columns : rows) + APART, line = by_rows ? stride : 1,
      next = by_rows ? 1 : stride;
  val zero = k_index(k, t->n_words);
  val at = k_add(k, zero, k_mul(k, w->group, k_index(k, t->size[0] * line)));
  k_matrix_store(k, w->words, at, sum, by_rows ? MATRIX_ROWS : MATRIX_COLUMNS, stride);
  k_barrier_shared(k);
  val end = k_index(k, rows * columns), by = k_index(k, k->threads), width = k_index(k, columns);
  k_loop l = k_loop_begin(k, k->local, end, by);
  val row = k_div(k, l.i, width), column = k_rem(k, l.i, width);
  val place = k_add(k, k_mul(k, row, k_index(k, line)), k_mul(k, column, k_index(k, next)));
  val bits = k_shared_get(k, w->words, k_add(k, zero, place));
  val to = k_add(k, l.i, k_index(k, layout * rows * columns));
  k_store(k, k_address(k, TRIAL_Y), to, k_bits(k, bits, k->s.f32));
  k_loop_end(k, &l);
  k_barrier_shared(k);
}

sn_status matrix_trial_emit(emitter *e, const part *p) {
  static const sn_dim one = 1;
  const matrix_trial *t = e->env.hand;
  kernel *k = emit_open(e, TRIAL_GROUPS * t->subgroup);
  (void)p;
  if (!k)
    return SN_ERR_NO_MEMORY;
  writing w = {.t = t, .k = k};
  k_use_matrices(k, t->size, t->half, w.type);
  find_blocks(t, w.blocks);
  w.group = k_subgroup_number(k);
  val last = k_to_index(k, k_subgroup_max(k, k_to_u32(k, k->local)));
  w.rows_from = k_div(k, last, k_index(k, t->subgroup));
  w.words = k_shared(k, k->s.u32, t->n_words + sum_words(t));
  copy_in(&w);
  for (int layout = 0; layout < TRIAL_LAYOUTS; layout++)
    copy_out(&w, layout, multiply(&w, layout));
  kernel_grid(k, 1, &(amount){1, 1, &one});
  return emit_launch(e, false);
}
