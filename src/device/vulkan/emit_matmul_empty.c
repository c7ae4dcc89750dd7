/* Matmul parts without any product, such as phases of gradients that no place of the kernel reaches (see
 * emit_matmul_rewrite.h): their sums are 0, and what is left is a loop over their epilogue. */
#include "device/vulkan/emit_matmul.h"

bool matmul_is_empty(const matmul_part *p) {
  for (int a = 0; a < p->n_accs; a++)
    if (p->accs[a].n_products > 0)
      return false;
  return true;
}

/* The axes of the loop, so that neighbours in memory come last: batch, then columns and rows or the other way. */
static int loop_axis(const matmul_part *p, bool columns_last, int axis) {
  int rows = p->n_batch, columns = p->n_batch + p->n_m;
  if (axis == TERM_REG || axis < rows || columns_last)
    return axis;
  return axis < columns ? axis + p->n_n : axis - p->n_m;
}

static const term *loop_terms(emitter *e, const matmul_part *p, bool columns_last, int n,
                              const term *terms) {
  term *to = arena_array(e->env.memory, (size_t)n + 1, sizeof *to);
  for (int i = 0; to && i < n; i++) {
    to[i] = terms[i];
    to[i].axis = (uint8_t)loop_axis(p, columns_last, terms[i].axis);
  }
  return to;
}

static bool loop_access(emitter *e, const matmul_part *p, bool columns_last, access *at) {
  at->terms = loop_terms(e, p, columns_last, at->n_terms, at->terms);
  check *checks = arena_array(e->env.memory, (size_t)at->n_checks + 1, sizeof *checks);
  bool ok = at->terms && checks;
  for (int c = 0; ok && c < at->n_checks; c++) {
    checks[c] = at->checks[c];
    checks[c].terms = loop_terms(e, p, columns_last, checks[c].n_terms, checks[c].terms);
    ok = checks[c].terms != NULL;
  }
  at->checks = checks;
  return ok;
}

sn_status emit_matmul_empty(emitter *e, const matmul_part *p) {
  int n = p->epilogue.n, n_axes = p->n_batch + p->n_m + p->n_n;
  bool columns_last = matmul_columns_last(p);
  part loop = {.u.loop = {.n_axes = n_axes, .n_phases = 1}};
  instr *code = arena_array(e->env.memory, (size_t)n + 1, sizeof *code);
  if (!code)
    return SN_ERR_NO_MEMORY;
  for (int i = 0; i < n_axes; i++)
    loop.u.loop.extent[loop_axis(p, columns_last, i)] = p->extent[i];
  for (int i = 0; i < n; i++) {
    code[i] = p->epilogue.code[i];
    if (code[i].op == REGION_ACC)
      code[i] = (instr){.op = REGION_NUMBER, .dtype = SN_F32};
    if (!loop_access(e, p, columns_last, &code[i].at))
      return SN_ERR_NO_MEMORY;
  }
  loop.u.loop.code = (region){n, code};
  return emit_loop(e, &loop);
}
