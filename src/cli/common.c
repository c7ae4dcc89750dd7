/* What several commands share: the options of sessions, workloads by name, and what is done before gradients. See cli.h. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_THREADS = 1024 };

/* Whoever said "auto", or nothing on a machine with a GPU, is told that it is not used. */
static void say_why_cpu(const cli_command *self, const char *name) {
  const char *why = sn_device_why_not(name);
  if (*why)
    (void)cli_error(self, "on the CPU: %s", why);
}

int cli_check_device(const cli_command *self, const char *name) {
  if (!name || strcmp(name, "auto") == 0) {
    say_why_cpu(self, name);
    return CLI_OK;
  }
  if (sn_device_find(name) >= 0)
    return CLI_OK;
  const char *why = sn_device_why_not(name);
  (void)cli_error(self, "--device: there is no \"%s\"%s%s; `sinew devices` lists them", name,
                  *why ? ": " : "", why);
  return CLI_USAGE;
}

/* By name; NULL is the first. -1: none. */
static int precision_of(const char *name) {
  static const char *const names[] = {"exact", "fast", "half"};
  for (int i = 0; i < 3; i++)
    if (!name || strcmp(names[i], name) == 0)
      return i;
  return -1;
}

int cli_check_session(const cli_command *self, const cli_session *s) {
  struct stat info;
  if (cli_check_device(self, s->device) != CLI_OK)
    return CLI_USAGE;
  if (s->threads < 0 || s->threads > MOST_THREADS) {
    (void)cli_error(self, "--threads: expected 0 … %d, got %lld", MOST_THREADS,
                    (long long)s->threads);
    return CLI_USAGE;
  }
  if (precision_of(s->precision) < 0) {
    (void)cli_error(self, "--precision: expected exact, fast or half, got \"%s\"", s->precision);
    return CLI_USAGE;
  }
  errno = ENOTDIR;
  if (s->plan_cache && (stat(s->plan_cache, &info) != 0 || !S_ISDIR(info.st_mode)))
    return cli_error(self, "--plan-cache: %s: %s", s->plan_cache, strerror(errno));
  return CLI_OK;
}

sn_session_options cli_session_options(const cli_session *s) {
  return (sn_session_options){.device = s->device,
                              .threads = (int)s->threads,
                              .precision = (sn_precision)precision_of(s->precision),
                              .plan_cache = s->plan_cache};
}

int cli_check_workload(const cli_command *self, const char *name) {
  char list[512] = "";
  if (sn_workload_find(name))
    return CLI_OK;
  for (int i = 0; sn_workload_at(i); i++) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
             sn_workload_name(sn_workload_at(i)));
  }
  (void)cli_error(self, "there is no workload \"%s\"; there are %s", name, list);
  return CLI_USAGE;
}

sn_status cli_recognise(sn_graph **graph, sn_value *values, int n) {
  sn_graph *recognised;
  SN_TRY(sn_graph_recognise(*graph, values, n, values, &recognised));
  sn_graph_destroy(*graph);
  *graph = recognised;
  return SN_OK;
}
