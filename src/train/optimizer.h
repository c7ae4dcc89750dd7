/* What the trainer needs of optimisers beside the public API. */
#ifndef SINEW_TRAIN_OPTIMIZER_H
#define SINEW_TRAIN_OPTIMIZER_H

#include <sinew/train.h>

/* As sn_optimizer_build; yields the largest of all parameters' next values, f32: finite where all of them are. */
sn_value optimizer_build(sn_graph *g, const sn_optimizer *o, sn_value rate, sn_value step,
                         const sn_param *params, const sn_value *grads, int n, sn_value apply);
/* Rates of schedules, and of parameters. */
#define OPTIMIZER_MOST_RATE 0x1p32
/* The largest learning rate with which a finite norm of the gradients means finite next values; below 0: none does.
 *
 * A norm is finite below 2^64, so that is the most that an element of a gradient is. Momentum below 1 - 2^-20 makes that 2^84
 * at most, Adam's quotient with an eps of 2^-30 or more 2^94, and rates 2^126 of it. Weights themselves grow by no more than
 * that in a step, unless rate times decay is so large that decay makes them larger: then they may double again and again, whatever
 * the gradients are. */
double optimizer_most_rate(const sn_optimizer *o, const sn_param *params, int n);
/* Whether the options say something. */
SN_MUST_USE sn_status optimizer_check(sn_ctx *ctx, const sn_optimizer *o, const sn_param *params,
                                      int n);

#endif
