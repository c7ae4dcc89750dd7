/* See files.h. */
#include "support/files.h"

#include "support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void files_put(const char *path, const void *bytes, size_t size) {
  FILE *f = fopen(path, "wb");
  REQUIRE(f != NULL);
  CHECK_EQ_UINT(fwrite(bytes, 1, size, f), size);
  CHECK_EQ_INT(fclose(f), 0);
}

void files_put_text(const char *path, const char *text) { files_put(path, text, strlen(text)); }

void files_extend(const char *path, size_t size) { CHECK_EQ_INT(truncate(path, (off_t)size), 0); }

void files_link(const char *target, const char *path) { CHECK_EQ_INT(symlink(target, path), 0); }

bool files_hold(const char *path, const void *bytes, size_t size) {
  const unsigned char *want = bytes;
  FILE *f = fopen(path, "rb");
  if (!f)
    return false;
  size_t n = 0;
  int c;
  while ((c = getc(f)) != EOF && n < size && c == want[n])
    n++;
  fclose(f);
  return c == EOF && n == size;
}

const char *files_new_folder(const char *name) {
  const char *path = test_scratch(name);
  CHECK_EQ_INT(mkdir(path, 0777), 0);
  return path;
}

const char *files_in(const char *folder, const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static bool is_entry(const struct dirent *e) {
  return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

int files_count(const char *folder) {
  DIR *dir = opendir(folder);
  int n = 0;
  if (!dir)
    return -1;
  for (struct dirent *e; (e = readdir(dir));)
    n += is_entry(e);
  closedir(dir);
  return n;
}

void files_remove(const char *folder, const char *prefix) {
  DIR *dir = opendir(folder);
  REQUIRE(dir != NULL);
  for (struct dirent *e; (e = readdir(dir));)
    if (is_entry(e) && strncmp(e->d_name, prefix, strlen(prefix)) == 0)
      unlinkat(dirfd(dir), e->d_name, 0);
  closedir(dir);
}

void files_remove_folder(const char *folder) {
  files_remove(folder, "");
  CHECK_EQ_INT(rmdir(folder), 0);
}
