/* Findings as text, and the table of instructions. See spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const vm_op_info vm_op_table[VM_OPS] = {
#define OP(name, number, operands, rule) {#name, operands, number, RULE_##rule},
#include "support/spirv_vm_ops.def"
#undef OP
};

int vm_op_find(uint32_t number) {
  int low = 0, high = VM_OPS - 1; /* the table is sorted */
  while (low <= high) {
    int middle = (low + high) / 2;
    if (vm_op_table[middle].number == number)
      return middle;
    if (vm_op_table[middle].number < number)
      low = middle + 1;
    else
      high = middle - 1;
  }
  return -1;
}

void *vm_grow(void *at, uint32_t *room, uint32_t n, size_t each) {
  if (n <= *room)
    return at;
  *room = n < 32 ? 64 : 2 * n;
  at = realloc(at, *room * each);
  if (!at)
    abort();
  return at;
}

const char *vm_finding(const vm *v) { return v->finding; }

uint64_t vm_steps(const vm *v) { return v->steps; }

static size_t add(char *text, size_t room, size_t used, const char *format, ...) VM_PRINTF(4, 5);
static size_t add(char *text, size_t room, size_t used, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text + used, room - used, format, args);
  va_end(args);
  used += n > 0 ? (size_t)n : 0;
  return used < room ? used : room - 1;
}

/* The instruction with its operands as they stand in the module. */
static size_t add_place(const vm_module *m, uint32_t at, char *text, size_t room, size_t used) {
  if (at >= m->n_words)
    return used;
  int code = vm_code_at(m, at);
  uint32_t n = vm_length(m, at);
  used = add(text, room, used, " [word %u: Op%s", at, code < 0 ? "?" : vm_op_table[code].name);
  for (uint32_t i = 1; i < n && i < 10 && at + i < m->n_words; i++)
    used = add(text, room, used, " %u", m->words[at + i]);
  return add(text, room, used, n > 10 ? " …]" : "]");
}

bool vm_wrong(vm_module *m, uint32_t at, const char *format, ...) {
  va_list args;
  char *text = m->v->finding;
  size_t room = sizeof m->v->finding;
  va_start(args, format);
  int n = vsnprintf(text, room, format, args);
  va_end(args);
  add_place(m, at, text, room, n > 0 && (size_t)n < room ? (size_t)n : 0);
  return false;
}

bool vm_fault(vm *v, const vm_thread *t, const vm_op *o, const char *format, ...) {
  va_list args;
  if (v->failed)
    return false;
  v->failed = true;
  va_start(args, format);
  int n = vsnprintf(v->finding, sizeof v->finding, format, args);
  va_end(args);
  size_t used = n > 0 && (size_t)n < sizeof v->finding ? (size_t)n : 0;
  used = add(v->finding, sizeof v->finding, used, ", workgroup (%u, %u, %u) thread %d", v->group[0],
             v->group[1], v->group[2], t ? t->number : -1);
  if (o)
    add_place(v->m, o->at, v->finding, sizeof v->finding, used);
  return false;
}
