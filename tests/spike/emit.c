/* Regions, and the shader around them. See emit.h and emitter.h. */
#include "spike/emit.h"

#include "spike/emitter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- regions --- */

/* Fails the run: whoever is first writes what is wrong. */
static void emit_require(emitter *e, const instr *i) {
  spirv *s = &e->s;
  spirv_id fails = spirv_op(s, SPV_LogicalNot, s->boolean, SPV_ARGS(e->reg[i->a]));
  spirv_id record = emit_parameter(e, 0), word = spirv_pointer(s, SPV_PhysicalBuffer, s->u32);
  spirv_id zero = spirv_u32(s, 0), device = spirv_u32(s, 1), site = spirv_u32(s, i->index + 1);
  spirv_if failed = spirv_if_begin(s, fails);
  spirv_id at = spirv_op(s, SPV_ConvertUToPtr, word, SPV_ARGS(record));
  spirv_id before =
      spirv_op(s, SPV_AtomicCompareExchange, s->u32, SPV_ARGS(at, device, zero, zero, site, zero));
  spirv_id first = spirv_op(s, SPV_IEqual, s->boolean, SPV_ARGS(before, zero));
  spirv_if mine = spirv_if_begin(s, first);
  spirv_id four = spirv_constant(s, SPV_Constant, s->u64, SPV_ARGS(4, 0));
  spirv_id behind = spirv_op(s, SPV_IAdd, s->u64, SPV_ARGS(record, four));
  spirv_id shown = spirv_op(s, SPV_ConvertUToPtr, word, SPV_ARGS(behind));
  spirv_id bits = spirv_op(s, SPV_Bitcast, s->u32, SPV_ARGS(e->reg[i->b]));
  spirv_do(s, SPV_Store, SPV_ARGS(shown, bits, 2, 4));
  spirv_if_end(s, &mine);
  spirv_if_end(s, &failed);
}

static spirv_id emit_size_lane(emitter *e, const instr *i) {
  spirv *s = &e->s;
  spirv_id n = emit_size(e, i->size);
  if (instr_is_float(i))
    return spirv_op(s, SPV_ConvertSToF, s->f32, SPV_ARGS(n));
  return e->env->wide ? spirv_op(s, SPV_SConvert, s->i32, SPV_ARGS(n)) : n;
}

/* A zero that the driver cannot see: Mesa 22.3 makes 0 of NaN * 0, whatever decorations and modes say. It is the unused
 * word of value 0. */
static spirv_id hidden_zero(emitter *e, double x) {
  spirv *s = &e->s;
  spirv_id bits = spirv_op(s, SPV_UConvert, s->u32, SPV_ARGS(emit_parameter(e, 1)));
  spirv_id zero = spirv_op(s, SPV_Bitcast, s->f32, SPV_ARGS(bits));
  return signbit(x) ? spirv_op(s, SPV_FNegate, s->f32, SPV_ARGS(zero)) : zero;
}

spirv_id emit_instr(emitter *e, const instr *i) {
  spirv *s = &e->s;
  spirv_id n;
  switch ((region_op)i->op) {
  case REGION_LOAD: return emit_load(e, i);
  case REGION_STORE: emit_store(e, i); return e->reg[i->a];
  case REGION_INDEX:
    n = emit_linear(e, i->at.base, i->at.n_terms, i->at.terms);
    return e->env->wide ? spirv_op(s, SPV_SConvert, s->i32, SPV_ARGS(n)) : n;
  case REGION_INSIDE: return emit_inside(e, &i->at);
  case REGION_NUMBER:
    return instr_is_float(i) && i->x == 0 ? hidden_zero(e, i->x)
                                          : emit_number(e, (sn_dtype)i->dtype, i->x);
  case REGION_SIZE: return emit_size_lane(e, i);
  case REGION_ALU: return emit_alu(e, i);
  case REGION_WORD: return emit_word(e, i);
  case REGION_ACC: return e->acc[i->index];
  case REGION_REQUIRE: emit_require(e, i); return e->reg[i->a];
  case REGION_REDUCE: break;
  }
  e->why = "a reduction outside of a row";
  return emit_number(e, (sn_dtype)i->dtype, 0);
}

spirv_id emit_region(emitter *e, const region *r) {
  spirv_id last = 0;
  e->code = r->code;
  for (int k = 0; k < r->n; k++)
    last = e->reg[k] = emit_instr(e, &r->code[k]);
  return last;
}

/* --- main --- */

enum { GROUP_ID = 26, LOCAL_INDEX = 29, NUM_GROUPS = 24, BUILT_IN = 11, BLOCK = 2, OFFSET = 35 };

typedef struct built_in {
  spirv_id variable, type;
} built_in;

static built_in input(emitter *e, uint32_t which, bool vector) {
  spirv *s = &e->s;
  spirv_id three = spirv_type(s, SPV_TypeVector, SPV_ARGS(s->u32, 3));
  built_in b = {.type = vector ? three : s->u32};
  b.variable = spirv_global(s, SPV_Input, b.type);
  spirv_decorate(s, b.variable, SPV_ARGS(BUILT_IN, which));
  return b;
}

/* The first component of an input, as an index. */
static spirv_id read_input(emitter *e, const built_in *b) {
  spirv *s = &e->s;
  spirv_id x = spirv_op(s, SPV_Load, b->type, SPV_ARGS(b->variable));
  if (b->type != s->u32)
    x = spirv_op(s, SPV_CompositeExtract, s->u32, SPV_ARGS(x, 0));
  if (!e->env->wide)
    return spirv_op(s, SPV_Bitcast, s->i32, SPV_ARGS(x));
  x = spirv_op(s, SPV_UConvert, s->u64, SPV_ARGS(x));
  return spirv_op(s, SPV_Bitcast, s->i64, SPV_ARGS(x));
}

/* The block of parameters: its address is the push constant. From version 1.4 on, an entry point names every variable
 * that it uses, so the variable is returned. */
static spirv_id open_block(emitter *e) {
  spirv *s = &e->s;
  spirv_id type = spirv_type(s, SPV_TypeStruct, SPV_ARGS(s->u64));
  spirv_decorate(s, type, SPV_ARGS(BLOCK));
  spirv_put(s, SPV_DECORATIONS, SPV_MemberDecorate, SPV_ARGS(type, 0, OFFSET, 0));
  spirv_id block = spirv_global(s, SPV_PushConstant, type);
  spirv_id at = spirv_op(s, SPV_AccessChain, spirv_pointer(s, SPV_PushConstant, s->u64),
                         SPV_ARGS(block, spirv_u32(s, 0)));
  e->parameters = spirv_op(s, SPV_Load, s->u64, SPV_ARGS(at));
  return block;
}

threads emit_main_begin(emitter *e, spirv_id shared_a, spirv_id shared_b) {
  spirv *s = &e->s;
  built_in group = input(e, GROUP_ID, true), groups = input(e, NUM_GROUPS, true);
  built_in local = input(e, LOCAL_INDEX, false);
  spirv_id type = spirv_type(s, SPV_TypeFunction, SPV_ARGS(s->none));
  s->now = SPV_HEAD;
  spirv_id function = spirv_op(s, SPV_Function, s->none, SPV_ARGS(0, type));
  spirv_begin(s, spirv_label(s));
  s->now = SPV_PROLOGUE;
  spirv_id block = open_block(e);
  threads t = {.group = read_input(e, &group),
               .local = read_input(e, &local),
               .groups = read_input(e, &groups)};
  uint32_t entry[16] = {5, function, 0x6e69616d /* "main" */, 0, block};
  uint32_t rest[] = {group.variable, groups.variable, local.variable, shared_a, shared_b};
  memcpy(entry + 5, rest, sizeof rest);
  spirv_put(s, SPV_PREAMBLE, SPV_EntryPoint, 8 + (shared_a != 0) + (shared_b != 0), entry);
  spirv_put(s, SPV_PREAMBLE, SPV_ExecutionMode, SPV_ARGS(function, 17, EMIT_THREADS, 1, 1));
  spirv_put(s, SPV_PREAMBLE, SPV_ExecutionMode, SPV_ARGS(function, 4461, 32)); /* NaN, -0 kept */
  s->now = SPV_BODY;
  /* Loads of sizes join the prologue while the body is emitted, so the body begins with a block of its own. */
  spirv_id body = spirv_label(s);
  spirv_go(s, body);
  spirv_begin(s, body);
  return t;
}

shader emit_main_end(emitter *e) {
  spirv *s = &e->s;
  shader out = {0};
  spirv_do(s, SPV_Return, 0, NULL);
  spirv_do(s, SPV_FunctionEnd, 0, NULL);
  out.instructions = s->instructions;
  if (e->why)
    snprintf(out.why, sizeof out.why, "%s", e->why);
  else
    out.words = spirv_finish(s, &out.n);
  spirv_free(s);
  free(e);
  return out;
}

emitter *emit_start(const emit_env *env) {
  emitter *e = calloc(1, sizeof *e);
  if (!e)
    abort();
  e->s = spirv_start();
  e->env = env;
  e->index = env->wide ? e->s.i64 : e->s.i32;
  return e;
}
