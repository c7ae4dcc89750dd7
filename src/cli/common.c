/* What several commands share: the options of sessions, and workloads by name. See cli.h. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_THREADS = 1024 };

static bool device_known(const char *name) {
  bool known = strcmp(name, "auto") == 0;
  for (int i = 0; sn_device_name(i) && !known; i++)
    known = strcmp(sn_device_name(i), name) == 0;
  return known;
}

int cli_check_device(const cli_command *self, const char *name) {
  if (!name || device_known(name))
    return CLI_OK;
  (void)cli_error(self, "--device: there is no \"%s\"; `sinew devices` lists them", name);
  return CLI_USAGE;
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
  errno = ENOTDIR;
  if (s->plan_cache && (stat(s->plan_cache, &info) != 0 || !S_ISDIR(info.st_mode)))
    return cli_error(self, "--plan-cache: %s: %s", s->plan_cache, strerror(errno));
  return CLI_OK;
}

sn_session_options cli_session_options(const cli_session *s) {
  return (sn_session_options){
      .device = s->device, .threads = (int)s->threads, .plan_cache = s->plan_cache};
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
