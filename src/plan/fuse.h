/* Fusion, for its own files. Nodes of the lowered graph are visited in order; each value is then one of
 *   LEAF    input, state, constant: in memory
 *   FLOAT   an expression that consumers compute for themselves (views always; cheap or single pointwise values)
 *   MEMBER  computed by a group, at a place of the group's index space, in a register
 * A group becomes a part of a step. What a group reads of another is stored there. A group's stage is above those of all
 * groups that it reads, so two groups of one stage cannot depend on each other, and joining the group of the highest
 * stage among one's arguments can never close a circle: fusion is legal by construction. */
#ifndef SINEW_PLAN_FUSE_H
#define SINEW_PLAN_FUSE_H

#include "ops/table.h"
#include "plan/dag.h"
#include "plan/plan.h"

typedef enum value_state { VALUE_DEAD, VALUE_LEAF, VALUE_FLOAT, VALUE_MEMBER } value_state;

/* What fusion knows of a value of the graph. */
typedef struct fuse_value {
  value_state state;
  bool pinned;   /* an output or assigned */
  bool wanted;   /* in memory: an operand of a contraction or core, or too dear to compute again */
  bool assigned; /* to a state */
  bool prepared; /* from constants and states that stay alone */
  bool boundary; /* prepared, and read by what is not */
  bool leafy;    /* depends on a leaf */
  bool stored;   /* another group reads it, or it is pinned */
  int64_t channels, pixels; /* how it stands if it is stored (program.h) */
  bool waits;               /* for the rows that will compute and store it (fuse_wait.c) */
  int uses;                 /* reads by nodes, through views */
  double readers;           /* elements that these compute */
  double elements;
  double flops; /* FLOAT: an element, with all that it stands for */
  int loads, depth;
  int readers_of_store; /* groups that load it */
  int group;            /* MEMBER: its group; FLOAT: the highest-staged one below it; -1: none */
  reg r;                /* MEMBER */
  const place *at;      /* MEMBER */
  uint32_t id;          /* value of the program */
  uint32_t stamp;
} fuse_value;

typedef struct node_facts {
  bool live, reduces, requires, view;
  bool by_data; /* reads elements at places that others say (gather) */
  double flops; /* an element of the result */
} node_facts;

typedef enum group_kind { GROUP_LOOP, GROUP_MATMUL, GROUP_CORE } group_kind;

/* A product of a matmul group while it is built: axes are those of the group, then its own k. */
typedef struct fuse_product {
  int n_k;
  sn_dim k[SN_MAX_RANK];
  dag a, b;
  reg root_a, root_b;
  struct fuse_product *next; /* of the same accumulator */
} fuse_product;

typedef struct fuse_acc {
  fuse_product *products;
  bool used;
} fuse_acc;

enum { FUSE_ACCS = 8, FUSE_SHAPES = 4 };
/* Where the stages of prepared groups begin: below all others, which may therefore read them wherever they stand. */
enum { STAGE_PREPARED = -(1 << 24) };

typedef struct fuse_group {
  group_kind kind;
  int merged; /* into this one; -1: stands for itself */
  int stage;
  bool prepared, dead;
  bool commits;     /* made for a value that is assigned */
  bool read;        /* some other group reads of it, or may have tried to */
  uint32_t updates; /* the value over whose memory it stores (fuse_update.c); 0: none */
  reg update_store;
  int n_axes, n_outer;   /* LOOP: n_outer 0 is pointwise. MATMUL: n_axes without k */
  int n_batch, n_m, n_n; /* MATMUL */
  sn_dim extent[REGION_AXES + SN_MAX_RANK];
  dag d; /* body or epilogue */
  fuse_acc acc[FUSE_ACCS];
  int n_accs;
  /* Shapes whose elements correspond to points, and how. */
  int n_shapes;
  sn_shape shape[FUSE_SHAPES];
  const place *full[FUSE_SHAPES];
  uint32_t *members;
  int n_members, cap_members;
  int *after; /* groups that must come before, though nothing of them is read */
  int n_after, cap_after;
  uint32_t anchor; /* node that it was made for: its place in program order */
  struct memo *memo;
  int n_memo, cap_memo;
  int memo_head[32]; /* entry + 1, by value */
  /* --- after fusion --- */
  bool *sink; /* by node of d */
  int *reads; /* groups */
  int n_reads, cap_reads;
  int soonest; /* stage of its first reader */
  int bundle;  /* of updates */
  bool takes_state, late, final, needed_early;
  int section; /* of fuse_steps.h */
} fuse_group;

typedef struct memo {
  uint32_t value;
  int next;
  reg r;
  const place *at; /* NULL: computed, but not as a register of the group that stands for it */
} memo;

typedef struct fuse {
  sn_graph *g;
  arena memory; /* dies with fusion */
  const plan_options *options;
  fuse_value *values; /* by value id */
  node_facts *nodes;  /* by node */
  fuse_group **groups;
  int n_groups, cap_groups;
  program_requirement *requirements;
  int n_requirements, cap_requirements;
  program_site *sites;
  int n_sites, cap_sites;
  uint32_t stamp;
  bool failed;      /* the emission at hand cannot be done in its group */
  sn_status status; /* the first error that ends all */
  program *out;
} fuse;

static inline int fuse_root(const fuse *f, int group) {
  while (group >= 0 && f->groups[group]->merged >= 0)
    group = f->groups[group]->merged;
  return group;
}
static inline const node *fuse_node(const fuse *f, uint32_t value) {
  return &f->g->nodes[f->g->values[value].node];
}
/* Whether a node computes with an argument. What a barrier waits for it does not: it must not stand where that is made either, since
 * nothing may be left of the group but the barrier. */
static inline bool fuse_reads(const node *n, int k) {
  return n->in[k].id && !(n->op == OP_barrier && k == 1);
}
static inline node_facts *fuse_facts(const fuse *f, uint32_t value) {
  return &f->nodes[f->g->values[value].node];
}
static inline sn_shape fuse_shape(const fuse *f, uint32_t value) {
  return f->g->values[value].type.shape;
}

/* Arrays that grow in an arena: makes room for one more; false without memory. */
bool fuse_room(arena *memory, void **array, int n, int *cap, size_t each);

/* --- fuse_facts.c: what can be known before: live nodes, uses, which are views, what is wanted in memory --- */
sn_status fuse_find_facts(fuse *f) SN_MUST_USE;

/* --- fuse_layout.c: which values stand with their channels last in memory, if the options ask for it --- */
sn_status fuse_find_layout(fuse *f) SN_MUST_USE;
/* The access that a place in a value is, seen in a shape with as many elements; false when terms cannot say it and `c`, which
 * may be NULL, has no registers for it. */
bool fuse_access(fuse *f, elem_ctx *c, const sn_dim *axis_extents, uint32_t value, sn_shape shape,
                 const place *at, access_room *room, access *out) SN_MUST_USE;
/* Whether a shape is [n, channels, …] of the value's channels and pixels. */
bool fuse_is_image(const fuse_value *v, sn_shape shape);

/* --- fuse_emit.c: values into instructions of a group --- */
/* The register of element `at` of a value, in a group's own dag or (operands of contractions) in `into`. Sets f->failed when
 * the value cannot be had there: read at another place of the group, or made too late. A `fresh` group may still rise in stage. */
typedef struct emission {
  fuse *f;
  int group;
  dag *into;
  bool fresh;
  uint32_t checking;       /* collects requires of this node only (node + 1); 0: none */
  bool root_axes;          /* the root may open axes */
  bool masked;             /* inside of an expression whose result is masked */
  const place *root_place; /* where such a root read its first argument, and that one's shape */
  sn_shape root_shape;
} emission;
reg emit_value(emission *e, uint32_t value, const place *at, int depth);
/* The element of a node's result 0 itself, whatever the value's state. */
reg emit_node(emission *e, const node *n, const place *at, int depth);
/* An instruction where the emission goes; f->failed when it does not fit. */
reg emit_add(emission *e, const instr *i);
/* A REQUIRE with a message that names the node. */
void emit_require(emission *e, const node *n, reg holds, reg shown, const char *message);
/* The run must refuse bindings under which the size is negative. */
void fuse_require_size(fuse *f, const node *n, sn_dim size, const char *what);
place *fuse_keep_place(fuse *f, const place *at);
/* Result places: axis numbers for dims that are not 1, from `axis` on; returns the next axis. */
int place_of_axes(sn_shape shape, int axis, place *out, sn_dim *extents);

/* --- fuse_group.c: groups and who joins them --- */
int fuse_add_group(fuse *f, group_kind kind, const node *anchor); /* -1 without memory */
bool fuse_add_member(fuse *f, int group, uint32_t value, reg r, const place *at);
/* Where in a group's space a value stands (fuse_place.c); false: nowhere, or it cannot be said. */
bool fuse_find_place(fuse *f, int group, uint32_t value, place *out) SN_MUST_USE;
/* Puts the value into the group of the highest stage below it; false when that cannot be or does not pay. */
bool fuse_join(fuse *f, const node *n);
/* A group of its own. */
sn_status fuse_alone(fuse *f, uint32_t value) SN_MUST_USE;
sn_status fuse_reduce(fuse *f, const node *n) SN_MUST_USE;
bool fuse_merge(fuse *f, int into, int from);
/* Whether a group computes a value for itself, anywhere; fuse_emit.c. */
bool fuse_computes(const fuse_group *g, uint32_t value);
/* Remembers that it does: at `at` it is r; `at` NULL: somewhere. False without memory. */
bool fuse_remember(fuse *f, fuse_group *g, uint32_t value, const place *at, reg r) SN_MUST_USE;

/* Makes a value that floats a member of a group that reads it in the shape of `seen`; false when it cannot be. */
bool fuse_adopt(fuse *f, int group, uint32_t value, uint32_t seen);

/* --- fuse_wait.c --- */
/* Whether a value of which all arguments are there is left for the first reduction that reads it. */
bool fuse_waits(fuse *f, const node *n);
/* A reduction has its group: what waited for it joins that, or gets one of its own. */
sn_status fuse_end_wait(fuse *f, const node *n) SN_MUST_USE;

/* --- fuse_matmul.c, fuse_core.c --- */
sn_status fuse_contraction(fuse *f, const node *n) SN_MUST_USE;
sn_status fuse_core(fuse *f, const node *n) SN_MUST_USE;
/* The operand of a core: argument i of n with axes as the graph has them. */
sn_status core_operand(fuse *f, int group, uint32_t value, strided *out) SN_MUST_USE;
bool core_shape(sn_graph *g, const node *n, core_part *p, archetype *out_kind) SN_MUST_USE;

/* --- fuse_update.c --- */
sn_status fuse_update(fuse *f, const node *n) SN_MUST_USE;

/* --- fuse_finish.c: what is stored, which groups remain; fuse_steps.c: sections, steps, the program --- */
/* The groups that there are, in an order in which readers come later. */
sn_status fuse_sort_groups(fuse *f, fuse_group ***out_order, int *out_n) SN_MUST_USE;
sn_status fuse_finish(fuse *f) SN_MUST_USE;
/* Whether a core requires something of its integers (indices, lengths). */
bool core_requires(const fuse *f, const node *n);
sn_status fuse_steps(fuse *f) SN_MUST_USE;

#endif
