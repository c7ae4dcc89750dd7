/* Kernels of the region machine: one table an instruction set. What a tile's lanes are: device/cpu/machine.h.
 *
 * Lanes are f32 or i32. Where nothing else is said a kernel may compute up to the next multiple of CPU_LANE_BLOCK lanes, and
 * read its arguments as far. Results may be one of the arguments, lane for lane, but may not overlap them otherwise.
 */
#ifndef SINEW_DEVICE_CPU_ISA_LANES_H
#define SINEW_DEVICE_CPU_ISA_LANES_H

#include "ir/dtype.h"
#include "step/region.h"

/* out = f(a, b, c; x, y), lane by lane. */
typedef void (*lane_alu)(void *out, const void *a, const void *b, const void *c, double x, double y,
                         int n);
/* Of a kernel: arguments of which only lane 0 is read, for all lanes. */
enum { LANE_ONE_A = 1, LANE_ONE_B = 2, LANE_ONE_C = 4 };

/* Elements of a value as lanes: `rows` runs of n elements `by` apart, `row_by` between runs, in elements. Lane r * n + i is
 * element r * row_by + i * by. Exactly rows * n lanes. */
typedef struct lane_block {
  int n, rows;
  int64_t by, row_by;
} lane_block;

typedef struct lane_kernels {
  /* NULL: no such instruction, or not with such arguments. `from` is the dtype of argument a (of b for select). */
  lane_alu (*alu)(alu code, sn_dtype result, sn_dtype from, unsigned ones);
  /* Brings lanes to what a dtype can hold: f16 and bf16 are rounded, u8 wraps. */
  void (*round)(sn_dtype dtype, void *lanes, int n);

  void (*read)(sn_dtype dtype, void *lanes, const void *from, const lane_block *b);
  void (*write)(sn_dtype dtype, void *to, const void *lanes, const lane_block *b);
  /* Dense runs of f32 or i32 past the caches: for results that are larger than these. `fence` once behind the last. */
  void (*stream)(void *to, const void *lanes, const lane_block *b);
  void (*fence)(void);
  /* Elements numbers[i]; 0 where inside (may be NULL) is. */
  void (*gather)(sn_dtype dtype, void *lanes, const void *from, const int64_t *numbers,
                 const uint8_t *inside, int n);
  /* lanes[i] = start + i * by, wrapping; exactly n */
  void (*ramp)(int32_t *lanes, int32_t start, int32_t by, int n);
  /* Numbers of elements, exactly n: v[i] = start + i * by; v[i] += stride * lanes[i], these brought into 0 … mod-1 first
   * (mod 0: not); inside[i] stays where 0 <= v[i] < size and becomes 0 elsewhere. */
  void (*begin_numbers)(int64_t *v, int64_t start, int64_t by, int n);
  void (*add_index)(int64_t *v, const int32_t *lanes, int64_t stride, int64_t mod, int n);
  void (*within)(uint8_t *inside, const int64_t *v, int64_t size, int n);
  void (*scatter)(sn_dtype dtype, void *to, const void *lanes, const int64_t *numbers, int n);

  /* Partial results of the n lanes of one row: LANE_SUMS of them, combined at the end by `total`. f64 for floats, i32
   * for the others. Of n lanes exactly. */
  void (*reduce)(reduce_kind kind, bool floats, void *sums, const void *lanes, int n);
  /* Lane i to partial result i. */
  void (*reduce_wide)(reduce_kind kind, bool floats, void *acc, const void *lanes, int n);
} lane_kernels;

enum { LANE_SUMS = 32 };

#endif
