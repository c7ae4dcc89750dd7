/* A small builder of SPIR-V modules, word by word: sections in the order that the format wants, interned types and
 * constants, and the structured control flow that a kernel needs. Made for compute shaders of Vulkan 1.2.
 *
 *   spirv s = spirv_start();
 *   spirv_id sum = spirv_op(&s, SPV_FAdd, s.f32, SPV_ARGS(a, b));
 *
 * Memory: running out of it ends the process; these are tests. */
#ifndef SINEW_TESTS_SPIKE_SPIRV_H
#define SINEW_TESTS_SPIKE_SPIRV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t spirv_id;

typedef enum spirv_section {
  SPV_PREAMBLE, /* capabilities, imports, memory model, entry point, modes */
  SPV_DECORATIONS,
  SPV_GLOBALS,  /* types, constants, variables outside of functions */
  SPV_HELPERS,  /* functions beside main */
  SPV_HEAD,     /* main up to its first label */
  SPV_LOCALS,   /* its variables */
  SPV_PROLOGUE, /* what main computes once, before the body: loads of sizes and addresses */
  SPV_BODY,
  SPV_SECTIONS
} spirv_section;

typedef struct spirv_words {
  uint32_t *at;
  size_t n, room;
} spirv_words;

typedef struct spirv {
  spirv_words section[SPV_SECTIONS];
  spirv_section now; /* where instructions go: SPV_BODY, unless told otherwise */
  spirv_id next;     /* the next free id */
  spirv_id block;    /* the label of the block that instructions go into */
  int instructions;  /* in functions */
  spirv_id none, boolean, u8, u16, u32, i32, u64, i64, f32; /* types */
  spirv_id glsl;                                            /* the imported functions */
} spirv;

spirv spirv_start(void);
void spirv_free(spirv *s);
/* The whole module; the caller frees it. */
uint32_t *spirv_finish(spirv *s, size_t *out_n);

#define SPV_ARGS(...) \
  (int)(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)), (const uint32_t[]) { __VA_ARGS__ }

/* An instruction with a result, or without one, into the current section. */
spirv_id spirv_op(spirv *s, int op, spirv_id type, int n, const uint32_t *args);
void spirv_do(spirv *s, int op, int n, const uint32_t *args);
void spirv_put(spirv *s, spirv_section where, int op, int n, const uint32_t *args);
/* A type or constant, the one there is if there is one. */
spirv_id spirv_type(spirv *s, int op, int n, const uint32_t *args);
spirv_id spirv_constant(spirv *s, int op, spirv_id type, int n, const uint32_t *args);
spirv_id spirv_pointer(spirv *s, int storage, spirv_id to);
spirv_id spirv_global(spirv *s, int storage, spirv_id type);
spirv_id spirv_local(spirv *s, spirv_id type); /* a variable of main */
void spirv_decorate(spirv *s, spirv_id of, int n, const uint32_t *args);

spirv_id spirv_bool(spirv *s, bool value);
spirv_id spirv_u32(spirv *s, uint32_t value);
spirv_id spirv_i32(spirv *s, int32_t value);
spirv_id spirv_i64(spirv *s, int64_t value);
spirv_id spirv_f32(spirv *s, float value);
/* A function of GLSL.std.450. */
spirv_id spirv_glsl(spirv *s, int function, spirv_id type, int n, const uint32_t *args);

/* --- control flow --- */
spirv_id spirv_label(spirv *s); /* an id for a block to come */
void spirv_begin(spirv *s, spirv_id label);
void spirv_go(spirv *s, spirv_id label);
/* if (condition) { … }; the block before it is `from`, for phis behind it. */
typedef struct spirv_if {
  spirv_id from, merge;
} spirv_if;
spirv_if spirv_if_begin(spirv *s, spirv_id condition);
void spirv_if_end(spirv *s, const spirv_if *i);
/* The value computed at the end of the if's block, or `other` where it was not entered. */
spirv_id spirv_if_value(spirv *s, const spirv_if *i, spirv_id type, spirv_id value, spirv_id other);
/* for (variable = from; variable < to; variable += step) { … }, of signed integers. */
typedef struct spirv_loop {
  spirv_id variable, type, step, index, head, next, merge;
} spirv_loop;
spirv_loop spirv_loop_begin(spirv *s, spirv_id type, spirv_id from, spirv_id to, spirv_id step);
void spirv_loop_end(spirv *s, const spirv_loop *l);

/* --- numbers of the format --- */
enum {
  SPV_ExtInstImport = 11,
  SPV_ExtInst = 12,
  SPV_MemoryModel = 14,
  SPV_EntryPoint = 15,
  SPV_ExecutionMode = 16,
  SPV_Capability = 17,
  SPV_TypeVoid = 19,
  SPV_TypeBool = 20,
  SPV_TypeInt = 21,
  SPV_TypeFloat = 22,
  SPV_TypeVector = 23,
  SPV_TypeArray = 28,
  SPV_TypeStruct = 30,
  SPV_TypePointer = 32,
  SPV_TypeFunction = 33,
  SPV_ConstantTrue = 41,
  SPV_ConstantFalse = 42,
  SPV_Constant = 43,
  SPV_Function = 54,
  SPV_FunctionParameter = 55,
  SPV_FunctionEnd = 56,
  SPV_FunctionCall = 57,
  SPV_Variable = 59,
  SPV_Load = 61,
  SPV_Store = 62,
  SPV_AccessChain = 65,
  SPV_Decorate = 71,
  SPV_MemberDecorate = 72,
  SPV_CompositeExtract = 81,
  SPV_ConvertFToS = 110,
  SPV_ConvertSToF = 111,
  SPV_ConvertUToF = 112,
  SPV_UConvert = 113,
  SPV_SConvert = 114,
  SPV_ConvertUToPtr = 120,
  SPV_Bitcast = 124,
  SPV_SNegate = 126,
  SPV_FNegate = 127,
  SPV_IAdd = 128,
  SPV_FAdd = 129,
  SPV_ISub = 130,
  SPV_FSub = 131,
  SPV_IMul = 132,
  SPV_FMul = 133,
  SPV_UDiv = 134,
  SPV_SDiv = 135,
  SPV_FDiv = 136,
  SPV_UMod = 137,
  SPV_SRem = 138,
  SPV_FRem = 140,
  SPV_IAddCarry = 149,
  SPV_UMulExtended = 151,
  SPV_IsNan = 156,
  SPV_IsInf = 157,
  SPV_LogicalEqual = 164,
  SPV_LogicalNotEqual = 165,
  SPV_LogicalOr = 166,
  SPV_LogicalAnd = 167,
  SPV_LogicalNot = 168,
  SPV_Select = 169,
  SPV_IEqual = 170,
  SPV_INotEqual = 171,
  SPV_UGreaterThan = 172,
  SPV_SGreaterThan = 173,
  SPV_UGreaterThanEqual = 174,
  SPV_SGreaterThanEqual = 175,
  SPV_ULessThan = 176,
  SPV_SLessThan = 177,
  SPV_ULessThanEqual = 178,
  SPV_SLessThanEqual = 179,
  SPV_FOrdEqual = 180,
  SPV_FUnordNotEqual = 183,
  SPV_FOrdLessThan = 184,
  SPV_FOrdGreaterThan = 186,
  SPV_FOrdLessThanEqual = 188,
  SPV_FOrdGreaterThanEqual = 190,
  SPV_ShiftRightLogical = 194,
  SPV_ShiftLeftLogical = 196,
  SPV_BitwiseOr = 197,
  SPV_BitwiseXor = 198,
  SPV_BitwiseAnd = 199,
  SPV_ControlBarrier = 224,
  SPV_AtomicCompareExchange = 230,
  SPV_Phi = 245,
  SPV_LoopMerge = 246,
  SPV_SelectionMerge = 247,
  SPV_Label = 248,
  SPV_Branch = 249,
  SPV_BranchConditional = 250,
  SPV_Return = 253,
  SPV_ReturnValue = 254
};

enum { /* storage */
       SPV_Input = 1,
       SPV_Workgroup = 4,
       SPV_InFunction = 7,
       SPV_PushConstant = 9,
       SPV_PhysicalBuffer = 5349
};

enum { /* functions of GLSL.std.450 */
       GLSL_RoundEven = 2,
       GLSL_Trunc = 3,
       GLSL_FAbs = 4,
       GLSL_SAbs = 5,
       GLSL_FSign = 6,
       GLSL_SSign = 7,
       GLSL_Floor = 8,
       GLSL_Ceil = 9,
       GLSL_Sin = 13,
       GLSL_Cos = 14,
       GLSL_Tan = 15,
       GLSL_Atan = 18,
       GLSL_Tanh = 21,
       GLSL_Atan2 = 25,
       GLSL_Pow = 26,
       GLSL_Exp = 27,
       GLSL_Log = 28,
       GLSL_Exp2 = 29,
       GLSL_Log2 = 30,
       GLSL_Sqrt = 31,
       GLSL_InverseSqrt = 32,
       GLSL_UMin = 38,
       GLSL_SMin = 39,
       GLSL_UMax = 41,
       GLSL_SMax = 42,
       GLSL_Fma = 50
};

#endif
