/* Norms: the mean of a row, then the mean of the squares of what its points differ from that by. As two reductions, one waits for the
 * other. Lanes that have their points in registers make both at once: each of its own points, around their own mean, which are then put
 * together two by two, as Chan, Golub and LeVeque do. That is no less exact than around the mean of all. See emit_rows.h. */
#include "device/vulkan/emit_rows.h"

#include <math.h>

/* The only reduction of a phase, a sum of f32; -1: it is another, or there are more. */
static int only_sum(const loop_part *p, int phase) {
  int found = -1;
  for (int i = 0; i < p->code.n; i++) {
    const instr *in = &p->code.code[i];
    if (in->op != REGION_REDUCE || in->phase != phase)
      continue;
    if (found >= 0 || in->code != REDUCE_SUM || in->dtype != SN_F32)
      return -1;
    found = i;
  }
  return found;
}

/* Whether two registers of points are the same number, in whatever phases. */
static bool is_same(const emitter *e, const loop_part *p, reg a, reg b, int depth) {
  enum { DEEP = 8 };
  const instr *x = &p->code.code[a], *y = &p->code.code[b];
  const reg args[2][3] = {{x->a, x->b, x->c}, {y->a, y->b, y->c}};
  if (a == b)
    return true;
  if (depth == DEEP || x->row || y->row || x->op != y->op || x->dtype != y->dtype)
    return false;
  if (x->op == REGION_LOAD)
    return row_is_ready(e, p, a) && row_is_ready(e, p, b) && access_same(&x->at, &y->at);
  if (x->op == REGION_INSIDE || x->op == REGION_INDEX)
    return access_same(&x->at, &y->at);
  if (x->op == REGION_NUMBER)
    return x->x == y->x;
  if (x->op != REGION_ALU || x->code != y->code || x->x != y->x || x->y != y->y)
    return false;
  for (int i = 0; i < instr_arguments(x); i++)
    if (!is_same(e, p, args[0][i], args[1][i], depth + 1))
      return false;
  return true;
}

/* Whether a row register is the mean of `points` numbers whose sum reduction `sum` is. */
static bool is_mean(const loop_part *p, reg r, int sum, double points) {
  const instr *in = &p->code.code[r];
  if (!in->row || in->op != REGION_ALU || in->code != ALU_mul || (in->a != sum && in->b != sum))
    return false;
  const instr *by = &p->code.code[in->a == sum ? in->b : in->a];
  return by->op == REGION_NUMBER && fabs(by->x * points - 1) < 1e-6;
}

bool row_has_moments(const emitter *e, const loop_part *p, const row_shape *s, int lanes) {
  int64_t points = sizes_most(&e->env, p->n_axes - p->n_outer, p->extent + p->n_outer);
  int sum = only_sum(p, 0), squares = only_sum(p, 1);
  if (sum < 0 || squares < 0 || !s->kept || s->rows > 1 || lanes == 1 ||
      points != row_points_least(e, p) || points != (int64_t)lanes * s->unroll)
    return false;
  const instr *square = &p->code.code[p->code.code[squares].a];
  if (square->op != REGION_ALU || square->code != ALU_mul || square->a != square->b)
    return false;
  const instr *apart = &p->code.code[square->a];
  return apart->op == REGION_ALU && apart->code == ALU_sub && apart->dtype == SN_F32 &&
         is_mean(p, apart->b, sum, (double)points) &&
         is_same(e, p, p->code.code[sum].a, apart->a, 0);
}

static val add_up(emitter *e, int n, val *x) {
  for (int by = 1; by < n; by *= 2)
    for (int i = 0; i + by < n; i += 2 * by)
      x[i] = k_add(e->k, x[i], x[i + by]);
  return x[0];
}

void row_reduce_moments(emitter *e, row *r, int phase) {
  kernel *k = e->k;
  const loop_part *p = r->part;
  int reduction = only_sum(p, phase), n = r->shape.unroll;
  const reg of = p->code.code[reduction].a;
  if (phase == 1) {
    e->regs[0][reduction] = r->squares;
    return;
  }
  enum { CHAINS = 4 }; /* beside each other */
  val sums[CHAINS] = {0}, squares[CHAINS] = {0};
  for (int u = 0; u < n; u++)
    sums[u % CHAINS] = u < CHAINS ? e->regs[u][of] : k_add(k, sums[u % CHAINS], e->regs[u][of]);
  val sum = add_up(e, n < CHAINS ? n : CHAINS, sums);
  val mean = k_mul(k, sum, k_f32(k, 1 / (float)n));
  for (int u = 0; u < n; u++) {
    val apart = k_sub(k, e->regs[u][of], mean), *to = &squares[u % CHAINS];
    *to = u < CHAINS ? k_mul(k, apart, apart) : k_fma(k, apart, apart, *to);
  }
  val all = add_up(e, n < CHAINS ? n : CHAINS, squares);
  emit_reduce_moments(e, &r->threads, n, &sum, &all);
  e->regs[0][reduction] = sum;
  r->squares = all;
}
