/* Transforms of images for convolutions with 3 x 3 kernels (conv_winograd.h): one table an instruction set.
 *
 * Images are cut into tiles of 2 x 2 results, each of which reads 4 x 4 pixels. A line is some tiles next to each other; a plane
 * is one of the 16 places of a transformed tile, row by row. Several channels go at once, all alike.
 */
#ifndef SINEW_DEVICE_CPU_ISA_WINOGRAD_H
#define SINEW_DEVICE_CPU_ISA_WINOGRAD_H

#include <stdint.h>

enum {
  WINOGRAD_TAPS = 3,    /* of a kernel, a side */
  WINOGRAD_TILE = 2,    /* results a side */
  WINOGRAD_PATCH = 4,   /* pixels a side that they read */
  WINOGRAD_PLANES = 16, /* of a transformed tile */
  WINOGRAD_LANES_MOST = 16
};

/* n tiles. Column c of row i of channel q is rows[i][q * channel + c], for lo <= c < hi; all else is 0, and so is a row that is NULL.
 * They become columns of panels (isa/matmul.h): plane p of tile t, which is column j = first + t, goes to
 * to[p * plane + j / cols * panel + q * cols + j % cols]. Behind the last tile, columns of its panel may be overwritten. */
typedef struct winograd_line {
  const float *rows[WINOGRAD_PATCH];
  int64_t lo, hi, n, channels, channel;
  float *to;
  int64_t plane, panel, first;
} winograd_line;

/* The other way: plane p of tile t of channel q is from[p * plane + q * row + t]; row i of the results, of `columns` columns
 * (2 n, or one less), goes to to[i] + q * channel, where to[i] is not NULL, and nothing else is written. Up to a whole vector may
 * be read behind the last tile. */
typedef struct winograd_results {
  const float *from;
  int64_t plane, row, n, columns, channels, channel;
  float *to[WINOGRAD_TILE];
} winograd_results;

/* Kernels of weights, a panel of n results (isa/matmul.h: rows) of some channels. Tap (y, x) of result i, channel q is
 * from[i * result + q * channel + y * row + x * column]; plane p of it goes to to[p * plane + q * rows + i]. Rows from n on
 * become 0. */
typedef struct winograd_weights {
  const float *from;
  int64_t result, channel, row, column, n, channels;
  float *to;
  int64_t plane;
} winograd_weights;

/* For gradients of weights lanes are channels. n tiles of rows as in winograd_line, or (of gradients of results, 2 rows) as they are;
 * channel q at rows[i] + q * channel. Plane p of tile t, lane q, goes to to[p * plane + t * step + q], for all of `lanes`
 * (winograd_kernels.lanes at most), which are 0 from `channels` on. staged: memory, 4 * (2 n + 2) * WINOGRAD_LANES_MOST floats. */
typedef struct winograd_turned {
  const float *rows[WINOGRAD_PATCH];
  int64_t lo, hi, n, channel;
  int channels, lanes;
  float *to;
  int64_t plane, step;
  float *staged;
} winograd_turned;
/* Back: plane p of kernel i is from[p * plane + i]; its taps go to to[9 * i …]. */
typedef struct winograd_sums {
  const float *from;
  int64_t plane, n;
  float *to;
} winograd_sums;

typedef struct winograd_kernels {
  int lanes;
  void (*turn_images)(const winograd_turned *w);
  void (*turn_results)(const winograd_turned *w);
  void (*taps)(const winograd_sums *w);
  void (*weights)(const winograd_weights *w);
  void (*patches)(const winograd_line *w);
  void (*results)(const winograd_results *w);
} winograd_kernels;

#endif
