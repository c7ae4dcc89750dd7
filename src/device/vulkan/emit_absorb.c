/* Row steps that the next step computes for itself. See emit.h.
 *
 * A norm of one row takes microseconds, nearly all of them waiting: for the step before it, for its few loads, for its end. A
 * matmul of few rows that follows has workgroups that wait for weights meanwhile; each of them computes the row anew into shared
 * memory, and nobody stores it. That is for rows that are short and workgroups that are few: what is computed again must
 * cost less than a step does.
 *
 * The plan stays as it is: its values, places and barriers. So that nothing else is needed, the two steps are neighbours, only
 * the second reads what the first makes, it writes to no memory that the first reads, and the step behind it waits anyway. */
#include "device/vulkan/emit_matmul.h"
#include "device/vulkan/emit_rows.h"

enum { ABSORBED_POINTS = 4096 /* of all rows: floats of shared memory */, ABSORBED_CODE = 16 };

/* --- the row --- */

/* Its only store, at its points, in the last phase; NULL: it is not of the kind. */
static const instr *only_store(const loop_part *p) {
  const instr *store = NULL;
  for (int i = 0; i < p->code.n; i++) {
    const instr *in = &p->code.code[i];
    if (in->op == REGION_REQUIRE || (in->op == REGION_STORE && store))
      return NULL;
    if (in->op == REGION_STORE)
      store = in;
  }
  bool suits = store && !store->row && store->phase == p->n_phases - 1 &&
               p->code.code[store->a].dtype == SN_F32;
  return suits ? store : NULL;
}

/* Terms of an axis; -1: other ones than a single one that counts by `stride`. An axis of one point may have any: all are 0. */
static int axis_terms(const access *at, int axis, sn_dim extent, int64_t stride) {
  int n = 0, counting = 0;
  for (int t = 0; t < at->n_terms; t++) {
    const term *x = &at->terms[t];
    bool counts = x->stride == stride && (x->div == 1 || x->div == 0) && x->mod == 0;
    n += x->axis == axis;
    counting += x->axis == axis && counts;
  }
  return extent == 1 || (n == 1 && counting == 1) ? n : -1;
}

/* Whether an access counts points of axes first[0] … and first[1] …, the extents given, one after the other. */
static bool is_dense(const access *at, const int first[2], const int n[2],
                     const sn_dim *const extent[2]) {
  int64_t stride = 1;
  int terms = 0;
  for (int g = 1; g >= 0; g--)
    for (int d = n[g] - 1; d >= 0; d--) {
      if (!dim_is_number(extent[g][d]) || extent[g][d] < 1)
        return false;
      int own = axis_terms(at, first[g] + d, extent[g][d], stride);
      if (own < 0)
        return false;
      terms += own;
      stride *= extent[g][d];
    }
  return at->base == 0 && at->n_checks == 0 && terms == at->n_terms;
}

/* --- the matmul --- */

static bool loads_value(const region *r, uint32_t value) {
  for (int i = 0; i < r->n; i++)
    if (r->code[i].op == REGION_LOAD && r->code[i].at.value == value)
      return true;
  return false;
}

/* Whether a product's first operand is the value that the row stores, element for element. */
static bool reads_rows(const matmul_part *m, const matmul_product *x, const loop_part *norm,
                       uint32_t value) {
  int inner = norm->n_axes - norm->n_outer;
  const int first[2] = {m->n_batch, m->n_batch + m->n_m + m->n_n}, n[2] = {m->n_m, x->n_k};
  const sn_dim *const extent[2] = {m->extent + m->n_batch, x->k};
  const instr *load = &x->a.code[0];
  return x->a.n == 1 && load->op == REGION_LOAD && load->at.value == value &&
         !loads_value(&x->b, value) && x->n_k == inner &&
         memcmp(x->k, norm->extent + norm->n_outer, (size_t)inner * sizeof *x->k) == 0 &&
         is_dense(&load->at, first, n, extent);
}

/* Whether this part is made by few rows, whose workgroups are not too many and can hold them. */
static bool can_hold(const emitter *e, const matmul_part *m, const loop_part *norm) {
  int64_t rows = sizes_most(&e->env, m->n_m, m->extent);
  int64_t columns = sizes_most(&e->env, m->n_n, m->extent + m->n_m);
  int64_t points = sizes_most(&e->env, norm->n_axes - norm->n_outer, norm->extent + norm->n_outer);
  if (m->n_batch > 0 || rows < 1 || rows > MATMUL_FEW || columns < 1 ||
      rows != sizes_most(&e->env, norm->n_outer, norm->extent))
    return false;
  matmul_way way = matmul_choose(e, m);
  const few_shape *f = &way.few;
  if (way.tiles || way.matrix || way.direct || way.splits > 1 || f->side != 0 ||
      f->few * points > ABSORBED_POINTS)
    return false;
  row_shape shape = row_shape_of(e, norm, f->threads, false);
  int each = f->threads / f->lanes * f->many;
  return shape.kept && shape.unroll * f->few <= ABSORBED_CODE &&
         (columns + each - 1) / each <= (int64_t)e->env.target->units * 4;
}

static bool part_takes(const emitter *e, const part *of, const loop_part *norm, uint32_t value) {
  matmul_part m = of->u.matmul;
  matmul_batch_to_rows(&m);
  if (m.n_accs < 1 || m.n_accs > EMIT_ACCS || loads_value(&m.epilogue, value))
    return false;
  for (int a = 0; a < m.n_accs; a++)
    for (int i = 0; i < m.accs[a].n_products; i++)
      if (!reads_rows(&m, &m.accs[a].products[i], norm, value))
        return false;
  return m.accs[0].n_products > 0 && can_hold(e, &m, norm);
}

/* --- memory --- */

static bool share_memory(const program *p, uint32_t a, uint32_t b) {
  const program_value *x = &p->values[a], *y = &p->values[b];
  if (x->home != y->home)
    return false;
  if (x->home != HOME_ARENA && x->home != HOME_PREPARED)
    return x->index == y->index;
  return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

typedef struct clash {
  const program *program;
  const step *norm;
  uint32_t written;
  bool any;
} clash;

static bool see_load(void *user, const step_use *use) {
  clash *c = user;
  c->any = c->any || (!use->store && share_memory(c->program, use->value, c->written));
  return true;
}

static bool see_store(void *user, const step_use *use) {
  clash *c = user;
  c->written = use->value;
  if (use->store)
    step_each_use(c->norm, see_load, c);
  return true;
}

/* Whether the second step writes where the first reads. */
static bool steps_clash(const program *p, const step *norm, const step *s) {
  clash c = {.program = p, .norm = norm};
  step_each_use(s, see_store, &c);
  return c.any;
}

/* --- steps --- */

/* The number of a step in the program; -1: it is not one of its steps. */
static int number_of(const program *p, const step *s) {
  for (int i = 0; p->steps && i < program_steps(p); i++)
    if (&p->steps[i] == s)
      return i;
  return -1;
}

static bool begins_section(const program *p, int i) {
  return i == 0 || i == p->n_prepare || i == p->n_prepare + p->n_main || i == program_steps(p);
}

/* Whether step i + 1 computes step i. */
static bool absorbs(const emitter *e, int i) {
  const program *p = e->env.program;
  const step *norm = &p->steps[i], *s = norm + 1;
  if (begins_section(p, i + 1) || norm->kind != STEP_ROW || s->kind != STEP_MATMUL ||
      norm->n_parts != 1 || norm->parts[0].u.loop.n_phases < 1 ||
      !(begins_section(p, i + 2) || p->steps[i + 2].barrier))
    return false;
  const loop_part *rows = &norm->parts[0].u.loop;
  const instr *store = only_store(rows);
  const int first[2] = {0, rows->n_outer}, n[2] = {rows->n_outer, rows->n_axes - rows->n_outer};
  const sn_dim *const extent[2] = {rows->extent, rows->extent + rows->n_outer};
  if (!store || !is_dense(&store->at, first, n, extent))
    return false;
  const program_value *v = &p->values[store->at.value];
  if (v->home != HOME_ARENA || v->type.dtype != SN_F32 || v->last != i + 1)
    return false;
  for (int k = 0; k < s->n_parts; k++)
    if (!part_takes(e, &s->parts[k], rows, store->at.value))
      return false;
  return !steps_clash(p, norm, s);
}

bool emit_is_absorbed(const emitter *e, const step *s) {
  int i = s->kind == STEP_ROW ? number_of(e->env.program, s) : -1;
  return i >= 0 && absorbs(e, i);
}

const loop_part *emit_absorbed(const emitter *e, const step *s) {
  int i = s->kind == STEP_MATMUL ? number_of(e->env.program, s) : -1;
  return i > 0 && absorbs(e, i - 1) ? &e->env.program->steps[i - 1].parts[0].u.loop : NULL;
}
