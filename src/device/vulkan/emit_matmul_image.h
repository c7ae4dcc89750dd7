/* Convolutions of packed operands (emit_matmul_packed.h) without a copy of every window: the image itself is packed, once, and a window's
 * place is a distance in it.
 *
 *   emit_matmul_image.c        which parts these are, and their numbers
 *   emit_matmul_image_pack.c   the launches that pack an image
 *
 * k of such a part is made anew: blocks of 16 channels, then the window's places, then the channels of a block. A line is 16 channels of a
 * pixel, 64 bytes as in packed blocks: [channel / 16][image][y][x], with as many empty lines around each image as windows reach beyond it, so
 * that no place needs a check. Lines that a fragment meets are any pixels, so there is one power of two for the whole image (A in the bound of
 * errors of emit_matmul_matrix.h is then the image's largest magnitude), found by a launch of its own: every workgroup leaves the largest
 * magnitude that it has seen, and those that pack look at all of them.
 */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_IMAGE_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_IMAGE_H

#include "device/vulkan/emit_matmul.h"

enum { IMAGE_CHANNELS = 16, IMAGE_LINE = 64 /* bytes */, IMAGE_MAXIMA = 256 };

/* y or x: the pixel at row coordinate i and place j of the window is offset + step * i + place * j. */
typedef struct image_axis {
  int row, k; /* axes of the part; -1: none */
  sn_dim size;
  int64_t offset, by_row, by_place;
  sn_dim stride; /* elements from pixel to pixel */
  int64_t before;
  sn_dim grid; /* lines before the first pixel; lines in all */
} image_axis;

typedef struct packed_image {
  uint32_t value;
  sn_dim count; /* of its elements */
  image_axis axis[2];
  sn_dim image_stride, channel_stride;
  sn_dim lines, blocks;       /* of all images; of 16 channels */
  sn_dim maxima;              /* workgroups that look for the largest magnitude */
  int64_t at, exponent, seen; /* scratch memory: lines, their exponent, what those have seen */
  /* A row's line at the first place, and what a place adds: sums over the axes of the part with k made anew. */
  sn_dim base;
  int n_rows, n_places;
  term rows[3], places[3];
} packed_image;

/* The same part with k made anew, and its image; *out_part is p where operand a is no image. Memory of the emitter. */
sn_status image_find(emitter *e, const matmul_part *p, const matmul_part **out_part,
                     packed_image **out) SN_MUST_USE;
/* Whether it is one; its elements, 0 where it is none. */
bool image_fits(const emitter *e, const matmul_part *p);
int64_t image_elements(const emitter *e, const matmul_part *p);
/* The launches that pack it; takes the memory. */
sn_status emit_image(emitter *e, packed_image *of, const amount *when, int64_t least,
                     int64_t most) SN_MUST_USE;

#endif
