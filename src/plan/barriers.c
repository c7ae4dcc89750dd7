/* plan_barriers: where a device must wait. Called by compile when offsets are known. Walks the steps and remembers what has been
 * read and written since the last barrier; a step that conflicts with it (it reads what was written, or writes what was
 * written or read) gets one. So every flag is needed: without it two steps of one group would conflict. Besides, `main`
 * waits for `prepare` and `commit` for `main`.
 *
 * Conflicts are of bytes: whole values, by their places. Two steps that write the same value write different elements of it
 * (pieces) and do not conflict. Inputs and constants are only read.
 */
#include "plan/barriers.h"
#include "plan/plan.h"
#include "plan/touches.h"

/* Disjoint stretches of memory in ascending order; those that touch are one. */
typedef struct span {
  int64_t low, high; /* high: one beyond */
} span;
typedef struct span_set {
  span *list;
  int n;
} span_set;

/* The first span that ends at `low` or later. */
static int span_at(const span_set *s, int64_t low) {
  int a = 0, b = s->n;
  while (a < b) {
    int middle = (a + b) / 2;
    if (s->list[middle].high < low)
      a = middle + 1;
    else
      b = middle;
  }
  return a;
}

static bool spans_overlap(const span_set *s, span x) {
  int i = span_at(s, x.low);
  i += i < s->n && s->list[i].high == x.low;
  return i < s->n && s->list[i].low < x.high;
}

static void spans_add(span_set *s, span x) {
  int from = span_at(s, x.low), to = from;
  for (; to < s->n && s->list[to].low <= x.high; to++) {
    x.low = min_i64(x.low, s->list[to].low);
    x.high = max_i64(x.high, s->list[to].high);
  }
  memmove(&s->list[from + 1], &s->list[to], (size_t)(s->n - to) * sizeof x);
  s->list[from] = x;
  s->n += 1 - (to - from);
}

/* States and outputs are like the arenas, with one byte an index. */
enum { ARENAS = 4 };
static int arena_of(value_home home) {
  switch (home) {
  case HOME_ARENA: return 0;
  case HOME_PREPARED: return 1;
  case HOME_OUTPUT: return 2;
  case HOME_STATE: return 3;
  default: return -1;
  }
}

typedef struct walker {
  const program *p;
  const uint32_t *roots; /* NULL: by places; else every block has one of its own */
  span_set read[ARENAS], written[ARENAS];
  int *write_group; /* by value: the group in which it was last written, from 1 */
  int group;
} walker;

static span span_of(const walker *w, uint32_t value) {
  const program_value *v = &w->p->values[value];
  if (v->home == HOME_OUTPUT || v->home == HOME_STATE)
    return (span){v->index, (int64_t)v->index + (v->bytes > 0)};
  if (w->roots)
    return (span){w->roots[value], (int64_t)w->roots[value] + (v->bytes > 0)};
  return (span){v->offset, v->offset + v->bytes};
}

static bool conflicts(const walker *w, const touch *t) {
  int in = arena_of(w->p->values[t->value].home);
  span x = span_of(w, t->value);
  if (in < 0 || x.low == x.high)
    return false;
  if ((t->how & TOUCH_READ) && spans_overlap(&w->written[in], x))
    return true;
  if (!(t->how & TOUCH_WRITE))
    return false;
  bool piece = w->write_group[t->value] == w->group;
  return spans_overlap(&w->read[in], x) || (!piece && spans_overlap(&w->written[in], x));
}

static void remember(walker *w, const touch *t) {
  int in = arena_of(w->p->values[t->value].home);
  span x = span_of(w, t->value);
  if (in < 0 || x.low == x.high)
    return;
  if (t->how & TOUCH_READ)
    spans_add(&w->read[in], x);
  if (t->how & TOUCH_WRITE) {
    spans_add(&w->written[in], x);
    w->write_group[t->value] = w->group;
  }
}

static void next_group(walker *w) {
  w->group++;
  for (int i = 0; i < ARENAS; i++)
    w->read[i].n = w->written[i].n = 0;
}

static void visit_step(walker *w, bool section_begins, const touch *list, int n) {
  bool waits = section_begins;
  for (int i = 0; i < n && !waits; i++)
    waits = conflicts(w, &list[i]);
  if (waits)
    next_group(w);
  for (int i = 0; i < n; i++)
    remember(w, &list[i]);
}

sn_status barriers_groups(const program *p, const uint32_t *roots, arena *scratch, int *group) {
  touches t;
  SN_TRY(touches_find(p, scratch, &t));
  int n_steps = program_steps(p);
  walker w = {.p = p, .roots = roots, .group = 1};
  size_t room = (size_t)t.start[n_steps] + 1;
  w.write_group = arena_array(scratch, p->n_values, sizeof *w.write_group);
  for (int i = 0; i < ARENAS; i++) {
    w.read[i].list = arena_array(scratch, room, sizeof(span));
    w.written[i].list = arena_array(scratch, room, sizeof(span));
    if (!w.read[i].list || !w.written[i].list)
      return SN_ERR_NO_MEMORY;
  }
  if (!w.write_group)
    return SN_ERR_NO_MEMORY;
  for (int s = 0; s < n_steps; s++) {
    bool begins = s > 0 && (s == p->n_prepare || s == p->n_prepare + p->n_main);
    visit_step(&w, begins, t.list + t.start[s], t.start[s + 1] - t.start[s]);
    group[s] = w.group - 1;
  }
  return SN_OK;
}

sn_status plan_barriers(program *p, sn_ctx *ctx) {
  arena scratch;
  arena_init(&scratch, ctx);
  int n_steps = program_steps(p);
  int *group = arena_array(&scratch, (size_t)n_steps, sizeof *group);
  sn_status status = group ? barriers_groups(p, NULL, &scratch, group) : SN_ERR_NO_MEMORY;
  for (int s = 0; s < n_steps && status == SN_OK; s++)
    p->steps[s].barrier = s > 0 && group[s] != group[s - 1];
  arena_clear(&scratch);
  return status;
}
