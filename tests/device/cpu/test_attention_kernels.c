/* Kernels of attention, each alone, with every instruction set. */
#include "device/cpu/isa.h"
#include "device/cpu/isa/attention.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#define EACH_SET(k)                         \
  for (int set = 0; cpu_isa_at(set); set++) \
    for (const attention_kernels *k = cpu_isa_at(set)->attention; k; k = NULL)

/* Numbers from -1 to 1, each time the same. */
static void draw(float *x, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) * 0x1p-23f - 1;
  }
}

/* Distance in units of the last place of `want`. */
static double units(double want, float got) {
  int exponent;
  frexp(want, &exponent);
  return fabs((double)got - want) / ldexp(1, exponent - 24);
}

TEST(exp_is_within_two_units) {
  enum { N = 1009 };
  EACH_SET(k) {
    double worst = 0;
    float x[N];
    for (int from = -87; from < 88; from++) {
      for (int i = 0; i < N; i++)
        x[i] = (float)from + (float)i / N;
      k->exp_row(x, 0, N);
      for (int i = 0; i < N; i++) /* of the power of 2 that the kernel takes */
        worst =
            fmax(worst, units(exp2((double)(((float)from + (float)i / N) * 1.44269504f)), x[i]));
    }
    if (worst > 2)
      FAIL("%s: %.3g units", cpu_isa_at(set)->name, worst);
  }
}

TEST(exp_of_what_is_not_finite) {
  EACH_SET(k) {
    float x[5] = {-INFINITY, INFINITY, NAN, -100, 0};
    k->exp_row(x, 0, 5);
    CHECK(x[0] == 0);
    CHECK(x[1] == INFINITY);
    CHECK(isnan(x[2]));
    CHECK(x[3] == 0);
    CHECK(x[4] == 1);
  }
}

enum { MOST_M = 37, MOST_N = 192, MOST_K = 40, A_ROW = 41 };
static float a[A_ROW * A_ROW], b[MOST_K * MOST_N], c[MOST_M * MOST_N], d[MOST_M * MOST_N];

static double product_at(const attention_product *w, int64_t i, int64_t j) {
  double sum = w->add ? (double)d[i * w->c_row + j] : 0;
  for (int64_t p = 0; p < w->k; p++)
    sum += (double)w->a[i * w->a_row + p * w->a_k] * (double)w->b[p * w->b_row + j];
  return sum;
}

static void check_product(const attention_kernels *k, const attention_product *w) {
  double worst = 0;
  draw(c, MOST_M * MOST_N, 7);
  draw(d, MOST_M * MOST_N, 7);
  k->multiply(w);
  for (int64_t i = 0; i < w->m; i++)
    for (int64_t j = 0; j < w->n; j++)
      worst = fmax(worst, fabs(product_at(w, i, j) - (double)w->c[i * w->c_row + j]));
  bool kept = true; /* what is not of the product */
  for (int64_t i = 0; i < MOST_M; i++)
    for (int64_t j = i < w->m ? w->n : 0; j < w->c_row; j++)
      kept &= c[i * w->c_row + j] == d[i * w->c_row + j];
  if (worst > 1e-5 || !kept)
    FAIL("[%d, %d] x %d: off by %g", (int)w->m, (int)w->n, (int)w->k, worst);
}

TEST(products_of_every_size) {
  draw(a, A_ROW * A_ROW, 1);
  draw(b, MOST_K * MOST_N, 2);
  EACH_SET(k) {
    for (int m = 0; m <= MOST_M; m++)
      for (int n = k->vector; n <= 11 * k->vector; n += k->vector)
        for (int turned = 0; turned < 2; turned++)
          check_product(k, &(attention_product){.m = m,
                                                .n = n,
                                                .k = (m + n) % MOST_K,
                                                .a = a,
                                                .a_row = turned ? 1 : A_ROW,
                                                .a_k = turned ? A_ROW : 1,
                                                .b = b,
                                                .b_row = MOST_N,
                                                .c = c,
                                                .c_row = MOST_N,
                                                .add = m % 2});
  }
}

TEST(rows_become_lanes) {
  EACH_SET(k) {
    for (int m = 1; m <= 35; m += 2)
      for (int n = 1; n <= 35; n += 3) {
        int64_t whole = (m + k->vector - 1) / k->vector * k->vector;
        draw(a, 35 * 36, 3);
        draw(c, 35 * 50, 4);
        k->transpose(a, 36, m, n, 2, c, 50);
        bool same = true;
        for (int64_t i = 0; i < whole; i++)
          for (int64_t p = 0; p < n; p++)
            same &= c[p * 50 + i] == (i < m ? 2 * a[i * 36 + p] : 0);
        CHECK(same);
      }
  }
}

TEST(rows_times_rows) {
  EACH_SET(k) {
    for (int m = 1; m <= 9; m++)
      for (int n = 1; n <= 37; n += 4)
        for (int width = 5; width <= 32; width += 27) {
          float x[9 * 32], y[37 * 33], to[9 * 40];
          draw(x, 9 * 32, 5);
          draw(y, 37 * 33, 6);
          k->dots(&(attention_dots){.m = m,
                                    .n = n,
                                    .d = width,
                                    .q = x,
                                    .q_row = 32,
                                    .rows = y,
                                    .row = 33,
                                    .to = to,
                                    .to_row = 40});
          double worst = 0;
          for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
              double sum = 0;
              for (int p = 0; p < width; p++)
                sum += (double)x[i * 32 + p] * (double)y[j * 33 + p];
              worst = fmax(worst, fabs(sum - (double)to[i * 40 + j]));
            }
          CHECK(worst < 1e-5);
        }
  }
}

TEST(halves_become_floats) {
  static const uint16_t f16[] = {0x3c00, 0xc000, 0x0001, 0x7c00, 0xfc00, 0x8000, 0x3555};
  static const uint16_t bf16[] = {0x3f80, 0xc000, 0x0001, 0x7f80, 0xff80, 0x8000, 0x3eab};
  static const float want[] = {1, -2, 0x1p-24f, INFINITY, -INFINITY, -0.0f, 0.333251953125f};
  enum { TIMES = 5, N = TIMES * COUNT_OF(want) };
  uint16_t from[2][N];
  float to[2][N];
  for (size_t i = 0; i < N; i++) {
    from[0][i] = f16[i % COUNT_OF(want)];
    from[1][i] = bf16[i % COUNT_OF(want)];
  }
  EACH_SET(k) {
    k->widen_f16(from[0], N, to[0]);
    k->widen_bf16(from[1], N, to[1]);
    for (size_t i = 0; i < N; i++) {
      CHECK(to[0][i] == want[i % COUNT_OF(want)]);
      size_t j = i % COUNT_OF(want);
      CHECK(to[1][i] == (j == 2 ? 0x1p-133f : j == 6 ? 0.333984375f : want[j]));
    }
  }
}
