/* Random words. A block of Philox is four of them, and lanes side by side mostly want those of one: blocks are listed first, each
 * once for its run of lanes, then computed many at a time, and lanes pick their words. */
#include "device/cpu/isa/lanes_set.h"

#include "base/philox.h"

enum { LANES = 256, AT_ONCE = 2 };

/* By block; `x` is its counter, then its words. */
typedef struct word_blocks {
  uint32_t x[4][LANES], key[2][LANES];
  int n;
} word_blocks;

#if defined(ISA_avx512) || defined(ISA_avx2)
/* The 64 bits of each product. */
VEC_INLINE void multiply_wide(vec_u32 a, uint32_t by, vec_u32 *low, vec_u32 *high) {
#if defined(ISA_avx512)
  __m512i b = _mm512_set1_epi32((int)by), x = (__m512i)a;
  __m512i even = _mm512_mul_epu32(x, b), odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), b);
  *low = (vec_u32)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
  *high = (vec_u32)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
#else
  __m256i b = _mm256_set1_epi32((int)by), x = (__m256i)a;
  __m256i even = _mm256_mul_epu32(x, b), odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), b);
  *low = (vec_u32)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
  *high = (vec_u32)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
#endif
}

/* As philox_round, of VEC blocks. */
VEC_INLINE void round_all(const vec_u32 key[2], vec_u32 x[4]) {
  vec_u32 p, p_high, q, q_high;
  multiply_wide(x[0], PHILOX_BY_0, &p, &p_high);
  multiply_wide(x[2], PHILOX_BY_2, &q, &q_high);
  x[0] = q_high ^ x[1] ^ key[0];
  x[1] = q;
  x[2] = p_high ^ x[3] ^ key[1];
  x[3] = p;
}

/* Several vectors, so that one's products need not be waited for. Beyond the last block is room. */
static void compute(word_blocks *b) {
  for (int at = 0; at < b->n; at += AT_ONCE * VEC) {
    vec_u32 x[AT_ONCE][4], key[AT_ONCE][2];
    for (int k = 0; k < AT_ONCE; k++) {
      for (int i = 0; i < 4; i++)
        memcpy(&x[k][i], b->x[i] + at + k * VEC, sizeof x[k][i]);
      for (int i = 0; i < 2; i++)
        memcpy(&key[k][i], b->key[i] + at + k * VEC, sizeof key[k][i]);
    }
    for (int round = 0; round < PHILOX_ROUNDS; round++)
      for (int k = 0; k < AT_ONCE; k++) {
        round_all(key[k], x[k]);
        key[k][0] += PHILOX_KEY_0;
        key[k][1] += PHILOX_KEY_1;
      }
    for (int k = 0; k < AT_ONCE; k++)
      for (int i = 0; i < 4; i++)
        memcpy(b->x[i] + at + k * VEC, &x[k][i], sizeof x[k][i]);
  }
}
#else
static void compute(word_blocks *b) {
  for (int at = 0; at < b->n; at++) {
    uint32_t x[4] = {b->x[0][at], b->x[1][at], b->x[2][at], b->x[3][at]};
    philox((const uint32_t[2]){b->key[0][at], b->key[1][at]}, x);
    for (int i = 0; i < 4; i++)
      b->x[i][at] = x[i];
  }
}
#endif

static bool has_one_key(const lane_words *w, int from, int n) {
  uint32_t differ = 0;
  for (int i = from; i < from + n; i++)
    differ |= (w->low[i] ^ w->low[from]) | (w->high[i] ^ w->high[from]) |
              (w->counter[i] ^ w->counter[from]);
  return differ == 0;
}

/* The blocks of n lanes; places[i]: which of them is lane i's. */
static void list_blocks(word_blocks *b, const lane_words *w, int from, int n, uint16_t *places) {
  bool one_key = has_one_key(w, from, n);
  uint64_t last = UINT64_MAX;
  b->n = 0;
  for (int i = 0; i < n; i++) {
    int lane = from + i;
    uint64_t block = (uint64_t)w->numbers[lane] / 4;
    if (block != last ||
        (!one_key && (w->low[lane] != w->low[lane - 1] || w->high[lane] != w->high[lane - 1] ||
                      w->counter[lane] != w->counter[lane - 1]))) {
      b->x[0][b->n] = (uint32_t)block;
      b->x[1][b->n] = (uint32_t)(block >> 32);
      b->x[2][b->n] = w->counter[lane];
      b->x[3][b->n] = w->stream;
      b->key[0][b->n] = w->low[lane];
      b->key[1][b->n++] = w->high[lane];
      last = block;
    }
    places[i] = (uint16_t)(b->n - 1);
  }
}

void ISA(lanes_words)(uint32_t *lanes, const lane_words *w, int n) {
  word_blocks b;
  uint16_t places[LANES];
  for (int from = 0; from < n; from += LANES) {
    int here = n - from < LANES ? n - from : LANES;
    list_blocks(&b, w, from, here, places);
    compute(&b);
    for (int i = 0; i < here; i++)
      lanes[from + i] = b.x[w->numbers[from + i] & 3][places[i]];
  }
}
