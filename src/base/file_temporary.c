/* See file_temporary.h. */
#include "base/file_temporary.h"

#include "base/file_os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/vfs.h>
#endif

/* `.sinew-`, 16 hexadecimal digits and an ending; what has the first ending may be removed by others. */
#define PREFIX   ".sinew-"
#define LOCKED   ".tmp"
#define UNLOCKED ".unlocked.tmp"
enum { DIGITS = 16, TRIES = 100 };

/* Whether a lock holds against everybody who can write there: file systems of one machine, by the numbers that the kernel
 * gives them. All others may be shared with machines that do not see the lock. */
static bool locks_hold(int folder) {
#ifdef __linux__
  static const uint32_t local[] = {
      0xef53 /* ext2 to ext4 */, 0x58465342 /* xfs */,   0x9123683e /* btrfs */,
      0x01021994 /* tmpfs */,    0x858458f6 /* ramfs */, 0x794c7630 /* overlay */,
      0xf2f52010 /* f2fs */,     0x2fc12fc1 /* zfs */,   0xca451a4e /* bcachefs */,
      0x4d44 /* fat */,          0x2011bab0 /* exfat */, 0x3153464a /* jfs */,
      0x52654973 /* reiserfs */, 0x7366746e /* ntfs3 */,
  };
  struct statfs info;
  if (fstatfs(folder, &info) < 0)
    return false;
  for (size_t i = 0; i < COUNT_OF(local); i++)
    if ((uint32_t)info.f_type == local[i])
      return true;
#else
  (void)folder;
#endif
  return false;
}

/* Digits that hardly anybody has used before, in this process or another of the same number; O_EXCL does the rest. */
static void make_name(temporary *t, bool locked, int attempt) {
  struct timespec time, up;
  (void)clock_gettime(CLOCK_REALTIME, &time);
  (void)clock_gettime(CLOCK_MONOTONIC, &up);
  const uint64_t facts[] = {(uint64_t)getpid(),     (uint64_t)attempt,
                            (uint64_t)time.tv_sec,  (uint64_t)time.tv_nsec,
                            (uint64_t)up.tv_sec,    (uint64_t)up.tv_nsec,
                            (uint64_t)(uintptr_t)t, (uint64_t)(uintptr_t)&time};
  snprintf(t->name, sizeof t->name, PREFIX "%016llx%s",
           (unsigned long long)hash_bytes(HASH_SEED, facts, sizeof facts),
           locked ? LOCKED : UNLOCKED);
}

/* False with errno; EWOULDBLOCK: somebody removes it at this moment, or has done so. */
static bool take_lock(sn_ctx *ctx, temporary *t) {
  struct stat info;
  if (os_lock(ctx, t->fd) < 0 || fstat(t->fd, &info) < 0)
    return false;
  errno = EWOULDBLOCK;
  return info.st_nlink > 0 && (t->lock = fcntl(t->fd, F_DUPFD_CLOEXEC, 0)) >= 0;
}

int temporary_create(sn_ctx *ctx, int folder, mode_t mode, temporary *out) {
  bool locked = locks_hold(folder);
  *out = TEMPORARY_NONE;
  for (int i = 0; i < TRIES; i++) {
    make_name(out, locked, i);
    out->fd = os_open_at(ctx, folder, out->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    if (out->fd >= 0 && (!locked || take_lock(ctx, out)))
      return 0;
    int error = errno;
    bool made = out->fd >= 0;
    if (!made)
      out->name[0] = '\0';
    temporary_destroy(ctx, folder, out);
    errno = error;
    if (made)
      locked = error == EWOULDBLOCK; /* else there are no locks here after all */
    else if (error != EEXIST)
      return -1;
  }
  return -1;
}

void temporary_destroy(sn_ctx *ctx, int folder, temporary *t) {
  if (t->fd >= 0)
    (void)os_close(ctx, t->fd);
  if (t->name[0])
    (void)os_unlink_at(ctx, folder, t->name);
  if (t->lock >= 0)
    (void)os_close(ctx, t->lock);
  *t = TEMPORARY_NONE;
}

/* --- what dead writers left --- */

static bool is_lockable_name(const char *name) {
  size_t prefix = strlen(PREFIX);
  return strncmp(name, PREFIX, prefix) == 0 &&
         strspn(name + prefix, "0123456789abcdef") == DIGITS &&
         strcmp(name + prefix + DIGITS, LOCKED) == 0;
}

/* Under the lock, and if the name still is that file's: its writer may have renamed it in the meantime. */
static void remove_if_dead(sn_ctx *ctx, int folder, const char *name) {
  struct stat opened, named;
  int fd = os_open_at(ctx, folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
  if (fd < 0)
    return;
  if (fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) && os_lock(ctx, fd) == 0 &&
      fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_dev == opened.st_dev &&
      named.st_ino == opened.st_ino)
    (void)os_unlink_at(ctx, folder, name);
  (void)os_close(ctx, fd);
}

void temporary_sweep(sn_ctx *ctx, int folder) {
  if (!locks_hold(folder))
    return;
  int fd = os_open_at(ctx, folder, ".", O_RDONLY | O_DIRECTORY, 0);
  DIR *names = fd >= 0 ? fdopendir(fd) : NULL;
  if (!names) {
    if (fd >= 0)
      (void)os_close(ctx, fd);
    return;
  }
  for (struct dirent *e; (e = readdir(names));)
    if (is_lockable_name(e->d_name))
      remove_if_dead(ctx, folder, e->d_name);
  (void)closedir(names);
}
