/* What the emitters of attention's gradient share:
 *
 *   p  = exp(score - lse)                         0 where masked and in rows whose lse is -inf
 *   ds = p * (d_out·v + common)                   the gradient of a score; common = d_lse - d_out·out
 *   dq += ds * slope * k,  dk += ds * slope * q,  dv += p * d_out,  dbias += ds
 *   dsinks += exp(sink - lse) * common */
#ifndef SINEW_DEVICE_VULKAN_EMIT_ATTENTION_GRAD_H
#define SINEW_DEVICE_VULKAN_EMIT_ATTENTION_GRAD_H

#include "device/vulkan/emit_attention.h"

enum { DQ, DK, DV, DBIAS, DSINKS };

typedef struct backward {
  attending a;
  const strided *lse, *out, *d_out, *d_lse, *to;
  int64_t common; /* byte of scratch: f32 [b, hq, sq] */
} backward;

/* A query with what its weights need. */
typedef struct grad_query {
  query q;
  val lse, common;
} grad_query;
grad_query grad_query_of(emitter *e, const backward *g, query q);
/* p, ds and ds * slope of a query and key j from q·k and d_out·v; each may be NULL. */
void grad_weights(emitter *e, const backward *g, const grad_query *q, val j, val product,
                  val arrives, val *p, val *ds, val *dx);

/* emit_attention_grad_sums.c: sums over heads and entries. */
sn_status grad_bias(emitter *e, const backward *g) SN_MUST_USE;
sn_status grad_sinks(emitter *e, const backward *g) SN_MUST_USE;

#endif
