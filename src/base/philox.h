/* Philox4x32-10: a function from (key, counter) to four 32-bit words. Nothing is carried from draw to draw,
 * so every device computes any word on its own and gets the same. */
#ifndef SINEW_BASE_PHILOX_H
#define SINEW_BASE_PHILOX_H

#include <stdint.h>

enum { PHILOX_ROUNDS = 10 };
#define PHILOX_BY_0  UINT32_C(0xD2511F53)
#define PHILOX_BY_2  UINT32_C(0xCD9E8D57)
#define PHILOX_KEY_0 UINT32_C(0x9E3779B9)
#define PHILOX_KEY_1 UINT32_C(0xBB67AE85)

static inline void philox_round(const uint32_t key[2], uint32_t x[4]) {
  uint64_t p = (uint64_t)PHILOX_BY_0 * x[0], q = (uint64_t)PHILOX_BY_2 * x[2];
  uint32_t y0 = (uint32_t)(q >> 32) ^ x[1] ^ key[0], y2 = (uint32_t)(p >> 32) ^ x[3] ^ key[1];
  x[0] = y0;
  x[1] = (uint32_t)q;
  x[2] = y2;
  x[3] = (uint32_t)p;
}

/* Turns the counter in x into the four words. */
static inline void philox(const uint32_t key[2], uint32_t x[4]) {
  uint32_t k[2] = {key[0], key[1]};
  for (int round = 0; round < PHILOX_ROUNDS; round++) {
    philox_round(k, x);
    k[0] += PHILOX_KEY_0;
    k[1] += PHILOX_KEY_1;
  }
}

#endif
