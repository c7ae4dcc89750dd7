/* Which arguments the instructions of alu.def take and what they give, for tests that walk all of them. */
#ifndef SINEW_TESTS_SUPPORT_ALU_KINDS_H
#define SINEW_TESTS_SUPPORT_ALU_KINDS_H

#include "ir/dtype.h"
#include "step/region.h"

/* Of random words, i32: each has a rule of its own. */
static inline bool alu_is_random(alu code) {
  return code == ALU_unit || code == ALU_range_int || code == ALU_bits_below || code == ALU_gauss;
}
static inline bool alu_gives_bool(alu code) {
  return code == ALU_isnan || code == ALU_isinf || code == ALU_not ||
         (code >= ALU_eq && code <= ALU_xor) || code == ALU_bits_below;
}
static inline bool alu_takes_bools(alu code) {
  return code == ALU_not || code == ALU_and || code == ALU_or || code == ALU_xor;
}
static inline bool alu_on_ints(alu code) {
  return code == ALU_neg || code == ALU_abs || (code >= ALU_add && code <= ALU_fmod) ||
         code == ALU_max || code == ALU_min || (code >= ALU_eq && code <= ALU_ge) ||
         code == ALU_select || code == ALU_cast || code == ALU_sign;
}
static inline bool alu_on_floats(alu code) {
  return !alu_takes_bools(code) && !alu_is_random(code);
}
/* Whether its arguments (of select: b and c) may be of that dtype. */
static inline bool alu_takes(alu code, sn_dtype from) {
  if (dtype_is_float(from))
    return alu_on_floats(code);
  if (from == SN_BOOL)
    return alu_takes_bools(code) || code == ALU_select || code == ALU_cast;
  return alu_on_ints(code);
}

#endif
