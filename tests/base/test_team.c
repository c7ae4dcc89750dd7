/* Teams of threads: every member runs, barriers hold, votes are heard, also with more threads than cores; teams grow; several
 * contexts at once; fewer threads than asked for. */
#include "base/team.h"
#include "support/fault.h"
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MANY = 8, ROUNDS = 3000 };

static team *team_of(sn_ctx *ctx, int threads) {
  team *t = NULL;
  CHECK_EQ_INT(team_get(ctx, threads, &t), SN_OK);
  return t;
}

/* --- what a run does --- */

/* No field but `wrong` is atomic: the barriers alone must order who reads what. */
typedef struct job {
  team *team;
  int threads, rounds;
  sn_ctx *ctx;
  int ran[TEAM_MOST];
  int round_of[TEAM_MOST];
  long sum;
  atomic_int wrong;
} job;

static void note(void *user, int thread) {
  job *j = user;
  j->ran[thread]++;
}

static void check_ran(const job *j, int threads, int times) {
  for (int i = 0; i < TEAM_MOST; i++)
    CHECK_EQ_INT(j->ran[i], i < threads ? times : 0);
}

TEST(every_member_runs_once) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (int threads = 1; threads <= MANY; threads++) {
    team *t = team_of(ctx, threads); /* grows each time */
    job j = {0};
    CHECK_EQ_INT(team_size(t), threads);
    for (int i = 0; i < 200; i++)
      team_run(t, threads, note, &j);
    check_ran(&j, threads, 200);
  }
  sn_ctx_destroy(ctx);
}

/* Members that take no part stay out of it, and are there when a later run has them. */
TEST(runs_of_fewer_than_all) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  team *t = team_of(ctx, MANY);
  job j = {0};
  int want[MANY] = {0};
  for (int i = 0; i < 4000; i++) {
    int threads = 1 + (i * 7 + i / 3) % MANY;
    team_run(t, threads, note, &j);
    for (int k = 0; k < threads; k++)
      want[k]++;
  }
  for (int k = 0; k < MANY; k++)
    CHECK_EQ_INT(j.ran[k], want[k]);
  sn_ctx_destroy(ctx);
}

/* Each round all write, meet, and look at what the others wrote; one adds to a sum that all read. */
static void meet_often(void *user, int thread) {
  job *j = user;
  for (int round = 1; round <= j->rounds; round++) {
    j->round_of[thread] = round;
    if (thread == round % j->threads)
      j->sum += round;
    team_barrier(j->team);
    for (int k = 0; k < j->threads; k++)
      if (j->round_of[k] != round)
        atomic_fetch_add(&j->wrong, 1);
    if (j->sum != (long)round * (round + 1) / 2)
      atomic_fetch_add(&j->wrong, 1);
    team_barrier(j->team);
  }
}

TEST(barriers_hold) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (int threads = 1; threads <= MANY; threads++) {
    team *t = team_of(ctx, threads);
    job j = {.team = t, .threads = threads, .rounds = threads <= 4 ? ROUNDS : ROUNDS / 10};
    team_run(t, threads, meet_often, &j);
    CHECK_EQ_INT(j.wrong, 0);
    CHECK_EQ_INT(j.sum, (long)j.rounds * (j.rounds + 1) / 2);
  }
  sn_ctx_destroy(ctx);
}

/* Work between barriers that differs: some sleep, so that others do. */
static void meet_late(void *user, int thread) {
  job *j = user;
  for (int round = 1; round <= j->rounds; round++) {
    if ((round + thread) % 5 == 0)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    j->round_of[thread] = round;
    team_barrier(j->team);
    for (int k = 0; k < j->threads; k++)
      if (j->round_of[k] != round)
        atomic_fetch_add(&j->wrong, 1);
    team_barrier(j->team);
  }
}

TEST(barriers_wake_sleepers) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  team *t = team_of(ctx, MANY);
  for (int threads = 2; threads <= MANY; threads += 3) {
    job j = {.team = t, .threads = threads, .rounds = 60};
    team_run(t, threads, meet_late, &j);
    CHECK_EQ_INT(j.wrong, 0);
  }
  sn_ctx_destroy(ctx);
}

/* In round i thread i % threads says yes if bit 0 of i / threads is set; all hear it, in that round only. */
static void vote_often(void *user, int thread) {
  job *j = user;
  for (int round = 0; round < j->rounds; round++) {
    bool any = round / j->threads % 2, yes = any && thread == round % j->threads;
    if (team_vote(j->team, yes) != any)
      atomic_fetch_add(&j->wrong, 1);
  }
  if (!team_vote(j->team, true)) /* all of them */
    atomic_fetch_add(&j->wrong, 1);
}

TEST(votes_are_heard_by_all) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (int threads = 1; threads <= MANY; threads++) {
    team *t = team_of(ctx, threads);
    job j = {.team = t, .threads = threads, .rounds = threads <= 4 ? ROUNDS : ROUNDS / 10};
    team_run(t, threads, vote_often, &j);
    CHECK_EQ_INT(j.wrong, 0);
  }
  sn_ctx_destroy(ctx);
}

/* --- growth, nesting, limits --- */

/* From within a run a team is busy; it does not grow then. */
static void look_within(void *user, int thread) {
  job *j = user;
  if (thread != 0)
    return;
  team *t = NULL;
  if (!team_is_busy(j->team) || team_get(j->ctx, MANY, &t) != SN_OK || t != j->team)
    atomic_fetch_add(&j->wrong, 1);
  j->sum = team_size(j->team);
}

TEST(busy_teams_do_not_grow) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  for (int threads = 1; threads <= 3; threads++) {
    job j = {.team = team_of(ctx, threads), .ctx = ctx};
    CHECK(!team_is_busy(j.team));
    team_run(j.team, threads, look_within, &j);
    CHECK(!team_is_busy(j.team));
    CHECK_EQ_INT(j.wrong, 0);
    CHECK_EQ_INT(j.sum, threads);
  }
  CHECK_EQ_INT(team_size(team_of(ctx, 2)), 3); /* never smaller */
  sn_ctx_destroy(ctx);
}

TEST(the_largest_team) {
  sn_ctx *ctx;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  team *t = team_of(ctx, 40000);
  int size = team_size(t);
  CHECK(size >= 1 && size <= TEAM_MOST);
  job j = {.team = t, .threads = size, .rounds = 3};
  for (int i = 0; i < 3; i++)
    team_run(t, size, note, &j);
  check_ran(&j, size, 3);
  team_run(t, size, vote_often, &j);
  CHECK_EQ_INT(j.wrong, 0);
  sn_ctx_destroy(ctx);
}

TEST(cores_are_within_bounds) {
  long all = sysconf(_SC_NPROCESSORS_ONLN);
  CHECK(team_cores() >= 1 && team_cores() <= TEAM_MOST && team_cores() <= all);
}

/* The team itself is one block; growing and running take no memory from the context. */
TEST(runs_allocate_nothing) {
  fault_heap heap = {.fail_at = 0};
  do {
    fault_heap_start(&heap);
    sn_ctx *ctx = fault_ctx(&heap);
    team *t = NULL;
    if (ctx && team_get(ctx, 2, &t) == SN_OK) {
      int64_t before = heap.count;
      job j = {.team = t, .threads = 4, .rounds = 20};
      CHECK_EQ_INT(team_get(ctx, 4, &t), SN_OK);
      team_run(t, 4, meet_often, &j);
      CHECK_EQ_INT(heap.count, before);
      CHECK_EQ_INT(j.wrong, 0);
    } else
      CHECK(t == NULL);
    sn_ctx_destroy(ctx);
  } while (fault_heap_end(&heap));
}

/* --- several at once --- */

typedef struct host {
  pthread_t thread;
  int threads;
  int wrong;
} host;

static void *host_main(void *user) {
  host *h = user;
  for (int life = 0; life < 5; life++) {
    sn_ctx *ctx;
    h->wrong = 1;
    if (sn_ctx_create(NULL, &ctx) != SN_OK)
      return NULL;
    team *t = team_of(ctx, h->threads);
    job j = {.team = t, .threads = h->threads, .rounds = 50};
    for (int i = 0; i < 20; i++) {
      j.sum = 0;
      team_run(t, h->threads, meet_often, &j);
    }
    h->wrong = j.wrong;
    sn_ctx_destroy(ctx);
  }
  return NULL;
}

TEST(contexts_on_several_threads) {
  host hosts[4];
  for (int i = 0; i < 4; i++) {
    hosts[i] = (host){.threads = 2 + i % 3};
    CHECK_EQ_INT(pthread_create(&hosts[i].thread, NULL, host_main, &hosts[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    CHECK_EQ_INT(pthread_join(hosts[i].thread, NULL), 0);
    CHECK_EQ_INT(hosts[i].wrong, 0);
  }
}

/* Two contexts of one thread: a run within a run of the other. */
static void run_other(void *user, int thread) {
  job *const *jobs = user;
  jobs[0]->ran[thread]++;
  if (thread == 0)
    team_run(jobs[1]->team, jobs[1]->threads, meet_often, jobs[1]);
  team_barrier(jobs[0]->team);
}

TEST(a_run_within_a_run_of_another_context) {
  sn_ctx *ctx[2];
  REQUIRE(sn_ctx_create(NULL, &ctx[0]) == SN_OK && sn_ctx_create(NULL, &ctx[1]) == SN_OK);
  job j[2] = {{.threads = 3}, {.threads = 2, .rounds = 500}};
  for (int i = 0; i < 2; i++)
    j[i].team = team_of(ctx[i], j[i].threads);
  team_run(j[0].team, 3, run_other, (job *[]){&j[0], &j[1]});
  check_ran(&j[0], 3, 1);
  CHECK_EQ_INT(j[1].wrong, 0);
  CHECK_EQ_INT(j[1].sum, 500 * 501 / 2);
  sn_ctx_destroy(ctx[0]);
  sn_ctx_destroy(ctx[1]);
}

TEST(contexts_come_and_go) {
  for (int i = 0; i < 300; i++) {
    sn_ctx *ctx;
    REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
    job j = {0};
    int threads = 1 + i % 4, runs = i % 3; /* also a team that never ran */
    team *t = team_of(ctx, threads);
    for (int k = 0; k < runs; k++)
      team_run(t, threads, note, &j);
    check_ran(&j, threads, runs);
    sn_ctx_destroy(ctx);
  }
}

/* --- threads that the system does not give --- */

#if defined(__has_feature)
#define CLANG_SANITIZES (__has_feature(thread_sanitizer) || __has_feature(address_sanitizer))
#else
#define CLANG_SANITIZES 0
#endif

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) && !CLANG_SANITIZES

/* In a process of its own whose address space has little room. More than there may be stacks that the C library has left
 * over from threads that ended. */
enum { TOO_MANY = 200 };

static int with_little_room(void) {
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  int read = f ? fscanf(f, "%ld", &pages) : 0;
  if (f)
    fclose(f);
  sn_ctx *ctx;
  if (read != 1 || sn_ctx_create(NULL, &ctx) != SN_OK)
    return 10;
  rlim_t room = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)5 << 19);
  if (setrlimit(RLIMIT_AS, &(struct rlimit){room, room}) != 0)
    return 11;
  team *t = NULL;
  if (team_get(ctx, TOO_MANY, &t) != SN_OK)
    return 12;
  int size = team_size(t);
  job j = {.team = t, .threads = size, .rounds = 100};
  team_run(t, size, meet_often, &j);
  sn_ctx_destroy(ctx);
  return size >= TOO_MANY ? 13 : j.wrong || j.sum != 5050 ? 14 : 0;
}

TEST(fewer_threads_than_asked_for) {
  pid_t child = fork();
  if (child == 0)
    _exit(with_little_room());
  int status = -1;
  REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK_EQ_INT(WEXITSTATUS(status), 0);
}

#endif
