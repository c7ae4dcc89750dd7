/* Reads the text form of graphs (print.c). The text is untrusted: every number is checked before it is
 * used, nesting is bounded, and a bad line gives an error with its line and column.
 *
 * Ids in the text are free numbers that a line defines before others use them; an attribute that is
 * left out is zero, false, empty or its first choice (a dtype: f32; a stream: the next free identity). The types
 * behind the colon may be left out; where they stand they must be what inference says. What follows a
 * # is a comment. */
#include "ir/dim.h"
#include "ir/dtype.h"

#include <locale.h>
#include <stdlib.h>

/* A division prints as two brackets. */
enum { MAX_ID = 1 << 22, MAX_DEPTH = 2 * DIM_MAX_DEPTH + 8, MAX_WORD = 600 };

typedef struct parser {
  sn_ctx *ctx;
  sn_graph *g;
  const char *at, *line_start;
  const char *token; /* where the last word or id began: what an error about it points to */
  int line;
  sn_value *ids; /* by number in the text */
  uint32_t n_ids;
  char word[MAX_WORD]; /* the last word or string read */
} parser;

/* "graph text 3:14": the place of a message. */
static sn_status within(parser *p, sn_status status, const char *place) {
  return diag_within(p->ctx, status, "graph text %d:%d", p->line, (int)(place - p->line_start) + 1);
}

/* What the last word or id says is wrong. */
static sn_status refuse(parser *p, const char *format, ...) PRINTF_LIKE(2, 3);
static sn_status refuse(parser *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  sn_status status = diag_failv(p->ctx, SN_ERR_FORMAT, format, args);
  va_end(args);
  return within(p, status, p->token);
}

/* Something else should stand here. */
static sn_status fail(parser *p, const char *expected) {
  char got[24] = "end of line";
  size_t n = strcspn(p->at, "\n");
  if (n > 0) {
    n = n < sizeof got - 1 ? n : sizeof got - 1;
    memcpy(got, p->at, n);
    got[n] = '\0';
  }
  return within(p, diag_fail(p->ctx, SN_ERR_FORMAT, "expected %s, got '%s'", expected, got), p->at);
}

static void skip_blanks(parser *p) {
  while (*p->at == ' ')
    p->at++;
}

static bool take(parser *p, char c) {
  skip_blanks(p);
  if (*p->at != c)
    return false;
  p->at++;
  return true;
}

static sn_status expect(parser *p, char c) {
  char what[] = {'\'', c, '\'', '\0'};
  return take(p, c) ? SN_OK : fail(p, what);
}

static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool digit(char c) { return c >= '0' && c <= '9'; }

/* A word of letters, digits and _, into p->word. */
static sn_status read_word(parser *p, const char *expected) {
  skip_blanks(p);
  p->token = p->at;
  size_t n = 0;
  while (letter(p->at[n]) || (n && digit(p->at[n])))
    n++;
  if (n == 0 || n >= MAX_WORD)
    return fail(p, expected);
  memcpy(p->word, p->at, n);
  p->word[n] = '\0';
  p->at += n;
  return SN_OK;
}

static int hex(char c) {
  if (digit(c))
    return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static sn_status read_string(parser *p) {
  SN_TRY(expect(p, '"'));
  size_t n = 0;
  while (*p->at != '"') {
    char c = *p->at;
    if (c == '\0' || c == '\n')
      return fail(p, "a closing '\"'");
    if (n + 1 >= MAX_WORD)
      return fail(p, "a shorter string");
    p->at++;
    if (c == '\\') {
      c = *p->at;
      if (c == 'x' && hex(p->at[1]) >= 0 && hex(p->at[2]) >= 0 && (p->at[1] | p->at[2]) != '0') {
        c = (char)(hex(p->at[1]) * 16 + hex(p->at[2]));
        p->at += 2;
      } else if (c != '"' && c != '\\') {
        return fail(p, "an escape \\\", \\\\ or \\xHH");
      }
      p->at++;
    }
    p->word[n++] = c;
  }
  p->word[n] = '\0';
  p->at++;
  return SN_OK;
}

static sn_status read_int(parser *p, int64_t *out) {
  skip_blanks(p);
  const char *s = p->at;
  bool negative = *s == '-';
  int64_t v = 0;
  s += negative;
  if (!digit(*s))
    return fail(p, "a whole number");
  for (; digit(*s); s++) {
    int digit_value = negative ? '0' - *s : *s - '0'; /* so that -2^63 can be read */
    if (!mul_fits(v, 10, &v) || !add_fits(v, digit_value, &v))
      return fail(p, "a number of at most 63 bits");
  }
  *out = v;
  p->at = s;
  return SN_OK;
}

/* strtod follows the locale, so the decimal point is put in the locale's form first. */
static sn_status read_real(parser *p, double *out) {
  skip_blanks(p);
  char number[64];
  size_t n = strspn(p->at, "+-.0123456789eEinfa");
  const char *point = localeconv()->decimal_point;
  if (n == 0 || n >= sizeof number || strlen(point) != 1)
    return fail(p, "a number");
  for (size_t i = 0; i < n; i++)
    number[i] = p->at[i] == '.' ? *point : p->at[i];
  number[n] = '\0';
  char *end;
  *out = strtod(number, &end);
  if (end == number || *end)
    return fail(p, "a number");
  p->at += n;
  return SN_OK;
}

static sn_status read_dim(parser *p, int depth, sn_dim *out);

static sn_status read_factor(parser *p, int depth, sn_dim *out) {
  if (take(p, '(')) {
    if (depth >= MAX_DEPTH)
      return fail(p, "less nesting");
    SN_TRY(read_dim(p, depth + 1, out));
    return expect(p, ')');
  }
  if (!letter(*p->at)) {
    const char *number = p->at;
    SN_TRY(read_int(p, out));
    if (dim_is_number(*out) && dim_valid(p->g, *out)) /* never a handle in disguise */
      return SN_OK;
    p->at = number;
    return fail(p, "a size below 2^56");
  }
  SN_TRY(read_word(p, "a size"));
  int s = dim_find_symbol(p->g, p->word);
  if (s < 0)
    return refuse(p, "no symbol '%s'", p->word);
  *out = sn_symbol(p->g, dim_symbol_name(p->g, s), dim_symbol_max(p->g, s));
  return SN_OK;
}

static sn_status read_term(parser *p, int depth, sn_dim *out) {
  SN_TRY(read_factor(p, depth, out));
  for (;;) {
    sn_dim factor;
    if (take(p, '*')) {
      SN_TRY(read_factor(p, depth, &factor));
      *out = sn_dim_mul(p->g, *out, factor);
    } else if (take(p, '/')) {
      SN_TRY(read_int(p, &factor));
      *out = sn_dim_div(p->g, *out, factor);
    } else {
      return sn_graph_status(p->g);
    }
    SN_TRY(sn_graph_status(p->g));
  }
}

static sn_status read_dim(parser *p, int depth, sn_dim *out) {
  bool negative = (skip_blanks(p), *p->at == '-' && !digit(p->at[1]));
  p->at += negative;
  SN_TRY(read_term(p, depth, out));
  if (negative)
    *out = sn_dim_sub(p->g, 0, *out);
  for (;;) {
    sn_dim term;
    bool plus = take(p, '+');
    if (!plus && !take(p, '-'))
      return sn_graph_status(p->g);
    SN_TRY(read_term(p, depth, &term));
    *out = plus ? sn_dim_add(p->g, *out, term) : sn_dim_sub(p->g, *out, term);
    SN_TRY(sn_graph_status(p->g));
  }
}

static sn_status read_shape(parser *p, sn_shape *out) {
  *out = (sn_shape){0};
  SN_TRY(expect(p, '['));
  while (!take(p, ']')) {
    if (out->rank == SN_MAX_RANK)
      return fail(p, "at most 8 dims");
    if (out->rank > 0)
      SN_TRY(expect(p, ','));
    SN_TRY(read_dim(p, 0, &out->dim[out->rank++]));
  }
  return SN_OK;
}

static sn_status read_ints(parser *p, sn_ints *out) {
  *out = (sn_ints){0};
  SN_TRY(expect(p, '['));
  while (!take(p, ']')) {
    if (out->n == SN_MAX_RANK)
      return fail(p, "at most 8 numbers");
    if (out->n > 0)
      SN_TRY(expect(p, ','));
    SN_TRY(read_int(p, &out->v[out->n++]));
  }
  return SN_OK;
}

static sn_status read_dtype(parser *p, sn_dtype *out) {
  SN_TRY(read_word(p, "a dtype"));
  *out = dtype_find(p->word, strlen(p->word));
  if (*out == SN_NO_DTYPE)
    return refuse(p, "no dtype '%s'", p->word);
  return SN_OK;
}

static sn_status read_bytes(parser *p, sn_bytes *out) {
  skip_blanks(p);
  if (p->at[0] != '0' || p->at[1] != 'x')
    return fail(p, "0x and hexadecimal digits");
  p->at += 2;
  size_t n = 0;
  while (hex(p->at[n]) >= 0)
    n++;
  unsigned char *bytes = arena_alloc(&p->g->memory, n / 2);
  if (n % 2 != 0)
    return fail(p, "two digits a byte");
  if (!bytes)
    return SN_ERR_NO_MEMORY;
  for (size_t i = 0; i < n / 2; i++)
    bytes[i] = (unsigned char)(hex(p->at[2 * i]) * 16 + hex(p->at[2 * i + 1]));
  p->at += n;
  *out = (sn_bytes){bytes, n / 2};
  return SN_OK;
}

static sn_status read_enum(parser *p, const attr_desc *a, int *out) {
  SN_TRY(read_word(p, "a word"));
  for (int i = 0; a->words[i]; i++)
    if (strcmp(a->words[i], p->word) == 0) {
      *out = i;
      return SN_OK;
    }
  return refuse(p, "%s has no choice '%s'", a->name, p->word);
}

static sn_status read_flag(parser *p, bool *out) {
  SN_TRY(read_word(p, "true or false"));
  *out = strcmp(p->word, "true") == 0;
  if (!*out && strcmp(p->word, "false") != 0)
    return refuse(p, "expected true or false, got '%s'", p->word);
  return SN_OK;
}

static sn_status read_name(parser *p, const char **out) {
  SN_TRY(read_string(p));
  *out = graph_intern(p->g, p->word);
  return *out ? SN_OK : SN_ERR_NO_MEMORY;
}

static sn_status read_attr(parser *p, const attr_desc *a, void *at) {
  switch (a->kind) {
  case ATTR_INT:
  case ATTR_STREAM: return read_int(p, at);
  case ATTR_DIM: return read_dim(p, 0, at);
  case ATTR_REAL: return read_real(p, at);
  case ATTR_FLAG: return read_flag(p, at);
  case ATTR_DTYPE: return read_dtype(p, at);
  case ATTR_INTS: return read_ints(p, at);
  case ATTR_SHAPE: return read_shape(p, at);
  case ATTR_STR: return read_name(p, at);
  case ATTR_BYTES: return read_bytes(p, at);
  case ATTR_ENUM: return read_enum(p, a, at);
  }
  return SN_ERR_INTERNAL;
}

static sn_status read_id(parser *p, uint32_t *out) {
  int64_t id;
  skip_blanks(p);
  p->token = p->at;
  SN_TRY(expect(p, '%'));
  SN_TRY(read_int(p, &id));
  if (id <= 0 || id > MAX_ID)
    return refuse(p, "ids lie in 1 … %d, not %lld", MAX_ID, (long long)id);
  *out = (uint32_t)id;
  return SN_OK;
}

static sn_status read_value(parser *p, sn_value *out) {
  uint32_t id;
  SN_TRY(read_id(p, &id));
  if (id >= p->n_ids || p->ids[id].id == 0)
    return refuse(p, "%%%u is used before it is defined", id);
  *out = p->ids[id];
  return SN_OK;
}

/* Binds ids id, id+1, … of the text to the results of a node. */
static sn_status define(parser *p, uint32_t id, sn_value first) {
  const node *n = graph_node(p->g, first);
  uint32_t end = id + (uint32_t)n->n_out;
  if (end > p->n_ids) {
    uint32_t wider = p->n_ids ? p->n_ids : 64;
    while (wider < end)
      wider *= 2;
    sn_value *ids = arena_array(&p->g->memory, wider, sizeof *ids);
    if (!ids)
      return SN_ERR_NO_MEMORY;
    if (p->n_ids)
      memcpy(ids, p->ids, p->n_ids * sizeof *ids);
    p->ids = ids;
    p->n_ids = wider;
  }
  for (int k = 0; k < n->n_out; k++) {
    if (p->ids[id + (uint32_t)k].id != 0)
      return refuse(p, "%%%u is defined twice", id + (uint32_t)k);
    p->ids[id + (uint32_t)k] = node_result(n, k);
  }
  return SN_OK;
}

static sn_status read_arguments(parser *p, sn_value *in, int most, int *n_in) {
  SN_TRY(expect(p, '('));
  while (!take(p, ')')) {
    if (*n_in == most)
      return fail(p, *p->at == ',' ? "fewer arguments" : "')'");
    if (*n_in > 0)
      SN_TRY(expect(p, ','));
    skip_blanks(p);
    if (*p->at == '%') {
      SN_TRY(read_value(p, &in[(*n_in)++]));
      continue;
    }
    SN_TRY(read_word(p, "a value or none"));
    if (strcmp(p->word, "none") != 0)
      return refuse(p, "expected a value or none, got '%s'", p->word);
    in[(*n_in)++] = SN_NONE;
  }
  return SN_OK;
}

static sn_status read_attrs(parser *p, const op_desc *op, void *attrs) {
  uint64_t seen = 0;
  for (int i = 0; i < op->n_attrs; i++)
    if (op->attrs[i].kind == ATTR_STREAM)
      *(int64_t *)attr_at(attrs, &op->attrs[i]) = -1;
    else if (op->attrs[i].kind == ATTR_DTYPE)
      *(sn_dtype *)attr_at(attrs, &op->attrs[i]) = SN_F32;
  for (skip_blanks(p); letter(*p->at); skip_blanks(p)) {
    SN_TRY(read_word(p, "an attribute"));
    const attr_desc *a = attr_find(op, p->word);
    if (!a)
      return refuse(p, "%s has no attribute '%s'", op->name, p->word);
    uint64_t bit = UINT64_C(1) << (a - op->attrs);
    if (seen & bit)
      return refuse(p, "attribute %s stands twice", a->name);
    seen |= bit;
    SN_TRY(expect(p, '='));
    SN_TRY(read_attr(p, a, attr_at(attrs, a)));
  }
  return SN_OK;
}

static sn_status check_types(parser *p, sn_value first) {
  const node *n = graph_node(p->g, first);
  if (!take(p, ':'))
    return SN_OK;
  for (int k = 0; k < n->n_out; k++) {
    sn_type stated, is = sn_value_type(p->g, node_result(n, k));
    if (k > 0)
      SN_TRY(expect(p, ','));
    SN_TRY(read_dtype(p, &stated.dtype));
    SN_TRY(read_shape(p, &stated.shape));
    if (!type_equal(stated, is))
      return refuse(p, "result %d is stated as %s but is %s", k, graph_type_text(p->g, stated),
                    graph_type_text(p->g, is));
  }
  return SN_OK;
}

/* At most so many arguments stand before the next ')'. */
static int list_length(const parser *p) {
  int n = 1;
  for (const char *s = p->at; *s && *s != ')' && *s != '\n' && n < MAX_ID; s++)
    n += *s == ',';
  return n;
}

static sn_status parse_node(parser *p) {
  uint32_t id;
  int n_in = 0;
  SN_TRY(read_id(p, &id));
  SN_TRY(expect(p, '='));
  SN_TRY(read_word(p, "an op"));
  int op = graph_find_op(p->g, p->word);
  if (!op)
    return refuse(p, "no op '%s'", p->word);
  const op_desc *d = &p->g->table->ops[op];
  int most = d->on_list ? list_length(p) : d->n_inputs;
  sn_value *in = arena_array(&p->g->memory, (size_t)most, sizeof *in);
  void *attrs = arena_alloc(&p->g->memory, d->attrs_size);
  if (!in || !attrs)
    return SN_ERR_NO_MEMORY;
  const char *name = p->token;
  SN_TRY(read_arguments(p, in, most, &n_in));
  SN_TRY(read_attrs(p, d, attrs));
  p->token = name; /* what the op refuses, it refuses as a whole */
  sn_value first = graph_add(p->g, op, in, n_in, attrs);
  SN_TRY(sn_graph_status(p->g));
  SN_TRY(check_types(p, first));
  return define(p, id, first);
}

static sn_status parse_symbol(parser *p) {
  char name[MAX_WORD];
  int64_t max;
  SN_TRY(read_word(p, "a symbol's name"));
  memcpy(name, p->word, sizeof name);
  SN_TRY(read_int(p, &max));
  (void)sn_symbol(p->g, name, max);
  return sn_graph_status(p->g);
}

static sn_status parse_scope(parser *p) {
  SN_TRY(read_string(p));
  while (p->g->scopes)
    sn_scope_pop(p->g);
  if (*p->word)
    sn_scope_push(p->g, p->word);
  return sn_graph_status(p->g);
}

static sn_status parse_label(parser *p) {
  sn_value v;
  SN_TRY(read_value(p, &v));
  SN_TRY(read_string(p));
  const char *label = graph_intern(p->g, p->word);
  if (!label)
    return SN_ERR_NO_MEMORY;
  p->g->values[v.id].label = label;
  return SN_OK;
}

static sn_status parse_recompute(parser *p) {
  sn_value v;
  SN_TRY(read_value(p, &v));
  (void)sn_recompute(p->g, v);
  return SN_OK;
}

static sn_status parse_output(parser *p) {
  sn_value v;
  char name[MAX_WORD];
  SN_TRY(read_string(p));
  memcpy(name, p->word, sizeof name);
  SN_TRY(read_value(p, &v));
  sn_output(p->g, name, v);
  return sn_graph_status(p->g);
}

static sn_status parse_assign(parser *p) {
  sn_value state, value;
  SN_TRY(read_value(p, &state));
  SN_TRY(read_value(p, &value));
  sn_assign(p->g, state, value);
  return sn_graph_status(p->g);
}

static const struct {
  const char *word;
  sn_status (*parse)(parser *p);
} directives[] = {
    {"symbol", parse_symbol},       {"scope", parse_scope},   {"label", parse_label},
    {"recompute", parse_recompute}, {"output", parse_output}, {"assign", parse_assign},
};

static sn_status parse_line(parser *p) {
  skip_blanks(p);
  if (*p->at == '#' || *p->at == '\n' || *p->at == '\0')
    return SN_OK;
  if (*p->at == '%')
    return parse_node(p);
  SN_TRY(read_word(p, "a node or a directive"));
  for (size_t i = 0; i < COUNT_OF(directives); i++)
    if (strcmp(directives[i].word, p->word) == 0)
      return directives[i].parse(p);
  return refuse(p, "no directive '%s'", p->word);
}

static sn_status parse_lines(parser *p) {
  for (;; p->line++) {
    p->line_start = p->token = p->at;
    sn_status status = parse_line(p);
    if (status != SN_OK && p->g->status != SN_OK)
      return within(p, status, p->token);
    SN_TRY(status);
    skip_blanks(p);
    if (*p->at == '#')
      p->at += strcspn(p->at, "\n");
    if (*p->at == '\0')
      return SN_OK;
    if (*p->at != '\n')
      return fail(p, "end of line");
    p->at++;
  }
}

sn_status graph_parse(sn_ctx *ctx, const op_table *table, const char *source,
                      sn_graph **out_graph) {
  *out_graph = NULL;
  parser p = {.ctx = ctx, .at = source, .token = source, .line = 1};
  SN_TRY(graph_create(ctx, table, &p.g));
  sn_status status = parse_lines(&p);
  if (status == SN_OK)
    *out_graph = p.g;
  else
    sn_graph_destroy(p.g);
  while (status == SN_OK && p.g->scopes)
    sn_scope_pop(p.g);
  return status;
}
