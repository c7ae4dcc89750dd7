/* The text form of graphs: one line a node, in order, then outputs and assigns.
 *
 *   symbol tokens 2048
 *   scope "layers.0"
 *   %1 = input() name="x" dtype=f32 shape=[tokens, 64] : f32[tokens, 64]
 *   %2 = softmax(%1) axis=-1 : f32[tokens, 64]
 *   label %2 "probabilities"
 *   recompute %2
 *   output "y" %2
 *   assign %3 %4
 *
 * Every attribute is printed, exactly; parse.c reads it back to the same graph. */
#include "base/null.h"

#include "ir/dim.h"
#include "ir/dtype.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>

static void print_string(const char *s, text *out) {
  text_puts(out, "\"");
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      text_printf(out, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
      text_printf(out, "\\x%02x", c);
    else
      text_add(out, s, 1);
  }
  text_puts(out, "\"");
}

static void print_shape(const sn_graph *g, const sn_shape *s, text *out) {
  text_puts(out, "[");
  for (int i = 0; i < s->rank; i++) {
    text_puts(out, i ? ", " : "");
    dim_print(g, s->dim[i], out);
  }
  text_puts(out, "]");
}

static void print_ints(const sn_ints *l, text *out) {
  text_puts(out, "[");
  for (int i = 0; i < l->n; i++)
    text_printf(out, "%s%lld", i ? ", " : "", (long long)l->v[i]);
  text_puts(out, "]");
}

/* printf follows the locale; the text form has a point. */
static void print_finite(double x, text *out) {
  char number[64];
  snprintf(number, sizeof number, "%.17g", x);
  const char *point = localeconv()->decimal_point;
  char *at = *point ? strstr(number, point) : NULL;
  text_add(out, number, at ? (size_t)(at - number) : strlen(number));
  if (at)
    text_printf(out, ".%s", at + strlen(point));
}

static void print_real(double x, text *out) {
  if (isnan(x))
    text_puts(out, "nan");
  else if (isinf(x))
    text_puts(out, x > 0 ? "inf" : "-inf");
  else
    print_finite(x, out);
}

static void print_bytes(const sn_bytes *b, text *out) {
  static const char digits[] = "0123456789abcdef";
  text_puts(out, "0x");
  for (size_t i = 0; i < b->size; i++) {
    unsigned byte = ((const unsigned char *)b->data)[i];
    text_add(out, (const char[]){digits[byte >> 4], digits[byte & 15]}, 2);
  }
}

static void print_attr(const sn_graph *g, const attr_desc *a, const void *at, text *out) {
  text_printf(out, " %s=", a->name);
  switch (a->kind) {
  case ATTR_INT:
  case ATTR_STREAM: text_printf(out, "%lld", (long long)*(const int64_t *)at); break;
  case ATTR_DIM: dim_print(g, *(const sn_dim *)at, out); break;
  case ATTR_REAL: print_real(*(const double *)at, out); break;
  case ATTR_FLAG: text_puts(out, *(const bool *)at ? "true" : "false"); break;
  case ATTR_DTYPE: text_puts(out, sn_dtype_name(*(const sn_dtype *)at)); break;
  case ATTR_INTS: print_ints(at, out); break;
  case ATTR_SHAPE: print_shape(g, at, out); break;
  case ATTR_STR: print_string(*(const char *const *)at, out); break;
  case ATTR_BYTES: print_bytes(at, out); break;
  case ATTR_ENUM: text_puts(out, a->words[*(const int *)at]); break;
  }
}

static void print_type(const sn_graph *g, const sn_type *t, text *out) {
  text_puts(out, sn_dtype_name(t->dtype));
  print_shape(g, &t->shape, out);
}

static void print_node(const sn_graph *g, const node *n, text *out) {
  const op_desc *op = graph_op(g, n);
  text_printf(out, "%%%u = %s(", n->first, op->name);
  for (int i = 0; i < n->n_in; i++) {
    text_puts(out, i ? ", " : "");
    if (n->in[i].id)
      text_printf(out, "%%%u", n->in[i].id);
    else
      text_puts(out, "none");
  }
  text_puts(out, ")");
  for (int i = 0; i < op->n_attrs; i++)
    print_attr(g, &op->attrs[i], attr_at(n->attrs, &op->attrs[i]), out);
  for (int k = 0; k < n->n_out; k++) {
    text_puts(out, k ? ", " : " : ");
    print_type(g, &g->values[n->first + (uint32_t)k].type, out);
  }
  text_puts(out, "\n");
  for (uint32_t v = n->first; v < n->first + (uint32_t)n->n_out; v++)
    if (g->values[v].label) {
      text_printf(out, "label %%%u ", v);
      print_string(g->values[v].label, out);
      text_puts(out, "\n");
    }
  if (n->boundary)
    text_printf(out, "recompute %%%u\n", n->first);
}

static void print_graph(const sn_graph *g, text *out) {
  for (int s = 0; s < dim_symbol_count(g); s++)
    text_printf(out, "symbol %s %lld\n", dim_symbol_name(g, s), (long long)dim_symbol_max(g, s));
  const char *scope = "";
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    if (strcmp(g->nodes[i].scope, scope) != 0) {
      scope = g->nodes[i].scope;
      text_puts(out, "scope ");
      print_string(scope, out);
      text_puts(out, "\n");
    }
    print_node(g, &g->nodes[i], out);
  }
  for (int i = 0; i < g->n_outputs; i++) {
    text_puts(out, "output ");
    print_string(g->outputs[i].name, out);
    text_printf(out, " %%%u\n", g->outputs[i].value.id);
  }
  for (int i = 0; i < g->n_assigns; i++)
    text_printf(out, "assign %%%u %%%u\n", g->assigns[i].state.id, g->assigns[i].value.id);
}

sn_status sn_graph_print(const sn_graph *g, char **out_text) {
  CLEARS(out_text);
  NEEDS(g);
  NEEDS_ARGUMENT(g->ctx, out_text);
  SN_TRY(graph_check(g, g->ctx));
  text out;
  text_init(&out, g->ctx);
  text_puts(&out, "");
  print_graph(g, &out);
  sn_status status = text_done(&out);
  if (status == SN_OK) {
    *out_text = mem_strdup(g->ctx, out.data);
    status = *out_text ? SN_OK : SN_ERR_NO_MEMORY;
  }
  text_free(&out);
  return status;
}

static const char *kept(sn_graph *g, text *t) {
  const char *s = text_done(t) == SN_OK ? arena_strdup(&g->memory, t->data) : NULL;
  text_free(t);
  return s ? s : "?";
}

const char *graph_type_text(sn_graph *g, sn_type type) {
  text t;
  text_init(&t, g->ctx);
  print_type(g, &type, &t);
  return kept(g, &t);
}

const char *graph_shape_text(sn_graph *g, sn_shape shape) {
  text t;
  text_init(&t, g->ctx);
  print_shape(g, &shape, &t);
  return kept(g, &t);
}
