/* See phases_check.h. Written from what phases promise, not from how they are found. */
#include "support/phases_check.h"

#include "device/vulkan/plan.h"
#include "support/test.h"

typedef struct checker {
  device_plan dp;
  int *step;           /* by launch */
  unsigned char *uses; /* by value, of the step at hand: 1 it reads, 2 it writes */
  struct touch {
    uint32_t value;
    bool writes;
  } * touches; /* of launch i: first[i] … first[i + 1] */
  int *first;
} checker;

static bool note_use(void *user, const step_use *use) {
  ((checker *)user)->uses[use->value] |= use->store ? 2 : 1;
  return true;
}

/* A step without launches is done by the next one. */
static void find_uses(checker *c, int s) {
  memset(c->uses, 0, c->dp.program->n_values);
  (void)step_each_use(&c->dp.program->steps[s], note_use, c);
  while (s-- > 0 && c->dp.steps[s].n == 0)
    (void)step_each_use(&c->dp.program->steps[s], note_use, c);
}

static bool find_touches(checker *c) {
  const program *p = c->dp.program;
  size_t room = 0, n = (size_t)c->dp.n_launches;
  for (size_t i = 0; i < n; i++)
    for (int k = 0; k < c->dp.launches[i].of->n_parts; k++)
      room += (size_t)c->dp.launches[i].of->parts[k].n_slots;
  c->step = arena_array(&c->dp.memory, n, sizeof *c->step);
  c->uses = arena_array(&c->dp.memory, p->n_values, 1);
  c->touches = arena_array(&c->dp.memory, room, sizeof *c->touches);
  c->first = arena_array(&c->dp.memory, n + 1, sizeof *c->first);
  if (!c->step || !c->uses || !c->touches || !c->first)
    return FAIL("no memory");
  int at = 0;
  for (int s = 0; s < program_steps(p); s++) {
    find_uses(c, s);
    for (int i = c->dp.steps[s].first; i < c->dp.steps[s].first + c->dp.steps[s].n; i++) {
      const launch *l = c->dp.launches[i].of;
      c->step[i] = s;
      c->first[i] = at;
      for (int k = 0; k < l->n_parts; k++)
        for (int j = 0; j < l->parts[k].n_slots; j++)
          if (l->parts[k].slots[j].kind == SLOT_ADDRESS) {
            uint32_t v = l->parts[k].slots[j].value;
            CHECK(c->uses[v] == 1 ||
                  c->uses[v] == 2); /* its step tells of it, and does one of both */
            c->touches[at++] = (struct touch){v, c->uses[v] & 2};
          }
    }
  }
  c->first[n] = at;
  return true;
}

static bool share_memory(const program *p, uint32_t a, uint32_t b) {
  const program_value *x = &p->values[a], *y = &p->values[b];
  if (x->home != y->home || x->home == HOME_INPUT || x->home == HOME_CONSTANT)
    return false;
  if (x->home == HOME_STATE || x->home == HOME_OUTPUT)
    return x->index == y->index;
  return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

static bool has_scratch(const launch *l) {
  for (int k = 0; k < l->n_parts; k++)
    for (int j = 0; j < l->parts[k].n_slots; j++)
      if (l->parts[k].slots[j].kind == SLOT_SCRATCH)
        return true;
  return false;
}

static bool share_scratch(const checker *c, int a, int b) {
  const lowered_step *x = &c->dp.steps[c->step[a]], *y = &c->dp.steps[c->step[b]];
  return has_scratch(c->dp.launches[a].of) && has_scratch(c->dp.launches[b].of) &&
         x->scratch_at < y->scratch_at + y->scratch_bytes &&
         y->scratch_at < x->scratch_at + x->scratch_bytes;
}

/* a before b. */
static bool conflict(const checker *c, int a, int b) {
  bool after = false;
  for (int i = a + 1; i <= b && c->step[a] == c->step[b]; i++)
    after = after || c->dp.launches[i].of->after;
  if (c->step[a] == c->step[b])
    return after;
  for (int i = c->first[a]; i < c->first[a + 1]; i++)
    for (int k = c->first[b]; k < c->first[b + 1]; k++) {
      const struct touch *x = &c->touches[i], *y = &c->touches[k];
      bool pieces = x->value == y->value && x->writes && y->writes;
      if ((x->writes || y->writes) && !pieces && share_memory(c->dp.program, x->value, y->value))
        return true;
    }
  return share_scratch(c, a, b);
}

static int section_of(const checker *c, int number) {
  const program *p = c->dp.program;
  int s = c->step[number];
  return s < p->n_prepare ? 0 : s < p->n_prepare + p->n_main ? 1 : 2;
}

static bool is_ordered(const checker *c, int number) {
  return !c->dp.launches[number].of->kept && launch_runs(&c->dp.launches[number]);
}

static void check_pairs(const checker *c) {
  for (int b = 0; b < c->dp.n_launches; b++) {
    int least = 0, own = c->dp.launches[b].phase;
    if (!is_ordered(c, b)) {
      CHECK_EQ_INT(own, -1);
      continue;
    }
    for (int a = 0; a < b; a++)
      if (is_ordered(c, a) && section_of(c, a) == section_of(c, b) && conflict(c, a, b))
        least = least > c->dp.launches[a].phase + 1 ? least : c->dp.launches[a].phase + 1;
    if (own != least)
      FAIL("launch %d of step %d is in phase %d, not %d", b, c->step[b], own, least);
  }
}

static void check_order(const checker *c) {
  int n = 0;
  for (int s = 0; s < PLAN_SECTIONS; s++)
    for (int i = 0; i < c->dp.sections[s].n; i++, n++) {
      int at = c->dp.order[n];
      CHECK(section_of(c, at) == s);
      CHECK(i == 0 || c->dp.launches[at].phase >= c->dp.launches[c->dp.order[n - 1]].phase);
    }
  CHECK_EQ_INT(n, c->dp.n_ordered);
  for (int i = 0; i < c->dp.n_launches; i++)
    n -= is_ordered(c, i);
  CHECK_EQ_INT(n, 0);
}

static phases_tally tally_of(const checker *c) {
  const program *p = c->dp.program;
  phases_tally t = {0, 1};
  bool behind = false;
  for (int s = p->n_prepare; s < p->n_prepare + p->n_main; s++) {
    behind = behind || (s > p->n_prepare && p->steps[s].barrier);
    for (int i = c->dp.steps[s].first; i < c->dp.steps[s].first + c->dp.steps[s].n; i++) {
      const lowered_launch *l = &c->dp.launches[i];
      behind = behind || l->of->after;
      if (!is_ordered(c, i))
        continue;
      t.barriers += behind;
      t.phases = t.phases > l->phase ? t.phases : l->phase + 1;
      behind = false;
    }
  }
  return t;
}

phases_tally phases_check(sn_ctx *ctx, const program *p, const step_launches *made) {
  checker c = {.dp = {.ctx = ctx, .program = p}};
  phases_tally t = {0};
  arena_init(&c.dp.memory, ctx);
  bool ok = CHECK(plan_take_launches(&c.dp, made) == SN_OK);
  ok = ok && CHECK(plan_phases(&c.dp) == SN_OK) && find_touches(&c);
  if (ok) {
    check_pairs(&c);
    check_order(&c);
    t = tally_of(&c);
  }
  arena_clear(&c.dp.memory);
  return t;
}
