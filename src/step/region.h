/* Region programs: small straight-line programs over an index space. What is fused into a step (prologues, epilogues,
 * whole pointwise and row computations) is said in this one form: devices run it, the verifier executes it
 * symbolically.
 *
 * An index space is a list of axes with extents; a point has one coordinate an axis. Each instruction defines one
 * register, named by the instruction's place. A register holds one lane a point: f32 for float dtypes, i32 for
 * the others.
 *
 * Sizes are sn_dim: a number, or a handle of the program's expressions, whose value for the run's symbols stands in a
 * table (size_at). So one region serves all sizes.
 */
#ifndef SINEW_STEP_REGION_H
#define SINEW_STEP_REGION_H

#include "ir/dim.h"

enum {
  REGION_AXES = 16,
  REGION_MAX = 2048 /* instructions */,
  ACCESS_TERMS = 16,
  ACCESS_CHECKS = 6
};

/* The value of a size; `sizes` holds the values of all expressions, by handle. */
static inline int64_t size_at(const int64_t *sizes, sn_dim d) {
  return dim_is_number(d) ? d : sizes[DIM_HANDLES - d];
}

typedef uint16_t reg;

typedef enum alu {
  ALU_none,
#define ALU(name, arguments, meaning) ALU_##name,
#include "step/alu.def"
  ALU_COUNT
} alu;
typedef struct alu_info {
  const char *name, *meaning;
  int arguments;
} alu_info;
extern const alu_info alu_table[ALU_COUNT];

/* One summand of an index: stride * ((i / div) % mod), i being the point's coordinate along `axis`; mod 0: no
 * remainder is taken. With axis TERM_REG: stride * register, an i32 that is first clamped to 0 … mod-1 (what an
 * out-of-range index reads does not matter: a `require` elsewhere fails the run); mod 0 is an axis without
 * elements, from which a load gives 0. */
enum { TERM_REG = 255 };
typedef struct term {
  uint8_t axis;
  reg from; /* TERM_REG */
  sn_dim stride, div, mod;
} term;

/* A coordinate that may lie outside: v = offset + terms. It passes where divisor divides v and 0 <= v / divisor < size
 * (divisor > 1 is for the gradients of strided convolutions). */
typedef struct check {
  int n_terms;
  const term *terms;
  sn_dim offset, size, divisor;
} check;

/* The element base + terms of a value, counted as they stand in memory. A load of which a check fails gives 0 and touches nothing. Stores
 * have no checks; one through a register writes part of a value, which is in place of its base and keeps the rest
 * (update_slice). */
typedef struct access {
  uint32_t
      value; /* of the program; 0: none, the access is a number (REGION_INDEX, REGION_INSIDE) */
  sn_dim base;
  int n_terms, n_checks;
  const term *terms;
  const check *checks;
} access;

typedef enum region_op {
  REGION_LOAD, /* element `at` of a value */
  REGION_STORE, /* register a to element `at`, converted to the value's dtype; the register it defines is a */
  REGION_INDEX,  /* i32: the number base + terms of `at` */
  REGION_INSIDE, /* bool: all checks of `at` pass */
  REGION_NUMBER, /* x */
  REGION_SIZE,   /* the size `size` as i32 or f32 */
  REGION_ALU,    /* alu(a, b, c; x, y) */
  REGION_WORD, /* i32: word `at` (its number, 64 bits) of the random stream x, with the key registers a, b and
                     counter c (src/ops/choose/choose.h) */
  REGION_REDUCE, /* a over the inner axes: row-level; see step.h */
  REGION_ACC,    /* accumulator number `index` of a matmul part: epilogues only */
  REGION_REQUIRE /* the bool a must be true: otherwise the run fails with the message of site `index` of the program; b is an i32
                     to show in it. Defines a. */
} region_op;

typedef enum reduce_kind {
  REDUCE_SUM, /* of f32: in f32 or better, in an order fixed by the extents; of i32: wraps */
  REDUCE_PROD,
  REDUCE_MAX, /* NaN wins; -inf (INT32_MIN) over nothing */
  REDUCE_MIN, /* NaN wins; +inf (INT32_MAX) over nothing */
  REDUCE_ANY,
  REDUCE_ALL
} reduce_kind;

typedef struct instr {
  uint8_t op;    /* region_op */
  uint8_t code;  /* alu or reduce_kind */
  uint8_t dtype; /* sn_dtype of what it defines */
  uint8_t phase; /* of a row part */
  bool row;      /* once a row, not once a point */
  reg a, b, c;
  uint32_t index;
  sn_dim size;
  double x, y;
  access at;
} instr;

typedef struct region {
  int n;
  const instr *code;
} region;

static inline bool instr_is_float(const instr *i) {
  return i->dtype == SN_F32 || i->dtype == SN_F16 || i->dtype == SN_BF16;
}
/* How many of a, b, c an instruction reads. */
int instr_arguments(const instr *i);

#endif
