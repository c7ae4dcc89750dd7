/* Processes that are killed while they save, beside others that go on. */
#ifndef SINEW_TESTS_SUPPORT_SAVE_KILLS_H
#define SINEW_TESTS_SUPPORT_SAVE_KILLS_H

/* Kills a saving process n times, at moments that nobody chose. Checks after each that its checkpoint is whole and at least as new
 * as the last save that it reported; at the end, that another process, which saved beside it and over a file of both, had no
 * failure, and that one more save leaves no temporary file. */
void save_kills_check(int n);

#endif
