/* Sizes of caches: see caches.h. From /sys, else from the C library. */
#include "base/caches.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { INDICES = 8, LEAST = 128 << 10, SECOND_MOST = 4 << 20, THIRD_MOST = 256 << 20 };
static const cache_sizes usual = {1 << 20, 16 << 20};

/* 0: nothing is known yet. */
static atomic_llong known_second, known_third;

/* The first line of a file of a cache of processor 0; false: there is none. */
static bool read_line(int index, const char *name, char *line, int size) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
  FILE *f = fopen(path, "r");
  if (!f)
    return false;
  bool some = fgets(line, size, f) != NULL;
  fclose(f);
  return some;
}

/* "1024K", "32M". */
static int64_t parse_size(const char *text) {
  long long n = 0;
  char unit = 0;
  if (sscanf(text, "%lld%c", &n, &unit) < 1 || n < 0 || n > (1 << 30))
    return 0;
  return n * (unit == 'K' ? 1 << 10 : unit == 'M' ? 1 << 20 : 1);
}

/* The processors of a list as "0-3,8". */
static int count_listed(const char *text) {
  int n = 0, from, to, used;
  while (sscanf(text, "%d%n", &from, &used) == 1) {
    text += used;
    to = from;
    if (*text == '-' && sscanf(text + 1, "%d%n", &to, &used) == 1)
      text += 1 + used;
    n += to >= from ? to - from + 1 : 0;
    if (*text++ != ',')
      break;
  }
  return n < 1 ? 1 : n;
}

/* Of a level; `sharers`: of the first, which are a core's own hardware threads. */
static int64_t read_level(int level, int *sharers) {
  char line[256];
  for (int i = 0; i < INDICES && read_line(i, "level", line, sizeof line); i++) {
    int at = 0;
    if (sscanf(line, "%d", &at) != 1 || at != level || !read_line(i, "type", line, sizeof line) ||
        strncmp(line, "Instruction", 11) == 0 || !read_line(i, "size", line, sizeof line))
      continue;
    int64_t size = parse_size(line);
    *sharers = read_line(i, "shared_cpu_list", line, sizeof line) ? count_listed(line) : 1;
    return size;
  }
  return 0;
}

static int64_t ask_library(int level) {
#if defined(_SC_LEVEL2_CACHE_SIZE) && defined(_SC_LEVEL3_CACHE_SIZE)
  long n = sysconf(level == 2 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE);
  return n > 0 ? n : 0;
#else
  (void)level;
  return 0;
#endif
}

static cache_sizes look_up(void) {
  int threads = 1, sharers = 1;
  cache_sizes out;
  (void)read_level(1, &threads);
  out.second = read_level(2, &sharers) * threads / max_i64(threads, sharers);
  out.third = read_level(3, &sharers);
  out.second = out.second > 0 ? out.second : ask_library(2);
  out.third = out.third > 0 ? out.third : ask_library(3);
  if (out.second < LEAST)
    out.second = usual.second;
  out.second = min_i64(out.second, SECOND_MOST);
  if (out.third < out.second)
    out.third = max_i64(usual.third, out.second);
  out.third = min_i64(out.third, THIRD_MOST);
  return out;
}

cache_sizes caches_get(void) {
  cache_sizes out = {atomic_load(&known_second), atomic_load(&known_third)};
  if (out.second > 0 && out.third > 0)
    return out;
  out = look_up(); /* threads that come here together find the same */
  atomic_store(&known_third, out.third);
  atomic_store(&known_second, out.second);
  return out;
}

void caches_pretend(cache_sizes sizes) {
  atomic_store(&known_third, sizes.third);
  atomic_store(&known_second, sizes.second);
}
