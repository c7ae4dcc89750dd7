/* The calls of element.h on top of an implementation's services. What they hand to `add` (terms and checks of an access)
 * lives in the caller: an implementation copies what it keeps. */
#include "step/element.h"

/* Places are large: only what is used is copied. */
reg elem_broadcast(elem_ctx *c, int i, const place *at) {
  const sn_shape *shape = &c->in[i].shape;
  int skipped = at->rank - shape->rank;
  place of;
  of.rank = shape->rank;
  of.n_checks = at->n_checks;
  memcpy(of.checks, at->checks, (size_t)at->n_checks * sizeof of.checks[0]);
  for (int d = 0; d < shape->rank; d++)
    of.c[d] = shape->dim[d] == 1 ? coord_number(0) : at->c[skipped + d];
  return elem_input(c, i, &of);
}

reg elem_alu_as(elem_ctx *c, alu code, sn_dtype dtype, reg a, reg b, reg d, double x, double y) {
  instr i = {.op = REGION_ALU,
             .code = (uint8_t)code,
             .dtype = (uint8_t)dtype,
             .a = a,
             .b = alu_table[code].arguments > 1 ? b : (reg)0,
             .c = alu_table[code].arguments > 2 ? d : (reg)0,
             .x = x,
             .y = y};
  return c->services->add(c, &i);
}

reg elem_alu1(elem_ctx *c, alu code, reg a) {
  return elem_alu_as(c, code, c->out[0].dtype, a, 0, 0, 0, 0);
}
reg elem_alu2(elem_ctx *c, alu code, reg a, reg b) {
  return elem_alu_as(c, code, c->out[0].dtype, a, b, 0, 0, 0);
}
reg elem_alu3(elem_ctx *c, alu code, reg a, reg b, reg d) {
  return elem_alu_as(c, code, c->out[0].dtype, a, b, d, 0, 0);
}

reg elem_number_as(elem_ctx *c, sn_dtype dtype, double x) {
  instr i = {.op = REGION_NUMBER, .dtype = (uint8_t)dtype, .x = x};
  return c->services->add(c, &i);
}
reg elem_number(elem_ctx *c, double x) { return elem_number_as(c, c->out[0].dtype, x); }

reg elem_size(elem_ctx *c, sn_dtype dtype, sn_dim size) {
  if (dim_is_number(size))
    return elem_number_as(c, dtype, (double)size);
  instr i = {.op = REGION_SIZE, .dtype = (uint8_t)dtype, .size = size};
  return c->services->add(c, &i);
}

static access number_of(const coord *of) {
  return (access){.base = of->offset, .n_terms = of->n, .terms = of->terms};
}

reg elem_coord(elem_ctx *c, const coord *of) {
  if (of->n == 0)
    return elem_size(c, SN_I32, of->offset);
  instr i = {.op = REGION_INDEX, .dtype = SN_I32, .at = number_of(of)};
  return c->services->add(c, &i);
}

coord elem_at(reg index, sn_dim size) {
  return (coord){.n = 1,
                 .terms = {{.axis = TERM_REG, .from = index, .stride = 1, .div = 1, .mod = size}}};
}

reg elem_inside(elem_ctx *c, const place *at) {
  check checks[ACCESS_CHECKS];
  if (at->n_checks == 0)
    return elem_number_as(c, SN_BOOL, 1);
  for (int k = 0; k < at->n_checks; k++) {
    const struct place_check *from = &at->checks[k];
    checks[k] = (check){.n_terms = from->of.n,
                        .terms = from->of.terms,
                        .offset = from->of.offset,
                        .size = from->size,
                        .divisor = from->divisor};
  }
  instr i = {
      .op = REGION_INSIDE, .dtype = SN_BOOL, .at = {.n_checks = at->n_checks, .checks = checks}};
  return c->services->add(c, &i);
}

reg elem_word(elem_ctx *c, reg key[3], int64_t stream, const coord *index) {
  instr i = {.op = REGION_WORD,
             .dtype = SN_I32,
             .a = key[0],
             .b = key[1],
             .c = key[2],
             .x = (double)stream,
             .at = number_of(index)};
  return c->services->add(c, &i);
}

void elem_axes(elem_ctx *c, int n, const sn_dim *extents, coord *out) {
  c->services->axes(c, n, extents, out);
}
reg elem_reduce(elem_ctx *c, reduce_kind kind, sn_dtype dtype, reg body) {
  return c->services->reduce(c, kind, dtype, body);
}
