/* From a graph of instructions to code: what sinks need, in the order that step.h defines. A register of a point lives
 * within one phase, so what two phases need of one row's points is computed in both. */
#include "plan/dag.h"

typedef struct layout {
  const dag *d;
  bool *needed, *wanted; /* by node; wanted: in the phase at hand */
  uint8_t *ready;        /* row nodes: from this row phase on; others: the phase that they need */
  reg *where;            /* by node: its register in the code */
  instr *code;
  int n, room;
  bool too_long;
} layout;

typedef void visit_fn(void *user, reg r);

static void each_term(const term *t, int n, visit_fn *visit, void *user) {
  for (int k = 0; k < n; k++)
    if (t[k].axis == TERM_REG)
      visit(user, t[k].from);
}

static void each_argument(const instr *i, visit_fn *visit, void *user) {
  const reg args[] = {i->a, i->b, i->c};
  for (int k = 0; k < instr_arguments(i); k++)
    visit(user, args[k]);
  each_term(i->at.terms, i->at.n_terms, visit, user);
  for (int k = 0; k < i->at.n_checks; k++)
    each_term(i->at.checks[k].terms, i->at.checks[k].n_terms, visit, user);
}

static void mark(void *user, reg r) { ((bool *)user)[r] = true; }

void dag_mark(const dag *d, const bool *sink, bool *needed) {
  for (int k = d->n - 1; k >= 0; k--) {
    needed[k] = needed[k] || sink[k];
    if (needed[k])
      each_argument(&d->nodes[k].i, mark, needed);
  }
}

typedef struct readiness {
  const layout *l;
  uint8_t phase;
} readiness;

static void later(void *user, reg r) {
  readiness *s = user;
  if (s->l->ready[r] > s->phase)
    s->phase = s->l->ready[r];
}

static bool is_reduce(const dag_node *n) { return n->i.op == REGION_REDUCE; }

/* Phases of all nodes; returns the number of phases of points. */
static int find_phases(layout *l) {
  int last = 0;
  for (int k = 0; k < l->d->n; k++) {
    const dag_node *n = &l->d->nodes[k];
    readiness s = {l, 0};
    if (!l->needed[k])
      continue;
    each_argument(&n->i, later, &s);
    if (is_reduce(n) || !n->row)
      last = s.phase > last ? s.phase : last;
    l->ready[k] = (uint8_t)(s.phase + is_reduce(n));
  }
  return last + 1;
}

static void move_terms(const layout *l, term *t, int n) {
  for (int k = 0; k < n; k++)
    if (t[k].axis == TERM_REG)
      t[k].from = l->where[t[k].from];
}

static bool has_registers(const access *a) {
  for (int k = 0; k < a->n_terms; k++)
    if (a->terms[k].axis == TERM_REG)
      return true;
  for (int k = 0; k < a->n_checks; k++)
    for (int t = 0; t < a->checks[k].n_terms; t++)
      if (a->checks[k].terms[t].axis == TERM_REG)
        return true;
  return false;
}

/* Registers in accesses are renamed in a copy: the code of two phases may share the original. */
static bool move_access(const layout *l, arena *memory, access *a) {
  if (!has_registers(a))
    return true;
  term *terms = arena_copy(memory, a->terms, (size_t)a->n_terms * sizeof *terms);
  check *checks = arena_copy(memory, a->checks, (size_t)a->n_checks * sizeof *checks);
  if (!terms || !checks)
    return false;
  move_terms(l, terms, a->n_terms);
  for (int k = 0; k < a->n_checks; k++) {
    term *t = arena_copy(memory, checks[k].terms, (size_t)checks[k].n_terms * sizeof *t);
    if (!t)
      return false;
    move_terms(l, t, checks[k].n_terms);
    checks[k].terms = t;
  }
  a->terms = terms;
  a->checks = checks;
  return true;
}

static bool put(layout *l, int k, int phase, bool row, arena *memory) {
  l->too_long = l->n == l->room;
  if (l->too_long)
    return false;
  instr i = l->d->nodes[k].i;
  int n = instr_arguments(&i);
  i.a = n > 0 ? l->where[i.a] : 0;
  i.b = n > 1 ? l->where[i.b] : 0;
  i.c = n > 2 ? l->where[i.c] : 0;
  i.phase = (uint8_t)phase;
  i.row = row;
  if (!move_access(l, memory, &i.at))
    return false;
  l->where[k] = (reg)l->n;
  l->code[l->n++] = i;
  return true;
}

static bool put_rows(layout *l, int phase, arena *memory) {
  for (int k = 0; k < l->d->n; k++)
    if (l->needed[k] && l->d->nodes[k].row && !is_reduce(&l->d->nodes[k]) && l->ready[k] == phase &&
        !put(l, k, phase, true, memory))
      return false;
  return true;
}

/* Reductions and sinks of this phase, and the points' registers that they need. */
static bool put_points(layout *l, const bool *sink, int phase, arena *memory) {
  const dag *d = l->d;
  memset(l->wanted, 0, (size_t)d->n * sizeof *l->wanted);
  for (int k = d->n - 1; k >= 0; k--) {
    bool reduce = is_reduce(&d->nodes[k]), inner = reduce || !d->nodes[k].row;
    bool ends = reduce ? l->needed[k] && l->ready[k] == phase + 1 : sink[k] && l->ready[k] == phase;
    l->wanted[k] = inner && (reduce ? ends : l->wanted[k] || ends);
    if (l->wanted[k])
      each_argument(&d->nodes[k].i, mark, l->wanted);
  }
  for (int k = 0; k < d->n; k++)
    if (l->wanted[k] && (is_reduce(&d->nodes[k]) || !d->nodes[k].row) &&
        !put(l, k, phase, false, memory))
      return false;
  return true;
}

static bool start(layout *l, const dag *d, const bool *sink, arena *scratch) {
  size_t n = (size_t)d->n;
  *l = (layout){.d = d};
  l->needed = arena_array(scratch, n, sizeof *l->needed);
  l->wanted = arena_array(scratch, n, sizeof *l->wanted);
  l->ready = arena_array(scratch, n, sizeof *l->ready);
  l->where = arena_array(scratch, n, sizeof *l->where);
  if (!l->needed || !l->wanted || !l->ready || !l->where)
    return false;
  dag_mark(d, sink, l->needed);
  return true;
}

static bool make_room(layout *l, arena *scratch, int phases) {
  l->room = (int)min_i64((int64_t)l->d->n * phases, REGION_MAX);
  l->code = arena_array(scratch, (size_t)l->room, sizeof *l->code);
  return l->code;
}

static bool finish(const layout *l, arena *memory, region *out) {
  instr *code = arena_copy(memory, l->code, (size_t)l->n * sizeof *code);
  *out = (region){l->n, code};
  return code;
}

static sn_status end(const layout *l, arena *scratch, sn_ctx *ctx, bool ok) {
  arena_clear(scratch);
  if (ok)
    return SN_OK;
  return l->too_long ? diag_fail(ctx, SN_ERR_INTERNAL, "plan: a region is too long")
                     : SN_ERR_NO_MEMORY;
}

static void delay_stores(layout *l, const bool *sink, int phases) {
  for (int k = 0; k < l->d->n; k++)
    if (sink[k] && !l->d->nodes[k].row && l->d->nodes[k].i.op == REGION_STORE)
      l->ready[k] = (uint8_t)(phases - 1);
}

sn_status dag_layout(const dag *d, const bool *sink, bool late_stores, arena *memory, region *out,
                     int *out_phases) {
  layout l;
  arena scratch;
  arena_init(&scratch, memory->ctx);
  bool ok = start(&l, d, sink, &scratch);
  int phases = ok ? find_phases(&l) : 0;
  if (ok && late_stores)
    delay_stores(&l, sink, phases);
  ok = ok && make_room(&l, &scratch, phases);
  for (int p = 0; ok && p <= phases; p++)
    ok = put_rows(&l, p, memory) && (p == phases || put_points(&l, sink, p, memory));
  ok = ok && finish(&l, memory, out);
  *out_phases = phases;
  return end(&l, &scratch, memory->ctx, ok);
}

sn_status dag_flatten(const dag *d, const bool *sink, arena *memory, region *out) {
  layout l;
  arena scratch;
  arena_init(&scratch, memory->ctx);
  bool ok = start(&l, d, sink, &scratch) && make_room(&l, &scratch, 1);
  for (int k = 0; ok && k < d->n; k++)
    ok = !l.needed[k] || put(&l, k, 0, false, memory);
  ok = ok && finish(&l, memory, out);
  return end(&l, &scratch, memory->ctx, ok);
}
