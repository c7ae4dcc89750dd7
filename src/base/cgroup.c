/* See cgroup.h. What cannot be read counts as not there. */
#include "base/cgroup.h"

#include <stdio.h>

static bool exists(const char *path) {
  FILE *f = fopen(path, "r");
  if (f)
    fclose(f);
  return f != NULL;
}

static bool lists(const char *names, const char *name) {
  size_t size = strlen(name);
  for (; names; names = strchr(names, ',') ? strchr(names, ',') + 1 : NULL)
    if (strcspn(names, ",") == size && memcmp(names, name, size) == 0)
      return true;
  return false;
}

/* The path in a line of /proc/self/cgroup ("4:cpu,cpuacct:/a/b", or "0::/a/b" in version 2); NULL: of another controller. */
static const char *path_in(char *line, const char *controller, bool unified) {
  char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
  if (!path)
    return NULL;
  *path++ = '\0';
  path[strcspn(path, "\n")] = '\0';
  return lists(names + 1, unified ? "" : controller) ? path : NULL;
}

/* The process's path below the outermost folder; without one it is that folder. */
static void add_own_path(const char *root, const char *controller, cgroup *g) {
  char line[768], file[512];
  snprintf(file, sizeof file, "%s/proc/self/cgroup", root);
  FILE *f = fopen(file, "r");
  while (f && fgets(line, sizeof line, f)) {
    const char *path = path_in(line, controller, g->unified);
    if (!path)
      continue;
    snprintf(g->folder + g->top, sizeof g->folder - g->top, "%s", path);
    break;
  }
  if (f)
    fclose(f);
}

bool cgroup_find(const char *root, const char *controller, cgroup *out) {
  char probe[1100];
  *out = (cgroup){.unified = true};
  snprintf(out->folder, sizeof out->folder, "%s/sys/fs/cgroup", root);
  snprintf(probe, sizeof probe, "%s/cgroup.controllers", out->folder);
  out->unified = exists(probe);
  if (!out->unified) {
    snprintf(out->folder, sizeof out->folder, "%s/sys/fs/cgroup/%s", root, controller);
    snprintf(probe, sizeof probe, "%s/cgroup.procs", out->folder);
    if (!exists(probe))
      return false;
  }
  out->top = strlen(out->folder);
  add_own_path(root, controller, out);
  return true;
}

bool cgroup_up(cgroup *g) {
  char *slash = strrchr(g->folder + g->top, '/');
  if (!slash)
    return false;
  *slash = '\0';
  return true;
}

static FILE *open_file(const cgroup *g, const char *file) {
  char path[1200];
  snprintf(path, sizeof path, "%s/%s", g->folder, file);
  return fopen(path, "r");
}

bool cgroup_read(const cgroup *g, const char *file, int64_t *out, int64_t *second) {
  long long a = 0, b = 0;
  FILE *f = open_file(g, file);
  if (!f)
    return false;
  int n = fscanf(f, "%lld %lld", &a, &b);
  fclose(f);
  *out = a;
  if (second)
    *second = b;
  return n >= (second ? 2 : 1);
}

int64_t cgroup_read_key(const cgroup *g, const char *file, const char *key) {
  char name[64];
  long long value, found = 0;
  FILE *f = open_file(g, file);
  if (!f)
    return 0;
  while (fscanf(f, "%63s %lld", name, &value) == 2)
    if (strcmp(name, key) == 0)
      found = value;
  fclose(f);
  return found;
}
