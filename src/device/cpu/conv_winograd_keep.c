/* Weights, transformed once in f64, or by each run: see conv_winograd.h. */
#include "device/cpu/conv_winograd.h"

#include "device/cpu/isa/winograd.h"

enum { TAPS = WINOGRAD_TAPS, CHANNELS_AT_ONCE = 16 };

/* A row of three becomes four. */
static void transform_row(const double g[TAPS], double to[WINOGRAD_PATCH]) {
  double ends = 0.5 * (g[0] + g[2]), middle = 0.5 * g[1];
  to[0] = g[0];
  to[1] = ends + middle;
  to[2] = ends - middle;
  to[3] = g[2];
}

/* One kernel; its plane p goes to to[p * plane]. */
static void transform_kernel(const float *from, int64_t by_row, int64_t by_column, float *to,
                             int64_t plane) {
  double rows[TAPS][WINOGRAD_PATCH];
  for (int y = 0; y < TAPS; y++)
    transform_row((double[TAPS]){(double)from[y * by_row], (double)from[y * by_row + by_column],
                                 (double)from[y * by_row + 2 * by_column]},
                  rows[y]);
  for (int i = 0; i < WINOGRAD_PATCH; i++) {
    double column[WINOGRAD_PATCH];
    transform_row((double[TAPS]){rows[0][i], rows[1][i], rows[2][i]}, column);
    for (int j = 0; j < WINOGRAD_PATCH; j++)
      to[(j * WINOGRAD_PATCH + i) * plane] = (float)column[j];
  }
}

/* A panel: results first … of all channels. */
static void keep_panel(const cpu_run *r, const matmul_part *t, int64_t first, float *kept) {
  const access *at = &t->accs[0].products[0].b.code[0].at;
  int64_t channels = t->accs[0].products[0].k[0], results = winograd_extent(t, WINO_RESULT);
  int rows = r->isa->matmul->rows;
  int64_t plane = whole_panels(results, rows) * channels;
  winograd_numbers v = winograd_number(r, t, at->base, at->terms, at->n_terms);
  const float *data = (const float *)cpu_address(r, at->value) + v.base;
  for (int64_t q = 0; q < channels; q++)
    for (int64_t i = 0; i < rows; i++) {
      float *to = kept + first * channels + q * rows + i;
      if (first + i < results)
        transform_kernel(data + (first + i) * v.by[WINO_RESULT] + q * v.by[WINO_CHANNEL],
                         v.by[WINO_KY], v.by[WINO_KX], to, plane);
      for (int p = 0; first + i >= results && p < WINOGRAD_PLANES; p++)
        to[p * plane] = 0;
    }
}

void winograd_keep(cpu_run *r, const matmul_part *t, float *kept) {
  int rows = r->isa->matmul->rows;
  cpu_begin(r);
  for (int64_t i; cpu_next(r, (winograd_extent(t, WINO_RESULT) + rows - 1) / rows, &i);)
    keep_panel(r, t, i * rows, kept);
}

/* Some channels of all results at a time: memory is read in order. */
sn_status winograd_make(matmul_work *w) {
  cpu_run *r = w->r;
  const matmul_part *t = w->part;
  const access *at = &t->accs[0].products[0].b.code[0].at;
  winograd_numbers v = winograd_number(r, t, at->base, at->terms, at->n_terms);
  int64_t channels = t->accs[0].products[0].k[0], results = winograd_extent(t, WINO_RESULT);
  int rows = r->isa->matmul->rows;
  float *made = cpu_take_shared(r, winograd_made(r->program, t));
  if (!made)
    return SN_ERR_INTERNAL;
  const float *data = (const float *)cpu_address(r, at->value) + v.base;
  cpu_begin(r);
  for (int64_t i; cpu_next(r, (channels + CHANNELS_AT_ONCE - 1) / CHANNELS_AT_ONCE, &i);)
    for (int64_t first = 0, q = i * CHANNELS_AT_ONCE; first < results; first += rows)
      r->isa->winograd->weights(
          &(winograd_weights){.from = data + first * v.by[WINO_RESULT] + q * v.by[WINO_CHANNEL],
                              .result = v.by[WINO_RESULT],
                              .channel = v.by[WINO_CHANNEL],
                              .row = v.by[WINO_KY],
                              .column = v.by[WINO_KX],
                              .n = min_i64(rows, results - first),
                              .channels = min_i64(CHANNELS_AT_ONCE, channels - q),
                              .to = made + first * channels + q * rows,
                              .plane = whole_panels(results, rows) * channels});
  return SN_OK;
}
