/* See command.h. */
#include "support/command.h"

#include "support/test.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGS = 32 };

const char *command_sinew(void) { return SINEW_COMMAND; }

const char *command_test(const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/%s", SINEW_TESTS_DIR, name);
  return path;
}

static void send_to(int descriptor, const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0 || dup2(file, descriptor) < 0)
    _exit(125);
}

static char *contents(const char *path) {
  FILE *f = fopen(path, "rb");
  char *text = calloc(1, 1);
  size_t n = 0;
  for (int c; f && text && (c = getc(f)) != EOF;) {
    if ((n & (n + 1)) == 0) { /* room for twice as many, whenever n + 1 is a power of 2 */
      char *wider = realloc(text, 2 * (n + 1) + 1);
      if (!wider)
        abort();
      text = wider;
    }
    text[n++] = (char)c;
    text[n] = '\0';
  }
  if (f)
    fclose(f);
  return text;
}

command_result command_run(const char *program, ...) {
  char *args[MAX_ARGS + 1] = {(char *)(uintptr_t)program};
  const char *out = test_scratch("command.out"), *err = test_scratch("command.err");
  va_list list;
  int n = 1, status = 0;
  va_start(list, program);
  while (n < MAX_ARGS && (args[n] = va_arg(list, char *)) != NULL)
    n++;
  va_end(list);
  pid_t child = fork();
  if (child == 0) {
    send_to(STDOUT_FILENO, out);
    send_to(STDERR_FILENO, err);
    execv(program, args);
    _exit(126);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return (command_result){code, contents(out), contents(err)};
}

void command_free(command_result *r) {
  free(r->out);
  free(r->err);
  *r = (command_result){0};
}
