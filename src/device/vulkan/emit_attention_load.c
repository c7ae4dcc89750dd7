/* Loading of rows for tiles. See emit_attention.h. */
#include "device/vulkan/emit_attention.h"

/* Coordinates of a row of a list. */
static void place_row(emitter *e, const attending *a, const row_list *l, val number, val at[4]) {
  kernel *k = e->k;
  at[0] = l->b;
  at[1] = l->head;
  at[2] = number;
  if (l->packed) {
    amount sq = amount_of(&a->sq);
    val within = k_divide(k, number, &sq, &at[2]);
    at[1] = k_add(k, k_mul(k, l->head, k_size(k, a->rows[0])), within);
  }
}

/* Whether four numbers of a row lie side by side at a multiple of four, wherever the row is. */
static bool is_aligned(const row_list *l) {
  const strided *s = l->of;
  bool fits = s->stride[3] == 1 && dim_is_number(l->width) && l->width % 4 == 0 &&
              dim_is_number(s->base) && s->base % 4 == 0;
  for (int d = 0; d < 3; d++)
    fits = fits && dim_is_number(s->stride[d]) && s->stride[d] % 4 == 0;
  return fits;
}

/* Four halves of two words, as f32. */
static val widened(emitter *e, sn_dtype dtype, val words) {
  kernel *k = e->k;
  val x[4];
  for (int i = 0; i < 4; i++) {
    val word = k_part(k, words, i / 2);
    if (dtype == SN_BF16)
      x[i] =
          k_bits(k, i & 1 ? k_and(k, word, k_u32(k, 0xffff0000u)) : k_shl(k, word, 16), k->s.f32);
    else
      x[i] = emit_f16_widen(e, i & 1 ? k_shr(k, word, 16) : k_and(k, word, k_u32(k, 0xffffu)));
  }
  return k_vector(k, 4, x);
}

/* As it lies in memory: four f32, or two words of halves. */
static val load_whole(emitter *e, const row_list *l, const val at[4]) {
  kernel *k = e->k;
  spirv_id type =
      l->of->dtype == SN_F32 ? spirv_vector(&k->s, k->s.f32, 4) : spirv_vector(&k->s, k->s.u32, 2);
  val index = k_shr(k, emit_strided(e, l->of, at), 2);
  return k_load(k, type, k_address(k, l->of->value), index);
}

static val load_parts(emitter *e, const row_list *l, val at[4], val column) {
  kernel *k = e->k;
  val x[4], width = k_size(k, l->width), zero = k_f32(k, 0), first = k_index(k, 0);
  for (int i = 0; i < 4; i++) {
    val c = k_add(k, column, k_index(k, i)), inside = k_lt(k, c, width);
    at[3] = k_select(k, inside, c, first);
    x[i] = k_select(k, inside, core_load(e, l->of, at), zero);
  }
  return k_vector(k, 4, x);
}

/* Without branches, so that loads can be under way together: what is outside is read from the nearest place inside, which
 * there is. */
val tile_load_raw(emitter *e, const attending *a, const row_list *l, val number, val column) {
  kernel *k = e->k;
  val zero = k_f32(k, 0);
  if (l->width == 0)
    return k_vector(k, 4, (val[]){zero, zero, zero, zero});
  val last = k_sub(k, l->high, k_index(k, 1)), at[4];
  number = k_max(k, k_min(k, number, last), l->low);
  place_row(e, a, l, number, at);
  if (!is_aligned(l))
    return load_parts(e, l, at, column);
  val there = k_lt(k, column, k_size(k, l->width));
  at[3] = k_select(k, there, column, k_index(k, 0));
  return load_whole(e, l, at);
}

val tile_load_end(emitter *e, const row_list *l, val number, val column, val raw) {
  kernel *k = e->k;
  val zero = k_f32(k, 0), above = k_le(k, l->low, number), x[4];
  val inside = k_and(k, above, k_lt(k, number, l->high));
  if (l->width == 0)
    return raw;
  if (is_aligned(l)) {
    inside = k_and(k, inside, k_lt(k, column, k_size(k, l->width)));
    raw = l->of->dtype == SN_F32 ? raw : widened(e, (sn_dtype)l->of->dtype, raw);
  }
  for (int i = 0; i < 4; i++)
    x[i] = k_select(k, inside, k_part(k, raw, i), zero);
  return k_vector(k, 4, x);
}

val tile_load_vector(emitter *e, const attending *a, const row_list *l, val number, val column) {
  return tile_load_end(e, l, number, column, tile_load_raw(e, a, l, number, column));
}

spirv_id tile_raw_type(emitter *e, const row_list *l) {
  spirv *s = &e->k->s;
  bool halves = l->width != 0 && is_aligned(l) && l->of->dtype != SN_F32;
  return halves ? spirv_vector(s, s->u32, 2) : spirv_vector(s, s->f32, 4);
}

/* --- rows whose vectors are all there --- */

bool tile_is_whole(const row_list *l, int columns) {
  return is_aligned(l) && l->width % columns == 0;
}

val tile_row_address(emitter *e, const attending *a, const row_list *l, val number, val column) {
  kernel *k = e->k;
  val last = k_sub(k, l->high, k_index(k, 1)), at[4];
  place_row(e, a, l, k_max(k, k_min(k, number, last), l->low), at);
  at[3] = column;
  val i = emit_strided(e, l->of, at);
  if (!e->env.wide)
    i = spirv_op(&k->s, SPV_SConvert, k->s.i64, SPV_ARGS(i));
  i = k_shl(k, i, l->of->dtype == SN_F32 ? 2 : 1);
  return k_add(k, k_address(k, l->of->value), k_bits(k, i, k->s.u64));
}

val tile_load_there(emitter *e, const row_list *l, val address, int further) {
  val at = k_index(e->k, further / 4);
  return k_load(e->k, tile_raw_type(e, l), address, at);
}

val tile_numbers(emitter *e, const row_list *l, val raw) {
  return l->of->dtype == SN_F32 ? raw : widened(e, (sn_dtype)l->of->dtype, raw);
}

void tile_load(emitter *e, const attending *a, const tiles *t, const row_list *l, int n,
               tile_find find, const void *user) {
  kernel *k = e->k;
  /* Software has nothing to wait for, and compiles longer than it runs. */
  enum { BATCH = 8, MANY_UNITS = 32 };
  int each = (n + k->threads - 1) / k->threads, most = each < BATCH ? each : BATCH;
  int batch = e->env.target->units >= MANY_UNITS ? most : 1;
  val x[BATCH], all = k_index(k, n);
  tile_vector v[BATCH];
  k_loop first = k_loop_begin(k, k->local, all, k_index(k, batch * k->threads));
  for (int i = 0; i < batch; i++) {
    v[i] = find(e, user, k_add(k, first.i, k_index(k, i * k->threads)));
    x[i] = tile_load_raw(e, a, l, v[i].number, v[i].column);
  }
  for (int i = 0; i < batch; i++)
    k_shared_set(k, t->pool, v[i].at, tile_load_end(e, l, v[i].number, v[i].column, x[i]));
  k_loop_end(k, &first);
}
