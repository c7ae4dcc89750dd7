/* The JSON parser: recursive descent, depth-limited, one pass. Finished values of the container
 * that is being read wait on a stack and move into the arena as one array when it closes. See
 * json.h.
 */
#include "base/null.h"

#include "io/json.h"

#include "base/file.h"

#include <stdio.h>

typedef struct parser {
  sn_ctx *ctx;
  arena *arena;
  const char *start, *p, *end;
  char *pool; /* where the next string goes */
  int depth;
  sn_json *stack;
  size_t stack_size, stack_capacity;
} parser;

static sn_status parse_value(parser *s, sn_json *out);

/* --- errors ----------------------------------------------------------------------------------- */

/* What stands at p, for messages. */
static void describe(const parser *s, const char *p, char *out, size_t size) {
  if (p >= s->end) {
    snprintf(out, size, "the end of the text");
    return;
  }
  size_t n = json_utf8_length(p, (size_t)(s->end - p));
  unsigned char c = (unsigned char)*p;
  if (n == 0 || c < 0x20 || c == 0x7f)
    snprintf(out, size, "byte 0x%02x", c);
  else
    snprintf(out, size, "'%.*s'", (int)n, p);
}

/* Line and column (in characters) are counted only here. */
static void locate(const parser *s, const char *at, size_t *line, size_t *column) {
  *line = *column = 1;
  for (const char *p = s->start; p < at; p++) {
    if (*p == '\n') {
      ++*line;
      *column = 1;
    } else if (((unsigned char)*p & 0xc0) != 0x80) {
      ++*column;
    }
  }
}

static sn_status expected(const parser *s, const char *at, const char *what) {
  char got[32];
  size_t line, column;
  describe(s, at, got, sizeof got);
  locate(s, at, &line, &column);
  return diag_fail(s->ctx, SN_ERR_FORMAT, "%zu:%zu: expected %s, got %s", line, column, what, got);
}

static sn_status refuse(const parser *s, const char *at, const char *why) {
  size_t line, column;
  locate(s, at, &line, &column);
  return diag_fail(s->ctx, SN_ERR_FORMAT, "%zu:%zu: %s", line, column, why);
}

/* --- tokens ----------------------------------------------------------------------------------- */

static void skip_space(parser *s) {
  while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
    s->p++;
}

static bool at_char(const parser *s, char c) { return s->p < s->end && *s->p == c; }

static bool at_digit(const parser *s) { return s->p < s->end && *s->p >= '0' && *s->p <= '9'; }

static bool accept(parser *s, char c) {
  if (!at_char(s, c))
    return false;
  s->p++;
  return true;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits after \u. */
static sn_status parse_hex4(parser *s, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < 4; i++, s->p++) {
    int digit = s->p < s->end ? hex_digit(*s->p) : -1;
    if (digit < 0)
      return expected(s, s->p, "four hexadecimal digits after \\u");
    *out = *out << 4 | (uint32_t)digit;
  }
  return SN_OK;
}

static char *put_utf8(char *to, uint32_t c) {
  if (c < 0x80) {
    *to++ = (char)c;
    return to;
  }
  int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
  *to++ = (char)(lead[more] | c >> (6 * more));
  while (more--)
    *to++ = (char)(0x80 | (c >> (6 * more) & 0x3f));
  return to;
}

/* s->p stands after \u. At most 4 bytes come out of 6, or of 12. */
static sn_status parse_unicode(parser *s, char **to) {
  const char *at = s->p - 2;
  uint32_t c, low;
  SN_TRY(parse_hex4(s, &c));
  if (c >= 0xdc00 && c < 0xe000)
    return refuse(s, at, "a low surrogate without a high one before it");
  if (c >= 0xd800 && c < 0xdc00) {
    if (s->end - s->p < 2 || s->p[0] != '\\' || s->p[1] != 'u')
      return refuse(s, at, "a high surrogate without a low one after it");
    s->p += 2;
    SN_TRY(parse_hex4(s, &low));
    if (low < 0xdc00 || low >= 0xe000)
      return refuse(s, at, "a high surrogate without a low one after it");
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  *to = put_utf8(*to, c);
  return SN_OK;
}

/* s->p stands after the backslash. */
static sn_status parse_escape(parser *s, char **to) {
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  if (accept(s, 'u'))
    return parse_unicode(s, to);
  const char *found = s->p < s->end && *s->p ? strchr(names, *s->p) : NULL;
  if (!found)
    return expected(s, s->p, "one of \"\\/bfnrtu after a backslash");
  s->p++;
  *(*to)++ = values[found - names];
  return SN_OK;
}

/* s->p stands at the opening quote. */
static sn_status parse_string(parser *s, const char **out, uint32_t *out_size) {
  char *to = s->pool;
  s->p++;
  for (;;) {
    unsigned char c = s->p < s->end ? (unsigned char)*s->p : 0;
    if (c == '"')
      break;
    if (c == '\\') {
      s->p++;
      SN_TRY(parse_escape(s, &to));
    } else if (c < 0x20) {
      return expected(s, s->p, "a character of a string or its closing '\"'");
    } else if (c < 0x80) {
      *to++ = *s->p++;
    } else {
      size_t n = json_utf8_length(s->p, (size_t)(s->end - s->p));
      if (!n)
        return expected(s, s->p, "valid UTF-8");
      memcpy(to, s->p, n);
      to += n;
      s->p += n;
    }
  }
  s->p++;
  *to = '\0';
  *out = s->pool;
  *out_size = (uint32_t)(to - s->pool);
  s->pool = to + 1;
  return SN_OK;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static sn_status skip_digits(parser *s) {
  if (!at_digit(s))
    return expected(s, s->p, "a digit");
  while (at_digit(s))
    s->p++;
  return SN_OK;
}

/* Whether the digits form an int64. -0 does not count: it is a double of its own. */
static bool to_integer(const char *p, const char *end, int64_t *out) {
  bool negative = *p == '-';
  if (negative && p[1] == '0')
    return false;
  int64_t n = 0;
  for (p += negative; p < end; p++) {
    int digit = *p - '0';
    if (!mul_fits(n, 10, &n) || !add_fits(n, negative ? -digit : digit, &n))
      return false;
  }
  *out = n;
  return true;
}

static sn_status parse_number(parser *s, sn_json *out) {
  const char *start = s->p;
  bool whole = true;
  accept(s, '-');
  if (!accept(s, '0'))
    SN_TRY(skip_digits(s));
  else if (at_digit(s))
    return refuse(s, start, "a number may not begin with 0 before other digits");
  if (accept(s, '.')) {
    whole = false;
    SN_TRY(skip_digits(s));
  }
  if (accept(s, 'e') || accept(s, 'E')) {
    whole = false;
    if (!accept(s, '+'))
      accept(s, '-');
    SN_TRY(skip_digits(s));
  }
  out->kind = SN_JSON_NUMBER;
  out->integer = whole && to_integer(start, s->p, &out->as.integer);
  if (out->integer || json_decimal_to_f64(start, (size_t)(s->p - start), &out->as.number))
    return SN_OK;
  return refuse(s, start, "the number is too large for a double");
}

/* --- containers ------------------------------------------------------------------------------- */

static sn_status push(parser *s, const sn_json *value) {
  if (s->stack_size == s->stack_capacity) {
    size_t capacity = s->stack_capacity ? s->stack_capacity * 2 : 64;
    sn_json *stack =
        mem_resize(s->ctx, s->stack, s->stack_capacity * sizeof *stack, capacity * sizeof *stack);
    if (!stack)
      return SN_ERR_NO_MEMORY;
    s->stack = stack;
    s->stack_capacity = capacity;
  }
  s->stack[s->stack_size++] = *value;
  return SN_OK;
}

static sn_status parse_elements(parser *s, sn_json *out) {
  size_t base = s->stack_size;
  skip_space(s);
  if (!accept(s, ']')) {
    do {
      sn_json value;
      skip_space(s);
      SN_TRY(parse_value(s, &value));
      SN_TRY(push(s, &value));
      skip_space(s);
    } while (accept(s, ','));
    if (!accept(s, ']'))
      return expected(s, s->p, "',' or ']'");
  }
  size_t n = s->stack_size - base;
  out->kind = SN_JSON_ARRAY;
  out->size = (uint32_t)n;
  out->as.elements = n ? arena_copy(s->arena, s->stack + base, n * sizeof *s->stack) : NULL;
  s->stack_size = base;
  return n && !out->as.elements ? SN_ERR_NO_MEMORY : SN_OK;
}

static sn_status parse_member(parser *s) {
  sn_json value;
  const char *key;
  uint32_t key_size, offset = (uint32_t)(s->p - s->start);
  if (!at_char(s, '"'))
    return expected(s, s->p, "a key in quotes");
  SN_TRY(parse_string(s, &key, &key_size));
  skip_space(s);
  if (!accept(s, ':'))
    return expected(s, s->p, "':' after a key");
  skip_space(s);
  SN_TRY(parse_value(s, &value));
  value.key = key;
  value.key_size = key_size;
  value.offset = offset;
  return push(s, &value);
}

static sn_status duplicate(const parser *s, const sn_json *member) {
  size_t line, column;
  locate(s, s->start + member->offset, &line, &column);
  return diag_fail(s->ctx, SN_ERR_FORMAT, "%zu:%zu: the key \"%.100s\" occurs twice in its object",
                   line, column, member->key);
}

static sn_status parse_members(parser *s, sn_json *out) {
  size_t base = s->stack_size;
  const sn_json *twin;
  skip_space(s);
  if (!accept(s, '}')) {
    do {
      skip_space(s);
      SN_TRY(parse_member(s));
      skip_space(s);
    } while (accept(s, ','));
    if (!accept(s, '}'))
      return expected(s, s->p, "',' or '}'");
  }
  uint32_t n = (uint32_t)(s->stack_size - base);
  SN_TRY(json_object_build(s->arena, n ? s->stack + base : NULL, n, out, &twin));
  s->stack_size = base;
  return twin ? duplicate(s, twin) : SN_OK;
}

/* s->p stands at the opening bracket. */
static sn_status parse_container(parser *s, sn_json *out) {
  if (s->depth == SN_JSON_MAX_DEPTH)
    return refuse(s, s->p, "nested too deeply");
  s->depth++;
  bool object = *s->p++ == '{';
  sn_status status = object ? parse_members(s, out) : parse_elements(s, out);
  s->depth--;
  return status;
}

/* --- values ----------------------------------------------------------------------------------- */

static bool accept_word(parser *s, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
    return false;
  s->p += n;
  return true;
}

static sn_status parse_word(parser *s, sn_json *out) {
  out->kind = SN_JSON_BOOL;
  out->as.boolean = accept_word(s, "true");
  if (out->as.boolean || accept_word(s, "false"))
    return SN_OK;
  out->kind = SN_JSON_NULL;
  return accept_word(s, "null") ? SN_OK : expected(s, s->p, "a value");
}

static sn_status parse_value(parser *s, sn_json *out) {
  *out = (sn_json){.offset = (uint32_t)(s->p - s->start)};
  char c = s->p < s->end ? *s->p : '\0';
  if (c == '{' || c == '[')
    return parse_container(s, out);
  if (c == '"') {
    out->kind = SN_JSON_STRING;
    return parse_string(s, &out->as.string, &out->size);
  }
  if (c == '-' || at_digit(s))
    return parse_number(s, out);
  return parse_word(s, out);
}

static sn_status parse_document(parser *s, sn_json *out) {
  s->pool = arena_alloc(s->arena, (size_t)(s->end - s->start));
  if (!s->pool)
    return SN_ERR_NO_MEMORY;
  skip_space(s);
  SN_TRY(parse_value(s, out));
  skip_space(s);
  return s->p < s->end ? expected(s, s->p, "the end of the text") : SN_OK;
}

sn_status sn_json_parse(sn_ctx *ctx, const char *bytes, size_t size, sn_json_doc **out_doc) {
  CLEARS(out_doc);
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, out_doc);
  NEEDS_ARGUMENT_IF(ctx, size > 0, bytes);
  if (size > SN_JSON_MAX_SIZE)
    return diag_fail(ctx, SN_ERR_FORMAT, "JSON text too long: at most %d bytes expected, got %zu",
                     SN_JSON_MAX_SIZE, size);
  sn_json_doc *doc = mem_alloc(ctx, sizeof *doc);
  if (!doc)
    return SN_ERR_NO_MEMORY;
  doc->ctx = ctx;
  arena_init(&doc->arena, ctx);
  if (!size)
    bytes = ""; /* so that NULL may be passed for no bytes */
  parser s = {.ctx = ctx, .arena = &doc->arena, .start = bytes, .p = bytes, .end = bytes + size};
  sn_status status = parse_document(&s, &doc->root);
  mem_free(ctx, s.stack, s.stack_capacity * sizeof *s.stack);
  if (status != SN_OK) {
    sn_json_destroy(doc);
    return status;
  }
  *out_doc = doc;
  return SN_OK;
}

sn_status sn_json_parse_file(sn_ctx *ctx, const char *path, sn_json_doc **out_doc) {
  CLEARS(out_doc);
  NEEDS(ctx);
  NEEDS_ARGUMENT(ctx, path);
  NEEDS_ARGUMENT(ctx, out_doc);
  void *data;
  size_t size;
  SN_TRY(file_read_all(ctx, path, SN_JSON_MAX_SIZE, &data, &size));
  sn_status status = sn_json_parse(ctx, data, size, out_doc);
  mem_free(ctx, data, size);
  return status == SN_OK ? SN_OK : diag_within(ctx, status, "%s", path);
}
