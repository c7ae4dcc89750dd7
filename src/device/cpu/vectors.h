/* VECTORS before a static function: its loops are compiled for wider vectors too, and the C library chooses at load
 * time. Products and sums are rounded one by one either way (no contraction), and nothing is reassociated, so the bits
 * are the same. Comparisons of floats keep gcc from making vectors of a loop (they could trap); such loops compare the
 * bits as integers instead. INLINE is for what they call. */
#ifndef SINEW_DEVICE_CPU_VECTORS_H
#define SINEW_DEVICE_CPU_VECTORS_H

#include <stdlib.h> /* for __GLIBC__ */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__OPTIMIZE__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define VECTORS __attribute__((target_clones("default", "avx2"), optimize("O3")))
#else
#define VECTORS
#endif
#define INLINE static inline __attribute__((always_inline))

#endif
