/* The order in which a loop visits its points: tiles over a list of axes, one of which runs along the lanes. For loop.c. */
#ifndef SINEW_DEVICE_CPU_WALK_H
#define SINEW_DEVICE_CPU_WALK_H

#include "device/cpu/machine.h"

/* Axes with more than one point, the lane axis last. */
typedef struct axis_list {
  int n;
  int axis[REGION_AXES];
} axis_list;

/* Joins axes that every access of the region walks through as if they were one; only within first … end-1. The joined
 * axis is the later one; the other is left with extent 1. Gives what is left, in order. */
axis_list walk_merge(region_state *st, int first, int end);
/* Moves the axis along which accesses run best to the end. Returns the cost of a point's accesses, in about ns. Accesses
 * of rows do not count. */
double walk_choose_lanes(const region_state *st, axis_list *axes);
/* How many points the axes span. */
int64_t walk_points(const region_state *st, const axis_list *axes);

typedef struct walk {
  const region_state *st;
  axis_list axes; /* the lane axis taken off */
  int lane_axis;
  int64_t lane_extent;
  int chunk;        /* points of a segment, at most */
  int rows;         /* segments of a tile, at most */
  bool lanes_outer; /* all other axes run within a chunk of lanes */
  bool done;
  int64_t at[REGION_AXES];
} walk;

/* From the point where all coordinates are 0. No extent may be 0. */
void walk_begin(walk *w, const region_state *st, const axis_list *axes);
/* Again, from a point where the axes of the walk are at 0 and the others anywhere. */
void walk_restart(walk *w, const int64_t *at);
/* The next tile; false at the end. */
bool walk_next(walk *w, tile *t);
/* The next point in order, axes of the list only; false after the last, with all of them at 0 again. */
bool walk_step(const region_state *st, const axis_list *axes, int64_t *at);

#endif
