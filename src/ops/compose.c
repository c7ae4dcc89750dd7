/* See compose.h: public compositions on the builders. */
#include "base/null.h"

#include "ir/dim.h"

#include <sinew/compose.h>

void sn_split(sn_graph *g, sn_value x, int64_t axis, int n, sn_value *out_parts) {
  NEEDS_OR(g, );
  if (!out_parts && n > 0) {
    (void)graph_fail(g, SN_ERR_INVALID, "split: out_parts must not be NULL");
    return;
  }
  sn_shape s = sn_value_type(g, x).shape;
  int64_t a = axis < 0 ? axis + s.rank : axis;
  for (int i = 0; i < n; i++)
    out_parts[i] = graph_invalid();
  if (!sn_value_valid(g, x)) {
    (void)graph_fail(g, SN_ERR_INVALID, "split: x is not a value of this graph");
    return;
  }
  if (a < 0 || a >= s.rank || n <= 0 || !dim_is_number(s.dim[a]) || s.dim[a] % n != 0) {
    (void)graph_fail(g, SN_ERR_INVALID, "split: axis %lld of %s does not fall into %d equal parts",
                     (long long)axis, graph_shape_text(g, s), n);
    return;
  }
  int64_t size = s.dim[a] / n;
  for (int i = 0; i < n; i++)
    out_parts[i] = sn_slice(g, x, axis, i * size, (i + 1) * size, 1);
}

sn_value sn_argsort(sn_graph *g, sn_value x, int64_t axis, bool descending) {
  NEEDS_OR(g, graph_invalid());
  return sn_value_result(g, sn_sort(g, x, axis, descending), 1);
}

sn_value sn_global_avg_pool(sn_graph *g, sn_value x) {
  NEEDS_OR(g, graph_invalid());
  sn_ints axes = {0};
  int rank = sn_value_type(g, x).shape.rank;
  if (sn_value_valid(g, x) && rank < 3)
    return graph_fail(g, SN_ERR_INVALID, "global_avg_pool: expected [N, C, spatial…], got %s",
                      graph_shape_text(g, sn_value_type(g, x).shape));
  for (int d = 2; d < rank; d++)
    axes.v[axes.n++] = d;
  return sn_mean(g, x, axes, true);
}

sn_value sn_attention_packed(sn_graph *g, sn_value qkv, int64_t heads, int64_t kv_heads,
                             double scale, sn_causal causal, int64_t window) {
  NEEDS_OR(g, graph_invalid());
  sn_shape s = sn_value_type(g, qkv).shape;
  if (!sn_value_valid(g, qkv))
    return graph_fail(g, SN_ERR_INVALID, "attention_packed: qkv is not a value of this graph");
  bool fits = s.rank == 3 && dim_is_number(s.dim[2]) && heads > 0 && heads <= s.dim[2] &&
              kv_heads > 0 && kv_heads <= s.dim[2];
  int64_t all = fits ? heads + 2 * kv_heads : 1;
  if (!fits || s.dim[2] % all != 0)
    return graph_fail(g, SN_ERR_INVALID, "attention_packed: %s does not hold %lld + 2 * %lld heads",
                      graph_shape_text(g, s), (long long)heads, (long long)kv_heads);
  int64_t size = s.dim[2] / all, from[] = {0, heads, heads + kv_heads, all};
  sn_value part[3];
  for (int i = 0; i < 3; i++) {
    sn_value flat = sn_slice(g, qkv, 2, from[i] * size, from[i + 1] * size, 1);
    part[i] = sn_reshape(g, flat, SN_SHAPE(s.dim[0], s.dim[1], from[i + 1] - from[i], size));
  }
  sn_value y = sn_attention(g, part[0], part[1], part[2], SN_NONE, SN_NONE, SN_NONE, SN_NONE, scale,
                            0, causal, window, SN_LAYOUT_BSHD);
  return sn_reshape(g, y, SN_SHAPE(s.dim[0], s.dim[1], heads * size));
}

sn_value sn_random_key(sn_graph *g, const char *name) {
  NEEDS_OR(g, graph_invalid());
  static const int32_t step[3] = {0, 0, 1};
  sn_value key = sn_state(g, name, SN_I32, SN_SHAPE(3), SN_INIT_ZEROS, 0);
  sn_assign(g, key, sn_add(g, key, sn_constant_bytes(g, SN_I32, SN_SHAPE(3), step)));
  return key;
}
