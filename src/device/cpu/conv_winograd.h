/* Convolutions of 3 x 3 kernels with fewer products: Winograd's F(2 x 2, 3 x 3).
 *
 * 2 x 2 results need 36 products a channel; of their patch d of 4 x 4 pixels and the kernel g, both transformed, 16 are enough:
 *   Y = A' [sum over channels of (G g G') * (B' d B)] A
 *
 *        1  0 -1  0          1    0    0
 *   B' = 0  1  1  0    G =  1/2  1/2  1/2    A' = 1  1  1  0
 *        0 -1  1  0         1/2 -1/2  1/2         0  1 -1 -1
 *        0  1  0 -1          0    0    1
 *
 * The sums over channels are 16 matmuls, one a plane: [results x channels] by [channels x tiles]. A unit transforms the patches of some lines of tiles, multiplies and transforms back
 * what then goes through the epilogue, while all of it is in the second or third cache.
 *
 * Rounding: transforms only add, and the sums over channels are those of matmuls (isa/matmul.h: chunks of 16), but of terms that are
 * larger than their sum. Errors are 1.4 to 1.6 times those of plain sums (tests/device/cpu/test_conv_winograd.c: at most
 * twice). F(4 x 4, 3 x 3) would need 36 products for 16 results, but its matrices hold numbers up to 8, which cost digits.
 *
 * Rounding may decide which units of a deep net are on: the gradients of a ResNet-50 hold as they do with plain sums (those of
 * chunks, which this adds up too, are what counts).
 *
 * Weights that no run changes are transformed once, in f64, and kept; others by each run, into shared scratch (`made`). Gradients
 * for inputs are convolutions with kernels the other way round; those for weights go this way backwards: conv_winograd_grad.c.
 */
#ifndef SINEW_DEVICE_CPU_CONV_WINOGRAD_H
#define SINEW_DEVICE_CPU_CONV_WINOGRAD_H

#include "device/cpu/matmul.h"

/* Whether the weights of a part are kept so, which follows from the program alone: floats that this takes, or 0. */
int64_t winograd_kept(const program *p, const matmul_part *t);
/* Fills them, all threads together. */
void winograd_keep(cpu_run *r, const matmul_part *t, float *kept);
/* Whether each run transforms them: bytes of shared scratch, or 0. */
size_t winograd_made(const program *p, const matmul_part *t);
/* Transforms them, all threads together. */
sn_status winograd_make(matmul_work *w) SN_MUST_USE;

/* Whether such a part is computed so with the sizes of this run; of: the step as it was lowered. */
bool winograd_pays(const matmul_work *w);
bool winograd_made_pays(const matmul_work *w, const step *of);
/* Scratch that it takes, at most, beside what every part does. */
size_t winograd_need(const program *p, const matmul_part *t);
sn_status winograd_run(matmul_work *w) SN_MUST_USE;

/* Gradients of weights: shared scratch that such a part takes, or 0; each thread's scratch; whether it is computed so in this run. */
size_t winograd_grad_shared(const program *p, const matmul_part *t);
size_t winograd_grad_need(const program *p, const matmul_part *t);
bool winograd_grad_pays(const matmul_work *w, const step *of);
/* All of it, with the threads meeting in between; they must meet before and behind it too. */
sn_status winograd_grad_run(matmul_work *w) SN_MUST_USE;

/* --- inside --- */

/* Pixels of the images: window coordinate u of a side is pixel u + offset, 0 where that is not in 0 … size-1. */
typedef struct winograd_images {
  const char *data; /* of image 0, channel 0, window coordinates 0: perhaps not there */
  int64_t by_image, by_channel, by_row;
  int64_t offset[2], size[2];
} winograd_images;
/* Window row u of an image, of so many; NULL: it is 0. */
static inline const float *winograd_row_at(const winograd_images *m, int64_t image, int64_t channel,
                                           int64_t u, int64_t rows) {
  int64_t pixel = u + m->offset[0];
  int64_t at = image * m->by_image + channel * m->by_channel + u * m->by_row;
  if (pixel < 0 || pixel >= m->size[0] || u >= rows)
    return NULL;
  return (const float *)((uintptr_t)m->data + (uintptr_t)at * sizeof(float));
}

/* Axes of such a part; where there is one image, the first is left out. */
enum { WINO_N, WINO_Y, WINO_X, WINO_RESULT, WINO_CHANNEL, WINO_KY, WINO_KX, WINO_AXES };
static inline int winograd_left_out(const matmul_part *t) { return WINO_RESULT - t->n_m; }
static inline sn_dim winograd_extent(const matmul_part *t, int axis) {
  return axis < winograd_left_out(t) ? 1 : t->extent[axis - winograd_left_out(t)];
}

/* What an index is made of: base and a multiple of each axis. */
typedef struct winograd_access {
  sn_dim base, by[WINO_AXES];
} winograd_access;
/* False: it is no such sum. */
bool winograd_open(const matmul_part *t, sn_dim base, const term *terms, int n,
                   winograd_access *out);
/* The same as numbers, kernels the other way round being turned: along images and weights then goes the same. */
typedef struct winograd_numbers {
  int64_t base, by[WINO_AXES];
} winograd_numbers;
bool winograd_is_turned(const matmul_part *t);
winograd_numbers winograd_number(const cpu_run *r, const matmul_part *t, sn_dim base,
                                 const term *terms, int n);

/* Sizes that decide how it is cut. */
typedef struct winograd_shape {
  int64_t images, size[2]; /* of the results: rows, columns */
  int64_t channels, results;
  int rows, cols; /* of the matmul's panels */
  int threads;
} winograd_shape;

/* Lines (rows of tiles) are counted through all images. A unit has some of them, and all results or a part. */
typedef struct winograd_cut {
  int64_t tiles[2]; /* of an image: lines, and tiles a line */
  int64_t lines;    /* of all images */
  int64_t block;    /* lines of a unit */
  int64_t width;    /* columns of panels that its tiles take: whole panels */
  int64_t step;     /* results that are multiplied at a time: whole panels */
  /* floats */
  int64_t panel, plane;  /* of a unit's patches: from panel to panel, from plane to plane */
  int64_t sums_plane;    /* of its sums */
  int64_t stored;        /* results that go through the epilogue at a time; */
  int64_t stored_floats; /* their pixels */
} winograd_cut;
winograd_shape winograd_shape_of(const matmul_work *w);
winograd_cut winograd_cut_for(const winograd_shape *s);

/* Distance of rows of n results each, in the epilogue's sums: few are best next to each other. */
static inline int64_t winograd_row(int64_t n) {
  return n < CPU_TILE / 2 ? n : (n + MATMUL_LINE - 1) / MATMUL_LINE * MATMUL_LINE;
}

#endif
