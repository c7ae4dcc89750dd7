/* See spirv.h. */
#include "spike/spirv.h"

#include <stdlib.h>
#include <string.h>

static void push(spirv_words *w, uint32_t word) {
  if (w->n == w->room) {
    w->room = w->room ? 2 * w->room : 256;
    w->at = realloc(w->at, w->room * sizeof *w->at);
    if (!w->at)
      abort();
  }
  w->at[w->n++] = word;
}

static void push_all(spirv_words *w, int n, const uint32_t *words) {
  for (int i = 0; i < n; i++)
    push(w, words[i]);
}

void spirv_put(spirv *s, spirv_section where, int op, int n, const uint32_t *args) {
  push(&s->section[where], (uint32_t)(n + 1) << 16 | (uint32_t)op);
  push_all(&s->section[where], n, args);
}

void spirv_do(spirv *s, int op, int n, const uint32_t *args) {
  spirv_put(s, s->now, op, n, args);
  s->instructions++;
}

spirv_id spirv_op(spirv *s, int op, spirv_id type, int n, const uint32_t *args) {
  spirv_words *w = &s->section[s->now];
  push(w, (uint32_t)(n + 3) << 16 | (uint32_t)op);
  push(w, type);
  push(w, s->next);
  push_all(w, n, args);
  s->instructions++;
  return s->next++;
}

/* The id of an instruction of the globals with these words, before (types) or after a type (constants). */
static spirv_id find(const spirv *s, int op, spirv_id type, int n, const uint32_t *args) {
  const spirv_words *w = &s->section[SPV_GLOBALS];
  uint32_t skip = type ? 3 : 2;
  for (size_t i = 0; i < w->n; i += w->at[i] >> 16)
    if (w->at[i] == (((uint32_t)n + skip) << 16 | (uint32_t)op) &&
        (!type || w->at[i + 1] == type) &&
        (n == 0 || memcmp(&w->at[i + skip], args, (size_t)n * sizeof *args) == 0))
      return w->at[i + skip - 1];
  return 0;
}

spirv_id spirv_type(spirv *s, int op, int n, const uint32_t *args) {
  spirv_id id = find(s, op, 0, n, args);
  if (id)
    return id;
  spirv_words *w = &s->section[SPV_GLOBALS];
  push(w, (uint32_t)(n + 2) << 16 | (uint32_t)op);
  push(w, s->next);
  push_all(w, n, args);
  return s->next++;
}

spirv_id spirv_constant(spirv *s, int op, spirv_id type, int n, const uint32_t *args) {
  spirv_id id = find(s, op, type, n, args);
  if (id)
    return id;
  spirv_words *w = &s->section[SPV_GLOBALS];
  push(w, (uint32_t)(n + 3) << 16 | (uint32_t)op);
  push(w, type);
  push(w, s->next);
  push_all(w, n, args);
  return s->next++;
}

spirv_id spirv_pointer(spirv *s, int storage, spirv_id to) {
  return spirv_type(s, SPV_TypePointer, SPV_ARGS((uint32_t)storage, to));
}

static spirv_id variable(spirv *s, spirv_section where, int storage, spirv_id type) {
  spirv_id pointer = spirv_pointer(s, storage, type), id = s->next++;
  spirv_put(s, where, SPV_Variable, SPV_ARGS(pointer, id, (uint32_t)storage));
  return id;
}

spirv_id spirv_global(spirv *s, int storage, spirv_id type) {
  return variable(s, SPV_GLOBALS, storage, type);
}

spirv_id spirv_local(spirv *s, spirv_id type) {
  return variable(s, SPV_LOCALS, SPV_InFunction, type);
}

void spirv_decorate(spirv *s, spirv_id of, int n, const uint32_t *args) {
  uint32_t words[8] = {of};
  memcpy(words + 1, args, (size_t)n * sizeof *args);
  spirv_put(s, SPV_DECORATIONS, SPV_Decorate, n + 1, words);
}

spirv_id spirv_bool(spirv *s, bool value) {
  return spirv_constant(s, value ? SPV_ConstantTrue : SPV_ConstantFalse, s->boolean, 0, NULL);
}

spirv_id spirv_u32(spirv *s, uint32_t value) {
  return spirv_constant(s, SPV_Constant, s->u32, SPV_ARGS(value));
}

spirv_id spirv_i32(spirv *s, int32_t value) {
  return spirv_constant(s, SPV_Constant, s->i32, SPV_ARGS((uint32_t)value));
}

spirv_id spirv_i64(spirv *s, int64_t value) {
  uint64_t bits = (uint64_t)value;
  return spirv_constant(s, SPV_Constant, s->i64, SPV_ARGS((uint32_t)bits, (uint32_t)(bits >> 32)));
}

spirv_id spirv_f32(spirv *s, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return spirv_constant(s, SPV_Constant, s->f32, SPV_ARGS(bits));
}

spirv_id spirv_glsl(spirv *s, int function, spirv_id type, int n, const uint32_t *args) {
  uint32_t words[6] = {s->glsl, (uint32_t)function};
  memcpy(words + 2, args, (size_t)n * sizeof *args);
  return spirv_op(s, SPV_ExtInst, type, n + 2, words);
}

/* --- control flow --- */

spirv_id spirv_label(spirv *s) { return s->next++; }

void spirv_begin(spirv *s, spirv_id label) {
  spirv_do(s, SPV_Label, SPV_ARGS(label));
  s->block = label;
}

void spirv_go(spirv *s, spirv_id label) { spirv_do(s, SPV_Branch, SPV_ARGS(label)); }

spirv_if spirv_if_begin(spirv *s, spirv_id condition) {
  spirv_if i = {s->block, spirv_label(s)};
  spirv_id inside = spirv_label(s);
  spirv_do(s, SPV_SelectionMerge, SPV_ARGS(i.merge, 0));
  spirv_do(s, SPV_BranchConditional, SPV_ARGS(condition, inside, i.merge));
  spirv_begin(s, inside);
  return i;
}

void spirv_if_end(spirv *s, const spirv_if *i) {
  spirv_go(s, i->merge);
  spirv_begin(s, i->merge);
}

spirv_id spirv_if_value(spirv *s, const spirv_if *i, spirv_id type, spirv_id value,
                        spirv_id other) {
  spirv_id last = s->block;
  spirv_if_end(s, i);
  return spirv_op(s, SPV_Phi, type, SPV_ARGS(value, last, other, i->from));
}

spirv_loop spirv_loop_begin(spirv *s, spirv_id type, spirv_id from, spirv_id to, spirv_id step) {
  spirv_loop l = {.variable = spirv_local(s, type),
                  .type = type,
                  .step = step,
                  .head = spirv_label(s),
                  .next = spirv_label(s),
                  .merge = spirv_label(s)};
  spirv_id test = spirv_label(s), body = spirv_label(s);
  spirv_do(s, SPV_Store, SPV_ARGS(l.variable, from));
  spirv_go(s, l.head);
  spirv_begin(s, l.head);
  spirv_do(s, SPV_LoopMerge, SPV_ARGS(l.merge, l.next, 0));
  spirv_go(s, test);
  spirv_begin(s, test);
  l.index = spirv_op(s, SPV_Load, type, SPV_ARGS(l.variable));
  spirv_id goes_on = spirv_op(s, SPV_SLessThan, s->boolean, SPV_ARGS(l.index, to));
  spirv_do(s, SPV_BranchConditional, SPV_ARGS(goes_on, body, l.merge));
  spirv_begin(s, body);
  return l;
}

void spirv_loop_end(spirv *s, const spirv_loop *l) {
  spirv_go(s, l->next);
  spirv_begin(s, l->next);
  spirv_id index = spirv_op(s, SPV_IAdd, l->type, SPV_ARGS(l->index, l->step));
  spirv_do(s, SPV_Store, SPV_ARGS(l->variable, index));
  spirv_go(s, l->head);
  spirv_begin(s, l->merge);
}

/* --- modules --- */

spirv spirv_start(void) {
  /* 64-bit integers; addresses; 16-bit and 8-bit loads and stores; NaN and signed zeros kept */
  static const uint32_t capabilities[] = {1, 11, 5347, 4433, 4448, 4466};
  spirv s = {.now = SPV_BODY, .next = 1};
  for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++)
    spirv_put(&s, SPV_PREAMBLE, SPV_Capability, 1, &capabilities[i]);
  uint32_t import[5] = {s.glsl = s.next++};
  memcpy(import + 1, "GLSL.std.450", 13);
  spirv_put(&s, SPV_PREAMBLE, SPV_ExtInstImport, 5, import);
  spirv_put(&s, SPV_PREAMBLE, SPV_MemoryModel, SPV_ARGS(5348, 1));
  s.none = spirv_type(&s, SPV_TypeVoid, 0, NULL);
  s.boolean = spirv_type(&s, SPV_TypeBool, 0, NULL);
  s.u8 = spirv_type(&s, SPV_TypeInt, SPV_ARGS(8, 0));
  s.u16 = spirv_type(&s, SPV_TypeInt, SPV_ARGS(16, 0));
  s.u32 = spirv_type(&s, SPV_TypeInt, SPV_ARGS(32, 0));
  s.i32 = spirv_type(&s, SPV_TypeInt, SPV_ARGS(32, 1));
  s.u64 = spirv_type(&s, SPV_TypeInt, SPV_ARGS(64, 0));
  s.i64 = spirv_type(&s, SPV_TypeInt, SPV_ARGS(64, 1));
  s.f32 = spirv_type(&s, SPV_TypeFloat, SPV_ARGS(32));
  return s;
}

void spirv_free(spirv *s) {
  for (int i = 0; i < SPV_SECTIONS; i++)
    free(s->section[i].at);
  *s = (spirv){0};
}

uint32_t *spirv_finish(spirv *s, size_t *out_n) {
  spirv_words all = {0};
  /* magic; version 1.5, Vulkan 1.2's; no registered generator; bound of the ids; 0 */
  push_all(&all, SPV_ARGS(0x07230203, 0x00010500, 0, s->next, 0));
  for (int i = 0; i < SPV_SECTIONS; i++)
    push_all(&all, (int)s->section[i].n, s->section[i].at);
  *out_n = all.n;
  return all.at;
}
