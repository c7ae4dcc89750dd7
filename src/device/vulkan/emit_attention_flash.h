/* Attention of many rows and columns by subgroups that work alone, on operands that a launch before has packed: as halves, in the order
 * in which threads have the elements of matrices (kernel_matrix.h), so that 16 bytes of memory are a thread's share of a
 * matrix. Nothing goes through shared memory, nobody waits. Subgroups of a workgroup have neighbouring rows and read the same
 * columns at about the same time, which caches see to.
 *
 * A subgroup has 16 rows (queries, or keys for their gradients), and passes over columns (keys, or queries) in steps. The scores'
 * sums become the operand of the next product as they stand.
 *
 * Halves are bf16, of f32's range: a number is a half and the half of what it leaves, 16 bits together; products are sums of three
 * products of halves, in f32. With `half` only the first halves count. Nothing is scaled.
 *
 * What is not finite makes results that are not finite: the workgroup sees that and does its block again, in plain f32.
 *
 * This is for scores that are products times the scale, but for who sees whom: no bias, mask, cap. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_ATTENTION_FLASH_H
#define SINEW_DEVICE_VULKAN_EMIT_ATTENTION_FLASH_H

#include "device/vulkan/emit_attention_plain.h"

enum {
  FLASH_SIDE = 16, /* rows of a tile */
  FLASH_STEP = 64, /* lists of rows are padded to multiples of it */
  FLASH_TEAM = 4,  /* subgroups of a workgroup */
  FLASH_ROWS = FLASH_TEAM * FLASH_SIDE,
  FLASH_LEAST = 32,  /* rows that are worth it */
  FLASH_MATRICES = 8 /* of a row of operands, at most: 128 numbers */
};

typedef struct flash {
  emitter *e;
  const attending *a;
  int halves; /* of a number: 2, or 1 */
  spirv_id type[3];
  val number, lane; /* of the subgroup in its workgroup; of the thread in its subgroup */
  val g, t;         /* the thread is 4 g + t */
} flash;

/* Whether it can be done so at all. */
bool flash_fits(const emitter *e, const attending *a);
/* In an open kernel of FLASH_TEAM subgroups, before anything else. */
void flash_open(flash *f, emitter *e, const attending *a);
/* The thread's columns of scores, as sums have them: 2 t + 0, 1, 8, 9. */
val flash_column(const flash *f, int i);

/* --- packed operands --- */

/* The rows of an operand of all entries and kv heads. Along: k is along the rows. A tile has `n` matrices of 16 numbers of its 16 rows; a
 * thread has four neighbours of rows g and g + 8 of each. Across: k is the rows, and the matrices 2 i, 2 i + 1 have 32 columns:
 * of what they make a thread has eight neighbours, from 8 t on. */
typedef struct flash_operand {
  const strided *of;
  sn_dim width;
  bool queries, across;
  int n;
  int64_t byte; /* of scratch */
} flash_operand;
/* Takes memory. */
flash_operand flash_operand_of(emitter *e, const attending *a, const strided *of, bool queries,
                               bool across);
static inline int flash_columns(const flash_operand *o) { return o->n * FLASH_SIDE; }

/* Whether lists of queries and of keys are equally long, for any symbols. */
bool flash_same_lists(const attending *a);
/* A kernel that packs n operands, whose lists are equally long. Its caller adds it. more (may be NULL): what else is to be made of 16
 * rows from `first` on of a list; every subgroup gets there once for each. */
typedef void (*flash_more)(const flash *f, void *user, val b, val kv, val first);
sn_status flash_pack(emitter *e, const attending *a, int n, const flash_operand *o, flash_more more,
                     void *user) SN_MUST_USE;

/* The padded rows of all lists before that of an entry's kv head. */
val flash_list_start(const flash *f, bool queries, val b, val kv);
/* 2^power times a number, as bytes behind an address. */
val flash_behind(const flash *f, val address, val x, int power);
/* The thread's address of a list, of the tile of row `first` (a multiple of 16) of it; matrix `number` of that. */
val flash_address(const flash *f, const flash_operand *o, val b, val kv);
val flash_tile(const flash *f, const flash_operand *o, val address, val first);
void flash_matrix(const flash *f, int use, const flash_operand *o, val tile, int number,
                  val out[2]);

/* --- the course of a step --- */

enum { FLASH_LISTS = 4, FLASH_STAGES = 24, FLASH_AHEAD = 1 };

/* A step is stages, each with two matrices b from packed operands at most, which are on their way while FLASH_AHEAD stages before it are
 * done, also those of the next step. More of that takes registers, and was no faster. */
typedef struct flash_course {
  int n_lists, n;
  const flash_operand *o[FLASH_LISTS];
  val at[FLASH_LISTS]; /* addresses */
  struct flash_stage {
    int n;
    struct flash_source {
      int list, further, number; /* further: tiles behind the first of the step */
    } of[2];
  } stages[FLASH_STAGES];
  /* made by the functions below */
  val held[FLASH_AHEAD][2][2]; /* variables: words of the next stages */
  val tile[2][FLASH_LISTS];    /* of this step and the next */
  val words[FLASH_STAGES + FLASH_AHEAD][2][2];
} flash_course;
void flash_add_stage(flash_course *c, int n, const struct flash_source *of);
/* Before the loop. `first`: of the first step, where there is one. */
void flash_course_open(const flash *f, flash_course *c, val first, val there);
/* Where the loop does not do a step, but goes on with another. */
void flash_course_skip(const flash *f, flash_course *c, val next);
/* Of the loop's body. next: the step that follows, or any. */
void flash_course_begin(const flash *f, flash_course *c, val first, val next);
void flash_course_use(const flash *f, flash_course *c, int number, val out[2][2]);
void flash_course_end(const flash *f, flash_course *c);

/* --- products --- */

/* The thread's elements as an operand a. */
void flash_weights(const flash *f, const val x[MATRIX_ELEMENTS], val out[2]);
/* sum[i] += a[i] · b[i]; neighbouring instructions are for different sums. */
void flash_multiply(const flash *f, int n, const val *const *a, const val *const *b, val *sum);

/* Whether the number of any thread of the workgroup is not finite. words: shared, one a subgroup. A barrier stands within. */
val flash_any_odd(const flash *f, val words, val x);
/* Four neighbours, number `i` (0, 1) of row g + 8 r, of the 32 columns that two matrices have made. */
void flash_neighbours(val (*sum)[MATRIX_ELEMENTS], int r, int i, val out[4]);

/* --- kernels --- */
bool forward_flash_fits(const emitter *e, const forward *f);
/* All launches. */
sn_status forward_flash(emitter *e, forward *f, int64_t rows) SN_MUST_USE;

#endif
