/* What emitters look at of a step, in words. See emit_alike.h. */
#include "device/vulkan/emit_alike.h"

static void put(emitter *e, int64_t word) {
  struct alike_table *t = e->env.alike;
  if (t->n_words == t->room_words) {
    size_t room = t->room_words ? 2 * t->room_words : 4096;
    int64_t *more = arena_array(e->env.memory, room, sizeof *more);
    t->failed = t->failed || !more;
    if (!more)
      return;
    if (t->n_words)
      memcpy(more, t->words, t->n_words * sizeof *more);
    t->words = more;
    t->room_words = room;
  }
  t->words[t->n_words++] = word;
}

static void put_dims(emitter *e, int n, const sn_dim *dims) {
  put(e, n);
  for (int i = 0; i < n; i++)
    put(e, dims[i]);
}

static void put_double(emitter *e, double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof bits);
  put(e, bits);
}

static void add_value(emitter *e, uint32_t value) {
  struct alike_table *t = e->env.alike;
  if (t->n_values == t->room_values) {
    int room = t->room_values ? 2 * t->room_values : 64;
    uint32_t *more = arena_array(e->env.memory, (size_t)room, sizeof *more);
    t->failed = t->failed || !more;
    if (!more)
      return;
    if (t->n_values)
      memcpy(more, t->values, (size_t)t->n_values * sizeof *more);
    t->values = more;
    t->room_values = room;
  }
  t->values[t->n_values++] = value;
  t->number[value] = (uint32_t)t->n_values;
}

static void put_value(emitter *e, uint32_t value) {
  struct alike_table *t = e->env.alike;
  if (value && !t->number[value])
    add_value(e, value);
  put(e, value ? (int64_t)t->number[value] : 0);
}

static void put_terms(emitter *e, int n, const term *terms) {
  put(e, n);
  for (int i = 0; i < n; i++) {
    put(e, terms[i].axis);
    put(e, terms[i].axis == TERM_REG ? terms[i].from : 0);
    put(e, terms[i].stride);
    put(e, terms[i].div);
    put(e, terms[i].mod);
  }
}

static void put_access(emitter *e, const access *at) {
  put_value(e, at->value);
  put(e, at->base);
  put_terms(e, at->n_terms, at->terms);
  put(e, at->n_checks);
  for (int i = 0; i < at->n_checks; i++) {
    const check *c = &at->checks[i];
    put_terms(e, c->n_terms, c->terms);
    put(e, c->offset);
    put(e, c->size);
    put(e, c->divisor);
  }
}

static void put_region(emitter *e, const region *r) {
  put(e, r->n);
  for (int i = 0; i < r->n; i++) {
    const instr *in = &r->code[i];
    put(e, in->op | in->code << 8 | in->dtype << 16 | (int64_t)in->phase << 24 |
               (int64_t)in->row << 32);
    put(e, in->a | (int64_t)in->b << 16 | (int64_t)in->c << 32);
    put(e, in->index);
    put(e, in->size);
    put_double(e, in->x);
    put_double(e, in->y);
    put_access(e, &in->at);
  }
}

static void put_loop(emitter *e, const loop_part *p) {
  put(e, p->n_outer);
  put(e, p->n_phases);
  put_dims(e, p->n_axes, p->extent);
  put_region(e, &p->code);
}

static void put_matmul(emitter *e, const matmul_part *p) {
  put(e, p->n_batch);
  put(e, p->n_m);
  put_dims(e, p->n_batch + p->n_m + p->n_n, p->extent);
  put(e, p->gradient);
  put(e, p->n_accs);
  for (int a = 0; a < p->n_accs; a++) {
    put(e, p->accs[a].n_products);
    for (int i = 0; i < p->accs[a].n_products; i++) {
      const matmul_product *product = &p->accs[a].products[i];
      put_dims(e, product->n_k, product->k);
      put_region(e, &product->a);
      put_region(e, &product->b);
    }
  }
  put_region(e, &p->epilogue);
}

static void put_strided(emitter *e, const strided *s) {
  put_value(e, s->value);
  put(e, s->dtype);
  put_dims(e, s->rank, s->dim);
  put_dims(e, s->rank, s->stride);
  put(e, s->base);
}

static void put_core(emitter *e, const core_part *p) {
  put(e, p->n_in);
  put(e, p->n_out);
  for (int i = 0; i < p->n_in; i++)
    put_strided(e, &p->in[i]);
  for (int i = 0; i < p->n_out; i++)
    put_strided(e, &p->out[i]);
  for (int i = 0; i < CORE_NUMBERS; i++) {
    put(e, p->ints[i]);
    put_double(e, p->reals[i]);
  }
}

/* What emitters ask of a value. Where it lies they do not; of values that take over each other's memory they ask within a step. */
static void put_facts(emitter *e, uint32_t value) {
  const program *p = e->env.program;
  const program_value *v = &p->values[value];
  put(e, v->type.dtype);
  put_dims(e, v->type.shape.rank, v->type.shape.dim);
  put(e, v->count);
  put(e, v->bytes);
  put(e, v->home);
  put(e, v->channels);
  put(e, v->pixels);
  put(e, e->env.alike->number[v->in_place_of]);
  put(e, v->home == HOME_STATE && p->states[v->index].assigned);
  put(e, e->env.pairs ? e->env.pairs[value] : 0);
}

static void put_step(emitter *e, const step *s) {
  struct alike_table *t = e->env.alike;
  put(e, s->kind);
  put(e, e->env.kept != NULL);
  put(e, e->absorbed != NULL);
  if (e->absorbed)
    put_loop(e, e->absorbed);
  put(e, s->n_parts);
  for (int i = 0; i < s->n_parts; i++) {
    if (s->kind == STEP_POINTWISE || s->kind == STEP_ROW)
      put_loop(e, &s->parts[i].u.loop);
    else if (s->kind == STEP_MATMUL)
      put_matmul(e, &s->parts[i].u.matmul);
    else
      put_core(e, &s->parts[i].u.core);
  }
  for (int i = 0; i < t->n_values && !t->failed; i++)
    put_facts(e, t->values[i]);
}

sn_status alike_write_down(emitter *e, const step *s) {
  struct alike_table *t = e->env.alike;
  if (!t->number)
    t->number = arena_array(e->env.memory, e->env.program->n_values, sizeof *t->number);
  if (!t->number)
    return SN_ERR_NO_MEMORY;
  t->n_words = 0;
  t->n_values = 0;
  put_step(e, s);
  for (int i = 0; i < t->n_values; i++)
    t->number[t->values[i]] = 0;
  return t->failed ? SN_ERR_NO_MEMORY : SN_OK;
}
