/* What the emitters of attention and its gradient share. The rules: src/ops/attention/scores.h.
 *
 * A workgroup works on tiles of scores, `rows` by `columns`; a thread has four of each. Rows of a thread follow each other; its
 * columns are tx, tx + wide, tx + 2 wide, tx + 3 wide (wide = columns / 4), so that neighbours read what lies side by side.
 * Such four columns are a quad; quad q of a row of scores in shared memory is one vector.
 *
 * Queries of the heads that read one kv head are one list of rows, head after head: few queries of many heads fill a tile.
 *
 * Two operations make everything: products of rows with rows (scores), and sums of rows weighted by scores. Both go through
 * shared memory in pieces. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_ATTENTION_H
#define SINEW_DEVICE_VULKAN_EMIT_ATTENTION_H

#include "device/vulkan/emit_borders.h"
#include "device/vulkan/emit_core.h"

enum { ATTENTION_GROUPS = 4 }; /* vectors of a row of results that a thread has, at most */

typedef struct attending {
  const strided *q, *k, *v, *mask, *bias, *kv_length, *sinks;
  bool causal, from_start;
  int64_t window;
  float scale, softcap;
  sn_dim b, hq, hk, sq, skv, d, dv;
  sn_dim rows[2]; /* of a kv head: heads that read it, sq */
} attending;
attending attending_of(const core_part *c);

/* --- tiles --- */

typedef struct tiles {
  int rows, columns, wide, piece; /* piece: vectors of a row that products take at once */
  int groups;                     /* vectors of a row of results that a thread has */
  val pool;                       /* shared: operands, then scores */
  int scores;                     /* where scores begin in the pool */
  val tx, ty;
} tiles;
/* Sizes for a device. few: tiles for a few rows. */
tiles tiles_for(const emitter *e, int rows, int64_t width, int groups_most);
int tiles_threads(const tiles *t);
void tiles_open(emitter *e, tiles *t);
/* How many of so many rows (keys, or queries) that a workgroup would pass over are a part for one, where there are only so many
 * workgroups; 0: all of them. */
int attention_part(const emitter *e, int64_t groups, int64_t rows);
/* Columns of results that a workgroup has. */
static inline int tiles_width(const tiles *t) { return t->groups * t->wide * 4; }
/* Row r (0 … 3) and column c of a thread within the tile. */
val tile_row(emitter *e, const tiles *t, int r);
val tile_column(emitter *e, const tiles *t, int c);

/* Rows of an operand: numbers first … of the list of kv head `kv` (packed: of its queries), those in low … high-1 are there; others
 * read as 0. */
typedef struct row_list {
  const strided *of;
  sn_dim width;
  val b, head; /* the kv head, or the head where not packed */
  bool packed;
  val first, low, high;
} row_list;

/* Four numbers from `column` on of row `number` of the list, which has a row that is there; 0 outside. */
val tile_load_vector(emitter *e, const attending *a, const row_list *l, val number, val column);
/* The same in two steps, with other work between them while the load is under way: as it lies in memory, of that type; then the numbers. */
spirv_id tile_raw_type(emitter *e, const row_list *l);
val tile_load_raw(emitter *e, const attending *a, const row_list *l, val number, val column);
val tile_load_end(emitter *e, const row_list *l, val number, val column, val raw);
/* Rows that are multiples of so many columns and aligned: the address of a column of a row (the nearest one of the list), a multiple of 4;
 * the vector so many columns further, a multiple of 4 too, as it lies in memory; its numbers. */
bool tile_is_whole(const row_list *l, int columns);
val tile_row_address(emitter *e, const attending *a, const row_list *l, val number, val column);
val tile_load_there(emitter *e, const row_list *l, val address, int further);
val tile_numbers(emitter *e, const row_list *l, val raw);
/* n vectors of four numbers of rows to the pool, shared out to the threads; each has some of them under way together. Vector p: its
 * row's number, its column in the operand, its place in the pool. */
typedef struct tile_vector {
  val number, column, at;
} tile_vector;
typedef tile_vector (*tile_find)(emitter *e, const void *user, val p);
void tile_load(emitter *e, const attending *a, const tiles *t, const row_list *l, int n,
               tile_find find, const void *user);

/* acc[r][c] = row r of a · row c of b. */
void tile_product(emitter *e, const attending *a, const tiles *t, const row_list *rows,
                  const row_list *columns, val acc[4][4]);
/* Scores of a thread, to shared memory. Behind a barrier they are there for all. */
void tile_put(emitter *e, const tiles *t, val x[4][4]);
/* sum[r][g] (variables: vectors) += scores in shared memory · rows of the operand, whose columns begin at `start`. careful (bool, the
 * same for all threads): what is weighted with 0 counts nothing, whatever it is. */
void tile_sum(emitter *e, const attending *a, const tiles *t, const row_list *rows, val start,
              val careful, val sum[4][ATTENTION_GROUPS]);
/* A variable of zeros for it. */
void tile_sums_open(emitter *e, const tiles *t, val sum[4][ATTENTION_GROUPS]);
void tile_sums_clear(emitter *e, const tiles *t, val sum[4][ATTENTION_GROUPS]);
/* Does `pass` once, not careful; where one of the n sums is not finite behind it, for any thread, once more, carefully: 0 times infinity
 * is not 0. It clears the sums itself. flags: shared u32 [2 * threads]. */
typedef void (*tile_pass)(emitter *e, void *user, val careful);
void tile_passes(emitter *e, const tiles *t, tile_pass pass, void *user, int n,
                 val (*const sums[])[ATTENTION_GROUPS], val flags);

/* The four numbers of each thread, over the threads of its row of threads; all of them get it. */
typedef val (*tile_fold)(kernel *k, val a, val b);
void tile_rows_fold(emitter *e, const tiles *t, tile_fold fold, val x[4]);

/* --- scores --- */

/* A query: where it stands, and the keys low … high-1 that it sees (but for mask and bias). */
typedef struct query {
  val b, head, i;
  val low, high;
  val there;
} query;
/* Number `at` of the list of a kv head. */
query query_at(emitter *e, const attending *a, val b, val kv, val at);
query query_of_head(emitter *e, const attending *a, val b, val head, val i);
/* Keys that queries first … last of a list see together: none beyond low … high-1. */
void queries_see(emitter *e, const attending *a, val b, val first, val last, val *low, val *high);

/* The score of a query and key j from their product; -inf where masked. slope (may be NULL): its derivative by the product. */
val score_of(emitter *e, const attending *a, const query *q, val j, val product, val *slope);

/* --- forward --- */

typedef struct forward {
  attending a;
  const strided *out, *lse;
  bool few, brief, cut; /* tiles of few rows; the kernel of emit_attention_few.c; keys in parts */
  bool matrix, solo;    /* the kernels of emit_attention_matrix.c, emit_attention_solo_forward.c */
  int64_t least, most;  /* rows of a kv head that it is for */
  int part;             /* keys of a part */
  sn_dim columns;       /* of results; one at least, for the sake of lse */
  int64_t sums,
      facts; /* bytes of scratch, of parts: [b, hk, rows][parts][dv]; maximum and sum: [b, hk, rows][parts][2] */
} forward;

/* A part's number of a row in scratch; what it came to. */
val forward_part_at(emitter *e, const forward *f, val b, val kv, val row, val number);
void forward_put_part(emitter *e, const forward *f, val number, val column, val x);
void forward_put_facts(emitter *e, const forward *f, val number, val max, val sum);
/* The end of a row: what its sums are multiplied with, and its lse. A sink is one more logit of the sum, without a value. */
typedef struct row_end {
  val scale, lse;
} row_end;
row_end forward_end(emitter *e, const forward *f, const query *q, val max, val sum);
/* 0 for -inf: what is subtracted where nothing was seen. */
val forward_base(emitter *e, val max);

/* Adds e->k's launch, for the numbers of rows that it is for. */
sn_status forward_launch(emitter *e, const forward *f, bool after) SN_MUST_USE;
/* The launch that joins parts: emit_attention_join.c. */
sn_status forward_join(emitter *e, const forward *f) SN_MUST_USE;
/* Launches for the keys as a whole, or for parts of them and one that joins those. rows: of a kv head, at most. */
typedef sn_status attend_fn(emitter *e, const forward *f);
sn_status forward_all(emitter *e, forward *f, int64_t rows, attend_fn *make) SN_MUST_USE;

/* Up to FORWARD_FEW rows of a kv head: emit_attention_few.c. Whether the device has room for it. */
bool forward_fits(const emitter *e, const forward *f);
/* e->k is left open, for the caller to add. */
sn_status forward_few(emitter *e, const forward *f) SN_MUST_USE;

#endif
