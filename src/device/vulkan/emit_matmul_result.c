/* The frame of matmul kernels: which points a workgroup has, and what becomes of its sums. See emit_matmul.h.
 *
 * With pieces of k, sums go to scratch memory, [piece][accumulator][batch][point of the result], and a second
 * launch adds the pieces in their order. A result that is nothing but sums is the one piece of such a kernel: see
 * emit_matmul_sums.h. */
#include "device/vulkan/emit_four.h"
#include "device/vulkan/emit_matmul_rewrite.h"
#include "device/vulkan/emit_matmul_sums.h"

const sn_dim *matmul_extents(const matmul *m, int side) { return m->part->extent + m->first[side]; }

static amount side_amount(const matmul_part *p, int side, int tile) {
  int first = p->n_batch + (side ? p->n_m : 0);
  return (amount){side ? p->n_n : p->n_m, tile, p->extent + first};
}

/* --- sums as they are --- */

static sums_kind sums_of(const matmul *m) {
  uint32_t value;
  return m->way->direct && !m->way->sorted ? matmul_sums(m->e, m->part, &value) : SUMS_OTHER;
}

/* Whether the kernel is one of pieces, perhaps of a single one. */
static bool has_pieces(const matmul *m) { return has_join(m->way) || sums_of(m) != SUMS_OTHER; }

/* Where pieces are. */
static val pieces_address(const matmul *m) {
  uint32_t value;
  if (has_join(m->way))
    return k_scratch(m->e->k, m->scratch);
  matmul_sums(m->e, m->part, &value);
  return k_address(m->e->k, value);
}

/* --- points --- */

static void set_axes(matmul *m) {
  const matmul_part *p = m->part;
  m->first[0] = p->n_batch;
  m->first[1] = p->n_batch + p->n_m;
  m->axes[0] = p->n_m;
  m->axes[1] = p->n_n;
  m->first_k = m->first[1] + p->n_n;
  m->columns_last = matmul_columns_last(p);
  memset(m->e->axis, 0, sizeof m->e->axis);
  if (p->n_accs > EMIT_ACCS)
    m->e->k->why = "too many accumulators";
  for (int s = 0; s < 2; s++)
    m->size[s] = k_sizes(m->e->k, m->axes[s], matmul_extents(m, s));
}

void matmul_open_tiles(matmul *m, const amount tiles[2], const int each[2]) {
  const matmul_part *p = m->part;
  kernel *k = m->e->k;
  sn_dim splits = m->way->splits;
  bool pieces = has_pieces(m);
  amount grid[4] = {tiles[1], tiles[0], {p->n_batch, 1, p->extent}, {1, 1, &splits}};
  val rest = k->group, at;
  set_axes(m);
  for (int s = 1; s >= 0; s--) {
    rest = k_divide(k, rest, &grid[1 - s], &at);
    m->begin[s] = k_mul(k, at, k_index(k, each[s]));
  }
  m->batch = rest;
  m->split = k_index(k, 0);
  if (pieces)
    m->split = k_divide(k, rest, &grid[2], &m->batch);
  emit_coordinates(m->e, m->batch, 0, p->n_batch, p->extent);
  kernel_grid(k, pieces ? 4 : 3, grid);
}

void vk_matmul_open(matmul *m, const int each[2]) {
  const amount tiles[2] = {side_amount(m->part, 0, each[0]), side_amount(m->part, 1, each[1])};
  matmul_open_tiles(m, tiles, each);
}

void matmul_range(matmul *m, const matmul_product *p, int depth, val *out_from, val *out_to) {
  kernel *k = m->e->k;
  *out_from = k_index(k, 0);
  *out_to = k_sizes(k, p->n_k, p->k);
  if (!has_pieces(m))
    return;
  val panels = k_amount_apart(k, &(amount){p->n_k, depth * m->way->splits, p->k});
  val length = k_mul(k, panels, k_index(k, depth));
  *out_from = k_mul(k, m->split, length);
  *out_to = k_min(k, *out_to, k_add(k, *out_from, length));
}

void matmul_point(matmul *m, int side, val flat) {
  emit_coordinates(m->e, flat, m->first[side], m->axes[side], m->part->extent);
}

void matmul_k_point(matmul *m, const matmul_product *p, val flat) {
  val *axis = m->e->axis + m->first_k;
  bool ones = m->e->k->ones;
  m->e->k->ones = ones || m->part->phase > 0;
  for (int d = p->n_k - 1; d > 0; d--)
    flat = k_divide(m->e->k, flat, &(amount){1, 1, &p->k[d]}, &axis[d]);
  m->e->k->ones = ones;
  if (p->n_k > 0)
    axis[0] = flat;
}

static void run_epilogue(matmul *m, val row, val column, const val *sums) {
  matmul_point(m, 0, row);
  matmul_point(m, 1, column);
  memcpy(m->e->acc, sums, (size_t)m->part->n_accs * sizeof *sums);
  m->e->k->ones = true;
  emit_region(m->e, &m->part->epilogue);
  m->e->k->ones = false;
}

/* Where the sums of accumulator 0 begin that this point has in piece `split`, and elements from accumulator to
 * accumulator. */
static val piece_at(matmul *m, val row, val column, val split, val *out_step) {
  kernel *k = m->e->k;
  const matmul_part *p = m->part;
  val apart = k_sizes(k, p->n_batch + p->n_m + p->n_n, p->extent);
  val rows = m->columns_last ? row : column, last = m->columns_last ? column : row;
  val at = k_mul(k, split, k_index(k, p->n_accs));
  at = k_add(k, k_mul(k, at, apart), last);
  at = k_add(k, at, k_mul(k, rows, m->size[m->columns_last]));
  val plane = k_mul(k, m->size[0], m->size[1]);
  *out_step = apart;
  return k_add(k, at, k_mul(k, m->batch, plane));
}

static void store_apart(matmul *m, int points, val row, val column, const val *sums);

void matmul_result(matmul *m, val row, val column, const val *sums) {
  kernel *k = m->e->k;
  if (sums_of(m) == SUMS_APART) {
    store_apart(m, 1, row, column, sums);
    return;
  }
  if (!has_pieces(m)) {
    run_epilogue(m, row, column, sums);
    return;
  }
  val apart, at = piece_at(m, row, column, m->split, &apart);
  for (int a = 0; a < m->part->n_accs; a++) {
    k_store(k, pieces_address(m), at, sums[a]);
    at = k_add(k, at, apart);
  }
}

/* --- four points at once --- */

static four_axes last_axes(const matmul_part *p, bool columns_last) {
  return (four_axes){p->n_batch + (columns_last ? p->n_m : 0), columns_last ? p->n_n : p->n_m,
                     p->extent};
}

/* Whether fours of a side differ in one coordinate. */
static bool has_whole_fours(const matmul_part *p, int side) {
  four_axes along = last_axes(p, side);
  return along.n > 0 && along.extent[along.first + along.n - 1] % 4 == 0;
}

int matmul_points(const matmul_part *p) {
  bool columns_last = matmul_columns_last(p);
  four_axes along = last_axes(p, columns_last);
  int64_t size = 1;
  for (int i = 0; i < along.n; i++) {
    sn_dim d = along.extent[along.first + i];
    if (!dim_is_number(d))
      return 1;
    size = d % 4 == 0 ? 4 : size * (d % 4);
  }
  if (size % 4 != 0)
    return 1;
  for (int i = 0; i < p->epilogue.n; i++)
    if (p->epilogue.code[i].op == REGION_STORE) {
      bool next = access_four(&p->epilogue.code[i].at, &along) == FOUR_NEXT;
      return next || (p->epilogue.n == 2 && has_whole_fours(p, columns_last)) ? 4 : 1;
    }
  return 1;
}

/* The part by the axes of its epilogue alone. */
static const matmul_part *result_part(matmul *m) {
  if (!m->result)
    m->result = matmul_fold_result(&m->e->env, m->part);
  m->e->k->s.failed = m->e->k->s.failed || !m->result;
  return m->result ? m->result : m->part;
}

/* The part for fours of a side. Along rows it has the axes of its epilogue alone: pixels that an operand must tell apart are one line in
 * results, of which fours are whole also where a line of the image has no multiple of 4. */
static const matmul_part *part_of_fours(matmul *m, int side) {
  return side == 1 ? m->part : result_part(m);
}

/* Coordinates of a point of the result, those of the batch as they are. */
static void result_point(matmul *m, const matmul_part *r, val row, val column) {
  emit_coordinates(m->e, row, r->n_batch, r->n_m, r->extent);
  emit_coordinates(m->e, column, r->n_batch + r->n_m, r->n_n, r->extent);
}

/* Sums of neighbours along the last side, one by one, to the result or to a piece. */
static void store_apart(matmul *m, int points, val row, val column, const val *sums) {
  kernel *k = m->e->k;
  const matmul_part *p = m->part, *r = result_part(m);
  int n_axes = r->n_batch + r->n_m + r->n_n;
  int inner = r->n_batch + r->n_m + (m->columns_last ? r->n_n : 0) - 1;
  bool pieces = m->way->splits > 1;
  val before[REGION_AXES];
  memcpy(before, m->e->axis, sizeof before);
  sums_strides(r, m->columns_last, pieces, m->strides);
  m->base = pieces ? 0 : r->epilogue.code[1].at.base;
  result_point(m, r, row, column);
  k->ones = true;
  val apart = k_sizes(k, p->n_batch + p->n_m + p->n_n, p->extent), base = k_size_of(k, &m->base);
  val at = k_add(k, k_mul(k, m->split, apart), base);
  for (int d = 0; d < n_axes; d++) {
    val stride = k_size_of(k, &m->strides[d]);
    at = k_add(k, at, k_mul(k, m->e->axis[d], stride));
  }
  val address = pieces_address(m), next = points > 1 ? k_size_of(k, &m->strides[inner]) : 0;
  k->ones = false;
  for (int u = 0; u < points; u++) {
    at = u ? k_add(k, at, next) : at;
    k_store(k, address, at, sums[u]);
  }
  memcpy(m->e->axis, before, sizeof before);
}

/* Four points that are neighbours along a side, and their sums. */
static void find_four(matmul *m, int side, const val point[2], val sums[][4], four_points *at) {
  kernel *k = m->e->k;
  const matmul_part *r = part_of_fours(m, side);
  val before[REGION_AXES], row = point[0], column = point[1];
  at->along = last_axes(r, side);
  int inner = at->along.first + at->along.n - 1;
  bool whole = has_whole_fours(r, side);
  memcpy(before, m->e->axis, sizeof before);
  for (int u = 0; u < 4; u++) {
    if (u == 0 || !whole)
      result_point(m, r, side ? row : plus(k, row, u), side ? plus(k, column, u) : column);
    memcpy(at->axes[u], m->e->axis, sizeof at->axes[u]);
    if (u > 0 && whole)
      at->axes[u][inner] = plus(k, at->axes[0][inner], u);
    for (int a = 0; a < r->n_accs; a++)
      at->acc[u][a] = sums[a][u];
  }
  memcpy(m->e->axis, before, sizeof before);
}

/* The epilogue at n fours along a side, in step. */
static void run_epilogue_fours(matmul *m, int side, int n, val at[][2], val sums[][EMIT_ACCS][4]) {
  four_points points[EMIT_FOURS] = {0};
  val before[REGION_AXES];
  memcpy(before, m->e->axis, sizeof before);
  for (int i = 0; i < n; i++)
    find_four(m, side, at[i], sums[i], &points[i]);
  m->e->k->ones = true;
  emit_region_fours(m->e, &part_of_fours(m, side)->epilogue, n, points);
  m->e->k->ones = false;
  memcpy(m->e->axis, before, sizeof before);
}

static void run_epilogue_four(matmul *m, int side, val row, val column, val sums[][4]) {
  val at[1][2] = {{row, column}}, one[1][EMIT_ACCS][4] = {0};
  memcpy(one[0], sums, (size_t)m->part->n_accs * sizeof one[0][0]);
  run_epilogue_fours(m, side, 1, at, one);
}

void matmul_result_four(matmul *m, val row, val column, val sums[][4]) {
  kernel *k = m->e->k;
  if (sums_of(m) == SUMS_APART) {
    store_apart(m, 4, row, column, sums[0]);
    return;
  }
  if (!has_pieces(m)) {
    run_epilogue_four(m, m->columns_last, row, column, sums);
    return;
  }
  val apart, at = piece_at(m, row, column, m->split, &apart);
  for (int a = 0; a < m->part->n_accs; a++) {
    k_store(k, pieces_address(m), k_shr(k, at, 2), k_vector(k, 4, sums[a]));
    at = k_add(k, at, apart);
  }
}

void matmul_result_fours(matmul *m, int n, val at[][2], val sums[][EMIT_ACCS][4]) {
  if (!has_pieces(m)) {
    run_epilogue_fours(m, m->columns_last, n, at, sums);
    return;
  }
  for (int i = 0; i < n; i++)
    matmul_result_four(m, at[i][0], at[i][1], sums[i]);
}

void matmul_result_columns(matmul *m, val row, val column, val sums[][4]) {
  if (!has_pieces(m)) {
    run_epilogue_four(m, 1, row, column, sums);
    return;
  }
  for (int u = 0; u < 4; u++) {
    val one[EMIT_ACCS];
    for (int a = 0; a < m->part->n_accs; a++)
      one[a] = sums[a][u];
    matmul_result(m, row, plus(m->e->k, column, u), one);
  }
}

/* --- pieces of k --- */

enum { JOIN_THREADS = 128 };

/* The point of the result with this number, rows or columns last. */
static void join_point(matmul *m, val flat, val *out_row, val *out_column) {
  kernel *k = m->e->k;
  int last = m->columns_last;
  val at[2];
  amount sizes[2] = {side_amount(m->part, 0, 1), side_amount(m->part, 1, 1)};
  flat = k_divide(k, flat, &sizes[last], &at[last]);
  m->batch = k_divide(k, flat, &sizes[!last], &at[!last]);
  emit_coordinates(m->e, m->batch, 0, m->part->n_batch, m->part->extent);
  *out_row = at[0];
  *out_column = at[1];
}

void matmul_join_sums(matmul *m, val first, int points, val sums[][4]) {
  kernel *k = m->e->k;
  const matmul_part *p = m->part;
  sn_dim splits = m->way->splits;
  spirv_id type = points == 4 ? spirv_vector(&k->s, k->s.f32, 4) : k->s.f32;
  val none[4] = {k_f32(k, 0), k_f32(k, 0), k_f32(k, 0), k_f32(k, 0)}, sum[EMIT_ACCS];
  val apart = k_sizes(k, p->n_batch + p->n_m + p->n_n, p->extent);
  int n = p->n_accs;
  for (int a = 0; a < n; a++)
    sum[a] = k_var(k, points == 4 ? k_vector(k, 4, none) : none[0]);
  val zero = k_index(k, 0), one = k_index(k, 1), end = k_size(k, splits);
  k_loop l = k_loop_begin(k, zero, end, one);
  val at = k_add(k, k_mul(k, k_mul(k, l.i, k_index(k, n)), apart), first);
  for (int a = 0; a < n; a++) {
    val x = k_load(k, type, k_scratch(k, m->scratch), points == 4 ? k_shr(k, at, 2) : at);
    k_set(k, sum[a], k_add(k, k_get(k, sum[a]), x));
    at = k_add(k, at, apart);
  }
  k_loop_end(k, &l);
  for (int a = 0; a < n; a++) {
    val all = k_get(k, sum[a]);
    for (int u = 0; u < points; u++)
      sums[a][u] = points == 4 ? k_part(k, all, u) : all;
  }
}

/* How many neighbours a thread has of a result that is one line: 4, or 1. */
static int flat_points(const matmul_part *p) {
  int64_t rest = 1;
  for (int i = 0; i < p->n_batch + p->n_m + p->n_n; i++)
    rest = dim_is_number(p->extent[i]) ? rest * (p->extent[i] % 4) % 4 : rest;
  return rest == 0 ? 4 : 1;
}

/* Elements of `value` from number `flat` on, which are the sums. */
static void join_flat(matmul *m, val flat, int points, uint32_t value) {
  kernel *k = m->e->k;
  val sums[EMIT_ACCS][4];
  matmul_join_sums(m, flat, points, sums);
  if (points == 4)
    k_store(k, k_address(k, value), k_shr(k, flat, 2), k_vector(k, 4, sums[0]));
  else
    k_store(k, k_address(k, value), flat, sums[0][0]);
}

static void join_results(matmul *m, val flat, int points) {
  val sums[EMIT_ACCS][4], first[EMIT_ACCS], row, column, apart;
  join_point(m, flat, &row, &column);
  val at = piece_at(m, row, column, k_index(m->e->k, 0), &apart);
  matmul_join_sums(m, at, points, sums);
  for (int a = 0; a < m->part->n_accs; a++)
    first[a] = sums[a][0];
  if (points == 4)
    run_epilogue_four(m, m->columns_last, row, column, sums);
  else
    run_epilogue(m, row, column, first);
}

sn_status matmul_join(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                      const amount *of, int64_t least, int64_t most) {
  kernel *k = emit_open(e, JOIN_THREADS);
  if (!k)
    return SN_ERR_NO_MEMORY;
  matmul m = {.e = e, .part = p, .way = way, .scratch = scratch};
  amount all = {p->n_batch + p->n_m + p->n_n, 1, p->extent};
  uint32_t value;
  bool line = matmul_sums(e, p, &value) == SUMS_FLAT;
  int points = line ? flat_points(p) : matmul_points(p);
  set_axes(&m);
  val number = k_add(k, times(k, k->group, JOIN_THREADS), k->local),
      flat = times(k, number, points);
  k_if inside = k_if_begin(k, k_lt(k, flat, k_amount(k, &all)));
  if (line)
    join_flat(&m, flat, points, value);
  else
    join_results(&m, flat, points);
  k_if_end(k, &inside);
  all.tile = JOIN_THREADS * points;
  kernel_grid(k, 1, &all);
  return emit_launch_when(e, true, of, least, most);
}
