/* Files and folders for tests, on plain libc: what the code under test is checked against. */
#ifndef SINEW_TESTS_SUPPORT_FILES_H
#define SINEW_TESTS_SUPPORT_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* Writes a file; CHECKs that it could. */
void files_put(const char *path, const void *bytes, size_t size);
void files_put_text(const char *path, const char *text);
/* Makes a file this large, with zeros that take no room on the disk. */
void files_extend(const char *path, size_t size);
/* Makes a symbolic link at `path`. */
void files_link(const char *target, const char *path);
/* Whether the file has exactly these bytes. */
bool files_hold(const char *path, const void *bytes, size_t size);

/* Makes a scratch folder (see test_scratch) and returns its path. */
const char *files_new_folder(const char *name);
/* folder/name, valid until the next call. */
const char *files_in(const char *folder, const char *name);
/* How many entries the folder has; -1 when it cannot be read. */
int files_count(const char *folder);
/* Removes entries whose names begin with this; "" for all. */
void files_remove(const char *folder, const char *prefix);
/* Removes a folder of files. */
void files_remove_folder(const char *folder);

#endif
