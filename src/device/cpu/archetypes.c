/* What runs each kind of step. */
#include "device/cpu/cpu.h"

const cpu_archetype cpu_archetypes[STEP_ARCHETYPES] = {
    [STEP_POINTWISE] = {cpu_run_loop, cpu_need_loop, .need_shared = cpu_need_shared_loop},
    [STEP_ROW] = {cpu_run_loop, cpu_need_loop, .need_shared = cpu_need_shared_loop},
    [STEP_MATMUL] = {cpu_run_matmul, cpu_need_matmul, .need_shared = cpu_need_shared_matmul,
                     .kept = cpu_kept_matmul, .keep = cpu_keep_matmul},
    [STEP_ATTENTION] = {cpu_run_attention, cpu_need_attention,
                        .need_shared = cpu_need_shared_attention},
    [STEP_ATTENTION_GRAD] = {cpu_run_attention_grad, cpu_need_attention_grad,
                             .need_shared = cpu_need_shared_attention_grad},
    [STEP_SCATTER] = {.run = cpu_run_scatter, .need = cpu_need_scatter},
    [STEP_SCAN] = {cpu_run_scan, cpu_need_scan, .need_shared = cpu_need_shared_scan},
    [STEP_SORT] = {cpu_run_sort, cpu_need_sort, .need_shared = cpu_need_shared_sort},
    [STEP_SAMPLE] = {.run = cpu_run_sample, .need = cpu_need_sample},
    [STEP_PERMUTE] = {cpu_run_permute, cpu_need_permute, .need_shared = cpu_need_shared_permute},
};
