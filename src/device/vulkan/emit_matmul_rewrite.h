/* Matmul steps said over other axes, before ways are chosen for them and kernels are emitted. The sums stay what they
 * are; what changes is which coordinates are counted, and so how much work it is to find an element:
 *
 *   emit_matmul_phases.c   gradients of strided convolutions for their input become one part for each phase of pixels
 *   emit_matmul_fold.c     axes of one point go, neighbouring axes that are counted through become one, and so do
 *                          checks that always pass
 *   emit_matmul_axes.c     regions through a map of axes, which both use
 *
 * All that is new is memory of env->memory. What cannot be said so stays as it is.
 */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_REWRITE_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_REWRITE_H

#include "device/vulkan/emit.h"

/* A matmul step so said. */
sn_status matmul_rewrite(emit_env *env, const step *s, const step **out) SN_MUST_USE;

/* --- inside --- */

/* The parts that a part is cut into, at most MATMUL_PHASES; *out_n 1: it stays whole, and *out is the part. */
enum { MATMUL_PHASES = 64 };
sn_status matmul_cut(emit_env *env, const matmul_part *of, const matmul_part **out,
                     int *out_n) SN_MUST_USE;
/* A part with as few axes and checks as it can have; a phase keeps those of its rows and its k. */
sn_status matmul_fold(emit_env *env, matmul_part *p) SN_MUST_USE;
/* A copy of a part for its epilogue alone, whose rows and columns have as few axes as that can have. NULL: no memory. */
const matmul_part *matmul_fold_result(emit_env *env, const matmul_part *p);

/* Coordinate i of an axis is from[axis] + by[axis] * i'. */
typedef struct axis_map {
  int64_t from[REGION_AXES], by[REGION_AXES];
} axis_map;
axis_map axes_unchanged(void);
/* Whether a region can go through the map: what it reads of axes that change is a number times a coordinate. */
bool axes_fit(const region *r, const axis_map *m);
/* A copy that fits, with memory of its own for code, terms and checks; and of an access. */
sn_status region_map(emit_env *env, const region *of, const axis_map *m, region *out) SN_MUST_USE;
sn_status access_map(emit_env *env, const axis_map *m, access *at) SN_MUST_USE;

static inline bool term_is_plain(const term *t) { return t->div == 1 && t->mod == 0; }

#endif
