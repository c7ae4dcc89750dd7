/* A program lowered for a GPU, for the files that make it up: device.c (making, the device's table), place.c (memory),
 * launches.c, phases.c and chain.c (what waits for what), block.c (parameter blocks), record.c (commands), run.c (runs), poison.c (stale memory
 * in tests), mirror.c (memory that stores keep on a GPU).
 *
 * Invariants: nothing of it is touched by the host while a run of it is on the GPU; a run waits for its end. The blocks' copy
 * in the host's memory (`blocks.words`) is what the GPU has, but for the lines marked dirty.
 */
#ifndef SINEW_DEVICE_VULKAN_PLAN_H
#define SINEW_DEVICE_VULKAN_PLAN_H

#include "base/arena.h"
#include "device/device.h"
#include "device/vulkan/gpu.h"

/* Bytes in some block of the GPU. */
typedef struct plan_room {
  const char *what;
  int64_t bytes; /* at the symbols' maxima */
  gpu_block *block;
  int64_t at;
} plan_room;

/* Blocks of one kind of memory and what is in them. */
enum { PLAN_BLOCKS = 64, PLAN_ALIGN = 256, PLAN_ZEROS = 16 };
typedef struct plan_blocks {
  gpu_block block[PLAN_BLOCKS];
  int64_t bytes[PLAN_BLOCKS];
  int n;
} plan_blocks;

/* A part of an arena: values lie in one of them whole. */
typedef struct arena_piece {
  int64_t from, to; /* offsets */
  plan_room room;
} arena_piece;
typedef struct arena_pieces {
  int n;
  arena_piece *at;
} arena_pieces;

typedef struct lowered_launch {
  const launch *of;
  int counted; /* of plan_params: where the counts of its parts begin, where it varies */
  vk_handle pipeline;
  uint32_t block;  /* byte in blocks.block where its parameters begin */
  uint32_t counts; /* byte of its numbers of workgroups */
  bool varies;     /* with the symbols */
  int phase;       /* of its section; -1: it is of none */
  bool behind;     /* the first of its phase: what was launched before must be done */
  bool chained;    /* ... which it sees to by itself: chain.c */
  uint32_t groups[3];
  int64_t all; /* of them that do something */
} lowered_launch;

/* Whether it does anything. */
static inline bool launch_runs(const lowered_launch *l) { return l->varies || l->all > 0; }

typedef struct lowered_step {
  int first, n;                      /* launches */
  int64_t scratch_at, scratch_bytes; /* of the plan's scratch memory */
} lowered_step;

/* Prepare, main, commit: launches order[first] … as they are recorded. */
enum { PLAN_PREPARE, PLAN_MAIN, PLAN_COMMIT, PLAN_SECTIONS };
typedef struct plan_section {
  int first, n;
} plan_section;

/* An amount that depends on symbols; `first` … are the words that show it. */
typedef struct block_number {
  amount of;
  int64_t value;
  int first, n;
} block_number;
typedef struct number_use {
  int number;
  bool inverse;
  uint32_t word;
} number_use;
typedef struct address_use {
  uint32_t word, value;
} address_use;
/* How many workgroups a part of a launch has that varies: a product of numbers, if another is in its range. */
typedef struct part_count {
  int n, factor[LAUNCH_GRID], when;
} part_count;

typedef struct plan_params {
  gpu_block block;
  uint64_t *words; /* what it holds */
  size_t n_words;
  unsigned char *dirty; /* by line */
  size_t n_lines;
  bool any_dirty;
  block_number *numbers;
  number_use *uses;
  address_use *addresses; /* of values whose address can change */
  part_count *counts;
  int n_numbers, n_uses, n_addresses, n_counts;
  int64_t *sizes; /* that it was filled for */
  int n_sizes;
  bool filled;
} plan_params;

/* Recorded commands: prepare, main, copies of small outputs to the host (one for each set), commit; and main in parts, once a run
 * is watched. */
enum { RECORD_STEPS = 32 /* for each part of main */ };
typedef struct plan_commands {
  vk_handle pool, sets, set, semaphore, queries;
  uint64_t ticks;  /* of the semaphore */
  vk_handle *list; /* prepare, main, collect, collect, commit, parts of main … */
  int n_parts;
  bool recorded; /* and right: only then what follows says something */
  bool timed;    /* with timestamps */
  bool parted;   /* the parts, too */
} plan_commands;

struct device_plan {
  sn_ctx *ctx;
  const program *program;
  gpu *gpu;
  gpu_target target; /* the GPU's, without what it failed at */
  bool resident;     /* states are memory of stores, outputs stay here until they are read */
  sn_precision precision;
  bool poison;  /* tests: see poison.c */
  bool trial;   /* made by hand, to test the GPU: its failures are no others' */
  arena memory; /* what emitters left, and tables */
  lowered_step *steps;
  lowered_launch *launches;
  int n_launches;
  int *order; /* launches by phase */
  int n_ordered;
  plan_section sections[PLAN_SECTIONS];
  gpu_pipeline **pipelines;
  int n_pipelines;
  /* memory */
  plan_blocks device, shared, host;
  arena_pieces arena, prepared;
  plan_room constants, scratch, kept, failures, counters;
  int64_t zeros_at; /* of PLAN_ZEROS bytes behind the constants, for loads that have no element */
  bool *keeps;      /* by state: kept memory is made from it */
  plan_room *inputs, *outputs[2], *states; /* by leaf */
  /* Small outputs lie together in each set. Where the host does not see the GPU's memory, kernels write them into the host's if they are few and
   * no step reads them; otherwise one copy at a run's end brings them all to the host, where `collected` is. */
  plan_room small[2], collected;
  bool collects;
  int collected_set; /* whose outputs `collected` has */
  int64_t *constant_at;
  int set; /* of outputs: the one that the last run, or the one under way, has written */
  uint64_t *addresses; /* by value */
  uint32_t *bound;     /* values whose address can change */
  int n_bound;
  plan_params params;
  plan_commands commands;
  uint64_t *ticks; /* of the queries, as read */
};

/* How many steps a section has; *first: its first one. */
static inline int plan_section_steps(const device_plan *dp, int section, int *first) {
  const program *p = dp->program;
  const int n[PLAN_SECTIONS] = {p->n_prepare, p->n_main, p->n_commit};
  *first = 0;
  for (int i = 0; i < section; i++)
    *first += n[i];
  return n[section];
}
/* Of n things in so many parts: where part i begins. */
static inline int plan_part_at(int n, int i, int parts) { return (int)((int64_t)n * i / parts); }

/* place.c */
sn_status vk_plan_place(device_plan *dp) SN_MUST_USE;
void plan_unplace(device_plan *dp);
/* Of the GPU's memory, states of stores aside. */
int64_t plan_bytes(const device_plan *dp);
/* Behind the failures of sites: whether a launch has waited in vain. */
static inline int64_t plan_in_vain(const device_plan *dp) { return dp->failures.bytes - 8; }
static inline uint64_t room_address(const plan_room *r) {
  return r->block ? r->block->address + (uint64_t)r->at : 0;
}

/* block.c */
sn_status plan_params_create(device_plan *dp) SN_MUST_USE;
void plan_params_destroy(device_plan *dp);
/* Makes the blocks right for these sizes and the addresses of now. */
sn_status plan_params_fill(device_plan *dp, const int64_t *sizes) SN_MUST_USE;

void plan_set_word(plan_params *b, uint32_t word, uint64_t value);

/* launches.c */
/* `made`, by step, stays with the plan. */
sn_status plan_take_launches(device_plan *dp, const step_launches *made) SN_MUST_USE;

/* phases.c */
/* The order of launches, and which may run at once. */
sn_status plan_phases(device_plan *dp) SN_MUST_USE;

/* chain.c */
/* Bytes for counters. */
int64_t plan_counters(const device_plan *dp);
/* Which launches are behind others and which of them wait by themselves: into the launches and their blocks. `timed`: none does, since
 * they are recorded step by step. */
sn_status plan_chain(device_plan *dp, bool timed) SN_MUST_USE;

/* record.c */
sn_status plan_commands_create(device_plan *dp) SN_MUST_USE;
void plan_commands_destroy(device_plan *dp);
/* Records anew, with timestamps around every step or without. */
sn_status plan_record(device_plan *dp, bool timed) SN_MUST_USE;
/* The parts of main, as the rest is recorded. */
sn_status plan_record_parts(device_plan *dp) SN_MUST_USE;
static inline vk_handle plan_prepare(const device_plan *dp) { return dp->commands.list[0]; }
static inline vk_handle plan_main(const device_plan *dp) { return dp->commands.list[1]; }
static inline vk_handle plan_collect(const device_plan *dp) {
  return dp->commands.list[2 + dp->set];
}
static inline vk_handle plan_commit(const device_plan *dp) { return dp->commands.list[4]; }
static inline vk_handle plan_part(const device_plan *dp, int i) { return dp->commands.list[5 + i]; }
static inline int plan_query(int index) { return 2 * index; } /* of a step, and the one behind it */

/* mirror.c */
struct device_memory {
  gpu *gpu;
  struct mirror_chunk *chunk;
  gpu_block *block;
  int64_t at, bytes;
};
extern const device_mirrors vulkan_mirrors;

/* poison.c */
/* For tests: the arena, scratch and outputs are made stale before a run; with `prepare` also what it makes. */
sn_status plan_poison(device_plan *dp, bool prepare) SN_MUST_USE;

/* run.c */
sn_status plan_run(device_plan *dp, const device_run *run) SN_MUST_USE;
sn_status plan_read_output(device_plan *dp, int output, void *to, size_t bytes) SN_MUST_USE;

#endif
