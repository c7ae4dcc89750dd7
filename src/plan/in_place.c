/* plan_in_place: a result takes over the memory of an argument that dies in the same step. Called by compile on the final
 * order, before placement.
 *
 * A store of v in a loop part or in the epilogue of a matmul part may take over o when
 *   - o and v live in the same arena and have as many bytes, in elements as wide;
 *   - this is the only store of v in the program, and it goes to each element once: the part has as many points as v elements;
 *   - every access to o in this step is a load of this part with exactly the map of the store, which stands before it and is
 *     as often (both once a point, or both once a row). So each point reads its own element before it is overwritten,
 *     however points are divided among tiles and threads;
 *   - nobody touches o later, and nobody else has taken it over.
 * What the planner has already decided stays.
 *
 * Where another step could run beside this one and reads o, taking o over would make the one wait for the other. So that is
 * done only in steps where memory is short: where more would be alive than when everything is taken over.
 */
#include "plan/barriers.h"
#include "plan/plan.h"
#include "plan/touches.h"

typedef struct pass {
  program *p;
  sn_ctx *ctx;
  touches t;
  int *last;      /* by value: the last step that reads or writes it; -1: none */
  int *n_stores;  /* by value: accesses that store to it */
  bool *taken;    /* by value: another is in place of it */
  int *previous;  /* by value: the last step but one */
  int *group;     /* by step: those of one could run side by side */
  int64_t *alive; /* by step: bytes of the arena */
  int64_t most;   /* bytes that may be alive before steps have to wait */
} pass;

/* A region of a part with its index space. */
typedef struct place_in_step {
  const step *s;
  int step, part;
  const region *code;
  const sn_dim *extent;
  int n_axes, n_outer;
} place_in_step;

/* 0 is said for 1. */
static sn_dim divisor(const term *t) { return t->div ? t->div : 1; }

static bool same_map(const access *a, const access *b) {
  if (a->base != b->base || a->n_terms != b->n_terms)
    return false;
  for (int i = 0; i < a->n_terms; i++) {
    const term *x = &a->terms[i], *y = &b->terms[i];
    if (x->axis == TERM_REG || x->axis != y->axis || x->stride != y->stride ||
        divisor(x) != divisor(y) || x->mod != y->mod)
      return false;
  }
  return true;
}

/* As many points (rows, for a store once a row) as elements, all at the symbols' maxima. */
static bool stores_each_once(const program *p, const place_in_step *at, const instr *store) {
  int64_t points = 1, low, high, count;
  int n = store->row ? at->n_outer : at->n_axes;
  for (int i = 0; i < n; i++) {
    dim_range(p->dims, at->extent[i], &low, &high);
    if (!mul_fits(points, high, &points))
      return false;
  }
  dim_range(p->dims, p->values[store->at.value].count, &low, &count);
  return points == count;
}

typedef struct question {
  uint32_t value;
  const place_in_step *at;
  const instr *store;
  bool ok;
} question;

static bool fits_question(void *user, const step_use *use) {
  question *q = user;
  if (use->value != q->value)
    return true;
  const region *code = q->at->code;
  const instr *store = q->store;
  q->ok = false;
  if (use->store || !use->at || !same_map(use->at, &store->at))
    return false;
  /* The loads of this region that stand before the store. */
  for (int i = 0; i < code->n && &code->code[i] != store; i++)
    if (&code->code[i].at == use->at && code->code[i].row == store->row)
      q->ok = true;
  return q->ok;
}

static bool may_take(const pass *w, const place_in_step *at, const instr *store, uint32_t o) {
  const program_value *to = &w->p->values[store->at.value], *from = &w->p->values[o];
  if (from->home != to->home || !value_is_placed(from) || from->bytes != to->bytes ||
      sn_dtype_size(from->type.dtype) != sn_dtype_size(to->type.dtype))
    return false;
  if (w->taken[o] || w->last[o] != at->step || from->bytes == 0)
    return false;
  int other = w->previous[o];
  if (other >= 0 && w->group[other] == w->group[at->step] && w->alive[at->step] <= w->most)
    return false;
  question q = {o, at, store, true};
  return step_each_use(at->s, fits_question, &q) && q.ok;
}

static void try_store(pass *w, const place_in_step *at, const instr *store) {
  uint32_t v = store->at.value;
  program_value *to = &w->p->values[v];
  if (to->in_place_of || !value_is_placed(to) || w->n_stores[v] != 1 ||
      !stores_each_once(w->p, at, store))
    return;
  for (const instr *i = at->code->code; i < store; i++)
    if (i->op == REGION_LOAD && i->at.value != v && may_take(w, at, store, i->at.value)) {
      to->in_place_of = i->at.value;
      w->taken[i->at.value] = true;
      return;
    }
}

static void try_part(pass *w, int s, int part_index) {
  const step *st = &w->p->steps[s];
  const part *p = &st->parts[part_index];
  place_in_step at = {.s = st, .step = s, .part = part_index};
  if (st->kind == STEP_MATMUL) {
    at.code = &p->u.matmul.epilogue;
    at.extent = p->u.matmul.extent;
    at.n_axes = p->u.matmul.n_batch + p->u.matmul.n_m + p->u.matmul.n_n;
  } else {
    at.code = &p->u.loop.code;
    at.extent = p->u.loop.extent;
    at.n_axes = p->u.loop.n_axes;
    at.n_outer = p->u.loop.n_outer;
  }
  for (int i = 0; i < at.code->n; i++)
    if (at.code->code[i].op == REGION_STORE)
      try_store(w, &at, &at.code->code[i]);
}

static bool count_store(void *user, const step_use *use) {
  pass *w = user;
  w->n_stores[use->value] += use->store;
  return true;
}

static bool pass_alloc(pass *w, arena *scratch) {
  size_t n_values = w->p->n_values, n_steps = (size_t)program_steps(w->p);
  w->last = arena_array(scratch, n_values, sizeof *w->last);
  w->previous = arena_array(scratch, n_values, sizeof *w->previous);
  w->n_stores = arena_array(scratch, n_values, sizeof *w->n_stores);
  w->taken = arena_array(scratch, n_values, sizeof *w->taken);
  w->group = arena_array(scratch, n_steps, sizeof *w->group);
  w->alive = arena_array(scratch, n_steps + 1, sizeof *w->alive);
  return w->last && w->previous && w->n_stores && w->taken && w->group && w->alive;
}

static sn_status pass_create(pass *w, program *p, arena *scratch) {
  uint32_t *roots;
  *w = (pass){.p = p, .ctx = scratch->ctx};
  SN_TRY(touches_find(p, scratch, &w->t));
  SN_TRY(touches_roots(p, scratch, &roots));
  if (!pass_alloc(w, scratch))
    return SN_ERR_NO_MEMORY;
  SN_TRY(barriers_groups(p, roots, scratch, w->group));
  memset(w->last, 0xff, p->n_values * sizeof *w->last);
  memset(w->previous, 0xff, p->n_values * sizeof *w->previous);
  for (int s = 0; s < program_steps(p); s++) {
    (void)step_each_use(&p->steps[s], count_store, w);
    for (int i = w->t.start[s]; i < w->t.start[s + 1]; i++) {
      uint32_t v = w->t.list[i].value;
      if (!(w->t.list[i].how & (TOUCH_READ | TOUCH_WRITE)))
        continue;
      w->previous[v] = w->last[v];
      w->last[v] = s;
    }
  }
  return SN_OK;
}

/* Takes over what may be; all that is alive in a step with more than `most` bytes. */
static void run(pass *w, int64_t most) {
  program *p = w->p;
  w->most = most;
  memset(w->taken, 0, p->n_values * sizeof *w->taken);
  for (uint32_t v = 1; v < p->n_values; v++)
    if (p->values[v].in_place_of)
      w->taken[p->values[v].in_place_of] = true;
  for (int s = 0; s < program_steps(p); s++)
    if (p->steps[s].kind <= STEP_MATMUL)
      for (int i = 0; i < p->steps[s].n_parts; i++)
        try_part(w, s, i);
}

/* Bytes of the arena that are alive in each step, as it stands now; the most of them in *out_peak. */
static sn_status measure(pass *w, int64_t *out_peak) {
  const program *p = w->p;
  int n = program_steps(p);
  int64_t limit = INT64_MAX / 4 / ((int64_t)p->n_values + 1); /* so that no sum overflows */
  arena scratch;
  arena_init(&scratch, w->ctx);
  uint32_t *roots;
  sn_status status = touches_roots(p, &scratch, &roots);
  int *first = arena_array(&scratch, p->n_values, sizeof *first);
  int *last = arena_array(&scratch, p->n_values, sizeof *last); /* one beyond; 0: never touched */
  if (status == SN_OK && (!first || !last))
    status = SN_ERR_NO_MEMORY;
  for (int s = 0; s < n && status == SN_OK; s++)
    for (int i = w->t.start[s]; i < w->t.start[s + 1]; i++) {
      uint32_t root = roots[w->t.list[i].value];
      if (!(w->t.list[i].how & (TOUCH_READ | TOUCH_WRITE)))
        continue;
      first[root] = last[root] ? first[root] : s;
      last[root] = s + 1;
    }
  memset(w->alive, 0, ((size_t)n + 1) * sizeof *w->alive);
  for (uint32_t v = 1; v < p->n_values && status == SN_OK; v++)
    if (p->values[v].home == HOME_ARENA && last[v]) {
      int64_t bytes = min_i64(max_i64(0, p->values[v].bytes), limit);
      w->alive[first[v]] += bytes;
      w->alive[last[v]] -= bytes;
    }
  *out_peak = 0;
  for (int s = 0; s < n; s++) {
    w->alive[s] += s ? w->alive[s - 1] : 0;
    *out_peak = max_i64(*out_peak, w->alive[s]);
  }
  arena_clear(&scratch);
  return status;
}

/* Everything at first, to see how little memory will do. Then from the start what costs no waiting, and the rest where
 * more than that would be alive; should that not do, everything after all. */
static sn_status take_over(pass *w, arena *scratch) {
  program *p = w->p;
  size_t n = p->n_values;
  int64_t least, peak;
  uint32_t *given = arena_array(scratch, n, sizeof *given);
  uint32_t *all = arena_array(scratch, n, sizeof *all);
  if (!given || !all)
    return SN_ERR_NO_MEMORY;
  for (size_t v = 0; v < n; v++)
    given[v] = p->values[v].in_place_of;
  run(w, -1);
  SN_TRY(measure(w, &least));
  for (size_t v = 0; v < n; v++) {
    all[v] = p->values[v].in_place_of;
    p->values[v].in_place_of = given[v];
  }
  run(w, INT64_MAX);
  SN_TRY(measure(w, &peak));
  if (peak > least) {
    run(w, least);
    SN_TRY(measure(w, &peak));
  }
  for (size_t v = 0; v < n && peak > least; v++)
    p->values[v].in_place_of = all[v];
  return SN_OK;
}

sn_status plan_in_place(program *p, sn_ctx *ctx) {
  arena scratch;
  arena_init(&scratch, ctx);
  pass w;
  sn_status status = pass_create(&w, p, &scratch);
  if (status == SN_OK)
    status = take_over(&w, &scratch);
  arena_clear(&scratch);
  return status;
}
