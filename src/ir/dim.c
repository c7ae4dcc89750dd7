/* See dim.h. An expression is a sorted list of terms, a term a coefficient times sorted atoms; limits
 * are small and fixed, since sizes in models are simple, and exceeding them is a graph error. */
#include "base/null.h"

#include "ir/dim.h"

/* As many atoms as a shape has dims, so that a count of elements can always be written down where its dims are symbols. */
enum { MAX_TERMS = 16, MAX_ATOMS = SN_MAX_RANK, MAX_WEIGHT = 128 };

/* A symbol (divisor 0) or floor(of / divisor). */
typedef struct dim_atom {
  const char *name;
  int symbol;
  sn_dim of;
  int64_t divisor;
  int64_t lo, hi; /* its range */
  int weight;     /* symbols and divisions when written out: bounds evaluation and text */
  int depth;      /* divisions within each other */
} dim_atom;

typedef struct dim_term {
  int64_t coef;
  int n;
  uint16_t atom[MAX_ATOMS]; /* in the order of compare_atoms */
} dim_term;

typedef struct dim_expr {
  int n;
  int next;                 /* in its chain of the hash table, index + 1; means nothing in a copy */
  dim_term term[MAX_TERMS]; /* descending by atoms; the constant, without atoms, last */
} dim_expr;

struct dim_table {
  dim_atom *atoms;
  int n_atoms, cap_atoms;
  int *symbols; /* atom index by symbol */
  int n_symbols, cap_symbols;
  dim_expr *exprs;
  int n_exprs, cap_exprs;
  int *buckets; /* of expressions, index + 1; n_buckets is a power of two */
  int n_buckets;
};

static dim_table *table(sn_graph *g) {
  if (!g->dims)
    g->dims = arena_alloc(&g->memory, sizeof *g->dims);
  return g->dims;
}

/* Makes room for one more element; old arrays stay in the arena. */
static bool room(sn_graph *g, void **array, int n, int *cap, size_t each) {
  if (n < *cap)
    return true;
  int wider = *cap ? *cap * 2 : 8;
  void *grown = arena_array(&g->memory, (size_t)wider, each);
  if (!grown)
    return false;
  if (n)
    memcpy(grown, *array, (size_t)n * each);
  *array = grown;
  *cap = wider;
  return true;
}

static sn_dim fail(sn_graph *g, const char *why) {
  (void)graph_fail(g, SN_ERR_INVALID, "size expression: %s", why);
  return 0;
}

static sn_dim fail_symbol(sn_graph *g, const char *name, const char *why) {
  (void)graph_fail(g, SN_ERR_INVALID, "symbol \"%s\": %s", name, why);
  return 0;
}

static sn_dim no_memory(sn_graph *g) {
  (void)graph_fail(g, SN_ERR_NO_MEMORY, "out of memory for a size expression");
  return 0;
}

static const dim_expr *expr_of(const sn_graph *g, sn_dim d) {
  return &g->dims->exprs[DIM_HANDLES - d];
}

bool dim_valid(const sn_graph *g, sn_dim d) {
  if (dim_is_number(d))
    return d > -DIM_LIMIT && (d < DIM_LIMIT || d == SN_END);
  return g->dims && DIM_HANDLES - d < g->dims->n_exprs;
}

/* The expression of any dim, numbers included. */
static dim_expr load(const sn_graph *g, sn_dim d) {
  if (!dim_is_number(d))
    return *expr_of(g, d);
  dim_expr e = {0};
  if (d != 0) {
    e.n = 1;
    e.term[0].coef = d;
  }
  return e;
}

static int compare_numbers(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int compare_exprs(const dim_table *t, const dim_expr *a, const dim_expr *b);

/* Symbols as they were declared, then divisions by what they are, not by when they came about: so that a
 * graph and its text give expressions the same order. */
static int compare_atoms(const dim_table *t, int a, int b) {
  if (a == b)
    return 0;
  const dim_atom *x = &t->atoms[a], *y = &t->atoms[b];
  if (x->divisor == 0 && y->divisor == 0)
    return compare_numbers(x->symbol, y->symbol);
  if (x->divisor != y->divisor)
    return compare_numbers(x->divisor, y->divisor);
  return compare_exprs(t, &t->exprs[DIM_HANDLES - x->of], &t->exprs[DIM_HANDLES - y->of]);
}

static int compare_terms(const dim_table *t, const dim_term *a, const dim_term *b) {
  if (a->n != b->n)
    return a->n > b->n ? -1 : 1;
  for (int i = 0; i < a->n; i++) {
    int order = compare_atoms(t, a->atom[i], b->atom[i]);
    if (order != 0)
      return order;
  }
  return 0;
}

static int compare_exprs(const dim_table *t, const dim_expr *a, const dim_expr *b) {
  for (int i = 0; i < a->n && i < b->n; i++) {
    int order = compare_terms(t, &a->term[i], &b->term[i]);
    if (order == 0)
      order = compare_numbers(a->term[i].coef, b->term[i].coef);
    if (order != 0)
      return order;
  }
  return compare_numbers(a->n, b->n);
}

/* Adds a term in its place; false when the expression would exceed the limits. */
static bool add_term(const sn_graph *g, dim_expr *e, dim_term t) {
  int at = 0;
  if (t.coef == 0)
    return true;
  while (at < e->n && compare_terms(g->dims, &e->term[at], &t) < 0)
    at++;
  if (at < e->n && compare_terms(g->dims, &e->term[at], &t) == 0) {
    int64_t sum;
    if (!add_fits(e->term[at].coef, t.coef, &sum) || sum >= DIM_LIMIT || sum <= -DIM_LIMIT)
      return false;
    e->term[at].coef = sum;
    if (sum == 0) {
      memmove(&e->term[at], &e->term[at + 1], (size_t)(e->n - at - 1) * sizeof t);
      memset(&e->term[--e->n], 0, sizeof t);
    }
    return true;
  }
  if (e->n == MAX_TERMS || t.coef >= DIM_LIMIT || t.coef <= -DIM_LIMIT)
    return false;
  memmove(&e->term[at + 1], &e->term[at], (size_t)(e->n - at) * sizeof t);
  e->term[at] = t;
  e->n++;
  return true;
}

static void measure(const dim_table *t, const dim_expr *e, int *weight, int *depth) {
  *weight = *depth = 0;
  for (int i = 0; i < e->n; i++)
    for (int k = 0; k < e->term[i].n; k++) {
      const dim_atom *a = &t->atoms[e->term[i].atom[k]];
      *weight += a->weight;
      *depth = a->depth > *depth ? a->depth : *depth;
    }
}

static int *bucket_of(const dim_table *t, const dim_expr *e) {
  uint64_t h = hash_bytes(HASH_SEED, &e->n, sizeof e->n);
  for (int i = 0; i < e->n; i++) {
    h = hash_bytes(h, &e->term[i].coef, sizeof e->term[i].coef);
    h = hash_bytes(h, e->term[i].atom, (size_t)e->term[i].n * sizeof e->term[i].atom[0]);
  }
  return &t->buckets[h & (uint64_t)(t->n_buckets - 1)];
}

static void link_expr(dim_table *t, int i) {
  int *bucket = bucket_of(t, &t->exprs[i]);
  t->exprs[i].next = *bucket;
  *bucket = i + 1;
}

/* A table at most full before one more goes in. */
static bool grow_buckets(sn_graph *g, dim_table *t) {
  if (t->n_exprs < t->n_buckets)
    return true;
  int n = t->n_buckets ? t->n_buckets * 4 : 16;
  int *buckets = arena_array(&g->memory, (size_t)n, sizeof *buckets);
  if (!buckets)
    return false;
  t->buckets = buckets;
  t->n_buckets = n;
  for (int i = 0; i < t->n_exprs; i++)
    link_expr(t, i);
  return true;
}

/* The handle of an expression; a plain number when it has no atoms. */
static sn_dim intern(sn_graph *g, const dim_expr *e) {
  int weight, depth;
  if (e->n == 0)
    return 0;
  if (e->n == 1 && e->term[0].n == 0)
    return e->term[0].coef;
  dim_table *t = table(g);
  if (!t)
    return no_memory(g);
  for (int i = t->n_buckets ? *bucket_of(t, e) : 0; i; i = t->exprs[i - 1].next)
    if (compare_exprs(t, &t->exprs[i - 1], e) == 0)
      return DIM_HANDLES - (i - 1);
  measure(t, e, &weight, &depth);
  if (weight > MAX_WEIGHT || depth > DIM_MAX_DEPTH)
    return fail(g, "too large");
  if (!room(g, (void **)&t->exprs, t->n_exprs, &t->cap_exprs, sizeof *e) || !grow_buckets(g, t))
    return no_memory(g);
  t->exprs[t->n_exprs] = *e;
  link_expr(t, t->n_exprs);
  return DIM_HANDLES - t->n_exprs++;
}

static sn_dim of_atom(sn_graph *g, int atom) {
  dim_expr e = {.n = 1};
  e.term[0] = (dim_term){.coef = 1, .n = 1, .atom = {(uint16_t)atom}};
  return intern(g, &e);
}

static int add_atom(sn_graph *g, dim_atom a) {
  dim_table *t = table(g);
  if (t && t->n_atoms >= UINT16_MAX) {
    fail(g, "too many symbols and divisions");
    return -1;
  }
  if (!t || !room(g, (void **)&t->atoms, t->n_atoms, &t->cap_atoms, sizeof a)) {
    no_memory(g);
    return -1;
  }
  t->atoms[t->n_atoms] = a;
  return t->n_atoms++;
}

sn_dim sn_symbol(sn_graph *g, const char *name, int64_t max) {
  NEEDS_OR(g, 0);
  if (g->status != SN_OK)
    return 0;
  if (!name || !*name || strlen(name) > 64)
    return fail(g, "a symbol's name must have 1 to 64 characters");
  for (const char *p = name; *p; p++)
    if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' ||
          (p > name && *p >= '0' && *p <= '9')))
      return fail_symbol(g, name, "a name must be letters, digits and _, no digit first");
  if (max < 0 || max >= DIM_LIMIT)
    return fail_symbol(g, name, "a maximum must not be negative, and be below 2^56");
  int s = dim_find_symbol(g, name);
  if (s >= 0) {
    int atom = g->dims->symbols[s];
    if (g->dims->atoms[atom].hi != max)
      return fail_symbol(g, name, "declared twice with different maxima");
    return of_atom(g, atom);
  }
  const char *kept = graph_intern(g, name);
  dim_table *t = table(g);
  if (!kept || !t || !room(g, (void **)&t->symbols, t->n_symbols, &t->cap_symbols, sizeof(int)))
    return no_memory(g);
  int atom = add_atom(g, (dim_atom){.name = kept, .symbol = t->n_symbols, .hi = max, .weight = 1});
  if (atom < 0)
    return 0;
  t->symbols[t->n_symbols++] = atom;
  return of_atom(g, atom);
}

/* Names are interned anew; everything else is plain data, so handles keep their meaning. */
bool dim_copy_all(sn_graph *to, const sn_graph *from) {
  const dim_table *t = from->dims;
  if (!t)
    return true;
  dim_table *copy = arena_alloc(&to->memory, sizeof *copy);
  if (!copy)
    return false;
  *copy = *t;
  copy->cap_atoms = t->n_atoms;
  copy->cap_symbols = t->n_symbols;
  copy->cap_exprs = t->n_exprs;
  copy->atoms = arena_copy(&to->memory, t->atoms, (size_t)t->n_atoms * sizeof *t->atoms);
  copy->symbols = arena_copy(&to->memory, t->symbols, (size_t)t->n_symbols * sizeof *t->symbols);
  copy->exprs = arena_copy(&to->memory, t->exprs, (size_t)t->n_exprs * sizeof *t->exprs);
  copy->buckets = arena_copy(&to->memory, t->buckets, (size_t)t->n_buckets * sizeof *t->buckets);
  if (!copy->atoms || !copy->symbols || !copy->exprs || !copy->buckets)
    return false;
  for (int i = 0; i < copy->n_atoms; i++)
    if (copy->atoms[i].name && !(copy->atoms[i].name = graph_intern(to, copy->atoms[i].name)))
      return false;
  to->dims = copy;
  return true;
}

int dim_handle_count(const sn_graph *g) { return g->dims ? g->dims->n_exprs : 0; }

int dim_symbol_count(const sn_graph *g) { return g->dims ? g->dims->n_symbols : 0; }

static const dim_atom *symbol_atom(const sn_graph *g, int s) {
  return &g->dims->atoms[g->dims->symbols[s]];
}

const char *dim_symbol_name(const sn_graph *g, int s) { return symbol_atom(g, s)->name; }
int64_t dim_symbol_max(const sn_graph *g, int s) { return symbol_atom(g, s)->hi; }

int dim_find_symbol(const sn_graph *g, const char *name) {
  for (int s = 0; s < dim_symbol_count(g); s++)
    if (strcmp(dim_symbol_name(g, s), name) == 0)
      return s;
  return -1;
}

static bool usable(sn_graph *g, sn_dim a, sn_dim b) {
  if (g->status != SN_OK)
    return false;
  if (dim_valid(g, a) && dim_valid(g, b) && a != SN_END && b != SN_END)
    return true;
  fail(g, "a dim is too large or belongs to another graph");
  return false;
}

/* Most sizes are numbers: what comes of two of them is one, unless it is too large, which expressions find out. */
static bool are_numbers(sn_dim a, sn_dim b) { return dim_is_number(a) && dim_is_number(b); }
static bool is_small(int64_t x) { return x < DIM_LIMIT && x > -DIM_LIMIT; }

static sn_dim add_scaled(sn_graph *g, sn_dim a, sn_dim b, int64_t scale) {
  if (!usable(g, a, b))
    return 0;
  if (are_numbers(a, b) && is_small(a + scale * b))
    return a + scale * b;
  dim_expr e = load(g, a), f = load(g, b);
  for (int i = 0; i < f.n; i++) {
    dim_term t = f.term[i];
    t.coef *= scale;
    if (!add_term(g, &e, t))
      return fail(g, "too large");
  }
  return intern(g, &e);
}

sn_dim sn_dim_add(sn_graph *g, sn_dim a, sn_dim b) {
  NEEDS_OR(g, 0);
  return add_scaled(g, a, b, 1);
}
sn_dim sn_dim_sub(sn_graph *g, sn_dim a, sn_dim b) {
  NEEDS_OR(g, 0);
  return add_scaled(g, a, b, -1);
}

static bool multiply_terms(const sn_graph *g, const dim_term *a, const dim_term *b, dim_term *out) {
  *out = (dim_term){0};
  if (a->n + b->n > MAX_ATOMS || !mul_fits(a->coef, b->coef, &out->coef))
    return false;
  for (int i = 0, j = 0; i < a->n || j < b->n;) {
    bool first = j == b->n || (i < a->n && compare_atoms(g->dims, a->atom[i], b->atom[j]) <= 0);
    out->atom[out->n++] = first ? a->atom[i++] : b->atom[j++];
  }
  return true;
}

sn_dim sn_dim_mul(sn_graph *g, sn_dim a, sn_dim b) {
  NEEDS_OR(g, 0);
  if (!usable(g, a, b))
    return 0;
  int64_t p;
  if (are_numbers(a, b) && mul_fits(a, b, &p) && is_small(p))
    return p;
  dim_expr e = load(g, a), f = load(g, b), product = {0};
  for (int i = 0; i < e.n; i++)
    for (int j = 0; j < f.n; j++) {
      dim_term t;
      if (!multiply_terms(g, &e.term[i], &f.term[j], &t) || !add_term(g, &product, t))
        return fail(g, "too large");
    }
  return intern(g, &product);
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}

/* floor((k·m + c) / (k·d)) = floor((m + floor(c / k)) / d): the common factor k goes. */
static void reduce(const sn_graph *g, dim_expr *e, int64_t *divisor) {
  int64_t k = *divisor;
  for (int i = 0; i < e->n; i++)
    if (e->term[i].n > 0)
      k = gcd(k, e->term[i].coef);
  dim_expr reduced = {0};
  for (int i = 0; i < e->n; i++) {
    dim_term t = e->term[i];
    t.coef = floor_div(t.coef, k);
    (void)add_term(g, &reduced, t); /* terms only become smaller */
  }
  *e = reduced;
  *divisor /= k;
}

/* floor((floor(x / p) + c) / d) = floor((x + c·p) / (p·d)): the inner division, when e is one. */
static bool inner_division(const sn_graph *g, const dim_expr *e, int64_t divisor, sn_dim *x,
                           int64_t *shift, int64_t *product) {
  int64_t c = e->n == 2 && e->term[1].n == 0 ? e->term[1].coef : 0;
  if (e->n < 1 || e->n > 2 || (e->n == 2 && e->term[1].n != 0) || e->term[0].n != 1 ||
      e->term[0].coef != 1)
    return false;
  const dim_atom *a = &g->dims->atoms[e->term[0].atom[0]];
  *x = a->of;
  return a->divisor != 0 && mul_fits(c, a->divisor, shift) && *shift < DIM_LIMIT &&
         mul_fits(divisor, a->divisor, product) && *product < DIM_LIMIT;
}

static sn_dim division_atom(sn_graph *g, sn_dim of, int64_t divisor) {
  for (int i = 0; i < g->dims->n_atoms; i++)
    if (g->dims->atoms[i].divisor == divisor && g->dims->atoms[i].of == of)
      return of_atom(g, i);
  dim_atom a = {.symbol = -1, .of = of, .divisor = divisor};
  measure(g->dims, expr_of(g, of), &a.weight, &a.depth);
  a.weight++;
  a.depth++;
  dim_range(g, of, &a.lo, &a.hi);
  bool bounded = a.lo > -DIM_LIMIT && a.hi < DIM_LIMIT;
  a.lo = floor_div(a.lo, divisor);
  a.hi = floor_div(a.hi, divisor);
  if (bounded && a.lo == a.hi) /* the same for every binding */
    return a.lo;
  int atom = add_atom(g, a);
  return atom < 0 ? 0 : of_atom(g, atom);
}

/* floor((d·whole + rest) / d) = whole + floor(rest / d): only the rest becomes an atom, its coefficients
 * in 0 … d-1, without a common factor and without a division right inside: so equal quotients are
 * equal handles. */
sn_dim sn_dim_div(sn_graph *g, sn_dim a, int64_t divisor) {
  NEEDS_OR(g, 0);
  if (!usable(g, a, 0))
    return 0;
  if (divisor <= 0 || divisor >= DIM_LIMIT)
    return fail(g, "the divisor must be positive");
  if (dim_is_number(a))
    return floor_div(a, divisor);
  dim_expr e = load(g, a), whole = {0}, rest = {0};
  for (int i = 0; i < e.n; i++) {
    dim_term t = e.term[i], r = e.term[i];
    t.coef = floor_div(t.coef, divisor);
    r.coef -= t.coef * divisor;
    if (!add_term(g, &whole, t) || !add_term(g, &rest, r))
      return fail(g, "too large");
  }
  sn_dim w = intern(g, &whole), of, x;
  reduce(g, &rest, &divisor);
  int64_t shift, product;
  if (inner_division(g, &rest, divisor, &x, &shift, &product))
    return sn_dim_add(g, w, sn_dim_div(g, sn_dim_add(g, x, shift), product));
  of = intern(g, &rest);
  if (g->status != SN_OK || dim_is_number(of)) /* then 0 <= rest < divisor */
    return w;
  return sn_dim_add(g, w, division_atom(g, of, divisor));
}

/* a's term divided by a monomial; false when it does not divide. */
static bool divide_term(const dim_term *a, const dim_term *b, dim_term *out) {
  *out = (dim_term){0};
  if (a->coef % b->coef != 0)
    return false;
  out->coef = a->coef / b->coef;
  int j = 0;
  for (int i = 0; i < a->n; i++) {
    if (j < b->n && a->atom[i] == b->atom[j])
      j++;
    else
      out->atom[out->n++] = a->atom[i];
  }
  return j == b->n;
}

/* e -= factor * f; false when it exceeds the limits. */
static bool subtract_multiple(const sn_graph *g, dim_expr *e, const dim_term *factor,
                              const dim_expr *f) {
  for (int i = 0; i < f->n; i++) {
    dim_term t;
    if (!multiply_terms(g, factor, &f->term[i], &t))
      return false;
    t.coef = -t.coef;
    if (!add_term(g, e, t))
      return false;
  }
  return true;
}

/* Long division by the leading term. Terms are in graded order, so each step lowers the leading one. */
bool dim_divide(sn_graph *g, sn_dim a, sn_dim b, sn_dim *out) {
  enum { MAX_STEPS = 64 };
  *out = 0;
  if (!usable(g, a, b) || b == 0)
    return false;
  if (are_numbers(a, b)) {
    *out = a % b == 0 ? a / b : 0;
    return a % b == 0;
  }
  dim_expr e = load(g, a), f = load(g, b), q = {0};
  for (int step = 0; e.n > 0; step++) {
    dim_term t;
    if (step == MAX_STEPS || !divide_term(&e.term[0], &f.term[0], &t) || !add_term(g, &q, t) ||
        !subtract_multiple(g, &e, &t, &f))
      return false;
  }
  *out = intern(g, &q);
  return g->status == SN_OK;
}

/* Saturating products: ranges only bound things, and what saturates is refused as too large. */
static int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t p;
  if (mul_fits(a, b, &p) && p < DIM_LIMIT && p > -DIM_LIMIT)
    return p;
  return (a < 0) == (b < 0) ? DIM_LIMIT : -DIM_LIMIT;
}

void dim_range(const sn_graph *g, sn_dim d, int64_t *out_lo, int64_t *out_hi) {
  if (dim_is_number(d)) {
    *out_lo = max_i64(d, -DIM_LIMIT);
    *out_hi = min_i64(d, DIM_LIMIT);
    return;
  }
  const dim_expr *e = expr_of(g, d);
  int64_t lo = 0, hi = 0;
  for (int i = 0; i < e->n; i++) {
    int64_t tl = e->term[i].coef, th = tl;
    for (int k = 0; k < e->term[i].n; k++) {
      int64_t al = g->dims->atoms[e->term[i].atom[k]].lo,
              ah = g->dims->atoms[e->term[i].atom[k]].hi;
      int64_t p[4] = {saturating_mul(tl, al), saturating_mul(tl, ah), saturating_mul(th, al),
                      saturating_mul(th, ah)};
      tl = min_i64(min_i64(p[0], p[1]), min_i64(p[2], p[3]));
      th = max_i64(max_i64(p[0], p[1]), max_i64(p[2], p[3]));
    }
    lo = max_i64(lo + tl, -DIM_LIMIT);
    hi = min_i64(hi + th, DIM_LIMIT);
  }
  *out_lo = lo;
  *out_hi = hi;
}

int64_t sn_dim_max(const sn_graph *g, sn_dim d) {
  NEEDS_OR(g, 0);
  int64_t lo, hi;
  if (!dim_valid(g, d))
    return 0;
  dim_range(g, d, &lo, &hi);
  return hi;
}

static bool atom_eval(const sn_graph *g, const dim_atom *a, const int64_t *bindings, int64_t *out) {
  if (a->divisor == 0) {
    *out = bindings[a->symbol];
    return true;
  }
  int64_t of;
  if (!dim_eval(g, a->of, bindings, &of))
    return false;
  *out = floor_div(of, a->divisor);
  return true;
}

bool dim_eval(const sn_graph *g, sn_dim d, const int64_t *bindings, int64_t *out) {
  if (dim_is_number(d)) {
    *out = d;
    return true;
  }
  const dim_expr *e = expr_of(g, d);
  *out = 0;
  for (int i = 0; i < e->n; i++) {
    int64_t product = e->term[i].coef;
    for (int k = 0; k < e->term[i].n; k++) {
      int64_t v;
      if (!atom_eval(g, &g->dims->atoms[e->term[i].atom[k]], bindings, &v) ||
          !mul_fits(product, v, &product))
        return false;
    }
    if (!add_fits(*out, product, out))
      return false;
  }
  return true;
}

const char *sn_graph_symbol(const sn_graph *g, int index, int64_t *out_max) {
  NEEDS_OR(g, NULL);
  bool there = index >= 0 && index < dim_symbol_count(g);
  if (out_max)
    *out_max = there ? dim_symbol_max(g, index) : 0;
  return there ? dim_symbol_name(g, index) : NULL;
}

sn_status sn_dim_value(const sn_graph *g, sn_dim d, const int64_t *values, int64_t *out_value) {
  NEEDS(g);
  NEEDS_ARGUMENT(g->ctx, out_value);
  *out_value = 0;
  NEEDS_ARGUMENT_IF(g->ctx, dim_symbol_count(g) > 0, values);
  if (!dim_valid(g, d))
    return diag_fail(g->ctx, SN_ERR_INVALID, "a dim is too large or belongs to another graph");
  for (int s = 0; s < dim_symbol_count(g); s++)
    if (values[s] < 0 || values[s] > dim_symbol_max(g, s))
      return diag_fail(g->ctx, SN_ERR_INVALID, "symbol %s: expected 0 … %lld, got %lld",
                       dim_symbol_name(g, s), (long long)dim_symbol_max(g, s),
                       (long long)values[s]);
  if (!dim_eval(g, d, values, out_value))
    return diag_fail(g->ctx, SN_ERR_INVALID, "a dim overflows under these symbols");
  return SN_OK;
}

sn_dim dim_count(sn_graph *g, sn_shape shape) {
  sn_dim n = 1;
  for (int i = 0; i < shape.rank; i++)
    n = sn_dim_mul(g, n, shape.dim[i]);
  return n;
}

static void print_atom(const sn_graph *g, const dim_atom *a, text *out) {
  if (a->divisor == 0) {
    text_puts(out, a->name);
    return;
  }
  text_puts(out, "((");
  dim_print(g, a->of, out);
  text_printf(out, ")/%lld)", (long long)a->divisor);
}

void dim_print(const sn_graph *g, sn_dim d, text *out) {
  if (dim_is_number(d)) {
    text_printf(out, "%lld", (long long)d);
    return;
  }
  const dim_expr *e = expr_of(g, d);
  for (int i = 0; i < e->n; i++) {
    const dim_term *t = &e->term[i];
    int64_t size = t->coef < 0 ? -t->coef : t->coef;
    text_puts(out, t->coef < 0 ? "-" : i ? "+" : "");
    if (size != 1 || t->n == 0)
      text_printf(out, "%lld%s", (long long)size, t->n ? "*" : "");
    for (int k = 0; k < t->n; k++) {
      text_puts(out, k ? "*" : "");
      print_atom(g, &g->dims->atoms[t->atom[k]], out);
    }
  }
}
