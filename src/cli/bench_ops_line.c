/* Lines: text to case to graph. See bench_ops.h. */
#include "cli/bench_ops.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const ops_kind *find_kind(const char *name) {
  for (const ops_kind *k = ops_kinds; k->name; k++)
    if (strcmp(k->name, name) == 0)
      return k;
  return NULL;
}

/* Every word of a line is one that the usage of its kind has; what stands for a number there is in capitals. */
static bool is_known(const ops_kind *kind, const char *word) {
  size_t size = strlen(word);
  bool stored = size == 2 && strspn(word, "NT") == 2; /* NN, NT, … */
  if (!stored && !islower((unsigned char)word[0]))
    return false;
  for (const char *at = kind->usage; (at = strstr(at, word)) != NULL; at++) {
    bool begins = at == kind->usage || strchr(" [|", at[-1]);
    if (begins && (at[size] == '\0' || strchr(" ]|", at[size])))
      return true;
  }
  return false;
}

static bool add_number(ops_case *c, const char *token, char *problem) {
  enum { MOST = 1 << 30 };
  char *end;
  long long n = strtoll(token, &end, 10);
  if (*end || n < 0 || n > MOST || c->n_numbers == OPS_NUMBERS) {
    snprintf(problem, OPS_PROBLEM, "\"%.20s\": expected up to %d numbers of 0 … %d", token,
             OPS_NUMBERS, MOST);
    return false;
  }
  c->n[c->n_numbers++] = n;
  return true;
}

static bool add_word(ops_case *c, const char *token, char *problem) {
  if (!is_known(c->kind, token) || c->n_words == OPS_WORDS || strlen(token) >= sizeof c->word[0]) {
    snprintf(problem, OPS_PROBLEM, "\"%.20s\": expected %s %s", token, c->kind->name,
             c->kind->usage);
    return false;
  }
  strcpy(c->word[c->n_words++], token);
  return true;
}

static bool add_token(ops_case *c, const char *token, char *problem) {
  if (c->kind)
    return isdigit((unsigned char)*token) ? add_number(c, token, problem)
                                          : add_word(c, token, problem);
  c->kind = find_kind(token);
  if (!c->kind)
    snprintf(problem, OPS_PROBLEM, "there is no operation \"%.40s\"", token);
  return c->kind != NULL;
}

/* A token of the line from *at on, and the name grows by it; false at the end. */
static bool next_token(const char **at, char *name, char *token) {
  const char *begin = *at + strspn(*at, " \t\r\n");
  size_t size = strcspn(begin, " \t\r\n");
  if (size == 0 || size >= OPS_NAME || strlen(name) + size + 2 > OPS_NAME)
    return false;
  memcpy(token, begin, size);
  token[size] = '\0';
  strcat(name, *name ? " " : "");
  strcat(name, token);
  *at = begin + size;
  return true;
}

bool ops_parse(const char *line, ops_case *out, char problem[OPS_PROBLEM]) {
  char token[OPS_NAME];
  *out = (ops_case){.dtype = "f32"};
  const char *at = line;
  while (next_token(&at, out->name, token))
    if (!add_token(out, token, problem))
      return false;
  if (at[strspn(at, " \t\r\n")]) {
    snprintf(problem, OPS_PROBLEM, "the line is too long");
    return false;
  }
  if (!out->kind || out->n_numbers < out->kind->numbers) {
    snprintf(problem, OPS_PROBLEM, "\"%.40s\": expected %s %s", out->name,
             out->kind ? out->kind->name : "an operation", out->kind ? out->kind->usage : "");
    return false;
  }
  return true;
}

sn_status ops_build(sn_ctx *ctx, ops_case *c) {
  SN_TRY(sn_graph_create(ctx, &c->graph));
  c->kind->build(c);
  SN_TRY(c->status);
  if (sn_graph_status(c->graph) != SN_OK)
    return sn_ctx_fail(ctx, sn_graph_status(c->graph), "%s", sn_graph_message(c->graph));
  return SN_OK;
}
