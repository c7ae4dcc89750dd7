/* The control groups that a process is in, from its own up to the outermost that it can see: each may set limits. Both
 * versions. For cores.c and memory.c.
 *
 *   cgroup g;
 *   for (bool more = cgroup_find(root, "memory", &g); more; more = cgroup_up(&g))
 *     if (cgroup_read(&g, g.unified ? "memory.max" : "memory.limit_in_bytes", &limit, NULL)) …
 *
 * root is "" or, in tests, a folder that stands for "/".
 */
#ifndef SINEW_BASE_CGROUP_H
#define SINEW_BASE_CGROUP_H

#include "base/base.h"

typedef struct cgroup {
  bool unified; /* version 2: one tree for all controllers */
  size_t top;   /* length of the outermost folder's path */
  char folder[1024];
} cgroup;

/* False where there are none. */
bool cgroup_find(const char *root, const char *controller, cgroup *out);
/* The group around it; false at the outermost. */
bool cgroup_up(cgroup *g);
/* The first number in a file of the group, and the second where that is asked for. False: there are none; "max" is none. */
bool cgroup_read(const cgroup *g, const char *file, int64_t *out, int64_t *second);
/* The number behind a key in a file of lines like "inactive_file 4096"; 0: none. */
int64_t cgroup_read_key(const cgroup *g, const char *file, const char *key);

#endif
