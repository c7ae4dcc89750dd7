/* See evaluate.h. */
#include "spike/evaluate.h"

#include "base/half.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

typedef union lane {
  float f;
  int32_t i;
} lane;

typedef struct machine {
  const eval_env *env;
  int64_t axis[REGION_AXES];
  float acc[8];
  lane reg[REGION_MAX];
  const instr *code;
} machine;

static int64_t size_of(const machine *m, sn_dim d) { return size_at(m->env->sizes, d); }
static bool is_float(int dtype) { return dtype == SN_F32 || dtype == SN_F16 || dtype == SN_BF16; }

/* --- places --- */

static int64_t term_value(const machine *m, const term *t) {
  int64_t mod = size_of(m, t->mod), i;
  if (t->axis == TERM_REG) {
    i = m->reg[t->from].i;
    i = i > mod - 1 ? mod - 1 : i;
    i = i < 0 ? 0 : i;
  } else {
    i = m->axis[t->axis] / size_of(m, t->div);
    i = t->mod != 0 ? i % mod : i;
  }
  return i * size_of(m, t->stride);
}

static int64_t linear(const machine *m, sn_dim base, int n, const term *terms) {
  int64_t sum = size_of(m, base);
  for (int k = 0; k < n; k++)
    sum += term_value(m, &terms[k]);
  return sum;
}

static bool inside(const machine *m, const access *at) {
  for (int k = 0; k < at->n_checks; k++) {
    const check *c = &at->checks[k];
    int64_t v = linear(m, c->offset, c->n_terms, c->terms), by = size_of(m, c->divisor);
    if (v < 0 || v % by != 0 || v / by >= size_of(m, c->size))
      return false;
  }
  return true;
}

/* --- elements --- */

static lane rounded(lane x, int dtype) {
  if (dtype == SN_F16)
    x.f = half_to_f32(half_from_f32(x.f));
  if (dtype == SN_BF16)
    x.f = bf16_to_f32(bf16_from_f32(x.f));
  if (dtype == SN_U8)
    x.i &= 255;
  return x;
}

static lane load(const machine *m, const instr *i) {
  lane x = {.i = 0};
  if (!inside(m, &i->at))
    return x;
  for (int k = 0; k < i->at.n_terms; k++)
    if (i->at.terms[k].axis == TERM_REG && size_of(m, i->at.terms[k].mod) == 0)
      return x;
  const void *data = m->env->data[i->at.value];
  int64_t at = linear(m, i->at.base, i->at.n_terms, i->at.terms);
  switch (m->env->dtypes[i->at.value]) {
  case SN_F16: x.f = half_to_f32(((const uint16_t *)data)[at]); break;
  case SN_BF16: x.f = bf16_to_f32(((const uint16_t *)data)[at]); break;
  case SN_U8: x.i = ((const uint8_t *)data)[at]; break;
  case SN_BOOL: x.i = ((const uint8_t *)data)[at] != 0; break;
  default: memcpy(&x, (const char *)data + 4 * at, 4);
  }
  return x;
}

static int32_t saturated(double x, double lo, double hi) {
  return x != x ? 0 : (int32_t)(x < lo ? lo : x > hi ? hi : trunc(x));
}

static lane cast(lane a, int from, int to) {
  double x = is_float(from) ? (double)a.f : (double)a.i;
  lane r;
  if (is_float(to))
    r.f = (float)x;
  else if (to == SN_BOOL)
    r.i = x != 0;
  else
    r.i = to == SN_U8 ? saturated(x, 0, 255) : saturated(x, INT32_MIN, INT32_MAX);
  return rounded(r, to);
}

static void store(machine *m, const instr *i) {
  int to = m->env->dtypes[i->at.value];
  lane x = cast(m->reg[i->a], m->code[i->a].dtype, to);
  char *data = m->env->data[i->at.value];
  int64_t at = linear(m, i->at.base, i->at.n_terms, i->at.terms);
  uint16_t half = to == SN_F16 ? half_from_f32(x.f) : bf16_from_f32(x.f);
  if (to == SN_F16 || to == SN_BF16)
    memcpy(data + 2 * at, &half, 2);
  else if (to == SN_U8 || to == SN_BOOL)
    ((uint8_t *)data)[at] = (uint8_t)x.i;
  else
    memcpy(data + 4 * at, &x, 4);
}

/* --- arithmetic --- */

static double remainder_of(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static double unary(int code, double a) {
  switch (code) {
  case ALU_neg: return -a;
  case ALU_abs: return fabs(a);
  case ALU_sign: return a != a ? a : (a > 0) - (a < 0);
  case ALU_recip: return 1 / a;
  case ALU_sqrt: return sqrt(a);
  case ALU_rsqrt: return 1 / sqrt(a);
  case ALU_exp: return exp(a);
  case ALU_exp2: return exp2(a);
  case ALU_expm1: return expm1(a);
  case ALU_log: return log(a);
  case ALU_log2: return log2(a);
  case ALU_log1p: return log1p(a);
  case ALU_sin: return sin(a);
  case ALU_cos: return cos(a);
  case ALU_tan: return tan(a);
  case ALU_atan: return atan(a);
  case ALU_tanh: return tanh(a);
  case ALU_sigmoid: return 1 / (1 + exp(-a));
  case ALU_softplus: return fmax(a, 0) + log1p(exp(-fabs(a)));
  case ALU_erf: return erf(a);
  case ALU_floor: return floor(a);
  case ALU_ceil: return ceil(a);
  default: return rint(a);
  }
}

static double binary(int code, double a, double b) {
  switch (code) {
  case ALU_add: return a + b;
  case ALU_sub: return a - b;
  case ALU_mul: return a * b;
  case ALU_div: return a / b;
  case ALU_floor_div: return floor((double)((float)a / (float)b));
  case ALU_rem: return remainder_of(a, b);
  case ALU_fmod: return fmod(a, b);
  case ALU_pow: return pow(a, b);
  case ALU_max: return a != a || a > b ? a : b;
  case ALU_min: return a != a || a < b ? a : b;
  default: return atan2(a, b);
  }
}

/* Wide enough that nothing overflows before it wraps. */
static int32_t int_alu(int code, int64_t a, int64_t b) {
  int64_t q = b ? a / b : 0, r = b ? a % b : 0;
  bool mixed = r != 0 && (r < 0) != (b < 0);
  int64_t x = 0;
  switch (code) {
  case ALU_neg: x = -a; break;
  case ALU_abs: x = a < 0 ? -a : a; break;
  case ALU_sign: x = (a > 0) - (a < 0); break;
  case ALU_add: x = a + b; break;
  case ALU_sub: x = a - b; break;
  case ALU_mul: x = a * b; break;
  case ALU_max: x = a > b ? a : b; break;
  case ALU_min: x = a < b ? a : b; break;
  case ALU_div: x = q; break;
  case ALU_floor_div: x = q - mixed; break;
  case ALU_fmod: x = r; break;
  default: x = mixed ? r + b : r;
  }
  return (int32_t)(uint32_t)(uint64_t)x;
}

static bool compare(int code, double a, double b) {
  switch (code) {
  case ALU_eq: return a == b;
  case ALU_ne: return a != b;
  case ALU_lt: return a < b;
  case ALU_le: return a <= b;
  case ALU_gt: return a > b;
  default: return a >= b;
  }
}

static float gauss(uint32_t a, uint32_t b, bool second) {
  double r = sqrt(-2 * log((a >> 8) * 0x1p-24 + 0x1p-24));
  double t = 6.283185307179586 * ((b >> 8) * 0x1p-24);
  return (float)(r * (second ? sin(t) : cos(t)));
}

/* (a * 2^32 + b) * y >> 64 */
static uint32_t range(uint64_t a, uint64_t b, uint64_t y) {
  return (uint32_t)((a * y + (b * y >> 32)) >> 32);
}

static lane alu_value(const machine *m, const instr *i) {
  lane a = m->reg[i->a], b = m->reg[i->b], c = m->reg[i->c], r = {.i = 0};
  bool from_float = is_float(m->code[i->a].dtype);
  double x = from_float ? (double)a.f : a.i, y = from_float ? (double)b.f : b.i;
  switch (i->code) {
  case ALU_isnan: r.i = x != x; return r;
  case ALU_isinf: r.i = isinf(x) != 0; return r;
  case ALU_not: r.i = !a.i; return r;
  case ALU_cast: return cast(a, m->code[i->a].dtype, i->dtype);
  case ALU_unit: r.f = (float)((uint32_t)a.i >> 8) * 0x1p-24f; return r;
  case ALU_eq:
  case ALU_ne:
  case ALU_lt:
  case ALU_le:
  case ALU_gt:
  case ALU_ge: r.i = compare(i->code, x, y); return r;
  case ALU_and: r.i = a.i && b.i; return r;
  case ALU_or: r.i = a.i || b.i; return r;
  case ALU_xor: r.i = a.i != b.i; return r;
  case ALU_range_int:
    r.i = (int32_t)(range((uint32_t)a.i, (uint32_t)b.i, (uint64_t)i->y) + (uint32_t)(int64_t)i->x);
    return r;
  case ALU_bits_below: r.i = ((uint32_t)a.i >> 8) < i->x; return r;
  case ALU_select: return a.i ? b : c;
  case ALU_gauss: r.f = gauss((uint32_t)a.i, (uint32_t)b.i, c.i != 0); return r;
  default: break;
  }
  if (!is_float(i->dtype))
    r.i = int_alu(i->code, a.i, b.i);
  else if (alu_table[i->code].arguments == 1)
    r.f = (float)unary(i->code, x);
  else
    r.f = (float)binary(i->code, x, y);
  return rounded(r, i->dtype);
}

static int32_t word(const machine *m, const instr *i) {
  uint64_t index = (uint64_t)linear(m, i->at.base, i->at.n_terms, i->at.terms), block = index / 4;
  uint32_t key[2] = {(uint32_t)m->reg[i->a].i, (uint32_t)m->reg[i->b].i};
  uint32_t x[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)m->reg[i->c].i,
                   (uint32_t)(int64_t)i->x};
  philox(key, x);
  return (int32_t)x[index % 4];
}

/* --- regions and parts --- */

static lane number(const instr *i, double x) {
  lane r;
  if (is_float(i->dtype))
    r.f = (float)x;
  else
    r.i = (int32_t)x;
  return r;
}

static lane step_of(machine *m, const instr *i) {
  lane r = {.i = 0};
  switch ((region_op)i->op) {
  case REGION_LOAD: return load(m, i);
  case REGION_STORE: store(m, i); return m->reg[i->a];
  case REGION_INDEX: r.i = (int32_t)linear(m, i->at.base, i->at.n_terms, i->at.terms); break;
  case REGION_INSIDE: r.i = inside(m, &i->at); break;
  case REGION_NUMBER: return number(i, i->x);
  case REGION_SIZE: return number(i, (double)size_of(m, i->size));
  case REGION_ALU: return alu_value(m, i);
  case REGION_WORD: r.i = word(m, i); break;
  case REGION_ACC: r.f = m->acc[i->index]; break;
  case REGION_REQUIRE:
    if (!m->reg[i->a].i && !m->env->failure[0]) {
      m->env->failure[0] = i->index + 1;
      m->env->failure[1] = (uint32_t)m->reg[i->b].i;
    }
    return m->reg[i->a];
  case REGION_REDUCE: break;
  }
  return r;
}

static lane run(machine *m, const region *r) {
  m->code = r->code;
  for (int k = 0; k < r->n; k++)
    m->reg[k] = step_of(m, &r->code[k]);
  return m->reg[r->n - 1];
}

/* The next point of the axes first … first + n; false behind the last, where all are 0 again. */
static bool advance(machine *m, int first, int n, const sn_dim *extents) {
  for (int d = n - 1; d >= 0; d--) {
    if (++m->axis[first + d] < size_of(m, extents[d]))
      return true;
    m->axis[first + d] = 0;
  }
  return false;
}

static bool any_point(const machine *m, int n, const sn_dim *extents) {
  for (int d = 0; d < n; d++)
    if (size_of(m, extents[d]) == 0)
      return false;
  return true;
}

/* --- rows --- */

static double reduced(const instr *i, double sum, lane x) {
  double y = is_float(i->dtype) ? (double)x.f : x.i;
  if (i->dtype == SN_I32 && i->code <= REDUCE_PROD) /* wraps */
    return int_alu(i->code == REDUCE_SUM ? ALU_add : ALU_mul, (int64_t)sum, x.i);
  switch (i->code) {
  case REDUCE_SUM: return sum + y;
  case REDUCE_PROD: return sum * y;
  case REDUCE_MAX: return binary(ALU_max, sum, y);
  case REDUCE_MIN: return binary(ALU_min, sum, y);
  case REDUCE_ANY: return sum != 0 || y != 0;
  default: return sum != 0 && y != 0;
  }
}

static double neutral(const instr *i) {
  bool floats = is_float(i->dtype);
  switch (i->code) {
  case REDUCE_MAX: return floats ? (double)-INFINITY : INT32_MIN;
  case REDUCE_MIN: return floats ? (double)INFINITY : INT32_MAX;
  case REDUCE_PROD:
  case REDUCE_ALL: return 1;
  default: return 0;
  }
}

/* Instructions of a phase at one point, or those of the row. */
static void run_phase(machine *m, const loop_part *p, int phase, bool row, double *sums) {
  for (int k = 0; k < p->code.n; k++) {
    const instr *i = &p->code.code[k];
    if (i->phase != phase || i->row != row)
      continue;
    if (i->op == REGION_REDUCE)
      sums[k] = reduced(i, sums[k], m->reg[i->a]);
    else
      m->reg[k] = step_of(m, i);
  }
}

static void run_row(machine *m, const loop_part *p) {
  static double sums[REGION_MAX];
  int n = p->n_axes - p->n_outer;
  const sn_dim *inner = p->extent + p->n_outer;
  m->code = p->code.code;
  for (int k = 0; k < p->code.n; k++)
    sums[k] = neutral(&p->code.code[k]);
  for (int phase = 0; phase <= p->n_phases; phase++) {
    run_phase(m, p, phase, true, sums);
    if (phase < p->n_phases && any_point(m, n, inner))
      do
        run_phase(m, p, phase, false, sums);
      while (advance(m, p->n_outer, n, inner));
    for (int k = 0; k < p->code.n; k++)
      if (p->code.code[k].op == REGION_REDUCE && p->code.code[k].phase == phase)
        m->reg[k] = number(&p->code.code[k], sums[k]);
  }
}

void eval_loop(const loop_part *p, const eval_env *env) {
  static machine m;
  m = (machine){.env = env};
  if (any_point(&m, p->n_outer, p->extent))
    do
      run_row(&m, p);
    while (advance(&m, 0, p->n_outer, p->extent));
}

static double product_at(machine *m, int first_k, const matmul_product *p) {
  double sum = 0;
  if (any_point(m, p->n_k, p->k))
    do {
      float a = run(m, &p->a).f, b = run(m, &p->b).f;
      sum += (double)a * (double)b;
    } while (advance(m, first_k, p->n_k, p->k));
  return sum;
}

void eval_matmul(const matmul_part *p, const eval_env *env) {
  static machine m;
  int n = p->n_batch + p->n_m + p->n_n;
  m = (machine){.env = env};
  if (!any_point(&m, n, p->extent))
    return;
  do {
    for (int i = 0; i < p->n_accs; i++) {
      double sum = 0;
      for (int k = 0; k < p->accs[i].n_products; k++)
        sum += product_at(&m, n, &p->accs[i].products[k]);
      m.acc[i] = (float)sum;
    }
    run(&m, &p->epilogue);
  } while (advance(&m, 0, n, p->extent));
}
