/* Drafts into the steps of a program: by section, what a step reads before it, readers of a value before the step that takes
 * over its memory, and in program order where that leaves a choice. */
#include "plan/fuse_steps.h"

typedef struct edges {
  assembly *a;
  int *writer; /* by value of the program: draft; -1 */
  int *head;   /* by draft: first edge + 1 */
  int *next, *to;
  int n, cap, cap_next;
  int *waits; /* by draft: number of edges to it */
  int draft;
  bool ok;
} edges;

static step view_of(const draft *d) {
  return (step){.kind = d->kind, .n_parts = d->n_parts, .parts = d->parts};
}

static void add_edge(edges *e, int from, int to) {
  if (from < 0 || to < 0 || from == to)
    return;
  int room = e->cap;
  e->ok = e->ok &&
          fuse_room(&e->a->f->memory, (void **)&e->next, e->n, &e->cap_next, sizeof *e->next) &&
          fuse_room(&e->a->f->memory, (void **)&e->to, e->n, &room, sizeof *e->to);
  e->cap = room;
  if (!e->ok)
    return;
  e->to[e->n] = to;
  e->next[e->n] = e->head[from];
  e->head[from] = ++e->n;
  e->waits[to]++;
}

static bool note_writer(void *user, const step_use *use) {
  edges *e = user;
  if (use->store)
    e->writer[use->value] = e->draft;
  return true;
}

static bool note_reader(void *user, const step_use *use) {
  edges *e = user;
  if (!use->store) {
    add_edge(e, e->writer[use->value], e->draft);
    int over = e->a->taken_by[use->value];
    add_edge(e, e->draft, over);
  }
  return true;
}

/* The draft that takes over each value's memory. */
static void find_takeovers(edges *e) {
  const program *p = e->a->p;
  for (uint32_t v = 1; v < p->n_values; v++)
    if (p->values[v].in_place_of && e->writer[v] >= 0) {
      e->a->taken_by[p->values[v].in_place_of] = e->writer[v];
      add_edge(e, e->writer[p->values[v].in_place_of], e->writer[v]);
    }
}

static int writer_in_group(const edges *e, const fuse_group *g) {
  for (int k = 0; k < g->n_members; k++) {
    uint32_t id = e->a->f->values[g->members[k]].id;
    if (id && e->writer[id] >= 0)
      return e->writer[id];
  }
  return -1;
}

static bool find_edges(edges *e) {
  assembly *a = e->a;
  for (e->draft = 0; e->draft < a->n_drafts; e->draft++) {
    step s = view_of(a->drafts[e->draft]);
    (void)step_each_use(&s, note_writer, e);
  }
  find_takeovers(e);
  for (e->draft = 0; e->draft < a->n_drafts; e->draft++) {
    const draft *d = a->drafts[e->draft];
    step s = view_of(d);
    (void)step_each_use(&s, note_reader, e);
    for (int k = 0; k < d->n_after; k++)
      add_edge(e, writer_in_group(e, a->f->groups[d->after[k]]), e->draft);
  }
  return e->ok;
}

/* --- a heap of drafts that are ready --- */

static bool comes_first(const assembly *a, int x, int y) {
  const draft *d = a->drafts[x], *e = a->drafts[y];
  if (d->where != e->where)
    return d->where < e->where;
  return d->anchor != e->anchor ? d->anchor < e->anchor : x < y;
}

static void push(const assembly *a, int *heap, int *n, int x) {
  int k = (*n)++;
  for (; k > 0 && comes_first(a, x, heap[(k - 1) / 2]); k = (k - 1) / 2)
    heap[k] = heap[(k - 1) / 2];
  heap[k] = x;
}

static int pop(const assembly *a, int *heap, int *n) {
  int top = heap[0], x = heap[--*n], k = 0;
  for (int child; (child = 2 * k + 1) < *n; k = child) {
    if (child + 1 < *n && comes_first(a, heap[child + 1], heap[child]))
      child++;
    if (!comes_first(a, heap[child], x))
      break;
    heap[k] = heap[child];
  }
  heap[k] = x;
  return top;
}

static sn_status keep_after(edges *e, const draft *d, step *s) {
  uint32_t *after =
      arena_array(&e->a->p->memory, (size_t)(d->n_after + d->n_after_values) + 1, sizeof *after);
  if (!after)
    return SN_ERR_NO_MEMORY;
  s->after = after;
  for (int k = 0; k < d->n_after_values; k++)
    after[s->n_after++] = d->after_values[k];
  for (int k = 0; k < d->n_after; k++) {
    const fuse_group *g = e->a->f->groups[d->after[k]];
    for (int m = 0; m < g->n_members; m++) {
      uint32_t id = e->a->f->values[g->members[m]].id;
      if (id && e->writer[id] >= 0) {
        after[s->n_after++] = id;
        break;
      }
    }
  }
  return SN_OK;
}

static sn_status put_step(edges *e, int k, int at) {
  const draft *d = e->a->drafts[k];
  program *p = e->a->p;
  step *s = &p->steps[at];
  *s = view_of(d);
  s->name = d->name;
  s->launches = d->launches;
  s->flops = d->flops;
  s->bytes = d->bytes;
  *(d->where == SECTION_PREPARE ? &p->n_prepare
    : d->where == SECTION_MAIN  ? &p->n_main
                                : &p->n_commit) += 1;
  return keep_after(e, d, s);
}

static sn_status take_in_order(edges *e, int *heap) {
  assembly *a = e->a;
  int n = 0, done = 0;
  for (int k = 0; k < a->n_drafts; k++)
    if (!e->waits[k])
      push(a, heap, &n, k);
  while (n > 0) {
    int k = pop(a, heap, &n);
    SN_TRY(put_step(e, k, done++));
    for (int i = e->head[k]; i; i = e->next[i - 1])
      if (--e->waits[e->to[i - 1]] == 0)
        push(a, heap, &n, e->to[i - 1]);
  }
  if (done != a->n_drafts)
    return diag_fail(a->f->g->ctx, SN_ERR_INTERNAL, "fuse: steps wait for each other");
  return SN_OK;
}

sn_status steps_order(assembly *a) {
  arena *memory = &a->f->memory;
  size_t n = (size_t)a->n_drafts + 1;
  edges e = {.a = a, .ok = true};
  e.writer = arena_array(memory, a->p->n_values + 1, sizeof *e.writer);
  a->taken_by = arena_array(memory, a->p->n_values + 1, sizeof *a->taken_by);
  e.head = arena_array(memory, n, sizeof *e.head);
  e.waits = arena_array(memory, n, sizeof *e.waits);
  int *heap = arena_array(memory, n, sizeof *heap);
  a->p->steps = arena_array(&a->p->memory, n, sizeof *a->p->steps);
  if (!e.writer || !a->taken_by || !e.head || !e.waits || !heap || !a->p->steps)
    return SN_ERR_NO_MEMORY;
  for (uint32_t v = 0; v <= a->p->n_values; v++)
    e.writer[v] = a->taken_by[v] = -1;
  if (!find_edges(&e))
    return SN_ERR_NO_MEMORY;
  return take_in_order(&e, heap);
}

typedef struct reading {
  uint32_t value;
  bool found;
} reading;

static bool note_reading(void *user, const step_use *use) {
  reading *r = user;
  r->found = r->found || (!use->store && use->value == r->value);
  return true;
}

bool steps_reads(const step *s, uint32_t value) {
  reading r = {value, false};
  (void)step_each_use(s, note_reading, &r);
  return r.found;
}
