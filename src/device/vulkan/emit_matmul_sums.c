/* See emit_matmul_sums.h. */
#include "device/vulkan/emit_matmul_sums.h"

#include "device/vulkan/emit_four.h"

/* The store of an epilogue that does nothing else; NULL: it does. */
static const instr *only_store(const emitter *e, const matmul_part *p) {
  if (p->n_accs != 1 || p->epilogue.n != 2)
    return NULL;
  const instr *sum = &p->epilogue.code[0], *store = &p->epilogue.code[1];
  if (sum->op != REGION_ACC || store->op != REGION_STORE || store->a != 0 ||
      e->env.program->values[store->at.value].type.dtype != SN_F32)
    return NULL;
  for (int i = 0; i < store->at.n_terms; i++) {
    const term *t = &store->at.terms[i];
    if (t->axis == TERM_REG || t->div != 1 || t->mod != 0)
      return NULL;
  }
  return store;
}

/* Whether a group of axes counts through the elements from `*run` on; *run: those of all axes so far. */
static bool counts_on(const matmul_part *p, const access *at, int first, int n, int64_t *run) {
  for (int d = first + n - 1; d >= first; d--) {
    const term *of = access_only_term(at, d);
    if (p->extent[d] == 1)
      continue;
    if (!of || *run < 0 || of->stride != *run)
      return false;
    if (!dim_is_number(p->extent[d]) || !mul_fits(*run, p->extent[d], run))
      *run = -1; /* that must have been the last */
  }
  return true;
}

static bool is_flat(const matmul_part *p, const access *at) {
  bool last = matmul_columns_last(p);
  int columns = p->n_batch + p->n_m, first[2] = {p->n_batch, columns}, n[2] = {p->n_m, p->n_n};
  int64_t run = 1;
  return at->base == 0 && counts_on(p, at, first[last], n[last], &run) &&
         counts_on(p, at, first[!last], n[!last], &run) && counts_on(p, at, 0, p->n_batch, &run);
}

/* Whether fours of the last side are scalars one by one, at places that numbers say. */
static bool is_apart(const matmul_part *p, const access *at) {
  bool last = matmul_columns_last(p);
  int n_axes = p->n_batch + p->n_m + p->n_n;
  four_axes along = {p->n_batch + (last ? p->n_m : 0), last ? p->n_n : p->n_m, p->extent};
  if (!dim_is_number(at->base) || !dims_are_positive(n_axes, p->extent) ||
      access_four(at, &along) == FOUR_NEXT)
    return false;
  for (int d = 0; d < n_axes; d++) {
    const term *of = access_only_term(at, d);
    if (p->extent[d] != 1 && (!of || !dim_is_number(of->stride)))
      return false;
  }
  return true;
}

sums_kind matmul_sums(const emitter *e, const matmul_part *p, uint32_t *out_value) {
  const instr *store = only_store(e, p);
  bool flat = store && is_flat(p, &store->at), apart = store && !flat && is_apart(p, &store->at);
  *out_value = flat || apart ? store->at.value : 0;
  return flat ? SUMS_FLAT : apart ? SUMS_APART : SUMS_OTHER;
}

static void count_group(const matmul_part *p, int first, int n, int64_t *run, sn_dim *out) {
  for (int d = first + n - 1; d >= first; d--) {
    out[d] = *run;
    *run *= p->extent[d];
  }
}

void sums_strides(const matmul_part *p, bool columns_last, bool pieces, sn_dim *out) {
  int first[2] = {p->n_batch, p->n_batch + p->n_m}, n[2] = {p->n_m, p->n_n};
  int64_t run = 1;
  if (pieces) {
    count_group(p, first[columns_last], n[columns_last], &run, out);
    count_group(p, first[!columns_last], n[!columns_last], &run, out);
    count_group(p, 0, p->n_batch, &run, out);
    return;
  }
  for (int d = 0; d < p->n_batch + p->n_m + p->n_n; d++) {
    const term *of = access_only_term(&p->epilogue.code[1].at, d);
    out[d] = of ? of->stride : 0;
  }
}
