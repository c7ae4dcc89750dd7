/* See case.h. */
#include "support/case.h"

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct reader {
  op_test_case *c;
  const char *at;
  text head, line;
} reader;

static void blanks(reader *r) {
  while (*r->at == ' ')
    r->at++;
}

static sn_status bad(reader *r, const char *what) {
  return diag_fail(r->c->ctx, SN_ERR_FORMAT, "case: expected %s at '%.30s'", what, r->at);
}

static uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static double unit(uint64_t seed) { return (double)(mix(seed) >> 11) / 9007199254740992.0; }

double case_weight(const char *name, int64_t index) {
  return 2 * unit(hash_string(HASH_SEED, name) + (uint64_t)index * 7919) - 1;
}

/* Distinct lattice points while they last: a shuffled walk through them. */
static void draw_floats(case_tensor *t, int input, double lo, double hi, uint64_t seed) {
  static const double offsets[] = {0.5, 0.25, 0.75, 0.375, 0.625, 0.125, 0.875};
  int64_t points = (int64_t)((hi - lo) * 64);
  if (points < 1)
    points = 1;
  int64_t step = 1 + (int64_t)(mix(seed) % (uint64_t)points), a = points, b = step;
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
    if (b == 0 && a != 1) { /* not coprime: try the next step */
      step = step % points + 1;
      a = points;
      b = step;
    }
    if (points == 1)
      break;
  }
  int64_t k = (int64_t)(mix(seed + 1) % (uint64_t)points);
  for (int64_t i = 0; i < t->count; i++, k = (k + step) % points) {
    double jitter = (unit(seed + 2 + (uint64_t)i) - 0.5) / 512;
    t->data[i] = lo + ((double)k + offsets[input % 7]) / 64 + jitter;
  }
}

static void draw(case_tensor *t, int input, double lo, double hi, uint64_t seed) {
  if (dtype_is_float(t->type.dtype)) {
    draw_floats(t, input, lo, hi, seed);
    return;
  }
  for (int64_t i = 0; i < t->count; i++) {
    double u = unit(seed + (uint64_t)i);
    t->data[i] = t->type.dtype == SN_BOOL ? u < 0.5 : floor(lo + u * (hi - lo));
  }
}

static sn_status read_number(reader *r, double *out) {
  char *end;
  blanks(r);
  *out = strtod(r->at, &end);
  if (end == r->at)
    return bad(r, "a number");
  r->at = end;
  return SN_OK;
}

static sn_status read_list(reader *r, case_tensor *t) {
  int64_t n = 0;
  double last = 0;
  t->given = true;
  r->at++;
  for (blanks(r); *r->at != '}'; blanks(r)) {
    SN_TRY(read_number(r, &last));
    if (n < t->count)
      t->data[n] = last;
    n++;
    blanks(r);
    if (*r->at == ',')
      r->at++;
    else if (*r->at != '}')
      return bad(r, "',' or '}'");
  }
  r->at++;
  for (; n == 1 && n < t->count; n++) { /* one number stands for all */
    for (int64_t i = 1; i < t->count; i++)
      t->data[i] = last;
    n = t->count - 1;
  }
  return n == t->count || t->count == 0 ? SN_OK : bad(r, "as many numbers as elements");
}

static sn_status read_type(reader *r, sn_type *out, int64_t *count) {
  size_t n = strcspn(r->at, "[");
  *out = (sn_type){.dtype = dtype_find(r->at, n)};
  if (out->dtype == SN_NO_DTYPE || r->at[n] != '[')
    return bad(r, "a dtype and dims");
  r->at += n + 1;
  *count = 1;
  for (blanks(r); *r->at != ']'; blanks(r)) {
    char *end;
    long long d = strtoll(r->at, &end, 10);
    if (end == r->at || out->shape.rank == SN_MAX_RANK)
      return bad(r, "a dim");
    r->at = end;
    out->shape.dim[out->shape.rank++] = d;
    *count *= d;
    blanks(r);
    if (*r->at == ',')
      r->at++;
  }
  r->at++;
  return SN_OK;
}

static sn_status read_tensor(reader *r, case_tensor *t, int input) {
  SN_TRY(read_type(r, &t->type, &t->count));
  t->data = arena_array(&r->c->memory, (size_t)t->count, sizeof *t->data);
  if (!t->data)
    return SN_ERR_NO_MEMORY;
  uint64_t seed = hash_string(HASH_SEED, r->c->op->name) + (uint64_t)input * 1000003;
  bool is_float = dtype_is_float(t->type.dtype);
  double lo = is_float ? -2 : 0, hi = is_float ? 2 : 5;
  if (*r->at == '{')
    return read_list(r, t);
  if (*r->at == '(') {
    r->at++;
    SN_TRY(read_number(r, &lo));
    blanks(r);
    if (*r->at++ != ',')
      return bad(r, "','");
    SN_TRY(read_number(r, &hi));
    blanks(r);
    if (*r->at++ != ')')
      return bad(r, "')'");
  }
  draw(t, input, lo, hi, seed);
  return SN_OK;
}

static sn_status read_argument(reader *r, int *next_id) {
  op_test_case *c = r->c;
  int i = c->n_in;
  if (i == CASE_MAX_INPUTS)
    return bad(r, "fewer inputs");
  c->n_in++;
  text_puts(&r->line, i ? ", " : "");
  if (strncmp(r->at, "none", 4) == 0) {
    r->at += 4;
    text_puts(&r->line, "none");
    return SN_OK;
  }
  SN_TRY(read_tensor(r, &c->in[i], i));
  text_printf(&r->head, "%%%d = input() name=\"in%d\" dtype=%s shape=[", *next_id, i,
              sn_dtype_name(c->in[i].type.dtype));
  for (int d = 0; d < c->in[i].type.shape.rank; d++)
    text_printf(&r->head, "%s%lld", d ? ", " : "", (long long)c->in[i].type.shape.dim[d]);
  text_puts(&r->head, "]\n");
  text_printf(&r->line, "%%%d", (*next_id)++);
  return SN_OK;
}

static sn_status read_expected(reader *r) {
  op_test_case *c = r->c;
  r->at += 2;
  for (blanks(r); *r->at && *r->at != '#' && *r->at != '@'; blanks(r)) {
    if (c->n_expected == MAX_RESULTS)
      return bad(r, "fewer results");
    SN_TRY(read_tensor(r, &c->expected[c->n_expected++], 0));
    blanks(r);
    if (*r->at == ',')
      r->at++;
  }
  return SN_OK;
}

static sn_status read_case(reader *r, const char *name) {
  op_test_case *c = r->c;
  int next_id = 1;
  for (int i = 1; i < c->table->n && !c->op; i++)
    if (strcmp(c->table->ops[i].name, name) == 0)
      c->op = &c->table->ops[i];
  if (!c->op)
    return bad(r, "an op");
  text_printf(&r->line, "%s(", name);
  r->at++;
  for (blanks(r); *r->at != ')'; blanks(r)) {
    SN_TRY(read_argument(r, &next_id));
    blanks(r);
    if (*r->at == ',')
      r->at++;
    else if (*r->at != ')')
      return bad(r, "',' or ')'");
  }
  const char *end = strstr(r->at, "=>"), *kink = strstr(r->at, "@kink");
  size_t n = end ? (size_t)(end - r->at) : kink ? (size_t)(kink - r->at) : strlen(r->at);
  text_add(&r->line, r->at, n);
  c->kink = kink != NULL;
  r->at += n;
  return end ? read_expected(r) : SN_OK;
}

sn_status case_load(sn_ctx *ctx, const op_table *table, const char *source, op_test_case *out) {
  *out = (op_test_case){.ctx = ctx, .table = table};
  arena_init(&out->memory, ctx);
  reader r = {.c = out, .at = source};
  text_init(&r.head, ctx);
  text_init(&r.line, ctx);
  char name[64];
  size_t n = strcspn(source, "(");
  sn_status status = SN_ERR_FORMAT;
  if (n > 0 && n < sizeof name && source[n]) {
    memcpy(name, source, n);
    name[n] = '\0';
    r.at += n;
    status = read_case(&r, name);
  }
  text_puts(&r.head, "");
  out->head = arena_strdup(&out->memory, r.head.data ? r.head.data : "");
  out->line = arena_strdup(&out->memory, r.line.data ? r.line.data : "");
  text_free(&r.head);
  text_free(&r.line);
  if (status != SN_OK)
    case_free(out);
  return status;
}

void case_free(op_test_case *c) { arena_clear(&c->memory); }

sn_status case_graph(const op_test_case *c, sn_graph **out_graph, sn_value *out_first) {
  text t;
  text_init(&t, c->ctx);
  text_puts(&t, c->head);
  int id = 100;
  text_printf(&t, "%%%d = %s\n", id, c->line);
  for (int k = 0; k < c->op->n_results; k++)
    text_printf(&t, "output \"out%d\" %%%d\n", k, id + k);
  *out_graph = NULL;
  sn_status status = text_done(&t);
  if (status == SN_OK)
    status = graph_parse(c->ctx, c->table, t.data, out_graph);
  text_free(&t);
  if (status == SN_OK)
    *out_first = (*out_graph)->outputs[0].value;
  return status;
}

sn_value case_input(const op_test_case *c, const sn_graph *g, int i) {
  char name[16];
  snprintf(name, sizeof name, "in%d", i);
  return c->in[i].type.dtype ? graph_find_named(g, OP_input, name) : SN_NONE;
}

static void fill_leaf(const op_test_case *c, const sn_graph *g, const node *n, ref_tensor *t,
                      ref_mode mode) {
  if (n->op == OP_constant) {
    const attrs_constant *a = n->attrs;
    for (int64_t i = 0; i < t->count; i++)
      t->data[i] = dtype_load(t->dtype, a->data.data, i);
    return;
  }
  const char *name = graph_leaf_name(g, n);
  bool drawn = strncmp(name, "in", 2) != 0 || !c || atoi(name + 2) >= c->n_in;
  for (int64_t i = 0; i < t->count; i++) {
    double x = drawn ? case_weight(name, i) : c->in[atoi(name + 2)].data[i];
    t->data[i] = mode == REF_F64 && dtype_is_float(t->dtype) ? x : dtype_round(t->dtype, x);
  }
}

sn_status case_run(const op_test_case *c, const sn_graph *g, ref_mode mode, arena *memory,
                   case_tensor *results) {
  ref_machine m;
  int64_t none[1] = {0};
  SN_TRY(ref_start(&m, g, none, mode));
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (m.live[i] && m.tensors[g->nodes[i].first].data)
      fill_leaf(c, g, &g->nodes[i], &m.tensors[g->nodes[i].first], mode);
  sn_status status = ref_execute(&m, NULL);
  for (int k = 0; status == SN_OK && k < g->n_outputs; k++) {
    const ref_tensor *t = &m.tensors[g->outputs[k].value.id];
    results[k] = (case_tensor){.type = sn_value_type(g, g->outputs[k].value), .count = t->count};
    results[k].data = arena_copy(memory, t->data, (size_t)t->count * sizeof(double));
    status = results[k].data ? SN_OK : SN_ERR_NO_MEMORY;
  }
  ref_end(&m);
  return status;
}
