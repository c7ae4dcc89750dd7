/* matmul: [.., M, K] x [.., K, N], leading axes broadcast, either operand transposed. Operands of one
 * float dtype; the result has it too; sums are f32 or better. */
#include "ops/common.h"
#include "ops/shape/locate.h"
#include "ops/vectors.h"

static sn_status infer_matmul(infer_ctx *c) {
  const attrs_matmul *at = ATTRS(matmul);
  sn_shape a = c->in[0].shape, b = c->in[1].shape;
  SN_TRY(infer_float(c, 0));
  SN_TRY(infer_same_dtype(c, 0, 1));
  if (a.rank < 2 || b.rank < 2)
    return infer_fail(c, "both sides must have rank 2 or more: a is %s, b is %s",
                      graph_shape_text(c->graph, a), graph_shape_text(c->graph, b));
  sn_dim m = a.dim[a.rank - 2 + at->trans_a], k = a.dim[a.rank - 1 - at->trans_a];
  sn_dim l = b.dim[b.rank - 2 + at->trans_b], n = b.dim[b.rank - 1 - at->trans_b];
  if (k != l)
    return infer_fail(c, "inner sizes differ: a is %s%s, b is %s%s", graph_shape_text(c->graph, a),
                      at->trans_a ? " transposed" : "", graph_shape_text(c->graph, b),
                      at->trans_b ? " transposed" : "");
  a.rank -= 2;
  b.rank -= 2;
  sn_shape *y = &c->out[0].shape;
  SN_TRY(infer_broadcast(c, a, b, y));
  c->out[0].dtype = c->in[0].dtype;
  y->dim[y->rank++] = m;
  y->dim[y->rank++] = n;
  return SN_OK;
}

/* y[m, n] += a(m, k) * b(k, n). Each element is one sum in the order of k, so the result does not depend
 * on how wide the machine is; four rows of b at a time, only so that y is not loaded and stored for
 * each of them. */
VECTORS static void multiply(const double *a, int64_t am, int64_t ak, const double *restrict b,
                             double *restrict y, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; i++, y += n) {
    const double *x = a + i * am;
    int64_t l = 0;
    for (; l + 4 <= k; l += 4) {
      double x0 = x[l * ak], x1 = x[(l + 1) * ak], x2 = x[(l + 2) * ak], x3 = x[(l + 3) * ak];
      const double *b0 = b + l * n, *b1 = b0 + n, *b2 = b1 + n, *b3 = b2 + n;
      for (int64_t j = 0; j < n; j++)
        y[j] = y[j] + x0 * b0[j] + x1 * b1[j] + x2 * b2[j] + x3 * b3[j];
    }
    for (; l < k; l++)
      for (int64_t j = 0; j < n; j++)
        y[j] += x[l * ak] * b[l * n + j];
  }
}

static const double *untransposed(ref_ctx *c, const double *b, int64_t k, int64_t n, double *copy) {
  if (!ATTRS(matmul)->trans_b)
    return b;
  for (int64_t l = 0; l < k; l++)
    for (int64_t j = 0; j < n; j++)
      copy[l * n + j] = b[j * k + l];
  return copy;
}

static sn_status ref_matmul(ref_ctx *c) {
  const attrs_matmul *at = ATTRS(matmul);
  ref_tensor a = c->in[0], b = c->in[1], *y = &c->out[0];
  int64_t m = y->dim[y->rank - 2], n = y->dim[y->rank - 1];
  int64_t k = a.dim[a.rank - 1 - at->trans_a];
  double *copy = arena_array(c->scratch, (size_t)(k * n), sizeof *copy);
  if (!copy)
    return SN_ERR_NO_MEMORY;
  a.rank -= 2;
  b.rank -= 2;
  int64_t index[SN_MAX_RANK] = {0}, batches = 1;
  for (int d = 0; d < y->rank - 2; d++)
    batches *= y->dim[d];
  for (int64_t i = 0; i < batches; i++) {
    const double *pa = a.data + ref_broadcast_offset(&a, index, y->rank - 2) * m * k;
    const double *pb = b.data + ref_broadcast_offset(&b, index, y->rank - 2) * k * n;
    multiply(pa, at->trans_a ? 1 : k, at->trans_a ? m : 1, untransposed(c, pb, k, n, copy),
             y->data + i * m * n, m, n, k);
    ref_next(index, y->dim, y->rank - 2);
  }
  return SN_OK;
}

/* With A' = a or its transpose: dA' = dy·B'ᵀ, dB' = A'ᵀ·dy; a transposed operand's gradient comes
 * out transposed by swapping the factors. */
static void grad_matmul(build_ctx *c) {
  const attrs_matmul *at = ATTRS(matmul);
  sn_value a = c->in[0], b = c->in[1], dy = c->dout[0];
  if (c->need[0])
    build_din(c, 0,
              at->trans_a ? sn_matmul(c->graph, b, dy, at->trans_b, true)
                          : sn_matmul(c->graph, dy, b, false, !at->trans_b));
  if (c->need[1])
    build_din(c, 1,
              at->trans_b ? sn_matmul(c->graph, dy, a, true, at->trans_a)
                          : sn_matmul(c->graph, a, dy, !at->trans_a, false));
}

/* The matrices of operand i: its batch axes broadcast, then row and column. */
static reg factor(elem_ctx *c, int i, const place *at, const coord *row, const coord *column) {
  sn_shape shape = c->in[i].shape;
  place x = locate_start(at, shape.rank);
  int skipped = at->rank - shape.rank;
  for (int d = 0; d < shape.rank - 2; d++)
    x.c[d] = shape.dim[d] == 1 ? coord_number(0) : at->c[skipped + d];
  x.c[shape.rank - 2] = *row;
  x.c[shape.rank - 1] = *column;
  return elem_wide(c, elem_input(c, i, &x), c->in[i].dtype);
}

static uint16_t element_matmul(elem_ctx *c, const place *at) {
  const attrs_matmul *a = ATTRS(matmul);
  sn_shape shape = c->in[0].shape;
  const coord *m = &at->c[at->rank - 2], *n = &at->c[at->rank - 1];
  coord k;
  elem_axes(c, 1, &shape.dim[shape.rank - 1 - a->trans_a], &k);
  reg left = a->trans_a ? factor(c, 0, at, &k, m) : factor(c, 0, at, m, &k);
  reg right = a->trans_b ? factor(c, 1, at, n, &k) : factor(c, 1, at, &k, n);
  reg body = elem_alu_as(c, ALU_mul, SN_F32, left, right, 0, 0, 0);
  return elem_narrow(c, elem_reduce(c, REDUCE_SUM, SN_F32, body));
}

static const op_case cases[] = {
    {"matmul(f32[2, 3], f32[3, 5])", NULL},
    {"matmul(f32[3, 2], f32[3, 5]) trans_a=true", NULL},
    {"matmul(f32[2, 3], f32[5, 3]) trans_b=true", NULL},
    {"matmul(f32[3, 2], f32[5, 3]) trans_a=true trans_b=true", NULL},
    {"matmul(f32[7, 2, 3], f32[3, 5])", NULL},
    {"matmul(f32[2, 1, 2, 3], f32[3, 5, 3]) trans_b=true", NULL},
    {"matmul(f32[3, 2], f32[2, 3, 5]) trans_a=true", NULL},
    {"matmul(f32[2, 2]{1, 2, 3, 4}, f32[2, 1]{5, 6}) => f32[2, 1]{17, 39}", NULL},
    {"matmul(f32[2, 2]{1, 2, 3, 4}, f32[1, 2]{5, 6}) trans_a=true trans_b=true => f32[2, 1]{23, "
     "34}",
     NULL},
    {"matmul(f32[0, 3], f32[3, 5])", NULL},
    {"matmul(f32[2, 0], f32[0, 5])", NULL},
    {"matmul(f32[1, 1], f32[1, 1])", NULL},
    {"matmul(bf16[2, 3], bf16[3, 5])", NULL},
    {"matmul(f16[2, 3], f16[3, 5])", NULL},
    {"matmul(f32[32, 784], f32[128, 10])", "inner sizes differ: a is [32, 784], b is [128, 10]"},
    {"matmul(f32[3], f32[3, 2])", "rank 2 or more"},
    {"matmul(f32[2, 3], f16[3, 2])", "dtypes differ"},
    {"matmul(i32[2, 3], i32[3, 2])", "must be f32"},
    {"matmul(f32[2, 2, 3], f32[5, 3, 2])", "do not broadcast"},
};

const op_impl op_impl_matmul = {.infer = infer_matmul,
                                .ref = ref_matmul,
                                .grad = grad_matmul,
                                .element = element_matmul,
                                CASES(cases)};
