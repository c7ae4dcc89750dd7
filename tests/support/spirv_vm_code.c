/* From instructions to the form that runs: operands looked up, widths known, ways into blocks with their phis'
 * copies. See spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

static uint32_t ref_of(const vm_module *m, uint32_t id) { return m->ids[id].ref; }

/* --- ways --- */

/* The way from block `from` to the block of a label; its pc is filled in at the end. */
static uint32_t edge_to(vm_module *m, uint32_t from, uint32_t label) {
  uint32_t to = m->ids[label].ref;
  vm_edge e = {.block = to, .first = m->extra.n};
  for (uint32_t at = m->blocks.at[to].at; at <= m->blocks.at[to].last; at += vm_length(m, at)) {
    const uint32_t *w = m->words + at;
    int code = vm_code_at(m, at);
    if (code != VM_Label && code != VM_Phi)
      break;
    for (uint32_t i = 3; code == VM_Phi && i + 1 < vm_length(m, at); i += 2)
      if (w[i + 1] == m->blocks.at[from].label) {
        PUSH(m->extra, ref_of(m, w[2]));
        PUSH(m->extra, ref_of(m, w[i]));
        PUSH(m->extra, vm_type_at(m, w[1])->words);
        e.n++;
      }
  }
  PUSH(m->edges, e);
  return m->edges.n - 1;
}

static void write_branch(vm_module *m, int code, uint32_t at, uint32_t block, vm_op *o) {
  const uint32_t *w = m->words + at;
  if (code == VM_Branch) {
    o->a = edge_to(m, block, w[1]);
    return;
  }
  o->a = ref_of(m, w[1]);
  o->b = edge_to(m, block, w[2]);
  if (code == VM_BranchConditional) {
    o->c = edge_to(m, block, w[3]);
    return;
  }
  uint32_t edges[256], n = (vm_length(m, at) - 3) / 2; /* edges have their copies in `extra` too */
  o->m = (uint16_t)(n < 256 ? n : 256);
  for (uint32_t i = 0; i < o->m; i++)
    edges[i] = edge_to(m, block, w[4 + 2 * i]);
  o->c = m->extra.n;
  for (uint32_t i = 0; i < o->m; i++) {
    PUSH(m->extra, w[3 + 2 * i]);
    PUSH(m->extra, edges[i]);
  }
}

/* --- functions --- */

static bool write_call(vm_module *m, uint32_t at, vm_op *o) {
  const uint32_t *w = m->words + at;
  if (w[3] >= m->bound || m->ids[w[3]].what != ID_FUNCTION)
    return vm_wrong(m, at, "%%%u is no function", w[3]);
  const vm_function *f = &m->functions.at[m->ids[w[3]].ref];
  const vm_type *type = vm_type_at(m, f->type);
  if (vm_length(m, at) - 4 != f->n_parameters || type->n != f->n_parameters || type->of != w[1])
    return vm_wrong(m, at, "arguments or result are not those of the function");
  o->a = m->ids[w[3]].ref;
  o->b = m->extra.n;
  o->m = (uint16_t)f->n_parameters;
  for (uint32_t i = 0; i < f->n_parameters; i++) {
    const vm_type *t = vm_type_of(m, w[4 + i]);
    if (!t || t->id != type->member[i])
      return vm_wrong(m, at, "argument %u has another type", i);
    PUSH(m->extra, ref_of(m, w[4 + i]));
    PUSH(m->extra, t->words);
  }
  return true;
}

static bool write_return(vm_module *m, uint32_t at, uint32_t block, vm_op *o) {
  const vm_function *f = &m->functions.at[m->blocks.at[block].function];
  const vm_type *type = vm_type_at(m, f->type), *wanted = type ? vm_type_at(m, type->of) : NULL;
  bool gives = o->code == VM_ReturnValue;
  const vm_type *t = gives ? vm_type_of(m, m->words[at + 1]) : NULL;
  if (!wanted || (gives ? !vm_type_same(t, wanted) : wanted->kind != KIND_VOID))
    return vm_wrong(m, at, "not what the function returns");
  o->n = (uint16_t)(gives ? t->words : 0);
  o->a = gives ? ref_of(m, m->words[at + 1]) : 0;
  return true;
}

/* --- composites: lists of words --- */

/* The scalar at which a path of literals ends, and its type. */
static bool follow(vm_module *m, uint32_t at, uint32_t first, const vm_type *t, uint32_t *out_word,
                   const vm_type **out_type) {
  *out_word = 0;
  for (uint32_t i = first; i < vm_length(m, at); i++) {
    uint32_t k = m->words[at + i];
    if ((t->kind != KIND_VECTOR && t->kind != KIND_ARRAY && t->kind != KIND_STRUCT &&
         t->kind != KIND_MATRIX) ||
        k >= t->n)
      return vm_wrong(m, at, "member %u of a type of %u", k, t->n);
    for (uint32_t s = 0; s < k; s++)
      *out_word += vm_type_at(m, t->kind == KIND_STRUCT ? t->member[s] : t->of)->words;
    t = vm_type_at(m, t->kind == KIND_STRUCT ? t->member[k] : t->of);
  }
  *out_type = t;
  return true;
}

static bool write_extract(vm_module *m, uint32_t at, vm_op *o) {
  const uint32_t *w = m->words + at;
  const vm_type *t;
  uint32_t place;
  if (!follow(m, at, 4, vm_type_of(m, w[3]), &place, &t))
    return false;
  o->code = VM_Copy;
  o->a = ref_of(m, w[3]) + place;
  return t->id == w[1] || vm_wrong(m, at, "the member has another type");
}

static bool write_insert(vm_module *m, uint32_t at, vm_op *o) {
  const uint32_t *w = m->words + at;
  const vm_type *t, *whole = vm_type_of(m, w[4]);
  uint32_t place;
  if (!follow(m, at, 5, whole, &place, &t))
    return false;
  if (t->id != m->ids[w[3]].type || whole->id != w[1])
    return vm_wrong(m, at, "the member has another type");
  o->code = VM_Gather;
  o->a = m->extra.n;
  for (uint32_t i = 0; i < whole->words; i++) {
    bool inside = i >= place && i < place + t->words;
    PUSH(m->extra, inside ? ref_of(m, w[3]) + i - place : ref_of(m, w[4]) + i);
  }
  return true;
}

static bool write_construct(vm_module *m, uint32_t at, const vm_type *t, vm_op *o) {
  const uint32_t *w = m->words + at;
  uint32_t n = vm_length(m, at) - 3, words = 0;
  o->code = VM_Gather;
  o->a = m->extra.n;
  if (t->kind == KIND_MATRIX) {
    for (uint32_t i = 0; i < t->words; i++)
      PUSH(m->extra, ref_of(m, w[3]));
    return (n == 1 && m->ids[w[3]].type == t->of) || vm_wrong(m, at, "not of one element");
  }
  for (uint32_t i = 0; i < n; i++) {
    const vm_type *part = vm_type_of(m, w[3 + i]);
    uint32_t wanted = t->kind == KIND_STRUCT && i < t->n ? t->member[i] : t->of;
    if (part->id != wanted && !(t->kind == KIND_VECTOR && part->of == t->of))
      return vm_wrong(m, at, "member %u has another type", i);
    for (uint32_t k = 0; k < part->words; k++)
      PUSH(m->extra, ref_of(m, w[3 + i]) + k);
    words += part->words;
  }
  return words == t->words || vm_wrong(m, at, "%u scalars for a type of %u", words, t->words);
}

static bool write_shuffle(vm_module *m, uint32_t at, vm_op *o) {
  const uint32_t *w = m->words + at;
  uint32_t first = vm_type_of(m, w[3])->words, all = first + vm_type_of(m, w[4])->words;
  o->code = VM_Gather;
  o->a = m->extra.n;
  for (uint32_t i = 5; i < vm_length(m, at); i++) {
    if (w[i] >= all)
      return vm_wrong(m, at, "component %u of %u", w[i], all);
    PUSH(m->extra, w[i] < first ? ref_of(m, w[3]) + w[i] : ref_of(m, w[4]) + w[i] - first);
  }
  return vm_length(m, at) - 5 == o->n || vm_wrong(m, at, "not as many components");
}

/* --- others --- */

static bool write_glsl(vm_module *m, uint32_t at, const vm_type *t, vm_op *o) {
  enum { FLOAT, INT, MIXED };
  static const struct {
    uint32_t number;
    uint16_t code;
    uint8_t arguments, kind;
  } functions[] = {
#define GLSL(name, number, arguments, kind) {number, VM_GLSL_##name, arguments, kind},
#include "support/spirv_vm_glsl.def"
#undef GLSL
  };
  const uint32_t *w = m->words + at;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    if (functions[i].number != w[4] || w[3] != m->glsl)
      continue;
    o->code = functions[i].code;
    uint32_t n = vm_length(m, at) - 5;
    if (n != functions[i].arguments)
      return vm_wrong(m, at, "%u arguments", n);
    for (uint32_t k = 0; k < n && functions[i].kind != MIXED; k++)
      if (m->ids[w[5 + k]].type != w[1])
        return vm_wrong(m, at, "argument %u has another type", k);
    vm_kind wanted = functions[i].kind == FLOAT ? KIND_FLOAT : KIND_INT;
    if (functions[i].kind != MIXED && vm_type_scalar(m, t)->kind != wanted)
      return vm_wrong(m, at, "a function of other types");
    o->a = n > 0 ? ref_of(m, w[5]) : 0;
    o->b = n > 1 ? ref_of(m, w[6]) : 0;
    o->c = n > 2 ? ref_of(m, w[7]) : 0;
    return true;
  }
  return vm_wrong(m, at, "function %u of set %%%u is not known", w[4], w[3]);
}

static bool write_barrier(vm_module *m, int code, uint32_t at, vm_op *o) {
  const uint32_t *w = m->words + at;
  if (code == VM_MemoryBarrier)
    return true;
  if (!vm_constant_at(m, at, w[1], &o->a) || !vm_constant_at(m, at, w[2], &o->b) ||
      !vm_constant_at(m, at, w[3], &o->c))
    return false;
  return o->a == 2 || o->a == 3 || vm_wrong(m, at, "neither of workgroups nor of subgroups");
}

static bool write_meeting(vm_module *m, int code, uint32_t at, vm_op *o) {
  const uint32_t *w = m->words + at;
  bool reduces = code >= VM_GroupNonUniformIAdd;
  uint32_t value = reduces ? 5 : 4, n = vm_length(m, at);
  o->a = n > value ? ref_of(m, w[value]) : 0;
  o->b = n > value + 1 ? ref_of(m, w[value + 1]) : 0;
  o->c = reduces ? w[4] : 0;
  return o->c < 4 || vm_wrong(m, at, "group operation %u", o->c);
}

/* Arithmetic: up to four arguments, widths and kinds of the first and of the result. */
static bool write_plain(vm_module *m, int code, uint32_t at, const vm_type *t, vm_op *o) {
  const uint32_t *w = m->words + at;
  uint32_t n = vm_length(m, at), *to[] = {&o->a, &o->b, &o->c, &o->d};
  if (vm_op_table[code].operands[0] != 'T' || n < 4)
    return vm_wrong(m, at, "the interpreter does not know what to do");
  for (uint32_t i = 3; i < n && i < 7; i++)
    *to[i - 3] = ref_of(m, w[i]);
  const vm_type *first = vm_type_of(m, w[3]);
  vm_rule rule = vm_op_table[code].rule;
  bool by_result = rule >= RULE_FROM_FLOAT_TO_INT;
  if (t->kind == KIND_STRUCT) /* a pair of the arguments' type */
    o->n = (uint16_t)first->words;
  o->shift = (uint8_t)(64 - (by_result ? t : first)->width);
  o->kind = (uint8_t)(rule == RULE_FROM_INT_TO_FLOAT ? t : first)->encoding;
  if (by_result)
    o->m = (uint16_t)(rule == RULE_FROM_FLOAT_TO_FLOAT ? (int)t->encoding : 64 - first->width);
  if (code == VM_Select)
    o->m = (uint16_t)first->words;
  if (code == VM_Any || code == VM_All || code == VM_Dot || code == VM_VectorExtractDynamic)
    o->m = (uint16_t)first->words;
  if (code == VM_Bitcast) {
    o->m = (uint16_t)(t->width / 8);
    if (first->width == t->width)
      o->code = VM_Copy;
  }
  if (code == VM_CopyObject)
    o->code = VM_Copy;
  return true;
}

static bool write_op(vm_module *m, int code, uint32_t at, uint32_t block) {
  const uint32_t *w = m->words + at;
  const vm_type *t = vm_op_table[code].operands[0] == 'T' ? vm_type_at(m, w[1]) : NULL;
  vm_op o = {.code = (uint16_t)code, .at = at};
  bool ok;
  if (code == VM_Label || code == VM_Phi || code == VM_SelectionMerge || code == VM_LoopMerge ||
      code == VM_Nop || code == VM_NoLine)
    return true;
  if (t) {
    const vm_type *scalar = vm_type_scalar(m, t);
    if (t->words > UINT16_MAX)
      return vm_wrong(m, at, "a value of %u words", t->words);
    o.n = (uint16_t)t->words;
    o.dst = ref_of(m, w[2]);
    o.shift = (uint8_t)(64 - scalar->width);
    o.kind = (uint8_t)scalar->encoding;
  }
  switch (code) {
  case VM_Branch:
  case VM_BranchConditional:
  case VM_Switch: write_branch(m, code, at, block, &o), ok = true; break;
  case VM_Return:
  case VM_ReturnValue: ok = write_return(m, at, block, &o); break;
  case VM_FunctionCall: ok = write_call(m, at, &o); break;
  case VM_CompositeExtract: ok = write_extract(m, at, &o); break;
  case VM_CompositeInsert: ok = write_insert(m, at, &o); break;
  case VM_CompositeConstruct: ok = write_construct(m, at, t, &o); break;
  case VM_VectorShuffle: ok = write_shuffle(m, at, &o); break;
  case VM_ExtInst: ok = write_glsl(m, at, t, &o); break;
  case VM_ControlBarrier:
  case VM_MemoryBarrier: ok = write_barrier(m, code, at, &o); break;
  default:
    if (code >= VM_CooperativeMatrixLoadKHR)
      ok = vm_write_matrix(m, code, at, &o);
    else if (code >= VM_GroupNonUniformElect && code <= VM_GroupNonUniformLogicalOr)
      ok = write_meeting(m, code, at, &o);
    else if (code <= VM_PtrAccessChain || (code >= VM_AtomicLoad && code <= VM_AtomicXor) ||
             code == VM_ConvertPtrToU || code == VM_ConvertUToPtr)
      ok = vm_write_memory(m, code, at, &o);
    else
      ok = write_plain(m, code, at, t, &o);
  }
  PUSH(m->ops, o);
  return ok;
}

bool vm_write_code(vm_module *m) {
  for (uint32_t b = 0; b < m->blocks.n; b++) {
    m->blocks.at[b].pc = m->ops.n;
    if (m->blocks.at[b].order == UINT32_MAX)
      continue;
    uint32_t last = m->blocks.at[b].last;
    for (uint32_t at = m->blocks.at[b].at; at <= last; at += vm_length(m, at)) {
      int code = vm_code_at(m, at);
      if (!vm_check_types(m, code, at) || !write_op(m, code, at, b))
        return false;
    }
  }
  for (uint32_t i = 0; i < m->edges.n; i++) {
    vm_edge *e = &m->edges.at[i];
    uint32_t words = 0;
    for (uint32_t k = 0; k < e->n; k++)
      words += m->extra.at[e->first + 3 * k + 2];
    if (words > VM_PHI_WORDS)
      return vm_wrong(m, m->blocks.at[e->block].at, "phis of %u words", words);
    e->pc = m->blocks.at[e->block].pc;
  }
  return true;
}
