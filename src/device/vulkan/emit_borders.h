/* Sizes at which cores change their way. They stand here so that tests run each core on both sides of every one
 * (tests/support/borders.c): a way that has no border there is not tested. Rows and reductions have other numbers of threads and
 * points at every power of two, products at those of matmul_tiles and few_shape. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_BORDERS_H
#define SINEW_DEVICE_VULKAN_EMIT_BORDERS_H

/* emit_order.c: items of a block, at most and at least; runs that are merged at once; so many are "the first few". */
enum { ORDER_BLOCK = 2048, ORDER_BLOCK_LEAST = 64, ORDER_WAYS = 4, ORDER_FEW = 512 };

/* emit_scan.c: a line that one thread takes; lines next to each other that a workgroup takes, and how many there must be for that;
 * elements of a thread in a tile; tiles of a chunk. */
enum { SCAN_SHORT = 64, SCAN_LANES = 32, SCAN_LANES_LEAST = 8, SCAN_EACH = 8, SCAN_TILES = 8 };

/* emit_scatter.c: entries that are not put in order; entries of a chunk, and of those whose loads are under way together. */
enum { SCATTER_FEW = 128, SCATTER_CHUNK = 64, SCATTER_TOGETHER = 4 };

/* emit_sample.h: ids of a thread in a tile. */
enum { SAMPLE_EACH = 16 };

/* emit_attention.c: rows of a block, of one for few rows; rows of a kv head that are few, that are very few; parts of the keys. */
enum {
  ATTENTION_ROWS = 64,
  ATTENTION_ROWS_FEW = 16,
  ATTENTION_FEW = 64,
  FORWARD_FEW = 8,
  ATTENTION_PARTS = 64
};

#endif
