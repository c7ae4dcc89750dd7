/* Kernels of attention and its gradient: one table an instruction set.
 *
 * Query rows stand in lanes: a block of up to ATTENTION_ROWS rows is held as [width][lanes], its scores as [keys][lanes],
 * with lanes the number of rows up to a multiple of `vector`. So softmax needs nothing across lanes, scores are an operand
 * of the next product as they are, and keys and values are read where they lie, a number at a time: nothing is packed but the
 * rows. Scores are in units of log 2, so that exp is exp2.
 */
#ifndef SINEW_DEVICE_CPU_ISA_ATTENTION_H
#define SINEW_DEVICE_CPU_ISA_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

/* c (+)= a·b: c is [m][n], a(i, p) at a[i * a_row + p * a_k] where one of the two distances is 1, b and c are rows of n numbers
 * side by side. n is a multiple of `vector`. */
typedef struct attention_product {
  int64_t m, n, k;
  const float *a;
  int64_t a_row, a_k;
  const float *b;
  int64_t b_row;
  float *c;
  int64_t c_row;
  bool add; /* to c; otherwise c is overwritten */
} attention_product;

/* Scores [keys][lanes] of one block of keys, the first of which is key j. */
typedef struct attention_tile {
  int64_t lanes, keys, j;
  float *scores;
  const int32_t *from, *to; /* by lane: keys from … to-1 are seen */
  /* forward, by lane: */
  float *largest, *total; /* of the scores so far; the sum of exp2(score - largest) */
  float *keep;            /* what sums of before are to be multiplied with */
  /* gradient: */
  float *slopes;             /* [keys][lanes], or NULL: d capped / d score, over the scale */
  float *arrives;            /* [keys][lanes]: d_out·v, becomes the gradient of the score */
  const float *lse, *common; /* by lane */
} attention_tile;

/* to[i * to_row + j] = row i of q times row j of `rows`, all of d numbers; m rows of q, n of the others. Meanwhile what will be
 * read next is fetched from memory: n rows each. */
typedef struct attention_ahead {
  const char *at; /* NULL: nothing */
  int64_t row, bytes;
} attention_ahead;
typedef struct attention_dots {
  int64_t m, n, d;
  const float *q;
  int64_t q_row;
  const float *rows;
  int64_t row;
  float *to;
  int64_t to_row;
  attention_ahead ahead[2];
} attention_dots;

/* Softmax of one row in several parts, each of its own keys: `stride` floats apart, of `width` sums each. */
typedef struct attention_parts {
  int64_t n, width;
  const float *largest, *total, *sums;
  int64_t stride, sums_stride;
  float sink; /* one more logit; -inf: none */
} attention_parts;

typedef struct attention_kernels {
  int vector; /* lanes of a vector: a power of 2 */
  void (*multiply)(const attention_product *w);
  /* to[p * to_row + i] = from[i * from_row + p] * by, for i < m and p < n; for m <= i < the next multiple of `vector`, 0. */
  void (*transpose)(const float *from, int64_t from_row, int64_t m, int64_t n, float by, float *to,
                    int64_t to_row);
  /* x[i] = tanh(x[i]) * by; slopes, where not NULL: 1 - tanh². n is a multiple of `vector`. */
  void (*cap)(float *x, int64_t n, float by, float *slopes);
  /* x[i * lanes + l] += y[i * lanes + l], or y[i] for all lanes. */
  void (*add)(float *x, int64_t rows, int64_t lanes, const float *y, bool for_all);
  /* -inf where a lane does not see a key. */
  void (*hide)(const attention_tile *t);
  /* Scores become weights exp2(score - largest), with the largest score so far; true where sums of before must be
   * multiplied with `keep`, because that has changed. */
  bool (*soften)(const attention_tile *t);
  /* Scores become p = exp2(score - lse), arrives p * (arrives + common) * slope. */
  void (*weigh)(const attention_tile *t);
  /* x[i * lanes + l] *= by[l] */
  void (*scale)(float *x, int64_t rows, int64_t lanes, const float *by);
  void (*dots)(const attention_dots *w);
  /* One row of scores: as soften, with the factor that makes units of log 2 of them. */
  float (*soften_row)(float *scores, int64_t n, float unit, float *largest, float *total);
  /* x = exp(x - minus); below 2^-126 is 0. */
  void (*exp_row)(float *x, float minus, int64_t n);
  /* The parts joined: to[0 … width-1], the largest and the total. True if all of that is finite; and 0, with -inf as the
   * largest, if there is nothing at all. */
  bool (*join)(const attention_parts *p, float *to, float *largest, float *total);
  bool (*finite)(const float *x, int64_t n);
  /* bf16 or f16 to f32. */
  void (*widen_bf16)(const uint16_t *from, int64_t n, float *to);
  void (*widen_f16)(const uint16_t *from, int64_t n, float *to);
} attention_kernels;

enum { ATTENTION_ROWS = 64 }; /* query rows of a block; a multiple of every vector */

#endif
