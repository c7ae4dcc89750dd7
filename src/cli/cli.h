/* The command: a table of subcommands, each with a table of options that parsing and help both read.
 *
 * Exit codes: 0 done, 1 failed (a message on stderr says why), 2 wrong usage. Results go to stdout,
 * progress and messages to stderr. */
#ifndef SINEW_CLI_CLI_H
#define SINEW_CLI_CLI_H

#include <sinew/sinew.h>
#include <stdio.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef enum cli_kind { CLI_FLAG, CLI_INT, CLI_REAL, CLI_TEXT, CLI_TEXTS } cli_kind;

/* The values of an option that may be given again and again, in order. */
enum { CLI_MOST_TEXTS = 256 };
typedef struct cli_texts {
  const char *at[CLI_MOST_TEXTS];
  int n;
} cli_texts;

/* bool, int64_t, double, const char * or cli_texts at `offset` of the command's argument struct. */
typedef struct cli_option {
  const char *name;  /* "--temp"; NULL for a positional argument */
  const char *value; /* what help calls it: "T"; NULL for a flag */
  cli_kind kind;
  size_t offset;
  bool required;
  const char *help;
} cli_option;

typedef struct cli_command {
  const char *name, *summary;
  const cli_option *options; /* ended by a row with kind CLI_FLAG and help NULL */
  const char *details;       /* a paragraph more; may be NULL */
  int (*run)(const struct cli_command *self, int argc, char **argv);
} cli_command;

extern const cli_command cli_help, cli_devices, cli_demo, cli_generate, cli_check, cli_workload,
    cli_inspect, cli_bench, cli_run;
/* How the command was called: what hints for the next command begin with. */
extern const char *cli_program;
/* All commands, NULL at the end. */
extern const cli_command *const cli_commands[];

/* Fills `args` (defaults already in it). False after a message: return CLI_USAGE. */
bool cli_parse(const cli_command *self, int argc, char **argv, void *args);
void cli_print_help(const cli_command *command);

/* --- options that commands share (common.c) --- */

/* How sessions run. */
typedef struct cli_session {
  const char *device, *plan_cache, *precision;
  int64_t threads;
} cli_session;

/* The rows of its options, for the struct of arguments `type` and its member of that type. */
/* clang-format off */
#define CLI_SESSION_ROWS(type, member)                                                                  \
  {"--device", "D", CLI_TEXT, offsetof(type, member.device), false, "where to run; default auto"},      \
  {"--threads", "N", CLI_INT, offsetof(type, member.threads), false,                                    \
   "threads to use; default 0: as many as are good"},                                                   \
  {"--precision", "P", CLI_TEXT, offsetof(type, member.precision), false,                               \
   "of matmuls: exact (default), fast or half; see sinew/session.h"},                                   \
  {"--plan-cache", "DIR", CLI_TEXT, offsetof(type, member.plan_cache), false,                           \
   "a folder where plans are kept for the next time"}
/* clang-format on */

/* CLI_OK, or the exit code after a message. A device may be NULL: any. */
int cli_check_device(const cli_command *self, const char *name);
int cli_check_session(const cli_command *self, const cli_session *session);
int cli_check_workload(const cli_command *self, const char *name);
sn_session_options cli_session_options(const cli_session *session);

/* --- gradients (common.c) --- */

/* To be called before sn_grad: puts the recognised graph (sn_graph_recognise) in the place of this one, and its values in
 * that of these. */
sn_status cli_recognise(sn_graph **graph, sn_value *values, int n) SN_MUST_USE;

/* --- text files that commands read (input.c) --- */

/* The whole file, which must be text of at most `most` bytes; free() it. A pipe is fine. */
sn_status cli_read_text(sn_ctx *ctx, const char *path, size_t most, char **out_text) SN_MUST_USE;
/* Cuts the next line off what is left of a text; NULL at its end. */
char *cli_next_line(char **rest);

/* --- files that commands write (output.c) --- */

/* Whether a file could be written there, to be asked before long work; NULL is fine. Nothing stays. */
sn_status cli_check_output(sn_ctx *ctx, const char *path) SN_MUST_USE;
/* Writes a file, whole or not at all. An error of `write` is passed on; what the system refuses is "PATH: cannot be
 * written" and its reason. */
sn_status cli_write_output(sn_ctx *ctx, const char *path, sn_status (*write)(FILE *out, void *user),
                           void *user) SN_MUST_USE;

/* --- messages --- */

/* "sinew check: <message of the context>" on stderr; returns CLI_FAILED. */
int cli_fail(const cli_command *self, const sn_ctx *ctx);
/* The same with words of its own. */
int cli_error(const cli_command *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Parses "1,2,3" into ids; -1 after a message. */
int64_t cli_parse_ids(const cli_command *self, const char *text, int32_t *ids, int64_t capacity);

#endif
