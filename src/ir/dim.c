/* See dim.h. An expression is a sorted list of terms, a term a coefficient times sorted atoms; limits
 * are small and fixed, since sizes in models are simple, and exceeding them is a graph error. */
#include "ir/dim.h"

enum { MAX_TERMS = 8, MAX_ATOMS = 4 };

/* A symbol (divisor 0) or floor(of / divisor). */
typedef struct dim_atom {
  const char *name;
  int symbol;
  int64_t max;
  sn_dim of;
  int64_t divisor;
} dim_atom;

typedef struct dim_term {
  int64_t coef;
  int n;
  uint16_t atom[MAX_ATOMS]; /* ascending */
} dim_term;

typedef struct dim_expr {
  int n;
  dim_term term[MAX_TERMS]; /* descending by atoms; the constant, without atoms, last */
} dim_expr;

struct dim_table {
  dim_atom *atoms;
  int n_atoms, cap_atoms;
  int *symbols; /* atom index by symbol */
  int n_symbols, cap_symbols;
  dim_expr *exprs;
  int n_exprs, cap_exprs;
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

static int compare_terms(const dim_term *a, const dim_term *b) {
  if (a->n != b->n)
    return a->n > b->n ? -1 : 1;
  for (int i = 0; i < a->n; i++)
    if (a->atom[i] != b->atom[i])
      return a->atom[i] < b->atom[i] ? -1 : 1;
  return 0;
}

/* Adds a term in its place; false when the expression would exceed the limits. */
static bool add_term(dim_expr *e, dim_term t) {
  int at = 0;
  if (t.coef == 0)
    return true;
  while (at < e->n && compare_terms(&e->term[at], &t) < 0)
    at++;
  if (at < e->n && compare_terms(&e->term[at], &t) == 0) {
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

/* The handle of an expression; a plain number when it has no atoms. */
static sn_dim intern(sn_graph *g, const dim_expr *e) {
  if (e->n == 0)
    return 0;
  if (e->n == 1 && e->term[0].n == 0)
    return e->term[0].coef;
  dim_table *t = table(g);
  if (!t)
    return no_memory(g);
  for (int i = 0; i < t->n_exprs; i++)
    if (memcmp(&t->exprs[i], e, sizeof *e) == 0)
      return DIM_HANDLES - i;
  if (!room(g, (void **)&t->exprs, t->n_exprs, &t->cap_exprs, sizeof *e))
    return no_memory(g);
  t->exprs[t->n_exprs] = *e;
  return DIM_HANDLES - t->n_exprs++;
}

static sn_dim of_atom(sn_graph *g, int atom) {
  dim_expr e = {.n = 1};
  e.term[0] = (dim_term){.coef = 1, .n = 1, .atom = {(uint16_t)atom}};
  return intern(g, &e);
}

static int add_atom(sn_graph *g, dim_atom a) {
  dim_table *t = table(g);
  if (!t || t->n_atoms >= UINT16_MAX ||
      !room(g, (void **)&t->atoms, t->n_atoms, &t->cap_atoms, sizeof a)) {
    no_memory(g);
    return -1;
  }
  t->atoms[t->n_atoms] = a;
  return t->n_atoms++;
}

sn_dim sn_symbol(sn_graph *g, const char *name, int64_t max) {
  if (g->status != SN_OK)
    return 0;
  if (!name || !*name || strlen(name) > 64)
    return fail(g, "a symbol's name must have 1 to 64 characters");
  for (const char *p = name; *p; p++)
    if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' ||
          (p > name && *p >= '0' && *p <= '9')))
      return fail(g, "a symbol's name must be letters, digits and _");
  if (max < 0 || max >= DIM_LIMIT)
    return fail(g, "a symbol's maximum must lie in 0 … 2^56");
  int s = dim_find_symbol(g, name);
  if (s >= 0) {
    int atom = g->dims->symbols[s];
    if (g->dims->atoms[atom].max != max)
      return fail(g, "a symbol was declared twice with different maxima");
    return of_atom(g, atom);
  }
  const char *kept = graph_intern(g, name);
  dim_table *t = table(g);
  if (!kept || !t || !room(g, (void **)&t->symbols, t->n_symbols, &t->cap_symbols, sizeof(int)))
    return no_memory(g);
  int atom = add_atom(g, (dim_atom){.name = kept, .symbol = t->n_symbols, .max = max});
  if (atom < 0)
    return 0;
  t->symbols[t->n_symbols++] = atom;
  return of_atom(g, atom);
}

int dim_symbol_count(const sn_graph *g) { return g->dims ? g->dims->n_symbols : 0; }

static const dim_atom *symbol_atom(const sn_graph *g, int s) {
  return &g->dims->atoms[g->dims->symbols[s]];
}

const char *dim_symbol_name(const sn_graph *g, int s) { return symbol_atom(g, s)->name; }
int64_t dim_symbol_max(const sn_graph *g, int s) { return symbol_atom(g, s)->max; }

int dim_find_symbol(const sn_graph *g, const char *name) {
  for (int s = 0; s < dim_symbol_count(g); s++)
    if (strcmp(dim_symbol_name(g, s), name) == 0)
      return s;
  return -1;
}

static bool usable(sn_graph *g, sn_dim a, sn_dim b) {
  if (g->status != SN_OK)
    return false;
  if (dim_valid(g, a) && dim_valid(g, b))
    return true;
  fail(g, "a dim is too large or belongs to another graph");
  return false;
}

static sn_dim add_scaled(sn_graph *g, sn_dim a, sn_dim b, int64_t scale) {
  if (!usable(g, a, b))
    return 0;
  dim_expr e = load(g, a), f = load(g, b);
  for (int i = 0; i < f.n; i++) {
    dim_term t = f.term[i];
    t.coef *= scale;
    if (!add_term(&e, t))
      return fail(g, "too large");
  }
  return intern(g, &e);
}

sn_dim sn_dim_add(sn_graph *g, sn_dim a, sn_dim b) { return add_scaled(g, a, b, 1); }
sn_dim sn_dim_sub(sn_graph *g, sn_dim a, sn_dim b) { return add_scaled(g, a, b, -1); }

static bool multiply_terms(const dim_term *a, const dim_term *b, dim_term *out) {
  *out = (dim_term){0};
  if (a->n + b->n > MAX_ATOMS || !mul_fits(a->coef, b->coef, &out->coef))
    return false;
  for (int i = 0, j = 0; i < a->n || j < b->n;)
    out->atom[out->n++] = j == b->n || (i < a->n && a->atom[i] <= b->atom[j]) ? a->atom[i++]
                                                                               : b->atom[j++];
  return true;
}

sn_dim sn_dim_mul(sn_graph *g, sn_dim a, sn_dim b) {
  if (!usable(g, a, b))
    return 0;
  dim_expr e = load(g, a), f = load(g, b), product = {0};
  for (int i = 0; i < e.n; i++)
    for (int j = 0; j < f.n; j++) {
      dim_term t;
      if (!multiply_terms(&e.term[i], &f.term[j], &t) || !add_term(&product, t))
        return fail(g, "too large");
    }
  return intern(g, &product);
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

/* floor((d·whole + rest) / d) = whole + floor(rest / d): only the rest becomes an atom. */
sn_dim sn_dim_div(sn_graph *g, sn_dim a, int64_t divisor) {
  if (!usable(g, a, 0))
    return 0;
  if (divisor <= 0 || divisor >= DIM_LIMIT)
    return fail(g, "the divisor must be positive");
  dim_expr e = load(g, a), whole = {0}, rest = {0};
  for (int i = 0; i < e.n; i++) {
    dim_term t = e.term[i], r = e.term[i];
    t.coef = t.n ? t.coef / divisor * (t.coef % divisor == 0) : floor_div(t.coef, divisor);
    r.coef -= t.coef * divisor;
    if (!add_term(&whole, t) || !add_term(&rest, r))
      return fail(g, "too large");
  }
  sn_dim of = intern(g, &rest), w = intern(g, &whole);
  if (g->status != SN_OK || dim_is_number(of)) /* then 0 <= rest < divisor */
    return w;
  int atom = -1;
  for (int i = 0; i < g->dims->n_atoms && atom < 0; i++)
    if (g->dims->atoms[i].divisor == divisor && g->dims->atoms[i].of == of)
      atom = i;
  if (atom < 0)
    atom = add_atom(g, (dim_atom){.symbol = -1, .of = of, .divisor = divisor});
  return atom < 0 ? 0 : sn_dim_add(g, w, of_atom(g, atom));
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

bool dim_divide(sn_graph *g, sn_dim a, sn_dim b, sn_dim *out) {
  dim_expr e = load(g, a), f = load(g, b), q = {0};
  *out = 0;
  if (a == b) {
    *out = 1;
    return b != 0;
  }
  if (f.n != 1)
    return false;
  for (int i = 0; i < e.n; i++) {
    dim_term t;
    if (!divide_term(&e.term[i], &f.term[0], &t) || !add_term(&q, t))
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

static void atom_range(const sn_graph *g, const dim_atom *a, int64_t *lo, int64_t *hi) {
  if (a->divisor == 0) {
    *lo = 0;
    *hi = a->max;
    return;
  }
  dim_range(g, a->of, lo, hi);
  *lo = floor_div(*lo, a->divisor);
  *hi = floor_div(*hi, a->divisor);
}

void dim_range(const sn_graph *g, sn_dim d, int64_t *out_lo, int64_t *out_hi) {
  dim_expr e = load(g, d);
  int64_t lo = 0, hi = 0;
  for (int i = 0; i < e.n; i++) {
    int64_t tl = e.term[i].coef, th = tl;
    for (int k = 0; k < e.term[i].n; k++) {
      int64_t al, ah;
      atom_range(g, &g->dims->atoms[e.term[i].atom[k]], &al, &ah);
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
