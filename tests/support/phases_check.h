/* What plan_phases (src/device/vulkan/phases.c) finds, checked pair by pair. */
#ifndef SINEW_TESTS_SUPPORT_PHASES_CHECK_H
#define SINEW_TESTS_SUPPORT_PHASES_CHECK_H

#include "device/vulkan/emit.h"

typedef struct phases_tally {
  int phases; /* of main */
  int barriers; /* as many begin where steps have barriers, and launches wait for those of their step */
} phases_tally;

/* Of launches that steps of a program became: those that conflict are in different phases, in their order, and none could be in an
 * earlier one. */
phases_tally phases_check(sn_ctx *ctx, const program *p, const step_launches *made);

#endif
