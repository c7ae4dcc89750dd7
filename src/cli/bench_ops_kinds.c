/* Kinds of operations: how a line becomes a graph, and what it cannot do without. See bench_ops.h.
 *
 * Operands are inputs, which are there before a run, so nothing is packed ahead of time; with the word `weights` the right
 * operand of a matmul is a state that no run assigns, which the plan may prepare. */
#include "cli/bench_ops.h"

#include <math.h>
#include <string.h>

/* --- helpers --- */

static bool has(const ops_case *c, const char *word) {
  for (int i = 0; i < c->n_words; i++)
    if (strcmp(c->word[i], word) == 0)
      return true;
  return false;
}

static double elements(sn_shape s) {
  double n = 1;
  for (int d = 0; d < s.rank; d++)
    n *= (double)s.dim[d];
  return n;
}

static double bytes_of(sn_type t) { return elements(t.shape) * (double)sn_dtype_size(t.dtype); }

static sn_value input_of(ops_case *c, const char *name, sn_dtype dtype, sn_shape shape) {
  ops_input *in = &c->inputs[c->n_inputs++];
  *in = (ops_input){.name = name, .type = {dtype, shape}};
  c->read += bytes_of(in->type);
  return sn_input(c->graph, name, dtype, shape);
}
static sn_value floats(ops_case *c, const char *name, sn_shape shape) {
  return input_of(c, name, SN_F32, shape);
}
static sn_value indices(ops_case *c, const char *name, sn_shape shape, int64_t below) {
  sn_value v = input_of(c, name, SN_I32, shape);
  c->inputs[c->n_inputs - 1].below = below;
  return v;
}

static void result(ops_case *c, const char *name, sn_value v) {
  c->write += bytes_of(sn_value_type(c->graph, v));
  sn_output(c->graph, name, v);
}

/* The result itself, or with `backward` the gradients for what it was made of, given that of the result. */
static void result_or_grads(ops_case *c, sn_value y, const sn_value *wrt, int n) {
  static const char *const names[] = {"d0", "d1", "d2"};
  sn_graph *g = c->graph;
  sn_value grads[3];
  if (!has(c, "backward")) {
    result(c, "y", y);
    return;
  }
  sn_value dy = floats(c, "dy", sn_value_type(g, y).shape);
  sn_value loss = sn_sum(g, sn_mul(g, y, dy), SN_ALL_AXES, false);
  c->status = sn_grad(g, loss, wrt, n, grads);
  for (int i = 0; i < n && c->status == SN_OK; i++)
    result(c, names[i], grads[i]);
}

/* --- matmul and convolution --- */

/* The first word says how a and b are stored: N as they are multiplied, T the other way round. bf16: b is, and is widened on
 * the way, as weights are. */
static void build_matmul(ops_case *c) {
  sn_graph *g = c->graph;
  int64_t m = c->n[0], n = c->n[1], k = c->n[2], batch = c->n_numbers > 3 ? c->n[3] : 1;
  bool ta = c->n_words > 0 && c->word[0][0] == 'T', tb = c->n_words > 0 && c->word[0][1] == 'T';
  sn_dtype dtype = has(c, "bf16") ? SN_BF16 : SN_F32;
  sn_shape a = ta ? SN_SHAPE(batch, k, m) : SN_SHAPE(batch, m, k);
  sn_shape b = tb ? SN_SHAPE(batch, n, k) : SN_SHAPE(batch, k, n);
  if (batch == 1) {
    a = SN_SHAPE(a.dim[1], a.dim[2]);
    b = SN_SHAPE(b.dim[1], b.dim[2]);
  }
  sn_value x = floats(c, "a", a), w;
  if (has(c, "weights")) {
    w = sn_state(g, "b", dtype, b, SN_INIT_NORMAL, 1);
    c->read += bytes_of((sn_type){dtype, b});
  } else {
    w = input_of(c, "b", dtype, b);
  }
  if (dtype == SN_BF16) {
    w = sn_cast(g, w, SN_F32);
    c->dtype = "f32 x bf16";
  }
  c->flops = 2.0 * (double)batch * (double)m * (double)n * (double)k;
  result(c, "y", sn_matmul(g, x, w, ta, tb));
}

/* N C H W, K R S, stride, padding, [groups]. With H = R = 1 it is padded along W only. */
static void build_conv(ops_case *c) {
  sn_graph *g = c->graph;
  const int64_t *n = c->n;
  int64_t stride = n[7], pad = n[8], groups = c->n_numbers > 9 ? n[9] : 1;
  if (stride == 0 || groups == 0) {
    c->status = sn_ctx_fail(sn_graph_ctx(g), SN_ERR_INVALID,
                            "conv: stride and groups must be 1 or more, got %lld and %lld",
                            (long long)stride, (long long)groups);
    return;
  }
  bool flat = n[2] == 1 && n[5] == 1;
  int64_t pad_h = flat ? 0 : pad, stride_h = flat ? 1 : stride;
  int64_t oh = (n[2] + 2 * pad_h - n[5]) / stride_h + 1, ow = (n[3] + 2 * pad - n[6]) / stride + 1;
  sn_ints strides = SN_INTS(stride_h, stride), pads = SN_INTS(pad_h, pad), ones = SN_INTS(1, 1);
  sn_shape kernel = SN_SHAPE(n[4], n[1] / groups, n[5], n[6]);
  sn_shape image = SN_SHAPE(n[0], n[1], n[2], n[3]), out = SN_SHAPE(n[0], n[4], oh, ow);
  c->flops = 2.0 * (double)n[0] * (double)oh * (double)ow * elements(kernel);
  if (has(c, "grad-input")) {
    sn_value dy = floats(c, "dy", out), w = floats(c, "w", kernel);
    result(c, "y",
           sn_conv_grad_input(g, dy, w, SN_SHAPE(n[2], n[3]), strides, pads, pads, ones, groups));
  } else if (has(c, "grad-weight")) {
    sn_value x = floats(c, "x", image), dy = floats(c, "dy", out);
    result(c, "y",
           sn_conv_grad_weight(g, x, dy, SN_INTS(n[5], n[6]), strides, pads, pads, ones, groups));
  } else {
    sn_value x = floats(c, "x", image), w = floats(c, "w", kernel);
    result(c, "y", sn_conv(g, x, w, SN_NONE, strides, pads, pads, ones, groups));
  }
}

/* --- attention: batch, query heads, kv heads, queries, keys, head size --- */

static void build_attention(ops_case *c) {
  sn_graph *g = c->graph;
  const int64_t *n = c->n;
  sn_shape heads = SN_SHAPE(n[0], n[1], n[3], n[5]), cache = SN_SHAPE(n[0], n[2], n[4], n[5]);
  sn_causal causal = has(c, "causal") ? SN_CAUSAL_END : SN_CAUSAL_NONE;
  double scale = 1 / sqrt((double)n[5]), q_rows = (double)(n[0] * n[1]) * (double)n[3];
  double keys = causal ? (double)n[4] - ((double)n[3] - 1) / 2 : (double)n[4];
  sn_value q = floats(c, "q", heads), k = floats(c, "k", cache), v = floats(c, "v", cache);
  if (!has(c, "backward")) {
    c->flops = 4 * q_rows * keys * (double)n[5];
    result(c, "y",
           sn_attention(g, q, k, v, SN_NONE, SN_NONE, SN_NONE, SN_NONE, scale, 0, causal, 0,
                        SN_LAYOUT_BHSD));
    return;
  }
  c->flops = 10 * q_rows * keys * (double)n[5];
  sn_value lse = floats(c, "lse", SN_SHAPE(n[0], n[1], n[3]));
  c->inputs[c->n_inputs - 1].mean = log((double)n[4]) + 3; /* about what it would be */
  sn_value out = floats(c, "out", heads), d_out = floats(c, "d_out", heads);
  sn_value dq = sn_attention_grad(g, q, k, v, SN_NONE, SN_NONE, SN_NONE, SN_NONE, lse, out, d_out,
                                  SN_NONE, scale, 0, causal, 0, SN_LAYOUT_BHSD);
  result(c, "dq", dq);
  result(c, "dk", sn_value_result(g, dq, 1));
  result(c, "dv", sn_value_result(g, dq, 2));
}

/* --- pointwise --- */

static void build_add(ops_case *c) {
  sn_shape s = SN_SHAPE(c->n[0]);
  sn_value a = floats(c, "a", s), b = floats(c, "b", s);
  c->flops = (double)c->n[0];
  result(c, "y", sn_add(c->graph, a, b));
}

/* Arithmetic of functions counts as some 20 operations: a polynomial and what is around it. */
enum { FUNCTION = 20 };

static void build_bias_gelu(ops_case *c) {
  sn_graph *g = c->graph;
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0], c->n[1])), b = floats(c, "b", SN_SHAPE(c->n[1]));
  c->flops = FUNCTION * (double)c->n[0] * (double)c->n[1];
  result_or_grads(c, sn_gelu(g, sn_add(g, x, b)), (sn_value[]){x, b}, 2);
}

static void build_silu_mul(ops_case *c) {
  sn_graph *g = c->graph;
  sn_shape s = SN_SHAPE(c->n[0], c->n[1]);
  sn_value gate = floats(c, "gate", s), up = floats(c, "up", s);
  c->flops = FUNCTION * elements(s);
  result_or_grads(c, sn_mul(g, sn_silu(g, gate), up), (sn_value[]){gate, up}, 2);
}

static void build_exp(ops_case *c) {
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0]));
  c->flops = FUNCTION * (double)c->n[0];
  result(c, "y", sn_exp(c->graph, x));
}

/* p, m and v are states that are assigned. */
static void build_adam(ops_case *c) {
  sn_graph *g = c->graph;
  sn_shape s = SN_SHAPE(c->n[0]);
  sn_value grad = floats(c, "grad", s), p = sn_state(g, "p", SN_F32, s, SN_INIT_NORMAL, 1);
  sn_value m = sn_state(g, "m", SN_F32, s, SN_INIT_ZEROS, 0);
  sn_value v = sn_state(g, "v", SN_F32, s, SN_INIT_ONES, 0);
  sn_value new_m = sn_add(g, sn_affine(g, m, 0.9, 0), sn_affine(g, grad, 0.1, 0));
  sn_value new_v =
      sn_add(g, sn_affine(g, v, 0.999, 0), sn_affine(g, sn_mul(g, grad, grad), 0.001, 0));
  sn_value step = sn_div(g, new_m, sn_affine(g, sn_sqrt(g, new_v), 1, 1e-8));
  sn_assign(g, m, new_m);
  sn_assign(g, v, new_v);
  sn_assign(g, p, sn_sub(g, p, sn_affine(g, step, 1e-3, 0)));
  c->flops = 12 * elements(s);
  c->read += 12 * elements(s);
  c->write += 12 * elements(s);
}

static void build_normal(ops_case *c) {
  sn_value key = indices(c, "key", SN_SHAPE(3), 1000);
  c->flops = 2 * FUNCTION * (double)c->n[0];
  result(c, "y", sn_normal(c->graph, key, SN_F32, SN_SHAPE(c->n[0]), 0, 1, SN_AUTO));
}

/* --- norms, softmax, losses: rows and columns --- */

static void build_layer_norm(ops_case *c) {
  sn_shape columns = SN_SHAPE(c->n[1]);
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0], c->n[1]));
  sn_value w = floats(c, "w", columns), b = floats(c, "b", columns);
  c->flops = 8 * (double)c->n[0] * (double)c->n[1];
  result_or_grads(c, sn_layer_norm(c->graph, x, w, b, 1, 1e-5), (sn_value[]){x, w, b}, 3);
}

static void build_rms_norm(ops_case *c) {
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0], c->n[1])), w = floats(c, "w", SN_SHAPE(c->n[1]));
  c->flops = 4 * (double)c->n[0] * (double)c->n[1];
  result_or_grads(c, sn_rms_norm(c->graph, x, w, SN_NONE, 1, 1e-5), (sn_value[]){x, w}, 2);
}

static void build_softmax(ops_case *c) {
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0], c->n[1]));
  c->flops = FUNCTION * (double)c->n[0] * (double)c->n[1];
  result_or_grads(c, sn_softmax(c->graph, x, 1), &x, 1);
}

static void build_cross_entropy(ops_case *c) {
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0], c->n[1]));
  sn_value labels = indices(c, "labels", SN_SHAPE(c->n[0]), c->n[1]);
  c->flops = FUNCTION * (double)c->n[0] * (double)c->n[1];
  result_or_grads(c, sn_cross_entropy(c->graph, x, labels, -100, 0, SN_REDUCTION_MEAN), &x, 1);
}

/* N C H W */
static void build_batch_norm(ops_case *c) {
  sn_graph *g = c->graph;
  sn_shape channels = SN_SHAPE(c->n[1]);
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0], c->n[1], c->n[2], c->n[3]));
  sn_value w = floats(c, "w", channels), b = floats(c, "b", channels);
  sn_value mean = floats(c, "mean", channels), var = floats(c, "var", channels);
  c->inputs[c->n_inputs - 1].mean = 9;
  c->flops = 8 * (double)(c->n[0] * c->n[1]) * (double)(c->n[2] * c->n[3]);
  result(c, "y", sn_batch_norm_train(g, x, w, b, mean, var, 0.1, 1e-5));
}

/* N C H W, kernel, stride, padding */
static void build_max_pool(ops_case *c) {
  const int64_t *n = c->n;
  sn_ints kernel = SN_INTS(n[4], n[4]), stride = SN_INTS(n[5], n[5]), pad = SN_INTS(n[6], n[6]);
  sn_value x = floats(c, "x", SN_SHAPE(n[0], n[1], n[2], n[3]));
  sn_value y =
      sn_pool(c->graph, x, SN_POOL_MAX, kernel, stride, pad, pad, SN_INTS(1, 1), false, false);
  c->flops = elements(sn_value_type(c->graph, y).shape) * (double)(n[4] * n[4]);
  result(c, "y", y);
}

/* --- reductions, moves --- */

static void build_sum(ops_case *c) {
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0], c->n[1]));
  sn_ints axes = has(c, "rows") ? SN_INTS(1) : has(c, "columns") ? SN_INTS(0) : SN_ALL_AXES;
  c->flops = (double)c->n[0] * (double)c->n[1];
  result(c, "y", sn_sum(c->graph, x, axes, false));
}

static void build_argmax(ops_case *c) {
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0], c->n[1]));
  c->flops = (double)c->n[0] * (double)c->n[1];
  result(c, "y", sn_argmax(c->graph, x, 1, false));
}

static void build_transpose(ops_case *c) {
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0], c->n[1]));
  result(c, "y", sn_transpose(c->graph, x, SN_INTS(1, 0)));
}

/* [B, S, H, D] to [B, H, S, D] */
static void build_heads_first(ops_case *c) {
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0], c->n[1], c->n[2], c->n[3]));
  result(c, "y", sn_transpose(c->graph, x, SN_INTS(0, 2, 1, 3)));
}

/* Two [rows, columns] side by side. */
static void build_concat(ops_case *c) {
  sn_shape s = SN_SHAPE(c->n[0], c->n[1]);
  sn_value parts[] = {floats(c, "a", s), floats(c, "b", s)};
  result(c, "y", sn_concat(c->graph, parts, 2, 1));
}

/* table rows, columns, how many; only rows that are asked for are read. backward: into zeros. */
static void build_gather(ops_case *c) {
  sn_value table = floats(c, "table", SN_SHAPE(c->n[0], c->n[1]));
  c->read = 4 * (double)c->n[2] * (double)(has(c, "backward") ? 0 : c->n[1]);
  sn_value index = indices(c, "index", SN_SHAPE(c->n[2]), c->n[0]);
  result_or_grads(c, sn_gather(c->graph, table, index), &table, 1);
}

/* The same to a copy of the table. */
static void build_scatter_add(ops_case *c) {
  sn_value base = floats(c, "base", SN_SHAPE(c->n[0], c->n[1]));
  sn_value index = indices(c, "index", SN_SHAPE(c->n[2]), c->n[0]);
  sn_value value = floats(c, "value", SN_SHAPE(c->n[2], c->n[1]));
  c->flops = (double)c->n[2] * (double)c->n[1];
  result(c, "y", sn_scatter_add(c->graph, base, index, value));
}

/* --- scans and choices --- */

static void build_cumsum(ops_case *c) {
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0], c->n[1]));
  c->flops = (double)c->n[0] * (double)c->n[1];
  result(c, "y", sn_cumsum(c->graph, x, has(c, "columns") ? 0 : 1, false, false));
}

static void build_sort(ops_case *c) {
  sn_graph *g = c->graph;
  sn_value y = sn_sort(g, floats(c, "x", SN_SHAPE(c->n[0], c->n[1])), 1, false);
  result(c, "y", y);
  result(c, "index", sn_value_result(g, y, 1));
}

static void build_topk(ops_case *c) {
  sn_graph *g = c->graph;
  sn_value y = sn_topk(g, floats(c, "x", SN_SHAPE(c->n[0], c->n[1])), c->n[2], 1, true);
  result(c, "y", y);
  result(c, "index", sn_value_result(g, y, 1));
}

/* rows, vocabulary, top-k */
static void build_sample(ops_case *c) {
  sn_value x = floats(c, "x", SN_SHAPE(c->n[0], c->n[1]));
  sn_value key = indices(c, "key", SN_SHAPE(3), 1000);
  result(c, "y", sn_sample(c->graph, x, key, SN_NONE, 0.8, c->n[2], 0.95, 0, 1, SN_AUTO));
}

static void build_permutation(ops_case *c) {
  sn_value key = indices(c, "key", SN_SHAPE(3), 1000);
  result(c, "y", sn_permutation(c->graph, key, c->n[0], SN_AUTO));
}

const ops_kind ops_kinds[] = {
    {"matmul", "matmul", "NN|NT|TN|TT M N K [BATCH] [bf16] [weights]", 3, build_matmul},
    {"conv", "conv", "forward|grad-input|grad-weight N C H W K R S STRIDE PADDING [GROUPS]", 9,
     build_conv},
    {"attention", "attention", "[backward] [causal] BATCH HEADS KV_HEADS QUERIES KEYS SIZE", 6,
     build_attention},
    {"add", "pointwise", "N", 1, build_add},
    {"exp", "pointwise", "N", 1, build_exp},
    {"bias_gelu", "pointwise", "[backward] ROWS COLUMNS", 2, build_bias_gelu},
    {"silu_mul", "pointwise", "[backward] ROWS COLUMNS", 2, build_silu_mul},
    {"adam", "pointwise", "N", 1, build_adam},
    {"normal", "pointwise", "N", 1, build_normal},
    {"layer_norm", "norm", "[backward] ROWS COLUMNS", 2, build_layer_norm},
    {"rms_norm", "norm", "[backward] ROWS COLUMNS", 2, build_rms_norm},
    {"softmax", "norm", "[backward] ROWS COLUMNS", 2, build_softmax},
    {"cross_entropy", "norm", "[backward] ROWS COLUMNS", 2, build_cross_entropy},
    {"batch_norm", "norm", "N C H W", 4, build_batch_norm},
    {"max_pool", "reduce", "N C H W KERNEL STRIDE PADDING", 7, build_max_pool},
    {"sum", "reduce", "all|rows|columns ROWS COLUMNS", 2, build_sum},
    {"argmax", "reduce", "ROWS COLUMNS", 2, build_argmax},
    {"transpose", "move", "ROWS COLUMNS", 2, build_transpose},
    {"heads_first", "move", "B S H D", 4, build_heads_first},
    {"concat", "move", "ROWS COLUMNS", 2, build_concat},
    {"gather", "move", "[backward] TABLE_ROWS COLUMNS N", 3, build_gather},
    {"scatter_add", "move", "TABLE_ROWS COLUMNS N", 3, build_scatter_add},
    {"cumsum", "scan", "rows|columns ROWS COLUMNS", 2, build_cumsum},
    {"sort", "choose", "ROWS COLUMNS", 2, build_sort},
    {"topk", "choose", "ROWS COLUMNS K", 3, build_topk},
    {"sample", "choose", "ROWS VOCABULARY TOP_K", 3, build_sample},
    {"permutation", "choose", "N", 1, build_permutation},
    {NULL, NULL, NULL, 0, NULL}};
