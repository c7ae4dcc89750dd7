/* Transforms of images for convolutions with 3 x 3 kernels (conv_winograd.h): one table an instruction set.
 *
 * Images are cut into tiles of 2 x 2 results, each of which reads 4 x 4 pixels. A line is some tiles next to each other; a plane
 * is one of the 16 places of a transformed tile, row by row. Several channels go at once, all alike.
 */
#ifndef SINEW_DEVICE_CPU_ISA_WINOGRAD_H
#define SINEW_DEVICE_CPU_ISA_WINOGRAD_H

#include <stdint.h>

enum {
  WINOGRAD_TILE = 2,   /* results a side */
  WINOGRAD_PATCH = 4,  /* pixels a side that they read */
  WINOGRAD_PLANES = 16 /* of a transformed tile */
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

typedef struct winograd_kernels {
  void (*patches)(const winograd_line *w);
  void (*results)(const winograd_results *w);
} winograd_kernels;

#endif
