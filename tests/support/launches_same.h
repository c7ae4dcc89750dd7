/* Whether two programs' launches are the same to the last number: shaders by their words. */
#ifndef SINEW_TESTS_SUPPORT_LAUNCHES_SAME_H
#define SINEW_TESTS_SUPPORT_LAUNCHES_SAME_H

#include "device/vulkan/emit.h"

/* Facts of a large GPU with matrices, as an initialiser of a gpu_target. */
#define LARGE_GPU                                                                           \
  {                                                                                         \
    .subgroup = 32, .max_threads = 1024, .shared_bytes = 48 << 10, .block_bytes = 64 << 10, \
    .units = 132, .f16 = true, .bf16 = true, .matrix = {16, 16, 16}, .places = true,        \
    .bf16_places = true, .chains = true, .keeps_nan = true                                  \
  }

bool launches_same(const step_launches *a, const step_launches *b);

/* Emits all steps of a program, as the device does; `alike` tells whether steps serve for others like them (emit_alike.h).
 * *env names target and precision and gets the rest, in `memory`; out has room for all steps. *out_reused may be NULL. */
sn_status launches_emit(emit_env *env, sn_ctx *ctx, arena *memory, const program *p, bool alike,
                        step_launches *out, int *out_reused) SN_MUST_USE;

#endif
