/* Kernels of the region machine: one table an instruction set. What a tile's lanes are: device/cpu/machine.h.
 *
 * Lanes are f32 or i32. Where nothing else is said a kernel may compute up to the next multiple of CPU_LANE_BLOCK lanes, and
 * read its arguments as far. Results may be one of the arguments, lane for lane, but may not overlap them otherwise.
 */
#ifndef SINEW_DEVICE_CPU_ISA_LANES_H
#define SINEW_DEVICE_CPU_ISA_LANES_H

#include "ir/dtype.h"
#include "step/region.h"

#include <stdbool.h>

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

/* Chains: instructions one after the other, each on what the one before left, which stays in vector registers. A step's
 * code is CHAIN_ALU + 8 * an alu + how its other argument comes, or one of those below. */
enum {
  CHAIN_LANES,       /* second argument: lanes of `with` */
  CHAIN_ONE,         /* or one number for all, *with */
  CHAIN_LANES_FIRST, /* the same as the first argument, the second is what the chain holds */
  CHAIN_ONE_FIRST,
  CHAIN_SELF /* both; also what has but one */
};
enum {
  CHAIN_READ,     /* the lanes of `with` */
  CHAIN_READ_ONE, /* one number, *with */
  CHAIN_KEEP,     /* also to lanes at `to` */
  CHAIN_STREAM,   /* the same past the caches: aligned to LANE_ALIGN */
  CHAIN_SUM,      /* into the partial results of one row at `to` */
  CHAIN_MOST,
  CHAIN_LEAST,
  CHAIN_SUM_WIDE, /* lane i to partial result i at `to` */
  CHAIN_PICK, /* what the chain holds where the lane of `with` (i32) is not 0, elsewhere that of `other` */
  CHAIN_PICK_ONE, /* or one number, *other */
  CHAIN_PICK_NOT, /* the other way round */
  CHAIN_PICK_NOT_ONE,
  CHAIN_GATE, /* where what the chain holds is above *with, the lane of `other`, elsewhere *below */
  CHAIN_GATE_ONE, /* or one number, *other */
  CHAIN_ALU = 16
};
enum { LANE_ALIGN = 64 };
typedef void (*lane_function)(void); /* the kernel's own */
typedef struct lane_step {
  lane_function run;
  int code;
  int ahead; /* bytes: lanes so far behind those of `with` will be read soon; 0: not known */
  const void *with, *other, *below;
  void *to;
} lane_step;

/* A loop for a whole chain, over n lanes. Gives what its reduction comes to, if it ends in one. */
typedef double (*lane_row)(const lane_step *steps, int n);

/* Blocks of 32 bits: `rows` runs of n elements, from_by apart; to_by apart in what is written, or where the block is
 * turned the elements of a run are, and those of different runs side by side. */
typedef struct lane_move {
  int n, rows;
  int64_t from_by, to_by;
  bool past; /* the caches, where that is possible */
} lane_move;

/* Of each lane: the number of its word, and the key and counter of the draw (ops/choose/choose.h). */
typedef struct lane_words {
  const int64_t *numbers;
  const uint32_t *low, *high, *counter;
  uint32_t stream;
} lane_words;

typedef struct lane_kernels {
  /* NULL: no such instruction, or not with such arguments. `from` is the dtype of argument a (of b for select). */
  lane_alu (*alu)(alu code, sn_dtype result, sn_dtype from, unsigned ones);
  /* Whether chains have an instruction, of floats that gives floats. */
  bool (*in_chain)(alu code);
  /* There must be room for one step more. */
  void (*chain)(lane_step *steps, int n_steps, int n);
  /* The loop that there is for these steps and so many lanes; NULL: none. Which of KEEP and STREAM it is may change from call
   * to call. `chain` uses it, too. */
  lane_row (*find_row)(const lane_step *steps, int n_steps, int n);
  /* Brings lanes to what a dtype can hold: f16 and bf16 are rounded, u8 wraps. */
  void (*round)(sn_dtype dtype, void *lanes, int n);

  void (*read)(sn_dtype dtype, void *lanes, const void *from, const lane_block *b);
  void (*write)(sn_dtype dtype, void *to, const void *lanes, const lane_block *b);
  /* Dense runs of f32 or i32 past the caches: for results that are larger than these. `fence` once behind the last. */
  void (*stream)(void *to, const void *lanes, const lane_block *b);
  void (*fence)(void);
  void (*copy)(float *to, const float *from, const lane_move *m);
  void (*turn)(float *to, const float *from, const lane_move *m);
  /* Elements numbers[i]; 0 where inside (may be NULL) is. */
  void (*gather)(sn_dtype dtype, void *lanes, const void *from, const int64_t *numbers,
                 const uint8_t *inside, int n);
  /* Random words; exactly n. */
  void (*words)(uint32_t *lanes, const lane_words *w, int n);
  /* lanes[i] = start + i * by, wrapping; exactly n */
  void (*ramp)(int32_t *lanes, int32_t start, int32_t by, int n);
  /* Numbers of elements, exactly n: v[i] = start + i * by; v[i] += stride * lanes[i], these brought into 0 … mod-1 first
   * (mod 0: not); v[i] += stride * ((at + i) / div % mod) (mod 0: not); inside[i] stays where 0 <= v[i] < size and becomes 0
   * elsewhere. */
  void (*begin_numbers)(int64_t *v, int64_t start, int64_t by, int n);
  void (*add_index)(int64_t *v, const int32_t *lanes, int64_t stride, int64_t mod, int n);
  void (*add_divided)(int64_t *v, int64_t stride, int64_t at, int64_t div, int64_t mod, int n);
  void (*within)(uint8_t *inside, const int64_t *v, int64_t size, int n);
  void (*scatter)(sn_dtype dtype, void *to, const void *lanes, const int64_t *numbers, int n);

  /* Partial results of the n lanes of one row: float_sums of them in f64 for floats, LANE_SUMS in i32 for the others, of n
   * lanes exactly. What comes of them is combined by halves. */
  int float_sums;
  double (*total)(reduce_kind kind, const double *sums); /* of float_sums of them; not products */
  void (*reduce)(reduce_kind kind, bool floats, void *sums, const void *lanes, int n);
  /* Lane i to partial result i. */
  void (*reduce_wide)(reduce_kind kind, bool floats, void *acc, const void *lanes, int n);
} lane_kernels;

enum { LANE_SUMS = 32 };

#endif
