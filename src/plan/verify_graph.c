/* See verify.h: what an element of a value of the lowered graph is, as a hash of its expression over what the part at hand loads.
 *
 * Elements are remembered for the part at hand, so that shared subexpressions are executed once. Expressions may be deep:
 * beyond DEEP an element is not executed but put off; those that are put off are executed from the bottom up, and then the
 * one that stood on them once more. So the stack stays small.
 */
#include "plan/verify_graph.h"

#include "ir/dtype.h"

enum { FIRST_MEMO = 256, DEEP = 32 };

struct put_off {
  uint32_t value;
  int64_t at[SN_MAX_RANK];
};

int64_t expect_size(const verifier *v, sn_dim d) {
  int64_t x = d;
  if (!dim_is_number(d) && !dim_eval(v->g, d, v->bindings, &x))
    x = 0;
  return x;
}

sym expect_load(const verifier *v, uint32_t value, int64_t at) {
  const node *n = &v->g->nodes[v->g->values[value].node];
  sn_dtype dtype = v->types[value].dtype;
  const attrs_constant *c = n->attrs;
  if (v->numbers && expect_count(v, value) == 0) /* an index into nothing fails the run */
    return sym_number(dtype, 0);
  if (n->op == OP_constant && at >= 0 && (size_t)(at + 1) * sn_dtype_size(dtype) <= c->data.size)
    return sym_number(dtype, dtype_load(dtype, c->data.data, at));
  return sym_load(&v->cases, value, dtype, at);
}

/* --- what is remembered --- */

static memo_entry *memo_slot(verifier *v, uint64_t key) {
  size_t at = (size_t)(key >> 7) & (v->cap_memo - 1);
  while (v->memo[at].serial == v->serial && v->memo[at].key != key)
    at = (at + 1) & (v->cap_memo - 1);
  return &v->memo[at];
}

/* The next larger table; tables stay for later parts, each of which begins with the smallest: few lines of cache. */
static bool memo_grow(verifier *v) {
  const memo_entry *old = v->memo;
  size_t n = v->cap_memo;
  if (++v->memo_size == MEMO_SIZES)
    return false;
  memo_entry **wider = &v->memos[v->memo_size];
  if (!*wider && !(*wider = arena_array(&v->memory, n * 2, sizeof **wider)))
    return false;
  v->memo = *wider;
  v->cap_memo = n * 2;
  for (size_t i = 0; i < n; i++)
    if (old[i].serial == v->serial)
      *memo_slot(v, old[i].key) = old[i];
  return true;
}

static void remember(verifier *v, uint64_t key, sym is) {
  if (v->n_memo * 2 >= v->cap_memo && !memo_grow(v)) {
    expect_give_up(v, SN_ERR_NO_MEMORY);
    return;
  }
  memo_entry *slot = memo_slot(v, key);
  v->n_memo += slot->serial != v->serial;
  *slot = (memo_entry){key, v->serial, v->missing ? v->attempt : 0, is};
}

static int64_t linear(const verifier *v, uint32_t value, const int64_t *at) {
  const sn_shape *shape = &v->types[value].shape;
  int64_t number = 0, stride = 1;
  for (int d = shape->rank - 1; d >= 0; d--) {
    number += at[d] * stride;
    stride *= expect_size(v, shape->dim[d]);
  }
  return number;
}

/* --- what is too deep --- */

static sym put_off(verifier *v, uint32_t value, const int64_t *at) {
  if (v->n_put_off == v->cap_put_off) {
    int wider = v->cap_put_off * 2 + 16;
    struct put_off *grown = arena_array(&v->memory, (size_t)wider, sizeof *grown);
    if (!grown) {
      expect_give_up(v, SN_ERR_NO_MEMORY);
      return (sym){0};
    }
    if (v->n_put_off)
      memcpy(grown, v->put_off, (size_t)v->n_put_off * sizeof *grown);
    v->put_off = grown;
    v->cap_put_off = wider;
  }
  v->put_off[v->n_put_off].value = value;
  memcpy(v->put_off[v->n_put_off++].at, at, sizeof v->put_off->at);
  v->missing = true;
  return (sym){0};
}

sym expect_at(verifier *v, uint32_t value, const int64_t *at, bool inside) {
  const node *n;
  int64_t below[SN_MAX_RANK], number;
  for (;; inside = false) {
    n = &v->g->nodes[v->g->values[value].node];
    number = linear(v, value, at);
    if ((v->loaded[value] == v->serial && v->seen_through[value] != v->serial && !inside) ||
        !graph_op(v->g, n)->impl->element || value != n->first)
      return expect_load(v, value, number);
    /* a reshape keeps the row-major number; there are many, and place_reshape is for expressions */
    if (!v->numbers || v->demanding || n->op != OP_reshape)
      break;
    expect_coordinates(&v->types[n->in[0].id], number, below);
    at = below;
    value = n->in[0].id;
  }
  uint64_t key = hash_mix(hash_mix(HASH_SEED, value), (uint64_t)number);
  const memo_entry *known = memo_slot(v, key);
  if (known->serial == v->serial && !inside &&
      (known->missing == 0 || known->missing == v->attempt)) {
    v->missing |= known->missing != 0;
    return known->is;
  }
  if (v->depth >= DEEP)
    return put_off(v, value, at);
  bool before = v->missing;
  v->missing = false;
  sym is = element_run_at(v, value, at);
  if (!inside && v->status == SN_OK)
    remember(v, key, is);
  v->missing |= before;
  return is;
}

/* One attempt: false when something was put off. */
static bool attempt(verifier *v, uint32_t value, const int64_t *at, bool inside, sym *out) {
  v->attempt++;
  v->missing = false;
  *out = expect_at(v, value, at, inside);
  return !v->missing;
}

/* Executes what was put off, the deepest first. */
static void catch_up(verifier *v) {
  sym is;
  while (v->n_put_off > 0 && v->status == SN_OK) {
    int last = v->n_put_off - 1;
    int64_t deep[SN_MAX_RANK];
    memcpy(deep, v->put_off[last].at, sizeof deep);
    if (attempt(v, v->put_off[last].value, deep, false, &is))
      v->n_put_off = last;
  }
}

static sym settle(verifier *v, uint32_t value, const int64_t *at, bool inside) {
  bool demanding = v->demanding, found = *requires_found(v);
  sym is;
  v->n_put_off = 0;
  while (!attempt(v, value, at, inside, &is) && v->status == SN_OK) {
    catch_up(v);
    v->demanding = demanding; /* what it demanded of elements that were missing does not count */
    *requires_found(v) = found;
  }
  v->demanding = false;
  return is;
}

sym expect_element(verifier *v, uint32_t value, const int64_t *at, bool inside) {
  return settle(v, value, at, inside);
}

sym expect_shown(verifier *v, uint32_t value, const int64_t *at) {
  return settle(v, value, at, false);
}

/* --- parts and bindings --- */

void expect_open_part(verifier *v) {
  v->serial++;
  v->n_part_loads = 0;
  v->n_memo = 0;
  v->memo_size = 0;
  v->memo = v->memos[0];
  v->cap_memo = FIRST_MEMO;
  v->n_regs = 0;
}

void expect_loads(verifier *v, uint32_t source) {
  if (v->loaded[source] == v->serial)
    return;
  v->loaded[source] = v->serial;
  v->part_loads[v->n_part_loads++] = source;
}

/* A part that loads a view and also what it shows may take an element from either. */
void expect_see_through(verifier *v) {
  for (int k = 0; k < v->n_part_loads; k++) {
    uint32_t value = v->part_loads[k], shown = v->shows[value];
    while (shown && v->loaded[shown] != v->serial)
      shown = v->shows[shown];
    if (shown)
      v->seen_through[value] = v->serial;
  }
}

int64_t expect_count(const verifier *v, uint32_t value) {
  int64_t n = 1;
  for (int d = 0; d < v->types[value].shape.rank; d++)
    n *= v->types[value].shape.dim[d];
  return n;
}

int64_t expect_number(const program_value *value, int64_t at) {
  if (!value->channels)
    return at;
  int64_t c = at % value->channels, pixel = at / value->channels;
  int64_t p = pixel % value->pixels, n = pixel / value->pixels;
  return (n * value->channels + c) * value->pixels + p;
}

void expect_coordinates(const sn_type *type, int64_t number, int64_t *out) {
  memset(out, 0, SN_MAX_RANK * sizeof *out);
  for (int d = type->shape.rank - 1; d >= 0; d--)
    if (type->shape.dim[d] > 0) {
      out[d] = number % type->shape.dim[d];
      number /= type->shape.dim[d];
    }
}

/* Room for the graph's side; types as they are. */
sn_status expect_unbind(verifier *v) {
  const sn_graph *g = v->g;
  arena_clear(&v->bound);
  v->numbers = false;
  v->types = arena_array(&v->bound, g->n_values + 1, sizeof *v->types);
  v->nodes = arena_array(&v->bound, g->n_nodes + 1, sizeof *v->nodes);
  if (!v->regs) {
    v->regs = arena_array(&v->memory, ELEMENT_REGS, sizeof *v->regs);
    v->loaded = arena_array(&v->memory, g->n_values + 1, sizeof *v->loaded);
    v->seen_through = arena_array(&v->memory, g->n_values + 1, sizeof *v->seen_through);
    v->shows = arena_array(&v->memory, g->n_values + 1, sizeof *v->shows);
    v->part_loads = arena_array(&v->memory, g->n_values + 1, sizeof *v->part_loads);
    v->memos[0] = arena_array(&v->memory, FIRST_MEMO, sizeof *v->memo);
  }
  if (!v->types || !v->nodes || !v->regs || !v->loaded || !v->seen_through || !v->shows ||
      !v->part_loads || !v->memos[0])
    return SN_ERR_NO_MEMORY;
  for (uint32_t i = 1; i < g->n_values; i++)
    v->types[i] = g->values[i].type;
  return SN_OK;
}

sn_status expect_bind(verifier *v) {
  SN_TRY(expect_unbind(v));
  v->numbers = true;
  for (uint32_t i = 1; i < v->g->n_values; i++)
    for (int d = 0; d < v->types[i].shape.rank; d++)
      v->types[i].shape.dim[d] = expect_size(v, v->types[i].shape.dim[d]);
  return SN_OK;
}
