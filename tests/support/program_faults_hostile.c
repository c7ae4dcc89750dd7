/* See program_fault_kind.h: what a file might hold that no planner makes. Each must be refused before a device sees it: it would
 * read or write outside of memory, divide by zero, or never end. */
#include "support/program_fault_kind.h"

#include <math.h>

/* --- instructions --- */

static bool load_dtype(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_LOAD || (s->i->dtype != SN_F32 && s->i->dtype != SN_I32))
    return false;
  CHANGE(u, s->i->dtype, (uint8_t)(s->i->dtype == SN_F32 ? SN_BF16 : SN_U8));
  return true;
}

static bool store_dtype(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_STORE)
    return false;
  CHANGE(u, s->i->dtype, (uint8_t)(s->i->dtype == SN_F16 ? SN_BF16 : SN_F16));
  return true;
}

static bool no_dtype(fault_spot *s, fault_undo *u) {
  CHANGE(u, s->i->dtype, (uint8_t)(s->at % 2 ? SN_NO_DTYPE : SN_DTYPE_COUNT));
  return true;
}

static bool no_instruction(fault_spot *s, fault_undo *u) {
  CHANGE(u, s->i->op, (uint8_t)(REGION_REQUIRE + 1 + s->at % 9));
  return true;
}

static bool no_code(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_ALU && s->i->op != REGION_REDUCE)
    return false;
  CHANGE(u, s->i->code, (uint8_t)(s->i->op == REGION_ALU ? ALU_COUNT : REDUCE_ALL + 1));
  return true;
}

static bool later_register(fault_spot *s, fault_undo *u) {
  if (!instr_arguments(s->i))
    return false;
  CHANGE(u, s->i->a, (reg)(s->at + s->at % 2 * 3000));
  return true;
}

static bool no_accumulator(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_ACC)
    return false;
  CHANGE(u, s->i->index, (uint32_t)s->of->u.matmul.n_accs);
  return true;
}

static bool misplaced_accumulator(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_LOAD || (s->p->steps[s->step].kind == STEP_MATMUL && !s->operand))
    return false;
  CHANGE(u, s->i->op, (uint8_t)REGION_ACC);
  CHANGE(u, s->i->index, 0);
  return true;
}

static bool misplaced_reduction(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_ALU || (s->p->steps[s->step].kind == STEP_ROW && !s->i->row))
    return false;
  CHANGE(u, s->i->op, (uint8_t)REGION_REDUCE);
  CHANGE(u, s->i->code, (uint8_t)REDUCE_SUM);
  return true;
}

static bool no_phase(fault_spot *s, fault_undo *u) {
  CHANGE(u, s->i->phase, (uint8_t)200);
  return true;
}

static bool no_value(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_LOAD && s->i->op != REGION_STORE)
    return false;
  CHANGE(u, s->i->at.value, s->at % 2 ? 0 : s->p->n_values);
  return true;
}

static bool no_axis(fault_spot *s, fault_undo *u) {
  if (!s->i->at.n_terms || s->i->at.terms[0].axis == TERM_REG)
    return false;
  CHANGE(u, s->i->at.terms[0].axis, (uint8_t)(s->at % 2 ? 254 : REGION_AXES + SN_MAX_RANK));
  return true;
}

static bool no_terms(fault_spot *s, fault_undo *u) {
  CHANGE(u, s->i->at.n_terms, s->at % 2 ? -1 : ACCESS_TERMS + 1);
  return true;
}

static bool no_checks(fault_spot *s, fault_undo *u) {
  CHANGE(u, s->i->at.n_checks, s->at % 2 ? -1 : ACCESS_CHECKS + 1);
  return true;
}

static bool negative_div(fault_spot *s, fault_undo *u) {
  if (!s->i->at.n_terms)
    return false;
  CHANGE(u, s->i->at.terms[0].div, -3);
  return true;
}

static bool negative_mod(fault_spot *s, fault_undo *u) {
  if (!s->i->at.n_terms)
    return false;
  CHANGE(u, s->i->at.terms[0].mod, -3);
  return true;
}

static bool wide_stride(fault_spot *s, fault_undo *u) {
  if (!s->i->at.n_terms)
    return false;
  CHANGE(u, s->i->at.terms[0].stride, DIM_LIMIT - 1);
  return true;
}

static bool far_base(fault_spot *s, fault_undo *u) {
  if ((s->i->op != REGION_LOAD && s->i->op != REGION_STORE) || s->i->at.n_checks)
    return false;
  CHANGE(u, s->i->at.base, s->at % 2 ? -1 : DIM_LIMIT - 1);
  return true;
}

static bool negative_divisor(fault_spot *s, fault_undo *u) {
  if (!s->i->at.n_checks)
    return false;
  CHANGE(u, s->i->at.checks[0].divisor, -1);
  return true;
}

/* A register as an index that nothing bounds. */
static bool unbounded_register(fault_spot *s, fault_undo *u) {
  for (int k = 0; s->i->op == REGION_LOAD && !s->i->at.n_checks && k < s->i->at.n_terms; k++)
    if (s->i->at.terms[k].axis == TERM_REG) {
      CHANGE(u, s->i->at.terms[k].mod, s->at % 2 ? 0 : DIM_LIMIT / 2);
      return true;
    }
  return false;
}

static bool store_under_check(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_STORE)
    return false;
  for (int k = 0; k < s->code->n; k++)
    if (s->code->code[k].at.n_checks) {
      CHANGE(u, s->i->at.n_checks, 1);
      CHANGE(u, s->i->at.checks, s->code->code[k].at.checks);
      return true;
    }
  return false;
}

static bool no_site(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_REQUIRE)
    return false;
  CHANGE(u, s->i->index, (uint32_t)s->p->n_sites);
  return true;
}

/* --- steps --- */

/* Extents of the first part of a loop or matmul. */
static const sn_dim *extents_of(const step *s, int *n) {
  const part *of = &s->parts[0];
  *n = s->kind == STEP_MATMUL  ? of->u.matmul.n_batch + of->u.matmul.n_m + of->u.matmul.n_n
       : s->kind < STEP_MATMUL ? of->u.loop.n_axes
                               : 0;
  return s->kind == STEP_MATMUL ? of->u.matmul.extent : of->u.loop.extent;
}

/* Two, whose product is what it was or positive. */
static bool negative_extents(program *p, int s, fault_undo *u) {
  int n;
  const sn_dim *extents = extents_of(&p->steps[s], &n);
  if (n < 2)
    return false;
  CHANGE(u, extents[0], dim_is_number(extents[0]) ? -extents[0] : -2);
  CHANGE(u, extents[1], dim_is_number(extents[1]) ? -extents[1] : -2);
  return p->steps[s].kind != STEP_MATMUL || dim_is_number(extents[0]);
}

static bool endless_extent(program *p, int s, fault_undo *u) {
  int n;
  const sn_dim *extents = extents_of(&p->steps[s], &n);
  if (n < 1)
    return false;
  CHANGE(u, extents[n - 1], DIM_LIMIT / 2);
  return true;
}

static bool endless_k(program *p, int s, fault_undo *u) {
  const matmul_part *m = &p->steps[s].parts[0].u.matmul;
  if (p->steps[s].kind != STEP_MATMUL || !m->accs[0].products[0].n_k)
    return false;
  CHANGE(u, m->accs[0].products[0].k[0], s % 2 ? -4 : DIM_LIMIT / 2);
  return true;
}

static bool too_many_axes(program *p, int s, fault_undo *u) {
  const part *of = &p->steps[s].parts[0];
  if (p->steps[s].kind > STEP_MATMUL)
    return false;
  if (p->steps[s].kind == STEP_MATMUL)
    CHANGE(u, of->u.matmul.n_m, s % 2 ? -1 : REGION_AXES + 1);
  else
    CHANGE(u, of->u.loop.n_axes, s % 2 ? -1 : REGION_AXES + 1);
  return true;
}

static bool wrong_outer(program *p, int s, fault_undo *u) {
  const loop_part *l = &p->steps[s].parts[0].u.loop;
  if (p->steps[s].kind > STEP_ROW)
    return false;
  CHANGE(u, l->n_outer, s % 2 ? -1 : l->n_axes + 1);
  return true;
}

static bool wrong_phases(program *p, int s, fault_undo *u) {
  const loop_part *l = &p->steps[s].parts[0].u.loop;
  if (p->steps[s].kind > STEP_ROW)
    return false;
  CHANGE(u, l->n_phases, s % 2 ? 0 : 1 << 20);
  return true;
}

static bool no_products(program *p, int s, fault_undo *u) {
  if (p->steps[s].kind != STEP_MATMUL)
    return false;
  CHANGE(u, p->steps[s].parts[0].u.matmul.accs[0].n_products, 0);
  return true;
}

static bool empty_operand(program *p, int s, fault_undo *u) {
  if (p->steps[s].kind != STEP_MATMUL)
    return false;
  CHANGE(u, p->steps[s].parts[0].u.matmul.accs[0].products[0].b.n, 0);
  return true;
}

static bool too_long(program *p, int s, fault_undo *u) {
  if (p->steps[s].kind > STEP_ROW)
    return false;
  CHANGE(u, p->steps[s].parts[0].u.loop.code.n, s % 2 ? -1 : REGION_MAX + 1);
  return true;
}

static bool no_archetype(program *p, int s, fault_undo *u) {
  CHANGE(u, p->steps[s].kind, STEP_ARCHETYPES);
  return true;
}

static bool no_parts(program *p, int s, fault_undo *u) {
  CHANGE(u, p->steps[s].n_parts, s % 2 ? 0 : -1);
  return true;
}

static bool no_number(program *p, int s, fault_undo *u) {
  if (s % 2)
    CHANGE(u, p->steps[s].flops, (double)NAN);
  else
    CHANGE(u, p->steps[s].launches, -1);
  return true;
}

static const uint32_t nowhere[] = {UINT32_MAX};
static bool after_nothing(program *p, int s, fault_undo *u) {
  CHANGE(u, p->steps[s].n_after, 1);
  CHANGE(u, p->steps[s].after, nowhere);
  return true;
}

/* --- cores --- */

static const core_part *core_of(const program *p, int s) {
  return p->steps[s].kind > STEP_MATMUL ? &p->steps[s].parts[0].u.core : NULL;
}

static bool core_dtype(program *p, int s, fault_undo *u) {
  const core_part *c = core_of(p, s);
  if (!c)
    return false;
  CHANGE(u, c->in[0].dtype, (uint8_t)(c->in[0].dtype == SN_F16 ? SN_F32 : SN_F16));
  return true;
}

static bool core_base(program *p, int s, fault_undo *u) {
  const core_part *c = core_of(p, s);
  if (!c)
    return false;
  CHANGE(u, c->in[0].base, s % 2 ? -1 : DIM_LIMIT - 1);
  return true;
}

static bool core_wide_stride(program *p, int s, fault_undo *u) {
  const core_part *c = core_of(p, s);
  for (int d = 0; c && d < c->out[0].rank; d++)
    if (dim_is_number(c->out[0].dim[d]) && c->out[0].dim[d] > 1) {
      CHANGE(u, c->out[0].stride[d], DIM_LIMIT - 1);
      return true;
    }
  return false;
}

static bool core_negative_dim(program *p, int s, fault_undo *u) {
  const core_part *c = core_of(p, s);
  if (!c || !c->in[0].rank)
    return false;
  CHANGE(u, c->in[0].dim[0], -1);
  return true;
}

static bool core_rank(program *p, int s, fault_undo *u) {
  const core_part *c = core_of(p, s);
  if (!c)
    return false;
  CHANGE(u, c->out[0].rank, s % 2 ? -1 : SN_MAX_RANK + 1);
  return true;
}

static bool core_operands(program *p, int s, fault_undo *u) {
  const core_part *c = core_of(p, s);
  if (!c)
    return false;
  CHANGE(u, c->n_in, s % 2 ? CORE_INS + 1 : -1);
  return true;
}

static bool core_real(program *p, int s, fault_undo *u) {
  const core_part *c = core_of(p, s);
  if (!c || p->steps[s].kind != STEP_ATTENTION)
    return false;
  CHANGE(u, c->reals[0], (double)NAN);
  return true;
}

static bool core_over_operand(program *p, int s, fault_undo *u) {
  const core_part *c = core_of(p, s);
  if (!c || p->steps[s].kind == STEP_SCATTER)
    return false;
  program_value *to = &p->values[c->out[0].value];
  const program_value *from = &p->values[c->in[0].value];
  if (to->home != HOME_ARENA || from->home != to->home || from->bytes < to->bytes)
    return false;
  CHANGE(u, to->offset, from->offset);
  return true;
}

/* --- values and the program --- */

static bool no_home(program *p, int v, fault_undo *u) {
  CHANGE(u, p->values[v].home, HOME_CONSTANT + 1);
  return true;
}

static bool no_index(program *p, int v, fault_undo *u) {
  if (p->values[v].home == HOME_ARENA || p->values[v].home == HOME_PREPARED)
    return false;
  CHANGE(u, p->values[v].index, UINT32_MAX);
  return true;
}

static bool no_source(program *p, int v, fault_undo *u) {
  CHANGE(u, p->values[v].source, v % 2 ? 0 : UINT32_MAX);
  return true;
}

static bool in_place_of_nothing(program *p, int v, fault_undo *u) {
  CHANGE(u, p->values[v].in_place_of, p->n_values);
  return true;
}

static bool wrong_count(program *p, int v, fault_undo *u) {
  if (!dim_is_number(p->values[v].count))
    return false;
  CHANGE(u, p->values[v].count, p->values[v].count + 1);
  return true;
}

static bool wrong_type(program *p, int v, fault_undo *u) {
  CHANGE(u, p->values[v].type.dtype, p->values[v].type.dtype == SN_F32 ? SN_I32 : SN_F32);
  return true;
}

static bool far_offset(program *p, int v, fault_undo *u) {
  if (p->values[v].home != HOME_ARENA || !p->values[v].bytes)
    return false;
  CHANGE(u, p->values[v].offset,
         v % 2 ? -PROGRAM_ALIGN : INT64_MAX / PROGRAM_ALIGN * PROGRAM_ALIGN);
  return true;
}

/* A larger value over an output or a state that the caller has made for a smaller one. */
static bool large_in_home(program *p, int v, fault_undo *u) {
  if (p->values[v].home != HOME_ARENA)
    return false;
  for (int k = 0; k < p->n_outputs; k++)
    if (p->values[p->outputs[k].value].bytes < p->values[v].bytes) {
      CHANGE(u, p->values[v].home, HOME_OUTPUT);
      CHANGE(u, p->values[v].index, (uint32_t)k);
      return true;
    }
  return false;
}

static bool leaf_type(program *p, int n, fault_undo *u) {
  if (n >= p->n_inputs)
    return false;
  CHANGE(u, p->inputs[n].type.dtype, SN_DTYPE_COUNT);
  return true;
}

static bool leaf_value(program *p, int n, fault_undo *u) {
  if (n >= p->n_states)
    return false;
  CHANGE(u, p->states[n].value, UINT32_MAX);
  return true;
}

static bool no_output(program *p, int n, fault_undo *u) {
  if (n >= p->n_outputs)
    return false;
  CHANGE(u, p->outputs[n].value, n % 2 ? 0 : p->n_values);
  return true;
}

static bool negative_sections(program *p, int n, fault_undo *u) {
  if (n)
    return false;
  CHANGE(u, p->n_main, p->n_main + p->n_prepare + 1);
  CHANGE(u, p->n_prepare, -1);
  return true;
}

#define RANGE "range of sizes", "elements", "leaves", "digits", "in place of"
const fault_kind hostile_kinds[] = {
    {"load of another dtype", load_dtype, .words = {"another dtype"}},
    {"store of another dtype", store_dtype, .words = {"another dtype"}},
    {"no dtype", no_dtype, .words = {"no dtype"}},
    {"no instruction", no_instruction, .words = {"is no instruction"}},
    {"no operation", no_code, .words = {"is no arithmetic", "is no reduction"}},
    {"register to come", later_register, .words = {"not there yet"}},
    {"no accumulator", no_accumulator, .words = {"accumulator"}},
    {"misplaced accumulator", misplaced_accumulator, .words = {"accumulator"}},
    {"misplaced reduction", misplaced_reduction, .words = {"no rows"}},
    {"no phase", no_phase, .words = {"phase"}},
    {"no value", no_value, .words = {"value that is not there"}},
    {"no axis", no_axis, .words = {"axis"}},
    {"no terms", no_terms, .words = {"number of terms"}},
    {"no checks", no_checks, .words = {"checks"}},
    {"negative div", negative_div, .words = {RANGE}},
    {"negative mod", negative_mod, .words = {RANGE}},
    {"wide stride", wide_stride, .words = {RANGE}},
    {"far base", far_base, .words = {RANGE}},
    {"negative divisor", negative_divisor, .words = {"no size"}},
    {"unbounded register", unbounded_register, .words = {RANGE, "what is not"}},
    {"store under a check", store_under_check, .words = {"store with checks"}},
    {"no site", no_site, .words = {"without a message"}},
    {"negative extents", .on_step = negative_extents, .words = {"has an axis"}},
    {"endless extent", .on_step = endless_extent,
     .words = {RANGE, "more points", "for nothing", "of which stores", "depends on"}},
    {"endless k", .on_step = endless_k, .words = {RANGE, "more points", "has an axis"}},
    {"too many axes", .on_step = too_many_axes, .words = {"is a loop over", "is a matmul over"}},
    {"wrong outer", .on_step = wrong_outer, .words = {"is a loop over"}},
    {"wrong phases", .on_step = wrong_phases, .words = {"is a loop over"}},
    {"no products", .on_step = no_products, .words = {"without products"}},
    {"empty operand", .on_step = empty_operand, .words = {"without operands"}},
    {"too long", .on_step = too_long, .words = {"instructions"}},
    {"no archetype", .on_step = no_archetype, .words = {"no archetype"}},
    {"no parts", .on_step = no_parts, .words = {"no parts"}},
    {"no number", .on_step = no_number, .words = {"counts that cannot be"}},
    {"after nothing", .on_step = after_nothing, .words = {"must be made before"}},
    {"core's dtype", .on_step = core_dtype, .words = {"another dtype"}},
    {"core's base", .on_step = core_base, .words = {RANGE}},
    {"core's wide stride", .on_step = core_wide_stride, .words = {RANGE}},
    {"core's negative dim", .on_step = core_negative_dim, .words = {"has an axis"}},
    {"core's rank", .on_step = core_rank, .words = {"not there"}},
    {"core's operands", .on_step = core_operands, .words = {"operands"}},
    {"core's number", .on_step = core_real, .words = {"other numbers"}},
    {"core over its operand", .on_step = core_over_operand,
     .words = {"in its own order", "same places", "overwritten", "without a barrier"}},
    {"no home", .on_value = no_home, .words = {"no home", "in another value", "is not output"}},
    {"no index", .on_value = no_index,
     .words = {"stands in its home", "in another value", "is not output"}},
    {"no source", .on_value = no_source, .words = {"no value of the graph"}},
    {"in place of nothing", .on_value = in_place_of_nothing, .words = {"no home"}},
    {"wrong count", .on_value = wrong_count, .words = {"another type"}},
    {"wrong type", .on_value = wrong_type, .words = {"another type", "another dtype"}},
    {"far offset", .on_value = far_offset, .words = {"no place"}},
    {"large in a small home", .on_value = large_in_home,
     .words = {"as large as its home", "prepare step"}},
    {"leaf's type", .on_program = leaf_type, .words = {"not one of the graph"}},
    {"leaf's value", .on_program = leaf_value, .words = {"in another value"}},
    {"no output", .on_program = no_output, .words = {"is not output"}},
    {"negative sections", .on_program = negative_sections, .words = {"sections"}},
};
const int hostile_kind_count = (int)COUNT_OF(hostile_kinds);
