/* See schedule.h. List scheduling: of the steps that may come next, take the one that adds least to what is alive; forwards and
 * backwards, by two rules. Each order is measured, and kept only when it is better than the one before. Then independent
 * steps are drawn together as far as the peak allows. All of it takes about n log n, and ties go to the order that stood
 * before, so that equal programs get equal orders.
 */
#include "plan/schedule.h"

enum {
  ROUNDS = 3,     /* of improvement on what the round before found */
  LOOK_AHEAD = 32 /* steps over which one may be drawn forward */
};

typedef enum rule {
  RULE_LEAST, /* least added first */
  RULE_EAGER, /* what frees memory at once, the rest as it stood */
  RULES
} rule;

/* What is alive, as steps are taken one by one in either direction. */
typedef struct sweep {
  const section *s;
  const bool *from, *to; /* from_start and to_end, as seen in this direction */
  int *left;             /* by block: steps to come that touch it, */
  int64_t *left_sum;     /* and the sum of their numbers: the number of the last one left */
  bool *touched;
  bool *taken;
  int64_t alive;
} sweep;

static bool sweep_create(sweep *w, const section *s, bool backwards, arena *scratch) {
  *w = (sweep){.s = s};
  w->from = backwards ? s->to_end : s->from_start;
  w->to = backwards ? s->from_start : s->to_end;
  w->left = arena_array(scratch, (size_t)s->n_blocks, sizeof *w->left);
  w->left_sum = arena_array(scratch, (size_t)s->n_blocks, sizeof *w->left_sum);
  w->touched = arena_array(scratch, (size_t)s->n_blocks, sizeof *w->touched);
  w->taken = arena_array(scratch, (size_t)s->n, sizeof *w->taken);
  if (!w->left || !w->left_sum || !w->touched || !w->taken)
    return false;
  for (int b = 0; b < s->n_blocks; b++) {
    for (int i = s->touched_by.start[b]; i < s->touched_by.start[b + 1]; i++) {
      w->left[b]++;
      w->left_sum[b] += s->touched_by.list[i];
    }
    w->alive += w->from[b] ? s->weight[b] : 0;
  }
  return true;
}

/* What a step would bring to life and let die, were it taken now. */
static void sweep_cost(const sweep *w, int step, int64_t *added, int64_t *freed) {
  *added = *freed = 0;
  for (int i = w->s->blocks_of.start[step]; i < w->s->blocks_of.start[step + 1]; i++) {
    int b = w->s->blocks_of.list[i];
    *added += w->touched[b] || w->from[b] ? 0 : w->s->weight[b];
    *freed += w->left[b] == 1 && !w->to[b] ? w->s->weight[b] : 0;
  }
}

/* Takes a step; the bytes alive while it runs. */
static int64_t sweep_take(sweep *w, int step) {
  int64_t added, freed;
  sweep_cost(w, step, &added, &freed);
  for (int i = w->s->blocks_of.start[step]; i < w->s->blocks_of.start[step + 1]; i++) {
    int b = w->s->blocks_of.list[i];
    w->touched[b] = true;
    w->left[b]--;
    w->left_sum[b] -= step;
  }
  w->taken[step] = true;
  int64_t during = w->alive + added;
  w->alive = during - freed;
  return during;
}

int64_t schedule_peak(const section *s, const int *order, arena *scratch, bool *out_ok) {
  sweep w;
  *out_ok = sweep_create(&w, s, false, scratch);
  if (!*out_ok)
    return 0;
  int64_t peak = w.alive;
  for (int i = 0; i < s->n; i++)
    peak = max_i64(peak, sweep_take(&w, order[i]));
  return peak;
}

/* --- a list scheduler --- */

typedef struct scheduler {
  sweep w;
  rule by;
  const rows *next;
  int *waits;    /* by node: how many of those before it are not done */
  int64_t *cost; /* by step: what it adds less what it frees, were it taken now */
  int *rank;     /* by step: its place in the order that stood before, in this direction */
  int *heap, n_heap;
  int *heap_place; /* by step; -1: not in the heap */
} scheduler;

static bool comes_first(const scheduler *l, int a, int b) {
  int64_t x = l->cost[a], y = l->cost[b];
  if (l->by == RULE_EAGER) {
    x = min_i64(x, 0);
    y = min_i64(y, 0);
  }
  return x != y ? x < y : l->rank[a] < l->rank[b];
}

static void heap_put(scheduler *l, int place, int step) {
  l->heap[place] = step;
  l->heap_place[step] = place;
}

static void heap_raise(scheduler *l, int place) {
  int step = l->heap[place];
  for (int up; place > 0 && comes_first(l, step, l->heap[up = (place - 1) / 2]); place = up)
    heap_put(l, place, l->heap[up]);
  heap_put(l, place, step);
}

static void heap_sink(scheduler *l, int place) {
  int step = l->heap[place];
  for (int child; (child = 2 * place + 1) < l->n_heap; place = child) {
    if (child + 1 < l->n_heap && comes_first(l, l->heap[child + 1], l->heap[child]))
      child++;
    if (!comes_first(l, l->heap[child], step))
      break;
    heap_put(l, place, l->heap[child]);
  }
  heap_put(l, place, step);
}

static void heap_add(scheduler *l, int step) {
  heap_put(l, l->n_heap++, step);
  heap_raise(l, l->n_heap - 1);
}

static int heap_take(scheduler *l) {
  int step = l->heap[0];
  l->heap_place[step] = -1;
  int last = l->heap[--l->n_heap];
  if (l->n_heap) {
    heap_put(l, 0, last);
    heap_sink(l, 0);
  }
  return step;
}

static void make_cheaper(scheduler *l, int step, int64_t by) {
  l->cost[step] -= by;
  if (l->heap_place[step] >= 0)
    heap_raise(l, l->heap_place[step]);
}

/* Takes a step and tells those that share blocks with it. */
static void take(scheduler *l, int step) {
  const section *s = l->w.s;
  for (int i = s->blocks_of.start[step]; i < s->blocks_of.start[step + 1]; i++) {
    int b = s->blocks_of.list[i];
    if (l->w.touched[b] || l->w.from[b])
      continue;
    for (int k = s->touched_by.start[b]; k < s->touched_by.start[b + 1]; k++)
      if (s->touched_by.list[k] != step)
        make_cheaper(l, s->touched_by.list[k], s->weight[b]);
  }
  (void)sweep_take(&l->w, step);
  for (int i = s->blocks_of.start[step]; i < s->blocks_of.start[step + 1]; i++) {
    int b = s->blocks_of.list[i];
    if (l->w.left[b] == 1 && !l->w.to[b])
      make_cheaper(l, (int)l->w.left_sum[b], s->weight[b]);
  }
}

/* Tells what comes after a node that it is done. Events pass it on; they do not stand before events. */
static void node_done(scheduler *l, int node) {
  for (int i = l->next->start[node]; i < l->next->start[node + 1]; i++) {
    int other = l->next->list[i];
    if (--l->waits[other] > 0)
      continue;
    if (other < l->w.s->n)
      heap_add(l, other);
    else
      node_done(l, other);
  }
}

static bool scheduler_create(scheduler *l, const section *s, rule by, bool backwards,
                             arena *scratch) {
  *l = (scheduler){.by = by, .next = backwards ? &s->before : &s->after};
  const rows *previous = backwards ? &s->after : &s->before;
  l->waits = arena_array(scratch, (size_t)s->n_nodes, sizeof *l->waits);
  l->cost = arena_array(scratch, (size_t)s->n, sizeof *l->cost);
  l->rank = arena_array(scratch, (size_t)s->n, sizeof *l->rank);
  l->heap = arena_array(scratch, (size_t)s->n, sizeof *l->heap);
  l->heap_place = arena_array(scratch, (size_t)s->n, sizeof *l->heap_place);
  if (!l->waits || !l->cost || !l->rank || !l->heap || !l->heap_place ||
      !sweep_create(&l->w, s, backwards, scratch))
    return false;
  for (int i = 0; i < s->n_nodes; i++)
    l->waits[i] = previous->start[i + 1] - previous->start[i];
  for (int i = 0; i < s->n; i++) {
    int64_t added, freed;
    sweep_cost(&l->w, i, &added, &freed);
    l->cost[i] = added - freed;
    l->heap_place[i] = -1;
  }
  return true;
}

/* An order by one rule in one direction. false without memory. */
static bool list_order(const section *s, rule by, bool backwards, const int *base, int *out,
                       arena *scratch) {
  scheduler l;
  if (!scheduler_create(&l, s, by, backwards, scratch))
    return false;
  for (int i = 0; i < s->n; i++)
    l.rank[base[i]] = backwards ? s->n - 1 - i : i;
  for (int i = 0; i < s->n; i++)
    if (l.waits[i] == 0)
      heap_add(&l, i);
  for (int i = 0; i < s->n; i++) {
    int step = heap_take(&l);
    out[backwards ? s->n - 1 - i : i] = step;
    take(&l, step);
    node_done(&l, step);
  }
  return true;
}

/* --- side by side --- */

typedef struct gatherer {
  sweep w;
  int64_t limit;
  int *waits;      /* by node, as the last group left it */
  int *next;       /* by step: the one after it among those not taken; -1: none */
  int64_t *during; /* by step: at least what is alive while it runs */
  int *out, n_out;
} gatherer;

static void group_done(gatherer *q, int node) {
  const rows *after = &q->w.s->after;
  for (int i = after->start[node]; i < after->start[node + 1]; i++)
    if (--q->waits[after->list[i]] == 0 && after->list[i] >= q->w.s->n)
      group_done(q, after->list[i]);
}

/* Takes the first step and, of the LOOK_AHEAD after it, those that need nothing of this group, as long as neither they nor
 * the steps that they overtake rise above the limit. Returns the first step that is left. */
static int gather_group(gatherer *q, int first) {
  int skipped[LOOK_AHEAD], n_skipped = 0;
  int64_t highest = 0; /* of the skipped */
  int64_t held, added; /* held: freed in this group; nobody in it may use it again */
  int begin = q->n_out;
  sweep_cost(&q->w, first, &added, &held);
  (void)sweep_take(&q->w, first);
  q->out[q->n_out++] = first;
  int c = q->next[first];
  for (int looked = 0; c >= 0 && looked < LOOK_AHEAD; looked++, c = q->next[c]) {
    int64_t freed;
    sweep_cost(&q->w, c, &added, &freed);
    if (q->waits[c] == 0 && q->w.alive + held + added <= q->limit &&
        highest + added - freed <= q->limit) {
      (void)sweep_take(&q->w, c);
      held += freed;
      q->out[q->n_out++] = c;
      for (int i = 0; i < n_skipped; i++)
        q->during[skipped[i]] += added - freed;
      if (n_skipped) {
        highest += added - freed;
        q->next[skipped[n_skipped - 1]] = q->next[c];
      }
      continue;
    }
    skipped[n_skipped++] = c;
    highest = n_skipped == 1 ? q->during[c] : max_i64(highest, q->during[c]);
  }
  for (int i = begin; i < q->n_out; i++)
    group_done(q, q->out[i]);
  return n_skipped ? skipped[0] : c;
}

static bool gather(const section *s, const int *order, int64_t limit, int *out, arena *scratch) {
  gatherer q = {.limit = limit, .out = out};
  q.waits = arena_array(scratch, (size_t)s->n_nodes, sizeof *q.waits);
  q.next = arena_array(scratch, (size_t)s->n, sizeof *q.next);
  q.during = arena_array(scratch, (size_t)s->n, sizeof *q.during);
  sweep before;
  if (!q.waits || !q.next || !q.during || !sweep_create(&before, s, false, scratch) ||
      !sweep_create(&q.w, s, false, scratch))
    return false;
  for (int i = 0; i < s->n_nodes; i++)
    q.waits[i] = s->before.start[i + 1] - s->before.start[i];
  for (int i = 0; i < s->n; i++) {
    q.next[order[i]] = i + 1 < s->n ? order[i + 1] : -1;
    q.during[order[i]] = sweep_take(&before, order[i]);
  }
  for (int first = s->n ? order[0] : -1; first >= 0;)
    first = gather_group(&q, first);
  return true;
}

/* --- all together --- */

/* Tries both rules in both directions from `order`; whether it got better. */
static bool improve_once(const section *s, int *order, int64_t *peak, int *tried, arena *scratch,
                         bool *out_ok) {
  int64_t before = *peak;
  *out_ok = true;
  for (int by = 0; by < RULES; by++)
    for (int backwards = 0; backwards < 2; backwards++) {
      arena mine;
      arena_init(&mine, scratch->ctx);
      int64_t found = 0;
      *out_ok = list_order(s, (rule)by, backwards, order, tried, &mine);
      if (*out_ok)
        found = schedule_peak(s, tried, &mine, out_ok);
      arena_clear(&mine);
      if (!*out_ok)
        return false;
      if (found >= *peak)
        continue;
      *peak = found;
      memcpy(order, tried, (size_t)s->n * sizeof *order);
    }
  return *peak < before;
}

sn_status schedule_improve(const section *s, int *order, arena *scratch) {
  bool ok;
  int *tried = arena_array(scratch, (size_t)s->n, sizeof *tried);
  int64_t peak = schedule_peak(s, order, scratch, &ok);
  if (!tried || !ok)
    return SN_ERR_NO_MEMORY;
  bool better = true;
  for (int i = 0; i < ROUNDS && better; i++)
    better = improve_once(s, order, &peak, tried, scratch, &ok);
  if (!ok || !gather(s, order, peak, tried, scratch))
    return SN_ERR_NO_MEMORY;
  if (schedule_peak(s, tried, scratch, &ok) <= peak && ok)
    memcpy(order, tried, (size_t)s->n * sizeof *order);
  return ok ? SN_OK : SN_ERR_NO_MEMORY;
}
