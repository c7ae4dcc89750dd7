/* See bench_peak.h. Every measurement makes its threads, lets them wait until all are there, and counts from the first start
 * to the last end. Threads that the system does not give are not counted. */
#define _DEFAULT_SOURCE /* madvise */
#include "cli/bench_peak.h"

#include "cli/bench_peak_loops.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* --- loops --- */

#define ANY_TARGET
PEAK_MEMORY_LOOPS(plain, ANY_TARGET)

#if defined(__x86_64__)
#define AVX2           __attribute__((target("avx2,fma")))
#define AVX512         __attribute__((target("avx512f")))
#define TWICE(a, x, y) _mm_add_ps(_mm_mul_ps(a, x), y)
PEAK_MEMORY_LOOPS(avx2, AVX2)
PEAK_MEMORY_LOOPS(avx512, AVX512)
PEAK_MULTIPLY_LOOP(plain, ANY_TARGET, __m128, _mm_set1_ps, TWICE, 4)
PEAK_MULTIPLY_LOOP(avx2, AVX2, __m256, _mm256_set1_ps, _mm256_fmadd_ps, 8)
PEAK_MULTIPLY_LOOP(avx512, AVX512, __m512, _mm512_set1_ps, _mm512_fmadd_ps, 16)

/* Stores that go past the caches: a copy then reads nothing but its source. */
static void copy_past(float *a, const float *b, const float *c, size_t n) {
  (void)c;
  for (size_t i = 0; i < n; i += 4)
    _mm_stream_ps(a + i, _mm_loadu_ps(b + i));
  _mm_sfence();
}
static void triad_past(float *a, const float *b, const float *c, size_t n) {
  const __m128 s = _mm_set1_ps(3);
  for (size_t i = 0; i < n; i += 4)
    _mm_stream_ps(a + i, _mm_add_ps(_mm_loadu_ps(b + i), _mm_mul_ps(s, _mm_loadu_ps(c + i))));
  _mm_sfence();
}
#elif defined(__aarch64__)
#define ONCE(a, x, y) vfmaq_f32(y, a, x)
PEAK_MULTIPLY_LOOP(plain, ANY_TARGET, float32x4_t, vdupq_n_f32, ONCE, 4)
#else
#define SAME(x)        (x)
#define TWICE(a, x, y) ((a) * (x) + (y))
PEAK_MULTIPLY_LOOP(plain, ANY_TARGET, float, SAME, TWICE, 1)
#endif

static peak_loops widest(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return (peak_loops){"avx512", read_avx512, copy_avx512, triad_avx512, multiply_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return (peak_loops){"avx2", read_avx2, copy_avx2, triad_avx2, multiply_avx2};
#endif
  return (peak_loops){"plain", read_plain, copy_plain, triad_plain, multiply_plain};
}

/* --- threads --- */

enum { MOST_THREADS = 256, TRIES = 3 };
#define SMALLEST (INT64_C(1) << 12) /* bytes of a thread's array */
#define LARGEST  (INT64_C(1) << 29) /* bytes of all arrays */
#define LEAST_S  1e-3               /* of a try */

typedef struct worker {
  bench_peak *of;
  pthread_t thread;
  float *memory; /* its part: three arrays behind each other */
  double begin, end;
  float sink;
} worker;

struct bench_peak {
  peak_loops loops;
  int threads;
  float *memory;
  size_t floats; /* of a thread, at most */
  worker workers[MOST_THREADS];
  /* how often a kind is repeated, for this footprint */
  size_t times[BENCH_PEAK_KINDS];
  double footprint[BENCH_PEAK_KINDS];
  /* the measurement under way */
  bench_peak_kind kind;
  size_t n, each; /* times; floats of an array */
  atomic_int there;
  atomic_bool go;
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void write_once(const bench_peak *p, float *a, const float *b, const float *c) {
  bool copy = p->kind == BENCH_PEAK_COPY || p->kind == BENCH_PEAK_COPY_PAST;
#if defined(__x86_64__)
  if (p->kind >= BENCH_PEAK_COPY_PAST) {
    (copy ? copy_past : triad_past)(a, b, c, p->each);
    return;
  }
#endif
  (copy ? p->loops.copy : p->loops.triad)(a, b, c, p->each);
}

static void *work(void *user) {
  worker *w = user;
  bench_peak *p = w->of;
  float *a = w->memory, *b = a + p->each, *c = b + p->each, sink = 0;
  atomic_fetch_add(&p->there, 1);
  while (!atomic_load(&p->go))
    sched_yield();
  w->begin = now();
  if (p->kind == BENCH_PEAK_FLOPS)
    sink += p->loops.multiply(p->n);
  for (size_t i = 0; p->kind != BENCH_PEAK_FLOPS && i < p->n; i++) {
    if (p->kind == BENCH_PEAK_READ)
      sink += p->loops.read(a, p->each);
    else
      write_once(p, a, b, c);
  }
  w->end = now();
  w->sink = sink;
  return NULL;
}

/* From the first start to the last end. */
static double time_once(bench_peak *p) {
  int made = 1;
  atomic_store(&p->there, 0);
  atomic_store(&p->go, false);
  while (made < p->threads &&
         pthread_create(&p->workers[made].thread, NULL, work, &p->workers[made]) == 0)
    made++;
  p->threads = made;
  while (atomic_load(&p->there) < made - 1)
    sched_yield();
  atomic_store(&p->go, true);
  work(&p->workers[0]);
  double begin = p->workers[0].begin, end = p->workers[0].end;
  for (int i = 1; i < made; i++) {
    pthread_join(p->workers[i].thread, NULL);
    begin = p->workers[i].begin < begin ? p->workers[i].begin : begin;
    end = p->workers[i].end > end ? p->workers[i].end : end;
  }
  return end - begin;
}

/* --- what is asked --- */

/* In large pages where there are such: it is memory that is measured, not the tables of pages. */
static float *take_memory(size_t bytes) {
  const size_t page = (size_t)1 << 21;
  size_t whole = (bytes + page - 1) / page * page;
  float *memory = aligned_alloc(page, whole);
#if defined(MADV_HUGEPAGE)
  if (memory)
    (void)!madvise(memory, whole, MADV_HUGEPAGE);
#endif
  if (memory)
    memset(memory, 0, whole);
  return memory;
}

bench_peak *bench_peak_create(int threads, double largest) {
  bench_peak *p = calloc(1, sizeof *p);
  double bytes = largest < LARGEST ? largest : LARGEST;
  if (!p)
    return NULL;
  p->loops = widest();
  p->threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
  p->floats = (size_t)(bytes / 4 / p->threads / 1024 + 1) * 1024 + 3 * SMALLEST / 4;
  p->memory = take_memory(p->floats * (size_t)p->threads * sizeof(float));
  if (!p->memory) {
    free(p);
    return NULL;
  }
  for (int i = 0; i < p->threads; i++)
    p->workers[i] = (worker){.of = p, .memory = p->memory + (size_t)i * p->floats};
  return p;
}

void bench_peak_destroy(bench_peak *p) {
  if (!p)
    return;
  free(p->memory);
  free(p);
}

/* Arrays of equal size in the footprint. */
static int arrays_of(bench_peak_kind kind) {
  bool triad = kind == BENCH_PEAK_TRIAD || kind == BENCH_PEAK_TRIAD_PAST;
  return kind == BENCH_PEAK_READ ? 1 : triad ? 3 : 2;
}

/* What is done each time, by each thread. */
static double begin(bench_peak *p, bench_peak_kind kind, double footprint) {
  int arrays = arrays_of(kind);
  size_t step = 4 * PEAK_LINE, most = p->floats / (size_t)arrays / step * step;
  double wanted = footprint / 4 / arrays / p->threads;
  p->kind = kind;
  if (kind == BENCH_PEAK_FLOPS)
    return 2.0 * PEAK_CHAINS * PEAK_LINE;
  p->each = wanted < (double)most ? (size_t)wanted / step * step : most;
  p->each = p->each < SMALLEST / 4 ? SMALLEST / 4 : p->each;
  return 4.0 * (double)p->each * arrays;
}

/* As many times as last long enough. */
static void find_times(bench_peak *p, bench_peak_kind kind, double footprint) {
  double taken = 0;
  for (p->n = kind == BENCH_PEAK_FLOPS ? 4096 : 1; p->n < SIZE_MAX / 16;) {
    taken = time_once(p);
    if (taken >= LEAST_S)
      break;
    p->n = taken > LEAST_S / 16 ? (size_t)((double)p->n * 1.5 * LEAST_S / taken) + 1 : p->n * 8;
  }
  p->times[kind] = p->n;
  p->footprint[kind] = footprint;
}

double bench_peak_try(bench_peak *p, bench_peak_kind kind, double footprint) {
  double unit = begin(p, kind, footprint);
  if (p->times[kind] == 0 || p->footprint[kind] != footprint)
    find_times(p, kind, footprint);
  p->n = p->times[kind];
  double taken = time_once(p);
  return taken > 0 ? unit * (double)p->n * p->threads / taken : 0;
}

static double best_of(bench_peak *p, bench_peak_kind kind, double footprint) {
  double best = 0;
  for (int i = 0; i < TRIES; i++) {
    double rate = bench_peak_try(p, kind, footprint);
    best = rate > best ? rate : best;
  }
  return best;
}

double bench_peak_flops(bench_peak *p) { return best_of(p, BENCH_PEAK_FLOPS, 0); }

double bench_peak_copy(bench_peak *p, double footprint) {
  double best = 0;
  for (int k = BENCH_PEAK_COPY; k < BENCH_PEAK_KINDS; k++) {
    double rate = best_of(p, (bench_peak_kind)k, footprint);
    best = rate > best ? rate : best;
  }
  return best;
}
