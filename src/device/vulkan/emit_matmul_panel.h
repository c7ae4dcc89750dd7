/* Panels: an operand's elements of one tile and `depth` elements of k in shared memory, [k][row], as vectors of
 * four rows. See emit_matmul.h. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_PANEL_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_PANEL_H

#include "device/vulkan/emit_matmul.h"

typedef struct panel {
  operand o;
  int rows, depth, threads;
  val array;         /* shared; vectors of four f32 */
  int first, stride; /* in vectors: where the panel begins, from k to k */
  int loads;         /* of a thread, of o.width elements each; plain operands */
  val row, k;        /* of this thread's first load in the panel */
  int table; /* in vectors: for each k of a panel, what it adds to places and checks; -1: none */
  operand_rows at;
  /* Elements that are loaded, not yet stored; by load, whether they exist (else any number came). */
  val kept[MATMUL_LOADS * 4], there[MATMUL_LOADS];
} panel;

/* Vectors from line to line. */
static inline int panel_stride(int rows) { return rows / 4; }
/* The vectors of line k change places, by exclusive or with this number (below 8): threads that store one row at
 * several k would otherwise meet in one bank. Equal for k, k + 1, k + 2, k + 3 where k is a multiple of 4. */
val panel_turn(kernel *k, int depth, val at_k);

/* Reads the operand; where its thread's elements are. */
void panel_open(matmul *m, panel *p);
/* The table for the panel at k, by the first threads. Panels are loaded behind a barrier. */
void panel_fill_table(matmul *m, panel *p, val k, val size);
/* The elements at k … k + depth: plain ones are loaded, and panel_store, somewhere behind, stores them; others are computed when stored. There
 * are elements of k, but perhaps none so far behind: then the last ones are loaded, for nobody. */
void panel_load(matmul *m, panel *p, val k, val size);
void panel_store(matmul *m, panel *p, val k, val size);

/* Component `at` of a shared array of vectors, counted over all of it. */
val shared_component(kernel *k, val array, val at);
void shared_set_component(kernel *k, val array, val at, val x);

#endif
