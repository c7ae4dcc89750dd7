/* See verify.h: the steps replayed in their order on bytes. Each write stamps its bytes with the value that it makes; each read must
 * find its own value there, made whole. A value made by several stores is whole when all of them are done (that these
 * cover it is proved by verify_access.c). Room is that at the symbols' maxima, so this holds for all bindings.
 *
 * Also who may write what and when: inputs and constants nobody, states `commit` alone and each once, prepared memory `prepare`
 * alone, which reads nothing that changes from run to run.
 */
#include "plan/verify.h"

typedef struct owner {
  int64_t low, high;
  uint32_t value;
} owner;

/* One arena: who owns which bytes, ascending and disjoint. */
typedef struct owners {
  owner *list;
  int n;
} owners;

typedef struct replay {
  verifier *v;
  int *stores, *done;   /* by value: how many there are, how many are done */
  int *first, *last;    /* by value: the first store, the last use */
  bool *lost;           /* by value: overwritten */
  uint32_t *state_made; /* by state: the value that a step made of it */
  uint32_t *output_has; /* by output: the value that stands there now */
  owners arenas[2];
} replay;

bytes_of value_bytes(const program_value *value) {
  bool placed = value->home == HOME_ARENA || value->home == HOME_PREPARED;
  int64_t memory = value->home == HOME_ARENA      ? 0
                   : value->home == HOME_PREPARED ? 1
                                                  : ((int64_t)value->index << 4) + value->home + 2;
  int64_t low = placed ? value->offset : 0;
  return (bytes_of){memory, low, low + value->bytes};
}

/* --- places --- */

/* Whether no run has a negative size of it. */
static bool is_size(const verifier *v, sn_dim d) {
  int64_t lo, hi;
  dim_range(v->p->dims, d, &lo, &hi);
  for (int k = 0; k < v->p->n_requirements && lo < 0; k++)
    if (v->p->requirements[k].size == d)
      return true;
  return lo >= 0;
}

/* The most elements that a value can have: each size at its largest. The range of their product as one expression may be
 * wider, as that of m - 1, times 3. */
static int64_t most_elements(const verifier *v, const program_value *x) {
  int64_t lo, most, by_dims = 1;
  bool fits = true;
  dim_range(v->p->dims, x->count, &lo, &most);
  for (int d = 0; d < x->type.shape.rank && fits; d++) {
    int64_t hi;
    dim_range(v->p->dims, x->type.shape.dim[d], &lo, &hi);
    fits = is_size(v, x->type.shape.dim[d]) && mul_fits(by_dims, max_i64(0, hi), &by_dims);
  }
  return fits ? min_i64(most, by_dims) : most;
}

static sn_status check_place(const verifier *v, uint32_t id) {
  const program_value *x = &v->p->values[id];
  int64_t need;
  if (!mul_fits(most_elements(v, x), (int64_t)sn_dtype_size(x->type.dtype), &need) ||
      x->bytes < need)
    return verify_fail(v, -1, id, "has room for %lld bytes, needs %lld", (long long)x->bytes,
                       (long long)need);
  if (x->home != HOME_ARENA && x->home != HOME_PREPARED)
    return SN_OK;
  int64_t room = x->home == HOME_ARENA ? v->p->arena_bytes : v->p->prepared_bytes;
  if (x->offset < 0 || x->offset % PROGRAM_ALIGN)
    return verify_fail(v, -1, id, "stands at byte %lld, which is not aligned to %d",
                       (long long)x->offset, PROGRAM_ALIGN);
  if (x->bytes && (x->offset > room || x->bytes > room - x->offset))
    return verify_fail(v, -1, id, "ends at byte %lld, outside its arena of %lld",
                       (long long)(x->offset + x->bytes), (long long)room);
  if (!x->in_place_of)
    return SN_OK;
  const program_value *under = &v->p->values[x->in_place_of];
  if (x->in_place_of >= v->p->n_values || !bytes_overlap(value_bytes(x), value_bytes(under)) ||
      x->offset != under->offset)
    if (x->bytes)
      return verify_fail(v, -1, id, "is in place of value %u, but stands elsewhere",
                         x->in_place_of);
  return SN_OK;
}

/* --- owners of bytes --- */

/* The first that ends behind `low`. */
static int owner_at(const owners *o, int64_t low) {
  int a = 0, b = o->n;
  while (a < b) {
    int m = (a + b) / 2;
    if (o->list[m].high <= low)
      a = m + 1;
    else
      b = m;
  }
  return a;
}

static void stamp(replay *r, uint32_t id) {
  const program_value *x = &r->v->p->values[id];
  bytes_of at = value_bytes(x);
  if (at.low == at.high)
    return;
  owners *o = &r->arenas[at.memory];
  int from = owner_at(o, at.low), to = from;
  for (; to < o->n && o->list[to].low < at.high; to++)
    if (o->list[to].value != id)
      r->lost[o->list[to].value] = true;
  memmove(&o->list[from + 1], &o->list[to], (size_t)(o->n - to) * sizeof *o->list);
  o->list[from] = (owner){at.low, at.high, id};
  o->n += 1 - (to - from);
}

/* --- reads --- */

static bool is_given(const program_value *x) {
  return x->home == HOME_INPUT || x->home == HOME_STATE || x->home == HOME_CONSTANT;
}

static sn_status check_read(const replay *r, int s, uint32_t id) {
  const verifier *v = r->v;
  const program_value *x = &v->p->values[id];
  if (x->home == HOME_STATE && r->state_made[x->index] && r->state_made[x->index] != id)
    return verify_fail(v, s, id, "reads state \"%s\" after value %u was committed to it",
                       v->p->states[x->index].name, r->state_made[x->index]);
  if (is_given(x) && !r->stores[id])
    return SN_OK;
  if (!r->done[id])
    return verify_fail(v, s, id, "is read before anything writes it");
  if (r->done[id] < r->stores[id])
    return verify_fail(v, s, id, "is read when %d of its %d stores are done", r->done[id],
                       r->stores[id]);
  if (r->lost[id])
    return verify_fail(
        v, s, id,
        r->first[id] < v->p->n_prepare && s >= v->p->n_prepare && x->home == HOME_ARENA
            ? "is made by a prepare step in the arena, which does not last until it is read"
            : "is read after its bytes were overwritten");
  return SN_OK;
}

static sn_status check_prepare_read(const replay *r, int s, uint32_t id) {
  const verifier *v = r->v;
  const program_value *x = &v->p->values[id];
  if (x->home == HOME_INPUT || x->home == HOME_OUTPUT)
    return verify_fail(v, s, id, "is read by a prepare step, but changes from run to run");
  if (x->home != HOME_STATE)
    return SN_OK;
  const program_leaf *state = &v->p->states[x->index];
  if (state->assigned || v->assigned[x->index])
    return verify_fail(v, s, id, "is read by a prepare step, but state \"%s\" is assigned",
                       state->name);
  if (!state->prepares)
    return verify_fail(v, s, id, "is read by a prepare step, but state \"%s\" is not marked so",
                       state->name);
  return SN_OK;
}

/* --- writes --- */

static const char *const section_names[] = {"prepare", "main", "commit"};
static int section_of(const program *p, int s) {
  return s < p->n_prepare ? 0 : s < p->n_prepare + p->n_main ? 1 : 2;
}

static sn_status check_write(const replay *r, int s, uint32_t id) {
  static const char *const homes[] = {"arena",  "prepared", "an input",
                                      "output", "a state",  "a constant"};
  const verifier *v = r->v;
  const program_value *x = &v->p->values[id];
  int section = section_of(v->p, s);
  bool may = false;
  switch (x->home) {
  case HOME_ARENA: may = true; break;
  case HOME_PREPARED: may = section == 0; break;
  case HOME_OUTPUT: may = section > 0; break;
  case HOME_STATE: may = section == 2; break;
  case HOME_INPUT:
  case HOME_CONSTANT: break;
  }
  if (!may)
    return verify_fail(v, s, id, "is written by a %s step, but is %s", section_names[section],
                       homes[x->home]);
  if (x->home != HOME_STATE)
    return SN_OK;
  if (!v->assigned[x->index])
    return verify_fail(v, s, id, "is committed to state \"%s\", which nothing assigns",
                       v->p->states[x->index].name);
  if (r->state_made[x->index] && r->state_made[x->index] != id)
    return verify_fail(v, s, id, "is committed to state \"%s\" after value %u was",
                       v->p->states[x->index].name, r->state_made[x->index]);
  return SN_OK;
}

static void write_value(replay *r, int s, uint32_t id) {
  const program_value *x = &r->v->p->values[id];
  if (x->home == HOME_ARENA || x->home == HOME_PREPARED)
    stamp(r, id);
  if (x->home == HOME_OUTPUT && x->bytes) { /* a base may be copied there first */
    if (r->output_has[x->index] != id)
      r->lost[r->output_has[x->index]] = true;
    r->output_has[x->index] = id;
  }
  if (x->home == HOME_STATE)
    r->state_made[x->index] = id;
  if (r->first[id] < 0)
    r->first[id] = s;
  r->done[id]++;
}

/* What an update does not write it keeps: its base must be there. */
static sn_status check_update(const replay *r, int s, const use *u) {
  const verifier *v = r->v;
  uint32_t base = u->code ? update_base(v, u->code) : 0;
  if (!base)
    return SN_OK;
  const node *n = graph_node(v->g, (sn_value){verify_target(v, &v->p->values[u->value])});
  bytes_of a = value_bytes(&v->p->values[u->value]), b = value_bytes(&v->p->values[base]);
  if (n->op != OP_update_slice || v->p->values[base].source != n->in[0].id ||
      a.memory != b.memory || a.low != b.low)
    return verify_fail(v, s, u->value, "keeps what value %u holds, which is not its base", base);
  return check_read(r, s, base);
}

/* --- the replay --- */

static sn_status replay_step(replay *r, int s) {
  const verifier *v = r->v;
  const use *from = v->uses + v->uses_from[s], *to = v->uses + v->uses_from[s + 1];
  const step *st = &v->p->steps[s];
  if (s ==
      v->p->n_prepare) { /* prepare does not run each time: what it left in the arena is not there */
    for (int k = 0; k < r->arenas[0].n; k++)
      r->lost[r->arenas[0].list[k].value] = true;
    r->arenas[0].n = 0;
  }
  for (int k = 0; k < st->n_after; k++)
    if (st->after[k] >= v->p->n_values ||
        (r->done[st->after[k]] < r->stores[st->after[k]] && r->stores[st->after[k]]))
      return verify_fail(v, s, st->after[k], "must be made before, but is not");
  for (const use *u = from; u < to; u++)
    if (!u->store) {
      SN_TRY(check_read(r, s, u->value));
      if (section_of(v->p, s) == 0)
        SN_TRY(check_prepare_read(r, s, u->value));
    } else
      SN_TRY(check_update(r, s, u));
  for (const use *u = from; u < to; u++) {
    r->last[u->value] = s;
    if (u->store) {
      SN_TRY(check_write(r, s, u->value));
      write_value(r, s, u->value);
    }
  }
  return SN_OK;
}

static sn_status check_ends(const replay *r) {
  const verifier *v = r->v;
  const program *p = v->p;
  for (int i = 0; i < p->n_outputs; i++) {
    uint32_t id = p->outputs[i].value;
    if (!id || !r->done[id] || r->done[id] < r->stores[id] || r->lost[id])
      return verify_fail(v, -1, id, "output \"%s\" is not written", p->outputs[i].name);
  }
  for (int i = 0; i < p->n_states; i++) {
    if (v->assigned[i] && !r->state_made[i])
      return verify_fail(v, -1, 0, "state \"%s\" is assigned, but no step commits it",
                         p->states[i].name);
    if (p->states[i].assigned != (v->assigned[i] != 0))
      return verify_fail(v, -1, 0, "state \"%s\" is %smarked as assigned", p->states[i].name,
                         p->states[i].assigned ? "" : "not ");
  }
  for (uint32_t id = 1; id < p->n_values; id++)
    if (p->values[id].first != r->first[id] || p->values[id].last != r->last[id])
      return verify_fail(v, -1, id, "is said to last from step %d to %d, lasts from %d to %d",
                         p->values[id].first, p->values[id].last, r->first[id], r->last[id]);
  return SN_OK;
}

static sn_status replay_start(replay *r) {
  verifier *v = r->v;
  size_t n = v->p->n_values;
  int **counts[] = {&r->stores, &r->done, &r->first, &r->last};
  for (size_t k = 0; k < COUNT_OF(counts); k++)
    if (!(*counts[k] = arena_array(&v->memory, n, sizeof(int))))
      return SN_ERR_NO_MEMORY;
  r->lost = arena_array(&v->memory, n, sizeof *r->lost);
  r->state_made = arena_array(&v->memory, (size_t)v->p->n_states + 1, sizeof *r->state_made);
  r->output_has = arena_array(&v->memory, (size_t)v->p->n_outputs + 1, sizeof *r->output_has);
  r->arenas[0].list = arena_array(&v->memory, n + 1, sizeof(owner));
  r->arenas[1].list = arena_array(&v->memory, n + 1, sizeof(owner));
  if (!r->lost || !r->state_made || !r->output_has || !r->arenas[0].list || !r->arenas[1].list)
    return SN_ERR_NO_MEMORY;
  memset(r->first, 0xff, n * sizeof(int));
  memset(r->last, 0xff, n * sizeof(int));
  for (int k = 0; k < v->n_uses; k++)
    r->stores[v->uses[k].value] += v->uses[k].store;
  return SN_OK;
}

sn_status verify_memory(verifier *v) {
  replay r = {.v = v};
  for (uint32_t id = 1; id < v->p->n_values; id++)
    SN_TRY(check_place(v, id));
  SN_TRY(replay_start(&r));
  for (int s = 0; s < program_steps(v->p); s++)
    SN_TRY(replay_step(&r, s));
  return check_ends(&r);
}
