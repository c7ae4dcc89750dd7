/* Cooperative matrices in kernels (kernel.h): products of halves summed in f32, made by all threads of a subgroup together.
 *
 *   spirv_id type[3];
 *   k_use_matrices(k, target->matrix, SN_BF16, type);             // once, before anything else
 *   val sum = k_matrix_of(k, type[MATRIX_SUM], 0);
 *   val a = k_matrix_load(k, type[MATRIX_A], words, at, MATRIX_ROWS, stride), b = …;
 *   k_matrix_store(k, words, at, k_matrix_multiply_add(k, type[MATRIX_SUM], a, b, sum), MATRIX_ROWS, stride);
 *
 * Matrices ask for Vulkan's memory model, in which each access says what threads share, so none may stand before k_use_matrices. Words
 * are shared memory (k_shared of u32); places and strides are in those, two halves or one sum each, and multiples of 4. Every
 * thread of the subgroup must get to each operation on matrices.
 */
#ifndef SINEW_DEVICE_VULKAN_KERNEL_MATRIX_H
#define SINEW_DEVICE_VULKAN_KERNEL_MATRIX_H

#include "device/vulkan/kernel.h"

enum { MATRIX_A, MATRIX_B, MATRIX_SUM };
enum { MATRIX_ROWS, MATRIX_COLUMNS }; /* which follow each other in memory */

/* Types of a [m, k], b [k, n] and sums [m, n], by use. size: m, n, k. half: SN_BF16 or SN_F16. */
void k_use_matrices(kernel *k, const int size[3], sn_dtype half, spirv_id out_types[3]);
/* The number of this thread's subgroup in its workgroup (index). */
val k_subgroup_number(kernel *k);
/* The largest of all threads of the subgroup (u32). */
val k_subgroup_max(kernel *k, val x);

val k_matrix_of(kernel *k, spirv_id type, float x); /* every element x; sums only */
val k_matrix_load(kernel *k, spirv_id type, val words, val at, int order, int stride);
void k_matrix_store(kernel *k, val words, val at, val matrix, int order, int stride);
val k_matrix_times(kernel *k, spirv_id type, val matrix, val factor);
val k_matrix_multiply_add(kernel *k, spirv_id type, val a, val b, val sum);

/* Two numbers below 2^16 as f16 in a word, the first in its lower part, and what those leave in another: 21 bits together at least. rest NULL:
 * only the first. */
void k_two_halves(kernel *k, const val x[2], val *out_halves, val *out_rest);

/* The same as bf16, of numbers of any magnitude: together off by 2^-15 of the number at most, by 2^-17 as
 * a rule. Of an infinity or NaN, and of what rounds to one, the rest is NaN. */
void k_two_bf16(kernel *k, const val x[2], val *out_halves, val *out_rest);
/* Of two words (u32 or f32) the lower halves, or the upper ones (1), as a word; kernels with matrices of bf16. */
val k_join_halves(kernel *k, const val words[2], int which);

/* --- elements of matrices by thread, where the target has `places`: 16 x 16 x 16 and subgroups of 32 ---
 *
 * The thread 4 g + t of a subgroup has, of a and of sums, columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of row g as its elements 0 to 3, and of row
 * g + 8 as its elements 4 to 7. Of b the same with rows and columns exchanged. So sums become an operand a as they stand; and
 * since k may be numbered in any way that is the same for a and b, four neighbours of k can be those four. */
enum { MATRIX_ELEMENTS = 8 };
/* a or b of the thread's elements, two in a word. */
val k_matrix_make(kernel *k, spirv_id type, const val words[4]);
/* The thread's elements of sums. */
void k_matrix_sums(kernel *k, val sums, val out[MATRIX_ELEMENTS]);
/* This thread's number in its subgroup (index). */
val k_subgroup_lane(kernel *k);

#endif
