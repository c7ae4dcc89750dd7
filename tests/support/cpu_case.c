/* See cpu_case.h. */
#include "support/cpu_case.h"

#include "support/test.h"

#include <stdlib.h>

enum { GARBAGE = 0xff }; /* NaN as f32 */

static char *garbage(size_t bytes) {
  char *p = aligned_alloc(PROGRAM_ALIGN, bytes / PROGRAM_ALIGN * PROGRAM_ALIGN + PROGRAM_ALIGN);
  if (p)
    memset(p, GARBAGE, bytes);
  return p;
}

typedef struct job {
  cpu_case *c;
  const step *s;
  cpu_crew *crew;
  char *scratch, *kept;
  size_t each;
  cpu_run runs[TEAM_MOST];
  sn_status status[TEAM_MOST];
} job;

cpu_run cpu_case_alone(sn_ctx *ctx, const program *p, const int64_t *sizes, void *const *addresses,
                       char *scratch, size_t bytes) {
  return (cpu_run){.ctx = ctx,
                   .isa = cpu_isa_best(),
                   .threads = 1,
                   .program = p,
                   .sizes = sizes,
                   .addresses = addresses,
                   .scratch = scratch,
                   .scratch_bytes = bytes,
                   .poison = true};
}

static void run_thread(void *user, int thread) {
  job *j = user;
  cpu_case *c = j->c;
  cpu_run *r = &j->runs[thread];
  const cpu_archetype *a = &cpu_archetypes[j->s->kind];
  *r = cpu_case_alone(c->ctx, c->program, c->sizes, c->addresses,
                      j->scratch + (size_t)thread * j->each, j->each);
  r->isa = c->isa ? c->isa : r->isa;
  r->thread = thread;
  r->threads = c->threads;
  r->crew = j->crew;
  r->kept = j->kept;
  sn_status status = j->kept ? a->keep(r, j->s) : SN_OK;
  cpu_sync(r);
  r->scratch_used = r->shared_used = 0;
  if (status == SN_OK)
    status = a->run(r, j->s);
  j->status[thread] = status;
}

/* Nobody may write behind what was taken: on another machine that is the end of the memory. */
static void check_untouched(const job *j, int thread) {
  const char *scratch = j->scratch + (size_t)thread * j->each;
  size_t at = j->runs[thread].scratch_most;
  while (at < j->each && (unsigned char)scratch[at] == GARBAGE)
    at++;
  if (at < j->each)
    FAIL("thread %d: byte %zu of scratch is written, and %zu were taken", thread, at,
         j->runs[thread].scratch_most);
}

/* The earliest failure, as the device has it. */
static sn_status collect(cpu_case *c, const job *j) {
  sn_status status = SN_OK;
  int64_t at = INT64_MAX;
  c->failed = false;
  c->scratch_used = 0;
  for (int t = 0; t < c->threads; t++) {
    const cpu_run *r = &j->runs[t];
    status = status == SN_OK ? j->status[t] : status;
    c->scratch_used = r->scratch_used > c->scratch_used ? r->scratch_used : c->scratch_used;
    if (!r->failed || r->failed_at >= at)
      continue;
    c->failed = true;
    at = r->failed_at;
    c->site = r->site;
    c->shown = r->shown;
  }
  return status;
}

sn_status cpu_case_run(cpu_case *c, const step *s) {
  const cpu_archetype *a = &cpu_archetypes[s->kind];
  size_t shared = a->need_shared ? a->need_shared(c->program, s) : 0;
  size_t kept = a->kept ? a->kept(c->program, s, NULL) : 0;
  team *t = NULL;
  c->threads = c->threads ? c->threads : 1;
  SN_TRY(team_get(c->ctx, c->threads, &t));
  cpu_crew *crew = aligned_alloc(64, (sizeof *crew + 63) / 64 * 64);
  job *j = calloc(1, sizeof *j);
  size_t each = cpu_take_bytes(a->need(c->program, s));
  *crew = (cpu_crew){.team = t, .shared = garbage(shared), .shared_bytes = shared};
  *j = (job){.c = c, .s = s, .crew = crew, .each = each, .kept = kept ? garbage(kept) : NULL};
  j->scratch = garbage(each * (size_t)c->threads);
  team_run(t, c->threads, run_thread, j);
  sn_status status = collect(c, j);
  for (int i = 0; i < c->threads; i++)
    check_untouched(j, i);
  free(j->scratch);
  free(j->kept);
  free(crew->shared);
  free(crew);
  free(j);
  return status;
}

void cpu_case_each_isa(void (*each)(const cpu_isa *isa)) {
  for (int i = 0; cpu_isa_at(i); i++)
    if (test_begin("%s", cpu_isa_at(i)->name)) {
      each(cpu_isa_at(i));
      test_end();
    }
}
