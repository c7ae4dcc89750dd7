/* How values reach the loss: whether a gradient can come back to them, and what is in the way where none can.
 *
 * One walk from the loss down to the leaves. Of a value's ways to the loss the best counts, and the order of sn_grad_path
 * is that order. A way is open while every value on it is a float; it is blocked from the first value on that is none; and
 * what lies behind a stop_gradient is stopped, whatever else lies there. */
#include "base/null.h"

#include "grad/sweep.h"
#include "ir/dtype.h"
#include "ops/table.h"

#include <stdio.h>

enum { MOST_HOPS = 8, PATH_TEXT = 400 };

typedef struct way {
  sn_grad_path path;
  uint32_t
      block; /* blocked floats: the node nearest the loss that blocks; no leaf does, so 0 is none */
  uint32_t next; /* a value that this one goes into on its way; 0: the loss itself */
} way;

typedef struct walk {
  const sn_graph *g;
  way *ways; /* by value id */
} walk;

static bool is_float(const sn_graph *g, uint32_t v) {
  return dtype_is_float(g->values[v].type.dtype);
}

static void improve(way *w, way by) {
  if (by.path > w->path)
    *w = by;
}

/* The way of `v`, an argument of node i, by that node's result `from`. */
static way back_through(const walk *w, uint32_t i, uint32_t from, uint32_t v) {
  const sn_graph *g = w->g;
  way x = {.path = w->ways[from].path, .block = w->ways[from].block, .next = from};
  if (x.path == SN_GRAD_UNUSED)
    return x;
  if (g->nodes[i].op == OP_stop_gradient)
    x.path = SN_GRAD_STOPPED;
  else if (x.path == SN_GRAD_OPEN && !is_float(g, v))
    x.path = SN_GRAD_BLOCKED;
  if (x.path == SN_GRAD_BLOCKED && !x.block && is_float(g, v))
    x.block = i;
  return x;
}

static void walk_back(const walk *w, uint32_t loss) {
  const sn_graph *g = w->g;
  w->ways[loss].path = SN_GRAD_OPEN;
  for (uint32_t i = g->values[loss].node + 1; i-- > 0;) {
    const node *n = &g->nodes[i];
    for (int r = 0; r < n->n_out; r++)
      for (int k = 0; k < n->n_in; k++)
        if (n->in[k].id)
          improve(&w->ways[n->in[k].id], back_through(w, i, n->first + (uint32_t)r, n->in[k].id));
  }
}

static sn_status start(walk *w, const sn_graph *g, sn_value loss) {
  *w = (walk){.g = g, .ways = mem_array(g->ctx, g->n_values, sizeof *w->ways)};
  if (!w->ways)
    return SN_ERR_NO_MEMORY;
  walk_back(w, loss.id);
  return SN_OK;
}

static void end(walk *w) { mem_free(w->g->ctx, w->ways, w->g->n_values * sizeof *w->ways); }

/* "w -> argmax -> cast -> sum": the way of a value to the loss. */
static void path_text(const walk *w, uint32_t v, char text[PATH_TEXT]) {
  size_t used = 0;
  for (int hop = 0; hop == 0 || (v && hop < MOST_HOPS && used < PATH_TEXT); hop++) {
    used += (size_t)snprintf(text + used, PATH_TEXT - used, "%s%s", hop ? " -> " : "",
                             grad_value_name(w->g, v));
    v = w->ways[v].next;
  }
}

static sn_status fail_blocked(const walk *w, sn_graph *g, uint32_t v) {
  const node *n = &g->nodes[w->ways[v].block];
  const op_desc *op = graph_op(g, n);
  char path[PATH_TEXT], result[64];
  snprintf(result, sizeof result, "what it passes on is %s",
           sn_dtype_name(g->values[n->first + (uint32_t)n->n_out - 1].type.dtype));
  path_text(w, v, path);
  (void)graph_fail(
      g, SN_ERR_UNSUPPORTED,
      "grad: %s is not differentiable (%s), and %s reaches the loss by nothing else: %s", op->name,
      op->impl->no_grad ? op->impl->no_grad : result, grad_value_name(g, v), path);
  return SN_ERR_UNSUPPORTED;
}

sn_status grad_check_paths(sn_graph *g, sn_value loss, const sn_value *wrt, int n) {
  walk w;
  SN_TRY(start(&w, g, loss));
  sn_status status = SN_OK;
  for (int i = 0; i < n && status == SN_OK; i++)
    if (w.ways[wrt[i].id].path == SN_GRAD_BLOCKED)
      status = fail_blocked(&w, g, wrt[i].id);
  end(&w);
  return status;
}

sn_status sn_grad_paths(const sn_graph *g, sn_value loss, const sn_value *values, int n,
                        sn_grad_path *out_paths) {
  NEEDS(g);
  NEEDS_ARGUMENT_IF(g->ctx, n > 0, values);
  NEEDS_ARGUMENT_IF(g->ctx, n > 0, out_paths);
  walk w;
  for (int i = 0; i < n; i++)
    out_paths[i] = SN_GRAD_UNUSED;
  SN_TRY(graph_check(g, g->ctx));
  if (!sn_value_valid(g, loss))
    return diag_fail(g->ctx, SN_ERR_INVALID, "grad_paths: the loss is not a value of this graph");
  SN_TRY(start(&w, g, loss));
  for (int i = 0; i < n; i++)
    if (sn_value_valid(g, values[i]))
      out_paths[i] = w.ways[values[i].id].path;
  end(&w);
  return SN_OK;
}
