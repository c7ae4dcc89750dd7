/* Results with few rows (or few columns): decoding one token, dot products. See emit_matmul.h.
 *
 * Nothing is gained from tiles, since the large operand is used once: it is read straight into registers, by
 * threads along k or along its points, whichever are neighbours in memory; threads that share points then add their
 * sums in shared memory. */
#include "device/vulkan/emit_matmul_few.h"
#include "device/vulkan/emit_rows.h"

enum {
  MOST_UNROLL = 8,
  LOADED = 80 /* elements that a thread has on their way, about */
};

/* The two operands of a product, the one of the few side first. `step` elements of k are next to each other for a
 * thread. */
typedef struct pair {
  operand o[2];
  operand_rows at[2];
  val flat[2][MATMUL_FEW]; /* points */
  int n[2];
  int step;
} pair;

/* Elements as they came, and whether there are such: 0: yes. Who asks right behind a load waits for it. */
typedef struct loaded {
  val x[MATMUL_FEW * 4], exists[MATMUL_FEW * 4];
} loaded;

static void settle(few *f, const pair *p, int i, loaded *at) {
  val zero = k_f32(f->m.e->k, 0);
  for (int j = 0; j < p->n[i] * p->step; j++)
    if (at->exists[j])
      at->x[j] = k_select(f->m.e->k, at->exists[j], at->x[j], zero);
}

static void open_operand(few *f, pair *p, int i) {
  kernel *k = f->m.e->k;
  operand *o = &p->o[i];
  bool points = i == 1 && o->width == 4 && !o->along_k && p->n[1] == 4;
  if (!points && !(p->step == 4 && o->along_k))
    o->width = 1;
  val first = f->m.begin[o->side];
  if (i == 1) {
    val skip = times(k, f->group, f->shape->many);
    first = k_add(k, first, skip);
  }
  for (int r = 0; r < p->n[i]; r++) {
    p->flat[i][r] = plus(k, first, r);
    if (o->plain && (r == 0 || !points))
      operand_row(&f->m, o, &p->at[i], r, p->flat[i][r]);
  }
}

static void open_pair(few *f, const matmul_product *product, pair *p) {
  int side = f->shape->side;
  vk_operand_read(f->m.e, f->m.part, product, side, &p->o[0]);
  vk_operand_read(f->m.e, f->m.part, product, !side, &p->o[1]);
  p->n[0] = f->shape->few;
  p->n[1] = f->shape->many;
  p->step = p->o[1].plain && p->o[1].along_k && p->o[1].width == 4 ? 4 : 1;
  for (int i = 0; i < 2; i++)
    open_operand(f, p, i);
}

/* --- rows that are computed here --- */

static void share_row(few *f, row *r, int of_few) {
  emitter *e = f->m.e;
  kernel *k = e->k;
  val axis[REGION_AXES], store = 0;
  memcpy(axis, e->axis, sizeof axis);
  val last = k_sub(k, f->m.size[0], k_index(k, 1));
  row_compute(e, r, k_min(k, plus(k, f->m.begin[0], of_few), last));
  for (int u = 0; u < r->shape.unroll; u++) {
    for (int i = 0; i < r->part->code.n; i++)
      store = r->part->code.code[i].op == REGION_STORE ? e->regs[u][i] : store;
    val at = plus(k, r->point[u].flat, of_few * f->points);
    k_if exists = {0};
    if (r->point[u].exists)
      exists = k_if_begin(k, r->point[u].exists);
    k_shared_set(k, f->rows, at, store);
    if (r->point[u].exists)
      k_if_end(k, &exists);
  }
  memcpy(e->axis, axis, sizeof axis);
}

/* Once, before the first use of an operand on the few side. */
static void compute_rows(few *f) {
  emitter *e = f->m.e;
  const loop_part *p = e->absorbed;
  if (!p || f->rows)
    return;
  row *r = mem_alloc(e->env.ctx, sizeof *r);
  f->points = sizes_most(&e->env, p->n_axes - p->n_outer, p->extent + p->n_outer);
  f->rows = k_shared(e->k, e->k->s.f32, f->shape->few * (int)f->points);
  if (!r) {
    e->k->s.failed = true;
    return;
  }
  *r = (row){.part = p, .quiet = true, .pieces = 1};
  r->threads = emit_row_threads(e, e->k->threads, false);
  for (int i = 0; i < p->code.n; i++)
    r->threads.own += f->shape->few * (p->code.code[i].op == REGION_REDUCE);
  r->shape = row_shape_of(e, p, e->k->threads, false);
  for (int i = 0; i < f->shape->few; i++)
    share_row(f, r, i);
  k_barrier_shared(e->k);
  mem_free(e->env.ctx, r, sizeof *r);
}

/* Elements of such rows at k …, [row][step]. */
static void take_rows(few *f, const pair *p, val at_k, val size, loaded *out) {
  kernel *k = f->m.e->k;
  val zero = k_f32(k, 0), last = k_sub(k, size, k_index(k, 1));
  for (int s = 0; s < p->step; s++) {
    val now = plus(k, at_k, s), there = k_min(k, now, last), inside = k_lt(k, now, size);
    for (int r = 0; r < p->n[0]; r++) {
      val x = k_shared_get(k, f->rows, plus(k, there, r * f->points));
      out->x[r * p->step + s] = k_select(k, inside, x, zero);
      out->exists[r * p->step + s] = 0;
    }
  }
}

/* All elements of one operand at k …, [point][step]. */
static void load_operand(few *f, const pair *p, int i, val at_k, val size, loaded *out) {
  kernel *k = f->m.e->k;
  const operand *o = &p->o[i];
  bool points = o->width == 4 && !o->along_k, vector = o->width == 4 && o->along_k;
  if (i == 0 && f->rows) {
    take_rows(f, p, at_k, size, out);
    return;
  }
  for (int s = 0; s < p->step; s += vector ? 4 : 1) {
    operand_k there = {0};
    val now = plus(k, at_k, s), x[4];
    if (o->plain)
      there = operand_at_k(&f->m, o, now, size);
    for (int r = 0; r < p->n[i]; r += points ? 4 : 1) {
      val exists = 0;
      if (o->plain)
        exists = operand_load_any(&f->m, o, &p->at[i], r, &there, x);
      else
        x[0] = operand_element(&f->m, o, p->flat[i][r], now, size);
      for (int j = 0; j < (points || vector ? 4 : 1); j++) {
        int to = points ? (r + j) * p->step + s : r * p->step + s + j;
        out->x[to] = x[j];
        out->exists[to] = exists;
      }
    }
  }
}

static void multiply(few *f, const pair *p, const val *a, const val *b, val *sums) {
  kernel *k = f->m.e->k;
  for (int r = 0; r < p->n[0]; r++)
    for (int c = 0; c < p->n[1]; c++) {
      val to = sums[r * p->n[1] + c], sum = k_get(k, to);
      for (int s = 0; s < p->step; s++)
        sum = k_fma(k, a[r * p->step + s], b[c * p->step + s], sum);
      k_set(k, to, sum);
    }
}

/* How many turns of a thread along k have their loads on the way at once: all of them, if that is not too much. What is
 * summed is memory's latency otherwise, turn by turn. */
static int choose_unroll(const few *f, const pair *p, int n) {
  const matmul_product *product = p->o[0].product;
  int each = p->step * (p->n[0] + n * p->n[1]),
      most = (int)max_i64(f->shape->along_k ? 2 : 4, LOADED / each);
  int64_t k = sizes_most(&f->m.e->env, product->n_k, product->k), apart = f->shape->lanes * p->step;
  if (f->m.way->splits > 1)
    return f->shape->along_k ? 2 : 4;
  return (int)max_i64(1, min_i64(min_i64(most, MOST_UNROLL), (k + apart - 1) / apart));
}

/* Whether `n` elements of k are all that there can be, and there always is one. */
static bool is_once(const few *f, const matmul_product *p, int64_t n) {
  int64_t lo, hi;
  for (int d = 0; d < p->n_k; d++) {
    dim_range(f->m.e->env.program->dims, p->k[d], &lo, &hi);
    if (lo < 1)
      return false;
  }
  return f->m.way->splits == 1 && sizes_most(&f->m.e->env, p->n_k, p->k) <= n;
}

/* Whether the operands of the other side are weights, which may be on their way before other launches have ended. */
static bool reads_what_stays(const few *f, const pair *p, int n) {
  for (int i = 0; i < n; i++)
    for (int c = 0; c < p[i].o[1].code->n; c++) {
      const instr *in = &p[i].o[1].code->code[c];
      if (in->op == REGION_LOAD && !value_stays(&f->m.e->env, in->at.value))
        return false;
    }
  return true;
}

/* Products along the same k whose operands on the few side are the same, the accumulators' from `first` on. */
static void sum_products(few *f, int first, int n, int product) {
  kernel *k = f->m.e->k;
  const matmul_acc *accs = f->m.part->accs + first;
  const matmul_product *one = &accs[0].products[product];
  pair p[EMIT_ACCS] = {0};
  val from, to, size = k_sizes(k, one->n_k, one->k);
  for (int i = 0; i < n; i++)
    open_pair(f, &accs[i].products[product], &p[i]);
  int apart = f->shape->lanes * p->step, unroll = choose_unroll(f, p, n);
  matmul_range(&f->m, one, f->shape->lanes * 16, &from, &to);
  val mine = k_add(k, from, times(k, f->lane, p->step));
  bool once = is_once(f, one, (int64_t)apart * unroll);
  k_loop l = {.i = mine};
  if (!once || !reads_what_stays(f, p, n))
    k_wait(k);
  if (!once)
    compute_rows(f);
  if (!once)
    l = k_loop_begin(k, mine, to, k_index(k, (int64_t)apart * unroll));
  loaded a[MOST_UNROLL], b[MOST_UNROLL][EMIT_ACCS];
  for (int u = 0; u < unroll; u++)
    for (int i = 0; i < n; i++)
      load_operand(f, &p[i], 1, plus(k, l.i, (int64_t)u * apart), size, &b[u][i]);
  k_wait(k); /* while those are on their way */
  if (once)
    compute_rows(f);
  for (int u = 0; u < unroll; u++)
    load_operand(f, p, 0, plus(k, l.i, (int64_t)u * apart), size, &a[u]);
  for (int u = 0; u < unroll; u++) {
    settle(f, p, 0, &a[u]);
    for (int i = 0; i < n; i++) {
      settle(f, &p[i], 1, &b[u][i]);
      multiply(f, p, a[u].x, b[u][i].x, f->sum[first + i]);
    }
  }
  if (!once)
    k_loop_end(k, &l);
}

/* Whether all accumulators are sums along the same k of the same operand on the few side. */
static bool go_together(const few *f) {
  const matmul_part *p = f->m.part;
  int width = 0;
  for (int a = 0; a < p->n_accs; a++) {
    const matmul_product *one = &p->accs[a].products[0], *other = &p->accs[0].products[0];
    const region *x = f->shape->side ? &one->b : &one->a,
                 *y = f->shape->side ? &other->b : &other->a;
    operand o;
    if (p->accs[a].n_products != 1 || !accs_share(&p->accs[a], &p->accs[0]) || !region_same(x, y))
      return false;
    vk_operand_read(f->m.e, p, one, !f->shape->side, &o);
    int now = o.plain && o.along_k ? o.width : 1;
    if (width && now != width)
      return false;
    width = now;
  }
  return p->n_accs > 1 && f->shape->few * f->shape->many * p->n_accs <= MOST_SHUFFLED;
}

static void sum_all(few *f) {
  const matmul_part *p = f->m.part;
  for (int a = 0; a < p->n_accs; a++)
    for (int i = 0; i < f->shape->few * f->shape->many; i++)
      f->sum[a][i] = k_var(f->m.e->k, k_f32(f->m.e->k, 0));
  if (go_together(f)) {
    sum_products(f, 0, p->n_accs, 0);
    return;
  }
  for (int a = 0; a < p->n_accs; a++)
    for (int i = 0; i < p->accs[a].n_products; i++)
      sum_products(f, a, 1, i);
}

static void emit_body(few *f) {
  kernel *k = f->m.e->k;
  const few_shape *s = f->shape;
  int each[2];
  f->groups = s->threads / s->lanes;
  each[s->side] = s->few;
  each[!s->side] = f->groups * s->many;
  vk_matmul_open(&f->m, each);
  int inner = s->along_k ? s->lanes : f->groups;
  val low = low_part(k, k->local, inner), high = high_part(k, k->local, inner);
  f->lane = s->along_k ? low : high;
  f->group = s->along_k ? high : low;
  sum_all(f);
  k_wait(k); /* where there are no products */
  few_results(f);
}

sn_status emit_few(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                   const amount *of, int64_t least, int64_t most) {
  few f = {.m = {.e = e, .part = p, .way = way, .scratch = scratch}, .shape = &way->few};
  if (!emit_open_early(e, way->few.threads))
    return SN_ERR_NO_MEMORY;
  emit_body(&f);
  return emit_launch_when(e, false, of, least, most);
}
