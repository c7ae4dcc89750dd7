/* Epilogues by whole rows of sums: what most of them are (scales, residuals, activations) without the region machine.
 *
 * Along a row the columns fall into runs, in each of which every access is even: an image is one run, though it has two axes.
 * What is the same all along a run (a channel's scale) is one number there. Loads and stores are mostly the memory itself, and
 * arithmetic goes in chains (isa/lanes.h). Anything else goes through the region machine: checks, registers as indices, loads from
 * places that the epilogue stores to elsewhere.
 */
#ifndef SINEW_DEVICE_CPU_MATMUL_ROWS_H
#define SINEW_DEVICE_CPU_MATMUL_ROWS_H

#include "device/cpu/isa/lanes.h"
#include "device/cpu/matmul.h"

enum {
  ROWS_OPS = 64,             /* instructions, at most */
  ROWS_STEPS = 3 * ROWS_OPS, /* of a chain */
  ROWS_LANES = CPU_TILE      /* columns at a time */
};

/* Where a load or store is. In elements. */
typedef struct row_place {
  char *data;
  sn_dtype dtype;
  int64_t size, count, base, stride[REGION_AXES];
  int64_t by;  /* along a run */
  int64_t at;  /* of the row and run at hand */
  bool copied; /* the epilogue stores there: lanes may not be that memory */
  bool shared; /* other accesses are there too */
} row_place;

typedef struct row_op {
  const instr *i;
  int a, b, c, arguments; /* ops, none of them a STORE */
  lane_alu kernel;        /* of STORE: the cast */
  bool one;               /* the same all along a run: lane 0 is all that is computed */
  bool spread;            /* though one, all lanes hold it */
  bool all_lanes;         /* its kernel wants its arguments so */
  bool rounds;
  bool lent; /* its memory, to one that comes behind its last reader */
  int last;  /* that reads it */
  int readers;
  int into;     /* STORE whose memory it may write; -1: none */
  int chain;    /* the op with which its chain begins; -1: it is in none */
  int from, to; /* steps of the chain that begins here */
  int moves, n_moves;
  struct lane_step *built; /* these steps, but for what moves */
  bool cheap; /* it goes through the matmuls' own kernel, which takes any number of lanes */
  row_place *at;
  void *own;
  const void *lanes;
} row_op;

/* A step of a chain; numbers of ops, -1: none. */
typedef struct row_step {
  int code, with, other, below, to;
} row_step;

/* What changes in a step from run to run: where the lanes of an op are, or go. */
typedef struct row_move {
  const void **at;
  void **to;
  int op;
} row_move;

struct row_epilogue {
  const lane_kernels *kernels;
  const matmul_kernels *matmul;
  int n, n_places, n_steps;
  row_op *ops;
  row_place *places;
  row_step *steps;
  row_move *moves;
  int *ones, *lanes; /* ops that are the same along a run; that are not, each where it is run */
  int n_ones, n_lanes;
  int first;   /* axis of the columns with which a run begins */
  int64_t run; /* columns of it */
  bool cheap;  /* all arithmetic along runs is, in chains */
  bool direct; /* and all of it goes from memory to memory: a run may be as long as it likes */
  void *spare; /* lanes */
};

/* Lanes that are there before all others. */
static inline bool rows_is_early(const row_op *op) {
  return !op->one && (op->i->op == REGION_ACC || (op->i->op == REGION_LOAD && !op->at->copied));
}

/* Steps that chains have at most, with one more for each; moves. */
static inline size_t rows_built_most(size_t n) { return 4 * n; }
static inline size_t rows_moves_most(size_t n) { return 6 * n; }

static inline bool rows_overlap(const row_place *a, const row_place *b) {
  return a->data < b->data + b->count * b->size && b->data < a->data + a->count * a->size;
}

/* matmul_rows_chain.c: chains, of ops that are set. */
void rows_chain(struct row_epilogue *e);
/* matmul_rows_build.c */
/* Values that results take the place of need no copy where they have been read by then. */
void rows_place(struct row_epilogue *e);
/* Steps as they are run; registers are there. */
void rows_build(struct row_epilogue *e, struct lane_step *built);

#endif
