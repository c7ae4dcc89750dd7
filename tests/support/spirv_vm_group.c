/* Dispatches: workgroups one after the other, their threads in turn from barrier to barrier. See spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

#include <stdlib.h>

enum { MEMORY_BUFFERS = 0x40, MEMORY_SHARED = 0x100, ORDERS = 0x1e /* acquire, release, … */ };

/* --- orders --- */

static uint32_t gcd(uint32_t a, uint32_t b) { return b ? gcd(b, a % b) : a; }

uint32_t vm_ordered(const vm_job *job, uint32_t i, uint32_t n) {
  if (job->order == VM_FORWARD)
    return i;
  if (job->order == VM_REVERSE)
    return n - 1 - i;
  uint32_t by = (job->seed * 2654435761u >> 8) % n | 1;
  while (gcd(by, n) != 1)
    by++;
  return (uint32_t)(((uint64_t)i * by + job->seed) % n);
}

/* --- threads --- */

static void *grown(void *at, size_t *room, size_t n, size_t each) {
  if (n <= *room)
    return at;
  free(at);
  *room = n;
  at = calloc(n, each);
  if (!at)
    abort();
  return at;
}

static void make_room(vm *v, const vm_module *m) {
  size_t n = (size_t)vm_threads(m), each = m->n_frame + m->n_private, had = v->room_shared;
  if (!v->threads)
    v->threads = calloc(VM_MAX_THREADS, sizeof *v->threads);
  v->frames = grown(v->frames, &v->room_frames, n * each, sizeof(word));
  v->defined = grown(v->defined, &v->room_defined, n * (m->n_private + 1), 1);
  v->shared = grown(v->shared, &v->room_shared, m->n_shared + 1, sizeof(word));
  if (had != v->room_shared) {
    size_t room = 0;
    v->shared_defined = (free(v->shared_defined), grown(NULL, &room, v->room_shared, 1));
    room = 0;
    v->shared_touches =
        (free(v->shared_touches), grown(NULL, &room, v->room_shared, sizeof *v->shared_touches));
  }
  if (!v->threads)
    abort();
  v->n_threads = (int)n;
}

static word builtin(const vm *v, const vm_thread *t, uint32_t which, uint32_t d) {
  const uint32_t *local = v->m->local;
  uint32_t at[3] = {t->number % local[0], t->number / local[0] % local[1],
                    t->number / local[0] / local[1]};
  uint32_t subgroups = ((uint32_t)v->n_threads + (uint32_t)v->subgroup - 1) / (uint32_t)v->subgroup;
  switch (which) {
  case 24: return v->job->groups[d];
  case 25: return local[d];
  case 26: return v->group[d];
  case 27: return at[d];
  case 28: return v->group[d] * local[d] + at[d];
  case 29: return t->number;
  case 36: return (word)v->subgroup;
  case 38: return subgroups;
  case 40: return t->subgroup;
  case 41: return t->lane;
  default: vm_fault((vm *)(uintptr_t)v, t, NULL, "built-in %u is not known", which); return 0;
  }
}

static void start_thread(vm *v, int i) {
  const vm_module *m = v->m;
  vm_thread *t = &v->threads[i];
  size_t each = m->n_frame + m->n_private;
  *t = (vm_thread){.frame = v->frames + (size_t)i * each,
                   .memory = v->frames + (size_t)i * each + m->n_frame,
                   .defined = v->defined + (size_t)i * (m->n_private + 1),
                   .number = (uint16_t)i,
                   .subgroup = (uint16_t)(i / v->subgroup),
                   .lane = (uint16_t)(i % v->subgroup),
                   .budget = v->job->budget ? (int64_t)v->job->budget : 1 << 24};
  const vm_function *f = &m->functions.at[m->ids[m->entry].ref];
  t->pc = m->blocks.at[f->first_block].pc;
  memset(t->defined, 0, m->n_private);
  for (uint32_t k = 0; k < m->inputs.n; k++)
    for (uint32_t d = 0; d < m->inputs.at[k].n; d++) {
      t->memory[m->inputs.at[k].place + d] = builtin(v, t, m->inputs.at[k].builtin, d);
      t->defined[m->inputs.at[k].place + d] = 1;
    }
}

/* --- barriers --- */

static bool together(const vm_thread *a, const vm_thread *b) {
  return a->pc == b->pc && a->state == b->state && a->depth == b->depth &&
         memcmp(a->back, b->back, (size_t)a->depth * sizeof *a->back) == 0;
}

/* All of n threads stand where the first does; otherwise a fault of those that do not. */
static bool all_there(vm *v, vm_thread *first, int n, const vm_thread *where, const char *what) {
  int there = 0;
  for (int i = 0; i < n; i++)
    there += together(&first[i], where);
  return there == n || vm_fault(v, where, v->m->ops.at + where->pc,
                                "%d of the %d threads of the %s reach this", there, n, what);
}

static void let_go(vm_thread *first, int n) {
  for (int i = 0; i < n; i++) {
    first[i].state = THREAD_RUNS;
    first[i].pc++;
  }
}

static const vm_thread *find_state(const vm_thread *first, int n, vm_state state) {
  for (int i = 0; i < n; i++)
    if (first[i].state == state)
      return &first[i];
  return NULL;
}

/* Until all its threads have ended or wait for the workgroup. */
static bool run_subgroup(vm *v, vm_thread *first, int n) {
  for (;;) {
    for (int i = 0; i < n && !v->failed; i++) {
      vm_thread *t = &first[vm_ordered(v->job, (uint32_t)i, (uint32_t)n)];
      if (t->state == THREAD_RUNS)
        vm_thread_run(v, t);
    }
    const vm_thread *where = v->failed ? NULL : find_state(first, n, THREAD_MEETS);
    if (!where)
      return !v->failed;
    if (!all_there(v, first, n, where, "subgroup") ||
        !vm_subgroup_run(v, first, n, v->m->ops.at + where->pc))
      return false;
    let_go(first, n);
  }
}

/* All threads stand at a barrier: what it orders lies behind now. */
static void pass_barrier(vm *v, const vm_op *o) {
  bool orders = (o->c & ORDERS) && o->b <= 2; /* memory of the workgroup, or more */
  if (orders && o->c & MEMORY_BUFFERS)
    v->now = ++v->clock;
  if (orders && o->c & MEMORY_SHARED)
    v->shared_now = ++v->clock;
  let_go(v->threads, v->n_threads);
}

/* A barrier of a subgroup that the others do not come to is right, but drivers on a CPU hold the whole workgroup at it: decision 25. where: the
 * barrier of the workgroup that they stand at; NULL: the end. */
static bool meet_alike(vm *v, const vm_thread *where) {
  const vm_thread *t = v->threads;
  for (int i = 0; i < v->n_threads; i++)
    if (t[i].passed != t->passed)
      return vm_fault(v, t, where ? v->m->ops.at + where->pc : NULL,
                      "before %s, subgroup 0 met %d times, subgroup %d %d times",
                      where ? "this" : "the end", t->passed, t[i].subgroup, t[i].passed);
  return true;
}

static bool run_group(vm *v) {
  int n = v->n_threads, subgroups = (n + v->subgroup - 1) / v->subgroup;
  v->group_from = v->now = v->shared_now = ++v->clock;
  memset(v->shared_defined, 0, v->m->n_shared);
  for (int i = 0; i < n; i++)
    start_thread(v, i);
  for (;;) {
    for (int s = 0; s < subgroups; s++) {
      int at = (int)vm_ordered(v->job, (uint32_t)s, (uint32_t)subgroups) * v->subgroup;
      if (!run_subgroup(v, v->threads + at, n - at < v->subgroup ? n - at : v->subgroup))
        return false;
    }
    const vm_thread *where = find_state(v->threads, n, THREAD_WAITS);
    if (!meet_alike(v, where))
      return false;
    if (!where)
      return true;
    if (!all_there(v, v->threads, n, where, "workgroup"))
      return false;
    pass_barrier(v, v->m->ops.at + where->pc);
  }
}

void vm_barrier(vm *v) { v->beside_from = ++v->clock; }

bool vm_dispatch(vm *v, const vm_module *m, const vm_job *job) {
  uint32_t n = job->groups[0] * job->groups[1] * job->groups[2];
  v->m = m;
  v->job = job;
  v->failed = false;
  v->finding[0] = '\0';
  make_room(v, m);
  if (job->after)
    vm_barrier(v);
  for (uint32_t i = 0; i < n && !v->failed; i++) {
    uint32_t at = vm_ordered(job, i, n);
    v->group[0] = at % job->groups[0];
    v->group[1] = at / job->groups[0] % job->groups[1];
    v->group[2] = at / job->groups[0] / job->groups[1];
    run_group(v);
  }
  return !v->failed;
}
