/* See code.h. */
#include "spike/code.h"

#include <stdlib.h>
#include <string.h>

reg code_add(code *c, const instr *i) {
  if (c->n == CODE_MAX)
    abort();
  c->at[c->n] = *i;
  return (reg)c->n++;
}

static access place(code *c, uint32_t value, int n, const term *terms) {
  access at = {.value = value, .n_terms = n, .terms = c->terms + c->n_terms};
  if (c->n_terms + n > CODE_PLACES)
    abort();
  if (n)
    memcpy(c->terms + c->n_terms, terms, (size_t)n * sizeof *terms);
  c->n_terms += n;
  return at;
}

reg code_load(code *c, sn_dtype dtype, uint32_t value, int n, const term *terms) {
  instr i = {.op = REGION_LOAD, .dtype = (uint8_t)dtype, .at = place(c, value, n, terms)};
  return code_add(c, &i);
}

void code_check(code *c, term t, sn_dim offset, sn_dim size, sn_dim divisor) {
  access *at = &c->at[c->n - 1].at;
  if (c->n_checks == CODE_CHECKS)
    abort();
  if (at->n_checks++ == 0)
    at->checks = c->checks + c->n_checks;
  access terms = place(c, 0, 1, &t);
  c->checks[c->n_checks++] = (check){1, terms.terms, offset, size, divisor};
}

void code_store(code *c, reg a, uint32_t value, int n, const term *terms) {
  instr i = {.op = REGION_STORE, .dtype = c->at[a].dtype, .a = a, .at = place(c, value, n, terms)};
  code_add(c, &i);
}

void code_base(code *c, sn_dim base) { c->at[c->n - 1].at.base = base; }

reg code_index(code *c, int n, const term *terms) {
  instr i = {.op = REGION_INDEX, .dtype = SN_I32, .at = place(c, 0, n, terms)};
  return code_add(c, &i);
}

reg code_word(code *c, const reg key[3], int stream, int n, const term *terms) {
  instr i = {.op = REGION_WORD,
             .dtype = SN_I32,
             .a = key[0],
             .b = key[1],
             .c = key[2],
             .x = stream,
             .at = place(c, 0, n, terms)};
  return code_add(c, &i);
}

reg code_number(code *c, sn_dtype dtype, double x) {
  instr i = {.op = REGION_NUMBER, .dtype = (uint8_t)dtype, .x = x};
  return code_add(c, &i);
}

reg code_alu3(code *c, alu op, sn_dtype dtype, reg a, reg b, reg d) {
  instr i = {
      .op = REGION_ALU, .code = (uint8_t)op, .dtype = (uint8_t)dtype, .a = a, .b = b, .c = d};
  return code_add(c, &i);
}

reg code_alu1(code *c, alu op, sn_dtype dtype, reg a) { return code_alu3(c, op, dtype, a, a, a); }
reg code_alu2(code *c, alu op, sn_dtype dtype, reg a, reg b) {
  return code_alu3(c, op, dtype, a, b, b);
}

region code_region(const code *c) { return (region){c->n, c->at}; }
