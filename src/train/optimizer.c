/* Optimisers as graph: SGD, Adam, AdamW with PyTorch's meanings. */
#include "base/null.h"

#include "train/optimizer.h"

#include <math.h>
#include <stdio.h>

typedef struct update {
  sn_graph *g;
  const sn_optimizer *o;
  sn_value rate, apply;
  sn_value fix1, fix2; /* Adam's bias corrections: 1 - beta^t */
} update;

/* See SN_ZERO. */
static double or_default(double x, double otherwise) { return x == 0 ? otherwise : x < 0 ? 0 : x; }

/* A list that is NULL: the graph's error is that of an op on it. */
static sn_value no_values(sn_graph *g, int n) { return sn_concat(g, NULL, n > 0 ? n : 1, 0); }

static sn_value moment(const update *u, const char *kind, sn_value param) {
  char name[640];
  sn_type t = sn_value_type(u->g, param);
  const char *of = sn_value_name(u->g, param);
  snprintf(name, sizeof name, "train.%s.%s", kind, of ? of : "");
  return sn_state(u->g, name, t.dtype, t.shape, SN_INIT_ZEROS, 0);
}

static sn_value assign(const update *u, sn_value state, sn_value value) {
  if (u->apply.id)
    value = sn_where(u->g, u->apply, value, state);
  sn_assign(u->g, state, value);
  return value;
}

/* a·x + b·y */
static sn_value blend(const update *u, double a, sn_value x, double b, sn_value y) {
  return sn_add(u->g, sn_affine(u->g, x, a, 0), sn_affine(u->g, y, b, 0));
}

static sn_value sgd_direction(const update *u, sn_value param, sn_value grad) {
  const sn_optimizer *o = u->o;
  if (o->momentum == 0)
    return grad;
  sn_value m = moment(u, "m", param);
  sn_value next = blend(u, o->momentum, m, 1, grad);
  assign(u, m, next);
  return o->nesterov ? blend(u, 1, grad, o->momentum, next) : next;
}

/* (m / fix1) / (sqrt(v / fix2) + eps) */
static sn_value adam_direction(const update *u, sn_value param, sn_value grad) {
  const sn_optimizer *o = u->o;
  double b1 = or_default(o->beta1, 0.9), b2 = or_default(o->beta2, 0.999);
  sn_value m = moment(u, "m", param), v = moment(u, "v", param);
  sn_value m1 = blend(u, b1, m, 1 - b1, grad);
  sn_value v1 = blend(u, b2, v, 1 - b2, sn_sqr(u->g, grad));
  assign(u, m, m1);
  assign(u, v, v1);
  sn_value root = sn_sqrt(u->g, sn_div(u->g, v1, u->fix2));
  sn_value bottom = sn_affine(u->g, root, 1, or_default(o->eps, 1e-8));
  return sn_div(u->g, sn_div(u->g, m1, u->fix1), bottom);
}

/* The parameter's next value. */
static sn_value update_one(const update *u, const sn_param *p, sn_value grad) {
  const sn_optimizer *o = u->o;
  sn_value w = p->state, rate = sn_affine(u->g, u->rate, or_default(p->rate, 1), 0);
  double decay = p->no_decay ? 0 : o->weight_decay;
  if (decay != 0 && o->kind != SN_ADAMW)
    grad = blend(u, 1, grad, decay, w);
  sn_value d = o->kind == SN_SGD ? sgd_direction(u, w, grad) : adam_direction(u, w, grad);
  sn_value kept = w;
  if (decay != 0 && o->kind == SN_ADAMW) /* w · (1 - rate · decay) */
    kept = sn_mul(u->g, w, sn_affine(u->g, rate, -decay, 1));
  return assign(u, w, sn_sub(u->g, kept, sn_mul(u->g, d, rate)));
}

/* 1 - beta^t = -expm1(t · ln beta), exact also for the first steps. */
static sn_value correction(sn_graph *g, sn_value t, double beta) {
  if (beta == 0)
    return sn_scalar(g, SN_F32, 1);
  return sn_neg(g, sn_expm1(g, sn_affine(g, t, log(beta), 0)));
}

sn_value optimizer_build(sn_graph *g, const sn_optimizer *o, sn_value rate, sn_value step,
                         const sn_param *params, const sn_value *grads, int n, sn_value apply) {
  update u = {.g = g, .o = o, .rate = rate, .apply = apply};
  if (o->kind != SN_SGD) {
    sn_value t = sn_affine(g, sn_cast(g, step, SN_F32), 1, 1);
    u.fix1 = correction(g, t, or_default(o->beta1, 0.9));
    u.fix2 = correction(g, t, or_default(o->beta2, 0.999));
  }
  sn_value largest = sn_scalar(g, SN_F32, 0);
  for (int i = 0; i < n; i++) {
    sn_value next = sn_abs(g, update_one(&u, &params[i], grads[i]));
    largest = sn_maximum(g, largest, sn_max(g, next, SN_ALL_AXES, false));
  }
  return largest;
}

void sn_optimizer_build(sn_graph *g, const sn_optimizer *o, sn_value rate, sn_value step,
                        const sn_param *params, const sn_value *grads, int n, sn_value apply) {
  NEEDS_OR(g, );
  if (!o || (n > 0 && (!params || !grads))) {
    (void)no_values(g, n);
    return;
  }
  (void)optimizer_build(g, o, rate, step, params, grads, n, apply);
}

double optimizer_most_rate(const sn_optimizer *o, const sn_param *params, int n) {
  double factor = 0;
  if (o->kind == SN_SGD ? fabs(o->momentum) > 1 - 0x1p-20 : or_default(o->eps, 1e-8) < 0x1p-30)
    return -1;
  for (int i = 0; i < n && o->weight_decay != 0; i++)
    if (!params[i].no_decay)
      factor = fmax(factor, or_default(params[i].rate, 1));
  double limit = factor == 0 ? INFINITY : 1 / (factor * fabs(o->weight_decay));
  if (o->weight_decay < 0)
    limit = 0;
  for (int i = 0; i < n; i++)
    limit = fmin(limit, OPTIMIZER_MOST_RATE / fmax(1, or_default(params[i].rate, 1)));
  return limit;
}

static bool is_option(double x, double below) {
  return isfinite(x) && x < below && (x >= 0 || x == SN_ZERO);
}

sn_status optimizer_check(sn_ctx *ctx, const sn_optimizer *o, const sn_param *params, int n) {
  if (o->kind < SN_SGD || o->kind > SN_ADAMW)
    return sn_ctx_fail(ctx, SN_ERR_INVALID, "optimizer: unknown kind %d", (int)o->kind);
  if (!isfinite(o->momentum) || !isfinite(o->weight_decay))
    return sn_ctx_fail(ctx, SN_ERR_INVALID,
                       "optimizer: momentum and weight_decay must be finite, got %g and %g",
                       o->momentum, o->weight_decay);
  if (!is_option(o->beta1, 1) || !is_option(o->beta2, 1) || !is_option(o->eps, INFINITY))
    return sn_ctx_fail(
        ctx, SN_ERR_INVALID,
        "optimizer: betas must lie in 0 … 1, 1 excluded, and eps must not be negative "
        "(SN_ZERO is 0), got %g, %g and %g",
        o->beta1, o->beta2, o->eps);
  for (int i = 0; i < n; i++)
    if (!is_option(params[i].rate, INFINITY))
      return sn_ctx_fail(ctx, SN_ERR_INVALID,
                         "optimizer: parameter %d: its rate must be finite and not negative "
                         "(SN_ZERO is 0), got %g",
                         i, params[i].rate);
  return SN_OK;
}

sn_value sn_global_norm(sn_graph *g, const sn_value *values, int n) {
  NEEDS_OR(g, (sn_value){UINT32_MAX});
  if (!values && n > 0)
    return no_values(g, n);
  sn_value total = sn_scalar(g, SN_F32, 0);
  for (int i = 0; i < n; i++) {
    sn_value x = sn_cast(g, values[i], SN_F32);
    total = sn_add(g, total, sn_sum(g, sn_sqr(g, x), SN_ALL_AXES, false));
  }
  return sn_sqrt(g, total);
}

void sn_clip_by_norm(sn_graph *g, sn_value norm, double max_norm, sn_value *values, int n) {
  NEEDS_OR(g, );
  if (!values && n > 0) {
    (void)no_values(g, n);
    return;
  }
  sn_value most = sn_scalar(g, SN_F32, max_norm);
  sn_value scale = sn_clamp(g, sn_div(g, most, sn_affine(g, norm, 1, 1e-6)), -INFINITY, 1);
  for (int i = 0; i < n; i++)
    values[i] = sn_mul(g, values[i], sn_cast(g, scale, sn_value_type(g, values[i]).dtype));
}
