/* ops.def as data: names, arguments, attributes of each op, beside its implementation. */
#include "base/null.h"

#include "ops/table.h"

#include "base/file.h"
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
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, out_graph);
  return graph_create(ctx, &table, out_graph);
}

sn_status sn_graph_parse(sn_ctx *ctx, const char *text, sn_graph **out_graph) {
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, text);
  NEEDS_ARGUMENT(ctx, out_graph);
  return graph_parse(ctx, &table, text, out_graph);
}

/* All of an open file as a string. */
static sn_status read_text(sn_ctx *ctx, file_reader *file, char **out_text) {
  size_t size = (size_t)file_size(file);
  *out_text = NULL;
  if (file_size(file) > SN_GRAPH_MAX_TEXT)
    return diag_fail(ctx, SN_ERR_FORMAT, "%s: expected at most %d bytes, got %llu", file_path(file),
                     SN_GRAPH_MAX_TEXT, (unsigned long long)file_size(file));
  char *text = mem_alloc(ctx, size + 1);
  if (!text)
    return SN_ERR_NO_MEMORY;
  sn_status status = file_read_at(file, 0, text, size);
  if (status == SN_OK && strlen(text) < size)
    status = diag_fail(ctx, SN_ERR_FORMAT, "%s: not a text: byte %zu is NUL", file_path(file),
                       strlen(text));
  if (status == SN_OK)
    *out_text = text;
  else
    mem_free(ctx, text, size + 1);
  return status;
}

sn_status sn_graph_parse_file(sn_ctx *ctx, const char *path, sn_graph **out_graph) {
  CLEARS(out_graph);
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, path);
  NEEDS_ARGUMENT(ctx, out_graph);
  file_reader *file;
  char *text;
  SN_TRY(file_open(ctx, path, &file));
  sn_status status = read_text(ctx, file, &text);
  if (status == SN_OK) {
    status = sn_graph_parse(ctx, text, out_graph);
    if (status != SN_OK)
      status = diag_within(ctx, status, "%s", path);
    mem_free(ctx, text, (size_t)file_size(file) + 1);
  }
  file_close(file);
  return status;
}
