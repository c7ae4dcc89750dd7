/* VECTORS before a static function (others would be exported): the few loops of the reference that run times hang on are compiled for wider
 * vectors too, where the compiler and the C library can choose at load time. Products and sums are rounded
 * one by one either way (no contraction), so the bits are the same. */
#ifndef SINEW_OPS_VECTORS_H
#define SINEW_OPS_VECTORS_H

#include <stdlib.h> /* for __GLIBC__ */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__OPTIMIZE__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define VECTORS __attribute__((target_clones("default", "avx2", "avx512f"), optimize("O3")))
#else
#define VECTORS
#endif

#endif
