/* What a step becomes on a GPU: launches, each of one shader on one or many parts. Emitters (emit.h) make them from steps,
 * once, without a device; the device (device.c) makes pipelines of the shaders, fills the launches' parameter blocks
 * whenever sizes or addresses change, and records the dispatches.
 *
 * A shader knows no size and no address: it reads 64-bit slots of its parameter block. So parts of one form share a
 * shader, whatever their extents, and nothing is recorded again when a size changes.
 *
 * A launch's block, in 64-bit words, bound as one uniform buffer (set 0, binding 0, dynamic offset):
 *   word 0         low half: workgroups of the launch; high half: its number of parts
 *   word 1         low half: the word at which the parts' slots begin; high half: words from part to part. Both are even.
 *   words 2 to 5   what the launch waits for and who waits for it, where the target `chains` (chain.c): the address of the counter
 *                  that must have reached a number; the address of the one that each of its workgroups adds 1 to, 0: none; low half: that number, 0: it
 *                  need not wait; high half: how many times it looks at most; the address of what is set to 1 if it has waited in vain
 *   word 6 on      where the shader is `merged`: by part, in the low half, its first workgroup; one word of padding if odd
 *   then           the slots of each part
 * A workgroup's number is y * (groups along x) + x; those at or above the launch's count do nothing.
 */
#ifndef SINEW_DEVICE_VULKAN_LAUNCH_H
#define SINEW_DEVICE_VULKAN_LAUNCH_H

#include "plan/program.h"

enum {
  BLOCK_AWAITED = 2 /* words */,
  BLOCK_RAISED,
  BLOCK_NUMBER,
  BLOCK_IN_VAIN,
  BLOCK_HEADER,
  CHAIN_MOST = 8, /* workgroups of a unit, of those who are waited for: chain.c */
  LAUNCH_PARTS = 1024,
  LAUNCH_GRID = 4,
  LAUNCH_GROUPS_X = 65535
};

/* ceil(product of the dims / tile); a plain size is one dim over tile 1, a number is a dim too. */
typedef struct amount {
  int n, tile;
  const sn_dim *dims;
} amount;

typedef enum slot_kind {
  SLOT_AMOUNT, /* `of` */
  SLOT_INVERSE, /* for dividing numbers below 2^31 by `of`, at least 1: low half m, high half s, such that
                   x / of = (high half of x * m + x) >> s */
  SLOT_ADDRESS, /* of value `value` */
  SLOT_SCRATCH, /* of byte `byte` of the step's scratch memory */
  SLOT_KEPT,    /* of byte `byte` of the memory that the plan keeps from run to run */
  SLOT_NUMBER,  /* `byte`: the bits of a number that is no size */
  SLOT_ZEROS,   /* of 16 bytes that are 0 */
  SLOT_FAILURES /* of the table of failures: two 32-bit words a site, 0 until one fails: 1, and the number to show */
} slot_kind;
typedef struct slot {
  slot_kind kind;
  uint32_t value;
  int64_t byte;
  amount of;
} slot;

typedef struct shader {
  const uint32_t *words;
  size_t n_words;
  uint64_t hash;
  int threads;  /* of a workgroup */
  bool merged;  /* finds its part by its workgroup's number; otherwise a launch has one part */
  int subgroup; /* that it was made for; 0: any */
} shader;

typedef struct launch_part {
  int n_slots;
  const slot *slots;
  int n_grid;
  amount grid[LAUNCH_GRID]; /* workgroups: the product */
  /* It runs only where least <= amount <= most: variants of a step for few and for many rows. when.n 0: always. */
  amount when;
  int64_t least, most;
} launch_part;

typedef struct launch {
  const shader *code;
  bool after; /* the launches of this step before it must be done and visible */
  bool
      kept; /* it is no part of the step, but of `prepare`: it makes kept memory from values that stay as they are */
  int n_parts;
  const launch_part *parts;
} launch;

typedef struct step_launches {
  int n;
  const launch *launches;
  int64_t
      scratch_bytes; /* at the symbols' maxima; no other step that may run at once may have them: launches.c */
} step_launches;

/* What emitters may count on. Filled from the device's limits; tests fill it by hand. */
typedef struct gpu_target {
  int subgroup;     /* threads; 8, 32, 64 */
  int max_threads;  /* of a workgroup; at least 128 */
  int shared_bytes; /* of a workgroup; at least 16 KiB */
  int block_bytes;  /* of a parameter block; at least 16 KiB */
  int units; /* that work side by side (multiprocessors); a guess where the driver does not tell */
  bool f16, bf16; /* cooperative matrices of these with f32 sums; see `matrix` */
  int matrix[3];  /* their m, n, k */
  /* Which elements threads have is known: of matrices of f16, of bf16; see kernel_matrix.h */
  bool places, bf16_places;
  bool keeps_nan; /* float controls: NaN, infinities and signed zeros survive */
  bool
      chains; /* workgroups begin in the order of launches, so that one may wait for another: kernel_chain.c */
} gpu_target;

/* The even number of words that a merged launch's list of first workgroups takes, and a part's slots. */
static inline int block_even(int words) { return words + (words & 1); }
int64_t amount_at(const amount *a, const int64_t *sizes);
bool amount_equal(const amount *a, const amount *b);
bool amount_varies(const amount *a); /* with symbols */
/* Whether how many workgroups a launch has depends on symbols; how many a part has where it does not. */
bool launch_varies(const launch *l);
int64_t part_fixed_groups(const launch_part *p);
/* The slot's word but for kinds that are addresses. */
uint64_t slot_inverse(int64_t by);

#endif
