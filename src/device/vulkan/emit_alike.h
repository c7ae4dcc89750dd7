/* Steps that are alike. Equal layers make equal steps, but for the values that these are about: such a step is not emitted again, the launches of
 * the first one serve, with its own values in their slots.
 *
 * What emitters look at is written down in words, a value as the number of its first mention, and compared word by word: the parts, the
 * row that a matmul computes itself, facts of the values (emit_alike_words.c: put_facts). An emitter that looks at more of a program than that has to
 * add it there; the archetypes that do are left out. What is the same for all steps (target, precision, sizes) is not written. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_ALIKE_H
#define SINEW_DEVICE_VULKAN_EMIT_ALIKE_H

#include "device/vulkan/emit.h"

/* Of one program under one env: all that is in it is memory of env->memory. */
struct alike_table {
  struct alike_step *list; /* those that were emitted, the newest first */
  int n_reused;            /* steps that others served for */
  uint32_t *number;        /* by value: 1 + its place in `values`; 0: it is not there */
  /* The step at hand: what is written down of it, and its values in the order of their first mention. */
  int64_t *words;
  uint32_t *values;
  size_t n_words, room_words;
  int n_values, room_values;
  bool failed; /* no memory */
};

/* Fills `words` and `values` of the table. */
sn_status alike_write_down(emitter *e, const step *s) SN_MUST_USE;
/* The launches of a step, from one like it or by `emit`, which makes them anew. e->absorbed is set. */
sn_status emit_alike(emitter *e, const step *s,
                     sn_status (*emit)(emitter *e, const step *s, step_launches *out),
                     step_launches *out) SN_MUST_USE;

#endif
