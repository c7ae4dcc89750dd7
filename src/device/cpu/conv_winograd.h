/* Convolutions of 3 x 3 kernels with fewer products: Winograd's F(2 x 2, 3 x 3), for weights that are kept.
 *
 * 2 x 2 results need 36 products a channel; of their patch d of 4 x 4 pixels and the kernel g, both transformed, 16 are enough:
 *   Y = A' [sum over channels of (G g G') * (B' d B)] A
 *
 *        1  0 -1  0          1    0    0
 *   B' = 0  1  1  0    G =  1/2  1/2  1/2    A' = 1  1  1  0
 *        0 -1  1  0         1/2 -1/2  1/2         0  1 -1 -1
 *        0  1  0 -1          0    0    1
 *
 * The sums over channels are 16 matmuls, one a plane: [results x channels] by [channels x tiles]. Weights are transformed
 * once, in f64, and kept in place of their usual panels. A unit transforms the patches of some lines of tiles, multiplies and transforms back
 * what then goes through the epilogue, while all of it is in the second or third cache.
 *
 * Rounding: transforms only add, and the sums over channels are those of matmuls (isa/matmul.h: chunks of 16), but of terms that are
 * larger than their sum. Errors are 1.4 to 1.6 times those of plain sums (tests/device/cpu/test_conv_winograd.c: at most
 * twice). F(4 x 4, 3 x 3) would need 36 products for 16 results, but its matrices hold numbers up to 8, which cost digits.
 *
 * Only weights that no run changes and that no later step reads are kept so: where gradients are computed, they read them
 * again, and there rounding may decide which units of a deep net are on.
 */
#ifndef SINEW_DEVICE_CPU_CONV_WINOGRAD_H
#define SINEW_DEVICE_CPU_CONV_WINOGRAD_H

#include "device/cpu/matmul.h"

/* Whether the weights of a part of a step are kept so, which follows from the program alone: floats that this takes, or 0. */
int64_t winograd_kept(const program *p, const step *s, const matmul_part *t);
/* Fills them, all threads together. */
void winograd_keep(cpu_run *r, const matmul_part *t, float *kept);

/* Whether such a part is computed so with the sizes of this run. */
bool winograd_pays(const matmul_work *w);
/* Scratch that it takes, at most, beside what every part does. */
size_t winograd_need(const program *p, const step *s, const matmul_part *t);
sn_status winograd_run(matmul_work *w) SN_MUST_USE;

/* --- inside --- */

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
