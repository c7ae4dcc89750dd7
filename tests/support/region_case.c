/* See region_case.h. */
#include "support/region_case.h"

#include "base/philox.h"
#include "support/element_machine.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

/* --- building --- */
region_case *region_case_create(void) {
  region_case *c = calloc(1, sizeof *c);
  if (sn_ctx_create(NULL, &c->ctx) != SN_OK)
    abort();
  c->program.values = c->values;
  c->program.n_values = 1;
  c->part.n_phases = 1;
  c->part.code.code = c->code;
  return c;
}

void region_case_destroy(region_case *c) {
  for (uint32_t v = 1; v < c->program.n_values; v++) {
    if (!c->values[v].in_place_of) {
      free(c->data[v]);
      free(c->expected[v]);
    }
  }
  for (int i = 0; i < CASE_ISAS; i++)
    for (uint32_t v = 1; v < c->program.n_values; v++)
      free(c->of_isa[i][v]);
  sn_ctx_destroy(c->ctx);
  free(c);
}

sn_dim region_size(region_case *c, int handle, int64_t value) {
  c->sizes[handle] = value;
  return DIM_HANDLES - handle;
}

uint32_t region_value(region_case *c, sn_dtype dtype, int64_t count, const double *values) {
  uint32_t v = c->program.n_values++;
  size_t bytes = (size_t)count * sn_dtype_size(dtype);
  c->values[v] = (program_value){.type = {.dtype = dtype}, .count = count, .bytes = (int64_t)bytes};
  c->data[v] = malloc(bytes ? bytes : 1);
  c->expected[v] = malloc((size_t)count * sizeof(double) + 1);
  for (int64_t i = 0; i < count; i++) {
    dtype_store(dtype, c->data[v], i, values ? values[i] : 99);
    c->expected[v][i] = dtype_load(dtype, c->data[v], i);
  }
  return v;
}

uint32_t region_value_at(region_case *c, uint32_t of) {
  uint32_t v = c->program.n_values++;
  c->values[v] = c->values[of];
  c->values[v].in_place_of = of;
  c->data[v] = c->data[of];
  c->expected[v] = c->expected[of];
  return v;
}

reg region_emit(region_case *c, instr i) {
  i.phase = (uint8_t)c->phase;
  i.row = c->row;
  c->code[c->part.code.n] = i;
  return (reg)c->part.code.n++;
}

access region_access(region_case *c, uint32_t value, sn_dim base, int n_terms, const term *terms) {
  access a = {.value = value, .base = base, .n_terms = n_terms, .terms = &c->terms[c->n_terms]};
  for (int i = 0; i < n_terms; i++)
    c->terms[c->n_terms++] = terms[i];
  a.checks = &c->checks[c->n_checks];
  return a;
}

void region_add_check(region_case *c, access *a, check k) {
  const term *terms = k.terms;
  k.terms = &c->terms[c->n_terms];
  for (int i = 0; i < k.n_terms; i++)
    c->terms[c->n_terms++] = terms[i];
  c->checks[c->n_checks++] = k;
  a->n_checks++;
}

static access plain(region_case *c, uint32_t value, sn_dim base, int n, const sn_dim *strides) {
  term terms[REGION_AXES];
  int n_terms = 0;
  for (int i = 0; i < n; i++)
    if (strides[i] != 0)
      terms[n_terms++] = (term){.axis = (uint8_t)i, .stride = strides[i], .div = 1};
  return region_access(c, value, base, n_terms, terms);
}

reg region_load(region_case *c, uint32_t value, sn_dim base, int n, const sn_dim *strides) {
  return region_emit(c, (instr){.op = REGION_LOAD,
                                .dtype = (uint8_t)c->values[value].type.dtype,
                                .at = plain(c, value, base, n, strides)});
}
reg region_store(region_case *c, uint32_t value, reg a, sn_dim base, int n, const sn_dim *strides) {
  return region_emit(c, (instr){.op = REGION_STORE,
                                .dtype = c->code[a].dtype,
                                .a = a,
                                .at = plain(c, value, base, n, strides)});
}
reg region_alu(region_case *c, alu code, sn_dtype dtype, reg a, reg b, reg d) {
  return region_emit(c, (instr){.op = REGION_ALU,
                                .code = (uint8_t)code,
                                .dtype = (uint8_t)dtype,
                                .a = a,
                                .b = b,
                                .c = d});
}
reg region_number(region_case *c, sn_dtype dtype, double x) {
  return region_emit(c, (instr){.op = REGION_NUMBER, .dtype = (uint8_t)dtype, .x = x});
}
reg region_reduce(region_case *c, reduce_kind kind, sn_dtype dtype, reg a) {
  return region_emit(
      c, (instr){.op = REGION_REDUCE, .code = (uint8_t)kind, .dtype = (uint8_t)dtype, .a = a});
}

/* --- running --- */
static bool is_own(const region_case *c, uint32_t v) { return !c->values[v].in_place_of; }

/* Copies of all data, or back again. */
static void copy_data(region_case *c, void **saved, bool back) {
  for (uint32_t v = 1; v < c->program.n_values; v++) {
    size_t bytes = (size_t)c->values[v].bytes;
    if (!is_own(c, v))
      continue;
    if (!saved[v])
      saved[v] = malloc(bytes + 1);
    memcpy(back ? c->data[v] : saved[v], back ? saved[v] : c->data[v], bytes);
  }
}

static void free_data(region_case *c, void **saved) {
  for (uint32_t v = 1; v < c->program.n_values; v++)
    free(saved[v]);
}

static bool same_data(const region_case *c, void *const *saved) {
  for (uint32_t v = 1; v < c->program.n_values; v++)
    if (is_own(c, v) && memcmp(saved[v], c->data[v], (size_t)c->values[v].bytes) != 0)
      return FAIL("value %u: other bits on %d threads with %s", v, c->run.threads,
                  c->run.isa->name);
  return true;
}

/* From `before`, on 1 to 4 threads; what one thread makes of it stays in `after` and in the data. */
static sn_status run_isa(region_case *c, const step *s, void **before, void **after) {
  bool failed = false;
  int32_t shown = 0;
  for (int threads = 1; threads <= 4; threads++) {
    copy_data(c, before, true);
    c->run.threads = threads;
    SN_TRY(cpu_case_run(&c->run, s));
    if (threads == 1) {
      copy_data(c, after, false);
      failed = c->run.failed, shown = c->run.shown;
    }
    CHECK(c->run.failed == failed && (!failed || c->run.shown == shown));
    if (!same_data(c, after))
      break;
  }
  return SN_OK;
}

sn_status region_case_run(region_case *c, int n_axes, const sn_dim *extents) {
  void *before[CASE_VALUES] = {0};
  c->part.n_axes = n_axes;
  for (int i = 0; i < n_axes; i++)
    c->part.extent[i] = extents[i];
  part p = {.u.loop = c->part};
  step s = {.kind = c->part.n_outer ? STEP_ROW : STEP_POINTWISE, .n_parts = 1, .parts = &p};
  c->run.ctx = c->ctx;
  c->run.program = &c->program;
  c->run.sizes = c->sizes;
  c->run.addresses = c->data;
  copy_data(c, before, false);
  int n = 0;
  sn_status status = SN_OK;
  while (cpu_isa_at(n))
    n++;
  for (int i = n - 1; i >= 0 && status == SN_OK; i--) { /* the best last */
    c->run.isa = cpu_isa_at(i);
    status = run_isa(c, &s, before, c->of_isa[i]);
  }
  free_data(c, before);
  return status;
}

/* --- the interpreter --- */
typedef struct naive {
  region_case *c;
  int64_t at[REGION_AXES], extent[REGION_AXES];
  double regs[REGION_MAX], acc[REGION_MAX];
} naive;

static int64_t value_of(const naive *n, sn_dim d) { return size_at(n->c->sizes, d); }

static int64_t sum_of(const naive *n, sn_dim base, int n_terms, const term *terms) {
  int64_t v = value_of(n, base);
  for (int i = 0; i < n_terms; i++) {
    const term *t = &terms[i];
    int64_t mod = value_of(n, t->mod), q;
    if (t->axis == TERM_REG) {
      q = (int64_t)n->regs[t->from];
      q = q < 0 ? 0 : q > mod - 1 ? mod - 1 : q;
    } else {
      q = n->at[t->axis] / value_of(n, t->div);
      q = mod ? q % mod : q;
    }
    v += value_of(n, t->stride) * q;
  }
  return v;
}

static bool is_inside(const naive *n, const access *a) {
  for (int i = 0; i < a->n_checks; i++) {
    const check *k = &a->checks[i];
    int64_t v = sum_of(n, k->offset, k->n_terms, k->terms), by = value_of(n, k->divisor);
    if (v % by != 0 || v / by < 0 || v / by >= value_of(n, k->size))
      return false;
  }
  return true;
}

static double rounded(sn_dtype dtype, double x) {
  return dtype == SN_U8 ? (double)((int64_t)x & 255) : dtype_round(dtype, x);
}

static double word_of(const naive *n, const instr *i) {
  uint64_t number = (uint64_t)sum_of(n, i->at.base, i->at.n_terms, i->at.terms);
  uint32_t key[2] = {(uint32_t)(int64_t)n->regs[i->a], (uint32_t)(int64_t)n->regs[i->b]};
  uint32_t x[4] = {(uint32_t)(number / 4), (uint32_t)(number / 4 >> 32),
                   (uint32_t)(int64_t)n->regs[i->c], (uint32_t)(int64_t)i->x};
  philox(key, x);
  return (int32_t)x[number % 4];
}

static double neutral(const instr *i) {
  bool floats = instr_is_float(i);
  switch ((reduce_kind)i->code) {
  case REDUCE_MAX: return floats ? (double)-INFINITY : INT32_MIN;
  case REDUCE_MIN: return floats ? (double)INFINITY : INT32_MAX;
  case REDUCE_PROD:
  case REDUCE_ALL: return 1;
  default: return 0;
  }
}

static double combined(const instr *i, double acc, double x) {
  instr op = {.op = REGION_ALU, .dtype = i->dtype};
  switch ((reduce_kind)i->code) {
  case REDUCE_SUM: op.code = ALU_add; break;
  case REDUCE_PROD: op.code = ALU_mul; break;
  case REDUCE_MAX: op.code = ALU_max; break;
  case REDUCE_MIN: op.code = ALU_min; break;
  case REDUCE_ANY: op.code = ALU_or; break;
  case REDUCE_ALL: op.code = ALU_and; break;
  }
  return element_alu(&op, acc, x, 0);
}

static void interpret(naive *n, int k) {
  const instr *i = &n->c->code[k];
  double a = n->regs[i->a], b = n->regs[i->b], d = n->regs[i->c], *out = &n->regs[k];
  int64_t number = sum_of(n, i->at.base, i->at.n_terms, i->at.terms);
  switch ((region_op)i->op) {
  case REGION_LOAD:
    *out = is_inside(n, &i->at) && number < n->c->values[i->at.value].count
               ? n->c->expected[i->at.value][number]
               : 0;
    break;
  case REGION_STORE:
    n->c->expected[i->at.value][number] = dtype_round(n->c->values[i->at.value].type.dtype, a);
    *out = a;
    break;
  case REGION_INDEX: *out = (int32_t)number; break;
  case REGION_INSIDE: *out = is_inside(n, &i->at); break;
  case REGION_NUMBER: *out = dtype_round((sn_dtype)i->dtype, i->x); break;
  case REGION_SIZE: *out = dtype_round((sn_dtype)i->dtype, (double)value_of(n, i->size)); break;
  case REGION_ALU:
    *out = element_alu(i, a, b, d);
    *out = i->code == ALU_cast ? dtype_round((sn_dtype)i->dtype, *out)
                               : rounded((sn_dtype)i->dtype, *out);
    break;
  case REGION_WORD: *out = word_of(n, i); break;
  case REGION_REDUCE: n->acc[k] = combined(i, n->acc[k], a); break;
  case REGION_ACC: break;
  case REGION_REQUIRE:
    n->c->failed |= a == 0;
    *out = a;
    break;
  }
}

static void interpret_all(naive *n, int phase, bool row) {
  for (int k = 0; k < n->c->part.code.n; k++)
    if (n->c->code[k].phase == phase && n->c->code[k].row == row)
      interpret(n, k);
}

/* Calls f at every point of axes first … end-1. */
static void each_point(naive *n, int axis, int end, void (*f)(naive *n, int phase), int phase) {
  if (axis == end) {
    f(n, phase);
    return;
  }
  for (n->at[axis] = 0; n->at[axis] < n->extent[axis]; n->at[axis]++)
    each_point(n, axis + 1, end, f, phase);
  n->at[axis] = 0;
}

static void point(naive *n, int phase) { interpret_all(n, phase, false); }

static void row(naive *n, int unused) {
  const loop_part *p = &n->c->part;
  (void)unused;
  for (int phase = 0; phase <= p->n_phases; phase++) {
    interpret_all(n, phase, true);
    if (phase == p->n_phases)
      return;
    for (int k = 0; k < p->code.n; k++)
      n->acc[k] = neutral(&n->c->code[k]);
    each_point(n, p->n_outer, p->n_axes, point, phase);
    for (int k = 0; k < p->code.n; k++)
      if (n->c->code[k].op == REGION_REDUCE && n->c->code[k].phase == phase)
        n->regs[k] = rounded((sn_dtype)n->c->code[k].dtype, n->acc[k]);
  }
}

static bool check_value(const region_case *c, int isa, uint32_t v, double tolerance) {
  const void *data = c->of_isa[isa][v] ? c->of_isa[isa][v] : c->data[v];
  for (int64_t i = 0; i < c->values[v].count; i++) {
    double got = dtype_load(c->values[v].type.dtype, data, i), want = c->expected[v][i];
    if (isnan(got) && isnan(want))
      continue;
    if (got == want || fabs(got - want) <= tolerance * fmax(1, fabs(want)))
      continue;
    return FAIL("%s: value %u, element %lld: expected %.9g, got %.9g", cpu_isa_at(isa)->name, v,
                (long long)i, want, got);
  }
  return true;
}

bool region_case_check(region_case *c, double tolerance) {
  naive *n = calloc(1, sizeof *n);
  n->c = c;
  for (int i = 0; i < c->part.n_axes; i++)
    n->extent[i] = value_of(n, c->part.extent[i]);
  each_point(n, 0, c->part.n_outer, row, 0);
  free(n);
  for (int i = 0; cpu_isa_at(i); i++)
    for (uint32_t v = 1; v < c->program.n_values; v++)
      if (is_own(c, v) && !check_value(c, i, v, tolerance))
        return false;
  return CHECK(c->failed == c->run.failed);
}
