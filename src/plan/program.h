/* A program: what a device runs. Values with places in memory, and steps on them in order. It knows no graph; sizes are
 * expressions over symbols, so one program serves every binding.
 *
 * A run: bind symbols (program_bind fills the table of sizes and checks what sizes must be), then the steps of `prepare` if a state
 * that it reads has changed, then `main`, then, if nothing failed, `commit`. Steps before `commit` write neither states
 * nor anything that outlives a failed run; steps of `commit` cannot fail.
 */
#ifndef SINEW_PLAN_PROGRAM_H
#define SINEW_PLAN_PROGRAM_H

#include "base/arena.h"
#include "step/step.h"

typedef enum value_home {
  HOME_ARENA,    /* offset in the arena; its contents last from its first to its last step */
  HOME_PREPARED, /* offset in the prepared arena, whose contents last from run to run */
  HOME_INPUT,    /* the index-th input, as the caller bound it: only read */
  HOME_OUTPUT,   /* the index-th output */
  HOME_STATE, /* the index-th state: the value at the start of the run, or what a step of `commit` made of it */
  HOME_CONSTANT /* the index-th constant */
} value_home;

typedef struct program_value {
  sn_type type;  /* dims of the program */
  sn_dim count;  /* elements; dense, row-major or as `channels` says */
  int64_t bytes; /* at the symbols' maxima, the room that it has */
  value_home home;
  uint32_t index;
  /* 0: row-major. Else its elements, counted as if row-major, are those of [n, channels, pixels] and stand as [n, pixels,
   * channels] do: with their channels last. Of the arena alone. */
  int64_t channels, pixels;
  int64_t offset;  /* of arenas: a multiple of PROGRAM_ALIGN */
  uint32_t source; /* value of the lowered graph that it is; for the verifier and for reports */
  uint32_t
      in_place_of; /* its memory is that of this value, which ends with the step that makes it; 0: none */
  int first,
      last; /* step numbers over prepare, main, commit counted on; the step that makes it (-1: given), the last that reads it */
} program_value;

/* Arenas and the host's buffers are aligned to this. */
enum { PROGRAM_ALIGN = 64 };

typedef struct program_leaf {
  const char *name;
  uint32_t value; /* of the program; 0: nothing reads it */
  sn_type type;   /* dims of the program */
  bool assigned;  /* states: a step of `commit` writes it */
  bool prepares;  /* states: `prepare` reads it */
} program_leaf;

typedef struct program_constant {
  const void *data;
  size_t size;
} program_constant;

/* A size that must not be negative for a run to start. */
typedef struct program_requirement {
  sn_dim size;
  const char *what;
} program_requirement;

/* Why a run failed, by `index` of a REQUIRE; format takes one int. */
typedef struct program_site {
  const char *format;
  sn_status status; /* that the run returns */
} program_site;

typedef struct program {
  arena memory;          /* all of it, but for the dims */
  sn_graph *dims;        /* symbols and expressions; has no nodes. Owned. */
  program_value *values; /* by id; 0 is unused */
  uint32_t n_values;
  step *steps; /* prepare, main, commit */
  int n_prepare, n_main, n_commit;
  program_leaf *inputs, *outputs, *states;
  int n_inputs, n_outputs, n_states;
  program_constant *constants;
  int n_constants;
  program_requirement *requirements;
  int n_requirements;
  program_site *sites;
  int n_sites;
  int64_t arena_bytes, prepared_bytes;
  int64_t lower_bound; /* the largest set of arena values alive at once */
} program;

static inline int program_steps(const program *p) { return p->n_prepare + p->n_main + p->n_commit; }
/* An empty program; values, steps and the rest go into its memory. */
sn_status program_create(sn_ctx *ctx, program **out_program) SN_MUST_USE;
/* Gives the program the symbols and expressions of a graph as they are now: every dim of `from` means the same in it. Once, when
 * no more expressions will come. */
sn_status program_copy_dims(program *p, const sn_graph *from) SN_MUST_USE;
/* Number of sizes that program_bind fills. */
int program_sizes(const program *p);
/* Values of all sizes under bindings (by symbol); fails with the message of a requirement that does not hold. */
sn_status program_bind(const program *p, sn_ctx *ctx, const int64_t *bindings,
                       int64_t *sizes) SN_MUST_USE;
void program_destroy(program *p);
/* The accesses of a step, each once, for whoever follows reads and writes. `store` tells which; cores give their operands as
 * accesses with terms by axis. Returns false when `visit` did. */
typedef struct step_use {
  uint32_t value;
  bool store;
  int part;
  const access *at;    /* NULL for operands of cores */
  const strided *core; /* NULL otherwise */
} step_use;
bool step_each_use(const step *s, bool (*visit)(void *user, const step_use *use), void *user);
/* The program as text: values, steps, regions (print.c). */
void program_print(const program *p, text *out);

#endif
