/* See emit_four.h. */
#include "device/vulkan/emit_four.h"

#include "device/vulkan/emit_pairs.h"

/* Calls of one instruction at the points. Registers of a four begin at `first`. */
static void at_point(emitter *e, const four_points *p, int first, int u) {
  memcpy(e->axis, p->axes[u], sizeof e->axis);
  memcpy(e->acc, p->acc[u], sizeof e->acc);
  e->reg = e->regs[first + u];
}

static sn_dtype dtype_of(const emitter *e, const instr *i) {
  return e->env.program->values[i->at.value].type.dtype;
}

static bool fourfold(sn_dim d) { return dim_is_number(d) && d % 4 == 0; }

/* Registers are looked through so many instructions deep. */
enum { DEPTH = 8 };
static bool is_same(const region *r, const access *at, const four_axes *a, int depth);

/* Whether a register is the same at all four points. */
static bool reg_same(const region *r, reg i, const four_axes *a, int depth) {
  const instr *in = &r->code[i];
  const reg args[3] = {in->a, in->b, in->c};
  if (depth >= DEPTH)
    return false;
  switch ((region_op)in->op) {
  case REGION_NUMBER:
  case REGION_SIZE: return true;
  case REGION_LOAD:
  case REGION_INDEX:
  case REGION_INSIDE: return is_same(r, &in->at, a, depth + 1);
  case REGION_ALU: break;
  default: return false;
  }
  for (int k = 0; k < instr_arguments(in); k++)
    if (!reg_same(r, args[k], a, depth + 1))
      return false;
  return true;
}

/* Whether all terms are the same at all four points: those of the last axis divide it by a multiple of 4. */
static bool terms_same(const region *r, int n, const term *terms, const four_axes *a, int depth) {
  int last = a->first + a->n - 1;
  for (int i = 0; i < n; i++)
    if (terms[i].axis == TERM_REG ? !reg_same(r, terms[i].from, a, depth)
                                  : terms[i].axis == last && !fourfold(terms[i].div))
      return false;
  return true;
}

/* Whether one term counts the four along the last axis, wherever that is cut, and all else moves by fours. */
static bool terms_next(const region *r, sn_dim base, int n, const term *terms, const four_axes *a,
                       int depth) {
  int last = a->first + a->n - 1, counted = 0;
  if (!fourfold(base))
    return false;
  for (int i = 0; i < n; i++) {
    const term *t = &terms[i];
    bool counts = t->axis == last && t->stride == 1 && t->div == 1 && fourfold(t->mod);
    if (!counts && (!fourfold(t->stride) || !terms_same(r, 1, t, a, depth)))
      return false;
    counted += counts;
  }
  return counted == 1;
}

/* Whether a check passes at all four points or at none. */
static bool check_same(const region *r, const check *c, const four_axes *a, int depth) {
  return terms_same(r, c->n_terms, c->terms, a, depth) ||
         (c->divisor == 1 && fourfold(c->size) &&
          terms_next(r, c->offset, c->n_terms, c->terms, a, depth));
}

static bool checks_same(const region *r, const access *at, const four_axes *a, int depth) {
  for (int c = 0; c < at->n_checks; c++)
    if (!check_same(r, &at->checks[c], a, depth))
      return false;
  return true;
}

/* Whether fours end where the last axis does. */
static bool has_whole_fours(const four_axes *a) {
  return a->n > 0 && fourfold(a->extent[a->first + a->n - 1]);
}

static bool is_same(const region *r, const access *at, const four_axes *a, int depth) {
  return has_whole_fours(a) && terms_same(r, at->n_terms, at->terms, a, depth) &&
         checks_same(r, at, a, depth);
}

static bool is_next(const region *r, const access *at, const four_axes *a) {
  return has_whole_fours(a) && terms_next(r, at->base, at->n_terms, at->terms, a, 0) &&
         checks_same(r, at, a, 0);
}

four_kind emit_four_kind(const emitter *e, const region *r, int i, const four_axes *a) {
  const instr *in = &r->code[i];
  if (in->op != REGION_LOAD && in->op != REGION_STORE)
    return FOUR_APART;
  four_kind kind = access_four(&in->at, a);
  if (kind == FOUR_APART)
    kind = is_same(r, &in->at, a, 0) ? FOUR_SAME : is_next(r, &in->at, a) ? FOUR_NEXT : FOUR_APART;
  return kind == FOUR_NEXT && dtype_of(e, in) != SN_F32 ? FOUR_APART : kind;
}

static void load_four(emitter *e, const instr *in, int i, int first) {
  val v = emit_load_four(e, in);
  for (int u = 0; u < 4; u++)
    e->regs[first + u][i] = k_part(e->k, v, u);
}

void emit_store_four(emitter *e, const instr *in, int i, int first) {
  kernel *k = e->k;
  val x[4];
  sn_dtype from = (sn_dtype)e->code[in->a].dtype;
  for (int u = 0; u < 4; u++) {
    e->regs[first + u][i] = e->regs[first + u][in->a];
    x[u] = emit_rounded(e, emit_cast(e, e->regs[first + u][in->a], from, SN_F32), SN_F32);
  }
  val at = emit_linear(e, in->at.base, in->at.n_terms, in->at.terms);
  if (is_paired(&e->env, in->at.value))
    pairs_words(k, x, x);
  k_store(k, k_address_for(k, in->at.value, USE_STORE), k_shr(k, at, 2), k_vector(k, 4, x));
}

/* Whether an instruction is the same at a point as at the first of its four: it reads registers alone, and the same ones. */
static bool as_first(const emitter *e, const instr *in, int first, int u) {
  const reg args[3] = {in->a, in->b, in->c};
  if (in->op == REGION_NUMBER || in->op == REGION_SIZE)
    return true;
  if (in->op != REGION_ALU)
    return false;
  for (int a = 0; a < instr_arguments(in); a++)
    if (e->regs[first + u][args[a]] != e->regs[first][args[a]])
      return false;
  return true;
}

static void emit_each(emitter *e, const four_points *p, int i, int first, bool same) {
  const instr *in = &e->code[i];
  for (int u = 0; u < 4; u++) {
    at_point(e, p, first, u);
    bool again = u > 0 && (same || as_first(e, in, first, u));
    e->reg[i] = again ? e->regs[first][i] : emit_instr(e, in);
  }
}

/* Instruction i at a four's points. */
static void emit_at_four(emitter *e, const region *r, int i, const four_points *p, int first) {
  const instr *in = &r->code[i];
  four_kind kind = emit_four_kind(e, r, i, &p->along);
  at_point(e, p, first, 0);
  if (kind != FOUR_NEXT)
    emit_each(e, p, i, first, kind == FOUR_SAME && in->op == REGION_LOAD);
  else if (in->op == REGION_LOAD)
    load_four(e, in, i, first);
  else
    emit_store_four(e, in, i, first);
}

void emit_region_fours(emitter *e, const region *r, int n, const four_points *p) {
  e->code = r->code;
  for (int i = 0; i < r->n; i++)
    for (int j = 0; j < n; j++)
      emit_at_four(e, r, i, &p[j], 4 * j);
  e->reg = e->regs[0];
}

void emit_region_four(emitter *e, const region *r, const four_points *p) {
  emit_region_fours(e, r, 1, p);
}
