/* Places: comparison, row-major numbers, and reshapes (element.h), by terms where they can say it, else by registers.
 *
 * A reshape keeps the row-major number. Shapes are cut into the smallest groups of neighbouring dims with equal products, so that only what a
 * reshape really mixes is linearised and divided again.
 */
#include "step/coord_sum.h"

bool place_equal(const place *a, const place *b) {
  if (a->rank != b->rank || a->n_checks != b->n_checks)
    return false;
  for (int d = 0; d < a->rank; d++)
    if (!coord_equal(&a->c[d], &b->c[d]))
      return false;
  for (int k = 0; k < a->n_checks; k++)
    if (!coord_equal(&a->checks[k].of, &b->checks[k].of) ||
        a->checks[k].size != b->checks[k].size || a->checks[k].divisor != b->checks[k].divisor)
      return false;
  return true;
}

bool place_linear(sn_graph *g, const place *at, sn_shape shape, coord *out) {
  coord_sum s;
  return sum_linear(g, at->c, shape.dim, shape.rank, &s) && sum_coord(&s, out);
}

/* A coordinate that runs through 0 … size-1 once: terms are digits of it, each a whole axis that nothing used before. */
static bool covers_dim(sn_graph *g, const sn_dim *axis_extents, const coord *c, sn_dim size,
                       bool *used) {
  sn_dim below = 1; /* what the digits so far count up to */
  int left = 0;
  for (int k = 0; k < c->n; k++) {
    const term *t = &c->terms[k];
    if (t->axis == TERM_REG || (t->div != 0 && t->div != 1) || t->mod != 0)
      return false;
    left += axis_extents[t->axis] != 1;
  }
  for (bool found = true; left > 0 && found; left -= found) {
    found = false;
    for (int k = 0; k < c->n && !found; k++) {
      const term *t = &c->terms[k];
      if (used[t->axis] || axis_extents[t->axis] == 1 || t->stride != below)
        continue;
      found = used[t->axis] = true;
      if (!dim_try_mul(g, below, axis_extents[t->axis], &below))
        return false;
    }
  }
  return left == 0 && below == size && c->offset == 0;
}

bool place_covers(sn_graph *g, const sn_dim *axis_extents, int n_axes, sn_shape shape,
                  const place *at) {
  bool used[TERM_REG] = {false};
  bool covers = at->n_checks == 0;
  for (int d = 0; d < shape.rank && covers; d++)
    covers = covers_dim(g, axis_extents, &at->c[d], shape.dim[d], used);
  for (int k = 0; k < n_axes && covers; k++)
    covers = used[k] || axis_extents[k] == 1;
  return covers;
}

/* A sum as a register, an index of at most ACCESS_TERMS terms after the other. */
static reg sum_register(elem_ctx *c, const coord_sum *s) {
  reg total = 0;
  for (int k = 0; k == 0 || k < s->n; k += ACCESS_TERMS) {
    int n = s->n - k < ACCESS_TERMS ? s->n - k : ACCESS_TERMS;
    instr i = {.op = REGION_INDEX,
               .dtype = SN_I32,
               .at = {.base = k ? 0 : s->offset, .n_terms = n, .terms = s->terms + k}};
    reg part = c->services->add(c, &i);
    total = k ? elem_alu_as(c, ALU_add, SN_I32, total, part, 0, 0, 0) : part;
  }
  return total;
}

/* The same from coordinates that have too many terms or strides for a sum. */
static reg linear_register(elem_ctx *c, const coord *coords, const sn_dim *dims, int n) {
  reg total = elem_coord(c, &coords[0]);
  for (int d = 1; d < n; d++) {
    reg size = elem_size(c, SN_I32, dims[d]);
    total = elem_alu_as(c, ALU_mul, SN_I32, total, size, 0, 0, 0);
    total = elem_alu_as(c, ALU_add, SN_I32, total, elem_coord(c, &coords[d]), 0, 0, 0);
  }
  return total;
}

static coord_sum sum_of_register(reg index, sn_dim size) {
  coord at = elem_at(index, size);
  return (coord_sum){.n = 1, .terms = {at.terms[0]}};
}

/* The product of dims; any i32 where it cannot be said, since a register is no more. */
static sn_dim count_of(sn_graph *g, const sn_dim *dims, int n) {
  sn_dim count = 1;
  for (int d = 0; d < n; d++)
    if (!dim_try_mul(g, count, dims[d], &count))
      return INT32_MAX;
  return count;
}

coord elem_linear(elem_ctx *c, const place *at, sn_shape shape) {
  coord_sum s;
  coord linear;
  if (shape.rank == 0)
    return coord_number(0);
  bool summed = sum_linear(c->graph, at->c, shape.dim, shape.rank, &s);
  if (summed && sum_coord(&s, &linear))
    return linear;
  reg number = summed ? sum_register(c, &s) : linear_register(c, at->c, shape.dim, shape.rank);
  return elem_at(number, count_of(c->graph, shape.dim, shape.rank));
}

typedef struct reshape {
  elem_ctx *c; /* may be NULL */
  sn_graph *g;
  const sn_dim *axis_extents;
} reshape;

static bool divide_by_register(const reshape *r, const coord_sum *a, sn_dim by, sn_dim before,
                               coord_sum *q, coord_sum *rest) {
  if (!r->c)
    return false;
  reg whole = sum_register(r->c, a), size = elem_size(r->c, SN_I32, by);
  *q = sum_of_register(elem_alu_as(r->c, ALU_floor_div, SN_I32, whole, size, 0, 0, 0), before);
  *rest = sum_of_register(elem_alu_as(r->c, ALU_rem, SN_I32, whole, size, 0, 0, 0), by);
  return true;
}

/* A sum as a coordinate within a size. */
static bool settle(const reshape *r, const coord_sum *s, sn_dim size, coord *out) {
  coord_sum simple = *s;
  sum_simplify(r->g, r->axis_extents, &simple);
  if (sum_coord(&simple, out))
    return true;
  if (!r->c)
    return false;
  *out = elem_at(sum_register(r->c, &simple), size);
  return true;
}

/* Coordinates within dims (n > 0) of the linear number `rest`. */
static bool delinearise(const reshape *r, coord_sum rest, const sn_dim *dims, int n, coord *out) {
  sn_dim extent[SN_MAX_RANK + 1] = {1}; /* of dims 0 … d-1 together */
  for (int d = 0; d < n; d++)
    if (!dim_try_mul(r->g, extent[d], dims[d], &extent[d + 1]))
      return false;
  for (int d = n - 1; d > 0; d--) {
    coord_sum q, remainder;
    if (!sum_divide(r->g, r->axis_extents, &rest, dims[d], extent[d + 1], &q, &remainder) &&
        !divide_by_register(r, &rest, dims[d], extent[d], &q, &remainder))
      return false;
    if (!settle(r, &remainder, dims[d], &out[d]))
      return false;
    rest = q;
  }
  return settle(r, &rest, dims[0], &out[0]);
}

/* Coordinates as the digits of a number, the outermost first: digit d is known to lie in 0 … size[d]-1, which its terms may
 * not show (a coordinate under a check goes outside, but is then not read). */
typedef struct digits {
  int n;
  coord digit[SN_MAX_RANK];
  sn_dim size[SN_MAX_RANK];
} digits;

/* The number modulo `by`; what is left of the digits is the quotient. Whole digits from the inner end, and a part of one. */
static bool digits_take(const reshape *r, digits *x, sn_dim by, coord_sum *out) {
  sn_dim weight = 1, rest;
  *out = (coord_sum){0};
  while (by != 1) {
    if (x->n == 0)
      return false;
    coord *digit = &x->digit[x->n - 1], part = *digit;
    sn_dim *size = &x->size[x->n - 1], taken = *size;
    if (dim_divide(r->g, by, *size, &rest)) {
      by = rest;
      x->n--;
    } else if (dim_divide(r->g, *size, by, &rest) &&
               coord_divide(r->g, r->axis_extents, digit, by, *size, digit, &part)) {
      *size = rest;
      taken = by;
      by = 1;
    } else {
      return false;
    }
    if (!sum_add(r->g, out, &part, weight) || !dim_try_mul(r->g, weight, taken, &weight))
      return false;
  }
  return true;
}

static bool reshape_digits(const reshape *r, const coord *at, const sn_dim *to, int n_to,
                           const sn_dim *from, int n_from, coord *out) {
  digits x = {.n = n_to};
  coord_sum s;
  memcpy(x.digit, at, (size_t)n_to * sizeof *at);
  memcpy(x.size, to, (size_t)n_to * sizeof *to);
  for (int d = n_from - 1; d > 0; d--) {
    if (!digits_take(r, &x, from[d], &s))
      return false;
    sum_simplify(r->g, r->axis_extents, &s);
    if (!sum_coord(&s, &out[d]))
      return false;
  }
  return sum_linear(r->g, x.digit, x.size, x.n, &s) && sum_coord(&s, &out[0]);
}

static bool reshape_group(const reshape *r, const coord *at, const sn_dim *to, int n_to,
                          const sn_dim *from, int n_from, coord *out) {
  coord_sum linear;
  const reshape by_terms = {NULL, r->g, r->axis_extents};
  if (n_to == 1 && n_from == 1) {
    out[0] = at[0];
    return true;
  }
  if (sum_linear(r->g, at, to, n_to, &linear) && delinearise(&by_terms, linear, from, n_from, out))
    return true;
  if (reshape_digits(r, at, to, n_to, from, n_from, out))
    return true;
  if (!sum_linear(r->g, at, to, n_to, &linear)) {
    if (!r->c)
      return false;
    linear = sum_of_register(linear_register(r->c, at, to, n_to), count_of(r->g, to, n_to));
  }
  return delinearise(r, linear, from, n_from, out);
}

/* A shape without its sizes of 1, and which dim each was. */
typedef struct squeezed {
  int n;
  sn_dim dim[SN_MAX_RANK];
  int was[SN_MAX_RANK];
} squeezed;

static squeezed squeeze(sn_shape s) {
  squeezed q = {0};
  for (int d = 0; d < s.rank; d++)
    if (s.dim[d] != 1) {
      q.dim[q.n] = s.dim[d];
      q.was[q.n++] = d;
    }
  return q;
}

/* The least numbers of leading dims with equal products; all of them when there is no such prefix. */
static void next_group(sn_graph *g, const sn_dim *a, int n_a, const sn_dim *b, int n_b, int *take_a,
                       int *take_b) {
  *take_a = n_a;
  *take_b = n_b;
  sn_dim p = 1, q;
  for (int i = 0; i < n_a; i++) {
    if (!dim_try_mul(g, p, a[i], &p))
      return;
    q = 1;
    for (int j = 0; j < n_b; j++) {
      if (!dim_try_mul(g, q, b[j], &q))
        break;
      if (p == q && i + j + 2 <= *take_a + *take_b) {
        *take_a = i + 1;
        *take_b = j + 1;
      }
    }
  }
}

/* The last dim of size 0, whose stride is not 0 as well; -1: none. */
static int find_zero(sn_shape s) {
  int d = s.rank - 1;
  while (d >= 0 && s.dim[d] != 0)
    d--;
  return d;
}

bool place_reshape(elem_ctx *c, sn_graph *g, const sn_dim *axis_extents, sn_shape to,
                   const place *at, sn_shape from, place *out) {
  const reshape r = {c, g, axis_extents};
  squeezed f = squeeze(from), t = squeeze(to);
  place made = {.rank = from.rank, .n_checks = at->n_checks};
  memcpy(made.checks, at->checks, sizeof made.checks);
  int none_from = find_zero(from), none_to = find_zero(to);
  if (none_from >= 0 && none_to >= 0) {
    /* Nothing stands anywhere; but a place that did not depend on the empty axis would be read before it is known to be
       empty. */
    made.c[none_from] = at->c[none_to];
    *out = made;
    return true;
  }
  for (int i = 0, j = 0; i < f.n && j < t.n;) {
    coord in[SN_MAX_RANK], result[SN_MAX_RANK];
    int n_from, n_to;
    next_group(g, f.dim + i, f.n - i, t.dim + j, t.n - j, &n_from, &n_to);
    for (int k = 0; k < n_to; k++)
      in[k] = at->c[t.was[j + k]];
    if (!reshape_group(&r, in, t.dim + j, n_to, f.dim + i, n_from, result))
      return false;
    for (int k = 0; k < n_from; k++)
      made.c[f.was[i + k]] = result[k];
    i += n_from;
    j += n_to;
  }
  *out = made;
  return true;
}
