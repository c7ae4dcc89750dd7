/* Types of arguments and results. What memory instructions demand is checked where they are decoded. See
 * spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

static bool is_kind(const vm_module *m, const vm_type *t, vm_kind kind) {
  return t && vm_type_scalar(m, t)->kind == kind;
}

/* One kind, width and number of components; of matrices one shape and use. The sign of integers is free. */
static bool like(const vm_module *m, const vm_type *a, const vm_type *b) {
  if (a->kind != b->kind || a->words != b->words || a->width != b->width ||
      a->encoding != b->encoding)
    return false;
  if (a->kind == KIND_MATRIX)
    return a->rows == b->rows && a->columns == b->columns && a->use == b->use;
  return vm_type_scalar(m, a)->kind == vm_type_scalar(m, b)->kind;
}

static bool all_like(vm_module *m, uint32_t at, vm_kind kind, const vm_type *as) {
  if (!is_kind(m, as, kind))
    return vm_wrong(m, at, "its type is of another kind");
  if (kind == KIND_FLOAT && as->encoding == FLOAT_B16)
    return vm_wrong(m, at, "bf16 has no arithmetic");
  for (uint32_t i = 3; i < vm_length(m, at); i++) {
    const vm_type *t = vm_type_of(m, m->words[at + i]);
    if (!t || !like(m, t, as) || (kind == KIND_FLOAT && !vm_type_same(t, as)))
      return vm_wrong(m, at, "argument %%%u has another type", m->words[at + i]);
  }
  return true;
}

static bool compares(vm_module *m, uint32_t at, vm_kind kind, const vm_type *result) {
  const vm_type *first = vm_type_of(m, m->words[at + 3]);
  if (!is_kind(m, result, KIND_BOOL) || !first || first->words != result->words)
    return vm_wrong(m, at, "the result is no bool of as many components");
  return all_like(m, at, kind, first);
}

static bool converts(vm_module *m, uint32_t at, vm_kind from, vm_kind to, const vm_type *result) {
  const vm_type *t = vm_type_of(m, m->words[at + 3]);
  if (!is_kind(m, t, from) || !is_kind(m, result, to) || t->words != result->words)
    return vm_wrong(m, at, "types of a wrong kind");
  if (from == to && t->width == result->width && t->encoding == result->encoding)
    return vm_wrong(m, at, "a conversion to the same width");
  return true;
}

static bool shifts(vm_module *m, uint32_t at, const vm_type *result) {
  const vm_type *base = vm_type_of(m, m->words[at + 3]), *by = vm_type_of(m, m->words[at + 4]);
  return (is_kind(m, result, KIND_INT) && like(m, base, result) && is_kind(m, by, KIND_INT) &&
          by->words == result->words) ||
         vm_wrong(m, at, "types of a wrong kind");
}

static bool selects(vm_module *m, uint32_t at, const vm_type *result) {
  const uint32_t *w = m->words + at;
  const vm_type *c = vm_type_of(m, w[3]);
  return (is_kind(m, c, KIND_BOOL) && (c->words == 1 || c->words == result->words) &&
          vm_type_same(vm_type_of(m, w[4]), result) && vm_type_same(vm_type_of(m, w[5]), result)) ||
         vm_wrong(m, at, "arguments of another type");
}

static uint32_t bits_of(const vm_type *t) {
  return t->kind == KIND_BOOL || t->kind > KIND_VECTOR ? 0 : (uint32_t)t->width * t->words;
}

static bool casts(vm_module *m, uint32_t at, const vm_type *result) {
  const vm_type *t = vm_type_of(m, m->words[at + 3]);
  if (t && t->kind == KIND_MATRIX && result->kind == KIND_MATRIX)
    return (t->words == result->words && t->width == result->width) ||
           vm_wrong(m, at, "matrices of different bits");
  return (t && bits_of(t) && bits_of(t) == bits_of(result)) ||
         vm_wrong(m, at, "types of different bits");
}

/* IAddCarry and its like: a structure of two of the arguments' type. */
static bool pairs(vm_module *m, uint32_t at, const vm_type *result) {
  const uint32_t *w = m->words + at;
  const vm_type *a = vm_type_of(m, w[3]);
  return (result->kind == KIND_STRUCT && result->n == 2 && is_kind(m, a, KIND_INT) &&
          result->member[0] == a->id && result->member[1] == a->id &&
          vm_type_same(a, vm_type_of(m, w[4]))) ||
         vm_wrong(m, at, "types that do not fit");
}

static bool scales(vm_module *m, uint32_t at, const vm_type *result) {
  const uint32_t *w = m->words + at;
  return (is_kind(m, result, KIND_FLOAT) && vm_type_same(vm_type_of(m, w[3]), result) &&
          vm_type_same(vm_type_of(m, w[4]), vm_type_scalar(m, result))) ||
         vm_wrong(m, at, "types that do not fit");
}

/* Operations of subgroups: the value that goes in has the type of what comes out. */
static bool meets(vm_module *m, int code, uint32_t at, const vm_type *result) {
  const uint32_t *w = m->words + at;
  uint32_t scope;
  if (!vm_constant_at(m, at, w[3], &scope) || scope != 3)
    return scope == 3 ? false : vm_wrong(m, at, "not of subgroups");
  if (code <= VM_GroupNonUniformAny)
    return result->kind == KIND_BOOL || vm_wrong(m, at, "the result is no bool");
  uint32_t value = code >= VM_GroupNonUniformIAdd ? w[5] : w[4];
  return vm_type_same(vm_type_of(m, value), result) ||
         vm_wrong(m, at, "the argument has another type");
}

static bool check_special(vm_module *m, int code, uint32_t at, const vm_type *result) {
  const uint32_t *w = m->words + at;
  if (code >= VM_GroupNonUniformElect && code <= VM_GroupNonUniformLogicalOr)
    return meets(m, code, at, result);
  switch (code) {
  case VM_Select: return selects(m, at, result);
  case VM_Bitcast: return casts(m, at, result);
  case VM_CopyObject:
    return vm_type_same(vm_type_of(m, w[3]), result) || vm_wrong(m, at, "another type");
  case VM_IAddCarry:
  case VM_ISubBorrow:
  case VM_UMulExtended:
  case VM_SMulExtended: return pairs(m, at, result);
  case VM_VectorTimesScalar:
  case VM_MatrixTimesScalar: return scales(m, at, result);
  case VM_Any:
  case VM_All:
    return (result->kind == KIND_BOOL && is_kind(m, vm_type_of(m, w[3]), KIND_BOOL)) ||
           vm_wrong(m, at, "no bools");
  case VM_BranchConditional:
    return vm_type_of(m, w[1])->kind == KIND_BOOL || vm_wrong(m, at, "the condition is no bool");
  case VM_Switch:
    return (vm_type_of(m, w[1])->kind == KIND_INT && vm_type_of(m, w[1])->width == 32) ||
           vm_wrong(m, at, "not by an integer of 32 bits");
  default: return true;
  }
}

bool vm_check_types(vm_module *m, int code, uint32_t at) {
  const vm_type *result =
      vm_op_table[code].operands[0] == 'T' ? vm_type_at(m, m->words[at + 1]) : NULL;
  switch (vm_op_table[code].rule) {
  case RULE_INT: return all_like(m, at, KIND_INT, result);
  case RULE_FLOAT: return all_like(m, at, KIND_FLOAT, result);
  case RULE_BOOL: return all_like(m, at, KIND_BOOL, result);
  case RULE_ICMP: return compares(m, at, KIND_INT, result);
  case RULE_FCMP: return compares(m, at, KIND_FLOAT, result);
  case RULE_SHIFT: return shifts(m, at, result);
  case RULE_FROM_FLOAT_TO_INT: return converts(m, at, KIND_FLOAT, KIND_INT, result);
  case RULE_FROM_INT_TO_FLOAT: return converts(m, at, KIND_INT, KIND_FLOAT, result);
  case RULE_FROM_INT_TO_INT: return converts(m, at, KIND_INT, KIND_INT, result);
  case RULE_FROM_FLOAT_TO_FLOAT: return converts(m, at, KIND_FLOAT, KIND_FLOAT, result);
  case RULE_NONE: break;
  }
  return check_special(m, code, at, result);
}
