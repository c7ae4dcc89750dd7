/* Merging of axes, choice of the lane axis, and the walk over tiles. Called by loop.c before and during a part.
 *
 * Tiles are single segments where the lane axis is long, so that loads can be pointers and what does not move is kept;
 * along a short one they hold several whole runs of it. */
#include "device/cpu/walk.h"

#include <math.h>
#include <stdlib.h>

enum {
  LONG_RUN = 64, /* from here on a tile is one segment */
  WIDE_REGION =
      40,  /* ops beyond which tiles are halved, so that registers stay in the nearest cache */
  FAR = 16 /* elements: a stride of a cache line */
};

/* Of an access, beside its lanes; in about ns. */
static const double SEGMENT_COST = 10;

/* --- sums of a region --- */
static bool sum_joins(const index_sum *s, int a, int b, int64_t extent_b) {
  uint32_t both = UINT32_C(1) << a | UINT32_C(1) << b;
  return !(s->odd_axes & both) && s->stride[a] == extent_b * s->stride[b];
}

static bool joins(const region_state *st, int a, int b) {
  for (int i = 0; i < st->n; i++) {
    const index_access *at = st->ops[i].at;
    for (int c = -1; at && c < at->n_checks; c++)
      if (!sum_joins(c < 0 ? &at->at : &at->checks[c].v, a, b, st->extent[b]))
        return false;
  }
  return true;
}

static void join(region_state *st, int a, int b) {
  for (int i = 0; i < st->n; i++) {
    index_access *at = st->ops[i].at;
    for (int c = -1; at && c < at->n_checks; c++)
      (c < 0 ? &at->at : &at->checks[c].v)->stride[a] = 0;
  }
  st->extent[b] *= st->extent[a];
  st->extent[a] = 1;
}

axis_list walk_merge(region_state *st, int first, int end) {
  axis_list list = {0};
  for (int axis = first; axis < end; axis++) {
    if (st->extent[axis] == 1)
      continue;
    int before = list.n ? list.axis[list.n - 1] : -1;
    if (before >= 0 && joins(st, before, axis)) {
      join(st, before, axis);
      list.n--;
    }
    list.axis[list.n++] = axis;
  }
  return list;
}

int64_t walk_points(const region_state *st, const axis_list *axes) {
  int64_t n = 1;
  for (int i = 0; i < axes->n; i++)
    n *= st->extent[axes->axis[i]];
  return n;
}

/* --- the lane axis --- */
static double sum_cost(const index_sum *s, int axis) {
  if (s->by_register || s->odd_axes >> axis & 1)
    return 4;
  int64_t stride = llabs(s->stride[axis]);
  return stride == 0 ? 0.1 : stride == 1 ? 0.2 : stride < FAR ? 1 : 2;
}

/* Per point, with lanes along an axis; -1: with one lane. */
static double lanes_cost(const region_state *st, int axis) {
  double cost = 0;
  int accesses = 0;
  for (int i = 0; i < st->n; i++) {
    const region_op_state *op = &st->ops[i];
    if (!op->at || op->i->row)
      continue;
    accesses++;
    for (int c = -1; axis >= 0 && c < op->at->n_checks; c++)
      cost += sum_cost(c < 0 ? &op->at->at : &op->at->checks[c].v, axis);
  }
  int64_t lanes = axis < 0 ? 1 : min_i64(st->extent[axis], CPU_TILE);
  return cost + SEGMENT_COST * accesses / (double)lanes;
}

double walk_choose_lanes(const region_state *st, axis_list *axes) {
  double best = INFINITY;
  int at = 0;
  for (int i = 0; i < axes->n; i++) {
    double cost = lanes_cost(st, axes->axis[i]);
    if (cost <= best) {
      best = cost;
      at = i;
    }
  }
  if (axes->n == 0)
    return lanes_cost(st, -1);
  int axis = axes->axis[at];
  for (int i = at; i + 1 < axes->n; i++)
    axes->axis[i] = axes->axis[i + 1];
  axes->axis[axes->n - 1] = axis;
  return best;
}

/* Whether some access runs far along the lanes though it is near along another axis: then the lines that a chunk of lanes
 * touches serve the steps of that axis, if these come next. */
static bool is_transposed(const region_state *st, const axis_list *axes, int lane_axis) {
  for (int i = 0; i < st->n; i++) {
    const index_access *a = st->ops[i].at;
    if (!a || !a->data || llabs(a->at.stride[lane_axis]) < FAR)
      continue;
    for (int k = 0; k < axes->n; k++)
      if (llabs(a->at.stride[axes->axis[k]]) == 1)
        return true;
  }
  return false;
}

/* --- the walk --- */
void walk_begin(walk *w, const region_state *st, const axis_list *axes) {
  *w = (walk){.st = st, .axes = *axes, .lane_extent = 1};
  if (axes->n) {
    w->lane_axis = axes->axis[--w->axes.n];
    w->lane_extent = st->extent[w->lane_axis];
  }
  int64_t lanes = st->n > WIDE_REGION ? CPU_TILE / 2 : CPU_TILE;
  if (w->lane_extent < LONG_RUN) {
    w->chunk = (int)w->lane_extent;
    w->rows = (int)min_i64(CPU_SEGMENTS, lanes / w->lane_extent);
    return;
  }
  /* Chunks of about equal size, in whole blocks. */
  int64_t chunks = (w->lane_extent + lanes - 1) / lanes,
          each = (w->lane_extent + chunks - 1) / chunks;
  w->chunk = (int)((each + CPU_LANE_BLOCK - 1) / CPU_LANE_BLOCK * CPU_LANE_BLOCK);
  w->rows = 1;
  w->lanes_outer = is_transposed(st, &w->axes, w->lane_axis);
}

void walk_restart(walk *w, const int64_t *at) {
  memcpy(w->at, at, sizeof w->at);
  w->done = false;
}

bool walk_step(const region_state *st, const axis_list *axes, int64_t *at) {
  for (int i = axes->n - 1; i >= 0; i--) {
    int axis = axes->axis[i];
    if (++at[axis] < st->extent[axis])
      return true;
    at[axis] = 0;
  }
  return false;
}

/* Along the lane axis; false at its end, with it at 0 again. */
static bool step_lanes(walk *w) {
  w->at[w->lane_axis] += w->chunk;
  if (w->at[w->lane_axis] < w->lane_extent)
    return true;
  w->at[w->lane_axis] = 0;
  return false;
}

bool walk_next(walk *w, tile *t) {
  if (w->done)
    return false;
  t->axis = w->lane_axis;
  tile_clear(t);
  for (int row = 0; row < w->rows && !w->done; row++) {
    tile_add(t, w->at, (int)min_i64(w->chunk, w->lane_extent - w->at[w->lane_axis]));
    if (w->lanes_outer)
      w->done = !walk_step(w->st, &w->axes, w->at) && !step_lanes(w);
    else
      w->done = !step_lanes(w) && !walk_step(w->st, &w->axes, w->at);
  }
  return true;
}
