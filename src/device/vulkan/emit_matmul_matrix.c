/* See emit_matmul_matrix.h. The loop over k is that of emit_matmul_tiles.c. A subgroup has fragments (matrices of
 * the result) that lie apart by those of the others, so that what all store at a time is one block of the result. */
#include "device/vulkan/emit_matmul_matrix.h"

enum {
  MOST_TOGETHER = 2,
  MOST_FRAGMENTS = 8, /* of a subgroup */
  NON_PRIVATE = 0x20,
  ROW_MAJOR = 0,
  COLUMN_MAJOR = 1,
  MATRIX_A = 0,
  MATRIX_B = 1,
  MATRIX_SUM = 2
};

const matrix_shape matmul_matrices = {64, 64, {2, 2}};

typedef struct matrices {
  matmul m;
  const matrix_shape *shape;
  int size[3];      /* of a matrix: m, n, k */
  int fragments[2]; /* of a subgroup along each side */
  int products;
  spirv_id type[3];
  val subgroup[2]; /* this subgroup's place */
  val shared;
  int tables; /* where panels' tables begin, behind all panels */
  val sum[EMIT_ACCS][MOST_FRAGMENTS];
  int first, n; /* accumulators that are made together */
  int n_panels;
  half_panel panels[1 + MOST_TOGETHER];
  int of[MOST_TOGETHER][2];
} matrices;

static int side_size(const matrix_shape *s, int side) { return side ? s->columns : s->rows; }
int matrix_threads(const matrix_shape *s, const gpu_target *t) {
  return s->subgroups[0] * s->subgroups[1] * t->subgroup;
}
bool matrix_fits(const matrix_shape *s, const gpu_target *t) {
  for (int side = 0; side < 2; side++)
    if (t->matrix[side] <= 0 || side_size(s, side) % (s->subgroups[side] * t->matrix[side]) != 0)
      return false;
  int fragments =
      s->rows * s->columns / (s->subgroups[0] * s->subgroups[1] * t->matrix[0] * t->matrix[1]);
  return t->matrix[2] > 0 && MATRIX_DEPTH % t->matrix[2] == 0 && fragments <= MOST_FRAGMENTS &&
         matrix_threads(s, t) <= t->max_threads &&
         matrix_threads(s, t) * 4 <= MATRIX_DEPTH * (s->rows < s->columns ? s->rows : s->columns);
}

/* --- shared memory in the Vulkan memory model --- */

val matrix_shared_at(kernel *k, val array, val at) {
  spirv *s = &k->s;
  spirv_id type = spirv_pointer(s, SPV_Workgroup, s->u32);
  return spirv_op(s, SPV_AccessChain, type, SPV_ARGS(array, at));
}

void matrix_shared_set(kernel *k, val array, val at, val x) {
  val there = matrix_shared_at(k, array, at);
  spirv_do(&k->s, SPV_Store, SPV_ARGS(there, x, NON_PRIVATE));
}

val matrix_shared_get(kernel *k, val array, val at) {
  val there = matrix_shared_at(k, array, at);
  return spirv_op(&k->s, SPV_Load, k->s.u32, SPV_ARGS(there, NON_PRIVATE));
}

void matrix_barrier(kernel *k) {
  /* acquire and release, made available and visible, of shared memory */
  val workgroup = k_u32(k, 2), order = k_u32(k, 0x8 | 0x100 | 0x2000 | 0x4000);
  spirv_do(&k->s, SPV_ControlBarrier, SPV_ARGS(workgroup, workgroup, order));
}

/* --- the module --- */

static void use_matrices(matrices *t, sn_dtype half) {
  enum { MEMORY_MODEL = 5345, MATRIX = 6022, BF16 = 5116, BF16_MATRIX = 5118, F16 = 9, VULKAN = 3 };
  kernel *k = t->m.e->k;
  spirv *s = &k->s;
  spirv_words *w = &s->section[SPV_PREAMBLE];
  for (size_t i = 0; i < w->n; i += w->at[i] >> 16)
    if ((w->at[i] & 0xffff) == SPV_MemoryModel)
      w->at[i + 2] = VULKAN;
  spirv_capability(s, MEMORY_MODEL);
  spirv_capability(s, MATRIX);
  spirv_extension(s, "SPV_KHR_cooperative_matrix");
  spirv_id of;
  if (half == SN_BF16) {
    spirv_capability(s, BF16);
    spirv_capability(s, BF16_MATRIX);
    spirv_extension(s, "SPV_KHR_bfloat16");
    of = spirv_type(s, SPV_TypeFloat, SPV_ARGS(16, 0));
  } else {
    spirv_capability(s, F16);
    of = spirv_type(s, SPV_TypeFloat, SPV_ARGS(16));
  }
  val scope = k_u32(k, 3), n[3];
  for (int i = 0; i < 3; i++)
    n[i] = k_u32(k, (uint32_t)t->size[i]);
  const val rows[3] = {n[0], n[2], n[0]}, columns[3] = {n[2], n[1], n[1]};
  for (int use = MATRIX_A; use <= MATRIX_SUM; use++) {
    val role = k_u32(k, (uint32_t)use);
    t->type[use] =
        spirv_type(s, SPV_TypeCooperativeMatrixKHR,
                   SPV_ARGS(use == MATRIX_SUM ? s->f32 : of, scope, rows[use], columns[use], role));
  }
}

static void place_subgroup(matrices *t) {
  enum { BUILT_IN = 11, SUBGROUP_ID = 40, NON_UNIFORM = 61 };
  kernel *k = t->m.e->k;
  spirv *s = &k->s;
  spirv_id v = spirv_global(s, SPV_Input, s->u32);
  spirv_capability(s, NON_UNIFORM);
  spirv_decorate(s, v, SPV_ARGS(BUILT_IN, SUBGROUP_ID));
  if (k->n_interface == (int)COUNT_OF(k->interface))
    k->why = "too many variables";
  else
    k->interface[k->n_interface++] = v;
  k->subgroups = true;
  val id = k_to_index(k, spirv_op(s, SPV_Load, s->u32, SPV_ARGS(v)));
  t->subgroup[1] = low_part(k, id, t->shape->subgroups[1]);
  t->subgroup[0] = high_part(k, id, t->shape->subgroups[1]);
}

/* --- products --- */

/* Where fragment i of this subgroup begins along a side. */
static val fragment_at(matrices *t, int side, int i) {
  kernel *k = t->m.e->k;
  val number = plus(k, t->subgroup[side], i * t->shape->subgroups[side]);
  return k_mul(k, number, k_index(k, t->size[side]));
}

/* A matrix of an operand at a fragment and a step of k; `rest`: of the second halves. */
static val load_matrix(matrices *t, const half_panel *p, int i, int at_k, bool rest) {
  kernel *k = t->m.e->k;
  int side = p->o.side, skip = p->first + (rest ? p->lines * p->stride : 0);
  val at = fragment_at(t, side, i);
  if (p->o.along_k) {
    at = plus(k, k_mul(k, at, k_index(k, p->stride)), skip + at_k / 2);
  } else {
    at = plus(k, high_part(k, at, 2), skip + at_k * p->stride);
  }
  /* a is [m][k], b is [k][n] */
  val layout = k_u32(k, p->o.along_k == (side == 0) ? ROW_MAJOR : COLUMN_MAJOR);
  val stride = k_u32(k, (uint32_t)p->stride), there = matrix_shared_at(k, p->array, at);
  return spirv_op(&k->s, SPV_CooperativeMatrixLoadKHR, t->type[side ? MATRIX_B : MATRIX_A],
                  SPV_ARGS(there, layout, stride, NON_PRIVATE));
}

static val multiply_add(matrices *t, val a, val b, val sum) {
  return spirv_op(&t->m.e->k->s, SPV_CooperativeMatrixMulAddKHR, t->type[MATRIX_SUM],
                  SPV_ARGS(a, b, sum));
}

/* One step of k, small products first. */
static void multiply_step(matrices *t, const half_panel *const p[2], int at_k, val *sums) {
  kernel *k = t->m.e->k;
  bool rest = t->products == 3;
  val b[MOST_FRAGMENTS][2] = {{0}};
  for (int j = 0; j < t->fragments[1]; j++)
    for (int h = 0; h <= rest; h++)
      b[j][h] = load_matrix(t, p[1], j, at_k, h);
  for (int i = 0; i < t->fragments[0]; i++) {
    val a[2] = {0};
    for (int h = 0; h <= rest; h++)
      a[h] = load_matrix(t, p[0], i, at_k, h);
    for (int j = 0; j < t->fragments[1]; j++) {
      val to = sums[i * t->fragments[1] + j], sum = k_get(k, to);
      if (rest) {
        sum = multiply_add(t, a[0], b[j][1], sum);
        sum = multiply_add(t, a[1], b[j][0], sum);
      }
      k_set(k, to, multiply_add(t, a[0], b[j][0], sum));
    }
  }
}

static void multiply(matrices *t) {
  for (int a = 0; a < t->n; a++) {
    const half_panel *p[2] = {&t->panels[t->of[a][0]], &t->panels[t->of[a][1]]};
    for (int at_k = 0; at_k < MATRIX_DEPTH; at_k += t->size[2])
      multiply_step(t, p, at_k, t->sum[t->first + a]);
  }
}

/* --- the loop over k --- */

static int panel_words(const matrices *t, int side, bool along_k) {
  int rows = side_size(t->shape, side);
  int words = along_k ? rows * half_stride(MATRIX_DEPTH) : MATRIX_DEPTH * half_stride(rows);
  return words * (t->products == 3 ? 2 : 1);
}

static int add_panel(matrices *t, const matmul_product *product, int side) {
  operand o;
  vk_operand_read(t->m.e, t->m.part, product, side, &o);
  int first = 0;
  for (int i = 0; i < t->n_panels; i++) {
    const half_panel *p = &t->panels[i];
    if (p->o.side == side && region_same(p->o.code, o.code))
      return i;
    first += half_panel_words(p);
  }
  half_panel *p = &t->panels[t->n_panels];
  *p = (half_panel){.o = o,
                    .rows = side_size(t->shape, side),
                    .depth = MATRIX_DEPTH,
                    .threads = t->m.e->k->threads,
                    .rest = t->products == 3,
                    .half = t->m.way->half,
                    .array = t->shared,
                    .first = first,
                    .table = -1};
  if (operand_wants_table(&t->m, &o))
    p->table = t->tables + t->n_panels * 4 * MATRIX_DEPTH;
  half_panel_open(&t->m, p);
  return t->n_panels++;
}

static void sum_product(matrices *t, int number) {
  kernel *k = t->m.e->k;
  const matmul_acc *accs = t->m.part->accs + t->first;
  const matmul_product *product = &accs[0].products[number];
  val from, to, size = k_sizes(k, product->n_k, product->k), depth = k_index(k, MATRIX_DEPTH);
  t->n_panels = 0;
  for (int a = 0; a < t->n; a++)
    for (int side = 0; side < 2; side++)
      t->of[a][side] = add_panel(t, &accs[a].products[number], side);
  matmul_range(&t->m, product, MATRIX_DEPTH, &from, &to);
  k_if some = k_if_begin(k, k_lt(k, from, to));
  for (int i = 0; i < t->n_panels; i++)
    half_panel_fill_table(&t->m, &t->panels[i], from, size);
  k_if_end(k, &some);
  matrix_barrier(k);
  k_loop l = k_loop_begin(k, from, k_add(k, to, depth), depth);
  val more = k_lt(k, l.i, to);
  k_if loads = k_if_begin(k, more);
  for (int i = 0; i < t->n_panels; i++)
    half_panel_load(&t->m, &t->panels[i], l.i, size);
  k_if_end(k, &loads);
  k_if second = k_if_begin(k, k_lt(k, from, l.i));
  multiply(t);
  k_if_end(k, &second);
  matrix_barrier(k);
  k_if stores = k_if_begin(k, more);
  for (int i = 0; i < t->n_panels; i++)
    half_panel_store(&t->m, &t->panels[i], l.i, size);
  val next = k_add(k, l.i, depth);
  for (int i = 0; i < t->n_panels; i++)
    half_panel_fill_table(&t->m, &t->panels[i], next, size);
  k_if_end(k, &stores);
  matrix_barrier(k);
  k_loop_end(k, &l);
}

static void sum_all(matrices *t) {
  const matmul_part *p = t->m.part;
  for (int a = 0; a < p->n_accs; a += t->n) {
    t->first = a;
    t->n = 1;
    while (t->n < MOST_TOGETHER && a + t->n < p->n_accs &&
           accs_share(&p->accs[a], &p->accs[a + t->n]))
      t->n++;
    for (int i = 0; i < p->accs[a].n_products; i++)
      sum_product(t, i);
  }
}

/* --- results --- */

/* The block of the result that the subgroups store at a time, with lines of neighbours in memory. */
static int block_size(const matrices *t, int side) {
  return t->shape->subgroups[side] * t->size[side];
}
static int block_stride(const matrices *t) { return block_size(t, t->m.columns_last) + 4; }
static int block_words(const matrices *t) {
  return block_size(t, !t->m.columns_last) * block_stride(t);
}

static void store_fragment(matrices *t, int i) {
  kernel *k = t->m.e->k;
  int last = t->m.columns_last;
  val line = k_mul(k, t->subgroup[!last], k_index(k, t->size[!last] * block_stride(t)));
  val inner = k_mul(k, t->subgroup[last], k_index(k, t->size[last]));
  val at = k_add(k, line, inner), stride = k_u32(k, (uint32_t)block_stride(t));
  val layout = k_u32(k, last ? ROW_MAJOR : COLUMN_MAJOR);
  for (int a = 0; a < t->m.part->n_accs; a++) {
    val sum = k_get(k, t->sum[a][i]);
    val there = matrix_shared_at(k, t->shared, plus(k, at, a * block_words(t)));
    spirv_do(&k->s, SPV_CooperativeMatrixStoreKHR,
             SPV_ARGS(there, sum, layout, stride, NON_PRIVATE));
  }
}

static void use_block(matrices *t, val pass) {
  kernel *k = t->m.e->k;
  int last = t->m.columns_last, length = block_size(t, last);
  val end = k_index(k, (int64_t)length * block_size(t, !last)), by = k_index(k, k->threads);
  k_loop l = k_loop_begin(k, k->local, end, by);
  val in[2], at[2], fragment[2];
  in[last] = low_part(k, l.i, length);
  in[!last] = high_part(k, l.i, length);
  fragment[0] = high_part(k, pass, t->fragments[1]);
  fragment[1] = low_part(k, pass, t->fragments[1]);
  for (int side = 0; side < 2; side++) {
    val skip = times(k, fragment[side], block_size(t, side));
    at[side] = k_add(k, k_add(k, t->m.begin[side], skip), in[side]);
  }
  val row_exists = k_lt(k, at[0], t->m.size[0]), column_exists = k_lt(k, at[1], t->m.size[1]);
  k_if inside = k_if_begin(k, k_and(k, row_exists, column_exists));
  val sums[EMIT_ACCS], there = k_mul(k, in[!last], k_index(k, block_stride(t)));
  there = k_add(k, there, in[last]);
  for (int a = 0; a < t->m.part->n_accs; a++) {
    val bits = matrix_shared_get(k, t->shared, plus(k, there, a * block_words(t)));
    sums[a] = k_bits(k, bits, k->s.f32);
  }
  matmul_result(&t->m, at[0], at[1], sums);
  k_if_end(k, &inside);
  k_loop_end(k, &l);
}

static void store_results(matrices *t) {
  kernel *k = t->m.e->k;
  int n = t->fragments[0] * t->fragments[1];
  val zero = k_index(k, 0), one = k_index(k, 1), end = k_index(k, n);
  k_loop pass = k_loop_begin(k, zero, end, one);
  for (int i = 0; i < n; i++) {
    k_if mine = k_if_begin(k, k_eq(k, pass.i, k_index(k, i)));
    store_fragment(t, i);
    k_if_end(k, &mine);
  }
  matrix_barrier(k);
  use_block(t, pass.i);
  matrix_barrier(k);
  k_loop_end(k, &pass);
}

/* --- the kernel --- */

static int shared_words(matrices *t) {
  const matmul_part *p = t->m.part;
  int most[2], blocks = p->n_accs * block_words(t);
  for (int side = 0; side < 2; side++) {
    int along = panel_words(t, side, true), across = panel_words(t, side, false);
    most[side] = along > across ? along : across;
  }
  int words = most[0] + most[1];
  for (int i = 0; i + 1 < p->n_accs; i++)
    if (accs_share(&p->accs[i], &p->accs[i + 1]))
      words = most[0] + most[1] + (most[0] > most[1] ? most[0] : most[1]);
  t->tables = words;
  words += (1 + MOST_TOGETHER) * 4 * MATRIX_DEPTH;
  return words > blocks ? words : blocks;
}

static void emit_body(matrices *t) {
  kernel *k = t->m.e->k;
  int each[2] = {t->shape->rows, t->shape->columns};
  vk_matmul_open(&t->m, each);
  use_matrices(t, t->m.way->half);
  place_subgroup(t);
  t->shared = k_shared(k, k->s.u32, shared_words(t));
  val zero = k_f32(k, 0);
  for (int a = 0; a < t->m.part->n_accs; a++)
    for (int i = 0; i < t->fragments[0] * t->fragments[1]; i++)
      t->sum[a][i] =
          k_var(k, spirv_op(&k->s, SPV_CompositeConstruct, t->type[MATRIX_SUM], SPV_ARGS(zero)));
  sum_all(t);
  store_results(t);
}

sn_status emit_matrices(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                        const amount *of, int64_t least, int64_t most) {
  const gpu_target *target = e->env.target;
  matrices *t = mem_alloc(e->env.ctx, sizeof *t);
  if (!t || !emit_open(e, matrix_threads(way->matrix, target))) {
    mem_free(e->env.ctx, t, t ? sizeof *t : 0);
    return SN_ERR_NO_MEMORY;
  }
  t->m = (matmul){.e = e, .part = p, .way = way, .scratch = scratch};
  t->shape = way->matrix;
  t->products = way->products;
  for (int i = 0; i < 3; i++)
    t->size[i] = target->matrix[i];
  for (int side = 0; side < 2; side++)
    t->fragments[side] = side_size(t->shape, side) / (t->shape->subgroups[side] * t->size[side]);
  emit_body(t);
  mem_free(e->env.ctx, t, sizeof *t);
  return emit_launch_when(e, false, of, least, most);
}
