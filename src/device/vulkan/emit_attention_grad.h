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

/* --- emit_attention_grad_parts.c --- */
/* How what a workgroup passes over is cut, where its list alone has too few blocks: a further launch adds the parts up. */
typedef struct grad_cut {
  amount over; /* all of it */
  int each;    /* of a part; 0: it is not cut */
} grad_cut;
amount grad_parts(const grad_cut *c);
/* The part of a workgroup with number `at`, and what it passes over; *out_part is left alone where it is not cut. Returns the rest of the number. */
val grad_range(kernel *k, const grad_cut *c, val at, val *out_part, val *out_from, val *out_to);
/* Where number `number` of a list of keys or of a kv head's queries has its result: entry, head, number. */
void grad_result_at(emitter *e, const attending *a, bool keys, val b, val kv, val number,
                    val out[3]);
/* Scratch for the parts of a result: f32 [parts] and as the result. 0 where there are none. */
int64_t grad_take_parts(emitter *e, const grad_cut *c, const strided *to);
/* An element of a result, or of its part where it is cut. */
void grad_put(emitter *e, const grad_cut *c, const strided *to, int64_t byte, val part_number,
              const val at[4], val x);
/* Four neighbours from `column` on, those that there are. at: entry, head, number. */
void grad_put_four(emitter *e, const grad_cut *c, const strided *to, int64_t byte, val part_number,
                   const val at[3], val column, const val x[4]);
/* Results whose parts are to be added up behind all other launches, side by side. */
typedef struct grad_rest {
  int n;
  struct grad_later {
    grad_cut cut;
    const strided *to;
    int64_t byte;
  } at[3];
} grad_rest;
void grad_add_later(grad_rest *r, const grad_cut *c, const strided *to, int64_t byte);
sn_status grad_add_all(emitter *e, const grad_rest *r) SN_MUST_USE;

/* --- other ways --- */
/* emit_attention_grad_matrix.c: by matrices, where they fit; dq, or dk and dv. */
bool grad_matrix_fits(const emitter *e, const backward *g);
sn_status grad_matrix(emitter *e, const backward *g, bool keys, bool after,
                      grad_rest *rest) SN_MUST_USE;

/* emit_attention_solo_grad.c: one of DQ, DK, DV, for few rows; it does not need `common`. */
bool grad_solo_fits(const emitter *e, const backward *g);
sn_status grad_solo(emitter *e, const backward *g, int which) SN_MUST_USE;

/* emit_attention_flash_grad.c: all launches for dq, dk and dv, for many rows; it does not need `common`. */
bool grad_flash_fits(const emitter *e, const backward *g);
sn_status grad_flash(emitter *e, const backward *g, grad_rest *rest) SN_MUST_USE;

/* emit_attention_grad_plain.c: an element of DQ, DK or DV in plain f32, from columns from … to-1. at: entry, kv head, number in the list
 * of rows, column. It does not need `common`. */
val grad_plain_sum(emitter *e, const backward *g, int which, const val at[4], val from, val to);

/* emit_attention_grad_sums.c: sums over heads and entries. */
sn_status grad_bias(emitter *e, const backward *g) SN_MUST_USE;
sn_status grad_sinks(emitter *e, const backward *g) SN_MUST_USE;

#endif
