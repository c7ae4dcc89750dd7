/* How many cores a process may use: team_cores of team.h. What the system does not tell counts as no limit. */
#define _GNU_SOURCE /* sched_getaffinity */
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

/* A name for the core that a processor belongs to; one of its own where the system does not say. */
static long core_of(int cpu) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
  long core = read_number(path);
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
  long package = read_number(path);
  return core < 0 ? -1 - (long)cpu : core + (package > 0 ? package << 16 : 0);
}

static int allowed_cores(void) {
  static const int unknown = 0;
  cpu_set_t set;
  long seen[CPUS];
  int n = unknown;
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    return unknown;
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

/* Of the control group, in whole processors, rounded up; 0: none. */
static int quota(void) {
  long limit = -1, period = 0;
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r"); /* version 2: "max 100000" or "200000 100000" */
  if (f) {
    if (fscanf(f, "%ld %ld", &limit, &period) != 2)
      limit = -1;
    fclose(f);
  } else { /* version 1 */
    limit = read_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    period = read_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  }
  return limit > 0 && period > 0 ? (int)((limit + period - 1) / period) : 0;
}

int team_cores(void) {
  int n = allowed_cores(), most = quota();
  if (n < 1)
    n = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (most > 0 && n > most)
    n = most;
  return n < 1 ? 1 : n > TEAM_MOST ? TEAM_MOST : n;
}
