/* What a GPU can do a second, measured with four kernels made by hand: a copy, multiply-adds in registers, products of matrices in
 * registers, and launches that do nothing but wait for each other. For `sinew bench --profile`. */
#include "device/vulkan/device.h"
#include "device/vulkan/emit.h"
#include "device/vulkan/kernel_matrix.h"

#include <time.h>

enum { COPY, MULTIPLY, MATRIX, LAUNCHES, KINDS, FROM = 1, TO, VALUES };
enum { THREADS = 256, EACH = 4 /* vectors that a thread copies */, CHAINS = 8, DEEP = 4, SUMS = 8 };
enum { MANY_LAUNCHES = 64, GROUPS_A_UNIT = 16, SUBGROUPS = 4 };

typedef struct measuring {
  program program;
  program_value values[VALUES];
  step steps[KINDS];
  part parts[KINDS];
  gpu_target target;
  sn_dim copied, groups; /* workgroups */
  int times;             /* that loops go round */
  double work[KINDS];    /* bytes, flops, flops, launches */
  double least_s[KINDS];
} measuring;

/* --- kernels --- */

static void copy(emitter *e, const measuring *m) {
  kernel *k = e->k;
  spirv_id four = spirv_vector(&k->s, k->s.f32, 4);
  val first = k_add(k, k_mul(k, k->group, k_index(k, THREADS * EACH)), k->local), x[EACH], at[EACH];
  for (int i = 0; i < EACH; i++) {
    at[i] = k_add(k, first, k_index(k, THREADS * i));
    x[i] = k_load(k, four, k_address(k, FROM), at[i]);
  }
  for (int i = 0; i < EACH; i++)
    k_store(k, k_address(k, TO), at[i], x[i]);
  kernel_grid(k, 1, &(amount){1, 1, &m->copied});
}

/* Stores what can never be, so that all of it has to be computed. */
static void keep(kernel *k, val x) {
  k_if never = k_if_begin(k, k_eq(k, x, k_f32(k, -1)));
  k_store(k, k_address(k, TO), k->local, x);
  k_if_end(k, &never);
}

static void multiply(emitter *e, const measuring *m) {
  kernel *k = e->k;
  val x[CHAINS], all = k_f32(k, 0), by = k_f32(k, 0.9990234375F), more = k_f32(k, 0.5F);
  for (int c = 0; c < CHAINS; c++)
    x[c] = k_var(k, k_add(k, k_to_f32(k, k->local), k_f32(k, (float)c)));
  val zero = k_index(k, 0), one = k_index(k, 1), end = k_index(k, m->times);
  k_loop l = k_loop_begin(k, zero, end, one);
  for (int d = 0; d < DEEP; d++)
    for (int c = 0; c < CHAINS; c++)
      k_set(k, x[c], k_fma(k, k_get(k, x[c]), by, more));
  k_loop_end(k, &l);
  for (int c = 0; c < CHAINS; c++)
    all = k_add(k, all, k_get(k, x[c]));
  keep(k, all);
  kernel_grid(k, 1, &(amount){1, 1, &m->groups});
}

/* Words of a line of sums or, where that is longer, of halves; of all that matrices of the subgroups take. */
static int matrix_line(const int size[3]) {
  return (int)(max_i64(size[1], max_i64(size[1], size[2]) / 2) + 7) / 4 * 4;
}
static int matrix_words(const int size[3]) {
  return SUBGROUPS * (int)max_i64(size[0], size[2]) * matrix_line(size);
}

/* Two matrices of zeros from shared memory, over and over into sums that begin with different numbers. */
static void multiply_matrices(emitter *e, const measuring *m) {
  kernel *k = e->k;
  const int *size = m->target.matrix;
  int line = matrix_line(size), words = matrix_words(size);
  spirv_id type[3];
  val sum[SUMS], by = k_index(k, k->threads), zero = k_index(k, 0), one = k_index(k, 1);
  k_use_matrices(k, size, m->target.bf16 ? SN_BF16 : SN_F16, type);
  val mine = k_mul(k, k_subgroup_number(k), k_index(k, words / SUBGROUPS));
  val shared = k_shared(k, k->s.u32, words);
  k_loop clear = k_loop_begin(k, k->local, k_index(k, words), by);
  k_shared_set(k, shared, clear.i, k_u32(k, 0));
  k_loop_end(k, &clear);
  k_barrier_shared(k);
  val a = k_matrix_load(k, type[MATRIX_A], shared, mine, MATRIX_ROWS, line);
  val b = k_matrix_load(k, type[MATRIX_B], shared, mine, MATRIX_ROWS, line);
  for (int i = 0; i < SUMS; i++)
    sum[i] = k_var(k, k_matrix_of(k, type[MATRIX_SUM], (float)i));
  k_loop l = k_loop_begin(k, zero, k_index(k, m->times), one);
  for (int i = 0; i < SUMS; i++)
    k_set(k, sum[i], k_matrix_multiply_add(k, type[MATRIX_SUM], a, b, k_get(k, sum[i])));
  k_loop_end(k, &l);
  for (int i = 0; i < SUMS; i++) {
    k_barrier_shared(k);
    k_matrix_store(k, shared, mine, k_get(k, sum[i]), MATRIX_ROWS, line);
    k_barrier_shared(k);
    keep(k, k_bits(k, k_shared_get(k, shared, k->local), k->s.f32));
  }
  kernel_grid(k, 1, &(amount){1, 1, &m->groups});
}

static sn_status launch_many(emitter *e) {
  static const sn_dim one = 1;
  for (int i = 0; i < MANY_LAUNCHES; i++) {
    kernel *k = i ? emit_open(e, THREADS) : e->k;
    if (!k)
      return SN_ERR_NO_MEMORY;
    keep(k, k_to_f32(k, k->local));
    kernel_grid(k, 1, &(amount){1, 1, &one});
    SN_TRY(emit_launch(e, true));
  }
  return SN_OK;
}

static sn_status make(emitter *e, const part *p) {
  const measuring *m = e->env.hand;
  int64_t kind = p->u.core.ints[0];
  int threads = kind == MATRIX ? SUBGROUPS * m->target.subgroup : THREADS;
  if (kind == MATRIX && m->work[MATRIX] <= 0)
    return SN_OK;
  if (!emit_open(e, threads))
    return SN_ERR_NO_MEMORY;
  if (kind == LAUNCHES)
    return launch_many(e);
  (kind == COPY ? copy : kind == MULTIPLY ? multiply : multiply_matrices)(e, m);
  return emit_launch(e, false);
}

/* --- the program --- */

static void build(measuring *m, gpu *g) {
  bool slow = gpu_is_software(g->info);
  int64_t bytes = min_i64(slow ? 4 << 20 : 256 << 20, gpu_available(g) / 8);
  int64_t piece = (int64_t)THREADS * EACH * 16; /* bytes of a workgroup */
  m->copied = (sn_dim)(max_i64(bytes, piece) / piece);
  m->groups = (sn_dim)m->target.units * (slow ? 1 : GROUPS_A_UNIT);
  m->times = slow ? 16 : 1024;
  bytes = m->copied * piece;
  double rounds = (double)m->groups * m->times;
  const int *n = m->target.matrix;
  bool matrices =
      (m->target.f16 || m->target.bf16) && 4 * matrix_words(n) <= m->target.shared_bytes;
  m->work[COPY] = 2 * (double)bytes;
  m->work[MULTIPLY] = 2.0 * THREADS * CHAINS * DEEP * rounds;
  m->work[MATRIX] = matrices ? 2.0 * n[0] * n[1] * n[2] * SUMS * SUBGROUPS * rounds : 0;
  m->work[LAUNCHES] = MANY_LAUNCHES;
  for (uint32_t v = FROM; v <= TO; v++)
    m->values[v] = (program_value){.type = {SN_F32, {1, {(sn_dim)(bytes / 4)}}},
                                   .count = (sn_dim)(bytes / 4),
                                   .bytes = bytes,
                                   .home = HOME_ARENA,
                                   .offset = v == FROM ? 0 : bytes};
  for (int i = 0; i < KINDS; i++) {
    m->parts[i].u.core.ints[0] = i;
    m->steps[i] = (step){.kind = STEP_POINTWISE,
                         .barrier = true,
                         .n_parts = 1,
                         .parts = &m->parts[i],
                         .name = "measuring"};
  }
  m->program = (program){.values = m->values,
                         .n_values = VALUES,
                         .steps = m->steps,
                         .n_main = KINDS,
                         .arena_bytes = 2 * bytes};
}

/* --- measuring --- */

static void take_span(void *user, const device_span *span) {
  measuring *m = user;
  double s = span->end_s - span->begin_s, *least = &m->least_s[span->step];
  *least = s > 0 && (*least <= 0 || s < *least) ? s : *least;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Long enough for the GPU's clock to have come up. */
static sn_status run_often(const device *d, device_plan *dp, measuring *m) {
  const double enough_s = 0.25;
  const device_run run = {.span = take_span, .span_user = m};
  double begin = seconds();
  do
    SN_TRY(d->run(dp, &run));
  while (seconds() - begin < enough_s);
  return SN_OK;
}

static double rate(const measuring *m, int kind) {
  return m->least_s[kind] > 0 ? m->work[kind] / m->least_s[kind] : 0;
}

static sn_status measure(const device *d, sn_ctx *ctx, gpu *g, measuring *m) {
  device_plan *dp;
  m->target = g->target;
  if (g->limits.timestamp_ns <= 0)
    return diag_fail(ctx, SN_ERR_UNSUPPORTED, "%s: the driver has no timestamps", d->name);
  vulkan_prove_matrices(d, g, &m->target);
  vulkan_prove_chain(d, g, &m->target);
  build(m, g);
  const hand_made hand = {.make = make, .of = m, .chains = m->target.chains};
  SN_TRY(vulkan_lower(d, ctx, &m->program, &(device_options){0}, &hand, &dp));
  sn_status status = run_often(d, dp, m);
  d->destroy(dp);
  return status;
}

sn_status vulkan_measure(const device *d, sn_ctx *ctx, sn_device_peaks *out) {
  gpu *g;
  *out = (sn_device_peaks){0};
  SN_TRY(gpu_get(ctx, vulkan_index(d), &g));
  measuring *m = mem_alloc(ctx, sizeof *m);
  sn_status status = m ? measure(d, ctx, g, m) : SN_ERR_NO_MEMORY;
  if (status == SN_OK)
    *out = (sn_device_peaks){.bytes = rate(m, COPY),
                             .flops = rate(m, MULTIPLY),
                             .matrix_flops = rate(m, MATRIX),
                             .launch_s = m->least_s[LAUNCHES] / MANY_LAUNCHES};
  mem_free(ctx, m, sizeof *m);
  gpu_put(g);
  return status;
}
