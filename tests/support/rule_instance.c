/* See rule_instance.h. The pattern is read here anew, apart from the compiler's own reader. */
#include "support/rule_instance.h"

#include "base/text.h"
#include "ir/dtype.h"
#include "support/case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct writer {
  sn_ctx *ctx;
  const char *at;
  rule_instance *instance;
  text lines;
  int next;
  int of[LETTERS]; /* line of each value; 0: not written yet */
  bool bad;
} writer;

/* The entry of a letter: what stands behind "x=" or "a:", up to the next semicolon. */
static bool entry(const writer *w, char letter, char mark, char *out, size_t size) {
  for (const char *at = w->instance->text; at; at = strchr(at, ';')) {
    at += strspn(at, "; ");
    if (at[0] != letter || at[1] != mark)
      continue;
    at += 2 + strspn(at + 2, " ");
    snprintf(out, size, "%.*s", (int)strcspn(at, ";"), at);
    return true;
  }
  return false;
}

static bool has(const writer *w, char letter, char mark) {
  char e[256];
  return entry(w, letter, mark, e, sizeof e);
}

/* A constant: `data(1, 0, 1) bool[3]`. */
static void write_data(writer *w, const char *list, const char *dtype, const char *shape) {
  text_printf(&w->lines, "%%%d = constant() dtype=%s shape=%s data=0x", w->next - 1, dtype, shape);
  for (const char *at = list + strlen("data("); *at && *at != ')';) {
    char *end;
    float x = strtof(at, &end);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (strcmp(dtype, "bool") == 0)
      text_printf(&w->lines, "%02x", x != 0);
    else
      for (int i = 0; i < 4; i++)
        text_printf(&w->lines, "%02x", bits >> 8 * i & 0xff);
    w->bad = w->bad || end == at;
    at = w->bad ? "" : end + strspn(end, ", ");
  }
  text_printf(&w->lines, "\n");
}

static int value(writer *w, char letter) {
  char e[256], dtype[16], shape[128];
  double uniform = 0;
  int k = letter - 'a', used = 0;
  if (w->of[k])
    return w->of[k];
  if (!entry(w, letter, '=', e, sizeof e)) {
    w->bad = true;
    return 0;
  }
  const char *at = e;
  bool full = sscanf(at, "full(%lf)%n", &uniform, &used) == 1 && used > 0;
  bool state = strncmp(at, "state", 5) == 0, data = strncmp(at, "data(", 5) == 0;
  at += full ? used : state ? 5 : data ? (int)strcspn(at, ")") + 1 : 0;
  used = 0;
  if (sscanf(at, " %15[a-z0-9]%n", dtype, &used) != 1 || !strchr(at, ']')) {
    w->bad = true;
    return 0;
  }
  snprintf(shape, sizeof shape, "%.*s", (int)(strchr(at, ']') + 1 - (at + used)), at + used);
  (void)sscanf(strchr(at, ']') + 1, "(%lf, %lf)", &w->instance->lo[k], &w->instance->hi[k]);
  w->of[k] = w->next++;
  if (data)
    write_data(w, e, dtype, shape);
  else if (full)
    text_printf(&w->lines, "%%%d = full() dtype=%s shape=%s value=%g\n", w->of[k], dtype, shape,
                uniform);
  else if (state)
    text_printf(&w->lines, "%%%d = state() name=\"%c\" dtype=%s shape=%s init=normal scale=1\n",
                w->of[k], letter, dtype, shape);
  else
    text_printf(&w->lines, "%%%d = input() name=\"%c\" dtype=%s shape=%s\n", w->of[k], letter,
                dtype, shape);
  return w->of[k];
}

static bool skip(writer *w, char c) {
  w->at += strspn(w->at, " ");
  if (*w->at != c)
    return false;
  w->at++;
  return true;
}

static int pattern_line(writer *w);

/* Whether the instance has the optional node that begins here: its letter. */
static bool is_there(const writer *w) {
  size_t n = strcspn(w->at, ":(");
  return w->at[n] == ':' && has(w, w->at[n + 1], ':');
}

/* Passes a node over: the line of what stands in its place. */
static int passed_over(writer *w) {
  int body = 0;
  w->at += strcspn(w->at, "(") + 1;
  while (!w->bad && !skip(w, ')')) {
    (void)skip(w, ',');
    w->at += strspn(w->at, " ");
    if (*w->at == '\0')
      w->bad = true;
    else if (*w->at == '?' && !has(w, w->at[1], '='))
      w->at += 2;
    else
      body = pattern_line(w);
  }
  return body;
}

/* One node of the pattern; its line's number, 0 for none. */
static int pattern_line(writer *w) {
  char op[64] = "", attrs[256] = "", arguments[128] = "";
  size_t used = 0;
  bool optional = skip(w, '~');
  if (skip(w, '?')) {
    char letter = *w->at++;
    return optional && !has(w, letter, '=') ? 0 : value(w, letter);
  }
  if (optional && !is_there(w))
    return passed_over(w);
  bool any = skip(w, '@');
  size_t n = strspn(w->at, "abcdefghijklmnopqrstuvwxyz_0123456789");
  snprintf(op, sizeof op, "%.*s", (int)n, w->at);
  w->at += n;
  if (strcmp(op, "none") == 0)
    return 0;
  if (skip(w, ':') && !entry(w, *w->at++, ':', any ? op : attrs, any ? sizeof op : sizeof attrs))
    w->bad = true;
  if (!skip(w, '('))
    w->bad = true;
  while (!w->bad && !skip(w, ')')) {
    (void)skip(w, ',');
    int line = pattern_line(w);
    used += (size_t)snprintf(arguments + used, sizeof arguments - used, line ? "%s%%%d" : "%snone",
                             used ? ", " : "", line);
  }
  text_printf(&w->lines, "%%%d = %s(%s) %s\n", w->next, op, arguments, attrs);
  return w->next++;
}

int rule_instance_count(const rule *r) {
  int n = 1;
  for (const char *at = r->instance; (at = strchr(at, '|')) != NULL; at++)
    n++;
  return n;
}

sn_status rule_instance_graph(sn_ctx *ctx, const rule *r, int k, rule_instance *out,
                              sn_graph **out_graph) {
  const char *from = r->instance;
  for (; k > 0; k--)
    from = strchr(from, '|') + 1;
  *out = (rule_instance){0};
  snprintf(out->text, sizeof out->text, "%.*s", (int)strcspn(from, "|"), from);
  *out_graph = NULL;
  writer w = {.ctx = ctx, .at = r->start_text, .instance = out, .next = 1};
  text_init(&w.lines, ctx);
  int root = pattern_line(&w);
  text_printf(&w.lines, "output \"y\" %%%d\n", root);
  sn_status status = text_done(&w.lines);
  if (w.bad)
    status = diag_fail(ctx, SN_ERR_INVALID, "rule %s: its instance \"%s\" does not fill its start",
                       r->name, r->instance);
  if (status == SN_OK)
    status = sn_graph_parse(ctx, w.lines.data, out_graph);
  text_free(&w.lines);
  return status;
}

double rule_instance_fill(void *user, const char *name, sn_dtype dtype, int64_t i) {
  const rule_instance *s = user;
  int k = name[0] - 'a';
  double x = case_weight(name, i);
  if (s->lo[k] < s->hi[k])
    x = s->lo[k] + (s->hi[k] - s->lo[k]) * (x + 1) / 2;
  else if (!dtype_is_float(dtype))
    x *= 8;
  return dtype_is_float(dtype) ? x : floor(x);
}
