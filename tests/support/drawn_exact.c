/* See drawn_exact.h. */
#include "support/drawn_exact.h"

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ops/table.h"
#include "support/case.h"
#include "support/drawn_ops.h"

#include <math.h>
#include <stdio.h>

/* What is left where two rounded numbers as large as the arguments cancel, as in the tail of gelu. */
static const double CANCELLED = 0x1p-21;
static const double NOISE = 8, TOLERANCE = 1e-5, SAYS_NOTHING = 1e-3, HUGE_MOST = 0x1p60,
                    TINY_GRAIN = 0x1p-60, OVERFLOWS = 0x1p100;

/* One node under judgement. */
typedef struct judged_node {
  exact_judge *j;
  const node *n;
  uint32_t index;
  ref_tensor in[64];
  const exact_value *arg[64];
  exact_value *out;
  arena scratch;
  double err;         /* the largest of its arguments */
  double most, grain; /* of its arguments */
  bool pure, finite;
} judged_node;

static double grain_of(double x) {
  int e;
  double f = frexp(fabs(x), &e); /* in [½, 1) */
  int64_t whole = (int64_t)ldexp(f, 53);
  while (whole && whole % 2 == 0) {
    whole /= 2;
    e++;
  }
  return ldexp(1, e - 53);
}

/* From the numbers themselves. */
static void measure(exact_value *v) {
  v->most = 0;
  v->grain = HUGE_MOST;
  for (int64_t i = 0; i < v->t.count; i++) {
    double x = v->t.data[i];
    if (!isfinite(x) || x == 0)
      continue;
    v->most = fmax(v->most, fabs(x));
    v->grain = fmin(v->grain, grain_of(x));
  }
  if (v->most == 0)
    v->grain = 1;
}

static bool exact_size(exact_judge *j, uint32_t id) {
  ref_tensor *t = &j->values[id].t;
  const sn_type *type = &j->g->values[id].type;
  *t = (ref_tensor){.dtype = type->dtype, .rank = type->shape.rank, .count = 1};
  for (int d = 0; d < t->rank; d++)
    if (!dim_eval(j->g, type->shape.dim[d], j->numbers->bindings, &t->dim[d]) || t->dim[d] < 0 ||
        !mul_fits(t->count, t->dim[d], &t->count))
      return false;
  return true;
}

/* --- runs of the reference --- */

static bool has_data(const judged_node *k) {
  for (int i = 0; i < k->n->n_in; i++)
    if (k->n->in[i].id && !k->in[i].data)
      return false;
  return true;
}

/* Another run: its results, or NULL where it fails. */
static double *run_again(judged_node *k, const ref_tensor *in, ref_mode mode, int result) {
  ref_tensor out[MAX_RESULTS];
  for (int r = 0; r < k->n->n_out; r++) {
    out[r] = k->out[r].t;
    out[r].data = arena_array(&k->scratch, (size_t)out[r].count, sizeof(double));
    if (!out[r].data)
      return NULL;
  }
  return ref_node(k->j->g, k->j->numbers->bindings, mode, k->n, in, out) == SN_OK ? out[result].data
                                                                                  : NULL;
}

static bool is_float(const ref_tensor *t) { return t->data && dtype_is_float(t->dtype); }

/* Arguments moved by their errors, and by `relative` of themselves: way 0 all up, way 1 all down, others at random, one of them
 * to 0 where that is as near. */
enum { TO_ZERO = 4 };

static bool moved_arguments(judged_node *k, int way, double relative, ref_tensor *to) {
  for (int i = 0; i < k->n->n_in; i++) {
    to[i] = k->in[i];
    if (!is_float(&to[i]))
      continue;
    char name[32];
    snprintf(name, sizeof name, "move%u.%d.%d", k->index, i, way);
    to[i].data = arena_array(&k->scratch, (size_t)to[i].count, sizeof(double));
    if (!to[i].data)
      return false;
    for (int64_t e = 0; e < to[i].count; e++) {
      double x = k->in[i].data[e], by = way == 0 ? 1 : way == 1 ? -1 : case_weight(name, e);
      if (way == TO_ZERO && fabs(x) <= 1.01 * k->arg[i]->err)
        continue;
      to[i].data[e] = isfinite(x) ? x + 1.01 * by * k->arg[i]->err + relative * by * x : x;
    }
  }
  return true;
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* Whether moving the arguments by their errors changes nothing. */
static bool stands_firm(judged_node *k, int result) {
  if (k->n->op == OP_eq || k->n->op == OP_ne)
    return false;
  for (int way = 0; way <= TO_ZERO; way++) {
    ref_tensor in[64];
    const double *again = moved_arguments(k, way, 0, in) ? run_again(k, in, REF_F32, result) : NULL;
    for (int64_t e = 0; e < k->out[result].t.count; e++)
      if (!again || !same(k->out[result].t.data[e], again[e]))
        return false;
  }
  return true;
}

static double usual_tolerance(sn_dtype dtype) {
  return dtype == SN_F16 ? 0x1p-9 : dtype == SN_BF16 ? 0x1p-6 : TOLERANCE;
}

/* A rounded result: its own tolerance, and what moved arguments show. */
static void judge_smooth(judged_node *k, int result) {
  exact_value *v = &k->out[result];
  double far = 0;
  measure(v);
  for (int way = 1; way < 4; way++) {
    ref_tensor in[64];
    const double *again =
        moved_arguments(k, way, 0x1p-22, in) ? run_again(k, in, REF_F64, result) : NULL;
    for (int64_t e = 0; e < v->t.count; e++) {
      double x = v->t.data[e], y = again ? again[e] : 0;
      bool kind = isfinite(x) ? isfinite(y) && fabs(y) < 0x1p120 : same(x, y);
      far = again && kind ? fmax(far, isfinite(x) ? fabs(x - y) : 0) : INFINITY;
    }
  }
  v->err = usual_tolerance(v->t.dtype) * v->most + CANCELLED * fmax(1, k->most) + NOISE * far;
  double most_said = fmax(SAYS_NOTHING, 4 * usual_tolerance(v->t.dtype)) * v->most;
  /* The log-sum-exp of a row is rounded once, for all its targets: with large ones of both signs little is left but that. */
  if (k->n->op == OP_cross_entropy_dist && k->most > 64)
    v->err = INFINITY;
  if (v->err > most_said || (v->t.dtype == SN_F16 && v->most > 30000))
    v->err = INFINITY;
  if (v->most == 0 && far == 0) /* zeros, infinities and NaN */
    v->err = CANCELLED;
}

/* --- sums and products --- */

static double whole_numbers(sn_dtype dtype) {
  return dtype == SN_F16 ? 0x1p11 : dtype == SN_BF16 ? 0x1p8 : 0x1p24;
}

/* The sum of the magnitudes of all terms: what the op gives of arguments that are as large as any everywhere. */
static double bound_by_reference(judged_node *k, int result) {
  ref_tensor in[64];
  double bound = 0;
  for (int i = 0; i < k->n->n_in; i++) {
    in[i] = k->in[i];
    if (!is_float(&in[i]))
      continue;
    double fill = k->n->op == OP_sub && i == 1 ? -k->arg[i]->most : k->arg[i]->most;
    in[i].data = arena_array(&k->scratch, (size_t)in[i].count, sizeof(double));
    for (int64_t e = 0; in[i].data && e < in[i].count; e++)
      in[i].data[e] = fill;
    if (!in[i].data)
      return INFINITY;
  }
  const double *sums = run_again(k, in, REF_F64, result);
  for (int64_t e = 0; e < k->out[result].t.count; e++)
    bound = sums && isfinite(sums[e]) ? fmax(bound, fabs(sums[e])) : INFINITY;
  return bound;
}

static int64_t terms(const judged_node *k, int result) {
  int64_t out = k->out[result].t.count;
  return out ? k->in[0].count / out : 1;
}

static double product_grain(const judged_node *k, int result) {
  int op = k->n->op;
  if (op == OP_sqr)
    return k->grain * k->grain;
  if (op == OP_prod || op == OP_cumprod)
    return pow(k->grain, (double)(op == OP_prod ? terms(k, result) : k->in[0].count));
  double g = k->arg[0]->grain * k->arg[1]->grain;
  return k->n->n_in > 2 && k->arg[2] ? fmin(g, k->arg[2]->grain) : g;
}

/* Scaled by powers of two, or not at all; NaN: by something else. */
static double linear_grain(const judged_node *k, int result) {
  if (k->n->op == OP_affine) {
    const attrs_affine *a = k->n->attrs;
    double g = a->mul == 0 ? k->grain : k->grain * grain_of(a->mul);
    return a->add == 0 ? g : fmin(g, grain_of(a->add));
  }
  if (k->n->op == OP_mean) {
    int64_t n = terms(k, result);
    return n > 0 && (n & (n - 1)) == 0 ? k->grain / (double)n : NAN;
  }
  return k->grain;
}

static double linear_most(judged_node *k, int result) {
  if (k->n->op == OP_affine) {
    const attrs_affine *a = k->n->attrs;
    return fabs(a->mul) * k->most + fabs(a->add);
  }
  return k->n->op == OP_neg ? k->most : bound_by_reference(k, result);
}

static void judge_sum(judged_node *k, int result, bool product) {
  exact_value *v = &k->out[result];
  double grain = product ? product_grain(k, result) : linear_grain(k, result);
  double most = fmax(linear_most(k, result), grain);
  bool small = v->t.dtype != SN_F16 || (most < 32768 && grain >= 0x1p-14);
  bool fits = most / grain <= whole_numbers(v->t.dtype) && most < HUGE_MOST && grain > TINY_GRAIN;
  /* A part of it may overflow where the whole does not, or become 0 before it meets an infinity. */
  if (product && (!(most < OVERFLOWS) || (!k->finite && !(grain > TINY_GRAIN)))) {
    v->err = INFINITY;
    return;
  }
  if (k->err > 0 || !fits || !small) {
    judge_smooth(k, result);
    return;
  }
  v->err = 0;
  v->most = most;
  v->grain = grain;
}

/* --- where signs of zeros show, and quotients --- */

static bool has_zero(const ref_tensor *t) {
  for (int64_t e = 0; t->data && e < t->count; e++)
    if (t->data[e] == 0)
      return true;
  return false;
}

static bool shows_sign_of_zero(const judged_node *k) {
  int a = -1, b = -1;
  switch (k->n->op) {
  case OP_recip:
  case OP_rsqrt:
  case OP_powf: a = 0; break;
  case OP_div:
  case OP_floor_div:
  case OP_rem:
  case OP_fmod: b = 1; break;
  case OP_pow:
  case OP_atan2:
    a = 0;
    b = 1;
    break;
  default: return false;
  }
  return (a >= 0 && !k->arg[a]->pure && has_zero(&k->in[a])) ||
         (b >= 0 && !k->arg[b]->pure && has_zero(&k->in[b]));
}

static bool has_negative(const ref_tensor *t) {
  for (int64_t e = 0; e < t->count; e++)
    if (t->data[e] < 0)
      return true;
  return false;
}

static bool powers_of_two(const ref_tensor *t) {
  for (int64_t e = 0; e < t->count; e++) {
    int exponent;
    if (!isfinite(t->data[e]) || t->data[e] == 0 || fabs(frexp(t->data[e], &exponent)) != 0.5)
      return false;
  }
  return true;
}

/* a / b where b is made of powers of two only; otherwise the quotient is rounded. */
static void judge_quotient(judged_node *k, int result) {
  exact_value *v = &k->out[result];
  const exact_value *b = k->arg[k->n->op == OP_recip ? 0 : 1];
  double a_most = k->n->op == OP_recip ? 1 : k->arg[0]->most;
  double a_grain = k->n->op == OP_recip ? 1 : k->arg[0]->grain;
  double most = a_most / b->grain, grain = a_grain / b->most;
  if (k->err > 0 || !powers_of_two(&b->t) || !(most / grain <= whole_numbers(v->t.dtype)) ||
      most > 0x1p14 || grain < 0x1p-14) {
    judge_smooth(k, result);
    return;
  }
  v->err = 0;
  v->most = most;
  v->grain = grain;
}

/* Remainders jump where the quotient is near a whole number without being one. */
static bool quotients_are_clear(const judged_node *k) {
  const exact_value *v = &k->out[0];
  int64_t index[SN_MAX_RANK] = {0};
  for (int64_t e = 0; e < v->t.count; e++) {
    int64_t at[2];
    for (int i = 0; i < 2; i++) {
      int64_t offset = 0, stride = 1;
      for (int d = v->t.rank - 1, own = k->in[i].rank - 1; own >= 0; d--, own--) {
        offset += (k->in[i].dim[own] == 1 ? 0 : index[d]) * stride;
        stride *= k->in[i].dim[own];
      }
      at[i] = offset;
    }
    double a = k->in[0].data[at[0]], b = k->in[1].data[at[1]], q = a / b;
    if (isfinite(q) && (fabs(q) > 0x1p20 || (fmod(a, b) != 0 && fabs(q - rint(q)) < 1e-4)))
      return false;
    for (int d = v->t.rank - 1; d >= 0 && ++index[d] == v->t.dim[d]; d--)
      index[d] = 0;
  }
  return true;
}

/* --- one node --- */

static void judge_choice(judged_node *k, int result, bool follows) {
  exact_value *v = &k->out[result];
  measure(v);
  if (k->err == 0)
    v->err = 0;
  else if (follows && dtype_is_float(v->t.dtype))
    v->err = k->err;
  else
    v->err = stands_firm(k, result) ? 0 : INFINITY;
}

static void judge_move(judged_node *k, int result) {
  exact_value *v = &k->out[result];
  measure(v);
  v->err = k->err;
  v->most = fmax(v->most, k->most);
  v->grain = fmin(v->grain, k->grain);
  v->pure = k->pure;
}

static exact_kind kind_of(const judged_node *k) {
  exact_kind kind = drawn_op_row(k->n->op)->exact;
  if (k->n->op == OP_pool) {
    sn_pool_kind pool = ((const attrs_pool *)k->n->attrs)->kind;
    return pool == SN_POOL_MAX || pool == SN_POOL_MIN ? EXACT_STEP
           : pool == SN_POOL_SUM                      ? EXACT_LINEAR
                                                      : EXACT_SMOOTH;
  }
  if (k->n->op == OP_cast)
    return k->err > 0 && dtype_is_float(k->out->t.dtype) ? EXACT_SMOOTH : EXACT_STEP;
  return kind;
}

static void judge_result(judged_node *k, int result) {
  exact_value *v = &k->out[result];
  int op = k->n->op;
  v->err = 0;
  if (!dtype_is_float(v->t.dtype) && k->err == 0) {
    measure(v);
    return;
  }
  if ((op == OP_div || op == OP_recip) && dtype_is_float(v->t.dtype)) {
    judge_quotient(k, result);
    return;
  }
  /* Powers of what is below 0 are numbers at whole exponents only. */
  if (op == OP_pow && k->arg[1]->err > 0 && has_negative(&k->in[0])) {
    v->err = INFINITY;
    return;
  }
  bool divides = op == OP_floor_div || op == OP_rem || op == OP_fmod;
  if (divides && (k->err > 0 || !quotients_are_clear(k))) {
    v->err = INFINITY;
    return;
  }
  switch (kind_of(k)) {
  case EXACT_MOVE: judge_move(k, result); break;
  case EXACT_LINEAR: judge_sum(k, result, false); break;
  case EXACT_PRODUCT: judge_sum(k, result, true); break;
  case EXACT_EXTREME: judge_choice(k, result, true); break;
  case EXACT_LEAF:
  case EXACT_STEP: judge_choice(k, result, false); break;
  case EXACT_SMOOTH: judge_smooth(k, result); break;
  }
}

/* Devices multiply by 0 what the reference leaves out: then an infinity becomes NaN. */
static bool spills(int op) {
  static const int ops[] = {OP_conv,
                            OP_conv_transpose,
                            OP_conv_grad_input,
                            OP_conv_grad_weight,
                            OP_adaptive_avg_pool,
                            OP_upsample_linear,
                            OP_pool_grad,
                            OP_attention,
                            OP_attention_grad};
  for (size_t i = 0; i < COUNT_OF(ops); i++)
    if (ops[i] == op)
      return true;
  return false;
}

static void look_at_arguments(judged_node *k) {
  k->pure = k->finite = true;
  k->grain = HUGE_MOST;
  for (int i = 0; i < k->n->n_in; i++) {
    const exact_value *a = k->arg[i];
    if (!a)
      continue;
    k->err = fmax(k->err, a->err);
    k->pure = k->pure && a->pure;
    if (!dtype_is_float(a->t.dtype))
      continue;
    k->most = fmax(k->most, a->most);
    k->grain = fmin(k->grain, a->grain);
    for (int64_t e = 0; e < a->t.count && k->finite; e++)
      k->finite = isfinite(a->t.data[e]);
  }
  if (k->most == 0)
    k->grain = fmin(k->grain, 1);
}

static bool judge_op(judged_node *k) {
  const node *n = k->n;
  bool said = n->n_in <= 64;
  for (int i = 0; said && i < n->n_in; i++) {
    k->arg[i] = n->in[i].id ? &k->j->values[n->in[i].id] : NULL;
    k->in[i] = k->arg[i] ? k->arg[i]->t : (ref_tensor){0};
    if (k->arg[i] && k->arg[i]->failed)
      for (int r = 0; r < n->n_out; r++)
        k->out[r].failed = true;
    said = !k->arg[i] || exact_says(k->arg[i]);
  }
  for (int r = 0; r < n->n_out && said; r++)
    said = exact_size(k->j, n->first + (uint32_t)r) && k->out[r].t.count <= EXACT_MOST_ELEMENTS;
  for (int r = 0; r < n->n_out; r++) {
    k->out[r].err = INFINITY;
    k->out[r].t.data = NULL;
  }
  if (!said || !has_data(k))
    return true;
  for (int r = 0; r < n->n_out; r++) {
    k->out[r].t.data = arena_array(&k->j->memory, (size_t)k->out[r].t.count, sizeof(double));
    if (!k->out[r].t.data)
      return false;
  }
  ref_tensor out[MAX_RESULTS];
  for (int r = 0; r < n->n_out; r++)
    out[r] = k->out[r].t;
  if (ref_node(k->j->g, k->j->numbers->bindings, REF_F32, n, k->in, out) != SN_OK) {
    for (int r = 0; r < n->n_out; r++)
      k->out[r].failed = true;
    return true;
  }
  look_at_arguments(k);
  if ((spills(n->op) && !k->finite) || shows_sign_of_zero(k))
    return true;
  for (int r = 0; r < n->n_out; r++)
    judge_result(k, r);
  return true;
}

static bool judge_leaf(exact_judge *j, const node *n) {
  exact_value *v = &j->values[n->first];
  if (!exact_size(j, n->first) || v->t.count > EXACT_MOST_ELEMENTS) {
    v->err = INFINITY;
    return true;
  }
  v->t.data = arena_array(&j->memory, (size_t)v->t.count, sizeof(double));
  const char *name = n->op == OP_constant ? "" : graph_leaf_name(j->g, n);
  for (int64_t i = 0; v->t.data && i < v->t.count; i++)
    v->t.data[i] = n->op == OP_constant
                       ? dtype_load(v->t.dtype, ((const attrs_constant *)n->attrs)->data.data, i)
                       : dtype_round(v->t.dtype, plan_number(j->numbers, name, v->t.dtype, i));
  v->pure = true;
  if (v->t.data)
    measure(v);
  return v->t.data != NULL;
}

void exact_start(exact_judge *j, const sn_graph *g, const plan_numbers *numbers) {
  *j = (exact_judge){.g = g, .numbers = numbers};
  arena_init(&j->memory, g->ctx);
}

static bool grow(exact_judge *j) {
  if (j->g->n_values > j->cap_values) {
    uint32_t cap = j->g->n_values * 2;
    exact_value *more = arena_array(&j->memory, cap, sizeof *more);
    if (!more)
      return false;
    if (j->n_values)
      memcpy(more, j->values, j->n_values * sizeof *more);
    j->values = more;
    j->cap_values = cap;
  }
  j->n_values = j->g->n_values;
  return true;
}

bool exact_go_on(exact_judge *j) {
  if (!grow(j))
    return false;
  for (; j->n_nodes < j->g->n_nodes; j->n_nodes++) {
    const node *n = &j->g->nodes[j->n_nodes];
    judged_node k = {.j = j, .n = n, .index = j->n_nodes, .out = &j->values[n->first]};
    arena_init(&k.scratch, j->g->ctx);
    bool ok = graph_op(j->g, n)->impl->ref ? judge_op(&k) : judge_leaf(j, n);
    arena_clear(&k.scratch);
    if (!ok)
      return false;
  }
  return true;
}

void exact_end(exact_judge *j) { arena_clear(&j->memory); }

bool exact_accepts(const exact_value *v, int64_t i, double got) {
  double expected = v->t.data[i];
  if (v->err == 0 || !isfinite(expected) || !isfinite(got))
    return same(expected, got);
  return fabs(expected - got) <= v->err;
}
