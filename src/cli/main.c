/* sinew: one command, its subcommands in a table. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

const cli_command *const cli_commands[] = {&cli_demo,     &cli_generate, &cli_check, &cli_run,
                                           &cli_workload, &cli_inspect,  &cli_bench, &cli_devices,
                                           &cli_help,     NULL};

static const cli_command *find(const char *name) {
  for (int i = 0; cli_commands[i]; i++)
    if (strcmp(cli_commands[i]->name, name) == 0)
      return cli_commands[i];
  return NULL;
}

static void overview(FILE *out) {
  fprintf(out, "sinew %s: train and run neural networks\n\nusage: sinew COMMAND [ARGUMENTS]\n\n",
          sn_version());
  for (int i = 0; cli_commands[i]; i++)
    fprintf(out, "  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
  fprintf(out, "  %-10s %s\n", "--version", "print the version");
  fprintf(out, "\n`sinew help COMMAND` tells more.\n");
}

typedef struct help_args {
  const char *command;
} help_args;

static const cli_option help_options[] = {
    {NULL, "COMMAND", CLI_TEXT, offsetof(help_args, command), false, "the command to explain"},
    {NULL, NULL, CLI_FLAG, 0, false, NULL}};

static int run_help(const cli_command *self, int argc, char **argv) {
  help_args args = {NULL};
  if (!cli_parse(self, argc, argv, &args))
    return CLI_USAGE;
  const cli_command *command = args.command ? find(args.command) : NULL;
  if (args.command && !command) {
    (void)cli_error(self, "there is no command \"%s\"; `sinew help` lists them", args.command);
    return CLI_USAGE;
  }
  if (command)
    cli_print_help(command);
  else
    overview(stdout);
  return CLI_OK;
}

const cli_command cli_help = {"help", "explain the commands", help_options, NULL, run_help};

static const cli_option no_options[] = {{NULL, NULL, CLI_FLAG, 0, false, NULL}};

static int run_devices(const cli_command *self, int argc, char **argv) {
  if (!cli_parse(self, argc, argv, NULL))
    return CLI_USAGE;
  for (int i = 0; sn_device_name(i); i++)
    printf("%-8s %s%s%s%s\n", sn_device_name(i), sn_device_description(i),
           *sn_device_note(i) ? "; " : "", sn_device_note(i),
           i == sn_device_find(NULL) ? " (auto)" : "");
  if (*sn_device_why_not(NULL))
    printf("auto is not a GPU: %s\n", sn_device_why_not(NULL));
  return CLI_OK;
}

const cli_command cli_devices = {"devices", "list the devices that can run graphs", no_options,
                                 NULL, run_devices};

static bool asks_for_help(const char *s) {
  return strcmp(s, "--help") == 0 || strcmp(s, "-h") == 0;
}

static bool any_asks_for_help(int argc, char **argv) {
  bool asks = false;
  for (int i = 0; i < argc && !asks; i++)
    asks = asks_for_help(argv[i]);
  return asks;
}

int main(int argc, char **argv) {
  if (argc > 0 && *argv[0])
    cli_program = argv[0];
  const char *name = argc > 1 ? argv[1] : NULL;
  if (!name) {
    overview(stderr);
    return CLI_USAGE;
  }
  if (strcmp(name, "--version") == 0) {
    printf("sinew %s\n", sn_version());
    return fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
  }
  if (asks_for_help(name))
    name = "help";
  const cli_command *command = find(name);
  if (!command) {
    fprintf(stderr, "sinew: there is no command \"%s\"; `sinew help` lists them\n", name);
    return CLI_USAGE;
  }
  int code = CLI_OK;
  if (any_asks_for_help(argc - 2, argv + 2))
    cli_print_help(command);
  else
    code = command->run(command, argc - 2, argv + 2);
  if (fflush(stdout) != 0 || ferror(stdout))
    return cli_error(command, "cannot write the output");
  return code;
}
