/* The order in which a loop visits its points: tiles over a list of axes, one
 * of which runs along the lanes. For loops. */
#ifndef SINEW_DEVICE_CPU_WALK_H
#define SINEW_DEVICE_CPU_WALK_H

#include "device/cpu/machine.h"

/* Axes with more than one point, the lane axis last. */
typedef struct axis_list {
  int n;
  int axis[REGION_AXES];
} axis_list;

/* Where accesses divide the coordinate of an axis of unit stride, evenly, the
 * axis becomes two: quotient and remainder, the new one last. Only axes first
 * and beyond. */
void walk_split(region_state *st, int first);
/* Joins axes that every access of the region walks through as if they were one;
 * only within first … end-1. The joined axis is the later one; the other is
 * left with extent 1. Gives what is left, in order. */
axis_list walk_merge(region_state *st, int first, int end);
/* Moves the axis along which accesses run best to the end. Returns the cost of a point's accesses, in about ns. Accesses
 * of rows count by `rows`: how many there are for a point. */
double walk_choose_lanes(const region_state *st, axis_list *axes, double rows);
/* How many points the axes span. */
int64_t walk_points(const region_state *st, const axis_list *axes);

/* A tile is a box: `chunk` points along the lane axis and `rows` segments along
 * row_axis. Tiles are counted by digits, the last of which runs fastest. */
typedef struct walk {
  const region_state *st;
  int lane_axis, row_axis; /* row_axis -1: single segments */
  int chunk, rows;
  bool square;
  int n_digits;
  struct walk_digit {
    int axis, by;
    int64_t count, value;
  } digits[REGION_AXES + 2];
  int64_t left; /* tiles to come */
  int64_t at[REGION_AXES];
} walk;

/* Tiles over all points of the axes. No extent may be 0. */
void walk_begin(walk *w, const region_state *st, const axis_list *axes);
/* All tiles of it. */
int64_t walk_tiles(const walk *w);
/* `count` tiles from number `first` on. Axes that are not of the walk stand at
 * `at`. */
void walk_seek(walk *w, const int64_t *at, int64_t first, int64_t count);
/* The next tile; false at the end. */
bool walk_next(walk *w, tile *t);

/* Point number `index` in order, axes of the list only. */
void walk_point(const region_state *st, const axis_list *axes, int64_t index, int64_t *at);
/* The next point in order; false after the last, with all of them at 0 again.
 */
bool walk_step(const region_state *st, const axis_list *axes, int64_t *at);

#endif
