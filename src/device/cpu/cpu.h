/* Inside the CPU device: the run that archetypes work in, and the machine that executes region programs.
 *
 * Every thread of a run walks the same list of steps (device.c), with a cpu_run of its own, and calls the archetype of
 * each step: cpu_run_<archetype>. There the threads share the work out among them: cpu_next hands out the iterations of a
 * loop one by one, cpu_share gives each thread a fixed part of a range. All threads must call these (and cpu_sync, and
 * cpu_take_shared) in the same order, so nothing that decides on calling them may depend on the thread; and how a sum is
 * cut must depend on extents alone, never on the number of threads, so that bits do not either. The device puts a barrier
 * where the plan has one; steps without one between them do not depend on each other and may overlap.
 *
 * A run allocates nothing: what an archetype needs it takes from the thread's scratch with cpu_take, and cpu_need_<archetype>
 * has said at lowering how much that is at most.
 *
 * The region machine. A region is opened once a part and run (sizes and strides become numbers there), then
 * executed tile by tile. A tile is a list of segments, each a run of points along one axis; its points are lanes
 * 0 … n-1 in that order, at most CPU_TILE. A packer of a [k, n] panel with n running:
 *
 *   region_state *st;
 *   SN_TRY(cpu_region_open(r, &product->b, n_axes, extents, &st));
 *   tile t = {.axis = n_axis};
 *   for (each k of the panel) tile_add(&t, coordinates, width);   // by axis; every other field of t stays
 *   cpu_region_run(r, st, &t, NULL);
 *   const float *lanes = cpu_region_f32(st, product->b.n - 1);    // lane k * width + n
 */
#ifndef SINEW_DEVICE_CPU_CPU_H
#define SINEW_DEVICE_CPU_CPU_H

#include "base/team.h"
#include "device/cpu/isa.h"
#include "device/device.h"
#include "ir/dtype.h"

#include <stdatomic.h>

enum {
  CPU_TILE = 256,      /* lanes of a register, at most the points of a tile */
  CPU_LANE_BLOCK = 32, /* lane loops may compute up to a multiple of this; divides CPU_TILE */
  CPU_SEGMENTS = 64    /* of a tile */
};

/* What the threads of a run share: counters of the loops under way. A loop's counter is that of its number modulo CPU_LOOPS;
 * threads meet often enough that no counter is in use twice. */
enum { CPU_LOOPS = 64 };
typedef struct cpu_crew {
  team *team;   /* NULL: one thread */
  char *shared; /* scratch memory, PROGRAM_ALIGN aligned */
  size_t shared_bytes;
  struct cpu_counter {
    atomic_llong next;
    char apart[64 - sizeof(atomic_llong)]; /* in cache lines of their own */
  } loops[CPU_LOOPS];
} cpu_crew;

/* One run of a plan, as one of its threads sees it. */
typedef struct cpu_run {
  sn_ctx *ctx; /* messages are left by thread 0 only: cpu_fail */
  const cpu_isa *isa;
  int thread, threads; /* this one's number; how many there are: at least 1 */
  cpu_crew *crew;      /* NULL: one thread, without shared scratch */
  uint32_t loop;       /* loops begun */
  const program *program;
  const int64_t *sizes;   /* by handle: size_at(r->sizes, dim) */
  void *const *addresses; /* by value id; NULL for 0 and for what is not bound */
  char *scratch;          /* PROGRAM_ALIGN aligned */
  size_t scratch_bytes, scratch_used;
  size_t scratch_most; /* that was in use; tests look at what lies behind it */
  size_t shared_used;
  char *kept;  /* this step's memory that lasts from run to run; NULL: none */
  bool poison; /* tests: scratch is made stale when it is taken */
  bool stop;   /* this thread has reason not to go on */
  bool part;   /* in the step at work: there is something for this thread in a loop of it */
  /* The first REQUIRE that did not hold, in the order of iterations; the step still runs to its end. */
  bool failed;
  uint32_t site;
  int32_t shown;
  int step, failed_step;        /* at work; of the failure */
  int64_t iteration, failed_at; /* of the loop at work; that of the failure */
} cpu_run;

static inline int64_t cpu_size(const cpu_run *r, sn_dim d) { return size_at(r->sizes, d); }
static inline void *cpu_address(const cpu_run *r, uint32_t value) { return r->addresses[value]; }

/* Scratch memory, aligned to PROGRAM_ALIGN, not cleared; NULL with an internal error when a cpu_need_… was too
 * small. To give back what was taken since: remember r->scratch_used before, and set it again. The device does so around
 * every step. */
void *cpu_take(cpu_run *r, size_t bytes);
/* What cpu_take uses up for that many bytes; for cpu_need_… functions. */
static inline size_t cpu_take_bytes(size_t bytes) {
  return (bytes + PROGRAM_ALIGN - 1) / PROGRAM_ALIGN * PROGRAM_ALIGN;
}
/* Scratch that all threads see: the same address in each. Of a step that does not use it already nothing is in it. */
void *cpu_take_shared(cpu_run *r, size_t bytes);
/* An error of the device's own making, which is the same in all threads. Returns its status. */
sn_status cpu_fail(cpu_run *r, const char *what);

/* stale.c: makes the values that a step makes hold nothing; whether all elements of them are made of what was written. */
void cpu_forget_results(const cpu_run *r, int index);
sn_status cpu_check_results(cpu_run *r, int index) SN_MUST_USE;

/* --- sharing work --- */
/* A loop of n iterations, each done by one thread, in any order:
 *   cpu_begin(r);
 *   for (int64_t i; cpu_next(r, n, &i);) …
 * Nothing waits for its end: cpu_sync where what follows in the step reads what other iterations wrote. */
void cpu_begin(cpu_run *r);
static inline bool cpu_next(cpu_run *r, int64_t n, int64_t *out) {
  if (r->threads == 1) {
    *out = ++r->iteration;
    return *out < n;
  }
  struct cpu_counter *c = &r->crew->loops[r->loop % CPU_LOOPS];
  *out = r->iteration = (int64_t)atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed);
  r->part = r->part || *out < n || n >= r->threads;
  return *out < n;
}
/* This thread's part of 0 … n-1, a run of whole grains: *from … *to-1, perhaps empty. The same thread gets the same part of
 * equal ranges, step after step: it finds them in its caches. */
static inline void cpu_share(cpu_run *r, int64_t n, int64_t grain, int64_t *from, int64_t *to) {
  int64_t grains = (n + grain - 1) / grain;
  *from = r->iteration = min_i64(n, grains * r->thread / r->threads * grain);
  *to = min_i64(n, grains * (r->thread + 1) / r->threads * grain);
  r->part = r->part || *from < *to;
}
/* Waits until all threads are here. */
static inline void cpu_sync(cpu_run *r) {
  if (r->threads > 1)
    team_barrier(r->crew->team);
}

/* The largest value of a size over the program's bindings. */
int64_t cpu_size_max(const program *p, sn_dim d);

/* --- archetypes: run a step with all its parts; scratch that this takes at most --- */
sn_status cpu_run_loop(cpu_run *r, const step *s) SN_MUST_USE; /* POINTWISE, ROW */
sn_status cpu_run_matmul(cpu_run *r, const step *s) SN_MUST_USE;
sn_status cpu_run_attention(cpu_run *r, const step *s) SN_MUST_USE;
sn_status cpu_run_attention_grad(cpu_run *r, const step *s) SN_MUST_USE;
sn_status cpu_run_scatter(cpu_run *r, const step *s) SN_MUST_USE;
sn_status cpu_run_scan(cpu_run *r, const step *s) SN_MUST_USE;
sn_status cpu_run_sort(cpu_run *r, const step *s) SN_MUST_USE;
sn_status cpu_run_sample(cpu_run *r, const step *s) SN_MUST_USE;
sn_status cpu_run_permute(cpu_run *r, const step *s) SN_MUST_USE;

size_t cpu_need_loop(const program *p, const step *s);
size_t cpu_need_shared_loop(const program *p, const step *s);
size_t cpu_need_matmul(const program *p, const step *s);
size_t cpu_need_shared_matmul(const program *p, const step *s);
size_t cpu_kept_matmul(const program *p, const step *s, bool *by_state);
sn_status cpu_keep_matmul(cpu_run *r, const step *s) SN_MUST_USE;
size_t cpu_need_attention(const program *p, const step *s);
size_t cpu_need_attention_grad(const program *p, const step *s);
size_t cpu_need_scatter(const program *p, const step *s);
size_t cpu_need_scan(const program *p, const step *s);
size_t cpu_need_sort(const program *p, const step *s);
size_t cpu_need_sample(const program *p, const step *s);
size_t cpu_need_permute(const program *p, const step *s);

size_t cpu_need_shared_scan(const program *p, const step *s);
size_t cpu_need_shared_sort(const program *p, const step *s);
size_t cpu_need_shared_permute(const program *p, const step *s);
size_t cpu_need_shared_attention(const program *p, const step *s);
size_t cpu_need_shared_attention_grad(const program *p, const step *s);

typedef struct cpu_archetype {
  sn_status (*run)(cpu_run *r, const step *s);
  size_t (*need)(const program *p, const step *s); /* scratch of each thread, at most */
  /* Shared scratch, at most; NULL: none. */
  size_t (*need_shared)(const program *p, const step *s);
  /* Kept memory: what a step derives from values that no run changes (packed weights). `kept` says how much it wants, and
   * sets by_state (by index of the program's states; may be NULL) where it derives it from a state; `keep` fills r->kept,
   * on all threads, before main, whenever one of these has changed. NULL: none. */
  size_t (*kept)(const program *p, const step *s, bool *by_state);
  sn_status (*keep)(cpu_run *r, const step *s);
} cpu_archetype;
extern const cpu_archetype cpu_archetypes[STEP_ARCHETYPES];

/* --- regions --- */
/* Points along `axis`, the others standing still. */
typedef struct segment {
  int64_t at
      [REGION_AXES]; /* coordinates of the first point; those beyond the region's axes are not read */
  int lane, n;
} segment;
typedef struct tile {
  int axis;
  int n; /* lanes in all */
  int n_segments;
  segment segments[CPU_SEGMENTS];
} tile;

static inline bool tile_has_room(const tile *t, int n) {
  return t->n_segments < CPU_SEGMENTS && t->n + n <= CPU_TILE;
}
/* Appends n > 0 points. Needs room. */
void tile_add(tile *t, const int64_t *at, int n);
static inline void tile_clear(tile *t) { t->n = t->n_segments = 0; }

/* A region for the sizes of this run. All its memory is scratch. */
typedef struct region_state region_state;
/* Bytes of scratch that cpu_region_open takes for a region. */
size_t cpu_region_bytes(const region *code);
/* extents: values, of the region's axes. */
sn_status cpu_region_open(cpu_run *r, const region *code, int n_axes, const int64_t *extents,
                          region_state **out) SN_MUST_USE;
/* Executes all instructions for the points of a tile: loads, stores, requires. What does not depend on a coordinate
 * that has changed since the last run of this state is not computed again (so memory that a region loads from may change
 * under an open state only by its own stores). acc[j]: lanes of accumulator j; NULL where the region has none. They must have room
 * for t->n rounded up to CPU_LANE_BLOCK. */
void cpu_region_run(cpu_run *r, region_state *st, const tile *t, const float *const *acc);
/* Lanes of a register that no other instruction reads (an operand), after a run and to the next run: 0 … t->n-1. The instruction must be of a float dtype (f32), or
 * of another (i32). May point into the memory of a value. */
const float *cpu_region_f32(const region_state *st, int instruction);
const int32_t *cpu_region_i32(const region_state *st, int instruction);

#endif
