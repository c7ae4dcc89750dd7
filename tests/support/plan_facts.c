/* See plan_facts.h. */
#include "support/plan_facts.h"

#include "support/test.h"

#include <stdio.h>

typedef struct line {
  char *at;
  size_t size, used;
} line;

static void put(line *l, const char *format, ...) PRINTF_LIKE(2, 3);
static void put(line *l, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(l->at + l->used, l->size - l->used, format, args);
  va_end(args);
  l->used = n < 0 || l->used + (size_t)n >= l->size ? l->size - 1 : l->used + (size_t)n;
}

static void put_part(line *l, const step *s, const part *p) {
  put(l, "%s", archetype_name(s->kind));
  if (s->kind == STEP_ROW)
    put(l, "/%d", p->u.loop.n_phases);
  if (s->kind != STEP_MATMUL)
    return;
  for (int k = 0; k < p->u.matmul.n_accs; k++)
    put(l, "%c%d", k ? '+' : '(', p->u.matmul.accs[k].n_products);
  put(l, ")");
}

static void put_step(line *l, const step *s) {
  char before[128] = "";
  int repeats = 0;
  for (int k = 0; k <= s->n_parts; k++) {
    char now[128] = "";
    line one = {now, sizeof now, 0};
    if (k < s->n_parts)
      put_part(&one, s, &s->parts[k]);
    if (repeats && strcmp(before, now) == 0) {
      repeats++;
      continue;
    }
    if (repeats > 1)
      put(l, "*%d", repeats);
    if (k < s->n_parts)
      put(l, "%c%s", k ? '|' : ' ', now);
    memcpy(before, now, sizeof before);
    repeats = 1;
  }
}

static void put_count(line *l, const char *what, int n) {
  if (n)
    put(l, "%s%s %d", l->used ? "; " : "", what, n);
}

void plan_facts(const program *p, char *at, size_t size) {
  const struct {
    const char *name;
    int n;
  } sections[] = {{"prepare", p->n_prepare}, {"main", p->n_main}, {"commit", p->n_commit}};
  line l = {at, size, 0};
  int number = 0, arena_values = 0, prepared = 0, in_place = 0, after = 0;
  *at = '\0';
  for (size_t k = 0; k < COUNT_OF(sections); k++) {
    if (sections[k].n)
      put(&l, "%s%s", l.used ? "; " : "", sections[k].name);
    for (int i = 0; i < sections[k].n; i++, number++) {
      put_step(&l, &p->steps[number]);
      after += p->steps[number].n_after;
    }
  }
  for (uint32_t v = 1; v < p->n_values; v++) {
    arena_values += p->values[v].home == HOME_ARENA;
    prepared += p->values[v].home == HOME_PREPARED;
    in_place += p->values[v].in_place_of != 0;
  }
  put_count(&l, "arena", arena_values);
  put_count(&l, "prepared", prepared);
  put_count(&l, "in place", in_place);
  put_count(&l, "after", after);
}

static sn_status add_training(sn_graph *g) {
  sn_value states[16], grads[16], floats[16];
  int n = 0, all = sn_graph_states(g, states, COUNT_OF(states));
  for (int k = 0; k < all; k++)
    if (sn_value_type(g, states[k]).dtype == SN_F32)
      floats[n++] = states[k];
  SN_TRY(sn_grad(g, g->outputs[0].value, floats, n, grads));
  for (int k = 0; k < n; k++)
    sn_assign(g, floats[k], sn_sub(g, floats[k], sn_affine(g, grads[k], 0.125, 0)));
  return sn_graph_status(g);
}

static sn_status finish(program *p, sn_graph *lowered) {
  int n_prepare = p->n_prepare, n_main = p->n_main, n_commit = p->n_commit;
  SN_TRY(plan_order(p, lowered->ctx));
  SN_TRY(plan_in_place(p, lowered->ctx));
  SN_TRY(plan_place(p, lowered->ctx));
  SN_TRY(plan_barriers(p, lowered->ctx));
  CHECK_EQ_INT(p->n_prepare, n_prepare);
  CHECK_EQ_INT(p->n_main, n_main);
  CHECK_EQ_INT(p->n_commit, n_commit);
  return plan_verify(p, lowered);
}

/* An input or an unassigned state is only read; what an output is, is made before the run ends. */
static void check_homes(const program *p) {
  for (int k = 0; k < p->n_outputs; k++)
    if (CHECK(p->outputs[k].value)) {
      const program_value *v = &p->values[p->outputs[k].value];
      CHECK(v->home == HOME_OUTPUT && v->index == (uint32_t)k);
    }
  for (uint32_t v = 1; v < p->n_values; v++) {
    const program_value *x = &p->values[v], *old = &p->values[x->in_place_of];
    if (x->in_place_of)
      CHECK(x->home == old->home && x->index == old->index);
  }
}

void plan_case_check(const plan_case *c) {
  sn_ctx *ctx;
  sn_graph *g = NULL, *lowered = NULL;
  program *p = NULL;
  char facts[1024];
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  sn_status status = sn_graph_parse(ctx, c->source, &g);
  if (status == SN_OK && c->trains)
    status = add_training(g);
  if (status == SN_OK)
    status = plan_lower(g, &lowered);
  if (status == SN_OK)
    status = plan_fuse(lowered, &c->options, &p);
  if (status == SN_OK) {
    plan_facts(p, facts, sizeof facts);
    CHECK_EQ_STR(facts, c->facts);
    check_homes(p);
    status = finish(p, lowered);
  }
  if (status != SN_OK)
    FAIL("%s: %s", c->name, sn_ctx_message(ctx));
  program_destroy(p);
  sn_graph_destroy(lowered);
  sn_graph_destroy(g);
  sn_ctx_destroy(ctx);
}
