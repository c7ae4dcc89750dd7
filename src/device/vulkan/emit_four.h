/* Regions at four neighbouring points of a group of axes at once, for who has four results in a thread. Memory that has the four
 * next to each other is read and written by vectors, what is the same for all of them is read and computed once. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_FOUR_H
#define SINEW_DEVICE_VULKAN_EMIT_FOUR_H

#include "device/vulkan/emit.h"

/* Where an access has four points whose first number along the group is a multiple of 4. */
typedef enum four_kind {
  FOUR_APART, /* anywhere */
  FOUR_SAME,  /* in one element */
  FOUR_NEXT   /* in four neighbours, at a multiple of four elements */
} four_kind;

/* `n` axes from `first` on, counted through; extents of all axes. */
typedef struct four_axes {
  int first, n;
  const sn_dim *extent;
} four_axes;
four_kind access_four(const access *at, const four_axes *a);
/* The same of instruction i, a load or store, anything else is apart; four neighbours only of f32, which vectors have. It sees more
 * where the last axis is a multiple of 4: axes that are cut, checks that all four pass or none, registers that are the same. */
four_kind emit_four_kind(const emitter *e, const region *r, int i, const four_axes *a);

/* Instruction i, a load or store of FOUR_NEXT and f32, at the point of now and the three behind it: their vector; registers of points
 * `first` … to memory. */
val emit_load_four(emitter *e, const instr *in);
void emit_store_four(emitter *e, const instr *in, int i, int first);

/* All of a region without reductions. axes: coordinates by point; acc: accumulators by point. */
typedef struct four_points {
  four_axes along;
  val axes[4][REGION_AXES], acc[4][EMIT_ACCS];
} four_points;
void emit_region_four(emitter *e, const region *r, const four_points *p);
/* The same of n fours (at most EMIT_FOURS) in step: loads of all are on their way before the first is used. */
enum { EMIT_FOURS = 2 };
void emit_region_fours(emitter *e, const region *r, int n, const four_points *p);

#endif
