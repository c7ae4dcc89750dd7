/* The assembly of a program from groups: fuse_steps.c (values, homes, copies) and fuse_order.c (parts, steps, order). */
#ifndef SINEW_PLAN_FUSE_STEPS_H
#define SINEW_PLAN_FUSE_STEPS_H

#include "plan/fuse.h"

typedef enum section { SECTION_PREPARE, SECTION_MAIN, SECTION_COMMIT } section;

/* Stages of steps that nothing else joins, and of those that end a run. */
enum { STAGE_ALONE = INT32_MIN, STAGE_BUNDLES = 1 << 30, STAGE_FINAL = INT32_MAX };

/* A step while it is put together. */
typedef struct draft {
  archetype kind;
  section where;
  part *parts;
  int n_parts, cap_parts;
  uint32_t anchor; /* place in program order */
  int stage;
  int *after; /* groups */
  int n_after, cap_after;
  uint32_t *after_values; /* of the program */
  int n_after_values, cap_after_values;
  const char *name;
  int launches;
  double flops, bytes;
} draft;

typedef struct assembly {
  fuse *f;
  program *p;
  int cap_values;
  int *leaf_index; /* by value of the graph: among inputs or states */
  draft **drafts;
  int n_drafts, cap_drafts;
  bool early;    /* no state is written in place before the end */
  bool lean;     /* what a watched output does not need is part of the commit */
  int *taken_by; /* by value of the program: the draft that takes over its memory; -1 */
} assembly;

draft *steps_add(assembly *a, archetype kind, section where); /* NULL without memory */
sn_status steps_add_part(assembly *a, draft *d, const part *p) SN_MUST_USE;
/* Copies terms and checks into the program's memory. */
bool steps_keep_access(assembly *a, access *at) SN_MUST_USE;
/* Scatters and updates work in place: `made` takes over the memory of `base`, where that is ours to take; else that of a copy,
 * which *base then is. */
sn_status steps_take_base(assembly *a, const fuse_group *g, uint32_t made,
                          uint32_t *base) SN_MUST_USE;
/* The step of copies and updates that ends a run; NULL when there is none yet. */
draft *steps_find_final(assembly *a);
sn_status steps_from_groups(assembly *a) SN_MUST_USE;
/* Drafts into the program's steps, arguments first, in program order where that leaves a choice. */
sn_status steps_order(assembly *a) SN_MUST_USE;
bool steps_reads(const step *s, uint32_t value);

#endif
