/* Loop parts with as few axes as say the same: coordinates cost divisions at every point. See emit.h.
 *
 * Two neighbouring axes are one where everything that reads them counts the second through before the first moves on; an axis
 * of one point is none. */
#include "device/vulkan/emit.h"

/* Calls `see` with every list of terms of a region, until it says no. */
typedef bool (*see_terms)(void *user, int n, const term *terms);

static bool each_terms(const region *r, see_terms see, void *user) {
  for (int i = 0; i < r->n; i++) {
    const access *at = &r->code[i].at;
    if (!see(user, at->n_terms, at->terms))
      return false;
    for (int c = 0; c < at->n_checks; c++)
      if (!see(user, at->checks[c].n_terms, at->checks[c].terms))
        return false;
  }
  return true;
}

typedef struct pair {
  const loop_part *part;
  int first; /* axis */
} pair;

static const term *plain_term(int n, const term *terms, int axis, bool *out_ok) {
  const term *found = NULL;
  for (int i = 0; i < n; i++)
    if (terms[i].axis == axis) {
      *out_ok = *out_ok && !found && terms[i].div == 1 && terms[i].mod == 0 &&
                dim_is_number(terms[i].stride);
      found = &terms[i];
    }
  return found;
}

static bool counts_through(void *user, int n, const term *terms) {
  const pair *p = user;
  bool ok = true;
  const term *a = plain_term(n, terms, p->first, &ok);
  const term *b = plain_term(n, terms, p->first + 1, &ok);
  if (!a && !b)
    return true;
  int64_t whole;
  return ok && a && b && mul_fits(b->stride, p->part->extent[p->first + 1], &whole) &&
         a->stride == whole;
}

/* Whether axes `first` and the next are one. */
static bool are_one(const loop_part *p, int first) {
  const sn_dim *x = &p->extent[first];
  int64_t product;
  if (first + 1 >= p->n_axes || first + 1 == p->n_outer)
    return false;
  if (x[0] == 1 || x[1] == 1)
    return true;
  pair both = {p, first};
  return dim_is_number(x[0]) && dim_is_number(x[1]) && mul_fits(x[0], x[1], &product) &&
         product <= INT32_MAX && each_terms(&p->code, counts_through, &both);
}

/* Of terms that read one axis of the two: those of an axis of one point are nothing, the first of two that are one goes. */
static int joined_terms(const pair *p, int n, const term *from, term *to) {
  const sn_dim *x = &p->part->extent[p->first];
  int kept = 0;
  for (int i = 0; i < n; i++) {
    term t = from[i];
    bool first = t.axis == p->first, second = t.axis == p->first + 1;
    if ((first && (x[0] == 1 || x[1] != 1)) || (second && x[1] == 1))
      continue;
    if (t.axis != TERM_REG && t.axis > p->first)
      t.axis--;
    to[kept++] = t;
  }
  return kept;
}

static bool join_access(emit_env *env, const pair *p, access *at) {
  term *terms = arena_array(env->memory, (size_t)at->n_terms, sizeof *terms);
  check *checks = arena_array(env->memory, (size_t)at->n_checks, sizeof *checks);
  if ((at->n_terms && !terms) || (at->n_checks && !checks))
    return false;
  at->n_terms = joined_terms(p, at->n_terms, at->terms, terms);
  at->terms = terms;
  for (int c = 0; c < at->n_checks; c++) {
    const check *old = &at->checks[c];
    term *own = arena_array(env->memory, (size_t)old->n_terms, sizeof *own);
    if (old->n_terms && !own)
      return false;
    checks[c] = *old;
    checks[c].n_terms = joined_terms(p, old->n_terms, old->terms, own);
    checks[c].terms = own;
  }
  at->checks = checks;
  return true;
}

/* Makes axes `first` and the next of *p one. */
static bool join(emit_env *env, loop_part *p, int first) {
  pair both = {p, first};
  instr *code = arena_copy(env->memory, p->code.code, (size_t)p->code.n * sizeof *code);
  if (!code)
    return false;
  for (int i = 0; i < p->code.n; i++)
    if (!join_access(env, &both, &code[i].at))
      return false;
  p->code.code = code;
  sn_dim *x = &p->extent[first];
  x[0] = x[0] == 1 ? x[1] : x[1] == 1 ? x[0] : x[0] * x[1];
  memmove(x + 1, x + 2, (size_t)(p->n_axes - first - 2) * sizeof *x);
  p->n_outer -= first + 1 < p->n_outer;
  p->n_axes--;
  return true;
}

const loop_part *emit_few_axes(emitter *e, const loop_part *from) {
  loop_part *p = NULL;
  for (int d = 0; d + 1 < (p ? p : from)->n_axes;) {
    if (!are_one(p ? p : from, d)) {
      d++;
      continue;
    }
    if (!p && !(p = arena_copy(e->env.memory, from, sizeof *from)))
      return NULL;
    if (!join(&e->env, p, d))
      return NULL;
  }
  return p ? p : from;
}
