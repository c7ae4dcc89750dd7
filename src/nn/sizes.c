/* Configurations made whole: defaults for what was left 0, then every bound that building a graph relies on,
 * so that no size computed from them can overflow. */
#include "nn/model.h"

#include <math.h>

static sn_status within(sn_ctx *ctx, const char *what, int64_t n, int64_t lo, int64_t hi) {
  if (n >= lo && n <= hi)
    return SN_OK;
  return sn_ctx_fail(ctx, SN_ERR_INVALID, "model: %s must lie in %lld … %lld, got %lld", what,
                     (long long)lo, (long long)hi, (long long)n);
}

static sn_status fraction(sn_ctx *ctx, bool holds, const char *what, double got) {
  return holds ? SN_OK : sn_ctx_fail(ctx, SN_ERR_INVALID, "model: %s, got %g", what, got);
}

static sn_status finish_heads(sn_ctx *ctx, sn_model_config *c) {
  c->kv_heads = c->kv_heads ? c->kv_heads : c->heads;
  SN_TRY(within(ctx, "heads", c->heads, 1, NN_LARGEST));
  SN_TRY(within(ctx, "KV heads", c->kv_heads, 1, c->heads));
  if (c->heads % c->kv_heads != 0)
    return sn_ctx_fail(ctx, SN_ERR_INVALID, "model: %lld heads are not a multiple of %lld KV heads",
                       (long long)c->heads, (long long)c->kv_heads);
  if (c->head_size == 0 && c->hidden % c->heads != 0)
    return sn_ctx_fail(ctx, SN_ERR_INVALID,
                       "model: hidden size %lld is not a multiple of %lld heads",
                       (long long)c->hidden, (long long)c->heads);
  c->head_size = c->head_size ? c->head_size : c->hidden / c->heads;
  SN_TRY(within(ctx, "head size", c->head_size, 1, NN_LARGEST));
  if (c->family != SN_MODEL_GPT2)
    return SN_OK;
  if (c->heads * c->head_size != c->hidden || c->kv_heads != c->heads)
    return sn_ctx_fail(
        ctx, SN_ERR_INVALID,
        "model: GPT-2 needs hidden size = heads times head size and as many KV heads, "
        "got %lld, %lld times %lld and %lld",
        (long long)c->hidden, (long long)c->heads, (long long)c->head_size, (long long)c->kv_heads);
  return SN_OK;
}

static void finish_rope(sn_rope_options *r) {
  r->base = r->base != 0 ? r->base : 10000;
  r->factor = r->factor != 0 ? r->factor : 1;
  r->rounding = r->rounding != SN_NO_DTYPE ? r->rounding : SN_F32;
}

static sn_status finish_positions(sn_ctx *ctx, sn_model_config *c) {
  SN_TRY(within(ctx, "longest sequence", c->max_length, 1, NN_LARGEST));
  SN_TRY(within(ctx, "window", c->window, 0, NN_LARGEST));
  for (int64_t i = 0; i < c->layers; i++)
    if (c->sliding[i] && c->window == 0)
      return sn_ctx_fail(ctx, SN_ERR_INVALID, "model: layer %lld slides, but there is no window",
                         (long long)i);
  if (c->family == SN_MODEL_GPT2)
    return SN_OK;
  c->rotary = c->rotary ? c->rotary : c->head_size;
  finish_rope(&c->rope);
  if (c->rope_sliding.base == 0)
    c->rope_sliding = c->rope;
  finish_rope(&c->rope_sliding);
  SN_TRY(within(ctx, "rotary part of the head", c->rotary, 1, c->head_size));
  if (c->rotary % 2 != 0)
    return sn_ctx_fail(ctx, SN_ERR_INVALID,
                       "model: the rotary part of the head must be even, got %lld",
                       (long long)c->rotary);
  return SN_OK; /* sn_rope checks the rest */
}

/* An option whose 0 means its default. Twice is once: a finished configuration may be finished again. */
static double or_default(double x, double otherwise) { return x == 0 ? otherwise : x; }
static bool is_option(double x) { return isfinite(x) && (x > 0 || x == SN_ZERO); }

static sn_status finish_scales(sn_ctx *ctx, sn_model_config *c) {
  c->norm_eps = or_default(c->norm_eps, 1e-5);
  c->init_scale = or_default(c->init_scale, 0.02);
  c->embed_scale = c->embed_scale != 0 ? c->embed_scale : 1;
  if (c->attention_scale == 0)
    c->attention_scale = 1 / sqrt((double)c->head_size);
  SN_TRY(fraction(ctx, is_option(c->norm_eps),
                  "the norms' epsilon must be 0 or above (SN_ZERO is 0)", c->norm_eps));
  SN_TRY(fraction(ctx, is_option(c->init_scale),
                  "the scale of fresh weights must be 0 or above (SN_ZERO is 0)", c->init_scale));
  SN_TRY(fraction(ctx, c->embed_scale > 0 && isfinite(c->embed_scale),
                  "the scale of embeddings must be above 0", c->embed_scale));
  SN_TRY(fraction(ctx, c->attention_scale > 0 && isfinite(c->attention_scale),
                  "the scale of attention must be above 0", c->attention_scale));
  SN_TRY(fraction(ctx, c->attention_softcap >= 0 && isfinite(c->attention_softcap),
                  "the softcap of attention must be 0 or above", c->attention_softcap));
  return fraction(ctx, c->logit_softcap >= 0 && isfinite(c->logit_softcap),
                  "the softcap of logits must be 0 or above", c->logit_softcap);
}

sn_status nn_config_finish(sn_ctx *ctx, sn_model_config *c) {
  SN_TRY(within(ctx, "family", (int64_t)c->family, 0, SN_MODEL_GPT2));
  SN_TRY(within(ctx, "activation", (int64_t)c->activation, 0, SN_ACT_RELU));
  SN_TRY(within(ctx, "vocabulary", c->vocab, 1, NN_LARGEST));
  SN_TRY(within(ctx, "hidden size", c->hidden, 1, NN_LARGEST));
  SN_TRY(within(ctx, "layers", c->layers, 0, SN_MAX_LAYERS));
  c->inner = c->inner ? c->inner : 4 * c->hidden;
  SN_TRY(within(ctx, "inner size", c->inner, 1, 4 * (int64_t)NN_LARGEST));
  SN_TRY(finish_heads(ctx, c));
  SN_TRY(finish_positions(ctx, c));
  SN_TRY(finish_scales(ctx, c));
  return fraction(ctx, c->dropout >= 0 && c->dropout < 1, "dropout must lie in [0, 1)", c->dropout);
}
