/* See emit_matmul_relay.h. */
#include "device/vulkan/emit_matmul_relay.h"

#include "device/vulkan/emit_matmul_packed.h"
#include "device/vulkan/emit_matmul_rewrite.h"
#include "device/vulkan/emit_pairs.h"

enum {
  COLUMNS = 64,     /* of a subgroup's tile */
  SLICES = 2,       /* of k of the first product */
  SPARE = 4096,     /* bytes of shared memory that stay free, for tables of k */
  SHARED = 32 << 10 /* that there must be */
};

/* --- which --- */

/* By tiles of columns of the first result: 1, 2. */
static const direct_shape shapes[2][2] = {
    {{{2, 4}, {1, 1}, SLICES, false}, {{2, 4}, {1, SLICES}, 1, false}},
    {{{2, 4}, {1, 2}, SLICES, false}, {{2, 4}, {1, 2 * SLICES}, 1, false}}};

static bool has_one_product(const matmul_part *p) {
  return p->n_batch == 0 && p->n_accs == 1 && p->accs[0].n_products == 1 && !p->gradient &&
         dims_are_positive(p->n_m + p->n_n, p->extent);
}

/* Columns in tiles of a subgroup; 0: there is a rest. */
static int64_t column_tiles(const emitter *e, const matmul_part *p) {
  int64_t n = sizes_most(&e->env, p->n_n, p->extent + p->n_m);
  return n % COLUMNS == 0 ? n / COLUMNS : 0;
}

static bool suits_gpu(const emitter *e, int64_t rows) {
  const gpu_target *t = e->env.target;
  int64_t tiles = rows / RELAY_ROWS;
  return t->relays && t->shared_bytes >= SHARED && t->places && t->bf16_places &&
         e->env.precision != SN_PRECISION_EXACT && e->env.kept && rows % RELAY_ROWS == 0 &&
         tiles >= 2 * t->units && tiles <= 4 * t->units &&
         !(e->env.precision == SN_PRECISION_FAST && matmul_is_deep(&e->env));
}

/* The only store of an epilogue, which is of all its results in their order, as they stand in memory; NULL: there is another. */
static const instr *store_of_all(const emitter *e, const matmul_part *p) {
  const instr *store = NULL;
  for (int i = 0; i < p->epilogue.n; i++) {
    const instr *in = &p->epilogue.code[i];
    if (in->op == REGION_REQUIRE || (in->op == REGION_STORE && store))
      return NULL;
    store = in->op == REGION_STORE ? in : store;
  }
  const int first[2] = {0, p->n_m}, n[2] = {p->n_m, p->n_n};
  const sn_dim *const extent[2] = {p->extent, p->extent + p->n_m};
  bool all = store && e->env.program->values[store->at.value].type.dtype == SN_F32 &&
             access_is_dense(&store->at, first, n, extent);
  return all ? store : NULL;
}

/* Whether a part's first operand is that value, element for element, and nothing else of it is. */
static bool takes(const matmul_part *p, uint32_t value) {
  const matmul_product *x = &p->accs[0].products[0];
  const instr *load = &x->a.code[0];
  const int first[2] = {0, p->n_m + p->n_n}, n[2] = {p->n_m, x->n_k};
  const sn_dim *const extent[2] = {p->extent, x->k};
  return x->a.n == 1 && load->op == REGION_LOAD && load->at.value == value &&
         access_is_dense(&load->at, first, n, extent) && !region_loads(&x->b, value) &&
         !region_loads(&p->epilogue, value);
}

/* Whether the second operand is packed once. */
static bool keeps_weights(const emitter *e, const matmul_part *p) {
  packed_operands all;
  packed_collect(e, p, &all);
  return all.n == 1 && all.list[0].o.side == 1;
}

bool relay_fits(const emitter *e, const matmul_part *first, const step *s, uint32_t *out_value) {
  matmul_part a = *first, b = s->parts[0].u.matmul;
  matmul_batch_to_rows(&a);
  matmul_batch_to_rows(&b);
  if (s->n_parts != 1 || !has_one_product(&a) || !has_one_product(&b) ||
      matmul_turns_rows(&e->env, first))
    return false;
  int64_t rows = sizes_most(&e->env, a.n_m, a.extent);
  int64_t wide[2] = {column_tiles(e, &a), column_tiles(e, &b)};
  const instr *store = store_of_all(e, &a);
  if (!store || !takes(&b, store->at.value) || rows != sizes_most(&e->env, b.n_m, b.extent) ||
      (wide[0] != 1 && wide[0] != 2) || wide[1] < 4 || wide[1] % (SLICES * wide[0]) != 0 ||
      !suits_gpu(e, rows))
    return false;
  *out_value = store->at.value;
  const direct_shape *of = shapes[wide[0] - 1];
  return direct_fits(e, &of[0], &a) && direct_fits(e, &of[1], &b) && keeps_weights(e, &a) &&
         keeps_weights(e, &b);
}

/* --- what is handed on --- */

/* Fours of a row. */
static int fours_of(const handed *h) { return h->columns / 4; }

static val place_of(kernel *k, const handed *h, val row, val four) {
  val odd = times(k, low_part(k, high_part(k, row, 4), 2), 4);
  return k_add(k, times(k, row, fours_of(h)), k_xor(k, four, odd));
}

val handed_four(kernel *k, const handed *h, val row, val four) {
  return k_shared_get(k, h->array, place_of(k, h, row, four));
}

val handed_number(kernel *k, const handed *h, val row, val column) {
  return pairs_number(k, handed_four(k, h, row, k_shr(k, column, 2)), column);
}

void handed_store(kernel *k, const handed *h, val element, const val words[4]) {
  val number = low_part(k, k_shr(k, element, 2), RELAY_ROWS * fours_of(h));
  val row = high_part(k, number, fours_of(h)), four = low_part(k, number, fours_of(h));
  val bits[4];
  for (int i = 0; i < 4; i++)
    bits[i] = k_bits(k, words[i], k->s.u32);
  k_shared_set(k, h->array, place_of(k, h, row, four), k_vector(k, 4, bits));
}

/* --- the launch --- */

typedef struct relay {
  direct d[2];
  matmul_way way[2];
  packed_operands kept[2];
  handed handed;
} relay;

static sn_status pack_weights(emitter *e, relay *r) {
  for (int i = 0; i < 2; i++) {
    packed_collect(e, r->d[i].m.part, &r->kept[i]);
    for (int n = 0; n < r->kept[i].n; n++)
      SN_TRY(emit_pack(e, r->d[i].m.part, SN_BF16, &r->kept[i].list[n]));
  }
  return SN_OK;
}

static sn_status set_up(emitter *e, relay *r, const matmul_part *const parts[2]) {
  int wide = (int)column_tiles(e, parts[0]), columns = wide * COLUMNS;
  const direct_shape *of = shapes[wide - 1];
  for (int i = 0; i < 2; i++) {
    int products = e->env.precision == SN_PRECISION_FAST ? 3 : 1;
    r->way[i] = (matmul_way){.direct = &of[i], .splits = 1, .products = products, .half = SN_BF16};
    r->d[i] = (direct){.m = {.e = e, .part = parts[i], .way = &r->way[i]},
                       .shape = &of[i],
                       .products = products,
                       .half = SN_BF16,
                       .room = e->env.target->shared_bytes - SPARE - 4 * RELAY_ROWS * columns,
                       .packed = &r->kept[i]};
  }
  const instr *store = store_of_all(e, parts[0]);
  if (!store)
    return diag_fail(e->env.ctx, SN_ERR_INTERNAL, "matmul: a result that cannot be handed on");
  r->handed = (handed){.value = store->at.value, .columns = columns};
  return SN_OK;
}

/* The bands of the second result. */
static void sum_bands(emitter *e, relay *r) {
  kernel *k = e->k;
  direct *second = &r->d[1];
  int band = direct_points(second->shape, 1);
  val end = k_index(k, column_tiles(e, second->m.part) * COLUMNS);
  matmul_open_behind(&second->m, &r->d[0].m);
  k_loop l = k_loop_rolled(k, k_index(k, 0), end, k_index(k, band));
  second->m.begin[1] = l.i;
  direct_sum(second);
  direct_store(second);
  k_loop_end(k, &l);
}

static void emit_both(emitter *e, relay *r) {
  kernel *k = e->k;
  const gpu_target *t = e->env.target;
  direct *first = &r->d[0], *second = &r->d[1];
  const int each[2] = {RELAY_ROWS, r->handed.columns};
  spirv_id four = spirv_vector(&k->s, k->s.u32, 4);
  int vectors = 0;
  first->m.hands = second->m.takes = &r->handed;
  vk_matmul_open(&first->m, each);
  k_use_matrices(k, t->matrix, SN_BF16, first->type);
  memcpy(second->type, first->type, sizeof first->type);
  for (int i = 0; i < 2; i++) {
    const direct *d = &r->d[i];
    vectors = (int)max_i64(vectors, direct_vectors(d->shape, d->m.part, t, d->room));
  }
  r->handed.array = k_shared(k, four, RELAY_ROWS * fours_of(&r->handed));
  first->vectors = second->vectors = k_shared(k, four, vectors);
  direct_sum(first);
  e->handed = &r->handed;
  direct_store(first); /* all have what the others stored when it ends: there are slices */
  e->handed = NULL;
  sum_bands(e, r);
}

sn_status emit_relay(emitter *e, const matmul_part *first, const matmul_part *second) {
  const matmul_part *const parts[2] = {first, second};
  relay *r = mem_alloc(e->env.ctx, sizeof *r);
  if (!r)
    return SN_ERR_NO_MEMORY;
  sn_status status = set_up(e, r, parts);
  if (status == SN_OK)
    status = pack_weights(e, r);
  int threads = direct_threads(r->d[0].shape, e->env.target);
  if (status == SN_OK && !emit_open_early(e, threads))
    status = SN_ERR_NO_MEMORY;
  if (status == SN_OK) {
    emit_both(e, r);
    status = emit_launch(e, false);
  }
  mem_free(e->env.ctx, r, sizeof *r);
  return status;
}
