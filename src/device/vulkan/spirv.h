/* A builder of SPIR-V modules, word by word: sections in the order that the format wants, interned types and constants, the
 * type of every id. For compute shaders of Vulkan 1.2. Kernels are written on kernel.h, which stands on this.
 *
 *   spirv_id sum = spirv_op(s, SPV_FAdd, s->f32, SPV_ARGS(a, b));
 *
 * Without memory `failed` is set and ids come back as 1; the caller looks once, at the end.
 */
#ifndef SINEW_DEVICE_VULKAN_SPIRV_H
#define SINEW_DEVICE_VULKAN_SPIRV_H

#include "base/base.h"
#include "device/vulkan/spirv_numbers.h"

typedef uint32_t spirv_id;

typedef enum spirv_section {
  SPV_CAPABILITIES,
  SPV_EXTENSIONS,
  SPV_PREAMBLE, /* imports, memory model, entry point, modes */
  SPV_DECORATIONS,
  SPV_GLOBALS,  /* types, constants, variables outside of functions */
  SPV_HELPERS,  /* functions beside main */
  SPV_HEAD,     /* main up to its first label */
  SPV_LOCALS,   /* its variables */
  SPV_PROLOGUE, /* what main computes once, before the body: slots of the parameter block */
  SPV_BODY,
  SPV_SECTIONS
} spirv_section;

typedef struct spirv_words {
  uint32_t *at;
  size_t n, room;
} spirv_words;

typedef struct spirv {
  sn_ctx *ctx;
  spirv_words section[SPV_SECTIONS];
  /* By id. Of a value: its type. Of a type of pointers, vectors or arrays: the type of what they hold. 0: neither. */
  spirv_words types;
  spirv_words counts; /* by id: components of a type of vectors; otherwise 1 */
  spirv_section now;  /* where instructions go: SPV_BODY, unless told otherwise */
  spirv_id next;      /* the next free id */
  spirv_id block;     /* the label of the block that instructions go into */
  int instructions;   /* in functions */
  bool vulkan;        /* the memory model is Vulkan's */
  bool failed;
  uint32_t cache[256]; /* of types and constants: places in the globals, plus 1 */
  spirv_id none, boolean, u8, u16, u32, i32, u64, i64, f32; /* types */
  spirv_id glsl;                                            /* the imported functions */
} spirv;

void spirv_start(spirv *s, sn_ctx *ctx);
/* The memory model that cooperative matrices and scopes of a device take. */
void spirv_vulkan_model(spirv *s);
void spirv_free(spirv *s);
/* The whole module, memory of ctx of n words; NULL without memory. */
uint32_t *spirv_finish(spirv *s, size_t *out_n);

#define SPV_ARGS(...) \
  (int)(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)), (const uint32_t[]) { __VA_ARGS__ }

/* Each once. */
void spirv_capability(spirv *s, uint32_t capability);
void spirv_extension(spirv *s, const char *name);
/* An instruction with a result, or without one, into the current section. */
spirv_id spirv_op(spirv *s, int op, spirv_id type, int n, const uint32_t *args);
void spirv_do(spirv *s, int op, int n, const uint32_t *args);
void spirv_put(spirv *s, spirv_section where, int op, int n, const uint32_t *args);
/* A type or constant, the one there is if there is one. */
spirv_id spirv_type(spirv *s, int op, int n, const uint32_t *args);
spirv_id spirv_constant(spirv *s, int op, spirv_id type, int n, const uint32_t *args);
spirv_id spirv_pointer(spirv *s, int storage, spirv_id to);
spirv_id spirv_vector(spirv *s, spirv_id of, int n);
spirv_id spirv_global(spirv *s, int storage, spirv_id type);
spirv_id spirv_local(spirv *s, spirv_id type); /* a variable of main */
void spirv_decorate(spirv *s, spirv_id of, int n, const uint32_t *args);
/* The type of a value; of what a type of pointers, vectors or arrays holds. */
spirv_id spirv_type_of(const spirv *s, spirv_id value);
spirv_id spirv_held(const spirv *s, spirv_id type);
int spirv_components(const spirv *s, spirv_id type); /* 1 where it is no vector */

spirv_id spirv_bool(spirv *s, bool value);
spirv_id spirv_u32(spirv *s, uint32_t value);
spirv_id spirv_i32(spirv *s, int32_t value);
spirv_id spirv_i64(spirv *s, int64_t value);
spirv_id spirv_u64(spirv *s, uint64_t value);
spirv_id spirv_f32(spirv *s, float value);
/* A function of GLSL.std.450. */
spirv_id spirv_glsl(spirv *s, int function, spirv_id type, int n, const uint32_t *args);

/* --- control flow --- */
spirv_id spirv_label(spirv *s); /* an id for a block to come */
void spirv_begin(spirv *s, spirv_id label);
void spirv_go(spirv *s, spirv_id label);

#endif
