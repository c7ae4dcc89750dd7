/* Images and weights into shared memory. See emit_matmul_window.h. */
#include "device/vulkan/emit_matmul_window.h"

/* --- where a thread's elements are --- */

/* Place q of the grid as image, row and column; whether it is below the grid's end, q and the columns below those given. */
val window_place(windows *t, val q, bool out, val place[3]) {
  kernel *k = t->m.e->k;
  val zero = k_index(k, 0), from = k_max(k, q, zero), end = k_sizes(k, 3, t->w.grid);
  val ok = k_and(k, k_ge(k, q, zero), k_lt(k, q, end));
  val rest = k_divide(k, from, &(amount){1, 1, &t->w.grid[2]}, &place[2]);
  place[0] = k_divide(k, rest, &(amount){1, 1, &t->w.grid[1]}, &place[1]);
  for (int i = 0; i < 2; i++) {
    const window_axis *a = &t->w.axis[i];
    ok = k_and(k, ok, k_lt(k, place[1 + i], k_size_of(k, out ? &a->out : &a->in)));
  }
  return ok;
}

int window_image_lines(const windows *t) { return t->w.rows * WINDOW_PAIRS / t->threads; }

void window_place_images(windows *t) {
  kernel *k = t->m.e->k;
  val local = k->local, high = high_part(k, local, 16), place[3];
  t->pair = low_part(k, high, WINDOW_PAIRS);
  t->row = k_add(k, low_part(k, local, 16), times(k, high_part(k, high, WINDOW_PAIRS), 16));
  val first = k_add(k, k_add(k, t->m.begin[0], t->row), k_size_of(k, &t->w.lowest));
  val none = k_index(k, -1), channel = times(k, t->pair, 2);
  val skip =
      k_add(k, k_mul(k, channel, k_size_of(k, &t->w.channel_stride)), k_size_of(k, &t->w.base));
  for (int i = 0; i < window_image_lines(t); i++) {
    val ok = window_place(t, plus(k, first, i * (t->threads / WINDOW_PAIRS)), false, place);
    val at = k_add(k, skip, k_mul(k, place[0], k_size_of(k, &t->w.image_stride)));
    for (int d = 0; d < 2; d++)
      at = k_add(k, at, k_mul(k, place[1 + d], k_size_of(k, &t->w.axis[d].image)));
    t->at[i] = k_select(k, ok, at, none);
  }
}

int window_weight_lines(const windows *t) {
  return window_places(&t->w) * WINDOW_COLUMNS * WINDOW_PAIRS / t->threads;
}

/* Neighbouring threads have neighbouring places of the window, then columns. */
void window_place_weights(windows *t) {
  kernel *k = t->m.e->k;
  const conv_window *w = &t->w;
  val across = k_index(k, w->axis[1].places), places = k_index(k, window_places(w));
  val last = k_sub(k, t->m.size[1], k_index(k, 1)), channel = times(k, t->pair, 2);
  val skip = k_mul(k, channel, k_size_of(k, &w->weight_channel));
  skip = k_add(k, skip, k_size_of(k, &w->weight->base));
  for (int i = 0; i < window_weight_lines(t); i++) {
    val number = plus(k, t->row, i * (t->threads / WINDOW_PAIRS)),
        column = k_div(k, number, places);
    val place = k_sub(k, number, k_mul(k, column, places)), y = k_div(k, place, across);
    val x = k_sub(k, place, k_mul(k, y, across));
    val real = k_min(k, k_add(k, t->m.begin[1], column), last);
    val at = k_add(k, skip, k_mul(k, real, k_size_of(k, &w->weight_column)));
    at = k_add(k, at, k_mul(k, y, k_size_of(k, &w->axis[0].weight)));
    t->weight[i] = k_add(k, at, k_mul(k, x, k_size_of(k, &w->axis[1].weight)));
    val line = k_mul(k, place, k_index(k, window_plane(t->stride)));
    line = k_add(k, line, k_mul(k, column, k_index(k, t->stride)));
    t->to_word[i] = plus(k, k_add(k, line, t->pair), t->weights);
  }
}

/* --- filling shared memory --- */

/* Elements `at` and one channel on: number i of a panel. */
static void load_two(windows *t, int side, uint32_t value, int i, val at, val apart) {
  kernel *k = t->m.e->k;
  for (int j = 0; j < 2; j++)
    k_set(k, t->panel[side].kept[2 * i + j],
          k_load(k, k->s.f32, k_address(k, value), j ? k_add(k, at, apart) : at));
}

/* The channels from `channel` on: nothing waits for them yet. */
void window_load(windows *t, val channel) {
  kernel *k = t->m.e->k;
  const conv_window *w = &t->w;
  val zero = k_index(k, 0), apart = k_size_of(k, &w->channel_stride),
      skip = k_mul(k, channel, apart);
  for (int i = 0; i < window_image_lines(t); i++)
    load_two(t, 0, w->image->value, i, k_add(k, k_max(k, t->at[i], zero), skip), apart);
  apart = k_size_of(k, &w->weight_channel);
  skip = k_mul(k, channel, apart);
  for (int i = 0; i < window_weight_lines(t); i++)
    load_two(t, 1, w->weight->value, i, k_add(k, t->weight[i], skip), apart);
}

/* Waits for them. What is no pixel is 0. */
void window_settle(windows *t) {
  kernel *k = t->m.e->k;
  val zero = k_index(k, 0), none = k_f32(k, 0);
  for (int i = 0; i < window_image_lines(t); i++) {
    val inside = k_ge(k, t->at[i], zero);
    for (int j = 0; j < 2; j++) {
      val x = t->panel[0].kept[2 * i + j];
      k_set(k, x, k_select(k, inside, k_get(k, x), none));
    }
  }
  for (int side = 0; side < 2 && t->panel[0].scaled; side++)
    scale_publish(&t->m, &t->panel[side]);
}

void window_choose_scales(windows *t) {
  kernel *k = t->m.e->k;
  for (int side = 0; side < 2; side++) {
    val most = scale_largest(&t->m, &t->panel[side]);
    val wild = k_or(k, k_get(k, t->wild), k_eq(k, most, k_i32(k, 255)));
    k_set(k, t->wild, wild);
    k_set(k, t->panel[side].exponent, t->panel[side].largest);
    (void)scale_set(k, &t->panel[side], most);
  }
}

static void store_two(windows *t, int side, int i, val scale, val at) {
  kernel *k = t->m.e->k;
  const half_panel *p = &t->panel[side];
  val x[2] = {k_get(k, p->kept[2 * i])}, word[2];
  x[1] = k_get(k, p->kept[2 * i + 1]);
  half_panel_words_of(k, p, scale, x, word);
  for (int h = 0; h <= p->rest; h++)
    k_shared_set(k, t->words, plus(k, at, h * WINDOW_PAIRS), word[h]);
}

void window_store(windows *t) {
  kernel *k = t->m.e->k;
  val scale[2] = {0}, first = k_add(k, k_mul(k, t->row, k_index(k, t->stride)), t->pair);
  for (int side = 0; side < 2 && t->panel[0].scaled; side++)
    scale[side] = scale_factor(k, &t->panel[side]);
  for (int i = 0; i < window_image_lines(t); i++)
    store_two(t, 0, i, scale[0], plus(k, first, i * (t->threads / WINDOW_PAIRS) * t->stride));
  for (int i = 0; i < window_weight_lines(t); i++)
    store_two(t, 1, i, scale[1], t->to_word[i]);
}
