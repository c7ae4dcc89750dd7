/* What launches of a plan wait for: all those of the phase before (phases.c) must be done and visible. By a barrier of Vulkan's a GPU first runs empty and then begins the next launch: microseconds, as long as a small launch takes. Where the target
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

/* How many phases a section has; who of it begins one. */
static int count_phases(device_plan *dp, const plan_section *section, phase *phases) {
  int n = 0;
  for (int i = section->first; i < section->first + section->n; i++) {
    lowered_launch *l = &dp->launches[dp->order[i]];
    l->behind = l->phase == n && n > 0; /* a section begins behind all else */
    if (l->phase == n)
      phases[n++] = (phase){0};
    phases[l->phase].groups += l->all;
    phases[l->phase].varies = phases[l->phase].varies || l->varies;
  }
  return n;
}

/* Whether those behind a phase wait by themselves. */
static bool is_awaited(const device_plan *dp, const phase *p) {
  return !p->varies && p->groups <= (int64_t)CHAIN_MOST * dp->target.units;
}

/* A launch that waits for none has the number 0, one that none waits for the address 0. */
static void link_launch(device_plan *dp, lowered_launch *l, const phase *phases, bool waits,
                        bool raises) {
  uint32_t head = l->block / 8;
  uint64_t counters = room_address(&dp->counters), number = 0, awaited = 0, raised = 0;
  if (waits) {
    uint64_t looks = dp->trial ? TRIAL_LOOKS : LOOKS;
    awaited = counters + (uint64_t)(l->phase - 1) * COUNTER_BYTES;
    number = (uint64_t)phases[l->phase - 1].groups + (gpu_fault("chain") ? 1 : 0);
    number |= looks << 32;
  }
  if (raises)
    raised = counters + (uint64_t)l->phase * COUNTER_BYTES;
  l->chained = waits;
  plan_set_word(&dp->params, head + BLOCK_AWAITED, awaited);
  plan_set_word(&dp->params, head + BLOCK_NUMBER, number);
  plan_set_word(&dp->params, head + BLOCK_RAISED, raised);
  plan_set_word(&dp->params, head + BLOCK_IN_VAIN,
                room_address(&dp->failures) + (uint64_t)plan_in_vain(dp));
}

sn_status plan_chain(device_plan *dp, bool timed) {
  const size_t most = (size_t)dp->n_launches;
  phase *phases = mem_array(dp->ctx, most + 1, sizeof *phases);
  if (!phases)
    return SN_ERR_NO_MEMORY;
  for (int s = 0; s < PLAN_SECTIONS; s++) {
    const plan_section *section = &dp->sections[s];
    bool chains = dp->target.chains && s == PLAN_MAIN && !timed;
    int n = count_phases(dp, section, phases);
    for (int i = section->first; i < section->first + section->n; i++) {
      lowered_launch *l = &dp->launches[dp->order[i]];
      bool waits = chains && l->phase > 0 && is_awaited(dp, &phases[l->phase - 1]);
      bool raises = chains && l->phase + 1 < n && is_awaited(dp, &phases[l->phase]);
      link_launch(dp, l, phases, waits, raises);
    }
  }
  mem_free(dp->ctx, phases, (most + 1) * sizeof *phases);
  return SN_OK;
}
