/* program_print: a program as text, for people (`sinew inspect --plan`) and for golden tests. Every line stands for one thing:
 * a leaf, a value, a step, a part, an instruction. Registers are r0, r1, … within their region, axes i0, i1, …
 *
 *   step 3 row "layer 0: softmax" barrier
 *     part 0: rows [8, 128] points [128] phases 2
 *       r0 = load v4[16384*i0 + 128*i1 + i2] : f32
 *       r1 = max over row r0 : f32
 */
#include "plan/program.h"

typedef struct printer {
  const program *p;
  text *out;
} printer;

static void put_dim(const printer *w, sn_dim d) {
  if (dim_is_number(d) || !w->p->dims)
    text_printf(w->out, "%lld", (long long)d);
  else
    dim_print(w->p->dims, d, w->out);
}

/* As a factor: sums in brackets. */
static void put_factor(const printer *w, sn_dim d) {
  text_puts(w->out, dim_is_number(d) ? "" : "(");
  put_dim(w, d);
  text_puts(w->out, dim_is_number(d) ? "" : ")");
}

static void put_dims(const printer *w, const sn_dim *dims, int n) {
  text_puts(w->out, "[");
  for (int i = 0; i < n; i++) {
    text_puts(w->out, i ? ", " : "");
    put_dim(w, dims[i]);
  }
  text_puts(w->out, "]");
}

static void put_type(const printer *w, sn_type type) {
  text_puts(w->out, sn_dtype_name(type.dtype));
  put_dims(w, type.shape.dim, type.shape.rank);
}

/* --- accesses --- */

/* 64*(i1/8%4); a register is clamped: 64*r3<10>. */
static void put_term(const printer *w, const term *t) {
  if (t->stride != 1) {
    put_factor(w, t->stride);
    text_puts(w->out, "*");
  }
  if (t->axis == TERM_REG) {
    text_printf(w->out, "r%u<", (unsigned)t->from);
    put_dim(w, t->mod);
    text_puts(w->out, ">");
    return;
  }
  bool divided = t->div != 1 && t->div != 0; /* 0 is said for 1 */
  bool brackets = t->stride != 1 && (divided || t->mod != 0);
  text_printf(w->out, "%si%u", brackets ? "(" : "", (unsigned)t->axis);
  if (divided) {
    text_puts(w->out, "/");
    put_factor(w, t->div);
  }
  if (t->mod != 0) {
    text_puts(w->out, "%");
    put_factor(w, t->mod);
  }
  text_puts(w->out, brackets ? ")" : "");
}

static void put_sum(const printer *w, sn_dim base, const term *terms, int n) {
  if (base != 0 || n == 0)
    put_dim(w, base);
  for (int i = 0; i < n; i++) {
    text_puts(w->out, i || base != 0 ? " + " : "");
    put_term(w, &terms[i]);
  }
}

static void put_checks(const printer *w, const access *at) {
  for (int i = 0; i < at->n_checks; i++) {
    const check *c = &at->checks[i];
    text_puts(w->out, i ? ", 0 <= " : " where 0 <= ");
    bool divided = c->divisor != 1 && c->divisor != 0;
    text_puts(w->out, divided ? "(" : "");
    put_sum(w, c->offset, c->terms, c->n_terms);
    if (divided) {
      text_puts(w->out, ") / ");
      put_factor(w, c->divisor);
    }
    text_puts(w->out, " < ");
    put_dim(w, c->size);
  }
}

static void put_access(const printer *w, const access *at) {
  if (at->value)
    text_printf(w->out, "v%u", at->value);
  text_puts(w->out, "[");
  put_sum(w, at->base, at->terms, at->n_terms);
  text_puts(w->out, "]");
  put_checks(w, at);
}

/* --- instructions --- */

static const char *reduce_name(unsigned kind) {
  static const char *const names[] = {"sum", "prod", "max", "min", "any", "all"};
  return kind < COUNT_OF(names) ? names[kind] : "?";
}

static void put_registers(const printer *w, const instr *i) {
  const reg r[] = {i->a, i->b, i->c};
  for (int k = 0; k < instr_arguments(i) && k < (int)COUNT_OF(r); k++)
    text_printf(w->out, " r%u", (unsigned)r[k]);
}

static void put_alu(const printer *w, const instr *i) {
  text_puts(w->out, i->code < ALU_COUNT ? alu_table[i->code].name : "?");
  put_registers(w, i);
  if (i->x != 0 || i->y != 0)
    text_printf(w->out, " (%.9g, %.9g)", i->x, i->y);
}

static void put_operation(const printer *w, const instr *i) {
  switch ((region_op)i->op) {
  case REGION_LOAD:
    text_puts(w->out, "load ");
    put_access(w, &i->at);
    break;
  case REGION_STORE:
    text_printf(w->out, "store r%u ", (unsigned)i->a);
    put_access(w, &i->at);
    break;
  case REGION_INDEX:
    text_puts(w->out, "index ");
    put_access(w, &i->at);
    break;
  case REGION_INSIDE:
    text_puts(w->out, "inside");
    put_checks(w, &i->at);
    break;
  case REGION_NUMBER: text_printf(w->out, "number %.9g", i->x); break;
  case REGION_SIZE:
    text_puts(w->out, "size ");
    put_dim(w, i->size);
    break;
  case REGION_ALU: put_alu(w, i); break;
  case REGION_WORD:
    text_printf(w->out, "word of stream %.17g key r%u r%u r%u ", i->x, (unsigned)i->a,
                (unsigned)i->b, (unsigned)i->c);
    put_access(w, &i->at);
    break;
  case REGION_REDUCE:
    text_printf(w->out, "%s over row r%u", reduce_name(i->code), (unsigned)i->a);
    break;
  case REGION_ACC: text_printf(w->out, "acc %u", i->index); break;
  case REGION_REQUIRE:
    text_printf(w->out, "require r%u showing r%u: site %u", (unsigned)i->a, (unsigned)i->b,
                i->index);
    break;
  }
}

/* Where rows and points take turns, a line before each turn says whose it is. */
static void put_region(const printer *w, const region *r, const char *indent, bool phases) {
  for (int i = 0; i < r->n; i++) {
    const instr *now = &r->code[i], *before = i ? now - 1 : NULL;
    if (phases && (!before || before->phase != now->phase || before->row != now->row))
      text_printf(w->out, "%s%s of phase %u:\n", indent, now->row ? "row" : "points",
                  (unsigned)now->phase);
    text_printf(w->out, "%s%sr%d = ", indent, phases ? "  " : "", i);
    put_operation(w, now);
    text_printf(w->out, " : %s\n", sn_dtype_name((sn_dtype)now->dtype));
  }
}

/* --- parts --- */

static void put_loop(const printer *w, const loop_part *l) {
  if (l->n_outer) {
    text_puts(w->out, "rows ");
    put_dims(w, l->extent, l->n_outer);
    text_puts(w->out, " ");
  }
  text_puts(w->out, "points ");
  put_dims(w, l->extent + l->n_outer, l->n_axes - l->n_outer);
  if (l->n_phases != 1)
    text_printf(w->out, " phases %d", l->n_phases);
  text_puts(w->out, "\n");
  put_region(w, &l->code, "      ", l->n_outer || l->n_phases != 1);
}

static void put_matmul(const printer *w, const matmul_part *m) {
  text_puts(w->out, "batch ");
  put_dims(w, m->extent, m->n_batch);
  text_puts(w->out, " m ");
  put_dims(w, m->extent + m->n_batch, m->n_m);
  text_puts(w->out, " n ");
  put_dims(w, m->extent + m->n_batch + m->n_m, m->n_n);
  text_puts(w->out, "\n");
  for (int i = 0; i < m->n_accs; i++)
    for (int k = 0; k < m->accs[i].n_products; k++) {
      const matmul_product *product = &m->accs[i].products[k];
      text_printf(w->out, "      acc %d += product %d over k ", i, k);
      put_dims(w, product->k, product->n_k);
      text_puts(w->out, "\n        a:\n");
      put_region(w, &product->a, "          ", false);
      text_puts(w->out, "        b:\n");
      put_region(w, &product->b, "          ", false);
    }
  text_puts(w->out, "      epilogue:\n");
  put_region(w, &m->epilogue, "        ", false);
}

static void put_strided(const printer *w, const strided *s, const char *which, int i) {
  if (!s->value)
    return;
  text_printf(w->out, "      %s %d: v%u %s", which, i, s->value, sn_dtype_name((sn_dtype)s->dtype));
  put_dims(w, s->dim, s->rank);
  text_puts(w->out, " strides ");
  put_dims(w, s->stride, s->rank);
  if (s->base != 0) {
    text_puts(w->out, " from ");
    put_dim(w, s->base);
  }
  text_puts(w->out, "\n");
}

static void put_core(const printer *w, const core_part *c) {
  text_puts(w->out, "ints");
  for (int i = 0; i < CORE_NUMBERS; i++)
    text_printf(w->out, " %lld", (long long)c->ints[i]);
  text_puts(w->out, " reals");
  for (int i = 0; i < CORE_NUMBERS; i++)
    text_printf(w->out, " %.9g", c->reals[i]);
  text_puts(w->out, "\n");
  for (int i = 0; i < c->n_in; i++)
    put_strided(w, &c->in[i], "in", i);
  for (int i = 0; i < c->n_out; i++)
    put_strided(w, &c->out[i], "out", i);
}

static void put_step(const printer *w, int number) {
  const step *s = &w->p->steps[number];
  text_printf(w->out, "  step %d %s \"%s\"%s", number, archetype_name(s->kind),
              s->name ? s->name : "", s->barrier ? " barrier" : "");
  for (int i = 0; i < s->n_after; i++)
    text_printf(w->out, "%sv%u", i ? ", " : " after ", s->after[i]);
  text_puts(w->out, "\n");
  for (int i = 0; i < s->n_parts; i++) {
    text_printf(w->out, "    part %d: ", i);
    if (s->kind == STEP_POINTWISE || s->kind == STEP_ROW)
      put_loop(w, &s->parts[i].u.loop);
    else if (s->kind == STEP_MATMUL)
      put_matmul(w, &s->parts[i].u.matmul);
    else
      put_core(w, &s->parts[i].u.core);
  }
}

/* --- the program --- */

static void put_summary(const printer *w) {
  const program *p = w->p;
  int count[STEP_ARCHETYPES] = {0}, barriers = 0;
  for (int i = 0; i < program_steps(p); i++) {
    count[p->steps[i].kind]++;
    barriers += p->steps[i].barrier;
  }
  text_printf(w->out,
              "program: %u values, %d steps (%d prepare, %d main, %d commit), %d barriers\n",
              p->n_values ? p->n_values - 1 : 0, program_steps(p), p->n_prepare, p->n_main,
              p->n_commit, barriers);
  text_printf(w->out, "memory: arena %lld bytes, at least %lld; prepared %lld bytes\n",
              (long long)p->arena_bytes, (long long)p->lower_bound, (long long)p->prepared_bytes);
  text_puts(w->out, "archetypes:");
  for (int i = 0; i < STEP_ARCHETYPES; i++)
    if (count[i])
      text_printf(w->out, " %d %s", count[i], archetype_name((archetype)i));
  text_puts(w->out, "\n");
}

static void put_leaves(const printer *w, const char *what, const program_leaf *leaves, int n) {
  for (int i = 0; i < n; i++) {
    text_printf(w->out, "%s %d \"%s\" : ", what, i, leaves[i].name);
    put_type(w, leaves[i].type);
    if (leaves[i].value)
      text_printf(w->out, " = v%u", leaves[i].value);
    text_printf(w->out, "%s%s\n", leaves[i].assigned ? " assigned" : "",
                leaves[i].prepares ? " prepares" : "");
  }
}

static void put_value(const printer *w, uint32_t id) {
  static const char *const homes[] = {"arena", "prepared", "input", "output", "state", "constant"};
  const program_value *v = &w->p->values[id];
  text_printf(w->out, "  v%u : ", id);
  put_type(w, v->type);
  if (v->channels)
    text_printf(w->out, " %lld channels last", (long long)v->channels);
  text_printf(w->out, " %s ", (size_t)v->home < COUNT_OF(homes) ? homes[v->home] : "?");
  if (v->home == HOME_ARENA || v->home == HOME_PREPARED)
    text_printf(w->out, "%lld+%lld", (long long)v->offset, (long long)v->bytes);
  else
    text_printf(w->out, "%u", v->index);
  text_printf(w->out, " steps %d to %d", v->first, v->last);
  if (v->in_place_of)
    text_printf(w->out, " in place of v%u", v->in_place_of);
  text_puts(w->out, "\n");
}

void program_print(const program *p, text *out) {
  printer w = {p, out};
  put_summary(&w);
  put_leaves(&w, "input", p->inputs, p->n_inputs);
  put_leaves(&w, "output", p->outputs, p->n_outputs);
  put_leaves(&w, "state", p->states, p->n_states);
  for (int i = 0; i < p->n_requirements; i++) {
    text_puts(out, "requires 0 <= ");
    put_dim(&w, p->requirements[i].size);
    text_printf(out, ": %s\n", p->requirements[i].what);
  }
  for (int i = 0; i < p->n_sites; i++)
    text_printf(out, "site %d: %s\n", i, p->sites[i].format);
  text_puts(out, "values:\n");
  for (uint32_t v = 1; v < p->n_values; v++)
    put_value(&w, v);
  for (int i = 0; i < program_steps(p); i++) {
    if (i < p->n_prepare ? i == 0 : i == p->n_prepare || i == p->n_prepare + p->n_main)
      text_puts(out, i < p->n_prepare               ? "prepare:\n"
                     : i < p->n_prepare + p->n_main ? "main:\n"
                                                    : "commit:\n");
    put_step(&w, i);
  }
}
