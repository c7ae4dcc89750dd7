/* See element_graph.h. Elements are executed while they are built: a register is its number. One that reduces is built
 * anew for each point of its reduction. */
#include "support/element_graph.h"

#include "ir/dtype.h"
#include "ops/choose/choose.h"
#include "plan/plan.h"
#include "ref/ref.h"
#include "support/element_machine.h"

#include <stdio.h>

enum { REGISTERS = 60000, AXES = 24 };
static const double NOTHING = 777; /* what a failed check reads */

typedef struct machine {
  sn_graph *g;
  const int64_t *bindings;
  arena *memory, types; /* types: of the element that is made */
  ref_tensor *tensors;  /* by value; data NULL: not whole */
  int *users;           /* by value */
  sn_status status;
  double *registers;
  int n;
  sn_dim extents[AXES];
  int64_t point[AXES];
  int n_axes;
  /* The reduction of the element that is made. */
  bool opened, dry, whole_dry; /* dry: over nothing; reads touch nothing */
  int64_t at, count;
  double total;
} machine;

typedef struct frame {
  elem_ctx c; /* first: the services get a pointer to it */
  machine *m;
  const node *n;
  sn_type *types;
} frame;

static void broken(frame *f, const char *why) {
  if (f->m->status == SN_OK)
    f->m->status = diag_fail(f->m->g->ctx, SN_ERR_INTERNAL, "%s: element: %s", f->c.name, why);
}

static int64_t number(machine *m, sn_dim d) {
  int64_t v = 0;
  if (!dim_valid(m->g, d) || !dim_eval(m->g, d, m->bindings, &v))
    m->status = diag_fail(m->g->ctx, SN_ERR_INTERNAL, "element: a dim has no value");
  return v;
}

static reg push(frame *f, double x) {
  if (f->m->n == REGISTERS) {
    broken(f, "too many instructions");
    return 0;
  }
  f->m->registers[f->m->n] = x;
  return (reg)f->m->n++;
}

/* --- coordinates --- */

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t sum_of(frame *f, sn_dim offset, const term *terms, int n) {
  machine *m = f->m;
  int64_t sum = number(m, offset);
  for (int k = 0; k < n; k++) {
    const term *t = &terms[k];
    int64_t v = 0, mod = number(m, t->mod), div = number(m, t->div);
    if (m->dry) /* sizes to divide by may be 0 */
      div = max_i64(div, 1);
    if (t->axis == TERM_REG ? t->from >= m->n : t->axis >= m->n_axes || div <= 0)
      broken(f, "a term of no axis or register");
    else if (t->axis == TERM_REG)
      v = max_i64(min_i64((int64_t)m->registers[t->from], mod - 1), 0);
    else
      v = floor_div(m->point[t->axis], div);
    if (t->axis != TERM_REG && mod > 0)
      v -= floor_div(v, mod) * mod;
    sum += number(m, t->stride) * v;
  }
  return sum;
}

static bool passes(frame *f, int64_t v, sn_dim size, sn_dim divisor) {
  int64_t by = max_i64(number(f->m, divisor), 1);
  return v >= 0 && v % by == 0 && v / by < number(f->m, size);
}

/* --- services --- */

static frame frame_of(machine *m, const node *n);

static double load(frame *f, const ref_tensor *from, const place *at) {
  int64_t offset = 0;
  for (int d = 0; d < at->rank; d++) {
    int64_t v = sum_of(f, at->c[d].offset, at->c[d].terms, at->c[d].n);
    if (f->m->dry)
      return NOTHING;
    if (v < 0 || v >= from->dim[d]) {
      broken(f, "a load outside of its input");
      return 0;
    }
    offset = offset * from->dim[d] + v;
  }
  return dtype_round(from->dtype, from->data[offset]);
}

static reg input(elem_ctx *c, int i, const place *at) {
  frame *f = (frame *)c;
  sn_value v = f->n->in[i];
  if (i < 0 || i >= c->n_in || !v.id || at->rank != c->in[i].shape.rank) {
    broken(f, "an input that is not there, or a place of another rank");
    return push(f, 0);
  }
  for (int k = 0; k < at->n_checks; k++) {
    const coord *of = &at->checks[k].of;
    if (!passes(f, sum_of(f, of->offset, of->terms, of->n), at->checks[k].size,
                at->checks[k].divisor))
      return push(f, plan_is_contraction(f->n->op) ? 0 : NOTHING);
  }
  if (f->m->status != SN_OK)
    return push(f, 0);
  if (f->m->tensors[v.id].data)
    return push(f, load(f, &f->m->tensors[v.id], at));
  frame made = frame_of(f->m, graph_node(f->m->g, v));
  return graph_op(f->m->g, made.n)->impl->element(&made.c, at);
}

static double word(frame *f, const instr *i) {
  const double *r = f->m->registers;
  rng stream = {.key = {(uint32_t)(int32_t)r[i->a], (uint32_t)(int32_t)r[i->b]},
                .counter = (uint32_t)(int32_t)r[i->c],
                .stream = (uint32_t)(int64_t)i->x};
  return (int32_t)rng_word(&stream, (uint64_t)sum_of(f, i->at.base, i->at.terms, i->at.n_terms));
}

static double inside(frame *f, const access *at) {
  for (int k = 0; k < at->n_checks; k++) {
    const check *c = &at->checks[k];
    if (!passes(f, sum_of(f, c->offset, c->terms, c->n_terms), c->size, c->divisor))
      return 0;
  }
  return 1;
}

static double narrowed(const instr *i, double x) {
  if (i->dtype == SN_U8 && !(i->op == REGION_ALU && i->code == ALU_cast))
    return (double)((uint32_t)(int32_t)x & 0xff);
  return dtype_round((sn_dtype)i->dtype, x);
}

static reg add(elem_ctx *c, const instr *i) {
  frame *f = (frame *)c;
  const double *r = f->m->registers;
  double x = 0;
  switch ((region_op)i->op) {
  case REGION_INDEX: x = (double)sum_of(f, i->at.base, i->at.terms, i->at.n_terms); break;
  case REGION_INSIDE: x = inside(f, &i->at); break;
  case REGION_NUMBER: x = i->x; break;
  case REGION_SIZE: x = (double)number(f->m, i->size); break;
  case REGION_WORD: x = word(f, i); break;
  case REGION_ALU: x = element_alu(i, r[i->a], r[i->b], r[i->c]); break;
  default: broken(f, "an instruction that ops cannot add");
  }
  return push(f, narrowed(i, x));
}

static void axes(elem_ctx *c, int n, const sn_dim *extents, coord *out) {
  frame *f = (frame *)c;
  machine *m = f->m;
  if (m->opened || m->n_axes + n > AXES)
    broken(f, "a reduction within another, or too many axes");
  m->opened = true;
  m->count = 1;
  for (int k = 0; k < n; k++)
    m->count *= max_i64(number(m, extents[k]), 0);
  int64_t rest = m->at;
  for (int k = n - 1; k >= 0; k--) {
    int64_t size = max_i64(number(m, extents[k]), 1);
    m->extents[m->n_axes + k] = extents[k];
    m->point[m->n_axes + k] = rest % size;
    rest /= size;
    out[k] = coord_axis(m->n_axes + k);
  }
  m->n_axes += n;
  m->dry = m->dry || m->count == 0;
}

static double neutral(reduce_kind kind, bool is_float) {
  switch (kind) {
  case REDUCE_PROD:
  case REDUCE_ALL: return 1;
  case REDUCE_MAX: return is_float ? -INFINITY : (double)INT32_MIN;
  case REDUCE_MIN: return is_float ? INFINITY : (double)INT32_MAX;
  default: return 0;
  }
}

static reg reduce(elem_ctx *c, reduce_kind kind, sn_dtype dtype, reg body) {
  static const alu codes[] = {
      [REDUCE_SUM] = ALU_add, [REDUCE_PROD] = ALU_mul, [REDUCE_MAX] = ALU_max,
      [REDUCE_MIN] = ALU_min, [REDUCE_ANY] = ALU_or,   [REDUCE_ALL] = ALU_and};
  frame *f = (frame *)c;
  machine *m = f->m;
  instr i = {.op = REGION_REDUCE, .code = (uint8_t)codes[kind], .dtype = (uint8_t)dtype};
  if (!m->opened)
    broken(f, "a reduction that was not opened");
  if (dtype != SN_F32 && dtype != SN_I32 && dtype != SN_BOOL)
    broken(f, "a reduction of a dtype that has none");
  if (m->at == 0)
    m->total = neutral(kind, dtype == SN_F32);
  if (m->count > 0)
    m->total = element_alu(&i, m->total, m->registers[body], 0);
  m->dry = m->whole_dry;
  return push(f, narrowed(&i, m->total));
}

static void require_size(elem_ctx *c, sn_dim size, const char *what) {
  frame *f = (frame *)c;
  if (number(f->m, size) < 0 && f->m->status == SN_OK)
    f->m->status = diag_fail(f->m->g->ctx, SN_ERR_NUMERIC, "%s: %s", c->name, what);
}

static void require(elem_ctx *c, reg holds, reg shown, const char *message) {
  frame *f = (frame *)c;
  if (f->m->registers[holds] == 0 && !f->m->dry && f->m->status == SN_OK)
    f->m->status = diag_fail(f->m->g->ctx, SN_ERR_NUMERIC, "%s: %s (%d)", c->name, message,
                             (int)f->m->registers[shown]);
}

static const elem_services services = {input, add, axes, reduce, require_size, require};

static frame frame_of(machine *m, const node *n) {
  frame f = {.m = m, .n = n};
  f.types = arena_array(&m->types, (size_t)n->n_in + 1, sizeof *f.types);
  for (int i = 0; f.types && i < n->n_in; i++)
    f.types[i] = sn_value_type(m->g, n->in[i]);
  if (!f.types)
    m->status = SN_ERR_NO_MEMORY;
  f.c = (elem_ctx){.services = &services,
                   .graph = m->g,
                   .op = n->op,
                   .name = graph_op(m->g, n)->name,
                   .attrs = n->attrs,
                   .n_in = n->n_in,
                   .in = f.types,
                   .out = &m->g->values[n->first].type,
                   .axis_extents = m->extents};
  return f;
}

/* --- values --- */

static double element_at(machine *m, const node *n, const place *at) {
  const op_impl *impl = graph_op(m->g, n)->impl;
  double result = 0;
  m->at = 0;
  do {
    frame f = frame_of(m, n);
    m->n = 0;
    m->n_axes = at->rank;
    m->opened = false;
    m->dry = m->whole_dry;
    m->count = 1;
    reg made = impl->element(&f.c, at);
    if (made >= m->n)
      broken(&f, "there is no result");
    else
      result = m->registers[made];
    arena_clear(&m->types);
  } while (++m->at < m->count && m->status == SN_OK);
  return result;
}

static void make_whole(machine *m, const node *n) {
  ref_tensor *t = &m->tensors[n->first];
  sn_shape shape = m->g->values[n->first].type.shape;
  place at = {.rank = shape.rank};
  for (int d = 0; d < shape.rank; d++) {
    m->extents[d] = shape.dim[d];
    m->point[d] = 0;
    at.c[d] = coord_axis(d);
  }
  /* What sizes must hold to is asked of values without elements too. */
  m->whole_dry = t->count == 0;
  if (m->whole_dry)
    (void)element_at(m, n, &at);
  for (int64_t k = 0; k < t->count && m->status == SN_OK; k++) {
    int64_t index[SN_MAX_RANK];
    memcpy(index, m->point, sizeof index);
    t->data[k] = dtype_round(t->dtype, element_at(m, n, &at));
    memcpy(m->point, index, sizeof index);
    ref_next(m->point, t->dim, t->rank);
  }
}

static bool allocate(machine *m, uint32_t id) {
  ref_tensor *t = &m->tensors[id];
  sn_type type = m->g->values[id].type;
  *t = (ref_tensor){.dtype = type.dtype, .rank = type.shape.rank, .count = 1};
  for (int d = 0; d < t->rank; d++) {
    t->dim[d] = number(m, type.shape.dim[d]);
    if (t->dim[d] < 0 && m->status == SN_OK)
      m->status = diag_fail(m->g->ctx, SN_ERR_NUMERIC, "a size is negative");
    t->count *= max_i64(t->dim[d], 0);
  }
  t->data = arena_array(m->memory, (size_t)t->count + 1, sizeof *t->data);
  if (!t->data)
    m->status = SN_ERR_NO_MEMORY;
  return m->status == SN_OK;
}

static void run_core(machine *m, const node *n) {
  ref_tensor in[MAX_INPUTS] = {0};
  for (int i = 0; i < n->n_in && i < MAX_INPUTS; i++)
    if (n->in[i].id)
      in[i] = m->tensors[n->in[i].id];
  m->status = ref_node(m->g, m->bindings, REF_F32, n, in, &m->tensors[n->first]);
}

static void fill_leaf(machine *m, const node *n, element_leaf leaf, void *user) {
  ref_tensor *t = &m->tensors[n->first];
  for (int64_t i = 0; i < t->count; i++)
    t->data[i] = n->op == OP_constant
                     ? dtype_load(t->dtype, ((const attrs_constant *)n->attrs)->data.data, i)
                     : dtype_round(t->dtype, leaf(user, graph_leaf_name(m->g, n), t->dtype, i));
}

/* What reduces is not built into others; nor what many use, lest it takes for ever. */
static bool build_in(const machine *m, const node *n) {
  enum { MOST_USERS = 2 };
  static const int reducing[] = {OP_sum, OP_prod, OP_max, OP_min, OP_any, OP_all, OP_pool};
  for (size_t i = 0; i < COUNT_OF(reducing); i++)
    if (n->op == reducing[i])
      return false;
  return graph_op(m->g, n)->impl->element && !plan_is_core(n->op) && !plan_is_contraction(n->op) &&
         m->users[n->first] <= MOST_USERS;
}

static void count_users(machine *m, const bool *live) {
  for (uint32_t i = 0; i < m->g->n_nodes; i++)
    for (int k = 0; live[i] && k < m->g->nodes[i].n_in; k++)
      m->users[m->g->nodes[i].in[k].id] += plan_is_core(m->g->nodes[i].op) ? 100 : 1;
  for (int k = 0; k < m->g->n_outputs; k++)
    m->users[m->g->outputs[k].value.id] += 100;
}

static void run_node(machine *m, const node *n, bool inlined, element_leaf leaf, void *user) {
  for (int k = 0; k < n->n_out; k++)
    if (!allocate(m, n->first + (uint32_t)k))
      return;
  const op_impl *impl = graph_op(m->g, n)->impl;
  if (!impl->ref)
    fill_leaf(m, n, leaf, user);
  else if (plan_is_core(n->op))
    run_core(m, n);
  else if (impl->element)
    make_whole(m, n);
  else
    m->status = diag_fail(m->g->ctx, SN_ERR_INTERNAL, "%s is not lowered", graph_op(m->g, n)->name);
  /* It was made for what it requires; users must not see it. */
  if (inlined && build_in(m, n))
    m->tensors[n->first].data = NULL;
}

sn_status element_graph(sn_graph *lowered, const int64_t *bindings, bool inlined, element_leaf leaf,
                        void *user, arena *memory, ref_tensor *out) {
  machine m = {.g = lowered, .bindings = bindings, .memory = memory};
  arena_init(&m.types, lowered->ctx);
  bool *live = arena_array(memory, lowered->n_nodes, sizeof *live);
  m.tensors = arena_array(memory, lowered->n_values, sizeof *m.tensors);
  m.users = arena_array(memory, lowered->n_values, sizeof *m.users);
  m.registers = arena_array(memory, REGISTERS, sizeof *m.registers);
  if (!live || !m.tensors || !m.users || !m.registers)
    return SN_ERR_NO_MEMORY;
  graph_mark_live(lowered, live);
  count_users(&m, live);
  for (uint32_t i = 0; i < lowered->n_nodes && m.status == SN_OK; i++)
    if (live[i])
      run_node(&m, &lowered->nodes[i], inlined, leaf, user);
  for (int k = 0; k < lowered->n_outputs; k++)
    out[k] = m.tensors[lowered->outputs[k].value.id];
  return m.status != SN_OK ? m.status : graph_check(lowered, lowered->ctx);
}
