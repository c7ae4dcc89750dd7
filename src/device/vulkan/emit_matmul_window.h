/* Convolutions of stride 1 with windows of several places, by cooperative matrices, from images that stay in shared memory
 * while the window moves over them.
 *
 * Rows of the result are places of a grid: the images' pixels, row after row and image after image, with so many empty
 * places behind each row, and rows behind each image, that a window never reaches pixels that are not its own. So what a
 * place of the window adds is one distance in that grid, and the operand of all its places is the same block of memory, seen
 * from different rows on. Of 16 channels at a time a workgroup loads the pixels of its tile and those around it once, and the
 * weights of all places.
 *
 *   emit_matmul_window_find.c   which parts these are, and their numbers
 *   emit_matmul_window_load.c   images and weights into shared memory
 *   emit_matmul_window.c        the kernel
 */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_WINDOW_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_WINDOW_H

#include "device/vulkan/emit_matmul_matrix.h"

enum {
  WINDOW_ROWS = 128, /* of a tile */
  WINDOW_COLUMNS = 32,
  WINDOW_CHANNELS = 16, /* at a time */
  WINDOW_PLACES = 9,    /* of a window, at most */
  WINDOW_SUBGROUPS = 4,
  WINDOW_MOST_ROWS = 288 /* of images in shared memory */
};

/* Axes y and x: 0 and 1. A pixel of the image at place j of the window is pixel + offset + step * j. */
typedef struct window_axis {
  sn_dim out, in, grid; /* pixels of the result, of the image; places of the grid */
  int64_t places, offset, step;
  sn_dim image, weight; /* strides: from pixel to pixel, from place to place of the window */
} window_axis;

typedef struct conv_window {
  const access *image, *weight;
  window_axis axis[2];
  sn_dim images, channels, columns;
  sn_dim base;                         /* of pixel 0, 0 of the first image */
  sn_dim image_stride, channel_stride; /* of images */
  sn_dim weight_channel, weight_column;
  sn_dim grid[3]; /* images, rows, columns of the grid */
  sn_dim lowest;  /* the first place that the window of place 0 of the grid reaches */
  int rows; /* of images that a tile needs: one of a few numbers, so that few shaders serve all sizes */
} conv_window;

static inline int window_places(const conv_window *w) {
  return (int)(w->axis[0].places * w->axis[1].places);
}
/* How far place `number` of the window is from the lowest one. */
int64_t window_shift(const conv_window *w, int number);
/* Whether a part is one; its batch axes are rows where they can be. */
bool window_find(const emitter *e, const matmul_part *p, conv_window *out);

/* The part in this way, if it is one, the target has the matrices and products of halves are allowed. */
bool window_fits(const emitter *e, const matmul_part *p);
/* Cycles that it takes, roughly. */
double window_cost(const emitter *e, const matmul_part *p);
sn_status emit_window(emitter *e, const matmul_part *p) SN_MUST_USE;

/* --- a kernel --- */

enum {
  WINDOW_PAIRS = WINDOW_CHANNELS / 2,   /* words of a line's halves */
  WINDOW_FRAGMENTS = 2,                 /* of a subgroup along each side */
  WINDOW_MATRIX = 16,                   /* of a matrix, all its sides */
  WINDOW_LINES = WINDOW_MOST_ROWS / 16, /* of images that a thread has, at most */
  WINDOW_BLOCK = WINDOW_ROWS + 4        /* words from column to column of sums */
};

typedef struct windows {
  matmul m;
  conv_window w;
  int threads, stride, weights; /* words from line to line; the word at which weights begin */
  spirv_id type[3];
  val words, subgroup;
  val from, to;  /* channels */
  val row, pair; /* this thread's first line, and its pair of channels of all lines */
  val at
      [WINDOW_LINES]; /* by line of images: the element of the first channels; below 0: it is empty */
  val weight[WINDOW_LINES], to_word[WINDOW_LINES]; /* by line of weights: the same; its word */
  half_panel panel[2]; /* images, weights: their two channels of each line, as variables */
  val total[WINDOW_FRAGMENTS][WINDOW_FRAGMENTS], wild; /* variables; wild: there was an infinity */
} windows;

/* Words from place to place of weights: places lie in different banks too. */
static inline int window_plane(int stride) { return WINDOW_COLUMNS * stride + 4; }
static inline int window_words(const conv_window *w, int stride) {
  int panels = w->rows * stride + window_places(w) * window_plane(stride) + 2 * WINDOW_SUBGROUPS;
  return panels > WINDOW_COLUMNS * WINDOW_BLOCK ? panels : WINDOW_COLUMNS * WINDOW_BLOCK;
}

/* Place q of the grid as image, row and column; whether there is such a pixel of the result, or of an image. */
val window_place(windows *t, val q, bool out, val place[3]);
/* Lines that a thread has. */
int window_image_lines(const windows *t);
int window_weight_lines(const windows *t);
void window_place_images(windows *t);
void window_place_weights(windows *t);
/* 16 channels from one on: their loads begin; are waited for, and count for the scales; the scales, behind a barrier; halves to
 * shared memory. */
void window_load(windows *t, val channel);
void window_settle(windows *t);
void window_choose_scales(windows *t);
void window_store(windows *t);

#endif
