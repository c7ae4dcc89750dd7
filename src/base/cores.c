/* How many cores a process may use: team_cores of team.h. What the system does not tell counts as no limit. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/cgroup.h"
#include "base/team.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

enum { CPUS = 1024 };

/* The first number in a file; -1: there is none. */
static long read_number(const char *path) {
  long n = -1;
  FILE *f = fopen(path, "r");
  if (!f)
    return -1;
  if (fscanf(f, "%ld", &n) != 1)
    n = -1;
  fclose(f);
  return n;
}

/* A name for the core that a processor belongs to: the first of its hardware threads, or the processor itself where the
 * system does not say. */
static long core_of(int cpu) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  long first = read_number(path);
  return first < 0 ? (long)cpu : first;
}

static int allowed_cores(void) {
  cpu_set_t set;
  long seen[CPUS];
  int n = 0;
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    return 0;
  for (size_t cpu = 0; cpu < CPUS && cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &set))
      continue;
    long core = core_of((int)cpu);
    int known = 0;
    while (known < n && seen[known] != core)
      known++;
    if (known == n)
      seen[n++] = core;
  }
  return n;
}

/* Of the control groups, in whole processors, rounded up; 0: none. */
static int quota(void) {
  int64_t limit, period, least = 0;
  cgroup g;
  for (bool more = cgroup_find("", "cpu", &g); more; more = cgroup_up(&g)) {
    bool known = g.unified ? cgroup_read(&g, "cpu.max", &limit, &period) /* "max 100000": none */
                           : cgroup_read(&g, "cpu.cfs_quota_us", &limit, NULL) &&
                                 cgroup_read(&g, "cpu.cfs_period_us", &period, NULL);
    if (!known || limit <= 0 || period <= 0)
      continue;
    int64_t whole = (limit + period - 1) / period;
    least = least ? min_i64(least, whole) : whole;
  }
  return (int)min_i64(least, TEAM_MOST);
}

int team_cores(void) {
  int n = allowed_cores(), most = quota();
  if (n < 1)
    n = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (most > 0 && n > most)
    n = most;
  return n < 1 ? 1 : n > TEAM_MOST ? TEAM_MOST : n;
}
