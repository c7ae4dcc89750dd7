/* Finds the parts that conv.h speaks of. */
#include "device/cpu/conv.h"

const instr *conv_load(const region *code) {
  const instr *last = &code->code[code->n - 1];
  if (last->op == REGION_ALU && last->code == ALU_cast && last->dtype == SN_F32)
    last = &code->code[last->a];
  return last->op == REGION_LOAD ? last : NULL;
}

bool conv_has_divisor(const region *code) {
  const instr *load = code->n > 0 ? conv_load(code) : NULL;
  bool has = false;
  for (int c = 0; load && c < load->at.n_checks; c++)
    has = has || load->at.checks[c].divisor != 1;
  return has;
}

bool conv_open_check(const cpu_run *r, const check *k, int n_axes, conv_check *out) {
  *out = (conv_check){.of = k, .pixel = -1, .kernel = -1, .divisor = cpu_size(r, k->divisor)};
  bool fits = true;
  for (int t = 0; t < k->n_terms && fits; t++) {
    const term *x = &k->terms[t];
    bool pixel = x->axis < n_axes;
    int *axis = pixel ? &out->pixel : &out->kernel;
    fits = x->axis != TERM_REG && *axis < 0 && cpu_size(r, x->div) <= 1 && cpu_size(r, x->mod) == 0;
    *axis = x->axis;
    *(pixel ? &out->by_pixel : &out->by_kernel) = cpu_size(r, x->stride);
  }
  return fits && out->pixel >= 0;
}

static bool same_sum(const cpu_run *r, sn_dim base, const term *a, int n, const check *k) {
  bool same = n == k->n_terms && cpu_size(r, base) == cpu_size(r, k->offset);
  for (int t = 0; t < n && same; t++)
    same = a[t].axis == k->terms[t].axis &&
           cpu_size(r, a[t].stride) == cpu_size(r, k->terms[t].stride) &&
           cpu_size(r, a[t].div) <= 1 && cpu_size(r, a[t].mod) == 0;
  return same;
}

const check *conv_find_check(const cpu_run *r, const region *code, const access *at,
                             const term *x) {
  const instr *div = &code->code[x->from];
  if (div->op != REGION_ALU || div->code != ALU_floor_div)
    return NULL;
  const instr *sum = &code->code[div->a], *by = &code->code[div->b];
  if (sum->op != REGION_INDEX || by->op != REGION_NUMBER)
    return NULL;
  for (int c = 0; c < at->n_checks; c++) {
    const check *k = &at->checks[c];
    if ((double)cpu_size(r, k->divisor) == by->x && cpu_size(r, k->size) == cpu_size(r, x->mod) &&
        same_sum(r, sum->at.base, sum->at.terms, sum->at.n_terms, k))
      return k;
  }
  return NULL;
}

/* Whether an operand's load can be said without its registers. */
static bool operand_fits(const cpu_run *r, const region *code) {
  const instr *load = conv_load(code);
  bool fits = load != NULL;
  for (int t = 0; fits && t < load->at.n_terms; t++)
    fits = load->at.terms[t].axis != TERM_REG ||
           conv_find_check(r, code, &load->at, &load->at.terms[t]);
  return fits;
}

/* Terms of axes that the map changes must be plain. */
static bool sum_fits(const cpu_run *r, const term *t, int n, const conv_map *m) {
  bool fits = true;
  for (int i = 0; i < n && fits; i++)
    fits = t[i].axis == TERM_REG || (m->by[t[i].axis] == 1 && m->from[t[i].axis] == 0) ||
           (cpu_size(r, t[i].div) <= 1 && cpu_size(r, t[i].mod) == 0);
  return fits;
}

bool conv_region_fits(const cpu_run *r, const region *code, const conv_map *m) {
  bool fits = true;
  for (int i = 0; i < code->n && fits; i++) {
    const access *at = &code->code[i].at;
    fits = sum_fits(r, at->terms, at->n_terms, m);
    for (int c = 0; c < at->n_checks && fits; c++)
      fits = sum_fits(r, at->checks[c].terms, at->checks[c].n_terms, m);
  }
  return fits;
}

/* The divisor of each axis of pixels, 1 for those without. */
static bool find_divisors(const cpu_run *r, const region *code, int n_axes, conv_map *m) {
  const instr *load = conv_load(code);
  bool fits = operand_fits(r, code);
  for (int c = 0; fits && c < load->at.n_checks; c++) {
    conv_check k;
    if (load->at.checks[c].divisor == 1)
      continue;
    fits = conv_open_check(r, &load->at.checks[c], n_axes, &k) && k.divisor > 0 &&
           (m->by[k.pixel] == 1 || m->by[k.pixel] == k.divisor);
    if (fits)
      m->by[k.pixel] = k.divisor;
  }
  return fits;
}

bool conv_any_divisor(const matmul_part *t) {
  bool has = false;
  for (int c = 0; c < t->n_accs; c++)
    for (int i = 0; i < t->accs[c].n_products; i++)
      has = has || conv_has_divisor(&t->accs[c].products[i].a) ||
            conv_has_divisor(&t->accs[c].products[i].b);
  return has;
}

static conv_map same_axes(void) {
  conv_map m = {{0}, {0}};
  for (int i = 0; i < REGION_AXES; i++)
    m.by[i] = 1;
  return m;
}

/* The phases of a part; 1: it stays whole. */
int64_t conv_find_phases(const cpu_run *r, const matmul_part *t, conv_map *m) {
  int n_axes = conv_axes(t);
  bool fits = conv_any_divisor(t);
  int64_t phases = 1;
  *m = same_axes();
  for (int c = 0; c < t->n_accs && fits; c++)
    for (int i = 0; i < t->accs[c].n_products && fits; i++) {
      const matmul_product *p = &t->accs[c].products[i];
      fits = p->n_k > 0 && (!conv_has_divisor(&p->a) || find_divisors(r, &p->a, n_axes, m)) &&
             (!conv_has_divisor(&p->b) || find_divisors(r, &p->b, n_axes, m));
    }
  for (int a = 0; a < n_axes && phases <= CONV_PHASES; a++)
    phases *= m->by[a];
  return fits && phases <= CONV_PHASES && conv_region_fits(r, &t->epilogue, m) ? phases : 1;
}
