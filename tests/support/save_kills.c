/* See save_kills.h. A checkpoint is one tensor whose elements are all the number of the save, so that half of one shows. */
#include "support/save_kills.h"

#include "support/files.h"
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sinew/store.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ELEMENTS = 40000 };

typedef struct places {
  char killed[1024], shared[1024], neighbour[1024]; /* paths, all in one folder */
} places;

typedef struct saver {
  sn_ctx *ctx;
  sn_store *store;
} saver;

static bool saver_start(saver *s) {
  *s = (saver){0};
  return sn_ctx_create(NULL, &s->ctx) == SN_OK && sn_store_create(s->ctx, &s->store) == SN_OK &&
         sn_store_add(s->store, "x", (sn_type){SN_I32, SN_SHAPE(ELEMENTS)}, NULL) == SN_OK;
}

static void saver_end(saver *s) {
  sn_store_destroy(s->store);
  sn_ctx_destroy(s->ctx);
}

static bool save(saver *s, const char *path, int32_t number) {
  static int32_t x[ELEMENTS];
  for (int i = 0; i < ELEMENTS; i++)
    x[i] = number;
  return sn_store_write(s->store, "x", x, sizeof x) == SN_OK &&
         sn_store_save(s->store, path, NULL, 0) == SN_OK;
}

/* The number of a checkpoint; -1 when it is not whole. */
static int32_t load(saver *s, const char *path) {
  static int32_t x[ELEMENTS];
  if (sn_store_load(s->store, path) != SN_OK || sn_store_read(s->store, "x", x, sizeof x) != SN_OK)
    return -1;
  for (int i = 1; i < ELEMENTS; i++)
    if (x[i] != x[0])
      return -1;
  return x[0];
}

/* --- the processes --- */

/* Saves until it is killed; tells the number of each save that came to its end. */
static void save_and_die(const places *at, int32_t number, int told) {
  saver s;
  while (saver_start(&s)) {
    for (;; number++) {
      if (!save(&s, at->killed, number))
        _exit(1);
      if (write(told, &number, sizeof number) != sizeof number || !save(&s, at->shared, number))
        _exit(2);
    }
  }
  _exit(3);
}

/* Saves until nobody holds the other end of the pipe; 0 when nothing ever failed. */
static void save_and_live(const places *at, int stop) {
  saver s;
  char byte;
  if (!saver_start(&s) || fcntl(stop, F_SETFL, O_NONBLOCK) != 0)
    _exit(1);
  for (int32_t number = 1; read(stop, &byte, 1) != 0; number++) {
    if (!save(&s, at->neighbour, number) || load(&s, at->neighbour) != number)
      _exit(2);
    if (!save(&s, at->shared, number) || load(&s, at->shared) < 1)
      _exit(3);
  }
  _exit(0);
}

/* Up to some milliseconds, which is what a few saves take. */
static void wait_a_little(uint64_t *random) {
  *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  struct timespec t = {0, (long)(*random >> 33) % 8000000};
  nanosleep(&t, NULL);
}

/* Kills one saver; the number of the last save that it told of, or `last`. */
static int32_t kill_one(const places *at, int32_t last, uint64_t *random) {
  int ends[2], status = 0;
  CHECK_EQ_INT(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    save_and_die(at, last + 1, ends[1]);
  }
  close(ends[1]);
  wait_a_little(random);
  CHECK(child > 0 && kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  for (int32_t number; read(ends[0], &number, sizeof number) == sizeof number;)
    last = number;
  close(ends[0]);
  return last;
}

void save_kills_check(int n) {
  const char *folder = files_new_folder("kills");
  places at;
  saver s;
  int stop[2], status = -1;
  uint64_t random = (uint64_t)time(NULL);
  int32_t last = 1;
  snprintf(at.killed, sizeof at.killed, "%s", files_in(folder, "killed.safetensors"));
  snprintf(at.shared, sizeof at.shared, "%s", files_in(folder, "shared.safetensors"));
  snprintf(at.neighbour, sizeof at.neighbour, "%s", files_in(folder, "neighbour.safetensors"));
  REQUIRE(saver_start(&s) && save(&s, at.killed, last) && save(&s, at.shared, last) &&
          save(&s, at.neighbour, last) && pipe(stop) == 0);
  fflush(NULL);
  pid_t living = fork();
  if (living == 0) {
    close(stop[1]);
    save_and_live(&at, stop[0]);
  }
  for (int i = 0; i < n && !test_failed(); i++) {
    int32_t told = kill_one(&at, last, &random), has = load(&s, at.killed);
    /* One save more than it told of may have come to its end. */
    if (!CHECK(has == told || has == told + 1))
      FAIL("after kill %d: the checkpoint has %d, the last save was %d", i, has, told);
    last = has;
  }
  close(stop[0]);
  close(stop[1]);
  CHECK(living > 0 && waitpid(living, &status, 0) == living);
  CHECK_EQ_INT(status, 0);
  CHECK(last > 1);
  CHECK(save(&s, at.killed, last + 1));
  CHECK(load(&s, at.shared) >= 1);
  CHECK_EQ_INT(files_count(folder), 3);
  saver_end(&s);
  files_remove_folder(folder);
}
