/* See matmul_world.h. */
#include "support/matmul_world.h"

#include "base/half.h"
#include "ir/dtype.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

static uint32_t draw(matmul_world *w, uint32_t below) {
  w->seed = w->seed * 1664525u + 1013904223u;
  return (w->seed >> 8) % below;
}

/* --- values --- */

static uint32_t add_value(matmul_world *w, sn_dtype dtype, int64_t count) {
  enum { MOST = 1 << 24 };
  w->too_large = w->too_large || count > MOST;
  count = min_i64(count, MOST);
  uint32_t v = w->p.n_values++;
  w->values[v] = (program_value){.type = {.dtype = dtype}, .count = count};
  w->counts[v] = count;
  w->address[v] = malloc((size_t)count * 4 + 64);
  w->numbers[v] = malloc((size_t)count * sizeof(double) + 8);
  for (int64_t i = 0; i < count; i++) {
    w->numbers[v][i] = (double)draw(w, 7) - 3;
    dtype_store(dtype, w->address[v], i, w->numbers[v][i]);
  }
  return v;
}

void matmul_world_free(matmul_world *w) {
  for (uint32_t v = 1; v < w->p.n_values; v++) {
    free(w->address[v]);
    free(w->numbers[v]);
  }
  free(w);
}

/* --- drawn parts --- */

/* An access that is dense over the axes given, in a drawn order, some of them broadcast. */
static access draw_access(matmul_world *w, sn_dtype dtype, const int *axes, int n,
                          const int64_t *extent, bool all) {
  int order[REGION_AXES];
  term *terms = w->terms[w->n_terms++];
  int64_t count = 1;
  int used = 0;
  for (int i = 0; i < n; i++)
    order[i] = axes[i];
  for (int i = n - 1; i > 0; i--) {
    int j = (int)draw(w, (uint32_t)i + 1), swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
  for (int i = 0; i < n; i++) {
    if (!all && draw(w, 5) == 0)
      continue;
    terms[used++] = (term){.axis = (uint8_t)order[i], .stride = count, .div = 1};
    count *= extent[order[i]];
  }
  int64_t base = draw(w, 2) ? 0 : 3;
  uint32_t v = add_value(w, dtype, count + base);
  return (access){.value = v, .base = base, .n_terms = used, .terms = terms};
}

/* Some axis counted as (i / div) % mod, where an access can say it: its first term becomes two. */
static void split_term(matmul_world *w, access *at, const int64_t *extent) {
  term *terms = w->terms[w->n_terms++];
  if (at->n_terms == 0 || at->n_terms + 1 > WORLD_TERMS)
    return;
  memcpy(terms, at->terms, (size_t)at->n_terms * sizeof *terms);
  int64_t by = 2, stride = terms[0].stride;
  if (extent[terms[0].axis] % by != 0)
    return;
  terms[at->n_terms] = terms[0];
  terms[0].mod = by;
  terms[at->n_terms].div = by;
  terms[at->n_terms].stride = stride * by;
  at->n_terms++;
  at->terms = terms;
}

/* A window: coordinate row + k - 1 of an axis of `size` places, outside of which is 0; plus dense other axes. */
static access draw_window(matmul_world *w, sn_dtype dtype, int row, int k, const int64_t *extent) {
  term *terms = w->terms[w->n_terms++], *of = w->terms[w->n_terms++];
  int64_t size = max_i64(1, extent[row] + extent[k] - 1 - (int64_t)draw(w, 3));
  int64_t divisor = 1 + (int64_t)draw(w, 2);
  terms[0] = (term){.axis = (uint8_t)row, .stride = 1, .div = 1};
  terms[1] = (term){.axis = (uint8_t)k, .stride = 1, .div = 1};
  memcpy(of, terms, 2 * sizeof *of);
  check *c = &w->checks[w->n_checks++];
  *c = (check){.n_terms = 2, .terms = of, .offset = -1, .size = size, .divisor = divisor};
  uint32_t v = add_value(w, dtype, size * divisor + extent[row] + extent[k]);
  return (access){.value = v, .base = -1, .n_terms = 2, .terms = terms, .n_checks = 1, .checks = c};
}

/* An operand over batch, rows and k. */
static region draw_operand(matmul_world *w, int first_row, int n_rows, int n_k,
                           const int64_t *extent) {
  int axes[REGION_AXES], n = 0, k0 = w->part.n_batch + w->part.n_m + w->part.n_n;
  for (int d = 0; d < w->part.n_batch; d++)
    axes[n++] = d;
  for (int d = 0; d < n_rows; d++)
    axes[n++] = first_row + d;
  for (int d = 0; d < n_k; d++)
    axes[n++] = k0 + d;
  static const sn_dtype dtypes[] = {SN_F32, SN_F32, SN_F32, SN_F16, SN_BF16};
  sn_dtype dtype = dtypes[draw(w, 5)];
  instr *code = w->code[w->n_codes++];
  bool window = n_rows > 0 && n_k > 0 && draw(w, 4) == 0;
  access at = window ? draw_window(w, dtype, first_row + n_rows - 1, k0, extent)
                     : draw_access(w, dtype, axes, n, extent, false);
  if (!window && draw(w, 3) == 0)
    split_term(w, &at, extent);
  code[0] = (instr){.op = REGION_LOAD, .dtype = (uint8_t)dtype, .at = at};
  int length = 1;
  if (dtype != SN_F32 && draw(w, 2))
    code[length++] = (instr){.op = REGION_ALU, .code = ALU_cast, .dtype = SN_F32, .a = 0};
  if (draw(w, 3) == 0) {
    code[length] = (instr){.op = REGION_NUMBER, .dtype = SN_F32, .x = 2};
    code[length + 1] = (instr){.op = REGION_ALU,
                               .code = ALU_sub,
                               .dtype = SN_F32,
                               .a = (reg)(length - 1),
                               .b = (reg)length};
    length += 2;
  }
  return (region){.n = length, .code = code};
}

/* acc, or acc0 * bias (+ acc1), stored. */
static void draw_epilogue(matmul_world *w) {
  int axes[REGION_AXES], n = w->part.n_batch + w->part.n_m + w->part.n_n, length = 0;
  for (int d = 0; d < n; d++)
    axes[d] = d;
  instr *code = w->code[w->n_codes++];
  code[length++] = (instr){.op = REGION_ACC, .dtype = SN_F32, .index = 0};
  if (draw(w, 2)) {
    code[length++] = (instr){.op = REGION_LOAD,
                             .dtype = SN_F32,
                             .at = draw_access(w, SN_F32, axes, n, w->extent, false)};
    code[length++] = (instr){.op = REGION_ALU, .code = ALU_mul, .dtype = SN_F32, .a = 0, .b = 1};
  }
  if (w->part.n_accs > 1) {
    code[length] = (instr){.op = REGION_ACC, .dtype = SN_F32, .index = 1};
    code[length + 1] = (instr){.op = REGION_ALU,
                               .code = ALU_add,
                               .dtype = SN_F32,
                               .a = (reg)(length - 1),
                               .b = (reg)length};
    length += 2;
  }
  sn_dtype dtype = draw(w, 4) == 0 ? SN_BF16 : SN_F32;
  code[length] = (instr){.op = REGION_STORE,
                         .dtype = SN_F32,
                         .a = (reg)(length - 1),
                         .at = draw_access(w, dtype, axes, n, w->extent, true)};
  w->part.epilogue = (region){.n = length + 1, .code = code};
}

static void draw_product(matmul_world *w, matmul_product *p, const int64_t *sizes, int n_sizes) {
  int64_t extent[REGION_AXES];
  int n = w->part.n_batch + w->part.n_m + w->part.n_n;
  memcpy(extent, w->extent, sizeof extent);
  p->n_k = (int)draw(w, 3);
  for (int d = 0; d < p->n_k; d++)
    extent[n + d] = p->k[d] = sizes[draw(w, (uint32_t)n_sizes)];
  p->a = draw_operand(w, w->part.n_batch, w->part.n_m, p->n_k, extent);
  p->b = draw_operand(w, w->part.n_batch + w->part.n_m, w->part.n_n, p->n_k, extent);
}

/* A product along the same k as another one, in most cases with one of its operands, or both. */
static void draw_like(matmul_world *w, matmul_product *p, const matmul_product *other) {
  enum { NONE_OWN, BOTH_OWN, WAYS = 4 };
  int64_t extent[REGION_AXES];
  int n = w->part.n_batch + w->part.n_m + w->part.n_n, way = (int)draw(w, WAYS);
  *p = *other;
  memcpy(extent, w->extent, sizeof extent);
  memcpy(extent + n, p->k, (size_t)p->n_k * sizeof *p->k);
  if (way == BOTH_OWN)
    p->a = draw_operand(w, w->part.n_batch, w->part.n_m, p->n_k, extent);
  if (way != NONE_OWN)
    p->b = draw_operand(w, w->part.n_batch + w->part.n_m, w->part.n_n, p->n_k, extent);
}

matmul_world *matmul_world_draw(uint32_t seed, const int64_t *sizes, int n_sizes, int most_axes) {
  matmul_world *w = calloc(1, sizeof *w);
  if (!w)
    abort();
  w->seed = seed;
  w->p.values = w->values;
  w->p.n_values = 1;
  matmul_part *t = &w->part;
  t->n_batch = (int)draw(w, 2);
  t->n_m = (int)draw(w, (uint32_t)most_axes + 1);
  t->n_n = (int)draw(w, (uint32_t)most_axes + 1);
  for (int d = 0; d < t->n_batch + t->n_m + t->n_n; d++)
    t->extent[d] = w->extent[d] =
        d < t->n_batch ? 1 + (int64_t)draw(w, 3) : sizes[draw(w, (uint32_t)n_sizes)];
  t->n_accs = 1 + (draw(w, 4) == 0);
  t->accs = w->accs;
  int products = 1 + (draw(w, 4) == 0);
  bool alike = draw(w, 4) != 0;
  for (int c = 0; c < t->n_accs; c++) {
    int own = alike ? products : 1 + (draw(w, 4) == 0);
    w->accs[c] = (matmul_acc){.n_products = own, .products = w->products[c]};
    for (int i = 0; i < own; i++)
      if (alike && c > 0)
        draw_like(w, &w->products[c][i], &w->products[0][i]);
      else
        draw_product(w, &w->products[c][i], sizes, n_sizes);
  }
  draw_epilogue(w);
  return w;
}

static term along(int axis, int64_t stride) {
  return (term){.axis = (uint8_t)axis, .stride = stride, .div = 1};
}

/* Axes: image, y, x | result | channel, window y, window x. */
matmul_world *matmul_world_convolve(uint32_t seed, int64_t height, int64_t channels) {
  matmul_world *w = calloc(1, sizeof *w);
  if (!w)
    abort();
  int64_t plane = height * height;
  w->seed = seed;
  w->p.values = w->values;
  w->p.n_values = 1;
  w->part = (matmul_part){.n_m = 3, .n_n = 1, .n_accs = 1, .accs = w->accs};
  const int64_t extent[] = {4, height, height, channels};
  for (int d = 0; d < 4; d++)
    w->part.extent[d] = w->extent[d] = extent[d];
  const term image[] = {along(0, channels * plane), along(1, height), along(2, 1), along(4, plane),
                        along(5, height),           along(6, 1)};
  const term weight[] = {along(3, 9 * channels), along(4, 9), along(5, 3), along(6, 1)};
  const term result[] = {along(0, channels * plane), along(1, height), along(2, 1),
                         along(3, plane)};
  memcpy(w->terms[0], image, sizeof image);
  memcpy(w->terms[1], weight, sizeof weight);
  memcpy(w->terms[2], result, sizeof result);
  for (int d = 0; d < 2; d++) {
    w->terms[3 + d][0] = along(1 + d, 1);
    w->terms[3 + d][1] = along(5 + d, 1);
    w->checks[d] = (check){2, w->terms[3 + d], -1, height, 1};
  }
  uint32_t a = add_value(w, SN_F32, 4 * channels * plane);
  uint32_t b = add_value(w, SN_F32, 9 * channels * channels);
  uint32_t c = add_value(w, SN_F32, 4 * channels * plane);
  w->code[0][0] = (instr){.op = REGION_LOAD, .dtype = SN_F32};
  w->code[0][0].at = (access){a, -height - 1, 6, 2, w->terms[0], w->checks};
  w->code[1][0] = (instr){.op = REGION_LOAD, .dtype = SN_F32};
  w->code[1][0].at = (access){.value = b, .n_terms = 4, .terms = w->terms[1]};
  w->code[2][0] = (instr){.op = REGION_ACC, .dtype = SN_F32};
  w->code[2][1] = (instr){.op = REGION_STORE, .dtype = SN_F32};
  w->code[2][1].at = (access){.value = c, .n_terms = 4, .terms = w->terms[2]};
  w->products[0][0] =
      (matmul_product){.n_k = 3, .k = {channels, 3, 3}, .a = {1, w->code[0]}, .b = {1, w->code[1]}};
  w->accs[0] = (matmul_acc){1, w->products[0]};
  w->part.epilogue = (region){2, w->code[2]};
  return w;
}

/* --- the plain evaluation --- */

static int64_t sum_terms(int64_t base, const term *terms, int n, const int64_t *coords) {
  for (int t = 0; t < n; t++) {
    int64_t i = coords[terms[t].axis] / terms[t].div;
    base += terms[t].stride * (terms[t].mod ? i % terms[t].mod : i);
  }
  return base;
}

static double load(const matmul_world *w, const access *at, const int64_t *coords) {
  for (int c = 0; c < at->n_checks; c++) {
    const check *k = &at->checks[c];
    int64_t v = sum_terms(k->offset, k->terms, k->n_terms, coords);
    if (v < 0 || v % k->divisor != 0 || v / k->divisor >= k->size)
      return 0;
  }
  return w->numbers[at->value][sum_terms(at->base, at->terms, at->n_terms, coords)];
}

static double evaluate(matmul_world *w, const region *code, const int64_t *coords,
                       const double *accs) {
  double r[WORLD_INSTRS] = {0};
  for (int i = 0; i < code->n; i++) {
    const instr *c = &code->code[i];
    switch (c->op) {
    case REGION_LOAD: r[i] = load(w, &c->at, coords); break;
    case REGION_NUMBER: r[i] = c->x; break;
    case REGION_ACC: r[i] = accs[c->index]; break;
    case REGION_STORE:
      r[i] = r[c->a];
      w->numbers[c->at.value][sum_terms(c->at.base, c->at.terms, c->at.n_terms, coords)] = r[i];
      break;
    default:
      r[i] = c->code == ALU_cast  ? r[c->a]
             : c->code == ALU_sub ? r[c->a] - r[c->b]
             : c->code == ALU_mul ? r[c->a] * r[c->b]
                                  : r[c->a] + r[c->b];
    }
  }
  return r[code->n - 1];
}

static bool next(int64_t *coords, const int64_t *extent, int first, int n) {
  for (int d = first + n - 1; d >= first; d--) {
    if (++coords[d] < extent[d])
      return true;
    coords[d] = 0;
  }
  return false;
}

static double sum_product(matmul_world *w, const matmul_product *p, const int64_t *at) {
  int n = w->part.n_batch + w->part.n_m + w->part.n_n;
  int64_t coords[REGION_AXES] = {0}, extent[REGION_AXES] = {0};
  memcpy(coords, at, (size_t)n * sizeof *coords);
  for (int d = 0; d < p->n_k; d++)
    if ((extent[n + d] = p->k[d]) == 0)
      return 0;
  double sum = 0;
  do
    sum += evaluate(w, &p->a, coords, NULL) * evaluate(w, &p->b, coords, NULL);
  while (next(coords, extent, n, p->n_k));
  return sum;
}

void matmul_world_evaluate(matmul_world *w) {
  int n = w->part.n_batch + w->part.n_m + w->part.n_n;
  int64_t coords[REGION_AXES] = {0};
  for (int d = 0; d < n; d++)
    if (w->extent[d] == 0)
      return;
  do {
    double accs[2] = {0};
    for (int c = 0; c < w->part.n_accs; c++)
      for (int i = 0; i < w->accs[c].n_products; i++)
        accs[c] += sum_product(w, &w->products[c][i], coords);
    (void)evaluate(w, &w->part.epilogue, coords, accs);
  } while (next(coords, w->extent, 0, n));
}

/* Multiplications of the plain evaluation. */
double matmul_world_work(const matmul_world *w) {
  double points = 1, each = 0;
  for (int d = 0; d < w->part.n_batch + w->part.n_m + w->part.n_n; d++)
    points *= (double)w->extent[d];
  for (int c = 0; c < w->part.n_accs; c++)
    for (int i = 0; i < w->accs[c].n_products; i++) {
      double k = 1;
      for (int d = 0; d < w->products[c][i].n_k; d++)
        k *= (double)w->products[c][i].k[d];
      each += k;
    }
  return w->too_large ? INFINITY : points * each;
}

bool matmul_world_check(const matmul_world *w) {
  const instr *store = &w->part.epilogue.code[w->part.epilogue.n - 1];
  uint32_t v = store->at.value;
  sn_dtype dtype = w->values[v].type.dtype;
  for (int64_t i = 0; i < w->counts[v]; i++) {
    double got = dtype_load(dtype, w->address[v], i), want = dtype_round(dtype, w->numbers[v][i]);
    if (got != want) {
      FAIL("element %lld of %lld: expected %g, got %g", (long long)i, (long long)w->counts[v], want,
           got);
      return false;
    }
  }
  return true;
}
