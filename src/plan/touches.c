/* See touches.h. */
#include "plan/touches.h"

typedef struct finder {
  const program *p;
  touch *list;
  int n;
  int *place; /* by value: where in the list the present step has it, or something below `begin` */
  int begin;
  uint32_t bad; /* a value that there is not, or 0 */
} finder;

static bool count_use(void *user, const step_use *use) {
  (void)use;
  ++*(int64_t *)user;
  return true;
}

static bool add(finder *f, uint32_t value, unsigned how) {
  if (value == 0 || value >= f->p->n_values) {
    f->bad = value;
    return false;
  }
  if (f->place[value] < f->begin) {
    f->place[value] = f->n;
    f->list[f->n++] = (touch){value, 0};
  }
  f->list[f->place[value]].how |= how;
  return true;
}

static bool add_use(void *user, const step_use *use) {
  return add(user, use->value, use->store ? TOUCH_WRITE : TOUCH_READ);
}

static bool add_step(finder *f, const step *s) {
  f->begin = f->n;
  for (int i = 0; i < s->n_after; i++)
    if (!add(f, s->after[i], TOUCH_AFTER))
      return false;
  return step_each_use(s, add_use, f);
}

sn_status touches_find(const program *p, arena *memory, touches *out) {
  int n_steps = program_steps(p);
  int64_t uses = 0;
  for (int s = 0; s < n_steps; s++) {
    (void)step_each_use(&p->steps[s], count_use, &uses);
    uses += p->steps[s].n_after;
  }
  if (uses >= INT32_MAX / 4)
    return diag_fail(memory->ctx, SN_ERR_NO_MEMORY, "plan: %lld accesses are too many",
                     (long long)uses);
  finder f = {.p = p};
  out->start = arena_array(memory, (size_t)n_steps + 1, sizeof *out->start);
  out->list = f.list = arena_array(memory, (size_t)uses, sizeof *f.list);
  f.place = arena_array(memory, p->n_values, sizeof *f.place);
  if (!out->start || !f.list || !f.place)
    return SN_ERR_NO_MEMORY;
  memset(f.place, 0xff, p->n_values * sizeof *f.place); /* -1: below every begin */
  for (int s = 0; s < n_steps; s++) {
    if (!add_step(&f, &p->steps[s]))
      return diag_fail(memory->ctx, SN_ERR_INTERNAL, "plan: step %d names value %u of %u", s, f.bad,
                       p->n_values);
    out->start[s + 1] = f.n;
  }
  return SN_OK;
}

sn_status touches_roots(const program *p, arena *memory, uint32_t **out_roots) {
  uint32_t *roots = *out_roots = arena_array(memory, p->n_values, sizeof *roots);
  if (!roots)
    return SN_ERR_NO_MEMORY;
  for (uint32_t v = 1; v < p->n_values; v++) {
    uint32_t root = v, length = 0;
    while (!roots[root] && p->values[root].in_place_of) {
      root = p->values[root].in_place_of;
      if (root >= p->n_values || ++length > p->n_values)
        return diag_fail(memory->ctx, SN_ERR_INTERNAL, "plan: value %u is in place of no value", v);
    }
    root = roots[root] ? roots[root] : root;
    for (uint32_t w = v; !roots[w]; w = p->values[w].in_place_of) {
      roots[w] = root;
      if (w == root)
        break;
    }
  }
  return SN_OK;
}
