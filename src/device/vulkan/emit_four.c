/* See emit_four.h. */
#include "device/vulkan/emit_four.h"

/* Calls of one instruction at the points. */
static void at_point(emitter *e, const four_points *p, int u) {
  memcpy(e->axis, p->axes[u], sizeof e->axis);
  memcpy(e->acc, p->acc[u], sizeof e->acc);
  e->reg = e->regs[u];
}

static sn_dtype dtype_of(const emitter *e, const instr *i) {
  return e->env.program->values[i->at.value].type.dtype;
}

static bool fourfold(sn_dim d) { return dim_is_number(d) && d % 4 == 0; }

/* Whether fours end where the last axis does, and all that reads that axis divides it by a multiple of 4. */
static bool is_same(const access *at, const four_axes *a) {
  int last = a->first + a->n - 1;
  if (a->n < 1 || at->n_checks > 0 || !fourfold(a->extent[last]))
    return false;
  for (int i = 0; i < at->n_terms; i++)
    if (at->terms[i].axis == TERM_REG || (at->terms[i].axis == last && !fourfold(at->terms[i].div)))
      return false;
  return true;
}

/* Whether fours end where the last axis does, one term counts them, wherever it is cut, and all else moves by fours. */
static bool is_next(const access *at, const four_axes *a) {
  int last = a->first + a->n - 1, counted = 0;
  if (a->n < 1 || at->n_checks > 0 || !fourfold(a->extent[last]) || !fourfold(at->base))
    return false;
  for (int i = 0; i < at->n_terms; i++) {
    const term *t = &at->terms[i];
    bool counts = t->axis == last && t->stride == 1 && t->div == 1 && fourfold(t->mod);
    if (t->axis == TERM_REG || !(counts || fourfold(t->stride)) ||
        (t->axis == last && !counts && !fourfold(t->div)))
      return false;
    counted += counts;
  }
  return counted == 1;
}

four_kind emit_four_kind(const emitter *e, const instr *in, const four_axes *a) {
  four_kind kind = access_four(&in->at, a);
  if (kind == FOUR_APART)
    kind = is_same(&in->at, a) ? FOUR_SAME : is_next(&in->at, a) ? FOUR_NEXT : FOUR_APART;
  return kind == FOUR_NEXT && dtype_of(e, in) != SN_F32 ? FOUR_APART : kind;
}

val emit_load_four(emitter *e, const instr *in) {
  kernel *k = e->k;
  spirv *s = &k->s;
  val at = emit_linear(e, in->at.base, in->at.n_terms, in->at.terms);
  return k_load(k, spirv_vector(s, s->f32, 4), k_address(k, in->at.value), k_shr(k, at, 2));
}

static void load_four(emitter *e, const instr *in, int i) {
  val v = emit_load_four(e, in);
  for (int u = 0; u < 4; u++)
    e->regs[u][i] = k_part(e->k, v, u);
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
  k_store(k, k_address(k, in->at.value), k_shr(k, at, 2), k_vector(k, 4, x));
}

/* Whether an instruction is the same at point u as at the first: it reads registers alone, and the same ones. */
static bool as_first(const emitter *e, const instr *in, int u) {
  const reg args[3] = {in->a, in->b, in->c};
  if (in->op == REGION_NUMBER || in->op == REGION_SIZE)
    return true;
  if (in->op != REGION_ALU)
    return false;
  for (int a = 0; a < instr_arguments(in); a++)
    if (e->regs[u][args[a]] != e->regs[0][args[a]])
      return false;
  return true;
}

static void emit_each(emitter *e, const four_points *p, const instr *in, int i, bool same) {
  for (int u = 0; u < 4; u++) {
    at_point(e, p, u);
    bool again = u > 0 && (same || as_first(e, in, u));
    e->reg[i] = again ? e->regs[0][i] : emit_instr(e, in);
  }
}

void emit_region_four(emitter *e, const region *r, const four_points *p) {
  e->code = r->code;
  for (int i = 0; i < r->n; i++) {
    const instr *in = &r->code[i];
    bool memory = in->op == REGION_LOAD || in->op == REGION_STORE;
    four_kind kind = memory ? emit_four_kind(e, in, &p->along) : FOUR_APART;
    at_point(e, p, 0);
    if (kind == FOUR_NEXT)
      in->op == REGION_LOAD ? load_four(e, in, i) : emit_store_four(e, in, i, 0);
    else
      emit_each(e, p, in, i, kind == FOUR_SAME && in->op == REGION_LOAD);
  }
  e->reg = e->regs[0];
}
