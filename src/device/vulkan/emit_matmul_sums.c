/* See emit_matmul_sums.h. */
#include "device/vulkan/emit_matmul_sums.h"

#include "device/vulkan/emit_four.h"
#include "device/vulkan/emit_matmul_rewrite.h"

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

/* --- in memory's order --- */

/* Axes of a part from the one with the longest way from point to point to the shortest; false: they do not count through the whole result. */
static bool in_order(const matmul_part *p, const access *at, int *axes, int *out_n) {
  int n = 0;
  int64_t stride[REGION_AXES], run = 1;
  for (int d = 0; d < p->n_batch + p->n_m + p->n_n; d++) {
    if (p->extent[d] == 1)
      continue;
    int64_t own = access_only_term(at, d)->stride;
    int i = n++;
    for (; i > 0 && stride[i - 1] < own; i--) {
      stride[i] = stride[i - 1];
      axes[i] = axes[i - 1];
    }
    stride[i] = own;
    axes[i] = d;
  }
  for (int i = n - 1; i >= 0; i--) {
    if (stride[i] != run)
      return false;
    run *= p->extent[axes[i]];
  }
  *out_n = n;
  return true;
}

bool sums_want_order(const emitter *e, const matmul_part *p, int splits) {
  enum { MANY = 1 << 18 };
  uint32_t value;
  int axes[REGION_AXES], n;
  int64_t all = 1;
  if (matmul_sums(e, p, &value) != SUMS_APART)
    return false;
  for (int d = 0; d < p->n_batch + p->n_m + p->n_n; d++)
    all *= p->extent[d];
  return (splits > 1 || all >= MANY) && in_order(p, &p->epilogue.code[1].at, axes, &n);
}

sn_status sums_join(emitter *e, const matmul_part *p, const matmul_way *way, int64_t scratch,
                    const amount *of, int64_t least, int64_t most) {
  enum { THREADS = 256 };
  const access *to = &p->epilogue.code[1].at;
  const matmul_part *r = matmul_fold_result(&e->env, p);
  kernel *k = r ? emit_open(e, THREADS) : NULL;
  int axes[REGION_AXES], n = 0;
  if (!k)
    return SN_ERR_NO_MEMORY;
  if (!in_order(r, &r->epilogue.code[1].at, axes, &n))
    k->why = "results that are not in memory's order";
  matmul m = {.e = e, .part = p, .way = way, .scratch = scratch};
  amount all = {p->n_batch + p->n_m + p->n_n, 1, p->extent};
  sums_strides(r, matmul_columns_last(p), true, m.strides);
  k->ones = true;
  val flat = k_add(k, times(k, k->group, THREADS), k->local);
  k_if inside = k_if_begin(k, k_lt(k, flat, k_amount(k, &all)));
  val rest = flat, first = k_index(k, 0), sums[EMIT_ACCS][4];
  for (int i = n - 1; i >= 0; i--) {
    val at = rest;
    if (i > 0)
      rest = k_divide(k, rest, &(amount){1, 1, &r->extent[axes[i]]}, &at);
    first = k_add(k, first, k_mul(k, at, k_size_of(k, &m.strides[axes[i]])));
  }
  matmul_join_sums(&m, first, 1, sums);
  k_store(k, k_address(k, to->value), k_add(k, flat, k_size_of(k, &to->base)), sums[0][0]);
  k_if_end(k, &inside);
  k->ones = false;
  all.tile = THREADS;
  kernel_grid(k, 1, &all);
  return emit_launch_when(e, true, of, least, most);
}
