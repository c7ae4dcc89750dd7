/* See emit_attention_flash.h. */
#include "device/vulkan/emit_attention_flash.h"
#include "device/vulkan/emit_matmul.h"

enum { NOT_FINITE = 0x7f800000, VECTOR_BITS = 4, LANES = 32 };

bool flash_fits(const emitter *e, const attending *a) {
  enum { WIDEST = 128 };
  const gpu_target *t = e->env.target;
  int64_t d = size_most(&e->env, a->d), dv = size_most(&e->env, a->dv);
  return t->bf16_places && t->bf16 && t->keeps_nan && t->subgroup == LANES &&
         t->matrix[0] == FLASH_SIDE && t->matrix[1] == FLASH_SIDE && t->matrix[2] == FLASH_SIDE &&
         t->max_threads >= FLASH_TEAM * LANES && e->env.precision != SN_PRECISION_EXACT && d > 0 &&
         dv > 0 && d <= WIDEST && dv <= WIDEST && crew_is_simple(a);
}

void flash_open(flash *f, emitter *e, const attending *a) {
  kernel *k = e->k;
  *f = (flash){.e = e, .a = a, .halves = e->env.precision == SN_PRECISION_FAST ? 2 : 1};
  k_use_matrices(k, e->env.target->matrix, SN_BF16, f->type);
  f->number = k_subgroup_number(k);
  f->lane = k_subgroup_lane(k);
  f->t = low_part(k, f->lane, 4);
  f->g = high_part(k, f->lane, 4);
}

val flash_column(const flash *f, int i) {
  kernel *k = f->e->k;
  return plus(k, k_shl(k, f->t, 1), (i & 1) + (i >> 1) * 8);
}

/* --- where operands are --- */

static amount steps_of(const attending *a, bool queries) {
  return (amount){queries ? 2 : 1, FLASH_STEP, queries ? a->rows : &a->skv};
}

static int halves_of(const emitter *e) { return e->env.precision == SN_PRECISION_FAST ? 2 : 1; }
/* A row has as many bytes as its tile has vectors. */
static int row_bytes(const flash_operand *o, int halves) { return o->n * halves * LANES; }
static int tile_vectors(const flash_operand *o, int halves) { return o->n * halves * LANES; }

flash_operand flash_operand_of(emitter *e, const attending *a, const strided *of, bool queries,
                               bool across) {
  enum { NARROW = 64 };
  flash_operand o = {.of = of, .width = of->dim[3], .queries = queries, .across = across};
  o.n = (size_most(&e->env, o.width) <= NARROW ? NARROW : 2 * NARROW) / FLASH_SIDE;
  const sn_dim heads[2] = {a->b, a->hk};
  int64_t rows = queries ? sizes_most(&e->env, 2, a->rows) : size_most(&e->env, a->skv);
  int64_t padded = (rows + FLASH_STEP - 1) / FLASH_STEP * FLASH_STEP;
  o.byte =
      scratch_take(&e->env, sizes_most(&e->env, 2, heads) * padded * row_bytes(&o, halves_of(e)));
  return o;
}

val flash_list_start(const flash *f, bool queries, val b, val kv) {
  kernel *k = f->e->k;
  amount steps = steps_of(f->a, queries);
  val head = k_add(k, k_mul(k, b, k_size(k, f->a->hk)), kv);
  return k_mul(k, k_mul(k, head, k_amount(k, &steps)), k_index(k, FLASH_STEP));
}

val flash_behind(const flash *f, val address, val x, int power) {
  kernel *k = f->e->k;
  if (!f->e->env.wide)
    x = spirv_op(&k->s, SPV_SConvert, k->s.i64, SPV_ARGS(x));
  return k_add(k, address, k_bits(k, k_shl(k, x, power), k->s.u64));
}

val flash_tile(const flash *f, const flash_operand *o, val address, val first) {
  return flash_behind(f, address, first, __builtin_ctz((unsigned)row_bytes(o, f->halves)));
}

val flash_address(const flash *f, const flash_operand *o, val b, val kv) {
  kernel *k = f->e->k;
  val all = flash_behind(f, k_scratch(k, o->byte), f->lane, VECTOR_BITS);
  return flash_tile(f, o, all, flash_list_start(f, o->queries, b, kv));
}

static spirv_id words_type(kernel *k) { return spirv_vector(&k->s, k->s.u32, 4); }
static val vector_at(const flash *f, const flash_operand *o, int further, int number, int half) {
  int tile = further * tile_vectors(o, f->halves);
  return k_index(f->e->k, tile + (number * f->halves + half) * LANES);
}

static val load_words(const flash *f, const flash_operand *o, val tile, int further, int number,
                      int half) {
  kernel *k = f->e->k;
  return k_load(k, words_type(k), tile, vector_at(f, o, further, number, half));
}

static val made(const flash *f, int use, val words) {
  kernel *k = f->e->k;
  val word[4];
  for (int i = 0; i < 4; i++)
    word[i] = k_part(k, words, i);
  return k_matrix_make(k, f->type[use], word);
}

void flash_matrix(const flash *f, int use, const flash_operand *o, val tile, int number,
                  val out[2]) {
  out[1] = 0;
  for (int h = 0; h < f->halves; h++)
    out[h] = made(f, use, load_words(f, o, tile, 0, number, h));
}

/* --- the course of a step --- */

void flash_add_stage(flash_course *c, int n, const struct flash_source *of) {
  struct flash_stage *s = &c->stages[c->n++];
  s->n = n;
  for (int i = 0; i < n; i++)
    s->of[i] = of[i];
}

static void fetch(const flash *f, flash_course *c, int number, const val *tile, val out[2][2]) {
  const struct flash_stage *s = &c->stages[number];
  for (int i = 0; i < s->n * f->halves; i++) {
    const struct flash_source *x = &s->of[i / f->halves];
    int h = i % f->halves;
    out[i / f->halves][h] = load_words(f, c->o[x->list], tile[x->list], x->further, x->number, h);
  }
}

static void find_tiles(const flash *f, flash_course *c, int which, val first) {
  for (int i = 0; i < c->n_lists; i++)
    c->tile[which][i] = flash_tile(f, c->o[i], c->at[i], first);
}

/* The words that go from step to step. */
static void each_held(const flash *f, flash_course *c, bool get) {
  kernel *k = f->e->k;
  for (int s = 0; s < FLASH_AHEAD; s++)
    for (int i = 0; i < c->stages[s].n * f->halves; i++) {
      val variable = c->held[s][i / f->halves][i % f->halves];
      val *now = &c->words[s][i / f->halves][i % f->halves];
      if (get)
        *now = k_get(k, variable);
      else
        k_set(k, variable, c->words[c->n + s][i / f->halves][i % f->halves]);
    }
}

void flash_course_skip(const flash *f, flash_course *c, val next) {
  find_tiles(f, c, 1, next);
  for (int s = 0; s < FLASH_AHEAD; s++)
    fetch(f, c, s, c->tile[1], c->words[c->n + s]);
  each_held(f, c, false);
}

void flash_course_open(const flash *f, flash_course *c, val first, val there) {
  kernel *k = f->e->k;
  val zero = k_u32(k, 0), none = k_vector(k, 4, (val[]){zero, zero, zero, zero});
  for (int i = 0; i < FLASH_AHEAD * 4; i++)
    c->held[i / 4][i / 2 % 2][i % 2] = k_var(k, none);
  k_if some = k_if_begin(k, there);
  flash_course_skip(f, c, first);
  k_if_end(k, &some);
}

void flash_course_begin(const flash *f, flash_course *c, val first, val next) {
  find_tiles(f, c, 0, first);
  find_tiles(f, c, 1, next);
  each_held(f, c, true);
}

void flash_course_use(const flash *f, flash_course *c, int number, val out[2][2]) {
  int later = number + FLASH_AHEAD;
  bool now = later < c->n;
  fetch(f, c, now ? later : later - c->n, c->tile[!now], c->words[later]);
  for (int i = 0; i < c->stages[number].n * f->halves; i++)
    out[i / f->halves][i % f->halves] =
        made(f, MATRIX_B, c->words[number][i / f->halves][i % f->halves]);
}

void flash_course_end(const flash *f, flash_course *c) { each_held(f, c, false); }

/* --- packing --- */

/* Words of halves of a thread's elements, and of what those leave. */
static void words_of(const flash *f, const val x[MATRIX_ELEMENTS], val out[2][4]) {
  for (int i = 0; i < 4; i++)
    k_two_bf16(f->e->k, x + 2 * i, &out[0][i], f->halves == 2 ? &out[1][i] : NULL);
}

static void put_matrix(const flash *f, const flash_operand *o, val tile, int number,
                       const val x[MATRIX_ELEMENTS]) {
  kernel *k = f->e->k;
  val words[2][4];
  words_of(f, x, words);
  for (int h = 0; h < f->halves; h++)
    k_store(k, tile, vector_at(f, o, 0, number, h), k_vector(k, 4, words[h]));
}

/* Two matrices of 32 columns across. */
static void pack_across(const flash *f, const row_list *l, const flash_operand *o, val tile,
                        int number) {
  kernel *k = f->e->k;
  val four[4], column = plus(k, k_shl(k, f->g, 2), FLASH_SIDE * number), x[MATRIX_ELEMENTS];
  for (int i = 0; i < 4; i++) {
    val row = k_add(k, l->first, flash_column(f, i));
    four[i] = tile_load_vector(f->e, f->a, l, row, column);
  }
  for (int m = 0; m < 2; m++) {
    for (int i = 0; i < MATRIX_ELEMENTS; i++)
      x[i] = k_part(k, four[i % 4], 2 * m + i / 4);
    put_matrix(f, o, tile, number + m, x);
  }
}

static void pack_along(const flash *f, const row_list *l, const flash_operand *o, val tile,
                       int number) {
  kernel *k = f->e->k;
  val column = plus(k, k_shl(k, f->t, 2), FLASH_SIDE * number), x[MATRIX_ELEMENTS];
  for (int r = 0; r < 2; r++) {
    val row = k_add(k, l->first, plus(k, f->g, 8 * r));
    val four = tile_load_vector(f->e, f->a, l, row, column);
    for (int i = 0; i < 4; i++)
      x[4 * r + i] = k_part(k, four, i);
  }
  put_matrix(f, o, tile, number, x);
}

static void pack_tile(const flash *f, const flash_operand *o, val b, val kv, val first) {
  kernel *k = f->e->k;
  row_list l = {.of = o->of, .width = o->width, .b = b, .head = kv, .packed = o->queries};
  l.first = first;
  l.low = k_index(k, 0);
  l.high = o->queries ? k_sizes(k, 2, f->a->rows) : k_size(k, f->a->skv);
  val tile = flash_tile(f, o, flash_address(f, o, b, kv), first);
  for (int i = 0; i < o->n; i += o->across ? 2 : 1)
    (o->across ? pack_across : pack_along)(f, &l, o, tile, i);
}

bool flash_same_lists(const attending *a) { return a->rows[0] == 1 && a->sq == a->skv; }

/* Workgroups: operands, entries and kv heads, steps of rows; a subgroup has a tile. */
sn_status flash_pack(emitter *e, const attending *a, int n, const flash_operand *o, flash_more more,
                     void *user) {
  kernel *k = emit_open(e, FLASH_TEAM * LANES);
  if (!k)
    return SN_ERR_NO_MEMORY;
  flash f;
  flash_open(&f, e, a);
  amount steps = steps_of(a, o->queries), heads = amount_of(&a->hk), entries = amount_of(&a->b);
  sn_dim all = n + (more != NULL);
  val number, kv, b, rest = k_divide(k, k->group, &steps, &number);
  rest = k_divide(k, rest, &heads, &kv);
  val which = k_divide(k, rest, &entries, &b);
  val first = k_add(k, k_mul(k, number, k_index(k, FLASH_STEP)), k_shl(k, f.number, 4));
  for (int i = 0; i < (int)all; i++) {
    k_if mine = k_if_begin(k, k_eq(k, which, k_index(k, i)));
    if (i < n)
      pack_tile(&f, &o[i], b, kv, first);
    else
      more(&f, user, b, kv, first);
    k_if_end(k, &mine);
  }
  kernel_grid(k, 3, (amount[]){{1, 1, &all}, {2, 1, (sn_dim[]){a->b, a->hk}}, steps});
  return SN_OK;
}

/* --- products --- */

void flash_weights(const flash *f, const val x[MATRIX_ELEMENTS], val out[2]) {
  val words[2][4];
  words_of(f, x, words);
  out[1] = 0;
  for (int h = 0; h < f->halves; h++)
    out[h] = k_matrix_make(f->e->k, f->type[MATRIX_A], words[h]);
}

void flash_multiply(const flash *f, int n, const val *const *a, const val *const *b, val *sum) {
  kernel *k = f->e->k;
  for (int product = f->halves == 2 ? 2 : 0; product >= 0; product--)
    for (int i = 0; i < n; i++)
      sum[i] = k_matrix_multiply_add(k, f->type[MATRIX_SUM], a[i][product == 1], b[i][product == 2],
                                     sum[i]);
}

/* --- ends --- */

val flash_any_odd(const flash *f, val words, val x) {
  kernel *k = f->e->k;
  val size = k_subgroup_max(k, k_bits(k, k_abs(k, x), k->s.u32)), most = 0;
  k_if one = k_if_begin(k, k_eq(k, f->lane, k_index(k, 0)));
  k_shared_set(k, words, f->number, size);
  k_if_end(k, &one);
  k_barrier_shared(k);
  for (int i = 0; i < FLASH_TEAM; i++) {
    val more = k_shared_get(k, words, k_index(k, i));
    most = most ? k_max(k, most, more) : more;
  }
  return k_le(k, k_u32(k, NOT_FINITE), most);
}

void flash_neighbours(val (*sum)[MATRIX_ELEMENTS], int r, int i, val out[4]) {
  for (int n = 0; n < 4; n++)
    out[n] = sum[n / 2][4 * r + i + 2 * (n & 1)];
}
