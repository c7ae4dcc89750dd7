/* Lanes from memory and back: dense, strided, one for all, turned, by numbers. */
#include "device/cpu/isa/lanes_half.h"
#include "device/cpu/isa/lanes_set.h"
#include "device/cpu/isa/lanes_stream.h"
#include "device/cpu/isa/turn.h"

/* --- 32 bits, floats or not: only moved --- */
VEC_INLINE void copy_run(float *to, const float *from, int n) {
  int i = 0;
  for (; i + VEC <= n; i += VEC)
    vec_store(to + i, vec_load(from + i));
  if (i < n)
    vec_store_some(to + i, vec_load_some(from + i, n - i), n - i);
}
VEC_INLINE void fill_run(float *to, vec x, int n) {
  int i = 0;
  for (; i + VEC <= n; i += VEC)
    vec_store(to + i, x);
  if (i < n)
    vec_store_some(to + i, x, n - i);
}
/* to[r * to_by + i] = from[i * from_by + r] for r < rows, i < n, in squares of VEC x VEC. */
static void turn_block(float *to, int64_t to_by, const float *from, int64_t from_by, int rows,
                       int n) {
  int r = 0;
  for (; r + VEC <= rows; r += VEC) {
    int i = 0;
    for (; i + VEC <= n; i += VEC) {
      vec x[VEC];
      for (int k = 0; k < VEC; k++)
        x[k] = vec_load(from + (i + k) * from_by + r);
      vec_turn(x);
      for (int k = 0; k < VEC; k++)
        vec_store(to + (r + k) * to_by + i, x[k]);
    }
    for (int k = 0; k < VEC; k++)
      for (int j = i; j < n; j++)
        to[(r + k) * to_by + j] = from[j * from_by + r + k];
  }
  for (; r < rows; r++)
    for (int i = 0; i < n; i++)
      to[r * to_by + i] = from[i * from_by + r];
}

/* --- blocks --- */
static void stream_run(float *to, const float *from, int n) {
  int i = 0;
  for (; i < n && (uintptr_t)(to + i) % sizeof(vec) != 0; i++)
    to[i] = from[i];
  for (; i + VEC <= n; i += VEC)
    STREAM(to + i, vec_load(from + i));
  for (; i < n; i++)
    to[i] = from[i];
}

void ISA(lanes_copy)(float *to, const float *from, const lane_move *m) {
  for (int r = 0; r < m->rows; r++, to += m->to_by, from += m->from_by)
    if (m->past)
      stream_run(to, from, m->n);
    else
      copy_run(to, from, m->n);
}

/* A square; what lies TURN_AHEAD further along the runs will be wanted soon. */
enum { TURN_AHEAD = 64 };
VEC_INLINE void turn_square(float *to, const float *from, const lane_move *m, bool ahead,
                            bool past) {
  vec x[VEC];
  for (int k = 0; k < VEC; k++) {
    x[k] = vec_load(from + k * m->from_by);
    if (ahead)
      __builtin_prefetch(from + k * m->from_by + TURN_AHEAD, 0, 2);
  }
  vec_turn(x);
  for (int k = 0; k < VEC; k++)
    if (past)
      STREAM(to + k * m->to_by, x[k]);
    else
      vec_store(to + k * m->to_by, x[k]);
}

void ISA(lanes_turn)(float *to, const float *from, const lane_move *m) {
  const int rows = m->rows / VEC * VEC, n = m->n / VEC * VEC;
  const bool past = m->past && (uintptr_t)to % sizeof(vec) == 0 && m->to_by % VEC == 0;
  for (int i = 0; i < n; i += VEC)
    for (int r = 0; r < rows; r += VEC) {
      const float *square = from + r * m->from_by + i;
      bool ahead = i % 16 == 0 && i + TURN_AHEAD < m->n;
      if (past)
        turn_square(to + i * m->to_by + r, square, m, ahead, true);
      else
        turn_square(to + i * m->to_by + r, square, m, ahead, false);
    }
  for (int i = 0; i < m->n; i++)
    for (int r = i < n ? rows : 0; r < m->rows; r++)
      to[i * m->to_by + r] = from[r * m->from_by + i];
}

/* Windows of stride two. The elements between are not touched: another thread may be writing them, or they lie past the end. */
static void read_every_second(float *to, const float *from, int n) {
  int i = 0;
#if defined(ISA_avx512)
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __mmask16 ours = 0x5555;
  for (; i + VEC <= n; i += VEC) {
    __m512 low = _mm512_maskz_loadu_ps(ours, from + 2 * i);
    __m512 high = _mm512_maskz_loadu_ps(ours, from + 2 * i + VEC);
    vec_store(to + i, _mm512_permutex2var_ps(low, even, high));
  }
#endif
  for (; i < n; i++)
    to[i] = from[2 * i];
}

static void read_32(float *to, const float *from, const lane_block *b) {
  if (b->row_by == 1 && b->by != 0 && b->by != 1 && b->rows >= VEC && b->n >= VEC) {
    turn_block(to, b->n, from, b->by, b->rows, b->n);
    return;
  }
  const int n = b->n;
  const int64_t by = b->by;
  for (int r = 0; r < b->rows; r++, to += n, from += b->row_by)
    if (by == 1)
      copy_run(to, from, n);
    else if (by == 0)
      fill_run(to, vec_all(*from), n);
    else if (by == 2)
      read_every_second(to, from, n);
    else
      for (int i = 0; i < n; i++)
        to[i] = from[i * by];
}

static void write_32(float *to, const float *from, const lane_block *b) {
  if (b->row_by == 1 && b->by != 1 && b->rows >= VEC && b->n >= VEC) {
    turn_block(to, b->by, from, b->n, b->n, b->rows);
    return;
  }
  const int n = b->n;
  const int64_t by = b->by;
  for (int r = 0; r < b->rows; r++, to += b->row_by, from += n)
    if (by == 1)
      copy_run(to, from, n);
    else
      for (int i = 0; i < n; i++)
        to[i * by] = from[i];
}

void ISA(lanes_stream)(void *to, const void *lanes, const lane_block *b) {
  for (int r = 0; r < b->rows; r++)
    stream_run((float *)to + r * b->row_by, (const float *)lanes + r * b->n, b->n);
}

void ISA(lanes_fence)(void) {
#if defined(ISA_avx512) || defined(ISA_avx2) || defined(__SSE2__)
  _mm_sfence();
#endif
}

void ISA(lanes_ramp)(int32_t *lanes, int32_t start, int32_t by, int n) {
  uint32_t v = (uint32_t)start;
  for (int i = 0; i < n; i++)
    lanes[i] = (int32_t)(v + (uint32_t)i * (uint32_t)by);
}

/* --- other widths --- */
/* Runs of VEC by load or store, if dense; the rest lane by lane. */
#define READ(name, MEMORY, LANE, vectors, convert)                                               \
  static void read_##name(LANE *restrict to, const MEMORY *restrict from, const lane_block *b) { \
    const int n = b->n;                                                                          \
    const int64_t by = b->by;                                                                    \
    for (int r = 0; r < b->rows; r++, to += n, from += b->row_by) {                              \
      int i = 0;                                                                                 \
      if (by == 1)                                                                               \
        vectors;                                                                                 \
      for (; i < n; i++)                                                                         \
        to[i] = convert(from[i * by]);                                                           \
    }                                                                                            \
  }
#define WRITE(name, MEMORY, LANE, vectors, convert)                                               \
  static void write_##name(MEMORY *restrict to, const LANE *restrict from, const lane_block *b) { \
    const int n = b->n;                                                                           \
    const int64_t by = b->by;                                                                     \
    for (int r = 0; r < b->rows; r++, to += b->row_by, from += n) {                               \
      int i = 0;                                                                                  \
      if (by == 1)                                                                                \
        vectors;                                                                                  \
      for (; i < n; i++)                                                                          \
        to[i * by] = convert(from[i]);                                                            \
    }                                                                                             \
  }
#define RUNS(statement)          \
  for (; i + VEC <= n; i += VEC) \
  statement
#define TO_U8(v)   ((uint8_t)(v))
#define TO_BOOL(v) ((v) != 0)
#define SAME(v)    (v)
READ(f16, uint16_t, float, RUNS(vec_store(to + i, vec_load_f16(from + i))), half_widen)
READ(bf16, uint16_t, float, RUNS(vec_store(to + i, vec_load_bf16(from + i))), bf16_to_f32)
READ(u8, uint8_t, int32_t, for (; i < n; i++) to[i] = from[i], SAME)
WRITE(f16, uint16_t, float, RUNS(vec_store_f16(to + i, vec_load(from + i))), half_narrow)
WRITE(bf16, uint16_t, float, RUNS(vec_store_bf16(to + i, vec_load(from + i))), bf16_narrow)
WRITE(u8, uint8_t, int32_t, for (; i < n; i++) to[i] = TO_U8(from[i]), TO_U8)
WRITE(bool, uint8_t, int32_t, for (; i < n; i++) to[i] = TO_BOOL(from[i]), TO_BOOL)

void ISA(lanes_read)(sn_dtype dtype, void *lanes, const void *from, const lane_block *b) {
  switch (dtype) {
  case SN_F32:
  case SN_I32: read_32(lanes, from, b); break;
  case SN_F16: read_f16(lanes, from, b); break;
  case SN_BF16: read_bf16(lanes, from, b); break;
  default: read_u8(lanes, from, b); break;
  }
}

void ISA(lanes_write)(sn_dtype dtype, void *to, const void *lanes, const lane_block *b) {
  switch (dtype) {
  case SN_F32:
  case SN_I32: write_32(to, lanes, b); break;
  case SN_F16: write_f16(to, lanes, b); break;
  case SN_BF16: write_bf16(to, lanes, b); break;
  case SN_BOOL: write_bool(to, lanes, b); break;
  default: write_u8(to, lanes, b); break;
  }
}

/* --- by numbers --- */
void ISA(lanes_begin_numbers)(int64_t *v, int64_t start, int64_t by, int n) {
  for (int i = 0; i < n; i++)
    v[i] = start + by * i;
}

void ISA(lanes_add_index)(int64_t *v, const int32_t *lanes, int64_t stride, int64_t mod, int n) {
  int32_t last = mod > INT32_MAX ? INT32_MAX : (int32_t)(mod - 1);
  if (mod <= 0)
    for (int i = 0; i < n; i++)
      v[i] += stride * lanes[i];
  else
    for (int i = 0; i < n; i++) {
      int32_t k = lanes[i] < 0 ? 0 : lanes[i];
      v[i] += stride * (k > last ? last : k);
    }
}

/* A power of two without a wrap is vector code. */
void ISA(lanes_add_divided)(int64_t *v, int64_t stride, int64_t at, int64_t div, int64_t mod,
                            int n) {
  int64_t q = mod ? at / div % mod : at / div, rest = at % div;
  if ((div & (div - 1)) == 0 && (mod == 0 || q + (rest + n) / div < mod)) {
    int shift = __builtin_ctzll((unsigned long long)div);
    for (int i = 0; i < n; i++)
      v[i] += stride * (q + (int64_t)((uint64_t)(rest + i) >> shift));
    return;
  }
  for (int i = 0; i < n; i++) {
    v[i] += stride * q;
    if (++rest == div) {
      rest = 0;
      q = q + 1 == mod ? 0 : q + 1;
    }
  }
}

void ISA(lanes_within)(uint8_t *inside, const int64_t *v, int64_t size, int n) {
  for (int i = 0; i < n; i++)
    inside[i] &= (uint8_t)((v[i] >= 0) & (v[i] < size));
}

#define BY_NUMBERS(name, MEMORY, LANE, widen, narrow)                                       \
  static void gather_##name(LANE *to, const MEMORY *from, const int64_t *numbers,           \
                            const uint8_t *inside, int n) {                                 \
    if (!inside)                                                                            \
      for (int i = 0; i < n; i++)                                                           \
        to[i] = widen(from[numbers[i]]);                                                    \
    else                                                                                    \
      for (int i = 0; i < n; i++)                                                           \
        to[i] = inside[i] ? widen(from[numbers[i]]) : 0;                                    \
  }                                                                                         \
  static void scatter_##name(MEMORY *to, const LANE *from, const int64_t *numbers, int n) { \
    for (int i = 0; i < n; i++)                                                             \
      to[numbers[i]] = narrow(from[i]);                                                     \
  }
BY_NUMBERS(32, float, float, SAME, SAME)
BY_NUMBERS(f16, uint16_t, float, half_widen, half_narrow)
BY_NUMBERS(bf16, uint16_t, float, bf16_to_f32, bf16_narrow)
BY_NUMBERS(u8, uint8_t, int32_t, SAME, TO_U8)

void ISA(lanes_gather)(sn_dtype dtype, void *lanes, const void *from, const int64_t *numbers,
                       const uint8_t *inside, int n) {
  switch (dtype) {
  case SN_F32:
  case SN_I32: gather_32(lanes, from, numbers, inside, n); break;
  case SN_F16: gather_f16(lanes, from, numbers, inside, n); break;
  case SN_BF16: gather_bf16(lanes, from, numbers, inside, n); break;
  default: gather_u8(lanes, from, numbers, inside, n); break;
  }
}

void ISA(lanes_scatter)(sn_dtype dtype, void *to, const void *lanes, const int64_t *numbers,
                        int n) {
  switch (dtype) {
  case SN_F32:
  case SN_I32: scatter_32(to, lanes, numbers, n); break;
  case SN_F16: scatter_f16(to, lanes, numbers, n); break;
  case SN_BF16: scatter_bf16(to, lanes, numbers, n); break;
  case SN_BOOL:
    for (int i = 0; i < n; i++)
      ((uint8_t *)to)[numbers[i]] = TO_BOOL(((const int32_t *)lanes)[i]);
    break;
  default: scatter_u8(to, lanes, numbers, n); break;
  }
}
