/* Powers of two by which numbers are multiplied before they become halves: of panels (emit_matmul_scale.c), stages of registers
 * (emit_matmul_direct_load.c) and packed blocks (emit_matmul_pack.c).
 *
 * With the largest magnitude's biased exponent e it is 2^(BIAS + TARGET - e), which brings that below 2^(TARGET + 1). Exponents below LEAST
 * count as that, so that the power is a number; INFINITE is that of infinities and NaN. */
#ifndef SINEW_DEVICE_VULKAN_EMIT_MATMUL_SCALE_H
#define SINEW_DEVICE_VULKAN_EMIT_MATMUL_SCALE_H

#include "device/vulkan/kernel.h"

enum { SCALE_TARGET = 12, SCALE_LEAST = 16, SCALE_INFINITE = 255 };

/* Whether numbers of such an exponent are too large for the scale of another: there is some room above it. */
val scale_exceeds(kernel *k, val now, val exponent);
/* 1 / 2^change, as two factors: for sums whose operands' exponents have grown by so much (i32, >= 0). */
void scale_change(kernel *k, val change, val out[2]);
/* The biased exponent (i32) of a magnitude's bits (u32). */
val scale_exponent(kernel *k, val bits);
/* 2^(biased - BIAS) */
val scale_power(kernel *k, val biased);
/* The power for numbers of such an exponent, from LEAST on (f32). */
val scale_of(kernel *k, val exponent);
/* Two factors that undo the powers of two exponents, both below INFINITE, in a product: neither leaves the range on the way. */
void scale_undo_both(kernel *k, val a, val b, val out[2]);

#endif
