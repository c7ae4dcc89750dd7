/* A part with the sizes of this run: its sides, how they are cut, its operands. See matmul.h. */
#include "device/cpu/conv_winograd.h"
#include "device/cpu/matmul.h"

static axis_group group_of(int first, int n, const int64_t *extent) {
  axis_group g = {.first = first, .n = n, .count = 1};
  for (int d = 0; d < n; d++)
    g.count *= extent[first + d];
  return g;
}

static sn_status take_table(cpu_run *r, direct_table *t) {
  t->at = cpu_take(r, MATMUL_TABLE * sizeof *t->at);
  bool all = t->at;
  for (int c = 0; c < ACCESS_CHECKS; c++) {
    t->checks[c] = cpu_take(r, MATMUL_TABLE * sizeof *t->at);
    all = all && t->checks[c];
  }
  return all ? SN_OK : SN_ERR_INTERNAL;
}

static sn_status open_product(matmul_work *w, const matmul_product *from, struct matmul_term *to) {
  int n_axes = w->n.first + w->n.n;
  memcpy(to->extent, w->extent, sizeof to->extent);
  for (int d = 0; d < from->n_k; d++)
    to->extent[n_axes + d] = cpu_size(w->r, from->k[d]);
  to->k = group_of(n_axes, from->n_k, to->extent);
  to->of[ROWS] = w->turned ? &to->b : &to->a;
  to->of[COLS] = w->turned ? &to->a : &to->b;
  SN_TRY(operand_open(&to->a, w->r, &from->a, to->extent, n_axes + from->n_k, w->m, to->k));
  return operand_open(&to->b, w->r, &from->b, to->extent, n_axes + from->n_k, w->n, to->k);
}

static bool is_same_sum(const direct_sum *a, const direct_sum *b) {
  bool same = a->base == b->base && a->n == b->n;
  for (int i = 0; i < a->n && same; i++)
    same = a->terms[i].axis == b->terms[i].axis && a->terms[i].stride == b->terms[i].stride &&
           a->terms[i].div == b->terms[i].div && a->terms[i].mod == b->terms[i].mod;
  return same;
}

/* Whether two operands of one side are the same loads. */
static bool is_same(const matmul_operand *a, const matmul_operand *b) {
  const direct_access *x = &a->direct, *y = &b->direct;
  bool same = a->is_direct && b->is_direct && x->data == y->data && x->dtype == y->dtype &&
              x->n_checks == y->n_checks && a->k.n == b->k.n && is_same_sum(&x->at, &y->at);
  for (int d = 0; d < a->k.n && same; d++)
    same = a->extent[a->k.first + d] == b->extent[b->k.first + d];
  for (int c = 0; c < x->n_checks && same; c++)
    same = x->checks[c].size == y->checks[c].size && x->checks[c].divisor == y->checks[c].divisor &&
           is_same_sum(&x->checks[c].at, &y->checks[c].at);
  return same;
}

/* Which operands are the same as an earlier one. */
static void find_same(matmul_work *w, int i) {
  struct matmul_term *t = &w->products[i];
  for (int side = 0; side < SIDES; side++) {
    t->same[side] = i;
    for (int j = 0; j < i && t->same[side] == i; j++)
      if (is_same(t->of[side], w->products[j].of[side]))
        t->same[side] = j;
  }
}

static sn_status open_products(matmul_work *w) {
  const matmul_part *t = w->part;
  w->products = cpu_take(w->r, (size_t)matmul_products(t) * sizeof *w->products);
  if (!w->products)
    return SN_ERR_INTERNAL;
  for (int c = 0; c < t->n_accs; c++)
    for (int i = 0; i < t->accs[c].n_products; i++) {
      struct matmul_term *to = &w->products[w->n_products];
      to->acc = c;
      to->first = i == 0;
      to->from = &t->accs[c].products[i];
      SN_TRY(open_product(w, &t->accs[c].products[i], to));
      find_same(w, w->n_products++);
    }
  return SN_OK;
}

/* k of all products. */
static int64_t sum_k(const cpu_run *r, const matmul_part *t) {
  int64_t sum = 0;
  for (int c = 0; c < t->n_accs; c++)
    for (int i = 0; i < t->accs[c].n_products; i++) {
      int64_t k = 1;
      for (int d = 0; d < t->accs[c].products[i].n_k; d++)
        k *= cpu_size(r, t->accs[c].products[i].k[d]);
      sum += k;
    }
  return sum;
}

/* Whether a side's operands are kept, all of them. */
static bool is_kept(const matmul_work *w, int side) {
  const matmul_part *t = w->part;
  bool kept = w->kept != NULL && !w->winograd;
  for (int c = 0; c < t->n_accs && kept; c++)
    for (int i = 0; i < t->accs[c].n_products && kept; i++)
      kept = matmul_kept_floats(w->r->program, t, &t->accs[c].products[i],
                                (side == COLS) != w->turned) > 0;
  return kept;
}

/* Where the kept panels of each operand are: a and b of each product one after the other. */
static void place_kept(matmul_work *w) {
  float *at = w->winograd ? NULL : w->kept;
  for (int i = 0; i < w->n_products; i++)
    for (int b = 0; b < 2; b++) {
      struct matmul_term *t = &w->products[i];
      int64_t floats = at ? matmul_kept_floats(w->r->program, w->part, t->from, b) : 0;
      t->kept[(b == 1) != w->turned ? COLS : ROWS] = floats > 0 ? at : NULL;
      at = at ? at + floats : NULL;
    }
}

static matmul_shape shape_of(const matmul_work *w) {
  const cpu_run *r = w->r;
  int64_t align = PROGRAM_ALIGN / (int64_t)sizeof(float);
  int64_t room = r->crew ? (int64_t)(r->crew->shared_bytes / sizeof(float)) : 0;
  return (matmul_shape){.batch = w->batch.count,
                        .extent = {w->side[ROWS].count, w->side[COLS].count},
                        .k = sum_k(r, w->part),
                        .width = {r->isa->matmul->rows, r->isa->matmul->cols},
                        .accs = w->part->n_accs,
                        .threads = r->threads,
                        .caches = caches_get(),
                        .room = room - matmul_products(w->part) * align,
                        .kept = {w->winograd || is_kept(w, ROWS), w->winograd || is_kept(w, COLS)}};
}

/* Whether the operand with more rows has checks: it cannot be read where it lies, and vectors have nothing to gain. */
static bool big_is_checked(const matmul_part *t, bool is_a) {
  bool checked = false;
  for (int c = 0; c < t->n_accs; c++)
    for (int i = 0; i < t->accs[c].n_products; i++) {
      const region *code = is_a ? &t->accs[c].products[i].a : &t->accs[c].products[i].b;
      for (int k = 0; k < code->n; k++)
        checked = checked || code->code[k].at.n_checks > 0;
    }
  return checked;
}

bool matmul_size(matmul_work *w, cpu_run *r, const step *of, const matmul_part *t) {
  *w = (matmul_work){.r = r, .part = t};
  for (int d = 0; d < t->n_batch + t->n_m + t->n_n; d++)
    w->extent[d] = cpu_size(r, t->extent[d]);
  w->batch = group_of(0, t->n_batch, w->extent);
  w->m = group_of(t->n_batch, t->n_m, w->extent);
  w->n = group_of(t->n_batch + t->n_m, t->n_n, w->extent);
  w->few =
      min_i64(w->m.count, w->n.count) <= MATMUL_FEW && !big_is_checked(t, w->m.count > w->n.count);
  w->turned = w->few ? w->n.count < w->m.count : store_is_along_m(t);
  w->side[ROWS] = w->turned ? w->n : w->m;
  w->side[COLS] = w->turned ? w->m : w->n;
  w->kept = w->few ? NULL : matmul_find_kept(r, of, t);
  if (w->kept && winograd_kept(r->program, t) > 0) {
    w->winograd = winograd_pays(w);
    w->kept = w->winograd ? w->kept : NULL;
  }
  w->made = !w->few && !w->kept && winograd_made_pays(w, of);
  w->winograd = w->winograd || w->made;
  w->grad = !w->few && !w->kept && winograd_grad_pays(w, of);
  w->slices = w->few || w->kept || w->grad ? 0 : matmul_slices_of(of, t);
  w->shape = shape_of(w);
  w->cut = matmul_cut_for(&w->shape);
  return w->batch.count > 0 && w->m.count > 0 && w->n.count > 0;
}

sn_status matmul_open(matmul_work *w) {
  SN_TRY(take_table(w->r, &w->outer));
  SN_TRY(take_table(w->r, &w->inner));
  if (!(w->pack_room = cpu_take(w->r, plan_pack_bytes())))
    return SN_ERR_INTERNAL;
  SN_TRY(open_products(w));
  place_kept(w);
  return store_open(w);
}
