/* What the machine can do, measured: multiply-adds in registers, and memory bandwidth. For `sinew bench ops`. */
#ifndef SINEW_CLI_BENCH_PEAK_H
#define SINEW_CLI_BENCH_PEAK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct bench_peak bench_peak;

/* NULL: no memory. largest: bytes of the largest footprint that will be asked for, within reason. */
bench_peak *bench_peak_create(int threads, double largest);
void bench_peak_destroy(bench_peak *p);

/* Kinds of work whose rate is a peak. Bytes are those of arrays that are read and written, each once: not what caches fetch of a line
 * before they write to it. */
typedef enum bench_peak_kind {
  BENCH_PEAK_FLOPS, /* f32 operations of the widest vectors that the processor has; a multiply-add is two */
  BENCH_PEAK_READ,      /* bytes, reading only */
  BENCH_PEAK_COPY,      /* reading and writing, half each */
  BENCH_PEAK_TRIAD,     /* a = b + s * c */
  BENCH_PEAK_COPY_PAST, /* the same with stores past the caches, where the processor has them */
  BENCH_PEAK_TRIAD_PAST,
  BENCH_PEAK_KINDS
} bench_peak_kind;

/* One measurement of 1 ms or more: the rate a second of all threads together, when `footprint` bytes are gone through over
 * and over; that of a cache where they fit into it. */
double bench_peak_try(bench_peak *p, bench_peak_kind kind, double footprint);

/* The best of some tries: of flops; of the kinds that read and write. */
double bench_peak_flops(bench_peak *p);
double bench_peak_copy(bench_peak *p, double footprint);

#endif
