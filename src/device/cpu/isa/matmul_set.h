/* What the files of one instruction set's matmul kernels share: the tile, and functions of the table. */
#ifndef SINEW_DEVICE_CPU_ISA_MATMUL_SET_H
#define SINEW_DEVICE_CPU_ISA_MATMUL_SET_H

#include "device/cpu/isa/matmul.h"
#include "device/cpu/isa/vec.h"

/* Of 32 registers 24 are sums, of 16 twelve. */
#if defined(ISA_avx512) || defined(__aarch64__)
enum { TILE_ROWS = 12 };
#define EACH_ROW(do) \
  do                 \
  (0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11)
#else
enum { TILE_ROWS = 6 };
#define EACH_ROW(do) \
  do                 \
  (0) do(1) do(2) do(3) do(4) do(5)
#endif
enum { TILE_COLS = 2 * VEC };

void ISA(matmul_pack)(const float *from, int64_t row, int64_t k_step, int64_t n, int64_t k,
                      int width, float *to, int64_t panel);

void ISA(matmul_pack_rows)(const float *from, int64_t k_step, int64_t n, int64_t k, int width,
                           int lane, float *to, int64_t panel);

void ISA(matmul_dots)(const matmul_rows *w, const float *x, int64_t apart, int count, float *to,
                      int64_t to_apart);
void ISA(matmul_add_rows)(const matmul_rows *w, const float *x, int64_t apart, int count, float *to,
                          int64_t to_apart);

bool ISA(matmul_in_chain)(int code);
void ISA(matmul_chain)(const struct lane_step *steps, int n_steps, int n);

extern const matmul_kernels ISA(matmul_kernels);

#endif
