/* See program_faults.h. A kind is a function that looks at one place of the program and either leaves it or changes it; places are
 * steps, values, or instructions. Changes that would mean the same (a stride along an axis of size 1, arguments that are one
 * register) are no opportunities. */
#include "support/program_fault_kind.h"

static void keep(fault_undo *u, const void *at, size_t size) {
  if (u->n == FAULT_CHANGES || size > FAULT_BYTES)
    return;
  u->changes[u->n].at = (void *)(uintptr_t)at;
  u->changes[u->n].size = size;
  memcpy(u->changes[u->n++].old, at, size);
}
void program_fault_change(fault_undo *u, const void *at, const void *to, size_t size) {
  keep(u, at, size);
  memcpy((void *)(uintptr_t)at, to, size);
}
void program_fault_restore(fault_undo *u) {
  while (u->n > 0) {
    u->n--;
    memcpy(u->changes[u->n].at, u->changes[u->n].old, u->changes[u->n].size);
  }
}

/* --- facts --- */

static int64_t most(const program *p, sn_dim d) {
  int64_t lo, hi;
  dim_range(p->dims, d, &lo, &hi);
  return hi;
}

static bool in_arena(const program_value *v) { return v->home == HOME_ARENA; }

static bool alive_together(const program_value *a, const program_value *b) {
  return in_arena(a) && in_arena(b) && a->bytes && b->bytes && a->first < b->last &&
         b->first < a->last && a->offset != b->offset;
}

static bool reads(const step *s, uint32_t value, bool store);

typedef struct question {
  uint32_t value;
  bool store, found;
} question;
static bool answer(void *user, const step_use *u) {
  question *q = user;
  q->found |= u->value == q->value && u->store == q->store;
  return true;
}
static bool reads(const step *s, uint32_t value, bool store) {
  question q = {value, store, false};
  (void)step_each_use(s, answer, &q);
  return q.found;
}

/* --- kinds on instructions; true when the fault was planted --- */

static bool wrong_alu(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_ALU || (s->i->code != ALU_add && s->i->code != ALU_mul))
    return false;
  CHANGE(u, s->i->code, (uint8_t)(s->i->code == ALU_add ? ALU_mul : ALU_add));
  return true;
}

static bool swapped_arguments(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_ALU || (s->i->code != ALU_sub && s->i->code != ALU_div) ||
      s->i->a == s->i->b)
    return false;
  reg a = s->i->a, b = s->i->b;
  CHANGE(u, s->i->a, b);
  CHANGE(u, s->i->b, a);
  return true;
}

static bool wrong_number(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_NUMBER)
    return false;
  CHANGE(u, s->i->x, s->i->x + 1);
  return true;
}

static bool wrong_register(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_ALU || s->i->a == 0 || s->i->b == s->i->a - 1 ||
      s->code->code[s->i->a - 1].phase != s->i->phase ||
      s->code->code[s->i->a - 1].op == REGION_STORE)
    return false;
  CHANGE(u, s->i->a, (reg)(s->i->a - 1));
  return true;
}

/* The first term along an axis with more than one point. */
static const term *moving_term(const fault_spot *s) {
  for (int k = 0; k < s->i->at.n_terms; k++) {
    const term *t = &s->i->at.terms[k];
    if (t->axis != TERM_REG && t->axis < s->n_axes && most(s->p, s->extents[t->axis]) > 1)
      return t;
  }
  return NULL;
}

static bool wrong_load_stride(fault_spot *s, fault_undo *u) {
  const term *t = s->i->op == REGION_LOAD ? moving_term(s) : NULL;
  if (!t || !dim_is_number(t->stride))
    return false;
  CHANGE(u, t->stride, t->stride + 1);
  return true;
}

static bool wrong_store_stride(fault_spot *s, fault_undo *u) {
  const term *t = s->i->op == REGION_STORE ? moving_term(s) : NULL;
  if (!t || !dim_is_number(t->stride))
    return false;
  CHANGE(u, t->stride, t->stride + 1);
  return true;
}

static bool stored_twice(fault_spot *s, fault_undo *u) {
  const term *t = s->i->op == REGION_STORE ? moving_term(s) : NULL;
  if (!t)
    return false;
  CHANGE(u, t->stride, 0);
  return true;
}

static bool wrong_base(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_LOAD || !dim_is_number(s->i->at.base) || s->i->at.n_checks)
    return false;
  CHANGE(u, s->i->at.base, s->i->at.base + 1);
  return true;
}

static bool wrong_div(fault_spot *s, fault_undo *u) {
  const term *t = s->i->op == REGION_LOAD ? moving_term(s) : NULL;
  if (!t || !dim_is_number(t->div))
    return false;
  CHANGE(u, t->div, (t->div < 1 ? 1 : t->div) * 2);
  return true;
}

static bool wrong_mod(fault_spot *s, fault_undo *u) {
  const term *t = s->i->op == REGION_LOAD ? moving_term(s) : NULL;
  if (!t)
    return false;
  CHANGE(u, t->mod, t->mod == 1 ? 2 : 1);
  return true;
}

static bool dropped_check(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_LOAD || !s->i->at.n_checks)
    return false;
  for (int k = 0; k < s->i->at.n_terms; k++) /* clamped anyway, and perhaps not used */
    if (s->i->at.terms[k].axis == TERM_REG)
      return false;
  CHANGE(u, s->i->at.n_checks, s->i->at.n_checks - 1);
  return true;
}

static bool wrong_reduce(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_REDUCE)
    return false;
  CHANGE(u, s->i->code, (uint8_t)(s->i->code == REDUCE_MAX ? REDUCE_MIN : REDUCE_MAX));
  return true;
}

/* Loads of rows read as if rows and points were exchanged. */
static bool wrong_axis(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_LOAD || s->operand || s->i->at.n_terms < 2)
    return false;
  const term *a = &s->i->at.terms[0], *b = &s->i->at.terms[1];
  if (a->axis == TERM_REG || b->axis == TERM_REG || a->axis == b->axis ||
      most(s->p, s->extents[a->axis]) < 2 || most(s->p, s->extents[b->axis]) < 2)
    return false;
  uint8_t first = a->axis, second = b->axis;
  CHANGE(u, a->axis, second);
  CHANGE(u, b->axis, first);
  return true;
}

static bool wrong_phase(fault_spot *s, fault_undo *u) {
  if (s->p->steps[s->step].kind != STEP_ROW || s->i->op != REGION_ALU || s->i->row ||
      s->i->phase == 0)
    return false;
  CHANGE(u, s->i->phase, (uint8_t)(s->i->phase - 1));
  return true;
}

static bool wrong_store(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_STORE || s->i->a == 0 || s->code->code[s->i->a - 1].op == REGION_STORE ||
      s->code->code[s->i->a].code == ALU_cast)
    return false;
  CHANGE(u, s->i->a, (reg)(s->i->a - 1));
  return true;
}

static bool dropped_store(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_STORE)
    return false;
  CHANGE(u, s->i->op, (uint8_t)REGION_ALU);
  CHANGE(u, s->i->code, (uint8_t)ALU_neg);
  return true;
}

static bool other_value(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_LOAD)
    return false;
  const program_value *is = &s->p->values[s->i->at.value];
  for (uint32_t v = 1; v < s->p->n_values; v++)
    if (v != s->i->at.value && s->p->values[v].type.dtype == is->type.dtype &&
        s->p->values[v].source != is->source) {
      CHANGE(u, s->i->at.value, v);
      return true;
    }
  return false;
}

static bool dropped_require(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_REQUIRE)
    return false;
  CHANGE(u, s->i->op, (uint8_t)REGION_ALU);
  CHANGE(u, s->i->code, (uint8_t)ALU_not);
  return true;
}

static bool wrong_require(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_ALU || s->i->code != ALU_ge || s->i->dtype != SN_BOOL)
    return false;
  CHANGE(u, s->i->code, (uint8_t)ALU_gt);
  return true;
}

static bool narrow_arithmetic(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_ALU || s->i->dtype != SN_F32 || s->i->code == ALU_cast ||
      s->i->code == ALU_select)
    return false;
  CHANGE(u, s->i->dtype, (uint8_t)SN_BF16);
  return true;
}

static bool matmul_over_operand(fault_spot *s, fault_undo *u) {
  const step *st = &s->p->steps[s->step];
  if (st->kind != STEP_MATMUL || s->operand || s->i->op != REGION_STORE)
    return false;
  const matmul_product *product = &s->of->u.matmul.accs[0].products[0];
  program_value *to = &s->p->values[s->i->at.value];
  for (int k = 0; k < product->a.n; k++) {
    const program_value *from = &s->p->values[product->a.code[k].at.value];
    if (product->a.code[k].op == REGION_LOAD && in_arena(from) && in_arena(to) &&
        from->offset + to->bytes <= s->p->arena_bytes) {
      CHANGE(u, to->offset, from->offset);
      return true;
    }
  }
  return false;
}

/* In place of what is read through another map. */
static bool other_map_in_place(fault_spot *s, fault_undo *u) {
  if (s->i->op != REGION_STORE || s->operand || s->i->at.n_terms < 1)
    return false;
  program_value *to = &s->p->values[s->i->at.value];
  for (int k = 0; k < s->at; k++) {
    const instr *load = &s->code->code[k];
    const program_value *from = &s->p->values[load->at.value];
    if (load->op != REGION_LOAD || !in_arena(from) || !in_arena(to) || load->at.n_terms < 1 ||
        from->bytes < to->bytes)
      continue;
    if (load->at.terms[0].stride == s->i->at.terms[0].stride &&
        load->at.terms[0].axis == s->i->at.terms[0].axis && load->at.n_terms == s->i->at.n_terms)
      continue;
    CHANGE(u, to->offset, from->offset);
    CHANGE(u, to->in_place_of, load->at.value);
    return true;
  }
  return false;
}

/* --- kinds on steps --- */

static bool missing_barrier(program *p, int s, fault_undo *u) {
  if (s == 0 || !p->steps[s].barrier)
    return false;
  CHANGE(u, p->steps[s].barrier, false);
  return true;
}

static bool swapped_steps(program *p, int s, fault_undo *u) {
  bool depends = false;
  for (uint32_t v = 1; v < p->n_values && s > 0; v++)
    depends |= p->values[v].home != HOME_STATE && reads(&p->steps[s - 1], v, true) &&
               reads(&p->steps[s], v, false);
  if (!depends)
    return false;
  step a = p->steps[s - 1], b = p->steps[s];
  CHANGE(u, p->steps[s - 1], b);
  CHANGE(u, p->steps[s], a);
  return true;
}

static bool wrong_extent(program *p, int s, fault_undo *u) {
  const step *st = &p->steps[s];
  if (st->kind > STEP_MATMUL)
    return false;
  const part *of = &st->parts[0];
  const sn_dim *extents = st->kind == STEP_MATMUL ? of->u.matmul.extent : of->u.loop.extent;
  int n = st->kind == STEP_MATMUL ? of->u.matmul.n_batch + of->u.matmul.n_m + of->u.matmul.n_n
                                  : of->u.loop.n_axes;
  for (int d = 0; d < n; d++)
    if (dim_is_number(extents[d]) && extents[d] > 1) {
      CHANGE(u, extents[d], extents[d] - 1);
      return true;
    }
  return false;
}

static bool wrong_k(program *p, int s, fault_undo *u) {
  const step *st = &p->steps[s];
  if (st->kind != STEP_MATMUL)
    return false;
  const matmul_product *product = &st->parts[0].u.matmul.accs[0].products[0];
  if (!product->n_k || !dim_is_number(product->k[0]) || product->k[0] < 2)
    return false;
  CHANGE(u, product->k[0], product->k[0] - 1);
  return true;
}

static bool is_core(const step *s) { return s->kind > STEP_MATMUL; }

static bool core_attribute(program *p, int s, fault_undo *u) {
  if (!is_core(&p->steps[s]))
    return false;
  const core_part *c = &p->steps[s].parts[0].u.core;
  CHANGE(u, c->ints[0], c->ints[0] + 1);
  return true;
}

static bool core_stride(program *p, int s, fault_undo *u) {
  if (!is_core(&p->steps[s]))
    return false;
  const strided *x = &p->steps[s].parts[0].u.core.in[0];
  for (int d = 0; d < x->rank; d++)
    if (most(p, x->dim[d]) > 1 && dim_is_number(x->stride[d])) {
      CHANGE(u, x->stride[d], x->stride[d] + 1);
      return true;
    }
  return false;
}

static bool core_result(program *p, int s, fault_undo *u) {
  if (!is_core(&p->steps[s]))
    return false;
  const strided *x = &p->steps[s].parts[0].u.core.out[0];
  for (int d = 0; d < x->rank; d++)
    if (most(p, x->dim[d]) > 1 && dim_is_number(x->dim[d])) {
      CHANGE(u, x->dim[d], x->dim[d] - 1);
      return true;
    }
  return false;
}

/* --- kinds on values --- */

static bool overlapping(program *p, int v, fault_undo *u) {
  for (uint32_t w = 1; w < p->n_values; w++)
    if (alive_together(&p->values[v], &p->values[w]) && p->values[w].bytes >= p->values[v].bytes) {
      CHANGE(u, p->values[v].offset, p->values[w].offset);
      return true;
    }
  return false;
}

/* In place of a value that a later step still reads. */
static bool in_place_too_early(program *p, int v, fault_undo *u) {
  for (uint32_t w = 1; w < p->n_values; w++)
    if (alive_together(&p->values[v], &p->values[w]) && p->values[v].first < p->values[w].last &&
        reads(&p->steps[p->values[v].first], w, false)) {
      CHANGE(u, p->values[v].offset, p->values[w].offset);
      CHANGE(u, p->values[v].in_place_of, w);
      return true;
    }
  return false;
}

static bool misaligned(program *p, int v, fault_undo *u) {
  if (!in_arena(&p->values[v]))
    return false;
  CHANGE(u, p->values[v].offset, p->values[v].offset + 4);
  return true;
}

static bool outside(program *p, int v, fault_undo *u) {
  if (!in_arena(&p->values[v]) || !p->values[v].bytes)
    return false;
  CHANGE(u, p->values[v].offset,
         (p->arena_bytes + PROGRAM_ALIGN - 1) / PROGRAM_ALIGN * PROGRAM_ALIGN);
  return true;
}

static bool too_little_room(program *p, int v, fault_undo *u) {
  if (!p->values[v].bytes)
    return false;
  CHANGE(u, p->values[v].bytes, p->values[v].bytes - 1);
  return true;
}

static bool wrong_life(program *p, int v, fault_undo *u) {
  if (!in_arena(&p->values[v]))
    return false;
  CHANGE(u, p->values[v].last, p->values[v].last - 1);
  return true;
}

static bool input_written(program *p, int v, fault_undo *u) {
  if (!in_arena(&p->values[v]) || p->n_inputs == 0)
    return false;
  CHANGE(u, p->values[v].home, HOME_INPUT);
  CHANGE(u, p->values[v].index, 0);
  return true;
}

static bool wrong_source(program *p, int v, fault_undo *u) {
  if (!in_arena(&p->values[v]))
    return false;
  for (uint32_t w = 1; w < p->n_values; w++)
    if (p->values[w].source != p->values[v].source && p->values[w].home != HOME_STATE) {
      CHANGE(u, p->values[v].source, p->values[w].source);
      return true;
    }
  return false;
}

static bool prepared_in_arena(program *p, int v, fault_undo *u) {
  if (p->values[v].home != HOME_PREPARED || p->arena_bytes < p->values[v].bytes ||
      p->values[v].last < p->n_prepare)
    return false;
  CHANGE(u, p->values[v].home, HOME_ARENA);
  CHANGE(u, p->values[v].offset, 0);
  return true;
}

static bool double_commit(program *p, int v, fault_undo *u) {
  for (uint32_t w = 1; w < p->n_values; w++)
    if (p->values[v].home == HOME_STATE && p->values[w].home == HOME_STATE &&
        p->values[v].first >= 0 && p->values[w].first >= 0 &&
        p->values[v].index != p->values[w].index) {
      CHANGE(u, p->values[v].index, p->values[w].index);
      return true;
    }
  return false;
}

/* --- kinds on the program --- */

static bool missing_commit(program *p, int n, fault_undo *u) {
  if (n || !p->n_commit)
    return false;
  CHANGE(u, p->n_commit, p->n_commit - 1);
  return true;
}

static bool commit_in_main(program *p, int n, fault_undo *u) {
  if (n || !p->n_commit)
    return false;
  CHANGE(u, p->n_main, p->n_main + p->n_commit);
  CHANGE(u, p->n_commit, 0);
  return true;
}

/* The last step that requires something becomes part of commit. */
static bool require_in_commit(program *p, int n, fault_undo *u) {
  int at = -1;
  for (int s = p->n_prepare; s < p->n_prepare + p->n_main; s++)
    for (int k = 0; k < p->steps[s].n_parts && p->steps[s].kind <= STEP_ROW; k++)
      for (int i = 0; i < p->steps[s].parts[k].u.loop.code.n; i++)
        if (p->steps[s].parts[k].u.loop.code.code[i].op == REGION_REQUIRE)
          at = s;
  if (n || at < 0)
    return false;
  int moved = p->n_prepare + p->n_main - at;
  CHANGE(u, p->n_commit, p->n_commit + moved);
  CHANGE(u, p->n_main, p->n_main - moved);
  return true;
}

static bool stale_prepare(program *p, int n, fault_undo *u) {
  for (int i = 0; i < p->n_states; i++)
    if (p->states[i].prepares && n-- == 0) {
      CHANGE(u, p->states[i].assigned, true);
      return true;
    }
  return false;
}

static bool unmarked_prepare(program *p, int n, fault_undo *u) {
  for (int i = 0; i < p->n_states; i++)
    if (p->states[i].prepares && n-- == 0) {
      CHANGE(u, p->states[i].prepares, false);
      return true;
    }
  return false;
}

static bool small_arena(program *p, int n, fault_undo *u) {
  if (n || !p->arena_bytes)
    return false;
  CHANGE(u, p->arena_bytes, p->arena_bytes - PROGRAM_ALIGN);
  return true;
}

static bool dropped_requirement(program *p, int n, fault_undo *u) {
  if (n || !p->n_requirements)
    return false;
  CHANGE(u, p->n_requirements, 0); /* one alone may follow from the others */
  return true;
}

/* --- the table --- */

#define MEANING "stores to element", "reads element", "reads elements", "sizes", "another dtype"
#define COVER \
  "of which stores write", "more than once", "of a slice", "do not fit", "writes element", "digits"
#define READS "is read before", "stores are done", "overwritten", "does not last"
#define RACES "without a barrier", "in place of", "begins a section"

static const fault_kind kinds[] = {
    {"wrong alu", wrong_alu, .words = {MEANING, "no step checks"}},
    {"swapped arguments", swapped_arguments, .words = {MEANING, "no step checks"}},
    {"wrong number", wrong_number, .words = {MEANING, "no step checks"}},
    {"wrong register", wrong_register,
     .words = {MEANING, "no step checks", "register", "nothing reads"}},
    {"wrong stride of a load", wrong_load_stride,
     .words = {MEANING, "in place of", "no step checks"}},
    {"wrong stride of a store", wrong_store_stride,
     .words = {COVER, "writes elements", "in place of", "stores to"}},
    {"stored twice", stored_twice, .words = {COVER, "in place of"}},
    {"wrong base", wrong_base, .words = {MEANING, "in place of", "no step checks"}},
    {"wrong div", wrong_div, .words = {MEANING, "in place of", "no step checks"}},
    {"wrong mod", wrong_mod, .words = {MEANING, "in place of", "no step checks"}},
    {"dropped check", dropped_check, .words = {MEANING}},
    {"wrong reduction", wrong_reduce, .words = {MEANING}},
    {"rows and points exchanged", wrong_axis, .words = {MEANING, "in place of", "names an axis"}},
    {"wrong phase", wrong_phase, .words = {"phase", "register"}},
    {"wrong register stored", wrong_store, .words = {MEANING, "register", "nothing reads"}},
    {"dropped store", dropped_store,
     .words = {READS, COVER, "not written", "no step commits", "is said to last",
               "what stands in its home"}},
    {"another value loaded", other_value,
     .words = {MEANING, READS, "is said to last", RACES, "another dtype", "prepare",
               "no step checks"}},
    {"dropped require", dropped_require, .words = {"no step checks", "for nothing"}},
    {"wrong require", wrong_require, .words = {"no step checks", MEANING}},
    {"narrow arithmetic", narrow_arithmetic, .words = {MEANING, "no step checks"}},
    {"matmul over its operand", matmul_over_operand,
     .words = {"operand of a matmul", READS, "same places", RACES}},
    {"in place through another map", other_map_in_place,
     .words = {"map", "same places", READS, RACES}},
    {"missing barrier", .on_step = missing_barrier, .words = {RACES}},
    {"swapped steps", .on_step = swapped_steps,
     .words = {READS, "prepare step", "main step", "commit", "section"}},
    {"wrong extent", .on_step = wrong_extent, .words = {COVER, MEANING, "no step checks"}},
    {"wrong k", .on_step = wrong_k, .words = {MEANING}},
    {"core's attribute", .on_step = core_attribute, .words = {"other numbers"}},
    {"core's stride", .on_step = core_stride,
     .words = {"is not where", "reads elements", "scatter"}},
    {"core's result", .on_step = core_result, .words = {COVER, "other sizes"}},
    {"overlap", .on_value = overlapping, .words = {READS, RACES}},
    {"in place too early", .on_value = in_place_too_early,
     .words = {READS, RACES, "outside its arena"}},
    {"misaligned", .on_value = misaligned, .words = {"aligned", "stands elsewhere"}},
    {"outside", .on_value = outside, .words = {"outside its arena", "stands elsewhere"}},
    {"too little room", .on_value = too_little_room, .words = {"has room for"}},
    {"wrong life", .on_value = wrong_life, .words = {"is said to last"}},
    {"input written", .on_value = input_written,
     .words = {"is written by", "what stands in its home"}},
    {"wrong source", .on_value = wrong_source,
     .words = {MEANING, "another type", "is not", "makes results of"}},
    {"prepared in the arena", .on_value = prepared_in_arena, .words = {READS, RACES}},
    {"double commit", .on_value = double_commit,
     .words = {"is committed to", "stands in its home"}},
    {"missing commit", .on_program = missing_commit,
     .words = {"no step commits", "is said to last", "stands in its home", "is not written"}},
    {"commit in main", .on_program = commit_in_main, .words = {"main step", "no step commits"}},
    {"require in commit", .on_program = require_in_commit, .words = {"in commit"}},
    {"stale prepare", .on_program = stale_prepare, .words = {"is assigned"}},
    {"unmarked prepare", .on_program = unmarked_prepare, .words = {"not marked"}},
    {"small arena", .on_program = small_arena, .words = {"outside its arena"}},
    {"dropped requirement", .on_program = dropped_requirement,
     .words = {"nothing refuses", "elements", "has an axis"}},
};

static const fault_kind *kind_at(int kind) {
  int own = (int)COUNT_OF(kinds);
  return kind < own ? &kinds[kind] : &hostile_kinds[kind - own];
}
int program_fault_kinds(void) { return (int)COUNT_OF(kinds) + hostile_kind_count; }
const char *program_fault_name(int kind) { return kind_at(kind)->name; }
const char *const *program_fault_words(int kind) { return kind_at(kind)->words; }

/* --- walking to the n-th opportunity --- */

typedef struct search {
  const fault_kind *kind;
  int n; /* opportunities still to pass by */
  fault_undo *undo;
} search;

/* Plants; when this opportunity is not the one, takes it back. */
static bool settle(search *w, bool planted) {
  if (!planted)
    return false;
  if (w->n-- == 0)
    return true;
  program_fault_restore(w->undo);
  return false;
}

static bool requires_something(const region *r) {
  for (int i = 0; i < r->n; i++)
    if (r->code[i].op == REGION_REQUIRE)
      return true;
  return false;
}

static bool loads(const region *r, uint32_t value) {
  for (int i = 0; i < r->n; i++)
    if (r->code[i].op == REGION_LOAD && r->code[i].at.value == value)
      return true;
  return false;
}

/* Whether another region may require the same: then nothing is lost when this one does not. */
static bool required_twice(const program *p, const region *r) {
  for (int s = 0; s < program_steps(p); s++)
    for (int k = 0; k < p->steps[s].n_parts && p->steps[s].kind <= STEP_ROW; k++) {
      const region *other = &p->steps[s].parts[k].u.loop.code;
      if (other == r || !requires_something(other))
        continue;
      for (int i = 0; i < r->n; i++)
        if (r->code[i].op == REGION_LOAD && loads(other, r->code[i].at.value))
          return true;
    }
  return false;
}

static bool in_region(search *w, fault_spot s, const region *r) {
  s.code = r;
  if (requires_something(r) && required_twice(s.p, r))
    return false;
  for (s.at = 0; s.at < r->n; s.at++) {
    s.i = (instr *)(uintptr_t)&r->code[s.at];
    if (settle(w, w->kind->on_instr(&s, w->undo)))
      return true;
  }
  return false;
}

static bool in_part(search *w, fault_spot s) {
  const step *st = &s.p->steps[s.step];
  if (st->kind > STEP_MATMUL)
    return false;
  if (st->kind != STEP_MATMUL) {
    s.extents = s.of->u.loop.extent;
    s.n_axes = s.of->u.loop.n_axes;
    return in_region(w, s, &s.of->u.loop.code);
  }
  const matmul_part *m = &s.of->u.matmul;
  s.extents = m->extent;
  s.n_axes = m->n_batch + m->n_m + m->n_n;
  s.operand = true;
  for (int a = 0; a < m->n_accs; a++)
    for (int k = 0; k < m->accs[a].n_products; k++)
      if (in_region(w, s, &m->accs[a].products[k].a) || in_region(w, s, &m->accs[a].products[k].b))
        return true;
  s.operand = false;
  return in_region(w, s, &m->epilogue);
}

bool program_fault_plant(program *p, int kind, int n, fault_undo *undo) {
  search w = {kind_at(kind), n, undo};
  undo->n = 0;
  if (w.kind->on_program)
    return w.kind->on_program(p, n, undo);
  for (int s = 0; s < program_steps(p); s++) {
    if (w.kind->on_step && settle(&w, w.kind->on_step(p, s, undo)))
      return true;
    for (int k = 0; w.kind->on_instr && k < p->steps[s].n_parts; k++)
      if (in_part(&w,
                  (fault_spot){.p = p, .step = s, .of = (part *)(uintptr_t)&p->steps[s].parts[k]}))
        return true;
  }
  for (uint32_t v = 1; w.kind->on_value && v < p->n_values; v++)
    if (settle(&w, w.kind->on_value(p, (int)v, undo)))
      return true;
  return false;
}
