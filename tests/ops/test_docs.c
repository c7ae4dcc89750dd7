/* docs/ops.md and the table of ops in README.md say what the op table says. Both are rendered from the
 * table and compared with what stands between two marks in the file; SINEW_UPDATE_DOCS=1 writes it there
 * instead. Text outside the marks is written by hand and not looked at. */
#include "base/text.h"
#include "ops/table.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

/* Sections in the order of ops.def: each runs from its first op to the next one's. */
static const struct {
  const char *title, *first;
} sections[] = {
    {"Leaves", "input"},
    {"Pointwise, one argument", "neg"},
    {"Pointwise, two and three arguments", "add"},
    {"Reductions and scans", "sum"},
    {"Shape", "arange"},
    {"Linear algebra", "matmul"},
    {"Normalisation", "layer_norm"},
    {"Softmax and losses", "softmax"},
    {"Attention", "attention"},
    {"Convolution and pooling", "conv"},
    {"Choosing and random", "topk"},
};

/* Prototypes, as ops.h declares them. */
#define IN(x)         ", sn_value " #x
#define OPT(x)        ", sn_value " #x
#define INT(n)        ", int64_t " #n
#define DIM(d)        ", sn_dim " #d
#define REAL(f)       ", double " #f
#define FLAG(b)       ", bool " #b
#define DTYPE(t)      ", sn_dtype " #t
#define INTS(l)       ", sn_ints " #l
#define SHAPE(s)      ", sn_shape " #s
#define STR(s)        ", const char *" #s
#define BYTES(b)      ", sn_bytes " #b
#define ENUM(type, e) ", " #type " " #e
#define STREAM(s)     ", int64_t " #s
#define OP(name, inputs, attributes, results, meaning) \
  [OP_##name] = "sn_value sn_" #name "(sn_graph *graph" inputs attributes ");",
#define OPN(name, attributes, results, meaning) \
  [OP_##name] = "sn_value sn_" #name            \
                "(sn_graph *graph, const sn_value *values, int n_values" attributes ");",
static const char *const prototypes[OP_COUNT] = {
#include <sinew/ops.def>
};

static const char *const kind_names[] = {
    [ATTR_INT] = "whole number", [ATTR_DIM] = "size",       [ATTR_REAL] = "number",
    [ATTR_FLAG] = "flag",        [ATTR_DTYPE] = "dtype",    [ATTR_INTS] = "list of whole numbers",
    [ATTR_SHAPE] = "shape",      [ATTR_STR] = "name",       [ATTR_BYTES] = "bytes",
    [ATTR_ENUM] = "one of",      [ATTR_STREAM] = "identity"};

/* --- rendering --- */

/* Broken at commas so that lines stay below 100 characters. */
static void put_prototype(text *t, const char *line) {
  enum { WIDTH = 96, INDENT = 4 };
  text_puts(t, "```c\n");
  for (size_t indent = 0; *line; indent = INDENT) {
    size_t room = WIDTH - indent, n = strlen(line);
    if (n > room)
      for (n = room; n > 1 && !(line[n - 1] == ' ' && line[n - 2] == ',');)
        n--;
    text_printf(t, "%*s%.*s\n", (int)indent, "", (int)(line[n] ? n - 1 : n), line);
    line += n;
  }
  text_puts(t, "```\n\n");
}

/* Stars outside of backquotes would be emphasis. */
static void put_meaning(text *t, const char *s) {
  bool code = false;
  for (; *s; s++) {
    code ^= *s == '`';
    text_puts(t, *s == '*' && !code ? "\\" : "");
    text_add(t, s, 1);
  }
  text_puts(t, ".\n\n");
}

static void put_inputs(text *t, const op_desc *op) {
  if (op->on_list)
    text_puts(t, "- inputs: a list of one or more values\n");
  for (int i = 0; i < op->n_inputs; i++)
    text_printf(t, "%s`%s`%s%s", i ? ", " : "- inputs: ", op->inputs[i].name,
                op->inputs[i].optional ? " (optional)" : "", i + 1 == op->n_inputs ? "\n" : "");
}

static void put_attributes(text *t, const op_desc *op) {
  for (int i = 0; i < op->n_attrs; i++) {
    const attr_desc *a = &op->attrs[i];
    text_printf(t, "%s`%s` %s", i ? "; " : "- attributes: ", a->name, kind_names[a->kind]);
    for (int w = 0; a->kind == ATTR_ENUM && a->words[w]; w++)
      text_printf(t, "%s`%s`", w ? ", " : " ", a->words[w]);
    text_puts(t, i + 1 == op->n_attrs ? "\n" : "");
  }
}

static const char *gradient_text(const op_impl *m) {
  return m->grad ? "own vjp" : m->grad_by_decompose ? "by decomposition" : "none";
}

static void put_op(text *t, const op_desc *op, int id) {
  const op_impl *m = op->impl;
  text_printf(t, "\n### %s\n\n", op->name);
  put_prototype(t, prototypes[id]);
  put_meaning(t, op->meaning);
  put_inputs(t, op);
  put_attributes(t, op);
  if (op->n_results > 1)
    text_printf(t, "- results: %d\n", op->n_results);
  text_printf(t, "- gradient: %s", gradient_text(m));
  if (m->no_grad)
    text_printf(t, " (%s)", m->no_grad);
  text_printf(t, "%s\n", m->decompose && !m->grad_by_decompose ? "; also has a decomposition" : "");
}

/* The section that begins at this op; -1 when none does. */
static int section_at(const char *op) {
  for (size_t i = 0; i < COUNT_OF(sections); i++)
    if (strcmp(sections[i].first, op) == 0)
      return (int)i;
  return -1;
}

static void put_enum(text *t, const char *type, const char *const *values) {
  text_printf(t, "| `%s` |", type);
  for (int i = 0; values[i]; i += 2)
    text_printf(t, "%s `%s` %s", i ? "," : "", values[i + 1], values[i]);
  text_puts(t, " |\n");
}

static void put_enums(text *t) {
#define PAIR(value, word) #value, #word,
#define PUT(type, VALUES) put_enum(t, #type, (const char *const[]){VALUES(PAIR) NULL})
  text_puts(
      t, "## Words of enumerated attributes\n\n| type | words, and their constants |\n|---|---|\n");
  PUT(sn_init, SN_INIT_VALUES);
  PUT(sn_pad_mode, SN_PAD_MODE_VALUES);
  PUT(sn_reduction, SN_REDUCTION_VALUES);
  PUT(sn_causal, SN_CAUSAL_VALUES);
  PUT(sn_layout, SN_LAYOUT_VALUES);
  PUT(sn_rope_layout, SN_ROPE_LAYOUT_VALUES);
  PUT(sn_rope_scaling, SN_ROPE_SCALING_VALUES);
  PUT(sn_pool_kind, SN_POOL_VALUES);
#undef PUT
#undef PAIR
}

static void render_page(text *t, const op_table *table) {
  put_enums(t);
  for (int i = 1; i < table->n; i++) {
    int section = section_at(table->ops[i].name);
    if (section >= 0)
      text_printf(t, "\n## %s\n", sections[section].title);
    put_op(t, &table->ops[i], i);
  }
}

/* One line a section: how many ops, how many of them with a gradient, their names. */
static void render_summary(text *t, const op_table *table) {
  int all = 0, all_with = 0;
  text_puts(t, "| ops | number | with gradient | |\n|---|--:|--:|---|\n");
  for (int i = 1; i < table->n;) {
    int from = i, with = 0;
    for (; i < table->n && (i == from || section_at(table->ops[i].name) < 0); i++)
      with += !table->ops[i].impl->no_grad;
    int section = section_at(table->ops[from].name);
    text_printf(t, "| %s | %d | %d |", section < 0 ? "?" : sections[section].title, i - from, with);
    for (int k = from; k < i; k++)
      text_printf(t, " %s", table->ops[k].name);
    text_puts(t, " |\n");
    all += i - from;
    all_with += with;
  }
  text_printf(t, "| all | %d | %d | |\n", all, all_with);
}

/* --- files --- */

static const char *const BEGIN = "<!-- from the op table: begin -->\n";
static const char *const END = "<!-- from the op table: end -->\n";

static char *read_whole(const char *path) {
  enum { MOST = 1 << 20 };
  FILE *f = fopen(path, "rb");
  char *bytes = f ? calloc(MOST + 1, 1) : NULL;
  if (bytes)
    CHECK(fread(bytes, 1, MOST, f) < MOST);
  if (f)
    fclose(f);
  return bytes;
}

static int line_of(const char *whole, const char *at) {
  int line = 1;
  for (; whole < at; whole++)
    line += *whole == '\n';
  return line;
}

/* Names the first line that differs. */
static void compare(const char *path, const char *file, const char *is, const char *end,
                    const char *wanted) {
  while (is < end && *wanted) {
    size_t n = strcspn(is, "\n"), m = strcspn(wanted, "\n");
    if (n != m || memcmp(is, wanted, n) != 0)
      break;
    is += n + 1;
    wanted += m + 1;
  }
  if (is < end || *wanted)
    FAIL("%s:%d: the table has \"%.*s\", the file \"%.*s\"; SINEW_UPDATE_DOCS=1 rewrites it", path,
         line_of(file, is), (int)strcspn(wanted, "\n"), wanted,
         is < end ? (int)strcspn(is, "\n") : 0, is);
}

static void rewrite(const char *path, const char *file, const char *begin, const char *end,
                    const char *wanted) {
  FILE *f = fopen(path, "wb");
  if (!CHECK(f != NULL))
    return;
  fwrite(file, 1, (size_t)(begin - file), f);
  fputs(wanted, f);
  fputs(end, f);
  CHECK(fclose(f) == 0);
  printf("wrote %s\n", path);
}

static void check_file(const char *relative, void (*render)(text *t, const op_table *table)) {
  const char *path = test_source(relative);
  sn_ctx *ctx;
  text t;
  REQUIRE(sn_ctx_create(NULL, &ctx) == SN_OK);
  text_init(&t, ctx);
  render(&t, op_table_get());
  char *file = read_whole(path), *begin = file ? strstr(file, BEGIN) : NULL;
  char *end = begin ? strstr(begin, END) : NULL;
  if (!CHECK(text_done(&t) == SN_OK))
    FAIL("%s", sn_ctx_message(ctx));
  else if (!end)
    FAIL("%s is missing, or its marks are", relative);
  else if (getenv("SINEW_UPDATE_DOCS"))
    rewrite(path, file, begin + strlen(BEGIN), end, t.data);
  else
    compare(relative, file, begin + strlen(BEGIN), end, t.data);
  free(file);
  text_free(&t);
  sn_ctx_destroy(ctx);
}

TEST(sections_begin_at_ops_that_are_there) {
  const op_table *table = op_table_get();
  int found = 0;
  for (int i = 1; i < table->n; i++)
    found += section_at(table->ops[i].name) >= 0;
  CHECK_EQ_INT(found, COUNT_OF(sections));
  CHECK_EQ_INT(section_at(table->ops[1].name), 0);
}

static void compare_changed(void *at) {
  const char *file = "a\nb\nc\n", *const *wanted = at;
  compare("x", file, file, file + 6, *wanted);
}

TEST(the_first_differing_line_is_named) {
  static const struct {
    const char *wanted, *said;
  } rows[] = {{"a\nb\nc\n", NULL},
              {"a\nB\nc\n", "x:2: the table has \"B\", the file \"b\""},
              {"a\nb\n", "x:3: the table has \"\", the file \"c\""},
              {"a\nb\nc\nd\n", "x:4: the table has \"d\", the file \"\""}};
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    const char *wanted = rows[i].wanted;
    test_result r = test_probe(compare_changed, &wanted);
    CHECK_EQ_INT(r.failed, rows[i].said != NULL);
    if (rows[i].said)
      CHECK_STR_HAS(r.failed_check, rows[i].said);
  }
}

TEST(ops_page) { check_file("docs/ops.md", render_page); }
TEST(readme_table) { check_file("README.md", render_summary); }
