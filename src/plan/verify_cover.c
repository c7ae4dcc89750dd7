/* See verify.h: that the stores of a value write each of its elements exactly once, under the bindings. A store's map is read as a
 * number in mixed radix: digits of axes with their strides. One store alone must run through all elements; several must be
 * runs that lie beside each other, each repeated at the same distance. Small values that are put together otherwise are
 * ticked off element by element.
 */
#include "plan/verify.h"

#include <stdlib.h>

enum { MAX_DIGITS = 32, TICKED = 1 << 16 };

typedef struct digit {
  int64_t stride, n;
} digit;

/* What one store writes: base + digits, ascending by stride; neighbours that run on are one. */
typedef struct tile {
  int64_t base, total;
  int n;
  digit digits[MAX_DIGITS];
} tile;

static sn_status too_many(const verifier *v, int s, uint32_t value) {
  return verify_fail(v, s, value, "is stored through too many terms");
}

static bool add_digit(tile *t, int64_t stride, int64_t n) {
  if (n == 1)
    return true;
  if (t->n == MAX_DIGITS)
    return false;
  if (stride < 0) {
    t->base += stride * (n - 1);
    stride = -stride;
  }
  int at = t->n++;
  for (; at > 0 && t->digits[at - 1].stride > stride; at--)
    t->digits[at] = t->digits[at - 1];
  t->digits[at] = (digit){stride, n};
  t->total *= n;
  return true;
}

/* Joins digits that run on; false when two reach the same element. */
static bool join_digits(tile *t) {
  int n = 0;
  for (int k = 0; k < t->n; k++) {
    digit d = t->digits[k], *last = n ? &t->digits[n - 1] : NULL;
    if (d.stride == 0 || (last && d.stride < last->stride * last->n))
      return false;
    if (last && d.stride == last->stride * last->n)
      last->n *= d.n;
    else
      t->digits[n++] = d;
  }
  t->n = n;
  return true;
}

static sn_status written_twice(const verifier *v, int s, uint32_t value) {
  return verify_fail(v, s, value, "has elements that one store writes more than once");
}

/* The digits of one axis, which must make up all of it. */
static sn_status axis_digits(const verifier *v, int s, const use *u, int axis, int64_t extent,
                             tile *t) {
  const access *a = &u->code->at;
  int64_t below = 1; /* the part of the axis that is in digits already */
  while (below < extent) {
    const term *next = NULL;
    for (int k = 0; k < a->n_terms && !next; k++)
      if (a->terms[k].axis == axis && verify_size(v, a->terms[k].stride) != 0 &&
          verify_size(v, a->terms[k].mod) != 1 && /* such a term is always 0 */
          max_i64(1, verify_size(v, a->terms[k].div)) == below)
        next = &a->terms[k];
    if (!next)
      return written_twice(v, s, u->value);
    int64_t rest = (extent + below - 1) / below, mod = verify_size(v, next->mod);
    int64_t n = mod > 0 ? min_i64(mod, rest) : rest;
    if (n <= 1)
      return written_twice(v, s, u->value);
    if (!add_digit(t, verify_size(v, next->stride), n))
      return too_many(v, s, u->value);
    below *= n;
  }
  return below == extent || extent == 1
             ? SN_OK
             : verify_fail(v, s, u->value,
                           "is stored along an axis of %lld in digits that make %lld",
                           (long long)extent, (long long)below);
}

static sn_status region_tile(const verifier *v, int s, const use *u, tile *t) {
  sn_dim dims[VERIFY_AXES];
  int n = use_axes(v, s, u, dims), counted = 0;
  t->base = verify_size(v, u->code->at.base);
  for (int d = 0; d < n; d++)
    if (verify_size(v, dims[d]) <= 0) {
      t->total = 0;
      return SN_OK;
    }
  for (int d = 0; d < n; d++) {
    int before = t->n;
    SN_TRY(axis_digits(v, s, u, d, verify_size(v, dims[d]), t));
    counted += t->n - before;
  }
  int used = 0; /* no term may be left over */
  for (int k = 0; k < u->code->at.n_terms; k++) {
    const term *x = &u->code->at.terms[k];
    if (x->axis == TERM_REG || x->axis >= n)
      return verify_fail(v, s, u->value,
                         "is stored through a register or an axis that is not there");
    int64_t div = max_i64(1, verify_size(v, x->div));
    used += verify_size(v, x->stride) != 0 && verify_size(v, x->mod) != 1 &&
            verify_size(v, dims[x->axis]) > div;
  }
  return used == counted ? SN_OK : written_twice(v, s, u->value);
}

static sn_status tile_of(const verifier *v, int s, const use *u, tile *t) {
  *t = (tile){.total = 1};
  if (!u->core)
    SN_TRY(region_tile(v, s, u, t));
  else {
    t->base = verify_size(v, u->core->base);
    for (int d = 0; d < u->core->rank; d++) {
      int64_t n = verify_size(v, u->core->dim[d]), stride = verify_size(v, u->core->stride[d]);
      /* attention_grad sums the gradient of a broadcast bias */
      if (v->p->steps[s].kind == STEP_ATTENTION_GRAD && stride == 0)
        continue;
      if (n <= 0) {
        t->total = 0;
        return SN_OK;
      }
      if (!add_digit(t, stride, n))
        return too_many(v, s, u->value);
    }
  }
  if (t->total && !join_digits(t))
    return written_twice(v, s, u->value);
  return SN_OK;
}

/* --- several stores --- */

/* A run of `run` elements, `times` times at distance `step`. */
typedef struct piece {
  int64_t base, run, times, distance;
} piece;

static bool piece_of(const tile *t, int64_t count, piece *out) {
  int k = t->n && t->digits[0].stride == 1;
  *out = (piece){t->base, k ? t->digits[0].n : 1, 1, count};
  if (t->n > k + 1)
    return false;
  if (t->n > k) {
    out->times = t->digits[k].n;
    out->distance = t->digits[k].stride;
  }
  return true;
}

static int compare_pieces(const void *a, const void *b) {
  const piece *x = a, *y = b;
  return x->base < y->base ? -1 : x->base > y->base;
}

/* Whether pieces lie beside each other and fill `count` elements. */
static bool pieces_fill(piece *list, int n, int64_t count) {
  int64_t at = 0;
  qsort(list, (size_t)n, sizeof *list, compare_pieces);
  for (int k = 0; k < n; k++) {
    if (list[k].base != at || list[k].times != list[0].times ||
        list[k].distance != list[0].distance)
      return false;
    at += list[k].run;
  }
  return at == list[0].distance && list[0].times * list[0].distance == count;
}

/* Marks each element of a tile; false when one was marked before. */
static bool tick(const tile *t, bool *marks, int64_t count) {
  int64_t index[MAX_DIGITS] = {0};
  for (int64_t i = 0; i < t->total; i++) {
    int64_t at = t->base;
    for (int k = 0; k < t->n; k++)
      at += index[k] * t->digits[k].stride;
    if (at < 0 || at >= count || marks[at])
      return false;
    marks[at] = true;
    for (int k = 0; k < t->n && ++index[k] == t->digits[k].n; k++)
      index[k] = 0;
  }
  return true;
}

static sn_status cover_by_pieces(verifier *v, uint32_t value, const tile *tiles, int n,
                                 int64_t count) {
  piece *list = arena_array(&v->bound, (size_t)n, sizeof *list);
  bool simple = true;
  if (!list)
    return SN_ERR_NO_MEMORY;
  for (int k = 0; k < n && simple; k++)
    simple = piece_of(&tiles[k], count, &list[k]);
  if (simple && pieces_fill(list, n, count))
    return SN_OK;
  bool *marks = count <= TICKED ? arena_alloc(&v->bound, (size_t)count) : NULL;
  if (count <= TICKED && !marks)
    return SN_ERR_NO_MEMORY;
  for (int k = 0; k < n; k++)
    if (!marks || !tick(&tiles[k], marks, count))
      return verify_fail(v, -1, value, "is put together from %d stores that do not fit", n);
  return SN_OK;
}

/* An update writes each element of the slice once: it is a loop over the slice, in order (verify_region.c looks where to). */
static sn_status cover_update(const verifier *v, uint32_t value, int store) {
  const use *u = &v->uses[store];
  const node *n = graph_node(v->g, (sn_value){verify_target(v, &v->p->values[value])});
  sn_dim dims[VERIFY_AXES];
  int64_t points = 1;
  int n_axes = use_axes(v, v->step_of[store], u, dims);
  for (int d = 0; d < n_axes; d++)
    points *= verify_size(v, dims[d]);
  if (v->store_next[store] || u->place != USE_LOOP || points != expect_count(v, n->in[1].id))
    return verify_fail(v, v->step_of[store], value,
                       "is an update of %lld elements, of which stores write %lld",
                       (long long)expect_count(v, n->in[1].id), (long long)points);
  return SN_OK;
}

static sn_status cover_value(verifier *v, uint32_t value) {
  int64_t count = verify_size(v, v->p->values[value].count), total = 0;
  int n = 0, stores = 0;
  for (int k = v->store_head[value]; k; k = v->store_next[k - 1]) {
    if (v->uses[k - 1].code && update_base(v, v->uses[k - 1].code))
      return cover_update(v, value, k - 1);
    stores++;
  }
  tile one, *tiles = stores == 1 ? &one : arena_array(&v->bound, (size_t)stores, sizeof *tiles);
  if (!tiles)
    return SN_ERR_NO_MEMORY;
  for (int k = v->store_head[value]; k; k = v->store_next[k - 1]) {
    SN_TRY(tile_of(v, v->step_of[k - 1], &v->uses[k - 1], &tiles[n]));
    total += tiles[n].total;
    n += tiles[n].total > 0;
  }
  if (total != count)
    return verify_fail(v, v->step_of[v->store_head[value] - 1], value,
                       "has %lld elements, of which stores write %lld%s", (long long)count,
                       (long long)total, total > count ? ": some twice" : "");
  if (total == 0 || (n == 1 && tiles[0].base == 0 &&
                     (tiles[0].n == 0 || (tiles[0].n == 1 && tiles[0].digits[0].stride == 1))))
    return SN_OK;
  return cover_by_pieces(v, value, tiles, n, count);
}

sn_status verify_cover(verifier *v) {
  for (uint32_t value = 1; value < v->p->n_values; value++)
    if (v->store_head[value])
      SN_TRY(cover_value(v, value));
  return SN_OK;
}
