/* How drawn graphs make ops that sort, choose and draw random numbers: see drawn_graph.h. */
#include "support/drawn_graph.h"

#include "ir/dim.h"

sn_value draw_sort(drawn_graph *d, int op) {
  static const int64_t lengths[] = {64, 65, 129, 257, 513, 1000, 1025, 1089, 2048, 2049, 4000};
  sn_value x = drawn_any(d, 'n', 1, 3);
  if (drawn(d, 3) == 0) { /* longer than most */
    sn_dtype dtype = drawn_dtype(d, 'n');
    x = drawn_like(d, dtype, SN_SHAPE(DRAWN_OF(d, lengths)));
  }
  sn_shape s = drawn_shape_of(d, x);
  if (s.rank == 0)
    return SN_NONE;
  int64_t axis = drawn_axis(d, s);
  if (op == OP_sort)
    return drawn_add(d, op, &x, 1, &(attrs_sort){.axis = axis, .descending = drawn(d, 2)});
  int64_t n = drawn_at(d, s.dim[axis < 0 ? axis + s.rank : axis]);
  return drawn_add(
      d, op, &x, 1,
      &(attrs_topk){.k = (int64_t)drawn(d, (uint32_t)n + 1), .axis = axis, .largest = drawn(d, 2)});
}

static sn_value key_of(drawn_graph *d) { return drawn_like(d, SN_I32, SN_SHAPE(3)); }

sn_value draw_sample(drawn_graph *d, int op) {
  static const double temperatures[] = {0, 1, 0.5};
  sn_value x = drawn_any(d, 'f', 1, 2);
  sn_shape s = drawn_shape_of(d, x);
  if (s.rank == 0 || drawn_at(d, s.dim[s.rank - 1]) < 1)
    return SN_NONE;
  sn_shape history = s;
  history.dim[s.rank - 1] = 1 + drawn(d, 4);
  sn_value in[3] = {x, key_of(d), SN_NONE};
  if (drawn(d, 2))
    in[2] = drawn_index(d, history, drawn_at(d, s.dim[s.rank - 1]));
  return drawn_add(d, op, in, 3,
                   &(attrs_sample){.temperature = DRAWN_OF(d, temperatures),
                                   .top_k = drawn(d, 2) ? 0 : 1 + drawn(d, 3),
                                   .top_p = drawn(d, 2) ? 1 : 0.75,
                                   .min_p = drawn(d, 2) ? 0 : 0.125,
                                   .repetition_penalty = in[2].id && drawn(d, 2) ? 2 : 1,
                                   .stream = -1});
}

sn_value draw_random(drawn_graph *d, int op) {
  sn_value key = key_of(d);
  sn_dtype dtype = drawn_dtype(d, 'f');
  double p = drawn(d, 5) / 4.0;
  if (op == OP_dropout) {
    sn_value in[2] = {drawn_any(d, 'f', 0, 4), key};
    return drawn_add(d, op, in, 2, &(attrs_dropout){.p = p < 1 ? p : 0.125, .stream = -1});
  }
  if (op == OP_permutation)
    return drawn_add(d, op, &key, 1, &(attrs_permutation){.n = drawn_dim(d), .stream = -1});
  sn_shape s = drawn_shape(d, 0, 3);
  if (op == OP_bernoulli)
    return drawn_add(d, op, &key, 1, &(attrs_bernoulli){.shape = s, .p = p, .stream = -1});
  if (op == OP_randint)
    return drawn_add(
        d, op, &key, 1,
        &(attrs_randint){.shape = s, .lo = -1, .hi = 2 + (int64_t)drawn(d, 9), .stream = -1});
  if (op == OP_normal)
    return drawn_add(
        d, op, &key, 1,
        &(attrs_normal){.dtype = dtype, .shape = s, .mean = p, .std = 0.5, .stream = -1});
  return drawn_add(d, op, &key, 1,
                   &(attrs_uniform){.dtype = dtype, .shape = s, .lo = -p, .hi = 1, .stream = -1});
}
