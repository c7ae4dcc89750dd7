/* rope: turns pairs of the first `dims` elements of the last axis by an angle that grows with the
 * position; the elements behind pass unchanged. Pair i is (i, i + dims/2) in the half layout and
 * (2i, 2i + 1) in the interleaved one:
 *   y_a = m * (x_a cos - x_b sin),   y_b = m * (x_b cos + x_a sin)
 * Frequencies and the magnitude m: rope.h. inverse turns back and is the adjoint, so it multiplies
 * by m too: the gradient of rope is rope with inverse flipped.
 *
 * Positions run along seq_axis of x: i32 [S], or [B, S] where each entry of x's axis 0 has its
 * own; they may be any numbers in any order, negative too. */
#include "ops/attention/rope.h"

/* --- infer --- */

static sn_status check_scaling(infer_ctx *c, const attrs_rope *a) {
  bool limits = a->scaling == SN_ROPE_LLAMA3 || a->scaling == SN_ROPE_YARN;
  if (!(isfinite(a->base) && a->base > 0))
    return infer_fail(c, "base must be above 0, got %g", a->base);
  if (!(isfinite(a->attention_factor) && a->attention_factor >= 0))
    return infer_fail(c, "attention_factor must be above 0, or 0 for its default, got %g",
                      a->attention_factor);
  if (!dtype_is_float(a->rounding))
    return infer_fail(c, "frequencies round to f32, f16 or bf16, not %s",
                      sn_dtype_name(a->rounding));
  if (a->scaling == SN_ROPE_DYNAMIC && a->rounding != SN_F32)
    return infer_fail(c, "dynamic scaling computes its frequencies in each run and keeps them f32");
  if (a->scaling == SN_ROPE_DEFAULT)
    return SN_OK;
  if (!(isfinite(a->factor) && a->factor > 0))
    return infer_fail(c, "factor must be above 0, got %g", a->factor);
  if (a->scaling != SN_ROPE_LINEAR && (a->original_length <= 0 || a->original_length > INT32_MAX))
    return infer_fail(c, "original_length must lie in 1 … 2^31-1, got %lld",
                      (long long)a->original_length);
  if (limits && !(a->low > 0 && a->high > a->low && isfinite(a->high)))
    return infer_fail(c, "expected 0 < low < high, got low %g and high %g", a->low, a->high);
  if (a->scaling == SN_ROPE_YARN && !(a->base > 1))
    return infer_fail(c, "yarn needs a base above 1, got %g", a->base);
  if (a->scaling == SN_ROPE_DYNAMIC && a->dims == 2)
    return infer_fail(c, "dynamic scaling needs dims above 2");
  return SN_OK;
}

static sn_status check_positions(infer_ctx *c, int axis) {
  sn_shape x = c->in[0].shape, p = c->in[1].shape;
  SN_TRY(infer_dtype(c, 1, SN_I32));
  if (p.rank == 2 && axis == 0)
    return infer_fail(c, "positions must have rank 1 when they run along axis 0, got %s",
                      infer_text(c, 1));
  if (p.rank == 2)
    return infer_shape(c, 1, SN_SHAPE(x.dim[0], x.dim[axis]), "one position a batch entry and row");
  return infer_shape(c, 1, SN_SHAPE(x.dim[axis]), "one position a row");
}

static sn_status infer_rope(infer_ctx *c) {
  const attrs_rope *a = ATTRS(rope);
  sn_shape x = c->in[0].shape;
  int axis;
  SN_TRY(infer_float(c, 0));
  if (x.rank < 2)
    return infer_fail(c, "x must have rank 2 or more, got %s", infer_text(c, 0));
  SN_TRY(infer_axis(c, a->seq_axis, x.rank, &axis));
  if (axis == x.rank - 1)
    return infer_fail(c, "positions cannot run along the last axis, which is turned");
  sn_dim width = x.dim[x.rank - 1];
  if (!dim_is_number(width))
    return infer_fail(c, "the last axis of x must be a plain number, got %s", infer_text(c, 0));
  if (a->dims <= 0 || a->dims % 2 != 0 || a->dims > width)
    return infer_fail(c, "dims must be even, above 0 and at most %lld, got %lld", (long long)width,
                      (long long)a->dims);
  SN_TRY(check_scaling(c, a));
  SN_TRY(check_positions(c, axis));
  c->out[0] = c->in[0];
  return SN_OK;
}

/* --- ref --- */

static double highest(const ref_tensor *positions) {
  double last = -1;
  for (int64_t i = 0; i < positions->count; i++)
    last = fmax(last, positions->data[i]);
  return last;
}

static void turn_row(const attrs_rope *a, const double *frequency, double position, const double *x,
                     double *y) {
  double m = rope_magnitude(a);
  for (int64_t i = 0; i < a->dims / 2; i++) {
    int64_t p = a->layout == SN_ROPE_HALF ? i : 2 * i;
    int64_t q = a->layout == SN_ROPE_HALF ? i + a->dims / 2 : 2 * i + 1;
    double angle = position * frequency[i] * (a->inverse ? -1 : 1);
    y[p] = m * (x[p] * cos(angle) - x[q] * sin(angle));
    y[q] = m * (x[q] * cos(angle) + x[p] * sin(angle));
  }
}

static sn_status ref_rope(ref_ctx *c) {
  const attrs_rope *a = ATTRS(rope);
  const ref_tensor *x = &c->in[0], *positions = &c->in[1];
  int rows = x->rank - 1, axis = resolve_axis(a->seq_axis, x->rank);
  int64_t width = x->dim[rows], index[SN_MAX_RANK] = {0};
  double *frequency = arena_array(c->scratch, (size_t)(a->dims / 2), sizeof *frequency);
  if (!frequency)
    return SN_ERR_NO_MEMORY;
  for (int64_t i = 0; i < a->dims / 2; i++)
    frequency[i] = rope_frequency(a, i, highest(positions));
  memcpy(c->out[0].data, x->data, (size_t)x->count * sizeof(double));
  for (int64_t at = 0; at < x->count; at += width) {
    int64_t batch = positions->rank == 2 ? index[0] : 0;
    double position = positions->data[batch * x->dim[axis] + index[axis]];
    turn_row(a, frequency, position, x->data + at, c->out[0].data + at);
    ref_next(index, x->dim, rows);
  }
  return SN_OK;
}

static void grad_rope(build_ctx *c) {
  const attrs_rope *a = ATTRS(rope);
  build_din(c, 0,
            sn_rope(c->graph, c->dout[0], c->in[1], a->seq_axis, a->dims, a->base, a->layout,
                    a->scaling, a->factor, a->low, a->high, a->original_length, a->attention_factor,
                    !a->inverse, a->rounding));
}

static const op_case cases[] = {
    {"rope(f32[5, 4], i32[5](0, 9)) seq_axis=0 dims=4 base=100", NULL},
    {"rope(f32[3, 7], i32[3](0, 9)) seq_axis=0 dims=4 base=100", NULL},
    {"rope(f32[2, 3, 2, 4], i32[3](0, 9)) seq_axis=1 dims=4 base=100 layout=interleaved", NULL},
    {"rope(f32[2, 2, 3, 6], i32[2, 3](0, 9)) seq_axis=-2 dims=4 base=10 layout=interleaved "
     "inverse=true",
     NULL},
    {"rope(f32[2, 3, 2, 6], i32[2, 3](-9, 9)) seq_axis=1 dims=6 base=10 attention_factor=1.5",
     NULL},
    {"rope(f32[1, 4]{0, 1, 0, 0}, i32[1]{10}) seq_axis=0 dims=4 base=10 rounding=bf16 => "
     "f32[1, 4]{0, -0.999747564, 0, -0.0224679556}",
     NULL},
    {"rope(f32[2, 4], i32[2](0, 9)) seq_axis=0 dims=4 base=10 rounding=f16", NULL},
    {"rope(f32[2, 4], i32[2](0, 9)) seq_axis=0 dims=4 base=10 rounding=i32", "not i32"},
    {"rope(f32[2, 4], i32[2](0, 9)) seq_axis=0 dims=4 base=10 scaling=dynamic factor=2 "
     "original_length=10 rounding=bf16",
     "keeps them f32"},
    {"rope(f32[3, 8], i32[3](0, 20)) seq_axis=0 dims=8 base=100 scaling=linear factor=4", NULL},
    {"rope(f32[3, 8], i32[3]{3, 25, 17}) seq_axis=0 dims=6 base=100 scaling=dynamic factor=2 "
     "original_length=10",
     NULL},
    {"rope(f32[3, 8], i32[3]{3, 8, 9}) seq_axis=0 dims=6 base=100 scaling=dynamic factor=2 "
     "original_length=10 layout=interleaved inverse=true",
     NULL},
    {"rope(f32[3, 12], i32[3](0, 20)) seq_axis=0 dims=12 base=1000 scaling=llama3 factor=8 low=1 "
     "high=4 original_length=64",
     NULL},
    {"rope(f32[3, 12], i32[3](0, 20)) seq_axis=0 dims=12 base=1000 scaling=yarn factor=4 low=1 "
     "high=8 original_length=128 inverse=true",
     NULL},
    {"rope(f32[3, 12], i32[3](0, 20)) seq_axis=0 dims=10 base=1000 scaling=yarn factor=4 low=2 "
     "high=32 original_length=256 attention_factor=0.5",
     NULL},
    {"rope(bf16[3, 4], i32[3](0, 9)) seq_axis=0 dims=2 base=100", NULL},
    {"rope(f16[1, 3, 4], i32[3](0, 9)) seq_axis=1 dims=4 base=100 layout=interleaved", NULL},
    {"rope(f32[0, 4], i32[0]) seq_axis=0 dims=4 base=100 scaling=dynamic factor=2 "
     "original_length=10",
     NULL},
    {"rope(f32[0, 3, 4], i32[0, 3]) seq_axis=1 dims=4 base=100", NULL},
    {"rope(f32[2, 0, 4], i32[2, 0]) seq_axis=1 dims=4 base=100 layout=interleaved", NULL},
    /* By hand: position 0 is the identity; base 1 turns every pair by one radian a step. */
    {"rope(f32[1, 5]{1, 2, 3, 5, 7}, i32[1]{0}) seq_axis=0 dims=4 base=10000 => f32[1, 5]{1, 2, 3, "
     "5, 7}",
     NULL},
    {"rope(f32[1, 5]{1, 2, 3, 5, 7}, i32[1]{1}) seq_axis=0 dims=4 base=1 => f32[1, 5]{-1.98411065, "
     "-3.12675031, 2.46237790, 4.38445350, 7}",
     NULL},
    {"rope(f32[1, 5]{1, 2, 3, 5, 7}, i32[1]{1}) seq_axis=0 dims=4 base=1 layout=interleaved => "
     "f32[1, 5]{-1.14263966, 1.92207560, -2.58644801, 5.22592450, 7}",
     NULL},
    /* Numbers computed apart, from the published formulas with complex numbers. */
    {"rope(f32[2, 2, 4]{-1.25, -1.25, 2, -1.5, -1.5, -1.25, -0.25, 1, -1.25, 0.25, 1.5, 1.5, -0.5, "
     "-0.25, -1.25, 1.5}, i32[2]{3, 100}) seq_axis=1 dims=4 base=10000 => f32[2, 2, "
     "4]{0.955250605, -1.20444429, -2.156385, -1.53681943, -1.42006972, -1.51684887, 0.543968744, "
     "-0.511536425, 1.02581061, 0.204894258, -1.66138875, 1.50682393, -1.06411649, -1.39728205, "
     "-0.82471577, 0.600085713}",
     NULL},
    {"rope(f32[2, 2, 6]{-0.75, -1.75, -1.25, 0.25, 1.5, -2, 0, -0.25, 0.5, -1.75, 0.25, -1.75, "
     "0.25, -0.75, 2, -1.5, -0.25, -2, 1, 0.5, 0, -0.75, 1.5, 0.5}, i32[2]{3, 7}) seq_axis=0 "
     "dims=4 base=50 layout=interleaved => f32[2, 2, 6]{0.989454387, 1.62664686, -1.24208996, "
     "-0.286727279, 1.5, -2, 0.035280002, 0.247498124, 1.17605883, -1.38902327, 0.25, -1.75, "
     "0.681215513, -0.401180041, 2.35146157, 0.848898404, -0.25, -2, 0.425408955, 1.03393773, "
     "0.626998699, -0.411549063, 1.5, 0.5}",
     NULL},
    {"rope(f32[2, 2, 4]{-2, 1.75, -2, 1.75, -2, 1, 0.75, -0.5, 1.5, -2, -1.75, 0.75, -0.25, 0.25, "
     "-1.5, -1.5}, i32[2, 2]{1, 2, 5, 3}) seq_axis=1 dims=4 base=100 inverse=true => f32[2, 2, "
     "4]{-2.76354658, 1.91596577, 0.602337358, 1.56654881, 1.51426674, 0.880731912, 1.50648473, "
     "-0.68870262, 2.10361076, -1.39559597, 0.941977587, 1.617038, 0.0358181121, -0.204446188, "
     "1.52026875, -1.50688479}",
     NULL},
    {"rope(f32[2, 2, 2]{0.5, 1, 1.75, -1.5, 1.75, 2, -0.25, -1}, i32[2]{-3, 5}) seq_axis=-2 dims=2 "
     "base=100 attention_factor=2 inverse=true => f32[2, 2, 2]{-1.27223251, -1.83886499, "
     "3.86959047, 2.5052484, -4.02945377, -3.46604996, 1.77601746, -1.04678651}",
     NULL},
    {"rope(f32[2, 6]{-0.75, 1.75, 0.25, 0.25, -1.25, -1, -1, 1, -1, 2, 1.75, -0.25}, i32[2]{3, 7}) "
     "seq_axis=0 dims=6 base=100 scaling=linear factor=4 => f32[2, 6]{-0.719176342, 1.92830483, "
     "0.284653417, -0.328306853, -0.952176698, -0.990692905, -1.78972584, 0.28548878, "
     "-0.976418208, -1.34047806, 1.99524338, -0.33031422}",
     NULL},
    {"rope(f32[2, 6]{-2, 0.75, 1, -0.75, -0.5, 0, -1, 0, -1.5, -0.75, 0, 0.75}, i32[2]{3, 23}) "
     "seq_axis=0 dims=6 base=100 scaling=dynamic factor=3 original_length=16 => f32[2, "
     "6]{2.085825, 0.88694914, 0.998449208, 0.460254356, -0.160689834, 0.0556702705, -0.101832283, "
     "0, -1.67592654, 1.24584517, 0, 0.0614022889}",
     NULL},
    {"rope(f32[2, 6]{-1.5, 2, -1, 0.75, -1.75, 0.5, 1.25, -1.75, -0.5, -0.75, -1, -1.75}, "
     "i32[2]{15, 3}) seq_axis=0 dims=6 base=100 scaling=dynamic factor=3 original_length=16 => "
     "f32[2, 6]{0.651815989, -2.14928575, -1.08792813, -1.54519769, 1.56303256, -0.257705995, "
     "-1.13165061, -0.794762603, -0.252263673, 0.918894383, -1.85225603, -1.80246027}",
     NULL},
    {"rope(f32[2, 6]{0.25, 1.75, -1, -1, 0, 1, 1.5, -2, 0.25, -0.25, -1.5, 1.25}, i32[2]{16, 3}) "
     "seq_axis=0 dims=6 base=100 scaling=dynamic factor=3 original_length=16 => f32[2, "
     "6]{-0.527318187, -1.74958878, -1.39614905, 0.885683651, -0.037935498, 0.225317147, "
     "-1.44970874, -0.819990763, 0.102042384, 0.459178136, -2.36169751, 1.27066414}",
     NULL},
    {"rope(f32[1, 12]{1.75, -1.5, 0, 0.5, -2, -0.25, -1.25, 1.75, -0.25, -1.25, 0, -0.75}, "
     "i32[1]{50}) seq_axis=0 dims=12 base=500 scaling=llama3 factor=8 low=1 high=4 "
     "original_length=128 => f32[1, 12]{1.36072198, 0.883206972, -0.12518872, 0.825449643, "
     "-1.99016494, -0.223438557, -1.66536353, 2.12895407, 0.216397284, -1.06354731, -0.198099771, "
     "-0.758337136}",
     NULL},
    {"rope(f32[1, 16]{-0.75, 1.25, -2, 1.5, 0.75, 1.5, -2, 1.75, -0.75, 1.75, 0.75, -1.75, -0.25, "
     "1.25, 1.5, 1.75}, i32[1]{1000}) seq_axis=0 dims=16 base=500000 scaling=llama3 factor=32 "
     "low=1 high=4 original_length=8192 layout=interleaved => f32[1, 16]{-1.45538373, 0.08281419, "
     "-0.17808765, 2.49364889, 0.886173165, 1.42379673, -2.54607397, -0.76158212, -1.41068165, "
     "1.2786623, 0.76497022, -1.74350812, -0.252077113, 1.24958278, 1.49943591, 1.75048335}",
     NULL},
    {"rope(f32[1, 16]{-0.5, -1.75, -1, 1.25, 1.5, -0.25, 2, 1.75, 1.75, 0.75, -0.25, -1, 0.75, "
     "-0.75, -1.25, -0.75}, i32[1]{60}) seq_axis=0 dims=16 base=10000 scaling=yarn factor=4 low=1 "
     "high=32 original_length=2048 => f32[1, 16]{1.14958883, -2.08298951, -1.17281583, 1.17967862, "
     "1.27646854, -0.212870529, 2.29835119, 1.99662983, -1.72424637, 0.600736056, 0.0448311731, "
     "1.38945336, 1.42020055, -0.874633785, -1.38896908, -0.844510766}",
     NULL},
    {"rope(f32[1, 8]{-0.75, 0.75, -1.25, -1.5, 2, -0.25, 0.75, -2}, i32[1]{60}) seq_axis=0 dims=8 "
     "base=150 scaling=yarn factor=16 low=1 high=4 original_length=64 attention_factor=1 => f32[1, "
     "8]{1.32393098, -0.634849461, -1.41793091, -1.31950405, -1.676218, 0.471132849, 0.338337009, "
     "-2.12341919}",
     NULL},
    {"rope(f32[1, 8]{1.25, 0.5, -0.5, -1.75, 0.25, -1, 1.75, -2}, i32[1]{6}) seq_axis=0 dims=8 "
     "base=10000 scaling=yarn factor=0.5 low=1 high=32 original_length=4 => f32[1, 8]{1.27006673, "
     "1.11321796, -0.705900681, -1.72587458, -0.109226801, 0.103661789, 1.67755901, -2.0208555}",
     NULL},
    {"rope(f32[1, 8]{0.75, -0.25, -2, -2, 0.25, 1.75, 1, 1.75}, i32[1]{60}) seq_axis=0 dims=4 "
     "base=100 scaling=yarn factor=40 low=10 high=16 original_length=400 => f32[1, 8]{-1.81231316, "
     "0.0707489139, 2.29455461, -2.75817463, 0.25, 1.75, 1, 1.75}",
     NULL},
    {"rope(f32[1, 8]{-0.25, 1.5, 1.75, -1.25, 1.5, -1, 0.75, 1.5}, i32[1]{60}) seq_axis=0 dims=8 "
     "base=100 scaling=yarn factor=4 low=1 high=32 original_length=2048 => f32[1, 8]{0.791710882, "
     "1.83575988, 2.1518498, -1.74875088, -1.5399016, -0.918442106, 0.26319487, -1.37283972}",
     NULL},
    {"rope(f32[1, 4]{-1, 2, 0, -2}, i32[1]{60}) seq_axis=0 dims=4 base=10 scaling=yarn factor=4 "
     "low=1 high=10000 original_length=100000 => f32[1, 4]{1.08444545, 2.05573345, 0.347066346, "
     "2.47906755}",
     NULL},
    {"rope(f32[4], i32[4]) seq_axis=0 dims=4 base=100", "rank 2 or more"},
    {"rope(i32[2, 4], i32[2]) seq_axis=0 dims=4 base=100", "must be f32"},
    {"rope(f32[2, 4], i32[2]) seq_axis=2 dims=4 base=100", "outside of rank"},
    {"rope(f32[2, 4], i32[4]) seq_axis=-1 dims=4 base=100", "cannot run along the last axis"},
    {"rope(f32[2, 4], i32[2]) seq_axis=0 dims=3 base=100",
     "dims must be even, above 0 and at most 4, got 3"},
    {"rope(f32[2, 4], i32[2]) seq_axis=0 dims=6 base=100", "at most 4, got 6"},
    {"rope(f32[2, 4], i32[2]) seq_axis=0 dims=0 base=100", "above 0"},
    {"rope(f32[2, 4], i32[2]) seq_axis=0 dims=4 base=0", "base must be above 0"},
    {"rope(f32[2, 4], i32[2]) seq_axis=0 dims=4 base=100 attention_factor=-1",
     "attention_factor must be"},
    {"rope(f32[2, 4], i32[2]) seq_axis=0 dims=4 base=100 scaling=linear", "factor must be above 0"},
    {"rope(f32[2, 4], i32[2]) seq_axis=0 dims=4 base=100 scaling=dynamic factor=2",
     "original_length must lie in"},
    {"rope(f32[2, 4], i32[2]) seq_axis=0 dims=2 base=100 scaling=dynamic factor=2 "
     "original_length=8",
     "dims above 2"},
    {"rope(f32[2, 4], i32[2]) seq_axis=0 dims=4 base=100 scaling=llama3 factor=2 low=4 high=4 "
     "original_length=8",
     "expected 0 < low < high"},
    {"rope(f32[2, 4], i32[2]) seq_axis=0 dims=4 base=100 scaling=yarn factor=2 high=32 "
     "original_length=8",
     "expected 0 < low < high"},
    {"rope(f32[2, 4], i32[2]) seq_axis=0 dims=4 base=1 scaling=yarn factor=2 low=1 high=32 "
     "original_length=8",
     "base above 1"},
    {"rope(f32[2, 4], f32[2]) seq_axis=0 dims=4 base=100", "positions must be i32"},
    {"rope(f32[2, 4], i32[4]) seq_axis=0 dims=4 base=100", "positions must be [2]"},
    {"rope(f32[2, 3, 4], i32[3, 3]) seq_axis=1 dims=4 base=100", "positions must be [2, 3]"},
    {"rope(f32[2, 4], i32[2, 2]) seq_axis=0 dims=4 base=100", "rank 1 when they run along axis 0"},
};

const op_impl op_impl_rope = {.infer = infer_rope,
                              .ref = ref_rope,
                              .grad = grad_rope,
                              .decompose = rope_decompose,
                              CASES(cases)};
