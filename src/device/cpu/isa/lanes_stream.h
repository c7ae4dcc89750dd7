/* Stores of vectors past the caches, where there are any; `to` is aligned to a vector. */
#ifndef SINEW_DEVICE_CPU_ISA_LANES_STREAM_H
#define SINEW_DEVICE_CPU_ISA_LANES_STREAM_H

#include "device/cpu/isa/vec.h"

#if defined(ISA_avx512)
#define STREAM(to, x) _mm512_stream_ps(to, x)
#elif defined(ISA_avx2)
#define STREAM(to, x) _mm256_stream_ps(to, x)
#elif defined(__SSE2__)
#define STREAM(to, x) _mm_stream_ps(to, (__m128)(x))
#else
#define STREAM(to, x) vec_store(to, x)
#endif

#endif
