/* The launches that pack an image. See emit_matmul_image.h. */
#include "device/vulkan/emit_matmul_image.h"
#include "device/vulkan/emit_matmul_packed.h"

enum { THREADS = 128, EACH = 4, LINES = THREADS / 4 * EACH /* of a workgroup */ };

static val magnitude(kernel *k, val x) {
  return k_and(k, k_bits(k, x, k->s.u32), k_u32(k, 0x7fffffff));
}

/* --- the largest magnitude --- */

static void max_body(emitter *e, const packed_image *of) {
  kernel *k = e->k;
  amount groups = {1, 1, &of->maxima}, all = {1, 4, &of->count};
  spirv_id four = spirv_vector(&k->s, k->s.f32, 4);
  val address = k_address(k, of->value), most = k_var(k, k_u32(k, 0)), fours = k_amount(k, &all);
  val apart = k_mul(k, k_amount(k, &groups), k_index(k, THREADS)), last = plus(k, fours, -1);
  val first = k_add(k, times(k, k->group, THREADS), k->local);
  k_loop l = k_loop_begin(k, first, fours, times(k, apart, EACH));
  val x[EACH], at = l.i, seen = k_get(k, most);
  for (int i = 0; i < EACH; i++) {
    x[i] = k_load(k, four, address, k_min(k, at, last));
    at = k_add(k, at, apart);
  }
  for (int i = 0; i < 4 * EACH; i++)
    seen = k_max(k, seen, magnitude(k, k_part(k, x[i / 4], i % 4)));
  k_set(k, most, seen);
  k_loop_end(k, &l);
  val all_seen = packed_workgroup_max(e, k_get(k, most));
  k_if one = k_if_begin(k, k_eq(k, k->local, k_index(k, 0)));
  k_store(k, k_scratch(k, of->seen), k->group, all_seen);
  k_if_end(k, &one);
  kernel_grid(k, 1, &groups);
}

/* --- lines --- */

/* The exponent for the whole image (i32). */
static val find_exponent(emitter *e, const packed_image *of) {
  kernel *k = e->k;
  val most = k_var(k, k_u32(k, 0)), address = k_scratch(k, of->seen);
  k_loop l = k_loop_begin(k, k->local, k_size_of(k, &of->maxima), k_index(k, THREADS));
  k_set(k, most, k_max(k, k_get(k, most), k_load(k, k->s.u32, address, l.i)));
  k_loop_end(k, &l);
  return packed_exponent(e, k_get(k, most));
}

/* Where along an axis a line is; whether there is such a pixel. */
static val pixel_at(kernel *k, const image_axis *a, val line, val *inside) {
  val at = k_sub(k, line, k_size_of(k, &a->before));
  val ok = k_and(k, k_le(k, k_index(k, 0), at), k_lt(k, at, k_size_of(k, &a->size)));
  *inside = *inside ? k_and(k, *inside, ok) : ok;
  return k_mul(k, at, k_size_of(k, &a->stride));
}

/* A thread's four channels of a line. */
static void load_line(emitter *e, const packed_image *of, val line, val channels, val out[4]) {
  kernel *k = e->k;
  val at[2], inside = 0, zero = k_f32(k, 0);
  line = k_divide(k, line, &(amount){1, 1, &of->axis[1].grid}, &at[1]);
  line = k_divide(k, line, &(amount){1, 1, &of->axis[0].grid}, &at[0]);
  val first = k_mul(k, line, k_size_of(k, &of->image_stride));
  for (int i = 0; i < 2; i++)
    first = k_add(k, first, pixel_at(k, &of->axis[i], at[i], &inside));
  val apart = k_size_of(k, &of->channel_stride), address = k_address(k, of->value);
  first = k_add(k, first, k_mul(k, channels, apart));
  first = k_select(k, inside, first, k_index(k, 0));
  apart = k_select(k, inside, apart, k_index(k, 0));
  for (int j = 0; j < 4; j++) {
    out[j] = k_select(k, inside, k_load(k, k->s.f32, address, first), zero);
    first = k_add(k, first, apart);
  }
}

static void store_line(emitter *e, const packed_image *of, val four, val scale, const val x[4]) {
  kernel *k = e->k;
  val words[4];
  for (int j = 0; j < 2; j++) {
    const val two[2] = {k_mul(k, x[2 * j], scale), k_mul(k, x[2 * j + 1], scale)};
    k_two_halves(k, two, &words[j], &words[2 + j]);
  }
  k_store(k, k_scratch(k, of->at), four, k_vector(k, 4, words));
}

static void lines_body(emitter *e, const packed_image *of) {
  kernel *k = e->k;
  amount grid[2] = {{1, LINES, &of->lines}, {1, 1, &of->blocks}};
  val tile, block = k_divide(k, k->group, &grid[0], &tile), size = k_size_of(k, &of->lines);
  val t = low_part(k, k->local, 4),
      first = k_add(k, times(k, tile, LINES), high_part(k, k->local, 4));
  val channels = k_add(k, times(k, block, IMAGE_CHANNELS), times(k, t, 4));
  val x[EACH][4], last = plus(k, size, -1);
  for (int i = 0; i < EACH; i++)
    load_line(e, of, k_min(k, plus(k, first, i * THREADS / 4), last), channels, x[i]);
  val exponent = find_exponent(e, of), scale = scale_of(k, exponent);
  val begin = k_mul(k, block, size);
  for (int i = 0; i < EACH; i++) {
    val line = plus(k, first, i * THREADS / 4);
    k_if some = k_if_begin(k, k_lt(k, line, size));
    store_line(e, of, k_add(k, times(k, k_add(k, begin, line), 4), t), scale, x[i]);
    k_if_end(k, &some);
  }
  val number = k_add(k, k->group, k->local);
  k_if one = k_if_begin(k, k_eq(k, number, k_index(k, 0)));
  k_store(k, k_scratch(k, of->exponent), k_index(k, 0), exponent);
  k_if_end(k, &one);
  kernel_grid(k, 2, grid);
}

sn_status emit_image(emitter *e, packed_image *of, const amount *when, int64_t least,
                     int64_t most) {
  of->at = scratch_take(&e->env, of->lines * of->blocks * IMAGE_LINE);
  of->seen = scratch_take(&e->env, 4 * IMAGE_MAXIMA);
  of->exponent = scratch_take(&e->env, 4);
  if (!emit_open(e, THREADS))
    return SN_ERR_NO_MEMORY;
  max_body(e, of);
  SN_TRY(emit_launch_when(e, false, when, least, most));
  if (!emit_open(e, THREADS))
    return SN_ERR_NO_MEMORY;
  lines_body(e, of);
  return emit_launch_when(e, true, when, least, most);
}
