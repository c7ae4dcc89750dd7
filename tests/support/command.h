/* Other processes: the built command, or a test executable in a process of its own.
 *
 *   command_result r = command_run(command_sinew(), "generate", folder, "--ids", "1,2", NULL);
 *   CHECK_EQ_INT(r.code, 0);
 *   CHECK_STR_HAS(r.out, "5 7");
 *   command_free(&r);
 */
#ifndef SINEW_TESTS_SUPPORT_COMMAND_H
#define SINEW_TESTS_SUPPORT_COMMAND_H

typedef struct command_result {
  int code;        /* exit status; 128 + the number of the signal that ended it */
  char *out, *err; /* what it printed, never NULL */
} command_result;

/* The built command, and a test executable of this build by its name (test_train_resume). */
const char *command_sinew(void);
const char *command_test(const char *name);

/* Runs a program with these arguments (NULL at the end) to its end. */
command_result command_run(const char *program, ...) __attribute__((sentinel));
void command_free(command_result *result);

#endif
