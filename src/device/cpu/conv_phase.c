/* Makes one phase of a part: see conv.h. */
#include "device/cpu/conv.h"

void *conv_make(conv_maker *k, size_t bytes) {
  char *p = k->at;
  bytes = (bytes + 15) / 16 * 16;
  if ((size_t)(k->end - k->at) < bytes)
    return NULL;
  k->at += bytes;
  return p;
}

/* One sum through the map; false without memory. */
static bool map_sum(conv_maker *k, sn_dim *base, const term **terms, int n, const conv_map *m) {
  term *to = conv_make(k, (size_t)n * sizeof *to);
  int64_t start = cpu_size(k->r, *base);
  for (int i = 0; to && i < n; i++) {
    to[i] = (*terms)[i];
    if (to[i].axis == TERM_REG)
      continue;
    int64_t stride = cpu_size(k->r, to[i].stride);
    start += stride * m->from[to[i].axis];
    to[i].stride = stride * m->by[to[i].axis];
  }
  *base = start;
  *terms = to;
  return to != NULL;
}

/* A check that the map makes divisible: v / divisor instead. */
static void divide_check(check *c, term *terms, int64_t by) {
  c->offset /= by;
  for (int t = 0; t < c->n_terms; t++)
    terms[t].stride /= by;
  c->divisor = 1;
}

/* divide: the map makes those with a divisor divisible. */
static bool map_checks(conv_maker *k, access *at, const conv_map *m, bool divide) {
  check *to = conv_make(k, (size_t)at->n_checks * sizeof *to);
  for (int c = 0; to && c < at->n_checks; c++) {
    to[c] = at->checks[c];
    if (!map_sum(k, &to[c].offset, &to[c].terms, to[c].n_terms, m))
      return false;
    int64_t divisor = cpu_size(k->r, to[c].divisor);
    if (divide && divisor != 1)
      divide_check(&to[c], (term *)to[c].terms, divisor);
  }
  at->checks = to;
  return to != NULL;
}

static bool map_region(conv_maker *k, const region *from, const conv_map *m, region *out) {
  instr *code = conv_make(k, (size_t)from->n * sizeof *code);
  for (int i = 0; code && i < from->n; i++) {
    code[i] = from->code[i];
    access *at = &code[i].at;
    if (!map_sum(k, &at->base, &at->terms, at->n_terms, m) || !map_checks(k, at, m, false))
      return false;
  }
  *out = (region){from->n, code};
  return code != NULL;
}

/* The terms of a load whose registers become those of their checks, which are mapped already. */
static bool replace_registers(conv_maker *k, const region *from, const access *old, access *at) {
  term *to = conv_make(k, ACCESS_TERMS * sizeof *to);
  int n = 0;
  bool fits = to != NULL;
  for (int t = 0; t < old->n_terms && fits; t++) {
    const term *x = &old->terms[t];
    const check *c = x->axis == TERM_REG ? conv_find_check(k->r, from, old, x) : NULL;
    const check *mapped = c ? &at->checks[c - old->checks] : NULL;
    fits = n + (c ? c->n_terms : 1) <= ACCESS_TERMS;
    if (!c && fits)
      to[n++] = at->terms[t];
    int64_t stride = cpu_size(k->r, x->stride);
    for (int i = 0; c && fits && i < mapped->n_terms; i++, n++) {
      to[n] = mapped->terms[i];
      to[n].stride *= stride;
    }
    at->base += c ? stride * mapped->offset : 0;
  }
  at->terms = to;
  at->n_terms = n;
  return fits;
}

/* An operand with divisors: its load alone, and a cast. */
static bool map_strided(conv_maker *k, const region *from, const conv_map *m, region *out) {
  const instr *load = conv_load(from), *last = &from->code[from->n - 1];
  instr *code = conv_make(k, 2 * sizeof *code);
  if (!code)
    return false;
  code[0] = *load;
  code[1] = *last;
  code[1].a = 0;
  *out = (region){last == load ? 1 : 2, code};
  access *at = &code[0].at;
  return map_sum(k, &at->base, &at->terms, at->n_terms, m) && map_checks(k, at, m, true) &&
         replace_registers(k, from, &load->at, at);
}

static bool map_operand(conv_maker *k, const region *from, const conv_map *m, region *out) {
  return conv_has_divisor(from) ? map_strided(k, from, m, out) : map_region(k, from, m, out);
}

static int64_t remainder_of(int64_t x, int64_t by) { return (x % by + by) % by; }

/* The places of the kernel that one check leaves to a phase: y0 + t * j; false: none. */
static bool find_places(const conv_check *c, int64_t v, int64_t *y0, int64_t *t) {
  int64_t y = 0;
  *y0 = 0;
  *t = 1;
  if (c->kernel < 0)
    return remainder_of(v, c->divisor) == 0;
  while (y < c->divisor && remainder_of(v + c->by_kernel * y, c->divisor) != 0)
    y++;
  *y0 = y;
  if (y == c->divisor)
    return false;
  while (remainder_of(c->by_kernel * *t, c->divisor) != 0)
    ++*t;
  return true;
}

/* The map of a product's k axes for a phase, and their extents; *none: no product at all. False: it has no such form. */
static bool map_kernel(const cpu_run *r, const region *code, int n_axes, conv_map *m, bool *none) {
  const instr *load = conv_has_divisor(code) ? conv_load(code) : NULL;
  bool fits = true;
  for (int c = 0; load && c < load->at.n_checks && fits; c++) {
    conv_check k;
    int64_t y0, t;
    if (load->at.checks[c].divisor == 1)
      continue;
    fits = conv_open_check(r, &load->at.checks[c], n_axes, &k);
    bool some = find_places(&k, cpu_size(r, k.of->offset) + k.by_pixel * m->from[k.pixel], &y0, &t);
    *none = *none || !some;
    if (k.kernel < 0 || !some)
      continue;
    fits = fits && m->by[k.kernel] == 1 && m->from[k.kernel] == 0; /* of one check only */
    m->from[k.kernel] = y0;
    m->by[k.kernel] = t;
  }
  return fits;
}

static int64_t places(int64_t extent, int64_t from, int64_t by) {
  return extent > from ? (extent - from + by - 1) / by : 0;
}

/* Operands of no product. */
static const instr zero = {.op = REGION_NUMBER, .dtype = SN_F32};

static bool make_product(conv_maker *k, const matmul_product *from, int n_axes, conv_map m,
                         matmul_product *out) {
  bool none = false;
  *out = *from;
  if (!map_kernel(k->r, &from->a, n_axes, &m, &none) ||
      !map_kernel(k->r, &from->b, n_axes, &m, &none) || !conv_region_fits(k->r, &from->a, &m) ||
      !conv_region_fits(k->r, &from->b, &m))
    return false;
  for (int d = 0; d < from->n_k; d++)
    out->k[d] = none ? 0 : places(cpu_size(k->r, from->k[d]), m.from[n_axes + d], m.by[n_axes + d]);
  if (none) {
    out->a = out->b = (region){1, &zero};
    return true;
  }
  return map_operand(k, &from->a, &m, &out->a) && map_operand(k, &from->b, &m, &out->b);
}

bool conv_make_phase(conv_maker *k, const matmul_part *from, const conv_map *m, matmul_part *out) {
  int n_axes = conv_axes(from);
  matmul_acc *accs = conv_make(k, (size_t)from->n_accs * sizeof *accs);
  *out = *from;
  out->accs = accs;
  for (int a = 0; a < n_axes; a++)
    out->extent[a] = places(cpu_size(k->r, from->extent[a]), m->from[a], m->by[a]);
  for (int c = 0; c < from->n_accs && accs; c++) {
    int n = from->accs[c].n_products;
    matmul_product *products = conv_make(k, (size_t)n * sizeof *products);
    accs[c] = (matmul_acc){n, products};
    for (int i = 0; i < n; i++)
      if (!products || !make_product(k, &from->accs[c].products[i], n_axes, *m, &products[i]))
        return false;
  }
  return accs && map_region(k, &from->epilogue, m, &out->epilogue);
}
