/* Kernels for random words and for the numbers that words and elements are found by, on every instruction set. */
#include "base/philox.h"
#include "device/cpu/isa/lanes.h"
#include "support/cpu_case.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

enum { LANES = 1024 };

static uint64_t draw(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33 ^ *seed >> 11;
}

/* --- words --- */

typedef struct words_case {
  int64_t numbers[LANES];
  uint32_t low[LANES], high[LANES], counter[LANES], out[LANES + 1];
} words_case;

/* Pairs, fours, steps of any size, now and then somewhere else; keys that mostly stay. */
static void draw_lanes(words_case *c, uint64_t *seed) {
  bool keys = draw(seed) % 2;
  int64_t number = (int64_t)(draw(seed) % 50), by = (int64_t)(draw(seed) % 4);
  for (int i = 0; i < LANES; i++) {
    bool other = i == 0 || (keys && draw(seed) % 9 == 0);
    if (draw(seed) % 100 == 0)
      number = (int64_t)(draw(seed) >> (draw(seed) % 40));
    number += i % 2 ? by : 0;
    c->numbers[i] = number;
    c->low[i] = other ? (uint32_t)draw(seed) : c->low[i - 1];
    c->high[i] = other && draw(seed) % 2 ? (uint32_t)draw(seed) : c->high[i > 0 ? i - 1 : 0];
    c->counter[i] = other && draw(seed) % 2 ? (uint32_t)draw(seed) : c->counter[i > 0 ? i - 1 : 0];
  }
}

static uint32_t word_at(const words_case *c, int i, uint32_t stream) {
  uint64_t number = (uint64_t)c->numbers[i];
  uint32_t x[4] = {(uint32_t)(number / 4), (uint32_t)(number >> 34), c->counter[i], stream};
  philox((const uint32_t[2]){c->low[i], c->high[i]}, x);
  return x[number % 4];
}

static void check_words(const cpu_isa *isa) {
  uint64_t seed = 1;
  words_case *c = calloc(1, sizeof *c);
  for (int round = 0; round < 200 && !test_failed(); round++) {
    draw_lanes(c, &seed);
    int n = round % 2 ? LANES : (int)(draw(&seed) % LANES);
    uint32_t stream = (uint32_t)draw(&seed);
    lane_words w = {c->numbers, c->low, c->high, c->counter, stream};
    c->out[n] = 77;
    isa->lanes->words(c->out, &w, n);
    CHECK_EQ_UINT(c->out[n], 77);
    for (int i = 0; i < n && !test_failed(); i++)
      if (c->out[i] != word_at(c, i, stream))
        FAIL("round %d, lane %d of %d", round, i, n);
  }
  free(c);
}

TEST_WALK(words) { cpu_case_each_isa(check_words); }

/* --- numbers --- */

static void check_divided(const cpu_isa *isa) {
  int64_t v[LANES];
  uint64_t seed = 5;
  for (int round = 0; round < 3000 && !test_failed(); round++) {
    int64_t div = 1 + (int64_t)(draw(&seed) % (round % 3 ? 9 : 900)), start = (int64_t)draw(&seed);
    int64_t mod = round % 4 ? 1 + (int64_t)(draw(&seed) % 700) : 0, at = start % (3 * div * 700);
    int64_t stride = (int64_t)(draw(&seed) % 2000) - 1000;
    int n = 1 + (int)(draw(&seed) % LANES);
    for (int i = 0; i < n; i++)
      v[i] = start + i;
    isa->lanes->add_divided(v, stride, at, div, mod, n);
    for (int i = 0; i < n && !test_failed(); i++) {
      int64_t q = (at + i) / div;
      if (v[i] != start + i + stride * (mod ? q % mod : q))
        FAIL("lane %d: from %lld, / %lld %% %lld", i, (long long)at, (long long)div,
             (long long)mod);
    }
  }
}

TEST_WALK(divided) { cpu_case_each_isa(check_divided); }

/* --- normal numbers --- */

static double normal(uint32_t a, uint32_t b, bool second) {
  double angle = 6.28318530717958647693 * ((b >> 8) * 0x1p-24);
  return sqrt(-2 * log(((a >> 8) + 1) * 0x1p-24)) * (second ? sin(angle) : cos(angle));
}

/* To 3 units in the last place (2 are seen): logarithms, angles, sines and products are rounded. Where a sine is 0, what is expected is
 * the rounding of its own angle, hence the least unit. */
static void check_gauss(const cpu_isa *isa) {
  int32_t a[LANES], b[LANES], second[LANES];
  float out[LANES];
  uint64_t seed = 9;
  double worst = 0;
  lane_alu gauss = isa->lanes->alu(ALU_gauss, SN_F32, SN_I32, 0);
  for (int round = 0; round < 500; round++) {
    for (int i = 0; i < LANES; i++) {
      a[i] = (int32_t)(round % 2 ? draw(&seed) : ~(draw(&seed) >> 12));
      b[i] = (int32_t)(round % 4 ? draw(&seed) : draw(&seed) << 22);
      second[i] = draw(&seed) % 2;
    }
    gauss(out, a, b, second, 0, 0, LANES);
    for (int i = 0; i < LANES; i++) {
      double want = normal((uint32_t)a[i], (uint32_t)b[i], second[i]);
      double unit = fmax(fabs(want), 1e-7) * 0x1p-23;
      worst = fmax(worst, fabs((double)out[i] - want) / unit);
    }
  }
  if (!(worst <= 3))
    FAIL("%.2f units", worst);
}

TEST_WALK(normal_numbers) { cpu_case_each_isa(check_gauss); }
