/* plan_verify: a program proved against its lowered graph (design: plans are proved, not trusted). Called by compile on every
 * program, last. See verify.h for the rooms.
 *
 * What does not depend on sizes is proved once; the rest under several bindings of the symbols: all 0, all 1, all at their
 * maxima and two random ones. Bindings that the program refuses are left out, as a run would be.
 */
#include "plan/verify.h"

#include <stdarg.h>
#include <stdio.h>

enum { BINDINGS = 5 };

sn_status verify_fail(const verifier *v, int at_step, uint32_t value, const char *format, ...) {
  char what[512], where[160] = "", which[160] = "", under[128] = "";
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  if (at_step >= 0)
    snprintf(where, sizeof where, "step %d (%s): ", at_step,
             v->p->steps[at_step].name ? v->p->steps[at_step].name : "?");
  if (value && value < v->p->n_values) {
    uint32_t source = v->p->values[value].source;
    bool there = source && source < v->g->n_values;
    snprintf(which, sizeof which, "value %u (%s, graph value %u) ", value,
             there ? graph_op(v->g, graph_node(v->g, (sn_value){source}))->name : "?", source);
  }
  size_t used = 0;
  for (int k = 0; v->bindings && k < dim_symbol_count(v->g) && used < sizeof under - 1; k++)
    used +=
        (size_t)snprintf(under + used, sizeof under - used, "%s%s = %lld", k ? ", " : ", under ",
                         dim_symbol_name(v->g, k), (long long)v->bindings[k]);
  return diag_fail(v->ctx, SN_ERR_INTERNAL, "plan: %s%s%s%s", where, which, what, under);
}

uint32_t verify_target(const verifier *v, const program_value *value) {
  return value->home == HOME_STATE ? v->assigned[value->index] : value->source;
}

uint32_t update_base(const verifier *v, const instr *store) {
  for (int k = 0; k < store->at.n_terms; k++)
    if (store->at.terms[k].axis == TERM_REG)
      return v->p->values[store->at.value].in_place_of;
  return 0;
}

/* --- uses --- */

static void add_use(verifier *v, int s, use u) {
  if (v->uses) {
    v->uses[v->n_uses] = u;
    v->step_of[v->n_uses] = s;
  }
  v->n_uses++;
}

static void region_uses(verifier *v, int s, use like, const region *r) {
  for (int i = 0; i < r->n; i++)
    if (r->code[i].op == REGION_LOAD || r->code[i].op == REGION_STORE) {
      use u = like;
      u.value = r->code[i].at.value;
      u.store = r->code[i].op == REGION_STORE;
      u.at = i;
      u.code = &r->code[i];
      add_use(v, s, u);
    }
}

static void core_uses(verifier *v, int s, int part_index, const core_part *c) {
  for (int k = 0; k < c->n_in + c->n_out; k++) {
    bool store = k >= c->n_in;
    const strided *x = store ? &c->out[k - c->n_in] : &c->in[k];
    bool base = v->p->steps[s].kind == STEP_SCATTER && k == 0;
    if (x->value)
      add_use(v, s,
              (use){.value = x->value,
                    .store = store,
                    .place = base ? USE_CORE_BASE : USE_CORE,
                    .part = part_index,
                    .core = x});
  }
}

static void walk_uses(verifier *v) {
  v->n_uses = 0;
  for (int s = 0; s < program_steps(v->p); s++) {
    const step *st = &v->p->steps[s];
    v->uses_from[s] = v->n_uses;
    for (int k = 0; k < st->n_parts; k++) {
      const part *p = &st->parts[k];
      use like = {.part = k, .place = USE_LOOP};
      if (verify_is_loop(st))
        region_uses(v, s, like, &p->u.loop.code);
      else if (st->kind != STEP_MATMUL)
        core_uses(v, s, k, &p->u.core);
      else {
        like.place = USE_OPERAND;
        for (int a = 0; a < p->u.matmul.n_accs; a++)
          for (int m = 0; m < p->u.matmul.accs[a].n_products; m++) {
            like.product = &p->u.matmul.accs[a].products[m];
            region_uses(v, s, like, &like.product->a);
            region_uses(v, s, like, &like.product->b);
          }
        like.place = USE_EPILOGUE;
        region_uses(v, s, like, &p->u.matmul.epilogue);
      }
    }
  }
  v->uses_from[program_steps(v->p)] = v->n_uses;
}

static sn_status find_uses(verifier *v) {
  v->uses_from = arena_array(&v->memory, (size_t)program_steps(v->p) + 1, sizeof(int));
  v->store_head = arena_array(&v->memory, v->p->n_values + 1, sizeof(int));
  if (!v->uses_from || !v->store_head)
    return SN_ERR_NO_MEMORY;
  walk_uses(v);
  size_t n = (size_t)v->n_uses + 1;
  v->step_of = arena_array(&v->memory, n, sizeof(int));
  v->store_next = arena_array(&v->memory, n, sizeof(int));
  v->uses = arena_array(&v->memory, n, sizeof *v->uses);
  if (!v->step_of || !v->store_next || !v->uses)
    return SN_ERR_NO_MEMORY;
  walk_uses(v);
  for (int k = v->n_uses - 1; k >= 0; k--)
    if (v->uses[k].store) {
      v->store_next[k] = v->store_head[v->uses[k].value];
      v->store_head[v->uses[k].value] = k + 1;
    }
  return SN_OK;
}

/* --- bindings --- */

static sn_status check_symbols(const verifier *v) {
  const sn_graph *a = v->p->dims, *b = v->g;
  if (!a || dim_symbol_count(a) != dim_symbol_count(b))
    return verify_fail(v, -1, 0, "the program has other symbols than the graph");
  for (int s = 0; s < dim_symbol_count(a); s++)
    if (strcmp(dim_symbol_name(a, s), dim_symbol_name(b, s)) != 0 ||
        dim_symbol_max(a, s) != dim_symbol_max(b, s))
      return verify_fail(v, -1, 0, "symbol %d is \"%s\", in the graph \"%s\"", s,
                         dim_symbol_name(a, s), dim_symbol_name(b, s));
  return SN_OK;
}

static void choose_bindings(const verifier *v, int which, int64_t *out) {
  for (int s = 0; s < dim_symbol_count(v->g); s++) {
    int64_t max = dim_symbol_max(v->g, s);
    uint64_t random = hash_mix(hash_mix(HASH_SEED, (uint64_t)which), (uint64_t)s);
    out[s] = which == 0   ? max
             : which == 1 ? 0
             : which == 2 ? min_i64(1, max)
                          : (int64_t)(random % ((uint64_t)max + 1));
  }
}

/* False when a run would be refused. */
static bool bind_sizes(verifier *v, const int64_t *bindings) {
  v->bindings = bindings;
  for (int i = 0; i < program_sizes(v->p); i++)
    if (!dim_eval(v->p->dims, DIM_HANDLES - i, bindings, &v->sizes[i]))
      return false;
  for (int i = 0; i < v->p->n_requirements; i++)
    if (verify_size(v, v->p->requirements[i].size) < 0)
      return false;
  return true;
}

/* Types of values are those of the graph, in numbers. */
static sn_status check_types(const verifier *v) {
  for (uint32_t id = 1; id < v->p->n_values; id++) {
    const program_value *x = &v->p->values[id];
    int64_t count = verify_size(v, x->count), expected = expect_count(v, x->source);
    if (x->type.dtype != v->types[x->source].dtype || count != expected)
      return verify_fail(v, -1, id, "has %lld elements of %s, in the graph %lld of %s",
                         (long long)count, sn_dtype_name(x->type.dtype), (long long)expected,
                         sn_dtype_name(v->types[x->source].dtype));
  }
  return SN_OK;
}

static sn_status verify_bound(verifier *v) {
  if (!v->requires) {
    SN_TRY(expect_unbind(v));
    SN_TRY(requires_find(v));
  }
  SN_TRY(expect_bind(v));
  SN_TRY(check_types(v));
  SN_TRY(verify_sizes(v));
  SN_TRY(verify_accesses(v));
  SN_TRY(verify_cover(v));
  SN_TRY(requires_start(v));
  SN_TRY(verify_regions(v));
  return requires_end(v);
}

static sn_status verify_all_bindings(verifier *v) {
  int n = dim_symbol_count(v->g);
  int64_t *bindings = arena_array(&v->memory, (size_t)n + 1, sizeof *bindings);
  v->sizes = arena_array(&v->memory, (size_t)program_sizes(v->p) + 1, sizeof *v->sizes);
  if (!bindings || !v->sizes)
    return SN_ERR_NO_MEMORY;
  for (int k = 0; k < (n ? BINDINGS : 1); k++) {
    choose_bindings(v, k, bindings);
    if (!bind_sizes(v, bindings))
      continue;
    SN_TRY(verify_bound(v));
    v->again = true;
  }
  return SN_OK;
}

static sn_status verify_all(verifier *v) {
  v->live = arena_array(&v->memory, v->g->n_nodes + 1, sizeof *v->live);
  if (!v->live)
    return SN_ERR_NO_MEMORY;
  graph_mark_live(v->g, v->live);
  SN_TRY(check_symbols(v));
  SN_TRY(verify_assigned(v));
  SN_TRY(verify_code(v));
  SN_TRY(find_uses(v));
  SN_TRY(verify_leaves(v));
  SN_TRY(verify_memory(v));
  SN_TRY(verify_hazards(v));
  SN_TRY(verify_work(v));
  return verify_all_bindings(v);
}

sn_status plan_verify(const program *p, sn_graph *lowered) {
  verifier v = {.p = p, .g = lowered, .ctx = lowered->ctx};
  arena_init(&v.memory, v.ctx);
  arena_init(&v.bound, v.ctx);
  sn_status status = verify_all(&v);
  arena_clear(&v.bound);
  arena_clear(&v.memory);
  return status;
}
