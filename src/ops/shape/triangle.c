/* tril, triu: the lower or upper triangle of the last two axes, zero elsewhere. */
#include "ops/shape/shape.h"

static sn_status infer_triangle(infer_ctx *c) {
  c->out[0] = c->in[0];
  if (c->in[0].shape.rank < 2)
    return infer_fail(c, "x must have rank 2 or more, got %s", infer_text(c, 0));
  return SN_OK;
}

/* Keeps j <= i + diagonal (lower) or j >= i + diagonal; j - i cannot overflow, the sum could. */
static sn_status ref_triangle(ref_ctx *c, int64_t diagonal, bool lower) {
  const ref_tensor *x = &c->in[0];
  int64_t rows = x->dim[x->rank - 2], columns = x->dim[x->rank - 1];
  for (int64_t k = 0; k < x->count; k++) {
    int64_t i = k / columns % rows, j = k % columns;
    if (lower ? j - i <= diagonal : j - i >= diagonal)
      c->out[0].data[k] = x->data[k];
  }
  return SN_OK;
}

/* where(i + diagonal >= j, x, 0), or <=; a diagonal outside of every matrix is brought near it. */
static void decompose_triangle(build_ctx *c, int64_t diagonal, bool lower) {
  sn_graph *g = c->graph;
  sn_shape x = build_shape(c, c->in[0]);
  int64_t most = INT32_MAX / 2;
  double start = (double)max_i64(min_i64(diagonal, most), -most);
  sn_dim rows = x.dim[x.rank - 2], columns = x.dim[x.rank - 1];
  sn_value i = sn_reshape(g, sn_arange(g, SN_I32, rows, start, 1), SN_SHAPE(rows, 1));
  sn_value j = sn_arange(g, SN_I32, columns, 0, 1);
  sn_value keep = lower ? sn_ge(g, i, j) : sn_le(g, i, j);
  c->out[0] = sn_where(g, keep, c->in[0], build_full_like(c, c->in[0], 0));
}

/* --- tril --- */
static sn_status ref_tril(ref_ctx *c) { return ref_triangle(c, ATTRS(tril)->diagonal, true); }
static void grad_tril(build_ctx *c) {
  build_din(c, 0, sn_tril(c->graph, c->dout[0], ATTRS(tril)->diagonal));
}
static void decompose_tril(build_ctx *c) { decompose_triangle(c, ATTRS(tril)->diagonal, true); }

#define NINE "{1, 2, 3, 4, 5, 6, 7, 8, 9}"

static const op_case tril_cases[] = {
    {"tril(f32[3, 5]) diagonal=0", NULL},
    {"tril(f32[2, 5, 3]) diagonal=-1", NULL},
    {"tril(f32[0, 3]) diagonal=1", NULL},
    {"tril(f32[3, 0]) diagonal=0", NULL},
    {"tril(bf16[1, 3]) diagonal=1", NULL},
    {"tril(i32[3, 3]" NINE ") diagonal=0 => i32[3, 3]{1, 0, 0, 4, 5, 0, 7, 8, 9}", NULL},
    {"tril(i32[3, 3]" NINE ") diagonal=1 => i32[3, 3]{1, 2, 0, 4, 5, 6, 7, 8, 9}", NULL},
    {"tril(u8[3, 3]" NINE ") diagonal=-2 => u8[3, 3]{0, 0, 0, 0, 0, 0, 7, 0, 0}", NULL},
    {"tril(i32[2, 2]{1, 2, 3, 4}) diagonal=9223372036854775807 => i32[2, 2]{1, 2, 3, 4}", NULL},
    {"tril(i32[2, 2]{1, 2, 3, 4}) diagonal=-9223372036854775807 => i32[2, 2]{0}", NULL},
    {"tril(f16[2, 2]{nan, nan, inf, 1}) diagonal=0 => f16[2, 2]{nan, 0, inf, 1}", NULL},
    {"tril(bool[2, 2]{1, 1, 1, 1}) diagonal=0 => bool[2, 2]{1, 0, 1, 1}", NULL},
    {"tril(f32[3]) diagonal=0", "rank 2 or more"},
};

const op_impl op_impl_tril = {.infer = infer_triangle,
                              .ref = ref_tril,
                              .grad = grad_tril,
                              .decompose = decompose_tril,
                              CASES(tril_cases)};

/* --- triu --- */
static sn_status ref_triu(ref_ctx *c) { return ref_triangle(c, ATTRS(triu)->diagonal, false); }
static void grad_triu(build_ctx *c) {
  build_din(c, 0, sn_triu(c->graph, c->dout[0], ATTRS(triu)->diagonal));
}
static void decompose_triu(build_ctx *c) { decompose_triangle(c, ATTRS(triu)->diagonal, false); }

static const op_case triu_cases[] = {
    {"triu(f32[3, 5]) diagonal=0", NULL},
    {"triu(f32[2, 5, 3]) diagonal=1", NULL},
    {"triu(f32[0, 3]) diagonal=-1", NULL},
    {"triu(f32[3, 0]) diagonal=0", NULL},
    {"triu(bf16[1, 3]) diagonal=-1", NULL},
    {"triu(i32[3, 3]" NINE ") diagonal=0 => i32[3, 3]{1, 2, 3, 0, 5, 6, 0, 0, 9}", NULL},
    {"triu(i32[3, 3]" NINE ") diagonal=-1 => i32[3, 3]{1, 2, 3, 4, 5, 6, 0, 8, 9}", NULL},
    {"triu(u8[3, 3]" NINE ") diagonal=2 => u8[3, 3]{0, 0, 3, 0, 0, 0, 0, 0, 0}", NULL},
    {"triu(i32[2, 2]{1, 2, 3, 4}) diagonal=-9223372036854775807 => i32[2, 2]{1, 2, 3, 4}", NULL},
    {"triu(i32[2, 2]{1, 2, 3, 4}) diagonal=9223372036854775807 => i32[2, 2]{0}", NULL},
    {"triu(f16[2, 2]{nan, inf, nan, 1}) diagonal=0 => f16[2, 2]{nan, inf, 0, 1}", NULL},
    {"triu(bool[2, 2]{1, 1, 1, 1}) diagonal=1 => bool[2, 2]{0, 1, 0, 0}", NULL},
    {"triu(f32[]) diagonal=0", "rank 2 or more"},
};

const op_impl op_impl_triu = {.infer = infer_triangle,
                              .ref = ref_triu,
                              .grad = grad_triu,
                              .decompose = decompose_triu,
                              CASES(triu_cases)};
