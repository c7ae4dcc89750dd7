/* See pack.h. Time runs to the right, offsets upwards; a block is a box that may be moved up and down only.
 *
 * First by skylines: the tops of what is placed so far, as segments over time. In the lowest segment, among the blocks whose whole
 * life lies within it, the best by some measure is placed; when there is none, the segment is lifted to its lower
 * neighbour. For training, where what is made first dies last, "longest life first" lays one arch over the other.
 *
 * Then, while the result is not within a hundredth of the bound and work is left, again and again: blocks that end too high count
 * for more, so that the next time they come earlier.
 */
#include "plan/pack.h"

enum { WORK = 1000000 /* looks at a node of the tree */ };
static const double MORE = 1.2;

typedef enum measure { BY_LIFE, BY_AREA, BY_SIZE, MEASURES } measure;

/* --- a tree over the blocks in the order of their births: which is the best that lives within [from, to]? --- */

typedef struct tree_node {
  int earliest, latest; /* ends of the blocks below it that are not placed */
  int best;             /* of them; -1: none */
} tree_node;

typedef struct picker {
  const pack_block *blocks;
  double *score;    /* by block: the higher, the earlier it is placed */
  int n, leaves;    /* leaves: a power of two */
  int *born;        /* time -> the first leaf of a block that is born then or later */
  int64_t work;     /* done */
  int *by_birth;    /* leaf -> block */
  int *leaf_of;     /* block -> leaf */
  tree_node *nodes; /* children of i: 2i, 2i + 1; root 1 */
} picker;

static bool is_better(const picker *t, int a, int b) {
  if (a < 0 || b < 0)
    return b < 0 && a >= 0;
  double x = t->score[a], y = t->score[b];
  if (x != y)
    return x > y;
  if (t->blocks[a].size != t->blocks[b].size)
    return t->blocks[a].size > t->blocks[b].size;
  return t->leaf_of[a] < t->leaf_of[b];
}

static void tree_update(picker *t, int node) {
  const tree_node *l = &t->nodes[2 * node], *r = &t->nodes[2 * node + 1];
  t->nodes[node].earliest = l->earliest < r->earliest ? l->earliest : r->earliest;
  t->nodes[node].latest = l->latest > r->latest ? l->latest : r->latest;
  t->nodes[node].best = is_better(t, r->best, l->best) ? r->best : l->best;
}

static void picker_fill(picker *t) {
  for (int i = 0; i < t->leaves; i++) {
    int block = i < t->n ? t->by_birth[i] : -1;
    int end = block < 0 ? 0 : t->blocks[block].last;
    t->nodes[t->leaves + i] =
        block < 0 ? (tree_node){INT32_MAX, -1, -1} : (tree_node){end, end, block};
  }
  for (int i = t->leaves - 1; i > 0; i--)
    tree_update(t, i);
}

static void picker_remove(picker *t, int block) {
  int node = t->leaves + t->leaf_of[block];
  t->nodes[node] = (tree_node){INT32_MAX, -1, -1};
  while (node /= 2) {
    tree_update(t, node);
    t->work++;
  }
}

/* The best, from leaf `from` on, that ends by `end`, or `best` when that is better. Below `node` are `width` leaves from `left`. */
static int tree_pick(picker *t, int node, int left, int width, int from, int end, int best) {
  const tree_node *n = &t->nodes[node];
  t->work++;
  if (left + width <= from || n->earliest > end || !is_better(t, n->best, best))
    return best;
  if (left >= from && n->latest <= end)
    return n->best;
  int half = width / 2;
  bool left_first = is_better(t, t->nodes[2 * node].best, t->nodes[2 * node + 1].best);
  for (int k = 0; k < 2; k++) {
    bool go_left = (k == 0) == left_first;
    best = go_left ? tree_pick(t, 2 * node, left, half, from, end, best)
                   : tree_pick(t, 2 * node + 1, left + half, half, from, end, best);
  }
  return best;
}

/* --- skylines --- */

/* A segment by its start: it reaches to end[start], its left neighbour starts at left[start] (-1: none). Entries of the heap whose
 * segment has changed since are passed over. */
typedef struct entry {
  int64_t height;
  int start, end;
} entry;

typedef struct skyline {
  int n_times;
  int *end, *left;
  int64_t *height;
  entry *heap;
  int n_heap;
} skyline;

static bool is_lower(const entry *a, const entry *b) {
  return a->height != b->height ? a->height < b->height : a->start < b->start;
}

static void heap_add(skyline *k, entry e) {
  int i = k->n_heap++;
  for (; i > 0 && is_lower(&e, &k->heap[(i - 1) / 2]); i = (i - 1) / 2)
    k->heap[i] = k->heap[(i - 1) / 2];
  k->heap[i] = e;
}

static entry heap_take(skyline *k) {
  entry lowest = k->heap[0], e = k->heap[--k->n_heap];
  int i = 0;
  for (int child; (child = 2 * i + 1) < k->n_heap; i = child) {
    if (child + 1 < k->n_heap && is_lower(&k->heap[child + 1], &k->heap[child]))
      child++;
    if (!is_lower(&k->heap[child], &e))
      break;
    k->heap[i] = k->heap[child];
  }
  k->heap[i] = e;
  return lowest;
}

/* Puts the segment [start, end] at a height, as one with neighbours of the same height. */
static void set_segment(skyline *k, int start, int end, int64_t height) {
  int left = k->left[start], right = end + 1;
  if (left >= 0 && k->height[left] == height) {
    k->end[start] = -1;
    start = left;
  }
  if (right < k->n_times && k->height[right] == height) {
    end = k->end[right];
    k->end[right] = -1;
  }
  k->end[start] = end;
  k->height[start] = height;
  if (end + 1 < k->n_times)
    k->left[end + 1] = start;
  heap_add(k, (entry){height, start, end});
}

/* Cuts [start, end] in two, before `at`, of the same height. */
static void cut_segment(skyline *k, int start, int at) {
  int end = k->end[start];
  k->end[start] = at - 1;
  k->end[at] = end;
  k->left[at] = start;
  k->height[at] = k->height[start];
  if (end + 1 < k->n_times)
    k->left[end + 1] = at;
}

static entry lowest_segment(skyline *k) {
  entry e;
  do
    e = heap_take(k);
  while (k->end[e.start] != e.end || k->height[e.start] != e.height);
  return e;
}

static void place_in_segment(skyline *k, entry e, pack_block *b) {
  int start = e.start;
  b->offset = e.height;
  if (b->first > start) {
    cut_segment(k, start, b->first);
    heap_add(k, (entry){e.height, start, b->first - 1});
    start = b->first;
  }
  if (b->last < e.end) {
    cut_segment(k, start, b->last + 1);
    heap_add(k, (entry){e.height, b->last + 1, e.end});
  }
  set_segment(k, start, b->last, e.height + b->size);
}

static void lift_segment(skyline *k, entry e) {
  int64_t height = INT64_MAX;
  if (k->left[e.start] >= 0)
    height = k->height[k->left[e.start]];
  if (e.end + 1 < k->n_times)
    height = min_i64(height, k->height[e.end + 1]);
  set_segment(k, e.start, e.end, height);
}

/* All blocks, by their scores; the height. */
static int64_t pack_skyline(picker *t, skyline *k, pack_block *blocks) {
  int64_t top = 0;
  picker_fill(t);
  k->n_heap = 0;
  memset(k->end, 0xff, (size_t)k->n_times * sizeof *k->end);
  k->left[0] = -1;
  k->end[0] = k->n_times - 1;
  k->height[0] = 0;
  heap_add(k, (entry){0, 0, k->n_times - 1});
  for (int left = t->n; left > 0;) {
    entry e = lowest_segment(k);
    int best = tree_pick(t, 1, 0, t->leaves, t->born[e.start], e.end, -1);
    if (best < 0) {
      lift_segment(k, e);
      continue;
    }
    place_in_segment(k, e, &blocks[best]);
    picker_remove(t, best);
    top = max_i64(top, blocks[best].offset + blocks[best].size);
    left--;
  }
  return top;
}

/* --- all together --- */

static bool picker_create(picker *t, const pack_block *blocks, int n, const skyline *k,
                          arena *scratch) {
  *t = (picker){.blocks = blocks, .n = n, .leaves = 1};
  while (t->leaves < n)
    t->leaves *= 2;
  t->score = arena_array(scratch, (size_t)n, sizeof *t->score);
  t->by_birth = arena_array(scratch, (size_t)n, sizeof *t->by_birth);
  t->leaf_of = arena_array(scratch, (size_t)n, sizeof *t->leaf_of);
  t->nodes = arena_array(scratch, 2 * (size_t)t->leaves, sizeof *t->nodes);
  t->born = arena_array(scratch, (size_t)k->n_times + 2, sizeof *t->born);
  if (!t->score || !t->by_birth || !t->leaf_of || !t->nodes || !t->born)
    return false;
  int *fill = t->born + 1; /* one ahead, so that filling leaves the starts right */
  for (int i = 0; i < n; i++)
    fill[blocks[i].first + 1]++;
  for (int i = 0; i < k->n_times; i++)
    fill[i + 1] += fill[i];
  for (int i = 0; i < n; i++) {
    t->leaf_of[i] = fill[blocks[i].first]++;
    t->by_birth[t->leaf_of[i]] = i;
  }
  return true;
}

static bool skyline_create(skyline *k, int n, int n_times, arena *scratch) {
  *k = (skyline){.n_times = n_times};
  k->end = arena_array(scratch, (size_t)n_times, sizeof *k->end);
  k->left = arena_array(scratch, (size_t)n_times, sizeof *k->left);
  k->height = arena_array(scratch, (size_t)n_times, sizeof *k->height);
  /* A block adds at most three entries and two segments; each lift ends one segment and adds an entry. */
  k->heap = arena_array(scratch, 5 * (size_t)n + 4, sizeof *k->heap);
  return k->end && k->left && k->height && k->heap;
}

static void set_scores(picker *t, measure by) {
  for (int i = 0; i < t->n; i++) {
    const pack_block *b = &t->blocks[i];
    double life = (double)(b->last - b->first) + 1, size = (double)b->size;
    t->score[i] = by == BY_LIFE ? life : by == BY_SIZE ? size : life * size;
  }
}

/* The best so far. */
typedef struct found {
  int64_t height;
  int64_t *offsets;
} found;

/* Starts from one measure and goes on until the goal is reached or the work is done; packs at least once. */
static void search(picker *t, skyline *k, pack_block *blocks, measure by, int64_t goal,
                   int64_t work, found *best) {
  set_scores(t, by);
  t->work = 0;
  do {
    int64_t height = pack_skyline(t, k, blocks);
    for (int i = 0; i < t->n && height < best->height; i++)
      best->offsets[i] = blocks[i].offset;
    best->height = min_i64(best->height, height);
    for (int i = 0; i < t->n; i++)
      t->score[i] *= blocks[i].offset + blocks[i].size > goal ? MORE : 1;
  } while (best->height > goal && t->work < work);
}

sn_status pack_blocks(pack_block *blocks, int n, int n_times, int64_t bound, arena *scratch,
                      int64_t *out_height) {
  *out_height = 0;
  if (n == 0)
    return SN_OK;
  picker t;
  skyline k;
  found best = {INT64_MAX, arena_array(scratch, (size_t)n, sizeof *best.offsets)};
  if (!best.offsets || !skyline_create(&k, n, n_times, scratch) ||
      !picker_create(&t, blocks, n, &k, scratch))
    return SN_ERR_NO_MEMORY;
  int64_t goal = bound + bound / 100, left = WORK;
  /* Each measure once, which mostly does; then each with a share of the work. */
  for (int m = 0; m < 2 * MEASURES && best.height > goal && left > 0; m++) {
    int64_t share = m < MEASURES ? 0 : left / (2 * MEASURES - m);
    search(&t, &k, blocks, (measure)(m % MEASURES), goal, share, &best);
    left -= t.work;
  }
  for (int i = 0; i < n; i++)
    blocks[i].offset = best.offsets[i];
  *out_height = best.height;
  return SN_OK;
}
