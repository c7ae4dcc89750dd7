/* plan_cut: pointwise parts whose code asks where along an axis it is (a concat, a sum of what was padded: the gradient of
 * slices) become one part for each stretch in which the answers are the same. There they are known, so that a piece is mostly
 * a plain copy. Called by compile behind plan_fuse.
 *
 * Answers are checks on the coordinate of one axis, and comparisons of it with a number. Only numbers are looked at: what a
 * symbol decides stays a question at run time. A stretch must be long enough that runs of memory are worth a loop. */
#include "plan/plan.h"

#include <string.h>

enum {
  MOST_CUTS = 8,
  POINTS_LEAST = 4096, /* of a part */
  RUN_LEAST = 64       /* points of a piece that are neighbours: the axis and those within it */
};

typedef struct cutting {
  program *p;
  const loop_part *part;
  bool all; /* however short */
  int axis;
  int n; /* cuts, ascending */
  int64_t cuts[MOST_CUTS + 1];
} cutting;

/* Whether a coordinate is that of one axis, moved by a number. */
static bool is_moved(int n_terms, const term *t, sn_dim offset, int *out_axis) {
  if (n_terms != 1 || t->axis == TERM_REG || t->stride != 1 || (t->div != 0 && t->div != 1) ||
      t->mod != 0 || !dim_is_number(offset))
    return false;
  *out_axis = t->axis;
  return true;
}

static bool is_plain(const check *c, int *out_axis) {
  return (c->divisor == 0 || c->divisor == 1) && dim_is_number(c->size) &&
         is_moved(c->n_terms, c->terms, c->offset, out_axis);
}

/* coordinate < number: the number is x of b, the coordinate a. */
static bool is_comparison(const region *code, const instr *i, int *out_axis) {
  if (i->op != REGION_ALU || i->code != ALU_lt)
    return false;
  const instr *a = &code->code[i->a], *b = &code->code[i->b];
  return a->op == REGION_INDEX && a->at.n_checks == 0 && b->op == REGION_NUMBER &&
         is_moved(a->at.n_terms, a->at.terms, a->at.base, out_axis);
}

/* --- where --- */

static bool add_cut(cutting *c, int64_t at) {
  int k = c->n;
  if (at <= 0 || at >= c->part->extent[c->axis])
    return true;
  for (int i = 0; i < c->n; i++)
    if (c->cuts[i] == at)
      return true;
  if (c->n == MOST_CUTS)
    return false;
  for (; k > 0 && c->cuts[k - 1] > at; k--)
    c->cuts[k] = c->cuts[k - 1];
  c->cuts[k] = at;
  c->n++;
  return true;
}

static bool cuts_of(cutting *c, const instr *i) {
  const region *code = &c->part->code;
  int axis;
  if (is_comparison(code, i, &axis) && axis == c->axis)
    return add_cut(c, (int64_t)code->code[i->b].x - code->code[i->a].at.base);
  bool fit = true;
  for (int k = 0; k < i->at.n_checks && fit; k++) {
    const check *q = &i->at.checks[k];
    if (is_plain(q, &axis) && axis == c->axis)
      fit = add_cut(c, -q->offset) && add_cut(c, q->size - q->offset);
  }
  return fit;
}

/* Whether what a map adds along the axis from `by` on is what it adds from 0 on and a number. Registers in maps are left alone. */
static bool can_move(const cutting *c, int n_terms, const term *terms, int64_t by,
                     int64_t *out_more) {
  *out_more = 0;
  for (int k = 0; k < n_terms; k++) {
    const term *t = &terms[k];
    if (t->axis == TERM_REG)
      return false;
    if (t->axis != c->axis)
      continue;
    if (!dim_is_number(t->stride) || !dim_is_number(t->div) || !dim_is_number(t->mod))
      return false;
    int64_t div = t->div ? t->div : 1, steps = by / div;
    if (by % div != 0 || (t->mod != 0 && steps % t->mod != 0))
      return false;
    *out_more += t->mod ? 0 : t->stride * steps;
  }
  return true;
}

static bool instr_moves(const cutting *c, const instr *i, int64_t by) {
  int64_t more;
  if (i->op == REGION_REQUIRE || i->op == REGION_REDUCE ||
      !can_move(c, i->at.n_terms, i->at.terms, by, &more) ||
      (more != 0 && !dim_is_number(i->at.base)))
    return false;
  for (int k = 0; k < i->at.n_checks; k++) {
    const check *q = &i->at.checks[k];
    if (!can_move(c, q->n_terms, q->terms, by, &more) || (more != 0 && !dim_is_number(q->offset)))
      return false;
  }
  return true;
}

static bool find_cuts(cutting *c, int axis) {
  const loop_part *p = c->part;
  int64_t inner = 1, begin = 0;
  c->axis = axis;
  c->n = 0;
  for (int d = axis + 1; d < p->n_axes; d++)
    inner *= p->extent[d];
  for (int i = 0; i < p->code.n; i++)
    if (!cuts_of(c, &p->code.code[i]))
      return false;
  bool good = c->n > 0;
  for (int k = 0; k <= c->n && good; k++) {
    int64_t end = k < c->n ? c->cuts[k] : p->extent[axis];
    good = c->all || (end - begin) * inner >= RUN_LEAST;
    for (int i = 0; i < p->code.n && good; i++)
      good = instr_moves(c, &p->code.code[i], begin);
    begin = end;
  }
  return good;
}

static bool find(cutting *c) {
  const loop_part *p = c->part;
  int64_t points = 1;
  for (int d = 0; d < p->n_axes; d++) {
    if (!dim_is_number(p->extent[d]))
      return false;
    points *= p->extent[d];
  }
  bool found = false;
  for (int d = p->n_axes - 1; d >= 0 && (c->all || points >= POINTS_LEAST) && !found; d--)
    found = find_cuts(c, d);
  return found;
}

/* --- a piece --- */

/* The part's code, rewritten in place; `is`: the register that holds what register r did. */
typedef struct piece {
  const cutting *c;
  int64_t begin, end;
  instr *code;
  reg *is;
} piece;

static bool is_number(const piece *p, reg r, double x) {
  return p->code[r].op == REGION_NUMBER && p->code[r].x == x;
}

static void make_number(instr *i, double x) {
  *i = (instr){.op = REGION_NUMBER, .dtype = i->dtype, .phase = i->phase, .row = i->row, .x = x};
}

/* Of a check that is moved to the piece: 1 it passes all along, 0 nowhere, -1 that depends. */
static int answer(const piece *p, const check *q) {
  int axis;
  if (!is_plain(q, &axis) || axis != p->c->axis)
    return -1;
  int64_t last = q->offset + p->end - p->begin - 1;
  return q->offset >= 0 && last < q->size ? 1 : last < 0 || q->offset >= q->size ? 0 : -1;
}

/* Moves an access; false: one of its checks fails. */
static sn_status move_access(const piece *p, access *at, bool *out_passes) {
  check *kept =
      at->n_checks ? arena_array(&p->c->p->memory, (size_t)at->n_checks, sizeof *kept) : NULL;
  int64_t more;
  int n = 0;
  *out_passes = true;
  if (at->n_checks && !kept)
    return SN_ERR_NO_MEMORY;
  can_move(p->c, at->n_terms, at->terms, p->begin, &more);
  at->base = more ? at->base + more : at->base;
  for (int k = 0; k < at->n_checks; k++) {
    check q = at->checks[k];
    can_move(p->c, q.n_terms, q.terms, p->begin, &more);
    q.offset = more ? q.offset + more : q.offset;
    int passes = answer(p, &q);
    *out_passes = *out_passes && passes != 0;
    if (passes < 0)
      kept[n++] = q;
  }
  at->checks = kept;
  at->n_checks = n;
  return SN_OK;
}

/* Of another dtype it would be rounded. */
static void stand_for(piece *p, reg r, reg by) {
  if (p->code[by].dtype == p->code[r].dtype)
    p->is[r] = by;
}

static void fold_alu(piece *p, reg r) {
  instr *i = &p->code[r];
  int axis;
  if (is_comparison(&(region){(int)r, p->code}, i, &axis) && axis == p->c->axis) {
    int64_t first = p->code[i->a].at.base, last = first + p->end - p->begin - 1;
    double than = p->code[i->b].x;
    if ((double)last < than || (double)first >= than)
      make_number(i, (double)last < than);
  } else if (i->code == ALU_select && p->code[i->a].op == REGION_NUMBER) {
    stand_for(p, r, p->code[i->a].x != 0 ? i->b : i->c);
  } else if (i->code == ALU_add && instr_is_float(i)) {
    if (is_number(p, i->b, 0) || is_number(p, i->a, 0))
      stand_for(p, r, is_number(p, i->b, 0) ? i->a : i->b);
  }
}

static sn_status make_instr(piece *p, reg r) {
  instr *i = &p->code[r];
  bool passes;
  p->is[r] = r;
  int arguments = instr_arguments(i);
  reg *read[3] = {&i->a, &i->b, &i->c};
  for (int k = 0; k < arguments; k++)
    *read[k] = p->is[*read[k]];
  SN_TRY(move_access(p, &i->at, &passes));
  if (i->op == REGION_LOAD && !passes)
    make_number(i, 0);
  else if (i->op == REGION_INSIDE && (!passes || i->at.n_checks == 0))
    make_number(i, passes);
  else if (i->op == REGION_ALU)
    fold_alu(p, r);
  return SN_OK;
}

/* Leaves out what no store needs. */
static int compact(piece *p, int n) {
  bool needed[REGION_MAX] = {false};
  reg *read[3];
  int left = 0;
  for (int i = n - 1; i >= 0; i--) {
    needed[i] = needed[i] || p->code[i].op == REGION_STORE;
    read[0] = &p->code[i].a, read[1] = &p->code[i].b, read[2] = &p->code[i].c;
    for (int k = 0; k < instr_arguments(&p->code[i]) && needed[i]; k++)
      needed[*read[k]] = true;
  }
  for (int i = 0; i < n; i++) {
    if (!needed[i])
      continue;
    instr moved = p->code[i];
    read[0] = &moved.a, read[1] = &moved.b, read[2] = &moved.c;
    for (int k = 0; k < instr_arguments(&moved); k++)
      *read[k] = p->is[*read[k]];
    p->is[i] = (reg)left;
    p->code[left++] = moved;
  }
  return left;
}

static sn_status make_piece(const cutting *c, int64_t begin, int64_t end, loop_part *out) {
  reg is[REGION_MAX];
  int n = c->part->code.n;
  instr *code = arena_array(&c->p->memory, (size_t)n, sizeof *code);
  if (!code)
    return SN_ERR_NO_MEMORY;
  memcpy(code, c->part->code.code, (size_t)n * sizeof *code);
  piece p = {c, begin, end, code, is};
  for (int r = 0; r < n; r++)
    SN_TRY(make_instr(&p, (reg)r));
  *out = *c->part;
  out->extent[c->axis] = end - begin;
  out->code = (region){compact(&p, n), code};
  return SN_OK;
}

static sn_status cut_part(const cutting *c, part *out) {
  int64_t begin = 0;
  for (int k = 0; k <= c->n; k++) {
    int64_t end = k < c->n ? c->cuts[k] : c->part->extent[c->axis];
    SN_TRY(make_piece(c, begin, end, &out[k].u.loop));
    begin = end;
  }
  return SN_OK;
}

static sn_status cut_step(program *p, step *s, bool all) {
  cutting c = {.p = p, .all = all};
  for (int k = 0; k < s->n_parts; k++) {
    c.part = &s->parts[k].u.loop;
    if (!find(&c))
      continue;
    part *parts = arena_array(&p->memory, (size_t)(s->n_parts + c.n), sizeof *parts);
    if (!parts)
      return SN_ERR_NO_MEMORY;
    memcpy(parts, s->parts, (size_t)k * sizeof *parts);
    SN_TRY(cut_part(&c, parts + k));
    memcpy(parts + k + c.n + 1, s->parts + k + 1, (size_t)(s->n_parts - k - 1) * sizeof *parts);
    s->parts = parts;
    s->n_parts += c.n;
    k += c.n;
  }
  return SN_OK;
}

sn_status plan_cut(program *p, sn_ctx *ctx, bool all) {
  sn_status status = SN_OK;
  for (int i = 0; i < program_steps(p) && status == SN_OK; i++)
    if (p->steps[i].kind == STEP_POINTWISE)
      status = cut_step(p, &p->steps[i], all);
  return status == SN_OK ? SN_OK : sn_ctx_fail(ctx, status, "out of memory for a plan");
}
