/* See team.h. Two words carry everything: `job` (a count and the number of members) starts a run, `meetings` (a count and
 * the vote) ends a barrier. Whoever waits for one of them to change spins, then sleeps on its condition; whoever changes
 * it wakes sleepers if there are any. Both sides order "my word" before "your word" (sequentially consistent), so no wake-up is
 * lost. Members that take no part in a run sleep on the job alone: barriers cost nothing for them. */
#include "base/team.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

/* How often a waiting thread looks again before it sleeps (each time some 30 ns): within a run (others are at work), between
 * runs, and with more members than cores, where a spinning one only keeps another from its work. Beyond SPIN_POLITE it
 * lets others run now and then: there may be other teams. */
enum { SPIN_RUN = 20000, SPIN_IDLE = 4000, SPIN_CROWDED = 50, SPIN_POLITE = 250 };
enum { STACK_BYTES = 1 << 20, LINE = 64 };

/* Each on a cache line of its own: those who spin on one must not be disturbed by changes to another. */
typedef struct word {
  atomic_ullong value;
  atomic_int sleepers;
  char apart[LINE];
  pthread_mutex_t lock;
  pthread_cond_t changed;
} word;

typedef struct member {
  team *of;
  int index;
  unsigned long long seen; /* the latest job when it was made: not its own */
  pthread_t thread;
} member;

enum { MEMBERS_BITS = 8 };
#define MEMBERS_MASK ((1ull << MEMBERS_BITS) - 1)
#define VOTE         (1u << 16) /* in `arrived`: counted from here on are those who said yes */

struct team {
  sn_ctx *ctx;
  int size;    /* members, the caller included */
  int cores;   /* that the process has */
  int threads; /* of the run under way; 0: none */
  team_work work;
  void *user;
  char apart[LINE];
  word job;      /* runs so far << MEMBERS_BITS | members of the latest, 0 of which means: go */
  word meetings; /* barriers so far << 1 | the vote of the latest */
  atomic_uint arrived;
  char apart_too[LINE];
  member members[TEAM_MOST];
};

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* --- waiting and waking --- */

static void word_init(word *w) {
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->changed, NULL);
}

static void word_end(word *w) {
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
}

static unsigned long long sleep_until(word *w, unsigned long long old) {
  unsigned long long now;
  atomic_fetch_add(&w->sleepers, 1);
  pthread_mutex_lock(&w->lock);
  while ((now = atomic_load(&w->value)) == old)
    pthread_cond_wait(&w->changed, &w->lock);
  pthread_mutex_unlock(&w->lock);
  atomic_fetch_sub(&w->sleepers, 1);
  return now;
}

/* Until the word is not `old` any more; what it is then. */
static unsigned long long word_wait(word *w, unsigned long long old, int spins) {
  enum { YIELD_EVERY = 16 };
  for (int i = 0; i < spins; i++) {
    unsigned long long now = atomic_load_explicit(&w->value, memory_order_acquire);
    if (now != old)
      return now;
    if (i > SPIN_POLITE && i % YIELD_EVERY == 0)
      sched_yield();
    else
      pause_briefly();
  }
  return sleep_until(w, old);
}

static void word_set(word *w, unsigned long long value) {
  atomic_store(&w->value, value);
  if (atomic_load(&w->sleepers) == 0)
    return;
  pthread_mutex_lock(&w->lock);
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

static int spins_of(const team *t, int threads, int most) {
  return threads > t->cores ? SPIN_CROWDED : most;
}

bool team_vote(team *t, bool yes) {
  unsigned n = (unsigned)t->threads, mine = 1 + (yes ? VOTE : 0);
  if (n <= 1)
    return yes;
  unsigned long long now, before = atomic_load(&t->meetings.value);
  unsigned all = atomic_fetch_add(&t->arrived, mine) + mine;
  if (all % VOTE == n) {
    now = ((before >> 1) + 1) << 1 | (all >= VOTE);
    atomic_store(&t->arrived, 0);
    word_set(&t->meetings, now);
  } else {
    now = word_wait(&t->meetings, before, spins_of(t, (int)n, SPIN_RUN));
  }
  return now & 1;
}

void team_barrier(team *t) { (void)team_vote(t, false); }

/* --- members --- */

static void *member_main(void *user) {
  const member *m = user;
  team *t = m->of;
  unsigned long long job = m->seen;
  int threads = 1;
  for (;;) {
    job = word_wait(&t->job, job, spins_of(t, threads, SPIN_IDLE));
    threads = (int)(job & MEMBERS_MASK);
    if (threads == 0)
      return NULL;
    if (m->index >= threads)
      continue;
    t->work(t->user, m->index);
    team_barrier(t);
  }
}

/* Signals are for the host's own threads. */
static bool start_thread(member *m, const pthread_attr_t *attributes) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  bool made = pthread_create(&m->thread, attributes, member_main, m) == 0;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return made;
}

static bool add_member(team *t) {
  member *m = &t->members[t->size];
  pthread_attr_t attributes;
  *m = (member){.of = t, .index = t->size, .seen = atomic_load(&t->job.value)};
  if (pthread_attr_init(&attributes) != 0)
    return false;
  bool made =
      pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 && start_thread(m, &attributes);
  pthread_attr_destroy(&attributes);
  t->size += made;
  return made;
}

static sn_status create(sn_ctx *ctx) {
  team *t = mem_alloc(ctx, sizeof *t);
  if (!t)
    return SN_ERR_NO_MEMORY;
  t->ctx = ctx;
  t->size = 1;
  t->cores = team_cores();
  word_init(&t->job);
  word_init(&t->meetings);
  ctx->team = t;
  return SN_OK;
}

sn_status team_get(sn_ctx *ctx, int threads, team **out) {
  *out = NULL;
  if (!ctx->team)
    SN_TRY(create(ctx));
  team *t = ctx->team;
  int wanted = threads < TEAM_MOST ? threads : TEAM_MOST;
  *out = t;
  while (!team_is_busy(t) && t->size < wanted && add_member(t)) {
  }
  return SN_OK;
}

int team_size(const team *t) { return t->size; }
bool team_is_busy(const team *t) { return t->threads > 0; }

/* The number that follows the latest run's, for so many members. */
static void next_job(team *t, int threads) {
  unsigned long long runs = (atomic_load(&t->job.value) >> MEMBERS_BITS) + 1;
  word_set(&t->job, runs << MEMBERS_BITS | (unsigned)threads);
}

void team_destroy(team *t) {
  if (!t)
    return;
  next_job(t, 0);
  for (int i = 1; i < t->size; i++)
    pthread_join(t->members[i].thread, NULL);
  word_end(&t->job);
  word_end(&t->meetings);
  mem_free(t->ctx, t, sizeof *t);
}

void team_run(team *t, int threads, team_work work, void *user) {
  t->threads = threads;
  if (threads > 1) {
    t->work = work;
    t->user = user;
    next_job(t, threads);
  }
  work(user, 0);
  team_barrier(t);
  t->threads = 0;
}
