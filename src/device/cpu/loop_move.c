/* Parts that only move: one load, one store, both linear (transposes, heads first, pieces of a concat). Called by loop.c.
 *
 * Nothing of the region machine is needed: blocks of memory are copied, or turned where one side is dense along another axis
 * than the other. Blocks follow each other as they lie in what is loaded. */
#include "device/cpu/loop.h"

enum {
  DENSE_LEAST = 16,  /* elements of a run, at least */
  COPY_BLOCK = 4096, /* elements of a block that is copied */
  /* Of a block that is turned: runs of results, and of what is loaded; and where results go past the caches. */
  TURN_ROWS = 32,
  TURN_RUN = 128,
  PAST_ROWS = 64,
  PAST_RUN = 512
};

/* The longest axis along which both (or only one of them) are dense; -1: none. */
static int dense_axis(const region_state *st, const axis_list *axes, const index_sum *a,
                      const index_sum *b) {
  int best = -1;
  for (int k = 0; k < axes->n; k++) {
    int axis = axes->axis[k];
    bool dense = a->stride[axis] == 1 && (!b || b->stride[axis] == 1);
    if (dense && st->extent[axis] >= DENSE_LEAST &&
        (best < 0 || st->extent[axis] > st->extent[best]))
      best = axis;
  }
  return best;
}

static void add_axis(loop_move *m, const region_state *st, int axis, int64_t by) {
  const index_sum *load = &st->ops[0].at->at, *store = &st->ops[1].at->at;
  m->axis[m->n++] = (struct move_axis){.extent = st->extent[axis],
                                       .by = by,
                                       .tiles = (st->extent[axis] + by - 1) / by,
                                       .load = load->stride[axis],
                                       .store = store->stride[axis]};
}

/* All axes but two, the furthest strides of the load first. */
static void add_others(loop_move *m, const region_state *st, const axis_list *axes, int a, int b) {
  for (int k = 0; k < axes->n; k++)
    if (axes->axis[k] != a && axes->axis[k] != b)
      add_axis(m, st, axes->axis[k], 1);
  for (int i = 1; i < m->n; i++)
    for (int k = i; k > 0 && m->axis[k].load > m->axis[k - 1].load; k--) {
      struct move_axis t = m->axis[k];
      m->axis[k] = m->axis[k - 1];
      m->axis[k - 1] = t;
    }
}

static bool is_move(const region_state *st) {
  if (st->n != 2 || st->ops[0].i->op != REGION_LOAD || st->ops[1].i->op != REGION_STORE)
    return false;
  const index_access *from = st->ops[0].at, *to = st->ops[1].at;
  return st->ops[1].i->a == 0 && from->simple && to->simple && from->dtype == to->dtype &&
         from->size == 4 && !region_overlap(&st->ops[0], &st->ops[1]);
}

/* The axis whose runs a block of copies takes together: the nearest of the load's. */
static int second_axis(const region_state *st, const axis_list *axes, int dense) {
  int best = -1;
  for (int k = 0; k < axes->n; k++) {
    int axis = axes->axis[k];
    if (axis != dense &&
        (best < 0 || st->ops[0].at->at.stride[axis] < st->ops[0].at->at.stride[best]))
      best = axis;
  }
  return best;
}

int64_t loop_find_move(const region_state *st, const axis_list *axes, loop_move *m) {
  *m = (loop_move){0};
  if (!is_move(st))
    return 0;
  const index_access *from = st->ops[0].at, *to = st->ops[1].at;
  int run = dense_axis(st, axes, &from->at, &to->at), rows;
  m->from = (const float *)from->data + from->at.base;
  m->to = (float *)to->data + to->at.base;
  m->past = to->streams;
  if (run >= 0) {
    rows = second_axis(st, axes, run);
    add_others(m, st, axes, run, rows);
    if (rows >= 0)
      add_axis(m, st, rows, max_i64(1, COPY_BLOCK / st->extent[run]));
    add_axis(m, st, run, COPY_BLOCK);
  } else {
    run = dense_axis(st, axes, &from->at, NULL);
    rows = dense_axis(st, axes, &to->at, NULL);
    if (run < 0 || rows < 0)
      return 0;
    m->turned = true;
    add_others(m, st, axes, run, rows);
    add_axis(m, st, rows, m->past ? PAST_ROWS : TURN_ROWS);
    add_axis(m, st, run, m->past ? PAST_RUN : TURN_RUN);
  }
  int64_t blocks = 1;
  for (int k = 0; k < m->n; k++)
    blocks *= m->axis[k].tiles;
  return blocks;
}

void loop_run_move(const loop_move *m, const lane_kernels *kernels, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; i++) {
    const float *source = m->from;
    float *out = m->to;
    int64_t left = i, n[REGION_AXES + 1] = {0};
    for (int k = m->n - 1; k >= 0; k--) {
      const struct move_axis *a = &m->axis[k];
      int64_t at = left % a->tiles * a->by;
      left /= a->tiles;
      source += at * a->load;
      out += at * a->store;
      n[k] = min_i64(a->by, a->extent - at);
    }
    const struct move_axis *run = &m->axis[m->n - 1], *rows = m->n > 1 ? run - 1 : NULL;
    lane_move move = {.n = (int)n[m->n - 1], .rows = rows ? (int)n[m->n - 2] : 1, .past = m->past};
    move.from_by = rows ? rows->load : 0;
    move.to_by = m->turned ? run->store : rows ? rows->store : 0;
    (m->turned ? kernels->turn : kernels->copy)(out, source, &move);
  }
}
