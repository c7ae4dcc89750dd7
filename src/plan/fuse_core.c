/* Cores: ops with an archetype of their own. Operands are strided views of values in memory; a view that strides cannot
 * say is copied first. The step's numbers come from the op's attributes, here and nowhere else. */
#include "ops/table.h"
#include "plan/fuse.h"

/* The view of a value as a single load with one plain stride an axis. */
static bool as_strided(fuse *f, int group, uint32_t value, strided *out) {
  fuse_group *g = f->groups[group];
  sn_shape shape = fuse_shape(f, value);
  place at = {.rank = shape.rank};
  for (int d = 0; d < shape.rank; d++) {
    g->extent[d] = shape.dim[d];
    at.c[d] = coord_axis(d);
  }
  dag d;
  dag_init(&d, &f->memory, 0);
  emission e = {.f = f, .group = group, .into = &d, .fresh = true};
  f->failed = false;
  reg r = emit_value(&e, value, &at, 1);
  if (f->failed || f->status != SN_OK || d.nodes[r].i.op != REGION_LOAD || d.nodes[r].i.at.n_checks)
    return false;
  const access *a = &d.nodes[r].i.at;
  *out = (strided){
      .value = a->value, .dtype = d.nodes[r].i.dtype, .rank = shape.rank, .base = a->base};
  memcpy(out->dim, shape.dim, sizeof out->dim);
  for (int k = 0; k < a->n_terms; k++) {
    const term *t = &a->terms[k];
    if (t->axis == TERM_REG || t->div != 1 || t->mod != 0)
      return false;
    out->stride[t->axis] = t->stride;
  }
  return true;
}

static bool is_dense(sn_graph *g, const strided *s) {
  sn_dim stride = 1;
  for (int d = s->rank - 1; d >= 0; d--) {
    if (s->dim[d] != 1 && s->stride[d] != stride)
      return false;
    stride = sn_dim_mul(g, stride, s->dim[d]);
  }
  return true;
}

/* A scatter writes over its base, or over a copy of it: that is a whole value then, not part of a larger one. */
static bool is_whole(const fuse *f, const strided *s, uint32_t value) {
  return s->base == 0 &&
         dim_count(f->g, fuse_shape(f, s->value)) == dim_count(f->g, fuse_shape(f, value));
}

static bool is_scatter(int op) {
  return op == OP_scatter_set || op == OP_scatter_add || op == OP_scatter_along_set ||
         op == OP_scatter_along_add;
}

/* At fusion: whether operand i can be had, made so where not. Attention takes any strides, the others fold dims. */
static sn_status settle_operand(fuse *f, const node *n, int group, int i) {
  strided s;
  uint32_t value = n->in[i].id;
  bool any = n->op == OP_attention || n->op == OP_attention_grad;
  bool written = is_scatter(n->op) && i == 0;
  if (as_strided(f, group, value, &s) && (any || is_dense(f->g, &s)) &&
      (!written || is_whole(f, &s, value)))
    return SN_OK;
  if (f->status != SN_OK)
    return f->status;
  if (f->values[value].state != VALUE_FLOAT)
    return diag_fail(f->g->ctx, SN_ERR_INTERNAL, "fuse: an operand of a core has no strides");
  return fuse_alone(f, value);
}

sn_status fuse_core(fuse *f, const node *n) {
  /* Operands may need groups of their own, which come first. */
  int group = fuse_add_group(f, GROUP_CORE, n);
  if (group < 0)
    return f->status;
  for (int k = 0; k < n->n_in; k++)
    if (n->in[k].id)
      SN_TRY(settle_operand(f, n, group, k));
  fuse_group *g = f->groups[group];
  g->stage = g->prepared ? STAGE_PREPARED : 0;
  for (int k = 0; k < n->n_in; k++) {
    strided s;
    if (n->in[k].id && !as_strided(f, group, n->in[k].id, &s))
      return f->status != SN_OK ? f->status : SN_ERR_INTERNAL;
  }
  for (int k = 0; k < n->n_out; k++)
    if (!fuse_add_member(f, group, n->first + (uint32_t)k, 0, NULL))
      return f->status;
  return SN_OK;
}

sn_status core_operand(fuse *f, int group, uint32_t value, strided *out) {
  *out = (strided){0};
  if (!value)
    return SN_OK;
  if (!as_strided(f, group, value, out))
    return f->status != SN_OK
               ? f->status
               : diag_fail(f->g->ctx, SN_ERR_INTERNAL, "fuse: an operand of a core has no strides");
  return SN_OK;
}

/* --- shapes as cores want them --- */

static void drop_stride(strided *s, int d, sn_dim dim, sn_dim stride) {
  s->dim[d] = dim;
  s->stride[d] = stride;
}

/* [B,S,H,D] seen as [B,H,S,D]. */
static void heads_first(strided *s, sn_layout layout) {
  if (!s->value || layout == SN_LAYOUT_BHSD)
    return;
  sn_dim dim = s->dim[1], stride = s->stride[1];
  drop_stride(s, 1, s->dim[2], s->stride[2]);
  drop_stride(s, 2, dim, stride);
}

/* Rank 2 to 4 broadcast to [B,Hq,Sq,Skv]. */
static void broadcast_scores(strided *s, const strided *q, const strided *k) {
  if (!s->value)
    return;
  strided wide = *s;
  const sn_dim full[] = {q->dim[0], q->dim[1], q->dim[2], k->dim[2]};
  wide.rank = 4;
  for (int d = 0; d < 4; d++) {
    int from = d - (4 - s->rank);
    bool there = from >= 0 && s->dim[from] == full[d];
    drop_stride(&wide, d, full[d], there ? s->stride[from] : 0);
  }
  *s = wide;
}

/* The dims [first, last) as one, where strides allow it: the operands of these cores are dense or made so. */
static bool fold(sn_graph *g, strided *s, int first, int last, int into) {
  sn_dim dim = 1, stride = 1;
  for (int d = last - 1; d >= first; d--) {
    if (s->dim[d] == 1)
      continue;
    if (dim == 1)
      stride = s->stride[d];
    else if (s->stride[d] != sn_dim_mul(g, dim, stride))
      return false;
    dim = sn_dim_mul(g, dim, s->dim[d]);
  }
  drop_stride(s, into, dim, stride);
  return true;
}

/* [outer, n, inner] around an axis. */
static bool around(sn_graph *g, strided *s, int axis) {
  strided t = *s;
  int rank = s->rank;
  if (!fold(g, &t, 0, axis, 0))
    return false;
  sn_dim outer = t.dim[0], outer_stride = t.stride[0];
  t = *s;
  if (!fold(g, &t, axis + 1, rank, 2))
    return false;
  sn_dim inner = t.dim[2], inner_stride = t.stride[2];
  sn_dim dim = s->dim[axis], stride = s->stride[axis];
  s->rank = 3;
  drop_stride(s, 0, outer, outer_stride);
  drop_stride(s, 1, dim, stride);
  drop_stride(s, 2, inner, inner_stride);
  return true;
}

/* [rows, width]: all but the last dim, the last. */
static bool rows_of(sn_graph *g, strided *s) {
  strided t = *s;
  if (!fold(g, &t, 0, s->rank - 1, 0))
    return false;
  sn_dim dim = s->dim[s->rank - 1], stride = s->stride[s->rank - 1];
  *s = t;
  s->rank = 2;
  drop_stride(s, 1, dim, stride);
  return true;
}

static bool flat(sn_graph *g, strided *s) {
  bool ok = fold(g, s, 0, s->rank, 0);
  s->rank = 1;
  return ok;
}

static void attention_numbers(core_part *p, double scale, double softcap, sn_causal causal,
                              int64_t window) {
  p->reals[0] = scale;
  p->reals[1] = softcap;
  p->ints[0] = causal;
  p->ints[1] = window;
}

static bool finish_attention(core_part *p, sn_layout layout, bool grad) {
  for (int k = 0; k < 3; k++)
    heads_first(&p->in[k], layout);
  broadcast_scores(&p->in[3], &p->in[0], &p->in[1]);
  if (grad) {
    heads_first(&p->in[8], layout);
    heads_first(&p->in[9], layout);
    for (int k = 0; k < 3; k++)
      heads_first(&p->out[k], layout);
    if (p->in[4].value)
      broadcast_scores(&p->out[3], &p->in[0], &p->in[1]);
  } else {
    heads_first(&p->out[0], layout);
  }
  broadcast_scores(&p->in[4], &p->in[0], &p->in[1]);
  return true;
}

static bool finish_scatter(sn_graph *g, core_part *p, bool add, bool along, int64_t axis) {
  p->ints[0] = add;
  p->ints[1] = along ? 1 : -1;
  if (along) {
    int a = (int)(axis < 0 ? axis + p->in[0].rank : axis);
    return around(g, &p->in[0], a) && around(g, &p->in[1], a) && around(g, &p->in[2], a) &&
           around(g, &p->out[0], a);
  }
  int ahead = p->in[1].rank;
  strided value = p->in[2];
  if (!flat(g, &p->in[1]) || !fold(g, &p->in[2], 0, ahead, 0) ||
      !fold(g, &value, ahead, value.rank, 1))
    return false;
  drop_stride(&p->in[2], 1, value.dim[1], value.stride[1]);
  p->in[2].rank = 2;
  for (int k = 0; k < 2; k++) {
    strided *s = k ? &p->out[0] : &p->in[0], rest = *s;
    if (!fold(g, &rest, 1, s->rank, 1))
      return false;
    drop_stride(s, 1, rest.dim[1], rest.stride[1]);
    s->rank = 2;
  }
  return true;
}

static bool finish_along(sn_graph *g, core_part *p, int64_t axis) {
  int a = (int)(axis < 0 ? axis + p->in[0].rank : axis);
  bool ok = p->in[0].rank > 0;
  for (int k = 0; k < p->n_out && ok; k++)
    ok = !p->out[k].value || around(g, &p->out[k], a);
  return ok && around(g, &p->in[0], a);
}

static bool finish_sample(sn_graph *g, const attrs_sample *a, core_part *p) {
  p->reals[0] = a->temperature;
  p->reals[1] = a->top_p;
  p->reals[2] = a->min_p;
  p->reals[3] = a->repetition_penalty;
  p->ints[0] = a->top_k;
  p->ints[1] = a->stream;
  return rows_of(g, &p->in[0]) && (!p->in[2].value || rows_of(g, &p->in[2])) && flat(g, &p->out[0]);
}

/* Fills numbers and brings operands into the form of step.h; false when strides do not allow it. */
bool core_shape(sn_graph *g, const node *n, core_part *p, archetype *out_kind) {
  switch (n->op) {
  case OP_attention: {
    const attrs_attention *a = n->attrs;
    *out_kind = STEP_ATTENTION;
    attention_numbers(p, a->scale, a->softcap, a->causal, a->window);
    return finish_attention(p, a->layout, false);
  }
  case OP_attention_grad: {
    const attrs_attention_grad *a = n->attrs;
    *out_kind = STEP_ATTENTION_GRAD;
    attention_numbers(p, a->scale, a->softcap, a->causal, a->window);
    return finish_attention(p, a->layout, true);
  }
  case OP_scatter_set:
  case OP_scatter_add:
    *out_kind = STEP_SCATTER;
    return finish_scatter(g, p, n->op == OP_scatter_add, false, 0);
  case OP_scatter_along_set:
    *out_kind = STEP_SCATTER;
    return finish_scatter(g, p, false, true, ((const attrs_scatter_along_set *)n->attrs)->axis);
  case OP_scatter_along_add:
    *out_kind = STEP_SCATTER;
    return finish_scatter(g, p, true, true, ((const attrs_scatter_along_add *)n->attrs)->axis);
  case OP_cumsum: {
    const attrs_cumsum *a = n->attrs;
    *out_kind = STEP_SCAN;
    p->ints[1] = a->exclusive;
    p->ints[2] = a->reverse;
    return finish_along(g, p, a->axis);
  }
  case OP_cumprod: {
    const attrs_cumprod *a = n->attrs;
    *out_kind = STEP_SCAN;
    p->ints[0] = 1;
    p->ints[1] = a->exclusive;
    p->ints[2] = a->reverse;
    return finish_along(g, p, a->axis);
  }
  case OP_sort: {
    const attrs_sort *a = n->attrs;
    *out_kind = STEP_SORT;
    p->ints[0] = a->descending;
    return finish_along(g, p, a->axis);
  }
  case OP_topk: {
    const attrs_topk *a = n->attrs;
    *out_kind = STEP_SORT;
    p->ints[0] = a->largest;
    return finish_along(g, p, a->axis);
  }
  case OP_sample: *out_kind = STEP_SAMPLE; return finish_sample(g, n->attrs, p);
  default:
    *out_kind = STEP_PERMUTE;
    p->ints[0] = ((const attrs_permutation *)n->attrs)->stream;
    return true;
  }
}
