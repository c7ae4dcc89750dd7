/* See cost.h. One row an op; an op without a row is a step of its own that touches each element of its
 * arguments and results once. */
#include "ops/cost.h"

#include "ops/table.h"

typedef struct call {
  const sn_graph *dims;
  const void *attrs;
  int n_in, n_out;
  const sn_type *in, *out;
} call;

typedef struct row {
  uint8_t kind;
  uint8_t flops; /* an element; 0: one */
  bool commutes;
  double (*work)(const call *c); /* flops of the whole where elements do not tell */
} row;

double type_elements(const sn_graph *g, const sn_type *t) {
  double n = 1;
  for (int d = 0; d < t->shape.rank; d++)
    n *= (double)sn_dim_max(g, t->shape.dim[d]);
  return n;
}

double type_bytes(const sn_graph *g, const sn_type *t) {
  return type_elements(g, t) * (double)sn_dtype_size(t->dtype);
}

static double elements(const call *c, const sn_type *t) { return type_elements(c->dims, t); }
static double size(const call *c, const sn_type *t, int axis) {
  int d = axis < 0 ? axis + t->shape.rank : axis;
  return d >= 0 && d < t->shape.rank ? (double)sn_dim_max(c->dims, t->shape.dim[d]) : 1;
}

static double work_matmul(const call *c) {
  const attrs_matmul *a = c->attrs;
  return 2 * elements(c, &c->out[0]) * size(c, &c->in[0], a->trans_a ? -2 : -1);
}

/* Each result element sums over the input channels and the window. */
static double work_conv(const call *c) {
  double outputs = size(c, &c->in[1], 0);
  return 2 * elements(c, &c->out[0]) * elements(c, &c->in[1]) / (outputs > 0 ? outputs : 1);
}

static double work_conv_grad_input(const call *c) {
  double channels = size(c, &c->in[1], 0);
  return 2 * elements(c, &c->in[0]) * elements(c, &c->in[1]) / (channels > 0 ? channels : 1);
}

static double work_conv_grad_weight(const call *c) {
  double channels = size(c, &c->out[0], 0);
  return 2 * elements(c, &c->in[1]) * elements(c, &c->out[0]) / (channels > 0 ? channels : 1);
}

static double work_conv_transpose(const call *c) {
  double channels = size(c, &c->in[1], 0);
  return 2 * elements(c, &c->in[0]) * elements(c, &c->in[1]) / (channels > 0 ? channels : 1);
}

/* Two products of queries by keys; k is [B, H, S, D] or [B, S, H, D]. */
static double work_attention(const call *c) {
  const attrs_attention *a = c->attrs;
  double keys = size(c, &c->in[1], a->layout == SN_LAYOUT_BHSD ? -2 : -3);
  return 4 * elements(c, &c->in[0]) * keys;
}

static double work_attention_grad(const call *c) {
  const attrs_attention_grad *a = c->attrs;
  double keys = size(c, &c->in[1], a->layout == SN_LAYOUT_BHSD ? -2 : -3);
  return 10 * elements(c, &c->in[0]) * keys;
}

static double work_pool(const call *c) {
  const attrs_pool *a = c->attrs;
  double n = elements(c, &c->out[0]);
  for (int i = 0; i < a->kernel.n; i++)
    n *= (double)a->kernel.v[i];
  return n;
}

#define LEAF \
  { OP_KIND_LEAF, 0, false, NULL }
#define FILL \
  { OP_KIND_FILL, 0, false, NULL }
#define VIEW \
  { OP_KIND_VIEW, 0, false, NULL }
#define MOVE \
  { OP_KIND_MOVE, 1, false, NULL }
#define UNARY(flops) \
  { OP_KIND_UNARY, flops, false, NULL }
#define BINARY(flops) \
  { OP_KIND_BINARY, flops, false, NULL }
#define COMMUTES(flops) \
  { OP_KIND_BINARY, flops, true, NULL }
#define POINT(flops) \
  { OP_KIND_POINTWISE, flops, false, NULL }
#define STEP(flops) \
  { OP_KIND_OTHER, flops, false, NULL }
#define WORK(function) \
  { OP_KIND_OTHER, 0, false, function }

/* clang-format off */
static const row rows[OP_COUNT] = {
    [OP_input] = LEAF, [OP_state] = LEAF, [OP_constant] = LEAF,
    [OP_full] = FILL, [OP_arange] = FILL, [OP_eye] = FILL,
    [OP_reshape] = VIEW,
    [OP_transpose] = MOVE, [OP_slice] = MOVE, [OP_expand] = MOVE, [OP_tile] = MOVE, [OP_flip] = MOVE,
    [OP_neg] = UNARY(1), [OP_abs] = UNARY(1), [OP_sign] = UNARY(1), [OP_recip] = UNARY(4),
    [OP_sqr] = UNARY(1), [OP_sqrt] = UNARY(4), [OP_rsqrt] = UNARY(4), [OP_exp] = UNARY(8),
    [OP_exp2] = UNARY(8), [OP_expm1] = UNARY(8), [OP_log] = UNARY(8), [OP_log2] = UNARY(8),
    [OP_log1p] = UNARY(8), [OP_sin] = UNARY(12), [OP_cos] = UNARY(12), [OP_tan] = UNARY(16),
    [OP_atan] = UNARY(12), [OP_tanh] = UNARY(12), [OP_sigmoid] = UNARY(10), [OP_softplus] = UNARY(16),
    [OP_erf] = UNARY(16), [OP_relu] = UNARY(1), [OP_elu] = UNARY(8), [OP_leaky_relu] = UNARY(2),
    [OP_silu] = UNARY(11), [OP_gelu] = UNARY(18), [OP_gelu_tanh] = UNARY(18), [OP_mish] = UNARY(24),
    [OP_hardswish] = UNARY(4), [OP_floor] = UNARY(1), [OP_ceil] = UNARY(1), [OP_round] = UNARY(1),
    [OP_isnan] = UNARY(1), [OP_isinf] = UNARY(1), [OP_logical_not] = UNARY(1), [OP_affine] = UNARY(2),
    [OP_powf] = UNARY(16), [OP_clamp] = UNARY(2), [OP_softcap] = UNARY(14), [OP_cast] = UNARY(1),
    [OP_stop_gradient] = POINT(1), [OP_barrier] = POINT(1), [OP_where] = POINT(1),
    [OP_add] = COMMUTES(1), [OP_sub] = BINARY(1), [OP_mul] = COMMUTES(1), [OP_div] = BINARY(4),
    [OP_floor_div] = BINARY(5), [OP_rem] = BINARY(6), [OP_fmod] = BINARY(6), [OP_pow] = BINARY(16),
    [OP_maximum] = COMMUTES(1), [OP_minimum] = COMMUTES(1), [OP_atan2] = BINARY(16),
    [OP_eq] = COMMUTES(1), [OP_ne] = COMMUTES(1), [OP_lt] = BINARY(1), [OP_le] = BINARY(1),
    [OP_gt] = BINARY(1), [OP_ge] = BINARY(1), [OP_logical_and] = COMMUTES(1),
    [OP_logical_or] = COMMUTES(1), [OP_logical_xor] = COMMUTES(1),
    [OP_tril] = POINT(1), [OP_triu] = POINT(1), [OP_one_hot] = POINT(1), [OP_pad] = POINT(1),
    [OP_uniform] = POINT(16), [OP_normal] = POINT(24), [OP_bernoulli] = POINT(16),
    [OP_randint] = POINT(16), [OP_dropout] = POINT(18),
    [OP_softmax] = STEP(12), [OP_log_softmax] = STEP(12), [OP_logsumexp] = STEP(12),
    [OP_cross_entropy] = STEP(12), [OP_cross_entropy_dist] = STEP(12), [OP_layer_norm] = STEP(8),
    [OP_rms_norm] = STEP(4), [OP_group_norm] = STEP(8), [OP_gated_rms_norm] = STEP(16),
    [OP_rope] = STEP(24), [OP_sample] = STEP(40), [OP_sort] = STEP(20), [OP_topk] = STEP(20),
    [OP_matmul] = WORK(work_matmul), [OP_conv] = WORK(work_conv),
    [OP_conv_grad_input] = WORK(work_conv_grad_input),
    [OP_conv_grad_weight] = WORK(work_conv_grad_weight),
    [OP_conv_transpose] = WORK(work_conv_transpose), [OP_attention] = WORK(work_attention),
    [OP_attention_grad] = WORK(work_attention_grad), [OP_pool] = WORK(work_pool),
};
/* clang-format on */

static const row *row_of(int op) {
  static const row unknown = STEP(1);
  return op > 0 && op < OP_COUNT ? &rows[op] : &unknown;
}

op_kind op_kind_of(int op) { return (op_kind)row_of(op)->kind; }
bool op_commutes(int op) { return row_of(op)->commutes; }

void op_cost(const sn_graph *dims, int op, const void *attrs, int n_in, const sn_type *in,
             int n_out, const sn_type *out, double *flops, double *bytes) {
  call c = {dims, attrs, n_in, n_out, in, out};
  const row *r = row_of(op);
  double touched = 0, made = 0;
  *bytes = 0;
  for (int i = 0; i < n_in; i++)
    if (in[i].dtype != SN_NO_DTYPE) {
      touched += elements(&c, &in[i]);
      *bytes += type_bytes(dims, &in[i]);
    }
  for (int k = 0; k < n_out; k++) {
    made += elements(&c, &out[k]);
    *bytes += type_bytes(dims, &out[k]);
  }
  double each = r->flops ? r->flops : 1;
  if (r->kind == OP_KIND_LEAF || r->kind == OP_KIND_FILL || r->kind == OP_KIND_VIEW)
    *flops = 0;
  else if (r->work)
    *flops = r->work(&c);
  else
    *flops = each * (r->kind == OP_KIND_OTHER && touched > made ? touched : made);
}
