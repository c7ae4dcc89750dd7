/* Patterns from text: rules.def says how they read. Compiled once a run; a mistake in a row is an internal
 * error with its place. */
#include "opt/rule.h"

#define RULE(name, flags, start, goal, condition, instance) \
  {#name, start, goal, instance, flags, when_##condition, {0}, {0}},
#define FAST             RULE_FAST
#define RECOGNISE        RULE_RECOGNISE
#define BEFORE_GRADIENTS RULE_BEFORE_GRADIENTS
static const rule rows[] = {
#include "opt/rules.def"
};
#undef FAST
#undef RECOGNISE
#undef BEFORE_GRADIENTS

_Static_assert(COUNT_OF(rows) <= OPT_MAX_RULES, "a report has room for each rule");

int rule_count(void) { return (int)COUNT_OF(rows); }
const rule *rule_text(int i) { return &rows[i]; }

typedef struct reader {
  sn_ctx *ctx;
  const op_table *table;
  const char *at;
  pattern *p;
  bool bad;
} reader;

static void blanks(reader *r) {
  while (*r->at == ' ')
    r->at++;
}

static bool take(reader *r, char c) {
  blanks(r);
  if (*r->at != c)
    return false;
  r->at++;
  return true;
}

static size_t word(reader *r) {
  size_t n = 0;
  blanks(r);
  while ((r->at[n] >= 'a' && r->at[n] <= 'z') || (r->at[n] >= '0' && r->at[n] <= '9') ||
         r->at[n] == '_')
    n++;
  return n;
}

static char letter(reader *r) {
  char c = *r->at;
  r->bad = r->bad || c < 'a' || c > 'z';
  r->at += r->bad ? 0 : 1;
  return c;
}

static int find_op(const reader *r, const char *name, size_t n) {
  for (int i = 1; i < r->table->n; i++)
    if (strncmp(r->table->ops[i].name, name, n) == 0 && r->table->ops[i].name[n] == '\0')
      return i;
  return 0;
}

static bool is_word(const char *at, size_t n, const char *what) {
  return strlen(what) == n && strncmp(at, what, n) == 0;
}

static void read_op(reader *r, pattern_node *n) {
  bool any = take(r, '@');
  size_t length = word(r);
  if (any)
    n->kind = is_word(r->at, length, "unary") ? PATTERN_UNARY : PATTERN_BINARY;
  else {
    n->kind = PATTERN_OP;
    n->op = find_op(r, r->at, length);
    r->bad = r->bad || !n->op;
  }
  r->at += length;
  if (take(r, ':'))
    n->letter = letter(r);
  if (take(r, '=')) {
    length = word(r);
    n->build = rule_find_builder(r->at, length);
    r->bad = r->bad || !n->build;
    r->at += length;
  }
}

/* What stands for a node that is passed over: its one inner node, or its first argument. The others are values,
 * which then are left out. */
static void find_body(reader *r, pattern_node *n) {
  int inner = 0;
  for (int i = 0; i < n->n_args; i++)
    if (r->p->node[n->arg[i]].kind != PATTERN_VAR && inner++ == 0)
      n->body = i;
  r->bad = r->bad || (n->optional && (inner > 1 || n->n_args == 0 || !n->letter));
}

static int read_node(reader *r, int parent, int slot) {
  int index = r->p->n++;
  if (index >= PATTERN_NODES || r->bad) {
    r->bad = true;
    return 0;
  }
  pattern_node *n = &r->p->node[index];
  *n = (pattern_node){.parent = parent, .slot = slot, .optional = take(r, '~')};
  if (take(r, '?')) {
    n->letter = letter(r);
    return index;
  }
  if (is_word(r->at, word(r), "none")) {
    r->at += 4;
    n->kind = PATTERN_NONE;
    return index;
  }
  read_op(r, n);
  r->bad = r->bad || !take(r, '(');
  while (!r->bad && !take(r, ')')) {
    if (n->n_args == PATTERN_ARGS || (n->n_args && !take(r, ',')))
      r->bad = true;
    else {
      int k = n->n_args++;
      n->arg[k] = read_node(r, index, k);
    }
  }
  find_body(r, n);
  return index;
}

static sn_status compile(sn_ctx *ctx, const op_table *table, const rule *row, const char *text,
                         pattern *out) {
  reader r = {ctx, table, text, out, false};
  (void)read_node(&r, -1, 0);
  blanks(&r);
  if (r.bad || *r.at)
    return diag_fail(ctx, SN_ERR_INTERNAL, "rule %s: cannot read \"%s\" at \"%s\"", row->name, text,
                     r.at);
  return SN_OK;
}

sn_status rule_compile(sn_ctx *ctx, const op_table *table, int i, rule *out) {
  *out = rows[i];
  SN_TRY(compile(ctx, table, out, out->start_text, &out->start));
  return compile(ctx, table, out, out->goal_text, &out->goal);
}
