/* What the parts of the emitter share. */
#ifndef SINEW_TESTS_SPIKE_EMITTER_H
#define SINEW_TESTS_SPIKE_EMITTER_H

#include "spike/emit.h"
#include "spike/spirv.h"

enum { EMIT_ACCS = 8 };

typedef enum helper {
  HELPER_F16_WIDEN,  /* f32 of the bits of an f16 (u32) */
  HELPER_F16_NARROW, /* and back, to nearest even */
  HELPER_PHILOX,     /* a word of a random stream */
  HELPERS
} helper;

typedef struct emitter {
  spirv s;
  const emit_env *env;
  spirv_id index;             /* the type of indices: i32 or i64 */
  spirv_id parameters;        /* u64: the address of the block */
  spirv_id axis[REGION_AXES]; /* coordinates of the point; 0: not known here */
  spirv_id acc[EMIT_ACCS];
  spirv_id reg[REGION_MAX];
  const instr *code; /* of the region that is being emitted */
  spirv_id helper[HELPERS];
  struct {
    uint32_t word;
    spirv_id id;
  } loaded[256]; /* words of the block that the prologue has loaded */
  int n_loaded;
  const char *why; /* what cannot be said; NULL: nothing so far */
} emitter;

/* Where a thread stands. */
typedef struct threads {
  spirv_id group, local, groups; /* indices */
} threads;

/* --- emit.c: the frame --- */
emitter *emit_start(const emit_env *env);
/* main, with two variables of shared memory or none (0), up to the first instruction of its body; and its end. */
threads emit_main_begin(emitter *e, spirv_id shared_a, spirv_id shared_b);
shader emit_main_end(emitter *e);
/* All of a region; the register of its last instruction. */
spirv_id emit_region(emitter *e, const region *r);
spirv_id emit_instr(emitter *e, const instr *i);

/* --- emit_index.c: sizes, coordinates, elements --- */
/* Word i of the block: u64, loaded once, in the prologue. */
spirv_id emit_parameter(emitter *e, uint32_t i);
spirv_id emit_size(emitter *e, sn_dim d); /* as an index */
spirv_id emit_index_number(emitter *e, int64_t n);
spirv_id emit_index_op(emitter *e, int op, spirv_id a, spirv_id b);
spirv_id emit_linear(emitter *e, sn_dim base, int n_terms, const term *terms);
spirv_id emit_inside(emitter *e, const access *at);
/* Coordinates of axes first … first + n from a number that counts their points. */
void emit_coordinates(emitter *e, spirv_id flat, int first, int n, const sn_dim *extents);
spirv_id emit_extent(emitter *e, int n, const sn_dim *extents); /* their product */
spirv_id emit_load(emitter *e, const instr *i);
void emit_store(emitter *e, const instr *i);

/* --- emit_alu.c: arithmetic --- */
spirv_id emit_lane_type(emitter *e, sn_dtype dtype);
spirv_id emit_number(emitter *e, sn_dtype dtype, double x);
spirv_id emit_cast(emitter *e, spirv_id a, sn_dtype from, sn_dtype to);
/* A float rounded to f16 or bf16, where that is its dtype. */
spirv_id emit_rounded(emitter *e, spirv_id a, sn_dtype dtype);
spirv_id emit_alu(emitter *e, const instr *i);
/* Float arithmetic that no driver may fuse or reorder. */
spirv_id emit_float(emitter *e, int op, spirv_id a, spirv_id b);

/* Two partial results of a reduction made one. */
spirv_id emit_combined(emitter *e, reduce_kind kind, sn_dtype dtype, spirv_id a, spirv_id b);
spirv_id emit_neutral(emitter *e, reduce_kind kind, sn_dtype dtype);

/* --- emit_loop.c --- */
void emit_barrier(emitter *e);

/* --- emit_helper.c --- */
spirv_id emit_call(emitter *e, helper which, int n, const uint32_t *args);
spirv_id emit_word(emitter *e, const instr *i);

static inline bool dtype_is_float(sn_dtype t) { return t == SN_F32 || t == SN_F16 || t == SN_BF16; }

#endif
