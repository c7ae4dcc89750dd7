/* Panels of weights that are packed once and kept from run to run: those of values that no run changes, in parts whose other
 * side is so small that packing costs much beside multiplying. See matmul.h.
 *
 * What is kept follows from the program alone, so that it is the same when memory is taken, filled and used. */
#include "device/cpu/conv_winograd.h"
#include "device/cpu/matmul.h"

enum { OTHER_LEAST = 16, OTHER_MOST = 2048 };

/* The product of sizes that are all numbers; -1 where one is not. */
static int64_t count_fixed(const sn_dim *dims, int n) {
  int64_t count = 1;
  for (int d = 0; d < n; d++) {
    if (!dim_is_number(dims[d]))
      return -1;
    count *= dims[d];
  }
  return count;
}

static bool is_unchanged(const program *p, uint32_t value) {
  const program_value *v = &p->values[value];
  if (v->home == HOME_STATE)
    return (int)v->index < p->n_states && !p->states[v->index].assigned;
  return v->home == HOME_CONSTANT || v->home == HOME_PREPARED;
}

bool matmul_is_fixed(const program *p, const region *code) {
  const instr *i = &code->code[0];
  if (code->n != 1 || i->op != REGION_LOAD || i->dtype != SN_F32 || i->at.n_checks > 0 ||
      p->values[i->at.value].type.dtype != SN_F32 || !dim_is_number(i->at.base))
    return false;
  for (int t = 0; t < i->at.n_terms; t++) {
    const term *x = &i->at.terms[t];
    if (x->axis == TERM_REG || !dim_is_number(x->stride) || !dim_is_number(x->div) ||
        !dim_is_number(x->mod))
      return false;
  }
  return is_unchanged(p, i->at.value);
}

/* Rows (or columns) of a kept operand; 0: it is not kept. is_b: of b. */
static int64_t kept_extent(const program *p, const matmul_part *t, const matmul_product *q,
                           bool is_b) {
  const sn_dim *first = t->extent + t->n_batch;
  int64_t m = count_fixed(first, t->n_m), n = count_fixed(first + t->n_m, t->n_n);
  int64_t own = is_b ? n : m, other = is_b ? m : n;
  if (count_fixed(t->extent, t->n_batch) != 1 || own <= MATMUL_FEW || other < OTHER_LEAST ||
      other > OTHER_MOST || count_fixed(q->k, q->n_k) < 1 ||
      !matmul_is_fixed(p, is_b ? &q->b : &q->a))
    return 0;
  return own;
}

/* Floats, with panels of any instruction set and either side. */
int64_t matmul_kept_floats(const program *p, const matmul_part *t, const matmul_product *q,
                           bool is_b) {
  int64_t own = kept_extent(p, t, q, is_b), most = 0, line = PROGRAM_ALIGN / sizeof(float);
  for (int i = 0; own > 0 && cpu_isa_at(i); i++) {
    const matmul_kernels *kernels = cpu_isa_at(i)->matmul;
    most =
        max_i64(most, max_i64(whole_panels(own, kernels->rows), whole_panels(own, kernels->cols)));
  }
  return (most * count_fixed(q->k, q->n_k) + line - 1) / line * line;
}

/* Of a part: transformed weights, or operands a and b of each product one after the other. */
static int64_t part_floats(const program *p, const matmul_part *t) {
  int64_t transformed = winograd_kept(p, t), floats = transformed;
  for (int c = 0; transformed == 0 && c < t->n_accs; c++)
    for (int i = 0; i < t->accs[c].n_products; i++)
      for (int b = 0; b < 2; b++)
        floats += matmul_kept_floats(p, t, &t->accs[c].products[i], b);
  return floats;
}

/* What is kept is packed behind `prepare`: too late for its own steps. */
static bool is_prepared(const program *p, const step *s) {
  return p->n_prepare > 0 && s >= p->steps && s < p->steps + p->n_prepare;
}

/* Notes the states that what is kept of a part is made of. */
static void note_states(const program *p, const matmul_part *t, bool *by_state) {
  bool transformed = winograd_kept(p, t) > 0;
  for (int c = 0; c < t->n_accs; c++)
    for (int j = 0; j < t->accs[c].n_products; j++)
      for (int b = 0; b < 2; b++) {
        const matmul_product *q = &t->accs[c].products[j];
        const program_value *v = &p->values[(b ? &q->b : &q->a)->code[0].at.value];
        bool kept = transformed ? b == 1 : kept_extent(p, t, q, b) > 0;
        if (kept && v->home == HOME_STATE)
          by_state[v->index] = true;
      }
}

size_t cpu_kept_matmul(const program *p, const step *s, bool *by_state) {
  int64_t floats = 0;
  for (int i = 0; i < s->n_parts && !is_prepared(p, s); i++) {
    floats += part_floats(p, &s->parts[i].u.matmul);
    if (by_state)
      note_states(p, &s->parts[i].u.matmul, by_state);
  }
  return (size_t)floats * sizeof(float);
}

/* A part that was made anew (conv.h) has products of its own, which nothing is kept of. */
float *matmul_find_kept(const cpu_run *r, const step *of, const matmul_part *t) {
  float *at = (float *)(void *)r->kept;
  for (int i = 0; at && i < of->n_parts; i++) {
    int64_t floats = part_floats(r->program, &of->parts[i].u.matmul);
    if (of->parts[i].u.matmul.accs == t->accs)
      return floats > 0 ? at : NULL;
    at += floats;
  }
  return NULL;
}

sn_status cpu_keep_matmul(cpu_run *r, const step *s) {
  for (int i = 0; i < s->n_parts; i++) {
    const matmul_part *t = &s->parts[i].u.matmul;
    matmul_work w;
    size_t used = r->scratch_used;
    if (winograd_kept(r->program, t) > 0)
      winograd_keep(r, t, matmul_find_kept(r, s, t));
    if (winograd_kept(r->program, t) > 0 || part_floats(r->program, t) == 0 ||
        !matmul_size(&w, r, s, t))
      continue;
    SN_TRY(matmul_open(&w));
    matmul_fill_kept(&w);
    r->scratch_used = used;
  }
  return SN_OK;
}
