/* See program_bytes.h. Each struct has a function that writes its fields or reads them (xfer.h). */
#include "compile/program_bytes.h"

#include "compile/xfer.h"

static void xfer_type(xfer *x, sn_type *t) {
  t->dtype = (sn_dtype)xfer_below(x, (uint64_t)t->dtype, SN_DTYPE_COUNT, "an unknown dtype");
  xfer_small(x, &t->shape.rank, SN_MAX_RANK, "too many axes");
  xfer_dims(x, t->shape.dim, t->shape.rank);
}

/* --- regions --- */

static void xfer_term(xfer *x, term *t, int n_registers) {
  bool by_register = t->axis == TERM_REG;
  xfer_bool(x, &by_register);
  if (by_register) {
    t->axis = TERM_REG;
    t->from = (reg)xfer_below(x, t->from, (uint64_t)n_registers, "a register that is not there");
  } else {
    xfer_byte(x, &t->axis, (unsigned)x->n_axes, "an axis that is not there");
  }
  xfer_dim(x, &t->stride);
  xfer_dim(x, &t->div);
  xfer_dim(x, &t->mod);
}

static void xfer_terms(xfer *x, int *n, const term **terms, int n_registers) {
  term *list = (term *)(uintptr_t)*terms;
  *n = xfer_count(x, *n, ACCESS_TERMS, sizeof *list, &list);
  for (int i = 0; i < *n; i++)
    xfer_term(x, &list[i], n_registers);
  *terms = list;
}

static void xfer_access(xfer *x, access *a, int n_registers) {
  check *checks = (check *)(uintptr_t)a->checks;
  xfer_value(x, &a->value);
  xfer_dim(x, &a->base);
  xfer_terms(x, &a->n_terms, &a->terms, n_registers);
  a->n_checks = xfer_count(x, a->n_checks, ACCESS_CHECKS, sizeof *checks, &checks);
  for (int i = 0; i < a->n_checks; i++) {
    xfer_terms(x, &checks[i].n_terms, &checks[i].terms, n_registers);
    xfer_dim(x, &checks[i].offset);
    xfer_dim(x, &checks[i].size);
    xfer_dim(x, &checks[i].divisor);
  }
  a->checks = checks;
}

static void xfer_register(xfer *x, reg *r, int n_registers) {
  *r = (reg)xfer_below(x, *r, (uint64_t)(n_registers ? n_registers : 1),
                       "a register that is not there");
}

/* Instruction number `at`, which may name the registers before it. */
static void xfer_instr(xfer *x, instr *i, int at) {
  xfer_byte(x, &i->op, REGION_REQUIRE + 1, "an unknown instruction");
  unsigned codes = i->op == REGION_ALU ? ALU_COUNT : REDUCE_ALL + 1;
  xfer_byte(x, &i->code, codes, "an unknown operation");
  xfer_byte(x, &i->dtype, SN_DTYPE_COUNT, "an unknown dtype");
  xfer_byte(x, &i->phase, 255, "too many phases");
  xfer_bool(x, &i->row);
  xfer_register(x, &i->a, at);
  xfer_register(x, &i->b, at);
  xfer_register(x, &i->c, at);
  uint64_t sites = i->op == REGION_REQUIRE ? (uint64_t)x->p->n_sites : UINT32_MAX;
  i->index = (uint32_t)xfer_below(x, i->index, sites, "a message that is not there");
  xfer_dim(x, &i->size);
  xfer_double(x, &i->x);
  xfer_double(x, &i->y);
  xfer_access(x, &i->at, at);
}

static void xfer_region(xfer *x, region *r, int n_axes) {
  x->n_axes = n_axes;
  instr *code = (instr *)(uintptr_t)r->code;
  r->n = xfer_count(x, r->n, REGION_MAX, sizeof *code, &code);
  for (int i = 0; i < r->n; i++)
    xfer_instr(x, &code[i], i);
  r->code = code;
}

/* --- parts --- */

static void xfer_loop(xfer *x, loop_part *l) {
  xfer_small(x, &l->n_axes, REGION_AXES, "too many axes");
  xfer_small(x, &l->n_outer, l->n_axes, "too many axes");
  xfer_small(x, &l->n_phases, 255, "too many phases");
  xfer_dims(x, l->extent, l->n_axes);
  xfer_region(x, &l->code, l->n_axes);
}

static void xfer_products(xfer *x, matmul_acc *a, int n_axes) {
  matmul_product *list = (matmul_product *)(uintptr_t)a->products;
  a->n_products = xfer_count(x, a->n_products, 0, sizeof *list, &list);
  for (int i = 0; i < a->n_products; i++) {
    xfer_small(x, &list[i].n_k, SN_MAX_RANK, "too many axes");
    xfer_dims(x, list[i].k, list[i].n_k);
    xfer_region(x, &list[i].a, n_axes + list[i].n_k);
    xfer_region(x, &list[i].b, n_axes + list[i].n_k);
  }
  a->products = list;
}

static void xfer_matmul(xfer *x, matmul_part *m) {
  xfer_small(x, &m->n_batch, REGION_AXES, "too many axes");
  xfer_small(x, &m->n_m, REGION_AXES - m->n_batch, "too many axes");
  xfer_small(x, &m->n_n, REGION_AXES - m->n_batch - m->n_m, "too many axes");
  xfer_bool(x, &m->gradient);
  int n_axes = m->n_batch + m->n_m + m->n_n;
  xfer_dims(x, m->extent, n_axes);
  matmul_acc *list = (matmul_acc *)(uintptr_t)m->accs;
  m->n_accs = xfer_count(x, m->n_accs, 0, sizeof *list, &list);
  for (int i = 0; i < m->n_accs; i++)
    xfer_products(x, &list[i], n_axes);
  m->accs = list;
  xfer_region(x, &m->epilogue, n_axes);
}

static void xfer_operand(xfer *x, strided *s) {
  xfer_value(x, &s->value);
  xfer_byte(x, &s->dtype, SN_DTYPE_COUNT, "an unknown dtype");
  xfer_small(x, &s->rank, SN_MAX_RANK, "too many axes");
  xfer_dims(x, s->dim, s->rank);
  xfer_dims(x, s->stride, s->rank);
  xfer_dim(x, &s->base);
}

static void xfer_core(xfer *x, core_part *c) {
  xfer_small(x, &c->n_in, CORE_INS, "too many operands");
  xfer_small(x, &c->n_out, CORE_OUTS, "too many results");
  for (int i = 0; i < c->n_in; i++)
    xfer_operand(x, &c->in[i]);
  for (int i = 0; i < c->n_out; i++)
    xfer_operand(x, &c->out[i]);
  for (int i = 0; i < CORE_NUMBERS; i++) {
    xfer_int64(x, &c->ints[i]);
    xfer_double(x, &c->reals[i]);
  }
}

static void xfer_step(xfer *x, step *s) {
  s->kind = (archetype)xfer_below(x, s->kind, STEP_ARCHETYPES, "an unknown archetype");
  xfer_bool(x, &s->barrier);
  part *parts = (part *)(uintptr_t)s->parts;
  s->n_parts = xfer_count(x, s->n_parts, 0, sizeof *parts, &parts);
  for (int i = 0; i < s->n_parts; i++) {
    if (s->kind == STEP_POINTWISE || s->kind == STEP_ROW)
      xfer_loop(x, &parts[i].u.loop);
    else if (s->kind == STEP_MATMUL)
      xfer_matmul(x, &parts[i].u.matmul);
    else
      xfer_core(x, &parts[i].u.core);
  }
  s->parts = parts;
  uint32_t *after = (uint32_t *)(uintptr_t)s->after;
  s->n_after = xfer_count(x, s->n_after, 0, sizeof *after, &after);
  for (int i = 0; i < s->n_after; i++)
    xfer_value(x, &after[i]);
  s->after = after;
  xfer_string(x, &s->name);
  xfer_int(x, &s->launches);
  xfer_double(x, &s->flops);
  xfer_double(x, &s->bytes);
}

/* --- values and leaves --- */

static void xfer_program_value(xfer *x, program_value *v) {
  const program *p = x->p;
  xfer_type(x, &v->type);
  xfer_dim(x, &v->count);
  xfer_int64(x, &v->bytes);
  v->home = (value_home)xfer_below(x, v->home, HOME_CONSTANT + 1, "an unknown home");
  const int leaves[] = {1, 1, p->n_inputs, p->n_outputs, p->n_states, p->n_constants};
  v->index =
      (uint32_t)xfer_below(x, v->index, (uint64_t)leaves[v->home], "a leaf that is not there");
  xfer_int64(x, &v->channels);
  xfer_int64(x, &v->pixels);
  xfer_int64(x, &v->offset);
  v->source = (uint32_t)xfer_below(x, v->source, UINT32_MAX, "a source that is not there");
  xfer_value(x, &v->in_place_of);
  xfer_int(x, &v->first);
  xfer_int(x, &v->last);
  int n = program_steps(p);
  if (x->reading &&
      (v->first < -1 || v->first >= n || v->last < -1 || v->last >= n || v->bytes < 0 ||
       v->bytes > DIM_LIMIT || v->offset < 0 || v->offset > DIM_LIMIT))
    xfer_fail(x, "a value has an impossible place");
}

static void xfer_leaves(xfer *x, program_leaf *leaves, int n) {
  for (int i = 0; i < n; i++) {
    xfer_string(x, &leaves[i].name);
    xfer_value(x, &leaves[i].value);
    xfer_type(x, &leaves[i].type);
    xfer_bool(x, &leaves[i].assigned);
    xfer_bool(x, &leaves[i].prepares);
  }
}

/* Messages are formats for one int and nothing else: they will be printed. */
static bool is_message(const char *format) {
  int numbers = 0;
  for (const char *c = format; (c = strchr(c, '%')) != NULL; c += 2) {
    if (c[1] != 'd' && c[1] != '%')
      return false;
    numbers += c[1] == 'd';
  }
  return numbers <= 1;
}

static void xfer_messages(xfer *x) {
  program *p = x->p;
  for (int i = 0; i < p->n_requirements; i++) {
    xfer_dim(x, &p->requirements[i].size);
    xfer_string(x, &p->requirements[i].what);
  }
  for (int i = 0; i < p->n_sites; i++) {
    xfer_string(x, &p->sites[i].format);
    p->sites[i].status = (sn_status)xfer_below(x, p->sites[i].status, SN_ERR_INTERNAL + 1,
                                               "a status that is not one");
    if (x->reading && p->sites[i].status == SN_OK)
      xfer_fail(x, "a failure that is none");
    if (x->reading && !is_message(p->sites[i].format))
      xfer_fail(x, "a message is not one");
  }
}

/* Counts of everything that others refer to come first. */
static void xfer_counts(xfer *x) {
  program *p = x->p;
  p->n_values = (uint32_t)xfer_count(x, (int)p->n_values, 0, sizeof *p->values, &p->values);
  int n = xfer_count(x, program_steps(p), 0, sizeof *p->steps, &p->steps);
  xfer_small(x, &p->n_prepare, n, "too many steps");
  xfer_small(x, &p->n_main, n - p->n_prepare, "too many steps");
  p->n_commit = n - p->n_prepare - p->n_main;
  p->n_inputs = xfer_count(x, p->n_inputs, 0, sizeof *p->inputs, &p->inputs);
  p->n_outputs = xfer_count(x, p->n_outputs, 0, sizeof *p->outputs, &p->outputs);
  p->n_states = xfer_count(x, p->n_states, 0, sizeof *p->states, &p->states);
  p->n_constants = xfer_count(x, p->n_constants, 0, sizeof *p->constants, &p->constants);
  p->n_requirements =
      xfer_count(x, p->n_requirements, 0, sizeof *p->requirements, &p->requirements);
  p->n_sites = xfer_count(x, p->n_sites, 0, sizeof *p->sites, &p->sites);
}

static void xfer_program(xfer *x) {
  program *p = x->p;
  xfer_counts(x);
  xfer_int64(x, &p->arena_bytes);
  xfer_int64(x, &p->prepared_bytes);
  xfer_int64(x, &p->lower_bound);
  xfer_leaves(x, p->inputs, p->n_inputs);
  xfer_leaves(x, p->outputs, p->n_outputs);
  xfer_leaves(x, p->states, p->n_states);
  for (int i = 0; i < p->n_constants; i++)
    xfer_bytes(x, &p->constants[i].data, &p->constants[i].size);
  xfer_messages(x);
  for (uint32_t v = 1; v < p->n_values; v++)
    xfer_program_value(x, &p->values[v]);
  for (int i = 0; i < program_steps(p); i++)
    xfer_step(x, &p->steps[i]);
}

/* --- sizes: as text, by handle --- */

static void write_dims(xfer *x) {
  const sn_graph *g = x->p->dims;
  uint64_t n = (uint64_t)program_sizes(x->p);
  xfer_unsigned(x, &n);
  for (uint64_t i = 0; i < n; i++) {
    text form;
    text_init(&form, x->out->ctx);
    dim_print(g, DIM_HANDLES - (int64_t)i, &form);
    const char *string = form.data ? form.data : "";
    xfer_string(x, &string);
    x->no_memory = x->no_memory || text_done(&form) != SN_OK;
    text_free(&form);
  }
}

/* Into a graph with the symbols; dims may be NULL. */
static void parse_dims(xfer *x, sn_graph *g, const char *const *forms, sn_dim *dims) {
  for (int i = 0; i < x->n_dims && !x->problem; i++) {
    sn_dim d;
    if (!dim_text_read(g, forms[i], &d))
      xfer_fail(x, "a size that cannot be read");
    if (dims)
      dims[i] = d;
  }
  x->no_memory = x->no_memory || g->status == SN_ERR_NO_MEMORY;
}

/* First into a copy of the graph's expressions, since an error would stay in the graph. */
static sn_status read_dims(xfer *x, sn_graph *lowered) {
  const char **forms = NULL;
  sn_graph *copy;
  x->n_dims = xfer_count(x, 0, 0, sizeof(char *), &forms);
  for (int i = 0; i < x->n_dims; i++)
    xfer_string(x, &forms[i]);
  x->dims = arena_array(&x->p->memory, (size_t)x->n_dims, sizeof *x->dims);
  if (!x->dims)
    return SN_ERR_NO_MEMORY;
  SN_TRY(graph_create(lowered->ctx, lowered->table, &copy));
  x->no_memory = x->no_memory || !dim_copy_all(copy, lowered);
  if (!x->no_memory)
    parse_dims(x, copy, forms, NULL);
  sn_graph_destroy(copy);
  if (x->no_memory)
    return SN_ERR_NO_MEMORY;
  if (x->problem)
    return SN_OK;
  parse_dims(x, lowered, forms, x->dims);
  return x->no_memory ? SN_ERR_NO_MEMORY : program_copy_dims(x->p, lowered);
}

/* --- both ways --- */

sn_status program_write(const program *p, text *out) {
  xfer x = {.out = out, .p = (program *)(uintptr_t)p}; /* writing changes nothing */
  x.n_dims = program_sizes(p);
  write_dims(&x);
  xfer_program(&x);
  return x.no_memory ? SN_ERR_NO_MEMORY : text_done(out);
}

/* Whether taking over memory goes in circles: from each value on, until one that was met before. */
static sn_status find_circle(xfer *x) {
  const program *p = x->p;
  uint32_t *met = arena_array(&x->p->memory, (size_t)p->n_values + 1, sizeof *met); /* from where */
  if (!met)
    return SN_ERR_NO_MEMORY;
  for (uint32_t v = 1; v < p->n_values; v++) {
    uint32_t at = v;
    for (; at && !met[at]; at = p->values[at].in_place_of)
      met[at] = v;
    if (at && met[at] == v && p->values[at].in_place_of)
      xfer_fail(x, "values take over each other's memory");
  }
  return SN_OK;
}

static sn_status read_all(xfer *x, sn_graph *lowered) {
  SN_TRY(read_dims(x, lowered));
  if (!x->problem)
    xfer_program(x);
  if (x->no_memory)
    return SN_ERR_NO_MEMORY;
  if (!x->problem && x->at != x->end)
    x->problem = "something follows it";
  if (!x->problem)
    SN_TRY(find_circle(x));
  return x->problem ? diag_fail(lowered->ctx, SN_ERR_FORMAT, "plan: %s", x->problem) : SN_OK;
}

sn_status program_read(const void *bytes, size_t size, sn_graph *lowered, program **out_program) {
  const unsigned char *at = bytes;
  xfer x = {.reading = true, .at = at, .end = at + size};
  *out_program = NULL;
  x.budget = size < SIZE_MAX / XFER_AMPLIFICATION ? size * XFER_AMPLIFICATION + 65536 : SIZE_MAX;
  SN_TRY(program_create(lowered->ctx, &x.p));
  sn_status status = read_all(&x, lowered);
  if (status == SN_OK)
    *out_program = x.p;
  else
    program_destroy(x.p);
  return status;
}
