/* See element_machine.h. Recording gives a list of slots, one a register; `axes` opens a stretch of it that its `reduce` closes and that
 * is executed once a point of these axes. */
#include "support/element_machine.h"

#include "ir/dtype.h"
#include "ops/choose/choose.h"

#include <stdio.h>

enum { SLOTS = 4096, AXES = 64, DEPTH = 8 };

typedef enum slot_kind { SLOT_INSTR, SLOT_INPUT, SLOT_OPEN, SLOT_REDUCE } slot_kind;
typedef struct slot {
  slot_kind kind;
  instr i;
  const place *at; /* SLOT_INPUT */
  int input;
  int first_axis, n_axes, end; /* SLOT_OPEN: slot `end` reduces over these axes */
  const char *message;         /* of REGION_REQUIRE */
} slot;

typedef struct machine {
  elem_ctx c; /* first: the services get a pointer to it */
  sn_ctx *ctx;
  arena memory;
  const int64_t *bindings;
  const ref_tensor *in;
  sn_status status;
  slot *slots;
  double *values;
  int n;
  sn_dim extents[AXES];
  int64_t point[AXES];
  int n_axes;
  int open[DEPTH], n_open;
  bool dry; /* over a reduction of nothing: registers get some value, loads touch nothing */
} machine;

static void broken(machine *m, const char *why) {
  if (m->status == SN_OK)
    m->status = diag_fail(m->ctx, SN_ERR_INTERNAL, "%s: element: %s", m->c.name, why);
}

static int64_t number(machine *m, sn_dim d) {
  int64_t v = 0;
  if (!dim_valid(m->c.graph, d) || !dim_eval(m->c.graph, d, m->bindings, &v))
    broken(m, "a dim has no value");
  return v;
}

/* --- recording --- */

static void *keep(machine *m, const void *from, size_t size) {
  void *copy = arena_copy(&m->memory, from, size);
  if (!copy && m->status == SN_OK)
    m->status = SN_ERR_NO_MEMORY;
  return copy;
}

static reg push(machine *m, slot s) {
  if (m->n == SLOTS) {
    broken(m, "too many instructions");
    return 0;
  }
  m->slots[m->n] = s;
  return (reg)m->n++;
}

static void check_terms(machine *m, const term *t, int n) {
  for (int k = 0; k < n; k++)
    if (t[k].axis == TERM_REG ? t[k].from >= m->n : t[k].axis >= m->n_axes || t[k].div == 0)
      broken(m, "a term of no axis or register");
}

static reg input(elem_ctx *c, int i, const place *at) {
  machine *m = (machine *)c;
  if (i < 0 || i >= c->n_in || c->in[i].dtype == SN_NO_DTYPE || at->rank != c->in[i].shape.rank)
    broken(m, "an input that is not there, or a place of another rank");
  for (int d = 0; d < at->rank; d++)
    check_terms(m, at->c[d].terms, at->c[d].n);
  for (int k = 0; k < at->n_checks; k++)
    check_terms(m, at->checks[k].of.terms, at->checks[k].of.n);
  return push(m, (slot){.kind = SLOT_INPUT, .input = i, .at = keep(m, at, sizeof *at)});
}

static reg add(elem_ctx *c, const instr *i) {
  machine *m = (machine *)c;
  slot s = {.kind = SLOT_INSTR, .i = *i};
  const reg arguments[] = {i->a, i->b, i->c};
  for (int k = 0; k < instr_arguments(i); k++)
    if (arguments[k] >= m->n)
      broken(m, "a register that is not there");
  if (i->op == REGION_LOAD || i->op == REGION_STORE || i->op == REGION_REDUCE ||
      i->op == REGION_ACC || i->at.value != 0 || i->at.n_terms > ACCESS_TERMS)
    broken(m, "an instruction that ops cannot add");
  check_terms(m, i->at.terms, i->at.n_terms);
  s.i.at.terms = keep(m, i->at.terms, (size_t)i->at.n_terms * sizeof(term));
  check *checks = keep(m, i->at.checks, (size_t)i->at.n_checks * sizeof(check));
  for (int k = 0; checks && k < i->at.n_checks; k++)
    checks[k].terms = keep(m, checks[k].terms, (size_t)checks[k].n_terms * sizeof(term));
  s.i.at.checks = checks;
  return push(m, s);
}

static void axes(elem_ctx *c, int n, const sn_dim *extents, coord *out) {
  machine *m = (machine *)c;
  if (m->n_axes + n > AXES || m->n_open == DEPTH) {
    broken(m, "too many axes");
    memset(out, 0, (size_t)n * sizeof *out);
    return;
  }
  m->open[m->n_open++] = m->n;
  (void)push(m, (slot){.kind = SLOT_OPEN, .first_axis = m->n_axes, .n_axes = n});
  for (int k = 0; k < n; k++) {
    m->extents[m->n_axes] = extents[k];
    out[k] = coord_axis(m->n_axes++);
  }
}

static reg reduce(elem_ctx *c, reduce_kind kind, sn_dtype dtype, reg body) {
  machine *m = (machine *)c;
  if (m->n_open == 0) {
    broken(m, "a reduction that was not opened");
    return 0;
  }
  m->slots[m->open[--m->n_open]].end = m->n;
  slot s = {.kind = SLOT_REDUCE};
  s.i = (instr){.op = REGION_REDUCE, .code = (uint8_t)kind, .dtype = (uint8_t)dtype, .a = body};
  return push(m, s);
}

static void require_size(elem_ctx *c, sn_dim size, const char *what) {
  machine *m = (machine *)c;
  if (number(m, size) < 0 && m->status == SN_OK)
    m->status = diag_fail(m->ctx, SN_ERR_NUMERIC, "%s: %s", c->name, what);
}

static void require(elem_ctx *c, reg holds, reg shown, const char *message) {
  machine *m = (machine *)c;
  slot s = {.kind = SLOT_INSTR, .message = message};
  s.i = (instr){.op = REGION_REQUIRE, .dtype = SN_BOOL, .a = holds, .b = shown};
  (void)push(m, s);
}

static const elem_services services = {input, add, axes, reduce, require_size, require};

/* --- executing --- */

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t sum_of(machine *m, sn_dim offset, const term *terms, int n) {
  int64_t sum = number(m, offset);
  for (int k = 0; k < n; k++) {
    const term *t = &terms[k];
    int64_t v, mod = number(m, t->mod);
    if (t->axis == TERM_REG) {
      v = (int64_t)m->values[t->from];
      v = max_i64(min_i64(v, mod - 1), 0);
    } else {
      v = floor_div(m->point[t->axis], max_i64(number(m, t->div), 1));
      v = mod ? v - floor_div(v, mod) * mod : v;
    }
    sum += number(m, t->stride) * v;
  }
  return sum;
}

static bool passes(machine *m, sn_dim offset, const term *terms, int n, sn_dim size,
                   sn_dim divisor) {
  int64_t v = sum_of(m, offset, terms, n), by = max_i64(number(m, divisor), 1);
  return v >= 0 && v % by == 0 && v / by < number(m, size);
}

static double load(machine *m, const slot *s) {
  const ref_tensor *from = &m->in[s->input];
  int64_t offset = 0;
  for (int k = 0; k < s->at->n_checks; k++) {
    const coord *of = &s->at->checks[k].of;
    if (!passes(m, of->offset, of->terms, of->n, s->at->checks[k].size, s->at->checks[k].divisor))
      return 0;
  }
  for (int d = 0; d < s->at->rank; d++) {
    const coord *at = &s->at->c[d];
    int64_t v = sum_of(m, at->offset, at->terms, at->n);
    if (m->dry)
      return 0;
    if (v < 0 || v >= from->dim[d]) {
      broken(m, "a load outside of its input");
      return 0;
    }
    offset = offset * from->dim[d] + v;
  }
  return m->dry ? 0 : dtype_round(from->dtype, from->data[offset]);
}

static double word(machine *m, const instr *i) {
  rng r = {.key = {(uint32_t)(int32_t)m->values[i->a], (uint32_t)(int32_t)m->values[i->b]},
           .counter = (uint32_t)(int32_t)m->values[i->c],
           .stream = (uint32_t)(int64_t)i->x};
  int64_t index = sum_of(m, i->at.base, i->at.terms, i->at.n_terms);
  return (int32_t)rng_word(&r, (uint64_t)index);
}

static double inside(machine *m, const instr *i) {
  for (int k = 0; k < i->at.n_checks; k++) {
    const check *c = &i->at.checks[k];
    if (!passes(m, c->offset, c->terms, c->n_terms, c->size, c->divisor))
      return 0;
  }
  return 1;
}

static void demand(machine *m, const slot *s) {
  if (m->values[s->i.a] != 0 || m->dry || m->status != SN_OK)
    return;
  /* the message is a format with one %d at most */
  char with[256];
  const char *at = strstr(s->message, "%d");
  int head = at ? (int)(at - s->message) : (int)strlen(s->message);
  snprintf(with, sizeof with, "%d", (int)m->values[s->i.b]);
  m->status = diag_fail(m->ctx, SN_ERR_NUMERIC, "%s: %.*s%s%s", m->c.name, head, s->message,
                        at ? with : "", at ? at + 2 : "");
}

static double execute_instr(machine *m, const slot *s) {
  const instr *i = &s->i;
  switch ((region_op)i->op) {
  case REGION_INDEX: return (double)sum_of(m, i->at.base, i->at.terms, i->at.n_terms);
  case REGION_INSIDE: return inside(m, i);
  case REGION_NUMBER: return i->x;
  case REGION_SIZE: return (double)number(m, i->size);
  case REGION_WORD: return word(m, i);
  case REGION_REQUIRE: demand(m, s); return m->values[i->a];
  default: return element_alu(i, m->values[i->a], m->values[i->b], m->values[i->c]);
  }
}

/* What an instruction's dtype makes of its result. */
static double narrowed(const instr *i, double x) {
  if (i->dtype == SN_U8 && !(i->op == REGION_ALU && i->code == ALU_cast))
    return (double)((uint32_t)(int32_t)x & 0xff);
  return dtype_round((sn_dtype)i->dtype, x);
}

static double neutral(reduce_kind kind, bool is_float) {
  const double far = is_float ? (double)INFINITY : (double)INT32_MAX;
  switch (kind) {
  case REDUCE_PROD:
  case REDUCE_ALL: return 1;
  case REDUCE_MAX: return is_float ? -far : (double)INT32_MIN;
  case REDUCE_MIN: return far;
  default: return 0;
  }
}

static double combine(const instr *i, double a, double b) {
  static const alu codes[] = {
      [REDUCE_SUM] = ALU_add, [REDUCE_PROD] = ALU_mul, [REDUCE_MAX] = ALU_max,
      [REDUCE_MIN] = ALU_min, [REDUCE_ANY] = ALU_or,   [REDUCE_ALL] = ALU_and};
  instr step = *i;
  step.code = (uint8_t)codes[i->code];
  return element_alu(&step, a, b, 0);
}

static void execute(machine *m, int from, int to);

static void execute_reduction(machine *m, int opened) {
  const slot *o = &m->slots[opened];
  const instr *r = &m->slots[o->end].i;
  int64_t dim[AXES], count = 1, *point = m->point + o->first_axis;
  double total = neutral((reduce_kind)r->code, instr_is_float(r));
  for (int k = 0; k < o->n_axes; k++) {
    dim[k] = number(m, m->extents[o->first_axis + k]);
    count *= max_i64(dim[k], 0);
    point[k] = 0;
  }
  if (count == 0) {
    bool was = m->dry;
    m->dry = true;
    execute(m, opened + 1, o->end);
    m->dry = was;
  }
  for (int64_t k = 0; k < count && m->status == SN_OK; k++) {
    execute(m, opened + 1, o->end);
    total = combine(r, total, m->values[r->a]);
    ref_next(point, dim, o->n_axes);
  }
  m->values[o->end] = narrowed(r, total);
}

static void execute(machine *m, int from, int to) {
  for (int k = from; k < to && m->status == SN_OK; k++) {
    const slot *s = &m->slots[k];
    if (s->kind == SLOT_OPEN) {
      execute_reduction(m, k);
      k = s->end;
    } else {
      m->values[k] = s->kind == SLOT_INPUT ? load(m, s) : narrowed(&s->i, execute_instr(m, s));
    }
  }
}

/* --- a node --- */

static sn_status start(machine *m, sn_graph *g, const node *n) {
  sn_type *types = arena_array(&m->memory, (size_t)n->n_in + 1, sizeof *types);
  m->slots = arena_array(&m->memory, SLOTS, sizeof *m->slots);
  m->values = arena_array(&m->memory, SLOTS, sizeof *m->values);
  if (!types || !m->slots || !m->values)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < n->n_in; i++)
    types[i] = n->in[i].id ? g->values[n->in[i].id].type : (sn_type){.dtype = SN_NO_DTYPE};
  m->c = (elem_ctx){.services = &services,
                    .graph = g,
                    .op = n->op,
                    .name = g->table->ops[n->op].name,
                    .attrs = n->attrs,
                    .n_in = n->n_in,
                    .in = types,
                    .out = &g->values[n->first].type,
                    .axis_extents = m->extents};
  return SN_OK;
}

static sn_status run_all(machine *m, ref_tensor *out, const op_impl *impl) {
  sn_shape shape = m->c.out[0].shape;
  place at = {.rank = shape.rank};
  for (int d = 0; d < shape.rank; d++) {
    m->extents[d] = shape.dim[d];
    at.c[d] = coord_axis(m->n_axes++);
  }
  reg result = impl->element(&m->c, &at);
  if (m->n_open > 0 || result >= m->n)
    broken(m, "a reduction stays open, or there is no result");
  for (int64_t k = 0; k < out->count && m->status == SN_OK; k++) {
    execute(m, 0, m->n);
    out->data[k] = m->values[result];
    ref_next(m->point, out->dim, out->rank);
  }
  return m->status != SN_OK ? m->status : graph_check(m->c.graph, m->ctx);
}

sn_status element_node(sn_graph *graph, const int64_t *bindings, const node *n,
                       const ref_tensor *in, ref_tensor *out) {
  machine *m = mem_alloc(graph->ctx, sizeof *m);
  if (!m)
    return SN_ERR_NO_MEMORY;
  m->ctx = graph->ctx;
  m->bindings = bindings;
  m->in = in;
  arena_init(&m->memory, graph->ctx);
  sn_status status = start(m, graph, n);
  if (status == SN_OK)
    status = run_all(m, out, graph->table->ops[n->op].impl);
  arena_clear(&m->memory);
  mem_free(graph->ctx, m, sizeof *m);
  return status;
}
