/* Regions through a map of axes. See emit_matmul_rewrite.h. */
#include "device/vulkan/emit_matmul_rewrite.h"

axis_map axes_unchanged(void) {
  axis_map m = {{0}, {0}};
  for (int i = 0; i < REGION_AXES; i++)
    m.by[i] = 1;
  return m;
}

static bool sum_fits(sn_dim base, int n, const term *terms, const axis_map *m) {
  for (int i = 0; i < n; i++) {
    const term *t = &terms[i];
    if (t->axis == TERM_REG || (m->from[t->axis] == 0 && m->by[t->axis] == 1))
      continue;
    if (!term_is_plain(t) || !dim_is_number(t->stride) || !dim_is_number(base))
      return false;
  }
  return true;
}

bool axes_fit(const region *r, const axis_map *m) {
  for (int i = 0; i < r->n; i++) {
    const access *at = &r->code[i].at;
    if (!sum_fits(at->base, at->n_terms, at->terms, m))
      return false;
    for (int c = 0; c < at->n_checks; c++)
      if (!sum_fits(at->checks[c].offset, at->checks[c].n_terms, at->checks[c].terms, m))
        return false;
  }
  return true;
}

static sn_status map_sum(emit_env *env, const axis_map *m, sn_dim *base, int n,
                         const term **terms) {
  term *to = arena_array(env->memory, (size_t)n + 1, sizeof *to);
  if (!to)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < n; i++) {
    to[i] = (*terms)[i];
    int axis = to[i].axis;
    if (axis == TERM_REG)
      continue;
    if (m->from[axis] != 0)
      *base += to[i].stride * m->from[axis];
    if (m->by[axis] != 1)
      to[i].stride *= m->by[axis];
  }
  *terms = to;
  return SN_OK;
}

sn_status access_map(emit_env *env, const axis_map *m, access *at) {
  SN_TRY(map_sum(env, m, &at->base, at->n_terms, &at->terms));
  if (at->n_checks == 0)
    return SN_OK;
  check *checks = arena_copy(env->memory, at->checks, (size_t)at->n_checks * sizeof *checks);
  if (!checks)
    return SN_ERR_NO_MEMORY;
  at->checks = checks;
  for (int c = 0; c < at->n_checks; c++)
    SN_TRY(map_sum(env, m, &checks[c].offset, checks[c].n_terms, &checks[c].terms));
  return SN_OK;
}

sn_status region_map(emit_env *env, const region *of, const axis_map *m, region *out) {
  instr *code = arena_array(env->memory, (size_t)of->n + 1, sizeof *code);
  if (!code)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < of->n; i++) {
    code[i] = of->code[i];
    SN_TRY(access_map(env, m, &code[i].at));
  }
  *out = (region){of->n, code};
  return SN_OK;
}
