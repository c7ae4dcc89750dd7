/* See memory.h. What the system does not tell counts as no limit. */
#include "base/memory.h"

#include "base/cgroup.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Memory that nobody has, or that holds only what can be read again from files; and room to swap. */
static int64_t of_machine(const char *root) {
  char path[512], name[64];
  long long kib, sum = 0;
  bool known = false;
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  FILE *f = fopen(path, "r");
  while (f && fscanf(f, "%63s %lld kB", name, &kib) == 2) {
    bool memory = strcmp(name, "MemAvailable:") == 0;
    if (memory || strcmp(name, "SwapFree:") == 0)
      sum += kib * 1024;
    known = known || memory;
  }
  if (f)
    fclose(f);
  return known ? sum : INT64_MAX;
}

/* Left in a group; what it has cached of files can be had back. */
static int64_t of_group(const cgroup *g) {
  int64_t limit, used;
  const char *most = g->unified ? "memory.max" : "memory.limit_in_bytes";
  const char *now = g->unified ? "memory.current" : "memory.usage_in_bytes";
  if (!cgroup_read(g, most, &limit, NULL) || !cgroup_read(g, now, &used, NULL))
    return INT64_MAX;
  used -= cgroup_read_key(g, "memory.stat", g->unified ? "file" : "total_cache");
  return max_i64(0, limit - max_i64(0, used));
}

static int64_t of_groups(const char *root) {
  int64_t least = INT64_MAX;
  cgroup g;
  for (bool more = cgroup_find(root, "memory", &g); more; more = cgroup_up(&g))
    least = min_i64(least, of_group(&g));
  return least;
}

static int64_t of_address_space(const char *root) {
  char path[512];
  struct rlimit limit;
  long long pages = 0;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return INT64_MAX;
  snprintf(path, sizeof path, "%s/proc/self/statm", root);
  FILE *f = fopen(path, "r");
  if (f && fscanf(f, "%lld", &pages) != 1)
    pages = 0;
  if (f)
    fclose(f);
  return max_i64(0, (int64_t)(limit.rlim_cur > INT64_MAX ? INT64_MAX : limit.rlim_cur) -
                        pages * sysconf(_SC_PAGESIZE));
}

int64_t memory_available_under(const char *root) {
  return min_i64(of_machine(root), min_i64(of_groups(root), of_address_space(root)));
}

int64_t memory_available(void) { return memory_available_under(""); }

typedef struct amount {
  char text[48];
} amount;

static amount amount_of(uint64_t bytes) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double x = (double)bytes;
  size_t unit = 0;
  amount a;
  for (; unit + 1 < COUNT_OF(units) && x >= 1000; unit++)
    x /= 1000;
  snprintf(a.text, sizeof a.text, "%.*f %s (%llu bytes)",
           x < 10    ? 2
           : x < 100 ? 1
                     : 0,
           x, units[unit], (unsigned long long)bytes);
  return a;
}

sn_status memory_check(sn_ctx *ctx, const char *what, size_t bytes, int64_t available) {
  if (bytes <= (uint64_t)max_i64(0, available))
    return SN_OK;
  return diag_fail(ctx, SN_ERR_NO_MEMORY, "%s needs %s, %s are available", what,
                   amount_of(bytes).text, amount_of((uint64_t)available).text);
}

sn_status memory_expect(sn_ctx *ctx, const char *what, size_t bytes) {
  enum { MANY = 1 << 24 };
  return bytes < MANY ? SN_OK : memory_check(ctx, what, bytes, memory_available());
}
