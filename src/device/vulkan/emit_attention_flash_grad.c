/* ATTENTION_GRAD of many rows: one kernel has queries as rows and keys as columns, and makes dq; another has it the other way round, and
 * makes dk and dv. What is known of queries (lse, d_lse - d_out·out, keys that they see) is made where operands are packed. See
 * emit_attention_flash.h and emit_attention_grad.h. */
#include "device/vulkan/emit_attention_flash_grad.h"
#include "device/vulkan/emit_matmul.h"

#include <math.h>

typedef struct flash_grad {
  flash f;
  const flash_packed *p;
  bool keys; /* rows are keys */
  grad_cut cut;
  int64_t bytes[2];     /* of scratch, where it is cut */
  const strided *to[2]; /* dq; or dk, dv. NULL: not wanted */
  const flash_operand *own[2], *other[2], *spread[2];
  val b, kv, part, first; /* first: row of the subgroup */
  val block, rows;        /* the first row of the workgroup; rows of the list */
  val from, to_column;    /* columns that the workgroup passes over */
  val mine[2][FLASH_MATRICES][2], facts_at;
  flash_course course;
  val sum[2][FLASH_MATRICES]; /* variables: matrices */
  val base[2], common[2];     /* of the thread's rows, where they are queries */
  query q[2];
  int products; /* stages of them */
  val words;    /* shared */
} flash_grad;

static val load_facts(flash_grad *w, val at, int number) {
  kernel *k = w->f.e->k;
  return k_load(k, spirv_vector(&k->s, k->s.f32, 4), at, k_index(k, number));
}

/* --- where --- */

static void find_block(flash_grad *w) {
  emitter *e = w->f.e;
  kernel *k = e->k;
  const attending *a = w->f.a;
  amount heads = amount_of(&a->hk), parts = grad_parts(&w->cut);
  amount blocks = {w->keys ? 1 : 2, FLASH_ROWS, w->keys ? &a->skv : a->rows};
  val number, rest = grad_range(k, &w->cut, k->group, &w->part, &w->from, &w->to_column);
  rest = k_divide(k, rest, &blocks, &number);
  w->b = k_divide(k, rest, &heads, &w->kv);
  w->block = k_mul(k, number, k_index(k, FLASH_ROWS));
  w->first = k_add(k, w->block, k_shl(k, w->f.number, 4));
  w->rows = w->keys ? k_size(k, a->skv) : k_sizes(k, 2, a->rows);
  if (!w->keys) {
    val low, high, end = k_min(k, k_add(k, w->block, k_index(k, FLASH_ROWS)), w->rows);
    queries_see(e, a, w->b, w->block, plus(k, end, -1), &low, &high);
    w->from = k_max(k, k_and(k, low, k_index(k, -FLASH_STEP)), w->from);
    w->to_column = k_min(k, high, w->to_column);
  }
  kernel_grid(k, 3, (amount[]){{2, 1, (sn_dim[]){a->b, a->hk}}, blocks, parts});
}

/* Lists: the others, then what is spread. */
static void open_course(flash_grad *w) {
  flash_course *c = &w->course;
  int most = 0;
  c->n_lists = 4;
  for (int i = 0; i < 4; i++) {
    c->o[i] = i < 2 ? w->other[i] : w->spread[i - 2];
    c->at[i] = flash_address(&w->f, c->o[i], w->b, w->kv);
    most = i < 2 && c->o[i]->n > most ? c->o[i]->n : most;
  }
  for (int n = 0; n < most; n++) {
    struct flash_source of[2];
    int all = 0;
    for (int i = 0; i < (w->to[0] ? 2 : 1); i++)
      if (n < c->o[i]->n)
        of[all++] = (struct flash_source){i, 0, n};
    flash_add_stage(c, all, of);
  }
  w->products = c->n;
  for (int i = 1; i >= 0; i--)
    for (int n = 0; w->to[i] && n < w->spread[i]->n; n += 2)
      flash_add_stage(c, 2, (struct flash_source[]){{2 + i, 0, n}, {2 + i, 0, n + 1}});
}

static void open_operands(flash_grad *w) {
  const flash *f = &w->f;
  kernel *k = f->e->k;
  for (int i = 0; i < 2; i++) {
    val address = flash_address(f, w->own[i], w->b, w->kv);
    val tile = flash_tile(f, w->own[i], address, w->first);
    for (int n = 0; n < w->own[i]->n; n++)
      flash_matrix(f, MATRIX_A, w->own[i], tile, n, w->mine[i][n]);
    for (int n = 0; w->to[i] && n < w->spread[i]->n; n++)
      w->sum[i][n] = k_var(k, k_matrix_of(k, f->type[MATRIX_SUM], 0));
  }
  val start = flash_list_start(f, true, w->b, w->kv), facts = k_scratch(k, w->p->facts);
  if (w->keys) {
    val mine = k_add(k, start, k_shl(k, f->t, 1));
    w->facts_at = flash_behind(f, facts, mine, flash_facts_power(w->p));
    return;
  }
  for (int r = 0; r < 2; r++) {
    val row = k_add(k, w->first, plus(k, f->g, 8 * r));
    val at = flash_behind(f, facts, k_add(k, start, row), flash_facts_power(w->p));
    w->base[r] = k_load(k, k->s.f32, at, k_index(k, 0));
    w->common[r] = k_load(k, k->s.f32, at, k_index(k, 1));
    if (f->a->causal) {
      w->q[r] = query_at(f->e, f->a, w->b, w->kv, row);
      w->q[r].high = k_min(k, w->q[r].high, w->to_column);
    }
  }
}

/* --- weights --- */

/* Products of own rows and the others: q·k and d_out·v. */
static void find_products(flash_grad *w, val out[2][MATRIX_ELEMENTS]) {
  const flash *f = &w->f;
  kernel *k = f->e->k;
  val sum[2], loaded[2][2];
  for (int i = 0; i < 2; i++)
    sum[i] = k_matrix_of(k, f->type[MATRIX_SUM], 0);
  for (int s = 0; s < w->products; s++) {
    const struct flash_stage *stage = &w->course.stages[s];
    int first = stage->of[0].list;
    flash_course_use(f, &w->course, s, loaded);
    const val *a[2] = {w->mine[first][s], w->mine[1][s]}, *b[2] = {loaded[0], loaded[1]};
    flash_multiply(f, stage->n, a, b, sum + first);
  }
  for (int i = 0; i < 2; i++)
    k_matrix_sums(k, sum[i], out[i]);
}

static val bounded(flash_grad *w, val low, val high, val key, val x) {
  kernel *k = w->f.e->k;
  val seen = k_lt(k, key, high);
  if (w->f.a->window > 0)
    seen = k_and(k, seen, k_le(k, low, key));
  return k_select(k, seen, x, k_f32(k, -INFINITY));
}

/* Scores less their base, and what is added to products of d_out and v. */
static void query_columns(flash_grad *w, val first, val x[MATRIX_ELEMENTS],
                          val common[MATRIX_ELEMENTS]) {
  const flash *f = &w->f;
  kernel *k = f->e->k;
  val at = flash_behind(f, w->facts_at, first, flash_facts_power(w->p));
  val unit = k_f32(k, f->a->scale * CREW_LOG2E), fact[4][4];
  for (int i = 0; i < 4; i++) {
    int column = (i & 1) + (i & 2) * 4;
    val all = load_facts(w, at, w->p->ranges ? column : column / 2);
    for (int n = 0; n < (w->p->ranges ? 4 : 2); n++)
      fact[i][n] = k_part(k, all, w->p->ranges ? n : 2 * (i & 1) + n);
  }
  for (int i = 0; i < MATRIX_ELEMENTS; i++) {
    const val *q = fact[i % 4];
    val key = k_add(k, w->first, plus(k, f->g, 8 * (i / 4)));
    x[i] = k_fma(k, x[i], unit, k_neg(k, q[0]));
    common[i] = q[1];
    if (w->p->ranges) {
      val low = k_to_index(k, k_bits(k, q[2], k->s.u32));
      val high = k_to_index(k, k_bits(k, q[3], k->s.u32));
      x[i] = bounded(w, low, high, key, x[i]);
    }
  }
}

static void query_rows(flash_grad *w, val first, val x[MATRIX_ELEMENTS],
                       val common[MATRIX_ELEMENTS]) {
  kernel *k = w->f.e->k;
  val unit = k_f32(k, w->f.a->scale * CREW_LOG2E), held[MATRIX_ELEMENTS];
  val mine = k_add(k, first, flash_column(&w->f, 0));
  bool always = w->f.a->causal;
  k_if last = {0};
  for (int i = 0; i < MATRIX_ELEMENTS; i++) {
    x[i] = k_fma(k, x[i], unit, k_neg(k, w->base[i / 4]));
    common[i] = w->common[i / 4];
    held[i] = always ? 0 : k_var(k, x[i]);
  }
  if (!always)
    last = k_if_begin(k, k_lt(k, w->to_column, plus(k, first, FLASH_SIDE)));
  for (int i = 0; i < MATRIX_ELEMENTS; i++) {
    const query *q = &w->q[i / 4];
    val high = always ? q->high : w->to_column;
    x[i] = bounded(w, q->low, high, plus(k, mine, (i & 1) + (i & 2) * 4), x[i]);
    if (!always)
      k_set(k, held[i], x[i]);
  }
  if (!always)
    k_if_end(k, &last);
  for (int i = 0; i < MATRIX_ELEMENTS && !always; i++)
    x[i] = k_get(k, held[i]);
}

/* --- columns --- */

/* Weights times what is spread. */
static void add_weighted(flash_grad *w, val weights[2][2]) {
  const flash *f = &w->f;
  kernel *k = f->e->k;
  val sum[2], loaded[2][2];
  for (int s = w->products; s < w->course.n; s++) {
    const struct flash_source *of = w->course.stages[s].of;
    int which = of->list - 2;
    flash_course_use(f, &w->course, s, loaded);
    for (int i = 0; i < 2; i++)
      sum[i] = k_get(k, w->sum[which][of->number + i]);
    const val *a[2] = {weights[which], weights[which]}, *b[2] = {loaded[0], loaded[1]};
    flash_multiply(f, 2, a, b, sum);
    for (int i = 0; i < 2; i++)
      k_set(k, w->sum[which][of->number + i], sum[i]);
  }
}

/* The next step, or this one where it is the last. */
static val step_behind(flash_grad *w, val first) {
  kernel *k = w->f.e->k;
  val last = k_and(k, plus(k, w->to_column, -1), k_index(k, -FLASH_SIDE));
  return k_min(k, plus(k, first, FLASH_SIDE), last);
}

/* The scale of ds comes at the end. */
static void use_step(flash_grad *w, val first) {
  kernel *k = w->f.e->k;
  val x[2][MATRIX_ELEMENTS], common[MATRIX_ELEMENTS], weights[2][2];
  flash_course_begin(&w->f, &w->course, first, step_behind(w, first));
  find_products(w, x);
  (w->keys ? query_columns : query_rows)(w, first, x[0], common);
  for (int i = 0; i < MATRIX_ELEMENTS; i++) {
    x[0][i] = crew_exp2(k, x[0][i]);
    x[1][i] = k_mul(k, x[0][i], k_add(k, x[1][i], common[i]));
  }
  if (w->to[0])
    flash_weights(&w->f, x[1], weights[0]);
  if (w->to[1])
    flash_weights(&w->f, x[0], weights[1]);
  add_weighted(w, weights);
  flash_course_end(&w->f, &w->course);
}

/* Whether a query of the step sees any of the block's keys (bool, the same for the workgroup). */
static val step_counts(flash_grad *w, val first) {
  kernel *k = w->f.e->k;
  val low, high, end = k_min(k, plus(k, first, FLASH_SIDE), w->to_column);
  queries_see(w->f.e, w->f.a, w->b, first, plus(k, end, -1), &low, &high);
  return k_and(k, k_lt(k, w->block, high), k_lt(k, low, plus(k, w->block, FLASH_ROWS)));
}

static void pass_columns(flash_grad *w) {
  kernel *k = w->f.e->k;
  bool skips = w->keys && w->f.a->causal;
  k_if seen = {0};
  flash_course_open(&w->f, &w->course, w->from, k_lt(k, w->from, w->to_column));
  k_loop l = k_loop_rolled(k, w->from, w->to_column, k_index(k, FLASH_SIDE));
  if (skips)
    seen = k_if_begin(k, step_counts(w, l.i));
  use_step(w, l.i);
  if (skips) {
    k_if_else(k, &seen);
    flash_course_skip(&w->f, &w->course, step_behind(w, l.i));
    k_if_end(k, &seen);
  }
  k_loop_end(k, &l);
}

/* --- results --- */

static void put_rows(flash_grad *w, int which, val (*x)[MATRIX_ELEMENTS]) {
  const flash *f = &w->f;
  kernel *k = f->e->k;
  for (int r = 0; r < 2; r++) {
    val number = k_add(k, w->first, plus(k, f->g, 8 * r)), at[3], four[4];
    k_if there = k_if_begin(k, k_lt(k, number, w->rows));
    grad_result_at(w->f.e, w->f.a, w->keys, w->b, w->kv, number, at);
    for (int j = 0; j < w->spread[which]->n; j++) {
      val column = plus(k, k_shl(k, f->t, 3), (j / 2 * 2 * FLASH_SIDE) + j % 2 * 4);
      flash_neighbours(x + (j & ~1), r, j & 1, four);
      grad_put_four(f->e, &w->cut, w->to[which], w->bytes[which], w->part, at, column, four);
    }
    k_if_end(k, &there);
  }
}

static void put_plainly(flash_grad *w, int which) {
  emitter *e = w->f.e;
  kernel *k = e->k;
  crew c = {.e = e};
  const strided *to = w->to[which];
  plain_elements x = plain_each(&c, FLASH_ROWS, flash_columns(w->spread[which]));
  val row = k_add(k, w->block, x.row), inside = k_lt(k, row, w->rows), at[4];
  k_if there = k_if_begin(k, k_and(k, inside, k_lt(k, x.column, k_size(k, to->dim[3]))));
  const val place[4] = {w->b, w->kv, row, x.column};
  val sum = grad_plain_sum(e, w->p->g, w->keys ? DK + which : DQ, place, w->from, w->to_column);
  grad_result_at(w->f.e, w->f.a, w->keys, w->b, w->kv, row, at);
  at[3] = x.column;
  grad_put(e, &w->cut, to, w->bytes[which], w->part, at, sum);
  k_if_end(k, &there);
  k_loop_end(k, &x.l);
}

static void put_results(flash_grad *w) {
  kernel *k = w->f.e->k;
  val x[2][FLASH_MATRICES][MATRIX_ELEMENTS], all = k_f32(k, 0), scale = k_f32(k, w->f.a->scale);
  for (int i = 0; i < 2; i++)
    for (int j = 0; w->to[i] && j < w->spread[i]->n; j++) {
      k_matrix_sums(k, k_get(k, w->sum[i][j]), x[i][j]);
      for (int n = 0; n < MATRIX_ELEMENTS; n++) {
        x[i][j][n] = i ? x[i][j][n] : k_mul(k, x[i][j][n], scale);
        all = k_add(k, all, x[i][j][n]);
      }
    }
  k_if again = k_if_begin(k, flash_any_odd(&w->f, w->words, all));
  for (int i = 0; i < 2; i++)
    if (w->to[i])
      put_plainly(w, i);
  k_if_else(k, &again);
  for (int i = 0; i < 2; i++)
    if (w->to[i])
      put_rows(w, i, x[i]);
  k_if_end(k, &again);
}

/* --- launches --- */

/* Parts of what is passed over, where there are too few blocks. */
static grad_cut cut_of(const emitter *e, const attending *a, bool keys, amount over) {
  enum { EACH = 2 /* workgroups a unit */, LEAST = 128 };
  const sn_dim heads[2] = {a->b, a->hk};
  int64_t rows = keys ? size_most(&e->env, a->skv) : sizes_most(&e->env, 2, a->rows);
  int64_t groups =
      max_i64(1, sizes_most(&e->env, 2, heads) * ((rows + FLASH_ROWS - 1) / FLASH_ROWS));
  int64_t all = sizes_most(&e->env, over.n, over.dims), units = e->env.target->units;
  int64_t parts = min_i64((EACH * units + groups - 1) / groups, all / LEAST);
  if (parts < 2)
    return (grad_cut){over, 0};
  int64_t each = (all + parts * FLASH_STEP - 1) / (parts * FLASH_STEP) * FLASH_STEP;
  return (grad_cut){over, (int)each};
}

static void choose(flash_grad *w, const flash_packed *p, bool keys) {
  const strided *to = p->g->to;
  const flash_operand *q = p->o, *k = p->o + QUERY_OPERANDS;
  *w = (flash_grad){.f = w->f, .p = p, .keys = keys};
  for (int i = 0; i < 2; i++) {
    w->own[i] = keys ? &k[i] : &q[i];
    w->other[i] = keys ? &q[i] : &k[i];
    w->spread[i] = keys ? &q[2 + i] : &k[2];
  }
  w->to[0] = &to[keys ? DK : DQ];
  w->to[1] = keys ? &to[DV] : NULL;
  for (int i = 0; i < 2; i++)
    w->to[i] = w->to[i] && w->to[i]->value ? w->to[i] : NULL;
}

sn_status flash_grad_side(emitter *e, const flash_packed *p, bool keys, bool after,
                          grad_rest *rest) {
  const attending *a = &p->g->a;
  flash_grad *w = mem_alloc(e->env.ctx, sizeof *w);
  if (!w)
    return SN_ERR_NO_MEMORY;
  choose(w, p, keys);
  w->cut = cut_of(e, a, keys, keys ? (amount){2, 1, a->rows} : amount_of(&a->skv));
  for (int i = 0; i < 2; i++)
    w->bytes[i] = w->to[i] ? grad_take_parts(e, &w->cut, w->to[i]) : 0;
  kernel *k = emit_open(e, FLASH_TEAM * e->env.target->subgroup);
  if (k) {
    flash_open(&w->f, e, a);
    w->words = k_shared(k, k->s.u32, FLASH_TEAM);
    find_block(w);
    open_operands(w);
    open_course(w);
    pass_columns(w);
    put_results(w);
  }
  for (int i = 0; i < 2; i++)
    if (w->to[i])
      grad_add_later(rest, &w->cut, w->to[i], w->bytes[i]);
  mem_free(e->env.ctx, w, sizeof *w);
  return k ? emit_launch(e, after) : SN_ERR_NO_MEMORY;
}
