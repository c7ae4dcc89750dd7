/* The verifier's rooms and what they share. plan_verify (verify.c) proves a program against its lowered graph:
 *
 *   verify_code.c     each region is well formed: registers, phases, axes
 *   verify_size.c     sizes are such as devices may compute with; no part works for nothing
 *   verify_leaf.c     values, inputs, outputs and states are those of the graph
 *   verify_memory.c   replay in order on bytes: what each read finds, who may write what
 *   verify_hazard.c   what may happen at the same time: parts of a step, steps between two barriers, in place
 *   verify_access.c   accesses stay in their values, under a set of bindings
 *   verify_cover.c    stores write each element of a value once
 *   verify_symbol.c   expressions as hashes: equal exactly when the same is computed
 *   verify_part.c     steps executed to such hashes, at sampled points; verify_region.c: one region
 *   verify_graph.c    the same elements from the graph; verify_element.c: one of them, through the op table's `element`
 *   verify_core.c     steps with an algorithm of their own: operands, results, numbers
 *   verify_require.c  what a run must check
 *
 * Nothing here trusts the planner's passes or shares code with them. All memory is one arena and lives for one call.
 */
#ifndef SINEW_PLAN_VERIFY_H
#define SINEW_PLAN_VERIFY_H

#include "ops/table.h"
#include "plan/plan.h"
#include "step/element.h"

enum {
  MEMO_SIZES = 24,
  VERIFY_LANES = 64,
  VERIFY_SAMPLES = 4,
  VERIFY_AXES = REGION_AXES + SN_MAX_RANK
};

/* --- expressions (verify_symbol.c) --- */

/* What a register holds, as the hash of its expression; or a number that is known. Where elements lie may depend on integers that are
 * not known: for that they are taken to be numbers, which follow from their hash and the case at hand, for the program and
 * the graph alike. */
typedef struct sym {
  uint64_t hash;
  double number;
  bool known;
  bool
      nothing; /* comes from what an index picks along an axis without elements: the run is refused, and it may be anything */
  uint8_t dtype;   /* the narrowest that is known to hold it */
  uint8_t in_case; /* 0: any, it is a number */
  int32_t taken;
} sym;

static inline uint64_t hash_mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ (h >> 29);
}
uint64_t hash_real(uint64_t h, double x);
sym sym_number(sn_dtype dtype, double x);
sym sym_nothing(sn_dtype dtype);
/* A part is proved in cases, if anything in it is read where integers say that are not known. */
typedef struct verify_cases {
  int at, n;
  bool asked; /* such an integer was used */
} verify_cases;
void cases_start(verify_cases *c);
/* `few` cases will do. False after the last. */
bool cases_next(verify_cases *c, bool few);
/* An integer as a coordinate below size; 0 where there is none such. */
int64_t cases_index(verify_cases *c, sym index, int64_t size);

sym sym_load(const verify_cases *c, uint32_t source, sn_dtype dtype, int64_t at);
sym sym_cast(sn_dtype dtype, sym a);
sym sym_alu(alu code, sn_dtype dtype, const sym *in, double x, double y);
sym sym_word(double stream, const sym *in, int64_t at);
/* `bodies` are those at reduce_samples of `count`. */
sym sym_reduce(reduce_kind kind, sn_dtype dtype, int64_t count, const sym *bodies);
/* The points at which reductions over `count` points are compared: first, last and two others; how many. */
int reduce_samples(int64_t count, int64_t out[VERIFY_SAMPLES]);
/* Whether a check passes at a coordinate. */
static inline bool check_passes(int64_t at, int64_t size, int64_t divisor) {
  divisor = divisor < 1 ? 1 : divisor;
  return at >= 0 && at % divisor == 0 && at / divisor < size;
}

/* --- the verifier --- */

/* One read or write of a step. */
typedef enum use_place { USE_LOOP, USE_OPERAND, USE_EPILOGUE, USE_CORE, USE_CORE_BASE } use_place;
typedef struct use {
  uint32_t value;
  bool store;
  use_place place;
  int part, at;                  /* at: instruction in its region */
  const matmul_product *product; /* of an operand */
  const instr *code;             /* NULL: a core's */
  const strided *core;           /* NULL: a region's */
} use;

/* Remembered elements of the graph; those of an earlier part count as absent. */
typedef struct memo_entry {
  uint64_t key;
  uint32_t serial;
  uint32_t missing; /* the attempt in which something below it was put off; 0: it is known */
  sym is;
} memo_entry;

typedef struct verifier {
  const program *p;
  sn_graph *g;
  sn_ctx *ctx;
  arena memory;
  sn_status status;   /* the first error of what returns none */
  bool *live;         /* by node of g */
  uint32_t *assigned; /* by state of the program: the value that it gets, or 0 */
  use *uses;          /* of all steps */
  int *uses_from;     /* by step: n_steps + 1 places in uses */
  int *step_of;       /* by use */
  int *store_head,
      *store_next; /* by value, by use: the stores of a value, as use + 1; 0: no more */
  int n_uses;
  /* under one set of bindings */
  const int64_t *bindings;
  bool again; /* not the first such set: fewer points will do */
  int64_t *sizes;
  bool numbers;   /* types and attributes are in numbers */
  sn_type *types; /* of the values of g */
  struct node_numbers
      *nodes; /* of g: attributes and argument types in numbers, where they were asked for */
  arena bound;
  /* the part at hand */
  uint32_t serial;
  uint32_t *loaded;     /* by value of g: the serial of the part that loads it */
  uint32_t *part_loads; /* these */
  int n_part_loads;
  uint32_t *seen_through; /* the same of views that it loads, as it loads what they show */
  uint32_t *shows;        /* by value of g: the value that it is a view of; 0: it is none */
  memo_entry *memo, *memos[MEMO_SIZES];
  int memo_size;
  size_t n_memo, cap_memo;
  struct wide *regs; /* of elements being executed, a stack */
  int n_regs;
  int depth;
  struct put_off *put_off; /* elements too deep to execute at once */
  int n_put_off, cap_put_off;
  uint32_t attempt;
  bool missing; /* something was put off */
  verify_cases cases;
  bool demanding; /* the next element says what it requires */
  uint64_t
      demanded;  /* arguments that this depends on, a bit each; the others need not be looked at */
  int perturbed; /* an argument that is to look different, counted from 1; 0: none */
  sym *lanes, *operand_lanes; /* registers of regions: [instruction][lane] */
  size_t cap_lanes, cap_operand_lanes;
  struct requires *requires;
} verifier;

static inline int64_t verify_size(const verifier *v, sn_dim d) { return size_at(v->sizes, d); }
/* SN_ERR_INTERNAL: "plan: step 3 (name): value 7 (add, %12): …". at_step -1 and value 0 leave theirs out. */
/* Bytes of a value: which memory, from where to where. */
typedef struct bytes_of {
  int64_t memory, low, high; /* high: one beyond */
} bytes_of;
bytes_of value_bytes(const program_value *value);
static inline bool bytes_overlap(bytes_of a, bytes_of b) {
  return a.memory == b.memory && a.low < b.high && b.low < a.high;
}
sn_status verify_fail(const verifier *v, int at_step, uint32_t value, const char *format, ...)
    PRINTF_LIKE(4, 5) SN_MUST_USE;
static inline bool verify_is_loop(const step *s) {
  return s->kind == STEP_POINTWISE || s->kind == STEP_ROW;
}
/* The graph value that must be in a value of the program, whatever its `source` says of states. */
uint32_t verify_target(const verifier *v, const program_value *value);

/* A store through a register writes part of a value, which is in place of its base and keeps the rest of it: update_slice. The
 * base's value of the program, or 0 when the store is a plain one. */
uint32_t update_base(const verifier *v, const instr *store);

/* Whether a part is the same under all bindings. */
bool verify_fixed(const verifier *v, const step *s, const part *p);

/* --- without bindings --- */
/* Which states are assigned what. */
sn_status verify_assigned(verifier *v) SN_MUST_USE;
sn_status verify_leaves(const verifier *v) SN_MUST_USE;
sn_status verify_code(const verifier *v) SN_MUST_USE;
sn_status verify_memory(verifier *v) SN_MUST_USE;
sn_status verify_hazards(verifier *v) SN_MUST_USE;

/* What loops and matmuls do is for their stores and requires. */
sn_status verify_work(const verifier *v) SN_MUST_USE;

/* --- under bindings --- */
sn_status verify_sizes(const verifier *v) SN_MUST_USE;
sn_status verify_accesses(verifier *v) SN_MUST_USE;
sn_status verify_cover(verifier *v) SN_MUST_USE;
sn_status verify_regions(verifier *v) SN_MUST_USE;
sn_status verify_core(verifier *v, int at_step, const core_part *c) SN_MUST_USE;
/* What nodes require is found once, before any expect_bind, under any bindings; under each, before and after regions are executed. */
sn_status requires_find(verifier *v) SN_MUST_USE;
sn_status requires_start(verifier *v) SN_MUST_USE;
sn_status requires_end(verifier *v) SN_MUST_USE;

/* The axes of the part of a use (operands: with those of k), and how many it ranges over: row instructions over the outer
 * ones. */
int use_axes(const verifier *v, int at_step, const use *u, sn_dim *extents);

/* A new part that loads the values marked with expect_loads. */
void expect_open_part(verifier *v);
void expect_loads(verifier *v, uint32_t source);
/* Element of a value of the graph at plain coordinates. With `inside`, the value itself is computed though the part
 * loads it. */
sym expect_element(verifier *v, uint32_t value, const int64_t *at, bool inside);
/* The size of the graph under the bindings. */
int64_t expect_size(const verifier *v, sn_dim d);
/* From now on elements see sizes as expressions; until expect_bind. */
sn_status expect_unbind(verifier *v) SN_MUST_USE;
/* After all expect_loads of a part. */
void expect_see_through(verifier *v);
/* The same through what views show. */
sym expect_shown(verifier *v, uint32_t value, const int64_t *at);
/* Element of a value that a program has loaded, or that is a leaf. */
sym expect_load(const verifier *v, uint32_t value, int64_t at);
/* The value's type in numbers, and its number of elements. */
int64_t expect_count(const verifier *v, uint32_t value);
/* Readies the graph's side for new bindings. */
sn_status expect_bind(verifier *v) SN_MUST_USE;
/* The row-major number of the element that stands at a place in the memory of a value, which is within it. */
int64_t expect_number(const program_value *value, int64_t at);
/* Coordinates of a row-major number. */
void expect_coordinates(const sn_type *type, int64_t number, int64_t *out);

/* Sampled points of a space: all when there are few, else corners, some that `numbers` suggest and random ones. Returns how many;
 * there is room for VERIFY_LANES. */
int pick_points(const verifier *v, const int64_t *extents, int n_axes, const int64_t *numbers,
                int n_numbers, int64_t (*out)[VERIFY_AXES]);

/* What a node requires of elements of its result, and what the part at hand requires: pairs are ticked off. */
void requires_offer(verifier *v, int site, sym holds, sym shown);
void requires_settle(verifier *v);
/* After the last of so many cases of a part. */
void requires_close_part(verifier *v, int n_cases);
/* Whether all demands since it was set were offered. */
bool *requires_found(verifier *v);
void requires_demand(verifier *v, uint32_t node, sym holds, sym shown, const char *message);
void requires_demand_size(verifier *v, uint32_t node, sn_dim size, const char *what);

#endif
