/* In which order the launches of a plan go, and which of them may run at once: phases. Found when it is known which launches do anything
 * (block.c); chain.c and record.c go by them.
 *
 * A plan has barriers between steps whose bytes conflict. But a step's launches end at different times: while the pieces of one part's sums
 * are put together, the next step's launches could begin, which need another part. So phases are found anew, of launches: each
 * has the lowest number above those of all launches before it whose bytes conflict with its own. Of a phase those with the longest chains
 * behind them go first.
 *
 * Conflicts are those of plan/barriers.c, of whole values by their places: one writes what another reads, or both write there, but not the same value.
 * Which values a launch touches its slots tell; whether it writes them, its step. Launches of one step wait for each other by
 * `after` alone. A step's scratch memory is a value of its own.
 *
 * For each memory a map tells of every byte who wrote it last, and the highest numbers of those who wrote and read it. */
#include "device/vulkan/plan.h"

#include <stdlib.h>

/* Numbers count from 1; 0: nobody. */
typedef struct stretch {
  int64_t low; /* up to the next one's */
  uint32_t owner;
  int before; /* the highest number of all who touched it before its owner wrote */
  int written, read;
} stretch;

/* The first begins at 0, the last has no end. */
typedef struct map {
  stretch *list;
  int n;
} map;

enum { READS = 1, WRITES = 2 };
enum { IN_ARENA, IN_PREPARED, IN_OUTPUTS, IN_STATES, IN_SCRATCH, MAPS };

typedef struct mark {
  int map;
  int64_t low, high;
  uint32_t owner;
  bool reads, writes;
} mark;

typedef struct finder {
  device_plan *dp;
  map maps[MAPS];
  unsigned char *how; /* by value: what the step at hand does with it */
  mark *marks;        /* of launch i: first[i] … first[i + 1] */
  int *first;
  int *phase, *behind; /* by launch: its phase; how long the chain is that begins with it */
} finder;

static int larger(int a, int b) { return a > b ? a : b; }

/* --- maps --- */

static int stretch_at(const map *m, int64_t x) {
  int a = 0, b = m->n;
  while (b - a > 1) {
    int middle = (a + b) / 2;
    if (m->list[middle].low <= x)
      a = middle;
    else
      b = middle;
  }
  return a;
}

/* The stretch that begins at x, made if need be. */
static int cut_at(map *m, int64_t x) {
  int i = stretch_at(m, x);
  if (m->list[i].low == x)
    return i;
  memmove(&m->list[i + 2], &m->list[i + 1], (size_t)(m->n - i - 1) * sizeof *m->list);
  m->list[i + 1] = m->list[i];
  m->list[i + 1].low = x;
  m->n++;
  return i + 1;
}

/* The highest number that conflicts. */
static int highest(const map *m, const mark *x) {
  int most = 0;
  for (int i = stretch_at(m, x->low); i < m->n && m->list[i].low < x->high; i++) {
    const stretch *s = &m->list[i];
    bool piece = !x->reads && s->owner == x->owner; /* who writes another one is not waited for */
    most = larger(most, piece ? s->before : s->written);
    most = larger(most, x->writes ? s->read : 0);
  }
  return most;
}

static void note(map *m, const mark *x, int number) {
  int from = cut_at(m, x->low), to = cut_at(m, x->high);
  for (int i = from; i < to; i++) {
    stretch *s = &m->list[i];
    if (x->writes && s->owner != x->owner)
      *s = (stretch){s->low, x->owner, larger(s->written, s->read), 0, 0};
    if (x->writes)
      s->written = larger(s->written, number);
    if (x->reads)
      s->read = larger(s->read, number);
  }
}

/* --- what launches touch --- */

static int map_of(value_home home) {
  switch (home) {
  case HOME_ARENA: return IN_ARENA;
  case HOME_PREPARED: return IN_PREPARED;
  case HOME_OUTPUT: return IN_OUTPUTS;
  case HOME_STATE: return IN_STATES;
  default: return -1; /* only read */
  }
}

/* False: nothing that could conflict. What its step does not name it may read and write. */
static bool mark_value(const finder *f, uint32_t value, mark *out) {
  const program_value *v = &f->dp->program->values[value];
  bool placed = v->home == HOME_ARENA || v->home == HOME_PREPARED;
  int64_t low = placed ? v->offset : v->index;
  *out = (mark){.map = map_of(v->home),
                .low = low,
                .high = placed ? low + v->bytes : low + 1,
                .owner = value,
                .reads = f->how[value] != WRITES,
                .writes = f->how[value] != READS};
  return out->map >= 0 && v->bytes > 0;
}

static int mark_launch(const finder *f, int index, const launch *l, mark *out) {
  const lowered_step *s = &f->dp->steps[index];
  bool scratch = false;
  int n = 0;
  for (int p = 0; p < l->n_parts; p++)
    for (int k = 0; k < l->parts[p].n_slots; k++) {
      const slot *x = &l->parts[p].slots[k];
      scratch = scratch || x->kind == SLOT_SCRATCH;
      n += x->kind == SLOT_ADDRESS && mark_value(f, x->value, &out[n]);
    }
  if (scratch && s->scratch_bytes > 0)
    out[n++] = (mark){.map = IN_SCRATCH,
                      .low = s->scratch_at,
                      .high = s->scratch_at + s->scratch_bytes,
                      .owner = f->dp->program->n_values + (uint32_t)index,
                      .writes = true};
  return n;
}

static bool note_use(void *user, const step_use *use) {
  finder *f = user;
  f->how[use->value] |= use->store ? WRITES : READS;
  return true;
}

static bool forget_use(void *user, const step_use *use) {
  ((finder *)user)->how[use->value] = 0;
  return true;
}

/* Of a step, and of those before it that it does itself (emit_absorb.c). */
static void visit_uses(finder *f, int index, bool (*visit)(void *user, const step_use *use)) {
  const device_plan *dp = f->dp;
  for (int s = index; s == index || (s >= 0 && dp->steps[s].n == 0); s--)
    (void)step_each_use(&dp->program->steps[s], visit, f);
}

static void mark_all(finder *f) {
  const device_plan *dp = f->dp;
  int n = 0;
  for (int s = 0; s < program_steps(dp->program); s++) {
    visit_uses(f, s, note_use);
    for (int i = dp->steps[s].first; i < dp->steps[s].first + dp->steps[s].n; i++) {
      f->first[i] = n;
      n += mark_launch(f, s, dp->launches[i].of, &f->marks[n]);
    }
    visit_uses(f, s, forget_use);
  }
  f->first[dp->n_launches] = n;
}

/* --- numbers --- */

static bool counts(const lowered_launch *l) { return !l->of->kept && launch_runs(l); }

/* From the bytes of other steps. */
static int number_of(const finder *f, int index) {
  int most = 0;
  for (int i = f->first[index]; i < f->first[index + 1]; i++)
    most = larger(most, highest(&f->maps[f->marks[i].map], &f->marks[i]));
  return most + 1;
}

static void note_step(finder *f, const lowered_step *s, const int *number) {
  for (int i = s->first; i < s->first + s->n; i++)
    for (int k = f->first[i]; k < f->first[i + 1] && number[i]; k++)
      note(&f->maps[f->marks[k].map], &f->marks[k], number[i]);
}

static void forget(finder *f) {
  for (int i = 0; i < MAPS; i++) {
    f->maps[i].list[0] = (stretch){0};
    f->maps[i].n = 1;
  }
}

/* `after` begins a level of a step's launches, those before which must be done: also where its own launch does nothing. */
static void find_phases(finder *f, int first, int n) {
  forget(f);
  for (int s = first; s < first + n; s++) {
    const lowered_step *of = &f->dp->steps[s];
    int most = 0, least = 0;
    for (int i = of->first; i < of->first + of->n; i++) {
      const lowered_launch *l = &f->dp->launches[i];
      least = l->of->after ? most + 1 : least;
      if (!counts(l))
        continue;
      f->phase[i] = larger(number_of(f, i), least);
      most = larger(most, f->phase[i]);
    }
    note_step(f, of, f->phase);
  }
}

/* The same from the end on. */
static void find_chains(finder *f, int first, int n) {
  forget(f);
  for (int s = first + n - 1; s >= first; s--) {
    const lowered_step *of = &f->dp->steps[s];
    int most = 0, least = 0;
    for (int i = of->first + of->n - 1; i >= of->first; i--) {
      const lowered_launch *l = &f->dp->launches[i];
      if (counts(l)) {
        f->behind[i] = larger(number_of(f, i), least);
        most = larger(most, f->behind[i]);
      }
      least = l->of->after ? most + 1 : least;
    }
    note_step(f, of, f->behind);
  }
}

/* --- the order --- */

typedef struct place {
  int phase, behind, launch;
} place;

static int by_place(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->phase != y->phase)
    return x->phase - y->phase;
  return x->behind != y->behind ? y->behind - x->behind : x->launch - y->launch;
}

static void order_section(finder *f, int number, place *places) {
  device_plan *dp = f->dp;
  plan_section *out = &dp->sections[number];
  int first, n = plan_section_steps(dp, number, &first);
  find_phases(f, first, n);
  find_chains(f, first, n);
  *out = (plan_section){.first = dp->n_ordered};
  for (int s = first; s < first + n; s++)
    for (int i = dp->steps[s].first; i < dp->steps[s].first + dp->steps[s].n; i++)
      if (counts(&dp->launches[i]))
        places[out->n++] = (place){f->phase[i], f->behind[i], i};
  qsort(places, (size_t)out->n, sizeof *places, by_place);
  for (int i = 0; i < out->n; i++) {
    dp->order[dp->n_ordered++] = places[i].launch;
    dp->launches[places[i].launch].phase = places[i].phase - 1;
  }
}

/* Addresses, and scratch memory. */
static size_t most_marks(const launch *l) {
  size_t n = 1;
  for (int p = 0; p < l->n_parts; p++)
    for (int k = 0; k < l->parts[p].n_slots; k++)
      n += l->parts[p].slots[k].kind == SLOT_ADDRESS;
  return n;
}

static sn_status find(finder *f, arena *memory) {
  device_plan *dp = f->dp;
  const program *p = dp->program;
  size_t n = (size_t)dp->n_launches, room = 1;
  for (size_t i = 0; i < n; i++)
    room += most_marks(dp->launches[i].of);
  f->how = arena_array(memory, p->n_values, sizeof *f->how);
  f->marks = arena_array(memory, room, sizeof *f->marks);
  f->first = arena_array(memory, n + 1, sizeof *f->first);
  f->phase = arena_array(memory, n, sizeof *f->phase);
  f->behind = arena_array(memory, n, sizeof *f->behind);
  place *places = arena_array(memory, n, sizeof *places);
  bool ok = f->how && f->marks && f->first && f->phase && f->behind && places;
  for (int i = 0; i < MAPS; i++) {
    f->maps[i].list = arena_array(memory, 2 * room + 1, sizeof(stretch));
    ok = ok && f->maps[i].list;
  }
  if (!ok)
    return SN_ERR_NO_MEMORY;
  mark_all(f);
  for (int i = 0; i < PLAN_SECTIONS; i++)
    order_section(f, i, places);
  return SN_OK;
}

sn_status plan_phases(device_plan *dp) {
  arena memory;
  finder f = {.dp = dp};
  arena_init(&memory, dp->ctx);
  dp->n_ordered = 0;
  for (int i = 0; i < dp->n_launches; i++)
    dp->launches[i].phase = -1;
  sn_status status = find(&f, &memory);
  arena_clear(&memory);
  return status;
}
