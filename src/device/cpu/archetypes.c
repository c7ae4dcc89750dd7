/* What runs each kind of step. */
#include "device/cpu/cpu.h"

const cpu_archetype cpu_archetypes[STEP_ARCHETYPES] = {
    [STEP_POINTWISE] = {cpu_run_loop, cpu_need_loop, .alone = true},
    [STEP_ROW] = {cpu_run_loop, cpu_need_loop, .alone = true},
    [STEP_MATMUL] = {cpu_run_matmul, cpu_need_matmul, .alone = true},
    [STEP_ATTENTION] = {cpu_run_attention, cpu_need_attention, .alone = true},
    [STEP_ATTENTION_GRAD] = {cpu_run_attention_grad, cpu_need_attention_grad, .alone = true},
    [STEP_SCATTER] = {cpu_run_scatter, cpu_need_scatter, .alone = true},
    [STEP_SCAN] = {cpu_run_scan, cpu_need_scan, .alone = true},
    [STEP_SORT] = {cpu_run_sort, cpu_need_sort, .alone = true},
    [STEP_SAMPLE] = {cpu_run_sample, cpu_need_sample, .alone = true},
    [STEP_PERMUTE] = {cpu_run_permute, cpu_need_permute, .alone = true},
};
