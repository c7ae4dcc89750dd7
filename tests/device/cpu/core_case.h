/* Runs a case of an op that is a core on the CPU device and compares with the reference: core_case_check(text). The
 * operands are laid out here, apart from the planner. */
#ifndef SINEW_TESTS_DEVICE_CPU_CORE_CASE_H
#define SINEW_TESTS_DEVICE_CPU_CORE_CASE_H

#include "ir/graph.h"
#include "ops/table.h"
#include "support/cpu_case.h"
#include "support/op_run.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

enum { CASE_VALUES = CASE_MAX_INPUTS + MAX_RESULTS + 1 };

typedef struct core_case {
  program p;
  program_value values[CASE_VALUES];
  void *address[CASE_VALUES];
  core_part core;
  archetype kind;
} core_case;

static inline strided core_dense(uint32_t value, sn_type type) {
  strided s = {.value = value, .dtype = (uint8_t)type.dtype, .rank = type.shape.rank};
  int64_t stride = 1;
  for (int d = s.rank - 1; d >= 0; d--) {
    s.dim[d] = type.shape.dim[d];
    s.stride[d] = stride;
    stride *= s.dim[d];
  }
  return s;
}

static inline void core_heads_first(strided *s, sn_layout layout) {
  if (!s->value || layout == SN_LAYOUT_BHSD)
    return;
  sn_dim dim = s->dim[1], stride = s->stride[1];
  s->dim[1] = s->dim[2];
  s->stride[1] = s->stride[2];
  s->dim[2] = dim;
  s->stride[2] = stride;
}

/* To [B,Hq,Sq,Skv]. */
static inline void core_broadcast(strided *s, const strided *q, const strided *k) {
  sn_dim full[] = {q->dim[0], q->dim[1], q->dim[2], k->dim[2]};
  strided old = *s;
  if (!s->value)
    return;
  for (int d = 0; d < 4; d++) {
    int from = d - (4 - old.rank);
    s->dim[d] = full[d];
    s->stride[d] = from >= 0 && old.dim[from] != 1 ? old.stride[from] : 0;
  }
  s->rank = 4;
}

static inline int64_t core_count(const strided *s, int from, int to) {
  int64_t n = 1;
  for (int d = from; d < to; d++)
    n *= s->dim[d];
  return n;
}

/* To [outer, n, inner], or [rows, width]. */
static inline void core_around(strided *s, int axis) {
  if (!s->value)
    return;
  int64_t outer = core_count(s, 0, axis), n = s->dim[axis],
          inner = core_count(s, axis + 1, s->rank);
  *s = (strided){.value = s->value,
                 .dtype = s->dtype,
                 .rank = 3,
                 .dim = {outer, n, inner},
                 .stride = {n * inner, inner, 1}};
}
static inline void core_rows(strided *s, int split) {
  if (!s->value)
    return;
  int64_t rows = core_count(s, 0, split), width = core_count(s, split, s->rank);
  *s = (strided){
      .value = s->value, .dtype = s->dtype, .rank = 2, .dim = {rows, width}, .stride = {width, 1}};
}

static inline void core_attention(core_part *c, double scale, double softcap, sn_causal causal,
                                  int64_t window, sn_layout layout, bool grad) {
  c->reals[0] = scale;
  c->reals[1] = softcap;
  c->ints[0] = causal;
  c->ints[1] = window;
  for (int i = 0; i < 3; i++) {
    core_heads_first(&c->in[i], layout);
    if (grad || i == 0)
      core_heads_first(&c->out[i], layout);
  }
  core_broadcast(&c->in[3], &c->in[0], &c->in[1]);
  if (grad) {
    core_heads_first(&c->in[8], layout);
    core_heads_first(&c->in[9], layout);
    if (c->in[4].value)
      core_broadcast(&c->out[3], &c->in[0], &c->in[1]);
  }
  core_broadcast(&c->in[4], &c->in[0], &c->in[1]);
}

static inline void core_scatter(core_part *c, bool add, bool along, int64_t axis) {
  c->ints[0] = add;
  c->ints[1] = along ? 1 : -1;
  int a = (int)(axis < 0 ? axis + c->in[0].rank : axis);
  if (along) {
    for (int i = 0; i < 3; i++)
      core_around(&c->in[i], a);
    core_around(&c->out[0], a);
    return;
  }
  int split = c->in[1].rank;
  core_rows(&c->in[0], 1);
  core_rows(&c->out[0], 1);
  core_rows(&c->in[2], split);
  core_rows(&c->in[1], split);
}

static inline void core_along(core_part *c, int64_t axis) {
  int a = (int)(axis < 0 ? axis + c->in[0].rank : axis);
  core_around(&c->in[0], a);
  core_around(&c->out[0], a);
  core_around(&c->out[1], a);
}

/* The archetype and its numbers; false for an op that is no core. */
static inline bool core_shape_of(core_case *k, int op, const void *attrs) {
  core_part *c = &k->core;
  switch (op) {
  case OP_attention: {
    const attrs_attention *a = attrs;
    core_attention(c, a->scale, a->softcap, a->causal, a->window, a->layout, false);
    k->kind = STEP_ATTENTION;
    return true;
  }
  case OP_attention_grad: {
    const attrs_attention_grad *a = attrs;
    core_attention(c, a->scale, a->softcap, a->causal, a->window, a->layout, true);
    k->kind = STEP_ATTENTION_GRAD;
    return true;
  }
  case OP_scatter_set: core_scatter(c, false, false, 0); break;
  case OP_scatter_add: core_scatter(c, true, false, 0); break;
  case OP_scatter_along_set:
    core_scatter(c, false, true, ((const attrs_scatter_along_set *)attrs)->axis);
    break;
  case OP_scatter_along_add:
    core_scatter(c, true, true, ((const attrs_scatter_along_add *)attrs)->axis);
    break;
  case OP_cumsum: {
    const attrs_cumsum *a = attrs;
    memcpy(c->ints, (int64_t[]){0, a->exclusive, a->reverse}, 3 * sizeof *c->ints);
    core_along(c, a->axis);
    k->kind = STEP_SCAN;
    return true;
  }
  case OP_cumprod: {
    const attrs_cumprod *a = attrs;
    memcpy(c->ints, (int64_t[]){1, a->exclusive, a->reverse}, 3 * sizeof *c->ints);
    core_along(c, a->axis);
    k->kind = STEP_SCAN;
    return true;
  }
  case OP_sort:
    c->ints[0] = ((const attrs_sort *)attrs)->descending;
    core_along(c, ((const attrs_sort *)attrs)->axis);
    k->kind = STEP_SORT;
    return true;
  case OP_topk:
    c->ints[0] = ((const attrs_topk *)attrs)->largest;
    core_along(c, ((const attrs_topk *)attrs)->axis);
    k->kind = STEP_SORT;
    return true;
  case OP_sample: {
    const attrs_sample *a = attrs;
    memcpy(c->reals, (double[]){a->temperature, a->top_p, a->min_p, a->repetition_penalty},
           4 * sizeof *c->reals);
    c->ints[0] = a->top_k;
    c->ints[1] = a->stream;
    core_rows(&c->in[0], c->in[0].rank - 1);
    core_rows(&c->in[2], c->in[2].rank - 1);
    core_rows(&c->out[0], c->out[0].rank);
    k->kind = STEP_SAMPLE;
    return true;
  }
  case OP_permutation:
    c->ints[0] = ((const attrs_permutation *)attrs)->stream;
    k->kind = STEP_PERMUTE;
    return true;
  default: return false;
  }
  k->kind = STEP_SCATTER;
  return true;
}

static inline int64_t core_type_count(sn_type t) {
  int64_t n = 1;
  for (int d = 0; d < t.shape.rank; d++)
    n *= t.shape.dim[d];
  return n;
}

static inline size_t core_bytes(const core_case *k, uint32_t v) {
  return (size_t)k->values[v].count * 4 + 4;
}

/* A value of the program with its memory; data NULL: a result, filled with rubbish. */
static inline strided core_value(core_case *k, sn_type type, const double *data) {
  uint32_t v = k->p.n_values++;
  int64_t n = core_type_count(type);
  k->values[v] = (program_value){.type = type, .count = n};
  k->address[v] = malloc(core_bytes(k, v));
  memset(k->address[v], 0x55, core_bytes(k, v));
  for (int64_t i = 0; data && i < n; i++)
    dtype_store(type.dtype, k->address[v], i, data[i]);
  return core_dense(v, type);
}

/* Results as before a run. In place: the result has the base's memory, which holds a copy of it. */
static inline void core_clear(core_case *k, bool in_place) {
  for (int i = 0; i < k->core.n_out; i++) {
    uint32_t v = k->core.out[i].value;
    memset(k->address[v], 0x55, core_bytes(k, v));
  }
  if (in_place)
    memcpy(k->address[k->core.out[0].value], k->address[k->core.in[0].value],
           core_bytes(k, k->core.in[0].value));
}

static inline void core_run(core_case *k, sn_ctx *ctx, const cpu_isa *isa, int threads,
                            bool in_place) {
  part parts[1] = {{.u.core = k->core}};
  step s = {.kind = k->kind, .n_parts = 1, .parts = parts};
  cpu_case r = {
      .ctx = ctx, .program = &k->p, .addresses = k->address, .threads = threads, .isa = isa};
  core_clear(k, in_place);
  if (in_place)
    parts[0].u.core.in[0].value = k->core.out[0].value;
  CHECK_EQ_INT(cpu_case_run(&r, &s), SN_OK);
  CHECK_EQ_UINT(r.scratch_used, 0);
  CHECK(!r.failed);
}

/* Bytes behind the last element must be as they were. */
static inline void core_compare(core_case *k, int i, const case_tensor *want, const char *source) {
  uint32_t v = k->core.out[i].value;
  sn_dtype dtype = want->type.dtype;
  bool sums = k->kind == STEP_ATTENTION || k->kind == STEP_ATTENTION_GRAD;
  double error = dtype == SN_F32 ? 2e-5 : dtype == SN_F16 ? 5e-4 : dtype == SN_BF16 ? 4e-3 : 0;
  if (sums && dtype != SN_F32)
    error *= 4;
  double largest = 0; /* gradients are sums in which larger terms cancel */
  for (int64_t n = 0; k->kind == STEP_ATTENTION_GRAD && n < want->count; n++)
    largest = isfinite(want->data[n]) ? fmax(largest, fabs(want->data[n])) : largest;
  for (int64_t n = 0; n < want->count; n++) {
    double x = want->data[n], y = dtype_load(dtype, k->address[v], n);
    bool same = x == y || (isnan(x) && isnan(y)) ||
                fabs(x - y) <= error * ((sums || dtype == SN_F32) + fmax(largest, fabs(x)));
    if (!same) {
      FAIL("%s: result %d, element %lld: expected %.9g, got %.9g", source, i, (long long)n, x, y);
      return;
    }
  }
  CHECK_EQ_INT(((const unsigned char *)k->address[v])[k->values[v].count * 4 + 3], 0x55);
}

/* The results of one thread, and whether those of others are the same to the last bit. */
static inline void core_keep(core_case *k, char **kept, bool first, const char *source,
                             int threads) {
  for (int i = 0; i < k->core.n_out; i++) {
    uint32_t v = k->core.out[i].value;
    size_t bytes = core_bytes(k, v);
    if (first)
      memcpy(kept[i], k->address[v], bytes);
    else if (memcmp(kept[i], k->address[v], bytes) != 0)
      FAIL("%s: result %d has other bits with %d threads", source, i, threads);
  }
}

/* With every instruction set and on 1 … 4 threads; a scatter also in place. */
static inline void core_run_all(core_case *k, op_run *r, const char *source) {
  char *kept[MAX_RESULTS] = {0};
  for (int i = 0; i < k->core.n_out; i++)
    kept[i] = malloc(core_bytes(k, k->core.out[i].value));
  for (int in_place = 0; in_place <= (k->kind == STEP_SCATTER); in_place++)
    for (int isa = 0; cpu_isa_at(isa); isa++)
      for (int threads = 1; threads <= 4; threads++) {
        core_run(k, r->ctx, cpu_isa_at(isa), threads, in_place);
        core_keep(k, kept, threads == 1, source, threads);
        for (int i = 0; threads == 1 && i < k->core.n_out; i++)
          core_compare(k, i, &r->out[i], source);
      }
  for (int i = 0; i < k->core.n_out; i++)
    free(kept[i]);
}

static inline void core_free(core_case *k) {
  for (uint32_t v = 1; v < k->p.n_values; v++)
    free(k->address[v]);
}

/* What is run on a case: the reference's results are in r. */
typedef void core_body(core_case *k, op_run *r, sn_graph *g, void *user);
/* What is done to the inputs before both run. */
typedef void core_change(case_tensor *in);

static inline void core_case_of(op_run *r, sn_graph *g, const node *n, core_body *run, void *user) {
  core_case k = {.p = {.n_values = 1}};
  k.p.values = k.values;
  k.core.n_in = n->n_in;
  k.core.n_out = n->n_out;
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].id)
      k.core.in[i] = core_value(&k, r->in[i].type, r->in[i].data);
  for (int i = 0; i < n->n_out; i++)
    k.core.out[i] = core_value(&k, sn_value_type(g, (sn_value){n->first + (uint32_t)i}), NULL);
  if (CHECK(core_shape_of(&k, n->op, n->attrs)))
    run(&k, r, g, user);
  core_free(&k);
}

/* change: may be NULL. */
static inline void core_case_with(const char *source, core_change *change, core_body *run,
                                  void *user) {
  op_run r;
  sn_graph *g = NULL;
  sn_value first;
  if (op_run_load(&r, source) && CHECK(case_graph(&r.c, &g, &first) == SN_OK)) {
    if (change)
      change(r.in);
    if (CHECK(case_run(&r.c, g, REF_F32, &r.memory, r.out) == SN_OK))
      core_case_of(&r, g, graph_node(g, first), run, user);
    else
      FAIL("%s: %s", source, sn_ctx_message(r.ctx));
  }
  sn_graph_destroy(g);
  op_run_end(&r);
}

static inline void core_run_on_cpu(core_case *k, op_run *r, sn_graph *g, void *source) {
  (void)g;
  core_run_all(k, r, source);
}
static inline void core_case_changed(const char *source, core_change *change) {
  core_case_with(source, change, core_run_on_cpu, (void *)(uintptr_t)source);
}
static inline void core_case_check(const char *source) { core_case_changed(source, NULL); }

/* All cases of the ops that are cores, each as a sub-test of the running walk. */
static inline void core_walk(void (*each)(const char *source)) {
  static const int cores[] = {OP_attention,
                              OP_attention_grad,
                              OP_scatter_set,
                              OP_scatter_add,
                              OP_scatter_along_set,
                              OP_scatter_along_add,
                              OP_cumsum,
                              OP_cumprod,
                              OP_sort,
                              OP_topk,
                              OP_sample,
                              OP_permutation};
  for (size_t i = 0; i < COUNT_OF(cores); i++) {
    const op_desc *op = &op_table_get()->ops[cores[i]];
    for (int c = 0; c < op->impl->n_cases; c++) {
      const op_case *one = &op->impl->cases[c];
      if (one->error || !test_begin("%s/%d", op->name, c))
        continue;
      each(one->text);
      test_end();
    }
  }
}

/* NaN, infinities and zeros of both signs in every n-th place of the first input. */
static inline void core_put_odd(case_tensor *in, int64_t every) {
  const double odd[] = {NAN, -INFINITY, 0.0, -0.0, INFINITY};
  for (int64_t i = 0; i < in[0].count; i += every)
    in[0].data[i] = odd[i / every % 5];
}

/* Attention and its gradient: numbers that are not finite, where only some rows look. */
static inline void core_spoil(case_tensor *in) {
  in[1].data[60 * in[1].type.shape.dim[3]] = NAN;
  in[2].data[60 * in[2].type.shape.dim[3]] = NAN;
  in[2].data[65 * in[2].type.shape.dim[3] + 1] = INFINITY;
  in[0].data[30 * in[0].type.shape.dim[3]] = NAN;
  if (in[9].data)
    in[9].data[30 * in[9].type.shape.dim[3]] = INFINITY;
}

#endif
