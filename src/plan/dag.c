/* See dag.h. */
#include "plan/dag.h"

void dag_init(dag *d, arena *memory, int n_outer) {
  *d = (dag){.memory = memory, .n_outer = n_outer, .limit = DAG_LIMIT};
}

/* --- hashing: field by field, because of padding --- */

static uint64_t mix(uint64_t h, uint64_t x) {
  h ^= x + UINT64_C(0x9e3779b97f4a7c15) + (h << 6) + (h >> 2);
  return h * UINT64_C(0xff51afd7ed558ccd);
}

static uint64_t bits_of(double x) {
  uint64_t b;
  memcpy(&b, &x, sizeof b);
  return b;
}

static uint64_t hash_terms(uint64_t h, const term *t, int n) {
  for (int k = 0; k < n; k++) {
    h = mix(h, (uint64_t)t[k].axis << 32 | t[k].from);
    h = mix(mix(mix(h, (uint64_t)t[k].stride), (uint64_t)t[k].div), (uint64_t)t[k].mod);
  }
  return h;
}

static uint64_t hash_instr(const instr *i) {
  uint64_t h = (uint64_t)i->op << 40 | (uint64_t)i->code << 24 | (uint64_t)i->dtype << 16;
  h = mix(h, (uint64_t)i->a << 32 | (uint64_t)i->b << 16 | i->c);
  h = mix(mix(mix(mix(h, i->index), (uint64_t)i->size), bits_of(i->x)), bits_of(i->y));
  h = mix(mix(h, i->at.value), (uint64_t)i->at.base);
  h = hash_terms(h, i->at.terms, i->at.n_terms);
  for (int k = 0; k < i->at.n_checks; k++) {
    const check *c = &i->at.checks[k];
    h = mix(mix(mix(h, (uint64_t)c->offset), (uint64_t)c->size), (uint64_t)c->divisor);
    h = hash_terms(h, c->terms, c->n_terms);
  }
  return h;
}

static bool same_terms(const term *a, int n_a, const term *b, int n_b) {
  if (n_a != n_b)
    return false;
  for (int k = 0; k < n_a; k++)
    if (a[k].axis != b[k].axis || a[k].from != b[k].from || a[k].stride != b[k].stride ||
        a[k].div != b[k].div || a[k].mod != b[k].mod)
      return false;
  return true;
}

static bool same_access(const access *a, const access *b) {
  if (a->value != b->value || a->base != b->base || a->n_checks != b->n_checks ||
      !same_terms(a->terms, a->n_terms, b->terms, b->n_terms))
    return false;
  for (int k = 0; k < a->n_checks; k++) {
    const check *c = &a->checks[k], *d = &b->checks[k];
    if (c->offset != d->offset || c->size != d->size || c->divisor != d->divisor ||
        !same_terms(c->terms, c->n_terms, d->terms, d->n_terms))
      return false;
  }
  return true;
}

bool access_same_map(const access *a, const access *b) {
  return !a->n_checks && !b->n_checks && a->base == b->base &&
         same_terms(a->terms, a->n_terms, b->terms, b->n_terms);
}

static bool same_instr(const instr *i, const instr *j) {
  return i->op == j->op && i->code == j->code && i->dtype == j->dtype && i->a == j->a &&
         i->b == j->b && i->c == j->c && i->index == j->index && i->size == j->size &&
         bits_of(i->x) == bits_of(j->x) && bits_of(i->y) == bits_of(j->y) &&
         same_access(&i->at, &j->at);
}

/* --- accesses --- */

static bool copy_access(arena *memory, access *a) {
  if (a->n_terms && !(a->terms = arena_copy(memory, a->terms, (size_t)a->n_terms * sizeof(term))))
    return false;
  if (!a->n_checks)
    return true;
  check *checks = arena_copy(memory, a->checks, (size_t)a->n_checks * sizeof(check));
  if (!checks)
    return false;
  a->checks = checks;
  for (int k = 0; k < a->n_checks; k++)
    if (checks[k].n_terms &&
        !(checks[k].terms =
              arena_copy(memory, checks[k].terms, (size_t)checks[k].n_terms * sizeof(term))))
      return false;
  return true;
}

static bool terms_vary(const term *t, int n, const dag_node *nodes, int axis) {
  for (int k = 0; k < n; k++)
    if (t[k].axis == TERM_REG ? !nodes[t[k].from].row : t[k].axis >= axis)
      return true;
  return false;
}

bool access_varies(const access *at, const dag_node *nodes, int axis) {
  if (terms_vary(at->terms, at->n_terms, nodes, axis))
    return true;
  for (int k = 0; k < at->n_checks; k++)
    if (terms_vary(at->checks[k].terms, at->checks[k].n_terms, nodes, axis))
      return true;
  return false;
}

/* Two terms that are one: (i / (d m)) * (s m) + ((i / d) % m) * s. */
static bool join_terms(sn_graph *g, term *high, const term *low) {
  if (high->axis != low->axis || high->axis == TERM_REG || !low->mod)
    return false;
  if (high->div != sn_dim_mul(g, low->div, low->mod) ||
      high->stride != sn_dim_mul(g, low->stride, low->mod))
    return false;
  high->mod = high->mod ? sn_dim_mul(g, high->mod, low->mod) : 0;
  high->div = low->div;
  high->stride = low->stride;
  return true;
}

static bool same_index(const term *a, const term *b) {
  return a->axis == b->axis && a->from == b->from && a->div == b->div && a->mod == b->mod;
}

static bool add_term(sn_graph *g, access *a, term *terms, term t) {
  if (t.stride == 0)
    return true;
  for (bool again = true; again;) {
    again = false;
    for (int k = 0; k < a->n_terms && !again; k++) {
      term joined = same_index(&terms[k], &t) ? t : terms[k], other = t;
      if (same_index(&terms[k], &t))
        joined.stride = sn_dim_add(g, terms[k].stride, t.stride);
      else if (!join_terms(g, &joined, &t) &&
               (joined = t, other = terms[k], !join_terms(g, &joined, &other)))
        continue;
      terms[k] = terms[--a->n_terms];
      t = joined;
      again = true;
    }
  }
  if (t.stride == 0)
    return true;
  if (a->n_terms == ACCESS_TERMS)
    return false;
  terms[a->n_terms++] = t;
  return true;
}

/* A fixed order of terms, so that equal maps are equal accesses. */
static void sort_terms(term *t, int n) {
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0; j--) {
      bool before = t[j].axis != t[j - 1].axis   ? t[j].axis < t[j - 1].axis
                    : t[j].from != t[j - 1].from ? t[j].from < t[j - 1].from
                    : t[j].div != t[j - 1].div   ? t[j].div > t[j - 1].div
                                                 : t[j].stride > t[j - 1].stride;
      if (!before)
        break;
      term swap = t[j];
      t[j] = t[j - 1];
      t[j - 1] = swap;
    }
}

static void add_check(const struct place_check *from, access_room *room, access *out) {
  int k = out->n_checks++;
  memcpy(room->check_terms[k], from->of.terms, sizeof room->check_terms[k]);
  room->checks[k] = (check){from->of.n, room->check_terms[k], from->of.offset, from->size,
                            from->divisor ? from->divisor : 1};
}

/* The k-th dim of a value in memory, from the innermost on. */
static int dim_in_memory(int rank, bool channels_last, int k) {
  if (!channels_last)
    return rank - 1 - k;
  return k == 0 ? 1 : k == rank - 1 ? 0 : rank - k;
}

bool dag_access(sn_graph *g, const place *at, sn_shape shape, bool channels_last, uint32_t value,
                access_room *room, access *out) {
  *out = (access){.value = value, .terms = room->terms, .checks = room->checks};
  sn_dim stride = 1;
  for (int i = 0; i < shape.rank; i++) {
    int d = dim_in_memory(shape.rank, channels_last, i);
    const coord *c = &at->c[d];
    out->base = sn_dim_add(g, out->base, sn_dim_mul(g, c->offset, stride));
    for (int k = 0; k < c->n; k++) {
      term t = c->terms[k];
      t.stride = sn_dim_mul(g, t.stride, stride);
      if (!add_term(g, out, room->terms, t))
        return false;
    }
    stride = sn_dim_mul(g, stride, shape.dim[d]);
  }
  sort_terms(room->terms, out->n_terms);
  for (int k = 0; k < at->n_checks; k++)
    add_check(&at->checks[k], room, out);
  return true;
}

/* --- nodes --- */

static bool grow(dag *d) {
  if (d->n < d->cap)
    return true;
  int cap = d->cap ? d->cap * 2 : 16;
  dag_node *nodes = arena_array(d->memory, (size_t)cap, sizeof *nodes);
  uint32_t *buckets = arena_array(d->memory, (size_t)cap * 2, sizeof *buckets);
  if (!nodes || !buckets)
    return false;
  if (d->n)
    memcpy(nodes, d->nodes, (size_t)d->n * sizeof *nodes);
  d->nodes = nodes;
  d->cap = cap;
  d->buckets = buckets;
  d->n_buckets = cap * 2;
  for (int k = 0; k < d->n; k++) {
    uint32_t *b = &buckets[hash_instr(&nodes[k].i) & (uint64_t)(d->n_buckets - 1)];
    nodes[k].chain = *b;
    *b = (uint32_t)k + 1;
  }
  return true;
}

static bool is_row(const dag *d, const instr *i) {
  const reg args[] = {i->a, i->b, i->c};
  if (i->op == REGION_REDUCE)
    return true;
  if (i->op == REGION_ACC || access_varies(&i->at, d->nodes, d->n_outer))
    return false;
  for (int k = 0; k < instr_arguments(i); k++)
    if (!d->nodes[args[k]].row)
      return false;
  return true;
}

reg dag_add(dag *d, const instr *i) {
  if (d->full)
    return 0;
  if (d->n >= d->limit || !grow(d)) {
    d->no_memory = d->no_memory || d->n < d->limit;
    d->full = true;
    return 0;
  }
  uint32_t *bucket = &d->buckets[hash_instr(i) & (uint64_t)(d->n_buckets - 1)];
  for (uint32_t k = *bucket; k; k = d->nodes[k - 1].chain)
    if (same_instr(&d->nodes[k - 1].i, i))
      return (reg)(k - 1);
  dag_node *added = &d->nodes[d->n];
  *added = (dag_node){.i = *i, .chain = *bucket};
  if (!copy_access(d->memory, &added->i.at)) {
    d->full = d->no_memory = true;
    return 0;
  }
  added->row = is_row(d, i);
  *bucket = (uint32_t)++d->n;
  return (reg)(d->n - 1);
}

void dag_truncate(dag *d, int n) {
  while (d->n > n) {
    dag_node *last = &d->nodes[--d->n];
    d->buckets[hash_instr(&last->i) & (uint64_t)(d->n_buckets - 1)] = last->chain;
  }
  d->full = d->no_memory;
}

/* --- one dag into another --- */

static void move_terms(const term **terms, int n, const reg *where, arena *memory, bool *ok) {
  term *moved = n ? arena_copy(memory, *terms, (size_t)n * sizeof *moved) : NULL;
  *ok = *ok && (moved || !n);
  for (int k = 0; *ok && k < n; k++)
    if (moved[k].axis == TERM_REG)
      moved[k].from = where[moved[k].from];
  *terms = moved;
}

bool dag_append(dag *into, const dag *from, int first_acc, reg *where) {
  bool ok = true;
  for (int k = 0; k < from->n && ok; k++) {
    instr i = from->nodes[k].i;
    int n = instr_arguments(&i);
    i.a = n > 0 ? where[i.a] : i.a;
    i.b = n > 1 ? where[i.b] : i.b;
    i.c = n > 2 ? where[i.c] : i.c;
    if (i.op == REGION_ACC)
      i.index += (uint32_t)first_acc;
    move_terms(&i.at.terms, i.at.n_terms, where, into->memory, &ok);
    check *checks = arena_copy(into->memory, i.at.checks, (size_t)i.at.n_checks * sizeof *checks);
    ok = ok && checks;
    for (int c = 0; ok && c < i.at.n_checks; c++)
      move_terms(&checks[c].terms, checks[c].n_terms, where, into->memory, &ok);
    i.at.checks = checks;
    if (!ok)
      into->no_memory = into->full = true;
    where[k] = dag_add(into, &i);
    ok = !into->full;
  }
  return ok;
}
