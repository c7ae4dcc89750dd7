/* Reading a module: every instruction's form, all ids, types, constants, functions and blocks. See spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

#include <stdlib.h>

#define NO_BLOCK UINT32_MAX

typedef struct survey {
  vm_module *m;
  bool in_function;
  uint32_t block; /* that instructions go into; NO_BLOCK: between blocks */
} survey;

/* --- the form of an instruction --- */

static bool check_operand(void *user, uint32_t at, char letter, uint32_t id) {
  vm_module *m = user;
  if (letter == 'i')
    return true;
  if (id == 0 || id >= m->bound)
    return vm_wrong(m, at, "%%%u is no id of the module", id);
  vm_what what = m->ids[id].what;
  switch (letter) {
  case 'R': return what == ID_NONE || vm_wrong(m, at, "%%%u is defined twice", id);
  case 'T':
  case 'y': return what == ID_TYPE || vm_wrong(m, at, "%%%u is no type", id);
  case 'v':
    return what == ID_VALUE || what == ID_CONSTANT ||
           vm_wrong(m, at, "%%%u is used before its definition", id);
  default: return true; /* labels and functions may come later */
  }
}

bool vm_each_operand(vm_module *m, int code, uint32_t at, vm_visit *visit, void *user) {
  const char *form = vm_op_table[code].operands;
  uint32_t n = vm_length(m, at), i = 1;
  bool optional = false;
  for (; *form; form++) {
    if (*form == '?') {
      optional = true;
      continue;
    }
    if (*form == 'm')
      return true;
    if (*form == '*') {
      for (; i < n; i++)
        if (!visit(user, at, form[-1], m->words[at + i]))
          return false;
      continue;
    }
    if (i == n)
      return optional || form[1] == '*' || vm_wrong(m, at, "operands are missing");
    if (!visit(user, at, *form, m->words[at + i++]))
      return false;
  }
  return i == n || vm_wrong(m, at, "too many operands");
}

/* --- outside of functions --- */

static bool decorate(vm_module *m, int code, uint32_t at) {
  const uint32_t *w = m->words + at;
  uint32_t n = vm_length(m, at), skip = code == VM_MemberDecorate;
  if (n < 3 + skip)
    return vm_wrong(m, at, "operands are missing");
  PUSH(m->decorations, (vm_decoration){w[1], skip ? w[2] : UINT32_MAX, w[2 + skip],
                                       n > 3 + skip ? w[3 + skip] : 0});
  return true;
}

static bool set_mode(vm_module *m, uint32_t at) {
  enum { LOCAL_SIZE = 17 };
  const uint32_t *w = m->words + at;
  if (w[2] != LOCAL_SIZE)
    return true;
  if (vm_length(m, at) != 6 || w[3] * w[4] * w[5] == 0 || w[3] * w[4] * w[5] > VM_MAX_THREADS)
    return vm_wrong(m, at, "no size of a workgroup");
  memcpy(m->local, w + 3, sizeof m->local);
  return true;
}

static bool import(vm_module *m, uint32_t at) {
  if (vm_length(m, at) != 6 || memcmp(m->words + at + 2, "GLSL.std.450", 13) != 0)
    return vm_wrong(m, at, "unknown functions");
  m->glsl = m->words[at + 1];
  m->ids[m->glsl].what = ID_IMPORT;
  return true;
}

static bool survey_outside(survey *s, int code, uint32_t at) {
  vm_module *m = s->m;
  const uint32_t *w = m->words + at;
  switch (code) {
  case VM_ExtInstImport: return import(m, at);
  case VM_EntryPoint: m->entry = w[2]; return w[1] == 5 || vm_wrong(m, at, "no compute shader");
  case VM_ExecutionMode: return set_mode(m, at);
  case VM_MemoryModel: return w[1] == 5348 || w[1] == 0 || vm_wrong(m, at, "unknown addressing");
  case VM_Decorate:
  case VM_MemberDecorate: return decorate(m, code, at);
  case VM_ConstantTrue:
  case VM_ConstantFalse:
  case VM_Constant:
  case VM_ConstantComposite:
  case VM_ConstantNull: return vm_declare_constant(m, code, at);
  case VM_Variable: return vm_declare_global(m, at);
  case VM_Function:
    s->in_function = true;
    m->ids[w[2]] = (vm_id){ID_FUNCTION, w[1], m->functions.n, at, UINT32_MAX};
    PUSH(m->functions,
         (vm_function){.id = w[2], .type = w[4], .at = at, .first_block = m->blocks.n});
    return true;
  case VM_Capability: m->has_bf16 = m->has_bf16 || w[1] == CAPABILITY_BF16; return true;
  case VM_Nop:
  case VM_Source:
  case VM_SourceExtension:
  case VM_Name:
  case VM_MemberName:
  case VM_Extension:
  case VM_TypeForwardPointer:
  case VM_NoLine:
  case VM_ModuleProcessed: return true;
  default: break;
  }
  if (vm_op_table[code].operands[0] == 'R')
    return code == VM_Label ? vm_wrong(m, at, "a label outside of functions")
                            : vm_declare_type(m, code, at);
  return vm_wrong(m, at, "an instruction outside of functions");
}

/* --- inside --- */

static bool is_last(int code) {
  return code == VM_Branch || code == VM_BranchConditional || code == VM_Switch ||
         code == VM_Return || code == VM_ReturnValue;
}

static bool open_block(survey *s, uint32_t at) {
  vm_module *m = s->m;
  uint32_t label = m->words[at + 1];
  if (s->block != NO_BLOCK)
    return vm_wrong(m, at, "the block before it has no end");
  s->block = m->blocks.n;
  m->ids[label] = (vm_id){ID_LABEL, 0, s->block, at, s->block};
  PUSH(m->blocks, (vm_block){.label = label,
                             .at = at,
                             .function = m->functions.n - 1,
                             .merge = UINT32_MAX,
                             .next = UINT32_MAX});
  return true;
}

static bool end_function(survey *s, uint32_t at) {
  vm_function *f = &s->m->functions.at[s->m->functions.n - 1];
  f->n_blocks = s->m->blocks.n - f->first_block;
  s->in_function = false;
  if (s->block != NO_BLOCK || f->n_blocks == 0)
    return vm_wrong(s->m, at, "the last block has no end");
  return true;
}

static bool parameter(survey *s, uint32_t at) {
  vm_module *m = s->m;
  vm_function *f = &m->functions.at[m->functions.n - 1];
  const uint32_t *w = m->words + at;
  const vm_type *type = vm_type_at(m, f->type);
  if (m->blocks.n > f->first_block || !type || type->kind != KIND_FUNCTION ||
      f->n_parameters >= type->n || type->member[f->n_parameters] != w[1])
    return vm_wrong(m, at, "no parameter of the function's type");
  if (f->n_parameters++ == 0)
    f->parameter = m->n_frame;
  m->ids[w[2]] = (vm_id){ID_VALUE, w[1], m->n_frame, at, m->blocks.n};
  m->n_frame += vm_type_at(m, w[1])->words;
  return true;
}

/* A variable of a function: its pointer is known. */
static bool variable(survey *s, uint32_t at) {
  vm_module *m = s->m;
  const uint32_t *w = m->words + at;
  const vm_type *t = vm_type_at(m, w[1]);
  const vm_type *of = t->kind == KIND_POINTER ? vm_type_at(m, t->of) : NULL;
  if (!of || w[3] != STORE_FUNCTION || t->storage != w[3])
    return vm_wrong(m, at, "no variable of a function");
  m->ids[w[2]] = (vm_id){ID_CONSTANT, w[1], vm_new_constant(m, 1), at, s->block};
  m->constants.at[m->constants.n - 1] = m->n_private;
  m->n_private += of->words;
  return true;
}

static bool survey_inside(survey *s, int code, uint32_t at) {
  vm_module *m = s->m;
  const uint32_t *w = m->words + at;
  if (code == VM_Label)
    return open_block(s, at);
  if (code == VM_FunctionEnd)
    return end_function(s, at);
  if (code == VM_FunctionParameter)
    return parameter(s, at);
  if (code == VM_NoLine || code == VM_Nop)
    return true;
  if (s->block == NO_BLOCK)
    return vm_wrong(m, at, "an instruction outside of blocks");
  vm_block *b = &m->blocks.at[s->block];
  if (b->merge_at && !is_last(code))
    return vm_wrong(m, at, "a merge is not followed by a branch");
  if (code == VM_SelectionMerge || code == VM_LoopMerge)
    b->merge_at = at;
  if (is_last(code)) {
    b->last = at;
    s->block = NO_BLOCK;
  }
  if (code == VM_Variable)
    return variable(s, at);
  const char *form = vm_op_table[code].operands;
  if (form[0] == 'R' || code < VM_FunctionCall)
    if (code != VM_ExtInst)
      return vm_wrong(m, at, "an instruction that does not belong into functions");
  if (form[0] == 'T') {
    const vm_type *t = vm_type_at(m, w[1]);
    m->ids[w[2]] = (vm_id){ID_VALUE, w[1], m->n_frame, at, (uint32_t)(b - m->blocks.at)};
    m->n_frame += t->words;
  }
  return true;
}

/* --- all --- */

static bool header(vm_module *m) {
  if (m->n_words < 5 || m->words[0] != 0x07230203 || m->words[1] > 0x00010600 || m->words[4] != 0)
    return vm_wrong(m, UINT32_MAX, "no module of SPIR-V 1.6 or before");
  m->bound = m->words[3];
  if (m->bound == 0 || m->bound > 1u << 22)
    return vm_wrong(m, UINT32_MAX, "a bound of ids of %u", m->bound);
  m->ids = calloc(m->bound, sizeof *m->ids);
  if (!m->ids)
    abort();
  return true;
}

bool vm_survey(vm_module *m) {
  survey s = {.m = m, .block = NO_BLOCK};
  if (!header(m))
    return false;
  for (uint32_t at = 5; at < m->n_words; at += vm_length(m, at)) {
    int code = vm_code_at(m, at);
    uint32_t n = vm_length(m, at);
    if (n == 0 || n > m->n_words - at)
      return vm_wrong(m, UINT32_MAX, "word %u: an instruction of %u words", at, n);
    if (code < 0)
      return vm_wrong(m, at, "instruction %u is not known", m->words[at] & 0xffff);
    if (!vm_each_operand(m, code, at, check_operand, m) ||
        !(s.in_function ? survey_inside(&s, code, at) : survey_outside(&s, code, at)))
      return false;
  }
  if (s.in_function)
    return vm_wrong(m, UINT32_MAX, "the last function has no end");
  if (!m->entry || m->entry >= m->bound || m->ids[m->entry].what != ID_FUNCTION || !m->local[0])
    return vm_wrong(m, UINT32_MAX, "no entry point with a size of workgroups");
  return true;
}
