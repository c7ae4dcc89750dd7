/* See drawn_check.h. */
#include "support/drawn_check.h"

#include "ir/dim.h"
#include "ir/dtype.h"
#include "support/plan_run.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- one run --- */

static int find_leaf(const program_leaf *leaves, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(leaves[i].name, name) == 0)
      return i;
  return -1;
}

static bool right_numbers(const exact_value *v, const void *data, const char *what,
                          const char *name, char *why, size_t size) {
  for (int64_t i = 0; i < v->t.count; i++) {
    double got = dtype_load(v->t.dtype, data, i);
    if (!exact_accepts(v, i, got)) {
      snprintf(why, size, "%s \"%s\": element %lld of %lld is %.9g, not %.9g%s", what, name,
               (long long)i, (long long)v->t.count, got, v->t.data[i],
               v->err == 0 ? " (exact)" : "");
      return false;
    }
  }
  return true;
}

typedef struct checking {
  plan_run run;
  const exact_judge *judge;
  drawn_tally *tally;
  char *why;
  size_t size;
} checking;

static bool accepts(checking *c, const plan_results *res) {
  const program *p = c->run.c.program;
  const sn_graph *g = c->run.g;
  bool ok = true;
  for (int i = 0; ok && i < g->n_outputs; i++) {
    const exact_value *v = &c->judge->values[g->outputs[i].value.id];
    int at = find_leaf(p->outputs, p->n_outputs, g->outputs[i].name);
    if (exact_says(v))
      ok = at >= 0 &&
           right_numbers(v, res->outputs[at], "output", g->outputs[i].name, c->why, c->size);
  }
  for (int i = 0; ok && i < g->n_assigns; i++) {
    const exact_value *v = &c->judge->values[g->assigns[i].value.id];
    const char *name = sn_value_name(g, g->assigns[i].state);
    int at = find_leaf(p->states, p->n_states, name);
    if (exact_says(v))
      ok = at >= 0 && right_numbers(v, res->states[at], "state", name, c->why, c->size);
  }
  return ok;
}

/* Whether a live node fails. */
static bool must_fail(const exact_judge *j) {
  bool *live = calloc(j->g->n_nodes, sizeof *live), fails = false;
  if (live)
    graph_mark_live(j->g, live);
  for (uint32_t i = 0; live && i < j->g->n_nodes; i++)
    fails = fails || (live[i] && j->values[j->g->nodes[i].first].failed);
  free(live);
  return fails;
}

static bool is_open(const exact_value *v) { return v->t.count == 0 || (!v->t.data && !v->failed); }

/* Whether a run may be refused or not: where a live value is too large to be judged, and where one has no elements. There the
 * reference refuses some runs that devices take: that is open (decision 27). */
static bool may_differ(const exact_judge *j) {
  bool *live = calloc(j->g->n_nodes, sizeof *live), open = false;
  if (live)
    graph_mark_live(j->g, live);
  for (uint32_t i = 0; live && i < j->g->n_nodes; i++)
    for (int k = 0; live[i] && k < j->g->nodes[i].n_out; k++)
      open = open || is_open(&j->values[j->g->nodes[i].first + (uint32_t)k]);
  free(live);
  return open;
}

static bool one_run(checking *c, const plan_numbers *n, bool fails) {
  plan_results res;
  bool ok = false;
  sn_status status = plan_run_once(&c->run, n, &res);
  bool refused = status == SN_ERR_INVALID || status == SN_ERR_NUMERIC;
  if (fails == refused ? fails : may_differ(c->judge) && (fails || refused))
    ok = true;
  else if (fails && status == SN_OK)
    snprintf(c->why, c->size, "the reference refuses the run, the device does not");
  else if (status != SN_OK)
    snprintf(c->why, c->size, "the run fails: %s", sn_ctx_message(c->run.ctx));
  else
    ok = accepts(c, &res);
  if (c->tally) {
    c->tally->runs++;
    c->tally->failing += fails;
  }
  plan_results_end(&res);
  return ok;
}

/* On the plans of one thread, of several and of each instruction set; or on two of them. */
static bool all_runs(checking *c, const exact_judge *judge, bool all) {
  bool fails = must_fail(judge), ok = true;
  c->judge = judge;
  for (int which = 0; ok && which < c->run.n_lowered; which++) {
    c->run.which = which;
    ok = (!all && which > 1) || one_run(c, judge->numbers, fails);
    if (!ok) {
      size_t used = strlen(c->why);
      snprintf(c->why + used, c->size - used, " (plan %d)", which);
    }
  }
  return ok;
}

/* Again with other numbers: states as the first run left them, or other sizes. */
static bool other_runs(checking *c, drawn_graph *d) {
  exact_judge judge;
  drawn_leaf leaves[DRAWN_LEAVES];
  int64_t bindings[DRAWN_SYMBOLS];
  bool ok = true;
  memcpy(leaves, d->leaves, sizeof leaves);
  memcpy(bindings, d->bindings, sizeof bindings);
  for (int turn = 0; ok && turn < 2; turn++) {
    bool changed = false;
    for (int i = 0; turn == 0 && i < d->g->n_assigns; i++) {
      const exact_value *v = &d->judge.values[d->g->assigns[i].value.id];
      const char *name = sn_value_name(d->g, d->g->assigns[i].state);
      for (int k = 0; k < d->n_leaves && exact_says(v); k++)
        if (strcmp(d->leaves[k].name, name) == 0) {
          d->leaves[k].given = v->t.data;
          d->leaves[k].n_given = v->t.count;
          changed = true;
        }
    }
    for (int s = 0; turn == 1 && s < DRAWN_SYMBOLS; s++) {
      int64_t most = dim_symbol_max(d->g, s), was = d->bindings[s];
      d->bindings[s] = was == most ? 1 : was == 1 ? 0 : most;
      changed = true;
    }
    exact_start(&judge, d->g, &d->numbers);
    if (changed && exact_go_on(&judge))
      ok = all_runs(c, &judge, false);
    exact_end(&judge);
    if (!ok) {
      size_t used = strlen(c->why);
      snprintf(c->why + used, c->size - used, turn ? " (at other sizes)" : " (in the second run)");
    }
    memcpy(d->leaves, leaves, sizeof leaves);
    memcpy(d->bindings, bindings, sizeof bindings);
  }
  return ok;
}

/* --- counting --- */

static void count_words(drawn_tally *t, const node *n, const op_desc *op) {
  for (int a = 0; a < op->n_attrs && a < 12; a++) {
    const void *at = attr_at(n->attrs, &op->attrs[a]);
    attr_kind kind = op->attrs[a].kind;
    int value = kind == ATTR_FLAG    ? *(const bool *)at
                : kind == ATTR_ENUM  ? *(const int *)at
                : kind == ATTR_DTYPE ? (int)*(const sn_dtype *)at
                                     : -1;
    if (value >= 0 && value < DRAWN_WORDS)
      t->word[n->op][a][value]++;
  }
}

static void count(const drawn_graph *d, drawn_tally *t) {
  bool *live = calloc(d->g->n_nodes, sizeof *live);
  if (live)
    graph_mark_live(d->g, live);
  for (uint32_t i = 0; live && i < d->g->n_nodes; i++) {
    const node *n = &d->g->nodes[i];
    if (!live[i])
      continue;
    t->op[n->op]++;
    count_words(t, n, graph_op(d->g, n));
    for (int k = 0; k < n->n_in; k++)
      if (n->in[k].id) {
        int at = graph_op(d->g, n)->on_list && k > 1 ? 1 : k;
        t->argument[n->op][at][d->g->values[n->in[k].id].type.dtype]++;
      }
  }
  for (int i = 0; i < d->g->n_outputs; i++) {
    const exact_value *v = &d->judge.values[d->g->outputs[i].value.id];
    t->exact += exact_says(v) && v->err == 0;
    t->near += exact_says(v) && v->err > 0;
    t->silent += !exact_says(v);
  }
  t->graphs++;
  t->refused += d->refused;
  free(live);
}

bool drawn_check(drawn_graph *d, drawn_tally *tally, char *why, size_t size) {
  static const int modes[] = {0, 0, 1, 2, 3, 0, 1, 2};
  int mode = modes[d->size ? d->bytes[d->size / 2] % 8 : 0];
  compile_options o = {.no_fusion = mode & 1,
                       .no_opt = mode & 2,
                       .channels_last = mode == 3 ? 1 : 0,
                       .cut_all = mode == 2};
  checking c = {.tally = tally, .why = why, .size = size};
  bool ok = true;
  *why = '\0';
  if (plan_run_start(&c.run, d->g, &o) != SN_OK) {
    snprintf(why, size, "does not compile: %s", sn_ctx_message(d->ctx));
    ok = false;
  }
  ok = ok && all_runs(&c, &d->judge, true) && other_runs(&c, d);
  if (ok && tally)
    count(d, tally);
  if (!ok) {
    size_t used = strlen(why);
    snprintf(why + used, size - used, " [%s%s]", mode & 1 ? "no fusion" : "fused",
             mode & 2 ? ", not optimised" : "");
  }
  plan_run_end(&c.run);
  return ok;
}

/* --- shrinking --- */

/* The letters of a message without what stands in quotes. */
static void kind_of(const char *why, char *kind, size_t size) {
  size_t n = 0;
  bool quoted = false;
  for (; *why && n + 1 < size; why++) {
    quoted ^= *why == '"';
    if (!quoted && isalpha((unsigned char)*why))
      kind[n++] = *why;
    if (strncmp(why, "element", 7) == 0)
      break;
  }
  kind[n] = '\0';
}

static bool fails(const uint8_t *bytes, size_t n, int only_op, char *why, size_t size) {
  sn_ctx *ctx = NULL;
  drawn_graph d = {.only_op = only_op};
  bool ok = true;
  if (sn_ctx_create(NULL, &ctx) != SN_OK)
    return false;
  if (drawn_graph_make(&d, ctx, bytes, n) == SN_OK)
    ok = drawn_check(&d, NULL, why, size);
  drawn_graph_end(&d);
  sn_ctx_destroy(ctx);
  return !ok;
}

typedef struct shrinking {
  uint8_t *bytes, *trial;
  size_t n;
  int only_op, tries;
  char kind[60];
} shrinking;

static bool keep_if_it_fails(shrinking *s, size_t n) {
  char why[1200], kind[sizeof s->kind];
  if (s->tries-- <= 0 || !fails(s->trial, n, s->only_op, why, sizeof why))
    return false;
  kind_of(why, kind, sizeof kind);
  if (strcmp(kind, s->kind) != 0)
    return false;
  memcpy(s->bytes, s->trial, n);
  s->n = n;
  return true;
}

static void leave_out(shrinking *s, size_t some) {
  for (size_t at = 0; at + some <= s->n;) {
    memcpy(s->trial, s->bytes, at);
    memcpy(s->trial + at, s->bytes + at + some, s->n - at - some);
    if (!keep_if_it_fails(s, s->n - some))
      at += some;
  }
}

static void make_zero(shrinking *s) {
  for (size_t at = 0; at < s->n; at++) {
    if (!s->bytes[at])
      continue;
    memcpy(s->trial, s->bytes, s->n);
    s->trial[at] = 0;
    if (!keep_if_it_fails(s, s->n)) {
      s->trial[at] = s->bytes[at] / 2;
      if (s->trial[at])
        (void)keep_if_it_fails(s, s->n);
    }
  }
}

static void shrink(shrinking *s) {
  for (int round = 0; round < 3; round++) {
    size_t before = s->n;
    for (size_t some = s->n / 2; some >= 1; some /= 2)
      leave_out(s, some);
    make_zero(s);
    if (s->n == before && round)
      break;
  }
}

bool drawn_check_bytes(const uint8_t *bytes, size_t n, int only_op, drawn_tally *tally, char *why,
                       size_t size, char **out_text) {
  sn_ctx *ctx = NULL;
  drawn_graph d = {.only_op = only_op};
  bool ok = true;
  *out_text = NULL;
  if (sn_ctx_create(NULL, &ctx) != SN_OK)
    return true;
  if (drawn_graph_make(&d, ctx, bytes, n) == SN_OK)
    ok = drawn_check(&d, tally, why, size);
  drawn_graph_end(&d);
  shrinking s = {
      .bytes = malloc(n + 1), .trial = malloc(n + 1), .n = n, .only_op = only_op, .tries = 1500};
  if (!ok && !getenv("DRAWN_BRIEF") && s.bytes && s.trial) {
    memcpy(s.bytes, bytes, n);
    kind_of(why, s.kind, sizeof s.kind);
    shrink(&s);
    d = (drawn_graph){.only_op = only_op};
    if (drawn_graph_make(&d, ctx, s.bytes, s.n) == SN_OK && !drawn_check(&d, NULL, why, size))
      *out_text = drawn_report(&d, why);
    drawn_graph_end(&d);
  }
  free(s.bytes);
  free(s.trial);
  sn_ctx_destroy(ctx);
  return ok;
}
