/* What the parts of the interpreter share. See spirv_vm.h.
 *
 * Values are lists of 64-bit words, one for each scalar: floats by their bits, integers not extended (the bits above
 * their width are 0), bools 0 or 1. A cooperative matrix is what one thread holds of it. Functions do not recurse, so
 * that every id has a fixed place: a reference is the number of a word in the thread's frame or, with the top bit,
 * among the module's constants.
 *
 * Pointers are one word. Into buffers: the address. Into the block: a byte. Into variables (of a thread or of the
 * workgroup): the number of a scalar, since those have no layout that a shader could know.
 */
#ifndef SINEW_TESTS_SUPPORT_SPIRV_VM_INNER_H
#define SINEW_TESTS_SUPPORT_SPIRV_VM_INNER_H

#include "support/spirv_vm.h"

#include <string.h>

typedef uint64_t word;

enum { VM_CALLS = 8, VM_MAPS = 4096, VM_MAX_THREADS = 1024, VM_PHI_WORDS = 2048 };
#define VM_CONSTANT 0x80000000u

enum {
  STORE_INPUT = 1,
  STORE_UNIFORM = 2,
  STORE_WORKGROUP = 4,
  STORE_PRIVATE = 6,
  STORE_FUNCTION = 7
};
enum { STORE_PUSH = 9, STORE_BUFFER = 5349 };
enum { CAPABILITY_BF16 = 5116 };

typedef enum vm_rule {
  RULE_NONE,
  RULE_INT,
  RULE_FLOAT,
  RULE_BOOL,
  RULE_ICMP,
  RULE_FCMP,
  RULE_SHIFT,
  RULE_FROM_FLOAT_TO_INT,
  RULE_FROM_INT_TO_FLOAT,
  RULE_FROM_INT_TO_INT,
  RULE_FROM_FLOAT_TO_FLOAT
} vm_rule;

/* What an instruction becomes: its name, or one of those behind. */
typedef enum vm_code {
#define OP(name, number, operands, rule) VM_##name,
#include "support/spirv_vm_ops.def"
#undef OP
  VM_OPS,
#define GLSL(name, number, arguments, kind) VM_GLSL_##name,
#include "support/spirv_vm_glsl.def"
#undef GLSL
  VM_LoadPrivate,
  VM_LoadShared,
  VM_LoadBlock,
  VM_LoadBuffer,
  VM_StorePrivate,
  VM_StoreShared,
  VM_StoreBuffer,
  VM_AtomicShared,
  VM_AtomicBuffer,
  VM_Copy,
  VM_Gather,
  VM_Undefine /* a variable comes to life */
} vm_code;

typedef struct vm_op_info {
  const char *name, *operands;
  uint32_t number;
  vm_rule rule;
} vm_op_info;
extern const vm_op_info vm_op_table[VM_OPS];
/* -1: unknown. */
int vm_op_find(uint32_t number);

/* --- types --- */

typedef enum vm_kind {
  KIND_VOID,
  KIND_BOOL,
  KIND_INT,
  KIND_FLOAT,
  KIND_VECTOR,
  KIND_ARRAY,
  KIND_RUNTIME_ARRAY,
  KIND_STRUCT,
  KIND_POINTER,
  KIND_FUNCTION,
  KIND_MATRIX
} vm_kind;

typedef enum vm_float { FLOAT_32, FLOAT_16, FLOAT_B16 } vm_float;

typedef struct vm_type {
  vm_kind kind;
  uint32_t id;
  int width;         /* bits of a scalar, of the scalars of a vector or matrix */
  vm_float encoding; /* of floats, of vectors and matrices of them */
  uint32_t of;      /* id of the type of elements, components, what it points to, what it returns */
  uint32_t n;       /* elements, components, members, parameters */
  uint32_t storage; /* of pointers */
  const uint32_t *member;      /* ids of types of members and parameters */
  uint32_t *offset;            /* of members in memory with a layout; UINT32_MAX: not said */
  uint32_t stride;             /* of an array there; of an array behind a pointer; 0: not said */
  uint32_t words;              /* scalars of a value */
  uint32_t bytes;              /* in memory with a layout; 0: has none */
  uint32_t rows, columns, use; /* matrices */
} vm_type;

/* --- ids --- */

typedef enum vm_what {
  ID_NONE,
  ID_TYPE,
  ID_VALUE,
  ID_CONSTANT, /* and global variables: pointers that are known */
  ID_LABEL,
  ID_FUNCTION,
  ID_IMPORT
} vm_what;

typedef struct vm_id {
  vm_what what;
  uint32_t type; /* its type's id; of a type: its number */
  uint32_t
      ref; /* where its words are; of labels: the number of the block; of functions: the function's */
  uint32_t at; /* the word of the module where it is defined */
  uint32_t block;
} vm_id;

/* --- code --- */

typedef struct vm_op {
  uint16_t code;
  uint8_t shift; /* 64 - bits of the scalars that are computed with */
  uint8_t kind;  /* vm_float */
  uint16_t n;    /* words of the result or of what is stored */
  uint16_t m;
  uint32_t dst, a, b, c, d;
  uint32_t at; /* the word of the module */
} vm_op;

/* A way into a block: the phis there take their values. */
typedef struct vm_edge {
  uint32_t pc, block;
  uint32_t first, n; /* copies: three words each of `extra`: to, from, words */
} vm_edge;

typedef struct vm_block {
  uint32_t label, at, merge_at,
      last; /* words of the module: the label, a merge (0: none), the last instruction */
  uint32_t pc;
  uint32_t function;
  uint32_t merge, next;       /* blocks that the merge names; UINT32_MAX: none */
  uint32_t first_way, n_ways; /* where it goes: blocks, in `ways` */
  uint32_t dominator, order;  /* its immediate one; its place, UINT32_MAX: cannot be reached */
} vm_block;

typedef struct vm_function {
  uint32_t id, type, at;
  uint32_t first_block, n_blocks;
  uint32_t n_parameters, parameter; /* the id of the first; where the words of the first are */
} vm_function;

typedef struct vm_decoration {
  uint32_t id, member, what, value; /* member UINT32_MAX: the whole */
} vm_decoration;

typedef struct vm_input {
  uint32_t builtin, place, n;
} vm_input;

#define LIST(type)    \
  struct {            \
    type *at;         \
    uint32_t n, room; \
  }
void *vm_grow(void *at, uint32_t *room, uint32_t n, size_t each);
#define PUSH(list, ...)                                                           \
  ((list).at = vm_grow((list).at, &(list).room, (list).n + 1, sizeof *(list).at), \
   (list).at[(list).n++] = (__VA_ARGS__))

struct vm_module {
  vm *v;
  const uint32_t *words;
  uint32_t *own; /* the memory of words */
  uint32_t n_words, bound;
  vm_id *ids;
  LIST(vm_type) types;
  LIST(vm_decoration) decorations;
  LIST(vm_function) functions;
  LIST(vm_block) blocks;
  LIST(uint32_t) ways;
  LIST(vm_op) ops;
  LIST(uint32_t) extra;
  LIST(vm_edge) edges;
  LIST(word) constants;
  LIST(vm_input) inputs;
  LIST(vm_input) shared; /* variables of the workgroup */
  uint32_t n_frame;      /* words of a thread */
  uint32_t n_private;    /* scalars of its variables */
  uint32_t n_shared;     /* of the workgroup's */
  uint32_t glsl, entry, local[3];
  bool has_bf16; /* the capability */
};

/* --- running --- */

/* Who touched a byte or a shared scalar, and when: by write, by read. By a thread's
 * number, or one of those below. */
typedef struct vm_touch {
  uint32_t wrote, read;
  uint16_t writer, reader;
  uint16_t wrote_sub, read_sub; /* barriers of its subgroup that the thread had passed */
} vm_touch;
enum {
  BY_SUBGROUP = 0x8000, /* and its number: several of its threads */
  BY_GROUPS = 0xfffd,   /* threads of several workgroups */
  BY_SEVERAL = 0xfffe,  /* of several subgroups */
  BY_ATOMIC = 0xffff    /* whoever, by atomic operations */
};

typedef enum vm_state { THREAD_RUNS, THREAD_WAITS, THREAD_MEETS, THREAD_ENDED } vm_state;

typedef struct vm_thread {
  word *frame;
  word *memory; /* variables */
  unsigned char *defined;
  uint32_t pc;
  vm_state state; /* WAITS: at a barrier of the workgroup; MEETS: at an operation of its subgroup */
  uint16_t number, subgroup, lane, passed;
  int64_t budget;
  int depth;
  uint32_t back[VM_CALLS]; /* the calls that it is in */
} vm_thread;

typedef struct vm_mapping {
  vm_memory *memory;
  size_t first, bytes;
  int access;
} vm_mapping;

struct vm {
  int subgroup;
  bool hides_places[3]; /* by encoding of elements */
  char finding[1024];
  LIST(vm_mapping) maps;
  LIST(vm_module *) modules;
  uint32_t clock, now, shared_now, group_from, beside_from; /* see spirv_vm_memory.c */
  uint64_t steps;
  /* of the dispatch at hand */
  const vm_module *m;
  const vm_job *job;
  uint32_t group[3];
  int n_threads;
  bool failed;
  vm_thread *threads;
  word *frames, *shared;
  unsigned char *defined, *shared_defined;
  vm_touch *shared_touches;
  size_t room_frames, room_defined, room_shared;
};

/* --- spirv_vm_report.c --- */
#define VM_PRINTF(f, a) __attribute__((format(printf, f, a)))
/* About a module; false. */
bool vm_wrong(vm_module *m, uint32_t at, const char *format, ...) VM_PRINTF(3, 4);
/* About a run; the first one counts; false. */
bool vm_fault(vm *v, const vm_thread *t, const vm_op *o, const char *format, ...) VM_PRINTF(4, 5);

/* --- spirv_vm_types.c --- */
/* NULL: no type. */
const vm_type *vm_type_at(const vm_module *m, uint32_t id);
const vm_type *vm_type_of(const vm_module *m, uint32_t value);
bool vm_type_same(const vm_type *a, const vm_type *b);
/* The scalar type of a scalar, vector, matrix; itself otherwise. */
const vm_type *vm_type_scalar(const vm_module *m, const vm_type *t);
bool vm_declare_type(vm_module *m, int code, uint32_t at);
bool vm_declare_constant(vm_module *m, int code, uint32_t at);
bool vm_declare_global(vm_module *m, uint32_t at);
/* A constant that has to be known, an integer. */
bool vm_constant_at(vm_module *m, uint32_t at, uint32_t id, uint32_t *out);
uint32_t vm_decoration_of(const vm_module *m, uint32_t id, uint32_t member, uint32_t what,
                          uint32_t otherwise);
uint32_t vm_new_constant(vm_module *m, uint32_t words); /* a reference */

/* --- spirv_vm_decode.c, spirv_vm_code.c, spirv_vm_code_memory.c --- */
static inline uint32_t vm_length(const vm_module *m, uint32_t at) { return m->words[at] >> 16; }
static inline int vm_code_at(const vm_module *m, uint32_t at) {
  return vm_op_find(m->words[at] & 0xffff);
}
bool vm_survey(vm_module *m); /* ids, types, functions, blocks */
/* All operands but those of memory, each with its letter; until one returns false, which then comes back. */
typedef bool vm_visit(void *user, uint32_t at, char letter, uint32_t operand);
bool vm_each_operand(vm_module *m, int code, uint32_t at, vm_visit *visit, void *user);
bool vm_write_code(vm_module *m);
bool vm_write_memory(vm_module *m, int code, uint32_t at, vm_op *o);
bool vm_write_matrix(vm_module *m, int code, uint32_t at, vm_op *o);

/* --- spirv_vm_check.c, spirv_vm_check_types.c --- */
bool vm_check_blocks(vm_module *m); /* finds ways and dominators, too */
bool vm_check_types(vm_module *m, int code, uint32_t at);

/* --- spirv_vm_run.c, spirv_vm_math.c --- */
/* Up to a barrier, an operation of the subgroup, the end, or a fault. */
void vm_thread_run(vm *v, vm_thread *t);
bool vm_glsl(vm *v, const vm_thread *t, const vm_op *o);
bool vm_arithmetic(vm *v, const vm_thread *t, const vm_op *o); /* what is rare, or may fault */

/* --- spirv_vm_memory.c --- */
bool vm_load_buffer(vm *v, vm_thread *t, const vm_op *o);
bool vm_store_buffer(vm *v, vm_thread *t, const vm_op *o);
bool vm_load_block(vm *v, vm_thread *t, const vm_op *o);
bool vm_load_shared(vm *v, vm_thread *t, const vm_op *o);
bool vm_store_shared(vm *v, vm_thread *t, const vm_op *o);
bool vm_atomic(vm *v, vm_thread *t, const vm_op *o);
/* The bytes behind an address, checked and noted; NULL after a fault. */
unsigned char *vm_touch_buffer(vm *v, const vm_thread *t, const vm_op *o, word address,
                               uint32_t bytes, int access, bool atomic);
bool vm_touch_shared(vm *v, const vm_thread *t, const vm_op *o, word at, uint32_t n, int access,
                     bool atomic);

/* --- spirv_vm_group.c, spirv_vm_subgroup.c, spirv_vm_matrix.c --- */
/* Place i of n in the job's order. */
uint32_t vm_ordered(const vm_job *job, uint32_t i, uint32_t n);
/* One operation of n threads, all of which have reached it. */
bool vm_subgroup_run(vm *v, vm_thread *first, int n, const vm_op *o);
bool vm_matrix_run(vm *v, vm_thread *first, int n, const vm_op *o);

static inline word *vm_at(const vm_module *m, const vm_thread *t, uint32_t ref) {
  return (ref & VM_CONSTANT ? m->constants.at : t->frame) + (ref & ~VM_CONSTANT);
}
static inline int64_t vm_signed(word x, int shift) { return (int64_t)(x << shift) >> shift; }
static inline word vm_cut(word x, int shift) { return x << shift >> shift; }
float vm_float_of(word x, int kind);
word vm_float_bits(float x, int kind);

#endif
