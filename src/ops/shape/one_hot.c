/* one_hot: 1 at the index along a new last axis. eye: ones on the diagonal. Both compare positions. */
#include "ops/shape/locate.h"
#include "ops/shape/shape.h"

/* --- one_hot --- */
static sn_status infer_one_hot(infer_ctx *c) {
  const attrs_one_hot *a = ATTRS(one_hot);
  sn_shape shape = c->in[0].shape;
  SN_TRY(infer_dtype(c, 0, SN_I32));
  if (shape.rank == SN_MAX_RANK)
    return infer_fail(c, "its result would have more than %d axes: %s", SN_MAX_RANK,
                      infer_text(c, 0));
  shape.dim[shape.rank++] = a->n;
  c->out[0] = (sn_type){a->dtype, shape};
  return infer_sizes(c, &shape);
}

static sn_status ref_one_hot(ref_ctx *c) {
  int64_t n = c->out[0].dim[c->out[0].rank - 1];
  for (int64_t k = 0; k < c->in[0].count && n > 0; k++) {
    int64_t at;
    SN_TRY(ref_index(c, 0, k, n, &at));
    c->out[0].data[k * n + at] = 1;
  }
  return SN_OK;
}

static void decompose_one_hot(build_ctx *c) {
  sn_graph *g = c->graph;
  sn_shape thin = build_shape(c, c->in[0]);
  thin.dim[thin.rank++] = 1;
  sn_value positions = sn_arange(g, SN_I32, ATTRS(one_hot)->n, 0, 1);
  c->out[0] = sn_cast(g, sn_eq(g, sn_reshape(g, c->in[0], thin), positions), ATTRS(one_hot)->dtype);
}

static uint16_t element_one_hot(elem_ctx *c, const place *at) {
  place index = *at;
  reg chosen = (index.rank--, elem_input(c, 0, &index));
  locate_require_index(c, chosen, ATTRS(one_hot)->n);
  return elem_alu1(c, ALU_cast, elem_bool2(c, ALU_eq, chosen, elem_coord(c, &at->c[index.rank])));
}

static const op_case one_hot_cases[] = {
    {"one_hot(i32[3]{2, 0, 1}) n=3 dtype=f32 => f32[3, 3]{0, 0, 1, 1, 0, 0, 0, 1, 0}", NULL},
    {"one_hot(i32[]{4}) n=5 dtype=i32 => i32[5]{0, 0, 0, 0, 1}", NULL},
    {"one_hot(i32[2, 1]{0, 1}) n=2 dtype=bool => bool[2, 1, 2]{1, 0, 0, 1}", NULL},
    {"one_hot(i32[2]{0, 0}) n=1 dtype=u8 => u8[2, 1]{1, 1}", NULL},
    {"one_hot(i32[2, 5](0, 7)) n=7 dtype=f16", NULL},
    {"one_hot(i32[0]) n=0 dtype=bf16 => bf16[0, 0]{}", NULL},
    {"one_hot(i32[2]{-1, 9}) n=0 dtype=f32 => f32[2, 0]{}", NULL},
    {"one_hot(f32[2]) n=3 dtype=f32", "index must be i32"},
    {"one_hot(i32[2]) n=-3 dtype=f32", "negative"},
    {"one_hot(i32[1, 1, 1, 1, 1, 1, 1, 1]) n=3 dtype=f32", "more than 8 axes"},
};

const op_impl op_impl_one_hot = {.infer = infer_one_hot,
                                 .ref = ref_one_hot,
                                 .no_grad = "its argument is an integer",
                                 .decompose = decompose_one_hot,
                                 .element = element_one_hot,
                                 CASES(one_hot_cases)};

/* --- eye --- */
static sn_status infer_eye(infer_ctx *c) {
  c->out[0] = (sn_type){ATTRS(eye)->dtype, SN_SHAPE(ATTRS(eye)->n, ATTRS(eye)->m)};
  return infer_sizes(c, &c->out[0].shape);
}

static sn_status ref_eye(ref_ctx *c) {
  int64_t rows = c->out[0].dim[0], columns = c->out[0].dim[1];
  for (int64_t i = 0; i < rows && i < columns; i++)
    c->out[0].data[i * columns + i] = 1;
  return SN_OK;
}

static void decompose_eye(build_ctx *c) {
  const attrs_eye *a = ATTRS(eye);
  sn_graph *g = c->graph;
  sn_value i = sn_reshape(g, sn_arange(g, SN_I32, a->n, 0, 1), SN_SHAPE(a->n, 1));
  c->out[0] = sn_cast(g, sn_eq(g, i, sn_arange(g, SN_I32, a->m, 0, 1)), a->dtype);
}

static uint16_t element_eye(elem_ctx *c, const place *at) {
  reg row = elem_coord(c, &at->c[0]), column = elem_coord(c, &at->c[1]);
  return elem_alu1(c, ALU_cast, elem_bool2(c, ALU_eq, row, column));
}

static const op_case eye_cases[] = {
    {"eye() dtype=f32 n=3 m=3 => f32[3, 3]{1, 0, 0, 0, 1, 0, 0, 0, 1}", NULL},
    {"eye() dtype=i32 n=2 m=3 => i32[2, 3]{1, 0, 0, 0, 1, 0}", NULL},
    {"eye() dtype=u8 n=3 m=2 => u8[3, 2]{1, 0, 0, 1, 0, 0}", NULL},
    {"eye() dtype=bool n=1 m=2 => bool[1, 2]{1, 0}", NULL},
    {"eye() dtype=f16 n=0 m=5 => f16[0, 5]{}", NULL},
    {"eye() dtype=bf16 n=1 m=1 => bf16[1, 1]{1}", NULL},
    {"eye() dtype=f32 n=-1 m=2", "negative"},
    {"eye() dtype=f32 n=2 m=-2", "negative"},
};

const op_impl op_impl_eye = {.infer = infer_eye,
                             .ref = ref_eye,
                             .no_grad = "it has no arguments",
                             .decompose = decompose_eye,
                             .element = element_eye,
                             CASES(eye_cases)};
