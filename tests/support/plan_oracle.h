/* What a plan must compute: outputs and new states of a graph by the reference interpreter, and how far a result
 * may be off.
 *
 * Integers and bools must be equal. A float may differ by
 *   tolerance * (largest magnitude in its tensor) + 8 * (rounding noise of its tensor).
 * The noise is what the reference shows of it: how far runs in f32 and in f64 are apart, and a run in f64 where all
 * that is summed is first moved by a random 2^-22 of itself and all that is rounded by half a last bit; each on the
 * graph and on its lowered form, the largest counts. Where the noise is above a thousandth of the largest
 * magnitude, the tensor says nothing and is passed over (and counted). NaN must meet NaN and infinities each other,
 * unless runs of the reference themselves disagree there. And padding: the reference leaves out what meets it, a
 * device multiplies by 0. So where a convolution of the graph has an infinity or NaN among its arguments, more may
 * be NaN than the reference says.
 */
#ifndef SINEW_TESTS_SUPPORT_PLAN_ORACLE_H
#define SINEW_TESTS_SUPPORT_PLAN_ORACLE_H

#include "ref/ref.h"

/* What is bound for a run. */
typedef struct plan_numbers {
  const int64_t *bindings; /* by symbol of the graph; may be NULL where there are none */
  /* Number i of a leaf; NULL: case_weight for floats, 0 … 3 for integers, 0 or 1 for bool. */
  double (*fill)(void *user, const char *name, sn_dtype dtype, int64_t i);
  void *user;
  double tolerance; /* of f32; 0: 1e-5. f16 and bf16 have their own. */
} plan_numbers;

double plan_number(const plan_numbers *n, const char *name, sn_dtype dtype, int64_t i);

typedef struct oracle_tensor {
  const char *name; /* of the output or of the state */
  bool assigned;    /* a state's new value */
  ref_tensor value;
  const double *others[5]; /* the other runs; NULL where there was none */
  double most, noise;
  bool spilled;
} oracle_tensor;

typedef struct plan_oracle {
  arena memory;
  int n; /* outputs, then assigns */
  oracle_tensor *tensors;
} plan_oracle;

/* The status is the reference's own: a graph may fail at these numbers. lowered may be NULL. plan_oracle_end must
 * be called whatever comes back. */
sn_status plan_oracle_run(plan_oracle *o, const sn_graph *g, const sn_graph *lowered,
                          const plan_numbers *n);
void plan_oracle_end(plan_oracle *o);
/* Whether the tensor says nothing. */
bool oracle_unsure(const oracle_tensor *t);
/* Whether data, of the tensor's dtype and count, is right; `why` says where not. */
bool oracle_accepts(const oracle_tensor *t, const plan_numbers *n, const void *data, char *why,
                    size_t size);

#endif
