/* Loop parts, and those without rows: points. See emit.h; emit_rows.c has the rest. */
#include "device/vulkan/emit_rows.h"

enum { LOOP_POINTS = 4 /* of a thread, where there are many */ };

static bool has_requirement(const region *r) {
  for (int i = 0; i < r->n; i++)
    if (r->code[i].op == REGION_REQUIRE)
      return true;
  return false;
}

/* Several points a thread, so that its loads overlap; where there are enough of them, and few registers a point. Fours save so
 * many instructions that they pay with a subgroup for every unit. */
static int points_of_thread(const emitter *e, const loop_part *p, int threads, bool fours) {
  int64_t points = sizes_most(&e->env, p->n_axes, p->extent);
  int64_t least = (int64_t)(fours ? e->env.target->subgroup : threads * 2) * LOOP_POINTS;
  bool many = points / least >= e->env.target->units;
  return many && p->code.n <= 40 && !has_requirement(&p->code) ? LOOP_POINTS : 1;
}

/* The points' instructions side by side: points `apart` of each other, from the first on. */
static void emit_points_at(emitter *e, const loop_part *p, val first, int n, int apart) {
  kernel *k = e->k;
  val axes[LOOP_POINTS][REGION_AXES] = {{0}};
  e->code = p->code.code;
  for (int u = 0; u < n; u++) {
    memset(e->axis, 0, sizeof e->axis);
    val i = u ? k_add(k, first, k_index(k, (int64_t)u * apart)) : first;
    emit_coordinates(e, i, 0, p->n_axes, p->extent);
    memcpy(axes[u], e->axis, sizeof e->axis);
  }
  for (int i = 0; i < p->code.n; i++)
    for (int u = 0; u < n; u++) {
      memcpy(e->axis, axes[u], sizeof e->axis);
      e->reg = e->regs[u];
      e->reg[i] = emit_instr(e, &p->code.code[i]);
    }
  e->reg = e->regs[0];
}

/* Whether points come in fours, which all of the part's memory has next to each other, or in one element. */
static bool has_fours(const emitter *e, const loop_part *p) {
  four_axes all = {0, p->n_axes, p->extent};
  int64_t points = 1;
  for (int d = 0; d < p->n_axes; d++)
    if (!dim_is_number(p->extent[d]) || !mul_fits(points, p->extent[d], &points))
      return false;
  for (int i = 0; i < p->code.n; i++) {
    const instr *in = &p->code.code[i];
    if (in->op != REGION_LOAD && in->op != REGION_STORE)
      continue;
    four_kind kind = emit_four_kind(e, &p->code, i, &all);
    if (kind == FOUR_APART || (kind == FOUR_SAME && in->op == REGION_STORE))
      return false;
  }
  return points > 0 && points % 4 == 0;
}

static void emit_fours(emitter *e, const loop_part *p, val first, val n) {
  kernel *k = e->k;
  four_points four = {.along = {0, p->n_axes, p->extent}};
  k_if inside = k_if_begin(k, k_lt(k, first, n));
  int last = p->n_axes - 1;
  bool ends = p->extent[last] % 4 == 0; /* fours end where the last axis does */
  for (int u = 0; u < 4; u++) {
    memset(e->axis, 0, sizeof e->axis);
    if (u == 0 || !ends) {
      emit_coordinates(e, u ? k_add(k, first, k_index(k, u)) : first, 0, p->n_axes, p->extent);
    } else {
      memcpy(e->axis, four.axes[0], sizeof e->axis);
      e->axis[last] = k_add(k, four.axes[0][last], k_index(k, u));
    }
    memcpy(four.axes[u], e->axis, sizeof e->axis);
  }
  emit_region_four(e, &p->code, &four);
  k_if_end(k, &inside);
}

static void emit_point_if_any(emitter *e, const loop_part *p, val i, val n) {
  k_if inside = k_if_begin(e->k, k_lt(e->k, i, n));
  emit_points_at(e, p, i, 1, 0);
  k_if_end(e->k, &inside);
}

static sn_status emit_points(emitter *e, const loop_part *p) {
  bool fours = has_fours(e, p);
  int threads = emit_threads(e), unroll = points_of_thread(e, p, threads, fours);
  int tile = threads * unroll;
  kernel *k = emit_open(e, threads);
  if (!k)
    return SN_ERR_NO_MEMORY;
  val n = k_sizes(k, p->n_axes, p->extent), begin = k_mul(k, k->group, k_index(k, tile));
  val first = k_add(k, begin, k->local);
  if (unroll == 1) {
    emit_point_if_any(e, p, first, n);
  } else if (fours) {
    emit_fours(e, p, k_add(k, begin, k_shl(k, k->local, 2)), n);
  } else { /* the last workgroup goes point by point */
    val end = k_add(k, begin, k_index(k, tile));
    k_if whole = k_if_begin(k, k_le(k, end, n));
    emit_points_at(e, p, first, unroll, threads);
    k_if_else(k, &whole);
    k_loop rest = k_loop_begin(k, first, n, k_index(k, threads));
    emit_points_at(e, p, rest.i, 1, 0);
    k_loop_end(k, &rest);
    k_if_end(k, &whole);
  }
  kernel_grid(k, 1, &(amount){p->n_axes, tile, p->extent});
  return emit_launch(e, false);
}

sn_status emit_loop(emitter *e, const part *of) {
  const loop_part *p = emit_few_axes(e, &of->u.loop);
  p = p ? emit_order_axes(e, p) : NULL;
  p = p ? emit_few_axes(e, p) : NULL;
  if (!p)
    return SN_ERR_NO_MEMORY;
  e->remembers = true;
  e->extent = p->extent;
  bool rows = p->n_outer > 0 || p->n_phases > 1;
  for (int i = 0; i < p->code.n; i++)
    rows = rows || p->code.code[i].op == REGION_REDUCE;
  if (!rows)
    return emit_points(e, p);
  loop_part two[2];
  uint32_t common;
  if (!row_cut_sums(e, p, two, &common))
    return emit_rows(e, p);
  SN_TRY(emit_rows(e, &two[0]));
  e->env.aside = common;
  e->env.aside_at = scratch_take(&e->env, e->env.program->values[common].bytes);
  sn_status status = emit_rows(e, &two[1]);
  e->env.aside = 0;
  return status;
}
