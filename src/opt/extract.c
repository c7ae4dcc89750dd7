/* See extract.h. Greedy on the DAG: the state is a choice for each class and how often each needed class is
 * read; a trial exchanges one choice, follows what becomes needed and what no longer is, and is undone unless
 * the sum of all costs falls. So the result never costs more than the start, and sharing is exact.
 *
 * No cycles: every needed class has a place, and a choice is only taken when its arguments' places are lower.
 * Classes of the input have the place of their first node; classes made by rules lie just above the highest
 * of their arguments, anew each time they become needed.
 */
#include "opt/extract.h"

enum { PLACE_BITS = 20, MOST_SWEEPS = 8, DEEPEST = 1000 };

typedef struct journal_entry {
  class_id c;
  int change;
} journal_entry;

static enode *first_live(const eclass *c) {
  enode *best = NULL;
  for (enode *n = c->first; n; n = n->next)
    if (!n->dead && n->origin && (!best || n->origin < best->origin))
      best = n;
  return best;
}

/* --- costs --- */

static double flops_of(extraction *x, const enode *n, const sn_type *out) {
  if (x->flops[n->id] >= 0)
    return x->flops[n->id];
  sn_type in[MAX_INPUTS];
  double bytes;
  int n_in = n->n_in < MAX_INPUTS ? n->n_in : MAX_INPUTS;
  for (int i = 0; i < n_in; i++)
    in[i] = n->in[i] ? egraph_class(x->e, n->in[i])->type : (sn_type){0};
  int n_out = out->dtype == SN_NO_DTYPE ? 0 : 1;
  op_cost(x->e->dims, n->op, n->attrs, n_in, in, n_out, out, &x->flops[n->id], &bytes);
  x->bytes[n->id] = n_out ? bytes - type_bytes(x->e->dims, out) : 0;
  return x->flops[n->id];
}

static double time_with(extraction *x, class_id c, const enode *n, uint32_t reads, bool pinned) {
  const eclass *k = x->e->classes[c];
  if (!reads && !pinned)
    return 0;
  bool several = k->type.dtype == SN_NO_DTYPE;
  cost_facts f = {.kind = op_kind_of(n->op),
                  .part = n->op == OP_PROJECT,
                  .prepared = k->prepared,
                  .flops = n->op == OP_PROJECT ? 0 : flops_of(x, n, &k->type),
                  .bytes = k->bytes};
  f.in_bytes = x->bytes[n->id];
  return several ? cost_time(&x->target, &f, 0, true) : cost_time(&x->target, &f, reads, pinned);
}

static double time_of(extraction *x, class_id c, uint32_t reads) {
  return time_with(x, c, x->choice[c], reads, x->pinned[c]);
}

/* --- lists --- */

static bool push(extraction *x, class_id c) {
  if (x->n_stack == x->cap_stack) {
    uint32_t wider = x->cap_stack ? 2 * x->cap_stack : 256;
    class_id *grown = arena_array(&x->e->memory, wider, sizeof *grown);
    if (!grown) {
      x->e->status = SN_ERR_NO_MEMORY;
      return false;
    }
    if (x->n_stack)
      memcpy(grown, x->stack, x->n_stack * sizeof *grown);
    x->stack = grown;
    x->cap_stack = wider;
  }
  x->stack[x->n_stack++] = c;
  return true;
}

static bool note(extraction *x, class_id c, int change) {
  if (x->n_journal == x->cap_journal) {
    uint32_t wider = x->cap_journal ? 2 * x->cap_journal : 256;
    journal_entry *grown = arena_array(&x->e->memory, wider, sizeof *grown);
    if (!grown) {
      x->e->status = SN_ERR_NO_MEMORY;
      return false;
    }
    if (x->n_journal)
      memcpy(grown, x->journal, x->n_journal * sizeof *grown);
    x->journal = grown;
    x->cap_journal = wider;
  }
  x->journal[x->n_journal++] = (journal_entry){c, change};
  return true;
}

/* Argument i of n, unless it is left out or an earlier one again. */
static class_id argument(extraction *x, const enode *n, int i) {
  class_id c = egraph_find(x->e, n->in[i]);
  for (int j = 0; j < i; j++)
    if (egraph_find(x->e, n->in[j]) == c)
      return 0;
  return c;
}

/* --- needing and releasing --- */

static bool need(extraction *x, class_id c, int depth);

/* Needs the arguments of n, all of which must lie below `place`; *highest: the highest place among them. */
static bool need_arguments(extraction *x, const enode *n, uint64_t place, uint64_t *highest,
                           int depth) {
  for (int i = 0; i < n->n_in; i++) {
    class_id c = argument(x, n, i);
    if (!c)
      continue;
    if (!need(x, c, depth) || x->place[c] >= place)
      return false;
    if (x->place[c] > *highest)
      *highest = x->place[c];
  }
  return true;
}

/* One more read of c. What it needs itself follows; a class of the input has a fixed place, so its own
 * arguments can wait on the worklist. */
static bool need(extraction *x, class_id c, int depth) {
  uint32_t reads = x->reads[c];
  if (!x->choice[c] || depth > DEEPEST || reads == UINT32_MAX - 1)
    return false;
  bool fresh = !extract_needed(x, c);
  x->total += time_of(x, c, reads + 1) - time_of(x, c, reads);
  x->reads[c]++;
  if (!note(x, c, 1))
    return false;
  if (!fresh)
    return x->place[c] != UINT64_MAX;
  if (x->e->classes[c]->origin)
    return push(x, c);
  uint64_t highest = 0;
  x->place[c] = UINT64_MAX; /* under way: whoever meets it here has a cycle */
  if (!need_arguments(x, x->choice[c], UINT64_MAX, &highest, depth + 1))
    return false;
  x->place[c] = highest + 1;
  return true;
}

static bool settle_needs(extraction *x) {
  while (x->n_stack) {
    class_id c = x->stack[--x->n_stack];
    uint64_t highest = 0;
    if (!need_arguments(x, x->choice[c], x->place[c], &highest, 0))
      return false;
  }
  return true;
}

static bool release_arguments(extraction *x, const enode *n) {
  for (int i = 0; i < n->n_in; i++) {
    class_id c = argument(x, n, i);
    if (c && !push(x, c))
      return false;
  }
  return true;
}

static bool release(extraction *x, const enode *n) {
  if (!release_arguments(x, n))
    return false;
  while (x->n_stack) {
    class_id c = x->stack[--x->n_stack];
    x->total += time_of(x, c, x->reads[c] - 1) - time_of(x, c, x->reads[c]);
    x->reads[c]--;
    if (!note(x, c, -1) || (!extract_needed(x, c) && !release_arguments(x, x->choice[c])))
      return false;
  }
  return true;
}

static void undo(extraction *x) {
  while (x->n_journal) {
    journal_entry j = x->journal[--x->n_journal];
    x->reads[j.c] = (uint32_t)((int64_t)x->reads[j.c] - j.change);
  }
  x->n_stack = 0;
}

/* Exchanges the choice of a needed class; keeps it when `always`, or when the whole gets cheaper. */
static bool exchange(extraction *x, class_id c, enode *n, bool always) {
  enode *before = x->choice[c];
  double total = x->total;
  uint64_t highest = 0;
  bool ok = need_arguments(x, n, x->place[c], &highest, 0) && settle_needs(x);
  if (ok) {
    x->total += time_with(x, c, n, x->reads[c], x->pinned[c]) - time_of(x, c, x->reads[c]);
    x->choice[c] = n;
    ok = release(x, before);
  }
  if (ok && (always || x->total < total)) {
    x->n_journal = 0;
    return true;
  }
  undo(x);
  x->choice[c] = before;
  x->total = total;
  return false;
}

/* --- the start --- */

/* Classes that rules made: the node that looks cheapest by itself. Its arguments were mostly made before it;
 * a second pass sees the rest. */
static void choose_made(extraction *x, double *guess) {
  egraph *e = x->e;
  for (int pass = 0; pass < 2; pass++)
    for (class_id c = 1; c < e->n_classes; c++) {
      if (egraph_find(e, c) != c || e->classes[c]->origin)
        continue;
      for (enode *n = e->classes[c]->first; n; n = n->next) {
        double sum = n->dead ? 1e300 : time_with(x, c, n, 1, false);
        for (int i = 0; i < n->n_in && sum < 1e300; i++) {
          class_id in = argument(x, n, i);
          sum += in && !e->classes[in]->origin ? guess[in] : 0;
          sum = in == c ? 1e300 : sum;
        }
        if (sum < guess[c]) {
          guess[c] = sum;
          x->choice[c] = n;
        }
      }
    }
}

static void pin(extraction *x, const class_id *of, sn_value v) {
  x->pinned[egraph_find(x->e, of[v.id])] = true;
}

/* Needed by the input's own choices, from the last class to the first. */
static sn_status need_all(extraction *x) {
  egraph *e = x->e;
  const sn_graph *g = e->input;
  class_id *by_value = arena_array(&e->memory, g->n_values, sizeof *by_value);
  if (!by_value)
    return SN_ERR_NO_MEMORY;
  for (class_id c = 1; c < e->n_classes; c++)
    if (egraph_find(e, c) == c && x->choice[c] && e->classes[c]->origin) {
      /* Values of one node: its tuple has the id of result 0 too, and stands one below. */
      bool several = e->classes[c]->type.dtype == SN_NO_DTYPE;
      x->place[c] = ((uint64_t)e->classes[c]->origin << PLACE_BITS) - (several ? 1u : 0u);
      if (!several)
        by_value[e->classes[c]->origin] = c;
    }
  for (uint32_t v = g->n_values; v-- > 1;) {
    class_id c = by_value[v];
    while (c && extract_needed(x, c)) {
      const enode *n = x->choice[c];
      x->total += time_of(x, c, x->reads[c]);
      class_id tuple = n->op == OP_PROJECT ? egraph_find(e, n->in[0]) : 0;
      bool again = tuple && extract_needed(x, tuple);
      for (int i = 0; i < n->n_in; i++) {
        class_id in = argument(x, n, i);
        if (in)
          x->reads[in]++;
      }
      c = again ? 0 : tuple;
    }
  }
  return SN_OK;
}

sn_status extract_start(extraction *x, egraph *e, const class_id *of, const opt_options *o) {
  const sn_graph *g = e->input;
  *x = (extraction){.e = e, .target = cost_target(&o->target)};
  x->choice = arena_array(&e->memory, e->n_classes, sizeof *x->choice);
  x->reads = arena_array(&e->memory, e->n_classes, sizeof *x->reads);
  x->pinned = arena_array(&e->memory, e->n_classes, sizeof *x->pinned);
  x->place = arena_array(&e->memory, e->n_classes, sizeof *x->place);
  x->flops = arena_array(&e->memory, e->n_nodes, sizeof *x->flops);
  x->bytes = arena_array(&e->memory, e->n_nodes, sizeof *x->bytes);
  double *guess = arena_array(&e->memory, e->n_classes, sizeof *guess);
  if (!x->choice || !x->reads || !x->pinned || !x->place || !x->flops || !x->bytes || !guess)
    return SN_ERR_NO_MEMORY;
  for (uint32_t i = 0; i < e->n_nodes; i++)
    x->flops[i] = -1;
  for (class_id c = 1; c < e->n_classes; c++) {
    guess[c] = 1e300;
    if (egraph_find(e, c) == c && e->classes[c]->origin)
      x->choice[c] = first_live(e->classes[c]);
  }
  choose_made(x, guess);
  for (int i = 0; i < g->n_outputs; i++)
    pin(x, of, g->outputs[i].value);
  for (int i = 0; i < g->n_assigns; i++)
    pin(x, of, g->assigns[i].value);
  for (int i = 0; i < o->n_keep; i++)
    pin(x, of, o->keep[i]);
  return need_all(x);
}

bool extract_force(extraction *x, enode *n) {
  class_id c = egraph_find(x->e, n->cls);
  return extract_needed(x, c) && exchange(x, c, n, true);
}

sn_status extract_improve(extraction *x) {
  egraph *e = x->e;
  bool better = true;
  for (int sweep = 0; better && sweep < MOST_SWEEPS; sweep++) {
    better = false;
    for (class_id c = e->n_classes; c-- > 1 && e->status == SN_OK;) {
      if (e->leader[c] != c || !extract_needed(x, c))
        continue;
      for (enode *n = e->classes[c]->first; n && extract_needed(x, c); n = n->next)
        if (!n->dead && n != x->choice[c])
          better = exchange(x, c, n, false) || better;
    }
  }
  return e->status;
}
