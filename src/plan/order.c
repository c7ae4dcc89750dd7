/* plan_order: what stands before what, and what keeps memory alive, as a section for schedule.c; then the steps in the order
 * that it found. Called by compile after fusion, before memory is shared out.
 *
 * Dependencies within prepare, main and commit (which stay as they are to each other):
 *   - who reads a value, or waits for it, comes after all that write it; whatever is unusual (read and written in turns) stays in the
 *     order it was given in
 *   - who makes a value in place of another comes after everyone else that touches that one
 *   - steps on different values of one state or output, if one of them writes, stay in the order they were given in
 */
#include "plan/plan.h"
#include "plan/schedule.h"
#include "plan/touches.h"

typedef struct edge {
  int from, to;
} edge;

/* A step that touches a value, in the order of steps. */
typedef struct toucher {
  int step;
  unsigned how;
} toucher;

typedef struct builder {
  const program *p;
  const touches *t;
  const uint32_t *roots;
  arena *memory;
  int first; /* step of the program that is the section's step 0 */
  section s;
  int *value_start; /* by value, into touchers */
  toucher *touchers;
  edge *edges;
  int n_edges, cap_edges;
  bool failed;
} builder;

static void add_edge(builder *b, int from, int to) {
  if (b->n_edges == b->cap_edges) {
    int wider = b->cap_edges ? 2 * b->cap_edges : 256;
    edge *grown = arena_array(b->memory, (size_t)wider, sizeof *grown);
    if (!grown) {
      b->failed = true;
      return;
    }
    if (b->n_edges)
      memcpy(grown, b->edges, (size_t)b->n_edges * sizeof *grown);
    b->edges = grown;
    b->cap_edges = wider;
  }
  b->edges[b->n_edges++] = (edge){from, to};
}

/* Those that touch a value in one of the ways `how`. */
typedef struct touched {
  const toucher *list;
  int n;
} touched;

static touched touchers_of(const builder *b, uint32_t value) {
  int start = b->value_start[value];
  return (touched){b->touchers + start, b->value_start[value + 1] - start};
}

static int first_of(touched t, unsigned how) {
  for (int i = 0; i < t.n; i++)
    if (t.list[i].how & how)
      return t.list[i].step;
  return INT32_MAX;
}

static int last_of(touched t, unsigned how) {
  for (int i = t.n - 1; i >= 0; i--)
    if (t.list[i].how & how)
      return t.list[i].step;
  return -1;
}

static int count_of(touched t, unsigned how) {
  int n = 0;
  for (int i = 0; i < t.n; i++)
    n += (t.list[i].how & how) != 0;
  return n;
}

/* Every step that touches one of the two values in a way of `how`, one after the other as they stand. */
static void keep_order(builder *b, touched x, touched y, unsigned how) {
  int last = -1;
  for (int i = 0, k = 0; i < x.n || k < y.n;) {
    bool from_x = k == y.n || (i < x.n && x.list[i].step <= y.list[k].step);
    toucher next = from_x ? x.list[i++] : y.list[k++];
    if (!(next.how & how) || next.step == last)
      continue;
    if (last >= 0)
      add_edge(b, last, next.step);
    last = next.step;
  }
}

/* All of x that touch in a way of hx come before all of y in a way of hy. */
static void all_before(builder *b, touched x, unsigned hx, touched y, unsigned hy) {
  int n = count_of(x, hx), m = count_of(y, hy);
  if (n == 0 || m == 0)
    return;
  if (n > 1 && m > 1) {
    int event = b->s.n_nodes++;
    for (int i = 0; i < x.n; i++)
      if (x.list[i].how & hx)
        add_edge(b, x.list[i].step, event);
    for (int i = 0; i < y.n; i++)
      if (y.list[i].how & hy)
        add_edge(b, event, y.list[i].step);
    return;
  }
  for (int i = 0; i < x.n; i++)
    for (int k = 0; k < y.n; k++)
      if ((x.list[i].how & hx) && (y.list[k].how & hy))
        add_edge(b, x.list[i].step, y.list[k].step);
}

static void order_value(builder *b, uint32_t v) {
  touched t = touchers_of(b, v);
  unsigned needs = TOUCH_READ | TOUCH_AFTER;
  if (!count_of(t, TOUCH_WRITE))
    return;
  if (last_of(t, TOUCH_WRITE) < first_of(t, needs))
    all_before(b, t, TOUCH_WRITE, t, needs);
  else
    keep_order(b, t, t, TOUCH_WRITE | needs);
}

/* v is made in place of o. The usual case: one step makes it, all others are done with o before. */
static void order_in_place(builder *b, uint32_t v, uint32_t o) {
  touched made = touchers_of(b, v), gone = touchers_of(b, o);
  unsigned any = TOUCH_READ | TOUCH_WRITE;
  int maker = first_of(made, TOUCH_WRITE);
  if (maker == INT32_MAX)
    return;
  if (last_of(gone, any) < maker) {
    all_before(b, gone, any, made, TOUCH_WRITE);
  } else if (count_of(made, TOUCH_WRITE) == 1 && last_of(gone, any) == maker) {
    for (int i = 0; i < gone.n; i++)
      if ((gone.list[i].how & any) && gone.list[i].step != maker)
        add_edge(b, gone.list[i].step, maker);
  } else {
    keep_order(b, gone, made, any);
  }
}

/* Values of one state or output, chained through `previous` (by value): each with all before it. */
static void order_same_home(builder *b, uint32_t v, uint32_t *latest, uint32_t *previous) {
  touched now = touchers_of(b, v);
  unsigned any = TOUCH_READ | TOUCH_WRITE;
  if (!count_of(now, any))
    return;
  for (uint32_t o = *latest; o; o = previous[o]) {
    touched other = touchers_of(b, o);
    if (count_of(now, TOUCH_WRITE) || count_of(other, TOUCH_WRITE))
      keep_order(b, other, now, any);
  }
  previous[v] = *latest;
  *latest = v;
}

static bool find_edges(builder *b) {
  const program *p = b->p;
  uint32_t *states = arena_array(b->memory, (size_t)p->n_states + 1, sizeof *states);
  uint32_t *outputs = arena_array(b->memory, (size_t)p->n_outputs + 1, sizeof *outputs);
  uint32_t *previous = arena_array(b->memory, p->n_values, sizeof *previous);
  if (!states || !outputs || !previous)
    return false;
  for (uint32_t v = 1; v < p->n_values && !b->failed; v++) {
    const program_value *value = &p->values[v];
    order_value(b, v);
    if (value->in_place_of)
      order_in_place(b, v, value->in_place_of);
    if (value->home == HOME_STATE && value->index < (uint32_t)p->n_states)
      order_same_home(b, v, &states[value->index], previous);
    if (value->home == HOME_OUTPUT && value->index < (uint32_t)p->n_outputs)
      order_same_home(b, v, &outputs[value->index], previous);
  }
  return !b->failed;
}

/* Rows from pairs (key, item), both ways by `backwards`. */
static bool make_rows(arena *memory, rows *out, int n_rows, const edge *pairs, int n_pairs,
                      bool backwards) {
  out->start = arena_array(memory, (size_t)n_rows + 2, sizeof *out->start);
  out->list = arena_array(memory, (size_t)n_pairs, sizeof *out->list);
  if (!out->start || !out->list)
    return false;
  int *fill = out->start + 1; /* one ahead, so that filling leaves the starts right */
  for (int i = 0; i < n_pairs; i++)
    fill[(backwards ? pairs[i].to : pairs[i].from) + 1]++;
  for (int i = 0; i < n_rows; i++)
    fill[i + 1] += fill[i];
  for (int i = 0; i < n_pairs; i++)
    out->list[fill[backwards ? pairs[i].to : pairs[i].from]++] =
        backwards ? pairs[i].from : pairs[i].to;
  return true;
}

/* Who touches each value, in the order of steps: one row a value. */
static bool find_touchers(builder *b) {
  const touches *t = b->t;
  int from = t->start[b->first], to = t->start[b->first + b->s.n];
  b->value_start = arena_array(b->memory, (size_t)b->p->n_values + 2, sizeof *b->value_start);
  b->touchers = arena_array(b->memory, (size_t)(to - from), sizeof *b->touchers);
  if (!b->value_start || !b->touchers)
    return false;
  int *fill = b->value_start + 1;
  for (int i = from; i < to; i++)
    fill[t->list[i].value + 1]++;
  for (uint32_t v = 0; v < b->p->n_values; v++)
    fill[v + 1] += fill[v];
  for (int s = 0; s < b->s.n; s++)
    for (int i = t->start[b->first + s]; i < t->start[b->first + s + 1]; i++)
      b->touchers[fill[t->list[i].value]++] = (toucher){s, t->list[i].how};
  return true;
}

/* --- blocks --- */

/* A block's bytes, cut off so that no sum of them overflows: then order matters no more, plan_place will refuse. */
static int64_t weight_of(const program *p, uint32_t value) {
  int64_t most = INT64_MAX / 4 / ((int64_t)p->n_values + 1);
  int64_t bytes = min_i64(max_i64(0, p->values[value].bytes), most);
  return (bytes + PROGRAM_ALIGN - 1) / PROGRAM_ALIGN * PROGRAM_ALIGN;
}

static bool counts_here(const builder *b, uint32_t value) {
  value_home home = b->p->values[value].home;
  return home == HOME_ARENA || (home == HOME_PREPARED && b->first + b->s.n <= b->p->n_prepare);
}

/* Numbers the blocks that the section touches: number[root] - 1. */
static bool find_blocks(builder *b, int *number) {
  const touches *t = b->t;
  int from = t->start[b->first], to = t->start[b->first + b->s.n], n_pairs = 0;
  edge *pairs = arena_array(b->memory, (size_t)(to - from), sizeof *pairs);
  int *last_step = arena_array(b->memory, b->p->n_values, sizeof *last_step);
  b->s.weight = arena_array(b->memory, (size_t)(to - from), sizeof *b->s.weight);
  if (!pairs || !last_step || !b->s.weight)
    return false;
  for (int s = 0; s < b->s.n; s++)
    for (int i = t->start[b->first + s]; i < t->start[b->first + s + 1]; i++) {
      uint32_t root = b->roots[t->list[i].value];
      if (!(t->list[i].how & (TOUCH_READ | TOUCH_WRITE)) || !counts_here(b, root))
        continue;
      if (!number[root])
        number[root] = ++b->s.n_blocks;
      int64_t *weight = &b->s.weight[number[root] - 1];
      *weight = max_i64(*weight, weight_of(b->p, t->list[i].value));
      if (last_step[root] == s + 1)
        continue;
      last_step[root] = s + 1;
      pairs[n_pairs++] = (edge){s, number[root] - 1};
    }
  return make_rows(b->memory, &b->s.blocks_of, b->s.n, pairs, n_pairs, false) &&
         make_rows(b->memory, &b->s.touched_by, b->s.n_blocks, pairs, n_pairs, true);
}

/* Blocks that are touched before or after the section too. */
static bool find_ends(builder *b, const int *number) {
  b->s.from_start = arena_array(b->memory, (size_t)b->s.n_blocks, sizeof(bool));
  b->s.to_end = arena_array(b->memory, (size_t)b->s.n_blocks, sizeof(bool));
  if (!b->s.from_start || !b->s.to_end)
    return false;
  for (int s = 0; s < program_steps(b->p); s++) {
    bool *mark = s < b->first ? b->s.from_start : s >= b->first + b->s.n ? b->s.to_end : NULL;
    if (!mark)
      continue;
    for (int i = b->t->start[s]; i < b->t->start[s + 1]; i++) {
      int block = number[b->roots[b->t->list[i].value]];
      if (block && (b->t->list[i].how & (TOUCH_READ | TOUCH_WRITE)))
        mark[block - 1] = true;
    }
  }
  return true;
}

static bool build_section(builder *b) {
  int *number = arena_array(b->memory, b->p->n_values, sizeof *number);
  b->s.n_nodes = b->s.n;
  return number && find_touchers(b) && find_edges(b) &&
         make_rows(b->memory, &b->s.after, b->s.n_nodes, b->edges, b->n_edges, false) &&
         make_rows(b->memory, &b->s.before, b->s.n_nodes, b->edges, b->n_edges, true) &&
         find_blocks(b, number) && find_ends(b, number);
}

static sn_status order_section(program *p, const touches *t, const uint32_t *roots, int first,
                               int n, arena *scratch) {
  builder b = {.p = p, .t = t, .roots = roots, .memory = scratch, .first = first};
  b.s.n = n;
  int *order = arena_array(scratch, (size_t)n, sizeof *order);
  step *steps = arena_copy(scratch, p->steps + first, (size_t)n * sizeof *steps);
  if (!order || !steps || !build_section(&b))
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < n; i++)
    order[i] = i;
  SN_TRY(schedule_improve(&b.s, order, scratch));
  for (int i = 0; i < n; i++)
    p->steps[first + i] = steps[order[i]];
  return SN_OK;
}

sn_status plan_order(program *p, sn_ctx *ctx) {
  const int n[] = {p->n_prepare, p->n_main, p->n_commit};
  int first = 0;
  sn_status status = SN_OK;
  for (size_t i = 0; i < COUNT_OF(n) && status == SN_OK; first += n[i++]) {
    if (n[i] < 2)
      continue;
    arena scratch;
    arena_init(&scratch, ctx);
    touches t;
    uint32_t *roots;
    status = touches_find(p, &scratch, &t);
    if (status == SN_OK)
      status = touches_roots(p, &scratch, &roots);
    if (status == SN_OK)
      status = order_section(p, &t, roots, first, n[i], &scratch);
    arena_clear(&scratch);
  }
  return status;
}
