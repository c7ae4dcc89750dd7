/* Files for fuzzers whose reader takes a path: in a folder of the process, in memory where the system has such a place, removed
 * at exit. Linked with fuzzers and with the replay of their corpora. */
#ifndef SINEW_TESTS_SUPPORT_FUZZ_FILES_H
#define SINEW_TESTS_SUPPORT_FUZZ_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Aborts unless it holds: both the fuzzer and the replay then report the input. */
void fuzz_demand(bool holds);
/* The folder, and a path in it, which is valid until the fourth call from here on. */
const char *fuzz_folder(void);
const char *fuzz_path(const char *name);
void fuzz_put(const char *name, const void *bytes, size_t size);
/* The file's bytes, which are the caller's to free. */
uint8_t *fuzz_get(const char *name, size_t *out_size);

/* A file that was changed as the input says: the bytes `from`, edited. Each edit takes four bytes of the input: what to do (0:
 * set the byte, 1: add to it, 2: put a byte before it, 3: take it out, 4: end the file there), where (two bytes, the lower one
 * first, counted around the end), and the byte. Yields malloc's block. So an input stays what it is when the format of `from`
 * changes. */
uint8_t *fuzz_edit(const uint8_t *from, size_t n, const uint8_t *edits, size_t size,
                   size_t *out_size);

#endif
