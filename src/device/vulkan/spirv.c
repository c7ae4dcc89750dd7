/* See spirv.h. */
#include "device/vulkan/spirv.h"

/* --- words --- */

static void push(spirv *s, spirv_words *w, uint32_t word) {
  if (s->failed) /* a word is missing: more would only be misread */
    return;
  if (w->n == w->room) {
    size_t room = w->room ? 2 * w->room : 256;
    uint32_t *at = mem_resize(s->ctx, w->at, w->room * sizeof *at, room * sizeof *at);
    if (!at) {
      s->failed = true;
      return;
    }
    w->at = at;
    w->room = room;
  }
  w->at[w->n++] = word;
}

static void push_all(spirv *s, spirv_words *w, int n, const uint32_t *words) {
  for (int i = 0; i < n; i++)
    push(s, w, words[i]);
}

void spirv_put(spirv *s, spirv_section where, int op, int n, const uint32_t *args) {
  push(s, &s->section[where], (uint32_t)(n + 1) << 16 | (uint32_t)op);
  push_all(s, &s->section[where], n, args);
}

void spirv_do(spirv *s, int op, int n, const uint32_t *args) {
  spirv_put(s, s->now, op, n, args);
  s->instructions++;
}

/* The next id, of a value of that type, or of a type that holds so many of that type. */
static spirv_id new_id(spirv *s, spirv_id type, uint32_t count) {
  while (s->types.n <= s->next && !s->failed) {
    push(s, &s->types, 0);
    push(s, &s->counts, 1);
  }
  if (s->failed)
    return 1;
  s->types.at[s->next] = type;
  s->counts.at[s->next] = count;
  return s->next++;
}

spirv_id spirv_type_of(const spirv *s, spirv_id value) {
  return value < s->types.n ? s->types.at[value] : 0;
}

spirv_id spirv_held(const spirv *s, spirv_id type) { return spirv_type_of(s, type); }

int spirv_components(const spirv *s, spirv_id type) {
  return type < s->counts.n ? (int)s->counts.at[type] : 1;
}

static spirv_id put_typed(spirv *s, spirv_section where, int op, spirv_id type, int n,
                          const uint32_t *args) {
  spirv_words *w = &s->section[where];
  spirv_id id = new_id(s, type, 1);
  push(s, w, (uint32_t)(n + 3) << 16 | (uint32_t)op);
  push(s, w, type);
  push(s, w, id);
  push_all(s, w, n, args);
  return id;
}

spirv_id spirv_op(spirv *s, int op, spirv_id type, int n, const uint32_t *args) {
  s->instructions++;
  return put_typed(s, s->now, op, type, n, args);
}

/* --- types and constants --- */

static bool is_at(const spirv *s, size_t i, uint32_t head, spirv_id type, int n,
                  const uint32_t *args) {
  const uint32_t *at = s->section[SPV_GLOBALS].at + i;
  return at[0] == head && (!type || at[1] == type) &&
         (n == 0 || memcmp(&at[type ? 3 : 2], args, (size_t)n * sizeof *args) == 0);
}

/* The id of an instruction of the globals with these words, before (types) or after a type (constants); 0: none. What was
 * found last in its place of the cache is looked at first. */
static spirv_id find(spirv *s, int op, spirv_id type, int n, const uint32_t *args) {
  const spirv_words *w = &s->section[SPV_GLOBALS];
  uint32_t skip = type ? 3 : 2, head = ((uint32_t)n + skip) << 16 | (uint32_t)op;
  uint64_t hash = hash_long(HASH_SEED ^ head, args, (size_t)n * sizeof *args);
  uint32_t *cached = &s->cache[(hash ^ type) % COUNT_OF(s->cache)];
  if (*cached && is_at(s, *cached - 1, head, type, n, args))
    return w->at[*cached - 1 + skip - 1];
  for (size_t i = 0; i < w->n; i += w->at[i] >> 16)
    if (is_at(s, i, head, type, n, args)) {
      *cached = (uint32_t)i + 1;
      return w->at[i + skip - 1];
    }
  *cached = (uint32_t)w->n + 1; /* where it will be */
  return 0;
}

spirv_id spirv_type(spirv *s, int op, int n, const uint32_t *args) {
  spirv_id id = s->failed ? 1 : find(s, op, 0, n, args);
  if (id)
    return id;
  spirv_words *w = &s->section[SPV_GLOBALS];
  bool holds = op == SPV_TypeVector || op == SPV_TypeArray;
  id = new_id(s,
              op == SPV_TypePointer ? args[1]
              : holds               ? args[0]
                                    : 0,
              op == SPV_TypeVector ? args[1] : 1);
  push(s, w, (uint32_t)(n + 2) << 16 | (uint32_t)op);
  push(s, w, id);
  push_all(s, w, n, args);
  return id;
}

spirv_id spirv_constant(spirv *s, int op, spirv_id type, int n, const uint32_t *args) {
  spirv_id id = s->failed ? 1 : find(s, op, type, n, args);
  return id ? id : put_typed(s, SPV_GLOBALS, op, type, n, args);
}

spirv_id spirv_pointer(spirv *s, int storage, spirv_id to) {
  return spirv_type(s, SPV_TypePointer, SPV_ARGS((uint32_t)storage, to));
}

spirv_id spirv_vector(spirv *s, spirv_id of, int n) {
  return spirv_type(s, SPV_TypeVector, SPV_ARGS(of, (uint32_t)n));
}

static spirv_id variable(spirv *s, spirv_section where, int storage, spirv_id type) {
  spirv_id pointer = spirv_pointer(s, storage, type);
  return put_typed(s, where, SPV_Variable, pointer, SPV_ARGS((uint32_t)storage));
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

static spirv_id constant64(spirv *s, spirv_id type, uint64_t bits) {
  return spirv_constant(s, SPV_Constant, type, SPV_ARGS((uint32_t)bits, (uint32_t)(bits >> 32)));
}

spirv_id spirv_i64(spirv *s, int64_t value) { return constant64(s, s->i64, (uint64_t)value); }
spirv_id spirv_u64(spirv *s, uint64_t value) { return constant64(s, s->u64, value); }

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

spirv_id spirv_label(spirv *s) { return new_id(s, 0, 1); }

void spirv_begin(spirv *s, spirv_id label) {
  spirv_do(s, SPV_Label, SPV_ARGS(label));
  s->block = label;
}

void spirv_go(spirv *s, spirv_id label) { spirv_do(s, SPV_Branch, SPV_ARGS(label)); }

/* --- modules --- */

void spirv_capability(spirv *s, uint32_t capability) {
  const spirv_words *w = &s->section[SPV_CAPABILITIES];
  for (size_t i = 0; i + 1 < w->n; i += 2)
    if (w->at[i + 1] == capability)
      return;
  spirv_put(s, SPV_CAPABILITIES, SPV_Capability, 1, &capability);
}

/* A string as words, with its final zero. */
static int string_words(const char *text, uint32_t *words, size_t room) {
  size_t size = strlen(text) + 1, n = (size + 3) / 4;
  if (n > room)
    return 0;
  memset(words, 0, n * sizeof *words);
  memcpy(words, text, size);
  return (int)n;
}

void spirv_extension(spirv *s, const char *name) {
  const spirv_words *w = &s->section[SPV_EXTENSIONS];
  uint32_t words[16];
  int n = string_words(name, words, COUNT_OF(words));
  for (size_t i = 0; i < w->n; i += w->at[i] >> 16)
    if (w->at[i] >> 16 == (uint32_t)n + 1 &&
        memcmp(&w->at[i + 1], words, (size_t)n * sizeof *words) == 0)
      return;
  spirv_put(s, SPV_EXTENSIONS, SPV_Extension, n, words);
}

void spirv_start(spirv *s, sn_ctx *ctx) {
  /* shaders; 64-bit integers; addresses; 16-bit and 8-bit loads and stores */
  static const uint32_t capabilities[] = {1, 11, 5347, 4433, 4448};
  *s = (spirv){.ctx = ctx, .now = SPV_BODY, .next = 1};
  for (size_t i = 0; i < COUNT_OF(capabilities); i++)
    spirv_capability(s, capabilities[i]);
  uint32_t import[5] = {s->glsl = new_id(s, 0, 1)};
  spirv_put(s, SPV_PREAMBLE, SPV_ExtInstImport, 1 + string_words("GLSL.std.450", import + 1, 4),
            import);
  spirv_put(s, SPV_PREAMBLE, SPV_MemoryModel, SPV_ARGS(5348, 1));
  s->none = spirv_type(s, SPV_TypeVoid, 0, NULL);
  s->boolean = spirv_type(s, SPV_TypeBool, 0, NULL);
  s->u8 = spirv_type(s, SPV_TypeInt, SPV_ARGS(8, 0));
  s->u16 = spirv_type(s, SPV_TypeInt, SPV_ARGS(16, 0));
  s->u32 = spirv_type(s, SPV_TypeInt, SPV_ARGS(32, 0));
  s->i32 = spirv_type(s, SPV_TypeInt, SPV_ARGS(32, 1));
  s->u64 = spirv_type(s, SPV_TypeInt, SPV_ARGS(64, 0));
  s->i64 = spirv_type(s, SPV_TypeInt, SPV_ARGS(64, 1));
  s->f32 = spirv_type(s, SPV_TypeFloat, SPV_ARGS(32));
}

void spirv_vulkan_model(spirv *s) {
  enum { MODEL = 5345, VULKAN = 3 };
  spirv_words *w = &s->section[SPV_PREAMBLE];
  for (size_t i = 0; i < w->n; i += w->at[i] >> 16)
    if ((w->at[i] & 0xffff) == SPV_MemoryModel)
      w->at[i + 2] = VULKAN;
  spirv_capability(s, MODEL);
  s->vulkan = true;
}

void spirv_free(spirv *s) {
  for (int i = 0; i < SPV_SECTIONS; i++)
    mem_free(s->ctx, s->section[i].at, s->section[i].room * sizeof *s->section[i].at);
  mem_free(s->ctx, s->types.at, s->types.room * sizeof *s->types.at);
  mem_free(s->ctx, s->counts.at, s->counts.room * sizeof *s->counts.at);
  *s = (spirv){.ctx = s->ctx};
}

uint32_t *spirv_finish(spirv *s, size_t *out_n) {
  size_t n = 5;
  for (int i = 0; i < SPV_SECTIONS; i++)
    n += s->section[i].n;
  uint32_t *all = s->failed ? NULL : mem_array(s->ctx, n, sizeof *all), *to = all;
  if (!all)
    return NULL;
  /* magic; version 1.5, Vulkan 1.2's; no registered generator; bound of the ids; 0 */
  memcpy(to, (uint32_t[]){0x07230203, 0x00010500, 0, s->next, 0}, 5 * sizeof *to);
  to += 5;
  for (int i = 0; i < SPV_SECTIONS; i++) {
    if (s->section[i].n)
      memcpy(to, s->section[i].at, s->section[i].n * sizeof *to);
    to += s->section[i].n;
  }
  *out_n = n;
  return all;
}
