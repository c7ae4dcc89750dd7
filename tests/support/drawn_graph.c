/* See drawn_graph.h. Here: the bytes, the main loop, outputs and states. */
#include "support/drawn_graph.h"

#include "ir/dim.h"
#include "ir/dtype.h"

#include <math.h>
#include <stdio.h>

enum { MOST_NODES = 90, MOST_OPS = 24, MOST_OUTPUTS = 12 };

uint32_t drawn(drawn_graph *d, uint32_t n) {
  uint32_t x = 0;
  if (n <= 1)
    return 0;
  for (uint32_t range = n; range > 0 && !drawn_ended(d); range >>= 8)
    x = x << 8 | d->bytes[d->at++];
  return x % n;
}

size_t drawn_bytes(uint64_t seed, uint8_t *bytes, size_t most) {
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  size_t n = 0;
  for (size_t i = 0; i < most; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    bytes[i] = (uint8_t)(state >> 56);
  }
  n = 30 + (size_t)(state >> 33) % 170;
  return n < most ? n : most;
}

int64_t drawn_at(const drawn_graph *d, sn_dim dim) {
  int64_t n = 0;
  return dim_eval(d->g, dim, d->bindings, &n) ? n : 0;
}

bool drawn_fits_letter(char letter, sn_dtype dtype) {
  switch (letter) {
  case 'f': return dtype_is_float(dtype);
  case 'n': return dtype_is_float(dtype) || dtype_is_int(dtype);
  case 's': return dtype == SN_F32;
  case 'b': return dtype == SN_BOOL;
  case 'i': return dtype == SN_I32;
  default: return dtype != SN_NO_DTYPE;
  }
}

sn_dtype drawn_dtype(drawn_graph *d, char letter) {
  static const sn_dtype usual[] = {SN_F32, SN_F32, SN_F16, SN_BF16, SN_I32, SN_U8, SN_BOOL};
  sn_dtype dtype = letter == 'b' ? SN_BOOL : letter == 'i' ? SN_I32 : DRAWN_OF(d, usual);
  return drawn_fits_letter(letter, dtype) ? dtype : SN_F32;
}

const exact_value *drawn_known(const drawn_graph *d, sn_value v) {
  return sn_value_valid(d->g, v) && v.id < d->judge.n_values ? &d->judge.values[v.id] : NULL;
}

bool drawn_usable(const drawn_graph *d, sn_value v) {
  const exact_value *known = drawn_known(d, v);
  return known && exact_says(known);
}

sn_value drawn_add(drawn_graph *d, int op, const sn_value *in, int n_in, const void *attrs) {
  for (int i = 0; i < n_in; i++)
    if (in[i].id && !drawn_usable(d, in[i]))
      return SN_NONE;
  sn_value v = graph_add(d->g, op, in, n_in, attrs);
  if (d->g->status != SN_OK) { /* it did not fit: the graph is as it was */
    d->no_memory = d->no_memory || d->g->status == SN_ERR_NO_MEMORY;
    d->g->status = SN_OK;
    d->g->message = NULL;
    d->refused++;
    return SN_NONE;
  }
  d->no_memory = d->no_memory || !exact_go_on(&d->judge);
  if (d->may_fail && !d->no_memory && drawn_known(d, v)->failed)
    d->failing = v;
  return !d->no_memory && drawn_usable(d, v) ? v : SN_NONE;
}

/* --- states, outputs, gradients --- */

static void add_assigns(drawn_graph *d) {
  sn_value states[DRAWN_LEAVES];
  int n = sn_graph_states(d->g, states, DRAWN_LEAVES);
  for (int i = 0; i < n && i < DRAWN_LEAVES; i++) {
    if (drawn(d, 4) == 0)
      continue;
    sn_type t = drawn_type(d, states[i]);
    sn_value v = drawn_like(d, t.dtype, t.shape);
    if (drawn_usable(d, v))
      sn_assign(d->g, states[i], v);
  }
}

static void mark_read(const sn_graph *g, bool *read) {
  for (uint32_t i = 0; i < g->n_nodes; i++)
    for (int k = 0; k < g->nodes[i].n_in; k++)
      read[g->nodes[i].in[k].id] = true;
}

static void add_output(drawn_graph *d, sn_value v) {
  char name[16];
  snprintf(name, sizeof name, "y%u", v.id);
  if (d->g->n_outputs < MOST_OUTPUTS)
    sn_output(d->g, name, v);
}

/* What nothing reads, and some of the rest. */
static void add_outputs(drawn_graph *d) {
  bool *read = arena_array(&d->memory, d->g->n_values, sizeof *read);
  if (!read)
    return;
  mark_read(d->g, read);
  if (d->failing.id)
    add_output(d, d->failing);
  for (uint32_t v = d->g->n_values; v-- > 1;) {
    bool leaf = graph_node(d->g, (sn_value){v})->n_in == 0;
    if (drawn_usable(d, (sn_value){v}) && !leaf && (!read[v] || drawn_one_in(d, 8)))
      add_output(d, (sn_value){v});
  }
  for (uint32_t v = 1; v < d->g->n_values && !d->g->n_outputs; v++)
    if (drawn_usable(d, (sn_value){v}))
      add_output(d, (sn_value){v});
}

/* Of the sum of a value, or of the mean, for some leaves. An op on the way may have none. */
static void add_gradients(drawn_graph *d) {
  sn_value x = drawn_any(d, 'f', 0, 8), wrt[8], grads[8];
  int n = 0;
  if (drawn_type(d, x).dtype != SN_F32)
    return;
  sn_value loss =
      drawn(d, 2) ? sn_sum(d->g, x, SN_ALL_AXES, false) : sn_mean(d->g, x, SN_ALL_AXES, false);
  for (uint32_t v = 1; v < d->g->n_values && n < 8; v++)
    if (dtype_is_float(d->g->values[v].type.dtype) && sn_value_name(d->g, (sn_value){v}))
      wrt[n++] = (sn_value){v};
  if (n && sn_grad(d->g, loss, wrt, n, grads) != SN_OK) {
    d->no_memory = d->no_memory || d->g->status == SN_ERR_NO_MEMORY;
    d->g->status = SN_OK;
    d->g->message = NULL;
  }
  d->no_memory = d->no_memory || !exact_go_on(&d->judge);
}

/* --- the whole --- */

static void draw_symbols(drawn_graph *d) {
  static const int64_t most[] = {4, 3, 7, 1, 33, 2, 9};
  static const char *const names[] = {"n", "m"};
  for (int s = 0; s < DRAWN_SYMBOLS; s++) {
    int64_t max = DRAWN_OF(d, most);
    uint32_t where = drawn(d, 8);
    d->symbols[s] = sn_symbol(d->g, names[s], max);
    d->bindings[s] = where < 3 ? 1 : where < 5 ? max : where == 5 ? 0 : max / 2;
  }
}

/* Any op of the table, or one of those that plans treat in ways of their own. */
static int op_of(drawn_graph *d) {
  static const int central[] = {
      OP_matmul, OP_matmul,    OP_conv,     OP_where,  OP_where,   OP_add,
      OP_mul,    OP_slice,     OP_reshape,  OP_concat, OP_gather,  OP_update_slice,
      OP_sum,    OP_max,       OP_atan2,    OP_cast,   OP_softmax, OP_scatter_add,
      OP_sub,    OP_floor_div, OP_rms_norm, OP_affine, OP_maximum, OP_scatter_set,
      OP_flip,   OP_transpose, OP_expand,   OP_sort};
  return drawn(d, 2) ? 1 + (int)drawn(d, OP_COUNT - 1) : DRAWN_OF(d, central);
}

static void draw_ops(drawn_graph *d) {
  if (d->only_op)
    for (int i = 0; i < 4; i++)
      (void)drawn_op_row(d->only_op)->draw(d, d->only_op);
  for (int i = 0; i < MOST_OPS && !drawn_ended(d) && !d->no_memory; i++) {
    int op = op_of(d);
    d->depth = 0;
    if (d->g->n_nodes < MOST_NODES && drawn_op_row(op))
      (void)drawn_op_row(op)->draw(d, op);
  }
}

sn_status drawn_graph_start(drawn_graph *d, sn_ctx *ctx, const uint8_t *bytes, size_t size) {
  int only = d->only_op;
  *d = (drawn_graph){.ctx = ctx, .bytes = bytes, .size = size, .only_op = only};
  arena_init(&d->memory, ctx);
  arena_init(&d->judge.memory, ctx);
  SN_TRY(graph_create(ctx, op_table_get(), &d->g));
  d->numbers = (plan_numbers){.bindings = d->bindings, .fill = drawn_fill, .user = d};
  draw_symbols(d);
  d->plain = drawn(d, 2) == 0;
  exact_start(&d->judge, d->g, &d->numbers);
  return SN_OK;
}

sn_status drawn_graph_finish(drawn_graph *d) {
  add_outputs(d);
  return d->no_memory ? SN_ERR_NO_MEMORY : d->g->status;
}

sn_status drawn_graph_make(drawn_graph *d, sn_ctx *ctx, const uint8_t *bytes, size_t size) {
  SN_TRY(drawn_graph_start(d, ctx, bytes, size));
  d->may_fail = drawn_one_in(d, 12);
  bool gradients = drawn_one_in(d, 6);
  draw_ops(d);
  add_assigns(d);
  if (gradients)
    add_gradients(d);
  return drawn_graph_finish(d);
}

void drawn_graph_end(drawn_graph *d) {
  exact_end(&d->judge);
  sn_graph_destroy(d->g);
  arena_clear(&d->memory);
}
