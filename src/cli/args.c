/* Arguments by table. See cli.h. */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *cli_program = "sinew";

static bool is_end(const cli_option *o) { return o->kind == CLI_FLAG && !o->help; }

int cli_error(const cli_command *self, const char *format, ...) {
  va_list args;
  fprintf(stderr, "sinew %s: ", self->name);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  return CLI_FAILED;
}

int cli_fail(const cli_command *self, const sn_ctx *ctx) {
  return cli_error(self, "%s", sn_ctx_message(ctx));
}

static bool usage(const cli_command *self, const char *what, const char *which) {
  (void)cli_error(self, "%s %s; `sinew help %s` tells more", what, which, self->name);
  return false;
}

static bool bad_number(const cli_command *self, const cli_option *o, const char *what,
                       const char *text) {
  (void)cli_error(self, "%s: %s: \"%s\"; `sinew help %s` tells more", o->name ? o->name : o->value,
                  what, text, self->name);
  return false;
}

/* Numbers are finite: what "nan" or "inf" would mean is nowhere defined. */
static bool set_number(const cli_command *self, const cli_option *o, const char *text, void *at) {
  bool whole = o->kind == CLI_INT;
  char *end = NULL;
  errno = 0;
  long long n = whole ? strtoll(text, &end, 10) : 0;
  double x = whole ? 0 : strtod(text, &end);
  if (end == text || *end || isnan(x))
    return bad_number(self, o, whole ? "not a whole number" : "not a number", text);
  if (isinf(x) || (whole && errno == ERANGE))
    return bad_number(self, o, "out of range", text);
  if (whole)
    *(int64_t *)at = n;
  else
    *(double *)at = x;
  return true;
}

static bool add_text(const cli_command *self, const cli_option *o, const char *text,
                     cli_texts *texts) {
  if (texts->n == CLI_MOST_TEXTS)
    return usage(self, "given too often:", o->name);
  texts->at[texts->n++] = text;
  return true;
}

static bool set(const cli_command *self, const cli_option *o, const char *text, void *args) {
  void *at = (char *)args + o->offset;
  switch (o->kind) {
  case CLI_FLAG: *(bool *)at = true; return true;
  case CLI_TEXT: *(const char **)at = text; return true;
  case CLI_TEXTS: return add_text(self, o, text, at);
  case CLI_INT:
  case CLI_REAL: return set_number(self, o, text, at);
  }
  return true;
}

static const cli_option *find_option(const cli_command *self, const char *name) {
  for (const cli_option *o = self->options; !is_end(o); o++)
    if (o->name && strcmp(o->name, name) == 0)
      return o;
  return NULL;
}

static const cli_option *find_positional(const cli_command *self, int index) {
  for (const cli_option *o = self->options; !is_end(o); o++)
    if (!o->name && index-- == 0)
      return o;
  return NULL;
}

/* A dash and a letter or another dash; "-5" is a value. */
static bool looks_like_option(const char *s) {
  return s[0] == '-' && (s[1] == '-' || (s[1] >= 'a' && s[1] <= 'z'));
}

static bool parse_option(const cli_command *self, int argc, char **argv, int *i, void *args) {
  char name[64];
  const char *equals = strchr(argv[*i], '=');
  size_t n = equals ? (size_t)(equals - argv[*i]) : strlen(argv[*i]);
  if (n >= sizeof name)
    return usage(self, "unknown option", argv[*i]);
  memcpy(name, argv[*i], n);
  name[n] = '\0';
  const cli_option *o = find_option(self, name);
  if (!o)
    return usage(self, "unknown option", name);
  if (o->kind == CLI_FLAG)
    return equals ? usage(self, "no value belongs to", name) : set(self, o, NULL, args);
  if (equals)
    return set(self, o, equals + 1, args);
  if (*i + 1 >= argc)
    return usage(self, "a value is missing after", name);
  return set(self, o, argv[++*i], args);
}

bool cli_parse(const cli_command *self, int argc, char **argv, void *args) {
  int positional = 0;
  for (int i = 0; i < argc; i++) {
    if (looks_like_option(argv[i])) {
      if (!parse_option(self, argc, argv, &i, args))
        return false;
      continue;
    }
    const cli_option *o = find_positional(self, positional++);
    if (!o)
      return usage(self, "unexpected argument", argv[i]);
    if (!*argv[i])
      return usage(self, o->value, "is empty");
    if (!set(self, o, argv[i], args))
      return false;
  }
  const cli_option *missing = find_positional(self, positional);
  return missing && missing->required ? usage(self, "missing:", missing->value) : true;
}

void cli_print_help(const cli_command *command) {
  printf("usage: sinew %s", command->name);
  for (const cli_option *o = command->options; !is_end(o); o++) {
    const char *gap = o->name && o->value ? " " : "";
    printf(o->required ? " %s%s%s" : " [%s%s%s]", o->name ? o->name : "", gap,
           o->value ? o->value : "");
  }
  printf("\n\n%s.\n", command->summary);
  for (const cli_option *o = command->options; !is_end(o); o++) {
    char left[64];
    snprintf(left, sizeof left, "%s%s%s", o->name ? o->name : "", o->name && o->value ? " " : "",
             o->value ? o->value : "");
    printf("%s  %-16s %s\n", o == command->options ? "\n" : "", left, o->help);
  }
  if (command->details)
    printf("\n%s\n", command->details);
}

int64_t cli_parse_ids(const cli_command *self, const char *text, int32_t *ids, int64_t capacity) {
  int64_t n = 0;
  for (const char *p = text; *p;) {
    char *end;
    errno = 0;
    long v = strtol(p, &end, 10);
    if (end == p || v < 0 || v > INT_MAX || errno || (*end && *end != ',') ||
        strcmp(end, ",") == 0) {
      (void)cli_error(self, "--ids: expected whole numbers with commas between, got \"%s\"", p);
      return -1;
    }
    if (n == capacity) {
      (void)cli_error(self, "--ids: more than %lld ids", (long long)capacity);
      return -1;
    }
    ids[n++] = (int32_t)v;
    p = *end ? end + 1 : end;
  }
  return n;
}
