/* What the machine can do, measured: multiply-adds in registers, and memory bandwidth. For `sinew bench ops`. */
#ifndef SINEW_CLI_BENCH_PEAK_H
#define SINEW_CLI_BENCH_PEAK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct bench_peak bench_peak;

/* NULL: no memory. largest: bytes of the largest footprint that will be asked for, within reason. */
bench_peak *bench_peak_create(int threads, double largest);
void bench_peak_destroy(bench_peak *p);

/* Each takes a few ms and gives the best of some tries, of all threads together. */
/* f32 operations a second, of the widest vectors that the processor has; a multiply-add is two. */
double bench_peak_flops(bench_peak *p);
/* Bytes a second when so many are gone through over and over: those of a cache where they fit into it. Reading only; or reading
 * and writing, as a copy (half each) or a triad, a = b + s * c. */
double bench_peak_read(bench_peak *p, double footprint);
double bench_peak_copy(bench_peak *p, double footprint);

#endif
