/* The region machine's table. */
#include "device/cpu/isa/lanes.h"

#include "device/cpu/isa/alu_set.h"
#include "device/cpu/isa/lanes_set.h"

static lane_alu find(alu code, sn_dtype result, sn_dtype from, unsigned ones) {
  if (code == ALU_cast)
    return ones ? NULL : ISA(alu_cast)(result, from);
  if (dtype_is_float(result)) {
    if (dtype_is_float(from))
      return ISA(alu_floats)(code, ones);
    return ones ? NULL : ISA(alu_random)(code);
  }
  return dtype_is_float(from) ? ISA(alu_compare)(code, ones) : ISA(alu_integers)(code, ones);
}

extern const lane_kernels ISA(lane_kernels);
const lane_kernels ISA(lane_kernels) = {
    .alu = find,
    .in_chain = ISA(lanes_in_chain),
    .chain = ISA(lanes_chain),
    .find_row = ISA(lanes_find_row),
    .round = ISA(lanes_round),
    .read = ISA(lanes_read),
    .write = ISA(lanes_write),
    .stream = ISA(lanes_stream),
    .fence = ISA(lanes_fence),
    .copy = ISA(lanes_copy),
    .turn = ISA(lanes_turn),
    .words = ISA(lanes_words),
    .ramp = ISA(lanes_ramp),
    .begin_numbers = ISA(lanes_begin_numbers),
    .add_index = ISA(lanes_add_index),
    .add_divided = ISA(lanes_add_divided),
    .within = ISA(lanes_within),
    .gather = ISA(lanes_gather),
    .scatter = ISA(lanes_scatter),
    .float_sums = 2 * VEC,
    .total = ISA(lanes_total),
    .reduce = ISA(lanes_reduce),
    .reduce_wide = ISA(lanes_reduce_wide),
};
