/* ops.def as data: names, arguments, attributes of each op, beside its implementation. */
#include "ops/table.h"

#include "ir/graph.h"
#include "ops/each.h"

#define WORD(value, word) #word,
static const char *const words_sn_init[] = {SN_INIT_VALUES(WORD) NULL};
static const char *const words_sn_pad_mode[] = {SN_PAD_MODE_VALUES(WORD) NULL};
static const char *const words_sn_reduction[] = {SN_REDUCTION_VALUES(WORD) NULL};
static const char *const words_sn_causal[] = {SN_CAUSAL_VALUES(WORD) NULL};
static const char *const words_sn_layout[] = {SN_LAYOUT_VALUES(WORD) NULL};
static const char *const words_sn_rope_layout[] = {SN_ROPE_LAYOUT_VALUES(WORD) NULL};
static const char *const words_sn_rope_scaling[] = {SN_ROPE_SCALING_VALUES(WORD) NULL};
static const char *const words_sn_pool_kind[] = {SN_POOL_VALUES(WORD) NULL};
#undef WORD

/* Arguments of each op, ended by an empty row. */
#define IN(x)  {#x, false},
#define OPT(x) {#x, true},
#define OP(name, inputs, attributes, results, meaning) \
  static const input_desc inputs_##name[] = {inputs{NULL, false}};
#define OPN(name, attributes, results, meaning) \
  static const input_desc inputs_##name[] = {{NULL, false}};
#include <sinew/ops.def>

/* Attributes of each op, ended by an empty row. */
#define ROW(op, kind, name, words) {#name, kind, offsetof(attrs_##op, name), words},
#define INT(n)                     (ATTR_INT, n, NULL),
#define DIM(d)                     (ATTR_DIM, d, NULL),
#define REAL(f)                    (ATTR_REAL, f, NULL),
#define FLAG(b)                    (ATTR_FLAG, b, NULL),
#define DTYPE(t)                   (ATTR_DTYPE, t, NULL),
#define INTS(l)                    (ATTR_INTS, l, NULL),
#define SHAPE(s)                   (ATTR_SHAPE, s, NULL),
#define STR(s)                     (ATTR_STR, s, NULL),
#define BYTES(b)                   (ATTR_BYTES, b, NULL),
#define ENUM(type, e)              (ATTR_ENUM, e, words_##type),
#define STREAM(s)                  (ATTR_STREAM, s, NULL),
#define OP(name, inputs, attributes, results, meaning) \
  static const attr_desc list_##name[] = {EACH(ROW, name, attributes END){NULL, ATTR_INT, 0, NULL}};
#define OPN(name, attributes, results, meaning) \
  static const attr_desc list_##name[] = {EACH(ROW, name, attributes END){NULL, ATTR_INT, 0, NULL}};
#include <sinew/ops.def>

#define OP(name, inputs, attributes, results, meaning) \
  [OP_##name] = {#name,                                \
                 meaning,                              \
                 inputs_##name,                        \
                 (int)COUNT_OF(inputs_##name) - 1,     \
                 false,                                \
                 list_##name,                          \
                 (int)COUNT_OF(list_##name) - 1,       \
                 sizeof(attrs_##name),                 \
                 results,                              \
                 &op_impl_##name},
#define OPN(name, attributes, results, meaning)  \
  [OP_##name] = {#name,                          \
                 meaning,                        \
                 inputs_##name,                  \
                 0,                              \
                 true,                           \
                 list_##name,                    \
                 (int)COUNT_OF(list_##name) - 1, \
                 sizeof(attrs_##name),           \
                 results,                        \
                 &op_impl_##name},
static const op_desc descs[OP_COUNT] = {
#include <sinew/ops.def>
};

static const op_table table = {descs, OP_COUNT};

const op_table *op_table_get(void) { return &table; }

sn_status sn_graph_create(sn_ctx *ctx, sn_graph **out_graph) {
  return graph_create(ctx, &table, out_graph);
}

sn_status sn_graph_parse(sn_ctx *ctx, const char *text, sn_graph **out_graph) {
  return graph_parse(ctx, &table, text, out_graph);
}
