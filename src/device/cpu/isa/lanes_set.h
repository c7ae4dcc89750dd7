/* Between the files of the region machine's kernels. See lanes.h. */
#ifndef SINEW_DEVICE_CPU_ISA_LANES_SET_H
#define SINEW_DEVICE_CPU_ISA_LANES_SET_H

#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/math.h"

bool ISA(lanes_in_chain)(alu code);
void ISA(lanes_chain)(lane_step *steps, int n_steps, int n);

lane_row ISA(lanes_find_row)(const lane_step *steps, int n_steps, int n);
/* What a row came to, to the partial results that the last step names, if it reduces. */
void ISA(lanes_add_row)(const lane_step *last, double v);

double ISA(lanes_total)(reduce_kind kind, const double *sums);
void ISA(lanes_reduce)(reduce_kind kind, bool floats, void *sums, const void *lanes, int n);
void ISA(lanes_reduce_wide)(reduce_kind kind, bool floats, void *acc, const void *lanes, int n);

void ISA(lanes_read)(sn_dtype dtype, void *lanes, const void *from, const lane_block *b);
void ISA(lanes_write)(sn_dtype dtype, void *to, const void *lanes, const lane_block *b);
void ISA(lanes_stream)(void *to, const void *lanes, const lane_block *b);
void ISA(lanes_fence)(void);
void ISA(lanes_copy)(float *to, const float *from, const lane_move *m);
void ISA(lanes_turn)(float *to, const float *from, const lane_move *m);
void ISA(lanes_words)(uint32_t *lanes, const lane_words *w, int n);
void ISA(lanes_ramp)(int32_t *lanes, int32_t start, int32_t by, int n);
void ISA(lanes_begin_numbers)(int64_t *v, int64_t start, int64_t by, int n);
void ISA(lanes_add_index)(int64_t *v, const int32_t *lanes, int64_t stride, int64_t mod, int n);
void ISA(lanes_add_divided)(int64_t *v, int64_t stride, int64_t at, int64_t div, int64_t mod,
                            int n);
void ISA(lanes_within)(uint8_t *inside, const int64_t *v, int64_t size, int n);
void ISA(lanes_gather)(sn_dtype dtype, void *lanes, const void *from, const int64_t *numbers,
                       const uint8_t *inside, int n);
void ISA(lanes_scatter)(sn_dtype dtype, void *to, const void *lanes, const int64_t *numbers, int n);

#endif
