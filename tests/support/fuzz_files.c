/* See fuzz_files.h. */
#include "support/fuzz_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void fuzz_demand(bool holds) {
  if (!holds)
    abort();
}

static char folder[256];

static void remove_folder(void) {
  DIR *d = opendir(folder);
  for (struct dirent *entry; d && (entry = readdir(d));)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      (void)remove(fuzz_path(entry->d_name));
  if (d)
    closedir(d);
  (void)rmdir(folder);
}

const char *fuzz_folder(void) {
  if (*folder)
    return folder;
  struct stat info;
  bool memory =
      stat("/dev/shm", &info) == 0 && S_ISDIR(info.st_mode) && access("/dev/shm", W_OK) == 0;
  snprintf(folder, sizeof folder, "%s/sinew-fuzz-XXXXXX", memory ? "/dev/shm" : "/tmp");
  fuzz_demand(mkdtemp(folder) != NULL);
  atexit(remove_folder);
  return folder;
}

const char *fuzz_path(const char *name) {
  static char paths[4][1024];
  static unsigned at;
  char *path = paths[at++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", fuzz_folder(), name);
  return path;
}

void fuzz_put(const char *name, const void *bytes, size_t size) {
  FILE *f = fopen(fuzz_path(name), "wb");
  fuzz_demand(f != NULL);
  fuzz_demand(size == 0 || fwrite(bytes, 1, size, f) == size);
  fuzz_demand(fclose(f) == 0);
}

uint8_t *fuzz_get(const char *name, size_t *out_size) {
  struct stat info;
  FILE *f = fopen(fuzz_path(name), "rb");
  fuzz_demand(f != NULL && fstat(fileno(f), &info) == 0);
  size_t size = (size_t)info.st_size;
  uint8_t *bytes = malloc(size + 1);
  fuzz_demand(bytes != NULL && fread(bytes, 1, size, f) == size);
  fclose(f);
  *out_size = size;
  return bytes;
}

static void edit_one(uint8_t *bytes, size_t *n, const uint8_t edit[4]) {
  size_t at = *n ? (size_t)(edit[1] | edit[2] << 8) % *n : 0, rest = *n - at;
  int what = edit[0] % 5;
  if (what == 2) {
    memmove(bytes + at + 1, bytes + at, rest);
    bytes[at] = edit[3];
    ++*n;
  } else if (what == 4) {
    *n = at;
  } else if (*n && what == 3) {
    memmove(bytes + at, bytes + at + 1, rest - 1);
    --*n;
  } else if (*n) {
    bytes[at] = (uint8_t)(what == 0 ? edit[3] : bytes[at] + edit[3]);
  }
}

uint8_t *fuzz_edit(const uint8_t *from, size_t n, const uint8_t *edits, size_t size,
                   size_t *out_size) {
  uint8_t *bytes = malloc(n + size / 4 + 1);
  fuzz_demand(bytes != NULL);
  if (n)
    memcpy(bytes, from, n);
  for (; size >= 4; size -= 4, edits += 4)
    edit_one(bytes, &n, edits);
  *out_size = n;
  return bytes;
}
