/* What launches of a plan wait for. A step with a barrier, and a launch of a step that needs those before it, begins a phase: everything before must be done and
 * visible. By a barrier of Vulkan's a GPU first runs empty and then begins the next launch: microseconds, as long as a small launch takes. Where the target
 * `chains`, launches of main wait by themselves instead (kernel_chain.c): each phase has a counter, which its workgroups add to at their end, and
 * those of the next phase are there already and look at it. So nothing waits but for the phase before, which waited for the one
 * before that.
 *
 * That relies on workgroups beginning in the order of launches: if they wait for others, those have begun. Vulkan does not promise it. So only drivers
 * that are known to do so chain, after a test (self_test_chain.c), and who waits in vain does not do so for ever.
 *
 * Telling of one's end costs each workgroup as long as a write takes, so phases of many workgroups have a barrier behind them. So have those whose
 * number of workgroups varies with symbols: it stands in the blocks of those who wait. */
#include "device/vulkan/plan.h"

/* Looks before one has waited in vain, each of half a microsecond or so: a minute; in a test a second. */
enum { COUNTER_BYTES = 128, LOOKS = 1 << 26, TRIAL_LOOKS = 1 << 20 };

int64_t plan_counters(const device_plan *dp) {
  return dp->target.chains ? (int64_t)COUNTER_BYTES * dp->n_launches : 0;
}

typedef struct phase {
  int64_t groups;
  bool varies;
} phase;

/* Steps first … first + n, a section: how many phases it has. By launch: the one that it is of, -1: none. */
static int find_phases(device_plan *dp, int first, int n, phase *phases, int *of) {
  int now = -1;
  bool behind = false;
  for (int i = first; i < first + n; i++) {
    const lowered_step *s = &dp->steps[i];
    behind = behind || (i > first && dp->program->steps[i].barrier);
    for (int k = s->first; k < s->first + s->n; k++) {
      lowered_launch *l = &dp->launches[k];
      of[k] = -1;
      behind = behind || (l->of->after && !l->of->kept);
      if (l->of->kept || !launch_runs(l))
        continue;
      l->behind = behind && now >= 0; /* a section begins behind all else */
      if (l->behind || now < 0)
        phases[++now] = (phase){0};
      phases[now].groups += l->all;
      phases[now].varies = phases[now].varies || l->varies;
      of[k] = now;
      behind = false;
    }
  }
  return now + 1;
}

/* Whether those behind a phase wait by themselves. */
static bool is_awaited(const device_plan *dp, const phase *p) {
  return !p->varies && p->groups <= (int64_t)CHAIN_MOST * dp->target.units;
}

static void link_launch(device_plan *dp, lowered_launch *l, const phase *phases, int n, int of) {
  uint32_t head = l->block / 8;
  uint64_t counters = room_address(&dp->counters);
  bool waits = of > 0 && is_awaited(dp, &phases[of - 1]);
  l->chained = waits;
  if (waits) {
    plan_set_word(&dp->params, head + BLOCK_AWAITED, counters + (uint64_t)(of - 1) * COUNTER_BYTES);
    int64_t number = phases[of - 1].groups + (gpu_fault("chain") ? 1 : 0);
    uint64_t looks = dp->trial ? TRIAL_LOOKS : LOOKS;
    plan_set_word(&dp->params, head + BLOCK_NUMBER, (uint64_t)number | looks << 32);
  }
  if (of + 1 < n && is_awaited(dp, &phases[of]))
    plan_set_word(&dp->params, head + BLOCK_RAISED, counters + (uint64_t)of * COUNTER_BYTES);
  plan_set_word(&dp->params, head + BLOCK_IN_VAIN,
                room_address(&dp->failures) + (uint64_t)plan_in_vain(dp));
}

sn_status plan_chain(device_plan *dp) {
  const program *p = dp->program;
  size_t n = (size_t)dp->n_launches;
  phase *phases = arena_array(&dp->memory, n, sizeof *phases);
  int *of = arena_array(&dp->memory, n, sizeof *of);
  if (!phases || !of)
    return SN_ERR_NO_MEMORY;
  (void)find_phases(dp, 0, p->n_prepare, phases, of);
  (void)find_phases(dp, p->n_prepare + p->n_main, p->n_commit, phases, of);
  int n_phases = find_phases(dp, p->n_prepare, p->n_main, phases, of);
  int from = p->n_main ? dp->steps[p->n_prepare].first : 0, last = p->n_prepare + p->n_main - 1;
  int to = p->n_main ? dp->steps[last].first + dp->steps[last].n : 0;
  for (int k = from; k < to && dp->target.chains; k++)
    if (of[k] >= 0)
      link_launch(dp, &dp->launches[k], phases, n_phases, of[k]);
  return SN_OK;
}
