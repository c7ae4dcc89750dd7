/* See team.h. Two words carry everything: `job` (a count and the number of members) starts a run, `generation` ends a barrier.
 * Whoever waits for one of them to change spins, then sleeps on the condition; whoever changes one wakes sleepers if
 * there are any. Both sides order "my word" before "your word" (sequentially consistent), so no wake-up is lost. */
#include "base/team.h"

#include <pthread.h>
#include <stdatomic.h>

/* How often a waiting thread looks again before it sleeps: within a run (others are at work), and between runs. */
enum { SPIN_RUN = 20000, SPIN_IDLE = 2000, SPIN_CROWDED = 50 };
enum { STACK_BYTES = 1 << 20 };

typedef struct member {
  team *of;
  int index;
  pthread_t thread;
} member;

struct team {
  sn_ctx *ctx;
  int size;  /* members, the caller included */
  int cores; /* that the process has */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  atomic_int sleepers;
  atomic_uint job; /* runs so far << 8 | members of the latest; TEAM_STOP: go */
  atomic_uint generation, arrived, votes;
  bool any;    /* of the latest barrier's votes; stays until all have come to the next */
  int threads; /* of the run under way; 0: none */
  team_work work;
  void *user;
  member members[TEAM_MOST];
};
#define TEAM_STOP UINT32_MAX

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* --- waiting and waking --- */

/* Until the word is not `old` any more; what it is then. */
static unsigned wait_change(team *t, atomic_uint *word, unsigned old, int spins) {
  unsigned now;
  for (int i = 0; i < spins; i++) {
    if ((now = atomic_load(word)) != old)
      return now;
    pause_briefly();
  }
  atomic_fetch_add(&t->sleepers, 1);
  pthread_mutex_lock(&t->lock);
  while ((now = atomic_load(word)) == old)
    pthread_cond_wait(&t->changed, &t->lock);
  pthread_mutex_unlock(&t->lock);
  atomic_fetch_sub(&t->sleepers, 1);
  return now;
}

static void set_word(team *t, atomic_uint *word, unsigned value) {
  atomic_store(word, value);
  if (atomic_load(&t->sleepers) == 0)
    return;
  pthread_mutex_lock(&t->lock);
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
}

/* With more members than cores a spinning one only keeps another from its work. */
static int spins_of(const team *t, int threads, int most) {
  return threads > t->cores ? SPIN_CROWDED : most;
}

bool team_vote(team *t, bool yes) {
  int n = t->threads;
  if (n <= 1)
    return yes;
  unsigned generation = atomic_load(&t->generation);
  if (yes)
    atomic_store(&t->votes, 1);
  if (atomic_fetch_add(&t->arrived, 1) + 1 == (unsigned)n) {
    t->any = atomic_exchange(&t->votes, 0) != 0;
    atomic_store(&t->arrived, 0);
    set_word(t, &t->generation, generation + 1);
  } else {
    (void)wait_change(t, &t->generation, generation, spins_of(t, n, SPIN_RUN));
  }
  return t->any;
}

void team_barrier(team *t) { (void)team_vote(t, false); }

/* --- members --- */

static void *member_main(void *user) {
  member *m = user;
  team *t = m->of;
  unsigned seen = 0;
  for (;;) {
    unsigned job = wait_change(t, &t->job, seen, spins_of(t, (int)(seen & 255), SPIN_IDLE));
    if (job == TEAM_STOP)
      return NULL;
    seen = job;
    if (m->index >= (int)(job & 255))
      continue;
    t->work(t->user, m->index);
    team_barrier(t);
  }
}

/* A new member must not take a run of long ago for a new one: none is under way, and it waits for the next. */
static bool add_member(team *t) {
  member *m = &t->members[t->size];
  pthread_attr_t attributes;
  *m = (member){.of = t, .index = t->size};
  if (pthread_attr_init(&attributes) != 0)
    return false;
  bool made = pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
              pthread_create(&m->thread, &attributes, member_main, m) == 0;
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
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->changed, NULL);
  ctx->team = t;
  return SN_OK;
}

/* Ends all members but the caller; the team can grow again. */
static void stop_members(team *t) {
  set_word(t, &t->job, TEAM_STOP);
  for (int i = 1; i < t->size; i++)
    pthread_join(t->members[i].thread, NULL);
  t->size = 1;
  atomic_store(&t->job, 0);
}

sn_status team_get(sn_ctx *ctx, int threads, team **out) {
  *out = NULL;
  if (!ctx->team)
    SN_TRY(create(ctx));
  team *t = ctx->team;
  *out = t;
  if (t->size >= threads || team_is_busy(t))
    return SN_OK;
  stop_members(t); /* all start with the same count of runs */
  while (t->size < threads && add_member(t)) {
  }
  return SN_OK;
}

int team_size(const team *t) { return t->size; }
bool team_is_busy(const team *t) { return t->threads > 0; }

void team_destroy(team *t) {
  if (!t)
    return;
  stop_members(t);
  pthread_cond_destroy(&t->changed);
  pthread_mutex_destroy(&t->lock);
  mem_free(t->ctx, t, sizeof *t);
}

void team_run(team *t, int threads, team_work work, void *user) {
  t->threads = threads;
  if (threads > 1) {
    unsigned runs = (atomic_load(&t->job) >> 8) + 1;
    t->work = work;
    t->user = user;
    set_word(t, &t->job, (runs & 0x7fffff) << 8 | (unsigned)threads); /* never TEAM_STOP */
  }
  work(user, 0);
  team_barrier(t);
  t->threads = 0;
}
