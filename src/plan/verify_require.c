/* See verify.h: what a run must check is checked. Each live node's `element` says what it requires; a REQUIRE of some step must
 * have the same condition at the first and at the last element. Sizes that must not be negative must make the program
 * refuse such bindings.
 *
 * REQUIREs are offered part by part while regions are executed, since what a condition stands on depends on what the part
 * loads.
 */
#include "plan/verify.h"

typedef struct offer {
  uint64_t holds, shown;
} offer;

typedef struct demand {
  uint32_t node;
  bool met;
  int held;           /* cases of the part at hand in which it was offered */
  uint64_t arguments; /* that it depends on */
} demand;

typedef struct size_demand {
  sn_dim size;
  uint32_t node;
  const char *what;
} size_demand;

struct requires {
  offer *offers; /* of the part at hand */
  int n_offers, cap_offers;
  demand *demands; /* nodes that require something */
  int n_demands;
  bool matching, found; /* demands are compared with offers; all were there */
  bool asks;            /* the node at hand requires something */
  uint64_t asked;       /* hash of all that it requires */
  size_demand *sizes;   /* expressions that must not be negative */
  int n_sizes, cap_sizes;
};

static void give_up(verifier *v, sn_status status) {
  if (v->status == SN_OK)
    v->status = status;
}

/* Makes room for one more in an array of the arena. */
static bool grow(verifier *v, void **array, int n, int *cap, size_t each) {
  if (n < *cap)
    return true;
  int wider = *cap * 2 + 64;
  void *grown = arena_array(&v->memory, (size_t)wider, each);
  if (!grown) {
    give_up(v, SN_ERR_NO_MEMORY);
    return false;
  }
  if (n)
    memcpy(grown, *array, (size_t)n * each);
  *array = grown;
  *cap = wider;
  return true;
}

void requires_offer(verifier *v, int site, sym holds, sym shown) {
  struct requires *r = v->requires;
  (void)site;
  if (grow(v, (void **)&r->offers, r->n_offers, &r->cap_offers, sizeof *r->offers))
    r->offers[r->n_offers++] = (offer){holds.hash, shown.hash};
}

void requires_demand(verifier *v, uint32_t node_index, sym holds, sym shown, const char *message) {
  struct requires *r = v->requires;
  (void)node_index;
  (void)message;
  if ((holds.known && holds.number != 0) || holds.nothing)
    return;
  r->asks = true;
  r->asked = hash_mix(hash_mix(r->asked, holds.hash), shown.hash);
  for (int k = 0; k < r->n_offers && r->matching; k++)
    if (r->offers[k].holds == holds.hash && (shown.nothing || r->offers[k].shown == shown.hash))
      return;
  r->found = false;
}

void requires_demand_size(verifier *v, uint32_t node_index, sn_dim size, const char *what) {
  struct requires *r = v->requires;
  int64_t lo, hi;
  dim_range(v->g, size, &lo, &hi);
  if (lo < 0 && grow(v, (void **)&r->sizes, r->n_sizes, &r->cap_sizes, sizeof *r->sizes))
    r->sizes[r->n_sizes++] = (size_demand){size, node_index, what};
}

static bool is_scatter(const node *n) {
  return n->op == OP_scatter_set || n->op == OP_scatter_add || n->op == OP_scatter_along_set ||
         n->op == OP_scatter_along_add;
}

/* Rows (or entries along an axis) that indices choose from. */
static int64_t scatter_rows(const verifier *v, const node *n) {
  const sn_shape *base = &v->types[n->in[0].id].shape;
  int64_t axis = n->op == OP_scatter_along_set   ? ((const attrs_scatter_along_set *)n->attrs)->axis
                 : n->op == OP_scatter_along_add ? ((const attrs_scatter_along_add *)n->attrs)->axis
                                                 : 0;
  return base->dim[axis < 0 ? axis + base->rank : axis];
}

/* A scatter has no element; its indices must be in range. */
static void demand_index(verifier *v, uint32_t node_index, const int64_t *at) {
  const node *n = &v->g->nodes[node_index];
  sym index = expect_element(v, n->in[1].id, at, false);
  sym low[3] = {index, sym_number(SN_I32, 0)};
  sym high[3] = {index, sym_number(SN_I32, (double)scatter_rows(v, n))};
  sym both[3] = {sym_alu(ALU_ge, SN_BOOL, low, 0, 0), sym_alu(ALU_lt, SN_BOOL, high, 0, 0)};
  requires_demand(v, node_index, sym_alu(ALU_and, SN_BOOL, both, 0, 0), index, "");
}

bool *requires_found(verifier *v) { return &v->requires->found; }

/* The demands of a node at its first and last element. */
static void ask(verifier *v, const demand *d) {
  const node *n = &v->g->nodes[d->node];
  v->demanded = d->arguments;
  uint32_t value = is_scatter(n) ? n->in[1].id : n->first;
  int64_t count = expect_count(v, n->first) ? expect_count(v, value) : 0, at[SN_MAX_RANK];
  for (int end = 0; end < 2 && count > 0 && v->status == SN_OK; end++) {
    expect_coordinates(&v->types[value], end ? count - 1 : 0, at);
    if (is_scatter(n))
      demand_index(v, d->node, at);
    else {
      v->demanding = true;
      (void)expect_element(v, value, at, true);
    }
  }
}

void requires_settle(verifier *v) {
  struct requires *r = v->requires;
  for (int k = 0; k < r->n_demands && r->n_offers; k++) {
    if (r->demands[k].met)
      continue;
    r->matching = r->found = true;
    ask(v, &r->demands[k]);
    r->demands[k].held += r->found;
  }
  r->n_offers = 0;
}

void requires_close_part(verifier *v, int n_cases) {
  struct requires *r = v->requires;
  for (int k = 0; k < r->n_demands; k++) {
    r->demands[k].met = r->demands[k].met || r->demands[k].held == n_cases;
    r->demands[k].held = 0;
  }
}

/* What a node requires of its first element, one argument looking different (counted from 1; 0: none). */
static uint64_t asked(verifier *v, const node *n, int perturbed) {
  int64_t at[SN_MAX_RANK] = {0};
  v->requires->asked = HASH_SEED;
  v->perturbed = perturbed;
  v->demanding = true;
  (void)expect_element(v, n->first, at, true);
  v->perturbed = 0;
  return v->requires->asked;
}

/* Which arguments that depends on. */
static uint64_t arguments_of(verifier *v, const node *n) {
  uint64_t all = asked(v, n, 0), found = 0;
  for (int i = 0; i < n->n_in && i < 64; i++)
    if (asked(v, n, i + 1) != all)
      found |= UINT64_C(1) << i;
  return found;
}

/* Finds the nodes that require something, once, with sizes as expressions; arguments are not looked at. */
static sn_status find_demands(verifier *v) {
  struct requires *r = v->requires;
  const sn_graph *g = v->g;
  cases_start(&v->cases);
  expect_open_part(v);
  for (uint32_t k = 0; k < g->n_nodes; k++) {
    const node *n = &g->nodes[k];
    r->asks = is_scatter(n);
    v->demanded = 0;
    sn_dim least;
    const char *what;
    if (v->live[k] && plan_size_required(v->g, n, &least, &what))
      requires_demand_size(v, k, least, what);
    if (!v->live[k] || (!graph_op(g, n)->impl->element && !r->asks))
      continue;
    if (!r->asks)
      (void)asked(v, n, 0);
    SN_TRY(v->status);
    if (r->asks)
      r->demands[r->n_demands++] =
          (demand){.node = k, .arguments = is_scatter(n) ? 0 : arguments_of(v, n)};
  }
  return v->status;
}

/* Sizes that must not be negative are not, under bindings that the program takes. */
static sn_status check_sizes(const verifier *v) {
  const struct requires *r = v->requires;
  for (int k = 0; k < r->n_sizes; k++)
    if (expect_size(v, r->sizes[k].size) < 0)
      return verify_fail(v, -1, 0, "%s (node %u) cannot run, but nothing refuses it: %s",
                         graph_op(v->g, &v->g->nodes[r->sizes[k].node])->name, r->sizes[k].node,
                         r->sizes[k].what);
  return SN_OK;
}

sn_status requires_find(verifier *v) {
  v->requires = arena_alloc(&v->memory, sizeof *v->requires);
  if (!v->requires)
    return SN_ERR_NO_MEMORY;
  v->requires->demands = arena_array(&v->memory, v->g->n_nodes + 1, sizeof(demand));
  return v->requires->demands ? find_demands(v) : SN_ERR_NO_MEMORY;
}

sn_status requires_start(verifier *v) {
  struct requires *r = v->requires;
  r->n_offers = 0;
  for (int k = 0; k < r->n_demands; k++)
    r->demands[k].met = false;
  return check_sizes(v);
}

/* Whether a node requires anything when nothing is offered: it may be over no elements, or hold as it stands. */
static bool demands_elements(verifier *v, const demand *d) {
  struct requires *r = v->requires;
  bool any = false;
  cases_start(&v->cases);
  do {
    expect_open_part(v);
    r->n_offers = 0;
    r->found = true;
    ask(v, d);
    any = any || !r->found;
  } while (cases_next(&v->cases, v->again));
  return any;
}

sn_status requires_end(verifier *v) {
  const struct requires *r = v->requires;
  for (int k = 0; k < r->n_demands; k++)
    if (!r->demands[k].met && demands_elements(v, &r->demands[k])) {
      const node *n = &v->g->nodes[r->demands[k].node];
      return verify_fail(v, -1, 0, "%s%s%s (graph value %u) requires what no step checks", n->scope,
                         *n->scope ? ": " : "", graph_op(v->g, n)->name, n->first);
    }
  return SN_OK;
}
